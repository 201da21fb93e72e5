//! The survey: what is in a record of which all samples are at hand.
//!
//! 1. [`spectrum`]: the whole record under one window.
//! 2. [`lines`] that tower above everything are taken out, and the local [`floor`] is measured.
//! 3. [`blocks`]: power over time and frequency, in short and in long blocks.
//! 4. Lines, [`bands`] and [`bursts`] above the floor, each with a stated false-alarm probability;
//!    moving lines become [`sweeps`].
//! 5. What belongs together is named once: events inside a busy band, lines that are part of a
//!    burst, [`families`] of lines.

mod bands;
mod blocks;
mod bursts;
mod chance;
mod families;
mod fit;
mod floor;
mod lines;
pub(super) mod long;
mod peaks;
mod plane;
mod resolve;
mod spectrum;
mod stripe;
mod sweeps;
mod vector;

use super::findings::{
    Burst, Family, Floor as PublicFloor, FoundBand, Line, LineKind, Reason, Sweep,
};
use crate::tones::Drift;
use crate::{Complex, Error};
use blocks::{Blocks, Record};
use bursts::Event;
use families::Member;
use floor::Floor;
use lines::{Found, Limits, Shape};
use spectrum::{LOBE, Spectrum, correlated_bins};
use std::borrow::Cow;
use vector::{capped_sum, largest_of, range_of, scaled_sum, sum_of_squares};

/// Fewest samples of a survey.
pub(super) const SHORTEST: u64 = 64;
/// Bytes for each sample, real and complex: the record, its spectrum, power, density, two planes and
/// the tiles that stand out; while the spectrum is made, its buffers in place of these.
pub(super) const BYTES: [u64; 2] = [48, 96];
/// Bytes for each value of a transform whose length has large prime factors: four buffers of up to
/// 2.7 times as many values.
const AWKWARD_BYTES: u64 = 176;

/// Bytes that a survey of so many samples takes at most.
pub(super) fn bytes(n: u64, real: bool) -> u64 {
    let values = if real && n.is_multiple_of(2) { n / 2 } else { n };
    let mut left = values.max(1);
    for prime in [2, 3, 5, 7, 11, 13] {
        while left.is_multiple_of(prime) {
            left /= prime;
        }
    }
    let awkward = if left > 1 { AWKWARD_BYTES } else { 0 };
    n.saturating_mul(BYTES[usize::from(!real)]).saturating_add(values.saturating_mul(awkward))
}

/// Length of the short blocks.
const SHORT_BLOCK: usize = 64;
/// Range of the density from which on blocks take a window with faster side lobes.
const STEEP: f64 = 1e5;
/// Share of the time from which on events belong to the band in which they lie.
const BUSY: f64 = 0.3;
/// Share of the record during which a group of bins, and a line, must be there to count beside a
/// burst: its spectrum has side lobes that look like lines.
const PRESENT: f64 = 0.5;
const BRIEF: f64 = 0.2;
/// Parts of the record whose powers are compared, the deviations and the change that are stated.
const PARTS: usize = 16;
const UNSTEADY_SIGMAS: f64 = 8.0;
const UNSTEADY: f64 = 0.05;

/// The samples of a record: a copy, or where they lie.
pub(super) enum Samples<'a> {
    Real(Vec<f64>),
    Complex(Cow<'a, [Complex<f64>]>),
}

impl Samples<'_> {
    fn as_record(&self) -> Record<'_> {
        match self {
            Samples::Real(x) => Record::Real(x),
            Samples::Complex(x) => Record::Complex(x),
        }
    }
}

/// What a survey has found.
pub(super) struct Survey {
    pub(super) lines: Vec<Line>,
    pub(super) bands: Vec<FoundBand>,
    pub(super) bursts: Vec<Burst>,
    pub(super) sweeps: Vec<Sweep>,
    pub(super) families: Vec<Family>,
    pub(super) floor: PublicFloor,
    pub(super) reasons: Vec<Reason>,
    pub(super) threshold_db: f64,
}

/// Surveys a record of at least [`SHORTEST`] samples; `failure` is the probability of each kind of
/// false finding.
pub(super) fn run(samples: &Samples<'_>, failure: f64) -> Result<Survey, Error> {
    let record = samples.as_record();
    let (n, real) = (record.len(), matches!(record, Record::Real(_)));
    let scale = scale_of(record);
    if scale == 0.0 {
        return Ok(silent());
    }
    let ln_p = failure.ln();
    let correlated = correlated_bins();
    let mut spectrum = match record {
        Record::Real(x) => Spectrum::of_real(x, scale)?,
        Record::Complex(x) => Spectrum::of_complex(x, scale)?,
    };
    let (mut towering, quiet) = lines::take_towering(&mut spectrum);
    let mut floor = Floor::of(&spectrum.power, real, correlated);
    let (low, high) = range_of(&floor.density);
    let wide = high > STEEP * low;
    let mut ladder = Vec::new();
    for length in block_lengths(n) {
        ladder.push(Blocks::of(record, length, wide, scale)?);
    }
    // What is there part of the time has fewer degrees of freedom than its bins suggest.
    let mut draws: Vec<f64> = floor.cells.iter().map(|c| c.draws).collect();
    if let Some(blocks) = ladder.last() {
        let steady = blocks.steadiness();
        for (cell, draws) in floor.cells.iter_mut().zip(&mut draws) {
            let channel = cell.middle() * blocks.length as f64 / n as f64;
            let share = between(&steady, channel);
            cell.smooth_draws = (cell.smooth_draws * share).max(12.0);
            *draws = (*draws * share).max(2.0);
        }
    }

    let limits = Limits::new(ln_p - (2.0 * spectrum.power.len() as f64).ln());
    let mut found = lines::find(&spectrum, &floor, ln_p);
    resolve::close_lines(&spectrum, &floor, &limits, &mut found);
    found.retain(|l| !towering.iter().any(|t| distance(l, t, n, real) < 3.0 * LOBE as f64));
    lines::judge_towering(&mut towering, quiet, &floor);
    found.splice(0..0, towering);
    let bands = bands::find(&spectrum, &floor, &draws);
    let mut events: Vec<Event> = Vec::new();
    for blocks in &ladder {
        events.extend(sweeps::link(bursts::find(blocks, &floor, n, real, ln_p)));
    }
    let crowded = events.len() > sweeps::MOST_EVENTS;
    let mut events = sweeps::merge(events, n as f64);
    let busy = busy_shares(&bands, &mut events, n, !ladder.is_empty());
    found.retain(|l| {
        let at = l.fit.bin / n as f64;
        let in_event = || events.iter().any(|e| e.low <= at && at <= e.high);
        let whole = l.shape == Shape::Single && (l.fit.damping != 0.0 || l.fit.presence > BRIEF);
        whole || l.fit.presence >= PRESENT || !in_event()
    });

    let unit = Units { n, real, scale, unit: spectrum.unit(), floor: &floor, limits };
    found.retain(|f| !unit.is_offset(f));
    let mut lines: Vec<Line> = found.iter().map(|f| unit.line(f)).collect();
    let families = unit.families(&found);
    lines.extend(unit.mean(record));
    // Strongest first; families name their members by their new places.
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|a, b| lines[*b].magnitude().total_cmp(&lines[*a].magnitude()));
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
    lines = order.iter().map(|i| lines[*i]).collect();
    let families = families
        .into_iter()
        .map(|mut f| {
            f.members.iter_mut().for_each(|m| *m = place[*m]);
            f.members.sort_unstable();
            f
        })
        .collect();
    let bands = bands.iter().zip(busy).map(|(b, busy)| unit.band(&spectrum, b, busy)).collect();
    let mut bursts = Vec::new();
    let mut moving = Vec::new();
    for event in &events {
        match event.slope {
            Some(_) => moving.push(unit.sweep(event)),
            None => bursts.push(unit.burst(event)),
        }
    }
    bursts.sort_by_key(|b| b.start);
    moving.sort_by_key(|s| s.start);
    let mut reasons = Vec::new();
    if let Some(change) = ladder.first().and_then(change_over_time) {
        reasons.push(Reason::new(
            "unsteady",
            format!("the power of the floor changes by {change:.1} dB over the record"),
        ));
    }
    if crowded {
        reasons.push(Reason::new(
            "crowded",
            format!("more than {} events: the strongest are listed as bursts", sweeps::MOST_EVENTS),
        ));
    }
    let stated = unit.floor();
    // The headline holds for nine tenths of the band.
    let mut thresholds = stated.threshold_db.clone();
    thresholds.sort_by(f64::total_cmp);
    let threshold_db = thresholds[(thresholds.len() * 9 / 10).min(thresholds.len() - 1)];
    Ok(Survey {
        lines,
        bands,
        bursts,
        sweeps: moving,
        families,
        floor: stated,
        reasons,
        threshold_db,
    })
}

/// Nothing but zeros.
fn silent() -> Survey {
    Survey {
        lines: Vec::new(),
        bands: Vec::new(),
        bursts: Vec::new(),
        sweeps: Vec::new(),
        families: Vec::new(),
        floor: PublicFloor::default(),
        reasons: vec![Reason::new("silent", "all samples are zero, or below 1e-150")],
        threshold_db: 0.0,
    }
}

/// Samples below this have squares that vanish.
const LEAST: f64 = 1e-150;

/// Factor that brings the samples to a mean power of 1; 0 if all are zero, or nearly so.
fn scale_of(record: Record<'_>) -> f64 {
    // Against overflow the largest value comes first.
    let (values, count) = (record.values(), record.len());
    let largest = largest_of(values);
    if largest < LEAST {
        return 0.0;
    }
    let inverse = 1.0 / largest;
    inverse / (sum_of_squares(values, inverse) / count as f64).sqrt()
}

/// Lengths of the blocks: short ones, and long ones that grow with the root of the record.
fn block_lengths(n: usize) -> Vec<usize> {
    let long = 1 << (((n as f64).log2() / 2.0 + 0.5).round() as u32).clamp(6, 13);
    let mut lengths = vec![SHORT_BLOCK, long];
    lengths.dedup();
    lengths.retain(|l| n >= bursts::FEWEST_BLOCKS * l);
    lengths
}

/// A value between the members of a list.
fn between(list: &[f64], at: f64) -> f64 {
    let i = (at.max(0.0) as usize).min(list.len() - 1);
    let j = (i + 1).min(list.len() - 1);
    list[i] + (at - i as f64).clamp(0.0, 1.0) * (list[j] - list[i])
}

/// Bins between two lines, around the end of a complex spectrum.
fn distance(a: &Found, b: &Found, n: usize, real: bool) -> f64 {
    let d = (a.fit.bin - b.fit.bin).abs();
    if real { d } else { d.min(n as f64 - d) }
}

/// For each band the share of the time during which there are events in it. Where that is much, the
/// events belong to the band (modulation, hopping) and leave the list.
fn busy_shares(
    bands: &[bands::Band],
    events: &mut Vec<Event>,
    n: usize,
    judged: bool,
) -> Vec<Option<f64>> {
    const CELLS: usize = 512;
    let n = n as f64;
    let inside = |b: &bands::Band, e: &Event| {
        b.low <= e.peak * n && e.peak * n <= b.high && e.slope.is_none()
    };
    let shares: Vec<f64> = bands
        .iter()
        .map(|b| {
            let mut occupied = [false; CELLS];
            for e in events.iter().filter(|e| inside(b, e)) {
                let cell = |t: f64| ((t / n * CELLS as f64) as usize).min(CELLS - 1);
                occupied[cell(e.start)..=cell(e.end)].fill(true);
            }
            occupied.iter().filter(|o| **o).count() as f64 / CELLS as f64
        })
        .collect();
    events.retain(|e| !bands.iter().zip(&shares).any(|(b, s)| *s > BUSY && inside(b, e)));
    shares.into_iter().map(|s| judged.then_some(s)).collect()
}

/// By how many dB the floor changes over the record, if that is more than chance makes.
fn change_over_time(blocks: &Blocks) -> Option<f64> {
    const CAP: f32 = 12.0;
    let inner = 1..blocks.channels - 1;
    let every = blocks.count.div_ceil(512).max(1);
    let inverse: Vec<f32> = inner
        .clone()
        .map(|k| {
            let mut values: Vec<f32> = (0..blocks.count)
                .step_by(every)
                .map(|b| blocks.power[b * blocks.channels + k])
                .collect();
            let middle = values.len() / 2;
            (*values.select_nth_unstable_by(middle, f32::total_cmp).1 + 1e-30).recip()
        })
        .collect();
    let mut parts: Vec<f64> = (0..PARTS)
        .map(|part| {
            let (from, to) = (part * blocks.count / PARTS, (part + 1) * blocks.count / PARTS);
            let (mut sum, mut count) = (0.0, 0.0);
            for block in from..to {
                let row = &blocks.row(block)[inner.clone()];
                sum += f64::from(capped_sum(row, &inverse, CAP));
                count += inverse.len() as f64;
            }
            sum / f64::max(count, 1.0)
        })
        .collect();
    parts.sort_by(f64::total_cmp);
    let middle = 0.5 * (parts[PARTS / 2 - 1] + parts[PARTS / 2]);
    let change = (parts[PARTS - 1] - parts[0]) / (middle + 1e-9);
    let independent = blocks.count as f64 / PARTS as f64 * blocks.channels as f64 * 0.45;
    let sigma = 1.3 * (2.0 / independent).sqrt();
    (change > (UNSTEADY_SIGMAS * sigma).max(UNSTEADY)).then(|| 10.0 * (1.0 + change).log10())
}

/// SNR in dB from which on a line is not overlooked where the floor rests on so many bins.
fn threshold_db(limits: &Limits, draws: f64) -> f64 {
    /// Loss of a line between two bins.
    const SCALLOP_DB: f64 = 0.9;
    /// Deviations by which noise must not push a line below the threshold.
    const SIGMAS: f64 = 3.1;
    let limit = limits.of(draws);
    let enough = limit * (1.0 + SIGMAS * (2.0 / limit).sqrt());
    10.0 * (enough * spectrum::noise_bandwidth()).log10() + SCALLOP_DB
}

/// From bins and scaled powers to what the answer states.
struct Units<'a> {
    n: usize,
    real: bool,
    scale: f64,
    unit: f64,
    floor: &'a Floor,
    limits: Limits,
}

impl Units<'_> {
    /// A bin as a frequency in cycles per sample.
    fn frequency(&self, bin: f64) -> f64 {
        self.cycles(bin / self.n as f64)
    }

    /// 0 … 1 cycles per sample as -1/2 … 1/2.
    fn cycles(&self, share: f64) -> f64 {
        if self.real || share < 0.5 { share } else { share - 1.0 }
    }

    /// Edges, of which the upper one may lie beyond 1/2.
    fn edges(&self, low: f64, high: f64) -> (f64, f64) {
        if !self.real && high - low > 0.9 {
            return (-0.5, 0.5);
        }
        let from = self.cycles(low.max(0.0));
        let to = from + (high - low.max(0.0)).max(0.0);
        (from, if self.real { to.min(0.5) } else { to })
    }

    fn density(&self, bin: f64) -> f64 {
        let density = &self.floor.density;
        density[(bin.max(0.0) as usize).min(density.len() - 1)] / (self.scale * self.scale)
    }

    fn line(&self, found: &Found) -> Line {
        let (n, fit) = (self.n as f64, &found.fit);
        let kind = match found.shape {
            Shape::Single if fit.damping != 0.0 => LineKind::Damped,
            Shape::Single => LineKind::Tone,
            Shape::Broad => LineKind::Broad,
            Shape::Cluster => LineKind::Cluster,
        };
        let density = self.density(fit.bin);
        let mut a = fit.amplitude * self.unit / self.scale;
        // Mean power of a damped line: that of the middle of the record times sinh(λ)/λ.
        let decay = fit.damping.abs().max(1e-6);
        let snr = n * a.norm_sqr() * (decay.sinh() / decay) / density;
        if found.shape == Shape::Single {
            // From the middle of the record to its first sample.
            let turns = fit.drift / 8.0 - 0.5 * fit.offset;
            a *= Complex::cis(std::f64::consts::TAU * turns) * (0.5 * fit.damping).exp();
        }
        let single = found.shape == Shape::Single;
        Line {
            kind,
            frequency: self.frequency(fit.bin),
            frequency_std: fit.bin_std / n,
            amplitude: a,
            amplitude_std: (0.5 * density / n).sqrt() / spectrum::GAIN * fit.chi.max(1.0).sqrt(),
            snr_db: (snr > 0.0 && snr.is_finite()).then(|| 10.0 * snr.log10()),
            drift: (single && fit.drift != 0.0)
                .then(|| Drift { rate: fit.drift / (n * n), std: fit.drift_std / (n * n) }),
            width: (found.width > 0.0).then(|| found.width / n),
            damping: (single && fit.damping != 0.0).then(|| fit.damping / n),
            mirrored: self.real,
        }
    }

    /// Whether a group of bins is the mean of a real record, which is stated by itself.
    fn is_offset(&self, found: &Found) -> bool {
        self.real && found.fit.bin < 2.0
    }

    /// The mean of a real record, where it is more than the floor of the lowest cell makes: a drift
    /// or a coloured floor has a mean, too, so that nothing is concluded from it.
    fn mean(&self, record: Record<'_>) -> Option<Line> {
        let Record::Real(x) = record else { return None };
        let n = self.n as f64;
        // Against overflow, in the scale of the survey.
        let mean = scaled_sum(x, self.scale) / n / self.scale;
        let density = self.density(self.floor.cells[0].middle());
        let snr = n * mean * mean / density;
        (snr > self.limits.of(self.floor.cells[0].draws)).then(|| Line {
            kind: LineKind::Offset,
            frequency: 0.0,
            frequency_std: 0.0,
            amplitude: mean.into(),
            amplitude_std: (density / n).sqrt(),
            snr_db: snr.is_finite().then(|| 10.0 * snr.log10()),
            drift: None,
            width: None,
            damping: None,
            mirrored: false,
        })
    }

    fn families(&self, found: &[Found]) -> Vec<Family> {
        /// Widest group of bins that can be a member.
        const NARROW: f64 = 200.0;
        let eligible: Vec<usize> = (0..found.len())
            .filter(|i| {
                let f = &found[*i];
                (f.shape == Shape::Single || f.width < NARROW) && f.fit.bin > 3.0
            })
            .collect();
        let n = self.n as f64;
        // Of a complex signal frequencies count from zero in both directions.
        let members: Vec<Member> = eligible
            .iter()
            .map(|i| {
                let f = &found[*i];
                let tolerance = (0.5 * f.width).max(3.0 * f.fit.bin_std).max(1.0);
                Member { bin: self.frequency(f.fit.bin) * n, tolerance }
            })
            .collect();
        families::find(&members)
            .into_iter()
            .map(|f| Family {
                spacing: f.spacing / n,
                carrier: f.carrier.map(|c| c / n),
                orders: f.orders,
                members: f.lines.into_iter().map(|i| eligible[i]).collect(),
            })
            .collect()
    }

    fn band(&self, spectrum: &Spectrum, band: &bands::Band, busy: Option<f64>) -> FoundBand {
        let bins = spectrum.power.len();
        let (low, high) = (band.low.max(0.0) as usize, (band.high as usize).min(bins - 1));
        let sum: f64 = if low <= high {
            spectrum.power[low..=high].iter().sum()
        } else {
            // Around the end of a complex spectrum.
            spectrum.power[low..].iter().chain(&spectrum.power[..=high]).sum()
        };
        let mirror = if self.real { 2.0 } else { 1.0 };
        let n = self.n as f64;
        let wrapped = if band.high < band.low { band.high + n } else { band.high };
        let (from, to) = self.edges(band.low / n, wrapped / n);
        FoundBand {
            low: from,
            high: to,
            peak: self.frequency(band.peak),
            power: mirror * sum / n / (self.scale * self.scale),
            above_db: band.persistence,
            busy,
        }
    }

    fn power(&self, event: &Event) -> f64 {
        let mirror = if self.real { 2.0 } else { 1.0 };
        mirror * event.energy / (event.end - event.start).max(1.0) / (self.scale * self.scale)
    }

    fn span(&self, event: &Event) -> (u64, u64) {
        let start = (event.start.max(0.0) as u64).min(self.n as u64 - 1);
        let length = (event.end - event.start).max(1.0) as u64;
        (start, length.min(self.n as u64 - start).max(1))
    }

    fn burst(&self, event: &Event) -> Burst {
        let (start, length) = self.span(event);
        let (low, high) = self.edges(event.low, event.high);
        let above_db = 10.0 * event.ratio.log10();
        Burst { start, length, low, high, power: self.power(event), above_db }
    }

    fn sweep(&self, event: &Event) -> Sweep {
        let (start, length) = self.span(event);
        let (slope, at) = sweeps::straight(&event.ridge);
        let channel = 1.0 / event.block as f64;
        let place = |sample: f64| {
            let block = (sample - 0.5 * event.block as f64) / (event.block / 2) as f64;
            ((at + slope * block) * channel).clamp(0.0, 1.0)
        };
        let from = place(event.start);
        let to = place(event.end);
        let first = self.cycles(from);
        Sweep {
            start,
            length,
            from: first,
            to: first + (to - from),
            rate: slope * channel / (event.block / 2) as f64,
            power: self.power(event),
            above_db: 10.0 * event.ratio.log10(),
        }
    }

    fn floor(&self) -> PublicFloor {
        let mut cells: Vec<&floor::Cell> = self.floor.cells.iter().collect();
        let frequency = |c: &floor::Cell| self.frequency(c.middle());
        cells.sort_by(|a, b| frequency(a).total_cmp(&frequency(b)));
        let each = |f: &dyn Fn(&floor::Cell) -> f64| cells.iter().map(|c| f(c)).collect();
        PublicFloor {
            frequency: each(&frequency),
            density: each(&|c| self.density(c.middle())),
            std_db: each(&|c| 4.343 * 2.0 / c.smooth_draws.sqrt()),
            threshold_db: each(&|c| threshold_db(&self.limits, c.smooth_draws)),
        }
    }
}
