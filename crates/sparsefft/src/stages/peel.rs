//! peel: subtract what is known from the bins of a hash.
//!
//! residual\[b\]\[D + τ\] -= a·e^{2πi f(D+τ)/n}·gain(b, f) in the bins that f reaches.

use crate::Complex;
use crate::cpu::{dispatch, fma};
use crate::stages::hash::{Hash, Reach, tone};
use crate::stages::locate::line_energy;
use crate::stages::unity::Unity;

/// A frequency, its amplitude a = X/n and its phasor e^{2πif/n}.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Coefficient {
    pub(crate) f: u64,
    pub(crate) a: Complex<f64>,
    pub(crate) z: Complex<f64>,
}

dispatch! {
    /// Subtracts every coefficient from the residual of a hash. Energies are not updated.
    pub(crate) fn peel_all(hash: &mut Hash, unity: Unity, known: &[Coefficient]) = peel_all_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn peel_all_body<const FMA: bool>(hash: &mut Hash, unity: Unity, known: &[Coefficient]) {
    for c in known {
        peel_body::<FMA>(hash, unity, c);
    }
}

#[inline(always)] // must inherit the instruction set of its caller
fn peel_body<const FMA: bool>(hash: &mut Hash, unity: Unity, c: &Coefficient) -> Reach {
    let reach = hash.reach_wide::<FMA>(c.f);
    for j in 0..hash.offsets.len() {
        let line = tone(unity, c.f, c.z, c.a, hash.offsets[j]);
        for (b, gain) in reach.iter() {
            let from = &mut hash.residual[j * hash.buckets + b];
            for tau in 0..4 {
                from.re[tau] = fma::<FMA>(-gain, line.re[tau], from.re[tau]);
                from.im[tau] = fma::<FMA>(-gain, line.im[tau], from.im[tau]);
            }
        }
    }
    reach
}

/// Subtracts one coefficient and keeps the energies of the bins current.
pub(crate) fn peel_one(hash: &mut Hash, unity: Unity, c: &Coefficient) {
    let reach = peel_body::<false>(hash, unity, c);
    for (b, _) in reach.iter() {
        let lines = (0..hash.offsets.len()).map(|j| &hash.residual[j * hash.buckets + b]);
        hash.energy[b] = lines.map(line_energy).sum();
    }
}
