//! `vote` and `comb-vote` against known spectra.

use sparsefft::{
    Algorithm, Complex, Error, Fallback, Method, Noise, Plan, Problem, Spectrum, Verdict, from_fn,
};
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use testkit::{Rng, oracle};

type Truth = BTreeMap<u64, Complex<f64>>;

const BOTH: [Algorithm; 2] = [Algorithm::Vote, Algorithm::CombVote];

/// k distinct frequencies with unit amplitudes.
fn tones(rng: &mut Rng, n: u64, k: usize) -> Truth {
    rng.distinct(n, k as u64).into_iter().map(|f| (f, rng.phasor())).collect()
}

/// x[t] = Σ a_f e^{2πi ft/n}, and noise of this power.
fn synthesise(n: u64, truth: &Truth, noise: f64, rng: &mut Rng) -> Vec<Complex<f64>> {
    let mut x = vec![Complex::new(0.0, 0.0); n as usize];
    for (&f, &a) in truth {
        x[f as usize] = a;
    }
    oracle::inverse(&mut x);
    if noise > 0.0 {
        for v in &mut x {
            *v += rng.gaussian() * noise.sqrt();
        }
    }
    x
}

/// Largest |X/n - a| over the truth, after checking that the support is the same.
fn error(spectrum: &Spectrum, truth: &Truth) -> f64 {
    let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
    let expected: Vec<u64> = truth.keys().copied().collect();
    assert_eq!(found, expected, "{}", spectrum.certificate());
    let n = spectrum.n() as f64;
    (spectrum.peaks().iter()).map(|p| (p.value / n - truth[&p.index]).norm()).fold(0.0, f64::max)
}

fn problem(n: u64, k: usize, algorithm: Algorithm) -> Problem {
    Problem::new(n).sparsity(k as u64).algorithm(algorithm).fallback(Fallback::Never)
}

#[test]
fn exactly_sparse_signals() {
    for n in [1 << 16, 1 << 18, 1 << 20] {
        for k in [1, 2, 10, 50, 100] {
            let mut rng = Rng::new(n + k as u64);
            let truth = tones(&mut rng, n, k);
            let x = synthesise(n, &truth, 0.0, &mut rng);
            for algorithm in BOTH {
                for noise in [Noise::Unknown, Noise::Exact] {
                    let plan = Plan::new(problem(n, k, algorithm).noise(noise)).unwrap();
                    let s = plan.transform(&x).unwrap();
                    assert_eq!(s.report().algorithm, algorithm, "{plan}");
                    let worst = error(&s, &truth);
                    assert!(worst < 1e-8, "n = {n}, k = {k}, {algorithm}: {worst:e}");
                    assert_eq!(s.certificate().verdict, Verdict::Certified);
                    assert!(s.certificate().residual_energy < 1e-15);
                }
            }
        }
    }
}

#[test]
fn any_length() {
    // Prime, odd, smooth, twice a prime, 2^a 3^b 5^c.
    for n in [100_003u64, 1_000_003, 99_999, 3u64.pow(11), 1_000_000, 200_006, 777_600] {
        let k = 20;
        let mut rng = Rng::new(n);
        let truth = tones(&mut rng, n, k);
        let x = synthesise(n, &truth, 0.0, &mut rng);
        for algorithm in BOTH {
            let plan = Plan::new(problem(n, k, algorithm)).unwrap();
            let s = plan.transform(&x).unwrap();
            assert!(error(&s, &truth) < 1e-8);
            assert_eq!(s.certificate().verdict, Verdict::Certified);
            let Method::Vote(recipe) = &plan.recipe().method else { panic!("{plan}") };
            let smooth = matches!(n, 177_147 | 1_000_000 | 777_600);
            assert_eq!(recipe.comb.is_some(), smooth && algorithm == Algorithm::CombVote);
            if algorithm == Algorithm::CombVote && !smooth {
                assert!(plan.to_string().contains("no comb"), "{plan}");
            }
        }
    }
}

#[test]
fn noise_of_many_levels() {
    let (n, k) = (1u64 << 20, 50);
    for (db, most) in [(20.0, 0.01), (0.0, 0.1), (-10.0, 0.25)] {
        for seed in 0..3 {
            let mut rng = Rng::new(1000 * seed + 7);
            let truth = tones(&mut rng, n, k);
            let power = 10f64.powf(-0.1 * db);
            let x = synthesise(n, &truth, power, &mut rng);
            for algorithm in BOTH {
                for noise in [Noise::Unknown, Noise::Snr(db)] {
                    let plan = Plan::new(problem(n, k, algorithm).noise(noise)).unwrap();
                    let s = plan.transform(&x).unwrap();
                    let worst = error(&s, &truth);
                    assert!(worst < most, "{db} dB, {algorithm}: {worst}");
                    let c = s.certificate();
                    assert_eq!(c.verdict, Verdict::Certified, "{db} dB, {algorithm}: {c}");
                    let sigma = power.sqrt();
                    assert!((0.7..1.3).contains(&(c.noise_floor / sigma)), "{c}");
                }
            }
        }
    }
}

#[test]
fn more_tones_than_asked_for() {
    let n = 1u64 << 18;
    let mut rng = Rng::new(11);
    let mut truth = Truth::new();
    for (i, (f, a)) in tones(&mut rng, n, 40).into_iter().enumerate() {
        truth.insert(f, a * if i % 4 == 0 { 10.0 } else { 1.0 });
    }
    let x = synthesise(n, &truth, 0.0, &mut rng);
    truth.retain(|_, a| a.norm() > 5.0);
    for algorithm in BOTH {
        let s = Plan::new(problem(n, 10, algorithm)).unwrap().transform(&x).unwrap();
        assert!(error(&s, &truth) < 1e-7);
        assert_eq!(s.certificate().verdict, Verdict::Certified);
        assert_eq!(s.report().left_out, 30);
    }
}

#[test]
fn fewer_tones_than_asked_for() {
    let n = 1u64 << 18;
    let mut rng = Rng::new(12);
    let truth = tones(&mut rng, n, 7);
    let x = synthesise(n, &truth, 0.0, &mut rng);
    let noisy = synthesise(n, &truth, 1.0, &mut rng);
    for algorithm in BOTH {
        let plan = Plan::new(problem(n, 30, algorithm)).unwrap();
        let s = plan.transform(&x).unwrap();
        assert!(error(&s, &truth) < 1e-8);
        assert_eq!(s.certificate().verdict, Verdict::Certified);
        // In noise the other 23 are noise coefficients that nobody wants, and that no sparse method
        // can name.
        let s = plan.transform(&noisy).unwrap();
        assert_eq!(s.certificate().verdict, Verdict::Certified);
        assert!(s.peaks().iter().map(|p| p.index).eq(truth.keys().copied()));
        let exactly = problem(n, 30, algorithm).exactly(30);
        let s = Plan::new(exactly).unwrap().transform(&noisy).unwrap();
        assert_eq!(s.certificate().verdict, Verdict::Uncertified);
        assert!(s.certificate().reason.as_ref().unwrap().contains("of 30 coefficients"));
        error(&s, &truth);
    }
}

#[test]
fn structured_spectra() {
    let n = 1u64 << 20;
    let mut rng = Rng::new(5);
    let cluster: Truth = (0..20).map(|i| (500_000 + i, rng.phasor())).collect();
    let harmonics: Truth = (1..=20).map(|i| (i * (n / 64), rng.phasor())).collect();
    let comb: Truth = (0..32).map(|i| (i * (n / 32) + 5, Complex::new(1.0, 0.0))).collect();
    let edges: Truth =
        [0, 1, n / 2, n / 2 - 1, n - 1].into_iter().map(|f| (f, rng.phasor())).collect();
    let mut huge = tones(&mut rng, n, 20);
    *huge.values_mut().next().unwrap() *= 1e6;
    let mut range = tones(&mut rng, n, 30);
    for (i, a) in range.values_mut().enumerate() {
        *a *= 10f64.powf(-(i as f64) / 7.5);
    }
    let cases = [
        ("cluster", cluster, 1e-8),
        ("harmonics", harmonics, 1e-8),
        ("comb", comb, 1e-8),
        ("edges", edges, 1e-8),
        ("huge", huge, 1e-2),
        ("range", range, 1e-8),
    ];
    for (name, truth, most) in cases {
        let x = synthesise(n, &truth, 0.0, &mut rng);
        for algorithm in BOTH {
            for seed in 0..3 {
                let problem = problem(n, truth.len(), algorithm).seed(seed);
                let s = Plan::new(problem).unwrap().transform(&x).unwrap();
                let worst = error(&s, &truth);
                assert!(worst < most, "{name}, {algorithm}: {worst:e}");
                assert_eq!(s.certificate().verdict, Verdict::Certified, "{name}");
            }
        }
    }
}

#[test]
fn real_signals_are_symmetric_to_the_last_bit() {
    for n in [1u64 << 18, 100_003] {
        let mut rng = Rng::new(n);
        let mut truth = Truth::from([(0, Complex::new(2.0, 0.0))]);
        while truth.len() < 21 {
            let f = 1 + rng.below(n / 2 - 1);
            let a = rng.phasor();
            truth.insert(f, a);
            truth.insert(n - f, a.conj());
        }
        let x: Vec<f64> = synthesise(n, &truth, 0.01, &mut rng).into_iter().map(|v| v.re).collect();
        for algorithm in BOTH {
            let s = Plan::new(problem(n, 21, algorithm)).unwrap().transform(&x).unwrap();
            assert!(error(&s, &truth) < 0.02);
            assert_eq!(s.certificate().verdict, Verdict::Certified);
            assert_eq!(s.value(0).im, 0.0);
            for p in s.peaks() {
                assert_eq!(s.value((n - p.index) % n), p.value.conj());
            }
        }
    }
}

#[test]
fn unknown_sparsity() {
    let n = 1u64 << 20;
    for (k, power) in [(0, 1.0), (0, 0.0), (3, 0.0), (3, 1.0), (60, 0.0), (60, 1.0), (300, 0.1)] {
        let mut rng = Rng::new(k as u64 + 1);
        let truth = tones(&mut rng, n, k);
        let x = synthesise(n, &truth, power, &mut rng);
        for algorithm in BOTH {
            let problem = Problem::new(n).algorithm(algorithm).fallback(Fallback::Never);
            let s = Plan::new(problem).unwrap().transform(&x).unwrap();
            assert!(error(&s, &truth) < if power > 0.0 { 0.15 } else { 1e-8 });
            // Noise alone looks like many small coefficients: an empty answer proves nothing.
            let noise_alone = k == 0 && power > 0.0;
            let verdict = if noise_alone { Verdict::Uncertified } else { Verdict::Certified };
            assert_eq!(s.certificate().verdict, verdict, "k = {k}: {}", s.certificate());
            assert_eq!(noise_alone, s.certificate().reason.is_some());
        }
    }
}

/// A thousand equal tones, k unknown: the first hashes are too small to tell them from noise, and
/// an empty answer must not be certified.
#[test]
fn many_tones_are_not_taken_for_noise() {
    let n = 1u64 << 20;
    let mut rng = Rng::new(77);
    let truth = tones(&mut rng, n, 1000);
    let x = synthesise(n, &truth, 0.0, &mut rng);
    for algorithm in BOTH {
        let problem = Problem::new(n).algorithm(algorithm).fallback(Fallback::Never);
        let s = Plan::new(problem).unwrap().transform(&x).unwrap();
        let certified = s.certificate().verdict == Verdict::Certified;
        assert!(!certified || s.peaks().len() == 1000, "{}", s.certificate());
    }
}

#[test]
fn threads_and_repetition_change_nothing() {
    let (n, k) = (1u64 << 19, 100);
    let mut rng = Rng::new(3);
    let truth = tones(&mut rng, n, k);
    let x = synthesise(n, &truth, 1.0, &mut rng);
    for algorithm in BOTH {
        let plan = Plan::new(problem(n, k, algorithm).seed(9)).unwrap();
        let first = plan.transform(&x).unwrap();
        assert_eq!(plan.transform(&x).unwrap().peaks(), first.peaks());
        #[cfg(feature = "rayon")]
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let other = pool.install(|| plan.transform(&x)).unwrap();
            assert_eq!(other.peaks(), first.peaks());
            assert_eq!(other.certificate(), first.certificate());
        }
        let other = Plan::new(problem(n, k, algorithm).seed(10)).unwrap();
        assert_ne!(other.transform(&x).unwrap().peaks(), first.peaks());
        assert_eq!(other.transform(&x).unwrap().report().seed, 10);
    }
}

#[test]
fn what_cannot_be_found_is_not_certified() {
    let n = 1u64 << 16;
    let mut rng = Rng::new(8);
    // Not sparse at all; noise alone; tones far below the noise.
    let dense = tones(&mut rng, n, 6000);
    let weak: Truth = tones(&mut rng, n, 20).into_iter().map(|(f, a)| (f, a * 0.003)).collect();
    for (truth, power) in [(dense, 0.0), (Truth::new(), 1.0), (weak, 1.0)] {
        let x = synthesise(n, &truth, power, &mut rng);
        for algorithm in BOTH {
            let s = Plan::new(problem(n, 20, algorithm)).unwrap().transform(&x).unwrap();
            assert_eq!(s.certificate().verdict, Verdict::Uncertified);
            assert!(s.certificate().reason.is_some());
            // With the fallback the same signal is answered by a dense FFT.
            let allowed = problem(n, 20, algorithm).fallback(Fallback::Auto);
            let s = Plan::new(allowed).unwrap().transform(&x).unwrap();
            assert_eq!(s.certificate().verdict, Verdict::Dense);
            // Nothing stands above the noise, if there is any.
            assert_eq!(s.peaks().len(), if power > 0.0 { 0 } else { 20 });
            assert!(s.certificate().attempts > 1);
            let exactly = problem(n, 20, algorithm).fallback(Fallback::Auto).exactly(20);
            assert_eq!(Plan::new(exactly).unwrap().transform(&x).unwrap().peaks().len(), 20);
        }
    }
}

/// Every answer is right or not certified, over many random problems with collisions, noise and
/// large ranges of magnitude.
#[test]
fn never_wrong_and_certified() {
    let mut rng = Rng::new(77);
    let (mut certified, mut all) = (0, 0);
    for trial in 0..120u64 {
        let n = [1 << 15, 40_000, 1 << 16, 65_537][trial as usize % 4];
        let k = [1, 5, 20, 60][(trial / 4) as usize % 4];
        let power = [0.0, 0.01, 3.0, 100.0][(trial / 16) as usize % 4];
        let mut truth = tones(&mut rng, n, k);
        if trial % 3 == 0 {
            for a in truth.values_mut() {
                *a *= 10f64.powf(-3.0 * rng.uniform());
            }
        }
        let x = synthesise(n, &truth, power, &mut rng);
        // The judge: the k largest outputs of the dense FFT.
        let mut judge = x.clone();
        oracle::forward(&mut judge);
        let mut order: Vec<usize> = (0..n as usize).collect();
        order.sort_by(|&a, &b| judge[b].norm_sqr().total_cmp(&judge[a].norm_sqr()));
        for algorithm in BOTH {
            let s = Plan::new(problem(n, k, algorithm).seed(trial)).unwrap().transform(&x).unwrap();
            all += 1;
            if s.certificate().verdict == Verdict::Uncertified {
                continue;
            }
            certified += 1;
            let limit = s.certificate().detection_limit;
            let (smallest, next) = (judge[order[k - 1]].norm(), judge[order[k]].norm());
            for p in s.peaks() {
                let off = (p.value - judge[p.index as usize]).norm() / n as f64;
                assert!(off < limit, "trial {trial}, {algorithm}: {off:e} at {}", p.index);
                // One of the k largest, or as large as they are within the errors.
                assert!(judge[p.index as usize].norm() >= smallest - 2.0 * limit * n as f64);
            }
            let support: Vec<u64> = s.peaks().iter().map(|p| p.index).collect();
            if smallest - next > 2.0 * limit * n as f64 {
                let mut expected: Vec<u64> = order[..k].iter().map(|&f| f as u64).collect();
                expected.sort_unstable();
                assert_eq!(support, expected, "trial {trial}, {algorithm}");
            }
        }
    }
    assert!(certified * 10 > all * 6, "{certified} of {all} certified");
}

#[test]
fn short_signals_are_transformed_densely() {
    for n in [1u64, 2, 7, 64, 500] {
        let x: Vec<f64> = (0..n).map(|t| (t % 3) as f64).collect();
        for algorithm in BOTH {
            let plan = Plan::new(Problem::new(n).sparsity(1).algorithm(algorithm)).unwrap();
            let s = plan.transform(&x).unwrap();
            assert_eq!(s.certificate().verdict, Verdict::Dense);
            assert!(s.certificate().reason.as_ref().unwrap().contains("too short"));
            assert!(plan.to_string().contains("dense FFT"), "{plan}");
        }
    }
}

#[test]
fn silence_and_constants() {
    let n = 1u64 << 16;
    for algorithm in BOTH {
        let plan = Plan::new(problem(n, 4, algorithm)).unwrap();
        let s = plan.transform(&vec![0.0; n as usize]).unwrap();
        assert!(s.peaks().is_empty());
        assert_eq!(s.certificate().verdict, Verdict::Certified);
        let s = plan.transform(&vec![3.0f32; n as usize]).unwrap();
        assert_eq!(s.peaks().len(), 1);
        assert!((s.value(0).re / n as f64 - 3.0).abs() < 1e-8);
        assert_eq!(s.certificate().verdict, Verdict::Certified);
        // Nothing asked for is nothing to find.
        let none = Plan::new(problem(n, 0, algorithm)).unwrap();
        assert!(none.transform(&vec![3.0f32; n as usize]).unwrap().peaks().is_empty());
        // A chirp has a flat spectrum and constant modulus.
        let turns = |t: u64| ((t * t) % (2 * n)) as f64 / (2 * n) as f64;
        let chirp: Vec<_> = (0..n).map(|t| Complex::cis(TAU * turns(t))).collect();
        let s = plan.transform(&chirp).unwrap();
        assert_eq!(s.certificate().verdict, Verdict::Uncertified);
    }
}

#[test]
fn bad_samples_are_reported() {
    let n = 1u64 << 16;
    for algorithm in BOTH {
        let plan = Plan::new(problem(n, 4, algorithm)).unwrap();
        for bad in [f64::NAN, f64::INFINITY] {
            let x = vec![bad; n as usize];
            assert!(matches!(plan.transform(&x), Err(Error::NonFinite { .. })));
        }
        let index = plan.sample_indices().nth(100).unwrap();
        let mut x = vec![1.0; n as usize];
        x[index as usize] = f64::NAN;
        let err = plan.transform(&x).unwrap_err();
        assert!(matches!(err, Error::NonFinite { index: i, .. } if i == index), "{err}");
        assert!(matches!(plan.transform(&vec![1e300; n as usize]), Err(Error::Overflow { .. })));
    }
}

#[test]
fn huge_and_tiny_samples() {
    let n = 1u64 << 14;
    for algorithm in BOTH {
        let plan = Plan::new(problem(n, 1, algorithm)).unwrap();
        let Err(Error::Overflow { limit }) = plan.transform(&vec![f64::MAX; n as usize]) else {
            panic!("no overflow")
        };
        for size in [limit, 1e100, 1e-100, 1e-150, 1e-200, 1e-300, 5e-324] {
            let s = plan.transform(&vec![size; n as usize]).unwrap();
            let found =
                s.peaks().len() == 1 && (s.value(0).re / n as f64 / size - 1.0).abs() < 1e-8;
            assert!(found || s.certificate().detection_limit >= size, "{size:e}: {s:?}");
            assert!(found || size < 1e-140);
        }
    }
}

#[test]
fn the_first_pass_reads_what_was_announced() {
    let n = 1u64 << 18;
    let mut rng = Rng::new(21);
    let truth = tones(&mut rng, n, 10);
    let x = synthesise(n, &truth, 0.0, &mut rng);
    for algorithm in BOTH {
        let plan = Plan::new(problem(n, 10, algorithm)).unwrap();
        let seen = std::sync::Mutex::new(Vec::new());
        let source = from_fn(n, |indices| {
            seen.lock().unwrap().extend_from_slice(indices);
            Ok(indices.iter().map(|&i| x[i as usize]).collect())
        });
        let transform = || plan.transform(&source);
        #[cfg(feature = "rayon")]
        let s = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(transform);
        #[cfg(not(feature = "rayon"))]
        let s = transform();
        let s = s.unwrap();
        assert!(error(&s, &truth) < 1e-8);
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len() as u64, s.report().samples_read);
        let announced: Vec<u64> = plan.sample_indices().collect();
        assert_eq!(seen[..announced.len()], announced);
    }
}

#[test]
fn recipes_are_equal_and_explained() {
    for algorithm in BOTH {
        let plan = Plan::new(problem(1 << 22, 50, algorithm)).unwrap();
        let again = Plan::new(problem(1 << 22, 50, algorithm)).unwrap();
        assert_eq!(plan.recipe(), again.recipe());
        assert!(plan.to_string().contains(algorithm.name()), "{plan}");
        assert!(plan.recipe().estimates.iter().any(|e| e.algorithm == algorithm));
    }
}

/// The tolerance of a part in a million is one of the whole rest; no single sample that was read may
/// differ by a hundred times that much.
#[test]
fn small_clicks_are_refused_where_they_were_read() {
    for n in [1u64 << 14, 1 << 18, 10_007] {
        let mut rng = Rng::new(31 + n);
        let truth = tones(&mut rng, n, 5);
        let mut x = vec![Complex::new(0.0, 0.0); n as usize];
        for (t, v) in (0..n).zip(&mut x) {
            let turns = |f: u64| (f * t % n) as f64 / n as f64;
            *v = truth.iter().map(|(&f, a)| a * Complex::cis(TAU * turns(f))).sum();
        }
        for algorithm in BOTH {
            let plan = Plan::new(problem(n, 5, algorithm)).unwrap();
            assert!(plan.transform(&x).unwrap().certificate().is_certified(), "{algorithm}, {n}");
            let read: Vec<u64> = plan.sample_indices().collect();
            for _ in 0..30 {
                let t = rng.pick(&read) as usize;
                let before = x[t];
                x[t] += rng.phasor() * 1e-4;
                let certificate = plan.transform(&x).unwrap().certificate().clone();
                x[t] = before;
                assert!(!certificate.is_certified(), "{algorithm}, {n}, {t}: {certificate}");
            }
        }
    }
}
