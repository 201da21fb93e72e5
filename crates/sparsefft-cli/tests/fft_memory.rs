//! `fft` in bounded memory: the two passes over the disk give what the transform in memory gives.

mod common;

use common::*;
use num_complex::Complex;
use std::path::Path;
use std::process::Output;

/// The complex128 data of a .npy file, and its header.
fn load(path: &Path) -> (Vec<u8>, Vec<Complex<f64>>) {
    let bytes = std::fs::read(path).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let number = |b: &[u8]| f64::from_le_bytes(b.try_into().unwrap());
    let values = bytes[start..].chunks_exact(16);
    let values = values.map(|b| Complex::new(number(&b[..8]), number(&b[8..]))).collect();
    (bytes[..start].to_vec(), values)
}

fn fft(file: &Path, out: &Path, more: &[&str]) -> Output {
    sparsefft().args(["-v", "fft"]).arg(file).arg("-o").arg(out).args(more).output().unwrap()
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn over_the_disk_as_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = noise(7);
    // A power of two, and panels that do not divide the length; integers, and real samples.
    let complex: Vec<u8> =
        (0..1 << 17).flat_map(|_| ((random() * 3e4) as i16).to_le_bytes()).collect();
    let real: Vec<f64> = (0..300 * 210).map(|_| random()).collect();
    let (a, b) = (dir.path().join("a.cs16"), npy_f8(dir.path(), "b.npy", &real));
    std::fs::write(&a, complex).unwrap();
    for (file, memory, norm) in
        [(&a, "128Ki", "backward"), (&a, "0.5M", "ortho"), (&b, "200k", "forward")]
    {
        let (whole, bounded) = (dir.path().join("whole.npy"), dir.path().join("bounded.npy"));
        let done = fft(file, &whole, &["--norm", norm]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        assert!(stderr(&done).contains("in memory"), "{}", stderr(&done));
        let done = fft(file, &bounded, &["--norm", norm, "--memory", memory]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        assert!(stderr(&done).contains("out of core"), "{}", stderr(&done));
        let ((header, expected), (same, got)) = (load(&whole), load(&bounded));
        assert_eq!(header, same);
        assert_eq!(expected.len(), got.len());
        let energy: f64 = expected.iter().map(|v| v.norm_sqr()).sum();
        let off: f64 = expected.iter().zip(&got).map(|(e, g)| (e - g).norm_sqr()).sum();
        let bound = 3.0 * f64::EPSILON * (got.len() as f64).log2().sqrt();
        assert!(
            energy > 0.0 && (off / energy).sqrt() <= bound,
            "{norm}: {:e}",
            (off / energy).sqrt()
        );
        // The recordings and the two results: no scratch file stays.
        assert_eq!(files(dir.path()), 4);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.npy");
    let mut x = vec![1.0; 1 << 16];
    let file = npy_f8(dir.path(), "x.npy", &x);
    refused_quietly(&file, &out, &["--memory", "16Ki"], &["--memory 16384", "allow 65536"]);
    refused_quietly(&file, &out, &["--memory", "1M", "--count", "65521"], &["65521", "--count"]);
    refused_quietly(&file, &out, &["--memory", "0"], &["--memory"]);
    // Found while the samples are copied; it lies in the last block.
    x[65_000] = f64::INFINITY;
    let file = npy_f8(dir.path(), "x.npy", &x);
    refused_quietly(&file, &out, &["--memory", "128Ki"], &["sample 65000", "finite"]);
    assert_eq!(files(dir.path()), 1);
}

fn refused_quietly(file: &Path, out: &Path, more: &[&str], words: &[&str]) {
    let done = sparsefft().arg("fft").arg(file).arg("-o").arg(out).args(more).output().unwrap();
    refused(&done, words);
}
