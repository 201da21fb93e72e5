//! Sweeps the promise: every answer is right, or its certificate says that it may not be.
//!
//! ```text
//! cargo run --release --example promise -- [--trials N] [--class NAME]... [--seed S] [--trial I]
//!                                          [--algorithm NAME] [--never-dense] [--stored]
//! ```
//! One line per class of signals; `--class` takes a name or the first words of it, `--trial`
//! repeats a single one. `--never-dense` forbids the dense fallback, behind which a weak sparse
//! path could hide; `--stored` keeps all samples in memory, up to 2^22 of them, where transforms read them in other
//! ways. Exits with 1 if any answer was wrong and certified, or any transform
//! failed. Times marked with * include computing the samples on demand.

#[path = "../tests/common/mod.rs"]
mod common;

use sparsefft::{Algorithm, Fallback};
use std::process::ExitCode;
use testkit::promise::{self, Demand, Tally};

struct Options {
    trials: u64,
    classes: Vec<String>,
    seed: u64,
    trial: Option<u64>,
    algorithm: Algorithm,
    fallback: Fallback,
    stored: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        trials: 100,
        classes: Vec::new(),
        seed: 1,
        trial: None,
        algorithm: Algorithm::Auto,
        fallback: Fallback::Auto,
        stored: false,
    };
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or(format!("{flag} needs a value"));
        let number = |v: String| v.parse::<u64>().map_err(|e| format!("{flag} {v}: {e}"));
        match flag.as_str() {
            "--trials" => options.trials = number(value()?)?,
            "--class" => options.classes.push(value()?),
            "--seed" => options.seed = number(value()?)?,
            "--trial" => options.trial = Some(number(value()?)?),
            "--algorithm" => options.algorithm = value()?.parse()?,
            "--never-dense" => options.fallback = Fallback::Never,
            "--stored" => options.stored = true,
            _ => {
                return Err(format!(
                    "unknown argument {flag}; known: --trials N, --class NAME, --seed S, \
                     --trial I, --algorithm NAME, --never-dense, --stored"
                ));
            }
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let chosen: Vec<_> = promise::classes()
        .into_iter()
        .filter(|class| {
            options.classes.is_empty() || options.classes.iter().any(|w| promise::matches(class, w))
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = promise::classes().iter().map(|c| c.name).collect();
        eprintln!("no such class; known: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let (first, trials) = match options.trial {
        Some(trial) => (trial, 1),
        None => (0, options.trials),
    };
    let mut transform = |case: &_, source: &_| {
        common::transform_with(case, source, |problem| {
            problem.algorithm(options.algorithm).fallback(options.fallback)
        })
    };
    let mut kept = true;
    println!("{}", Tally::heading());
    for class in &chosen {
        let tally = match options.stored {
            true => {
                promise::run_stored(class, options.seed, first, trials, 1 << 22, &mut transform)
            }
            false => promise::run(class, options.seed, first, trials, &mut transform),
        };
        println!("{}", tally.line(class.name));
        for complaint in tally.complaints.iter().take(3) {
            eprintln!("  {complaint}");
        }
        kept &= tally.kept() || class.demand == Demand::Nothing;
    }
    if kept {
        ExitCode::SUCCESS
    } else {
        eprintln!("the promise is broken");
        ExitCode::FAILURE
    }
}
