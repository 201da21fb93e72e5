//! Speed beside RustFFT, in one run: every answer is checked while it is timed.
//!
//! `cargo bench -p sparsefft` (all rows) or `cargo bench -p sparsefft -- 2^22` (rows whose name
//! contains the text). *warm*: the same signal again; *fresh*: its cache lines flushed before each
//! transform, plan and workspace warm. Medians over signals and repetitions; the machine may be
//! shared, so ratios within one run are what counts.

use rustfft::FftPlanner;
use sparsefft::{Complex, Noise, Plan, Problem};
use std::time::Instant;

struct Row {
    n: u64,
    k: u64,
    snr: Option<f64>,
    known: Noise,
}

fn main() {
    // cargo passes `--bench`; anything else filters rows.
    let filter: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let exact = |n, k| Row { n, k, snr: None, known: Noise::Unknown };
    let rows = [
        exact(1 << 17, 50),
        exact(1 << 20, 50),
        exact(1 << 22, 50),
        exact(1 << 24, 50),
        exact(1 << 22, 256),
        exact(1 << 22, 1024),
        exact(1 << 22, 4096),
        exact(1_000_000, 50),
        exact(1_000_003, 50),
        Row { n: 1 << 22, k: 50, snr: Some(20.0), known: Noise::Unknown },
        Row { n: 1 << 22, k: 50, snr: Some(0.0), known: Noise::Unknown },
        Row { n: 1 << 22, k: 50, snr: Some(-10.0), known: Noise::Snr(-10.0) },
        Row { n: 1 << 24, k: 1000, snr: Some(20.0), known: Noise::Unknown },
    ];
    println!(
        "{:<26} {:>9} {:>10} {:>10} {:>10} {:>11} {:>9} {:>8} {:>7}",
        "signal",
        "plan us",
        "warm us",
        "fresh us",
        "dense us",
        "dense/warm",
        "samples",
        "% of n",
        "right"
    );
    for row in rows {
        let name = format!(
            "n={} k={} {}",
            size(row.n),
            row.k,
            row.snr.map_or("exact".to_string(), |db| format!("{db} dB"))
        );
        if filter.is_empty() || filter.iter().any(|f| name.contains(f.as_str())) {
            run(&name, &row);
        }
    }
}

fn run(name: &str, row: &Row) {
    let signals = if row.n >= 1 << 24 { 3 } else { 8 };
    let (mut plans, mut warm, mut fresh, mut dense) = (vec![], vec![], vec![], vec![]);
    let (mut samples, mut right) = (0, 0);
    let transform = FftPlanner::new().plan_fft_forward(row.n as usize);
    for seed in 0..signals {
        let (signal, truth) = synthesise(row, seed);
        let problem = Problem::new(row.n).sparsity(row.k).noise(row.known).seed(seed);
        plans.push(time(|| drop(Plan::new(problem.clone()))));
        let plan = Plan::new(problem).expect("the problem is valid");
        for repetition in 0..20 {
            let start = Instant::now();
            let spectrum = plan.transform(&signal).expect("the signal is finite");
            let spent = start.elapsed().as_secs_f64();
            if repetition > 0 {
                warm.push(spent);
            }
            samples = spectrum.report().samples_read;
            let found = spectrum.peaks().iter().map(|p| p.index);
            right += usize::from(
                spectrum.certificate().is_certified() && found.eq(truth.iter().copied()),
            );
        }
        for _ in 0..5 {
            flush(&signal);
            fresh.push(time(|| drop(plan.transform(&signal))));
        }
        if dense.len() < 4 {
            let mut copy = signal.clone();
            let mut scratch = vec![Complex::ZERO; transform.get_inplace_scratch_len()];
            dense.push(time(|| transform.process_with_scratch(&mut copy, &mut scratch)));
        }
    }
    let [plan, warm, fresh, dense] = [plans, warm, fresh, dense].map(|v| 1e6 * median(v));
    println!(
        "{name:<26} {plan:>9.1} {warm:>10.2} {fresh:>10.2} {dense:>10.0} {:>11.0} {samples:>9} {:>8.3} {:>3}/{}",
        dense / warm,
        100.0 * samples as f64 / row.n as f64,
        right,
        20 * signals,
    );
}

/// A signal with k unit tones at random places, and the sorted places.
fn synthesise(row: &Row, seed: u64) -> (Vec<Complex<f64>>, Vec<u64>) {
    let mut rng = testkit::Rng::new(1000 + seed);
    let mut x = vec![Complex::ZERO; row.n as usize];
    let mut places = Vec::new();
    while (places.len() as u64) < row.k {
        let f = rng.below(row.n);
        if x[f as usize] == Complex::ZERO {
            x[f as usize] = Complex::cis(std::f64::consts::TAU * rng.uniform());
            places.push(f);
        }
    }
    places.sort_unstable();
    FftPlanner::new().plan_fft_inverse(row.n as usize).process(&mut x);
    if let Some(db) = row.snr {
        let sigma = 10f64.powf(-db / 20.0);
        for v in &mut x {
            *v += rng.gaussian() * sigma;
        }
    }
    (x, places)
}

/// Drops every line of the signal from the caches.
fn flush(signal: &[Complex<f64>]) {
    #[cfg(target_arch = "x86_64")]
    for line in signal.chunks(4) {
        // SAFETY: the address is that of a live element; flushing has no effect on its value.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = signal;
}

fn time(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn size(n: u64) -> String {
    if n.is_power_of_two() { format!("2^{}", n.trailing_zeros()) } else { n.to_string() }
}
