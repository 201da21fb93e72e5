//! certify: what must hold before tones are called certified.
//!
//! (a) Every bin of the first comb is explained to its floor.
//! (b) A comb of another stride, which took no part in the decoding, less the tones: its largest
//!     bin, its mean and its spread are those of noise. The spread of the bins' energies is what
//!     tells a crowd of tones, too many for the bins, from noise: energies of noise over M lanes
//!     scatter by 1/√M, those of tones by more.
//! (c) Every tone stands in that comb by itself: without it, its amplitude would be left there.
//! (d) No tone bends: what is left of its bins does not follow the second derivative of the
//!     response, as a drift or a second tone nearer than the resolution would.
//! (e) No two tones are nearer than [`RESOLVED`] bins.
//! (f) What is left of the samples themselves, without a window, is white and stationary noise
//!     ([`Rest`]). In the bins a sweep over all frequencies is noise; within a line of four samples
//!     it is one tone, whose frequency is another in every line.

use super::comb::{Comb, Tone, above, turn};
use super::locate::LEAK;
use super::refine::Floor;
use crate::algorithms::Run;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;
use crate::judge::{ReadSet, Rest, read_again};
use crate::samples::Line;
use crate::stages::certify::threshold;
use crate::{Complex, Error};

/// Tones nearer than this many bins are a cluster.
pub(crate) const RESOLVED: f64 = 2.75;

/// What the verification comb says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verification {
    /// Bins above the threshold.
    pub(crate) unexplained: u64,
    /// Bins compared.
    pub(crate) tested: u64,
    /// Relative variance of the energies times the lanes: 1 for white noise.
    pub(crate) spread: f64,
    /// Whether mean and spread are those of noise.
    pub(crate) quiet: bool,
    /// Smallest amplitude that would have been seen.
    pub(crate) limit: f64,
}

/// Compares the residual of a verification comb with noise of power s² per lane, which the first
/// comb knows with the relative error `uncertainty`.
pub(crate) fn verify(
    comb: &Comb,
    floor: &Floor,
    z: f64,
    skip: &[bool],
    uncertainty: f64,
) -> Verification {
    let lanes = comb.lanes();
    let m = lanes as f64;
    let leak = LEAK * m * floor.leak2;
    let limit = (floor.s2 * threshold(lanes, z)).max(leak);
    let (mut unexplained, mut tested, mut sum, mut square) = (0, 0u64, 0.0, 0.0);
    if skip.is_empty() {
        tested = comb.bins() as u64;
        unexplained = above(&comb.energy, limit) as u64;
        (sum, square) = moments(&comb.energy);
    }
    for (_, &e) in skip.iter().zip(&comb.energy).filter(|(skip, _)| !**skip) {
        tested += 1;
        unexplained += u64::from(e > limit);
        sum += e;
        square += e * e;
    }
    let count = (tested as f64).max(1.0);
    let average = sum / count;
    let mean = average / m;
    let variance = (square / count - average * average).max(0.0);
    let spread = if average > 0.0 { variance / (average * average) * m } else { 1.0 };
    // Neighbouring bins share noise, so that about half of them count.
    let independent = 0.5 * count;
    let mean_error = (1.0 / (m * independent)).sqrt() + uncertainty;
    let spread_error = ((2.0 + 6.0 / m) / independent).sqrt();
    let noisy = floor.white;
    // Less scatter than that of noise is no noise either: a sweep fills all bins evenly.
    let even = spread > 0.95 - 7.0 * spread_error;
    let uneven = spread > 1.05 + 7.0 * spread_error;
    let quiet = !noisy || (mean < floor.s2 * (1.02 + 6.0 * mean_error) && even && !uneven);
    // Half way between two bins the response is lowest.
    let (edge, _) = comb.window.response::<false>(F4::splat(0.5));
    // Noise in phase with a tone has half of the power and may weaken it by z deviations.
    let shown = limit.sqrt() + z * (0.5 * floor.s2).sqrt();
    let limit = shown / m.sqrt() / edge.0[0];
    Verification { unexplained, tested, spread, quiet, limit }
}

dispatch! {
    /// The sum and the sum of squares.
    fn moments(energy: &[f64]) -> (f64, f64) = moments_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn moments_body<const FMA: bool>(energy: &[f64]) -> (f64, f64) {
    let (four, rest) = energy.as_chunks::<4>();
    let (mut sum, mut square) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
    for e in four {
        sum = sum + F4(*e);
        square = F4(*e).mul_add(F4(*e), square);
    }
    let (mut sum, mut square) = (sum.sum(), square.sum());
    for e in rest {
        sum += e;
        square += e * e;
    }
    (sum, square)
}

/// How a tone stands in the verification comb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there.
    Confirmed,
    /// It is not: a ghost of the decoding.
    Absent,
    /// Too weak to tell.
    Weak,
}

/// How a tone stands whose amplitude is `left` over in a comb that it is peeled from.
pub(crate) fn standing(comb: &Comb, tone: &Tone, left: Complex<f64>, floor: &Floor) -> Standing {
    let a = tone.amplitude;
    // Present: left ≈ 0; absent: left ≈ -a. Half way is the border.
    let share = 1.0 + (left * a.conj()).re / a.norm_sqr();
    // Correlated bins: the sum over four has at most 1.6 times the noise of one.
    let std = (1.6 * floor.s2.max(floor.leak2) / (2.0 * comb.lanes() as f64)).sqrt();
    if share < 0.5 {
        Standing::Absent
    } else if 0.5 * a.norm() < 5.0 * std {
        Standing::Weak
    } else {
        Standing::Confirmed
    }
}

/// Residual lines that are tested, times the number of tones, and the bounds of their number.
const WORK: usize = 49_152;
const LINES: (usize, usize) = (256, 4096);

/// Lines of a record of n samples that hardly share samples: noise that is counted twice would look
/// correlated.
pub(crate) fn independent(n: u64) -> usize {
    (n / 16) as usize
}

/// Gathers residual lines from everything that was read, evenly over all sets; all lines of the
/// witness, which alone covers the whole record.
pub(crate) fn residual_lines(
    run: &Run<'_>,
    tones: &[Tone],
    witness: Option<ReadSet>,
    rest: &mut Rest,
) -> Result<(), Error> {
    let n = run.plan.problem.n;
    let sets = run.workspace.evidence.sets();
    let all: usize = sets.iter().map(|set| set.count).sum();
    let most = (WORK / tones.len().max(1)).clamp(LINES.0, LINES.1).min(independent(n));
    rest.clear();
    for set in sets {
        let share = (most * set.count).div_ceil(all.max(1)).max(1);
        let is_witness = witness.is_some_and(|w| (w.start, w.step) == (set.start, set.step));
        let every = if is_witness { 1 } else { set.count.div_ceil(share) };
        let mut lines = vec![Line::ZERO; set.count.div_ceil(every)];
        read_again(run, set, [0, every], &mut lines)?;
        let stride = every as u64 * set.step;
        let start = set.start as f64 - 0.5 * n as f64;
        for tone in tones {
            subtract(&mut lines, tone, start, stride as f64);
        }
        // Tone combs do not pass the end of the record, so that their lines are in order of time.
        let time = |i: usize| (set.start + i as u64 * stride) as f64 / n as f64;
        rest.add(lines.into_iter().enumerate().map(|(i, line)| (time(i), line)));
    }
    Ok(())
}

/// Subtracts a tone from lines that begin at `start`, counted from the middle of the record, and
/// follow each other every `stride` samples.
fn subtract(lines: &mut [Line], tone: &Tone, start: f64, stride: f64) {
    // Fresh phases every few lines keep rounding small.
    const BLOCK: usize = 32;
    for (i, block) in lines.chunks_mut(BLOCK).enumerate() {
        let t = start + (i * BLOCK) as f64 * stride;
        if tone.drift != 0.0 {
            for (r, line) in block.iter_mut().enumerate() {
                for tau in 0..4 {
                    let t = t + r as f64 * stride + tau as f64;
                    let v = tone.amplitude * turn(tone.nu * t + 0.5 * tone.drift * t * t);
                    line.set_lane(tau, line.lane(tau) - v);
                }
            }
            continue;
        }
        let mut model = Line::ZERO;
        for tau in 0..4 {
            model.set_lane(tau, tone.amplitude * turn(tone.nu * (t + tau as f64)));
        }
        rotate_away(block, &model, turn(tone.nu * stride));
    }
}

dispatch! {
    /// Subtracts a line from each of these, turned by z from one to the next.
    fn rotate_away(lines: &mut [Line], model: &Line, z: Complex<f64>) = rotate_away_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn rotate_away_body<const FMA: bool>(lines: &mut [Line], model: &Line, z: Complex<f64>) {
    let (mut re, mut im) = (F4::<FMA>(model.re), F4::<FMA>(model.im));
    let (c, s) = (F4::splat(z.re), F4::splat(z.im));
    for line in lines {
        line.re = (F4(line.re) - re).0;
        line.im = (F4(line.im) - im).0;
        (re, im) = (im.negate_mul_add(s, re * c), re.mul_add(s, im * c));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtracting_leaves_nothing_of_a_tone() {
        let tone = Tone { nu: 0.123_456, amplitude: Complex::new(0.3, -1.0), drift: 0.0 };
        let (start, stride) = (-5000.0, 77.0);
        let mut lines = vec![Line::ZERO; 100];
        for (r, line) in lines.iter_mut().enumerate() {
            for tau in 0..4 {
                let t = start + r as f64 * stride + tau as f64;
                line.set_lane(tau, tone.amplitude * turn(tone.nu * t));
            }
        }
        subtract(&mut lines, &tone, start, stride);
        let left = |line: &Line| (0..4).map(|tau| line.lane(tau).norm()).fold(0.0, f64::max);
        assert!(lines.iter().map(left).fold(0.0, f64::max) < 1e-12);
    }

    use crate::algorithms::tones::comb::Geometry;
    use crate::cpu::ticks::Stopwatch;
    use crate::plan::{Plan, Workspace};
    use crate::problem::Problem;

    #[test]
    fn subtracting_leaves_nothing_of_a_tone_that_drifts() {
        let tone = Tone { nu: 0.123_456, amplitude: Complex::new(0.3, -1.0), drift: 1e-7 };
        let (start, stride) = (-5000.0, 77.0);
        let mut lines = vec![Line::ZERO; 100];
        for (r, line) in lines.iter_mut().enumerate() {
            for tau in 0..4 {
                let t = start + r as f64 * stride + tau as f64;
                let turns = (tone.nu + 0.5e-7 * t) * t;
                let angle = std::f64::consts::TAU * turns.fract();
                line.set_lane(tau, tone.amplitude * Complex::from_polar(1.0, angle) + 1.0);
            }
        }
        subtract(&mut lines, &tone, start, stride);
        for (r, line) in lines.iter().enumerate() {
            (0..4).for_each(|tau| assert!((line.lane(tau) - 1.0).norm() < 1e-9, "line {r}"));
        }
    }

    /// A comb of 4096 bins whose energies are those given, over 4·`offsets` lanes.
    fn comb(offsets: u64, energy: Vec<f64>) -> Comb {
        let plan = Plan::new(Problem::new(1 << 20)).unwrap();
        let geometry = Geometry::new(1 << 20, energy.len(), 0, 0).unwrap();
        let mut comb = Comb::new(plan.prepared(), geometry, 14.0);
        (0..offsets).for_each(|j| comb.offsets.push(4 * j));
        comb.energy = energy;
        comb
    }

    /// Energies around a mean with so large a relative variance, times the lanes.
    fn energies(count: usize, mean: f64, spread: f64, lanes: f64) -> Vec<f64> {
        let d = (spread / lanes).sqrt();
        (0..count).map(|i| mean * if i % 2 == 0 { 1.0 - d } else { 1.0 + d }).collect()
    }

    const FLOOR: Floor = Floor { s2: 2.0, leak2: 0.0, white: true };

    #[test]
    fn bins_above_the_limit_are_counted() {
        let threshold = 2.0 * threshold(8, 5.0);
        for (leak2, limit) in [(0.0, threshold), (1.0, 96.0), (0.01, threshold)] {
            let mut energy = vec![16.0; 256];
            energy[7] = limit * (1.0 - 1e-9);
            energy[77] = limit * (1.0 + 1e-9);
            energy[78] = limit * 3.0;
            let mut skip = vec![false; 256];
            let comb = comb(2, energy);
            let floor = Floor { leak2, ..FLOOR };
            let all = verify(&comb, &floor, 5.0, &[], 0.0);
            assert_eq!((all.unexplained, all.tested), (2, 256));
            let same = verify(&comb, &floor, 5.0, &skip, 0.0);
            assert_eq!((same.unexplained, same.tested), (2, 256));
            assert!((same.spread / all.spread - 1.0).abs() < 1e-12);
            skip[78] = true;
            skip[3] = true;
            let some = verify(&comb, &floor, 5.0, &skip, 0.0);
            assert_eq!((some.unexplained, some.tested), (1, 254));
            // Between two bins: what the response is lowered to.
            let edge = comb.window.response::<false>(F4::splat(0.5)).0.0[0];
            assert!(edge > 0.1 && edge < 0.999);
            // Five deviations of noise of power 2, of which half is in phase, may hide as much again.
            let shown = (limit.sqrt() + 5.0) / 8f64.sqrt();
            assert!((all.limit * edge / shown - 1.0).abs() < 1e-12);
        }
    }

    /// Mean and spread on either side of their limits, which are computed by hand: of 4096 bins count 2048.
    #[test]
    fn quiet_bins_have_the_mean_and_the_spread_of_noise() {
        let quiet = |mean: f64, spread: f64, uncertainty: f64, white: bool| {
            let comb = comb(1, energies(4096, 4.0 * mean, spread, 4.0));
            let floor = Floor { white, ..FLOOR };
            let seen = verify(&comb, &floor, 9.0, &[], uncertainty);
            assert!((seen.spread - spread).abs() < 1e-9, "{} {spread}", seen.spread);
            seen.quiet
        };
        // √(1/(4·2048)), √((2 + 6/4)/2048).
        let (mean_error, spread_error) = (0.011_048_543_456, 0.041_339_864_235);
        for uncertainty in [0.0, 0.03] {
            let most = 2.0 * (1.02 + 6.0 * (mean_error + uncertainty));
            assert!(quiet(most * (1.0 - 1e-9), 1.0, uncertainty, true));
            assert!(!quiet(most * (1.0 + 1e-9), 1.0, uncertainty, true));
            assert!(quiet(most * 2.0, 9.0, uncertainty, false), "leakage has any shape");
        }
        let (least, most) = (0.95 - 7.0 * spread_error, 1.05 + 7.0 * spread_error);
        for (spread, expected) in
            [(least - 1e-6, false), (least + 1e-6, true), (most - 1e-6, true), (most + 1e-6, false)]
        {
            assert_eq!(quiet(2.0, spread, 0.0, true), expected, "{spread}");
        }
        // More lanes scatter less.
        let (least, most) = (0.95 - 7.0 * (2.375f64 / 2048.0).sqrt(), 1.0);
        for (spread, expected) in [(least - 1e-6, false), (least + 1e-6, true), (most, true)] {
            let comb = comb(4, energies(4096, 32.0, spread, 16.0));
            assert_eq!(verify(&comb, &FLOOR, 9.0, &[], 0.0).quiet, expected, "{spread}");
        }
        // Silence is even.
        let silent = verify(&comb(1, vec![0.0; 256]), &FLOOR, 5.0, &[], 0.0);
        assert_eq!((silent.spread, silent.unexplained, silent.quiet), (1.0, 0, true));
    }

    #[test]
    fn sums_over_bins_of_any_number() {
        for count in [0usize, 1, 3, 4, 7, 12] {
            let energy: Vec<f64> = (1..=count).map(|i| i as f64).collect();
            let square = energy.iter().map(|e| e * e).sum::<f64>();
            assert_eq!(moments(&energy), (energy.iter().sum(), square));
        }
    }

    #[test]
    fn a_tone_stands_where_less_than_half_of_it_is_left() {
        let comb = comb(2, vec![1.0; 64]);
        let tone = Tone { nu: 0.1, amplitude: Complex::new(3.0, -4.0), drift: 0.0 };
        let at = |share: f64, s2: f64, leak2: f64| {
            let left = tone.amplitude * (share - 1.0) + Complex::new(4.0, 3.0);
            standing(&comb, &tone, left, &Floor { s2, leak2, white: true })
        };
        for (share, expected) in [
            (1.0, Standing::Confirmed),
            (0.501, Standing::Confirmed),
            (0.499, Standing::Absent),
            (0.0, Standing::Absent),
            (1.4, Standing::Confirmed),
        ] {
            assert_eq!(at(share, 0.01, 0.0), expected, "{share}");
        }
        // 5·√(1.6·s²/16) is half of the amplitude 5 at s² = 2.5.
        for (s2, expected) in [(2.4999, Standing::Confirmed), (2.5001, Standing::Weak)] {
            assert_eq!(at(1.0, s2, 0.0), expected, "{s2}");
            assert_eq!(at(1.0, 0.0, s2), expected, "{s2}");
            assert_eq!(at(1.0, s2, s2 - 1.0), expected, "{s2}");
        }
        assert_eq!(at(0.1, 9.0, 9.0), Standing::Absent);
    }

    /// Lines evenly over all sets and all of the witness, less the tones, with their times.
    #[test]
    fn residual_lines_come_from_every_set() {
        let n = 1u64 << 16;
        let tone = |i: u32| Tone {
            nu: 0.017 * f64::from(i) - 0.2,
            amplitude: Complex::from_polar(1.0, f64::from(i)),
            drift: 0.0,
        };
        for (count, lines) in [(1, [500, 3500]), (24, [250, 1750]), (200, [32, 219])] {
            let tones: Vec<Tone> = (0..count).map(tone).collect();
            let sets = [ReadSet::lines(40, 60, 1000), ReadSet::lines(3, 9, 7000)];
            let mut x = vec![Complex::new(9.0, 9.0); n as usize];
            let few = if count > 1 { 3 } else { 1 };
            for t in sets.iter().flat_map(|s| (0..s.count).map(|i| s.place(i, n))) {
                for t in t..t + 4 {
                    x[t as usize] = Complex::new(t as f64, 0.0);
                    for tone in &tones[..few] {
                        let turns = tone.nu * (t as f64 - 32_768.0);
                        x[t as usize] += tone.amplitude * turn(turns);
                    }
                }
            }
            // Those beyond the first are there to be counted.
            let mut tones = tones;
            tones.iter_mut().skip(few).for_each(|tone| tone.amplitude = Complex::ZERO);
            let plan = Plan::new(Problem::new(n)).unwrap();
            let mut workspace = Workspace::default();
            let run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
            sets.iter().for_each(|set| run.workspace.evidence.note(*set));
            for witness in [None, Some(sets[0]), Some(sets[1])] {
                if count > 1 && witness.is_some() {
                    continue;
                }
                let mut rest = Rest::default();
                rest.add(std::iter::once((0.5, Line::ZERO)));
                residual_lines(&run, &tones, witness, &mut rest).unwrap();
                let mut expected = lines;
                for (expected, set) in expected.iter_mut().zip(&sets) {
                    if witness.is_some_and(|w| w.start == set.start) {
                        *expected = set.count;
                    }
                }
                assert_eq!([0, 1].map(|i| rest.strand_len(i)), expected, "{count} {witness:?}");
                assert_eq!(rest.strand_count(), 2);
                for (set, (times, lines)) in sets.iter().zip(rest.strands()) {
                    let every = set.count.div_ceil(lines.len());
                    for (i, (time, line)) in times.iter().zip(lines).enumerate() {
                        let place = set.place(every * i, n) as f64;
                        assert!((time * n as f64 - place).abs() < 1e-6);
                        for tau in 0..4 {
                            let left = line.lane(tau) - place - tau as f64;
                            assert!(left.norm() < 1e-6, "{count}: {left} at {place}");
                        }
                    }
                }
            }
        }
        assert_eq!(independent(1600), 100);
    }
}
