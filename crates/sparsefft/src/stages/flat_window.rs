//! The flat window of the voting algorithms: taps in time, response at any frequency.
//!
//! With B buckets and u = νB (frequency in buckets), a lobe window c(t) of half width 1/2 bucket
//! is multiplied by a sinc, which convolves its response C with a boxcar of 1.32 buckets:
//!
//! ```text
//! g(t) = c(t) sin(πβt)/(πt),  β = 1.32/B
//! Ĝ(u) = ∫_{u-0.66}^{u+0.66} C(v) dv / ∫_{-0.66}^{0.66} C(v) dv
//! ```
//!
//! Ĝ is 1 in the middle of the bucket, about 0.9 at its edge (u = 1/2) and below the asked
//! leakage from u = 1.16 on. The lobe is a Kaiser window, C(v) = sinh(√A)/√A with
//! A = β² - (2πHv)², or a Dolph-Chebyshev window, C(v) = T_N(x₀ cos(πv/B))/T_N(x₀). Both are known
//! in closed form, so the response needs no array of length n: D(v) = ∫₀^v C by Gauss-Legendre
//! quadrature gives Ĝ at the nodes of a table, C gives its slope, and cubic Hermite interpolation
//! is good to 1e-10 in between.
//!
//! The taps are symmetric around t = 0: Ĝ is real and buckets carry no phase of their own.

use crate::cpu::math::cis_turns;
use crate::plan::FlatKind;
use num_complex::Complex;
use std::f64::consts::PI;

/// Half width of the lobe, in buckets.
const LOBE: f64 = 0.5;
/// Width of the boxcar, in buckets.
const BOXCAR: f64 = 1.32;
/// Table steps per half boxcar. The step of 1/533 bucket makes the interpolation error 1e-10.
const STEPS: usize = 352;
/// Table nodes: up to 1.2 buckets, just beyond the end of the transition.
const NODES: usize = 641;
/// Nodes of the three-point Gauss-Legendre rule on [0, 1], and their weights.
const GAUSS: [(f64, f64); 3] = [
    (0.112_701_665_379_258_31, 5.0 / 18.0),
    (0.5, 8.0 / 18.0),
    (0.887_298_334_620_741_7, 5.0 / 18.0),
];

/// Smallest gain of the bucket nearest to a frequency: Ĝ(1/2), rounded down.
pub(crate) const EDGE_GAIN: f64 = 0.85;

/// A flat window for B buckets.
#[derive(Debug, Clone)]
pub(crate) struct Flat {
    pub(crate) buckets: usize,
    /// g(t) for t = -half ..= half.
    pub(crate) taps: Vec<f64>,
    pub(crate) half: usize,
    /// Σ g(t)²: the power that white noise of unit power has in a bucket.
    pub(crate) energy: f64,
    /// Ĝ and (step · slope) at multiples of the step.
    table: Vec<[f64; 2]>,
}

/// The lobe whose response the boxcar flattens.
enum Lobe {
    /// Shape β and half length H in units of B.
    Kaiser { beta: f64, half: f64 },
    /// Degree N, x₀, 1/T_N(x₀), and B.
    Chebyshev { degree: f64, x0: f64, ripple: f64, buckets: f64 },
}

/// Kaiser β whose flattened window leaks this much (measured; one step of 10 in leakage per 2.25).
fn kaiser_beta(leakage: f64) -> f64 {
    8.0 + 2.25 * (-leakage.log10() - 4.0)
}

/// Ripple of the Chebyshev lobe whose flattened window leaks this much: the boxcar averages the
/// ripples out by this factor.
fn chebyshev_ripple(leakage: f64) -> f64 {
    4.0 * leakage
}

/// Half length of the window, in samples.
pub(crate) fn half_length(kind: FlatKind, leakage: f64, buckets: u64) -> f64 {
    let per_bucket = match kind {
        FlatKind::Kaiser => kaiser_beta(leakage).hypot(PI) / (2.0 * PI * LOBE),
        FlatKind::DolphChebyshev => (1.0 / chebyshev_ripple(leakage)).acosh() / (2.0 * PI * LOBE),
    };
    per_bucket * buckets as f64
}

/// Number of taps.
pub(crate) fn width(kind: FlatKind, leakage: f64, buckets: u64) -> u64 {
    2 * half_length(kind, leakage, buckets).floor() as u64 + 1
}

impl Lobe {
    fn new(kind: FlatKind, leakage: f64, buckets: usize, half: usize) -> Self {
        match kind {
            FlatKind::Kaiser => {
                let beta = kaiser_beta(leakage);
                Lobe::Kaiser { beta, half: beta.hypot(PI) / (2.0 * PI * LOBE) }
            }
            FlatKind::DolphChebyshev => {
                let (degree, ripple) = (2.0 * half as f64, chebyshev_ripple(leakage));
                let x0 = ((1.0 / ripple).acosh() / degree).cosh();
                Lobe::Chebyshev { degree, x0, ripple, buckets: buckets as f64 }
            }
        }
    }

    /// C(v), with C(0) = 1.
    fn response(&self, v: f64) -> f64 {
        match *self {
            Lobe::Kaiser { beta, half } => {
                let a = beta * beta - (2.0 * PI * half * v).powi(2);
                let shape = if a > 1e-12 {
                    a.sqrt().sinh() / a.sqrt()
                } else if a < -1e-12 {
                    (-a).sqrt().sin() / (-a).sqrt()
                } else {
                    1.0
                };
                shape * beta / beta.sinh()
            }
            Lobe::Chebyshev { degree, x0, ripple, buckets } => {
                let x = x0 * (PI * v / buckets).cos();
                let polynomial = if x.abs() <= 1.0 {
                    (degree * x.acos()).cos()
                } else {
                    (degree * x.abs().acosh()).cosh()
                };
                ripple * polynomial
            }
        }
    }

    /// c(t) for t = 0 ..= half, with Σ c(t) = 1 up to the sampling of the Kaiser formula.
    fn taps(&self, half: usize, buckets: usize) -> Vec<f64> {
        match *self {
            Lobe::Kaiser { beta, half: h } => {
                // I₀(β√v) is a power series in v with positive terms: Horner is exact to rounding.
                let length = h * buckets as f64;
                let quarter = beta * beta / 4.0;
                let mut coefficients = vec![1.0];
                while coefficients.len() < 12 || coefficients.last() > Some(&1e-12) {
                    let m = coefficients.len() as f64;
                    coefficients.push(coefficients[coefficients.len() - 1] * quarter / (m * m));
                }
                let scale = beta / (2.0 * length * beta.sinh());
                (0..=half)
                    .map(|t| {
                        let s = t as f64 / length;
                        let v = 1.0 - s * s;
                        scale * coefficients.iter().rev().fold(0.0, |sum, c| sum * v + c)
                    })
                    .collect()
            }
            Lobe::Chebyshev { buckets: b, .. } => {
                // The inverse DFT of C at the multiples of 1/w is exact: w taps, degree w - 1.
                let w = 2 * half + 1;
                let mut c: Vec<Complex<f64>> = (0..w)
                    .map(|i| {
                        // C is even and periodic; the nearer side keeps the argument small.
                        let nu = i.min(w - i) as f64 / w as f64;
                        Complex::new(self.response(nu * b) / w as f64, 0.0)
                    })
                    .collect();
                sparsefft_kernels::double(w, rustfft::FftDirection::Forward).process(&mut c);
                c[..=half].iter().map(|v| v.re).collect()
            }
        }
    }
}

impl Flat {
    /// The window of this kind and leakage for B buckets.
    pub(crate) fn new(kind: FlatKind, leakage: f64, buckets: usize) -> Self {
        let half = half_length(kind, leakage, buckets as u64).floor() as usize;
        let lobe = Lobe::new(kind, leakage, buckets, half);
        let (table, area) = table(&lobe);

        // Ĝ(0) = area/B before scaling, as the boxcar has height 1 and width 1.32/B.
        let scale = buckets as f64 / area;
        let mut taps = vec![0.0; 2 * half + 1];
        for (t, c) in lobe.taps(half, buckets).into_iter().enumerate() {
            let sinc = if t == 0 {
                BOXCAR / buckets as f64
            } else {
                // sin(π·1.32·t/B) with the phase in turns.
                let turns = 0.5 * BOXCAR * t as f64 / buckets as f64;
                cis_turns(turns).1 / (PI * t as f64)
            };
            taps[half + t] = scale * c * sinc;
            taps[half - t] = taps[half + t];
        }
        let energy = taps.iter().map(|g| g * g).sum();
        Flat { buckets, taps, half, energy, table }
    }

    /// Ĝ and (step · slope) at multiples of the step, for kernels of one's own.
    #[cfg(feature = "cuda")]
    pub(crate) fn nodes(&self) -> &[[f64; 2]] {
        &self.table
    }

    /// Ĝ at a distance of u buckets; zero beyond the transition, where it is below the leakage.
    #[inline]
    pub(crate) fn response(&self, u: f64) -> f64 {
        let x = u.abs() * (STEPS as f64 / (0.5 * BOXCAR));
        let i = x as usize;
        if i + 1 >= self.table.len() {
            return 0.0;
        }
        let s = x - i as f64;
        let ([g0, d0], [g1, d1]) = (self.table[i], self.table[i + 1]);
        let rise = g1 - g0;
        let c2 = 3.0 * rise - 2.0 * d0 - d1;
        let c3 = d0 + d1 - 2.0 * rise;
        g0 + s * (d0 + s * (c2 + s * c3))
    }
}

/// The table of Ĝ and its slopes, and ∫ C over the boxcar.
fn table(lobe: &Lobe) -> (Vec<[f64; 2]>, f64) {
    let step = 0.5 * BOXCAR / STEPS as f64;
    // D(v) at multiples of the step.
    let last = NODES - 1 + STEPS;
    let mut d = Vec::with_capacity(last + 1);
    let mut sum = 0.0;
    d.push(0.0);
    for i in 0..last {
        let cell: f64 =
            GAUSS.iter().map(|(x, weight)| weight * lobe.response((i as f64 + x) * step)).sum();
        sum += step * cell;
        d.push(sum);
    }
    let area = 2.0 * d[STEPS];
    // D is odd.
    let signed = |i: isize| if i < 0 { -d[i.unsigned_abs()] } else { d[i as usize] };
    let table = (0..NODES)
        .map(|i| {
            let u = i as f64 * step;
            let value = d[i + STEPS] - signed(i as isize - STEPS as isize);
            let slope = lobe.response(u + 0.5 * BOXCAR) - lobe.response(u - 0.5 * BOXCAR);
            [value / area, step * slope / area]
        })
        .collect();
    (table, area)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ g(t) cos(2πut/B), the definition.
    fn dtft(window: &Flat, u: f64) -> f64 {
        let nu = u / window.buckets as f64;
        (window.taps.iter().enumerate())
            .map(|(i, g)| g * (2.0 * PI * nu * (i as f64 - window.half as f64)).cos())
            .sum()
    }

    #[test]
    fn response_is_the_transform_of_the_taps() {
        for kind in [FlatKind::Kaiser, FlatKind::DolphChebyshev] {
            for leakage in [1e-8, 1e-6] {
                for buckets in [64, 256, 1024] {
                    let window = Flat::new(kind, leakage, buckets);
                    assert_eq!(window.taps.len() as u64, width(kind, leakage, buckets as u64));
                    let mut worst = 0.0f64;
                    for i in 0..=240 {
                        let u = i as f64 / 200.0 + 1e-3 * ((7 * i) % 11) as f64;
                        if u < 1.199 {
                            worst = worst.max((window.response(u) - dtft(&window, u)).abs());
                        }
                    }
                    assert!(
                        worst < 1e-9 + 0.01 * leakage,
                        "{kind:?} {leakage} {buckets}: {worst:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn flat_inside_and_small_outside() {
        for kind in [FlatKind::Kaiser, FlatKind::DolphChebyshev] {
            for leakage in [1e-8, 1e-6] {
                let window = Flat::new(kind, leakage, 256);
                assert!((window.response(0.0) - 1.0).abs() < 1e-9);
                assert!((window.response(0.1) - 1.0).abs() < 1e-4);
                let edge = window.response(0.5);
                assert!((EDGE_GAIN..1.0).contains(&edge), "{kind:?}: {edge}");
                // From the end of the transition to the other side of the circle.
                let mut worst = 0.0f64;
                for i in 0..4000 {
                    let u = 1.2 + i as f64 * (127.0 / 4000.0);
                    worst = worst.max(dtft(&window, u).abs());
                }
                assert!(worst < leakage, "{kind:?} {leakage}: {worst:e}");
                assert_eq!(window.response(1.3), 0.0);
                // White noise of unit power: about 1.1/B in a bucket.
                assert!((1.0..1.3).contains(&(256.0 * window.energy)));
            }
        }
    }
}
