//! Access to the signal: random reads in batches, and nothing else.
//!
//! Every stage asks for samples through [`Samples::read_lines`]: lines of four consecutive
//! samples whose starts form an arithmetic progression mod n. Four neighbours share a cache line,
//! so four time shifts cost the memory access of one. Sources that only know single samples
//! implement [`Samples::read`]; the rest follows.

use crate::Error;
use crate::cpu::ahead::ask;
#[cfg(target_arch = "x86_64")]
use crate::cpu::rows::{Row, Whole};
use crate::cpu::threads;
use crate::cpu::wide::F4;
use num_complex::Complex;
use std::ops::Range;

/// Four consecutive samples, split into real and imaginary parts: lane τ holds x\[i + τ\].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C, align(64))]
pub struct Line {
    /// Real parts.
    pub re: [f64; 4],
    /// Imaginary parts.
    pub im: [f64; 4],
}

impl Line {
    /// All zero.
    pub const ZERO: Line = Line { re: [0.0; 4], im: [0.0; 4] };

    /// Lane τ as a complex number.
    pub fn lane(&self, tau: usize) -> Complex<f64> {
        Complex::new(self.re[tau], self.im[tau])
    }

    /// Sets lane τ.
    pub fn set_lane(&mut self, tau: usize, value: Complex<f64>) {
        self.re[tau] = value.re;
        self.im[tau] = value.im;
    }
}

/// Most lines of one buffer, a power of two: several of them must have addresses side by side. It is out of
/// reach where addresses have 64 bits.
pub(crate) const MOST_LINES: u64 = (1 << (isize::BITS - 1)) / (8 * size_of::<Line>() as u64);

/// Reads lines in as many threads as they are worth.
pub(crate) fn read_in_parts(
    signal: &dyn Samples,
    start: u64,
    step: u64,
    out: &mut [Line],
) -> Result<(), Error> {
    let work = if signal.in_memory() { 4 * out.len() as u64 } else { 0 };
    let n = signal.len();
    let read = |first: usize, lines: &mut [Line]| {
        signal.read_lines(progression(start, step, first as u64, n), step, lines)
    };
    let piece = threads::piece(out.len(), work);
    threads::reduce_chunks(out, piece, work, read, Result::and).unwrap_or(Ok(()))
}

/// Index of the j-th member of the progression start + j·step mod n, without overflow.
pub(crate) fn progression(start: u64, step: u64, j: u64, n: u64) -> u64 {
    match step.checked_mul(j).and_then(|ahead| ahead.checked_add(start)) {
        Some(at) => at % n,
        None => ((start as u128 + step as u128 * j as u128) % n as u128) as u64,
    }
}

/// Writes four values after the other to each line.
pub(crate) fn fill_lines(values: &[Complex<f64>], out: &mut [Line]) {
    for (line, four) in out.iter_mut().zip(values.chunks_exact(4)) {
        for (tau, &v) in four.iter().enumerate() {
            line.set_lane(tau, v);
        }
    }
}

/// The first NaN or infinity among the lines that a walk has read, as an error. It looks at what
/// was read, since the source may have changed.
pub(crate) fn non_finite_in(lines: &[Line], start: u64, step: u64, n: u64) -> Option<Error> {
    (0u64..).zip(lines).find_map(|(j, line)| {
        let tau = (0..4).find(|&tau| !(line.re[tau].is_finite() && line.im[tau].is_finite()))?;
        let index = (progression(start, step, j, n) + tau as u64) % n;
        Some(crate::algorithms::non_finite(index, line.lane(tau)))
    })
}

/// A signal that can be read at any index.
///
/// Slices and vectors of `f32`, `f64`, the integers of 8 to 64 bits and of `Complex` of these
/// implement it; [`iq`], [`Strided`], [`indexed`] and [`from_fn`] cover interleaved data, views
/// and sources that are computed or fetched. Integers are taken at face value
/// (beyond 2^53 rounded to f64).
pub trait Samples: Sync {
    /// Number of samples n.
    fn len(&self) -> u64;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all imaginary parts are zero by type. Spectra of such signals come out conjugate
    /// symmetric to the last bit.
    fn is_real(&self) -> bool {
        false
    }

    /// The step between neighbouring values that a sample can take: 1 for integers, 0 where it is
    /// too small to matter. What rounding to such steps leaves is not taken for signal.
    fn resolution(&self) -> f64 {
        0.0
    }

    /// Whether the samples lie in memory, so that several threads may read parts of a batch at once.
    /// Sources that fetch their samples get whole batches.
    fn in_memory(&self) -> bool {
        false
    }

    /// The samples where they lie, if they are complex numbers of f64 one after the other in memory:
    /// transforms may read them there instead of asking for copies.
    fn as_complex(&self) -> Option<&[Complex<f64>]> {
        None
    }

    /// Writes x\[indices\[i\]\] to `out[i]`. All indices are below [`len`](Samples::len) and both
    /// slices have the same length.
    ///
    /// # Errors
    /// Whatever the source meets; the transform then ends with that error.
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error>;

    /// Writes to lane τ of `out[j]` the sample x\[(start + j·step + τ) mod n\].
    ///
    /// # Errors
    /// As [`read`](Samples::read).
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        // Batches bound the index buffer while leaving a remote source enough to coalesce.
        const BATCH: usize = 4096;
        let n = self.len();
        let mut indices = Vec::with_capacity(4 * out.len().min(BATCH));
        let mut values = vec![Complex::ZERO; 4 * out.len().min(BATCH)];
        let mut first = start % n;
        for chunk in out.chunks_mut(BATCH) {
            indices.clear();
            for _ in 0..chunk.len() {
                indices.extend((0..4).map(|tau| (first + tau) % n));
                first = (first + step) % n;
            }
            self.read(&indices, &mut values[..indices.len()])?;
            fill_lines(&values, chunk);
        }
        Ok(())
    }

    /// Writes x\[(start + j·step) mod n\] to `out[j]`: single samples, for hashes that need no
    /// neighbours.
    ///
    /// # Errors
    /// As [`read`](Samples::read).
    fn read_progression(
        &self,
        start: u64,
        step: u64,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        const BATCH: usize = 1 << 14;
        let n = self.len();
        let (step, mut at) = (step % n, start % n);
        let mut indices = Vec::with_capacity(out.len().min(BATCH));
        for chunk in out.chunks_mut(BATCH) {
            indices.clear();
            for _ in 0..chunk.len() {
                indices.push(at);
                at += step;
                if at >= n {
                    at -= n;
                }
            }
            self.read(&indices, chunk)?;
        }
        Ok(())
    }

    /// Writes x\[start + i\] to `out[i]`; the range lies inside the signal.
    ///
    /// # Errors
    /// As [`read`](Samples::read).
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        const BATCH: usize = 1 << 16;
        let mut indices = Vec::with_capacity(out.len().min(BATCH));
        let mut at = start;
        for chunk in out.chunks_mut(BATCH) {
            indices.clear();
            indices.extend(at..at + chunk.len() as u64);
            self.read(&indices, chunk)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }
}

/// A number that can stand in a signal.
pub trait Scalar: Copy + Send + Sync {
    /// Whether the imaginary part is zero by type.
    const REAL: bool;
    /// Step between neighbouring values, or 0; see [`Samples::resolution`].
    const STEP: f64 = 0.0;
    /// Whether [`put_whole`](Scalar::put_whole) is worth its own code.
    #[doc(hidden)]
    const WHOLE: bool = false;
    /// The number as a complex one.
    fn complex(self) -> Complex<f64>;
    /// The numbers as complex ones, where that is what they are.
    #[doc(hidden)]
    fn as_complex(slice: &[Self]) -> Option<&[Complex<f64>]> {
        let _ = slice;
        None
    }
    /// Four numbers as a line.
    ///
    /// # Safety
    /// `FMA` is true only on processors with AVX2 and FMA.
    #[doc(hidden)]
    #[inline(always)] // inherits the instruction set of its callers
    unsafe fn line<const FMA: bool>(four: &[Self; 4]) -> Line {
        let v = [four[0].complex(), four[1].complex(), four[2].complex(), four[3].complex()];
        Line { re: [v[0].re, v[1].re, v[2].re, v[3].re], im: [v[0].im, v[1].im, v[2].im, v[3].im] }
    }
    /// Writes four numbers to a line.
    ///
    /// # Safety
    /// Only on processors with AVX-512.
    #[doc(hidden)]
    #[inline(always)] // inherits the instruction set of its callers
    unsafe fn put_whole(four: &[Self; 4], line: &mut Line) {
        // SAFETY: AVX-512 comes with AVX2 and FMA.
        *line = unsafe { Self::line::<true>(four) };
    }
}

macro_rules! scalars {
    ($step:literal: $($t:ty $(, $($line:item)*)?);*) => {$(
        impl Scalar for $t {
            const REAL: bool = true;
            const STEP: f64 = $step;
            #[inline]
            fn complex(self) -> Complex<f64> {
                Complex::new(self as f64, 0.0)
            }
        }
        impl Scalar for Complex<$t> {
            const REAL: bool = false;
            const STEP: f64 = $step;
            #[inline]
            fn complex(self) -> Complex<f64> {
                Complex::new(self.re as f64, self.im as f64)
            }
            $($($line)*)?
        }
    )*};
}
scalars!(0.0: f32; f64,
const WHOLE: bool = true;
fn as_complex(slice: &[Self]) -> Option<&[Complex<f64>]> {
    Some(slice)
}
#[inline(always)] // inherits the instruction set of its callers
unsafe fn line<const FMA: bool>(four: &[Self; 4]) -> Line {
    // SAFETY: a complex number is its real part, then its imaginary part.
    let halves: &[[f64; 4]; 2] = unsafe { &*std::ptr::from_ref(four).cast() };
    let (re, im) = F4::<FMA>(halves[0]).split(F4(halves[1]));
    Line { re: re.0, im: im.0 }
}
#[cfg(target_arch = "x86_64")]
#[inline(always)] // inherits the instruction set of its callers
unsafe fn put_whole(four: &[Self; 4], line: &mut Line) {
    // SAFETY: the caller's promise; four complex numbers are eight f64.
    unsafe { Whole::of_complex(four.as_ptr().cast()).store(line) }
});
scalars!(1.0: i8; u8; i16; u16; i32; u32; i64; u64);

/// Lines that are asked for ahead of the one being read: enough for the misses of a core that
/// waits for memory to overlap.
const AHEAD: usize = 24;

/// Reads lines from anything that can be indexed cheaply: `at` is called only below n; `soon` tells
/// of an index that comes next.
#[inline(always)] // monomorphised into each source so that the loads are plain instructions
pub(crate) fn lines_from(
    n: u64,
    start: u64,
    step: u64,
    out: &mut [Line],
    at: impl Fn(u64) -> Complex<f64>,
    soon: impl Fn(u64),
) {
    let step = step % n;
    let wrap = |i: u64| if i >= n { i - n } else { i };
    // Places from here on lack neighbours: all, in a signal shorter than a line.
    let end = n.saturating_sub(3);
    let mut first = start % n;
    let mut next = first;
    for _ in 0..AHEAD.min(out.len()) {
        soon(next);
        next = wrap(next + step);
    }
    for line in out {
        // Beyond the last line this asks for places that nobody reads: harmless, and no branch.
        soon(next);
        next = wrap(next + step);
        let four = if first < end {
            [at(first), at(first + 1), at(first + 2), at(first + 3)]
        } else {
            [0, 1, 2, 3].map(|tau| at((first + tau) % n))
        };
        // SAFETY: no instructions are asked for.
        *line = unsafe { Complex::line::<false>(&four) };
        first = wrap(first + step);
    }
}

/// Lines from which on asking ahead pays; fewer are all on their way before the first is there.
const LONG: usize = 1024;
/// The same for lines that do not wrap, which take fewer instructions each.
const LONG_STRAIGHT: usize = 512;

/// Reads lines of a slice, in code that is compiled for the processor.
fn slice_lines<T: Scalar>(data: &[T], start: u64, step: u64, out: &mut [Line]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
        fn whole<T: Scalar>(data: &[T], start: u64, step: u64, out: &mut [Line]) {
            slice_lines_body::<T, true, true>(data, start, step, out);
        }
        #[target_feature(enable = "avx2,fma")]
        fn wide<T: Scalar>(data: &[T], start: u64, step: u64, out: &mut [Line]) {
            slice_lines_body::<T, true, false>(data, start, step, out);
        }
        if T::WHOLE && crate::cpu::has_eight() {
            // SAFETY: the features were just found on this processor.
            return unsafe { whole(data, start, step, out) };
        }
        if crate::cpu::has_fma() {
            // SAFETY: both features were just found on this processor.
            return unsafe { wide(data, start, step, out) };
        }
    }
    slice_lines_body::<T, false, false>(data, start, step, out);
}

/// With `EIGHT`, a line is one register.
#[inline(always)] // compiled once per instruction set
fn slice_lines_body<T: Scalar, const FMA: bool, const EIGHT: bool>(
    data: &[T],
    start: u64,
    step: u64,
    out: &mut [Line],
) {
    let n = data.len() as u64;
    // Nearly always within the signal, and divisions are slow.
    let (start, step) =
        (if start < n { start } else { start % n }, if step < n { step } else { step % n });
    let last = (out.len() as u64).saturating_sub(1).checked_mul(step);
    let end = last.and_then(|last| last.checked_add(start + 4));
    let straight = step >= 4 && end.is_some_and(|end| end <= n);
    let (start, step) = (start as usize, step as usize);
    // Lines that begin at multiples of their length lie in one cache line each.
    let length = 4 * size_of::<T>();
    let within = 64usize.is_multiple_of(length)
        && data[start..].as_ptr().addr().is_multiple_of(length)
        && step.is_multiple_of(4);
    match (straight, out.len()) {
        (true, ..LONG_STRAIGHT) => {
            straight_lines::<T, FMA, EIGHT, false, false>(&data[start..], step, out);
        }
        (true, _) if within => {
            straight_lines::<T, FMA, EIGHT, true, false>(&data[start..], step, out);
        }
        (true, _) => straight_lines::<T, FMA, EIGHT, true, true>(&data[start..], step, out),
        (false, LONG..) => wrapping_lines::<T, FMA, EIGHT, true>(data, start, step, out),
        // Without vectors a line takes so long that asking ahead pays for any number.
        (false, _) if !FMA => wrapping_lines::<T, FMA, EIGHT, true>(data, start, step, out),
        (false, _) => wrapping_lines::<T, FMA, EIGHT, false>(data, start, step, out),
    }
}

/// Lines at every multiple of the step, all of which lie within the slice. With `ASK`, lines are asked
/// for ahead, with `BOTH` their ends, too.
#[inline(always)] // compiled once per instruction set
fn straight_lines<T, const FMA: bool, const EIGHT: bool, const ASK: bool, const BOTH: bool>(
    data: &[T],
    step: usize,
    out: &mut [Line],
) where
    T: Scalar,
{
    if ASK {
        for j in 0..AHEAD {
            ask::<T, BOTH>(data.as_ptr().wrapping_add(j * step));
        }
    }
    for (line, part) in out.iter_mut().zip(data.chunks(step)) {
        let Some(four) = part.first_chunk() else { return };
        if ASK {
            // Beyond the last line these are places that nobody reads: harmless, and no branch.
            ask::<T, BOTH>(four.as_ptr().wrapping_add(AHEAD * step));
        }
        put_line::<T, FMA, EIGHT>(four, line);
    }
}

/// Four samples as a line.
#[inline(always)] // compiled once per instruction set
fn put_line<T: Scalar, const FMA: bool, const EIGHT: bool>(four: &[T; 4], line: &mut Line) {
    // SAFETY: the only callers with `FMA` and `EIGHT` have found the instructions.
    unsafe {
        if EIGHT {
            T::put_whole(four, line);
        } else {
            *line = T::line::<FMA>(four);
        }
    }
}

/// Lines that may wrap at the end of the signal; `start` and `step` lie within it. With `ASK`, lines
/// are asked for ahead.
#[inline(always)] // compiled once per instruction set
fn wrapping_lines<T: Scalar, const FMA: bool, const EIGHT: bool, const ASK: bool>(
    data: &[T],
    start: usize,
    step: usize,
    out: &mut [Line],
) {
    let n = data.len();
    let mut first = start;
    let mut next = first;
    let ahead = if ASK { AHEAD.min(out.len()) } else { 0 };
    for _ in 0..ahead {
        ask::<T, true>(data.as_ptr().wrapping_add(next));
        next += step;
        next -= if next >= n { n } else { 0 };
    }
    for line in out {
        if ASK {
            // Beyond the last line these are places that nobody reads: harmless, and no branch.
            ask::<T, true>(data.as_ptr().wrapping_add(next));
            next += step;
            next -= if next >= n { n } else { 0 };
        }
        match data[first..].first_chunk() {
            Some(four) => put_line::<T, FMA, EIGHT>(four, line),
            None => {
                let at = |tau| data[(first + tau) % n];
                put_line::<T, FMA, EIGHT>(&[at(0), at(1), at(2), at(3)], line);
            }
        }
        first += step;
        first -= if first >= n { n } else { 0 };
    }
}

/// Reads single samples from anything that can be indexed cheaply: `at` is called only below n.
#[inline(always)] // monomorphised into each source so that the loads are plain instructions
pub(crate) fn progression_from(
    n: u64,
    start: u64,
    step: u64,
    out: &mut [Complex<f64>],
    at: impl Fn(u64) -> Complex<f64>,
) {
    let step = step % n;
    let mut i = start % n;
    for o in out {
        *o = at(i);
        i += step;
        if i >= n {
            i -= n;
        }
    }
}

impl<T: Scalar> Samples for [T] {
    fn len(&self) -> u64 {
        <[T]>::len(self) as u64
    }
    fn is_real(&self) -> bool {
        T::REAL
    }
    fn resolution(&self) -> f64 {
        T::STEP
    }
    fn in_memory(&self) -> bool {
        true
    }
    fn as_complex(&self) -> Option<&[Complex<f64>]> {
        T::as_complex(self)
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        for (o, &i) in out.iter_mut().zip(indices) {
            *o = self[i as usize].complex();
        }
        Ok(())
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        slice_lines(self, start, step, out);
        Ok(())
    }
    fn read_progression(
        &self,
        start: u64,
        step: u64,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        progression_from(Samples::len(self), start, step, out, |i| self[i as usize].complex());
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        let source = &self[start as usize..start as usize + out.len()];
        for (o, &v) in out.iter_mut().zip(source) {
            *o = v.complex();
        }
        Ok(())
    }
}

/// Implements [`Samples`] by handing every call to an inner source.
macro_rules! forward_samples {
    ($self:ident => $inner:expr) => {
        fn len(&$self) -> u64 { Samples::len($inner) }
        fn is_real(&$self) -> bool { Samples::is_real($inner) }
        fn resolution(&$self) -> f64 { Samples::resolution($inner) }
        fn in_memory(&$self) -> bool { Samples::in_memory($inner) }
        fn as_complex(&$self) -> Option<&[Complex<f64>]> { Samples::as_complex($inner) }
        fn read(&$self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
            Samples::read($inner, indices, out)
        }
        fn read_lines(&$self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
            Samples::read_lines($inner, start, step, out)
        }
        fn read_progression(
            &$self,
            start: u64,
            step: u64,
            out: &mut [Complex<f64>],
        ) -> Result<(), Error> {
            Samples::read_progression($inner, start, step, out)
        }
        fn read_range(&$self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
            Samples::read_range($inner, start, out)
        }
    };
}

impl<T: Scalar> Samples for Vec<T> {
    forward_samples!(self => self.as_slice());
}
impl<T: Scalar, const N: usize> Samples for [T; N] {
    forward_samples!(self => self.as_slice());
}
impl<T> Samples for crate::dense::SignalBuffer<T>
where
    Complex<T>: Scalar,
{
    forward_samples!(self => &**self);
}
impl<S: Samples + ?Sized> Samples for &S {
    forward_samples!(self => *self);
}
impl<S: Samples + ?Sized> Samples for Box<S> {
    forward_samples!(self => self.as_ref());
}

/// Every `stride`-th element of a slice, starting at `offset`: a channel of interleaved data, a
/// column of a matrix.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a, T> {
    data: &'a [T],
    stride: usize,
    n: usize,
}

impl<'a, T: Scalar> Strided<'a, T> {
    /// The elements `data[offset + i·stride]` for every i that fits.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the stride is 0.
    pub fn new(data: &'a [T], offset: usize, stride: usize) -> Result<Self, Error> {
        if stride == 0 {
            return Err(Error::InvalidOption { name: "stride", value: 0.0, allowed: "1 or more" });
        }
        let data = data.get(offset..).unwrap_or(&[]);
        Ok(Strided { data, stride, n: data.len().div_ceil(stride) })
    }
}

impl<T: Scalar> Strided<'_, T> {
    fn at(&self, i: usize) -> Complex<f64> {
        self.data[i * self.stride].complex()
    }
}

impl<T: Scalar> Samples for Strided<'_, T> {
    fn len(&self) -> u64 {
        self.n as u64
    }
    fn is_real(&self) -> bool {
        T::REAL
    }
    fn resolution(&self) -> f64 {
        T::STEP
    }
    fn in_memory(&self) -> bool {
        true
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        for (o, &i) in out.iter_mut().zip(indices) {
            *o = self.at(i as usize);
        }
        Ok(())
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        lines_from(
            self.len(),
            start,
            step,
            out,
            |i| self.at(i as usize),
            |i| ask::<_, true>(self.data.as_ptr().wrapping_add(i as usize * self.stride)),
        );
        Ok(())
    }
    fn read_progression(
        &self,
        start: u64,
        step: u64,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        progression_from(self.len(), start, step, out, |i| self.at(i as usize));
        Ok(())
    }
}

/// Interleaved real and imaginary parts (I, Q, I, Q, …) of any real type.
#[derive(Debug, Clone, Copy)]
pub struct Iq<'a, T> {
    data: &'a [T],
}

/// Views interleaved real and imaginary parts as complex samples.
///
/// # Errors
/// [`Error::Source`] if the number of values is odd.
pub fn iq<T: Scalar>(data: &[T]) -> Result<Iq<'_, T>, Error> {
    if !data.len().is_multiple_of(2) {
        return Err(Error::Source(format!(
            "interleaved IQ data must hold an even number of values, not {}",
            data.len()
        )));
    }
    Ok(Iq { data })
}

impl<T: Scalar> Iq<'_, T> {
    fn at(&self, i: usize) -> Complex<f64> {
        Complex::new(self.data[2 * i].complex().re, self.data[2 * i + 1].complex().re)
    }
}

impl<T: Scalar> Samples for Iq<'_, T> {
    fn len(&self) -> u64 {
        self.data.len() as u64 / 2
    }
    fn resolution(&self) -> f64 {
        T::STEP
    }
    fn in_memory(&self) -> bool {
        true
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        for (o, &i) in out.iter_mut().zip(indices) {
            *o = self.at(i as usize);
        }
        Ok(())
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        lines_from(
            self.len(),
            start,
            step,
            out,
            |i| self.at(i as usize),
            |i| ask::<_, true>(self.data.as_ptr().wrapping_add(2 * i as usize)),
        );
        Ok(())
    }
    fn read_progression(
        &self,
        start: u64,
        step: u64,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        progression_from(self.len(), start, step, out, |i| self.at(i as usize));
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        let source = self.data[2 * start as usize..].chunks_exact(2);
        for (o, pair) in out.iter_mut().zip(source) {
            *o = Complex::new(pair[0].complex().re, pair[1].complex().re);
        }
        Ok(())
    }
}

/// A signal computed or fetched on demand, in batches of indices.
pub struct FromFn<F> {
    n: u64,
    real: bool,
    f: F,
}

/// A signal of n samples given by a function of a batch of indices.
///
/// ```
/// use sparsefft::{from_fn, transform};
/// use num_complex::Complex;
/// let n = 1u64 << 40; // never stored
/// let tone = from_fn(n, |indices| {
///     let phase = |t: u64| std::f64::consts::TAU * (t % 64) as f64 / 64.0;
///     Ok(indices.iter().map(|&t| Complex::cis(phase(t))).collect())
/// });
/// let spectrum = transform(&tone, 1)?;
/// assert_eq!(spectrum.peaks()[0].index, n / 64);
/// # Ok::<(), sparsefft::Error>(())
/// ```
pub fn from_fn<F>(n: u64, f: F) -> FromFn<F>
where
    F: Fn(&[u64]) -> Result<Vec<Complex<f64>>, Error> + Sync,
{
    FromFn { n, real: false, f }
}

impl<F> FromFn<F> {
    /// Declares that every imaginary part is zero.
    pub fn real(mut self) -> Self {
        self.real = true;
        self
    }
}

impl<F> Samples for FromFn<F>
where
    F: Fn(&[u64]) -> Result<Vec<Complex<f64>>, Error> + Sync,
{
    fn len(&self) -> u64 {
        self.n
    }
    fn is_real(&self) -> bool {
        self.real
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        let values = (self.f)(indices)?;
        if values.len() != indices.len() {
            return Err(Error::WrongSampleCount { expected: indices.len(), got: values.len() });
        }
        out.copy_from_slice(&values);
        Ok(())
    }
}

/// A signal whose samples are cheap to get one by one; see [`indexed`].
pub struct Indexed<F> {
    n: u64,
    real: bool,
    at: F,
}

/// A signal of n samples given by a cheap function of one index, always below n: a view of memory
/// with a layout of its own, or a formula.
///
/// ```
/// use sparsefft::{Complex, indexed, transform};
/// let pairs: Vec<(u8, f32)> = (0..4096).map(|t| (7, (t % 2) as f32)).collect();
/// let second = indexed(4096, |t| Complex::new(pairs[t as usize].1 as f64, 0.0)).real();
/// assert_eq!(transform(&second, 2)?.peaks()[1].index, 2048);
/// # Ok::<(), sparsefft::Error>(())
/// ```
pub fn indexed<F>(n: u64, at: F) -> Indexed<F>
where
    F: Fn(u64) -> Complex<f64> + Sync,
{
    Indexed { n, real: false, at }
}

impl<F> Indexed<F> {
    /// Declares that every imaginary part is zero.
    pub fn real(mut self) -> Self {
        self.real = true;
        self
    }
}

impl<F> Samples for Indexed<F>
where
    F: Fn(u64) -> Complex<f64> + Sync,
{
    fn len(&self) -> u64 {
        self.n
    }
    fn is_real(&self) -> bool {
        self.real
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        for (o, &i) in out.iter_mut().zip(indices) {
            *o = (self.at)(i);
        }
        Ok(())
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        lines_from(self.n, start, step, out, &self.at, |_| {});
        Ok(())
    }
    fn read_progression(
        &self,
        start: u64,
        step: u64,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        progression_from(self.n, start, step, out, &self.at);
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        for (o, i) in out.iter_mut().zip(start..) {
            *o = (self.at)(i);
        }
        Ok(())
    }
}

/// Checks that a range lies inside a signal of n samples.
pub(crate) fn check_range(range: &Range<u64>, n: u64) -> Result<(), Error> {
    if range.start > range.end || range.end > n {
        return Err(Error::RangeOutside { start: range.start, end: range.end, n });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize) -> Vec<Complex<f64>> {
        (0..n).map(|t| Complex::new(t as f64, -(t as f64))).collect()
    }

    #[test]
    fn every_source_reads_the_same_lines() {
        let x = ramp(37);
        let flat: Vec<f64> = x.iter().flat_map(|v| [v.re, v.im]).collect();
        let doubled: Vec<_> = x.iter().flat_map(|&v| [Complex::new(9.0, 9.0), v]).collect();
        let computed =
            from_fn(37, |i| Ok(i.iter().map(|&t| Complex::new(t as f64, -(t as f64))).collect()));
        let single = indexed(37, |t| Complex::new(t as f64, -(t as f64)));
        let sources: [&dyn Samples; 5] =
            [&x, &iq(&flat).unwrap(), &Strided::new(&doubled, 1, 2).unwrap(), &computed, &single];
        for s in sources {
            assert_eq!(s.len(), 37);
            let mut lines = vec![Line::ZERO; 50];
            s.read_lines(35, 11, &mut lines).unwrap();
            for (j, line) in lines.iter().enumerate() {
                for tau in 0..4 {
                    let t = (progression(35, 11, j as u64, 37) + tau as u64) % 37;
                    assert_eq!(line.lane(tau), x[t as usize]);
                }
            }
            let mut single = vec![Complex::ZERO; 50];
            s.read_progression(35, 11 + 2 * 37, &mut single).unwrap();
            for (j, &v) in single.iter().enumerate() {
                assert_eq!(v, x[progression(35, 11, j as u64, 37) as usize]);
            }
            let mut range = vec![Complex::ZERO; 5];
            s.read_range(32, &mut range).unwrap();
            assert_eq!(range, x[32..]);
        }
    }

    #[test]
    fn integers_are_taken_at_face_value() {
        let mut out = [Complex::ZERO; 2];
        [-128i8, 127].read(&[0, 1], &mut out).unwrap();
        assert_eq!(out.map(|v| v.re), [-128.0, 127.0]);
        [Complex::new(0u8, 255), Complex::new(7, 8)].read(&[0, 1], &mut out).unwrap();
        assert_eq!(out[0], Complex::new(0.0, 255.0));
        assert!([1.5f32].is_real() && ![Complex::new(1i16, 2)].is_real());
    }

    #[test]
    fn bad_views_are_refused() {
        assert!(matches!(Strided::new(&[1.0f64], 0, 0), Err(Error::InvalidOption { .. })));
        assert_eq!(Strided::new(&[1.0f64], 5, 1).unwrap().len(), 0);
        assert!(matches!(iq(&[1.0f32; 3]), Err(Error::Source(_))));
        let short = from_fn(8, |_| Ok(vec![]));
        let err = short.read(&[0, 1], &mut [Complex::ZERO; 2]).unwrap_err();
        assert_eq!(err, Error::WrongSampleCount { expected: 2, got: 0 });
    }
}
