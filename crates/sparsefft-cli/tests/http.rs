//! Recordings behind an address, from a server of this file's own.
#![cfg(feature = "http")]

mod common;

use common::*;
use num_complex::Complex;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// Serves a file by ranges until the test ends.
fn serve(data: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is no concern of ours.
            let _ = answer(stream, &data);
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, data: &[u8]) -> std::io::Result<()> {
    let mut range = (0, data.len() - 1);
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_ascii_lowercase();
        if let Some((a, b)) = line.strip_prefix("range: bytes=").and_then(|r| r.split_once('-')) {
            range = (a.parse().unwrap(), b.parse::<usize>().unwrap().min(data.len() - 1));
        }
        if line.is_empty() {
            break;
        }
    }
    let part = &data[range.0..=range.1];
    write!(
        stream,
        "HTTP/1.1 206 Part\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        range.0,
        range.1,
        data.len(),
        part.len()
    )?;
    stream.write_all(part)
}

#[test]
fn few_bytes_of_an_object_give_its_peaks() {
    let dir = tempfile::tempdir().unwrap();
    let c = Complex::new;
    let x = tones(1 << 18, &[(777, c(1.0, 0.0)), (130_000, c(0.0, 0.5))]);
    let file = npy_c16(dir.path(), "x.npy", &x);
    let bytes = std::fs::read(&file).unwrap();
    let url = serve(bytes.clone()) + "/x.npy";
    let far = run(["peaks", &url, "-k", "2", "--json"]);
    assert_eq!(far.status.code(), Some(0), "{}", stderr(&far));
    let near = json(&run(["peaks", file.to_str().unwrap(), "-k", "2", "--json"]));
    assert_eq!(json(&far)["peaks"], near["peaks"]);
    let said = stderr(&far);
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.iter().position(|w| *w == "fetched").unwrap_or_else(|| panic!("{said}"));
    let fetched: usize = words[at + 1].parse().unwrap();
    assert!(fetched < bytes.len() / 2, "{said}");

    // Raw samples, and as a part.
    let url = serve(bytes[bytes.len() - (16 << 18)..].to_vec()) + "/x.cf64?key=1";
    let out = dir.path().join("x.sk");
    let out = out.to_str().unwrap();
    let done = run(["sketch", &url, "--of", "2^18", "--start", "0", "-k", "2", "-o", out]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(indices(&json(&run(["merge", out, "--json"]))), [777, 130_000]);

    refused(&run(["peaks", &url.replace("x.cf64", "x.wav")]), &["only .npy and raw"]);
    refused(&run(["peaks", "http://127.0.0.1:1/x.npy"]), &["127.0.0.1:1"]);
}
