//! Speed and memory of the survey in parts: `survey_bench [log2 n] [MiB] [white|busy|real]`.
//!
//! The samples are repeated from a short buffer, so that what is measured is the survey: its speed on
//! one thread and on all, and the peak of the resident memory beside the stated one.

use sparsefft::find::{Effort, Find, Survey};
use sparsefft::{Complex, Error, Samples};
use std::time::Instant;

/// A short buffer over and over, with random signs for each stretch, so that it has no period.
struct Repeated<'a> {
    n: u64,
    real: bool,
    data: &'a [Complex<f32>],
}

impl Samples for Repeated<'_> {
    fn len(&self) -> u64 {
        self.n
    }
    fn is_real(&self) -> bool {
        self.real
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        for (o, &i) in out.iter_mut().zip(indices) {
            let v = self.data[i as usize % self.data.len()];
            *o = Complex::new(sign(i) * f64::from(v.re), sign(i) * f64::from(v.im));
        }
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        let mut at = start;
        let mut rest = out;
        while !rest.is_empty() {
            let (from, sign) = (at as usize % self.data.len(), sign(at));
            let until = (STRETCH - at % STRETCH) as usize;
            let some = until.min(self.data.len() - from).min(rest.len());
            let (now, later) = rest.split_at_mut(some);
            for (o, v) in now.iter_mut().zip(&self.data[from..]) {
                *o = Complex::new(sign * f64::from(v.re), sign * f64::from(v.im));
            }
            (rest, at) = (later, at + some as u64);
        }
        Ok(())
    }
}

const STRETCH: u64 = 4096;

/// A random sign for each stretch.
fn sign(at: u64) -> f64 {
    let mut z = (at / STRETCH).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    if (z ^ (z >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
}

/// Seconds that this process has computed: unlike the clock, not those of others.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(13) + ticks(14)) / 100.0
}

/// Million samples per second of a core that a dense FFT of 2^20 complex f64 transforms: what this
/// machine does at this moment.
fn dense() -> f64 {
    let n = 1u64 << 20;
    let fft = sparsefft::dense::Fft::new(n).expect("a length that there is");
    let mut x = vec![Complex::new(1.0f64, 0.5); n as usize];
    let (rounds, watch) = (16, cpu_seconds());
    for _ in 0..rounds {
        x.iter_mut().for_each(|v| *v *= 1e-3);
        fft.forward(&mut x).expect("the planned length");
    }
    (rounds * n) as f64 / (cpu_seconds() - watch) / 1e6
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok()).map_or(0, |kib: u64| kib >> 10)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (n, memory) = (1u64 << number(1, 26), number(2, 256) << 20);
    let kind = args.get(3).map_or("white", String::as_str);
    let mut rng = testkit::Rng::new(1);
    // No power of two, so that repetitions make no lines on the grid of the frames.
    let data: Vec<Complex<f32>> = (0..3_000_017)
        .map(|t| {
            let mut z = rng.gaussian();
            if kind == "busy" && t % 4096 < 300 {
                z += Complex::cis(1.3 * f64::from(t)) * 4.0;
            }
            let im = if kind == "real" { 0.0 } else { z.im };
            Complex::new(z.re as f32, im as f32)
        })
        .collect();
    let signal = Repeated { n, real: kind == "real", data: &data };
    let before = peak_mib();
    let some = n.min(1 << 24);
    let part = Repeated { n: some, real: signal.real, data: &data };
    let mut survey = Survey::with(some.max(Survey::SHORTEST), signal.real, 1e-6, memory).unwrap();
    let watch = cpu_seconds();
    survey.add(0, &part).unwrap();
    let rate = some as f64 / (cpu_seconds() - watch) / 1e6;
    println!(
        "{kind}: first pass: {rate:.1} million samples per second of a core; unit {}",
        survey.unit()
    );
    let (cpu, watch) = (cpu_seconds(), Instant::now());
    let found = Find::new().effort(Effort::Thorough).memory(memory).run(&signal).unwrap();
    let rate = n as f64 / watch.elapsed().as_secs_f64() / 1e6;
    let each = n as f64 / (cpu_seconds() - cpu) / 1e6;
    println!(
        "all passes: {each:.1} million samples per second of a core, {rate:.1} on all threads"
    );
    println!(
        "{}: {} lines, {} bands, {} bursts, {} sweeps; stated {} MiB, peak {} MiB of which {before} before",
        found.outcome,
        found.lines.len(),
        found.bands.len(),
        found.bursts.len(),
        found.sweeps.len(),
        found.cost.memory >> 20,
        peak_mib()
    );
    for reason in &found.reasons {
        println!("{}: {}", reason.code, reason.text);
    }
    println!("dense FFT of 2^20 samples: {:.1} million samples per second of a core", dense());
}
