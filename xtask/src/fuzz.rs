//! `cargo xtask fuzz [SECONDS]`: the npy, WAV and SigMF readers on damaged files, with cargo-fuzz.
//!
//! Needs a nightly compiler (`rustup toolchain install nightly`) and cargo-fuzz, which is installed
//! if it is missing. Each target runs for SECONDS (60), from valid files that `sparsefft gen` makes.
//! What is found lies in `fuzz/artifacts`; it becomes a test in `mutations.rs`.

use crate::shell::{cargo, root, tee, works};
use std::process::Command;

/// Targets, and the files each starts from: name and further arguments of `gen`.
const TARGETS: &[(&str, &[&[&str]])] = &[
    ("npy", &[&["a.npy"], &["b.npy", "--real", "--type", "s16_be"]]),
    ("wav", &[&["a.wav", "--type", "cs24"], &["b.wav", "--real"], &["c.rf64", "--real"]]),
    (
        "sigmf",
        &[&["a.sigmf", "--rate", "1M"], &["b.sigmf-meta", "--type", "cu8", "--center", "1G"]],
    ),
];

/// Makes the first files and runs every target.
pub fn run(args: &[String]) -> Result<bool, String> {
    let seconds = match args {
        [] => 60,
        [s] => s.parse::<u32>().map_err(|_| format!("SECONDS is a whole number, not '{s}'"))?,
        _ => return Err("usage: cargo xtask fuzz [SECONDS]".into()),
    };
    if !works("cargo", &["fuzz", "--version"])
        && !tee(cargo().args(["install", "cargo-fuzz"])).success
    {
        return Err("cargo-fuzz cannot be installed".into());
    }
    let mut good = true;
    for (target, seeds) in TARGETS {
        let corpus = root().join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus).map_err(|e| format!("{}: {e}", corpus.display()))?;
        for seed in *seeds {
            let mut make = cargo();
            make.args(["run", "--quiet", "-p", "sparsefft-cli", "--", "-q", "gen", "-n", "16"]);
            make.arg("-o").arg(corpus.join(seed[0])).args(&seed[1..]);
            good &= tee(&mut make).success;
        }
        // The readers have no unsafe code: overflow checks and assertions are all that can fail,
        // so the address sanitizer, which halves the speed, stays off.
        let mut fuzz = Command::new("cargo");
        fuzz.current_dir(root()).args(["+nightly", "fuzz", "run", "--sanitizer", "none", target]);
        fuzz.args(["--", "-max_len=4096", "-rss_limit_mb=1024", "-timeout=10"]);
        fuzz.arg(format!("-max_total_time={seconds}"));
        // Every refusal would carry a backtrace, at a hundred times the cost of reading.
        fuzz.env("RUST_BACKTRACE", "0");
        good &= tee(&mut fuzz).success;
    }
    Ok(good)
}
