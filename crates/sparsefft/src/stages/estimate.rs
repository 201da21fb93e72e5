//! estimate: values of known frequencies, by least squares.
//!
//! A bin holds U\[lane\] = Σ a_i p_i\[lane\] + noise with known phasors p_i; the values a solve the
//! normal equations, with two steps of iterative refinement so that nearly parallel phasors cost
//! no digits.

use crate::Complex;

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
            for k in 0..j {
                sum -= factor[i][k] * factor[j][k].conj();
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
