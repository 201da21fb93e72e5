//! Four numbers side by side: one vector register where the processor has AVX2, plain arrays
//! elsewhere. This is the one place that knows instructions; everything else is written once.
//!
//! The parameter says which: `F4<true>` may only be made in functions that [`dispatch!`] enters
//! after it has found AVX2 and FMA on the processor.
//!
//! [`dispatch!`]: super::dispatch

use crate::samples::Line;
use std::ops::{Add, Mul, Neg, Sub};

/// Four f64 side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(32))]
pub(crate) struct F4<const FMA: bool>(pub(crate) [f64; 4]);

/// Numbers side by side, as kernels that do not care how many see them. Every implementation may only
/// be used where its instructions were found (see [`Row`](super::rows::Row)).
pub(crate) trait Vector:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// A truth value for each.
    type Mask: Copy;
    /// How many: four or eight.
    const COUNT: usize;
    /// The values of eight that stand at COUNT·i.
    fn part(from: &[f64; 8], i: usize) -> Self;
    /// [`part`](Vector::part) of four complex samples that are hardly in the first cache.
    fn samples(from: &[f64; 8], i: usize) -> Self;
    /// Values 4i, 4i + 1, 4i + 2 and 4i + 3.
    fn four(self, i: usize) -> [f64; 4];
    fn splat(x: f64) -> Self;
    /// The first of eight values that are not in memory yet: reading together what was just written
    /// one by one has to wait.
    fn collect(from: [f64; 8]) -> Self;
    /// The first of eight whole numbers.
    fn of_whole(from: [u32; 8]) -> Self;
    /// self·b + c.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// c - self·b.
    fn negate_mul_add(self, b: Self, c: Self) -> Self;
    fn div(self, b: Self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn round(self) -> Self;
    fn floor(self) -> Self;
    /// The larger of each pair.
    fn max(self, b: Self) -> Self;
    /// Numbers 1, 0, 3, 2 and so on.
    fn swapped(self) -> Self;
    fn below(self, b: Self) -> Self::Mask;
    /// The lowest bit, and the next, of whole numbers below 2^50, negative ones too.
    fn low_bits(self) -> (Self::Mask, Self::Mask);
    /// Whether any number is below that of b.
    fn any_below(self, b: Self) -> bool;
    /// Which numbers are below those of b, one bit each from the lowest on.
    fn below_bits(self, b: Self) -> u8;
    /// Writes the numbers whose bits are set, in order. What is written after them means nothing.
    fn keep(self, bits: u8, out: &mut [f64; 8]);
    /// self where the mask holds, other elsewhere.
    fn where_or(self, mask: Self::Mask, other: Self) -> Self;
    /// The lanes of the first lines of eight: real and imaginary part of lane τ in place τ.
    fn lanes_of(lines: [&Line; 8]) -> [(Self, Self); 4];
    /// Number i of each of the first of eight, for every i.
    fn fields_of(of: &[[f64; 4]; 8]) -> [Self; 4];
    /// The lines with these lanes, the first of eight.
    fn lines_of(lanes: [(Self, Self); 4]) -> [Line; 8];

    /// The first values of eight.
    #[inline(always)] // a load
    fn of(from: &[f64; 8]) -> Self {
        Self::part(from, 0)
    }

    /// The numbers, and zeros after them.
    #[inline(always)] // a store
    fn each(self) -> [f64; 8] {
        let mut each = [0.0; 8];
        for i in 0..Self::COUNT / 4 {
            each[4 * i..4 * i + 4].copy_from_slice(&self.four(i));
        }
        each
    }

    /// self where |x| is below the limit, 0 elsewhere.
    #[inline(always)] // three instructions
    fn where_small(self, x: Self, limit: f64) -> Self {
        self.where_or(x.abs().below(Self::splat(limit)), Self::splat(0.0))
    }
}

/// The methods of [`Vector`] that [`F4`] has under the same name.
macro_rules! same {
    ($($name:ident($($arg:ident),*)),*) => {$(
        #[inline(always)] // one instruction
        fn $name(self $(, $arg: Self)*) -> Self {
            F4::$name(self $(, $arg)*)
        }
    )*};
}

impl<const FMA: bool> Vector for F4<FMA> {
    type Mask = Mask<FMA>;
    const COUNT: usize = 4;
    same!(
        mul_add(b, c),
        negate_mul_add(b, c),
        div(b),
        sqrt(),
        abs(),
        round(),
        floor(),
        max(b),
        swapped()
    );

    #[inline(always)] // a load
    fn part(from: &[f64; 8], i: usize) -> Self {
        F4(from.as_chunks::<4>().0[i])
    }

    #[inline(always)] // a load
    fn samples(from: &[f64; 8], i: usize) -> Self {
        Self::part(from, i)
    }

    #[inline(always)] // register moves
    fn four(self, _: usize) -> [f64; 4] {
        self.0
    }

    #[inline(always)] // register moves
    fn splat(x: f64) -> Self {
        F4::splat(x)
    }

    #[inline(always)] // register moves
    fn collect(from: [f64; 8]) -> Self {
        F4([from[0], from[1], from[2], from[3]])
    }

    #[inline(always)] // four instructions
    fn of_whole(from: [u32; 8]) -> Self {
        F4([from[0].into(), from[1].into(), from[2].into(), from[3].into()])
    }

    #[inline(always)] // one instruction
    fn below(self, b: Self) -> Mask<FMA> {
        F4::below(self, b)
    }

    #[inline(always)] // three instructions
    fn low_bits(self) -> (Mask<FMA>, Mask<FMA>) {
        F4::low_bits(self)
    }

    #[inline(always)] // two instructions
    fn any_below(self, b: Self) -> bool {
        b.above_bits(self) != 0
    }

    #[inline(always)] // two instructions
    fn below_bits(self, b: Self) -> u8 {
        b.above_bits(self) as u8
    }

    #[inline(always)] // two instructions and a load
    fn keep(self, bits: u8, out: &mut [f64; 8]) {
        out[..4].copy_from_slice(&F4::kept(self, bits));
    }

    #[inline(always)] // one instruction
    fn where_or(self, mask: Mask<FMA>, other: Self) -> Self {
        F4::where_or(self, mask, other)
    }

    #[inline(always)] // sixteen instructions and as many loads
    fn lanes_of(lines: [&Line; 8]) -> [(Self, Self); 4] {
        let [a, b, c, d, ..] = lines;
        let re = F4::transpose([F4(a.re), F4(b.re), F4(c.re), F4(d.re)]);
        let im = F4::transpose([F4(a.im), F4(b.im), F4(c.im), F4(d.im)]);
        [(re[0], im[0]), (re[1], im[1]), (re[2], im[2]), (re[3], im[3])]
    }

    #[inline(always)] // eight instructions
    fn fields_of(of: &[[f64; 4]; 8]) -> [Self; 4] {
        F4::transpose([F4(of[0]), F4(of[1]), F4(of[2]), F4(of[3])])
    }

    #[inline(always)] // sixteen instructions
    fn lines_of(lanes: [(Self, Self); 4]) -> [Line; 8] {
        let [a, b, c, d] = lanes;
        let re = F4::transpose([a.0, b.0, c.0, d.0]);
        let im = F4::transpose([a.1, b.1, c.1, d.1]);
        let mut lines = [Line::ZERO; 8];
        for (i, line) in lines[..4].iter_mut().enumerate() {
            (line.re, line.im) = (re[i].0, im[i].0);
        }
        lines
    }
}

/// For each set of four bits, where the halves of the numbers come from whose bits are set.
const KEPT: [[u32; 8]; 16] = {
    let mut table = [[0; 8]; 16];
    let mut bits = 0;
    while bits < 16 {
        let (mut i, mut count) = (0, 0);
        while i < 4 {
            if bits >> i & 1 == 1 {
                table[bits][2 * count] = 2 * i;
                table[bits][2 * count + 1] = 2 * i + 1;
                count += 1;
            }
            i += 1;
        }
        bits += 1;
    }
    table
};

/// 2^52 + 2^51: whole numbers that are added to it stand in its lowest bits, negative ones as the
/// processor writes them.
pub(super) const WHOLE: f64 = 6_755_399_441_055_744.0;

/// Four truth values: the highest bit of each counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mask<const FMA: bool>([u64; 4]);

#[cfg(target_arch = "x86_64")]
mod x86 {
    pub(super) use std::arch::x86_64::*;

    #[inline(always)] // register moves
    pub(super) fn load<T>(v: [T; 4]) -> __m256d {
        const { assert!(size_of::<T>() == 8) };
        // SAFETY: both are 32 bytes without padding, and every bit pattern is a value.
        unsafe { std::mem::transmute_copy(&v) }
    }

    #[inline(always)] // register moves
    pub(super) fn store(v: __m256d) -> [f64; 4] {
        // SAFETY: both are 32 bytes without padding.
        unsafe { std::mem::transmute(v) }
    }

    #[inline(always)] // register moves
    pub(super) fn bits(v: __m256d) -> [u64; 4] {
        // SAFETY: both are 32 bytes without padding.
        unsafe { std::mem::transmute(v) }
    }
}

/// An operation in one instruction where there is one, by hand elsewhere.
macro_rules! vector {
    ($wide:expr, $plain:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if FMA {
            #[allow(unused_imports)] // each operation uses some
            use x86::*;
            // SAFETY: `FMA` holds only on processors with AVX2 and FMA (see the module).
            return unsafe { $wide };
        }
        $plain
    }};
}

#[inline(always)] // four instructions
fn each(f: impl Fn(usize) -> f64) -> [f64; 4] {
    [f(0), f(1), f(2), f(3)]
}

impl<const FMA: bool> F4<FMA> {
    /// 0, 1, 2, 3.
    pub(crate) const COUNT: F4<FMA> = F4([0.0, 1.0, 2.0, 3.0]);
    pub(crate) const ZERO: F4<FMA> = F4([0.0; 4]);

    #[inline(always)] // register moves
    pub(crate) fn splat(x: f64) -> Self {
        F4([x; 4])
    }

    /// self·b + c.
    #[inline(always)] // one instruction with FMA, two without
    pub(crate) fn mul_add(self, b: Self, c: Self) -> Self {
        vector!(
            F4(store(_mm256_fmadd_pd(load(self.0), load(b.0), load(c.0)))),
            F4(each(|i| self.0[i] * b.0[i] + c.0[i]))
        )
    }

    /// c - self·b.
    #[inline(always)] // one instruction with FMA, two without
    pub(crate) fn negate_mul_add(self, b: Self, c: Self) -> Self {
        vector!(
            F4(store(_mm256_fnmadd_pd(load(self.0), load(b.0), load(c.0)))),
            F4(each(|i| c.0[i] - self.0[i] * b.0[i]))
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn below(self, b: Self) -> Mask<FMA> {
        vector!(
            Mask(bits(_mm256_cmp_pd::<_CMP_LT_OQ>(load(self.0), load(b.0)))),
            Mask([0, 1, 2, 3].map(|i| if self.0[i] < b.0[i] { u64::MAX } else { 0 }))
        )
    }

    /// See [`Vector::low_bits`].
    #[inline(always)] // three instructions
    fn low_bits(self) -> (Mask<FMA>, Mask<FMA>) {
        let whole = (self + F4::splat(WHOLE)).0;
        vector!(
            {
                let whole = _mm256_castpd_si256(load(whole));
                let lowest = _mm256_castsi256_pd(_mm256_slli_epi64::<63>(whole));
                let next = _mm256_castsi256_pd(_mm256_slli_epi64::<62>(whole));
                (Mask(bits(lowest)), Mask(bits(next)))
            },
            (Mask(whole.map(|v| v.to_bits() << 63)), Mask(whole.map(|v| v.to_bits() << 62)))
        )
    }

    /// self where the mask holds, other elsewhere.
    #[inline(always)] // one instruction
    pub(crate) fn where_or(self, mask: Mask<FMA>, other: Self) -> Self {
        vector!(
            F4(store(_mm256_blendv_pd(load(other.0), load(self.0), load(mask.0)))),
            F4(each(|i| if mask.0[i] >> 63 == 1 { self.0[i] } else { other.0[i] }))
        )
    }

    /// The larger of each pair.
    #[inline(always)] // one instruction
    pub(crate) fn max(self, b: Self) -> Self {
        vector!(
            F4(store(_mm256_max_pd(load(self.0), load(b.0)))),
            F4(each(|i| if self.0[i] > b.0[i] { self.0[i] } else { b.0[i] }))
        )
    }

    /// Numbers 1, 0, 3, 2.
    #[inline(always)] // one instruction
    fn swapped(self) -> Self {
        vector!(
            F4(store(_mm256_permute_pd::<0b0101>(load(self.0)))),
            F4([self.0[1], self.0[0], self.0[3], self.0[2]])
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn abs(self) -> Self {
        vector!(
            F4(store(_mm256_andnot_pd(_mm256_set1_pd(-0.0), load(self.0)))),
            F4(each(|i| self.0[i].abs()))
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn round(self) -> Self {
        vector!(
            F4(store(_mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(load(
                self.0
            )))),
            F4(each(|i| self.0[i].round_ties_even()))
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn floor(self) -> Self {
        vector!(
            F4(store(_mm256_round_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(load(
                self.0
            )))),
            F4(each(|i| self.0[i].floor()))
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn div(self, b: Self) -> Self {
        vector!(F4(store(_mm256_div_pd(load(self.0), load(b.0)))), F4(each(|i| self.0[i] / b.0[i])))
    }

    #[inline(always)] // one instruction
    pub(crate) fn sqrt(self) -> Self {
        vector!(F4(store(_mm256_sqrt_pd(load(self.0)))), F4(each(|i| self.0[i].sqrt())))
    }

    /// Which of the four exceed b, one bit each from the lowest on.
    #[inline(always)] // two instructions
    pub(crate) fn above_bits(self, b: Self) -> u32 {
        vector!(
            _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(load(self.0), load(b.0))) as u32,
            (0..4).fold(0, |bits, i| bits | u32::from(self.0[i] > b.0[i]) << i)
        )
    }

    /// Real and imaginary parts of two complex numbers here and two in b.
    #[inline(always)] // four instructions
    pub(crate) fn split(self, b: Self) -> (Self, Self) {
        vector!(
            {
                let (x, y) = (load(self.0), load(b.0));
                let (re, im) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
                // Numbers 0, 2, 1, 3.
                let (re, im) = (
                    _mm256_permute4x64_pd::<0b11_01_10_00>(re),
                    _mm256_permute4x64_pd::<0b11_01_10_00>(im),
                );
                (F4(store(re)), F4(store(im)))
            },
            (
                F4([self.0[0], self.0[2], b.0[0], b.0[2]]),
                F4([self.0[1], self.0[3], b.0[1], b.0[3]])
            )
        )
    }

    /// Number i of each, for every i.
    #[inline(always)] // eight instructions
    pub(crate) fn transpose(of: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = of;
        vector!(
            {
                let (a, b, c, d) = (load(a.0), load(b.0), load(c.0), load(d.0));
                let (ab, cd) = (_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d));
                let (odd_ab, odd_cd) = (_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d));
                [
                    F4(store(_mm256_permute2f128_pd::<0x20>(ab, cd))),
                    F4(store(_mm256_permute2f128_pd::<0x20>(odd_ab, odd_cd))),
                    F4(store(_mm256_permute2f128_pd::<0x31>(ab, cd))),
                    F4(store(_mm256_permute2f128_pd::<0x31>(odd_ab, odd_cd))),
                ]
            },
            [0, 1, 2, 3].map(|i| F4([a.0[i], b.0[i], c.0[i], d.0[i]]))
        )
    }

    /// The sums of each of four.
    #[inline(always)] // five instructions
    pub(crate) fn sums(of: [Self; 4]) -> Self {
        let [a, b, c, d] = of;
        vector!(
            {
                let ab = _mm256_hadd_pd(load(a.0), load(b.0));
                let cd = _mm256_hadd_pd(load(c.0), load(d.0));
                let inner = _mm256_permute2f128_pd::<0x21>(ab, cd);
                F4(store(_mm256_add_pd(_mm256_blend_pd::<0b1100>(ab, cd), inner)))
            },
            F4([a.sum(), b.sum(), c.sum(), d.sum()])
        )
    }

    /// The numbers whose bits are set, in order, and anything after them.
    #[inline(always)] // two instructions and a load
    fn kept(self, bits: u8) -> [f64; 4] {
        let order = &KEPT[usize::from(bits & 15)];
        vector!(
            {
                // Halves of the numbers, as no instruction moves whole ones by a table.
                let order = _mm256_loadu_si256(order.as_ptr().cast());
                let values = _mm256_castpd_ps(load(self.0));
                store(_mm256_castps_pd(_mm256_permutevar8x32_ps(values, order)))
            },
            each(|i| self.0[order[2 * i] as usize / 2])
        )
    }

    /// How many of all numbers are below each of some.
    #[inline(always)] // five instructions for each number
    pub(super) fn ranks(all: &[u32], some: &[u32; 16]) -> [u32; 16] {
        vector!(
            {
                // Numbers are compared as if they had signs: what is below 0 comes first.
                let turn = _mm256_set1_epi32(i32::MIN);
                let turned = |of: *const u32| _mm256_xor_si256(_mm256_loadu_si256(of.cast()), turn);
                let some = [turned(some.as_ptr()), turned(some[8..].as_ptr())];
                let mut sums = [_mm256_setzero_si256(); 2];
                for &other in all {
                    let other = _mm256_xor_si256(_mm256_set1_epi32(other as i32), turn);
                    sums = [
                        _mm256_sub_epi32(sums[0], _mm256_cmpgt_epi32(some[0], other)),
                        _mm256_sub_epi32(sums[1], _mm256_cmpgt_epi32(some[1], other)),
                    ];
                }
                std::mem::transmute::<[__m256i; 2], [u32; 16]>(sums)
            },
            some.map(|number| all.iter().filter(|other| **other < number).count() as u32)
        )
    }

    /// The sum of the four.
    #[inline(always)] // a few instructions
    pub(crate) fn sum(self) -> f64 {
        (self.0[0] + self.0[1]) + (self.0[2] + self.0[3])
    }
}

macro_rules! elementwise {
    ($($trait:ident $method:ident $op:tt $wide:ident),*) => {$(
        impl<const FMA: bool> $trait for F4<FMA> {
            type Output = Self;
            #[inline(always)] // one instruction
            fn $method(self, b: Self) -> Self {
                vector!(
                    F4(store($wide(load(self.0), load(b.0)))),
                    F4(each(|i| self.0[i] $op b.0[i]))
                )
            }
        }
    )*};
}
elementwise!(Add add + _mm256_add_pd, Sub sub - _mm256_sub_pd, Mul mul * _mm256_mul_pd);

impl<const FMA: bool> Neg for F4<FMA> {
    type Output = Self;
    #[inline(always)] // one instruction
    fn neg(self) -> Self {
        vector!(
            F4(store(_mm256_xor_pd(_mm256_set1_pd(-0.0), load(self.0)))),
            F4(each(|i| -self.0[i]))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::dispatch;

    dispatch! {
        fn everything(a: [f64; 4], b: [f64; 4]) -> Vec<[f64; 4]> = everything_body
    }

    #[inline(always)] // the body that `dispatch!` compiles once per instruction set
    fn everything_body<const FMA: bool>(a: [f64; 4], b: [f64; 4]) -> Vec<[f64; 4]> {
        let (a, b) = (F4::<FMA>(a), F4::<FMA>(b));
        let all = [
            a + b,
            a - b,
            a * b,
            -a,
            a.div(b),
            a.mul_add(b, a),
            a.negate_mul_add(b, a),
            a.where_or(a.below(b), b),
            a.max(b),
            a.abs(),
            a.round(),
            a.floor(),
            a.abs().sqrt(),
            F4::splat(f64::from(a.above_bits(b))),
            a.split(b).0,
            a.split(b).1,
            F4::sums([a, b, a * b, -b]),
            F4::transpose([a, b, -a, -b])[1],
            F4::transpose([a, b, -a, -b])[2],
            F4::splat(a.sum()),
        ];
        all.iter().map(|v| v.0).collect()
    }

    #[test]
    fn both_instruction_sets_agree() {
        let (a, b) = ([1.5, -2.5, 0.25, -0.75], [-3.0, 2.0, 0.25, 8.0]);
        // Small dyadic numbers, so that nothing is rounded.
        assert_eq!(everything(a, b)[5..], everything_body::<false>(a, b)[5..]);
        assert_eq!(everything(a, b)[..4], everything_body::<false>(a, b)[..4]);
        assert_eq!(everything_body::<false>(a, b)[10], [2.0, -2.0, 0.0, -1.0]);
        assert_eq!(everything_body::<false>(a, b)[7], [-3.0, -2.5, 0.25, -0.75]);
        assert_eq!(everything_body::<false>(a, b)[13], [1.0; 4]);
        assert_eq!(everything_body::<false>(a, b)[15], [-2.5, -0.75, 2.0, 8.0]);
        assert_eq!(everything_body::<false>(a, b)[16], [-1.5, 7.25, -15.4375, -7.25]);
        assert_eq!(everything_body::<false>(a, b)[18], [0.25, 0.25, -0.25, -0.25]);
    }
}
