//! Signals given by their spectrum.
//!
//! x\[t\] = Σ a_f e^{2πi ft/n} + off-grid tones + impulses + noise, then rounded to a format.
//!
//! The same signal can be stored (an inverse FFT of the sparse spectrum: fast, and accurate to
//! rounding) or computed sample by sample as a pure function of t, with the phase f·t mod n in
//! 128-bit integers and noise that is a hash of (seed, t). Both give the same samples to rounding
//! and the same noise to the bit, so that lengths which no memory holds are tested like short
//! ones.

use crate::rng::{hashed_gaussian, mix};
use crate::{C64, oracle};
use num_complex::Complex;
use std::f64::consts::TAU;
use std::sync::Arc;

/// One coefficient: X\[f\] = n·a.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tone {
    /// Frequency index.
    pub f: u64,
    /// Amplitude a = X\[f\]/n.
    pub a: C64,
}

/// How samples are rounded before anyone sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Not at all.
    F64,
    /// To single precision.
    F32,
    /// To 8-bit integers.
    I8,
    /// To unsigned 8-bit integers with the offset 128, as software radios deliver.
    U8,
    /// To 16-bit integers.
    I16,
    /// To 32-bit integers.
    I32,
}

impl Format {
    /// One component, rounded.
    fn round(self, v: f64) -> f64 {
        match self {
            Format::F64 => v,
            Format::F32 => v as f32 as f64,
            Format::I8 => v.round() as i8 as f64,
            Format::U8 => (v + 128.0).round() as u8 as f64,
            Format::I16 => v.round() as i16 as f64,
            Format::I32 => v.round() as i32 as f64,
        }
    }

    /// Standard deviation of the rounding error of one complex sample of root mean square `rms`,
    /// taken as white.
    fn sigma(self, rms: f64, real: bool) -> f64 {
        let parts: f64 = if real { 1.0 } else { 2.0 };
        match self {
            Format::F64 => 0.0,
            // Half an ulp lies between 2^-25 and 2^-24 of the value; uniform in between.
            Format::F32 => rms * 2f64.powi(-24) / 3f64.sqrt(),
            _ => (parts / 12.0).sqrt(),
        }
    }
}

/// A train of impulses: `value` where t ≡ start mod period, times e^{2πi·carrier·t/n}; zero
/// elsewhere, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pulses {
    /// First impulse.
    pub start: u64,
    /// Distance of the impulses; divides n.
    pub period: u64,
    /// Height.
    pub value: C64,
    /// Frequency index of the carrier.
    pub carrier: u64,
}

/// A signal whose spectrum is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// Number of samples.
    pub n: u64,
    /// The coefficients, each frequency once.
    pub tones: Vec<Tone>,
    /// If given, the samples are made from these impulses; `tones` holds their spectrum.
    pub pulses: Option<Pulses>,
    /// Tones between the bins: frequency in bins, amplitude.
    pub off_grid: Vec<(f64, C64)>,
    /// Single samples added: time, value.
    pub impulses: Vec<(u64, C64)>,
    /// What changes over the record, or is neither a tone nor white noise.
    pub disturbances: Vec<Disturbance>,
    /// Standard deviation of the white noise in one sample.
    pub sigma: f64,
    /// Seed of the noise.
    pub noise_seed: u64,
    /// Whether the samples are real: the tones come in conjugate pairs and so does the noise.
    pub real: bool,
    /// Rounding.
    pub format: Format,
    /// Whether the tones are the whole truth and few. If not, the judge takes the dense FFT.
    pub sparse: bool,
}

impl Signal {
    /// An exactly sparse complex signal.
    pub fn new(n: u64, tones: Vec<Tone>) -> Self {
        Signal {
            n,
            tones,
            pulses: None,
            off_grid: Vec::new(),
            impulses: Vec::new(),
            disturbances: Vec::new(),
            sigma: 0.0,
            noise_seed: 0,
            real: false,
            format: Format::F64,
            sparse: true,
        }
    }

    /// A signal of off-grid tones (frequency in bins, amplitude): none of its coefficients is
    /// zero.
    pub fn off_grid(n: u64, off_grid: Vec<(f64, C64)>) -> Self {
        Signal { off_grid, sparse: false, ..Signal::new(n, Vec::new()) }
    }

    /// A signal that is zero but for a few samples (time, value).
    pub fn impulses(n: u64, impulses: Vec<(u64, C64)>) -> Self {
        Signal { impulses, sparse: false, ..Signal::new(n, Vec::new()) }
    }

    /// The same with one more disturbance, to be judged against its dense FFT.
    pub fn disturbed(mut self, disturbance: Disturbance) -> Self {
        self.disturbances.push(disturbance);
        self.sparse = false;
        self
    }

    /// The same, to be judged against its dense FFT.
    pub fn not_sparse(mut self) -> Self {
        self.sparse = false;
        self
    }

    /// The spectrum of a train of impulses, and its samples exactly.
    pub fn pulses(n: u64, pulses: Pulses) -> Self {
        let Pulses { start, period, value, carrier } = pulses;
        assert!(n.is_multiple_of(period), "the period {period} must divide n = {n}");
        let tones = (0..period)
            .map(|j| Tone {
                f: (j * (n / period) + carrier) % n,
                a: value / period as f64 * oracle::root(j as u128 * start as u128, period).conj(),
            })
            .collect();
        Signal { pulses: Some(pulses), ..Signal::new(n, tones) }
    }

    /// The same with white noise of standard deviation σ.
    pub fn noise(mut self, sigma: f64, seed: u64) -> Self {
        self.sigma = sigma;
        self.noise_seed = seed;
        self
    }

    /// The same, declared real.
    ///
    /// # Panics
    /// If the tones are not in conjugate pairs.
    pub fn into_real(mut self) -> Self {
        let find = |f: u64| self.tones.iter().find(|t| t.f == f);
        for t in &self.tones {
            let mirror = find((self.n - t.f) % self.n).expect("a real signal has pairs of tones");
            assert_eq!(mirror.a, t.a.conj(), "pairs are conjugate");
        }
        self.real = true;
        self
    }

    /// The same, rounded to a format.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Root mean square of the tones' amplitudes; 0 if there are none.
    pub fn rms_tone(&self) -> f64 {
        let energy: f64 = self.tones.iter().map(|t| t.a.norm_sqr()).sum();
        (energy / self.tones.len().max(1) as f64).sqrt()
    }

    /// Standard deviation of everything that is not a tone: noise and rounding to the format.
    pub fn sigma_total(&self) -> f64 {
        let energy: f64 = self.tones.iter().map(|t| t.a.norm_sqr()).sum();
        let rms = (energy + self.sigma * self.sigma).sqrt();
        self.sigma.hypot(self.format.sigma(rms, self.real))
    }

    /// Disturbs one sample, adds noise and rounds.
    fn finish(&self, t: u64, mut v: C64) -> C64 {
        for disturbance in &self.disturbances {
            v = disturbance.apply(t, v);
        }
        if self.real {
            v.im = 0.0;
        }
        if self.sigma > 0.0 {
            let z = hashed_gaussian(self.noise_seed, t) * self.sigma;
            // A real Gaussian of the same power.
            v += if self.real { C64::new(z.re * 2f64.sqrt(), 0.0) } else { z };
        }
        let im = if self.real { 0.0 } else { self.format.round(v.im) };
        C64::new(self.format.round(v.re), im)
    }

    /// What the format U8 adds to every sample, as an amplitude at f = 0.
    pub fn offset(&self) -> C64 {
        match self.format {
            Format::U8 if self.real => C64::new(128.0, 0.0),
            Format::U8 => C64::new(128.0, 128.0),
            _ => C64::ZERO,
        }
    }

    /// The tones with the offset of the format, sorted by frequency.
    pub fn truth(&self) -> Vec<Tone> {
        let mut tones = self.tones.clone();
        let offset = self.offset();
        if offset != C64::ZERO {
            match tones.iter_mut().find(|t| t.f == 0) {
                Some(t) => t.a += offset,
                None => tones.push(Tone { f: 0, a: offset }),
            }
        }
        tones.sort_unstable_by_key(|t| t.f);
        tones
    }

    /// All n samples, by an inverse FFT.
    pub fn samples(&self) -> Vec<C64> {
        let mut x = Vec::new();
        self.samples_into(&mut x);
        x
    }

    /// All n samples, into a buffer that is kept from signal to signal.
    pub fn samples_into(&self, x: &mut Vec<C64>) {
        let n = self.n as usize;
        x.clear();
        x.resize(n, C64::ZERO);
        match self.pulses {
            Some(p) => {
                for t in (p.start % p.period..self.n).step_by(p.period as usize) {
                    x[t as usize] = p.at(t, self.n);
                }
            }
            None if !self.tones.is_empty() => {
                for tone in &self.tones {
                    x[tone.f as usize] += tone.a;
                }
                oracle::inverse(x);
            }
            None => {}
        }
        for &(nu, a) in &self.off_grid {
            for (t, v) in x.iter_mut().enumerate() {
                *v += off_grid(nu, a, t as u64, self.n);
            }
        }
        for &(t, v) in &self.impulses {
            x[t as usize] += v;
        }
        for (t, v) in x.iter_mut().enumerate() {
            *v = self.finish(t as u64, *v);
        }
    }

    /// Computes samples one by one.
    pub fn lazy(self) -> Lazy {
        let roots = Arc::new(Roots::new(self.n));
        Lazy { signal: self, roots }
    }

    /// The samples in the cheaper of the two forms, given how many will probably be read.
    pub fn source(&self, expected_reads: f64, buffer: Vec<C64>) -> Source {
        let n = self.n as f64;
        // Nanoseconds: 4 per tone and sample; an inverse FFT, and a Gaussian per sample.
        let noise = if self.sigma > 0.0 { 40.0 } else { 0.0 };
        let lazy = expected_reads * (4.0 * self.tones.len() as f64 + noise) + 4e5;
        let stored = n * (0.6 * n.max(2.0).log2() + 6.0 + noise);
        if self.format == Format::F64 && (lazy < stored || n > (1u64 << 26) as f64) {
            return Source::Lazy(self.clone().lazy());
        }
        self.stored(buffer)
    }

    /// The samples stored in the signal's own format.
    pub fn stored(&self, mut x: Vec<C64>) -> Source {
        self.samples_into(&mut x);
        macro_rules! convert {
            ($real:ident, $complex:ident, $t:ty) => {
                if self.real {
                    Source::$real(x.iter().map(|v| v.re as $t).collect())
                } else {
                    Source::$complex(
                        x.iter().map(|v| Complex::new(v.re as $t, v.im as $t)).collect(),
                    )
                }
            };
        }
        match self.format {
            Format::F64 if !self.real => Source::C64(x),
            Format::F64 => convert!(R64, C64, f64),
            Format::F32 => convert!(R32, C32, f32),
            Format::I8 => convert!(RI8, CI8, i8),
            Format::U8 => convert!(RU8, CU8, u8),
            Format::I16 => convert!(RI16, CI16, i16),
            Format::I32 => convert!(RI32, CI32, i32),
        }
    }
}

/// A change over the record, or a part of the signal that is neither a tone nor white noise: a
/// function of t, so that any sample can be computed by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disturbance {
    /// All tones times a factor within a stretch: a dropout (0), a fade (½), a flip of phase (-1).
    Level {
        /// First sample.
        from: u64,
        /// Number of samples.
        length: u64,
        /// The factor.
        factor: f64,
    },
    /// a·e^{2πi(νt + ½ρt²)} within a stretch: a sweep, a drifting tone (ρ small), a burst of a
    /// carrier (ρ = 0), a step of a constant (ν = ρ = 0).
    Sweep {
        /// First sample.
        from: u64,
        /// Number of samples.
        length: u64,
        /// Amplitude.
        amplitude: C64,
        /// ν in cycles per sample at t = 0.
        frequency: f64,
        /// ρ in cycles per sample².
        rate: f64,
    },
    /// a·e^{2πi(νt + δ·P/2π·sin(2πt/P))}: frequency modulation by ± δ with the period P.
    Fm {
        /// Amplitude.
        amplitude: C64,
        /// ν in cycles per sample.
        frequency: f64,
        /// δ in cycles per sample.
        deviation: f64,
        /// P in samples.
        period: f64,
    },
    /// A carrier whose phase is drawn anew for each symbol, among equally spaced ones.
    Psk {
        /// Amplitude.
        amplitude: C64,
        /// Frequency in cycles per sample.
        frequency: f64,
        /// Samples per symbol.
        symbol: u64,
        /// Number of phases.
        phases: u64,
        /// Seed of the symbols.
        seed: u64,
    },
    /// A carrier on a raster of slots, each on or off at random: on-off keying, packets.
    Packets {
        /// Amplitude.
        amplitude: C64,
        /// Frequency in cycles per sample.
        frequency: f64,
        /// Samples per slot.
        slot: u64,
        /// Probability that a slot is on.
        duty: f64,
        /// Seed of the slots.
        seed: u64,
    },
    /// Noise that is coloured by an autoregressive filter of one pole, or white (pole 0), in the
    /// slots of a raster that are on.
    Noise {
        /// Standard deviation of one sample.
        sigma: f64,
        /// The pole, below 1.
        pole: f64,
        /// Samples per slot.
        slot: u64,
        /// Probability that a slot is on.
        duty: f64,
        /// Seed of the noise.
        seed: u64,
    },
}

/// A number in 0 … 1 that depends on a seed and a place.
fn hashed_uniform(seed: u64, at: u64) -> f64 {
    (mix(seed ^ mix(at)) >> 11) as f64 * 2f64.powi(-53)
}

impl Disturbance {
    /// What becomes of the value v at t.
    fn apply(&self, t: u64, v: C64) -> C64 {
        let cis = |turns: f64| C64::cis(TAU * turns.fract());
        let time = t as f64;
        match *self {
            Disturbance::Level { from, length, factor } => {
                if (from..from + length).contains(&t) {
                    v * factor
                } else {
                    v
                }
            }
            Disturbance::Sweep { from, length, amplitude, frequency, rate } => {
                if !(from..from + length).contains(&t) {
                    return v;
                }
                v + amplitude * cis(frequency * time) * cis(0.5 * rate * time * time)
            }
            Disturbance::Fm { amplitude, frequency, deviation, period } => {
                let swing = deviation * period / TAU * (TAU * (time / period).fract()).sin();
                v + amplitude * cis(frequency * time) * cis(swing)
            }
            Disturbance::Psk { amplitude, frequency, symbol, phases, seed } => {
                let phase = (hashed_uniform(seed, t / symbol) * phases as f64).floor();
                v + amplitude * cis(frequency * time) * cis(phase / phases as f64)
            }
            Disturbance::Packets { amplitude, frequency, slot, duty, seed } => {
                let on = hashed_uniform(seed, t / slot) < duty;
                if on { v + amplitude * cis(frequency * time) } else { v }
            }
            Disturbance::Noise { sigma, pole, slot, duty, seed } => {
                if hashed_uniform(!seed, t / slot) >= duty {
                    return v;
                }
                // The impulse response, cut off where it is small; of unit energy.
                let taps = if pole == 0.0 { 1 } else { 48 };
                let mut sum = C64::ZERO;
                let (mut gain, mut energy) = (1.0, 0.0);
                for j in 0..taps {
                    sum += hashed_gaussian(seed, t.wrapping_sub(j)) * gain;
                    energy += gain * gain;
                    gain *= pole;
                }
                v + sum * (sigma / f64::sqrt(energy))
            }
        }
    }
}

impl Pulses {
    /// The sample at t.
    fn at(&self, t: u64, n: u64) -> C64 {
        if t % self.period == self.start % self.period {
            self.value * oracle::root(self.carrier as u128 * t as u128, n)
        } else {
            C64::ZERO
        }
    }
}

/// a e^{2πi νt/n}: whole bins in integers, the fraction in floating point.
fn off_grid(nu: f64, a: C64, t: u64, n: u64) -> C64 {
    let whole = nu.floor();
    let turn = (nu - whole) * (t as f64 / n as f64);
    a * oracle::root(whole as u128 * t as u128, n) * C64::cis(TAU * turn.fract())
}

/// A signal in the form in which it is handed to a transform.
#[derive(Debug, Clone)]
pub enum Source {
    /// Computed on demand.
    Lazy(Lazy),
    /// Complex f64.
    C64(Vec<C64>),
    /// Real f64.
    R64(Vec<f64>),
    /// Complex f32.
    C32(Vec<Complex<f32>>),
    /// Real f32.
    R32(Vec<f32>),
    /// Complex i8.
    CI8(Vec<Complex<i8>>),
    /// Real i8.
    RI8(Vec<i8>),
    /// Complex u8.
    CU8(Vec<Complex<u8>>),
    /// Real u8.
    RU8(Vec<u8>),
    /// Complex i16.
    CI16(Vec<Complex<i16>>),
    /// Real i16.
    RI16(Vec<i16>),
    /// Complex i32.
    CI32(Vec<Complex<i32>>),
    /// Real i32.
    RI32(Vec<i32>),
}

impl Source {
    /// Whether the samples are computed on demand, so that a transform's time includes that.
    pub fn is_lazy(&self) -> bool {
        matches!(self, Source::Lazy(_))
    }

    /// Gives a buffer of complex numbers back for the next signal.
    pub fn into_buffer(self) -> Vec<C64> {
        match self {
            Source::C64(x) => x,
            _ => Vec::new(),
        }
    }
}

/// A signal as a pure function of t.
#[derive(Debug, Clone)]
pub struct Lazy {
    signal: Signal,
    roots: Arc<Roots>,
}

impl Lazy {
    /// What it is.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// x\[t\].
    pub fn at(&self, t: u64) -> C64 {
        let s = &self.signal;
        let mut v = match s.pulses {
            Some(p) => p.at(t, s.n),
            None => s.tones.iter().map(|tone| tone.a * self.roots.power(tone.f, t)).sum(),
        };
        for &(nu, a) in &s.off_grid {
            v += off_grid(nu, a, t, s.n);
        }
        for &(at, a) in &s.impulses {
            if at == t {
                v += a;
            }
        }
        s.finish(t, v)
    }

    /// Writes x\[start + i\] to `out[i]`.
    pub fn range(&self, start: u64, out: &mut [C64]) {
        if start == 0 && out.len() as u64 == self.signal.n {
            let mut all = Vec::new();
            self.signal.samples_into(&mut all);
            out.copy_from_slice(&all);
        } else {
            for (t, o) in (start..).zip(out) {
                *o = self.at(t);
            }
        }
    }
}

/// Powers of e^{2πi/n}, from two short tables where these fit.
#[derive(Debug)]
struct Roots {
    n: u64,
    low: Vec<C64>,
    high: Vec<C64>,
}

impl Roots {
    const LOW_BITS: u32 = 13;

    fn new(n: u64) -> Self {
        if n > 1 << (2 * Self::LOW_BITS) {
            return Roots { n, low: Vec::new(), high: Vec::new() };
        }
        let low = (0..1u64 << Self::LOW_BITS).map(|p| oracle::root(p as u128, n)).collect();
        let high = (0..=n >> Self::LOW_BITS)
            .map(|p| oracle::root((p as u128) << Self::LOW_BITS, n))
            .collect();
        Roots { n, low, high }
    }

    fn power(&self, f: u64, t: u64) -> C64 {
        let n = self.n;
        if self.low.is_empty() {
            return oracle::root(f as u128 * t as u128, n);
        }
        // n is at most 2^26, so the product fits.
        let p = f * t % n;
        let mask = (1 << Self::LOW_BITS) - 1;
        self.low[(p & mask) as usize] * self.high[(p >> Self::LOW_BITS) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance::{self, assert_close};
    use crate::{Rng, generate};

    #[test]
    fn stored_and_lazy_samples_agree() {
        let mut rng = Rng::new(11);
        for n in [1u64, 2, 60, 97, 1 << 14, 10_007] {
            let k = n.min(20);
            let tones = generate::random(&mut rng, n, k);
            let mut signal = Signal::new(n, tones).noise(0.25, 5);
            signal.off_grid.push((n as f64 / 3.0 + 0.37, C64::new(0.5, 0.1)));
            signal.impulses.push((n / 2, C64::new(3.0, 0.0)));
            let stored = signal.samples();
            let lazy = signal.lazy();
            let computed: Vec<C64> = (0..n).map(|t| lazy.at(t)).collect();
            assert_close(&computed, &stored, tolerance::dense(n as usize), "lazy samples");
        }
    }

    #[test]
    fn huge_lengths_have_exact_phases() {
        let n = (1u64 << 50) - 27;
        let signal = Signal::new(n, vec![Tone { f: n - 1, a: C64::ONE }]).lazy();
        // (n-1)(n-1) = 1 mod n.
        assert!((signal.at(n - 1) - oracle::root(1, n)).norm() < 1e-15);
        assert!((signal.at(1) - oracle::root(1, n).conj()).norm() < 1e-15);
    }

    #[test]
    fn pulses_have_the_spectrum_they_claim() {
        let n = 960;
        let p = Pulses { start: 7, period: 12, value: C64::new(1.0, -0.5), carrier: 5 };
        let signal = Signal::pulses(n, p);
        let mut truth = vec![C64::ZERO; n as usize];
        for t in signal.truth() {
            truth[t.f as usize] = t.a * n as f64;
        }
        let x = signal.samples();
        assert_eq!(x.iter().filter(|v| **v != C64::ZERO).count() as u64, n / 12);
        assert_close(&oracle::dense(&x), &truth, tolerance::dense(n as usize), "pulses");
        let lazy = signal.lazy();
        assert_eq!((0..n).map(|t| lazy.at(t)).collect::<Vec<_>>(), x);
    }

    #[test]
    fn formats_round_as_their_types_do() {
        let mut rng = Rng::new(12);
        let n = 512;
        let tones = generate::scaled(generate::random(&mut rng, n, 4), 20.0);
        let exact = Signal::new(n, tones.clone()).samples();
        for format in [Format::F32, Format::I8, Format::U8, Format::I16, Format::I32] {
            let signal = Signal::new(n, tones.clone()).format(format);
            let offset = signal.offset();
            let rounded = signal.samples();
            let worst = exact
                .iter()
                .zip(&rounded)
                .map(|(a, b)| (a + offset - b).re.abs().max((a + offset - b).im.abs()))
                .fold(0.0, f64::max);
            let half = if format == Format::F32 { 128.0 * f64::from(f32::EPSILON) } else { 0.5 };
            assert!(worst <= half, "{format:?}: {worst}");
            let power = tolerance::norm(
                &rounded.iter().zip(&exact).map(|(a, b)| a - b - offset).collect::<Vec<_>>(),
            );
            let measured = power / (n as f64).sqrt();
            let predicted = signal.sigma_total();
            assert!(measured < 1.5 * predicted, "{format:?}: {measured} against {predicted}");
        }
    }

    #[test]
    fn real_signals_are_real() {
        let mut rng = Rng::new(13);
        let n = 256;
        let signal = Signal::new(n, generate::conjugate_pairs(&mut rng, n, 5)).noise(0.1, 3);
        let x = signal.into_real().samples();
        assert!(x.iter().all(|v| v.im == 0.0));
    }
}
