//! `cargo xtask bench [PART …]`: the experiment, beside RustFFT, FFTW and oxifft.

use crate::shell::{cargo, tee};

/// Runs the experiment, or some of its parts.
pub fn run(args: &[String]) -> Result<bool, String> {
    let mut command = cargo();
    command.args(["run", "--release", "-p", "experiment", "--"]).args(args);
    Ok(tee(&mut command).success)
}
