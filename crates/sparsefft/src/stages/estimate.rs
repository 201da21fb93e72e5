//! estimate: values of known frequencies, by least squares.
//!
//! A bin holds U\[lane\] = Σ a_i p_i\[lane\] + noise with known phasors p_i; the values a solve the
//! normal equations, with two steps of iterative refinement so that nearly parallel phasors cost
//! no digits. Where frequencies share bins of several hashes, [`polish`] solves for all of them at
//! once by conjugate gradients on the same equations.

use crate::Complex;
use crate::samples::Line;
use crate::stages::hash::{Hash, Reach, tone};
use crate::stages::peel::Coefficient;
use crate::stages::unity::Unity;

/// Most frequencies that are fitted in one bin.
pub(crate) const MAX_FIT: usize = 12;

/// Least-squares fit of `m` phasor rows (each as long as `data`) to `data`.
///
/// Returns the residual energy, or `None` where the phasors are dependent. Values go to `values`.
pub(crate) fn fit(
    phasors: &[Complex<f64>],
    data: &[Complex<f64>],
    values: &mut [Complex<f64>],
) -> Option<f64> {
    let (m, lanes) = (values.len(), data.len());
    debug_assert!(m <= MAX_FIT && phasors.len() == m * lanes);
    let row = |i: usize| &phasors[i * lanes..(i + 1) * lanes];
    // Cholesky factor of the Gram matrix, lower triangle.
    let mut factor = [[Complex::ZERO; MAX_FIT]; MAX_FIT];
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
                factor[i][i] = Complex::new(sum.re.sqrt(), 0.0);
            } else {
                factor[i][j] = sum / factor[j][j].re;
            }
        }
    }
    values.fill(Complex::ZERO);
    let mut energy = 0.0;
    for _ in 0..3 {
        let mut right = [Complex::ZERO; MAX_FIT];
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
    Some(energy)
}

/// One frequency in one hash: where it shows, and its unit tone at every line.
struct Trace {
    reach: Reach,
    lines: Vec<Line>,
}

/// Improves all amplitudes jointly: minimises Σ_h |residual_h|²/floor_h over the hashes by
/// conjugate gradients, and leaves the residuals as those of the improved amplitudes. Stops when
/// the squared gradient has fallen to `goal` of its first value.
///
/// The residuals must be those of `known` on entry. Columns are scaled to unit norm, so the number
/// of steps depends on collisions alone: a dozen where tones are apart.
pub(crate) fn polish(
    known: &mut [Coefficient],
    hashes: &mut [&mut Hash],
    floors: &[f64],
    unity: Unity,
    steps: usize,
    goal: f64,
) {
    let weights: Vec<f64> = floors.iter().map(|f| 1.0 / f.max(f64::MIN_POSITIVE)).collect();
    let best = weights.iter().cloned().fold(0.0, f64::max);
    let weights: Vec<f64> = weights.iter().map(|w| w / best).collect();
    let traces: Vec<Vec<Trace>> = hashes
        .iter()
        .map(|h| {
            let trace = |c: &Coefficient| Trace {
                reach: h.reach(c.f),
                lines: h.offsets.iter().map(|&d| tone(unity, c.f, c.z, Complex::ONE, d)).collect(),
            };
            known.iter().map(trace).collect()
        })
        .collect();
    let norms: Vec<f64> = (0..known.len())
        .map(|i| {
            let per_hash = traces.iter().zip(&weights).map(|(t, w)| {
                let gains: f64 = t[i].reach.iter().map(|(_, g)| g * g).sum();
                w * gains * 4.0 * t[i].lines.len() as f64
            });
            per_hash.sum::<f64>().sqrt()
        })
        .collect();
    // Aᴴ W r, in scaled columns.
    let adjoint = |residuals: &[&[Line]], sizes: &[usize], out: &mut [Complex<f64>]| {
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum = Complex::ZERO;
            for (h, t) in traces.iter().enumerate() {
                let t = &t[i];
                for (j, line) in t.lines.iter().enumerate() {
                    for (b, gain) in t.reach.iter() {
                        let r = &residuals[h][j * sizes[h] + b];
                        sum += weights[h] * gain * inner(line, r);
                    }
                }
            }
            *out = sum / norms[i];
        }
    };
    let sizes: Vec<usize> = hashes.iter().map(|h| h.buckets).collect();
    let energy = |v: &[Complex<f64>]| v.iter().map(|v| v.norm_sqr()).sum::<f64>();
    let mut gradient = vec![Complex::ZERO; known.len()];
    let views: Vec<&[Line]> = hashes.iter().map(|h| h.residual.as_slice()).collect();
    adjoint(&views, &sizes, &mut gradient);
    let mut direction = gradient.clone();
    let (start, mut size) = (energy(&gradient), energy(&gradient));
    let mut images: Vec<Vec<Line>> =
        hashes.iter().map(|h| vec![Line::ZERO; h.residual.len()]).collect();
    for _ in 0..steps {
        if size <= goal * start || size == 0.0 {
            break;
        }
        let mut curvature = 0.0;
        for (h, image) in images.iter_mut().enumerate() {
            image.fill(Line::ZERO);
            for (i, t) in traces[h].iter().enumerate() {
                let p = direction[i] / norms[i];
                for (j, line) in t.lines.iter().enumerate() {
                    for (b, gain) in t.reach.iter() {
                        accumulate(&mut image[j * sizes[h] + b], line, p * gain);
                    }
                }
            }
            let all: f64 = image.iter().map(crate::stages::locate::line_energy).sum();
            curvature += weights[h] * all;
        }
        if curvature <= 0.0 {
            break;
        }
        let step = size / curvature;
        for (i, c) in known.iter_mut().enumerate() {
            c.a += direction[i] * (step / norms[i]);
        }
        for (hash, image) in hashes.iter_mut().zip(&images) {
            for (r, q) in hash.residual.iter_mut().zip(image) {
                for tau in 0..4 {
                    r.re[tau] -= step * q.re[tau];
                    r.im[tau] -= step * q.im[tau];
                }
            }
        }
        let views: Vec<&[Line]> = hashes.iter().map(|h| h.residual.as_slice()).collect();
        adjoint(&views, &sizes, &mut gradient);
        let next = energy(&gradient);
        let keep = next / size;
        for (d, g) in direction.iter_mut().zip(&gradient) {
            *d = g + *d * keep;
        }
        size = next;
    }
}

/// Σ_τ conj(a\[τ\])·b\[τ\].
#[inline]
fn inner(a: &Line, b: &Line) -> Complex<f64> {
    let (mut re, mut im) = (0.0, 0.0);
    for tau in 0..4 {
        re += a.re[tau] * b.re[tau] + a.im[tau] * b.im[tau];
        im += a.re[tau] * b.im[tau] - a.im[tau] * b.re[tau];
    }
    Complex::new(re, im)
}

/// to += p·line.
#[inline]
fn accumulate(to: &mut Line, line: &Line, p: Complex<f64>) {
    for tau in 0..4 {
        to.re[tau] += p.re * line.re[tau] - p.im * line.im[tau];
        to.im[tau] += p.re * line.im[tau] + p.im * line.re[tau];
    }
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
        let energy = fit(&phasors, &data, &mut values).unwrap();
        assert!(energy < 1e-28, "{energy}");
        for (v, t) in values.iter().zip(truth) {
            assert!((v - t).norm() < 1e-13);
        }
        // A fourth lane pattern that nothing explains is left over entirely.
        let mut two = [Complex::ZERO; 2];
        let left = fit(&phasors[..2 * lanes], &data, &mut two).unwrap();
        assert!(left > 1.0);
    }

    #[test]
    fn dependent_phasors_are_refused() {
        let phasors = [Complex::ONE; 8];
        assert!(fit(&phasors, &[Complex::ONE; 4], &mut [Complex::ZERO; 2]).is_none());
    }
}
