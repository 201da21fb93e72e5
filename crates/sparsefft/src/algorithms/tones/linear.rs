//! Small systems of a few dozen unknowns: triangular factors, no allocation in solves.
//!
//! The matrices have a positive definite symmetric part, so that no rows need to be exchanged.

/// Factors a matrix (row by row) in place: the lower triangle becomes L with ones on its diagonal,
/// the upper one U. `false` if a pivot is not positive.
#[inline(always)] // must inherit the size and the instruction set of its caller
pub(crate) fn factor(a: &mut [f64], size: usize) -> bool {
    for m in 0..size {
        let (above, below) = a.split_at_mut((m + 1) * size);
        let top = &above[m * size..];
        let pivot = top[m];
        if pivot <= 0.0 || pivot.is_nan() {
            return false;
        }
        for row in below.chunks_exact_mut(size) {
            let share = row[m] / pivot;
            row[m] = share;
            if share != 0.0 {
                for (v, u) in row[m + 1..].iter_mut().zip(&top[m + 1..]) {
                    *v -= share * u;
                }
            }
        }
    }
    true
}

/// Solves with the factors; `b` becomes the solution.
#[inline(always)] // must inherit the size and the instruction set of its caller
pub(crate) fn solve(factors: &[f64], size: usize, b: &mut [f64]) {
    for i in 0..size {
        for m in 0..i {
            b[i] -= factors[i * size + m] * b[m];
        }
    }
    for i in (0..size).rev() {
        for m in i + 1..size {
            b[i] -= factors[i * size + m] * b[m];
        }
        b[i] /= factors[i * size + i];
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
        let a = [4.0, 1.0, 0.5, 1.2, 3.0, -0.2, 0.4, -0.3, 2.0];
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
