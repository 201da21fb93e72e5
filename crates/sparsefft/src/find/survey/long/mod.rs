//! The survey as a reduction: a record in units that are measured apart and merged in any order.
//!
//! 1. [`layout`]: the record is cut at positions that depend on its length and the memory limit alone.
//! 2. [`unit`]: of every unit the mean power spectrum of short frames, the level of each channel, and
//!    what stands out for a part of it.
//! 3. Sums of units are kept for runs that begin and end at multiples of powers of two, and two of
//!    them are added when both are there: whatever the order, the same numbers are added in the same
//!    pairs, so that the findings do not depend on how the work was divided.
//! 4. [`finish`]: bands and candidates of lines in the mean spectrum, events across units.
//! 5. [`zoom`]: a second pass in which every candidate is searched as a record of its own, decimated,
//!    at the resolution of the whole record.

mod bytes;
mod candidates;
mod events;
mod finish;
mod layout;
mod unit;
mod zoom;

use super::bursts::Event;
use crate::find::findings::Findings;
use crate::samples::Samples;
use crate::sketch::{Gap, Part};
use crate::{Complex, Error};
use layout::{EVENT_BYTES, Layout, MOST_EVENTS, NODES};
use std::collections::{BTreeMap, BTreeSet};
use unit::{Row, Unit};

/// The mean power over a run of units.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// Sum over the frames.
    spectrum: Vec<f64>,
    frames: u64,
}

/// A survey of a record that is read in parts, by one process or many.
///
/// Parts are added in any order, and surveys of parts of one record are merged in any order: the
/// findings are the same to the last bit. The memory is bounded, however long the record is.
///
/// ```
/// use sparsefft::find::Survey;
///
/// // Two machines, each with a half of a record.
/// let n = 1 << 17;
/// let signal: Vec<f32> = (0..n)
///     .map(|t: u64| {
///         let noise = (t.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / (1 << 24) as f32;
///         (0.7 * t as f32 % std::f32::consts::TAU).sin() + 0.1 * noise
///     })
///     .collect();
/// let empty = Survey::new(n, true)?;
/// let (mut first, mut second) = (empty.clone(), empty);
/// first.add(0, &signal[..n as usize / 2])?;
/// second.add(n / 2, &signal[n as usize / 2..])?;
/// // What one of them stores, the other one merges.
/// first.merge(&Survey::from_bytes(&second.to_bytes())?)?;
/// assert!(first.is_complete());
/// // With the samples at hand lines are refined to the resolution of the whole record.
/// let findings = first.finish(Some(&signal))?;
/// let line = findings.lines.iter().find(|l| l.frequency > 0.0).unwrap();
/// assert!((line.frequency - 0.7 / std::f64::consts::TAU).abs() < 1e-7);
/// # Ok::<(), sparsefft::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    layout: Layout,
    failure: f64,
    /// Sums of units: (first unit, how many, as a power of two).
    nodes: BTreeMap<(u64, u32), Node>,
    rows: BTreeMap<u64, Row>,
    events: Vec<Event>,
    /// Events that were seen, kept or not.
    seen: u64,
    /// Samples of units that are not complete, by their place; no two pieces of a unit touch.
    open: BTreeMap<u64, Vec<Complex<f64>>>,
}

impl Survey {
    /// Memory of a survey unless [`with`](Survey::with) says otherwise, in bytes.
    pub const MEMORY: u64 = 256 << 20;
    /// Probability of each kind of false finding unless [`with`](Survey::with) says otherwise.
    pub const FAILURE: f64 = 1e-6;
    /// Fewest samples of a record.
    pub const SHORTEST: u64 = Layout::SHORTEST;

    /// An empty survey of a record of n samples, real or complex.
    ///
    /// # Errors
    /// As [`with`](Survey::with).
    pub fn new(n: u64, real: bool) -> Result<Self, Error> {
        Self::with(n, real, Self::FAILURE, Self::MEMORY)
    }

    /// An empty survey with a probability of each kind of false finding, and a limit on the memory
    /// in bytes. Surveys that are to be merged need the same of all.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for records shorter than [`SHORTEST`](Survey::SHORTEST) or too long for
    /// the memory, [`Error::InvalidOption`] for probabilities outside 0 … 1.
    pub fn with(n: u64, real: bool, failure: f64, memory: u64) -> Result<Self, Error> {
        if !(failure > 0.0 && failure < 1.0) {
            let allowed = "more than 0 and less than 1";
            return Err(Error::InvalidOption {
                name: "failure_probability",
                value: failure,
                allowed,
            });
        }
        if n < Layout::SHORTEST {
            let least = Layout::SHORTEST;
            return refuse(format!(
                "{n} samples are too few for a survey in parts, which takes {least} or more; use \
                 find for short records"
            ));
        }
        crate::problem::Problem::new(n).validate()?;
        let layout = Layout::new(n, real, memory).or_else(|need| {
            refuse(format!(
                "a survey in parts of {n} samples takes at least {need} bytes of memory, and {memory} \
                 are allowed: raise the limit"
            ))
        })?;
        Ok(Survey {
            layout,
            failure,
            nodes: BTreeMap::new(),
            rows: BTreeMap::new(),
            events: Vec::new(),
            seen: 0,
            open: BTreeMap::new(),
        })
    }

    /// Samples of the whole record.
    pub fn n(&self) -> u64 {
        self.layout.n
    }

    /// Whether the samples are real.
    pub fn is_real(&self) -> bool {
        self.layout.real
    }

    /// Samples of one unit. Parts that begin and end at multiples of it leave nothing behind that
    /// waits for its neighbour.
    pub fn unit(&self) -> u64 {
        self.layout.unit
    }

    /// Whether all samples were added.
    pub fn is_complete(&self) -> bool {
        self.rows.len() as u64 == self.layout.units
    }

    /// Adds the samples from `start` on. Of a survey of real samples the imaginary parts are left
    /// out.
    ///
    /// # Errors
    /// [`Error::RangeOutside`], [`Error::SeenTwice`], [`Error::NonFinite`], [`Error::Overflow`],
    /// [`Error::Unsupported`] if too many parts wait for their neighbours, and what the source meets.
    /// After an error the survey is as before, but for whole units that came before the fault.
    pub fn add<S: Samples + ?Sized>(&mut self, start: u64, samples: &S) -> Result<(), Error> {
        let (n, length) = (self.layout.n, samples.len());
        let end = start.checked_add(length).filter(|end| *end <= n);
        let end = end.ok_or(Error::RangeOutside { start, end: start.saturating_add(length), n })?;
        self.check_unseen(start, end)?;
        let mut at = start;
        while at < end {
            let unit = self.layout.unit_of(at);
            let range = self.layout.range(unit);
            let until = range.end.min(end);
            if at == range.start && until == range.end {
                let measured = self.measure(unit, samples, at - start)?;
                self.insert(unit, measured)?;
            } else {
                let mut values = vec![Complex::ZERO; (until - at) as usize];
                samples.read_range(at - start, &mut values)?;
                unit::check(&values, at)?;
                self.hold(at, values)?;
            }
            at = until;
        }
        Ok(())
    }

    /// Merges a survey of other samples of the same record.
    ///
    /// # Errors
    /// [`Error::OtherSketch`] if the two were made for other records or options,
    /// [`Error::SeenTwice`] if they have samples in common. Nothing was merged then. Otherwise as
    /// [`add`](Survey::add).
    pub fn merge(&mut self, other: &Survey) -> Result<(), Error> {
        self.check_layout(other)?;
        for unit in other.rows.keys() {
            let range = self.layout.range(*unit);
            self.check_unseen(range.start, range.end)?;
        }
        for (start, values) in &other.open {
            self.check_unseen(*start, start + values.len() as u64)?;
        }
        self.check_room(other)?;
        for ((first, level), node) in &other.nodes {
            self.insert_node(*first, *level, node.clone())?;
        }
        self.rows.extend(other.rows.iter().map(|(unit, row)| (*unit, row.clone())));
        self.seen += other.seen;
        self.events.extend(other.events.iter().cloned());
        self.limit_events();
        for (start, values) in &other.open {
            self.hold(*start, values.clone())?;
        }
        Ok(())
    }

    /// Measures a whole unit, which begins `offset` samples after the start of a source.
    fn measure<S: Samples + ?Sized>(
        &self,
        unit: u64,
        samples: &S,
        offset: u64,
    ) -> Result<Unit, Error> {
        let ln_p = self.failure.ln() - (self.layout.units as f64).ln();
        unit::measure(&self.layout, unit, samples, offset, ln_p)
    }

    /// Takes a measured unit in.
    fn insert(&mut self, unit: u64, measured: Unit) -> Result<(), Error> {
        let node = Node { spectrum: measured.spectrum, frames: measured.frames };
        self.insert_node(unit, 0, node)?;
        self.rows.insert(unit, measured.row);
        self.seen += measured.events.len() as u64;
        self.events.extend(measured.events);
        self.limit_events();
        Ok(())
    }

    /// Adds sums in pairs: a run of 2^level units to its neighbour of the same length, the earlier
    /// one first.
    fn insert_node(&mut self, mut first: u64, mut level: u32, mut node: Node) -> Result<(), Error> {
        while let Some(other) = self.nodes.remove(&(first ^ (1 << level), level)) {
            let is_later = first & (1 << level) != 0;
            let (mut early, late) = if is_later { (other, node) } else { (node, other) };
            early.spectrum.iter_mut().zip(&late.spectrum).for_each(|(a, b)| *a += b);
            early.frames += late.frames;
            first &= !(1 << level);
            level += 1;
            node = early;
        }
        if self.nodes.len() as u64 >= self.most_nodes() {
            return refuse(too_scattered());
        }
        self.nodes.insert((first, level), node);
        Ok(())
    }

    fn most_nodes(&self) -> u64 {
        NODES + u64::from(self.layout.units.ilog2())
    }

    /// Whether the sums and pieces of both surveys can be held together.
    fn check_room(&self, other: &Survey) -> Result<(), Error> {
        let mut places: BTreeSet<(u64, u32)> = self.nodes.keys().copied().collect();
        for &(mut first, mut level) in other.nodes.keys() {
            while places.remove(&(first ^ (1 << level), level)) {
                first &= !(1 << level);
                level += 1;
            }
            places.insert((first, level));
            if places.len() as u64 > self.most_nodes() {
                return refuse(too_scattered());
            }
        }
        self.check_held(other.open.values().map(Vec::len).sum())
    }

    /// Whether so many more samples can wait for their neighbours.
    fn check_held(&self, more: usize) -> Result<(), Error> {
        let held = self.open.values().map(Vec::len).sum::<usize>() + more;
        let most = (self.layout.memory / 64).max(4 * self.layout.unit);
        if held as u64 <= most {
            return Ok(());
        }
        refuse(format!(
            "{held} samples would wait for their neighbours, at most {most} may: add or merge parts \
             that touch, or cut them at multiples of {} samples",
            self.layout.unit
        ))
    }

    /// Keeps the strongest events: the same ones whatever was merged first.
    fn limit_events(&mut self) {
        if self.events.len() > 2 * MOST_EVENTS {
            self.truncate_events();
        }
    }

    fn truncate_events(&mut self) {
        strongest(&mut self.events);
    }

    /// Keeps a piece of a unit until the rest of it is there.
    fn hold(&mut self, start: u64, mut values: Vec<Complex<f64>>) -> Result<(), Error> {
        self.check_held(values.len())?;
        let unit = self.layout.unit_of(start);
        let range = self.layout.range(unit);
        let mut start = start;
        // The piece before it and the piece after it, if they touch.
        let before = self.open.range(range.start..start).next_back();
        let touches = |(at, v): &(&u64, &Vec<Complex<f64>>)| **at + v.len() == start;
        let before = before.filter(touches).map(|(at, _)| *at);
        if let Some(at) = before {
            let mut earlier = self.open.remove(&at).unwrap_or_default();
            earlier.append(&mut values);
            (values, start) = (earlier, at);
        }
        let end = start + values.len() as u64;
        // What begins with the next unit stays where it is.
        let later = if end < range.end { self.open.remove(&end) } else { None };
        values.extend(later.unwrap_or_default());
        if values.len() as u64 == range.end - range.start {
            let measured = self.measure(unit, &values[..], 0)?;
            return self.insert(unit, measured);
        }
        self.open.insert(start, values);
        Ok(())
    }

    /// Whether none of these samples was added before.
    fn check_unseen(&self, start: u64, end: u64) -> Result<(), Error> {
        if start >= end {
            return Ok(());
        }
        let (first, last) = (self.layout.unit_of(start), self.layout.unit_of(end - 1));
        if let Some((unit, _)) = self.rows.range(first..=last).next() {
            let range = self.layout.range(*unit);
            let seen = range.start.max(start)..range.end.min(end);
            return Err(Error::SeenTwice(vec![Part::range(seen)]));
        }
        let open = self.open.range(..end).next_back();
        match open.map(|(at, values)| (*at, at + values.len() as u64)) {
            Some((from, to)) if to > start => {
                Err(Error::SeenTwice(vec![Part::range(from.max(start)..to.min(end))]))
            }
            _ => Ok(()),
        }
    }

    fn check_layout(&self, other: &Survey) -> Result<(), Error> {
        let differs = |what, ours: String, theirs: String| {
            if ours == theirs { Ok(()) } else { Err(Error::OtherSketch { what, ours, theirs }) }
        };
        let (a, b) = (&self.layout, &other.layout);
        differs("the length", a.n.to_string(), b.n.to_string())?;
        differs("whether samples are real", a.real.to_string(), b.real.to_string())?;
        differs("the memory limit", a.memory.to_string(), b.memory.to_string())?;
        differs("the failure probability", self.failure.to_string(), other.failure.to_string())
    }

    /// The samples that are missing.
    fn check_complete(&self) -> Result<(), Error> {
        if self.is_complete() {
            return Ok(());
        }
        let units = self.rows.keys().map(|unit| self.layout.range(*unit));
        let pieces = self.open.iter().map(|(start, v)| *start..start + v.len() as u64);
        let mut seen: Vec<std::ops::Range<u64>> = units.chain(pieces).collect();
        seen.sort_by_key(|r| r.start);
        let n = self.layout.n;
        let (mut gaps, mut at) = (Vec::new(), 0);
        for range in seen {
            if range.start > at {
                gaps.push(Gap { range: at..range.start, missing: range.start - at });
            }
            at = range.end;
        }
        if at < n {
            gaps.push(Gap { range: at..n, missing: n - at });
        }
        let missing = gaps.iter().map(|g| g.missing).sum();
        Err(Error::Incomplete { gaps, missing, n })
    }

    /// The findings of the whole record.
    ///
    /// With a source of the same samples every candidate of a line is refined in one more pass, to
    /// the resolution of the whole record. Without, lines have the resolution of a frame.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if samples are missing, [`Error::LengthMismatch`] if the source has
    /// another length, and what the source meets.
    pub fn finish<S: Samples + ?Sized>(mut self, source: Option<&S>) -> Result<Findings, Error> {
        self.check_complete()?;
        if let Some(source) = source.filter(|s| s.len() != self.layout.n) {
            return Err(Error::LengthMismatch { expected: self.layout.n, got: source.len() });
        }
        self.truncate_events();
        let watch = crate::cpu::ticks::Stopwatch::start();
        finish::findings(self, source, watch)
    }

    /// Bytes that the survey holds at most while it is made, with so many units in work.
    fn memory_used(&self, workers: usize) -> u64 {
        let layout = &self.layout;
        layout.kept_bytes()
            + workers as u64 * layout.worker_bytes()
            + EVENT_BYTES * 2 * MOST_EVENTS as u64 / 8
    }
}

/// Surveys a signal of which all samples can be read, twice if there are candidates; all threads of
/// the pool read it.
pub(in crate::find) fn run<S: Samples + ?Sized>(
    signal: &S,
    failure: f64,
    memory: u64,
) -> Result<Findings, Error> {
    let watch = crate::cpu::ticks::Stopwatch::start();
    let mut survey = Survey::with(signal.len(), signal.is_real(), failure, memory)?;
    survey.add_all(signal)?;
    survey.truncate_events();
    finish::findings(survey, Some(signal), watch)
}

impl Survey {
    /// Adds a whole record.
    fn add_all<S: Samples + ?Sized>(&mut self, signal: &S) -> Result<(), Error> {
        let units = self.layout.units;
        let workers = self.layout.workers() as u64;
        // Each worker takes a run of units, so that their sums are added early.
        let run = units.div_ceil(workers);
        let empty = self.clone();
        let parts = in_parallel(workers as usize, |worker| -> Result<Survey, Error> {
            let mut part = empty.clone();
            let first = (worker as u64 * run).min(units);
            for unit in first..(first + run).min(units) {
                let offset = part.layout.range(unit).start;
                let measured = part.measure(unit, signal, offset)?;
                part.insert(unit, measured)?;
            }
            Ok(part)
        });
        for part in parts {
            self.merge(&part?)?;
        }
        Ok(())
    }
}

/// Calls a function for each of 0 … count-1, on all threads of the pool.
fn in_parallel<T: Send>(count: usize, f: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    #[cfg(feature = "rayon")]
    if count > 1 {
        use rayon::prelude::*;
        return (0..count).into_par_iter().map(f).collect();
    }
    (0..count).map(f).collect()
}

/// An order of events that does not depend on how they were found.
fn order(a: &Event, b: &Event) -> std::cmp::Ordering {
    a.start
        .total_cmp(&b.start)
        .then(a.low.total_cmp(&b.low))
        .then(a.block.cmp(&b.block))
        .then(a.end.total_cmp(&b.end))
        .then(a.high.total_cmp(&b.high))
}

/// Leaves as many events as are kept, the strongest.
fn strongest(events: &mut Vec<Event>) {
    events.sort_by(|a, b| b.energy.total_cmp(&a.energy).then(order(a, b)));
    events.truncate(MOST_EVENTS);
}

fn refuse<T>(reason: String) -> Result<T, Error> {
    Err(Error::Unsupported { algorithm: "survey", reason })
}

fn too_scattered() -> String {
    format!(
        "parts of the survey lie in more than {NODES} places that do not touch; add or merge \
         neighbouring parts one after the other"
    )
}
