//! Hash, decode, peel, certify: the engine of `exact` and `robust`.
//!
//! 1. One hash of all frequencies: a comb where n has a suitable divisor, else a window hash. Its
//!    first line of four shifts tells how much noise there is; noise asks for more lines (the
//!    ladder), so nothing is read twice.
//! 2. Bins with one or two frequencies are decoded from their phases.
//! 3. Frequencies that share a bin with more are found in window hashes with fresh permutations,
//!    peeled from every hash, and confirmed where they came from.
//! 4. A window hash with a permutation of its own must be explained to the noise floor. It takes no
//!    part in the decoding, but for the few frequencies that crowded bins leave without noise: of
//!    these it tells which they are, and the comb their values.
//!
//! What cannot be explained is reported, never hidden: the caller retries with more bins, falls
//! back to the dense FFT, or answers `uncertified`.

mod conclude;
mod decode;
mod engine;
mod examine;
mod resolve;
pub(crate) mod sprint;

use super::{Answer, Run, dense};
use crate::Error;
use crate::certificate::{Certificate, Verdict};
use crate::cpu::threads;
use crate::plan::{self, First, Peeling, smooth_near};
use crate::problem::{Algorithm, Noise, Problem};
use crate::stages::certify::upper_quantile;
use crate::stages::hash::{Course, Hash};
use crate::stages::permute::Permutation;
use crate::stages::window::{self, BETAS, length};
pub(crate) use engine::Buffers;
use engine::Engine;
#[cfg(feature = "cuda")]
pub(crate) use engine::ROUNDING;
use sprint::{Sprint, TIGHT, sprint};

/// Sets of bins that are tried before giving up.
const MAX_TRIES: u32 = 12;
/// How many times the planned bins may become where no dense FFT is allowed.
const MOST_GROWTH: u64 = 1024;

/// What is said where the samples of one pass do not settle the answer.
const SECOND_PASS: &str = "; the samples that one pass keeps do not settle it: a second pass is \
                           needed, with another seed or a larger k";

/// How an attempt ended.
enum Outcome {
    /// Everything is explained.
    Certified(Answer),
    /// More bins are needed: too many are occupied.
    Crowded,
    /// Something is left; the answer says what.
    Open(Answer),
    /// The comb is blind to something that another hash sees.
    Blind(Answer),
    /// All bins are explained, but samples that were read contradict the answer: more bins would
    /// not change that.
    Refuted(Answer),
    /// All is explained, but fewer stand above the noise than were asked for, and those far
    /// above: more bins would find nothing else.
    Short(Answer),
}

/// Runs the peeling recipe, with its retries.
pub(crate) fn run(run: &mut Run<'_>, recipe: &Peeling) -> Result<Answer, Error> {
    let problem = &run.plan.problem;
    let n = problem.n;
    if problem.k() == Some(0) {
        return nothing_asked(run);
    }
    let mut begun = match sprint(run, recipe)? {
        Some(Sprint::Certified(answer)) => return Ok(answer),
        begun => begun,
    };
    let mut first = recipe.first;
    let mut previous = None;
    let mut attempts = 1;
    let mut sigmas = recipe.sigmas;
    let known_k = problem.k().is_some();
    let planned = recipe.first.bins() as u64;
    let mut tries = 0;
    let mut first_read = 0;
    let wide = (8 * problem.k().unwrap_or(64)).max(256).next_power_of_two() as usize;
    loop {
        // The attempts of a menu share their window hashes.
        let attempt = if recipe.menu.is_some() { 1 } else { tries + 1 };
        let mut engine = Engine::new(run, sigmas, attempt);
        let work = match first {
            First::Comb { bins } => 4 * bins,
            First::Window { buckets } => 16 * buckets,
        };
        let outcome = threads::with_team(work as u64, || {
            let outcome = match first {
                First::Comb { bins } => {
                    let begin = if tries == 0 { recipe.begin } else { bins };
                    engine.comb_attempt(
                        [begin, bins],
                        previous.take(),
                        begun.take(),
                        &recipe.ladder,
                    )?
                }
                First::Window { buckets } => engine.window_attempt(buckets, &recipe.ladder)?,
            };
            Ok::<_, Error>(match outcome {
                Outcome::Certified(_) | Outcome::Short(_) | Outcome::Refuted(_) => outcome,
                _ => engine.tolerate()?.map_or(outcome, Outcome::Certified),
            })
        })?;
        let comb = engine.finish();
        let blind = matches!(outcome, Outcome::Blind(_));
        let (best, counts) = match outcome {
            Outcome::Certified(mut answer) => {
                if let Some(comb) = comb {
                    comb.recycle(run);
                }
                answer.certificate.attempts = attempts;
                return Ok(answer);
            }
            Outcome::Crowded => (None, known_k),
            Outcome::Open(answer) => (Some(answer), known_k),
            Outcome::Blind(answer) => (Some(answer), true),
            Outcome::Short(answer) | Outcome::Refuted(answer) => {
                if let Some(comb) = comb {
                    comb.recycle(run);
                }
                return give_up(run, Some(answer), attempts);
            }
        };
        // Growing is how an unknown k is found, not a failure.
        attempts += u32::from(counts);
        tries += 1;
        if tries == 1 {
            first_read = run.samples_read;
        }
        let next = match first {
            First::Comb { .. } if blind => First::Window { buckets: wide },
            First::Comb { bins } => match smooth_near(n, bins, 4 * bins as u64) {
                Some(bins) => First::Comb { bins },
                None => First::Window { buckets: (4 * bins).next_power_of_two() },
            },
            First::Window { buckets } => First::Window { buckets: 4 * buckets },
        };
        let (reads, bins) = match next {
            First::Comb { bins } => (bins as f64, bins),
            First::Window { buckets } => (window::length(BETAS[4], buckets) as f64, buckets),
        };
        let lines = comb.as_ref().map_or(1, |c| c.offsets.len().max(1)) as f64;
        let cost = 2.0 * lines * reads * 30.0;
        // Where a dense FFT is out of the question its cost is no measure; growing ends somewhere.
        let patient = bins as u64 <= MOST_GROWTH * planned
            && run.samples_read < (64 * first_read).max(1 << 20);
        let bounded = run.plan.problem.fallback.allows(n) || patient;
        let affordable = match &recipe.menu {
            Some(menu) => tries < menu.attempts && next == menu.finest,
            None => bounded && cost < 0.8 * plan::dense_at_best(n) && reads * 8.0 < n as f64,
        };
        let within = problem.affords(run.samples_read as f64 + 4.0 * lines * reads);
        if !affordable || !within || tries >= MAX_TRIES {
            if let Some(comb) = comb {
                comb.recycle(run);
            }
            let mut answer = give_up(run, best, attempts)?;
            if let (Some(_), Some(reason)) = (&recipe.menu, &mut answer.certificate.reason) {
                *reason += SECOND_PASS;
            }
            return Ok(answer);
        }
        previous = match (comb, next) {
            (Some(comb), First::Comb { .. }) => Some(comb),
            (comb, _) => {
                if let Some(comb) = comb {
                    comb.recycle(run);
                }
                None
            }
        };
        first = next;
        sigmas = upper_quantile(run.plan.problem.failure / (4 * bins) as f64);
    }
}

/// The samples of the first pass.
pub(crate) fn sample_indices<'a>(
    plan: &'a plan::Prepared,
    recipe: &'a Peeling,
) -> impl Iterator<Item = u64> + 'a {
    let n = plan.problem.n;
    let window = |buckets, beta, stream| {
        let reach = length(beta, buckets) / 2;
        Course::of_window(n, &permutation_of(plan, stream), reach)
    };
    let first = match recipe.first {
        First::Comb { .. } => Course::of_comb(n, recipe.begin),
        First::Window { buckets } if recipe.begin < buckets => window(recipe.begin, TIGHT, 0),
        First::Window { buckets } => window(buckets, first_beta(&plan.problem), 0),
    };
    let verify = window(recipe.verify, recipe.verify_beta, VERIFY_STREAM);
    // By number, so that nobody needs to walk through all of them to know how many there are.
    let each = first.reads();
    let of_first = (0..recipe.ladder.len() as u64 * each)
        .map(move |i| first.index(recipe.ladder[(i / each) as usize], i % each));
    of_first.chain((0..verify.reads()).map(move |i| verify.index(0, i)))
}

/// The shape of a first window of all frequencies that is not [`TIGHT`]: of those that noise, an unknown number or one pass
/// asks for.
pub(crate) fn first_beta(problem: &Problem) -> f64 {
    match (problem.noise, problem.algorithm) {
        (Noise::Snr(_), algorithm) if algorithm != Algorithm::Exact => 16.0,
        _ => BETAS[4],
    }
}

/// Stream number of the verifying permutation; those of the decoding hashes count up from 1.
pub(crate) const VERIFY_STREAM: u64 = 500;

/// Stream number of the window hash of this round of stage two.
pub(crate) fn window_stream(attempt: u32, round: usize) -> u64 {
    1 + 20 * u64::from(attempt) + round as u64
}

/// A window hash with the permutation number `stream`.
fn window_hash(run: &mut Run<'_>, buckets: usize, beta: f64, stream: u64) -> Hash {
    let permutation = permutation_of(run.plan, stream);
    Hash::window(run, buckets, beta, permutation)
}

/// The permutation number `stream`.
pub(crate) fn permutation(n: u64, seed: u64, stream: u64) -> Permutation {
    if stream >= VERIFY_STREAM {
        Permutation::verifying(n, seed, stream)
    } else {
        Permutation::random(n, seed, stream)
    }
}

/// The permutation number `stream` of a plan.
fn permutation_of(plan: &plan::Prepared, stream: u64) -> Permutation {
    plan.permutation(stream, || permutation(plan.problem.n, plan.recipe.seed, stream))
}

/// k = 0: nothing is asked; the certificate says whether there was anything. Short signals are then transformed
/// densely.
fn nothing_asked(run: &mut Run<'_>) -> Result<Answer, Error> {
    /// Longest signal that is read whole for this.
    const SHORT: u64 = 1 << 16;
    let mut probe = window_hash(run, 64, plan::VERIFY_BETA, VERIFY_STREAM);
    probe.measure(run, 0)?;
    let power: f64 = probe.energy.iter().sum();
    let silent = power == 0.0;
    let certificate = Certificate {
        verdict: if silent { Verdict::Certified } else { Verdict::Uncertified },
        reason: (!silent)
            .then(|| "no coefficient was asked for, but the signal is not zero".to_string()),
        bins_tested: 64,
        bins_unexplained: probe.energy.iter().filter(|e| **e > 0.0).count() as u64,
        residual_energy: if silent { 0.0 } else { 1.0 },
        noise_floor: 0.0,
        detection_limit: 0.0,
        rest_limit: if silent { 0.0 } else { 1.0 },
        failure_probability: run.plan.problem.failure,
        attempts: 1,
    };
    probe.recycle(run);
    let algorithm = run.plan.recipe.algorithm;
    let answer = Answer { algorithm, peaks: Vec::new(), in_order: true, certificate };
    if silent || run.plan.problem.n > SHORT { Ok(answer) } else { give_up(run, Some(answer), 1) }
}

/// The dense FFT where it is allowed, else the best answer so far, uncertified.
fn give_up(run: &mut Run<'_>, best: Option<Answer>, attempts: u32) -> Result<Answer, Error> {
    let problem = &run.plan.problem;
    let reason = match &best {
        Some(answer) => answer.certificate.reason.clone().unwrap_or_default(),
        None => "the spectrum is not sparse: too many bins are occupied".to_string(),
    };
    if problem.fallback.allows(problem.n) {
        let mut answer = dense::run(run, Some(format!("dense FFT after: {reason}")))?;
        answer.certificate.attempts = attempts;
        return Ok(answer);
    }
    Ok(match best {
        Some(mut answer) => {
            answer.certificate.attempts = attempts;
            answer
        }
        None => refuse(run, &reason, attempts),
    })
}

/// An empty, uncertified answer.
fn refuse(run: &Run<'_>, reason: &str, attempts: u32) -> Answer {
    Answer {
        algorithm: run.plan.recipe.algorithm,
        peaks: Vec::new(),
        in_order: true,
        certificate: Certificate {
            verdict: Verdict::Uncertified,
            reason: Some(reason.to_string()),
            bins_tested: 0,
            bins_unexplained: 0,
            residual_energy: 1.0,
            noise_floor: 0.0,
            detection_limit: f64::INFINITY,
            rest_limit: 1.0,
            failure_probability: run.plan.problem.failure,
            attempts,
        },
    }
}
