//! The dense FFT and its largest outputs.
//!
//! When: short signals, spectra that are not sparse, and as the last resort of every retry.
//! Cost: reads all n samples, n log n operations, one buffer of n values. The tables and buffers of short
//! transforms are kept.
//! With k unknown, outputs count as coefficients when they stand above the noise floor, which is
//! the median power of all outputs, with the false-alarm probability that was asked for.

use super::{Answer, Run};
use crate::certificate::{Certificate, Verdict};
use crate::dense::{SignalBuffer, Workspace, buffer, transform};
use crate::plan::keep_largest;
use crate::problem::{Algorithm, Noise};
use crate::spectrum::Peak;
use crate::stages::Stage;
use crate::{Complex, Error};

/// Longest transform whose buffers are kept for the next one.
const KEPT: u64 = 1 << 18;

/// Buffers of short transforms, kept between them.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    samples: Option<SignalBuffer<f64>>,
    work: Workspace<f64>,
    powers: Vec<f64>,
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
        // E|X|² of white noise is its median over ln 2.
        let powers = &mut buffers.powers;
        powers.clear();
        powers.extend(x.iter().map(|v| v.norm_sqr()));
        let middle = powers.len() / 2;
        let median = *powers.select_nth_unstable_by(middle, f64::total_cmp).1;
        noise_power = median / std::f64::consts::LN_2;
        if problem.k().is_none() {
            threshold = threshold.max(noise_power * (n as f64 / problem.failure).ln());
        }
    }
    let mut peaks: Vec<Peak> = x
        .iter()
        .enumerate()
        .filter(|(_, v)| v.norm_sqr() > threshold)
        .map(|(f, &value)| Peak { index: f as u64, value: value / scale })
        .collect();
    if let Some(k) = problem.k() {
        keep_largest(&mut peaks, k);
    }
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
        bins_tested: n,
        bins_unexplained: 0,
        residual_energy: if total > 0.0 { (1.0 - kept / total).max(0.0) } else { 0.0 },
        noise_floor: (noise_power / n as f64).sqrt() / scale,
        detection_limit: threshold.sqrt() / n as f64 / scale,
        failure_probability: if problem.k().is_some() { 0.0 } else { problem.failure },
        attempts: 1,
    };
    Ok(Answer { algorithm: Algorithm::Dense, peaks, in_order: false, certificate })
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
