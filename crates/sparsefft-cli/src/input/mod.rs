//! Recordings: one reader per format, all of them reduced to a [`Layout`] over a memory map.
//!
//! A reader looks at the header only and says where the samples lie; nothing is loaded. The map
//! is advised for random access, since read-ahead would pull many times the bytes we need. Of long
//! files, scattered samples are read by position (`scattered`), which keeps memory small; of those
//! behind an address, by range requests (`http`). Compressed sound is decoded into a temporary file
//! first (`audio`).

#[cfg(feature = "audio")]
mod audio;
mod doubt;
mod foreign;
mod format;
#[cfg(feature = "http")]
mod http;
mod layout;
pub mod npy;
mod parts;
pub mod raw;
mod scattered;
pub mod sigmf;
mod stdin;
pub mod wav;

pub use doubt::{Doubt, Fit, name as type_name, words as type_words};
pub use layout::{Layout, Number};
pub use parts::Parts;

use crate::output::progress::note;
use crate::units;
use anyhow::{Context, Result, bail, ensure};
use format::{Format, by_extension, named, sniff};
use memmap2::{Advice, Mmap};
use num_complex::Complex;
use sparsefft::{Error, Line, Samples};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Which part of a file to read, and what its header does not say.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Input")]
pub struct Options {
    /// Format: npy, wav, sigmf, audio (FLAC, AIFF, Ogg, MP3, AAC, ALAC, CAF), or raw samples such as
    /// cf32, cs16_be, u8 [default: by extension]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Sample rate in Hz (20M = 20 MHz); frequencies are then shown in Hz
    #[arg(long, value_name = "HZ", allow_hyphen_values = true, value_parser = units::rate)]
    pub rate: Option<f64>,

    /// Centre frequency in Hz that bin 0 stands for
    #[arg(long, value_name = "HZ", allow_hyphen_values = true, value_parser = units::number)]
    pub center: Option<f64>,

    /// Row of a two-dimensional array: x[ROW, :]
    #[arg(long, value_name = "ROW", conflicts_with = "channel")]
    pub row: Option<u64>,

    /// Channel of a file with several: x[:, CHANNEL]
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<u64>,

    /// Take the two channels as real and imaginary parts
    #[arg(long)]
    pub iq: bool,

    /// Skip this many samples at the start
    #[arg(long, value_name = "N", default_value = "0", value_parser = units::count)]
    pub skip: u64,

    /// Read this many samples [default: all]
    #[arg(long, value_name = "N", value_parser = units::positive)]
    pub count: Option<u64>,
}

/// Where the bytes of a recording are.
enum Bytes {
    Map(Mmap),
    /// A long file, of which scattered samples are read by position.
    Long(Mmap, scattered::Scattered),
    #[cfg(feature = "http")]
    Remote(http::Remote),
}

/// A recording: samples at any index, and what is known about them.
pub struct Recording {
    bytes: Bytes,
    layout: Layout,
    /// What the file is, in words.
    pub description: String,
    /// Sample rate in Hz.
    pub rate: Option<f64>,
    /// Frequency in Hz that bin 0 stands for.
    pub center: Option<f64>,
    /// The SigMF metadata, if there are any.
    pub sigmf: Option<serde_json::Value>,
    /// The sample type, if the file holds raw samples and nothing else.
    pub raw: Option<raw::Type>,
    /// Samples that were skipped at the start.
    pub skipped: u64,
}

/// What a reader found.
struct Found {
    layout: Layout,
    rate: Option<f64>,
    center: Option<f64>,
    sigmf: Option<serde_json::Value>,
    raw: Option<raw::Type>,
    /// What a reader should know, in a sentence.
    note: Option<String>,
}

impl Found {
    fn plain(layout: Layout) -> Self {
        Found { layout, rate: None, center: None, sigmf: None, raw: None, note: None }
    }
}

impl Recording {
    /// Opens a recording; `-` is standard input.
    ///
    /// # Errors
    /// One sentence: what is wrong with the file, and what to do.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        if path == Path::new("-") {
            return Self::open_stdin(options).context("standard input");
        }
        if let Some(url) = path.to_str().filter(|p| p.contains("://")) {
            return Self::open_url(url, options).with_context(|| url.to_string());
        }
        Self::open_path(path, options).with_context(|| path.display().to_string())
    }

    fn open_stdin(options: &Options) -> Result<Self> {
        let file = stdin::file()?;
        let map = map(&file)?;
        let format = match &options.format {
            Some(name) => named(name)?,
            None => sniff(&map).with_context(|| {
                foreign::name(&map, None).unwrap_or_else(|| {
                    "its format cannot be told; name it with --format, for example --format cf32"
                        .into()
                })
            })?,
        };
        let found = match format {
            Format::Sigmf => {
                bail!("SigMF needs two files; give the path of the .sigmf-meta file instead")
            }
            Format::Audio => return Self::open_audio(file, &map, Path::new("-"), options),
            format => read_header(format, &map, map.len() as u64, options)?,
        };
        Self::finish(file, map, found, options)
    }

    #[cfg(not(feature = "http"))]
    fn open_url(_: &str, _: &Options) -> Result<Self> {
        bail!("this build reads no addresses; build it with --features http, or download the file")
    }

    #[cfg(feature = "http")]
    fn open_url(url: &str, options: &Options) -> Result<Self> {
        let object = http::open(url)?;
        let head = http::head(&object)?;
        let name = url.split(['?', '#']).next().unwrap_or_default();
        let format = match &options.format {
            Some(name) => Some(named(name)?),
            None => by_extension(Path::new(name)).or_else(|| sniff(&head)),
        };
        let format = match format {
            Some(format @ (Format::Npy | Format::Raw(_))) => format,
            Some(_) => bail!("only .npy and raw samples are read from afar; download the file"),
            None => bail!("its format cannot be told from its name; name it with --format"),
        };
        let size = object.size();
        let found = read_header(format, &head, size, options)?;
        let layout = cut(found.layout, size, options)?;
        Self::new(Bytes::Remote(http::Remote { object, layout }), layout, found, options)
    }

    fn open_path(path: &Path, options: &Options) -> Result<Self> {
        let format = match &options.format {
            Some(name) => Some(named(name)?),
            None => by_extension(path),
        };
        if format == Some(Format::Sigmf) {
            return Self::open_sigmf(path, options);
        }
        let file = open(path)?;
        let map = map(&file)?;
        let format = match format.or_else(|| sniff(&map)) {
            // A name is weaker evidence than what the file begins with.
            Some(Format::Audio) => sniff(&map).unwrap_or(Format::Audio),
            Some(format) => format,
            None => match foreign::name(&map, Some(path)) {
                Some(sentence) => bail!(sentence),
                None => bail!(
                    "its format cannot be told from its name; name it with --format: npy, wav, \
                     sigmf, audio or one of {}",
                    raw::NAMES
                ),
            },
        };
        if format == Format::Audio {
            return Self::open_audio(file, &map, path, options);
        }
        let found = read_header(format, &map, map.len() as u64, options)?;
        Self::finish(file, map, found, options)
    }

    #[cfg(not(feature = "audio"))]
    fn open_audio(_: File, map: &Mmap, path: &Path, _: &Options) -> Result<Self> {
        let named = foreign::name(map, Some(path));
        bail!(named.unwrap_or_else(|| {
            "compressed sound is not read by this build; build it with --features audio".into()
        }))
    }

    /// Decodes a file into a temporary one.
    #[cfg(feature = "audio")]
    fn open_audio(file: File, head: &Mmap, path: &Path, options: &Options) -> Result<Self> {
        use std::io::Seek;
        if foreign::is_opus(head) {
            bail!(foreign::name(head, Some(path)).unwrap_or_default());
        }
        ensure!(options.row.is_none(), "--row is for two-dimensional .npy arrays; use --channel");
        let mut input = file.try_clone().context("it cannot be read")?;
        input.rewind().context("it cannot be read")?;
        let extension = path.extension().and_then(|e| e.to_str());
        let work = || audio::decode(input, extension, options);
        let decoded = crate::output::progress::spin("decoding", work)?;
        decoded.notes.iter().for_each(|n| note(n));
        let map = map(&decoded.file)?;
        let found = Found { rate: decoded.rate, ..Found::plain(decoded.layout) };
        Self::finish(decoded.file, map, found, options)
    }

    fn open_sigmf(path: &Path, options: &Options) -> Result<Self> {
        let (meta_path, _) = sigmf::pair(path);
        ensure!(
            meta_path.exists(),
            "its metadata {} are missing; give them, or name the raw --format",
            meta_path.display()
        );
        let text = open(&meta_path).and_then(|file| map(&file)).context("the metadata")?;
        let meta = sigmf::parse(&text)?;
        let data_path = sigmf::dataset(&meta_path, &meta)?;
        ensure!(
            data_path.exists(),
            "the samples {} are missing; put them beside the metadata",
            data_path.display()
        );
        let file = open(&data_path)?;
        let map = map(&file).context("the samples")?;
        let size = map.len() as u64;
        let found = read_sigmf(meta, 0, size, options)?;
        Self::finish(file, map, found, options)
    }

    /// Cuts out the wanted part.
    fn finish(file: File, map: Mmap, found: Found, options: &Options) -> Result<Self> {
        let size = map.len() as u64;
        let layout = cut(found.layout, size, options)?;
        let bytes = match scattered::Scattered::new(file, size, layout) {
            Some(scattered) => Bytes::Long(map, scattered),
            None => Bytes::Map(map),
        };
        Self::new(bytes, layout, found, options)
    }

    fn new(bytes: Bytes, layout: Layout, found: Found, options: &Options) -> Result<Self> {
        found.note.iter().for_each(|text| note(text));
        /// Beyond these, frequencies and times in the answer would overflow.
        const LARGEST: f64 = 1e18;
        let (rate, center) = (options.rate.or(found.rate), options.center.or(found.center));
        if let Some(rate) = rate {
            ensure!(
                (1.0 / LARGEST..=LARGEST).contains(&rate),
                "the sample rate {rate:e} Hz is out of range; give one from 1e-18 to 1e18 with \
                 --rate"
            );
        }
        if let Some(center) = center {
            ensure!(
                center.abs() <= LARGEST,
                "the centre frequency {center:e} Hz is out of range; give one of at most 1e18 \
                 with --center"
            );
        }
        Ok(Recording {
            description: layout.describe(),
            bytes,
            layout,
            rate,
            center,
            sigmf: found.sigmf,
            raw: found.raw,
            skipped: options.skip,
        })
    }

    /// Bytes that were fetched from afar.
    pub fn fetched(&self) -> Option<(u64, u64)> {
        match &self.bytes {
            #[cfg(feature = "http")]
            Bytes::Remote(remote) => Some((remote.object.fetched(), remote.object.size())),
            _ => None,
        }
    }

    /// How well every sample type fits raw samples, that which was read first; nothing for other
    /// formats, whose header knows, and for those from afar.
    pub fn fits(&self) -> Vec<Fit> {
        let (Some(kind), Bytes::Map(map) | Bytes::Long(map, _)) = (self.raw, &self.bytes) else {
            return Vec::new();
        };
        let end = self.layout.end().unwrap_or(0) as usize;
        let all = &map[self.layout.offset as usize..end];
        if all.len() <= doubt::WINDOW * doubt::WINDOWS {
            return doubt::fits(all, kind);
        }
        let start = |i: usize| {
            let at = (all.len() - doubt::WINDOW) as u128 * i as u128 / (doubt::WINDOWS - 1) as u128;
            // Whole samples of every type.
            at as usize / 16 * 16
        };
        let windows = (0..doubt::WINDOWS).flat_map(|i| &all[start(i)..start(i) + doubt::WINDOW]);
        doubt::fits(&windows.copied().collect::<Vec<u8>>(), kind)
    }

    /// Whether the samples look like another type than the one that was read.
    pub fn doubts(&self) -> Vec<Doubt> {
        doubt::doubt(&self.fits()).into_iter().collect()
    }

    /// Where the samples lie.
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
    fn resolution(&self) -> f64 {
        if self.full_scale() > 1.0 { 1.0 } else { 0.0 }
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        match &self.bytes {
            Bytes::Long(_, file) => file.read(indices, out),
            Bytes::Map(map) => {
                self.layout.read(map, indices, out);
                Ok(())
            }
            #[cfg(feature = "http")]
            Bytes::Remote(remote) => remote.read(indices, out),
        }
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        match &self.bytes {
            Bytes::Long(_, file) => file.read_lines(start, step, out),
            Bytes::Map(map) => {
                self.layout.read_lines(map, start, step, out);
                Ok(())
            }
            #[cfg(feature = "http")]
            Bytes::Remote(remote) => remote.read_lines(start, step, out),
        }
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        match &self.bytes {
            Bytes::Long(map, _) | Bytes::Map(map) => self.layout.read_range(map, start, out),
            #[cfg(feature = "http")]
            Bytes::Remote(remote) => remote.read_range(start, out)?,
        }
        Ok(())
    }
}

/// Reads the header of a format that lies in one file of `size` bytes, of which the first are
/// here.
fn read_header(format: Format, file: &[u8], size: u64, options: &Options) -> Result<Found> {
    ensure!(
        options.row.is_none() || format == Format::Npy,
        "--row is for two-dimensional .npy arrays; use --channel"
    );
    match format {
        Format::Npy => {
            let pick = npy::Pick { row: options.row, channel: options.channel, iq: options.iq };
            Ok(Found::plain(npy::parse(file)?.layout(size, pick)?))
        }
        Format::Wav => {
            let header = wav::parse(file)?;
            let layout = header.layout(options.channel, options.iq)?;
            ensure!(
                header.rate > 0.0 || options.rate.is_some(),
                "the WAV header says 0 samples per second; give the true rate with --rate"
            );
            Ok(Found { rate: Some(header.rate), note: header.note, ..Found::plain(layout) })
        }
        Format::Sigmf | Format::SigmfArchive => {
            let archive = sigmf::archive(file)?;
            read_sigmf(sigmf::parse(archive.meta)?, archive.offset, archive.size, options)
        }
        Format::Audio => bail!("compressed sound is decoded from a file; give its path"),
        Format::Raw(mut kind) => {
            ensure!(options.channel.is_none(), "raw samples have no channels; leave out --channel");
            if options.iq {
                ensure!(!kind.complex, "the samples are complex already; leave out --iq");
                kind.complex = true;
            }
            let partial = options.count.is_some();
            let layout = raw::layout(kind, size, partial)?;
            Ok(Found { raw: Some(kind), ..Found::plain(layout) })
        }
    }
}

/// The part of the samples that the options ask for, inside a file of `size` bytes.
fn cut(mut layout: Layout, size: u64, options: &Options) -> Result<Layout> {
    ensure!(
        options.skip < layout.n,
        "--skip {} leaves nothing of {} samples; skip fewer",
        options.skip,
        layout.n
    );
    layout.offset += options.skip * layout.stride;
    layout.n -= options.skip;
    if let Some(count) = options.count {
        ensure!(
            count <= layout.n,
            "--count {count} is more than the {} samples there are; ask for fewer",
            layout.n
        );
        layout.n = count;
    }
    // Readers promise this; the check turns a mistake of theirs into an error.
    ensure!(
        layout.n > 0 && layout.end().is_some_and(|end| end <= size),
        "the file is shorter than its header promises; copy it again"
    );
    Ok(layout)
}

/// Where the samples of a file in memory lie; `format` as `--format` has it, with
/// `sigmf-archive` for an archive.
///
/// # Errors
/// One sentence: what is wrong with the file, and what to do.
pub fn probe(format: &str, file: &[u8], options: &Options) -> Result<Layout> {
    let size = file.len() as u64;
    cut(read_header(named(format)?, file, size, options)?.layout, size, options)
}

/// Where the samples of a SigMF dataset of `size` bytes lie, by the text of its metadata.
///
/// # Errors
/// As [`probe`].
pub fn probe_sigmf(text: &[u8], size: u64, options: &Options) -> Result<Layout> {
    cut(read_sigmf(sigmf::parse(text)?, 0, size, options)?.layout, size, options)
}

/// The layout of a SigMF dataset of `size` bytes from `offset` on.
fn read_sigmf(meta: sigmf::Meta, offset: u64, size: u64, options: &Options) -> Result<Found> {
    ensure!(!options.iq, "SigMF says itself which samples are complex; leave out --iq");
    let headers = meta.captures.iter().try_fold(0u64, |sum, c| sum.checked_add(c.header_bytes));
    let around = headers.and_then(|sum| sum.checked_add(meta.trailing_bytes));
    let block = meta.kind.size() * meta.channels;
    let held = around.and_then(|a| size.checked_sub(a)).unwrap_or(0);
    ensure!(
        held >= block,
        "the SigMF dataset of {size} bytes holds no sample; check it and its metadata"
    );
    ensure!(
        held.is_multiple_of(block) || options.count.is_some(),
        "the {held} bytes of samples are not a whole number of {block}-byte samples of {}; the \
         dataset is truncated or the metadata are wrong",
        meta.kind.sigmf_name()
    );
    let channel = sigmf::channel(meta.channels, options.channel)?;
    let end = options.count.map_or(held / block, |count| options.skip.saturating_add(count));
    let part = meta.part(options.skip..end, held / block, options.center.is_some())?;
    let layout = meta.kind.layout(offset + part.header_bytes, held, meta.channels, channel);
    // What the options say need not be right in the metadata.
    let rate = options.rate.map_or_else(|| meta.rate(), |rate| Ok(Some(rate)))?;
    let center = match options.center {
        Some(center) => Some(center),
        None => part.center.map_err(anyhow::Error::msg)?,
    };
    Ok(Found { layout, rate, center, sigmf: Some(meta.json), raw: None, note: None })
}

/// Reads all of a file or of a pipe.
///
/// # Errors
/// As [`Recording::open`]; a directory or a device.
pub fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let mut file = open(path)?;
    let meta = file.metadata().context("its size cannot be read")?;
    ensure!(!meta.is_dir(), "this is a directory; give the name of a file");
    #[cfg(unix)]
    if !meta.is_file() {
        use std::os::unix::fs::FileTypeExt;
        ensure!(meta.file_type().is_fifo(), "this is a device; give the name of a file");
        // As every program that reads pipes, it waits for the writer.
        file = File::open(path).context("it cannot be opened")?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("it cannot be read")?;
    Ok(bytes)
}

/// Opens a file without waiting for the writer of a pipe.
fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK);
    }
    match options.open(path) {
        Ok(file) => Ok(file),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is no such file; check the path")
        }
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            bail!("it may not be read; check its permissions")
        }
        Err(e) => Err(e).context("it cannot be opened"),
    }
}

/// Maps a regular file that is not empty.
fn map(file: &File) -> Result<Mmap> {
    let meta = file.metadata().context("its size cannot be read")?;
    ensure!(!meta.is_dir(), "this is a directory; give the path of a recording");
    ensure!(meta.is_file(), "this is not a regular file; pipe it into `-` instead");
    ensure!(meta.len() > 0, "the file is empty; give a recording with at least one sample");
    crate::output::partial::watch();
    // SAFETY: the map is read-only. Another process that shortens the file meanwhile raises SIGBUS,
    // which ends this one with a sentence; the bytes it changes are samples of any value.
    let map = unsafe { Mmap::map(file) }.context("it cannot be memory-mapped")?;
    // Advice is a hint: without it everything works, with more bytes read.
    let _ = map.advise(Advice::Random);
    Ok(map)
}

#[cfg(test)]
mod tests;
