//! Tones between the bins: x\[t\] = Σ a_i e^{2πiν_i t} + noise with real-valued ν.
//!
//! 1. permute, window, bucket FFT: a [`comb`] of B windowed lines over the whole record, at the
//!    offsets of a ladder. Its first line tells whether B is large enough; its bins tell the noise
//!    and, with it, how tight the [`window`] must be.
//! 2. [`locate`] the peaks, strongest first; peel each at once.
//! 3. [`refine`] all by Gauss-Newton steps on the bins, [`joint`]ly where they share most of them.
//! 4. What one stride cannot untangle, combs of other strides do.
//! 5. [`certify`] with a comb that took no part. What remains is tested for [`drift`], then named
//!    as clusters and bands ([`extras`]); if it cannot be named, more bins are tried.
//! 6. [`accuracy`]: more offsets of the first comb, where finer frequencies are asked for.
//!
//! Cost: grows with the number of tones and the square of the wanted accuracy, not with n.

mod accuracy;
mod certify;
mod comb;
mod drift;
mod engine;
mod extras;
mod joint;
pub(crate) mod linear;
mod locate;
mod naming;
mod refine;
mod report;
mod settle;
mod strides;
pub(crate) mod window;

use crate::Error;
use crate::algorithms::Run;
use crate::certificate::{Certificate, Verdict};
use crate::problem::Noise;
use crate::samples::MOST_LINES;
use crate::tones::{Accuracy, Band, Cluster, Tone as PublicTone};
use comb::Geometry;
use engine::{Engine, Next, Outcome};

/// Fewest bins of a comb.
const FEWEST: usize = 64;
/// Bins beyond which nothing more is tried when nothing could be located at all.
const PATIENCE: usize = 1 << 14;

/// What was found.
pub(crate) struct Found {
    pub(crate) tones: Vec<PublicTone>,
    pub(crate) bands: Vec<Band>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) certificate: Certificate,
    pub(crate) accuracy: Accuracy,
    pub(crate) bins: usize,
    pub(crate) lines: usize,
    pub(crate) beta: f64,
}

/// Finds the tones of a signal.
pub(crate) fn run(run: &mut Run<'_>) -> Result<Found, Error> {
    let problem = &run.plan.problem;
    let n = problem.n;
    let most = largest_bins(n);
    let Some(most) = most else { return Ok(too_short(n)) };
    let mut next = Next { bins: first_bins(problem).min(most), beta: 0.0 };
    let mut attempts = 1;
    let mut best: Option<Box<Found>> = None;
    loop {
        let retried = best.as_ref().is_some_and(|found| !found.clusters.is_empty());
        let bins = next.bins;
        match Engine::new(run, next, most, retried).attempt()? {
            Outcome::Done(mut found) => {
                found.certificate.attempts = attempts;
                return Ok(*found);
            }
            Outcome::Grow(wanted, found) => {
                attempts += u32::from(found.is_some());
                let hopeless =
                    bins >= PATIENCE && found.as_ref().is_none_or(|f| f.tones.is_empty());
                best = found.or(best);
                let more = run.samples_read as f64 + 16.0 * (2 * bins).max(wanted.bins) as f64;
                if bins >= most || hopeless || !run.plan.problem.affords(more) {
                    let mut found = match best {
                        Some(found) => *found,
                        None => crowded(n, bins, most),
                    };
                    found.certificate.attempts = attempts;
                    return Ok(found);
                }
                next = Next { bins: wanted.bins.max(2 * bins).min(most), ..wanted };
            }
        }
    }
}

/// The largest number of bins that n samples allow; a power of two.
fn largest_bins(n: u64) -> Option<usize> {
    let mut bins = (n / 8).min(MOST_LINES.min(1 << 26)).checked_ilog2().map(|b| 1usize << b)?;
    while bins >= 32 {
        // Combs of fewer samples per line have no strides to choose from.
        let choice = n / bins as u64 >= 16 || bins <= FEWEST;
        let fits = |which| Geometry::new(n, bins, which, 0).is_some();
        if choice && fits(0) && fits(1) {
            return Some(bins);
        }
        bins /= 2;
    }
    None
}

/// Bins of the first comb.
fn first_bins(problem: &crate::Problem) -> usize {
    let mut bins = FEWEST;
    if let Some(k) = problem.k() {
        let lobe = (14f64.powi(2) + 10.0).sqrt() / std::f64::consts::PI;
        bins = bins.max((4.5 * lobe * k.min(1 << 22) as f64) as usize);
    }
    if let Noise::Snr(db) = problem.noise {
        // 300 bins times the ratio leave the ladder enough margin.
        bins = bins.max((300.0 * 10f64.powf(-db / 10.0)).min(1e8) as usize);
    }
    bins.next_power_of_two()
}

/// The answer for signals that no comb fits.
fn too_short(n: u64) -> Found {
    empty(0, format!("{n} samples are too few to separate tones; at least 300 are needed"))
}

/// The answer where nothing could be located in the bins that were tried, which may be fewer than the
/// samples allow.
fn crowded(n: u64, bins: usize, most: usize) -> Found {
    let tried = match bins < most {
        true => "that were tried".to_string(),
        false => format!("that {n} samples allow"),
    };
    empty(bins, format!("all {bins} bins {tried} are occupied: the signal is broadband"))
}

/// An empty, uncertified answer.
fn empty(bins: usize, reason: String) -> Found {
    Found {
        tones: Vec::new(),
        bands: Vec::new(),
        clusters: Vec::new(),
        certificate: Certificate {
            verdict: Verdict::Uncertified,
            reason: Some(reason),
            bins_tested: bins as u64,
            bins_unexplained: bins as u64,
            residual_energy: 1.0,
            noise_floor: 0.0,
            detection_limit: f64::INFINITY,
            rest_limit: 1.0,
            failure_probability: 1.0,
            attempts: 1,
        },
        accuracy: Accuracy { bins: f64::INFINITY, samples: 0, finest: f64::INFINITY },
        bins,
        lines: 0,
        beta: 0.0,
    }
}
