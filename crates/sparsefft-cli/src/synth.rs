//! Test signals: tones with exact phases, chirps, Gaussian noise drawn from the sample's index.
//!
//! Every sample is a function of its index alone, so blocks can be made in any order by any
//! number of threads and always agree.

use num_complex::Complex;
use std::f64::consts::TAU;
use std::sync::OnceLock;

/// A sinusoid with constant or linearly drifting frequency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tone {
    /// Frequency at the first sample, in turns of 2^-64 per sample.
    turns: u64,
    /// Position on the grid of n bins, where the frequency is exactly index/n.
    index: Option<u64>,
    /// Change of the frequency over the whole signal, in cycles per sample.
    drift: f64,
    /// Amplitude and phase at sample 0.
    pub amplitude: Complex<f64>,
}

impl Tone {
    /// A tone exactly on bin `index` of n.
    pub fn on_grid(index: u64, amplitude: Complex<f64>) -> Self {
        Tone { turns: 0, index: Some(index), drift: 0.0, amplitude }
    }

    /// A tone at any frequency in cycles per sample, drifting by `drift` over the signal.
    pub fn free(cycles: f64, drift: f64, amplitude: Complex<f64>) -> Self {
        // The fraction of a turn as a 64-bit integer makes the phase exact for every index.
        let turns = (cycles.rem_euclid(1.0) * 18446744073709551616.0) as u64;
        Tone { turns, index: None, drift, amplitude }
    }

    /// Frequency at sample 0 in cycles per sample, -1/2 … 1/2.
    pub fn cycles(&self, n: u64) -> f64 {
        let cycles = match self.index {
            Some(index) => index as f64 / n as f64,
            None => self.turns as f64 / 18446744073709551616.0,
        };
        if cycles >= 0.5 { cycles - 1.0 } else { cycles }
    }

    /// Phase at sample t in turns, without the tone's own phase.
    fn phase(&self, t: u64, n: u64) -> f64 {
        let steady = match self.index {
            Some(index) => (index as u128 * t as u128 % n as u128) as f64 / n as f64,
            None => self.turns.wrapping_mul(t) as f64 / 18446744073709551616.0,
        };
        let share = t as f64 / n as f64;
        steady + (self.drift * share * t as f64 / 2.0).fract()
    }

    /// Adds the tone's samples start … to a block.
    fn add(&self, start: u64, n: u64, out: &mut [Complex<f64>]) {
        /// Samples between two exact phases; rotating drifts by one rounding each.
        const RUN: usize = 1024;
        /// Independent rotators, so that the multiplications overlap.
        const LANES: usize = 8;
        for (i, run) in out.chunks_mut(RUN).enumerate() {
            let t = start + (i * RUN) as u64;
            if self.drift != 0.0 {
                for (j, o) in run.iter_mut().enumerate() {
                    *o += self.amplitude * Complex::cis(TAU * self.phase(t + j as u64, n));
                }
                continue;
            }
            let mut re = [0.0; LANES];
            let mut im = [0.0; LANES];
            for lane in 0..LANES {
                let v = self.amplitude * Complex::cis(TAU * self.phase(t + lane as u64, n));
                (re[lane], im[lane]) = (v.re, v.im);
            }
            let step = Complex::cis(TAU * self.phase(LANES as u64, n));
            for eight in run.chunks_mut(LANES) {
                for (lane, o) in eight.iter_mut().enumerate() {
                    *o += Complex::new(re[lane], im[lane]);
                }
                for lane in 0..LANES {
                    let (a, b) = (re[lane], im[lane]);
                    re[lane] = a * step.re - b * step.im;
                    im[lane] = a * step.im + b * step.re;
                }
            }
        }
    }
}

/// A signal that can be made block by block.
#[derive(Debug, Clone)]
pub struct Signal {
    /// Number of samples.
    pub n: u64,
    /// The sinusoids.
    pub tones: Vec<Tone>,
    /// Standard deviation of the noise: |noise|² is σ² on average.
    pub sigma: f64,
    /// Seed of the noise.
    pub seed: u64,
    /// Whether only real parts are wanted; the noise is then real with variance σ².
    pub real: bool,
}

impl Signal {
    /// Writes the samples start … to a block.
    pub fn fill(&self, start: u64, out: &mut [Complex<f64>]) {
        out.fill(Complex::ZERO);
        for tone in &self.tones {
            tone.add(start, self.n, out);
        }
        if self.sigma > 0.0 {
            // The real part of complex noise holds half its power.
            let scale = self.sigma * if self.real { 2f64.sqrt() } else { 1.0 };
            for (i, o) in out.iter_mut().enumerate() {
                let v = gaussian(self.seed, start + i as u64);
                *o += Complex::new(v.re as f64, v.im as f64) * scale;
            }
        }
        if self.real {
            out.iter_mut().for_each(|o| o.im = 0.0);
        }
    }

    /// A bound that few samples exceed: the sum of the amplitudes and four σ of noise.
    pub fn bound(&self) -> f64 {
        self.tones.iter().map(|t| t.amplitude.norm()).sum::<f64>() + 4.0 * self.sigma
    }
}

/// k distinct tones on the grid of n bins, levels evenly from 0 down to `-range` dB, random
/// phases. With `real`, they lie strictly between 0 and n/2.
pub fn random_tones(n: u64, k: u64, range: f64, real: bool, seed: u64) -> Vec<(u64, Complex<f64>)> {
    let mut used = std::collections::HashSet::new();
    let mut draw = 0u64;
    let width = if real { (n / 2).max(2) - 1 } else { n };
    (0..k.min(width))
        .map(|i| {
            let f = loop {
                draw += 1;
                let f = hash(seed, draw) % width + u64::from(real);
                if used.insert(f) {
                    break f;
                }
            };
            let down = range * i as f64 / (k.max(2) - 1) as f64;
            let phase = TAU * ((hash(!seed, draw) >> 11) as f64 / 9007199254740992.0);
            (f, Complex::from_polar(10f64.powf(-down / 20.0), phase))
        })
        .collect()
}

/// Complex Gaussian noise with E|v|² = 1 for this index: the sum of two entries of a table of
/// Gaussian values, picked by a hash. Four billion different sums, and no logarithm per sample.
#[inline]
pub fn gaussian(seed: u64, index: u64) -> Complex<f32> {
    static TABLE: OnceLock<Box<[Complex<f32>]>> = OnceLock::new();
    let table = TABLE.get_or_init(gaussian_table);
    let bits = hash(seed.wrapping_add(7), index);
    (table[bits as usize % ENTRIES] + table[(bits >> 32) as usize % ENTRIES])
        * std::f32::consts::FRAC_1_SQRT_2
}

const ENTRIES: usize = 1 << 16;

/// Box and Muller: an exponential radius, here at evenly spaced quantiles so that the table has
/// exactly the right power, and a hashed angle; pairs of opposite entries have no mean.
fn gaussian_table() -> Box<[Complex<f32>]> {
    let value = |i: usize| {
        let u = ((i / 2) as f64 + 0.5) / (ENTRIES / 2) as f64;
        let angle = TAU * ((hash(1, i as u64 / 2) >> 11) as f64 / 9007199254740992.0);
        let sign = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let v = Complex::from_polar(sign * (-u.ln()).sqrt(), angle);
        Complex::new(v.re as f32, v.im as f32)
    };
    (0..ENTRIES).map(value).collect()
}

/// 64 well-mixed bits for a counter (the splitmix64 finaliser).
pub fn hash(seed: u64, counter: u64) -> u64 {
    let mut z = (seed ^ 0x5851_F42D_4C95_7F2D)
        .wrapping_mul(0xD134_2543_DE82_EF95)
        .wrapping_add(counter.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal() -> Signal {
        let tones = vec![
            Tone::on_grid(37, Complex::new(1.0, 0.0)),
            Tone::free(-0.123_456_789, 0.0, Complex::new(0.0, 0.5)),
            Tone::free(0.1, 0.05, Complex::new(0.25, 0.0)),
        ];
        Signal { n: 10_007, tones, sigma: 0.1, seed: 3, real: false }
    }

    #[test]
    fn blocks_do_not_depend_on_where_they_start() {
        let s = signal();
        let mut whole = vec![Complex::ZERO; s.n as usize];
        s.fill(0, &mut whole);
        let mut part = vec![Complex::ZERO; 1500];
        s.fill(4321, &mut part);
        for (i, v) in part.iter().enumerate() {
            assert!((v - whole[4321 + i]).norm() < 1e-12, "{i}");
        }
    }

    #[test]
    fn tones_have_their_phase() {
        let mut s = signal();
        s.sigma = 0.0;
        let mut x = vec![Complex::ZERO; 3000];
        s.fill(0, &mut x);
        for (t, v) in x.iter().enumerate() {
            let t = t as f64;
            let chirp = 0.1 * t + 0.05 * t * t / (2.0 * s.n as f64);
            let want = Complex::cis(TAU * 37.0 * t / s.n as f64)
                + Complex::new(0.0, 0.5) * Complex::cis(-TAU * 0.123_456_789 * t)
                + 0.25 * Complex::cis(TAU * chirp);
            assert!((v - want).norm() < 1e-9, "{t}: {v} is not {want}");
        }
    }

    #[test]
    fn noise_has_its_power_and_no_mean() {
        let count = 100_000;
        let (mut power, mut mean) = (0.0, Complex::<f64>::ZERO);
        for i in 0..count {
            let v = gaussian(9, i);
            power += v.norm_sqr() as f64 / count as f64;
            mean += Complex::new(v.re as f64, v.im as f64) / count as f64;
        }
        assert!((power - 1.0).abs() < 0.02, "{power}");
        assert!(mean.norm() < 0.02, "{mean}");
    }

    #[test]
    fn random_tones_are_distinct_and_spread() {
        let tones = random_tones(1000, 50, 40.0, true, 4);
        let mut f: Vec<u64> = tones.iter().map(|t| t.0).collect();
        f.sort_unstable();
        f.dedup();
        assert_eq!(f.len(), 50);
        assert!(f[0] > 0 && f[49] < 500);
        assert!((tones[49].1.norm() - 0.01).abs() < 1e-12);
    }
}
