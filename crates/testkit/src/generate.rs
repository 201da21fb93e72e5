//! Spectra: random, structured, adversarial. Each frequency occurs once.

use crate::signal::Tone;
use crate::{C64, Rng};

/// Amplitudes of magnitude 1 … 2 with random phases at the given frequencies.
fn at(rng: &mut Rng, frequencies: impl IntoIterator<Item = u64>) -> Vec<Tone> {
    frequencies.into_iter().map(|f| Tone { f, a: rng.phasor() * (1.0 + rng.uniform()) }).collect()
}

/// k tones anywhere.
pub fn random(rng: &mut Rng, n: u64, k: u64) -> Vec<Tone> {
    let f = rng.distinct(n, k);
    at(rng, f)
}

/// k tones in one residue class mod `modulus`: every comb that divides the modulus puts them
/// into one bin.
pub fn residue_class(rng: &mut Rng, n: u64, k: u64, modulus: u64) -> Vec<Tone> {
    let r = rng.below(modulus);
    let members = (n - r).div_ceil(modulus);
    let f = rng.distinct(members, k.min(members));
    at(rng, f.into_iter().map(|j| r + j * modulus))
}

/// k tones in arithmetic progression.
pub fn progression(rng: &mut Rng, n: u64, k: u64) -> Vec<Tone> {
    let step = rng.between(1, (n / k).max(2));
    let start = rng.below(n);
    at(rng, (0..k).map(|j| (start + j * step) % n))
}

/// Harmonics 1 … k of one fundamental, falling like 1/j.
pub fn harmonics(rng: &mut Rng, n: u64, k: u64) -> Vec<Tone> {
    let fundamental = rng.between(1, (n / (k + 1)).max(2));
    (1..=k).map(|j| Tone { f: (j * fundamental) % n, a: rng.phasor() / j as f64 }).collect()
}

/// `count` clusters of `width` neighbours.
pub fn clusters(rng: &mut Rng, n: u64, count: u64, width: u64) -> Vec<Tone> {
    let slots = n / width;
    let f = rng.distinct(slots, count.min(slots));
    let shift = rng.below(n);
    at(rng, f.into_iter().flat_map(|c| (0..width).map(move |j| (c * width + j + shift) % n)))
}

/// Random support, magnitudes log-uniform over `range`, the extremes included.
pub fn dynamic_range(rng: &mut Rng, n: u64, k: u64, range: f64) -> Vec<Tone> {
    let f = rng.distinct(n, k);
    f.into_iter()
        .enumerate()
        .map(|(i, f)| {
            let u = match i {
                0 => 0.0,
                1 => 1.0,
                _ => rng.uniform(),
            };
            Tone { f, a: rng.phasor() * range.powf(-u) }
        })
        .collect()
}

/// One tone of magnitude `range`, the others of magnitude 1.
pub fn one_huge(rng: &mut Rng, n: u64, k: u64, range: f64) -> Vec<Tone> {
    let mut tones = equal(rng, n, k);
    if let Some(t) = tones.first_mut() {
        t.a *= range;
    }
    tones
}

/// Random support, all magnitudes 1.
pub fn equal(rng: &mut Rng, n: u64, k: u64) -> Vec<Tone> {
    let f = rng.distinct(n, k);
    f.into_iter().map(|f| Tone { f, a: rng.phasor() }).collect()
}

/// The ends of the spectrum and the middle: 0, 1, n/2 and their neighbours.
pub fn ends(rng: &mut Rng, n: u64) -> Vec<Tone> {
    let mut f = vec![0, 1 % n, n / 2, (n / 2 + 1) % n, n - 1, n / 4];
    f.sort_unstable();
    f.dedup();
    at(rng, f)
}

/// Pairs f, f + n/2 and f, f + n/4, which no comb of fewer than n/2 or n/4 bins separates.
pub fn colliding_pairs(rng: &mut Rng, n: u64, pairs: u64) -> Vec<Tone> {
    let quarter = (n / 4).max(1);
    let base = rng.distinct(quarter, pairs.min(quarter));
    let mut f: Vec<u64> = base
        .into_iter()
        .flat_map(|b| {
            let first = b + quarter * rng.below(2);
            [first, (first + if rng.below(2) == 0 { n / 2 } else { quarter }) % n]
        })
        .collect();
    f.sort_unstable();
    f.dedup();
    at(rng, f)
}

/// `pairs` conjugate pairs f, n-f: the spectrum of a real signal, with the mean and the highest
/// frequency among them at times.
pub fn conjugate_pairs(rng: &mut Rng, n: u64, pairs: u64) -> Vec<Tone> {
    let half = n.div_ceil(2);
    let f = rng.distinct(half, pairs.min(half));
    let mut tones = Vec::new();
    for t in at(rng, f) {
        if t.f == 0 {
            tones.push(Tone { f: 0, a: C64::new(t.a.norm(), 0.0) });
        } else {
            tones.push(t);
            tones.push(Tone { f: n - t.f, a: t.a.conj() });
        }
    }
    if n.is_multiple_of(2) && rng.below(4) == 0 {
        tones.push(Tone { f: n / 2, a: C64::new(1.5, 0.0) });
    }
    tones
}

/// Compressible, not sparse: k tones that fall like j^-power.
pub fn decaying(rng: &mut Rng, n: u64, k: u64, power: f64) -> Vec<Tone> {
    let f = rng.distinct(n, k);
    f.into_iter()
        .enumerate()
        .map(|(j, f)| Tone { f, a: rng.phasor() * ((j + 1) as f64).powf(-power) })
        .collect()
}

/// Noise of standard deviation σ per sample, as a spectrum: Gaussian coefficients whose power
/// falls like 1/f to both sides of f = 0. All n of them, in order.
pub fn coloured(rng: &mut Rng, n: u64, sigma: f64) -> Vec<Tone> {
    let shape = |f: u64| 1.0 / (1 + f.min(n - f)) as f64;
    let total: f64 = (0..n).map(shape).sum();
    (0..n).map(|f| Tone { f, a: rng.gaussian() * sigma * (shape(f) / total).sqrt() }).collect()
}

/// Every amplitude times a number.
pub fn scaled(mut tones: Vec<Tone>, by: f64) -> Vec<Tone> {
    tones.iter_mut().for_each(|t| t.a *= by);
    tones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generator_gives_distinct_frequencies_below_n() {
        let mut rng = Rng::new(21);
        for n in [64u64, 100, 101, 1 << 20, 1 << 50] {
            let spectra = [
                random(&mut rng, n, 10),
                residue_class(&mut rng, n, 8, 4),
                progression(&mut rng, n, 8),
                harmonics(&mut rng, n, 8),
                clusters(&mut rng, n, 2, 10),
                dynamic_range(&mut rng, n, 10, 1e6),
                one_huge(&mut rng, n, 10, 1e6),
                ends(&mut rng, n),
                colliding_pairs(&mut rng, n, 5),
                conjugate_pairs(&mut rng, n, 5),
                decaying(&mut rng, n, 20, 1.0),
            ];
            for (i, tones) in spectra.into_iter().enumerate() {
                let mut f: Vec<u64> = tones.iter().map(|t| t.f).collect();
                f.sort_unstable();
                f.dedup();
                assert_eq!(f.len(), tones.len(), "generator {i} at n = {n}");
                assert!(f.iter().all(|&f| f < n));
                assert!(tones.iter().all(|t| t.a.norm() > 0.0));
            }
        }
    }

    #[test]
    fn the_dynamic_range_is_the_one_asked_for() {
        let tones = dynamic_range(&mut Rng::new(22), 1 << 20, 50, 1e6);
        let m: Vec<f64> = tones.iter().map(|t| t.a.norm()).collect();
        let (lo, hi) = m.iter().fold((f64::MAX, 0f64), |(l, h), &v| (l.min(v), h.max(v)));
        assert!((hi / lo / 1e6 - 1.0).abs() < 1e-9);
    }
}
