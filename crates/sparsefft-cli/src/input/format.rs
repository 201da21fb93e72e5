//! Which format a file has: by the name that was given, its extension, or its first bytes.

use super::{npy, raw, wav};
use anyhow::{Context, Result};
use std::path::Path;

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Format {
    Npy,
    Wav,
    Sigmf,
    SigmfArchive,
    /// What is decoded before it is read.
    Audio,
    Raw(raw::Type),
}

/// The format of this name.
pub(super) fn named(name: &str) -> Result<Format> {
    match name {
        "npy" => Ok(Format::Npy),
        "wav" => Ok(Format::Wav),
        "sigmf" => Ok(Format::Sigmf),
        "sigmf-archive" => Ok(Format::SigmfArchive),
        "flac" | "aiff" | "ogg" | "mp3" | "aac" | "m4a" | "caf" | "audio" => Ok(Format::Audio),
        _ => raw::Type::parse(name).map(Format::Raw).with_context(|| {
            format!(
                "the format '{name}' is not known; one of npy, wav, sigmf, audio, {}",
                raw::NAMES
            )
        }),
    }
}

/// The format that a file name tells.
pub(super) fn by_extension(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "npy" => Some(Format::Npy),
        "wav" | "wave" | "rf64" | "bw64" => Some(Format::Wav),
        "sigmf-meta" | "sigmf-data" => Some(Format::Sigmf),
        "sigmf" => Some(Format::SigmfArchive),
        "flac" | "aiff" | "aif" | "aifc" | "ogg" | "oga" | "mp3" | "aac" | "m4a" | "m4b"
        | "caf" => Some(Format::Audio),
        other => raw::Type::parse(other).map(Format::Raw),
    }
}

/// The format that the first bytes tell.
pub(super) fn sniff(file: &[u8]) -> Option<Format> {
    if file.starts_with(npy::MAGIC) {
        Some(Format::Npy)
    } else if wav::is_wav(file) {
        Some(Format::Wav)
    } else if file.get(257..262) == Some(b"ustar") {
        Some(Format::SigmfArchive)
    } else if is_audio(file) {
        Some(Format::Audio)
    } else {
        None
    }
}

/// Whether a file starts like one of the formats of music. MP3 and AAC without a tag begin with
/// twelve bits set, which is too little evidence: their names tell them.
fn is_audio(file: &[u8]) -> bool {
    let form = file.starts_with(b"FORM") && matches!(file.get(8..12), Some(b"AIFF" | b"AIFC"));
    let m4a = file.get(4..8) == Some(b"ftyp") && file.get(8..11) == Some(b"M4A");
    let ogg = file.starts_with(b"OggS") && !super::foreign::is_opus(file);
    form || m4a || ogg || [&b"fLaC"[..], b"ID3", b"caff"].iter().any(|m| file.starts_with(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_bytes_tell_the_format() {
        let raw = |name: &str| raw::Type::parse(name).map(Format::Raw);
        for (name, format) in [
            ("npy", Some(Format::Npy)),
            ("wav", Some(Format::Wav)),
            ("sigmf", Some(Format::Sigmf)),
            ("sigmf-archive", Some(Format::SigmfArchive)),
            ("flac", Some(Format::Audio)),
            ("audio", Some(Format::Audio)),
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
            ("x.FLAC", Some(Format::Audio)),
            ("x.aif", Some(Format::Audio)),
            ("x.cu8", raw("cu8")),
            ("x.dat", None),
            ("npy", None),
        ] {
            assert_eq!(by_extension(Path::new(path)), format, "{path}");
        }
        let mut tar = vec![0; 512];
        assert_eq!(sniff(&tar), None);
        tar[257..262].copy_from_slice(b"ustar");
        for (bytes, format) in [
            (&tar[..], Some(Format::SigmfArchive)),
            (b"\x93NUMPY\x01\0", Some(Format::Npy)),
            (b"RIFF\0\0\0\0WAVE", Some(Format::Wav)),
            (b"fLaC\0", Some(Format::Audio)),
            (b"FORM\0\0\0\x10AIFC", Some(Format::Audio)),
            (b"FORM\0\0\0\x10ILBM", None),
            (b"\0\0\0\x1cftypM4A ", Some(Format::Audio)),
            (b"OggS\0\x02", Some(Format::Audio)),
            (b"", None),
        ] {
            assert_eq!(sniff(bytes), format, "{bytes:?}");
        }
    }
}
