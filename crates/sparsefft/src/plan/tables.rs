//! Tables that all plans share: windows and twiddles of common sizes.
//!
//! A plan is made in microseconds and often used once; its tables take longer than the search that
//! needs them. They depend on a size and a shape alone.

use super::lock;
use crate::algorithms::tones::window::Window as ToneWindow;
use crate::stages::bucket_fft::BucketFft;
use crate::stages::window::Kaiser;
use std::sync::{Arc, Mutex};

/// Largest size whose tables are shared. Of larger ones the search takes far longer than its tables.
const MOST_BINS: usize = 4096;
/// Tables of a kind that are kept: four shapes of eight sizes. At most 0.5 MiB each, 2 MiB on average
/// over all.
const KEPT: usize = 32;

/// A table and what it is for.
type Entry<K, T> = (K, Arc<T>);

/// Tables of one kind, those used last at the end.
pub(super) struct Shared<K, T> {
    entries: Mutex<Vec<Entry<K, T>>>,
}

impl<K: PartialEq + Copy, T> Shared<K, T> {
    const fn new() -> Self {
        Shared { entries: Mutex::new(Vec::new()) }
    }

    /// The table of this key and size; what `make` makes, the first time.
    pub(super) fn get(&self, key: K, size: usize, make: impl FnOnce() -> T) -> Arc<T> {
        if size > MOST_BINS {
            return Arc::new(make());
        }
        let mut entries = lock(&self.entries);
        if let Some(i) = entries.iter().position(|(k, _)| *k == key) {
            let found = entries.remove(i);
            let table = found.1.clone();
            entries.push(found);
            return table;
        }
        let made = Arc::new(make());
        if entries.len() >= KEPT {
            entries.remove(0);
        }
        entries.push((key, made.clone()));
        made
    }
}

/// Twiddles of bucket FFTs by size.
pub(super) static FFTS: Shared<usize, BucketFft> = Shared::new();
/// Windows of the second stage by shape and buckets.
pub(super) static WINDOWS: Shared<(f64, usize), Kaiser> = Shared::new();
/// Windows of tone combs by shape and bins.
pub(super) static TONE_WINDOWS: Shared<(f64, usize), ToneWindow> = Shared::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_kept_and_those_used_longest_ago_are_dropped() {
        let shared: Shared<usize, usize> = Shared::new();
        let first = shared.get(7, 64, || 70);
        for key in 100..100 + KEPT - 1 {
            shared.get(key, 64, || key);
        }
        assert!(Arc::ptr_eq(&first, &shared.get(7, 64, || 71)));
        // The next one takes the place of number 100, which was used longest ago.
        shared.get(8, 64, || 80);
        assert_eq!(*shared.get(7, 64, || 71), 70);
        assert_eq!(*shared.get(100, 64, || 1), 1);
        // Large ones are not kept.
        assert_eq!(*shared.get(9, MOST_BINS + 1, || 1), 1);
        assert_eq!(*shared.get(9, MOST_BINS + 1, || 2), 2);
    }
}
