//! One attempt with a number of bins: the order of the steps, and what the noise floor asks for.

use super::certify::{independent, residual_lines, verify};
use super::comb::{Comb, Geometry, Tone, above, largest};
use super::extras::{self, Stretch};
use super::locate::Limits;
use super::refine::{Bend, Floor, Second, bend};
use super::strides::CROWD_SHARE;
use super::window::{BETAS, Window, leak};
use super::{Found, too_short};
use crate::Error;
use crate::algorithms::Run;
use crate::judge::{self, Fault, Rest, Tolerance, rest_limit};
use crate::problem::Noise;
use crate::stages::Stage;
use crate::stages::certify::{ranked, threshold};

/// Quantile of the bins' energies that is still noise before anything is peeled, and its normal
/// deviate.
const CROWD: (f64, f64) = (0.15, -1.036_433_389_493_789_8);
/// The same once most tones are peeled.
pub(super) const PEELED: (f64, f64) = (0.35, -0.385_320_466_407_567_7);
/// The median.
const MEDIAN: (f64, f64) = (0.5, 0.0);
/// Ratio of the floors that [`CROWD`] and [`MEDIAN`] give (1 for noise, 0.75 with the bins 40 %
/// occupied) below which all bins hold tones.
const SCATTER: f64 = 0.6;
/// Share of active bins above which a comb is too small.
const CROWDED: f64 = 0.4;
/// Share of active bins above which the lobes that fill them cannot be counted.
const COUNTABLE: f64 = 0.85;
/// Bins of all lobes over those of the comb that is chosen for them: at most this.
const OCCUPIED: f64 = 0.5;
/// Lines that are read for the last test alone, evenly over the record.
const WITNESS_LINES: usize = 509;
/// Claimed deviations of all tones together that a residual sample may reach.
const ERRORS: f64 = 6.0;
/// Strides that are tried beside the first.
const STRIDES: u64 = 5;
/// Noise is the limit where its power exceeds that of leakage by this factor.
const NOISY: f64 = 30.0;
/// Where the noise power is not this many times that of leakage, a tighter window is taken:
/// whitening amplifies leakage a hundredfold.
const TIGHT: f64 = 1500.0;
/// The tightest shape for locating in as many bins as can be had.
const NARROW: f64 = BETAS[2];
/// The shape for signals without noise.
const TIGHTEST: f64 = BETAS[BETAS.len() - 1];

/// How an attempt with a number of bins ended.
pub(super) enum Outcome {
    Done(Box<Found>),
    /// More bins are wanted.
    Grow(Next, Option<Box<Found>>),
}

/// What the next attempt should begin with. An answer so far comes with it, for the case that no
/// more bins can be had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Next {
    /// Bins, at least.
    pub(super) bins: usize,
    /// Shape of the window that the noise will ask for.
    pub(super) beta: f64,
}

/// One attempt with a number of bins.
pub(super) struct Engine<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) bins: usize,
    /// Shape of the window to begin with.
    beta: f64,
    /// Most bins that could be had.
    pub(super) most: usize,
    /// Standard deviations at which noise counts as a tone.
    pub(super) z: f64,
    pub(super) tones: Vec<Tone>,
    /// Tones whose bins have changed since they were fitted.
    pub(super) dirty: Vec<bool>,
    pub(super) bands: Vec<Stretch>,
    pub(super) clusters: Vec<Stretch>,
    /// Bins of the first comb that bands cover.
    pub(super) skip: Vec<bool>,
    pub(super) list: Vec<u32>,
    /// Bends of tones that a band covers in the first comb, as another comb shows them.
    pub(super) bends: Vec<Option<Bend>>,
    /// What the verification adds to each tone, and from how many samples.
    pub(super) seconds: Vec<Option<Second>>,
    pub(super) second_samples: u64,
    /// Whether clusters have been seen with fewer bins already.
    pub(super) retried: bool,
    /// Why what is left is not called noise.
    pub(super) fault: Option<String>,
    /// Largest share of the power that a steady narrow-band rest could hold unnoticed.
    pub(super) rest_limit: f64,
}

impl<'r, 'a> Engine<'r, 'a> {
    pub(super) fn new(run: &'r mut Run<'a>, next: Next, most: usize, retried: bool) -> Self {
        let Next { bins, beta } = next;
        let z = run.workspace.deviations(run.plan.problem.failure / (8 * bins) as f64);
        let list = std::mem::take(&mut run.workspace.lists[0]);
        Engine {
            run,
            bins,
            beta,
            most,
            z,
            tones: Vec::new(),
            dirty: Vec::new(),
            bands: Vec::new(),
            clusters: Vec::new(),
            skip: Vec::new(),
            list,
            bends: Vec::new(),
            seconds: Vec::new(),
            second_samples: 0,
            retried,
            fault: None,
            rest_limit: 1.0,
        }
    }

    pub(super) fn attempt(mut self) -> Result<Outcome, Error> {
        let problem = &self.run.plan.problem;
        let (n, seed) = (problem.n, problem.seed);
        let Some(geometry) = Geometry::new(n, self.bins, 0, seed) else {
            return Ok(Outcome::Done(Box::new(too_short(n))));
        };
        let exact = problem.noise == Noise::Exact && self.bins < self.most;
        // Where more bins cannot be had, narrow lobes come first.
        let most = if self.bins < self.most { TIGHTEST } else { NARROW };
        let beta = if exact { TIGHTEST } else { self.beta.clamp(BETAS[0], most) };
        let mut first = Comb::new(self.run.plan, geometry, beta);
        first.measure(self.run, 1, &[])?;
        let noise = self.crowd_and_median(&first);
        let mut wanted = self.crowded(&first, noise, CROWDED);
        if wanted.is_none() {
            // The first line tells the window, so that the others need not be windowed twice.
            let beta = first.window.beta;
            let (_, noise) = self.tighten(&mut first, noise)?;
            if first.window.beta != beta {
                wanted = self.crowded(&first, noise, CROWDED);
            }
        }
        if let Some(wanted) = wanted {
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

    pub(super) fn finish(self) {
        self.run.workspace.lists[0] = self.list;
    }

    /// This many bins, and the window that they will need where a comb has noise of power s2.
    fn next(&self, comb: &Comb, s2: f64, bins: usize) -> Next {
        let floor = self.floor(comb, s2);
        let s2 = s2 * comb.bins() as f64 / bins as f64;
        Next { bins, beta: tighter(&floor, &comb.window, s2).unwrap_or(comb.window.beta) }
    }

    /// What is needed if more than this share of the bins is occupied: tones fill a main lobe each.
    /// `noise` is what [`crowd_and_median`](Engine::crowd_and_median) says.
    fn crowded(&self, comb: &Comb, noise: (f64, f64), most: f64) -> Option<Next> {
        let (s2, median) = noise;
        let bins = comb.bins();
        if s2 == 0.0 || bins >= self.most {
            return None;
        }
        let floor = self.floor(comb, s2);
        let limits = Limits::new(floor, comb.lanes(), self.z);
        let active = above(&comb.energy, limits.detect);
        let share = active as f64 / bins as f64;
        // Where tones fill all bins nothing stands out, but energies scatter more than noise does.
        let full = s2 < SCATTER * median && median > 100.0 * floor.leak2;
        if share <= most && !full {
            return None;
        }
        let wanted = if share > COUNTABLE || full {
            4 * bins
        } else {
            // Lobes at random places overlap: they leave the share e^(-lobes·width/bins) free.
            let occupied = -(1.0 - share).ln() * bins as f64;
            (occupied / OCCUPIED) as usize
        };
        Some(self.next(comb, s2, wanted.next_power_of_two().max(2 * bins)))
    }

    /// Noise power per lane and bin from a quantile of the energies; a few hundred bins suffice.
    pub(super) fn quantile(&mut self, comb: &Comb, (p, z): (f64, f64)) -> f64 {
        let sample = &mut self.run.workspace.energies;
        gather_some(comb, sample);
        ranked(sample, (sample.len() as f64 * p) as usize, 0.0, ROUGHLY)
            / threshold(comb.lanes(), z)
    }

    /// The same from [`CROWD`] and from [`MEDIAN`], before anything is peeled.
    fn crowd_and_median(&mut self, comb: &Comb) -> (f64, f64) {
        let sample = &mut self.run.workspace.energies;
        gather_some(comb, sample);
        let rank = |(p, _): (f64, f64)| (sample.len() as f64 * p) as usize;
        let crowd = ranked(sample, rank(CROWD), 0.0, ROUGHLY);
        let median = ranked(sample, rank(MEDIAN), crowd, ROUGHLY);
        let lanes = comb.lanes();
        (crowd / threshold(lanes, CROWD.1), median / threshold(lanes, MEDIAN.1))
    }

    /// The floor of a comb whose noise power is s2.
    pub(super) fn floor(&self, comb: &Comb, s2: f64) -> Floor {
        let strongest = match self.tones.iter().map(|t| t.amplitude.norm_sqr()).reduce(f64::max) {
            Some(a) => a,
            None => largest(&comb.energy) / comb.lanes() as f64,
        };
        let leak2 = comb.window.leak.powi(2) * strongest;
        // Rounding of the transform, and of phases νt up to n/2 turns, in the signal as in the model.
        let n = self.run.plan.problem.n as f64;
        let rounding = (4e-16 * (1.0 + 1e-2 * n.log2()) + 2.5e-17 * n).powi(2);
        let s2 = s2.max(0.05 * leak2).max(rounding * strongest);
        Floor { s2, leak2, white: s2 > NOISY * leak2 }
    }

    /// Takes a tighter window if the side lobes of the strongest tone could matter in the noise;
    /// `noise` as [`crowd_and_median`](Engine::crowd_and_median) says. Returns the floor and the noise
    /// under that window.
    fn tighten(
        &mut self,
        comb: &mut Comb,
        mut noise: (f64, f64),
    ) -> Result<(Floor, (f64, f64)), Error> {
        loop {
            let s2 = noise.0;
            let floor = self.floor(comb, s2);
            // Where more bins cannot be had, narrow lobes come first; once the tones are peeled the
            // window may still become tighter.
            let most = if self.bins < self.most { TIGHTEST } else { NARROW };
            match tighter(&floor, &comb.window, s2) {
                Some(beta) if beta.min(most) > comb.window.beta => {
                    comb.rewindow(self.run, beta.min(most))?;
                    noise = self.crowd_and_median(comb);
                }
                _ => return Ok((floor, noise)),
            }
        }
    }

    /// Once the tones are peeled the floor is seen better; if it asks for a tighter window after
    /// all, the same tones are peeled and refined under that.
    pub(super) fn tighten_again(
        &mut self,
        first: &mut Comb,
        limits: &mut Limits,
    ) -> Result<(), Error> {
        while let Some(beta) = tighter(&limits.floor, &first.window, limits.floor.s2) {
            first.rewindow(self.run, beta)?;
            self.tones.iter().for_each(|t| first.remove(t));
            self.dirty.fill(true);
            let s2 = self.quantile(first, PEELED);
            *limits = Limits::new(self.floor(first, s2), first.lanes(), self.z);
            self.refine(first, &limits.floor);
            self.settle(first, limits);
        }
        Ok(())
    }

    /// Everything after the first comb has been measured.
    pub(super) fn solve(&mut self, first: &mut Comb) -> Result<Outcome, Error> {
        let n = self.run.plan.problem.n;
        let noise = self.crowd_and_median(first);
        let (floor, noise) = self.tighten(first, noise)?;
        if let Some(wanted) = self.crowded(first, noise, 1.4 * CROWDED)
            && self.bins < self.most
        {
            // All lines see weaker tones than the first.
            return Ok(Outcome::Grow(wanted, None));
        }
        let mut limits = Limits::new(floor, first.lanes(), self.z);
        self.settle(first, &mut limits);
        self.tighten_again(first, &mut limits)?;
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
            // Where the combs read much of the record, they share samples and thus noise.
            let lanes = first.lanes() * self.bins + other.lanes() * other.bins();
            if verified && floor.white && 8 * lanes as u64 <= n {
                self.look_again(&other);
            } else {
                self.seconds.clear();
            }
            if verified || which >= STRIDES || stalled >= 2 {
                other.recycle(self.run);
                break;
            }
            let hidden = seen.unexplained > 0 && self.share(first) > CROWD_SHARE;
            if other.bins() != self.bins && (open == 0 || hidden) {
                // A finer comb sees what this one cannot.
                let least = other.bins().max(4 * self.bins);
                let noise = self.crowd_and_median(&other);
                let wanted = if hidden { self.crowded(&other, noise, CROWDED) } else { None };
                other.recycle(self.run);
                let found = self.conclude(first, &limits, &last, false)?;
                let next = wanted.unwrap_or(Next { bins: least, beta: first.window.beta });
                return Ok(Outcome::Grow(next, Some(Box::new(found))));
            }
            if stalled > 0 {
                self.forget_suspects(first, &mut other, &limits);
            }
            let added = self.untangle(first, &mut limits, other, which)?;
            let occupied = 2.0 * first.window.null * self.tones.len() as f64;
            if occupied > self.bins as f64 && self.bins < self.most {
                // Tones that lie over each other everywhere cost much and are known badly.
                let bins = ((occupied / OCCUPIED) as usize).next_power_of_two();
                return Ok(Outcome::Grow(self.next(first, limits.floor.s2, bins), None));
            }
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
                self.seconds.clear();
                self.uncover(first, &mut other, &floor, &skip);
                other.recycle(self.run);
                verified =
                    last.unexplained == 0 && ghosts == (0, 0) && self.open(first, &limits) == 0;
            }
        }
        if verified && self.bands.is_empty() {
            self.fault = self.test_rest(first, &limits.floor)?;
            verified = self.fault.is_none();
        }
        let found = self.conclude(first, &limits, &last, verified)?;
        // What looks like a cluster may be tones that collide in this comb; more bins would tell.
        let doubtful = !self.retried && self.bins < self.most && !found.clusters.is_empty();
        if verified && !doubtful {
            return Ok(Outcome::Done(Box::new(found)));
        }
        let wanted = if verified { 2 * self.bins } else { 4 * self.bins };
        let next = self.next(first, limits.floor.s2, wanted);
        Ok(Outcome::Grow(next, Some(Box::new(found))))
    }
}

impl Engine<'_, '_> {
    /// Tests the samples that were read, less the tones; why they are not called noise.
    fn test_rest(&mut self, first: &Comb, floor: &Floor) -> Result<Option<String>, Error> {
        // Combs end before the record does: lines of all of it see what happens behind them.
        let count = WITNESS_LINES.min(independent(self.run.plan.problem.n)).max(1);
        let witness = judge::read_witness(self.run, count, self.bins as u32)?;
        let mut rest = std::mem::take(&mut self.run.workspace.judge.rest);
        let gathered = residual_lines(self.run, &self.tones, witness, &mut rest);
        let fault = self.judge_rest(first, floor, &mut rest);
        self.run.workspace.judge.rest = rest;
        gathered.map(|()| fault)
    }

    /// Whether residual lines are noise, rounding, or what the tones' own errors leave.
    fn judge_rest(&mut self, first: &Comb, floor: &Floor, rest: &mut Rest) -> Option<String> {
        let real = self.run.signal.is_real();
        let powers: f64 = self.tones.iter().map(|t| t.amplitude.norm_sqr()).sum();
        let left = rest.power();
        let power = (powers + left).max(f64::MIN_POSITIVE);
        let tolerance = Tolerance {
            share: self.run.plan.problem.tolerance,
            power,
            step: self.run.signal.resolution(),
            sum: self.tones.iter().map(|t| t.amplitude.norm()).sum(),
        };
        let covered = tolerance.covers(left, real);
        if covered || !floor.white {
            let errors = (ERRORS * self.largest_error(first, floor)).powi(2);
            if rest.is_below(tolerance.largest(real).max(errors)) {
                self.rest_limit = (left / power).min(1.0);
                return None;
            }
        }
        if covered {
            return Some(judge::CONTRADICTED.to_string());
        }
        let informing = (first.lanes() * self.bins) as f64;
        let fitted = 1.5 * self.tones.len() as f64 / informing;
        self.rest_limit = (rest_limit(rest.len(), fitted) * left / power).min(1.0);
        rest.test(real, fitted).err().map(Fault::reason)
    }

    /// What the claimed deviations of all tones add up to in the first and the last sample of the
    /// record, where errors of frequencies matter most.
    fn largest_error(&self, first: &Comb, floor: &Floor) -> f64 {
        let bends: Vec<Bend> = self.tones.iter().map(|t| bend(first, t, floor)).collect();
        let noise = floor.s2.max(floor.leak2);
        let half = 0.5 * self.run.plan.problem.n as f64 / first.geometry.scale();
        let turns = std::f64::consts::TAU * half;
        let spread = self.variances(first, floor, &bends);
        // The deviation of a position is in units of 1/|A|, so that it adds as an amplitude does.
        spread.iter().map(|(va, vp)| (noise * (va + turns * turns * vp)).sqrt()).sum()
    }
}

/// Quantiles of a few hundred numbers are worth no more than a part in this.
const ROUGHLY: u32 = 64;

/// Energies of a few hundred bins.
fn gather_some(comb: &Comb, sample: &mut Vec<f64>) {
    sample.clear();
    let step = comb.bins().div_ceil(512);
    if step == 1 {
        sample.extend_from_slice(&comb.energy);
    } else {
        sample.extend(comb.energy.chunks(step).map(|chunk| chunk[0]));
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
