//! permute: the random order in which a hash walks through time, and where each frequency lands.
//!
//! Walking t → σt mod n with a unit σ moves frequency f to σf mod n. Over B buckets it then lies at
//! position P(f) = B·(σf mod n)/n, a real number: B need not divide n.

use crate::stages::number::{Rng, mul_mod};

/// A spectrum permutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permutation {
    pub(crate) n: u64,
    pub(crate) sigma: u64,
}

impl Permutation {
    /// The permutation number `stream` of a seed.
    pub(crate) fn random(n: u64, seed: u64, stream: u64) -> Self {
        Permutation { n, sigma: Rng::new(seed, stream).unit(n) }
    }

    /// The permutation of a hash that verifies. For powers of two its steps are multiples of four, so
    /// that the four samples of every line stand on one cache line, and P steps meet every sample of
    /// 4P in a row, modulo any power of two. Frequencies n/4 apart then share a position, but not
    /// their four samples.
    pub(crate) fn verifying(n: u64, seed: u64, stream: u64) -> Self {
        let random = Self::random(n, seed, stream);
        if n.is_power_of_two() && n >= 64 {
            Permutation { n, sigma: random.sigma % (n / 4) * 4 }
        } else {
            random
        }
    }

    /// Position of f among `buckets` buckets, in 0 ≤ P < buckets.
    #[inline(always)] // inherits the instruction set of its callers
    pub(crate) fn position(&self, f: u64, buckets: usize) -> f64 {
        let moved = if self.n <= 1 << 32 {
            if self.n.is_power_of_two() {
                (self.sigma * f) & (self.n - 1)
            } else {
                self.sigma * f % self.n
            }
        } else {
            mul_mod(self.sigma, f, self.n)
        };
        // One rounding each in the conversion, the quotient and the product: at most 2^-51 B. The
        // quotient is the same for all frequencies.
        moved as i64 as f64 * (buckets as f64 / self.n as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_exact_and_spread() {
        let p = Permutation { n: (1 << 40) + 15, sigma: (1 << 39) + 3 };
        let expected = mul_mod(p.sigma, 123_456_789_012, p.n) as f64 / p.n as f64 * 64.0;
        assert!((p.position(123_456_789_012, 64) - expected).abs() < 1e-12);
        // Multiples of a large power of two, which a comb would put into one bin, spread out.
        let p = Permutation::random(1 << 22, 5, 1);
        let mut seen: Vec<usize> =
            (0..64).map(|i| p.position(i << 14, 64).floor() as usize).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 30, "{} buckets hit", seen.len());
    }

    /// Any impulse train of at most P samples' period is met by P/4 steps of four samples.
    #[test]
    fn verifying_steps_meet_every_residue() {
        for (n, seed) in [(1u64 << 10, 1), (1 << 22, 2), (1 << 40, 3)] {
            let p = Permutation::verifying(n, seed, 500);
            assert_eq!(p.sigma % 8, 4, "four times an odd number");
            for period in [4, 64, 256] {
                let mut met = vec![false; period as usize];
                for j in 0..period / 4 {
                    let first = mul_mod(p.sigma, j, n);
                    (0..4).for_each(|tau| met[((first + tau) % period) as usize] = true);
                }
                assert!(met.iter().all(|m| *m), "n {n} period {period}");
            }
        }
        assert_eq!(
            Permutation::verifying(1_000_003, 1, 500),
            Permutation::random(1_000_003, 1, 500)
        );
    }
}
