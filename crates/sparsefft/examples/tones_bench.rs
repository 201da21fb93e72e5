//! Tones beside what people use: a dense FFT with a window and peak interpolation, and a dense
//! periodogram with Newton steps, on the same signals; time and error.
//!
//! ```text
//! cargo run --release --example tones_bench -- [LOG2_N] [TRIALS] [FOLDER]
//! ```
//! With a folder the first signal of every k is written there (complex128 samples and true
//! frequencies), for `benches/tones_numpy.py`.
//! Warm times on one core: the best of several, median over the trials. Errors are root mean
//! squares in bins; the weakest tone has 20 dB, the others up to 20 dB more. The dense methods are
//! told k and read all samples; ours is told nothing, or only that the weakest tone has 20 dB.

#[path = "../tests/common/mod.rs"]
mod common;

use rustfft::FftPlanner;
use sparsefft::{Complex, Noise, Plan, Problem, Tones};
use std::f64::consts::{PI, TAU};
use std::time::Instant;
use testkit::free::Free;

type C64 = Complex<f64>;

/// Runs f a few times; the best time in microseconds, and what it returned.
fn best<T>(times: usize, mut f: impl FnMut() -> T) -> (f64, T) {
    let mut least = f64::INFINITY;
    let mut out = None;
    for _ in 0..times {
        let started = Instant::now();
        let value = f();
        least = least.min(started.elapsed().as_secs_f64() * 1e6);
        out = Some(value);
    }
    (least, out.expect("at least one run"))
}

/// The k strongest local maxima of a spectrum.
fn peaks(x: &[C64], k: usize) -> Vec<usize> {
    let n = x.len();
    let power = |i: usize| x[i % n].norm_sqr();
    let mut list: Vec<usize> = (0..n)
        .filter(|&i| power(i) > power(i + 1) && power(i) >= power(i + n - 1))
        .filter(|&i| power(i) > power(i + 2) && power(i) > power(i + n - 2))
        .collect();
    let more = (4 * k).min(list.len().saturating_sub(1));
    list.select_nth_unstable_by(more, |&a, &b| power(b).total_cmp(&power(a)));
    list.truncate(k.max(more));
    list.sort_by(|&a, &b| power(b).total_cmp(&power(a)));
    list.truncate(k);
    list
}

/// Root mean square distance in bins from the true tones to the nearest of these.
fn error(free: &Free, found: &[f64]) -> f64 {
    let n = free.n as f64;
    let away = |nu: f64| {
        let d = |f: &f64| {
            let d = f / n - nu;
            (d - d.round()).abs() * n
        };
        found.iter().map(d).fold(0.5, f64::min)
    };
    let sum: f64 = free.tones.iter().map(|t| away(t.nu).powi(2)).sum();
    (sum / free.tones.len() as f64).sqrt()
}

/// Hann window, FFT, and the parabola through the logarithms of three bins.
fn interpolate(x: &[C64], k: usize, fft: &dyn rustfft::Fft<f64>, work: &mut [C64]) -> Vec<f64> {
    let n = x.len();
    let step = C64::cis(TAU / n as f64);
    let mut z = C64::new(1.0, 0.0);
    for (i, (w, v)) in work.iter_mut().zip(x).enumerate() {
        if i % 256 == 0 {
            z = C64::cis(TAU * i as f64 / n as f64);
        }
        *w = v * (0.5 - 0.5 * z.re);
        z *= step;
    }
    fft.process(work);
    peaks(work, k)
        .into_iter()
        .map(|i| {
            let p = |j: usize| work[j % n].norm().ln();
            let (l, c, r) = (p(i + n - 1), p(i), p(i + 1));
            i as f64 + 0.5 * (l - r) / (l - 2.0 * c + r)
        })
        .collect()
}

/// The same, refined by Newton steps on the windowed periodogram over all samples.
fn newton(x: &[C64], k: usize, fft: &dyn rustfft::Fft<f64>, work: &mut [C64]) -> Vec<f64> {
    let n = x.len();
    let start = interpolate(x, k, fft, work);
    let refine = |mut f: f64| {
        for _ in 0..2 {
            // Σ w x e^{-iφ}, and its first two derivatives by f.
            let (mut s0, mut s1, mut s2) = (C64::ZERO, C64::ZERO, C64::ZERO);
            let step = C64::cis(-TAU * f / n as f64);
            let mut z = C64::new(1.0, 0.0);
            let turn = C64::cis(TAU / n as f64);
            let mut w = C64::new(1.0, 0.0);
            for (t, v) in x.iter().enumerate() {
                if t % 256 == 0 {
                    let turns = f / n as f64 * t as f64;
                    z = C64::cis(-TAU * (turns - turns.round()));
                    w = C64::cis(TAU * t as f64 / n as f64);
                }
                let u = TAU * (t as f64 / n as f64 - 0.5);
                let y = v * z * (0.5 - 0.5 * w.re);
                s0 += y;
                s1 += y * u;
                s2 += y * (u * u);
                z *= step;
                w *= turn;
            }
            // P = |s0|², s' = -i s1, s'' = -s2.
            let first = 2.0 * (s0.conj() * s1 * C64::new(0.0, -1.0)).re;
            let second = 2.0 * (s1.norm_sqr() - (s0.conj() * s2).re);
            if second < 0.0 {
                f -= first / second;
            }
        }
        f
    };
    start.into_iter().map(refine).collect()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let log: u32 = args.next().and_then(|a| a.parse().ok()).unwrap_or(22);
    let trials: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(5);
    let folder = args.next();
    let n = 1u64 << log;
    let fft = FftPlanner::new().plan_fft_forward(n as usize);
    let mut work = vec![C64::ZERO; n as usize];
    println!(
        "n = 2^{log}, weakest tone 20 dB, medians of {trials} signals; us and rms error in bins"
    );
    println!(
        "| k | tones, told 20 dB | tones, told nothing | accuracy(0) | FFT alone | FFT + interpolation | \
         periodogram + Newton | bound of all samples |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for k in [1usize, 10, 50, 200] {
        let mut rows: Vec<Vec<f64>> = vec![Vec::new(); 12];
        let mut samples = (0, 0);
        for seed in 0..trials {
            let free = Free::random(n, k, Some(20.0), 12.0, 9000 + seed);
            let x = synthesise(&free);
            if let Some(folder) = folder.as_ref().filter(|_| seed == 0) {
                write(folder, k, &free, &x).expect("the folder can be written to");
            }
            let bins =
                |found: &Tones| -> Vec<f64> { found.tones().iter().map(|t| t.bin(n)).collect() };
            let told = Plan::new(Problem::new(n).noise(Noise::Snr(20.0))).expect("a valid problem");
            let (us, found) = best(9, || told.tones(&x).expect("finite samples"));
            rows[0].push(us);
            rows[1].push(error(&free, &bins(&found)));
            samples.0 = found.report().samples_read;
            let plan = Plan::new(Problem::new(n)).expect("a valid problem");
            let (us, found) = best(9, || plan.tones(&x).expect("finite samples"));
            rows[2].push(us);
            rows[3].push(error(&free, &bins(&found)));
            samples.1 = found.report().samples_read;
            if seed < 2 {
                let fine = Plan::new(Problem::new(n).accuracy(0.0)).expect("a valid problem");
                let (us, found) = best(1, || fine.tones(&x).expect("finite samples"));
                rows[4].push(us);
                rows[5].push(error(&free, &bins(&found)));
                let (us, _) = best(2, || {
                    work.copy_from_slice(&x);
                    fft.process(&mut work);
                });
                rows[6].push(us);
                let (us, found) = best(2, || interpolate(&x, k, &*fft, &mut work));
                rows[8].push(us);
                rows[9].push(error(&free, &found));
                if k <= 50 {
                    let (us, found) = best(1, || newton(&x, k, &*fft, &mut work));
                    rows[10].push(us);
                    rows[11].push(error(&free, &found));
                }
            }
        }
        let median = |v: &mut Vec<f64>| {
            v.sort_by(f64::total_cmp);
            v.get(v.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let m: Vec<f64> = rows.iter_mut().map(median).collect();
        let free = Free::random(n, k, Some(20.0), 12.0, 9000);
        let mean: f64 = free.tones.iter().map(|t| 1.0 / t.a.norm_sqr()).sum::<f64>() / k as f64;
        let bound = (6.0 * 0.01 * mean / n as f64).sqrt() / (2.0 * PI);
        println!(
            "| {k} | {:.0} us, {:.1e} ({} samples) | {:.0} us, {:.1e} ({} samples) | {:.0} us, {:.1e} | {:.0} us | \
             {:.0} us, {:.1e} | {:.0} us, {:.1e} | {bound:.1e} |",
            m[0],
            m[1],
            samples.0,
            m[2],
            m[3],
            samples.1,
            m[4],
            m[5],
            m[6],
            m[8],
            m[9],
            m[10],
            m[11]
        );
    }
}

/// Writes a signal for other programs.
fn write(folder: &str, k: usize, free: &Free, x: &[C64]) -> std::io::Result<()> {
    let bytes: Vec<u8> =
        x.iter().flat_map(|v| [v.re.to_le_bytes(), v.im.to_le_bytes()]).flatten().collect();
    std::fs::write(format!("{folder}/tones-{k}.c128"), bytes)?;
    let truth: String = free.tones.iter().map(|t| format!("{:.17e}\n", t.nu)).collect();
    std::fs::write(format!("{folder}/tones-{k}.txt"), truth)
}

/// All samples, by rotating phasors: much faster than one by one.
fn synthesise(free: &Free) -> Vec<C64> {
    let mut x: Vec<C64> =
        (0..free.n).map(|t| testkit::rng::hashed_gaussian(free.seed, t) * free.sigma).collect();
    for tone in &free.tones {
        let step = C64::cis(TAU * tone.nu);
        for (i, block) in x.chunks_mut(256).enumerate() {
            let turns = tone.nu * (256 * i) as f64;
            let mut v = tone.a * C64::cis(TAU * (turns - turns.round()));
            for o in block {
                *o += v;
                v *= step;
            }
        }
    }
    x
}
