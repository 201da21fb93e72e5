//! Maxima of a sequence that are prominent: one must descend far to reach a higher one.

/// Where the maxima are of positive values whose prominence is at least `least`, and that are no nearer than
/// `distance` to a higher one. The prominence is the ln of a value over the higher one of the two
/// lowest values that part it from higher maxima. The ends count as low.
pub(super) fn peaks(values: &[f64], least: f64, distance: usize) -> Vec<usize> {
    let of = |i: usize| values[i];
    let last = values.len().saturating_sub(1);
    let mut out: Vec<usize> = Vec::new();
    for i in 0..values.len() {
        let rises = i == 0 || of(i - 1) < of(i);
        let falls = i == last || of(i + 1) <= of(i);
        if !(rises && falls) {
            continue;
        }
        let descend = |steps: &mut dyn Iterator<Item = usize>| -> Option<f64> {
            let mut lowest = of(i);
            for j in steps {
                if of(j) > of(i) {
                    return Some(lowest);
                }
                lowest = lowest.min(of(j));
            }
            None
        };
        let saddles = [descend(&mut (0..i).rev()), descend(&mut (i + 1..values.len()))];
        let saddle = saddles.into_iter().flatten().fold(0.0, f64::max);
        let prominence = if saddle > 0.0 { (of(i) / saddle).ln() } else { f64::INFINITY };
        if prominence >= least {
            out.push(i);
        }
    }
    // The higher one of two that are too near stays.
    out.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
    let mut kept: Vec<usize> = Vec::new();
    for peak in out {
        if kept.iter().all(|k| k.abs_diff(peak) >= distance) {
            kept.push(peak);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prominence_is_the_descent_to_a_higher_maximum() {
        let values = [1.0, 8.0, 2.0, 4.0, 1.0, 16.0, 1.0];
        let found = |least: f64, distance| peaks(&values, least.ln(), distance);
        // Prominences: no limit, 8 and 2.
        assert_eq!(found(1.9, 1), [5, 1, 3]);
        assert_eq!(found(2.1, 1), [5, 1]);
        assert_eq!(found(8.1, 1), [5]);
        assert_eq!(found(1.9, 5), [5]);
        assert!(peaks(&[], 1.0, 1).is_empty());
    }
}
