//! The two precisions, and the one inner loop that is worth writing for the processor.

use num_complex::Complex;
use rustfft::num_traits::Float;
use rustfft::{FftDirection, FftNum};
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// f32 or f64.
pub trait Real: FftNum + Float + Default + sealed::Sealed {
    /// The precision's name.
    const NAME: &'static str;

    /// Rounds from f64.
    #[doc(hidden)]
    fn of(value: f64) -> Self;

    /// To f64, exact.
    #[doc(hidden)]
    fn wide(self) -> f64;

    /// Its vectors with AVX2 and FMA.
    #[doc(hidden)]
    #[cfg(target_arch = "x86_64")]
    type Avx2: crate::cpu::lanes::Lanes<Real = Self>;

    /// Its vectors with AVX-512.
    #[doc(hidden)]
    #[cfg(target_arch = "x86_64")]
    type Avx512: crate::cpu::lanes::Lanes<Real = Self>;

    /// RustFFT's kernel for a length.
    #[doc(hidden)]
    fn kernel(n: usize, direction: FftDirection) -> Arc<dyn rustfft::Fft<Self>>;

    /// row\[a·|fine| + b\] *= coarse\[a\]·fine\[b\]. The last group may be short.
    #[doc(hidden)]
    fn rotate(row: &mut [Complex<Self>], coarse: &[Complex<Self>], fine: &[Complex<Self>]);
}

/// Rounds a complex value from f64.
#[inline]
pub(crate) fn narrow<T: Real>(z: Complex<f64>) -> Complex<T> {
    Complex::new(T::of(z.re), T::of(z.im))
}

/// The judge of the vector versions of [`Real::rotate`].
#[inline(always)] // compiled into its callers' instruction set
fn rotate_plain<T: Real>(row: &mut [Complex<T>], coarse: &[Complex<T>], fine: &[Complex<T>]) {
    for (group, &c) in row.chunks_mut(fine.len()).zip(coarse) {
        for (x, &d) in group.iter_mut().zip(fine) {
            *x = *x * (c * d);
        }
    }
}

macro_rules! real {
    ($t:ty, $name:literal, $kernel:ident, $vector:ident, $avx2:ident, $avx512:ident) => {
        impl Real for $t {
            const NAME: &'static str = $name;

            #[cfg(target_arch = "x86_64")]
            type Avx2 = crate::cpu::lanes::$avx2;
            #[cfg(target_arch = "x86_64")]
            type Avx512 = crate::cpu::lanes::$avx512;

            #[inline]
            fn of(value: f64) -> Self {
                value as $t
            }

            #[inline]
            fn wide(self) -> f64 {
                self.into()
            }

            fn kernel(n: usize, direction: FftDirection) -> Arc<dyn rustfft::Fft<Self>> {
                sparsefft_kernels::$kernel(n, direction)
            }

            fn rotate(row: &mut [Complex<$t>], coarse: &[Complex<$t>], fine: &[Complex<$t>]) {
                #[cfg(target_arch = "x86_64")]
                if crate::cpu::has_fma() {
                    // SAFETY: the processor has the instructions.
                    return unsafe { x86::$vector(row, coarse, fine) };
                }
                rotate_plain(row, coarse, fine);
            }
        }
    };
}
real!(f32, "f32", single, rotate_f32, F32x8, F32x16);
real!(f64, "f64", double, rotate_f64, F64x4, F64x8);

/// AVX2 with FMA. Complex numbers lie interleaved, so (a+bi)(c+di) is one alternating
/// subtract-add: (a·c - b·d, b·c + a·d).
#[cfg(target_arch = "x86_64")]
mod x86 {
    use num_complex::Complex;
    use std::arch::x86_64::*;

    macro_rules! rotate {
        ($name:ident, $t:ty, $lanes:literal, $load:ident, $store:ident, $set:ident, $mul:ident,
         $fmaddsub:ident, $swap:expr, $real:expr, $imag:expr) => {
            #[target_feature(enable = "avx2,fma")]
            pub(super) fn $name(
                row: &mut [Complex<$t>],
                coarse: &[Complex<$t>],
                fine: &[Complex<$t>],
            ) {
                for (group, c) in row.chunks_mut(fine.len()).zip(coarse) {
                    let (cr, ci) = ($set(c.re), $set(c.im));
                    let whole = group.len() / $lanes * $lanes;
                    let (body, tail) = group.split_at_mut(whole);
                    for (x, d) in body.chunks_exact_mut($lanes).zip(fine.chunks_exact($lanes)) {
                        let x: *mut $t = x.as_mut_ptr().cast();
                        // SAFETY: both chunks hold one vector of interleaved pairs.
                        unsafe {
                            let d = $load(d.as_ptr().cast());
                            let w = $fmaddsub(d, cr, $mul($swap(d), ci));
                            let v = $load(x);
                            $store(x, $fmaddsub(v, $real(w), $mul($swap(v), $imag(w))));
                        }
                    }
                    for (x, &d) in tail.iter_mut().zip(&fine[whole..]) {
                        *x *= *c * d;
                    }
                }
            }
        };
    }
    rotate!(
        rotate_f64,
        f64,
        2,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_set1_pd,
        _mm256_mul_pd,
        _mm256_fmaddsub_pd,
        |v| _mm256_permute_pd::<0b0101>(v),
        |v| _mm256_movedup_pd(v),
        |v| _mm256_permute_pd::<0b1111>(v)
    );
    rotate!(
        rotate_f32,
        f32,
        4,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_mul_ps,
        _mm256_fmaddsub_ps,
        |v| _mm256_permute_ps::<0b10_11_00_01>(v),
        |v| _mm256_moveldup_ps(v),
        |v| _mm256_movehdup_ps(v)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<T: Real>() {
        let z = |i: usize| {
            let x = i as f64;
            narrow::<T>(Complex::new((x * 0.7).sin(), (x * 1.3).cos()))
        };
        for (len, fine) in [(64, 16), (37, 16), (5, 3), (1, 1), (70, 7)] {
            let d: Vec<_> = (0..fine).map(|i| z(i + 100)).collect();
            let c: Vec<_> = (0..=len / fine).map(|i| z(i + 1000)).collect();
            let mut fast: Vec<_> = (0..len).map(z).collect();
            let mut plain = fast.clone();
            T::rotate(&mut fast, &c, &d);
            rotate_plain(&mut plain, &c, &d);
            for (a, b) in fast.iter().zip(&plain) {
                assert!((a - b).norm() <= T::epsilon() * T::of(8.0), "{len} {fine}");
            }
        }
    }

    #[test]
    fn vector_rotation_agrees_with_the_plain_one() {
        agree::<f32>();
        agree::<f64>();
    }
}
