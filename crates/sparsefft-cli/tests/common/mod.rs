//! What the end-to-end tests share: the binary, small signals, npy files.
#![allow(dead_code)] // each test file uses its part

use num_complex::Complex;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command under test.
pub fn sparsefft() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_sparsefft"));
    c.env_remove("COLUMNS").env_remove("NO_COLOR");
    c
}

/// Runs the command with these arguments.
pub fn run<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(args: I) -> Output {
    sparsefft().args(args).output().expect("the binary runs")
}

pub fn stdout(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).expect("stdout is UTF-8")
}

pub fn stderr(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).expect("stderr is UTF-8")
}

/// Asserts exit 2, nothing on stdout, and one sentence on stderr that holds these words.
pub fn refused(output: &Output, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(stdout(output), "", "data on stdout beside an error");
    let first = message.lines().next().unwrap_or_default();
    for w in words {
        assert!(first.contains(w), "'{w}' is missing in: {message}");
    }
    assert!(!message.contains("panicked"), "{message}");
    if first.starts_with("sparsefft:") {
        assert_eq!(message.lines().count(), 1, "more than one sentence: {message}");
    }
}

/// Complex tones a·e^{2πi ft/n}.
pub fn tones(n: usize, list: &[(usize, Complex<f64>)]) -> Vec<Complex<f64>> {
    (0..n)
        .map(|t| {
            let turn = |f: usize| std::f64::consts::TAU * (f * t % n) as f64 / n as f64;
            list.iter().map(|&(f, a)| a * Complex::cis(turn(f))).sum()
        })
        .collect()
}

/// A portable stream of uniform numbers in [-1, 1).
pub fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / 4503599627370496.0 - 1.0
    }
}

/// A .npy file: header for this dtype and shape, then these bytes.
pub fn npy(dir: &Path, name: &str, descr: &str, shape: &str, data: &[u8]) -> PathBuf {
    npy_order(dir, name, descr, false, shape, data)
}

pub fn npy_order(
    dir: &Path,
    name: &str,
    descr: &str,
    fortran: bool,
    shape: &str,
    data: &[u8],
) -> PathBuf {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("the file can be written");
    path
}

/// A one-dimensional complex128 .npy file.
pub fn npy_c16(dir: &Path, name: &str, x: &[Complex<f64>]) -> PathBuf {
    let data: Vec<u8> =
        x.iter().flat_map(|v| [v.re.to_le_bytes(), v.im.to_le_bytes()].concat()).collect();
    npy(dir, name, "'<c16'", &format!("({},)", x.len()), &data)
}

/// A one-dimensional float64 .npy file.
pub fn npy_f8(dir: &Path, name: &str, x: &[f64]) -> PathBuf {
    let data: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy(dir, name, "'<f8'", &format!("({},)", x.len()), &data)
}

/// The object that `--json` printed.
pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// Indices of the peaks in an object of `peaks --json`.
pub fn indices(value: &serde_json::Value) -> Vec<u64> {
    let peaks = value["peaks"].as_array().expect("peaks is an array");
    peaks.iter().map(|p| p["index"].as_u64().expect("index is a whole number")).collect()
}
