//! The figures of `docs/gpu.md` from the raw log of `sparse_cuda_bench tables voting accuracy`.
//!
//! `cargo run -p experiment -- --draw-gpu=benches/results/sparse-cuda-h200.txt` writes them to
//! `docs/img/`: time over n, time over k, speed-up over cuFFT, and the largest error over n.

use crate::draw::{Curve, draw, draw_as};
use crate::measure::seconds;
use std::path::Path;

/// A row of a table: its fields as numbers, not a number where a field is none.
fn numbers(line: &str) -> Vec<f64> {
    let number = |field: &str| match field.trim().strip_prefix("2^") {
        Some(power) => power.parse().map_or(f64::NAN, |p: i32| 2f64.powi(p)),
        None => field.trim().parse().unwrap_or(f64::NAN),
    };
    line.split('|').map(number).collect()
}

/// A curve from the rows that `x` and `y` accept.
fn curve(
    name: &str,
    rows: &[Vec<f64>],
    keep: impl Fn(&[f64]) -> bool,
    x: usize,
    y: impl Fn(&[f64]) -> f64,
) -> Curve {
    let mut points: Vec<(f64, f64)> =
        rows.iter().filter(|r| keep(r)).map(|r| (r[x], y(r))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve { name: name.into(), points }
}

/// Writes the figures; the error says what is wrong with the log or the folder.
pub fn figures(log: &Path, folder: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(log).map_err(|e| format!("{}: {e}", log.display()))?;
    let rows = |fields: usize| -> Vec<Vec<f64>> {
        let rows = text.lines().filter(|l| l.starts_with("2^")).map(numbers);
        rows.filter(|r| r.len() == fields).collect()
    };
    // n, k, noise, events, wall, error, cuFFT, top k, ratio, place; and n, k, noise, signals,
    // wrong, certified, on the device, error, not by the quick kernel.
    let (times, errors) = (rows(10), rows(9));
    if times.is_empty() || errors.is_empty() {
        return Err(format!("{}: no tables are there", log.display()));
    }
    let is = |k: f64, noise: f64| move |r: &[f64]| r[1] == k && r[2] == noise;
    let longest = 2f64.powi(27);
    let over_k = |r: &[f64]| r[0] == longest && r[2] == 0.0;
    let micro = |field: usize| move |r: &[f64]| r[field] * 1e-6;
    let plain = |v: f64| format!("{v}");
    let scientific = |v: f64| format!("{v:.0e}");
    let over_n = [
        curve("k = 50", &times, is(50.0, 0.0), 0, micro(3)),
        curve("k = 1000", &times, is(1000.0, 0.0), 0, micro(3)),
        curve("k = 50, 20 dB", &times, is(50.0, 0.1), 0, micro(3)),
        curve("k = 1000, 20 dB", &times, is(1000.0, 0.1), 0, micro(3)),
        curve("cuFFT", &times, is(50.0, 0.0), 0, micro(6)),
    ];
    let k_curves = [
        curve("events", &times, over_k, 1, micro(3)),
        curve("wall", &times, over_k, 1, micro(4)),
        curve("cuFFT", &times, over_k, 1, micro(6)),
        curve("dense, top k", &times, over_k, 1, micro(7)),
    ];
    let ratio = |r: &[f64]| r[6] / r[3];
    let ratios = [
        curve("k = 50", &times, is(50.0, 0.0), 0, ratio),
        curve("k = 1000", &times, is(1000.0, 0.0), 0, ratio),
        curve("k = 50, 20 dB", &times, is(50.0, 0.1), 0, ratio),
    ];
    let accuracy = [
        curve("k = 4, 50", &errors, |r: &[f64]| r[1] <= 50.0 && r[2] == 0.0, 0, |r| r[7]),
        curve("k = 1000", &errors, is(1000.0, 0.0), 0, |r| r[7]),
    ];
    let title = "Largest error of an amplitude, a thousand signals per point";
    let figures = [
        ("time-over-n", draw("One H200, f64, by events", "n", "time", &over_n)),
        ("time-over-k", draw("One H200, n = 2^27", "k", "time", &k_curves)),
        ("speed-up", draw_as("cuFFT over sparse, by events", "n", "times faster", &ratios, plain)),
        ("error", draw_as(title, "n", "error", &accuracy, scientific)),
    ];
    for (name, drawing) in figures {
        let path = folder.join(format!("gpu-{name}.svg"));
        std::fs::write(&path, drawing).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{}", path.display());
    }
    let slowest = over_n[1].points.iter().map(|p| p.1).fold(0.0, f64::max);
    println!("k = 1000 takes at most {}", seconds(slowest));
    Ok(())
}
