//! The order of coefficients by their frequency.
//!
//! A key holds a frequency, and below it the place of its coefficient. Keys are a fifth of a coefficient, so
//! that they are sorted rather than these, and they can be sorted by a helper while values still change.

use crate::cpu::threads;
use crate::dense::Shared;
use crate::spectrum::Peak;
use crate::stages::peel::Coefficient;
use std::mem::MaybeUninit;

/// Bits of the digits that are sorted by.
const DIGIT: u32 = 12;

/// Keys of the first coefficients of a list.
#[derive(Debug, Default)]
pub(crate) struct Order {
    keys: Vec<u64>,
    spare: Vec<u64>,
    /// Keys that are sorted.
    sorted: usize,
    /// Bits of a place.
    low: u32,
}

impl Order {
    /// Begins anew, for frequencies below n.
    pub(crate) fn clear(&mut self, n: u64) {
        self.keys.clear();
        self.sorted = 0;
        self.low = n.saturating_sub(1).leading_zeros().min(u64::BITS - 1);
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether a key has room for places below this one.
    pub(crate) fn suits(&self, places: usize) -> bool {
        (places as u64) <= 1 << self.low
    }

    /// Adds the keys of the next coefficients.
    pub(crate) fn extend(&mut self, list: &[Coefficient]) {
        let (low, places) = (self.low, self.keys.len() as u64..);
        self.keys.extend(list.iter().zip(places).map(|(c, place)| c.f << low | place));
    }

    /// Sorts the keys.
    pub(crate) fn sort(&mut self) {
        if self.keys.len() < 1 << 10 {
            self.keys.sort_unstable();
        } else {
            for shift in (self.low..u64::BITS).step_by(DIGIT as usize) {
                let digit = |key: &u64| (key >> shift) as usize;
                sort_by_digit::<{ 1 << DIGIT }, _>(&mut self.keys, &mut self.spare, digit);
            }
        }
        self.sorted = self.keys.len();
    }

    /// All coefficients of a list, of which this is the order of the first, by frequency; their values times
    /// `scale`.
    pub(crate) fn peaks(&mut self, list: &[Coefficient], scale: f64) -> Vec<Peak> {
        debug_assert!(self.suits(list.len()));
        if self.len() == 0 {
            self.extend(list);
        }
        if self.sorted < self.keys.len() {
            self.sort();
        }
        let before = self.keys.len();
        self.extend(&list[before..]);
        let (keys, others) = self.keys.split_at_mut(before);
        others.sort_unstable();
        let merge = Merge { keys, others, list, low: self.low, scale };
        let mut peaks = Vec::with_capacity(list.len());
        let piece = threads::piece(keys.len(), 2 * keys.len() as u64);
        let count = before.div_ceil(piece).max(1);
        let room = Shared(peaks.spare_capacity_mut().as_mut_ptr());
        let part = |i: usize| {
            let ([a, b], [c, d]) = (merge.bounds(i * piece), merge.bounds((i + 1) * piece));
            // SAFETY: every part has peaks of its own, for all of which there is room.
            let out = unsafe { std::slice::from_raw_parts_mut(room.at(a + b), c - a + d - b) };
            merge.write([a, b], [c, d], out);
        };
        if count > 1 {
            threads::for_each(count, part)
        } else {
            part(0)
        }
        // SAFETY: the parts have written all of them.
        unsafe { peaks.set_len(list.len()) };
        self.keys.truncate(before);
        peaks
    }
}

/// Two sorted lists of keys to be merged.
struct Merge<'a> {
    keys: &'a [u64],
    others: &'a [u64],
    list: &'a [Coefficient],
    low: u32,
    scale: f64,
}

impl Merge<'_> {
    /// How many of both come before this one of the keys.
    fn bounds(&self, i: usize) -> [usize; 2] {
        match self.keys.get(i) {
            _ if i == 0 => [0, 0],
            Some(&key) => [i, self.others.partition_point(|&other| other < key)],
            None => [self.keys.len(), self.others.len()],
        }
    }

    /// Writes the peaks between these bounds.
    fn write(&self, [mut i, mut j]: [usize; 2], to: [usize; 2], out: &mut [MaybeUninit<Peak>]) {
        for out in out {
            let other = i == to[0] || j < to[1] && self.others[j] < self.keys[i];
            let key = if other { self.others[j] } else { self.keys[i] };
            (i, j) = (i + usize::from(!other), j + usize::from(other));
            let c = &self.list[(key & !(!0 << self.low)) as usize];
            out.write(Peak { index: c.f, value: c.a * self.scale });
        }
    }
}

/// Sorts items by one digit, a number below SIZE, those that share it in the order in which they stand;
/// `sorted` changes places with them. Returns how many share one at most.
pub(crate) fn sort_by_digit<const SIZE: usize, T: Copy>(
    items: &mut Vec<T>,
    sorted: &mut Vec<T>,
    digit: impl Fn(&T) -> usize,
) -> u32 {
    let Some(&any) = items.first() else { return 0 };
    let mut places = [0u32; SIZE];
    for item in &*items {
        places[digit(item) % SIZE] += 1;
    }
    let (mut before, mut most) = (0, 0);
    for place in &mut places {
        most = most.max(*place);
        before += std::mem::replace(place, before);
    }
    // What stands there is overwritten; only new places need a value.
    sorted.truncate(items.len());
    sorted.resize(items.len(), any);
    for item in &*items {
        let place = &mut places[digit(item) % SIZE];
        sorted[*place as usize] = *item;
        *place += 1;
    }
    std::mem::swap(items, sorted);
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;

    #[test]
    fn peaks_come_by_frequency_with_their_values() {
        for (n, count, known) in [
            (1 << 20, 0, 0),
            (1 << 20, 5, 5),
            (7919, 3000, 2990),
            (1 << 40, 20_000, 19_000),
            (64, 9, 0),
        ] {
            let value = |f: u64| Complex::new(f as f64, 1.0);
            // Odd multiples go through all frequencies of a power of two; 7919 is prime.
            let f = |i: u64| ((i + 1) as u128 * 0x9e37_79b9_7f4a_7c15 % n as u128) as u64;
            let list: Vec<Coefficient> = (0..count)
                .map(|i| Coefficient { f: f(i), a: value(f(i)), z: Complex::ONE })
                .collect();
            let mut order = Order::default();
            order.clear(n);
            assert!(order.suits(list.len()));
            order.extend(&list[..known / 2]);
            order.extend(&list[known / 2..known]);
            let mut expected: Vec<u64> = list.iter().map(|c| c.f).collect();
            expected.sort_unstable();
            for sort in [false, true] {
                if sort {
                    order.sort();
                }
                let peaks = order.peaks(&list, 2.0);
                assert!(peaks.iter().map(|p| p.index).eq(expected.iter().copied()));
                assert!(peaks.iter().all(|p| p.value == value(p.index) * 2.0));
            }
        }
    }

    #[test]
    fn long_signals_leave_little_room_for_places() {
        let mut order = Order::default();
        order.clear(1 << 52);
        assert!(order.suits(1 << 12) && !order.suits((1 << 12) + 1));
        order.clear(1);
        assert!(order.suits(1));
    }
}
