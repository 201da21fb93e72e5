//! The dense FFT: all n coefficients.

use crate::Error;
use num_complex::Complex;

/// n zeros, or a typed error where memory does not suffice.
pub(crate) fn try_zeroed(n: u64) -> Result<Vec<Complex<f64>>, Error> {
    let bytes = n as u128 * size_of::<Complex<f64>>() as u128;
    let oom = || Error::OutOfMemory { n, bytes };
    let len = usize::try_from(n).map_err(|_| oom())?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).map_err(|_| oom())?;
    buffer.resize(len, Complex::ZERO);
    Ok(buffer)
}

/// Forward transform in place: X\[f\] = Σ x\[t\] e^{-2πi ft/n}.
pub(crate) fn forward(x: &mut [Complex<f64>]) {
    rustfft::FftPlanner::new().plan_fft_forward(x.len()).process(x);
}
