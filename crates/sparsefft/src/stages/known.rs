//! The coefficients found so far, and which of them lie in the same bin.
//!
//! Chains through the list answer both questions that peeling asks, "is f known?" and "what else
//! is in the bin of f?", without a table of the size of n.

use crate::cpu::wide::F4;
use crate::cpu::{dispatch, threads};
use crate::stages::peel::Coefficient;

/// Entries that are measured at a time.
const PART: usize = 4096;

/// End of a chain.
const NONE: u32 = u32::MAX;

/// What is known, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Known {
    list: Vec<Coefficient>,
    chains: Chains,
    /// How many, from the first on, are as they were when [`put_back`](Known::put_back).
    firm: usize,
    /// How many, from the first on, have kept their places since then.
    in_place: usize,
    /// Sizes of parts of the list.
    sizes: Vec<Sizes>,
    /// An empty list, for the next [`set_aside`](Known::set_aside).
    spare: Vec<Coefficient>,
}

/// Which entries of a list share a slot.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    /// The next member of the same slot, for each entry that is linked.
    next: Vec<u32>,
    /// The first member of each slot; empty until [`link`](Chains::link).
    head: Vec<u32>,
    /// Bins of the comb, or 0: slots then spread frequencies at random.
    bins: u64,
}

impl Chains {
    fn unlink(&mut self) {
        self.next.clear();
        self.head.clear();
    }

    /// Starts chains through a list: by the bins of a comb, or without one.
    pub(crate) fn link(&mut self, list: &[Coefficient], comb: Option<usize>) {
        self.unlink();
        self.bins = comb.unwrap_or(0) as u64;
        let slots = comb.unwrap_or_else(|| (2 * list.len()).next_power_of_two().max(64));
        self.head.resize(slots, NONE);
        self.go_on(list);
    }

    /// Goes on with the rest of the list.
    fn go_on(&mut self, list: &[Coefficient]) {
        let rest = &list[self.next.len()..];
        let places = self.next.len() as u32..;
        if self.bins.is_power_of_two() {
            // As a rule, and without a division or a question each.
            let mask = self.head.len() - 1;
            let head = &mut self.head[..];
            let place =
                |(c, i): (&Coefficient, u32)| std::mem::replace(&mut head[c.f as usize & mask], i);
            self.next.extend(rest.iter().zip(places).map(place));
        } else {
            rest.iter().for_each(|c| self.chain(c.f));
        }
    }

    fn slot(&self, f: u64) -> usize {
        if self.bins > 0 {
            residue(f, self.bins)
        } else {
            // Fibonacci hashing: structured frequencies spread like any others.
            let bits = self.head.len().trailing_zeros();
            (f.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
        }
    }

    /// Forgets the entries of the list from a place on, the last one first: each is then the first of its slot.
    fn go_back(&mut self, list: &[Coefficient], place: usize) {
        while self.next.len() > place
            && let Some(next) = self.next.pop()
        {
            let slot = self.slot(list[self.next.len()].f);
            self.head[slot] = next;
        }
    }

    /// The next entry of the list, of this frequency.
    fn chain(&mut self, f: u64) {
        let (slot, i) = (self.slot(f), self.next.len() as u32);
        self.next.push(std::mem::replace(&mut self.head[slot], i));
    }
}

impl Known {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        (self.firm, self.in_place) = (0, 0);
        self.chains.unlink();
    }

    /// All that is known, for others to read while more is found. Only while no chains are kept.
    pub(crate) fn set_aside(&mut self) -> Vec<Coefficient> {
        debug_assert!(!self.linked());
        std::mem::replace(&mut self.list, std::mem::take(&mut self.spare))
    }

    /// Puts what was set aside before what was found meanwhile.
    pub(crate) fn put_back(&mut self, first: Vec<Coefficient>) {
        (self.firm, self.in_place) = (first.len(), usize::MAX);
        let mut meanwhile = std::mem::replace(&mut self.list, first);
        self.list.append(&mut meanwhile);
        self.spare = meanwhile;
    }

    /// How many have kept their places since then, from the first on.
    pub(crate) fn in_place(&self) -> usize {
        self.in_place.min(self.list.len())
    }

    /// How many of those that were set aside have not changed since, from the first on.
    pub(crate) fn firm(&self) -> usize {
        self.firm
    }

    /// Whether chains are kept.
    pub(crate) fn linked(&self) -> bool {
        !self.chains.head.is_empty()
    }

    /// Starts to keep chains: by the bins of a comb, or without one.
    pub(crate) fn link(&mut self, comb: Option<usize>) {
        self.chains.link(&self.list, comb);
    }

    /// Chains, for somebody to start with the first of the list.
    pub(crate) fn lend_chains(&mut self) -> Chains {
        std::mem::take(&mut self.chains)
    }

    /// Keeps chains, if they were started.
    pub(crate) fn go_on_with(&mut self, mut chains: Chains) {
        if !chains.head.is_empty() {
            chains.go_on(&self.list);
        }
        self.chains = chains;
    }

    /// Adds a coefficient; returns its place.
    #[inline]
    pub(crate) fn push(&mut self, c: Coefficient) -> usize {
        self.list.push(c);
        if self.linked() {
            if self.chains.bins == 0 && self.list.len() > 2 * self.chains.head.len() {
                self.link(None);
            } else {
                self.chains.chain(c.f);
            }
        }
        self.list.len() - 1
    }

    /// Σ|a|², Σ|a| and the least |a|² of all entries.
    pub(crate) fn sizes(&self) -> Sizes {
        self.list.chunks(PART).map(sizes).fold(Sizes::NONE, Sizes::and)
    }

    /// Places of the entries in one slot: in one bin of the comb.
    pub(crate) fn members(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.chains.head.get(slot).copied().unwrap_or(NONE);
        let step = |&i: &u32| Some(self.chains.next[i as usize]).filter(|&i| i != NONE);
        std::iter::successors(Some(first).filter(|&i| i != NONE), step).map(|i| i as usize)
    }

    /// Place of f.
    pub(crate) fn find(&self, f: u64) -> Option<usize> {
        self.members(self.chains.slot(f)).find(|&i| self.list[i].f == f)
    }

    /// Drops this frequency.
    pub(crate) fn drop(&mut self, f: u64) {
        self.retain_from(0, |c| c.f != f);
    }

    /// Drops entries with |a|² not above `least`; returns the sizes of what stays.
    pub(crate) fn drop_small(&mut self, least: f64) -> Sizes {
        let parts = self.list.len().div_ceil(PART);
        let mut all = std::mem::take(&mut self.sizes);
        all.clear();
        all.resize(parts, Sizes::NONE);
        let list = &self.list[..];
        let measure = |i: usize, out: &mut [Sizes]| {
            out[0] = sizes(&list[i * PART..list.len().min((i + 1) * PART)]);
        };
        threads::reduce_chunks(&mut all, 1, 4 * list.len() as u64, measure, |(), ()| ());
        // None is as a rule, or a few of the last. What is not a number stays neither.
        let passes = |s: &Sizes| s.weakest > least && s.energy.is_finite();
        if let Some(first) = all.iter().position(|sizes| !passes(sizes)) {
            self.retain_from(first * PART, |c| c.a.norm_sqr() > least);
            all.truncate(first);
            all.extend(self.list[first * PART..].chunks(PART).map(sizes));
        }
        let total = all.iter().copied().fold(Sizes::NONE, Sizes::and);
        self.sizes = all;
        total
    }

    /// Drops entries from a place on that do not pass; the chains begin anew there.
    fn retain_from(&mut self, place: usize, keep: impl Fn(&Coefficient) -> bool) {
        let Some(first) = self.list[place..].iter().position(|c| !keep(c)) else { return };
        let mut kept = place + first;
        self.firm = self.firm.min(kept);
        self.in_place = self.in_place.min(kept);
        if self.linked() {
            self.chains.go_back(&self.list, kept);
        }
        for i in kept + 1..self.list.len() {
            let c = self.list[i];
            self.list[kept] = c;
            kept += usize::from(keep(&c));
        }
        self.list.truncate(kept);
        if self.linked() {
            self.chains.go_on(&self.list);
        }
    }
}

/// f mod bins: most combs have a power of two, which takes no division.
#[inline(always)] // two instructions as a rule
pub(crate) fn residue(f: u64, bins: u64) -> usize {
    (if bins.is_power_of_two() { f & (bins - 1) } else { f % bins }) as usize
}

/// How large the amplitudes of a list are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    /// Σ|a|².
    pub(crate) energy: f64,
    /// Σ|a|.
    pub(crate) sum: f64,
    /// The least |a|², infinite for an empty list.
    pub(crate) weakest: f64,
}

impl Sizes {
    /// Of nothing.
    const NONE: Sizes = Sizes { energy: 0.0, sum: 0.0, weakest: f64::INFINITY };

    /// Of both.
    fn and(self, other: Sizes) -> Sizes {
        Sizes {
            energy: self.energy + other.energy,
            sum: self.sum + other.sum,
            weakest: self.weakest.min(other.weakest),
        }
    }
}

dispatch! {
    fn sizes(list: &[Coefficient]) -> Sizes = sizes_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn sizes_body<const FMA: bool>(list: &[Coefficient]) -> Sizes {
    let (mut energy, mut sum) = (F4::<FMA>::ZERO, F4::ZERO);
    let mut weakest = F4::splat(f64::INFINITY);
    let (four, rest) = list.as_chunks::<4>();
    for [p, q, r, s] in four {
        let re = F4([p.a.re, q.a.re, r.a.re, s.a.re]);
        let im = F4([p.a.im, q.a.im, r.a.im, s.a.im]);
        let size = re.mul_add(re, im * im);
        energy = energy + size;
        sum = sum + size.sqrt();
        weakest = size.where_or(size.below(weakest), weakest);
    }
    let least = weakest.0.into_iter().fold(f64::INFINITY, f64::min);
    let mut sizes = Sizes { energy: energy.sum(), sum: sum.sum(), weakest: least };
    for c in rest {
        let size = c.a.norm_sqr();
        sizes.energy += size;
        sizes.sum += size.sqrt();
        sizes.weakest = sizes.weakest.min(size);
    }
    sizes
}

impl std::ops::Deref for Known {
    type Target = [Coefficient];
    fn deref(&self) -> &[Coefficient] {
        &self.list
    }
}

impl std::ops::DerefMut for Known {
    fn deref_mut(&mut self) -> &mut [Coefficient] {
        self.firm = 0;
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
            (0..10).for_each(|f| known.drop(f << 20));
            assert_eq!(
                (known.len(), known.find(9 << 20), known.find(10 << 20)),
                (390, None, Some(0))
            );
            // One from the middle, and one of the last.
            known.drop(200 << 20);
            known.drop(398 << 20);
            known.push(entry(400 << 20));
            let left = (10..401).filter(|f| ![200, 398].contains(f));
            for (place, f) in left.enumerate() {
                assert_eq!(known.find(f << 20), Some(place));
            }
            assert_eq!((known.find(200 << 20), known.find(398 << 20)), (None, None));
            assert!(comb.is_none() || known.members(0).count() == 389);
        }
    }

    fn entry(f: u64) -> Coefficient {
        Coefficient { f, a: Complex::new(f as f64, 0.0), z: Complex::ONE }
    }

    #[test]
    fn what_is_set_aside_comes_first_again() {
        let mut known = Known::default();
        (1..=5).for_each(|f| _ = known.push(entry(f)));
        let mut chains = known.lend_chains();
        let first = known.set_aside();
        assert!(known.is_empty() && first.len() == 5);
        chains.link(&first, Some(4));
        (6..=9).for_each(|f| _ = known.push(entry(f)));
        known.put_back(first);
        known.go_on_with(chains);
        assert!(known.iter().map(|c| c.f).eq(1..=9));
        assert!(known.linked() && (1..=9).all(|f| known.find(f) == Some(f as usize - 1)));
        assert!(known.members(1).eq([8, 4, 0]));
        assert_eq!((known.firm(), known.in_place()), (5, 9));
        // What is added disturbs nothing, what is dropped those after it.
        known.push(entry(10));
        assert_eq!((known.firm(), known.in_place()), (5, 10));
        known.drop(8);
        assert_eq!((known.firm(), known.in_place(), known.find(8)), (5, 7, None));
        known.drop(3);
        assert_eq!((known.firm(), known.in_place()), (2, 2));
        // A value that may have changed is not firm.
        known[6].a += 1.0;
        assert_eq!((known.firm(), known.in_place()), (0, 2));
        known.clear();
        assert_eq!((known.firm(), known.in_place(), known.linked()), (0, 0, false));
    }

    #[test]
    fn small_entries_are_dropped_and_the_others_measured() {
        for small in
            [vec![], vec![0], vec![2 * PART], vec![5, PART, 2 * PART + 9], vec![2 * PART + 9]]
        {
            let mut known = Known::default();
            for i in 0..2 * PART + 10 {
                let a = if small.contains(&i) { 1e-9 } else { 1.0 + i as f64 };
                known.push(Coefficient { f: i as u64, a: Complex::new(0.0, a), z: Complex::ONE });
            }
            known.link(None);
            let sizes = known.drop_small(1e-10);
            assert_eq!(known.len(), 2 * PART + 10 - small.len());
            assert_eq!(sizes, known.sizes());
            assert_eq!(sizes.weakest, if small.contains(&0) { 4.0 } else { 1.0 });
            let stays = |i: &u64| !small.contains(&(*i as usize));
            assert!(known.iter().map(|c| c.f).eq((0..2 * PART as u64 + 10).filter(stays)));
            assert!(known.iter().enumerate().all(|(i, c)| known.find(c.f) == Some(i)));
        }
    }

    #[test]
    fn sizes_are_those_of_all() {
        for count in [0, 3, 4, 11] {
            let mut known = Known::default();
            for i in 0..count {
                let a = Complex::new(3.0 * (i + 1) as f64, -4.0 * (i + 1) as f64);
                known.push(Coefficient { f: i, a, z: Complex::ONE });
            }
            let squares: u64 = (1..=count).map(|i| i * i).sum();
            let sum: u64 = (1..=count).sum();
            let sizes = known.sizes();
            assert_eq!(sizes.energy, 25.0 * squares as f64);
            assert_eq!(sizes.sum, 5.0 * sum as f64);
            assert_eq!(sizes.weakest, if count > 0 { 25.0 } else { f64::INFINITY });
        }
    }
}
