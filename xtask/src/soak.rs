//! `cargo xtask soak [MINUTES]`: mixed calls from eight threads, half of the time through the C
//! library and half through the Python package. Every answer must be the one that a single thread
//! gave before, and memory must stay flat once it is warm: a leak of a few bytes in each call shows
//! after millions of them.

use crate::shell::{root, tee};
use crate::{install_c, python};
use std::process::Command;

/// Builds both, and runs both programs.
pub fn run(args: &[String]) -> Result<bool, String> {
    let minutes = match args {
        [] => 60.0,
        [m] => m
            .parse::<f64>()
            .ok()
            .filter(|m| (0.5..=1e5).contains(m))
            .ok_or_else(|| format!("MINUTES is a number from 0.5 to 100000, not '{m}'"))?,
        _ => return Err("usage: cargo xtask soak [MINUTES]".into()),
    };
    let seconds = format!("{:.0}", 30.0 * minutes);
    let prefix = root().join("target/soak");
    let place = prefix.display().to_string();
    if !install_c::run(&["--debug".into(), "--prefix".into(), place])? {
        return Err("the C library was not built".into());
    }
    let program = prefix.join("soak");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(root().join("crates/sparsefft-capi/tests/c/soak.c"));
    compile.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib"));
    if !tee(compile.args(["-lsparsefft", "-lm", "-pthread"])).success {
        return Err("crates/sparsefft-capi/tests/c/soak.c was not compiled".into());
    }
    let interpreter = python::install()?;
    let mut in_c = Command::new(&program);
    in_c.arg(&seconds).env("LD_LIBRARY_PATH", prefix.join("lib"));
    let mut in_python = Command::new(interpreter);
    in_python.arg(root().join("python/soak/soak.py")).arg(&seconds);
    let good = [tee(&mut in_c).success, tee(&mut in_python).success];
    Ok(good == [true, true])
}
