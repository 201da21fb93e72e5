//! Copies between strided and contiguous places: the moves of the two passes.
//!
//! to\[j·step + i\] = from\[i·stride + j\] for i < rows and j < columns. One of the two sides is a
//! tile in the cache; the other is far away, and the loop runs along it so that whole cache lines
//! are read or written together.

use super::scalar::Real;
use num_complex::Complex;

/// Which side is far away, and how it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Far {
    /// The source; its rows are asked for ahead of time.
    Source,
    /// The target, through the cache.
    Target,
    /// The target, past the cache where its rows are aligned.
    TargetPastCache,
}

/// Values in memory with their rows this far apart.
#[derive(Clone, Copy)]
pub(crate) struct Strided<P> {
    pub(crate) start: P,
    pub(crate) stride: usize,
}

/// Transposes a matrix of `rows` rows and `columns` columns.
///
/// # Safety
/// All places must lie inside their allocations, and the two sides must not overlap.
pub(crate) unsafe fn transpose<T: Real>(
    from: Strided<*const Complex<T>>,
    to: Strided<*mut Complex<T>>,
    rows: usize,
    columns: usize,
    far: Far,
) {
    // SAFETY: as for this function.
    #[cfg(target_arch = "x86_64")]
    let (done_rows, done_columns) = unsafe { blocks(from, to, rows, columns, far) };
    #[cfg(not(target_arch = "x86_64"))]
    let (done_rows, done_columns) = {
        let _ = far;
        (0, 0)
    };
    // SAFETY: as for this function.
    unsafe {
        for j in 0..columns {
            let start = if j < done_columns { done_rows } else { 0 };
            for i in start..rows {
                *to.start.add(j * to.stride + i) = *from.start.add(i * from.stride + j);
            }
        }
    }
}

/// Transposes what can be done in whole blocks, with AVX2 where that is there; returns the rows and the
/// columns that are done.
///
/// # Safety
/// As for [`transpose`].
#[cfg(target_arch = "x86_64")]
unsafe fn blocks<T: Real>(
    from: Strided<*const Complex<T>>,
    to: Strided<*mut Complex<T>>,
    rows: usize,
    columns: usize,
    far: Far,
) -> (usize, usize) {
    if is_x86_feature_detected!("avx2") && rows >= 4 && columns >= 4 {
        let (done_rows, done_columns) = (rows / 4 * 4, columns / 4 * 4);
        let value = size_of::<Complex<T>>();
        let aligned = to.start.align_offset(32) == 0 && (to.stride * value).is_multiple_of(32);
        let far = if far == Far::TargetPastCache && !aligned { Far::Target } else { far };
        let from = Strided { start: from.start.cast::<f64>(), stride: from.stride };
        let to = Strided { start: to.start.cast::<f64>(), stride: to.stride };
        // SAFETY: the instructions are there, the places are the caller's, and streaming stores
        // go to aligned rows only.
        unsafe {
            match (value, far) {
                (8, Far::Source) => x86::far_source_8(from, to, done_rows, done_columns),
                (8, Far::Target) => x86::far_target_8(from, to, done_rows, done_columns),
                (8, _) => x86::far_stream_8(from, to, done_rows, done_columns),
                (_, Far::Source) => x86::far_source_16(from, to, done_rows, done_columns),
                (_, Far::Target) => x86::far_target_16(from, to, done_rows, done_columns),
                (_, _) => x86::far_stream_16(from, to, done_rows, done_columns),
            }
        }
        return (done_rows, done_columns);
    }
    (0, 0)
}

/// Blocks of 4 × 4 values with AVX2.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Strided;
    use std::arch::x86_64::*;

    /// Rows of the far source that are asked for ahead of the copy. They lie on other pages,
    /// where the processor does not look ahead by itself.
    const AHEAD: usize = 16;

    macro_rules! block {
        // Four rows of four values of 8 bytes.
        (8, $from:ident, $to:ident, $i:ident, $j:ident, $store:ident) => {
            let row = |r: usize| _mm256_loadu_pd($from.start.add(($i + r) * $from.stride + $j));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab0, ab1) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            let to = |c: usize| $to.start.add(($j + c) * $to.stride + $i);
            $store(to(0), _mm256_permute2f128_pd::<0x20>(ab0, cd0));
            $store(to(1), _mm256_permute2f128_pd::<0x20>(ab1, cd1));
            $store(to(2), _mm256_permute2f128_pd::<0x31>(ab0, cd0));
            $store(to(3), _mm256_permute2f128_pd::<0x31>(ab1, cd1));
        };
        // Four rows of four values of 16 bytes, as four blocks of 2 × 2.
        (16, $from:ident, $to:ident, $i:ident, $j:ident, $store:ident) => {
            for c in [0, 2] {
                let row = |r: usize| {
                    _mm256_loadu_pd($from.start.add(2 * (($i + r) * $from.stride + $j + c)))
                };
                let (p, q, r, s) = (row(0), row(1), row(2), row(3));
                let to = |c: usize, i: usize| $to.start.add(2 * (($j + c) * $to.stride + $i + i));
                $store(to(c, 0), _mm256_permute2f128_pd::<0x20>(p, q));
                $store(to(c, 2), _mm256_permute2f128_pd::<0x20>(r, s));
                $store(to(c + 1, 0), _mm256_permute2f128_pd::<0x31>(p, q));
                $store(to(c + 1, 2), _mm256_permute2f128_pd::<0x31>(r, s));
            }
        };
    }

    macro_rules! far_source {
        ($size:tt, $name:ident) => {
            /// # Safety
            /// As `transpose`, with both numbers multiples of 4.
            #[target_feature(enable = "avx2")]
            pub(super) unsafe fn $name(
                from: Strided<*const f64>,
                to: Strided<*mut f64>,
                rows: usize,
                columns: usize,
            ) {
                const UNITS: usize = $size / 8;
                for i in (0..rows).step_by(4) {
                    for r in 0..4 {
                        let ahead = from.start.wrapping_add(UNITS * (i + r + AHEAD) * from.stride);
                        for line in (0..columns * UNITS).step_by(8) {
                            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line).cast());
                        }
                    }
                    for j in (0..columns).step_by(4) {
                        // SAFETY: the block lies inside both matrices.
                        unsafe {
                            block!($size, from, to, i, j, _mm256_storeu_pd);
                        }
                    }
                }
            }
        };
    }
    far_source!(8, far_source_8);
    far_source!(16, far_source_16);

    macro_rules! far_target {
        ($size:tt, $name:ident, $store:ident) => {
            /// # Safety
            /// As `transpose`, with both numbers multiples of 4, and the target's rows aligned
            /// for the streaming version.
            #[target_feature(enable = "avx2")]
            pub(super) unsafe fn $name(
                from: Strided<*const f64>,
                to: Strided<*mut f64>,
                rows: usize,
                columns: usize,
            ) {
                for j in (0..columns).step_by(4) {
                    for i in (0..rows).step_by(4) {
                        // SAFETY: the block lies inside both matrices.
                        unsafe {
                            block!($size, from, to, i, j, $store);
                        }
                    }
                }
                // Other threads read what was streamed; it must be visible before they start.
                // After ordinary stores this costs nothing to speak of.
                _mm_sfence();
            }
        };
    }
    far_target!(8, far_target_8, _mm256_storeu_pd);
    far_target!(16, far_target_16, _mm256_storeu_pd);
    far_target!(8, far_stream_8, _mm256_stream_pd);
    far_target!(16, far_stream_16, _mm256_stream_pd);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact<T: Real>() {
        let value = |i: usize| Complex::new(T::of(i as f64), T::of(-(i as f64)));
        for (rows, columns) in [(16, 8), (7, 16), (13, 5), (3, 40), (32, 33)] {
            for far in [Far::Source, Far::Target, Far::TargetPastCache] {
                for shift in [0, 1] {
                    let (stride, step) = (columns + 3, 48);
                    let from: Vec<_> = (0..rows * stride).map(value).collect();
                    let mut to = vec![value(0); columns * step + 8];
                    let skip = to.as_ptr().align_offset(64) % 8 + shift;
                    // SAFETY: the source has `rows` rows of `stride` values, the target room for
                    // `columns` rows of 48 values after a start of at most 8.
                    unsafe {
                        transpose(
                            Strided { start: from.as_ptr(), stride },
                            Strided { start: to.as_mut_ptr().add(skip), stride: step },
                            rows,
                            columns,
                            far,
                        );
                    }
                    for i in 0..rows {
                        for j in 0..columns {
                            assert_eq!(to[skip + j * step + i], from[i * stride + j]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_value_arrives() {
        exact::<f32>();
        exact::<f64>();
    }
}
