//! `cargo xtask fuzz [SECONDS] [--keep]`: everything that takes bytes from strangers, with libFuzzer: the npy,
//! WAV and SigMF readers, stored sketches, the C interface, answers of web servers.
//!
//! Each target runs for SECONDS (60) from the files in `fuzz/corpus`; what it learns lies in
//! `target/fuzz/corpus`, and `--keep` adds what of that covers more to `fuzz/corpus`. What is found lies
//! in `target/fuzz/artifacts` and becomes a test.
//!
//! The instrumentation is an option of every compiler, so that no other toolchain is needed: the flags
//! are those of cargo-fuzz without a sanitizer, which the readers, which have no unsafe code, do not need
//! (`cargo xtask sanitize` runs the others with one). `cargo fuzz` works in this directory, too.

use crate::shell::{Outcome, cargo, root, tee};
use std::process::Command;

/// Each target, and the longest input.
const TARGETS: [(&str, u32); 6] =
    [("npy", 4096), ("wav", 4096), ("sigmf", 4096), ("sketch", 4096), ("c", 256), ("http", 2048)];

/// Builds everything and runs every target.
pub fn run(args: &[String]) -> Result<bool, String> {
    let (mut seconds, mut keep) = (60, false);
    for arg in args {
        match arg.as_str() {
            "--keep" => keep = true,
            s => {
                seconds = s
                    .parse()
                    .map_err(|_| format!("SECONDS is a whole number, not '{s}'; {USAGE}"))?
            }
        }
    }
    let outcome = suite(seconds, None);
    if keep && outcome.success {
        return Ok(TARGETS.iter().all(|&(target, longest)| kept(target, longest)));
    }
    Ok(outcome.success)
}

const USAGE: &str = "usage: cargo xtask fuzz [SECONDS] [--keep]";

/// Every target for so many seconds, two at a time, from a seed or from chance; the words of `cargo test`.
pub fn suite(seconds: u32, seed: Option<u32>) -> Outcome {
    let built = build();
    if !built.success {
        return built;
    }
    let (mut passed, mut output) = (0, String::new());
    for pair in TARGETS.chunks(2) {
        let outcomes = std::thread::scope(|s| {
            let fuzz = |&(target, longest): &(&'static str, u32)| {
                s.spawn(move || fuzz(target, longest, seconds, seed))
            };
            let running: Vec<_> = pair.iter().map(fuzz).collect();
            running.into_iter().map(|r| r.join().unwrap_or(false)).collect::<Vec<_>>()
        });
        for ((target, _), good) in pair.iter().zip(outcomes) {
            passed += u32::from(good);
            let line = format!("test fuzz {target} ... {}", if good { "ok" } else { "FAILED" });
            println!("{line}");
            output += &format!("{line}\n");
        }
    }
    let failed = TARGETS.len() as u32 - passed;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let line = format!("test result: {verdict}. {passed} passed; {failed} failed");
    println!("{line}");
    Outcome { success: failed == 0, output: output + &line }
}

/// The host, which must be named for flags to stay out of build scripts.
fn host() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn build() -> Outcome {
    let flags = [
        "--cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions",
        "-Cllvm-args=-sanitizer-coverage-level=4",
        "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
        "-Cllvm-args=-sanitizer-coverage-pc-table",
        "-Cllvm-args=-sanitizer-coverage-trace-compares",
    ];
    let mut build = cargo();
    build.args(["build", "--manifest-path", "fuzz/Cargo.toml", "--release", "--bins"]);
    build.args(["--target", &host(), "--target-dir", "target/fuzz"]);
    build.env("RUSTFLAGS", flags.join(" "));
    // For the pass that the flags name.
    build.env("RUSTC_BOOTSTRAP", "1");
    tee(&mut build)
}

fn program(target: &str) -> Command {
    let mut program = Command::new(root().join(format!("target/fuzz/{}/release/{target}", host())));
    // Every refusal would carry a backtrace, at a hundred times the cost of reading.
    program.current_dir(root()).env("RUST_BACKTRACE", "0");
    program
}

fn fuzz(target: &str, longest: u32, seconds: u32, seed: Option<u32>) -> bool {
    let (known, learnt) = corpora(target);
    let found = format!("target/fuzz/artifacts/{target}-");
    for dir in [learnt.as_str(), "target/fuzz/artifacts"] {
        if let Err(e) = std::fs::create_dir_all(root().join(dir)) {
            eprintln!("xtask fuzz: {dir}: {e}");
            return false;
        }
    }
    let mut fuzz = program(target);
    fuzz.args([&learnt, &known]);
    fuzz.arg(format!("-max_len={longest}")).arg(format!("-max_total_time={seconds}"));
    // The budget of one input: half a gigabyte, and half a minute on a busy machine.
    fuzz.args(["-rss_limit_mb=512", "-timeout=30", "-print_final_stats=1", "-verbosity=0"]);
    fuzz.arg(format!("-artifact_prefix={found}"));
    fuzz.args(seed.map(|seed| format!("-seed={seed}")));
    tee(&mut fuzz).success
}

/// Where inputs of a target lie that are kept, and that a run has learnt.
fn corpora(target: &str) -> (String, String) {
    (format!("fuzz/corpus/{target}"), format!("target/fuzz/corpus/{target}"))
}

/// Adds what a run has learnt to what is kept, where it covers more.
fn kept(target: &str, longest: u32) -> bool {
    let (known, learnt) = corpora(target);
    tee(program(target).args(["-merge=1", &format!("-max_len={longest}"), &known, &learnt])).success
}
