//! A portable random generator: xoshiro256++ seeded by splitmix64.
//!
//! Written here so that a seed printed by a failing test means the same signal on every machine
//! and in every future version.

use crate::C64;
use std::collections::HashSet;
use std::f64::consts::TAU;

/// One step of splitmix64 from state z: a bijection that mixes all 64 bits.
pub fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A uniform number in (0, 1] from 64 random bits.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A complex Gaussian with E|z|² = 1 that depends on nothing but (seed, t).
pub fn hashed_gaussian(seed: u64, t: u64) -> C64 {
    let first = mix(seed ^ mix(t));
    let second = mix(first);
    let radius = (-unit(first).ln()).sqrt();
    C64::from_polar(radius, TAU * unit(second))
}

/// A seeded stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        let s = std::array::from_fn(|_| {
            let word = mix(z);
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            word
        });
        Rng { s }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.s;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c2, d2) = (c ^ a, d ^ b);
        self.s = [a ^ d2, b ^ c2, c2 ^ (b << 17), d2.rotate_left(45)];
        out
    }

    /// Uniform in 0 … n-1; n is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        // The bias of the plain multiplication is n/2^64.
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }

    /// Uniform in lo … hi-1.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo)
    }

    /// Uniform in (0, 1].
    pub fn uniform(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Complex Gaussian with E|z|² = 1.
    pub fn gaussian(&mut self) -> C64 {
        let radius = (-self.uniform().ln()).sqrt();
        C64::from_polar(radius, TAU * self.uniform())
    }

    /// A number on the unit circle.
    pub fn phasor(&mut self) -> C64 {
        C64::cis(TAU * self.uniform())
    }

    /// One of the given values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// k different numbers below n, in random order.
    pub fn distinct(&mut self, n: u64, k: u64) -> Vec<u64> {
        assert!(k <= n, "{k} different numbers below {n} do not exist");
        if k > n / 2 {
            let mut all: Vec<u64> = (0..n).collect();
            for i in 0..k {
                let j = self.between(i, n);
                all.swap(i as usize, j as usize);
            }
            all.truncate(k as usize);
            return all;
        }
        let mut seen = HashSet::new();
        let mut out = Vec::with_capacity(k as usize);
        while (out.len() as u64) < k {
            let f = self.below(n);
            if seen.insert(f) {
                out.push(f);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_follow_the_published_recurrence() {
        // xoshiro256++ from the state 1, 2, 3, 4: the first outputs of the reference code.
        let mut rng = Rng { s: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn moments_are_those_of_the_names() {
        let mut rng = Rng::new(1);
        let count = 100_000;
        let mean = (0..count).map(|_| rng.uniform()).sum::<f64>() / count as f64;
        assert!((mean - 0.5).abs() < 6.0 / (12.0 * count as f64).sqrt());
        let hashed: f64 = (0..count).map(|t| hashed_gaussian(7, t).norm_sqr()).sum();
        let power: f64 = (0..count).map(|_| rng.gaussian().norm_sqr()).sum();
        for p in [hashed, power] {
            assert!((p / count as f64 - 1.0).abs() < 6.0 / (count as f64).sqrt());
        }
        let sum: C64 = (0..count).map(|t| hashed_gaussian(7, t)).sum();
        assert!(sum.norm() < 6.0 * (count as f64).sqrt());
    }

    #[test]
    fn distinct_numbers_are_distinct() {
        let mut rng = Rng::new(2);
        for (n, k) in [(10, 10), (10, 3), (1 << 50, 100), (7, 0)] {
            let mut f = rng.distinct(n, k);
            f.sort_unstable();
            f.dedup();
            assert_eq!(f.len() as u64, k);
            assert!(f.iter().all(|&f| f < n));
        }
    }
}
