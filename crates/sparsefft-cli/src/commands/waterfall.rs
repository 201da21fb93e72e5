//! `sparsefft waterfall`: peaks over time, as PNG or SVG.

use super::plot::{Look, Picture};
use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::atomic::Atomic;
use crate::output::progress::spin;
use crate::output::waterfall::Waterfall;
use crate::output::{Events, View, print};
use crate::units;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sparsefft::{Samples, find};
use std::path::PathBuf;

/// Draw peaks over time blocks, with tracks of drifting tones
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft waterfall radio.sigmf-meta -o waterfall.png
  sparsefft waterfall radio.sigmf-meta -o waterfall.png --json    tracks and bursts as JSON, too

It reads BLOCKS short pieces, evenly spread, not the whole recording; to list bursts and sweeps, --json
may read all of it.")]
pub struct Args {
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Where to write: .png or .svg
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Number of time blocks
    #[arg(long, value_name = "N", default_value = "200", value_parser = units::positive)]
    blocks: u64,

    /// Samples per block; longer blocks resolve closer tones, shorter ones faster drift
    #[arg(long, value_name = "N", default_value = "8192", value_parser = units::positive)]
    width: u64,

    /// Print tracks, bursts and sweeps as one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    look: Look,

    #[command(flatten)]
    input: Options,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let kind = Picture::of(&args.output)?;
    let recording = Recording::open(&args.file, &args.input)?;
    let n = recording.len();
    ensure!(n >= 16, "a waterfall needs at least 16 samples, not {n}");
    ensure!(args.blocks <= 10_000, "--blocks {} are too many; at most 10000", args.blocks);
    ensure!(
        (8..=1 << 22).contains(&args.width),
        "--width {} is out of range; choose 8 to 4Mi samples",
        args.width
    );
    let file = Atomic::create_beside(&args.output, std::slice::from_ref(&args.file))?;
    let title = args.file.file_name().map_or_else(String::new, |f| f.to_string_lossy().into());
    let (size, theme) = (args.look.size((1200, 800)), args.look.theme());
    let Waterfall { scene, rows, tracks, axes } =
        Waterfall::new(&recording, (args.blocks, args.width), &title, size, theme)?;
    kind.write(&scene, &title, file)?;
    if args.json {
        let blocks = rows.len();
        let findings = spin("looking for bursts", || find(&recording))?;
        let spectrum = findings.to_spectrum();
        let events = Events::new(&View::new(&spectrum, &recording), &findings);
        let list: Vec<_> = tracks
            .iter()
            .map(|t| {
                let (first, last) = (t.dots[0], t.dots[t.dots.len() - 1]);
                json!({
                    "start": axes.time(first.block, blocks),
                    "end": axes.time(last.block, blocks),
                    "from": axes.frequency(first.cycles),
                    "to": axes.frequency(last.cycles),
                    "level_db": units::decibels(t.strength() / axes.full_scale),
                    "blocks": t.dots.len(),
                })
            })
            .collect();
        let mut answer = json!({
            "schema": 1,
            "n": n,
            "rate": axes.rate,
            "blocks": blocks,
            "width": axes.width,
            "tracks": list,
        });
        if let (Some(answer), Value::Object(events)) =
            (answer.as_object_mut(), serde_json::to_value(events)?)
        {
            answer.extend(events);
        }
        print(&format!("{answer}\n"))?;
    }
    Ok(if rows.iter().all(Vec::is_empty) { Exit::Nothing } else { Exit::Found })
}
