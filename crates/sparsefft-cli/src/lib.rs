//! The `sparsefft` command: from a recording on disk to its peaks.
//!
//! Parse the arguments (`commands`), open the recording ([`input`]), ask the library, print
//! ([`output`]). Data go to stdout, everything else to stderr. Exit codes: 0 found, 1 nothing
//! above the noise, 2 usage or input error, 3 not certified.
//!
//! Signals: SIGINT, SIGTERM and SIGHUP remove unfinished output files and end the process as they
//! always do; a reader of standard output that goes away ends it by SIGPIPE, silently.

mod commands;
pub mod input;
pub mod output;
mod parallel;
pub mod synth;
pub mod units;

use anyhow::Context;
use output::progress::say;
use std::io::{ErrorKind, Write};
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

/// Runs the command line and returns its exit code. Where the reader of standard output went away,
/// the process ends by SIGPIPE, as `cat` does; everything unfinished has been removed by then.
pub fn run() -> ExitCode {
    let done = match commands::Cli::of_process() {
        Ok(cli) => {
            parallel::prepare();
            cli.run()
        }
        // Help and the version are wanted output, which may not get lost silently.
        Err(text) if !text.use_stderr() => text
            .print()
            .and_then(|()| std::io::stdout().flush())
            .context("standard output cannot be written")
            .map(|()| Exit::Found),
        Err(usage) => {
            let _ = usage.print();
            Ok(Exit::Bad)
        }
    };
    let exit = done.unwrap_or_else(|error| {
        if !ended_by_reader(&error) {
            say(&format!("{error:#}"));
        }
        Exit::Bad
    });
    ExitCode::from(exit as u8)
}

/// Whether the reader of an output went away; the process then ends here, where signals exist.
fn ended_by_reader(error: &anyhow::Error) -> bool {
    let closed = error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == ErrorKind::BrokenPipe);
    #[cfg(unix)]
    if closed {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    }
    closed
}
