//! The readable table: strongest first, with a bar.

use super::{Style, View};
use crate::units::{grouped, seconds, si};
use sparsefft::Peak;

const BAR: usize = 24;

/// One line of facts about all attempts: samples read and time.
pub fn header(view: &View<'_>) -> String {
    let time = seconds(view.cost.elapsed().as_secs_f64());
    format!("{}, {time} by '{}'", reads(view), view.algorithm())
}

/// How many samples all attempts have read. Counted with repetition they can be more than there
/// are, which does not mean that each of them was read.
pub fn reads(view: &View<'_>) -> String {
    let (read, n) = (view.cost.samples_read(), view.spectrum.n());
    let dense = view.cost.read_everything();
    let (reads, all) = (grouped(read), grouped(n));
    if read < n {
        format!("{reads} of {all} samples read ({})", percent(100.0 * read as f64 / n as f64))
    } else if !dense {
        format!("{reads} reads of {all} samples")
    } else if read == n {
        format!("all {all} samples read")
    } else {
        format!("all {all} samples read ({reads} reads)")
    }
}

/// The seed, if it is not the usual one.
pub fn seed(view: &View<'_>) -> String {
    match view.spectrum.report().seed {
        0 => String::new(),
        seed => format!(", seed {seed}"),
    }
}

/// Time per stage in one line.
pub fn stages(view: &View<'_>) -> String {
    let stages = view.cost.stages();
    let each = stages.iter().map(|(s, d)| format!("{s} {}", seconds(d.as_secs_f64())));
    each.collect::<Vec<_>>().join(", ")
}

fn percent(share: f64) -> String {
    if share >= 10.0 || share == 0.0 {
        format!("{share:.0} %")
    } else {
        // Two significant digits, however small.
        let digits = (1.0 - share.max(1e-9).log10().floor()).max(0.0) as usize;
        format!("{share:.digits$} %")
    }
}

/// The strongest peaks, at most `rows` of them, and a line that says how many more there are.
pub fn table(view: &View<'_>, rows: usize, style: Style) -> String {
    let peaks = view.strongest();
    let Some(strongest) = peaks.first() else { return String::new() };
    let shown = &peaks[..peaks.len().min(rows)];
    let top = view.tone_level(strongest);
    let bottom = shown.iter().map(|p| view.tone_level(p)).fold(top, f64::min).max(top - 120.0);

    let (scale, unit) = axis_unit(view, shown);
    let digits = view.digits(scale);
    let frequency = |p: &Peak| format!("{:.digits$}", view.frequency(p) / scale);
    let wide = |title: &str, cells: &mut dyn Iterator<Item = usize>| {
        cells.max().unwrap_or(0).max(title.chars().count())
    };
    let place = |p: &Peak| match view.tone(p) {
        Some(tone) => {
            let n = view.spectrum.n();
            // As many digits as are known.
            let digits = (-tone.bin_std(n).max(1e-9).log10()).ceil().clamp(1.0, 6.0) as usize;
            format!("{:.digits$}", tone.bin(n))
        }
        None => p.index.to_string(),
    };
    let title = if view.tones.is_some() { "bin" } else { "index" };
    let index_width = wide(title, &mut shown.iter().map(|p| place(p).len()));
    let frequency_width = wide(&unit, &mut shown.iter().map(|p| frequency(p).len()));
    let level = if view.full_scale == 1.0 { "dB" } else { "dBFS" };
    let head = format!(
        "{:>index_width$}  {unit:>frequency_width$}  {level:>8}  {:>8}  {:>7}",
        title, "phase", "SNR dB"
    );
    let mut out = format!("{}\n", style.bold(&head));
    for p in shown {
        let snr = view.snr(p).map_or("-".to_owned(), |s| format!("{s:.1}"));
        let share = (view.tone_level(p) - bottom + 6.0) / (top - bottom + 6.0);
        out += &format!(
            "{:>index_width$}  {:>frequency_width$}  {:>8.2}  {:>+8.4}  {snr:>7}  {}\n",
            place(p),
            frequency(p),
            tidy(view.tone_level(p), 100.0),
            tidy(p.phase(), 10_000.0),
            style.accent(&bar(share)),
        );
    }
    if peaks.len() > shown.len() {
        let more = peaks.len() - shown.len();
        out += &format!("… and {more} more\n");
    }
    if view.real && view.spectrum.peaks().len() > peaks.len() {
        out += "real signal: the mirror images at negative frequencies are not shown\n";
    }
    out
}

/// Bands and clusters, a line each; of a real signal those at frequencies that are not negative.
pub fn others(view: &View<'_>) -> String {
    let Some(tones) = view.tones else { return String::new() };
    let n = tones.n() as f64;
    let level = |power: f64| tidy(view.level_of(power.sqrt()), 100.0);
    let hertz = |cycles: f64| match view.rate {
        Some(_) => format!(" ({})", si(view.axis(cycles), "Hz", 6)),
        None => String::new(),
    };
    let shown = |middle: f64| !view.real || middle >= 0.0;
    let mut out = String::new();
    for b in tones.bands().iter().filter(|b| shown(b.centre())) {
        out += &format!(
            "band     bins {:.1}{} to {:.1}{} ({:.1} wide), {:.2} dB\n",
            (b.low * n).rem_euclid(n),
            hertz(b.low),
            (b.high * n).rem_euclid(n),
            hertz(b.high),
            b.width() * n,
            level(b.power)
        );
    }
    for c in tones.clusters().iter().filter(|c| shown(c.centre)) {
        out += &format!(
            "cluster  around bin {:.1}{}, {:.1} bins wide, {:.2} dB: tones too near to be told apart\n",
            (c.centre * n).rem_euclid(n),
            hertz(c.centre),
            c.width * n,
            level(c.power)
        );
    }
    out
}

/// The scale and title of the frequency column.
fn axis_unit(view: &View<'_>, peaks: &[Peak]) -> (f64, String) {
    if view.rate.is_none() {
        return (1.0, "cycles/sample".into());
    }
    let largest = peaks.iter().map(|p| view.frequency(p).abs()).fold(0.0, f64::max);
    let (scale, prefix) = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(s, _)| largest >= *s)
        .unwrap_or((1.0, ""));
    (scale, format!("frequency {prefix}Hz"))
}

/// Rounded to 1/scale, and never a negative zero.
fn tidy(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale + 0.0
}

/// A bar in eighths of a character.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let steps = (share.clamp(0.0, 1.0) * (8 * BAR) as f64).round() as usize;
    "█".repeat(steps / 8) + EIGHTHS[steps % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_shares() {
        assert_eq!(bar(1.0).chars().count(), BAR);
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1.0 / 48.0), "▌");
        assert_eq!(percent(100.0), "100 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0012345), "0.0012 %");
        assert_eq!(percent(1.25), "1.2 %");
    }
}
