//! `cargo xtask bench [TEXT …]`: speed beside RustFFT; only rows whose name contains a text.

use crate::shell::{cargo, tee};

/// Runs the library's `speed` bench.
pub fn run(args: &[String]) -> Result<bool, String> {
    let mut command = cargo();
    command.args(["bench", "-p", "sparsefft", "--bench", "speed", "--"]).args(args);
    Ok(tee(&mut command).success)
}
