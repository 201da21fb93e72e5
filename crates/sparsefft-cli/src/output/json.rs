//! The JSON that `peaks --json` and `plan --json` print: one object each.
//!
//! `schema` grows when a field changes its meaning; fields may be added without that.

use super::View;
use serde::Serialize;
use sparsefft::Recipe;

/// The answer of `peaks`.
#[derive(Debug, Serialize)]
pub struct Peaks {
    schema: u32,
    /// `grid`: Fourier coefficients; `tones`: frequencies between the bins.
    mode: &'static str,
    n: u64,
    /// The number that was asked for, or null if it was to be found out.
    k: Option<u64>,
    rate: Option<f64>,
    center: Option<f64>,
    peaks: Vec<Peak>,
    /// Narrow-band signals that are no tones.
    bands: Vec<Band>,
    /// Tones too near to be told apart.
    clusters: Vec<Cluster>,
    certificate: Certificate,
    plan: Plan,
    samples_read: u64,
    seconds: f64,
    stages: Vec<Stage>,
}

/// One coefficient X\[index\].
#[derive(Debug, Serialize)]
struct Peak {
    index: u64,
    /// Real-valued position; `index` is the nearest bin.
    bin: f64,
    /// Standard deviation of `bin`; 0 on the grid.
    bin_std: f64,
    /// Cycles per sample, -1/2 … 1/2.
    frequency: f64,
    /// Absolute frequency; missing if the rate is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    hertz: Option<f64>,
    re: f64,
    im: f64,
    magnitude: f64,
    phase: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    snr_db: Option<f64>,
    /// Change of the position over the record, in bins.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift_bins: Option<f64>,
}

/// A narrow-band signal: edges in cycles per sample and mean power.
#[derive(Debug, Serialize)]
struct Band {
    low: f64,
    high: f64,
    power: f64,
}

/// Unresolved tones: middle and width in cycles per sample and mean power.
#[derive(Debug, Serialize)]
struct Cluster {
    centre: f64,
    width: f64,
    power: f64,
}

#[derive(Debug, Serialize)]
struct Certificate {
    verdict: &'static str,
    reason: Option<String>,
    bins_tested: u64,
    bins_unexplained: u64,
    residual_energy: f64,
    noise_floor: f64,
    detection_limit: f64,
    failure_probability: f64,
    attempts: u32,
}

#[derive(Debug, Serialize)]
struct Stage {
    stage: &'static str,
    seconds: f64,
}

/// What would be done, or was.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The algorithm that runs first (in an answer: the one that produced it).
    pub algorithm: &'static str,
    /// The algorithm that was planned.
    pub planned: &'static str,
    /// Seed of the random choices.
    pub seed: u64,
    /// The plan in words.
    pub explanation: String,
    /// Predicted cost of the candidates, cheapest first.
    pub estimates: Vec<Estimate>,
}

/// Predicted cost of one candidate.
#[derive(Debug, Serialize)]
pub struct Estimate {
    algorithm: &'static str,
    seconds: f64,
    samples: u64,
}

impl Plan {
    /// A plan that has not run.
    pub fn new(recipe: &Recipe) -> Self {
        let estimates = recipe.estimates.iter().map(|e| Estimate {
            algorithm: e.algorithm.name(),
            seconds: e.nanoseconds * 1e-9,
            samples: e.samples,
        });
        Plan {
            algorithm: recipe.algorithm.name(),
            planned: recipe.algorithm.name(),
            seed: recipe.seed,
            explanation: recipe.to_string(),
            estimates: estimates.collect(),
        }
    }
}

impl Peaks {
    /// Keeps the strongest peaks, still sorted by index; returns how many were dropped.
    pub fn keep_strongest(&mut self, most: usize) -> usize {
        let dropped = self.peaks.len().saturating_sub(most);
        if dropped > 0 {
            self.peaks.sort_by(|a, b| b.magnitude.total_cmp(&a.magnitude));
            self.peaks.truncate(most);
            self.peaks.sort_by_key(|p| p.index);
        }
        dropped
    }

    /// Gathers an answer.
    pub fn new(view: &View<'_>, recipe: &Recipe) -> Self {
        let (s, c, r) = (view.spectrum, view.spectrum.certificate(), view.spectrum.report());
        let peaks = s.peaks().iter().map(|p| Peak {
            index: p.index,
            bin: view.bin(p).0,
            bin_std: view.bin(p).1,
            frequency: view.cycles(p),
            hertz: view.rate.map(|_| view.frequency(p)),
            re: p.value.re,
            im: p.value.im,
            magnitude: p.magnitude(),
            phase: p.phase(),
            snr_db: view.snr(p),
            drift_bins: view
                .tone(p)
                .and_then(|t| t.drift)
                .map(|d| d.rate * s.n() as f64 * s.n() as f64),
        });
        let bands = view.tones.map_or(&[][..], |t| t.bands());
        let clusters = view.tones.map_or(&[][..], |t| t.clusters());
        Peaks {
            schema: 1,
            mode: view.mode(),
            n: s.n(),
            k: recipe.k,
            rate: view.rate,
            center: view.center,
            peaks: peaks.collect(),
            bands: bands
                .iter()
                .map(|b| Band { low: b.low, high: b.high, power: b.power })
                .collect(),
            clusters: clusters
                .iter()
                .map(|c| Cluster { centre: c.centre, width: c.width, power: c.power })
                .collect(),
            certificate: Certificate {
                verdict: c.verdict.name(),
                reason: c.reason.clone(),
                bins_tested: c.bins_tested,
                bins_unexplained: c.bins_unexplained,
                residual_energy: c.residual_energy,
                noise_floor: c.noise_floor,
                detection_limit: c.detection_limit,
                failure_probability: c.failure_probability,
                attempts: c.attempts,
            },
            plan: Plan { algorithm: view.algorithm(), ..Plan::new(recipe) },
            samples_read: r.samples_read,
            seconds: r.elapsed.as_secs_f64(),
            stages: r
                .stages
                .iter()
                .map(|(s, d)| Stage { stage: s.name(), seconds: d.as_secs_f64() })
                .collect(),
        }
    }
}
