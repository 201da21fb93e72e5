//! From sums, levels and events of all units to findings.

use super::super::bands::{self, Band};
use super::super::families::{self, Member};
use super::super::floor::Floor;
use super::super::lines::{Limits, Shape};
use super::super::spectrum::{LOBE, Spectrum, correlated_bins, noise_bandwidth};
use super::super::{
    BRIEF, BUSY, PARTS, PRESENT, UNSTEADY, UNSTEADY_SIGMAS, Units, between, busy_shares,
    threshold_db,
};
use super::candidates::{self, Candidate, Mask};
use super::layout::Layout;
use super::unit::lift_lowest;
use super::{Survey, events, zoom};
use crate::cpu::ticks::Stopwatch;
use crate::find::findings::{
    Attempt, Cost, Family, Findings, Floor as PublicFloor, Line, LineKind, Outcome, Reason,
};
use crate::samples::Samples;
use crate::{Complex, Error, Stage};

/// Candidates of noise that may pass on to the second pass, on average: there they are tested again.
const FALSE_CANDIDATES: f64 = 0.3;
/// Most candidates that are refined, and most that are listed without.
const MOST_REFINED: usize = 512;
const MOST_LISTED: usize = 4096;
/// How far the bins beside a candidate may lie above the floor around them to be its level.
const BESIDE_FLOOR: f64 = 1.1;
/// Channels beside a candidate that are searched, too: with its own they cover its main lobe.
const ASIDE: i64 = 3;
/// Loss of a line between two bins, and deviations by which noise must not push one below the
/// threshold.
const SCALLOP_DB: f64 = 0.9;
const SIGMAS: f64 = 3.1;
/// Widest group of bins that can be a member of a family.
const NARROW: f64 = 200.0;

/// The mean spectrum of the whole record and what is measured in it.
struct Whole {
    /// Without the side lobes of very strong lines.
    spectrum: Spectrum,
    /// The mean power of each bin as it is.
    raw: Vec<f64>,
    masks: Vec<Mask>,
    floor: Floor,
    /// Frames that the mean is taken of.
    spectra: f64,
    /// Factor that brings samples to a mean power of 1.
    scale: f64,
}

/// The findings of a complete survey.
pub(super) fn findings<S: Samples + ?Sized>(
    mut survey: Survey,
    source: Option<&S>,
    watch: Stopwatch,
) -> Result<Findings, Error> {
    let layout = survey.layout.clone();
    let ln_p = survey.failure.ln();
    let mut out = empty(&survey);
    let largest = survey.rows.values().fold(0.0f64, |m, r| m.max(r.largest));
    if largest < super::super::LEAST {
        let text = "all samples are zero, or below 1e-150";
        out.reasons.push(Reason::new("silent", text));
        out.threshold_db = 0.0;
        return Ok(done(out, &survey, watch, 1, 0));
    }
    let mut whole = whole(&mut survey, &layout);
    let draws = temper(&mut whole.floor, &survey, &layout);
    let bands = bands::find(&whole.spectrum, &whole.floor, &draws);

    let bins = whole.spectrum.power.len() as f64;
    let strict = ln_p - (2.0 * bins).ln();
    let loose = if source.is_some() { (FALSE_CANDIDATES / bins).ln() } else { strict };
    let mut candidates = candidates::find(&whole.raw, layout.real, whole.spectra, loose);
    let hidden = |c: &Candidate| whole.masks.iter().any(|m| m.contains(c.top) && c.top != m.top);
    candidates.retain(|c| !hidden(c));
    let (mut lines, refined) = match source {
        Some(signal) => refined(&whole, &layout, signal, &candidates, ln_p, strict, &mut out)?,
        None => (coarse(&whole, &layout, &candidates, &mut out), 0),
    };
    let mut found = std::mem::take(&mut survey.events);
    let dropped = survey.seen - found.len() as u64;
    found = events::join(found, &layout);
    let cells = whole.floor.cells.clone();
    let mut lifted = Floor { density: whole.floor.density.clone(), cells };
    lift_lowest(&mut lifted, &whole.raw, layout.real);
    found = events::with_long(found, &survey.rows, &lifted, &layout, ln_p);
    found.retain(|e| e.end - e.start < 0.9 * layout.n as f64 || e.slope.is_some());
    let stretch = layout.n as f64 / layout.frame as f64;
    let of_record: Vec<Band> = bands
        .iter()
        .map(|b| Band {
            low: b.low * stretch,
            high: b.high * stretch,
            peak: b.peak * stretch,
            ..*b
        })
        .collect();
    let judged = !layout.blocks.is_empty();
    let busy = busy_shares(&of_record, &mut found, layout.n as usize, judged);
    lines.retain(|(line, presence)| {
        let at = line.frequency.rem_euclid(1.0);
        let in_event = || found.iter().any(|e| e.low <= at && at <= e.high);
        let whole = line.width.is_none() || line.damping.is_some();
        (whole && *presence > BRIEF) || *presence >= PRESENT || !in_event()
    });

    let limits = || Limits::new(strict);
    let of_frames = Units {
        n: layout.frame,
        real: layout.real,
        scale: whole.scale,
        unit: whole.spectrum.unit(),
        floor: &whole.floor,
        limits: limits(),
    };
    out.lines = lines.into_iter().map(|(line, _)| line).collect();
    out.lines.extend(offset(&survey, &of_frames, &layout));
    out.lines.sort_by(|a, b| b.magnitude().total_cmp(&a.magnitude()));
    out.families = families_of(&out.lines, &layout);
    out.bands =
        bands.iter().zip(busy).map(|(b, busy)| of_frames.band(&whole.spectrum, b, busy)).collect();
    out.floor = of_frames.floor();
    // Events are in the units of the samples.
    let of_samples = Units { n: layout.n as usize, scale: 1.0, limits: limits(), ..of_frames };
    for event in &found {
        match event.slope {
            Some(_) => out.sweeps.push(of_samples.sweep(event)),
            None => out.bursts.push(of_samples.burst(event)),
        }
    }
    name_once(&mut out);
    out.bursts.sort_by_key(|b| b.start);
    out.sweeps.sort_by_key(|s| s.start);
    state(&mut out, &survey, &layout, whole.spectra, loose, dropped, source.is_some());
    let passes = 1 + u64::from(refined > 0);
    Ok(done(out, &survey, watch, passes, refined))
}

/// Takes out what a sweep explains: the band that it has crossed, and the pieces of its track.
fn name_once(out: &mut Findings) {
    /// How far from its track a piece may lie.
    const BESIDE: f64 = 1.0 / super::super::SHORT_BLOCK as f64;
    /// Share of the record from which on a sweep makes a band of its own.
    const LASTING: f64 = 1.0 / 16.0;
    let least = LASTING * out.n as f64;
    let sweeps: Vec<_> = out.sweeps.iter().filter(|s| s.length as f64 >= least).copied().collect();
    out.bands.retain(|b| {
        // A busy band stands for the events in it.
        let busy = b.busy.is_some_and(|busy| busy > BUSY);
        busy || !sweeps.iter().any(|s| {
            let (low, high) = (s.from.min(s.to) - BESIDE, s.from.max(s.to) + BESIDE);
            b.low >= low && b.high <= high
        })
    });
    out.bursts.retain(|b| {
        let middle = b.start as f64 + 0.5 * b.length as f64;
        !sweeps.iter().any(|s| {
            let since = middle - s.start as f64;
            let at = s.from + s.rate * since;
            let during = since > -0.1 * s.length as f64 && since < 1.1 * s.length as f64;
            during && at > b.low - BESIDE && at < b.high + BESIDE
        })
    });
}

fn empty(survey: &Survey) -> Findings {
    Findings {
        n: survey.layout.n,
        real: survey.layout.real,
        lines: Vec::new(),
        bands: Vec::new(),
        bursts: Vec::new(),
        sweeps: Vec::new(),
        families: Vec::new(),
        floor: PublicFloor::default(),
        outcome: Outcome::Complete,
        reasons: Vec::new(),
        threshold_db: f64::INFINITY,
        failure_probability: survey.failure,
        left_out: 0,
        seed: 0,
        cost: Cost::default(),
        sparse: None,
    }
}

/// States what it has cost.
fn done(
    mut out: Findings,
    survey: &Survey,
    watch: Stopwatch,
    passes: u64,
    refined: u64,
) -> Findings {
    let elapsed = watch.elapsed();
    let zooms = refined * survey.layout.zoom_bytes();
    out.cost.memory = survey.memory_used(survey.layout.workers()) + zooms;
    out.cost.attempts.push(Attempt {
        kind: "survey",
        outcome: out.outcome.name(),
        samples_read: passes * survey.layout.n,
        elapsed,
        stages: vec![(Stage::Dense, elapsed)],
    });
    out
}

/// The mean spectrum over all frames, and its floor.
fn whole(survey: &mut Survey, layout: &Layout) -> Whole {
    let mut nodes = std::mem::take(&mut survey.nodes).into_values();
    let first = nodes.next();
    let (mut sum, mut frames) = first.map_or((Vec::new(), 0), |n| (n.spectrum, n.frames));
    for node in nodes {
        sum.iter_mut().zip(&node.spectrum).for_each(|(a, b)| *a += b);
        frames += node.frames;
    }
    let spectra = frames.max(1) as f64;
    let mirror = |k: usize| {
        let alone = !layout.real || k == 0 || 2 * k == layout.frame;
        if alone { 1.0 } else { 2.0 }
    };
    let total: f64 = sum.iter().enumerate().map(|(k, p)| mirror(k) * p / spectra).sum();
    let mean = (total / layout.frame as f64).max(f64::MIN_POSITIVE);
    let scale = 1.0 / mean.sqrt();
    // Rounding of a transform is no signal; and logarithms need something to work on.
    const ROUNDING: f64 = 1e-28;
    let norm = 1.0 / (spectra * mean);
    let largest = sum.iter().fold(0.0f64, |m, p| m.max(p * norm));
    let power: Vec<f64> = sum.iter().map(|p| (p * norm).max(ROUNDING * largest + 1e-300)).collect();
    let masks = candidates::masks(&power, layout.real);
    let mut clean = power.clone();
    masks.iter().for_each(|m| m.fill(&mut clean));
    let floor = Floor::of_mean(&clean, layout.real, correlated_bins(), spectra);
    let spectrum = Spectrum::of_power(layout.real, layout.frame, clean);
    Whole { spectrum, raw: power, masks, floor, spectra, scale }
}

/// Independent bins of each cell: fewer where the power is there only part of the time.
fn temper(floor: &mut Floor, survey: &Survey, layout: &Layout) -> Vec<f64> {
    let (units, channels) = (survey.rows.len() as f64, layout.means());
    let (mut sums, mut squares) = (vec![0.0; channels], vec![0.0; channels]);
    for row in survey.rows.values() {
        for ((sum, square), m) in sums.iter_mut().zip(&mut squares).zip(&row.mean) {
            let power = f64::from(*m) * row.unit;
            *sum += power;
            *square += power * power;
        }
    }
    let steady: Vec<f64> = sums
        .iter()
        .zip(&squares)
        .map(|(s, q)| (1.25 * s * s / (units * q).max(1e-300)).clamp(1.0 / units, 1.0))
        .collect();
    let short = super::super::SHORT_BLOCK as f64;
    let mut draws = Vec::with_capacity(floor.cells.len());
    for cell in &mut floor.cells {
        let share = between(&steady, cell.middle() * short / layout.frame as f64);
        cell.smooth_draws = (cell.smooth_draws * share).max(12.0);
        draws.push((cell.draws * share).max(2.0));
    }
    draws
}

/// Lines of the second pass, each with the share of the record during which it is there, and how many
/// series were made.
fn refined<S: Samples + ?Sized>(
    whole: &Whole,
    layout: &Layout,
    signal: &S,
    candidates: &[Candidate],
    ln_p: f64,
    strict: f64,
    out: &mut Findings,
) -> Result<(Vec<(Line, f64)>, u64), Error> {
    let room =
        (layout.memory.saturating_sub(layout.kept_bytes()) / 4 / layout.zoom_bytes()) as usize;
    let most = room.clamp(1, MOST_REFINED);
    let mut channels: Vec<(usize, Option<f64>)> = Vec::new();
    // A mean, and what else is there below the main lobe of a frame, are told apart there alone.
    let lowest = layout.real && candidates.iter().any(|c| c.top <= 2 * LOBE);
    channels.extend(lowest.then_some((0, None)));
    let count = candidates.len();
    let mut covered = 0;
    for c in candidates {
        if !channels.iter().any(|(channel, _)| *channel == c.top) {
            if channels.len() >= most {
                break;
            }
            // Beside a candidate there may be other lines, which the floor does not see.
            let level = c.density.min(BESIDE_FLOOR * whole.floor.density[c.top]);
            channels.push((c.top, Some(level)));
        }
        covered += 1;
    }
    // Weaker lines within the main lobe of a candidate have no top of their own.
    let frame = layout.frame as i64;
    for c in &candidates[..covered] {
        for beside in [-ASIDE, ASIDE] {
            let at = c.top as i64 + beside;
            let at = if layout.real { at } else { at.rem_euclid(frame) };
            // The ends of a real spectrum, where a mean is folded in, are searched by themselves.
            let ends = if layout.real { 3 * LOBE as i64 } else { 0 };
            let inside = at >= ends && at < whole.raw.len() as i64 - ends;
            let new = inside && !channels.iter().any(|(k, _)| (*k as i64 - at).abs() < 2);
            if new && channels.len() < most {
                let level = BESIDE_FLOOR * whole.floor.density[at as usize];
                channels.push((at as usize, Some(level)));
            }
        }
    }
    channels.sort_unstable_by_key(|c| c.0);
    let series = channels.len() as u64;
    let refined = zoom::refine(layout, signal, &channels, whole.spectra, whole.scale, ln_p)?;
    let mut lines: Vec<(Line, f64)> =
        refined.iter().map(|r| (r.line, presence(&r.found))).collect();
    if covered < count {
        // The rest as the mean spectrum shows it, under its own threshold.
        let limit = candidates::limit(whole.spectra, strict);
        let rest = candidates[covered..].iter().filter(|c| c.ratio > limit);
        let rest: Vec<Candidate> = rest.copied().collect();
        out.reasons.push(Reason::new(
            "lines_not_refined",
            format!(
                "{covered} of {count} lines were refined to the resolution of the whole record; the \
                 weakest {} are stated at that of {} samples",
                rest.len(),
                layout.frame
            ),
        ));
        lines.extend(coarse(whole, layout, &rest, out));
    }
    Ok((lines, series))
}

/// Share of the record during which a line is there; a damped one is there as it is.
fn presence(found: &super::super::lines::Found) -> f64 {
    if found.shape == Shape::Single && found.fit.damping != 0.0 { 1.0 } else { found.fit.presence }
}

/// Lines as the mean spectrum shows them.
fn coarse(
    whole: &Whole,
    layout: &Layout,
    candidates: &[Candidate],
    out: &mut Findings,
) -> Vec<(Line, f64)> {
    let (n, frame) = (layout.n as f64, layout.frame as f64);
    let unit = whole.spectrum.unit() / super::super::spectrum::GAIN / whole.scale;
    // The mean of a real record is stated by itself.
    let lines = candidates.iter().filter(|c| !layout.real || c.bin > LOBE as f64);
    let count = lines.clone().count();
    out.left_out += count.saturating_sub(MOST_LISTED) as u64;
    lines
        .take(MOST_LISTED)
        .map(|c| {
            let share = c.bin.rem_euclid(frame) / frame;
            let frequency = if layout.real || share < 0.5 { share } else { share - 1.0 };
            let amplitude = c.power.sqrt() * unit;
            let density = c.density / (whole.scale * whole.scale);
            let snr = n * amplitude * amplitude / density;
            let line = Line {
                kind: if c.width > 0.0 { LineKind::Broad } else { LineKind::Tone },
                frequency,
                frequency_std: c.bin_std / frame,
                // The mean over frames knows no phase.
                amplitude: Complex::new(amplitude, 0.0),
                amplitude_std: 0.5 * amplitude * c.power_std / c.power,
                snr_db: (snr > 0.0 && snr.is_finite()).then(|| 10.0 * snr.log10()),
                drift: None,
                width: (c.width > 0.0).then_some(c.width / frame),
                damping: None,
                mirrored: layout.real,
            };
            (line, 1.0)
        })
        .collect()
}

/// The mean of a real record, where it is more than the floor of the lowest cell makes.
fn offset(survey: &Survey, units: &Units<'_>, layout: &Layout) -> Option<Line> {
    if !layout.real {
        return None;
    }
    let n = layout.n as f64;
    let mean = survey.rows.values().map(|r| r.total.re).sum::<f64>() / n;
    let cell = &units.floor.cells[0];
    let density = units.density(cell.middle());
    let snr = n * mean * mean / density;
    (snr > units.limits.of(cell.draws)).then(|| Line {
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

/// Families among lines, the surest lines first.
fn families_of(lines: &[Line], layout: &Layout) -> Vec<Family> {
    let n = layout.n as f64;
    let is_member = |l: &Line| {
        l.kind != LineKind::Offset
            && l.width.is_none_or(|w| w * n < NARROW)
            && (l.frequency * n).abs() > 3.0
    };
    let mut order: Vec<usize> = (0..lines.len()).filter(|i| is_member(&lines[*i])).collect();
    order.sort_by(|a, b| {
        let snr = |i: usize| lines[i].snr_db.unwrap_or(f64::INFINITY);
        snr(*b).total_cmp(&snr(*a))
    });
    let members: Vec<Member> = order
        .iter()
        .map(|i| {
            let l = &lines[*i];
            let width = l.width.unwrap_or(0.0);
            let tolerance = (0.5 * width).max(3.0 * l.frequency_std).max(1.0 / n) * n;
            Member { bin: l.frequency * n, tolerance }
        })
        .collect();
    families::find(&members)
        .into_iter()
        .map(|f| {
            let mut places: Vec<usize> = f.lines.into_iter().map(|i| order[i]).collect();
            places.sort_unstable();
            Family {
                spacing: f.spacing / n,
                carrier: f.carrier.map(|c| c / n),
                orders: f.orders,
                members: places,
            }
        })
        .collect()
}

/// The threshold and the reasons.
fn state(
    out: &mut Findings,
    survey: &Survey,
    layout: &Layout,
    spectra: f64,
    ln_bin: f64,
    dropped: u64,
    refined: bool,
) {
    let excess = candidates::limit(spectra, ln_bin) - 1.0;
    let enough = excess + SIGMAS * ((1.0 + 2.0 * excess) / spectra).sqrt();
    let frames = layout.n as f64 / layout.frame as f64;
    let seen = 10.0 * (enough * noise_bandwidth() * frames).log10() + SCALLOP_DB;
    // What is seen must stand out in the whole record, too.
    let bins = (layout.n as f64).ln() + survey.failure.ln().abs() + 2f64.ln();
    let whole = threshold_db(&Limits::new(-bins), 6.0 * spectra);
    let threshold = if refined { seen.max(whole) } else { seen };
    out.threshold_db = threshold;
    out.floor.threshold_db.iter_mut().for_each(|t| *t = threshold);
    out.reasons.push(Reason::new(
        "in_parts",
        format!(
            "the record was read in {} parts: lines are seen in the mean of {spectra} spectra of {} \
             samples, from an SNR of {threshold:.1} dB on, {:.1} dB more than a survey in memory takes",
            layout.units,
            layout.frame,
            (threshold - whole).max(0.0)
        ),
    ));
    if let Some(change) = change_over_time(survey, layout) {
        out.reasons.push(Reason::new(
            "unsteady",
            format!("the power of the floor changes by {change:.1} dB over the record"),
        ));
    }
    if dropped > 0 {
        out.reasons.push(Reason::new(
            "events_dropped",
            format!("{dropped} events are not listed: the strongest {} are", super::MOST_EVENTS),
        ));
    }
}

/// By how many dB the floor changes over the record, if that is more than chance makes.
fn change_over_time(survey: &Survey, layout: &Layout) -> Option<f64> {
    const CAP: f64 = 12.0;
    let inner = 1..layout.means() - 1;
    let units = survey.rows.len();
    let value = |row: &super::Row, k: usize| f64::from(row.mean[k]) * row.unit;
    let medians: Vec<f64> = inner
        .clone()
        .map(|k| {
            let mut all: Vec<f64> = survey.rows.values().map(|row| value(row, k)).collect();
            *all.select_nth_unstable_by(units / 2, f64::total_cmp).1 + f64::MIN_POSITIVE
        })
        .collect();
    let mut parts = [(0.0, 0.0); PARTS];
    for (i, row) in survey.rows.values().enumerate() {
        let part = &mut parts[(i * PARTS / units).min(PARTS - 1)];
        for (k, m) in inner.clone().zip(&medians) {
            part.0 += (value(row, k) / m).min(CAP);
            part.1 += 1.0;
        }
    }
    let mut means: Vec<f64> = parts.iter().filter(|p| p.1 > 0.0).map(|p| p.0 / p.1).collect();
    means.sort_by(f64::total_cmp);
    let middle = means[means.len() / 2];
    let change = (means[means.len() - 1] - means[0]) / middle;
    let blocks = layout.n as f64 / (super::super::SHORT_BLOCK as f64 / 2.0) / PARTS as f64;
    let sigma = 1.3 * (2.0 / (blocks * inner.len() as f64 * 0.45)).sqrt();
    (change > (UNSTEADY_SIGMAS * sigma).max(UNSTEADY)).then(|| 10.0 * (1.0 + change).log10())
}
