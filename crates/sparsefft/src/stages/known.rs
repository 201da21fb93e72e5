//! The coefficients found so far, and which of them lie in the same bin.
//!
//! Chains through the list answer both questions that peeling asks, "is f known?" and "what else
//! is in the bin of f?", without a table of the size of n.

use crate::stages::peel::Coefficient;

/// End of a chain.
const NONE: u32 = u32::MAX;

/// What is known, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Known {
    list: Vec<Coefficient>,
    /// The next member of the same slot, for each entry that is linked.
    next: Vec<u32>,
    /// The first member of each slot; empty until [`link`](Known::link).
    head: Vec<u32>,
    /// Bins of the comb, or 0: slots then spread frequencies at random.
    bins: u64,
}

impl Known {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.unlink();
    }

    fn unlink(&mut self) {
        self.next.clear();
        self.head.clear();
    }

    /// Whether chains are kept.
    pub(crate) fn linked(&self) -> bool {
        !self.head.is_empty()
    }

    /// Starts to keep chains: by the bins of a comb, or without one.
    pub(crate) fn link(&mut self, comb: Option<usize>) {
        self.unlink();
        self.bins = comb.unwrap_or(0) as u64;
        let slots = comb.unwrap_or_else(|| (2 * self.list.len()).next_power_of_two().max(64));
        self.head.resize(slots, NONE);
        for i in 0..self.list.len() {
            self.chain(i);
        }
    }

    fn slot(&self, f: u64) -> usize {
        if self.bins > 0 {
            (f % self.bins) as usize
        } else {
            // Fibonacci hashing: structured frequencies spread like any others.
            let bits = self.head.len().trailing_zeros();
            (f.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
        }
    }

    fn chain(&mut self, i: usize) {
        let slot = self.slot(self.list[i].f);
        self.next.push(self.head[slot]);
        self.head[slot] = i as u32;
    }

    /// Adds a coefficient; returns its place.
    pub(crate) fn push(&mut self, c: Coefficient) -> usize {
        self.list.push(c);
        if self.linked() {
            if self.bins == 0 && self.list.len() > 2 * self.head.len() {
                self.link(None);
            } else {
                self.chain(self.list.len() - 1);
            }
        }
        self.list.len() - 1
    }

    /// Places of the entries in one slot: in one bin of the comb.
    pub(crate) fn members(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.head.get(slot).copied().unwrap_or(NONE);
        let step = |&i: &u32| Some(self.next[i as usize]).filter(|&i| i != NONE);
        std::iter::successors(Some(first).filter(|&i| i != NONE), step).map(|i| i as usize)
    }

    /// Place of f.
    pub(crate) fn find(&self, f: u64) -> Option<usize> {
        self.members(self.slot(f)).find(|&i| self.list[i].f == f)
    }

    /// Drops what does not pass; the chains end.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Coefficient) -> bool) {
        let before = self.list.len();
        self.list.retain(keep);
        if self.list.len() < before && self.linked() {
            let comb = Some(self.bins as usize).filter(|&b| b > 0);
            self.link(comb);
        }
    }
}

impl std::ops::Deref for Known {
    type Target = [Coefficient];
    fn deref(&self) -> &[Coefficient] {
        &self.list
    }
}

impl std::ops::DerefMut for Known {
    fn deref_mut(&mut self) -> &mut [Coefficient] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;

    #[test]
    fn every_frequency_is_found_and_shares_its_bin() {
        for comb in [None, Some(16)] {
            let mut known = Known::default();
            let entry = |f| Coefficient { f, a: Complex::ONE, z: Complex::ONE };
            for f in 0..40 {
                known.push(entry(f << 20));
            }
            known.link(comb);
            for f in 40..400 {
                known.push(entry(f << 20));
            }
            for f in 0..400 {
                assert_eq!(known.find(f << 20), Some(f as usize));
                assert_eq!(known.find((f << 20) + 1), None);
            }
            if comb.is_some() {
                assert_eq!(known.members(0).count(), 400);
                assert_eq!(known.members(3).count(), 0);
            }
            known.retain(|c| c.f >> 20 >= 10);
            assert_eq!(
                (known.len(), known.find(9 << 20), known.find(10 << 20)),
                (390, None, Some(0))
            );
        }
    }
}
