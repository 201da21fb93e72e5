//! window: the Kaiser window of the second stage and of lengths without a comb.
//!
//! Taps G(t) = c·I0(β√(1-(t/H)²)), |t| ≤ H, with c = β/(2H sinh β) so that the response is 1 at
//! its centre. Response at x buckets from the centre
//!
//! Ĝ(x) = (β/sinh β)·sinh(√A)/√A,  A = β² - (β²+π²)(x/[`HALF_WIDTH`])²,
//!
//! first null at x = [`HALF_WIDTH`], beyond which it stays below [`Kaiser::leak`]. Since positions
//! are decoded exactly, the response is known and divided out; flatness would buy nothing. A main
//! lobe of two buckets on each side (rather than one) keeps the gain at the worst place, half way
//! between two buckets, at 0.45 instead of 0.04 (β = 24) for the same number of taps.
//!
//! Both functions are entire and are summed as power series with positive terms, to full precision.
//! Where the response is needed often, a polynomial in y = 1 - x²/2, which runs from 1 at the centre to
//! -1 at the null, takes half the terms: Chebyshev's, as far as they matter.

use crate::cpu::wide::{F4, Vector};
use std::sync::LazyLock;

/// Distance of the first null from the centre, in buckets.
pub(crate) const HALF_WIDTH: f64 = 2.0;

/// Buckets that one frequency reaches: the nearest two on each side.
pub(crate) const REACH: usize = 4;

/// Shapes that are used, from short and leaky to long and tight.
pub(crate) const BETAS: [f64; 6] = [12.0, 16.0, 20.0, 24.0, 28.0, 32.0];

/// A Kaiser window for a given number of buckets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kaiser {
    /// The shape.
    pub(crate) beta: f64,
    /// Taps G(0), G(1), …; the window is symmetric.
    taps: Vec<f64>,
    /// Power-series coefficients of the response in A, highest first; an even number.
    #[cfg(feature = "cuda")]
    series: Vec<f64>,
    /// Coefficients of the response in y, highest first; an even number.
    terms: Vec<f64>,
    /// Coefficients of the gains in u², highest first; see [`gains`](Kaiser::gains).
    gains: Vec<[f64; 4]>,
    /// Σ G²: the noise power in a bucket is that of a sample times this.
    energy: f64,
    /// Bound of the response beyond the main lobe.
    leak: f64,
}

impl Kaiser {
    /// The window with shape β for B buckets.
    pub(crate) fn new(beta: f64, buckets: usize) -> Self {
        let half = half_length(beta, buckets);
        let top = beta.sinh() / beta;
        // Terms A^k/(2k+1)! until they fall below rounding at A = β².
        let mut series = vec![1.0 / top];
        let mut term = 1.0;
        for k in 1.. {
            let k = k as f64;
            term *= beta * beta / ((2.0 * k) * (2.0 * k + 1.0));
            if term < 1e-18 * top {
                break;
            }
            series.push(series[series.len() - 1] / ((2.0 * k) * (2.0 * k + 1.0)));
        }
        if series.len() % 2 == 1 {
            series.push(0.0);
        }
        series.reverse();
        let response = |a: f64| series.iter().fold(0.0, |sum, c| a.mul_add(sum, *c));
        let terms = economised(|y| response(beta * beta - slope(beta) * 2.0 * (1.0 - y)), ROUNDING);
        let at = |x: f64| response(beta * beta - slope(beta) * x * x);
        let small = (1e-3 * leak(beta)).max(ROUNDING);
        let gains = gains([0.5, 1.5].map(|x| economised(|v| at(x + 0.5 * v), small)));
        let scale = beta / (2.0 * half * beta.sinh());
        let taps: Vec<f64> = (0..=half.floor() as usize)
            .map(|t| {
                let x = t as f64 / half;
                (1.0 - x * x).max(0.0)
            })
            .collect();
        let mut taps = taps;
        BesselI0::new(beta).each(&mut taps, scale);
        let energy = 2.0 * taps.iter().map(|g| g * g).sum::<f64>() - taps[0] * taps[0];
        Kaiser {
            beta,
            taps,
            #[cfg(feature = "cuda")]
            series,
            terms,
            gains,
            energy,
            leak: leak(beta),
        }
    }

    /// Number of taps on each side of the centre.
    pub(crate) fn reach(&self) -> usize {
        self.taps.len() - 1
    }

    /// G(t), G(-t) for t = 0, 1, …
    pub(crate) fn taps(&self) -> &[f64] {
        &self.taps
    }

    /// Σ G².
    pub(crate) fn energy(&self) -> f64 {
        self.energy
    }

    /// Coefficients of the response in A, highest first, with β² and the slope of A in x²: for
    /// kernels that evaluate it themselves.
    #[cfg(feature = "cuda")]
    pub(crate) fn polynomial(&self) -> (&[f64], f64, f64) {
        (&self.series, self.beta * self.beta, slope(self.beta))
    }

    /// Bound of the response beyond the main lobe.
    pub(crate) fn leak(&self) -> f64 {
        self.leak
    }

    /// Ĝ at these distances (in buckets), zero outside the main lobe.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn response<const FMA: bool>(&self, x: F4<FMA>) -> F4<FMA> {
        let y = (x * x).mul_add(F4::splat(-2.0 / HALF_WIDTH.powi(2)), F4::splat(1.0));
        let square = y * y;
        // Odd and even powers apart: two chains of half the length hide each other's latency.
        let (mut odd, mut even) = (F4::ZERO, F4::ZERO);
        for &[c, d] in self.terms.as_chunks::<2>().0 {
            odd = odd.mul_add(square, F4::splat(c));
            even = even.mul_add(square, F4::splat(d));
        }
        odd.mul_add(y, even).where_small(x, HALF_WIDTH)
    }

    /// Ĝ at the distances -3/2 - u, -1/2 - u, 1/2 - u, 3/2 - u for |u| ≤ 1/2, to a thousandth of what leaks:
    /// the gains of the buckets that a frequency reaches. As Ĝ is even, those of -u are the same from the
    /// other end, so that even and odd powers of u serve two each.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn gains<V: Vector>(&self, u: V) -> [V; REACH] {
        let square = u * u;
        let mut sums = [V::splat(0.0); 4];
        for c in &self.gains {
            for i in 0..4 {
                sums[i] = sums[i].mul_add(square, V::splat(c[i]));
            }
        }
        let [near, near_odd, far, far_odd] = sums;
        [
            far_odd.mul_add(u, far),
            near_odd.mul_add(u, near),
            near_odd.negate_mul_add(u, near),
            far_odd.negate_mul_add(u, far),
        ]
    }

    /// Ĝ at distances of up to one bucket.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn near<V: Vector>(&self, x: V) -> V {
        let u = x.abs() - V::splat(0.5);
        let square = u * u;
        let mut sums = [V::splat(0.0); 2];
        for c in &self.gains {
            for i in 0..2 {
                sums[i] = sums[i].mul_add(square, V::splat(c[i]));
            }
        }
        sums[1].mul_add(u, sums[0])
    }

    /// [`gains`](Kaiser::gains) of one frequency.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn gains_of_one<const FMA: bool>(&self, u: f64) -> F4<FMA> {
        let square = F4::<FMA>::splat(u * u);
        let mut sums = F4::<FMA>::ZERO;
        for c in &self.gains {
            sums = sums.mul_add(square, F4(*c));
        }
        let [near, near_odd, far, far_odd] = sums.0;
        let odd = F4([far_odd, near_odd, -near_odd, -far_odd]);
        odd.mul_add(F4::splat(u), F4([far, near, near, far]))
    }
}

/// What is left out of a polynomial that is good to rounding.
const ROUNDING: f64 = 1e-16;

/// The coefficients of two polynomials in v = 2u, highest first, as those of even and odd powers of u.
fn gains(of: [Vec<f64>; 2]) -> Vec<[f64; 4]> {
    let count = of.iter().map(|terms| terms.len() / 2).max().unwrap_or(0);
    let mut gains = vec![[0.0; 4]; count];
    for (which, terms) in of.iter().enumerate() {
        for (power, term) in terms.iter().rev().enumerate() {
            gains[count - 1 - power / 2][2 * which + power % 2] = term * 2f64.powi(power as i32);
        }
    }
    gains
}

/// How fast A falls with x².
fn slope(beta: f64) -> f64 {
    (beta * beta + std::f64::consts::PI.powi(2)) / HALF_WIDTH.powi(2)
}

/// The polynomial, highest coefficient first and an even number of them, that is f on [-1, 1], where f is
/// entire and at most 1: Chebyshev's sum without shares that are too small to matter, in powers. Its
/// coefficients here add up to hardly more than 1, so nothing cancels.
fn economised(f: impl Fn(f64) -> f64, small: f64) -> Vec<f64> {
    /// Nodes; the widest of the windows has 26 terms above rounding.
    const NODES: usize = 40;
    /// cos(πi/2N): nodes have odd i, and angles add up in whole numbers.
    static COSINES: LazyLock<[f64; 4 * NODES]> = LazyLock::new(|| {
        let turn = std::f64::consts::FRAC_PI_2 / NODES as f64;
        std::array::from_fn(|i| (turn * i as f64).cos())
    });
    let cosines = &*COSINES;
    let values: Vec<f64> = (0..NODES).map(|j| f(cosines[2 * j + 1])).collect();
    let share = |m: usize| {
        let at = |j: usize| cosines[(2 * j + 1) * m % (4 * NODES)];
        let sum: f64 = values.iter().enumerate().map(|(j, value)| value * at(j)).sum();
        sum * if m == 0 { 1.0 } else { 2.0 } / NODES as f64
    };
    let shares: Vec<f64> = (0..NODES).map(share).collect();
    let count = shares.iter().rposition(|s| s.abs() > small).map_or(1, |last| last + 1);
    let mut terms = vec![0.0; count.next_multiple_of(2)];
    let (mut before, mut now) = (vec![0.0; terms.len()], vec![0.0; terms.len()]);
    now[0] = 1.0;
    for (m, share) in shares[..count].iter().enumerate() {
        for (term, t) in terms.iter_mut().zip(&now) {
            *term += share * t;
        }
        // T_1 = y, then T_{m+1} = 2y T_m - T_{m-1}: whole numbers.
        let twice = if m == 0 { 1.0 } else { 2.0 };
        for i in (0..terms.len()).rev() {
            let next = twice * if i > 0 { now[i - 1] } else { 0.0 } - before[i];
            before[i] = now[i];
            now[i] = next;
        }
    }
    terms.reverse();
    terms
}

/// Half length H of the window in samples.
fn half_length(beta: f64, buckets: usize) -> f64 {
    let pi = std::f64::consts::PI;
    (beta * beta + pi * pi).sqrt() * buckets as f64 / (2.0 * pi * HALF_WIDTH)
}

/// Number of taps of the window, without making it.
pub(crate) fn length(beta: f64, buckets: usize) -> usize {
    2 * half_length(beta, buckets).floor() as usize + 1
}

/// Bound of the side lobes: the peak of the continuous window is 0.22 β/sinh β; sampling its edge
/// adds up to a third (tested against the taps).
pub(crate) fn leak(beta: f64) -> f64 {
    0.29 * beta / beta.sinh()
}

/// The shortest window that leaks at most this much.
pub(crate) fn beta_for(leakage: f64) -> f64 {
    static LEAKS: LazyLock<[f64; BETAS.len()]> = LazyLock::new(|| BETAS.map(leak));
    BETAS[LEAKS.iter().position(|&leak| leak <= leakage).unwrap_or(BETAS.len() - 1)]
}

/// Modified Bessel function I0, by its power series: all terms are positive.
pub(crate) fn bessel_i0(x: f64) -> f64 {
    let q = 0.25 * x * x;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > 1e-18 * sum {
        term *= q / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

/// I0(β√y) as a power series in y: at β = 24 some 50 terms give it to rounding, without a division, and
/// eight places at a time.
pub(crate) struct BesselI0 {
    /// (β²/4)^k/k!², highest power first.
    terms: Vec<f64>,
}

impl BesselI0 {
    pub(crate) fn new(beta: f64) -> Self {
        let q = 0.25 * beta * beta;
        let (mut sum, mut terms) = (1.0, vec![1.0]);
        for k in 1.. {
            let term = terms[k - 1] * q / (k * k) as f64;
            sum += term;
            terms.push(term);
            if term < 1e-18 * sum {
                break;
            }
        }
        terms.reverse();
        BesselI0 { terms }
    }

    /// Puts scale·I0(β√y) in place of each y, 0 … 1.
    pub(crate) fn each(&self, y: &mut [f64], scale: f64) {
        let (eight, rest) = y.as_chunks_mut::<8>();
        for eight in eight {
            let mut sums = [0.0; 8];
            for term in &self.terms {
                for (sum, y) in sums.iter_mut().zip(&*eight) {
                    *sum = *sum * y + term;
                }
            }
            *eight = sums.map(|sum| scale * sum);
        }
        for y in rest {
            *y = scale * self.terms.iter().fold(0.0, |sum, term| sum * *y + term);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_the_function() {
        for beta in [0.0, 0.3, 2.0, 14.0, 24.0, 40.0] {
            for count in [1, 8, 29] {
                let y: Vec<f64> = (0..count).map(|i| i as f64 / count as f64).collect();
                let mut all = y.clone();
                BesselI0::new(beta).each(&mut all, 3.0);
                for (y, value) in y.iter().zip(all) {
                    let expected = 3.0 * bessel_i0(beta * y.sqrt());
                    assert!((value / expected - 1.0).abs() < 1e-14, "{beta} {y}: {value}");
                }
            }
        }
    }

    #[test]
    fn bessel_has_known_values() {
        assert!((bessel_i0(0.0) - 1.0).abs() < 1e-16);
        assert!((bessel_i0(1.0) - 1.266_065_877_752_008_4).abs() < 1e-15);
        assert!((bessel_i0(10.0) / 2_815.716_628_466_254 - 1.0).abs() < 1e-14);
    }

    #[test]
    fn the_short_polynomial_is_the_response() {
        for beta in BETAS {
            let window = Kaiser::new(beta, 64);
            assert!(window.terms.len() <= 26, "beta {beta}: {} terms", window.terms.len());
            for i in 0..=200 {
                let x = 0.00999 * i as f64;
                let a = beta * beta - slope(beta) * x * x;
                let ratio = if a >= 0.0 {
                    a.sqrt().sinh() / a.sqrt()
                } else {
                    (-a).sqrt().sin() / (-a).sqrt()
                };
                let error =
                    window.response::<false>(F4::splat(x)).0[0] - ratio * beta / beta.sinh();
                // In the formula, half a unit in the last place of A and of its root become β/2 and β of
                // sinh.
                assert!(error.abs() < 1.1e-16 * (4.0 + 1.5 * beta), "beta {beta} x {x}: {error:e}");
            }
        }
    }

    #[test]
    fn gains_are_responses() {
        for beta in BETAS {
            let window = Kaiser::new(beta, 64);
            assert!(window.gains.len() <= 12, "beta {beta}: {} terms", window.gains.len());
            for i in -50..=50 {
                let u = 0.01 * f64::from(i);
                let gains = window.gains(F4::<false>::splat(u)).map(|gain| gain.0[0]);
                assert_eq!(gains, window.gains_of_one::<false>(u).0);
                let x = F4([-1.5 - u, -0.5 - u, 0.5 - u, 1.5 - u]);
                for (gain, wanted) in gains.iter().zip(window.response::<false>(x).0) {
                    let error = gain - wanted;
                    assert!(
                        error.abs() < 2e-3 * window.leak() + 1e-15,
                        "beta {beta} u {u}: {error:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn response_is_the_dtft_of_the_taps() {
        for beta in BETAS {
            for buckets in [16usize, 64, 250] {
                let window = Kaiser::new(beta, buckets);
                assert_eq!(length(beta, buckets), 2 * window.reach() + 1);
                let dtft = |x: f64| {
                    let sum: f64 = window
                        .taps()
                        .iter()
                        .enumerate()
                        .skip(1)
                        .map(|(t, g)| {
                            g * (std::f64::consts::TAU * x * t as f64 / buckets as f64).cos()
                        })
                        .sum();
                    window.taps()[0] + 2.0 * sum
                };
                for i in 0..16 {
                    let x = 1.95 * i as f64 / 16.0;
                    let got = window.response::<false>(F4([x, -x, x, 0.0])).0;
                    let bound = 0.4 * window.leak() + 2e-13;
                    assert!((got[0] - dtft(x)).abs() < bound, "beta {beta} B {buckets} x {x}");
                    assert_eq!(got[0], got[1]);
                }
                for i in 0..40 {
                    let x = 2.0 + i as f64 * (buckets as f64 / 2.0 - 2.0) / 40.0;
                    assert!(dtft(x).abs() < window.leak() + 2e-14, "beta {beta} x {x}");
                }
            }
        }
    }
}
