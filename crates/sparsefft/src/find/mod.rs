//! What is in this signal? One call that answers with lines, bands, bursts, sweeps and families.
//!
//! 1. A look on the grid, which ends at the first sign of noise, then
//!    [`Plan::tones`](crate::Plan::tones) between the bins and
//!    [`Plan::transform`](crate::Plan::transform) on the grid, each on a budget: a small part of the
//!    time that a dense FFT of this length takes. If the tests of the certificate hold, what the
//!    lines leave is steady white noise, and that is the answer.
//! 2. Otherwise the survey: all samples are read once, and everything is measured against a
//!    *local* floor.
//!
//! ```
//! use sparsefft::find;
//!
//! // A mains hum with harmonics in coloured noise, at 8 kHz.
//! let (n, rate) = (1 << 16, 8000.0);
//! let (mut noise, mut state) = (0.0, 1u64);
//! let signal: Vec<f64> = (0..n)
//!     .map(|t| {
//!         state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
//!         noise = 0.9 * noise + (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
//!         let hum = |k: f64| (std::f64::consts::TAU * 50.0 * k * t as f64 / rate).sin() / k;
//!         noise + 0.5 * (hum(1.0) + hum(2.0) + hum(3.0) + hum(4.0))
//!     })
//!     .collect();
//! let findings = find(&signal)?;
//! for line in &findings.lines {
//!     println!("{:.3} ± {:.3} Hz", line.hertz(rate), line.frequency_std * rate);
//! }
//! assert!((findings.lines[0].hertz(rate) - 50.0).abs() < 0.01);
//! # Ok::<(), sparsefft::Error>(())
//! ```

mod findings;
mod partial;
mod stream;
mod survey;

use crate::certificate::Verdict;
use crate::problem::{Algorithm, Fallback};
use crate::samples::Samples;
use crate::{Complex, Error, Peak, Plan, Problem, Spectrum, Stage, Tones, Workspace};
use findings::Sparse;
pub use findings::{
    Attempt, Burst, Cost, Family, Findings, Floor, FoundBand, Line, LineKind, Outcome, Reason,
    Sweep,
};
use std::sync::Mutex;
pub use stream::{Hop, Stream, Track};
pub use survey::long::Survey;

/// Share of the predicted time of a dense FFT that each of the sparse searches may take.
const GRID_SHARE: f64 = 0.02;
const TONES_SHARE: f64 = 0.05;
/// The same of a search for tones before a survey, where nothing but lines is asked for.
const BEFORE_SURVEY: f64 = 0.5;
/// Nanoseconds that they may always take.
const AT_LEAST: f64 = 1e5;
/// What a line half way between two bins loses in each of them.
const SCALLOP_DB: f64 = 3.92;
/// Nanoseconds of a first look on the grid: a comb of 64 bins, one of 256, and a window that verifies.
const PROBE: f64 = 2e4;

/// Buffers of searches that are over: the system takes as long to hand out new ones as a search of two
/// tones takes.
#[allow(clippy::vec_box)] // they are large, and each search takes one out and puts it back
static SPARE: Mutex<Vec<Box<Workspace>>> = Mutex::new(Vec::new());
/// So many are kept, of searches that read at most so many samples: about 4 MiB each.
const MOST_SPARE: usize = 2;
const SPARE_SAMPLES: u64 = 1 << 15;

/// The findings of a signal, with all defaults.
///
/// # Errors
/// As [`Find::run`].
pub fn find<S: Samples + ?Sized>(signal: &S) -> Result<Findings, Error> {
    Find::new().run(signal)
}

/// What a search on the grid came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnGrid {
    /// It is the answer.
    Settled,
    /// Lines leak over their bins, and would do so with any budget.
    Leaks,
    /// It was not certified.
    Open,
}

/// Whether all samples may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Effort {
    /// A sparse search alone.
    Quick,
    /// A sparse search, and all samples if it is not certified.
    #[default]
    Usual,
    /// All samples, without a sparse search.
    Thorough,
}

/// How to look for things. The defaults need no tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct Find {
    hints: Option<Problem>,
    at_most: Option<u64>,
    effort: Effort,
    failure: f64,
    memory: u64,
    seed: u64,
}

impl Default for Find {
    fn default() -> Self {
        Find::new()
    }
}

impl Find {
    /// The defaults.
    pub fn new() -> Self {
        Find {
            hints: None,
            at_most: None,
            effort: Effort::Usual,
            failure: 1e-6,
            memory: 4 << 30,
            seed: 0,
        }
    }

    /// What is known for the sparse searches: the expected number of coefficients, the noise, the
    /// tolerance and the accuracy of tones (default: nothing). The problem's length must be that of
    /// the signal; its algorithm and fallback do not matter.
    pub fn hints(mut self, problem: Problem) -> Self {
        self.hints = Some(problem);
        self
    }

    /// List at most so many lines, the strongest (default: all). It bounds the list and nothing
    /// else: what is left out is counted in [`Findings::left_out`].
    pub fn at_most(mut self, lines: u64) -> Self {
        self.at_most = Some(lines);
        self
    }

    /// Whether all samples may be read (default: if nothing less suffices).
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Accepted probability that noise makes a finding (default 10⁻⁶).
    pub fn failure_probability(mut self, p: f64) -> Self {
        self.failure = p;
        self
    }

    /// Bytes that the survey may take (default 4 GiB).
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Seed of the random choices (default 0).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The findings of a signal.
    ///
    /// # Errors
    /// [`Error::ZeroLength`] for an empty signal, [`Error::NonFinite`] for NaN or infinite samples
    /// among those read, [`Error::InvalidOption`], [`Error::OutOfMemory`], and what the source
    /// meets.
    pub fn run<S: Samples + ?Sized>(&self, signal: &S) -> Result<Findings, Error> {
        let n = signal.len();
        let problem = self.hints.clone().unwrap_or_else(|| Problem::new(n));
        let problem = problem.seed(self.seed).failure_probability(self.failure);
        problem.validate()?;
        if problem.n != n {
            return Err(Error::LengthMismatch { expected: problem.n, got: n });
        }
        let mut findings = self.empty(n, signal.is_real());
        let sparse = self.effort != Effort::Thorough;
        if sparse && self.sparse(signal, problem, &mut findings)? {
            return Ok(findings);
        }
        if self.effort == Effort::Quick {
            self.state_offset(signal, &mut findings)?;
            findings.reasons.push(Reason::new(
                "quick",
                "a part of the samples does not settle what is there; without the option 'quick' \
                 all of them are read",
            ));
            return Ok(findings);
        }
        self.survey_if_possible(signal, &mut findings)?;
        Ok(findings)
    }

    /// The tones of a signal: those of a search between the bins if they are certified, or all lines
    /// of a survey if all samples may be read (see [`effort`](Find::effort)); what is broad or damped
    /// by neighbours is among the clusters. The search ends when it has taken a good part of the time
    /// of a dense FFT. The answer of a survey is `dense`: all samples were read.
    ///
    /// # Errors
    /// As [`run`](Find::run).
    pub fn tones<S: Samples + ?Sized>(&self, signal: &S) -> Result<Tones, Error> {
        let n = signal.len();
        let problem = self.hints.clone().unwrap_or_else(|| Problem::new(n));
        let mut problem = problem.seed(self.seed).failure_probability(self.failure);
        problem.validate()?;
        if problem.n != n {
            return Err(Error::LengthMismatch { expected: problem.n, got: n });
        }
        let may_survey = self.effort != Effort::Quick && problem.fallback.allows(n);
        problem = problem.algorithm(Algorithm::Auto).fallback(Fallback::Auto);
        if may_survey {
            let dense = crate::plan::dense_at_best(n);
            problem = problem.budget((BEFORE_SURVEY * dense).max(AT_LEAST));
        }
        let tones = Plan::new(problem)?.tones(signal)?;
        if tones.certificate().is_certified() || !may_survey {
            return Ok(tones);
        }
        let mut findings = self.empty(n, signal.is_real());
        self.survey_if_possible(signal, &mut findings)?;
        let surveyed = findings.is_complete();
        Ok(if surveyed { partial::as_tones(&findings, tones) } else { tones })
    }

    /// Reads everything, if the signal is long enough and fits the memory; a reason if not.
    fn survey_if_possible<S: Samples + ?Sized>(
        &self,
        signal: &S,
        findings: &mut Findings,
    ) -> Result<(), Error> {
        let n = signal.len();
        let bytes = survey::bytes(n, signal.is_real());
        if n < survey::SHORTEST {
            findings.reasons.push(Reason::new(
                "too_short",
                format!(
                    "{n} samples are too few for a survey; at least {} are needed",
                    survey::SHORTEST
                ),
            ));
        } else if bytes > self.memory {
            self.survey_in_parts(signal, findings)?;
        } else {
            self.survey(signal, bytes, findings)?;
        }
        Ok(())
    }

    /// Adds the mean of a real signal to the lines of a search that did not settle it.
    fn state_offset<S: Samples + ?Sized>(
        &self,
        signal: &S,
        findings: &mut Findings,
    ) -> Result<(), Error> {
        let watch = crate::cpu::ticks::Stopwatch::start();
        let near = |line: &Line| line.frequency.abs() * (findings.n as f64) < 2.0;
        if findings.lines.iter().any(near) {
            return Ok(());
        }
        let (line, samples_read) = partial::offset(signal)?;
        if let (Some(line), Some(Sparse::Tones(tones))) = (&line, &mut findings.sparse) {
            partial::add_line(line, tones);
        }
        findings.lines.extend(line);
        self.keep_strongest(findings);
        let (outcome, elapsed) = (findings.outcome.name(), watch.elapsed());
        let stages = vec![(Stage::Permute, elapsed)];
        let attempt = Attempt { kind: "offset", outcome, samples_read, elapsed, stages };
        findings.cost.attempts.push(attempt);
        Ok(())
    }

    fn empty(&self, n: u64, real: bool) -> Findings {
        Findings {
            n,
            real,
            lines: Vec::new(),
            bands: Vec::new(),
            bursts: Vec::new(),
            sweeps: Vec::new(),
            families: Vec::new(),
            floor: Floor::default(),
            outcome: Outcome::Partial,
            reasons: Vec::new(),
            threshold_db: f64::INFINITY,
            failure_probability: self.failure,
            left_out: 0,
            seed: self.seed,
            cost: Cost::default(),
            sparse: None,
        }
    }

    /// Searches on the grid and between the bins; whether that settled it.
    fn sparse<S: Samples + ?Sized>(
        &self,
        signal: &S,
        problem: Problem,
        findings: &mut Findings,
    ) -> Result<bool, Error> {
        let problem = problem.fallback(Fallback::Never).algorithm(Algorithm::Auto);
        let mut workspace = SPARE.lock().ok().and_then(|mut all| all.pop()).unwrap_or_default();
        let settled = self.sparse_with(signal, problem, &mut workspace, findings);
        if findings.cost.samples_read() <= SPARE_SAMPLES
            && let Ok(mut all) = SPARE.lock()
            && all.len() < MOST_SPARE
        {
            all.push(workspace);
        }
        settled
    }

    /// The same with these buffers.
    fn sparse_with<S: Samples + ?Sized>(
        &self,
        signal: &S,
        problem: Problem,
        workspace: &mut Workspace,
        findings: &mut Findings,
    ) -> Result<bool, Error> {
        let dense = crate::plan::dense_at_best(signal.len());
        let share = |share: f64| (share * dense).max(AT_LEAST);
        // Whoever names a number expects coefficients.
        let told = problem.k().is_some();
        let probe = problem.clone().probe().budget(if told { share(GRID_SHARE) } else { PROBE });
        let probed = self.on_grid(signal, probe, workspace, findings)?;
        if probed == OnGrid::Settled {
            return Ok(true);
        }
        // Tones need no transform on the grid, so that its limits do not matter.
        let between = problem.clone().fallback(Fallback::Auto).budget(share(TONES_SHARE));
        let tones = Plan::new(between)?.tones_with(signal, workspace)?;
        let (report, certificate) = (tones.report(), tones.certificate());
        findings.cost.attempts.push(Attempt {
            kind: "tones",
            outcome: certificate.verdict.name(),
            samples_read: report.samples_read,
            elapsed: report.elapsed,
            stages: report.stages.clone(),
        });
        let certified = certificate.is_certified();
        let budget = share(GRID_SHARE);
        if !certified
            && probed == OnGrid::Open
            && self.on_grid(signal, problem.budget(budget), workspace, findings)? == OnGrid::Settled
        {
            return Ok(true);
        }
        if let Some(reason) = certificate.reason.as_ref().filter(|_| !certified) {
            let text = format!("a part of the samples did not settle it: {reason}");
            findings.reasons.push(Reason::new("not_sparse", text));
        }
        self.accept_tones(tones, findings);
        Ok(certified)
    }

    /// Searches on the grid.
    fn on_grid<S: Samples + ?Sized>(
        &self,
        signal: &S,
        problem: Problem,
        workspace: &mut Workspace,
        findings: &mut Findings,
    ) -> Result<OnGrid, Error> {
        // Lengths that no sparse transform suits are for tones.
        let Ok(plan) = Plan::new(problem) else { return Ok(OnGrid::Open) };
        let spectrum = plan.transform_with(signal, workspace)?;
        let (report, certificate) = (spectrum.report(), spectrum.certificate());
        let leaks = partial::leaks(&spectrum);
        findings.cost.attempts.push(Attempt {
            kind: "grid",
            outcome: if leaks { "leakage" } else { certificate.verdict.name() },
            samples_read: report.samples_read,
            elapsed: report.elapsed,
            stages: report.stages.clone(),
        });
        // Of very short signals every coefficient was computed, and there is nothing to survey.
        let whole = certificate.is_complete() && signal.len() < survey::SHORTEST;
        if certificate.is_certified() && !leaks || whole {
            self.accept_grid(spectrum, findings);
            return Ok(OnGrid::Settled);
        }
        Ok(if leaks { OnGrid::Leaks } else { OnGrid::Open })
    }

    fn accept_grid(&self, spectrum: Spectrum, findings: &mut Findings) {
        let (n, certificate) = (spectrum.n(), spectrum.certificate());
        // Errors of the coefficients: the noise, over the samples that were read.
        let read = spectrum.report().samples_read.max(1) as f64;
        let std = certificate.noise_floor / read.sqrt();
        // A line off its bin by δ puts a share of about δ into the next one, where the limit hides it.
        let frequency_std = |p: &Peak| {
            let hidden = certificate.detection_limit * n as f64 / p.magnitude();
            if std > 0.0 { hidden.min(0.5) / 3f64.sqrt() / n as f64 } else { 0.0 }
        };
        let lines = spectrum.peaks().iter().map(|p| Line {
            kind: LineKind::Tone,
            frequency: p.frequency(n),
            frequency_std: frequency_std(p),
            amplitude: p.value / n as f64,
            amplitude_std: std,
            snr_db: spectrum.snr_db(p),
            drift: None,
            width: None,
            damping: None,
            mirrored: false,
        });
        self.accept(lines.collect(), certificate, spectrum.report().left_out, findings);
        // The limit is that of a coefficient; a line between two bins shows less of itself in each.
        findings.threshold_db += SCALLOP_DB;
        findings.floor.threshold_db.iter_mut().for_each(|t| *t += SCALLOP_DB);
        findings.sparse = Some(Sparse::Grid(Box::new(spectrum)));
    }

    fn accept_tones(&self, tones: Tones, findings: &mut Findings) {
        let lines = tones.tones().iter().map(|t| Line {
            kind: LineKind::Tone,
            frequency: t.frequency,
            frequency_std: t.frequency_std,
            amplitude: t.amplitude,
            amplitude_std: t.amplitude_std,
            snr_db: t.snr_db(),
            drift: t.drift,
            width: None,
            damping: None,
            mirrored: false,
        });
        self.accept(lines.collect(), tones.certificate(), tones.report().left_out, findings);
        findings.bands = tones.bands().iter().map(|b| self.band(b, findings)).collect();
        findings.sparse = Some(Sparse::Tones(Box::new(tones)));
    }

    /// A band that the search between the bins has named.
    fn band(&self, band: &crate::Band, findings: &Findings) -> FoundBand {
        let density = findings.floor.at(band.centre()).max(f64::MIN_POSITIVE);
        FoundBand {
            low: band.low,
            high: band.high,
            peak: band.centre(),
            power: band.power,
            above_db: 10.0 * (1.0 + band.power / band.width().max(1e-300) / density).log10(),
            busy: None,
        }
    }

    /// Takes the lines of a sparse search.
    fn accept(
        &self,
        mut lines: Vec<Line>,
        certificate: &crate::Certificate,
        left_out: u64,
        findings: &mut Findings,
    ) {
        let n = findings.n as f64;
        if findings.real {
            // Each line has a mirror image, except at 0 and at half the rate.
            lines.retain(|l| l.frequency >= 0.0 || l.frequency == -0.5);
            for line in &mut lines {
                line.frequency = line.frequency.abs();
                line.mirrored = line.frequency > 0.0 && line.frequency < 0.5;
                if line.frequency == 0.0 {
                    line.kind = LineKind::Offset;
                }
            }
        }
        findings.lines = lines;
        findings.left_out = left_out;
        findings.outcome = match certificate.verdict {
            Verdict::Certified => Outcome::Certified,
            Verdict::Dense => Outcome::Complete,
            Verdict::Uncertified => Outcome::Partial,
        };
        let density = certificate.noise_floor.powi(2);
        let snr = n * certificate.detection_limit.powi(2) / density;
        let threshold_db = if snr.is_finite() { 10.0 * snr.log10() } else { 0.0 };
        findings.floor = Floor {
            frequency: vec![if findings.real { 0.0 } else { -0.5 }, 0.5],
            density: vec![density; 2],
            std_db: vec![0.1; 2],
            threshold_db: vec![threshold_db; 2],
        };
        findings.threshold_db = threshold_db;
        self.keep_strongest(findings);
    }

    /// Reads everything.
    fn survey<S: Samples + ?Sized>(
        &self,
        signal: &S,
        bytes: u64,
        findings: &mut Findings,
    ) -> Result<(), Error> {
        let watch = crate::cpu::ticks::Stopwatch::start();
        let survey = survey::run(&read_all(signal)?, self.failure)?;
        findings.lines = survey.lines;
        findings.bands = survey.bands;
        findings.bursts = survey.bursts;
        findings.sweeps = survey.sweeps;
        findings.families = survey.families;
        findings.floor = survey.floor;
        findings.reasons.extend(survey.reasons);
        findings.threshold_db = survey.threshold_db;
        findings.outcome = Outcome::Complete;
        findings.sparse = None;
        findings.left_out = 0;
        findings.cost.memory = bytes;
        self.keep_strongest(findings);
        let elapsed = watch.elapsed();
        let outcome = findings.outcome.name();
        let samples_read = signal.len();
        let stages = vec![(Stage::Dense, elapsed)];
        let attempt = Attempt { kind: "survey", outcome, samples_read, elapsed, stages };
        findings.cost.attempts.push(attempt);
        Ok(())
    }

    /// Reads everything in parts that fit into memory.
    fn survey_in_parts<S: Samples + ?Sized>(
        &self,
        signal: &S,
        findings: &mut Findings,
    ) -> Result<(), Error> {
        let survey = match survey::long::run(signal, self.failure, self.memory) {
            Err(Error::Unsupported { reason, .. }) => {
                findings.reasons.push(Reason::new("too_long", reason));
                return Ok(());
            }
            other => other?,
        };
        let mut attempts = std::mem::take(&mut findings.cost.attempts);
        let mut reasons = std::mem::take(&mut findings.reasons);
        *findings = Findings { seed: self.seed, ..survey };
        attempts.append(&mut findings.cost.attempts);
        reasons.append(&mut findings.reasons);
        (findings.cost.attempts, findings.reasons) = (attempts, reasons);
        self.keep_strongest(findings);
        Ok(())
    }

    /// Drops the lines beyond those that were asked for; families lose these members, too.
    fn keep_strongest(&self, findings: &mut Findings) {
        findings.lines.sort_by(|a, b| b.magnitude().total_cmp(&a.magnitude()));
        let most = self.at_most.map_or(usize::MAX, |k| usize::try_from(k).unwrap_or(usize::MAX));
        let count = findings.lines.len();
        if count > most {
            findings.lines.truncate(most);
            findings.left_out += (count - most) as u64;
            for family in &mut findings.families {
                family.members.retain(|m| *m < most);
            }
        }
    }
}

/// All samples of a signal: complex ones of f64 where they lie, others as a copy.
fn read_all<S: Samples + ?Sized>(signal: &S) -> Result<survey::Samples<'_>, Error> {
    /// Samples that are asked for at a time: what fits a cache, or what is worth fetching.
    const CACHED: usize = 1 << 13;
    const FETCHED: usize = 1 << 16;
    let n = signal.len();
    let size = if signal.in_memory() { CACHED } else { FETCHED };
    if signal.is_real() {
        let mut all = crate::dense::zeroed_reals::<f64>(n, n)?;
        let mut block = vec![Complex::ZERO; size.min(all.len())];
        for (i, part) in all.chunks_mut(size).enumerate() {
            let values = &mut block[..part.len()];
            signal.read_range((i * size) as u64, values)?;
            check(i * size, values)?;
            part.iter_mut().zip(values).for_each(|(out, v)| *out = v.re);
        }
        return Ok(survey::Samples::Real(all));
    }
    if let Some(all) = signal.as_complex() {
        check(0, all)?;
        return Ok(survey::Samples::Complex(all.into()));
    }
    let mut all = crate::dense::zeroed(n, n)?;
    for (i, part) in all.chunks_mut(size).enumerate() {
        signal.read_range((i * size) as u64, part)?;
        check(i * size, part)?;
    }
    Ok(survey::Samples::Complex(all.into()))
}

/// Refuses samples that are not finite, or whose squares, summed over a record, would not be.
fn check(start: usize, values: &[Complex<f64>]) -> Result<(), Error> {
    const LARGEST: f64 = 1e140;
    // NaN is not small.
    let small = |v: &Complex<f64>| (v.re.abs() <= LARGEST) & (v.im.abs() <= LARGEST);
    for (i, group) in values.chunks(64).enumerate() {
        if group.iter().fold(true, |all, v| all & small(v)) {
            continue;
        }
        let at = group.iter().position(|v| !small(v)).unwrap_or(0);
        let value = group[at];
        if value.re.is_finite() && value.im.is_finite() {
            return Err(Error::Overflow { limit: LARGEST });
        }
        return Err(crate::algorithms::non_finite((start + 64 * i + at) as u64, value));
    }
    Ok(())
}
