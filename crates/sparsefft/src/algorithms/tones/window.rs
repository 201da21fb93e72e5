//! window: the Kaiser window over the lines of a comb, its response between the bins, and how it
//! colours the noise.
//!
//! Taps g_r = c·I0(β√(1-((r-B/2)/H)²)), H = (B-1)/2, g_0 = 0, c = β/(2H sinh β). A tone P - b bins
//! away is seen with the real gain
//!
//! Ĝ(x) = (β/sinh β)·sinh(√A)/√A,  A = β² - (πx(B-1)/B)²,
//!
//! first null at h = √(β²+π²)/π·B/(B-1) bins, below [`Window::leak`] beyond. White noise of power σ² per
//! sample gives every bin the power σ²Σg², with the correlation
//! R(d) = Σ g²cos(2π(r-B/2)d/B)/Σg² between bins d apart; [`Window::whitener`] is its inverse.

use crate::cpu::math::cis_turns;
use crate::cpu::wide::F4;
use crate::stages::window::bessel_i0;
use std::f64::consts::PI;
use std::sync::OnceLock;

/// Shapes in use, from wide-open to tight.
pub(crate) const BETAS: [f64; 5] = [14.0, 16.0, 18.0, 21.0, 24.0];

/// Most bins that one tone's footprint holds.
pub(crate) const MAX_FOOT: usize = 24;
/// Most bins that one joint fit spans.
pub(crate) const MAX_SPAN: usize = 64;

/// The window of one comb.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) beta: f64,
    pub(crate) bins: usize,
    /// g_r for r = 0 … B-1.
    pub(crate) taps: Vec<f64>,
    /// Power series of the response in A, highest term first, cut at a hundredth of the leak.
    series: Vec<f64>,
    /// (π(B-1)/B)².
    slope: f64,
    /// First null of the response, in bins.
    pub(crate) null: f64,
    /// Largest response beyond the main lobe.
    pub(crate) leak: f64,
    /// Σ g²: noise power in a bin over that in a sample.
    pub(crate) noise: f64,
    /// Bins on each side of a tone that are peeled.
    pub(crate) half: usize,
    correlation: Vec<f64>,
    whiteners: Vec<OnceLock<Vec<f64>>>,
}

/// The bins around a tone and how they see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foot {
    /// First bin, 0 … B-1; the footprint wraps at B.
    pub(crate) first: usize,
    /// Number of bins.
    pub(crate) count: usize,
    /// Ĝ(P - b).
    pub(crate) gain: [f64; MAX_FOOT],
    /// ∂Ĝ/∂P.
    pub(crate) slope: [f64; MAX_FOOT],
}

impl Window {
    /// The window of shape β for B bins; B is even and at least 16.
    pub(crate) fn new(beta: f64, bins: usize) -> Self {
        let half_length = (bins - 1) as f64 / 2.0;
        let centre = (bins / 2) as f64;
        let scale = beta / (2.0 * half_length * beta.sinh());
        let taps: Vec<f64> = (0..bins)
            .map(|r| {
                let x = (r as f64 - centre) / half_length;
                if x.abs() > 1.0 { 0.0 } else { scale * bessel_i0(beta * (1.0 - x * x).sqrt()) }
            })
            .collect();
        let leak = leak(beta);
        let top = beta.sinh() / beta;
        let mut series = vec![1.0 / top];
        let mut term = 1.0;
        for k in 1.. {
            let k = k as f64;
            term *= beta * beta / ((2.0 * k) * (2.0 * k + 1.0));
            if term < 1e-3 * leak * top && 2.0 * k > beta {
                break;
            }
            series.push(series[series.len() - 1] / ((2.0 * k) * (2.0 * k + 1.0)));
        }
        series.reverse();
        let noise: f64 = taps.iter().map(|g| g * g).sum();
        let correlation = correlation(beta, half_length / bins as f64);
        // A = -π².
        let null = (beta * beta + PI * PI).sqrt() / PI * bins as f64 / (bins - 1) as f64;
        Window {
            beta,
            bins,
            taps,
            series,
            slope: (PI * (bins - 1) as f64 / bins as f64).powi(2),
            null,
            leak,
            noise,
            half: ((null + 1.0).ceil() as usize).next_multiple_of(2).min(MAX_FOOT / 2),
            correlation,
            whiteners: (0..=MAX_SPAN).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Ĝ and its derivative at four distances.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn response<const FMA: bool>(&self, x: F4<FMA>) -> (F4<FMA>, F4<FMA>) {
        let a = (x * x).mul_add(F4::splat(-self.slope), F4::splat(self.beta * self.beta));
        let (mut p, mut d) = (F4::splat(0.0), F4::splat(0.0));
        for &c in &self.series {
            d = d.mul_add(a, p);
            p = p.mul_add(a, F4::splat(c));
        }
        (p, d * x * F4::splat(-2.0 * self.slope))
    }

    /// Second derivative of the response at one distance, by differences of the first.
    pub(crate) fn curvature(&self, x: f64) -> f64 {
        const STEP: f64 = 1e-3;
        let (_, d) = self.response::<false>(F4([x - STEP, x + STEP, x, x]));
        (d.0[1] - d.0[0]) / (2.0 * STEP)
    }

    /// The footprint of a tone at position P with this many bins, an even number, on each side.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn foot<const FMA: bool>(&self, position: f64, half: usize) -> Foot {
        let first = position.floor() as i64 + 1 - half as i64;
        let mut foot = Foot {
            first: first.rem_euclid(self.bins as i64) as usize,
            count: 2 * half,
            gain: [0.0; MAX_FOOT],
            slope: [0.0; MAX_FOOT],
        };
        let mut x = F4::<FMA>::splat(position - first as f64) - F4::COUNT;
        for at in (0..2 * half).step_by(4) {
            let (g, d) = self.response::<FMA>(x);
            foot.gain[at..at + 4].copy_from_slice(&g.0);
            foot.slope[at..at + 4].copy_from_slice(&d.0);
            x = x - F4::splat(4.0);
        }
        foot
    }

    /// The inverse of the correlation of this many neighbouring bins, row by row.
    pub(crate) fn whitener(&self, size: usize) -> &[f64] {
        self.whiteners[size].get_or_init(|| {
            let mut r = vec![0.0; size * size];
            for i in 0..size {
                for j in 0..size {
                    r[i * size + j] = self.correlation[i.abs_diff(j)];
                }
                // The correlation is singular to rounding for many bins of a tight window.
                r[i * size + i] += 1e-7;
            }
            super::linear::inverse(&mut r, size)
        })
    }
}

/// Largest response beyond the main lobe of shape β.
pub(crate) fn leak(beta: f64) -> f64 {
    0.22 * beta / beta.sinh()
}

/// R(d) for d = 0 … [`MAX_SPAN`]: a smooth integral, for which 256 points suffice whatever B is.
/// `reach` is H/B.
fn correlation(beta: f64, reach: f64) -> Vec<f64> {
    const NODES: usize = 256;
    let nodes: Vec<(f64, f64)> = (0..NODES)
        .map(|i| {
            let x = (2 * i + 1) as f64 / NODES as f64 - 1.0;
            (x, bessel_i0(beta * (1.0 - x * x).sqrt()).powi(2))
        })
        .collect();
    let total: f64 = nodes.iter().map(|(_, g)| g).sum();
    let at = |d: usize| {
        let angle = d as f64 * reach;
        nodes.iter().map(|(x, g)| g * cis_turns(angle * x).0).sum::<f64>() / total
    };
    (0..MAX_SPAN).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_and_derivative_are_those_of_the_taps() {
        for beta in BETAS {
            for bins in [64usize, 250, 1024] {
                let w = Window::new(beta, bins);
                let dtft = |x: f64| -> f64 {
                    let c = (bins / 2) as f64;
                    let angle = 2.0 * PI * x / bins as f64;
                    w.taps.iter().enumerate().map(|(r, g)| g * (angle * (r as f64 - c)).cos()).sum()
                };
                for i in 0..40 {
                    let x = (w.null + 1.0) * i as f64 / 40.0;
                    let (g, d) = w.response::<false>(F4::splat(x));
                    assert!((g.0[0] - dtft(x)).abs() < 0.6 * w.leak + 1e-13, "{beta} {bins} {x}");
                    let slope = (dtft(x + 1e-4) - dtft(x - 1e-4)) / 2e-4;
                    assert!((d.0[0] - slope).abs() < 4.0 * w.leak + 1e-9, "{beta} {bins} {x}");
                }
                let far = (0..60).map(|i| w.null + i as f64 * 0.4);
                let worst = far.map(|x| dtft(x).abs()).fold(0.0, f64::max);
                assert!(worst < 1.4 * w.leak + 1e-14, "{beta} {bins}: {worst} {}", w.leak);
            }
        }
    }

    #[test]
    fn whitener_inverts_the_correlation() {
        let w = Window::new(14.0, 256);
        let size = 12;
        let q = w.whitener(size);
        for i in 0..size {
            for j in 0..size {
                let dot: f64 = (0..size)
                    .map(|m| {
                        q[i * size + m]
                            * (w.correlation[m.abs_diff(j)] + if m == j { 1e-7 } else { 0.0 })
                    })
                    .sum();
                assert!((dot - if i == j { 1.0 } else { 0.0 }).abs() < 1e-6, "{i} {j} {dot}");
            }
        }
    }
}
