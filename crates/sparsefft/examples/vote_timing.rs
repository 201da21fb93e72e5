//! Times `vote` and `comb-vote` with a plan that is made once: median and least over the runs, the
//! planner's prediction, and the first run, which makes the window.
//!
//! `cargo run --release --example vote_timing [-- RUNS]`; set `RAYON_NUM_THREADS=1` for one core.

use sparsefft::{Algorithm, Complex, Fallback, Method, Plan, Problem, Stage};
use std::collections::BTreeMap;
use std::time::Instant;
use testkit::{Rng, oracle};

/// k unit tones with random phases, and noise of this power per sample.
fn signal(
    n: usize,
    k: usize,
    noise: f64,
    seed: u64,
) -> (Vec<Complex<f64>>, BTreeMap<u64, Complex<f64>>) {
    let mut rng = Rng::new(seed);
    let mut x = vec![Complex::new(0.0, 0.0); n];
    let mut support = BTreeMap::new();
    while support.len() < k {
        let f = rng.below(n as u64);
        let value = rng.phasor();
        support.entry(f).or_insert(value);
    }
    for (&f, &value) in &support {
        x[f as usize] = value;
    }
    oracle::inverse(&mut x);
    if noise > 0.0 {
        for v in &mut x {
            *v += rng.gaussian() * noise.sqrt();
        }
    }
    (x, support)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs: usize = std::env::args().nth(1).map_or(Ok(11), |a| a.parse())?;
    println!(
        "n     k     noise  algorithm  buckets  samples  ms: median least model first  verdict  \
         right  error  least µs per stage"
    );
    for (log, k) in [(20, 50), (22, 50), (24, 50), (22, 1000), (24, 1000)] {
        for noise in [0.0, 10.0] {
            let n = 1usize << log;
            let (x, truth) = signal(n, k, noise, 7 + log as u64);
            for algorithm in [Algorithm::Vote, Algorithm::CombVote] {
                let problem = Problem::new(n as u64)
                    .sparsity(k as u64)
                    .algorithm(algorithm)
                    .fallback(Fallback::Never);
                let plan = Plan::new(problem)?;
                let started = Instant::now();
                let spectrum = plan.transform(&x)?;
                let first = started.elapsed().as_secs_f64() * 1e3;
                let mut times = Vec::new();
                let mut stages: Vec<(Stage, f64)> = Vec::new();
                for _ in 0..runs {
                    let started = Instant::now();
                    let again = plan.transform(&x)?;
                    times.push(started.elapsed().as_secs_f64() * 1e3);
                    for &(stage, time) in &again.report().stages {
                        let time = time.as_secs_f64() * 1e6;
                        match stages.iter_mut().find(|s| s.0 == stage) {
                            Some(s) => s.1 = s.1.min(time),
                            None => stages.push((stage, time)),
                        }
                    }
                }
                times.sort_by(f64::total_cmp);
                let found = spectrum.peaks();
                let right = found.len() == k && found.iter().all(|p| truth.contains_key(&p.index));
                let error = found.iter().filter_map(|p| {
                    truth.get(&p.index).map(|v| (p.value / n as f64 - v).norm_sqr())
                });
                let error = (error.sum::<f64>() / k as f64).sqrt();
                let Method::Vote(recipe) = &plan.recipe().method else { continue };
                let model = plan.recipe().estimates.iter().find(|e| e.algorithm == algorithm);
                let stages: Vec<String> =
                    stages.iter().map(|(stage, time)| format!("{stage} {time:.0}")).collect();
                println!(
                    "2^{log}  {k:<5} {noise:<5}  {algorithm:<9}  {:<7}  {:<7}  {:.2} {:.2} {:.2} {first:.1}  \
                     {}/{}  {right}  {error:.1e}  {}",
                    recipe.buckets,
                    spectrum.report().samples_read,
                    times[times.len() / 2],
                    times[0],
                    model.map_or(0.0, |e| e.nanoseconds) * 1e-6,
                    spectrum.certificate().verdict,
                    spectrum.certificate().attempts,
                    stages.join(" "),
                );
            }
        }
    }
    Ok(())
}
