//! estimate: values of known frequencies, by least squares.
//!
//! A bin holds U\[lane\] = Σ a_i p_i\[lane\] + noise with known phasors p_i; the values a solve the
//! normal equations, with two steps of iterative refinement so that nearly parallel phasors cost
//! no digits. Where frequencies share bins of several hashes, [`corrections`] solves for all of them
//! at once: the same normal equations, whose matrix is sparse because few frequencies share bins.

use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;
use crate::samples::Line;
use crate::stages::hash::{Hash, Reach, tone};
use crate::stages::locate::base;
use crate::stages::peel::Coefficient;
use crate::stages::unity::Unity;

/// Most frequencies that are fitted in one bin.
pub(crate) const MAX_FIT: usize = 12;

/// Least-squares fit of `m` phasor rows (each as long as `data`) to `data`.
///
/// Returns the residual energy and the least share of a phasor that the others do not cover, or
/// `None` where the phasors are dependent. Values go to `values`.
pub(crate) fn fit(
    phasors: &[Complex<f64>],
    data: &[Complex<f64>],
    values: &mut [Complex<f64>],
) -> Option<(f64, f64)> {
    // Most bins hold few, and a large matrix would take longer to clear than theirs to solve.
    if values.len() <= 4 {
        fit_some::<4>(phasors, data, values)
    } else {
        fit_some::<MAX_FIT>(phasors, data, values)
    }
}

/// [`fit`] of at most `MOST` rows.
fn fit_some<const MOST: usize>(
    phasors: &[Complex<f64>],
    data: &[Complex<f64>],
    values: &mut [Complex<f64>],
) -> Option<(f64, f64)> {
    let (m, lanes) = (values.len(), data.len());
    debug_assert!(m <= MOST && phasors.len() == m * lanes);
    let row = |i: usize| &phasors[i * lanes..(i + 1) * lanes];
    // Cholesky factor of the Gram matrix, lower triangle.
    let mut factor = [[Complex::ZERO; MOST]; MOST];
    let mut apart = 1.0f64;
    for i in 0..m {
        for j in 0..=i {
            let mut sum: Complex<f64> = row(i).iter().zip(row(j)).map(|(a, b)| a.conj() * b).sum();
            for (a, b) in factor[i].iter().zip(&factor[j]).take(j) {
                sum -= a * b.conj();
            }
            if i == j {
                if sum.re <= 1e-12 * lanes as f64 {
                    return None;
                }
                apart = apart.min(sum.re / lanes as f64);
                factor[i][i] = Complex::new(sum.re.sqrt(), 0.0);
            } else {
                factor[i][j] = sum / factor[j][j].re;
            }
        }
    }
    values.fill(Complex::ZERO);
    let mut energy = 0.0;
    for _ in 0..3 {
        let mut right = [Complex::ZERO; MOST];
        energy = 0.0;
        for (lane, &u) in data.iter().enumerate() {
            let model: Complex<f64> = (0..m).map(|i| values[i] * row(i)[lane]).sum();
            let rest = u - model;
            energy += rest.norm_sqr();
            for (i, r) in right[..m].iter_mut().enumerate() {
                *r += row(i)[lane].conj() * rest;
            }
        }
        for i in 0..m {
            for k in 0..i {
                let known = right[k];
                right[i] -= factor[i][k] * known;
            }
            right[i] /= factor[i][i].re;
        }
        for i in (0..m).rev() {
            for k in i + 1..m {
                let known = right[k];
                right[i] -= factor[k][i].conj() * known;
            }
            right[i] /= factor[i][i].re;
        }
        for (v, d) in values.iter_mut().zip(&right) {
            *v += d;
        }
    }
    // The energy after the second step; the third changes only rounding.
    Some((energy, apart))
}

/// A hash as the joint fit sees it.
pub(crate) struct View<'a> {
    pub(crate) hash: &'a Hash,
    /// Weight of its lanes: the inverse of their noise power.
    pub(crate) weight: f64,
    /// For a comb, the residual of each coefficient's bin, line after line; window hashes keep
    /// their residual themselves.
    pub(crate) lines: &'a [Line],
    /// The first coefficient that it has a say in; those before are settled by other hashes.
    pub(crate) from: usize,
}

/// Buffers of [`corrections`].
#[derive(Debug, Default)]
pub(crate) struct Equations {
    reaches: Vec<Reach>,
    bases: Vec<Complex<f64>>,
    order: Vec<u32>,
    norms: Vec<f64>,
    /// Pairs that share bins, with the product of their columns.
    pairs: Vec<(u32, u32, Complex<f64>)>,
    right: Vec<Complex<f64>>,
    direction: Vec<Complex<f64>>,
    image: Vec<Complex<f64>>,
    /// The answer: what to add to each amplitude.
    pub(crate) change: Vec<Complex<f64>>,
}

/// The changes of all amplitudes that minimise Σ_h weight_h |residual_h|², by conjugate gradients
/// on the normal equations, left in `eq.change`. Stops when the squared gradient has fallen to
/// `goal` of its first value.
///
/// The residuals must be those of `known`. Columns are scaled to unit norm, so the number of steps
/// depends on collisions alone: a dozen where tones are apart.
pub(crate) fn corrections(
    known: &[Coefficient],
    views: &[View<'_>],
    unity: Unity,
    goal: f64,
    eq: &mut Equations,
) {
    /// Steps that nearly dependent columns may take.
    const STEPS: usize = 100;
    /// Square of a change that a value does not notice.
    const ROUNDING: f64 = 1e-31;
    let count = known.len();
    eq.norms.clear();
    eq.norms.resize(count, 0.0);
    eq.right.clear();
    eq.right.resize(count, Complex::ZERO);
    eq.pairs.clear();
    for view in views {
        correlate(known, view, unity, eq);
        couple(known, view, eq);
    }
    for norm in &mut eq.norms {
        *norm = norm.sqrt();
    }
    for (right, norm) in eq.right.iter_mut().zip(&eq.norms) {
        *right /= norm;
    }
    for (i, j, value) in &mut eq.pairs {
        *value /= eq.norms[*i as usize] * eq.norms[*j as usize];
    }
    let energy = |v: &[Complex<f64>]| v.iter().map(|v| v.norm_sqr()).sum::<f64>();
    eq.change.clear();
    eq.change.resize(count, Complex::ZERO);
    eq.direction.clone_from(&eq.right);
    let start = energy(&eq.right);
    // What is less than the rounding of the values does not change them.
    let values: f64 =
        known.iter().zip(&eq.norms).map(|(c, norm)| c.a.norm_sqr() * norm * norm).sum();
    let least = (goal * start).max(ROUNDING * values / count as f64);
    let mut size = start;
    for _ in 0..STEPS {
        if size <= least || size == 0.0 {
            break;
        }
        eq.image.clone_from(&eq.direction);
        for &(i, j, value) in &eq.pairs {
            let (i, j) = (i as usize, j as usize);
            eq.image[i] += value * eq.direction[j];
            eq.image[j] += value.conj() * eq.direction[i];
        }
        let curvature: f64 =
            eq.direction.iter().zip(&eq.image).map(|(d, q)| (d.conj() * q).re).sum();
        if curvature <= 0.0 {
            break;
        }
        let step = size / curvature;
        for i in 0..count {
            eq.change[i] += eq.direction[i] * step;
            eq.right[i] -= eq.image[i] * step;
        }
        let next = energy(&eq.right);
        let keep = next / size;
        for (d, r) in eq.direction.iter_mut().zip(&eq.right) {
            *d = r + *d * keep;
        }
        size = next;
    }
    for (change, norm) in eq.change.iter_mut().zip(&eq.norms) {
        *change /= norm;
    }
}

dispatch! {
    /// Adds a hash's part of the right-hand side, and notes where every coefficient shows.
    fn correlate(known: &[Coefficient], view: &View<'_>, unity: Unity, eq: &mut Equations)
        = correlate_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn correlate_body<const FMA: bool>(
    known: &[Coefficient],
    view: &View<'_>,
    unity: Unity,
    eq: &mut Equations,
) {
    let View { hash, weight, lines, from } = view;
    let offsets = &hash.offsets[..];
    // A comb is not peeled where its bins are fitted one by one: then its lines are given apart.
    let apart = !lines.is_empty();
    eq.reaches.clear();
    eq.bases.clear();
    for (i, c) in known.iter().enumerate().skip(*from) {
        let reach = hash.reach_wide::<FMA>(c.f);
        let mut sum = Complex::ZERO;
        for (j, &d) in offsets.iter().enumerate() {
            let base = base(unity, c.f, d);
            eq.bases.push(base);
            let line = tone::<FMA>(unity, c.f, c.z, base, 0);
            if apart {
                sum += inner(&line, &lines[i * offsets.len() + j]);
            } else {
                // All that it reaches, weighed, and then one product.
                let (mut re, mut im) = (F4::<FMA>::ZERO, F4::ZERO);
                for (b, gain) in reach.iter() {
                    let (rest, gain) = (&hash.residual[j * hash.buckets + b], F4::splat(gain));
                    (re, im) = (gain.mul_add(F4(rest.re), re), gain.mul_add(F4(rest.im), im));
                }
                sum += inner(&line, &Line { re: re.0, im: im.0 });
            }
        }
        let gains: f64 = reach.iter().map(|(_, g)| g * g).sum();
        eq.right[i] += weight * sum;
        eq.norms[i] += weight * gains * 4.0 * offsets.len() as f64;
        eq.reaches.push(reach);
    }
}

/// Adds the products of columns that share bins of a hash.
fn couple(known: &[Coefficient], view: &View<'_>, eq: &mut Equations) {
    let lines = view.hash.offsets.len();
    let size = view.hash.buckets;
    let from = view.from.min(known.len());
    let first = |eq: &Equations, i: u32| eq.reaches[i as usize - from].bins[0] as usize;
    let mut order = std::mem::take(&mut eq.order);
    order.clear();
    order.extend(from as u32..known.len() as u32);
    order.sort_unstable_by_key(|&i| first(eq, i));
    let count = order.len();
    for (at, &i) in order.iter().enumerate() {
        let a = eq.reaches[i as usize - from];
        for ahead in 1..count {
            // Past the end of the circle once around, so that no pair is met twice.
            let around = usize::from(at + ahead >= count);
            let j = order[at + ahead - around * count];
            let gap = first(eq, j) + around * size - first(eq, i);
            if gap >= a.count {
                break;
            }
            let b = &eq.reaches[j as usize - from];
            let overlap: f64 = a.gains[gap..a.count].iter().zip(b.gains).map(|(x, y)| x * y).sum();
            let w = known[i as usize].z.conj() * known[j as usize].z;
            let of = |i: u32| &eq.bases[(i as usize - from) * lines..][..lines];
            let bases: Complex<f64> = of(i).iter().zip(of(j)).map(|(x, y)| x.conj() * y).sum();
            let cross = (w * (w * (w + 1.0) + 1.0) + 1.0) * bases;
            eq.pairs.push((i, j, view.weight * overlap * cross));
        }
    }
    eq.order = order;
}

/// Σ_τ conj(a\[τ\])·b\[τ\].
#[inline(always)] // inherits the instruction set of its callers
fn inner(a: &Line, b: &Line) -> Complex<f64> {
    let (mut re, mut im) = (0.0, 0.0);
    for tau in 0..4 {
        re += a.re[tau] * b.re[tau] + a.im[tau] * b.im[tau];
        im += a.re[tau] * b.im[tau] - a.im[tau] * b.re[tau];
    }
    Complex::new(re, im)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_data_are_fitted_to_rounding() {
        let phases = [0.1f64, 0.17, 0.6];
        let lanes = 8;
        let phasors: Vec<_> = phases
            .iter()
            .flat_map(|p| {
                (0..lanes).map(move |t| Complex::cis(std::f64::consts::TAU * p * t as f64))
            })
            .collect();
        let truth = [Complex::new(1.0, 2.0), Complex::new(-1e-3, 0.0), Complex::new(0.0, 5.0)];
        let data: Vec<_> = (0..lanes)
            .map(|t| (0..3).map(|i| truth[i] * phasors[i * lanes + t]).sum::<Complex<f64>>())
            .collect();
        let mut values = [Complex::ZERO; 3];
        let (energy, apart) = fit(&phasors, &data, &mut values).unwrap();
        assert!(apart > 0.0 && apart < 1.0);
        assert!(energy < 1e-28, "{energy}");
        for (v, t) in values.iter().zip(truth) {
            assert!((v - t).norm() < 1e-13);
        }
        // A fourth lane pattern that nothing explains is left over entirely.
        let mut two = [Complex::ZERO; 2];
        let (left, _) = fit(&phasors[..2 * lanes], &data, &mut two).unwrap();
        assert!(left > 1.0);
    }

    #[test]
    fn dependent_phasors_are_refused() {
        let phasors = [Complex::ONE; 8];
        assert!(fit(&phasors, &[Complex::ONE; 4], &mut [Complex::ZERO; 2]).is_none());
    }
}
