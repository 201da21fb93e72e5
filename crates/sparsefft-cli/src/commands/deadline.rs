//! `peaks --time`: a bound on the time of a search, and what was found until then.

use super::search::Found;
use crate::output::Cost;
use anyhow::{Result, bail};
use num_complex::Complex;
use sparsefft::find::{Effort, Find, Findings};
use sparsefft::{Algorithm, Error, Line, Plan, Problem, Samples};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A part of the samples is searched for at least so long, however short the time: of a file it
/// takes milliseconds, and without it there is nothing to tell.
const FIRST: Duration = Duration::from_secs(2);
/// What a survey takes, in dense FFTs of the same samples.
const SURVEY: f64 = 1.5;

/// Samples that can be read until some time.
struct Timed<'a, S> {
    inner: &'a S,
    end: Instant,
    over: AtomicBool,
}

impl<S: Samples> Timed<'_, S> {
    /// Whether a read was refused.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), Error> {
        if Instant::now() < self.end {
            return Ok(());
        }
        self.over.store(true, Ordering::Relaxed);
        Err(Error::Source("the time is over".into()))
    }
}

impl<S: Samples> Samples for Timed<'_, S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn is_real(&self) -> bool {
        self.inner.is_real()
    }
    fn resolution(&self) -> f64 {
        self.inner.resolution()
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.check()?;
        self.inner.read(indices, out)
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        self.check()?;
        self.inner.read_lines(start, step, out)
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        /// Samples between two looks at the clock.
        const PIECE: usize = 1 << 20;
        for (i, piece) in out.chunks_mut(PIECE).enumerate() {
            self.check()?;
            self.inner.read_range(start + (i * PIECE) as u64, piece)?;
        }
        Ok(())
    }
}

/// Finds what is there until the time is over: what a part of the samples tells first.
///
/// # Errors
/// What the source meets; a time in which nothing could be measured.
pub fn find_within<S: Samples>(find: &Find, signal: &S, time: Duration) -> Result<Found> {
    let start = Instant::now();
    let until = |time| Timed { inner: signal, end: start + time, over: AtomicBool::new(false) };
    let timed = until(time.max(FIRST));
    let first = find.clone().effort(Effort::Quick).run(&timed);
    let Ok(mut findings) = first else {
        if timed.is_over() {
            bail!("nothing could be measured within {:?}; give more --time", time.max(FIRST));
        }
        return Ok(of(first?));
    };
    if findings.is_certified() || findings.is_complete() {
        return Ok(of(findings));
    }
    let timed = until(time);
    let survey = if survey_time(signal.len())? > timed.end.saturating_duration_since(Instant::now())
    {
        None
    } else {
        match find.clone().effort(Effort::Thorough).run(&timed) {
            Err(_) if timed.is_over() => None,
            other => Some(other?),
        }
    };
    match survey {
        Some(mut all) => {
            all.cost.attempts.splice(0..0, findings.cost.attempts);
            Ok(of(all))
        }
        None => {
            // Why a part of the samples was not enough stays beside it.
            for reason in findings.reasons.iter_mut().filter(|r| r.code == "quick") {
                reason.code = "time";
                reason.text = format!(
                    "{time:?} do not suffice to survey all samples; this is what a part tells"
                );
            }
            Ok(of(findings))
        }
    }
}

fn of(findings: Findings) -> Found {
    let mut cost = Cost::default();
    cost.add_findings(&findings);
    let tones = findings.tones().cloned();
    Found { spectrum: findings.to_spectrum(), tones, findings: Some(findings), cost }
}

/// What a survey of n samples will take at least.
fn survey_time(n: u64) -> Result<Duration> {
    let plan = Plan::new(Problem::new(n).algorithm(Algorithm::Dense))?;
    let dense = plan.recipe().estimates.iter().map(|e| e.nanoseconds).fold(0.0, f64::max);
    Ok(Duration::from_secs_f64(SURVEY * dense * 1e-9))
}
