//! `info`, and doubts about sample types.

mod common;

use common::{json, refused, run, stderr, stdout};
use std::path::Path;

/// Kinds of signals: each a function of the sample number and noise.
const KINDS: [&str; 7] =
    ["weak noise", "noise", "tone", "tone and noise", "impulses", "offset", "large offset"];

fn signal(kind: &str, n: usize) -> Vec<f64> {
    let mut uniform = common::noise(3);
    // Four uniform numbers are nearly Gaussian.
    let mut gauss = move || (0..4).map(|_| uniform()).sum::<f64>() * 0.866;
    let turn = |f: f64, t: usize| (std::f64::consts::TAU * f * t as f64).sin();
    (0..n)
        .map(|t| match kind {
            "weak noise" => 0.01 * gauss(),
            "noise" => 0.1 * gauss(),
            "tone" => 0.9 * turn(0.0123, t) + 0.001 * gauss(),
            "tone and noise" => 0.3 * turn(0.2123, t) + 0.03 * gauss(),
            "impulses" => gauss() * if t % 499 == 0 { 0.2 } else { 0.004 },
            "offset" => 0.3 + 0.01 * gauss(),
            _ => 0.95 + 0.01 * gauss(),
        })
        .collect()
}

/// The bytes of a signal as a type.
fn bytes(x: &[f64], kind: &str) -> Vec<u8> {
    let (name, big) = kind.strip_suffix("_be").map_or((kind, false), |name| (name, true));
    let number = |v: f64| -> Vec<u8> {
        match name {
            "s8" => ((v * 127.0).round() as i8).to_le_bytes().to_vec(),
            "u8" => ((v * 127.0).round() as i16 as u8 ^ 0x80).to_le_bytes().to_vec(),
            "s16" => ((v * 32767.0).round() as i16).to_le_bytes().to_vec(),
            "u16" => (((v * 32767.0).round() as i16) as u16 ^ 0x8000).to_le_bytes().to_vec(),
            "s32" => ((v * 2147483647.0).round() as i32).to_le_bytes().to_vec(),
            "f32" => (v as f32).to_le_bytes().to_vec(),
            _ => v.to_le_bytes().to_vec(),
        }
    };
    let order = |mut b: Vec<u8>| {
        if big {
            b.reverse();
        }
        b
    };
    x.iter().flat_map(|v| order(number(*v))).collect()
}

const TYPES: [&str; 10] =
    ["s8", "u8", "s16", "s16_be", "u16", "s32", "s32_be", "f32", "f32_be", "f64"];

fn doubts(path: &Path, format: &str) -> Vec<String> {
    let done = run(["info", path.to_str().unwrap(), "--format", format, "--json"]);
    let all = json(&done)["doubts"].as_array().unwrap().clone();
    all.iter().map(|d| d["format"].as_str().unwrap().to_owned()).collect()
}

/// Every kind of signal in every type, read as what it is.
#[test]
fn the_right_type_is_never_doubted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    for kind in KINDS {
        let x = signal(kind, 1 << 14);
        for own in TYPES {
            std::fs::write(&path, bytes(&x, own)).unwrap();
            for format in [own.to_owned(), format!("c{own}")] {
                assert_eq!(doubts(&path, &format), [""; 0], "{kind} as {format}");
            }
        }
    }
}

/// Every pair of types: a wrong one is doubted, where noise does not fill the range of the integers
/// and has more than a few codes. The upper halves of 32-bit integers are 16-bit integers in
/// earnest.
#[test]
fn a_wrong_type_is_doubted_and_the_right_one_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    for own in TYPES {
        let kind = if own.ends_with('8') { "noise" } else { "weak noise" };
        std::fs::write(&path, bytes(&signal(kind, 1 << 14), own)).unwrap();
        for wrong in TYPES.into_iter().filter(|w| *w != own) {
            let found = doubts(&path, wrong);
            let half = own.starts_with("s32") && wrong == own.replace("32", "16");
            assert!(!found.is_empty() || half, "{own} read as {wrong}");
            let signs = |t: &str| t.replace('u', "s");
            let named = found.iter().all(|f| signs(f) == signs(own));
            assert!(named, "{own} read as {wrong} looks like {found:?}");
        }
    }
}

/// Signals whose codes are few or at the ends of the range.
#[test]
fn keyed_and_clipped_signals_are_not_doubted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let mut uniform = common::noise(5);
    let bits: Vec<f64> = (0..1 << 14).map(|_| if uniform() > 0.0 { 0.95 } else { -0.95 }).collect();
    let square: Vec<f64> =
        signal("tone", 1 << 14).iter().map(|v| (3.0 * v).clamp(-1.0, 1.0)).collect();
    let keyed: Vec<f64> = (0..1 << 14)
        .map(|t| if t / 64 % 3 == 0 { 0.8 * (0.6 * t as f64).sin() } else { 0.0 })
        .collect();
    for (name, x) in [("bits", bits), ("clipped", square), ("keyed", keyed)] {
        for own in TYPES {
            std::fs::write(&path, bytes(&x, own)).unwrap();
            assert_eq!(doubts(&path, own), [""; 0], "{name} as {own}");
        }
    }
}

#[test]
fn peaks_voices_the_doubt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, bytes(&signal("tone and noise", 1 << 14), "f32")).unwrap();
    let path = path.to_str().unwrap();
    let right = run(["peaks", path, "--format", "cf32", "--json"]);
    assert!(!stderr(&right).contains("looks like"), "{}", stderr(&right));
    assert_eq!(json(&right)["doubts"].as_array().map(Vec::len), Some(0));
    let wrong = run(["peaks", path, "--format", "cs16", "--json"]);
    let said = stderr(&wrong);
    assert!(said.contains("looks like") && said.contains("--format cf32"), "{said}");
    assert_eq!(json(&wrong)["doubts"][0]["format"], "cf32");
    assert!(matches!(wrong.status.code(), Some(0 | 1 | 3)));
}

#[test]
fn info_measures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.s16");
    // Half of full scale with an offset of a quarter, and eight clipped samples.
    let mut x: Vec<f64> = (0..8000)
        .map(|t| 0.25 + 0.5 * (std::f64::consts::TAU * f64::from(t) / 80.0).sin())
        .collect();
    x[100..108].fill(1.0);
    std::fs::write(&path, bytes(&x, "s16")).unwrap();
    let path = path.to_str().unwrap();
    let answer = json(&run(["info", path, "--rate", "8k", "--json"]));
    let number = |name: &str| answer[name].as_f64().unwrap();
    assert_eq!((answer["n"].as_u64(), answer["number"].as_str()), (Some(8000), Some("i16")));
    assert_eq!(number("duration_s"), 1.0);
    assert!((number("rms_db") - 10.0 * (0.0625f64 + 0.125).log10()).abs() < 0.05);
    assert!((number("dc_db") - 20.0 * 0.25f64.log10()).abs() < 0.05);
    assert!((number("clipped_share") - 0.001).abs() < 1e-9);
    assert_eq!(number("peak"), 32767.0);
    let counts = answer["histogram"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|c| c.as_u64().unwrap()).sum::<u64>(), 8000);
    // Nothing lies below -0.25 of full scale: the lower six of sixteen cells are empty.
    assert!(counts[..6].iter().all(|c| c == 0) && counts[6] != 0, "{counts:?}");
    let text = stdout(&run(["info", path, "--rate", "8k"]));
    for word in
        ["8 000 real i16", "8.000000 kHz", "1.00 s", "dBFS", "0.100 %", "levels", "read as", "fits"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    refused(&run(["info", "/nonexistent"]), &["no such file"]);
}

/// A file with the name of a command is reached by its path.
#[test]
fn a_file_alone_means_peaks() {
    let dir = tempfile::tempdir().unwrap();
    let at =
        |args: &[&str]| common::sparsefft().current_dir(dir.path()).args(args).output().unwrap();
    at(&["gen", "-n", "4096", "--bin", "100", "--noise", "-40", "-o", "x.npy"]);
    let named = json(&at(&["peaks", "x.npy", "--json"]));
    let alone = json(&at(&["x.npy", "--json"]));
    assert_eq!(named["peaks"], alone["peaks"]);
    std::fs::copy(dir.path().join("x.npy"), dir.path().join("peaks")).unwrap();
    assert_eq!(json(&at(&["./peaks", "--json"]))["peaks"], named["peaks"]);
    refused(&at(&["peaks"]), &["error"]);
    refused(&at(&["paeks"]), &["unrecognized subcommand"]);
}
