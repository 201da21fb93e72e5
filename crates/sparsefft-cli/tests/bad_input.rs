//! Bad input: one clear sentence on stderr, exit 2, nothing on stdout.

mod common;

use common::*;

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
fn files_of_other_programs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.bin");
    for (bytes, words) in [
        (&b"MATLAB 5.0 MAT-file, Platform: GLNXA64"[..], ["Matlab", "scipy.io.loadmat"]),
        (b"\x89HDF\r\n\x1a\n", ["HDF5", "h5py"]),
        (b"000001D ANMO  00BHZIU", ["miniSEED", "obspy"]),
        (b"SIMPLE  =                    T", ["FITS", "astropy"]),
        (b"PAR1", ["Parquet", "pandas"]),
        (b"\x1f\x8b\x08\0", ["gzip", "sparsefft peaks -"]),
        (b"1.5\n2.25\n-0.125\n", ["text", "numpy.genfromtxt"]),
    ] {
        std::fs::write(&path, bytes).unwrap();
        refused(&peaks(&path, &[]), &words);
    }
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

/// A number below zero is refused as the value that it is, and not as an option that is not known.
#[test]
fn numbers_below_zero() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 64]);
    for option in ["--seed", "--skip", "--count", "--accuracy", "--tolerance", "--rate", "--row"] {
        let output = peaks(&file, &[option, "-1"]);
        refused(&output, &["-1", option.trim_start_matches('-')]);
        assert!(!stderr(&output).contains("unexpected"), "{}", stderr(&output));
    }
    let file = file.to_str().unwrap();
    for more in [["fft", file, "--memory"], ["waterfall", file, "--blocks"]] {
        let mut list = more.to_vec();
        list.extend(["-1", "-o", "none.png"]);
        let output = run(&list);
        refused(&output, &["-1", more[2]]);
        assert!(!stderr(&output).contains("unexpected"), "{}", stderr(&output));
    }
    // Centres and levels may be below zero.
    let output = peaks(std::path::Path::new(file), &["--center", "-5", "--rate", "8", "-k", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_algorithm_of_the_grid_between_the_bins() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 64]);
    let output = peaks(&file, &["--mode", "tones", "--algorithm", "exact"]);
    refused(&output, &["exact", "--mode tones", "leave out"]);
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

#[test]
fn sizes_beyond_all_measure() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 64]);
    let file = file.to_str().unwrap();
    refused(&run(["plan", "-n", "2^40", "-k", "2^40"]), &["1099511627776", "too many"]);
    refused(&run(["plan", "-n", "2^52", "-k", "2^52"]), &["too many"]);
    refused(&run(["plan", "-n", "2^52", "-k", "2^52", "--one-pass"]), &["too many"]);
    refused(&run(["plan", "-n", "2^53"]), &["9007199254740992", "too large"]);
    refused(&run(["plan", "-n", "18446744073709551615", "-k", "3"]), &["too large"]);
    refused(&run(["peaks", file, "-k", "2^63"]), &["2^63", "too large"]);
    refused(&run(["peaks", file, "-k", "2^50"]), &["1125899906842624", "64"]);
    refused(&run(["peaks", file, "--skip", "18446744073709551615"]), &["--skip"]);
    refused(&run(["peaks", file, "--count", "18446744073709551615"]), &["--count"]);
    refused(&run(["demo", "-n", "2^52", "-k", "3"]), &["memory"]);
    let sketch = ["sketch", file, "--of", "2^52", "-k", "3", "--start", "18446744073709551615"];
    let out = dir.path().join("x.sk");
    refused(&run([&sketch[..], &["-o", out.to_str().unwrap()]].concat()), &["outside"]);
}

#[test]
fn signals_and_files_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // More than any disk has: refused before the first byte.
    for name in ["x.cf32", "x.npy", "x.sigmf", "x.sigmf-meta"] {
        refused(&run(["gen", "-n", "2^50", "-o", &path(name)]), &["are to be written", "left"]);
    }
    let long = path("long.cs8");
    std::fs::File::create(&long).unwrap().set_len(2 << 40).unwrap();
    refused(&run(["fft", &long, "-o", &path("x.npy")]), &["32.0 TiB are to be written"]);
    // Levels that the samples cannot hold.
    let bin = path("x.bin");
    for args in [
        &["--tone", "0.1:800"][..],
        &["--tone", "0.1:1e300"],
        &["--noise", "1e300"],
        &["--noise", "1e300", "--type", "cs8"],
        &["--noise", "6300", "--type", "cf64"],
    ] {
        let args = [&["gen", "-n", "16", "-o", &bin, "--format", "raw"][..], args].concat();
        refused(&run(args), &["lower the levels"]);
    }
    let done = run(["gen", "-n", "16", "--tone", "0.1:800", "-o", &path("x.cf64")]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn axes_that_overflow() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 640]);
    let file = file.to_str().unwrap();
    let out = dir.path().join("x.svg");
    let out = out.to_str().unwrap();
    let (far, wide) = (["--rate", "1", "--center", "1e308"], ["--rate", "1e308"]);
    for command in
        [&["peaks", file][..], &["plot", file, "-o", out], &["waterfall", file, "-o", out]]
    {
        refused(&run([command, &far].concat()), &["centre frequency 1e308", "out of range"]);
        refused(&run([command, &wide].concat()), &["sample rate 1e308", "out of range"]);
        refused(&run([command, &["--rate", "1e-300"]].concat()), &["sample rate 1e-300"]);
    }
    // A label that is wider than its picture.
    let args = ["plot", file, "--size", "200x200", "--rate", "1", "--center", "123456789.123"];
    let done = run([&args[..], &["-o", out]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
}

/// Names and values with line breaks and escape sequences: still one line, and nothing that a
/// terminal would obey.
#[test]
fn control_characters_are_shown_not_sent() {
    for args in [
        &["peaks", "a\nb\u{1b}[31m.npy"][..],
        &["peaks", "x", "--format", "c\nf\u{7}32"],
        &["merge", "a\r\n.sk"],
        &["man", "a\nb"],
    ] {
        let output = run(args);
        refused(&output, &[]);
        let said = stderr(&output);
        assert!(said.ends_with('\n') && !said.trim_end().contains(char::is_control), "{said:?}");
    }
}

#[test]
fn a_search_without_a_number_is_not_refused_for_one() {
    let dir = tempfile::tempdir().unwrap();
    // So short that no sparse transform of all coefficients is possible.
    let x: Vec<_> =
        (0..2284).map(|t| num_complex::Complex::new((0.3 * f64::from(t)).sin(), 0.0)).collect();
    let file = npy_c16(dir.path(), "x.npy", &x);
    let out = run(["peaks", file.to_str().unwrap(), "--no-dense", "--json"]);
    assert!([Some(0), Some(3)].contains(&out.status.code()), "{}", stderr(&out));
    assert!(json(&out)["cost"]["attempts"].as_array().is_some());
}
