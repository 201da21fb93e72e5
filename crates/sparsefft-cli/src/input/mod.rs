//! Recordings: one reader per format, all of them reduced to a [`Layout`] over a memory map.
//!
//! A reader looks at the header only and says where the samples lie; nothing is loaded. The map
//! is advised for random access, since read-ahead would pull many times the bytes we need.

mod layout;
pub mod npy;

pub use layout::{Layout, Number};

use anyhow::{Context, Result, bail};
use memmap2::{Advice, Mmap};
use num_complex::Complex;
use sparsefft::{Error, Line, Samples};
use std::fs::File;
use std::path::Path;

/// Which part of a file to read, and what its header does not say.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Input")]
pub struct Options {
    /// Sample rate in Hz (20M = 20 MHz); frequencies are then shown in Hz
    #[arg(long, value_name = "HZ", allow_hyphen_values = true, value_parser = crate::units::rate)]
    pub rate: Option<f64>,
}

/// A recording: samples at any index, and what is known about them.
pub struct Recording {
    map: Mmap,
    layout: Layout,
    /// What the file is, in words.
    pub description: String,
    /// Sample rate in Hz.
    pub rate: Option<f64>,
    /// Frequency in Hz that bin 0 stands for.
    pub center: Option<f64>,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// One sentence: what is wrong with the file, and what to do.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let name = path.display().to_string();
        Self::open_file(path, options).with_context(|| name)
    }

    fn open_file(path: &Path, options: &Options) -> Result<Self> {
        let map = map(path)?;
        let header = npy::parse(&map)?;
        let layout = header.layout(map.len() as u64, npy::Pick::default())?;
        let description = layout.describe();
        Ok(Recording { map, layout, description, rate: options.rate, center: None })
    }

    /// The number type of the samples.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// |x| of a full-scale sample: 1 for floats, 2^(b-1) for integers of b bits.
    pub fn full_scale(&self) -> f64 {
        self.layout.number.full_scale()
    }
}

impl Samples for Recording {
    fn len(&self) -> u64 {
        self.layout.n
    }
    fn is_real(&self) -> bool {
        !self.layout.complex
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.layout.read(&self.map, indices, out);
        Ok(())
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        self.layout.read_lines(&self.map, start, step, out);
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.layout.read_range(&self.map, start, out);
        Ok(())
    }
}

/// Maps a regular file that is not empty.
fn map(path: &Path) -> Result<Mmap> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is no such file; check the path")
        }
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            bail!("it may not be read; check its permissions")
        }
        Err(e) => return Err(e).context("it cannot be opened"),
    };
    let meta = file.metadata().context("its size cannot be read")?;
    if meta.is_dir() {
        bail!("this is a directory; give the path of a recording");
    }
    if !meta.is_file() {
        bail!("this is not a regular file; pipe it into `-` instead");
    }
    if meta.len() == 0 {
        bail!("the file is empty; give a recording with at least one sample");
    }
    // SAFETY: the map is read-only. Another process that shortens the file meanwhile would raise
    // SIGBUS, as for every program that maps its input; there is no way to exclude that.
    let map = unsafe { Mmap::map(&file) }.context("it cannot be memory-mapped")?;
    // Advice is a hint: without it everything works, with more bytes read.
    let _ = map.advise(Advice::Random);
    Ok(map)
}
