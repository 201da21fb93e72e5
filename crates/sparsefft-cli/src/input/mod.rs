//! Recordings: one reader per format, all of them reduced to a [`Layout`] over a memory map.
//!
//! A reader looks at the header only and says where the samples lie; nothing is loaded. The map
//! is advised for random access, since read-ahead would pull many times the bytes we need. Of long
//! files, scattered samples are read by position (`scattered`), which keeps memory small; of those
//! behind an address, by range requests (`http`).

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

pub use layout::{Layout, Number};
pub use parts::Parts;

use crate::units;
use anyhow::{Context, Result, bail, ensure};
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
    /// Format: npy, wav, sigmf, or raw samples such as cf32, cs16_be, u8 [default: by extension]
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

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Npy,
    Wav,
    Sigmf,
    SigmfArchive,
    Raw(raw::Type),
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
}

impl Found {
    fn plain(layout: Layout) -> Self {
        Found { layout, rate: None, center: None, sigmf: None, raw: None }
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
            None => sniff(&map).context(
                "its format cannot be told; name it with --format, for example --format cf32",
            )?,
        };
        let found = match format {
            Format::Sigmf => {
                bail!("SigMF needs two files; give the path of the .sigmf-meta file instead")
            }
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
            Some(format) => format,
            None => bail!(
                "its format cannot be told from its name; name it with --format: npy, wav, sigmf \
                 or one of {}",
                raw::NAMES
            ),
        };
        let found = read_header(format, &map, map.len() as u64, options)?;
        Self::finish(file, map, found, options)
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
            Ok(Found { rate: Some(header.rate), ..Found::plain(layout) })
        }
        Format::Sigmf | Format::SigmfArchive => {
            let archive = sigmf::archive(file)?;
            read_sigmf(sigmf::parse(archive.meta)?, archive.offset, archive.size, options)
        }
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
    Ok(Found { layout, rate, center, sigmf: Some(meta.json), raw: None })
}

/// The format of this name.
fn named(name: &str) -> Result<Format> {
    match name {
        "npy" => Ok(Format::Npy),
        "wav" => Ok(Format::Wav),
        "sigmf" => Ok(Format::Sigmf),
        "sigmf-archive" => Ok(Format::SigmfArchive),
        _ => raw::Type::parse(name).map(Format::Raw).with_context(|| {
            format!("the format '{name}' is not known; one of npy, wav, sigmf, {}", raw::NAMES)
        }),
    }
}

/// The format that a file name tells.
fn by_extension(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "npy" => Some(Format::Npy),
        "wav" | "wave" | "rf64" | "bw64" => Some(Format::Wav),
        "sigmf-meta" | "sigmf-data" => Some(Format::Sigmf),
        "sigmf" => Some(Format::SigmfArchive),
        other => raw::Type::parse(other).map(Format::Raw),
    }
}

/// The format that the first bytes tell.
fn sniff(file: &[u8]) -> Option<Format> {
    if file.starts_with(npy::MAGIC) {
        Some(Format::Npy)
    } else if wav::is_wav(file) {
        Some(Format::Wav)
    } else if file.get(257..262) == Some(b"ustar") {
        Some(Format::SigmfArchive)
    } else {
        None
    }
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
mod tests {
    use super::*;

    fn opened(name: &str, bytes: &[u8], options: &Options) -> Result<Recording> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join(name);
        std::fs::write(&path, bytes)?;
        Recording::open(&path, options)
    }

    fn wav(rate: u32) -> Vec<u8> {
        let mut f = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        f.extend(rate.to_le_bytes());
        f.extend((2 * rate).to_le_bytes());
        f.extend(b"\x02\0\x10\0data\x08\0\0\0\x01\0\x02\0\x03\0\x04\0");
        f
    }

    /// One sample at a time, lines, and ranges, of the whole and of a part.
    #[test]
    fn all_ways_of_reading_agree() {
        let bytes: Vec<u8> = (0..40).collect();
        for (skip, count) in [(0, None), (3, None), (3, Some(9)), (0, Some(5))] {
            let options = Options { skip, count, ..Options::default() };
            let found = opened("x.cs8", &bytes, &options).unwrap();
            let n = count.unwrap_or(20 - skip);
            assert_eq!((found.len(), found.layout().n, found.skipped), (n, n, skip));
            assert_eq!((found.layout().offset, found.fetched()), (2 * skip, None));
            let sample = |t: u64| {
                let at = 2.0 * (skip + t % n) as f64;
                Complex::new(at, at + 1.0)
            };
            let indices = [n - 1, 0, 2];
            let mut some = [Complex::ZERO; 3];
            found.read(&indices, &mut some).unwrap();
            assert_eq!(some, indices.map(sample));
            let mut range = [Complex::ZERO; 3];
            found.read_range(1, &mut range).unwrap();
            assert_eq!(range, [1, 2, 3].map(sample));
            let mut lines = [Line::ZERO; 2];
            found.read_lines(n - 2, 3, &mut lines).unwrap();
            for (line, first) in lines.iter().zip([n - 2, n + 1]) {
                (0..4).for_each(|tau| assert_eq!(line.lane(tau), sample(first + tau as u64)));
            }
        }
        for (skip, count, word) in [(20, None, "--skip 20"), (3, Some(18), "--count 18")] {
            let options = Options { skip, count, ..Options::default() };
            let error = format!("{:#}", opened("x.cs8", &bytes, &options).err().unwrap());
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn recordings_know_their_kind() {
        for (name, real, full_scale, step) in [
            ("x.cs8", false, 128.0, 1.0),
            ("x.u16", true, 32_768.0, 1.0),
            ("x.f32", true, 1.0, 0.0),
            ("x.cf32", false, 1.0, 0.0),
        ] {
            let found = opened(name, &[0; 16], &Options::default()).unwrap();
            assert_eq!((found.is_real(), found.resolution()), (real, step), "{name}");
            assert_eq!(found.full_scale(), full_scale, "{name}");
            let kind = raw::Type::parse(&name[2..]);
            assert_eq!((found.raw, found.rate, found.center), (kind, None, None), "{name}");
        }
        let found = opened("x.wav", &wav(8000), &Options::default()).unwrap();
        assert_eq!((found.raw, found.rate, found.len()), (None, Some(8000.0), 4));
        let options = Options { rate: Some(5.0), ..Options::default() };
        assert_eq!(opened("x.wav", &wav(0), &options).unwrap().rate, Some(5.0));
        assert!(opened("x.wav", &wav(0), &Options::default()).is_err());
    }

    #[test]
    fn names_and_first_bytes_tell_the_format() {
        let raw = |name: &str| raw::Type::parse(name).map(Format::Raw);
        for (name, format) in [
            ("npy", Some(Format::Npy)),
            ("wav", Some(Format::Wav)),
            ("sigmf", Some(Format::Sigmf)),
            ("sigmf-archive", Some(Format::SigmfArchive)),
            ("cs16_be", raw("cs16_be")),
            ("wave", None),
        ] {
            assert_eq!(named(name).ok(), format, "{name}");
        }
        for (path, format) in [
            ("d.wav/x.NPY", Some(Format::Npy)),
            ("x.wav", Some(Format::Wav)),
            ("x.WAVE", Some(Format::Wav)),
            ("x.rf64", Some(Format::Wav)),
            ("x.bw64", Some(Format::Wav)),
            ("x.sigmf-meta", Some(Format::Sigmf)),
            ("x.sigmf-data", Some(Format::Sigmf)),
            ("x.sigmf", Some(Format::SigmfArchive)),
            ("x.cu8", raw("cu8")),
            ("x.dat", None),
            ("npy", None),
        ] {
            assert_eq!(by_extension(Path::new(path)), format, "{path}");
        }
        let mut tar = vec![0; 512];
        assert_eq!(sniff(&tar), None);
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(sniff(&tar), Some(Format::SigmfArchive));
        assert_eq!(sniff(b"\x93NUMPY\x01\0"), Some(Format::Npy));
        assert_eq!(sniff(&wav(1)), Some(Format::Wav));
        assert_eq!(sniff(b""), None);
    }

    /// Bytes around the samples, and channels side by side.
    #[test]
    fn samples_of_a_sigmf_dataset_lie_between_what_surrounds_them() {
        let text = br#"{"global":{"core:datatype":"ci16_le","core:num_channels":3,
                "core:trailing_bytes":5},
            "captures":[{"core:sample_start":0,"core:header_bytes":7}]}"#;
        let found = |size, skip, count, channel| {
            let options = Options { skip, count, channel, ..Options::default() };
            probe_sigmf(text, size, &options)
        };
        let whole = found(12 + 120, 0, None, Some(2)).unwrap();
        assert_eq!((whole.offset, whole.stride, whole.n), (7 + 8, 12, 10));
        let part = found(12 + 120, 4, Some(6), Some(0)).unwrap();
        assert_eq!((part.offset, part.stride, part.n), (7 + 48, 12, 6));
        for (size, skip, count, channel, word) in [
            (12 + 120, 0, None, None, "3 channels"),
            (12 + 120, 0, None, Some(3), "0 to 2"),
            (12 + 11, 0, None, Some(0), "holds no sample"),
            (11, 0, None, Some(0), "holds no sample"),
            (12 + 121, 0, None, Some(0), "not a whole number of 12-byte samples"),
            (12 + 120, 10, None, Some(0), "--skip 10"),
            (12 + 120, 0, Some(11), Some(0), "--count 11"),
        ] {
            let error = format!("{:#}", found(size, skip, count, channel).unwrap_err());
            assert!(error.contains(word), "{size} {skip} {count:?} {channel:?}: {error}");
        }
        // A capture that begins behind the last of ten samples.
        let text = br#"{"global":{"core:datatype":"cf32"},
            "captures":[{"core:sample_start":0},{"core:sample_start":10}]}"#;
        let error = probe_sigmf(text, 80, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("capture at sample 10, but there are 10 samples"), "{error}");
        assert_eq!(probe_sigmf(text, 88, &Options::default()).unwrap().n, 11);
        // Of a part, what is cut off behind it does not matter.
        assert_eq!(found(12 + 121, 0, Some(10), Some(0)).unwrap().n, 10);
    }

    #[test]
    fn whole_files_and_those_that_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(read_whole(&path).unwrap(), b"abc");
        assert!(read_whole(dir.path()).unwrap_err().to_string().contains("directory"));
        let none = read_whole(&dir.path().join("none")).unwrap_err().to_string();
        assert!(none.contains("no such file"), "{none}");
        // A file where a directory should be is neither missing nor forbidden.
        let other = read_whole(&path.join("y")).unwrap_err().to_string();
        assert!(other.contains("cannot be opened"), "{other}");
    }
}
