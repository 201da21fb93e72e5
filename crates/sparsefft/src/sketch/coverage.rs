//! Which samples a sketch has seen: exact, however they were cut.
//!
//! A part is an arithmetic progression. Disjoint parts whose counts add up to n cover the signal, so
//! completeness is a sum once every overlap is refused. Two parts have a progression in common (the
//! Chinese remainder theorem) or nothing. Neighbours are joined, so that a signal cut into any
//! number of ranges ends as one.

use crate::Error;
use std::fmt;
use std::ops::Range;

/// The samples start, start + step, …: count of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// First index.
    pub start: u64,
    /// Distance of neighbours, at least 1.
    pub step: u64,
    /// How many.
    pub count: u64,
}

impl Part {
    /// The samples of a range.
    pub fn range(range: Range<u64>) -> Self {
        Part { start: range.start, step: 1, count: range.end.saturating_sub(range.start) }
    }

    /// The same samples with the step 1 where that is a matter of choice.
    fn normal(self) -> Self {
        Part { step: if self.count < 2 { 1 } else { self.step }, ..self }
    }

    /// Index of the last sample; the part is not empty.
    pub(crate) fn last(self) -> u64 {
        self.start + self.step * (self.count - 1)
    }

    /// What two parts have in common.
    pub(crate) fn common(self, other: Part) -> Option<Part> {
        if self.count == 0 || other.count == 0 {
            return None;
        }
        let (first, last) = (self.start.max(other.start), self.last().min(other.last()));
        if first > last {
            return None;
        }
        let (a, b) = (self.step as i128, other.step as i128);
        let (g, x) = bezout(a, b);
        let apart = other.start as i128 - self.start as i128;
        if apart % g != 0 {
            return None;
        }
        // start + a·j ≡ other.start mod b, with j = (apart/g)·x mod b/g.
        let period = b / g;
        let j = ((apart / g) % period * x).rem_euclid(period);
        let step = a * period;
        let mut at = self.start as i128 + a * j;
        at += (first as i128 - at).div_euclid(step) * step;
        if at < first as i128 {
            at += step;
        }
        if at > last as i128 {
            return None;
        }
        let count = ((last as i128 - at) / step + 1) as u64;
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        Some(Part { start: at as u64, step, count }.normal())
    }

    /// How many of its samples lie in a range.
    fn inside(self, range: &Range<u64>) -> u64 {
        let below = |t: u64| t.saturating_sub(self.start).div_ceil(self.step).min(self.count);
        below(range.end) - below(range.start)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return write!(f, "{0}..{0}", self.start);
        }
        write!(f, "{}..{}", self.start, self.last() + 1)?;
        if self.step > 1 { write!(f, " by {}", self.step) } else { Ok(()) }
    }
}

/// gcd(a, b) and x with a·x ≡ gcd mod b.
fn bezout(a: i128, b: i128) -> (i128, i128) {
    let (mut r, mut x) = ((a, b), (1, 0));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        x = (x.1, x.0 - q * x.1);
    }
    (r.0, x.0)
}

/// A range of which samples are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The range.
    pub range: Range<u64>,
    /// How many of its samples are missing: all, unless strided parts cover some.
    pub missing: u64,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.range.start, self.range.end)?;
        if self.missing < self.range.end - self.range.start {
            write!(f, " ({} of them)", self.missing)?;
        }
        Ok(())
    }
}

/// A list in words: the first few, and how many more.
pub(crate) fn list<T: fmt::Display>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = items.iter().take(SHOWN).map(T::to_string).collect();
    if items.len() > SHOWN {
        text.push(format!("and {} more", items.len() - SHOWN));
    }
    text.join(", ")
}

/// The samples seen so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Coverage {
    /// Ascending, disjoint, not touching.
    runs: Vec<Range<u64>>,
    /// Parts with a step, disjoint from the runs and from each other.
    strided: Vec<Part>,
}

impl Coverage {
    /// The parts, ranges first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        self.runs.iter().cloned().map(Part::range).chain(self.strided.iter().copied())
    }

    /// How many samples.
    pub(crate) fn count(&self) -> u64 {
        self.parts().map(|p| p.count).sum()
    }

    /// Whether a sample has been seen.
    pub(crate) fn contains(&self, t: u64) -> bool {
        let at = self.runs.partition_point(|r| r.end <= t);
        self.runs.get(at).is_some_and(|r| r.start <= t)
            || self.strided.iter().any(|p| p.common(Part::range(t..t + 1)).is_some())
    }

    /// What a part has in common with what has been seen.
    pub(crate) fn common(&self, part: Part) -> Vec<Part> {
        if part.count == 0 {
            return Vec::new();
        }
        let from = self.runs.partition_point(|r| r.end <= part.start);
        let to = self.runs.partition_point(|r| r.start <= part.last());
        let runs = self.runs[from.min(to)..to].iter().cloned().map(Part::range);
        runs.chain(self.strided.iter().copied()).filter_map(|p| p.common(part)).collect()
    }

    /// Adds a part of a signal of n samples.
    pub(crate) fn add(&mut self, part: Part, n: u64) -> Result<(), Error> {
        self.check(part, n)?;
        self.insert(part);
        Ok(())
    }

    /// Whether a part lies inside a signal of n samples and is new.
    pub(crate) fn check(&self, part: Part, n: u64) -> Result<(), Error> {
        if part.count == 0 {
            return Ok(());
        }
        let span = part.step.checked_mul(part.count - 1);
        let end = span.and_then(|s| s.checked_add(part.start)).and_then(|l| l.checked_add(1));
        if end.is_none_or(|end| end > n) {
            let end = end.unwrap_or(u64::MAX);
            return Err(Error::RangeOutside { start: part.start, end, n });
        }
        let twice = self.common(part);
        if twice.is_empty() { Ok(()) } else { Err(Error::SeenTwice(twice)) }
    }

    /// Adds all parts of another signal's coverage, or none.
    pub(crate) fn merge(&mut self, other: &Coverage) -> Result<(), Error> {
        let twice: Vec<Part> = other.parts().flat_map(|p| self.common(p)).collect();
        if !twice.is_empty() {
            return Err(Error::SeenTwice(twice));
        }
        other.parts().for_each(|p| self.insert(p));
        Ok(())
    }

    /// Adds a part that [`check`](Coverage::check) has passed.
    pub(crate) fn insert(&mut self, part: Part) {
        let part = part.normal();
        if part.count == 0 {
            return;
        }
        if part.step == 1 {
            self.insert_run(part.start..part.start + part.count);
            return;
        }
        let mut part = part;
        // Parts that go on where others end.
        while let Some(i) = self.strided.iter().position(|p| {
            p.step == part.step
                && (p.last() + p.step == part.start || part.last() + part.step == p.start)
        }) {
            let p = self.strided.swap_remove(i);
            part =
                Part { start: p.start.min(part.start), step: p.step, count: p.count + part.count };
        }
        self.strided.push(part);
        self.strided.sort_unstable_by_key(|p| (p.step, p.count, p.start));
        self.weave(part);
    }

    /// Turns parts that lie side by side, as many as their step, into a range.
    fn weave(&mut self, part: Part) {
        let alike = |p: &Part| (p.step, p.count) == (part.step, part.count);
        let from = self.strided.partition_point(|p| (p.step, p.count) < (part.step, part.count));
        let group = self.strided[from..].iter().take_while(|p| alike(p)).count();
        if (group as u64) < part.step {
            return;
        }
        let size = part.step as usize;
        let woven = self.strided[from..from + group]
            .windows(size)
            .position(|w| w[size - 1].start - w[0].start == part.step - 1);
        if let Some(i) = woven {
            let start = self.strided[from + i].start;
            self.strided.drain(from + i..from + i + size);
            self.insert_run(start..start + part.step * part.count);
        }
    }

    fn insert_run(&mut self, run: Range<u64>) {
        let at = self.runs.partition_point(|r| r.start < run.start);
        let before = at > 0 && self.runs[at - 1].end == run.start;
        let after = self.runs.get(at).is_some_and(|r| r.start == run.end);
        match (before, after) {
            (true, true) => {
                self.runs[at - 1].end = self.runs[at].end;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].end = run.end,
            (false, true) => self.runs[at].start = run.start,
            (false, false) => self.runs.insert(at, run),
        }
    }

    /// The ranges of a signal of n samples that are not covered.
    pub(crate) fn gaps(&self, n: u64) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for run in self.runs.iter().cloned().chain(std::iter::once(n..n)) {
            if at < run.start {
                self.gaps_between(at..run.start, &mut gaps);
            }
            at = run.end;
        }
        gaps
    }

    /// The gaps of a range without runs: cut where strided parts begin and end, each piece has
    /// either all or a periodic share of its samples missing.
    fn gaps_between(&self, range: Range<u64>, gaps: &mut Vec<Gap>) {
        let ends = self.strided.iter().flat_map(|p| [p.start, p.last() + 1]);
        let mut cuts: Vec<u64> = ends.filter(|t| range.contains(t)).collect();
        cuts.extend([range.start, range.end]);
        cuts.sort_unstable();
        cuts.dedup();
        for w in cuts.windows(2) {
            let piece = w[0]..w[1];
            let seen: u64 = self.strided.iter().map(|p| p.inside(&piece)).sum();
            let missing = piece.end - piece.start - seen;
            if missing > 0 {
                gaps.push(Gap { range: piece, missing });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, step: u64, count: u64) -> Part {
        Part { start, step, count }
    }

    #[test]
    fn common_is_the_intersection() {
        let parts: Vec<Part> = (0..7)
            .flat_map(|s| (1..6).flat_map(move |d| [0, 1, 2, 9].map(|c| part(s, d, c))))
            .collect();
        for &a in &parts {
            for &b in &parts {
                let members =
                    |p: Part| (0..p.count).map(|j| p.start + j * p.step).collect::<Vec<_>>();
                let both: Vec<u64> =
                    members(a).into_iter().filter(|t| members(b).contains(t)).collect();
                let got = a.common(b).map(members).unwrap_or_default();
                assert_eq!(got, both, "{a} and {b}");
            }
        }
        let huge = part(3, (1 << 51) - 1, 2).common(part(2, (1 << 51) + 1, 2));
        assert_eq!(huge, None);
    }

    #[test]
    fn any_cut_is_whole_again_and_gaps_are_exact() {
        let n = 1000;
        let mut c = Coverage::default();
        c.add(part(500, 1, 200), n).unwrap();
        for r in [2, 0, 1] {
            c.add(part(r, 3, (500 - r).div_ceil(3)), n).unwrap();
        }
        c.add(part(701, 2, 149), n).unwrap();
        assert_eq!(c.count(), 849);
        assert_eq!(
            c.gaps(n),
            [
                Gap { range: 700..701, missing: 1 },
                Gap { range: 701..998, missing: 148 },
                Gap { range: 998..1000, missing: 2 }
            ]
        );
        let Err(Error::SeenTwice(twice)) = c.add(part(690, 1, 13), n) else { panic!() };
        assert_eq!(twice, [part(690, 1, 10), part(701, 1, 1)]);
        c.add(part(700, 2, 150), n).unwrap();
        c.add(part(999, 1, 1), n).unwrap();
        assert_eq!((c.count(), c.gaps(n)), (1000, vec![]));
        assert!((0..n).all(|t| c.contains(t)));
        // Side by side and of one length, strided parts become a range.
        let mut c = Coverage::default();
        for r in [3, 1, 0, 2] {
            c.add(part(r, 4, 10), n).unwrap();
            c.add(part(40 + r, 4, 5), n).unwrap();
        }
        assert_eq!(c.parts().collect::<Vec<_>>(), [Part::range(0..60)]);
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let mut c = Coverage::default();
        for p in [part(0, 1, 11), part(9, 2, 2), part(u64::MAX, 1, 2), part(0, u64::MAX, 9)] {
            assert!(matches!(c.add(p, 10), Err(Error::RangeOutside { n: 10, .. })), "{p}");
        }
        c.add(part(11, 1, 0), 10).unwrap();
        assert_eq!(c.gaps(10), [Gap { range: 0..10, missing: 10 }]);
    }
}
