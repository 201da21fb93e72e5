//! fold: weighted samples summed into buckets.
//!
//! z\[t mod B\] += G(t)·y\[t\] for t = -h … h, four lanes at a time.

use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::threads;
use crate::cpu::wide::F4;
use crate::samples::Line;

/// Folds the walk `y` (y\[h + t\] is step t, `taps[|t|]` its weight) into `buckets`, which are
/// overwritten. Returns the largest |y|² of a single sample.
pub(crate) fn fold(taps: &[f64], y: &[Line], buckets: &mut [Line]) -> f64 {
    let (size, work) = (buckets.len(), 4 * y.len() as u64);
    let part = |first, part: &mut [Line]| fold_part(taps, y, first, part, size);
    let piece = threads::piece(size, work);
    threads::reduce_chunks(buckets, piece, work, part, f64::max).unwrap_or(0.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_reaches_its_bucket() {
        for (h, size) in [(0usize, 4usize), (3, 8), (9, 4), (8, 5)] {
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
            for (a, b) in buckets.iter().zip(&plain) {
                for tau in 0..4 {
                    assert!((a.lane(tau) - b.lane(tau)).norm() < 1e-12);
                }
            }
        }
    }
}
