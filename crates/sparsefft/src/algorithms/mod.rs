//! The algorithms, one file each, and the table that registers them.

mod comb_vote;
pub(crate) mod dense;
pub(crate) mod peeling;
mod taper;
pub(crate) mod tones;
pub(crate) mod vote;

use crate::{Complex, Error};
pub(crate) use dense::non_finite;
pub(crate) use taper::Tapered;

use crate::certificate::Certificate;
use crate::cpu::ticks::{Stopwatch, ticks};
use crate::plan::{Method, Prepared, Workspace};
use crate::problem::Algorithm;
use crate::samples::Samples;
use crate::spectrum::{Peak, Place};
use crate::stages::Stage;
use std::time::Duration;

/// One running transform: the plan, the signal, the buffers, and what has been spent.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Prepared,
    pub(crate) signal: &'a dyn Samples,
    pub(crate) workspace: &'a mut Workspace,
    pub(crate) clock: Clock,
    pub(crate) samples_read: u64,
    /// Samples that a helper has read for nothing: no decision may depend on helpers.
    pub(crate) samples_unused: u64,
    /// How many of the samples read are compared with the answer and serve nothing else.
    pub(crate) samples_compared: u64,
    /// Largest |x|² that a window hash has met: what one attempt has seen the next may not forget.
    pub(crate) peak: f64,
    /// Whether samples come slowly: from main memory rather than a cache.
    pub(crate) slow: bool,
    /// Who keeps the hashes of the voting algorithms, if not the CPU.
    pub(crate) keeper: Option<&'a dyn vote::Keeper>,
    /// Where the answer was computed, if elsewhere than the caller thinks.
    pub(crate) place: Option<Place>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        plan: &'a Prepared,
        signal: &'a dyn Samples,
        workspace: &'a mut Workspace,
        watch: Stopwatch,
    ) -> Self {
        let clock = Clock::start(watch);
        workspace.evidence.clear();
        let (samples_read, samples_unused, samples_compared) = (0, 0, 0);
        let (peak, slow) = (0.0, false);
        let (keeper, place) = (None, None);
        Run {
            plan,
            signal,
            workspace,
            clock,
            samples_read,
            samples_unused,
            samples_compared,
            peak,
            slow,
            keeper,
            place,
        }
    }

    /// All samples where they lie, if that is in memory as complex f64; at least four.
    pub(crate) fn samples(&self) -> Option<&'a [Complex<f64>]> {
        let whole = |x: &&[_]| x.len() == self.plan.problem.n && x.len() >= 4;
        self.signal.as_complex().filter(whole)
    }
}

/// What an algorithm found; values are X\[f\].
pub(crate) struct Answer {
    pub(crate) algorithm: Algorithm,
    pub(crate) peaks: Vec<Peak>,
    /// Whether the peaks are known to come by frequency.
    pub(crate) in_order: bool,
    pub(crate) certificate: Certificate,
}

/// Adds up time per stage, in ticks of any length: a transform of microseconds has no time to ask
/// the system what time it is at every step.
pub(crate) struct Clock {
    last: u64,
    spent: [u64; Stage::ALL.len()],
}

impl Clock {
    fn start(watch: Stopwatch) -> Self {
        Clock { last: watch.began(), spent: [0; Stage::ALL.len()] }
    }

    /// Charges the time since the last lap to a stage.
    pub(crate) fn lap(&mut self, stage: Stage) {
        let now = ticks();
        self.spent[stage as usize] += now.saturating_sub(self.last);
        self.last = now;
    }

    /// Whether this many lines came from main memory rather than a cache: a guess from the time that reading
    /// took so far.
    pub(crate) fn read_slowly(&self, lines: usize) -> bool {
        /// Ticks for a line: from a cache it takes 15 to 26, the first butterflies included, from memory 35 to
        /// 85.
        const SLOW: u64 = 36;
        self.spent[Stage::Permute as usize] > SLOW * lines as u64
    }

    /// Time per stage that ran: this time, divided as the ticks were.
    pub(crate) fn stages(&self, elapsed: Duration) -> Vec<(Stage, Duration)> {
        let all = self.spent.iter().sum::<u64>().max(1) as f64;
        // 584 years fit.
        let each = elapsed.as_nanos() as u64 as f64 / all;
        let mut out = Vec::with_capacity(Stage::ALL.len());
        for (stage, spent) in Stage::ALL.into_iter().zip(self.spent) {
            if spent > 0 {
                out.push((stage, Duration::from_nanos((spent as f64 * each) as u64)));
            }
        }
        out
    }
}

/// Runs the planned method.
pub(crate) fn run(run: &mut Run<'_>) -> Result<Answer, Error> {
    match &run.plan.recipe.method {
        Method::Peel(recipe) => peeling::run(run, recipe),
        Method::Dense => dense::run(run, None),
        Method::Vote(recipe) if recipe.comb.is_some() => comb_vote::run(run),
        Method::Vote(_) => vote::run(run),
    }
}

/// The samples that the planned method reads first.
pub(crate) fn sample_indices(plan: &Prepared) -> Box<dyn Iterator<Item = u64> + '_> {
    if let Some(menu) = plan.menu() {
        return Box::new(menu.indices(plan).into_iter());
    }
    match &plan.recipe.method {
        Method::Peel(recipe) => Box::new(peeling::sample_indices(plan, recipe)),
        Method::Dense => Box::new(0..plan.problem.n),
        Method::Vote(recipe) => vote::sample_indices(plan, recipe),
    }
}
