//! locate: up to three frequencies around a bucket of a window, side by side.
//!
//! A bucket holds V\[τ\] = Σ a_i g_i z_i^τ over the frequencies within two buckets of it, with z_i = e^{2πi f_i/n} and
//! known gains g_i; its neighbours hold the same frequencies with other gains. From the recurrence of the four
//! shifts, or of those of three buckets, come the z_i:
//!
//! - one that lies [near](NEAR) the bucket is placed: the nearest whole number must belong there, which a wrong one
//!   does once in some hundred times;
//! - one farther away may be far too weak here to be placed; it stays what it is, and only its part is left out;
//! - what is left of the bucket then tells whether this explains it.
//!
//! The value of a frequency that is placed is good to what others leave of its bucket, and can be improved later.

use crate::cpu::math::{atan2_each, cis_each};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::samples::Line;
use crate::stages::factors::Factors;
use crate::stages::few::{Few, Places, Spread, next};
use crate::stages::locate::{
    Alone, Bins, C, Sink, against, alone_of, conj, energy_each, filled, multiply_add,
    norm_sqr_each, project_each, recurrence, scale_each, side_by_side, snap_each, two_roots,
};
use crate::stages::prony::three_phases;
use crate::stages::unity::Unity;

/// Farthest from the middle of a bucket, in buckets, that a frequency is placed by it.
const NEAR: f64 = 0.8;

/// The buckets of a window less what is known, and what they may hold.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) unity: Unity,
    pub(crate) spread: Spread<'a>,
    pub(crate) lines: &'a [Line],
    /// Energy that one frequency may leave of a bucket, two, and three.
    pub(crate) left: [f64; 3],
    /// And the share of its energy that others may leave.
    pub(crate) share: f64,
}

impl Around<'_> {
    /// Which of these frequencies lie near these buckets, and the gains there.
    #[inline(always)] // must inherit the instruction set of its caller
    fn near<V: Vector>(&self, f: V, bucket: V) -> (V, V) {
        let size = self.spread.buckets as f64;
        let away = self.spread.positions(f) - bucket;
        let away = (away * V::splat(1.0 / size)).round().negate_mul_add(V::splat(size), away);
        (away.abs(), self.spread.kaiser.near(away))
    }

    /// What these phasors, whose phases are so many turns, are to these buckets.
    #[inline(always)] // must inherit the instruction set of its caller
    fn place<V: Vector, const M: usize>(
        &self,
        turns: [V; M],
        z: [C<V>; M],
        bucket: V,
    ) -> Placed<V, M> {
        let zero = V::splat(0.0);
        let mut placed = Placed { f: [zero; M], z, gains: [zero; M], near: [0; M] };
        for i in 0..M {
            let f = snap_each(turns[i], zero, self.unity, 1);
            let (away, gain) = self.near(f, bucket);
            let is_near = away.below(V::splat(NEAR));
            let whole = cis_each(f * V::splat(1.0 / self.unity.order() as f64));
            placed.z[i] = (whole.0.where_or(is_near, z[i].0), whole.1.where_or(is_near, z[i].1));
            placed.near[i] = away.below_bits(V::splat(NEAR));
            (placed.f[i], placed.gains[i]) = (f, gain);
        }
        placed
    }

    /// Takes those that lie near from the lanes u of buckets that these values explain, if they may be taken. Returns
    /// the bits of the buckets from which some were.
    #[inline(always)] // must inherit the instruction set of its caller
    fn take<V: Vector, const M: usize>(
        &self,
        u: &[C<V>; 4],
        placed: &Placed<V, M>,
        values: [C<V>; M],
        may: u8,
        few: &mut Few,
    ) -> u8 {
        let zero = V::splat(0.0);
        let (mut tones, mut residual) = (values, [zero; 2]);
        for (tau, u) in u.iter().enumerate() {
            let mut rest = *u;
            for tone in &mut tones {
                rest = (rest.0 - tone.0, rest.1 - tone.1);
            }
            residual[0] = rest.0.mul_add(rest.0, residual[0]);
            residual[1] = rest.1.mul_add(rest.1, residual[1]);
            if tau < 3 {
                for (tone, z) in tones.iter_mut().zip(placed.z) {
                    *tone = multiply_add(*tone, z, (zero, zero));
                }
            }
        }
        let most = energy_each(u).mul_add(V::splat(self.share), V::splat(self.left[M - 1]));
        let explained = (residual[0] + residual[1]).below_bits(most) & may;
        let mut some = 0;
        for (i, value) in values.into_iter().enumerate() {
            let taken = explained & placed.near[i];
            let value = scale_each(value, V::splat(1.0).div(placed.gains[i]));
            few.keep(taken, placed.f[i], value, placed.z[i]);
            some |= taken;
        }
        some
    }
}

/// Frequencies around buckets, side by side.
struct Placed<V, const M: usize> {
    f: [V; M],
    /// Their phasors: those of whole frequencies where these lie near, else as they were found.
    z: [C<V>; M],
    /// What the window leaves of them in their buckets.
    gains: [V; M],
    /// Bits of those that lie near.
    near: [u8; M],
}

/// Σ_τ conj(a)^τ b^τ over four shifts.
#[inline(always)] // must inherit the instruction set of its caller
fn overlap<V: Vector>(a: C<V>, b: C<V>) -> C<V> {
    let (w, one) = (against(b, a), (V::splat(1.0), V::splat(0.0)));
    let mut sum = one;
    for _ in 0..3 {
        sum = multiply_add(sum, w, one);
    }
    sum
}

dispatch_rows! {
    /// Takes what explains buckets as one frequency near each. Lists the places of the others, with room for eight
    /// more, and returns how many these are.
    pub(crate) fn take_one_each(
        around: Around<'_>,
        list: &[u32],
        few: &mut Few,
        left: &mut [u32],
    ) -> usize = take_one_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn take_one_each_body<const FMA: bool, R: Row>(
    around: Around<'_>,
    list: &[u32],
    few: &mut Few,
    left: &mut [u32],
) -> usize {
    let Around { unity, spread, lines, .. } = around;
    let bins = Bins { unity, lines, size: spread.buckets, modulus: 1, offsets: &[0] };
    let mut take = Take { around, list, few, left: Places::<R>::new(left), at: 0 };
    alone_of::<R::Wide, _>(bins, list, &mut take);
    take.left.count()
}

/// Takes frequencies of a list of buckets.
struct Take<'a, R> {
    around: Around<'a>,
    list: &'a [u32],
    few: &'a mut Few,
    left: Places<'a, R>,
    /// Buckets so far.
    at: usize,
}

impl<R: Row> Sink<Alone<R::Wide>> for Take<'_, R> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, alone: Alone<R::Wide>) {
        let Alone { f, value, root, residual } = alone;
        let (all, here) = next::<R::Wide>(self.at, self.list.len());
        let bucket = R::Wide::of_whole(filled::<R::Wide>(&self.list[self.at..self.at + here]));
        let (away, gain) = self.around.near(f, bucket);
        // What a frequency explains and what it leaves is all there is.
        let energy = norm_sqr_each(value).mul_add(R::Wide::splat(4.0), residual);
        let most =
            energy.mul_add(R::Wide::splat(self.around.share), R::Wide::splat(self.around.left[0]));
        let near = away.below_bits(R::Wide::splat(NEAR));
        let taken = residual.below_bits(most) & near & all;
        let value = scale_each(value, R::Wide::splat(1.0).div(gain));
        self.few.keep(taken, f, value, root);
        self.left.add(all & !taken, self.at);
        self.at += here;
    }
}

dispatch_rows! {
    /// [`take_one_each`] for two frequencies around each bucket.
    pub(crate) fn take_two_each(
        around: Around<'_>,
        list: &[u32],
        few: &mut Few,
        left: &mut [u32],
    ) -> usize = take_two_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn take_two_each_body<const FMA: bool, R: Row>(
    around: Around<'_>,
    list: &[u32],
    few: &mut Few,
    left: &mut [u32],
) -> usize {
    let one = R::Wide::splat(1.0);
    let mut left = Places::<R>::new(left);
    for (i, chunk) in list.chunks(R::Wide::COUNT).enumerate() {
        let at = R::Wide::COUNT * i;
        let (all, _) = next::<R::Wide>(at, list.len());
        let pick = filled::<R::Wide>(chunk);
        let u = side_by_side::<R::Wide>(around.lines, pick);
        let (c0, c1, _) = recurrence(&u);
        let z = two_roots(c0, c1);
        let turns = [atan2_each(z[0].1, z[0].0), atan2_each(z[1].1, z[1].0)];
        let placed = around.place(turns, z, R::Wide::of_whole(pick));
        let z = placed.z;
        // Roots that stay what they are may not lie on the circle.
        let size = |z: C<R::Wide>| {
            let s = norm_sqr_each(z);
            s.mul_add(s.mul_add(s + one, one), one)
        };
        let (m, k) = (size(z[0]), size(z[1]));
        let gram = overlap(z[0], z[1]);
        let det = m * k - norm_sqr_each(gram);
        let inverse = one.div(det);
        let right = [project_each(&u, z[0]), project_each(&u, z[1])];
        let minus = (-gram.0, -gram.1);
        let values = [
            scale_each(multiply_add(minus, right[1], scale_each(right[0], k)), inverse),
            scale_each(multiply_add(conj(minus), right[0], scale_each(right[1], m)), inverse),
        ];
        let apart = R::Wide::splat(1e-12).below_bits(det);
        let taken = around.take(&u, &placed, values, apart & all, few);
        left.add(all & !taken, at);
    }
    left.count()
}

dispatch_rows! {
    /// [`take_one_each`] for three frequencies around each bucket, which its neighbours hold, too.
    pub(crate) fn take_three_each(
        around: Around<'_>,
        list: &[u32],
        few: &mut Few,
        left: &mut [u32],
    ) -> usize = take_three_each_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn take_three_each_body<const FMA: bool, R: Row>(
    around: Around<'_>,
    list: &[u32],
    few: &mut Few,
    left: &mut [u32],
) -> usize {
    let zero = R::Wide::splat(0.0);
    let mask = around.spread.buckets as u32 - 1;
    let mut left = Places::<R>::new(left);
    for (i, chunk) in list.chunks(R::Wide::COUNT).enumerate() {
        let at = R::Wide::COUNT * i;
        let (all, _) = next::<R::Wide>(at, list.len());
        let pick = filled::<R::Wide>(chunk);
        let mut rows = [[(zero, zero); 4]; 3];
        for (shift, row) in [u32::MAX, 0, 1].into_iter().zip(&mut rows) {
            let mut there = pick;
            for b in &mut there {
                *b = b.wrapping_add(shift) & mask;
            }
            *row = side_by_side::<R::Wide>(around.lines, there);
        }
        let (turns, _) = three_phases(&rows);
        let z = [cis_each(turns[0]), cis_each(turns[1]), cis_each(turns[2])];
        let placed = around.place(turns, z, R::Wide::of_whole(pick));
        let z = placed.z;
        let mut gram = [[(R::Wide::splat(4.0), zero); 3]; 3];
        for i in 0..3 {
            for j in 0..i {
                gram[i][j] = overlap(z[i], z[j]);
            }
        }
        let factors = Factors::new(gram);
        let u = &rows[1];
        let values =
            factors.solve([project_each(u, z[0]), project_each(u, z[1]), project_each(u, z[2])]);
        let apart = R::Wide::splat(1e-9).below_bits(factors.least);
        let taken = around.take(u, &placed, values, apart & all, few);
        left.add(all & !taken, at);
    }
    left.count()
}

dispatch_rows! {
    /// The energies of lines, preceded by the last one and followed by the first one. Returns their sum.
    pub(crate) fn energies_around(lines: &[Line], out: &mut [f64]) -> f64 = energies_around_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn energies_around_body<const FMA: bool, R: Row>(lines: &[Line], out: &mut [f64]) -> f64 {
    let size = lines.len();
    assert!(size.is_multiple_of(8) && out.len() == size + 2);
    let mut total = [0.0; 8];
    for (eight, out) in lines.as_chunks::<8>().0.iter().zip(out[1..].as_chunks_mut::<8>().0) {
        *out = R::energies(eight);
        for i in 0..8 {
            total[i] += out[i];
        }
    }
    (out[0], out[size + 1]) = (out[size], out[1]);
    total.iter().sum()
}

dispatch_rows! {
    /// Lists the places of energies, as [`energies_around`] writes them, that are above a limit and not below their
    /// neighbours. There is room for eight more.
    pub(crate) fn list_peaks(energy: &[f64], limit: f64, out: &mut [u32]) -> usize = list_peaks_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn list_peaks_body<const FMA: bool, R: Row>(energy: &[f64], limit: f64, out: &mut [u32]) -> usize {
    let limit = R::Wide::splat(limit);
    let mut places = Places::<R>::new(out);
    let count = energy.len() - 2;
    for at in (0..count).step_by(8) {
        let (Some(before), Some(here), Some(after)) = (
            energy[at..].first_chunk::<8>(),
            energy[at + 1..].first_chunk::<8>(),
            energy[at + 2..].first_chunk::<8>(),
        ) else {
            break;
        };
        let mut bits = 0;
        for i in 0..8 / R::Wide::COUNT {
            let here = R::Wide::part(here, i);
            let peak = limit.below_bits(here)
                & !here.below_bits(R::Wide::part(before, i))
                & !here.below_bits(R::Wide::part(after, i));
            let own = ((1u32 << R::Wide::COUNT) - 1) as u8;
            bits |= (peak & own) << (R::Wide::COUNT * i);
        }
        places.add(bits, at);
    }
    places.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;
    use crate::stages::number::Rng;
    use crate::stages::peel::Coefficient;
    use crate::stages::permute::Permutation;
    use crate::stages::window::{Kaiser, REACH};

    const BUCKETS: usize = 64;
    /// All of the functions, by the number of frequencies that they look for.
    type Taker = fn(Around<'_>, &[u32], &mut Few, &mut [u32]) -> usize;
    const TAKERS: [Taker; 3] = [take_one_each, take_two_each, take_three_each];

    /// A window, and what its buckets hold.
    struct Scene {
        unity: Unity,
        permutation: Permutation,
        kaiser: Kaiser,
        lines: Vec<Line>,
    }

    impl Scene {
        fn new(n: u64, seed: u64) -> Self {
            Scene {
                unity: Unity::new(n),
                permutation: Permutation::random(n, seed, 1),
                kaiser: Kaiser::new(32.0, BUCKETS),
                lines: vec![Line::ZERO; BUCKETS + REACH - 1],
            }
        }

        fn spread(&self) -> Spread<'_> {
            let Scene { permutation, kaiser, .. } = self;
            Spread { permutation, kaiser, buckets: BUCKETS }
        }

        /// How far from a bucket a frequency lies.
        fn away(&self, f: u64, bucket: u32) -> f64 {
            let away = self.permutation.position(f, BUCKETS) - f64::from(bucket);
            away - BUCKETS as f64 * (away / BUCKETS as f64).round()
        }

        /// A frequency so far from a bucket, put there.
        fn put(&mut self, rng: &mut Rng, bucket: u32, away: std::ops::Range<f64>) -> Coefficient {
            let n = self.unity.order();
            let f = std::iter::repeat_with(|| rng.below(n))
                .find(|&f| away.contains(&self.away(f, bucket)))
                .unwrap();
            let a = self.unity.root(rng.below(n)) * (1.0 + rng.below(100) as f64 / 100.0);
            let c = Coefficient { f, a, z: self.unity.root(f) };
            let mut few = Few::default();
            few.clear(1);
            few.push(&Coefficient { a: -a, ..c });
            let mut lines = std::mem::take(&mut self.lines);
            few.peel(0, self.spread(), &mut lines);
            self.lines = lines;
            c
        }

        /// What is found in these buckets, and which are left.
        fn take(&self, taker: Taker, list: &[u32]) -> (Vec<Coefficient>, Vec<u32>) {
            let (unity, spread, lines) = (self.unity, self.spread(), &self.lines[..]);
            let around = Around { unity, spread, lines, left: [1e-22; 3], share: 1e-22 };
            let (mut few, mut left) = (Few::default(), vec![0; list.len() + 8]);
            few.clear(4 * list.len() + 8);
            let count = taker(around, list, &mut few, &mut left);
            (few.iter().collect(), left[..count].to_vec())
        }
    }

    fn assert_are(found: &[Coefficient], expected: &[Coefficient], what: &str) {
        let mut found = found.to_vec();
        found.sort_by_key(|c| c.f);
        let mut expected = expected.to_vec();
        expected.sort_by_key(|c| c.f);
        assert_eq!(found.len(), expected.len(), "{what}");
        for (c, d) in found.iter().zip(&expected) {
            assert_eq!(c.f, d.f, "{what}");
            assert!((c.a - d.a).norm() < 1e-6 && (c.z - d.z).norm() < 1e-12, "{what}: {c:?} {d:?}");
        }
    }

    /// Scenes with phasors that are close to each other, which cost digits, are left out.
    #[test]
    fn frequencies_around_a_bucket_are_found() {
        for n in [1_000_003u64, 1 << 30, 1_099_511_627_791] {
            for (count, taker) in (1..).zip(TAKERS) {
                let mut found = 0;
                for seed in 0..40 {
                    let (mut scene, mut rng) = (Scene::new(n, seed), Rng::new(7, seed));
                    // Also around the end.
                    let bucket = [0, 20, 63][seed as usize % 3];
                    let all: Vec<_> =
                        (0..count).map(|_| scene.put(&mut rng, bucket, -0.7..0.7)).collect();
                    let turns = |c: &Coefficient| c.f as f64 / n as f64;
                    let close = |c: &Coefficient, d: &Coefficient| {
                        let apart = (turns(c) - turns(d)).rem_euclid(1.0);
                        c.f != d.f && apart.min(1.0 - apart) < 0.03
                    };
                    if all.iter().any(|c| all.iter().any(|d| close(c, d))) {
                        continue;
                    }
                    let (taken, left) = scene.take(taker, &[bucket]);
                    assert_are(&taken, &all, &format!("n {n}, {count}, seed {seed}"));
                    assert_eq!(left, [0; 0]);
                    found += 1;
                }
                assert!(found > 20, "{found}");
            }
        }
    }

    #[test]
    fn what_lies_farther_away_is_told_apart_and_left_there() {
        let (mut scene, mut rng) = (Scene::new(1_000_003, 5), Rng::new(8, 1));
        let near = scene.put(&mut rng, 30, -0.3..0.3);
        scene.put(&mut rng, 30, 1.2..1.6);
        // One of them alone does not explain the bucket.
        let (taken, left) = scene.take(take_one_each, &[30]);
        assert!(taken.is_empty());
        assert_eq!(left, [0]);
        let (taken, left) = scene.take(take_two_each, &[30]);
        assert_are(&taken, &[near], "beside another");
        assert!(left.is_empty());
        // Alone, it is placed by the bucket that it is near, not by the next one.
        let mut scene = Scene::new(1_000_003, 6);
        let alone = scene.put(&mut rng, 30, 0.9..1.1);
        let (taken, left) = scene.take(take_one_each, &[30, 31]);
        assert_are(&taken, &[alone], "alone");
        assert_eq!(left, [0]);
    }

    #[test]
    fn buckets_of_something_else_are_left() {
        let (mut scene, mut rng) = (Scene::new(1_000_003, 5), Rng::new(9, 1));
        for line in &mut scene.lines {
            let mut value = || Complex::new(rng.below(1000) as f64, rng.below(1000) as f64);
            (0..4).for_each(|tau| line.set_lane(tau, value()));
        }
        // As many as do not fill vectors, too.
        for count in [0, 1, 7, 8, 19] {
            let list: Vec<u32> = (0..count).map(|i| 3 * i).collect();
            // Four shifts of one bucket always fit two frequencies or more, but these belong elsewhere.
            let (taken, left) = scene.take(take_one_each, &list);
            assert!(taken.is_empty());
            assert_eq!(left, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn peaks_are_those_of_a_list() {
        let mut rng = Rng::new(10, 1);
        for size in [8, 64, 1000] {
            let mut lines = vec![Line::ZERO; size];
            for line in &mut lines {
                line.set_lane(2, Complex::new(rng.below(5) as f64, 0.0));
            }
            let mut energy = vec![0.0; size + 2];
            let total = energies_around(&lines, &mut energy);
            let plain: Vec<f64> = lines.iter().map(|l| l.lane(2).norm_sqr()).collect();
            assert_eq!(total, plain.iter().sum::<f64>());
            assert_eq!(energy[1..=size], plain);
            assert_eq!((energy[0], energy[size + 1]), (plain[size - 1], plain[0]));
            let mut out = vec![0; size + 8];
            let count = list_peaks(&energy, 3.0, &mut out);
            let is_peak = |&b: &u32| {
                let [before, here, after] = [0, 1, 2].map(|i| energy[b as usize + i]);
                here > 3.0 && here >= before && here >= after
            };
            let expected: Vec<u32> = (0..size as u32).filter(is_peak).collect();
            assert_eq!(out[..count], expected);
        }
    }
}
