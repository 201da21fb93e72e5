//! The samples that a transform has read, in all of its attempts, as arithmetic progressions.
//!
//! An answer is compared with every one of these sets before it is certified. Sets of signals in
//! memory are read a second time for that; lines that came from elsewhere (a file, a function) are
//! kept, up to a limit, since fetching them again would cost as much as the transform.

use crate::algorithms::Run;
use crate::samples::{Line, Samples, progression, read_in_parts};
use crate::{Complex, Error};

/// Lines kept of a signal outside memory: 16 MiB. Beyond that, lines are fetched again.
const MAX_KEPT_LINES: usize = 1 << 18;

/// Lines, or single samples, whose starts form an arithmetic progression modulo n.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadSet {
    /// Index of the first sample of the first line.
    pub(crate) start: u64,
    /// Distance from one line to the next.
    pub(crate) step: u64,
    /// Number of lines.
    pub(crate) count: usize,
    /// Samples per line: 4 or 1.
    pub(crate) width: usize,
    /// Index of the first line among the kept lines.
    kept: Option<usize>,
    /// The weighted sum of the samples, if it was taken while they were read.
    pub(super) sum: Option<Complex<f64>>,
}

impl ReadSet {
    /// Lines of four samples.
    pub(crate) fn lines(start: u64, step: u64, count: usize) -> Self {
        ReadSet { start, step, count, width: 4, kept: None, sum: None }
    }

    /// Single samples.
    pub(crate) fn singles(start: u64, step: u64, count: usize) -> Self {
        ReadSet { start, step, count, width: 1, kept: None, sum: None }
    }

    /// The same with the weighted sum of its samples.
    pub(crate) fn with_sum(self, sum: Complex<f64>) -> Self {
        ReadSet { sum: Some(sum), ..self }
    }

    /// Lines `first` to `first + count`, of a signal of n samples, as a set of their own.
    pub(super) fn part(&self, first: usize, count: usize, n: u64) -> Self {
        let kept = self.kept.map(|at| at + first);
        ReadSet { start: self.place(first, n), count, kept, sum: None, ..*self }
    }

    /// Whether the comb whose lines are `step` apart and begin at one of `offsets` contains all
    /// lines of this set.
    pub(crate) fn is_part_of_comb(&self, step: u64, offsets: &[u64]) -> bool {
        self.width == 4
            && self.step.is_multiple_of(step)
            && offsets.iter().any(|d| self.start % step == d % step)
    }

    /// Index of the first sample of line i of a signal of n samples.
    pub(crate) fn place(&self, i: usize, n: u64) -> u64 {
        progression(self.start, self.step, i as u64, n)
    }
}

/// Everything that was read so far.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    sets: Vec<ReadSet>,
    kept: Vec<Line>,
}

impl Evidence {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.sets.clear();
        self.kept.clear();
    }

    /// Records a set of samples.
    pub(crate) fn note(&mut self, set: ReadSet) {
        self.sets.push(set);
    }

    /// Records lines, with a copy where the signal does not lie in memory; returns the set, which
    /// knows of the copy.
    pub(crate) fn note_lines(
        &mut self,
        mut set: ReadSet,
        lines: &[Line],
        in_memory: bool,
    ) -> ReadSet {
        if !in_memory && self.kept.len() + lines.len() <= MAX_KEPT_LINES {
            set.kept = Some(self.kept.len());
            self.kept.extend_from_slice(lines);
        }
        self.sets.push(set);
        set
    }

    /// The sets in the order in which they were read.
    pub(crate) fn sets(&self) -> &[ReadSet] {
        &self.sets
    }
}

/// Reads lines `first`, `first + every`, … of a set once more, one for each of `out`. Of single
/// samples only lane 0 is set.
pub(crate) fn read_again(
    run: &Run<'_>,
    set: &ReadSet,
    [first, every]: [usize; 2],
    out: &mut [Line],
) -> Result<(), Error> {
    if let Some(at) = set.kept {
        let lines = &run.workspace.evidence.kept[at + first..at + set.count];
        out.iter_mut().zip(lines.iter().step_by(every)).for_each(|(to, line)| *to = *line);
        return Ok(());
    }
    let n = run.plan.problem.n;
    let start = set.place(first, n);
    let step = progression(0, set.step, every as u64, n);
    if set.width == 4 {
        return read_in_parts(run.signal, start, step, out);
    }
    read_singles(run.signal, start, step, out)
}

/// Reads single samples into lane 0 of each line.
fn read_singles(
    signal: &dyn Samples,
    start: u64,
    step: u64,
    out: &mut [Line],
) -> Result<(), Error> {
    const BLOCK: usize = 256;
    let mut values = [Complex::ZERO; BLOCK];
    for (i, part) in out.chunks_mut(BLOCK).enumerate() {
        let at = progression(start, step, (i * BLOCK) as u64, signal.len());
        let values = &mut values[..part.len()];
        signal.read_progression(at, step, values)?;
        for (line, value) in part.iter_mut().zip(values.iter()) {
            *line = Line::ZERO;
            line.set_lane(0, *value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_set_are_its_lines() {
        let n = 1000;
        let mut set = ReadSet::lines(900, 77, 10);
        set.kept = Some(40);
        let part = set.part(4, 3, n);
        assert_eq!((part.count, part.width, part.kept), (3, 4, Some(44)));
        for i in 0..3 {
            assert_eq!(part.place(i, n), set.place(4 + i, n));
        }
    }

    #[test]
    fn a_finer_comb_contains_the_lines_of_a_coarser_one() {
        let part = |set: ReadSet, step, offsets: &[u64]| set.is_part_of_comb(step, offsets);
        // A comb with twice the bins contains both halves.
        assert!(part(ReadSet::lines(5, 64, 16), 32, &[5]));
        assert!(part(ReadSet::lines(5 + 32, 64, 16), 32, &[5]));
        assert!(part(ReadSet::lines(6, 64, 16), 32, &[5, 6]));
        assert!(!part(ReadSet::lines(6, 64, 16), 32, &[5]));
        assert!(!part(ReadSet::lines(5, 48, 16), 32, &[5]));
        assert!(!part(ReadSet::singles(5, 64, 16), 32, &[5]));
        assert!(!part(ReadSet::lines(5, 64, 16), 32, &[]));
    }

    use crate::cpu::ticks::Stopwatch;
    use crate::plan::{Plan, Workspace};
    use crate::problem::Problem;

    /// Runs something on the signal x\[t\] = t + 1, of n samples.
    fn with_run<T>(n: u64, something: impl FnOnce(&mut Run<'_>) -> T) -> T {
        let x: Vec<Complex<f64>> = (0..n).map(|t| Complex::new(t as f64 + 1.0, 0.0)).collect();
        let plan = Plan::new(Problem::new(n).sparsity(1)).unwrap();
        let mut workspace = Workspace::default();
        something(&mut Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start()))
    }

    #[test]
    fn lines_and_single_samples_are_read_where_they_were() {
        with_run(1009, |run| {
            for (every, first) in [(1, 0), (1, 7), (3, 2)] {
                let mut out = vec![Line::ZERO; 300];
                let set = ReadSet::lines(1000, 37, 1000);
                read_again(run, &set, [first, every], &mut out).unwrap();
                for (i, line) in (0u64..).zip(&out) {
                    for tau in 0..4 {
                        let t = (1000 + 37 * (first as u64 + i * every as u64) + tau) % 1009;
                        assert_eq!(line.lane(tau as usize), Complex::new(t as f64 + 1.0, 0.0));
                    }
                }
                let mut out = vec![Line { re: [5.0; 4], im: [5.0; 4] }; 300];
                let set = ReadSet::singles(1000, 37, 1000);
                read_again(run, &set, [first, every], &mut out).unwrap();
                for (i, line) in (0u64..).zip(&out) {
                    let t = (1000 + 37 * (first as u64 + i * every as u64)) % 1009;
                    assert_eq!(line.re, [t as f64 + 1.0, 0.0, 0.0, 0.0], "{i}");
                    assert_eq!(line.im, [0.0; 4]);
                }
            }
        });
    }

    /// Kept lines are told from what a second reading would give by their values.
    #[test]
    fn lines_from_elsewhere_are_kept_and_not_read_again() {
        let kept = |value: f64, len: usize| vec![Line { re: [value; 4], im: [0.0; 4] }; len];
        with_run(1000, |run| {
            let mut lines = kept(-1.0, 5);
            for (i, line) in lines.iter_mut().enumerate() {
                line.re[0] = i as f64 - 100.0;
            }
            let set = |count: usize| ReadSet::lines(10, 20, count);
            let evidence = &mut run.workspace.evidence;
            let other = evidence.note_lines(set(3), &kept(-7.0, 3), false);
            let first = evidence.note_lines(set(5), &lines, false);
            let last = evidence.note_lines(set(4), &kept(-3.0, 4), false);
            let in_memory = evidence.note_lines(set(5), &lines, true);
            evidence.note(ReadSet::singles(1, 1, 1));
            assert_eq!(evidence.sets().len(), 5);
            let sum = Complex::new(2.0, 3.0);
            assert_eq!(ReadSet::singles(1, 2, 3).with_sum(sum).sum, Some(sum));
            let values = |set: &ReadSet, places: [usize; 2], len: usize| {
                let mut out = vec![Line::ZERO; len];
                read_again(run, set, places, &mut out).unwrap();
                out.iter().map(|line| line.re[0]).collect::<Vec<_>>()
            };
            assert_eq!(values(&first, [0, 1], 5), [-100.0, -99.0, -98.0, -97.0, -96.0]);
            assert_eq!(values(&first, [1, 2], 2), [-99.0, -97.0]);
            assert_eq!(values(&other, [0, 1], 3), [-7.0; 3]);
            assert_eq!(values(&last, [0, 1], 4), [-3.0; 4]);
            assert_eq!(values(&in_memory, [1, 2], 2), [31.0, 71.0]);
            // Up to the limit, and no further; smaller sets still find room.
            let evidence = &mut run.workspace.evidence;
            let room = MAX_KEPT_LINES - 12;
            let over = evidence.note_lines(set(room + 1), &kept(-4.0, room + 1), false);
            let fits = evidence.note_lines(set(room), &kept(-5.0, room), false);
            assert_eq!((over.kept, fits.kept), (None, Some(12)));
            evidence.clear();
            assert!(evidence.sets().is_empty() && evidence.kept.is_empty());
        });
    }
}
