//! Sketches: what a transform needs of a signal that is never in one place.
//!
//! A plan of [`Problem::one_pass`](crate::Problem::one_pass) lists every sample that its attempts
//! may read: O(k log n) of them. A sketch keeps these, and which parts of the signal it has seen.
//!
//! 1. [`Sketch::add`] takes a part of the signal: a range or a progression, in any order.
//! 2. [`Sketch::merge`] unites two sketches. Samples are kept as they are, not summed, so every
//!    order and every tree of merges gives the same bits.
//! 3. [`Sketch::finish`] runs the ordinary engine on what was kept: the answer is that of
//!    [`Plan::transform`] with the same plan on the whole signal, to the last bit.
//!
//! `coverage` detects what is seen twice or missing, `bytes` is the stored form, `stream` feeds
//! sketches from samples that arrive in order.

mod bytes;
mod coverage;
mod stream;

pub use coverage::{Gap, Part};
pub use stream::{Sliding, Stream};

pub(crate) use coverage::list;

use crate::plan::Plan;
use crate::problem::Problem;
use crate::samples::Samples;
use crate::spectrum::Spectrum;
use crate::{Complex, Error};
use coverage::Coverage;
use std::sync::Arc;

/// Most samples that a sketch keeps: 2 GiB of indices, and as many values. An eighth of that where
/// addresses have 32 bits.
const MOST: u64 = if usize::BITS < 64 { 1 << 25 } else { 1 << 28 };

/// What the engine asks of a source beside its samples: all parts must agree.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kind {
    real: bool,
    /// Step between neighbouring values.
    resolution: f64,
}

impl Kind {
    fn of<S: Samples + ?Sized>(samples: &S) -> Self {
        Kind { real: samples.is_real(), resolution: samples.resolution() }
    }
}

/// The samples of a signal, or of parts of it, that a one-pass transform needs.
///
/// ```
/// use sparsefft::{Complex, Plan, Problem};
/// let n = 1u64 << 16;
/// let tone = |t: u64| Complex::cis(std::f64::consts::TAU * ((777 * t) % n) as f64 / n as f64);
/// let signal: Vec<_> = (0..n).map(tone).collect();
///
/// let plan = Plan::new(Problem::new(n).sparsity(5).one_pass())?;
/// let (mut left, mut right) = (plan.sketch()?, plan.sketch()?);
/// right.add(40_000, &signal[40_000..])?; // on one machine
/// left.add(0, &signal[..40_000])?; // on another
/// left.merge(&right)?;
/// assert_eq!(left.finish()?.peaks(), plan.transform(&signal)?.peaks());
/// assert_eq!(left.finish()?.peaks()[0].index, 777);
/// # Ok::<(), sparsefft::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sketch {
    plan: Plan,
    /// All that the plan may read, ascending.
    wanted: Arc<[u64]>,
    kind: Option<Kind>,
    coverage: Coverage,
    /// Positions in `wanted` of the samples that are kept, ascending, with their values.
    held: Vec<u32>,
    values: Vec<Complex<f64>>,
    /// What the caller wants to travel along.
    label: String,
}

impl Sketch {
    /// An empty sketch for a plan of [`Problem::one_pass`](crate::Problem::one_pass).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the plan may need more than one pass, or would keep more than
    /// 2^28 samples; [`Error::OutOfMemory`] if there is no room for them.
    pub fn new(plan: &Plan) -> Result<Self, Error> {
        if !plan.problem().one_pass {
            return Err(Error::Unsupported {
                algorithm: "sketch",
                reason: "the plan may read any sample; plan with Problem::one_pass".to_string(),
            });
        }
        let samples = plan.menu().map_or(plan.problem().n, |menu| menu.samples);
        if samples > MOST {
            return Err(Error::Unsupported {
                algorithm: "sketch",
                reason: format!(
                    "it would keep {samples} samples, more than {MOST}; use a smaller k"
                ),
            });
        }
        plan.check_memory()?;
        Ok(Sketch {
            plan: plan.clone(),
            wanted: plan.wanted().clone(),
            kind: None,
            coverage: Coverage::default(),
            held: Vec::new(),
            values: Vec::new(),
            label: String::new(),
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Gives the sketch a text that travels with it: a sample rate, the name of a recording.
    /// Sketches with different labels do not merge.
    pub fn set_label(&mut self, label: &str) {
        self.label = label.to_string();
    }

    /// The label; empty if none was given.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether all samples seen are real; `false` before the first.
    pub fn is_real(&self) -> bool {
        self.kind.is_some_and(|kind| kind.real)
    }

    /// Adds x\[start\], x\[start + 1\], …; of these it reads only what it keeps.
    ///
    /// # Errors
    /// [`Error::SeenTwice`], [`Error::RangeOutside`], [`Error::OtherSketch`] if the part is real
    /// where others are complex or otherwise of another kind, and what the source meets. Nothing
    /// was added then.
    pub fn add<S: Samples + ?Sized>(&mut self, start: u64, samples: &S) -> Result<(), Error> {
        self.add_strided(start, 1, samples)
    }

    /// Adds x\[start\], x\[start + step\], x\[start + 2·step\], …
    ///
    /// # Errors
    /// As [`add`](Sketch::add), and [`Error::InvalidOption`] for the step 0.
    pub fn add_strided<S: Samples + ?Sized>(
        &mut self,
        start: u64,
        step: u64,
        samples: &S,
    ) -> Result<(), Error> {
        if step == 0 {
            return Err(Error::InvalidOption { name: "step", value: 0.0, allowed: "1 or more" });
        }
        self.add_part(Part { start, step, count: samples.len() }, samples, 0)
    }

    /// Adds a part whose first sample is number `from` of the source.
    fn add_part<S: Samples + ?Sized>(
        &mut self,
        part: Part,
        samples: &S,
        from: u64,
    ) -> Result<(), Error> {
        if part.count == 0 {
            return Ok(());
        }
        let kind = Kind::of(samples);
        self.check_kind(Some(kind))?;
        self.coverage.check(part, self.plan.problem().n)?;
        let lo = self.wanted.partition_point(|&t| t < part.start);
        let hi = lo + self.wanted[lo..].partition_point(|&t| t <= part.last());
        let mut held: Vec<u32> = Vec::new();
        let mut places = Vec::new();
        for (i, &t) in self.wanted[lo..hi].iter().enumerate() {
            let away = t - part.start;
            if part.step == 1 || away.is_multiple_of(part.step) {
                held.push((lo + i) as u32);
                places.push(from + away / part.step);
            }
        }
        let mut values = vec![Complex::ZERO; places.len()];
        samples.read(&places, &mut values)?;
        self.coverage.insert(part);
        self.kind = Some(kind);
        self.keep(&held, &values);
        Ok(())
    }

    /// Refuses samples of another kind than those seen so far.
    fn check_kind(&self, other: Option<Kind>) -> Result<(), Error> {
        let (Some(ours), Some(theirs)) = (self.kind, other) else { return Ok(()) };
        let name = |kind: Kind| if kind.real { "real" } else { "complex" };
        if ours.real != theirs.real {
            return Err(other_sketch("the kind of samples", name(ours), name(theirs)));
        }
        if ours.resolution != theirs.resolution {
            let (ours, theirs) = (ours.resolution, theirs.resolution);
            return Err(other_sketch("the step between sample values", ours, theirs));
        }
        Ok(())
    }

    /// Keeps samples that are not kept yet.
    fn keep(&mut self, held: &[u32], values: &[Complex<f64>]) {
        let (Some(&first), Some(&last)) = (held.first(), held.last()) else { return };
        if self.held.last().is_none_or(|&l| l < first) {
            self.held.extend_from_slice(held);
            self.values.extend_from_slice(values);
            return;
        }
        // Only what lies between the first and the last of the new ones has to move.
        let lo = self.held.partition_point(|&p| p < first);
        let hi = self.held.partition_point(|&p| p < last);
        let (mut places, mut all) = (Vec::new(), Vec::new());
        let (mut i, mut j) = (lo, 0);
        while i < hi || j < held.len() {
            if j == held.len() || (i < hi && self.held[i] < held[j]) {
                places.push(self.held[i]);
                all.push(self.values[i]);
                i += 1;
            } else {
                places.push(held[j]);
                all.push(values[j]);
                j += 1;
            }
        }
        self.held.splice(lo..hi, places);
        self.values.splice(lo..hi, all);
    }

    /// Unites with another sketch of the same plan.
    ///
    /// # Errors
    /// [`Error::OtherSketch`] names what differs; [`Error::SeenTwice`] lists what both have seen.
    /// Nothing was merged then.
    pub fn merge(&mut self, other: &Sketch) -> Result<(), Error> {
        self.check_plan(other)?;
        self.check_kind(other.kind)?;
        if !self.label.is_empty() && !other.label.is_empty() && self.label != other.label {
            return Err(other_sketch("the label", &self.label, &other.label));
        }
        self.coverage.merge(&other.coverage)?;
        if self.label.is_empty() {
            self.label.clone_from(&other.label);
        }
        self.kind = self.kind.or(other.kind);
        self.keep(&other.held, &other.values);
        Ok(())
    }

    /// Refuses a sketch of another plan.
    fn check_plan(&self, other: &Sketch) -> Result<(), Error> {
        self.check_problem(other.plan.problem())?;
        if Arc::ptr_eq(&self.wanted, &other.wanted) || self.wanted == other.wanted {
            return Ok(());
        }
        let count = |s: &Sketch| format!("{} samples", s.wanted.len());
        Err(other_sketch("the menu", count(self), count(other)))
    }

    /// Refuses another problem, and names what differs.
    fn check_problem(&self, b: &Problem) -> Result<(), Error> {
        let a = self.plan.problem();
        let same = |what, ours: String, theirs: String| {
            if ours == theirs { Ok(()) } else { Err(other_sketch(what, ours, theirs)) }
        };
        same("n", a.n.to_string(), b.n.to_string())?;
        same("k", format!("{:?}", a.k()), format!("{:?}", b.k()))?;
        same("the seed", a.seed.to_string(), b.seed.to_string())?;
        same("the noise", format!("{:?}", a.noise), format!("{:?}", b.noise))?;
        same("the algorithm", a.algorithm.to_string(), b.algorithm.to_string())?;
        same("the taper", format!("{:?}", a.taper), format!("{:?}", b.taper))?;
        same("the tolerance", a.tolerance.to_string(), b.tolerance.to_string())?;
        same("the failure probability", a.failure.to_string(), b.failure.to_string())
    }

    /// How many samples have been seen.
    pub fn seen(&self) -> u64 {
        self.coverage.count()
    }

    /// How many samples are kept, of those seen so far.
    pub fn kept(&self) -> usize {
        self.held.len()
    }

    /// How many samples are kept once all have been seen.
    pub fn capacity(&self) -> usize {
        self.wanted.len()
    }

    /// The parts that have been seen, joined where they touch.
    pub fn parts(&self) -> Vec<Part> {
        self.coverage.parts().collect()
    }

    /// The ranges that are missing.
    pub fn missing(&self) -> Vec<Gap> {
        self.coverage.gaps(self.plan.problem().n)
    }

    /// Whether every sample has been seen.
    pub fn is_complete(&self) -> bool {
        // Parts are disjoint, so their counts add up to n only if they cover the signal.
        self.seen() == self.plan.problem().n
    }

    /// The spectrum, as [`Plan::transform`] of the whole signal would give it.
    ///
    /// # Errors
    /// [`Error::Incomplete`] lists what is missing; and as [`Plan::transform`].
    pub fn finish(&self) -> Result<Spectrum, Error> {
        self.check_complete()?;
        self.plan.transform(&Kept { sketch: self })
    }

    fn check_complete(&self) -> Result<(), Error> {
        if self.is_complete() {
            return Ok(());
        }
        let n = self.plan.problem().n;
        Err(Error::Incomplete { gaps: self.missing(), missing: n - self.seen(), n })
    }
}

/// The error for two values that should be the same.
fn other_sketch(what: &'static str, ours: impl ToString, theirs: impl ToString) -> Error {
    Error::OtherSketch { what, ours: ours.to_string(), theirs: theirs.to_string() }
}

/// A complete sketch as a signal of which only the kept samples can be read.
struct Kept<'a> {
    sketch: &'a Sketch,
}

impl Samples for Kept<'_> {
    fn len(&self) -> u64 {
        self.sketch.plan.problem().n
    }
    fn is_real(&self) -> bool {
        self.sketch.is_real()
    }
    fn resolution(&self) -> f64 {
        self.sketch.kind.map_or(0.0, |kind| kind.resolution)
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        // Complete, so the positions held are all of them.
        let Sketch { wanted, values, .. } = self.sketch;
        let mut at = 0;
        for (o, &t) in out.iter_mut().zip(indices) {
            // Lines are four neighbours.
            if wanted.get(at) != Some(&t) {
                at = wanted.binary_search(&t).map_err(|_| Error::NotKept { index: t })?;
            }
            *o = values[at];
            at += 1;
        }
        Ok(())
    }
}
