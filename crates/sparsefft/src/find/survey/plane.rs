//! The time-frequency plane: which tiles stand out of the floor over time.
//!
//! Tiles of several shapes are tested one shape after the other, since what a small tile has found
//! does not carry a larger one. The plane is worked through in stripes of blocks, each with as many
//! blocks around it as the tests reach: a stripe fits the cache, and stripes are independent, so that
//! threads share them and the answer does not depend on their number.

use super::blocks::Blocks;
use super::chance::gamma_quantile;
use super::vector::{places_above, running_sums, sum_of, vectorized};
use crate::cpu::threads;

/// Side lobes a few channels away, of Hann and of Hann squared.
const SPILL: [f32; 2] = [1e-5, 1e-7];
/// Power over the floor from which on they matter.
const TOWERING: f32 = 1e3;
/// Tiles: blocks × channels; 0 stands for all channels.
const TILES: [[usize; 2]; 7] = [[1, 1], [1, 5], [1, 25], [5, 1], [5, 5], [17, 1], [1, 0]];
/// Ratio that a channel must have by itself in the middle of a tile that stands out.
const CARRIED: f32 = 1.5;
/// Blocks that a moving line is summed over, half of them, and its slopes in channels per block.
const TRAIL: usize = 4;
/// Tiles of a trail that must stand above the floor by this ratio.
const MOST_OF_TRAIL: usize = 7;
const CARRYING: f32 = 1.5;
const SLOPES: [f64; 8] = [-2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0];
/// Ratio of the tiles along a trail that belong to it.
const ON_TRAIL: f32 = 2.0;
/// Channels from either end at which trails are not looked for: they reach 8 of them.
const MARGIN: usize = 9;
/// Channels whose largest ratio is kept together, to tell where no trail can be.
const POOLED: usize = 8;
/// Blocks around a stripe: 8 of the longest tile, 2 each of two more, and 1 beside each of these
/// three where a hit is not counted again.
const AROUND: usize = 15;
/// Tiles of a stripe: its ratios take half a megabyte, and the blocks around it add an eighth.
const STRIPE: usize = 1 << 17;
const FEWEST_ROWS: usize = 128;
/// Most tiles that are joined to events; beyond, those with the largest ratios.
const MOST_HITS: usize = 1 << 20;

/// A tile: (block, channel).
pub(super) type Tile = (usize, usize);

/// Power over the floor of every tile.
pub(super) struct Plane<'a> {
    pub(super) blocks: &'a Blocks,
    /// Floor of each channel.
    quiet: &'a [f32],
    /// Largest ratio that counts: 1 in channels that are not judged.
    ceiling: Vec<f32>,
    /// 1 for channels that are judged, else 0.
    judged: Vec<f32>,
    /// In each block what the side lobes of the strongest channel make.
    leaked: Vec<f32>,
}

impl<'a> Plane<'a> {
    /// The plane of blocks over the floor of each channel, without the channels that are `bad`.
    pub(super) fn new(blocks: &'a Blocks, quiet: &'a [f32], bad: &[bool]) -> Self {
        let ceiling = bad.iter().map(|b| if *b { 1.0 } else { f32::INFINITY }).collect();
        let judged = bad.iter().map(|b| if *b { 0.0 } else { 1.0 }).collect();
        let spill = SPILL[usize::from(blocks.wide)];
        // Side lobes of what is far above its floor at this time are no events of their own.
        let leaked = (0..blocks.count).map(|b| spill * tower(blocks.row(b), quiet)).collect();
        Plane { blocks, quiet, ceiling, judged, leaked }
    }

    /// The power of a tile over the floor.
    pub(super) fn ratio(&self, (block, k): Tile) -> f32 {
        let floor = self.quiet[k].max(self.leaked[block]);
        (self.blocks.power[block * self.blocks.channels + k] / floor).min(self.ceiling[k])
    }

    /// The tiles that stand out, in order; `ln_p` is the logarithm of the probability that noise
    /// makes any. `sampled` blocks have told the floor.
    pub(super) fn hits(&self, ln_p: f64, sampled: usize) -> Vec<Tile> {
        let (count, channels) = (self.blocks.count, self.blocks.channels);
        let tests = Tests::new(self, ln_p, sampled);
        let rows = (STRIPE / channels).max(FEWEST_ROWS);
        let stripes: Vec<(usize, usize)> =
            (0..count).step_by(rows).map(|from| (from, (from + rows).min(count))).collect();
        let found = threads::map(&stripes, (count * channels) as u64, |&(from, to)| {
            Stripe::new(self, &tests, from, to).hits(from, to)
        });
        let mut hits: Vec<Tile> = found.into_iter().flatten().collect();
        if hits.len() > MOST_HITS {
            let mut ratios: Vec<f32> = hits.iter().map(|t| self.ratio(*t)).collect();
            let rank = ratios.len() - MOST_HITS;
            let limit = *ratios.select_nth_unstable_by(rank, f32::total_cmp).1;
            hits.retain(|t| self.ratio(*t) > limit);
        }
        hits
    }
}

vectorized! {
    /// The largest power of a block that towers above its floor, or 0.
    fn tower(row: &[f32], quiet: &[f32]) -> f32 {
        let mut largest = [0.0f32; 16];
        for (row, quiet) in row.chunks(16).zip(quiet.chunks(16)) {
            for ((m, p), f) in largest.iter_mut().zip(row).zip(quiet) {
                let tower = if *p > TOWERING * *f { *p } else { 0.0 };
                *m = if tower > *m { tower } else { *m };
            }
        }
        largest.iter().fold(0.0, |m, v| m.max(*v))
    }
}

vectorized! {
    /// Ratios of a block.
    fn ratios_of(row: &[f32], quiet: &[f32], leaked: f32, ceiling: &[f32], out: &mut [f32]) {
        for (((r, p), f), most) in out.iter_mut().zip(row).zip(quiet).zip(ceiling) {
            let floor = if leaked > *f { leaked } else { *f };
            let ratio = p / floor;
            *r = if ratio < *most { ratio } else { *most };
        }
    }
}

vectorized! {
    fn capped(values: &[f32], cap: f32, out: &mut [f32]) {
        for (o, v) in out.iter_mut().zip(values) {
            *o = if *v < cap { *v } else { cap };
        }
    }
}

vectorized! {
    fn add_to(sums: &mut [f32], values: &[f32]) {
        sums.iter_mut().zip(values).for_each(|(s, v)| *s += v);
    }
}

vectorized! {
    fn weighted(values: &[f32], weights: &[f32], out: &mut [f32]) {
        for ((o, v), w) in out.iter_mut().zip(values).zip(weights) {
            *o = v * w;
        }
    }
}

/// One shape of tiles and what noise exceeds with the stated probability.
#[derive(Debug, Clone, Copy)]
struct Test {
    long: usize,
    broad: usize,
    whole: bool,
    limit: f64,
}

/// All tests of a plane.
struct Tests {
    tiles: Vec<Test>,
    /// Mean ratio along a trail, where trails are looked for.
    trail: Option<f64>,
    /// Channels that are judged.
    good: usize,
}

impl Tests {
    fn new(plane: &Plane<'_>, ln_p: f64, sampled: usize) -> Self {
        let (count, channels) = (plane.blocks.count, plane.blocks.channels);
        let all = (count * channels) as f64;
        let ln_tile = ln_p - all.ln() - (TILES.len() as f64).ln();
        let good = plane.judged.iter().filter(|j| **j > 0.0).count();
        let overlap = if plane.blocks.wide { 0.33 } else { 0.45 };
        let error = 1.45 / (sampled as f64).sqrt();
        let of = |&[long, broad]: &[usize; 2]| {
            let whole = broad == 0;
            let broad = if whole { channels } else { broad };
            if long > count / 3 || broad > channels || good == 0 {
                return None;
            }
            // Degrees of freedom of overlapped blocks and neighbouring channels.
            let over_time = (0.8 * long as f64 + 0.2).max(1.0);
            let over_frequency = (1.0 + (broad - 1) as f64 * overlap).max(1.0);
            let shape = over_time * over_frequency;
            let error = error / (broad as f64).powf(0.25);
            let z = (-2.0 * ln_tile).sqrt();
            let limit = gamma_quantile(shape, ln_tile) / shape * (z * error).min(1.5).exp();
            Some(Test { long, broad, whole, limit })
        };
        let trail = (count >= 32 && channels > 40).then(|| {
            let ln_tile = ln_p - all.ln() - (SLOPES.len() as f64).ln();
            let shape = 0.8 * (2 * TRAIL + 1) as f64 + 0.2;
            let z = (-2.0 * ln_tile).sqrt();
            gamma_quantile(shape, ln_tile) / shape * (z * error / 2.0).exp()
        });
        Tests { tiles: TILES.iter().filter_map(of).collect(), trail, good }
    }
}

/// Some blocks of a plane with those around them.
struct Stripe<'a> {
    plane: &'a Plane<'a>,
    tests: &'a Tests,
    /// First block, and blocks.
    first: usize,
    rows: usize,
    channels: usize,
    ratio: Vec<f32>,
    hit: Vec<bool>,
    /// The channels of each block that are hits.
    marks: Vec<Vec<u32>>,
    /// What a test sums: ratios, capped, without the hits of earlier tests.
    slots: Vec<f32>,
}

impl<'a> Stripe<'a> {
    fn new(plane: &'a Plane<'a>, tests: &'a Tests, from: usize, to: usize) -> Self {
        let channels = plane.blocks.channels;
        let first = from.saturating_sub(AROUND);
        let rows = (to + AROUND).min(plane.blocks.count) - first;
        let mut ratio = vec![0.0; rows * channels];
        for (row, out) in ratio.chunks_exact_mut(channels).enumerate() {
            let block = first + row;
            let power = plane.blocks.row(block);
            ratios_of(power, plane.quiet, plane.leaked[block], &plane.ceiling, out);
        }
        Stripe {
            plane,
            tests,
            first,
            rows,
            channels,
            ratio,
            hit: vec![false; rows * channels],
            marks: vec![Vec::new(); rows],
            slots: vec![0.0; rows * channels],
        }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.ratio[row * self.channels..(row + 1) * self.channels]
    }

    /// The tiles of blocks from … to that stand out.
    fn hits(mut self, from: usize, to: usize) -> Vec<Tile> {
        for test in &self.tests.tiles {
            match (test.whole, test.long, test.broad) {
                (true, ..) => self.test_whole(test),
                (_, 1, 1) => self.test_alone(test),
                _ => self.test(test),
            }
        }
        if let Some(limit) = self.tests.trail {
            self.test_moving(limit);
        }
        let mut out = Vec::new();
        for block in from..to {
            let marks = &mut self.marks[block - self.first];
            marks.sort_unstable();
            out.extend(marks.iter().map(|k| (block, *k as usize)));
        }
        out
    }

    fn mark(&mut self, row: usize, k: usize) {
        let at = row * self.channels + k;
        if !self.hit[at] {
            self.hit[at] = true;
            self.marks[row].push(k as u32);
        }
    }

    fn test_alone(&mut self, test: &Test) {
        let mut places = Vec::new();
        for row in 0..self.rows {
            places.clear();
            places_above(self.row(row), test.limit as f32, &mut places);
            places.iter().for_each(|k| self.mark(row, *k as usize));
        }
    }

    /// Fills the slots: what smaller tiles have found, and what it spills into the blocks and
    /// channels beside it, does not carry a larger one.
    fn fill_slots(&mut self, test: &Test) {
        let long = test.long as f64;
        let cap = if test.long > 1 { test.limit * long / (long / 4.0).max(2.0) } else { f64::MAX };
        capped(&self.ratio, cap as f32, &mut self.slots);
        let aside = usize::from(test.long > 1);
        let beside = if test.broad > 1 { 2 } else { 0 };
        for row in 0..self.rows {
            for k in self.marks[row].iter().map(|k| *k as usize) {
                let near = k.saturating_sub(beside)..(k + beside + 1).min(self.channels);
                for r in row.saturating_sub(aside)..(row + aside + 1).min(self.rows) {
                    let from = r * self.channels;
                    let slots = &mut self.slots[from + near.start..from + near.end];
                    slots.iter_mut().for_each(|s| *s = s.min(1.0));
                }
            }
        }
    }

    /// Marks tiles of this shape.
    fn test(&mut self, test: &Test) {
        self.fill_slots(test);
        let (channels, half) = (self.channels, test.broad / 2);
        let most = (test.limit * (test.long * test.broad) as f64) as f32;
        // Beyond the ends there is nothing.
        let mut padded = vec![0.0f32; channels + 2 * half];
        let (mut doubled, mut sums, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for start in 0..(self.rows + 1).saturating_sub(test.long) {
            let slots = &self.slots[start * channels..(start + test.long) * channels];
            let own = &mut padded[half..half + channels];
            own.copy_from_slice(&slots[..channels]);
            slots.chunks_exact(channels).skip(1).for_each(|row| add_to(own, row));
            places.clear();
            if test.broad > 1 {
                running_sums(&padded, test.broad, &mut doubled, &mut sums);
                places_above(&sums, most, &mut places);
            } else {
                places_above(&padded, most, &mut places);
            }
            let middle = start + test.long / 2;
            for k in places.iter().map(|k| *k as usize) {
                if self.row(middle)[k] > CARRIED {
                    self.mark(middle, k);
                }
            }
        }
    }

    /// Blocks of which the mean over all channels stands out.
    fn test_whole(&mut self, test: &Test) {
        let mut slots = vec![0.0f32; self.channels];
        for row in 0..self.rows {
            weighted(self.row(row), &self.plane.judged, &mut slots);
            // What stands out by itself, and what it spills into its neighbours, does not carry all.
            for k in self.marks[row].iter().map(|k| *k as usize) {
                let near = k.saturating_sub(2)..(k + 3).min(self.channels);
                slots[near.clone()].copy_from_slice(&self.plane.judged[near]);
            }
            let mean = f64::from(sum_of(&slots)) / self.tests.good as f64;
            if mean > test.limit {
                for k in 0..self.channels {
                    if self.row(row)[k] > CARRIED {
                        self.mark(row, k);
                    }
                }
            }
        }
    }

    /// Lines that move: sums along slopes.
    fn test_moving(&mut self, limit: f64) {
        capped(&self.ratio, (2.0 * limit) as f32, &mut self.slots);
        let most = (limit * (2 * TRAIL + 1) as f64) as f32;
        let pooled = self.pooled();
        let mut trails = Vec::new();
        // Trails overlap: every other block as their middle sees them all.
        let begin = TRAIL + (self.first + TRAIL) % 2;
        for middle in (begin..self.rows.saturating_sub(TRAIL)).step_by(2) {
            self.trails_at(middle, most, &pooled, &mut trails);
        }
        for (middle, k, slope) in trails {
            for direction in [-1, 1] {
                // From the middle outwards, until the line is gone for two blocks.
                let mut gone = 0;
                for j in (0..=TRAIL as isize).map(|j| j * direction) {
                    let channel = k as isize + (slope * j as f64).round() as isize;
                    if gone == 2 || !(0..self.channels as isize).contains(&channel) {
                        break;
                    }
                    let row = (middle as isize + j) as usize;
                    let there = self.row(row)[channel as usize] > ON_TRAIL;
                    if there {
                        self.mark(row, channel as usize);
                    }
                    gone = if there { 0 } else { gone + 1 };
                }
            }
        }
    }

    /// For each block the largest slots of so many channels, and of those that a trail through one
    /// of them can reach.
    fn pooled(&self) -> Vec<f32> {
        let groups = self.channels.div_ceil(POOLED);
        let mut largest = vec![0.0f32; self.rows * groups];
        for (row, out) in self.slots.chunks_exact(self.channels).zip(largest.chunks_mut(groups)) {
            pool(row, out);
        }
        largest
    }

    /// The trails through a block: (block, channel, slope).
    fn trails_at(
        &self,
        middle: usize,
        most: f32,
        pooled: &[f32],
        out: &mut Vec<(usize, usize, f64)>,
    ) {
        let (channels, groups) = (self.channels, self.channels.div_ceil(POOLED));
        for group in 0..groups {
            // No trail sums up to more than the largest slots that it can reach.
            let reach = group.saturating_sub(1)..(group + 2).min(groups);
            let bound: f32 = (middle - TRAIL..=middle + TRAIL)
                .map(|r| pooled[r * groups + reach.start..r * groups + reach.end].iter())
                .map(|near| near.fold(0.0f32, |m, v| m.max(*v)))
                .sum();
            if bound <= most {
                continue;
            }
            let inner = (group * POOLED).max(MARGIN)
                ..((group + 1) * POOLED).min(channels.saturating_sub(MARGIN));
            for slope in SLOPES {
                let shifts: [isize; 2 * TRAIL + 1] = std::array::from_fn(|j| {
                    (slope * (j as f64 - TRAIL as f64)).round() as isize
                });
                for k in inner.clone() {
                    let along = shifts.iter().enumerate().map(|(j, shift)| {
                        let channel = (k as isize + shift) as usize;
                        self.slots[(middle + j - TRAIL) * channels + channel]
                    });
                    let sum: f32 = along.clone().sum();
                    // Most of the trail carries it: half of it may lie in something else.
                    if sum > most && along.filter(|r| *r > CARRYING).count() >= MOST_OF_TRAIL {
                        out.push((middle, k, slope));
                    }
                }
            }
        }
    }
}

vectorized! {
    fn pool(row: &[f32], out: &mut [f32]) {
        for (m, near) in out.iter_mut().zip(row.chunks(POOLED)) {
            *m = near.iter().fold(0.0, |m, v| if *v > m { *v } else { m });
        }
    }
}

/// Groups of tiles that touch, or have one tile between them; the tiles are in order.
pub(super) fn groups(hits: &[Tile], channels: usize) -> Vec<Vec<Tile>> {
    const NONE: u32 = u32::MAX;
    fn root(parent: &mut [u32], mut i: u32) -> u32 {
        while parent[i as usize] != i {
            parent[i as usize] = parent[parent[i as usize] as usize];
            i = parent[i as usize];
        }
        i
    }
    let mut parent: Vec<u32> = (0..hits.len() as u32).collect();
    // The place of every hit in the list, for the rows that a tile can touch.
    let mut recent: Vec<(usize, Vec<u32>)> = vec![(usize::MAX, vec![NONE; channels]); 3];
    for (i, &(block, k)) in hits.iter().enumerate() {
        let own = block % 3;
        if recent[own].0 != block {
            recent[own].0 = block;
            recent[own].1.fill(NONE);
        }
        for (row, places) in &recent {
            if *row == usize::MAX || row.abs_diff(block) > 2 {
                continue;
            }
            let near = &places[k.saturating_sub(2)..(k + 3).min(channels)];
            for &place in near.iter().filter(|place| **place != NONE) {
                let (a, b) = (root(&mut parent, i as u32), root(&mut parent, place));
                parent[a as usize] = b;
            }
        }
        recent[own].1[k] = i as u32;
    }
    // In the order of the first tile of each.
    let mut number = vec![NONE; hits.len()];
    let mut out: Vec<Vec<Tile>> = Vec::new();
    for (i, &tile) in hits.iter().enumerate() {
        let r = root(&mut parent, i as u32) as usize;
        if number[r] == NONE {
            number[r] = out.len() as u32;
            out.push(Vec::new());
        }
        out[number[r] as usize].push(tile);
    }
    out
}
