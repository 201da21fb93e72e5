//! How often one pass suffices: random signals through sketches, over many seeds.
//!
//! ```text
//! cargo run --release --example sketch_promise -- [--trials N] [--seed S] [--n N] [--k K]
//!                                                 [--spectrum NAME]
//! ```
//! One line per kind of signal: the samples and bytes of its sketch, how many answers were
//! certified, how many need a second pass, and how many were certified and wrong. Exits with 1 if
//! any was wrong. Spectra: random (default), harmonics, progression, clusters, pairs (that share a
//! comb bin), range (of 60 dB).

#[path = "../tests/common/mod.rs"]
mod common;

use sparsefft::{Noise, Plan, Problem};
use std::process::ExitCode;
use testkit::{Asked, Judgement, NoiseHint, Rng, Signal, generate, judge};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, usual: u64| {
        let at = args.iter().position(|a| a == name)?;
        Some(args.get(at + 1).and_then(|v| v.parse().ok()).unwrap_or(usual))
    };
    let trials = option("--trials", 100).unwrap_or(100);
    let seed = option("--seed", 1).unwrap_or(1);
    println!(
        "{:>16} {:>5} {:>10} {:>8} {:>9} {:>10} {:>12} {:>6} {:>8}",
        "n", "k", "noise", "samples", "bytes", "certified", "second pass", "wrong", "decode"
    );
    let at = args.iter().position(|a| a == "--spectrum");
    let spectrum = at.and_then(|i| args.get(i + 1)).map_or("random", |s| s.as_str());
    let mut right = true;
    let lengths = [1 << 16, 1 << 22, 1 << 40, 4_194_301, 3u64.pow(14)];
    for n in lengths.into_iter().filter(|n| option("--n", *n).is_none_or(|m| m == *n)) {
        for k in [5u64, 50, 500].into_iter().filter(|k| option("--k", *k).is_none_or(|m| m == *k)) {
            for noise in ["exact", "unknown", "20 dB", "hint 20 dB", "10 dB"] {
                right &= line(n, k, noise, spectrum, trials, seed);
            }
        }
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one kind of signal and prints its line.
fn line(n: u64, k: u64, noise: &str, spectrum: &str, trials: u64, seed: u64) -> bool {
    let (mut certified, mut second, mut wrong) = (0, 0, 0);
    let (mut samples, mut bytes) = (0, 0);
    let mut time = std::time::Duration::ZERO;
    for trial in 0..trials {
        let mut rng = Rng::new(seed * 1_000_003 + trial);
        let tones = match spectrum {
            "harmonics" => generate::harmonics(&mut rng, n, k),
            "progression" => generate::progression(&mut rng, n, k),
            "clusters" => generate::clusters(&mut rng, n, k / 5, 5),
            "pairs" => generate::colliding_pairs(&mut rng, n, k / 2),
            "range" => generate::dynamic_range(&mut rng, n, k, 1e3),
            _ => generate::random(&mut rng, n, k),
        };
        let mut signal = Signal::new(n, tones);
        let db = match noise {
            "20 dB" | "hint 20 dB" => Some(20.0),
            "10 dB" => Some(10.0),
            _ => None,
        };
        if let Some(db) = db {
            let weakest = signal.tones.iter().map(|t| t.a.norm()).fold(f64::INFINITY, f64::min);
            signal = signal.noise(weakest * 10f64.powf(-db / 20.0), trial);
        }
        let hint = match noise {
            "exact" => Noise::Exact,
            "hint 20 dB" => Noise::Snr(20.0),
            _ => Noise::Unknown,
        };
        let problem = Problem::new(n).sparsity(k).noise(hint).seed(seed + trial).one_pass();
        let plan = match Plan::new(problem) {
            Ok(plan) => plan,
            Err(error) => {
                println!("{n:>16} {k:>5} {noise:>10} {error}");
                return true;
            }
        };
        let lazy = signal.clone().lazy();
        let mut sketch = plan.sketch().expect("a one-pass plan");
        sketch.add(0, &common::Computed::new(&lazy)).expect("computed samples");
        (samples, bytes) = (sketch.kept(), sketch.to_bytes().len());
        let started = std::time::Instant::now();
        let spectrum = match sketch.finish() {
            Ok(spectrum) => spectrum,
            Err(error) => {
                eprintln!("trial {trial}: {error}");
                wrong += 1;
                continue;
            }
        };
        time += started.elapsed();
        let asked = Asked { k: Some(k), noise: NoiseHint::Unknown };
        let opinion = judge::judge(&signal, &asked, &common::answer(&spectrum));
        if spectrum.certificate().is_certified() {
            certified += 1;
        } else {
            second += 1;
            if second <= 2 && trials > 1 {
                eprintln!("trial {trial}: {}", spectrum.certificate());
            }
        }
        if opinion.judgement == Judgement::WrongCertified {
            eprintln!("trial {trial}: {opinion}");
            wrong += 1;
        }
    }
    println!(
        "{n:>16} {k:>5} {noise:>10} {samples:>8} {bytes:>9} {certified:>10} {second:>12} {wrong:>6} {:>8.2?}",
        time / trials.max(1) as u32
    );
    wrong == 0
}
