//! `cargo xtask portable`: the library on processors and systems that this machine is not.
//!
//! The cases of `crates/smoke` are built for 64-bit Arm Linux and run under emulation, and for
//! WebAssembly without a system and run in Node; the command and the C library are checked for Arm.
//!
//! The standard library for a target comes from rustup where it can be had, else it is built from the
//! sources that Debian packages with a compiler of its own. Both leave what they build in
//! `target/elsewhere`.

use crate::shell::{Outcome, apt_install, cargo, root, tee, works};
use std::process::Command;

const ARM: &str = "aarch64-unknown-linux-gnu";
const WASM: &str = "wasm32-unknown-unknown";

/// Debian's compiler, which can build the standard library for other targets.
const DEBIAN: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld"];

/// Builds and runs everything.
pub fn run(args: &[String]) -> Result<bool, String> {
    if !args.is_empty() {
        return Err("usage: cargo xtask portable (it takes no arguments)".into());
    }
    Ok(suites().iter().all(|(_, outcome)| outcome.success))
}

/// What is run, each with what came of it: the words of `cargo test` where it was built.
pub fn suites() -> Vec<(&'static str, Outcome)> {
    vec![
        ("the smoke suite for 64-bit Arm", missing(&TOOLS[..2]).unwrap_or_else(arm)),
        ("the smoke suite for WebAssembly", missing(&TOOLS[2..]).unwrap_or_else(wasm)),
    ]
}

/// A program that is needed: its name and what it is called with, the packages that hold it, and what for.
type Tool = (&'static str, &'static str, &'static [&'static str], &'static str);

const TOOLS: [Tool; 3] = [
    (
        "aarch64-linux-gnu-gcc",
        "--version",
        &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        "links programs for 64-bit Arm",
    ),
    ("qemu-aarch64-static", "--version", &["qemu-user-static"], "runs programs for 64-bit Arm"),
    ("node", "--version", &["nodejs"], "runs WebAssembly"),
];

/// Installs what is missing of these tools; a failure in words if one cannot be had.
fn missing(tools: &[Tool]) -> Option<Outcome> {
    let absent = || tools.iter().filter(|(tool, version, ..)| !works(tool, &[version]));
    let packages: Vec<&str> = absent().flat_map(|(.., packages, _)| *packages).copied().collect();
    if !packages.is_empty() {
        apt_install(&packages);
    }
    let (tool, _, packages, what) = absent().next()?;
    Some(failure(format!(
        "{tool}, which {what}, cannot be installed; install {} by hand",
        packages.join(" ")
    )))
}

fn failure(output: String) -> Outcome {
    eprintln!("xtask portable: {output}");
    Outcome { success: false, output }
}

fn arm() -> Outcome {
    let build = |words: &[&str]| {
        let mut cargo = compiler(ARM, words)?;
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        cargo.env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc");
        Ok::<_, Outcome>(tee(&mut cargo))
    };
    for words in [
        &["build", "-p", "smoke", "--bins"][..],
        &["check", "-p", "sparsefft-cli", "-p", "sparsefft-capi"],
    ] {
        match build(words) {
            Ok(built) if built.success => {}
            Ok(failed) | Err(failed) => return failed,
        }
    }
    let program = root().join(format!("target/elsewhere/{ARM}/release/smoke"));
    let mut emulated = Command::new("qemu-aarch64-static");
    tee(emulated.args(["-L", "/usr/aarch64-linux-gnu"]).arg(program))
}

fn wasm() -> Outcome {
    let built = match compiler(WASM, &["build", "-p", "smoke", "--lib"]) {
        Ok(mut cargo) => tee(&mut cargo),
        Err(failed) => return failed,
    };
    if !built.success {
        return built;
    }
    let module = root().join(format!("target/elsewhere/{WASM}/release/smoke.wasm"));
    tee(Command::new("node").arg(root().join("crates/smoke/run.mjs")).arg(module))
}

/// A cargo that can compile for a target.
fn compiler(target: &str, words: &[&str]) -> Result<Command, Outcome> {
    let ours = || {
        let libraries = Command::new("rustc")
            .current_dir(root())
            .args(["--print", "target-libdir", "--target", target])
            .output();
        libraries.is_ok_and(|o| {
            o.status.success()
                && std::path::Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir()
        })
    };
    let plain = ours() || {
        // Without a network this fails at once, and the other way is left.
        tee(Command::new("rustup").current_dir(root()).args(["target", "add", target]));
        ours()
    };
    let mut command = if plain { cargo() } else { debian(target)? };
    command.args(words).args(["--release", "--target", target, "--target-dir", "target/elsewhere"]);
    // Warnings for these targets would be seen by nobody.
    command.env("RUSTFLAGS", "-D warnings").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    if !plain {
        command.arg("-Zbuild-std=std,panic_abort");
    }
    Ok(command)
}

/// Debian's cargo with the sources of the standard library, installed if it is missing.
fn debian(target: &str) -> Result<Command, Outcome> {
    const SOURCES: &str = "/usr/lib/rustlib/src/rust/library/std/Cargo.toml";
    let there = || {
        works("/usr/bin/cargo", &["--version"])
            && works("/usr/bin/rustc", &["--version"])
            && works("/usr/bin/wasm-ld", &["--version"])
            && std::path::Path::new(SOURCES).is_file()
    };
    if !there() {
        apt_install(&DEBIAN);
    }
    if !there() {
        return Err(failure(format!(
            "there is no standard library for {target}; run `rustup target add {target}`, or install {} \
             by hand",
            DEBIAN.join(" ")
        )));
    }
    let mut command = Command::new("/usr/bin/cargo");
    command.current_dir(root());
    // Building the standard library is not stable; the variable allows it on this compiler.
    command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld");
    // What rustup's cargo has set for the compiler that runs us.
    for name in ["LD_LIBRARY_PATH", "RUSTUP_TOOLCHAIN", "CARGO", "RUSTDOC"] {
        command.env_remove(name);
    }
    Ok(command)
}
