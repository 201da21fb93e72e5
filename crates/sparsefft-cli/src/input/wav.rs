//! WAV: RIFF, RF64 and BW64 with PCM of 8, 16, 24 or 32 bits or floats.
//!
//! The file is a list of chunks; `fmt ` says how a sample is stored, `data` holds them. RF64
//! keeps sizes above 4 GiB in a chunk `ds64`. Programs that write into a pipe, and recorders that
//! were interrupted, leave a size of `data` that is no length: the rest of the file counts then. So
//! it does where the file ends before its samples do.

use super::layout::{Layout, Number};
use anyhow::{Context, Result, bail, ensure};

/// What the header says.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    number: Number,
    /// Number of interleaved channels.
    pub channels: u64,
    /// Sample rate in Hz; 0 where the recorder did not fill it in.
    pub rate: f64,
    offset: u64,
    size: u64,
    /// What a reader should know of its length, in a sentence.
    pub note: Option<String>,
}

/// Sizes of `data` that stand for "not known": 0 and 2^32 - 1, and 2^31 less up to 64 KiB, the
/// largest size of signed 32-bit programs that keep room for a header and for whole samples (ffmpeg
/// and sox write such into a pipe).
const UNKNOWN: [std::ops::RangeInclusive<u32>; 3] =
    [0..=0, 0x7FFF_0000..=0x8000_0000, u32::MAX..=u32::MAX];

/// Whether a file starts like a WAV.
pub fn is_wav(file: &[u8]) -> bool {
    file.len() >= 12 && matches!(&file[..4], b"RIFF" | b"RF64" | b"BW64") && &file[8..12] == b"WAVE"
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads the chunks up to the samples.
///
/// # Errors
/// One sentence that says what is wrong and what to do.
pub fn parse(file: &[u8]) -> Result<Header> {
    ensure!(is_wav(file), "it does not start like a WAV file; name its --format");
    let truncated = "the WAV header is cut off; copy the file again";
    let mut format = None;
    let mut long_size = None;
    let mut at = 12usize;
    loop {
        let id = file.get(at..at.saturating_add(4)).context(
            "the WAV file has no 'data' chunk; it is truncated or damaged, copy it again",
        )?;
        let size = u32_at(file, at + 4).context(truncated)?;
        let body = at + 8;
        match id {
            b"ds64" => long_size = Some(u64_at(file, body + 8).context(truncated)?),
            b"fmt " => format = Some(Format::parse(file, body, size).context(truncated)??),
            b"data" => {
                let format: Format =
                    format.context("the WAV file has no 'fmt ' chunk before its data")?;
                let held = file.len() as u64 - body as u64;
                let (size, note) = length(size, long_size, held - held % format.block());
                ensure!(
                    size >= format.block(),
                    "the WAV file holds no samples; give one with at least one sample"
                );
                return Ok(Header {
                    number: format.number,
                    channels: format.channels,
                    rate: format.rate,
                    offset: body as u64,
                    size,
                    note,
                });
            }
            _ => {}
        }
        // Chunks are padded to an even length.
        at = body.saturating_add(size as usize).saturating_add(size as usize % 2);
    }
}

/// The bytes of samples, of which `held` follow, and what to say of it.
fn length(size: u32, long_size: Option<u64>, held: u64) -> (u64, Option<String>) {
    let stated = match long_size {
        Some(long) if size == u32::MAX && long > 0 => Some(long),
        _ if size == 0 || size == u32::MAX => None,
        _ => Some(u64::from(size)),
    };
    let marker =
        UNKNOWN.iter().any(|range| range.contains(&size)) && long_size.is_none_or(|l| l == 0);
    let held_size = crate::units::bytes(held);
    match stated {
        Some(stated) if stated <= held => (stated, None),
        Some(stated) if !marker => {
            let note = format!(
                "the header promises {} of samples, but the file ends after {held_size}; what is \
                 there is read",
                crate::units::bytes(stated)
            );
            (held, Some(note))
        }
        _ => {
            let note = format!(
                "the header does not say how long the recording is; all {held_size} that follow \
                 are read"
            );
            (held, Some(note))
        }
    }
}

struct Format {
    number: Number,
    channels: u64,
    rate: f64,
}

impl Format {
    /// `None` if the chunk is cut off.
    fn parse(file: &[u8], at: usize, size: u32) -> Option<Result<Self>> {
        let mut tag = u16_at(file, at)?;
        let channels = u64::from(u16_at(file, at + 2)?);
        let rate = f64::from(u32_at(file, at + 4)?);
        let block = u64::from(u16_at(file, at + 12)?);
        let bits = u16_at(file, at + 14)?;
        if tag == 0xFFFE && size >= 40 {
            // WAVE_FORMAT_EXTENSIBLE: the tag is the start of a GUID.
            tag = u16_at(file, at + 24)?;
        }
        Some(Self::check(tag, channels, rate, block, bits))
    }

    fn check(tag: u16, channels: u64, rate: f64, block: u64, bits: u16) -> Result<Self> {
        ensure!(channels > 0, "the WAV header says 0 channels; the file is damaged");
        let width = block / channels;
        // 12 bits stand in 2 bytes, at their upper end: such numbers are read as 16 bits. Where the
        // bytes do not follow from the bits, one of the two is wrong.
        ensure!(
            width == 0 || width * channels != block || width == u64::from(bits).div_ceil(8),
            "the WAV header says {bits} bits in {width} bytes per number; one of the two is wrong, \
             write the file again"
        );
        let number = match (tag, width) {
            (1, 1) => Number::U8,
            (1, 2) => Number::I16,
            (1, 3) => Number::I24,
            (1, 4) => Number::I32,
            (3, 4) if bits == 32 => Number::F32,
            (3, 8) if bits == 64 => Number::F64,
            _ => bail!(
                "WAV format {tag} with {bits} bits in {width} bytes is not supported; convert it \
                 to PCM of 8, 16, 24 or 32 bits or to 32-bit float"
            ),
        };
        ensure!(
            width * channels == block,
            "the WAV header says {block} bytes for {channels} channels, which does not divide"
        );
        Ok(Format { number, channels, rate })
    }

    fn block(&self) -> u64 {
        self.number.size() * self.channels
    }
}

impl Header {
    /// Where the samples of a channel lie, or the pairs of channels 0 and 1 as complex samples.
    ///
    /// # Errors
    /// A channel that does not exist, or a choice that has to be made.
    pub fn layout(&self, channel: Option<u64>, iq: bool) -> Result<Layout> {
        let block = self.number.size() * self.channels;
        let channel = pick(self.channels, channel, iq)?;
        Ok(Layout {
            number: self.number,
            big_endian: false,
            complex: iq,
            offset: self.offset + channel * self.number.size(),
            stride: block,
            n: self.size / block,
            bias: if self.number == Number::U8 { 128.0 } else { 0.0 },
        })
    }
}

/// The channel to read of so many; with `iq` the first of a pair.
///
/// # Errors
/// A channel that does not exist, or a choice that has to be made.
pub fn pick(channels: u64, channel: Option<u64>, iq: bool) -> Result<u64> {
    match (channel, iq, channels) {
        (Some(_), true, _) => bail!("--channel and --iq exclude each other; leave one out"),
        (None, true, 2) => Ok(0),
        (None, true, c) => bail!("--iq needs a file of 2 channels, not {c}"),
        (Some(channel), false, channels) => {
            ensure!(
                channel < channels,
                "--channel {channel} does not exist; channels are 0 to {}",
                channels - 1
            );
            Ok(channel)
        }
        (None, false, 1) => Ok(0),
        (None, false, 2) => bail!(
            "the file has 2 channels; pick one with --channel 0 or --channel 1, \
             or pair them as complex samples with --iq"
        ),
        (None, false, c) => {
            bail!("the file has {c} channels; pick one with --channel 0 to {}", c - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: &[u8; 4], size: u32, body: &[u8]) -> Vec<u8> {
        [&id[..], &size.to_le_bytes(), body].concat()
    }

    fn fmt(tag: u16, channels: u16, bits: u16) -> Vec<u8> {
        fmt_block(tag, channels, bits, channels * bits / 8)
    }

    /// One channel with so many bytes for a number.
    fn fmt_in(tag: u16, bits: u16, bytes: u16) -> Vec<u8> {
        fmt_block(tag, 1, bits, bytes)
    }

    fn fmt_block(tag: u16, channels: u16, bits: u16, block: u16) -> Vec<u8> {
        let mut b = Vec::new();
        b.extend(tag.to_le_bytes());
        b.extend(channels.to_le_bytes());
        b.extend(48_000u32.to_le_bytes());
        b.extend((48_000 * u32::from(block)).to_le_bytes());
        b.extend(block.to_le_bytes());
        b.extend(bits.to_le_bytes());
        chunk(b"fmt ", 16, &b)
    }

    fn file(magic: &[u8; 4], chunks: &[Vec<u8>]) -> Vec<u8> {
        [&magic[..], &[0; 4], b"WAVE", &chunks.concat()].concat()
    }

    #[test]
    fn chunks_before_the_data_are_skipped() {
        let list = chunk(b"LIST", 3, b"abc\0");
        let f = file(b"RIFF", &[list, fmt(1, 2, 24), chunk(b"data", 12, &[0; 12])]);
        let h = parse(&f).unwrap();
        assert_eq!((h.channels, h.rate), (2, 48_000.0));
        let l = h.layout(Some(1), false).unwrap();
        assert_eq!((l.n, l.stride, l.offset), (2, 6, f.len() as u64 - 12 + 3));
        assert!(h.layout(None, true).unwrap().complex);
        assert!(h.layout(None, false).unwrap_err().to_string().contains("--iq"));
        assert!(h.layout(Some(2), false).is_err());
    }

    #[test]
    fn few_bits_stand_at_the_upper_end_of_their_bytes() {
        for (bits, bytes, number) in
            [(6, 1, Number::U8), (9, 2, Number::I16), (12, 2, Number::I16), (20, 3, Number::I24)]
        {
            let f = file(b"RIFF", &[fmt_in(1, bits, bytes), chunk(b"data", 12, &[0; 12])]);
            let layout = parse(&f).unwrap().layout(None, false).unwrap();
            assert_eq!((layout.number, layout.n), (number, 12 / u64::from(bytes)), "{bits}");
        }
    }

    #[test]
    fn every_width_and_its_middle() {
        for (tag, bits, number, bias) in [
            (1, 8, Number::U8, 128.0),
            (1, 16, Number::I16, 0.0),
            (1, 24, Number::I24, 0.0),
            (1, 32, Number::I32, 0.0),
            (3, 32, Number::F32, 0.0),
            (3, 64, Number::F64, 0.0),
        ] {
            let f = file(b"RIFF", &[fmt(tag, 2, bits), chunk(b"data", 48, &[0; 48])]);
            let found = parse(&f).unwrap().layout(Some(1), false).unwrap();
            assert_eq!((found.number, found.bias), (number, bias), "{tag} {bits}");
            assert_eq!((found.n, found.stride), (24 / number.size(), 2 * number.size()));
        }
    }

    /// The tag at the start of the GUID counts where the tag of the chunk says so and the chunk is
    /// long enough.
    #[test]
    fn extensible_chunks_name_their_format_in_the_guid() {
        let fmt = |tag: u16, inner: u16, long: bool| {
            let mut body = fmt(tag, 1, 32)[8..].to_vec();
            if long {
                // 22 more bytes, 32 valid bits, a mask of speakers, and the GUID.
                body.extend([22, 0, 32, 0, 4, 0, 0, 0]);
                body.extend(inner.to_le_bytes());
                body.extend(b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71");
            }
            let size = body.len() as u32;
            file(b"RIFF", &[chunk(b"fmt ", size, &body), chunk(b"data", 40, &[0; 40])])
        };
        let number = |f: &[u8]| parse(f).map(|header| header.number);
        assert_eq!(number(&fmt(0xFFFE, 3, true)).unwrap(), Number::F32);
        assert_eq!(number(&fmt(0xFFFE, 1, true)).unwrap(), Number::I32);
        assert_eq!(number(&fmt(1, 3, true)).unwrap(), Number::I32);
        assert_eq!(number(&fmt(3, 1, true)).unwrap(), Number::F32);
        let error = number(&fmt(0xFFFE, 0, false)).unwrap_err().to_string();
        assert!(error.contains("WAV format 65534"), "{error}");
    }

    #[test]
    fn rf64_takes_its_size_from_ds64() {
        let mut ds = Vec::new();
        ds.extend(0u64.to_le_bytes());
        ds.extend(8u64.to_le_bytes());
        ds.extend(4u64.to_le_bytes());
        ds.extend(0u32.to_le_bytes());
        let f = file(
            b"RF64",
            &[chunk(b"ds64", 28, &ds), fmt(1, 1, 16), chunk(b"data", u32::MAX, &[0; 10])],
        );
        assert_eq!(parse(&f).unwrap().layout(None, false).unwrap().n, 4);
    }

    #[test]
    fn a_length_that_was_never_filled_in() {
        for size in [0, 0x7FFF_0024, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
            let f = file(b"RIFF", &[fmt(3, 1, 32), chunk(b"data", size, &[0; 10])]);
            let header = parse(&f).unwrap();
            assert_eq!(header.layout(None, false).unwrap().n, 2, "{size:#x}");
            let note = header.note.unwrap();
            assert!(note.contains("does not say how long") && note.contains("8 bytes"), "{note}");
        }
        // RF64, of which the long length was not filled in either.
        let ds64 = chunk(b"ds64", 28, &[0; 28]);
        let data = chunk(b"data", u32::MAX, &[0; 10]);
        let f = file(b"RF64", &[ds64, fmt(3, 1, 32), data]);
        assert_eq!(parse(&f).unwrap().layout(None, false).unwrap().n, 2);
    }

    /// Whole samples of what is there, and a note that names both lengths.
    #[test]
    fn a_file_that_was_cut_off() {
        for (size, long, follow, n) in
            [(400u32, None, 11, 5), (u32::MAX - 3, None, 4, 2), (u32::MAX, Some(5u64 << 30), 8, 4)]
        {
            let mut chunks = vec![fmt(1, 1, 16), chunk(b"data", size, &vec![0; follow])];
            if let Some(long) = long {
                let mut ds64 = vec![0; 28];
                ds64[8..16].copy_from_slice(&long.to_le_bytes());
                chunks.insert(0, chunk(b"ds64", 28, &ds64));
            }
            let header = parse(&file(b"RF64", &chunks)).unwrap();
            assert_eq!(header.layout(None, false).unwrap().n, n, "{size}");
            let (stated, held) = (long.unwrap_or(u64::from(size)), 2 * n);
            let note = header.note.unwrap();
            for bytes in [stated, held] {
                assert!(note.contains(&crate::units::bytes(bytes)), "{note}");
            }
        }
        let whole = file(b"RIFF", &[fmt(1, 1, 16), chunk(b"data", 4, &[0; 9])]);
        assert_eq!(parse(&whole).unwrap().note, None);
    }

    #[test]
    fn damaged_files_are_refused_in_words() {
        let good = file(b"RIFF", &[fmt(1, 1, 16), chunk(b"data", 4, &[0; 4])]);
        for cut in 0..good.len() - 2 {
            assert!(parse(&good[..cut]).is_err(), "{cut}");
        }
        let cases = [
            (file(b"RIFF", &[fmt(1, 1, 16), chunk(b"data", 400, &[0; 1])]), "no samples"),
            (file(b"RIFF", &[fmt(1, 1, 16)]), "data"),
            (file(b"RIFF", &[chunk(b"data", 4, &[0; 4])]), "fmt"),
            (file(b"RIFF", &[fmt(2, 1, 4), chunk(b"data", 4, &[0; 4])]), "not supported"),
            (file(b"RIFF", &[fmt(1, 0, 16), chunk(b"data", 4, &[0; 4])]), "0 channels"),
            (file(b"RIFF", &[fmt_in(1, 12, 1), chunk(b"data", 4, &[0; 4])]), "12 bits in 1 bytes"),
            (file(b"RIFF", &[fmt_in(1, 8, 2), chunk(b"data", 4, &[0; 4])]), "8 bits in 2 bytes"),
            (file(b"RIFF", &[fmt_in(1, 24, 4), chunk(b"data", 4, &[0; 4])]), "24 bits in 4"),
            (file(b"RIFF", &[fmt_in(1, 0, 2), chunk(b"data", 4, &[0; 4])]), "0 bits in 2"),
            (file(b"RIFF", &[fmt_in(3, 30, 4), chunk(b"data", 4, &[0; 4])]), "not supported"),
            (file(b"RIFF", &[fmt_in(3, 60, 8), chunk(b"data", 8, &[0; 8])]), "not supported"),
            (file(b"RIFF", &[fmt(1, 1, 16), chunk(b"data", 1, &[0; 1])]), "no samples"),
            (file(b"RIFF", &[fmt(1, 2, 16), chunk(b"data", 2, &[0; 2])]), "no samples"),
            (file(b"RIFF", &[chunk(b"LIST", u32::MAX - 1, b"")]), "data"),
            (file(b"RIFX", &[fmt(1, 1, 16), chunk(b"data", 4, &[0; 4])]), "start like a WAV"),
            ([b"RIFF\0\0\0\0AVI ", &good[12..]].concat(), "start like a WAV"),
        ];
        for (bytes, word) in cases {
            let error = format!("{:#}", parse(&bytes).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}
