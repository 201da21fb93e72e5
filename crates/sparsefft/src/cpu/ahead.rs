//! Samples that are asked for before they are read.

use crate::Complex;

/// Asks for the cache lines of four samples from `first` on: one, or with `BOTH` the one in which the last
/// of them ends, too. Any address is allowed, and nothing is read.
///
/// They come to the second cache: samples that are a power of two apart share one set of the first, where they
/// would push each other out, and fewer lines can be on their way to that one at a time.
#[inline(always)] // at most two instructions
pub(crate) fn ask<T, const BOTH: bool>(first: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let first = first.cast::<i8>();
        // SAFETY: a prefetch reads nothing; any address is allowed.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(first);
            if BOTH {
                _mm_prefetch::<_MM_HINT_T1>(first.wrapping_add(4 * size_of::<T>() - 1));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = first;
}

/// Whether samples at these places, which have not been read lately if others around them have not, come from
/// main memory rather than a cache. Takes less than 0.1 µs where they do not. A guess: what depends on it must
/// be a matter of speed alone.
#[cfg(target_arch = "x86_64")]
pub(crate) fn come_slowly<T: Copy>(samples: &[T], places: [usize; 3]) -> bool {
    use std::time::{Duration, Instant};
    /// One after the other: from the last cache they take 40 to 150 ns, clock included, from memory 300 to 600.
    const SLOW: Duration = Duration::from_nanos(180);
    let started = Instant::now();
    for place in places {
        std::hint::black_box(samples[place]);
        // Else the next would be read meanwhile.
        // SAFETY: every processor of this kind has this instruction.
        unsafe { std::arch::x86_64::_mm_lfence() };
    }
    started.elapsed() > SLOW
}

/// The same where nothing can be asked for.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn come_slowly<T: Copy>(_: &[T], _: [usize; 3]) -> bool {
    false
}

/// [`come_slowly`] for one sample, in a tenth of the time.
#[cfg(target_arch = "x86_64")]
pub(crate) fn comes_slowly<T: Copy>(samples: &[T], place: usize) -> bool {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    /// Ticks, of which every processor has two to four in a nanosecond.
    const SLOW: u64 = 160;
    let Some(sample) = samples.get(place) else { return false };
    // SAFETY: every processor of this kind has these instructions.
    unsafe {
        let started = _rdtsc();
        std::hint::black_box(*sample);
        _mm_lfence();
        _rdtsc().wrapping_sub(started) > SLOW
    }
}

/// The same where nothing can be asked for.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn comes_slowly<T: Copy>(_: &[T], _: usize) -> bool {
    false
}

/// Copies four samples at every multiple of a step, so many times: in their order, in which memory answers
/// fastest, each asked for long before. Butterflies read them in another order, which takes twice as long where they
/// come slowly. Those at the places that are read later are asked for last, so that they come meanwhile.
pub(crate) fn copy_from_far(
    samples: &[Complex<f64>],
    step: usize,
    count: usize,
    later: &[usize],
    out: &mut Vec<Complex<f64>>,
) {
    /// Lines that are on their way: fewer take longer, and so do more.
    const AHEAD: usize = 32;
    out.resize(4 * count, Complex::ZERO);
    let ask_for = |j: usize| {
        if j < count {
            ask::<_, true>(samples.as_ptr().wrapping_add(j * step));
        } else if let Some(&place) = later.get(j - count) {
            ask::<_, true>(samples.as_ptr().wrapping_add(place));
        }
    };
    (0..AHEAD).for_each(ask_for);
    let lines = out.as_chunks_mut::<4>().0.iter_mut().zip(samples.chunks(step));
    for (j, (to, from)) in lines.enumerate() {
        ask_for(j + AHEAD);
        if let Some(from) = from.first_chunk() {
            *to = *from;
        }
    }
    (count + AHEAD..count + later.len()).for_each(ask_for);
}
