//! A stripe of the time-frequency plane: the tests of its tiles.

use super::plane::{Plane, Test, Tests, Tile};
use super::plane::{cap_at, pool, sum_rows};
use super::vector::{largest_in, places_above, running_sums, sum_of};

/// Ratio that a channel must have by itself in the middle of a tile that stands out.
const CARRIED: f32 = 1.5;
/// Blocks that a moving line is summed over, half of them, and its slopes in channels per block.
pub(super) const TRAIL: usize = 4;
pub(super) const SLOPES: [f64; 8] = [-2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0];
/// Channels that a trail moves by at most, to either side.
const REACH: usize = 8;
/// Tiles of a trail that must stand above the floor by this ratio.
const MOST_OF_TRAIL: usize = 7;
const CARRYING: f32 = 1.5;
/// Ratio of the tiles along a trail that belong to it.
const ON_TRAIL: f32 = 2.0;
/// Channels from either end at which trails are not looked for.
const MARGIN: usize = REACH + 1;
/// Blocks, and channels, whose ratios are put together to tell where no tile can stand out.
pub(super) const POOL: usize = 4;
const POOLED: usize = 8;
/// Blocks around a stripe, a multiple of [`POOL`]: 8 of the longest tile, 2 each of two more, and 1
/// beside each of these three where a hit is not counted again.
const AROUND: usize = 16;

/// What a tile is: a hit, or beside one in the ways in which tests leave it out.
const HIT: u8 = 1;
const SAME_BLOCK: u8 = 2;
const SAME_CHANNEL: u8 = 4;
const AROUND_HIT: u8 = 8;

/// Some blocks of a plane with those around them.
pub(super) struct Stripe<'a> {
    plane: &'a Plane<'a>,
    tests: &'a Tests,
    /// First block, and blocks.
    first: usize,
    rows: usize,
    channels: usize,
    /// What each tile is; empty while there are no hits.
    mask: Vec<u8>,
    /// Which blocks have tiles that are anything.
    masked: Vec<bool>,
    hits: Vec<Tile>,
    /// Sums of capped ratios over [`POOL`] blocks, the largest ratio of them, and sums over channels.
    sums: Vec<f32>,
    largest: Vec<f32>,
    totals: Vec<f32>,
}

impl<'a> Stripe<'a> {
    pub(super) fn new(plane: &'a Plane<'a>, tests: &'a Tests, from: usize, to: usize) -> Self {
        let channels = plane.blocks.channels;
        let first = from.saturating_sub(AROUND);
        let rows = (to + AROUND).min(plane.blocks.count) - first;
        let long = tests.tiles.iter().filter(|t| t.long > 1);
        let cap = long.map(Test::cap).fold(0.0, f32::max);
        let pools = rows.div_ceil(POOL) * channels;
        let (mut sums, mut largest) = (vec![0.0; pools], vec![0.0; pools]);
        let mut ratio = vec![0.0; channels];
        let totals = (0..rows)
            .map(|row| {
                plane.ratios(first + row, 0, &mut ratio);
                let own = row / POOL * channels..(row / POOL + 1) * channels;
                pool(&ratio, cap, &mut sums[own.clone()], &mut largest[own])
            })
            .collect();
        let (mask, masked) = (Vec::new(), vec![false; rows]);
        let hits = Vec::new();
        Stripe { plane, tests, first, rows, channels, mask, masked, hits, sums, largest, totals }
    }

    /// The tiles of blocks from … to that stand out.
    pub(super) fn hits(mut self, from: usize, to: usize) -> Vec<Tile> {
        for test in &self.tests.tiles {
            let found = match (test.whole, test.long, test.broad) {
                (true, ..) => self.whole(test),
                (_, 1, 1) => self.alone(test),
                _ => self.tiles(test),
            };
            // A test sees what earlier ones have found.
            found.iter().for_each(|tile| self.mark(*tile));
        }
        if let Some(limit) = self.tests.trail {
            let found = self.moving(limit);
            found.iter().for_each(|tile| self.mark(*tile));
        }
        self.hits.sort_unstable();
        let global = self.hits.iter().map(|(row, k)| (self.first + row, *k));
        global.filter(|(block, _)| (from..to).contains(block)).collect()
    }

    fn ratio(&self, row: usize, k: usize) -> f32 {
        self.plane.ratio((self.first + row, k))
    }

    fn mark(&mut self, (row, k): Tile) {
        if self.mask.is_empty() {
            self.mask = vec![0; self.rows * self.channels];
        }
        if self.mask[row * self.channels + k] & HIT != 0 {
            return;
        }
        self.hits.push((row, k));
        self.mask[row * self.channels + k] |= HIT;
        let near = k.saturating_sub(2)..(k + 3).min(self.channels);
        for r in row.saturating_sub(1)..(row + 2).min(self.rows) {
            self.masked[r] = true;
            let bits = &mut self.mask[r * self.channels..(r + 1) * self.channels];
            bits[k] |= SAME_CHANNEL;
            let beside = AROUND_HIT | if r == row { SAME_BLOCK } else { 0 };
            bits[near.clone()].iter_mut().for_each(|b| *b |= beside);
        }
    }

    /// What a test sums of a block from channel `first` on: what smaller tiles have found, and what it
    /// spills into the blocks and channels beside it, does not carry a larger one.
    fn slots(&self, row: usize, first: usize, cap: f32, left_out: u8, out: &mut [f32]) {
        self.plane.ratios(self.first + row, first, out);
        cap_at(out, cap);
        if self.masked[row] && left_out != 0 {
            let bits = &self.mask[row * self.channels + first..];
            for (slot, _) in out.iter_mut().zip(bits).filter(|(_, b)| **b & left_out != 0) {
                *slot = slot.min(1.0);
            }
        }
    }

    /// Tiles that stand out by themselves.
    fn alone(&self, test: &Test) -> Vec<Tile> {
        let (mut places, mut out) = (Vec::new(), Vec::new());
        for (group, largest) in self.largest.chunks_exact(self.channels).enumerate() {
            places.clear();
            places_above(largest, test.limit as f32, &mut places);
            for k in places.iter().map(|k| *k as usize) {
                let rows = group * POOL..((group + 1) * POOL).min(self.rows);
                let above = rows.filter(|row| self.ratio(*row, k) > test.limit as f32);
                out.extend(above.map(|row| (row, k)));
            }
        }
        out
    }

    /// Tiles of one shape.
    fn tiles(&self, test: &Test) -> Vec<Tile> {
        let (channels, half) = (self.channels, test.broad / 2);
        let groups = self.largest.len() / channels;
        // Groups of blocks that a tile with its middle in one of them reaches.
        let aside = (test.long / 2).div_ceil(POOL);
        let mut padded = vec![0.0f32; channels + 2 * half];
        let (mut doubled, mut sums, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut out = Vec::new();
        for group in 0..groups {
            let own = &mut padded[half..half + channels];
            if test.long > 1 {
                let near = group.saturating_sub(aside)..(group + aside + 1).min(groups);
                let pooled = &self.sums[near.start * channels..near.end * channels];
                sum_rows(pooled, channels, near.len(), own);
            } else {
                own.copy_from_slice(&self.largest[group * channels..(group + 1) * channels]);
            }
            places.clear();
            if test.broad > 1 {
                running_sums(&padded, test.broad, &mut doubled, &mut sums);
                places_above(&sums, test.most(), &mut places);
            } else {
                places_above(&padded, test.most(), &mut places);
            }
            // Places near each other are examined together.
            let mut rest = &places[..];
            while let Some(first) = rest.first() {
                let apart = |w: &[u32]| (w[1] - w[0]) as usize > test.broad + POOLED;
                let count = rest.windows(2).position(apart).map_or(rest.len(), |i| i + 1);
                let run = *first as usize..rest[count - 1] as usize + 1;
                rest = &rest[count..];
                self.examine(test, group, run, &mut out);
            }
        }
        out
    }

    /// Examines tiles with their middles in a group of blocks and in these channels.
    fn examine(
        &self,
        test: &Test,
        group: usize,
        middles: std::ops::Range<usize>,
        out: &mut Vec<Tile>,
    ) {
        let (half, before) = (test.broad / 2, test.long / 2);
        let left_out = match (test.long, test.broad) {
            (1, _) => SAME_BLOCK,
            (_, 1) => SAME_CHANNEL,
            _ => AROUND_HIT,
        };
        let rows = (group * POOL).saturating_sub(before)
            ..((group + 1) * POOL + test.long - before - 1).min(self.rows);
        // Beyond the ends there is nothing.
        let width = middles.len() + 2 * half;
        let inside = middles.start.saturating_sub(half)..(middles.end + half).min(self.channels);
        let from = inside.start + half - middles.start;
        let mut slots = vec![0.0f32; rows.len() * width];
        for (row, slots) in rows.clone().zip(slots.chunks_exact_mut(width)) {
            let own = &mut slots[from..from + inside.len()];
            self.slots(row, inside.start, test.cap(), left_out, own);
        }
        let mut columns = vec![0.0f32; width];
        let (mut doubled, mut sums, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for start in rows.start..(rows.end + 1).saturating_sub(test.long) {
            let middle = start + before;
            if middle / POOL != group {
                continue;
            }
            let window = &slots[(start - rows.start) * width..];
            sum_rows(window, width, test.long, &mut columns);
            places.clear();
            if test.broad > 1 {
                running_sums(&columns, test.broad, &mut doubled, &mut sums);
                places_above(&sums, test.most(), &mut places);
            } else {
                places_above(&columns, test.most(), &mut places);
            }
            let channels = places.iter().map(|k| middles.start + *k as usize);
            let carried = channels.filter(|k| self.ratio(middle, *k) > CARRIED);
            out.extend(carried.map(|k| (middle, k)));
        }
    }

    /// Blocks of which the mean over all channels stands out.
    fn whole(&self, test: &Test) -> Vec<Tile> {
        let least = (test.limit * self.tests.good as f64) as f32;
        let mut slots = vec![0.0f32; self.channels];
        let mut out = Vec::new();
        for row in (0..self.rows).filter(|row| self.totals[*row] > least) {
            self.slots(row, 0, f32::MAX, 0, &mut slots);
            if self.masked[row] {
                // What stands out by itself, and what it spills into its neighbours, does not carry
                // all.
                let bits = &self.mask[row * self.channels..];
                for (slot, _) in slots.iter_mut().zip(bits).filter(|(_, b)| **b & SAME_BLOCK != 0) {
                    *slot = 1.0;
                }
            }
            slots.iter_mut().zip(&self.plane.judged).for_each(|(s, judged)| *s *= judged);
            if sum_of(&slots) > least {
                let stand = (0..self.channels).filter(|k| self.ratio(row, *k) > CARRIED);
                out.extend(stand.map(|k| (row, k)));
            }
        }
        out
    }

    /// Lines that move: sums along slopes.
    fn moving(&self, limit: f64) -> Vec<Tile> {
        let (cap, most) = ((2.0 * limit) as f32, (limit * (2 * TRAIL + 1) as f64) as f32);
        let near = self.largest_near(cap);
        let parts = self.channels.div_ceil(POOLED);
        let mut trails = Vec::new();
        // Trails overlap: every other block as their middle sees them all.
        let begin = TRAIL + (self.first + TRAIL) % 2;
        for middle in (begin..self.rows.saturating_sub(TRAIL)).step_by(2) {
            for part in 0..parts {
                // No trail sums up to more than the largest slots that it can reach.
                let rows = middle - TRAIL..=middle + TRAIL;
                if rows.map(|row| near[row / POOL * parts + part]).sum::<f32>() > most {
                    self.trails_at(middle, part * POOLED, (cap, most), &mut trails);
                }
            }
        }
        let mut out = Vec::new();
        for (middle, k, slope) in trails {
            for direction in [-1, 1] {
                // From the middle outwards, until the line is gone for two blocks.
                let mut gone = 0;
                for j in (0..=TRAIL as isize).map(|j| j * direction) {
                    let channel = k as isize + (slope * j as f64).round() as isize;
                    if gone == 2 || !(0..self.channels as isize).contains(&channel) {
                        break;
                    }
                    let tile = ((middle as isize + j) as usize, channel as usize);
                    let there = self.ratio(tile.0, tile.1) > ON_TRAIL;
                    out.extend(there.then_some(tile));
                    gone = if there { 0 } else { gone + 1 };
                }
            }
        }
        out
    }

    /// For each group of blocks and part of the channels the largest slot of it and of the parts
    /// beside it.
    fn largest_near(&self, cap: f32) -> Vec<f32> {
        let parts = self.channels.div_ceil(POOLED);
        let mut out = Vec::with_capacity(self.largest.len() / POOLED + parts);
        for largest in self.largest.chunks_exact(self.channels) {
            let own: Vec<f32> = largest.chunks(POOLED).map(|part| largest_in(part).min(cap)).collect();
            let near = |i: usize| &own[i.saturating_sub(1)..(i + 2).min(parts)];
            out.extend((0..parts).map(|i| near(i).iter().fold(0.0f32, |m, v| m.max(*v))));
        }
        out
    }

    /// The trails through channels `first` … of a block: (block, channel, slope).
    fn trails_at(
        &self,
        middle: usize,
        first: usize,
        (cap, most): (f32, f32),
        out: &mut Vec<(usize, usize, f64)>,
    ) {
        const WIDTH: usize = POOLED + 2 * REACH;
        let inner = MARGIN..self.channels.saturating_sub(MARGIN);
        // Beyond the ends there is nothing.
        let mut slots = [[0.0f32; WIDTH]; 2 * TRAIL + 1];
        let inside = first.saturating_sub(REACH)..(first + POOLED + REACH).min(self.channels);
        let from = inside.start + REACH - first;
        for (j, slots) in slots.iter_mut().enumerate() {
            let own = &mut slots[from..from + inside.len()];
            self.slots(middle + j - TRAIL, inside.start, cap, 0, own);
        }
        for slope in SLOPES {
            let shift = |j: usize| {
                (REACH as f64 + (slope * (j as f64 - TRAIL as f64)).round()) as usize
            };
            let mut sums = [0.0f32; POOLED];
            for (j, slots) in slots.iter().enumerate() {
                let along = &slots[shift(j)..shift(j) + POOLED];
                sums.iter_mut().zip(along).for_each(|(s, v)| *s += v);
            }
            for (i, _) in sums.iter().enumerate().filter(|(_, sum)| **sum > most) {
                // Most of the trail carries it: half of it may lie in something else.
                let carrying = |j: &usize| slots[*j][shift(*j) + i] > CARRYING;
                let carried = (0..=2 * TRAIL).filter(carrying).count();
                if carried >= MOST_OF_TRAIL && inner.contains(&(first + i)) {
                    out.push((middle, first + i, slope));
                }
            }
        }
    }
}
