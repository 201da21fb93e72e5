//! Large buffers: zeroed without being touched, in huge pages where the system has them.
//!
//! A fresh buffer of n values costs one page fault per page on its first use. With pages of 4 KiB
//! that is as slow as a whole pass over the data, and strided passes then miss the translation
//! cache on nearly every line. Linux gives pages of 2 MiB to those who ask.

use crate::Error;
use num_complex::Complex;
use rustfft::num_traits::Zero;
use std::alloc::{Layout, alloc_zeroed};
use std::ops::{Deref, DerefMut};

/// n zeros to be filled with a signal: in pages of 2 MiB where Linux has them, the first at the
/// beginning of a cache line.
///
/// A sparse transform reads samples that are far apart, four neighbours at a time. With pages of 4 KiB
/// nearly every read waits for the processor to find its page as well; and in a large `Vec` of 64-bit
/// complex numbers, which as a rule begins 16 bytes after a cache line, four neighbours lie in two of
/// them. A signal that comes from main memory is transformed in about two thirds of the time when it
/// lies in a buffer like this, and one of thousands of coefficients that is in the caches in some 7 % less;
/// nothing but speed depends on it. (Large numpy arrays lie in such pages already.)
///
/// ```
/// use sparsefft::{Complex, Error};
/// let mut signal = sparsefft::buffer(1 << 20)?;
/// for (t, x) in (0u64..).zip(&mut signal) {
///     *x = Complex::cis(std::f64::consts::TAU * (t * 12_345 % (1 << 20)) as f64 / (1 << 20) as f64);
/// }
/// assert_eq!(sparsefft::transform(&signal, 1)?.peaks()[0].index, 12_345);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// [`Error::OutOfMemory`] where memory does not suffice.
pub fn buffer<T: super::Real>(n: u64) -> Result<SignalBuffer<T>, Error> {
    let spare = CACHE_LINE / size_of::<Complex<T>>();
    let store = zeroed(n.saturating_add(spare as u64), n)?;
    // Where memory may begin in the middle of a value (WebAssembly aligns by 8 bytes) no number of
    // values leads to a cache line.
    let offset = store.as_ptr().align_offset(CACHE_LINE);
    let skip = if offset <= spare { offset } else { 0 };
    Ok(SignalBuffer { store, skip, len: n as usize })
}

/// Bytes that the processor reads at once.
const CACHE_LINE: usize = 64;

/// Complex samples that begin with a cache line, made by [`buffer`]; a slice in all other respects.
pub struct SignalBuffer<T> {
    store: Vec<Complex<T>>,
    /// Values before the first one.
    skip: usize,
    len: usize,
}

impl<T> Deref for SignalBuffer<T> {
    type Target = [Complex<T>];
    fn deref(&self) -> &[Complex<T>] {
        &self.store[self.skip..][..self.len]
    }
}

impl<T> DerefMut for SignalBuffer<T> {
    fn deref_mut(&mut self) -> &mut [Complex<T>] {
        &mut self.store[self.skip..][..self.len]
    }
}

impl<'a, T> IntoIterator for &'a SignalBuffer<T> {
    type Item = &'a Complex<T>;
    type IntoIter = std::slice::Iter<'a, Complex<T>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut SignalBuffer<T> {
    type Item = &'a mut Complex<T>;
    type IntoIter = std::slice::IterMut<'a, Complex<T>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for SignalBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// `len` zeros for a transform of n values.
pub(crate) fn zeroed<T: super::Real>(len: u64, n: u64) -> Result<Vec<Complex<T>>, Error> {
    // SAFETY: all-zero bytes are the value 0+0i for the two types that implement `Real`.
    unsafe { zeroed_of(len, n, Complex::zero()) }
}

/// `len` real zeros for a transform of n values.
pub(crate) fn zeroed_reals<T: super::Real>(len: u64, n: u64) -> Result<Vec<T>, Error> {
    // SAFETY: all-zero bytes are the value 0 for the two types that implement `Real`.
    unsafe { zeroed_of(len, n, T::zero()) }
}

/// `len` times `zero`.
///
/// # Safety
/// `zero` must be the value whose bytes are all zero.
unsafe fn zeroed_of<V: Copy>(len: u64, n: u64, zero: V) -> Result<Vec<V>, Error> {
    let bytes = len as u128 * size_of::<V>() as u128;
    let oom = || Error::OutOfMemory { n, bytes };
    let len = usize::try_from(len).map_err(|_| oom())?;
    let layout = Layout::array::<V>(len).map_err(|_| oom())?;
    if layout.size() < HUGE {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| oom())?;
        buffer.resize(len, zero);
        return Ok(buffer);
    }
    // SAFETY: the layout has a non-zero size.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(oom());
    }
    advise(start, layout.size());
    // SAFETY: the memory comes from the global allocator with the layout of an array of `len`
    // values, and all-zero bytes are a value of the type by the caller's word.
    Ok(unsafe { Vec::from_raw_parts(start.cast(), len, len) })
}

/// Size of a huge page.
const HUGE: usize = 1 << 21;

/// Asks for huge pages. A refusal costs speed alone.
#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    const PAGE: usize = 4096;
    let skip = start.align_offset(PAGE);
    let whole = bytes.saturating_sub(skip) / PAGE * PAGE;
    // SAFETY: the range lies inside one allocation of ours and this advice leaves its contents
    // as they are.
    unsafe { madvise(start.wrapping_add(skip).cast(), whole, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_start: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_begin_with_a_cache_line() {
        for n in [0, 1, 1000, (1 << 18) + 1] {
            let mut double = buffer::<f64>(n).unwrap();
            let single = buffer::<f32>(n).unwrap();
            assert_eq!((double.len() as u64, single.len() as u64), (n, n));
            assert!(double.as_ptr().addr().is_multiple_of(CACHE_LINE));
            assert!(single.as_ptr().addr().is_multiple_of(CACHE_LINE));
            assert!(double.iter().all(|v| *v == Complex::zero()));
            double.fill(Complex::new(1.0, 2.0));
            assert_eq!((&double).into_iter().count() as u64, n);
        }
        assert!(matches!(buffer::<f64>(u64::MAX), Err(Error::OutOfMemory { n: u64::MAX, .. })));
    }
}
