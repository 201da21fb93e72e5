//! What can be done with an answer.

mod common;

use sparsefft::{
    Algorithm, Complex, Error, Fallback, Noise, Norm, Peak, Plan, Problem, Spectrum, Strided,
    transform,
};
use testkit::tolerance::{self, assert_close};
use testkit::{C64, Rng, Signal, Tone, generate, oracle};

/// A signal, its samples and its transform.
fn example(n: u64, k: u64, seed: u64) -> (Signal, Vec<C64>, Spectrum) {
    let signal = Signal::new(n, generate::random(&mut Rng::new(seed), n, k));
    let x = signal.samples();
    let spectrum = transform(&x, k).unwrap();
    (signal, x, spectrum)
}

/// Each of the three verdicts has one question that only it answers; a dense answer is not certified.
#[test]
fn a_dense_answer_is_complete_and_not_certified() {
    let (_, x, sparse) = example(1 << 16, 20, 502);
    let of = |s: &Spectrum| {
        let c = s.certificate();
        (c.is_certified(), c.is_complete(), c.is_reliable())
    };
    assert_eq!(of(&sparse), (true, false, true));
    let dense = Plan::new(Problem::new(1 << 16).sparsity(20).algorithm(Algorithm::Dense)).unwrap();
    assert_eq!(of(&dense.transform(&x).unwrap()), (false, true, true));
    let mut rng = Rng::new(503);
    let noise: Vec<C64> = (0..1 << 16).map(|_| rng.gaussian()).collect();
    // Not sparse: a fallback is complete, and without one nothing is claimed.
    for (fallback, expected) in
        [(Fallback::Auto, (false, true, true)), (Fallback::Never, (false, false, false))]
    {
        let plan = Plan::new(Problem::new(1 << 16).sparsity(20).fallback(fallback)).unwrap();
        assert_eq!(of(&plan.transform(&noise).unwrap()), expected, "{fallback:?}");
    }
}

#[test]
fn peaks_are_sorted_and_values_are_found_by_index() {
    let (signal, _, spectrum) = example(1 << 16, 20, 501);
    assert_eq!(spectrum.n(), 1 << 16);
    assert!(spectrum.peaks().windows(2).all(|w| w[0].index < w[1].index));
    for t in signal.truth() {
        let value = spectrum.value(t.f) / (1 << 16) as f64;
        assert!((value - t.a).norm() <= tolerance::EXACT * 2.0);
    }
    let free = (0..).find(|f| signal.tones.iter().all(|t| t.f != *f)).unwrap();
    assert_eq!(spectrum.value(free), C64::ZERO);
    assert_eq!(spectrum.value(u64::MAX), C64::ZERO);
}

#[test]
fn top_is_sorted_by_magnitude_with_ties_by_index() {
    let n = 1 << 14;
    // Exactly equal magnitudes: four tones at multiples of n/4 of a real, short pattern.
    let x: Vec<f64> = (0..n).map(|t| if t % 4 == 0 { 1.0 } else { 0.0 }).collect();
    let spectrum = transform(&x, 4).unwrap();
    let top: Vec<u64> = spectrum.top(3).iter().map(|p| p.index).collect();
    let magnitudes: Vec<f64> = spectrum.top(4).iter().map(|p| p.magnitude()).collect();
    assert!(magnitudes.windows(2).all(|w| w[0] >= w[1]));
    if magnitudes.iter().all(|&m| m == magnitudes[0]) {
        assert_eq!(top, [0, n / 4, n / 2]);
    }
    assert!(spectrum.top(0).is_empty());
    assert_eq!(spectrum.top(100).len(), 4);

    let (signal, _, spectrum) = example(1 << 16, 20, 502);
    let mut sizes: Vec<f64> = signal.tones.iter().map(|t| t.a.norm()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    for (p, size) in spectrum.top(7).iter().zip(sizes) {
        assert!((p.magnitude() / (1 << 16) as f64 - size).abs() <= tolerance::EXACT * size);
    }
}

#[test]
fn norms_are_those_of_numpy() {
    let (_, _, spectrum) = example(10_000, 5, 503);
    for (norm, factor) in [(Norm::Backward, 1.0), (Norm::Ortho, 0.01), (Norm::Forward, 1e-4)] {
        for (scaled, plain) in spectrum.scaled(norm).iter().zip(spectrum.peaks()) {
            assert_eq!(scaled.index, plain.index);
            let error = (scaled.value - plain.value * factor).norm();
            assert!(error <= 4.0 * f64::EPSILON * plain.magnitude() * factor);
        }
    }
    assert_eq!(Norm::default(), Norm::Backward);
}

#[test]
fn dense_vectors_hold_the_peaks_and_zeros() {
    let (_, x, spectrum) = example(12_000, 9, 504);
    let dense = spectrum.to_dense().unwrap();
    assert_eq!(dense.len(), 12_000);
    assert_eq!(dense.iter().filter(|v| **v != C64::ZERO).count(), 9);
    assert_close(&dense, &oracle::dense(&x), tolerance::EXACT, "to_dense");
}

#[test]
fn synthesis_gives_the_signal_back() {
    for n in [1u64, 7, 1000, 1 << 16, 65_537] {
        let (_, x, spectrum) = example(n, n.min(12), 505);
        let whole = spectrum.synthesize(0..n).unwrap();
        assert_close(&whole, &x, tolerance::EXACT, &format!("n = {n}"));
        let (from, to) = (n / 3, n - n / 5);
        let part = spectrum.synthesize(from..to).unwrap();
        let same = &x[from as usize..to as usize];
        assert_close(&part, same, tolerance::EXACT * 10.0, &format!("{from}..{to} of {n}"));
        assert!(spectrum.synthesize(n..n).unwrap().is_empty());
        let residual = spectrum.residual(&x, 0..n).unwrap();
        assert!(tolerance::norm(&residual) <= tolerance::EXACT * tolerance::norm(&x));
    }
}

#[test]
fn the_residual_is_what_the_peaks_do_not_explain() {
    let n = 1u64 << 14;
    let tones = vec![
        Tone { f: 100, a: C64::new(3.0, 0.0) },
        Tone { f: 5000, a: C64::new(0.0, 2.0) },
        Tone { f: 9000, a: C64::new(0.5, 0.0) },
    ];
    let x = Signal::new(n, tones.clone()).samples();
    let spectrum = transform(&x, 2).unwrap();
    let left = spectrum.residual(&x, 0..n).unwrap();
    let third = Signal::new(n, tones[2..].to_vec()).samples();
    assert_close(&left, &third, 1e-8, "residual");
    assert!(matches!(
        spectrum.residual(&x[1..], 0..10),
        Err(Error::LengthMismatch { expected, got }) if expected == n && got == n - 1
    ));
}

#[test]
fn left_out_counts_what_was_found_beyond_k() {
    let (_, x, _) = example(1 << 14, 10, 506);
    let spectrum = transform(&x, 4).unwrap();
    assert_eq!(spectrum.peaks().len(), 4);
    assert!(spectrum.report().left_out <= 6);
}

#[test]
fn ranges_outside_the_signal_are_refused() {
    let (_, x, spectrum) = example(1000, 3, 507);
    for (start, end) in [(0, 1001), (1001, 1001), (5, 4), (u64::MAX - 1, u64::MAX)] {
        let expected = Error::RangeOutside { start, end, n: 1000 };
        assert_eq!(spectrum.synthesize(start..end).unwrap_err(), expected);
        assert_eq!(spectrum.residual(&x, start..end).unwrap_err(), expected);
    }
}

#[test]
fn bins_and_hertz() {
    let n = 1000u64;
    for (f, bin) in [(0u64, 0i64), (1, 1), (499, 499), (500, -500), (999, -1)] {
        let signal = Signal::new(n, vec![Tone { f, a: Complex::new(1.0, 1.0) }]);
        let peak = transform(&signal.samples(), 1).unwrap().peaks()[0];
        assert_eq!((peak.index, peak.signed_bin(n)), (f, bin));
        assert_eq!(peak.hertz(n, 48_000.0), bin as f64 * 48.0);
        assert!((peak.phase() - std::f64::consts::FRAC_PI_4).abs() < 1e-9);
    }
}

#[test]
fn reports_say_what_was_done() {
    let n = 1u64 << 16;
    let x = Signal::new(n, generate::random(&mut Rng::new(508), n, 5)).samples();
    let plan = Plan::new(Problem::new(n).sparsity(5).seed(77)).unwrap();
    let spectrum = plan.transform(&x).unwrap();
    let report = spectrum.report();
    assert_eq!(report.seed, 77);
    assert!(report.samples_read > 0);
    assert!(!report.stages.is_empty());
    assert!(report.stages.windows(2).all(|w| w[0].0 < w[1].0), "stages in pipeline order");
    let total: std::time::Duration = report.stages.iter().map(|s| s.1).sum();
    assert!(total <= report.elapsed);
    let text = spectrum.certificate().to_string();
    assert!(text.contains(spectrum.certificate().verdict.name()), "{text}");
}

#[test]
fn a_spectrum_is_put_together_from_stored_parts() {
    let (_, x, spectrum) = example(1 << 12, 5, 507);
    let mut peaks = spectrum.peaks().to_vec();
    peaks.reverse();
    let (certificate, report) = (spectrum.certificate().clone(), spectrum.report().clone());
    let again = Spectrum::new(1 << 12, peaks.clone(), certificate.clone(), report.clone()).unwrap();
    assert_eq!(again, spectrum);
    assert_eq!(again.residual(&x, 0..9).unwrap(), spectrum.residual(&x, 0..9).unwrap());

    let bad = |n, peaks: &[Peak]| {
        Spectrum::new(n, peaks.to_vec(), certificate.clone(), report.clone()).unwrap_err()
    };
    let last = spectrum.peaks()[4].index;
    assert_eq!(bad(0, &[]), Error::ZeroLength);
    assert_eq!(bad(last, &peaks), Error::RangeOutside { start: last, end: last + 1, n: last });
    assert_eq!(bad(1 << 12, &[peaks[2]; 2]), Error::RepeatedIndex { index: peaks[2].index });
}

/// Samples that the comb of the first attempt steps over hold weak impulses, too small to stand out by
/// themselves: only the buckets of the verifying hash can tell. They meet every train of at most 2k lines.
#[test]
fn what_the_comb_steps_over_is_noticed() {
    let (n, k) = (1u64 << 20, 50);
    let plan = Plan::new(Problem::new(n).sparsity(k)).unwrap();
    for (seed, period) in [(1, 64), (2, 32), (3, 64)] {
        let mut rng = Rng::new(700 + seed);
        let tones: Vec<_> =
            rng.distinct(n, k).into_iter().map(|f| Tone { f, a: rng.phasor() }).collect();
        let mut samples = Signal::new(n, tones).samples();
        assert_eq!(plan.transform(&samples).unwrap().certificate().attempts, 1);
        for x in samples.iter_mut().skip(period / 2).step_by(period) {
            *x += 0.3;
        }
        let s = plan.transform(&samples).unwrap();
        let certificate = s.certificate();
        assert!(certificate.attempts > 1 || !certificate.is_reliable(), "{certificate}");
    }
}

/// A sample that the verifying window reads, but weighs so little that no bucket shows it: it is larger than
/// all tones together could be. Read where it lies, and by a source that hands out copies.
#[test]
fn a_large_sample_at_the_edge_of_the_window_is_noticed() {
    let k = 5;
    for n in [1u64 << 20, 1_000_003] {
        let plan = Plan::new(Problem::new(n).sparsity(k).fallback(Fallback::Never)).unwrap();
        let mut rng = Rng::new(n);
        let tones: Vec<_> =
            rng.distinct(n, k).into_iter().map(|f| Tone { f, a: rng.phasor() }).collect();
        let mut samples = Signal::new(n, tones).samples();
        assert_eq!(plan.transform(&samples).unwrap().certificate().attempts, 1);
        let edge = plan.sample_indices().last().unwrap() as usize;
        samples[edge] += 4.0 * k as f64;
        let copies = Strided::new(&samples, 0, 1).unwrap();
        for s in [plan.transform(&samples).unwrap(), plan.transform(&copies).unwrap()] {
            let certificate = s.certificate();
            assert!(certificate.attempts > 1 || !certificate.is_reliable(), "{n}: {certificate}");
        }
    }
}

/// Lengths without a comb: what a window shows of a frequency carries what others leak into its bucket, up to
/// 2e-10 of these, before all values are fitted jointly.
#[test]
fn values_of_prime_lengths_are_fitted_jointly() {
    let n = 100_003u64;
    let plan = Plan::new(Problem::new(n).sparsity(50)).unwrap();
    let mut rng = Rng::new(207);
    let mut worst = 0.0f64;
    for _ in 0..100 {
        let tones = generate::random(&mut rng, n, 50);
        let strongest = tones.iter().map(|t| t.a.norm()).fold(0.0, f64::max);
        let s = plan.transform(&Signal::new(n, tones.clone()).samples()).unwrap();
        assert!(s.certificate().is_certified());
        assert_eq!(s.peaks().len(), tones.len());
        for peak in s.peaks() {
            let truth =
                tones.iter().find(|t| t.f == peak.index).expect("a frequency of the signal");
            worst = worst.max((peak.value / n as f64 - truth.a).norm() / strongest);
        }
    }
    assert!(worst < 6e-11, "{worst:e}");
}

/// n|a|²/σ², whichever algorithm found the coefficient, and the same for a tone.
#[test]
fn one_coefficient_has_one_signal_to_noise_ratio() {
    let (n, amplitude, sigma) = (1u64 << 16, 0.2, 0.5);
    let tone = Tone { f: 4321, a: C64::new(0.0, amplitude) };
    let signal = Signal::new(n, vec![tone]).noise(sigma, 9);
    let x = signal.samples();
    let expected = 10.0 * (n as f64 * (amplitude / sigma).powi(2)).log10();
    for algorithm in [Algorithm::Robust, Algorithm::Dense] {
        let plan = Plan::new(Problem::new(n).sparsity(1).algorithm(algorithm)).unwrap();
        let spectrum = plan.transform(&x).unwrap();
        assert_eq!(spectrum.report().algorithm, algorithm, "{}", spectrum.certificate());
        let snr = spectrum.snr_db(&spectrum.peaks()[0]).unwrap();
        assert!((snr - expected).abs() < 1.0, "{algorithm}: {snr}, expected {expected}");
        let sigma = spectrum.certificate().noise_floor;
        let size = spectrum.peaks()[0].magnitude();
        let defined = 10.0 * (size * size / (n as f64 * sigma * sigma)).log10();
        assert!((snr - defined).abs() < 1e-9, "{algorithm}: {snr} {defined}");
    }
    let tones = Plan::new(Problem::new(n)).unwrap().tones(&x).unwrap();
    let snr = tones.tones()[0].snr_db().unwrap();
    assert!((snr - expected).abs() < 1.0, "tones: {snr}, expected {expected}");
}

/// What is left of a signal that is not sparse is no noise, and neither is rounding.
#[test]
fn no_ratio_without_a_measurement_of_noise() {
    let n = 1u64 << 16;
    let half = [(0.25 + 0.5 / n as f64, C64::new(1.0, 0.0))];
    let leaking = Signal::off_grid(n, half.to_vec()).samples();
    let never = Problem::new(n).sparsity(3).fallback(Fallback::Never);
    let spectrum = Plan::new(never).unwrap().transform(&leaking).unwrap();
    assert!(!spectrum.certificate().is_reliable(), "{}", spectrum.certificate());
    let peak = Peak { index: n / 4, value: C64::new(n as f64, 0.0) };
    assert_eq!(spectrum.snr_db(&peak), None);
    let (_, _, exact) = example(n, 3, 504);
    assert!(exact.certificate().is_certified());
    assert_eq!(exact.snr_db(&exact.peaks()[0]), None);
}

/// The order by magnitude holds where squares of magnitudes overflow or vanish.
#[test]
fn the_largest_are_chosen_at_any_scale() {
    let n = 1u64 << 12;
    for scale in [1e-170, 1e-150, 1e-140, 1.0, 1e140, 1e150, 1e170, 1e250, 1e295] {
        let at = [3000u64, 100, 2000, 7, 1234];
        let tones: Vec<Tone> =
            (1..=5).map(|i| Tone { f: at[i - 1], a: C64::new(0.0, scale * i as f64) }).collect();
        let x = Signal::new(n, tones).samples();
        for (algorithm, k) in [(Algorithm::Dense, 2), (Algorithm::Exact, 5), (Algorithm::Dense, 5)]
        {
            let problem = Problem::new(n).sparsity(k).algorithm(algorithm);
            let spectrum = match Plan::new(problem).unwrap().transform(&x) {
                Ok(spectrum) if spectrum.certificate().is_reliable() => spectrum,
                Ok(_) | Err(Error::Overflow { .. }) if algorithm == Algorithm::Exact => continue,
                other => panic!("{scale:e}, {algorithm}: {other:?}"),
            };
            let order: Vec<u64> = spectrum.top(3).iter().map(|p| p.index).collect();
            assert_eq!(order, [1234, 7, 2000][..k.min(3) as usize], "{scale:e}, {algorithm}");
        }
    }
    let value = |index, re| Peak { index, value: C64::new(re, 0.0) };
    let sizes = [1e-200, 1e-144, 1.0, 1e153, 1e155, 1e300];
    let peaks = sizes.iter().enumerate().map(|(i, &size)| value(i as u64, size)).collect();
    let (certificate, report) = {
        let (_, _, any) = example(1 << 12, 1, 505);
        (any.certificate().clone(), any.report().clone())
    };
    let spectrum = Spectrum::new(8, peaks, certificate, report).unwrap();
    let order: Vec<u64> = spectrum.top(6).iter().map(|p| p.index).collect();
    assert_eq!(order, [5, 4, 3, 2, 1, 0]);
}

/// A seed that was drawn is another one each time, is kept by every format, and is recorded.
#[test]
fn a_drawn_seed_is_recorded() {
    let drawn: Vec<u64> = (0..100).map(|_| sparsefft::random_seed()).collect();
    let distinct: std::collections::HashSet<_> = drawn.iter().collect();
    assert_eq!(distinct.len(), 100);
    assert!(drawn.iter().all(|&seed| seed < 1 << 53 && seed as f64 as u64 == seed));
    let n = 1 << 16;
    let plan = Plan::new(Problem::new(n).sparsity(1).noise(Noise::Exact).seed(drawn[0])).unwrap();
    let spectrum = plan.transform(&vec![1.0f32; n as usize]).unwrap();
    assert_eq!((plan.recipe().seed, spectrum.report().seed), (drawn[0], drawn[0]));
}
