//! Compressed recordings: `tests/data/make.sh` says how they were made.

mod common;

use common::{json, refused, run, sparsefft, stderr, stdout};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The strongest line: frequency in Hz, level in dB of full scale.
fn line(answer: &serde_json::Value) -> (f64, f64) {
    let line = &answer["lines"][0];
    (line["hertz"].as_f64().unwrap(), line["level"].as_f64().unwrap())
}

/// Formats without loss give the integers that went in, so that every answer is the same.
#[test]
fn formats_without_loss_give_the_integers() {
    for (name, scale) in [
        ("tone.flac", 32_768.0),
        ("tone.caf", 32_768.0),
        ("tone.aiff", 8_388_608.0),
        ("tone-alac.m4a", 2_147_483_648.0),
    ] {
        let answer = json(&run([Path::new("peaks"), &data(name), Path::new("--json")]));
        assert_eq!((answer["n"].as_u64(), answer["rate"].as_f64()), (Some(4000), Some(8000.0)));
        let (hertz, level) = line(&answer);
        assert!((hertz - 1000.0).abs() < 1e-3, "{name}: {hertz} Hz");
        assert!((level / scale - 0.5).abs() < 1e-4, "{name}: {level}");
    }
}

#[test]
fn formats_with_loss_give_the_tone() {
    for (name, off) in [("tone.ogg", 0.05), ("tone.mp3", 0.05), ("tone-aac.m4a", 0.5)] {
        let answer = json(&run([Path::new("peaks"), &data(name), Path::new("--json")]));
        assert_eq!(answer["rate"].as_f64(), Some(8000.0), "{name}");
        assert!(answer["n"].as_u64().unwrap() >= 4000, "{name}");
        let (hertz, level) = line(&answer);
        assert!((hertz - 1000.0).abs() < off, "{name}: {hertz} Hz");
        assert!((0.25..0.6).contains(&level), "{name}: {level}");
    }
}

/// As for WAV: one of two channels is chosen, or both are a pair.
#[test]
fn channels_are_chosen() {
    let stereo = data("stereo.flac");
    let path = stereo.to_str().unwrap();
    refused(&run(["peaks", path]), &["2 channels", "--channel 0", "--iq"]);
    refused(&run(["peaks", path, "--channel", "2"]), &["--channel 2", "0 to 1"]);
    for (channel, expected) in [("0", 1000.0), ("1", 2000.0)] {
        let answer = json(&run(["peaks", path, "--channel", channel, "--json"]));
        assert!((line(&answer).0 - expected).abs() < 1e-3, "{channel}");
    }
    let answer = json(&run(["peaks", path, "--iq", "--json", "--skip", "100", "--count", "1000"]));
    assert_eq!(answer["n"].as_u64(), Some(1000));
    assert!(stdout(&run(["peaks", path, "--iq"])).contains("4 000 complex i16 samples"));
}

#[test]
fn the_content_counts_more_than_the_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tone.dat", "tone.mp3", "noname"] {
        let path = dir.path().join(name);
        std::fs::copy(data("tone.flac"), &path).unwrap();
        let answer = json(&run([Path::new("peaks"), &path, Path::new("--json")]));
        assert_eq!(answer["n"].as_u64(), Some(4000), "{name}");
    }
    let file = std::fs::File::open(data("tone.ogg")).unwrap();
    let piped = sparsefft().args(["peaks", "-", "--json"]).stdin(file).output().unwrap();
    assert!((line(&json(&piped)).0 - 1000.0).abs() < 0.05);
}

/// What is there is read, and a note says that it is not all.
#[test]
fn files_that_were_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    for (name, least) in [("stereo.flac", 1000), ("tone.mp3", 1000)] {
        let whole = std::fs::read(data(name)).unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, &whole[..whole.len() / 4 * 3]).unwrap();
        let path = path.to_str().unwrap();
        let mut args = vec!["peaks", path, "--json"];
        args.extend((name == "stereo.flac").then_some("--channel=0"));
        let done = run(&args);
        let n = json(&done)["n"].as_u64().unwrap();
        assert!((least..4000).contains(&n), "{name}: {n}");
        if name != "tone.mp3" {
            // The header of MP3 holds no length.
            assert!(stderr(&done).contains("samples"), "{name}: {}", stderr(&done));
        }
    }
}

#[test]
fn files_that_hold_no_sound() {
    let dir = tempfile::tempdir().unwrap();
    let flac = std::fs::read(data("tone.flac")).unwrap();
    let mut noise = common::noise(7);
    let random: Vec<u8> = (0..5000).map(|_| (noise() * 128.0) as i8 as u8).collect();
    for (name, bytes, words) in [
        ("empty.flac", &[][..], &["empty"][..]),
        ("header.flac", &flac[..30], &["copy it again"]),
        ("only-header.flac", &flac[..90], &["copy it again"]),
        ("random.mp3", &random, &["--format"]),
        ("random.m4a", &random, &["--format"]),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        refused(&run([Path::new("peaks"), &path]), words);
    }
}

/// Bytes changed at random give an answer or a sentence.
#[test]
fn damaged_files_end_in_an_answer_or_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let mut noise = common::noise(11);
    let mut below = |bound: usize| ((noise() * 0.5 + 0.5) * bound as f64) as usize % bound;
    for name in [
        "tone.flac",
        "tone.aiff",
        "tone.ogg",
        "tone.mp3",
        "tone-alac.m4a",
        "tone-aac.m4a",
        "tone.caf",
    ] {
        let whole = std::fs::read(data(name)).unwrap();
        for _ in 0..12 {
            let mut bytes = whole.clone();
            for _ in 0..1 + below(8) {
                // Headers more often than samples.
                let end = if below(2) == 0 { 200 } else { bytes.len() };
                bytes[below(end)] = below(256) as u8;
            }
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            let done = run([Path::new("peaks"), &path, Path::new("--json")]);
            let said = stderr(&done);
            assert!(!said.contains("panicked"), "{name}: {said}");
            match done.status.code() {
                Some(2) => {
                    assert!(said.starts_with("sparsefft:") || said.contains("note"), "{said}")
                }
                code => assert!(matches!(code, Some(0 | 1 | 3)), "{name}: {code:?} {said}"),
            }
        }
    }
}
