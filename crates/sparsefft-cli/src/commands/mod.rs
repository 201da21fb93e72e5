//! The subcommands, one file each.

mod deadline;
mod demo;
mod device;
mod fft;
mod generate;
mod info;
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
use std::ffi::OsString;
use std::path::Path;

/// The few large Fourier coefficients of a huge signal, without reading all of it.
#[derive(Debug, Parser)]
#[command(
    name = "sparsefft",
    version,
    propagate_version = true,
    override_usage = "sparsefft [OPTIONS] <COMMAND>\n       sparsefft FILE [OPTIONS]    the same as sparsefft peaks FILE",
    after_help = "Examples:
  sparsefft demo                           see what it does; needs no file
  sparsefft signal.npy                     find what is in it, however much that is
  sparsefft info signal.cs8                length, levels, clipping; whether the type fits
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

/// The arguments with `peaks` before the name of a file where no command stands.
fn with_command(mut args: Vec<OsString>, names: &[String]) -> Vec<OsString> {
    let global = |a: &OsString| ["-q", "--quiet", "-v", "--verbose"].iter().any(|g| a == g);
    let Some(at) = (1..args.len()).find(|&i| !global(&args[i])) else { return args };
    let word = args[at].to_string_lossy();
    if names.iter().any(|n| *n == word) || word == "help" {
        return args;
    }
    // A word that is neither a command nor a file is more likely a misspelt command.
    let file = |text: &OsString| {
        let text = text.to_string_lossy();
        text == "-" || text.contains(['/', '.', '\\']) || Path::new(&*text).exists()
    };
    let own = ["-h", "--help", "-V", "--version"].iter().any(|o| word == *o);
    let option = word.starts_with('-') && word != "-";
    let meant = if option { !own && args[at + 1..].iter().any(file) } else { file(&args[at]) };
    if meant {
        args.insert(at, "peaks".into());
    }
    args
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    #[command(name = "gen")]
    Generate(generate::Args),
    Info(info::Args),
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
        let names: Vec<String> =
            command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        let args = with_command(std::env::args_os().collect(), &names);
        let mut matches = command.try_get_matches_from_mut(args)?;
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
            Command::Info(args) => info::run(args),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_alone_means_peaks() {
        let names = ["peaks".to_owned(), "info".to_owned()];
        let with = |line: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            with_command(args, &names).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        for (given, meant) in [
            ("sparsefft x.npy --json", "sparsefft peaks x.npy --json"),
            ("sparsefft -q ./peaks", "sparsefft -q peaks ./peaks"),
            ("sparsefft --rate 2M x.cu8", "sparsefft peaks --rate 2M x.cu8"),
            ("sparsefft - --format cs8", "sparsefft peaks - --format cs8"),
            ("sparsefft http://host/x", "sparsefft peaks http://host/x"),
        ] {
            assert_eq!(with(given), meant);
        }
        for same in [
            "sparsefft",
            "sparsefft peaks",
            "sparsefft info x.wav",
            "sparsefft -v --help",
            "sparsefft paeks",
        ] {
            assert_eq!(with(same), same);
        }
    }
}
