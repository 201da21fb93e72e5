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
//! (f) What is left has no order of its own: the samples of a line do not follow each other as
//!     those of a sweep do. In the bins a sweep over all frequencies is noise; within a line of
//!     four samples it is one tone, whose frequency is another in every line.

use super::comb::{Comb, Tone, above, turn};
use super::locate::LEAK;
use super::refine::Floor;
use crate::algorithms::Run;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;
use crate::samples::Line;
use crate::stages::certify::threshold;
use crate::{Complex, Error};

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
    if skip.is_empty() {
        tested = comb.bins() as u64;
        unexplained = above(&comb.energy, limit) as u64;
        (sum, square) = moments(&comb.energy);
    }
    for (_, &e) in skip.iter().zip(&comb.energy).filter(|(skip, _)| !**skip) {
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

dispatch! {
    /// The sum and the sum of squares.
    fn moments(energy: &[f64]) -> (f64, f64) = moments_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn moments_body<const FMA: bool>(energy: &[f64]) -> (f64, f64) {
    let (four, rest) = energy.as_chunks::<4>();
    let (mut sum, mut square) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
    for e in four {
        sum = sum + F4(*e);
        square = F4(*e).mul_add(F4(*e), square);
    }
    let (mut sum, mut square) = (sum.sum(), square.sum());
    for e in rest {
        sum += e;
        square += e * e;
    }
    (sum, square)
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

/// How a tone stands whose amplitude is `left` over in a comb that it is peeled from.
pub(crate) fn standing(comb: &Comb, tone: &Tone, left: Complex<f64>, floor: &Floor) -> Standing {
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

/// Lines that [`ordered`] looks at.
const LOOKED_AT: usize = 512;
/// Standard deviations beyond which the lines have an order.
const ORDERED: f64 = 6.0;

/// Whether neighbouring samples follow each other once the tones are subtracted, in the lines as
/// they were read. For noise, white or coloured, with r_m = E x\[t+m\] conj x\[t\],
///
/// E x0 conj(x1) conj(x2) x3 = |r_1|² + |r_2|²  (real noise: + r_1 r_3);
///
/// whatever has one frequency within a line adds its power squared. `lines` is overwritten.
pub(crate) fn ordered(
    run: &Run<'_>,
    comb: &Comb,
    tones: &[Tone],
    lines: &mut Vec<Line>,
) -> Result<bool, Error> {
    let real = run.signal.is_real();
    let g = &comb.geometry;
    lines.clear();
    // Lines over the whole record; several offsets where one has too few.
    let step = comb.bins().div_ceil(LOOKED_AT);
    for (j, &d) in comb.offsets.iter().enumerate() {
        let from = lines.len();
        if from >= LOOKED_AT {
            break;
        }
        comb.read_every(run, j, step, lines)?;
        let start = (g.base + d) as f64 - 0.5 * g.n as f64;
        for tone in tones {
            let stride = (step as u64 * g.stride) as f64;
            subtract(&mut lines[from..], tone, start, stride);
        }
    }
    let count = lines.len() as f64;
    let [mut r1, mut r2, mut r3] = [Complex::<f64>::ZERO; 3];
    let (mut sum, mut square, mut power) = (0.0, 0.0, 0.0);
    for line in lines.iter() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|tau| line.lane(tau));
        r1 += b * a.conj() + c * b.conj() + d * c.conj();
        r2 += c * a.conj() + d * b.conj();
        r3 += d * a.conj();
        power += a.norm_sqr() + b.norm_sqr() + c.norm_sqr() + d.norm_sqr();
        let k = (a * b.conj() * c.conj() * d).re;
        sum += k;
        square += k * k;
    }
    let (r1, r2, r3) = (r1 / (3.0 * count), r2 / (2.0 * count), r3 / count);
    let power = power / (4.0 * count);
    let mean = sum / count;
    let chance = r1.norm_sqr() + r2.norm_sqr() + if real { (r1 * r3).re } else { 0.0 };
    let excess = mean - chance;
    let error = ((square / count - mean * mean).max(0.0) / count).sqrt();
    Ok(excess > ORDERED * error && excess > 0.1 * power * power)
}

/// Subtracts a tone from lines that begin at `start`, counted from the middle of the record, and
/// follow each other every `stride` samples.
fn subtract(lines: &mut [Line], tone: &Tone, start: f64, stride: f64) {
    // Fresh phases every few lines keep rounding small.
    const BLOCK: usize = 32;
    for (i, block) in lines.chunks_mut(BLOCK).enumerate() {
        let t = start + (i * BLOCK) as f64 * stride;
        if tone.drift != 0.0 {
            for (r, line) in block.iter_mut().enumerate() {
                for tau in 0..4 {
                    let t = t + r as f64 * stride + tau as f64;
                    let v = tone.amplitude * turn(tone.nu * t + 0.5 * tone.drift * t * t);
                    line.set_lane(tau, line.lane(tau) - v);
                }
            }
            continue;
        }
        let mut model = Line::ZERO;
        for tau in 0..4 {
            model.set_lane(tau, tone.amplitude * turn(tone.nu * (t + tau as f64)));
        }
        rotate_away(block, &model, turn(tone.nu * stride));
    }
}

dispatch! {
    /// Subtracts a line from each of these, turned by z from one to the next.
    fn rotate_away(lines: &mut [Line], model: &Line, z: Complex<f64>) = rotate_away_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn rotate_away_body<const FMA: bool>(lines: &mut [Line], model: &Line, z: Complex<f64>) {
    let (mut re, mut im) = (F4::<FMA>(model.re), F4::<FMA>(model.im));
    let (c, s) = (F4::splat(z.re), F4::splat(z.im));
    for line in lines {
        line.re = (F4(line.re) - re).0;
        line.im = (F4(line.im) - im).0;
        (re, im) = (im.negate_mul_add(s, re * c), re.mul_add(s, im * c));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtracting_leaves_nothing_of_a_tone() {
        let tone = Tone { nu: 0.123_456, amplitude: Complex::new(0.3, -1.0), drift: 0.0 };
        let (start, stride) = (-5000.0, 77.0);
        let mut lines = vec![Line::ZERO; 100];
        for (r, line) in lines.iter_mut().enumerate() {
            for tau in 0..4 {
                let t = start + r as f64 * stride + tau as f64;
                line.set_lane(tau, tone.amplitude * turn(tone.nu * t));
            }
        }
        subtract(&mut lines, &tone, start, stride);
        let left = |line: &Line| (0..4).map(|tau| line.lane(tau).norm()).fold(0.0, f64::max);
        assert!(lines.iter().map(left).fold(0.0, f64::max) < 1e-12);
    }
}
