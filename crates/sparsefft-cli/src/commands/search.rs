//! The options that say what to look for, shared by every command that transforms.

use super::device::Target;
use crate::Exit;
use crate::output::Cost;
use crate::units;
use anyhow::{Result, bail};
use sparsefft::find::{Effort, Find, Findings};
use sparsefft::{Algorithm, Fallback, Noise, Plan, Problem, Samples, Spectrum, Tones, Verdict};
use std::str::FromStr;

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

    /// Seed of the random choices; the same seed gives the same answer. 'random' draws one, which
    /// the answer names: nobody who made the signal can know what will be read
    #[arg(long, value_name = "N", default_value = "0", value_parser = units::seed)]
    pub seed: u64,

    /// Unexplained share (relative L2) below which the signal counts as explained
    #[arg(long, value_name = "SHARE", default_value_t = 1e-6)]
    pub tolerance: f64,

    /// Never read the whole signal, even if nothing else gives a certified answer
    #[arg(long, visible_alias = "quick")]
    pub no_dense: bool,

    /// Where to compute: auto, cpu, cuda or cuda:NUMBER (a GPU; nothing else is used then)
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub device: Target,
}

/// Where peaks are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whatever is there: lines, bands, bursts, sweeps.
    Auto,
    /// Fourier coefficients.
    Grid,
    /// Frequencies between the bins.
    Tones,
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Mode::Auto),
            "grid" => Ok(Mode::Grid),
            "tones" => Ok(Mode::Tones),
            _ => Err(format!("unknown mode '{text}'; one of auto, grid, tones")),
        }
    }
}

/// An answer as a spectrum, and what it was made from.
pub struct Found {
    /// The peaks.
    pub spectrum: Spectrum,
    /// The tones.
    pub tones: Option<Tones>,
    /// Everything that was found, unless a mode asked for less.
    pub findings: Option<Findings>,
    /// What all attempts have cost.
    pub cost: Cost,
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

    /// Transforms on the grid, between the bins, or finds whatever is there.
    pub fn answer<S: Samples>(
        &self,
        plan: &Plan,
        signal: &S,
        mode: Mode,
        effort: Option<Effort>,
    ) -> Result<Found> {
        let mut cost = Cost::default();
        let named = self.algorithm != Algorithm::Auto || matches!(self.device, Target::Cuda(_));
        if mode == Mode::Grid || (mode == Mode::Auto && named) {
            let spectrum = self.device.transform(plan, signal)?;
            cost.add(&spectrum);
            return Ok(Found { spectrum, tones: None, findings: None, cost });
        }
        if mode == Mode::Tones {
            let effort = if self.no_dense { Effort::Quick } else { Effort::Usual };
            let find = Find::new().hints(plan.problem().clone()).seed(self.seed).effort(effort);
            let tones = find.tones(signal)?;
            cost.add_tones(&tones);
            let spectrum = tones.to_spectrum();
            return Ok(Found { spectrum, tones: Some(tones), findings: None, cost });
        }
        let effort = if self.no_dense { Effort::Quick } else { effort.unwrap_or_default() };
        let findings = self.find(plan, signal).effort(effort).run(signal)?;
        cost.add_findings(&findings);
        let tones = findings.tones().cloned();
        Ok(Found { spectrum: findings.to_spectrum(), tones, findings: Some(findings), cost })
    }

    /// How to look for whatever is there.
    pub fn find<S: Samples>(&self, plan: &Plan, signal: &S) -> Find {
        let find = Find::new().hints(plan.problem().clone()).seed(self.seed);
        match self.k {
            // A real tone has two coefficients, and is one line.
            Some(k) if signal.is_real() => find.at_most(k.div_ceil(2)),
            Some(k) => find.at_most(k),
            None => find,
        }
    }

    /// The plan for a signal of n samples.
    pub fn plan(&self, n: u64) -> Result<Plan> {
        Ok(Plan::new(self.problem(n)?)?)
    }
}

/// What an answer means for the exit code.
pub fn exit(spectrum: &Spectrum, findings: Option<&Findings>) -> Exit {
    if spectrum.certificate().verdict == Verdict::Uncertified {
        Exit::Uncertified
    } else if findings.map_or(spectrum.peaks().is_empty(), Findings::is_empty) {
        Exit::Nothing
    } else {
        Exit::Found
    }
}
