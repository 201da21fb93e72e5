//! The options that say what to look for, shared by every command that transforms.

use super::device::Target;
use crate::Exit;
use crate::units;
use anyhow::{Result, bail};
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

/// Where peaks are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On the grid first; between the bins if the signal is not sparse there.
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

/// A spectrum and, in the mode `tones`, what it was made from.
pub struct Found {
    /// The peaks.
    pub spectrum: Spectrum,
    /// The tones.
    pub tones: Option<Tones>,
}

/// Share of the energy that uncertified tones must explain to be shown in place of a dense FFT.
const EXPLAINED: f64 = 0.5;

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

    /// Transforms on the grid, between the bins, or first one and then the other.
    ///
    /// The grid comes first: it costs microseconds and proves itself. If it cannot, tones do, and
    /// last, if nothing explains the signal, what the fallback allows on the grid.
    pub fn answer<S: Samples>(&self, plan: &Plan, signal: &S, mode: Mode) -> Result<Found> {
        let on_grid = |spectrum| Ok(Found { spectrum, tones: None });
        let named = self.algorithm != Algorithm::Auto;
        if mode == Mode::Grid || (mode == Mode::Auto && named) {
            return on_grid(self.device.transform(plan, signal)?);
        }
        if mode == Mode::Tones {
            let tones = plan.tones(signal)?;
            return Ok(Found { spectrum: tones.to_spectrum(), tones: Some(tones) });
        }
        let planned_dense = plan.recipe().algorithm == Algorithm::Dense;
        let grid = if planned_dense {
            self.device.transform(plan, signal)?
        } else {
            let careful = Plan::new(plan.problem().clone().fallback(Fallback::Never))?;
            self.device.transform(&careful, signal)?
        };
        if grid.certificate().verdict == Verdict::Certified {
            return on_grid(grid);
        }
        let tones = plan.tones(signal)?;
        let certificate = tones.certificate();
        let (sure, explained) =
            (certificate.is_certified(), certificate.residual_energy < EXPLAINED);
        let count = tones.tones().len() + tones.bands().len() + tones.clusters().len();
        let between = move || Ok(Found { spectrum: tones.to_spectrum(), tones: Some(tones) });
        if sure && count > 0 && !planned_dense {
            return between();
        }
        // What the fallback allows; leaked tones fill many bins of a dense transform.
        let grid = if planned_dense { grid } else { self.device.transform(plan, signal)? };
        let leaked = self.k.is_none() && 3 * count < grid.peaks().len();
        let better = match grid.certificate().verdict {
            Verdict::Dense => leaked && explained && (sure || !planned_dense),
            _ => explained,
        };
        if better && count > 0 { between() } else { on_grid(grid) }
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
