//! peel: subtract what is known from the bins of a hash.
//!
//! residual\[b\]\[D + τ\] -= a·e^{2πi f(D+τ)/n}·gain(b, f) in the bins that f reaches.

use crate::samples::Line;
use crate::stages::hash::{Hash, Reach, tone};
use crate::stages::locate::line_energy;
use crate::stages::unity::Unity;
use crate::{Complex, cpu};

/// A frequency, its amplitude a = X/n and its phasor e^{2πif/n}.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Coefficient {
    pub(crate) f: u64,
    pub(crate) a: Complex<f64>,
    pub(crate) z: Complex<f64>,
}

/// Subtracts amplitude a at the coefficient's frequency from the residual of a hash, and updates
/// the energies of the bins reached where `energies` says so.
#[inline]
pub(crate) fn peel(
    hash: &mut Hash,
    unity: Unity,
    f: u64,
    z: Complex<f64>,
    a: Complex<f64>,
) -> Reach {
    let reach = hash.reach(f);
    for j in 0..hash.offsets.len() {
        let line = tone(unity, f, z, a, hash.offsets[j]);
        for (b, gain) in reach.iter() {
            subtract(&mut hash.residual[j * hash.buckets + b], &line, gain);
        }
    }
    reach
}

/// As [`peel`], keeping the energies of the bins current.
pub(crate) fn peel_and_sum(
    hash: &mut Hash,
    unity: Unity,
    f: u64,
    z: Complex<f64>,
    a: Complex<f64>,
) {
    let reach = peel(hash, unity, f, z, a);
    for (b, _) in reach.iter() {
        let lines = (0..hash.offsets.len()).map(|j| &hash.residual[j * hash.buckets + b]);
        hash.energy[b] = lines.map(line_energy).sum();
    }
}

#[inline(always)] // eight multiply-adds
fn subtract(from: &mut Line, line: &Line, gain: f64) {
    for tau in 0..4 {
        from.re[tau] = cpu::fma::<false>(-gain, line.re[tau], from.re[tau]);
        from.im[tau] = cpu::fma::<false>(-gain, line.im[tau], from.im[tau]);
    }
}
