//! Power over time and frequency: short windowed blocks, half overlapped.

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

impl Blocks {
    /// The blocks of this length. Samples are multiplied by `scale`, which keeps powers within what
    /// 32-bit numbers hold.
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
        let mut power: Vec<f32> = Vec::new();
        power.try_reserve_exact(count * channels).map_err(|_| Error::OutOfMemory {
            n: n as u64,
            bytes: 4 * (count * channels) as u128,
        })?;
        power.resize(count * channels, 0.0);
        let window: Vec<f64> = block_window(length, wide).iter().map(|w| w * scale).collect();
        let fft = f64::kernel(length, FftDirection::Forward);
        // Two real blocks make one complex one.
        let at_once = if real { 2 } else { 1 };
        let mut worker = Worker::new(fft, &window);
        for (i, rows) in power.chunks_mut(at_once * channels).enumerate() {
            let start = i * at_once * hop;
            match record {
                Record::Complex(x) => worker.complex(&x[start..start + length], rows),
                Record::Real(x) => {
                    let second =
                        (rows.len() > channels).then(|| &x[start + hop..start + hop + length]);
                    worker.real(&x[start..start + length], second, rows);
                }
            }
        }
        Ok(Blocks { length, hop, count, channels, wide, power })
    }

    /// The channels of a block.
    pub(super) fn row(&self, block: usize) -> &[f32] {
        &self.power[block * self.channels..(block + 1) * self.channels]
    }

    /// Share of the time that carries the power of each channel, 1 where it is steady: what is
    /// there rarely has few degrees of freedom.
    pub(super) fn steadiness(&self) -> Vec<f64> {
        let width = self.channels.min(9);
        let (mut sums, mut squares) = (vec![0.0; self.channels], vec![0.0; self.channels]);
        let mut smooth = vec![0.0; self.channels];
        // Enough blocks to tell a tenth; more would only cost time.
        let every = self.count.div_ceil(4096).max(1);
        let mut used = 0.0;
        for block in (0..self.count).step_by(every) {
            mean_of_neighbours(self.row(block), width, &mut smooth);
            for ((sum, square), s) in sums.iter_mut().zip(&mut squares).zip(&smooth) {
                *sum += s;
                *square += s * s;
            }
            used += 1.0;
        }
        let least = 1.0 / self.count.max(1) as f64;
        let share = |(sum, square): (&f64, &f64)| {
            (1.25 * sum * sum / (used * square).max(1e-300)).clamp(least, 1.0)
        };
        sums.iter().zip(&squares).map(share).collect()
    }
}

/// Means over so many neighbours; the ends are continued.
fn mean_of_neighbours(row: &[f32], width: usize, out: &mut [f64]) {
    let last = row.len() as isize - 1;
    let before = (width / 2) as isize;
    let at = |i: isize| f64::from(row[i.clamp(0, last) as usize]);
    let mut sum: f64 = (0..width as isize).map(|j| at(j - before)).sum();
    for (i, out) in (0isize..).zip(out) {
        *out = sum / width as f64;
        sum += at(i + width as isize - before) - at(i - before);
    }
}

/// Transforms blocks, with buffers that are kept.
struct Worker<'a> {
    fft: Arc<dyn Fft<f64>>,
    window: &'a [f64],
    buffer: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl<'a> Worker<'a> {
    fn new(fft: Arc<dyn Fft<f64>>, window: &'a [f64]) -> Self {
        let scratch = vec![Complex::ZERO; fft.get_inplace_scratch_len()];
        Worker { fft, window, buffer: vec![Complex::ZERO; window.len()], scratch }
    }

    fn complex(&mut self, x: &[Complex<f64>], row: &mut [f32]) {
        for ((b, x), w) in self.buffer.iter_mut().zip(x).zip(self.window) {
            *b = x * w;
        }
        self.fft.process_with_scratch(&mut self.buffer, &mut self.scratch);
        for (p, b) in row.iter_mut().zip(&self.buffer) {
            *p = b.norm_sqr() as f32;
        }
    }

    /// Two blocks as real and imaginary part: A = (Z + Z*')/2, B = (Z - Z*')/2i, Z*' the conjugate
    /// at the mirrored bin.
    fn real(&mut self, a: &[f64], b: Option<&[f64]>, rows: &mut [f32]) {
        for (i, (z, w)) in self.buffer.iter_mut().zip(self.window).enumerate() {
            *z = Complex::new(a[i] * w, b.map_or(0.0, |b| b[i] * w));
        }
        self.fft.process_with_scratch(&mut self.buffer, &mut self.scratch);
        let length = self.buffer.len();
        let channels = length / 2 + 1;
        let (first, second) = rows.split_at_mut(channels);
        for (k, p) in first.iter_mut().enumerate() {
            let z = self.buffer[k];
            let mirrored = self.buffer[(length - k) % length].conj();
            *p = (0.25 * (z + mirrored).norm_sqr()) as f32;
            if let Some(p) = second.get_mut(k) {
                *p = (0.25 * (z - mirrored).norm_sqr()) as f32;
            }
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
        for block in 0..a.count {
            for k in 0..a.channels {
                assert!((a.row(block)[k] - b.row(block)[k]).abs() < 1e-5, "{block} {k}");
            }
        }
    }
}
