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
use super::lanes::Lanes;
use super::roots::{Roots, root};
use super::scalar::{Real, narrow};
use super::threads::{Shared, Threads, for_each};
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
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        avx2.then_some(Width::Avx2)
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

/// Butterflies of a length, first to last.
struct Passes<T: Real> {
    len: usize,
    levels: Vec<Level<T>>,
    /// The lowest coefficient of each of the last butterflies.
    order: Vec<u32>,
    /// What is done between the first level and the last.
    between: Vec<Run>,
}

/// Neighbouring blocks that go through a level one after the other.
struct Run {
    level: usize,
    start: usize,
    blocks: usize,
}

/// Butterflies over values that are `apart` from each other, in blocks of radix·apart.
struct Level<T: Real> {
    radix: usize,
    apart: usize,
    /// radix - 1 factors for each place in the block's first part.
    twiddles: Vec<Complex<T>>,
}

impl<T: Real> Passes<T> {
    fn new(len: usize, largest: usize, lines: usize) -> Self {
        let most = largest.trailing_zeros();
        let mut bits = len.trailing_zeros();
        let mut levels = Vec::new();
        let mut block = len;
        while bits > 0 {
            // A rest of one bit makes two butterflies of radix 4 out of 8·2.
            let take = if bits == most + 1 { most.min(2) } else { most.min(bits) };
            let (radix, apart) = (1usize << take, block >> take);
            let factors = |j: usize| (1..radix).map(move |r| (j * r, block));
            let twiddles = (0..apart)
                .flat_map(factors)
                .map(|(jr, block)| narrow(root(jr as u64, block as u64)))
                .collect();
            levels.push(Level { radix, apart, twiddles });
            (block, bits) = (apart, bits - take);
        }
        let last = levels.last().map_or(1, |level| level.radix);
        let order = (0..len / last)
            .map(|b| {
                let (mut place, mut k, mut weight) = (b * last, 0, 1);
                for level in &levels {
                    k += place / level.apart * weight;
                    place %= level.apart;
                    weight *= level.radix;
                }
                k as u32
            })
            .collect();
        let mut passes = Passes { len, levels, order, between: Vec::new() };
        passes.schedule(1, 0, len, lines);
        passes
    }

    /// Takes `len` lines from `start` on through the levels from `level` to the last but one.
    /// Blocks of more than `near` lines are finished one by one.
    fn schedule(&mut self, level: usize, start: usize, len: usize, near: usize) {
        if level + 1 >= self.levels.len() {
            return;
        }
        let size = self.levels[level].radix * self.levels[level].apart;
        if size <= near {
            self.between.push(Run { level, start, blocks: len / size });
            return self.schedule(level + 1, start, len, near);
        }
        for start in (start..start + len).step_by(size) {
            self.between.push(Run { level, start, blocks: 1 });
            self.schedule(level + 1, start, size, near);
        }
    }
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
        (groups / 16).clamp(1, 8)
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

/// Complex values, one in each lane.
#[derive(Clone, Copy)]
struct Z<V> {
    re: V,
    im: V,
}

/// Inlined into functions that are compiled for the vectors' instructions.
///
/// # Safety
/// As for [`Lanes`]; a line is a vector of real parts and one of imaginary parts.
impl<V: Lanes> Z<V> {
    #[inline(always)] // two instructions
    unsafe fn load(line: *const V::Real) -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { Z { re: V::load(line), im: V::load(line.add(V::COUNT)) } }
    }

    #[inline(always)] // two instructions
    unsafe fn store(self, line: *mut V::Real) {
        // SAFETY: see above.
        unsafe {
            self.re.store(line);
            self.im.store(line.add(V::COUNT));
        }
    }

    #[inline(always)] // two instructions
    unsafe fn stream(self, line: *mut V::Real) {
        // SAFETY: see above.
        unsafe {
            self.re.stream(line);
            self.im.stream(line.add(V::COUNT));
        }
    }

    /// The same value in all lanes.
    #[inline(always)] // two instructions
    unsafe fn splat(z: Complex<V::Real>) -> Self {
        // SAFETY: see above.
        unsafe { Z { re: V::splat(z.re), im: V::splat(z.im) } }
    }

    #[inline(always)] // two instructions
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Z { re: self.re.add(b.re), im: self.im.add(b.im) } }
    }

    #[inline(always)] // two instructions
    unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Z { re: self.re.sub(b.re), im: self.im.sub(b.im) } }
    }

    /// self - i·b.
    #[inline(always)] // two instructions
    unsafe fn sub_turned(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Z { re: self.re.add(b.im), im: self.im.sub(b.re) } }
    }

    /// self + i·b.
    #[inline(always)] // two instructions
    unsafe fn add_turned(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Z { re: self.re.sub(b.im), im: self.im.add(b.re) } }
    }

    #[inline(always)] // four instructions
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            Z {
                re: self.re.mul_sub(b.re, self.im.mul(b.im)),
                im: self.re.mul_add(b.im, self.im.mul(b.re)),
            }
        }
    }

    /// Real and imaginary parts exchanged if asked.
    #[inline(always)] // moves at most
    fn exchanged(self, yes: bool) -> Self {
        if yes { Z { re: self.im, im: self.re } } else { self }
    }
}

/// The transform of R values, in natural order.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)] // inlined into its pass
unsafe fn butterfly<V: Lanes, const R: usize>(x: [Z<V>; R]) -> [Z<V>; R] {
    let mut y = x;
    // SAFETY: the caller's promise.
    unsafe {
        match R {
            2 => {
                (y[0], y[1]) = (x[0].add(x[1]), x[0].sub(x[1]));
            }
            4 => {
                let [a, b, c, d] = four([x[0], x[1], x[2], x[3]]);
                (y[0], y[1], y[2], y[3]) = (a, b, c, d);
            }
            _ => {
                let half = V::splat(<V::Real as Real>::of(std::f64::consts::FRAC_1_SQRT_2));
                let (a, b) = (x[1].sub(x[5]), x[3].sub(x[7]));
                // Times e^{-iπ/4} and e^{-3iπ/4}.
                let a = Z { re: a.re.add(a.im).mul(half), im: a.im.sub(a.re).mul(half) };
                let b = Z { re: b.im.sub(b.re).mul(half), im: b.re.add(b.im).mul(half) };
                let (c, d) = (x[0].sub(x[4]), x[2].sub(x[6]));
                let even = four([x[0].add(x[4]), x[1].add(x[5]), x[2].add(x[6]), x[3].add(x[7])]);
                // The second factor above lacks the sign of its imaginary part, which the sums
                // and differences here supply.
                let (e, f) = (c.sub_turned(d), c.add_turned(d));
                let g = Z { re: a.re.add(b.re), im: a.im.sub(b.im) };
                let h = Z { re: a.re.sub(b.re), im: a.im.add(b.im) };
                for (i, even) in even.into_iter().enumerate() {
                    y[2 * i] = even;
                }
                (y[1], y[5]) = (e.add(g), e.sub(g));
                (y[3], y[7]) = (f.sub_turned(h), f.add_turned(h));
            }
        }
    }
    y
}

/// # Safety
/// As for [`Lanes`].
#[inline(always)] // inlined into its pass
unsafe fn four<V: Lanes>(x: [Z<V>; 4]) -> [Z<V>; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (x[0].add(x[2]), x[0].sub(x[2]));
        let (c, d) = (x[1].add(x[3]), x[1].sub(x[3]));
        [a.add(c), b.sub_turned(d), a.sub(c), b.add_turned(d)]
    }
}

/// Butterfly j of a block: multiplied by its factors and stored at `line`, `apart` lines apart.
///
/// # Safety
/// As for [`Lanes`]; the lines lie inside the tile and the twiddles belong to the level.
#[inline(always)] // inlined into its pass
unsafe fn put<V: Lanes, const R: usize>(
    x: [Z<V>; R],
    twiddles: *const Complex<V::Real>,
    line: *mut V::Real,
    apart: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let y = butterfly(x);
        y[0].store(line);
        for (r, y) in y.into_iter().enumerate().skip(1) {
            let w = Z::splat(*twiddles.add(r - 1));
            y.mul(w).store(line.add(2 * V::COUNT * apart * r));
        }
    }
}

/// One level over the block at `lines`.
///
/// # Safety
/// As for [`Lanes`]; the block lies inside the tile.
#[inline(always)] // compiled for the vectors' instructions
unsafe fn block<V: Lanes>(level: &Level<V::Real>, lines: *mut V::Real) {
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn of<V: Lanes, const R: usize>(level: &Level<V::Real>, lines: *mut V::Real) {
        for (j, w) in level.twiddles.chunks_exact(R - 1).enumerate() {
            // SAFETY: the block has R·apart lines, and there are factors for `apart` butterflies.
            unsafe {
                let line = lines.add(2 * V::COUNT * j);
                let mut x = zeros::<V, R>();
                for (m, x) in x.iter_mut().enumerate() {
                    *x = Z::load(line.add(2 * V::COUNT * level.apart * m));
                }
                put(x, w.as_ptr(), line, level.apart);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match level.radix {
            2 => of::<V, 2>(level, lines),
            4 => of::<V, 4>(level, lines),
            _ => of::<V, 8>(level, lines),
        }
    }
}

/// The levels between the first and the last, in the plan's order.
///
/// # Safety
/// As for [`Lanes`]; the tile holds the passes' length in lines.
#[inline(always)] // compiled for the vectors' instructions
unsafe fn between<V: Lanes>(passes: &Passes<V::Real>, tile: *mut V::Real) {
    for run in &passes.between {
        let level = &passes.levels[run.level];
        let size = level.radix * level.apart;
        for i in 0..run.blocks {
            // SAFETY: the blocks lie inside the tile.
            unsafe { block::<V>(level, tile.add(2 * V::COUNT * (run.start + i * size))) };
        }
    }
}

/// No values: what an array of vectors holds before it is filled.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)] // removed by the compiler
unsafe fn zeros<V: Lanes, const R: usize>() -> [Z<V>; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::Real::default());
        [Z { re: zero, im: zero }; R]
    }
}

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
            match first.radix {
                2 => gather::<V, 2>(first, from, n2, ahead, tile, plan.inverse),
                4 => gather::<V, 4>(first, from, n2, ahead, tile, plan.inverse),
                _ => gather::<V, 8>(first, from, n2, ahead, tile, plan.inverse),
            }
            between::<V>(&plan.columns, tile);
            let to = middle.add(line * n1 * group);
            let (order, fine) = (&plan.columns.order, plan.fine);
            match plan.columns.levels[plan.columns.levels.len() - 1].radix {
                2 => turn_out::<V, 2>(order, tile, factors, fine, to, past_cache),
                4 => turn_out::<V, 4>(order, tile, factors, fine, to, past_cache),
                _ => turn_out::<V, 8>(order, tile, factors, fine, to, past_cache),
            }
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
                let step = Z::<V>::load(self.steps.as_ptr().add(line * i));
                step.mul(Z::splat(base)).store(out.add(line * i));
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
                *x = Z { re, im }.exchanged(exchange);
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
            let mut x = zeros::<V, R>();
            for (m, x) in x.iter_mut().enumerate() {
                *x = Z::load(tile.add(line * (R * b + m)));
            }
            let y = butterfly(x);
            let f = Z::load(factors.add(line * (k1 % fine)));
            for (r, y) in y.into_iter().enumerate() {
                let k1 = k1 + r * apart;
                let c = Z::load(coarse.add(line * (k1 / fine)));
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
            match first.radix {
                2 => turn_over::<V, 2>(first, from, n1, ahead, squares, tile),
                4 => turn_over::<V, 4>(first, from, n1, ahead, squares, tile),
                _ => turn_over::<V, 8>(first, from, n1, ahead, squares, tile),
            }
            between::<V>(&plan.rows, tile);
            let to = output.add(V::COUNT * group);
            let (order, exchange) = (&plan.rows.order, plan.inverse);
            match plan.rows.levels[plan.rows.levels.len() - 1].radix {
                2 => scatter::<V, 2>(order, tile, to, n1, exchange, past_cache),
                4 => scatter::<V, 4>(order, tile, to, n1, exchange, past_cache),
                _ => scatter::<V, 8>(order, tile, to, n1, exchange, past_cache),
            }
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
                let mut x = zeros::<V, R>();
                for (m, x) in x.iter_mut().enumerate() {
                    *x = Z::load(squares.add(line * (V::COUNT * m + i)));
                }
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
            let mut x = zeros::<V, R>();
            for (m, x) in x.iter_mut().enumerate() {
                *x = Z::load(tile.add(line * (R * b + m)));
            }
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
