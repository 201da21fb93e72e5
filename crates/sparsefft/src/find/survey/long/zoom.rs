//! The second pass: the channel around every candidate as a record of its own.
//!
//! Blocks of one frame, a quarter apart, are transformed, and of each the channels of the candidates
//! are kept: series at four values per frame, in which a line keeps its amplitude but for the gain of
//! the window at its offset, which is divided out after the fit. A series has as many bins to the cycle as the
//! record, so that lines are found and fitted in it as in a whole record in memory.
//! Channel 0 of real samples is a real series, and so is that at half the rate.

use super::super::Units;
use super::super::floor::Floor;
use super::super::lines::{self, Found, Limits};
use super::super::spectrum::{GAIN, LOBE, Spectrum, correlated_bins, response};
use super::layout::Layout;
use crate::dense::Real;
use crate::find::findings::Line;
use crate::samples::Samples;
use crate::tones::Drift;
use crate::{Complex, Error};
use rustfft::FftDirection;
use std::f64::consts::TAU;

/// Values of a series for each frame.
const RATE: usize = 4;
/// Channels from the middle of a series within which lines are taken from it: what is beyond half
/// the rate less the main lobe is folded into the rest.
const REACH: f64 = 1.75;
/// How far above the leakage of a stronger line, as a ratio of amplitudes, a line must be that
/// lies where that leakage would.
const GHOST: f64 = 4.0;
/// Independent bins beside a candidate that its level is taken of.
const SIDE_DRAWS: f64 = 6.0;
/// Level of the floor in a series over that in the mean spectrum, where the two agree.
const AGREEING: std::ops::RangeInclusive<f64> = 0.3..=1.4;
/// Bins by which it may miss that place.
const GHOST_BINS: f64 = 6.0;

/// A line of the whole record, with the channel in which it was seen and how much of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refined {
    pub(super) line: Line,
    pub(super) found: Found,
    channel: usize,
}

/// The lines around these channels, of which noise makes one with probability e^`ln_p`. With each goes
/// the level of the floor in the mean of so many spectra, if that is known.
pub(super) fn refine<S: Samples + ?Sized>(
    layout: &Layout,
    signal: &S,
    wanted: &[(usize, Option<f64>)],
    spectra: f64,
    scale: f64,
    ln_p: f64,
) -> Result<Vec<Refined>, Error> {
    let channels: Vec<usize> = wanted.iter().map(|w| w.0).collect();
    let channels = &channels[..];
    if channels.is_empty() {
        return Ok(Vec::new());
    }
    let all = series(layout, signal, channels, scale)?;
    let some = super::in_parallel(channels.len(), |i| -> Result<Vec<Refined>, Error> {
        lines_of(layout, wanted[i], spectra, &all[i], scale, ln_p)
    });
    let mut out = Vec::new();
    for found in some {
        out.extend(found?);
    }
    // Each line once: from the channel nearest to it.
    out.retain(|r: &Refined| {
        let nearest = channels.iter().map(|c| off(layout, r, *c)).fold(f64::INFINITY, f64::min);
        off(layout, r, r.channel) <= nearest
    });
    let strong = out.clone();
    out.retain(|r| !strong.iter().any(|s| is_ghost(layout, r, s)));
    Ok(out)
}

/// Channels between a line and a channel.
fn off(layout: &Layout, r: &Refined, channel: usize) -> f64 {
    let d = (r.line.frequency - channel as f64 / layout.frame as f64).rem_euclid(1.0);
    d.min(1.0 - d) * layout.frame as f64
}

/// Whether a line is what the window lets through of a stronger one, or of its mirror image, far
/// away.
fn is_ghost(layout: &Layout, line: &Refined, strong: &Refined) -> bool {
    let frame = layout.frame as f64;
    let centre = line.channel as f64;
    let own = (line.line.frequency * frame - centre).rem_euclid(frame);
    let own = if own > frame / 2.0 { own - frame } else { own };
    let images: &[f64] = if layout.real { &[1.0, -1.0] } else { &[1.0] };
    images.iter().any(|sign| {
        let away = (sign * strong.line.frequency * frame - centre).rem_euclid(frame);
        let away = if away > frame / 2.0 { away - frame } else { away };
        if away.abs() < REACH + 0.25 {
            return false;
        }
        let rate = RATE as f64;
        let folded = away - rate * (away / rate).round();
        let bins = (layout.n as f64 / frame).max(1.0);
        let leaked = strong.line.magnitude() * leakage(away) / response(own).abs();
        (folded - own).abs() * bins < GHOST_BINS && line.line.magnitude() < GHOST * leaked
    })
}

/// The largest gain of the window from so many channels on: its side lobes fall by 18 dB per
/// octave.
fn leakage(away: f64) -> f64 {
    if away < LOBE as f64 {
        return response(away).abs();
    }
    // -93 dB at the first side lobes, -178 dB at 256 bins.
    GAIN * f64::min(2.3e-5, 0.0212 / away.powi(3))
}

/// Blocks that lie within the record. The first one is that around the middle of hop [`FIRST`].
fn blocks(layout: &Layout) -> u64 {
    let hop = (layout.frame / RATE) as u64;
    (layout.n - layout.frame as u64 - hop / 2) / hop + 1
}

/// The first hop around whose middle there is a whole block: half a frame is RATE/2 hops.
const FIRST: u64 = RATE as u64 / 2;

/// The series of each channel, in the scale of the survey.
fn series<S: Samples + ?Sized>(
    layout: &Layout,
    signal: &S,
    channels: &[usize],
    scale: f64,
) -> Result<Vec<Vec<Complex<f32>>>, Error> {
    let count = blocks(layout);
    let workers = layout.workers() as u64;
    let run = count.div_ceil(workers);
    let parts = super::in_parallel(workers as usize, |worker| {
        let first = (worker as u64 * run).min(count);
        part_of_series(layout, signal, channels, scale, first..(first + run).min(count))
    });
    let mut all: Vec<Vec<Complex<f32>>> = vec![Vec::with_capacity(count as usize); channels.len()];
    for part in parts {
        for (all, part) in all.iter_mut().zip(part?) {
            all.extend(part);
        }
    }
    Ok(all)
}

/// Some values of each series.
fn part_of_series<S: Samples + ?Sized>(
    layout: &Layout,
    signal: &S,
    channels: &[usize],
    scale: f64,
    range: std::ops::Range<u64>,
) -> Result<Vec<Vec<Complex<f32>>>, Error> {
    let frame = layout.frame;
    let hop = (frame / RATE) as u64;
    let norm = scale / (GAIN * frame as f64);
    let shape: Vec<f64> = layout.window.iter().map(|w| norm * w).collect();
    let fft = f64::kernel(frame, FftDirection::Forward);
    let mut scratch = vec![Complex::ZERO; fft.get_inplace_scratch_len()];
    let mut buffer = vec![Complex::ZERO; frame];
    // Samples of the block, of which three quarters serve the next one.
    let mut near = vec![Complex::ZERO; frame];
    let mut out = vec![Vec::with_capacity((range.end - range.start) as usize); channels.len()];
    let first = range.start;
    for j in range {
        let start = (j + FIRST) * hop + hop / 2 - frame as u64 / 2;
        let kept = if j == first { 0 } else { frame - hop as usize };
        near.copy_within(frame - kept.., 0);
        let fresh = &mut near[kept..];
        signal.read_range(start + kept as u64, fresh)?;
        super::unit::check(fresh, start + kept as u64)?;
        for ((b, x), w) in buffer.iter_mut().zip(&near).zip(&shape) {
            *b = if layout.real { Complex::new(x.re * w, 0.0) } else { x * w };
        }
        fft.process_with_scratch(&mut buffer, &mut scratch);
        for (out, &channel) in out.iter_mut().zip(channels) {
            // The phase of the channel's middle at sample 0: a start is a multiple of an eighth of
            // a frame.
            let eighths = (start / (hop / 2) % 8) * (channel as u64 % 8) % 8;
            let turned = buffer[channel] * Complex::cis(-TAU * eighths as f64 / 8.0);
            out.push(Complex::new(turned.re as f32, turned.im as f32));
        }
    }
    Ok(out)
}

/// The lines of one series.
fn lines_of(
    layout: &Layout,
    (channel, level): (usize, Option<f64>),
    spectra: f64,
    series: &[Complex<f32>],
    scale: f64,
    ln_p: f64,
) -> Result<Vec<Refined>, Error> {
    let count = series.len();
    let real = layout.real && (channel == 0 || channel == layout.frame / 2);
    let mut spectrum = if real {
        let values: Vec<f64> = series.iter().map(|z| f64::from(z.re)).collect();
        Spectrum::of_real(&values, 1.0)?
    } else {
        let wide = |z: &Complex<f32>| Complex::new(f64::from(z.re), f64::from(z.im));
        let values: Vec<Complex<f64>> = series.iter().map(wide).collect();
        Spectrum::of_complex(&values, 1.0)?
    };
    let share = |bin: f64| if bin > 0.5 * count as f64 { bin - count as f64 } else { bin };
    // In channels, four of which are the rate.
    let offset = |bin: f64| RATE as f64 * share(bin) / count as f64;
    // The gain of the window at a bin. A line has that of its own place in all of its bins, so that the
    // spectrum is left as it is, and lines are corrected.
    let gain = |bin: f64| response(offset(bin)) / GAIN;
    if spectrum.power.iter().all(|p| *p < 1e-200) {
        return Ok(Vec::new());
    }
    let (mut towering, quiet) = lines::take_towering(&mut spectrum);
    let mut floor = Floor::of(&spectrum.power, real, correlated_bins());
    if let Some(level) = level.filter(|_| !real) {
        // The mean spectrum knows the level better than a short series does, if not its shape within a
        // bin: a line must stand above both. Where they differ, the series alone tells the scatter.
        let level = level * RATE as f64 / layout.frame as f64;
        let middle = floor.density[0];
        for (k, d) in floor.density.iter_mut().enumerate() {
            *d = d.max(level * gain(k as f64).powi(2));
        }
        if AGREEING.contains(&(middle / level)) {
            let draws = spectra * SIDE_DRAWS;
            floor.cells.iter_mut().for_each(|c| c.smooth_draws = c.smooth_draws.max(draws));
        }
    }
    // Of all bins of the record those are looked at that stood out before.
    let ln_series = ln_p - (layout.n as f64 / count as f64).ln();
    let mut found = lines::find(&spectrum, &floor, ln_series);
    let distance = |a: &Found, b: &Found| super::super::distance(a, b, count, real);
    found.retain(|l| !towering.iter().any(|t| distance(l, t) < 3.0 * LOBE as f64));
    lines::judge_towering(&mut towering, quiet, &floor);
    found.splice(0..0, towering);
    let limits = Limits::new(ln_series - (2.0 * count as f64).ln());
    let unit = spectrum.unit();
    let units = Units { n: count, real, scale, unit, floor: &floor, limits };
    if real && channel == 0 {
        found.retain(|f| !units.is_offset(f));
    }
    found.retain(|f| offset(f.fit.bin).abs() <= REACH);
    Ok(found
        .iter()
        .map(|f| {
            let mut line = units.line(f);
            let gain = gain(f.fit.bin);
            line.amplitude /= gain;
            line.amplitude_std /= gain;
            Refined { line: placed(layout, channel, line, real), found: *f, channel }
        })
        .collect())
}

/// A line of a series as one of the record.
fn placed(layout: &Layout, channel: usize, line: Line, real_series: bool) -> Line {
    let hop = (layout.frame / RATE) as f64;
    let centre = channel as f64 / layout.frame as f64;
    // Back from the first value of the series to the first sample of the record, along the line.
    let back = FIRST as f64 + 0.5;
    let rate = line.drift.map_or(0.0, |d| d.rate);
    let at_first = line.frequency - 0.5 * rate * blocks(layout) as f64;
    let turns = -back * at_first + 0.5 * rate * back * back;
    let mut amplitude = line.amplitude * Complex::cis(TAU * turns);
    amplitude *= (back * line.damping.unwrap_or(0.0)).exp();
    // The frequency is that of the middle of the series; the record's lies half a hop or so away.
    let count = blocks(layout) as f64;
    let later = layout.n as f64 / (2.0 * hop) - back - 0.5 * count;
    let middle = line.frequency + rate * later;
    let mut frequency = centre + middle / hop;
    let mut turn = 1.0;
    if real_series && channel > 0 {
        // Counted down from half the rate.
        frequency = centre - middle / hop;
        amplitude = amplitude.conj();
        turn = -1.0;
    }
    let frequency = if frequency >= 0.5 && !layout.real { frequency - 1.0 } else { frequency };
    let drift =
        line.drift.map(|d| Drift { rate: turn * d.rate / (hop * hop), std: d.std / (hop * hop) });
    Line {
        frequency,
        frequency_std: line.frequency_std / hop,
        amplitude,
        drift,
        width: line.width.map(|w| w / hop),
        damping: line.damping.map(|d| d / hop),
        mirrored: layout.real,
        ..line
    }
}
