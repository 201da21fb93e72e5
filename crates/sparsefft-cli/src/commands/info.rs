//! `sparsefft info`: what a recording is, and whether its sample type fits.

use crate::Exit;
use crate::input::{Fit, Options, Recording, type_name, type_words};
use crate::output::levels::{Levels, histogram};
use crate::output::{Style, print};
use crate::units::{decibels, grouped, seconds, si};
use anyhow::Result;
use serde_json::json;
use sparsefft::Samples;
use std::path::PathBuf;

/// Say what a recording is: type, length, levels, clipping, and whether the type fits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft info signal.wav                        length, levels, clipping, offset
  sparsefft info radio.bin --format cu8 --rate 2M   also what other sample types look like

It reads at most 64 pieces of 4096 samples, evenly spread. Exit codes: 0, or 2 if the recording cannot
be read.")]
pub struct Args {
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    input: Options,
}

/// Types beside the one that was read that are listed.
const OTHERS: usize = 5;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let recording = Recording::open(&args.file, &args.input)?;
    let levels = Levels::measure(&recording)?;
    let (fits, doubts) = (recording.fits(), recording.doubts());
    let text = if args.json {
        let types = fits.iter().map(|f| {
            json!({
                "format": type_name(f.kind),
                "bits_per_byte": f.bits,
                "rms_db": f.rms_db.is_finite().then_some(f.rms_db),
                "plausible": f.plausible,
            })
        });
        let layout = recording.layout();
        let answer = json!({
            "schema": 1,
            "n": recording.len(),
            "complex": layout.complex,
            "number": layout.number.name(),
            "rate": recording.rate,
            "center": recording.center,
            "duration_s": recording.rate.map(|r| recording.len() as f64 / r),
            "full_scale": recording.full_scale(),
            "samples_read": levels.samples,
            "rms": levels.rms, "rms_db": finite(levels.rms, &recording),
            "peak": levels.peak, "peak_db": finite(levels.peak, &recording),
            "dc": [levels.mean.re, levels.mean.im],
            "dc_db": finite(levels.mean.norm(), &recording),
            "clipped_share": levels.clipped,
            "zero_share": levels.zeros,
            "not_finite": levels.not_finite,
            "histogram": { "from": levels.from, "to": levels.to, "counts": levels.counts },
            "types": types.collect::<Vec<_>>(),
            "doubts": doubts,
        });
        format!("{answer}\n")
    } else {
        let mut text = format!("{}: {}\n", args.file.display(), recording.description);
        text += &facts(&recording, &levels);
        text += &histogram(&levels, &recording, Style::stdout());
        text += &types(&fits);
        text += &match doubts.first() {
            Some(doubt) => format!("doubt: {}\n", doubt.text),
            None if fits.is_empty() => String::new(),
            None => "the sample type fits: no other explains the bytes better\n".to_owned(),
        };
        text
    };
    print(&text)?;
    Ok(Exit::Found)
}

/// A level in dB, or nothing where there is none.
fn finite(amplitude: f64, recording: &Recording) -> Option<f64> {
    Some(decibels(amplitude / recording.full_scale())).filter(|_| amplitude > 0.0)
}

fn facts(recording: &Recording, levels: &Levels) -> String {
    let unit = if recording.full_scale() == 1.0 { "dB re 1" } else { "dBFS" };
    let level = |amplitude: f64| match finite(amplitude, recording) {
        Some(db) => format!("{amplitude:.6} ({db:.1} {unit})"),
        None => "0 (silence)".to_owned(),
    };
    let mut rows = Vec::new();
    match recording.rate {
        Some(rate) => {
            rows.push(("rate", si(rate, "Hz", 6)));
            rows.push(("duration", seconds(recording.len() as f64 / rate)));
        }
        None => rows.push(("rate", "not known; give it with --rate".to_owned())),
    }
    rows.extend(recording.center.map(|c| ("centre", si(c, "Hz", 6))));
    if levels.samples < recording.len() {
        rows.push(("looked at", format!("{} samples, evenly spread", grouped(levels.samples))));
    }
    rows.push(("RMS", level(levels.rms)));
    rows.push(("peak", level(levels.peak)));
    rows.push(("mean (DC)", level(levels.mean.norm())));
    let share = |part: f64| format!("{:.3} % of the samples", 100.0 * part);
    rows.push((
        "clipped",
        match levels.clipped {
            0.0 => "nothing".to_owned(),
            part => format!("{} at the ends of the range", share(part)),
        },
    ));
    if levels.zeros > 0.0 {
        rows.push(("exactly zero", share(levels.zeros)));
    }
    if levels.not_finite > 0 {
        rows.push(("NaN or infinite", format!("{} samples", grouped(levels.not_finite))));
    }
    rows.iter().map(|(name, value)| format!("  {name:<16} {value}\n")).collect()
}

/// The types that the bytes fit best, beside the one that was read.
fn types(fits: &[Fit]) -> String {
    let Some((own, _)) = fits.split_first() else { return String::new() };
    let mut text = "\nread as    bits per byte    RMS\n".to_owned();
    for fit in fits.iter().take(OTHERS + 1) {
        let rms = match fit.rms_db {
            db if !fit.plausible || !db.is_finite() => "no recording".to_owned(),
            db => format!("{db:.1} dB"),
        };
        let mark = if fit.kind == own.kind { "  <- as read" } else { "" };
        text += &format!(
            "  {:<9} {:>12.2}    {rms:>12}   {}{mark}\n",
            type_name(fit.kind),
            fit.bits,
            type_words(fit.kind)
        );
    }
    text + "\n"
}
