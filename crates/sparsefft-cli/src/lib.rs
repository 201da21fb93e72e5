//! The `sparsefft` command: from a recording on disk to its peaks.
//!
//! Parse the arguments (`commands`), open the recording ([`input`]), ask the library, print
//! ([`output`]). Data go to stdout, everything else to stderr. Exit codes: 0 found, 1 nothing
//! above the noise, 2 usage or input error, 3 not certified.

mod commands;
pub mod input;
pub mod output;
pub mod synth;
pub mod units;

use clap::Parser;
use std::io::ErrorKind;
use std::process::ExitCode;

/// The README's examples are compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So are those of the page on sketches.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/distributed.md")]
struct Distributed;

/// What a finished command tells the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Something was found, or the command did what it was asked.
    Found = 0,
    /// Nothing stands above the noise.
    Nothing = 1,
    /// Usage or input error.
    Bad = 2,
    /// The answer may be incomplete.
    Uncertified = 3,
}

/// Runs the command line and returns its exit code.
pub fn run() -> ExitCode {
    let cli = commands::Cli::parse();
    let exit = cli.run().unwrap_or_else(|error| {
        eprintln!("sparsefft: {}", sentence(&error));
        Exit::Bad
    });
    ExitCode::from(exit as u8)
}

/// An error and its causes in one sentence.
fn sentence(error: &anyhow::Error) -> String {
    let closed = error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == ErrorKind::BrokenPipe);
    if closed {
        return "standard output was closed before everything was written; \
                redirect it to a file to keep all of it"
            .into();
    }
    format!("{error:#}")
}
