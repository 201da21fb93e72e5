//! Bands: maxima of the density over frequency that stand above their surroundings.
//!
//! No model of the background is needed. A maximum of the cell densities counts by its persistence,
//! the descent that parts it from a higher one: a coloured slope has none, and a disturbance of
//! x dB changes it by at most 2x. Several smoothings are tried; a finer one wins over a coarser one.

use super::floor::Floor;
use super::spectrum::Spectrum;

/// Persistence of a band in dB: this, and so many standard deviations.
const LEAST_DB: f64 = 3.0;
const SIGMAS: f64 = 5.0;
/// Edges lie at half the persistence, and at most this far below the maximum.
const EDGE_DB: f64 = 10.0;
/// Cells over which the density is smoothed.
const SMOOTHINGS: [usize; 5] = [1, 3, 7, 15, 31];
/// Standard deviation of the quantile of one bin, in dB.
const SCATTER_DB: f64 = 4.343 * 1.6;

/// A band in bins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Band {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) peak: f64,
    /// How far it stands above its surroundings, in dB.
    pub(super) persistence: f64,
}

/// The bands of a spectrum; `draws` are the independent bins of each cell, fewer where the power
/// is there only part of the time.
pub(super) fn find(spectrum: &Spectrum, floor: &Floor, draws: &[f64]) -> Vec<Band> {
    let count = floor.cells.len();
    let level: Vec<f64> = floor.cells.iter().map(|c| 4.343 * c.ln_density).collect();
    let scatter: Vec<f64> = draws.iter().map(|n| SCATTER_DB / n.max(1.0).sqrt()).collect();
    // A complex spectrum is a circle: it is cut where it is lowest.
    let lowest = (0..count).min_by(|a, b| level[*a].total_cmp(&level[*b])).unwrap_or(0);
    let turn = if spectrum.real { 0 } else { lowest };
    let rotated = |v: &[f64]| -> Vec<f64> { (0..count).map(|i| v[(i + turn) % count]).collect() };
    let (level, scatter) = (rotated(&level), rotated(&scatter));

    let mut spans: Vec<Span> = Vec::new();
    for width in SMOOTHINGS {
        if count < 3 * width {
            break;
        }
        let y = mean_over(&level, width);
        let squares: Vec<f64> = scatter.iter().map(|s| s * s).collect();
        let sigma: Vec<f64> = mean_over(&squares, width)
            .iter()
            .map(|s| (2.0 * s / width.max(2) as f64).sqrt())
            .collect();
        for span in maxima(&y, &sigma) {
            let overlaps = |o: &Span| {
                let both = (span.high.min(o.high) + 1).saturating_sub(span.low.max(o.low));
                let shorter = (span.high - span.low + 1).min(o.high - o.low + 1);
                2 * both > shorter
            };
            if !spans.iter().any(overlaps) {
                spans.push(span);
            }
        }
    }
    let mut out: Vec<Band> = spans
        .iter()
        .map(|span| {
            let cell = |i: usize| floor.cells[(i + turn) % count];
            let limit = (span.level / 4.343).exp();
            let (a, b) = (cell(span.low), cell(span.high));
            Band {
                low: edge(&spectrum.power, a.low, a.high, limit, false),
                high: edge(&spectrum.power, b.low, b.high, limit, true),
                peak: cell(span.top).middle(),
                persistence: span.persistence,
            }
        })
        .collect();
    out.sort_by(|a, b| b.persistence.total_cmp(&a.persistence));
    out
}

/// A maximum and how far it reaches, in cells.
struct Span {
    low: usize,
    high: usize,
    top: usize,
    persistence: f64,
    /// Level of its edges in dB.
    level: f64,
}

/// The maxima of levels in dB that stand out.
fn maxima(y: &[f64], sigma: &[f64]) -> Vec<Span> {
    let count = y.len();
    let mut out = Vec::new();
    for i in 1..count.saturating_sub(1) {
        if !(y[i - 1] < y[i] && y[i + 1] <= y[i]) {
            continue;
        }
        // The lowest place on the way to a higher maximum, or to the end, on either side.
        let lowest = |steps: &mut dyn Iterator<Item = usize>| {
            let mut at = i;
            for j in steps {
                if y[j] > y[i] {
                    break;
                }
                if y[j] < y[at] {
                    at = j;
                }
            }
            at
        };
        let (left, right) = (lowest(&mut (0..i).rev()), lowest(&mut (i + 1..count)));
        let saddle = if y[left] > y[right] { left } else { right };
        let persistence = y[i] - y[saddle];
        if persistence < LEAST_DB + SIGMAS * sigma[i].hypot(sigma[saddle]) {
            continue;
        }
        let level = y[i] - (0.5 * persistence).min(EDGE_DB);
        let low = (0..i).rev().take_while(|j| y[*j] > level).last().unwrap_or(i);
        let high = (i + 1..count).take_while(|j| y[*j] > level).last().unwrap_or(i);
        out.push(Span { low, high, top: i, persistence, level });
    }
    out
}

/// The edge of a band near a cell, where a finer smoothing crosses the limit: the first such place,
/// or the last.
fn edge(power: &[f64], low: usize, high: usize, limit: f64, last: bool) -> f64 {
    let width = high - low;
    let fine = (width / 8).max(4);
    let from = low.saturating_sub(width / 2);
    let to = (high + width / 2).min(power.len());
    let smooth = mean_over(&power[from..to], fine);
    let mut crossed = (0..smooth.len()).filter(|i| smooth[*i] > limit);
    let found = if last { crossed.next_back() } else { crossed.next() };
    found.map_or(if last { high } else { low } as f64, |i| (from + i) as f64)
}

/// Means over so many neighbours; the ends are continued.
fn mean_over(values: &[f64], width: usize) -> Vec<f64> {
    let (count, before) = (values.len() as isize, (width / 2) as isize);
    let at = |i: isize| values[i.clamp(0, count - 1) as usize];
    let mut sum: f64 = (0..width as isize).map(|j| at(j - before)).sum();
    (0..count)
        .map(|i| {
            let mean = sum / width as f64;
            sum += at(i + width as isize - before) - at(i - before);
            mean
        })
        .collect()
}
