//! The order of coefficients by their frequency.
//!
//! A key holds a frequency, and below it the place of its coefficient. Keys are a fifth of a coefficient, so
//! that they are sorted rather than these, and they can be sorted by a helper while values still change.

use crate::cpu::threads;
use crate::dense::Shared;
use crate::spectrum::Peak;
use crate::stages::peel::Coefficient;
use std::mem::MaybeUninit;

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
        self.low = u64::BITS - bits(n).max(1);
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
        let low = self.low;
        sort_by_number(&mut self.keys, &mut self.spare, u64::BITS - low, |key| key >> low);
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

/// Bits of the numbers below n.
pub(crate) fn bits(n: u64) -> u32 {
    u64::BITS - n.saturating_sub(1).leading_zeros()
}

/// Bits of the highest digits by which few items are sorted, and some; others are sorted by all their digits.
const FEW: u32 = 6;
const SOME: u32 = 11;
const MANY: u32 = 12;
/// Numbers of items from which on they are not very few, some, and many.
const FROM_FEW: usize = 16;
const FROM_SOME: usize = 512;
const FROM_MANY: usize = 8192;

/// Sorts items by numbers of so many bits, by their digits: comparing them would take several times as long.
/// `spare` may change places with them.
pub(crate) fn sort_by_number<T: Copy>(
    items: &mut Vec<T>,
    spare: &mut Vec<T>,
    bits: u32,
    number: impl Fn(&T) -> u64,
) {
    if items.len() < FROM_MANY {
        let alike = write_by_highest_digit(items, spare, bits, &number, |item| *item);
        std::mem::swap(items, spare);
        return end_sorting(items, alike, number);
    }
    for from in (0..bits).step_by(MANY as usize) {
        let digit = |item: &T| (number(item) >> from) as usize;
        write_by_digit::<{ 1 << MANY }, _, _>(items, spare, digit, |item| *item);
        std::mem::swap(items, spare);
    }
}

/// The peaks of coefficients below n, by frequency, their values times `scale`.
pub(crate) fn peaks_by_frequency(list: &[Coefficient], n: u64, scale: f64) -> Vec<Peak> {
    let peak = |c: &Coefficient| Peak { index: c.f, value: c.a * scale };
    let mut peaks = Vec::new();
    if list.len() < FROM_MANY {
        let alike = write_by_highest_digit(list, &mut peaks, bits(n), |c| c.f, peak);
        end_sorting(&mut peaks, alike, |p| p.index);
    } else {
        peaks.extend(list.iter().map(peak));
        sort_by_number(&mut peaks, &mut Vec::new(), bits(n), |p| p.index);
    }
    peaks
}

/// Writes what is made of items that are not many, ordered by the highest digit of their numbers. Returns
/// how many share one at most.
fn write_by_highest_digit<T, U: Copy>(
    items: &[T],
    out: &mut Vec<U>,
    bits: u32,
    number: impl Fn(&T) -> u64,
    make: impl Fn(&T) -> U,
) -> u32 {
    let digit = |size: u32| {
        let from = bits.saturating_sub(size);
        let number = &number;
        move |item: &T| (number(item) >> from) as usize
    };
    match items.len() {
        few @ ..FROM_FEW => {
            out.clear();
            out.extend(items.iter().map(make));
            few as u32
        }
        ..FROM_SOME => write_by_digit::<{ 1 << FEW }, _, _>(items, out, digit(FEW), make),
        _ => write_by_digit::<{ 1 << SOME }, _, _>(items, out, digit(SOME), make),
    }
}

/// Sorts items that are in order but for those, so many at most, that share a digit.
fn end_sorting<T: Copy>(items: &mut [T], alike: u32, number: impl Fn(&T) -> u64) {
    /// Most that may share one for each to find its place among them by itself.
    const NEAR: u32 = 24;
    if alike > NEAR {
        return items.sort_unstable_by_key(number);
    }
    for i in 1..items.len() {
        let (item, mut at) = (items[i], i);
        while at > 0 && number(&items[at - 1]) > number(&item) {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
    }
}

/// Writes what is made of items, ordered by a digit, a number below SIZE; those that share one in the order in
/// which they stand. Returns how many these are at most.
fn write_by_digit<const SIZE: usize, T, U: Copy>(
    items: &[T],
    out: &mut Vec<U>,
    digit: impl Fn(&T) -> usize,
    make: impl Fn(&T) -> U,
) -> u32 {
    let mut places = [0u32; SIZE];
    for item in items {
        places[digit(item) % SIZE] += 1;
    }
    let (mut before, mut most) = (0, 0);
    for place in &mut places {
        most = most.max(*place);
        before += std::mem::replace(place, before);
    }
    out.clear();
    out.reserve(items.len());
    let room = &mut out.spare_capacity_mut()[..items.len()];
    for item in items {
        let place = &mut places[digit(item) % SIZE];
        room[*place as usize].write(make(item));
        *place += 1;
    }
    // SAFETY: every item has a place of its own, so all of them were written.
    unsafe { out.set_len(items.len()) };
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;

    #[test]
    fn any_number_of_items_is_sorted_by_their_numbers() {
        for bits in [1, 10, 27, 46, 64] {
            // Spread over everything, and in one corner.
            for most in [bits, bits.min(9)] {
                for count in [0, 1, 2, 15, 16, 300, 511, 512, 3000, 8191, 8192, 9000] {
                    let number =
                        |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - most);
                    let mut items: Vec<(u64, u64)> = (0..count).map(|i| (number(i), i)).collect();
                    let mut expected = items.clone();
                    expected.sort_unstable();
                    sort_by_number(&mut items, &mut Vec::new(), bits, |item| item.0);
                    // Those with the same number in any order.
                    assert!(items.is_sorted_by_key(|item| item.0));
                    items.sort_unstable();
                    assert_eq!(items, expected);
                }
            }
        }
    }

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
