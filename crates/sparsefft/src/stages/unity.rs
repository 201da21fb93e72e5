//! Roots of unity: every phase of the library comes from here, reduced exactly in integers.

use crate::cpu::math::cis_turns;
use num_complex::Complex;

/// The n-th roots of unity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unity {
    n: u64,
    inverse: f64,
}

impl Unity {
    /// Roots of order n ≥ 1.
    pub fn new(n: u64) -> Self {
        Unity { n, inverse: 1.0 / n as f64 }
    }

    /// n.
    #[inline(always)] // a load
    pub(crate) fn order(&self) -> u64 {
        self.n
    }

    /// e^{2πi f t/n}, with f·t reduced mod n before rounding.
    #[inline(always)] // inherits the instruction set of vectorised callers
    pub fn power(&self, f: u64, t: u64) -> Complex<f64> {
        self.root(self.product(f, t))
    }

    /// f·t mod n.
    #[inline(always)] // as above
    pub(crate) fn product(&self, f: u64, t: u64) -> u64 {
        if self.n.is_power_of_two() {
            return f.wrapping_mul(t) & (self.n - 1);
        }
        match f.checked_mul(t) {
            Some(product) => product % self.n,
            None => ((f as u128 * t as u128) % self.n as u128) as u64,
        }
    }

    /// e^{2πi r/n} for r < n.
    #[inline(always)] // as above
    pub fn root(&self, r: u64) -> Complex<f64> {
        let (c, s) = cis_turns(r as f64 * self.inverse);
        Complex::new(c, s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_products_are_reduced_exactly() {
        let n = (1u64 << 45) + 59;
        let unity = Unity::new(n);
        let (f, t) = (n - 12345, n - 987_654_321);
        // (n-a)(n-b) = ab mod n.
        let r = (12345u128 * 987_654_321 % n as u128) as f64;
        let expected = Complex::cis(std::f64::consts::TAU * (r / n as f64));
        assert!((unity.power(f, t) - expected).norm() < 1e-14);
        assert_eq!(Unity::new(1).power(0, 17), Complex::new(1.0, 0.0));
    }
}
