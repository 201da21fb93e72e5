//! RustFFT's kernels in both precisions, behind functions that are not generic.
//!
//! RustFFT is generic, so its kernels are compiled in the crate that names a precision: here, once,
//! and not whenever a line of `sparsefft` changes.

use rustfft::{Fft, FftDirection, FftPlanner};
use std::sync::Arc;

/// The kernel for f32.
pub fn single(n: usize, direction: FftDirection) -> Arc<dyn Fft<f32>> {
    FftPlanner::new().plan_fft(n, direction)
}

/// The kernel for f64.
pub fn double(n: usize, direction: FftDirection) -> Arc<dyn Fft<f64>> {
    FftPlanner::new().plan_fft(n, direction)
}
