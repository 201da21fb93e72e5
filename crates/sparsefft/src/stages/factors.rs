//! estimate: a small Hermitian matrix as L·D·Lᴴ, and its equations; several side by side.

use crate::cpu::wide::Vector;
use crate::stages::locate::{C, conj, multiply_add, scale_each};

/// The factors of a positive matrix.
pub(crate) struct Factors<V, const M: usize> {
    lower: [[C<V>; M]; M],
    /// D⁻¹.
    pub(crate) inverse: [V; M],
    /// The least of D.
    pub(crate) least: V,
}

impl<V: Vector, const M: usize> Factors<V, M> {
    /// Of the matrix only what stands on the diagonal and below it is looked at.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn new(matrix: [[C<V>; M]; M]) -> Self {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let (mut lower, mut inverse) = ([[(zero, zero); M]; M], [zero; M]);
        // The factor times D.
        let mut scaled = lower;
        let mut least = matrix[0][0].0;
        for i in 0..M {
            let mut own = matrix[i][i].0;
            for j in 0..i {
                let mut sum = matrix[i][j];
                for k in 0..j {
                    let minus = (-scaled[i][k].0, -scaled[i][k].1);
                    sum = multiply_add(minus, conj(lower[j][k]), sum);
                }
                scaled[i][j] = sum;
                lower[i][j] = scale_each(sum, inverse[j]);
                let share = lower[i][j].0 * sum.0 + lower[i][j].1 * sum.1;
                own = own - share;
            }
            inverse[i] = one.div(own);
            least = own.where_or(own.below(least), least);
        }
        Factors { lower, inverse, least }
    }

    /// L⁻¹x.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn forward(&self, mut x: [C<V>; M]) -> [C<V>; M] {
        for i in 0..M {
            for k in 0..i {
                let minus = (-self.lower[i][k].0, -self.lower[i][k].1);
                x[i] = multiply_add(minus, x[k], x[i]);
            }
        }
        x
    }

    /// The solution for this right side.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn solve(&self, x: [C<V>; M]) -> [C<V>; M] {
        let mut x = self.forward(x);
        for i in (0..M).rev() {
            x[i] = scale_each(x[i], self.inverse[i]);
            for k in i + 1..M {
                let minus = (-self.lower[k][i].0, -self.lower[k][i].1);
                x[i] = multiply_add(conj(minus), x[k], x[i]);
            }
        }
        x
    }
}
