//! Lengths without a balanced split: a convolution of a length that has one.
//!
//! t·f = (t² + f² - (f-t)²)/2, so with c\[t\] = e^{-πi t²/n}
//! X\[f\] = c\[f\] · Σ_t (x\[t\] c\[t\]) · conj c\[f-t\]
//!
//! 1. multiply by c and pad with zeros to m ≥ 2n-1,
//! 2. transform, multiply by the transform of conj c, transform back,
//! 3. multiply by c.

use super::four_step::{FourStep, SLACK, aligned, balanced};
use super::memory::zeroed;
use super::roots::Roots;
use super::scalar::{Real, narrow};
use super::threads::{Threads, for_each_chunk};
use crate::Error;
use num_complex::Complex;
use rustfft::FftDirection;
use rustfft::num_traits::Zero;

/// A transform of any length in one direction.
pub(crate) struct Bluestein<T: Real> {
    m: usize,
    /// c\[t\], conjugated for the inverse direction.
    chirp: Vec<Complex<T>>,
    /// The transform of conj c over m places, divided by m.
    response: Vec<Complex<T>>,
    forward: FourStep<T>,
    inverse: FourStep<T>,
}

/// The shortest of 8·2^a, 9·2^a, 10·2^a and 12·2^a that is at least 2n-1.
pub(crate) fn padded(n: u64) -> u64 {
    let need = 2 * n - 1;
    let power = need.next_power_of_two().max(16) / 16;
    [8, 9, 10, 12, 16].into_iter().map(|f| f * power).find(|&m| m >= need).unwrap_or(16 * power)
}

impl<T: Real> Bluestein<T> {
    pub(crate) fn new(n: u64, direction: FftDirection, threads: Threads) -> Result<Self, Error> {
        let m = padded(n);
        let (n1, n2) = balanced(m).unwrap_or((1, m as usize));
        let forward = FourStep::new(n1, n2, FftDirection::Forward);
        let inverse = FourStep::new(n1, n2, FftDirection::Inverse);
        let roots = Roots::new(2 * n);
        let mut chirp = zeroed::<T>(n, n)?;
        for_each_chunk(threads, &mut chirp, |start, chunk| {
            for (i, c) in chunk.iter_mut().enumerate() {
                let t = (start + i) as u128;
                let w = roots.get((t * t % (2 * n as u128)) as u64);
                *c = narrow(if direction == FftDirection::Forward { w } else { w.conj() });
            }
        });
        let m = m as usize;
        let mut response = zeroed::<T>(m as u64, n)?;
        for (t, c) in chirp.iter().enumerate() {
            response[t] = c.conj();
            response[(m - t) % m] = c.conj();
        }
        let mut work = zeroed::<T>((m + SLACK) as u64, n)?;
        let mut tiles = zeroed::<T>((forward.threads(threads) * forward.tile_len()) as u64, n)?;
        let data = response.as_mut_ptr();
        // SAFETY: `response` holds m values and is input and output.
        unsafe { forward.run(data, data, &mut work, &mut tiles, T::of(1.0 / m as f64)) };
        Ok(Bluestein { m, chirp, response, forward, inverse })
    }

    /// Length of the work buffer, which holds the padded signal and the middle of its transform.
    pub(crate) fn work_len(&self) -> usize {
        2 * (self.m + SLACK)
    }

    pub(crate) fn tile_len(&self) -> usize {
        self.forward.tile_len().max(self.inverse.tile_len())
    }

    pub(crate) fn threads(&self, threads: Threads) -> usize {
        self.forward.threads(threads)
    }

    /// output = scale · transform of input.
    ///
    /// # Safety
    /// As [`FourStep::run`], with `work` of [`work_len`](Self::work_len) values.
    pub(crate) unsafe fn run(
        &self,
        input: *const Complex<T>,
        output: *mut Complex<T>,
        work: &mut [Complex<T>],
        tiles: &mut [Complex<T>],
        scale: T,
        threads: Threads,
    ) {
        let n = self.chirp.len();
        let (padded, middle) = aligned(work).split_at_mut(self.m);
        {
            // SAFETY: the caller promises n values; the output is written only after this block.
            let input = unsafe { std::slice::from_raw_parts(input, n) };
            for_each_chunk(threads, padded, |start, chunk| {
                for (i, z) in chunk.iter_mut().enumerate() {
                    let t = start + i;
                    *z = if t < n { input[t] * self.chirp[t] } else { Complex::zero() };
                }
            });
        }
        let data = padded.as_mut_ptr();
        // SAFETY: the padded signal has m values and is input and output.
        unsafe { self.forward.run(data, data, middle, tiles, T::one()) };
        for_each_chunk(threads, padded, |start, chunk| {
            for (z, r) in chunk.iter_mut().zip(&self.response[start..]) {
                *z = *z * r;
            }
        });
        let data = padded.as_mut_ptr();
        // SAFETY: as above.
        unsafe { self.inverse.run(data, data, middle, tiles, scale) };
        // SAFETY: the caller promises n values, and no slice of the input is alive.
        let output = unsafe { std::slice::from_raw_parts_mut(output, n) };
        let padded = &*padded;
        for_each_chunk(threads, output, |start, chunk| {
            for (i, z) in chunk.iter_mut().enumerate() {
                *z = padded[start + i] * self.chirp[start + i];
            }
        });
    }
}
