//! Sweeps, and bursts seen by blocks of several lengths put together.

use super::bursts::Event;

/// Most fragments that are joined to sweeps, and most events that are compared with each other,
/// strongest first.
const MOST_FRAGMENTS: usize = 300;
pub(super) const MOST_EVENTS: usize = 2000;
/// Fewest blocks of a fragment, and most channels that it occupies at a time.
const SHORTEST: usize = 3;
const BROADEST: usize = 8;
/// Points of a track that are continued.
const CONTINUED: usize = 40;
/// Channels by which a continuation may miss the next fragment.
const MISS: f64 = 2.0;
/// Channels that a sweep must cross, and the share of them by which it may bend.
const TRAVEL: f64 = 5.0;
const BEND: f64 = 0.1;
/// Fewest points of a sweep, and the share of its blocks in which it must be seen.
const FEWEST_POINTS: usize = 8;
const SEEN: f64 = 0.5;
/// Share of the points that must lie in fragments which move by themselves, each by the slope of the
/// whole to within this share of it: tones that follow each other at other frequencies do not.
const MOVING: f64 = 0.6;
const SLOPE_ERROR: f64 = 0.5;
/// Power below a simultaneous event at which an event is its splatter.
const SPLATTER: f64 = 316.0;

/// Joins fragments of moving lines, as seen by blocks of one length.
pub(super) fn link(mut events: Vec<Event>) -> Vec<Event> {
    let is_fragment = |e: &Event| {
        let mut widths: Vec<usize> = e.ridge.iter().map(|p| p.2).collect();
        widths.sort_unstable();
        e.ridge.len() >= SHORTEST && widths[widths.len() / 2] <= BROADEST
    };
    let mut fragments: Vec<usize> =
        (0..events.len()).filter(|i| is_fragment(&events[*i])).collect();
    fragments.sort_by(|a, b| events[*b].energy.total_cmp(&events[*a].energy));
    fragments.truncate(MOST_FRAGMENTS);
    fragments.sort_by(|a, b| events[*a].start.total_cmp(&events[*b].start));
    let mut used = vec![false; events.len()];
    let mut sweeps = Vec::new();
    for (i, &first) in fragments.iter().enumerate() {
        if used[first] {
            continue;
        }
        let mut points = events[first].ridge.clone();
        let mut members = vec![first];
        let mut tail = straight(&points[points.len().saturating_sub(CONTINUED)..]);
        for &next in &fragments[i + 1..] {
            if used[next] {
                continue;
            }
            let (begin, end) = (points[0].0 as f64, points[points.len() - 1].0 as f64);
            let patience = (end - begin).max(30.0);
            let gap = events[next].ridge[0].0 as f64 - end;
            if gap > patience {
                break;
            }
            if gap < -3.0 {
                continue;
            }
            let (slope, at) = tail;
            let miss = |p: &(usize, f64, usize)| (at + slope * p.0 as f64 - p.1).abs();
            let worst = events[next].ridge.iter().map(miss).fold(0.0, f64::max);
            if worst < MISS + 0.1 * gap.max(0.0) {
                points.extend(&events[next].ridge);
                members.push(next);
                tail = straight(&points[points.len().saturating_sub(CONTINUED)..]);
            }
        }
        let (slope, at) = straight(&points);
        let (begin, end) =
            points.iter().fold((usize::MAX, 0), |(a, b), p| (a.min(p.0), b.max(p.0)));
        let travel = slope.abs() * (end - begin) as f64;
        let off = |p: &(usize, f64, usize)| (at + slope * p.0 as f64 - p.1).powi(2);
        let bend = (points.iter().map(off).sum::<f64>() / points.len() as f64).sqrt();
        let mut blocks: Vec<usize> = points.iter().map(|p| p.0).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let agrees = |m: &&usize| {
            let (own, _) = straight(&events[**m].ridge);
            (own - slope).abs() <= SLOPE_ERROR * slope.abs()
        };
        let agreeing: usize = members.iter().filter(agrees).map(|m| events[*m].ridge.len()).sum();
        let moves = agreeing as f64 >= MOVING * points.len() as f64;
        let straight_enough = moves && travel > TRAVEL && bend < (BEND * travel).max(1.0);
        if straight_enough
            && points.len() > FEWEST_POINTS
            && blocks.len() as f64 > SEEN * (end - begin) as f64
        {
            members.iter().for_each(|m| used[*m] = true);
            sweeps.push(joined(&events, &members, points, slope));
        }
    }
    let mut index = 0;
    events.retain(|_| {
        index += 1;
        !used[index - 1]
    });
    sweeps.append(&mut events);
    sweeps
}

/// Events as one.
fn joined(
    events: &[Event],
    members: &[usize],
    ridge: Vec<(usize, f64, usize)>,
    slope: f64,
) -> Event {
    let all = || members.iter().map(|m| &events[*m]);
    Event {
        start: all().map(|e| e.start).fold(f64::INFINITY, f64::min),
        end: all().map(|e| e.end).fold(0.0, f64::max),
        low: all().map(|e| e.low).fold(f64::INFINITY, f64::min),
        high: all().map(|e| e.high).fold(0.0, f64::max),
        energy: all().map(|e| e.energy).sum(),
        ratio: all().map(|e| e.ratio).fold(0.0, f64::max),
        ridge,
        slope: Some(slope),
        ..events[members[0]].clone()
    }
}

/// Slope and value at block 0 of the straight line through points.
pub(super) fn straight(points: &[(usize, f64, usize)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 as f64 / n, y + p.1 / n));
    let spread: f64 = points.iter().map(|p| (p.0 as f64 - x).powi(2)).sum();
    if spread == 0.0 {
        return (0.0, y);
    }
    let slope = points.iter().map(|p| (p.0 as f64 - x) * (p.1 - y)).sum::<f64>() / spread;
    (slope, y - slope * x)
}

/// Events by time, so that each meets those around it alone.
struct ByTime {
    scale: f64,
    cells: Vec<Vec<usize>>,
}

impl ByTime {
    const CELLS: usize = 512;

    fn new(n: f64) -> Self {
        ByTime { scale: Self::CELLS as f64 / n, cells: vec![Vec::new(); Self::CELLS] }
    }

    fn span(&self, start: f64, end: f64) -> std::ops::RangeInclusive<usize> {
        let cell = |t: f64| ((t * self.scale).max(0.0) as usize).min(Self::CELLS - 1);
        cell(start)..=cell(end)
    }

    fn insert(&mut self, event: &Event, place: usize) {
        let span = self.span(event.start, event.end);
        self.cells[span].iter_mut().for_each(|c| c.push(place));
    }

    /// The places of all that may be within `margin` of an event, in order.
    fn near(&self, event: &Event, margin: f64, out: &mut Vec<usize>) {
        out.clear();
        let span = self.span(event.start - margin, event.end + margin);
        self.cells[span].iter().for_each(|c| out.extend(c));
        out.sort_unstable();
        out.dedup();
    }
}

/// Samples that two events share, negative where there is a pause between them.
fn overlap(a: &Event, b: &Event) -> f64 {
    a.end.min(b.end) - a.start.max(b.start)
}

/// Cycles per sample that two events share.
fn shared(a: &Event, b: &Event) -> f64 {
    a.high.min(b.high) - a.low.max(b.low)
}

fn duration(event: &Event) -> f64 {
    event.end - event.start
}

/// Events of all block lengths, each once: a longer block's event stays where the shorter ones do
/// not explain its energy; splatter goes, and pieces of one packet are joined.
pub(super) fn merge(mut events: Vec<Event>, n: f64) -> Vec<Event> {
    events.sort_by(|a, b| b.energy.total_cmp(&a.energy));
    events.truncate(MOST_EVENTS);
    events.sort_by(|a, b| a.block.cmp(&b.block).then(b.energy.total_cmp(&a.energy)));
    let mut joined = pieces_joined(without_splatter(once(events, n), n));
    joined.retain(|e| duration(e) < 0.9 * n || e.slope.is_some());
    joined.sort_by(|a, b| b.energy.total_cmp(&a.energy));
    joined
}

/// Each event once; they come by the length of their blocks.
fn once(events: Vec<Event>, n: f64) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::new();
    let mut by_time = ByTime::new(n);
    let mut around = Vec::new();
    for event in events {
        let length = event.block as f64;
        by_time.near(&event, 0.25 * length, &mut around);
        let near: Vec<usize> = around
            .iter()
            .copied()
            .filter(|o| {
                overlap(&out[*o], &event) > -0.25 * length
                    && shared(&out[*o], &event) > -1.0 / length
            })
            .collect();
        let shorter = near.iter().filter(|o| out[**o].block < event.block);
        let explained: f64 = shorter.clone().map(|o| out[*o].energy).sum();
        if shorter.count() > 0 && explained > 0.3 * event.energy && event.slope.is_none() {
            continue;
        }
        if event.slope.is_none() {
            let same = around.iter().find(|o| {
                let o = &out[**o];
                o.block == event.block
                    && overlap(o, &event) > 0.5 * duration(&event)
                    && duration(o) < 6.0 * length
                    && o.slope.is_none()
            });
            if let Some(&same) = same {
                let same = &mut out[same];
                same.low = same.low.min(event.low);
                same.high = same.high.max(event.high);
                same.energy += event.energy;
                continue;
            }
        } else {
            // Blocks of another length have seen the same sweep, if not all of it.
            let same = |o: &Event| {
                let shorter = duration(o).min(duration(&event));
                o.slope.is_some() && overlap(o, &event) > 0.5 * shorter
            };
            let longer = |o: &Event| duration(o) >= duration(&event);
            if near.iter().any(|o| same(&out[*o]) && longer(&out[*o])) {
                continue;
            }
            let mut at = 0;
            out.retain(|o| {
                at += 1;
                let covered = near.contains(&(at - 1)) && o.block < event.block;
                !(covered && duration(o) < duration(&event))
            });
            by_time = ByTime::new(n);
            out.iter().enumerate().for_each(|(i, o)| by_time.insert(o, i));
        }
        by_time.insert(&event, out.len());
        out.push(event);
    }
    out
}

/// Without splatter: what is far below something that is on at the same time, and the clicks with
/// which events begin and end.
fn without_splatter(mut events: Vec<Event>, n: f64) -> Vec<Event> {
    events.sort_by(|a, b| b.top.total_cmp(&a.top));
    let mut kept: Vec<Event> = Vec::new();
    let mut by_time = ByTime::new(n);
    let mut around = Vec::new();
    for event in events {
        by_time.near(&event, event.block as f64, &mut around);
        let hides =
            |o: &Event| o.top > SPLATTER * event.top && overlap(o, &event) > 0.5 * duration(&event);
        if !around.iter().any(|o| hides(&kept[*o]) || is_edge(&kept[*o], &event)) {
            by_time.insert(&event, kept.len());
            kept.push(event);
        }
    }
    kept
}

/// Whether an event is the click with which another one begins or ends: as short as the blocks that
/// saw it can tell, at one of its ends, and with little of its energy. What is switched within few
/// samples fills the whole band for that long.
fn is_edge(of: &Event, click: &Event) -> bool {
    /// Blocks that a click touches.
    const TOUCHED: f64 = 2.5;
    /// Share of the energy beyond which it is an event of its own.
    const LITTLE: f64 = 0.1;
    let block = click.block.max(of.block) as f64;
    let near = |end: f64| click.start - block < end && end < click.end + block;
    of.slope.is_none()
        && duration(click) < TOUCHED * click.block as f64
        && duration(of) > 2.0 * duration(click)
        && click.energy < LITTLE * of.energy
        && (near(of.start) || near(of.end))
}

/// Pieces of one packet as one.
fn pieces_joined(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by(|a, b| a.start.total_cmp(&b.start));
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        let first = joined.len().saturating_sub(6);
        let whole = joined[first..].iter_mut().find(|o| {
            let wider = (o.high - o.low).max(event.high - event.low);
            let pause = event.start - o.end;
            let allowed = (0.5 * duration(o).max(duration(&event))).min(3.5 * o.block as f64);
            o.slope.is_none()
                && event.slope.is_none()
                && o.block == event.block
                && shared(o, &event) > 0.5 * wider
                && pause < allowed
                && duration(o) > 4.0 * o.block as f64
        });
        match whole {
            Some(o) => {
                o.end = o.end.max(event.end);
                o.energy += event.energy;
                o.ratio = o.ratio.max(event.ratio);
                o.low = o.low.min(event.low);
                o.high = o.high.max(event.high);
            }
            None => joined.push(event),
        }
    }
    joined
}
