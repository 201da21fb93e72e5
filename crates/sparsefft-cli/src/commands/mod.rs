//! The subcommands, one file each.

mod demo;
mod generate;
mod peaks;
mod plan;
mod search;

use crate::Exit;
use anyhow::Result;
use clap::{Parser, Subcommand};

/// The few large Fourier coefficients of a huge signal, without reading all of it.
#[derive(Debug, Parser)]
#[command(
    name = "sparsefft",
    version,
    propagate_version = true,
    after_help = "Examples:
  sparsefft demo                           see what it does; needs no file
  sparsefft peaks signal.npy               find the tones, however many there are
  sparsefft peaks signal.npy -k 50 --json  the 50 largest coefficients, for a program
  sparsefft plan -n 64Mi -k 50             what would be done, and what it would cost

Exit codes: 0 found, 1 nothing above the noise, 2 usage or input error, 3 not certified."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    #[command(name = "gen")]
    Generate(generate::Args),
    Peaks(peaks::Args),
    Plan(plan::Args),
}

impl Cli {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// What was wrong and what to do, in one sentence.
    pub fn run(&self) -> Result<Exit> {
        match &self.command {
            Command::Demo(args) => demo::run(args),
            Command::Generate(args) => generate::run(args),
            Command::Peaks(args) => peaks::run(args),
            Command::Plan(args) => plan::run(args),
        }
    }
}
