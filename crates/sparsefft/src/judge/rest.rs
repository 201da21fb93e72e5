//! Whether what the answer leaves is white, stationary noise: tests of raw residual lines.
//!
//! Bins cannot tell. A window weighs the ends of a record down to 1e-6, so that whatever happens
//! there is hidden from all of its bins; and a signal that moves through the band fills the bins of
//! a comb as evenly as noise does. Within a line of four consecutive samples it is still a tone, and
//! lines that follow each other in time still show when it was there.
//!
//! r are the residual lines, scaled to mean |r|² = 1; L lines, M = 4L samples; w = 1 for complex
//! noise and 2 for real noise, which has half as many degrees of freedom; c_h = Σ_τ r[τ+h] r*[τ] of
//! one line, h = 1, 2, 3. Γ(m, p) is what a Gamma(m) variable exceeds with probability p = 1e-5.
//!
//! | test | statistic | refused above | what it sees |
//! |---|---|---|---|
//! | `Correlated` | Σ_h \|Σ c_h\|² / ((4-h) L w), over the record and in 16 cells of time | Γ(3/w), Γ(48/w) | modulation, sweeps, coloured noise, a constant |
//! | `Swept` | mean of Σ_h \|c_h\|²/(4-h) - 6 e/4, + 3; e the energy of a line | 4.3 sd/√L | one frequency per line, another in each |
//! | `Uneven` | Σ_cells (E - m)²/2mw, m samples of energy E, in 8 and in 64 cells; the largest cell | Γ((S-1)/2); Γ(m/w, p/S) | power that changes |
//! | `Burst` | energy of four lines that follow each other | Γ(16/w, 4p/L) | what is short |
//! | `Outlier` | max \|r\|²; mean \|r\|⁴ | ln(M/p); 2 + 4.3·√(4/M) | clicks, flicker |
//! | `PartTime` | FFT of 4 and 16 parts of a comb's lines, energy per bin | Γ(4/w, p/bins) | a tone during a part of the record |
//!
//! With many samples these tests see colour that nobody calls a signal, such as the ripple of a
//! filter. Correlations of 3 % and changes of power of 2 % are tolerated; [`rest_limit`] states the
//! larger of what is tolerated and what could have been overlooked.
//!
//! Not seen: what is shorter than the gaps between the lines, and signals as wide and as even as
//! noise itself.

use super::grown;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::samples::Line;
use crate::stages::bucket_fft::BucketFft;
use crate::stages::certify::upper_quantile;
use std::fmt;

/// Probability with which each test refuses honest noise.
const P: f64 = 1e-5;
/// Its deviate: 1 - Φ(Z) = P.
const Z: f64 = 4.264_890_793_922_602;
/// Correlation of neighbouring samples that is tolerated. Filters of receivers ripple by as much;
/// a signal that holds less than this share of the noise is noise to most.
const CORRELATION: f64 = 0.03;
/// Root mean square change of the power over the record that is tolerated.
const CHANGE: f64 = 0.02;
/// Excess of the fourth moment that is tolerated.
const TAIL: f64 = 0.05;
/// What a correlation must hold of the noise to pass with a probability of 1e-9, times √M.
const PASSES: f64 = 6.5;
/// Cells of time, of powers and of correlations.
const CELLS: usize = 64;
const LAG_CELLS: usize = 16;
/// Fewest lines that say anything.
pub(crate) const FEWEST: usize = 16;

/// Why what is left is not called noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Neighbouring samples are correlated.
    Correlated,
    /// Within each line there is one frequency, another in each.
    Swept,
    /// The power changes over the record.
    Uneven,
    /// A few lines hold far more than the others.
    Burst,
    /// Single samples hold far more than the others.
    Outlier,
    /// A tone is there during a part of the record.
    PartTime,
}

impl Fault {
    /// The fault as the reason of a certificate.
    pub(crate) fn reason(self) -> String {
        format!("what is left is not steady white noise: {self}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Correlated => {
                "neighbouring samples are correlated, as in coloured noise, a sweep or modulation"
            }
            Fault::Swept => "neighbouring samples follow each other, as in a sweep",
            Fault::Uneven => "its power changes over the record",
            Fault::Burst => "a short stretch of it holds far more power than the others",
            Fault::Outlier => "single samples of it are far larger than the others",
            Fault::PartTime => "it holds a tone during a part of the record",
        })
    }
}

/// Residual lines, gathered from everything that was read.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    lines: Vec<Line>,
    /// When each line begins, as a share of the record.
    times: Vec<f64>,
    /// Where each strand begins: lines in order of time.
    strands: Vec<usize>,
    /// Energies of the lines of one strand.
    energies: Vec<f64>,
    /// Probabilities, and the deviates that a normal variable exceeds with them.
    deviates: Deviates,
}

/// Normal deviates by their probabilities, kept: to find one takes as long as testing 50 lines.
#[derive(Debug, Default)]
struct Deviates(Vec<(f64, f64)>);

impl Deviates {
    /// The deviate that is exceeded with this probability.
    fn of(&mut self, p: f64) -> f64 {
        /// How many are kept; transforms of one plan ask for few.
        const KEPT: usize = 32;
        if let Some((_, z)) = self.0.iter().find(|(q, _)| *q == p) {
            return *z;
        }
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        let z = upper_quantile(p);
        self.0.push((p, z));
        z
    }

    /// What a Gamma(m) variable exceeds with probability p (Wilson and Hilferty's approximation).
    fn gamma(&mut self, m: f64, p: f64) -> f64 {
        let z = self.of(p);
        m * (1.0 - 1.0 / (9.0 * m) + z / (3.0 * m.sqrt())).max(0.0).powi(3)
    }
}

impl Rest {
    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.times.clear();
        self.strands.clear();
    }

    /// Adds a strand of lines in order of time, and when each begins.
    pub(crate) fn add(&mut self, strand: impl Iterator<Item = (f64, Line)>) {
        self.strands.push(self.lines.len());
        for (time, line) in strand {
            self.times.push(time);
            self.lines.push(line);
        }
    }

    /// Number of lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Mean |r|².
    pub(crate) fn power(&self) -> f64 {
        let sum: f64 = self.lines.iter().map(energy).sum();
        sum / (4 * self.lines.len().max(1)) as f64
    }

    /// Number of strands.
    pub(crate) fn strand_count(&self) -> usize {
        self.strands.len()
    }

    /// Number of lines of a strand.
    pub(crate) fn strand_len(&self, which: usize) -> usize {
        self.strands().nth(which).map_or(0, |(times, _)| times.len())
    }

    /// The lines of each strand, with when they begin.
    pub(crate) fn strands(&self) -> impl Iterator<Item = (&[f64], &[Line])> {
        let ends = self.strands.iter().skip(1).copied().chain([self.lines.len()]);
        self.strands
            .iter()
            .zip(ends)
            .map(|(&from, to)| (&self.times[from..to], &self.lines[from..to]))
    }

    /// Whether no single sample has more than this energy.
    pub(crate) fn is_below(&self, most: f64) -> bool {
        self.lines.iter().all(|line| (0..4).all(|tau| line.lane(tau).norm_sqr() <= most))
    }

    /// Whether the lines are those of white, stationary noise; of real noise where `real`.
    ///
    /// `fitted` is the largest share of the noise that fitting the answer takes out of it.
    pub(crate) fn test(&mut self, real: bool, fitted: f64) -> Result<(), Fault> {
        let power = self.power();
        if self.lines.len() < FEWEST || power == 0.0 {
            return Ok(());
        }
        let w = if real { 2.0 } else { 1.0 };
        let mut each = std::mem::take(&mut self.energies);
        let moments = Moments::of(self, power, &mut each);
        self.energies = each;
        moments.test(w, CORRELATION + fitted, &mut self.deviates)
    }

    /// Whether a comb's lines, which are strand number `which` and lie evenly over the record, hold a
    /// tone during one of so many parts of it. The transform has at least twice the lines of a part.
    pub(crate) fn test_parts(
        &mut self,
        which: usize,
        parts: usize,
        fft: &BucketFft,
        real: bool,
        buffer: &mut Vec<Line>,
    ) -> Result<(), Fault> {
        let (size, padded) = (self.strand_len(which) / parts, fft.size());
        assert!(size > 0 && padded >= size);
        let mut limit = |m: f64| self.deviates.gamma(m, P / (2 * parts * padded) as f64);
        let (usual, own) = (limit(4.0), 2.0 * limit(2.0));
        let Some((_, lines)) = self.strands().nth(which) else { return Ok(()) };
        let scale = 1.0 / (self.power() * size as f64);
        let (input, rest) = grown(buffer, 2 * padded + fft.scratch_len()).split_at_mut(padded);
        let (bins, scratch) = rest.split_at_mut(padded);
        input[size..].fill(Line::ZERO);
        for part in lines.chunks_exact(size).take(parts) {
            input[..size].copy_from_slice(part);
            fft.process(input, bins, scratch, 1.0);
            // Real lines have real bins at 0 and at half the rate, and nearly so beside these.
            let beside = |b: usize| {
                let reach = padded.div_ceil(size);
                let from_half = b.abs_diff(padded / 2);
                b.min(padded - b) <= reach || from_half <= reach
            };
            let above = |(b, line): (usize, &Line)| {
                let e = energy(line) * scale;
                e > usual && !(real && beside(b) && e <= own)
            };
            if bins.iter().enumerate().any(above) {
                return Err(Fault::PartTime);
            }
        }
        Ok(())
    }
}

/// Share of the noise that a steady or slowly moving rest of a narrow band may hold unnoticed, after
/// tests of so many lines, of which fitting the answer has taken at most the share `fitted`.
pub(crate) fn rest_limit(lines: usize, fitted: f64) -> f64 {
    (PASSES / ((4 * lines).max(1) as f64).sqrt()).max(CORRELATION + fitted)
}

/// Σ|x|² of a line.
fn energy(line: &Line) -> f64 {
    let mut sum = 0.0;
    for tau in 0..4 {
        sum += line.re[tau] * line.re[tau] + line.im[tau] * line.im[tau];
    }
    sum
}

/// What is summed over the lines, in cells of time.
struct Moments {
    lines: f64,
    /// Lines of each cell.
    counts: [f64; CELLS],
    /// Σ e.
    energies: [f64; CELLS],
    /// Σ c_h, real and imaginary parts.
    lags: [[f64; 6]; LAG_CELLS],
    /// Σ (Σ_h |c_h|²/(4-h) - 6 e/4).
    own: f64,
    /// Largest |r|², and Σ|r|⁴.
    largest: f64,
    fourth: f64,
    /// Largest energy of four lines that follow each other.
    four: f64,
}

impl Moments {
    fn of(rest: &Rest, power: f64, each: &mut Vec<f64>) -> Self {
        let mut sums = Moments {
            lines: rest.lines.len() as f64,
            counts: [0.0; CELLS],
            energies: [0.0; CELLS],
            lags: [[0.0; 6]; LAG_CELLS],
            own: 0.0,
            largest: 0.0,
            fourth: 0.0,
            four: 0.0,
        };
        let scale = 1.0 / power.sqrt();
        for (times, lines) in rest.strands() {
            each.clear();
            let mut from = 0;
            while from < lines.len() {
                let cell = cell_of(times[from], LAG_CELLS);
                let inside = times[from..].iter().take_while(|t| cell_of(**t, LAG_CELLS) == cell);
                let end = from + inside.count();
                let mut cell_sums = CellSums::default();
                sum_cell(&lines[from..end], scale, &mut cell_sums, each);
                for (sum, lag) in sums.lags[cell].iter_mut().zip(cell_sums.lags) {
                    *sum += lag;
                }
                sums.own += cell_sums.own;
                sums.fourth += cell_sums.fourth;
                sums.largest = sums.largest.max(cell_sums.largest);
                from = end;
            }
            for (time, e) in times.iter().zip(&*each) {
                let cell = cell_of(*time, CELLS);
                sums.counts[cell] += 1.0;
                sums.energies[cell] += e;
            }
            let fours = each.chunks(4).map(|four| four.iter().sum::<f64>());
            sums.four = fours.fold(sums.four, f64::max);
        }
        sums
    }

    /// Every test in turn; w as the module says.
    fn test(&self, w: f64, correlation: f64, deviates: &mut Deviates) -> Result<(), Fault> {
        let samples = 4.0 * self.lines;
        // Correlations.
        for cells in [1, LAG_CELLS] {
            let tolerated = 3.0 * self.lines * correlation * correlation / w;
            let limit = beside_tolerated(deviates.gamma((3 * cells) as f64 / w, P), tolerated);
            if self.correlation(cells) / w > limit {
                return Err(Fault::Correlated);
            }
        }
        // Order within single lines; mean and deviation are those of complex and of real noise.
        let deviation = if w == 2.0 { 4.0 } else { 2.2 };
        let most = Z * (1.0 + 12.0 / self.lines.sqrt()) * deviation / self.lines.sqrt();
        if self.own / self.lines + 3.0 > most + correlation * correlation {
            return Err(Fault::Swept);
        }
        // Power over time.
        for cells in [8, CELLS] {
            let (spread, used, largest) = self.changes(cells, w, deviates);
            // The chi-square of small cells has a longer tail.
            let slack = 1.0 + 14.0 * w * cells as f64 / samples;
            let tolerated = CHANGE * CHANGE * samples / (2.0 * w);
            let limit = slack * deviates.gamma((used - 1.0).max(1.0) / 2.0, P);
            if spread / w > beside_tolerated(limit, tolerated) || largest > 1.0 {
                return Err(Fault::Uneven);
            }
        }
        if self.four / w > deviates.gamma(16.0 / w, (4.0 * P / self.lines).min(0.1)) {
            return Err(Fault::Burst);
        }
        // Heavy tails.
        let mut most = (samples / P).ln();
        let (mut normal, mut variance, mut tail) = (2.0, 4.0, 5.0);
        if w == 2.0 {
            most = deviates.of(0.5 * P / samples).powi(2);
            (normal, variance, tail) = (3.0, 24.0, 9.0);
        }
        let error = Z * (variance / samples).sqrt() * (1.0 + 10.0 * tail / samples.sqrt());
        if self.largest > most || self.fourth / samples - normal > error + TAIL {
            return Err(Fault::Outlier);
        }
        Ok(())
    }

    /// Σ_cells Σ_h |Σ c_h|²/((4-h) lines), over so many cells.
    fn correlation(&self, cells: usize) -> f64 {
        let counts = self.counts.chunks(CELLS / cells);
        let mut all = 0.0;
        for (counts, lags) in counts.zip(self.lags.chunks(LAG_CELLS / cells)) {
            let count = counts.iter().sum::<f64>().max(1.0);
            for h in 0..3 {
                let x: f64 = lags.iter().map(|lag| lag[2 * h]).sum();
                let y: f64 = lags.iter().map(|lag| lag[2 * h + 1]).sum();
                all += (x * x + y * y) / ((3 - h) as f64 * count);
            }
        }
        all
    }

    /// Σ_cells (E - m)²/2m over so many cells, how many of them hold lines, and the largest E of one
    /// in units of its limit.
    fn changes(&self, cells: usize, w: f64, deviates: &mut Deviates) -> (f64, f64, f64) {
        let together = CELLS / cells;
        let (mut spread, mut used, mut largest) = (0.0, 0.0, 0.0f64);
        for (counts, energies) in self.counts.chunks(together).zip(self.energies.chunks(together)) {
            let m = 4.0 * counts.iter().sum::<f64>();
            if m > 0.0 {
                let e: f64 = energies.iter().sum();
                spread += (e - m) * (e - m) / (2.0 * m);
                used += 1.0;
                if cells == CELLS {
                    let limit = w * deviates.gamma(m / w, P / CELLS as f64) + CHANGE * m;
                    largest = largest.max(e / limit);
                }
            }
        }
        (spread, used, largest)
    }
}

/// What is summed over some lines.
#[derive(Debug, Default, PartialEq)]
struct CellSums {
    /// Σ c_h, real and imaginary parts.
    lags: [f64; 6],
    /// Σ (Σ_h |c_h|²/(4-h) - 6 e/4).
    own: f64,
    /// Σ|r|⁴ and the largest |r|².
    fourth: f64,
    largest: f64,
}

dispatch_rows! {
    /// Sums over lines times a factor; appends the energy of each.
    fn sum_cell(lines: &[Line], scale: f64, sums: &mut CellSums, each: &mut Vec<f64>) = sum_cell_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn sum_cell_body<const FMA: bool, R: Row>(
    lines: &[Line],
    scale: f64,
    sums: &mut CellSums,
    each: &mut Vec<f64>,
) {
    let zero = R::Wide::splat(0.0);
    let scale = R::Wide::splat(scale);
    let mut lags = [zero; 6];
    let [mut own, mut fourth, mut largest] = [zero; 3];
    for chunk in lines.chunks(R::Wide::COUNT) {
        let line = |i: usize| chunk.get(i).unwrap_or(&Line::ZERO);
        let eight = [line(0), line(1), line(2), line(3), line(4), line(5), line(6), line(7)];
        let lanes = R::Wide::lanes_of(eight).map(|(re, im)| (re * scale, im * scale));
        let mut e = zero;
        for (re, im) in lanes {
            let square = re.mul_add(re, im * im);
            e = e + square;
            fourth = square.mul_add(square, fourth);
            largest = largest.max(square);
        }
        own = e.mul_add(R::Wide::splat(-1.5), own);
        for h in 1..4 {
            let (mut x, mut y) = (zero, zero);
            for tau in 0..4 - h {
                let ((a, b), (c, d)) = (lanes[tau], lanes[tau + h]);
                x = c.mul_add(a, d.mul_add(b, x));
                y = c.negate_mul_add(b, d.mul_add(a, y));
            }
            let size = x.mul_add(x, y * y);
            own = size.mul_add(R::Wide::splat(1.0 / (4 - h) as f64), own);
            lags[2 * h - 2] = lags[2 * h - 2] + x;
            lags[2 * h - 1] = lags[2 * h - 1] + y;
        }
        each.extend_from_slice(&e.each()[..chunk.len()]);
    }
    let total = |v: R::Wide| v.each().iter().sum::<f64>();
    sums.lags = lags.map(total);
    sums.own = total(own);
    sums.fourth = total(fourth);
    sums.largest = largest.each().into_iter().fold(0.0, f64::max);
}

/// Cell of a time within the record, of so many.
fn cell_of(time: f64, cells: usize) -> usize {
    ((time * cells as f64) as usize).min(cells - 1)
}

/// Limit of a sum of squares that noise keeps below `limit`, beside something tolerated that adds
/// `tolerated` to it.
fn beside_tolerated(limit: f64, tolerated: f64) -> f64 {
    (limit.sqrt() + tolerated.sqrt()).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;
    use testkit::Rng;

    /// White noise of power 1 as residual lines: a comb's offsets, each in order of time.
    fn white(rng: &mut Rng, [bins, offsets]: [usize; 2], real: bool) -> Rest {
        let mut rest = Rest::default();
        for _ in 0..offsets {
            let lines: Vec<_> = (0..bins)
                .map(|j| {
                    let mut line = Line::ZERO;
                    for tau in 0..4 {
                        let v = rng.gaussian();
                        let v = if real { Complex::new(v.re * 2f64.sqrt(), 0.0) } else { v };
                        line.set_lane(tau, v);
                    }
                    (j as f64 / bins as f64, line)
                })
                .collect();
            rest.add(lines.into_iter());
        }
        rest
    }

    /// How many of so many trials are refused, by which test.
    fn refused(trials: usize, shape: [usize; 2], real: bool) -> Vec<Fault> {
        let mut rng = Rng::new(71);
        (0..trials)
            .filter_map(|_| {
                let mut rest = white(&mut rng, shape, real);
                let first = rest.test(real, 0.0);
                let mut parts = |parts: usize| {
                    let size = shape[0] / parts;
                    let fft = BucketFft::new((2 * size).next_power_of_two());
                    rest.test_parts(0, parts, &fft, real, &mut Vec::new())
                };
                first.and_then(|()| parts(4)).and_then(|()| parts(16)).err()
            })
            .collect()
    }

    /// Twelve tests at 1e-5 each: of 4,000 trials more than 4 are refused with a probability below
    /// 1e-4 (Poisson, mean 0.48).
    #[test]
    fn white_noise_is_hardly_ever_refused() {
        for (shape, trials) in [([128, 3], 2400), ([512, 4], 1200), ([4096, 5], 400)] {
            for real in [false, true] {
                let faults = refused(trials / 2, shape, real);
                assert!(faults.len() <= 2, "{shape:?}, real {real}: {faults:?}");
            }
        }
    }

    /// The same with few trials, for unoptimised builds: one test of 1e-5 in 300 trials of twelve refuses
    /// with a probability of 4 %, so the seed is one with which none does.
    #[test]
    fn little_white_noise_is_not_refused() {
        for real in [false, true] {
            assert_eq!(refused(50, [128, 3], real), [], "real {real}");
        }
    }

    #[test]
    fn gamma_variables_have_the_limits_of_wilson_and_hilferty() {
        let mut deviates = Deviates::default();
        // Twice: the second time the deviates are those that were kept.
        for _ in 0..2 {
            for (m, p, limit) in [
                (4.0, 1e-5, 19.069_585_652),
                (4.0, 1e-7, 24.868_422_241),
                (2.0, 1e-5, 14.822_652_129),
                (16.0, 1e-3, 31.293_138_415),
            ] {
                assert!((deviates.gamma(m, p) - limit).abs() < 1e-6, "{m} {p}");
            }
        }
        assert_eq!(deviates.0.len(), 3);
        (0..100).for_each(|i| {
            deviates.of(0.001 + 0.001 * f64::from(i));
            assert!(deviates.0.len() <= 32);
        });
    }

    /// Moments of 1024 lines that are exactly what noise has on average.
    fn average(real: bool) -> Moments {
        Moments {
            lines: 1024.0,
            counts: [16.0; CELLS],
            energies: [64.0; CELLS],
            lags: [[0.0; 6]; LAG_CELLS],
            own: -3.0 * 1024.0,
            largest: 1.0,
            fourth: if real { 3.0 } else { 2.0 } * 4096.0,
            four: 16.0,
        }
    }

    /// Each statistic on either side of its limit. The limits were computed apart from this code, from the
    /// table at the top and with normal deviates by bisection of the error function.
    #[test]
    fn each_test_refuses_above_its_limit() {
        type Change = fn(&mut Moments, f64);
        // Σ_h over the record: 3, 2 and 1 pairs of samples for each line, evenly in all cells.
        let lags: [Change; 6] = [
            |m, v| m.lags.iter_mut().for_each(|lag| lag[0] = (v * 3072.0).sqrt() / 16.0),
            |m, v| m.lags.iter_mut().for_each(|lag| lag[1] = -(v * 3072.0).sqrt() / 16.0),
            |m, v| m.lags.iter_mut().for_each(|lag| lag[2] = (v * 2048.0).sqrt() / 16.0),
            |m, v| m.lags.iter_mut().for_each(|lag| lag[3] = (v * 2048.0).sqrt() / 16.0),
            |m, v| m.lags.iter_mut().for_each(|lag| lag[4] = -(v * 1024.0).sqrt() / 16.0),
            |m, v| m.lags.iter_mut().for_each(|lag| lag[5] = (v * 1024.0).sqrt() / 16.0),
        ];
        // The same in cells, of which the sum over the record knows nothing.
        let cells: Change = |m, v| {
            for (i, lag) in m.lags.iter_mut().enumerate() {
                lag[2] = (v * 2048.0).sqrt() / 16.0 * if i % 2 == 0 { 1.0 } else { -1.0 };
            }
        };
        let own: Change = |m, v| m.own = (v - 3.0) * m.lines;
        let slow: Change = |m, v| {
            for (i, e) in m.energies.iter_mut().enumerate() {
                *e += (2.0 * v).sqrt() * if i < 32 { 1.0 } else { -1.0 };
            }
        };
        let fast: Change = |m, v| {
            for (i, e) in m.energies.iter_mut().enumerate() {
                *e += (2.0 * v).sqrt() * if i % 2 == 0 { 1.0 } else { -1.0 };
            }
        };
        let cell: Change = |m, v| m.energies[17] = v;
        let four: Change = |m, v| m.four = v;
        let largest: Change = |m, v| m.largest = v;
        let fourth: Change = |m, v| m.fourth = v * 4096.0;
        // For complex noise with the tolerated correlations 0.03 and 0.1, then for real noise.
        let mut cases: Vec<(Change, Fault, [f64; 4])> = vec![
            (
                cells,
                Fault::Correlated,
                [116.703_356_268, 215.582_458_568, 138.328_530_559, 244.644_284_833],
            ),
            (
                own,
                Fault::Swept,
                [0.404_065_457_863, 0.413_165_457_863, 0.733_928_105_205, 0.743_028_105_205],
            ),
        ];
        for change in &lags {
            let limits = [33.513_067_705, 93.486_486_826, 47.384_848_172, 115.852_052_317];
            cases.push((*change, Fault::Correlated, limits));
        }
        for (change, fault, complex, real) in [
            (slow, Fault::Uneven, 27.175_069_559, 50.096_591_706),
            (fast, Fault::Uneven, 91.430_089_757, 201.669_902_767),
            (cell, Fault::Uneven, 115.059_560_865, 141.232_313_711),
            (four, Fault::Burst, 47.842_734_936, 67.915_843_525),
            (largest, Fault::Outlier, 19.830_691_632, 35.585_157_947),
            (fourth, Fault::Outlier, 2.287_401_147_7, 3.835_550_860_9),
        ] {
            cases.push((change, fault, [complex, complex, real, real]));
        }
        let mut deviates = Deviates::default();
        for (i, (change, fault, limits)) in cases.iter().enumerate() {
            for (limit, (real, correlation)) in
                limits.iter().zip([(false, 0.03), (false, 0.1), (true, 0.03), (true, 0.1)])
            {
                let w = if real { 2.0 } else { 1.0 };
                assert_eq!(average(real).test(w, correlation, &mut deviates), Ok(()));
                let mut moments = average(real);
                change(&mut moments, limit * (1.0 - 1e-6));
                let below = moments.test(w, correlation, &mut deviates);
                assert_eq!(below, Ok(()), "case {i}, real {real}, {correlation}");
                let mut moments = average(real);
                change(&mut moments, limit * (1.0 + 1e-6));
                let above = moments.test(w, correlation, &mut deviates);
                assert_eq!(above, Err(*fault), "case {i}, real {real}, {correlation}");
            }
        }
    }

    #[test]
    fn correlations_and_changes_are_sums_over_cells() {
        let mut m = average(false);
        for (i, lag) in m.lags.iter_mut().enumerate() {
            *lag = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|v| v + i as f64);
        }
        for (i, count) in m.counts.iter_mut().enumerate() {
            *count = if i < 4 { 0.0 } else { 1.0 + i as f64 };
        }
        let by_hand = |cells: usize| {
            let (mut all, together) = (0.0, 16 / cells);
            for cell in 0..cells {
                let count: f64 = m.counts[64 / cells * cell..64 / cells * (cell + 1)].iter().sum();
                for h in [1, 2, 3] {
                    let sum = |part: usize| -> f64 {
                        (together * cell..together * (cell + 1)).map(|i| m.lags[i][part]).sum()
                    };
                    let size = sum(2 * h - 2).powi(2) + sum(2 * h - 1).powi(2);
                    all += size / ((4 - h) as f64 * count.max(1.0));
                }
            }
            all
        };
        for cells in [1, 16] {
            assert!((m.correlation(cells) / by_hand(cells) - 1.0).abs() < 1e-12, "{cells}");
        }
        // Cells without lines do not count.
        let (mut deviates, mut m) = (Deviates::default(), average(false));
        m.counts[..9].fill(0.0);
        m.energies[..9].fill(0.0);
        m.energies[63] += 8.0;
        m.energies[62] -= 4.0;
        let (spread, used, largest) = m.changes(64, 1.0, &mut deviates);
        assert!((spread - 80.0 / 128.0).abs() < 1e-12 && used == 55.0, "{spread} {used}");
        assert!((largest - 72.0 / 115.059_560_865).abs() < 1e-9, "{largest}");
        let (spread, used, largest) = m.changes(8, 1.0, &mut deviates);
        assert!((spread - 16.0 / 1024.0).abs() < 1e-12 && used == 7.0, "{spread} {used}");
        assert_eq!(largest, 0.0);
    }

    /// Lines with any content, in strands of odd lengths.
    fn strands() -> Rest {
        let (mut rng, mut rest) = (Rng::new(72), Rest::default());
        for (len, scale) in [(37, 1.0), (3, 2.0), (130, 0.5), (1, 3.0)] {
            let lines: Vec<_> = (0..len)
                .map(|j| {
                    let mut line = Line::ZERO;
                    (0..4).for_each(|tau| line.set_lane(tau, rng.gaussian() * scale));
                    (j as f64 / len as f64, line)
                })
                .collect();
            rest.add(lines.into_iter());
        }
        rest
    }

    #[test]
    fn moments_are_those_of_the_definition() {
        let rest = strands();
        let power = rest.power();
        let squares: f64 =
            rest.lines.iter().flat_map(|l| (0..4).map(|tau| l.lane(tau).norm_sqr())).sum();
        assert!((power / (squares / (4.0 * 171.0)) - 1.0).abs() < 1e-12);
        let found = Moments::of(&rest, power, &mut vec![9.0; 5]);
        let mut expected = Moments { lines: 171.0, four: 0.0, ..average(false) };
        (expected.counts, expected.energies) = ([0.0; CELLS], [0.0; CELLS]);
        (expected.own, expected.largest, expected.fourth) = (0.0, 0.0, 0.0);
        for (times, lines) in rest.strands() {
            let mut energies = Vec::new();
            for (time, line) in times.iter().zip(lines) {
                let r: Vec<Complex<f64>> =
                    (0..4).map(|tau| line.lane(tau) / power.sqrt()).collect();
                let e: f64 = r.iter().map(|v| v.norm_sqr()).sum();
                energies.push(e);
                expected.counts[(64.0 * time) as usize] += 1.0;
                expected.energies[(64.0 * time) as usize] += e;
                expected.own -= 1.5 * e;
                for v in &r {
                    expected.fourth += v.norm_sqr().powi(2);
                    expected.largest = expected.largest.max(v.norm_sqr());
                }
                for h in 1..4 {
                    let c: Complex<f64> = (0..4 - h).map(|tau| r[tau + h] * r[tau].conj()).sum();
                    expected.own += c.norm_sqr() / (4 - h) as f64;
                    expected.lags[(16.0 * time) as usize][2 * h - 2] += c.re;
                    expected.lags[(16.0 * time) as usize][2 * h - 1] += c.im;
                }
            }
            for four in energies.chunks(4) {
                expected.four = expected.four.max(four.iter().sum());
            }
        }
        let all = |m: &Moments| -> Vec<f64> {
            let lags = m.lags.iter().flatten().copied();
            let cells = m.counts.iter().chain(&m.energies).copied();
            lags.chain(cells).chain([m.lines, m.own, m.largest, m.fourth, m.four]).collect()
        };
        for (i, (a, b)) in all(&found).iter().zip(all(&expected)).enumerate() {
            assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{i}: {a} {b}");
        }
    }

    #[test]
    fn strands_are_counted_and_forgotten() {
        let mut rest = strands();
        assert_eq!((rest.len(), rest.strand_count()), (171, 4));
        assert_eq!([0, 1, 2, 3, 4].map(|i| rest.strand_len(i)), [37, 3, 130, 1, 0]);
        let largest = rest.lines.iter().flat_map(|l| (0..4).map(|tau| l.lane(tau).norm_sqr()));
        let largest = largest.fold(0.0, f64::max);
        assert!(rest.is_below(largest) && !rest.is_below(largest * (1.0 - 1e-12)));
        rest.clear();
        assert_eq!((rest.len(), rest.strand_count(), rest.power()), (0, 0, 0.0));
        assert!(rest.times.is_empty());
        assert_eq!([0.0, 0.26, 0.99, 1.0, 1.5].map(|t| cell_of(t, 16)), [0, 4, 15, 15, 15]);
    }

    /// Constant lines are not noise, and too few to say so where they are fewer than sixteen.
    #[test]
    fn few_lines_and_silence_pass() {
        for (len, verdict) in [(15, Ok(())), (16, Err(Fault::Correlated))] {
            let mut line = Line::ZERO;
            (0..4).for_each(|tau| line.set_lane(tau, Complex::new(1.0, 0.0)));
            let mut rest = Rest::default();
            rest.add((0..len).map(|j| (j as f64 / len as f64, line)));
            assert_eq!(rest.test(false, 0.0), verdict, "{len} lines");
        }
        let mut rest = Rest::default();
        rest.add((0..100).map(|j| (j as f64 / 100.0, Line::ZERO)));
        assert_eq!(rest.test(false, 0.0), Ok(()));
    }

    /// Neighbours of which 8 % is common pass where fitting may have taken as much, and not elsewhere;
    /// real noise scatters more.
    #[test]
    fn what_fitting_takes_is_tolerated() {
        let coloured = |real: bool| {
            let mut rng = Rng::new(74);
            let mut rest = Rest::default();
            let mut last = Complex::ZERO;
            let lines: Vec<_> = (0..16_384)
                .map(|j| {
                    let mut line = Line::ZERO;
                    for tau in 0..4 {
                        let v = rng.gaussian();
                        let v = if real { Complex::new(v.re * 2f64.sqrt(), 0.0) } else { v };
                        line.set_lane(tau, v + last * 0.08);
                        last = v;
                    }
                    (j as f64 / 16_384.0, line)
                })
                .collect();
            rest.add(lines.into_iter());
            rest
        };
        for real in [false, true] {
            assert_eq!(coloured(real).test(real, 0.0), Err(Fault::Correlated), "{real}");
            assert_eq!(coloured(real).test(real, 0.06), Ok(()), "{real}");
        }
        // As complex noise, real noise has heavy tails.
        assert_eq!(coloured(true).test(false, 0.06), Err(Fault::Outlier));
    }

    /// A comb whose parts each hold one line that is not zero; their energies as shares of all.
    fn clicks(parts: usize, size: usize, shares: &[f64]) -> Rest {
        let mut lines = vec![Line::ZERO; parts * size + size - 1];
        for (part, share) in shares.iter().enumerate() {
            let v = (share / 4.0).sqrt();
            (0..4).for_each(|tau| lines[part * size + 3].set_lane(tau, Complex::new(0.0, v)));
        }
        let mut rest = Rest::default();
        let all = lines.len() as f64;
        rest.add(lines.into_iter().enumerate().map(|(j, line)| (j as f64 / all, line)));
        rest
    }

    /// The spectrum of a part with a single line is even, and its size known.
    #[test]
    fn parts_are_refused_above_their_limit() {
        let (parts, size) = (16, 8);
        let fft = BucketFft::new(16);
        // Bins hold 4·lines/size times the share of their part: 135/2. The limit was computed apart, for a
        // probability of 1e-5 over two parts of real and of imaginary bins.
        let limit = 26.922_087_804_6 / (4.0 * 135.0 / 8.0);
        for (which, fault) in [(0, true), (7, true), (15, true)] {
            for (factor, refused) in [(1.0 - 1e-6, false), (1.0 + 1e-6, fault)] {
                let mut shares = [(1.0 - limit * factor) / 15.0; 16];
                shares[which] = limit * factor;
                let mut rest = clicks(parts, size, &shares);
                for real in [false, true] {
                    let outcome = rest.test_parts(0, parts, &fft, real, &mut Vec::new());
                    let expected = if refused { Err(Fault::PartTime) } else { Ok(()) };
                    assert_eq!(outcome, expected, "{which} {factor} real {real}");
                }
            }
        }
        // What lies behind the last whole part is not looked at, and a strand that is not there neither.
        let mut rest = clicks(parts, size, &[1.0 / 16.0; 16]);
        rest.lines[134].set_lane(0, Complex::new(0.5, 0.0));
        assert_eq!(rest.test_parts(0, parts, &fft, false, &mut Vec::new()), Ok(()));
    }

    /// A tone of so many turns per line in part 5 of 16, beside clicks in the others.
    fn part_time_tone(turns: f64, peak: f64) -> Rest {
        let mut rest = clicks(16, 8, &[1.0 / 16.0; 16]);
        rest.lines.truncate(128);
        rest.times.truncate(128);
        // The peak is |8 a|²·4 over 8 times the mean power.
        let power = |a: f64| (15.0 / 16.0 + 8.0 * 4.0 * a * a) / 512.0;
        let (mut low, mut high) = (0.0, 1e3);
        for _ in 0..200 {
            let a: f64 = 0.5 * (low + high);
            let found = 256.0 * a * a / (8.0 * power(a));
            (low, high) = if found < peak { (a, high) } else { (low, a) };
        }
        for j in 0..8 {
            let v = Complex::from_polar(low, std::f64::consts::TAU * turns * j as f64);
            (0..4).for_each(|tau| rest.lines[40 + j].set_lane(tau, v));
        }
        rest
    }

    /// Real lines may hold more at 0 and at half the rate, and beside these.
    #[test]
    fn real_lines_have_real_bins_that_scatter_more() {
        let fft = BucketFft::new(16);
        let outcome = |turns: f64, peak: f64, real: bool| {
            part_time_tone(turns, peak).test_parts(0, 16, &fft, real, &mut Vec::new())
        };
        let (usual, own) = (26.922_087_804_6, 44.935_870_539_8);
        let refused = Err(Fault::PartTime);
        for bin in 0..16 {
            let turns = f64::from(bin) / 16.0;
            for real in [false, true] {
                let exempt = real && [0, 1, 2, 6, 7, 8, 9, 10, 14, 15].contains(&bin);
                let limit = if exempt { own } else { usual };
                assert_eq!(outcome(turns, limit * (1.0 - 1e-6), real), Ok(()), "{bin} {real}");
                assert_eq!(outcome(turns, limit * (1.0 + 1e-6), real), refused, "{bin} {real}");
            }
        }
    }

    #[test]
    fn what_may_stay_unnoticed_is_what_is_tolerated_or_too_small() {
        for (lines, fitted, limit) in
            [(100, 0.01, 0.325), (100, 0.5, 0.53), (1_000_000, 0.01, 0.04), (0, 0.0, 6.5)]
        {
            assert!((rest_limit(lines, fitted) - limit).abs() < 1e-12, "{lines} {fitted}");
        }
        assert!((beside_tolerated(9.0, 4.0) - 25.0).abs() < 1e-12);
    }

    /// The same at length: `cargo test --release -p sparsefft calibration -- --ignored --nocapture`.
    #[test]
    #[ignore = "takes minutes; prints the rate of false refusals"]
    fn calibration() {
        for (shape, trials) in [([128, 3], 200_000), ([512, 4], 60_000), ([4096, 5], 6_000)] {
            for real in [false, true] {
                let faults = refused(trials, shape, real);
                println!("{shape:?} real {real}: {} of {trials}: {faults:?}", faults.len());
            }
        }
    }
}
