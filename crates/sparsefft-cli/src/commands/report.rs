//! `sparsefft report`: one HTML page that works offline.

use super::search::{Search, exit};
use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::atomic::Atomic;
use crate::output::plot::Theme;
use crate::output::progress::{Bar, note, spin};
use crate::output::report::{Page, page};
use crate::output::waterfall::Waterfall;
use crate::output::{View, background, zoom};
use anyhow::Result;
use sparsefft::Samples;
use std::path::PathBuf;

/// Write one HTML page: zoomable spectrum, waterfall, table, evidence, card of the run
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sparsefft report radio.sigmf-meta -o report.html    open it in any browser, no network needed

The evidence reads the whole recording once per inset; above 2^28 samples it is left out unless
--insets asks for it.")]
pub struct Args {
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Where to write
    #[arg(short, long, value_name = "OUT.html")]
    output: PathBuf,

    /// How many of the strongest peaks to check against the exact DFT [default: 6]
    #[arg(long, value_name = "N")]
    insets: Option<usize>,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    input: Options,
}

/// Blocks of the picture over time, and samples in each.
const BLOCKS: (u64, u64) = (200, 4096);
/// Shorter recordings have no picture over time.
const SHORT: u64 = 64;
/// Above this length the evidence must be asked for.
const LONG: u64 = 1 << 28;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let recording = Recording::open(&args.file, &args.input)?;
    let file = Atomic::create_beside(&args.output, std::slice::from_ref(&args.file))?;
    let plan = args.search.plan(recording.len())?;
    let spectrum = spin("transforming", || args.search.device.transform(&plan, &recording))?;
    let hold = background::max_hold(&recording)?;
    let view = View::new(&spectrum, &recording);
    let count = match args.insets {
        Some(count) => count,
        None if recording.len() > LONG => {
            note("the recording is long; --insets 6 adds the exact DFT around its peaks");
            0
        }
        None => 6,
    };
    let strongest: Vec<_> = view.strongest().into_iter().take(count).collect();
    let bar = Bar::steps("exact DFT", strongest.len() as u64);
    let mut insets = Vec::new();
    for peak in strongest {
        insets.push((peak, zoom::neighbourhood(&recording, peak.index)?));
        bar.add(1);
    }
    drop(bar);
    let title = args.file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
    let waterfall = match recording.len() {
        // Too short for blocks.
        0..SHORT => None,
        _ => {
            let (size, theme) = ((1150.0, 520.0), Theme::Light);
            let made = Waterfall::new(&recording, BLOCKS, "", size, theme)?;
            Some(made.scene.to_png(1.0)?)
        }
    };
    let html = page(&Page {
        waterfall: waterfall.as_deref(),
        view: &view,
        recipe: plan.recipe(),
        hold: &hold,
        insets: &insets,
        title: &title,
        description: &recording.description,
    })?;
    file.finish(html.as_bytes())?;
    Ok(exit(&spectrum, None))
}
