//! Families: spacings that explain more lines than chance would.
//!
//! Candidates are the lines themselves, halves and thirds of the strongest, and differences of
//! pairs. A candidate counts if a binomial tail, times the number of candidates, is below the
//! stated probability.

use super::chance::binomial_tail;

/// Most lines that are looked at, strongest first.
const MOST_LINES: usize = 80;
/// Highest harmonic, and farthest sideband, that counts.
const HARMONICS: f64 = 40.0;
const SIDEBANDS: f64 = 8.0;
/// Narrowest spacing in bins.
const NARROWEST: f64 = 8.0;
/// Most families.
const MOST: usize = 8;
/// Probability of a family by chance.
const P: f64 = 1e-6;

/// A line as families see it: its bin, and how far a member may be off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) bin: f64,
    pub(super) tolerance: f64,
}

/// A family in bins.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) spacing: f64,
    /// The bin that sidebands lie around; `None` for harmonics of the spacing.
    pub(super) carrier: Option<f64>,
    /// The multiples that are there, and the lines (places in the list) that they are.
    pub(super) orders: Vec<i64>,
    pub(super) lines: Vec<usize>,
}

/// The families among lines, strongest first.
pub(super) fn find(lines: &[Member]) -> Vec<Family> {
    let lines = &lines[..lines.len().min(MOST_LINES)];
    if lines.len() < 3 {
        return Vec::new();
    }
    let candidates = candidates(lines);
    let loose = lines.iter().map(|l| l.tolerance).fold(f64::INFINITY, f64::min) > 2.0;
    let mut found: Vec<(f64, Family)> = Vec::new();
    for &(spacing, carrier) in &candidates {
        let offset = carrier.map_or(0.0, |c| lines[c].bin);
        let most = if carrier.is_some() { SIDEBANDS } else { HARMONICS };
        let mut orders: Vec<i64> = Vec::new();
        let mut members = Vec::new();
        let mut tolerances: Vec<f64> = Vec::new();
        let mut within = 0;
        for (i, line) in lines.iter().enumerate() {
            let order = ((line.bin - offset) / spacing).round();
            if order.abs() > most {
                continue;
            }
            within += 1;
            let more = if loose { 0.5 * order.abs().min(6.0) } else { 0.0 };
            let tolerance = (line.tolerance + more).min(0.25 * spacing);
            tolerances.push(tolerance);
            let counts = if carrier.is_some() { order != 0.0 } else { order >= 1.0 };
            if counts && (line.bin - offset - order * spacing).abs() < tolerance {
                orders.push(order as i64);
                members.push(i);
            }
        }
        orders.sort_unstable();
        orders.dedup();
        let farthest = orders.iter().map(|o| o.unsigned_abs()).max().unwrap_or(0) as f64;
        let sides = if carrier.is_some() { 2.0 } else { 1.0 };
        if orders.len() < 3 || (orders.len() as f64) < 0.4 * farthest * sides {
            continue;
        }
        tolerances.sort_by(f64::total_cmp);
        let by_chance = (2.0 * tolerances[tolerances.len() / 2] / spacing).min(0.5);
        let p = binomial_tail(orders.len() - 2, within.max(2) - 1, by_chance);
        let p = p * candidates.len() as f64;
        if p <= P {
            let carrier = carrier.map(|_| offset);
            let spacing = refined(lines, &members, offset, spacing);
            found.push((p, Family { spacing, carrier, orders, lines: members }));
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.spacing.total_cmp(&a.1.spacing)));
    let mut used = vec![false; lines.len()];
    let mut out = Vec::new();
    for (_, family) in found {
        let new = family.lines.iter().filter(|i| !used[**i]).count();
        if new >= 2 && new as f64 >= 0.6 * family.lines.len() as f64 && out.len() < MOST {
            family.lines.iter().for_each(|i| used[*i] = true);
            out.push(family);
        }
    }
    out
}

/// Spacings worth trying, each with the line that sidebands would lie around.
fn candidates(lines: &[Member]) -> Vec<(f64, Option<usize>)> {
    let mut out: Vec<(f64, Option<usize>)> = lines.iter().map(|l| (l.bin, None)).collect();
    for line in lines.iter().take(10) {
        out.extend([(line.bin / 2.0, None), (line.bin / 3.0, None)]);
    }
    for (i, a) in lines.iter().enumerate().take(12) {
        let mut apart: Vec<f64> = lines
            .iter()
            .take(40)
            .map(|b| ((a.bin - b.bin).abs() * 10.0).round() / 10.0)
            .filter(|d| *d > 6.0)
            .collect();
        apart.sort_by(f64::total_cmp);
        apart.dedup();
        out.extend(apart.into_iter().map(|d| (d, Some(i))));
    }
    out.retain(|(spacing, _)| *spacing >= NARROWEST);
    out
}

/// The spacing that fits the members best, weighted by what each tells.
fn refined(lines: &[Member], members: &[usize], offset: f64, spacing: f64) -> f64 {
    let (mut sum, mut mass) = (0.0, 0.0);
    for &i in members {
        let order = ((lines[i].bin - offset) / spacing).round();
        let weight = 1.0 / lines[i].tolerance.powi(2);
        sum += weight * order * (lines[i].bin - offset);
        mass += weight * order * order;
    }
    if mass > 0.0 { sum / mass } else { spacing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(bins: &[f64]) -> Vec<Member> {
        bins.iter().map(|&bin| Member { bin, tolerance: 1.0 }).collect()
    }

    #[test]
    fn harmonics_and_sidebands_are_families() {
        let found = find(&members(&[300.0, 600.2, 900.1, 1500.0, 2100.3, 777.0]));
        assert_eq!(found.len(), 1);
        assert!((found[0].spacing - 300.0).abs() < 0.1 && found[0].carrier.is_none());
        assert_eq!(found[0].orders, [1, 2, 3, 5, 7]);
        let around = [5000.0, 4900.0, 5100.0, 4800.0, 5200.0, 4700.0, 5300.0, 4600.0, 5400.0];
        let found = find(&members(&around));
        assert!((found[0].spacing - 100.0).abs() < 0.1);
        assert_eq!(found[0].carrier, Some(5000.0));
    }

    #[test]
    fn lines_anywhere_are_none() {
        let found = find(&members(&[311.0, 702.4, 1123.0, 1499.6, 2716.0, 3313.0, 4447.0]));
        assert!(found.is_empty(), "{found:?}");
    }
}
