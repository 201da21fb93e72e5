//! The time-frequency plane: which tiles stand out of the floor over time.
//!
//! Tiles of several shapes are tested one shape after the other, since what a small tile has found
//! does not carry a larger one. Sums and largest ratios of four blocks bound what a tile can hold, so
//! that few places are examined one by one.
//!
//! The plane is worked through in stripes of blocks, each with as many blocks around it as the tests
//! reach: a stripe fits the cache, and stripes are independent, so that threads share them and the
//! answer does not depend on their number.

use super::blocks::Blocks;
use super::chance::gamma_quantile;
use super::stripe::{POOL, SLOPES, Stripe, TRAIL};
use super::vector::{sum_of, vectorized};
use crate::cpu::threads;

/// Side lobes a few channels away, of Hann and of Hann squared.
const SPILL: [f32; 2] = [1e-5, 1e-7];
/// Power over the floor from which on they matter.
const TOWERING: f32 = 1e3;
/// Tiles: blocks × channels; 0 stands for all channels.
const TILES: [[usize; 2]; 7] = [[1, 1], [1, 5], [1, 25], [5, 1], [5, 5], [17, 1], [1, 0]];
/// Tiles of a stripe: its powers fit a cache, and the blocks around it add little.
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
    inverse: Vec<f32>,
    /// Largest ratio that counts: 1 in channels that are not judged.
    ceiling: Vec<f32>,
    /// 1 for channels that are judged, else 0.
    pub(super) judged: Vec<f32>,
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
        let inverse = quiet.iter().map(|q| q.recip()).collect();
        Plane { blocks, quiet, inverse, ceiling, judged, leaked }
    }

    /// The power of a tile over the floor.
    pub(super) fn ratio(&self, (block, k): Tile) -> f32 {
        let power = self.blocks.power[block * self.blocks.channels + k];
        let leaked = self.leaked[block];
        let ratio =
            if leaked == 0.0 { power * self.inverse[k] } else { power / self.quiet[k].max(leaked) };
        ratio.min(self.ceiling[k])
    }

    /// The ratios of channels of a block, from `first` on.
    pub(super) fn ratios(&self, block: usize, first: usize, out: &mut [f32]) {
        let channels = first..first + out.len();
        let power = &self.blocks.row(block)[channels.clone()];
        let leaked = self.leaked[block];
        if leaked == 0.0 {
            scaled(power, &self.inverse[channels.clone()], &self.ceiling[channels], out);
        } else {
            divided(power, &self.quiet[channels.clone()], leaked, &self.ceiling[channels], out);
        }
    }

    /// The tiles that stand out, in order; `ln_p` is the logarithm of the probability that noise
    /// makes any. `sampled` blocks have told the floor.
    pub(super) fn hits(&self, ln_p: f64, sampled: usize) -> Vec<Tile> {
        let (count, channels) = (self.blocks.count, self.blocks.channels);
        let tests = Tests::new(self, ln_p, sampled);
        let rows = (STRIPE / channels).max(FEWEST_ROWS) / POOL * POOL;
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

/// The largest power of a block that towers above its floor, or 0.
fn tower(row: &[f32], quiet: &[f32]) -> f32 {
    largest_tower(row, quiet, TOWERING)
}

vectorized! {
    fn largest_tower(row: &[f32], quiet: &[f32], times: f32) -> f32 {
        let mut largest = [0.0f32; 16];
        for (row, quiet) in row.chunks(16).zip(quiet.chunks(16)) {
            for ((m, p), f) in largest.iter_mut().zip(row).zip(quiet) {
                let tower = if *p > times * *f { *p } else { 0.0 };
                *m = if tower > *m { tower } else { *m };
            }
        }
        largest.iter().fold(0.0, |m, v| m.max(*v))
    }
}

vectorized! {
    fn scaled(power: &[f32], inverse: &[f32], ceiling: &[f32], out: &mut [f32]) {
        for (((r, p), inverse), most) in out.iter_mut().zip(power).zip(inverse).zip(ceiling) {
            let ratio = p * inverse;
            *r = if ratio < *most { ratio } else { *most };
        }
    }
}

vectorized! {
    fn divided(power: &[f32], quiet: &[f32], leaked: f32, ceiling: &[f32], out: &mut [f32]) {
        for (((r, p), f), most) in out.iter_mut().zip(power).zip(quiet).zip(ceiling) {
            let floor = if leaked > *f { leaked } else { *f };
            let ratio = p / floor;
            *r = if ratio < *most { ratio } else { *most };
        }
    }
}

vectorized! {
    /// Adds the ratios of a block, each at most `cap`, to sums, and raises the largest ones to them;
    /// returns the sum of all of them.
    pub(super) fn pool(ratio: &[f32], cap: f32, sums: &mut [f32], largest: &mut [f32]) -> f32 {
        for ((r, sum), most) in ratio.iter().zip(sums).zip(largest) {
            *sum += if *r < cap { *r } else { cap };
            *most = if *r > *most { *r } else { *most };
        }
        sum_of(ratio)
    }
}

vectorized! {
    pub(super) fn cap_at(values: &mut [f32], cap: f32) {
        values.iter_mut().for_each(|v| *v = if *v < cap { *v } else { cap });
    }
}

vectorized! {
    /// Sums over so many rows of a plane, column by column.
    pub(super) fn sum_rows(plane: &[f32], columns: usize, rows: usize, out: &mut [f32]) {
        const LANES: usize = 16;
        let whole = columns / LANES * LANES;
        for at in (0..whole).step_by(LANES) {
            let mut sums = [0.0f32; LANES];
            for row in 0..rows {
                let values = &plane[row * columns + at..row * columns + at + LANES];
                sums.iter_mut().zip(values).for_each(|(s, v)| *s += v);
            }
            out[at..at + LANES].copy_from_slice(&sums);
        }
        for at in whole..columns {
            out[at] = (0..rows).map(|row| plane[row * columns + at]).sum();
        }
    }
}

/// One shape of tiles and what noise exceeds with the stated probability.
#[derive(Debug, Clone, Copy)]
pub(super) struct Test {
    pub(super) long: usize,
    pub(super) broad: usize,
    pub(super) whole: bool,
    pub(super) limit: f64,
}

impl Test {
    /// Sum over a tile of this shape from which on it stands out.
    pub(super) fn most(&self) -> f32 {
        (self.limit * (self.long * self.broad) as f64) as f32
    }

    /// The most that one tile counts in a long one: a quarter of it must carry it.
    pub(super) fn cap(&self) -> f32 {
        let long = self.long as f64;
        let cap = if self.long > 1 { self.limit * long / (long / 4.0).max(2.0) } else { f64::MAX };
        cap as f32
    }
}

/// All tests of a plane.
pub(super) struct Tests {
    pub(super) tiles: Vec<Test>,
    /// Mean ratio along a trail, where trails are looked for.
    pub(super) trail: Option<f64>,
    /// Channels that are judged.
    pub(super) good: usize,
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
    let mut begun = [0; 3];
    for (i, &(block, k)) in hits.iter().enumerate() {
        let own = block % 3;
        if recent[own].0 != block {
            // The hits of the block that was there are the only places that are taken.
            let old = recent[own].0;
            let there = hits[begun[own]..].iter().take_while(|(b, _)| *b == old);
            there.for_each(|(_, k)| recent[own].1[*k] = NONE);
            (recent[own].0, begun[own]) = (block, i);
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
