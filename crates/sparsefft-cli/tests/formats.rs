//! Every format, written by `gen` and read by `peaks`; the list is the one of docs/cli.md.

mod common;

use common::*;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// Generates two tones in this file and returns the peaks that come back.
fn round_trip(dir: &Path, name: &str, gen_more: &[&str], peaks_more: &[&str]) -> serde_json::Value {
    let path = dir.join(name);
    let path = path.to_str().unwrap();
    let real = gen_more.contains(&"--real");
    let mut args = vec!["gen", "-n", "4096", "--bin", "100:-6", "--bin", "700:-12:1.0"];
    args.extend(["-o", path]);
    args.extend(gen_more);
    let made = run(&args);
    assert_eq!(made.status.code(), Some(0), "{name}: {}", stderr(&made));
    let k = if real { "4" } else { "2" };
    let mut args = vec!["peaks", path, "-k", k, "--json"];
    args.extend(peaks_more);
    let found = run(&args);
    assert_eq!(found.status.code(), Some(0), "{name}: {}", stderr(&found));
    let v = json(&found);
    let expected: &[u64] = if real { &[100, 700, 3396, 3996] } else { &[100, 700] };
    assert_eq!(indices(&v), expected, "{name}");
    v
}

#[test]
fn raw_samples_of_every_type_and_byte_order() {
    let dir = tempfile::tempdir().unwrap();
    for base in ["cf32", "cf64", "cs8", "cu8", "cs16", "cu16", "cs32", "cu32"] {
        for order in ["", "_le", "_be"] {
            let kind = format!("{base}{order}");
            round_trip(dir.path(), "x.bin", &["--type", &kind], &["--format", &kind]);
        }
        round_trip(dir.path(), &format!("x.{base}"), &[], &[]);
    }
    for base in ["f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32"] {
        for order in ["", "_be"] {
            let kind = format!("{base}{order}");
            round_trip(dir.path(), "x.bin", &["--real", "--type", &kind], &["--format", &kind]);
        }
        round_trip(dir.path(), &format!("x.{base}"), &["--real"], &[]);
    }
}

#[test]
fn levels_survive_integer_formats() {
    let dir = tempfile::tempdir().unwrap();
    let v = round_trip(dir.path(), "x.cs16", &[], &[]);
    let level = v["peaks"][0]["magnitude"].as_f64().unwrap() / 4096.0 / 32768.0;
    assert!((level / 10f64.powf(-0.3) - 1.0).abs() < 1e-3, "{level}");
    let phase = v["peaks"][1]["phase"].as_f64().unwrap();
    assert!((phase - 1.0).abs() < 1e-3, "{phase}");
    // Offset binary: no trace of the middle at frequency 0.
    let path = dir.path().join("x.cu8");
    round_trip(dir.path(), "x.cu8", &[], &[]);
    let v = json(&run(["peaks", path.to_str().unwrap(), "-k", "8", "--json"]));
    for p in v["peaks"].as_array().unwrap() {
        let small = p["magnitude"].as_f64().unwrap() < 4096.0 * 0.5;
        assert!(p["index"] != 0 || small, "{p}");
    }
}

/// The level that a tone was made with is the level that is listed, of complex and of real samples,
/// in the table, in CSV and in JSON, from a sparse search and from a survey.
#[test]
fn levels_of_gen_and_peaks_agree() {
    let dir = tempfile::tempdir().unwrap();
    for (real, noise, tone) in [
        (false, "-60", "--bin=400:-12"),
        (true, "-60", "--bin=400:-12"),
        (true, "-40", "--tone=0.0977:-12"),
    ] {
        let path = dir.path().join("x.f32");
        let path = path.to_str().unwrap();
        let mut args = vec!["gen", "-n", "16Ki", "--noise", noise, tone, "-o", path];
        args.extend(["--type", if real { "f32" } else { "cf32" }]);
        assert_eq!(run(&args).status.code(), Some(0));
        let format = if real { "f32" } else { "cf32" };
        for more in [&[][..], &["--thorough"]] {
            let peaks = |form: &[&str]| {
                run([&["peaks", path, "--format", format][..], more, form].concat())
            };
            let v = json(&peaks(&["--json"]));
            let level = 20.0 * v["lines"][0]["level"].as_f64().unwrap().log10();
            assert!((level + 12.0).abs() < 0.02, "{real} {more:?}: {level}");
            let csv = stdout(&peaks(&["--csv"]));
            let levels = csv.lines().skip(1).map(|l| l.split(',').nth(7).unwrap().parse::<f64>());
            let most = levels.map(Result::unwrap).fold(f64::MIN, f64::max);
            assert!((most + 12.0).abs() < 0.02, "{real} {more:?}: {csv}");
            let text = stdout(&peaks(&[]));
            assert!(text.contains(" -12.0") || text.contains(" -11.99"), "{text}");
        }
    }
}

#[test]
fn npy_of_every_type() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["cf32", "cf64", "cf32_be"] {
        round_trip(dir.path(), "x.npy", &["--type", kind], &[]);
    }
    for kind in ["f32", "f64", "s8", "s16", "s32_be", "u8"] {
        // Unsigned arrays are taken at face value: their middle would be the strongest peak.
        if kind != "u8" {
            round_trip(dir.path(), "x.npy", &["--real", "--type", kind], &[]);
        }
    }
    round_trip(dir.path(), "x.npy", &["--type", "cs16"], &["--iq"]);
    // Told by its first bytes.
    round_trip(dir.path(), "x.dat", &["--format", "npy"], &[]);
}

#[test]
fn npy_rows_and_channels() {
    let dir = tempfile::tempdir().unwrap();
    let n = 512;
    let wave = |f: usize, t: usize| (std::f64::consts::TAU * (f * t % n) as f64 / n as f64).cos();
    let rows: Vec<u8> =
        (0..3).flat_map(|r| (0..n).flat_map(move |t| wave(10 + r, t).to_le_bytes())).collect();
    let file = npy(dir.path(), "rows.npy", "'<f8'", "(3, 512)", &rows);
    let path = file.to_str().unwrap();
    let v = json(&run(["peaks", path, "-k2", "--json", "--row", "2"]));
    assert_eq!(indices(&v), [12, 500]);
    refused(&run(["peaks", path]), &["(3, 512)", "--row"]);
    refused(&run(["peaks", path, "--row", "3"]), &["rows are 0 to 2"]);
    refused(&run(["peaks", path, "--row", "1", "--channel", "1"]), &["--row"]);
    let columns: Vec<u8> =
        (0..n).flat_map(|t| (0..3).flat_map(move |c| wave(20 + c, t).to_le_bytes())).collect();
    let file = npy(dir.path(), "columns.npy", "'<f8'", "(512, 3)", &columns);
    let path = file.to_str().unwrap();
    let v = json(&run(["peaks", path, "-k2", "--json", "--channel", "1"]));
    assert_eq!(indices(&v), [21, 491]);
    refused(&run(["peaks", path, "--channel", "3"]), &["channels are 0 to 2"]);
    refused(&run(["peaks", path, "--iq"]), &["--iq", "(512, 3)"]);
}

#[test]
fn wav_of_every_type() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["u8", "s16", "s24", "s32", "f32", "f64"] {
        let v =
            round_trip(dir.path(), "x.wav", &["--real", "--type", kind, "--rate", "44.1k"], &[]);
        assert_eq!(v["rate"], 44100.0);
        let hertz = v["peaks"][0]["hertz"].as_f64().unwrap();
        assert!((hertz - 100.0 * 44100.0 / 4096.0).abs() < 1e-9);
        let iq = format!("c{kind}");
        round_trip(dir.path(), "x.wav", &["--type", &iq], &["--iq"]);
    }
    let path = dir.path().join("x.wav");
    let path = path.to_str().unwrap();
    refused(&run(["peaks", path]), &["2 channels", "--channel", "--iq"]);
    let v = json(&run(["peaks", path, "--channel", "1", "-k4", "--json"]));
    assert_eq!(indices(&v), [100, 700, 3396, 3996]);
    refused(&run(["peaks", path, "--channel", "2"]), &["0 to 1"]);
    refused(&run(["gen", "-n9", "-o", path, "--type", "cs8"]), &["WAV", "--type"]);
}

#[test]
fn rf64_takes_its_length_from_ds64() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.wav");
    round_trip(dir.path(), "x.wav", &["--real", "--type", "s16"], &[]);
    let riff = std::fs::read(&path).unwrap();
    let mut rf64 = b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0".to_vec();
    rf64.extend((riff.len() as u64 + 28).to_le_bytes());
    rf64.extend(8192u64.to_le_bytes());
    rf64.extend(4096u64.to_le_bytes());
    rf64.extend([0; 4]);
    rf64.extend(&riff[12..40]);
    rf64.extend([0xff; 4]);
    rf64.extend(&riff[44..]);
    // A chunk after the data must not count as samples.
    rf64.extend(b"LIST\x04\0\0\0abcd");
    std::fs::write(&path, rf64).unwrap();
    let v = json(&run(["peaks", path.to_str().unwrap(), "-k4", "--json"]));
    assert_eq!(v["n"], 4096);
    assert_eq!(indices(&v), [100, 700, 3396, 3996]);
}

/// Lengths that programs write into a pipe, and a file that ends early: what is there is read, and
/// a note says so. A right length is silent.
#[test]
fn wav_streams_and_cut_off_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.wav");
    let name = path.to_str().unwrap();
    run([
        "gen", "-n", "8000", "--rate", "8k", "--tone", "1000:-6", "--real", "--type", "s16", "-o",
        name,
    ]);
    let whole = std::fs::read(&path).unwrap();
    let data = whole.windows(4).position(|w| w == b"data").unwrap();
    let length = u32::from_le_bytes(whole[data + 4..data + 8].try_into().unwrap());
    let half = whole.len() / 2;
    for (stated, keep, n, words) in [
        (length, whole.len(), 8000, ""),
        (0, whole.len(), 8000, "does not say how long"),
        (0xFFFF_FFFF, whole.len(), 8000, "does not say how long"),
        (0x7FFF_FFFF, whole.len(), 8000, "does not say how long"),
        (0x8000_0000, whole.len(), 8000, "does not say how long"),
        (length, half, (half - data - 8) / 2, "the file ends after"),
    ] {
        let mut bytes = whole[..keep].to_vec();
        bytes[data + 4..data + 8].copy_from_slice(&u32::to_le_bytes(stated));
        std::fs::write(&path, &bytes).unwrap();
        let done = run(["peaks", name, "--json"]);
        let answer = json(&done);
        assert_eq!(answer["n"].as_u64(), Some(n as u64), "{stated:#x}");
        assert!((answer["lines"][0]["hertz"].as_f64().unwrap() - 1000.0).abs() < 0.01);
        let said = stderr(&done);
        assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{stated:#x}: {said}");
    }
}

#[test]
fn sigmf_pairs_and_archives() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--type", "cs16", "--rate", "2M", "--center", "100M"];
    for name in ["x.sigmf-meta", "y.sigmf"] {
        let v = round_trip(dir.path(), name, &more, &[]);
        assert_eq!((&v["rate"], &v["center"]), (&2e6.into(), &100e6.into()));
        let hertz = v["peaks"][0]["hertz"].as_f64().unwrap();
        assert!((hertz - (100e6 + 2e6 * 100.0 / 4096.0)).abs() < 1e-3, "{hertz}");
    }
    assert!(dir.path().join("x.sigmf-data").exists());
    // The dataset's own name opens the pair, too.
    let data = dir.path().join("x.sigmf-data");
    let v = json(&run(["peaks", data.to_str().unwrap(), "-k2", "--json"]));
    assert_eq!(indices(&v), [100, 700]);
    // Other tools read our archive.
    let listed = std::process::Command::new("tar")
        .args(["-tf", dir.path().join("y.sigmf").to_str().unwrap()])
        .output();
    if let Ok(listed) = listed {
        assert_eq!(stdout(&listed), "y/y.sigmf-meta\ny/y.sigmf-data\n");
    }
}

#[test]
fn parts_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.cf32");
    let path = path.to_str().unwrap();
    run(["gen", "-n", "5000", "--tone", "0.125", "-o", path]);
    let v = json(&run(["peaks", path, "-k1", "--json", "--skip", "4", "--count", "4096"]));
    assert_eq!(v["n"], 4096);
    assert_eq!(indices(&v), [512]);
    refused(&run(["peaks", path, "--skip", "5000"]), &["--skip 5000", "fewer"]);
    refused(&run(["peaks", path, "--skip", "1", "--count", "5000"]), &["--count 5000", "4999"]);
    refused(&run(["peaks", path, "--count", "0"]), &["at least 1"]);
}

#[test]
fn standard_input_as_file_and_as_pipe() {
    let dir = tempfile::tempdir().unwrap();
    for (name, more) in
        [("x.npy", &[][..]), ("x.wav", &["--iq"][..]), ("x.cs8", &["--format", "cs8"][..])]
    {
        let path = dir.path().join(name);
        let made = run(["gen", "-n", "4096", "--bin", "5:-6", "-o", path.to_str().unwrap()]);
        assert_eq!(made.status.code(), Some(0));
        let mut command = sparsefft();
        command.args(["peaks", "-", "-k1", "--json"]).args(more);
        let out = command.stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
        assert_eq!(indices(&json(&out)), [5], "{name} as file");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(indices(&json(&child.wait_with_output().unwrap())), [5], "{name} as pipe");
    }
    let out = sparsefft().args(["peaks", "-"]).stdin(Stdio::null()).output().unwrap();
    refused(&out, &["standard input", "empty"]);
    let path = dir.path().join("x.cs8");
    let out = sparsefft().args(["peaks", "-"]).stdin(std::fs::File::open(&path).unwrap()).output();
    refused(&out.unwrap(), &["standard input", "--format"]);
}

#[test]
fn generated_samples_go_through_a_pipe() {
    let made = run(["gen", "-n", "1000", "--tone", "0.25", "--type", "cs8", "-o", "-"]);
    assert_eq!(made.stdout.len(), 2000);
    assert_eq!(made.stdout[..4], [127, 0, 0, 127]);
}

#[test]
fn bad_raw_and_wav_and_sigmf_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        path(name)
    };
    refused(&run(["peaks", &write("odd.cf32", &[0; 21])]), &["21 bytes", "8-byte", "--count 2"]);
    refused(&run(["peaks", &write("odd.iq", &[0; 24])]), &["--format", "cf32"]);
    refused(&run(["peaks", &write("odd.iq", &[0; 24]), "--format", "cf33"]), &["cf33"]);
    refused(&run(["peaks", &write("bad.wav", b"RIFF....WAVEfmt ")]), &["WAV", "again"]);
    refused(&run(["peaks", &write("bad.wav", b"no wave at all")]), &["WAV", "--format"]);
    refused(&run(["peaks", &write("bad.sigmf", b"no archive")]), &["archive"]);
    let meta = r#"{"global":{"core:datatype":"cf32_le"},"captures":[],"annotations":[]}"#;
    let alone = write("alone.sigmf-meta", meta.as_bytes());
    refused(&run(["peaks", &alone]), &["alone.sigmf-data", "missing"]);
    write("alone.sigmf-data", &[0; 12]);
    refused(&run(["peaks", &alone]), &["12 bytes", "cf32_le"]);
    write("alone.sigmf-data", b"");
    refused(&run(["peaks", &alone]), &["empty"]);
    let data = write("data.sigmf-data", &[0; 16]);
    refused(&run(["peaks", &data]), &["data.sigmf-meta", "missing"]);
    write("data.sigmf-meta", b"{");
    refused(&run(["peaks", &data]), &["JSON"]);
}

#[test]
fn bad_generators_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    refused(&run(["gen", "-n", "64", "--tone", "440", "-o", &path("x.npy")]), &["440", "--rate"]);
    refused(&run(["gen", "-n", "64", "--bin", "64", "-o", &path("x.npy")]), &["--bin 64", "63"]);
    refused(&run(["gen", "-n", "64", "--bin", "1:2:3:4", "-o", &path("x.npy")]), &["1:2:3:4"]);
    refused(&run(["gen", "-n", "64", "--chirp", "0.1", "-o", &path("x.npy")]), &["--chirp"]);
    refused(&run(["gen", "-n", "64", "-o", &path("x.xyz")]), &["xyz", "--format"]);
    refused(&run(["gen", "-n", "64", "-o", &path("none/x.npy")]), &["directory"]);
    refused(&run(["gen", "-n", "0", "-o", &path("x.npy")]), &["at least 1"]);
    refused(&run(["gen", "-n", "64", "--type", "s99", "-o", &path("x.npy")]), &["s99"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A WAV of one channel with this rate, bits and bytes for a number, and 64 bytes of data.
fn wav(rate: u32, bits: u16, block: u16) -> Vec<u8> {
    let mut out = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    out.extend(rate.to_le_bytes());
    out.extend((rate * u32::from(block)).to_le_bytes());
    out.extend(block.to_le_bytes());
    out.extend(bits.to_le_bytes());
    out.extend(b"data\x40\0\0\0");
    out.extend((0..64u8).map(|i| i.wrapping_mul(37)));
    out
}

#[test]
fn wav_headers_that_contradict_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let write = |bytes: &[u8]| {
        let path = dir.path().join("x.wav");
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    refused(&run(["peaks", &write(&wav(48_000, 12, 1))]), &["12 bits in 1 bytes"]);
    let good = run(["peaks", &write(&wav(48_000, 12, 2)), "-k", "4", "--json"]);
    assert_eq!(json(&good)["n"], 32);
    let path = write(&wav(0, 16, 2));
    refused(&run(["peaks", &path]), &["0 samples per second", "--rate"]);
    let told = json(&run(["peaks", &path, "--rate", "8k", "-k", "4", "--json"]));
    assert_eq!(told["rate"], 8000.0);
}

#[test]
fn sigmf_metadata_that_make_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let meta = path("x.sigmf-meta");
    let made = run(["gen", "-n", "1000", "--bin", "100", "-o", &meta, "--rate", "1M"]);
    assert_eq!(made.status.code(), Some(0));
    let write = |rate: &str, captures: &str| {
        let global = format!(r#"{{"core:datatype":"cf32_le","core:sample_rate":{rate}}}"#);
        let text = format!(r#"{{"global":{global},"captures":[{captures}],"annotations":[]}}"#);
        std::fs::write(&meta, text).unwrap();
    };
    for rate in ["0", "-1", "\"1e6\""] {
        write(rate, "");
        refused(&run(["peaks", &meta]), &["core:sample_rate", rate, "--rate"]);
        let told = json(&run(["peaks", &meta, "--rate", "5", "-k", "1", "--json"]));
        assert_eq!(told["rate"], 5.0, "{rate}");
    }
    write("1e6", r#"{"core:sample_start":0,"core:frequency":"1e9"}"#);
    refused(&run(["peaks", &meta]), &["core:frequency", "--center"]);
    assert_eq!(json(&run(["peaks", &meta, "--center", "7", "--json"]))["center"], 7.0);
    // Tuned to another frequency in the middle.
    write(
        "1e6",
        r#"{"core:sample_start":0,"core:frequency":1e9},
           {"core:sample_start":400,"core:frequency":2e9}"#,
    );
    refused(&run(["peaks", &meta]), &["capture at sample 400", "--count 400", "--skip 400"]);
    let center = |more: &[&str]| {
        let v = json(&run([&["peaks", &meta, "--json", "-k", "1"][..], more].concat()));
        (v["n"].as_u64().unwrap(), v["center"].as_f64().unwrap())
    };
    assert_eq!(center(&["--count", "400"]), (400, 1e9));
    assert_eq!(center(&["--skip", "400"]), (600, 2e9));
    assert_eq!(center(&["--center", "3e9"]), (1000, 3e9));
    // Bytes between the captures that are no samples.
    let data = path("x.sigmf-data");
    let samples = std::fs::read(&data).unwrap();
    let (first, second) = samples.split_at(8 * 400);
    std::fs::write(&data, [&[0xEE; 16], first, &[0xEE; 5], second].concat()).unwrap();
    write(
        "1e6",
        r#"{"core:sample_start":0,"core:header_bytes":16},
           {"core:sample_start":400,"core:header_bytes":5}"#,
    );
    refused(&run(["peaks", &meta]), &["5 bytes that are no samples", "--count 400", "--skip 400"]);
    let raw = path("second.cf32");
    for (part, bytes) in [(["--count", "400"], first), (["--skip", "400"], second)] {
        std::fs::write(&raw, bytes).unwrap();
        let args = ["--json", "-k", "1", "--rate", "1e6"];
        let alone = json(&run([&["peaks", &raw][..], &args].concat()));
        let inside = json(&run([&["peaks", &meta][..], &args, &part].concat()));
        assert_eq!(inside["peaks"], alone["peaks"], "{part:?}");
    }
}

/// A pipe without a writer would wait for ever.
#[cfg(unix)]
#[test]
fn pipes_are_no_recordings() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = |name: &str| {
        let path = dir.path().join(name).to_str().unwrap().to_owned();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    let (npy, meta) = (fifo("x.npy"), fifo("y.sigmf-meta"));
    fifo("y.sigmf-data");
    let out = dir.path().join("out").to_str().unwrap().to_owned();
    for args in [
        &["peaks", &npy][..],
        &["peaks", &npy, "--format", "cf32"],
        &["peaks", &npy, &npy],
        &["fft", &npy, "-o", &out],
        &["peaks", &meta],
    ] {
        refused(&run(args), &["not a regular file", "`-`"]);
    }
    refused(&run(["merge", "/dev/zero"]), &["/dev/zero", "device"]);
    refused(&run(["merge", dir.path().to_str().unwrap()]), &["directory"]);
    refused(&run(["peaks", "/dev/zero", "--format", "cf32"]), &["not a regular file"]);
}

/// What another program has read already is not read again.
#[cfg(unix)]
#[test]
fn standard_input_begins_where_it_stands() {
    use std::io::Seek;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.cf32");
    let made = run(["gen", "-n", "4096", "--bin", "5:-6", "-o", path.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(0));
    let samples = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&[0xFF; 100][..], &samples].concat()).unwrap();
    let mut file = std::fs::File::open(&path).unwrap();
    file.seek(std::io::SeekFrom::Start(100)).unwrap();
    let mut command = sparsefft();
    let out = command.args(["peaks", "-", "--format", "cf32", "-k1", "--json"]).stdin(file);
    let v = json(&out.output().unwrap());
    assert_eq!((indices(&v), &v["n"]), (vec![5], &4096.into()));
}
