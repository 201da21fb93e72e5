//! Two and four real processes: the answer of one process to the last bit, and no rank that waits.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The example `ranks`, built as this test was.
fn ranks() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("this test has a path");
        let target = test.parent().and_then(|deps| deps.parent()).expect("target/debug/deps/test");
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "-p", "sparsefft-mpi", "--example", "ranks"]);
        if target.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success());
        target.join("examples/ranks")
    })
}

/// What rank 0 prints for a case on this many ranks.
fn run(count: usize, case: &str) -> String {
    let mut child = Command::new("mpirun")
        .args([
            "--allow-run-as-root",
            "--oversubscribe",
            "--mca",
            "btl_vader_single_copy_mechanism",
        ])
        .args(["none", "-np", &count.to_string()])
        .arg(ranks())
        .arg(case)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun is installed (Debian: openmpi-bin)");
    let started = Instant::now();
    while child.try_wait().expect("mpirun can be asked").is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            // Only the process that this test has started.
            child.kill().expect("mpirun can be ended");
            panic!("{case} on {count} ranks hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("mpirun ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case} on {count} ranks: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_cut_gives_the_answer_of_one_process() {
    for count in [1, 2, 4] {
        for case in ["exact", "noisy", "prime", "empty", "unequal", "strided", "several"] {
            let line = run(count, case);
            assert!(line.contains("7 peaks, certified"), "{case} on {count} ranks: {line}");
        }
    }
}

#[test]
fn a_fault_on_one_rank_is_an_error_on_all() {
    for count in [2, 4] {
        let expected = [
            (
                "fails",
                "rank 1 failed (1 of all ranks): reading the samples failed: the disk is gone",
            ),
            ("panics", "filling the sketch panicked"),
            ("lost", "samples are missing"),
            ("twice", "the sketch of rank 1: these samples have been seen already"),
            ("seeds", "the sketch of rank 1: the sketches do not belong together: the seed is 0"),
        ];
        for (case, words) in expected {
            let line = run(count, case);
            assert!(line.contains(words), "{case} on {count} ranks: {line}");
        }
    }
}
