//! Signals with their truth, and times with their spread.

use serde_json::{Value, json};
use sparsefft::{Complex, SignalBuffer};
use std::ops::{Deref, DerefMut};
use std::time::Instant;
use testkit::{Rng, oracle};

/// A signal and what is in it.
pub struct Signal {
    pub samples: Store,
    /// Places of the tones, ascending.
    pub places: Vec<u64>,
    /// Amplitudes, in that order.
    pub values: Vec<Complex<f64>>,
}

impl Signal {
    /// k unit tones with random phases at random places, and noise so many dB below each.
    pub fn new(n: u64, k: u64, snr: Option<f64>, seed: u64) -> Self {
        let mut rng = Rng::new(1000 + seed);
        let mut places = rng.distinct(n, k);
        places.sort_unstable();
        let mut samples = zeros(n as usize);
        let values: Vec<_> = places.iter().map(|_| rng.phasor()).collect();
        for (&f, &a) in places.iter().zip(&values) {
            samples[f as usize] = a;
        }
        oracle::inverse(&mut samples);
        if let Some(db) = snr {
            let sigma = 10f64.powf(-db / 20.0);
            for v in samples.iter_mut() {
                *v += rng.gaussian() * sigma;
            }
        }
        Signal { samples, places, values }
    }

    /// Whether these are exactly the tones of the signal.
    pub fn agrees(&self, found: impl Iterator<Item = u64>) -> bool {
        found.eq(self.places.iter().copied())
    }

    /// The first sample on each cache line that holds one of these samples, in their order.
    pub fn lines(&self, samples: impl Iterator<Item = u64>) -> Vec<usize> {
        let line = |i: usize| std::ptr::from_ref(&self.samples[i]) as usize / 64;
        let mut firsts: Vec<usize> = samples.map(|i| i as usize).collect();
        firsts.dedup_by_key(|i| line(*i));
        firsts
    }

    /// One value from each of these places: what reading them takes by itself, as fast as the
    /// processor can, since no load waits for another.
    pub fn touch(&self, places: &[usize]) -> u64 {
        let samples = &*self.samples;
        places.iter().fold(0, |sum, &i| samples[i].re.to_bits().wrapping_add(sum))
    }

    /// Drops the signal from the caches.
    pub fn flush(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in self.samples.chunks(4) {
            // SAFETY: the address is that of a live element; flushing does not change it.
            unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr().cast()) };
        }
    }
}

/// Times of one thing, in seconds.
#[derive(Default, Clone)]
pub struct Times(Vec<f64>);

impl Times {
    /// Times one call.
    pub fn add<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = f();
        self.0.push(start.elapsed().as_secs_f64());
        result
    }

    /// Notes what somebody else has timed.
    pub fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    fn quantile(&self, p: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get((p * sorted.len() as f64) as usize).copied().unwrap_or(f64::NAN)
    }

    /// The shortest time; infinite if nothing was timed.
    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The median; NaN if nothing was timed.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Median and quartiles, as text.
    pub fn text(&self) -> String {
        if self.0.is_empty() {
            return "–".to_string();
        }
        format!(
            "{} ({}–{})",
            seconds(self.median()),
            seconds(self.quantile(0.25)),
            seconds(self.quantile(0.75))
        )
    }

    /// Everything that was measured.
    pub fn json(&self) -> Value {
        json!({ "median": self.median(), "seconds": self.0 })
    }
}

/// A time with a unit and three digits.
pub fn seconds(t: f64) -> String {
    let (value, unit) = match t {
        t if t.is_nan() => return "–".to_string(),
        t if t < 1e-6 => (1e9 * t, "ns"),
        t if t < 1e-3 => (1e6 * t, "µs"),
        t if t < 1.0 => (1e3 * t, "ms"),
        t => (t, "s"),
    };
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// n as a power of two where it is one.
pub fn length(n: u64) -> String {
    if n.is_power_of_two() { format!("2^{}", n.ilog2()) } else { n.to_string() }
}

/// Samples in one of the kinds of memory that users have.
pub enum Store {
    /// Pages of 2 MiB, beginning with a cache line.
    Buffer(SignalBuffer<f64>),
    /// As the system gives them to everybody.
    Plain(Vec<Complex<f64>>),
}

impl Deref for Store {
    type Target = [Complex<f64>];
    fn deref(&self) -> &[Complex<f64>] {
        match self {
            Store::Buffer(samples) => samples,
            Store::Plain(samples) => samples,
        }
    }
}

impl DerefMut for Store {
    fn deref_mut(&mut self) -> &mut [Complex<f64>] {
        match self {
            Store::Buffer(samples) => samples,
            Store::Plain(samples) => samples,
        }
    }
}

/// n zeros: in a buffer for signals, or in plain memory if the environment asks for it.
fn zeros(n: usize) -> Store {
    if plain() {
        return Store::Plain(vec![Complex::ZERO; n]);
    }
    let buffer = sparsefft::buffer(n as u64);
    Store::Buffer(buffer.expect("the signals of the experiment fit the memory"))
}

fn plain() -> bool {
    std::env::var_os("SPARSEFFT_PLAIN_MEMORY").is_some()
}

/// What machine and program made the numbers.
pub fn provenance() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |key: &str| {
        let info = read("/proc/cpuinfo");
        let line = info.lines().find(|l| l.starts_with(key)).unwrap_or_default().to_string();
        line.split(':').nth(1).unwrap_or_default().trim().to_string()
    };
    let huge = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let date = std::process::Command::new("date").arg("--iso-8601=minutes").output();
    let date = date.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    json!({
        "processor": field("model name"),
        "cores": std::thread::available_parallelism().map_or(0, |c| c.get()),
        "load": read("/proc/loadavg").trim(),
        "huge pages": huge.trim(),
        "signals": if plain() { "Vec" } else { "sparsefft::buffer" },
        "vector": vector(),
        "build": "release, no target-cpu",
        "date": date.unwrap_or_default(),
    })
}

fn vector() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        let eight =
            std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512vl");
        return if eight { "AVX-512" } else { "AVX2 and FMA" };
    }
    "portable"
}
