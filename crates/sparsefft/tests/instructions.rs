//! How many instructions the hot paths take, counted by valgrind: a guard against slow changes.
//!
//! Times on a shared machine say little; instructions of a fixed signal hardly vary. Each scenario
//! runs twice, with few and with many transforms; the difference is what one transform takes. It
//! must not exceed the count in `benches/instructions.txt` by more than a tenth, which leaves room
//! for another compiler or C library. `SPARSEFFT_INSTRUCTIONS=write` writes the file anew. Valgrind
//! knows no AVX-512, so the counts are those of the AVX2 kernels, with the checks of this profile.

use sparsefft::{Algorithm, Complex, Plan, Problem};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Name, n, k, noise in dB below each tone, algorithm.
type Scenario = (&'static str, u64, u64, Option<f64>, Algorithm);

const SCENARIOS: [Scenario; 5] = [
    ("exact", 1 << 16, 50, None, Algorithm::Auto),
    ("noisy", 1 << 16, 50, Some(20.0), Algorithm::Auto),
    ("many", 1 << 18, 1000, None, Algorithm::Auto),
    ("prime", 65_537, 10, None, Algorithm::Auto),
    ("comb-vote", 1 << 18, 20, None, Algorithm::CombVote),
];

/// How much more than the count on file is allowed.
const SLACK: f64 = 1.1;

/// Names the scenario and the number of transforms in the process that valgrind watches.
const TASK: &str = "SPARSEFFT_COUNTED";

fn signal(n: u64, k: u64, snr: Option<f64>) -> (Vec<u64>, Vec<Complex<f64>>) {
    let mut rng = testkit::Rng::new(7);
    let mut places = rng.distinct(n, k);
    places.sort_unstable();
    let mut x = vec![Complex::ZERO; n as usize];
    for &f in &places {
        x[f as usize] = rng.phasor();
    }
    testkit::oracle::inverse(&mut x);
    if let Some(db) = snr {
        let sigma = 10f64.powf(-db / 20.0);
        x.iter_mut().for_each(|v| *v += rng.gaussian() * sigma);
    }
    (places, x)
}

/// What valgrind watches; without its task it does nothing.
#[test]
fn counted() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (name, count) = task.split_once(' ').expect("a name and a number");
    let (_, n, k, snr, algorithm) = SCENARIOS.into_iter().find(|s| s.0 == name).expect("a name");
    let (places, x) = signal(n, k, snr);
    let plan = Plan::new(Problem::new(n).sparsity(k).algorithm(algorithm)).unwrap();
    for _ in 0..count.parse().expect("a number") {
        let spectrum = plan.transform(&x).unwrap();
        assert!(spectrum.certificate().is_certified(), "{name}");
        assert!(spectrum.peaks().iter().map(|p| p.index).eq(places.iter().copied()), "{name}");
    }
}

fn instructions(name: &str, count: u32) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "counted", "--test-threads=1"])
        .env(TASK, format!("{name} {count}"))
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&run.stdout));
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    collected.and_then(|(_, n)| n.trim().parse().ok()).expect("valgrind tells the count")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn no_hot_path_has_grown() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(std::env::var_os("SPARSEFFT_REQUIRE_C_TOOLS").is_none(), "install valgrind");
        println!("SKIPPED: valgrind is not installed, no instructions are counted");
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/instructions.txt");
    let write = std::env::var("SPARSEFFT_INSTRUCTIONS").is_ok_and(|v| v == "write");
    let on_file: BTreeMap<String, f64> = std::fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, n)| Some((name.to_string(), n.trim().parse().ok()?)))
        .collect();
    let mut text = String::new();
    let mut grown = Vec::new();
    for (name, ..) in SCENARIOS {
        let (few, many) = (5, 25);
        let each = (instructions(name, many) - instructions(name, few)) / u64::from(many - few);
        println!("{name}: {each} instructions");
        text += &format!("{name} {each}\n");
        match on_file.get(name) {
            Some(&before) if each as f64 <= SLACK * before => {}
            before => grown.push(format!("{name}: {each}, on file {before:?}")),
        }
    }
    if write {
        std::fs::write(&file, text).unwrap();
        return;
    }
    assert!(
        grown.is_empty(),
        "more instructions than benches/instructions.txt allows: {grown:?}. If that is wanted, \
         write the file anew with SPARSEFFT_INSTRUCTIONS=write"
    );
}
