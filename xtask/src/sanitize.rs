//! `cargo xtask sanitize [loom | address | thread | miri ...]`: what finds races and bytes out of bounds, where
//! the toolchain allows it; by command, not a step of the tests.
//!
//! - `loom`: the fork and join of `cpu/team.rs` in every order of a few steps (`models`); any toolchain.
//! - `address`, `thread`: the cases of `crates/smoke` with LLVM's sanitizers, which are options of
//!   every compiler under `RUSTC_BOOTSTRAP=1`; `thread` also compiles the standard library, for which
//!   rustup's component `rust-src` is needed.
//! - `miri`: units of the library that use neither vectors nor the processor's counter, which it
//!   does not know; it needs `rustup +nightly component add miri rust-src`.
//!
//! What the toolchain cannot do is named and skipped if nothing was asked for, and a failure if it was.

use crate::shell::{cargo, root, tee, works};
use std::process::Command;

const ALL: [&str; 4] = ["loom", "address", "thread", "miri"];

/// Runs those that are named, or all that can run here.
pub fn run(args: &[String]) -> Result<bool, String> {
    if let Some(other) = args.iter().find(|a| !ALL.contains(&a.as_str())) {
        return Err(format!(
            "there is no '{other}'; usage: cargo xtask sanitize [{}]",
            ALL.join(" | ")
        ));
    }
    let mut good = true;
    for what in ALL {
        if !args.is_empty() && !args.iter().any(|a| a == what) {
            continue;
        }
        match command(what) {
            Ok(mut command) => good &= tee(&mut command).success,
            Err(why) => {
                eprintln!("xtask sanitize: {what}: SKIPPED: {why}");
                good &= args.is_empty();
            }
        }
    }
    Ok(good)
}

fn command(what: &str) -> Result<Command, String> {
    match what {
        "loom" => {
            let mut test = cargo();
            test.args(["test", "--release", "--manifest-path", "models/Cargo.toml"]);
            test.args(["--target-dir", "target/models"]).env("RUSTFLAGS", "--cfg loom");
            Ok(test)
        }
        "miri" => {
            if !works("cargo", &["+nightly", "miri", "--version"]) {
                return Err("it needs `rustup +nightly component add miri rust-src`".into());
            }
            let mut test = Command::new("cargo");
            test.current_dir(root()).args(["+nightly", "miri", "test", "-p", "sparsefft", "--lib"]);
            test.args(["--target-dir", "target/miri", "--", "samples::", "sketch::coverage"]);
            Ok(test)
        }
        sanitizer => {
            let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
            let mut run = cargo();
            run.args(["run", "-p", "smoke", "--target", &host]);
            run.args(["--target-dir", &format!("target/{sanitizer}")]);
            if sanitizer == "thread" {
                let source = "test -d $(rustc --print sysroot)/lib/rustlib/src/rust/library";
                if !works("sh", &["-c", source]) {
                    return Err("it needs `rustup component add rust-src`".into());
                }
                run.arg("-Zbuild-std");
            }
            run.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
            Ok(run)
        }
    }
}
