//! `cargo xtask test`: everything that must hold before a commit, on a bare machine.
//!
//! Order: tools, format, lints, tests (from C among them), documentation tests (the README among
//! them), documentation, the Python package, the smoke suite on other processors, fuzzing. Every step runs even if an earlier one failed. The last line is
//! `N passed, M failed`: tests, plus one failure for each of the other steps that failed.

use crate::shell::{Outcome, apt_install, cargo, tee, works};
use crate::{fuzz, portable, python};
use std::process::Command;

/// Seconds for which each fuzz target runs.
const FUZZED: u32 = 60;

/// Tests that passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
}

/// Runs all checks.
pub fn run(args: &[String]) -> Result<bool, String> {
    if !args.is_empty() {
        return Err("usage: cargo xtask test (it takes no arguments)".into());
    }
    let mut total = Tally::default();
    let mut check = |name: &str, outcome: Outcome| {
        if !outcome.success {
            eprintln!("xtask test: {name} failed");
            total.failed += 1;
        }
    };
    let browser = install_browser(&mut check);
    install_fftw();
    if let Err(output) = install_c_tools() {
        check("installing tools for C", Outcome { success: false, output });
    }
    if let Err(output) = install_mpi() {
        check("installing MPI", Outcome { success: false, output });
    }
    for component in ["fmt", "clippy"] {
        if !works("cargo", &[component, "--version"]) {
            let package = if component == "fmt" { "rustfmt" } else { component };
            check(
                "installing a component",
                tee(Command::new("rustup").args(["component", "add", package])),
            );
        }
    }
    check("cargo fmt", tee(cargo().args(["fmt", "--all", "--check"])));
    check(
        "cargo clippy",
        tee(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    );
    // The features that the default build leaves out, and the library without any.
    for features in [&["--features", "cuda"][..], &["--no-default-features"]] {
        check(
            "cargo clippy of a feature set",
            tee(cargo()
                .args(["clippy", "-p", "sparsefft"])
                .args(features)
                .args(["--", "-D", "warnings"])),
        );
    }
    check(
        "cargo clippy of the Python module with GPUs",
        tee(cargo()
            .args(["clippy", "-p", "sparsefft-python", "--features", "cuda"])
            .args(["--", "-D", "warnings"])),
    );
    let current = crate::kernels::run(&["--check".to_string()]);
    if let Err(message) = &current {
        eprintln!("xtask test: {message}");
    }
    check("xtask kernels --check", Outcome { success: current == Ok(true), output: String::new() });
    check(
        "cargo doc",
        tee(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")),
    );

    let nextest = works("cargo", &["nextest", "--version"]);
    let mut suite = cargo();
    if nextest {
        // Examples and benches were compiled by clippy; building them again takes minutes.
        suite.args(["nextest", "run", "--workspace", "--lib", "--bins", "--tests"]);
        suite.arg("--no-fail-fast");
    } else {
        suite.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    }
    if let Some(browser) = browser {
        // Tests that find no browser pass without one unless it is named here.
        suite.env("SPARSEFFT_CHROMIUM", browser);
    }
    suite.env("SPARSEFFT_REQUIRE_C_TOOLS", "1");
    let suite = tee(&mut suite);
    // Without a GPU these say that they skip; SPARSEFFT_REQUIRE_CUDA=1 makes that a failure.
    let mut gpu = cargo();
    gpu.args(["test", "-p", "sparsefft", "--features", "cuda"]);
    gpu.args(["--test", "dense_cuda", "--test", "sparse_cuda"]);
    let gpu = tee(gpu.args(["--", "--nocapture"]));
    // The sparse kernels' code, emulated.
    let mut emulated = cargo();
    emulated.args(["test", "-p", "sparsefft", "--features", "cuda", "--lib", "cuda"]);
    let emulated = tee(emulated.args(["--", "--nocapture"]));
    let doc = tee(cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]));
    let python = python::suite();
    let mut suites = vec![
        ("the test suite", suite),
        ("GPU tests", gpu),
        ("emulated kernels", emulated),
        ("documentation tests", doc),
        ("the Python suite", python),
    ];
    suites.extend(portable::suites());
    suites.push(("fuzzing", fuzz::suite(FUZZED, Some(1))));
    for (name, outcome) in suites {
        let tally = count(&outcome.output);
        total.passed += tally.passed;
        total.failed += tally.failed;
        // A suite that does not build, or that ran nothing, must not look green.
        if tally.failed == 0 && (!outcome.success || tally == Tally::default()) {
            eprintln!("xtask test: {name} did not run to its end");
            total.failed += 1;
        }
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

/// The browser that tests of HTML pages need, installed from the distribution if it is missing.
fn install_browser(check: &mut impl FnMut(&str, Outcome)) -> Option<&'static str> {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let find = || NAMES.into_iter().find(|name| works(name, &["--version"]));
    if let Some(name) = find() {
        return Some(name);
    }
    apt_install(&["chromium"]);
    let found = find();
    if found.is_none() {
        let output = "install chromium by hand".to_owned();
        check("installing chromium", Outcome { success: false, output });
    }
    found
}

/// FFTW judges the dense FFT; without it that test is skipped.
fn install_fftw() {
    let there = || works("sh", &["-c", "PATH=$PATH:/sbin ldconfig -p | grep -q 'libfftw3.so.3'"]);
    if !there() {
        apt_install(&["libfftw3-double3"]);
        if !there() {
            eprintln!("xtask test: SKIPPED: FFTW is not installed, nothing is compared with it");
        }
    }
}

/// What the tests of the C interface need, installed from the distribution if it is missing.
fn install_c_tools() -> Result<(), String> {
    // Each tool with the package that holds it.
    const TOOLS: [(&str, &str); 5] = [
        ("cc", "gcc"),
        ("c++", "g++"),
        ("pkg-config", "pkg-config"),
        ("cmake", "cmake"),
        ("valgrind", "valgrind"),
    ];
    let missing = || TOOLS.into_iter().filter(|(tool, _)| !works(tool, &["--version"]));
    let packages: Vec<&str> = missing().map(|(_, package)| package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    apt_install(&packages);
    let left: Vec<&str> = missing().map(|(_, package)| package).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("install by hand: {}", left.join(" "))) }
}

/// What the crate for MPI needs to be compiled and tested, installed from the distribution if it
/// is missing.
fn install_mpi() -> Result<(), String> {
    const PACKAGES: [&str; 3] = ["libopenmpi-dev", "openmpi-bin", "libclang-dev"];
    let clang =
        "PATH=$PATH:/sbin ldconfig -p | grep -q libclang || ls /usr/lib/llvm-*/lib/libclang*";
    let there = || {
        works("mpicc", &["--version"])
            && works("mpirun", &["--version"])
            && works("sh", &["-c", clang])
    };
    if !there() {
        apt_install(&PACKAGES);
    }
    if there() { Ok(()) } else { Err(format!("install by hand: {}", PACKAGES.join(" "))) }
}

/// Adds up the summaries of `cargo test`, of `cargo nextest` and of pytest.
fn count(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines() {
        let line = strip_colours(line);
        let line = line.trim();
        let summary = if let Some(rest) = line.strip_prefix("test result:") {
            rest
        } else if line.starts_with("Summary [") && line.contains("run:") {
            line.split_once("run:").map_or("", |(_, rest)| rest)
        } else if is_pytest_summary(line) {
            line
        } else {
            continue;
        };
        let mut before = 0;
        for word in summary.split([' ', ',', ';', '.', '(', ')']).filter(|w| !w.is_empty()) {
            match word {
                "passed" => tally.passed += before,
                "failed" | "timed" | "error" | "errors" => tally.failed += before,
                _ => {}
            }
            before = word.parse().unwrap_or(0);
        }
    }
    tally
}

/// Whether a line closes a run of pytest: `2 failed, 187 passed in 33.80s`, with or without `===`.
fn is_pytest_summary(line: &str) -> bool {
    let line = line.trim_matches(['=', ' ']);
    let Some((counts, time)) = line.rsplit_once(" in ") else { return false };
    time.starts_with(|c: char| c.is_ascii_digit())
        && counts.split(", ").all(|part| {
            part.split_once(' ').is_some_and(|(n, word)| {
                n.parse::<u64>().is_ok() && word.chars().all(|c| c.is_ascii_lowercase())
            })
        })
}

fn strip_colours(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_are_counted() {
        let cargo = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; finished in 1.0s
test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(count(cargo), Tally { passed: 15, failed: 2 });
        let nextest = "     Summary [   0.305s] 20 tests run: 17 passed (1 slow), 2 failed, 1 timed out, 4 skipped";
        assert_eq!(count(nextest), Tally { passed: 17, failed: 3 });
        let coloured = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.305s] \u{1b}[1m5\u{1b}[0m tests run: \u{1b}[1m5\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped";
        assert_eq!(count(coloured), Tally { passed: 5, failed: 0 });
    }

    #[test]
    fn pytest_is_counted() {
        let quiet = "3 failed, 187 passed, 1 skipped, 2 errors in 33.80s";
        assert_eq!(count(quiet), Tally { passed: 187, failed: 5 });
        let loud = "======= \u{1b}[32m12 passed\u{1b}[0m, 1 warning in 65.20s (0:01:05) =======";
        assert_eq!(count(loud), Tally { passed: 12, failed: 0 });
        assert_eq!(count("tests/a.py ..... 5 passed in one go"), Tally::default());
        assert_eq!(count("no tests ran in 0.01s"), Tally::default());
    }

    #[test]
    fn a_build_error_counts_nothing() {
        assert_eq!(count("error: could not compile `sparsefft`"), Tally::default());
    }
}
