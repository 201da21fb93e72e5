//! What sketches cost: samples per second of a stream, merging, storing, decoding.
//!
//! ```text
//! cargo run --release --example sketch_bench
//! ```
//! Blocks come from a buffer far larger than the caches. "in place" hands each block to the stream
//! where it lies; "copied" copies it first, as a driver that delivers samples would.

use sparsefft::{Complex, Plan, Problem, Sketch, Sliding, Stream};
use std::time::{Duration, Instant};

type Sample = Complex<f32>;

fn plan(n: u64, k: u64) -> Plan {
    Plan::new(Problem::new(n).sparsity(k).one_pass()).expect("a plan")
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn main() {
    let buffer: Vec<Sample> = (0..1 << 24)
        .map(|t| Complex::cis(t as f32 * 0.7) + Complex::cis(t as f32 * 0.3).scale(0.1))
        .collect();
    println!("stream, complex f32, GB/s of signal (median of 5)");
    println!("{:>12} {:>6} {:>10} {:>10} {:>10}", "n", "k", "block", "in place", "copied");
    for (n, k) in [(1u64 << 22, 50), (1 << 28, 50), (1 << 28, 1000), (1 << 24, 1000)] {
        let plan = plan(n, k);
        plan.sketch().expect("a sketch");
        for block in [1usize << 10, 1 << 14, 1 << 18] {
            let mut own = vec![Complex::ZERO; block];
            let mut rate = |copy: bool| {
                let once = || {
                    let mut stream = Stream::new(&plan).expect("a stream");
                    let started = Instant::now();
                    let mut at = 0;
                    while stream.remaining() > 0 {
                        let part = &buffer[at..at + block];
                        at = (at + block) % buffer.len();
                        if copy {
                            own.copy_from_slice(part);
                            stream.push(&own[..]).expect("fits");
                        } else {
                            stream.push(part).expect("fits");
                        }
                    }
                    started.elapsed()
                };
                let seconds = median(std::iter::repeat_with(once).take(5).collect());
                n as f64 * size_of::<Sample>() as f64 / seconds / 1e9
            };
            let (still, copied) = (rate(false), rate(true));
            println!("{n:>12} {k:>6} {block:>10} {still:>10.1} {copied:>10.1}");
        }
    }
    println!("\nsliding window, complex f32, blocks of 16 Ki");
    println!("{:>12} {:>12} {:>6} {:>10} {:>14}", "n", "hop", "k", "GB/s", "spectra/s");
    for (n, hop) in [(1u64 << 20, 1u64 << 18), (1 << 20, 1 << 16), (1 << 22, 1 << 20)] {
        let mut sliding = Sliding::new(&plan(n, 20), hop).expect("a window");
        let started = Instant::now();
        let mut count = 0;
        for block in buffer.chunks(1 << 14) {
            count += sliding.push(block).expect("finite").len();
        }
        let seconds = started.elapsed().as_secs_f64();
        let rate = size_of_val(&buffer[..]) as f64 / seconds / 1e9;
        println!("{n:>12} {hop:>12} {:>6} {rate:>10.2} {:>14.0}", 20, count as f64 / seconds);
    }
    println!("\nsketches of 2^40 samples over 100 shards, complex f32");
    println!(
        "{:>6} {:>9} {:>9} {:>11} {:>11} {:>11} {:>11}",
        "k", "samples", "bytes", "plan", "add (all)", "merge 100", "decode"
    );
    for k in [10u64, 50, 500] {
        let n = 1u64 << 40;
        let started = Instant::now();
        let plan = plan(n, k);
        plan.sketch().expect("a sketch");
        let planned = started.elapsed();
        let tone = |f: u64, t: u64| {
            let turn = (u128::from(f) * u128::from(t) % u128::from(n)) as f64 / n as f64;
            Complex::cis(std::f64::consts::TAU * turn)
        };
        let shards: Vec<_> = (0..100u64)
            .map(|i| {
                let (from, to) = (n / 100 * i, if i == 99 { n } else { n / 100 * (i + 1) });
                let x = sparsefft::indexed(to - from, move |t| {
                    let v = tone(123_456_789_012, from + t) + 0.5 * tone(987_654_321, from + t);
                    Complex::new(f64::from(v.re as f32), f64::from(v.im as f32))
                });
                (from, x)
            })
            .collect();
        let started = Instant::now();
        let leaves: Vec<Vec<u8>> = shards
            .iter()
            .map(|(from, x)| {
                let mut sketch = plan.sketch().expect("a sketch");
                sketch.add(*from, x).expect("fits");
                sketch.to_bytes()
            })
            .collect();
        let added = started.elapsed();
        let started = Instant::now();
        let mut merged = Sketch::from_bytes(&leaves[0]).expect("whole");
        for leaf in &leaves[1..] {
            merged.merge_bytes(leaf).expect("fits");
        }
        let united = started.elapsed();
        let bytes = merged.to_bytes().len();
        let started = Instant::now();
        let spectrum = merged.finish().expect("complete");
        let decoded = started.elapsed();
        assert!(spectrum.certificate().is_certified(), "{}", spectrum.certificate());
        println!(
            "{k:>6} {:>9} {bytes:>9} {planned:>11.2?} {added:>11.2?} {united:>11.2?} {decoded:>11.2?}",
            merged.kept()
        );
    }
}
