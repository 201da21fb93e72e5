//! Tests of the readers' common part.

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
