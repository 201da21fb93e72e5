//! Large transforms in two passes over memory.
//!
//! With n = n1·n2, t = n2·t1 + t2 and f = k1 + n1·k2:
//! X\[f\] = Σ_{t2} e^{-2πi t2 k2/n2} · e^{-2πi t2 k1/n} · Σ_{t1} x\[n2·t1 + t2\] e^{-2πi t1 k1/n1}
//!
//! 1. columns: W columns t2 at a time are copied into rows of a tile, transformed with length n1,
//!    turned by e^{-2πi t2 k1/n}, and written to the middle buffer.
//! 2. rows: W rows k1 at a time are copied into a tile, transformed with length n2, and written
//!    to their places in the output, W neighbours together.
//!
//! A tile stays in the second-level cache. The middle buffer is cut in blocks: block c holds the
//! columns c·W … c·W+W-1 as (k1, t2), so the first pass writes it from front to back and the
//! second reads W·W neighbours at a time. The output may be the input; the middle buffer is the
//! one extra buffer. Tiles are independent, so the result does not depend on the threads.

use super::roots::Roots;
use super::scalar::{Real, narrow};
use super::threads::{Shared, Threads, for_each};
use super::transpose::{Far, Strided, transpose};
use num_complex::Complex;
use rustfft::num_traits::One;
use rustfft::{Fft, FftDirection};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Buffers from this size on are written past the cache: the other pass comes back to them only
/// after the cache has seen as much other data, and reading each line before writing it would
/// cost half the bandwidth (strided runs of 256 bytes into 64 MB: 9 GB/s through the cache, 30
/// past it).
pub(crate) const PAST_CACHE: usize = 1 << 24;

/// Rows of a tile are this far from a multiple of their length apart, so that the same position
/// of all rows does not fall into one set of the cache.
const PAD: usize = 8;

/// A transform of n1·n2 values in one direction.
pub(crate) struct FourStep<T: Real> {
    n1: usize,
    n2: usize,
    columns: Arc<dyn Fft<T>>,
    rows: Arc<dyn Fft<T>>,
    roots: Roots,
    /// Twiddle factors of columns 0 … W-1; those of column t2 are theirs times those of the multiple
    /// of W below it.
    steps: Vec<Complex<T>>,
    direction: FftDirection,
}

impl<T: Real> FourStep<T> {
    pub(crate) fn new(n1: usize, n2: usize, direction: FftDirection) -> Self {
        let mut four = FourStep {
            n1,
            n2,
            columns: T::kernel(n1, direction),
            rows: T::kernel(n2, direction),
            roots: Roots::new((n1 * n2) as u64),
            steps: Vec::new(),
            direction,
        };
        let twiddles = four.twiddles_len();
        let mut steps = vec![Complex::default(); Self::width(n1) * twiddles];
        // Fewer columns than W: the rest is never asked for.
        for (w, step) in steps.chunks_exact_mut(twiddles).enumerate().take(n2) {
            four.twiddles(w, T::one(), step);
        }
        four.steps = steps;
        four
    }

    /// Length of the fine twiddle table of one column, about √n1; the coarse one has n1/fine.
    fn fine(&self) -> usize {
        1 << self.n1.ilog2().div_ceil(2)
    }

    fn twiddles_len(&self) -> usize {
        self.fine() + self.n1.div_ceil(self.fine())
    }

    /// Columns or rows per tile: a whole number of cache lines, and a tile of at most 1 MiB where
    /// that leaves two lines or more.
    pub(crate) fn width(len: usize) -> usize {
        let line = LINE / size_of::<Complex<T>>();
        let tile = len * LINE;
        if tile <= 1 << 17 {
            4 * line
        } else if tile <= 1 << 20 {
            2 * line
        } else {
            line
        }
    }

    /// Scratch values that one thread needs.
    pub(crate) fn tile_len(&self) -> usize {
        let need = |len: usize, fft: &Arc<dyn Fft<T>>| {
            Self::width(len) * (len + PAD) + fft.get_inplace_scratch_len()
        };
        let twiddles = 2 * self.twiddles_len();
        need(self.n1, &self.columns).max(need(self.n2, &self.rows)) + twiddles
    }

    /// How many threads have work.
    pub(crate) fn threads(&self, threads: Threads) -> usize {
        let (a, b) = (Self::width(self.n1), Self::width(self.n2));
        threads.count((self.n2.div_ceil(a) + 1).max(self.n1.div_ceil(b) + 1))
    }

    /// output = scale · transform of input. `tiles` holds [`tile_len`](Self::tile_len) values for
    /// each thread.
    ///
    /// # Safety
    /// `input` must point to n values that may be read, `output` to n values that may be written;
    /// they are the same or disjoint. `middle` has n + [`SLACK`] values.
    pub(crate) unsafe fn run(
        &self,
        input: *const Complex<T>,
        output: *mut Complex<T>,
        middle: &mut [Complex<T>],
        tiles: &mut [Complex<T>],
        scale: T,
    ) {
        let n = self.n1 * self.n2;
        let middle = aligned(middle);
        assert!(middle.len() >= n && tiles.len() >= self.tile_len());
        let middle = Shared(middle.as_mut_ptr());
        let past_cache = n * size_of::<Complex<T>>() >= PAST_CACHE;
        let target = if past_cache { Far::TargetPastCache } else { Far::Target };
        let columns = Cut::new(self.n2, Self::width(self.n1), input);
        let input = Shared(input.cast_mut());
        for_each(
            tiles.chunks_exact_mut(self.tile_len()),
            columns.pieces(),
            // SAFETY: tile c reads its own columns of the input and writes its own block of the
            // middle buffer, which starts at first·n1.
            |tile, c| unsafe {
                let piece = columns.piece(c);
                let start = piece.start;
                let from = Strided { start: input.at(start).cast_const(), stride: self.n2 };
                self.column_tile(piece, from, middle.at(start * self.n1), tile, scale, target);
            },
        );
        let rows = Cut::new(self.n1, Self::width(self.n2), output);
        let output = Shared(output);
        for_each(
            tiles.chunks_exact_mut(self.tile_len()),
            rows.pieces(),
            // SAFETY: tile r reads its own rows of the middle buffer, which is complete, and
            // writes its own places of the output. The input is no longer needed.
            |tile, r| unsafe {
                let piece = rows.piece(r);
                let to = Strided { start: output.at(piece.start), stride: self.n1 };
                let middle = Strided { start: middle.at(0).cast_const(), stride: self.n1 };
                self.row_tile(piece, columns, middle, to, tile, target);
            },
        );
    }

    /// Pass 1 for some columns, which start at `from`. Their block (k1, t2) goes to `to`.
    ///
    /// # Safety
    /// n1 rows of these columns may be read at `from`, and n1 times as many values as there are
    /// columns be written at `to`, by this thread alone.
    pub(crate) unsafe fn column_tile(
        &self,
        columns: Range<usize>,
        from: Strided<*const Complex<T>>,
        to: *mut Complex<T>,
        tile: &mut [Complex<T>],
        scale: T,
        target: Far,
    ) {
        let n1 = self.n1;
        let (first, count) = (columns.start, columns.len());
        let stride = n1 + PAD;
        let (tile, scratch) = tile.split_at_mut(count * stride);
        let turned_len = self.twiddles_len();
        let (base, scratch) = scratch.split_at_mut(turned_len);
        let (turned, scratch) = scratch.split_at_mut(turned_len);
        let scratch = &mut scratch[..self.columns.get_inplace_scratch_len()];
        // SAFETY: the source is the caller's; the tile has `count` rows of n1 values.
        unsafe {
            transpose(from, Strided { start: tile.as_mut_ptr(), stride }, n1, count, Far::Source);
        }
        // Counted from multiples of the width, not from the tile: where tiles start depends on
        // the alignment of the data, and results must not.
        let width = Self::width(n1);
        let steps = |t2: usize| &self.steps[t2 % width * turned_len..][..turned_len];
        for (t2, row) in columns.zip(tile.chunks_exact_mut(stride)) {
            let row = &mut row[..n1];
            self.columns.process_with_scratch(row, scratch);
            if t2 == first || t2.is_multiple_of(width) {
                self.twiddles(t2 - t2 % width, scale, base);
            }
            turned.copy_from_slice(base);
            T::rotate(turned, &[Complex::one()], steps(t2));
            let (fine, coarse) = turned.split_at(self.fine());
            T::rotate(row, coarse, fine);
        }
        // SAFETY: as above, with the caller's n1·count places as the target.
        unsafe {
            let from = Strided { start: tile.as_ptr(), stride };
            transpose(from, Strided { start: to, stride: count }, count, n1, target);
        }
    }

    /// e^{∓2πi t2 k1/n}·scale for all k1 as a product: values for k1 below |fine|, then, with the
    /// scale, for its multiples.
    fn twiddles(&self, t2: usize, scale: T, out: &mut [Complex<T>]) {
        let root = |k1: usize| {
            let w = self.roots.get(t2 as u64 * k1 as u64);
            if self.direction == FftDirection::Forward { w } else { w.conj() }
        };
        let (fine, coarse) = out.split_at_mut(self.fine());
        for (a, c) in coarse.iter_mut().enumerate() {
            *c = narrow(root(a * fine.len()) * scale.wide());
        }
        // |fine| is at most 2·√n1, so only n1 < 4 has more fine places than columns.
        for (b, d) in fine.iter_mut().enumerate() {
            *d = narrow(root(b.min(self.n1 - 1)));
        }
    }

    /// Pass 2 for some rows of `middle`, which has `stride` rows in blocks that are the pieces of
    /// `columns`. Coefficient k2 of the rows goes to row k2 of `to`.
    ///
    /// # Safety
    /// All of `middle` may be read, and n2 rows of as many values as there are rows here be
    /// written at `to`, by this thread alone.
    pub(crate) unsafe fn row_tile(
        &self,
        rows: Range<usize>,
        columns: Cut,
        middle: Strided<*const Complex<T>>,
        to: Strided<*mut Complex<T>>,
        tile: &mut [Complex<T>],
        target: Far,
    ) {
        let n2 = self.n2;
        let (first, count) = (rows.start, rows.len());
        let stride = n2 + PAD;
        let (tile, scratch) = tile.split_at_mut(count * stride);
        let scratch = &mut scratch[..self.rows.get_inplace_scratch_len()];
        for c in 0..columns.pieces() {
            let block = columns.piece(c);
            for w in 0..count {
                // SAFETY: a block begins where its columns times all rows before it end, and its
                // row k1 has as many values as it has columns. The tile's row w has room for them.
                unsafe {
                    let skip = block.start * middle.stride + (first + w) * block.len();
                    let from = middle.start.add(skip);
                    let to = tile.as_mut_ptr().add(w * stride + block.start);
                    std::ptr::copy_nonoverlapping(from, to, block.len());
                }
            }
        }
        for row in tile.chunks_exact_mut(stride) {
            self.rows.process_with_scratch(&mut row[..n2], scratch);
        }
        // SAFETY: the tile has `count` rows of n2 values; the target is the caller's.
        unsafe { transpose(Strided { start: tile.as_ptr(), stride }, to, count, n2, target) };
    }
}

/// Columns or rows cut into tiles whose borders lie on cache lines of the buffer they are in. The
/// first and the last may be narrower than the others.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    len: usize,
    width: usize,
    /// How much the first tile falls short of a full one.
    short: usize,
}

impl Cut {
    /// `len` neighbours, the first at this address.
    pub(crate) fn new<T>(len: usize, width: usize, start: *const T) -> Self {
        Cut { len, width, short: start as usize % LINE / size_of::<T>() }
    }

    pub(crate) fn pieces(&self) -> usize {
        (self.len + self.short).div_ceil(self.width)
    }

    pub(crate) fn piece(&self, i: usize) -> Range<usize> {
        let at = |i: usize| (i * self.width).saturating_sub(self.short).min(self.len);
        at(i)..at(i + 1)
    }
}

/// The part of a buffer that starts on a cache line.
pub(crate) fn aligned<T>(buffer: &mut [T]) -> &mut [T] {
    let skip = buffer.as_ptr().align_offset(LINE).min(SLACK).min(buffer.len());
    &mut buffer[skip..]
}

/// How many values longer than n a middle buffer must be.
pub(crate) const SLACK: usize = LINE / 8;

/// The split n = n1·n2 of the two passes: both near √n, with small prime factors if possible.
/// `None` if n has no divisor within a factor of 8 of its root.
pub(crate) fn balanced(n: u64) -> Option<(usize, usize)> {
    if n.is_power_of_two() {
        let n1 = 1usize << (n.trailing_zeros() / 2);
        return Some((n1, (n / n1 as u64) as usize));
    }
    let mut best: Option<(f64, u64)> = None;
    let mut d = n.isqrt();
    // Divisors up to n.isqrt()/8 are tried; factors beyond 13 cost four times as much.
    while d * d * 64 >= n && d >= 2 {
        if n.is_multiple_of(d) {
            let cost = cost(d) + cost(n / d) + 0.25 * ((n / d) as f64 / d as f64).log2();
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, d));
            }
        }
        d -= 1;
    }
    best.map(|(_, d)| (d as usize, (n / d) as usize))
}

/// Operations per value of a short transform, in units of a radix-2 step.
fn cost(mut n: u64) -> f64 {
    let bits = (n as f64).log2();
    for p in [2, 3, 5, 7, 11, 13] {
        while n.is_multiple_of(p) {
            n /= p;
        }
    }
    if n == 1 { bits } else { 4.0 * bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_balanced_or_none() {
        assert_eq!(balanced(1 << 20), Some((1 << 10, 1 << 10)));
        assert_eq!(balanced(1 << 21), Some((1 << 10, 1 << 11)));
        assert_eq!(balanced(1_000_003), None); // prime
        assert_eq!(balanced(2 * 500_009), None);
        let (a, b) = balanced(1_000_000).unwrap();
        assert_eq!(a * b, 1_000_000);
        // 1009 · 1013: two primes, still far better than one transform of the whole length.
        assert_eq!(balanced(1009 * 1013), Some((1009, 1013)));
    }

    /// Small tiles of every shape, against RustFFT, in place and not, aligned and not.
    fn agree<T: Real>() {
        for (n1, n2) in [(1, 1), (1, 5), (2, 3), (8, 8), (16, 64), (48, 40), (7, 31), (33, 130)] {
            let n = n1 * n2;
            for direction in [FftDirection::Forward, FftDirection::Inverse] {
                let x: Vec<Complex<T>> = (0..n + 1)
                    .map(|i| narrow(Complex::new((i as f64).sin(), (i as f64 * 1.7).cos())))
                    .collect();
                let four = FourStep::<T>::new(n1, n2, direction);
                let mut middle = vec![narrow(Complex::new(f64::NAN, 0.0)); n + SLACK];
                let mut tiles = middle.repeat(four.tile_len());
                tiles.truncate(2 * four.tile_len());
                for shift in [0, 1] {
                    let mut expected = x[shift..shift + n].to_vec();
                    T::kernel(n, direction).process(&mut expected);
                    let mut y = x.clone();
                    let mut z = x.clone();
                    // SAFETY: all buffers hold n values after their shift.
                    unsafe {
                        let p = y.as_mut_ptr().add(shift);
                        four.run(p, p, &mut middle, &mut tiles, T::one());
                        let (from, to) = (x.as_ptr().add(shift), z.as_mut_ptr().add(1 - shift));
                        four.run(from, to, &mut middle, &mut tiles, T::one());
                    }
                    let (y, z) = (&y[shift..shift + n], &z[1 - shift..1 - shift + n]);
                    assert_eq!(y, z, "{n1} x {n2}");
                    let error: f64 =
                        y.iter().zip(&expected).map(|(a, b)| (a - b).norm_sqr().wide()).sum();
                    let size: f64 = expected.iter().map(|b| b.norm_sqr().wide()).sum();
                    let bound = 3.0 * T::epsilon().wide() * (n as f64).log2().max(1.0).sqrt();
                    assert!((error / size).sqrt() <= bound, "{n1} x {n2}: {error:e} of {size}");
                }
            }
        }
    }

    #[test]
    fn any_shape_agrees_with_rustfft() {
        agree::<f32>();
        agree::<f64>();
    }
}
