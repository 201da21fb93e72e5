//! The end of an attempt: an independent test, and the answer with its certificate.

use super::engine::{Engine, ROUNDING};
use super::{Outcome, VERIFY_STREAM, window_hash};
use crate::Error;
use crate::algorithms::Answer;
use crate::certificate::{Certificate, Verdict};
use crate::plan;
use crate::problem::Algorithm;
use crate::spectrum::Peak;
use crate::stages::Stage;
use crate::stages::hash::Hash;
use crate::stages::known::Sizes;
use crate::stages::order::peaks_by_frequency;
use crate::stages::window;

/// Ratio of |a|² below which a coefficient beside a strong one is doubted.
pub(super) const DOUBT: f64 = 1e-14;

/// Gain of a window half way between two buckets, where it is least.
pub(super) const LEAST_GAIN: f64 = 0.4;

/// The least amplitude that lifts a bin above its limit for all that noise of this power in a lane can do.
pub(super) fn shows(floor: f64, limit: f64, lanes: usize, sigmas: f64) -> f64 {
    (limit.sqrt() + sigmas * floor.sqrt()) / (lanes as f64).sqrt()
}

/// So many coefficients are sorted by keys.
const MANY: usize = 8192;

impl Engine<'_, '_> {
    /// Verifies and writes the answer.
    pub(super) fn conclude(&mut self) -> Result<Outcome, Error> {
        self.settle_noise()?;
        if self.worth_averaging() {
            self.average();
        }
        let mut sizes = self.prune()?;
        let witness = self.witness.take().map(|w| self.windows.remove(w));
        let mut reason = None;
        let mut tested = 0u64;
        let mut unexplained = 0u64;
        let mut verified_limit = 0.0;
        if self.blind {
            reason = Some("other samples hold far more than those of the comb".to_string());
        } else if self.weak > 0 {
            reason = Some(
                "some bins stand above the noise, but too little to place their frequencies"
                    .to_string(),
            );
        }
        for hash in self.comb.iter().chain(&self.windows) {
            tested += hash.buckets as u64;
            unexplained += self.unexplained(hash) as u64;
        }
        if unexplained > 0 && reason.is_none() {
            reason = Some(format!("{unexplained} bins could not be explained"));
        }
        if reason.is_none() {
            self.refine_noise();
        }
        if reason.is_some() {
            witness.into_iter().for_each(|hash| hash.recycle(self.run));
        } else {
            let (bins, left, limit) = self.verify(witness, &mut sizes)?;
            tested += bins;
            unexplained += left;
            verified_limit = limit;
            self.blind = left > 0;
            if self.blind {
                reason = Some(format!(
                    "an independent hash holds {left} buckets that the answer does not explain"
                ));
            }
        }
        let problem = &self.run.plan.problem;
        let rest = if self.noisy || !self.known.is_empty() {
            self.noise / self.power.max(f64::MIN_POSITIVE)
        } else {
            0.0
        };
        let residual = if reason.is_none() {
            rest.min(1.0)
        } else {
            (1.0 - sizes.energy / self.power.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        };
        let mut short = false;
        let tolerable = residual <= problem.tolerance * problem.tolerance;
        if reason.is_none() && !tolerable {
            // Of one pass, k is an upper bound.
            match problem.k().filter(|_| !problem.one_pass) {
                Some(k) if (self.known.len() as u64) < k => {
                    short = !self.known.is_empty();
                    reason = Some(format!(
                        "only {} of the {k} coefficients stand above the noise",
                        self.known.len()
                    ));
                }
                None if self.known.is_empty() => {
                    reason = Some("nothing stands above the noise".to_string());
                }
                _ => {}
            }
        }
        if reason.is_none() && self.power == 0.0 && problem.k().is_none() {
            reason = Some("every sample that was read is zero".to_string());
        }
        let detection_limit = match self.comb.as_ref().or(self.windows.first()) {
            Some(hash) => {
                let gain = if self.comb.is_some() { 1.0 } else { LEAST_GAIN };
                let limit = self.limit(hash, hash.lanes());
                let own = shows(self.floor(hash), limit, hash.lanes(), self.sigmas) / gain;
                // Four neighbouring shifts alone cannot tell a weak frequency from a strong one
                // close by in the same bin; the independent hash can.
                if hash.offsets.len() == 1 { own.max(verified_limit) } else { own }
            }
            None => f64::INFINITY,
        };
        let certified = reason.is_none();
        let short = short && detection_limit < 0.1 * sizes.weakest.sqrt();
        let certificate = Certificate {
            verdict: if certified { Verdict::Certified } else { Verdict::Uncertified },
            reason,
            bins_tested: tested,
            bins_unexplained: unexplained,
            residual_energy: residual,
            noise_floor: self.noise.sqrt(),
            detection_limit,
            failure_probability: problem.failure,
            attempts: 1,
        };
        let algorithm = match (self.run.plan.problem.algorithm, self.noisy) {
            (Algorithm::Auto, false) => Algorithm::Exact,
            (Algorithm::Auto, true) => Algorithm::Robust,
            (named, _) => named,
        };
        if self.run.signal.is_real() {
            self.symmetrise();
        }
        let peaks = self.peaks();
        self.run.clock.lap(Stage::Certify);
        let answer = Answer { algorithm, peaks, in_order: true, certificate };
        Ok(match (certified, self.blind) {
            (true, _) => Outcome::Certified(answer),
            (_, true) => Outcome::Blind(answer),
            _ if short => Outcome::Short(answer),
            _ => Outcome::Open(answer),
        })
    }

    /// The answer's coefficients by frequency.
    fn peaks(&mut self) -> Vec<Peak> {
        let scale = self.n as f64;
        if self.order.len() > self.known.in_place() {
            self.order.clear(self.n);
        }
        let many = self.known.len() >= MANY || self.order.len() > 0;
        if many && self.order.suits(self.known.len()) {
            return self.order.peaks(&self.known, scale);
        }
        peaks_by_frequency(&self.known, self.n, scale)
    }

    /// Averages conjugate pairs, which real samples make equal up to noise.
    fn symmetrise(&mut self) {
        if !self.known.linked() {
            self.known.link(None);
        }
        for i in 0..self.known.len() {
            let f = self.known[i].f;
            let mirror = (self.n - f) % self.n;
            if mirror == f {
                self.known[i].a.im = 0.0;
            } else if f < mirror
                && let Some(j) = self.known.find(mirror)
            {
                let mean = 0.5 * (self.known[i].a + self.known[j].a.conj());
                self.known[i].a = mean;
                self.known[j].a = mean.conj();
            }
        }
    }

    /// Drops coefficients that corrections have brought down to the floor, and those that stand in
    /// a bin which is explained without them. Returns the sizes of what stays.
    fn prune(&mut self) -> Result<Sizes, Error> {
        let least = self.negligible();
        let sizes = self.known.drop_small(least);
        if self.noisy || self.comb.is_none() || self.suspects.is_empty() {
            return Ok(sizes);
        }
        if sizes.weakest >= DOUBT * sizes.energy {
            return Ok(sizes);
        }
        if !self.known.linked() {
            self.known.link(self.comb.as_ref().map(|comb| comb.buckets));
        }
        for i in 0..self.suspects.len() {
            let b = self.suspects[i] as usize;
            while let Some(weakest) = self.weakest_member(b, DOUBT) {
                if self.overfull(b) {
                    self.widen()?;
                }
                if !self.drop_member(b, weakest) {
                    break;
                }
            }
        }
        Ok(self.known.sizes())
    }

    /// The weakest frequency of a comb bin, if it is weaker than the strongest by this factor.
    fn weakest_member(&self, b: usize, factor: f64) -> Option<u64> {
        let size = |i: &usize| self.known[*i].a.norm_sqr();
        let strongest = self.known.members(b).map(|i| size(&i)).fold(0.0, f64::max);
        let weakest = self.known.members(b).min_by(|i, j| size(i).total_cmp(&size(j)))?;
        (size(&weakest) < factor * strongest).then(|| self.known[weakest].f)
    }

    /// Buckets of the hash that verifies, and the shape of its window where there is no noise.
    pub(super) fn verifying(&self) -> (usize, f64) {
        let k = self.run.plan.problem.k().unwrap_or(0).max(self.known.len() as u64);
        plan::verifying(self.n, k)
    }

    /// The hash that verifies, not yet measured: large enough for the weakest of the known to show in
    /// noise.
    pub(super) fn verifying_hash(&mut self) -> Hash {
        let (mut buckets, mut beta) = self.verifying();
        let menu = self.run.plan.menu();
        if self.noisy {
            let weakest = self.known.sizes().weakest;
            let quiet = ((60.0 * self.noise / weakest) as u64).min(self.most_buckets());
            buckets = buckets.max(quiet.next_power_of_two() as usize);
        }
        buckets = menu.map_or(buckets, |menu| buckets.min(menu.verify));
        if self.noisy {
            let tones = (self.power - self.noise).max(f64::MIN_POSITIVE);
            beta = window::beta_for(0.1 * (self.noise / (tones * buckets as f64)).sqrt());
        }
        let stream = VERIFY_STREAM + u64::from(self.attempt) - 1;
        window_hash(self.run, buckets, beta, stream)
    }

    /// The hash that verifies, measured.
    pub(super) fn measured_verifying_hash(&mut self) -> Result<Hash, Error> {
        // What was found may ask for a larger one than was measured ahead.
        let (size, _) = self.verifying();
        if let Some((hash, peak)) =
            self.ahead.take_if(|(hash, _)| !self.noisy && hash.buckets == size)
        {
            self.run.samples_read += 4 * hash.reads() as u64;
            self.run.peak = self.run.peak.max(peak);
            return Ok(hash);
        }
        let mut hash = self.verifying_hash();
        hash.measure(self.run, 0)?;
        Ok(hash)
    }

    /// Measures a hash with a fresh permutation, unless there is one from which everything known has
    /// been peeled, and counts the buckets that the answer does not explain. Returns (buckets,
    /// unexplained, least amplitude that would have shown). `sizes` are those of the known, also after
    /// it.
    fn verify(
        &mut self,
        witness: Option<Hash>,
        sizes: &mut Sizes,
    ) -> Result<(u64, u64, f64), Error> {
        // Without a comb, noisy values are improved by these samples too.
        let kept = self.noisy && self.comb.is_none();
        let hash = match witness {
            Some(hash) => hash,
            None => {
                let mut hash = self.measured_verifying_hash()?;
                let begin = if kept { Hash::begin_peeling } else { Hash::begin_last_peeling };
                self.peel_all(&mut hash, begin);
                hash
            }
        };
        let buckets = hash.buckets;
        self.run.clock.lap(Stage::Peel);
        let mut limit = self.limit(&hash, hash.lanes());
        if self.noisy {
            // The values carry their own error, noise/(samples that gave them), into the four lanes;
            // an exponential variable exceeds 20 times its mean once in 5e8.
            let read = match self.comb.as_ref().or(self.windows.first()) {
                Some(h) => (h.lanes() * h.buckets) as f64,
                None => 1.0,
            };
            let shared = 1.0 + self.known.len() as f64 / buckets as f64;
            limit += 4.0 * 20.0 * shared * self.noise / read;
        }
        let mut left = hash.energy.iter().filter(|e| **e > limit).count() as u64;
        // The window weighs its ends down, but no sample anywhere can exceed the sum of all.
        let sum = sizes.sum * (1.0 + 1e-9);
        let noise = self.noise * (20.0 + (4.0 * buckets as f64).ln());
        left += u64::from(self.run.peak.sqrt() > sum + noise.sqrt() + ROUNDING * self.power.sqrt());
        let shows = shows(self.floor(&hash), limit, hash.lanes(), self.sigmas) / LEAST_GAIN;
        if left == 0 && kept {
            // Its samples have been paid for: let them improve the values.
            self.windows.push(hash);
            self.polish();
            *sizes = self.known.sizes();
        } else {
            hash.recycle(self.run);
        }
        Ok((buckets as u64, left, shows))
    }
}
