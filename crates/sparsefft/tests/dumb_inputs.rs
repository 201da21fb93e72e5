//! Inputs that nobody sane would give, and everybody does.

mod common;

use sparsefft::{
    Algorithm, Complex, Error, Fallback, MAX_LEN, Noise, Plan, Problem, Samples, Taper, from_fn,
    transform,
};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::tolerance::{self, assert_close};
use testkit::{C64, Rng, Signal, Tone, generate, oracle};

/// Plans for every algorithm; those that cannot run at this length say so when planned.
fn plans(n: u64, k: Option<u64>) -> Vec<Plan> {
    Algorithm::ALL
        .into_iter()
        .filter_map(|algorithm| {
            let problem = Problem::new(n).algorithm(algorithm);
            let problem = if let Some(k) = k { problem.sparsity(k) } else { problem };
            match Plan::new(problem) {
                Ok(plan) => Some(plan),
                Err(Error::Unsupported { algorithm: name, reason }) => {
                    assert_eq!(name, algorithm.name());
                    assert!(!reason.is_empty());
                    assert!(
                        matches!(algorithm, Algorithm::Vote | Algorithm::CombVote),
                        "{algorithm} must run for every n: {reason}"
                    );
                    None
                }
                Err(other) => panic!("{algorithm} at n = {n}: {other}"),
            }
        })
        .collect()
}

#[test]
fn no_samples() {
    assert_eq!(Plan::new(Problem::new(0)).unwrap_err(), Error::ZeroLength);
    assert_eq!(transform(&[] as &[f64], 0).unwrap_err(), Error::ZeroLength);
    assert_eq!(transform(&Vec::<Complex<i16>>::new(), 3).unwrap_err(), Error::ZeroLength);
}

#[test]
fn very_short_signals_with_every_k() {
    let mut rng = Rng::new(201);
    for n in 1usize..=9 {
        let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
        let truth = oracle::naive(&x);
        for k in 0..=n as u64 {
            for plan in plans(n as u64, Some(k)) {
                let spectrum = plan.transform(&x).unwrap();
                let what = format!("n = {n}, k = {k}, {plan}, {}", spectrum.certificate());
                assert!(spectrum.peaks().len() as u64 <= k, "{what}");
                if !spectrum.certificate().is_reliable() {
                    continue;
                }
                assert_eq!(spectrum.peaks().len() as u64, k, "{what}");
                let mut sizes: Vec<f64> = truth.iter().map(|v| v.norm()).collect();
                sizes.sort_by(|a, b| b.total_cmp(a));
                for (peak, size) in spectrum.top(n).iter().zip(sizes) {
                    let tol = tolerance::naive(n) * tolerance::norm(&truth);
                    assert!((peak.value - truth[peak.index as usize]).norm() <= tol, "{what}");
                    assert!((peak.magnitude() - size).abs() <= tol, "{what}");
                }
            }
        }
    }
}

#[test]
fn short_signals_are_answered_reliably_by_default() {
    let mut rng = Rng::new(202);
    for n in [1usize, 2, 3, 5, 13, 64, 127, 1000, 1021] {
        let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
        let spectrum = transform(&x, n as u64).unwrap();
        assert!(spectrum.certificate().is_reliable(), "n = {n}: {}", spectrum.certificate());
        let tol = tolerance::naive(n);
        assert_close(&spectrum.to_dense().unwrap(), &oracle::naive(&x), tol, &format!("n = {n}"));
    }
}

#[test]
fn k_is_zero() {
    let n = 1 << 14;
    let x = Signal::new(n, generate::random(&mut Rng::new(203), n, 5)).samples();
    for plan in plans(n, Some(0)) {
        assert!(plan.transform(&x).unwrap().peaks().is_empty(), "{plan}");
    }
}

#[test]
fn k_equals_n_and_more() {
    let n = 4096;
    let mut rng = Rng::new(204);
    let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
    for plan in plans(n, Some(n)) {
        let spectrum = plan.transform(&x).unwrap();
        if spectrum.certificate().is_reliable() {
            let tol = tolerance::dense(n as usize);
            assert_close(&spectrum.to_dense().unwrap(), &oracle::dense(&x), tol, &plan.to_string());
        }
    }
    let error = transform(&x, n + 1).unwrap_err();
    assert_eq!(error, Error::SparsityTooLarge { k: n + 1, n });
    assert!(error.to_string().contains("4097") && error.to_string().contains("4096"));
    let error = transform(&x, u64::MAX).unwrap_err();
    assert_eq!(error, Error::SparsityTooLarge { k: u64::MAX, n });
}

#[test]
fn n_is_too_large() {
    for n in [MAX_LEN + 1, u64::MAX] {
        let error = Plan::new(Problem::new(n).sparsity(1)).unwrap_err();
        assert_eq!(error, Error::LengthTooLarge { n, max: MAX_LEN });
    }
    assert!(Plan::new(Problem::new(MAX_LEN).sparsity(1)).is_ok());
}

#[test]
fn not_a_number_everywhere() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for n in [1u64, 3, 1000, 1 << 16] {
            for x in [vec![C64::new(bad, 0.0); n as usize], vec![C64::new(1.0, bad); n as usize]] {
                for plan in plans(n, Some(1)) {
                    match plan.transform(&x) {
                        Err(Error::NonFinite { index, value }) => {
                            assert!(index < n);
                            let shown = if bad.is_nan() { "NaN" } else { "inf" };
                            assert!(value.contains(shown), "{value}");
                        }
                        other => panic!("n = {n}, {bad}, {plan}: {other:?}"),
                    }
                }
            }
        }
    }
}

/// A NaN is named although it is gone when somebody looks again.
#[test]
fn a_sample_that_was_not_a_number_is_named() {
    use std::sync::atomic::{AtomicU64, Ordering};
    // A comb and, since 262147 is prime, a window.
    for n in [1u64 << 18, 262_147] {
        let plan = Plan::new(Problem::new(n).sparsity(3).fallback(Fallback::Never)).unwrap();
        let at = AtomicU64::new(u64::MAX);
        let source = from_fn(n, |indices| {
            let mut x = vec![C64::ONE; indices.len()];
            let middle = indices.len() / 2;
            if at
                .compare_exchange(u64::MAX, indices[middle], Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
            {
                x[middle].im = f64::NAN;
            }
            Ok(x)
        });
        match plan.transform(&source) {
            Err(Error::NonFinite { index, .. }) => assert_eq!(index, at.load(Ordering::SeqCst)),
            other => panic!("n = {n}: {other:?}"),
        }
    }
}

/// Of all that the first pass reads where it lies: by a comb, and, since 262147 is prime, by a window.
#[test]
fn a_sample_in_memory_that_is_not_a_number_is_named() {
    for n in [1u64 << 18, 262_147] {
        let mut x = vec![C64::ONE; n as usize];
        let plan = Plan::new(Problem::new(n).sparsity(3).fallback(Fallback::Never)).unwrap();
        let read: Vec<u64> = plan.sample_indices().collect();
        for &at in read.iter().step_by(29) {
            x[at as usize].re = f64::INFINITY;
            match plan.transform(&x) {
                Err(Error::NonFinite { index, .. }) => assert_eq!(index, at, "n = {n}"),
                other => panic!("n = {n}, sample {at}: {other:?}"),
            }
            x[at as usize].re = 1.0;
        }
        assert_eq!(plan.transform(&x).unwrap().peaks()[0].index, 0);
    }
}

/// Noise doubles the bins: the samples between those that the comb began with are named as well, whether
/// they lie in memory or are computed.
#[test]
fn a_bad_sample_that_only_noise_asks_for_is_named() {
    let n = 1u64 << 18;
    let mut rng = Rng::new(206);
    let mut x = Signal::new(n, generate::random(&mut rng, n, 50)).noise(0.1, 6).samples();
    let plan = Plan::new(Problem::new(n).sparsity(50).fallback(Fallback::Never)).unwrap();
    // 128 bins at first, then 256; the lines have four samples.
    for at in [n / 256 + 2, 77 * (n / 256), 255 * (n / 256) + 3] {
        assert!(plan.sample_indices().all(|read| read != at));
        let clean = std::mem::replace(&mut x[at as usize], C64::new(f64::NAN, 0.0));
        let computed = from_fn(n, |all| Ok(all.iter().map(|&t| x[t as usize]).collect()));
        for outcome in [plan.transform(&x), plan.transform(&computed)] {
            match outcome {
                Err(Error::NonFinite { index, .. }) => assert_eq!(index, at),
                other => panic!("sample {at}: {other:?}"),
            }
        }
        x[at as usize] = clean;
    }
    assert!(plan.transform(&x).unwrap().certificate().is_reliable());
}

#[test]
fn one_sample_is_not_a_number() {
    let n = 1u64 << 14;
    let mut rng = Rng::new(205);
    let clean = Signal::new(n, generate::random(&mut rng, n, 5)).samples();
    for _ in 0..20 {
        let at = rng.below(n);
        let mut x = clean.clone();
        x[at as usize].im = f64::NAN;
        for plan in plans(n, Some(5)) {
            // Either the sample was met, or it was not read and must not matter.
            let met = AtomicBool::new(false);
            let watched = from_fn(n, |all| {
                met.fetch_or(all.contains(&at), Ordering::Relaxed);
                Ok(all.iter().map(|&t| x[t as usize]).collect())
            });
            match plan.transform(&watched) {
                Err(Error::NonFinite { index, .. }) => assert_eq!(index, at, "{plan}"),
                Ok(spectrum) => {
                    assert!(!met.load(Ordering::Relaxed), "{plan}");
                    assert!(spectrum.peaks().iter().all(|p| p.value.norm().is_finite()));
                }
                Err(other) => panic!("{plan}: {other}"),
            }
        }
    }
    let mut x = clean;
    x[7] = C64::new(f64::INFINITY, 0.0);
    let dense = Plan::new(Problem::new(n).sparsity(5).algorithm(Algorithm::Dense)).unwrap();
    assert!(matches!(dense.transform(&x), Err(Error::NonFinite { index: 7, .. })));
}

#[test]
fn huge_finite_samples() {
    for n in [1u64, 2, 1000, 1 << 14] {
        for size in [1e150, 1e300, 1e308, f64::MAX] {
            let x: Vec<C64> = vec![C64::new(size, -size); n as usize];
            for plan in plans(n, Some(1)) {
                match plan.transform(&x) {
                    Err(Error::Overflow { limit }) => {
                        assert!(limit > 0.0 && limit < size, "{plan}: limit {limit:e}");
                    }
                    Ok(spectrum) => {
                        let certified = spectrum.certificate().is_reliable();
                        assert!(spectrum.peaks().iter().all(|p| p.value.norm().is_finite()));
                        let right = spectrum.peaks().first().is_some_and(|p| {
                            p.index == 0 && (p.value.re / (size * n as f64) - 1.0).abs() < 1e-9
                        });
                        assert!(right || !certified, "{plan}: {size:e}, {spectrum:?}");
                    }
                    Err(other) => panic!("{plan}: {size:e}: {other}"),
                }
            }
        }
    }
}

#[test]
fn the_overflow_limit_is_safe() {
    let n = 1 << 14;
    let x = vec![C64::new(f64::MAX, 0.0); n as usize];
    for plan in plans(n, Some(1)) {
        if let Err(Error::Overflow { limit }) = plan.transform(&x) {
            let scaled = vec![C64::new(limit, 0.0); n as usize];
            let spectrum = plan.transform(&scaled).unwrap();
            assert_eq!(spectrum.peaks()[0].index, 0, "{plan}");
        }
    }
}

#[test]
fn tiny_samples_are_found_or_not_claimed() {
    let n = 1u64 << 14;
    for size in [1e-100, 1e-150, 1e-200, 1e-300, 1e-310, 5e-324] {
        let x = vec![C64::new(size, 0.0); n as usize];
        for plan in plans(n, Some(1)) {
            let spectrum = plan.transform(&x).unwrap();
            let certificate = spectrum.certificate();
            let found = spectrum.peaks().first().is_some_and(|p| {
                p.index == 0 && (p.value.re / (size * n as f64) - 1.0).abs() < 1e-9
            });
            let honest = !certificate.is_reliable() || certificate.detection_limit >= size;
            assert!(found || honest, "{size:e}: {plan}: {spectrum:?}");
            assert!(spectrum.peaks().len() <= 1);
        }
    }
}

#[test]
fn all_zero() {
    for n in [1u64, 2, 1000, 10_007, 1 << 16] {
        for k in [None, Some(0), Some(1)] {
            for plan in plans(n, k) {
                let spectrum = plan.transform(&vec![0.0f32; n as usize]).unwrap();
                let zero = spectrum.peaks().iter().all(|p| p.value == C64::ZERO);
                assert!(zero, "n = {n}, k = {k:?}, {plan}: {:?}", spectrum.peaks());
                assert!(!spectrum.certificate().residual_energy.is_nan());
                assert!(!spectrum.certificate().noise_floor.is_nan());
            }
        }
    }
}

#[test]
fn constant() {
    for n in [1u64, 2, 1000, 10_007, 1 << 16] {
        for k in [None, Some(1)] {
            for plan in plans(n, k) {
                let spectrum = plan.transform(&vec![-3i16; n as usize]).unwrap();
                let what = format!("n = {n}, k = {k:?}, {plan}: {spectrum:?}");
                if spectrum.certificate().is_reliable() {
                    assert_eq!(spectrum.peaks().len(), 1, "{what}");
                    let value = spectrum.value(0) / (-3.0 * n as f64);
                    assert!((value - 1.0).norm() < tolerance::EXACT, "{what}");
                }
            }
        }
    }
}

#[test]
fn wrong_length() {
    let plan = Plan::new(Problem::new(1000).sparsity(5)).unwrap();
    for got in [0usize, 1, 999, 1001, 2000] {
        let error = plan.transform(&vec![1.0; got]).unwrap_err();
        assert_eq!(error, Error::LengthMismatch { expected: 1000, got: got as u64 });
        assert!(error.to_string().contains("1000") && error.to_string().contains(&got.to_string()));
    }
    // The plan is as good as before.
    assert_eq!(plan.transform(&vec![1.0; 1000]).unwrap().peaks()[0].index, 0);
}

#[test]
fn a_source_that_returns_the_wrong_number_of_samples() {
    let n = 1 << 16;
    for surplus in [-1i64, 1] {
        let x = from_fn(n, move |indices| {
            Ok(vec![C64::ONE; (indices.len() as i64 + surplus) as usize])
        });
        for plan in plans(n, Some(3)) {
            match plan.transform(&x) {
                Err(Error::WrongSampleCount { expected, got }) => {
                    assert_eq!(got as i64, expected as i64 + surplus);
                }
                other => panic!("{plan}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_source_that_fails() {
    let n = 1 << 16;
    let broken = from_fn(n, |_| Err(Error::Source("the disk is on fire".into())));
    // Fails only after some reads, so that half-filled buffers are left behind.
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let late = from_fn(n, |indices| {
        if calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3 == 2 {
            Err(Error::Source("the cable came off".into()))
        } else {
            Ok(indices.iter().map(|&t| C64::new((t % 7) as f64, 0.0)).collect())
        }
    });
    for plan in plans(n, Some(3)) {
        let error = plan.transform(&broken).unwrap_err();
        assert_eq!(error, Error::Source("the disk is on fire".into()));
        assert!(error.to_string().contains("the disk is on fire"));
        if let Err(error) = plan.transform(&late) {
            assert_eq!(error, Error::Source("the cable came off".into()));
        }
        // And the next signal is none the worse for it.
        let spectrum = plan.transform(&vec![C64::ONE; n as usize]).unwrap();
        assert_eq!(spectrum.top(1)[0].index, 0, "{plan}");
    }
}

#[test]
fn options_out_of_range() {
    let base = || Problem::new(1 << 16).sparsity(5);
    let bad = [
        base().noise(Noise::Snr(f64::NAN)),
        base().noise(Noise::Snr(f64::INFINITY)),
        base().noise(Noise::Snr(-1e3)),
        base().tolerance(-1.0),
        base().tolerance(f64::NAN),
        base().tolerance(2.0),
        base().failure_probability(0.0),
        base().failure_probability(1.0),
        base().failure_probability(f64::NAN),
        base().taper(Taper::Kaiser(-1.0)),
        base().taper(Taper::Kaiser(f64::INFINITY)),
    ];
    for problem in bad {
        match Plan::new(problem.clone()) {
            Err(error @ Error::InvalidOption { .. }) => {
                assert!(error.to_string().contains("allowed"), "{error}");
            }
            other => panic!("{problem:?}: {other:?}"),
        }
    }
}

#[test]
fn a_dense_transform_that_cannot_fit_is_refused() {
    let n = 1u64 << 50;
    let tone = from_fn(n, |indices| Ok(vec![C64::ONE; indices.len()]));
    let problem = Problem::new(n).sparsity(1).algorithm(Algorithm::Dense);
    match Plan::new(problem).and_then(|plan| plan.transform(&tone)) {
        Err(Error::OutOfMemory { n: told, .. }) => assert_eq!(told, n),
        Err(Error::Unsupported { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn not_sparse_at_a_length_that_allows_no_dense_transform() {
    // White noise of 2^40 samples: nothing to find, and no dense FFT to hide behind.
    let n = 1u64 << 40;
    let noise = Signal::new(n, Vec::new()).noise(1.0, 3).lazy();
    for k in [None, Some(10)] {
        let problem = Problem::new(n).fallback(Fallback::Auto);
        let problem = if let Some(k) = k { problem.sparsity(k) } else { problem };
        let spectrum =
            Plan::new(problem).unwrap().transform(&common::Computed::new(&noise)).unwrap();
        let certificate = spectrum.certificate();
        assert!(spectrum.report().samples_read < 1 << 27);
        if k.is_some() {
            // The largest ten of 2^40 coefficients of noise cannot be known from so few samples.
            assert!(!certificate.is_reliable(), "{certificate}: {:?}", spectrum.peaks());
        } else if certificate.is_reliable() {
            assert!(spectrum.peaks().is_empty(), "{certificate}");
        }
        if !certificate.is_reliable() {
            assert!(certificate.reason.as_ref().is_some_and(|r| !r.is_empty()));
        }
    }
}

#[test]
fn names_of_algorithms_round_trip_and_wrong_ones_are_explained() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.to_string().parse::<Algorithm>().unwrap(), algorithm);
    }
    let message = "fastest".parse::<Algorithm>().unwrap_err();
    assert!(message.contains("fastest") && message.contains("comb-vote"));
}

#[test]
fn one_tone_at_every_frequency_of_a_short_signal() {
    for n in [2u64, 3, 8, 15, 16, 31] {
        for f in 0..n {
            let signal = Signal::new(n, vec![Tone { f, a: C64::new(0.3, -2.0) }]);
            let spectrum = transform(&signal.samples(), 1).unwrap();
            let peak = spectrum.peaks()[0];
            assert_eq!(peak.index, f);
            assert!(
                (peak.value / n as f64 - C64::new(0.3, -2.0)).norm()
                    < tolerance::naive(n as usize) * 2.1
            );
        }
    }
}

#[test]
fn empty_is_empty_for_every_source() {
    let empty: [&dyn Samples; 3] =
        [&Vec::<f32>::new(), &sparsefft::iq::<i16>(&[]).unwrap(), &from_fn(0, |_| Ok(vec![]))];
    for source in empty {
        assert!(source.is_empty());
        assert_eq!(transform(&source, 0).unwrap_err(), Error::ZeroLength);
    }
}

/// Constant signals as large as a type holds: the values are right, or it is an error. Nothing is
/// certified, or complete, that is not a number.
#[test]
fn the_largest_samples_of_every_type() {
    fn judge<T>(value: T, size: f64)
    where
        T: Copy,
        Vec<T>: Samples,
    {
        for n in [1u64, 600, 1 << 14, 10_007] {
            let x = vec![value; n as usize];
            for plan in plans(n, Some(1)).into_iter().chain(plans(n, None)) {
                let what = format!("{size:e}, {plan}");
                match plan.transform(&x) {
                    Err(Error::Overflow { limit }) => assert!(limit < size, "{what}: {limit:e}"),
                    Err(other) => panic!("{what}: {other}"),
                    Ok(spectrum) => {
                        let certificate = spectrum.certificate();
                        let claims = [
                            certificate.residual_energy,
                            certificate.noise_floor,
                            certificate.detection_limit,
                        ];
                        let finite = |v: f64| v.is_finite() || !certificate.is_reliable();
                        assert!(claims.iter().all(|&v| finite(v)), "{what}: {certificate}");
                        let values = || spectrum.peaks().iter().map(|p| p.magnitude());
                        assert!(values().all(f64::is_finite), "{what}: {spectrum:?}");
                        let right = (spectrum.value(0).norm() / n as f64 / size - 1.0).abs() < 1e-9;
                        assert!(right || !certificate.is_reliable(), "{what}: {spectrum:?}");
                    }
                }
            }
        }
    }
    judge(f32::MAX, f64::from(f32::MAX));
    judge(Complex::new(0.0, f32::MAX), f64::from(f32::MAX));
    judge(i64::MIN, 2f64.powi(63));
    judge(u64::MAX, 2f64.powi(64));
    for size in [1e148, 1e152, 1e155, 1e160, 1e200, 1e280, 1e300, 1e302, 1e305, 1e308, f64::MAX] {
        judge(size, size);
        judge(Complex::new(0.0, -size), size);
    }
}

/// What no machine holds is refused before anything is allocated or read, and said in a sentence.
#[test]
fn transforms_that_no_memory_holds() {
    let n = 1u64 << 45;
    let unread = from_fn(n, |indices| -> Result<Vec<C64>, Error> {
        Err(Error::Source(format!("{} samples were asked for", indices.len())))
    });
    for algorithm in [Algorithm::Exact, Algorithm::Robust, Algorithm::Vote, Algorithm::Dense] {
        let problem = Problem::new(n).sparsity(1 << 36).algorithm(algorithm);
        let plan = Plan::new(problem).unwrap();
        let error = plan.transform(&unread).unwrap_err();
        let Error::OutOfMemory { n: told, bytes } = error else {
            panic!("{algorithm}: {error}");
        };
        assert!(told == n && bytes > 1 << 40, "{algorithm}: {bytes}");
        assert!(error.to_string().contains("bytes of memory"), "{error}");
    }
    // A sketch has a limit of its own, which is told first.
    let sketch = Plan::new(Problem::new(n).sparsity(1 << 36).one_pass()).unwrap().sketch();
    assert!(sketch.unwrap_err().to_string().contains("smaller k"));
    let full = Problem::new(1 << 40).sparsity(1 << 40);
    let error = Plan::new(full).unwrap_err();
    assert_eq!(error, Error::NotSparse { k: 1 << 40, n: 1 << 40 });
    // What one does get is not refused, and the plan's own buffers do not count against it.
    let plan = Plan::new(Problem::new(1 << 40).sparsity(1000)).unwrap();
    let zero = from_fn(1 << 40, |indices| Ok(vec![C64::ZERO; indices.len()]));
    assert!(plan.transform(&zero).is_ok() && plan.transform(&zero).is_ok());
}
