//! Same seed and input, same answer: again, in a clone, in other threads, in a batch, with a
//! workspace that has seen other signals.

mod common;

use sparsefft::{Algorithm, Error, Noise, Plan, Problem, Spectrum, Workspace};
use testkit::{C64, Rng, Signal, generate};

/// Everything but the clock.
fn same(a: &Spectrum, b: &Spectrum) -> bool {
    let (ra, rb) = (a.report(), b.report());
    a.n() == b.n()
        && a.peaks() == b.peaks()
        && a.certificate() == b.certificate()
        && (ra.algorithm, ra.samples_read, ra.seed, ra.left_out)
            == (rb.algorithm, rb.samples_read, rb.seed, rb.left_out)
}

#[track_caller]
fn assert_same(a: &Spectrum, b: &Spectrum, what: &str) {
    assert!(same(a, b), "{what}: {a:?}\nis not\n{b:?}");
}

/// A few problems with a signal each: exact, noisy, k unknown, not a power of two.
fn cases() -> Vec<(Problem, Vec<C64>)> {
    let mut rng = Rng::new(401);
    let mut cases = Vec::new();
    for n in [1u64 << 17, 100_000, 65_537] {
        let exact = Signal::new(n, generate::random(&mut rng, n, 20));
        let noisy = exact.clone().noise(0.1, 9);
        for algorithm in Algorithm::ALL {
            let problem = Problem::new(n).algorithm(algorithm).seed(rng.next_u64());
            cases.push((problem.clone().sparsity(20), exact.samples()));
            cases.push((problem.clone().sparsity(20), noisy.samples()));
            cases.push((problem, exact.samples()));
        }
    }
    // What an algorithm cannot do is tested elsewhere.
    cases.retain(|(p, _)| !matches!(Plan::new(p.clone()), Err(Error::Unsupported { .. })));
    cases
}

#[test]
fn again_and_again() {
    for (problem, x) in cases() {
        let plan = Plan::new(problem.clone()).unwrap();
        let first = plan.transform(&x).unwrap();
        assert_same(&plan.transform(&x).unwrap(), &first, "same plan");
        assert_same(&plan.clone().transform(&x).unwrap(), &first, "clone");
        let fresh = Plan::new(problem.clone()).unwrap();
        assert_eq!(fresh.recipe(), plan.recipe());
        assert_same(&fresh.transform(&x).unwrap(), &first, "same problem planned again");
        let mut workspace = Workspace::default();
        let own = plan.transform_with(&x, &mut workspace).unwrap();
        assert_same(&own, &first, "own workspace");
    }
}

#[test]
fn in_many_threads() {
    for (problem, x) in cases().into_iter().step_by(4) {
        let plan = Plan::new(problem).unwrap();
        let first = plan.transform(&x).unwrap();
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| plan.clone().transform(&x).unwrap())).collect();
            for thread in threads {
                assert_same(&thread.join().unwrap(), &first, "thread");
            }
        });
    }
}

/// Many coefficients are shared out among threads; what they find is the same to the last bit.
#[test]
fn one_large_transform_over_any_number_of_threads() {
    let mut rng = Rng::new(403);
    let cases = [
        (1u64 << 21, 15_000, 0.0),
        (1 << 20, 4_096, 0.0),
        (1 << 21, 10_000, 0.1),
        (2_000_000, 15_000, 0.0),
        (1_000_003, 400, 0.0),
    ];
    for (n, k, noise) in cases {
        let signal = Signal::new(n, generate::random(&mut rng, n, k)).noise(noise, 9);
        let x = signal.samples();
        let plan = Plan::new(Problem::new(n).sparsity(k)).unwrap();
        let alone = over(1, || plan.transform(&x).unwrap());
        assert!(alone.certificate().is_certified(), "n = {n}: {}", alone.certificate());
        assert_eq!(alone.peaks().len() as u64, k);
        for threads in [2, 3, 8] {
            let several = over(threads, || plan.transform(&x).unwrap());
            assert!(same(&several, &alone), "n = {n}, {threads} threads");
        }
    }
}

/// Runs in a pool of this many threads.
fn over<R: Send>(threads: usize, run: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}

#[test]
fn a_batch_equals_single_transforms() {
    let n = 1u64 << 16;
    let mut rng = Rng::new(402);
    let mut signals: Vec<Vec<C64>> = (0..12)
        .map(|i| {
            let tones = generate::random(&mut rng, n, 1 + 3 * i);
            Signal::new(n, tones).noise(if i % 2 == 0 { 0.0 } else { 0.05 }, i).samples()
        })
        .collect();
    signals[5].truncate(100);
    signals[7][0].re = f64::NAN;
    signals[7].iter_mut().for_each(|v| v.im = f64::INFINITY);
    for algorithm in [Algorithm::Auto, Algorithm::Robust, Algorithm::Dense] {
        let plan = Plan::new(Problem::new(n).sparsity(20).algorithm(algorithm)).unwrap();
        let batch = plan.transform_batch(&signals);
        assert_eq!(batch.len(), signals.len());
        for (i, (together, x)) in batch.iter().zip(&signals).enumerate() {
            match (together, plan.transform(x)) {
                (Ok(a), Ok(b)) => assert_same(a, &b, &format!("{algorithm}, signal {i}")),
                (Err(a), Err(b)) => assert_eq!(*a, b, "{algorithm}, signal {i}"),
                (a, b) => panic!("{algorithm}, signal {i}: {a:?} and {b:?}"),
            }
        }
        assert_eq!(batch[5], Err(Error::LengthMismatch { expected: n, got: 100 }));
        assert!(matches!(batch[7], Err(Error::NonFinite { .. })));
    }
    let plan = Plan::new(Problem::new(n)).unwrap();
    assert!(plan.transform_batch(&Vec::<Vec<f64>>::new()).is_empty());
}

#[test]
fn a_used_workspace_is_as_good_as_a_new_one() {
    let cases = cases();
    let plans: Vec<Plan> = cases.iter().map(|(p, _)| Plan::new(p.clone()).unwrap()).collect();
    let fresh: Vec<Spectrum> =
        plans.iter().zip(&cases).map(|(plan, (_, x))| plan.transform(x).unwrap()).collect();
    // One workspace for all plans and signals, in two orders, with failures in between.
    let mut workspace = Workspace::default();
    let order: Vec<usize> = (0..cases.len()).chain((0..cases.len()).rev()).collect();
    for i in order {
        let again = plans[i].transform_with(&cases[i].1, &mut workspace).unwrap();
        assert_same(&again, &fresh[i], &format!("{}", plans[i]));
        let spoilt = vec![C64::new(f64::NAN, 1.0); cases[i].1.len()];
        assert!(plans[i].transform_with(&spoilt, &mut workspace).is_err());
    }
}

#[test]
fn another_seed_gives_the_same_coefficients() {
    let n = 1u64 << 18;
    let x = Signal::new(n, generate::random(&mut Rng::new(403), n, 40)).samples();
    for algorithm in [Algorithm::Auto, Algorithm::Exact, Algorithm::Robust] {
        for seed in 0..10 {
            let problem = Problem::new(n).sparsity(40).algorithm(algorithm).seed(seed);
            let spectrum = Plan::new(problem.noise(Noise::Exact)).unwrap().transform(&x).unwrap();
            assert_eq!(spectrum.report().seed, seed);
            let dense = testkit::oracle::dense(&x);
            let what = format!("{algorithm}, seed {seed}");
            let tol = testkit::tolerance::EXACT;
            testkit::tolerance::assert_close(&spectrum.to_dense().unwrap(), &dense, tol, &what);
        }
    }
}

#[test]
fn plans_and_answers_cross_threads() {
    fn shared<T: Send + Sync>() {}
    fn movable<T: Send>() {}
    shared::<Plan>();
    shared::<Problem>();
    shared::<Spectrum>();
    shared::<Error>();
    movable::<Workspace>();
}
