//! The stored form of a survey: versioned, little-endian, checksummed.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `SFFTSURV` |
//! | 4 | version of this form |
//! | 8 + 1 | n; 0 complex, 1 real |
//! | 8 + 8 | failure probability, memory limit |
//! | 8 + … | sums: first unit, level, frames, the power of each bin |
//! | 8 + … | units: number, total, largest, unit of power, levels, means |
//! | 8 + 8 + … | events: seen, kept, the events |
//! | 8 + … | pieces: start, samples, and them |
//! | 4 | CRC-32 of all before |
//!
//! How the record is cut follows from the length, the kind and the limit. Numbers of things are
//! checked against the bytes that are left before anything is allocated.

use super::super::bursts::Event;
use super::layout::{Layout, MOST_EVENTS};
use super::{Node, Row, Survey};
use crate::{Complex, Error};
use std::collections::BTreeMap;

const MAGIC: &[u8; 8] = b"SFFTSURV";
const VERSION: u32 = 1;
/// Bytes of an event: nine numbers, and two points of its track.
const EVENT: usize = 8 * (10 + 4) + 1;

impl Survey {
    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        put(&mut out, self.layout.n);
        out.push(u8::from(self.layout.real));
        put_f64(&mut out, self.failure);
        put(&mut out, self.layout.memory);
        put(&mut out, self.nodes.len() as u64);
        for ((first, level), node) in &self.nodes {
            put(&mut out, *first);
            put(&mut out, u64::from(*level));
            put(&mut out, node.frames);
            node.spectrum.iter().for_each(|p| put_f64(&mut out, *p));
        }
        put(&mut out, self.rows.len() as u64);
        for (unit, row) in &self.rows {
            put(&mut out, *unit);
            for v in [row.total.re, row.total.im, row.largest, row.unit] {
                put_f64(&mut out, v);
            }
            row.quiet.iter().chain(&row.mean).for_each(|v| out.extend(v.to_le_bytes()));
        }
        // In an order of their own, so that equal surveys have equal bytes.
        let mut sorted = self.clone_events();
        sorted.sort_by(super::order);
        put(&mut out, self.seen);
        put(&mut out, sorted.len() as u64);
        sorted.iter().for_each(|e| put_event(&mut out, e));
        put(&mut out, self.open.len() as u64);
        for (start, values) in &self.open {
            put(&mut out, *start);
            put(&mut out, values.len() as u64);
            for v in values {
                put_f64(&mut out, v.re);
                if !self.layout.real {
                    put_f64(&mut out, v.im);
                }
            }
        }
        let sum = crc32fast::hash(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// The strongest events.
    fn clone_events(&self) -> Vec<Event> {
        let mut events = self.events.clone();
        super::strongest(&mut events);
        events
    }

    /// The survey of these bytes.
    ///
    /// # Errors
    /// [`Error::DamagedSketch`] says what is wrong with the bytes; [`Error::OtherSketch`] names
    /// another version of the form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(damaged("it does not begin with SFFTSURV; give what a survey wrote"));
        };
        let version = rest.first_chunk().map(|b| u32::from_le_bytes(*b));
        if let Some(version) = version.filter(|v| *v != VERSION) {
            return Err(Error::OtherSketch {
                what: "the version of the stored form",
                ours: VERSION.to_string(),
                theirs: version.to_string(),
            });
        }
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else { return Err(cut_off()) };
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) || body.len() < MAGIC.len() + 4 {
            return Err(damaged(
                "its checksum is wrong: it is cut off or was changed; copy it again",
            ));
        }
        let mut from = Reader { rest: &body[MAGIC.len() + 4..] };
        let n = from.u64()?;
        let real = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(damaged("its kind of samples is none that is known")),
        };
        let (failure, memory) = (from.f64()?, from.u64()?);
        let mut survey = Survey::with(n, real, failure, memory)
            .map_err(|e| damaged(&format!("its record cannot be surveyed: {e}")))?;
        let layout = survey.layout.clone();
        survey.rows = BTreeMap::new();
        let nodes = nodes(&mut from, &layout)?;
        survey.rows = rows(&mut from, &layout)?;
        check_nodes(&nodes, &survey.rows)?;
        survey.nodes = nodes;
        survey.seen = from.u64()?;
        let count = from.count(EVENT)?;
        if count > MOST_EVENTS || count as u64 > survey.seen {
            return Err(damaged("it holds more events than it says it has seen, or may keep"));
        }
        for _ in 0..count {
            survey.events.push(event(&mut from, &layout)?);
        }
        for _ in 0..from.count(16)? {
            let start = from.u64()?;
            let each = if real { 8 } else { 16 };
            let count = from.count(each)?;
            let end = start.checked_add(count as u64).filter(|end| *end <= n && count > 0);
            let end = end.ok_or_else(|| damaged("a piece of it lies outside the record"))?;
            if layout.unit_of(start) != layout.unit_of(end - 1) {
                return Err(damaged("a piece of it reaches across the border of a unit"));
            }
            survey
                .check_unseen(start, end)
                .map_err(|_| damaged("it holds the same samples twice"))?;
            let mut values = Vec::with_capacity(count);
            for _ in 0..count {
                let re = from.f64()?;
                values.push(Complex::new(re, if real { 0.0 } else { from.f64()? }));
            }
            super::unit::check(&values, start).map_err(|e| damaged(&e.to_string()))?;
            survey.hold(start, values)?;
        }
        if !from.rest.is_empty() {
            return Err(damaged("there is more behind its end"));
        }
        Ok(survey)
    }
}

fn nodes(from: &mut Reader<'_>, layout: &Layout) -> Result<BTreeMap<(u64, u32), Node>, Error> {
    let bins = layout.bins();
    let mut out = BTreeMap::new();
    for _ in 0..from.count(24 + 8 * bins)? {
        let (first, level, frames) = (from.u64()?, from.u64()?, from.u64()?);
        let fits = |l: &u32| {
            let end = 1u64.checked_shl(*l).and_then(|count| first.checked_add(count));
            end.is_some_and(|end| end <= layout.units) && first % (1 << l) == 0
        };
        let level = u32::try_from(level).ok().filter(fits);
        let level = level.ok_or_else(|| damaged("one of its sums lies at no place for one"))?;
        if frames > layout.n {
            return Err(damaged("one of its sums is of more frames than there are samples"));
        }
        let mut spectrum = Vec::with_capacity(bins);
        for _ in 0..bins {
            spectrum.push(from.power()?);
        }
        out.insert((first, level), Node { spectrum, frames });
    }
    Ok(out)
}

fn rows(from: &mut Reader<'_>, layout: &Layout) -> Result<BTreeMap<u64, Row>, Error> {
    let mut out = BTreeMap::new();
    for _ in 0..from.count(40 + 4 * (layout.levels + layout.means()))? {
        let unit = from.u64()?;
        if unit >= layout.units {
            return Err(damaged("one of its units lies outside the record"));
        }
        let total = Complex::new(from.f64()?, from.f64()?);
        let (largest, power_unit) = (from.power()?, from.power()?);
        let mut list = |count: usize| -> Result<Vec<f32>, Error> {
            (0..count).map(|_| from.small_power()).collect()
        };
        let (quiet, mean) = (list(layout.levels)?, list(layout.means())?);
        if !(total.re.is_finite() && total.im.is_finite()) {
            return Err(damaged("one of its numbers is none"));
        }
        out.insert(unit, Row { total, largest, unit: power_unit, quiet, mean });
    }
    Ok(out)
}

/// The sums are those of the units, each once.
fn check_nodes(nodes: &BTreeMap<(u64, u32), Node>, rows: &BTreeMap<u64, Row>) -> Result<(), Error> {
    let wrong = || damaged("its sums are not those of its units");
    let mut units = rows.keys();
    for (first, level) in nodes.keys() {
        // No more steps than there are units.
        for unit in *first..first + (1u64 << level) {
            if units.next() != Some(&unit) {
                return Err(wrong());
            }
        }
    }
    if units.next().is_some() { Err(wrong()) } else { Ok(()) }
}

fn put(out: &mut Vec<u8>, v: u64) {
    out.extend(v.to_le_bytes());
}

fn put_f64(out: &mut Vec<u8>, v: f64) {
    out.extend(v.to_le_bytes());
}

fn put_event(out: &mut Vec<u8>, e: &Event) {
    for v in [e.start, e.end, e.low, e.high, e.peak, e.energy, e.ratio, e.top] {
        put_f64(out, v);
    }
    put(out, e.block as u64);
    out.push(u8::from(e.slope.is_some()));
    put_f64(out, e.slope.unwrap_or(0.0));
    for i in 0..2 {
        let (block, channel, _) = e.ridge.get(i).copied().unwrap_or((0, 0.0, 0));
        put(out, block as u64);
        put_f64(out, channel);
    }
}

fn event(from: &mut Reader<'_>, layout: &Layout) -> Result<Event, Error> {
    let mut v = [0.0; 8];
    for v in &mut v {
        *v = from.f64()?;
    }
    let [start, end, low, high, peak, energy, ratio, top] = v;
    let block = from.u64()?;
    let moves = from.u8()? == 1;
    let slope = from.f64()?;
    let mut ridge = Vec::new();
    for _ in 0..2 {
        ridge.push((from.u64()? as usize, from.f64()?, 1));
    }
    let sound = v.iter().all(|v| v.is_finite())
        && slope.is_finite()
        && ridge.iter().all(|p| p.1.is_finite() && (p.0 as u64) <= layout.n)
        && start <= end
        && ratio > 0.0
        && layout.blocks.contains(&(block as usize));
    if !sound {
        return Err(damaged("one of its events is none"));
    }
    if !moves {
        ridge.clear();
    }
    let (block, slope) = (block as usize, moves.then_some(slope));
    Ok(Event { start, end, low, high, peak, energy, ratio, top, block, ridge, slope })
}

fn damaged(why: &str) -> Error {
    Error::DamagedSketch(why.to_string())
}

fn cut_off() -> Error {
    damaged("it is cut off; copy it again")
}

/// Takes numbers from the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (first, rest) = self.rest.split_first_chunk().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*first)
    }
    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take::<1>()?[0])
    }
    fn u64(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_le_bytes)
    }
    fn f64(&mut self) -> Result<f64, Error> {
        self.take().map(f64::from_le_bytes)
    }
    /// A number of things of at least so many bytes each.
    fn count(&mut self, each: usize) -> Result<usize, Error> {
        let count = self.u64()?;
        let most = self.rest.len() / each;
        usize::try_from(count).ok().filter(|c| *c <= most).ok_or_else(cut_off)
    }
    /// A number that is not negative.
    fn power(&mut self) -> Result<f64, Error> {
        let v = self.f64()?;
        if v >= 0.0 && v.is_finite() { Ok(v) } else { Err(damaged("one of its powers is none")) }
    }
    fn small_power(&mut self) -> Result<f32, Error> {
        let v = f32::from_le_bytes(self.take()?);
        if v >= 0.0 && v.is_finite() { Ok(v) } else { Err(damaged("one of its powers is none")) }
    }
}
