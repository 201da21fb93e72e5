//! The JSON that `peaks --json` and `plan --json` print: one object each.
//!
//! `schema` grows when a field changes its meaning; fields may be added without that.

use super::View;
use crate::input::Doubt;
use serde::Serialize;
use sparsefft::Recipe;
use sparsefft::find as found;

/// The answer of `peaks`.
#[derive(Debug, Serialize)]
pub struct Peaks {
    schema: u32,
    /// `grid`: Fourier coefficients; `tones`: frequencies between the bins; `survey`: all samples
    /// were read, and `peaks` are the lines at their nearest bins.
    mode: &'static str,
    /// Number of samples.
    n: u64,
    /// The number that was asked for, or null if it was to be found out.
    k: Option<u64>,
    rate: Option<f64>,
    center: Option<f64>,
    peaks: Vec<Peak>,
    /// Whatever was found at one frequency; null where a mode asked for peaks alone.
    lines: Option<Vec<Line>>,
    /// Parts of the spectrum that stand above their surroundings.
    bands: Vec<Band>,
    /// What is there only part of the time.
    bursts: Vec<Burst>,
    /// Lines whose frequency moves across the band.
    sweeps: Vec<Sweep>,
    /// Lines with a common spacing.
    families: Vec<Family>,
    /// The local floor; null where a mode asked for peaks alone.
    floor: Option<Floor>,
    /// `certified`, `complete`, `partial`; in the modes `grid` and `tones` that of the certificate.
    verdict: &'static str,
    /// What a reader should know.
    reasons: Vec<Reason>,
    /// Whether the samples look like another type than the one that was read.
    doubts: Vec<Doubt>,
    /// SNR in dB from which on a line was not overlooked; null where a mode asked for peaks alone.
    threshold_db: Option<f64>,
    /// Tones too near to be told apart.
    clusters: Vec<Cluster>,
    certificate: Certificate,
    plan: Plan,
    /// Seed of the random choices.
    seed: u64,
    /// Over all attempts, as are `seconds` and `stages`.
    samples_read: u64,
    seconds: f64,
    stages: Vec<Stage>,
    cost: Cost,
}

/// What all attempts have cost.
#[derive(Debug, Serialize)]
struct Cost {
    samples_read: u64,
    seconds: f64,
    /// Bytes fetched from afar; null where that is not counted.
    bytes_read: Option<u64>,
    attempts: Vec<Attempt>,
}

/// One attempt, whether its answer was taken or not.
#[derive(Debug, Serialize)]
struct Attempt {
    kind: &'static str,
    verdict: &'static str,
    samples_read: u64,
    seconds: f64,
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

/// Edges in cycles per sample and mean power.
#[derive(Debug, Serialize)]
struct Band {
    low: f64,
    high: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    low_hz: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_hz: Option<f64>,
    power: f64,
    /// How far it stands above its surroundings; null where only sparse searches saw it.
    above_db: Option<f64>,
}

/// What findings hold beside lines and bands.
#[derive(Clone, Copy)]
struct Extras<'a> {
    bursts: &'a [found::Burst],
    sweeps: &'a [found::Sweep],
    families: &'a [found::Family],
    reasons: &'a [found::Reason],
}

const NOTHING: Extras<'static> = Extras { bursts: &[], sweeps: &[], families: &[], reasons: &[] };

impl<'a> Extras<'a> {
    fn of(found: &'a found::Findings) -> Self {
        let found::Findings { bursts, sweeps, families, reasons, .. } = found;
        Extras { bursts, sweeps, families, reasons }
    }
}

/// Something at one frequency.
#[derive(Debug, Serialize)]
struct Line {
    /// `tone`, `damped`, `broad`, `cluster` or `offset`.
    kind: &'static str,
    /// Cycles per sample.
    frequency: f64,
    frequency_std: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hertz: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hertz_std: Option<f64>,
    index: u64,
    bin: f64,
    /// Peak value of the sinusoid in the samples.
    level: f64,
    level_std: f64,
    phase: f64,
    /// Against the local floor, in one bin of the whole record.
    snr_db: Option<f64>,
    /// Width at half power in cycles per sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<f64>,
    /// Change of the frequency over the record, in bins.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift_bins: Option<f64>,
    /// Decay of the amplitude per sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    damping: Option<f64>,
}

impl Line {
    fn new(view: &View<'_>, line: &found::Line) -> Self {
        let n = view.spectrum.n();
        let mirror = if line.mirrored { 2.0 } else { 1.0 };
        Line {
            kind: line.kind.name(),
            frequency: line.frequency,
            frequency_std: line.frequency_std,
            hertz: view.hertz(line.frequency),
            hertz_std: view.rate.map(|rate| line.frequency_std * rate),
            index: line.index(n),
            bin: line.bin(n),
            level: line.level(),
            level_std: mirror * line.amplitude_std,
            phase: line.phase(),
            snr_db: line.snr_db,
            width: line.width,
            drift_bins: line.drift.map(|d| d.rate * n as f64 * n as f64),
            damping: line.damping,
        }
    }
}

/// What is there only part of the time: samples, edges in cycles per sample, mean power.
#[derive(Debug, Serialize)]
struct Burst {
    start: u64,
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_s: Option<f64>,
    low: f64,
    high: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    low_hz: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_hz: Option<f64>,
    power: f64,
    above_db: f64,
}

impl Burst {
    fn new(view: &View<'_>, burst: &found::Burst) -> Self {
        Burst {
            start: burst.start,
            length: burst.length,
            start_s: view.seconds(burst.start),
            length_s: view.seconds(burst.length),
            low: burst.low,
            high: burst.high,
            low_hz: view.hertz(burst.low),
            high_hz: view.hertz(burst.high),
            power: burst.power,
            above_db: burst.above_db,
        }
    }
}

/// What happens at some time: bursts, sweeps, and whether that is all.
#[derive(Debug, Serialize)]
pub struct Events {
    bursts: Vec<Burst>,
    sweeps: Vec<Sweep>,
    verdict: &'static str,
    reasons: Vec<Reason>,
}

impl Events {
    /// Those of findings, on the axes of a view.
    pub fn new(view: &View<'_>, found: &found::Findings) -> Self {
        let reasons = found.reasons.iter();
        Events {
            bursts: found.bursts.iter().map(|b| Burst::new(view, b)).collect(),
            sweeps: found.sweeps.iter().map(|s| Sweep::new(view, s)).collect(),
            verdict: found.outcome.name(),
            reasons: reasons.map(|r| Reason { code: r.code, text: r.text.clone() }).collect(),
        }
    }
}

/// A moving line.
#[derive(Debug, Serialize)]
struct Sweep {
    start: u64,
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_s: Option<f64>,
    from: f64,
    to: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_hz: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_hz: Option<f64>,
    /// Cycles per sample, per sample.
    rate: f64,
    power: f64,
    above_db: f64,
}

impl Sweep {
    fn new(view: &View<'_>, sweep: &found::Sweep) -> Self {
        Sweep {
            start: sweep.start,
            length: sweep.length,
            start_s: view.seconds(sweep.start),
            length_s: view.seconds(sweep.length),
            from: sweep.from,
            to: sweep.to,
            from_hz: view.hertz(sweep.from),
            to_hz: view.hertz(sweep.to),
            rate: sweep.rate,
            power: sweep.power,
            above_db: sweep.above_db,
        }
    }
}

/// Lines with a common spacing, in cycles per sample.
#[derive(Debug, Serialize)]
struct Family {
    spacing: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    spacing_hz: Option<f64>,
    /// What sidebands lie around; null for harmonics.
    carrier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    carrier_hz: Option<f64>,
    orders: Vec<i64>,
    /// Places of the members in `lines`.
    members: Vec<usize>,
}

impl Family {
    fn new(view: &View<'_>, family: &found::Family) -> Self {
        Family {
            spacing: family.spacing,
            spacing_hz: view.rate.map(|rate| family.spacing * rate),
            carrier: family.carrier,
            carrier_hz: family.carrier.and_then(|c| view.hertz(c)),
            orders: family.orders.clone(),
            members: family.members.clone(),
        }
    }
}

/// Density over frequency in cycles per sample.
#[derive(Debug, Serialize)]
struct Floor {
    frequency: Vec<f64>,
    density: Vec<f64>,
    std_db: Vec<f64>,
    threshold_db: Vec<f64>,
}

impl Floor {
    fn new(floor: &found::Floor) -> Self {
        Floor {
            frequency: floor.frequency.clone(),
            density: floor.density.clone(),
            std_db: floor.std_db.clone(),
            threshold_db: floor.threshold_db.clone(),
        }
    }
}

/// Something a reader should know.
#[derive(Debug, Serialize)]
struct Reason {
    code: &'static str,
    text: String,
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
    rest_limit: f64,
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
        let (s, c, cost) = (view.spectrum, view.spectrum.certificate(), &view.cost);
        let none = NOTHING;
        let found = view.findings.map_or(none, Extras::of);
        let (samples_read, seconds) = (cost.samples_read(), cost.elapsed().as_secs_f64());
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
        let bands = match (view.survey(), view.tones) {
            (Some(found), _) => found
                .bands
                .iter()
                .map(|b| (b.low, b.high, b.power, Some(b.above_db)))
                .collect::<Vec<_>>(),
            (None, Some(tones)) => {
                tones.bands().iter().map(|b| (b.low, b.high, b.power, None)).collect()
            }
            _ => Vec::new(),
        };
        let clusters = view.tones.map_or(&[][..], |t| t.clusters());
        Peaks {
            schema: 2,
            mode: view.mode(),
            n: s.n(),
            k: recipe.k,
            rate: view.rate,
            center: view.center,
            peaks: peaks.collect(),
            lines: view.findings.map(|f| f.lines.iter().map(|l| Line::new(view, l)).collect()),
            bands: bands
                .into_iter()
                .map(|(low, high, power, above_db)| Band {
                    low,
                    high,
                    low_hz: view.hertz(low),
                    high_hz: view.hertz(high),
                    power,
                    above_db,
                })
                .collect(),
            bursts: found.bursts.iter().map(|b| Burst::new(view, b)).collect(),
            sweeps: found.sweeps.iter().map(|s| Sweep::new(view, s)).collect(),
            families: found.families.iter().map(|f| Family::new(view, f)).collect(),
            floor: view.findings.map(|f| Floor::new(&f.floor)),
            verdict: view.findings.map_or(c.verdict.name(), |f| f.outcome.name()),
            reasons: found
                .reasons
                .iter()
                .map(|r| Reason { code: r.code, text: r.text.clone() })
                .collect(),
            doubts: view.doubts.clone(),
            threshold_db: view.findings.map(|f| f.threshold_db),
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
                rest_limit: c.rest_limit,
                failure_probability: c.failure_probability,
                attempts: c.attempts,
            },
            plan: Plan { algorithm: view.algorithm(), ..Plan::new(recipe) },
            seed: s.report().seed,
            samples_read,
            seconds,
            stages: cost
                .stages()
                .iter()
                .map(|(s, d)| Stage { stage: s.name(), seconds: d.as_secs_f64() })
                .collect(),
            cost: Cost {
                samples_read,
                seconds,
                bytes_read: cost.bytes_read,
                attempts: cost
                    .attempts()
                    .iter()
                    .map(|a| Attempt {
                        kind: a.kind,
                        verdict: a.verdict,
                        samples_read: a.samples_read,
                        seconds: a.elapsed.as_secs_f64(),
                    })
                    .collect(),
            },
        }
    }
}
