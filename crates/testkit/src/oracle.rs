//! Oracles, each judged by the one before: closed forms → naive DFT → radix 2 → RustFFT.
//!
//! All of them: X\[f\] = Σ x\[t\] e^{-2πi ft/n}.

use crate::C64;
use rustfft::FftPlanner;
use std::cell::RefCell;
use std::f64::consts::{PI, TAU};

/// e^{2πi p/n} with the phase reduced exactly, in integers.
pub fn root(p: u128, n: u64) -> C64 {
    let r = (p % n as u128) as u64;
    let signed = if r > n / 2 { -((n - r) as f64) } else { r as f64 };
    C64::cis(TAU * (signed / n as f64))
}

/// The definition; n² operations.
pub fn naive(x: &[C64]) -> Vec<C64> {
    let n = x.len() as u64;
    let roots: Vec<C64> = (0..n).map(|p| root(p as u128, n).conj()).collect();
    (0..n).map(|f| x.iter().zip(0..n).map(|(v, t)| v * roots[(f * t % n) as usize]).sum()).collect()
}

/// Iterative radix 2, decimation in time; the length is a power of two.
pub fn radix2(x: &[C64]) -> Vec<C64> {
    let n = x.len();
    assert!(n.is_power_of_two(), "radix 2 needs a power of two, not {n}");
    let bits = n.trailing_zeros();
    let reversed = |i: usize| if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
    let mut y: Vec<C64> = (0..n).map(|i| x[reversed(i)]).collect();
    let mut half = 1;
    while half < n {
        let twiddles: Vec<C64> =
            (0..half).map(|j| root(j as u128, 2 * half as u64).conj()).collect();
        for block in y.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), w) in low.iter_mut().zip(high).zip(&twiddles) {
                let t = *b * w;
                (*a, *b) = (*a + t, *a - t);
            }
        }
        half *= 2;
    }
    y
}

thread_local! {
    // Twiddles of long transforms cost more than the transforms; keep them.
    static PLANNER: RefCell<FftPlanner<f64>> = RefCell::new(FftPlanner::new());
}

/// RustFFT, forward, in place.
pub fn forward(x: &mut [C64]) {
    let plan = PLANNER.with_borrow_mut(|p| p.plan_fft_forward(x.len()));
    plan.process(x);
}

/// RustFFT, inverse without scale, in place: x\[t\] = Σ A\[f\] e^{+2πi ft/n}.
pub fn inverse(x: &mut [C64]) {
    let plan = PLANNER.with_borrow_mut(|p| p.plan_fft_inverse(x.len()));
    plan.process(x);
}

/// RustFFT, forward.
pub fn dense(x: &[C64]) -> Vec<C64> {
    let mut y = x.to_vec();
    forward(&mut y);
    y
}

/// A signal and its transform, both in closed form.
pub struct Closed {
    /// What it is.
    pub name: &'static str,
    /// The samples.
    pub signal: Vec<C64>,
    /// The transform.
    pub spectrum: Vec<C64>,
}

/// Transforms that are known without computing one.
pub fn closed_forms(n: u64) -> Vec<Closed> {
    let collect = |g: &dyn Fn(u64) -> C64| (0..n).map(g).collect::<Vec<_>>();
    let at = n / 3;
    let z = C64::new(0.6, 0.5);
    let mut forms = vec![
        Closed {
            name: "impulse",
            signal: collect(&|t| if t == at { z } else { C64::ZERO }),
            spectrum: collect(&|f| z * root(f as u128 * at as u128, n).conj()),
        },
        Closed {
            name: "constant",
            signal: collect(&|_| z),
            spectrum: collect(&|f| if f == 0 { z * n as f64 } else { C64::ZERO }),
        },
        Closed {
            name: "tone",
            signal: collect(&|t| z * root(at as u128 * t as u128, n)),
            spectrum: collect(&|f| if f == at { z * n as f64 } else { C64::ZERO }),
        },
        Closed {
            name: "ramp",
            signal: collect(&|t| C64::new(t as f64, 0.0)),
            spectrum: collect(&|f| {
                if f == 0 {
                    C64::new(n as f64 * (n - 1) as f64 / 2.0, 0.0)
                } else {
                    n as f64 / (root(f as u128, n).conj() - 1.0)
                }
            }),
        },
        Closed {
            name: "geometric",
            signal: collect(&|t| z.powu(t as u32)),
            spectrum: collect(&|f| {
                (C64::ONE - z.powu(n as u32)) / (C64::ONE - z * root(f as u128, n).conj())
            }),
        },
    ];
    if n.is_multiple_of(2) {
        forms.push(Closed {
            name: "chirp",
            signal: collect(&|t| chirp(t, n)),
            spectrum: collect(&|f| chirp_transform(f, n)),
        });
    }
    forms
}

/// e^{iπt²/n}, n even: all samples of one size, and so are all coefficients.
///
/// The phases of all samples fill the circle evenly, so that an error which is a function of the
/// phase, as the rounding of 2π is, adds up over them instead of averaging out. What the phase
/// lost in rounding is therefore put back to first order.
pub fn chirp(t: u64, n: u64) -> C64 {
    let r = (t as u128 * t as u128 % (2 * n) as u128) as u64;
    let whole = if r > n { -((2 * n - r) as f64) } else { r as f64 } / n as f64;
    let phase = PI * whole;
    /// π less its rounding.
    const PI_REST: f64 = 1.2246467991473532e-16;
    let rest = PI.mul_add(whole, -phase) + PI_REST * whole;
    C64::cis(phase) * C64::new(1.0, rest)
}

/// Coefficient f of the [`chirp`]: its own conjugate, turned and scaled (Gauss).
pub fn chirp_transform(f: u64, n: u64) -> C64 {
    (n as f64).sqrt() * C64::cis(PI / 4.0) * chirp(f, n).conj()
}

/// Transform of e^{2πi νt/n} for any real ν: the Dirichlet kernel.
pub fn dirichlet(nu: f64, f: u64, n: u64) -> C64 {
    let d = nu - f as f64;
    if d == 0.0 {
        return C64::new(n as f64, 0.0);
    }
    let turn = PI * d / n as f64;
    C64::cis(PI * d - turn) * ((PI * d).sin() / turn.sin())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance::{self, assert_close};
    use crate::{Complex, Rng};

    #[test]
    fn naive_reproduces_the_closed_forms() {
        for n in [1u64, 2, 3, 4, 5, 8, 12, 17, 60, 64, 101, 256] {
            for form in closed_forms(n) {
                let what = format!("{} at n = {n}", form.name);
                let tol = tolerance::naive(n as usize);
                assert_close(&naive(&form.signal), &form.spectrum, tol, &what);
            }
        }
    }

    #[test]
    fn dirichlet_is_the_transform_of_an_off_grid_tone() {
        let (n, nu) = (96u64, 13.37);
        let x: Vec<C64> = (0..n).map(|t| C64::cis(TAU * nu * t as f64 / n as f64)).collect();
        let closed: Vec<C64> = (0..n).map(|f| dirichlet(nu, f, n)).collect();
        assert_close(&closed, &naive(&x), 8.0 * tolerance::naive(n as usize), "dirichlet");
    }

    #[test]
    fn fast_transforms_agree_with_the_naive_one() {
        let mut rng = Rng::new(3);
        for n in [1usize, 2, 4, 6, 7, 16, 30, 97, 128, 1000, 1024] {
            let x: Vec<Complex<f64>> = (0..n).map(|_| rng.gaussian()).collect();
            let reference = naive(&x);
            let tol = tolerance::naive(n);
            assert_close(&dense(&x), &reference, tol, "RustFFT");
            if n.is_power_of_two() {
                assert_close(&radix2(&x), &reference, tol, "radix 2");
            }
        }
    }

    #[test]
    fn two_fast_transforms_agree_where_the_naive_one_is_too_slow() {
        let mut rng = Rng::new(4);
        for n in [1usize << 14, 1 << 18] {
            let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
            assert_close(&radix2(&x), &dense(&x), tolerance::dense(n), "radix 2 and RustFFT");
            let mut back = dense(&x);
            inverse(&mut back);
            back.iter_mut().for_each(|v| *v /= n as f64);
            assert_close(&back, &x, 2.0 * tolerance::dense(n), "inverse");
        }
    }
}
