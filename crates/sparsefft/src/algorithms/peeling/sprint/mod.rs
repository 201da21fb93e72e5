//! Coefficients without noise: from the samples to the certificate in one go.
//!
//! The engine serves every signal, and asks at every step what kind it has; of a few coefficients that would take a
//! third of the time. Here the steps of the usual case follow each other, by the engine's limits:
//!
//! 1. all frequencies from a [comb] or, where n has none, from [windows](window);
//! 2. the window that verifies, less all of these;
//! 3. the certificate.
//!
//! Whatever else is met, the engine takes over: what was measured of a comb, and decoded, it goes on with; where
//! there are only windows it begins anew, with larger ones.

mod comb;
mod window;

use super::conclude::{DOUBT, LEAST_GAIN, shows};
use super::decode::Findings;
use super::engine::{ROUNDING, window_floor};
use super::{VERIFY_STREAM, permutation_of, window_hash};
use crate::algorithms::{Answer, Run};
use crate::certificate::{Certificate, Verdict};
use crate::cpu::threads;
use crate::judge::{self, Doubt, ReadSet};
use crate::plan::{First, Peeling, Prepared, verifying};
use crate::problem::Algorithm;
use crate::samples::{Line, progression};
use crate::stages::Stage;
use crate::stages::bucket_fft::BucketFft;
use crate::stages::certify::threshold;
use crate::stages::estimate::Equations;
use crate::stages::few::{Few, Spread};
use crate::stages::fold::{Step, fold_listed};
use crate::stages::hash::{Hash, add_energies};
use crate::stages::peel::Coefficient;
use crate::stages::permute::Permutation;
use crate::stages::prony::{Crowd, Shared};
use crate::stages::window::{Kaiser, REACH};
use crate::{Complex, Error};
use std::sync::Arc;
use window::Layer;
pub(crate) use window::{MOST_BUCKETS, TIGHT};

/// Relative error of values without noise: what leaks in the tightest windows, a few times over.
const VALUES: f64 = 1e-12;

/// The buffers of a sprint.
#[derive(Debug, Default)]
pub(crate) struct Room {
    few: Few,
    /// How many of them are those of bins of a comb with one frequency or two.
    plain: usize,
    /// Bins that hold something, those of them that hold more than one frequency, and more than two.
    active: Vec<u32>,
    shared: Vec<u32>,
    open: Vec<u32>,
    /// Places in a list.
    places: Vec<u32>,
    owner: Vec<u32>,
    crowded: Vec<Shared>,
    crowds: Vec<Crowd>,
    /// The walk of a coarser comb, its samples, and its bins.
    steps: Vec<Step>,
    folded: Vec<Line>,
    coarse: Vec<Line>,
    /// Windows that frequencies are looked for in, and energies for the next ones.
    layers: Vec<Layer>,
    energies: Vec<Vec<f64>>,
    part: Vec<Coefficient>,
    equations: Equations,
    /// The buckets of the window that verifies, and room for what goes around their end.
    buckets: Vec<Line>,
    energy: Vec<f64>,
    scratch: Vec<Line>,
}

/// The window that verifies, as a plan prepares it.
#[derive(Debug)]
pub(crate) struct Witness {
    permutation: Permutation,
    kaiser: Arc<Kaiser>,
    fft: Arc<BucketFft>,
    /// Its steps, those of a bucket one after the other, and as many of each: steps without weight fill up. None if one
    /// passes the end of the samples.
    steps: Vec<Step>,
    rounds: usize,
    /// Steps with weight.
    reads: u64,
    /// What the walk reads.
    set: ReadSet,
    /// Standard deviations of every threshold.
    sigmas: f64,
    /// Energy that noise does not exceed over so many lanes, in units of its power.
    over: [f64; 6],
}

impl Witness {
    /// That of so many coefficients.
    pub(crate) fn new(plan: &Prepared, recipe: &Peeling, k: u64) -> Self {
        let n = plan.problem.n;
        let (buckets, beta) = verifying(n, k);
        let permutation = permutation_of(plan, VERIFY_STREAM);
        let (kaiser, fft) = (plan.kaiser(beta, buckets), plan.fft(buckets));
        let half = kaiser.reach();
        let reads = 2 * half + 1;
        let rounds = reads.div_ceil(buckets);
        let mut steps = vec![Step { place: 0, weight: 0.0 }; rounds * buckets];
        let mut met = vec![0; buckets];
        let start = n - progression(0, permutation.sigma, half as u64, n);
        for i in 0..reads {
            // Step i - half of the walk, which belongs to that bucket modulo their number.
            let b = (i + buckets * half - half) % buckets;
            let place = progression(start, permutation.sigma, i as u64, n) as usize;
            let weight = kaiser.taps()[i.abs_diff(half)];
            steps[rounds * b + met[b]] = Step { place, weight };
            met[b] += 1;
        }
        if steps.iter().any(|step| step.place as u64 + 4 > n) {
            steps.clear();
        }
        let over = std::array::from_fn(|lanes| threshold(lanes.max(1), recipe.sigmas));
        let set = ReadSet::lines(start, permutation.sigma, reads);
        let (reads, sigmas) = (reads as u64, recipe.sigmas);
        Witness { permutation, kaiser, fft, steps, rounds, reads, set, sigmas, over }
    }
}

/// How far a sprint came.
pub(super) enum Sprint {
    /// To the end.
    Certified(Answer),
    /// The comb is measured; it holds noise, or too much else.
    Measured(Hash),
    /// Its bins with one frequency or two are decoded.
    Decoded(Hash, Box<Room>),
}

/// Runs as far as the signal is of the usual kind; `None` if this transform is not.
pub(super) fn sprint(run: &mut Run<'_>, recipe: &Peeling) -> Result<Option<Sprint>, Error> {
    let Some(k) = run.plan.problem.k().filter(|_| recipe.ladder == [0] && recipe.menu.is_none())
    else {
        return Ok(None);
    };
    match recipe.first {
        First::Comb { .. } if recipe.begin <= comb::MOST_BINS => {
            comb::sprint(run, recipe, k).map(Some)
        }
        First::Window { buckets } if recipe.begin < buckets => {
            let work = 16 * recipe.begin as u64;
            let answer = threads::with_team(work, || window::sprint(run, recipe, k))?;
            Ok(answer.map(Sprint::Certified))
        }
        _ => Ok(None),
    }
}

impl Room {
    /// Measures the window that verifies and takes out of it all that was found, at this power of a sample and noise of
    /// a lane of the first hash. The least amplitude that would have shown, if nothing is left and nothing doubtful.
    ///
    /// Every sample of a comb of so many `bins`, of which all are explained, has been compared with the answer; what
    /// else was read is compared here.
    fn verify(
        &mut self,
        run: &mut Run<'_>,
        witness: &Witness,
        [power, floor]: [f64; 2],
        bins: Option<usize>,
    ) -> Result<Option<f64>, Error> {
        self.measure(run, witness)?;
        let Room { few, open, buckets, energy, .. } = self;
        let Witness { permutation, kaiser, fft, sigmas, over, .. } = witness;
        let size = fft.size();
        let sizes = few.peel(0, Spread { permutation, kaiser, buckets: size }, buckets);
        energy.clear();
        energy.resize(size, 0.0);
        add_energies(&buckets[..size], energy);
        run.clock.lap(Stage::Peel);
        let own = window_floor(0.0, power, kaiser);
        let limit = own * over[4];
        let explained = energy.iter().all(|e| *e <= limit);
        // No sample anywhere can exceed the sum of all.
        let most = sizes.sum * (1.0 + 1e-9) + ROUNDING * power.sqrt();
        let negligible = 0.25 * floor * over[4] / 4.0;
        let doubtful = !open.is_empty() && sizes.weakest < DOUBT * sizes.energy;
        let certain =
            explained && run.peak.sqrt() <= most && sizes.weakest > negligible && !doubtful;
        if !certain {
            return Ok(None);
        }
        let shown = shows(own, limit, 4, *sigmas) / LEAST_GAIN;
        let doubt = Doubt { sum: sizes.sum, relative: VALUES, noise: 0.0, informing: 1.0 };
        let mut answer = std::mem::take(&mut run.workspace.judge.answer);
        few.eights(&mut answer);
        let in_comb = |set: &ReadSet| {
            bins.is_some_and(|bins| set.is_part_of_comb(run.plan.problem.n / bins as u64, &[0]))
        };
        let agrees = judge::agrees_with_reads(run, &answer, &doubt, in_comb)?;
        run.workspace.judge.answer = answer;
        Ok(agrees.then_some(shown))
    }

    /// Measures the window that verifies: its buckets, and nothing around their end.
    fn measure(&mut self, run: &mut Run<'_>, witness: &Witness) -> Result<(), Error> {
        let Room { folded, buckets, scratch, .. } = self;
        let Witness { kaiser, fft, steps, rounds, reads, .. } = witness;
        let size = fft.size();
        buckets.resize(size + REACH - 1, Line::ZERO);
        let (first, around) = buckets.split_at_mut(size);
        around.fill(Line::ZERO);
        match listed(run, witness) {
            Some(samples) => {
                folded.resize(size, Line::ZERO);
                run.peak = run.peak.max(fold_listed(samples, steps, *rounds, folded));
                run.samples_read += 4 * reads;
                run.workspace.evidence.note(witness.set);
                run.clock.lap(Stage::Permute);
                transform(fft, folded, first, scratch);
                run.clock.lap(Stage::BucketFft);
            }
            None => {
                let mut hash = window_hash(run, size, kaiser.beta, VERIFY_STREAM);
                hash.measure_more(run, 0)?;
                first.copy_from_slice(hash.measured_lines());
                hash.recycle(run);
            }
        }
        Ok(())
    }

    /// The answer, certified: so many bins were tested beside those of the window that verifies, and nothing of this
    /// amplitude can have been overlooked.
    fn answer(&mut self, run: &Run<'_>, witness: &Witness, tested: usize, limit: f64) -> Answer {
        let problem = &run.plan.problem;
        let certificate = Certificate {
            bins_tested: (tested + witness.fft.size()) as u64,
            detection_limit: limit,
            rest_limit: ROUNDING * ROUNDING * witness.over[4] / 4.0,
            failure_probability: problem.failure,
            ..Certificate::new(Verdict::Certified)
        };
        let algorithm = match problem.algorithm {
            Algorithm::Auto => Algorithm::Exact,
            named => named,
        };
        if run.signal.is_real() {
            self.few.symmetrise(problem.n);
        }
        let peaks = self.few.peaks(problem.n);
        Answer { algorithm, peaks, in_order: true, certificate }
    }

    /// Hands what was found in a comb to the engine.
    pub(super) fn hand_over(&self, comb: &mut Hash, out: &mut Findings) {
        out.found.extend(self.few.iter().take(self.plain));
        out.open.extend_from_slice(&self.open);
        for &b in self.active.iter().filter(|b| self.open.binary_search(b).is_err()) {
            comb.energy[b as usize] = 0.0;
        }
    }
}

/// Transforms lines with this scratch, which grows as needed.
fn transform(fft: &BucketFft, input: &[Line], out: &mut [Line], scratch: &mut Vec<Line>) {
    if scratch.len() < fft.scratch_len() {
        scratch.resize(fft.scratch_len(), Line::ZERO);
    }
    fft.process(input, out, scratch, 1.0);
}

/// The samples, if they lie in memory and steps of a walk can be listed.
fn listed<'a>(run: &Run<'a>, witness: &Witness) -> Option<&'a [Complex<f64>]> {
    run.samples().filter(|_| !witness.steps.is_empty())
}
