//! One HTML page that needs nothing else: spectrum, table, insets and the card of the run.
//!
//! The data are one JSON object in the page; a short script draws it. The page loads nothing from
//! anywhere, and its content policy forbids it to.

use super::scene::escape;
use super::{View, json, plot, zoom};
use base64::prelude::{BASE64_STANDARD as STANDARD, Engine};
use serde::Serialize;
use sparsefft::{Peak, Recipe};

static TEMPLATE: &str = include_str!("../../assets/report.html");

/// Peaks that the page holds; more would make it slow and large.
pub const MOST: usize = 2000;

/// What the page shows.
pub struct Page<'a> {
    /// The answer and its axes.
    pub view: &'a View<'a>,
    /// The plan.
    pub recipe: &'a Recipe,
    /// The overview of [`super::background`].
    pub hold: &'a [f64],
    /// Peaks with the exact bins around them.
    pub insets: &'a [(Peak, Vec<num_complex::Complex<f64>>)],
    /// A picture over time, as PNG.
    pub waterfall: Option<&'a [u8]>,
    /// The recording's name.
    pub title: &'a str,
    /// What the recording is, in words.
    pub description: &'a str,
}

#[derive(Serialize)]
struct Data {
    answer: json::Peaks,
    /// Peaks that were left out of the page.
    omitted: usize,
    real: bool,
    full_scale: f64,
    range: [f64; 2],
    /// Levels of the overview in dB, rounded.
    hold: Vec<f64>,
    insets: Vec<Inset>,
    /// A picture as a data address; null where the recording is too short.
    waterfall: Option<String>,
    description: String,
    created_by: &'static str,
}

#[derive(Serialize)]
struct Inset {
    index: u64,
    /// |X|/n of the recovered value, in dB.
    level: f64,
    /// |X|/n in dB of the bins -32 … 32 around it.
    exact: Vec<f64>,
    /// |recovered - exact| / |exact|.
    difference: f64,
}

/// The page.
///
/// # Errors
/// The data cannot be written as JSON.
pub fn page(p: &Page<'_>) -> anyhow::Result<String> {
    let (view, n) = (p.view, p.view.spectrum.n() as f64);
    let round = |v: f64| (v * 100.0).round() / 100.0;
    let mut answer = json::Peaks::new(view, p.recipe);
    let omitted = answer.keep_strongest(MOST);
    let columns = p.hold.len().clamp(1, 1024);
    let hold = (0..columns)
        .filter(|_| p.hold.len() > 1)
        .map(|c| {
            let range = c * p.hold.len() / columns..(c + 1) * p.hold.len() / columns;
            round(view.level_of(p.hold[range].iter().copied().fold(0.0, f64::max)))
        })
        .collect();
    let insets = p.insets.iter().map(|(peak, exact)| {
        let middle = exact[zoom::HALF as usize];
        Inset {
            index: peak.index,
            level: round(view.level(peak)),
            exact: exact.iter().map(|v| round(view.level_of(v.norm() / n))).collect(),
            difference: (peak.value - middle).norm() / middle.norm().max(f64::MIN_POSITIVE),
        }
    });
    let data = Data {
        omitted,
        real: view.real,
        full_scale: view.full_scale,
        range: plot::level_range(view, p.hold),
        hold,
        insets: insets.collect(),
        waterfall: p.waterfall.map(|png| format!("data:image/png;base64,{}", STANDARD.encode(png))),
        description: p.description.to_owned(),
        created_by: concat!("sparsefft ", env!("CARGO_PKG_VERSION")),
        answer,
    };
    // "<" could end the script element early.
    let json = serde_json::to_string(&data)?.replace('<', "\\u003c");
    Ok(TEMPLATE.replace("{{TITLE}}", &escape(p.title)).replace("{{DATA}}", &json))
}
