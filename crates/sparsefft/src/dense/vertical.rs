//! Large powers of two in two passes over memory, many columns side by side in vectors.
//!
//! With n = n1·n2, t = n2·t1 + t2 and f = k1 + n1·k2, as in [`four_step`](super::four_step):
//! X\[f\] = Σ_{t2} e^{-2πi t2 k2/n2} · e^{-2πi t2 k1/n} · Σ_{t1} x\[n2·t1 + t2\] e^{-2πi t1 k1/n1}
//!
//! A vector holds one value each of W neighbouring columns (pass 1) or rows (pass 2), real and
//! imaginary parts apart, so butterflies need no shuffle and their factors are broadcasts:
//!
//! 1. columns: the first butterflies read W columns from the input and write a tile; more
//!    butterflies in the tile, in place; the last ones multiply by e^{-2πi t2 k1/n} and write the
//!    line of each k1 to the middle buffer.
//! 2. rows: squares of W × W values are turned over, the first butterflies write a tile, more in
//!    the tile, and the last ones write W neighbours of the output.
//!
//! The butterflies decimate in frequency, so results come out in the order of reversed digits;
//! they are written to places that are a vector or two wide, where any order costs the same.
//! The middle buffer holds, for each W columns, n1 lines of W real and W imaginary parts. An
//! inverse transform is a forward one with real and imaginary parts exchanged on the way in and
//! on the way out.

use super::four_step::{PAST_CACHE, SLACK, aligned};
use super::roots::{Roots, root};
use super::scalar::{Real, narrow};
use super::threads::{Shared, Threads, for_each};
use crate::cpu::columns::{Level, Line, Passes, between, butterfly, by_radix, get, put, zeros};
use crate::cpu::has_fma;
use crate::cpu::lanes::Lanes;
use num_complex::Complex;
use rustfft::FftDirection;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch, _mm_sfence};
use std::ops::Range;

/// The shortest length of one pass.
const SHORTEST: usize = 1 << 7;

/// Blocks of this size stay in the first cache.
const NEAR: usize = 1 << 15;

/// The vectors of one processor and precision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Width {
    Avx2,
    Avx512,
}

impl Width {
    fn widest() -> Option<Width> {
        if is_x86_feature_detected!("avx512f") {
            return Some(Width::Avx512);
        }
        has_fma().then_some(Width::Avx2)
    }
}

/// A transform of n1·n2 values in one direction.
pub(crate) struct Vertical<T: Real> {
    columns: Passes<T>,
    rows: Passes<T>,
    roots: Roots,
    /// Values of k1 that share a coarse factor: k1 = a·fine + b.
    fine: usize,
    /// Lines e^{-2πi w·k1/n} over the lanes w, for k1 = b < fine, then for all k1 = a·fine.
    steps: Vec<T>,
    width: Width,
    inverse: bool,
}

impl<T: Real> Vertical<T> {
    /// A plan for n values; `None` where n or the processor asks for another way.
    pub(crate) fn new(n: u64, direction: FftDirection) -> Option<Self> {
        Self::with_width(n, direction, Width::widest()?)
    }

    fn with_width(n: u64, direction: FftDirection, width: Width) -> Option<Self> {
        if !n.is_power_of_two() || n < (SHORTEST * SHORTEST) as u64 {
            return None;
        }
        let n1 = 1usize << (n.trailing_zeros() / 2);
        let n2 = (n / n1 as u64) as usize;
        // The largest butterfly that the registers hold.
        let radix = if width == Width::Avx512 { 8 } else { 4 };
        let fine = 1 << n1.trailing_zeros().div_ceil(2);
        let lanes = Self::lanes(width);
        let roots = Roots::new(n);
        let places = (0..fine).chain((0..n1).step_by(fine));
        let steps = places
            .flat_map(|k1| {
                let w = |lane: usize| -> Complex<T> { narrow(root((lane * k1) as u64, n)) };
                let (re, im) = (move |l| w(l).re, move |l| w(l).im);
                (0..lanes).map(re).chain((0..lanes).map(im)).collect::<Vec<_>>()
            })
            .collect();
        let near = NEAR / (lanes * size_of::<Complex<T>>());
        let (columns, rows) = (Passes::new(n1, radix, near), Passes::new(n2, radix, near));
        let inverse = direction == FftDirection::Inverse;
        Some(Vertical { columns, rows, roots, fine, steps, width, inverse })
    }

    fn lanes(width: Width) -> usize {
        let bytes = if width == Width::Avx512 { 64 } else { 32 };
        bytes / size_of::<T>()
    }

    /// Vectors' worth of columns or rows that one thread takes at a time.
    fn piece(&self, groups: usize) -> usize {
        (groups / 32).clamp(1, 8)
    }

    /// Scratch values that one thread needs: a tile, the squares of the first butterflies, the
    /// twiddle factors of some columns.
    pub(crate) fn tile_len(&self) -> usize {
        let lanes = Self::lanes(self.width);
        let (n1, n2) = (self.columns.len, self.rows.len);
        let squares = self.rows.levels[0].radix * lanes;
        (n1.max(n2) + squares + self.fine + n1 / self.fine) * lanes + SLACK
    }

    /// How many threads have work.
    pub(crate) fn threads(&self, threads: Threads) -> usize {
        let lanes = Self::lanes(self.width);
        threads.count(self.rows.len.max(self.columns.len) / lanes)
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
        let (n1, n2) = (self.columns.len, self.rows.len);
        let middle = aligned(middle);
        assert!(middle.len() >= n1 * n2 && tiles.len() >= self.tile_len());
        let lanes = Self::lanes(self.width);
        let middle = Shared(middle.as_mut_ptr());
        let past_cache = n1 * n2 * size_of::<Complex<T>>() >= PAST_CACHE;
        let cut = |groups: usize| {
            let piece = self.piece(groups);
            (groups.div_ceil(piece), move |i: usize| i * piece..((i + 1) * piece).min(groups))
        };
        let input = Shared(input.cast_mut());
        let tile_len = self.tile_len();
        let (pieces, groups) = cut(n2 / lanes);
        for_each(tiles.chunks_exact_mut(tile_len), pieces, |tile, i| {
            let tile = aligned(tile).as_mut_ptr().cast();
            // SAFETY: these columns of the input and of the middle buffer are this piece's, the
            // tile is this thread's, and the processor has the width's instructions.
            unsafe {
                let (from, to) = (input.at(0).cast_const(), middle.at(0).cast());
                let run = match self.width {
                    Width::Avx2 => columns_avx2,
                    Width::Avx512 => columns_avx512,
                };
                run(self, groups(i), from, to, tile, scale, past_cache);
            }
        });
        let output = Shared(output);
        let past_cache = past_cache && (output.0 as usize).is_multiple_of(64);
        let (pieces, groups) = cut(n1 / lanes);
        for_each(tiles.chunks_exact_mut(tile_len), pieces, |tile, i| {
            let tile = aligned(tile).as_mut_ptr().cast();
            // SAFETY: the middle buffer is complete, the input is no longer needed, and these
            // rows of the output are this piece's; the rest as above.
            unsafe {
                let (from, to) = (middle.at(0).cast_const().cast(), output.at(0));
                let run = match self.width {
                    Width::Avx2 => rows_avx2,
                    Width::Avx512 => rows_avx512,
                };
                run(self, groups(i), from, to, tile, past_cache);
            }
        });
    }
}

macro_rules! compiled_for {
    ($features:literal, $vector:ident, $columns:ident, $rows:ident) => {
        #[target_feature(enable = $features)]
        unsafe fn $columns<T: Real>(
            plan: &Vertical<T>,
            groups: Range<usize>,
            input: *const Complex<T>,
            middle: *mut T,
            tile: *mut T,
            scale: T,
            past_cache: bool,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                columns::<T::$vector>(plan, groups, input, middle, tile, scale, past_cache);
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn $rows<T: Real>(
            plan: &Vertical<T>,
            groups: Range<usize>,
            middle: *const T,
            output: *mut Complex<T>,
            tile: *mut T,
            past_cache: bool,
        ) {
            // SAFETY: the caller's promise.
            unsafe { rows::<T::$vector>(plan, groups, middle, output, tile, past_cache) }
        }
    };
}
compiled_for!("avx2,fma", Avx2, columns_avx2, rows_avx2);
compiled_for!("avx512f", Avx512, columns_avx512, rows_avx512);

/// Pass 1 for these groups of columns.
///
/// # Safety
/// As for [`Lanes`], with the places of [`Vertical::run`].
#[inline(always)] // compiled for the vectors' instructions
unsafe fn columns<V: Lanes>(
    plan: &Vertical<V::Real>,
    groups: Range<usize>,
    input: *const Complex<V::Real>,
    middle: *mut V::Real,
    tile: *mut V::Real,
    scale: V::Real,
    past_cache: bool,
) {
    let (n1, n2) = (plan.columns.len, plan.rows.len);
    let line = 2 * V::COUNT;
    let last = groups.end - 1;
    for group in groups {
        let t2 = group * V::COUNT;
        // SAFETY: n1 rows of these columns lie in the input, and in the last group nothing is
        // asked for ahead; the tile has n1 lines, and places for the factors behind them; the
        // group's lines in the middle buffer are n1.
        unsafe {
            let factors = tile.add(line * n1);
            plan.turns::<V>(t2, scale, factors);
            let from = input.add(t2);
            let ahead = if group < last { V::COUNT } else { 0 };
            let first = &plan.columns.levels[0];
            by_radix!(first.radix, gather::<V>(first, from, n2, ahead, tile, plan.inverse));
            between::<V>(&plan.columns, &(0..plan.columns.len), tile);
            let to = middle.add(line * n1 * group);
            let (order, fine) = (&plan.columns.order, plan.fine);
            by_radix!(
                plan.columns.last(),
                turn_out::<V>(order, tile, factors, fine, to, past_cache)
            );
        }
    }
    if past_cache {
        // SAFETY: every x86-64 processor has it.
        unsafe { _mm_sfence() };
    }
}

impl<T: Real> Vertical<T> {
    /// Lines of e^{-2πi t k1/n} for the columns t = t2 + lane: for k1 = b below |fine|, then, with
    /// the scale, for all k1 = a·fine.
    ///
    /// # Safety
    /// As for [`Lanes`]; there is room at `out`.
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn turns<V: Lanes<Real = T>>(&self, t2: usize, scale: T, out: *mut T) {
        let line = 2 * V::COUNT;
        let (fine, coarse) = (self.fine, self.columns.len / self.fine);
        for i in 0..fine + coarse {
            let (k1, scale) = if i < fine { (i, 1.0) } else { ((i - fine) * fine, scale.wide()) };
            let base = narrow(self.roots.get(t2 as u64 * k1 as u64) * scale);
            // SAFETY: the table of steps has as many lines; the rest is the caller's promise.
            unsafe {
                let step = Line::<V>::load(self.steps.as_ptr().add(line * i));
                step.mul(Line::<V>::splat(base)).store(out.add(line * i));
            }
        }
    }
}

/// The first butterflies of some columns, from the input to the tile. The columns `ahead` are
/// asked for on the way.
///
/// # Safety
/// As for [`Lanes`]; the rows lie in the input, `stride` values apart.
#[inline(always)] // compiled for the vectors' instructions
unsafe fn gather<V: Lanes, const R: usize>(
    level: &Level<V::Real>,
    from: *const Complex<V::Real>,
    stride: usize,
    ahead: usize,
    tile: *mut V::Real,
    exchange: bool,
) {
    for (j, w) in level.twiddles.chunks_exact(R - 1).enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let mut x = zeros::<V, R>();
            for (m, x) in x.iter_mut().enumerate() {
                let row: *const V::Real = from.add((j + m * level.apart) * stride).cast();
                let (re, im) = V::split(V::load(row), V::load(row.add(V::COUNT)));
                *x = Line { re, im }.exchanged(exchange);
                if ahead > 0 {
                    let next = row.add(2 * ahead);
                    _mm_prefetch::<_MM_HINT_T1>(next.cast());
                    if 2 * V::COUNT * size_of::<V::Real>() > 64 {
                        _mm_prefetch::<_MM_HINT_T1>(next.add(V::COUNT).cast());
                    }
                }
            }
            put(x, w.as_ptr(), tile.add(2 * V::COUNT * j), level.apart);
        }
    }
}

/// The last butterflies of some columns, turned by their factors, from the tile to the middle
/// buffer.
///
/// # Safety
/// As for [`Lanes`]; tile and target have R lines for each butterfly.
#[inline(always)] // compiled for the vectors' instructions
unsafe fn turn_out<V: Lanes, const R: usize>(
    order: &[u32],
    tile: *const V::Real,
    factors: *const V::Real,
    fine: usize,
    to: *mut V::Real,
    past_cache: bool,
) {
    let line = 2 * V::COUNT;
    let apart = order.len();
    // SAFETY: the caller's promise. `apart` is a multiple of `fine`, so the R coefficients of a
    // butterfly share their fine factor.
    unsafe {
        let coarse = factors.add(line * fine);
        for (b, &k1) in order.iter().enumerate() {
            let k1 = k1 as usize;
            let x = get::<V, R>(tile.add(line * R * b), 1);
            let y = butterfly(x);
            let f = Line::<V>::load(factors.add(line * (k1 % fine)));
            for (r, y) in y.into_iter().enumerate() {
                let k1 = k1 + r * apart;
                let c = Line::<V>::load(coarse.add(line * (k1 / fine)));
                let y = y.mul(c.mul(f));
                let to = to.add(line * k1);
                if past_cache { y.stream(to) } else { y.store(to) }
            }
        }
    }
}

/// Pass 2 for these groups of rows.
///
/// # Safety
/// As for [`Lanes`], with the places of [`Vertical::run`].
#[inline(always)] // compiled for the vectors' instructions
unsafe fn rows<V: Lanes>(
    plan: &Vertical<V::Real>,
    groups: Range<usize>,
    middle: *const V::Real,
    output: *mut Complex<V::Real>,
    tile: *mut V::Real,
    past_cache: bool,
) {
    let (n1, n2) = (plan.columns.len, plan.rows.len);
    let line = 2 * V::COUNT;
    let last = groups.end - 1;
    for group in groups {
        // SAFETY: the rows lie in all n2/W blocks of n1 lines; the tile has n2 lines and room for
        // the squares behind them.
        unsafe {
            let from = middle.add(line * V::COUNT * group);
            let ahead = group < last;
            let first = &plan.rows.levels[0];
            let squares = tile.add(line * n2);
            by_radix!(first.radix, turn_over::<V>(first, from, n1, ahead, squares, tile));
            between::<V>(&plan.rows, &(0..plan.rows.len), tile);
            let to = output.add(V::COUNT * group);
            let (order, exchange) = (&plan.rows.order, plan.inverse);
            by_radix!(plan.rows.last(), scatter::<V>(order, tile, to, n1, exchange, past_cache));
        }
    }
    if past_cache {
        // SAFETY: every x86-64 processor has it.
        unsafe { _mm_sfence() };
    }
}

/// The first butterflies of some rows: squares of the middle buffer, turned over, to the tile.
///
/// # Safety
/// As for [`Lanes`]; the blocks of the middle buffer have `n1` lines.
#[inline(always)] // compiled for the vectors' instructions
unsafe fn turn_over<V: Lanes, const R: usize>(
    level: &Level<V::Real>,
    from: *const V::Real,
    n1: usize,
    ahead: bool,
    squares: *mut V::Real,
    tile: *mut V::Real,
) {
    let line = 2 * V::COUNT;
    for j in (0..level.apart).step_by(V::COUNT) {
        // SAFETY: the caller's promise; a square has as many lines as a vector has lanes.
        unsafe {
            for m in 0..R {
                let from = from.add(line * n1 * ((m * level.apart + j) / V::COUNT));
                let square = squares.add(line * V::COUNT * m);
                V::transpose(from, square, line);
                V::transpose(from.add(V::COUNT), square.add(V::COUNT), line);
                if ahead {
                    let next: *const i8 = from.add(line * V::COUNT).cast();
                    for i in 0..line * V::COUNT * size_of::<V::Real>() / 64 {
                        _mm_prefetch::<_MM_HINT_T1>(next.add(64 * i));
                    }
                }
            }
            for i in 0..V::COUNT {
                let x = get::<V, R>(squares.add(line * i), V::COUNT);
                let w = level.twiddles.as_ptr().add((R - 1) * (j + i));
                put(x, w, tile.add(line * (j + i)), level.apart);
            }
        }
    }
}

/// The last butterflies of some rows, from the tile to the output.
///
/// # Safety
/// As for [`Lanes`]; the output has a place of W values, `stride` apart, for each line.
#[inline(always)] // compiled for the vectors' instructions
unsafe fn scatter<V: Lanes, const R: usize>(
    order: &[u32],
    tile: *const V::Real,
    to: *mut Complex<V::Real>,
    stride: usize,
    exchange: bool,
    past_cache: bool,
) {
    let line = 2 * V::COUNT;
    // SAFETY: the caller's promise.
    unsafe {
        for (b, &k2) in order.iter().enumerate() {
            let x = get::<V, R>(tile.add(line * R * b), 1);
            for (r, y) in butterfly(x).into_iter().enumerate() {
                let y = y.exchanged(exchange);
                let (a, b) = V::join(y.re, y.im);
                let to: *mut V::Real = to.add((k2 as usize + r * order.len()) * stride).cast();
                if past_cache {
                    a.stream(to);
                    b.stream(to.add(V::COUNT));
                } else {
                    a.store(to);
                    b.store(to.add(V::COUNT));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every split and every kind of vector that this processor has, against RustFFT.
    fn agree<T: Real>() {
        for bits in 14..=19 {
            let n = 1usize << bits;
            let x: Vec<Complex<T>> = (0..n + 1)
                .map(|i| narrow(Complex::new((i as f64).sin(), (i as f64 * 1.7).cos())))
                .collect();
            for direction in [FftDirection::Forward, FftDirection::Inverse] {
                let mut widths = vec![Width::Avx2];
                widths.extend(Width::widest().filter(|w| *w == Width::Avx512));
                let mut expected = x[1..].to_vec();
                T::kernel(n, direction).process(&mut expected);
                for width in widths {
                    let plan = Vertical::<T>::with_width(n as u64, direction, width).unwrap();
                    let nan = narrow(Complex::new(f64::NAN, 0.0));
                    let mut middle = vec![nan; n + SLACK];
                    let mut tiles = vec![nan; plan.tile_len()];
                    let mut y = x.clone();
                    let mut z = vec![nan; n + 1];
                    // SAFETY: all buffers hold n values after their first.
                    unsafe {
                        let p = y.as_mut_ptr().add(1);
                        plan.run(p, p, &mut middle, &mut tiles, T::one());
                        plan.run(
                            x.as_ptr().add(1),
                            z.as_mut_ptr(),
                            &mut middle,
                            &mut tiles,
                            T::one(),
                        );
                    }
                    assert_eq!(y[1..], z[..n], "n = {n}");
                    let error: f64 =
                        y[1..].iter().zip(&expected).map(|(a, b)| (a - b).norm_sqr().wide()).sum();
                    let size: f64 = expected.iter().map(|b| b.norm_sqr().wide()).sum();
                    let bound = 3.0 * T::epsilon().wide() * (bits as f64).sqrt();
                    assert!((error / size).sqrt() <= bound, "n = {n}: {error:e} of {size}");
                }
            }
        }
    }

    #[test]
    fn every_vector_agrees_with_rustfft() {
        if Width::widest().is_none() {
            println!("skipped: this processor has no AVX2");
            return;
        }
        agree::<f32>();
        agree::<f64>();
    }
}
