//! Vectors whose lanes hold one value each of as many independent transforms.
//!
//! [`Lanes`] is what transforms of many columns ([`columns`](super::columns)) need of a processor:
//! arithmetic, complex numbers taken apart and put together, and a square turned over. AVX2+FMA
//! and AVX-512 have it here, in both precisions.

use crate::dense::Real;
use std::arch::x86_64::*;

/// A vector of [`COUNT`](Lanes::COUNT) values.
///
/// # Safety
/// All functions need the instructions of their type, and places in memory for as many values as
/// they read or write.
pub trait Lanes: Copy {
    /// The type of a value.
    type Real: Real;
    /// How many values.
    const COUNT: usize;

    unsafe fn load(from: *const Self::Real) -> Self;
    unsafe fn store(self, to: *mut Self::Real);
    /// Stores past the cache, to an aligned place.
    unsafe fn stream(self, to: *mut Self::Real);
    unsafe fn splat(value: Self::Real) -> Self;
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    /// self·b + c.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// self·b - c.
    unsafe fn mul_sub(self, b: Self, c: Self) -> Self;
    /// Real and imaginary parts of the complex values that lie in `a`, then `b`.
    unsafe fn split(a: Self, b: Self) -> (Self, Self);
    /// The reverse of [`split`](Lanes::split).
    unsafe fn join(re: Self, im: Self) -> (Self, Self);
    /// to\[j·step + i\] = from\[i·step + j\] for i, j below the count.
    unsafe fn transpose(from: *const Self::Real, to: *mut Self::Real, step: usize);
}

macro_rules! lanes {
    ($(#[$meta:meta])* $name:ident($vector:ty) of $real:ty: $count:literal,
     $load:ident $store:ident $stream:ident $splat:ident $add:ident $sub:ident $mul:ident
     $fmadd:ident $fmsub:ident, $split:expr, $join:expr, $turn:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $name($vector);

        // Everything is inlined into functions that were compiled for these instructions.
        impl Lanes for $name {
            type Real = $real;
            const COUNT: usize = $count;

            #[inline(always)] // one instruction
            unsafe fn load(from: *const $real) -> Self {
                // SAFETY: the caller's promise.
                $name(unsafe { $load(from) })
            }
            #[inline(always)] // one instruction
            unsafe fn store(self, to: *mut $real) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, self.0) }
            }
            #[inline(always)] // one instruction
            unsafe fn stream(self, to: *mut $real) {
                // SAFETY: the caller's promise.
                unsafe { $stream(to, self.0) }
            }
            #[inline(always)] // one instruction
            unsafe fn splat(value: $real) -> Self {
                // SAFETY: the caller's promise, here and below.
                $name(unsafe { $splat(value) })
            }
            #[inline(always)] // one instruction
            unsafe fn add(self, b: Self) -> Self {
                // SAFETY: see above.
                $name(unsafe { $add(self.0, b.0) })
            }
            #[inline(always)] // one instruction
            unsafe fn sub(self, b: Self) -> Self {
                // SAFETY: see above.
                $name(unsafe { $sub(self.0, b.0) })
            }
            #[inline(always)] // one instruction
            unsafe fn mul(self, b: Self) -> Self {
                // SAFETY: see above.
                $name(unsafe { $mul(self.0, b.0) })
            }
            #[inline(always)] // one instruction
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                // SAFETY: see above.
                $name(unsafe { $fmadd(self.0, b.0, c.0) })
            }
            #[inline(always)] // one instruction
            unsafe fn mul_sub(self, b: Self, c: Self) -> Self {
                // SAFETY: see above.
                $name(unsafe { $fmsub(self.0, b.0, c.0) })
            }
            #[inline(always)] // two or four instructions
            unsafe fn split(a: Self, b: Self) -> (Self, Self) {
                // SAFETY: see above.
                let (re, im) = unsafe { $split(a.0, b.0) };
                ($name(re), $name(im))
            }
            #[inline(always)] // two or four instructions
            unsafe fn join(re: Self, im: Self) -> (Self, Self) {
                // SAFETY: see above.
                let (a, b) = unsafe { $join(re.0, im.0) };
                ($name(a), $name(b))
            }
            #[inline(always)] // log2 instructions per vector
            unsafe fn transpose(from: *const $real, to: *mut $real, step: usize) {
                // SAFETY: the places are the caller's.
                unsafe {
                    let mut rows = [$splat(0.0); $count];
                    for (i, row) in rows.iter_mut().enumerate() {
                        *row = $load(from.add(i * step));
                    }
                    let rows = $turn(rows);
                    for (j, row) in rows.iter().enumerate() {
                        $store(to.add(j * step), *row);
                    }
                }
            }
        }
    };
}

lanes!(
    /// Four f64 with AVX2 and FMA.
    F64x4(__m256d) of f64: 4,
    _mm256_loadu_pd _mm256_storeu_pd _mm256_stream_pd _mm256_set1_pd
    _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_fmadd_pd _mm256_fmsub_pd,
    split_f64x4, join_f64x4, turn_f64x4
);
lanes!(
    /// Eight f64 with AVX-512.
    F64x8(__m512d) of f64: 8,
    _mm512_loadu_pd _mm512_storeu_pd _mm512_stream_pd _mm512_set1_pd
    _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_fmadd_pd _mm512_fmsub_pd,
    split_f64x8, join_f64x8, turn_f64x8
);
/// Four complex samples, each read by a load of its own. Where a load of 64 bytes misses the first cache,
/// some processors (AMD, Zen 4) begin no other before it is there, and a line of samples may lie on two cache
/// lines; 16 bytes hardly ever do.
///
/// # Safety
/// AVX-512, and 64 readable bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
pub(crate) unsafe fn four_samples(from: *const f64) -> __m512d {
    // SAFETY: the caller's promise. Assembly, since compilers put neighbouring loads together.
    unsafe {
        let mut samples = _mm512_castpd128_pd512(_mm_loadu_pd(from));
        std::arch::asm!(
            "vinsertf32x4 {samples}, {samples}, [{from} + 16], 1",
            "vinsertf32x4 {samples}, {samples}, [{from} + 32], 2",
            "vinsertf32x4 {samples}, {samples}, [{from} + 48], 3",
            from = in(reg) from,
            samples = inout(zmm_reg) samples,
            options(pure, readonly, nostack, preserves_flags),
        );
        samples
    }
}

/// The same of samples that lie in one cache line, by two loads.
///
/// # Safety
/// AVX-512, and 64 readable bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn whole_samples(from: *const f64) -> __m512d {
    // SAFETY: the caller's promise. Assembly, as above.
    unsafe {
        let mut samples = _mm512_castpd256_pd512(_mm256_loadu_pd(from));
        std::arch::asm!(
            "vinsertf64x4 {samples}, {samples}, [{from} + 32], 1",
            from = in(reg) from,
            samples = inout(zmm_reg) samples,
            options(pure, readonly, nostack, preserves_flags),
        );
        samples
    }
}

/// # Safety
/// As for [`Lanes`].
impl F64x8 {
    /// Four complex samples: see [`four_samples`].
    #[inline(always)] // four instructions
    pub(crate) unsafe fn samples(from: *const f64) -> Self {
        // SAFETY: the caller's promise.
        F64x8(unsafe { four_samples(from) })
    }

    /// Four complex samples: see [`whole_samples`].
    #[inline(always)] // two instructions
    pub(crate) unsafe fn whole_samples(from: *const f64) -> Self {
        // SAFETY: the caller's promise.
        F64x8(unsafe { whole_samples(from) })
    }

    /// The lower halves of a and b, and the upper ones.
    #[inline(always)] // two instructions
    pub(crate) unsafe fn halves(a: Self, b: Self) -> (Self, Self) {
        // SAFETY: the caller's promise.
        unsafe {
            (
                F64x8(_mm512_shuffle_f64x2::<0b01_00_01_00>(a.0, b.0)),
                F64x8(_mm512_shuffle_f64x2::<0b11_10_11_10>(a.0, b.0)),
            )
        }
    }

    /// a + b and a - b of four values each.
    #[inline(always)] // one instruction and two loads
    pub(crate) unsafe fn sum_and_difference(a: *const f64, b: *const f64) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let a = _mm512_broadcast_f64x4(_mm256_loadu_pd(a));
            let b = _mm512_broadcast_f64x4(_mm256_loadu_pd(b));
            F64x8(_mm512_fmadd_pd(b, Self::halves_of(1.0, -1.0).0, a))
        }
    }

    /// The sums of both halves of each of four.
    #[inline(always)] // ten instructions
    pub(crate) unsafe fn sums_of_halves(of: [Self; 4]) -> [__m128d; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, c, d] = [of[0].0, of[1].0, of[2].0, of[3].0];
            // Quarters: sums of two values of each, first those of the lower halves.
            let ab = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            let cd = _mm512_add_pd(_mm512_unpacklo_pd(c, d), _mm512_unpackhi_pd(c, d));
            let sums = _mm512_add_pd(
                _mm512_shuffle_f64x2::<0b10_00_10_00>(ab, cd),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(ab, cd),
            );
            // Now a, b below and a, b above, then c and d.
            let order = _mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7);
            let sums = _mm512_permutexvar_pd(order, sums);
            let (low, high) = (_mm512_castpd512_pd256(sums), _mm512_extractf64x4_pd::<1>(sums));
            [
                _mm256_castpd256_pd128(low),
                _mm256_extractf128_pd::<1>(low),
                _mm256_castpd256_pd128(high),
                _mm256_extractf128_pd::<1>(high),
            ]
        }
    }

    /// One value in the lower half, another in the upper.
    #[inline(always)] // a few instructions, outside of loops
    pub(crate) unsafe fn halves_of(low: f64, high: f64) -> Self {
        // SAFETY: the caller's promise.
        F64x8(unsafe {
            _mm512_mask_broadcastsd_pd(_mm512_set1_pd(low), 0b1111_0000, _mm_set_sd(high))
        })
    }
}

lanes!(
    /// Eight f32 with AVX2 and FMA.
    F32x8(__m256) of f32: 8,
    _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps _mm256_set1_ps
    _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_fmadd_ps _mm256_fmsub_ps,
    split_f32x8, join_f32x8, turn_f32x8
);
lanes!(
    /// Sixteen f32 with AVX-512.
    F32x16(__m512) of f32: 16,
    _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps _mm512_set1_ps
    _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_fmadd_ps _mm512_fmsub_ps,
    split_f32x16, join_f32x16, turn_f32x16
);

#[inline]
#[target_feature(enable = "avx2,fma")]
fn split_f64x4(a: __m256d, b: __m256d) -> (__m256d, __m256d) {
    let (re, im) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    (_mm256_permute4x64_pd::<0b11_01_10_00>(re), _mm256_permute4x64_pd::<0b11_01_10_00>(im))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn join_f64x4(re: __m256d, im: __m256d) -> (__m256d, __m256d) {
    let (a, b) = (_mm256_unpacklo_pd(re, im), _mm256_unpackhi_pd(re, im));
    (_mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn split_f64x8(a: __m512d, b: __m512d) -> (__m512d, __m512d) {
    let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    (_mm512_permutex2var_pd(a, even, b), _mm512_permutex2var_pd(a, odd, b))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join_f64x8(re: __m512d, im: __m512d) -> (__m512d, __m512d) {
    let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    (_mm512_permutex2var_pd(re, low, im), _mm512_permutex2var_pd(re, high, im))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn split_f32x8(a: __m256, b: __m256) -> (__m256, __m256) {
    let order =
        |v: __m256| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v)));
    let re = _mm256_shuffle_ps::<0b10_00_10_00>(a, b);
    let im = _mm256_shuffle_ps::<0b11_01_11_01>(a, b);
    (order(re), order(im))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn join_f32x8(re: __m256, im: __m256) -> (__m256, __m256) {
    let (a, b) = (_mm256_unpacklo_ps(re, im), _mm256_unpackhi_ps(re, im));
    (_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn split_f32x16(a: __m512, b: __m512) -> (__m512, __m512) {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join_f32x16(re: __m512, im: __m512) -> (__m512, __m512) {
    let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    (_mm512_permutex2var_ps(re, low, im), _mm512_permutex2var_ps(re, high, im))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn turn_f64x4(r: [__m256d; 4]) -> [__m256d; 4] {
    let (a, b) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
    let (c, d) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
    [
        _mm256_permute2f128_pd::<0x20>(a, c),
        _mm256_permute2f128_pd::<0x20>(b, d),
        _mm256_permute2f128_pd::<0x31>(a, c),
        _mm256_permute2f128_pd::<0x31>(b, d),
    ]
}

/// Pairs, then quarters of the vector twice.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn_f64x8(r: [__m512d; 8]) -> [__m512d; 8] {
    let mut p = r;
    for i in 0..4 {
        p[2 * i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
        p[2 * i + 1] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
    }
    // Quarter q of p[2i + s] holds column 2q + s of rows 2i and 2i+1.
    let mut out = r;
    for s in 0..2 {
        let a = _mm512_shuffle_f64x2::<0b10_00_10_00>(p[s], p[2 + s]);
        let b = _mm512_shuffle_f64x2::<0b11_01_11_01>(p[s], p[2 + s]);
        let c = _mm512_shuffle_f64x2::<0b10_00_10_00>(p[4 + s], p[6 + s]);
        let d = _mm512_shuffle_f64x2::<0b11_01_11_01>(p[4 + s], p[6 + s]);
        out[s] = _mm512_shuffle_f64x2::<0b10_00_10_00>(a, c);
        out[4 + s] = _mm512_shuffle_f64x2::<0b11_01_11_01>(a, c);
        out[2 + s] = _mm512_shuffle_f64x2::<0b10_00_10_00>(b, d);
        out[6 + s] = _mm512_shuffle_f64x2::<0b11_01_11_01>(b, d);
    }
    out
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn turn_f32x8(r: [__m256; 8]) -> [__m256; 8] {
    let mut out = r;
    for h in 0..2 {
        // Columns 2h and 2h+1 (low half) and 4+2h, 5+2h (high half) of rows 0-3, then of 4-7.
        let four = |a: __m256, b: __m256, c: __m256, d: __m256| {
            let (ab, cd) = if h == 0 {
                (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d))
            } else {
                (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d))
            };
            let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
            (
                _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)),
            )
        };
        let (a, b) = four(r[0], r[1], r[2], r[3]);
        let (c, d) = four(r[4], r[5], r[6], r[7]);
        out[2 * h] = _mm256_permute2f128_ps::<0x20>(a, c);
        out[2 * h + 1] = _mm256_permute2f128_ps::<0x20>(b, d);
        out[4 + 2 * h] = _mm256_permute2f128_ps::<0x31>(a, c);
        out[5 + 2 * h] = _mm256_permute2f128_ps::<0x31>(b, d);
    }
    out
}

/// Within quarters, then quarters of the vector twice.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn_f32x16(r: [__m512; 16]) -> [__m512; 16] {
    let mut p = r;
    for g in 0..4 {
        let (a, b, c, d) = (r[4 * g], r[4 * g + 1], r[4 * g + 2], r[4 * g + 3]);
        let ab = [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)];
        let cd = [_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)];
        for h in 0..2 {
            let (ab, cd) = (_mm512_castps_pd(ab[h]), _mm512_castps_pd(cd[h]));
            p[4 * g + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            p[4 * g + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
        }
    }
    // Quarter q of p[4g + s] holds column 4q + s of rows 4g … 4g+3.
    let mut out = r;
    for s in 0..4 {
        let a = _mm512_shuffle_f32x4::<0b10_00_10_00>(p[s], p[4 + s]);
        let b = _mm512_shuffle_f32x4::<0b11_01_11_01>(p[s], p[4 + s]);
        let c = _mm512_shuffle_f32x4::<0b10_00_10_00>(p[8 + s], p[12 + s]);
        let d = _mm512_shuffle_f32x4::<0b11_01_11_01>(p[8 + s], p[12 + s]);
        out[s] = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, c);
        out[8 + s] = _mm512_shuffle_f32x4::<0b11_01_11_01>(a, c);
        out[4 + s] = _mm512_shuffle_f32x4::<0b10_00_10_00>(b, d);
        out[12 + s] = _mm512_shuffle_f32x4::<0b11_01_11_01>(b, d);
    }
    out
}
