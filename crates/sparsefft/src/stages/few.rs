//! Coefficients side by side, as vectors want them: kept, taken out of a window, put in order.
//!
//! Lists of [`Coefficient`]s would be taken apart and put together at every step.

use crate::Complex;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::judge::Eight;
use crate::samples::Line;
use crate::spectrum::Peak;
use crate::stages::known::Sizes;
use crate::stages::locate::{C, multiply_add, norm_sqr_each, whole};
use crate::stages::order::peaks_by_frequency;
use crate::stages::peel::Coefficient;
use crate::stages::permute::Permutation;
use crate::stages::window::{Kaiser, REACH};
use std::marker::PhantomData;

/// Parts of a coefficient: the frequency, its amplitude, and e^{2πi f/n}.
const PARTS: usize = 5;

/// Coefficients side by side.
#[derive(Debug, Default)]
pub(crate) struct Few {
    count: usize,
    /// Places that there are for each part.
    room: usize,
    /// The parts, one list after the other.
    parts: Vec<f64>,
    reached: Reached,
    /// Frequencies to be sorted by.
    keys: Vec<u32>,
    /// For every hash value the first place of a frequency that has it, or the next free one after it.
    table: Vec<u32>,
    /// How many are in the table.
    listed: usize,
}

/// Where coefficients show in the buckets of a window: the first bucket, the gains there and in the next, and the
/// lanes that these multiply.
#[derive(Debug, Default)]
struct Reached {
    first: Vec<u64>,
    /// One list for each bucket that is reached.
    gains: Vec<f64>,
    tones: Vec<Line>,
}

/// A window, and how frequencies are spread over its buckets, a power of two.
#[derive(Clone, Copy)]
pub(crate) struct Spread<'a> {
    pub(crate) permutation: &'a Permutation,
    pub(crate) kaiser: &'a Kaiser,
    pub(crate) buckets: usize,
}

impl Spread<'_> {
    /// Where these frequencies lie among the buckets, which are counted around: 0 is the number of buckets, too.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn positions<V: Vector>(&self, f: V) -> V {
        /// Products of two numbers up to this one are whole numbers that f64 can tell apart.
        const EXACT: u64 = 1 << 26;
        let Spread { permutation, buckets, .. } = *self;
        let n = permutation.n;
        if n <= EXACT {
            let product = f * V::splat(permutation.sigma as f64);
            // Rounding may take the next whole number of turns, which is as good.
            let turns = (product * V::splat(1.0 / n as f64)).floor();
            let moved = turns.negate_mul_add(V::splat(n as f64), product);
            return moved * V::splat(buckets as f64 / n as f64);
        }
        let mut positions = [0.0; 8];
        for (p, f) in positions.iter_mut().zip(f.each()) {
            *p = permutation.position(whole(f), buckets);
        }
        V::collect(positions)
    }
}

impl Few {
    /// Forgets all, and makes room for so many.
    pub(crate) fn clear(&mut self, most: usize) {
        self.count = 0;
        self.listed = 0;
        if self.room >= most + 8 {
            return;
        }
        // A vector more; and not a power of two of cache lines, since the same places of several lists would then
        // share one set of the first cache.
        self.room = 8 * ((most / 8 + 2) | 1);
        self.parts.resize(PARTS * self.room, 0.0);
        self.reached.first.resize(self.room, 0);
        self.reached.gains.resize(REACH * self.room, 0.0);
        self.reached.tones.resize(self.room, Line::ZERO);
        self.keys.resize(self.room, 0);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// One list for each part.
    #[inline(always)] // addresses
    fn lists(&self) -> [&[f64]; PARTS] {
        lists(&self.parts, self.room)
    }

    /// Number i of these parts, if there is room.
    fn set(&mut self, i: usize, values: [f64; PARTS]) -> bool {
        if i >= self.room {
            return false;
        }
        for (list, value) in (0..).step_by(self.room).zip(values) {
            self.parts[list + i] = value;
        }
        true
    }

    /// Adds one, if there is room for eight: vectors are read from any entry on.
    pub(crate) fn push(&mut self, c: &Coefficient) {
        let values = [c.f as f64, c.a.re, c.a.im, c.z.re, c.z.im];
        if self.count + 8 <= self.room && self.set(self.count, values) {
            self.count += 1;
        }
    }

    /// Number i.
    pub(crate) fn get(&self, i: usize) -> Coefficient {
        let [f, re, im, root_re, root_im] = self.lists().map(|list| list[i]);
        Coefficient { f: whole(f), a: Complex::new(re, im), z: Complex::new(root_re, root_im) }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Coefficient> + '_ {
        (0..self.count).map(|i| self.get(i))
    }

    /// All of them by eights; places that are left over have no amplitude.
    pub(crate) fn eights(&self, out: &mut Vec<Eight>) {
        out.clear();
        let lists = self.lists();
        for at in (0..self.count).step_by(8) {
            let mut eight: Eight = lists.map(|list| {
                let mut part = [0.0; 8];
                part.copy_from_slice(&list[at..at + 8]);
                part
            });
            for i in self.count - at..8 {
                eight.iter_mut().for_each(|part| part[i] = 0.0);
            }
            out.push(eight);
        }
    }

    /// Room for eight from here on.
    #[inline(always)] // an address each
    fn next_eight(&mut self) -> Option<[&mut [f64; 8]; PARTS]> {
        let (count, room) = (self.count, self.room);
        if count + 8 > room {
            return None;
        }
        let (a, rest) = self.parts.get_mut(count..)?.split_at_mut(room);
        let (b, rest) = rest.split_at_mut(room);
        let (c, rest) = rest.split_at_mut(room);
        let (d, e) = rest.split_at_mut(room);
        Some([
            a.first_chunk_mut()?,
            b.first_chunk_mut()?,
            c.first_chunk_mut()?,
            d.first_chunk_mut()?,
            e.first_chunk_mut()?,
        ])
    }

    /// Adds those whose bits are set, if there is room for eight.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn keep<V: Vector>(&mut self, bits: u8, f: V, value: C<V>, root: C<V>) {
        if let Some([to_f, re, im, root_re, root_im]) = self.next_eight() {
            f.keep(bits, to_f);
            value.0.keep(bits, re);
            value.1.keep(bits, im);
            root.0.keep(bits, root_re);
            root.1.keep(bits, root_im);
            self.count += bits.count_ones() as usize;
        }
    }

    /// Takes those from one on out of the buckets of a window: residual\[b\] -= a·e^{2πi fτ/n}·gain(b, f). The buckets
    /// are followed by REACH - 1 lines for what goes around the end, which are zero, and zero again after it. Returns
    /// how large these coefficients are.
    pub(crate) fn peel(&mut self, from: usize, spread: Spread<'_>, lines: &mut [Line]) -> Sizes {
        assert!(spread.buckets.is_power_of_two() && lines.len() == spread.buckets + REACH - 1);
        // Nothing fills up the last vector.
        if let Some(lists) = self.next_eight() {
            lists.into_iter().for_each(|list| *list = [0.0; 8]);
        }
        let sizes = reach_each(spread, self, from);
        subtract_each(&self.reached, from, self.count, lines);
        let (first, around) = lines.split_at_mut(spread.buckets);
        for (to, from) in first.iter_mut().zip(around) {
            for i in 0..4 {
                to.re[i] += from.re[i];
                to.im[i] += from.im[i];
            }
            *from = Line::ZERO;
        }
        sizes
    }

    /// Those from one on whose frequencies are among the ones before: these get their amplitudes added, and they are
    /// no more.
    pub(crate) fn merge(&mut self, from: usize) {
        let all = std::mem::replace(&mut self.count, from);
        for i in from..all {
            let c = self.get(i);
            if let Some(j) = self.find(c.f) {
                self.parts[self.room + j] += c.a.re;
                self.parts[2 * self.room + j] += c.a.im;
            } else {
                self.push(&c);
            }
        }
    }

    /// The place of a frequency.
    fn find(&mut self, f: u64) -> Option<usize> {
        /// So many are looked through one after the other.
        const FEW: usize = 64;
        /// Nothing.
        const NONE: u32 = u32::MAX;
        let is_there = |i: &usize| whole(self.parts[*i]) == f;
        if self.count <= FEW {
            return (0..self.count).find(is_there);
        }
        let size = (2 * self.room).next_power_of_two();
        // Fibonacci hashing.
        let slot = |f: u64| (f.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - size.ilog2())) as usize;
        if self.listed == 0 || self.table.len() != size {
            self.table.clear();
            self.table.resize(size, NONE);
            self.listed = 0;
        }
        while self.listed < self.count {
            let mut at = slot(whole(self.parts[self.listed]));
            while self.table[at] != NONE {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = self.listed as u32;
            self.listed += 1;
        }
        let mut at = slot(f);
        while self.table[at] != NONE {
            let i = self.table[at] as usize;
            if whole(self.parts[i]) == f {
                return Some(i);
            }
            at = (at + 1) & (size - 1);
        }
        None
    }

    /// Averages conjugate pairs, which real samples make equal up to rounding.
    pub(crate) fn symmetrise(&mut self, n: u64) {
        for i in 0..self.count {
            let c = self.get(i);
            let mirror = (n - c.f) % n;
            let own = |a: Complex<f64>| [c.f as f64, a.re, a.im, c.z.re, c.z.im];
            if mirror == c.f {
                self.set(i, own(Complex::new(c.a.re, 0.0)));
            } else if c.f < mirror
                && let Some(j) = self.find(mirror)
            {
                let other = self.get(j);
                let mean = 0.5 * (c.a + other.a.conj());
                self.set(i, own(mean));
                self.set(j, [other.f as f64, mean.re, -mean.im, other.z.re, other.z.im]);
            }
        }
    }

    /// All by frequency, their values times n; frequencies below n, all different.
    pub(crate) fn peaks(&mut self, n: u64) -> Vec<Peak> {
        /// To compare all with all takes longer than to find out where each belongs from here on.
        const MANY: usize = 256;
        if self.count >= MANY || n > 1 << 32 {
            let list: Vec<Coefficient> = self.iter().collect();
            return peaks_by_frequency(&list, n, n as f64);
        }
        let mut peaks = vec![Peak { index: 0, value: Complex::ZERO }; self.count];
        write_by_rank(self, n as f64, &mut peaks);
        peaks
    }
}

/// Lists of this length, one after the other.
#[inline(always)] // addresses
fn lists<const COUNT: usize>(all: &[f64], len: usize) -> [&[f64]; COUNT] {
    let (mut lists, mut rest) = ([&[][..]; COUNT], all);
    for list in &mut lists {
        (*list, rest) = rest.split_at(len);
    }
    lists
}

/// As many numbers as a vector has, from this place on.
#[inline(always)] // must inherit the instruction set of its caller
fn part<V: Vector>(of: &[f64], at: usize) -> V {
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
    let [frequencies, ..] = few.lists();
    for at in (0..few.count).step_by(R::Wide::COUNT) {
        let f = part::<R::Wide>(frequencies, at);
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
    /// Lists the places of coefficients that reach one of these buckets or its neighbours, and returns how many these
    /// are. There is room for eight more.
    pub(crate) fn list_near(few: &Few, spread: Spread<'_>, of: &[u32], out: &mut [u32]) -> usize
        = list_near_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn list_near_body<const FMA: bool, R: Row>(
    few: &Few,
    spread: Spread<'_>,
    of: &[u32],
    out: &mut [u32],
) -> usize {
    /// Buckets within which a frequency reaches a bucket or its neighbours.
    const NEAR: f64 = 3.0;
    let size = R::Wide::splat(spread.buckets as f64);
    let inverse = R::Wide::splat(1.0 / spread.buckets as f64);
    let mut places = Places::<R>::new(out);
    let [frequencies, ..] = few.lists();
    for at in (0..few.count).step_by(R::Wide::COUNT) {
        let p = spread.positions(part::<R::Wide>(frequencies, at));
        let mut there = 0;
        for &b in of {
            let away = p - R::Wide::splat(b.into());
            let away = (away * inverse).round().negate_mul_add(size, away);
            there |= away.abs().below_bits(R::Wide::splat(NEAR));
        }
        let (all, _) = next::<R::Wide>(at, few.count);
        places.add(there & all, at);
    }
    places.count
}

dispatch_rows! {
    /// Finds where those from one on show, and how large they are.
    fn reach_each(spread: Spread<'_>, few: &mut Few, from: usize) -> Sizes = reach_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn reach_each_body<const FMA: bool, R: Row>(
    spread: Spread<'_>,
    few: &mut Few,
    from: usize,
) -> Sizes {
    /// Its unit in the last place is 1.
    const UNIT: f64 = (3u64 << 51) as f64;
    let Few { count, room, parts, reached, .. } = few;
    let Reached { first, gains, tones } = reached;
    let [f, re, im, root_re, root_im] = lists::<PARTS>(parts, *room);
    let Spread { kaiser, buckets, .. } = spread;
    let zero = R::Wide::splat(0.0);
    let none = (zero, zero);
    let (mut energy, mut sum, mut weakest) = (zero, zero, R::Wide::splat(f64::INFINITY));
    for at in (from..*count).step_by(R::Wide::COUNT) {
        let f = part::<R::Wide>(f, at);
        let p = spread.positions(f);
        let before = p.floor();
        let of = kaiser.gains(p - before - R::Wide::splat(0.5));
        for (list, of) in (0..).step_by(*room).zip(of) {
            let to = &mut gains[list + at..list + at + R::Wide::COUNT];
            to.copy_from_slice(&of.each()[..R::Wide::COUNT]);
        }
        // The place of the first bucket stands in the lowest bits.
        let places = (before + R::Wide::splat(UNIT - 1.0)).each();
        for (first, place) in first[at..].iter_mut().zip(&places[..R::Wide::COUNT]) {
            *first = place.to_bits() & (buckets as u64 - 1);
        }
        let a = (part::<R::Wide>(re, at), part(im, at));
        let z = (part::<R::Wide>(root_re, at), part(root_im, at));
        let square = multiply_add(z, z, none);
        let (b, c) = (multiply_add(a, z, none), multiply_add(a, square, none));
        let lines = R::Wide::lines_of([a, b, c, multiply_add(b, square, none)]);
        for (to, tone) in tones[at..].iter_mut().zip(&lines[..R::Wide::COUNT]) {
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
    /// Subtracts some coefficients from the buckets.
    fn subtract_each(reached: &Reached, from: usize, to: usize, lines: &mut [Line])
        = subtract_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn subtract_each_body<const FMA: bool, R: Row>(
    reached: &Reached,
    from: usize,
    to: usize,
    lines: &mut [Line],
) {
    let Reached { first, gains, tones } = reached;
    let lists = lists::<REACH>(gains, tones.len());
    for i in from..to {
        let tone = R::load(&tones[i]);
        let some = lines.get_mut(first[i] as usize..);
        if let Some(some) = some.and_then(<[Line]>::first_chunk_mut::<REACH>) {
            for (from, gains) in some.iter_mut().zip(&lists) {
                R::load(from).minus(gains[i], tone).store(from);
            }
        }
    }
}

dispatch_rows! {
    /// Writes all by frequency, their values times `scale`; frequencies below 2^32.
    fn write_by_rank(few: &mut Few, scale: f64, out: &mut [Peak]) = write_by_rank_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn write_by_rank_body<const FMA: bool, R: Row>(few: &mut Few, scale: f64, out: &mut [Peak]) {
    /// Frequencies that are ranked at a time.
    const SOME: usize = 16;
    let mut keys = std::mem::take(&mut few.keys);
    let count = few.count;
    let [f, re, im, ..] = few.lists();
    for (key, f) in keys.iter_mut().zip(&f[..count]) {
        *key = whole(*f) as u32;
    }
    for first in (0..count).step_by(SOME) {
        let mut some = [0; SOME];
        let here = SOME.min(count - first);
        some[..here].copy_from_slice(&keys[first..first + here]);
        let ranks = R::ranks(&keys[..count], &some);
        for (i, rank) in (first..first + here).zip(ranks) {
            let value = Complex::new(re[i] * scale, im[i] * scale);
            out[rank as usize] = Peak { index: whole(f[i]), value };
        }
    }
    few.keys = keys;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;
    use crate::stages::unity::Unity;

    fn some(n: u64, count: usize) -> (Few, Vec<Coefficient>) {
        let (mut rng, unity) = (Rng::new(6, 1), Unity::new(n));
        let mut few = Few::default();
        few.clear(count);
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
                let sizes = few.peel(0, spread, &mut lines);
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
        for (n, count) in [(1u64 << 31, 0), (1 << 20, 1), (1 << 31, 16), (1 << 31, 50)] {
            for (n, count) in [(n, count), (n << 20, count + 200), (n, count + 300)] {
                let (mut few, mut list) = some(n, count);
                list.sort_by_key(|c| c.f);
                let peaks = few.peaks(n);
                assert!(peaks.iter().map(|p| p.index).eq(list.iter().map(|c| c.f)));
                assert!(peaks.iter().map(|p| p.value).eq(list.iter().map(|c| c.a * n as f64)));
            }
        }
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let (mut few, list) = some(1 << 20, 40);
        for c in list.iter().cycle().take(100) {
            few.push(c);
        }
        assert!((40..=64).contains(&few.len()), "{}", few.len());
        few.clear(7);
        assert_eq!(few.len(), 0);
    }

    #[test]
    fn what_is_found_again_is_added() {
        for count in [10, 100, 1000] {
            let (mut few, list) = some(1 << 30, count);
            few.clear(2 * count);
            list.iter().for_each(|c| few.push(c));
            for (i, c) in list.iter().enumerate().step_by(3) {
                few.push(&Coefficient { a: Complex::new(i as f64, 1.0), ..*c });
                few.push(&Coefficient { f: (1 << 30) + i as u64, ..*c });
            }
            few.merge(count);
            assert_eq!(few.len(), count + count.div_ceil(3));
            for (i, (c, now)) in list.iter().zip(few.iter()).enumerate() {
                let more = Complex::new(i as f64, 1.0) * f64::from(i % 3 == 0);
                assert_eq!((now.f, now.a), (c.f, c.a + more));
            }
        }
    }

    #[test]
    fn conjugate_pairs_become_equal() {
        let (n, unity) = (1000, Unity::new(1000));
        let mut few = Few::default();
        few.clear(8);
        let of =
            |f: u64, re: f64, im: f64| Coefficient { f, a: Complex::new(re, im), z: unity.root(f) };
        for c in [of(990, 2.0, -3.0), of(10, 4.0, 5.0), of(0, 1.0, 0.5), of(500, 1.0, 2.0)] {
            few.push(&c);
        }
        few.push(&of(77, 1.0, 1.0));
        few.symmetrise(n);
        let values: Vec<_> = few.iter().map(|c| (c.f, c.a.re, c.a.im)).collect();
        let expected =
            [(990, 3.0, -4.0), (10, 3.0, 4.0), (0, 1.0, 0.0), (500, 1.0, 0.0), (77, 1.0, 1.0)];
        assert_eq!(values, expected);
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
