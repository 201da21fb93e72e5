//! Compressed recordings: FLAC, AIFF, Ogg Vorbis, MP3, AAC, ALAC and CAF.
//!
//! They cannot be read at random, so they are decoded once into an unnamed temporary file
//! (`TMPDIR`) that vanishes with the process; memory holds one packet at a time. Formats without
//! loss keep their integers, the others become 32-bit floats.

use super::layout::{Layout, Number};
use super::{Options, wav};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use symphonia::core::audio::{GenericAudioBufferRef, sample::i24};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType, probe::Hint};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

/// Damaged packets in a row after which nothing more is expected of a file.
const MOST_DAMAGED: u64 = 1000;

/// A decoded recording.
pub(super) struct Decoded {
    /// The samples, channels interleaved.
    pub file: File,
    pub layout: Layout,
    /// Sample rate in Hz, where the file tells it.
    pub rate: Option<f64>,
    /// What a reader should know, in sentences.
    pub notes: Vec<String>,
}

/// Decodes as much of a file as the options ask for.
///
/// # Errors
/// One sentence: what is wrong with the file, and what to do.
pub(super) fn decode(file: File, extension: Option<&str>, options: &Options) -> Result<Decoded> {
    let mut hint = Hint::new();
    if let Some(extension) = extension {
        hint.with_extension(extension);
    }
    let stream = MediaSourceStream::new(Box::new(file), Default::default());
    let (format, meta) = (FormatOptions::default(), MetadataOptions::default());
    let mut reader = symphonia::default::get_probe()
        .probe(&hint, stream, format, meta)
        .map_err(|e| refused(&e))?;
    let track = reader.default_track(TrackType::Audio).context("the file holds no sound")?;
    let (id, promised) = (track.id, track.num_frames);
    let params = track.codec_params.as_ref().and_then(|p| p.audio());
    let params = params.context("the file does not say how its sound is coded; convert it")?;
    let rate = params.sample_rate.filter(|r| *r > 0).map(f64::from);
    ensure!(
        rate.is_some() || options.rate.is_some(),
        "the file does not say its sample rate; give it with --rate"
    );
    let bits = params.bits_per_sample;
    let how = AudioDecoderOptions::default().verify(true);
    let decoder = symphonia::default::get_codecs()
        .make_audio_decoder(params, &how)
        .map_err(|e| refused(&e))?;
    let wanted = options.count.map_or(u64::MAX, |count| options.skip.saturating_add(count));
    let mut spool = Spool::new(bits)?;
    let mut notes = spool.fill(&mut *reader, decoder, id, wanted)?;
    let Spool { out, kind, frames, .. } = spool;
    let Some((number, channels)) = kind else {
        bail!("nothing in the file can be decoded; it is empty or damaged, copy it again");
    };
    if let Some(promised) = promised.filter(|p| frames < wanted && frames < *p) {
        notes.push(format!(
            "the header promises {promised} samples, but only {frames} could be read; those are taken"
        ));
    }
    let channel = wav::pick(channels, options.channel, options.iq)?;
    let size = number.size();
    let layout = Layout {
        number,
        big_endian: cfg!(target_endian = "big"),
        complex: options.iq,
        offset: channel * size,
        stride: channels * size,
        n: frames,
        bias: 0.0,
    };
    let file = out.into_inner().map_err(|e| e.into_error()).context(FULL)?;
    Ok(Decoded { file, layout, rate, notes })
}

const FULL: &str = "the temporary file cannot be written; set TMPDIR to a larger disk";

/// What a failure of the decoder means.
fn refused(error: &Error) -> anyhow::Error {
    match error {
        Error::Unsupported(what) if what.contains("no suitable format reader") => anyhow!(
            "it does not start like FLAC, AIFF, Ogg, MP3, AAC, ALAC or CAF; name its --format"
        ),
        Error::Unsupported(what) => anyhow!(
            "{what} is not supported; convert the file to WAV, for example with ffmpeg -i IN OUT.wav"
        ),
        Error::IoError(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
            anyhow!("it cannot be read: {e}")
        }
        Error::IoError(_) => {
            anyhow!("the file is cut off before its samples can be told; copy it again")
        }
        other => anyhow!("the file is damaged ({other}); copy it again"),
    }
}

/// The temporary file, and what it holds so far.
struct Spool {
    out: BufWriter<File>,
    /// Type of the numbers and channels; unknown before the first packet.
    kind: Option<(Number, u64)>,
    bits: Option<u32>,
    frames: u64,
    bytes: Vec<u8>,
}

impl Spool {
    fn new(bits: Option<u32>) -> Result<Self> {
        let file = tempfile::tempfile().context("no temporary file can be made; set TMPDIR")?;
        Ok(Spool { out: BufWriter::new(file), kind: None, bits, frames: 0, bytes: Vec::new() })
    }

    /// Decodes packets until there are `wanted` samples; gives what a reader should know.
    fn fill(
        &mut self,
        reader: &mut dyn FormatReader,
        mut decoder: Box<dyn AudioDecoder>,
        id: u32,
        wanted: u64,
    ) -> Result<Vec<String>> {
        let (mut notes, mut damaged, mut in_a_row) = (Vec::new(), 0u64, 0);
        while self.frames < wanted {
            let packet = match reader.next_packet() {
                Ok(Some(packet)) if packet.track_id == id => packet,
                Ok(Some(_)) => continue,
                Ok(None) => break,
                Err(Error::ResetRequired) => {
                    notes.push("several recordings follow each other; the first is read".into());
                    break;
                }
                Err(Error::IoError(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                    notes.push("the file ends in the middle; what is there is read".into());
                    break;
                }
                Err(error) => {
                    let frames = self.frames;
                    notes.push(format!("behind sample {frames} the file is unreadable: {error}"));
                    break;
                }
            };
            match decoder.decode(&packet) {
                Ok(block) => {
                    in_a_row = 0;
                    self.add(&block)?;
                }
                Err(_) if in_a_row < MOST_DAMAGED => {
                    (damaged, in_a_row) = (damaged + 1, in_a_row + 1)
                }
                Err(_) => break,
            }
        }
        if damaged > 0 && self.frames > 0 {
            notes.push(format!(
                "{damaged} damaged packets are left out: times and phases jump there"
            ));
        }
        let whole = damaged == 0 && notes.is_empty() && self.frames < wanted;
        if whole && decoder.finalize().verify_ok == Some(false) {
            notes.push("the checksum of the file does not fit its samples: it is damaged".into());
        }
        Ok(notes)
    }

    fn add(&mut self, block: &GenericAudioBufferRef<'_>) -> Result<()> {
        let channels = block.num_planes() as u64;
        if block.frames() == 0 || channels == 0 {
            return Ok(());
        }
        let bits = self.bits;
        let (number, had) = *self.kind.get_or_insert_with(|| (number(block, bits), channels));
        ensure!(
            channels == had,
            "the file changes from {had} to {channels} channels at sample {}; cut it there",
            self.frames
        );
        let bytes = &mut self.bytes;
        match number {
            Number::I8 => block.copy_bytes_to_vec_interleaved_as::<i8>(bytes),
            Number::I16 => block.copy_bytes_to_vec_interleaved_as::<i16>(bytes),
            Number::I24 => block.copy_bytes_to_vec_interleaved_as::<i24>(bytes),
            Number::I32 => block.copy_bytes_to_vec_interleaved_as::<i32>(bytes),
            Number::F64 => block.copy_bytes_to_vec_interleaved_as::<f64>(bytes),
            _ => block.copy_bytes_to_vec_interleaved_as::<f32>(bytes),
        }
        self.out.write_all(bytes).context(FULL)?;
        self.frames += block.frames() as u64;
        Ok(())
    }
}

/// The smallest type that holds all samples exactly.
fn number(block: &GenericAudioBufferRef<'_>, bits: Option<u32>) -> Number {
    use GenericAudioBufferRef as Block;
    let own = match block {
        Block::F32(_) => return Number::F32,
        Block::F64(_) => return Number::F64,
        Block::U8(_) | Block::S8(_) => 8,
        Block::U16(_) | Block::S16(_) => 16,
        Block::U24(_) | Block::S24(_) => 24,
        Block::U32(_) | Block::S32(_) => 32,
    };
    match bits.unwrap_or(own) {
        0..=8 => Number::I8,
        9..=16 => Number::I16,
        17..=24 => Number::I24,
        _ => Number::I32,
    }
}
