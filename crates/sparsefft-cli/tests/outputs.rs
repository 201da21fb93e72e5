//! Files that commands write: npz, SigMF annotations, fft, completions, the manual page.

mod common;

use common::*;

fn recording(dir: &std::path::Path, name: &str, more: &[&str]) -> String {
    let path = dir.join(name).to_str().unwrap().to_owned();
    let mut args = vec!["gen", "-n", "4096", "--bin", "100:-6", "--bin", "3000:-12", "-o", &path];
    args.extend(more);
    let made = run(&args);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    path
}

#[test]
fn npz_members_are_npy_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path(), "x.cf32", &[]);
    let out = dir.path().join("out.npz");
    let done = run(["peaks", &path, "-k2", "--rate", "4096", "--npz", out.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let zip = std::fs::read(&out).unwrap();
    let find = |needle: &[u8]| zip.windows(needle.len()).position(|w| w == needle).unwrap();
    for name in ["index", "frequency", "value", "n", "noise_floor", "hertz"] {
        find(format!("{name}.npy").as_bytes());
    }
    // The member follows its name: header, then two indices.
    let start = find(b"index.npy") + 9;
    let header = usize::from(u16::from_le_bytes([zip[start + 8], zip[start + 9]]));
    let data = &zip[start + 10 + header..][..16];
    assert_eq!(data[..8], 100u64.to_le_bytes());
    assert_eq!(data[8..], 3000u64.to_le_bytes());
    // Where Python and numpy are at hand, they must agree.
    let script = "import sys, numpy; z = numpy.load(sys.argv[1]); \
                  print(z['index'].tolist(), z['hertz'].tolist(), int(z['n']), z['value'].dtype)";
    let python = std::process::Command::new("python3").args(["-c", script]).arg(&out).output();
    if let Ok(o) = python
        && o.status.success()
    {
        assert_eq!(stdout(&o), "[100, 3000] [100.0, -1096.0] 4096 complex128\n");
    }
}

#[test]
fn annotations_are_added_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path(), "x.sigmf-meta", &["--rate", "2M", "--center", "100M"]);
    let mut meta: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    meta["annotations"] = serde_json::json!([{ "core:sample_start": 5, "core:label": "mine" }]);
    meta["global"]["core:author"] = "someone".into();
    std::fs::write(&path, meta.to_string()).unwrap();
    for _ in 0..2 {
        let done = run(["peaks", &path, "-k2", "--sigmf", &path]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    }
    let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(meta["global"]["core:author"], "someone");
    let annotations = meta["annotations"].as_array().unwrap();
    assert_eq!(annotations.len(), 3, "{meta:#}");
    assert_eq!(annotations[2]["core:label"], "mine");
    let (lower, upper) = (
        annotations[0]["core:freq_lower_edge"].as_f64().unwrap(),
        annotations[0]["core:freq_upper_edge"].as_f64().unwrap(),
    );
    let f = 100e6 + 2e6 * 100.0 / 4096.0;
    assert!((lower + upper - 2.0 * f).abs() < 1e-6 && lower < f && upper > f);
    assert_eq!(annotations[0]["core:sample_count"], 4096);
    assert!(meta["global"].get("core:dataset").is_none());
}

#[test]
fn annotations_of_raw_samples_point_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path(), "x.cs16", &[]);
    let out = dir.path().join("y.sigmf-meta");
    let out = out.to_str().unwrap();
    refused(&run(["peaks", &path, "--sigmf", out]), &["--rate"]);
    assert!(!std::path::Path::new(out).exists());
    let done = run(["peaks", &path, "-k2", "--rate", "1M", "--sigmf", out]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let v = json(&run(["peaks", out, "-k2", "--json"]));
    assert_eq!(indices(&v), [100, 3000]);
    assert_eq!(v["rate"], 1e6);
    let wav = recording(dir.path(), "x.wav", &[]);
    refused(&run(["peaks", &wav, "--iq", "--sigmf", out]), &["neither"]);
}

#[test]
fn a_failed_run_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut x = vec![1.0; 256];
    x[3] = f64::NAN;
    let file = npy_f8(dir.path(), "nan.npy", &x);
    let out = dir.path().join("out.npy");
    let done = sparsefft().arg("fft").arg(&file).arg("-o").arg(&out).output().unwrap();
    refused(&done, &["sample 3", "finite"]);
    let done = sparsefft().arg("fft").arg(&file).arg("-o").arg(dir.path()).output().unwrap();
    refused(&done, &["directory"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn quiet_and_verbose() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path(), "x.cf32", &[]);
    assert_ne!(stderr(&run(["peaks", &path, "-k2", "--csv"])), "");
    assert_eq!(stderr(&run(["peaks", &path, "-k2", "--csv", "-q"])), "");
    let details = stderr(&run(["-v", "peaks", &path, "-k2", "--csv"]));
    assert!(details.contains("4 096 complex f32 samples"), "{details}");
    assert!(details.contains("at most 2 of 4096"), "{details}");
}

#[test]
fn completions_and_manual() {
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(&run(["completions", shell]));
        assert!(text.contains("peaks") && text.contains("sparsefft"), "{shell}");
    }
    assert!(stdout(&run(["man"])).contains(".TH sparsefft 1"));
    assert!(stdout(&run(["man", "peaks"])).contains("sparsefft\\-peaks"));
    refused(&run(["man", "nothing"]), &["nothing", "--help"]);
    refused(&run(["completions", "cmd.exe"]), &["cmd.exe"]);
}
