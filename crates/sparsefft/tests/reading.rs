//! What is read: announced beforehand, counted honestly, and never everything where that was
//! forbidden.

mod common;

use common::{Computed, Recorder};
use sparsefft::{Algorithm, Error, Fallback, Noise, Plan, Problem, Verdict, from_fn};
use std::collections::{HashMap, HashSet};
use testkit::{C64, Rng, Signal, generate};

#[test]
fn an_exact_signal_is_read_where_the_plan_said() {
    let mut rng = Rng::new(601);
    for n in [1u64 << 16, 1 << 22, 1_000_000, 1_000_003] {
        for algorithm in [Algorithm::Auto, Algorithm::Exact] {
            let problem = Problem::new(n).sparsity(16).noise(Noise::Exact).algorithm(algorithm);
            let plan = Plan::new(problem).unwrap();
            let announced: Vec<u64> = plan.sample_indices().collect();
            assert!(announced.iter().all(|&t| t < n));
            // Few tones for the k that was planned: the first pass is enough.
            let tones = generate::random(&mut rng, n, 3);
            let lazy = Signal::new(n, tones).lazy();
            let recorder = Recorder::new(Computed::new(&lazy));
            let spectrum = plan.transform(&recorder).unwrap();
            let what = format!("{algorithm}, n = {n}: {plan}; {}", spectrum.certificate());
            assert!(spectrum.certificate().is_certified(), "{what}");
            let read = recorder.indices();
            let allowed: HashSet<u64> = announced.iter().copied().collect();
            let surprise: Vec<_> = read.iter().filter(|t| !allowed.contains(t)).take(5).collect();
            assert!(surprise.is_empty(), "{what}: read {surprise:?} unannounced");
            assert_eq!(spectrum.report().samples_read, read.len() as u64, "{what}");
            assert_eq!(allowed.len(), read.iter().collect::<HashSet<_>>().len(), "{what}");
        }
    }
}

#[test]
fn an_instrument_that_records_only_what_was_announced_suffices() {
    let n = 1u64 << 40;
    let signal = Signal::new(n, generate::random(&mut Rng::new(602), n, 4)).lazy();
    let plan = Plan::new(Problem::new(n).sparsity(50).noise(Noise::Exact)).unwrap();
    let recorded: HashMap<u64, C64> = plan.sample_indices().map(|t| (t, signal.at(t))).collect();
    let instrument = from_fn(n, |indices| {
        indices
            .iter()
            .map(|t| recorded.get(t).copied().ok_or(Error::Source(format!("{t} not recorded"))))
            .collect()
    });
    let spectrum = plan.transform(&instrument).unwrap();
    assert!(spectrum.certificate().is_certified(), "{}", spectrum.certificate());
    let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
    let truth: Vec<u64> = signal.signal().truth().iter().map(|t| t.f).collect();
    assert_eq!(found, truth);
}

#[test]
fn nothing_is_read_twice_on_an_exact_signal() {
    let n = 1u64 << 20;
    let lazy = Signal::new(n, generate::random(&mut Rng::new(603), n, 16)).lazy();
    let recorder = Recorder::new(Computed::new(&lazy));
    let plan = Plan::new(Problem::new(n).sparsity(16)).unwrap();
    let spectrum = plan.transform(&recorder).unwrap();
    assert!(spectrum.certificate().is_certified());
    let read = recorder.indices();
    let distinct: HashSet<u64> = read.iter().copied().collect();
    // Random lines of a window may overlap by chance, hardly more.
    assert!(
        distinct.len() as f64 >= 0.9 * read.len() as f64,
        "{} of {}",
        distinct.len(),
        read.len()
    );
}

/// Bins that noise doubles are made of those before where the samples lie in memory, and else of the samples,
/// which are kept: both read as much and find the same.
#[test]
fn bins_are_doubled_alike_in_memory_and_elsewhere() {
    let mut rng = Rng::new(606);
    let n = 1u64 << 20;
    for k in [16, 50, 1000] {
        let tones = generate::random(&mut rng, n, k);
        let x = Signal::new(n, tones).noise(0.01, k).samples();
        let plan = Plan::new(Problem::new(n).sparsity(k)).unwrap();
        let here = plan.transform(&x).unwrap();
        let recorder = Recorder::new(&x);
        let elsewhere = plan.transform(&recorder).unwrap();
        assert!(here.certificate().is_certified() && elsewhere.certificate().is_certified());
        assert_eq!(here.report().samples_read, elsewhere.report().samples_read, "k = {k}");
        assert_eq!(here.peaks().len(), elsewhere.peaks().len());
        for (a, b) in here.peaks().iter().zip(elsewhere.peaks()) {
            assert_eq!(a.index, b.index);
            assert!((a.value - b.value).norm() < 1e-11 * n as f64, "k = {k}: {a:?} {b:?}");
        }
    }
}

#[test]
fn without_fallback_the_signal_is_never_read_whole() {
    let mut rng = Rng::new(604);
    for n in [1u64 << 16, 1 << 18, 100_003, 300_000] {
        let signals = [
            Signal::new(n, Vec::new()).noise(1.0, 1),
            Signal::new(n, generate::random(&mut rng, n, n / 8)),
            Signal::off_grid(n, vec![(n as f64 / 7.0 + 0.5, C64::ONE)]),
            Signal::new(n, generate::random(&mut rng, n, 40)).noise(10.0, 2),
            Signal::impulses(n, vec![(n / 3, C64::ONE)]),
        ];
        for (i, signal) in signals.into_iter().enumerate() {
            let x = signal.samples();
            for algorithm in [Algorithm::Auto, Algorithm::Exact, Algorithm::Robust] {
                for k in [None, Some(40)] {
                    let problem = Problem::new(n).algorithm(algorithm).fallback(Fallback::Never);
                    let problem = if let Some(k) = k { problem.sparsity(k) } else { problem };
                    let recorder = Recorder::new(&x);
                    let spectrum = Plan::new(problem).unwrap().transform(&recorder).unwrap();
                    let distinct: HashSet<u64> = recorder.indices().into_iter().collect();
                    let what = format!("{algorithm}, n = {n}, signal {i}, k = {k:?}");
                    assert!(
                        (distinct.len() as u64) < n,
                        "{what}: read everything, {} samples in all",
                        spectrum.report().samples_read
                    );
                    assert_ne!(spectrum.certificate().verdict, Verdict::Dense, "{what}");
                    assert!(spectrum.peaks().len() as u64 <= k.unwrap_or(u64::MAX), "{what}");
                    if !spectrum.certificate().is_certified() {
                        assert!(spectrum.certificate().reason.is_some(), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn few_samples_are_read() {
    // The point of it all: the number of samples depends on k and not on n.
    let mut rng = Rng::new(605);
    let mut counts = Vec::new();
    for bits in [18, 22, 30, 40] {
        let n = 1u64 << bits;
        let lazy = Signal::new(n, generate::random(&mut rng, n, 50)).lazy();
        let plan = Plan::new(Problem::new(n).sparsity(50)).unwrap();
        let spectrum = plan.transform(&Computed::new(&lazy)).unwrap();
        assert!(spectrum.certificate().is_certified());
        counts.push(spectrum.report().samples_read);
    }
    assert!(counts.iter().all(|&c| c < 20_000), "{counts:?}");
}

/// Many coefficients in a comb that is too small look like noise. The lines that are then read to place them
/// are not read again in a finer comb, where they stand apart. The same seeds read 104,000 samples with them.
#[test]
fn an_unknown_number_of_coefficients_costs_little() {
    let n = 1_000_000;
    let plan = Plan::new(Problem::new(n)).unwrap();
    for seed in 0..6 {
        let mut rng = Rng::new(604 + seed);
        let signal = Signal::new(n, generate::random(&mut rng, n, 1000));
        let spectrum = plan.transform(&signal.samples()).unwrap();
        let read = spectrum.report().samples_read;
        assert!(spectrum.certificate().is_certified(), "seed {seed}: {}", spectrum.certificate());
        assert_eq!(spectrum.peaks().len(), 1000, "seed {seed}");
        assert!(read < 60_000, "seed {seed}: {read}");
    }
}

/// Where a sparse transform pays only without noise, it is tried, and noise ends it soon.
#[test]
fn noise_ends_what_pays_only_without() {
    let n = 1 << 14;
    let plan = Plan::new(Problem::new(n).sparsity(330)).unwrap();
    assert!(plan.to_string().contains("if the bins turn out very noisy: a dense FFT"), "{plan}");
    let signal = Signal::new(n, generate::random(&mut Rng::new(610), n, 330));
    let quiet = plan.transform(&signal.samples()).unwrap();
    assert!(quiet.certificate().is_certified(), "{}", quiet.certificate());
    assert!(quiet.report().samples_read < n / 2, "{}", quiet.report().samples_read);
    let noisy = plan.transform(&signal.noise(10.0, 1).samples()).unwrap();
    assert_eq!(noisy.certificate().verdict, Verdict::Dense);
    let reason = noisy.certificate().reason.clone().unwrap_or_default();
    assert!(reason.contains("so much noise"), "{reason}");
    // The first comb, doubled.
    assert!(noisy.report().samples_read < n + n / 2, "{}", noisy.report().samples_read);
    // Where no dense FFT may follow, noise ends nothing.
    let alone = Plan::new(Problem::new(n).sparsity(330).fallback(Fallback::Never)).unwrap();
    assert!(!alone.to_string().contains("very noisy"), "{alone}");
}

/// Where no coefficient is asked for, short signals that are not zero are read whole, long ones never; both
/// answers say so.
#[test]
fn nothing_asked_for_is_answered_honestly() {
    for (n, verdict) in
        [(600, Verdict::Dense), (3000, Verdict::Dense), (1 << 20, Verdict::Uncertified)]
    {
        let plan = Plan::new(Problem::new(n).sparsity(0)).unwrap();
        let signal = Signal::new(n, generate::random(&mut Rng::new(611), n, 3)).samples();
        let spectrum = plan.transform(&signal).unwrap();
        assert_eq!(
            (spectrum.peaks(), spectrum.certificate().verdict),
            (&[][..], verdict),
            "n = {n}"
        );
        let silence = plan.transform(&vec![C64::new(0.0, 0.0); n as usize]).unwrap();
        assert!(silence.certificate().is_reliable() && silence.peaks().is_empty(), "n = {n}");
    }
}

/// What the certificate does not cover, and the remedy: a tone ten times as strong as the rest, in all
/// samples but those that the known seed reads.
#[test]
fn a_tone_hidden_from_the_known_seed_is_found_by_another() {
    let n = 1u64 << 20;
    let weak = Signal::new(n, generate::random(&mut Rng::new(606), n, 3)).samples();
    let plan = |seed| Plan::new(Problem::new(n).sparsity(4).seed(seed)).unwrap();
    let recorder = Recorder::new(&weak);
    let before = plan(0).transform(&recorder).unwrap();
    let read: HashSet<u64> = recorder.indices().into_iter().collect();
    let strong =
        Signal::new(n, vec![testkit::Tone { f: 77_777, a: C64::new(10.0, 0.0) }]).samples();
    let hidden: Vec<C64> = (0..n)
        .zip(weak.iter().zip(&strong))
        .map(|(t, (weak, strong))| if read.contains(&t) { *weak } else { weak + strong })
        .collect();
    let fooled = plan(0).transform(&hidden).unwrap();
    assert_eq!(fooled.peaks(), before.peaks());
    for seed in [4_503_599_627_370_497, 1_234_567_890_123] {
        let spectrum = plan(seed).transform(&hidden).unwrap();
        let found = (spectrum.value(77_777) / n as f64 - 10.0).norm() < 0.1;
        assert!(found || !spectrum.certificate().is_reliable(), "{}", spectrum.certificate());
    }
}

/// Whatever is tried (larger hashes, more lines, voting rounds, finer frequencies, a dense FFT at
/// last), the report counts every sample that the source was asked for.
#[test]
fn every_attempt_is_counted() {
    let between = |n: u64| {
        from_fn(n, |indices| {
            let tone = |f: f64, t: u64| C64::cis(std::f64::consts::TAU * f * t as f64);
            Ok(indices.iter().map(|&t| tone(0.123456, t) + tone(-0.3, t) * 0.1).collect())
        })
    };
    let (mut dense, mut repeated) = (0, 0);
    for n in [1u64 << 12, 1 << 16, 1 << 18, 10_007, 100_003, 99_225] {
        let mut rng = Rng::new(640 + n);
        let tones = generate::random(&mut rng, n, 40);
        let signals: [Vec<C64>; 4] = [
            Signal::new(n, tones.clone()).samples(),
            Signal::new(n, tones.clone()).noise(0.5, 3).samples(),
            Signal::new(n, Vec::new()).noise(1.0, 4).samples(),
            {
                let mut x = vec![C64::ZERO; n as usize];
                use sparsefft::Samples;
                between(n).read_range(0, &mut x).unwrap();
                x
            },
        ];
        for (which, x) in signals.iter().enumerate() {
            for algorithm in [
                Algorithm::Auto,
                Algorithm::Exact,
                Algorithm::Robust,
                Algorithm::Vote,
                Algorithm::CombVote,
            ] {
                for k in [None, Some(5), Some(40)] {
                    for fallback in [Fallback::Auto, Fallback::Never] {
                        let problem = Problem::new(n).algorithm(algorithm).fallback(fallback);
                        let problem = match k {
                            Some(k) => problem.sparsity(k),
                            None => problem,
                        };
                        let Ok(plan) = Plan::new(problem) else { continue };
                        let recorder = Recorder::new(x);
                        let spectrum = plan.transform(&recorder).unwrap();
                        let read = recorder.indices().len() as u64;
                        let what =
                            format!("n = {n}, signal {which}, k = {k:?}, {algorithm}: {plan}");
                        assert_eq!(spectrum.report().samples_read, read, "{what}");
                        dense += u32::from(read > n);
                        repeated += u32::from(spectrum.certificate().attempts > 1);
                    }
                }
            }
            for accuracy in [None, Some(1e-3)] {
                let problem = Problem::new(n).sparsity(5);
                let problem = accuracy.map_or(problem.clone(), |bins| problem.accuracy(bins));
                let recorder = Recorder::new(x);
                let tones = Plan::new(problem).unwrap().tones(&recorder).unwrap();
                let read = recorder.indices().len() as u64;
                assert_eq!(tones.report().samples_read, read, "n = {n}, signal {which}, tones");
                repeated += u32::from(tones.certificate().attempts > 1);
            }
        }
    }
    assert!(dense > 10 && repeated > 10, "{dense} and {repeated}: nothing was tried twice");
}

/// In noise, too, an answer agrees with what was read: a click of two hundred times the noise in
/// a sample, wherever it is in a comb or in a window, is never certified.
#[test]
fn clicks_in_noise_are_refused_where_they_were_read() {
    for n in [1u64 << 16, 78_125, 100_003] {
        for k in [1, 5, 40] {
            let mut rng = Rng::new(650 + n + k);
            let tones = generate::random(&mut rng, n, k);
            let sigma = 1e-4;
            let mut x = Signal::new(n, tones).noise(sigma, 7).samples();
            let problem = Problem::new(n).sparsity(k).fallback(Fallback::Never);
            let plan = Plan::new(problem).unwrap();
            let clean = plan.transform(&x).unwrap();
            assert!(clean.certificate().is_certified(), "n = {n}, k = {k}: {clean:?}");
            let recorder = Recorder::new(&x);
            plan.transform(&recorder).unwrap();
            let read = recorder.indices();
            let mut met = 0;
            for _ in 0..50 {
                let t = rng.pick(&read);
                let before = x[t as usize];
                x[t as usize] += rng.phasor() * 200.0 * sigma;
                let recorder = Recorder::new(&x);
                let elsewhere = plan.transform(&recorder).unwrap();
                let is_read = recorder.indices().contains(&t);
                let here = plan.transform(&x).unwrap();
                x[t as usize] = before;
                // What is read later depends on what was found.
                if is_read {
                    met += 1;
                    for certificate in [here.certificate(), elsewhere.certificate()] {
                        let what = format!("n = {n}, k = {k}, t = {t}: {certificate}");
                        assert!(!certificate.is_certified(), "{what}");
                    }
                }
            }
            assert!(met > 40, "n = {n}, k = {k}: {met}");
        }
    }
}
