//! The menu of a one-pass transform: everything that its attempts may read, known beforehand.
//!
//! 1. The first hash and, where n has a finer comb, that comb, which holds the first one's samples.
//! 2. Its ladder: made once for the weakest coefficient that is planned for. A stronger one leaves
//!    each rung more room: the margin grows with the root of the ratio, the offsets stay.
//! 3. Window hashes with permutations of their own, with a ladder as well. Attempts share them.
//! 4. The hash that certifies.
//!
//! The engine chooses from the menu by what it meets; it never reads anything else.

use super::Prepared;
use super::choose::{smooth_near, verifying};
use super::recipe::{First, Menu, Rungs};
use crate::algorithms::peeling::{VERIFY_STREAM, permutation, window_stream};
use crate::problem::{Noise, Problem};
use crate::samples::progression;
use crate::stages::ladder::ladder;
use crate::stages::window::{self, BETAS};

/// Signal-to-noise ratio of the weakest coefficient where nothing is said: 6 dB.
const USUAL_SNR: f64 = 4.0;
/// What stands for the ratio where there is no noise: a dynamic range of 140 dB.
const CLEAN: f64 = 1e14;
/// Window hashes that attempts share.
const ROUNDS: usize = 3;
/// Offset of one more line for combs without noise, of which a bin has more members than lanes.
const SPARE: u64 = 4;
/// Least margin of a ladder that is used below the ratio it was made for.
const LEAST_MARGIN: f64 = 6.0;

impl Rungs {
    /// The ladder for bins of this ratio: of the ratios from here on up, the first that has one.
    fn new(gamma: f64, n: u64, unit: u64) -> Self {
        let ratios = (0..60).map(|i| gamma * 2f64.powi(i));
        let made = ratios.into_iter().find_map(|g| ladder(g, n, unit).map(|l| (g, l)));
        match made {
            Some((gamma, (offsets, margin))) => Rungs { offsets, gamma, margin, unit },
            None => Rungs { offsets: vec![0], gamma: f64::INFINITY, margin: 1.0, unit },
        }
    }

    /// Whether it places frequencies at least this far apart in bins of this ratio.
    pub(crate) fn serves(&self, gamma: f64, unit: u64) -> bool {
        unit >= self.unit && gamma * self.margin.powi(2) >= self.gamma * LEAST_MARGIN.powi(2)
    }
}

/// A walk through the signal: lines of four samples.
#[derive(Debug, Clone, Copy)]
struct Walk {
    start: u64,
    step: u64,
    lines: u64,
}

impl Menu {
    /// The menu for a recipe whose first hash has been chosen.
    pub(super) fn new(problem: &Problem, first: First) -> Self {
        let n = problem.n;
        let k = problem.k().unwrap_or(1).max(1);
        let snr = match problem.noise {
            Noise::Exact => CLEAN,
            Noise::Snr(db) => 10f64.powf(0.1 * db),
            Noise::Unknown => USUAL_SNR,
        };
        let finer = match first {
            First::Comb { bins } => smooth_near(n, bins, 4 * bins as u64),
            First::Window { .. } => None,
        };
        let finest = finer.map_or(first, |bins| First::Comb { bins });
        let (size, unit, near) = match first {
            First::Comb { bins } => (bins, bins as u64, (bins as u64 / 16).max(1)),
            First::Window { buckets } => (buckets, 1, 1),
        };
        // As many buckets as the engine asks for against noise, and no more than it may have.
        let quiet = ((100.0 / snr) as u64).min(4 * size as u64);
        // Half way between two buckets the gain of a window is 0.45, its power 0.2.
        let gamma = |buckets: usize| 0.2 * buckets as f64 * snr;
        let buckets = (k / 2).max(quiet).clamp(32, 1 << 20).next_power_of_two() as usize;
        let silent = matches!(problem.noise, Noise::Exact | Noise::Unknown);
        let spare = matches!(first, First::Comb { .. }) && silent;
        let mut menu = Menu {
            attempts: 1 + u32::from(finer.is_some()),
            finest,
            first: Rungs::new(size as f64 * snr, n, unit),
            spare: spare.then_some(SPARE),
            rounds: ROUNDS,
            buckets,
            window: Rungs::new(gamma(buckets), n, near),
            verify: verifying(n, k).0.max((quiet as usize).next_power_of_two()),
            samples: 0,
        };
        menu.samples = menu.walks(n, problem.seed).map(|w| 4 * w.lines).sum::<u64>().min(n);
        menu
    }

    /// Everything that may be read, as walks.
    fn walks(&self, n: u64, seed: u64) -> impl Iterator<Item = Walk> + '_ {
        let window = move |stream: u64, buckets: usize, d: u64| {
            let sigma = permutation(n, seed, stream).sigma;
            let lines = window::length(BETAS[BETAS.len() - 1], buckets) as u64;
            let back = progression(0, sigma, lines / 2, n);
            Walk { start: (d % n + n - back) % n, step: sigma, lines }
        };
        let offsets = self.first.offsets.iter().chain(&self.spare);
        let first = offsets.map(move |&d| match self.finest {
            First::Comb { bins } => {
                Walk { start: d % n, step: n / bins as u64, lines: bins as u64 }
            }
            First::Window { buckets } => window(0, buckets, d),
        });
        let rounds = (0..self.rounds).flat_map(move |round| {
            let stream = window_stream(1, round);
            self.window.offsets.iter().map(move |&d| window(stream, self.buckets, d))
        });
        first.chain(rounds).chain(std::iter::once(window(VERIFY_STREAM, self.verify, 0)))
    }

    /// Everything that may be read, each index once, ascending.
    pub(crate) fn indices(&self, plan: &Prepared) -> Vec<u64> {
        let (n, seed) = (plan.problem.n, plan.recipe.seed);
        let walks = self.walks(n, seed).flat_map(move |w| {
            (0..w.lines).flat_map(move |j| {
                let at = progression(w.start, w.step, j, n);
                (0..4).map(move |tau| (at + tau) % n)
            })
        });
        let mut all: Vec<u64> = walks.collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
