//! A few coefficients side by side, as vectors want them: kept, taken out of a window, put in order.
//!
//! Lists of [`Coefficient`]s would be taken apart and put together at every step.

use crate::Complex;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::samples::Line;
use crate::spectrum::Peak;
use crate::stages::known::Sizes;
use crate::stages::locate::{C, multiply_add, norm_sqr_each, whole};
use crate::stages::peel::Coefficient;
use crate::stages::permute::Permutation;
use crate::stages::window::{Kaiser, REACH};
use std::marker::PhantomData;

/// Room for coefficients. Not a power of two: the same places of several lists would then share one set of the
/// first cache.
pub(crate) const ROOM: usize = 648;

/// Longest signal whose frequencies can be put in order here.
pub(crate) const MOST_LEN: u64 = 1 << 32;

/// Coefficients side by side.
#[derive(Debug)]
pub(crate) struct Few {
    count: usize,
    /// Frequencies.
    f: [f64; ROOM],
    re: [f64; ROOM],
    im: [f64; ROOM],
    /// e^{2πi f/n}.
    root_re: [f64; ROOM],
    root_im: [f64; ROOM],
    /// Frequencies to be sorted by.
    keys: [u32; ROOM],
    reached: Reached,
}

/// Where coefficients show in the buckets of a window: the first bucket, the gains there and in the next, and the
/// lanes that these multiply.
#[derive(Debug)]
struct Reached {
    first: [u64; ROOM],
    gains: [[f64; ROOM]; REACH],
    tones: [Line; ROOM],
}

impl Default for Few {
    fn default() -> Self {
        Few {
            count: 0,
            f: [0.0; ROOM],
            re: [0.0; ROOM],
            im: [0.0; ROOM],
            root_re: [0.0; ROOM],
            root_im: [0.0; ROOM],
            keys: [0; ROOM],
            reached: Reached {
                first: [0; ROOM],
                gains: [[0.0; ROOM]; REACH],
                tones: [Line::ZERO; ROOM],
            },
        }
    }
}

/// A window, and how frequencies are spread over its buckets, a power of two.
#[derive(Clone, Copy)]
pub(crate) struct Spread<'a> {
    pub(crate) permutation: &'a Permutation,
    pub(crate) kaiser: &'a Kaiser,
    pub(crate) buckets: usize,
}

impl Few {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Forgets all but the first.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Adds one, if there is room.
    pub(crate) fn push(&mut self, c: &Coefficient) {
        let i = self.count;
        if i < ROOM {
            self.f[i] = c.f as f64;
            (self.re[i], self.im[i]) = (c.a.re, c.a.im);
            (self.root_re[i], self.root_im[i]) = (c.z.re, c.z.im);
            self.count += 1;
        }
    }

    /// Number i.
    pub(crate) fn get(&self, i: usize) -> Coefficient {
        Coefficient {
            f: whole(self.f[i]),
            a: Complex::new(self.re[i], self.im[i]),
            z: Complex::new(self.root_re[i], self.root_im[i]),
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Coefficient> + '_ {
        (0..self.count).map(|i| self.get(i))
    }

    /// Room for eight from here on.
    #[inline(always)] // an address each
    fn room(&mut self) -> Option<[&mut [f64; 8]; 5]> {
        let at = self.count..;
        Some([
            self.f[at.clone()].first_chunk_mut()?,
            self.re[at.clone()].first_chunk_mut()?,
            self.im[at.clone()].first_chunk_mut()?,
            self.root_re[at.clone()].first_chunk_mut()?,
            self.root_im[at].first_chunk_mut()?,
        ])
    }

    /// Adds those whose bits are set, if there is room for eight.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn keep<V: Vector>(&mut self, bits: u8, f: V, value: C<V>, root: C<V>) {
        if let Some([to_f, re, im, root_re, root_im]) = self.room() {
            f.keep(bits, to_f);
            value.0.keep(bits, re);
            value.1.keep(bits, im);
            root.0.keep(bits, root_re);
            root.1.keep(bits, root_im);
            self.count += bits.count_ones() as usize;
        }
    }

    /// Takes all out of the buckets of a window: residual\[b\] -= a·e^{2πi fτ/n}·gain(b, f). They are followed by
    /// REACH - 1 lines for what goes around the end, which are added to the first ones. Returns how large the
    /// coefficients are.
    pub(crate) fn peel(&mut self, spread: Spread<'_>, lines: &mut [Line]) -> Sizes {
        assert!(spread.buckets.is_power_of_two() && lines.len() == spread.buckets + REACH - 1);
        // Nothing fills up the last vector.
        if let Some(rooms) = self.room() {
            rooms.into_iter().for_each(|room| *room = [0.0; 8]);
        }
        let sizes = reach_each(spread, self);
        subtract_each(&self.reached, self.count, lines);
        let (first, around) = lines.split_at_mut(spread.buckets);
        for (to, from) in first.iter_mut().zip(around) {
            for i in 0..4 {
                to.re[i] += from.re[i];
                to.im[i] += from.im[i];
            }
        }
        sizes
    }

    /// All by frequency, their values times `scale`; frequencies below [`MOST_LEN`], all different.
    pub(crate) fn peaks(&mut self, scale: f64) -> Vec<Peak> {
        let mut peaks = vec![Peak { index: 0, value: Complex::ZERO }; self.count];
        write_by_rank(self, scale, &mut peaks);
        peaks
    }
}

/// As many numbers as a vector has, from this place on.
#[inline(always)] // must inherit the instruction set of its caller
fn part<V: Vector>(of: &[f64; ROOM], at: usize) -> V {
    let mut eight = [0.0; 8];
    eight[..V::COUNT].copy_from_slice(&of[at..at + V::COUNT]);
    V::of(&eight)
}

/// The bits of the next numbers of a list that has so many, and how many these are.
#[inline(always)] // a few instructions
pub(crate) fn next<V: Vector>(at: usize, end: usize) -> (u8, usize) {
    let here = (end - at).min(V::COUNT);
    (((1u32 << here) - 1) as u8, here)
}

/// Places in a list.
pub(crate) struct Places<'a, R> {
    out: &'a mut [u32],
    count: usize,
    row: PhantomData<R>,
}

impl<'a, R: Row> Places<'a, R> {
    /// None, to be written here; with room for eight more than there will be.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn new(out: &'a mut [u32]) -> Self {
        Places { out, count: 0, row: PhantomData }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds those whose bits are set, each plus `first`.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn add(&mut self, bits: u8, first: usize) {
        if let Some(out) = self.out[self.count..].first_chunk_mut() {
            R::places(bits, first as u32, out);
            self.count += bits.count_ones() as usize;
        }
    }
}

dispatch_rows! {
    /// Lists the places of coefficients whose frequencies are congruent to one of these numbers, and returns how
    /// many these are. There is room for eight more.
    pub(crate) fn list_congruent(few: &Few, to: &[u32], modulus: usize, out: &mut [u32]) -> usize
        = list_congruent_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn list_congruent_body<const FMA: bool, R: Row>(
    few: &Few,
    to: &[u32],
    modulus: usize,
    out: &mut [u32],
) -> usize {
    let inverse = R::Wide::splat(1.0 / modulus as f64);
    // Others are away by 1/modulus of a turn at least.
    let near = R::Wide::splat(0.5 / modulus as f64);
    let mut places = Places::<R>::new(out);
    for at in (0..few.count).step_by(R::Wide::COUNT) {
        let f = part::<R::Wide>(&few.f, at);
        let mut there = 0;
        for &b in to {
            let turns = (f - R::Wide::splat(b.into())) * inverse;
            there |= (turns - turns.round()).abs().below_bits(near);
        }
        let (all, _) = next::<R::Wide>(at, few.count);
        places.add(there & all, at);
    }
    places.count
}

dispatch_rows! {
    /// Finds where all show, and how large they are.
    fn reach_each(spread: Spread<'_>, few: &mut Few) -> Sizes = reach_each_body
}

/// Products of two numbers up to this one are whole numbers that f64 can tell apart.
const EXACT: u64 = 1 << 26;

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn reach_each_body<const FMA: bool, R: Row>(spread: Spread<'_>, few: &mut Few) -> Sizes {
    /// Its unit in the last place is 1.
    const UNIT: f64 = (3u64 << 51) as f64;
    let Few { count, f, re, im, root_re, root_im, reached, .. } = few;
    let Spread { permutation, kaiser, buckets } = spread;
    let n = permutation.n;
    let (sigma, length) = (R::Wide::splat(permutation.sigma as f64), R::Wide::splat(n as f64));
    let inverse = R::Wide::splat(1.0 / n as f64);
    let per = R::Wide::splat(buckets as f64 / n as f64);
    let zero = R::Wide::splat(0.0);
    let none = (zero, zero);
    let (mut energy, mut sum, mut weakest) = (zero, zero, R::Wide::splat(f64::INFINITY));
    for at in (0..*count).step_by(R::Wide::COUNT) {
        let f = part::<R::Wide>(f, at);
        let p = if n <= EXACT {
            let product = f * sigma;
            // Rounding may take the next whole number of turns, which is as good: buckets are counted around.
            let turns = (product * inverse).floor();
            turns.negate_mul_add(length, product) * per
        } else {
            let mut positions = [0.0; 8];
            for (p, f) in positions.iter_mut().zip(f.each()) {
                *p = permutation.position(whole(f), buckets);
            }
            R::Wide::collect(positions)
        };
        let before = p.floor();
        let gains = kaiser.gains(p - before - R::Wide::splat(0.5));
        for (to, gains) in reached.gains.iter_mut().zip(gains) {
            to[at..at + R::Wide::COUNT].copy_from_slice(&gains.each()[..R::Wide::COUNT]);
        }
        // The place of the first bucket stands in the lowest bits.
        let first = (before + R::Wide::splat(UNIT - 1.0)).each();
        for (place, first) in reached.first[at..].iter_mut().zip(&first[..R::Wide::COUNT]) {
            *place = first.to_bits() & (buckets as u64 - 1);
        }
        let a = (part::<R::Wide>(re, at), part(im, at));
        let z = (part::<R::Wide>(root_re, at), part(root_im, at));
        let square = multiply_add(z, z, none);
        let (b, c) = (multiply_add(a, z, none), multiply_add(a, square, none));
        let tones = R::Wide::lines_of([a, b, c, multiply_add(b, square, none)]);
        for (to, tone) in reached.tones[at..].iter_mut().zip(&tones[..R::Wide::COUNT]) {
            R::load(tone).store(to);
        }
        let strength = norm_sqr_each(a);
        energy = energy + strength;
        sum = sum + strength.sqrt();
        // What fills up is not meant.
        let strength = strength.where_or(zero.below(strength), R::Wide::splat(f64::INFINITY));
        weakest = strength.where_or(strength.below(weakest), weakest);
    }
    let least = weakest.each()[..R::Wide::COUNT].iter().copied().fold(f64::INFINITY, f64::min);
    Sizes { energy: energy.each().iter().sum(), sum: sum.each().iter().sum(), weakest: least }
}

dispatch_rows! {
    /// Subtracts the first coefficients from the buckets.
    fn subtract_each(reached: &Reached, count: usize, lines: &mut [Line]) = subtract_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn subtract_each_body<const FMA: bool, R: Row>(
    reached: &Reached,
    count: usize,
    lines: &mut [Line],
) {
    for i in 0..count.min(ROOM) {
        let tone = R::load(&reached.tones[i]);
        let some = lines.get_mut(reached.first[i] as usize..);
        if let Some(some) = some.and_then(<[Line]>::first_chunk_mut::<REACH>) {
            for (from, gains) in some.iter_mut().zip(&reached.gains) {
                R::load(from).minus(gains[i], tone).store(from);
            }
        }
    }
}

dispatch_rows! {
    /// Writes all by frequency, their values times `scale`. To compare all with all takes less time than to find
    /// out where each belongs, as long as they are few.
    fn write_by_rank(few: &mut Few, scale: f64, out: &mut [Peak]) = write_by_rank_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn write_by_rank_body<const FMA: bool, R: Row>(few: &mut Few, scale: f64, out: &mut [Peak]) {
    /// Frequencies that are ranked at a time.
    const SOME: usize = 16;
    let Few { count, f, re, im, keys, .. } = few;
    for (key, f) in keys.iter_mut().zip(&f[..count.next_multiple_of(SOME).min(ROOM)]) {
        *key = whole(*f) as u32;
    }
    for first in (0..*count).step_by(SOME) {
        let mut some = [0; SOME];
        let here = SOME.min(*count - first);
        some[..here].copy_from_slice(&keys[first..first + here]);
        let ranks = R::ranks(&keys[..*count], &some);
        for (i, rank) in (first..first + here).zip(ranks) {
            let value = Complex::new(re[i] * scale, im[i] * scale);
            out[rank as usize] = Peak { index: whole(f[i]), value };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;
    use crate::stages::unity::Unity;

    fn some(n: u64, count: usize) -> (Few, Vec<Coefficient>) {
        let (mut rng, unity) = (Rng::new(6, 1), Unity::new(n));
        let mut few = Few::default();
        for _ in 0..count {
            let f = rng.below(n);
            let a = Complex::new(rng.below(9) as f64 - 4.5, rng.below(100) as f64);
            few.push(&Coefficient { f, a, z: unity.root(f) });
        }
        let list = few.iter().collect();
        (few, list)
    }

    #[test]
    fn peeling_is_that_of_a_list() {
        for (n, buckets) in [(1u64 << 20, 16usize), (1 << 26, 64), (1 << 40, 32), (1_000_003, 16)] {
            for count in [0, 1, 8, 51] {
                let (mut few, list) = some(n, count);
                let permutation = Permutation::random(n, 3, 500);
                let kaiser = Kaiser::new(24.0, buckets);
                let mut lines = vec![Line::ZERO; buckets + REACH - 1];
                let spread = Spread { permutation: &permutation, kaiser: &kaiser, buckets };
                let sizes = few.peel(spread, &mut lines);
                let mut expected = vec![[Complex::ZERO; 4]; buckets];
                for c in &list {
                    let p = permutation.position(c.f, buckets);
                    let before = p.floor();
                    let gains = kaiser.gains_of_one::<false>(p - before - 0.5).0;
                    for (i, gain) in (0i64..).zip(gains) {
                        let b = (before as i64 - 1 + i).rem_euclid(buckets as i64) as usize;
                        for (tau, lane) in expected[b].iter_mut().enumerate() {
                            *lane -= c.a * c.z.powu(tau as u32) * gain;
                        }
                    }
                }
                let scale = 1.0 + sizes.sum;
                for (line, lanes) in lines.iter().zip(&expected) {
                    for (tau, lane) in lanes.iter().enumerate() {
                        assert!((line.lane(tau) - lane).norm() < 1e-12 * scale, "n {n}");
                    }
                }
                let weakest = list.iter().map(|c| c.a.norm_sqr()).fold(f64::INFINITY, f64::min);
                let energy: f64 = list.iter().map(|c| c.a.norm_sqr()).sum();
                assert_eq!(sizes.weakest, weakest);
                assert!((sizes.energy - energy).abs() <= 1e-12 * energy);
            }
        }
    }

    #[test]
    fn peaks_come_by_frequency() {
        for count in [0, 1, 15, 16, 17, 50, ROOM - 1, ROOM] {
            let (mut few, mut list) = some(1 << 31, count);
            list.sort_by_key(|c| c.f);
            let peaks = few.peaks(2.0);
            assert!(peaks.iter().map(|p| p.index).eq(list.iter().map(|c| c.f)));
            assert!(peaks.iter().map(|p| p.value).eq(list.iter().map(|c| c.a * 2.0)));
        }
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let (mut few, _) = some(1 << 20, ROOM + 3);
        assert_eq!(few.len(), ROOM);
        few.truncate(ROOM + 1);
        assert_eq!(few.len(), ROOM);
        few.truncate(7);
        assert_eq!(few.len(), 7);
    }

    #[test]
    fn congruent_frequencies_are_listed() {
        for (n, modulus) in [(1u64 << 32, 16usize), (1_000_000, 20), (64, 64)] {
            let (few, list) = some(n, 53);
            let to = [3, 7 % modulus as u32, modulus as u32 + 3];
            let mut out = [0; 64];
            let count = list_congruent(&few, &to, modulus, &mut out);
            let expected = (0u32..).zip(&list).filter(|(_, c)| {
                to.iter().any(|&b| c.f % modulus as u64 == u64::from(b) % modulus as u64)
            });
            assert!(expected.map(|(i, _)| i).eq(out[..count].iter().copied()));
        }
    }
}
