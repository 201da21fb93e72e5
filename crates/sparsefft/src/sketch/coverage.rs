//! Which samples a sketch has seen: exact, however they were cut.
//!
//! A part is an arithmetic progression. Disjoint parts whose counts add up to n cover the signal, so
//! completeness is a sum once every overlap is refused. Two parts have a progression in common (the
//! Chinese remainder theorem) or nothing. Neighbours are joined, so that a signal cut into any
//! number of ranges ends as one.

use crate::Error;
use std::fmt;
use std::ops::Range;

/// Most parts with a step that a sketch tells apart. Each is compared with all others, and beyond this many
/// that would take longer than reading the signal.
const MOST_STRIDED: usize = 1 << 12;
/// Samples that [`Coverage::select`] looks at, counted once for each step: a few seconds' worth.
const MOST_LOOKS: u64 = 1 << 30;

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

fn too_many_parts() -> Error {
    Error::Unsupported {
        algorithm: "sketch",
        reason: format!(
            "it has seen {MOST_STRIDED} parts with a step that do not join; add parts that go on where \
             others end, or ranges"
        ),
    }
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

    /// Which of these samples, which ascend, have been seen: their places in the list, ascending. `None` where
    /// parts of too many different steps would take too long.
    pub(crate) fn select(&self, samples: &[u64]) -> Option<Vec<u32>> {
        let below = |t: u64| samples.partition_point(|&s| s < t);
        let mut places: Vec<u32> =
            self.runs.iter().flat_map(|r| below(r.start) as u32..below(r.end) as u32).collect();
        let mut looks = 0;
        // They are sorted by their steps.
        for group in self.strided.chunk_by(|p, q| p.step == q.step) {
            let step = group[0].step;
            let first = group.iter().map(|p| p.start).min().unwrap_or(0);
            let last = group.iter().map(|p| p.last()).max().unwrap_or(0);
            let (lo, hi) = (below(first), below(last + 1));
            looks += (hi - lo) as u64;
            if looks > MOST_LOOKS {
                return None;
            }
            let mut residues: Vec<Part> = group.to_vec();
            residues.sort_unstable_by_key(|p| (p.start % step, p.start));
            for (i, &t) in (lo..hi).zip(&samples[lo..hi]) {
                // Of those with its residue, the last that begins before it.
                let next = residues.partition_point(|p| (p.start % step, p.start) <= (t % step, t));
                let Some(part) = next.checked_sub(1).map(|at| residues[at]) else { continue };
                if part.start % step == t % step && t <= part.last() {
                    places.push(i as u32);
                }
            }
        }
        places.sort_unstable();
        Some(places)
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
        if !twice.is_empty() {
            return Err(Error::SeenTwice(twice));
        }
        if part.normal().step > 1 && self.strided.len() >= MOST_STRIDED {
            return Err(too_many_parts());
        }
        Ok(())
    }

    /// Adds all parts of another signal's coverage, or none.
    pub(crate) fn merge(&mut self, other: &Coverage) -> Result<(), Error> {
        let twice: Vec<Part> = other.parts().flat_map(|p| self.common(p)).collect();
        if !twice.is_empty() {
            return Err(Error::SeenTwice(twice));
        }
        if self.strided.len() + other.strided.len() > 2 * MOST_STRIDED {
            return Err(too_many_parts());
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
        let every: Vec<u64> = (0..n).collect();
        assert!(c.select(&every).is_some_and(|places| places.len() == 1000));
        // Side by side and of one length, strided parts become a range.
        let mut c = Coverage::default();
        for r in [3, 1, 0, 2] {
            c.add(part(r, 4, 10), n).unwrap();
            c.add(part(40 + r, 4, 5), n).unwrap();
        }
        assert_eq!(c.parts().collect::<Vec<_>>(), [Part::range(0..60)]);
    }

    /// Parts of several steps and residues, alone and one behind the other, against counting.
    #[test]
    fn selected_are_those_that_lie_in_a_part() {
        let mut c = Coverage::default();
        for p in [part(3, 6, 20), part(150, 6, 9), part(5, 6, 11), part(100, 1, 1), part(4, 12, 7)]
        {
            c.add(p, 1000).unwrap();
        }
        c.add(part(204, 1, 30), 1000).unwrap();
        let samples: Vec<u64> = (0..400).filter(|t| t % 7 != 2).collect();
        let seen = |t: u64| c.parts().any(|p| p.common(Part::range(t..t + 1)).is_some());
        let expected: Vec<u32> =
            (0..).zip(&samples).filter(|(_, t)| seen(**t)).map(|(i, _)| i).collect();
        assert!(expected.len() > 40);
        assert_eq!(c.select(&samples), Some(expected));
        assert_eq!(c.select(&[]), Some(vec![]));
    }

    #[test]
    fn parts_that_do_not_join_are_bounded() {
        let mut c = Coverage::default();
        let n = 1 << 40;
        let apart = |i: u64| part(1000 * i, 2, 2);
        (0..MOST_STRIDED as u64).for_each(|i| c.add(apart(i), n).unwrap());
        let refused = c.add(apart(MOST_STRIDED as u64), n).unwrap_err().to_string();
        assert!(refused.contains("4096 parts"), "{refused}");
        c.add(Part::range(1 << 30..1 << 31), n).unwrap();
        assert_eq!(c.parts().count(), MOST_STRIDED + 1);
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

    #[test]
    fn parts_that_go_on_are_joined_and_others_are_not() {
        let mut c = Coverage::default();
        for p in [part(60, 3, 5), part(0, 3, 10), part(30, 3, 5), part(45, 3, 5)] {
            c.add(p, 1000).unwrap();
        }
        assert_eq!(c.parts().collect::<Vec<_>>(), [part(0, 3, 25)]);
        // Where one with another step would go on.
        c.add(part(200, 5, 2), 1000).unwrap();
        c.add(part(210, 2, 3), 1000).unwrap();
        c.add(part(216, 7, 2), 1000).unwrap();
        let expected = [part(210, 2, 3), part(0, 3, 25), part(200, 5, 2), part(216, 7, 2)];
        assert_eq!(c.parts().collect::<Vec<_>>(), expected);
        // A range between two, beside a third.
        for r in [0..10, 20..30, 40..50, 10..20] {
            c = if r.start == 0 { Coverage::default() } else { c };
            c.add(Part::range(r), 1000).unwrap();
        }
        assert_eq!(c.parts().collect::<Vec<_>>(), [Part::range(0..30), Part::range(40..50)]);
    }

    /// Four side by side, behind a part of their step and length, between parts of other steps.
    #[test]
    fn neighbours_are_woven_wherever_they_lie() {
        let mut c = Coverage::default();
        let others = [part(300, 2, 7), part(400, 9, 7), part(5, 4, 10), part(600, 4, 3)];
        for p in others.into_iter().chain([103, 101, 100, 102].map(|start| part(start, 4, 10))) {
            c.add(p, 1000).unwrap();
        }
        let expected = [
            Part::range(100..140),
            part(300, 2, 7),
            part(600, 4, 3),
            part(5, 4, 10),
            part(400, 9, 7),
        ];
        assert_eq!(c.parts().collect::<Vec<_>>(), expected);
    }

    /// Parts drawn with a fixed seed, added one by one and merged, against a list of what was seen.
    #[test]
    fn random_parts_are_counted_as_by_hand() {
        let mut rng = crate::stages::number::Rng::new(31, 0);
        let n = 120u64;
        for round in 0..60 {
            let mut halves = [Coverage::default(), Coverage::default()];
            let mut seen = vec![false; n as usize];
            for i in 0..40 {
                let step = 1 + rng.below(5);
                let p = part(rng.below(n), step, 1 + rng.below(12));
                let members = || (0..p.count).map(|j| p.start + j * p.step);
                if p.last() >= n {
                    let error = halves[0].add(p, n).unwrap_err();
                    assert!(matches!(error, Error::RangeOutside { .. }), "{error}");
                } else if members().any(|t| seen[t as usize]) {
                    let common: u64 =
                        halves.iter().flat_map(|c| c.common(p)).map(|p| p.count).sum();
                    let twice = members().filter(|t| seen[*t as usize]).count();
                    assert_eq!(common, twice as u64, "round {round}: {p}");
                } else {
                    halves[i % 2].add(p, n).unwrap();
                    members().for_each(|t| seen[t as usize] = true);
                }
            }
            let [mut all, other] = halves;
            all.merge(&other).unwrap();
            let before = all.clone();
            let refused = all.merge(&other);
            assert!(other.count() == 0 || matches!(refused, Err(Error::SeenTwice(_))));
            assert_eq!(all, before, "round {round}");
            let expected: Vec<u32> = (0..n as u32).filter(|t| seen[*t as usize]).collect();
            assert_eq!(all.count(), expected.len() as u64);
            let every: Vec<u64> = (0..n).collect();
            assert_eq!(all.select(&every), Some(expected), "round {round}");
            let mut at = 0;
            for gap in all.gaps(n) {
                let missing = (gap.range.start..gap.range.end).filter(|t| !seen[*t as usize]);
                assert_eq!(gap.missing, missing.count() as u64, "round {round}: {gap}");
                assert!(gap.missing > 0 && gap.range.start >= at);
                assert!((at..gap.range.start).all(|t| seen[t as usize]));
                at = gap.range.end;
            }
            assert!((at..n).all(|t| seen[t as usize]));
        }
    }

    #[test]
    fn merging_is_bounded_as_adding_is() {
        let strided = |count: u64| Coverage {
            runs: Vec::new(),
            strided: (0..count).map(|i| part(1000 * i, 2, 2)).collect(),
        };
        let one = Coverage { runs: Vec::new(), strided: vec![part(501, 2, 2)] };
        let most = 2 * MOST_STRIDED as u64;
        assert!(strided(most - 1).merge(&one).is_ok());
        let refused = strided(most).merge(&one).unwrap_err().to_string();
        assert!(refused.contains("4096 parts"), "{refused}");
    }

    #[test]
    fn lists_name_eight_and_count_the_others() {
        assert_eq!(list(&[1, 2, 3]), "1, 2, 3");
        assert_eq!(list(&[1; 8]), "1, 1, 1, 1, 1, 1, 1, 1");
        assert_eq!(list(&[1; 10]), "1, 1, 1, 1, 1, 1, 1, 1, and 2 more");
        assert_eq!(part(3, 1, 4).to_string() + &part(3, 2, 4).to_string(), "3..73..10 by 2");
    }
}
