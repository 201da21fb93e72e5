//! Tones between the bins: x\[t\] = Σ a_i e^{2πiν_i t} + noise with real-valued ν.
//!
//! 1. permute, window, bucket FFT: a [`comb`] of B windowed lines over the whole record, at the
//!    offsets of a ladder. Its first line tells whether B is large enough; its bins tell the noise
//!    and, with it, how tight the [`window`] must be.
//! 2. [`locate`] the peaks, strongest first; peel each at once.
//! 3. [`refine`] all by Gauss-Newton steps on the bins, jointly where they share bins.
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
mod extras;
mod linear;
mod locate;
mod refine;
pub(crate) mod window;

use crate::algorithms::Run;
use crate::certificate::{Certificate, Verdict};
use crate::problem::Noise;
use crate::stages::Stage;
use crate::stages::certify::{threshold, upper_quantile};
use crate::tones::{Accuracy, Band, Cluster, Drift, Tone as PublicTone};
use crate::{Complex, Error};
use certify::{RESOLVED, Standing, confirm, verify};
use comb::{Comb, Geometry, Tone, turn};
use extras::Stretch;
use locate::{Limits, decode};
use refine::{Floor, bend, fit_group, fit_one, groups, joint_variances, variances};
use window::{BETAS, Window, leak};

/// Quantile of the bins' energies that is still noise before anything is peeled, and its normal
/// deviate.
const CROWD: (f64, f64) = (0.15, -1.036_433_389_493_789_8);
/// The same once most tones are peeled.
const PEELED: (f64, f64) = (0.35, -0.385_320_466_407_567_7);
/// The median.
const MEDIAN: (f64, f64) = (0.5, 0.0);
/// Ratio of the floors that [`CROWD`] and [`MEDIAN`] give (1 for noise, 0.75 with the bins 40 %
/// occupied) below which all bins hold tones.
const SCATTER: f64 = 0.6;
/// Fewest bins of a comb.
const FEWEST: usize = 64;
/// Share of active bins above which a comb is too small.
const CROWDED: f64 = 0.4;
/// Rounds of locating and refining on one comb.
const ROUNDS: usize = 6;
/// Passes over tones whose neighbours have moved.
const PASSES: usize = 5;
/// Square of a move, in units of the noise power, below which neighbours need not be told.
const MOVED: f64 = 0.2;
/// Strides that are tried beside the first.
const STRIDES: u64 = 5;
/// Noise is the limit where its power exceeds that of leakage by this factor.
const NOISY: f64 = 30.0;
/// Where the noise power is not this many times that of leakage, a tighter window is taken:
/// whitening amplifies leakage a hundredfold.
const TIGHT: f64 = 10000.0;
/// The shape for signals without noise.
const TIGHTEST: f64 = BETAS[BETAS.len() - 1];
/// Weakest tone, in dB against the noise in one sample, that a search which is told nothing must
/// not miss.
const UNASKED_SNR: f64 = -10.0;
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

/// How an attempt with a number of bins ended.
enum Outcome {
    Done(Box<Found>),
    /// More bins are wanted; at least this many. What was found so far, for the case that no more
    /// can be had.
    Grow(usize, Option<Box<Found>>),
}

/// Finds the tones of a signal.
pub(crate) fn run(run: &mut Run<'_>) -> Result<Found, Error> {
    let problem = &run.plan.problem;
    let n = problem.n;
    let most = largest_bins(n);
    let Some(most) = most else { return Ok(too_short(n)) };
    let mut bins = first_bins(problem).min(most);
    let mut attempts = 1;
    let mut best: Option<Box<Found>> = None;
    loop {
        match Engine::new(run, bins, most).attempt()? {
            Outcome::Done(mut found) => {
                found.certificate.attempts = attempts;
                return Ok(*found);
            }
            Outcome::Grow(wanted, found) => {
                attempts += u32::from(found.is_some());
                let hopeless =
                    bins >= PATIENCE && found.as_ref().is_none_or(|f| f.tones.is_empty());
                best = found.or(best);
                if bins >= most || hopeless {
                    let mut found = match best {
                        Some(found) => *found,
                        None => crowded(n, bins),
                    };
                    found.certificate.attempts = attempts;
                    return Ok(found);
                }
                bins = wanted.max(2 * bins).min(most);
            }
        }
    }
}

/// The largest number of bins that n samples allow; a power of two.
fn largest_bins(n: u64) -> Option<usize> {
    let mut bins = (n / 8).min(1 << 26).checked_ilog2().map(|b| 1usize << b)?;
    while bins >= 32 {
        if Geometry::new(n, bins, 0, 0).is_some() && Geometry::new(n, bins, 1, 0).is_some() {
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

/// The answer where bins ran out before anything could be located.
fn crowded(n: u64, bins: usize) -> Found {
    empty(
        bins,
        format!("all {bins} bins that {n} samples allow are occupied: the signal is broadband"),
    )
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
            failure_probability: 1.0,
            attempts: 1,
        },
        accuracy: Accuracy { bins: f64::INFINITY, samples: 0, finest: f64::INFINITY },
        bins,
        lines: 0,
        beta: 0.0,
    }
}

/// One attempt with a number of bins.
struct Engine<'r, 'a> {
    run: &'r mut Run<'a>,
    bins: usize,
    /// Most bins that could be had.
    most: usize,
    /// Standard deviations at which noise counts as a tone.
    z: f64,
    tones: Vec<Tone>,
    /// Tones whose bins have changed since they were fitted.
    dirty: Vec<bool>,
    bands: Vec<Stretch>,
    clusters: Vec<Stretch>,
    /// Bins of the first comb that bands cover.
    skip: Vec<bool>,
    list: Vec<u32>,
}

impl<'r, 'a> Engine<'r, 'a> {
    fn new(run: &'r mut Run<'a>, bins: usize, most: usize) -> Self {
        let z = upper_quantile(run.plan.problem.failure / (8 * bins) as f64);
        let list = std::mem::take(&mut run.workspace.lists[0]);
        Engine {
            run,
            bins,
            most,
            z,
            tones: Vec::new(),
            dirty: Vec::new(),
            bands: Vec::new(),
            clusters: Vec::new(),
            skip: Vec::new(),
            list,
        }
    }

    fn attempt(mut self) -> Result<Outcome, Error> {
        let problem = &self.run.plan.problem;
        let (n, seed) = (problem.n, problem.seed);
        let Some(geometry) = Geometry::new(n, self.bins, 0, seed) else {
            return Ok(Outcome::Done(Box::new(too_short(n))));
        };
        let beta = if problem.noise == Noise::Exact { TIGHTEST } else { BETAS[0] };
        let mut first = Comb::new(self.run.plan, geometry, beta);
        first.measure(self.run, 1, &[])?;
        if let Some(wanted) = self.crowded(&first) {
            first.recycle(self.run);
            self.finish();
            return Ok(Outcome::Grow(wanted, None));
        }
        let rungs = first.geometry.ladder.len() - 1;
        first.measure(self.run, rungs, &[])?;
        let outcome = self.solve(&mut first)?;
        first.recycle(self.run);
        self.finish();
        Ok(outcome)
    }

    fn finish(self) {
        self.run.workspace.lists[0] = self.list;
    }

    /// How many bins are needed if these are too few: tones fill a main lobe each.
    fn crowded(&mut self, comb: &Comb) -> Option<usize> {
        let s2 = self.quantile(comb, CROWD);
        if s2 == 0.0 || self.bins >= self.most {
            return None;
        }
        let floor = self.floor(comb, s2);
        let limits = Limits::new(floor, comb.lanes(), self.z);
        let active = comb.energy.iter().filter(|&&e| e > limits.detect).count();
        let share = active as f64 / self.bins as f64;
        // Where tones fill all bins nothing stands out, but energies scatter more than noise does.
        let median = self.quantile(comb, MEDIAN);
        let full = s2 < SCATTER * median && median > 100.0 * floor.leak2;
        if share <= CROWDED && !full {
            return None;
        }
        let lobes = active as f64 / (2.0 * comb.window.null);
        let wanted = if share > 0.75 || full {
            4 * self.bins
        } else {
            (5.0 * comb.window.null * lobes) as usize
        };
        Some(wanted.next_power_of_two().max(2 * self.bins))
    }

    /// Noise power per lane and bin from a quantile of the energies; a few hundred bins suffice.
    fn quantile(&mut self, comb: &Comb, (p, z): (f64, f64)) -> f64 {
        let step = comb.bins().div_ceil(512);
        let sample = &mut self.run.workspace.energies;
        sample.clear();
        sample.extend(comb.energy.iter().step_by(step));
        let rank = ((sample.len() as f64 * p) as usize).min(sample.len() - 1);
        let value = *sample.select_nth_unstable_by(rank, f64::total_cmp).1;
        value / threshold(comb.lanes(), z)
    }

    /// The floor of a comb whose noise power is s2.
    fn floor(&self, comb: &Comb, s2: f64) -> Floor {
        let strongest = match self.tones.iter().map(|t| t.amplitude.norm_sqr()).reduce(f64::max) {
            Some(a) => a,
            None => comb.energy.iter().copied().fold(0.0, f64::max) / comb.lanes() as f64,
        };
        let leak2 = comb.window.leak.powi(2) * strongest;
        // Rounding of the transform and of the phases.
        let rounding = (4e-16 * (1.0 + 1e-2 * (self.run.plan.problem.n as f64).log2())).powi(2);
        let s2 = s2.max(0.05 * leak2).max(rounding * strongest);
        Floor { s2, leak2, white: s2 > NOISY * leak2 }
    }

    /// Takes a tighter window if the side lobes of the strongest tone could matter in the noise.
    fn tighten(&mut self, comb: &mut Comb) -> Floor {
        loop {
            let s2 = self.quantile(comb, CROWD);
            let floor = self.floor(comb, s2);
            match tighter(&floor, &comb.window, s2) {
                Some(beta) => comb.rewindow(self.run, beta),
                None => return floor,
            }
        }
    }

    /// Once the tones are peeled the floor is seen better; if it asks for a tighter window after
    /// all, the same tones are peeled and refined under that.
    fn tighten_again(&mut self, first: &mut Comb, limits: &mut Limits) {
        while let Some(beta) = tighter(&limits.floor, &first.window, limits.floor.s2) {
            first.rewindow(self.run, beta);
            self.tones.iter().for_each(|t| first.remove(t));
            self.dirty.fill(true);
            let s2 = self.quantile(first, PEELED);
            *limits = Limits::new(self.floor(first, s2), first.lanes(), self.z);
            self.refine(first, &limits.floor);
            self.settle(first, limits);
        }
    }

    /// Everything after the first comb has been measured.
    fn solve(&mut self, first: &mut Comb) -> Result<Outcome, Error> {
        let floor = self.tighten(first);
        if let Some(wanted) = self.crowded(first)
            && self.bins < self.most
        {
            // The tighter window has wider lobes.
            return Ok(Outcome::Grow(wanted, None));
        }
        let mut limits = Limits::new(floor, first.lanes(), self.z);
        self.settle(first, &mut limits);
        self.tighten_again(first, &mut limits);
        let mut which = 1;
        let mut stalled = 0;
        let (mut verified, mut last);
        loop {
            let mut other = self.other(first, &limits, which)?;
            let (floor, z) = self.other_floor(&other, first, &limits);
            let uncertainty = self.uncertainty(first);
            let mut skip = Vec::new();
            extras::mask(&other.geometry, other.window.half, &self.bands, &mut skip);
            let seen = verify(&other, &floor, z, &skip, uncertainty);
            let ghosts = self.drop_ghosts(first, &mut other, &floor);
            let open = self.open(first, &limits);
            last = seen;
            verified = open == 0 && seen.unexplained == 0 && seen.quiet && ghosts == (0, 0);
            self.run.clock.lap(Stage::Certify);
            if verified || which >= STRIDES || stalled >= 2 {
                other.recycle(self.run);
                break;
            }
            if other.bins() != self.bins && open == 0 {
                // A finer comb sees what this one cannot.
                let wanted = other.bins().max(4 * self.bins);
                other.recycle(self.run);
                let found = self.conclude(first, &limits, &last, false)?;
                return Ok(Outcome::Grow(wanted, Some(Box::new(found))));
            }
            let added = self.untangle(first, &mut limits, other, which)?;
            stalled = if added { 0 } else { stalled + 1 };
            which += 1;
        }
        // Where the bins are crowded, what is left is more likely tones than anything else.
        let occupied =
            2.0 * first.window.null * self.tones.len() as f64 + self.open(first, &limits) as f64;
        let crowded = occupied > 0.3 * self.bins as f64 && self.bins < self.most;
        if !verified && !crowded {
            self.drifts(first, &limits);
            let named = self.name_rest(first, &limits);
            if named && self.open(first, &limits) == 0 {
                let mut other = self.other(first, &limits, STRIDES + 1)?;
                let (floor, z) = self.other_floor(&other, first, &limits);
                let mut skip = Vec::new();
                let all = [self.bands.as_slice(), &self.clusters].concat();
                extras::mask(&other.geometry, other.window.half, &all, &mut skip);
                last = verify(&other, &floor, z, &skip, self.uncertainty(first));
                let ghosts = self.drop_ghosts(first, &mut other, &floor);
                other.recycle(self.run);
                verified =
                    last.unexplained == 0 && ghosts == (0, 0) && self.open(first, &limits) == 0;
            }
        }
        let found = self.conclude(first, &limits, &last, verified)?;
        if verified {
            return Ok(Outcome::Done(Box::new(found)));
        }
        Ok(Outcome::Grow(4 * self.bins, Some(Box::new(found))))
    }

    /// Locates and refines on the first comb until nothing more comes.
    fn settle(&mut self, first: &mut Comb, limits: &mut Limits) -> usize {
        let mut total = 0;
        for _ in 0..ROUNDS {
            let before = self.tones.len();
            let skip = std::mem::take(&mut self.skip);
            let added = decode(first, limits, &skip, &mut self.tones, &mut self.list);
            self.skip = skip;
            self.run.clock.lap(Stage::Locate);
            self.mark(first, before);
            if added > 0 {
                self.refine(first, &limits.floor);
            }
            // The floor is seen better with every tone that is gone.
            let s2 = self.quantile(first, PEELED);
            *limits = Limits::new(self.floor(first, s2), first.lanes(), self.z);
            let before = self.tones.len();
            self.prune(first, limits);
            if self.tones.len() < before {
                self.refine(first, &limits.floor);
            }
            total += added;
            if added == 0 {
                break;
            }
        }
        total
    }

    /// Marks new tones and those that share bins with them.
    fn mark(&mut self, comb: &Comb, from: usize) {
        self.dirty.resize(from, false);
        self.dirty.resize(self.tones.len(), true);
        let reach = 2.0 * comb.window.half as f64;
        for i in from..self.tones.len() {
            let p = comb.geometry.position(self.tones[i].nu);
            for j in 0..from {
                let q = comb.geometry.position(self.tones[j].nu);
                self.dirty[j] |= comb.geometry.distance(p, q) < reach;
            }
        }
    }

    /// Refines the marked tones, and then those whose neighbours have moved.
    fn refine(&mut self, comb: &mut Comb, floor: &Floor) {
        let gap = 1.1 * comb.window.null;
        let all = groups(comb, &self.tones, gap);
        let reach = (floor.half() + comb.window.half) as f64;
        for _ in 0..PASSES {
            let mut moved: Vec<f64> = Vec::new();
            for group in &all {
                if !group.iter().any(|&i| self.dirty[i]) {
                    continue;
                }
                let mut members: Vec<Tone> = group.iter().map(|&i| self.tones[i]).collect();
                if members.iter().any(|t| t.drift != 0.0) {
                    continue;
                }
                if let [old] = members[..] {
                    members[0] = fit_one(comb, &old, true, floor.half(), floor.white).tone;
                    comb.replace(&old, &members[0]);
                } else {
                    fit_group(comb, &mut members, floor, 8);
                }
                for (&i, new) in group.iter().zip(members) {
                    let old = self.tones[i];
                    let change =
                        (new.nu - old.nu).abs() * comb.geometry.scale() * new.amplitude.norm()
                            + (new.amplitude - old.amplitude).norm();
                    if change * change > MOVED * floor.s2 / comb.lanes() as f64 {
                        moved.push(comb.geometry.position(new.nu));
                    }
                    self.tones[i] = new;
                }
            }
            self.dirty.fill(false);
            if moved.is_empty() {
                break;
            }
            moved.sort_unstable_by(f64::total_cmp);
            for (dirty, tone) in self.dirty.iter_mut().zip(&self.tones) {
                let p = comb.geometry.position(tone.nu);
                // Others than the tone itself, within the bins of its fit.
                *dirty = around(&moved, p, reach, comb.bins() as f64)
                    .any(|q| q != p && comb.geometry.distance(p, q) < reach);
            }
        }
        self.run.clock.lap(Stage::Estimate);
    }

    /// Drops tones that noise or leakage could be, and the weaker of two that came nearer to each
    /// other than tones can be told apart.
    fn prune(&mut self, comb: &mut Comb, limits: &Limits) {
        self.part(comb);
        let floor = limits.floor;
        let least = (16.0 * floor.s2 / comb.lanes() as f64).max(9.0 * floor.leak2);
        let mut i = 0;
        while i < self.tones.len() {
            if self.tones[i].amplitude.norm_sqr() < least {
                let tone = self.tones.swap_remove(i);
                self.dirty.swap_remove(i);
                comb.restore(&tone);
            } else {
                i += 1;
            }
        }
    }

    /// Drops the weaker of two tones that came nearer than they can be told apart.
    fn part(&mut self, comb: &mut Comb) {
        let scale = comb.geometry.scale();
        let mut order: Vec<usize> = (0..self.tones.len()).collect();
        order.sort_unstable_by(|&a, &b| self.tones[a].nu.total_cmp(&self.tones[b].nu));
        let mut drop: Vec<usize> = Vec::new();
        let pairs = order.iter().zip(order.iter().cycle().skip(1));
        for (&i, &j) in pairs.take(if order.len() > 1 { order.len() } else { 0 }) {
            let d = self.tones[i].nu - self.tones[j].nu;
            if ((d - d.round()) * scale).abs() < locate::NEAREST {
                let power = |i: usize| self.tones[i].amplitude.norm_sqr();
                drop.push(if power(i) < power(j) { i } else { j });
            }
        }
        if drop.is_empty() {
            return;
        }
        drop.sort_unstable();
        drop.dedup();
        for &i in drop.iter().rev() {
            let tone = self.tones.remove(i);
            self.dirty.remove(i);
            comb.restore(&tone);
            let p = comb.geometry.position(tone.nu);
            let reach = 2.0 * comb.window.half as f64;
            for (dirty, t) in self.dirty.iter_mut().zip(&self.tones) {
                *dirty |= comb.geometry.distance(p, comb.geometry.position(t.nu)) < reach;
            }
        }
    }

    /// Unexplained bins of the first comb.
    fn open(&self, comb: &Comb, limits: &Limits) -> u64 {
        let masked = |b: usize| !self.skip.is_empty() && self.skip[b];
        comb.energy.iter().enumerate().filter(|&(b, &e)| e > limits.detect && !masked(b)).count()
            as u64
    }

    /// Relative uncertainty of the first comb's noise floor.
    fn uncertainty(&self, first: &Comb) -> f64 {
        (2.0 / (first.lanes() * self.bins) as f64).sqrt() + 0.01
    }

    /// The comb number `which`, one line, less the tones.
    fn other(&mut self, first: &Comb, limits: &Limits, which: u64) -> Result<Comb, Error> {
        let problem = &self.run.plan.problem;
        let mut bins = self.bins;
        if limits.floor.white {
            let db = match problem.noise {
                Noise::Snr(db) => db,
                _ => UNASKED_SNR,
            };
            let wanted = (50.0 * 10f64.powf(-db / 10.0)).min(1e8) as usize;
            bins = bins.max(wanted.next_power_of_two());
            // Weak tones must stand out by themselves.
            let weakest = self.tones.iter().map(|t| t.amplitude.norm_sqr()).reduce(f64::min);
            if let Some(a) = weakest {
                let ratio = 41.0 * limits.floor.s2 / a;
                let needed = (ratio * self.bins as f64).min(16.0 * self.bins as f64);
                bins = bins.max((needed as usize).next_power_of_two());
            }
        }
        let (n, seed) = (problem.n, problem.seed);
        let mut geometry = None;
        while geometry.is_none() && bins >= 32 {
            geometry = Geometry::new(n, bins, which, seed);
            bins /= 2;
        }
        let Some(geometry) = geometry else {
            return Err(Error::Unsupported {
                algorithm: "tones",
                reason: format!("{n} samples have no room for a second stride"),
            });
        };
        let mut other = Comb::new(self.run.plan, geometry, first.window.beta);
        other.measure(self.run, 1, &self.tones)?;
        self.run.clock.lap(Stage::Peel);
        Ok(other)
    }

    /// Floor and threshold of another comb, from the noise that the first one saw.
    fn other_floor(&mut self, other: &Comb, first: &Comb, limits: &Limits) -> (Floor, f64) {
        // Where all is explained the mean is the best estimate.
        let s2 = if limits.floor.white && self.open(first, limits) == 0 {
            let (mut sum, mut count) = (0.0, 0.0);
            for (b, e) in first.energy.iter().enumerate() {
                if self.skip.is_empty() || !self.skip[b] {
                    sum += e;
                    count += 1.0;
                }
            }
            sum / (count * first.lanes() as f64).max(1.0)
        } else {
            limits.floor.s2
        };
        let s2 = s2 * other.window.noise / first.window.noise;
        let mut floor = self.floor(other, s2);
        floor.white = limits.floor.white;
        let z = upper_quantile(self.run.plan.problem.failure / (4 * other.bins()) as f64);
        (floor, z.max(6.0))
    }

    /// Drops tones that the other comb does not have; returns how many, and how many are too weak
    /// to tell.
    fn drop_ghosts(&mut self, first: &mut Comb, other: &mut Comb, floor: &Floor) -> (usize, usize) {
        let (mut absent, mut weak) = (0, 0);
        let mut i = 0;
        while i < self.tones.len() {
            let tone = self.tones[i];
            match if tone.drift == 0.0 { confirm(other, &tone, floor) } else { Standing::Confirmed }
            {
                Standing::Absent => {
                    first.restore(&tone);
                    other.restore(&tone);
                    self.tones.swap_remove(i);
                    self.dirty.swap_remove(i);
                    absent += 1;
                    continue;
                }
                Standing::Weak => weak += 1,
                Standing::Confirmed => {}
            }
            i += 1;
        }
        (absent, weak)
    }

    /// Locates in another comb what the first one cannot untangle. Whether anything was found.
    fn untangle(
        &mut self,
        first: &mut Comb,
        limits: &mut Limits,
        mut other: Comb,
        which: u64,
    ) -> Result<bool, Error> {
        if other.bins() != self.bins {
            // The verification comb was finer than a ladder should be.
            let geometry = Geometry::new(
                self.run.plan.problem.n,
                self.bins,
                which,
                self.run.plan.problem.seed,
            );
            let Some(geometry) = geometry else {
                other.recycle(self.run);
                return Ok(false);
            };
            let beta = other.window.beta;
            other.recycle(self.run);
            other = Comb::new(self.run.plan, geometry, beta);
        }
        let rungs = other.geometry.ladder.len() - other.offsets.len();
        other.measure(self.run, rungs, &self.tones)?;
        let mut skip = Vec::new();
        extras::mask(&other.geometry, other.window.half, &self.bands, &mut skip);
        let s2 = limits.floor.s2 * other.window.noise / first.window.noise;
        let local = Limits::new(self.floor(&other, s2), other.lanes(), self.z);
        let before = self.tones.len();
        for _ in 0..2 {
            let at = self.tones.len();
            let mut fresh = self.tones.split_off(0);
            let added = decode(&mut other, &local, &skip, &mut fresh, &mut self.list);
            self.tones = fresh;
            if added == 0 {
                break;
            }
            // Refine the new ones where they were found before they are taken back.
            for i in at..self.tones.len() {
                let old = self.tones[i];
                let fit = fit_one(&other, &old, true, local.floor.half(), local.floor.white);
                other.replace(&old, &fit.tone);
                self.tones[i] = fit.tone;
            }
        }
        other.recycle(self.run);
        self.run.clock.lap(Stage::Locate);
        let fresh = self.tones.len() - before;
        for i in before..self.tones.len() {
            let tone = self.tones[i];
            first.remove(&tone);
        }
        self.mark(first, before);
        self.refine(first, &limits.floor);
        let more = self.settle(first, limits);
        Ok(fresh + more > 0)
    }

    /// Tests for drift the tones beside which something is left.
    fn drifts(&mut self, first: &mut Comb, limits: &Limits) {
        let lobe = first.window.null;
        let mut order: Vec<usize> = (0..self.tones.len()).collect();
        order.sort_by(|&a, &b| {
            self.tones[b].amplitude.norm_sqr().total_cmp(&self.tones[a].amplitude.norm_sqr())
        });
        let strongest: Vec<Tone> = order.into_iter().map(|i| self.tones[i]).collect();
        for main in strongest.into_iter().take(64) {
            if !self.tones.contains(&main) || main.drift != 0.0 {
                continue;
            }
            let scale = first.geometry.scale();
            let apart = |t: &Tone| {
                let d = t.nu - main.nu;
                ((d - d.round()) * scale).abs()
            };
            let p = first.geometry.position(main.nu);
            let reach = lobe + 6.0;
            let open_near = |comb: &Comb| {
                comb.energy
                    .iter()
                    .enumerate()
                    .filter(|&(b, &e)| {
                        e > limits.detect && comb.geometry.distance(p, b as f64) < reach
                    })
                    .count()
            };
            let bent = bend(first, &main, &limits.floor);
            let friends: Vec<Tone> = self
                .tones
                .iter()
                .copied()
                .filter(|t| {
                    *t != main
                        && apart(t) < reach
                        && t.amplitude.norm() < 0.9 * main.amplitude.norm()
                })
                .collect();
            if open_near(first) == 0 && bent.value.norm() < 5.0 * bent.std {
                continue;
            }
            friends.iter().for_each(|t| first.restore(t));
            let before = open_near(first);
            let mut best: Option<drift::Drifting> = None;
            for guess in [bent.value.im, 0.3, -0.3, 1.0, -1.0, 3.0, -3.0, 7.0, -7.0] {
                if let Some(found) = drift::fit(first, &main, guess.clamp(-8.0, 8.0), &limits.floor)
                    && best.as_ref().is_none_or(|b| found.misfit < b.misfit)
                {
                    best = Some(found);
                }
            }
            let mut accepted = false;
            if let Some(found) = best {
                first.replace(&main, &found.tone);
                let significant = found.tone.drift.abs() > 5.0 * found.drift_std;
                accepted = significant && open_near(first) == 0 && before > 0;
                if accepted {
                    self.tones.retain(|t| *t != main && !friends.contains(t));
                    self.tones.push(found.tone);
                    self.dirty.clear();
                    self.dirty.resize(self.tones.len(), false);
                } else {
                    first.replace(&found.tone, &main);
                }
            }
            if !accepted {
                friends.iter().for_each(|t| first.remove(t));
            }
        }
        self.run.clock.lap(Stage::Estimate);
    }

    /// Names what is left as bands and clusters; whether that was possible.
    fn name_rest(&mut self, first: &mut Comb, limits: &Limits) -> bool {
        if self.open(first, limits) == 0 {
            return true;
        }
        let found =
            extras::stretches(first, &mut self.tones, limits.detect, limits.floor.s2, &self.skip);
        self.dirty.clear();
        self.dirty.resize(self.tones.len(), false);
        let Some(found) = found else { return false };
        for s in found {
            if s.band { self.bands.push(s) } else { self.clusters.push(s) }
        }
        let all = [self.bands.as_slice(), &self.clusters].concat();
        extras::mask(&first.geometry, first.window.half, &all, &mut self.skip);
        self.run.clock.lap(Stage::Estimate);
        true
    }

    /// Variances of amplitude and position of every tone, in units of the noise power (and of
    /// 1/|A|² for the position).
    fn variances(&self, comb: &Comb, floor: &Floor) -> Vec<(f64, f64)> {
        let half = floor.half();
        let mut out = vec![(0.0, 0.0); self.tones.len()];
        for group in groups(comb, &self.tones, 2.0 * half as f64) {
            let members: Vec<Tone> = group.iter().map(|&i| self.tones[i]).collect();
            let joint = (members.len() > 1)
                .then(|| joint_variances(comb, &members, floor.white, half))
                .flatten();
            for (at, &i) in group.iter().enumerate() {
                out[i] = match &joint {
                    Some(joint) => joint[at],
                    None => variances(comb, self.tones[i].nu, half, floor.white),
                };
            }
        }
        out
    }

    /// Gathers the answer.
    fn conclude(
        &mut self,
        first: &mut Comb,
        limits: &Limits,
        seen: &certify::Verification,
        verified: bool,
    ) -> Result<Found, Error> {
        let problem = &self.run.plan.problem;
        let n = problem.n;
        let floor = limits.floor;
        let scale = first.geometry.scale();
        let bins_per_n = n as f64 / scale;
        let failure = problem.failure;
        // Close pairs and bent tones are no single tones.
        let mut reasons: Vec<String> = Vec::new();
        let mut keep = vec![true; self.tones.len()];
        for i in 0..self.tones.len() {
            for j in 0..i {
                let d = self.tones[i].nu - self.tones[j].nu;
                let d = d - d.round();
                if (d * n as f64).abs() < RESOLVED {
                    let (a, b) = (self.tones[i].amplitude, self.tones[j].amplitude);
                    let low = self.tones[j].nu.min(self.tones[j].nu + d);
                    self.clusters.push(Stretch {
                        low,
                        high: low + d.abs(),
                        power: a.norm_sqr() + b.norm_sqr(),
                        band: false,
                    });
                    (keep[i], keep[j]) = (false, false);
                }
            }
        }
        let significance = ((self.tones.len().max(1) as f64) / failure).ln().sqrt() * 1.2;
        let mut drifts: Vec<Option<Drift>> = Vec::new();
        for (i, tone) in self.tones.iter().enumerate() {
            let mut drift = None;
            let bent = bend(first, tone, &floor);
            if tone.drift != 0.0 {
                let c = n as f64 * n as f64;
                drift = Some(Drift { rate: tone.drift, std: bent.std * bins_per_n.powi(2) / c });
            } else if keep[i] && bent.value.norm() > significance * bent.std {
                // To second order a drift bends along the imaginary axis, a pair anywhere.
                if bent.value.re.abs() < 0.25 * bent.value.im.abs() {
                    let rate = 1.0 / (scale * scale);
                    drift = Some(Drift { rate: bent.value.im * rate, std: bent.std * rate });
                } else {
                    keep[i] = false;
                    let half = 0.5 / n as f64;
                    self.clusters.push(Stretch {
                        low: tone.nu - half,
                        high: tone.nu + half,
                        power: tone.amplitude.norm_sqr(),
                        band: false,
                    });
                }
            }
            drifts.push(drift);
        }
        let drifting = drifts.iter().zip(&keep).filter(|(d, k)| d.is_some() && **k).count();
        let open = self.open(first, limits);
        if open > 0 {
            reasons.push(format!("{open} of {} bins hold more than the tones found", self.bins));
        } else if seen.unexplained > 0 {
            reasons.push(format!(
                "{} bins of another comb hold more than the tones found",
                seen.unexplained
            ));
        } else if !verified && !seen.quiet {
            reasons.push(if !(0.7..1.3).contains(&seen.spread) {
                "what is left is not white noise: its power differs from bin to bin".into()
            } else {
                "another comb holds more power than the tones and the noise explain".into()
            });
        } else if !verified {
            reasons.push("a tone is too weak to be confirmed by itself".into());
        }
        if !self.clusters.is_empty() {
            reasons.push(format!(
                "{} {} of tones nearer than 3 bins, or of changing amplitude",
                self.clusters.len(),
                if self.clusters.len() == 1 { "cluster" } else { "clusters" }
            ));
        }
        if drifting > 0 {
            reasons.push(format!(
                "{drifting} {} over the record, which a close pair could imitate",
                if drifting == 1 { "tone drifts" } else { "tones drift" }
            ));
        }
        let certified = reasons.is_empty() && verified;
        if !self.bands.is_empty() {
            reasons.push(format!(
                "tones inside {} {} are not seen",
                self.bands.len(),
                if self.bands.len() == 1 { "band" } else { "bands" }
            ));
        }
        let sigma2 = if floor.white { floor.s2 / first.window.noise } else { 0.0 };
        let spread = self.variances(first, &floor);
        let mut tones = Vec::with_capacity(self.tones.len());
        let mut plain: Vec<Tone> = Vec::with_capacity(self.tones.len());
        for (i, tone) in self.tones.iter().enumerate() {
            if !keep[i] {
                continue;
            }
            let (va, vp) = spread[i];
            let power = tone.amplitude.norm_sqr();
            let noise = floor.s2.max(floor.leak2);
            tones.push(public(
                n,
                tone,
                drifts[i],
                (noise * va).sqrt(),
                (noise * vp / power).sqrt() / scale,
                sigma2,
            ));
            plain.push(*tone);
        }
        let clusters = merge(std::mem::take(&mut self.clusters), 3.0 / n as f64);
        let bands = std::mem::take(&mut self.bands);
        let left: f64 = first.energy.iter().sum::<f64>() / first.lanes() as f64;
        let enbw = first.window.noise * self.bins as f64;
        let found: f64 = self.tones.iter().map(|t| t.amplitude.norm_sqr()).sum();
        let left = left / enbw;
        let total = found + left;
        let limit = seen.limit;
        let lines = first.offsets.len();
        let used = 4 * (lines * self.bins) as u64;
        let mut accuracy = Accuracy::of(n, &tones, used);
        if let Some(wanted) = problem.accuracy
            && verified
            && floor.white
            && drifting == 0
            && accuracy.bins > wanted
        {
            let (present, wanted) = (accuracy.bins / n as f64, wanted / n as f64);
            let bought = accuracy::buy(self.run, first, &plain, &floor, present, wanted)?;
            if let Some((bought, used)) = bought {
                for (tone, (better, amplitude_std, frequency_std)) in tones.iter_mut().zip(bought) {
                    *tone = public(n, &better, None, amplitude_std, frequency_std, sigma2);
                }
                accuracy = Accuracy::of(n, &tones, used);
            }
        }
        let mut certified = certified;
        if self.run.signal.is_real() {
            let single = symmetrise(&mut tones, 0.5 / n as f64);
            if single > 0 {
                certified = false;
                reasons.push(format!("{single} tones of a real signal lack their mirror image"));
            }
        }
        tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
        self.run.clock.lap(Stage::Certify);
        Ok(Found {
            tones,
            bands: bands
                .iter()
                .map(|s| Band { low: s.low, high: s.high, power: s.power })
                .collect(),
            clusters: clusters
                .iter()
                .map(|s| Cluster { centre: s.centre(), width: s.high - s.low, power: s.power })
                .collect(),
            certificate: Certificate {
                verdict: if certified { Verdict::Certified } else { Verdict::Uncertified },
                reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
                bins_tested: self.bins as u64 + seen.tested,
                bins_unexplained: open + seen.unexplained,
                residual_energy: if total > 0.0 { left / total } else { 0.0 },
                noise_floor: sigma2.sqrt(),
                detection_limit: limit,
                failure_probability: failure,
                attempts: 1,
            },
            accuracy,
            bins: self.bins,
            lines,
            beta: first.window.beta,
        })
    }
}

/// The shape that the floor asks for, if it is tighter than that of the window. Where leakage hides the noise, the
/// tightest.
fn tighter(floor: &Floor, window: &Window, s2: f64) -> Option<f64> {
    if floor.leak2 == 0.0 || s2 >= TIGHT * floor.leak2 {
        return None;
    }
    let strongest = floor.leak2 / window.leak.powi(2);
    let fits = |b: &f64| s2 >= TIGHT * leak(*b).powi(2) * strongest;
    let wanted = match s2 < 4.0 * floor.leak2 {
        true => TIGHTEST,
        false => BETAS.into_iter().find(fits).unwrap_or(TIGHTEST),
    };
    (wanted > window.beta).then_some(wanted)
}

/// The sorted places within `reach` of p on a circle of `size`, and perhaps a few more.
fn around(places: &[f64], p: f64, reach: f64, size: f64) -> impl Iterator<Item = f64> + '_ {
    let near = move |low: f64, high: f64| {
        let from = places.partition_point(|q| *q < low);
        let to = places.partition_point(|q| *q <= high);
        places[from..to.max(from)].iter().copied()
    };
    near(p - reach, p + reach)
        .chain(near(p - reach + size, size))
        .chain(near(0.0, p + reach - size))
}

/// Stretches that touch become one.
fn merge(mut all: Vec<Stretch>, gap: f64) -> Vec<Stretch> {
    all.sort_by(|a, b| a.low.total_cmp(&b.low));
    let mut out: Vec<Stretch> = Vec::new();
    for s in all {
        match out.last_mut() {
            Some(last) if s.low <= last.high + gap => {
                last.high = last.high.max(s.high);
                last.power = last.power.max(s.power);
            }
            _ => out.push(s),
        }
    }
    out
}

/// Makes pairs of tones of a real signal conjugate to the last bit; returns how many have no
/// partner within the tolerance.
fn symmetrise(tones: &mut [PublicTone], tolerance: f64) -> usize {
    tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
    let mut single = 0;
    for i in 0..tones.len() {
        let nu = tones[i].frequency;
        let away = |t: &PublicTone| {
            let d = t.frequency + nu;
            (d - d.round()).abs()
        };
        let at = tones.partition_point(|t| t.frequency < -nu - tolerance);
        let near = (at..tones.len().min(at + 2)).chain([0, tones.len() - 1]);
        let Some(j) = near.min_by(|&a, &b| away(&tones[a]).total_cmp(&away(&tones[b]))) else {
            continue;
        };
        if away(&tones[j]) > tolerance {
            single += 1;
        } else if i == j {
            tones[i].frequency = if nu.abs() < 0.25 { 0.0 } else { -0.5 };
            tones[i].amplitude.im = 0.0;
        } else if j > i {
            // Both lie at ±ν; the mean distance from 0, or from ±1/2, is the better estimate.
            let nu = 0.5 * (nu - tones[j].frequency);
            let mean = 0.5 * (tones[i].amplitude + tones[j].amplitude.conj());
            (tones[i].frequency, tones[i].amplitude) = (nu, mean);
            (tones[j].frequency, tones[j].amplitude) = (-nu, mean.conj());
        }
    }
    single
}

/// A tone in the user's terms: the amplitude counts from the first sample.
fn public(
    n: u64,
    tone: &Tone,
    drift: Option<Drift>,
    amplitude_std: f64,
    frequency_std: f64,
    sigma2: f64,
) -> PublicTone {
    let middle = 0.5 * n as f64;
    let rate = drift.map_or(0.0, |_| tone.drift);
    let amplitude = tone.amplitude * turn(-tone.nu * middle) * turn(0.5 * rate * middle * middle);
    let power = tone.amplitude.norm_sqr();
    let frequency = tone.nu - rate * middle;
    let phase_middle = amplitude_std / power.sqrt();
    let phase_slope = std::f64::consts::TAU * middle * frequency_std;
    PublicTone {
        frequency: frequency - frequency.round(),
        amplitude: Complex::new(amplitude.re, amplitude.im),
        frequency_std,
        amplitude_std,
        phase_std: phase_middle.hypot(phase_slope),
        snr: if sigma2 > 0.0 { power / sigma2 } else { f64::INFINITY },
        drift,
    }
}
