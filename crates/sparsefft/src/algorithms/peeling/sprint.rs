//! A few coefficients without noise: from the samples to the certificate in one go.
//!
//! The engine serves every signal, and asks at every step what kind it has; of a few coefficients that
//! would take a third of the time. Here the steps of the usual case follow each other, by the engine's
//! limits:
//!
//! 1. a comb, of which bins with one frequency or two are decoded;
//! 2. if some hold more, three or four in each, with the next shifts from a coarser comb;
//! 3. the window that verifies, folded by a list of its steps, less all of these;
//! 4. the certificate.
//!
//! Whatever else is met, the engine goes on with what was found, and decides.

use super::conclude::{DOUBT, LEAST_GAIN, shows};
use super::decode::Findings;
use super::engine::{
    CROWDED_AT_FIRST, OWN_ROUNDING, ROUNDING, TINY_POWER, comb_floor, list_above_all, misplaced,
    window_floor,
};
use super::resolve::{Bounds, NEXT, SEVERAL, coarse_bins, few_enough, list_owners, search_crowds};
use super::{VERIFY_STREAM, permutation_of};
use crate::algorithms::{Answer, Run};
use crate::certificate::{Certificate, Verdict};
use crate::cpu::ahead::{ask, comes_slowly};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::plan::{self, First, Peeling, Prepared};
use crate::problem::Algorithm;
use crate::samples::{Line, progression};
use crate::stages::Stage;
use crate::stages::bucket_fft::BucketFft;
use crate::stages::certify::threshold;
use crate::stages::few::{Few, MOST_LEN, Places, ROOM, Spread, list_congruent, next};
use crate::stages::fold::{Step, fold_listed};
use crate::stages::hash::{Hash, add_energies};
use crate::stages::known::residue;
use crate::stages::locate::{Alone, Bins, Pairs, Sink, alone_of, norm_sqr_each, pairs_of};
use crate::stages::peel::peel_bin;
use crate::stages::permute::Permutation;
use crate::stages::prony::{Crowd, SHIFTS, Shared};
use crate::stages::unity::Unity;
use crate::stages::window::{Kaiser, REACH};
use crate::{Complex, Error};
use std::sync::Arc;

/// Most bins of a comb that is decoded so.
const MOST_BINS: usize = 512;

// An eighth of the bins may hold four frequencies each, others that hold something two, and a vector fills up.
const _: () = assert!(4 * MOST_BINS / 8 + 2 * (MOST_BINS / 2 - MOST_BINS / 8) + 8 <= ROOM);
const _: () = assert!(CROWDED_AT_FIRST < 0.5);

/// The buffers of a sprint.
#[derive(Debug)]
pub(crate) struct Room {
    few: Few,
    /// How many of them are those of bins with one frequency or two.
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
    /// The buckets of the window, and room for what goes around their end.
    buckets: Vec<Line>,
    energy: Vec<f64>,
    scratch: Vec<Line>,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            few: Few::default(),
            plain: 0,
            active: Vec::new(),
            shared: Vec::new(),
            open: Vec::new(),
            places: vec![0; ROOM],
            owner: Vec::new(),
            crowded: Vec::new(),
            crowds: Vec::new(),
            steps: Vec::new(),
            folded: Vec::new(),
            coarse: Vec::new(),
            buckets: Vec::new(),
            energy: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

/// The window that verifies, as a plan prepares it.
#[derive(Debug)]
pub(crate) struct Witness {
    permutation: Permutation,
    kaiser: Arc<Kaiser>,
    fft: Arc<BucketFft>,
    /// Its steps, those of a bucket one after the other, and as many of each: steps without weight fill up.
    steps: Vec<Step>,
    rounds: usize,
    /// Steps with weight.
    reads: u64,
    /// Standard deviations of every threshold.
    sigmas: f64,
    /// Energy that noise does not exceed over so many lanes, in units of its power.
    over: [f64; 6],
}

impl Witness {
    /// `None` if a step passes the end of the samples.
    pub(crate) fn new(plan: &Prepared, recipe: &Peeling) -> Option<Self> {
        let n = plan.problem.n;
        let (buckets, beta) = plan::verifying(n, plan.problem.k()?);
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
        let within = steps.iter().all(|step| step.place as u64 + 4 <= n);
        let over = std::array::from_fn(|lanes| threshold(lanes.max(1), recipe.sigmas));
        let (reads, sigmas) = (reads as u64, recipe.sigmas);
        (within && buckets.is_power_of_two()).then_some(Witness {
            permutation,
            kaiser,
            fft,
            steps,
            rounds,
            reads,
            sigmas,
            over,
        })
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

/// What bins may leave to be taken.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Energy that one frequency may leave, and two, but for their own rounding.
    left: [f64; 2],
    /// What is left at least where one of two, of |a| = 1, is displaced.
    misplaced: f64,
}

/// Runs as far as the signal is of the usual kind; `None` if this transform is not.
pub(super) fn sprint(run: &mut Run<'_>, recipe: &Peeling) -> Result<Option<Sprint>, Error> {
    let plan = run.plan;
    let n = plan.problem.n;
    let suits = matches!(recipe.first, First::Comb { .. })
        && recipe.begin <= MOST_BINS
        && recipe.ladder == [0]
        && recipe.menu.is_none()
        && n <= MOST_LEN;
    let (Some(k), Some(samples), true) = (plan.problem.k(), run.samples(), suits) else {
        return Ok(None);
    };
    let Some(witness) = plan.witness(recipe) else { return Ok(None) };
    run.slow = comes_slowly(samples, witness.steps[0].place);
    if run.slow {
        ask_for_all(samples, witness, recipe.begin as u64);
    }
    let mut comb = Hash::comb(run, recipe.begin);
    comb.measure_more(run, 0)?;
    let power = comb.total / 4.0;
    let floor = comb_floor(0.0, power, comb.buckets);
    let mut room = run.workspace.sprint.take().unwrap_or_default();
    list_above_all(&comb.energy, floor * witness.over[4], &mut room.active);
    let crowded = room.active.len() as f64 > CROWDED_AT_FIRST * comb.buckets as f64;
    if crowded || power < TINY_POWER {
        run.workspace.sprint = Some(room);
        return Ok(Some(Sprint::Measured(comb)));
    }
    let limits = Limits {
        left: [3, 2].map(|lanes| floor * witness.over[lanes]),
        misplaced: misplaced(n, comb.buckets, 5.0),
    };
    room.decode_comb(comb.bins(Unity::new(n)), limits);
    run.clock.lap(Stage::Locate);
    let whole = room.open.is_empty() || room.decode_crowds(run, samples, &comb, witness, power);
    if !whole || room.few.len() as u64 > k {
        return Ok(Some(Sprint::Decoded(comb, room)));
    }
    let Some(limit) = room.verify(run, samples, witness, [power, floor]) else {
        return Ok(Some(Sprint::Decoded(comb, room)));
    };
    let peaks = room.few.peaks(n as f64);
    run.workspace.sprint = Some(room);
    let own = shows(floor, floor * witness.over[4], 4, witness.sigmas);
    let certificate = Certificate {
        bins_tested: (comb.buckets + witness.fft.size()) as u64,
        detection_limit: own.max(limit),
        failure_probability: plan.problem.failure,
        ..Certificate::new(Verdict::Certified)
    };
    let algorithm = match plan.problem.algorithm {
        Algorithm::Auto => Algorithm::Exact,
        named => named,
    };
    comb.recycle(run);
    run.clock.lap(Stage::Certify);
    Ok(Some(Sprint::Certified(Answer { algorithm, peaks, in_order: true, certificate })))
}

/// Asks for what is read after the comb of so many bins: the samples that verify, and those of crowded bins, which are
/// common.
fn ask_for_all(samples: &[Complex<f64>], witness: &Witness, bins: u64) {
    let near = |place: usize| ask::<_, true>(samples.as_ptr().wrapping_add(place));
    witness.steps.iter().for_each(|step| near(step.place));
    let coarse = coarse_bins(bins, 1, false) as usize;
    (0..coarse).for_each(|j| near(j * (samples.len() / coarse) + NEXT as usize));
}

impl Room {
    /// Decodes the active bins of a comb that hold one frequency or two.
    fn decode_comb(&mut self, bins: Bins<'_>, limits: Limits) {
        let Room { few, active, shared, open, places, .. } = self;
        few.truncate(0);
        let count = take_alone(bins, active, limits, few, places);
        shared.clear();
        shared.extend(places[..count].iter().map(|&i| active[i as usize]));
        let count = take_pairs(bins, shared, limits, few, places);
        open.clear();
        open.extend(places[..count].iter().map(|&i| shared[i as usize]));
        self.plain = few.len();
    }

    /// Decodes three or four frequencies in the open bins of a comb; whether that explains all of them. The
    /// engine reads more of a coarser comb than here, where so few bins are open.
    fn decode_crowds(
        &mut self,
        run: &mut Run<'_>,
        samples: &[Complex<f64>],
        comb: &Hash,
        witness: &Witness,
        power: f64,
    ) -> bool {
        let Room { few, open, places, owner, crowded, crowds, steps, folded, coarse, .. } = self;
        let (n, fine) = (run.plan.problem.n, comb.buckets as u64);
        if !few_enough(n, fine, open.len() as u64) {
            return false;
        }
        // The fewest that tell them apart.
        let mut bins = coarse_bins(fine, 1, false);
        list_owners(open, bins, owner);
        while owner.contains(&SEVERAL) {
            bins *= 2;
            list_owners(open, bins, owner);
        }
        let (size, apart) = (bins as usize, (n / bins) as usize);
        let weight = 1.0 / bins as f64;
        steps.clear();
        steps.extend((0..size).map(|j| Step { place: j * apart + NEXT as usize, weight }));
        folded.resize(size, Line::ZERO);
        coarse.resize(size, Line::ZERO);
        run.peak = run.peak.max(fold_listed(samples, steps, 1, folded));
        run.samples_read += 4 * bins;
        transform(&run.plan.fft(size), folded, coarse, &mut self.scratch);
        let unity = Unity::new(n);
        let count = list_congruent(few, open, size, places);
        for &i in &places[..count] {
            let c = few.get(i as usize);
            let b = residue(c.f, bins);
            peel_bin(&mut coarse[b..=b], &[NEXT], unity, &c);
        }
        crowded.clear();
        crowded.extend(open.iter().map(|&bin| {
            let next = coarse[residue(bin.into(), bins)];
            Shared { bin, lines: [comb.measured[bin as usize], next] }
        }));
        let floor = comb_floor(0.0, power, size);
        let bounds = Bounds {
            left: [3, 4].map(|m| floor * witness.over[SHIFTS - m]),
            misplaced: misplaced(n, comb.buckets, 42.0),
        };
        search_crowds(unity, comb.buckets, bounds, crowded, crowds, |_, members, _| {
            members.iter().for_each(|c| few.push(c));
        });
        run.clock.lap(Stage::Locate);
        crowded.is_empty()
    }

    /// Measures the window that verifies and takes out of it all that was found, at this power of a sample and noise of
    /// a lane of the comb. The least amplitude that would have shown, if nothing is left and nothing is doubtful.
    fn verify(
        &mut self,
        run: &mut Run<'_>,
        samples: &[Complex<f64>],
        witness: &Witness,
        [power, floor]: [f64; 2],
    ) -> Option<f64> {
        let Room { few, open, folded, buckets, energy, scratch, .. } = self;
        let Witness { permutation, kaiser, fft, steps, rounds, reads, sigmas, over } = witness;
        let size = fft.size();
        folded.resize(size, Line::ZERO);
        run.peak = run.peak.max(fold_listed(samples, steps, *rounds, folded));
        run.samples_read += 4 * reads;
        run.clock.lap(Stage::Permute);
        buckets.resize(size + REACH - 1, Line::ZERO);
        let (first, around) = buckets.split_at_mut(size);
        transform(fft, folded, first, scratch);
        around.fill(Line::ZERO);
        run.clock.lap(Stage::BucketFft);
        let sizes = few.peel(Spread { permutation, kaiser, buckets: size }, buckets);
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
        certain.then(|| shows(own, limit, 4, *sigmas) / LEAST_GAIN)
    }

    /// Hands what was found to the engine.
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

dispatch_rows! {
    /// Takes what explains bins as one frequency. Lists the places of the others and returns how many these are.
    fn take_alone(
        bins: Bins<'_>,
        list: &[u32],
        limits: Limits,
        few: &mut Few,
        left: &mut [u32],
    ) -> usize = take_alone_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn take_alone_body<const FMA: bool, R: Row>(
    bins: Bins<'_>,
    list: &[u32],
    limits: Limits,
    few: &mut Few,
    left: &mut [u32],
) -> usize {
    let mut take = Take { few, limits, left: Places::<R>::new(left), at: 0, end: list.len() };
    alone_of::<R::Wide, _>(bins, list, &mut take);
    take.left.count()
}

dispatch_rows! {
    /// [`take_alone`] for two frequencies in each bin.
    fn take_pairs(
        bins: Bins<'_>,
        list: &[u32],
        limits: Limits,
        few: &mut Few,
        left: &mut [u32],
    ) -> usize = take_pairs_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn take_pairs_body<const FMA: bool, R: Row>(
    bins: Bins<'_>,
    list: &[u32],
    limits: Limits,
    few: &mut Few,
    left: &mut [u32],
) -> usize {
    let mut take = Take { few, limits, left: Places::<R>::new(left), at: 0, end: list.len() };
    pairs_of::<R::Wide, _>(bins, list, &mut take);
    take.left.count()
}

/// Takes frequencies that explain their bins.
struct Take<'a, R> {
    few: &'a mut Few,
    limits: Limits,
    left: Places<'a, R>,
    /// Bins of the list so far, and all.
    at: usize,
    end: usize,
}

impl<R: Row> Sink<Alone<R::Wide>> for Take<'_, R> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, alone: Alone<R::Wide>) {
        let Alone { f, value, root, residual } = alone;
        // What a frequency explains and what it leaves is all there is.
        let energy = norm_sqr_each(value).mul_add(R::Wide::splat(4.0), residual);
        let [left, _] = self.limits.left;
        let most = energy.mul_add(R::Wide::splat(OWN_ROUNDING), R::Wide::splat(left));
        let (all, here) = next::<R::Wide>(self.at, self.end);
        let taken = residual.below_bits(most) & all;
        self.few.keep(taken, f, value, root);
        self.left.add(all & !taken, self.at);
        self.at += here;
    }
}

impl<R: Row> Sink<Pairs<R::Wide>> for Take<'_, R> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, pairs: Pairs<R::Wide>) {
        let Pairs { f, values, roots, residual, apart, energy } = pairs;
        let Limits { left: [_, left], misplaced } = self.limits;
        let most = energy.mul_add(R::Wide::splat(OWN_ROUNDING), R::Wide::splat(left));
        let (p, q) = (norm_sqr_each(values[0]), norm_sqr_each(values[1]));
        let weaker = p.where_or(p.below(q), q);
        // Not above 0 where there are no two.
        let moved = weaker * apart * R::Wide::splat(misplaced);
        let (all, here) = next::<R::Wide>(self.at, self.end);
        let taken = residual.below_bits(most) & most.below_bits(moved) & all;
        self.few.keep(taken, f[0], values[0], roots[0]);
        self.few.keep(taken, f[1], values[1], roots[1]);
        self.left.add(all & !taken, self.at);
        self.at += here;
    }
}
