//! Work in numbered pieces over all cores.
//!
//! Which thread does a piece never changes what the piece computes, so results are bit-identical
//! for every number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether a plan may use more than the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// All threads of the current rayon pool (one without the feature `rayon`).
    #[default]
    All,
    /// The calling thread alone.
    One,
}

impl Threads {
    /// How many threads work on `pieces` pieces.
    #[cfg_attr(not(feature = "rayon"), allow(unused_variables))] // there is one thread then
    pub(crate) fn count(self, pieces: usize) -> usize {
        match self {
            #[cfg(feature = "rayon")]
            Threads::All => rayon::current_num_threads().min(pieces).max(1),
            // One thread, whatever the pieces.
            _ => 1,
        }
    }
}

/// Runs `work(scratch, piece)` for every piece 0 … `pieces`-1, on as many threads as there are
/// scratches. Pieces are handed out one after the other, so a slow thread does fewer.
pub(crate) fn for_each<S: Send>(
    scratches: impl Iterator<Item = S>,
    pieces: usize,
    work: impl Fn(&mut S, usize) + Sync,
) {
    let next = AtomicUsize::new(0);
    let drain = |mut scratch: S| {
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                break;
            }
            work(&mut scratch, piece);
        }
    };
    let mut scratches = scratches.peekable();
    let Some(first) = scratches.next() else { return };
    if scratches.peek().is_none() {
        return drain(first);
    }
    #[cfg(feature = "rayon")]
    rayon::in_place_scope(|scope| {
        for scratch in scratches {
            let drain = &drain;
            scope.spawn(move |_| drain(scratch));
        }
        drain(first);
    });
    #[cfg(not(feature = "rayon"))]
    drain(first);
}

/// Values per piece of the element-wise passes.
const CHUNK: usize = 1 << 14;

/// Runs `work(start, chunk)` over a slice cut into fixed chunks.
pub(crate) fn for_each_chunk<T: Send>(
    threads: Threads,
    values: &mut [T],
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let len = values.len();
    let base = Shared(values.as_mut_ptr());
    let pieces = len.div_ceil(CHUNK);
    for_each((0..threads.count(pieces)).map(|_| ()), pieces, |(), piece| {
        let start = piece * CHUNK;
        let count = CHUNK.min(len - start);
        // SAFETY: the pieces are disjoint parts of the slice, each handed out once.
        let chunk = unsafe { std::slice::from_raw_parts_mut(base.at(start), count) };
        work(start, chunk);
    });
}

/// A pointer that several threads write through, each to its own places.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Shared<T> {
    /// The address of value i.
    ///
    /// # Safety
    /// i must lie inside the allocation.
    #[inline(always)] // an address computation
    pub(crate) unsafe fn at(&self, i: usize) -> *mut T {
        // SAFETY: the caller keeps i inside the allocation.
        unsafe { self.0.add(i) }
    }
}

// SAFETY: only a pointer travels; its users write to disjoint places.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}
