//! Writing recordings in every format that we read, block by block.

use super::atomic::Atomic;
use crate::input::Number;
use crate::input::raw::Type;
use anyhow::{Context, Result, bail, ensure};
use num_complex::Complex;
use std::path::Path;

/// The file around the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// NumPy's .npy; complex integers become a last axis of length 2.
    Npy,
    /// WAV, RF64 above 4 GiB; complex samples become two channels.
    Wav,
    /// `.sigmf-meta` and `.sigmf-data`.
    Sigmf,
    /// Both in one tar archive.
    SigmfArchive,
    /// Nothing but samples.
    Raw,
}

/// What is to be written.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The file around the samples.
    pub container: Container,
    /// The samples' type.
    pub kind: Type,
    /// Number of samples.
    pub n: u64,
    /// Sample rate in Hz.
    pub rate: Option<f64>,
    /// Centre frequency in Hz.
    pub center: Option<f64>,
}

/// A recording being written. It appears under its name when [`finish`](Recorder::finish)ed.
pub struct Recorder {
    spec: Spec,
    sink: Atomic,
    written: u64,
    /// Samples that had to be clipped to the range of their type.
    pub clipped: u64,
    buffer: Vec<u8>,
    /// The file of metadata that goes with the samples, complete but without its name.
    meta: Option<Atomic>,
}

impl Recorder {
    /// Starts a recording and writes its header.
    ///
    /// # Errors
    /// A type that the container cannot hold, or a place that cannot be written.
    pub fn create(path: &Path, spec: Spec) -> Result<Self> {
        let bytes = spec.kind.size().checked_mul(spec.n);
        let bytes = bytes.context("the recording would be too long; choose a smaller -n")?;
        let mut meta = None;
        let mut data_path = path.to_owned();
        let header = match spec.container {
            Container::Raw => Vec::new(),
            Container::Npy => npy_header(&spec),
            Container::Wav => wav_header(&spec, bytes)?,
            Container::Sigmf => {
                let (meta_path, data) = crate::input::sigmf::pair(path);
                ensure!(path != Path::new("-"), "SigMF needs two files; give a path");
                data_path = data;
                // Both places are tried before the samples are made.
                let mut file = Atomic::create(&meta_path)?;
                file.put(sigmf_meta(&spec).as_bytes())?;
                meta = Some(file);
                Vec::new()
            }
            Container::SigmfArchive => tar_header(path, &spec, bytes),
        };
        let sink = Atomic::create(&data_path)?;
        sink.expect(bytes.saturating_add(header.len() as u64))?;
        let mut recorder =
            Recorder { spec, sink, written: 0, clipped: 0, buffer: Vec::new(), meta };
        recorder.put(&header)?;
        Ok(recorder)
    }

    /// Writes bytes that [`encode`] made from `count` samples.
    ///
    /// # Errors
    /// The disk is full, or the reader of stdout went away.
    pub fn write_encoded(&mut self, bytes: &[u8], count: u64) -> Result<()> {
        self.written += count;
        self.put(bytes)
    }

    /// Writes a block of samples; floats as they are, integers as a share of full scale.
    ///
    /// # Errors
    /// As [`write_encoded`](Recorder::write_encoded).
    pub fn write(&mut self, block: &[Complex<f64>]) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        self.clipped += encode(&self.spec, block, &mut buffer);
        let done = self.write_encoded(&buffer, block.len() as u64);
        self.buffer = buffer;
        done
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.put(bytes)
    }

    /// Ends the recording and gives its files their names.
    ///
    /// # Errors
    /// The disk is full or a name cannot be taken.
    pub fn finish(mut self) -> Result<()> {
        assert_eq!(self.written, self.spec.n, "the header promised another number of samples");
        let bytes = self.written * self.spec.kind.size();
        match self.spec.container {
            // Chunks have even lengths.
            Container::Wav if bytes % 2 == 1 => self.put(&[0])?,
            Container::SigmfArchive => {
                let padding = bytes.next_multiple_of(512) - bytes + 1024;
                self.put(&vec![0; padding as usize])?;
            }
            _ => {}
        }
        self.sink.commit()?;
        self.meta.map_or(Ok(()), Atomic::commit)
    }
}

/// The nearest whole number for |v| below 2^51, without the library call that `f64::round` is on
/// machines that are not told of SSE4: the sum with 1.5·2^52 has no bits left for a fraction.
#[inline]
fn round(v: f64) -> f64 {
    const MAGIC: f64 = 6755399441055744.0;
    (v + MAGIC) - MAGIC
}

/// Appends the bytes of a block; returns how many samples were clipped.
pub fn encode(spec: &Spec, block: &[Complex<f64>], out: &mut Vec<u8>) -> u64 {
    let kind = spec.kind;
    let scale = kind.number.full_scale();
    // WAV's 8 bits are centred on 128, raw ones on the middle of their range.
    let bias = if spec.container == Container::Wav && kind.number == Number::U8 {
        128.0
    } else if spec.container == Container::Npy {
        0.0
    } else {
        kind.bias()
    };
    out.reserve(block.len() * kind.size() as usize);
    let mut clipped = 0;
    macro_rules! put {
        ($t:ty, $value:expr) => {{
            let v: $t = $value;
            if kind.big_endian {
                out.extend_from_slice(&v.to_be_bytes())
            } else {
                out.extend_from_slice(&v.to_le_bytes())
            }
        }};
    }
    macro_rules! integer {
        ($t:ty, $low:expr, $high:expr, $x:expr) => {{
            let v = round($x * scale + bias);
            clipped += u64::from(v < $low as f64 || v > $high as f64);
            v.clamp($low as f64, $high as f64) as $t
        }};
        ($t:ty, $x:expr) => {
            integer!($t, <$t>::MIN, <$t>::MAX, $x)
        };
    }
    let mut one = |x: f64| match kind.number {
        Number::I8 => put!(i8, integer!(i8, x)),
        Number::U8 => put!(u8, integer!(u8, x)),
        Number::I16 => put!(i16, integer!(i16, x)),
        Number::U16 => put!(u16, integer!(u16, x)),
        Number::I24 => {
            let v = integer!(i32, -(1 << 23), (1 << 23) - 1, x);
            out.extend_from_slice(&v.to_le_bytes()[..3]);
        }
        Number::I32 => put!(i32, integer!(i32, x)),
        Number::U32 => put!(u32, integer!(u32, x)),
        Number::I64 => put!(i64, integer!(i64, x)),
        Number::U64 => put!(u64, integer!(u64, x)),
        Number::F16 | Number::F32 => put!(f32, x as f32),
        Number::F64 => put!(f64, x),
    };
    for v in block {
        one(v.re);
        if kind.complex {
            one(v.im);
        }
    }
    clipped
}

/// The header of a .npy file of this dtype and shape, padded to a multiple of 64 bytes.
pub fn npy(descr: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut out = crate::input::npy::MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out
}

fn npy_header(spec: &Spec) -> Vec<u8> {
    let kind = spec.kind;
    let size = kind.number.size();
    let order = match (size, kind.big_endian) {
        (1, _) => '|',
        (_, true) => '>',
        (_, false) => '<',
    };
    let letter = match kind.number {
        Number::F16 | Number::F32 | Number::F64 => 'f',
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => 'u',
        _ => 'i',
    };
    if kind.complex && kind.number.is_float() {
        npy(&format!("{order}c{}", 2 * size), &format!("({},)", spec.n))
    } else if kind.complex {
        npy(&format!("{order}{letter}{size}"), &format!("({}, 2)", spec.n))
    } else {
        npy(&format!("{order}{letter}{size}"), &format!("({},)", spec.n))
    }
}

fn wav_header(spec: &Spec, bytes: u64) -> Result<Vec<u8>> {
    let kind = spec.kind;
    let tag: u16 = match kind.number {
        Number::U8 | Number::I16 | Number::I24 | Number::I32 => 1,
        Number::F32 | Number::F64 => 3,
        other => bail!(
            "WAV cannot hold {}; choose --type u8, s16, s24, s32, f32 or f64 (with c for complex)",
            other.name()
        ),
    };
    ensure!(!kind.big_endian, "WAV is little endian; leave out _be in --type");
    let channels: u16 = if kind.complex { 2 } else { 1 };
    let rate = spec.rate.unwrap_or(48_000.0);
    ensure!(
        rate.fract() == 0.0 && rate <= f64::from(u32::MAX),
        "WAV keeps the rate as a whole number of Hz below 4.3 GHz, not {rate}"
    );
    let rate = rate as u32;
    let block = channels * kind.number.size() as u16;
    let padded = bytes + bytes % 2;
    let long = padded + 100 > u64::from(u32::MAX);
    let mut out = Vec::new();
    let riff = 4 + if long { 36 } else { 0 } + 24 + 8 + padded;
    out.extend(if long { b"RF64" } else { b"RIFF" });
    out.extend(if long { u32::MAX } else { riff as u32 }.to_le_bytes());
    out.extend(b"WAVE");
    if long {
        out.extend(b"ds64");
        out.extend(28u32.to_le_bytes());
        out.extend(riff.to_le_bytes());
        out.extend(bytes.to_le_bytes());
        out.extend(spec.n.to_le_bytes());
        out.extend(0u32.to_le_bytes());
    }
    out.extend(b"fmt ");
    out.extend(16u32.to_le_bytes());
    out.extend(tag.to_le_bytes());
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend(rate.wrapping_mul(u32::from(block)).to_le_bytes());
    out.extend(block.to_le_bytes());
    out.extend((8 * kind.number.size() as u16).to_le_bytes());
    out.extend(b"data");
    out.extend(if long { u32::MAX } else { bytes as u32 }.to_le_bytes());
    Ok(out)
}

/// The metadata of a SigMF recording without annotations.
fn sigmf_meta(spec: &Spec) -> String {
    let mut global = serde_json::json!({
        "core:datatype": spec.kind.sigmf_name(),
        "core:version": "1.0.0",
        "core:recorder": concat!("sparsefft ", env!("CARGO_PKG_VERSION")),
    });
    let mut capture = serde_json::json!({ "core:sample_start": 0 });
    if let Some(rate) = spec.rate {
        global["core:sample_rate"] = rate.into();
    }
    if let Some(center) = spec.center {
        capture["core:frequency"] = center.into();
    }
    let meta = serde_json::json!({ "global": global, "captures": [capture], "annotations": [] });
    format!("{meta:#}\n")
}

/// The archive up to the first sample: the metadata's member and the dataset's header.
fn tar_header(path: &Path, spec: &Spec, bytes: u64) -> Vec<u8> {
    let stem = path.file_stem().map_or("recording".into(), |s| s.to_string_lossy().into_owned());
    // Member names have at most 100 bytes; the extension must survive.
    let stem: String = stem.chars().filter(char::is_ascii).take(40).collect();
    let stem = if stem.is_empty() || stem == "-" { "recording" } else { &stem };
    let meta = sigmf_meta(spec);
    let mut out = tar_member(&format!("{stem}/{stem}.sigmf-meta"), meta.len() as u64);
    out.extend(meta.as_bytes());
    out.resize(out.len().next_multiple_of(512), 0);
    out.extend(tar_member(&format!("{stem}/{stem}.sigmf-data"), bytes));
    out
}

fn tar_member(name: &str, size: u64) -> Vec<u8> {
    let mut h = vec![0u8; 512];
    h[..name.len()].copy_from_slice(name.as_bytes());
    h[100..107].copy_from_slice(b"0000644");
    h[108..115].copy_from_slice(b"0000000");
    h[116..123].copy_from_slice(b"0000000");
    if size < 1 << 33 {
        h[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    } else {
        // Eleven octal digits end at 8 GiB; GNU's binary form goes on.
        h[124] = 0x80;
        h[128..136].copy_from_slice(&size.to_be_bytes());
    }
    h[136..147].copy_from_slice(b"00000000000");
    h[156] = b'0';
    h[257..263].copy_from_slice(b"ustar\0");
    h[263..265].copy_from_slice(b"00");
    h[148..156].fill(b' ');
    let sum: u32 = h.iter().map(|&b| u32::from(b)).sum();
    h[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    h[154] = 0;
    h
}
