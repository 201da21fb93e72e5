//! Lines nearer to each other than a main lobe, taken apart by a joint fit.
//!
//! The bins around a group of m steady lines are, with phases counted from the middle of the record,
//!
//! y_k = Σ_i A_i W(f_i - k) + noise,
//!
//! W the transform of the window, known in closed form. A_i and f_i are found by Gauss-Newton steps
//! that shrink where they do not help (Levenberg, Marquardt). Lines are added where the residual is
//! largest until what is left is noise; if that takes more than [`MOST`], the group stays what it was.
//! The noise of neighbouring bins is correlated by the window: the stated errors are those of this
//! estimator under that correlation.

use super::chance::gamma_quantile;
use super::fit::Fit;
use super::floor::Floor;
use super::lines::{CLEAN, Found, Limits, Shape};
use super::spectrum::{LOBE, Spectrum, noise_correlation, response, response_with_slope};
use crate::Complex;
use crate::algorithms::tones::linear::{factor, solve};

/// Most lines of a group: with many more unknowns than that a modulation would be described, too.
const MOST: usize = 4;
/// Bins between members of a group, and the widest group: wider ones are bands.
const APART: f64 = 2.0 * LOBE as f64;
const WIDEST: f64 = 40.0;
/// ln of the probability that noise alone leaves more than is accepted.
const LN_LEFT: f64 = -9.2;
/// Least distance of two lines in bins: below, their amplitudes only cancel each other.
const NEAREST: f64 = 1.5;
/// Steps of a joint fit: a dozen as a rule, more where two lines start on the same side.
const STEPS: usize = 30;
/// Samples for each group that is taken apart, and bounds of their number: a fit takes as long as a
/// transform of some ten thousand samples, and a record without noise may have thousands of spurs.
const SAMPLES_EACH: usize = 1024;
const FEWEST_GROUPS: usize = 16;
const MOST_GROUPS: usize = 512;
/// Correlation of the noise of two bins, by their distance.
type Correlation = [f64; 2 * LOBE + 1];

/// Unknowns of a line: both parts of its amplitude and its bin.
const EACH: usize = 3;

/// Splits what a single line does not describe into steady lines, where these leave only noise.
pub(super) fn close_lines(
    spectrum: &Spectrum,
    floor: &Floor,
    limits: &Limits,
    found: &mut Vec<Found>,
) {
    found.sort_by(|a, b| a.fit.bin.total_cmp(&b.fit.bin));
    let mut groups: Vec<&[Found]> = found.chunk_by(|a, b| b.fit.bin - a.fit.bin <= APART).collect();
    let strongest = |g: &[Found]| g.iter().map(|f| f.ratio).fold(0.0, f64::max);
    groups.sort_by(|a, b| strongest(b).total_cmp(&strongest(a)));
    let correlation = std::array::from_fn(|d| noise_correlation(d as f64));
    let mut left = (spectrum.n / SAMPLES_EACH).clamp(FEWEST_GROUPS, MOST_GROUPS);
    let mut out: Vec<Found> = Vec::with_capacity(found.len());
    for group in groups {
        let doubtful = left > 0 && is_doubtful(spectrum, floor, limits, group);
        left -= usize::from(doubtful);
        match doubtful.then(|| split(spectrum, floor, limits, group, correlation)).flatten() {
            Some(lines) => out.extend(lines),
            None => out.extend_from_slice(group),
        }
    }
    out.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    *found = out;
}

/// Whether a narrow group holds more than the lines that are known of it.
fn is_doubtful(spectrum: &Spectrum, floor: &Floor, limits: &Limits, group: &[Found]) -> bool {
    let is_clean = |f: &Found| {
        f.shape == Shape::Single && f.fit.chi < CLEAN && alone(spectrum, floor, limits, group, f)
    };
    let span = group[group.len() - 1].fit.bin - group[0].fit.bin;
    let wide = group.iter().any(|f| f.width > WIDEST);
    group.len() <= MOST && span <= WIDEST && !wide && !group.iter().all(is_clean)
}

/// The lines of one group, if there are more than are known and they explain it.
fn split(
    spectrum: &Spectrum,
    floor: &Floor,
    limits: &Limits,
    group: &[Found],
    correlation: Correlation,
) -> Option<Vec<Found>> {
    let mut joint = Joint::new(spectrum, floor, group, correlation);
    let tones = group.iter().filter(|f| f.shape == Shape::Single);
    tones.for_each(|f| joint.add(f.fit.bin - joint.first as f64));
    loop {
        joint.refine();
        let left = joint.residual();
        if joint.explained(&left) {
            break;
        }
        let (at, power) = joint.strongest(&left);
        let draws = floor.draws_at((joint.first + at as i64) as f64);
        if joint.lines.len() == MOST || power < limits.of(draws) * joint.density {
            return None;
        }
        joint.add(at as f64);
    }
    let resolved = joint
        .lines
        .iter()
        .enumerate()
        .all(|(i, a)| joint.lines[..i].iter().all(|b| (a.bin - b.bin).abs() >= NEAREST));
    (resolved && joint.lines.len() > 1).then(|| joint.found(floor))
}

/// Whether nothing stands out beyond a line's main lobe where no other line of the group is.
fn alone(
    spectrum: &Spectrum,
    floor: &Floor,
    limits: &Limits,
    group: &[Found],
    line: &Found,
) -> bool {
    let bins = spectrum.power.len();
    let middle = line.fit.bin.round().max(0.0) as usize;
    let near = middle.saturating_sub(2 * LOBE)..(middle + 2 * LOBE + 1).min(bins);
    let limit = limits.of(floor.draws_at(middle as f64));
    let is_apart = |k: usize| group.iter().all(|f| (f.fit.bin - k as f64).abs() > LOBE as f64);
    !near.into_iter().any(|k| spectrum.power[k] > limit * floor.density[k] && is_apart(k))
}

/// One line: its place counted from the first bin of the fit, and its amplitude at the middle of
/// the record.
#[derive(Debug, Clone, Copy)]
struct Tone {
    bin: f64,
    amplitude: Complex<f64>,
}

/// The bins around a group and the lines that describe them.
struct Joint {
    /// Bin of the spectrum to which the first value belongs.
    first: i64,
    /// The bins, their phases counted from the middle of the record.
    values: Vec<Complex<f64>>,
    /// Density of the floor.
    density: f64,
    /// Correlation of the noise of two bins, by their distance.
    correlation: Correlation,
    lines: Vec<Tone>,
}

impl Joint {
    fn new(spectrum: &Spectrum, floor: &Floor, group: &[Found], correlation: Correlation) -> Self {
        let (low, high) = (group[0].fit.bin, group[group.len() - 1].fit.bin);
        let widest = group.iter().map(|f| f.width).fold(0.0, f64::max);
        let margin = 2.0 * LOBE as f64 + 0.5 * widest;
        let (first, last) = ((low - margin).round() as i64, (high + margin).round() as i64);
        let sign = |k: i64| if (k - first) % 2 == 0 { 1.0 } else { -1.0 };
        let values = (first..=last).map(|k| spectrum.bin(k) * sign(k)).collect();
        let middle = (0.5 * (low + high)).max(0.0) as usize;
        let density = floor.density[middle.min(floor.density.len() - 1)];
        Joint { first, values, density, correlation, lines: Vec::new() }
    }

    /// Another line, with the amplitude that the residual has there.
    fn add(&mut self, bin: f64) {
        let at = (bin.round().max(0.0) as usize).min(self.values.len() - 1);
        let amplitude = self.residual()[at] / response(bin - at as f64);
        self.lines.push(Tone { bin, amplitude });
    }

    fn residual(&self) -> Vec<Complex<f64>> {
        self.residual_of(&self.lines)
    }

    fn residual_of(&self, lines: &[Tone]) -> Vec<Complex<f64>> {
        let left = |(k, y): (usize, &Complex<f64>)| {
            lines.iter().fold(*y, |y, l| y - l.amplitude * response(l.bin - k as f64))
        };
        self.values.iter().enumerate().map(left).collect()
    }

    /// Whether the residual is no more than noise makes: its energy over the density is the sum of so
    /// many correlated exponential variables, less those that the fit has used up.
    fn explained(&self, left: &[Complex<f64>]) -> bool {
        let energy: f64 = left.iter().map(|r| r.norm_sqr()).sum::<f64>() / self.density;
        let [own, beside @ ..] = self.correlation.map(|c| c * c);
        let correlated = own + 2.0 * beside.iter().sum::<f64>();
        let shape = left.len() as f64 / correlated;
        energy < gamma_quantile(shape, LN_LEFT) * correlated
    }

    /// The strongest bin of the residual and its power.
    fn strongest(&self, left: &[Complex<f64>]) -> (usize, f64) {
        let powers = left.iter().map(|r| r.norm_sqr()).enumerate();
        powers.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    /// Derivatives of the bins by the unknowns, an unknown a row, real parts before imaginary ones.
    fn slopes(&self) -> Vec<Vec<f64>> {
        let count = self.values.len();
        let mut rows = Vec::with_capacity(EACH * self.lines.len());
        for l in &self.lines {
            let mut row = [vec![0.0; 2 * count], vec![0.0; 2 * count], vec![0.0; 2 * count]];
            for k in 0..count {
                let (value, slope) = response_with_slope(l.bin - k as f64);
                row[0][k] = value;
                row[1][count + k] = value;
                row[2][k] = l.amplitude.re * slope;
                row[2][count + k] = l.amplitude.im * slope;
            }
            rows.extend(row);
        }
        rows
    }

    /// Least squares over all unknowns.
    fn refine(&mut self) {
        let energy = |left: &[Complex<f64>]| left.iter().map(|r| r.norm_sqr()).sum::<f64>();
        let (mut damping, mut before) = (1e-3, energy(&self.residual()));
        for _ in 0..STEPS {
            let left = self.residual();
            let flat: Vec<f64> =
                left.iter().map(|r| r.re).chain(left.iter().map(|r| r.im)).collect();
            let slopes = self.slopes();
            let size = slopes.len();
            let mut normal = products(&slopes);
            (0..size).for_each(|i| normal[i * size + i] *= 1.0 + damping);
            let mut step: Vec<f64> = slopes.iter().map(|row| dot(row, &flat)).collect();
            if !factor(&mut normal, size) {
                return;
            }
            solve(&normal, size, &mut step);
            let moved: Vec<Tone> = self
                .lines
                .iter()
                .zip(step.chunks_exact(EACH))
                .map(|(l, s)| Tone {
                    bin: l.bin + s[2].clamp(-0.5, 0.5),
                    amplitude: l.amplitude + Complex::new(s[0], s[1]),
                })
                .collect();
            let after = energy(&self.residual_of(&moved));
            if after < before {
                let settled = before - after < 1e-6 * self.density;
                (self.lines, before, damping) = (moved, after, 0.2 * damping);
                if settled {
                    return;
                }
            } else {
                damping *= 8.0;
                if damping > 1e6 {
                    return;
                }
            }
        }
    }

    /// Variances of the unknowns: of the estimator N⁻¹Jᵀ y, N = JᵀJ, under noise with the window's
    /// correlation C they are the diagonal of N⁻¹ (Jᵀ C J) N⁻¹.
    fn variances(&self) -> Vec<f64> {
        let slopes = self.slopes();
        let size = slopes.len();
        let mut normal = products(&slopes);
        if !factor(&mut normal, size) {
            return vec![f64::INFINITY; size];
        }
        let spread: Vec<Vec<f64>> = slopes.iter().map(|row| self.correlated(row)).collect();
        let middle: Vec<f64> =
            slopes.iter().flat_map(|a| spread.iter().map(|b| dot(a, b))).collect();
        (0..size)
            .map(|i| {
                let mut row = vec![0.0; size];
                row[i] = 1.0;
                solve(&normal, size, &mut row);
                let of = |(j, a): (usize, &f64)| a * dot(&row, &middle[j * size..(j + 1) * size]);
                0.5 * self.density * row.iter().enumerate().map(of).sum::<f64>()
            })
            .collect()
    }

    /// C times a row of the derivatives; real and imaginary parts have the same correlation.
    fn correlated(&self, row: &[f64]) -> Vec<f64> {
        let count = self.values.len();
        let mut out = Vec::with_capacity(2 * count);
        for part in row.chunks_exact(count) {
            out.extend((0..count).map(|k| {
                let near = k.saturating_sub(2 * LOBE)..(k + 2 * LOBE + 1).min(count);
                near.map(|l| part[l] * self.correlation[l.abs_diff(k)]).sum::<f64>()
            }));
        }
        out
    }

    fn found(&self, floor: &Floor) -> Vec<Found> {
        let variances = self.variances();
        // What an isolated line's amplitude would have.
        let alone = Joint {
            lines: vec![Tone { bin: 0.5 * self.values.len() as f64, ..self.lines[0] }],
            values: self.values.clone(),
            ..*self
        };
        let isolated = 0.5 * (alone.variances()[0] + alone.variances()[1]);
        self.lines
            .iter()
            .zip(variances.chunks_exact(EACH))
            .map(|(l, v)| {
                let bin = self.first as f64 + l.bin;
                let nearest = bin.round();
                // From the phase of the first bin's reference to that of the line's own bin.
                let odd = (nearest as i64 - self.first) % 2 != 0;
                let amplitude = if odd { -l.amplitude } else { l.amplitude };
                let last = floor.density.len() - 1;
                let density = floor.density[(nearest.max(0.0) as usize).min(last)];
                Found {
                    shape: Shape::Single,
                    fit: Fit {
                        bin,
                        bin_std: v[2].sqrt(),
                        offset: bin - nearest,
                        amplitude,
                        drift: 0.0,
                        drift_std: 0.0,
                        damping: 0.0,
                        left: 0.0,
                        // Its root scales the error of the amplitude.
                        chi: (0.5 * (v[0] + v[1]) / isolated).max(1.0),
                        presence: 1.0,
                    },
                    ratio: (l.amplitude * response(bin - nearest)).norm_sqr() / density,
                    width: 0.0,
                }
            })
            .collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// All scalar products of some rows.
fn products(rows: &[Vec<f64>]) -> Vec<f64> {
    rows.iter().flat_map(|a| rows.iter().map(|b| dot(a, b))).collect()
}
