//! Tones whose frequency drifts: x\[t\] = A e^{2πi(νu + κu²/2)}, u = t - T.
//!
//! Along a comb of span sB the drift is c = κ(sB)² bins, and the bin at distance x sees
//!
//! Ĝ_c(x) = Σ_r g_r e^{iπc((r-B/2)/B)²} e^{2πi(r-B/2)x/B},
//!
//! summed over 128 nodes of the smooth window. To first order Ĝ_c = Ĝ - i(c/4π)Ĝ''. Drifting tones
//! are few; this code is plain, not fast.

use super::comb::{Comb, Geometry, Tone, turn};
use super::linear;
use super::refine::Floor;
use super::window::MAX_SPAN;
use crate::Complex;
use crate::samples::Line;
use crate::stages::window::bessel_i0;

/// Largest drift over the record that is modelled, in bins.
pub(crate) const LARGEST: f64 = 24.0;

const NODES: usize = 128;

/// The window at the nodes u = (i - 63.5)/128 and the nodes' chirp, ready for any distance.
pub(crate) struct Chirped {
    nodes: Vec<(f64, Complex<f64>)>,
}

impl Chirped {
    /// The response for a drift of c bins along a comb whose window has the shape β.
    pub(crate) fn new(beta: f64, bins: usize, c: f64) -> Self {
        let reach = (bins - 1) as f64 / bins as f64;
        let weight = |u: f64| {
            let x = 2.0 * u / reach;
            if x.abs() >= 1.0 { 0.0 } else { bessel_i0(beta * (1.0 - x * x).sqrt()) }
        };
        let mut nodes: Vec<(f64, Complex<f64>)> = (0..NODES)
            .map(|i| {
                let u = (i as f64 - 63.5) / NODES as f64;
                (u, turn(0.5 * c * u * u) * weight(u))
            })
            .collect();
        let total: f64 = nodes.iter().map(|(u, _)| weight(*u)).sum();
        nodes.iter_mut().for_each(|(_, g)| *g /= total);
        Chirped { nodes }
    }

    /// Ĝ_c(x), ∂Ĝ_c/∂x and ∂Ĝ_c/∂c.
    pub(crate) fn at(&self, x: f64) -> [Complex<f64>; 3] {
        let [mut g, mut dx, mut dc] = [Complex::<f64>::ZERO; 3];
        for &(u, w) in &self.nodes {
            let v = w * turn(u * x);
            g += v;
            dx += v * u;
            dc += v * (u * u);
        }
        let i = Complex::<f64>::I;
        [g, dx * i * std::f64::consts::TAU, dc * i * std::f64::consts::PI]
    }
}

/// Bins that a drift adds to a footprint on each side.
pub(crate) fn widening(geometry: &Geometry, tone: &Tone) -> f64 {
    if tone.drift == 0.0 {
        return 0.0;
    }
    (0.5 * (tone.drift * geometry.scale().powi(2)).abs()).ceil().min(MAX_SPAN as f64 / 4.0) + 1.0
}

/// Frequency, phase in turns and chirped response of one lane.
fn lane(comb: &Comb, tone: &Tone, d: f64) -> (f64, f64) {
    let t = comb.geometry.shift() + d;
    (tone.nu + tone.drift * t, tone.nu * t + 0.5 * tone.drift * t * t)
}

/// Adds sign times a drifting tone to the lines from offset number `from` on.
pub(crate) fn peel(comb: &mut Comb, tone: &Tone, from: usize, sign: f64) {
    let bins = comb.bins();
    let c = tone.drift * comb.geometry.scale().powi(2);
    let chirped = Chirped::new(comb.window.beta, bins, c);
    let half = comb.window.half as i64 + widening(&comb.geometry, tone) as i64;
    let centre = comb.geometry.position(tone.nu).floor() as i64;
    for j in from..comb.offsets.len() {
        let d = comb.offsets[j] as f64;
        // The four lanes of a line lie so near together that one response serves them.
        let (nu, _) = lane(comb, tone, d + 1.5);
        let position = comb.geometry.position(nu);
        let mut line = Line::ZERO;
        for tau in 0..4 {
            let (_, phase) = lane(comb, tone, d + tau as f64);
            line.set_lane(tau, tone.amplitude * turn(phase) * sign);
        }
        for b in centre + 1 - half..=centre + half {
            let size = bins as f64;
            let x = (position - b as f64 + 0.5 * size).rem_euclid(size) - 0.5 * size;
            let [g, ..] = chirped.at(x);
            let to = &mut comb.residual[j * bins + b.rem_euclid(bins as i64) as usize];
            for tau in 0..4 {
                to.set_lane(tau, to.lane(tau) + line.lane(tau) * g);
            }
        }
    }
}

/// A drifting tone and how well it is known.
pub(crate) struct Drifting {
    pub(crate) tone: Tone,
    /// Standard deviation of the drift, in cycles per sample per sample.
    pub(crate) drift_std: f64,
    /// Energy of the projected bins that is left, over what noise leaves.
    pub(crate) misfit: f64,
}

/// Fits amplitude, frequency and drift of one tone, which must be peeled, to the first comb by
/// Gauss-Newton steps on its projected bins. `None` where that does not converge.
pub(crate) fn fit(comb: &Comb, start: &Tone, guess: f64, floor: &Floor) -> Option<Drifting> {
    let geometry = &comb.geometry;
    let scale = geometry.scale();
    let half = (comb.window.half + 2 + (0.5 * guess.abs()) as usize).min(MAX_SPAN / 2 - 1);
    let count = 2 * half;
    if count + 4 > comb.bins() {
        return None;
    }
    let mut tone = *start;
    let position = geometry.position(tone.nu);
    let first = position.floor() as i64 + 1 - half as i64;
    let mut y = vec![Complex::ZERO; count];
    comb.project(tone.nu, first.rem_euclid(comb.bins() as i64) as usize, &mut y);
    let chirped = Chirped::new(comb.window.beta, comb.bins(), tone.drift * scale * scale);
    for (i, y) in y.iter_mut().enumerate() {
        *y += tone.amplitude * chirped.at(position - (first + i as i64) as f64)[0];
    }
    // Parameters: P, Re A, Im A, c.
    let (mut p, mut a, mut c) = (position, tone.amplitude, guess);
    let white = comb.window.whitener(count);
    let mut covariance = [0.0; 16];
    let mut left = f64::INFINITY;
    for _ in 0..12 {
        let chirped = Chirped::new(comb.window.beta, comb.bins(), c);
        let mut columns = vec![[Complex::<f64>::ZERO; 4]; count];
        let mut r = y.clone();
        for i in 0..count {
            let [g, dx, dc] = chirped.at(p - (first + i as i64) as f64);
            columns[i] = [a * dx, g, g * Complex::I, a * dc];
            r[i] -= a * g;
        }
        let mut gram = [0.0; 16];
        let mut right = [0.0; 4];
        for i in 0..count {
            for j in 0..count {
                let w =
                    if floor.white { white[i * count + j] } else { f64::from(u8::from(i == j)) };
                for (m, left) in columns[i].iter().enumerate() {
                    right[m] += w * (left.conj() * r[j]).re;
                    for (k, other) in columns[j].iter().enumerate() {
                        gram[4 * m + k] += w * (left.conj() * other).re;
                    }
                }
            }
        }
        covariance = gram;
        if !linear::factor(&mut covariance, 4) {
            return None;
        }
        linear::solve(&covariance, 4, &mut right);
        p += right[0].clamp(-0.5, 0.5);
        a += Complex::new(right[1], right[2]);
        c += right[3].clamp(-2.0, 2.0);
        if c.abs() > LARGEST || (p - position).abs() > half as f64 || !a.norm().is_finite() {
            return None;
        }
        let energy = |r: &[Complex<f64>]| -> f64 {
            let mut sum = 0.0;
            for i in 0..count {
                for j in 0..count {
                    let w = if floor.white {
                        white[i * count + j]
                    } else {
                        f64::from(u8::from(i == j))
                    };
                    sum += w * (r[i].conj() * r[j]).re;
                }
            }
            sum
        };
        let before = left;
        left = energy(&r);
        if (before - left).abs() < 1e-4 * left || left == 0.0 {
            break;
        }
    }
    let lanes = comb.lanes() as f64;
    let noise = floor.s2 / lanes;
    let shift = (p - position) / scale;
    let mean = comb.mean_time();
    tone.nu += shift;
    tone.nu -= tone.nu.round();
    tone.amplitude = a * turn(-shift * mean);
    tone.drift = c / (scale * scale);
    let mut unit = [0.0, 0.0, 0.0, 1.0];
    linear::solve(&covariance, 4, &mut unit);
    Some(Drifting {
        tone,
        drift_std: (0.5 * noise * unit[3]).sqrt() / (scale * scale),
        misfit: left / (noise * (count as f64 - 2.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::window::Window;
    use super::*;
    use crate::cpu::wide::F4;

    #[test]
    fn without_drift_the_response_is_that_of_the_window() {
        let window = Window::new(14.0, 512);
        let chirped = Chirped::new(14.0, 512, 0.0);
        for i in -50..50 {
            let x = i as f64 / 9.0;
            let (g, d) = window.response::<false>(F4::splat(x));
            let [c, dx, dc] = chirped.at(x);
            assert!((c - g.0[0]).norm() < 4.0 * window.leak, "{x}");
            assert!((dx - d.0[0]).norm() < 20.0 * window.leak, "{x}");
            let w = -window.curvature(x) / (4.0 * std::f64::consts::PI);
            assert!((dc - Complex::new(0.0, w)).norm() < 20.0 * window.leak, "{x}");
        }
    }
}
