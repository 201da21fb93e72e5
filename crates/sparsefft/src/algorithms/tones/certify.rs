//! certify: what must hold before tones are called certified.
//!
//! (a) Every bin of the first comb is explained to its floor.
//! (b) A comb of another stride, which took no part in the decoding, less the tones: its largest
//!     bin, its mean and its spread are those of noise. The spread of the bins' energies is what
//!     tells a crowd of tones, too many for the bins, from noise: energies of noise over M lanes
//!     scatter by 1/√M, those of tones by more.
//! (c) Every tone stands in that comb by itself: without it, its amplitude would be left there.
//! (d) No tone bends: what is left of its bins does not follow the second derivative of the
//!     response, as a drift or a second tone nearer than the resolution would.
//! (e) No two tones are nearer than [`RESOLVED`] bins.

use super::comb::{Comb, Tone};
use super::locate::LEAK;
use super::refine::Floor;
use crate::Complex;
use crate::cpu::wide::F4;
use crate::stages::certify::threshold;

/// Tones nearer than this many bins are a cluster.
pub(crate) const RESOLVED: f64 = 2.75;

/// What the verification comb says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verification {
    /// Bins above the threshold.
    pub(crate) unexplained: u64,
    /// Bins compared.
    pub(crate) tested: u64,
    /// Relative variance of the energies times the lanes: 1 for white noise.
    pub(crate) spread: f64,
    /// Whether mean and spread are those of noise.
    pub(crate) quiet: bool,
    /// Smallest amplitude that would have been seen.
    pub(crate) limit: f64,
}

/// Compares the residual of a verification comb with noise of power s² per lane, which the first
/// comb knows with the relative error `uncertainty`.
pub(crate) fn verify(
    comb: &Comb,
    floor: &Floor,
    z: f64,
    skip: &[bool],
    uncertainty: f64,
) -> Verification {
    let lanes = comb.lanes();
    let m = lanes as f64;
    let leak = LEAK * m * floor.leak2;
    let limit = (floor.s2 * threshold(lanes, z)).max(leak);
    let (mut unexplained, mut tested, mut sum, mut square) = (0, 0u64, 0.0, 0.0);
    for (b, &e) in comb.energy.iter().enumerate() {
        if !skip.is_empty() && skip[b] {
            continue;
        }
        tested += 1;
        unexplained += u64::from(e > limit);
        sum += e;
        square += e * e;
    }
    let count = (tested as f64).max(1.0);
    let average = sum / count;
    let mean = average / m;
    let variance = (square / count - average * average).max(0.0);
    let spread = if average > 0.0 { variance / (average * average) * m } else { 1.0 };
    // Neighbouring bins share noise, so that about half of them count.
    let independent = 0.5 * count;
    let mean_error = (1.0 / (m * independent)).sqrt() + uncertainty;
    let spread_error = ((2.0 + 6.0 / m) / independent).sqrt();
    let noisy = floor.white;
    // Less scatter than that of noise is no noise either: a sweep fills all bins evenly.
    let even = spread > 0.95 - 7.0 * spread_error;
    let uneven = spread > 1.05 + 7.0 * spread_error;
    let quiet = !noisy || (mean < floor.s2 * (1.02 + 6.0 * mean_error) && even && !uneven);
    // Half way between two bins the response is lowest.
    let (edge, _) = comb.window.response::<false>(F4::splat(0.5));
    Verification { unexplained, tested, spread, quiet, limit: (limit / m).sqrt() / edge.0[0] }
}

/// How a tone stands in the verification comb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there.
    Confirmed,
    /// It is not: a ghost of the decoding.
    Absent,
    /// Too weak to tell.
    Weak,
}

/// Confirms one tone, which is peeled from the comb like all others.
pub(crate) fn confirm(comb: &Comb, tone: &Tone, floor: &Floor) -> Standing {
    let p = comb.geometry.position(tone.nu);
    let foot = comb.window.foot::<false>(p, 2);
    let mut y = [Complex::ZERO; 4];
    comb.project(tone.nu, foot.first, 4, &mut y);
    let gain: f64 = foot.gain[..4].iter().map(|g| g * g).sum();
    let left: Complex<f64> = (0..4).map(|i| y[i] * foot.gain[i]).sum::<Complex<f64>>() / gain;
    let a = tone.amplitude;
    // Present: left ≈ 0; absent: left ≈ -a. Half way is the border.
    let share = 1.0 + (left * a.conj()).re / a.norm_sqr();
    // Correlated bins: the sum over four has at most 1.6 times the noise of one.
    let std = (1.6 * floor.s2.max(floor.leak2) / (2.0 * comb.lanes() as f64)).sqrt();
    if share < 0.5 {
        Standing::Absent
    } else if 0.5 * a.norm() < 5.0 * std {
        Standing::Weak
    } else {
        Standing::Confirmed
    }
}
