//! Small symmetric systems: Cholesky factors of a few dozen unknowns, no allocation in solves.

/// Factors a symmetric positive definite matrix (row by row) in place: its lower triangle becomes
/// the Cholesky factor. `false` if it is not positive definite.
pub(crate) fn factor(a: &mut [f64], size: usize) -> bool {
    for j in 0..size {
        for i in j..size {
            let mut sum = a[i * size + j];
            for m in 0..j {
                sum -= a[i * size + m] * a[j * size + m];
            }
            if i == j {
                if sum <= 0.0 || sum.is_nan() {
                    return false;
                }
                a[j * size + j] = sum.sqrt();
            } else {
                a[i * size + j] = sum / a[j * size + j];
            }
        }
    }
    true
}

/// Solves with the factor; `b` becomes the solution.
pub(crate) fn solve(factor: &[f64], size: usize, b: &mut [f64]) {
    for i in 0..size {
        for m in 0..i {
            b[i] -= factor[i * size + m] * b[m];
        }
        b[i] /= factor[i * size + i];
    }
    for i in (0..size).rev() {
        for m in i + 1..size {
            b[i] -= factor[m * size + i] * b[m];
        }
        b[i] /= factor[i * size + i];
    }
}

/// The inverse of a symmetric positive definite matrix; `a` is overwritten. The identity where
/// the matrix is not positive definite.
pub(crate) fn inverse(a: &mut [f64], size: usize) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    let definite = factor(a, size);
    let mut column = vec![0.0; size];
    for j in 0..size {
        column.fill(0.0);
        column[j] = 1.0;
        if definite {
            solve(a, size, &mut column);
        }
        for i in 0..size {
            out[i * size + j] = column[i];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_solved() {
        let a = [4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let mut f = a;
        assert!(factor(&mut f, 3));
        let mut x = [1.0, -2.0, 3.0];
        solve(&f, 3, &mut x);
        for i in 0..3 {
            let row: f64 = (0..3).map(|j| a[3 * i + j] * x[j]).sum();
            assert!((row - [1.0, -2.0, 3.0][i]).abs() < 1e-14);
        }
        assert!(!factor(&mut [1.0, 2.0, 2.0, 1.0], 2));
    }
}
