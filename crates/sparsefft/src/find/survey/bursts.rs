//! Bursts: what is there only part of the time.
//!
//! The power of each channel is compared with a quantile over time, in tiles of several shapes
//! (time × frequency), each against what noise exceeds with the stated probability. Connected tiles
//! are one event. Channels are left out where short blocks cannot judge: where the floor is steep,
//! or where most of the expected power leaks in from other channels.

use super::blocks::{Blocks, block_window};
use super::floor::Floor;
use super::plane::{Plane, Tile, groups};
use super::vector::{largest_in, vectorized};
use crate::Complex;
use crate::dense::Real;
use rustfft::FftDirection;

/// Quantile over time that is the floor of a channel, and that of channels which are mostly busy.
const QUIET: f64 = 0.35;
const QUIETER: f64 = 0.1;
/// Blocks that quantiles are taken of: at least, and for how many tiles in all. An error of the
/// quantile raises every threshold, and of short blocks many cost little.
const SAMPLED: usize = 1 << 12;
const SAMPLED_TILES: usize = 1 << 19;
/// Channels over which the floor is at least the median.
const NEIGHBOURS: usize = 9;
/// Geometric mean of the density over the largest neighbour, below which a floor is steep.
const FLAT: f64 = 0.35;
/// Share of the expected power that may leak in from beyond the main lobe.
const LEAK: f64 = 0.1;
/// Points per channel of the convolution with the window's transform.
const FINE: usize = 8;
/// Fewest blocks that a quantile over time can be taken of.
pub(super) const FEWEST_BLOCKS: usize = 24;
/// Most events of one block length, those with the largest power: twice as many as are compared
/// with each other afterwards.
const MOST_EVENTS: usize = 4000;

/// Connected tiles that stand out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// Samples from … to.
    pub(super) start: f64,
    pub(super) end: f64,
    /// Frequencies in cycles per sample, 0 … 1.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Frequency of the strongest channel.
    pub(super) peak: f64,
    /// Energy, in squares of samples.
    pub(super) energy: f64,
    /// Largest power of a tile over the floor, and itself.
    pub(super) ratio: f64,
    pub(super) top: f64,
    /// Length of the blocks that saw it.
    pub(super) block: usize,
    /// The middle of the occupied channels in each block: (block, channel, channels).
    pub(super) ridge: Vec<(usize, f64, usize)>,
    /// Channels per block by which it moves, if it is a sweep.
    pub(super) slope: Option<f64>,
}

/// The events among blocks; `ln_p` is the logarithm of the probability that noise makes any.
pub(super) fn find(blocks: &Blocks, floor: &Floor, n: usize, real: bool, ln_p: f64) -> Vec<Event> {
    let (count, channels) = (blocks.count, blocks.channels);
    if count < FEWEST_BLOCKS {
        return Vec::new();
    }
    let quiet = quiet_levels(blocks);
    let bad = unjudged(blocks, floor, &quiet, n, real);
    let plane = Plane::new(blocks, &quiet, &bad);
    let hits = plane.hits(ln_p, sampled(blocks));
    let mut groups = groups(&hits, channels);
    if groups.len() > MOST_EVENTS {
        let power = |group: &Vec<Tile>| -> f64 {
            group.iter().map(|(b, k)| f64::from(blocks.power[b * channels + k])).sum()
        };
        let mut by_power: Vec<(f64, Vec<Tile>)> =
            groups.into_iter().map(|g| (power(&g), g)).collect();
        by_power.sort_by(|a, b| b.0.total_cmp(&a.0));
        by_power.truncate(MOST_EVENTS);
        groups = by_power.into_iter().map(|(_, g)| g).collect();
    }
    groups.iter().map(|group| event(blocks, &plane, group)).collect()
}

/// Blocks that tell the floor over time.
fn sampled(blocks: &Blocks) -> usize {
    blocks.count.min(SAMPLED.max(SAMPLED_TILES / blocks.channels))
}

/// The floor of each channel: a quantile over time, no less than its neighbourhood's.
fn quiet_levels(blocks: &Blocks) -> Vec<f32> {
    let (count, channels) = (blocks.count, blocks.channels);
    // Spread over the record without a period of its own.
    let sampled = sampled(blocks);
    let at = |i: usize| {
        if sampled == count {
            i
        } else {
            (i as f64 * 0.618_033_988_749_895).fract().mul_add(count as f64, 0.0) as usize
        }
    };
    let largest = f64::from(largest_in(&blocks.power));
    let least = 1e-9 * largest + 1e-30;
    let rows: Vec<usize> = (0..sampled).map(at).collect();
    let busy = 1.7f64.max(1.0 + 16.0 / (count as f64).sqrt());
    let rank = |q: f64| ((q * sampled as f64) as u32).min(sampled as u32 - 1);
    let mut gathered = vec![[0.0f32; LANES]; sampled];
    let mut raw: Vec<f64> = Vec::with_capacity(channels + LANES);
    for first in (0..channels).step_by(LANES) {
        let width = LANES.min(channels - first);
        for (to, row) in gathered.iter_mut().zip(&rows) {
            let from = row * channels + first;
            to[..width].copy_from_slice(&blocks.power[from..from + width]);
        }
        let unbiased = |v: f32, q: f64| (f64::from(v) / -f64::ln_1p(-q)).max(least);
        let usual = order_statistics(&gathered, rank(QUIET)).map(|v| unbiased(v, QUIET));
        // Mostly busy: the lower quantile lies far below what it is in noise of this level.
        let far = usual.map(|u| ((u / busy * -f64::ln_1p(-QUIETER)) as f32).to_bits());
        let counts = counts_below(&gathered, &far);
        if counts[..width].iter().all(|count| *count <= rank(QUIETER)) {
            raw.extend(&usual[..width]);
            continue;
        }
        let low = order_statistics(&gathered, rank(QUIETER)).map(|v| unbiased(v, QUIETER));
        let both = usual.iter().zip(&low).take(width);
        raw.extend(both.map(|(usual, low)| if *usual > busy * low { *low } else { *usual }));
    }
    let half = NEIGHBOURS / 2;
    (0..channels)
        .map(|k| {
            let mut near: Vec<f64> = (k as isize - half as isize..=(k + half) as isize)
                .map(|j| raw[j.clamp(0, channels as isize - 1) as usize])
                .collect();
            let median = *near.select_nth_unstable_by(half, f64::total_cmp).1;
            raw[k].max(median) as f32
        })
        .collect()
}

/// Channels whose order statistics are taken at once.
const LANES: usize = 16;

/// In each lane the value of this rank among values that are not negative, to 2·10⁻³ of itself: bit by
/// bit, since the bits of such numbers are ordered as they are.
fn order_statistics(values: &[[f32; LANES]], rank: u32) -> [f32; LANES] {
    /// Bits that are left open.
    const OPEN: u32 = 14;
    /// Values of which a guess is made, and the bits of the interval that is tried first: a factor of
    /// 16, with the guess in its middle.
    const FEW: usize = 32;
    const TRIED: u32 = 25;
    let few: Vec<[f32; LANES]> =
        values.iter().step_by(values.len().div_ceil(FEW).max(1)).copied().collect();
    let place = (rank as usize * few.len() / values.len()).min(few.len() - 1);
    let mut low = [0u32; LANES];
    for (lane, low) in low.iter_mut().enumerate() {
        let mut own: Vec<f32> = few.iter().map(|row| row[lane]).collect();
        let guess = *own.select_nth_unstable_by(place, f32::total_cmp).1;
        *low = guess.to_bits().saturating_sub(1 << (TRIED - 1));
    }
    let below = counts_below(values, &low);
    let not_above = counts_below(values, &low.map(|l| l + (1 << TRIED)));
    let holds = below.iter().zip(&not_above).all(|(a, b)| *a <= rank && *b > rank);
    let (mut found, first) = if holds { (low, TRIED) } else { ([0; LANES], 31) };
    for bit in (OPEN..first).rev() {
        let tried = found.map(|f| f + (1 << bit));
        let counts = counts_below(values, &tried);
        for ((f, t), count) in found.iter_mut().zip(&tried).zip(&counts) {
            *f = if *count <= rank { *t } else { *f };
        }
    }
    found.map(|f| f32::from_bits(f + (1 << (OPEN - 1))))
}

vectorized! {
    /// In each lane how many values have bits below these.
    fn counts_below(values: &[[f32; LANES]], bits: &[u32; LANES]) -> [u32; LANES] {
        let bits = bits.map(|b| b as i32);
        let mut below = [0u32; LANES];
        for row in values {
            for ((count, v), t) in below.iter_mut().zip(row).zip(&bits) {
                *count += u32::from((v.to_bits() as i32) < *t);
            }
        }
        below
    }
}

/// Channels that blocks of this length cannot judge.
pub(super) fn unjudged(
    blocks: &Blocks,
    floor: &Floor,
    quiet: &[f32],
    n: usize,
    real: bool,
) -> Vec<bool> {
    /// Largest over smallest level around a channel that is even most of the time: a burst lifts the
    /// density of the whole record, which is no steep floor then.
    const EVEN: f32 = 1.6;
    let (length, channels) = (blocks.length, blocks.channels);
    let fine = length * FINE;
    let channel_of = |k: usize| {
        let c = (k as f64 * length as f64 / n as f64 + 0.5) as usize;
        if real { c.min(channels - 1) } else { c % channels }
    };
    let (mut logs, mut sums, mut counts) =
        (vec![0.0; channels], vec![0.0; channels], vec![0.0f64; channels]);
    let (mut grid, mut members) = (vec![0.0; fine], vec![0.0; fine]);
    // The floor is smooth: two bins for each point tell it.
    let every = (floor.density.len() / (2 * fine)).max(1);
    for (k, density) in floor.density.iter().enumerate().step_by(every) {
        let c = channel_of(k);
        logs[c] += density.ln();
        sums[c] += density;
        counts[c] += 1.0;
        let g = (k as f64 * fine as f64 / n as f64 + 0.5) as usize % fine;
        grid[g] += density;
        members[g] += 1.0;
    }
    let mut last = floor.density[0];
    for (g, m) in grid.iter_mut().zip(&members) {
        if *m > 0.0 {
            *g /= m;
            last = *g;
        } else {
            *g = last;
        }
    }
    if real {
        for i in 1..fine / 2 {
            grid[fine - i] = grid[i];
        }
    }
    let mean = |k: usize| sums[k] / counts[k].max(1.0);
    let near = |k: usize| {
        let around = |j: isize| {
            let j = if real {
                j.clamp(0, channels as isize - 1)
            } else {
                j.rem_euclid(channels as isize)
            };
            mean(j as usize)
        };
        let k = k as isize;
        around(k - 1).max(around(k)).max(around(k + 1))
    };
    let (all, own) = leakage(blocks, &grid);
    (0..channels)
        .map(|k| {
            let geometric = (logs[k] / counts[k].max(1.0)).exp();
            // The ends of a real spectrum have half as many degrees of freedom.
            let end = real && (k == 0 || k == channels - 1);
            let around = &quiet[k.saturating_sub(2)..(k + 3).min(channels)];
            let range = |(low, high): (f32, f32), q: &f32| (low.min(*q), high.max(*q));
            let (low, high) = around.iter().fold((f32::INFINITY, 0.0), range);
            if high <= EVEN * low {
                return end;
            }
            end || geometric < FLAT * near(k) || own[k] < (1.0 - LEAK) * all[k]
        })
        .collect()
}

/// Expected power of every channel: all of it, and that from within the main lobe.
fn leakage(blocks: &Blocks, density: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let fine = density.len();
    let forward = f64::kernel(fine, FftDirection::Forward);
    let mut window = vec![Complex::ZERO; fine];
    for (z, w) in window.iter_mut().zip(block_window(blocks.length, blocks.wide)) {
        z.re = w;
    }
    forward.process(&mut window);
    let mut response: Vec<f64> = window.iter().map(|z| z.norm_sqr()).collect();
    let total: f64 = response.iter().sum();
    response.iter_mut().for_each(|r| *r /= total);
    // All of it as a circular convolution.
    let mut spectrum: Vec<Complex<f64>> = density.iter().map(|&d| d.into()).collect();
    let mut whole: Vec<Complex<f64>> = response.iter().map(|&r| r.into()).collect();
    forward.process(&mut spectrum);
    forward.process(&mut whole);
    whole.iter_mut().zip(&spectrum).for_each(|(z, s)| *z *= s);
    f64::kernel(fine, FftDirection::Inverse).process(&mut whole);
    let all = (0..blocks.channels).map(|k| whole[k * FINE % fine].re / fine as f64).collect();
    // The main lobe reaches few points.
    let reach = if blocks.wide { 2 * FINE } else { 3 * FINE / 2 };
    let own = |k: usize| -> f64 {
        let at = |d: usize| density[(k * FINE + fine + d - reach) % fine];
        let weight = |d: usize| response[d.abs_diff(reach)];
        (0..=2 * reach).map(|d| weight(d) * at(d)).sum()
    };
    (all, (0..blocks.channels).map(own).collect())
}

/// Power above the floor, summed over the blocks of a group: in each the channels that stand out and
/// those beside them, since tiles that are part of it may lie below the threshold.
fn energy_around(blocks: &Blocks, plane: &Plane<'_>, group: &[Tile]) -> f64 {
    /// Channels to each side, which the window's main lobe reaches.
    const BESIDE: usize = 2;
    let channels = blocks.channels;
    let (first, last) = (group[0].0, group[group.len() - 1].0);
    let mut sum = 0.0;
    let mut span = (group[0].1, group[0].1);
    let mut members = group.iter().peekable();
    for block in first..=last {
        let mut own: Option<(usize, usize)> = None;
        while let Some(&&(_, k)) = members.peek().filter(|(b, _)| *b == block) {
            own = Some(own.map_or((k, k), |(low, high)| (low.min(k), high.max(k))));
            members.next();
        }
        // A block in which nothing stands out is like the one before it.
        span = own.unwrap_or(span);
        let row = block * channels;
        for k in span.0.saturating_sub(BESIDE)..=(span.1 + BESIDE).min(channels - 1) {
            let (s, r) = (f64::from(blocks.power[row + k]), f64::from(plane.ratio((block, k))));
            if r > 0.0 {
                sum += s - s / r;
            }
        }
    }
    sum.max(0.0)
}

/// What a group of tiles says.
fn event(blocks: &Blocks, plane: &Plane<'_>, group: &[Tile]) -> Event {
    let scale = 1.0 / blocks.length as f64;
    let first = group[0].0;
    let last = group[group.len() - 1].0;
    let (mut low, mut high) = (usize::MAX, 0);
    let rows = last - first + 1;
    let (mut power, mut weight, mut place, mut occupied) =
        (vec![0.0; rows], vec![0.0; rows], vec![0.0; rows], vec![0usize; rows]);
    let mut strongest_tile = (0.0f64, 0);
    let (mut ratio, mut top) = (0.0f64, 0.0f64);
    let mut strongest = vec![0.0f32; rows];
    for &(block, k) in group {
        let most = &mut strongest[block - first];
        *most = most.max(blocks.power[block * blocks.channels + k]);
    }
    for &(block, k) in group {
        let at = block * blocks.channels + k;
        let (r, s) = (f64::from(plane.ratio((block, k))), f64::from(blocks.power[at]));
        let row = block - first;
        power[row] += s;
        weight[row] += r;
        place[row] += r * k as f64;
        // Without the side lobes.
        occupied[row] += usize::from(blocks.power[at] > 0.01 * strongest[row]);
        low = low.min(k);
        high = high.max(k + 1);
        ratio = ratio.max(r);
        top = top.max(s);
        // Of equal ones the highest channel.
        if r > strongest_tile.0 || (r == strongest_tile.0 && k > strongest_tile.1) {
            strongest_tile = (r, k);
        }
    }
    let total: f64 = power.iter().sum();
    let until = |share: f64| {
        let mut sum = 0.0;
        power.iter().position(|p| {
            sum += p;
            sum >= share * total
        })
    };
    // The times hold 99 % of the energy.
    let (from, to) = (until(0.005).unwrap_or(0), until(0.995).unwrap_or(rows - 1));
    let (length, hop) = (blocks.length as f64, blocks.hop as f64);
    let peak = strongest_tile.1;
    let ridge = (0..rows)
        .filter(|i| weight[*i] > 0.0)
        .map(|i| (first + i, place[i] / weight[i], occupied[i]))
        .collect();
    // Of channels that are not judged nothing stands above the floor; then the tiles count as they are.
    let around = energy_around(blocks, plane, group);
    let energy = if around > 0.0 { around } else { total } * hop * scale;
    Event {
        start: (first + from) as f64 * hop + 0.25 * length,
        end: (first + to) as f64 * hop + 0.75 * length,
        low: ((low as f64 - 0.5) * scale).max(0.0),
        high: (high as f64 - 0.5) * scale,
        peak: peak as f64 * scale,
        energy,
        ratio,
        top,
        block: blocks.length,
        ridge,
        slope: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_are_those_of_sorted_lanes() {
        let value = |i: usize, lane: usize| ((i * 7919 + lane * 31) % 1009) as f32 * 1e-3;
        let values: Vec<[f32; LANES]> =
            (0..300).map(|i| std::array::from_fn(|lane| value(i, lane))).collect();
        for rank in [0u32, 30, 105, 299] {
            let found = order_statistics(&values, rank);
            for (lane, found) in found.iter().enumerate() {
                let mut sorted: Vec<f32> = (0..300).map(|i| value(i, lane)).collect();
                sorted.sort_by(f32::total_cmp);
                let expected = sorted[rank as usize];
                assert!((found - expected).abs() <= 2e-3 * expected + 1e-30, "{lane} {rank}");
            }
        }
    }
}
