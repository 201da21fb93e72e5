//! Bad input: one clear sentence on stderr, exit 2, nothing on stdout.

mod common;

use common::*;
use num_complex::Complex;
use std::io::Read;
use std::process::Stdio;

fn peaks(path: &std::path::Path, more: &[&str]) -> std::process::Output {
    sparsefft().arg("peaks").arg(path).args(more).output().unwrap()
}

#[test]
fn files_that_are_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    refused(&peaks(&path("none.npy"), &[]), &["none.npy", "no such file"]);
    refused(&peaks(dir.path(), &[]), &["directory"]);
    std::fs::write(path("empty.npy"), b"").unwrap();
    refused(&peaks(&path("empty.npy"), &[]), &["empty"]);
    std::fs::write(path("text.npy"), b"hello, this is no array at all").unwrap();
    refused(&peaks(&path("text.npy"), &[]), &[".npy", "numpy.save"]);
    std::fs::write(path("magic.npy"), b"\x93NUMPY\x01").unwrap();
    refused(&peaks(&path("magic.npy"), &[]), &["cut off"]);
    std::fs::write(path("version.npy"), b"\x93NUMPY\x09\x00\x05\x00{}   ").unwrap();
    refused(&peaks(&path("version.npy"), &[]), &["version 9"]);
}

#[test]
fn headers_that_lie() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let data = [0u8; 64];
    let file = npy(d, "long.npy", "'<f8'", "(1000,)", &data);
    refused(&peaks(&file, &[]), &["(1000)", "64 bytes", "truncated"]);
    let file = npy(d, "huge.npy", "'<f8'", "(18446744073709551615,)", &data);
    refused(&peaks(&file, &[]), &["truncated"]);
    let file = npy(d, "wrap.npy", "'<f8'", "(4294967296, 4294967296)", &data);
    refused(&peaks(&file, &[]), &["truncated"]);
    let file = npy(d, "zero.npy", "'<f8'", "(0,)", &[]);
    refused(&peaks(&file, &[]), &["empty"]);
}

#[test]
fn arrays_that_are_not_supported() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let data = [0u8; 128];
    for descr in ["'<f16'", "'<c32'", "'|O'", "'<U4'", "'|S3'", "'<M8[ns]'"] {
        let file = npy(d, "x.npy", descr, "(4,)", &data);
        refused(&peaks(&file, &[]), &["dtype", "astype"]);
    }
    let file = npy(d, "record.npy", "[('a', '<f4'), ('b', '<f4')]", "(4,)", &data);
    refused(&peaks(&file, &[]), &["structured"]);
    let file = npy_order(d, "fortran.npy", "'<f8'", true, "(4, 4)", &data);
    refused(&peaks(&file, &[]), &["Fortran", "ascontiguousarray"]);
    let file = npy(d, "cube.npy", "'<f8'", "(2, 2, 4)", &data);
    refused(&peaks(&file, &[]), &["3 dimensions"]);
}

#[test]
fn samples_that_are_not_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let mut x = vec![0.5; 256];
    x[17] = f64::NAN;
    let file = npy_f8(dir.path(), "nan.npy", &x);
    refused(&peaks(&file, &["--algorithm", "dense"]), &["sample 17", "NaN", "finite"]);
    x[17] = f64::INFINITY;
    let file = npy_f8(dir.path(), "inf.npy", &x);
    refused(&peaks(&file, &["--algorithm", "dense"]), &["sample 17", "inf"]);
}

#[test]
fn k_that_makes_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 64]);
    for k in ["0", "-3", "many", "1.5", "NaN", ""] {
        refused(&peaks(&file, &["-k", k]), &["-k", "at least 1"]);
    }
    refused(&peaks(&file, &["-k", "65"]), &["65", "64"]);
}

#[test]
fn usage_errors() {
    refused(&run(["peaks"]), &["required"]);
    refused(&run(["transmogrify"]), &["transmogrify"]);
    refused(&run(["plan", "-n", "0"]), &["at least 1"]);
    refused(&run(["plan", "-n", "64", "-k", "65"]), &["65"]);
    refused(&run(["plan", "-n", "2^60"]), &["-n"]);
    refused(&run(["demo", "-n", "16", "-k", "16"]), &["n/4"]);
}

#[cfg(unix)]
#[test]
fn unreadable_files() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 64]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything.
    if std::fs::File::open(&file).is_err() {
        refused(&peaks(&file, &[]), &["permissions"]);
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_told_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    // Enough output to fill the pipe: 8192 coefficients in CSV.
    let mut random = noise(3);
    let x: Vec<_> = (0..8192).map(|_| Complex::new(random(), random())).collect();
    let file = npy_c16(dir.path(), "x.npy", &x);
    let mut child = sparsefft()
        .arg("peaks")
        .arg(&file)
        .args(["-k", "8192", "--csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0u8; 16];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let rest = child.wait_with_output().unwrap();
    assert_eq!(rest.status.code(), Some(2));
    let message = String::from_utf8(rest.stderr).unwrap();
    assert!(message.contains("standard output was closed"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}
