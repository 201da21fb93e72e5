//! Levels of a recording: RMS, peak, mean, clipping, and a histogram.

use super::Style;
use crate::input::Recording;
use num_complex::Complex;
use sparsefft::{Error, Samples};

/// Pieces of a long recording, and samples in each.
const PIECES: u64 = 64;
const PIECE: u64 = 4096;
/// Cells of the histogram.
const CELLS: usize = 16;
/// Share of floats at one and the same largest size from which they count as clipped; of noise one
/// sample is the largest.
const CLIPPED: f64 = 1e-3;

/// What the numbers of a recording are like. Of complex samples both parts count.
pub struct Levels {
    /// Samples that were looked at.
    pub samples: u64,
    /// Root of the mean |x|².
    pub rms: f64,
    /// Largest |re| or |im|.
    pub peak: f64,
    /// Mean.
    pub mean: Complex<f64>,
    /// Share of the samples at the ends of the range.
    pub clipped: f64,
    /// Share of the samples that are exactly zero.
    pub zeros: f64,
    /// Samples that are NaN or infinite.
    pub not_finite: u64,
    /// Range of the histogram.
    pub from: f64,
    /// Its upper end.
    pub to: f64,
    /// Numbers in cells of equal width.
    pub counts: Vec<u64>,
}

impl Levels {
    /// Looks at pieces that are evenly spread.
    ///
    /// # Errors
    /// What the source meets.
    pub fn measure(recording: &Recording) -> Result<Self, Error> {
        let values = pieces(recording)?;
        let (good, bad): (Vec<_>, Vec<_>) =
            values.iter().partition(|v| v.re.is_finite() && v.im.is_finite());
        let all = good.len().max(1) as f64;
        let complex = recording.layout().complex;
        let parts = |v: &Complex<f64>| [Some(v.re), complex.then_some(v.im)].into_iter().flatten();
        let numbers = || good.iter().flat_map(parts);
        let peak = numbers().fold(0.0, |m: f64, v| m.max(v.abs()));
        let (low, high) = recording.layout().range().unwrap_or((-peak, peak));
        let at_end = |v: &&Complex<f64>| parts(v).any(|p| p <= low || p >= high);
        let share = |count: usize| count as f64 / all;
        let clipped = share(good.iter().filter(at_end).count());
        let float = recording.layout().number.is_float();
        // Floats have no ends; clipped ones share their largest value.
        let real_clip = peak > 0.0 && (!float || clipped >= CLIPPED);
        let reach = peak.max(f64::MIN_POSITIVE);
        // Cells hold as many codes each.
        let (from, to) = if float { (-reach, reach) } else { (low, high + 1.0) };
        let mut counts = vec![0; CELLS];
        for v in numbers() {
            let cell = ((v - from) / (to - from) * CELLS as f64) as usize;
            counts[cell.min(CELLS - 1)] += 1;
        }
        Ok(Levels {
            samples: values.len() as u64,
            rms: (good.iter().map(|v| v.norm_sqr()).sum::<f64>() / all).sqrt(),
            peak,
            mean: good.iter().copied().sum::<Complex<f64>>() / all,
            clipped: if real_clip { clipped } else { 0.0 },
            zeros: share(good.iter().filter(|v| **v == Complex::ZERO).count()),
            not_finite: bad.len() as u64,
            from,
            to,
            counts,
        })
    }
}

/// The first and the last samples and pieces between them, or all of a short recording.
fn pieces(recording: &Recording) -> Result<Vec<Complex<f64>>, Error> {
    let n = recording.len();
    if n <= PIECES * PIECE {
        let mut all = vec![Complex::ZERO; n as usize];
        recording.read_range(0, &mut all)?;
        return Ok(all);
    }
    let mut all = vec![Complex::ZERO; (PIECES * PIECE) as usize];
    for (i, piece) in all.chunks_mut(PIECE as usize).enumerate() {
        let start = (n - PIECE) as u128 * i as u128 / (PIECES - 1) as u128;
        recording.read_range(start as u64, piece)?;
    }
    Ok(all)
}

/// The histogram as rows of text.
pub fn histogram(levels: &Levels, recording: &Recording, style: Style) -> String {
    /// Columns beside the bars.
    const BESIDE: usize = 32;
    let most = levels.counts.iter().copied().max().unwrap_or(0).max(1);
    let all = levels.counts.iter().sum::<u64>().max(1);
    let width = style.width.saturating_sub(BESIDE).clamp(8, 60);
    let digits = if recording.layout().number.is_float() { 4 } else { 0 };
    let mut text = "\nlevels\n".to_owned();
    for (i, count) in levels.counts.iter().enumerate() {
        let edge = levels.from + (levels.to - levels.from) * i as f64 / CELLS as f64;
        // What is there has a bar, however few.
        let bar = (count * width as u64).div_ceil(most) as usize;
        let share = 100.0 * *count as f64 / all as f64;
        let bar = style.accent(&"#".repeat(bar));
        let edge = edge + 0.0;
        text += format!("  {edge:>14.digits$} … {share:>6.2} % {bar}").trim_end();
        text.push('\n');
    }
    text
}
