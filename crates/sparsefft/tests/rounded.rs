//! Signals as people make them: phases with a rounding error, samples rounded to f32 or integers.
//! Each holds thousands of tiny coefficients beside those that were asked for; the answer is still
//! sparse and certified.

use sparsefft::{Complex, Plan, Problem, Samples, Verdict};
use std::f64::consts::TAU;

const N: u64 = 1 << 20;

/// Frequencies without and with common factors with n, which make the rounding periodic.
const PAIRS: [[u64; 2]; 6] =
    [[1000, 5000], [77, 900_001], [65536, 49152], [12345, 67890], [100_000, 200_000], [3, 4]];

fn check(name: &str, pair: [u64; 2], signal: &impl Samples, expected: &[u64], tolerance: f64) {
    let plan = Plan::new(Problem::new(N).sparsity(expected.len() as u64)).unwrap();
    let s = plan.transform(signal).unwrap();
    let what = format!("{name}, {pair:?}: {}", s.certificate());
    assert_eq!(s.certificate().verdict, Verdict::Certified, "{what}");
    let found: Vec<u64> = s.peaks().iter().map(|p| p.index).collect();
    assert_eq!(found, expected, "{what}");
    for p in s.peaks() {
        let scale = if p.index == pair[0] || p.index == N - pair[0] { 1.0 } else { 0.5 };
        let scale = scale * s.top(1)[0].value.norm();
        assert!(
            (p.value.norm() / scale - 1.0).abs() < tolerance,
            "{what}: {} {}",
            p.index,
            p.value
        );
    }
    let read = s.report().samples_read;
    assert!(read < N / 20, "{what}: {read} samples read");
}

#[test]
fn rounded_signals_stay_sparse() {
    for pair in PAIRS {
        let [f, g] = pair;
        let mut expected = vec![f, g];
        expected.sort_unstable();
        let exact = |f: u64, t: u64| Complex::cis(TAU * ((f * t) % N) as f64 / N as f64);
        // The remainder forgotten: the phase is off by up to 1e-10 turns.
        let hasty = |f: u64, t: u64| Complex::cis(TAU * f as f64 * t as f64 / N as f64);
        let x: Vec<_> = (0..N).map(|t| exact(f, t) + 0.5 * exact(g, t)).collect();
        check("exact", pair, &x, &expected, 1e-9);
        let hasty: Vec<_> = (0..N).map(|t| hasty(f, t) + 0.5 * hasty(g, t)).collect();
        check("hasty phases", pair, &hasty, &expected, 1e-6);
        let single: Vec<_> = x.iter().map(|v| Complex::new(v.re as f32, v.im as f32)).collect();
        check("f32", pair, &single, &expected, 1e-6);
        let mut both = vec![f, g, N - f, N - g];
        both.sort_unstable();
        let integers: Vec<i16> = x.iter().map(|v| (20_000.0 * v.re).round() as i16).collect();
        check("i16", pair, &integers, &both, 1e-4);
    }
}

/// A pattern of few levels is no rounded signal: its values are exact, also where a comb does not see
/// it and a dense FFT has to follow.
#[test]
fn patterns_of_whole_numbers_are_exact() {
    let pattern = [0, 3, 3, 0, 3, 0, 0, 0];
    for n in [4096usize, 1 << 14] {
        let x: Vec<i32> = (0..n).map(|i| pattern[i % 8]).collect();
        let s = Plan::new(Problem::new(n as u64).sparsity(8)).unwrap().transform(&x).unwrap();
        let sum = s.peaks().iter().find(|p| p.index == 0).unwrap();
        let wanted = 9.0 * n as f64 / 8.0;
        assert!((sum.value.re / wanted - 1.0).abs() < 1e-12, "n {n}: {:?}", sum.value);
    }
}
