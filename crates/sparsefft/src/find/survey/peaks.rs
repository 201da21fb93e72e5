//! Maxima of a sequence that are prominent: one must descend far to reach a higher one.

/// Where the maxima are of positive values whose prominence is at least `least`, and that are no nearer than
/// `distance` to a higher one. The prominence is the ln of a value over the higher one of the two
/// lowest values that part it from higher maxima. The ends count as low.
pub(super) fn peaks(values: &[f64], least: f64, distance: usize) -> Vec<usize> {
    let of = |i: usize| values[i];
    let last = values.len().saturating_sub(1);
    let before = saddles(values.iter().copied());
    let mut after = saddles(values.iter().rev().copied());
    after.reverse();
    let mut out: Vec<usize> = Vec::new();
    for i in 0..values.len() {
        let rises = i == 0 || of(i - 1) < of(i);
        let falls = i == last || of(i + 1) <= of(i);
        if !(rises && falls) {
            continue;
        }
        let saddle = before[i].max(after[i]);
        let prominence = if saddle > 0.0 { (of(i) / saddle).ln() } else { f64::INFINITY };
        if prominence >= least {
            out.push(i);
        }
    }
    // The higher one of two that are too near stays.
    out.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
    let mut taken = std::collections::BTreeSet::new();
    out.retain(|&peak| {
        let near = (peak + 1).saturating_sub(distance)..peak + distance.max(1);
        let alone = taken.range(near).next().is_none();
        if alone {
            taken.insert(peak);
        }
        alone
    });
    out
}

/// For each value the lowest one since the last that was higher; 0 if none was.
fn saddles(values: impl Iterator<Item = f64>) -> Vec<f64> {
    // Descending heights, each with the lowest value since the one before it.
    let mut higher: Vec<(f64, f64)> = Vec::new();
    values
        .map(|v| {
            let mut lowest = v;
            while let Some((_, low)) = higher.pop_if(|(height, _)| *height <= v) {
                lowest = lowest.min(low);
            }
            let saddle = if higher.is_empty() { 0.0 } else { lowest };
            higher.push((v, lowest));
            saddle
        })
        .collect()
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
