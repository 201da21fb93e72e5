//! certify: what noise can do, and what it cannot.
//!
//! The energy of a bin that holds only noise, over M lanes of power s² each, is s² times a
//! Gamma(M) variable. [`threshold`] and [`quantile`] use the Wilson-Hilferty approximation
//! M(1 - 1/9M + z/3√M)³, whose tails are good enough at M = 4 where a normal one is not.

use crate::cpu::dispatch;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::{F4, Vector};

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
    // A start from the tail's leading terms, good to three thousandths everywhere; a Halley step on
    // the logarithm of the tail then leaves 2e-9.
    let l = (-2.0 * p.max(f64::MIN_POSITIVE).ln()).sqrt();
    let z = (l - (2.30753 + 0.27061 * l) / (1.0 + l * (0.99229 + 0.04481 * l))).max(0.0);
    let tail = upper_tail(z);
    let hazard = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() / tail;
    let miss = (tail / p).ln();
    // d/dz ln tail = -hazard, and its own derivative is -hazard·(hazard - z).
    (z + miss / (hazard + 0.5 * miss * (hazard - z))).max(0.0)
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
    // A few thousand bins give the quantile to a per cent; more would only cost time.
    const ENOUGH: usize = 4096;
    let step = energies.len().div_ceil(ENOUGH);
    let some = if step == 1 {
        energies
    } else {
        scratch.clear();
        scratch.extend(energies.chunks(step).map(|chunk| chunk[0]));
        &scratch[..]
    };
    let rank = ((some.len() as f64 * p) as usize).min(some.len() - 1);
    // The quantile of a few thousand draws is itself uncertain by a per cent.
    ranked(some, rank, 0.0, 256) / quantile(lanes, p)
}

/// The number of this rank (0 is the smallest) among numbers of which none is negative, to one part
/// in `parts`, a power of two, if it is at least `least`; else `least`.
pub(crate) fn ranked(sample: &[f64], rank: usize, least: f64, parts: u32) -> f64 {
    // Numbers that are not negative are ordered as their bits are. Counting what is above three
    // borders at a time costs less than moving numbers about.
    const OCTAVE: u64 = 1 << 52;
    let (smallest, largest) = range(sample);
    let mut low = least.max(smallest).min(largest).to_bits();
    let mut high = largest.to_bits();
    // What is sought lies nearer to the smallest than to the largest: one, two or four octaves away.
    let mut away = match between(sample, rank) {
        Some(borders) => borders.map(|border| border.to_bits().saturating_sub(low)),
        None => [OCTAVE, 2 * OCTAVE, 4 * OCTAVE],
    };
    let enough = OCTAVE / u64::from(parts);
    while high - low > enough {
        let borders = away.map(|a| low.saturating_add(a).min(high));
        let above = above_three(sample, borders.map(f64::from_bits));
        let passed = above.iter().filter(|&&above| sample.len() - above <= rank).count();
        let ends = [low, borders[0], borders[1], borders[2], high];
        (low, high) = (ends[passed], ends[passed + 1]);
        let quarter = (high - low).div_ceil(4);
        away = [quarter, 2 * quarter, 3 * quarter];
    }
    f64::from_bits(low + (high - low) / 2)
}

/// Of many numbers: two that the number of this rank lies between as a rule, and their middle, by a part of
/// them.
fn between(sample: &[f64], rank: usize) -> Option<[f64; 3]> {
    const PART: usize = 256;
    if sample.len() < 8 * PART {
        return None;
    }
    let step = sample.len() / PART;
    let mut part = [0.0; PART];
    for (part, chunk) in part.iter_mut().zip(sample.chunks_exact(step)) {
        *part = chunk[0];
    }
    // Three standard deviations of the rank in the part, to either side.
    let share = (rank as f64 / sample.len() as f64).min(1.0);
    let middle = share * PART as f64;
    let more = 3.0 * (middle * (1.0 - share)).sqrt() + 1.0;
    let of = |rank: f64| ranked(&part, (rank.max(0.0) as usize).min(PART - 1), 0.0, 16);
    let (low, high) = (of(middle - more), of(middle + more));
    Some([low, 0.5 * (low + high), high])
}

dispatch_rows! {
    /// How many of these are above each of three limits.
    fn above_three(sample: &[f64], limits: [f64; 3]) -> [usize; 3] = above_three_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn above_three_body<const FMA: bool, R: Row>(sample: &[f64], limits: [f64; 3]) -> [usize; 3] {
    let (eight, rest) = sample.as_chunks::<8>();
    let (zero, one) = (R::Wide::splat(0.0), R::Wide::splat(1.0));
    let mut wide = [zero; 3];
    for (wide, limit) in wide.iter_mut().zip(limits) {
        *wide = R::Wide::splat(limit);
    }
    // Two sums each, so that none waits for the last.
    let mut counts = [[zero; 2]; 3];
    for (i, e) in eight.iter().enumerate() {
        for h in 0..8 / R::Wide::COUNT {
            let e = R::Wide::part(e, h);
            for k in 0..3 {
                let count = &mut counts[k][(i + h) % 2];
                *count = *count + one.where_or(wide[k].below(e), zero);
            }
        }
    }
    let mut out = [0; 3];
    for k in 0..3 {
        let sum = counts[k][0] + counts[k][1];
        for i in 0..R::Wide::COUNT / 4 {
            out[k] += F4::<FMA>(sum.four(i)).sum() as usize;
        }
    }
    for &e in rest {
        for k in 0..3 {
            out[k] += usize::from(e > limits[k]);
        }
    }
    out
}

dispatch! {
    /// The smallest and the largest of these, none of which is negative.
    fn range(sample: &[f64]) -> (f64, f64) = range_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn range_body<const FMA: bool>(sample: &[f64]) -> (f64, f64) {
    let (four, rest) = sample.as_chunks::<4>();
    let (mut least, mut most) = (F4::<FMA>::splat(-f64::INFINITY), F4::<FMA>::ZERO);
    for e in four {
        least = least.max(-F4(*e));
        most = most.max(F4(*e));
    }
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0f64);
    for (&a, &b) in least.0.iter().zip(&most.0) {
        (smallest, largest) = (smallest.min(-a), largest.max(b));
    }
    for &e in rest {
        (smallest, largest) = (smallest.min(e), largest.max(e));
    }
    (smallest, largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;

    #[test]
    fn ranks_are_those_of_sorted_numbers() {
        let mut rng = Rng::new(5, 0);
        for size in [1usize, 3, 64, 130, 512, 2048, 5000] {
            for spread in [0, 3, 40] {
                let mut sample: Vec<f64> = (0..size)
                    .map(|_| rng.next() as f64 * 2f64.powi(rng.below(spread + 1) as i32))
                    .collect();
                if spread == 40 {
                    sample[0] = 0.0;
                }
                let mut sorted = sample.clone();
                sorted.sort_by(f64::total_cmp);
                for rank in [0, size / 7, size / 2, size - 1] {
                    let exact = sorted[rank];
                    for parts in [64, 1024] {
                        let found = ranked(&sample, rank, 0.0, parts);
                        let bound = exact / f64::from(parts) + 1e-300;
                        assert!((found - exact).abs() <= bound, "{found} {exact}");
                    }
                    assert!(ranked(&sample, rank, exact / 2.0, 64) >= exact / 2.0);
                }
            }
        }
        assert_eq!(ranked(&[0.0; 8], 3, 0.0, 64), 0.0);
        // The numbers by which many are bracketed may be unlike the others.
        for odd in [0.0, 1e-30, 1e30] {
            let sample: Vec<f64> =
                (0..4096).map(|i| if i % 16 == 0 { odd } else { 1.0 + f64::from(i) }).collect();
            let mut sorted = sample.clone();
            sorted.sort_by(f64::total_cmp);
            for rank in [0, 100, 1228, 3000, 4095] {
                let found = ranked(&sample, rank, 0.0, 256);
                assert!((found - sorted[rank]).abs() <= sorted[rank] / 256.0, "{odd} {rank}");
            }
        }
    }

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

    /// Values of the error function, from a mathematics library, on both sides of where the series ends.
    #[test]
    fn tails_of_the_normal_distribution_have_known_values() {
        for (z, tail) in [
            (0.0, 0.5),
            (0.5, 0.308_537_538_725_986_9),
            (1.0, 0.158_655_253_931_457_07),
            (2.9, 1.865_813_300_384_038_4e-3),
            (2.999, 1.354_336_533_727_106_7e-3),
            (3.0, 1.349_898_031_630_095_7e-3),
            (3.001, 1.345_472_825_084_968_3e-3),
            (5.0, 2.866_515_718_791_946e-7),
            (8.0, 6.220_960_574_271_819e-16),
            (20.0, 2.753_624_118_606_331_4e-89),
        ] {
            assert!((upper_tail(z) / tail - 1.0).abs() < 1e-9, "{z}: {}", upper_tail(z));
        }
        for (p, z) in [
            (0.49, 0.025_068_908_258_710_99),
            (0.3, 0.524_400_512_708_040_8),
            (0.1, 1.281_551_565_544_600_4),
            (1e-3, 3.090_232_306_167_813),
            (1e-4, 3.719_016_485_455_680_4),
            (1e-8, 5.612_001_244_174_788),
            (1e-12, 7.034_483_825_301_132),
            (1e-100, 21.273_453_560_965_322),
            (1e-300, 37.047_096_299_361_2),
        ] {
            assert!((upper_quantile(p) - z).abs() < 5e-9, "{p}: {}", upper_quantile(p));
            assert!((normal_quantile(p) + z).abs() < 5e-9, "{p}");
            assert!(p < 1e-4 || (normal_quantile(1.0 - p) - z).abs() < 5e-9, "1 - {p}");
        }
        assert!(normal_quantile(0.5).abs() < 1e-12);
    }

    #[test]
    fn thresholds_are_those_of_wilson_and_hilferty() {
        for (lanes, z, energy) in [
            (4, 5.0, 23.544_667_352_537_722),
            (4, -1.0, 2.090_963_648_834_019_3),
            (12, 3.0, 25.131_386_645_570_917),
            (1, -9.0, 0.0),
            (1000, 6.0, 1_201.612_850_832_207_6),
        ] {
            assert!((threshold(lanes, z) - energy).abs() <= 1e-9 * energy, "{lanes} {z}");
        }
        assert!((quantile(4, 1.0 - 0.158_655_253_931_457) - threshold(4, 1.0)).abs() < 1e-7);
    }

    /// Floors of energies that are their own ranks: of all where they are few, else of every so many.
    #[test]
    fn floors_are_quantiles() {
        assert_eq!(floor(&[], 4, 0.3, &mut Vec::new()), 0.0);
        for size in [1usize, 10, 100, 4096, 4097, 10_000] {
            let energies: Vec<f64> = (0..size).map(|i| 1000.0 + i as f64).collect();
            let mut scratch = vec![5.0; 7];
            let step = size.div_ceil(4096);
            let some: Vec<f64> = energies.iter().copied().step_by(step).collect();
            for p in [0.01, 0.25, 0.75, 0.999_99] {
                let exact = some[(some.len() as f64 * p) as usize];
                let found = floor(&energies, 4, p, &mut scratch) * quantile(4, p);
                assert!((found / exact - 1.0).abs() < 1.0 / 256.0, "{size} {p}");
            }
        }
    }

    #[test]
    fn counts_and_extremes_are_exact_for_every_length() {
        let mut rng = Rng::new(6, 0);
        for size in [0usize, 1, 3, 4, 7, 8, 9, 16, 31, 64, 77] {
            let sample: Vec<f64> = (0..size).map(|_| rng.below(20) as f64).collect();
            let limits = [3.0, 10.0, 17.5];
            let above = limits.map(|limit| sample.iter().filter(|e| **e > limit).count());
            assert_eq!(above_three(&sample, limits), above, "{sample:?}");
            let smallest = sample.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = sample.iter().copied().fold(0.0, f64::max);
            assert_eq!(range(&sample), (smallest, largest), "{sample:?}");
        }
    }

    /// A few thousand numbers are bracketed by a part of them: the rank lies within, and not far away.
    #[test]
    fn ranks_of_many_lie_between_those_of_a_part() {
        let few: Vec<f64> = (0..2047).map(f64::from).collect();
        assert_eq!(between(&few, 5), None);
        let mut rng = Rng::new(8, 0);
        let mut sample: Vec<f64> = (0..8192).map(|i| 1000.0 + f64::from(i)).collect();
        for i in 0..sample.len() {
            sample.swap(i, rng.below(8192) as usize);
        }
        for rank in [400, 1000, 4096, 7800] {
            let [low, middle, high] = between(&sample, rank).unwrap();
            let exact = 1000.0 + rank as f64;
            // A sixteenth for the rank of the part; seven standard deviations of its places.
            assert!(low <= exact * 1.04 && exact <= high * 1.04, "{rank}: {low} {high}");
            assert_eq!(middle, 0.5 * (low + high));
            let share = rank as f64 / 8192.0;
            let deviation = 32.0 * ((256.0 * share * (1.0 - share)).sqrt() + 1.0);
            let away = 7.0 * deviation + exact / 8.0;
            assert!(exact - low < away && high - exact < away, "{rank}: {low} {high}");
        }
    }
}
