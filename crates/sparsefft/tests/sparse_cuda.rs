//! The sparse FFT on a GPU against the CPU. Without a GPU the tests say that they are skipped;
//! with `SPARSEFFT_REQUIRE_CUDA=1` they fail instead.
#![cfg(feature = "cuda")]

mod cuda_device;

use cuda_device::device;
use cudarc::driver::sys;
use sparsefft::cuda::{Buffer, CudaFft, CudaPlan, Device, Format, Signal};
use sparsefft::dense::Direction;
use sparsefft::{
    Algorithm, Complex, Error, Fallback, Noise, Place, Plan, Problem, Spectrum, from_fn,
};
use std::collections::BTreeMap;

type Truth = BTreeMap<u64, Complex<f64>>;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// k unit tones at multiples of `step`, with white noise, on the device.
fn make(
    device: &Device,
    n: u64,
    k: usize,
    sigma: f64,
    step: u64,
    seed: u64,
) -> (Truth, Buffer<f64>) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..10).for_each(|_| {
        random.next();
    });
    let mut truth = Truth::new();
    while truth.len() < k {
        let f = random.next() % (n / step) * step;
        truth.insert(f, Complex::from_polar(1.0, 6.2 * random.uniform()));
    }
    let mut x = vec![Complex::<f64>::ZERO; n as usize];
    let each = sigma * (1.5 * n as f64).sqrt();
    for v in &mut x {
        *v = Complex::new(random.uniform() - 0.5, random.uniform() - 0.5) * 2.0 * each;
    }
    for (&f, &a) in &truth {
        x[f as usize] += a * n as f64;
    }
    let mut data = device.upload(&x).unwrap();
    CudaFft::<f64>::new(device, n).unwrap().run(Direction::Inverse, &mut data).unwrap();
    (truth, data)
}

fn worst(truth: &Truth, spectrum: &Spectrum) -> f64 {
    let n = spectrum.n() as f64;
    let missing = truth.iter().map(|(&f, &a)| (spectrum.value(f) / n - a).norm());
    let extra = spectrum.peaks().iter().filter(|p| !truth.contains_key(&p.index));
    missing.chain(extra.map(|p| p.value.norm() / n)).fold(0.0, f64::max)
}

fn asked(n: u64, k: usize, noise: Noise, algorithm: Algorithm) -> Problem {
    Problem::new(n).sparsity(k as u64).noise(noise).algorithm(algorithm)
}

#[test]
fn exact_and_robust_run_on_the_device_and_agree_with_the_cpu() {
    let Some(device) = device() else { return };
    for (n, k, sigma) in [
        (1u64 << 10, 4, 0.0),
        (1 << 14, 10, 0.0),
        (1 << 18, 50, 0.0),
        (1 << 22, 1000, 0.0),
        (1_000_000, 50, 0.0),
        (1 << 20, 50, 0.1),
        (1 << 22, 300, 0.1),
    ] {
        let noises: &[Noise] = if sigma > 0.0 {
            &[Noise::Snr(20.0), Noise::Unknown]
        } else {
            &[Noise::Exact, Noise::Unknown]
        };
        for seed in 1..6 {
            let (truth, data) = make(&device, n, k, sigma, 1, seed);
            for &noise in noises {
                let name = if noise == Noise::Exact { Algorithm::Exact } else { Algorithm::Robust };
                let problem = asked(n, k, noise, name);
                let plan = CudaPlan::new(&device, problem.clone()).unwrap();
                let got = plan.transform(&data.signal()).unwrap();
                assert!(got.certificate().is_certified(), "{n} {k} {noise:?} {seed}");
                let bound = if sigma > 0.0 { 0.15 * sigma } else { 1e-9 };
                assert!(worst(&truth, &got) < bound, "{n} {k} {noise:?} {seed}");
                let cpu = Plan::new(problem).unwrap().transform(&data.signal()).unwrap();
                let indices = |s: &Spectrum| s.peaks().iter().map(|p| p.index).collect::<Vec<_>>();
                assert_eq!(indices(&got), indices(&cpu), "{n} {k} {noise:?} {seed}");
            }
        }
    }
}

/// The quick kernel: combs from sparse to crowded, every format, up to four frequencies per bin.
#[test]
fn plain_signals_of_any_kind_are_solved_quickly() {
    let Some(device) = device() else { return };
    for (n, k) in [(1u64 << 16, 1), (1 << 16, 64), (1 << 18, 65), (1 << 20, 256), (1 << 20, 1024)] {
        for seed in 20..25 {
            let (truth, data) = make(&device, n, k, 0.0, 1, seed);
            for noise in [Noise::Exact, Noise::Unknown] {
                let name = if noise == Noise::Exact { Algorithm::Exact } else { Algorithm::Robust };
                let plan = CudaPlan::new(&device, asked(n, k, noise, name)).unwrap();
                let got = plan.transform(&data.signal()).unwrap();
                assert!(got.certificate().is_certified(), "{n} {k} {seed}");
                assert_eq!(got.report().place, Place::Gpu, "{n} {k} {seed}");
                assert!(worst(&truth, &got) < 1e-9, "{n} {k} {seed}: {}", worst(&truth, &got));
                let again = plan.transform(&data.signal()).unwrap();
                assert_eq!(got.peaks(), again.peaks(), "{n} {k} {seed}");
            }
        }
    }
    // Four frequencies in one comb bin, and three in another, among others; five are too many for
    // the quick kernel, but not for the answer.
    let n = 1u64 << 20;
    for crowd in [3u64, 4, 5] {
        let mut truth = Truth::new();
        for i in 0..crowd {
            truth.insert(77 + 4096 * (i * i * 13 + 3), Complex::cis(i as f64));
        }
        for i in 0..3 {
            truth.insert(1234 + 4096 * (i * 60 + 5), Complex::cis(2.0 * i as f64) * 0.5);
        }
        for i in 0..90 {
            truth.insert(5000 + 9973 * i, Complex::cis(0.7 * i as f64));
        }
        let mut x = vec![Complex::<f64>::ZERO; n as usize];
        for (&f, &a) in &truth {
            x[f as usize] = a * n as f64;
        }
        let mut data = device.upload(&x).unwrap();
        CudaFft::<f64>::new(&device, n).unwrap().run(Direction::Inverse, &mut data).unwrap();
        let problem = asked(n, truth.len(), Noise::Exact, Algorithm::Exact);
        let got = CudaPlan::new(&device, problem).unwrap().transform(&data.signal()).unwrap();
        assert!(got.certificate().is_certified(), "{crowd}");
        assert!(worst(&truth, &got) < 1e-9, "{crowd}: {}", worst(&truth, &got));
        // Pairs of f32 are solved down to their rounding.
        let narrow: Vec<Complex<f32>> = data
            .download()
            .unwrap()
            .iter()
            .map(|v| Complex::new(v.re as f32, v.im as f32))
            .collect();
        let narrow = device.upload(&narrow).unwrap();
        let problem = asked(n, truth.len(), Noise::Unknown, Algorithm::Robust);
        let got = CudaPlan::new(&device, problem).unwrap().transform(&narrow.signal()).unwrap();
        assert!(worst(&truth, &got) < 1e-4, "{crowd}: {}", worst(&truth, &got));
    }
}

/// The kernels for many coefficients: combs of every shape, up to four frequencies per bin.
#[test]
fn many_coefficients_are_solved_by_the_whole_device() {
    let Some(device) = device() else { return };
    for (n, k) in [(1u64 << 18, 1500), (1 << 20, 4000), (1 << 22, 9000), (1 << 22, 20_000)] {
        for seed in 30..33 {
            let (truth, data) = make(&device, n, k, 0.0, 1, seed);
            for noise in [Noise::Exact, Noise::Unknown] {
                let name = if noise == Noise::Exact { Algorithm::Exact } else { Algorithm::Robust };
                let problem = asked(n, k, noise, name);
                let plan = CudaPlan::new(&device, problem.clone()).unwrap();
                let got = plan.transform(&data.signal()).unwrap();
                assert!(got.certificate().is_certified(), "{n} {k} {seed}");
                assert_eq!(got.report().place, Place::Gpu, "{n} {k} {seed}");
                assert!(worst(&truth, &got) < 1e-9, "{n} {k} {seed}: {}", worst(&truth, &got));
                assert_eq!(plan.missed(), 0, "{n} {k} {seed}");
                let again = plan.transform(&data.signal()).unwrap();
                assert_eq!(got.peaks(), again.peaks(), "{n} {k} {seed}");
                assert_eq!(got.certificate(), again.certificate(), "{n} {k} {seed}");
                // Other numbers of bins give the same answer but for rounding.
                for bins in [1 << 13, 1 << 14, 1 << 16, 1 << 17] {
                    if bins < 4 * k || bins as u64 * 32 > n {
                        continue;
                    }
                    let plan = CudaPlan::tuned(&device, problem.clone(), None, Some(bins)).unwrap();
                    let got = plan.transform(&data.signal()).unwrap();
                    assert!(got.certificate().is_certified(), "{n} {k} {seed} {bins}");
                    assert!(worst(&truth, &got) < 1e-9, "{n} {k} {seed} {bins}");
                }
            }
        }
    }
    // The largest combs.
    let (n, k) = (1u64 << 25, 30_000);
    let (truth, data) = make(&device, n, k, 0.0, 1, 34);
    for bins in [1 << 18, 1 << 19, 1 << 20] {
        let problem = asked(n, k, Noise::Exact, Algorithm::Exact);
        let plan = CudaPlan::tuned(&device, problem, None, Some(bins)).unwrap();
        let got = plan.transform(&data.signal()).unwrap();
        assert!(got.certificate().is_certified(), "{bins}");
        assert!(worst(&truth, &got) < 1e-9, "{bins}");
        assert_eq!(plan.missed(), 0, "{bins}");
    }
}

/// What the kernels for many coefficients meet beside random frequencies.
#[test]
fn many_coefficients_of_any_kind_are_solved() {
    let Some(device) = device() else { return };
    let n = 1u64 << 20;
    let write = |truth: &Truth| {
        let mut x = vec![Complex::<f64>::ZERO; n as usize];
        for (&f, &a) in truth {
            x[f as usize] = a * n as f64;
        }
        let mut data = device.upload(&x).unwrap();
        CudaFft::<f64>::new(&device, n).unwrap().run(Direction::Inverse, &mut data).unwrap();
        data
    };
    let tone = |i: u64| Complex::cis(0.7 * i as f64) * (1.0 + (i % 7) as f64);
    // A band: cells of the answer overflow, and the host sorts. Then bins with five frequencies and
    // more, which take another comb or the general kernel.
    let band: Truth = (0..3000).map(|i| (123_456 + i, tone(i))).collect();
    let mut crowd: Truth = (0..1500).map(|i| (i * 691 + 7, tone(i))).collect();
    crowd.extend((0..6).map(|i| (1 + (1 << 14) * (i * i + 3), tone(i))));
    for truth in [band, crowd] {
        let data = write(&truth);
        for noise in [Noise::Exact, Noise::Unknown] {
            let plan = asked(n, truth.len(), noise, Algorithm::Exact);
            let plan = CudaPlan::new(&device, plan).unwrap();
            let got = plan.transform(&data.signal()).unwrap();
            assert!(got.certificate().is_certified());
            assert!(worst(&truth, &got) < 1e-8, "{}", worst(&truth, &got));
        }
    }
    let (truth, data) = make(&device, n, 3000, 0.0, 1, 40);
    // A batch, with a signal of noise among them that nothing certifies.
    let samples = data.download().unwrap();
    let (_, noise) = make(&device, n, 1, 30.0, 1, 4);
    let mut three = samples.clone();
    three.extend(noise.download().unwrap());
    three.extend(&samples);
    let three = device.upload(&three).unwrap();
    let problem = asked(n, 3000, Noise::Exact, Algorithm::Exact).fallback(Fallback::Never);
    let answers = CudaPlan::new(&device, problem).unwrap().transform_batch(&three.signals(n));
    for (i, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap();
        assert_eq!(answer.certificate().is_reliable(), i != 1);
        assert!(i == 1 || worst(&truth, &answer) < 1e-9);
    }
    // Pairs of f32 have noise, which the kernels leave to others; real samples come in pairs.
    let narrow: Vec<Complex<f32>> =
        samples.iter().map(|v| Complex::new(v.re as f32, v.im as f32)).collect();
    let narrow = device.upload(&narrow).unwrap();
    let problem = asked(n, 3000, Noise::Unknown, Algorithm::Robust);
    let got = CudaPlan::new(&device, problem).unwrap().transform(&narrow.signal()).unwrap();
    assert!(worst(&truth, &got) < 1e-4, "{}", worst(&truth, &got));
    let real: Vec<f64> = samples.iter().map(|v| v.re).collect();
    // SAFETY: pairs of f64 are f64; there are n/2 of them.
    let pairs = unsafe { std::slice::from_raw_parts(real.as_ptr().cast(), real.len() / 2) };
    let real = device.upload::<f64>(pairs).unwrap();
    // SAFETY: the buffer outlives the signal and holds n values of this format.
    let signal = unsafe { Signal::from_raw(&device, real.signal().pointer(), n, Format::RealF64) };
    let problem = asked(n, 6000, Noise::Exact, Algorithm::Exact);
    let plan = CudaPlan::new(&device, problem).unwrap();
    let got = plan.transform(&signal).unwrap();
    assert!(got.certificate().is_certified());
    let mut mirrored = Truth::new();
    for (&f, &a) in &truth {
        *mirrored.entry(f).or_default() += 0.5 * a;
        *mirrored.entry((n - f) % n).or_default() += 0.5 * a.conj();
    }
    assert!(worst(&mirrored, &got) < 1e-9);
    for p in got.peaks() {
        assert_eq!(got.value((n - p.index) % n), p.value.conj());
    }
    // A sample that is none is named.
    let mut bad = samples.clone();
    let plan = CudaPlan::new(&device, asked(n, 3000, Noise::Exact, Algorithm::Exact)).unwrap();
    bad[0].re = f64::NAN;
    let bad = device.upload(&bad).unwrap();
    assert!(matches!(plan.transform(&bad.signal()), Err(Error::NonFinite { .. })));
}

#[test]
fn every_other_problem_works_with_samples_from_the_device() {
    let Some(device) = device() else { return };
    // Among them noise that is a surprise and stronger than the frequencies.
    for (n, k, sigma, algorithm) in
        [(1_000_003u64, 20, 1.5, Algorithm::Robust), (1 << 12, 10, 0.0, Algorithm::Dense)]
    {
        let (truth, data) = make(&device, n, k, sigma, 1, 3);
        let noise = if sigma > 0.0 { Noise::Unknown } else { Noise::Exact };
        let plan = CudaPlan::new(&device, asked(n, k, noise, algorithm)).unwrap();
        let got = plan.transform(&data.signal()).unwrap();
        let bound = (0.5 * sigma).max(1e-6);
        assert!(worst(&truth, &got) < bound, "{n} {k} {algorithm}: {}", worst(&truth, &got));
        assert!(got.report().place != Place::Cpu);
    }
}

/// Windows alone: lengths without a comb, and frequencies that share a few bins of any comb.
#[test]
fn lengths_without_a_comb_and_structured_frequencies_are_solved_on_the_device() {
    let Some(device) = device() else { return };
    for (n, k, step) in [
        (16_411u64, 3, 1),
        (1_000_003, 50, 1),
        (2 * 499_979, 102, 1),
        (2_097_143, 1000, 1),
        (1 << 20, 30, 4096),
        (1 << 22, 200, 8192),
    ] {
        for seed in 1..6 {
            let (truth, data) = make(&device, n, k, 0.0, step, seed);
            for noise in [Noise::Exact, Noise::Unknown] {
                let name = if noise == Noise::Exact { Algorithm::Exact } else { Algorithm::Robust };
                let problem = asked(n, k, noise, name);
                let plan = CudaPlan::new(&device, problem.clone()).unwrap();
                let got = plan.transform(&data.signal()).unwrap();
                let what = format!("{n} {k} {noise:?} {seed}: {}", got.report().place);
                assert!(got.certificate().is_certified(), "{what}");
                assert!(worst(&truth, &got) < 1e-9, "{what}");
                assert_eq!(got.report().place, Place::Gpu, "{what}");
                // Two runs give the same bits; the CPU gives the same frequencies.
                assert_eq!(got.peaks(), plan.transform(&data.signal()).unwrap().peaks(), "{what}");
                let cpu = Plan::new(problem).unwrap().transform(&data.signal()).unwrap();
                let indices = |s: &Spectrum| s.peaks().iter().map(|p| p.index).collect::<Vec<_>>();
                assert_eq!(indices(&got), indices(&cpu), "{what}");
            }
        }
    }
    // Samples that the host gathers, batches, and noise that nobody announced.
    let n = 1_000_003;
    let plan = CudaPlan::new(&device, asked(n, 20, Noise::Unknown, Algorithm::Robust)).unwrap();
    let (truth, data) = make(&device, n, 20, 0.0, 1, 9);
    let here = data.download().unwrap();
    assert!(worst(&truth, &plan.transform_samples(&here[..]).unwrap()) < 1e-9);
    let signals = [data.signal(), data.signal()];
    for got in plan.transform_batch(&signals) {
        assert!(worst(&truth, &got.unwrap()) < 1e-9);
    }
    let (truth, data) = make(&device, n, 20, 0.01, 1, 9);
    let got = plan.transform(&data.signal()).unwrap();
    assert!(got.certificate().is_certified() && worst(&truth, &got) < 0.005);
}

/// Noise without a comb, and noise in which a comb leaves bins open. A threshold fails once in a million
/// transforms.
#[test]
fn noise_is_solved_on_the_device_by_windows() {
    let Some(device) = device() else { return };
    // The comb of the last two leaves bins open in half of the signals and in one of fifty.
    for (n, k, decibels) in [
        (65_537u64, 10, 20.0),
        (65_537, 50, 20.0),
        (1_000_003, 50, 20.0),
        (1_000_003, 50, 0.0),
        (2_097_143, 1000, 20.0),
        (1 << 18, 1000, 20.0),
        (1 << 20, 1000, 20.0),
    ] {
        let sigma = 10f64.powf(-0.05 * decibels);
        let noises = if decibels < 3.0 || n.is_power_of_two() {
            vec![Noise::Snr(decibels)]
        } else {
            vec![Noise::Snr(decibels), Noise::Unknown]
        };
        for noise in noises {
            let problem = asked(n, k, noise, Algorithm::Robust);
            let plan = CudaPlan::new(&device, problem.clone()).unwrap();
            for seed in 40..46 {
                let (truth, data) = make(&device, n, k, sigma, 1, seed);
                let got = plan.transform(&data.signal()).unwrap();
                let what = format!("{n} {k} {noise:?} {seed}: {}", got.report().place);
                assert!(got.certificate().is_certified(), "{what}");
                assert_eq!(got.report().place, Place::Gpu, "{what}");
                // Two frequencies that share a bin of a comb may amplify the noise.
                let bound = if n.is_power_of_two() { 0.5 } else { 0.15 };
                assert!(worst(&truth, &got) < bound * sigma, "{what}: {}", worst(&truth, &got));
                let indices = |s: &Spectrum| s.peaks().iter().map(|p| p.index).collect::<Vec<_>>();
                let again = plan.transform(&data.signal()).unwrap();
                assert_eq!(indices(&got), indices(&again), "{what}");
                for (a, b) in got.peaks().iter().zip(again.peaks()) {
                    assert!((a.value - b.value).norm() < 1e-9 * n as f64, "{what}");
                }
                let cpu = Plan::new(problem.clone()).unwrap().transform(&data.signal()).unwrap();
                assert_eq!(indices(&got), indices(&cpu), "{what}");
            }
            // Batches give the same.
            let (truth, data) = make(&device, n, k, sigma, 1, 50);
            let signals = [data.signal(), data.signal()];
            for got in plan.transform_batch(&signals) {
                assert!(worst(&truth, &got.unwrap()) < 0.5 * sigma, "{n} {k} {noise:?}");
            }
        }
    }
}

#[test]
fn votes_are_counted_on_the_device_as_on_the_cpu() {
    let Some(device) = device() else { return };
    // Lengths with and without a comb, a prime one, crowded and noisy signals.
    for (n, k, sigma) in [
        (1u64 << 16, 10, 0.0),
        (1 << 20, 50, 0.0),
        (1 << 20, 50, 0.3),
        (1_000_000, 50, 0.1),
        (1_000_003, 20, 0.0),
        (1 << 22, 1000, 0.03),
    ] {
        let (truth, data) = make(&device, n, k, sigma, 1, 7);
        let noise = if sigma > 0.0 { Noise::Unknown } else { Noise::Exact };
        for algorithm in [Algorithm::Vote, Algorithm::CombVote] {
            let problem = asked(n, k, noise, algorithm);
            let plan = CudaPlan::new(&device, problem.clone()).unwrap();
            let got = plan.transform(&data.signal()).unwrap();
            let what = format!("{n} {k} {sigma} {algorithm}: {:?}", got.certificate());
            assert!(got.certificate().is_certified(), "{what}");
            assert_eq!(got.report().place, Place::Gpu, "{what}");
            assert!(worst(&truth, &got) < if sigma > 0.0 { 0.1 } else { 1e-6 }, "{what}");
            let cpu = Plan::new(problem).unwrap().transform(&data.signal()).unwrap();
            let indices = |s: &Spectrum| s.peaks().iter().map(|p| p.index).collect::<Vec<_>>();
            assert_eq!(indices(&got), indices(&cpu), "{what}");
            // The medians are the same but for rounding, and two runs give the same bits.
            for (a, b) in got.peaks().iter().zip(cpu.peaks()) {
                assert!((a.value - b.value).norm() < 1e-9 * n as f64, "{what}");
            }
            assert_eq!(got.report().samples_read, cpu.report().samples_read, "{what}");
            let again = plan.transform(&data.signal()).unwrap();
            assert_eq!(got.peaks(), again.peaks(), "{what}");
        }
    }
}

#[test]
fn votes_find_out_how_many_and_refuse_what_they_cannot_explain() {
    let Some(device) = device() else { return };
    let n = 1u64 << 18;
    let (truth, data) = make(&device, n, 300, 0.0, 1, 11);
    let unknown = Problem::new(n).algorithm(Algorithm::Vote);
    let got = CudaPlan::new(&device, unknown).unwrap().transform(&data.signal()).unwrap();
    assert!(got.certificate().is_certified(), "{:?}", got.certificate());
    assert!(worst(&truth, &got) < 1e-6);
    // Real samples: the answer is closed under conjugation.
    let real: Vec<f32> = data.download().unwrap().iter().map(|v| v.re as f32).collect();
    // SAFETY: pairs of f32 are f32; the buffer holds n/2 of them.
    let pairs = unsafe { std::slice::from_raw_parts(real.as_ptr().cast(), real.len() / 2) };
    let buffer = device.upload::<f32>(pairs).unwrap();
    // SAFETY: the buffer outlives the signal and holds n values of this format.
    let signal =
        unsafe { Signal::from_raw(&device, buffer.signal().pointer(), n, Format::RealF32) };
    let problem = Problem::new(n).sparsity(600).algorithm(Algorithm::CombVote);
    let got = CudaPlan::new(&device, problem).unwrap().transform(&signal).unwrap();
    assert!(got.certificate().is_certified(), "{:?}", got.certificate());
    for p in got.peaks() {
        assert_eq!(got.value((n - p.index) % n), p.value.conj());
    }
    // Noise alone, and a sample that is none.
    let (_, noise) = make(&device, n, 1, 30.0, 1, 4);
    let problem = Problem::new(n).sparsity(5).algorithm(Algorithm::Vote).fallback(Fallback::Never);
    let plan = CudaPlan::new(&device, problem).unwrap();
    assert!(!plan.transform(&noise.signal()).unwrap().certificate().is_reliable());
    let mut samples = noise.download().unwrap();
    let read = plan.plan().sample_indices().nth(12_345).unwrap();
    samples[read as usize].im = f64::NAN;
    let bad = device.upload(&samples).unwrap();
    let error = plan.transform(&bad.signal()).unwrap_err();
    assert!(matches!(error, Error::NonFinite { index, .. } if index == read), "{error:?}");
    let zero = device.upload(&vec![Complex::<f64>::ZERO; n as usize]).unwrap();
    assert!(plan.transform(&zero.signal()).unwrap().peaks().is_empty());
}

#[test]
fn signals_may_live_anywhere() {
    let Some(device) = device() else { return };
    let (n, k) = (1u64 << 20, 50);
    let (truth, data) = make(&device, n, k, 0.0, 1, 9);
    let plan = CudaPlan::new(&device, asked(n, k, Noise::Exact, Algorithm::Exact)).unwrap();
    let first = plan.transform(&data.signal()).unwrap();
    let host = data.download().unwrap();
    let mut pinned = device.pinned::<f64>(n as usize).unwrap();
    pinned.as_mut_slice().copy_from_slice(&host);
    let over_the_bus = plan.transform(&pinned.signal()).unwrap();
    let gathered = plan.transform_samples(&host).unwrap();
    // SAFETY: the buffer outlives the signal and holds n values of this format.
    let raw = unsafe { Signal::from_raw(&device, data.signal().pointer(), n, Format::ComplexF64) };
    let raw = plan.transform(&raw).unwrap();
    for other in [&over_the_bus, &gathered, &raw] {
        assert!(worst(&truth, other) < 1e-12);
        assert_eq!(other.report().place, Place::Gpu);
    }
    // The same kernel gives the same bits; what the CPU gathered goes through another one.
    assert_eq!(first.peaks(), over_the_bus.peaks());
    assert_eq!(first.peaks(), raw.peaks());
    // A source that fails says so, and one that nobody could hold in memory works.
    let failing = from_fn(n, |i| Ok(vec![Complex::new(f64::NAN, 0.0); i.len()]));
    assert!(matches!(plan.transform_samples(&failing), Err(Error::NonFinite { .. })));
    let (huge, f) = (1u64 << 40, 123_456_789_012u128);
    let tone = |t: &u64| {
        let turns = (f * u128::from(*t) % u128::from(huge)) as f64 / huge as f64;
        Complex::cis(std::f64::consts::TAU * turns)
    };
    let source = from_fn(huge, |i| Ok(i.iter().map(tone).collect()));
    let far = CudaPlan::new(&device, asked(huge, 1, Noise::Exact, Algorithm::Exact)).unwrap();
    let got = far.transform_samples(&source).unwrap();
    assert!(got.certificate().is_certified());
    assert_eq!(got.peaks().iter().map(|p| p.index).collect::<Vec<_>>(), [f as u64]);
    // f32.
    let narrow: Vec<Complex<f32>> =
        host.iter().map(|v| Complex::new(v.re as f32, v.im as f32)).collect();
    let narrow = device.upload(&narrow).unwrap();
    let plan = CudaPlan::new(&device, asked(n, k, Noise::Unknown, Algorithm::Robust)).unwrap();
    let got = plan.transform(&narrow.signal()).unwrap();
    assert!(got.certificate().is_certified());
    assert!(worst(&truth, &got) < 1e-5, "{}", worst(&truth, &got));
}

#[test]
fn batches_equal_single_transforms() {
    let Some(device) = device() else { return };
    let (n, k) = (1u64 << 16, 20);
    let mut all = Vec::new();
    for seed in 0..40 {
        all.extend(make(&device, n, k, 0.0, 1, seed + 1).1.download().unwrap());
    }
    let data = device.upload(&all).unwrap();
    let plan = CudaPlan::new(&device, asked(n, k, Noise::Exact, Algorithm::Exact)).unwrap();
    let signals = data.signals(n);
    let together = plan.transform_batch(&signals);
    assert_eq!(together.len(), 40);
    for (signal, got) in signals.iter().zip(together) {
        let (one, got) = (plan.transform(signal).unwrap(), got.unwrap());
        assert_eq!(one.peaks(), got.peaks());
        assert!(got.certificate().is_certified());
    }
}

/// Signals with other addresses in turn, whose crowded bins warps race for: every one gets its own answer, and the
/// same bits every time.
#[test]
fn noisy_signals_in_turn_give_the_same_bits() {
    let Some(device) = device() else { return };
    let (n, k) = (1u64 << 20, 1000);
    let signals: Vec<_> = (21..24).map(|seed| make(&device, n, k, 0.1, 1, seed)).collect();
    let plan = CudaPlan::new(&device, asked(n, k, Noise::Snr(20.0), Algorithm::Robust)).unwrap();
    let first: Vec<_> =
        signals.iter().map(|(_, data)| plan.transform(&data.signal()).unwrap()).collect();
    for ((truth, _), got) in signals.iter().zip(&first) {
        assert!(got.certificate().is_certified());
        assert!(worst(truth, got) < 0.05, "{}", worst(truth, got));
    }
    for round in 0..30 {
        let i = (round * round + round / 3) % 3;
        let again = plan.transform(&signals[i].1.signal()).unwrap();
        assert_eq!(again.peaks(), first[i].peaks(), "round {round}");
    }
}

#[test]
fn growing_and_refusing_are_honest() {
    let Some(device) = device() else { return };
    let n = 1u64 << 20;
    // Twenty times the frequencies that the first comb has room for.
    let (truth, data) = make(&device, n, 1000, 0.0, 1, 4);
    let plan = CudaPlan::new(&device, Problem::new(n).noise(Noise::Exact)).unwrap();
    let got = plan.transform(&data.signal()).unwrap();
    assert!(got.certificate().is_certified());
    assert!(worst(&truth, &got) < 1e-9);
    // Noise alone.
    let (_, noise) = make(&device, n, 1, 30.0, 1, 4);
    let problem = Problem::new(n).sparsity(5).fallback(Fallback::Never);
    let got = CudaPlan::new(&device, problem).unwrap().transform(&noise.signal()).unwrap();
    assert!(!got.certificate().is_reliable());
    // Not a number.
    let bad = device.upload(&vec![Complex::new(f64::NAN, 0.0); n as usize]).unwrap();
    let plan = CudaPlan::new(&device, asked(n, 5, Noise::Exact, Algorithm::Exact)).unwrap();
    assert!(matches!(plan.transform(&bad.signal()), Err(Error::NonFinite { .. })));
    // Another length.
    let short = device.upload(&vec![Complex::<f64>::ONE; 100]).unwrap();
    let error = plan.transform(&short.signal()).unwrap_err();
    assert_eq!(error, Error::LengthMismatch { expected: n, got: 100 });
}

#[test]
fn ten_thousand_transforms_leave_no_memory_behind() {
    let Some(device) = device() else { return };
    let (n, k) = (1u64 << 16, 16);
    let (truth, data) = make(&device, n, k, 0.0, 1, 2);
    let context = device.stream().context();
    let free = || {
        // What other tests have freed goes back when it is asked for.
        context.synchronize().unwrap();
        let mut pool = std::ptr::null_mut();
        // SAFETY: the context's device; its pool may be trimmed at any time.
        unsafe {
            sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()).result().unwrap();
            sys::cuMemPoolTrimTo(pool, 0).result().unwrap();
        }
        context.mem_get_info().unwrap().0
    };
    let problem = asked(n, k, Noise::Exact, Algorithm::Exact);
    let plan = CudaPlan::new(&device, problem.clone()).unwrap();
    plan.transform(&data.signal()).unwrap();
    // The driver keeps room for the stacks of the largest kernel that has run: the general one, which
    // other tests may be the first to launch.
    let general = asked(3 << 14, k, Noise::Exact, Algorithm::Exact);
    let (_, other) = make(&device, 3 << 14, k, 0.0, 1, 2);
    CudaPlan::new(&device, general).unwrap().transform(&other.signal()).unwrap();
    drop(other);
    device.synchronize().unwrap();
    let before = free();
    for _ in 0..10_000 {
        let got = plan.transform(&data.signal()).unwrap();
        assert!(worst(&truth, &got) < 1e-9);
    }
    // And the kernels for many coefficients.
    let many = asked(1 << 18, 1500, Noise::Exact, Algorithm::Exact);
    let (crowd, more) = make(&device, 1 << 18, 1500, 0.0, 1, 2);
    for _ in 0..20 {
        let plan = CudaPlan::new(&device, many.clone()).unwrap();
        for _ in 0..20 {
            let got = plan.transform(&more.signal()).unwrap();
            assert!(worst(&crowd, &got) < 1e-9);
        }
    }
    drop(more);
    for _ in 0..100 {
        CudaPlan::new(&device, problem.clone()).unwrap().transform(&data.signal()).unwrap();
    }
    device.synchronize().unwrap();
    // Other tests hold memory of the same device while they run.
    let back = || free() + (1 << 25) >= before;
    for _ in 0..300 {
        if back() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(back(), "{} bytes are gone", before - free());
}
