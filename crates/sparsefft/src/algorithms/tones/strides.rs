//! Combs of other strides: they verify, and they untangle what the first comb cannot.

use super::certify::{Standing, standing};
use super::comb::{Comb, Geometry, Tone, total};
use super::engine::Engine;
use super::extras;
use super::locate::{Limits, decode};
use super::refine::{Floor, Manner, fit_one, second};
use crate::Error;
use crate::problem::Noise;
use crate::samples::MOST_LINES;
use crate::stages::Stage;

/// Weakest tone, in dB against the noise in one sample, that a search which is told nothing must
/// not miss.
const UNASKED_SNR: f64 = -10.0;
/// Where more than this share of the power is left, it could be a crowd of tones that fills all
/// bins of a small comb as noise does.
pub(super) const CROWD_SHARE: f64 = 0.5;
/// Bins that tell such a crowd from noise: the scatter of their energies shows up to about 10^4
/// tones.
const CROWD_BINS: usize = 4096;

impl Engine<'_, '_> {
    /// Relative uncertainty of the first comb's noise floor.
    pub(super) fn uncertainty(&self, first: &Comb) -> f64 {
        (2.0 / (first.lanes() * self.bins) as f64).sqrt() + 0.01
    }

    /// The comb number `which`, one line, less the tones.
    pub(super) fn other(
        &mut self,
        first: &Comb,
        limits: &Limits,
        which: u64,
    ) -> Result<Comb, Error> {
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
        if self.share(first) > CROWD_SHARE {
            bins = bins.max(CROWD_BINS);
        }
        let (n, seed) = (problem.n, problem.seed);
        bins = bins.min(MOST_LINES as usize);
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
    pub(super) fn other_floor(
        &mut self,
        other: &Comb,
        first: &Comb,
        limits: &Limits,
    ) -> (Floor, f64) {
        // Where all is explained the mean is the best estimate.
        let s2 = if limits.floor.white && self.open(first, limits) == 0 {
            let (mut sum, mut count) = (0.0, 0.0);
            if self.skip.is_empty() {
                (sum, count) = (total(&first.energy), first.bins() as f64);
            }
            for (_, e) in self.skip.iter().zip(&first.energy).filter(|(skip, _)| !**skip) {
                sum += e;
                count += 1.0;
            }
            sum / (count * first.lanes() as f64).max(1.0)
        } else {
            limits.floor.s2
        };
        let s2 = s2 * other.window.noise / first.window.noise;
        let mut floor = self.floor(other, s2);
        floor.white = limits.floor.white;
        let failure = self.run.plan.problem.failure;
        let z = self.run.workspace.deviations(failure / (4 * other.bins()) as f64);
        (floor, z.max(6.0))
    }

    /// Drops tones that the other comb does not have; returns how many, and how many are too weak
    /// to tell. Keeps what the comb adds to each of the others.
    pub(super) fn drop_ghosts(
        &mut self,
        first: &mut Comb,
        other: &mut Comb,
        floor: &Floor,
    ) -> (usize, usize) {
        let (mut absent, mut weak) = (0, 0);
        self.seconds.clear();
        let mut i = 0;
        while i < self.tones.len() {
            let tone = self.tones[i];
            let (mut stands, mut step) = (Standing::Confirmed, None);
            if tone.drift == 0.0 {
                let (left, more) = second(other, &tone, floor);
                (stands, step) = (standing(other, &tone, left, floor), more);
            }
            match stands {
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
            self.seconds.push(step);
            i += 1;
        }
        (absent, weak)
    }

    /// Takes what a comb that has verified the tones adds to their accuracy. Tones with a neighbour
    /// there get nothing: its error would be taken for theirs.
    pub(super) fn look_again(&mut self, other: &Comb) {
        let mut places: Vec<(f64, usize)> =
            (0..).zip(&self.tones).map(|(i, t)| (other.geometry.position(t.nu), i)).collect();
        places.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let apart = 2.0 * other.window.null;
        let count = places.len();
        for (at, &(p, i)) in places.iter().enumerate() {
            let (before, after) = (places[(at + count - 1) % count].0, places[(at + 1) % count].0);
            let alone = count == 1
                || other.geometry.distance(p, before) > apart
                    && other.geometry.distance(p, after) > apart;
            if !alone {
                self.seconds[i] = None;
            }
        }
        self.second_samples = 4 * (other.bins() * other.offsets.len()) as u64;
    }

    /// Forgets the tones around unexplained bins of the first comb: some may be mixtures, and those
    /// that are not will be located again in the other comb.
    pub(super) fn forget_suspects(&mut self, first: &mut Comb, other: &mut Comb, limits: &Limits) {
        let lobe = first.window.null + 1.5;
        let masked = |b: usize| !self.skip.is_empty() && self.skip[b];
        let mut open: Vec<f64> = Vec::new();
        // Longer runs are no mixtures of a few tones.
        let longest = 3.0 * first.window.null + 2.0;
        let mut run: Vec<f64> = Vec::new();
        for b in 0..=first.bins() {
            if b < first.bins() && first.energy[b] > limits.detect && !masked(b) {
                run.push(b as f64);
            } else if run.last().is_some_and(|&last| b as f64 - last > 3.0) || b == first.bins() {
                if run.len() as f64 <= longest {
                    open.append(&mut run);
                }
                run.clear();
            }
        }
        let suspect = |t: &Tone| {
            let p = first.geometry.position(t.nu);
            t.drift == 0.0 && open.iter().any(|&b| first.geometry.distance(p, b) < lobe)
        };
        let (suspects, kept): (Vec<Tone>, Vec<Tone>) = self.tones.iter().partition(|t| suspect(t));
        for tone in &suspects {
            first.restore(tone);
            other.restore(tone);
        }
        self.tones = kept;
        self.dirty.clear();
        self.dirty.resize(self.tones.len(), false);
    }

    /// Locates in another comb what the first one cannot untangle. Whether anything was found.
    pub(super) fn untangle(
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
        let known = self.tones.clone();
        for _ in 0..2 {
            let at = self.tones.len();
            let old = decode(&mut other, &local, &skip, &mut self.tones, &mut self.list);
            if self.tones.len() == at {
                break;
            }
            // Refine the new ones where they were found before they are taken back.
            for tone in &mut self.tones[old..] {
                let fit = fit_one(&other, tone, Manner::fine(&local.floor));
                other.replace(tone, &fit.tone);
                *tone = fit.tone;
            }
        }
        other.recycle(self.run);
        self.run.clock.lap(Stage::Locate);
        // Those of the first comb that turned out to be mixtures go back into it.
        let mut before = 0;
        for tone in &known {
            if self.tones.get(before) == Some(tone) {
                before += 1;
            } else {
                first.restore(tone);
            }
        }
        let fresh = self.tones.len() - before;
        self.tones[before..].iter().for_each(|t| first.remove(t));
        self.mark(first, before);
        self.refine(first, &limits.floor);
        let more = self.settle(first, limits);
        Ok(fresh + more > 0)
    }
}
