//! Twiddle factors: e^{-2πi j/n}, any j < n, from two tables of about √n values.
//!
//! j = h·2^s + l, so e^{-2πi j/n} = H\[h\]·L\[l\]. The tables are computed in f64 with the angle
//! reduced to an eighth of a turn in integers; the product costs one rounding.

use num_complex::Complex;
use std::f64::consts::TAU;

/// e^{-2πi r/n} for r < n, to one rounding.
pub(crate) fn root(r: u64, n: u64) -> Complex<f64> {
    debug_assert!(r < n && n <= crate::MAX_LEN);
    // The nearest quarter turn, and what remains: at most an eighth, exact as a fraction.
    let quarter = (8 * r + n) / (2 * n);
    let rest = (4 * r) as i64 - (quarter * n) as i64;
    let (s, c) = (TAU * (rest as f64 / (4 * n) as f64)).sin_cos();
    match quarter % 4 {
        0 => Complex::new(c, -s),
        1 => Complex::new(-s, -c),
        2 => Complex::new(-c, s),
        _ => Complex::new(s, c),
    }
}

/// The n-th roots of unity as a product of two tables.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    shift: u32,
    high: Vec<Complex<f64>>,
    low: Vec<Complex<f64>>,
}

impl Roots {
    pub(crate) fn new(n: u64) -> Self {
        let shift = (u64::BITS - (n - 1).leading_zeros()).div_ceil(2);
        let low = (0..n.min(1 << shift)).map(|l| root(l, n)).collect();
        let high = (0..=(n - 1) >> shift).map(|h| root(h << shift, n)).collect();
        Roots { shift, high, low }
    }

    /// e^{-2πi j/n} for j < n.
    #[inline]
    pub(crate) fn get(&self, j: u64) -> Complex<f64> {
        let low = self.low[(j & ((1 << self.shift) - 1)) as usize];
        self.high[(j >> self.shift) as usize] * low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_exact_where_they_can_be_and_close_elsewhere() {
        assert_eq!(root(0, 1), Complex::new(1.0, 0.0));
        for n in [4u64, 12, 1 << 20] {
            assert_eq!(root(n / 4, n), Complex::new(0.0, -1.0));
            assert_eq!(root(n / 2, n).re, -1.0);
            assert_eq!(root(3 * n / 4, n), Complex::new(0.0, 1.0));
        }
        for n in [1u64, 2, 7, 1000, 65536, 1_000_003] {
            let roots = Roots::new(n);
            for i in 0..1000u64 {
                let r = i * i * 7919 % n;
                let one = root(r, n);
                assert!((one.norm() - 1.0).abs() < 3e-16);
                assert!((roots.get(r) - one).norm() < 5e-16, "n = {n}, r = {r}");
            }
        }
        // A third of a turn: cos = -1/2, sin = √3/2.
        let w = root(333_333, 999_999);
        assert!((w - Complex::new(-0.5, -(0.75f64.sqrt()))).norm() < 2e-16);
    }
}
