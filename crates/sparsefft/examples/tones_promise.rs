//! The tables of the tones: found, false, error over the bound, samples, time, and the promise that
//! no certified answer is wrong.
//!
//! ```text
//! cargo run --release --example tones_promise -- [--trials N] [--n LOG2]... [--k K]... [--snr DB]...
//!                                                [--seed S] [--repeat R] [--told] [--verbose]
//!                                                [--pairs BINS] [--finest]
//! ```
//! SNR is that of the weakest tone; amplitudes are log-uniform over 20 dB. `--told` tells the plan
//! the SNR; otherwise it knows nothing. Only the samples that are read are computed. Errors are given
//! over the Cramér-Rao bounds of the samples of the first comb and of all that were read, and over
//! the deviations that the answer claims. The time is the median over the trials of the best of R
//! warm runs (4 if unsaid) on one core.
//!
//! `--pairs` draws k/2 pairs of equal tones this many bins apart instead. `--finest` asks for
//! `accuracy(0.0)`; the first of the bounds is then that of all n samples.

#[path = "../tests/common/mod.rs"]
mod common;

use common::Lines;
use sparsefft::{Complex, Error, Noise, Plan, Problem, Tones};
use std::f64::consts::TAU;
use std::process::ExitCode;
use std::time::Instant;
use testkit::Rng;
use testkit::free::{Free, FreeTone};

/// Runs the plan on computed samples, then on the same samples stored, and returns the answer and
/// the best of `repeat` warm times in microseconds. `store` has n places, of which only those that are
/// read are ever touched.
fn timed(
    plan: &Plan,
    signal: &Free,
    store: &mut [Complex<f64>],
    repeat: u32,
) -> Result<(Tones, f64), Error> {
    let lines = Lines::new(signal);
    let found = plan.tones(&lines)?;
    lines.store(store);
    let mut best = f64::INFINITY;
    for _ in 0..repeat {
        let started = Instant::now();
        let last = plan.tones(&*store)?;
        best = best.min(started.elapsed().as_secs_f64() * 1e6);
        if std::env::var_os("STAGES").is_some() {
            eprintln!("{:?} {:?}", last.report().stages, last.report().elapsed);
        }
    }
    for t in lines.starts() {
        store[t as usize..t as usize + 4].fill(Complex::ZERO);
    }
    Ok((found, best))
}

/// A row of the table.
#[derive(Default)]
struct Row {
    trials: u64,
    right: u64,
    certified: u64,
    wrong_certified: u64,
    missed: u64,
    extra: u64,
    retried: u64,
    f_square: f64,
    f_max: f64,
    bound_square: f64,
    first_square: f64,
    claimed: f64,
    claimed_max: f64,
    a_square: f64,
    errors: u64,
    samples: u64,
    micros: Vec<f64>,
    shape: String,
}

/// Pairs of tones of amplitude 1, k in all, each in a stretch of the frequencies of its own.
fn pairs(n: u64, k: usize, snr: Option<f64>, apart: f64, seed: u64) -> Free {
    let mut rng = Rng::new(seed);
    let stretch = 1.0 / (k / 2).max(1) as f64;
    let mut tones = Vec::new();
    for i in 0..k / 2 {
        let nu = (i as f64 + 0.1 + 0.8 * rng.uniform()) * stretch - 0.5;
        tones.push((nu, rng.phasor()));
        tones.push((nu + apart / n as f64, rng.phasor()));
    }
    Free::new(n, &tones, snr.map_or(0.0, |db| 10f64.powf(-db / 20.0)), seed)
}

fn judge(
    signal: &Free,
    found: &Tones,
    finest: bool,
    micros: f64,
    row: &mut Row,
    complaints: &mut Vec<String>,
) {
    let n = signal.n as f64;
    let mut used = vec![false; found.tones().len()];
    let mut missed = 0;
    for &FreeTone { nu, a, .. } in &signal.tones {
        let best = found.tones().iter().enumerate().filter(|(i, _)| !used[*i]).min_by(|x, y| {
            let d = |t: &sparsefft::Tone| {
                let d = t.frequency - nu;
                (d - d.round()).abs()
            };
            d(x.1).total_cmp(&d(y.1))
        });
        let Some((i, tone)) = best else {
            missed += 1;
            continue;
        };
        let d = tone.frequency - nu;
        let error = (d - d.round()) * n;
        if error.abs() > 0.5 {
            missed += 1;
            continue;
        }
        used[i] = true;
        row.f_square += error * error;
        row.f_max = row.f_max.max(error.abs());
        let read = found.report().samples_read as f64;
        let snr = a.norm_sqr() / (signal.sigma * signal.sigma);
        if signal.sigma > 0.0 {
            if (error / tone.bin_std(signal.n)).abs() > 5.0 {
                complaints.push(format!(
                    "seed {}: tone at {nu} of {:.3} is off by {:.1} standard deviations",
                    signal.seed,
                    a.norm(),
                    error / tone.bin_std(signal.n)
                ));
            }
            // The bound of N samples is √(6/(snr·N))/2π bins.
            let bound = error * error * snr / 6.0 * TAU * TAU;
            row.bound_square += bound * read;
            let first = 4 * found.report().bins * found.report().lines;
            row.first_square += bound * if finest { n } else { first as f64 };
            let claimed = (error / tone.bin_std(signal.n)).abs();
            row.claimed += claimed.powi(2);
            row.claimed_max = row.claimed_max.max(claimed);
        }
        row.a_square += (tone.magnitude() / a.norm() - 1.0).powi(2);
        row.errors += 1;
    }
    let extra = used.iter().filter(|u| !**u).count() as u64;
    let right = missed == 0 && extra == 0;
    let certified = found.certificate().is_certified();
    row.trials += 1;
    row.right += u64::from(right);
    row.certified += u64::from(certified);
    row.missed += missed;
    row.extra += extra;
    row.retried += u64::from(found.certificate().attempts > 1);
    row.samples += found.report().samples_read;
    row.micros.push(micros);
    let r = found.report();
    row.shape = format!("{}/{}/{}", r.bins, r.lines, r.beta);
    if certified && !right {
        row.wrong_certified += 1;
        complaints.push(format!(
            "WRONG AND CERTIFIED: seed {} missed {missed} extra {extra}",
            signal.seed
        ));
    } else if !right || !certified {
        complaints.push(format!(
            "seed {}: missed {missed} extra {extra}: {}",
            signal.seed,
            found.certificate()
        ));
    }
}

fn main() -> ExitCode {
    let (mut trials, mut seed, mut repeat, mut told, mut verbose) = (20, 1u64, 4, false, false);
    let (mut close, mut finest) = (None, false);
    let (mut ns, mut ks, mut snrs): (Vec<u32>, Vec<usize>, Vec<String>) = Default::default();
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match flag.as_str() {
            "--trials" => trials = value().parse().unwrap_or(20),
            "--repeat" => repeat = value().parse().unwrap_or(4),
            "--seed" => seed = value().parse().unwrap_or(1),
            "--n" => ns.push(value().parse().unwrap_or(20)),
            "--k" => ks.push(value().parse().unwrap_or(10)),
            "--snr" => snrs.push(value()),
            "--told" => told = true,
            "--pairs" => close = value().parse::<f64>().ok(),
            "--finest" => finest = true,
            "--verbose" => verbose = true,
            other => {
                eprintln!("unknown argument {other}");
                return ExitCode::from(2);
            }
        }
    }
    if ns.is_empty() {
        ns = vec![16, 20, 22, 24, 26];
    }
    if ks.is_empty() {
        ks = vec![1, 10, 50, 200];
    }
    if snrs.is_empty() {
        snrs = ["none", "40", "20", "0", "-10"].map(String::from).to_vec();
    }
    println!(
        "| n | k | dB | B/L/beta | right = certified | missed, extra | f err rms / max (bins) | / CRB(first) | / CRB(read) | / claimed, max | amp err rms | samples | retried | us |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut broken = false;
    for &log in &ns {
        // In pages of 2 MiB: what is measured is not the search for pages.
        let mut store = sparsefft::buffer(1 << log).expect("the signal fits the memory");
        for &k in &ks {
            for snr in &snrs {
                let db: Option<f64> = snr.parse().ok();
                let n = 1u64 << log;
                let mut row = Row::default();
                let mut complaints = Vec::new();
                for trial in 0..trials {
                    let seed = seed * 1_000_003 + trial;
                    let signal = match close {
                        Some(apart) => pairs(n, k, db, apart, seed),
                        None => Free::random(n, k, db, 12.0, seed),
                    };
                    let mut problem = Problem::new(n);
                    if finest {
                        problem = problem.accuracy(0.0);
                    }
                    if told {
                        problem = problem.noise(db.map_or(Noise::Exact, Noise::Snr));
                    }
                    let plan = match Plan::new(problem) {
                        Ok(plan) => plan,
                        Err(e) => {
                            eprintln!("{e}");
                            return ExitCode::FAILURE;
                        }
                    };
                    match timed(&plan, &signal, &mut store, repeat) {
                        Ok((found, micros)) => {
                            judge(&signal, &found, finest, micros, &mut row, &mut complaints);
                        }
                        Err(e) => complaints.push(format!("failed: {e}")),
                    }
                }
                row.micros.sort_by(f64::total_cmp);
                let e = row.errors.max(1) as f64;
                println!(
                    "| 2^{log} | {k} | {snr} | {} | {} = {} of {} | {}, {} | {:.2e} / {:.2e} | {:.2} | {:.2} | {:.2}, {:.1} | {:.1e} | {} | {} | {:.0} |",
                    row.shape,
                    row.right,
                    row.certified,
                    row.trials,
                    row.missed,
                    row.extra,
                    (row.f_square / e).sqrt(),
                    row.f_max,
                    (row.first_square / e).sqrt(),
                    (row.bound_square / e).sqrt(),
                    (row.claimed / e).sqrt(),
                    row.claimed_max,
                    (row.a_square / e).sqrt(),
                    row.samples / row.trials.max(1),
                    row.retried,
                    row.micros.get(row.micros.len() / 2).copied().unwrap_or(0.0),
                );
                broken |= row.wrong_certified > 0;
                for c in complaints.iter().take(if verbose { 100 } else { 3 }) {
                    eprintln!("  {c}");
                }
            }
        }
    }
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
