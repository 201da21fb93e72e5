//! The judge: whether the samples that were read agree with an answer.
//!
//! Explained bins are not enough for a certificate. A window weighs the ends of a record down to
//! 1e-6, the hash of a failed attempt is forgotten, and a sweep fills all bins as noise does. So an
//! answer is compared with the [samples that were read](evidence), in all attempts:
//!
//! - every set of samples by [one weighted sum](checksum), which no sample that differs from the
//!   answer by more than noise and rounding escapes;
//! - where there is noise, by [tests of the residual](rest): it must be white and stationary.

mod checksum;
mod evidence;
mod residual;
mod rest;

use checksum::agrees;
pub(crate) use checksum::{Eight, RunningSum, eights_of};
pub(crate) use evidence::{Evidence, ReadSet, read_again};
pub(crate) use residual::{Turning, add_comb, add_lines, read_witness};
pub(crate) use rest::{Fault, Rest, rest_limit};

use crate::Error;
use crate::algorithms::Run;
use crate::samples::Line;

/// Buffers of the judge, kept from one transform to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The answer by eights.
    pub(crate) answer: Vec<Eight>,
    /// The residual.
    pub(crate) rest: Rest,
    /// Lines with any content.
    pub(crate) lines: Vec<Line>,
    /// The answer while it is subtracted from lines.
    pub(crate) turning: Vec<Turning>,
}

/// So many lines with any content, from a buffer that never shrinks: clearing what is overwritten
/// anyway would take longer than the tests.
fn grown(buffer: &mut Vec<Line>, len: usize) -> &mut [Line] {
    if buffer.len() < len {
        buffer.resize(len, Line::ZERO);
    }
    &mut buffer[..len]
}

/// Reason given where samples that were read contradict an answer that explains all bins.
pub(crate) const CONTRADICTED: &str =
    "samples that were read differ from the answer: the signal changes over the record";

/// A rest that is small enough to be called explained, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerance {
    /// Relative L2 norm of a rest that is explained.
    pub(crate) share: f64,
    /// Power of one sample, everything included.
    pub(crate) power: f64,
    /// Step between neighbouring values of a sample, 0 where it is too small to matter.
    pub(crate) step: f64,
    /// Sum of all amplitudes |a|.
    pub(crate) sum: f64,
}

impl Tolerance {
    /// Whether noise of this power per sample is that of rounding, or below the tolerance.
    pub(crate) fn covers(&self, noise: f64, real: bool) -> bool {
        /// Uniform rounding has the power 1/12 per part; what it is estimated as scatters.
        const ROUNDED: f64 = 1.5 / 12.0;
        let parts = if real { 1.0 } else { 2.0 };
        noise <= self.share * self.share * self.power * (1.0 + 1e-9)
            || noise <= ROUNDED * parts * self.step * self.step
    }

    /// Largest |r|² of a single residual sample that is tolerated.
    pub(crate) fn largest(&self, real: bool) -> f64 {
        let parts: f64 = if real { 1.0 } else { 2.0 };
        let tolerated = PEAK * self.share * self.power.sqrt();
        let rounded = STEPS * parts.sqrt() * self.step + 1e-9 * self.sum;
        tolerated.max(rounded).powi(2)
    }

    /// Power of one sample that a rest of this measured power may add to the sum over a set: what
    /// is tolerated need not be white. It follows what was measured, since a sum over many samples
    /// that had the whole tolerance for each would let a click of a thousand times that much pass.
    pub(crate) fn in_sums(&self, noise: f64, real: bool) -> f64 {
        let parts: f64 = if real { 1.0 } else { 2.0 };
        let tolerated = noise.min(self.share * self.share * self.power);
        PEAK * PEAK * tolerated + parts * (STEPS * self.step).powi(2)
    }
}

/// Largest over rms of an explained rest; errors of phases grow over the record.
const PEAK: f64 = 8.0;
/// Half a step, and what errors of the amplitudes add to it.
const STEPS: f64 = 0.75;

/// How far samples may differ from a right answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Doubt {
    /// Sum of all amplitudes |a|, in units of which rounding is measured.
    pub(crate) sum: f64,
    /// Relative error of each amplitude that is no noise: leakage of windows.
    pub(crate) relative: f64,
    /// Noise power σ² of one sample.
    pub(crate) noise: f64,
    /// Samples that each amplitude rests on.
    pub(crate) informing: f64,
}

/// Whether an answer agrees with every set of samples that was read, except those that
/// `is_explained` excludes because each of their samples has been compared already.
pub(crate) fn agrees_with_reads(
    run: &Run<'_>,
    answer: &[Eight],
    doubt: &Doubt,
    is_explained: impl Fn(&ReadSet) -> bool,
) -> Result<bool, Error> {
    for set in run.workspace.evidence.sets() {
        if !is_explained(set) && !agrees(run, set, answer, doubt)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As [`agrees_with_reads`], long sets part by part: noise hides in the sum over T lines what differs
/// by less than 5σ√T. An eight of coefficients costs each part as much as forty lines cost when they
/// are read again, so that parts are as long as sums remain the smaller share.
pub(crate) fn agrees_in_parts(
    run: &Run<'_>,
    answer: &[Eight],
    doubt: &Doubt,
    is_explained: impl Fn(&ReadSet) -> bool,
) -> Result<bool, Error> {
    /// Lines of a part, at least and for each eight coefficients.
    const LEAST: usize = 256;
    const PER_EIGHT: usize = 64;
    let n = run.plan.problem.n;
    let usual = LEAST.max(PER_EIGHT * answer.len());
    for set in run.workspace.evidence.sets().iter().filter(|set| !is_explained(set)) {
        let count = set.count.div_ceil((set.count / usual).max(1)).max(1);
        for first in (0..set.count).step_by(count) {
            let part = set.part(first, count.min(set.count - first), n);
            if !agrees(run, &part, answer, doubt)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;
    use crate::cpu::ticks::Stopwatch;
    use crate::plan::{Plan, Workspace};
    use crate::problem::Problem;

    /// A thousandth of the amplitude 2.
    const TOLERANCE: Tolerance = Tolerance { share: 1e-3, power: 4.0, step: 0.0, sum: 0.0 };

    #[test]
    fn noise_is_covered_up_to_the_tolerance_or_to_rounding() {
        for (tolerance, complex, real) in [
            (TOLERANCE, 4e-6, 4e-6),
            // 1.5 times 1/12 of a squared step, once for each part.
            (Tolerance { step: 0.01, ..TOLERANCE }, 2.5e-5, 1.25e-5),
            (Tolerance { share: 0.0, step: 4.0, ..TOLERANCE }, 4.0, 2.0),
            (Tolerance { share: 0.5, step: 0.01, ..TOLERANCE }, 1.0, 1.0),
        ] {
            for (real, most) in [(false, complex), (true, real)] {
                assert!(tolerance.covers(most * (1.0 - 1e-6), real), "{tolerance:?} {real}");
                assert!(!tolerance.covers(most * (1.0 + 1e-6), real), "{tolerance:?} {real}");
            }
        }
        // A hair more than the tolerance itself, for rounding.
        assert!(TOLERANCE.covers(4e-6 * (1.0 + 5e-10), false));
        assert!(!TOLERANCE.covers(4e-6 * (1.0 + 2e-9), false));
    }

    #[test]
    fn single_samples_are_tolerated_up_to_the_larger_limit() {
        for (tolerance, complex, real) in [
            (TOLERANCE, 0.016, 0.016),
            (Tolerance { step: 1.0, ..TOLERANCE }, 0.75 * 2f64.sqrt(), 0.75),
            (Tolerance { step: 1.0, sum: 2e8, ..TOLERANCE }, 0.75 * 2f64.sqrt() + 0.2, 0.95),
            (Tolerance { sum: 1e8, ..TOLERANCE }, 0.1, 0.1),
            (Tolerance { share: 0.5, step: 1.0, sum: 1e8, ..TOLERANCE }, 8.0, 8.0),
        ] {
            for (real, most) in [(false, complex), (true, real)] {
                let ratio = tolerance.largest(real) / (most * most);
                assert!((ratio - 1.0).abs() < 1e-9, "{tolerance:?} {real} {ratio}");
            }
        }
    }

    #[test]
    fn buffers_grow_and_never_shrink() {
        let mut buffer = Vec::new();
        for (len, kept) in [(3, 3), (5, 5), (2, 5), (5, 5)] {
            assert_eq!(grown(&mut buffer, len).len(), len);
            assert_eq!(buffer.len(), kept);
        }
    }

    /// Three sets of a constant signal of which one sample differs.
    #[test]
    fn every_set_that_is_not_explained_is_compared() {
        let n = 4096;
        let mut x = vec![Complex::new(1.0, 0.0); n];
        x[1001] *= 1.5;
        let plan = Plan::new(Problem::new(n as u64).sparsity(1)).unwrap();
        let mut workspace = Workspace::default();
        let run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
        for start in [0, 1000, 2000] {
            run.workspace.evidence.note(ReadSet::lines(start, 8, 100));
        }
        let one = Complex::new(1.0, 0.0);
        let coefficient = crate::stages::peel::Coefficient { f: 0, a: one, z: one };
        let mut answer = Vec::new();
        eights_of(std::iter::once(coefficient), &mut answer);
        let doubt = Doubt { sum: 1.0, relative: 0.0, noise: 0.0, informing: 1.0 };
        let outcome = |explained: &[u64]| {
            agrees_with_reads(&run, &answer, &doubt, |set| explained.contains(&set.start)).unwrap()
        };
        assert!(outcome(&[1000]) && outcome(&[0, 1000]) && outcome(&[0, 1000, 2000]));
        assert!(!outcome(&[]) && !outcome(&[0, 2000]));
    }
}
