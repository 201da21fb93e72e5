//! The first pass over a comb: bins that hold one frequency.
//!
//! Parts of the bins are looked at one by one, by whoever has time: what is found stays in a cache until
//! it is sorted out. A part writes into room of its own, and what is left free there is filled up in the
//! end, so that the order is the same for every number of threads.

use super::engine::OWN_ROUNDING;
use crate::cpu::threads;
use crate::dense::Shared;
use crate::stages::locate::{Bins, Singles, singles_part};
use crate::stages::peel::Coefficient;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Bins of a part.
const PART: usize = 512;
/// Bins that are decoded before they are sorted out.
const BLOCK: usize = 128;

/// What a bin must leave, and be, to be taken.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The energy that one frequency may leave, but for its own rounding.
    pub(super) left: f64,
    /// Least |a|² that is placed reliably.
    pub(super) least: f64,
}

/// How many bins hold one frequency, how many of these too weak a one, and how many hold more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) alone: usize,
    pub(super) weak: usize,
    pub(super) shared: usize,
}

/// Buffers of this pass.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    singles: Vec<Singles>,
    counts: Vec<Count>,
}

/// Where the bins of a comb go to.
struct Places<'a> {
    comb: Bins<'a>,
    limits: Limits,
    /// Of all bins.
    energy: Shared<f64>,
}

/// Writes what those of the active bins hold that hold one frequency, one after the other, and lists the
/// others, ascending as they are. Energies of the former become what is left.
///
/// There must be room for all of them in both.
pub(super) fn sort_out(
    comb: Bins<'_>,
    active: &[u32],
    limits: Limits,
    energy: &mut [f64],
    room: &mut [MaybeUninit<Coefficient>],
    shared: &mut [u32],
    scratch: &mut Scratch,
) -> Count {
    let parts = active.len().div_ceil(PART);
    let Scratch { singles, counts } = scratch;
    singles.resize((parts * BLOCK / 4).max(singles.len()), Singles::default());
    counts.clear();
    counts.resize(parts, Count::default());
    assert!(room.len() >= active.len() && shared.len() >= active.len());
    debug_assert!(active.is_sorted_by(|a, b| a < b));
    assert!(active.last().is_none_or(|&b| (b as usize) < energy.len()));
    let places = Places { comb, limits, energy: Shared(energy.as_mut_ptr()) };
    let rooms = (
        Shared(singles.as_mut_ptr()),
        Shared(room.as_mut_ptr()),
        Shared(shared.as_mut_ptr()),
    );
    let work = (16 * active.len() * comb.offsets.len()) as u64;
    let look = |i: usize, count: &mut [Count]| {
        let (singles, room, shared) = &rooms;
        let (first, len) = (i * PART, PART.min(active.len() - i * PART));
        // SAFETY: every part has places of its own in all of them, which were counted above, and bins that
        // no other has: they ascend.
        unsafe {
            let singles = std::slice::from_raw_parts_mut(singles.at(i * BLOCK / 4), BLOCK / 4);
            let room = std::slice::from_raw_parts_mut(room.at(first), len);
            let shared = std::slice::from_raw_parts_mut(shared.at(first), len);
            count[0] = places.part(&active[first..first + len], singles, room, shared);
        }
    };
    threads::reduce_chunks(counts, 1, work, look, |(), ()| ());
    fill_up(counts, room, shared)
}

impl Places<'_> {
    /// [`sort_out`] of one part.
    ///
    /// # Safety
    /// The bins are below the number of energies, and nobody else has them.
    unsafe fn part(
        &self,
        active: &[u32],
        singles: &mut [Singles],
        room: &mut [MaybeUninit<Coefficient>],
        shared: &mut [u32],
    ) -> Count {
        let Limits { left, least } = self.limits;
        let mut count = Count::default();
        for block in active.chunks(BLOCK) {
            let singles = &mut singles[..block.len().div_ceil(4)];
            singles_part(self.comb, block, singles);
            for (bins, s) in block.chunks(4).zip(&*singles) {
                for (i, &b) in bins.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    let energy = unsafe { &mut *self.energy.at(b as usize) };
                    let (c, residual) = (s.coefficient(i), s.residual[i]);
                    let alone = residual <= left + OWN_ROUNDING * *energy;
                    // Written in any case, and overwritten where it is not meant: which are cannot be
                    // foretold.
                    room[count.alone].write(c);
                    shared[count.shared] = b;
                    *energy = select_unpredictable(alone, residual, *energy);
                    count.alone += usize::from(alone);
                    count.shared += usize::from(!alone);
                    count.weak += usize::from(alone & (c.a.norm_sqr() < least));
                }
            }
        }
        count
    }
}

/// Closes the gaps between the parts: by the last of the coefficients, whose order does not matter, and by
/// moving the lists.
fn fill_up(
    counts: &[Count],
    room: &mut [MaybeUninit<Coefficient>],
    shared: &mut [u32],
) -> Count {
    let mut all = Count::default();
    for (i, count) in counts.iter().enumerate() {
        let first = i * PART;
        if i > 0 {
            shared.copy_within(first..first + count.shared, all.shared);
        }
        all.alone += count.alone;
        all.shared += count.shared;
        all.weak += count.weak;
    }
    // Gaps from the first on are filled by what lies beyond the end, from the last on.
    let mut last = counts.len();
    let mut beyond = 0..0;
    for (i, count) in counts.iter().enumerate() {
        let mut gap = i * PART + count.alone..((i + 1) * PART).min(all.alone);
        while !gap.is_empty() {
            while beyond.is_empty() {
                last -= 1;
                beyond = all.alone.max(last * PART)..last * PART + counts[last].alone;
            }
            let moved = beyond.len().min(gap.len());
            room.copy_within(beyond.end - moved..beyond.end, gap.start);
            gap.start += moved;
            beyond.end -= moved;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_lists_stay_in_order() {
        // Parts with nothing, with everything, with gaps of all sizes.
        let cases: [&[usize]; 7] = [
            &[],
            &[0],
            &[PART],
            &[PART, 3],
            &[0, 0, PART, 0, 5],
            &[1, PART - 1, PART, 7, PART - 7, 0, 400],
            &[200, 200, 200, 200, 200],
        ];
        for alone in cases {
            let coefficient = |f: usize| Coefficient { f: f as u64, ..Coefficient::NONE };
            let mut room = vec![MaybeUninit::new(Coefficient::NONE); alone.len() * PART];
            let mut shared = vec![0; room.len()];
            let mut counts = Vec::new();
            for (i, &alone) in alone.iter().enumerate() {
                (0..alone).for_each(|j| _ = room[i * PART + j].write(coefficient(1 + i * PART + j)));
                (alone..PART).for_each(|j| shared[i * PART + j - alone] = (i * PART + j) as u32);
                counts.push(Count { alone, weak: i, shared: PART - alone });
            }
            let all = fill_up(&counts, &mut room, &mut shared);
            assert_eq!(all.alone + all.shared, alone.len() * PART);
            assert_eq!(all.weak, (0..alone.len()).sum());
            let mut found: Vec<u64> =
                // SAFETY: every place was written when it was made.
                room[..all.alone].iter().map(|c| unsafe { c.assume_init() }.f).collect();
            found.sort_unstable();
            let mut expected = Vec::new();
            for (i, &alone) in alone.iter().enumerate() {
                expected.extend((0..alone).map(|j| (1 + i * PART + j) as u64));
            }
            assert_eq!(found, expected);
            assert!(shared[..all.shared].is_sorted());
            let others = (0..alone.len() * PART).filter(|b| b % PART >= alone[b / PART]);
            assert!(shared[..all.shared].iter().map(|&b| b as usize).eq(others));
        }
    }
}
