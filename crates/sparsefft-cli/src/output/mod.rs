//! What is printed or written: one file per form.

pub mod annotate;
pub mod atomic;
pub mod background;
mod braille;
mod csv;
mod json;
mod npz;
pub mod plot;
pub mod progress;
pub mod raster;
pub mod recorder;
pub mod report;
pub mod scene;
mod table;
pub mod waterfall;
pub mod zoom;

pub use csv::csv;
pub use json::{Peaks, Plan as PlanJson};
pub use npz::npz;
pub use table::{header, stages, table};

use crate::input::Recording;
use sparsefft::{Peak, Samples, Spectrum};
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
}

impl<'a> View<'a> {
    /// The answer for a recording.
    pub fn new(spectrum: &'a Spectrum, recording: &Recording) -> Self {
        View {
            spectrum,
            rate: recording.rate,
            center: recording.center,
            real: recording.is_real(),
            full_scale: recording.full_scale(),
        }
    }

    /// Frequency of a peak: in Hz if the rate is known, else in cycles per sample.
    pub fn frequency(&self, peak: &Peak) -> f64 {
        self.axis(peak.frequency(self.spectrum.n()))
    }

    /// A frequency in cycles per sample on the axis that is shown.
    pub fn axis(&self, cycles: f64) -> f64 {
        match self.rate {
            Some(rate) => self.center.unwrap_or(0.0) + cycles * rate,
            None => cycles,
        }
    }

    /// |X|/n in dB of full scale.
    pub fn level(&self, peak: &Peak) -> f64 {
        self.level_of(peak.magnitude() / self.spectrum.n() as f64)
    }

    /// An amplitude in dB of full scale.
    pub fn level_of(&self, amplitude: f64) -> f64 {
        crate::units::decibels(amplitude / self.full_scale)
    }

    /// Signal-to-noise ratio |a|²/σ² per sample in dB, where a noise floor was seen.
    pub fn snr(&self, peak: &Peak) -> Option<f64> {
        let sigma = self.spectrum.certificate().noise_floor;
        let amplitude = peak.magnitude() / self.spectrum.n() as f64;
        // A floor at rounding level is no noise.
        (sigma > 1e-9 * amplitude).then(|| crate::units::decibels(amplitude / sigma))
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
        let bin = self.rate.unwrap_or(1.0) / self.spectrum.n() as f64 / scale;
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
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A spectrum of stems in braille characters for the terminal.
pub fn picture(view: &View<'_>, style: Style) -> String {
    braille::spectrum(view, style)
}
