//! What the processor does best: branch-free mathematics and the one place where its width is
//! chosen.
//!
//! Kernels are written once, as `#[inline(always)]` functions over [`wide::F4`] with a constant
//! `FMA` that says whether AVX2 and FMA may be used, or over [`wide::Vector`] and [`rows::Row`], of
//! which there are more. [`dispatch!`] compiles each for the baseline and for AVX2+FMA,
//! [`dispatch_rows!`](rows::dispatch_rows) for AVX-512 too, and picks at run time; the results differ
//! by rounding only. (Closures and `array::map` inside kernels do not inherit the instruction set;
//! loops and functions do.)

pub(crate) mod ahead;
#[cfg(target_arch = "x86_64")]
pub(crate) mod columns;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
pub(crate) mod math;
pub(crate) mod rows;
pub(crate) mod team;
pub(crate) mod threads;
pub(crate) mod ticks;
pub(crate) mod wide;

/// Whether the processor has AVX2 and FMA, and counts bits, as all that have these do.
#[cfg(target_arch = "x86_64")]
#[inline(always)] // a load: the macros keep what they found
pub(crate) fn has_fma() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("popcnt")
}

/// Whether the processor has vectors of eight f64: AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)] // a load, as above
pub(crate) fn has_eight() -> bool {
    has_fma()
        && std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512vl")
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
                #[target_feature(enable = "avx2,fma,popcnt")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    $body::<true>($($arg),*)
                }
                if $crate::cpu::has_fma() {
                    // SAFETY: both features were just found on this processor.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body::<false>($($arg),*)
        }
    };
}
pub(crate) use dispatch;

/// A loop over at most eight numbers, written out, since compilers leave loops with assembly in them as
/// they are, and what it fills would go through memory.
macro_rules! unrolled {
    ($i:ident in $count:expr, $body:block) => {
        $crate::cpu::unrolled!(@ $i $count, $body 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident $count:expr, $body:block $($number:literal)*) => {{
        const { assert!($count <= 8) };
        $(if $number < $count {
            let $i = $number;
            $body
        })*
    }};
}
pub(crate) use unrolled;
