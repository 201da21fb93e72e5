//! A taper means: the transform of w[t]·x[t], exactly as a dense FFT of the tapered signal.

mod common;

use sparsefft::{Algorithm, Plan, Problem, Taper, Verdict};
use std::f64::consts::TAU;
use testkit::tolerance::{self, assert_close};
use testkit::{C64, Rng, Signal, generate, oracle};

/// Modified Bessel function of order 0, by its series: every term is positive.
fn i0(x: f64) -> f64 {
    let (mut sum, mut term, mut j) = (1.0, 1.0, 1.0);
    while term > 1e-18 * sum {
        term *= (x / (2.0 * j)).powi(2);
        sum += term;
        j += 1.0;
    }
    sum
}

/// w[t], all of them periodic in n.
fn weight(taper: Taper, t: u64, n: u64) -> f64 {
    let turn = t as f64 / n as f64;
    match taper {
        Taper::None => 1.0,
        Taper::Hann => 0.5 - 0.5 * (TAU * turn).cos(),
        Taper::Blackman => 0.42 - 0.5 * (TAU * turn).cos() + 0.08 * (2.0 * TAU * turn).cos(),
        Taper::Kaiser(beta) => i0(beta * (1.0 - (2.0 * turn - 1.0).powi(2)).sqrt()) / i0(beta),
    }
}

fn tapered(x: &[C64], taper: Taper) -> Vec<C64> {
    let n = x.len() as u64;
    (0..).zip(x).map(|(t, v)| v * weight(taper, t, n)).collect()
}

const TAPERS: [Taper; 4] = [Taper::None, Taper::Hann, Taper::Blackman, Taper::Kaiser(9.0)];

#[test]
fn dense_tapers_the_signal() {
    let mut rng = Rng::new(701);
    for n in [1u64, 2, 15, 64, 1000, 1 << 14] {
        let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
        for taper in TAPERS {
            let problem = Problem::new(n).sparsity(n).algorithm(Algorithm::Dense).taper(taper);
            let spectrum = Plan::new(problem).unwrap().transform(&x).unwrap();
            let expected = oracle::dense(&tapered(&x, taper));
            // The window itself is accurate to a few roundings.
            let tol = 4.0 * tolerance::dense(n as usize);
            let what = format!("{taper:?}, n = {n}");
            assert_close(&spectrum.to_dense().unwrap(), &expected, tol, &what);
        }
    }
}

#[test]
fn tapered_tones_on_the_grid_keep_their_neighbours() {
    // Hann turns each tone into 3 coefficients, Blackman into 5: still exactly sparse.
    let mut rng = Rng::new(702);
    for n in [1u64 << 16, 1 << 20, 300_000] {
        let x = Signal::new(n, generate::random(&mut rng, n, 6)).samples();
        for (taper, width) in [(Taper::Hann, 3), (Taper::Blackman, 5)] {
            let k = 6 * width;
            let expected = oracle::dense(&tapered(&x, taper));
            let problem = Problem::new(n).sparsity(k).taper(taper);
            let spectrum = Plan::new(problem).unwrap().transform(&x).unwrap();
            let what = format!("{taper:?}, n = {n}, {}", spectrum.certificate());
            assert!(spectrum.certificate().is_certified(), "{what}");
            assert_close(&spectrum.to_dense().unwrap(), &expected, tolerance::EXACT, &what);
        }
    }
}

#[test]
fn tapered_tones_off_the_grid_hold_the_claims() {
    let mut rng = Rng::new(703);
    let n = 1u64 << 16;
    for taper in [Taper::Hann, Taper::Blackman, Taper::Kaiser(12.0)] {
        let tones = (0..3).map(|_| (rng.uniform() * n as f64, rng.phasor())).collect();
        let signal = Signal::off_grid(n, tones);
        let x = signal.samples();
        let truth = oracle::dense(&tapered(&x, taper));
        for k in [None, Some(12)] {
            let problem = Problem::new(n).taper(taper);
            let problem = if let Some(k) = k { problem.sparsity(k) } else { problem };
            let spectrum = Plan::new(problem).unwrap().transform(&x).unwrap();
            let asked = testkit::Asked { k, noise: testkit::NoiseHint::Unknown };
            let answer = common::answer(&spectrum);
            let opinion = testkit::judge::judge_dense(&signal, &truth, &asked, &answer);
            let what = format!("{taper:?}, k = {k:?}: {opinion}; {}", spectrum.certificate());
            assert_ne!(opinion.judgement, testkit::Judgement::WrongCertified, "{what}");
        }
    }
}

#[test]
fn no_taper_is_the_plain_transform() {
    let n = 1u64 << 14;
    let x = Signal::new(n, generate::random(&mut Rng::new(704), n, 6)).samples();
    let plain = Plan::new(Problem::new(n).sparsity(6)).unwrap().transform(&x).unwrap();
    let none = Plan::new(Problem::new(n).sparsity(6).taper(Taper::None)).unwrap();
    assert_eq!(none.transform(&x).unwrap().peaks(), plain.peaks());
    assert_ne!(plain.certificate().verdict, Verdict::Uncertified);
}
