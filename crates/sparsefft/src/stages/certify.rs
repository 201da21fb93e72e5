//! certify: what noise can do, and what it cannot.
//!
//! The energy of a bin that holds only noise, over M lanes of power s² each, is s² times a
//! Gamma(M) variable. [`threshold`] and [`quantile`] use the Wilson-Hilferty approximation
//! M(1 - 1/9M + z/3√M)³, whose tails are good enough at M = 4 where a normal one is not.

/// Energy, in units of s², that noise over `lanes` lanes exceeds with the probability of z
/// standard deviations.
#[inline]
pub(crate) fn threshold(lanes: usize, z: f64) -> f64 {
    let m = lanes as f64;
    let root = 1.0 - 1.0 / (9.0 * m) + z / (3.0 * m.sqrt());
    m * root.max(0.0).powi(3)
}

/// Energy, in units of s², below which noise over `lanes` lanes stays with probability p.
pub(crate) fn quantile(lanes: usize, p: f64) -> f64 {
    threshold(lanes, normal_quantile(p))
}

/// z with Φ(z) = p.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    -upper_quantile(p)
}

/// z with 1 - Φ(z) = p for 0 < p ≤ 1/2, also for p far below rounding of 1 - p.
pub(crate) fn upper_quantile(p: f64) -> f64 {
    // A start from the tail's leading terms, good to a few hundredths everywhere; each Halley step
    // on the logarithm of the tail then triples the digits.
    let l = (-2.0 * p.max(f64::MIN_POSITIVE).ln()).sqrt();
    let mut z = (l - (2.30753 + 0.27061 * l) / (1.0 + l * (0.99229 + 0.04481 * l))).max(0.0);
    for _ in 0..3 {
        let tail = upper_tail(z);
        let hazard = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() / tail;
        let miss = (tail / p).ln();
        // d/dz ln tail = -hazard, and its own derivative is -hazard·(hazard - z).
        z = (z + miss / (hazard + 0.5 * miss * (hazard - z))).max(0.0);
    }
    z
}

/// 1 - Φ(z) for z ≥ 0.
fn upper_tail(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    if z < 3.0 {
        // Φ by its alternating-free series: φ(z)·Σ z^(2k+1)/(1·3·5…(2k+1)).
        let (mut sum, mut term, mut k) = (z, z, 1.0);
        while term > 1e-17 * sum {
            term *= z * z / (2.0 * k + 1.0);
            sum += term;
            k += 1.0;
        }
        return 0.5 - density * sum;
    }
    // The continued fraction of Mills' ratio, which converges faster the larger z is.
    let mut fraction = z;
    for k in (1..24).rev() {
        fraction = z + k as f64 / fraction;
    }
    density / fraction
}

/// Noise power per lane from bin energies: their p-quantile over that of pure noise. `scratch` is
/// overwritten.
pub(crate) fn floor(energies: &[f64], lanes: usize, p: f64, scratch: &mut Vec<f64>) -> f64 {
    if energies.is_empty() {
        return 0.0;
    }
    scratch.clear();
    // A few thousand bins give the quantile to a per cent; more would only cost time.
    const ENOUGH: usize = 4096;
    let step = energies.len().div_ceil(ENOUGH);
    scratch.extend(energies.iter().step_by(step));
    let rank = ((scratch.len() as f64 * p) as usize).min(scratch.len() - 1);
    let value = *scratch.select_nth_unstable_by(rank, f64::total_cmp).1;
    value / quantile(lanes, p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;

    #[test]
    fn normal_quantiles_have_known_values() {
        for (p, z) in [(0.5, 0.0), (0.158_655_253_931_457, 1.0), (0.025, 1.959_963_984_540_054)] {
            assert!((upper_quantile(p) - z).abs() < 1e-9, "p = {p}");
        }
        assert!((upper_quantile(9.865_876_450_376_98e-10) - 6.0).abs() < 1e-6);
        assert!((normal_quantile(0.4) + 0.253_347_103_135_8).abs() < 1e-9);
    }

    #[test]
    fn noise_stays_below_the_threshold_as_often_as_promised() {
        // 200,000 draws at p = 1e-3: 200 expected; five standard deviations are 70.
        let mut rng = Rng::new(2, 7);
        let mut exponential =
            || -((rng.next() >> 11) as f64 + 0.5).mul_add(2f64.powi(-53), 0.0).ln();
        for lanes in [4usize, 12] {
            let draws: Vec<f64> =
                (0..200_000).map(|_| (0..lanes).map(|_| exponential()).sum()).collect();
            let limit = threshold(lanes, upper_quantile(1e-3));
            let above = draws.iter().filter(|e| **e > limit).count();
            assert!((130..270).contains(&above), "{lanes} lanes: {above} above");
            for p in [0.2, 0.4] {
                let s2 = floor(&draws, lanes, p, &mut Vec::new());
                assert!((s2 - 1.0).abs() < 0.05, "{lanes} lanes, p = {p}: {s2}");
            }
        }
    }
}
