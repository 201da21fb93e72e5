//! Signals and spectra that numpy wrote (tests/fixtures/make.py): `fft` and `peaks` agree.

mod common;

use common::*;
use num_complex::Complex;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The complex128 data of a .npy file.
fn load(path: &std::path::Path) -> Vec<Complex<f64>> {
    let bytes = std::fs::read(path).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let number = |b: &[u8]| f64::from_le_bytes(b.try_into().unwrap());
    bytes[start..]
        .chunks_exact(16)
        .map(|b| Complex::new(number(&b[..8]), number(&b[8..])))
        .collect()
}

#[test]
fn fft_equals_numpy() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["c64_360", "c128_509", "f32_1000", "i16be_512", "f16_256", "u32_128"] {
        let out = dir.path().join("out.npy");
        let done = sparsefft()
            .arg("fft")
            .arg(fixture(&format!("{name}.npy")))
            .arg("-o")
            .arg(&out)
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(0), "{name}: {}", stderr(&done));
        let (ours, theirs) = (load(&out), load(&fixture(&format!("{name}.fft.npy"))));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        let energy: f64 = theirs.iter().map(|v| v.norm_sqr()).sum();
        let error: f64 = ours.iter().zip(&theirs).map(|(a, b)| (a - b).norm_sqr()).sum();
        assert!((error / energy).sqrt() < 1e-14, "{name}: {:e}", (error / energy).sqrt());
    }
}

#[test]
fn norms_scale_as_numpy_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.npy");
    let theirs = load(&fixture("c64_360.fft.npy"));
    for (norm, scale) in [("ortho", 1.0 / 360f64.sqrt()), ("forward", 1.0 / 360.0)] {
        let mut command = sparsefft();
        command.arg("fft").arg(fixture("c64_360.npy")).arg("-o").arg(&out);
        assert!(command.args(["--norm", norm]).status().unwrap().success());
        assert!((load(&out)[7] - theirs[7] * scale).norm() < 1e-12 * 360.0);
    }
}

#[test]
fn peaks_are_numpys_largest_values() {
    for (name, k, more) in [
        ("c64_360", 3, &[][..]),
        ("c128_509", 2, &[]),
        ("f32_1000", 4, &[]),
        ("i16be_512", 2, &[]),
        ("rows_2x256", 2, &["--row", "1"]),
    ] {
        let mut theirs = load(&fixture(&format!("{name}.fft.npy")));
        if name.starts_with("rows") {
            theirs.drain(..256);
        }
        let mut order: Vec<usize> = (0..theirs.len()).collect();
        order.sort_by(|&a, &b| theirs[b].norm().total_cmp(&theirs[a].norm()));
        order.truncate(k);
        order.sort_unstable();
        let out = sparsefft()
            .arg("peaks")
            .arg(fixture(&format!("{name}.npy")))
            .args(["--json", "-k", &k.to_string()])
            .args(more)
            .output()
            .unwrap();
        let v = json(&out);
        for (p, &f) in v["peaks"].as_array().unwrap().iter().zip(&order) {
            assert_eq!(p["index"], f as u64, "{name}");
            let value = Complex::new(p["re"].as_f64().unwrap(), p["im"].as_f64().unwrap());
            // A sparse answer averages the noise differently, by far less than one noise bin.
            let bound = 0.05 * theirs[f].norm();
            assert!((value - theirs[f]).norm() < bound, "{name}: {value} is not {}", theirs[f]);
        }
        assert_eq!(v["peaks"].as_array().unwrap().len(), k, "{name}");
    }
}
