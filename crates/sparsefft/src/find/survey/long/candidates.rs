//! Candidates of lines: bins of the mean power spectrum that stand above their neighbours.
//!
//! The mean over many frames has little scatter, so that a line stands out by fractions of a decibel;
//! a smooth model of the floor would have to be better than that over the whole band. Bins are
//! compared with the medians of the bins beside the main lobe instead, on the side where they are higher.

use super::super::chance::gamma_quantile;
use super::super::spectrum::{GAIN, LOBE, response};

/// Bins on each side that the level is taken of, and how many of them must be there.
const SIDE: usize = 16;
const FEWEST: usize = 8;
/// How much wider than that of one bin the scatter of a bin over such a median is: 16 bins under
/// this window are 6 independent ones, and their median has 1.57 times the variance of their mean.
const WIDER: f64 = 1.13;
/// Spectra up to which the quantile is computed; beyond, the excess falls as the root of their number.
const MANY: f64 = 1000.0;
/// Residual over noise from which on a peak is no single steady line.
const IMPURE: f64 = 4.0;
/// Rounds of the fit.
const ROUNDS: usize = 6;

/// A peak of the mean power spectrum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// The bin at its top.
    pub(super) top: usize,
    /// Where the line is, in bins, and its standard deviation.
    pub(super) bin: f64,
    pub(super) bin_std: f64,
    /// Power of the line in the bin where it lies, above the floor.
    pub(super) power: f64,
    pub(super) power_std: f64,
    /// Level of the floor beside it.
    pub(super) density: f64,
    /// Power of the top over that level.
    pub(super) ratio: f64,
    /// Width at half power in bins, where it is wider than a line.
    pub(super) width: f64,
}

/// Power over the quiet parts from which on the side lobes of a line may reach above the floor.
const TOWERING: f64 = 1e8;
/// Power of the side lobes of the window, times the sixth power of the distance in bins: they fall by
/// 18 dB per octave, to -178 dB at 256 bins.
const SIDE_LOBES: f64 = 4.5e-4;
/// Power beyond the main lobe of a line, over that of its top.
const GONE: f64 = 1e-6;
/// Share of the quiet level at which side lobes no longer matter.
const HARMLESS: f64 = 0.05;
/// Most lines whose side lobes are masked.
const MOST_MASKS: usize = 64;

/// Bins around a very strong line in which its side lobes hide the floor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mask {
    pub(super) top: usize,
    reach: usize,
    bins: usize,
    real: bool,
}

impl Mask {
    pub(super) fn contains(&self, k: usize) -> bool {
        let d = self.top.abs_diff(k);
        d <= self.reach || (!self.real && self.bins - d <= self.reach)
    }

    /// Replaces these bins by what is beside them, log-linearly.
    pub(super) fn fill(&self, power: &mut [f64]) {
        let (bins, reach) = (self.bins as isize, self.reach as isize);
        let place = |k: isize| -> Option<usize> {
            if self.real {
                usize::try_from(k).ok().filter(|k| *k < self.bins)
            } else {
                Some(k.rem_euclid(bins) as usize)
            }
        };
        let top = self.top as isize;
        let level = |from: isize| -> Option<f64> {
            let mut near: Vec<f64> =
                (from..from + SIDE as isize).filter_map(|k| Some(power[place(k)?])).collect();
            let middle = near.len() / 2;
            (near.len() >= FEWEST).then(|| *near.select_nth_unstable_by(middle, f64::total_cmp).1)
        };
        let (left, right) = (level(top - reach - SIDE as isize), level(top + reach + 1));
        let Some(either) = left.or(right) else { return };
        let (left, right) = (left.unwrap_or(either), right.unwrap_or(either));
        for d in -reach..=reach {
            if let Some(k) = place(top + d) {
                let share = (d + reach + 1) as f64 / (2 * reach + 2) as f64;
                power[k] = left * (right / left).powf(share);
            }
        }
    }
}

/// The places where side lobes hide the floor, those of the strongest lines first.
pub(super) fn masks(power: &[f64], real: bool) -> Vec<Mask> {
    let bins = power.len();
    let mut some: Vec<f64> = power.iter().step_by(bins.div_ceil(4096)).copied().collect();
    let rank = some.len() / 10;
    let quiet = *some.select_nth_unstable_by(rank, f64::total_cmp).1;
    let mut tops: Vec<usize> = (0..bins).filter(|k| power[*k] > TOWERING * quiet).collect();
    tops.sort_by(|a, b| power[*b].total_cmp(&power[*a]).then(a.cmp(b)));
    let mut out: Vec<Mask> = Vec::new();
    for top in tops {
        if out.len() == MOST_MASKS || out.iter().any(|m| m.contains(top)) {
            continue;
        }
        // A steep floor towers, too; a line is gone beyond its main lobe.
        let beside = [top.checked_sub(LOBE + 1), Some(top + LOBE + 1).filter(|k| *k < bins)];
        if !beside.into_iter().flatten().all(|k| power[k] < GONE * power[top]) {
            continue;
        }
        let lobes = power[top] / quiet * SIDE_LOBES / HARMLESS;
        let reach = lobes.max(1.0).powf(1.0 / 6.0).ceil() as usize + LOBE;
        out.push(Mask { top, reach: reach.min(bins / 8), bins, real });
    }
    out
}

/// The ratio that the mean of so many bins of noise exceeds with probability e^`ln_bin`.
pub(super) fn limit(spectra: f64, ln_bin: f64) -> f64 {
    let some = spectra.clamp(1.0, MANY);
    let excess = gamma_quantile(some, ln_bin) / some - 1.0;
    1.0 + WIDER * excess * (some / spectra.max(some)).sqrt()
}

/// The bins that stand out: noise makes one of them with probability e^`ln_bin`.
pub(super) fn find(power: &[f64], real: bool, spectra: f64, ln_bin: f64) -> Vec<Candidate> {
    let limit = limit(spectra, ln_bin);
    let bins = power.len() as isize;
    let at = |k: isize| -> Option<f64> {
        if real {
            power.get(usize::try_from(k).ok()?).copied()
        } else {
            Some(power[k.rem_euclid(bins) as usize])
        }
    };
    let mut out = Vec::new();
    for k in 0..bins {
        let own = power[k as usize];
        let lobe = LOBE as isize;
        let is_top = (1..=lobe)
            .all(|d| at(k - d).is_none_or(|p| p < own) && at(k + d).is_none_or(|p| p <= own));
        if !is_top {
            continue;
        }
        let side = |sign: isize| -> Option<f64> {
            let range = lobe + 2..lobe + 2 + SIDE as isize;
            let mut values: Vec<f64> = range.filter_map(|d| at(k + sign * d)).collect();
            let middle = values.len() / 2;
            (values.len() >= FEWEST)
                .then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
        };
        let level = side(-1).unwrap_or(0.0).max(side(1).unwrap_or(0.0)).max(f64::MIN_POSITIVE);
        if own > limit * level {
            out.push(fit(&at, k, level, spectra));
        }
    }
    out.sort_by(|a, b| b.power.total_cmp(&a.power).then(a.top.cmp(&b.top)));
    out
}

/// Place and power of a line from the bins of its main lobe, by weighted least squares.
fn fit(at: &dyn Fn(isize) -> Option<f64>, k: isize, density: f64, spectra: f64) -> Candidate {
    const STEP: f64 = 1e-3;
    let lobe = LOBE as isize;
    let shape = |x: f64| (response(x) / GAIN).powi(2);
    let around: Vec<(f64, f64)> =
        (-lobe..=lobe).filter_map(|d| Some((d as f64, at(k + d)?))).collect();
    let top = at(k).unwrap_or(density);
    let (mut place, mut power) = (0.0f64, (top - density).max(0.01 * density));
    let (mut place_std, mut power_std, mut chi) = (0.5, power, 0.0);
    for _ in 0..ROUNDS {
        let [mut aa, mut ab, mut bb, mut ra, mut rb] = [0.0; 5];
        chi = 0.0;
        for &(d, p) in &around {
            let s = shape(d - place);
            let slope = power * (shape(d - place - STEP) - shape(d - place + STEP)) / (2.0 * STEP);
            // A steady line beside noise: the noise's own scatter, and the product of both.
            let variance = (density * density + 2.0 * density * power * s) / spectra;
            let left = p - density - power * s;
            chi += left * left / variance;
            aa += slope * slope / variance;
            ab += slope * s / variance;
            bb += s * s / variance;
            ra += slope * left / variance;
            rb += s * left / variance;
        }
        let determinant = (aa * bb - ab * ab).max(1e-300);
        let step = (ra * bb - rb * ab) / determinant;
        power = (power + (rb * aa - ra * ab) / determinant).max(0.01 * density);
        place = (place + step.clamp(-0.3, 0.3)).clamp(-1.0, 1.0);
        place_std = (bb / determinant).sqrt();
        power_std = (aa / determinant).sqrt();
    }
    chi /= (around.len() as f64 - 2.0).max(1.0);
    let half = |sign: isize| {
        (1..256).find(|d| at(k + sign * d).is_none_or(|p| p - density < 0.5 * (top - density)))
    };
    let width = (half(-1).unwrap_or(256) + half(1).unwrap_or(256) - 1) as f64;
    // A line under this window is less than 3 bins wide.
    let broad = chi > IMPURE && width > 3.0;
    Candidate {
        top: k as usize,
        bin: k as f64 + place,
        bin_std: if broad { width / 2.355 } else { place_std * chi.max(1.0).sqrt() },
        power,
        power_std: power_std * chi.max(1.0).sqrt(),
        density,
        ratio: top / density,
        width: if broad { width } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_fall_to_one_with_many_spectra() {
        // One bin is exponential; many are normal: z = 4.75 at 1e-6.
        assert!((limit(1.0, -10.0) - (1.0 + WIDER * 9.0)).abs() < 1e-6);
        let many = limit(1e4, (1e-6f64).ln()) - 1.0;
        assert!((many / WIDER - 0.0475).abs() < 0.003, "{many}");
    }

    #[test]
    fn a_line_is_placed_between_the_bins() {
        let power: Vec<f64> =
            (0..256).map(|k| 1.0 + 3.0 * (response(k as f64 - 100.3) / GAIN).powi(2)).collect();
        let found = find(&power, true, 1000.0, -14.0);
        assert_eq!(found.len(), 1);
        assert!((found[0].bin - 100.3).abs() < 1e-4, "{:?}", found[0]);
        assert!((found[0].power - 3.0).abs() < 1e-3);
        assert!(find(&power, true, 4.0, -14.0).is_empty());
    }
}
