//! Peaks over time: short blocks spread over the recording, their peaks linked to tracks.
//!
//! Block b of m begins at sample (n - W)·b/(m - 1): the first at the start of the recording, the
//! last ends with it, and neighbours may share samples. Each block is weighted by a Hann window and
//! transformed; local maxima above the noise become dots, their frequencies refined by a parabola
//! through the logarithms of three neighbours, and [`tracks`](super::tracks) link them.

use super::background::hann;
use super::plot::{Frame, Palette, Theme};
use super::progress::Bar;
use super::scene::{Anchor, Colour, Scene, Shape};
use super::tracks::{Grid, Track, tracks};
use crate::input::Recording;
use crate::units::si;
use num_complex::Complex;
use sparsefft::{Algorithm, Error, Plan, Problem, Samples};

/// A peak of one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Block number.
    pub block: usize,
    /// Frequency in cycles per sample, -1/2 … 1/2.
    pub cycles: f64,
    /// Amplitude |a|.
    pub amplitude: f64,
    /// Width at half the amplitude, in bins.
    pub width: f64,
}

/// The peaks of `blocks` blocks of `width` samples, evenly spread; `done` is called after each.
///
/// # Errors
/// What the source meets.
fn dots(
    signal: &dyn Samples,
    blocks: usize,
    width: u64,
    mut done: impl FnMut(),
) -> Result<Vec<Vec<Dot>>, Error> {
    let n = signal.len();
    let plan = Plan::new(Problem::new(width).algorithm(Algorithm::Dense))?;
    let window = hann(width as usize);
    let sum: f64 = window.iter().sum();
    let mut x = vec![Complex::ZERO; width as usize];
    let mut all = Vec::with_capacity(blocks);
    for block in 0..blocks {
        let start = first_sample(n, width, block, blocks);
        signal.read_range(start, &mut x)?;
        x.iter_mut().zip(&window).for_each(|(v, w)| *v *= w);
        let spectrum = plan.transform(&x)?;
        let size = |index: i64| spectrum.value(index.rem_euclid(width as i64) as u64).norm();
        let mut row = Vec::new();
        for p in spectrum.peaks() {
            let i = p.index as i64;
            let (a, b, c) = (size(i - 1), size(i), size(i + 1));
            if a > b || c >= b || size(i - 2) > b || size(i + 2) >= b {
                continue;
            }
            // Neighbours below the noise are missing; the peak then stays on its bin.
            let shift = if a > 0.0 && c > 0.0 {
                let (la, lb, lc) = (a.ln(), b.ln(), c.ln());
                (0.5 * (la - lc) / (la - 2.0 * lb + lc)).clamp(-0.5, 0.5)
            } else {
                0.0
            };
            let cycles = p.frequency(width) + shift / width as f64;
            if !signal.is_real() || cycles >= 0.0 {
                let width = width_at_half(&size, i, b);
                row.push(Dot { block, cycles, amplitude: b / sum, width });
            }
        }
        row.sort_by(|a, b| b.amplitude.total_cmp(&a.amplitude));
        row.truncate(500);
        all.push(row);
        done();
    }
    Ok(all)
}

/// Width in bins at half the size of a peak, between bins by straight lines.
fn width_at_half(size: &dyn Fn(i64) -> f64, peak: i64, top: f64) -> f64 {
    /// Bins to either side that are looked at.
    const REACH: i64 = 64;
    let side = |sign: i64| {
        let below = (1..REACH).find(|k| size(peak + sign * k) < 0.5 * top).unwrap_or(REACH);
        let (high, low) = (size(peak + sign * (below - 1)), size(peak + sign * below));
        (below - 1) as f64 + ((high - 0.5 * top) / (high - low).max(1e-300)).clamp(0.0, 1.0)
    };
    side(1) + side(-1)
}

/// Where a block of `width` of n samples begins.
fn first_sample(n: u64, width: u64, block: usize, blocks: usize) -> u64 {
    ((n - width) as u128 * block as u128 / (blocks.max(2) - 1) as u128) as u64
}

/// A picture of a recording, and what was followed in it.
pub struct Waterfall {
    /// The picture.
    pub scene: Scene,
    /// The peaks of each block.
    pub rows: Vec<Vec<Dot>>,
    /// The tracks, strongest first.
    pub tracks: Vec<Track>,
    /// What the axes mean.
    pub axes: Axes,
}

impl Waterfall {
    /// Transforms at most `blocks` blocks of at most `width` samples and draws their peaks.
    ///
    /// # Errors
    /// What the source meets.
    pub fn new(
        recording: &Recording,
        (blocks, width): (u64, u64),
        title: &str,
        size: (f64, f64),
        theme: Theme,
    ) -> Result<Self, Error> {
        let n = recording.len();
        let width = width.min(n / 2).max(1);
        let blocks = blocks.min(n / width * 2) as usize;
        let bar = Bar::steps("waterfall", blocks as u64);
        let rows = dots(recording, blocks, width, || bar.add(1))?;
        drop(bar);
        let tracks = tracks(&rows, grid(n, width, blocks), (blocks / 10).max(3));
        let axes = Axes {
            rate: recording.rate,
            center: recording.center,
            real: recording.is_real(),
            full_scale: recording.full_scale(),
            n,
            width,
        };
        let scene = draw(&rows, &tracks, &axes, title, size, theme);
        Ok(Waterfall { scene, rows, tracks, axes })
    }
}

/// How `blocks` blocks of `width` of n samples lie.
fn grid(n: u64, width: u64, blocks: usize) -> Grid {
    Grid { width, step: (n - width) as f64 / (blocks.max(2) - 1) as f64 }
}

/// What the axes mean.
pub struct Axes {
    /// Sample rate in Hz.
    pub rate: Option<f64>,
    /// Centre frequency in Hz.
    pub center: Option<f64>,
    /// Whether only frequencies that are not negative exist.
    pub real: bool,
    /// |x| that counts as 0 dB.
    pub full_scale: f64,
    /// Samples in the recording.
    pub n: u64,
    /// Samples in one block; smaller drifts than one of its bins are not told.
    pub width: u64,
}

impl Axes {
    /// A frequency in Hz, or in cycles per sample if the rate is not known.
    pub fn frequency(&self, cycles: f64) -> f64 {
        self.rate.map_or(cycles, |r| self.center.unwrap_or(0.0) + cycles * r)
    }

    /// Time of the middle of a block, which its peaks stand for, in seconds or in samples.
    pub fn time(&self, block: usize, blocks: usize) -> f64 {
        let first = first_sample(self.n, self.width, block, blocks);
        self.of_sample(first as f64 + 0.5 * self.width as f64)
    }

    /// Times between which the peaks of a block are drawn: half the way to its neighbours, inside
    /// the recording.
    fn span(&self, block: usize, blocks: usize) -> [f64; 2] {
        let (middle, end) = (self.time(block, blocks), self.of_sample(self.n as f64));
        let step = grid(self.n, self.width, blocks).step;
        let half = if blocks < 2 { end } else { 0.5 * self.of_sample(step) };
        [(middle - half).max(0.0), (middle + half).min(end)]
    }

    /// Time of a sample in seconds, or its index.
    fn of_sample(&self, sample: f64) -> f64 {
        self.rate.map_or(sample, |rate| sample / rate)
    }
}

/// Draws dots and tracks, time downwards.
fn draw(
    rows: &[Vec<Dot>],
    tracks: &[Track],
    axes: &Axes,
    title: &str,
    size: (f64, f64),
    theme: Theme,
) -> Scene {
    let palette = theme.palette();
    let mut scene = Scene::new(size.0, size.1);
    scene.add(Shape::Rect { at: [0.0, 0.0, size.0, size.1], fill: palette.paper });
    let ends = if axes.real { [0.0, 0.5] } else { [-0.5, 0.5] };
    let blocks = rows.len();
    let frame = Frame {
        area: [96.0, 56.0, size.0 - 110.0, size.1 - 60.0],
        x: ends.map(|c| axes.frequency(c)),
        y: [axes.of_sample(axes.n as f64), 0.0],
    };
    let unit = if axes.rate.is_some() { "time in s" } else { "time in samples" };
    frame.axes(&mut scene, &palette, axes.rate.is_some(), unit);
    let levels: Vec<f64> = rows
        .iter()
        .flatten()
        .map(|d| crate::units::decibels(d.amplitude / axes.full_scale))
        .collect();
    let high = levels.iter().copied().fold(-300.0, f64::max);
    let low = levels.iter().copied().fold(high, f64::min).min(high - 10.0).max(high - 100.0);
    let colour = |level: f64| viridis(((level - low) / (high - low)).clamp(0.0, 1.0));
    // The weakest first, so that the strongest stay visible.
    let mut order: Vec<(&Dot, f64)> = rows.iter().flatten().zip(levels).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (dot, level) in order {
        let [from, to] = axes.span(dot.block, blocks);
        let (x, top) = frame.place(axes.frequency(dot.cycles), from);
        let (_, bottom) = frame.place(axes.frequency(dot.cycles), to);
        let at = [x - 1.5, top, 3.0, (bottom - top).max(1.5)];
        scene.add(Shape::Rect { at, fill: colour(level) });
    }
    draw_tracks(&mut scene, &frame, tracks, axes, blocks, &palette);
    legend(&mut scene, size, [low, high], &palette, colour);
    scene.text((96.0, 24.0), title, 16.0, Anchor::Start, palette.ink);
    let facts = format!(
        "{} peaks in {blocks} blocks, {} tracks",
        rows.iter().map(Vec::len).sum::<usize>(),
        tracks.len()
    );
    scene.text((96.0, 43.0), facts, 12.0, Anchor::Start, palette.ink);
    scene
}

fn draw_tracks(
    scene: &mut Scene,
    frame: &Frame,
    tracks: &[Track],
    axes: &Axes,
    blocks: usize,
    palette: &Palette,
) {
    /// Tracks that get their drift written beside them.
    const LABELS: usize = 12;
    for (i, track) in tracks.iter().enumerate() {
        let points: Vec<(f64, f64)> = track
            .dots
            .iter()
            .map(|d| frame.place(axes.frequency(d.cycles), axes.time(d.block, blocks)))
            .collect();
        let Some(&(x, y)) = points.get(points.len() / 2) else { continue };
        scene.add_with(
            Shape::Path { points, colour: Colour(213, 94, 0, 0.9), width: 1.0 },
            "class=\"track\"".into(),
        );
        let span = axes.time(track.dots[track.dots.len() - 1].block, blocks)
            - axes.time(track.dots[0].block, blocks);
        if let Some(rate) = axes.rate
            && i < LABELS
            && span > 0.0
            && track.drift().abs() * axes.width as f64 > 1.0
        {
            let text = format!("{}/s", si(track.drift() * rate / span, "Hz", 1));
            scene.text((x + 6.0, y), text, 11.0, Anchor::Start, palette.ink);
        }
    }
}

fn legend(
    scene: &mut Scene,
    size: (f64, f64),
    range: [f64; 2],
    palette: &Palette,
    colour: impl Fn(f64) -> Colour,
) {
    let (left, top, height) = (size.0 - 84.0, 56.0, 160.0);
    for i in 0..80 {
        let level = range[1] - (range[1] - range[0]) * f64::from(i) / 79.0;
        let at = [left, top + height * f64::from(i) / 80.0, 14.0, height / 80.0 + 0.5];
        scene.add(Shape::Rect { at, fill: colour(level) });
    }
    for (level, y) in [(range[1], top + 10.0), (range[0], top + height)] {
        scene.text((left + 20.0, y), format!("{level:.0} dB"), 11.0, Anchor::Start, palette.ink);
    }
    let at = [left, top + height + 22.0, left + 14.0, top + height + 22.0];
    scene.add(Shape::Line { at, colour: Colour(213, 94, 0, 1.0), width: 1.5, dashed: false });
    scene.text((left + 20.0, top + height + 26.0), "track", 11.0, Anchor::Start, palette.ink);
}

/// The viridis colour map by its values at nine places.
fn viridis(share: f64) -> Colour {
    const STOPS: [[f64; 3]; 9] = [
        [68.0, 1.0, 84.0],
        [71.0, 44.0, 122.0],
        [59.0, 81.0, 139.0],
        [44.0, 113.0, 142.0],
        [33.0, 144.0, 141.0],
        [39.0, 173.0, 129.0],
        [92.0, 200.0, 99.0],
        [170.0, 220.0, 50.0],
        [253.0, 231.0, 37.0],
    ];
    let at = share * (STOPS.len() - 1) as f64;
    let i = (at as usize).min(STOPS.len() - 2);
    let mix = |c: usize| {
        let t = at - i as f64;
        (STOPS[i][c] * (1.0 - t) + STOPS[i + 1][c] * t).round() as u8
    };
    Colour(mix(0), mix(1), mix(2), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{Signal, Tone};

    #[test]
    fn a_drifting_tone_is_one_track() {
        let n = 1 << 18;
        let tones = vec![
            Tone::free(-0.2, 0.0, Complex::new(1.0, 0.0)),
            Tone::free(0.1, 0.2, Complex::new(0.5, 0.0)),
        ];
        let signal = Signal { n, tones, sigma: 0.1, seed: 1, real: false };
        let mut x = vec![Complex::ZERO; n as usize];
        signal.fill(0, &mut x);
        let rows = dots(&x, 64, 2048, || {}).unwrap();
        let found = tracks(&rows, grid(n, 2048, 64), 32);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].dots[5].cycles + 0.2).abs() < 1e-4);
        assert!(found[0].drift().abs() < 1e-4);
        assert!((found[1].drift() - 0.2).abs() < 0.01, "{}", found[1].drift());
        assert!((found[0].strength() - 1.0).abs() < 0.15);
    }
}
