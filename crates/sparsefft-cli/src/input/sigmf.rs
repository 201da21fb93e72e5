//! SigMF: a JSON file of metadata beside a file of raw samples, or both in a tar archive.
//!
//! The datatype, the sample rate, the number of channels and the centre frequency come from the
//! metadata; a dataset that SigMF did not write itself may have header and trailing bytes.

use super::raw;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What the metadata say.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// Sample type.
    pub kind: raw::Type,
    /// Number of interleaved channels.
    pub channels: u64,
    /// The pieces of the recording; at least one, and the first begins at sample 0.
    pub captures: Vec<Capture>,
    /// Bytes after the last sample.
    pub trailing_bytes: u64,
    /// Name of the dataset, if it is not the usual one.
    pub dataset: Option<String>,
    /// The whole object.
    pub json: Value,
}

/// A piece of the recording, up to the next one.
#[derive(Debug, Clone, PartialEq)]
pub struct Capture {
    /// Its first sample.
    pub start: u64,
    /// Centre frequency in Hz, or what is wrong with it.
    pub center: Result<Option<f64>, String>,
    /// Bytes before its first sample that are no samples.
    pub header_bytes: u64,
    /// Index of its first sample in the stream that was recorded.
    pub global_index: Option<u64>,
}

/// Samples that follow each other without a break.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Centre frequency in Hz, or what is wrong with it.
    pub center: Result<Option<f64>, String>,
    /// Bytes up to its first sample that are no samples.
    pub header_bytes: u64,
}

impl Meta {
    /// Sample rate in Hz.
    ///
    /// # Errors
    /// One that is no positive number.
    pub fn rate(&self) -> Result<Option<f64>> {
        match &self.json["global"]["core:sample_rate"] {
            Value::Null => Ok(None),
            value => match value.as_f64().filter(|rate| *rate > 0.0) {
                Some(rate) => Ok(Some(rate)),
                None => bail!(
                    "'core:sample_rate' in the SigMF metadata must be a number greater than 0, not \
                     {}; give the true one with --rate",
                    short(value)
                ),
            },
        }
    }

    /// The part of `n` samples that holds the wanted ones. `tuned`: centre frequencies do not
    /// matter.
    ///
    /// # Errors
    /// The wanted samples are not of one part, so that they have no common spectrum.
    pub fn part(&self, wanted: Range<u64>, n: u64, tuned: bool) -> Result<Part> {
        let mut part = Part { center: self.captures[0].center.clone(), header_bytes: 0 };
        for (i, capture) in self.captures.iter().enumerate() {
            ensure!(
                capture.start < n || i == 0,
                "the SigMF metadata have a capture at sample {}, but there are {n} samples; the \
                 dataset is truncated or the metadata are wrong",
                capture.start
            );
            let begins = capture.start <= wanted.start;
            if begins || capture.start >= wanted.end {
                if begins {
                    part.header_bytes += capture.header_bytes;
                    part.center = capture.center.clone();
                }
                continue;
            }
            let before = &self.captures[i - 1];
            let gap = before
                .global_index
                .zip(capture.global_index)
                .is_some_and(|(a, b)| b.checked_sub(a) != Some(capture.start - before.start));
            let (why, else_) = if capture.header_bytes > 0 {
                (format!("begins with {} bytes that are no samples", capture.header_bytes), "")
            } else if gap {
                ("continues at another time".to_owned(), "")
            } else if capture.center != before.center && !tuned {
                ("has another centre frequency".to_owned(), ", or take them as one with --center")
            } else {
                continue;
            };
            let at = capture.start;
            bail!(
                "the SigMF capture at sample {at} {why}; read what is before it with --count {}, \
                 or from it on with --skip {at}{else_}",
                at - wanted.start
            );
        }
        Ok(part)
    }
}

/// Reads the metadata.
///
/// # Errors
/// One sentence that says what is wrong and what to do.
pub fn parse(text: &[u8]) -> Result<Meta> {
    // Some editors begin a file with a mark of its encoding.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
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
            short(datatype)
        )
    })?;
    let whole = |object: &serde_json::Map<String, Value>, key: &str| -> Result<Option<u64>> {
        match object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(v) => Ok(Some(v.as_u64().with_context(|| {
                format!("'{key}' in the SigMF metadata must be a whole number, not {}", short(v))
            })?)),
        }
    };
    let channels = whole(global, "core:num_channels")?.unwrap_or(1);
    ensure!(
        (1..=1 << 16).contains(&channels),
        "'core:num_channels' in the SigMF metadata must be between 1 and 65536, not {channels}"
    );
    let dataset = match global.get("core:dataset") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(other) => {
            bail!(
                "'core:dataset' in the SigMF metadata must be the name of a file, not {}",
                short(other)
            )
        }
    };
    let listed = match json.get("captures") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(list)) => list,
        Some(_) => bail!("'captures' in the SigMF metadata must be a list; write them again"),
    };
    let mut captures: Vec<Capture> = Vec::with_capacity(listed.len().max(1));
    for capture in listed {
        let capture = capture
            .as_object()
            .context("a capture in the SigMF metadata is no object; write them again")?;
        let center = match capture.get("core:frequency") {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| {
                format!(
                    "'core:frequency' in the SigMF metadata must be a number, not {}; give \
                     the true one with --center",
                    short(value)
                )
            }),
        };
        let start = whole(capture, "core:sample_start")?.unwrap_or(0);
        ensure!(
            captures.last().is_none_or(|last| last.start <= start),
            "the captures in the SigMF metadata must be sorted by 'core:sample_start'; sample \
             {start} comes too late"
        );
        captures.push(Capture {
            start,
            center,
            header_bytes: whole(capture, "core:header_bytes")?.unwrap_or(0),
            global_index: whole(capture, "core:global_index")?,
        });
    }
    // Samples before the first capture, if there are any, are taken for its own.
    let center = captures.first().map_or(Ok(None), |c| c.center.clone());
    if captures.first().is_none_or(|c| c.start > 0) {
        let first = Capture { start: 0, center, header_bytes: 0, global_index: None };
        captures.insert(0, first);
    }
    let meta = Meta {
        kind,
        channels,
        captures,
        trailing_bytes: whole(global, "core:trailing_bytes")?.unwrap_or(0),
        dataset,
        json: json.clone(),
    };
    Ok(meta)
}

/// A value for a sentence: its beginning, if it is long.
fn short(value: impl std::fmt::Display) -> String {
    /// Characters that are shown.
    const MOST: usize = 60;
    // Line ends and the like would break the sentence that quotes them.
    let readable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let text: String = value.to_string().chars().map(readable).collect();
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
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
                short(name)
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
        assert_eq!((meta.rate().unwrap(), meta.channels), (Some(2.4e6), 2));
        assert_eq!(meta.captures[0].center, Ok(Some(1e8)));
    }

    #[test]
    fn channels_are_counted_from_zero() {
        assert_eq!(channel(1, None).unwrap(), 0);
        assert_eq!(channel(3, Some(2)).unwrap(), 2);
        for (wanted, word) in [(Some(3), "channels are 0 to 2"), (None, "--channel 0 to 2")] {
            let error = channel(3, wanted).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
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
            ("{\"global\":{\"core:datatype\":\"cf32\",\"core:dataset\":7}}", "core:dataset"),
            ("{\"global\":{\"core:datatype\":\"cf32\"},\"captures\":{}}", "list"),
            ("{\"global\":{\"core:datatype\":\"cf32\"},\"captures\":[7]}", "object"),
            (
                "{\"global\":{\"core:datatype\":\"cf32\"},\"captures\":[{\"core:sample_start\":5},{}]}",
                "sorted",
            ),
        ] {
            let error = format!("{:#}", parse(text.as_bytes()).unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    fn with_captures(captures: &str) -> Meta {
        let global = r#"{"core:datatype":"cf32"}"#;
        parse(format!("{{\"global\":{global},\"captures\":[{captures}]}}").as_bytes()).unwrap()
    }

    #[test]
    fn rates_that_make_no_sense_are_refused() {
        for rate in ["0", "-1", "\"1e6\"", "true", "[7]"] {
            let text = format!(
                "{{\"global\":{{\"core:datatype\":\"cf32\",\"core:sample_rate\":{rate}}}}}"
            );
            let error = parse(text.as_bytes()).unwrap().rate().unwrap_err().to_string();
            assert!(error.contains(rate) && error.contains("--rate"), "{error}");
        }
        assert_eq!(with_captures("").rate().unwrap(), None);
    }

    #[test]
    fn captures_that_break_the_signal_part_it() {
        let part = |m: &Meta, wanted, tuned| m.part(wanted, 1000, tuned);
        // One after the other, at one frequency: one signal.
        let meta = with_captures(
            r#"{"core:sample_start":0,"core:frequency":5,"core:global_index":70},
               {"core:sample_start":600,"core:frequency":5,"core:global_index":670}"#,
        );
        assert_eq!(part(&meta, 0..1000, false).unwrap().center, Ok(Some(5.0)));
        // The same of three, the last two of which begin after sample 0.
        let meta = with_captures(
            r#"{"core:sample_start":0,"core:global_index":70},
               {"core:sample_start":200,"core:global_index":270},
               {"core:sample_start":600,"core:global_index":670}"#,
        );
        assert!(part(&meta, 0..1000, false).is_ok());
        let broken = [
            (r#""core:frequency":5,"core:header_bytes":16"#, "begins with 16 bytes"),
            (r#""core:frequency":5,"core:global_index":671"#, "another time"),
            (r#""core:frequency":6"#, "another centre frequency"),
            (r#""core:header_bytes":0"#, "another centre frequency"),
        ];
        for (second, word) in broken {
            let meta = with_captures(&format!(
                r#"{{"core:sample_start":0,"core:frequency":5,"core:global_index":70,
                     "core:header_bytes":8}},{{"core:sample_start":600,{second}}}"#
            ));
            for wanted in [0..1000, 599..601, 300..1000] {
                let start = wanted.start;
                let error = part(&meta, wanted, false).unwrap_err().to_string();
                assert!(error.contains(word) && error.contains("--skip 600"), "{error}");
                assert!(error.contains(&format!("--count {}", 600 - start)), "{error}");
            }
            let first = part(&meta, 100..600, false).unwrap();
            assert_eq!(first, Part { center: Ok(Some(5.0)), header_bytes: 8 });
            let second = part(&meta, 600..1000, false).unwrap();
            assert_eq!(second.header_bytes, 8 + meta.captures[1].header_bytes);
            assert_eq!(second.center, meta.captures[1].center);
            assert_eq!(part(&meta, 0..1000, true).is_ok(), word.ends_with("frequency"));
        }
        let beyond = with_captures(r#"{"core:sample_start":0},{"core:sample_start":1000}"#);
        assert!(part(&beyond, 0..9, false).unwrap_err().to_string().contains("truncated"));
        let late = with_captures(r#"{"core:sample_start":400,"core:frequency":5}"#);
        assert_eq!(part(&late, 0..1000, false).unwrap().center, Ok(Some(5.0)));
    }

    #[test]
    fn long_values_are_cut_and_marks_of_encoding_skipped() {
        let long = "ö".repeat(5000);
        for (key, value) in [
            ("datatype", format!("\"{long}\"")),
            ("num_channels", format!("\"{long}\"")),
            ("dataset", format!("[\"{long}\"]")),
        ] {
            let text = format!(r#"{{"global":{{"core:datatype":"cf32","core:{key}":{value}}}}}"#);
            let error = format!("{:#}", parse(text.as_bytes()).unwrap_err());
            assert!(error.contains("ööö…") && error.chars().count() < 250, "{error}");
        }
        let marked = b"\xef\xbb\xbf{\"global\":{\"core:datatype\":\"cf32\"}}";
        assert_eq!(parse(marked).unwrap().channels, 1);
    }

    #[test]
    fn a_dataset_stays_in_its_directory() {
        let both = (PathBuf::from("d/x.sigmf-meta"), PathBuf::from("d/x.sigmf-data"));
        for name in ["d/x", "d/x.sigmf-meta", "d/x.sigmf-data"] {
            assert_eq!(pair(Path::new(name)), both);
        }
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

    /// A member of a tar archive: of this kind and name, its size as octal text or as given.
    fn member(kind: u8, name: &str, size: Option<&str>, body: &[u8]) -> Vec<u8> {
        let mut header = vec![0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        let octal = format!("{:011o}", body.len());
        header[124..135].copy_from_slice(size.unwrap_or(&octal).as_bytes());
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        header.extend(body);
        header.resize(header.len().next_multiple_of(512), 0);
        header
    }

    #[test]
    fn members_of_an_archive_are_found_wherever_they_stand() {
        let (meta, data) = (vec![b'm'; 600], vec![b'd'; 512]);
        let of_meta = || member(b'0', "x/x.sigmf-meta", None, &meta);
        let of_data = |kind| member(kind, "x/x.sigmf-data", None, &data);
        let end = vec![0; 1024];
        let found = |parts: &[Vec<u8>], offset| {
            let file = parts.concat();
            let archive = archive(&file).unwrap();
            assert_eq!((archive.meta, archive.offset, archive.size), (&meta[..], offset, 512));
        };
        found(&[of_meta(), of_data(b'0'), end.clone()], 2048);
        found(&[of_data(0), of_meta()], 512);
        // Of several the first; a directory and other files are passed over, and so is what follows the end.
        let other = member(b'0', "x/notes", None, b"sigmf-data");
        let folder = member(b'5', "x.sigmf-data", None, b"");
        let second = member(b'0', "y.sigmf-data", None, b"second");
        let again = member(0, "y.sigmf-meta", None, b"second");
        found(&[folder, other, of_meta(), of_data(b'0'), second, again], 512 + 1024 + 1536 + 512);
        // The size of a pax header counts for the next member, and for no other.
        let pax = member(b'x', "pax", None, b"20 path=x.sigmf-data\n12 size=512\n");
        let unsized_data = member(b'0', "x.sigmf-data", Some("00000000000"), &data);
        found(&[pax, unsized_data, of_meta()], 1536);
        assert_eq!(pax_size(b"30 mtime=1\n9 size=17\n"), Some(17));
        for none in [&b"size=17\n"[..], b"9 sizes=17\n", b"9 size=1x\n", b""] {
            assert_eq!(pax_size(none), None);
        }
        let cut = of_data(b'0');
        for file in [&of_meta()[..], &cut, &[of_meta(), cut[..1023].to_vec()].concat()] {
            assert!(archive(file).is_err());
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
        assert_eq!(octal(&[0x80, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]), None);
        assert_eq!(octal(b"0000000017 \0"), Some(15));
    }
}
