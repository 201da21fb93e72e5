//! The dense FFT and its largest outputs.
//!
//! When: short signals, spectra that are not sparse, and as the last resort of every retry.
//! Cost: reads all n samples, n log n operations, one buffer of n values. The tables and buffers of short
//! transforms are kept.
//! Outputs count as coefficients when they stand above the noise floor, which is a median power of
//! outputs, with the false-alarm probability that was asked for; the k largest are kept. Where exactly
//! k are asked for they are the k largest, noise or not.

use super::{Answer, Run};
use crate::certificate::{Certificate, Verdict};
use crate::dense::{SignalBuffer, Workspace, buffer, transform};
use crate::plan::keep_largest;
use crate::problem::{Algorithm, Noise, Problem};
use crate::spectrum::Peak;
use crate::stages::Stage;
use crate::{Complex, Error};

/// Longest transform whose buffers, 32 MiB then, are kept for the next one: the system takes as long to hand out new ones as half
/// of the transform does.
const KEPT: u64 = 1 << 20;

/// Buffers of short transforms, kept between them.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    samples: Option<SignalBuffer<f64>>,
    work: Workspace<f64>,
    ranks: Ranks,
}

/// Runs the dense transform; `reason` says why it replaces another algorithm.
pub(crate) fn run(run: &mut Run<'_>, reason: Option<String>) -> Result<Answer, Error> {
    let problem = &run.plan.problem;
    let n = problem.n;
    let mut buffers = std::mem::take(&mut run.workspace.dense);
    let mut x = match buffers.samples.take() {
        Some(kept) if kept.len() as u64 == n => kept,
        _ => buffer(n)?,
    };
    run.signal.read_range(0, &mut x)?;
    run.samples_read += n;
    run.clock.lap(Stage::Permute);
    let mut energy = energy_of(&x);
    let mut scale = 1.0;
    // A sum of squares in the middle of the range proves that every sample is a number and no square
    // that matters has vanished.
    if !(1e-200..1e200).contains(&energy) {
        if let Some(t) = x.iter().position(|v| !(v.re.is_finite() && v.im.is_finite())) {
            return Err(non_finite(t as u64, x[t]));
        }
        // A power of two brings very small or large samples back without rounding.
        let largest = x.iter().fold(0.0f64, |m, v| m.max(v.re.abs()).max(v.im.abs()));
        if largest > 0.0 && !(1e-100..1e100).contains(&largest) {
            scale = 2f64.powi(-(largest.log2().round() as i32).clamp(-1000, 1000));
            x.iter_mut().for_each(|v| *v *= scale);
            energy = energy_of(&x);
        }
    }
    transform(run.plan.dense(), &mut x, &mut buffers.work);
    if run.signal.is_real() {
        symmetrise(&mut x);
    }
    let total = energy_of(&x);
    if !(energy.is_finite() && total.is_finite()) {
        return Err(Error::Overflow { limit: (f64::MAX / n as f64).sqrt() / n as f64 });
    }
    run.clock.lap(Stage::Dense);

    // Rounding of the transform leaves about ε√log n of the energy spread over the outputs, more
    // where n is prime; what lies below a generous multiple of it is zero.
    let log = (n.max(2) as f64).log2();
    let rounding = (64.0 * f64::EPSILON).powi(2) * log * energy;
    let mut threshold = rounding;
    let mut noise_power = 0.0;
    if problem.noise != Noise::Exact && n >= 64 {
        let ranks = &mut buffers.ranks;
        ranks.count(&x, total);
        noise_power = floor(problem, ranks, &x);
        if problem.required().is_none() {
            threshold = threshold.max(noise_power * (n as f64 / problem.failure).ln());
        }
        if let Some(k) = problem.k().filter(|&k| k < n) {
            threshold = threshold.max(ranks.not_above((n - k) as usize));
        }
    }
    let mut peaks: Vec<Peak> = x
        .iter()
        .enumerate()
        .filter(|(_, v)| v.norm_sqr() > threshold)
        .map(|(f, &value)| Peak { index: f as u64, value: value / scale })
        .collect();
    let found = peaks.len();
    if let Some(k) = problem.k() {
        keep_largest(&mut peaks, k);
    }
    let in_order = peaks.len() == found;
    if peaks.iter().any(|p| !p.value.norm().is_finite()) {
        return Err(Error::Overflow { limit: f64::MAX / (2.0 * n as f64) });
    }
    if n <= KEPT {
        buffers.samples = Some(x);
        run.workspace.dense = buffers;
    }
    let kept: f64 = peaks.iter().map(|p| (p.value * scale).norm_sqr()).sum();
    run.clock.lap(Stage::Locate);

    let certificate = Certificate {
        verdict: Verdict::Dense,
        reason,
        rest_limit: 0.0,
        bins_tested: n,
        bins_unexplained: 0,
        residual_energy: if total > 0.0 { (1.0 - kept / total).max(0.0) } else { 0.0 },
        noise_floor: (noise_power / n as f64).sqrt() / scale,
        detection_limit: threshold.sqrt() / n as f64 / scale,
        failure_probability: if problem.required().is_some() { 0.0 } else { problem.failure },
        attempts: 1,
    };
    Ok(Answer { algorithm: Algorithm::Dense, peaks, in_order, certificate })
}

/// E|X|² of the noise. If k outputs may be coefficients, it is the median of the others, which is correct
/// to 4 dB whether they are there or not, and exact for few; 0 where too few are left to measure it.
fn floor(problem: &Problem, ranks: &mut Ranks, x: &[Complex<f64>]) -> f64 {
    /// Outputs below the median of the noise, at least: with 32 it is known to 0.8 dB.
    const LEAST: usize = 32;
    let bound = problem.k().filter(|_| problem.required().is_none()).unwrap_or(0);
    let rank = (x.len() as u64 - bound.min(x.len() as u64)) as usize / 2;
    if rank < LEAST {
        return 0.0;
    }
    // |X|² of white noise is below its mean m times -ln(1 - p) with probability p.
    let share = match bound {
        0 => 0.5,
        _ => rank as f64 / x.len() as f64,
    };
    ranks.power(x, rank) / -(1.0 - share).ln()
}

/// Outputs counted by the leading bits of their powers, which are in the same order as these: the output of
/// any rank is then looked for among few.
#[derive(Debug, Default)]
struct Ranks {
    counts: Vec<usize>,
    /// Leading bits of the powers in the lowest class, and of all that are less.
    lowest: u64,
    few: Vec<f64>,
}

impl Ranks {
    /// Bits that do not lead: sixteen classes to an octave.
    const LOW: u32 = 48;
    /// Classes of 64 octaves.
    const CLASSES: usize = 64 * 16;

    fn class(lowest: u64, v: Complex<f64>) -> usize {
        let leading = v.norm_sqr().to_bits() >> Self::LOW;
        (leading.max(lowest) - lowest).min(Self::CLASSES as u64 - 1) as usize
    }

    /// Counts outputs with this energy.
    fn count(&mut self, x: &[Complex<f64>], energy: f64) {
        self.lowest = (energy.to_bits() >> Self::LOW).saturating_sub(Self::CLASSES as u64 - 1);
        self.counts.clear();
        self.counts.resize(Self::CLASSES, 0);
        for &v in x {
            self.counts[Self::class(self.lowest, v)] += 1;
        }
    }

    /// The class of the output of this rank, the weakest first, and how many are in those below it.
    fn find(&self, rank: usize) -> (usize, usize) {
        let mut below = 0;
        for (class, count) in self.counts.iter().enumerate() {
            if rank < below + count {
                return (class, below);
            }
            below += count;
        }
        (Self::CLASSES, below)
    }

    /// The power of the output of this rank.
    fn power(&mut self, x: &[Complex<f64>], rank: usize) -> f64 {
        let (class, below) = self.find(rank);
        self.few.clear();
        let those = x.iter().filter(|v| Self::class(self.lowest, **v) == class);
        self.few.extend(those.map(|v| v.norm_sqr()));
        *self.few.select_nth_unstable_by(rank - below, f64::total_cmp).1
    }

    /// A power that is less than that of the output of this rank, but not by much where that matters; or both
    /// are zero.
    fn not_above(&self, rank: usize) -> f64 {
        match self.find(rank).0 as u64 {
            0 => 0.0,
            class => f64::from_bits((self.lowest + class) << Self::LOW).next_down(),
        }
    }
}

/// Σ|x|², in four sums side by side.
fn energy_of(x: &[Complex<f64>]) -> f64 {
    let (four, rest) = x.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in four {
        for (sum, v) in sums.iter_mut().zip(four) {
            *sum += v.norm_sqr();
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|v| v.norm_sqr()).sum::<f64>()
}

/// Makes X\[n-f\] the conjugate of X\[f\] to the last bit, as real samples have it.
fn symmetrise(x: &mut [Complex<f64>]) {
    x[0].im = 0.0;
    let n = x.len();
    for f in 1..=n / 2 {
        let mean = 0.5 * (x[f] + x[n - f].conj());
        x[f] = mean;
        x[n - f] = mean.conj();
    }
}

/// The error for a sample that is not a number.
pub(crate) fn non_finite(index: u64, value: Complex<f64>) -> Error {
    Error::NonFinite { index, value: value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_ranked_by_power() {
        let noise = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64 / u64::MAX as f64;
        let spread = |i: u64| 10f64.powf(60.0 * noise(i) - 40.0);
        let zeros = |i: u64| if i < 700 { 0.0 } else { noise(i) };
        let alike = |i: u64| if i.is_multiple_of(3) { 2.0 } else { 1.0 };
        let kinds: [&dyn Fn(u64) -> f64; 5] = [&noise, &spread, &zeros, &alike, &|_| 0.0];
        let mut ranks = Ranks::default();
        for size in kinds {
            let x: Vec<Complex<f64>> = (0..1000).map(|i| Complex::new(0.0, size(i))).collect();
            let mut powers: Vec<f64> = x.iter().map(|v| v.norm_sqr()).collect();
            powers.sort_unstable_by(f64::total_cmp);
            ranks.count(&x, energy_of(&x));
            for rank in [0, 1, 333, 500, 998, 999] {
                let power = powers[rank];
                assert_eq!(ranks.power(&x, rank), power);
                let less = ranks.not_above(rank);
                assert!(less < power || power == 0.0 && less == 0.0, "{less} {power}");
                // Weaker ones than 2^-60 of the energy are not told apart.
                assert!(less > 0.94 * power || power <= 1e-18 * energy_of(&x), "{less} {power}");
            }
        }
    }
}
