//! What the processor does best: branch-free mathematics and the one place where its width is
//! chosen.
//!
//! Kernels are written once, as `#[inline(always)]` functions over small arrays with a constant
//! `FMA` that says whether fused multiply-add is an instruction. [`dispatch!`] compiles each for
//! the baseline and for AVX2+FMA and picks at run time; the results differ by rounding only.

pub(crate) mod math;
pub(crate) mod threads;
pub(crate) mod wide;

/// a·b + c, fused where that is one instruction.
#[inline(always)] // a single instruction
pub(crate) fn fma<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Defines a function that runs `$body::<true>` where the processor has AVX2 and FMA, and
/// `$body::<false>` elsewhere.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?
        = $body:ident) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    $body::<true>($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                    // SAFETY: both features were just found on this processor.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body::<false>($($arg),*)
        }
    };
}
pub(crate) use dispatch;
