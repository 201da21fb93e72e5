//! Recordings of tones between the bins, computed sample by sample, with what receivers add.
//!
//! x\[t\] = Σ a e^{2πi(νt + κt²/2)} + bands + noise, then the receiver: phase noise, imbalance of I
//! and Q, an offset, rounding to a number of bits. Every sample is a pure function of t, so that
//! only those that are read are ever made.

use crate::C64;
use crate::rng::{Rng, hashed_gaussian};
use std::f64::consts::TAU;

/// One sinusoid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FreeTone {
    /// Cycles per sample.
    pub nu: f64,
    /// Amplitude at t = 0.
    pub a: C64,
    /// Change of frequency per sample.
    pub drift: f64,
}

/// A narrow band of Gaussian noise: `lines` random tones evenly between two frequencies.
#[derive(Debug, Clone, PartialEq)]
pub struct FreeBand {
    /// Lower edge in cycles per sample.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    lines: Vec<(f64, C64)>,
}

impl FreeBand {
    /// A band of this power over n samples, with two lines per bin.
    pub fn new(n: u64, low: f64, high: f64, power: f64, rng: &mut Rng) -> Self {
        let count = (2.0 * (high - low) * n as f64).ceil().max(2.0) as usize;
        let scale = (power / count as f64).sqrt();
        let lines = (0..count)
            .map(|_| (low + (high - low) * rng.uniform(), rng.gaussian() * scale))
            .collect();
        FreeBand { low, high, lines }
    }
}

/// A recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Free {
    /// Number of samples.
    pub n: u64,
    /// The tones.
    pub tones: Vec<FreeTone>,
    /// Bands.
    pub bands: Vec<FreeBand>,
    /// Standard deviation of the white noise in one sample.
    pub sigma: f64,
    /// Seed of the noise.
    pub seed: u64,
    /// Weights of a filter that colours the noise; empty for white noise. The power is that of
    /// `sigma` if their squares add up to 1.
    pub colour: Vec<f64>,
    /// Whether only the real part is recorded.
    pub real: bool,
    /// Offset that the receiver adds.
    pub offset: C64,
    /// Share of the conjugate signal that the receiver adds.
    pub image: C64,
    /// If not 0: components are rounded to multiples of this.
    pub step: f64,
    /// Amplitude in radians of a slow wander of the receiver's phase.
    pub wander: f64,
}

fn cis(turns: f64) -> C64 {
    C64::cis(TAU * (turns - turns.round()))
}

impl Free {
    /// Tones (cycles per sample, amplitude) in white noise.
    pub fn new(n: u64, tones: &[(f64, C64)], sigma: f64, seed: u64) -> Self {
        Free {
            n,
            tones: tones.iter().map(|&(nu, a)| FreeTone { nu, a, drift: 0.0 }).collect(),
            bands: Vec::new(),
            sigma,
            seed,
            colour: Vec::new(),
            real: false,
            offset: C64::ZERO,
            image: C64::ZERO,
            step: 0.0,
            wander: 0.0,
        }
    }

    /// k tones at least `apart` bins from each other, amplitudes log-uniform over 20 dB, the
    /// weakest 1 and `snr` dB above the noise in one sample (`None`: no noise).
    pub fn random(n: u64, k: usize, snr: Option<f64>, apart: f64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut tones: Vec<(f64, C64)> = Vec::new();
        while tones.len() < k {
            let nu = rng.uniform() - 0.5;
            let near = |t: &(f64, C64)| {
                let d = t.0 - nu;
                (d - d.round()).abs() * (n as f64) < apart
            };
            if tones.iter().any(near) {
                continue;
            }
            let level = if tones.is_empty() { 0.0 } else { rng.uniform() };
            tones.push((nu, rng.phasor() * 10f64.powf(level)));
        }
        Free::new(n, &tones, snr.map_or(0.0, |db| 10f64.powf(-db / 20.0)), seed)
    }

    /// Colours the noise by a filter with these weights, scaled to keep the power.
    pub fn coloured(mut self, weights: impl Iterator<Item = f64>) -> Self {
        self.colour = weights.collect();
        let power = self.colour.iter().map(|h| h * h).sum::<f64>().sqrt();
        self.colour.iter_mut().for_each(|h| *h /= power);
        self
    }

    /// The sample at t.
    pub fn at(&self, t: u64) -> C64 {
        let time = t as f64;
        let mut v = C64::ZERO;
        for tone in &self.tones {
            v += tone.a * cis(tone.nu * time + 0.5 * tone.drift * time * time);
        }
        for &(nu, a) in self.bands.iter().flat_map(|b| &b.lines) {
            v += a * cis(nu * time);
        }
        self.received(t, v)
    }

    /// Fours of samples: out\[4j + τ\] is the sample at start + j·step + τ. By rotation, which is
    /// many times faster than one by one and differs by rounding.
    pub fn fours(&self, start: u64, step: u64, out: &mut [C64]) {
        // So few steps from one fresh phase to the next keep the rounding below 1e-14.
        const BLOCK: usize = 16;
        out.fill(C64::ZERO);
        let lines = self.bands.iter().flat_map(|b| &b.lines).map(|&(nu, a)| (nu, a, 0.0));
        for (nu, a, drift) in self.tones.iter().map(|t| (t.nu, t.a, t.drift)).chain(lines) {
            let (across, along) = (cis(nu), cis(nu * step as f64));
            for (i, block) in out.chunks_mut(4 * BLOCK).enumerate() {
                let first = (start + (i * BLOCK) as u64 * step) as f64;
                if drift != 0.0 {
                    for (j, o) in block.iter_mut().enumerate() {
                        let t = first + (j / 4) as f64 * step as f64 + (j % 4) as f64;
                        *o += a * cis(nu * t + 0.5 * drift * t * t);
                    }
                    continue;
                }
                let v = a * cis(nu * first);
                let (v1, square) = (v * across, across * across);
                let mut v = [v, v1, v * square, v1 * square];
                for four in block.chunks_exact_mut(4) {
                    for (o, v) in four.iter_mut().zip(&mut v) {
                        *o += *v;
                        *v *= along;
                    }
                }
            }
        }
        for (j, o) in out.iter_mut().enumerate() {
            *o = self.received(start + (j / 4) as u64 * step + (j % 4) as u64, *o);
        }
    }

    /// What the receiver makes of the signal v at t.
    fn received(&self, t: u64, mut v: C64) -> C64 {
        let time = t as f64;
        if self.wander != 0.0 {
            // A sum of slow oscillations, a few over the record.
            let x = time / self.n as f64;
            let phase = (TAU * 2.3 * x).sin() + 0.5 * (TAU * 5.1 * x + 1.0).sin();
            v *= C64::cis(self.wander * phase);
        }
        if self.sigma > 0.0 {
            let white = |t: u64| hashed_gaussian(self.seed, t);
            let z = match &self.colour[..] {
                [] => white(t),
                taps => (t..).zip(taps).map(|(t, &h)| white(t) * h).sum(),
            } * self.sigma;
            v += if self.real { C64::new(z.re * 2f64.sqrt(), 0.0) } else { z };
        }
        v += self.image * v.conj() + self.offset;
        if self.real {
            v.im = 0.0;
        }
        if self.step > 0.0 {
            v = C64::new((v.re / self.step).round(), (v.im / self.step).round()) * self.step;
        }
        v
    }

    /// All samples.
    pub fn samples(&self) -> Vec<C64> {
        let mut out = vec![C64::ZERO; self.n.next_multiple_of(4) as usize];
        self.fours(0, 4, &mut out);
        out.truncate(self.n as usize);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tones_keep_their_distance_and_levels() {
        let free = Free::random(1 << 16, 30, Some(20.0), 50.0, 3);
        for (i, a) in free.tones.iter().enumerate() {
            assert!((1.0 - 1e-12..=10.0 + 1e-12).contains(&a.a.norm()));
            for b in &free.tones[..i] {
                let d = a.nu - b.nu;
                assert!((d - d.round()).abs() * 65536.0 >= 50.0);
            }
        }
        assert!((free.sigma - 0.1).abs() < 1e-15);
    }

    #[test]
    fn fours_are_the_samples() {
        let mut free = Free::random(1 << 16, 5, Some(20.0), 50.0, 3);
        free.tones[1].drift = 1e-9;
        free.bands.push(FreeBand::new(1 << 16, 0.1, 0.101, 1.0, &mut Rng::new(1)));
        let mut out = vec![C64::ZERO; 400];
        free.fours(17, 613, &mut out);
        for (j, v) in out.iter().enumerate() {
            let t = 17 + 613 * (j as u64 / 4) + j as u64 % 4;
            assert!((v - free.at(t)).norm() < 1e-10, "{j}");
        }
    }

    #[test]
    fn the_receiver_does_what_it_says() {
        let mut free = Free::new(1000, &[(0.1, C64::new(1.0, 0.0))], 0.0, 0);
        free.offset = C64::new(0.25, -0.5);
        free.image = C64::new(0.01, 0.0);
        let mean: C64 = free.samples().iter().sum::<C64>() / 1000.0;
        assert!((mean - free.offset).norm() < 1e-12);
        let mirror: C64 = (0..1000).map(|t| free.at(t) * cis(0.1 * t as f64)).sum::<C64>() / 1000.0;
        assert!((mirror - 0.01).norm() < 1e-12);
        free.step = 0.125;
        assert!(free.samples().iter().all(|v| (v.re * 8.0).fract() == 0.0));
    }
}
