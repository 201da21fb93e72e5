//! Tones: the answer of [`Plan::tones`](crate::Plan::tones), frequencies between the bins.
//!
//! x\[t\] = Σ a_i e^{2πiν_i t} + noise. Amplitudes count from the first sample, t = 0.

use crate::certificate::Certificate;
use crate::problem::Algorithm;
use crate::samples::{Samples, check_range};
use crate::spectrum::{Peak, Report, Spectrum};
use crate::{Error, Stage};
use num_complex::Complex;
use std::ops::Range;
use std::time::Duration;

/// A change of frequency over the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Cycles per sample, per sample; times n² it is the drift over the record in bins.
    pub rate: f64,
    /// Its standard deviation.
    pub std: f64,
}

/// One sinusoid a·e^{2πiνt}.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Tone {
    /// ν in cycles per sample, -1/2 … 1/2; of a drifting tone at the first sample.
    pub frequency: f64,
    /// a, the amplitude and phase at the first sample.
    pub amplitude: Complex<f64>,
    /// Standard deviation of the frequency.
    pub frequency_std: f64,
    /// Standard deviation of |a|.
    pub amplitude_std: f64,
    /// Standard deviation of the phase at the first sample, in radians.
    pub phase_std: f64,
    /// n|a|²/σ², σ² the power of the noise in one sample: the ratio in one bin of the whole record, as
    /// [`Spectrum::snr_db`](crate::Spectrum::snr_db) has it; infinite where no noise was seen.
    pub snr: f64,
    /// The drift, where one was seen.
    pub drift: Option<Drift>,
}

impl Tone {
    /// Frequency in bins of n samples, 0 ≤ bin < n.
    pub fn bin(&self, n: u64) -> f64 {
        let bin = (self.frequency * n as f64).rem_euclid(n as f64);
        if bin < n as f64 { bin } else { 0.0 }
    }

    /// The nearest bin, 0 … n-1.
    pub fn index(&self, n: u64) -> u64 {
        (self.bin(n).round() as u64) % n.max(1)
    }

    /// Standard deviation of the frequency in bins.
    pub fn bin_std(&self, n: u64) -> f64 {
        self.frequency_std * n as f64
    }

    /// Frequency in Hz at this sample rate.
    pub fn hertz(&self, rate: f64) -> f64 {
        self.frequency * rate
    }

    /// |a|.
    pub fn magnitude(&self) -> f64 {
        self.amplitude.norm()
    }

    /// Phase at the first sample in radians.
    pub fn phase(&self) -> f64 {
        self.amplitude.arg()
    }

    /// Signal-to-noise ratio in one bin of the whole record in dB, where noise was seen.
    pub fn snr_db(&self) -> Option<f64> {
        self.snr.is_finite().then(|| 10.0 * self.snr.log10())
    }
}

/// A narrow-band signal that is no tone: modulated, or noise of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Band {
    /// Lower edge in cycles per sample.
    pub low: f64,
    /// Upper edge in cycles per sample; a band around ±1/2 has an edge beyond 1/2.
    pub high: f64,
    /// Mean power |x|² between the edges.
    pub power: f64,
}

impl Band {
    /// Middle in cycles per sample.
    pub fn centre(&self) -> f64 {
        0.5 * (self.low + self.high)
    }

    /// Width in cycles per sample.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// Two or more tones nearer than three bins, or one whose amplitude changes: not resolved.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// Middle in cycles per sample.
    pub centre: f64,
    /// Width in cycles per sample.
    pub width: f64,
    /// Mean power |x|².
    pub power: f64,
}

/// Which accuracy was bought, and what more would cost.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Accuracy {
    /// Largest standard deviation of a frequency, in bins; 0 if there is no tone.
    pub bins: f64,
    /// Samples that the final fit uses.
    pub samples: u64,
    /// The same if all n samples were read.
    pub finest: f64,
}

impl Accuracy {
    /// The accuracy of these tones.
    pub(crate) fn of(n: u64, tones: &[Tone], samples: u64) -> Self {
        let bins = tones.iter().map(|t| t.bin_std(n)).fold(0.0, f64::max);
        let share = (samples as f64 / n as f64).min(1.0);
        Accuracy { bins, samples, finest: bins * share.sqrt() }
    }

    /// Samples that the final fit would have to use for this standard deviation in bins; `None` if all of
    /// them do not suffice.
    pub fn samples_for(&self, bins: f64) -> Option<u64> {
        if self.bins <= bins {
            return Some(self.samples);
        }
        (bins >= self.finest).then(|| (self.samples as f64 * (self.bins / bins).powi(2)) as u64)
    }
}

/// How a search for tones went.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TonesReport {
    /// Samples read, counted with repetition.
    pub samples_read: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// Tones that were found but are not among the k strongest that were asked for.
    pub left_out: u64,
    /// Bins B of the comb.
    pub bins: usize,
    /// Offsets of its ladder.
    pub lines: usize,
    /// Shape β of its Kaiser window.
    pub beta: f64,
    /// Which accuracy was bought.
    pub accuracy: Accuracy,
    /// Time per stage, in the order of the pipeline; stages that did not run are missing.
    pub stages: Vec<(Stage, Duration)>,
    /// Wall-clock time of the whole search; zero where there is no clock.
    pub elapsed: Duration,
}

/// The tones of a signal, and what was seen that is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Tones {
    pub(crate) n: u64,
    pub(crate) tones: Vec<Tone>,
    pub(crate) bands: Vec<Band>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) certificate: Certificate,
    pub(crate) report: TonesReport,
}

impl Tones {
    /// Signal length.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The tones, sorted by frequency.
    pub fn tones(&self) -> &[Tone] {
        &self.tones
    }

    /// The k strongest tones, strongest first.
    pub fn top(&self, k: usize) -> Vec<Tone> {
        let mut tones = self.tones.clone();
        tones.sort_by(|a, b| b.amplitude.norm_sqr().total_cmp(&a.amplitude.norm_sqr()));
        tones.truncate(k);
        tones
    }

    /// Narrow-band signals that are no tones.
    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// Groups of tones too near to be told apart.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The evidence. Amplitudes stand where the grid has |X|/n.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// How the run went.
    pub fn report(&self) -> &TonesReport {
        &self.report
    }

    /// The tones as peaks at their nearest bins, with n·a in place of X: for what draws or lists
    /// spectra. It is not the DFT, in which a tone between the bins leaks over all of them.
    pub fn to_spectrum(&self) -> Spectrum {
        let scale = self.n as f64;
        let mut peaks: Vec<Peak> = self
            .tones
            .iter()
            .map(|t| Peak { index: t.index(self.n), value: t.amplitude * scale })
            .collect();
        peaks.sort_unstable_by_key(|p| p.index);
        Spectrum {
            n: self.n,
            peaks,
            certificate: self.certificate.clone(),
            report: Report {
                place: crate::Place::Cpu,
                algorithm: Algorithm::Auto,
                samples_read: self.report.samples_read,
                samples_compared: 0,
                seed: self.report.seed,
                left_out: self.report.left_out,
                stages: self.report.stages.clone(),
                elapsed: self.report.elapsed,
            },
        }
    }

    /// Back to the time domain: the samples of this range that the tones make.
    ///
    /// # Errors
    /// [`Error::RangeOutside`] if the range is not inside the signal, [`Error::OutOfMemory`] if
    /// it does not fit.
    pub fn synthesize(&self, range: Range<u64>) -> Result<Vec<Complex<f64>>, Error> {
        check_range(&range, self.n)?;
        let len = range.end - range.start;
        let mut out = crate::dense::zeroed(len, len)?;
        // Rotating by one phasor per sample drifts by one rounding each; a fresh phase every 256
        // samples keeps the error below 1e-13.
        const BLOCK: usize = 256;
        let cis = |turns: f64| Complex::cis(std::f64::consts::TAU * (turns - turns.round()));
        for tone in &self.tones {
            let rate = tone.drift.map_or(0.0, |d| d.rate);
            for (i, block) in out.chunks_mut(BLOCK).enumerate() {
                let t = (range.start + (i * BLOCK) as u64) as f64;
                let mut v = tone.amplitude * cis(tone.frequency * t + 0.5 * rate * t * t);
                let mut step = cis(tone.frequency + rate * (t + 0.5));
                let faster = cis(rate);
                for o in block {
                    *o += v;
                    v *= step;
                    if rate != 0.0 {
                        step *= faster;
                    }
                }
            }
        }
        Ok(out)
    }

    /// x - synthesize over a range: what the tones do not explain.
    ///
    /// # Errors
    /// As [`synthesize`](Tones::synthesize), [`Error::LengthMismatch`], and what the source meets.
    pub fn residual<S: Samples + ?Sized>(
        &self,
        signal: &S,
        range: Range<u64>,
    ) -> Result<Vec<Complex<f64>>, Error> {
        if signal.len() != self.n {
            return Err(Error::LengthMismatch { expected: self.n, got: signal.len() });
        }
        let model = self.synthesize(range.clone())?;
        let mut out = vec![Complex::ZERO; model.len()];
        signal.read_range(range.start, &mut out)?;
        for (o, m) in out.iter_mut().zip(model) {
            *o -= m;
        }
        Ok(out)
    }
}
