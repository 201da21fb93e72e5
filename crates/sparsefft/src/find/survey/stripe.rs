//! A stripe of the time-frequency plane: the tests of its tiles.

use super::plane::{Plane, Test, Tests, Tile};
use super::plane::{cap_at, pool, sum_rows};
use super::vector::{places_above, running_sums, sum_of, vectorized};

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

/// Channels by which a trail moves in each of its blocks, plus [`REACH`].
type Shifts = [usize; 2 * TRAIL + 1];

fn shifts_along(slope: f64) -> Shifts {
    std::array::from_fn(|j| (REACH as f64 + (slope * (j as f64 - TRAIL as f64)).round()) as usize)
}

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
    parts: Parts,
}

/// What [`POOLED`] channels of [`POOL`] blocks hold at most.
#[derive(Default)]
struct Parts {
    /// In one block: the sum of the largest ratios, and the largest.
    sums: Vec<f32>,
    largest: Vec<f32>,
    /// In one channel: the largest sum over the blocks.
    tallest: Vec<f32>,
}

impl Parts {
    fn new(sums: &[f32], largest: &[f32], channels: usize) -> Self {
        let mut parts = Parts::default();
        for (sums, largest) in sums.chunks_exact(channels).zip(largest.chunks_exact(channels)) {
            part_pools(sums, largest, &mut parts);
        }
        parts
    }
}

vectorized! {
    /// Adds the parts of one group of blocks.
    fn part_pools(sums: &[f32], largest: &[f32], out: &mut Parts) {
        let most = |part: &[f32]| part.iter().fold(0.0f32, |m, v| if *v > m { *v } else { m });
        out.sums.extend(largest.chunks(POOLED).map(|part| part.iter().sum::<f32>()));
        out.largest.extend(largest.chunks(POOLED).map(most));
        out.tallest.extend(sums.chunks(POOLED).map(most));
    }
}

/// Collects the columns of a group of blocks in which bounds, summed over so many groups and columns to
/// either side, lie above a limit.
fn above(
    (bounds, columns, half): (&[f32], usize, usize),
    group: usize,
    aside: usize,
    most: f32,
    scratch: &mut Scratch,
    out: &mut Vec<u32>,
) {
    let near = group.saturating_sub(aside)..(group + aside + 1).min(bounds.len() / columns);
    let pooled = &bounds[near.start * columns..near.end * columns];
    // Beyond the ends there is nothing.
    scratch.padded.clear();
    scratch.padded.resize(columns + 2 * half, 0.0);
    sum_rows(pooled, columns, near.len(), &mut scratch.padded[half..half + columns]);
    if half == 0 {
        return places_above(&scratch.padded, most, out);
    }
    running_sums(&scratch.padded, 2 * half + 1, &mut scratch.doubled, &mut scratch.sums);
    places_above(&scratch.sums, most, out);
}

/// Buffers of a test.
#[derive(Default)]
struct Scratch {
    padded: Vec<f32>,
    doubled: Vec<f32>,
    sums: Vec<f32>,
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
        let parts = Parts::new(&sums, &largest, channels);
        Stripe {
            plane,
            tests,
            first,
            rows,
            channels,
            mask,
            masked,
            hits: Vec::new(),
            sums,
            largest,
            totals,
            parts,
        }
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
        let groups = self.largest.len() / self.channels;
        let parts = self.channels.div_ceil(POOLED);
        // Groups of blocks that a tile with its middle in one of them reaches.
        let aside = (test.long / 2).div_ceil(POOL);
        let (mut places, mut out) = (Vec::new(), Vec::new());
        let mut scratch = Scratch::default();
        for group in 0..groups {
            places.clear();
            match (test.long, test.broad) {
                (1, broad) => {
                    let reach = (broad / 2).div_ceil(POOLED);
                    let bounds = (&self.parts.sums[..], parts, reach);
                    above(bounds, group, 0, test.most(), &mut scratch, &mut places);
                    self.spread(&mut places);
                }
                (_, 1) => {
                    let bounds = (&self.parts.tallest[..], parts, 0);
                    above(bounds, group, aside, test.most(), &mut scratch, &mut places);
                    self.spread(&mut places);
                }
                _ => {
                    let bounds = (&self.sums[..], self.channels, test.broad / 2);
                    above(bounds, group, aside, test.most(), &mut scratch, &mut places);
                }
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

    /// The channels of parts.
    fn spread(&self, places: &mut Vec<u32>) {
        let last = self.channels as u32;
        let channels = |part: &u32| part * POOLED as u32..((part + 1) * POOLED as u32).min(last);
        *places = places.iter().flat_map(channels).collect();
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
        let slopes = SLOPES.map(shifts_along);
        let parts = self.channels.div_ceil(POOLED);
        let mut trails = Vec::new();
        // Trails overlap: every other block as their middle sees them all.
        let begin = TRAIL + (self.first + TRAIL) % 2;
        for middle in (begin..self.rows.saturating_sub(TRAIL)).step_by(2) {
            for part in 0..parts {
                // No trail sums up to more than the largest slots that it can reach.
                let rows = middle - TRAIL..=middle + TRAIL;
                if rows.map(|row| near[row / POOL * parts + part]).sum::<f32>() > most {
                    self.trails_at(middle, part * POOLED, (cap, most), &slopes, &mut trails);
                }
            }
        }
        let mut out = Vec::new();
        for (middle, k, shifts) in trails {
            for direction in [-1, 1] {
                // From the middle outwards, until the line is gone for two blocks.
                let mut gone = 0;
                for j in (0..=TRAIL as isize).map(|j| j * direction) {
                    let channel = (k + shifts[(j + TRAIL as isize) as usize]).checked_sub(REACH);
                    let Some(channel) = channel.filter(|c| gone < 2 && *c < self.channels) else {
                        break;
                    };
                    let tile = ((middle as isize + j) as usize, channel);
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
        let mut out = Vec::with_capacity(self.parts.largest.len());
        for own in self.parts.largest.chunks_exact(parts) {
            let near = |i: usize| &own[i.saturating_sub(1)..(i + 2).min(parts)];
            let most = |i: usize| near(i).iter().fold(0.0f32, |m, v| m.max(*v)).min(cap);
            out.extend((0..parts).map(most));
        }
        out
    }

    /// The trails through channels `first` … of a block: (block, channel, shifts).
    fn trails_at(
        &self,
        middle: usize,
        first: usize,
        (cap, most): (f32, f32),
        slopes: &[Shifts],
        out: &mut Vec<(usize, usize, Shifts)>,
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
        for shifts in slopes {
            let mut sums = [0.0f32; POOLED];
            for (slots, shift) in slots.iter().zip(shifts) {
                let along = &slots[*shift..*shift + POOLED];
                sums.iter_mut().zip(along).for_each(|(s, v)| *s += v);
            }
            for (i, _) in sums.iter().enumerate().filter(|(_, sum)| **sum > most) {
                // Most of the trail carries it: half of it may lie in something else.
                let along = slots.iter().zip(shifts).map(|(slots, shift)| slots[shift + i]);
                let carried = along.filter(|r| *r > CARRYING).count();
                if carried >= MOST_OF_TRAIL && inner.contains(&(first + i)) {
                    out.push((middle, first + i, *shifts));
                }
            }
        }
    }
}
