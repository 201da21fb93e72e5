//! What must hold for every file that a reader is given, however damaged: it is refused in words,
//! or it is accepted and all samples lie inside it. The fuzz targets use this file, too.

use num_complex::Complex;
use sparsefft_cli::input::{self, Layout, Options};

/// Ways to read a file: as it is, one of its rows or channels, as pairs, and a part of it.
fn ways() -> Vec<Options> {
    let plain = Options::default;
    vec![
        plain(),
        Options { row: Some(3), ..plain() },
        Options { channel: Some(1), ..plain() },
        Options { iq: true, ..plain() },
        Options { skip: 2, count: Some(1), ..plain() },
        Options { skip: u64::MAX, count: Some(u64::MAX), channel: Some(u64::MAX), ..plain() },
    ]
}

/// A layout that was accepted lies inside the file, and its ends can be read.
fn inside(layout: &Layout, file: &[u8]) {
    let end = layout.end().expect("an accepted layout can be counted");
    assert!(end <= file.len() as u64, "{layout:?} reaches outside {} bytes", file.len());
    assert!(layout.n > 0);
    let mut out = [Complex::ZERO; 2];
    layout.read(file, &[0, layout.n - 1], &mut out);
    layout.read_range(file, layout.n - 1, &mut out[..1]);
}

/// Tries a file of this format, as `--format` names it.
pub fn try_file(format: &str, file: &[u8]) {
    for way in ways() {
        match input::probe(format, file, &way) {
            Ok(layout) => inside(&layout, file),
            Err(refusal) => in_words(&refusal),
        }
    }
}

/// Tries SigMF metadata beside a dataset of 4 KiB.
pub fn try_metadata(text: &[u8]) {
    let dataset = [0x5a; 4096];
    for way in ways() {
        match input::probe_sigmf(text, dataset.len() as u64, &way) {
            Ok(layout) => inside(&layout, &dataset),
            Err(refusal) => in_words(&refusal),
        }
    }
}

fn in_words(refusal: &anyhow::Error) {
    let words = format!("{refusal:#}");
    assert!(words.len() > 20 && !words.contains('\n'), "not one sentence: {words:?}");
}
