//! Problem → [`Recipe`] → [`Plan`]: what is asked, how it will be done, and that made ready.

pub(crate) mod choose;
mod explain;
mod recipe;

pub use recipe::{CombRecipe, Estimate, FlatKind, Method, Recipe, VoteRecipe};

use crate::algorithms::{self, Answer, Run};
use crate::problem::Problem;
use crate::samples::Samples;
use crate::spectrum::{Peak, Report, Spectrum};
use crate::{Error, Verdict};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A transform made ready. Cheap to clone, usable from many threads at once.
#[derive(Clone)]
pub struct Plan {
    inner: Arc<Prepared>,
}

/// The shared part of a plan.
pub(crate) struct Prepared {
    pub(crate) problem: Problem,
    pub(crate) recipe: Recipe,
    /// Workspaces waiting for the next transform.
    pool: Mutex<Vec<Workspace>>,
}

/// Buffers of one running transform, reused by the next.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(crate) vote: algorithms::vote::Buffers,
}

impl Plan {
    /// Plans a transform. Takes microseconds, whatever the length.
    ///
    /// # Errors
    /// n = 0 or too large, k > n, or an option out of range.
    pub fn new(problem: Problem) -> Result<Self, Error> {
        problem.validate()?;
        let recipe = choose::choose(&problem)?;
        Ok(Plan { inner: Arc::new(Prepared { problem, recipe, pool: Mutex::default() }) })
    }

    /// A plan with a recipe of one's own, for tests of what the planner would not choose.
    #[cfg(test)]
    pub(crate) fn from_recipe(problem: Problem, recipe: Recipe) -> Self {
        Plan { inner: Arc::new(Prepared { problem, recipe, pool: Mutex::default() }) }
    }

    /// What was asked.
    pub fn problem(&self) -> &Problem {
        &self.inner.problem
    }

    /// How it will be done.
    pub fn recipe(&self) -> &Recipe {
        &self.inner.recipe
    }

    /// Transforms a signal.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::NonFinite`], [`Error::Overflow`], and what the source
    /// meets. No output is written then.
    pub fn transform<S: Samples + ?Sized>(&self, signal: &S) -> Result<Spectrum, Error> {
        let mut workspace = self.lock_pool().pop().unwrap_or_default();
        let result = self.transform_with(signal, &mut workspace);
        self.lock_pool().push(workspace);
        result
    }

    /// Transforms a signal with the caller's buffers.
    ///
    /// # Errors
    /// As [`transform`](Plan::transform).
    pub fn transform_with<S: Samples + ?Sized>(
        &self,
        signal: &S,
        workspace: &mut Workspace,
    ) -> Result<Spectrum, Error> {
        let started = Instant::now();
        let Prepared { problem, recipe, .. } = &*self.inner;
        if signal.len() != problem.n {
            return Err(Error::LengthMismatch { expected: problem.n, got: signal.len() });
        }
        let mut run = Run::new(&self.inner, &signal, workspace);
        let Answer { algorithm, mut peaks, certificate } = algorithms::run(&mut run)?;
        let found = peaks.len();
        if let Some(k) = problem.k() {
            keep_largest(&mut peaks, k);
        }
        let left_out = (found - peaks.len()) as u64;
        peaks.sort_unstable_by_key(|p| p.index);
        let report = Report {
            algorithm,
            samples_read: run.samples_read,
            seed: recipe.seed,
            left_out,
            stages: run.clock.stages(),
            elapsed: started.elapsed(),
        };
        debug_assert!(certificate.reason.is_some() || certificate.verdict != Verdict::Uncertified);
        Ok(Spectrum { n: problem.n, peaks, certificate, report })
    }

    /// Transforms many signals with this plan, in parallel where the feature `rayon` is on.
    /// The results are those of single transforms, in order.
    pub fn transform_batch<S: Samples>(&self, signals: &[S]) -> Vec<Result<Spectrum, Error>> {
        #[cfg(feature = "rayon")]
        {
            use rayon::prelude::*;
            signals.par_iter().map(|s| self.transform(s)).collect()
        }
        #[cfg(not(feature = "rayon"))]
        signals.iter().map(|s| self.transform(s)).collect()
    }

    /// The samples that the first pass reads, in reading order, so that an instrument can record
    /// only these. Later passes (retries, the noise ladder where the noise is unknown) may read
    /// more.
    pub fn sample_indices(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        algorithms::sample_indices(&self.inner)
    }

    fn lock_pool(&self) -> std::sync::MutexGuard<'_, Vec<Workspace>> {
        // A poisoned pool holds only buffers; any content of theirs is overwritten before use.
        self.inner.pool.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Keeps the k largest by magnitude; ties go to the smaller index.
pub(crate) fn keep_largest(peaks: &mut Vec<Peak>, k: u64) {
    if (peaks.len() as u64) > k {
        let k = k as usize;
        if k > 0 {
            peaks.select_nth_unstable_by(k - 1, |a, b| {
                b.value.norm_sqr().total_cmp(&a.value.norm_sqr()).then(a.index.cmp(&b.index))
            });
        }
        peaks.truncate(k);
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.recipe.fmt(f)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("problem", &self.inner.problem)
            .field("recipe", &self.inner.recipe)
            .finish()
    }
}
