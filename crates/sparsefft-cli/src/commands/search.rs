//! The options that say what to look for, shared by every command that transforms.

use super::device::Target;
use crate::Exit;
use crate::units;
use anyhow::{Result, bail};
use sparsefft::{Algorithm, Fallback, Noise, Plan, Problem, Spectrum, Verdict};

/// What to look for and how.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Search")]
pub struct Search {
    /// How many coefficients to find (a real tone has two); found out if not given
    #[arg(short, value_name = "K", value_parser = units::positive, allow_hyphen_values = true)]
    pub k: Option<u64>,

    /// SNR in dB of the weakest wanted tone against the noise in one sample; 'inf': no noise
    #[arg(long, value_name = "DB", value_parser = decibels, allow_hyphen_values = true)]
    pub snr: Option<f64>,

    /// auto, exact, robust, vote, comb-vote or dense
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub algorithm: Algorithm,

    /// Seed of the random choices; the same seed gives the same answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Unexplained share (relative L2) below which the signal counts as explained
    #[arg(long, value_name = "SHARE", default_value_t = 1e-6)]
    pub tolerance: f64,

    /// Never read the whole signal, even if nothing else gives a certified answer
    #[arg(long)]
    pub no_dense: bool,

    /// Where to compute: auto, cpu, cuda or cuda:NUMBER (a GPU; nothing else is used then)
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub device: Target,
}

fn decibels(text: &str) -> Result<f64, String> {
    match text {
        "inf" | "exact" => Ok(f64::INFINITY),
        _ => units::number(text),
    }
}

impl Search {
    /// The problem for a signal of n samples.
    pub fn problem(&self, n: u64) -> Result<Problem> {
        if self.no_dense && self.algorithm == Algorithm::Dense {
            bail!("--no-dense and --algorithm dense exclude each other; leave one of them out");
        }
        let mut problem = Problem::new(n)
            .algorithm(self.algorithm)
            .seed(self.seed)
            .tolerance(self.tolerance)
            .noise(match self.snr {
                None => Noise::Unknown,
                Some(f64::INFINITY) => Noise::Exact,
                Some(db) => Noise::Snr(db),
            });
        if self.no_dense {
            problem = problem.fallback(Fallback::Never);
        }
        if let Some(k) = self.k {
            problem = problem.sparsity(k);
        }
        Ok(problem)
    }

    /// The plan for a signal of n samples.
    pub fn plan(&self, n: u64) -> Result<Plan> {
        Ok(Plan::new(self.problem(n)?)?)
    }
}

/// What an answer means for the exit code.
pub fn exit(spectrum: &Spectrum) -> Exit {
    if spectrum.certificate().verdict == Verdict::Uncertified {
        Exit::Uncertified
    } else if spectrum.peaks().is_empty() {
        Exit::Nothing
    } else {
        Exit::Found
    }
}
