//! Real signals: n/2+1 coefficients, from one complex transform of half the length.
//!
//! For even n = 2h let z\[j\] = x\[2j\] + i·x\[2j+1\] and Z its transform. Then
//! X\[k\] = E + w^k·O with E = (Z\[k\] + conj Z\[h-k\])/2, O = (Z\[k\] - conj Z\[h-k\])/2i and
//! w = e^{-2πi/n}. The pairs (k, h-k) are combined in place. Odd n takes the complex transform.

use super::memory::zeroed;
use super::roots::Roots;
use super::threads::{Shared, Threads, for_each};
use super::{Direction, Fft, Real, Workspace, buffer_length};
use crate::Error;
use crate::spectrum::Norm;
use num_complex::Complex;
use std::sync::Arc;

/// A dense transform of n real values to and from n/2+1 coefficients, planned.
#[derive(Debug, Clone)]
pub struct RealFft<T: Real> {
    n: u64,
    norm: Norm,
    threads: Threads,
    complex: Fft<T>,
    roots: Arc<Roots>,
}

/// Pairs per piece of work.
const CHUNK: usize = 1 << 13;

impl<T: Real> RealFft<T> {
    /// Plans transforms of n real values.
    ///
    /// # Errors
    /// As [`Fft::new`].
    pub fn new(n: u64) -> Result<Self, Error> {
        let complex = Fft::new(if n.is_multiple_of(2) { n / 2 } else { n })?;
        let roots = Arc::new(if n.is_multiple_of(2) { Roots::new(n) } else { Roots::new(1) });
        Ok(RealFft { n, norm: Norm::Backward, threads: Threads::All, complex, roots })
    }

    /// The same plan with another place for the factor 1/n.
    pub fn norm(mut self, norm: Norm) -> Self {
        self.norm = norm;
        self
    }

    /// The same plan on these threads.
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self.complex = self.complex.threads(threads);
        self
    }

    /// n, the number of real values.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> u64 {
        self.n
    }

    /// n/2+1, the number of coefficients; the others are their conjugates.
    pub fn coefficients(&self) -> u64 {
        self.n / 2 + 1
    }

    /// The coefficients 0 … n/2 of n real samples.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are not n samples, [`Error::BufferLength`] if there is
    /// not room for n/2+1 coefficients, [`Error::OutOfMemory`].
    pub fn forward(&self, input: &[T], output: &mut [Complex<T>]) -> Result<(), Error> {
        self.forward_with(input, output, &mut Workspace::new())
    }

    /// [`forward`](RealFft::forward) with buffers that are kept.
    ///
    /// # Errors
    /// As [`forward`](RealFft::forward).
    pub fn forward_with(
        &self,
        input: &[T],
        output: &mut [Complex<T>],
        workspace: &mut Workspace<T>,
    ) -> Result<(), Error> {
        if input.len() as u64 != self.n {
            return Err(Error::LengthMismatch { expected: self.n, got: input.len() as u64 });
        }
        buffer_length("output", self.coefficients(), output.len())?;
        let scale = T::of(self.norm.factor(self.n, Direction::Forward));
        if self.n % 2 == 1 {
            let mut full = zeroed::<T>(self.n, self.n)?;
            for (z, &x) in full.iter_mut().zip(input) {
                z.re = x;
            }
            let start = full.as_mut_ptr();
            // SAFETY: the buffer holds one signal and is input and output.
            unsafe { self.complex.run(Direction::Forward, start, start, 1, scale, workspace)? };
            output.copy_from_slice(&full[..output.len()]);
            output[0].im = T::zero();
            return Ok(());
        }
        let h = input.len() / 2;
        // SAFETY: the input holds h pairs, laid out as complex values are, and the output has room
        // for h of them; they are disjoint.
        unsafe {
            let pairs: *const Complex<T> = input.as_ptr().cast();
            let to = output.as_mut_ptr();
            self.complex.run(Direction::Forward, pairs, to, 1, scale, workspace)?;
        }
        let z = output[0];
        output[0] = Complex::new(z.re + z.im, T::zero());
        output[h] = Complex::new(z.re - z.im, T::zero());
        let half = T::of(0.5);
        let z = Shared(output.as_mut_ptr());
        self.pairs(h, |k| {
            // SAFETY: k and h-k lie inside the output and belong to this pair alone.
            let (a, b) = unsafe { (&mut *z.at(k), z.at(h - k)) };
            // SAFETY: as above; for k = h/2 both are the same place, read before it is written.
            let (p, q) = unsafe { (*a, (*b).conj()) };
            let even = (p + q).scale(half);
            let odd = self.turn(p - q, k, Direction::Forward).scale(half);
            // -i·odd
            let odd = Complex::new(odd.im, -odd.re);
            *a = even + odd;
            if k != h - k {
                // SAFETY: as above.
                unsafe { *b = (even - odd).conj() };
            }
        });
        Ok(())
    }

    /// n real values from the coefficients 0 … n/2. The imaginary parts of the first, and of the
    /// last for even n, count as zero.
    ///
    /// # Errors
    /// [`Error::BufferLength`] if there are not n/2+1 coefficients or n places,
    /// [`Error::OutOfMemory`].
    pub fn inverse(&self, input: &[Complex<T>], output: &mut [T]) -> Result<(), Error> {
        self.inverse_with(input, output, &mut Workspace::new())
    }

    /// [`inverse`](RealFft::inverse) with buffers that are kept.
    ///
    /// # Errors
    /// As [`inverse`](RealFft::inverse).
    pub fn inverse_with(
        &self,
        input: &[Complex<T>],
        output: &mut [T],
        workspace: &mut Workspace<T>,
    ) -> Result<(), Error> {
        buffer_length("input", self.coefficients(), input.len())?;
        buffer_length("output", self.n, output.len())?;
        let scale = T::of(self.norm.factor(self.n, Direction::Inverse));
        if self.n % 2 == 1 {
            let n = output.len();
            let mut full = zeroed::<T>(self.n, self.n)?;
            full[0].re = input[0].re;
            for (k, &v) in input.iter().enumerate().skip(1) {
                full[k] = v;
                full[n - k] = v.conj();
            }
            let start = full.as_mut_ptr();
            // SAFETY: the buffer holds one signal and is input and output.
            unsafe { self.complex.run(Direction::Inverse, start, start, 1, scale, workspace)? };
            for (x, z) in output.iter_mut().zip(&full) {
                *x = z.re;
            }
            return Ok(());
        }
        let h = output.len() / 2;
        let z: *mut Complex<T> = output.as_mut_ptr().cast();
        let (first, last) = (input[0].re, input[h].re);
        // SAFETY: the output holds h pairs, laid out as complex values are.
        unsafe { *z = Complex::new(first + last, first - last) };
        let shared = Shared(z);
        self.pairs(h, |k| {
            let (p, q) = (input[k], input[h - k].conj());
            let even = p + q;
            let odd = self.turn(p - q, k, Direction::Inverse);
            // i·odd
            let odd = Complex::new(-odd.im, odd.re);
            // SAFETY: k and h-k lie inside the output and belong to this pair alone.
            unsafe {
                *shared.at(k) = even + odd;
                if k != h - k {
                    *shared.at(h - k) = (even - odd).conj();
                }
            }
        });
        // SAFETY: the output holds one signal of h complex values and is input and output.
        unsafe { self.complex.run(Direction::Inverse, z, z, 1, scale, workspace) }
    }

    /// v·w^k, or v·conj w^k on the way back.
    #[inline]
    fn turn(&self, v: Complex<T>, k: usize, direction: Direction) -> Complex<T> {
        let w = self.roots.get(k as u64);
        let w: Complex<T> = super::scalar::narrow(match direction {
            Direction::Forward => w,
            Direction::Inverse => w.conj(),
        });
        v * w
    }

    /// Runs `work(k)` for the pairs (k, h-k), 1 ≤ k ≤ h/2.
    fn pairs(&self, h: usize, work: impl Fn(usize) + Sync) {
        let pairs = h / 2;
        let pieces = pairs.div_ceil(CHUNK);
        for_each((0..self.threads.count(pieces)).map(|_| ()), pieces, |(), piece| {
            let start = piece * CHUNK;
            for k in start..pairs.min(start + CHUNK) {
                work(k + 1);
            }
        });
    }
}
