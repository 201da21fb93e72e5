//! Speed of `find::Stream`: `stream_bench [hop] [hops]`, blocks of i16 I/Q as a device sends them.

use sparsefft::find::Stream;
use sparsefft::iq;

/// Seconds that this process has computed: unlike the clock, not those of others.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(13) + ticks(14)) / 100.0
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (hop, hops) = (number(1, 1 << 20), number(2, 8));
    let mut rng = testkit::Rng::new(1);
    let samples: Vec<i16> = (0..hop * hops)
        .flat_map(|t| {
            // Noise, two carriers, a burst in every hop.
            let loud = t % hop > hop / 2 && t % hop < hop / 2 + 3000;
            let mut z = rng.gaussian() * if loud { 300.0 } else { 100.0 };
            for (frequency, level) in [(0.123_456, 30.0), (-0.31, 5.0)] {
                let turns: f64 = frequency * t as f64;
                let (sin, cos) = (std::f64::consts::TAU * turns.fract()).sin_cos();
                z += sparsefft::Complex::new(cos, sin) * level;
            }
            [z.re as i16, z.im as i16]
        })
        .collect();
    let mut stream = Stream::new(false, hop).expect("a hop within the limits");
    let watch = cpu_seconds();
    let (mut tracks, mut bursts, mut longest) = (0, 0, 0.0f64);
    for block in samples.chunks(2 * 65_536) {
        let blocks = iq(block).expect("whole pairs");
        for found in stream.push(&blocks).expect("numbers") {
            tracks += found.tracks.len();
            bursts += found.bursts.len();
            longest = longest.max(found.findings.cost.elapsed().as_secs_f64());
        }
    }
    let rate = (hop * hops) as f64 / (cpu_seconds() - watch) / 1e6;
    println!(
        "{rate:.1} million samples per second of a core; {tracks} lines and {bursts} bursts in {hops} hops; a hop of {hop} \
         samples is known {longest:.3} s after its last sample"
    );
}
