//! What is printed or written: one file per form.

pub mod annotate;
pub mod atomic;
pub mod background;
mod braille;
mod cost;
mod csv;
pub mod findings;
mod json;
pub mod levels;
mod npz;
pub(crate) mod partial;
pub mod plot;
pub mod progress;
pub mod raster;
pub mod recorder;
pub mod report;
pub mod scene;
mod table;
pub mod tracks;
pub mod waterfall;
pub mod zoom;

pub use cost::Cost;
pub use csv::csv;
pub use json::{Events, Peaks, Plan as PlanJson};
pub use npz::npz;
pub use table::{header, others, seed, stages, table};

use crate::input::{Doubt, Recording};
use sparsefft::find::{Findings, Line};
use sparsefft::{Peak, Samples, Spectrum, Tone, Tones};
use std::io::{IsTerminal, Write};

/// A spectrum and what the recording tells about its axes.
pub struct View<'a> {
    /// The answer.
    pub spectrum: &'a Spectrum,
    /// Sample rate in Hz.
    pub rate: Option<f64>,
    /// Frequency in Hz that bin 0 stands for.
    pub center: Option<f64>,
    /// Whether the samples are real, so that the spectrum is its own mirror image.
    pub real: bool,
    /// |x| that counts as 0 dB.
    pub full_scale: f64,
    /// The tones whose nearest bins the spectrum lists, if the answer is not on the grid.
    pub tones: Option<&'a Tones>,
    /// Everything that was found, if that was asked for.
    pub findings: Option<&'a Findings>,
    /// What all attempts at this answer have cost.
    pub cost: Cost,
    /// Whether the samples look like another type.
    pub doubts: Vec<Doubt>,
}

impl<'a> View<'a> {
    /// The answer of one transform for a recording.
    pub fn new(spectrum: &'a Spectrum, recording: &Recording) -> Self {
        let bytes_read = recording.fetched().map(|(fetched, _)| fetched);
        View {
            cost: Cost::of(spectrum).fetched(bytes_read),
            spectrum,
            rate: recording.rate,
            center: recording.center,
            real: recording.is_real(),
            full_scale: recording.full_scale(),
            tones: None,
            findings: None,
            doubts: Vec::new(),
        }
    }

    /// The findings, if they are those of a survey: what sparse searches find is listed as such.
    pub fn survey(&self) -> Option<&'a Findings> {
        self.findings.filter(|f| f.grid().is_none() && f.tones().is_none())
    }

    /// The line of a survey that a peak stands for.
    fn line(&self, peak: &Peak) -> Option<&'a Line> {
        let findings = self.survey()?;
        let n = findings.n;
        let at = |index: u64| {
            let here = findings.lines.iter().filter(|l| l.index(n) == index);
            here.max_by(|a, b| a.magnitude().total_cmp(&b.magnitude()))
        };
        at(peak.index)
    }

    /// The line that a peak at a negative frequency of a real signal mirrors.
    fn mirrored(&self, peak: &Peak) -> Option<&'a Line> {
        let index = (self.spectrum.n() - peak.index) % self.spectrum.n();
        self.line(&Peak { index, value: peak.value }).filter(|l| l.mirrored)
    }

    /// Frequency of a peak: in Hz if the rate is known, else in cycles per sample.
    pub fn frequency(&self, peak: &Peak) -> f64 {
        self.axis(self.cycles(peak))
    }

    /// Frequency of a peak in cycles per sample.
    pub fn cycles(&self, peak: &Peak) -> f64 {
        if let Some(tone) = self.tone(peak) {
            return tone.frequency;
        }
        let mirrored = || self.mirrored(peak).map(|l| -l.frequency);
        let line = self.line(peak).map(|l| l.frequency).or_else(mirrored);
        line.unwrap_or_else(|| peak.frequency(self.spectrum.n()))
    }

    /// The tone that a peak stands for.
    pub fn tone(&self, peak: &Peak) -> Option<&Tone> {
        let n = self.spectrum.n();
        let tones = self.tones?.tones();
        // Sorted by frequency: those below zero come first and have the higher indices.
        let middle = tones.partition_point(|t| t.frequency < 0.0);
        let (below, above) = tones.split_at(middle);
        let find = |part: &'_ [Tone]| part.binary_search_by_key(&peak.index, |t| t.index(n)).ok();
        if let Some(i) = find(above) {
            return Some(&above[i]);
        }
        // A tone just below zero may be nearest to bin 0.
        find(below).map(|i| &below[i]).or_else(|| tones.iter().find(|t| t.index(n) == peak.index))
    }

    /// Position in bins and its standard deviation.
    pub fn bin(&self, peak: &Peak) -> (f64, f64) {
        let n = self.spectrum.n();
        if let Some(tone) = self.tone(peak) {
            return (tone.bin(n), tone.bin_std(n));
        }
        let scale = n as f64;
        let own = self.line(peak).map(|l| (l.bin(n), l.frequency_std * scale));
        let other = || self.mirrored(peak).map(|l| (scale - l.bin(n), l.frequency_std * scale));
        own.or_else(other).unwrap_or((peak.index as f64, 0.0))
    }

    /// Where the peaks lie, in one word.
    pub fn mode(&self) -> &'static str {
        match (self.survey(), self.tones) {
            (Some(_), _) => "survey",
            (_, Some(_)) => "tones",
            _ => "grid",
        }
    }

    /// What produced the answer.
    pub fn algorithm(&self) -> &'static str {
        match self.mode() {
            "grid" => self.spectrum.report().algorithm.name(),
            mode => mode,
        }
    }

    /// A frequency in cycles per sample on the axis that is shown.
    pub fn axis(&self, cycles: f64) -> f64 {
        match self.rate {
            Some(rate) => self.center.unwrap_or(0.0) + cycles * rate,
            None => cycles,
        }
    }

    /// The same in Hz, if the rate is known.
    pub fn hertz(&self, cycles: f64) -> Option<f64> {
        self.rate.map(|_| self.axis(cycles))
    }

    /// A number of samples in seconds, if the rate is known.
    pub fn seconds(&self, samples: u64) -> Option<f64> {
        self.rate.map(|rate| samples as f64 / rate)
    }

    /// |X|/n in dB of full scale.
    pub fn level(&self, peak: &Peak) -> f64 {
        self.level_of(peak.magnitude() / self.spectrum.n() as f64)
    }

    /// Level of the sinusoid in the samples, in dB of full scale: of a real one twice |X|/n, since
    /// its mirror image holds the other half.
    pub fn tone_level(&self, peak: &Peak) -> f64 {
        let alone = [0.0, 0.5].contains(&self.cycles(peak).abs());
        let halves = if self.real && !alone { 2.0 } else { 1.0 };
        self.level_of(halves * peak.magnitude() / self.spectrum.n() as f64)
    }

    /// An amplitude in dB of full scale.
    pub fn level_of(&self, amplitude: f64) -> f64 {
        crate::units::decibels(amplitude / self.full_scale)
    }

    /// Signal-to-noise ratio in one bin of the whole record in dB, where noise was measured.
    pub fn snr(&self, peak: &Peak) -> Option<f64> {
        if let Some(line) = self.line(peak).or_else(|| self.mirrored(peak)) {
            return line.snr_db;
        }
        self.tone(peak).map_or_else(|| self.spectrum.snr_db(peak), Tone::snr_db)
    }

    /// The peaks a reader wants to see, strongest first: of a real signal those at frequencies
    /// that are not negative.
    pub fn strongest(&self) -> Vec<Peak> {
        let n = self.spectrum.n();
        let mut peaks = self.spectrum.top(self.spectrum.peaks().len());
        if self.real {
            peaks.retain(|p| p.index <= n / 2);
        }
        peaks
    }

    /// Digits after the point that tell neighbouring bins apart at this scale.
    pub fn digits(&self, scale: f64) -> usize {
        let mut bin = self.rate.unwrap_or(1.0) / self.spectrum.n() as f64 / scale;
        if let Some(tones) = self.tones {
            bin *= tones.report().accuracy.bins.clamp(1e-6, 1.0);
        }
        (-bin.log10()).ceil().clamp(0.0, 12.0) as usize
    }
}

/// Escape sequences, or nothing where colours are not wanted.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether to colour.
    pub colour: bool,
    /// Width of the terminal in columns.
    pub width: usize,
}

impl Style {
    /// The style for stdout: coloured on a terminal unless `NO_COLOR` is set.
    pub fn stdout() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        let colour = std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb;
        let asked = std::env::var("COLUMNS").ok().and_then(|v| v.parse().ok());
        let seen = || {
            terminal_size::terminal_size_of(std::io::stdout())
                .map(|(width, _)| usize::from(width.0))
        };
        let width = asked.or_else(seen).unwrap_or(80);
        Style { colour, width: usize::clamp(width, 40, 200) }
    }

    /// Text in bold.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Text in the colour of the data.
    pub fn accent(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// Text in green or, for bad news, red.
    pub fn verdict(self, good: bool, text: &str) -> String {
        self.wrap(if good { "32" } else { "31" }, text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Writes text to stdout.
///
/// # Errors
/// A closed pipe or a full disk.
pub fn print(text: &str) -> anyhow::Result<()> {
    use anyhow::Context;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("standard output cannot be written")
}

/// A spectrum of stems in braille characters for the terminal.
pub fn picture(view: &View<'_>, style: Style) -> String {
    braille::spectrum(view, style)
}
