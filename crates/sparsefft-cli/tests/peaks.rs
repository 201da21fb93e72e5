//! `sparsefft peaks` end to end: right peaks, the JSON contract, every exit code.

mod common;

use common::*;
use num_complex::Complex;

fn c(re: f64, im: f64) -> Complex<f64> {
    Complex::new(re, im)
}

#[test]
fn json_holds_the_right_coefficients() {
    let dir = tempfile::tempdir().unwrap();
    let n = 4096;
    let list = [(17, c(1.0, 0.0)), (1000, c(0.0, -0.5)), (4000, c(-0.25, 0.25))];
    let file = npy_c16(dir.path(), "x.npy", &tones(n, &list));
    let out = run(["peaks", file.to_str().unwrap(), "-k", "3", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let v = json(&out);
    assert_eq!(v["schema"], 2);
    assert_eq!(v["n"], 4096);
    assert_eq!(v["k"], 3);
    assert_eq!(indices(&v), [17, 1000, 4000]);
    for (p, (f, a)) in v["peaks"].as_array().unwrap().iter().zip(list) {
        let x = a * n as f64;
        let value = c(p["re"].as_f64().unwrap(), p["im"].as_f64().unwrap());
        assert!((value - x).norm() < 1e-8 * n as f64, "{value} is not {x}");
        let signed = if f < n / 2 { f as f64 } else { f as f64 - n as f64 };
        assert_eq!(p["frequency"].as_f64().unwrap(), signed / n as f64);
        assert!((p["magnitude"].as_f64().unwrap() - x.norm()).abs() < 1e-7);
        assert!((p["phase"].as_f64().unwrap() - x.arg()).abs() < 1e-10);
    }
    let verdict = v["certificate"]["verdict"].as_str().unwrap();
    assert!(["certified", "dense"].contains(&verdict), "{verdict}");
    for key in ["bins_tested", "bins_unexplained", "residual_energy", "noise_floor"] {
        assert!(v["certificate"][key].is_number(), "{key}");
    }
    assert!(v["plan"]["algorithm"].is_string());
    assert!(v["samples_read"].as_u64().unwrap() > 0);
    assert!(v["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_number_of_tones_is_found_out_in_noise() {
    let dir = tempfile::tempdir().unwrap();
    let n = 1 << 15;
    let mut random = noise(5);
    let mut x = tones(n, &[(123, c(1.0, 0.0)), (30_000, c(0.3, 0.1))]);
    x.iter_mut().for_each(|v| *v += c(random(), random()) * 0.1);
    let file = npy_c16(dir.path(), "x.npy", &x);
    let out = run(["peaks", file.to_str().unwrap(), "--json"]);
    assert_eq!(out.status.code(), Some(0));
    let v = json(&out);
    assert_eq!(indices(&v), [123, 30_000]);
    assert!(v["k"].is_null());
    // σ² = 2·0.01/3.
    let sigma = v["certificate"]["noise_floor"].as_f64().unwrap();
    assert!((sigma / (0.02f64 / 3.0).sqrt() - 1.0).abs() < 0.1, "{sigma}");
    // In one bin of the whole record: n/σ².
    let snr = v["peaks"][0]["snr_db"].as_f64().unwrap();
    let expected = 10.0 * (n as f64 * 3.0 / 0.02).log10();
    assert!((snr - expected).abs() < 1.0, "{snr}, expected {expected}");
    // The same of the same coefficient by a dense FFT.
    let out = run(["peaks", file.to_str().unwrap(), "--json", "--algorithm", "dense"]);
    let snr = json(&out)["peaks"][0]["snr_db"].as_f64().unwrap();
    assert!((snr - expected).abs() < 1.0, "dense: {snr}, expected {expected}");
}

#[test]
fn real_signals_give_both_sides_and_a_one_sided_table() {
    let dir = tempfile::tempdir().unwrap();
    let n = 2048;
    let x: Vec<f64> =
        (0..n).map(|t| (std::f64::consts::TAU * 100.0 * t as f64 / n as f64).cos()).collect();
    let file = npy_f8(dir.path(), "x.npy", &x);
    let v = json(&run(["peaks", file.to_str().unwrap(), "-k", "2", "--json"]));
    assert_eq!(indices(&v), [100, 1948]);
    let text = stdout(&run(["peaks", file.to_str().unwrap(), "-k", "2", "--rate", "2048"]));
    let row = text.lines().find(|l| l.trim_start().starts_with("100 ")).expect("a row for bin 100");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1], "100", "{text}"); // Hz
    assert_eq!(cells[2], "0.00", "{text}"); // |X|/n = 1/2
    assert!(!text.contains("1948"), "{text}");
    assert!(text.contains("mirror"), "{text}");
}

#[test]
fn tones_between_the_bins_are_found_without_being_asked() {
    let dir = tempfile::tempdir().unwrap();
    let n = 1usize << 18;
    let mut random = noise(3);
    let tau = std::f64::consts::TAU;
    let list = [(1234.37, 1.0), (100_000.71, 0.3), (200_000.5, 0.1)];
    let x: Vec<_> = (0..n)
        .map(|t| {
            let tone = |f: f64| Complex::cis(tau * (f * t as f64 / n as f64).fract());
            let sum: Complex<f64> = list.iter().map(|&(f, a)| tone(f) * a).sum();
            sum + c(random(), random()) * 0.1
        })
        .collect();
    let file = npy_c16(dir.path(), "x.npy", &x);
    let file = file.to_str().unwrap();
    let out = run(["peaks", file, "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let v = json(&out);
    assert_eq!(v["mode"], "tones");
    assert_eq!(v["plan"]["algorithm"], "tones");
    assert_eq!(v["certificate"]["verdict"], "certified");
    assert_eq!(
        (v["bands"].as_array().unwrap().len(), v["clusters"].as_array().unwrap().len()),
        (0, 0)
    );
    let peaks = v["peaks"].as_array().unwrap();
    assert_eq!(peaks.len(), 3);
    for (p, (f, a)) in peaks.iter().zip(list) {
        let (bin, std) = (p["bin"].as_f64().unwrap(), p["bin_std"].as_f64().unwrap());
        assert!((bin - f).abs() < 6.0 * std && std < 0.1, "{bin} ± {std} is not {f}");
        assert_eq!(p["index"].as_u64().unwrap(), bin.round() as u64);
        assert!((p["magnitude"].as_f64().unwrap() / n as f64 / a - 1.0).abs() < 0.1);
        assert!(p["snr_db"].as_f64().unwrap() > 0.0);
    }
    let text = stdout(&run(["peaks", file]));
    assert!(text.contains("mode tones") && text.contains("1234.3"), "{text}");
    // The grid keeps its semantics on request.
    let v = json(&run(["peaks", file, "--mode", "grid", "-k", "3", "--json"]));
    assert_eq!(v["mode"], "grid");
    assert_eq!(v["peaks"][0]["bin"].as_f64(), v["peaks"][0]["index"].as_f64());
    assert_eq!(run(["peaks", file, "--mode", "what"]).status.code(), Some(2));
}

#[test]
fn csv_has_a_header_and_a_line_per_peak() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_c16(dir.path(), "x.npy", &tones(1024, &[(3, c(2.0, 0.0)), (900, c(0.0, 1.0))]));
    let out = run(["peaks", file.to_str().unwrap(), "-k", "2", "--csv", "--rate", "1.024k"]);
    let text = stdout(&out);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "index,frequency,hertz,re,im,magnitude,phase,level_db,snr_db,bin,bin_std");
    assert_eq!(lines.len(), 3);
    let first: Vec<&str> = lines[1].split(',').collect();
    assert_eq!((first[0], first[2], first[7]), ("3", "3", "6.021"));
    assert!(lines[2].starts_with("900,"));
}

#[test]
fn nothing_above_the_noise_is_exit_1() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = noise(11);
    let x: Vec<_> = (0..4096).map(|_| c(random(), random())).collect();
    let file = npy_c16(dir.path(), "noise.npy", &x);
    let out = run(["peaks", file.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1), "{}", stdout(&out));
    assert!(stdout(&out).contains("nothing stands above the noise"));
    let zero = npy_f8(dir.path(), "zero.npy", &[0.0; 256]);
    assert_eq!(run(["peaks", zero.to_str().unwrap()]).status.code(), Some(1));
}

#[test]
fn every_dtype_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let n = 256;
    let wave = |t: usize| 100.0 * (std::f64::consts::TAU * 5.0 * t as f64 / n as f64).cos();
    let case = |descr: &str, encode: &dyn Fn(f64) -> Vec<u8>| {
        let data: Vec<u8> = (0..n).flat_map(|t| encode(wave(t).round())).collect();
        let file = npy(dir.path(), "x.npy", &format!("'{descr}'"), &format!("({n},)"), &data);
        let v = json(&run(["peaks", file.to_str().unwrap(), "-k", "2", "--json"]));
        assert_eq!(indices(&v), [5, 251], "{descr}");
        let re = v["peaks"][0]["re"].as_f64().unwrap();
        assert!((re / (50.0 * n as f64) - 1.0).abs() < 0.01, "{descr}: {re}");
    };
    case("|i1", &|v| vec![v as i8 as u8]);
    case("<i2", &|v| (v as i16).to_le_bytes().to_vec());
    case(">i2", &|v| (v as i16).to_be_bytes().to_vec());
    case("<i4", &|v| (v as i32).to_le_bytes().to_vec());
    case("<i8", &|v| (v as i64).to_le_bytes().to_vec());
    case("<f4", &|v| (v as f32).to_le_bytes().to_vec());
    case(">f8", &|v| v.to_be_bytes().to_vec());
}

#[test]
fn unsigned_dtypes_keep_their_offset() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy(dir.path(), "x.npy", "'|u1'", "(64,)", &[200; 64]);
    let v = json(&run(["peaks", file.to_str().unwrap(), "-k", "1", "--json"]));
    assert_eq!(indices(&v), [0]);
    assert_eq!(v["peaks"][0]["re"], 200.0 * 64.0);
}

#[test]
fn seeds_and_algorithms_are_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_c16(dir.path(), "x.npy", &tones(512, &[(9, c(1.0, 0.0))]));
    let path = file.to_str().unwrap();
    let v = json(&run(["peaks", path, "-k1", "--seed", "77", "--algorithm", "dense", "--json"]));
    assert_eq!(v["plan"]["seed"], 77);
    assert_eq!(v["plan"]["algorithm"], "dense");
    let v = json(&run(["peaks", path, "-k1", "--snr", "inf", "--tolerance", "1e-3", "--json"]));
    assert_eq!(indices(&v), [9]);
    refused(&run(["peaks", path, "--algorithm", "fastest"]), &["fastest", "comb-vote"]);
    refused(&run(["peaks", path, "--algorithm", "dense", "--no-dense"]), &["--no-dense"]);
    refused(&run(["peaks", path, "--tolerance", "7"]), &["tolerance", "0 to 1"]);
    refused(&run(["peaks", path, "--snr", "loud"]), &["loud"]);
    refused(&run(["peaks", path, "--rate", "-5"]), &["rate"]);
}

#[test]
fn no_colour_and_no_picture_in_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let file = npy_c16(dir.path(), "x.npy", &tones(512, &[(9, c(1.0, 0.0))]));
    let out = run(["peaks", file.to_str().unwrap(), "-k1"]);
    assert!(!stdout(&out).contains('\u{1b}'));
    assert!(!stdout(&out).contains('⡇'));
    assert_eq!(stderr(&out), "");
}

#[test]
fn an_answer_that_is_not_certified_is_exit_3() {
    let dir = tempfile::tempdir().unwrap();
    let n = 1u64 << 14;
    // A chirp: every coefficient has the same size, so no eight of them explain it.
    let turn = |t: u64| std::f64::consts::PI * (t * t % (2 * n)) as f64 / n as f64;
    let x: Vec<_> = (0..n).map(|t| Complex::cis(turn(t))).collect();
    let file = npy_c16(dir.path(), "chirp.npy", &x);
    let path = file.to_str().unwrap();
    let out = run(["peaks", path, "-k", "8", "--no-dense", "--json"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    let v = json(&out);
    assert_eq!(v["certificate"]["verdict"], "uncertified");
    let reason = v["certificate"]["reason"].as_str().expect("the certificate says why");
    assert!(!reason.is_empty());
    // Where the whole signal may be read, it is named for what it is.
    let out = run(["peaks", path, "-k", "8", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let v = json(&out);
    assert_eq!((v["verdict"].as_str(), v["mode"].as_str()), (Some("complete"), Some("survey")));
    assert!(v["sweeps"].as_array().unwrap().len() == 1, "{}", v["sweeps"]);
}

/// A time that is too short leaves what a part of the samples tells; one that suffices changes
/// nothing.
#[test]
fn time_bounds_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let mut noise = noise(4);
    let mut last = 0.0;
    let x: Vec<f64> = (0..1 << 20)
        .map(|t| {
            last = 0.98 * last + noise();
            last + 3.0 * (0.7 * f64::from(t)).sin()
        })
        .collect();
    let file = npy_f8(dir.path(), "x.npy", &x);
    let file = file.to_str().unwrap();
    let short = run(["peaks", file, "--time", "1ms", "--json"]);
    assert_eq!(short.status.code(), Some(3), "{}", stderr(&short));
    let v = json(&short);
    assert_eq!(v["verdict"], "partial");
    let codes: Vec<&str> =
        v["reasons"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"time") && !codes.contains(&"quick"), "{codes:?}");
    let long = json(&run(["peaks", file, "--time", "10min", "--json"]));
    let usual = json(&run(["peaks", file, "--json"]));
    assert_eq!((&long["verdict"], &long["lines"]), (&usual["verdict"], &usual["lines"]));
    assert_eq!(long["verdict"], "complete");
    refused(&run(["peaks", file, "--time", "soon"]), &["error"]);
    refused(&run(["peaks", file, "--time", "1s", "--mode", "grid"]), &["error"]);
}
