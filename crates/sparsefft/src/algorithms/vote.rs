//! `vote` (sFFT v1): flat-window hashes, location by votes, values by medians.
//!
//! Order of steps, with L hashes of B buckets each (stages `flat_hash`, `flat_window`, `tally`):
//! 1. L random permutations; each hash reads w ≈ 11 B samples.
//! 2. Every hash keeps its 2k largest buckets; frequencies that 3 of the first 4 and 6 of all 8
//!    hashes vote for are candidates.
//! 3. A candidate's value is the median, of real and imaginary parts apart, of what the L hashes
//!    show. The k largest enter the model.
//! 4. The model is subtracted from the buckets. Medians of what is left correct its values
//!    (neighbours that share a bucket stop disturbing each other), and what falls to the noise
//!    leaves it. If buckets still hold more than noise, steps 2 to 4 run again on the rest.
//! 5. [`certify`]: one more hash, with a permutation that took no part, must be explained.
//!
//! Step 4 goes beyond the papers, costs little where step 3 was right, and is what makes the
//! values exact to the leakage of the window (1e-10) in spite of collisions.
//!
//! When: any n that is longer than the window; noise is welcome, white or not.
//! Cost: L w samples dominate. B balances them against the n/B frequencies per kept bucket that
//! have to be enumerated. If the answer cannot be certified: once more with more buckets and
//! without a comb, then the dense FFT if that is allowed. With k unknown it grows fourfold from 16
//! instead.

use super::{Answer, Run, comb_vote, dense};
use crate::certificate::{Certificate, Verdict};
use crate::cpu::threads;
use crate::judge::{self, Doubt, ReadSet, RunningSum, Tolerance, rest_limit};
use crate::plan::{self, CombRecipe, Estimate, FlatKind, Method, Prepared, VoteRecipe};
use crate::problem::{Algorithm, Noise, Problem};
use crate::samples::{Samples, progression};
use crate::spectrum::Peak;
use crate::stages::Stage;
use crate::stages::flat_hash::{Permutation, Place, blame, fold, read_set};
use crate::stages::flat_window::{self, EDGE_GAIN, Flat};
use crate::stages::number::{Rng, smooth_divisors};
use crate::stages::peel::Coefficient;
use crate::stages::tally::{Election, Kept, Voter, median};
use crate::stages::unity::Unity;
use crate::{Complex, Error};
use rustfft::{Fft, FftDirection};
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

/// First random stream; every attempt has 64 of its own.
const STREAM: u64 = 1000;
/// Streams within an attempt: hashes from 0, then these.
const COMBS: u64 = 32;
const WITNESS: u64 = 61;
const INSTANTS: u64 = 62;
/// Most hashes.
pub(crate) const MAX_LOOPS: usize = 8;
/// First guess where k is unknown.
const FIRST_GUESS: u64 = 16;
/// Rounds of locating and subtracting.
const ROUNDS: usize = 4;
/// Sweeps of correcting values.
const SWEEPS: usize = 8;
/// Amplitudes whose squares are no longer exact: nothing is known about these.
const SQUARE_VANISHES: f64 = 1e-150;
/// Buckets of each of two hashes that noise is measured by: enough of a sample.
pub(crate) const NOISE_SAMPLE: usize = 4096;
/// Samples in time that the certificate compares with the answer where a GPU keeps the hashes.
const INSTANT_COUNT: usize = 32;

impl VoteRecipe {
    /// The steps, one line each.
    pub(crate) fn explain(&self, f: &mut fmt::Formatter<'_>, n: u64) -> fmt::Result {
        let VoteRecipe { buckets, width, loops, votes, locate_loops, confirmations, .. } = self;
        if *width > n {
            return writeln!(
                f,
                "  dense FFT: read all {n} samples; a flat window for {} coefficients would have \
                 {width} taps",
                self.k
            );
        }
        if let Some(CombRecipe { teeth, combs, keep }) = &self.comb {
            writeln!(
                f,
                "  comb: {combs} times every {} samples; {keep} of {teeth} residues are kept",
                n / teeth
            )?;
        }
        if let Some(note) = &self.note {
            writeln!(f, "  {note}")?;
        }
        let window = match self.window {
            FlatKind::Kaiser => "Kaiser",
            FlatKind::DolphChebyshev => "Dolph-Chebyshev",
        };
        writeln!(
            f,
            "  fold: {loops} hashes of {width} samples into {buckets} buckets (flat {window} \
             window, leakage {:.0e})",
            self.leakage
        )?;
        writeln!(
            f,
            "  locate: the {} largest buckets of each; {votes} of {locate_loops} and \
             {confirmations} of {loops} votes elect a frequency",
            self.keep
        )?;
        writeln!(f, "  estimate and peel: medians over the hashes, corrected by what is left")?;
        writeln!(f, "  certify: {buckets} buckets of an independent hash must be explained")
    }

    /// Samples that one attempt reads, the certificate's included.
    fn samples(&self) -> u64 {
        let combs = self.comb.map_or(0, |c| c.combs as u64 * c.teeth);
        combs + (self.loops as u64 + 1) * self.width + INSTANT_COUNT as u64
    }

    /// Predicted nanoseconds of one attempt on one core.
    fn cost(&self, n: u64) -> f64 {
        let (n, k) = (n as f64, self.k as f64);
        let (b, keep, loops) = (self.buckets as f64, self.keep as f64, self.loops as f64);
        // One sample in a random place (measured with examples/vote_timing.rs; 4 KB pages).
        let read = match n as u64 {
            0..=0x2_0000 => 3.0,
            0x2_0001..=0x10_0000 => 5.5,
            0x10_0001..=0x40_0000 => 8.5,
            0x40_0001..=0x100_0000 => 15.0,
            _ => 20.0,
        };
        let transform = |m: f64| m * (0.7 * m.log2() + 5.0);
        let share = (keep / b).min(1.0);
        // Places to enumerate, false locations after the first vote, and after the second.
        let (mut enumerate, mut comb_cost) = (1.4, 0.0);
        let mut allowed = 1.0;
        if let Some(comb) = &self.comb {
            let w = comb.teeth as f64;
            allowed = (comb.keep as f64 / w).min(1.0);
            enumerate = 4.0 * allowed;
            comb_cost = comb.combs as f64 * (w * read + transform(w) + 2.0 * w) + 4.0 * w;
        }
        let enumerated = keep * n / b;
        let first = 3.0 * n * allowed * share.powi(3);
        let second = 12.0 * n * allowed * share.powi(6);
        (loops + 1.0) * (self.width as f64 * read + transform(b) + 12.0 * b)
            + enumerated * enumerate
            + first * 45.0
            + (k + second) * loops * 45.0
            + k * (loops * 150.0 + 10.0 * INSTANT_COUNT as f64)
            + comb_cost
    }
}

/// Chooses the parameters for a problem, and predicts their cost.
pub(crate) fn plan_vote(problem: &Problem, algorithm: Algorithm) -> (VoteRecipe, Estimate) {
    let k = problem.k().unwrap_or(FIRST_GUESS.min(problem.n));
    let recipe = design(problem.n, k, problem.noise, algorithm == Algorithm::CombVote, 0);
    let estimate = if recipe.width > problem.n {
        Estimate { algorithm, ..plan::dense(problem.n) }
    } else {
        let nanoseconds = recipe.cost(problem.n);
        Estimate { algorithm, nanoseconds, samples: recipe.samples() }
    };
    (recipe, estimate)
}

/// The cheapest recipe with at least so many buckets. Its window may be longer than n: then there
/// is none that makes sense.
fn design(n: u64, k: u64, noise: Noise, with_comb: bool, least_buckets: u64) -> VoteRecipe {
    let k = k.max(1);
    let window = FlatKind::Kaiser;
    // A known noise level well above the leakage allows a shorter window. A bucket has B·snr/1.13
    // times the power of the noise; the certificate wants about 50.
    let (leakage, noise_buckets) = match noise {
        Noise::Exact => (1e-10, 64),
        Noise::Unknown => (1e-10, 600),
        Noise::Snr(db) => {
            let leakage = if db <= 60.0 { 1e-6 } else { 1e-8 };
            (leakage, (60.0 / 10f64.powf(0.1 * db)).min(1e9) as u64)
        }
    };
    let with = |buckets: u64, comb: Option<CombRecipe>| VoteRecipe {
        k,
        buckets,
        window,
        leakage,
        width: flat_window::width(window, leakage, buckets),
        locate_loops: 4,
        votes: 3,
        loops: MAX_LOOPS as u32,
        confirmations: 6,
        keep: 2 * k + 4,
        comb,
        note: None,
    };
    // Fewer than 8 buckets per coefficient collide too often. Buckets against noise end where the
    // hashes would read more than there is.
    let most_for_noise = (n / 128).max(64);
    let lowest = (8 * k)
        .max(64)
        .max(noise_buckets.min(most_for_noise))
        .max(least_buckets)
        .next_power_of_two();
    let teeth: Vec<u64> = if with_comb {
        smooth_divisors(n, (16 * k).max(64), (n / 8).min(1 << 20))
    } else {
        Vec::new()
    };
    let mut best: Option<(f64, VoteRecipe)> = None;
    let mut buckets = lowest;
    loop {
        let combs = teeth
            .iter()
            .map(|&teeth| Some(CombRecipe { teeth, combs: 2, keep: (2 * k + 4).min(teeth) }));
        let plain = teeth.is_empty().then_some(None);
        let mut improved = false;
        for comb in combs.chain(plain) {
            let recipe = with(buckets, comb);
            if recipe.width > n && best.is_some() {
                continue;
            }
            let cost = recipe.cost(n);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, recipe));
                improved = true;
            }
        }
        if !improved || buckets >= 1 << 24 {
            break;
        }
        buckets *= 2;
    }
    let (_, mut recipe) = best.expect("the first recipe improves on none");
    if with_comb && recipe.comb.is_none() {
        recipe.note = Some(format!(
            "no comb: n = {n} has no divisor of the form 2^a 3^b 5^c between {} and {}",
            (16 * k).max(64),
            (n / 8).min(1 << 20)
        ));
    }
    recipe
}

/// One hash and its buffers.
#[derive(Debug, Default)]
struct Slot {
    permutation: Permutation,
    z: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
    kept: Kept,
}

/// Windows, FFT plans and buckets, kept from one transform to the next.
#[derive(Default)]
pub(crate) struct Buffers {
    windows: Vec<(FlatKind, u64, Arc<Flat>)>,
    kernels: Vec<Arc<dyn Fft<f64>>>,
    slots: Vec<Slot>,
    energies: Vec<f64>,
    pub(super) residues: Kept,
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

impl Buffers {
    /// The forward FFT of this size.
    pub(super) fn fft(&mut self, size: usize) -> Arc<dyn Fft<f64>> {
        if let Some(kernel) = self.kernels.iter().find(|k| k.len() == size) {
            return kernel.clone();
        }
        let kernel = sparsefft_kernels::double(size, FftDirection::Forward);
        self.kernels.push(kernel.clone());
        kernel
    }

    /// The window of a recipe, made once.
    fn window(&mut self, recipe: &VoteRecipe) -> Arc<Flat> {
        let (kind, bits, b) = (recipe.window, recipe.leakage.to_bits(), recipe.buckets as usize);
        let fits = |w: &&(FlatKind, u64, Arc<Flat>)| w.0 == kind && w.1 == bits && w.2.buckets == b;
        if let Some((.., window)) = self.windows.iter().find(fits) {
            return window.clone();
        }
        // Retries and growth use a few sizes; a few are kept.
        if self.windows.len() >= 4 {
            self.windows.remove(0);
        }
        let window = Arc::new(Flat::new(kind, recipe.leakage, b));
        self.windows.push((kind, bits, window.clone()));
        window
    }
}

/// Runs the vote without a comb.
pub(crate) fn run(run: &mut Run<'_>) -> Result<Answer, Error> {
    solve(run)
}

/// What one attempt came to.
struct Outcome {
    answer: Answer,
    /// Buckets that the noise would need, for the next attempt.
    buckets_needed: u64,
}

/// Attempts, growth and fallback.
pub(super) fn solve(run: &mut Run<'_>) -> Result<Answer, Error> {
    let prepared = run.plan;
    let (problem, n) = (&prepared.problem, prepared.problem.n);
    let Method::Vote(first) = &prepared.recipe.method else {
        unreachable!("the table of algorithms calls this for Method::Vote only");
    };
    let mut recipe = first.clone();
    if recipe.width > n {
        let reason = format!(
            "n = {n} is too short for vote: a window for {} coefficients has {} taps",
            recipe.k, recipe.width
        );
        return dense::run(run, Some(reason));
    }
    // An attempt is worth it while it is cheaper than the dense FFT that may replace it.
    let worth = |r: &VoteRecipe| {
        let affordable = !problem.fallback.allows(n) || r.cost(n) < plan::dense_at_best(n);
        r.width <= n && affordable && r.buckets <= 1 << 24
    };
    let redesign = |k: u64, with_comb: bool, least: u64| {
        let mut next = design(n, k, problem.noise, with_comb, least);
        next.window = first.window;
        next.width = flat_window::width(next.window, next.leakage, next.buckets);
        next
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let grown = problem.k().is_none().then(|| redesign(4 * recipe.k, recipe.comb.is_some(), 0));
        let may_grow = grown.as_ref().is_some_and(|r| 4 * recipe.k <= n / 8 && worth(r));
        let outcome = attempt(run, &recipe, attempts, may_grow)?;
        if let Some(Outcome { answer, .. }) = &outcome
            && answer.certificate.verdict == Verdict::Certified
        {
            return Ok(outcome.expect("checked").answer);
        }
        // Frequencies that cancel in one residue of a comb (an impulse train) cancel at nearly
        // every offset, so that after a failure the comb is left out.
        let next = match (grown, &outcome) {
            (Some(next), None) => Some(next),
            (Some(_), Some(_)) => may_grow.then(|| redesign(4 * recipe.k, false, 0)).filter(worth),
            (None, Some(outcome)) if attempts < 2 => {
                let least = outcome.buckets_needed.max(2 * recipe.buckets);
                Some(redesign(recipe.k, false, least)).filter(worth)
            }
            (None, _) => None,
        };
        if let Some(next) = next {
            recipe = next;
            continue;
        }
        let Some(Outcome { answer, .. }) = outcome else { continue };
        if problem.fallback.allows(n) {
            run.place = None;
            let name = prepared.recipe.algorithm;
            let why = answer.certificate.reason.unwrap_or_default();
            let mut answer = dense::run(run, Some(format!("{name} was not certified: {why}")))?;
            answer.certificate.attempts = attempts + 1;
            return Ok(answer);
        }
        return Ok(answer);
    }
}

/// What one round of location asks of the hashes.
pub(crate) struct Ask {
    /// Buckets to keep.
    pub(crate) keep: usize,
    /// Least energy of a kept bucket.
    pub(crate) floor: f64,
    /// Hashes that propose.
    pub(crate) proposers: usize,
}

/// The hashes of one attempt with the model of tones that is subtracted from them, wherever they
/// are kept. Energies are those of what the model leaves.
pub(crate) trait Hashes {
    /// Mean noise energy of a bucket, from the lower quartile (`occupied`) or the median.
    fn noise(&mut self, occupied: bool) -> Result<f64, Error>;
    /// How many buckets of the first hash hold more than this.
    fn occupied(&mut self, threshold: f64) -> Result<u64, Error>;
    /// Cutoff and votes: the elected frequencies, each once.
    fn locate(&mut self, ask: &Ask) -> Result<Vec<u64>, Error>;
    /// Adds the largest of these frequencies to the model, at most so many, whose medians have
    /// more than the least energy; whether there were any.
    fn estimate(&mut self, candidates: &[u64], least: f64, most: usize) -> Result<bool, Error>;
    /// Corrects all tones by the medians of what is left; where that does not settle them, perhaps
    /// once more. Gives how often, and the largest |change|² of the last time.
    fn correct(&mut self, settled: Judge) -> Result<(usize, f64), Error>;
    /// Puts tones with no more than this energy back into the buckets.
    fn prune(&mut self, least: f64) -> Result<(), Error>;
    /// Frequencies and amplitudes of the model.
    fn model(&self) -> Vec<(u64, Complex<f64>)>;
    /// The largest energy of any bucket.
    fn loudest(&mut self) -> Result<f64, Error>;
    /// Subtracts an answer from one more hash, and compares it with the signal at these instants.
    fn witness(&mut self, peaks: &[Peak], instants: &[u64], judge: Judge)
    -> Result<Witness, Error>;
}

/// An energy, as so many times a noise that is still to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judge {
    /// Least noise energy of a bucket.
    pub(crate) floor: f64,
    /// How many times the noise.
    pub(crate) factor: f64,
}

impl Judge {
    /// The energy, where so much noise was measured.
    pub(crate) fn threshold(self, measured: f64) -> f64 {
        self.factor * measured.max(self.floor)
    }
}

/// What a test of an answer saw.
#[derive(Debug)]
pub(crate) struct Witness {
    /// Mean noise energy of a bucket, from the median.
    pub(crate) noise: f64,
    /// Buckets that hold more than the answer and noise explain.
    pub(crate) unexplained: u64,
    /// The signal at the instants.
    pub(crate) samples: Vec<Complex<f64>>,
    /// What the answer has there.
    pub(crate) model: Vec<Complex<f64>>,
    /// The samples of the hash, if the CPU has read them.
    pub(crate) set: Option<ReadSet>,
}

/// Someone who keeps hashes elsewhere than in the CPU's memory.
pub(crate) trait Keeper {
    /// The hashes of an attempt whose random streams begin here, measured; nothing if this recipe
    /// is not one for it.
    fn hashes(
        &self,
        recipe: &VoteRecipe,
        window: &Flat,
        stream: u64,
    ) -> Result<Option<Box<dyn Hashes + '_>>, Error>;
}

/// The random streams of an attempt: its hashes, its combs, its witness, its instants.
pub(crate) struct Streams(pub(crate) u64);

impl Streams {
    fn of(attempt: u32) -> Self {
        Streams(STREAM + 64 * (attempt as u64 - 1))
    }

    /// The permutation of hash l.
    pub(crate) fn hash(&self, n: u64, seed: u64, l: usize) -> Permutation {
        Permutation::draw(n, seed, self.0 + l as u64)
    }

    /// The permutation of the witness.
    pub(crate) fn witness(&self, n: u64, seed: u64) -> Permutation {
        Permutation::draw(n, seed, self.0 + WITNESS)
    }

    /// The offset of comb c.
    pub(crate) fn comb(&self, n: u64, comb: &CombRecipe, seed: u64, c: u64) -> u64 {
        comb_vote::offset(n, comb, seed, self.0 + COMBS + c)
    }

    /// Random numbers of the instants.
    fn instants(&self, seed: u64) -> Rng {
        Rng::new(seed, self.0 + INSTANTS)
    }
}

/// One attempt of steps 1 to 5. `None` if there are clearly more coefficients than the recipe is
/// made for and `may_grow` says that a larger one would follow.
fn attempt(
    run: &mut Run<'_>,
    recipe: &VoteRecipe,
    attempt: u32,
    may_grow: bool,
) -> Result<Option<Outcome>, Error> {
    let streams = Streams::of(attempt);
    let window = run.workspace.vote.window(recipe);
    run.clock.lap(Stage::Window);
    if let Some(keeper) = run.keeper
        && let Some(mut hashes) = keeper.hashes(recipe, &window, streams.0)?
    {
        run.samples_read += recipe.samples() - recipe.width - INSTANT_COUNT as u64;
        run.clock.lap(Stage::Fold);
        let outcome = solve_hashes(run, recipe, &window, &mut *hashes, attempt, may_grow)?;
        run.place = Some(crate::spectrum::Place::Gpu);
        return Ok(outcome);
    }
    let mut hashes = Here::measure(run, recipe, &window, &streams)?;
    let outcome = solve_hashes(run, recipe, &window, &mut hashes, attempt, may_grow);
    let Here { slots, energies, residues, .. } = hashes;
    let buffers = &mut run.workspace.vote;
    (buffers.slots, buffers.energies, buffers.residues) = (slots, energies, residues);
    outcome
}

/// Steps 2 to 5 on measured hashes.
fn solve_hashes(
    run: &mut Run<'_>,
    recipe: &VoteRecipe,
    window: &Flat,
    hashes: &mut dyn Hashes,
    attempt: u32,
    may_grow: bool,
) -> Result<Option<Outcome>, Error> {
    let problem = &run.plan.problem;
    let (n, real) = (problem.n, run.signal.is_real());
    let mut state = State { problem, recipe, real, hashes, noise: 0.0 };
    if may_grow && state.crowded()? {
        return Ok(None);
    }
    for round in 0..ROUNDS {
        let candidates = state.locate(round)?;
        run.clock.lap(Stage::Locate);
        let added = state.estimate(&candidates, round)?;
        run.clock.lap(Stage::Estimate);
        state.peel()?;
        let explained = state.explained()?;
        run.clock.lap(Stage::Peel);
        if explained || !added {
            break;
        }
    }
    let tones = state.hashes.model();
    let mut peaks: Vec<Peak> =
        tones.iter().map(|&(index, a)| Peak { index, value: a * n as f64 }).collect();
    peaks.sort_unstable_by_key(|p| p.index);
    if real {
        symmetrise(&mut peaks, n);
    }
    let outcome = certify(run, recipe, window, hashes, peaks, attempt)?;
    run.clock.lap(Stage::Certify);
    Ok(Some(outcome))
}

/// Makes X\[n-f\] = conj X\[f\] exact. Peaks are sorted and closed under negation up to pruning.
fn symmetrise(peaks: &mut Vec<Peak>, n: u64) {
    let old = peaks.clone();
    for peak in &old {
        let mirror = (n - peak.index) % n;
        let value = match old.binary_search_by_key(&mirror, |p| p.index) {
            Ok(i) => old[i].value.conj(),
            Err(_) => {
                peaks.push(Peak { index: mirror, value: peak.value.conj() });
                continue;
            }
        };
        let i = old.binary_search_by_key(&peak.index, |p| p.index).expect("its own index");
        // The same expression on both sides, so that they agree to the last bit.
        peaks[i].value = 0.5 * (peak.value + value);
    }
    peaks.sort_unstable_by_key(|p| p.index);
}

/// The model during one attempt.
struct State<'a> {
    problem: &'a Problem,
    recipe: &'a VoteRecipe,
    real: bool,
    /// The hashes; their buckets hold what the model does not explain.
    hashes: &'a mut dyn Hashes,
    /// Mean energy of the noise in a bucket, at least the leakage of the model.
    noise: f64,
}

/// Least noise energy of a bucket: the leakage of a model of this energy, and rounding.
fn leakage_floor(recipe: &VoteRecipe, energy: f64) -> f64 {
    (recipe.leakage * recipe.leakage + 1e-30) * energy
}

/// Energies above this many times the noise are no noise, with the failure probability spread over
/// `buckets`. The factor covers errors of the model's values and of the noise estimate.
fn chi_square(buckets: f64, failure: f64) -> f64 {
    1.5 * (buckets / failure).ln()
}

impl State<'_> {
    /// Whether far more buckets are occupied than the recipe keeps.
    fn crowded(&mut self) -> Result<bool, Error> {
        let noise = self.hashes.noise(true)?;
        let threshold = chi_square(self.recipe.buckets as f64, 1e-3) * noise;
        Ok(self.hashes.occupied(threshold)? > self.recipe.keep + self.recipe.keep / 2)
    }

    /// Candidates that are not in the model yet.
    fn locate(&mut self, round: usize) -> Result<Vec<u64>, Error> {
        let (locate_loops, votes) = (self.recipe.locate_loops as usize, self.recipe.votes as usize);
        let mut ask = Ask {
            keep: self.recipe.keep as usize,
            floor: 0.0,
            // One proposer halves the work; what it misses is still there in the next round, when
            // few buckets are kept.
            proposers: if round == 0 { 1 } else { locate_loops - votes + 1 },
        };
        if round > 0 {
            // The noise is known now and limits what is kept; more coefficients than were asked
            // for may be in the way of the certificate.
            ask.floor = 4.0 * self.noise;
            ask.keep = ask.keep.max((self.recipe.buckets as usize / 8).min(8 * ask.keep));
        }
        let mut elected = self.hashes.locate(&ask)?;
        if self.real {
            let n = self.problem.n;
            let mirrors: Vec<u64> = elected.iter().map(|f| (n - f) % n).collect();
            elected.extend(mirrors);
            elected.sort_unstable();
            elected.dedup();
        }
        let mut known: Vec<u64> = self.hashes.model().iter().map(|t| t.0).collect();
        if !known.is_empty() {
            known.sort_unstable();
            elected.retain(|f| known.binary_search(f).is_err());
        }
        Ok(elected)
    }

    /// Least |amplitude|² that noise does not reach anywhere in the spectrum.
    fn significant(&self, noise: f64) -> f64 {
        // The median of L values has π/2L times the variance of one.
        let variance = noise * std::f64::consts::FRAC_PI_2 / f64::from(self.recipe.loops);
        1.2 * variance * (self.problem.n as f64 / self.problem.failure).ln()
    }

    /// Adds the largest significant candidates to the model; whether there were any.
    fn estimate(&mut self, candidates: &[u64], round: usize) -> Result<bool, Error> {
        if candidates.is_empty() {
            return Ok(false);
        }
        let noise = self.hashes.noise(true)?.max(self.noise);
        // A false candidate may look larger than a true one that shares its buckets. It fades; the true
        // one, left out, would cost another round.
        let k = (self.recipe.k as usize).max(16);
        let most = if round == 0 { k + k / 32 + 2 } else { 4 * k };
        self.hashes.estimate(candidates, self.significant(noise), most)
    }

    /// Corrects the model by medians of what is left, and drops what falls to the noise.
    fn peel(&mut self) -> Result<(), Error> {
        if self.hashes.model().is_empty() {
            self.noise = self.measure()?;
        }
        let mut sweeps = 0;
        while sweeps < SWEEPS {
            if self.hashes.model().is_empty() {
                return Ok(());
            }
            let settled = Judge { floor: self.leakage(), factor: 0.02 };
            let (made, largest) = self.hashes.correct(settled)?;
            self.noise = self.measure()?;
            if largest < 0.02 * self.noise {
                break;
            }
            // A candidate that was none fades while the others take their share.
            if sweeps < 2 && sweeps + made >= 2 {
                self.hashes.prune(self.significant(self.noise))?;
            }
            sweeps += made;
        }
        self.hashes.prune(self.significant(self.noise))?;
        self.noise = self.measure()?;
        Ok(())
    }

    /// Noise energy of a bucket under the present model.
    fn measure(&mut self) -> Result<f64, Error> {
        Ok(self.hashes.noise(false)?.max(self.leakage()))
    }

    /// Least noise energy of a bucket under the present model.
    fn leakage(&self) -> f64 {
        let energy = self.hashes.model().iter().map(|(_, a)| a.norm_sqr()).sum();
        leakage_floor(self.recipe, energy)
    }

    /// Whether no bucket of any hash holds more than noise.
    fn explained(&mut self) -> Result<bool, Error> {
        let buckets = self.recipe.buckets as f64 * f64::from(self.recipe.loops);
        let threshold = chi_square(buckets, self.problem.failure) * self.noise;
        Ok(self.hashes.loudest()? <= threshold)
    }
}

/// A frequency of the model, its amplitude X/n, and where it shows.
#[derive(Clone)]
struct Tone {
    f: u64,
    amplitude: Complex<f64>,
    places: [Place; MAX_LOOPS],
}

/// The hashes in the CPU's memory.
struct Here<'a> {
    signal: &'a dyn Samples,
    seed: u64,
    n: u64,
    recipe: &'a VoteRecipe,
    window: &'a Flat,
    unity: Unity,
    witness: Permutation,
    fft: Arc<dyn Fft<f64>>,
    slots: Vec<Slot>,
    energies: Vec<f64>,
    residues: Kept,
    tones: Vec<Tone>,
}

impl<'a> Here<'a> {
    /// Reads the samples of all hashes and of the combs.
    fn measure<'b: 'a>(
        run: &mut Run<'b>,
        recipe: &'a VoteRecipe,
        window: &'a Flat,
        streams: &Streams,
    ) -> Result<Self, Error> {
        let problem = &run.plan.problem;
        let (n, seed, signal) = (problem.n, run.plan.recipe.seed, run.signal);
        let (loops, b) = (recipe.loops as usize, recipe.buckets as usize);
        if let Some(comb) = &recipe.comb {
            let buffers = &mut run.workspace.vote;
            let offset = |c| streams.comb(n, comb, seed, c);
            let sets = comb_vote::keep_residues(signal, comb, offset, seed, buffers)?;
            sets.into_iter().for_each(|set| run.workspace.evidence.note(set));
            run.samples_read += comb.combs as u64 * comb.teeth;
            run.clock.lap(Stage::Locate);
        }
        let buffers = &mut run.workspace.vote;
        let fft = buffers.fft(b);
        let mut slots = std::mem::take(&mut buffers.slots);
        slots.resize_with(loops, Slot::default);
        for (l, slot) in slots.iter_mut().enumerate() {
            slot.permutation = streams.hash(n, seed, l);
            slot.z.resize(b, Complex::ZERO);
            slot.scratch.resize(fft.get_inplace_scratch_len(), Complex::ZERO);
        }
        let work = recipe.loops as u64 * recipe.width;
        let sets = threads::map_mut(&mut slots, work, |s| {
            measure_one(signal, &s.permutation, window, &mut s.z, seed)
        });
        for set in sets {
            run.workspace.evidence.note(set?);
        }
        run.samples_read += work;
        run.clock.lap(Stage::Fold);
        let finite = threads::map_mut(&mut slots, work / 8, |s| {
            fft.process_with_scratch(&mut s.z, &mut s.scratch);
            s.z.iter().map(|v| v.norm_sqr()).sum::<f64>().is_finite()
        });
        if let Some(l) = finite.iter().position(|f| !f) {
            let p = slots[l].permutation;
            return Err(blame(signal, p.start(window.half as u64, n), p.sigma, recipe.width));
        }
        run.clock.lap(Stage::BucketFft);
        let buffers = &mut run.workspace.vote;
        Ok(Here {
            signal,
            seed,
            n,
            recipe,
            window,
            unity: Unity::new(n),
            witness: streams.witness(n, seed),
            fft,
            slots,
            energies: std::mem::take(&mut buffers.energies),
            residues: std::mem::take(&mut buffers.residues),
            tones: Vec::new(),
        })
    }

    /// Medians of what the hashes show at the places of a tone.
    fn median_at(&self, places: &[Place; MAX_LOOPS]) -> Complex<f64> {
        let (mut re, mut im) = ([0.0; MAX_LOOPS], [0.0; MAX_LOOPS]);
        for (l, slot) in self.slots.iter().enumerate() {
            let v = places[l].amplitude(&slot.z, self.window);
            (re[l], im[l]) = (v.re, v.im);
        }
        let loops = self.slots.len();
        Complex::new(median(&mut re[..loops]), median(&mut im[..loops]))
    }
}

/// Keeps the largest of these by amplitude, at most so many, in rising order of frequency.
pub(crate) fn largest<T>(tones: &mut Vec<T>, most: usize, of: impl Fn(&T) -> (u64, Complex<f64>)) {
    if tones.len() > most {
        // By keys, which are cheap to compare and to move. Energies are positive, so their bits are
        // ordered like them.
        let key = |t: &T| {
            let (f, v) = of(t);
            (Reverse(v.norm_sqr().to_bits()), f)
        };
        let mut keys: Vec<_> = tones.iter().map(key).collect();
        let last = *keys.select_nth_unstable(most - 1).1;
        tones.retain(|t| key(t) <= last);
        tones.sort_unstable_by_key(|t| of(t).0);
    }
}

impl Hashes for Here<'_> {
    fn noise(&mut self, occupied: bool) -> Result<f64, Error> {
        self.energies.clear();
        for slot in &self.slots[..2] {
            self.energies.extend(slot.z.iter().take(NOISE_SAMPLE).map(|v| v.norm_sqr()));
        }
        Ok(noise_from(&mut self.energies, occupied))
    }

    fn occupied(&mut self, threshold: f64) -> Result<u64, Error> {
        Ok(self.slots[0].z.iter().filter(|v| v.norm_sqr() > threshold).count() as u64)
    }

    fn locate(&mut self, ask: &Ask) -> Result<Vec<u64>, Error> {
        let work = self.recipe.loops as u64 * self.recipe.buckets;
        threads::map_mut(&mut self.slots, work, |s| s.kept.cutoff(&s.z, ask.keep, ask.floor));
        let voters = self.slots.iter();
        let voters = voters.map(|s| Voter { permutation: &s.permutation, kept: &s.kept }).collect();
        let election = Election {
            n: self.n,
            voters,
            proposers: ask.proposers,
            locate_loops: self.recipe.locate_loops as usize,
            votes: self.recipe.votes as usize,
            confirmations: self.recipe.confirmations as usize,
            // A comb that shows nothing at all missed the signal (an impulse train).
            comb: (self.recipe.comb)
                .map(|c| (c.teeth, &self.residues.list[..]))
                .filter(|(_, residues)| !residues.is_empty()),
        };
        Ok(election.elect())
    }

    fn estimate(&mut self, candidates: &[u64], least: f64, most: usize) -> Result<bool, Error> {
        let (n, b) = (self.n, self.recipe.buckets as usize);
        let work = 4 * candidates.len() as u64 * self.slots.len() as u64;
        let blocks: Vec<&[u64]> = candidates.chunks(256).collect();
        let estimated = threads::map(&blocks, work, |block| {
            let mut tones = Vec::new();
            for &f in *block {
                let places = std::array::from_fn(|l| match self.slots.get(l) {
                    Some(s) => Place::of(f, &s.permutation, &self.unity, n, b),
                    None => Place { bucket: 0, offset: 0.0, phase: Complex::ZERO },
                });
                let amplitude = self.median_at(&places);
                if amplitude.norm_sqr() > least {
                    tones.push(Tone { f, amplitude, places });
                }
            }
            tones
        });
        let mut tones = estimated.concat();
        largest(&mut tones, most, |t| (t.f, t.amplitude));
        let added = !tones.is_empty();
        let changes: Vec<Complex<f64>> = tones.iter().map(|t| t.amplitude).collect();
        subtract(&mut self.slots, self.window, &tones, &changes);
        self.tones.extend(tones);
        Ok(added)
    }

    fn correct(&mut self, _: Judge) -> Result<(usize, f64), Error> {
        let work = 4 * self.tones.len() as u64 * self.slots.len() as u64;
        let blocks: Vec<&[Tone]> = self.tones.chunks(256).collect();
        let changes = threads::map(&blocks, work, |block| {
            block.iter().map(|t| self.median_at(&t.places)).collect::<Vec<_>>()
        })
        .concat();
        subtract(&mut self.slots, self.window, &self.tones, &changes);
        let mut largest = 0.0f64;
        for (tone, change) in self.tones.iter_mut().zip(&changes) {
            tone.amplitude += change;
            largest = largest.max(change.norm_sqr());
        }
        Ok((1, largest))
    }

    fn prune(&mut self, least: f64) -> Result<(), Error> {
        let (keep, drop): (Vec<Tone>, Vec<Tone>) = std::mem::take(&mut self.tones)
            .into_iter()
            .partition(|t| t.amplitude.norm_sqr() > least);
        let changes: Vec<Complex<f64>> = drop.iter().map(|t| -t.amplitude).collect();
        subtract(&mut self.slots, self.window, &drop, &changes);
        self.tones = keep;
        Ok(())
    }

    fn model(&self) -> Vec<(u64, Complex<f64>)> {
        self.tones.iter().map(|t| (t.f, t.amplitude)).collect()
    }

    fn loudest(&mut self) -> Result<f64, Error> {
        let energies = self.slots.iter().flat_map(|s| s.z.iter().map(|v| v.norm_sqr()));
        Ok(energies.fold(0.0, f64::max))
    }

    fn witness(
        &mut self,
        peaks: &[Peak],
        instants: &[u64],
        judge: Judge,
    ) -> Result<Witness, Error> {
        // The witness takes the place of the first hash.
        let slot = &mut self.slots[0];
        let (n, b) = (self.n, slot.z.len());
        let set = measure_one(self.signal, &self.witness, self.window, &mut slot.z, self.seed)?;
        self.fft.process_with_scratch(&mut slot.z, &mut slot.scratch);
        for p in peaks {
            let place = Place::of(p.index, &self.witness, &self.unity, n, b);
            place.subtract(&mut slot.z, self.window, p.value / n as f64);
        }
        self.energies.clear();
        self.energies.extend(slot.z.iter().map(|v| v.norm_sqr()));
        let noise = noise_from(&mut self.energies, false);
        let unexplained = self.occupied(judge.threshold(noise))?;
        let mut samples = vec![Complex::ZERO; instants.len()];
        self.signal.read(instants, &mut samples)?;
        let n = self.n as f64;
        let value = |t: u64| -> Complex<f64> {
            peaks.iter().map(|p| p.value * self.unity.power(p.index, t)).sum::<Complex<f64>>() / n
        };
        let model = instants.iter().map(|&t| value(t)).collect();
        Ok(Witness { noise, unexplained, samples, model, set: Some(set) })
    }
}

/// Reads and folds one hash; returns the set of samples that it read.
fn measure_one(
    signal: &dyn Samples,
    permutation: &Permutation,
    window: &Flat,
    z: &mut [Complex<f64>],
    seed: u64,
) -> Result<ReadSet, Error> {
    let set = read_set(permutation, window, signal.len());
    let mut sum = RunningSum::new(signal.len(), &set, seed);
    fold(signal, permutation, window, z, &mut sum)?;
    Ok(set.with_sum(sum.finish()))
}

/// Rank of the energy that noise is measured by among `count`, and what to divide it by to get the
/// mean, as exponential distributions have it.
pub(crate) fn noise_rank(count: usize, occupied: bool) -> (usize, f64) {
    let (rank, share) = if occupied { (count / 4, 0.75f64) } else { (count / 2, 0.5) };
    (rank, -share.ln())
}

/// Mean of exponentially distributed energies from their lower quartile or their median.
fn noise_from(energies: &mut [f64], occupied: bool) -> f64 {
    let (rank, divisor) = noise_rank(energies.len(), occupied);
    *energies.select_nth_unstable_by(rank, f64::total_cmp).1 / divisor
}

/// Subtracts changes of amplitudes from all hashes.
fn subtract(slots: &mut [Slot], window: &Flat, tones: &[Tone], changes: &[Complex<f64>]) {
    let work = 2 * tones.len() as u64 * slots.len() as u64;
    let mut numbered: Vec<(usize, &mut Slot)> = slots.iter_mut().enumerate().collect();
    threads::map_mut(&mut numbered, work, |(l, slot)| {
        for (tone, change) in tones.iter().zip(changes) {
            tone.places[*l].subtract(&mut slot.z, window, *change);
        }
    });
}

/// Tests an answer against one more hash, with a permutation that took no part in finding it, and
/// against random samples in time.
///
/// What differs from the answer in a few samples only (an impulse) is beyond any test that does
/// not read them. Certified if no bucket of that hash holds more than the answer and noise explain, and
/// - k or more were found, and the smallest of the k largest stands above the detection limit, so
///   that nothing overlooked can belong to them; or
/// - an answer may have fewer than k, at least one was found, and nothing above the detection limit
///   was overlooked; or
/// - the relative residual at random samples is below the tolerance.
fn certify(
    run: &mut Run<'_>,
    recipe: &VoteRecipe,
    window: &Flat,
    hashes: &mut dyn Hashes,
    peaks: Vec<Peak>,
    attempt: u32,
) -> Result<Outcome, Error> {
    let problem = &run.plan.problem;
    let (n, seed, b) = (problem.n, run.plan.recipe.seed, recipe.buckets as usize);

    // The witness: what one more hash holds beside the answer. Random instants: the residual without
    // the window's leakage.
    let energy: f64 = peaks.iter().map(|p| (p.value / n as f64).norm_sqr()).sum();
    let floor = leakage_floor(recipe, energy);
    let judge = Judge { floor, factor: chi_square(b as f64, problem.failure) };
    let mut rng = Streams::of(attempt).instants(seed);
    let instants: [u64; INSTANT_COUNT] = std::array::from_fn(|_| rng.below(n));
    let Witness { noise: measured, unexplained, samples, model, set } =
        hashes.witness(&peaks, &instants, judge)?;
    set.into_iter().for_each(|set| run.workspace.evidence.note(set));
    run.samples_read += recipe.width + INSTANT_COUNT as u64;
    run.samples_compared += recipe.width + INSTANT_COUNT as u64;
    let detection_limit = (judge.threshold(measured).sqrt() / EDGE_GAIN).max(SQUARE_VANISHES);
    let (mut total, mut left) = (0.0, 0.0);
    for ((&t, &x), model) in instants.iter().zip(&samples).zip(model) {
        if !(x.re.is_finite() && x.im.is_finite()) {
            return Err(dense::non_finite(t, x));
        }
        total += x.norm_sqr();
        left += (x - model).norm_sqr();
    }
    let residual_energy = if total > 0.0 { left / total } else { 0.0 };
    let sigma_squared = (measured / window.energy).min(left / INSTANT_COUNT as f64);

    // The smallest of those wanted.
    let mut sizes: Vec<f64> = peaks.iter().map(|p| p.value.norm() / n as f64).collect();
    let weakest = match problem.k() {
        Some(0) => Some(f64::INFINITY),
        Some(k) if sizes.len() as u64 >= k => {
            let rank = sizes.len() - k as usize;
            Some(*sizes.select_nth_unstable_by(rank, f64::total_cmp).1)
        }
        Some(_) if problem.required().is_some() => None,
        // Many equal coefficients look like noise: finding none explains nothing.
        _ if sizes.is_empty() => None,
        _ => Some(f64::INFINITY),
    };
    let complete = weakest.is_some_and(|w| w >= detection_limit);
    let explained = residual_energy.sqrt() <= problem.tolerance;
    let reason = if unexplained > 0 {
        Some(format!("{unexplained} of {b} buckets hold more than the answer explains"))
    } else if complete || explained {
        None
    } else if let Some(weakest) = weakest {
        Some(format!(
            "the weakest coefficient, |X|/n = {weakest:.2e}, is not above the detection limit {detection_limit:.2e}"
        ))
    } else if let Some(k) = problem.required() {
        Some(format!("{} of {k} coefficients stand above the noise", peaks.len()))
    } else {
        Some("nothing stands above the noise".to_string())
    };
    let mut limit = 1.0;
    let mut reason = reason;
    if reason.is_none() && run.keeper.is_none() {
        let powers = [total / INSTANT_COUNT as f64, sigma_squared];
        (reason, limit) = examine(run, recipe, &peaks, powers, attempt)?;
    }
    // The noise in a bucket falls with 1/B. Where fewer than k were found, the weakest of them
    // tells what the others are like.
    let weakest = weakest.or_else(|| sizes.iter().copied().min_by(f64::total_cmp));
    let ratio = match weakest {
        Some(w) if w < detection_limit => 1.5 * (detection_limit / w).powi(2),
        Some(_) => 1.0,
        None => 4.0,
    };
    let buckets_needed = (recipe.buckets as f64 * ratio.min(1e6)) as u64;
    let certificate = Certificate {
        verdict: if reason.is_none() { Verdict::Certified } else { Verdict::Uncertified },
        reason,
        bins_tested: b as u64,
        bins_unexplained: unexplained,
        residual_energy,
        noise_floor: sigma_squared.sqrt(),
        detection_limit,
        rest_limit: limit,
        failure_probability: problem.failure,
        attempts: attempt,
    };
    // Planned or retried without its comb, comb-vote is still the algorithm that answers.
    let algorithm = run.plan.recipe.algorithm;
    Ok(Outcome {
        answer: Answer { algorithm, peaks, in_order: false, certificate },
        buckets_needed,
    })
}

/// Why samples that were read contradict an answer, if they do, and the largest share of the power
/// that a steady narrow-band rest could hold unnoticed. The powers are those of one sample, of all
/// and of the noise.
fn examine(
    run: &mut Run<'_>,
    recipe: &VoteRecipe,
    peaks: &[Peak],
    powers: [f64; 2],
    attempt: u32,
) -> Result<(Option<String>, f64), Error> {
    let mut buffers = std::mem::take(&mut run.workspace.judge);
    let outcome = examine_with(run, recipe, peaks, powers, attempt, &mut buffers);
    run.workspace.judge = buffers;
    outcome
}

fn examine_with(
    run: &mut Run<'_>,
    recipe: &VoteRecipe,
    peaks: &[Peak],
    [power, sigma_squared]: [f64; 2],
    attempt: u32,
    judge::Buffers { answer, rest, lines, turning }: &mut judge::Buffers,
) -> Result<(Option<String>, f64), Error> {
    /// Lines that are read for the test, by how many coefficients there are to subtract.
    const WITNESS_LINES: [usize; 2] = [127, 509];
    const WORK: usize = 1 << 17;
    /// Errors of values in units of the leakage of the window.
    const VALUES: f64 = 4.0;
    let (unity, n) = (Unity::new(run.plan.problem.n), run.plan.problem.n as f64);
    let coefficient = |p: &Peak| {
        let f = p.index;
        Coefficient { f, a: p.value / n, z: unity.root(f) }
    };
    judge::eights_of(peaks.iter().map(coefficient), answer);
    let sum: f64 = peaks.iter().map(|p| p.value.norm() / n).sum();
    // A median of L values is worth 2L/π means; each bucket holds 1.13/B of the noise of a sample.
    let informing = f64::from(recipe.loops) * recipe.buckets as f64 / 2.0;
    let leakage = VALUES * recipe.leakage;
    let doubt = Doubt { sum, relative: leakage, noise: sigma_squared, informing };
    let step = run.signal.resolution();
    let tolerance = Tolerance { share: run.plan.problem.tolerance, power, step, sum };
    let real = run.signal.is_real();
    let quiet = tolerance.covers(sigma_squared, real);
    let rounding = if quiet { tolerance.in_sums(sigma_squared, real) } else { 0.0 };
    let doubt = Doubt { noise: doubt.noise + rounding, ..doubt };
    if !judge::agrees_with_reads(run, answer, &doubt, |_| false)? {
        return Ok((Some(judge::CONTRADICTED.to_string()), 0.0));
    }
    rest.clear();
    let count = (WORK / peaks.len().max(1)).clamp(WITNESS_LINES[0], WITNESS_LINES[1]) | 1;
    if let Some(witness) = judge::read_witness(run, count, attempt)? {
        judge::add_lines(run, rest, &witness, answer, witness.count, (lines, turning))?;
    }
    if quiet {
        let most = tolerance.largest(real).max((leakage * sum).powi(2));
        let reason = (!rest.is_below(most)).then(|| judge::CONTRADICTED.to_string());
        return Ok((reason, (sigma_squared / power.max(f64::MIN_POSITIVE)).min(1.0)));
    }
    let fitted = 1.5 * peaks.len() as f64 / informing;
    let limit = (rest_limit(rest.len(), fitted) * sigma_squared / power).min(1.0);
    Ok((rest.test(real, fitted).err().map(judge::Fault::reason), limit))
}

/// The samples that the first attempt reads before it is certified.
pub(crate) fn sample_indices<'a>(
    plan: &'a Prepared,
    recipe: &'a VoteRecipe,
) -> Box<dyn Iterator<Item = u64> + 'a> {
    let (n, seed) = (plan.problem.n, plan.recipe.seed);
    if recipe.width > n {
        return Box::new(0..n);
    }
    let (width, half) = (recipe.width, recipe.width / 2);
    // By number, so that nobody needs to walk through all of them to know how many there are.
    let walks: Vec<[u64; 2]> = (0..recipe.loops as u64)
        .map(|l| {
            let p = Permutation::draw(n, seed, STREAM + l);
            [p.start(half, n), p.sigma]
        })
        .collect();
    let hashes = (0..u64::from(recipe.loops) * width).map(move |i| {
        let [start, step] = walks[(i / width) as usize];
        progression(start, step, i % width, n)
    });
    let starts: Vec<[u64; 3]> = recipe
        .comb
        .into_iter()
        .flat_map(|comb| {
            (0..comb.combs as u64)
                .map(move |c| [Streams::of(1).comb(n, &comb, seed, c), comb.teeth, n / comb.teeth])
        })
        .collect();
    let teeth = recipe.comb.map_or(1, |comb| comb.teeth);
    let combs = (0..starts.len() as u64 * teeth).map(move |i| {
        let [start, teeth, step] = starts[(i / teeth) as usize];
        start + i % teeth * step
    });
    Box::new(combs.chain(hashes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    type Tones = Vec<(u64, Complex<f64>)>;

    /// A test signal of about k unit tones, and these.
    fn signal(n: u64, k: usize) -> (Vec<Complex<f64>>, Tones) {
        let mut rng = Rng::new(5, 1);
        let unity = Unity::new(n);
        let mut tones: Vec<_> = (0..k).map(|_| (rng.below(n), unity.root(rng.below(n)))).collect();
        tones.sort_by_key(|t| t.0);
        tones.dedup_by_key(|t| t.0);
        let mut x = vec![Complex::ZERO; n as usize];
        for &(f, a) in &tones {
            x[f as usize] = a.conj();
        }
        crate::dense::Fft::new(n).unwrap().forward(&mut x).unwrap();
        (x.iter().map(|v| v.conj()).collect(), tones)
    }

    #[test]
    fn both_windows_and_other_loops_give_the_same_answer() {
        let n = 1 << 17;
        let (x, tones) = signal(n, 30);
        for algorithm in [Algorithm::Vote, Algorithm::CombVote] {
            let problem = Problem::new(n).sparsity(tones.len() as u64).algorithm(algorithm);
            let plan = Plan::new(problem.clone()).unwrap();
            for window in [FlatKind::Kaiser, FlatKind::DolphChebyshev] {
                for (locate_loops, votes, loops, confirmations) in
                    [(4, 3, 8, 6), (3, 2, 7, 5), (2, 2, 5, 4)]
                {
                    let mut recipe = plan.recipe().clone();
                    let Method::Vote(vote) = &mut recipe.method else { panic!("{plan}") };
                    vote.window = window;
                    vote.width = flat_window::width(window, vote.leakage, vote.buckets);
                    (vote.locate_loops, vote.votes) = (locate_loops, votes);
                    (vote.loops, vote.confirmations) = (loops, confirmations);
                    let plan = Plan::from_recipe(problem.clone(), recipe);
                    let spectrum = plan.transform(&x).unwrap();
                    assert_eq!(spectrum.certificate().verdict, Verdict::Certified, "{plan}");
                    assert_eq!(spectrum.peaks().len(), tones.len());
                    for (p, &(f, a)) in spectrum.peaks().iter().zip(&tones) {
                        assert_eq!(p.index, f);
                        assert!((p.value / n as f64 - a).norm() < 1e-7);
                    }
                }
            }
        }
    }

    #[test]
    fn bucket_counts_follow_the_problem() {
        let recipe = |n: u64, k: u64, noise| design(n, k, noise, false, 0);
        // More coefficients, longer signals and more noise want more buckets.
        let base = recipe(1 << 22, 50, Noise::Unknown).buckets;
        assert!(recipe(1 << 22, 1000, Noise::Unknown).buckets > base);
        assert!(recipe(1 << 30, 50, Noise::Unknown).buckets > base);
        assert!(recipe(1 << 22, 50, Noise::Snr(-20.0)).buckets > base);
        assert_eq!(recipe(1 << 22, 50, Noise::Unknown).leakage, 1e-10);
        assert!(recipe(1 << 22, 50, Noise::Snr(20.0)).leakage > 1e-7);
        // A comb makes do with fewer, and divides n.
        let with = design(1 << 22, 50, Noise::Unknown, true, 0);
        assert!(with.buckets <= base && (1u64 << 22).is_multiple_of(with.comb.unwrap().teeth));
        assert!(design(1_000_003, 50, Noise::Unknown, true, 0).note.is_some());
    }

    #[test]
    fn mirrored_peaks_are_conjugates() {
        let v = Complex::new(1.0, 2.0);
        let mut peaks = vec![
            Peak { index: 0, value: v },
            Peak { index: 3, value: v },
            Peak { index: 4, value: v },
            Peak { index: 7, value: Complex::new(1.5, -1.0) },
        ];
        symmetrise(&mut peaks, 10);
        let expected = [
            (0, Complex::new(1.0, 0.0)),
            (3, Complex::new(1.25, 1.5)),
            (4, v),
            (6, v.conj()),
            (7, Complex::new(1.25, -1.5)),
        ];
        let got: Vec<_> = peaks.iter().map(|p| (p.index, p.value)).collect();
        assert_eq!(got, expected);
    }
}
