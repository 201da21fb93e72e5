//! Scenes: signals whose contents are known, one class for each way in which a certificate or a
//! complete answer could be wrong.
//!
//! A scene is z[t] = signals + noise of density 1 where it is white. The real form of a scene is
//! √2·Re z, which keeps the density of the noise and halves the power of each coefficient.

use sparsefft::Complex;
use std::f64::consts::TAU;
use testkit::Rng;

type C = Complex<f64>;

/// Something that is in a scene: a piece of the plane of frequency and time.
#[derive(Debug, Clone)]
pub struct Truth {
    /// Edges in cycles per sample.
    pub low: f64,
    pub high: f64,
    /// First and last sample.
    pub start: f64,
    pub end: f64,
    /// The coefficient of a steady tone at the frequency `low`.
    pub tone: Option<C>,
    /// Whether it is strong enough that a complete answer must name it.
    pub must: bool,
}

/// A signal and what is in it.
pub struct Scene {
    pub z: Vec<C>,
    pub truth: Vec<Truth>,
    /// Mean power of what is neither a steady tone nor steady white noise: a certificate is false if
    /// that is more than its limit for the rest.
    pub hidden: f64,
    /// Mean power of what a certificate says that it does not cover: single samples between those
    /// that are read, and many lines of which each is below the detection limit.
    pub unseen: f64,
    /// Whether the density of the noise rises towards zero.
    pub coloured: bool,
    /// Whether it exists in the real form only.
    pub real_only: bool,
}

/// A class of scenes.
pub struct Class {
    pub name: &'static str,
    make: fn(&mut Rng, usize) -> Scene,
}

impl Class {
    /// The scene of a trial.
    pub fn scene(&self, seed: u64) -> Scene {
        let name = self.name.bytes().fold(0, |h, b| testkit::rng::mix(h ^ u64::from(b)));
        let mut rng = Rng::new(testkit::rng::mix(seed ^ name));
        let n = rng.pick(&[1 << 12, 1 << 13, 1 << 14, 1 << 15, 10_000, 20_011]);
        (self.make)(&mut rng, n)
    }
}

/// All classes.
pub fn classes() -> Vec<Class> {
    let class = |name, make| Class { name, make };
    vec![
        class("white-noise", white),
        class("pink-noise", |rng, n| coloured(rng, n, 1.0)),
        class("brown-noise", |rng, n| coloured(rng, n, 2.0)),
        class("tones", |rng, n| tones(rng, white, n)),
        class("tones-in-pink-noise", |rng, n| tones(rng, |rng, n| coloured(rng, n, 1.0), n)),
        class("close-pairs", close_pairs),
        class("far-apart", far_apart),
        class("hum", hum),
        class("clipped-sine", clipped_sine),
        class("slow-sweep", |rng, n| sweep(rng, n, 0.005)),
        class("fast-sweep", |rng, n| sweep(rng, n, 0.3)),
        class("fm", fm),
        class("psk", psk),
        class("noise-band", noise_band),
        class("on-off-keying", on_off_keying),
        class("packets", packets),
        class("dc-step", dc_step),
        class("dropout", |rng, n| gap(rng, n, 0.0)),
        class("fade", |rng, n| gap(rng, n, 0.4)),
        class("impulses", impulses),
    ]
}

fn cis(turns: f64) -> C {
    Complex::cis(TAU * turns.fract())
}

fn db(value: f64) -> f64 {
    10f64.powf(value / 10.0)
}

fn white(rng: &mut Rng, n: usize) -> Scene {
    let z = (0..n).map(|_| rng.gaussian()).collect();
    Scene { z, truth: Vec::new(), hidden: 0.0, unseen: 0.0, coloured: false, real_only: false }
}

/// Noise with the density (20·|ν|)^-exponent, cut out of a longer record; flat below 1/n.
fn coloured(rng: &mut Rng, n: usize, exponent: f64) -> Scene {
    let m = (2 * n).next_power_of_two();
    let mut z: Vec<C> = (0..m)
        .map(|k| {
            let nu = k.min(m - k).max(2) as f64 / m as f64;
            rng.gaussian() * (20.0 * nu).powf(-0.5 * exponent)
        })
        .collect();
    testkit::oracle::inverse(&mut z);
    let scale = 1.0 / (m as f64).sqrt();
    let z = z.iter().take(n).map(|v| v * scale).collect();
    Scene { z, truth: Vec::new(), hidden: 1.0, unseen: 0.0, coloured: true, real_only: false }
}

impl Scene {
    fn n(&self) -> f64 {
        self.z.len() as f64
    }

    /// A steady tone.
    fn tone(&mut self, frequency: f64, a: C) {
        self.z.iter_mut().enumerate().for_each(|(t, z)| *z += a * cis(frequency * t as f64));
        self.add(frequency, frequency, 0.0, self.n(), Some(a), true);
    }

    fn add(&mut self, low: f64, high: f64, start: f64, end: f64, tone: Option<C>, must: bool) {
        self.truth.push(Truth { low, high, start, end, tone, must });
    }

    /// A signal during a part of the record; its envelope rises and falls over `edge` samples.
    fn during(&mut self, start: usize, length: usize, edge: usize, of: impl Fn(usize) -> C) {
        for t in start..(start + length).min(self.z.len()) {
            self.z[t] += of(t) * envelope(t - start, length, edge);
        }
    }
}

/// A raised cosine at both ends.
fn envelope(t: usize, length: usize, edge: usize) -> f64 {
    let near = t.min(length - 1 - t);
    if near >= edge { 1.0 } else { (0.25 * TAU * (near as f64 + 0.5) / edge as f64).sin().powi(2) }
}

/// The amplitude of a tone with this SNR in one bin of the whole record, in noise of density 1.
fn amplitude(rng: &mut Rng, n: usize, snr_db: f64) -> C {
    rng.phasor() * (db(snr_db) / n as f64).sqrt()
}

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.uniform()
}

/// Frequencies at least `apart` from each other and from 0 and 1/2.
fn places(rng: &mut Rng, count: usize, apart: f64) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::new();
    while out.len() < count {
        let nu = between(rng, 0.02, 0.48);
        if out.iter().all(|o| (o - nu).abs() > apart) {
            out.push(nu);
        }
    }
    out
}

fn tones(rng: &mut Rng, noise: impl Fn(&mut Rng, usize) -> Scene, n: usize) -> Scene {
    let mut scene = noise(rng, n);
    let count = rng.between(1, 8) as usize;
    for nu in places(rng, count, 40.0 / n as f64) {
        let snr = between(rng, 20.0, 60.0);
        let a = amplitude(rng, n, snr);
        scene.tone(nu, a);
    }
    scene
}

fn close_pairs(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    for nu in places(rng, 2, 100.0 / n as f64) {
        let apart = between(rng, 2.9, 8.0) / n as f64;
        for frequency in [nu, nu + apart] {
            let snr = between(rng, 30.0, 50.0);
            let a = amplitude(rng, n, snr);
            scene.tone(frequency, a);
        }
    }
    scene
}

fn far_apart(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    let [strong, weak] = places(rng, 2, 25.0 / n as f64)[..] else { unreachable!("two places") };
    let a = amplitude(rng, n, 125.0);
    scene.tone(strong, a);
    let a = amplitude(rng, n, 25.0);
    scene.tone(weak, a);
    scene
}

fn hum(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = coloured(rng, n, 1.0);
    let fundamental = between(rng, 0.011, 0.04);
    for h in 1..=10 {
        let a = amplitude(rng, n, 45.0 - 2.0 * h as f64);
        scene.tone(fundamental * h as f64, a);
    }
    scene
}

/// Real only: the harmonics of a clipped sine, folded at half the rate.
fn clipped_sine(rng: &mut Rng, n: usize) -> Scene {
    const HARMONICS: usize = 2000;
    let mut scene = white(rng, n);
    let nu = between(rng, 0.011, 0.1);
    let size = (db(between(rng, 50.0, 70.0)) / n as f64).sqrt();
    let clipped = |t: f64| (1.6 * (TAU * (nu * t).fract()).sin()).clamp(-1.0, 1.0);
    scene.z.iter_mut().enumerate().for_each(|(t, z)| *z += size * clipped(t as f64));
    // From the fifth harmonic on less than this is left.
    scene.unseen = 2e-3 * size * size;
    for h in (1..HARMONICS).step_by(2) {
        let folded = (nu * h as f64).fract();
        let folded = folded.min(1.0 - folded);
        let must = h <= 3;
        scene.add(folded, folded, 0.0, n as f64, None, must);
    }
    scene.real_only = true;
    scene
}

fn sweep(rng: &mut Rng, n: usize, width: f64) -> Scene {
    let mut scene = white(rng, n);
    let width = width * between(rng, 0.7, 1.3);
    let low = between(rng, 0.03, 0.45 - width);
    let size = db(between(rng, 0.0, 10.0)).sqrt();
    let turns = |t: f64| low * t + 0.5 * width * t * t / n as f64;
    scene.during(0, n, n / 50, |t| cis(turns(t as f64)) * size);
    // Where it begins and ends it is some bins wider.
    let ends = 150.0 / n as f64;
    scene.add(low - ends, low + width + ends, 0.0, n as f64, None, true);
    scene.hidden = size * size;
    scene
}

fn fm(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    let (carrier, deviation) = (between(rng, 0.1, 0.4), between(rng, 0.002, 0.02));
    let periods = between(rng, 3.0, 50.0);
    let size = db(between(rng, 0.0, 10.0)).sqrt();
    let index = deviation * n as f64 / periods;
    let phase = |t: f64| carrier * t + index / TAU * (TAU * periods * t / n as f64).sin();
    scene.during(0, n, n / 50, |t| cis(phase(t as f64)) * size);
    // Carson's rule, and as much again for what lies 40 dB below.
    let half = 2.0 * (deviation + periods / n as f64) + 0.001;
    scene.add(carrier - half, carrier + half, 0.0, n as f64, None, true);
    scene.hidden = size * size;
    scene
}

/// Quarter-phase symbols of `period` samples under overlapping raised cosines.
fn keyed(rng: &mut Rng, n: usize, period: usize, carrier: f64) -> Vec<C> {
    let symbols: Vec<C> =
        (0..n / period + 2).map(|_| cis(0.25 * rng.below(4) as f64 + 0.125)).collect();
    (0..n)
        .map(|t| {
            let (i, phase) = (t / period, (t % period) as f64 / period as f64);
            let share = (0.25 * TAU * phase).sin().powi(2);
            (symbols[i] * (1.0 - share) + symbols[i + 1] * share) * cis(carrier * t as f64)
        })
        .collect()
}

fn psk(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    let (carrier, period) = (between(rng, 0.1, 0.4), rng.pick(&[16, 32, 64]));
    let size = db(between(rng, 0.0, 10.0)).sqrt();
    let signal = keyed(rng, n, period, carrier);
    scene.during(0, n, n / 50, |t| signal[t] * size);
    let half = 4.0 / period as f64;
    scene.add(carrier - half, carrier + half, 0.0, n as f64, None, true);
    // Less the rise and fall between the symbols.
    scene.hidden = 0.5 * size * size;
    scene
}

/// Gaussian noise between two frequencies: many subcarriers look like this.
fn noise_band(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    let width = between(rng, 0.02, 0.15);
    let low = between(rng, 0.03, 0.45 - width);
    let density = db(between(rng, 7.0, 15.0)).sqrt();
    let mut z = vec![Complex::ZERO; n];
    for bin in &mut z[(low * n as f64) as usize..((low + width) * n as f64) as usize] {
        *bin = rng.gaussian() * density;
    }
    testkit::oracle::inverse(&mut z);
    let scale = 1.0 / (n as f64).sqrt();
    scene.during(0, n, n / 50, |t| z[t] * scale);
    // The deviations of a few hundred bins are all there is to tell it from the floor.
    let must = width * n as f64 >= 300.0;
    scene.add(low, low + width, 0.0, n as f64, None, must);
    scene.hidden = density * density * width;
    scene
}

fn on_off_keying(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    let carrier = between(rng, 0.05, 0.45);
    let size = db(between(rng, 3.0, 10.0)).sqrt();
    let period = n / rng.pick(&[10, 20, 30]) as usize;
    let mut on = 0.0;
    for start in (0..n).step_by(period) {
        if rng.below(2) == 0 {
            on += period as f64 / n as f64;
            scene.during(start, period, period / 4, |t| cis(carrier * t as f64) * size);
        }
    }
    // 40 dB below the carrier a raised cosine of a quarter of the period ends here.
    let half = 40.0 / period as f64;
    scene.add(carrier - half, carrier + half, 0.0, n as f64, None, false);
    // Its mean is a tone.
    scene.hidden = size * size * on * (1.0 - on);
    scene
}

fn packets(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    for i in 0..3 {
        let length = between(rng, 0.02, 0.08) * n as f64;
        let start = (i as f64 + between(rng, 0.1, 0.7)) / 3.0 * n as f64;
        let (carrier, period) = (between(rng, 0.15, 0.35), 32);
        let size = db(between(rng, 5.0, 12.0)).sqrt();
        let signal = keyed(rng, n, period, carrier);
        let length = length.min(n as f64 - start);
        scene.during(start as usize, length as usize, 64, |t| signal[t] * size);
        let half = 4.0 / period as f64;
        scene.add(carrier - half, carrier + half, start, start + length, None, true);
        scene.hidden += 0.5 * size * size * length / n as f64;
    }
    scene
}

fn dc_step(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    let size = db(between(rng, 0.0, 10.0)).sqrt();
    scene.during(0, n / 3, n / 50, |_| size.into());
    scene.add(-0.03, 0.03, 0.0, n as f64, None, false);
    scene.hidden = size * size * 2.0 / 9.0;
    scene
}

/// A tone that keeps a share of its amplitude during a tenth of the record.
fn gap(rng: &mut Rng, n: usize, left: f64) -> Scene {
    let mut scene = white(rng, n);
    let carrier = between(rng, 0.1, 0.4);
    let a = rng.phasor() * db(between(rng, 5.0, 15.0)).sqrt();
    let start = (between(rng, 0.1, 0.8) * n as f64) as usize;
    scene.during(0, n, 1, |t| a * cis(carrier * t as f64));
    scene.during(start, n / 10, n / 100, |t| -a * (1.0 - left) * cis(carrier * t as f64));
    let half = 400.0 / n as f64;
    scene.add(carrier - half, carrier + half, 0.0, n as f64, None, true);
    scene.hidden = a.norm_sqr() * (1.0 - left).powi(2) * 0.09;
    scene
}

/// One sample in a thousand is 30 dB above the noise.
fn impulses(rng: &mut Rng, n: usize) -> Scene {
    let mut scene = white(rng, n);
    for _ in 0..n / 1000 {
        let t = rng.below(n as u64) as usize;
        scene.z[t] += rng.phasor() * db(30.0).sqrt();
        scene.add(-0.5, 0.5, t as f64, t as f64, None, false);
        scene.unseen += db(30.0) / n as f64;
    }
    scene
}
