//! The local floor: power density over frequency, which neither a line nor a burst lifts.
//!
//! 1. Cells of bins, half overlapped, whose width grows with the frequency for real signals.
//! 2. In each the 0.4-quantile of the power over the *shape* that the floor has inside the cell: the
//!    slope of the straight piece around it, or that to both neighbours where there is none. Four
//!    times: flat, with the slopes of the first round, and twice without what stands 7 times above
//!    the round before. Every round is a new estimate rather than a correction of the last:
//!    corrections at every knot would deconvolve the noise of overlapping cells, and a shape taken
//!    from neighbours that a burst has lifted would sink what lies beside it.
//! 3. Neighbouring cells that lie on a straight line (in logarithms) are replaced by that line, as
//!    wide as the cells agree with it: more bins, less scatter.

use super::chance::gamma_quantile;
use super::spectrum::LOBE;
use super::vector::{places_over, vectorized};
use crate::cpu::threads;

/// The order statistic of the floor.
pub(super) const QUANTILE: f64 = 0.4;
/// The same where a cell is occupied nearly everywhere.
const SPARE_QUANTILE: f64 = 0.25;
/// Fewest bins of a cell.
const NARROWEST: f64 = 64.0;
/// Width of a cell of a real signal as a share of its frequency.
const RELATIVE: f64 = 0.12;
/// Cells of the widest kind that fit into the spectrum.
const CELLS: usize = 128;
/// Bins this many times above the floor leave its sample, with the main lobe around them.
const CLIP: f64 = 7.0;
/// Most bins of a cell that its quantile is taken of: it is then good to a twentieth.
const SAMPLED: usize = 1024;
/// Share of a cell that must be left after clipping.
const FEWEST_LEFT: f64 = 0.15;
/// Reduced chi-square, and largest single deviation, up to which cells are one straight piece.
const STRAIGHT: f64 = 1.3;
const OUTLYING: f64 = 3.5;
/// Variance of the logarithm of a quantile, times the number of independent bins.
const VARIANCE: f64 = 4.0;

/// A cell of the floor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// Bins low … high-1.
    pub(super) low: usize,
    pub(super) high: usize,
    /// ln of the density that the quantile of this cell alone gives.
    pub(super) ln_density: f64,
    /// Independent bins that this rests on.
    pub(super) draws: f64,
    /// The same of the straight piece around the cell.
    smooth: f64,
    /// Its slope, over bins or, of real signals, over the logarithm of the bin.
    slope: f64,
    pub(super) smooth_draws: f64,
}

impl Cell {
    /// The middle in bins.
    pub(super) fn middle(&self) -> f64 {
        0.5 * (self.low + self.high - 1) as f64
    }

    /// Divides values of every so many bins of the cell by the shape that its slope makes, which is
    /// 1 in the middle.
    fn flatten(&self, values: &mut [f64], every: usize, real: bool) {
        /// Values between which the shape is a straight line.
        const STEP: usize = 16;
        /// A cell this much narrower than its place is curved little.
        const NARROW: usize = 4;
        if self.slope == 0.0 {
            return;
        }
        let middle = self.middle();
        let shape = |i: usize| {
            let k = (self.low + i * every) as f64;
            let away = if real { ((k + 1.0) / (middle + 1.0)).ln() } else { k - middle };
            (-self.slope * away).exp()
        };
        let curved = real && NARROW * (self.high - self.low) > self.low;
        let step = if curved { 1 } else { STEP };
        let mut from = shape(0);
        for (i, group) in values.chunks_mut(step).enumerate() {
            let to = shape((i + 1) * step);
            let turn = (to - from) / step as f64;
            for (j, v) in group.iter_mut().enumerate() {
                *v *= from + turn * j as f64;
            }
            from = to;
        }
    }
}

/// The local floor.
#[derive(Debug)]
pub(super) struct Floor {
    /// Density of every bin.
    pub(super) density: Vec<f64>,
    pub(super) cells: Vec<Cell>,
}

impl Floor {
    /// The floor of a power spectrum, of which so many neighbouring bins count as one.
    pub(super) fn of(power: &[f64], real: bool, correlated: f64) -> Self {
        Self::of_mean(power, real, correlated, 1.0)
    }

    /// The floor of the mean of so many independent power spectra.
    pub(super) fn of_mean(power: &[f64], real: bool, correlated: f64, spectra: f64) -> Self {
        let mut floor =
            Floor { density: vec![1.0; power.len()], cells: cells_of(power.len(), real) };
        let mut clipped = vec![false; power.len()];
        for round in 0..4 {
            if round >= 2 {
                floor.fill(real);
                mark_above(power, &floor.density, &mut clipped);
            }
            floor.estimate(power, (round >= 2).then_some(&clipped[..]), correlated, real, spectra);
            floor.smooth(real);
        }
        floor.fill(real);
        floor
    }

    /// Independent bins that the floor rests on at this bin.
    pub(super) fn draws_at(&self, bin: f64) -> f64 {
        let at = self.cells.partition_point(|c| c.middle() <= bin);
        let Some(last) = at.checked_sub(1) else { return self.cells[0].smooth_draws };
        let (a, b) = (&self.cells[last], &self.cells[at.min(self.cells.len() - 1)]);
        if last == at.min(self.cells.len() - 1) {
            return a.smooth_draws;
        }
        let share = (bin - a.middle()) / (b.middle() - a.middle());
        a.smooth_draws + share * (b.smooth_draws - a.smooth_draws)
    }

    /// The quantile of each cell, over the shape of the straight piece around it.
    fn estimate(
        &mut self,
        power: &[f64],
        clipped: Option<&[bool]>,
        correlated: f64,
        real: bool,
        spectra: f64,
    ) {
        let units = [QUANTILE, SPARE_QUANTILE].map(|q| unit_quantile(q, spectra));
        threads::map_mut(&mut self.cells, power.len() as u64, |cell| {
            let every = (cell.high - cell.low).div_ceil(SAMPLED);
            let mut relative: Vec<f64> =
                power[cell.low..cell.high].iter().step_by(every).copied().collect();
            cell.flatten(&mut relative, every, real);
            let sampled = relative.len();
            let mut left = sampled;
            let mut values = relative.clone();
            if let Some(clipped) = clipped {
                // What is clipped counts as far above everything.
                let clipped = clipped[cell.low..cell.high].iter().step_by(every);
                for (v, _) in values.iter_mut().zip(clipped).filter(|(_, clipped)| **clipped) {
                    *v = f64::INFINITY;
                    left -= 1;
                }
            }
            // Which quantile of the noise it is, and its share of the draws, which are cut off at CLIP.
            let mut unit = units[0];
            let mut q = QUANTILE * clipped.map_or(1.0, |_| 1.0 - (-CLIP).exp());
            if (left as f64) < FEWEST_LEFT * sampled as f64 {
                // Occupied nearly everywhere: the weakest quarter is all there is to go by.
                (values, left) = (relative, sampled);
                (q, unit) = (SPARE_QUANTILE, units[1]);
            }
            let rank = ((q * left as f64) as usize).min(left - 1);
            let value = order_statistic(&mut values, rank);
            let unbiased = value / unit;
            cell.ln_density = unbiased.max(1e-300).ln();
            // A cell that is sampled thinly has independent bins; else neighbours are correlated.
            let apart = (correlated / every as f64).max(1.0);
            cell.draws = left as f64 / apart * spectra;
        });
    }

    /// Replaces cells by the widest straight piece that they agree with.
    fn smooth(&mut self, real: bool) {
        let place = |c: &Cell| if real { (c.middle() + 1.0).ln() } else { c.middle() };
        let of: Vec<[f64; 3]> =
            self.cells.iter().map(|c| [place(c), c.ln_density, c.draws / VARIANCE]).collect();
        for (j, cell) in self.cells.iter_mut().enumerate() {
            (cell.smooth, cell.smooth_draws) = (cell.ln_density, cell.draws);
            cell.slope = common_slope(&of, j);
            for half in [2, 4, 8, 16] {
                let piece = &of[j.saturating_sub(half)..(j + half + 1).min(of.len())];
                if piece.len() < half + 2 {
                    continue;
                }
                if let Some((value, slope, variance)) = straight(piece, of[j][0]) {
                    cell.smooth = value;
                    cell.slope = slope;
                    // Cells overlap by half, so that twice as many are not twice as much.
                    cell.smooth_draws = 0.5 * VARIANCE / variance;
                }
            }
        }
    }

    /// The density of every bin, log-linear between the middles of cells.
    fn fill(&mut self, real: bool) {
        let knots: Vec<(f64, f64)> = self.cells.iter().map(|c| (c.middle(), c.smooth)).collect();
        let (first, last) = (knots[0], knots[knots.len() - 1]);
        // Below the first cell: the slope of the first ones, and only rising towards zero.
        let mut slope = 0.0;
        if real && knots.len() > 5 {
            let some: Vec<[f64; 3]> =
                knots[..4].iter().map(|(m, y)| [(m + 1.0).ln(), *y, 1.0]).collect();
            slope = slope_of(&some).clamp(-4.0, 0.0);
        }
        let mut at = 0;
        let end = self.density.len();
        let ln_at = |k: f64, at: usize| -> f64 {
            if k <= first.0 {
                let k = k.max(LOBE as f64);
                return first.1 + slope * ((k + 1.0) / (first.0 + 1.0)).ln().min(0.0);
            }
            if k >= last.0 {
                return last.1;
            }
            let ((a, y), (b, z)) = (knots[at], knots[at + 1]);
            let place = |k: f64| if real { (k + 1.0).ln() } else { k };
            y + (z - y) * (place(k) - place(a)) / (place(b) - place(a))
        };
        let mut k = 0;
        while k < end {
            while at + 2 < knots.len() && knots[at + 1].0 <= k as f64 {
                at += 1;
            }
            // Pieces short enough that a straight line in logarithms follows the curve, none of them
            // beyond the next knot.
            let border = if at + 1 < knots.len() && knots[at + 1].0 > k as f64 {
                knots[at + 1].0.ceil() as usize
            } else {
                end
            };
            let next = (k + 1 + k / 32).min(k + 256).min(border).min(end);
            let from = ln_at(k as f64, at);
            let to = ln_at(next as f64, at);
            let turn = ((to - from) / (next - k) as f64).exp();
            geometric(from.exp(), turn, &mut self.density[k..next]);
            k = next;
        }
    }
}

/// Quantile of the mean of so many independent draws of unit mean.
fn unit_quantile(q: f64, draws: f64) -> f64 {
    /// From here on the quantile lies within 0.3 % of the mean, and so does that of fewer draws.
    const MANY: f64 = 1e4;
    let shape = draws.clamp(1.0, MANY);
    if shape == 1.0 { -f64::ln_1p(-q) } else { gamma_quantile(shape, f64::ln_1p(-q)) / shape }
}

/// Cells over so many bins.
fn cells_of(bins: usize, real: bool) -> Vec<Cell> {
    let widest = NARROWEST.max((bins / CELLS) as f64);
    let mut cells = Vec::new();
    let mut low = 0.0;
    let cell = |low: usize, high: usize| Cell {
        low,
        high,
        ln_density: 0.0,
        draws: 0.0,
        smooth: 0.0,
        slope: 0.0,
        smooth_draws: 0.0,
    };
    loop {
        let width = if real { (RELATIVE * low).clamp(NARROWEST, widest) } else { widest };
        if low + width >= bins as f64 {
            let start = bins.saturating_sub(width as usize);
            // The last one ends with the spectrum; one that nearly coincides with it gives way.
            if cells.last().is_some_and(|c: &Cell| start < c.low + width as usize / 4) {
                cells.pop();
            }
            cells.push(cell(start, bins));
            return cells;
        }
        cells.push(cell(low as usize, (low + width) as usize));
        low += 0.5 * width;
    }
}

/// Marks bins far above the density, and the main lobe around them.
fn mark_above(power: &[f64], density: &[f64], marked: &mut [bool]) {
    marked.fill(false);
    let mut above = Vec::new();
    places_over(power, density, CLIP, &mut above);
    for k in above {
        let end = (k + LOBE + 1).min(marked.len());
        marked[k.saturating_sub(LOBE)..end].fill(true);
    }
}

/// The value of this rank among positive values, which are reordered; of many values to 2·10⁻³ of
/// itself, bit by bit, since the bits of such numbers are ordered as they are.
fn order_statistic(values: &mut [f64], rank: usize) -> f64 {
    /// Values of which a guess is made, from this many on.
    const FEW: usize = 32;
    const MANY: usize = 256;
    /// Bits of the interval around the guess, a factor of 16, and bits that are left open.
    const TRIED: u32 = 54;
    const OPEN: u32 = 43;
    if values.len() >= MANY {
        let mut few: Vec<f64> = values.iter().step_by(values.len() / FEW).copied().collect();
        let place = (rank * few.len() / values.len()).min(few.len() - 1);
        let guess = *few.select_nth_unstable_by(place, f64::total_cmp).1;
        let mut found = guess.to_bits().saturating_sub(1 << (TRIED - 1));
        let rank = rank as u64;
        if count_below(values, found) <= rank && count_below(values, found + (1 << TRIED)) > rank {
            for bit in (OPEN..TRIED).rev() {
                let tried = found + (1 << bit);
                found = if count_below(values, tried) <= rank { tried } else { found };
            }
            return f64::from_bits(found + (1 << (OPEN - 1)));
        }
    }
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

vectorized! {
    /// How many positive values have bits below these.
    fn count_below(values: &[f64], bits: u64) -> u64 {
        const LANES: usize = 16;
        let bits = bits as i64;
        let mut parts = [0u64; LANES];
        for chunk in values.chunks(LANES) {
            for (count, v) in parts.iter_mut().zip(chunk) {
                *count += u64::from((v.to_bits() as i64) < bits);
            }
        }
        parts.iter().sum()
    }
}

vectorized! {
    /// Fills in the powers of `turn`, times the first value.
    fn geometric(first: f64, turn: f64, out: &mut [f64]) {
        const LANES: usize = 8;
        let mut values = [first; LANES];
        for j in 1..LANES {
            values[j] = values[j - 1] * turn;
        }
        let leap = turn * turn * turn * turn * turn * turn * turn * turn;
        for chunk in out.chunks_mut(LANES) {
            chunk.iter_mut().zip(&values).for_each(|(o, v)| *o = *v);
            values.iter_mut().for_each(|v| *v *= leap);
        }
    }
}

/// The smaller one of the slopes to either neighbour where they have the same sign, else none: what
/// is beside a step does not follow it.
fn common_slope(points: &[[f64; 3]], j: usize) -> f64 {
    let between =
        |a: usize, b: usize| (points[b][1] - points[a][1]) / (points[b][0] - points[a][0]);
    let before = (j > 0).then(|| between(j - 1, j));
    let after = (j + 1 < points.len()).then(|| between(j, j + 1));
    match (before, after) {
        (Some(a), Some(b)) if a * b > 0.0 => a.signum() * a.abs().min(b.abs()),
        (Some(_), Some(_)) | (None, None) => 0.0,
        (Some(one), None) | (None, Some(one)) => one,
    }
}

/// The straight line through points [place, value, weight], if they agree with it: its value at a
/// place, its slope, and the variance of the value.
fn straight(points: &[[f64; 3]], at: f64) -> Option<(f64, f64, f64)> {
    let weight: f64 = points.iter().map(|p| p[2]).sum();
    let mean = |i: usize| points.iter().map(|p| p[2] * p[i]).sum::<f64>() / weight;
    let (middle, level) = (mean(0), mean(1));
    let spread: f64 = points.iter().map(|p| p[2] * (p[0] - middle).powi(2)).sum();
    let slope = points.iter().map(|p| p[2] * (p[0] - middle) * p[1]).sum::<f64>() / spread;
    let mut chi = 0.0;
    for p in points {
        let off = (p[1] - level - slope * (p[0] - middle)) * p[2].sqrt();
        if off.abs() > OUTLYING {
            return None;
        }
        chi += off * off;
    }
    let value = level + slope * (at - middle);
    let variance = 1.0 / weight + (at - middle).powi(2) / spread;
    (chi < STRAIGHT * points.len() as f64).then_some((value, slope, variance))
}

/// Slope of the straight line through points.
fn slope_of(points: &[[f64; 3]]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p[0] / n, y + p[1] / n));
    let spread: f64 = points.iter().map(|p| (p[0] - x).powi(2)).sum();
    points.iter().map(|p| (p[0] - x) * (p[1] - y)).sum::<f64>() / spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_are_those_of_sorted_values() {
        for count in [10usize, 300, 1024] {
            let mut values: Vec<f64> =
                (0..count).map(|i| (((i * 7919) % 1009) as f64 * 0.02 - 10.0).exp()).collect();
            values[3] = f64::INFINITY;
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            for rank in [0, count / 3, count - 2] {
                let found = order_statistic(&mut values, rank);
                assert!((found / sorted[rank] - 1.0).abs() < 2e-3, "{count} {rank}");
            }
        }
    }
}
