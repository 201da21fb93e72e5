//! Whatever a server answers: an error in words, or samples; never a panic, and never a wait without end.
//!
//! The input is what a server on this machine sends, one answer for each connection, separated by `\n%%\n`.
#![no_main]

use num_complex::Complex;
use sparse::{Error, Samples};
use sparsefft_http::{Patience, Remote};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

/// What is still to be sent, last first.
static ANSWERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The address of the server.
static ADDRESS: LazyLock<String> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/x", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = Vec::new();
            let mut some = [0; 512];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut some) {
                    Ok(count) if count > 0 => request.extend(&some[..count]),
                    _ => break,
                }
            }
            let answer = ANSWERS.lock().expect("no panic while it is held").pop();
            let _ = stream.write_all(&answer.unwrap_or_default());
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    address
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut answers: Vec<Vec<u8>> = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(4).position(|w| w == b"\n%%\n") {
        answers.push(rest[..at].to_vec());
        rest = &rest[at + 4..];
    }
    answers.push(rest.to_vec());
    answers.reverse();
    *ANSWERS.lock().expect("no panic while it is held") = answers;
    let signal =
        match Remote::<i16>::open_with(&ADDRESS, 2, Patience::default().tries(1, Duration::ZERO)) {
            Ok(signal) => signal.threads(1),
            Err(refusal) => return in_words(&refusal),
        };
    let n = signal.len();
    if n == 0 {
        return;
    }
    let mut out = [Complex::ZERO; 3];
    let places = [n - 1, 0, n / 2];
    if let Err(refusal) = signal.read(&places, &mut out) {
        in_words(&refusal);
    }
    let some = n.min(3);
    if let Err(refusal) = signal.read_range(n - some, &mut out[..some as usize]) {
        in_words(&refusal);
    }
});

fn in_words(refusal: &Error) {
    let words = refusal.to_string();
    assert!(words.len() > 20 && !words.contains('\n'), "not one sentence: {words:?}");
}
