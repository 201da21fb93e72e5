//! What one unit of a record tells: mean power over frequency, power over time, events.

use super::super::blocks::{Blocks, block_window};
use super::super::bursts::{self, Event};
use super::super::floor::Floor;
use super::super::spectrum::correlated_bins;
use super::super::vector::vectorized;
use super::super::{STEEP, sweeps};
use super::layout::Layout;
use crate::dense::{Real, narrow};
use crate::samples::Samples;
use crate::{Complex, Error};
use rustfft::{Fft, FftDirection};
use std::sync::Arc;

/// Samples that are asked for at a time.
const READ: usize = 1 << 13;
/// Samples whose squares, summed over a record, are numbers.
const LARGEST: f64 = 1e140;
/// Magnitudes between which squares and their sums over a unit are 32-bit numbers.
const PLAIN: std::ops::RangeInclusive<f64> = 1e-9..=1e9;
/// Blocks of a unit that the level of a channel is taken of.
const SAMPLED: usize = 64;
/// The level of a channel is this quantile over the unit.
const QUIET: f64 = 0.35;
/// Values that are transformed at a time.
const BATCH: usize = 1 << 12;

/// What one unit tells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit {
    /// Sum of the power of its frames in each bin; white noise of power σ² has σ² in each frame.
    pub(super) spectrum: Vec<f64>,
    pub(super) frames: u64,
    pub(super) row: Row,
    /// What stands out for a part of the unit, in samples of the record.
    pub(super) events: Vec<Event>,
}

/// Levels of one unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Sum of the samples.
    pub(super) total: Complex<f64>,
    /// Largest magnitude of a real or imaginary part.
    pub(super) largest: f64,
    /// Powers below are in units of this one.
    pub(super) unit: f64,
    /// Usual level of each channel.
    pub(super) quiet: Vec<f32>,
    /// Mean power in each channel of the short blocks.
    pub(super) mean: Vec<f32>,
}

/// Samples in 32 or 64 bits.
enum Raw<T> {
    Real(Vec<T>),
    Complex(Vec<Complex<T>>),
}

impl<T> Raw<T> {
    fn len(&self) -> usize {
        match self {
            Raw::Real(x) => x.len(),
            Raw::Complex(x) => x.len(),
        }
    }
}

/// A range of samples, the factor that brought them into their range, their sum and the
/// largest magnitude.
fn read<T: Real, S: Samples + ?Sized>(
    signal: &S,
    first: u64,
    count: usize,
    at: u64,
    real: bool,
) -> Result<(Raw<T>, f64, Complex<f64>, f64), Error> {
    let mut factor = 1.0;
    let mut buffer = vec![Complex::ZERO; READ.min(count)];
    loop {
        let (mut total, mut largest) = (Complex::<f64>::ZERO, 0.0f64);
        let mut raw = if real {
            Raw::Real(Vec::with_capacity(count))
        } else {
            Raw::Complex(Vec::with_capacity(count))
        };
        while raw.len() < count {
            let done = raw.len();
            let part = &mut buffer[..READ.min(count - done)];
            signal.read_range(first + done as u64, part)?;
            let [re, im, most] = scan(part);
            if !((re + im).is_finite() && most <= LARGEST) {
                check(part, at + done as u64)?;
            }
            largest = largest.max(most);
            total += Complex::new(re, im);
            match &mut raw {
                Raw::Real(x) => x.extend(part.iter().map(|v| T::of(v.re * factor))),
                Raw::Complex(x) => x.extend(part.iter().map(|v| narrow(v * factor))),
            }
        }
        let scaled = largest * factor;
        if largest == 0.0 || PLAIN.contains(&scaled) {
            return Ok((raw, factor, total, largest));
        }
        // A power of two, so that nothing is rounded.
        factor = (-largest.log2().round()).exp2();
    }
}

vectorized! {
    /// Sums of the real and of the imaginary parts, and the largest magnitude of any.
    fn scan(values: &[Complex<f64>]) -> [f64; 3] {
        const LANES: usize = 4;
        let (mut re, mut im, mut most) = ([0.0f64; LANES], [0.0f64; LANES], [0.0f64; LANES]);
        let groups = values.chunks_exact(LANES);
        for (i, v) in groups.remainder().iter().enumerate() {
            (re[i], im[i]) = (v.re, v.im);
            most[i] = v.re.abs().max(v.im.abs());
        }
        for group in groups {
            for (i, v) in group.iter().enumerate() {
                re[i] += v.re;
                im[i] += v.im;
                let (a, b) = (v.re.abs(), v.im.abs());
                let larger = if a > b { a } else { b };
                most[i] = if larger > most[i] { larger } else { most[i] };
            }
        }
        [re.iter().sum(), im.iter().sum(), most.iter().fold(0.0, |m, v| v.max(m))]
    }
}

/// The largest magnitude of samples that are numbers, and not too large.
pub(super) fn check(values: &[Complex<f64>], at: u64) -> Result<f64, Error> {
    let most = values.iter().fold(0.0f64, |m, v| {
        let magnitude = v.re.abs().max(v.im.abs());
        // max() would drop NaN.
        if (v.re + v.im).is_nan() { f64::INFINITY } else { m.max(magnitude) }
    });
    if most <= LARGEST {
        return Ok(most);
    }
    let finite = |v: &Complex<f64>| v.re.is_finite() && v.im.is_finite();
    match values.iter().position(|v| !finite(v)) {
        Some(i) => Err(crate::algorithms::non_finite(at + i as u64, values[i])),
        None => Err(Error::Overflow { limit: LARGEST }),
    }
}

/// Measures a unit whose samples are those from `first` on of a signal; noise makes an event in it
/// with the probability e^`ln_p` at most.
pub(super) fn measure<S: Samples + ?Sized>(
    layout: &Layout,
    unit: u64,
    signal: &S,
    first: u64,
    ln_p: f64,
) -> Result<Unit, Error> {
    if let Some(measured) = attempt::<f32, S>(layout, unit, signal, first, ln_p, false)? {
        return Ok(measured);
    }
    let exact = attempt::<f64, S>(layout, unit, signal, first, ln_p, true)?;
    exact.ok_or_else(|| Error::Source("the samples changed while they were read".to_string()))
}

/// The same in one precision; nothing if that is too little and `whatever` is not set.
fn attempt<T: Real, S: Samples + ?Sized>(
    layout: &Layout,
    unit: u64,
    signal: &S,
    first: u64,
    ln_p: f64,
    whatever: bool,
) -> Result<Option<Unit>, Error> {
    let range = layout.range(unit);
    let count = (range.end - range.start) as usize;
    let (raw, factor, total, largest) =
        read::<T, S>(signal, first, count, range.start, layout.real)?;
    let power_unit = 1.0 / (factor * factor);
    let mut row = Row {
        total,
        largest,
        unit: power_unit,
        quiet: vec![0.0; layout.levels],
        mean: vec![0.0; layout.means()],
    };
    let (mean, frames) = mean_spectrum(layout, &raw);
    if !whatever && largest > 0.0 && is_beyond(&mean, layout.frame) {
        return Ok(None);
    }
    let spectrum = mean.iter().map(|p| p * frames as f64 * power_unit).collect();
    if largest == 0.0 {
        return Ok(Some(Unit { spectrum, frames, row, events: Vec::new() }));
    }
    let (floor, bins) = coarse_floor(layout, &mean, frames);
    let span = |(low, high): (f64, f64), d: &f64| (low.min(*d), high.max(*d));
    let (low, high) = floor.density.iter().fold((f64::INFINITY, 0.0), span);
    let wide = high > STEEP * low;
    let mut events = Vec::new();
    for (i, &length) in layout.blocks.iter().enumerate() {
        let blocks = blocks_of(&raw, length, wide);
        if i == 0 {
            row.mean = mean_power(&blocks);
        }
        if i + 1 == layout.blocks.len() {
            row.quiet = levels(&blocks, layout.levels);
        }
        events.extend(sweeps::link(bursts::find(&blocks, &floor, bins, layout.real, ln_p)));
    }
    let mut events = sweeps::merge(events, f64::INFINITY);
    let start = range.start as f64;
    for event in &mut events {
        event.start += start;
        event.end += start;
        event.energy *= power_unit;
        event.top *= power_unit;
        shorten(event, start);
    }
    Ok(Some(Unit { spectrum, frames, row, events }))
}

/// Whether the quiet parts of a spectrum are within what rounding to 32 bits makes of the rest: errors
/// of single operations add up to spurs, of a strong line at most this power for each bin of a frame.
fn is_beyond(mean: &[f64], frame: usize) -> bool {
    /// Thirty times the square of half a unit in the last place.
    const ROUNDING: f64 = 1e-13;
    let power = mean.iter().sum::<f64>() / mean.len() as f64;
    let mut some: Vec<f64> = mean.iter().step_by(mean.len().div_ceil(4096)).copied().collect();
    let rank = some.len() / 10;
    *some.select_nth_unstable_by(rank, f64::total_cmp).1 < ROUNDING * frame as f64 * power
}

/// Reduces the ridge of an event to the two ends of its straight line, in blocks of the record.
fn shorten(event: &mut Event, start: f64) {
    let hop = event.block / 2;
    let before = start as usize / hop;
    if event.slope.is_none() {
        event.ridge = Vec::new();
        return;
    }
    let (slope, at) = sweeps::straight(&event.ridge);
    let (first, last) =
        event.ridge.iter().fold((usize::MAX, 0), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let place = |block: usize| (before + block, at + slope * block as f64, 1);
    event.ridge = vec![place(first), place(last)];
}

/// The mean power of half overlapped frames in each bin, and how many there are.
fn mean_spectrum<T: Real>(layout: &Layout, raw: &Raw<T>) -> (Vec<f64>, u64) {
    let mut sum = vec![T::zero(); layout.bins()];
    let mut frames = 0;
    let add = |row: &[T]| {
        sum.iter_mut().zip(row).for_each(|(s, p)| *s = *s + *p);
        frames += 1;
    };
    each_row(raw, layout.frame, &layout.window, add);
    let share = 1.0 / f64::max(frames as f64, 1.0);
    (sum.iter().map(|s| s.wide() * share).collect(), frames)
}

/// Calls `take` with the power of every half overlapped block under a window, which is scaled so
/// that white noise keeps its power.
fn each_row<T: Real>(raw: &Raw<T>, length: usize, shape: &[f64], mut take: impl FnMut(&[T])) {
    let norm = 1.0 / shape.iter().map(|w| w * w).sum::<f64>().sqrt();
    let window: Vec<T> = shape.iter().map(|w| T::of(w * norm)).collect();
    let hop = length / 2;
    let count = if raw.len() < length { 0 } else { (raw.len() - length) / hop + 1 };
    let fft: Arc<dyn Fft<T>> = T::kernel(length, FftDirection::Forward);
    let at_once = (BATCH / length).max(1);
    let zero = Complex::new(T::zero(), T::zero());
    let mut scratch = vec![zero; fft.get_inplace_scratch_len()];
    let mut buffer = vec![zero; at_once * length];
    match raw {
        Raw::Complex(x) => {
            let mut row = vec![T::zero(); length];
            for first in (0..count).step_by(at_once) {
                let some = at_once.min(count - first);
                for (i, block) in buffer.chunks_exact_mut(length).take(some).enumerate() {
                    let from = (first + i) * hop;
                    for ((b, x), w) in block.iter_mut().zip(&x[from..from + length]).zip(&window) {
                        *b = Complex::new(x.re * *w, x.im * *w);
                    }
                }
                let used = &mut buffer[..some * length];
                fft.process_with_scratch(used, &mut scratch);
                for block in used.chunks_exact(length) {
                    row.iter_mut().zip(block).for_each(|(p, z)| *p = z.norm_sqr());
                    take(&row);
                }
            }
        }
        Raw::Real(x) => {
            // Two real blocks make one complex one: A = (Z + Z*')/2, B = (Z - Z*')/2i.
            let mut rows = [vec![T::zero(); length / 2 + 1], vec![T::zero(); length / 2 + 1]];
            for first in (0..count).step_by(2 * at_once) {
                let some = (2 * at_once).min(count - first);
                for (i, block) in buffer.chunks_exact_mut(length).take(some.div_ceil(2)).enumerate()
                {
                    let from = (first + 2 * i) * hop;
                    let a = &x[from..from + length];
                    if 2 * i + 1 < some {
                        let b = &x[from + hop..from + hop + length];
                        for (((z, a), b), w) in block.iter_mut().zip(a).zip(b).zip(&window) {
                            *z = Complex::new(*a * *w, *b * *w);
                        }
                    } else {
                        for ((z, a), w) in block.iter_mut().zip(a).zip(&window) {
                            *z = Complex::new(*a * *w, T::zero());
                        }
                    }
                }
                let used = &mut buffer[..some.div_ceil(2) * length];
                fft.process_with_scratch(used, &mut scratch);
                for (i, block) in used.chunks_exact(length).enumerate() {
                    split(block, &mut rows);
                    take(&rows[0]);
                    if 2 * i + 1 < some {
                        take(&rows[1]);
                    }
                }
            }
        }
    }
}

/// Power of the two real blocks of a complex one.
fn split<T: Real>(block: &[Complex<T>], rows: &mut [Vec<T>; 2]) {
    let quarter = T::of(0.25);
    let length = block.len();
    let [first, second] = rows;
    first[0] = block[0].re * block[0].re;
    second[0] = block[0].im * block[0].im;
    let backwards = block[1..].iter().rev();
    let ahead = block[1..=length / 2].iter().zip(backwards);
    for (((z, m), a), b) in ahead.zip(&mut first[1..]).zip(&mut second[1..]) {
        let (sum, difference) =
            (Complex::new(z.re + m.re, z.im - m.im), Complex::new(z.re - m.re, z.im + m.im));
        *a = quarter * sum.norm_sqr();
        *b = quarter * difference.norm_sqr();
    }
}

/// The plane of power over time and frequency.
fn blocks_of<T: Real>(raw: &Raw<T>, length: usize, wide: bool) -> Blocks {
    let hop = length / 2;
    let count = if raw.len() < length { 0 } else { (raw.len() - length) / hop + 1 };
    let channels = if matches!(raw, Raw::Real(_)) { length / 2 + 1 } else { length };
    let mut power = Vec::with_capacity(count * channels);
    each_row(raw, length, &block_window(length, wide), |row: &[T]| {
        power.extend(row.iter().map(|p| p.wide() as f32));
    });
    Blocks { length, hop, count, channels, wide, power }
}

/// A floor that tells which channels of the blocks can be judged: a few bins for each of them are
/// enough. Beside it the length of the record that has so many bins.
fn coarse_floor(layout: &Layout, mean: &[f64], frames: u64) -> (Floor, usize) {
    /// Bins for each channel of the longest blocks.
    const FINE: usize = 4;
    let long = layout.blocks.last().copied().unwrap_or(layout.frame / FINE);
    let every = (layout.frame / (FINE * long)).max(1);
    let joined: Vec<f64> =
        mean.chunks(every).map(|c| c.iter().sum::<f64>() / c.len() as f64 + 1e-30).collect();
    let spectra = frames.max(1) as f64 * (every as f64 / correlated_bins()).max(1.0);
    let correlated = (correlated_bins() / every as f64).max(1.0);
    let mut floor = Floor::of_mean(&joined, layout.real, correlated, spectra);
    lift_lowest(&mut floor, &joined, layout.real);
    (floor, layout.frame / every)
}

/// Raises the floor of the lowest frequencies to the power that is there: the first cell covers several
/// channels of the blocks, the floor may be steep in it, and what matters is what leaks from there.
pub(super) fn lift_lowest(floor: &mut Floor, power: &[f64], real: bool) {
    if real {
        let end = floor.cells[0].high.min(power.len());
        floor.density[..end].iter_mut().zip(power).for_each(|(d, p)| *d = d.max(*p));
    }
}

/// Mean power of each channel.
fn mean_power(blocks: &Blocks) -> Vec<f32> {
    let mut sum = vec![0.0f32; blocks.channels];
    for row in blocks.power.chunks_exact(blocks.channels) {
        sum.iter_mut().zip(row).for_each(|(s, p)| *s += p);
    }
    sum.iter().map(|s| s / blocks.count.max(1) as f32).collect()
}

/// Usual power of so many groups of channels: a quantile over time.
fn levels(blocks: &Blocks, groups: usize) -> Vec<f32> {
    let width = (blocks.channels / groups).max(1);
    let every = (blocks.count / SAMPLED).max(1);
    let rows: Vec<usize> = (0..blocks.count).step_by(every).collect();
    let mut table = vec![0.0f32; groups * rows.len()];
    for (i, &b) in rows.iter().enumerate() {
        for (g, part) in blocks.row(b).chunks_exact(width).take(groups).enumerate() {
            table[g * rows.len() + i] = part.iter().sum::<f32>() / width as f32;
        }
    }
    let rank = (QUIET * rows.len() as f64) as usize;
    table
        .chunks_exact_mut(rows.len().max(1))
        .map(|values| *values.select_nth_unstable_by(rank, f32::total_cmp).1)
        .collect()
}
