//! Transforms of many columns side by side: butterflies whose every operand is a whole line.
//!
//! A line holds one complex value of each column, the real parts before the imaginary ones. A
//! transform along the columns then needs no shuffle, and its factors are broadcasts. [`Line`] is a
//! line in registers; [`Passes`] is the plan of a power of two, decimating in frequency:
//!
//! 1. the first level reads lines from elsewhere into a tile (the caller's loop, with [`put`]);
//! 2. [`between`] runs the levels inside the tile, in place, so that blocks which fit the first
//!    cache are finished before the next one begins;
//! 3. the last level writes lines elsewhere, in the order of reversed digits (the caller's loop).

use super::lanes::Lanes;
use crate::Complex;
use crate::dense::{Real, narrow, root};
use std::ops::Range;

/// A line in two registers.
///
/// # Safety
/// All functions need the instructions of their vector, and a whole line of memory where they read
/// or write. They are inlined into functions that are compiled for these instructions.
#[derive(Clone, Copy)]
pub(crate) struct Line<V> {
    pub(crate) re: V,
    pub(crate) im: V,
}

impl<V: Lanes> Line<V> {
    /// Real values in a line.
    pub(crate) const REALS: usize = 2 * V::COUNT;

    #[inline(always)] // two instructions
    pub(crate) unsafe fn load(line: *const V::Real) -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { Line { re: V::load(line), im: V::load(line.add(V::COUNT)) } }
    }

    #[inline(always)] // two instructions
    pub(crate) unsafe fn store(self, line: *mut V::Real) {
        // SAFETY: see above.
        unsafe {
            self.re.store(line);
            self.im.store(line.add(V::COUNT));
        }
    }

    /// The same value in all columns.
    #[inline(always)] // two instructions
    pub(crate) unsafe fn splat(z: Complex<V::Real>) -> Self {
        // SAFETY: see above.
        unsafe { Line { re: V::splat(z.re), im: V::splat(z.im) } }
    }

    #[inline(always)] // two instructions
    pub(crate) unsafe fn add(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Line { re: self.re.add(b.re), im: self.im.add(b.im) } }
    }

    #[inline(always)] // two instructions
    pub(crate) unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Line { re: self.re.sub(b.re), im: self.im.sub(b.im) } }
    }

    /// self - i·b.
    #[inline(always)] // two instructions
    pub(crate) unsafe fn sub_turned(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Line { re: self.re.add(b.im), im: self.im.sub(b.re) } }
    }

    /// self + i·b.
    #[inline(always)] // two instructions
    pub(crate) unsafe fn add_turned(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe { Line { re: self.re.sub(b.im), im: self.im.add(b.re) } }
    }

    /// self times a real number.
    #[inline(always)] // two instructions
    pub(crate) unsafe fn scale(self, c: V::Real) -> Self {
        // SAFETY: see above.
        unsafe {
            let c = V::splat(c);
            Line { re: self.re.mul(c), im: self.im.mul(c) }
        }
    }

    /// self times the complex number at this place.
    #[inline(always)] // six instructions
    pub(crate) unsafe fn times(self, w: *const Complex<V::Real>) -> Self {
        // SAFETY: see above.
        unsafe { self.mul(Self::splat(*w)) }
    }

    #[inline(always)] // four instructions
    pub(crate) unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            Line {
                re: self.re.mul_sub(b.re, self.im.mul(b.im)),
                im: self.re.mul_add(b.im, self.im.mul(b.re)),
            }
        }
    }

    /// Stores past the cache, to an aligned line.
    #[inline(always)] // two instructions
    pub(crate) unsafe fn stream(self, line: *mut V::Real) {
        // SAFETY: see above.
        unsafe {
            self.re.stream(line);
            self.im.stream(line.add(V::COUNT));
        }
    }

    /// Real and imaginary parts exchanged if asked.
    #[inline(always)] // moves at most
    pub(crate) fn exchanged(self, yes: bool) -> Self {
        if yes { Line { re: self.im, im: self.re } } else { self }
    }
}

/// Butterflies of a power of two, first to last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Passes<T: Real> {
    pub(crate) len: usize,
    pub(crate) levels: Vec<Level<T>>,
    /// The lowest coefficient of each of the last butterflies; the others follow at distances of
    /// as many as there are butterflies.
    pub(crate) order: Vec<u32>,
    /// What is done between the first level and the last.
    between: Vec<Run>,
}

/// Butterflies over values that are `apart` from each other, in blocks of radix·apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level<T: Real> {
    pub(crate) radix: usize,
    pub(crate) apart: usize,
    /// radix - 1 factors for each place in the block's first part.
    pub(crate) twiddles: Vec<Complex<T>>,
}

/// Neighbouring blocks that go through a level one after the other.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    level: usize,
    start: usize,
    blocks: usize,
}

impl<T: Real> Passes<T> {
    /// A plan for `len` lines, a power of two of at least 4, with butterflies of at most
    /// `largest`. `near` lines fit the first cache.
    pub(crate) fn new(len: usize, largest: usize, near: usize) -> Self {
        let most = largest.trailing_zeros();
        let mut bits = len.trailing_zeros();
        let mut radices = Vec::new();
        while bits > 0 {
            // A rest of one bit makes two butterflies of radix 4 out of 8·2.
            let take = if bits == most + 1 { most.min(2) } else { most.min(bits) };
            radices.push(1 << take);
            bits -= take;
        }
        Self::of(len, &radices, near)
    }

    /// [`new`](Passes::new) with butterflies whose sizes, at most 8, read the same from both ends: the
    /// order of reversed digits then exchanges places, and the last level can be done in place.
    pub(crate) fn symmetric(len: usize, near: usize) -> Self {
        let bits = len.trailing_zeros() as usize;
        let radices = match (bits % 3, bits / 3) {
            (0, eights) => vec![8; eights],
            (1, eights) => [&[4][..], &vec![8; eights - 1], &[4]].concat(),
            (_, eights) if eights % 2 == 0 => {
                [&vec![8; eights / 2][..], &[4], &vec![8; eights / 2]].concat()
            }
            (_, eights) => {
                let half = vec![8; (eights - 1) / 2];
                [&[4][..], &half, &[2], &half, &[4]].concat()
            }
        };
        Self::of(len, &radices, near)
    }

    /// A plan with these butterflies.
    fn of(len: usize, radices: &[usize], near: usize) -> Self {
        let mut levels = Vec::new();
        let mut block = len;
        for &radix in radices {
            let apart = block / radix;
            let factors = |j: usize| (1..radix).map(move |r| (j * r, block));
            let twiddles = (0..apart)
                .flat_map(factors)
                .map(|(jr, block)| narrow(root(jr as u64, block as u64)))
                .collect();
            levels.push(Level { radix, apart, twiddles });
            block = apart;
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
        passes.schedule(1, 0, len, near);
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

    /// Parts that the first level leaves to go on without each other, each to its end: the blocks
    /// of the second level where they are finished one by one, else the whole.
    pub(crate) fn parts(&self) -> usize {
        let one_by_one = self.between.first().is_some_and(|run| run.blocks == 1);
        if one_by_one { self.levels[0].radix } else { 1 }
    }

    /// The radix of the last butterflies.
    pub(crate) fn last(&self) -> usize {
        self.levels.last().map_or(1, |level| level.radix)
    }
}

/// Calls a function of this radix; the plans have no others.
macro_rules! by_radix {
    ($radix:expr, $function:ident$(::<$vector:ty>)?($($argument:expr),* $(,)?)) => {
        match $radix {
            2 => $function::<$($vector,)? 2>($($argument),*),
            4 => $function::<$($vector,)? 4>($($argument),*),
            _ => $function::<$($vector,)? 8>($($argument),*),
        }
    };
}
pub(crate) use by_radix;

/// No values: what an array of lines holds before it is filled.
///
/// # Safety
/// As for [`Line`].
#[inline(always)] // removed by the compiler
pub(crate) unsafe fn zeros<V: Lanes, const R: usize>() -> [Line<V>; R] {
    // SAFETY: the caller's promise.
    [unsafe { Line::<V>::splat(Complex::default()) }; R]
}

/// The transform of R values, in natural order.
///
/// # Safety
/// As for [`Line`].
#[inline(always)] // inlined into its pass
pub(crate) unsafe fn butterfly<V: Lanes, const R: usize>(x: [Line<V>; R]) -> [Line<V>; R] {
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
                let half = V::Real::of(std::f64::consts::FRAC_1_SQRT_2);
                let even = four([x[0].add(x[4]), x[1].add(x[5]), x[2].add(x[6]), x[3].add(x[7])]);
                let (a, b) = (x[1].sub(x[5]), x[3].sub(x[7]));
                let (c, d) = (x[0].sub(x[4]), x[2].sub(x[6]));
                // Times e^{-iπ/4}; the second lacks a factor -i, which the next step supplies.
                let (a, b) = (a.sub_turned(a).scale(half), b.sub_turned(b).scale(half));
                let (e, f) = (c.sub_turned(d), c.add_turned(d));
                let (g, h) = (a.sub_turned(b), a.add_turned(b));
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
/// As for [`Line`].
#[inline(always)] // inlined into its pass
unsafe fn four<V: Lanes>(x: [Line<V>; 4]) -> [Line<V>; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (x[0].add(x[2]), x[0].sub(x[2]));
        let (c, d) = (x[1].add(x[3]), x[1].sub(x[3]));
        [a.add(c), b.sub_turned(d), a.sub(c), b.add_turned(d)]
    }
}

/// The butterfly of x, multiplied by its factors and stored from `line` on, `apart` lines apart.
///
/// # Safety
/// As for [`Line`]; there are R - 1 factors.
#[inline(always)] // inlined into its pass
pub(crate) unsafe fn put<V: Lanes, const R: usize>(
    x: [Line<V>; R],
    factors: *const Complex<V::Real>,
    line: *mut V::Real,
    apart: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let y = butterfly(x);
        y[0].store(line);
        for (r, y) in y.into_iter().enumerate().skip(1) {
            y.times(factors.add(r - 1)).store(line.add(Line::<V>::REALS * apart * r));
        }
    }
}

/// R lines from `line` on, `apart` lines apart.
///
/// # Safety
/// As for [`Line`].
#[inline(always)] // inlined into its pass
pub(crate) unsafe fn get<V: Lanes, const R: usize>(
    line: *const V::Real,
    apart: usize,
) -> [Line<V>; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = zeros::<V, R>();
        for (m, x) in x.iter_mut().enumerate() {
            *x = Line::<V>::load(line.add(Line::<V>::REALS * apart * m));
        }
        x
    }
}

/// The levels between the first and the last, in the plan's order, for the lines of one of the
/// passes' [`parts`](Passes::parts), or for all.
///
/// # Safety
/// As for [`Line`]; the tile holds the passes' length in lines.
#[inline(always)] // compiled for the vectors' instructions
pub(crate) unsafe fn between<V: Lanes>(
    passes: &Passes<V::Real>,
    part: &Range<usize>,
    tile: *mut V::Real,
) {
    for run in passes.between.iter().filter(|run| part.contains(&run.start)) {
        let level = &passes.levels[run.level];
        let size = level.radix * level.apart;
        for i in 0..run.blocks {
            // SAFETY: the blocks lie inside the tile.
            unsafe {
                let lines = tile.add(Line::<V>::REALS * (run.start + i * size));
                by_radix!(level.radix, block::<V>(level, 0..level.apart, lines, lines));
            }
        }
    }
}

/// These butterflies of one level, from the block at `from` to the block at `to`, which may be the
/// same.
///
/// # Safety
/// As for [`Line`]; both blocks have as many lines as the level asks for.
#[inline(always)] // compiled for the vectors' instructions
pub(crate) unsafe fn block<V: Lanes, const R: usize>(
    level: &Level<V::Real>,
    which: Range<usize>,
    from: *const V::Real,
    to: *mut V::Real,
) {
    let factors = level.twiddles[(R - 1) * which.start..(R - 1) * which.end].chunks_exact(R - 1);
    for (j, w) in which.zip(factors) {
        // SAFETY: the block has R·apart lines, and there are factors for `apart` butterflies.
        unsafe {
            let x = get::<V, R>(from.add(Line::<V>::REALS * j), level.apart);
            put(x, w.as_ptr(), to.add(Line::<V>::REALS * j), level.apart);
        }
    }
}
