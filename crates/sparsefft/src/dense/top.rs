//! The largest values without sorting them all.
//!
//! One pass keeps the values above a rising floor. When 2k of them have come together, a
//! selection in linear time throws the smaller half away and raises the floor. Expected cost: n
//! comparisons and O(k log(n/k)) selections' worth of moves.

use super::Real;
use super::threads::{Threads, for_each};
use crate::Error;
use crate::spectrum::Peak;
use num_complex::Complex;
use std::cmp::Ordering;
use std::sync::Mutex;

/// A candidate: squared magnitude and index.
type Candidate = (f64, u64);

/// Larger magnitudes first, then smaller indices: a total order, so the answer does not depend on
/// how the work is cut.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

fn keep(candidates: &mut Vec<Candidate>, k: usize) {
    if candidates.len() > k {
        candidates.select_nth_unstable_by(k, order);
        candidates.truncate(k);
    }
}

/// The k values of largest magnitude, largest first, ties by index.
///
/// # Errors
/// [`Error::SparsityTooLarge`] for k > n, [`Error::NonFinite`] if a value is NaN or infinite,
/// [`Error::Overflow`] if a squared magnitude is not finite.
pub fn top_k<T: Real>(values: &[Complex<T>], k: usize) -> Result<Vec<Peak>, Error> {
    let n = values.len();
    if k > n {
        return Err(Error::SparsityTooLarge { k: k as u64, n: n as u64 });
    }
    // Few, large pieces: each may return k candidates.
    let pieces = (n >> 16).clamp(1, 64);
    let size = n.div_ceil(pieces).max(1);
    let found = Mutex::new((Vec::new(), None));
    for_each((0..Threads::All.count(pieces)).map(|_| Vec::new()), pieces, |own, piece| {
        let start = (piece * size).min(n);
        let end = (start + size).min(n);
        own.clear();
        let bad = scan(&values[start..end], start as u64, k, own);
        let mut found = found.lock().unwrap_or_else(|e| e.into_inner());
        found.0.append(own);
        if found.0.len() > 16 * k.max(64) {
            keep(&mut found.0, k);
        }
        if let Some(bad) = bad {
            found.1 = Some(found.1.map_or(bad, |b: u64| b.min(bad)));
        }
    });
    let (mut best, bad) = found.into_inner().unwrap_or_else(|e| e.into_inner());
    if let Some(index) = bad {
        let v = values[index as usize];
        let value = Complex::new(v.re.wide(), v.im.wide());
        return Err(if value.re.is_finite() && value.im.is_finite() {
            Error::Overflow { limit: f64::MAX.sqrt() / 2.0 }
        } else {
            Error::NonFinite { index, value: value.to_string() }
        });
    }
    keep(&mut best, k);
    best.sort_unstable_by(order);
    Ok(best
        .into_iter()
        .map(|(_, index)| {
            let v = values[index as usize];
            Peak { index, value: Complex::new(v.re.wide(), v.im.wide()) }
        })
        .collect())
}

/// The k largest of one piece, and the first index whose squared magnitude is not finite.
fn scan<T: Real>(
    values: &[Complex<T>],
    start: u64,
    k: usize,
    own: &mut Vec<Candidate>,
) -> Option<u64> {
    let power = |v: &Complex<T>| {
        let (re, im) = (v.re.wide(), v.im.wide());
        re * re + im * im
    };
    let room = 2 * k.max(32);
    let mut floor = 0.0;
    // Blocks whose maximum lies below the floor are skipped after one vectorised look.
    for (b, block) in values.chunks(64).enumerate() {
        let (mut most, mut sum) = (0.0f64, 0.0f64);
        for v in block {
            let p = power(v);
            most = if p > most { p } else { most };
            sum += p * 0.0;
        }
        let first = start + 64 * b as u64;
        if sum != 0.0 {
            // 0 times NaN or infinity is NaN, which is not 0 either.
            return block.iter().position(|v| !power(v).is_finite()).map(|i| first + i as u64);
        }
        if k == 0 || most < floor {
            continue;
        }
        for (i, v) in block.iter().enumerate() {
            let p = power(v);
            if p >= floor {
                own.push((p, first + i as u64));
            }
        }
        if own.len() >= room {
            keep(own, k);
            // Equal values later in the piece have larger indices and lose.
            floor = own.iter().fold(f64::INFINITY, |m, c| m.min(c.0));
        }
    }
    keep(own, k);
    None
}
