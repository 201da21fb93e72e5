//! The subcommands, one file each.

mod demo;
mod device;
mod fft;
mod generate;
mod peaks;
mod plan;
mod plot;
mod report;
mod search;
mod shell;
mod sketch;
mod waterfall;

use crate::Exit;
use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// The few large Fourier coefficients of a huge signal, without reading all of it.
#[derive(Debug, Parser)]
#[command(
    name = "sparsefft",
    version,
    propagate_version = true,
    after_help = "Examples:
  sparsefft demo                           see what it does; needs no file
  sparsefft peaks signal.npy               find the tones, however many there are
  sparsefft peaks radio.sigmf-meta         SigMF, WAV, raw samples (cf32, cs8, …): by extension
  sparsefft peaks signal.npy -k 50 --json  the 50 largest coefficients, for a program
  sparsefft report x.wav -o report.html    one offline page; plot and waterfall draw pictures
  sparsefft gen -n 1Gi --tones 9 -o x.cs8  a test signal, also larger than memory
  sparsefft sketch a.cf32 --of 2Gi --start 0 -k 9 -o a.sk   one part; merge *.sk unites them
  sparsefft plan -n 64Mi -k 50             what would be done, and what it would cost

Exit codes: 0 found, 1 nothing above the noise, 2 usage or input error, 3 not certified."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// No notes and no progress on stderr, only errors
    #[arg(short, long, global = true)]
    quiet: bool,

    /// Say on stderr what is planned and how long each stage took
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    #[command(name = "gen")]
    Generate(generate::Args),
    Merge(sketch::MergeArgs),
    Peaks(peaks::Args),
    Plan(plan::Args),
    Plot(plot::Args),
    Report(report::Args),
    Sketch(sketch::SketchArgs),
    Waterfall(waterfall::Args),
    Fft(fft::Args),
    Completions(shell::CompletionArgs),
    Man(shell::ManArgs),
}

impl Cli {
    /// Reads the command line of this process. A number below zero behind an option is its value, which
    /// is refused as such, and no option of that name.
    ///
    /// # Errors
    /// What clap says of it; help and the version are errors, too.
    pub fn of_process() -> Result<Self, clap::Error> {
        let signed = |arg: clap::Arg| match arg.get_action().takes_values() {
            true if !arg.is_positional() => arg.allow_negative_numbers(true),
            _ => arg,
        };
        let mut command = Cli::command().mut_subcommands(|c| c.mut_args(signed));
        let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Runs the subcommand.
    ///
    /// # Errors
    /// What was wrong and what to do, in one sentence.
    pub fn run(&self) -> Result<Exit> {
        crate::output::progress::set_level(self.quiet, self.verbose);
        match &self.command {
            Command::Demo(args) => demo::run(args),
            Command::Generate(args) => generate::run(args),
            Command::Merge(args) => sketch::merge(args),
            Command::Peaks(args) => peaks::run(args),
            Command::Plan(args) => plan::run(args),
            Command::Plot(args) => plot::run(args),
            Command::Report(args) => report::run(args),
            Command::Sketch(args) => sketch::sketch(args),
            Command::Waterfall(args) => waterfall::run(args),
            Command::Fft(args) => fft::run(args),
            Command::Completions(args) => shell::completions(args),
            Command::Man(args) => shell::man(args),
        }
    }
}
