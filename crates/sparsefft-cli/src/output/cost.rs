//! What an answer has cost: every attempt, and their sum.

use crate::units::{grouped, seconds};
use sparsefft::find::Findings;
use sparsefft::{Spectrum, Stage, Tones, Verdict};
use std::time::Duration;

/// One attempt at an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// `grid`: Fourier coefficients; `tones`: frequencies between the bins; `survey`: everything.
    pub kind: &'static str,
    /// What came of it, in one word.
    pub verdict: &'static str,
    /// Samples read, counted with repetition.
    pub samples_read: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
}

/// All attempts, in their order, whether their answer was taken or not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    attempts: Vec<Attempt>,
    stages: Vec<(Stage, Duration)>,
    /// Bytes fetched from afar, where that is known.
    pub bytes_read: Option<u64>,
}

impl Cost {
    /// The cost of one transform.
    pub fn of(spectrum: &Spectrum) -> Self {
        let mut cost = Cost::default();
        cost.add(spectrum);
        cost
    }

    /// The same with these bytes fetched from afar.
    pub fn fetched(self, bytes_read: Option<u64>) -> Self {
        Cost { bytes_read, ..self }
    }

    /// Adds a transform on the grid.
    pub fn add(&mut self, spectrum: &Spectrum) {
        let report = spectrum.report();
        let verdict = spectrum.certificate().verdict.name();
        self.push("grid", verdict, report.samples_read, report.elapsed, &report.stages);
    }

    /// Adds a search for tones.
    pub fn add_tones(&mut self, tones: &Tones) {
        let report = tones.report();
        let verdict = tones.certificate().verdict.name();
        self.push("tones", verdict, report.samples_read, report.elapsed, &report.stages);
    }

    /// Adds everything that finding took.
    pub fn add_findings(&mut self, findings: &Findings) {
        for a in &findings.cost.attempts {
            self.push(a.kind, a.outcome, a.samples_read, a.elapsed, &a.stages);
        }
    }

    fn push(
        &mut self,
        kind: &'static str,
        verdict: &'static str,
        samples_read: u64,
        elapsed: Duration,
        stages: &[(Stage, Duration)],
    ) {
        self.attempts.push(Attempt { kind, verdict, samples_read, elapsed });
        for &(stage, spent) in stages {
            match self.stages.iter_mut().find(|(s, _)| *s == stage) {
                Some((_, sum)) => *sum += spent,
                None => self.stages.push((stage, spent)),
            }
        }
    }

    /// Whether all samples were read.
    pub fn read_everything(&self) -> bool {
        self.attempts.iter().any(|a| a.verdict == Verdict::Dense.name() || a.kind == "survey")
    }

    /// The attempts.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Samples read by all attempts, counted with repetition.
    pub fn samples_read(&self) -> u64 {
        self.attempts.iter().map(|a| a.samples_read).sum()
    }

    /// Wall-clock time of all attempts.
    pub fn elapsed(&self) -> Duration {
        self.attempts.iter().map(|a| a.elapsed).sum()
    }

    /// Time per stage over all attempts.
    pub fn stages(&self) -> &[(Stage, Duration)] {
        &self.stages
    }

    /// The attempts in one line, if there was more than one.
    pub fn describe(&self) -> Option<String> {
        let each = self.attempts.iter().map(|a| {
            let (read, time) = (grouped(a.samples_read), seconds(a.elapsed.as_secs_f64()));
            format!("{} ({}): {read} samples, {time}", a.kind, a.verdict)
        });
        (self.attempts.len() > 1).then(|| each.collect::<Vec<_>>().join("; "))
    }
}
