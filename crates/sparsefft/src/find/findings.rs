//! The answer to "what is in this signal?": lines, bands, bursts, sweeps, families, the floor
//! beneath them, a verdict with reasons, and what it has cost.
//!
//! Frequencies are in cycles per sample, -1/2 … 1/2; of real signals only 0 … 1/2 is listed, since
//! the negative half is its mirror image. Amplitudes are the coefficients a of a·e^{2πiνt}: a real
//! tone A cos(2πνt + φ) has |a| = A/2, and [`Line::level`] is A.

use crate::certificate::{Certificate, Verdict};
use crate::problem::Algorithm;
use crate::spectrum::{Peak, Place, Report, Spectrum};
use crate::tones::{Drift, Tones};
use crate::{Complex, Stage};
use std::fmt;
use std::time::Duration;

/// What a [`Line`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LineKind {
    /// A sinusoid, perhaps with a drift.
    Tone,
    /// A sinusoid whose amplitude decays or grows over the record.
    Damped,
    /// One peak wider than a sinusoid: a wandering tone or a resonance.
    Broad,
    /// Several tones that are not resolved.
    Cluster,
    /// The mean of a real signal: stated, not tested against a floor.
    Offset,
}

impl LineKind {
    /// The name used on every surface.
    pub fn name(self) -> &'static str {
        match self {
            LineKind::Tone => "tone",
            LineKind::Damped => "damped",
            LineKind::Broad => "broad",
            LineKind::Cluster => "cluster",
            LineKind::Offset => "offset",
        }
    }
}

/// Something at one frequency.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// What it is.
    pub kind: LineKind,
    /// Mean frequency over the record, in cycles per sample.
    pub frequency: f64,
    /// Its standard deviation; of what is broad, how far its power spreads.
    pub frequency_std: f64,
    /// The coefficient a at the first sample; of what is broad, that of its strongest bin.
    pub amplitude: Complex<f64>,
    /// Standard deviation of |a|.
    pub amplitude_std: f64,
    /// n|a|²/D in dB, D the density of the local floor: the ratio in one bin of the whole record.
    pub snr_db: Option<f64>,
    /// Change of the frequency, where one was seen.
    pub drift: Option<Drift>,
    /// Width at half power in cycles per sample, where it is wider than the record resolves.
    pub width: Option<f64>,
    /// Decay of the amplitude per sample, where it was seen: |a(t)| ∝ e^{-damping·t}.
    pub damping: Option<f64>,
    /// Whether the samples are real, so that there is a mirror image at the negative frequency.
    pub mirrored: bool,
}

impl Line {
    /// |a|.
    pub fn magnitude(&self) -> f64 {
        self.amplitude.norm()
    }

    /// Peak value of the sinusoid in the samples: 2|a| of a real tone, |a| otherwise.
    pub fn level(&self) -> f64 {
        if self.mirrored { 2.0 * self.magnitude() } else { self.magnitude() }
    }

    /// Phase at the first sample in radians.
    pub fn phase(&self) -> f64 {
        self.amplitude.arg()
    }

    /// Frequency in bins of n samples, 0 ≤ bin < n.
    pub fn bin(&self, n: u64) -> f64 {
        let n = n as f64;
        let bin = self.frequency * n;
        // Nearly always one turn suffices; the remainder is much slower.
        let bin = if bin < 0.0 { bin + n } else { bin };
        let bin = if (0.0..n).contains(&bin) { bin } else { bin.rem_euclid(n) };
        if bin < n { bin } else { 0.0 }
    }

    /// The nearest bin, 0 … n-1.
    pub fn index(&self, n: u64) -> u64 {
        (self.bin(n).round() as u64) % n.max(1)
    }

    /// Frequency in Hz at this sample rate.
    pub fn hertz(&self, rate: f64) -> f64 {
        self.frequency * rate
    }
}

/// A part of the spectrum that stands above its surroundings.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FoundBand {
    /// Edges in cycles per sample; a band around ±1/2 has an edge beyond 1/2.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    /// Where it is strongest.
    pub peak: f64,
    /// Mean power |x|² between the edges, mirror image included.
    pub power: f64,
    /// How far it stands above its surroundings, in dB.
    pub above_db: f64,
    /// Share of the time during which something happens in it, where blocks could tell.
    pub busy: Option<f64>,
}

/// Something that is there only part of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Burst {
    /// First sample.
    pub start: u64,
    /// Samples.
    pub length: u64,
    /// Edges in cycles per sample, to one channel of the blocks that saw it.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    /// Mean power |x|² while it lasts, mirror image included.
    pub power: f64,
    /// Its strongest tile of time and frequency over the floor, in dB.
    pub above_db: f64,
}

/// A line whose frequency moves across the band.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Sweep {
    /// First sample.
    pub start: u64,
    /// Samples.
    pub length: u64,
    /// Frequency at its first sample, in cycles per sample.
    pub from: f64,
    /// Frequency at its last sample.
    pub to: f64,
    /// Change of the frequency per sample.
    pub rate: f64,
    /// Mean power |x|² while it lasts, mirror image included.
    pub power: f64,
    /// Its strongest tile over the floor, in dB.
    pub above_db: f64,
}

/// Lines with a common spacing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Family {
    /// The spacing in cycles per sample; of harmonics the fundamental.
    pub spacing: f64,
    /// The frequency that sidebands lie around; `None` for harmonics.
    pub carrier: Option<f64>,
    /// Which multiples of the spacing are there.
    pub orders: Vec<i64>,
    /// Places of the members in [`Findings::lines`].
    pub members: Vec<usize>,
}

/// The local floor, at the middles of its cells.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Floor {
    /// Frequencies in cycles per sample.
    pub frequency: Vec<f64>,
    /// Density: white noise of power σ² per sample has this density everywhere.
    pub density: Vec<f64>,
    /// Its standard deviation in dB.
    pub std_db: Vec<f64>,
    /// SNR in dB from which on a line there could not have been overlooked.
    pub threshold_db: Vec<f64>,
}

impl Floor {
    /// The density at a frequency in cycles per sample, between the cells; 0 without any.
    pub fn at(&self, frequency: f64) -> f64 {
        let i = self.frequency.partition_point(|f| *f <= frequency);
        match (i.checked_sub(1), i < self.density.len()) {
            (None, false) => 0.0,
            (None, true) => self.density[0],
            (Some(a), false) => self.density[a],
            (Some(a), true) => {
                let share =
                    (frequency - self.frequency[a]) / (self.frequency[i] - self.frequency[a]);
                self.density[a] * (self.density[i] / self.density[a]).powf(share)
            }
        }
    }
}

/// Whether the findings account for the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// A part of the samples was read, and what the lines leave of them is steady white noise.
    Certified,
    /// All samples were read: every line above the local floor by [`Findings::threshold_db`] is
    /// named, alone or in a band or burst.
    Complete,
    /// Not everything could be examined; [`Findings::reasons`] say why.
    Partial,
}

impl Outcome {
    /// The name used on every surface.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Certified => "certified",
            Outcome::Complete => "complete",
            Outcome::Partial => "partial",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that a reader of the findings should know, for machines and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// A code that does not change between versions.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

impl Reason {
    pub(super) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Reason { code, text: text.into() }
    }
}

/// One attempt, whether its answer was taken or not.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// `grid`, `tones` or `survey`.
    pub kind: &'static str,
    /// What came of it, in one word.
    pub outcome: &'static str,
    /// Samples read, counted with repetition.
    pub samples_read: u64,
    /// Wall-clock time; zero where there is no clock.
    pub elapsed: Duration,
    /// The same by stage; a survey is one stage, `dense`.
    pub stages: Vec<(Stage, Duration)>,
}

/// What all attempts have cost together.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Cost {
    /// The attempts in their order.
    pub attempts: Vec<Attempt>,
    /// Largest memory of the survey in bytes; 0 if there was none.
    pub memory: u64,
}

impl Cost {
    /// Samples read by all attempts, counted with repetition.
    pub fn samples_read(&self) -> u64 {
        self.attempts.iter().map(|a| a.samples_read).sum()
    }

    /// Wall-clock time of all attempts.
    pub fn elapsed(&self) -> Duration {
        self.attempts.iter().map(|a| a.elapsed).sum()
    }
}

/// What is in a signal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Findings {
    /// Samples of the signal.
    pub n: u64,
    /// Whether they are real.
    pub real: bool,
    /// Lines, strongest first.
    pub lines: Vec<Line>,
    /// Bands, those that stand out most first.
    pub bands: Vec<FoundBand>,
    /// Bursts in order of time.
    pub bursts: Vec<Burst>,
    /// Sweeps in order of time.
    pub sweeps: Vec<Sweep>,
    /// Families, the surest first.
    pub families: Vec<Family>,
    /// The local floor.
    pub floor: Floor,
    /// Whether this accounts for the signal.
    pub outcome: Outcome,
    /// What a reader should know: why the outcome is partial, and what else was seen.
    pub reasons: Vec<Reason>,
    /// SNR in dB from which on a line could not have been overlooked, in nine tenths of the band
    /// ([`Floor::threshold_db`] has all of it): at this level noise hides it with a probability of
    /// 10⁻³, except within bands and near stronger lines.
    pub threshold_db: f64,
    /// Probability that noise alone makes a finding.
    pub failure_probability: f64,
    /// Lines that were found but are not among those asked for.
    pub left_out: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// What all attempts have cost.
    pub cost: Cost,
    /// The sparse search that settled it, or came nearest without a survey.
    pub(super) sparse: Option<Sparse>,
}

/// The answer of a sparse search.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sparse {
    Grid(Box<Spectrum>),
    Tones(Box<Tones>),
}

impl Findings {
    /// Whether a sparse search passed every test.
    pub fn is_certified(&self) -> bool {
        self.outcome == Outcome::Certified
    }

    /// Whether all samples were examined.
    pub fn is_complete(&self) -> bool {
        self.outcome == Outcome::Complete
    }

    /// The transform on the grid, if that is the answer.
    pub fn grid(&self) -> Option<&Spectrum> {
        match &self.sparse {
            Some(Sparse::Grid(spectrum)) => Some(spectrum),
            _ => None,
        }
    }

    /// The search between the bins, if that is the answer.
    pub fn tones(&self) -> Option<&Tones> {
        match &self.sparse {
            Some(Sparse::Tones(tones)) => Some(tones),
            _ => None,
        }
    }

    /// The lines as peaks at their nearest bins, n·a in place of X, mirror images included: for
    /// what draws or lists spectra. The verdict `dense` stands for
    /// [`Complete`](Outcome::Complete).
    pub fn to_spectrum(&self) -> Spectrum {
        match &self.sparse {
            Some(Sparse::Grid(spectrum)) => return (**spectrum).clone(),
            Some(Sparse::Tones(tones)) => return tones.to_spectrum(),
            None => {}
        }
        let n = self.n as f64;
        let mut peaks: Vec<Peak> = Vec::new();
        for line in &self.lines {
            let peak = Peak { index: line.index(self.n), value: line.amplitude * n };
            peaks.push(peak);
            if line.mirrored {
                let index = (self.n - peak.index) % self.n;
                peaks.push(Peak { index, value: peak.value.conj() });
            }
        }
        // Of several lines at one bin the strongest stays.
        peaks.sort_by(|a, b| {
            let stronger = b.value.norm_sqr().total_cmp(&a.value.norm_sqr());
            a.index.cmp(&b.index).then(stronger)
        });
        peaks.dedup_by_key(|p| p.index);
        let complete = self.outcome == Outcome::Complete;
        let words: Vec<&str> = self.reasons.iter().map(|r| r.text.as_str()).collect();
        let reason = (!words.is_empty()).then(|| words.join("; "));
        let certificate = Certificate {
            reason: reason.or((!complete).then(|| "not everything was examined".to_string())),
            bins_tested: self.n,
            failure_probability: self.failure_probability,
            ..Certificate::new(if complete { Verdict::Dense } else { Verdict::Uncertified })
        };
        let elapsed = self.cost.elapsed();
        let report = Report {
            place: Place::Cpu,
            algorithm: Algorithm::Dense,
            samples_read: self.cost.samples_read(),
            samples_compared: 0,
            seed: self.seed,
            left_out: self.left_out,
            stages: vec![(Stage::Dense, elapsed)],
            elapsed,
        };
        Spectrum { n: self.n, peaks, certificate, report }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
            && self.bands.is_empty()
            && self.bursts.is_empty()
            && self.sweeps.is_empty()
    }
}
