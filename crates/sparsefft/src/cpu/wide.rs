//! Four numbers side by side: one vector register where the processor has AVX2, plain arrays
//! elsewhere. This is the one place that knows instructions; everything else is written once.
//!
//! The parameter says which: `F4<true>` may only be made in functions that [`dispatch!`] enters
//! after it has found AVX2 and FMA on the processor. [`F8`] is a whole line of samples, one register
//! with AVX-512 (`F8<true, true>`, entered by [`dispatch_lines!`]) and two [`F4`] elsewhere.
//!
//! [`dispatch!`]: super::dispatch
//! [`dispatch_lines!`]: super::dispatch_lines

use crate::samples::Line;
use std::ops::{Add, Mul, Neg, Sub};

/// Four f64 side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(32))]
pub(crate) struct F4<const FMA: bool>(pub(crate) [f64; 4]);

/// Four truth values: all bits set or none.
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

    /// self where the mask holds, other elsewhere.
    #[inline(always)] // one instruction
    pub(crate) fn where_or(self, mask: Mask<FMA>, other: Self) -> Self {
        vector!(
            F4(store(_mm256_blendv_pd(load(other.0), load(self.0), load(mask.0)))),
            F4(each(|i| if mask.0[i] != 0 { self.0[i] } else { other.0[i] }))
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

/// Eight f64: the real parts of a line, then its imaginary parts.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct F8<const FMA: bool, const EIGHT: bool> {
    pub(crate) re: F4<FMA>,
    pub(crate) im: F4<FMA>,
}

/// As `vector!`, for whole lines.
macro_rules! line_vector {
    ($wide:expr, $plain:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if EIGHT {
            #[allow(unused_imports)] // each operation uses some
            use std::arch::x86_64::*;
            // SAFETY: `EIGHT` holds only on processors with AVX-512 (see the module).
            return unsafe { $wide };
        }
        $plain
    }};
}

impl<const FMA: bool, const EIGHT: bool> F8<FMA, EIGHT> {
    pub(crate) const ZERO: Self = F8 { re: F4::ZERO, im: F4::ZERO };

    #[cfg(target_arch = "x86_64")]
    #[inline(always)] // register moves
    fn all(self) -> std::arch::x86_64::__m512d {
        // SAFETY: both are 64 bytes without padding.
        unsafe { std::mem::transmute(self) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)] // register moves
    fn from_all(v: std::arch::x86_64::__m512d) -> Self {
        // SAFETY: both are 64 bytes without padding.
        unsafe { std::mem::transmute(v) }
    }

    #[inline(always)] // one or two loads
    pub(crate) fn load(line: &Line) -> Self {
        line_vector!(
            // SAFETY of the address: a line is eight f64 on a multiple of 64 bytes.
            Self::from_all(_mm512_load_pd(std::ptr::from_ref(line).cast())),
            F8 { re: F4(line.re), im: F4(line.im) }
        )
    }

    /// A line from four complex numbers.
    #[inline(always)] // two or six instructions
    pub(crate) fn split(pairs: &[f64; 8]) -> Self {
        line_vector!(
            {
                let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
                Self::from_all(_mm512_permutexvar_pd(order, _mm512_loadu_pd(pairs.as_ptr())))
            },
            {
                let [a, b, c, d, e, f, g, h] = *pairs;
                let (re, im) = F4([a, b, c, d]).split(F4([e, f, g, h]));
                F8 { re, im }
            }
        )
    }

    #[inline(always)] // one or two stores
    pub(crate) fn store(self, line: &mut Line) {
        line_vector!(
            // SAFETY of the address: as above.
            _mm512_store_pd(std::ptr::from_mut(line).cast(), self.all()),
            (line.re, line.im) = (self.re.0, self.im.0)
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn new(re: F4<FMA>, im: F4<FMA>) -> Self {
        line_vector!(
            Self::from_all(_mm512_insertf64x4::<1>(
                _mm512_castpd256_pd512(x86::load(re.0)),
                x86::load(im.0)
            )),
            F8 { re, im }
        )
    }

    #[inline(always)] // one instruction
    pub(crate) fn splat(x: f64) -> Self {
        line_vector!(Self::from_all(_mm512_set1_pd(x)), F8 { re: F4::splat(x), im: F4::splat(x) })
    }

    /// The real parts and the imaginary parts.
    #[inline(always)] // one instruction
    pub(crate) fn parts(self) -> (F4<FMA>, F4<FMA>) {
        line_vector!(
            (
                F4(x86::store(_mm512_castpd512_pd256(self.all()))),
                F4(x86::store(_mm512_extractf64x4_pd::<1>(self.all())))
            ),
            (self.re, self.im)
        )
    }

    #[inline(always)] // one or two instructions
    pub(crate) fn times(self, b: Self) -> Self {
        line_vector!(
            Self::from_all(_mm512_mul_pd(self.all(), b.all())),
            F8 { re: self.re * b.re, im: self.im * b.im }
        )
    }

    /// self·b + c.
    #[inline(always)] // one or two instructions
    pub(crate) fn mul_add(self, b: Self, c: Self) -> Self {
        line_vector!(
            Self::from_all(_mm512_fmadd_pd(self.all(), b.all(), c.all())),
            F8 { re: self.re.mul_add(b.re, c.re), im: self.im.mul_add(b.im, c.im) }
        )
    }

    /// c - self·b.
    #[inline(always)] // one or two instructions
    pub(crate) fn negate_mul_add(self, b: Self, c: Self) -> Self {
        line_vector!(
            Self::from_all(_mm512_fnmadd_pd(self.all(), b.all(), c.all())),
            F8 { re: self.re.negate_mul_add(b.re, c.re), im: self.im.negate_mul_add(b.im, c.im) }
        )
    }

    /// Real and imaginary parts added.
    #[inline(always)] // two instructions
    pub(crate) fn folded(self) -> F4<FMA> {
        let (re, im) = self.parts();
        re + im
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{dispatch, dispatch_lines};

    dispatch_lines! {
        fn whole_lines(a: &Line, b: &Line) -> Vec<Line> = whole_lines_body
    }

    #[inline(always)] // the body that `dispatch_lines!` compiles once per instruction set
    fn whole_lines_body<const FMA: bool, const EIGHT: bool>(a: &Line, b: &Line) -> Vec<Line> {
        let (x, y) = (F8::<FMA, EIGHT>::load(a), F8::load(b));
        let (re, im) = x.parts();
        let all = [
            x.times(y),
            x.mul_add(y, x),
            x.negate_mul_add(y, x),
            F8::new(im, re),
            F8::new(x.folded(), y.folded()),
            F8::splat(0.5).mul_add(x, F8::ZERO),
            F8::split(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        ];
        let mut out = Vec::new();
        for v in all {
            let mut line = Line::ZERO;
            v.store(&mut line);
            out.push(line);
        }
        out
    }

    #[test]
    fn whole_lines_agree() {
        let a = Line { re: [1.5, -2.5, 0.25, -0.75], im: [0.5, 3.0, -1.25, 2.0] };
        let b = Line { re: [-3.0, 2.0, 0.25, 8.0], im: [4.0, -0.5, 1.0, -1.0] };
        let plain = whole_lines_body::<false, false>(&a, &b);
        // Small dyadic numbers, so that nothing is rounded.
        assert_eq!(whole_lines(&a, &b), plain);
        assert_eq!(plain[1].im, [2.5, 1.5, -2.5, 0.0]);
        assert_eq!(plain[2].re, [6.0, 2.5, 0.1875, 5.25]);
        assert_eq!(plain[3], Line { re: a.im, im: a.re });
        assert_eq!(plain[4].re, [2.0, 0.5, -1.0, 1.25]);
        assert_eq!(plain[6], Line { re: [1.0, 3.0, 5.0, 7.0], im: [2.0, 4.0, 6.0, 8.0] });
    }

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
