//! The findings of a survey as a person reads them: a verdict, then a table for each kind.

use super::progress::detail;
use super::{Style, View};
use crate::units::{grouped, seconds, si};
use sparsefft::find::{Burst, Family, Findings, FoundBand, Line, LineKind, Outcome, Sweep};

/// Rows of the shorter tables.
const FEW: usize = 12;

/// Everything that was found, at most `rows` lines of it: what explains many lines first.
pub fn text(view: &View<'_>, found: &Findings, rows: usize, style: Style) -> String {
    let axis = Axis::new(view, found.n);
    let mut out = style.verdict(found.outcome != Outcome::Partial, &verdict(found)) + "\n";
    for reason in &found.reasons {
        // Why all samples were read concerns whoever asks for details.
        if reason.code == "not_sparse" && found.outcome == Outcome::Complete {
            detail(&reason.text);
        } else {
            out += &format!("note: {}\n", reason.text);
        }
    }
    if found.is_empty() {
        return out + "nothing stands above the local floor\n";
    }
    let families = found.families.iter().enumerate().map(|(i, f)| family(i, f, &axis));
    out += &section("families", families.collect(), style);
    out += &lines(found, rows, style, &axis);
    out += &section("bands", found.bands.iter().map(|b| band(b, &axis)).collect(), style);
    out += &section("sweeps", found.sweeps.iter().map(|s| sweep(s, &axis)).collect(), style);
    let mut trains = trains(&found.bursts);
    let order = |a: &Train<'_>, b: &Train<'_>| b.power().total_cmp(&a.power());
    trains.sort_by(order);
    let title = if trains.len() > 1 { "bursts, strongest first" } else { "bursts" };
    out += &section(title, trains.iter().map(|t| burst(t, &axis)).collect(), style);
    out
}

/// A heading and its rows, or nothing.
fn section(title: &str, all: Vec<String>, style: Style) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", style.bold(title));
    for row in all.iter().take(FEW) {
        out += &format!("  {row}\n");
    }
    if all.len() > FEW {
        out += &format!("  … and {} more (--json gives all of them)\n", all.len() - FEW);
    }
    out
}

fn family(place: usize, family: &Family, axis: &Axis<'_>) -> String {
    let what = match family.carrier {
        Some(carrier) => {
            format!("sidebands of {}, every {}", axis.place(carrier), axis.spacing(family.spacing))
        }
        None => format!("harmonics of {}", axis.spacing(family.spacing)),
    };
    let count = family.orders.len();
    format!("{}: {what}: {count} lines, {}", place + 1, runs(&family.orders))
}

/// Whole numbers with neighbours joined: `1…5, 7`.
fn runs(orders: &[i64]) -> String {
    /// Runs that are written.
    const MOST: usize = 10;
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for &order in orders {
        match runs.last_mut() {
            Some((_, end)) if order == *end + 1 => *end = order,
            _ => runs.push((order, order)),
        }
    }
    let words = runs.iter().take(MOST).map(|&(from, to)| match to - from {
        0 => from.to_string(),
        1 => format!("{from}, {to}"),
        _ => format!("{from} … {to}"),
    });
    let text = words.collect::<Vec<_>>().join(", ");
    if runs.len() > MOST { text + ", …" } else { text }
}

fn band(b: &FoundBand, axis: &Axis<'_>) -> String {
    let busy = match b.busy {
        Some(share) if share >= 0.05 => format!(", busy {:.0} % of the time", 100.0 * share),
        _ => String::new(),
    };
    format!(
        "{}, strongest at {}, {} above its surroundings, {}{busy}",
        axis.range(b.low, b.high),
        axis.place_to(b.peak, b.high - b.low),
        decibels(b.above_db),
        axis.level(b.power),
    )
}

fn sweep(s: &Sweep, axis: &Axis<'_>) -> String {
    let width = (s.to - s.from).abs();
    format!(
        "at {} for {}: from {} to {}, {}, up to {} above the floor",
        axis.time(s.start),
        axis.time(s.length),
        axis.place_to(s.from, width),
        axis.place_to(s.to, width),
        axis.level(s.power),
        decibels(s.above_db),
    )
}

/// The verdict in a sentence.
fn verdict(found: &Findings) -> String {
    let counts = [
        (found.lines.len(), "line"),
        (found.bands.len(), "band"),
        (found.bursts.len(), "burst"),
        (found.sweeps.len(), "sweep"),
        (found.families.len(), "family"),
    ];
    let word = |n: usize, one: &str| match (n, one) {
        (1, _) => format!("1 {one}"),
        (_, "family") => format!("{} families", grouped(n as u64)),
        _ => format!("{} {one}s", grouped(n as u64)),
    };
    let there: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, one)| word(*n, one)).collect();
    let what = if there.is_empty() { String::new() } else { format!(": {}", there.join(", ")) };
    match found.outcome {
        Outcome::Complete => format!(
            "complete{what}; a line whose SNR is {:.0} dB or more could not be overlooked",
            found.threshold_db
        ),
        outcome => format!("{}{what}", outcome.name()),
    }
}

/// The table of lines, strongest first.
fn lines(found: &Findings, rows: usize, style: Style, axis: &Axis<'_>) -> String {
    if found.lines.is_empty() {
        return String::new();
    }
    let mut table = vec![[
        "frequency".to_owned(),
        format!("± {}", axis.suffix),
        axis.unit.to_owned(),
        "SNR dB".to_owned(),
        String::new(),
    ]];
    for (place, line) in found.lines.iter().take(rows).enumerate() {
        let offset = line.kind == LineKind::Offset;
        // As many digits as are known.
        let digits = match offset {
            true => 0,
            false => digits_of(line.frequency_std * axis.scale, found.n, axis.scale),
        };
        let std = format!("{:.1e}", line.frequency_std * axis.scale);
        let near = |c: f64| (c - line.frequency).abs() * (found.n as f64) < 1.0;
        let carrier = found.families.iter().position(|f| f.carrier.is_some_and(near));
        let member = found.families.iter().position(|f| f.members.contains(&place));
        let role = carrier.map(|p| ("carrier of family", p)).or(member.map(|p| ("family", p)));
        table.push([
            format!("{:.digits$} {}", axis.value(line.frequency), axis.suffix),
            if offset { "-".to_owned() } else { std },
            format!("{:.2}", axis.view.level_of(line.level()) + 0.0),
            line.snr_db.map_or("-".to_owned(), |s| format!("{s:.1}")),
            remark(line, role, axis, found.n),
        ]);
    }
    let width = |i: usize| table.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    let mut out = String::from("\n");
    for (i, row) in table.iter().enumerate() {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(widths) {
            text += &format!("{cell:>width$}  ");
        }
        text += &row[4];
        let text = text.trim_end();
        out += &if i == 0 { style.bold(text) } else { text.to_owned() };
        out.push('\n');
    }
    let more = found.lines.len().saturating_sub(rows) as u64 + found.left_out;
    if more > 0 {
        let word = if more == 1 { "line" } else { "lines" };
        out += &format!("… and {} more {word} (--csv and --json list them)\n", grouped(more));
    }
    out
}

/// What is special about a line.
fn remark(line: &Line, role: Option<(&str, usize)>, axis: &Axis<'_>, n: u64) -> String {
    let mut parts = Vec::new();
    parts.extend(role.map(|(word, place)| format!("{word} {}", place + 1)));
    match line.kind {
        LineKind::Broad => parts.push("broad".to_owned()),
        LineKind::Cluster => parts.push("several, not resolved".to_owned()),
        LineKind::Offset => parts.push("mean of the samples".to_owned()),
        _ => {}
    }
    if let Some(width) = line.width {
        parts.push(format!("{} wide", axis.width(width)));
    }
    if let Some(damping) = line.damping {
        let time = axis.duration(1.0 / damping.abs());
        parts.push(format!("{} in {time}", if damping > 0.0 { "decays" } else { "grows" }));
    }
    if let Some(drift) = line.drift {
        parts.push(format!("drifts by {}", axis.width(drift.rate * n as f64)));
    }
    parts.join(", ")
}

/// Digits after the point that a standard deviation allows, two of them uncertain.
fn digits_of(std: f64, n: u64, scale: f64) -> usize {
    let least = scale / n as f64 * 1e-6;
    (1.0 - std.max(least).log10().floor()).clamp(0.0, 12.0) as usize
}

/// Bursts of one kind: edges overlap, and lengths agree within a factor of two.
struct Train<'a> {
    all: Vec<&'a Burst>,
}

impl Train<'_> {
    /// Power of the strongest.
    fn power(&self) -> f64 {
        self.all.iter().map(|b| b.power).fold(0.0, f64::max)
    }
}

fn trains(bursts: &[Burst]) -> Vec<Train<'_>> {
    let mut out: Vec<Train<'_>> = Vec::new();
    for burst in bursts {
        let alike = |t: &&mut Train<'_>| {
            let (a, b) = (t.all[0], burst);
            let both = a.high.min(b.high) - a.low.max(b.low);
            let ratio = a.length as f64 / b.length as f64;
            both > 0.5 * (a.high - a.low).max(b.high - b.low) && ratio > 0.5 && ratio < 2.0
        };
        match out.iter_mut().find(alike) {
            Some(train) => train.all.push(burst),
            None => out.push(Train { all: vec![burst] }),
        }
    }
    out
}

fn burst(train: &Train<'_>, axis: &Axis<'_>) -> String {
    /// Times that are listed; of more, the usual distance is told.
    const TIMES: usize = 4;
    let b = train.all[0];
    let times: Vec<String> = train.all.iter().map(|b| axis.time(b.start)).collect();
    let when = match times.len() {
        1 => format!("at {}", times[0]),
        count if count <= TIMES => format!("{count} times, at {}, each", times.join(", ")),
        count => {
            let mut gaps: Vec<u64> =
                train.all.windows(2).map(|w| w[1].start - w[0].start).collect();
            gaps.sort_unstable();
            let usual = axis.time(gaps[gaps.len() / 2]);
            format!("{count} times, first at {}, as a rule every {usual}, each", times[0])
        }
    };
    let above = train.all.iter().map(|b| b.above_db).fold(b.above_db, f64::max);
    format!(
        "{when} for {}: {}, {}, up to {} above the floor",
        axis.time(b.length),
        axis.range(b.low, b.high),
        axis.level(train.power()),
        decibels(above),
    )
}

fn decibels(value: f64) -> String {
    format!("{value:.1} dB")
}

/// How frequencies, levels and times are written.
struct Axis<'a> {
    view: &'a View<'a>,
    n: u64,
    /// One cycle per sample in the unit of the frequency column.
    scale: f64,
    /// The unit of frequencies, and that of levels.
    suffix: &'static str,
    unit: &'static str,
}

impl<'a> Axis<'a> {
    fn new(view: &'a View<'a>, n: u64) -> Self {
        let unit = if view.full_scale == 1.0 { "dB re 1" } else { "dBFS" };
        match view.rate {
            Some(rate) => Axis { view, n, scale: rate, suffix: "Hz", unit },
            None => Axis { view, n, scale: 1.0, suffix: "cycles/sample", unit },
        }
    }

    fn value(&self, cycles: f64) -> f64 {
        self.view.axis(cycles) + 0.0
    }

    fn level(&self, power: f64) -> String {
        format!("{:.1} {}", self.view.level_of(power.sqrt()), self.unit)
    }

    /// A frequency to a tenth of a bin.
    fn place(&self, cycles: f64) -> String {
        self.places(&[cycles], 0.1 / self.n as f64)
    }

    /// A frequency to a hundredth of a width beside it.
    fn place_to(&self, cycles: f64, width: f64) -> String {
        self.places(&[cycles], 0.01 * width.abs())
    }

    /// A distance between frequencies, to a tenth of a bin.
    fn spacing(&self, cycles: f64) -> String {
        let digits = (-(0.1 * self.scale / self.n as f64).log10()).ceil().clamp(0.0, 12.0) as usize;
        format!("{:.digits$} {}", cycles * self.scale, self.suffix)
    }

    /// Edges to a hundredth of the width between them.
    fn range(&self, low: f64, high: f64) -> String {
        self.places(&[low, high], 0.01 * (high - low).abs())
    }

    /// Frequencies in one unit, to a step in cycles per sample.
    fn places(&self, cycles: &[f64], step: f64) -> String {
        let all: Vec<f64> = cycles.iter().map(|c| self.value(*c)).collect();
        let most = all.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let prefixes = [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")];
        let (scale, unit) = match self.view.rate {
            Some(_) => prefixes.into_iter().find(|(s, _)| most >= *s).unwrap_or((1.0, "Hz")),
            None => (1.0, "cycles/sample"),
        };
        let step = (step * self.scale).max(f64::MIN_POSITIVE) / scale;
        let digits = (-step.log10()).ceil().clamp(0.0, 9.0) as usize;
        let words = all.iter().map(|v| format!("{:.digits$}", v / scale + 0.0));
        format!("{} {unit}", words.collect::<Vec<_>>().join(" … "))
    }

    /// A width or a difference, with its sign, to three digits.
    fn width(&self, cycles: f64) -> String {
        match self.view.rate {
            Some(rate) => significant(cycles * rate, "Hz"),
            None => format!("{cycles:.2e} cycles/sample"),
        }
    }

    fn time(&self, samples: u64) -> String {
        self.duration(samples as f64)
    }

    fn duration(&self, samples: f64) -> String {
        match self.view.rate {
            Some(rate) => clock(samples / rate),
            None => format!("{} samples", grouped(samples.round() as u64)),
        }
    }
}

/// Three digits and a unit with its prefix.
fn significant(value: f64, unit: &str) -> String {
    let size = value.abs();
    let lead = if size > 0.0 { size.log10().floor().rem_euclid(3.0) } else { 0.0 };
    // From 1 on there is no prefix below one thousand.
    si(value, unit, (2.0 - lead).max(0.0) as usize)
}

/// A time in seconds, or from two minutes on in hours and minutes.
fn clock(time: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3600.0;
    if time < 2.0 * MINUTE {
        return seconds(time);
    }
    let whole = time.round();
    let (hours, minutes) = ((whole / HOUR).floor(), (whole % HOUR / MINUTE).floor());
    let rest = format!("{minutes:.0} min {:.0} s", whole % MINUTE);
    if hours > 0.0 { format!("{hours:.0} h {rest}") } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, text) in [
            (0.0940356, "94.0 mHz"),
            (0.333, "333 mHz"),
            (1.2646, "1.26 Hz"),
            (29.93, "29.9 Hz"),
            (-3.6095, "-3.61 Hz"),
            (1234.5, "1.23 kHz"),
            (0.0, "0.00 Hz"),
        ] {
            assert_eq!(significant(value, "Hz"), text);
        }
        for (time, text) in [
            (0.2593, "259.30 ms"),
            (119.0, "119.00 s"),
            (256.0, "4 min 16 s"),
            (11_140.0, "3 h 5 min 40 s"),
        ] {
            assert_eq!(clock(time), text);
        }
        assert_eq!(runs(&[-2, -1, 1, 2, 3, 4, 7, 9, 10]), "-2, -1, 1 … 4, 7, 9, 10");
    }
}
