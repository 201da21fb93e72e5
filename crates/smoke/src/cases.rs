//! The cases.

use crate::{Case, Outcome};
use sparsefft::dense::{Direction, Fft, RealFft, Workspace};
use sparsefft::{
    Algorithm, Complex, Error, Fallback, Noise, Part, Plan, Problem, Sketch, Spectrum, Verdict,
    from_fn, indexed, recommended_length, transform,
};
use testkit::rng::{Rng, hashed_gaussian};
use testkit::{C64, oracle};

/// Fails with a text unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if $condition {
        } else {
            return Err(format!("{}: {}", stringify!($condition), format!($($text)*)));
        }
    };
}

/// A list of cases from the names of their functions.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// Every case.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), run: $name }),*];
    };
}

cases![
    exact,
    exact_of_many,
    noisy,
    unknown_count,
    prime_length,
    odd_and_smooth_lengths,
    real_samples_of_32_bits,
    integers,
    vote,
    length_beyond_32_bits,
    fetched_beyond_32_bits,
    tones,
    tones_beyond_32_bits,
    dense_complex,
    dense_real,
    dense_fallback,
    sketches,
    sketch_beyond_32_bits,
    batches,
    refusals,
];

fn text(e: Error) -> String {
    e.to_string()
}

/// Coefficients at these indices with amplitudes between 1/2 and 3/2, ascending.
fn lines(n: u64, k: u64, seed: u64) -> Vec<(u64, C64)> {
    let mut rng = Rng::new(seed);
    let mut places = rng.distinct(n, k);
    places.sort_unstable();
    places.into_iter().map(|f| (f, rng.phasor() * (0.5 + rng.uniform()))).collect()
}

/// Sample t of the signal that these make, by exact phases.
fn sample(lines: &[(u64, C64)], n: u64, t: u64) -> C64 {
    lines.iter().map(|&(f, a)| a * oracle::root(f as u128 * t as u128, n)).sum()
}

/// All samples.
fn samples(lines: &[(u64, C64)], n: u64) -> Vec<C64> {
    (0..n).map(|t| sample(lines, n, t)).collect()
}

/// The same in a time that does not depend on the number of lines.
fn many_samples(lines: &[(u64, C64)], n: u64) -> Vec<C64> {
    let mut x = vec![C64::ZERO; n as usize];
    lines.iter().for_each(|&(f, a)| x[f as usize] = a);
    oracle::inverse(&mut x);
    x
}

/// Whether an answer is certified and holds these lines, each to this share of the smallest.
fn holds(answer: &Spectrum, lines: &[(u64, C64)], n: u64, tolerance: f64) -> Outcome {
    ensure!(answer.certificate().is_certified(), "{}", answer.certificate());
    let found: Vec<u64> = answer.peaks().iter().map(|p| p.index).collect();
    let there: Vec<u64> = lines.iter().map(|l| l.0).collect();
    ensure!(found == there, "{found:?} instead of {there:?}");
    for (peak, (f, a)) in answer.peaks().iter().zip(lines) {
        let error = (peak.value / n as f64 - a).norm();
        ensure!(error < tolerance, "the value at {f} is off by {error:e}");
    }
    Ok(())
}

fn exact() -> Outcome {
    let (n, k) = (1 << 20, 50);
    let lines = lines(n, k, 1);
    let x = many_samples(&lines, n);
    let plan = Plan::new(Problem::new(n).sparsity(k).noise(Noise::Exact)).map_err(text)?;
    for _ in 0..3 {
        let answer = plan.transform(&x).map_err(text)?;
        ensure!(answer.report().samples_read < n / 10, "{}", answer.report().samples_read);
        holds(&answer, &lines, n, 1e-10)?;
    }
    holds(&transform(&x, k).map_err(text)?, &lines, n, 1e-10)
}

fn exact_of_many() -> Outcome {
    let (n, k) = (1 << 18, 2000);
    let lines = lines(n, k, 2);
    let x = many_samples(&lines, n);
    let problem = Problem::new(n).sparsity(k).algorithm(Algorithm::Exact);
    holds(&Plan::new(problem).and_then(|p| p.transform(&x)).map_err(text)?, &lines, n, 1e-9)
}

fn noisy() -> Outcome {
    let (n, k) = (1 << 18, 20);
    let lines = lines(n, k, 3);
    let mut x = many_samples(&lines, n);
    // 14 dB below the weakest.
    x.iter_mut().zip(0..).for_each(|(x, t)| *x += 0.1 * hashed_gaussian(4, t));
    let problem = Problem::new(n).sparsity(k);
    for problem in [problem.clone(), problem.noise(Noise::Snr(14.0))] {
        let answer = Plan::new(problem).and_then(|p| p.transform(&x)).map_err(text)?;
        holds(&answer, &lines, n, 0.1)?;
        let floor = answer.certificate().noise_floor;
        ensure!((0.08..0.13).contains(&floor), "{floor}");
    }
    Ok(())
}

fn unknown_count() -> Outcome {
    let n = 1 << 19;
    for k in [1, 30, 300] {
        let lines = lines(n, k, 5 + k);
        let x = many_samples(&lines, n);
        let answer = Plan::new(Problem::new(n)).and_then(|p| p.transform(&x)).map_err(text)?;
        holds(&answer, &lines, n, 1e-9)?;
    }
    Ok(())
}

fn prime_length() -> Outcome {
    let (n, k) = (100_003, 7);
    let lines = lines(n, k, 6);
    let x = samples(&lines, n);
    let problem = Problem::new(n).sparsity(k).noise(Noise::Exact).fallback(Fallback::Never);
    holds(&Plan::new(problem).and_then(|p| p.transform(&x)).map_err(text)?, &lines, n, 1e-10)
}

fn odd_and_smooth_lengths() -> Outcome {
    for n in [3u64.pow(10), 5u64.pow(7), 2 * 3 * 5 * 7 * 11 * 13 * 4, recommended_length(90_000, 6)]
    {
        let lines = lines(n, 6, n);
        let x = samples(&lines, n);
        let problem = Problem::new(n).sparsity(6).noise(Noise::Exact);
        holds(&Plan::new(problem).and_then(|p| p.transform(&x)).map_err(text)?, &lines, n, 1e-10)?;
    }
    Ok(())
}

fn real_samples_of_32_bits() -> Outcome {
    let n = 1u64 << 16;
    let tones = lines(n / 2, 4, 7);
    let x: Vec<f32> = (0..n).map(|t| 2.0 * sample(&tones, n, t).re as f32).collect();
    let answer = transform(&x, 8).map_err(text)?;
    let mirrored = tones.iter().map(|&(f, a)| (n - f, a.conj()));
    let mut both: Vec<(u64, C64)> = tones.iter().copied().chain(mirrored).collect();
    both.sort_by_key(|l| l.0);
    holds(&answer, &both, n, 1e-6)?;
    for p in answer.peaks() {
        ensure!(answer.value(n - p.index) == p.value.conj(), "{}", p.index);
    }
    Ok(())
}

fn integers() -> Outcome {
    let n = 1u64 << 17;
    let tones = lines(n, 3, 8);
    let round =
        |v: C64| Complex::new((2000.0 * v.re).round() as i16, (2000.0 * v.im).round() as i16);
    let x: Vec<Complex<i16>> = (0..n).map(|t| round(sample(&tones, n, t))).collect();
    let scaled: Vec<_> = tones.iter().map(|&(f, a)| (f, 2000.0 * a)).collect();
    holds(&transform(&x, 3).map_err(text)?, &scaled, n, 1.0)
}

fn vote() -> Outcome {
    let (n, k) = (1 << 18, 10);
    let lines = lines(n, k, 9);
    let x = many_samples(&lines, n);
    for algorithm in [Algorithm::Vote, Algorithm::CombVote] {
        let problem = Problem::new(n).sparsity(k).noise(Noise::Exact).algorithm(algorithm);
        holds(&Plan::new(problem).and_then(|p| p.transform(&x)).map_err(text)?, &lines, n, 1e-8)?;
    }
    Ok(())
}

fn length_beyond_32_bits() -> Outcome {
    // A power of two, whose lower 32 bits are zero, and others.
    for n in [1u64 << 40, (1 << 33) + 8, 3u64.pow(25), (1 << 36) + 31] {
        let mut lines = lines(n, 6, n);
        lines.push((n - 3, C64::new(0.0, 1.0)));
        let x = indexed(n, |t| sample(&lines, n, t));
        for noise in [Noise::Exact, Noise::Unknown] {
            let problem = Problem::new(n).sparsity(7).noise(noise);
            let answer = Plan::new(problem).and_then(|p| p.transform(&x)).map_err(text)?;
            holds(&answer, &lines, n, 1e-9).map_err(|why| format!("n = {n}: {why}"))?;
        }
    }
    Ok(())
}

fn fetched_beyond_32_bits() -> Outcome {
    let n = 1u64 << 41;
    let lines = lines(n, 5, 10);
    let x = from_fn(n, |places| Ok(places.iter().map(|&t| sample(&lines, n, t)).collect()));
    let answer = Plan::new(Problem::new(n)).and_then(|p| p.transform(&x)).map_err(text)?;
    holds(&answer, &lines, n, 1e-9)?;
    let (from, to) = (n - 1000, n - 900);
    for (t, v) in (from..).zip(answer.synthesize(from..to).map_err(text)?) {
        let error = (v - sample(&lines, n, t)).norm();
        ensure!(error < 1e-9, "sample {t} is off by {error:e}");
    }
    let refused = answer.to_dense();
    ensure!(matches!(refused, Err(Error::OutOfMemory { .. })) || usize::BITS == 64, "{refused:?}");
    Ok(())
}

/// Tones between the bins, found within six standard deviations.
fn tones_of(n: u64, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let truth: Vec<(f64, C64)> = (0..5)
        .map(|i| (-0.45 + 0.19 * f64::from(i) + 0.01 * rng.uniform(), rng.phasor()))
        .collect();
    let at = |t: u64| -> C64 {
        // The whole turns of a long record are taken off without rounding what is left.
        let turns = |nu: f64| {
            let scaled = (nu * 2f64.powi(52)).round() as i128;
            ((scaled * t as i128).rem_euclid(1 << 52)) as f64 / 2f64.powi(52)
        };
        let clean: C64 =
            truth.iter().map(|&(nu, a)| a * C64::cis(std::f64::consts::TAU * turns(nu))).sum();
        clean + 0.1 * hashed_gaussian(seed, t)
    };
    let plan = Plan::new(Problem::new(n).sparsity(5)).map_err(text)?;
    let answer = plan.tones(&indexed(n, at)).map_err(text)?;
    ensure!(answer.certificate().is_certified(), "{}", answer.certificate());
    ensure!(answer.tones().len() == 5, "{} tones", answer.tones().len());
    for (tone, (nu, a)) in answer.tones().iter().zip(&truth) {
        let (off, std) = (tone.frequency - nu, tone.frequency_std);
        ensure!(off.abs() < 6.0 * std && std * (n as f64) < 0.1, "{nu}: off by {off:e}, {std:e}");
        let off = tone.magnitude() - a.norm();
        ensure!(off.abs() < 6.0 * tone.amplitude_std, "{nu}: amplitude off by {off:e}");
    }
    Ok(())
}

fn tones() -> Outcome {
    tones_of(1 << 18, 11)
}

fn tones_beyond_32_bits() -> Outcome {
    tones_of(1 << 38, 12)
}

fn dense_complex() -> Outcome {
    for n in (1..40).chain([97, 128, 1000, 1009, 4096, 30_030, 1 << 15]) {
        let mut rng = Rng::new(n);
        let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
        let expected = if n < 2000 { oracle::naive(&x) } else { oracle::dense(&x) };
        let plan = Fft::<f64>::new(n).map_err(text)?;
        let mut y = x.clone();
        plan.forward(&mut y).map_err(text)?;
        near(&y, &expected, 1e-10 * n as f64)?;
        plan.inverse(&mut y).map_err(text)?;
        near(&y, &x, 1e-11)?;
        let mut short: Vec<_> = x.iter().map(|v| Complex::new(v.re as f32, v.im as f32)).collect();
        Fft::<f32>::new(n).and_then(|p| p.forward(&mut short)).map_err(text)?;
        let wide: Vec<_> =
            short.iter().map(|v| C64::new(f64::from(v.re), f64::from(v.im))).collect();
        near(&wide, &expected, 1e-5 * n as f64)?;
    }
    // Two passes, and a convolution in place of a large prime.
    for n in [1 << 20, 2 * 524_309] {
        let x: Vec<C64> = (0..n).map(|t| oracle::chirp(t, n)).collect();
        let mut y = x.clone();
        let plan = Fft::<f64>::new(n).map_err(text)?;
        plan.batch(Direction::Forward, &mut y, &mut Workspace::new()).map_err(text)?;
        for f in (0..n).step_by(997) {
            let error = (y[f as usize] - oracle::chirp_transform(f, n)).norm();
            ensure!(error < 1e-7, "n = {n}: coefficient {f} is off by {error:e}");
        }
        plan.inverse(&mut y).map_err(text)?;
        near(&y, &x, 1e-10)?;
    }
    Ok(())
}

fn near(got: &[C64], expected: &[C64], tolerance: f64) -> Outcome {
    let n = expected.len();
    ensure!(got.len() == n, "{} values instead of {n}", got.len());
    let error = got.iter().zip(expected).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
    ensure!(error <= tolerance, "n = {n}: off by {error:e}");
    Ok(())
}

fn dense_real() -> Outcome {
    for n in (1..20).chain([100, 101, 1 << 12, 1 << 21]) {
        let mut rng = Rng::new(n);
        let x: Vec<f64> = (0..n).map(|_| rng.gaussian().re).collect();
        let plan = RealFft::<f64>::new(n).map_err(text)?;
        let mut y = vec![C64::ZERO; plan.coefficients() as usize];
        plan.forward(&x, &mut y).map_err(text)?;
        let full: Vec<C64> = x.iter().map(|&v| C64::new(v, 0.0)).collect();
        near(&y, &oracle::dense(&full)[..y.len()], 1e-10 * n as f64)?;
        let mut back = vec![0.0; n as usize];
        plan.inverse(&y, &mut back).map_err(text)?;
        let back: Vec<C64> = back.into_iter().map(|v| C64::new(v, 0.0)).collect();
        near(&back, &full, 1e-11)?;
    }
    // A length whose lower 32 bits are those of the buffers.
    let plan = RealFft::<f64>::new((1 << 33) + 8).map_err(text)?;
    let refused = plan.inverse(&[C64::ZERO; 5], &mut [0.0; 8]);
    let expected = (1 << 32) + 5;
    let error = Error::BufferLength { what: "input", expected, got: 5 };
    ensure!(refused == Err(error), "{refused:?}");
    let refused = plan.forward(&[0.0; 8], &mut [C64::ZERO; 5]);
    ensure!(matches!(refused, Err(Error::LengthMismatch { .. })), "{refused:?}");
    Ok(())
}

fn dense_fallback() -> Outcome {
    let n = 1 << 14;
    let mut rng = Rng::new(13);
    let x: Vec<C64> = (0..n).map(|_| rng.gaussian()).collect();
    let answer = transform(&x, n).map_err(text)?;
    ensure!(answer.certificate().verdict != Verdict::Certified, "{}", answer.certificate());
    near(&answer.to_dense().map_err(text)?, &oracle::dense(&x), 1e-8)
}

fn sketches() -> Outcome {
    let (n, k) = (1u64 << 18, 12);
    let lines = lines(n, k, 14);
    let x = many_samples(&lines, n);
    let plan = Plan::new(Problem::new(n).sparsity(k).noise(Noise::Exact).one_pass());
    let plan = plan.map_err(text)?;
    let mut whole = plan.sketch().map_err(text)?;
    for shard in (0..8).rev() {
        let from = shard * n / 8;
        let mut part = plan.sketch().map_err(text)?;
        part.add(from, &x[from as usize..(from + n / 8) as usize]).map_err(text)?;
        let bytes = part.to_bytes();
        let read = Sketch::from_bytes(&bytes).map_err(text)?;
        ensure!(read.to_bytes() == bytes, "shard {shard} is stored in another way");
        whole.merge(&read).map_err(text)?;
    }
    let answer = whole.finish().map_err(text)?;
    ensure!(answer.peaks() == plan.transform(&x).map_err(text)?.peaks(), "other peaks");
    holds(&answer, &lines, n, 1e-9)
}

fn sketch_beyond_32_bits() -> Outcome {
    let (n, k) = (1u64 << 42, 4);
    let lines = lines(n, k, 15);
    let x = indexed(n, |t| sample(&lines, n, t));
    let plan = Plan::new(Problem::new(n).sparsity(k).noise(Noise::Exact).one_pass());
    let plan = plan.map_err(text)?;
    let mut sketch = plan.sketch().map_err(text)?;
    let half = n / 2;
    sketch.add(half, &indexed(half, |t| sample(&lines, n, half + t))).map_err(text)?;
    ensure!(sketch.seen() == half, "{}", sketch.seen());
    let parts = sketch.parts();
    ensure!(parts == [Part::range(half..n)], "{parts:?}");
    let mut sketch = Sketch::from_bytes(&sketch.to_bytes()).map_err(text)?;
    sketch.add(0, &indexed(half, |t| sample(&lines, n, t))).map_err(text)?;
    let answer = sketch.finish().map_err(text)?;
    ensure!(answer.peaks() == plan.transform(&x).map_err(text)?.peaks(), "other peaks");
    holds(&answer, &lines, n, 1e-9)
}

fn batches() -> Outcome {
    let (n, k) = (1 << 16, 5);
    let spectra: Vec<_> = (0..6).map(|i| lines(n, k, 20 + i)).collect();
    let signals: Vec<Vec<C64>> = spectra.iter().map(|lines| many_samples(lines, n)).collect();
    let plan = Plan::new(Problem::new(n).sparsity(k)).map_err(text)?;
    for (answer, lines) in plan.transform_batch(&signals).into_iter().zip(&spectra) {
        holds(&answer.map_err(text)?, lines, n, 1e-9)?;
    }
    Ok(())
}

fn refusals() -> Outcome {
    let mut x = vec![1.0f32; 4096];
    x[77] = f32::NAN;
    let refused = transform(&x, 4096);
    ensure!(matches!(refused, Err(Error::NonFinite { index: 77, .. })), "{refused:?}");
    ensure!(matches!(transform(&x, 5000), Err(Error::SparsityTooLarge { .. })), "k > n");
    ensure!(matches!(transform(&[0.0f64; 0], 0), Err(Error::ZeroLength)), "n = 0");
    let plan = Plan::new(Problem::new((1 << 32) + 4096).sparsity(4)).map_err(text)?;
    let refused = plan.transform(&x);
    ensure!(matches!(refused, Err(Error::LengthMismatch { got: 4096, .. })), "{refused:?}");
    let refused = Fft::<f64>::new((1 << 32) + 4).and_then(|p| p.forward(&mut [C64::ZERO; 4]));
    ensure!(matches!(refused, Err(Error::LengthMismatch { got: 4, .. })), "{refused:?}");
    let refused = sparsefft::buffer::<f64>(u64::MAX);
    ensure!(matches!(refused, Err(Error::OutOfMemory { .. })), "a buffer of 2^64 values");
    Ok(())
}
