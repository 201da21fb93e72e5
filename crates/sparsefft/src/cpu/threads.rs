//! The one place that decides whether work is worth other threads.
//!
//! Results never depend on it: every item is computed alone and kept in order.

/// Samples read, or operations of that cost, below which waking a thread costs more than it saves.
#[cfg(feature = "rayon")]
const WORTHWHILE: u64 = 1 << 15;

/// `f` of every item, in order; in parallel if `work` (in samples read) is worth it.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    work: u64,
    f: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    #[cfg(feature = "rayon")]
    if work >= WORTHWHILE && items.len() > 1 && rayon::current_num_threads() > 1 {
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
    if work >= WORTHWHILE && items.len() > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        return items.par_iter_mut().map(f).collect();
    }
    let _ = work;
    items.iter_mut().map(f).collect()
}
