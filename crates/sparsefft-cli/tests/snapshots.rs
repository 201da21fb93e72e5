//! The help texts and the table, word for word, as kept in tests/snapshots/.
//!
//! After an intended change: `SPARSEFFT_BLESS=1 cargo test -p sparsefft-cli --test snapshots`,
//! then read the difference.

mod common;

use common::*;
use std::path::PathBuf;

fn compare(name: &str, text: &str) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
    if std::env::var_os("SPARSEFFT_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{name} changed; bless it if that was meant");
}

#[test]
fn help() {
    compare("help", &stdout(&run(["--help"])));
    for command in [
        "demo",
        "info",
        "peaks",
        "sketch",
        "merge",
        "plan",
        "gen",
        "plot",
        "report",
        "waterfall",
        "fft",
        "completions",
        "man",
    ] {
        compare(&format!("help-{command}"), &stdout(&run([command, "--help"])));
    }
}

#[test]
fn table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.cs16");
    let path = path.to_str().unwrap();
    run([
        "gen",
        "-n",
        "64Ki",
        "--bin",
        "1000:-6",
        "--bin",
        "40000:-20:1",
        "--bin",
        "65000:-30",
        "--noise",
        "-40",
        "-o",
        path,
    ]);
    // Dense, so that the digits depend on nothing but the signal.
    let out =
        run(["peaks", path, "-k", "3", "--rate", "2M", "--center", "100M", "--algorithm", "dense"]);
    let text = stdout(&out);
    let table: Vec<&str> = text.lines().skip_while(|l| !l.is_empty()).skip(1).collect();
    compare("table", &(table.join("\n") + "\n"));
}
