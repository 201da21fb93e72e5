//! `plan` and `demo` end to end.

mod common;

use common::*;

#[test]
fn plan_speaks_and_prints_json() {
    let text = stdout(&run(["plan", "-n", "4Mi", "-k", "50"]));
    assert!(text.contains("4194304") && text.contains("predicted"), "{text}");
    let v = json(&run(["plan", "-n", "4M", "-k", "50", "--snr", "20", "--json"]));
    assert_eq!((&v["schema"], &v["n"], &v["k"]), (&1.into(), &4_000_000.into(), &50.into()));
    let estimates = v["plan"]["estimates"].as_array().unwrap();
    let dense = estimates.iter().find(|e| e["algorithm"] == "dense").expect("dense competes");
    assert_eq!(dense["samples"], 4_000_000);
    assert!(dense["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn demo_finds_every_tone() {
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("demo.svg");
    let out = run(["demo", "-n", "64Ki", "-o", picture.to_str().unwrap()]);
    let text = stdout(&out);
    assert_eq!(out.status.code(), Some(0), "{text}{}", stderr(&out));
    assert!(text.contains("50 of 50 tones"), "{text}");
    assert!(text.contains("65 536 complex samples"), "{text}");
    assert!(text.contains("10.00 MHz"), "{text}");
    assert!(text.lines().any(|l| l.starts_with("dense ")), "{text}");
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert_eq!(svg.matches("class=\"peak\"").count(), 50);
    assert!(text.contains('⡇') || text.contains('⢸'), "{text}");
}

#[test]
fn version() {
    assert_eq!(stdout(&run(["--version"])), format!("sparsefft {}\n", env!("CARGO_PKG_VERSION")));
}
