//! The one place that decides whether work is worth other threads.
//!
//! Results never depend on it: every item is computed alone and kept in order.

use super::team::{self, Wanted};
use crate::dense::Shared;

/// Samples read, or operations of that cost, below which waking a thread costs more than it saves.
#[cfg(feature = "rayon")]
const WORTHWHILE: u64 = 1 << 15;
/// The same for a whole transform: what fits one core's cache is not worth being carried to others.
const LARGE: u64 = 1 << 16;
/// The same where others are far away.
const LARGER: u64 = 1 << 19;
/// The same for one step among members of a team, who are awake.
const SHARED: u64 = 1 << 12;

/// Most threads that are worth starting here: four for each core that this process may use. Surfaces
/// that are asked for more start as many as this; the answer does not depend on the number.
pub fn most_threads() -> usize {
    4 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a transform whose largest step is of this size (in samples read), with a team if that is worth
/// it: [`piece`], [`reduce_chunks`] and [`for_each`] share work among its members.
pub(crate) fn with_team<R>(work: u64, f: impl FnOnce() -> R) -> R {
    let wanted = match work {
        ..LARGE => Wanted::None,
        LARGE..LARGER => Wanted::Near,
        _ => Wanted::All,
    };
    team::gather(wanted, f)
}

/// Whether there is a team, and work of this size (in samples read) for it.
pub(crate) fn is_shared(work: u64) -> bool {
    work >= SHARED && has_team()
}

/// Length of the pieces in which `len` items are best handed out, if what comes out does not depend
/// on it: all of them where `work` is not worth sharing, else some pieces for each member, so that a
/// slow one does fewer.
pub(crate) fn piece(len: usize, work: u64) -> usize {
    let parts = if is_shared(work) { 2 * team::members() } else { 1 };
    len.div_ceil(parts).max(1)
}

/// `f` of the numbers below `count`, shared among the team.
pub(crate) fn for_each(count: usize, f: impl Fn(usize) + Sync) {
    team::share(count, f);
}

/// Calls `f`, and meanwhile `job` by a member of the team, if there is one.
pub(crate) fn beside<R>(job: impl FnOnce() + Send, f: impl FnOnce() -> R) -> R {
    team::beside(job, f)
}

/// Whether there is a team.
pub(crate) fn has_team() -> bool {
    team::members() > 1
}

/// `f(start, chunk)` over chunks of this size, and what they give combined in their order; shared
/// among the team if `work` is worth it. `None` for an empty slice.
pub(crate) fn reduce_chunks<T: Send, R: Send>(
    items: &mut [T],
    size: usize,
    work: u64,
    f: impl Fn(usize, &mut [T]) -> R + Sync,
    combine: impl Fn(R, R) -> R,
) -> Option<R> {
    let len = items.len();
    if len > size && is_shared(work) {
        let count = len.div_ceil(size);
        let mut parts: Vec<Option<R>> = (0..count).map(|_| None).collect();
        let (items, results) = (Shared(items.as_mut_ptr()), Shared(parts.as_mut_ptr()));
        for_each(count, |i| {
            let (start, end) = (i * size, len.min((i + 1) * size));
            // SAFETY: every piece has a chunk and a result of its own, and both outlive the call.
            unsafe {
                let chunk = std::slice::from_raw_parts_mut(items.at(start), end - start);
                *results.at(i) = Some(f(start, chunk));
            }
        });
        return parts.into_iter().flatten().reduce(combine);
    }
    items.chunks_mut(size).enumerate().map(|(i, chunk)| f(i * size, chunk)).reduce(combine)
}

/// Whether work of this size (in samples read) is worth waking other threads.
#[cfg(feature = "rayon")]
fn worthwhile(work: u64) -> bool {
    work >= WORTHWHILE && rayon::current_num_threads() > 1
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
