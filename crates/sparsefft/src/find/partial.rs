//! What can be said from a part of the samples beside the lines of a search, and tones from a survey.

use super::findings::{Findings, FoundBand, Line, LineKind};
use crate::samples::Samples;
use crate::tones::{Accuracy, Band, Cluster, Tone, Tones};
use crate::{Complex, Error, Spectrum, Verdict};

/// Samples of a block whose mean is taken: the density of the noise is then known around zero, to a 256th
/// of the rate, as a floor that is not white needs.
const BLOCK: u64 = 256;
/// Fewest samples of one: below that its density is that of half the band.
const SHORTEST_BLOCK: u64 = 16;
/// Blocks that are read, evenly over the record: their scatter is known to 6 %.
const BLOCKS: u64 = 128;
/// Part of the record that they may take.
const PART: u64 = 8;
/// Deviations above which the mean is stated.
const SIGMAS: f64 = 3.0;

/// The mean of a real record from blocks of its samples, if it stands out from their scatter, and how
/// many samples were read.
pub(super) fn offset<S: Samples + ?Sized>(signal: &S) -> Result<(Option<Line>, u64), Error> {
    let n = signal.len();
    let length = (n / (PART * BLOCKS)).min(BLOCK);
    if !signal.is_real() || length < SHORTEST_BLOCK {
        return Ok((None, 0));
    }
    let mut block = [Complex::ZERO; BLOCK as usize];
    let block = &mut block[..length as usize];
    let mut means = Vec::with_capacity(BLOCKS as usize);
    for i in 0..BLOCKS {
        // In the middle of its part of the record.
        let part = n / BLOCKS;
        signal.read_range(i * part + (part - length) / 2, block)?;
        means.push(block.iter().map(|v| v.re).sum::<f64>() / length as f64);
    }
    let count = BLOCKS as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let std = (variance / count).sqrt();
    let density = length as f64 * variance;
    // A number that is not finite is met by the searches, which say where it is.
    let stated = mean.is_finite() && mean.abs() > SIGMAS * std;
    let snr = n as f64 * mean * mean / density;
    let line = Line {
        kind: LineKind::Offset,
        frequency: 0.0,
        frequency_std: 0.0,
        amplitude: Complex::new(mean, 0.0),
        amplitude_std: std,
        snr_db: (snr > 0.0 && snr.is_finite()).then(|| 10.0 * snr.log10()),
        drift: None,
        width: None,
        damping: None,
        mirrored: false,
    };
    Ok((stated.then_some(line), BLOCKS * length))
}

/// The answer of a survey as one of a search between the bins, whose own answer was `tones`.
pub(super) fn as_tones(findings: &Findings, mut tones: Tones) -> Tones {
    let n = findings.n as f64;
    tones.tones.clear();
    tones.clusters.clear();
    for line in &findings.lines {
        match line.kind {
            LineKind::Broad | LineKind::Cluster => tones.clusters.push(cluster(line, n)),
            LineKind::Tone | LineKind::Damped | LineKind::Offset => tones.tones.push(tone(line, n)),
        }
    }
    tones.bands = findings.bands.iter().map(band).collect();
    if findings.real {
        add_mirror_images(findings, &mut tones);
    }
    tones.tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
    tones.clusters.sort_by(|a, b| a.centre.total_cmp(&b.centre));
    tones.bands.sort_by(|a, b| a.low.total_cmp(&b.low));
    let density = findings.floor.density.clone();
    let power = density.iter().sum::<f64>() / density.len().max(1) as f64;
    let certificate = &mut tones.certificate;
    let before = certificate.reason.take().unwrap_or_default();
    certificate.verdict = Verdict::Dense;
    certificate.reason = Some(format!("all samples were surveyed after: {before}"));
    certificate.noise_floor = power.sqrt();
    certificate.detection_limit = (10f64.powf(0.1 * findings.threshold_db) * power / n).sqrt();
    certificate.bins_tested = findings.n;
    certificate.bins_unexplained = 0;
    certificate.rest_limit = 0.0;
    certificate.failure_probability = findings.failure_probability;
    let report = &mut tones.report;
    report.left_out = findings.left_out;
    report.samples_read += findings.n;
    report.accuracy = Accuracy::of(findings.n, &tones.tones, findings.n);
    tones
}

/// Adds a line to the tones of a search.
pub(super) fn add_line(line: &Line, tones: &mut Tones) {
    tones.tones.push(tone(line, tones.n as f64));
    tones.tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
}

fn tone(line: &Line, n: f64) -> Tone {
    let relative = line.amplitude_std / line.magnitude();
    // The phase is known best in the middle of the record.
    let turns = std::f64::consts::TAU * 0.5 * n * line.frequency_std;
    Tone {
        frequency: line.frequency,
        amplitude: line.amplitude,
        frequency_std: line.frequency_std,
        amplitude_std: line.amplitude_std,
        phase_std: relative.hypot(turns),
        snr: line.snr_db.map_or(f64::INFINITY, |db| 10f64.powf(0.1 * db)),
        drift: line.drift,
    }
}

fn cluster(line: &Line, n: f64) -> Cluster {
    let width = line.width.unwrap_or(0.0).max(1.0 / n);
    // The strongest bin is representative of those that it spreads over.
    let power = line.amplitude.norm_sqr() * width * n;
    Cluster { centre: line.frequency, width, power }
}

fn band(band: &FoundBand) -> Band {
    Band { low: band.low, high: band.high, power: band.power }
}

/// Real samples hold everything at the negative frequency, too.
fn add_mirror_images(findings: &Findings, tones: &mut Tones) {
    let mirrored = |line: &&Line| line.mirrored;
    let n = findings.n as f64;
    for line in findings.lines.iter().filter(mirrored) {
        let image = Line { frequency: -line.frequency, amplitude: line.amplitude.conj(), ..*line };
        match line.kind {
            LineKind::Broad | LineKind::Cluster => tones.clusters.push(cluster(&image, n)),
            _ => {
                let drift = line.drift.map(|d| crate::tones::Drift { rate: -d.rate, ..d });
                tones.tones.push(tone(&Line { drift, ..image }, n));
            }
        }
    }
    // The power of a band holds that of its mirror image.
    for band in &mut tones.bands {
        band.power *= 0.5;
    }
    let images = tones.bands.iter().map(|b| Band { low: -b.high, high: -b.low, power: b.power });
    tones.bands.extend(images.collect::<Vec<_>>());
}

/// Whether coefficients in noise stand beside each other: a line between the bins, a sweep or a
/// fade leaks over its neighbours. As a transform that is right, but it is no list of lines.
pub(super) fn leaks(spectrum: &Spectrum) -> bool {
    /// Distance in bins of coefficients that may be one line.
    const BESIDE: u64 = 2;
    /// Share of the coefficients that have such neighbours: of k at random places 4k/n do by chance.
    const MANY: f64 = 0.1;
    let n = spectrum.n();
    let peaks = spectrum.peaks();
    let count = peaks.len();
    if spectrum.certificate().noise_floor == 0.0 || count < 2 {
        return false;
    }
    let is_near = |i: usize| {
        let next = peaks[(i + 1) % count].index;
        (next + n - peaks[i].index) % n <= BESIDE
    };
    (0..count).filter(|i| is_near(*i)).count() as f64 >= MANY * count as f64
}
