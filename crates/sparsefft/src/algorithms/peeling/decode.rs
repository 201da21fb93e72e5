//! The first pass over a comb: bins that hold one frequency or two.
//!
//! Parts of the bins are looked at one after the other, or by all members of a team: what is found stays in
//! a cache until it is judged. What the parts find stands in their order, whoever has looked at them.

use super::engine::OWN_ROUNDING;
use crate::cpu::threads;
use crate::dense::Shared;
use crate::stages::locate::{
    Bins, CLOSE, Doubles, Lattice, Pair, Singles, decode_two, doubles_part, singles_part,
};
use crate::stages::peel::Coefficient;
use std::hint::select_unpredictable;

/// Bins of a part.
const PART: usize = 512;
/// Bins that are decoded before they are judged.
const BLOCK: usize = 128;

/// What bins may leave, and frequencies must be, to be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Energy that one frequency may leave, and two, but for their own rounding.
    pub(super) left: [f64; 2],
    /// Least |a|² that is placed reliably.
    pub(super) least: f64,
    /// Least share of its own that each of two phasors needs.
    pub(super) apart: f64,
    /// Two phasors less apart are noted, since noise in their values is amplified.
    pub(super) loose: f64,
    /// What is left at least where one of |a| = 1 is displaced, if that must be more than what may be.
    pub(super) misplaced: Option<f64>,
}

/// What is found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) found: Vec<Coefficient>,
    /// How many of them are too weak to be placed.
    pub(super) weak: usize,
    /// Bins that hold more, ascending.
    pub(super) open: Vec<u32>,
    /// Bins that hold two which are too alike to be taken, ascending.
    pub(super) alike: Vec<u32>,
    /// Bins whose two phasors are loose, ascending.
    pub(super) loose: Vec<u32>,
}

impl Findings {
    fn clear(&mut self) {
        self.found.clear();
        self.weak = 0;
        self.open.clear();
        self.alike.clear();
        self.loose.clear();
    }

    /// Adds all but the coefficients.
    fn add_lists(&mut self, more: &Findings) {
        self.weak += more.weak;
        self.open.extend_from_slice(&more.open);
        self.alike.extend_from_slice(&more.alike);
        self.loose.extend_from_slice(&more.loose);
    }
}

/// Buffers for one part.
#[derive(Debug, Default)]
struct Room {
    singles: Vec<Singles>,
    doubles: Vec<Doubles>,
    shared: Vec<u32>,
}

/// Buffers of this pass.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    one: Room,
    parts: Vec<(Room, Findings)>,
}

/// The bins of a comb, and how they are judged.
struct Judge<'a> {
    comb: Bins<'a>,
    limits: Limits,
    /// Of all bins.
    energy: Shared<f64>,
}

/// Decodes those of the active bins, which ascend, that hold one frequency or two. Their energies become
/// what is left.
pub(super) fn decode(
    comb: Bins<'_>,
    energy: &mut [f64],
    active: &[u32],
    limits: Limits,
    out: &mut Findings,
    scratch: &mut Scratch,
) {
    assert!(active.last().is_none_or(|&b| (b as usize) < energy.len()));
    debug_assert!(active.is_sorted_by(|a, b| a < b));
    let judge = Judge { comb, limits, energy: Shared(energy.as_mut_ptr()) };
    let count = active.len().div_ceil(PART);
    let work = (16 * active.len() * comb.offsets.len()) as u64;
    if count < 2 || !threads::is_shared(work) {
        for part in active.chunks(PART) {
            // SAFETY: the bins are below the number of energies, and nobody else is there.
            unsafe { judge.part(part, &mut scratch.one, out) };
        }
        return;
    }
    if scratch.parts.len() < count {
        scratch.parts.resize_with(count, Default::default);
    }
    let parts = &mut scratch.parts[..count];
    let look = |i: usize, part: &mut [(Room, Findings)]| {
        let (room, out) = &mut part[0];
        out.clear();
        let bins = &active[i * PART..active.len().min((i + 1) * PART)];
        // SAFETY: as above; the bins ascend, so no other part has any of these.
        unsafe { judge.part(bins, room, out) };
    };
    threads::reduce_chunks(parts, 1, work, look, |(), ()| ());
    let before = out.found.len();
    let all: usize = parts.iter().map(|(_, part)| part.found.len()).sum();
    out.found.reserve(all);
    let room = Shared(out.found.spare_capacity_mut().as_mut_ptr());
    let parts = &*parts;
    threads::for_each(count, |i| {
        let at: usize = parts[..i].iter().map(|(_, part)| part.found.len()).sum();
        let found = &parts[i].1.found;
        // SAFETY: there is room for all, and each part has its own.
        unsafe {
            room.at(at).cast::<Coefficient>().copy_from_nonoverlapping(found.as_ptr(), found.len())
        };
    });
    // SAFETY: the parts have filled it.
    unsafe { out.found.set_len(before + all) };
    parts.iter().for_each(|(_, part)| out.add_lists(part));
}

impl Judge<'_> {
    /// [`decode`] of one part.
    ///
    /// # Safety
    /// The bins are below the number of energies, and nobody else has them.
    unsafe fn part(&self, active: &[u32], room: &mut Room, out: &mut Findings) {
        room.singles.resize(BLOCK / 4, Singles::default());
        room.doubles.resize(BLOCK / 4, Doubles::default());
        room.shared.resize(PART, 0);
        let mut left = 0;
        for block in active.chunks(BLOCK) {
            let singles = &mut room.singles[..block.len().div_ceil(4)];
            singles_part(self.comb, block, singles);
            // SAFETY: the caller's promise.
            left += unsafe { self.take_one_each(block, singles, &mut room.shared[left..], out) };
        }
        for block in room.shared[..left].chunks(BLOCK) {
            let doubles = &mut room.doubles[..block.len().div_ceil(4)];
            doubles_part(self.comb, block, doubles);
            for (bins, doubles) in block.chunks(4).zip(&*doubles) {
                for (i, &b) in bins.iter().enumerate() {
                    // SAFETY: as above.
                    let energy = unsafe { &mut *self.energy.at(b as usize) };
                    let apart = doubles.apart[i];
                    if apart >= CLOSE || apart >= 0.0 && self.comb.offsets.len() == 1 {
                        let left = doubles.residual(i);
                        self.take_two(b, || doubles.both(i), left, apart, energy, out);
                    } else if apart >= 0.0
                        && let Some((both, pair)) = self.plain_pair(b)
                    {
                        self.take_two(b, || both, pair.residual, pair.apart, energy, out);
                    } else {
                        out.open.push(b);
                    }
                }
            }
        }
    }

    /// Takes what explains bins as one frequency, and lists the others. Returns how many these are.
    ///
    /// # Safety
    /// As for a part.
    #[inline]
    unsafe fn take_one_each(
        &self,
        bins: &[u32],
        singles: &[Singles],
        shared: &mut [u32],
        out: &mut Findings,
    ) -> usize {
        let Limits { left: [most, _], least, .. } = self.limits;
        let energies = self.energy;
        let (mut left, mut kept, mut weak) = (0, 0, 0);
        out.found.reserve(bins.len());
        let room = &mut out.found.spare_capacity_mut()[..bins.len()];
        for (four, s) in bins.chunks(4).zip(singles) {
            for (i, &b) in four.iter().enumerate() {
                // SAFETY: the caller's promise.
                let energy = unsafe { &mut *energies.at(b as usize) };
                let (c, residual) = (s.coefficient(i), s.residual[i]);
                let alone = residual <= most + OWN_ROUNDING * *energy;
                // Written in any case, and overwritten where it is not meant: which are cannot be foretold.
                room[kept].write(c);
                shared[left] = b;
                *energy = select_unpredictable(alone, residual, *energy);
                kept += usize::from(alone);
                left += usize::from(!alone);
                weak += usize::from(alone & (c.a.norm_sqr() < least));
            }
        }
        // SAFETY: there is room for so many, and each was written before it was counted.
        unsafe { out.found.set_len(out.found.len() + kept) };
        out.weak += weak;
        left
    }

    /// Takes two frequencies of a bin, so much [apart](Pair::apart), if what they leave explains it.
    #[inline(always)] // where both are is known there
    fn take_two(
        &self,
        b: u32,
        both: impl FnOnce() -> [Coefficient; 2],
        residual: f64,
        share: f64,
        energy: &mut f64,
        out: &mut Findings,
    ) {
        let Limits { left: [_, left], least, apart, loose, misplaced } = self.limits;
        let most = left + OWN_ROUNDING * *energy;
        if residual > most || share < apart {
            // Two that are so alike are two nevertheless, not more.
            if residual <= most {
                out.alike.push(b);
            }
            return out.open.push(b);
        }
        let both = both();
        let [p, q] = both.map(|c| c.a.norm_sqr());
        if misplaced.is_some_and(|misplaced| misplaced * share * p.min(q) <= most) {
            return out.open.push(b);
        }
        out.weak += usize::from(p < least) + usize::from(q < least);
        both.into_iter().for_each(|c| out.found.push(c));
        *energy = residual;
        if share < loose {
            out.loose.push(b);
        }
    }

    /// Two frequencies of a bin in the plain form, which brings back digits that are lost where they are
    /// nearly the same.
    #[cold]
    fn plain_pair(&self, b: u32) -> Option<([Coefficient; 2], Pair)> {
        let unity = self.comb.unity;
        let lattice = Lattice {
            n: unity.order(),
            modulus: self.comb.modulus as u64,
            residue: u64::from(b) % self.comb.modulus as u64,
        };
        let (f, pair) = decode_two(unity, self.comb.lanes_of(b as usize), lattice)?;
        let c = |i: usize| Coefficient { f: f[i], a: pair.values[i], z: unity.root(f[i]) };
        Some(([c(0), c(1)], pair))
    }
}
