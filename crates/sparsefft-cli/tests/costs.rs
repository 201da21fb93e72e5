//! What an answer has cost is told in full: all attempts, on every surface; and its seed.

mod common;

use common::*;
use serde_json::Value;
use std::path::Path;

/// A recording on the bins (`grid`), between them (`tones`), of noise alone (`noise`), or with a
/// tone in its first third (`part`), which no part of the samples settles.
fn recording(dir: &Path, kind: &str) -> String {
    let path = dir.join(format!("{kind}.cf32")).to_str().unwrap().to_owned();
    if kind == "part" {
        let noise = std::fs::read(recording(dir, "noise")).unwrap();
        let samples = noise.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        let with_tone = samples.enumerate().map(|(i, v)| {
            let turns = 0.1234 * (i / 2) as f64 - 0.25 * (i % 2) as f64;
            let on = if i < (2 << 16) / 3 { 5.0 } else { 0.0 };
            v + (on * (std::f64::consts::TAU * turns).cos()) as f32
        });
        let bytes: Vec<u8> = with_tone.flat_map(f32::to_le_bytes).collect();
        std::fs::write(&path, bytes).unwrap();
        return path;
    }
    let what: &[&str] = match kind {
        "tones" => &["--tone", "0.1234567", "--tone", "-0.3:-20", "--noise", "-30"],
        "grid" => &["--bin", "777", "--bin", "50000:-20"],
        _ => &["--noise", "0"],
    };
    let made = run([&["gen", "-n", "64Ki", "-o", &path][..], what].concat());
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    path
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no whole number"))
}

fn words(v: &Value) -> Vec<(String, String)> {
    let text = |a: &Value, key: &str| a[key].as_str().unwrap().to_owned();
    let attempts = v["cost"]["attempts"].as_array().unwrap();
    attempts.iter().map(|a| (text(a, "kind"), text(a, "verdict"))).collect()
}

#[test]
fn json_adds_up_all_attempts() {
    let dir = tempfile::tempdir().unwrap();
    let expected: [(&str, &[&str]); 4] = [
        ("grid", &["grid certified"]),
        ("tones", &["grid uncertified", "tones certified"]),
        ("noise", &["grid uncertified", "tones certified"]),
        ("part", &["grid leakage", "tones uncertified", "survey complete"]),
    ];
    for (kind, attempts) in expected {
        let v = json(&run(["peaks", &recording(dir.path(), kind), "--json"]));
        let got: Vec<String> = words(&v).iter().map(|(k, v)| format!("{k} {v}")).collect();
        assert_eq!(got, attempts, "{kind}");
        let each = v["cost"]["attempts"].as_array().unwrap();
        let read: u64 = each.iter().map(|a| number(&a["samples_read"])).sum();
        assert!(each.iter().all(|a| number(&a["samples_read"]) > 0), "{kind}: {v}");
        assert_eq!(number(&v["samples_read"]), read, "{kind}");
        assert_eq!(number(&v["cost"]["samples_read"]), read, "{kind}");
        let time: f64 = each.iter().map(|a| a["seconds"].as_f64().unwrap()).sum();
        for total in [&v["seconds"], &v["cost"]["seconds"]] {
            assert!((total.as_f64().unwrap() / time - 1.0).abs() < 1e-6, "{kind}: {v}");
        }
        let stages = v["stages"].as_array().unwrap();
        let spent: f64 = stages.iter().map(|s| s["seconds"].as_f64().unwrap()).sum();
        assert!((spent / time - 1.0).abs() < 1e-3, "{kind}: {spent} of {time}");
        let mut names: Vec<&str> = stages.iter().map(|s| s["stage"].as_str().unwrap()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{kind}: a stage is listed twice");
        assert!(v["cost"]["bytes_read"].is_null());
    }
}

#[test]
fn text_and_files_tell_the_same_totals() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["grid", "tones", "part"] {
        let path = recording(dir.path(), kind);
        let npz = dir.path().join("x.npz");
        let args = ["peaks", &path, "--npz", npz.to_str().unwrap()];
        let v = json(&run([&args[..], &["--json"]].concat()));
        let read = number(&v["samples_read"]);
        // The scalar follows the name of its member and a header.
        let zip = std::fs::read(&npz).unwrap();
        let name = b"samples_read.npy";
        let start = zip.windows(name.len()).position(|w| w == name).unwrap() + name.len();
        let header = usize::from(u16::from_le_bytes([zip[start + 8], zip[start + 9]]));
        assert_eq!(zip[start + 10 + header..][..8], read.to_le_bytes(), "{kind}");
        let text = stdout(&run(args));
        let grouped = |v: u64| {
            let digits = v.to_string().into_bytes();
            let groups: Vec<&str> =
                digits.rchunks(3).rev().map(|c| std::str::from_utf8(c).unwrap()).collect();
            groups.join(" ")
        };
        let told = match kind {
            "part" => format!("all 65 536 samples read ({} reads)", grouped(read)),
            _ => format!("{} of 65 536 samples read", grouped(read)),
        };
        assert!(text.contains(&told), "{kind}: '{told}' is missing in: {text}");
        let tried = text.lines().find(|l| l.starts_with("tried "));
        assert_eq!(tried.is_some(), kind != "grid", "{text}");
        for attempt in v["cost"]["attempts"].as_array().unwrap() {
            let part = format!("{} samples", grouped(number(&attempt["samples_read"])));
            assert!(kind == "grid" || tried.unwrap().contains(&part), "{part}: {text}");
        }
    }
}

#[test]
fn seeds_are_named_and_repeat_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path(), "tones");
    let first = json(&run(["peaks", &path, "--json", "--seed", "random"]));
    let seed = number(&first["seed"]);
    assert_eq!(number(&first["plan"]["seed"]), seed);
    assert_ne!(seed, number(&json(&run(["peaks", &path, "--json", "--seed", "random"]))["seed"]));
    let again = json(&run(["peaks", &path, "--json", "--seed", &seed.to_string()]));
    assert_eq!(again["peaks"], first["peaks"]);
    assert_eq!(again["certificate"], first["certificate"]);
    // The text names one that was drawn or given, not the usual one.
    let mode = |args: &[&str]| {
        let text = stdout(&run([&["peaks", &path][..], args].concat()));
        text.lines().find(|l| l.starts_with("mode ")).unwrap().to_owned()
    };
    assert!(!mode(&[]).contains("seed"));
    assert!(mode(&["--seed", "77"]).ends_with(", seed 77"));
    let drawn = mode(&["--seed", "random"]);
    let digits = drawn.rsplit(' ').next().unwrap();
    assert!(drawn.contains(", seed ") && digits.parse::<u64>().is_ok(), "{drawn}");
    // Every command that searches takes it, and says what was drawn.
    let out = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let said = |args: &[&str]| {
        let done = run(args);
        assert_eq!(done.status.code(), Some(0), "{args:?}: {}", stderr(&done));
        stdout(&done) + &stderr(&done)
    };
    let random = ["--seed", "random"];
    let (svg, html, sk) = (out("p.svg"), out("r.html"), out("s.sk"));
    said(&[&["plot", &path, "-o", &svg][..], &random].concat());
    assert!(std::fs::read_to_string(&svg).unwrap().contains(", seed "));
    said(&[&["report", &path, "-o", &html][..], &random].concat());
    let page = std::fs::read_to_string(&html).unwrap();
    let at = page.find("\"seed\":").unwrap() + 7;
    let seed: String = page[at..].chars().take_while(char::is_ascii_digit).collect();
    assert_ne!(seed.parse::<u64>().unwrap(), 0);
    let sketch = ["sketch", &path, "--of", "64Ki", "--start", "0", "-k", "9", "-o", &sk];
    assert!(said(&[&sketch[..], &random].concat()).contains("--seed "));
    let plan = ["plan", "-n", "64Ki", "-k", "3"];
    assert!(said(&[&plan[..], &random].concat()).contains("seed "));
    let signal = ["gen", "-n", "64", "--noise", "0", "-o", &out("g.cf32")];
    assert!(said(&[&signal[..], &random].concat()).contains("seed "));
    let demo = ["demo", "-n", "4096", "-k", "3", "-o", &out("d.svg")];
    assert!(said(&[&demo[..], &random].concat()).contains(", seed "));
    refused(&run(["peaks", &path, "--seed", "dice"]), &["--seed", "random"]);
}
