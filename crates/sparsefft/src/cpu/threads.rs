//! The one place that decides whether work is worth other threads.
//!
//! Results never depend on it: every item is computed alone and kept in order.

/// Samples read, or operations of that cost, below which waking a thread costs more than it saves.
#[cfg(feature = "rayon")]
const WORTHWHILE: u64 = 1 << 15;

/// Whether work of this size (in samples read) is worth other threads.
pub(crate) fn worthwhile(work: u64) -> bool {
    #[cfg(feature = "rayon")]
    return work >= WORTHWHILE && rayon::current_num_threads() > 1;
    #[cfg(not(feature = "rayon"))]
    {
        let _ = work;
        false
    }
}

/// Length of the pieces in which `len` items are best handed out, if what comes out does not depend
/// on it: all of them where `work` is not worth other threads, else some pieces for each thread, so
/// that a slow one does fewer.
pub(crate) fn piece(len: usize, work: u64) -> usize {
    #[cfg(feature = "rayon")]
    if worthwhile(work) {
        return len.div_ceil(3 * rayon::current_num_threads()).max(1);
    }
    let _ = work;
    len.max(1)
}

/// `f(start, chunk)` over chunks of this size, and what they give combined in their order; in
/// parallel if `work` is worth it. `None` for an empty slice.
pub(crate) fn reduce_chunks<T: Send, R: Send>(
    items: &mut [T],
    size: usize,
    work: u64,
    f: impl Fn(usize, &mut [T]) -> R + Sync + Send,
    combine: impl Fn(R, R) -> R,
) -> Option<R> {
    #[cfg(feature = "rayon")]
    if items.len() > size && worthwhile(work) {
        use rayon::prelude::*;
        let chunks = items.par_chunks_mut(size).enumerate();
        let parts: Vec<R> = chunks.map(|(i, chunk)| f(i * size, chunk)).collect();
        return parts.into_iter().reduce(combine);
    }
    let _ = work;
    items.chunks_mut(size).enumerate().map(|(i, chunk)| f(i * size, chunk)).reduce(combine)
}

/// `f` of every item, in order; in parallel if `work` (in samples read) is worth it.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    work: u64,
    f: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    #[cfg(feature = "rayon")]
    if items.len() > 1 && worthwhile(work) {
        use rayon::prelude::*;
        return items.par_iter().map(f).collect();
    }
    let _ = work;
    items.iter().map(f).collect()
}

/// `f` on every item, in place; in parallel if `work` (in samples read) is worth it.
pub(crate) fn map_mut<T: Send, R: Send>(
    items: &mut [T],
    work: u64,
    f: impl Fn(&mut T) -> R + Sync + Send,
) -> Vec<R> {
    #[cfg(feature = "rayon")]
    if items.len() > 1 && worthwhile(work) {
        use rayon::prelude::*;
        return items.par_iter_mut().map(f).collect();
    }
    let _ = work;
    items.iter_mut().map(f).collect()
}
