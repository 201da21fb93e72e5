//! k is an upper bound: an answer holds what stands above the noise, and a k that is too large neither
//! invents a coefficient nor costs a dense FFT.

use sparsefft::{Algorithm, Complex, Fallback, Noise, Plan, Problem, Spectrum, Verdict};
use testkit::{C64, Rng, Signal, generate};

/// Samples of k random tones of like strength, with noise this many dB below each, and their places.
fn example(n: u64, k: u64, snr: Option<f64>, seed: u64) -> (Vec<u64>, Vec<C64>) {
    let signal = Signal::new(n, generate::random(&mut Rng::new(seed), n, k));
    let mut places: Vec<u64> = signal.tones.iter().map(|t| t.f).collect();
    places.sort_unstable();
    let mut x = signal.samples();
    if let Some(db) = snr {
        let weakest = signal.tones.iter().map(|t| t.a.norm()).fold(f64::INFINITY, f64::min);
        let sigma = weakest * 10f64.powf(-db / 20.0);
        let mut rng = Rng::new(seed + 1000);
        x.iter_mut().for_each(|v| *v += rng.gaussian() * sigma);
    }
    (places, x)
}

fn places(spectrum: &Spectrum) -> Vec<u64> {
    spectrum.peaks().iter().map(|p| p.index).collect()
}

#[test]
fn a_k_that_is_too_large_changes_nothing() {
    // A power of two, one with odd factors, and a prime, which has no combs.
    for (n, k) in [(1u64 << 18, 40u64), (186_624, 40), (262_147, 12)] {
        for (snr, declared) in [
            (None, Noise::Unknown),
            (None, Noise::Exact),
            (Some(20.0), Noise::Unknown),
            (Some(20.0), Noise::Snr(20.0)),
            (Some(40.0), Noise::Unknown),
        ] {
            let (truth, x) = example(n, k, snr, 31 * k);
            let mut read = 0;
            for asked in [k, k + 1, 2 * k] {
                let problem = Problem::new(n).at_most(asked).noise(declared);
                let spectrum = Plan::new(problem).unwrap().transform(&x).unwrap();
                let what = format!("n {n}, {asked} for {k}, {snr:?} dB, declared {declared:?}");
                let certificate = spectrum.certificate();
                assert!(certificate.is_certified(), "{what}: {certificate}");
                assert_eq!(places(&spectrum), truth, "{what}");
                // One more may need the next larger hash, twice as many a larger one yet.
                let samples = spectrum.report().samples_read;
                let most = match asked {
                    _ if asked == k => n / 4,
                    _ if asked == k + 1 => 2 * read,
                    _ => 5 * read,
                };
                assert!(samples <= most, "{what}: {samples} samples, {read} for k");
                read = read.max(samples);
            }
        }
    }
}

#[test]
fn exactly_k_fills_up_with_noise() {
    let (n, k) = (1u64 << 16, 40);
    let (truth, x) = example(n, k, Some(20.0), 5);
    let of = |problem: Problem| Plan::new(problem).unwrap().transform(&x).unwrap();
    let filled = of(Problem::new(n).exactly(k + 3));
    assert_eq!(filled.certificate().verdict, Verdict::Dense);
    assert_eq!(filled.peaks().len() as u64, k + 3);
    assert!(truth.iter().all(|f| filled.value(*f) != C64::ZERO));
    let sparse = of(Problem::new(n).exactly(k));
    assert!(sparse.certificate().is_certified());
    assert_eq!(places(&sparse), truth);
    let open = of(Problem::new(n).exactly(k + 3).fallback(Fallback::Never));
    assert_eq!(open.certificate().verdict, Verdict::Uncertified);
}

#[test]
fn a_bound_below_the_truth_keeps_the_largest() {
    let (n, k) = (1u64 << 16, 20);
    let mut tones = generate::random(&mut Rng::new(6), n, k);
    tones.iter_mut().enumerate().for_each(|(i, t)| t.a *= (1.0 + i as f64) / t.a.norm());
    let mut largest: Vec<u64> = tones[15..].iter().map(|t| t.f).collect();
    largest.sort_unstable();
    let x = Signal::new(n, tones).samples();
    for problem in [Problem::new(n).at_most(5), Problem::new(n).exactly(5)] {
        let spectrum = Plan::new(problem).unwrap().transform(&x).unwrap();
        assert_eq!(places(&spectrum), largest);
    }
}

#[test]
fn a_dense_answer_is_not_filled_up_either() {
    let n = 1u64 << 12;
    let dense = |problem: Problem, x: &[C64]| {
        Plan::new(problem.algorithm(Algorithm::Dense)).unwrap().transform(x).unwrap()
    };
    for (k, snr) in [(0, 0.0), (3, 0.0), (40, 10.0), (1000, 20.0)] {
        let (truth, mut x) = example(n, k, (k > 0).then_some(snr), 77);
        if k == 0 {
            let mut rng = Rng::new(9);
            x.iter_mut().for_each(|v| *v = rng.gaussian());
        }
        for asked in [k, k + 1, 2 * k + 1] {
            let spectrum = dense(Problem::new(n).at_most(asked), &x);
            assert_eq!(places(&spectrum), truth, "{asked} for {k}");
        }
        assert_eq!(dense(Problem::new(n).exactly(k + 1), &x).peaks().len() as u64, k + 1);
    }
    // Where k leaves no outputs that must be noise, all that are not zero are listed.
    let mut rng = Rng::new(10);
    let noise: Vec<Complex<f64>> = (0..100).map(|_| rng.gaussian()).collect();
    assert_eq!(dense(Problem::new(100).at_most(100), &noise).peaks().len(), 100);
}
