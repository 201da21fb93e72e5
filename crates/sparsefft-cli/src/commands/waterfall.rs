//! `sparsefft waterfall`: peaks over time, as PNG or SVG.

use super::plot::{Look, Picture};
use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::atomic::Atomic;
use crate::output::print;
use crate::output::progress::Bar;
use crate::output::waterfall::{Axes, dots, draw, tracks};
use crate::units;
use anyhow::{Result, ensure};
use serde_json::json;
use sparsefft::Samples;
use std::path::PathBuf;

/// Draw peaks over time blocks, with tracks of drifting tones
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft waterfall radio.sigmf-meta -o waterfall.png
  sparsefft waterfall radio.sigmf-meta -o waterfall.png --json    the tracks as JSON, too

It reads BLOCKS short pieces, evenly spread, not the whole recording.")]
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

    /// Print the tracks as one JSON object
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
    let width = args.width.min(n / 2);
    let blocks = args.blocks.min(n / width * 2) as usize;
    let bar = Bar::steps("waterfall", blocks as u64);
    let rows = dots(&recording, blocks, width, || bar.add(1))?;
    drop(bar);
    let tracks = tracks(&rows, width, (blocks / 10).max(3));
    let axes = Axes {
        rate: recording.rate,
        center: recording.center,
        real: recording.is_real(),
        full_scale: recording.full_scale(),
        n,
        width,
    };
    let title = args.file.file_name().map_or_else(String::new, |f| f.to_string_lossy().into());
    let (size, theme) = (args.look.size((1200, 800)), args.look.theme());
    let scene = draw(&rows, &tracks, &axes, &title, size, theme);
    kind.write(&scene, &title, file)?;
    if args.json {
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
        let answer = json!({
            "schema": 1,
            "n": n,
            "rate": axes.rate,
            "blocks": blocks,
            "width": width,
            "tracks": list,
        });
        print(&format!("{answer}\n"))?;
    }
    Ok(if rows.iter().all(Vec::is_empty) { Exit::Nothing } else { Exit::Found })
}
