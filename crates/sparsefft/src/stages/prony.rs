//! locate: three or four frequencies of one bin, from eight shifts.
//!
//! Samples U\[t\] = Σ a_i z_i^t of m exponentials satisfy Σ_j c_j U\[t+j\] = 0 for every t, where the
//! c_j are the coefficients of the polynomial with the roots z_i. Eight neighbouring shifts give 8 - m
//! such equations for m unknowns (c_m = 1):
//!
//! 1. least squares by orthogonal columns, which keeps the digits that normal equations lose;
//! 2. the roots, all four at once, by Durand and Kerner's iteration;
//! 3. their phases are those of the frequencies.
//!
//! The caller snaps these to integers and judges by the residual of the fit.

use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;
use crate::stages::locate::{C, multiply_add, turns};

/// Shifts that are looked at.
pub(crate) const SHIFTS: usize = 8;
/// Most frequencies that they tell apart.
pub(crate) const MOST: usize = 4;
/// Share of a column that must be its own.
const INDEPENDENT: f64 = 1e-10;
/// Steps of the iteration; roots that are apart need a dozen.
const STEPS: usize = 60;

/// The phases, in turns per shift, of `m` (3 or 4) exponentials that eight samples are made of;
/// `None` where they are made of fewer.
pub(crate) fn several(u: &[Complex<f64>; SHIFTS], m: usize) -> Option<[f64; MOST]> {
    let c = prediction(u, m)?;
    let roots = roots(&c);
    Some(roots.map(turns))
}

/// The polynomial c_0 + c_1 z + … of degree four. Three exponentials get a fourth root of 2, which is
/// no phase of anything.
fn prediction(u: &[Complex<f64>; SHIFTS], m: usize) -> Option<[Complex<f64>; MOST + 1]> {
    let rows = SHIFTS - m;
    let mut columns = [[Complex::<f64>::ZERO; SHIFTS]; MOST];
    let mut right = [Complex::ZERO; SHIFTS];
    for t in 0..rows {
        for j in 0..m {
            columns[j][t] = u[t + j];
        }
        right[t] = -u[t + m];
    }
    // Orthogonal columns one after the other; what they share goes to the triangle.
    let mut triangle = [[Complex::ZERO; MOST]; MOST];
    let mut image = [Complex::ZERO; MOST];
    for j in 0..m {
        let before: f64 = u[j..j + rows].iter().map(|v| v.norm_sqr()).sum();
        let size: f64 = columns[j][..rows].iter().map(|v| v.norm_sqr()).sum();
        if size <= INDEPENDENT * INDEPENDENT * before {
            return None;
        }
        let inverse = 1.0 / size.sqrt();
        columns[j].iter_mut().for_each(|v| *v *= inverse);
        triangle[j][j] = Complex::new(size.sqrt(), 0.0);
        let unit = columns[j];
        for l in j + 1..m {
            triangle[j][l] = remove(&unit[..rows], &mut columns[l]);
        }
        image[j] = remove(&unit[..rows], &mut right);
    }
    let mut c = [Complex::ZERO; MOST + 1];
    for j in (0..m).rev() {
        let mut sum = image[j];
        for l in j + 1..m {
            sum -= triangle[j][l] * c[l];
        }
        c[j] = sum / triangle[j][j].re;
    }
    c[m] = Complex::ONE;
    if m < MOST {
        // Times z - 2.
        for j in (0..MOST).rev() {
            let lower = c[j];
            c[j + 1] = lower - 2.0 * c[j + 1];
        }
        c[0] *= -2.0;
    }
    Some(c)
}

/// Takes the part along `unit` out of a column, and returns it.
fn remove(unit: &[Complex<f64>], from: &mut [Complex<f64>; SHIFTS]) -> Complex<f64> {
    let share: Complex<f64> = unit.iter().zip(&*from).map(|(q, v)| q.conj() * v).sum();
    for (v, q) in from.iter_mut().zip(unit) {
        *v -= share * q;
    }
    share
}

dispatch! {
    /// The four roots of a polynomial of degree four with c_4 = 1.
    fn roots(c: &[Complex<f64>; MOST + 1]) -> [Complex<f64>; MOST] = roots_body
}

/// Each root's neighbour `by` places on.
#[inline(always)] // must inherit the instruction set of its caller
fn turned<const FMA: bool>(z: C<F4<FMA>>, by: usize) -> C<F4<FMA>> {
    let (re, im) = (z.0.0, z.1.0);
    let at = |i: usize| (i + by) % 4;
    (
        F4([re[at(0)], re[at(1)], re[at(2)], re[at(3)]]),
        F4([im[at(0)], im[at(1)], im[at(2)], im[at(3)]]),
    )
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn roots_body<const FMA: bool>(c: &[Complex<f64>; MOST + 1]) -> [Complex<f64>; MOST] {
    let zero = (F4::<FMA>::ZERO, F4::ZERO);
    // On the circle, at no symmetric places; the fourth is 2 where that is known.
    let mut z = (F4([0.96, -0.38, -0.87, 0.31]), F4([0.28, 0.92, -0.49, -0.95]));
    for _ in 0..STEPS {
        let mut p = (F4::splat(1.0), F4::ZERO);
        for c in c[..MOST].iter().rev() {
            p = multiply_add(p, z, (F4::splat(c.re), F4::splat(c.im)));
        }
        let mut apart = (F4::splat(1.0), F4::ZERO);
        for by in 1..4 {
            let other = turned::<FMA>(z, by);
            apart = multiply_add(apart, (z.0 - other.0, z.1 - other.1), zero);
        }
        let size = apart.0.mul_add(apart.0, apart.1 * apart.1).max(F4::splat(1e-200));
        let quotient = multiply_add(p, (apart.0, -apart.1), zero);
        let step = (quotient.0.div(size), quotient.1.div(size));
        z = (z.0 - step.0, z.1 - step.1);
        let moved = step.0.mul_add(step.0, step.1 * step.1);
        if moved.above_bits(F4::splat(1e-26)) == 0 {
            break;
        }
    }
    let mut roots = [Complex::ZERO; MOST];
    for (i, root) in roots.iter_mut().enumerate() {
        *root = Complex::new(z.0.0[i], z.1.0[i]);
    }
    // The one that stands for nothing comes last.
    roots.sort_by(|a, b| a.norm_sqr().total_cmp(&b.norm_sqr()));
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;

    #[test]
    fn three_and_four_phases_come_back() {
        let mut rng = Rng::new(8, 8);
        let mut uniform = || rng.next() as f64 / u64::MAX as f64;
        for trial in 0..400 {
            let m = 3 + trial % 2;
            let mut phases: Vec<f64> = (0..m).map(|_| uniform() - 0.5).collect();
            phases.sort_by(f64::total_cmp);
            let gap = |a: f64, b: f64| (a - b - (a - b).round()).abs();
            let apart = (0..m).all(|i| (0..i).all(|j| gap(phases[i], phases[j]) > 0.03));
            if !apart {
                continue;
            }
            let values: Vec<_> = (0..m)
                .map(|_| Complex::from_polar(0.5 + uniform(), std::f64::consts::TAU * uniform()))
                .collect();
            let mut u = [Complex::ZERO; SHIFTS];
            for (t, u) in u.iter_mut().enumerate() {
                for (a, p) in values.iter().zip(&phases) {
                    *u += a * Complex::cis(std::f64::consts::TAU * p * t as f64);
                }
            }
            let found = several(&u, m).unwrap();
            let mut found: Vec<f64> = found[..m].to_vec();
            found.sort_by(f64::total_cmp);
            for (a, b) in found.iter().zip(&phases) {
                assert!(gap(*a, *b) < 1e-8, "trial {trial}: {found:?} {phases:?}");
            }
            // One exponential more than there are has no answer.
            if m == 3 {
                assert!(several(&u, 4).is_none());
            }
        }
    }
}
