//! The dense FFT: all n coefficients, any n, f32 and f64, over all cores.
//!
//! ```
//! use sparsefft::Complex;
//! use sparsefft::dense::{Fft, RealFft, top_k};
//!
//! let n = 1 << 16;
//! let plan = Fft::new(n)?; // planned once, used often, from many threads
//! let mut x: Vec<Complex<f64>> = (0..n).map(|t| Complex::cis((t % 16) as f64)).collect();
//! let before = x.clone();
//! plan.forward(&mut x)?; // in place
//! println!("{:?}", top_k(&x, 3)?);
//! plan.inverse(&mut x)?; // divided by n, as numpy has it
//! assert!(x.iter().zip(&before).all(|(a, b)| (a - b).norm() < 1e-12));
//!
//! let real = RealFft::<f32>::new(1000)?;
//! let mut half = vec![Complex::default(); 501];
//! real.forward(&[1.0; 1000], &mut half)?;
//! assert_eq!(half[0].re, 1000.0);
//! # Ok::<(), sparsefft::Error>(())
//! ```
//!
//! X\[f\] = Σ x\[t\] e^{-2πi ft/n}; [`Norm`] says where the factor 1/n goes. How it runs:
//! - short lengths: the kernels of RustFFT;
//! - powers of two from 2^14 on, with AVX2 or AVX-512: two passes over memory in vectors whose
//!   lanes are neighbouring columns (`vertical`), in tiles that stay in the cache, spread over the
//!   threads;
//! - other long lengths with divisors near √n: two such passes around RustFFT's kernels
//!   (`four_step`);
//! - other long lengths, such as primes: a convolution of a length of the second kind
//!   (`bluestein`).
//!
//! The way depends on n and the processor alone, so the result is bit-identical for every number
//! of threads. The extra memory is one buffer of n values for the second and third kind (one for
//! each thread in a batch of signals below 2^17), four of n to 2.7·n for the last, two of which are
//! the plan's; a [`Workspace`] keeps it between calls. [`FileFft`] transforms files that are larger
//! than memory.

mod bluestein;
mod four_step;
mod memory;
mod out_of_core;
mod real;
mod roots;
mod scalar;
mod threads;
mod top;
mod transpose;
#[cfg(target_arch = "x86_64")]
mod vertical;

pub use memory::{SignalBuffer, buffer};
pub use out_of_core::{FileFft, FilePart};
pub use real::RealFft;
pub use scalar::Real;
pub use threads::Threads;
pub use top::top_k;

pub(crate) use memory::{zeroed, zeroed_reals};
#[cfg(feature = "cuda")]
pub(crate) use roots::Roots;
#[cfg(any(feature = "cuda", target_arch = "x86_64"))]
pub(crate) use roots::root;
pub(crate) use scalar::narrow;

use crate::spectrum::Norm;
use crate::{Error, MAX_LEN};
use bluestein::Bluestein;
use four_step::{FourStep, SLACK, balanced};
use num_complex::Complex;
use rustfft::FftDirection;
use std::sync::{Arc, OnceLock};
pub(crate) use threads::Shared;
use threads::for_each;

/// From samples to coefficients, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// X\[f\] = Σ x\[t\] e^{-2πi ft/n}.
    Forward,
    /// x\[t\] = Σ X\[f\] e^{2πi ft/n}, with the factor that [`Norm`] names.
    Inverse,
}

impl Norm {
    /// The factor for a transform of n values in this direction.
    pub fn factor(self, n: u64, direction: Direction) -> f64 {
        match (self, direction) {
            (Norm::Backward, Direction::Forward) | (Norm::Forward, Direction::Inverse) => 1.0,
            (Norm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            (Norm::Backward, Direction::Inverse) | (Norm::Forward, Direction::Forward) => {
                1.0 / n as f64
            }
        }
    }
}

/// From this length on the two passes around RustFFT's kernels are faster than one of them alone,
/// on one thread (`examples/dense_bench.rs` measures it).
const LARGE: u64 = 1 << 20;

/// Signals shorter than this are not worth more than one thread each.
#[cfg(target_arch = "x86_64")]
const ALONE: u64 = 1 << 17;

/// How one direction of one length is computed.
enum Kernel<T: Real> {
    Short(Arc<dyn rustfft::Fft<T>>),
    #[cfg(target_arch = "x86_64")]
    Vertical(vertical::Vertical<T>),
    FourStep(FourStep<T>),
    Bluestein(Bluestein<T>),
}

impl<T: Real> Kernel<T> {
    fn new(n: u64, direction: FftDirection) -> Result<Self, Error> {
        #[cfg(target_arch = "x86_64")]
        if let Some(vertical) = vertical::Vertical::new(n, direction) {
            return Ok(Kernel::Vertical(vertical));
        }
        if n < LARGE {
            return Ok(Kernel::Short(T::kernel(n as usize, direction)));
        }
        match balanced(n) {
            Some((n1, n2)) => Ok(Kernel::FourStep(FourStep::new(n1, n2, direction))),
            // One thread: a plan is made under a lock, where waiting for other threads of the
            // pool could mean waiting for oneself.
            None => Ok(Kernel::Bluestein(Bluestein::new(n, direction, Threads::One)?)),
        }
    }
}

/// A dense transform of n values, planned.
///
/// Cheap to clone, and usable from many threads at once.
pub struct Fft<T: Real> {
    plans: Arc<Plans<T>>,
    norm: Norm,
    threads: Threads,
}

/// Both directions, each planned at its first use.
struct Plans<T: Real> {
    n: u64,
    forward: OnceLock<Result<Kernel<T>, Error>>,
    inverse: OnceLock<Result<Kernel<T>, Error>>,
}

/// Buffers that a transform needs beside its data; empty until used.
///
/// One workspace may serve plans of any length; it grows to the largest.
#[derive(Debug, Clone, Default)]
pub struct Workspace<T: Real> {
    work: Vec<Complex<T>>,
    tiles: Vec<Complex<T>>,
}

impl<T: Real> Workspace<T> {
    /// An empty workspace.
    pub fn new() -> Self {
        Workspace { work: Vec::new(), tiles: Vec::new() }
    }

    /// Makes room; what was in the buffers does not matter.
    fn grow(&mut self, work: usize, tiles: usize, n: u64) -> Result<(), Error> {
        for (buffer, need) in [(&mut self.work, work), (&mut self.tiles, tiles)] {
            if buffer.len() < need {
                *buffer = Vec::new();
                *buffer = zeroed(need as u64, n)?;
            }
        }
        Ok(())
    }
}

impl<T: Real> Clone for Fft<T> {
    fn clone(&self) -> Self {
        Fft { plans: self.plans.clone(), norm: self.norm, threads: self.threads }
    }
}

impl<T: Real> std::fmt::Debug for Fft<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fft")
            .field("n", &self.plans.n)
            .field("precision", &T::NAME)
            .field("norm", &self.norm)
            .field("threads", &self.threads)
            .finish()
    }
}

impl<T: Real> Fft<T> {
    /// Plans transforms of n values.
    ///
    /// # Errors
    /// [`Error::ZeroLength`] for n = 0, [`Error::LengthTooLarge`] beyond [`MAX_LEN`].
    pub fn new(n: u64) -> Result<Self, Error> {
        if n == 0 {
            return Err(Error::ZeroLength);
        }
        if n > MAX_LEN {
            return Err(Error::LengthTooLarge { n, max: MAX_LEN });
        }
        let plans = Plans { n, forward: OnceLock::new(), inverse: OnceLock::new() };
        Ok(Fft { plans: Arc::new(plans), norm: Norm::Backward, threads: Threads::All })
    }

    /// The same plan with another place for the factor 1/n.
    pub fn norm(mut self, norm: Norm) -> Self {
        self.norm = norm;
        self
    }

    /// The same plan on these threads.
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// n.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> u64 {
        self.plans.n
    }

    /// Transforms n samples in place.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are not n values, [`Error::OutOfMemory`] if the extra
    /// buffer cannot be had.
    pub fn forward(&self, data: &mut [Complex<T>]) -> Result<(), Error> {
        self.whole(data.len())?;
        self.batch(Direction::Forward, data, &mut Workspace::new())
    }

    /// Transforms n coefficients back, in place.
    ///
    /// # Errors
    /// As [`forward`](Fft::forward).
    pub fn inverse(&self, data: &mut [Complex<T>]) -> Result<(), Error> {
        self.whole(data.len())?;
        self.batch(Direction::Inverse, data, &mut Workspace::new())
    }

    /// Transforms n samples into another buffer.
    ///
    /// # Errors
    /// As [`forward`](Fft::forward), and [`Error::BufferLength`] if the output has not n places.
    pub fn forward_into(
        &self,
        input: &[Complex<T>],
        output: &mut [Complex<T>],
    ) -> Result<(), Error> {
        self.whole(input.len())?;
        self.batch_into(Direction::Forward, input, output, &mut Workspace::new())
    }

    /// Transforms n coefficients back into another buffer.
    ///
    /// # Errors
    /// As [`forward_into`](Fft::forward_into).
    pub fn inverse_into(
        &self,
        input: &[Complex<T>],
        output: &mut [Complex<T>],
    ) -> Result<(), Error> {
        self.whole(input.len())?;
        self.batch_into(Direction::Inverse, input, output, &mut Workspace::new())
    }

    /// Transforms signals of n values each, one behind the other, in place. With a workspace that
    /// has been used before, nothing large is allocated.
    ///
    /// # Errors
    /// [`Error::NotAMultiple`] if the data are no whole number of signals,
    /// [`Error::OutOfMemory`] if the extra buffer cannot be had.
    pub fn batch(
        &self,
        direction: Direction,
        data: &mut [Complex<T>],
        workspace: &mut Workspace<T>,
    ) -> Result<(), Error> {
        let count = self.signals(data.len())?;
        let scale = T::of(self.norm.factor(self.plans.n, direction));
        let start = data.as_mut_ptr();
        // SAFETY: `data` holds `count` signals and is input and output.
        unsafe { self.run(direction, start, start, count, scale, workspace) }
    }

    /// [`batch`](Fft::batch) into another buffer.
    ///
    /// # Errors
    /// As [`batch`](Fft::batch), and [`Error::BufferLength`] if the output has another length
    /// than the input.
    pub fn batch_into(
        &self,
        direction: Direction,
        input: &[Complex<T>],
        output: &mut [Complex<T>],
        workspace: &mut Workspace<T>,
    ) -> Result<(), Error> {
        let count = self.signals(input.len())?;
        buffer_length("output", input.len() as u64, output.len())?;
        let scale = T::of(self.norm.factor(self.plans.n, direction));
        // SAFETY: both buffers hold `count` signals and, as Rust references, are disjoint.
        unsafe { self.run(direction, input.as_ptr(), output.as_mut_ptr(), count, scale, workspace) }
    }

    fn whole(&self, got: usize) -> Result<(), Error> {
        let (expected, got) = (self.plans.n, got as u64);
        if expected == got { Ok(()) } else { Err(Error::LengthMismatch { expected, got }) }
    }

    fn signals(&self, got: usize) -> Result<usize, Error> {
        let (n, got) = (self.plans.n, got as u64);
        if got % n == 0 { Ok((got / n) as usize) } else { Err(Error::NotAMultiple { n, got }) }
    }

    fn kernel(&self, direction: Direction) -> Result<&Kernel<T>, Error> {
        let (cell, direction) = match direction {
            Direction::Forward => (&self.plans.forward, FftDirection::Forward),
            Direction::Inverse => (&self.plans.inverse, FftDirection::Inverse),
        };
        cell.get_or_init(|| Kernel::new(self.plans.n, direction)).as_ref().map_err(Error::clone)
    }

    /// output = scale · transform of input, for `count` signals.
    ///
    /// # Safety
    /// `input` may be read and `output` written for count·n values; they are the same or disjoint.
    unsafe fn run(
        &self,
        direction: Direction,
        input: *const Complex<T>,
        output: *mut Complex<T>,
        count: usize,
        scale: T,
        workspace: &mut Workspace<T>,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let n = self.plans.n as usize;
        let kernel = self.kernel(direction)?;
        // Many short signals: each on one thread, with a middle buffer of its own.
        #[cfg(target_arch = "x86_64")]
        let apart = count > 1 && self.plans.n < ALONE;
        let (work, threads, tile) = match kernel {
            Kernel::Short(fft) => (0, self.threads.count(count), fft.get_inplace_scratch_len()),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vertical(v) if apart => {
                (0, self.threads.count(count), v.tile_len() + n + SLACK)
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Vertical(v) => {
                let threads = if self.plans.n < ALONE { Threads::One } else { self.threads };
                (n + SLACK, v.threads(threads), v.tile_len())
            }
            Kernel::FourStep(f) => (n + SLACK, f.threads(self.threads), f.tile_len()),
            Kernel::Bluestein(b) => (b.work_len(), b.threads(self.threads), b.tile_len()),
        };
        let tile = tile.max(1);
        workspace.grow(work, threads * tile, self.plans.n)?;
        let tiles = &mut workspace.tiles[..threads * tile];
        let work = &mut workspace.work;
        match kernel {
            Kernel::Short(fft) => {
                let (input, output) = (Shared(input.cast_mut()), Shared(output));
                for_each(tiles.chunks_exact_mut(tile), count, |scratch, i| {
                    // SAFETY: signal i lies inside both buffers and is handed out once.
                    let data = unsafe {
                        let (from, to) = (input.at(i * n), output.at(i * n));
                        if !std::ptr::eq(from, to) {
                            std::ptr::copy_nonoverlapping(from, to, n);
                        }
                        std::slice::from_raw_parts_mut(to, n)
                    };
                    fft.process_with_scratch(data, scratch);
                    if scale != T::one() {
                        data.iter_mut().for_each(|z| *z = z.scale(scale));
                    }
                });
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Vertical(v) if apart => {
                let (input, output) = (Shared(input.cast_mut()), Shared(output));
                for_each(tiles.chunks_exact_mut(tile), count, |scratch, i| {
                    let (middle, tile) = scratch.split_at_mut(n + SLACK);
                    // SAFETY: signal i lies inside both buffers and is handed out once.
                    unsafe {
                        let (from, to) = (input.at(i * n).cast_const(), output.at(i * n));
                        v.run(from, to, middle, tile, scale);
                    }
                });
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Vertical(v) => {
                for i in 0..count {
                    // SAFETY: as promised by the caller, for signal i.
                    unsafe {
                        v.run(input.add(i * n), output.add(i * n), work, tiles, scale);
                    }
                }
            }
            Kernel::FourStep(f) => {
                for i in 0..count {
                    // SAFETY: as promised by the caller, for signal i.
                    unsafe {
                        f.run(input.add(i * n), output.add(i * n), work, tiles, scale);
                    }
                }
            }
            Kernel::Bluestein(b) => {
                for i in 0..count {
                    // SAFETY: as promised by the caller, for signal i.
                    unsafe {
                        let (from, to) = (input.add(i * n), output.add(i * n));
                        b.run(from, to, work, tiles, scale, self.threads);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A buffer must have the length that goes with the other one.
fn buffer_length(what: &'static str, expected: u64, got: usize) -> Result<(), Error> {
    // Where addresses have 32 bits, lengths still have 64.
    let got = got as u64;
    if expected == got { Ok(()) } else { Err(Error::BufferLength { what, expected, got }) }
}

/// Forward transform in place by this plan, if there is one: X\[f\] = Σ x\[t\] e^{-2πi ft/n}.
pub(crate) fn transform(
    plan: Result<Fft<f64>, Error>,
    x: &mut [Complex<f64>],
    work: &mut Workspace<f64>,
) {
    let done = plan.and_then(|plan| plan.batch(Direction::Forward, x, work));
    if done.is_err() && !x.is_empty() {
        // No room for the extra buffers of the fast way; this one may need fewer.
        f64::kernel(x.len(), FftDirection::Forward).process(x);
    }
}
