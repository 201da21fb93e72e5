//! One line: frequency, amplitude, drift and damping from the bins around it, with their errors.
//!
//! The J = 2H+1 bins around the line are the spectrum of J values y_j = w_j z(t_j), t from -1/2 to
//! 1/2 over the record, w the window. The model is
//!
//! z(t) = A exp(-λt + 2πi(f t + a t²/2)),
//!
//! f the offset from the middle bin, a the drift over the record in bins. A, f and a are found by
//! Newton steps on the phase of y, weighted by w (or by the square of the damped envelope), with
//! polynomials that are orthogonal under these weights, so that f and a do not mix. Bins of density
//! D make noise of the variance w_j² J D / mean(w²) in y_j.

use super::spectrum::{LOBE, Spectrum, window};
use crate::Complex;
use std::f64::consts::{PI, TAU};
use std::sync::OnceLock;

/// Half widths of the fit in bins: of a line alone, and of a wide group.
pub(super) const NARROW: usize = 8;
pub(super) const WIDE: usize = 20;
/// Steps in bins below which nothing changes any more: far below any deviation.
const SETTLED: f64 = 1e-12;
/// Rounds of Newton steps; the drift joins after some of them.
const ROUNDS: usize = 14;
const DRIFT_FROM: usize = 4;
/// Damping over the record (λ) below which a line is undamped whatever its error.
const UNDAMPED: f64 = 0.1;
/// Largest damping.
const MOST_DAMPED: f64 = 60.0;

/// A fitted line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    /// Real-valued bin: the mean frequency over the record.
    pub(super) bin: f64,
    /// Its standard deviation.
    pub(super) bin_std: f64,
    /// f: how far the line lies from the bin around which it was fitted.
    pub(super) offset: f64,
    /// A in the spectrum's units: the phase is that of the middle of the record, less what the
    /// fitted bin turns until there.
    pub(super) amplitude: Complex<f64>,
    /// Drift over the record in bins, and its standard deviation.
    pub(super) drift: f64,
    pub(super) drift_std: f64,
    /// λ, 0 where the line is not damped.
    pub(super) damping: f64,
    /// Share of the power in the main lobe that the model leaves.
    pub(super) left: f64,
    /// What it leaves, in units of the floor.
    pub(super) chi: f64,
    /// Share of the record during which the power is there.
    pub(super) presence: f64,
}

/// What all fits of one width share.
struct Tables {
    /// t_j.
    times: Vec<f64>,
    /// w_j and its square.
    weights: Vec<f64>,
    squares: Vec<f64>,
    /// e^{2πij/J}.
    roots: Vec<Complex<f64>>,
    /// The polynomials of lines that are not damped.
    steady: Polynomials,
}

impl Tables {
    fn new(half: usize) -> Self {
        let count = 2 * half + 1;
        let times: Vec<f64> = (0..count).map(|i| i as f64 / count as f64 - 0.5).collect();
        let weights: Vec<f64> = times.iter().map(|t| window(t + 0.5)).collect();
        let squares = weights.iter().map(|w| w * w).collect();
        let turn = |i: usize| Complex::cis(TAU * i as f64 / count as f64);
        let steady = Polynomials::new(weights.clone(), &times);
        Tables { roots: (0..count).map(turn).collect(), times, weights, squares, steady }
    }

    /// The tables of a half width; those that [`super::lines`] takes are kept.
    fn with<R>(half: usize, f: impl FnOnce(&Self) -> R) -> R {
        static KEPT: [OnceLock<Tables>; 2] = [OnceLock::new(), OnceLock::new()];
        match [NARROW, WIDE].iter().position(|h| *h == half) {
            Some(i) => f(KEPT[i].get_or_init(|| Tables::new(half))),
            None => f(&Tables::new(half)),
        }
    }
}

/// Polynomials in t that are orthogonal under weights.
struct Polynomials {
    weights: Vec<f64>,
    mass: f64,
    /// Where the linear one is zero.
    middle: f64,
    linear: Vec<f64>,
    square: Vec<f64>,
    /// Their norms under the weights.
    spread: f64,
    bend: f64,
}

impl Polynomials {
    fn new(weights: Vec<f64>, times: &[f64]) -> Self {
        let mass: f64 = weights.iter().sum();
        let middle = dot(&weights, times) / mass;
        let linear: Vec<f64> = times.iter().map(|t| t - middle).collect();
        let spread = dot3(&weights, &linear, &linear);
        let mut square: Vec<f64> = linear.iter().map(|t| t * t - spread / mass).collect();
        let mixed = dot3(&weights, &square, &linear) / spread;
        square.iter_mut().zip(&linear).for_each(|(q, t)| *q -= mixed * t);
        let bend = dot3(&weights, &square, &square);
        Polynomials { weights, mass, middle, linear, square, spread, bend }
    }
}

/// Fits a line near a bin where the floor has this density, from ±`half` bins.
pub(super) fn fit(spectrum: &Spectrum, bin: usize, density: f64, half: usize) -> Fit {
    Tables::with(half, |tables| fit_with(tables, spectrum, bin, density))
}

fn fit_with(tables: &Tables, spectrum: &Spectrum, bin: usize, density: f64) -> Fit {
    let Tables { times, weights, squares, roots, steady } = tables;
    let count = times.len();
    let j = count as f64;
    let values = zoom(spectrum, bin, roots);
    let powers: Vec<f64> = values.iter().map(|y| y.norm_sqr()).collect();
    let energy: f64 = powers.iter().sum();
    // Damping: where the envelope has the centre of gravity of the power.
    let lambda = damping(squares, times, dot(&powers, times) / energy);
    let all_squares: f64 = squares.iter().sum();
    let second = |of: &[f64], power: i32| -> f64 {
        of.iter().zip(times).map(|(w, t)| w.powi(power) * t * t).sum()
    };
    let lambda_std = (j * j * density / all_squares * second(squares, 2) / 2.0).sqrt()
        / ((energy / all_squares).sqrt() * second(squares, 1));
    let damped = lambda.abs() > (5.0 * lambda_std).max(UNDAMPED);
    let falling: Option<(Vec<f64>, Polynomials)> = damped.then(|| {
        let decay = geometric((lambda * 0.5).exp(), (-lambda / j).exp(), count);
        let envelope: Vec<f64> = weights.iter().zip(decay).map(|(w, g)| w * g).collect();
        let u = envelope.iter().map(|g| g * g).collect();
        (envelope, Polynomials::new(u, times))
    });
    let (envelope, basis) = falling.as_ref().map_or((weights, steady), |(e, p)| (e, p));
    let (f, a, amplitude, phases) = newton(&values, envelope, basis, j);

    // What is left, back in the bins of the main lobe.
    let left: Vec<Complex<f64>> =
        (0..count).map(|i| values[i] - amplitude * envelope[i] * phases[i]).collect();
    let near: Vec<usize> = (0..=LOBE).chain(count - LOBE..count).collect();
    let in_lobe = |of: &[Complex<f64>]| -> f64 {
        near.iter().map(|&k| (fourier(of, k, roots) / j).norm_sqr()).sum()
    };
    let (rest, whole) = (in_lobe(&left), in_lobe(&values));
    let chi = rest / near.len() as f64 / density;

    let noise = j * density / (all_squares / j);
    let scale = noise / (2.0 * amplitude.norm_sqr().max(1e-300));
    let deviation = |of: &[f64], norm: f64, turns: f64| -> f64 {
        let sum: f64 = (0..count)
            .map(|i| {
                let ratio = squares[i] / envelope[i].powi(2).max(1e-24);
                ratio * (basis.weights[i] * of[i]).powi(2)
            })
            .sum();
        (scale * sum).sqrt() / norm / turns
    };
    Fit {
        bin: bin as f64 + f,
        offset: f,
        bin_std: deviation(&basis.linear, basis.spread, TAU),
        amplitude,
        drift: a,
        drift_std: deviation(&basis.square, basis.bend, PI),
        damping: if damped { lambda } else { 0.0 },
        left: rest / whole.max(1e-300),
        chi,
        presence: share_of_time(&powers, weights),
    }
}

/// Share of the record during which the power around a bin is there.
pub(super) fn presence(spectrum: &Spectrum, bin: usize) -> f64 {
    Tables::with(NARROW, |tables| {
        let powers: Vec<f64> =
            zoom(spectrum, bin, &tables.roots).iter().map(|y| y.norm_sqr()).collect();
        share_of_time(&powers, &tables.weights)
    })
}

/// The same of weighted powers over time.
fn share_of_time(powers: &[f64], weights: &[f64]) -> f64 {
    let (mut power, mut fourth, mut seen) = (0.0, 0.0, 0.0);
    for (y, w) in powers.iter().zip(weights) {
        if *w > 0.03 {
            let e = y / (w * w);
            power += e;
            fourth += e * e;
            seen += 1.0;
        }
    }
    power * power / (seen * fourth + 1e-300)
}

/// λ at which the envelope w² e^{-2λt} has this centre of gravity; 0 if none of them does.
fn damping(squares: &[f64], times: &[f64], centre: f64) -> f64 {
    let step = 1.0 / times.len() as f64;
    let off_centre = |lambda: f64| {
        let (mut sum, mut mass) = (0.0, 0.0);
        let mut decay = lambda.exp();
        let turn = (-2.0 * lambda * step).exp();
        for (w, t) in squares.iter().zip(times) {
            sum += w * decay * t;
            mass += w * decay;
            decay *= turn;
        }
        sum / mass - centre
    };
    if !(off_centre(-MOST_DAMPED) > 0.0 && off_centre(MOST_DAMPED) < 0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (-MOST_DAMPED, MOST_DAMPED);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if off_centre(middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Newton steps on the phase: f, a, A, and the phasors of the model.
fn newton(
    values: &[Complex<f64>],
    envelope: &[f64],
    basis: &Polynomials,
    j: f64,
) -> (f64, f64, Complex<f64>, Vec<Complex<f64>>) {
    let (mut f, mut a) = (0.0, 0.0);
    let mut amplitude = Complex::ZERO;
    let mut phases = vec![Complex::ONE; values.len()];
    let mut errors = vec![0.0; values.len()];
    let mut turned = vec![Complex::ZERO; values.len()];
    for round in 0..=ROUNDS {
        chirp(f, a, j, &mut phases);
        if round == ROUNDS {
            break;
        }
        for (z, ((y, g), p)) in turned.iter_mut().zip(values.iter().zip(envelope).zip(&phases)) {
            *z = y * p.conj() / g.max(1e-12);
        }
        let weighted = turned.iter().zip(&basis.weights).map(|(z, u)| z * u);
        amplitude = weighted.sum::<Complex<f64>>() / basis.mass;
        if amplitude == Complex::ZERO {
            break;
        }
        let inverse = amplitude.inv();
        errors.iter_mut().zip(&turned).for_each(|(e, z)| *e = (z * inverse).im);
        let weights = &basis.weights;
        let moved = (dot3(weights, &errors, &basis.linear) / basis.spread / TAU).clamp(-0.5, 0.5);
        f += moved;
        let mut bent = f64::INFINITY;
        if round >= DRIFT_FROM {
            bent = (dot3(weights, &errors, &basis.square) / basis.bend / PI).clamp(-4.0, 4.0);
            a += bent;
            f -= bent * basis.middle;
        }
        if moved.abs().max(bent.abs()) < SETTLED {
            chirp(f, a, j, &mut phases);
            break;
        }
    }
    (f, a, amplitude, phases)
}

/// The phasors e^{2πi(f t + a t²/2)} at t = i/J - 1/2: the ratio of neighbours turns steadily.
fn chirp(f: f64, a: f64, j: f64, out: &mut [Complex<f64>]) {
    let step = 1.0 / j;
    let mut phasor = Complex::cis(TAU * (-0.5 * f + 0.125 * a));
    // From t to t + s: f s + a t s + a s²/2.
    let mut turn = Complex::cis(TAU * step * (f - 0.5 * a + 0.5 * a * step));
    let bend = Complex::cis(TAU * a * step * step);
    for z in out {
        *z = phasor;
        phasor *= turn;
        turn *= bend;
    }
}

/// So many powers of a factor, times the first value.
fn geometric(first: f64, factor: f64, count: usize) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), move |v| Some(v * factor)).take(count)
}

/// The record as it is around a bin, at as many times as there are roots of unity.
fn zoom(spectrum: &Spectrum, bin: usize, roots: &[Complex<f64>]) -> Vec<Complex<f64>> {
    let count = roots.len();
    let half = count / 2;
    let bins: Vec<Complex<f64>> =
        (0..count).map(|i| spectrum.bin(bin as i64 + i as i64 - half as i64)).collect();
    (0..count)
        .map(|j| {
            // (i + count - half)·j modulo count, step by step.
            let mut at = (count - half) * j % count;
            let mut sum = Complex::ZERO;
            for b in &bins {
                sum += b * roots[at];
                at += j;
                at -= if at >= count { count } else { 0 };
            }
            sum
        })
        .collect()
}

/// One bin of the transform of some values.
fn fourier(values: &[Complex<f64>], k: usize, roots: &[Complex<f64>]) -> Complex<f64> {
    let n = values.len();
    values.iter().enumerate().map(|(i, v)| v * roots[(i * k) % n].conj()).sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn dot3(a: &[f64], b: &[f64], c: &[f64]) -> f64 {
    a.iter().zip(b).zip(c).map(|((x, y), z)| x * y * z).sum()
}
