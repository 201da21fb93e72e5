//! fold: weighted samples summed into buckets.
//!
//! z\[t mod B\] += G(t)·y\[t\] for t = -h … h, four lanes at a time.

use crate::Complex;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::{F4, Vector};
use crate::cpu::{ahead, threads, unrolled};
use crate::samples::{Line, progression};

/// Folds the walk `y` (y\[h + t\] is step t, `taps[|t|]` its weight) into `buckets`, which are
/// overwritten. Returns the largest |y|² of a single sample.
pub(crate) fn fold(taps: &[f64], y: &[Line], buckets: &mut [Line]) -> f64 {
    let size = buckets.len();
    in_parts(taps, buckets, |first, part| fold_part(taps, y, first, part, size))
}

/// Has `fold` overwrite some buckets from the first given on, in as many threads as it is worth, and
/// returns the largest of what it returns.
fn in_parts(
    taps: &[f64],
    buckets: &mut [Line],
    fold: impl Fn(usize, &mut [Line]) -> f64 + Sync,
) -> f64 {
    let work = 4 * (2 * taps.len() as u64 - 1);
    let piece = threads::piece(buckets.len(), work);
    threads::reduce_chunks(buckets, piece, work, fold, f64::max).unwrap_or(0.0)
}

dispatch_rows! {
    /// [`fold`] for the buckets from `first` on, of `size` in all.
    fn fold_part(taps: &[f64], y: &[Line], first: usize, part: &mut [Line], size: usize) -> f64
        = fold_part_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn fold_part_body<const FMA: bool, R: Row>(
    taps: &[f64],
    y: &[Line],
    first: usize,
    part: &mut [Line],
    size: usize,
) -> f64 {
    part.fill(Line::ZERO);
    let h = taps.len() - 1;
    // Step 0 of the walk meets bucket `skip` of the first round.
    let skip = (size - h % size) % size;
    let mut peak = F4::<FMA>::ZERO;
    let mut round = 0;
    while round + first < y.len() + skip {
        let from = skip.saturating_sub(round + first).min(part.len());
        // A part that lies before that has nothing to add.
        let at = (round + first + from).saturating_sub(skip);
        for ((bucket, line), i) in part[from..].iter_mut().zip(&y[at.min(y.len())..]).zip(at..) {
            let line = R::load(line);
            peak = F4(line.squares()).max(peak);
            R::load(bucket).plus(taps[h.abs_diff(i)], line).store(bucket);
        }
        round += size;
    }
    peak.0.into_iter().fold(0.0, f64::max)
}

/// A walk through samples in memory: step i begins at start + i·step modulo their number.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) samples: &'a [Complex<f64>],
    pub(crate) start: u64,
    pub(crate) step: u64,
}

impl Walk<'_> {
    /// See [`ahead::come_slowly`]: of samples that the first rounds of a fold meet, from this step on.
    #[cold] // of small windows nobody asks
    fn comes_slowly(&self, at: usize) -> bool {
        let n = self.samples.len() as u64;
        let place = |i: usize| progression(self.start, self.step, (at + i) as u64, n) as usize;
        ahead::come_slowly(self.samples, [place(0), place(5), place(10)])
    }
}

/// [`fold`] of a walk, which is read where it lies; there are at least four samples.
pub(crate) fn fold_walk(taps: &[f64], walk: Walk<'_>, buckets: &mut [Line]) -> f64 {
    assert!(walk.samples.len() >= 4);
    let size = buckets.len();
    in_parts(taps, buckets, |first, part| fold_walk_part(taps, walk, first, part, size))
}

dispatch_rows! {
    /// [`fold_walk`] for the buckets from `first` on, of `size` in all.
    fn fold_walk_part(
        taps: &[f64],
        walk: Walk<'_>,
        first: usize,
        part: &mut [Line],
        size: usize,
    ) -> f64 = fold_walk_part_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn fold_walk_part_body<const FMA: bool, R: Row>(
    taps: &[f64],
    walk: Walk<'_>,
    first: usize,
    part: &mut [Line],
    size: usize,
) -> f64 {
    let (h, steps) = (taps.len() - 1, 2 * taps.len() - 1);
    let skip = (size - h % size) % size;
    // Round r meets bucket b with step r·size + b - skip. The first round begins at bucket `skip`, the
    // last one ends before bucket `end`; in between every bucket has the same rounds.
    let rounds = (steps + skip).div_ceil(size);
    let end = steps + skip - (rounds - 1) * size;
    let mut borders = [first, skip, end, first + part.len()];
    borders.sort_unstable();
    let mut peak = R::Wide::splat(0.0);
    let asking = part.len() >= MANY && walk.comes_slowly(first);
    for border in borders.windows(2) {
        let some = border[0].max(first)..border[1].min(first + part.len());
        if some.is_empty() {
            continue;
        }
        let which = usize::from(some.start < skip)..rounds - usize::from(some.start >= end);
        let buckets = &mut part[some.start - first..some.end - first];
        if which.is_empty() {
            buckets.fill(Line::ZERO);
            continue;
        }
        let met = (which.start * size + some.start - skip, which.len());
        peak = fold_rounds::<FMA, R>(taps, walk, met, size, asking, buckets, peak);
    }
    peak.each().into_iter().fold(0.0, f64::max)
}

/// Buckets from which on it pays to know whether samples come slowly.
const MANY: usize = 64;
/// Buckets between asking for samples that come slowly and reading them.
const FAR: usize = 10;
/// Most rounds that are added up at a time; windows have six or seven.
const AT_A_TIME: usize = 8;

/// Overwrites neighbouring buckets that meet the same rounds: `met` is the first step of the first one,
/// and how many rounds there are. Returns the larger of `peak` and the |samples|².
#[inline(always)] // must inherit the instruction set of its caller
fn fold_rounds<const FMA: bool, R: Row>(
    taps: &[f64],
    walk: Walk<'_>,
    met: (usize, usize),
    size: usize,
    asking: bool,
    buckets: &mut [Line],
    mut peak: R::Wide,
) -> R::Wide {
    for round in (0..met.1).step_by(AT_A_TIME) {
        let met = (met.0 + round * size, (met.1 - round).min(AT_A_TIME));
        let rounds = Rounds::new(taps, walk, met.0, size, round > 0);
        macro_rules! of {
            ($ask:literal: $($count:literal)*) => {
                match met.1 {
                    $($count => fold_some::<FMA, R, $count, $ask>(rounds, buckets, peak),)*
                    _ => peak,
                }
            };
        }
        // Few rounds are those of the last steps.
        peak =
            if asking && met.1 >= 4 { of!(true: 4 5 6 7 8) } else { of!(false: 1 2 3 4 5 6 7 8) };
    }
    peak
}

/// Where rounds meet their first bucket; not all need be meant.
#[derive(Clone, Copy)]
struct Rounds<'a> {
    samples: &'a [Complex<f64>],
    taps: &'a [f64],
    /// The places of the samples, and how far it is to those of the next bucket.
    places: [usize; AT_A_TIME],
    step: usize,
    /// The taps: |t| of the walk, which grows from the middle on and falls before (by 1, around the end of
    /// the numbers). Bucket 0 is met at t = 0, so no round passes the middle.
    tap: [usize; AT_A_TIME],
    ahead: [usize; AT_A_TIME],
    /// Whether to add to what is there.
    more: bool,
}

impl<'a> Rounds<'a> {
    fn new(taps: &'a [f64], walk: Walk<'a>, first: usize, size: usize, more: bool) -> Self {
        let Walk { samples, start, step } = walk;
        let (n, h) = (samples.len() as u64, taps.len() - 1);
        let (mut places, mut tap, mut ahead) = ([0; 8], [0; 8], [0; 8]);
        let round = progression(0, step, size as u64, n);
        let mut place = progression(start, step, first as u64, n);
        for i in 0..AT_A_TIME {
            let at = first + i * size;
            places[i] = place as usize;
            place += round;
            place = place.min(place.wrapping_sub(n));
            tap[i] = h.abs_diff(at);
            ahead[i] = if at >= h { 1 } else { usize::MAX };
        }
        Rounds { samples, taps, places, step: (step % n) as usize, tap, ahead, more }
    }
}

/// [`fold_rounds`] of `COUNT` rounds; with `ASK`, samples are asked for ahead.
#[inline(always)] // must inherit the instruction set of its caller
fn fold_some<const FMA: bool, R: Row, const COUNT: usize, const ASK: bool>(
    rounds: Rounds<'_>,
    buckets: &mut [Line],
    mut peak: R::Wide,
) -> R::Wide {
    let Rounds { samples, taps, mut places, step, mut tap, ahead, more } = rounds;
    let n = samples.len();
    assert!(n >= 4);
    let last = n - 4;
    let far = if ASK { FAR * step % n } else { 0 };
    for bucket in buckets {
        if ASK {
            unrolled!(i in COUNT, {
                let later = places[i] + far;
                let later = later.min(later.wrapping_sub(n));
                ahead::ask::<_, true>(samples.as_ptr().wrapping_add(later));
            });
        }
        // Complex numbers as they lie: they are taken apart when all is added up.
        let mut sum = [R::Wide::splat(0.0); 2];
        unrolled!(i in COUNT, {
            let place = places[i];
            let around;
            let four = if place <= last {
                // SAFETY: four samples from `last` on are the last ones.
                unsafe { &*samples.as_ptr().add(place).cast::<[Complex<f64>; 4]>() }
            } else {
                around = around_the_end(samples, place);
                &around
            };
            let weight = R::Wide::splat(taps[tap[i]]);
            peak = add_weighted::<R>(four, weight, &mut sum, peak);
            let next = place + step;
            places[i] = next.min(next.wrapping_sub(n));
            tap[i] = tap[i].wrapping_add(ahead[i]);
        });
        let line = taken_apart::<FMA, R>(sum);
        if more {
            R::load(bucket).plus(1.0, line).store(bucket);
        } else {
            line.store(bucket);
        }
    }
    peak
}

/// Adds four samples times a weight to sums of them as they lie. Returns the larger of `peak` and the |samples|².
#[inline(always)] // must inherit the instruction set of its caller
fn add_weighted<R: Row>(
    four: &[Complex<f64>; 4],
    weight: R::Wide,
    sum: &mut [R::Wide; 2],
    mut peak: R::Wide,
) -> R::Wide {
    for (part, sum) in sum[..8 / R::Wide::COUNT].iter_mut().enumerate() {
        let values = R::Wide::samples(values_of(four), part);
        let square = values * values;
        peak = (square + square.swapped()).max(peak);
        *sum = weight.mul_add(values, *sum);
    }
    peak
}

/// Such sums as a line: real parts, and imaginary ones.
#[inline(always)] // must inherit the instruction set of its caller
fn taken_apart<const FMA: bool, R: Row>(sum: [R::Wide; 2]) -> R {
    let high = if R::Wide::COUNT == 8 { sum[0].four(1) } else { sum[1].four(0) };
    let (re, im) = F4::<FMA>(sum[0].four(0)).split(F4(high));
    R::of(re, im)
}

/// One step of a walk that is listed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// The first of its four samples.
    pub(crate) place: usize,
    pub(crate) weight: f64,
}

dispatch_rows! {
    /// Overwrites every bucket by the sum of its steps: `rounds` for each, one bucket after the other. Steps that
    /// pass the end of the samples are left out. Returns the largest |x|² of a sample.
    pub(crate) fn fold_listed(
        samples: &[Complex<f64>],
        steps: &[Step],
        rounds: usize,
        buckets: &mut [Line],
    ) -> f64 = fold_listed_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn fold_listed_body<const FMA: bool, R: Row>(
    samples: &[Complex<f64>],
    steps: &[Step],
    rounds: usize,
    buckets: &mut [Line],
) -> f64 {
    let mut peak = R::Wide::splat(0.0);
    for (bucket, steps) in buckets.iter_mut().zip(steps.chunks_exact(rounds)) {
        let mut sum = [R::Wide::splat(0.0); 2];
        for step in steps {
            if let Some(four) = samples.get(step.place..).and_then(<[_]>::first_chunk) {
                let weight = R::Wide::splat(step.weight);
                peak = add_weighted::<R>(four, weight, &mut sum, peak);
            }
        }
        taken_apart::<FMA, R>(sum).store(bucket);
    }
    peak.each().into_iter().fold(0.0, f64::max)
}

/// Real and imaginary parts in turn.
#[inline(always)] // nothing
pub(crate) fn values_of(four: &[Complex<f64>; 4]) -> &[f64; 8] {
    // SAFETY: a complex number is its real part, then its imaginary part.
    unsafe { &*std::ptr::from_ref(four).cast() }
}

/// Four samples from this place on, which pass the end.
#[cold]
pub(crate) fn around_the_end(samples: &[Complex<f64>], place: usize) -> [Complex<f64>; 4] {
    let mut four = [Complex::ZERO; 4];
    for (i, sample) in four.iter_mut().enumerate() {
        *sample = samples[(place + i) % samples.len()];
    }
    four
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of the steps of a walk gives the same sums.
    #[test]
    fn listed_steps_are_folded_like_a_walk() {
        let samples: Vec<_> =
            (0..997).map(|t| Complex::new((t % 13) as f64, (t * t % 7) as f64 - 3.0)).collect();
        for (h, size) in [(30usize, 16usize), (5, 4), (61, 32)] {
            let taps: Vec<f64> = (0..=h).map(|t| 1.0 / (1 + t) as f64).collect();
            let rounds = (2 * h + 1).div_ceil(size);
            let mut steps = vec![Step { place: 0, weight: 0.0 }; rounds * size];
            let mut met = vec![0; size];
            for i in 0..2 * h + 1 {
                let b = (i + size * h - h) % size;
                let place = (7 + 5 * i) % samples.len();
                steps[rounds * b + met[b]] = Step { place, weight: taps[i.abs_diff(h)] };
                met[b] += 1;
            }
            let mut listed = vec![Line::ZERO; size];
            let mut walked = listed.clone();
            let peak = fold_listed(&samples, &steps, rounds, &mut listed);
            let walk = Walk { samples: &samples, start: 7, step: 5 };
            // Steps without weight count among the largest samples.
            assert!(peak >= fold_walk(&taps, walk, &mut walked));
            for (a, b) in listed.iter().zip(&walked) {
                for tau in 0..4 {
                    assert!((a.lane(tau) - b.lane(tau)).norm() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn each_step_reaches_its_bucket() {
        for (h, size) in [(0usize, 4usize), (1, 8), (3, 8), (9, 4), (8, 5), (40, 7)] {
            let taps: Vec<f64> = (0..=h).map(|t| 1.0 / (1 + t) as f64).collect();
            let y: Vec<Line> = (0..2 * h + 1)
                .map(|i| Line { re: [i as f64, 1.0, 2.0, 3.0], im: [-(i as f64); 4] })
                .collect();
            let mut buckets = vec![Line { re: [9.0; 4], im: [9.0; 4] }; size];
            fold(&taps, &y, &mut buckets);
            let mut plain = vec![Line::ZERO; size];
            for (i, line) in y.iter().enumerate() {
                let t = i as i64 - h as i64;
                let b = t.rem_euclid(size as i64) as usize;
                for tau in 0..4 {
                    let v = plain[b].lane(tau) + line.lane(tau) * taps[t.unsigned_abs() as usize];
                    plain[b].set_lane(tau, v);
                }
            }
            let mut parts = vec![Line::ZERO; size];
            for (first, part) in (0..).zip(parts.chunks_mut(1)) {
                fold_part(&taps, &y, first, part, size);
            }
            assert_eq!(parts, buckets, "bucket by bucket");
            // The same lines, taken from 37 samples by steps of 11 that go around their end.
            let sample = |i: usize| Complex::new((i as f64).sin(), 0.25 * i as f64);
            let samples: Vec<_> = (0..37).map(sample).collect();
            let walk = Walk { samples: &samples, start: 30, step: 11 };
            let mut lines = vec![Line::ZERO; 2 * h + 1];
            for (i, line) in lines.iter_mut().enumerate() {
                (0..4).for_each(|tau| line.set_lane(tau, samples[(30 + 11 * i + tau) % 37]));
            }
            let (mut read, mut walked) = (vec![Line::ZERO; size], buckets.clone());
            let peak = fold(&taps, &lines, &mut read);
            assert!((fold_walk(&taps, walk, &mut walked) - peak).abs() < 1e-12 * peak);
            for (a, b) in walked.iter().zip(&read) {
                (0..4).for_each(|tau| assert!((a.lane(tau) - b.lane(tau)).norm() < 1e-12));
            }
            for (first, part) in (0..).zip(parts.chunks_mut(1)) {
                fold_walk_part(&taps, walk, first, part, size);
            }
            assert_eq!(parts, walked, "bucket by bucket");
            for (a, b) in buckets.iter().zip(&plain) {
                for tau in 0..4 {
                    assert!((a.lane(tau) - b.lane(tau)).norm() < 1e-12);
                }
            }
        }
    }
}
