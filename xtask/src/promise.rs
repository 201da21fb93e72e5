//! `cargo xtask promise [--trials N]`: sweeps signals and checks that every answer is right or not
//! certified.

use crate::shell::{cargo, tee};

/// Runs the library's `promise` example in release mode.
pub fn run(args: &[String]) -> Result<bool, String> {
    let trials = match args {
        [] => None,
        [flag, value] if flag == "--trials" => Some(
            value
                .parse::<u64>()
                .map_err(|_| format!("--trials takes a whole number, not '{value}'"))?,
        ),
        _ => return Err("usage: cargo xtask promise [--trials N]".into()),
    };
    let mut command = cargo();
    command.args(["run", "--release", "-p", "sparsefft", "--example", "promise", "--"]);
    if let Some(n) = trials {
        command.args(["--trials", &n.to_string()]);
    }
    Ok(tee(&mut command).success)
}
