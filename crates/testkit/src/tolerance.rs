//! Norms, and the one place where "close enough" is defined.
//!
//! Everything is relative L2 and scaled by the machine epsilon ε; no test has a tolerance of its
//! own.
//!
//! | what is compared | bound on the error |
//! |---|---|
//! | one dense DFT with another | ‖Δ‖₂ ≤ 4 ε √(log₂ n + 1) ‖X‖₂ ([`dense`]) |
//! | a naive DFT with anything | ‖Δ‖₂ ≤ 4 ε √n ‖X‖₂ ([`naive`]): its sums are n terms long |
//! | an exact sparse coefficient | \|Δa\| ≤ 10⁻⁹ max(\|a\|, rms of the coefficients) ([`EXACT`]) |
//! | a coefficient in noise | \|Δa\| ≤ 2 σ √(ln(count/10⁻⁹)/m) ([`noisy`]) |
//!
//! In the last line m is the number of samples read (for `vote` and `comb-vote`, whose flat windows
//! weigh them unevenly, that of a plain mean as good as theirs). The mean of m samples of white noise is a
//! complex Gaussian of variance σ²/m, and P(\|z\| > c) = e^{-c²} for one of unit variance, so
//! that √(ln(count/p)) bounds the largest of `count` of them with probability 1-p. The factor 2
//! lets an estimator use a quarter of what it has read; the rest located and tested.

use crate::C64;

/// Relative accuracy of a coefficient of an exactly sparse signal.
pub const EXACT: f64 = 1e-9;

/// Probability that the bound of [`noisy`] is exceeded by an efficient estimator.
pub const TAIL: f64 = 1e-9;

/// By how much an estimate may be worse than the mean over all samples that were read.
pub const INEFFICIENCY: f64 = 2.0;

/// ‖x‖₂.
pub fn norm(x: &[C64]) -> f64 {
    x.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt()
}

/// ‖x - y‖₂ / ‖y‖₂, or ‖x‖₂ if y is zero.
pub fn relative_l2(x: &[C64], y: &[C64]) -> f64 {
    assert_eq!(x.len(), y.len(), "vectors of different lengths");
    let delta: f64 = x.iter().zip(y).map(|(a, b)| (a - b).norm_sqr()).sum::<f64>().sqrt();
    let scale = norm(y);
    if scale > 0.0 { delta / scale } else { delta }
}

/// Relative L2 accuracy of a fast DFT of n points.
pub fn dense(n: usize) -> f64 {
    4.0 * f64::EPSILON * ((n.max(1) as f64).log2() + 1.0).sqrt()
}

/// Relative L2 accuracy of a DFT by its definition.
pub fn naive(n: usize) -> f64 {
    4.0 * f64::EPSILON * (n.max(1) as f64).sqrt()
}

/// Largest error of `count` amplitudes estimated from m samples with noise σ.
pub fn noisy(sigma: f64, m: f64, count: f64) -> f64 {
    INEFFICIENCY * sigma * ((count.max(1.0) / TAIL).ln() / m.max(1.0)).sqrt()
}

/// Asserts that two spectra agree to a relative L2 tolerance.
#[track_caller]
pub fn assert_close(x: &[C64], y: &[C64], tolerance: f64, what: &str) {
    let error = relative_l2(x, y);
    // Negated so that NaN fails.
    assert!(error <= tolerance, "{what}: relative L2 error {error:e} exceeds {tolerance:e}");
}
