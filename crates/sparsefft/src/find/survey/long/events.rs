//! Events of the whole record from those of its units: what a border has cut is joined, and what
//! lasts longer than a unit is seen in the levels of the channels from unit to unit.

use super::super::blocks::Blocks;
use super::super::bursts::{Event, unjudged};
use super::super::floor::Floor;
use super::layout::Layout;
use super::order;
use super::unit::Row;
use std::collections::BTreeMap;

/// Blocks by which an event may end before a border, and begin behind it, to be joined across it.
const TOUCH: f64 = 1.5;
/// Long blocks between pieces of what lasts longer than a unit.
const PATIENCE: f64 = 16.0;
/// Channels by which the continuation of a sweep may miss the next piece, and by how much their
/// slopes may differ as a share.
const MISS: f64 = 2.5;
const SLOPE_ERROR: f64 = 0.5;
/// Quantile over the units that is the floor of a channel.
const QUIET: f64 = 0.25;
/// Channels over which levels are averaged, beside each alone.
const BROAD: usize = 9;
/// Standard deviation of the level of one channel in one unit, of one over many: a quantile of 64
/// blocks, of which half overlapped ones count 0.8.
const SCATTER: f64 = 1.45 / 7.2;
/// Least ratio of a level to its floor that counts, whatever the scatter.
const LEAST: f64 = 1.5;
/// Most tiles of units and channels that are joined.
const MOST_HITS: usize = 1 << 18;

/// Joins what the borders of units have cut.
pub(super) fn join(mut events: Vec<Event>, layout: &Layout) -> Vec<Event> {
    events.sort_by(order);
    let mut out: Vec<Event> = Vec::with_capacity(events.len());
    // Places in `out` of what ends at each border.
    let mut ends: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let border_near = |at: f64, reach: f64| -> Option<u64> {
        let border = (at / layout.unit as f64).round() as u64;
        let inside = (1..layout.units).contains(&border);
        (inside && (at - (border * layout.unit) as f64).abs() <= reach).then_some(border)
    };
    for event in events {
        let reach = TOUCH * event.block as f64;
        let before = border_near(event.start, reach).and_then(|b| ends.get(&b));
        let earlier =
            before.and_then(|places| places.iter().copied().find(|&p| continues(&out[p], &event)));
        let end = event.end;
        let place = match earlier {
            Some(p) => {
                absorb(&mut out[p], event);
                p
            }
            None => {
                out.push(event);
                out.len() - 1
            }
        };
        if let Some(border) = border_near(end, reach) {
            ends.entry(border).or_default().push(place);
        }
    }
    out
}

/// Whether an event goes on in another one behind a border.
fn continues(a: &Event, b: &Event) -> bool {
    match (a.slope, b.slope) {
        (None, None) => a.high.min(b.high) > a.low.max(b.low),
        (Some(s), Some(t)) if a.block == b.block => {
            let (Some(last), Some(first)) = (a.ridge.last(), b.ridge.first()) else { return false };
            let gap = first.0 as f64 - last.0 as f64;
            (s - t).abs() <= SLOPE_ERROR * s.abs()
                && (last.1 + s * gap - first.1).abs() <= MISS + 0.1 * gap.abs()
        }
        _ => false,
    }
}

fn absorb(a: &mut Event, b: Event) {
    a.start = a.start.min(b.start);
    a.end = a.end.max(b.end);
    a.low = a.low.min(b.low);
    a.high = a.high.max(b.high);
    if b.ratio > a.ratio {
        a.peak = b.peak;
    }
    a.energy += b.energy;
    a.ratio = a.ratio.max(b.ratio);
    a.top = a.top.max(b.top);
    if let (Some(first), Some(last)) = (a.ridge.first().copied(), b.ridge.last().copied()) {
        a.slope = Some((last.1 - first.1) / (last.0 as f64 - first.0 as f64).max(1.0));
        a.ridge = vec![first, last];
    }
}

/// Adds what lasts longer than a unit, and takes its pieces out.
pub(super) fn with_long(
    events: Vec<Event>,
    rows: &BTreeMap<u64, Row>,
    floor: &Floor,
    layout: &Layout,
    ln_p: f64,
) -> Vec<Event> {
    let mut long = long_events(rows, floor, layout, ln_p);
    let channel = 1.0 / layout.blocks.last().map_or(64.0, |l| *l as f64);
    let alike =
        |l: &Event, e: &Event| e.slope.is_none() && l.high.min(e.high) > l.low.max(e.low) - channel;
    // Its edges are those of the pieces in the units beside those that it fills, as far as they follow
    // each other.
    let patience = PATIENCE * layout.blocks.last().map_or(0.0, |l| *l as f64);
    for l in &mut long {
        let mut near: Vec<(f64, f64)> = events
            .iter()
            .filter(|e| {
                let unit = layout.unit as f64;
                alike(l, e) && e.end > l.start - unit && e.start < l.end + unit
            })
            .map(|e| (e.start, e.end))
            .collect();
        let (first, last) = (l.start, l.end);
        near.sort_by(|a, b| b.1.total_cmp(&a.1));
        for e in near.iter().filter(|e| e.0 < first) {
            if e.1 > l.start - patience {
                l.start = l.start.min(e.0);
            }
        }
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        for e in near.iter().filter(|e| e.1 > last) {
            if e.0 < l.end + patience {
                l.end = l.end.max(e.1);
            }
        }
        // Of the units that it fills for the most part only a piece may stand out.
        // Of a unit that it fills for the most part only a piece may stand out; fragments may not.
        let unit = layout.unit as f64;
        let share = if l.end - l.start > unit { 0.0 } else { 0.5 };
        let within = |e: &&(f64, f64), from: f64| {
            e.0 > from - patience && e.1 < from + unit && e.1 - e.0 > share * unit
        };
        let begins = near.iter().find(|e| within(e, first) && e.1 > first + unit - patience);
        if let Some(e) = begins.filter(|e| l.start == first && e.0 > first) {
            l.start = e.0;
        }
        let from = last - unit;
        let ends = near.iter().rev().find(|e| within(e, from) && e.0 < from + patience);
        if let Some(e) = ends.filter(|e| l.end == last && e.1 < last) {
            l.end = e.1;
        }
    }
    let inside = |e: &Event| {
        long.iter().any(|l| {
            let reach = TOUCH * e.block as f64;
            alike(l, e) && e.start >= l.start - reach && e.end <= l.end + reach
        })
    };
    let mut out: Vec<Event> = events.into_iter().filter(|e| !inside(e)).collect();
    out.extend(long);
    out.sort_by(order);
    out
}

/// Levels of the channels from unit to unit that stand above their quantile over the record.
fn long_events(rows: &BTreeMap<u64, Row>, floor: &Floor, layout: &Layout, ln_p: f64) -> Vec<Event> {
    let (units, channels) = (rows.len(), layout.levels);
    let Some(&long) = layout.blocks.last() else { return Vec::new() };
    let level: Vec<f64> =
        rows.values().flat_map(|row| row.quiet.iter().map(|q| f64::from(*q) * row.unit)).collect();
    let rank = (QUIET * units as f64) as usize;
    let mut column = vec![0.0; units];
    let quiet: Vec<f64> = (0..channels)
        .map(|c| {
            column.iter_mut().enumerate().for_each(|(u, v)| *v = level[u * channels + c]);
            *column.select_nth_unstable_by(rank, f64::total_cmp).1
        })
        .collect();
    let largest = quiet.iter().fold(0.0f64, |m, q| m.max(*q));
    if largest == 0.0 {
        return Vec::new();
    }
    let quiet: Vec<f64> = quiet.iter().map(|q| q.max(1e-9 * largest)).collect();
    let width = if layout.real { long / 2 / channels } else { long / channels }.max(1);
    let bad = unjudged_groups(layout, floor, &quiet, long, width, largest);
    let ratio: Vec<f64> = level
        .iter()
        .enumerate()
        .map(|(i, v)| if bad[i % channels] { 1.0 } else { v / quiet[i % channels] })
        .collect();
    let tiles = 2.0 * (units * channels) as f64;
    let z = (-2.0 * (ln_p - tiles.ln())).sqrt();
    let own =
        SCATTER / (1.0 + 0.45 * (width - 1) as f64).sqrt() * (1.0 + 4.0 / units as f64).sqrt();
    let alone = (z * own).exp().max(LEAST);
    let broad = (z * own / (BROAD as f64 * 0.45).sqrt()).exp().max(LEAST);
    let mut hits: Vec<(usize, usize)> = Vec::new();
    for (u, row) in ratio.chunks_exact(channels).enumerate() {
        let mut sum = row.iter().take(BROAD / 2).sum::<f64>();
        for c in 0..channels {
            sum += row.get(c + BROAD / 2).copied().unwrap_or(1.0);
            if row[c] > alone || (sum > broad * BROAD as f64 && row[c] > LEAST) {
                hits.push((u, c));
            }
            sum -= if c >= BROAD / 2 { row[c - BROAD / 2] } else { 1.0 };
        }
    }
    if hits.len() > MOST_HITS {
        hits.truncate(MOST_HITS);
    }
    let cell = width as f64 / long as f64;
    let groups = groups(hits);
    groups.iter().map(|g| event(g, &ratio, rows, layout, cell)).collect()
}

/// Groups of channels that blocks of the longest length cannot judge.
fn unjudged_groups(
    layout: &Layout,
    floor: &Floor,
    quiet: &[f64],
    long: usize,
    width: usize,
    largest: f64,
) -> Vec<bool> {
    let all = if layout.real { long / 2 + 1 } else { long };
    let each: Vec<f32> =
        (0..all).map(|k| (quiet[(k / width).min(quiet.len() - 1)] / largest) as f32).collect();
    let blocks = Blocks {
        length: long,
        hop: long / 2,
        count: 0,
        channels: all,
        wide: false,
        power: Vec::new(),
    };
    let bad = unjudged(&blocks, floor, &each, layout.frame, layout.real);
    (0..quiet.len()).map(|g| bad[g * width..(g + 1) * width].iter().any(|b| *b)).collect()
}

/// Tiles that touch, in units and channels; the list is in order of units.
fn groups(hits: Vec<(usize, usize)>) -> Vec<Vec<(usize, usize)>> {
    let mut left: std::collections::BTreeSet<(usize, usize)> = hits.into_iter().collect();
    let mut out = Vec::new();
    while let Some(first) = left.pop_first() {
        let mut group = vec![first];
        let mut next = 0;
        while next < group.len() {
            let (u, c) = group[next];
            next += 1;
            for row in u.saturating_sub(1)..=u + 1 {
                for column in c.saturating_sub(2)..=c + 2 {
                    if left.remove(&(row, column)) {
                        group.push((row, column));
                    }
                }
            }
        }
        out.push(group);
    }
    out
}

/// What a group of units and channels says; its edges in time are those of units.
fn event(
    group: &[(usize, usize)],
    ratio: &[f64],
    rows: &BTreeMap<u64, Row>,
    layout: &Layout,
    cell: f64,
) -> Event {
    let span = |of: &dyn Fn(&(usize, usize)) -> usize| {
        let all = || group.iter().map(of);
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    };
    let (first, last) = span(&|g| g.0);
    let (low, high) = span(&|g| g.1);
    let of = |g: &(usize, usize)| ratio[g.0 * layout.levels + g.1];
    let top = group.iter().max_by(|a, b| of(a).total_cmp(&of(b))).copied().unwrap_or((first, low));
    // Power over the median of the other units, in the short blocks' channels that it touches.
    let channels = layout.means();
    let short = super::super::SHORT_BLOCK as f64;
    let from = (low as f64 * cell * short) as usize;
    let to = (((high + 1) as f64 * cell * short).ceil() as usize).min(channels - 1);
    let mut power = 0.0;
    for k in from.min(to)..=to {
        let mut all: Vec<f64> =
            rows.values().map(|row| f64::from(row.mean[k]) * row.unit).collect();
        let here: f64 = all[first..=last].iter().sum::<f64>() / (last - first + 1) as f64;
        let rank = (QUIET * all.len() as f64) as usize;
        power += here - *all.select_nth_unstable_by(rank, f64::total_cmp).1;
    }
    let (start, end) = (layout.range(first as u64).start, layout.range(last as u64).end);
    Event {
        start: start as f64,
        end: end as f64,
        low: ((low as f64 * cell) - 0.5 * cell).max(0.0),
        high: (high + 1) as f64 * cell - 0.5 * cell,
        peak: (top.1 as f64 + 0.5) * cell,
        energy: (power / short).max(0.0) * (end - start) as f64,
        ratio: of(&top),
        top: power.max(0.0),
        block: super::super::SHORT_BLOCK,
        ridge: Vec::new(),
        slope: None,
    }
}
