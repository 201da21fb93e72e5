//! Power over time and frequency: short windowed blocks, half overlapped.

use super::vector::{running_sums, vectorized};
use crate::cpu::threads;
use crate::dense::Real;
use crate::{Complex, Error};
use rustfft::{Fft, FftDirection};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Power of every channel in every block.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Samples of a block.
    pub(super) length: usize,
    /// Samples from one block to the next.
    pub(super) hop: usize,
    /// Blocks.
    pub(super) count: usize,
    /// Channels: length/2+1 for real samples, else the length.
    pub(super) channels: usize,
    /// Whether the window is Hann squared, for floors that span a wide range.
    pub(super) wide: bool,
    /// Power, block after block; white noise of power σ² has the mean σ².
    pub(super) power: Vec<f32>,
}

/// Samples of either kind.
#[derive(Clone, Copy)]
pub(super) enum Record<'a> {
    Real(&'a [f64]),
    Complex(&'a [Complex<f64>]),
}

impl Record<'_> {
    /// The samples as real numbers: of complex ones both parts in turn.
    pub(super) fn values(&self) -> &[f64] {
        match self {
            Record::Real(x) => x,
            // SAFETY: a complex number is laid out as its two parts.
            Record::Complex(x) => unsafe {
                std::slice::from_raw_parts(x.as_ptr().cast(), 2 * x.len())
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Record::Real(x) => x.len(),
            Record::Complex(x) => x.len(),
        }
    }
}

/// The window of blocks, of unit energy.
pub(super) fn block_window(length: usize, wide: bool) -> Vec<f64> {
    let hann = |i: usize| 0.5 - 0.5 * (TAU * i as f64 / length as f64).cos();
    let w: Vec<f64> = (0..length).map(|i| if wide { hann(i).powi(2) } else { hann(i) }).collect();
    let norm = w.iter().map(|w| w * w).sum::<f64>().sqrt();
    w.iter().map(|w| w / norm).collect()
}

/// Rows that one thread transforms at a time: even, so that real blocks go in pairs.
const ROWS: usize = 512;
/// Samples that are transformed in one call.
const BATCH: usize = 1 << 11;

impl Blocks {
    /// The blocks of this length. Samples are multiplied by `scale`, which keeps powers within what
    /// 32-bit numbers hold; rounding of 32-bit transforms lies 140 dB below the strongest channel.
    pub(super) fn of(
        record: Record<'_>,
        length: usize,
        wide: bool,
        scale: f64,
    ) -> Result<Self, Error> {
        let hop = length / 2;
        let n = record.len();
        let count = if n < length { 0 } else { (n - length) / hop + 1 };
        let real = matches!(record, Record::Real(_));
        let channels = if real { length / 2 + 1 } else { length };
        let mut power = crate::dense::zeroed_reals::<f32>((count * channels) as u64, n as u64)?;
        let window: Vec<f64> = block_window(length, wide).iter().map(|w| w * scale).collect();
        let fft = f32::kernel(length, FftDirection::Forward);
        let mut parts: Vec<(usize, &mut [f32])> =
            power.chunks_mut(ROWS * channels).enumerate().collect();
        threads::map_mut(&mut parts, n as u64, |(part, rows)| {
            let first = *part * ROWS * hop;
            let mut worker = Worker::new(fft.clone(), &window);
            match record {
                Record::Complex(x) => worker.complex(&x[first..], rows),
                Record::Real(x) => worker.real(&x[first..], rows),
            }
        });
        Ok(Blocks { length, hop, count, channels, wide, power })
    }

    /// The channels of a block.
    pub(super) fn row(&self, block: usize) -> &[f32] {
        &self.power[block * self.channels..(block + 1) * self.channels]
    }

    /// Share of the time that carries the power of each channel, 1 where it is steady: what is
    /// there rarely has few degrees of freedom.
    pub(super) fn steadiness(&self) -> Vec<f64> {
        /// Enough blocks to tell a tenth; more would only cost time.
        const SAMPLED: usize = 1024;
        let width = self.channels.min(9);
        let before = width / 2;
        let (mut sums, mut squares) = (vec![0.0; self.channels], vec![0.0; self.channels]);
        let every = self.count.div_ceil(SAMPLED).max(1);
        let (mut padded, mut doubled, mut smooth) = (Vec::new(), Vec::new(), Vec::new());
        let mut used = 0.0;
        for block in (0..self.count).step_by(every) {
            // Means over neighbours; the ends are continued.
            let row = self.row(block);
            padded.clear();
            padded.resize(before, row[0]);
            padded.extend_from_slice(row);
            padded.resize(self.channels + width - 1, row[row.len() - 1]);
            running_sums(&padded, width, &mut doubled, &mut smooth);
            add_moments(&smooth, 1.0 / width as f32, &mut sums, &mut squares);
            used += 1.0;
        }
        let least = 1.0 / self.count.max(1) as f64;
        let share = |(sum, square): (&f64, &f64)| {
            (1.25 * sum * sum / (used * square).max(1e-300)).clamp(least, 1.0)
        };
        sums.iter().zip(&squares).map(share).collect()
    }
}

vectorized! {
    /// Adds scaled values and their squares to sums.
    fn add_moments(values: &[f32], scale: f32, sums: &mut [f64], squares: &mut [f64]) {
        for ((sum, square), v) in sums.iter_mut().zip(squares).zip(values) {
            let s = f64::from(scale * v);
            *sum += s;
            *square += s * s;
        }
    }
}

/// Transforms blocks, with buffers that are kept.
struct Worker<'a> {
    fft: Arc<dyn Fft<f32>>,
    window: &'a [f64],
    buffer: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

impl<'a> Worker<'a> {
    fn new(fft: Arc<dyn Fft<f32>>, window: &'a [f64]) -> Self {
        let scratch = vec![Complex::ZERO; fft.get_inplace_scratch_len()];
        let blocks = (BATCH / window.len()).max(1);
        Worker { fft, window, buffer: vec![Complex::ZERO; blocks * window.len()], scratch }
    }

    /// Rows of complex samples, one block each.
    fn complex(&mut self, x: &[Complex<f64>], rows: &mut [f32]) {
        let length = self.window.len();
        for (batch, rows) in rows.chunks_mut(self.buffer.len()).enumerate() {
            let first = batch * self.buffer.len() / 2;
            let buffer = &mut self.buffer[..rows.len()];
            for (b, block) in buffer.chunks_exact_mut(length).enumerate() {
                weigh_complex(&x[first + b * length / 2..], self.window, block);
            }
            self.fft.process_with_scratch(buffer, &mut self.scratch);
            squares(buffer, rows);
        }
    }

    /// Rows of real samples, two blocks as real and imaginary part.
    fn real(&mut self, x: &[f64], rows: &mut [f32]) {
        let length = self.window.len();
        let (hop, channels) = (length / 2, length / 2 + 1);
        let pairs = self.buffer.len() / length;
        for (batch, rows) in rows.chunks_mut(2 * pairs * channels).enumerate() {
            let first = batch * 2 * pairs * hop;
            let count = rows.len() / channels;
            let buffer = &mut self.buffer[..count.div_ceil(2) * length];
            for (pair, block) in buffer.chunks_exact_mut(length).enumerate() {
                let start = first + 2 * pair * hop;
                let a = &x[start..start + length];
                // The last one may stand alone.
                let alone = 2 * pair + 1 == count;
                let b = if alone { a } else { &x[start + hop..start + hop + length] };
                weigh_pair(a, b, self.window, block);
            }
            self.fft.process_with_scratch(buffer, &mut self.scratch);
            for (two, z) in rows.chunks_mut(2 * channels).zip(buffer.chunks_exact(length)) {
                let (first, second) = two.split_at_mut(channels);
                part_pair(z, first, second);
            }
        }
    }
}

vectorized! {
    fn weigh_complex(x: &[Complex<f64>], window: &[f64], out: &mut [Complex<f32>]) {
        for ((z, x), w) in out.iter_mut().zip(x).zip(window) {
            *z = Complex::new((x.re * w) as f32, (x.im * w) as f32);
        }
    }
}

vectorized! {
    fn weigh_pair(a: &[f64], b: &[f64], window: &[f64], out: &mut [Complex<f32>]) {
        for (((z, a), b), w) in out.iter_mut().zip(a).zip(b).zip(window) {
            *z = Complex::new((a * w) as f32, (b * w) as f32);
        }
    }
}

vectorized! {
    fn squares(z: &[Complex<f32>], out: &mut [f32]) {
        for (p, z) in out.iter_mut().zip(z) {
            *p = z.re * z.re + z.im * z.im;
        }
    }
}

vectorized! {
    /// The powers of two real blocks from the transform Z of both as real and imaginary part:
    /// A = (Z + Z*')/2, B = (Z - Z*')/2i, Z*' the conjugate at the mirrored bin. `second` may be
    /// empty.
    fn part_pair(z: &[Complex<f32>], first: &mut [f32], second: &mut [f32]) {
        let half = z.len() / 2;
        let mirrored = |k: usize| z[(z.len() - k) % z.len()];
        let sum = |a: Complex<f32>, b: Complex<f32>| {
            let (re, im) = (a.re + b.re, a.im - b.im);
            0.25 * (re * re + im * im)
        };
        let difference = |a: Complex<f32>, b: Complex<f32>| {
            let (re, im) = (a.re - b.re, a.im + b.im);
            0.25 * (re * re + im * im)
        };
        for k in [0, half] {
            first[k] = sum(z[k], mirrored(k));
        }
        let pairs = || z[1..half].iter().zip(z[half + 1..].iter().rev());
        for (p, (a, b)) in first[1..half].iter_mut().zip(pairs()) {
            *p = sum(*a, *b);
        }
        if second.is_empty() {
            return;
        }
        for k in [0, half] {
            second[k] = difference(z[k], mirrored(k));
        }
        for (p, (a, b)) in second[1..half].iter_mut().zip(pairs()) {
            *p = difference(*a, *b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_blocks_have_the_power_of_complex_ones() {
        let x: Vec<f64> = (0..1000).map(|t| ((t * t) as f64 * 0.013).sin() + 0.1).collect();
        let z: Vec<Complex<f64>> = x.iter().map(|&v| v.into()).collect();
        let a = Blocks::of(Record::Real(&x), 64, false, 1.0).unwrap();
        let b = Blocks::of(Record::Complex(&z), 64, false, 1.0).unwrap();
        assert_eq!((a.count, a.channels, b.channels), (30, 33, 64));
        // An odd number of blocks: the last one has no partner.
        let c = Blocks::of(Record::Real(&x[..960]), 64, false, 1.0).unwrap();
        assert_eq!(c.count, 29);
        assert!(c.row(28).iter().zip(a.row(28)).all(|(c, a)| (c - a).abs() < 1e-5));
        for block in 0..a.count {
            for k in 0..a.channels {
                assert!((a.row(block)[k] - b.row(block)[k]).abs() < 1e-5, "{block} {k}");
            }
        }
    }
}
