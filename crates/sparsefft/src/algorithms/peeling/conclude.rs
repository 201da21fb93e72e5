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
            match problem.required() {
                Some(k) if (self.known.len() as u64) < k => {
                    short = !self.known.is_empty();
                    reason = Some(format!(
                        "only {} of the {k} coefficients stand above the noise",
                        self.known.len()
                    ));
                }
                _ if self.known.is_empty() => {
                    reason = Some("nothing stands above the noise".to_string());
                }
                _ => {}
            }
        }
        if reason.is_none() && self.power == 0.0 && problem.k().is_none() {
            reason = Some("every sample that was read is zero".to_string());
        }
        let (mut refuted, mut rest_limit) = (false, 1.0);
        if reason.is_none() {
            (reason, rest_limit) = self.examine(&sizes)?;
            refuted = reason.is_some();
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
            rest_limit,
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
            _ if refuted => Outcome::Refuted(answer),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Run;
    use crate::cpu::ticks::Stopwatch;
    use crate::plan::{Plan, Workspace};
    use crate::stages::certify::threshold;
    use crate::stages::peel::Coefficient;
    use crate::stages::unity::Unity;
    use crate::{Complex, Fallback, Noise, Problem, Spectrum};
    use testkit::{Rng, Signal, Tone, generate};

    const SIGMA: f64 = 0.1;

    fn samples(n: u64, k: u64, sigma: f64) -> Vec<Complex<f64>> {
        Signal::new(n, generate::random(&mut Rng::new(5), n, k)).noise(sigma, 3).samples()
    }

    fn problem(n: u64) -> Problem {
        Problem::new(n).fallback(Fallback::Never)
    }

    fn solve(problem: Problem, x: &[Complex<f64>]) -> Spectrum {
        Plan::new(problem).unwrap().transform(x).unwrap()
    }

    fn mean_power(x: &[Complex<f64>]) -> f64 {
        x.iter().map(|v| v.norm_sqr()).sum::<f64>() / x.len() as f64
    }

    /// Bins, algorithm and limits of certified answers; limits as recorded, to a hundredth.
    #[test]
    fn certified_answers_say_what_was_tested() {
        for (n, k, sigma, given, bins, limit) in [
            (1u64 << 16, 8u64, 0.0, 8, 48, 3.4162e-8),
            (1 << 16, 100, 0.0, 100, 288, 1.2314e-7),
            (65_537, 8, 0.0, 8, 96, 3.1818e-8),
            (60_000, 8, 0.0, 8, 64, 3.3617e-8),
            (1 << 16, 8, SIGMA, 8, 48, 0.073_111),
            (1 << 16, 8, SIGMA, 0, 272, 0.026_401),
            (1 << 16, 100, SIGMA, 100, 544, 0.019_135),
            (65_537, 8, SIGMA, 8, 160, 0.067_408),
            (65_537, 8, SIGMA, 0, 544, 0.032_354),
            (60_000, 8, SIGMA, 8, 64, 0.074_210),
        ] {
            let x = samples(n, k, sigma);
            let p = if given > 0 { problem(n).sparsity(given) } else { problem(n) };
            let s = solve(p, &x);
            let c = s.certificate();
            let what = format!("{n} {k} {sigma} {given}: {c:?}");
            assert!(c.is_certified() && c.reason.is_none() && c.attempts == 1, "{what}");
            assert_eq!((c.bins_tested, c.bins_unexplained), (bins, 0), "{what}");
            assert_eq!(s.peaks().len() as u64, k, "{what}");
            assert!((c.detection_limit / limit - 1.0).abs() < 0.01, "{what}");
            assert_eq!(c.failure_probability, 1e-6);
            let algorithm = if sigma > 0.0 { Algorithm::Robust } else { Algorithm::Exact };
            assert_eq!(s.report().algorithm, algorithm, "{what}");
            if sigma > 0.0 {
                // A few hundred samples: 6 % is more than two standard deviations of these draws.
                assert!((c.noise_floor / SIGMA - 1.0).abs() < 0.06, "{what}");
                let share = SIGMA * SIGMA / mean_power(&x);
                assert!((c.residual_energy / share - 1.0).abs() < 0.3, "{what}");
                assert!(c.rest_limit > 0.0 && c.rest_limit < 1e-3, "{what}");
            } else {
                assert_eq!((c.noise_floor, c.residual_energy), (0.0, 0.0), "{what}");
            }
        }
    }

    #[test]
    fn doubtful_answers_say_why() {
        for (n, k, sigma, given, reason, bins, limit) in [
            (1u64 << 16, 8u64, SIGMA, 20, "only 8 of the 20 coefficients", 80, 0.052_912),
            (1 << 16, 100, SIGMA, 112, "only 100 of the 112 coefficients", 544, 0.019_135),
            (65_537, 8, SIGMA, 20, "only 8 of the 20 coefficients", 288, 0.046_572),
            (1 << 16, 0, SIGMA, 8, "only 0 of the 8 coefficients", 2064, 0.381_43),
            (1 << 16, 0, SIGMA, 0, "nothing stands above the noise", 4112, 0.386_27),
            (65_537, 0, SIGMA, 0, "nothing stands above the noise", 544, 0.251_44),
            (1 << 16, 0, 0.0, 0, "every sample that was read is zero", 4112, 0.0),
        ] {
            let x = samples(n, k, sigma);
            let p = if given > 0 { problem(n).exactly(given) } else { problem(n) };
            let s = solve(p, &x);
            let c = s.certificate();
            let what = format!("{n} {k} {sigma} {given}: {c:?}");
            assert!(!c.is_reliable() && c.rest_limit == 1.0, "{what}");
            assert!(c.reason.as_deref().is_some_and(|r| r.starts_with(reason)), "{what}");
            assert_eq!((c.bins_tested, c.bins_unexplained), (bins, 0), "{what}");
            assert_eq!(s.peaks().len() as u64, k, "{what}");
            assert!((c.detection_limit - limit).abs() <= 0.01 * limit, "{what}");
        }
        // A number of coefficients is at most wanted, unless it is named as exact.
        let s = solve(problem(1 << 16).at_most(20), &samples(1 << 16, 8, SIGMA));
        assert!(s.certificate().is_certified() && s.peaks().len() == 8);
        // Silence is an answer where a number was asked for.
        let s = solve(problem(1 << 16).sparsity(8), &samples(1 << 16, 0, 0.0));
        assert!(s.certificate().is_certified() && s.peaks().is_empty());
    }

    /// A frequency half way between two leaks into all: what is found is a part of the energy.
    #[test]
    fn what_is_left_of_a_leaking_tone_is_not_explained() {
        let half = |n: u64| [(0.25 + 0.5 / n as f64, Complex::new(1.0, 0.0))].to_vec();
        let s =
            solve(problem(65_537).sparsity(8), &Signal::off_grid(65_537, half(65_537)).samples());
        let c = s.certificate();
        assert!(!c.is_reliable(), "{c}");
        let reason = c.reason.as_deref().unwrap_or_default();
        assert!(reason.starts_with("an independent hash holds") && c.bins_unexplained > 0, "{c}");
        assert!(reason.contains(&format!(" {} buckets", c.bins_unexplained)), "{c}");
        // Eight frequencies hold 97 % of a power that a window of few samples shows to a third.
        assert!(c.residual_energy > 0.01 && c.residual_energy < 0.5, "{c}");
        let s = solve(
            problem(1 << 16).sparsity(100),
            &Signal::off_grid(1 << 16, half(1 << 16)).samples(),
        );
        let c = s.certificate();
        let reason = c.reason.as_deref().unwrap_or_default();
        assert!(reason.starts_with("some bins stand above the noise, but too little"), "{c}");
        let energy: f64 = s.peaks().iter().map(|p| (p.value / 65_536.0).norm_sqr()).sum();
        assert!((c.residual_energy - (1.0 - energy)).abs() < 1e-3, "{c} {energy}");
    }

    /// A sample larger than all tones together could be, wherever it is read, also where windows weigh least.
    #[test]
    fn no_sample_may_exceed_the_sum_of_the_tones() {
        for (n, sigma, scale) in [
            (1u64 << 16, 0.0, 1.0),
            (1 << 16, 0.0, 1e-12),
            (65_537, 0.0, 1.0),
            (65_537, SIGMA, 1.0),
            (1 << 16, SIGMA, 1.0),
        ] {
            let x: Vec<_> = samples(n, 5, sigma).iter().map(|v| v * scale).collect();
            let plan = Plan::new(problem(n).sparsity(5)).unwrap();
            let read = std::sync::Mutex::new(Vec::new());
            let transform = |wrong: Option<u64>| {
                let source = crate::from_fn(n, |indices: &[u64]| {
                    if wrong.is_none() {
                        read.lock().unwrap().extend_from_slice(indices);
                    }
                    let value = |&t: &u64| {
                        let more = if wrong == Some(t) { 40.0 * scale } else { 0.0 };
                        x[t as usize] + more
                    };
                    Ok(indices.iter().map(value).collect())
                });
                plan.transform(&source).unwrap()
            };
            let first = transform(None);
            assert!(first.certificate().is_certified(), "{}", first.certificate());
            let read = read.lock().unwrap().clone();
            let some = read.iter().step_by(read.len() / 8).chain(&read[read.len() - 4..]);
            for &t in some {
                let s = transform(Some(t));
                let c = s.certificate();
                assert!(c.attempts > 1 || !c.is_reliable(), "{n} {sigma} at {t}: {c}");
            }
        }
    }

    /// Coefficients of real samples are conjugate to the last bit, and real where they have no pair.
    #[test]
    fn real_samples_have_conjugate_coefficients() {
        let n = 1u64 << 16;
        for sigma in [0.0, SIGMA] {
            let x = samples(n, 8, sigma);
            let x: Vec<f64> = (0..n).map(|t| x[t as usize].re + 2.0 - (t % 2) as f64).collect();
            let s = Plan::new(problem(n).sparsity(18)).unwrap().transform(&x).unwrap();
            let c = s.certificate();
            assert!(c.is_certified(), "{c}");
            assert_eq!(s.peaks().len(), 18, "{c}");
            assert!(s.peaks().is_sorted_by_key(|p| p.index));
            for peak in s.peaks() {
                let mirror = s.value((n - peak.index) % n);
                assert_eq!(peak.value, mirror.conj(), "{}", peak.index);
            }
            // What they hold is the power of the samples less that of the noise.
            let energy: f64 = s.peaks().iter().map(|p| (p.value / n as f64).norm_sqr()).sum();
            let power = x.iter().map(|v| v * v).sum::<f64>() / n as f64 - 0.5 * sigma * sigma;
            assert!((energy / power - 1.0).abs() < 0.01, "{energy} of {power}");
            let mean = s.value(0) / n as f64;
            assert!((mean - 1.5).norm() < 0.02 && mean.im == 0.0, "{mean}");
        }
    }

    /// Calls `look` with an engine that has measured nothing and knows nothing.
    fn with_engine(plan: &Plan, x: &[Complex<f64>], look: impl FnOnce(&mut Engine<'_, '_>)) {
        let mut workspace = Workspace::default();
        let mut run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
        let mut engine = Engine::new(&mut run, 6.0, 1);
        look(&mut engine);
        if let Some(comb) = engine.finish() {
            comb.recycle(&mut run);
        }
    }

    fn coefficient(n: u64, f: u64, a: f64) -> Coefficient {
        Coefficient { f, a: Complex::new(a, 0.0), z: Unity::new(n).root(f) }
    }

    /// Without noise a far weaker member of a bin that was doubted stays where the samples hold it, and
    /// goes where they do not.
    #[test]
    fn frequencies_that_a_bin_does_not_need_are_dropped() {
        let (n, bins) = (1u64 << 16, 256u64);
        let plan = Plan::new(problem(n).sparsity(8)).unwrap();
        // Suspects, the scale of all amplitudes, whether chains are there already, and whether there is noise.
        for (suspects, scale, linked, noisy) in [
            (vec![5, 9], 1.0, false, false),
            (vec![5, 9], 1.0, true, false),
            (vec![5, 9], 1e3, false, false),
            (vec![9], 1.0, false, false),
            (vec![], 1.0, false, false),
            (vec![5, 9], 1.0, false, true),
        ] {
            let held = [(5, 1.0), (5 + 3 * bins, 1e-6), (9, 1.0), (9 + 70 * bins, 3e-8)];
            let held = held.map(|(f, a)| (f, scale * a));
            let ghost = (5 + 150 * bins, 2e-8 * scale);
            let tones = held.map(|(f, a)| Tone { f, a: Complex::new(a, 0.0) }).to_vec();
            let x = Signal::new(n, tones).samples();
            with_engine(&plan, &x, |engine| {
                let mut comb = Hash::comb(engine.run, bins as usize);
                comb.measure(engine.run, 0).unwrap();
                engine.power = comb.total / comb.lanes() as f64;
                engine.comb = Some(comb);
                engine.noisy = noisy;
                for (f, a) in held.into_iter().chain([ghost]) {
                    engine.known.push(coefficient(n, f, a));
                }
                if linked {
                    engine.known.link(Some(bins as usize));
                }
                engine.suspects.clone_from(&suspects);
                let sizes = engine.prune().unwrap();
                let mut left: Vec<u64> = engine.known.iter().map(|c| c.f).collect();
                let mut expected: Vec<u64> = held.iter().map(|(f, _)| *f).collect();
                if noisy || !suspects.contains(&5) {
                    expected.push(ghost.0);
                }
                left.sort_unstable();
                expected.sort_unstable();
                let what = format!("{suspects:?} {scale} {linked} {noisy}");
                assert_eq!(left, expected, "{what}");
                assert_eq!(sizes, engine.known.sizes(), "{what}");
                // Chains cost time, and serve those bins alone.
                assert_eq!(engine.known.linked(), !noisy && !suspects.is_empty(), "{what}");
            });
        }
    }

    #[test]
    fn the_weakest_member_of_a_bin_is_weaker_than_the_strongest_by_the_factor() {
        let (n, bins) = (1u64 << 16, 256u64);
        let plan = Plan::new(problem(n).sparsity(8)).unwrap();
        with_engine(&plan, &[], |engine| {
            for (i, a) in [3.0, 4.0, 2.0].into_iter().enumerate() {
                engine.known.push(coefficient(n, 7 + bins * i as u64, a));
            }
            engine.known.link(Some(bins as usize));
            assert_eq!(engine.weakest_member(7, 0.26), Some(7 + 2 * bins));
            assert_eq!(engine.weakest_member(7, 0.25), None);
            assert_eq!(engine.weakest_member(8, 1.0), None);
        });
    }

    /// What was measured ahead serves where it is as large as it should be, and no noise asks for another
    /// shape; its samples then count as read.
    #[test]
    fn the_hash_measured_ahead_serves_where_it_is_the_one_needed() {
        let n = 1u64 << 16;
        let x = samples(n, 8, 0.0);
        let plan = Plan::new(problem(n)).unwrap();
        for (noisy, more, serves) in
            [(false, false, true), (false, true, false), (true, false, false), (true, true, false)]
        {
            with_engine(&plan, &x, |engine| {
                engine.known.push(coefficient(n, 1, 1.0));
                (engine.noisy, engine.noise, engine.power) = (noisy, 0.1, 1.1);
                let (buckets, beta) = engine.verifying();
                // Told from another by its permutation.
                let mut hash = window_hash(engine.run, buckets, beta, 7);
                hash.measure(engine.run, 0).unwrap();
                let (reads, start) = (hash.reads() as u64, hash.walk(0));
                engine.ahead = Some((hash, 1e6));
                (engine.run.samples_read, engine.run.peak) = (100, 0.0);
                if more {
                    (1..300).for_each(|f| _ = engine.known.push(coefficient(n, 1 + f, 1.0)));
                }
                let used = engine.measured_verifying_hash().unwrap();
                let what = format!("{noisy} {more}");
                assert_eq!(used.walk(0) == start, serves, "{what}");
                assert_eq!(engine.ahead.is_none(), serves, "{what}");
                assert_eq!(engine.run.peak == 1e6, serves, "{what}");
                let read = if serves { reads } else { used.reads() as u64 };
                assert_eq!(engine.run.samples_read, 100 + 4 * read, "{what}");
                assert_eq!(used.buckets > buckets, more, "{what}");
            });
        }
    }

    /// Buckets above what noise and the errors of values explain, and samples above what all tones and noise
    /// can make, are counted; those as little below are not, and may then improve noisy values.
    #[test]
    fn what_verifying_lets_pass_ends_where_it_says() {
        /// Relative distance from a limit.
        const LITTLE: f64 = 1e-10;
        let n = 1u64 << 16;
        let plan = Plan::new(problem(n).sparsity(8)).unwrap();
        let x = samples(n, 8, 0.1);
        // Tones of this amplitude, noise, and whether there is a comb.
        for (amplitude, tones, noise, combed) in [
            (1.0, 3, 0.0, true),
            (1.0, 3, 0.0, false),
            (1e-12, 3, 0.0, true),
            (0.0, 0, 0.0, true),
            (1.0, 40, 0.01, true),
            (1.0, 40, 0.01, false),
            (1e-12, 40, 1e-26, true),
        ] {
            for (loud, high) in [(false, false), (false, true), (true, false), (true, true)] {
                with_engine(&plan, &x, |engine| {
                    let mut first = if combed {
                        Hash::comb(engine.run, 64)
                    } else {
                        window_hash(engine.run, 64, plan::VERIFY_BETA, 7)
                    };
                    first.measure(engine.run, 0).unwrap();
                    first.begin_peeling();
                    let read = (first.lanes() * first.buckets) as f64;
                    if combed {
                        engine.comb = Some(first);
                    } else {
                        engine.windows.push(first);
                    }
                    let mut witness = window_hash(engine.run, 16, plan::VERIFY_BETA, 8);
                    witness.measure(engine.run, 0).unwrap();
                    witness.begin_peeling();
                    (1..=tones)
                        .for_each(|f| _ = engine.known.push(coefficient(n, 99 * f, amplitude)));
                    engine.known.link(None);
                    (engine.noisy, engine.noise) = (noise > 0.0, noise);
                    engine.power =
                        if tones > 0 { amplitude * amplitude * tones as f64 } else { 1.0 };

                    let near = |above: bool| if above { 1.0 + LITTLE } else { 1.0 - LITTLE };
                    let (known, buckets) = (tones as f64, witness.buckets as f64);
                    let errors = 80.0 * (1.0 + known / buckets) * noise / read;
                    let limit = engine.floor(&witness) * threshold(4, 6.0) + errors;
                    witness.energy.fill(0.0);
                    witness.energy[3] = limit * near(loud);
                    let spread = noise * (20.0 + (4.0 * buckets).ln());
                    let rounding = 1e-13 * engine.power.sqrt();
                    let most = known * amplitude * (1.0 + 1e-9) + spread.sqrt() + rounding;
                    engine.run.peak = (most * near(high)).powi(2);

                    let what = format!("{amplitude} {tones} {noise} {combed} {loud} {high}");
                    let expected = (limit.sqrt() + 6.0 * engine.floor(&witness).sqrt()) / 0.8;
                    let mut sizes = engine.known.sizes();
                    let windows = engine.windows.len();
                    let (tested, left, shown) = engine.verify(Some(witness), &mut sizes).unwrap();
                    assert_eq!((tested, left), (16, u64::from(loud) + u64::from(high)), "{what}");
                    assert!((shown / expected - 1.0).abs() < 1e-9, "{what}: {shown} {expected}");
                    let kept = noise > 0.0 && !combed && left == 0;
                    assert_eq!(engine.windows.len(), windows + usize::from(kept), "{what}");
                    assert_eq!(sizes, engine.known.sizes(), "{what}");
                });
            }
        }
    }

    #[test]
    fn what_shows_is_above_the_limit_by_the_noise() {
        // √9 + 2·√4 over √16.
        assert_eq!(shows(4.0, 9.0, 16, 2.0), 1.75);
    }

    /// The hash that verifies is the larger, the weaker the weakest coefficient is.
    #[test]
    fn weak_coefficients_are_verified_by_more_buckets() {
        let n = 1u64 << 18;
        let mut bins = Vec::new();
        for weakest in [1.0, 0.2] {
            let mut tones = generate::random(&mut Rng::new(6), n, 4);
            let size = tones[2].a.norm();
            tones[2].a *= weakest / size;
            let x = Signal::new(n, tones).noise(0.3, 3).samples();
            let s = solve(problem(n).sparsity(4).noise(Noise::Snr(10.0)), &x);
            let c = s.certificate();
            assert!(c.is_certified() && s.peaks().len() == 4, "{c}");
            bins.push(c.bins_tested);
        }
        assert!(bins[1] > bins[0], "{bins:?}");
    }
}
