//! The chain of oracles: closed forms → naive DFT → dense FFT → sparse.
//! The links before the library are tested in the kit; here the library joins.

mod common;

use sparsefft::{Algorithm, Plan, Problem, Verdict};
use testkit::tolerance::{self, assert_close};
use testkit::{C64, Rng, Signal, generate, oracle};

fn all_coefficients(x: &[C64]) -> Vec<C64> {
    let n = x.len() as u64;
    let plan = Plan::new(Problem::new(n).sparsity(n).algorithm(Algorithm::Dense)).unwrap();
    let spectrum = plan.transform(x).unwrap();
    assert_eq!(spectrum.certificate().verdict, Verdict::Dense);
    spectrum.to_dense().unwrap()
}

#[test]
fn dense_reproduces_the_closed_forms() {
    for n in [1u64, 2, 3, 4, 5, 7, 8, 12, 17, 64, 100, 101, 1000, 4096] {
        for form in oracle::closed_forms(n) {
            let what = format!("{} at n = {n}", form.name);
            let tol = tolerance::naive(n as usize);
            assert_close(&all_coefficients(&form.signal), &form.spectrum, tol, &what);
        }
    }
}

#[test]
fn dense_reproduces_the_naive_transform() {
    let mut rng = Rng::new(101);
    for n in [1usize, 2, 3, 6, 11, 16, 60, 97, 210, 512, 1009] {
        let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
        let tol = tolerance::naive(n);
        assert_close(&all_coefficients(&x), &oracle::naive(&x), tol, &format!("n = {n}"));
    }
}

#[test]
fn dense_reproduces_radix_2_on_long_signals() {
    let mut rng = Rng::new(102);
    for n in [1usize << 13, 1 << 17] {
        let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
        let tol = tolerance::dense(n);
        assert_close(&all_coefficients(&x), &oracle::radix2(&x), tol, &format!("n = {n}"));
    }
}

#[test]
fn sparse_reproduces_dense() {
    let mut rng = Rng::new(103);
    for (n, k) in [(1u64 << 14, 8), (1 << 18, 50), (100_000, 20), (65_537, 12)] {
        let x = Signal::new(n, generate::random(&mut rng, n, k)).samples();
        let dense = oracle::dense(&x);
        for algorithm in [Algorithm::Auto, Algorithm::Exact, Algorithm::Robust] {
            let plan = Plan::new(Problem::new(n).sparsity(k).algorithm(algorithm)).unwrap();
            let spectrum = plan.transform(&x).unwrap();
            let what = format!("{algorithm}, n = {n}, k = {k}, {}", spectrum.certificate());
            assert!(spectrum.certificate().is_certified(), "{what}");
            assert_close(&spectrum.to_dense().unwrap(), &dense, tolerance::EXACT, &what);
        }
    }
}
