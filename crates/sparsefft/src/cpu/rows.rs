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
}

#[cfg(target_arch = "x86_64")]
pub(crate) use whole::Whole;

#[cfg(target_arch = "x86_64")]
mod whole {
    use super::{F4, Line, Row, Vector};
    use std::arch::x86_64::*;

    /// Eight f64 with AVX-512.
    #[derive(Clone, Copy)]
    pub(crate) struct F8(__m512d);

    // Everything is inlined into functions that were compiled for these instructions.
    impl Vector for F8 {
        const COUNT: usize = 8;

        #[inline(always)] // one instruction
        fn load<const FMA: bool>(from: &[F4<FMA>]) -> Self {
            assert!(from.len() >= 2);
            // SAFETY: two F4 are eight values; the instructions were found (see the trait).
            F8(unsafe { _mm512_loadu_pd(from.as_ptr().cast()) })
        }

        #[inline(always)] // one instruction
        fn store<const FMA: bool>(self, to: &mut [F4<FMA>]) {
            assert!(to.len() >= 2);
            // SAFETY: as for `load`.
            unsafe { _mm512_storeu_pd(to.as_mut_ptr().cast(), self.0) }
        }

        #[inline(always)] // one instruction
        fn splat(x: f64) -> Self {
            // SAFETY: as for `load`, here and below.
            F8(unsafe { _mm512_set1_pd(x) })
        }

        #[inline(always)] // one instruction
        fn times(self, b: Self) -> Self {
            // SAFETY: see above.
            F8(unsafe { _mm512_mul_pd(self.0, b.0) })
        }

        #[inline(always)] // one instruction
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: see above.
            F8(unsafe { _mm512_fmadd_pd(self.0, b.0, c.0) })
        }

        #[inline(always)] // two instructions
        fn where_small(self, x: Self, limit: f64) -> Self {
            // SAFETY: see above.
            unsafe {
                let small =
                    _mm512_cmp_pd_mask::<_CMP_LT_OQ>(_mm512_abs_pd(x.0), _mm512_set1_pd(limit));
                F8(_mm512_maskz_mov_pd(small, self.0))
            }
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
                Whole(_mm512_permutexvar_pd(apart, _mm512_loadu_pd(from)))
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
                #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
                fn whole($($arg: $ty),*) $(-> $ret)? {
                    $body::<true, $crate::cpu::rows::Whole>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
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
        all
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
