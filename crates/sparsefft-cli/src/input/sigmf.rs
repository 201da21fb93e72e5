//! SigMF: a JSON file of metadata beside a file of raw samples, or both in a tar archive.
//!
//! The datatype, the sample rate, the number of channels and the centre frequency come from the
//! metadata; a dataset that SigMF did not write itself may have header and trailing bytes.

use super::raw;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the metadata say.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// Sample type.
    pub kind: raw::Type,
    /// Number of interleaved channels.
    pub channels: u64,
    /// Sample rate in Hz.
    pub rate: Option<f64>,
    /// Centre frequency of the first capture in Hz.
    pub center: Option<f64>,
    /// Bytes before the first sample.
    pub header_bytes: u64,
    /// Bytes after the last sample.
    pub trailing_bytes: u64,
    /// Name of the dataset, if it is not the usual one.
    pub dataset: Option<String>,
    /// The whole object.
    pub json: Value,
}

/// Reads the metadata.
///
/// # Errors
/// One sentence that says what is wrong and what to do.
pub fn parse(text: &[u8]) -> Result<Meta> {
    let json: Value = serde_json::from_slice(text)
        .context("the SigMF metadata are not valid JSON; check the file with a JSON tool")?;
    let global = json
        .get("global")
        .and_then(Value::as_object)
        .context("the SigMF metadata have no 'global' object; write them again")?;
    let datatype = global
        .get("core:datatype")
        .and_then(Value::as_str)
        .context("the SigMF metadata have no 'core:datatype'; add one such as cf32_le")?;
    let kind = raw::Type::parse(datatype).with_context(|| {
        format!(
            "the SigMF datatype '{}' is not supported; convert it to cf32_le or ci16_le",
            datatype.escape_debug()
        )
    })?;
    let whole = |object: &serde_json::Map<String, Value>, key: &str| -> Result<Option<u64>> {
        match object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(v) => Ok(Some(v.as_u64().with_context(|| {
                format!("'{key}' in the SigMF metadata must be a whole number, not {v}")
            })?)),
        }
    };
    let channels = whole(global, "core:num_channels")?.unwrap_or(1);
    ensure!(
        (1..=1 << 16).contains(&channels),
        "'core:num_channels' in the SigMF metadata must be between 1 and 65536, not {channels}"
    );
    let rate = global.get("core:sample_rate").and_then(Value::as_f64).filter(|r| *r > 0.0);
    let empty = serde_json::Map::new();
    let capture =
        json.get("captures").and_then(|c| c.get(0)).and_then(Value::as_object).unwrap_or(&empty);
    let meta = Meta {
        kind,
        channels,
        rate,
        center: capture.get("core:frequency").and_then(Value::as_f64),
        header_bytes: whole(capture, "core:header_bytes")?.unwrap_or(0),
        trailing_bytes: whole(global, "core:trailing_bytes")?.unwrap_or(0),
        dataset: global.get("core:dataset").and_then(Value::as_str).map(str::to_owned),
        json: json.clone(),
    };
    Ok(meta)
}

/// The metadata and dataset that belong to any of `x.sigmf-meta`, `x.sigmf-data` or `x`.
pub fn pair(path: &Path) -> (PathBuf, PathBuf) {
    (path.with_extension("sigmf-meta"), path.with_extension("sigmf-data"))
}

/// The dataset that metadata in this file speak of.
///
/// # Errors
/// A dataset name that leads out of the directory.
pub fn dataset(meta_path: &Path, meta: &Meta) -> Result<PathBuf> {
    match &meta.dataset {
        None => Ok(pair(meta_path).1),
        Some(name) => {
            ensure!(
                Path::new(name).file_name().is_some_and(|f| f == name.as_str()),
                "'core:dataset' must be a plain file name beside the metadata, not '{}'",
                name.escape_debug()
            );
            Ok(meta_path.with_file_name(name))
        }
    }
}

/// The parts of an archive: the metadata's text, and where the samples start and how many bytes
/// they are.
#[derive(Debug, PartialEq)]
pub struct Archive<'a> {
    /// The JSON text.
    pub meta: &'a [u8],
    /// Byte at which the dataset starts.
    pub offset: u64,
    /// Length of the dataset in bytes.
    pub size: u64,
}

/// Finds the first recording in a `.sigmf` archive (POSIX tar, not compressed).
///
/// # Errors
/// One sentence that says what is wrong and what to do.
pub fn archive(file: &[u8]) -> Result<Archive<'_>> {
    let (mut meta, mut data) = (None, None);
    // A pax header may carry the size of the next member.
    let mut long_size = None;
    let mut at = 0usize;
    while let Some(header) = file.get(at..at.saturating_add(512)) {
        if header.iter().all(|&b| b == 0) {
            break;
        }
        ensure!(
            &header[257..262] == b"ustar",
            "it is not an uncompressed tar archive; unpack it and give the .sigmf-meta file"
        );
        let size = octal(&header[124..136])
            .context("a size in the archive is damaged; write the archive again")?;
        let size = if header[156] == b'x' { size } else { long_size.take().unwrap_or(size) };
        let start = at + 512;
        let end = usize::try_from(size)
            .ok()
            .and_then(|s| start.checked_add(s))
            .filter(|&end| end <= file.len())
            .context("the archive is cut off inside a member; copy it again")?;
        let body = &file[start..end];
        let name = String::from_utf8_lossy(&header[..100]);
        let name = name.trim_end_matches('\0');
        match header[156] {
            b'x' => long_size = pax_size(body),
            0 | b'0' if name.ends_with(".sigmf-meta") => meta = meta.or(Some(body)),
            0 | b'0' if name.ends_with(".sigmf-data") => data = data.or(Some((start, size))),
            _ => {}
        }
        at = end.next_multiple_of(512);
    }
    let meta = meta.context("the archive holds no .sigmf-meta member; write it again")?;
    let (start, size) = data.context("the archive holds no .sigmf-data member; write it again")?;
    Ok(Archive { meta, offset: start as u64, size })
}

/// A number in a tar header: octal text, or big-endian binary if the first bit is set.
fn octal(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at(field.len() - 8);
        if high.iter().skip(1).any(|&b| b != 0) {
            return None;
        }
        return Some(u64::from_be_bytes(low.try_into().ok()?));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

/// The entry `size=…` of a pax header: lines of "length key=value\n".
fn pax_size(body: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(body);
    let mut sizes = text.lines().filter_map(|l| l.split_once(' ')?.1.strip_prefix("size="));
    sizes.next()?.parse().ok()
}

/// Picks the channel of interleaved data.
///
/// # Errors
/// A channel that does not exist, or a choice that has to be made.
pub fn channel(channels: u64, wanted: Option<u64>) -> Result<u64> {
    match wanted {
        Some(c) if c < channels => Ok(c),
        Some(c) => bail!("--channel {c} does not exist; channels are 0 to {}", channels - 1),
        None if channels == 1 => Ok(0),
        None => {
            bail!("the file has {channels} channels; pick one with --channel 0 to {}", channels - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_tell_type_rate_and_centre() {
        let meta = parse(
            br#"{"global":{"core:datatype":"ci16_be","core:sample_rate":2.4e6,"core:num_channels":2},
                "captures":[{"core:sample_start":0,"core:frequency":1e8}],"annotations":[]}"#,
        )
        .unwrap();
        assert_eq!(meta.kind, raw::Type::parse("cs16_be").unwrap());
        assert_eq!((meta.rate, meta.center, meta.channels), (Some(2.4e6), Some(1e8), 2));
    }

    #[test]
    fn damaged_metadata_are_refused_in_words() {
        for (text, word) in [
            ("", "JSON"),
            ("{", "JSON"),
            ("[]", "global"),
            ("{\"global\":{}}", "core:datatype"),
            ("{\"global\":{\"core:datatype\":\"cf24\"}}", "cf24"),
            ("{\"global\":{\"core:datatype\":\"cf32\",\"core:num_channels\":0}}", "channels"),
            ("{\"global\":{\"core:datatype\":\"cf32\",\"core:num_channels\":-1}}", "whole"),
        ] {
            let error = format!("{:#}", parse(text.as_bytes()).unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_dataset_stays_in_its_directory() {
        let text = |name: &str| {
            format!("{{\"global\":{{\"core:datatype\":\"cf32\",\"core:dataset\":\"{name}\"}}}}")
        };
        let meta = parse(text("a.bin").as_bytes()).unwrap();
        assert_eq!(dataset(Path::new("/d/x.sigmf-meta"), &meta).unwrap(), Path::new("/d/a.bin"));
        for bad in ["../a.bin", "/etc/passwd", ".."] {
            let meta = parse(text(bad).as_bytes()).unwrap();
            assert!(dataset(Path::new("/d/x.sigmf-meta"), &meta).is_err(), "{bad}");
        }
    }

    #[test]
    fn archives_that_are_none() {
        assert!(archive(&[0; 1024]).unwrap_err().to_string().contains("sigmf-meta"));
        assert!(archive(&[1; 1024]).unwrap_err().to_string().contains("tar"));
        assert!(archive(b"").is_err());
        assert_eq!(octal(b"00000000017\0"), Some(15));
        assert_eq!(octal(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]), Some(2 << 32));
        assert_eq!(octal(b"zzzzzzzzzzz\0"), None);
    }
}
