//! Integers and randomness: gcd, inverses mod n, lengths with small factors, the seeded generator.

/// SplitMix64: a portable stream, the same on every machine and backend.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream number `stream` of a seed; streams are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0 … bound-1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// A random unit mod n: the step of a spectrum permutation.
    pub(crate) fn unit(&mut self, n: u64) -> u64 {
        if n <= 2 {
            return 1;
        }
        loop {
            let candidate = 1 + self.below(n - 1);
            if gcd(candidate, n) == 1 {
                return candidate;
            }
        }
    }
}

/// Greatest common divisor.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// n without the prime factors that it shares with d.
pub(crate) fn coprime_part(mut n: u64, d: u64) -> u64 {
    loop {
        match gcd(n, d) {
            0 | 1 => return n,
            shared => n /= shared,
        }
    }
}

/// a·b mod n.
pub(crate) fn mul_mod(a: u64, b: u64, n: u64) -> u64 {
    ((a as u128 * b as u128) % n as u128) as u64
}

/// The inverse of a unit mod n.
pub(crate) fn inverse_mod(a: u64, n: u64) -> u64 {
    let (mut r0, mut r1) = (n as i128, (a % n) as i128);
    let (mut t0, mut t1) = (0i128, 1i128);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1) = (r1, r0 - q * r1);
        (t0, t1) = (t1, t0 - q * t1);
    }
    t0.rem_euclid(n as i128) as u64
}

/// Divisors of n of the form 2^a 3^b 5^c within lo..=hi, in rising order.
pub(crate) fn smooth_divisors(n: u64, lo: u64, hi: u64) -> Vec<u64> {
    let powers = |p: u64, from: &[u64]| {
        let mut out = Vec::new();
        for &d in from {
            let mut d = d;
            loop {
                out.push(d);
                if d > hi / p || !n.is_multiple_of(d * p) {
                    break;
                }
                d *= p;
            }
        }
        out
    };
    let mut divisors = powers(5, &powers(3, &powers(2, &[1])));
    divisors.retain(|d| (lo..=hi).contains(d));
    divisors.sort_unstable();
    divisors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_inverses() {
        let mut rng = Rng::new(1, 0);
        for n in [1, 2, 3, 4, 97, 1 << 20, 1_000_003, (1 << 50) - 27, 2 * 3 * 5 * 7 * 11 * 13] {
            for _ in 0..50 {
                let a = rng.unit(n);
                assert_eq!(gcd(a, n), 1);
                assert_eq!(mul_mod(a, inverse_mod(a, n), n), 1 % n);
            }
        }
    }

    #[test]
    fn coprime_parts_share_nothing() {
        for (n, d, rest) in [(1 << 22, 256, 1), (995_328, 256, 243), (995_328, 6, 1), (35, 6, 35)] {
            assert_eq!(coprime_part(n, d), rest, "{n} without {d}");
        }
    }

    #[test]
    fn smooth_divisors_are_all_found() {
        for n in [1u64, 7, 360, 1 << 12, 1_000_000, 2 * 3 * 7 * 11] {
            let expected: Vec<u64> = (1..=n.min(2000))
                .filter(|d| {
                    let mut r = *d;
                    for p in [2, 3, 5] {
                        while r.is_multiple_of(p) {
                            r /= p;
                        }
                    }
                    r == 1 && n.is_multiple_of(*d)
                })
                .collect();
            assert_eq!(smooth_divisors(n, 1, 2000), expected, "n = {n}");
        }
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(3, 9);
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }
}
