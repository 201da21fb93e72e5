//! Laws of the transform, over random signals: linearity, shift, modulation, conjugation,
//! scaling. Fixed seed, so that a failure can be repeated.

mod common;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sparsefft::{Algorithm, Noise, Plan, Problem, Spectrum};
use std::collections::BTreeMap;
use testkit::{C64, Rng, Signal, Tone, generate, oracle, tolerance};

const LENGTHS: [u64; 7] = [1 << 10, 1 << 14, 1 << 17, 3 << 12, 10_007, 59_049, 100_000];

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        rng_seed: RngSeed::Fixed(0x5eed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A length, a number of tones, a seed, and an algorithm.
fn setting() -> impl Strategy<Value = (u64, u64, u64, Algorithm)> {
    let algorithm =
        prop::sample::select(vec![Algorithm::Auto, Algorithm::Exact, Algorithm::Robust]);
    (prop::sample::select(LENGTHS.to_vec()), 1u64..30, any::<u64>(), algorithm)
}

fn transform(tones: &[Tone], n: u64, algorithm: Algorithm) -> Spectrum {
    let signal = Signal::new(n, tones.to_vec());
    let problem = Problem::new(n).sparsity(tones.len() as u64).algorithm(algorithm);
    let plan = Plan::new(problem.noise(Noise::Exact)).unwrap();
    plan.transform(&signal.samples()).unwrap()
}

/// Fails unless two spectra are the same up to the tolerance for exact coefficients.
fn same(spectrum: &Spectrum, expected: &BTreeMap<u64, C64>) -> Result<(), TestCaseError> {
    prop_assert!(spectrum.certificate().is_reliable(), "{}", spectrum.certificate());
    let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
    let wanted: Vec<u64> = expected.keys().copied().collect();
    prop_assert_eq!(found, wanted);
    let energy: f64 = expected.values().map(|v| v.norm_sqr()).sum();
    let rms = (energy / expected.len() as f64).sqrt();
    for p in spectrum.peaks() {
        let error = (p.value - expected[&p.index]).norm();
        prop_assert!(error <= 2.0 * tolerance::EXACT * rms.max(p.magnitude()), "{}", error);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn linearity((n, k, seed, algorithm) in setting(), re in -2.0..2.0f64, im in -2.0..2.0f64) {
        let mut rng = Rng::new(seed);
        let factor = C64::new(re, im + 3.0);
        let x = generate::random(&mut rng, n, k);
        let y = generate::random(&mut rng, n, k);
        let mut sum: BTreeMap<u64, C64> = BTreeMap::new();
        for t in &x {
            *sum.entry(t.f).or_default() += t.a;
        }
        for t in &y {
            *sum.entry(t.f).or_default() += factor * t.a;
        }
        let tones: Vec<Tone> = sum.iter().map(|(&f, &a)| Tone { f, a }).collect();
        let (tx, ty) = (transform(&x, n, algorithm), transform(&y, n, algorithm));
        let mut expected: BTreeMap<u64, C64> = BTreeMap::new();
        for p in tx.peaks() {
            *expected.entry(p.index).or_default() += p.value;
        }
        for p in ty.peaks() {
            *expected.entry(p.index).or_default() += factor * p.value;
        }
        same(&transform(&tones, n, algorithm), &expected)?;
    }

    #[test]
    fn shift((n, k, seed, algorithm) in setting()) {
        // y[t] = x[t - s] has Y[f] = X[f] e^{-2πi fs/n}.
        let mut rng = Rng::new(seed);
        let s = rng.below(n);
        let tones = generate::random(&mut rng, n, k);
        let mut y = Signal::new(n, tones.clone()).samples();
        y.rotate_right(s as usize);
        let plan = Plan::new(Problem::new(n).sparsity(k).algorithm(algorithm)).unwrap();
        let expected = transform(&tones, n, algorithm)
            .peaks()
            .iter()
            .map(|p| (p.index, p.value * oracle::root(p.index as u128 * s as u128, n).conj()))
            .collect();
        same(&plan.transform(&y).unwrap(), &expected)?;
    }

    #[test]
    fn modulation((n, k, seed, algorithm) in setting()) {
        // y[t] = x[t] e^{2πi gt/n} has Y[f + g] = X[f].
        let mut rng = Rng::new(seed);
        let g = rng.below(n);
        let tones = generate::random(&mut rng, n, k);
        let mut y = Signal::new(n, tones.clone()).samples();
        for (t, v) in (0u64..).zip(&mut y) {
            *v *= oracle::root(g as u128 * t as u128, n);
        }
        let plan = Plan::new(Problem::new(n).sparsity(k).algorithm(algorithm)).unwrap();
        let expected = transform(&tones, n, algorithm)
            .peaks()
            .iter()
            .map(|p| ((p.index + g) % n, p.value))
            .collect();
        same(&plan.transform(&y).unwrap(), &expected)?;
    }

    #[test]
    fn conjugation((n, k, seed, algorithm) in setting()) {
        // y = conj x has Y[f] = conj X[-f].
        let tones = generate::random(&mut Rng::new(seed), n, k);
        let y: Vec<C64> =
            Signal::new(n, tones.clone()).samples().iter().map(|v| v.conj()).collect();
        let plan = Plan::new(Problem::new(n).sparsity(k).algorithm(algorithm)).unwrap();
        let expected = transform(&tones, n, algorithm)
            .peaks()
            .iter()
            .map(|p| ((n - p.index) % n, p.value.conj()))
            .collect();
        same(&plan.transform(&y).unwrap(), &expected)?;
    }

    #[test]
    fn real_signals_have_symmetric_spectra_to_the_last_bit((n, k, seed, algorithm) in setting()) {
        let tones = generate::conjugate_pairs(&mut Rng::new(seed), n, k);
        let x: Vec<f64> =
            Signal::new(n, tones.clone()).into_real().samples().iter().map(|v| v.re).collect();
        let problem = Problem::new(n).sparsity(tones.len() as u64).algorithm(algorithm);
        let spectrum = Plan::new(problem).unwrap().transform(&x).unwrap();
        let expected = tones.iter().map(|t| (t.f, t.a * n as f64)).collect();
        same(&spectrum, &expected)?;
        for p in spectrum.peaks() {
            prop_assert_eq!(spectrum.value((n - p.index) % n), p.value.conj());
        }
    }

    #[test]
    fn scaling((n, k, seed, algorithm) in setting(), power in -300i32..300) {
        // Powers of two scale without rounding: far from overflow nothing else may change.
        let tones = generate::random(&mut Rng::new(seed), n, k);
        let factor = 2f64.powi(power);
        let y: Vec<C64> = Signal::new(n, tones.clone()).samples().iter().map(|v| v * factor).collect();
        let plan = Plan::new(Problem::new(n).sparsity(k).algorithm(algorithm)).unwrap();
        let expected = transform(&tones, n, algorithm)
            .peaks()
            .iter()
            .map(|p| (p.index, p.value * factor))
            .collect();
        same(&plan.transform(&y).unwrap(), &expected)?;
    }

    #[test]
    fn the_energy_is_accounted_for((n, k, seed, algorithm) in setting()) {
        // Parseval: Σ|X|² = n Σ|x|².
        let tones = generate::random(&mut Rng::new(seed), n, k);
        let x = Signal::new(n, tones.clone()).samples();
        let spectrum = transform(&tones, n, algorithm);
        let left: f64 = spectrum.peaks().iter().map(|p| p.value.norm_sqr()).sum();
        let right = n as f64 * tolerance::norm(&x).powi(2);
        prop_assert!((left / right - 1.0).abs() < 1e-8, "{} {}", left, right);
        prop_assert!(spectrum.certificate().residual_energy < 1e-12);
    }
}
