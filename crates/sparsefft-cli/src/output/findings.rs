//! The findings of a survey as a person reads them: a verdict, then a table for each kind.

use super::{Style, View};
use crate::units::{grouped, seconds, si};
use sparsefft::find::{Burst, Findings, Line, LineKind, Outcome};

/// Rows of the shorter tables.
const FEW: usize = 12;

/// Everything that was found, at most `rows` lines of it.
pub fn text(view: &View<'_>, found: &Findings, rows: usize, style: Style) -> String {
    let axis = Axis::new(view);
    let mut out = style.verdict(found.outcome != Outcome::Partial, &verdict(found)) + "\n";
    for reason in &found.reasons {
        out += &format!("note: {}\n", reason.text);
    }
    if found.is_empty() {
        return out + "nothing stands above the local floor\n";
    }
    out += &lines(view, found, rows, style, &axis);
    let mut section = |title: &str, all: Vec<String>| {
        if all.is_empty() {
            return;
        }
        out += &format!("\n{}\n", style.bold(title));
        for row in all.iter().take(FEW) {
            out += &format!("  {row}\n");
        }
        if all.len() > FEW {
            out += &format!("  … and {} more (--json gives all of them)\n", all.len() - FEW);
        }
    };
    let level = |power: f64| format!("{:.1} {}", view.level_of(power.sqrt()), axis.unit);
    let families = found.families.iter().map(|f| {
        let orders: Vec<String> = f.orders.iter().map(i64::to_string).collect();
        let around = match f.carrier {
            Some(carrier) => format!("sidebands around {}", axis.place(carrier)),
            None => "harmonics".to_owned(),
        };
        format!("every {}: {around}, {}", axis.width(f.spacing), orders.join(" "))
    });
    section("families", families.collect());
    let bands = found.bands.iter().map(|b| {
        let busy = match b.busy {
            Some(share) if share >= 0.05 => format!(", busy {:.0} % of the time", 100.0 * share),
            _ => String::new(),
        };
        format!(
            "{} … {}, strongest at {}, {} above its surroundings, {}{busy}",
            axis.place(b.low),
            axis.place(b.high),
            axis.place(b.peak),
            decibels(b.above_db),
            level(b.power),
        )
    });
    section("bands", bands.collect());
    let sweeps = found.sweeps.iter().map(|s| {
        format!(
            "{} + {}: {} → {}, {}, up to {} above the floor",
            axis.time(s.start),
            axis.time(s.length),
            axis.place(s.from),
            axis.place(s.to),
            level(s.power),
            decibels(s.above_db),
        )
    });
    section("sweeps", sweeps.collect());
    section("bursts", trains(&found.bursts).iter().map(|t| burst(t, &axis, &level)).collect());
    out
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
fn lines(view: &View<'_>, found: &Findings, rows: usize, style: Style, axis: &Axis<'_>) -> String {
    if found.lines.is_empty() {
        return String::new();
    }
    let mut table = vec![[
        "frequency".to_owned(),
        "±".to_owned(),
        axis.unit.to_owned(),
        "SNR dB".to_owned(),
        String::new(),
    ]];
    for line in found.lines.iter().take(rows) {
        // As many digits as are known.
        let digits = match line.kind {
            LineKind::Offset => 0,
            _ => digits_of(line.frequency_std * axis.scale, found.n, axis.scale),
        };
        table.push([
            format!("{:.digits$} {}", axis.value(line.frequency), axis.suffix),
            format!("{:.1e}", line.frequency_std * axis.scale),
            format!("{:.2}", view.level_of(line.level()) + 0.0),
            line.snr_db.map_or("-".to_owned(), |s| format!("{s:.1}")),
            remark(line, axis, found.n),
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
        out += &format!("… and {} more lines (--csv and --json list them)\n", grouped(more));
    }
    out
}

/// What is special about a line.
fn remark(line: &Line, axis: &Axis<'_>, n: u64) -> String {
    let mut parts = Vec::new();
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
    first: &'a Burst,
    starts: Vec<u64>,
}

fn trains(bursts: &[Burst]) -> Vec<Train<'_>> {
    let mut out: Vec<Train<'_>> = Vec::new();
    for burst in bursts {
        let alike = |t: &&mut Train<'_>| {
            let (a, b) = (t.first, burst);
            let both = a.high.min(b.high) - a.low.max(b.low);
            let ratio = a.length as f64 / b.length as f64;
            both > 0.5 * (a.high - a.low).max(b.high - b.low) && ratio > 0.5 && ratio < 2.0
        };
        match out.iter_mut().find(alike) {
            Some(train) => train.starts.push(burst.start),
            None => out.push(Train { first: burst, starts: vec![burst.start] }),
        }
    }
    out
}

fn burst(train: &Train<'_>, axis: &Axis<'_>, level: &dyn Fn(f64) -> String) -> String {
    let b = train.first;
    let many = match train.starts.len() {
        1 => String::new(),
        count => {
            let mut gaps: Vec<u64> = train.starts.windows(2).map(|w| w[1] - w[0]).collect();
            gaps.sort_unstable();
            let usual = gaps[gaps.len() / 2];
            format!(", {count} like it, as a rule every {}", axis.time(usual))
        }
    };
    format!(
        "{} + {}: {} … {}, {}, up to {} above the floor{many}",
        axis.time(b.start),
        axis.time(b.length),
        axis.place(b.low),
        axis.place(b.high),
        level(b.power),
        decibels(b.above_db),
    )
}

fn decibels(value: f64) -> String {
    format!("{value:.1} dB")
}

/// How frequencies and times are written.
struct Axis<'a> {
    view: &'a View<'a>,
    /// One cycle per sample in the unit of the frequency column.
    scale: f64,
    /// The unit of frequencies, and that of levels.
    suffix: &'static str,
    unit: &'static str,
}

impl<'a> Axis<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let unit = if view.full_scale == 1.0 { "dB" } else { "dBFS" };
        match view.rate {
            Some(rate) => Axis { view, scale: rate, suffix: "Hz", unit },
            None => Axis { view, scale: 1.0, suffix: "cycles/sample", unit },
        }
    }

    fn value(&self, cycles: f64) -> f64 {
        self.view.axis(cycles) + 0.0
    }

    fn place(&self, cycles: f64) -> String {
        match self.view.rate {
            Some(_) => si(self.value(cycles), "Hz", 6),
            None => format!("{:.6}", self.value(cycles)),
        }
    }

    fn width(&self, cycles: f64) -> String {
        match self.view.rate {
            Some(rate) => si(cycles * rate, "Hz", 4),
            None => format!("{cycles:.2e} cycles/sample"),
        }
    }

    fn time(&self, samples: u64) -> String {
        self.duration(samples as f64)
    }

    fn duration(&self, samples: f64) -> String {
        match self.view.rate {
            Some(rate) => seconds(samples / rate),
            None => format!("{samples:.0} samples"),
        }
    }
}
