//! What the survey of `find` costs, beside a dense FFT of the same samples.
//!
//! Both take turns, so that they meet the same machine. The survey starts from samples that it must
//! not change; the dense FFT runs in place on a copy that is made outside its time, planned and warm.

use crate::Options;
use crate::measure::{Times, length, provenance};
use crate::parts::Outcome;
use serde_json::json;
use sparsefft::dense::{Fft, RealFft};
use sparsefft::find::{Effort, Find, Findings};
use sparsefft::{Complex, Samples};
use std::fmt::Write;
use std::path::Path;
use testkit::Rng;

/// A record of either kind.
enum Record {
    Real(Vec<f64>),
    Complex(Vec<Complex<f64>>),
}

/// Times the survey and the dense FFT turn by turn: [survey, dense], and what was found.
fn turns(record: &Record, rounds: usize) -> ([Times; 2], Findings) {
    let find = Find::new().effort(Effort::Thorough);
    let mut times = [Times::default(), Times::default()];
    let mut found = None;
    for round in 0..=rounds {
        let mut both = [Times::default(), Times::default()];
        match record {
            Record::Real(x) => {
                let plan = RealFft::new(x.len() as u64).expect("a length that can be transformed");
                let mut half = vec![Complex::default(); x.len() / 2 + 1];
                plan.forward(x, &mut half).expect("lengths agree");
                both[1].add(|| plan.forward(x, &mut half)).expect("lengths agree");
                found = Some(both[0].add(|| find.run(x)).expect("finite samples"));
            }
            Record::Complex(x) => {
                let plan = Fft::new(x.len() as u64).expect("a length that can be transformed");
                let mut copy = x.clone();
                plan.forward(&mut copy).expect("lengths agree");
                copy.copy_from_slice(x);
                both[1].add(|| plan.forward(&mut copy)).expect("lengths agree");
                found = Some(both[0].add(|| find.run(x)).expect("finite samples"));
            }
        }
        // The first round makes tables.
        if round > 0 {
            times.iter_mut().zip(&both).for_each(|(all, one)| all.push(one.median()));
        }
    }
    (times, found.expect("at least one round"))
}

/// White noise, and a record full of everything: coloured noise, lines, impacts, packets.
fn synthetic(kind: &str, n: usize) -> Record {
    let mut rng = Rng::new(7);
    let busy = |t: usize, rng: &mut Rng, last: &mut f64| {
        *last = 0.95 * *last + rng.gaussian().re;
        let turns = |nu: f64| (std::f64::consts::TAU * (nu * t as f64).fract()).sin();
        let lines: f64 = (1..40).map(|k| turns(0.011_37 * k as f64) / k as f64).sum();
        let impact = (t % 1777) as f64;
        let packet = if t % 50_000 < 9_000 { turns(0.377) } else { 0.0 };
        *last + 0.3 * lines + 8.0 * (-impact / 20.0).exp() * turns(0.23) + packet
    };
    let mut last = 0.0;
    match kind {
        "white, real" => Record::Real((0..n).map(|_| rng.gaussian().re).collect()),
        "white, complex" => Record::Complex((0..n).map(|_| rng.gaussian()).collect()),
        "busy, real" => Record::Real((0..n).map(|t| busy(t, &mut rng, &mut last)).collect()),
        _ => {
            Record::Complex((0..n).map(|t| rng.gaussian() + busy(t, &mut rng, &mut last)).collect())
        }
    }
}

/// Raw samples of 64-bit floats, complex if the name ends in `.c128`.
fn from_file(path: &Path) -> Option<Record> {
    let bytes = std::fs::read(path).ok()?;
    let values: Vec<f64> = bytes
        .chunks_exact(8)
        .map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes")))
        .collect();
    if path.extension().is_some_and(|e| e == "c128") {
        return Some(Record::Complex(
            values.chunks_exact(2).map(|v| Complex::new(v[0], v[1])).collect(),
        ));
    }
    Some(Record::Real(values))
}

/// The part: synthetic records of several lengths, or the recordings that were named.
pub fn survey(options: &Options) -> Outcome {
    let mut table = String::from(
        "| record | n | survey | dense FFT | ratio | Msamples/s | lines, bands, bursts |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut rows = Vec::new();
    let mut note = |name: &str, record: &Record| {
        let n = match record {
            Record::Real(x) => Samples::len(x),
            Record::Complex(x) => Samples::len(x),
        };
        let rounds = if options.quick { 5 } else { 15 };
        let ([survey, dense], found) = turns(record, rounds);
        // The least disturbed ones: other programs only ever add.
        let ratio = survey.least() / dense.least();
        let _ = writeln!(
            table,
            "| {name} | {} | {} | {} | {ratio:.2} | {:.0} | {}, {}, {} |",
            length(n),
            survey.text(),
            dense.text(),
            1e-6 * n as f64 / survey.least(),
            found.lines.len(),
            found.bands.len(),
            found.bursts.len(),
        );
        rows.push(json!({
            "record": name, "n": n, "ratio": ratio,
            "survey": survey.json(), "dense": dense.json(),
            "bytes": found.cost.memory,
        }));
    };
    let lengths: &[u32] = if options.quick { &[17, 20] } else { &[17, 20, 22, 24] };
    for kind in ["white, real", "white, complex", "busy, real", "busy, complex"] {
        // Recordings take the place of what is made up.
        for power in lengths.iter().filter(|_| options.recordings.is_empty()) {
            note(kind, &synthetic(kind, 1 << power));
        }
    }
    for path in &options.recordings {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match from_file(path) {
            Some(record) => note(&name, &record),
            None => eprintln!("cannot read {}", path.display()),
        }
    }
    let _ = writeln!(table, "\n{}", provenance()["load"]);
    Outcome::new(table, rows)
}
