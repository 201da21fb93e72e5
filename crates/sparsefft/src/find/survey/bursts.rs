//! Bursts: what is there only part of the time.
//!
//! The power of each channel is compared with a quantile over time, in tiles of several shapes
//! (time × frequency), each against what noise exceeds with the stated probability. Connected tiles
//! are one event. Channels are left out where short blocks cannot judge: where the floor is steep,
//! or where most of the expected power leaks in from other channels.

use super::blocks::{Blocks, block_window};
use super::chance::gamma_quantile;
use super::floor::Floor;
use crate::Complex;
use crate::dense::Real;
use rustfft::FftDirection;

/// Quantile over time that is the floor of a channel, and that of channels which are mostly busy.
const QUIET: f64 = 0.35;
const QUIETER: f64 = 0.1;
/// Blocks that quantiles are taken of.
const SAMPLED: usize = 2048;
/// Channels over which the floor is at least the median.
const NEIGHBOURS: usize = 9;
/// Geometric mean of the density over the largest neighbour, below which a floor is steep.
const FLAT: f64 = 0.35;
/// Share of the expected power that may leak in from beyond the main lobe.
const LEAK: f64 = 0.1;
/// Side lobes a few channels away, of Hann and of Hann squared.
const SPILL: [f32; 2] = [1e-5, 1e-7];
/// Power over the floor from which on they matter.
const TOWERING: f32 = 1e3;
/// Points per channel of the convolution with the window's transform.
const FINE: usize = 8;
/// Tiles: blocks × channels; 0 stands for all channels.
const TILES: [[usize; 2]; 7] = [[1, 1], [1, 5], [1, 25], [5, 1], [5, 5], [17, 1], [1, 0]];
/// Fewest blocks that a quantile over time can be taken of.
pub(super) const FEWEST_BLOCKS: usize = 24;
/// Blocks that a moving line is summed over, half of them, and its slopes in channels per block.
const TRAIL: isize = 4;
/// Tiles of a trail that must stand above the floor by this ratio.
const MOST_OF_TRAIL: usize = 7;
const CARRYING: f32 = 1.5;
const SLOPES: [f64; 8] = [-2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0];
/// Most tiles that are joined to events; beyond, the strongest threshold that leaves so many.
const MOST_HITS: usize = 1 << 20;

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
    let mut ratio = blocks.power.clone();
    let spill = SPILL[usize::from(blocks.wide)];
    for row in ratio.chunks_exact_mut(channels) {
        // Side lobes of what is far above its floor at this time are no events of their own.
        let towers = row.iter().zip(&quiet).filter(|(p, f)| **p > TOWERING * **f);
        let leaked = spill * towers.fold(0.0f32, |m, (p, _)| m.max(*p));
        for ((r, f), bad) in row.iter_mut().zip(&quiet).zip(&bad) {
            *r /= f.max(leaked);
            if *bad {
                *r = r.min(1.0);
            }
        }
    }
    let mut plane =
        Plane { channels, count, wide: blocks.wide, ratio, hit: vec![false; count * channels] };
    let good: Vec<usize> = (0..channels).filter(|k| !bad[*k]).collect();
    let tiles = (count * channels) as f64;
    let ln_tile = ln_p - tiles.ln() - (TILES.len() as f64).ln();
    for [long, broad] in TILES {
        plane.test(long, broad, ln_tile, &good);
    }
    if count >= 32 && channels > 40 {
        plane.test_moving(ln_p - tiles.ln() - (SLOPES.len() as f64).ln());
    }
    let scale = 1.0 / blocks.length as f64;
    let mut events = Vec::new();
    for group in plane.groups() {
        events.push(event(blocks, &plane, &group, scale));
    }
    events
}

/// The floor of each channel: a quantile over time, no less than its neighbourhood's.
fn quiet_levels(blocks: &Blocks) -> Vec<f32> {
    let (count, channels) = (blocks.count, blocks.channels);
    // Spread over the record without a period of its own.
    let sampled = count.min(SAMPLED);
    let at = |i: usize| {
        if sampled == count {
            i
        } else {
            (i as f64 * 0.618_033_988_749_895).fract().mul_add(count as f64, 0.0) as usize
        }
    };
    let largest = f64::from(blocks.power.iter().fold(0.0f32, |m, p| m.max(*p)));
    let least = 1e-9 * largest + 1e-30;
    let mut values = vec![0.0f32; sampled];
    let busy = 1.7f64.max(1.0 + 16.0 / (count as f64).sqrt());
    let raw: Vec<f64> = (0..channels)
        .map(|k| {
            for (i, v) in values.iter_mut().enumerate() {
                *v = blocks.power[at(i) * channels + k];
            }
            let mut quantile = |q: f64| {
                let rank = ((q * sampled as f64) as usize).min(sampled - 1);
                let v = f64::from(*values.select_nth_unstable_by(rank, f32::total_cmp).1);
                (v / -f64::ln_1p(-q)).max(least)
            };
            let (usual, low) = (quantile(QUIET), quantile(QUIETER));
            if usual > busy * low { low } else { usual }
        })
        .collect();
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
    // The floor is smooth: a part of its bins tells it.
    let every = (floor.density.len() / (16 * fine)).max(1);
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
            end || geometric < FLAT * near(k) || own[k * FINE] < (1.0 - LEAK) * all[k * FINE]
        })
        .collect()
}

/// Expected power at every place of a fine grid: all of it, and that from within the main lobe.
fn leakage(blocks: &Blocks, density: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let fine = density.len();
    let forward = f64::kernel(fine, FftDirection::Forward);
    let mut window = vec![Complex::ZERO; fine];
    for (z, w) in window.iter_mut().zip(block_window(blocks.length, blocks.wide)) {
        z.re = w;
    }
    forward.process(&mut window);
    let response: Vec<f64> = window.iter().map(|z| z.norm_sqr()).collect();
    let total: f64 = response.iter().sum();
    let reach = if blocks.wide { 2.0 } else { 1.5 } * FINE as f64;
    let part = |near: bool| -> Vec<Complex<f64>> {
        let keep = |i: usize| !near || i.min(fine - i) as f64 <= reach;
        let of = |(i, r): (usize, &f64)| if keep(i) { r / total } else { 0.0 };
        response.iter().enumerate().map(of).map(Complex::from).collect()
    };
    let mut spectrum: Vec<Complex<f64>> = density.iter().map(|&d| d.into()).collect();
    forward.process(&mut spectrum);
    let inverse = f64::kernel(fine, FftDirection::Inverse);
    let convolved = |near: bool| -> Vec<f64> {
        let mut z = part(near);
        forward.process(&mut z);
        z.iter_mut().zip(&spectrum).for_each(|(z, s)| *z *= s);
        inverse.process(&mut z);
        z.iter().map(|z| z.re / fine as f64).collect()
    };
    (convolved(false), convolved(true))
}

/// The time-frequency plane: power over the floor, and which tiles stand out.
struct Plane {
    channels: usize,
    count: usize,
    wide: bool,
    ratio: Vec<f32>,
    hit: Vec<bool>,
}

impl Plane {
    /// Marks tiles of this shape that noise exceeds with probability e^`ln_tile` at most.
    fn test(&mut self, long: usize, broad: usize, ln_tile: f64, good: &[usize]) {
        let whole = broad == 0;
        let broad = if whole { self.channels } else { broad };
        if long > self.count / 3 || broad > self.channels || good.is_empty() {
            return;
        }
        // Degrees of freedom of overlapped blocks and neighbouring channels.
        let over_time = (0.8 * long as f64 + 0.2).max(1.0);
        let overlap = if self.wide { 0.33 } else { 0.45 };
        let over_frequency = (1.0 + (broad - 1) as f64 * overlap).max(1.0);
        let shape = over_time * over_frequency;
        let error = 1.45 / (self.count as f64).sqrt() / (broad as f64).powf(0.25);
        let z = (-2.0 * ln_tile).sqrt();
        let limit = gamma_quantile(shape, ln_tile) / shape * (z * error).min(1.5).exp();
        if whole {
            return self.test_whole(limit, good);
        }
        if long == 1 && broad == 1 {
            let hits = self.hit.iter_mut().zip(&self.ratio);
            return hits.for_each(|(hit, r)| *hit |= *r > limit as f32);
        }
        let cap =
            if long > 1 { limit * long as f64 / (long as f64 / 4.0).max(2.0) } else { f64::MAX };
        let most = (limit * (long * broad) as f64) as f32;
        let channels = self.channels;
        let mut rows: Vec<Vec<f32>> = vec![vec![0.0; channels]; long];
        let mut sum = vec![0.0f32; channels];
        let mut wide = vec![0.0f32; channels];
        for block in 0..self.count {
            // What smaller tiles have found, and what it spills into the blocks and channels beside
            // it, does not carry a larger one.
            let from = block * channels;
            let slot = &mut rows[block % long];
            slot.iter_mut()
                .zip(&self.ratio[from..from + channels])
                .for_each(|(out, r)| *out = r.min(cap as f32));
            let aside = usize::from(long > 1);
            for near in block.saturating_sub(aside)..(block + aside + 1).min(self.count) {
                let hits = &self.hit[near * channels..(near + 1) * channels];
                for k in (0..channels).filter(|k| hits[*k]) {
                    let beside = if broad > 1 { 2 } else { 0 };
                    let range = k.saturating_sub(beside)..(k + beside + 1).min(channels);
                    slot[range].iter_mut().for_each(|out| *out = out.min(1.0));
                }
            }
            if block + 1 < long {
                continue;
            }
            sum.fill(0.0);
            for row in &rows {
                sum.iter_mut().zip(row).for_each(|(s, r)| *s += r);
            }
            let middle = (block + 1 - long + long / 2) * channels;
            let tested = if broad > 1 {
                sums_of_neighbours(&sum, broad, &mut wide);
                &wide
            } else {
                &sum
            };
            let hits = self.hit[middle..middle + channels].iter_mut();
            for ((hit, r), sum) in hits.zip(&self.ratio[middle..]).zip(tested) {
                *hit |= *sum > most && *r > 1.5;
            }
        }
    }

    /// Blocks of which the mean over all channels stands out.
    fn test_whole(&mut self, limit: f64, good: &[usize]) {
        for block in 0..self.count {
            let from = block * self.channels;
            let (row, hit) =
                (&self.ratio[from..from + self.channels], &self.hit[from..from + self.channels]);
            // What stands out by itself, and what it spills into its neighbours, does not carry all.
            let beside =
                |k: usize| hit[k.saturating_sub(2)..(k + 3).min(hit.len())].iter().any(|hit| *hit);
            let of = |k: &usize| if beside(*k) { 1.0 } else { f64::from(row[*k]) };
            let mean = good.iter().map(of).sum::<f64>() / good.len() as f64;
            if mean > limit {
                for k in 0..self.channels {
                    self.hit[from + k] |= self.ratio[from + k] > 1.5;
                }
            }
        }
    }

    /// Lines that move: sums along slopes.
    fn test_moving(&mut self, ln_tile: f64) {
        let blocks = (2 * TRAIL + 1) as f64;
        let error = 1.45 / (self.count as f64).sqrt() / 2.0;
        let shape = 0.8 * blocks + 0.2;
        let limit =
            gamma_quantile(shape, ln_tile) / shape * ((-2.0 * ln_tile).sqrt() * error).exp();
        let (channels, count) = (self.channels as isize, self.count as isize);
        let cap = (2.0 * limit) as f32;
        let capped: Vec<f32> = self.ratio.iter().map(|r| r.min(cap)).collect();
        let most = (limit * blocks) as f32;
        let mut sum = vec![0.0f32; self.channels];
        let mut marks = Vec::new();
        // Trails overlap: every other block as their middle sees them all.
        for middle in (TRAIL..count - TRAIL).step_by(2) {
            for slope in SLOPES {
                sum.fill(0.0);
                for j in -TRAIL..=TRAIL {
                    let shift = (slope * j as f64).round() as isize;
                    let (from, to) = (0.max(-shift), channels.min(channels - shift));
                    let row = ((middle + j) * channels + shift + from) as usize;
                    let part = &capped[row..row + (to - from) as usize];
                    sum[from as usize..to as usize].iter_mut().zip(part).for_each(|(s, r)| *s += r);
                }
                let inner = 9..self.channels.saturating_sub(9);
                for k in inner.filter(|k| sum[*k] > most) {
                    // Most of the trail carries it: half of it may lie in something else.
                    let along = |j: isize| {
                        let channel = k as isize + (slope * j as f64).round() as isize;
                        capped[((middle + j) * channels + channel) as usize]
                    };
                    let carrying = (-TRAIL..=TRAIL).filter(|j| along(*j) > CARRYING).count();
                    if carrying >= MOST_OF_TRAIL {
                        marks.push((middle, k as isize, slope));
                    }
                }
            }
        }
        for (middle, k, slope) in marks {
            for direction in [-1, 1] {
                // From the middle outwards, until the line is gone for two blocks.
                let mut gone = 0;
                for j in (0..=TRAIL).map(|j| j * direction) {
                    let channel = k + (slope * j as f64).round() as isize;
                    if gone == 2 || !(0..channels).contains(&channel) {
                        break;
                    }
                    let at = ((middle + j) * channels + channel) as usize;
                    let there = self.ratio[at] > 2.0;
                    self.hit[at] |= there;
                    gone = if there { 0 } else { gone + 1 };
                }
            }
        }
    }

    /// Groups of tiles that touch, or have one tile between them.
    fn groups(&self) -> Vec<Vec<(usize, usize)>> {
        let mut hits: Vec<usize> = (0..self.hit.len()).filter(|i| self.hit[*i]).collect();
        if hits.len() > MOST_HITS {
            let by_ratio = |a: &usize, b: &usize| self.ratio[*b].total_cmp(&self.ratio[*a]);
            hits.select_nth_unstable_by(MOST_HITS, by_ratio);
            hits.truncate(MOST_HITS);
            hits.sort_unstable();
        }
        let mut parent: Vec<u32> = (0..hits.len() as u32).collect();
        fn root(parent: &mut [u32], mut i: u32) -> u32 {
            while parent[i as usize] != i {
                parent[i as usize] = parent[parent[i as usize] as usize];
                i = parent[i as usize];
            }
            i
        }
        // The place of every hit in the list, for the rows that a tile can touch.
        const NONE: u32 = u32::MAX;
        let mut recent: Vec<(usize, Vec<u32>)> = vec![(usize::MAX, vec![NONE; self.channels]); 3];
        for (i, &at) in hits.iter().enumerate() {
            let (block, k) = (at / self.channels, at % self.channels);
            let own = block % 3;
            if recent[own].0 != block {
                recent[own] = (block, vec![NONE; self.channels]);
            }
            for (row, places) in &recent {
                if *row == usize::MAX || row.abs_diff(block) > 2 {
                    continue;
                }
                let near = &places[k.saturating_sub(2)..(k + 3).min(self.channels)];
                for &place in near.iter().filter(|place| **place != NONE) {
                    let (a, b) = (root(&mut parent, i as u32), root(&mut parent, place));
                    parent[a as usize] = b;
                }
            }
            recent[own].1[k] = i as u32;
        }
        let mut by_root: std::collections::BTreeMap<u32, Vec<(usize, usize)>> = Default::default();
        for (i, &at) in hits.iter().enumerate() {
            let r = root(&mut parent, i as u32);
            by_root.entry(r).or_default().push((at / self.channels, at % self.channels));
        }
        by_root.into_values().collect()
    }
}

/// Sums over so many neighbours, an odd number; beyond the ends there is nothing.
fn sums_of_neighbours(row: &[f32], width: usize, out: &mut [f32]) {
    let half = width / 2;
    let mut sum: f32 = row[..half.min(row.len())].iter().sum();
    for k in 0..row.len() {
        sum += row.get(k + half).copied().unwrap_or(0.0);
        out[k] = sum;
        sum -= if k >= half { row[k - half] } else { 0.0 };
    }
}

/// Power above the floor, summed over the blocks of a group: in each the channels that stand out and
/// those beside them, since tiles that are part of it may lie below the threshold.
fn energy_around(blocks: &Blocks, plane: &Plane, group: &[(usize, usize)]) -> f64 {
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
            let (s, r) = (f64::from(blocks.power[row + k]), f64::from(plane.ratio[row + k]));
            if r > 0.0 {
                sum += s - s / r;
            }
        }
    }
    sum.max(0.0)
}

/// What a group of tiles says.
fn event(blocks: &Blocks, plane: &Plane, group: &[(usize, usize)], scale: f64) -> Event {
    let first = group[0].0;
    let last = group[group.len() - 1].0;
    let (mut low, mut high) = (usize::MAX, 0);
    let rows = last - first + 1;
    let (mut power, mut weight, mut place, mut occupied) =
        (vec![0.0; rows], vec![0.0; rows], vec![0.0; rows], vec![0usize; rows]);
    let mut by_channel: std::collections::BTreeMap<usize, f64> = Default::default();
    let (mut ratio, mut top) = (0.0f64, 0.0f64);
    let mut strongest = vec![0.0f32; rows];
    for &(block, k) in group {
        let most = &mut strongest[block - first];
        *most = most.max(blocks.power[block * blocks.channels + k]);
    }
    for &(block, k) in group {
        let at = block * blocks.channels + k;
        let (r, s) = (f64::from(plane.ratio[at]), f64::from(blocks.power[at]));
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
        let most = by_channel.entry(k).or_insert(0.0);
        *most = most.max(r);
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
    let peak = by_channel.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or(low, |(k, _)| *k);
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
