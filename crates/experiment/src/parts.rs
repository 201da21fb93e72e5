//! The parts of the experiment.

use crate::Options;
use crate::draw::{Curve, draw};
use crate::measure::{Signal, Times, length, provenance, seconds};
use crate::peers::{Dense, oxifft};
use serde_json::{Value, json};
use sparsefft::{Algorithm, Fallback, Noise, Plan, Problem, Spectrum};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a part found.
pub struct Outcome {
    pub table: String,
    pub drawing: Option<String>,
    rows: Vec<Value>,
}

impl Outcome {
    /// A table with its raw results.
    pub fn new(table: String, rows: Vec<Value>) -> Self {
        Outcome { table, drawing: None, rows }
    }

    /// The raw results.
    pub fn json(&self, title: &str) -> String {
        let all = json!({ "title": title, "machine": provenance(), "rows": self.rows });
        serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
    }
}

/// One problem, transformed by one of our algorithms.
struct Ours {
    warm: Times,
    fresh: Times,
    /// One load from each cache line of the first pass and nothing else, warm and fresh.
    reading: [Times; 2],
    planning: Times,
    samples: u64,
    right: usize,
    runs: usize,
}

impl Ours {
    fn correct(&self) -> String {
        format!("{}/{}", self.right, self.runs)
    }

    fn json(&self) -> Value {
        json!({
            "warm": self.warm.json(),
            "fresh": self.fresh.json(),
            "reading alone, warm": self.reading[0].json(),
            "reading alone, fresh": self.reading[1].json(),
            "planning": self.planning.json(),
            "samples read": self.samples,
            "right and certified": self.right,
            "runs": self.runs,
        })
    }
}

/// Times a problem on signals: so often warm, and, if asked, also fresh and reading alone.
fn ours(signals: &[Signal], problem: &Problem, repetitions: usize, cold: bool) -> Ours {
    let (warm, fresh, reading, planning) = Default::default();
    let mut ours = Ours { warm, fresh, reading, planning, samples: 0, right: 0, runs: 0 };
    let others = signals.iter().cycle().skip(1);
    for ((seed, signal), other) in (0..).zip(signals).zip(others) {
        let problem = problem.clone().seed(seed);
        let plan = ours.planning.add(|| Plan::new(problem)).expect("the problem is valid");
        let judge = |ours: &mut Ours, s: &Spectrum| {
            let found = s.peaks().iter().map(|p| p.index);
            ours.right += usize::from(s.certificate().is_reliable() && signal.agrees(found));
            ours.runs += 1;
            ours.samples = ours.samples.max(s.report().samples_read);
        };
        // The first run makes tables and buffers.
        let first = plan.transform(&*signal.samples).expect("the samples are finite");
        judge(&mut ours, &first);
        // A few milliseconds bring the clock and the branch predictors to where steady work has them.
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 5 {
            plan.transform(&*signal.samples).expect("as before");
        }
        for _ in 0..repetitions {
            let s = ours.warm.add(|| plan.transform(&*signal.samples)).expect("as before");
            judge(&mut ours, &s);
        }
        if !cold {
            continue;
        }
        for _ in 0..repetitions.min(5) {
            signal.flush();
            // Flushing takes long enough for other programs to take the caches; the plan and its
            // workspace come back with another signal.
            for _ in 0..2 {
                plan.transform(&*other.samples).expect("the samples are finite");
            }
            let s = ours.fresh.add(|| plan.transform(&*signal.samples)).expect("as before");
            judge(&mut ours, &s);
        }
        let lines = signal.lines(plan.sample_indices());
        let touch = || std::hint::black_box(signal.touch(&lines));
        touch();
        for _ in 0..repetitions {
            ours.reading[0].add(touch);
        }
        for _ in 0..repetitions.min(5) {
            signal.flush();
            for _ in 0..2 {
                std::hint::black_box(other.touch(&lines));
            }
            ours.reading[1].add(touch);
        }
    }
    ours
}

fn signals(n: u64, k: u64, snr: Option<f64>, options: &Options) -> Vec<Signal> {
    let count = if options.quick || n >= 1 << 25 {
        2
    } else if n >= 1 << 23 {
        4
    } else {
        8
    };
    (0..count).map(|seed| Signal::new(n, k, snr, seed)).collect()
}

/// The five algorithms beside the dense peers, over several problems.
fn compare(problems: &[(u64, u64)], over_k: bool, title: &str, options: &Options) -> Outcome {
    let algorithms = [
        Algorithm::Exact,
        Algorithm::Robust,
        Algorithm::CombVote,
        Algorithm::Vote,
        Algorithm::Dense,
    ];
    let mut table = String::from(
        "| n | k | exact warm | exact fresh | robust warm | comb-vote | vote | dense with the k largest | RustFFT | FFTW | oxifft sparse | right (exact, robust, comb-vote, vote) | read | best dense peer ÷ exact |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let names =
        ["exact, warm", "exact, fresh", "robust", "comb-vote", "vote", "dense", "RustFFT", "FFTW"];
    let mut curves: Vec<Curve> =
        names.map(|name| Curve { name: name.to_string(), points: vec![] }).into();
    let mut rows = Vec::new();
    let mut peers: Option<Dense> = None;
    for &(n, k) in problems {
        eprintln!("  n = {}, k = {k}", length(n));
        let signals = signals(n, k, None, options);
        let results = algorithms.map(|algorithm| {
            let quick = matches!(algorithm, Algorithm::Exact | Algorithm::Robust);
            let repetitions = if quick { 50 } else { 3 };
            let some = if quick { &signals[..] } else { &signals[..2] };
            let problem = Problem::new(n).sparsity(k).algorithm(algorithm).fallback(Fallback::Auto);
            let noise = if algorithm == Algorithm::Robust { Noise::Unknown } else { Noise::Exact };
            ours(some, &problem.noise(noise), repetitions, algorithm == Algorithm::Exact)
        });
        // FFTW measures for seconds, and many rows have the same length.
        let dense = match &mut peers {
            Some(dense) if dense.len() == n => dense,
            peers => peers.insert(Dense::new(n)),
        };
        dense.forget();
        let mut rival = Times::default();
        let mut rival_right = None;
        for signal in &signals[..2] {
            dense.run(signal);
            dense.run(signal);
            if n <= 1 << 22 {
                rival_right = oxifft(signal, 2, &mut rival);
            }
        }
        let [exact, robust, comb, vote, own] = &results;
        let rights = [exact, robust, comb, vote].map(Ours::correct).join(", ");
        let told = match rival_right {
            None => rival.text(),
            Some(true) => rival.text() + ", right",
            Some(false) => rival.text() + ", wrong",
        };
        let _ = writeln!(
            table,
            "| {} | {k} | {} | {} | {} | {} | {} | {} | {} | {} | {told} | {rights} | {:.3} % | {:.0} |",
            length(n),
            exact.warm.text(),
            exact.fresh.text(),
            robust.warm.text(),
            comb.warm.text(),
            vote.warm.text(),
            own.warm.text(),
            dense.rustfft_times.text(),
            dense.fftw_times.text(),
            100.0 * exact.samples as f64 / n as f64,
            dense.best() / exact.warm.median(),
        );
        let x = if over_k { k as f64 } else { n as f64 };
        let medians = [
            &exact.warm,
            &exact.fresh,
            &robust.warm,
            &comb.warm,
            &vote.warm,
            &own.warm,
            &dense.rustfft_times,
            &dense.fftw_times,
        ];
        for (curve, times) in curves.iter_mut().zip(medians) {
            curve.points.push((x, times.median()));
        }
        let named: serde_json::Map<String, Value> =
            algorithms.iter().zip(&results).map(|(a, r)| (a.to_string(), r.json())).collect();
        rows.push(json!({
            "n": n, "k": k, "ours": named,
            "rustfft": dense.rustfft_times.json(),
            "fftw": dense.fftw_times.json(),
            "oxifft sparse": { "times": rival.json(), "right": rival_right },
        }));
    }
    let x = if over_k { "coefficients k" } else { "samples n" };
    Outcome { table, drawing: Some(draw(title, x, "seconds", &curves)), rows }
}

/// Run time over n at k = 50.
pub fn over_n(options: &Options) -> Outcome {
    let last = if options.quick { 20 } else { 26 };
    let problems: Vec<_> = (13..=last).map(|e| (1 << e, 50)).collect();
    compare(&problems, false, "Run time over n, k = 50, no noise", options)
}

/// Run time over k at n = 2^22.
pub fn over_k(options: &Options) -> Outcome {
    let last = if options.quick { 8 } else { 14 };
    let problems: Vec<_> = (4..=last).map(|e| (1 << 22, 1 << e)).collect();
    compare(&problems, true, "Run time over k, n = 2^22, no noise", options)
}

/// k = 1000, as in the papers about GPUs.
pub fn thousand(options: &Options) -> Outcome {
    let last = if options.quick { 20 } else { 27 };
    let problems: Vec<_> = (18..=last).map(|e| (1 << e, 1000)).collect();
    compare(&problems, false, "Run time over n, k = 1000, no noise", options)
}

/// The rows that the design set as targets.
pub fn targets(options: &Options) -> Outcome {
    let rows: [(u64, u64, Option<f64>, [f64; 2]); 8] = [
        (1 << 20, 50, None, [3.5, 6.0]),
        (1 << 22, 50, None, [3.5, 6.0]),
        (1 << 24, 50, None, [3.5, 6.0]),
        (1 << 22, 4096, None, [350.0, 450.0]),
        (1 << 26, 1000, None, [100.0, 200.0]),
        (1 << 22, 50, Some(20.0), [15.0, 30.0]),
        (1 << 24, 1000, Some(20.0), [300.0, 450.0]),
        (1_000_003, 50, None, [20.0, 50.0]),
    ];
    let mut table = String::from(
        "| n | k | noise | planning | warm | fresh | aim warm / fresh | reading the first pass alone, warm / fresh | right and certified | RustFFT ÷ warm |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut raw = Vec::new();
    for (n, k, snr, [warm, fresh]) in rows {
        if options.quick && n > 1 << 22 {
            continue;
        }
        let signals = signals(n, k, snr, options);
        let ours = ours(&signals, &Problem::new(n).sparsity(k), 50, true);
        let mut dense = Dense::new(n);
        dense.run(&signals[0]);
        dense.run(&signals[0]);
        let noise = snr.map_or("none".to_string(), |db| format!("{db} dB"));
        let _ = writeln!(
            table,
            "| {} | {k} | {noise} | {} | {} | {} | {warm} / {fresh} µs | {} / {} | {} | {:.0} |",
            length(n),
            seconds(ours.planning.median()),
            ours.warm.text(),
            ours.fresh.text(),
            seconds(ours.reading[0].median()),
            seconds(ours.reading[1].median()),
            ours.correct(),
            dense.rustfft_times.median() / ours.warm.median(),
        );
        raw.push(json!({ "n": n, "k": k, "snr": snr, "ours": ours.json(), "rustfft": dense.rustfft_times.json() }));
    }
    Outcome { table, drawing: None, rows: raw }
}

/// Time that a pool works before it is timed: threads that were asleep may wake on a core that is taken, and
/// the system needs some milliseconds to see that.
const AWAKE: Duration = Duration::from_millis(10);

/// Calls `f` until the pool of this thread is awake, then times a few more calls; `judge` sees what all give.
fn awake<R>(times: &mut Times, f: impl Fn() -> R, mut judge: impl FnMut(R)) {
    let start = Instant::now();
    judge(f());
    while start.elapsed() < AWAKE {
        judge(f());
    }
    (0..5).for_each(|_| judge(times.add(&f)));
}

/// One thread beside all of them: large transforms, batches, and one small transform, which must not
/// lose.
pub fn threads(options: &Options) -> Outcome {
    let pools = [1, 0].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads can be started")
    });
    let count = pools[1].current_num_threads();
    let mut table = format!(
        "| work | one thread | {count} threads | ratio | right and certified |\n|---|---|---|---|---|\n"
    );
    let rounds = if options.quick { 5 } else { 25 };
    let mut raw = Vec::new();
    // Nothing but registers: what the machine gives at most at this hour.
    let mut times = [Times::default(), Times::default()];
    for _ in 0..rounds {
        for (pool, times) in pools.iter().zip(&mut times) {
            let both = || rayon::join(multiplications, multiplications);
            pool.install(|| awake(times, both, |_| ()));
        }
    }
    let [one, all] = &times;
    let ratio = one.median() / all.median();
    let (one_text, all_text) = (one.text(), all.text());
    let _ = writeln!(
        table,
        "| multiplications in registers | {one_text} | {all_text} | {ratio:.2} | |"
    );
    raw.push(json!({
        "work": "multiplications in registers", "threads": count,
        "one": one.json(), "all": all.json(),
    }));
    let there_and_back = pools[1].install(line_there_and_back);
    let text = there_and_back.text();
    let _ = writeln!(table, "| a cache line to another core and back | | {text} | | |");
    raw.push(
        json!({ "work": "a cache line to another core and back", "all": there_and_back.json() }),
    );
    let single: [(&str, u64, u64, Algorithm); 7] = [
        ("one transform", 1 << 22, 50, Algorithm::Auto),
        ("one transform", 1 << 22, 4096, Algorithm::Auto),
        ("one transform", 1 << 24, 16384, Algorithm::Auto),
        ("one transform, vote", 1 << 22, 1000, Algorithm::Vote),
        ("one transform, comb-vote", 1 << 22, 1000, Algorithm::CombVote),
        ("batch of 64", 1 << 16, 50, Algorithm::Auto),
        ("batch of 1024", 1 << 16, 50, Algorithm::Auto),
    ];
    for (work, n, k, algorithm) in single {
        let signal = Signal::new(n, k, None, 1);
        let count_of = |work: &str| work.strip_prefix("batch of ")?.parse().ok();
        let batch: Vec<&[_]> = vec![&signal.samples; count_of(work).unwrap_or(1)];
        let problem = Problem::new(n).sparsity(k).algorithm(algorithm);
        let plan = Plan::new(problem).expect("the problem is valid");
        let mut times = [Times::default(), Times::default()];
        let (mut right, mut runs) = (0, 0);
        // Turn by turn, so that both meet the same machine.
        for _ in 0..rounds {
            for (pool, times) in pools.iter().zip(&mut times) {
                let judge = |answers: Vec<Result<Spectrum, _>>| {
                    for s in answers.into_iter().flatten() {
                        let found = s.peaks().iter().map(|p| p.index);
                        right += u64::from(s.certificate().is_reliable() && signal.agrees(found));
                        runs += 1u64;
                    }
                };
                pool.install(|| awake(times, || plan.transform_batch(&batch), judge));
            }
        }
        let [one, all] = &times;
        let _ = writeln!(
            table,
            "| {work}, n = {}, k = {k} | {} | {} | {:.2} | {right}/{runs} |",
            length(n),
            one.text(),
            all.text(),
            one.median() / all.median(),
        );
        raw.push(json!({
            "work": work, "n": n, "k": k, "threads": count,
            "one": one.json(), "all": all.json(), "right": right, "runs": runs,
        }));
    }
    Outcome { table, drawing: None, rows: raw }
}

/// Time in which two threads of this pool hand a cache line to each other and back: cores that share a cache
/// take 60 ns or so, others several times as long. Nothing if there is one thread.
fn line_there_and_back() -> Times {
    const TURNS: usize = 1000;
    let mut times = Times::default();
    if rayon::current_num_threads() < 2 {
        return times;
    }
    let line = AtomicUsize::new(0);
    let wait_for = |turn| {
        let mut looks = 0u32;
        while line.load(Ordering::Acquire) != turn {
            looks += 1;
            // Both may be on one core for a while.
            if looks > 10_000 {
                std::thread::yield_now();
            }
        }
    };
    let mut ours = || {
        for chunk in 0..100 {
            let start = Instant::now();
            for i in chunk * TURNS..(chunk + 1) * TURNS {
                line.store(2 * i + 1, Ordering::Release);
                wait_for(2 * i + 2);
            }
            times.push(start.elapsed().as_secs_f64() / TURNS as f64);
        }
    };
    let theirs = || {
        for i in 0..100 * TURNS {
            wait_for(2 * i + 1);
            line.store(2 * i + 2, Ordering::Release);
        }
    };
    rayon::scope(|scope| {
        scope.spawn(|_| theirs());
        ours();
    });
    times
}

/// Half a millisecond of multiplications, each of which waits for the one before.
fn multiplications() -> f64 {
    (0..400_000).fold(1.0, |x: f64, _| std::hint::black_box(x) * 1.000_000_1)
}

/// Where the time goes.
pub fn profile(options: &Options) -> Outcome {
    let rows = [(50, None), (4096, None), (50, Some(20.0)), (50, Some(0.0))];
    let mut table = String::from("| k | noise | stage | time | share |\n|---|---|---|---|---|\n");
    let mut raw = Vec::new();
    for (k, snr) in rows {
        let n = 1 << 22;
        let mut stages: Vec<(sparsefft::Stage, Vec<f64>)> = Vec::new();
        for signal in signals(n, k, snr, options) {
            let plan = Plan::new(Problem::new(n).sparsity(k)).expect("the problem is valid");
            for _ in 0..50 {
                let s = plan.transform(&*signal.samples).expect("the samples are finite");
                for &(stage, spent) in &s.report().stages {
                    let spent = spent.as_secs_f64();
                    match stages.iter_mut().find(|(known, _)| *known == stage) {
                        Some((_, all)) => all.push(spent),
                        None => stages.push((stage, vec![spent])),
                    }
                }
            }
        }
        let mean = |v: &Vec<f64>| {
            // Interruptions are not the stage's time.
            let mut v = v.clone();
            v.sort_by(f64::total_cmp);
            v.truncate(v.len() * 9 / 10 + 1);
            v.iter().sum::<f64>() / v.len() as f64
        };
        let total: f64 = stages.iter().map(|(_, v)| mean(v)).sum();
        let noise = snr.map_or("none".to_string(), |db| format!("{db} dB"));
        for (stage, times) in &stages {
            let share = 100.0 * mean(times) / total;
            let _ = writeln!(
                table,
                "| {k} | {noise} | {stage} | {} | {share:.0} % |",
                seconds(mean(times))
            );
            raw.push(json!({ "n": n, "k": k, "snr": snr, "stage": stage.name(), "seconds": mean(times) }));
        }
    }
    Outcome { table, drawing: None, rows: raw }
}

/// Error of the values and share of right answers.
pub fn accuracy(options: &Options) -> Outcome {
    let n = 1 << 20;
    let trials = if options.quick { 5 } else { 40 };
    let mut table = String::from(
        "| k | noise | right and certified | rms error of the amplitudes | σ/√(samples read) | samples read |\n|---|---|---|---|---|---|\n",
    );
    let mut raw = Vec::new();
    let noises = [None, Some(40.0), Some(20.0), Some(10.0), Some(0.0), Some(-10.0)];
    let over_noise = noises.map(|snr| (50, snr));
    let over_k = [16, 64, 256, 1024].map(|k| (k, None));
    for (k, snr) in over_noise.into_iter().chain(over_k) {
        let (mut right, mut squares, mut count, mut read) = (0, 0.0, 0usize, 0.0);
        for seed in 0..trials {
            let signal = Signal::new(n, k, snr, seed);
            let plan = Plan::new(Problem::new(n).sparsity(k).seed(seed)).expect("valid");
            let s = plan.transform(&*signal.samples).expect("the samples are finite");
            let found = s.peaks().iter().map(|p| p.index);
            right += usize::from(s.certificate().is_reliable() && signal.agrees(found));
            read += s.report().samples_read as f64 / trials as f64;
            for (peak, a) in s.peaks().iter().zip(&signal.values) {
                squares += (peak.value / n as f64 - a).norm_sqr();
                count += 1;
            }
        }
        let rms = (squares / count.max(1) as f64).sqrt();
        let sigma = snr.map_or(0.0, |db| 10f64.powf(-db / 20.0));
        let noise = snr.map_or("none".to_string(), |db| format!("{db} dB"));
        let limit = if sigma > 0.0 { format!("{:.1e}", sigma / read.sqrt()) } else { "–".into() };
        let _ = writeln!(
            table,
            "| {k} | {noise} | {right}/{trials} | {rms:.1e} | {limit} | {read:.0} |"
        );
        raw.push(json!({ "n": n, "k": k, "snr": snr, "trials": trials, "right": right, "rms": rms, "samples": read }));
    }
    Outcome { table, drawing: None, rows: raw }
}
