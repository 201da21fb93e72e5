//! A gigabyte on disk: its peaks without reading more than a hundredth, in little memory.

mod common;

use common::*;

#[test]
fn a_gigabyte_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.cf32");
    let path = path.to_str().unwrap();
    let made = run([
        "gen",
        "-n",
        "128Mi",
        "--bin",
        "12345678:-12",
        "--bin",
        "98765432:-18:1",
        "--bin",
        "100000007:-24:2",
        "--noise",
        "-30",
        "-o",
        path,
    ]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert_eq!(std::fs::metadata(path).unwrap().len(), 1 << 30);
    let out = run(["-v", "peaks", path, "--json"]);
    let v = json(&out);
    assert_eq!(indices(&v), [12345678, 98765432, 100000007]);
    assert_eq!(v["certificate"]["verdict"], "certified", "{v}");
    let read = v["samples_read"].as_f64().unwrap() / v["n"].as_f64().unwrap();
    assert!(read < 0.01, "{read}");
    let details = stderr(&out);
    if let Some(line) = details.lines().find(|l| l.contains("peak memory")) {
        let bytes: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        assert!(bytes < 200_000_000, "{line}");
    }
}
