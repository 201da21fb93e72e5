//! `cargo xtask test`: everything that must hold before a commit, on a bare machine.
//!
//! Order: tools, format, lints, tests, documentation tests (the README among them),
//! documentation. Every step runs even if an earlier one failed. The last line is
//! `N passed, M failed`: tests, plus one failure for each of the other steps that failed.

use crate::shell::{Outcome, cargo, tee, works};
use std::process::Command;

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
    let suites = [
        ("the test suite", suite),
        ("GPU tests", gpu),
        ("emulated kernels", emulated),
        ("documentation tests", doc),
    ];
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
    if works("apt-get", &["--version"]) {
        let sudo = !works("sh", &["-c", "test $(id -u) = 0"]);
        for words in [&["update"][..], &["install", "-y", "--no-install-recommends", "chromium"]] {
            let mut command = Command::new(if sudo { "sudo" } else { "apt-get" });
            if sudo {
                command.args(["-n", "apt-get"]);
            }
            tee(command.args(words).env("DEBIAN_FRONTEND", "noninteractive"));
        }
    }
    let found = find();
    if found.is_none() {
        let output = "install chromium by hand".to_owned();
        check("installing chromium", Outcome { success: false, output });
    }
    found
}

/// Adds up the summaries of `cargo test` and of `cargo nextest`.
fn count(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines() {
        let line = strip_colours(line);
        let line = line.trim();
        let summary = if let Some(rest) = line.strip_prefix("test result:") {
            rest
        } else if line.starts_with("Summary [") && line.contains("run:") {
            line.split_once("run:").map_or("", |(_, rest)| rest)
        } else {
            continue;
        };
        let mut before = 0;
        for word in summary.split([' ', ',', ';', '.', '(', ')']).filter(|w| !w.is_empty()) {
            match word {
                "passed" => tally.passed += before,
                "failed" | "timed" => tally.failed += before,
                _ => {}
            }
            before = word.parse().unwrap_or(0);
        }
    }
    tally
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
    fn a_build_error_counts_nothing() {
        assert_eq!(count("error: could not compile `sparsefft`"), Tally::default());
    }
}
