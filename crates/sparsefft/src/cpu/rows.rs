//! Lines in registers: one where the processor has AVX-512, two halves elsewhere.
//!
//! Kernels that move whole lines are written once over [`Row`]; [`dispatch_rows!`] compiles them for
//! the baseline, for AVX2+FMA and for AVX-512, and picks at run time.

use super::wide::{F4, Vector};
use crate::samples::Line;

/// A [`Line`] in registers. Every implementation may only be used in functions that
/// [`dispatch_rows!`] enters after it has found the instructions.
pub(crate) trait Row: Copy {
    /// The vector that evaluates polynomials side by side.
    type Wide: Vector;
    /// Whether it is one register.
    const ONE: bool;
    fn zero() -> Self;
    fn load(line: &Line) -> Self;
    fn store(self, line: &mut Line);
    /// self + gain·b.
    fn plus(self, gain: f64, b: Self) -> Self;
    /// self - gain·b.
    fn minus(self, gain: f64, b: Self) -> Self;
    /// self·b + c, value by value.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// gain·self.
    fn scaled(self, gain: f64) -> Self;
    /// From real and imaginary parts.
    fn of<const FMA: bool>(re: F4<FMA>, im: F4<FMA>) -> Self;
    /// Real and imaginary parts.
    fn parts<const FMA: bool>(self) -> (F4<FMA>, F4<FMA>);
    /// |lane|² of each lane.
    fn squares(self) -> [f64; 4];
    /// The energies of eight lines.
    fn energies(lines: &[Line; 8]) -> [f64; 8];
    /// Which of eight numbers are above a limit, one bit each from the lowest on.
    fn above(of: &[f64; 8], limit: f64) -> u8;
    /// Writes the places of the bits that are set, in order, each plus `first`. What is written after
    /// them means nothing.
    fn places(bits: u8, first: u32, out: &mut [u32; 8]);
    /// How many of all numbers are below each of some.
    fn ranks(all: &[u32], some: &[u32; 16]) -> [u32; 16];
}

/// Real and imaginary parts apart.
#[derive(Clone, Copy)]
pub(crate) struct Halves<const FMA: bool> {
    re: F4<FMA>,
    im: F4<FMA>,
}

impl<const FMA: bool> Row for Halves<FMA> {
    type Wide = F4<FMA>;
    const ONE: bool = false;

    #[inline(always)] // two instructions
    fn zero() -> Self {
        Halves { re: F4::ZERO, im: F4::ZERO }
    }

    #[inline(always)] // two instructions
    fn load(line: &Line) -> Self {
        Halves { re: F4(line.re), im: F4(line.im) }
    }

    #[inline(always)] // two instructions
    fn store(self, line: &mut Line) {
        (line.re, line.im) = (self.re.0, self.im.0);
    }

    #[inline(always)] // two instructions
    fn plus(self, gain: f64, b: Self) -> Self {
        let gain = F4::splat(gain);
        Halves { re: gain.mul_add(b.re, self.re), im: gain.mul_add(b.im, self.im) }
    }

    #[inline(always)] // two instructions
    fn minus(self, gain: f64, b: Self) -> Self {
        let gain = F4::splat(gain);
        Halves { re: b.re.negate_mul_add(gain, self.re), im: b.im.negate_mul_add(gain, self.im) }
    }

    #[inline(always)] // two instructions
    fn mul_add(self, b: Self, c: Self) -> Self {
        Halves { re: self.re.mul_add(b.re, c.re), im: self.im.mul_add(b.im, c.im) }
    }

    #[inline(always)] // two instructions
    fn scaled(self, gain: f64) -> Self {
        let gain = F4::splat(gain);
        Halves { re: self.re * gain, im: self.im * gain }
    }

    #[inline(always)] // register moves
    fn of<const OTHER: bool>(re: F4<OTHER>, im: F4<OTHER>) -> Self {
        Halves { re: F4(re.0), im: F4(im.0) }
    }

    #[inline(always)] // register moves
    fn parts<const OTHER: bool>(self) -> (F4<OTHER>, F4<OTHER>) {
        (F4(self.re.0), F4(self.im.0))
    }

    #[inline(always)] // two instructions
    fn squares(self) -> [f64; 4] {
        self.re.mul_add(self.re, self.im * self.im).0
    }

    #[inline(always)] // four instructions per line
    fn energies(lines: &[Line; 8]) -> [f64; 8] {
        let mut squares = [F4::ZERO; 8];
        for (square, line) in squares.iter_mut().zip(lines) {
            *square = F4(Self::load(line).squares());
        }
        let [a, b, c, d, e, f, g, h] = squares;
        let (low, high) = (F4::<FMA>::sums([a, b, c, d]).0, F4::<FMA>::sums([e, f, g, h]).0);
        [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
    }

    #[inline(always)] // four instructions
    fn above(of: &[f64; 8], limit: f64) -> u8 {
        let limit = F4::<FMA>::splat(limit);
        let [a, b, c, d, e, f, g, h] = *of;
        let high = F4([e, f, g, h]).above_bits(limit);
        (F4([a, b, c, d]).above_bits(limit) | high << 4) as u8
    }

    #[inline(always)] // a load and a few instructions for each half
    fn places(bits: u8, first: u32, out: &mut [u32; 8]) {
        let low = SET[usize::from(bits & 15)];
        let high = SET[usize::from(bits >> 4)];
        let count = (bits & 15).count_ones() as usize;
        for i in 0..4 {
            out[i] = first + low[i];
        }
        for i in 0..4 {
            out[count + i] = first + 4 + high[i];
        }
    }

    #[inline(always)] // five instructions for each number
    fn ranks(all: &[u32], some: &[u32; 16]) -> [u32; 16] {
        F4::<FMA>::ranks(all, some)
    }
}

/// For each set of four bits, their places in order.
const SET: [[u32; 4]; 16] = {
    let mut table = [[0; 4]; 16];
    let mut bits = 0;
    while bits < 16 {
        let (mut i, mut count) = (0, 0);
        while i < 4 {
            if bits >> i & 1 == 1 {
                table[bits][count] = i as u32;
                count += 1;
            }
            i += 1;
        }
        bits += 1;
    }
    table
};

#[cfg(target_arch = "x86_64")]
pub(crate) use whole::Whole;

#[cfg(target_arch = "x86_64")]
mod whole {
    use super::{F4, Line, Row, Vector};
    use crate::cpu::lanes::four_samples;
    use crate::cpu::wide::WHOLE;
    use std::arch::x86_64::*;
    use std::ops::{Add, Mul, Neg, Sub};

    /// Eight f64 with AVX-512.
    #[derive(Clone, Copy)]
    pub(crate) struct F8(__m512d);

    /// Operators that are one instruction each.
    macro_rules! operators {
        ($($trait:ident $method:ident $instruction:ident),*) => {$(
            impl $trait for F8 {
                type Output = Self;
                #[inline(always)] // one instruction
                fn $method(self, b: Self) -> Self {
                    // SAFETY: the instructions were found (see `Vector`).
                    F8(unsafe { $instruction(self.0, b.0) })
                }
            }
        )*};
    }
    operators!(Add add _mm512_add_pd, Sub sub _mm512_sub_pd, Mul mul _mm512_mul_pd);

    /// Methods that are one instruction each.
    macro_rules! instructions {
        ($($name:ident($($arg:ident),*) $instruction:path),*) => {$(
            #[inline(always)] // one instruction
            fn $name(self $(, $arg: Self)*) -> Self {
                // SAFETY: the instructions were found (see `Vector`).
                F8(unsafe { $instruction(self.0 $(, $arg.0)*) })
            }
        )*};
    }

    impl Neg for F8 {
        type Output = Self;
        #[inline(always)] // none where it becomes a part of another
        fn neg(self) -> Self {
            // From -0 it is the sign that changes and nothing else, which compilers know.
            F8::splat(-0.0) - self
        }
    }

    /// Number i of each of eight, for every i.
    #[inline(always)] // 24 instructions
    fn transpose(of: [__m512d; 8]) -> [__m512d; 8] {
        // SAFETY: the instructions were found (see `Vector`).
        unsafe {
            // Quarter q of pairs[i][e]: values 2q + e of vectors 2i and 2i + 1.
            let mut pairs = [[of[0]; 2]; 4];
            for (i, pair) in pairs.iter_mut().enumerate() {
                let (a, b) = (of[2 * i], of[2 * i + 1]);
                *pair = [_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b)];
            }
            let mut out = of;
            for e in 0..2 {
                let [a, b, c, d] = [pairs[0][e], pairs[1][e], pairs[2][e], pairs[3][e]];
                // Even quarters of all, and odd ones.
                let even = [
                    _mm512_shuffle_f64x2::<0b10_00_10_00>(a, b),
                    _mm512_shuffle_f64x2::<0b10_00_10_00>(c, d),
                ];
                let odd = [
                    _mm512_shuffle_f64x2::<0b11_01_11_01>(a, b),
                    _mm512_shuffle_f64x2::<0b11_01_11_01>(c, d),
                ];
                out[e] = _mm512_shuffle_f64x2::<0b10_00_10_00>(even[0], even[1]);
                out[e + 2] = _mm512_shuffle_f64x2::<0b10_00_10_00>(odd[0], odd[1]);
                out[e + 4] = _mm512_shuffle_f64x2::<0b11_01_11_01>(even[0], even[1]);
                out[e + 6] = _mm512_shuffle_f64x2::<0b11_01_11_01>(odd[0], odd[1]);
            }
            out
        }
    }

    // Everything is inlined into functions that were compiled for these instructions.
    impl Vector for F8 {
        type Mask = __mmask8;
        const COUNT: usize = 8;
        instructions!(
            mul_add(b, c) _mm512_fmadd_pd, negate_mul_add(b, c) _mm512_fnmadd_pd,
            div(b) _mm512_div_pd, sqrt() _mm512_sqrt_pd, abs() _mm512_abs_pd,
            max(b) _mm512_max_pd, swapped() _mm512_permute_pd::<0b0101_0101>,
            round() _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>,
            floor() _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>
        );

        #[inline(always)] // one instruction
        fn part(from: &[f64; 8], _: usize) -> Self {
            // SAFETY: there are eight values; the instructions were found (see the trait), here and
            // below.
            F8(unsafe { _mm512_loadu_pd(from.as_ptr()) })
        }

        #[inline(always)] // four instructions
        fn samples(from: &[f64; 8], _: usize) -> Self {
            // SAFETY: see above.
            F8(unsafe { four_samples(from.as_ptr()) })
        }

        #[inline(always)] // one instruction
        fn four(self, i: usize) -> [f64; 4] {
            // SAFETY: see above; a vector is its values.
            unsafe {
                std::mem::transmute(match i {
                    0 => _mm512_castpd512_pd256(self.0),
                    _ => _mm512_extractf64x4_pd::<1>(self.0),
                })
            }
        }

        #[inline(always)] // one instruction
        fn splat(x: f64) -> Self {
            // SAFETY: see above.
            F8(unsafe { _mm512_set1_pd(x) })
        }

        #[inline(always)] // seven instructions
        fn collect(from: [f64; 8]) -> Self {
            let [a, b, c, d, e, f, g, h] = from;
            // SAFETY: see above.
            F8(unsafe { _mm512_setr_pd(a, b, c, d, e, f, g, h) })
        }

        #[inline(always)] // one instruction
        fn of_whole(from: [u32; 8]) -> Self {
            // SAFETY: see above; there are eight numbers.
            F8(unsafe { _mm512_cvtepu32_pd(_mm256_loadu_si256(from.as_ptr().cast())) })
        }

        #[inline(always)] // one instruction
        fn below(self, b: Self) -> __mmask8 {
            // SAFETY: see above.
            unsafe { _mm512_cmp_pd_mask::<_CMP_LT_OQ>(self.0, b.0) }
        }

        #[inline(always)] // three instructions
        fn low_bits(self) -> (__mmask8, __mmask8) {
            // SAFETY: see above.
            unsafe {
                let whole = _mm512_castpd_si512((self + F8::splat(WHOLE)).0);
                (
                    _mm512_test_epi64_mask(whole, _mm512_set1_epi64(1)),
                    _mm512_test_epi64_mask(whole, _mm512_set1_epi64(2)),
                )
            }
        }

        #[inline(always)] // one instruction
        fn any_below(self, b: Self) -> bool {
            self.below(b) != 0
        }

        #[inline(always)] // two instructions
        fn below_bits(self, b: Self) -> u8 {
            self.below(b)
        }

        #[inline(always)] // two instructions
        fn keep(self, bits: u8, out: &mut [f64; 8]) {
            // SAFETY: see above; there is room for eight values.
            unsafe { _mm512_storeu_pd(out.as_mut_ptr(), _mm512_maskz_compress_pd(bits, self.0)) }
        }

        #[inline(always)] // one instruction
        fn where_or(self, mask: __mmask8, other: Self) -> Self {
            // SAFETY: see above.
            F8(unsafe { _mm512_mask_blend_pd(mask, other.0, self.0) })
        }

        #[inline(always)] // 24 instructions and eight loads
        fn lanes_of(lines: [&Line; 8]) -> [(Self, Self); 4] {
            let [a, b, c, d, e, f, g, h] = lines;
            let whole = [
                Whole::load(a).0,
                Whole::load(b).0,
                Whole::load(c).0,
                Whole::load(d).0,
                Whole::load(e).0,
                Whole::load(f).0,
                Whole::load(g).0,
                Whole::load(h).0,
            ];
            let [a, b, c, d, e, f, g, h] = transpose(whole);
            [(F8(a), F8(e)), (F8(b), F8(f)), (F8(c), F8(g)), (F8(d), F8(h))]
        }

        #[inline(always)] // twelve instructions
        fn fields_of(of: &[[f64; 4]; 8]) -> [Self; 4] {
            // SAFETY: see above; every entry is four values.
            unsafe {
                // Entries i and i + 4 in the halves of one vector.
                let mut both = [_mm512_setzero_pd(); 4];
                for (i, both) in both.iter_mut().enumerate() {
                    let low = _mm512_castpd256_pd512(_mm256_loadu_pd(of[i].as_ptr()));
                    let high = _mm256_loadu_pd(of[i + 4].as_ptr());
                    *both = _mm512_insertf64x4::<1>(low, high);
                }
                let [a, b, c, d] = both;
                let (ab, cd) = (_mm512_unpacklo_pd(a, b), _mm512_unpacklo_pd(c, d));
                let (odd_ab, odd_cd) = (_mm512_unpackhi_pd(a, b), _mm512_unpackhi_pd(c, d));
                // Quarters 0 and 2 of both vectors, or 1 and 3, those of each half together.
                let even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
                let odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
                [
                    F8(_mm512_permutex2var_pd(ab, even, cd)),
                    F8(_mm512_permutex2var_pd(odd_ab, even, odd_cd)),
                    F8(_mm512_permutex2var_pd(ab, odd, cd)),
                    F8(_mm512_permutex2var_pd(odd_ab, odd, odd_cd)),
                ]
            }
        }

        #[inline(always)] // 24 instructions and eight stores
        fn lines_of(lanes: [(Self, Self); 4]) -> [Line; 8] {
            let [a, b, c, d] = lanes;
            let whole = transpose([a.0.0, b.0.0, c.0.0, d.0.0, a.1.0, b.1.0, c.1.0, d.1.0]);
            let mut lines = [Line::ZERO; 8];
            for (line, whole) in lines.iter_mut().zip(whole) {
                Whole(whole).store(line);
            }
            lines
        }
    }

    /// A line in one register.
    #[derive(Clone, Copy)]
    pub(crate) struct Whole(__m512d);

    impl Whole {
        /// Four complex numbers, which lie one after the other.
        ///
        /// # Safety
        /// AVX-512, and 64 readable bytes.
        #[inline(always)] // two instructions
        pub(crate) unsafe fn of_complex(from: *const f64) -> Self {
            // SAFETY: the caller's promise.
            unsafe {
                let apart = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
                Whole(_mm512_permutexvar_pd(apart, four_samples(from)))
            }
        }
    }

    impl Row for Whole {
        type Wide = F8;
        const ONE: bool = true;

        #[inline(always)] // one instruction
        fn zero() -> Self {
            // SAFETY: the instructions were found (see the trait).
            Whole(unsafe { _mm512_setzero_pd() })
        }

        #[inline(always)] // one instruction
        fn load(line: &Line) -> Self {
            // SAFETY: a line is eight values on a cache line of its own; the instructions were found
            // (see the trait).
            Whole(unsafe { _mm512_load_pd(std::ptr::from_ref(line).cast()) })
        }

        #[inline(always)] // one instruction
        fn store(self, line: &mut Line) {
            // SAFETY: as for `load`.
            unsafe { _mm512_store_pd(std::ptr::from_mut(line).cast(), self.0) }
        }

        #[inline(always)] // one instruction
        fn plus(self, gain: f64, b: Self) -> Self {
            // SAFETY: the instructions were found (see the trait), here and below.
            Whole(unsafe { _mm512_fmadd_pd(_mm512_set1_pd(gain), b.0, self.0) })
        }

        #[inline(always)] // one instruction
        fn minus(self, gain: f64, b: Self) -> Self {
            // SAFETY: see above.
            Whole(unsafe { _mm512_fnmadd_pd(_mm512_set1_pd(gain), b.0, self.0) })
        }

        #[inline(always)] // one instruction
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: see above.
            Whole(unsafe { _mm512_fmadd_pd(self.0, b.0, c.0) })
        }

        #[inline(always)] // one instruction
        fn scaled(self, gain: f64) -> Self {
            // SAFETY: see above.
            Whole(unsafe { _mm512_mul_pd(_mm512_set1_pd(gain), self.0) })
        }

        #[inline(always)] // one instruction
        fn of<const FMA: bool>(re: F4<FMA>, im: F4<FMA>) -> Self {
            // SAFETY: see above; a vector is its four values.
            unsafe {
                let (re, im) = (_mm256_loadu_pd(re.0.as_ptr()), _mm256_loadu_pd(im.0.as_ptr()));
                Whole(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(re), im))
            }
        }

        #[inline(always)] // one instruction
        fn parts<const FMA: bool>(self) -> (F4<FMA>, F4<FMA>) {
            // SAFETY: see above; a vector is its four values.
            unsafe {
                let (re, im) =
                    (_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0));
                (
                    F4(std::mem::transmute::<__m256d, [f64; 4]>(re)),
                    F4(std::mem::transmute::<__m256d, [f64; 4]>(im)),
                )
            }
        }

        #[inline(always)] // three instructions
        fn squares(self) -> [f64; 4] {
            // SAFETY: see above; a vector is its four values.
            unsafe {
                let (re, im) =
                    (_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0));
                std::mem::transmute(_mm256_fmadd_pd(re, re, _mm256_mul_pd(im, im)))
            }
        }

        /// Sums of neighbours, of pairs, of halves: three rounds that halve the vectors each time.
        #[inline(always)] // four instructions per line
        fn energies(lines: &[Line; 8]) -> [f64; 8] {
            // SAFETY: see above; a vector is its eight values.
            unsafe {
                let mut v = [_mm512_setzero_pd(); 8];
                for (v, line) in v.iter_mut().zip(lines) {
                    let line = Self::load(line).0;
                    *v = _mm512_mul_pd(line, line);
                }
                // Quarter q of two[i]: what lines 2i and 2i+1 have there.
                let mut two = [v[0]; 4];
                for (i, two) in two.iter_mut().enumerate() {
                    let (a, b) = (v[2 * i], v[2 * i + 1]);
                    *two = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
                }
                // Quarters 0, 1: half sums of lines 4i and 4i+1; quarters 2, 3: of the next two.
                let mut four = [v[0]; 2];
                for (i, four) in four.iter_mut().enumerate() {
                    let (a, b) = (two[2 * i], two[2 * i + 1]);
                    *four = _mm512_add_pd(
                        _mm512_shuffle_f64x2::<0b10_00_10_00>(a, b),
                        _mm512_shuffle_f64x2::<0b11_01_11_01>(a, b),
                    );
                }
                let even = _mm512_shuffle_f64x2::<0b10_00_10_00>(four[0], four[1]);
                let odd = _mm512_shuffle_f64x2::<0b11_01_11_01>(four[0], four[1]);
                std::mem::transmute(_mm512_add_pd(even, odd))
            }
        }

        #[inline(always)] // one instruction
        fn above(of: &[f64; 8], limit: f64) -> u8 {
            F8::splat(limit).below(F8::of(of))
        }

        #[inline(always)] // three instructions
        fn places(bits: u8, first: u32, out: &mut [u32; 8]) {
            // SAFETY: see above; there is room for eight numbers.
            unsafe {
                let each = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let places = _mm256_add_epi32(each, _mm256_set1_epi32(first as i32));
                let some = _mm256_maskz_compress_epi32(bits, places);
                _mm256_storeu_si256(out.as_mut_ptr().cast(), some);
            }
        }

        #[inline(always)] // two instructions for each number
        fn ranks(all: &[u32], some: &[u32; 16]) -> [u32; 16] {
            // SAFETY: see above; both arrays are sixteen numbers.
            unsafe {
                let some = _mm512_loadu_si512(some.as_ptr().cast());
                let one = _mm512_set1_epi32(1);
                // Sums that do not wait for each other.
                let mut sums = [_mm512_setzero_si512(); 2];
                let (pairs, rest) = all.as_chunks::<2>();
                for pair in pairs {
                    for (sum, &other) in sums.iter_mut().zip(pair) {
                        let below = _mm512_cmplt_epu32_mask(_mm512_set1_epi32(other as i32), some);
                        *sum = _mm512_mask_add_epi32(*sum, below, *sum, one);
                    }
                }
                for &other in rest {
                    let below = _mm512_cmplt_epu32_mask(_mm512_set1_epi32(other as i32), some);
                    sums[0] = _mm512_mask_add_epi32(sums[0], below, sums[0], one);
                }
                std::mem::transmute(_mm512_add_epi32(sums[0], sums[1]))
            }
        }
    }
}

/// Defines a function that runs `$body::<true, Whole>` where the processor has AVX-512,
/// `$body::<true, Halves<true>>` where it has AVX2 and FMA, and `$body::<false, Halves<false>>`
/// elsewhere.
macro_rules! dispatch_rows {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?
        = $body:ident) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx2,fma,popcnt")]
                fn whole($($arg: $ty),*) $(-> $ret)? {
                    $body::<true, $crate::cpu::rows::Whole>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,popcnt")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    $body::<true, $crate::cpu::rows::Halves<true>>($($arg),*)
                }
                if $crate::cpu::has_eight() {
                    // SAFETY: the features were just found on this processor.
                    return unsafe { whole($($arg),*) };
                }
                if $crate::cpu::has_fma() {
                    // SAFETY: as above.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body::<false, $crate::cpu::rows::Halves<false>>($($arg),*)
        }
    };
}
pub(crate) use dispatch_rows;

#[cfg(test)]
mod tests {
    use super::*;

    dispatch_rows! {
        fn everything(lines: &[Line; 8]) -> Vec<f64> = everything_body
    }

    #[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
    fn everything_body<const FMA: bool, R: Row>(lines: &[Line; 8]) -> Vec<f64> {
        let (a, b) = (R::load(&lines[0]), R::load(&lines[5]));
        let mut out = [Line::ZERO; 5];
        a.plus(0.5, b).store(&mut out[0]);
        a.minus(4.0, b).store(&mut out[1]);
        a.mul_add(b, R::zero()).store(&mut out[2]);
        a.scaled(0.5).store(&mut out[3]);
        let (re, im) = a.parts::<FMA>();
        R::of(im, re + im).store(&mut out[4]);
        let mut all: Vec<f64> = out.iter().flat_map(|l| l.re.into_iter().chain(l.im)).collect();
        all.extend(a.squares());
        all.extend(R::energies(lines));
        let energies = R::energies(lines);
        for (limit, first) in [(-1.0, 5), (energies[3], 0), (energies[6], 7), (1e9, 1)] {
            let bits = R::above(&energies, limit);
            let mut places = [0; 8];
            R::places(bits, first, &mut places);
            let expected = (first..).zip(energies).filter(|(_, e)| *e > limit).map(|(i, _)| i);
            assert!(expected.eq(places[..bits.count_ones() as usize].iter().copied()));
        }
        let numbers: [u32; 19] =
            std::array::from_fn(|i| (i as u32).wrapping_mul(0x9e37_79b9) >> (i % 3));
        let some = std::array::from_fn(|i| if i == 9 { 0 } else { numbers[i] });
        let below = |number| numbers.iter().filter(|other| **other < number).count() as u32;
        assert_eq!(R::ranks(&numbers, &some), some.map(below));
        all
    }

    dispatch_rows! {
        fn side_by_side(lines: &[Line; 8], x: &[f64; 8], y: &[f64; 8]) -> Vec<f64>
            = side_by_side_body
    }

    /// What each operation of [`Vector`] gives for every number of x and y, and the turns of lines
    /// into lanes and back.
    #[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
    fn side_by_side_body<const FMA: bool, R: Row>(
        lines: &[Line; 8],
        x: &[f64; 8],
        y: &[f64; 8],
    ) -> Vec<f64> {
        let count = R::Wide::COUNT;
        let mut of = vec![Vec::new(); 27];
        for at in (0..8).step_by(count) {
            let (mut x8, mut y8, mut some) = ([0.0; 8], [0.0; 8], [&lines[0]; 8]);
            let mut fours = [[0.0; 4]; 8];
            for i in 0..count {
                (x8[i], y8[i], some[i]) = (x[at + i], y[at + i], &lines[at + i]);
                fours[i] = lines[at + i].re;
            }
            let (a, b) = (R::Wide::of(&x8), R::Wide::of(&y8));
            let whole = R::Wide::of_whole([3, 0, u32::MAX, 7, 1, 2, 4, 5]);
            assert_eq!(whole.four(0), [3.0, 0.0, 4_294_967_295.0, 7.0]);
            assert_eq!(R::Wide::collect(x8).four(0), a.four(0));
            if count == 8 {
                assert_eq!(whole.four(1), [1.0, 2.0, 4.0, 5.0]);
                assert_eq!(R::Wide::collect(x8).four(1), a.four(1));
            }
            let mut all = vec![a + b, a - b, a * b, -a, a.div(b), a.mul_add(b, a)];
            all.extend([a.negate_mul_add(b, a), a.abs().sqrt(), a.round(), a.floor()]);
            all.extend([a.where_or(a.below(b), b), a.where_small(b, 2.5), R::Wide::splat(3.0)]);
            assert_eq!(a.any_below(b), (0..count).any(|i| x8[i] < y8[i]));
            assert!(!a.any_below(a));
            let bits = a.below_bits(b);
            let below = (0..count).filter(|i| bits >> i & 1 == 1);
            assert!(below.eq((0..count).filter(|&i| x8[i] < y8[i])));
            let mut kept = [0.0; 8];
            a.keep(bits, &mut kept);
            let below = (0..count).filter(|&i| x8[i] < y8[i]).map(|i| x8[i]);
            assert!(below.eq(kept[..bits.count_ones() as usize].iter().copied()));
            let lanes = R::Wide::lanes_of(some);
            for (re, im) in lanes {
                all.extend([re, im]);
            }
            all.extend(R::Wide::fields_of(&fours));
            all.extend([a.max(b), a.swapped()]);
            for (of, v) in of.iter_mut().zip(all) {
                (0..count / 4).for_each(|i| of.extend(v.four(i)));
            }
            assert_eq!(R::Wide::lines_of(lanes)[..count], lines[at..at + count]);
        }
        of.concat()
    }

    #[test]
    fn vectors_of_every_width_agree() {
        let mut lines = [Line::ZERO; 8];
        for (i, line) in lines.iter_mut().enumerate() {
            for tau in 0..4 {
                (line.re[tau], line.im[tau]) = ((10 * i + tau) as f64, (100 * i + tau) as f64);
            }
        }
        // Small dyadic numbers and quotients, so that nothing is rounded.
        let x = [1.5, -2.5, 0.25, -0.75, 16.0, 0.5, -8.25, 2.5];
        let y = [-4.0, 2.0, 0.25, 8.0, -1.0, 0.5, 2.0, 4.0];
        let plain = side_by_side_body::<false, Halves<false>>(&lines, &x, &y);
        assert_eq!(plain.len(), 27 * 8);
        assert_eq!(side_by_side(&lines, &x, &y), plain);
        assert_eq!(plain[8..16], [5.5, -4.5, 0.0, -8.75, 17.0, 0.0, -10.25, -1.5]);
        assert_eq!(plain[64..72], [2.0, -2.0, 0.0, -1.0, 16.0, 0.0, -8.0, 2.0]);
        assert_eq!(plain[80..88], [-4.0, -2.5, 0.25, -0.75, -1.0, 0.5, -8.25, 2.5]);
        assert_eq!(plain[88..96], [0.0, -2.5, 0.25, 0.0, 16.0, 0.5, -8.25, 0.0]);
        assert_eq!(plain[104..112], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
        assert_eq!(plain[120..128], [1.0, 11.0, 21.0, 31.0, 41.0, 51.0, 61.0, 71.0]);
        assert_eq!(plain[200..208], [1.5, 2.0, 0.25, 8.0, 16.0, 0.5, 2.0, 4.0]);
        assert_eq!(plain[208..], [-2.5, 1.5, -0.75, 0.25, 0.5, 16.0, 2.5, -8.25]);
    }

    #[test]
    fn every_instruction_set_agrees() {
        // Small dyadic numbers, so that nothing is rounded.
        let mut lines = [Line::ZERO; 8];
        for (i, line) in lines.iter_mut().enumerate() {
            for tau in 0..4 {
                line.re[tau] = i as f64 - 0.5 * tau as f64;
                line.im[tau] = 0.25 * (i * tau) as f64 - 1.0;
            }
        }
        let plain = everything_body::<false, Halves<false>>(&lines);
        assert_eq!(everything(&lines), plain);
        assert_eq!(plain[0], lines[0].re[0] + 0.5 * lines[5].re[0]);
        assert_eq!(plain[15], lines[0].im[3] - 4.0 * lines[5].im[3]);
        let energy = |l: &Line| l.re.iter().chain(&l.im).map(|v| v * v).sum::<f64>();
        assert_eq!(plain[17], lines[0].re[1] * lines[5].re[1]);
        assert_eq!(plain[31], 0.5 * lines[0].im[3]);
        assert_eq!(plain[32], lines[0].im[0]);
        assert_eq!(plain[39], lines[0].re[3] + lines[0].im[3]);
        assert_eq!(plain[44..], lines.map(|l| energy(&l)));
    }
}
