//! `sketch`, `merge` and `peaks` on parts: the answer of the whole, and every fault by name.

mod common;

use common::*;
use num_complex::Complex;
use std::path::{Path, PathBuf};

const N: usize = 1 << 16;

/// A noisy recording with three tones, whole and cut into parts at these places.
fn parts(dir: &Path, cuts: &[usize]) -> (PathBuf, Vec<(usize, PathBuf)>) {
    let c = Complex::new;
    let mut random = noise(3);
    let mut x = tones(N, &[(777, c(1.0, 0.0)), (30_000, c(0.0, 0.5)), (65_000, c(0.3, 0.1))]);
    x.iter_mut().for_each(|v| *v += c(random(), random()) * 0.02);
    let whole = npy_c16(dir, "whole.npy", &x);
    let mut ends = vec![0];
    ends.extend_from_slice(cuts);
    ends.push(N);
    let part = |w: &[usize]| (w[0], npy_c16(dir, &format!("part{}.npy", w[0]), &x[w[0]..w[1]]));
    (whole, ends.windows(2).map(part).collect())
}

fn sketch(part: &Path, start: usize, out: &Path, more: &[&str]) -> std::process::Output {
    let (n, start) = (N.to_string(), start.to_string());
    let mut args = vec!["sketch", part.to_str().unwrap(), "--of", &n, "--start", &start];
    args.extend(["-k", "5", "-o", out.to_str().unwrap()]);
    args.extend(more);
    run(args)
}

fn peaks_of(v: &serde_json::Value) -> Vec<(u64, f64, f64)> {
    let number = |p: &serde_json::Value, key: &str| p[key].as_f64().unwrap();
    let peaks = v["peaks"].as_array().unwrap().iter();
    peaks.map(|p| (p["index"].as_u64().unwrap(), number(p, "re"), number(p, "im"))).collect()
}

#[test]
fn parts_give_the_answer_of_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = parts(dir.path(), &[1, 20_000, 50_001]);
    let one = dir.path().join("one.sk");
    let out = sketch(&whole, 0, &one, &["--rate", "1M"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let single = json(&run(["merge", one.to_str().unwrap(), "--json"]));
    assert_eq!(indices(&single), [777, 30_000, 65_000]);
    assert_eq!(single["certificate"]["verdict"], "certified", "{single}");
    assert_eq!(single["rate"], 1e6);

    let mut files = Vec::new();
    for (start, part) in &parts {
        let out = dir.path().join(format!("{start}.sk"));
        assert_eq!(sketch(part, *start, &out, &["--rate", "1M"]).status.code(), Some(0));
        files.push(out.to_str().unwrap().to_string());
    }
    files.reverse();
    // Through a tree: two of them first.
    let some = dir.path().join("some.sk").to_str().unwrap().to_string();
    let out = run(["merge", &files[1], &files[3], "-o", &some]);
    assert_eq!((out.status.code(), stdout(&out)), (Some(0), String::new()), "{}", stderr(&out));
    let out = run(["merge", &files[0], &some, &files[2], "--json"]);
    assert_eq!(peaks_of(&json(&out)), peaks_of(&single));

    // What is missing, seen twice, damaged or of another plan is named.
    refused(&run(["merge", &files[0], &files[1]]), &["missing", "0..20000"]);
    refused(&run(["merge", &some, &files[1]]), &["seen already", "20000..50001"]);
    let other = dir.path().join("other.sk");
    assert_eq!(sketch(&parts[0].1, 0, &other, &["--seed", "9"]).status.code(), Some(0));
    let other = other.to_str().unwrap();
    refused(&run(["merge", &files[0], other]), &["other.sk", "the seed", "9"]);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(other, &bytes).unwrap();
    refused(&run(["merge", &files[1], other]), &["other.sk", "checksum"]);
    std::fs::write(other, &bytes[..middle]).unwrap();
    refused(&run(["merge", other]), &["other.sk", "cut off"]);
    refused(&run(["merge", whole.to_str().unwrap()]), &["SFFTSKCH"]);
    refused(&run(["merge", "/nowhere.sk"]), &["/nowhere.sk"]);
}

#[test]
fn strided_parts_and_bad_options() {
    let dir = tempfile::tempdir().unwrap();
    let x: Vec<f64> =
        (0..N).map(|t| (std::f64::consts::TAU * (t * 100 % N) as f64 / N as f64).cos()).collect();
    let mut files = Vec::new();
    for r in 0..4 {
        let every: Vec<f64> = x.iter().skip(r).step_by(4).copied().collect();
        let part = npy_f8(dir.path(), &format!("{r}.npy"), &every);
        let out = dir.path().join(format!("{r}.sk"));
        let done = sketch(&part, r, &out, &["--step", "4"]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        files.push(out.to_str().unwrap().to_string());
    }
    let all = json(&run(["merge", &files[2], &files[0], &files[3], &files[1], "--json"]));
    assert_eq!(indices(&all), [100, N as u64 - 100]);
    let lost = run(["merge", &files[2], &files[0], &files[3]]);
    refused(&lost, &["16384 of the 65536", "of them"]);

    let part = dir.path().join("0.npy");
    let part = part.to_str().unwrap();
    let out = dir.path().join("x.sk").to_str().unwrap().to_string();
    refused(&run(["sketch", part, "--of", "64Ki", "--start", "0", "-o", &out]), &["-k"]);
    let far = run(["sketch", part, "--of", "64Ki", "--start", "60000", "-k", "2", "-o", &out]);
    refused(&far, &["60000..76384", "65536"]);
    let args = ["sketch", part, "--of", "64Ki", "--start", "0", "-k", "2", "-o", &out];
    let vote = run(args.into_iter().chain(["--algorithm", "vote"]));
    refused(&vote, &["auto, exact or robust"]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn peaks_takes_a_list_of_parts() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = parts(dir.path(), &[3, 1000, 40_000]);
    let files: Vec<&str> = parts.iter().map(|(_, p)| p.to_str().unwrap()).collect();
    for more in [&["-k", "3"][..], &[], &["--algorithm", "dense", "-k", "3"]] {
        let once = run(["peaks", whole.to_str().unwrap(), "--json"].iter().chain(more));
        let many = run(["peaks", "--json"].iter().chain(&files).chain(more));
        assert_eq!(peaks_of(&json(&many)), peaks_of(&json(&once)));
        assert_eq!(indices(&json(&many)), [777, 30_000, 65_000]);
    }
    refused(&run(["peaks", "--skip", "5"].iter().chain(&files)), &["--skip"]);
    let real = npy_f8(dir.path(), "real.npy", &[1.0, 2.0]);
    refused(&run(["peaks", files[0], real.to_str().unwrap()]), &["another kind"]);
    refused(&run(["peaks", files[0], "/nowhere.npy"]), &["/nowhere.npy"]);
}
