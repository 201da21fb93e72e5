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

/// Fits a line near a bin where the floor has this density, from ±`half` bins.
pub(super) fn fit(spectrum: &Spectrum, bin: usize, density: f64, half: usize) -> Fit {
    let count = 2 * half + 1;
    let j = count as f64;
    let times: Vec<f64> = (0..count).map(|i| i as f64 / j - 0.5).collect();
    let weights: Vec<f64> = times.iter().map(|t| window(t + 0.5)).collect();
    let values = zoom(spectrum, bin, half);
    let powers: Vec<f64> = values.iter().map(|y| y.norm_sqr()).collect();
    let energy: f64 = powers.iter().sum();

    // Damping: where the envelope has the centre of gravity of the power.
    let centre = dot(&powers, &times) / energy;
    let off_centre = |lambda: f64| {
        let (mut sum, mut mass) = (0.0, 0.0);
        for (w, t) in weights.iter().zip(&times) {
            let e = w * w * (-2.0 * lambda * t).exp();
            sum += e * t;
            mass += e;
        }
        sum / mass - centre
    };
    let mut lambda = 0.0;
    if off_centre(-MOST_DAMPED) > 0.0 && off_centre(MOST_DAMPED) < 0.0 {
        let (mut low, mut high) = (-MOST_DAMPED, MOST_DAMPED);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if off_centre(middle) > 0.0 { low = middle } else { high = middle }
        }
        lambda = 0.5 * (low + high);
    }
    let squares: Vec<f64> = weights.iter().map(|w| w * w).collect();
    let all_squares: f64 = squares.iter().sum();
    let second = |of: &[f64], power: i32| -> f64 {
        of.iter().zip(&times).map(|(w, t)| w.powi(power) * t * t).sum()
    };
    let lambda_std = (j * j * density / all_squares * second(&squares, 2) / 2.0).sqrt()
        / ((energy / all_squares).sqrt() * second(&squares, 1));
    let damped = lambda.abs() > (5.0 * lambda_std).max(UNDAMPED);

    // Weights and orthogonal polynomials.
    let envelope: Vec<f64> = weights
        .iter()
        .zip(&times)
        .map(|(w, t)| if damped { w * (-lambda * t).exp() } else { *w })
        .collect();
    let u: Vec<f64> =
        if damped { envelope.iter().map(|g| g * g).collect() } else { weights.clone() };
    let mass: f64 = u.iter().sum();
    let middle = dot(&u, &times) / mass;
    let linear: Vec<f64> = times.iter().map(|t| t - middle).collect();
    let spread = dot3(&u, &linear, &linear);
    let mut square: Vec<f64> = linear.iter().map(|t| t * t - spread / mass).collect();
    let mixed = dot3(&u, &square, &linear) / spread;
    square.iter_mut().zip(&linear).for_each(|(q, t)| *q -= mixed * t);
    let bend = dot3(&u, &square, &square);

    let (mut f, mut a) = (0.0, 0.0);
    let mut amplitude = Complex::ZERO;
    let phase = |f: f64, a: f64, t: f64| Complex::cis(TAU * (f * t + 0.5 * a * t * t));
    for round in 0..ROUNDS {
        let turned: Vec<Complex<f64>> = values
            .iter()
            .zip(&envelope)
            .zip(&times)
            .map(|((y, g), t)| y * phase(f, a, *t).conj() / g.max(1e-12))
            .collect();
        amplitude = turned.iter().zip(&u).map(|(z, u)| z * u).sum::<Complex<f64>>() / mass;
        if amplitude == Complex::ZERO {
            break;
        }
        let errors: Vec<f64> = turned.iter().map(|z| (z / amplitude).im).collect();
        f += (dot3(&u, &errors, &linear) / spread / TAU).clamp(-0.5, 0.5);
        if round >= DRIFT_FROM {
            let step = (dot3(&u, &errors, &square) / bend / PI).clamp(-4.0, 4.0);
            a += step;
            f -= step * middle;
        }
    }

    // What is left, back in the bins of the main lobe.
    let left: Vec<Complex<f64>> =
        (0..count).map(|i| values[i] - amplitude * envelope[i] * phase(f, a, times[i])).collect();
    let near: Vec<usize> = (0..=LOBE).chain(count - LOBE..count).collect();
    let in_lobe = |of: &[Complex<f64>]| -> f64 {
        near.iter().map(|&k| (fourier(of, k) / j).norm_sqr()).sum()
    };
    let (rest, whole) = (in_lobe(&left), in_lobe(&values));
    let chi = rest / near.len() as f64 / density;

    let noise = j * density / (all_squares / j);
    let scale = noise / (2.0 * amplitude.norm_sqr().max(1e-300));
    let deviation = |of: &[f64], norm: f64, turns: f64| -> f64 {
        let sum: f64 = (0..count)
            .map(|i| {
                let ratio = squares[i] / envelope[i].powi(2).max(1e-24);
                ratio * (u[i] * of[i]).powi(2)
            })
            .sum();
        (scale * sum).sqrt() / norm / turns
    };
    let (mut power, mut fourth, mut seen) = (0.0, 0.0, 0.0);
    for (y, w) in powers.iter().zip(&weights) {
        if *w > 0.03 {
            let e = y / (w * w);
            power += e;
            fourth += e * e;
            seen += 1.0;
        }
    }
    Fit {
        bin: bin as f64 + f,
        offset: f,
        bin_std: deviation(&linear, spread, TAU),
        amplitude,
        drift: a,
        drift_std: deviation(&square, bend, PI),
        damping: if damped { lambda } else { 0.0 },
        left: rest / whole.max(1e-300),
        chi,
        presence: power * power / (seen * fourth + 1e-300),
    }
}

/// The record as it is around a bin, at 2·half+1 times.
fn zoom(spectrum: &Spectrum, bin: usize, half: usize) -> Vec<Complex<f64>> {
    let count = 2 * half + 1;
    let roots: Vec<Complex<f64>> =
        (0..count).map(|i| Complex::cis(TAU * i as f64 / count as f64)).collect();
    let bins: Vec<Complex<f64>> =
        (0..count).map(|i| spectrum.bin(bin as i64 + i as i64 - half as i64)).collect();
    (0..count)
        .map(|j| {
            let sum = |(i, b): (usize, &Complex<f64>)| b * roots[(i + count - half) * j % count];
            bins.iter().enumerate().map(sum).sum()
        })
        .collect()
}

/// One bin of the transform of some values.
fn fourier(values: &[Complex<f64>], k: usize) -> Complex<f64> {
    let n = values.len();
    values
        .iter()
        .enumerate()
        .map(|(i, v)| v * Complex::cis(-TAU * ((i * k) % n) as f64 / n as f64))
        .sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn dot3(a: &[f64], b: &[f64], c: &[f64]) -> f64 {
    a.iter().zip(b).zip(c).map(|((x, y), z)| x * y * z).sum()
}
