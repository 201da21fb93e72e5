//! Lines: bins above the local floor, joined where they belong together, and fitted.
//!
//! A bin counts if it exceeds the floor by the threshold of an order-statistic detector, a mean
//! of 6 or 24 bins (damped and wandering lines) if it exceeds what a gamma variable does. The
//! probability that noise alone makes one line in the whole spectrum is the stated one.

use super::chance::{gamma_quantile, quantile_threshold};
use super::fit::{Fit, NARROW, WIDE, fit, presence};
use super::floor::{Floor, QUANTILE};
use super::peaks::peaks;
use super::spectrum::{GAIN, LOBE, Spectrum, correlated_bins};
use super::vector::{exceeding, places_above, places_over, running_sums, vectorized};
use crate::cpu::threads;

/// Share of the power in the main lobe that a fit may leave for a line to be one line.
const PURE: f64 = 0.05;
/// The same in units of the floor.
pub(super) const CLEAN: f64 = 4.0;
/// Prominence (a ratio of powers) that makes a peak of its own within a group of bins.
const PROMINENCE: f64 = 30.0;
/// Most peaks of a group that are fitted.
const MOST_FITTED: usize = 12;
/// Power over the floor from which on a line's side lobes may reach above it.
const TOWERING: f64 = 1e8;
/// Most bins among which such lines are looked for, the strongest: each has a main lobe of some ten.
const MOST_CANDIDATES: usize = 1 << 12;
/// Most lines that are subtracted before the floor is measured.
const MOST_TOWERING: usize = 32;
/// Groups of bins that are fitted: one for each so many samples, which bounds their share of the
/// time, and at least and at most so many. A reader is served by far fewer; the others are named.
const SAMPLES_PER_GROUP: usize = 128;
const FEWEST_GROUPS: usize = 256;
const MOST_GROUPS: usize = 8192;
/// Bins over which means are tested.
const WIDTHS: [usize; 2] = [6, 24];
/// Bins that are smoothed at a time.
const STRIPE: usize = 1 << 12;
/// Share of the power that a fit may leave for the line to be subtracted.
const EXACT: f64 = 1e-4;

/// What a group of bins is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A sinusoid, perhaps drifting or damped.
    Single,
    /// One peak wider than a line.
    Broad,
    /// Several peaks that are not resolved.
    Cluster,
}

/// A line, or a group of bins that is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) shape: Shape,
    pub(super) fit: Fit,
    /// Power of the strongest bin over the floor.
    pub(super) ratio: f64,
    /// Width at half power in bins, of groups that are no line; of damped lines that of the
    /// resonance.
    pub(super) width: f64,
}

/// Takes lines out whose side lobes would hide their neighbourhood: what was taken out, and the
/// density by which it was judged, since the floor is not known yet.
pub(super) fn take_towering(spectrum: &mut Spectrum) -> (Vec<Found>, f64) {
    let mut some: Vec<f64> =
        spectrum.power.iter().step_by(spectrum.power.len().div_ceil(4096)).copied().collect();
    let rank = some.len() / 10;
    let quiet = *some.select_nth_unstable_by(rank, f64::total_cmp).1;
    let mut out: Vec<Found> = Vec::new();
    // What a subtraction leaves is no stronger than it was before.
    let mut candidates = Vec::new();
    exceeding(&spectrum.power, TOWERING * quiet, &mut candidates);
    if candidates.len() > MOST_CANDIDATES {
        let by_power = |a: &usize, b: &usize| spectrum.power[*b].total_cmp(&spectrum.power[*a]);
        candidates.select_nth_unstable_by(MOST_CANDIDATES, by_power);
        candidates.truncate(MOST_CANDIDATES);
        candidates.sort_unstable();
    }
    for _ in 0..MOST_TOWERING {
        let near = |k: usize| out.iter().any(|f| (f.fit.bin - k as f64).abs() < 3.0 * LOBE as f64);
        let strongest = candidates
            .iter()
            .map(|k| (*k, spectrum.power[*k]))
            .filter(|(k, p)| *p > TOWERING * quiet && !near(*k))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((k, power)) = strongest else { break };
        let first = fit(spectrum, k, quiet, NARROW);
        let steady = first.left < EXACT && first.damping == 0.0 && first.drift.abs() < 1e-3;
        if !steady {
            break;
        }
        let (offset, amplitude) = spectrum.polish(k, first.offset, first.amplitude);
        let bin = on_circle(k as f64 + offset, spectrum);
        spectrum.subtract(k, offset, amplitude);
        // The side lobes beyond the fitted bins are explained now.
        let chi = (-(LOBE as i64)..=LOBE as i64)
            .map(|d| spectrum.bin(k as i64 + d).norm_sqr() / quiet)
            .sum::<f64>()
            / (2 * LOBE + 1) as f64;
        let first = Fit { offset, amplitude, chi, ..first };
        out.push(Found {
            shape: Shape::Single,
            fit: Fit { bin, ..first },
            ratio: power / quiet,
            width: 0.0,
        });
    }
    (out, quiet)
}

/// The errors of lines that were taken out, by the floor that was measured after that.
pub(super) fn judge_towering(towering: &mut [Found], quiet: f64, floor: &Floor) {
    for t in towering {
        let density = floor.density[(t.fit.bin as usize).min(floor.density.len() - 1)];
        let chi = (t.fit.chi * quiet / density).max(1.0);
        t.fit.bin_std *= (chi * density / quiet).sqrt();
        t.fit.drift_std *= (chi * density / quiet).sqrt();
        t.fit.chi = chi;
        t.ratio *= quiet / density;
    }
}

/// The lines above a floor; `ln_p` is the logarithm of the probability that noise makes any.
pub(super) fn find(spectrum: &Spectrum, floor: &Floor, ln_p: f64) -> Vec<Found> {
    let bins = spectrum.power.len();
    let ln_bin = ln_p - (bins as f64).ln();
    let hits = above(spectrum, floor, ln_bin);
    // Bins nearer than a main lobe belong together.
    let mut groups: Vec<Vec<(usize, bool)>> = Vec::new();
    for hit in hits {
        match groups.last_mut() {
            Some(group) if hit.0 - group[group.len() - 1].0 <= 2 * LOBE => group.push(hit),
            _ => groups.push(vec![hit]),
        }
    }
    // Of a record full of lines the strongest are fitted, and all are named.
    let most = (spectrum.n / SAMPLES_PER_GROUP).clamp(FEWEST_GROUPS, MOST_GROUPS);
    if groups.len() > most {
        let top = |group: &Vec<(usize, bool)>| spectrum.power[top_of(spectrum, group)];
        groups.sort_by(|a, b| top(b).total_cmp(&top(a)));
    }
    let (fitted, named) = groups.split_at(most.min(groups.len()));
    let each = threads::map(fitted, (SAMPLES_PER_GROUP * fitted.len()) as u64, |group| {
        let mut out = Vec::new();
        take_apart(spectrum, floor, group, &mut out);
        out
    });
    let mut out: Vec<Found> = each.into_iter().flatten().collect();
    out.extend(named.iter().map(|group| unfitted(spectrum, floor, group)));
    out.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    out
}

/// The strongest bin of a group.
fn top_of(spectrum: &Spectrum, group: &[(usize, bool)]) -> usize {
    let power = |k: &usize| spectrum.power[*k];
    let bins = group.iter().map(|(k, _)| *k);
    bins.max_by(|a, b| power(a).total_cmp(&power(b))).unwrap_or(0)
}

/// A group of bins that is named by its strongest one: nothing is known of its shape.
fn unfitted(spectrum: &Spectrum, floor: &Floor, group: &[(usize, bool)]) -> Found {
    let top = top_of(spectrum, group);
    let width = (group[group.len() - 1].0 - group[0].0 + 1) as f64;
    let fit = Fit {
        bin: top as f64,
        bin_std: width / 2.355,
        offset: 0.0,
        amplitude: spectrum.bin(top as i64) / GAIN,
        drift: 0.0,
        drift_std: 0.0,
        damping: 0.0,
        left: 1.0,
        chi: 1.0,
        presence: presence(spectrum, top),
    };
    Found { shape: Shape::Broad, fit, ratio: spectrum.power[top] / floor.density[top], width }
}

/// Thresholds for one bin over a floor that rests on so many independent bins.
pub(super) struct Limits {
    limits: [f64; Limits::DRAWS.len()],
    /// With a floor that is known exactly.
    least: f64,
}

impl Limits {
    const DRAWS: [f64; 7] = [12.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0];

    /// For this logarithm of the probability per bin.
    pub(super) fn new(ln_bin: f64) -> Self {
        let limits = Self::DRAWS.map(|n| quantile_threshold(ln_bin, n, QUANTILE));
        Limits { limits, least: -ln_bin }
    }

    /// The threshold in units of the floor.
    pub(super) fn of(&self, draws: f64) -> f64 {
        let last = Self::DRAWS.len() - 1;
        if draws >= Self::DRAWS[last] {
            // The excess falls as 1/N.
            let excess = self.limits[last] - self.least;
            return self.least + excess * Self::DRAWS[last] / draws;
        }
        let at = Self::DRAWS.partition_point(|n| *n <= draws).clamp(1, last);
        let step = (Self::DRAWS[at] / Self::DRAWS[at - 1]).ln();
        let share = ((draws / Self::DRAWS[at - 1]).ln() / step).clamp(0.0, 1.0);
        self.limits[at - 1] * (self.limits[at] / self.limits[at - 1]).powf(share)
    }
}

/// Bins with the same threshold.
struct Piece {
    low: usize,
    high: usize,
    limit: f64,
    draws: f64,
}

/// Bins above the threshold, each with whether it is so alone rather than in a mean of several.
fn above(spectrum: &Spectrum, floor: &Floor, ln_bin: f64) -> Vec<(usize, bool)> {
    let limits = Limits::new(ln_bin - 2f64.ln());
    let bins = spectrum.power.len();
    // Piecewise the same threshold: that of the end with fewer draws.
    let mut borders: Vec<usize> = floor.cells.iter().map(|c| c.middle() as usize).collect();
    borders.insert(0, 0);
    borders.push(bins);
    let mut alone: Vec<usize> = Vec::new();
    let mut pieces = Vec::with_capacity(borders.len());
    let mut places = Vec::new();
    for ends in borders.windows(2) {
        let (low, high) = (ends[0], ends[1].max(ends[0]));
        let draws = floor.draws_at(low as f64).min(floor.draws_at(high as f64));
        let limit = limits.of(draws);
        pieces.push(Piece { low, high, limit, draws });
        places.clear();
        let range = low..high;
        places_over(&spectrum.power[range.clone()], &floor.density[range], limit, &mut places);
        alone.extend(places.iter().map(|k| low + k));
    }
    // Sums over several bins that noise reaches rarely, with a floor that is known exactly.
    let sums = WIDTHS.map(|width| {
        let shape = 1.0 + (width - 1) as f64 / (1.15 * correlated_bins());
        gamma_quantile(shape, ln_bin - 4f64.ln()) / shape * width as f64
    });
    let z = (-2.0 * ln_bin).sqrt();
    let stripes: Vec<usize> = (0..bins).step_by(STRIPE).collect();
    let wider = threads::map(&stripes, bins as u64, |start| {
        means_above(spectrum, floor, &pieces, &alone, (sums, z), *start)
    });
    let mut hits: Vec<(usize, bool)> = alone.iter().map(|k| (*k, true)).collect();
    hits.extend(wider.into_iter().flatten().map(|k| (k, false)));
    hits.sort_unstable_by_key(|(k, alone)| (*k, !*alone));
    hits.dedup_by_key(|(k, _)| *k);
    hits
}

/// Bins from `start` on, a stripe of them, around which means of several bins stand out, without what
/// stands out alone.
fn means_above(
    spectrum: &Spectrum,
    floor: &Floor,
    pieces: &[Piece],
    alone: &[usize],
    (most, z): ([f64; 2], f64),
    start: usize,
) -> Vec<usize> {
    /// Bins before and behind a stripe that its means reach.
    const HALF: usize = WIDTHS[1] / 2;
    let bins = spectrum.power.len();
    let (from, to) = (start.saturating_sub(HALF), (start + STRIPE + HALF).min(bins));
    let mut ratio: Vec<f32> = vec![0.0; to - from];
    ratios(&spectrum.power[from..to], &floor.density[from..to], &mut ratio);
    let reach = 2 * LOBE;
    let first = alone.partition_point(|k| k + reach < from);
    for k in alone[first..].iter().take_while(|k| **k <= to + reach) {
        let near = k.saturating_sub(reach).max(from)..(k + reach + 1).min(to);
        if near.start < near.end {
            ratio[near.start - from..near.end - from].fill(1.0);
        }
    }
    for piece in &pieces[pieces.partition_point(|p| p.high <= from)..] {
        let part = piece.low.max(from)..piece.high.min(to);
        if part.start >= part.end {
            break;
        }
        cap(&mut ratio[part.start - from..part.end - from], 0.5 * piece.limit as f32);
    }
    let (mut doubled, mut sums, mut places, mut out) = (vec![], vec![], vec![], vec![]);
    for (width, most) in WIDTHS.into_iter().zip(most).filter(|(width, _)| *width < bins) {
        running_sums(&ratio, width, &mut doubled, &mut sums);
        places.clear();
        // Most means are nowhere near.
        places_above(&sums, most as f32, &mut places);
        for place in places.iter().map(|p| *p as usize) {
            let middle = place + width / 2;
            let bin = from + middle;
            let piece = &pieces[pieces.partition_point(|p| p.high <= bin).min(pieces.len() - 1)];
            let scatter = 1.6 / piece.draws.max(1.0).sqrt();
            let own = (start..start + STRIPE).contains(&bin);
            if own && f64::from(sums[place]) > most * (scatter * z).exp() && ratio[middle] > 2.0 {
                out.push(bin);
            }
        }
    }
    out
}

vectorized! {
    fn ratios(power: &[f64], density: &[f64], out: &mut [f32]) {
        for ((r, p), d) in out.iter_mut().zip(power).zip(density) {
            *r = (p / d) as f32;
        }
    }
}

vectorized! {
    fn cap(values: &mut [f32], most: f32) {
        values.iter_mut().for_each(|v| *v = if *v < most { *v } else { most });
    }
}

/// A fitted bin among those that there are: around the end of a complex spectrum; a real one ends
/// at 0 and at half the rate.
fn on_circle(bin: f64, spectrum: &Spectrum) -> f64 {
    let n = spectrum.n as f64;
    if spectrum.real { bin.clamp(0.0, 0.5 * n) } else { bin.rem_euclid(n) }
}

/// One group of bins becomes lines, or a cluster, or something broad.
fn take_apart(spectrum: &Spectrum, floor: &Floor, group: &[(usize, bool)], out: &mut Vec<Found>) {
    let (low, high) = (group[0].0, group[group.len() - 1].0);
    let power = &spectrum.power[low..=high];
    let mut tops = peaks(power, PROMINENCE.ln(), LOBE);
    if tops.is_empty() {
        let top = (0..power.len()).max_by(|a, b| power[*a].total_cmp(&power[*b])).unwrap_or(0);
        tops.push(top);
    }
    tops.sort_by(|a, b| power[*b].total_cmp(&power[*a]));
    let count = tops.len();
    let length = high - low + 1;
    let half = if length < 24 * count { NARROW } else { WIDE };
    let is_alone = |k: usize| group.iter().any(|(g, alone)| *g == k && *alone);
    let fits: Vec<(usize, Fit)> = tops
        .iter()
        .take(MOST_FITTED)
        .map(|top| (low + top, fit(spectrum, low + top, floor.density[low + top], half)))
        .collect();
    let ratio = |k: usize| spectrum.power[k] / floor.density[k];
    let standing = fits.iter().filter(|(k, _)| is_alone(*k)).count();
    let pure: Vec<&(usize, Fit)> =
        fits.iter().filter(|(k, f)| is_alone(*k) && (f.left < PURE || f.chi < CLEAN)).collect();
    if !pure.is_empty() && length <= 40 * count + 40 && 2 * pure.len() >= standing {
        for (k, f) in pure {
            // What the model leaves beyond the floor makes its errors larger.
            let x = f.chi.max(1.0).sqrt();
            let moves = f.drift.abs() > (6.0 * f.drift_std * x).max(0.05);
            let drift = if moves { f.drift } else { 0.0 };
            out.push(Found {
                shape: Shape::Single,
                fit: Fit {
                    bin: on_circle(f.bin, spectrum),
                    bin_std: f.bin_std * x,
                    drift,
                    drift_std: f.drift_std * x,
                    ..*f
                },
                ratio: ratio(*k),
                width: f.damping.abs() / std::f64::consts::PI,
            });
        }
        return;
    }
    let top = tops[0];
    let half_power: Vec<usize> = (0..power.len())
        .filter(|k| power[*k] > 0.5 * power[top] && k.abs_diff(top) < 300)
        .collect();
    let width = (half_power[half_power.len() - 1] - half_power[0] + 1) as f64;
    let first = fits[0].1;
    out.push(Found {
        shape: if count == 1 { Shape::Broad } else { Shape::Cluster },
        fit: Fit {
            bin: (low + top) as f64,
            bin_std: width / 2.355,
            amplitude: spectrum.bin((low + top) as i64) / GAIN,
            drift: 0.0,
            damping: 0.0,
            ..first
        },
        ratio: ratio(low + top),
        width,
    });
}
