//! Lengths with a comb: bins with one frequency or two, and with three or four, for which a coarser comb gives the next
//! four shifts.

use super::{Room, Sprint, Witness, listed, transform};
use crate::Error;
use crate::algorithms::Run;
use crate::algorithms::peeling::conclude::shows;
use crate::algorithms::peeling::engine::{
    CROWDED_AT_FIRST, OWN_ROUNDING, TINY_POWER, comb_floor, list_above_all, misplaced,
};
use crate::algorithms::peeling::resolve::{
    Bounds, NEXT, SEVERAL, coarse_bins, few_enough, list_owners, search_crowds,
};
use crate::cpu::ahead::comes_slowly;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::judge::ReadSet;
use crate::plan::{Peeling, Workspace};
use crate::samples::Line;
use crate::stages::Stage;
use crate::stages::few::{Few, Places, list_congruent, next};
use crate::stages::fold::{Step, fold_listed};
use crate::stages::hash::Hash;
use crate::stages::known::residue;
use crate::stages::locate::{Alone, Bins, Pairs, Sink, alone_of, norm_sqr_each, pairs_of};
use crate::stages::peel::peel_bin;
use crate::stages::prony::{SHIFTS, Shared};
use crate::stages::unity::Unity;

/// Most bins of a comb that is decoded so; the engine shares more of them among threads.
pub(super) const MOST_BINS: usize = 512;

/// What bins may leave to be taken.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Energy that one frequency may leave, and two, but for their own rounding.
    left: [f64; 2],
    /// What is left at least where one of two, of |a| = 1, is displaced.
    misplaced: f64,
}

/// Runs as far as the signal is of the usual kind: at most k coefficients, and no noise.
pub(super) fn sprint(run: &mut Run<'_>, recipe: &Peeling, k: u64) -> Result<Sprint, Error> {
    let plan = run.plan;
    let (n, witness) = (plan.problem.n, plan.witness(recipe, k));
    let bins = recipe.begin;
    look_ahead(run, witness, bins);
    let mut comb = Hash::comb(run, bins);
    comb.measure_more(run, 0)?;
    let power = comb.total / 4.0;
    let floor = comb_floor(0.0, power, bins);
    let mut room = run.workspace.sprint.take().unwrap_or_default();
    list_above_all(&comb.energy, floor * witness.over[4], &mut room.active);
    let crowded = room.active.len() as f64 > CROWDED_AT_FIRST * bins as f64;
    if crowded || power < TINY_POWER {
        run.workspace.sprint = Some(room);
        return Ok(Sprint::Measured(comb));
    }
    let limits = Limits {
        left: [3, 2].map(|lanes| floor * witness.over[lanes]),
        misplaced: misplaced(n, bins, 5.0),
    };
    room.decode_comb(comb.bins(Unity::new(n)), limits);
    run.clock.lap(Stage::Locate);
    let whole = room.open.is_empty() || room.decode_crowds(run, &comb, witness, power)?;
    if !whole || room.few.len() as u64 > k {
        return Ok(Sprint::Decoded(comb, room));
    }
    let Some(limit) = room.verify(run, witness, [power, floor], Some(bins))? else {
        return Ok(Sprint::Decoded(comb, room));
    };
    let own = shows(floor, floor * witness.over[4], 4, witness.sigmas);
    let answer = room.answer(run, witness, bins, own.max(limit));
    run.workspace.sprint = Some(room);
    comb.recycle(run);
    run.clock.lap(Stage::Certify);
    Ok(Sprint::Certified(answer))
}

/// Finds out whether samples come slowly, and lists those that are read after the comb then: crowded bins, which are
/// common, need some, and the others verify.
fn look_ahead(run: &mut Run<'_>, witness: &Witness, bins: usize) {
    let Some(samples) = listed(run, witness) else { return };
    let coarse = coarse_bins(bins as u64, 1, false) as usize;
    // Room in any case: samples may come slowly for the first time after thousands of transforms.
    let Workspace { later, copy, .. } = &mut *run.workspace;
    later.clear();
    later.reserve(coarse + witness.steps.len());
    copy.reserve((4 * bins).saturating_sub(copy.len()));
    run.slow = comes_slowly(samples, witness.steps[0].place);
    if run.slow {
        later.extend((0..coarse).map(|j| j * (samples.len() / coarse) + NEXT as usize));
        later.extend(witness.steps.iter().map(|step| step.place));
    }
}

impl Room {
    /// Decodes the active bins of a comb that hold one frequency or two.
    fn decode_comb(&mut self, bins: Bins<'_>, limits: Limits) {
        let Room { few, active, shared, open, places, .. } = self;
        // An eighth of the bins may turn out to hold four.
        few.clear(2 * active.len() + bins.size / 4);
        places.resize((few.len() + active.len() + 8).max(places.len()), 0);
        let count = take_each(bins, active, false, limits, few, places);
        shared.clear();
        shared.extend(places[..count].iter().map(|&i| active[i as usize]));
        let count = take_each(bins, shared, true, limits, few, places);
        open.clear();
        open.extend(places[..count].iter().map(|&i| shared[i as usize]));
        self.plain = few.len();
    }

    /// Decodes three or four frequencies in the open bins of a comb; whether that explains all of them. The engine
    /// reads more of a coarser comb than here, where so few bins are open.
    fn decode_crowds(
        &mut self,
        run: &mut Run<'_>,
        comb: &Hash,
        witness: &Witness,
        power: f64,
    ) -> Result<bool, Error> {
        let (n, fine) = (run.plan.problem.n, comb.buckets as u64);
        if !few_enough(n, fine, self.open.len() as u64) {
            return Ok(false);
        }
        // The fewest that tell them apart.
        let mut bins = coarse_bins(fine, 1, false);
        list_owners(&self.open, bins, &mut self.owner);
        while self.owner.contains(&SEVERAL) {
            bins *= 2;
            list_owners(&self.open, bins, &mut self.owner);
        }
        self.measure_coarse(run, bins)?;
        let Room { few, open, places, crowded, crowds, coarse, .. } = self;
        let unity = Unity::new(n);
        places.resize((few.len() + 8).max(places.len()), 0);
        let count = list_congruent(few, open, bins as usize, places);
        for &i in &places[..count] {
            let c = few.get(i as usize);
            let b = residue(c.f, bins);
            peel_bin(&mut coarse[b..=b], &[NEXT], unity, &c);
        }
        crowded.clear();
        crowded.extend(open.iter().map(|&bin| {
            let next = coarse[residue(bin.into(), bins)];
            Shared { bin, lines: [comb.measured[bin as usize], next] }
        }));
        let floor = comb_floor(0.0, power, bins as usize);
        let bounds = Bounds {
            left: [3, 4].map(|m| floor * witness.over[SHIFTS - m]),
            misplaced: misplaced(n, comb.buckets, 42.0),
        };
        search_crowds(unity, comb.buckets, bounds, crowded, crowds, |_, members, _| {
            members.iter().for_each(|c| few.push(c));
        });
        run.clock.lap(Stage::Locate);
        Ok(crowded.is_empty())
    }

    /// Measures a coarser comb at the next shifts.
    fn measure_coarse(&mut self, run: &mut Run<'_>, bins: u64) -> Result<(), Error> {
        let Room { steps, folded, coarse, scratch, .. } = self;
        let size = bins as usize;
        let Some(samples) = run.samples() else {
            let mut hash = Hash::comb(run, size);
            hash.measure_more(run, NEXT)?;
            coarse.clear();
            coarse.extend_from_slice(hash.measured_lines());
            hash.recycle(run);
            return Ok(());
        };
        let (apart, weight) = (samples.len() / size, 1.0 / bins as f64);
        steps.clear();
        steps.extend((0..size).map(|j| Step { place: j * apart + NEXT as usize, weight }));
        folded.resize(size, Line::ZERO);
        coarse.resize(size, Line::ZERO);
        run.peak = run.peak.max(fold_listed(samples, steps, 1, folded));
        run.samples_read += 4 * bins;
        run.workspace.evidence.note(ReadSet::lines(NEXT, apart as u64, size));
        transform(&run.plan.fft(size), folded, coarse, scratch);
        Ok(())
    }
}

dispatch_rows! {
    /// Takes what explains bins as one frequency, or as two. Lists the places of the others and returns how many these
    /// are.
    fn take_each(
        bins: Bins<'_>,
        list: &[u32],
        pairs: bool,
        limits: Limits,
        few: &mut Few,
        left: &mut [u32],
    ) -> usize = take_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn take_each_body<const FMA: bool, R: Row>(
    bins: Bins<'_>,
    list: &[u32],
    pairs: bool,
    limits: Limits,
    few: &mut Few,
    left: &mut [u32],
) -> usize {
    let mut take = Take { few, limits, left: Places::<R>::new(left), at: 0, end: list.len() };
    if pairs {
        pairs_of::<R::Wide, _>(bins, list, &mut take);
    } else {
        alone_of::<R::Wide, _>(bins, list, &mut take);
    }
    take.left.count()
}

/// Takes frequencies that explain their bins.
struct Take<'a, R> {
    few: &'a mut Few,
    limits: Limits,
    left: Places<'a, R>,
    /// Bins of the list so far, and all.
    at: usize,
    end: usize,
}

impl<R: Row> Sink<Alone<R::Wide>> for Take<'_, R> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, alone: Alone<R::Wide>) {
        let Alone { f, value, root, residual } = alone;
        // What a frequency explains and what it leaves is all there is.
        let energy = norm_sqr_each(value).mul_add(R::Wide::splat(4.0), residual);
        let [left, _] = self.limits.left;
        let most = energy.mul_add(R::Wide::splat(OWN_ROUNDING), R::Wide::splat(left));
        let (all, here) = next::<R::Wide>(self.at, self.end);
        let taken = residual.below_bits(most) & all;
        self.few.keep(taken, f, value, root);
        self.left.add(all & !taken, self.at);
        self.at += here;
    }
}

impl<R: Row> Sink<Pairs<R::Wide>> for Take<'_, R> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, pairs: Pairs<R::Wide>) {
        let Pairs { f, values, roots, residual, apart, energy } = pairs;
        let Limits { left: [_, left], misplaced } = self.limits;
        let most = energy.mul_add(R::Wide::splat(OWN_ROUNDING), R::Wide::splat(left));
        let (p, q) = (norm_sqr_each(values[0]), norm_sqr_each(values[1]));
        let weaker = p.where_or(p.below(q), q);
        // Not above 0 where there are no two.
        let moved = weaker * apart * R::Wide::splat(misplaced);
        let (all, here) = next::<R::Wide>(self.at, self.end);
        let taken = residual.below_bits(most) & most.below_bits(moved) & all;
        self.few.keep(taken, f[0], values[0], roots[0]);
        self.few.keep(taken, f[1], values[1], roots[1]);
        self.left.add(all & !taken, self.at);
        self.at += here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;
    use crate::stages::certify::threshold;

    /// What four shifts tell of the weaker of two in a bin may be that it is there, but not where: then it is left to
    /// others.
    #[test]
    fn a_pair_is_taken_where_both_are_placed() {
        let (n, size, b) = (1u64 << 22, 128, 77u64);
        let unity = Unity::new(n);
        let floor = comb_floor(0.0, 1.0, size);
        let left = [3, 2].map(|lanes| floor * threshold(lanes, 6.0));
        let limits = Limits { left, misplaced: misplaced(n, size, 5.0) };
        for (weaker, taken) in [(1.0, true), (1e-6, true), (1e-11, false)] {
            let both = [(b + 128 * 100, 1.0), (b + 128 * 20_001, weaker)];
            let mut lines = vec![Line::ZERO; size];
            for tau in 0..4 {
                let tone = |&(f, a): &(u64, f64)| unity.power(f, tau) * a;
                lines[b as usize].set_lane(tau as usize, both.iter().map(tone).sum());
            }
            let bins = Bins { unity, lines: &lines, size, modulus: size, offsets: &[0] };
            let mut room = Room { active: vec![b as u32], ..Room::default() };
            room.decode_comb(bins, limits);
            if taken {
                let mut found: Vec<_> = room.few.iter().collect();
                found.sort_by_key(|c| c.f);
                assert_eq!(found.len(), 2, "{weaker}");
                for (c, (f, a)) in found.iter().zip(both) {
                    assert_eq!(c.f, f, "{weaker}");
                    assert!((c.a - Complex::from(a)).norm() < 1e-12, "{weaker}: {c:?}");
                }
                assert!(room.open.is_empty());
            } else {
                assert_eq!((room.few.len(), &room.open[..]), (0, &[b as u32][..]), "{weaker}");
            }
        }
    }
}
