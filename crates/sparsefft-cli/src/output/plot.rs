//! The spectrum as a drawing: stems at full resolution over the max-hold overview, with the noise
//! floor and the detection threshold, and labels for the strongest peaks.

use super::View;
use super::scene::{Anchor, Colour, Scene, Shape, ticks};
use super::table::{reads, seed};
use crate::units::{grouped, seconds};

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Theme {
    /// Dark ink on white.
    Light,
    /// Light ink on black.
    Dark,
}

/// The colours of a theme: data and lines from the Okabe-Ito palette, which stays distinct for
/// colour-blind readers; the lines differ in dashing, too.
pub struct Palette {
    pub(super) paper: Colour,
    pub(super) ink: Colour,
    pub(super) grid: Colour,
    hold: Colour,
    peak: Colour,
    floor: Colour,
    threshold: Colour,
}

impl Theme {
    /// Its colours.
    pub fn palette(self) -> Palette {
        match self {
            Theme::Light => Palette {
                paper: Colour(255, 255, 255, 1.0),
                ink: Colour(30, 30, 30, 1.0),
                grid: Colour(0, 0, 0, 0.1),
                hold: Colour(150, 150, 150, 0.45),
                peak: Colour(0, 114, 178, 1.0),
                floor: Colour(0, 128, 92, 1.0),
                threshold: Colour(213, 94, 0, 1.0),
            },
            Theme::Dark => Palette {
                paper: Colour(17, 20, 24, 1.0),
                ink: Colour(225, 225, 225, 1.0),
                grid: Colour(255, 255, 255, 0.12),
                hold: Colour(150, 150, 150, 0.35),
                peak: Colour(86, 180, 233, 1.0),
                floor: Colour(0, 200, 140, 1.0),
                threshold: Colour(240, 140, 40, 1.0),
            },
        }
    }
}

/// The rectangle of the data and the ranges of its axes.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Left, top, right and bottom in pixels.
    pub area: [f64; 4],
    /// Range of the horizontal axis.
    pub x: [f64; 2],
    /// Range of the vertical axis: its values at the bottom and at the top.
    pub y: [f64; 2],
}

impl Frame {
    /// Pixels of a point.
    pub fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let [left, top, right, bottom] = self.area;
        (
            left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (right - left),
            bottom - (y - self.y[0]) / (self.y[1] - self.y[0]) * (bottom - top),
        )
    }

    /// Draws grid, ticks and titles. The horizontal axis is in Hz if `hertz`, else in cycles per
    /// sample.
    pub fn axes(&self, scene: &mut Scene, palette: &Palette, hertz: bool, y_title: &str) {
        let [left, top, right, bottom] = self.area;
        let (scale, prefix) = prefix(self.x[0].abs().max(self.x[1].abs()));
        let (scale, x_title) = if hertz {
            (scale, format!("frequency in {prefix}Hz"))
        } else {
            (1.0, "frequency in cycles per sample".to_owned())
        };
        let xs = ticks(self.x[0] / scale, self.x[1] / scale, 8);
        let digits = digits(&xs);
        for t in xs {
            let (x, _) = self.place(t * scale, self.y[0]);
            let line = [x, top, x, bottom];
            scene.add(Shape::Line { at: line, colour: palette.grid, width: 1.0, dashed: false });
            scene.add_with(
                Shape::Text {
                    at: (x, bottom + 18.0),
                    // Adding zero turns -0 into 0.
                    text: format!("{:.digits$}", t + 0.0),
                    size: 12.0,
                    anchor: Anchor::Middle,
                    colour: palette.ink,
                    upwards: false,
                },
                format!("class=\"x-tick\" data-value=\"{}\"", t * scale),
            );
        }
        let ys = ticks(self.y[0].min(self.y[1]), self.y[0].max(self.y[1]), 7);
        let digits = self::digits(&ys);
        for t in ys {
            let (_, y) = self.place(self.x[0], t);
            let line = [left, y, right, y];
            scene.add(Shape::Line { at: line, colour: palette.grid, width: 1.0, dashed: false });
            scene.add_with(
                Shape::Text {
                    at: (left - 8.0, y + 4.0),
                    text: format!("{:.digits$}", t + 0.0),
                    size: 12.0,
                    anchor: Anchor::End,
                    colour: palette.ink,
                    upwards: false,
                },
                format!("class=\"y-tick\" data-value=\"{t}\""),
            );
        }
        for line in [[left, top, left, bottom], [left, bottom, right, bottom]] {
            scene.add(Shape::Line { at: line, colour: palette.ink, width: 1.0, dashed: false });
        }
        let middle = (left + right) / 2.0;
        scene.text((middle, bottom + 40.0), x_title, 13.0, Anchor::Middle, palette.ink);
        scene.add(Shape::Text {
            at: (left - 48.0, (top + bottom) / 2.0),
            text: y_title.to_owned(),
            size: 13.0,
            anchor: Anchor::Middle,
            colour: palette.ink,
            upwards: true,
        });
    }
}

/// SI prefix for an axis that reaches this far.
pub fn prefix(largest: f64) -> (f64, &'static str) {
    [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|p| largest >= p.0).unwrap_or((1.0, ""))
}

/// Digits after the point that tell ticks apart.
pub fn digits(ticks: &[f64]) -> usize {
    match ticks {
        [a, b, ..] => (-(b - a).abs().log10() - 1e-9).ceil().clamp(0.0, 12.0) as usize,
        _ => 3,
    }
}

/// What is drawn.
pub struct Plot<'a> {
    /// The answer and its axes.
    pub view: &'a View<'a>,
    /// The overview of [`super::background`].
    pub hold: &'a [f64],
    /// The recording's name.
    pub title: &'a str,
    /// Width and height in pixels.
    pub size: (f64, f64),
    /// Light or dark.
    pub theme: Theme,
    /// How many peaks get a label.
    pub labels: usize,
}

/// Ranges in dB that hold the peaks, the overview, the noise floor and the threshold.
pub fn level_range(view: &View<'_>, hold: &[f64]) -> [f64; 2] {
    let peaks = view.strongest();
    let levels = || peaks.iter().map(|p| view.level(p));
    let highest = hold.iter().map(|&h| view.level_of(h)).chain(levels()).fold(-300.0, f64::max);
    let (floor, threshold) = reference_lines(view);
    // What was computed densely is known far below the noise; that is no place to look at.
    let threshold = threshold.filter(|&t| floor.is_none_or(|f| t >= f));
    let mut lowest = levels().chain(floor).chain(threshold).fold(highest, f64::min);
    if peaks.is_empty() {
        lowest = lowest.min(highest - 40.0);
    }
    // A signal without noise has a floor at rounding; nothing is to be seen down there.
    let bottom = (lowest - 5.0).max(highest - 180.0);
    let low = (bottom / 10.0).floor() * 10.0;
    // Room for the labels above the highest stem.
    let high = ((highest + 0.08 * (highest - low)) / 10.0).ceil() * 10.0;
    [low, high.max(low + 10.0)]
}

/// Levels of the noise in one bin of the full transform, σ/√n, and of the detection threshold.
fn reference_lines(view: &View<'_>) -> (Option<f64>, Option<f64>) {
    let c = view.spectrum.certificate();
    let n = view.spectrum.n() as f64;
    let seen = |v: f64| (v > 0.0).then(|| view.level_of(v));
    (seen(c.noise_floor / n.sqrt()), seen(c.detection_limit))
}

/// Draws the spectrum.
pub fn plot(p: &Plot<'_>) -> Scene {
    let (width, height) = p.size;
    let palette = p.theme.palette();
    let mut scene = Scene::new(width, height);
    scene.add(Shape::Rect { at: [0.0, 0.0, width, height], fill: palette.paper });
    let view = p.view;
    let cycles = if view.real { [0.0, 0.5] } else { [-0.5, 0.5] };
    let frame = Frame {
        area: [80.0, 56.0, width - 24.0, height - 60.0],
        x: cycles.map(|c| view.axis(c)),
        y: level_range(view, p.hold),
    };
    let unit = if view.full_scale == 1.0 { "|X|/n in dB" } else { "|X|/n in dB of full scale" };
    frame.axes(&mut scene, &palette, view.rate.is_some(), unit);
    draw_hold(&mut scene, &frame, p, &palette);
    draw_lines(&mut scene, &frame, p, &palette);
    draw_peaks(&mut scene, &frame, p, &palette);
    heading(&mut scene, p, &palette);
    scene
}

fn draw_hold(scene: &mut Scene, frame: &Frame, p: &Plot<'_>, palette: &Palette) {
    if p.hold.len() < 2 {
        return;
    }
    let [left, _, right, bottom] = frame.area;
    // One column per pixel holds the largest of its bins.
    let columns = ((right - left) as usize).min(p.hold.len());
    let mut points = vec![(left, bottom)];
    for c in 0..columns {
        let range = c * p.hold.len() / columns..((c + 1) * p.hold.len() / columns);
        let top = p.hold[range].iter().copied().fold(0.0, f64::max);
        let x = left + (right - left) * (c as f64 + 0.5) / columns as f64;
        let (_, y) = frame.place(frame.x[0], p.view.level_of(top).clamp(frame.y[0], frame.y[1]));
        points.push((x, y));
    }
    points.push((right, bottom));
    scene.add_with(Shape::Area { points, fill: palette.hold }, "class=\"hold\"".into());
}

fn draw_lines(scene: &mut Scene, frame: &Frame, p: &Plot<'_>, palette: &Palette) {
    let (floor, threshold) = reference_lines(p.view);
    let [left, _, right, _] = frame.area;
    for (level, colour, dashed, words, class, shift) in [
        (floor, palette.floor, false, "noise in one bin", "floor", 14.0),
        (threshold, palette.threshold, true, "detection threshold", "threshold", -5.0),
    ] {
        let Some(level) = level.filter(|l| (frame.y[0]..=frame.y[1]).contains(l)) else { continue };
        let (_, y) = frame.place(frame.x[0], level);
        scene.add_with(
            Shape::Line { at: [left, y, right, y], colour, width: 1.5, dashed },
            format!("class=\"{class}\" data-level=\"{level}\""),
        );
        scene.text((right - 6.0, y + shift), words, 11.0, Anchor::End, colour);
    }
}

fn draw_peaks(scene: &mut Scene, frame: &Frame, p: &Plot<'_>, palette: &Palette) {
    let peaks = p.view.strongest();
    let bottom = frame.area[3];
    // The weakest first, so that strong stems stay visible.
    for peak in peaks.iter().rev() {
        let (x, y) = frame.place(p.view.frequency(peak), p.view.level(peak).max(frame.y[0]));
        scene.add_with(
            Shape::Line { at: [x, bottom, x, y], colour: palette.peak, width: 1.2, dashed: false },
            format!("class=\"peak\" data-index=\"{}\"", peak.index),
        );
        scene.add(Shape::Disc { at: [x, y, 2.5], fill: palette.peak });
    }
    let [left, top, right, _] = frame.area;
    let mut taken: Vec<[f64; 3]> = Vec::new();
    let mut stems: Vec<f64> = Vec::new();
    for peak in &peaks {
        let (x, y) = frame.place(p.view.frequency(peak), p.view.level(peak));
        // Weaker peaks on the same pixels, the skirt of a tone between bins say, need no name.
        if stems.len() == p.labels || stems.iter().any(|s| (s - x).abs() < 3.0) {
            continue;
        }
        stems.push(x);
        let text = match p.view.rate {
            Some(_) => {
                let f = p.view.frequency(peak);
                let (scale, prefix) = prefix(f.abs());
                format!("{:.*} {prefix}Hz", p.view.digits(scale).min(6), f / scale)
            }
            None => format!("bin {}", peak.index),
        };
        let half = 3.4 * text.len() as f64;
        // In a small picture a label may be wider than the frame.
        let x = x.max(left + half).min(right - half);
        // A label that would cover another one moves up a little, or is left out.
        let free = (0..4).map(|i| y - 8.0 - 13.0 * i as f64).find(|&y| {
            y > top + 4.0
                && !taken
                    .iter()
                    .any(|t| x + half > t[0] && x - half < t[1] && (y - t[2]).abs() < 13.0)
        });
        if let Some(y) = free {
            taken.push([x - half, x + half, y]);
            scene.add_with(
                Shape::Text {
                    at: (x, y),
                    text,
                    size: 11.0,
                    anchor: Anchor::Middle,
                    colour: palette.ink,
                    upwards: false,
                },
                format!("class=\"label\" data-index=\"{}\"", peak.index),
            );
        }
    }
}

fn heading(scene: &mut Scene, p: &Plot<'_>, palette: &Palette) {
    scene.text((80.0, 24.0), p.title, 16.0, Anchor::Start, palette.ink);
    let facts = format!(
        "{} peaks of {} bins, {} in {}, {}{}",
        grouped(p.view.spectrum.peaks().len() as u64),
        grouped(p.view.spectrum.n()),
        reads(p.view),
        seconds(p.view.cost.elapsed().as_secs_f64()),
        p.view.spectrum.certificate().verdict,
        seed(p.view)
    );
    scene.text((80.0, 43.0), facts, 12.0, Anchor::Start, palette.ink);
    let right = p.size.0 - 24.0;
    scene.text((right, 43.0), "grey: max-hold of short blocks", 11.0, Anchor::End, palette.ink);
}
