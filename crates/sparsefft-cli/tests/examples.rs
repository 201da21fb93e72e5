//! The examples of `--help` end well: with recordings of the names that they use, in small.

mod common;

use common::{run, sparsefft, stderr, stdout};
use std::path::Path;

/// The commands whose examples run within a second; sketches of 2^31 samples and shells are left
/// out.
const COMMANDS: [&str; 9] =
    ["", "gen", "info", "peaks", "plan", "plot", "report", "waterfall", "fft"];

/// The example lines of a help text, without their remarks.
fn examples(help: &str) -> Vec<Vec<String>> {
    let line = |l: &str| {
        let command = l.strip_prefix("  sparsefft ")?;
        let end = command.find("  ").unwrap_or(command.len());
        let small = |w: &str| match w {
            "1Gi" | "8Gi" | "64Mi" | "1M" => "64Ki".to_owned(),
            "123456789" => "12345".to_owned(),
            word => word.to_owned(),
        };
        Some(command[..end].split_whitespace().map(small).collect())
    };
    help.lines().filter_map(line).collect()
}

/// The recordings that examples read: fifty tones in noise, under every name.
fn recordings(dir: &Path) {
    let tones = ["gen", "-n", "64Ki", "--tones", "50", "--noise", "-20", "-o"];
    let make = |more: &[&str]| {
        let done = sparsefft().current_dir(dir).args(tones).args(more).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    };
    for name in ["signal.npy", "part1.npy", "radio.cf32", "signal.cs8", "long.cs16"] {
        make(&[name]);
    }
    make(&["radio.sigmf-meta", "--rate", "2M", "--center", "100M"]);
    for name in ["x.wav", "signal.wav", "sound.wav"] {
        make(&[name, "--rate", "48k", "--real", "--type", "s16"]);
    }
    std::fs::copy(dir.join("part1.npy"), dir.join("part2.npy")).unwrap();
    make(&["radio.bin", "--format", "raw", "--type", "cu8"]);
}

#[test]
fn every_example_ends_well() {
    let dir = tempfile::tempdir().unwrap();
    recordings(dir.path());
    let mut count = 0;
    for command in COMMANDS {
        let help = if command.is_empty() { run(["--help"]) } else { run([command, "--help"]) };
        for args in examples(&stdout(&help)) {
            if ["demo", "sketch"].contains(&args[0].as_str()) {
                continue;
            }
            let done = sparsefft().current_dir(dir.path()).args(&args).output().unwrap();
            assert_eq!(done.status.code(), Some(0), "{args:?}: {}{}", stdout(&done), stderr(&done));
            count += 1;
            // What was made is found again.
            if let (true, Some(at)) = (args[0] == "gen", args.iter().position(|a| a == "-o")) {
                let peaks = ["peaks", &args[at + 1]];
                let found = sparsefft().current_dir(dir.path()).args(peaks).output().unwrap();
                assert_eq!(found.status.code(), Some(0), "{args:?}: {}", stderr(&found));
            }
        }
    }
    assert!(count >= 20, "{count}");
}
