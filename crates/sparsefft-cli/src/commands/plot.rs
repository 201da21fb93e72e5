//! `sparsefft plot`: the spectrum as SVG or PNG.

use super::search::{Search, exit};
use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::atomic::Atomic;
use crate::output::plot::{Plot, Theme, plot};
use crate::output::progress::spin;
use crate::output::scene::Scene;
use crate::output::{View, background};
use anyhow::{Result, bail};
use sparsefft::Samples;
use std::path::{Path, PathBuf};

/// Draw the spectrum: recovered peaks over a quick overview
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft plot radio.sigmf-meta -o spectrum.svg
  sparsefft plot sound.wav -o spectrum.png --dark")]
pub struct Args {
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Where to write: .svg or .png
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    look: Look,

    /// How many of the strongest peaks get a label
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Picture")]
    labels: usize,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    input: Options,
}

/// How a picture looks, for every command that draws one.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Picture")]
pub struct Look {
    /// Light ink on black
    #[arg(long)]
    dark: bool,

    /// Width and height in pixels [default: 1200x600, waterfalls 1200x800]
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<(u32, u32)>,
}

impl Look {
    /// Light or dark.
    pub fn theme(&self) -> Theme {
        if self.dark { Theme::Dark } else { Theme::Light }
    }

    /// Width and height in pixels.
    pub fn size(&self, default: (u32, u32)) -> (f64, f64) {
        let (width, height) = self.size.unwrap_or(default);
        (f64::from(width), f64::from(height))
    }
}

/// Parses a picture's size.
fn size(text: &str) -> Result<(u32, u32), String> {
    let bad = || format!("'{text}' is not a size; write WIDTHxHEIGHT with 200 to 10000 each");
    let (w, h) = text.split_once('x').ok_or_else(bad)?;
    let side = |s: &str| s.parse().ok().filter(|v| (200..=10_000).contains(v)).ok_or_else(bad);
    Ok((side(w)?, side(h)?))
}

/// The kinds of picture files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Picture {
    /// Vector graphics.
    Svg,
    /// Pixels.
    Png,
}

impl Picture {
    /// The kind that a file name tells.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("svg") => Ok(Picture::Svg),
            Some("png") => Ok(Picture::Png),
            _ => bail!("{}: pictures are .svg or .png; name it so", path.display()),
        }
    }

    /// Writes a drawing.
    pub fn write(self, scene: &Scene, title: &str, file: Atomic) -> Result<()> {
        let bytes = match self {
            Picture::Svg => scene.to_svg(title).into_bytes(),
            Picture::Png => scene.to_png(1.0)?,
        };
        file.finish(&bytes)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let kind = Picture::of(&args.output)?;
    let recording = Recording::open(&args.file, &args.input)?;
    let file = Atomic::create_beside(&args.output, std::slice::from_ref(&args.file))?;
    let plan = args.search.plan(recording.len())?;
    let spectrum = spin("transforming", || args.search.device.transform(&plan, &recording))?;
    let hold = background::max_hold(&recording)?;
    let title = args.file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
    let scene = plot(&Plot {
        view: &View::new(&spectrum, &recording),
        hold: &hold,
        title: &title,
        size: args.look.size((1200, 600)),
        theme: args.look.theme(),
        labels: args.labels,
    });
    kind.write(&scene, &title, file)?;
    Ok(exit(&spectrum, None))
}
