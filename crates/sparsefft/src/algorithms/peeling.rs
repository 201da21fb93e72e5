//! Hash, decode, peel, certify: the engine of `exact` and `robust`.
//!
//! 1. One hash of all frequencies: a comb where n has a suitable divisor, else a window hash. Its
//!    first line of four shifts tells how much noise there is; noise asks for more lines (the
//!    ladder), so nothing is read twice.
//! 2. Bins with one or two frequencies are decoded from their phases.
//! 3. Frequencies that share a bin with more are found in window hashes with fresh permutations,
//!    peeled from every hash, and confirmed where they came from.
//! 4. A window hash that took no part in the decoding must be explained to the noise floor.
//!
//! What cannot be explained is reported, never hidden: the caller retries with more bins, falls
//! back to the dense FFT, or answers `uncertified`.

use super::{Answer, Run, dense};
use crate::certificate::{Certificate, Verdict};
use crate::cpu::wide::F4;
use crate::plan::{self, First, Peeling, smooth_near};
use crate::problem::{Algorithm, Noise};
use crate::samples::Line;
use crate::spectrum::Peak;
use crate::stages::Stage;
use crate::stages::certify::{floor, threshold, upper_quantile};
use crate::stages::estimate::{MAX_FIT, fit, polish};
use crate::stages::hash::{Hash, Kind};
use crate::stages::locate::{
    self, Found, Lattice, MAX_LINES, comb_singles, double, phasors, single,
};
use crate::stages::peel::{Coefficient, peel_all, peel_one};
use crate::stages::permute::{Permutation, distance};
use crate::stages::unity::Unity;
use crate::stages::window::{self, BETAS};
use crate::{Complex, Error};
use std::collections::HashMap;

/// Rounding, relative to the rms sample: three orders above what f64 transforms leave, so that it
/// also covers signals that were themselves made by one.
pub(crate) const ROUNDING: f64 = 1e-13;
/// Rounding relative to the energy of the same bin.
const OWN_ROUNDING: f64 = 1e-26;
/// Share of active bins above which a comb is too small.
const CROWDED: f64 = 0.35;
/// Window hashes per attempt.
const MAX_ROUNDS: usize = 10;
/// Sets of bins that are tried before giving up.
const MAX_TRIES: u32 = 12;
/// How many times the planned bins may become where no dense FFT is allowed.
const MOST_GROWTH: u64 = 1024;
/// Power below which squares of samples lose their digits.
const TINY_POWER: f64 = 1e-250;
/// Least signal-to-noise ratio of a lane for which a ladder is built.
const LEAST_GAMMA: f64 = 16.0;

/// Why tiny samples are refused.
const TOO_SMALL: &str = "the samples are so small that their squares vanish; scale the signal";

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
    let dense_cost = plan::dense(n).nanoseconds;
    let mut first = recipe.first;
    let mut previous = None;
    let mut attempts = 1;
    let mut sigmas = recipe.sigmas;
    let known_k = problem.k().is_some();
    let planned = match recipe.first {
        First::Comb { bins } => bins as u64,
        First::Window { buckets } => buckets as u64,
    };
    let mut tries = 0;
    let mut first_read = 0;
    let wide = (8 * problem.k().unwrap_or(64)).max(256).next_power_of_two() as usize;
    loop {
        let mut engine = Engine::new(run, sigmas, tries + 1);
        let outcome = match first {
            First::Comb { bins } => engine.comb_attempt(bins, previous.take(), &recipe.ladder)?,
            First::Window { buckets } => engine.window_attempt(buckets, &recipe.ladder)?,
        };
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
            Outcome::Short(answer) => {
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
        let affordable = bounded && cost < 0.8 * dense_cost && reads * 8.0 < n as f64;
        if !affordable || tries >= MAX_TRIES {
            if let Some(comb) = comb {
                comb.recycle(run);
            }
            return give_up(run, best, attempts);
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
    let first = match recipe.first {
        First::Comb { bins } => Hash::new(n, plan.fft(bins), Kind::Comb),
        First::Window { buckets } => window_hash(plan, buckets, BETAS[4], 0),
    };
    let verify = window_hash(plan, recipe.verify, plan::VERIFY_BETA, VERIFY_STREAM);
    let ladder = recipe.ladder.clone();
    let of_first = ladder.into_iter().flat_map(move |d| first.indices(d));
    of_first.chain(verify.indices(0))
}

/// Stream number of the verifying permutation; those of the decoding hashes count up from 1.
pub(crate) const VERIFY_STREAM: u64 = 500;

/// Stream number of the window hash of this round of stage two.
pub(crate) fn window_stream(attempt: u32, round: usize) -> u64 {
    1 + 20 * u64::from(attempt) + round as u64
}

/// A window hash with the permutation number `stream`.
fn window_hash(plan: &plan::Prepared, buckets: usize, beta: f64, stream: u64) -> Hash {
    let permutation = Permutation::random(plan.problem.n, plan.recipe.seed, stream);
    let kind = Kind::Window { permutation, kaiser: plan.kaiser(beta, buckets) };
    Hash::new(plan.problem.n, plan.fft(buckets), kind)
}

/// k = 0: nothing is asked; the certificate says whether there was anything.
fn nothing_asked(run: &mut Run<'_>) -> Result<Answer, Error> {
    let mut probe = window_hash(run.plan, 64, plan::VERIFY_BETA, VERIFY_STREAM);
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
        failure_probability: run.plan.problem.failure,
        attempts: 1,
    };
    probe.recycle(run);
    Ok(Answer { algorithm: run.plan.recipe.algorithm, peaks: Vec::new(), certificate })
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
        certificate: Certificate {
            verdict: Verdict::Uncertified,
            reason: Some(reason.to_string()),
            bins_tested: 0,
            bins_unexplained: 0,
            residual_energy: 1.0,
            noise_floor: 0.0,
            detection_limit: f64::INFINITY,
            failure_probability: run.plan.problem.failure,
            attempts,
        },
    }
}

/// One attempt: the hashes measured, the coefficients found, the noise as known so far.
struct Engine<'r, 'a> {
    run: &'r mut Run<'a>,
    n: u64,
    unity: Unity,
    /// Standard deviations of every threshold.
    sigmas: f64,
    attempt: u32,
    /// Whether the bins may hold noise.
    noisy: bool,
    /// Noise power of one sample.
    noise: f64,
    /// Power of one sample, everything included.
    power: f64,
    /// Least |a|² that the ladder places reliably.
    least: f64,
    comb: Option<Hash>,
    windows: Vec<Hash>,
    known: Vec<Coefficient>,
    index: HashMap<u64, usize>,
    /// Frequencies known per comb bin, kept once peeling has begun.
    members: HashMap<usize, Vec<u64>>,
    /// Active bins too weak to be placed.
    weak: usize,
    /// Whether a window has seen what the comb does not.
    blind: bool,
}

impl<'r, 'a> Engine<'r, 'a> {
    fn new(run: &'r mut Run<'a>, sigmas: f64, attempt: u32) -> Self {
        let n = run.plan.problem.n;
        Engine {
            run,
            n,
            unity: Unity::new(n),
            sigmas,
            attempt,
            noisy: false,
            noise: 0.0,
            power: 0.0,
            least: 0.0,
            comb: None,
            windows: Vec::new(),
            known: Vec::new(),
            index: HashMap::new(),
            members: HashMap::new(),
            weak: 0,
            blind: false,
        }
    }

    /// Hands back the buffers; the comb is kept for a finer one.
    fn finish(self) -> Option<Hash> {
        for window in self.windows {
            window.recycle(self.run);
        }
        self.comb
    }

    /// Whether the caller or the name of the algorithm rules noise out.
    fn declared_exact(&self) -> bool {
        self.run.plan.problem.noise == Noise::Exact
            || self.run.plan.recipe.algorithm == Algorithm::Exact
    }

    /// Noise power that one lane of one bin of a hash holds: that of the samples, rounding, and
    /// what a window leaks.
    fn floor(&self, hash: &Hash) -> f64 {
        let rounding = ROUNDING * ROUNDING * self.power;
        match &hash.kind {
            Kind::Comb => (self.noise + rounding) / hash.buckets as f64,
            Kind::Window { kaiser, .. } => {
                let tones = (self.power - self.noise).max(0.0);
                (self.noise + rounding) * kaiser.energy() + kaiser.leak().powi(2) * tones
            }
        }
    }

    /// Energy that noise over `lanes` lanes of a hash does not exceed.
    fn limit(&self, hash: &Hash, lanes: usize) -> f64 {
        self.floor(hash) * threshold(lanes, self.sigmas)
    }

    /// Lists the bins whose energy noise does not explain.
    fn active(&self, hash: &Hash, out: &mut Vec<u32>) {
        let limit = self.limit(hash, hash.lanes());
        out.clear();
        out.extend((0u32..).zip(&hash.energy).filter(|(_, e)| **e > limit).map(|(b, _)| b));
    }

    /// Sets the noise power from the quiet bins of a hash: the p-quantile of their energies,
    /// corrected for the share that is occupied.
    fn measure_noise(&mut self, hash: &Hash) {
        if self.declared_exact() {
            return;
        }
        let per_lane = match &hash.kind {
            Kind::Comb => hash.buckets as f64,
            Kind::Window { kaiser, .. } => 1.0 / kaiser.energy(),
        };
        let mut list = std::mem::take(&mut self.run.workspace.lists[1]);
        // If quiet bins are silent to rounding, there is no noise to measure.
        self.noise = 0.0;
        self.active(hash, &mut list);
        if (list.len() as f64) > CROWDED * hash.buckets as f64 {
            let scratch = &mut self.run.workspace.energies;
            let p = 0.3;
            self.noise = floor(&hash.energy, hash.lanes(), p, scratch) * per_lane;
            self.active(hash, &mut list);
            let occupied = list.len() as f64 / hash.buckets as f64;
            let quiet = (p / (1.0 - occupied.min(0.6))).min(0.75);
            // The same rank among the quiet bins alone.
            let value = self.noise * crate::stages::certify::quantile(hash.lanes(), p);
            self.noise = value / crate::stages::certify::quantile(hash.lanes(), quiet);
            self.noisy = true;
        }
        self.run.workspace.lists[1] = list;
    }

    /// Adds the lines that the weakest active bin needs. `false` if no ladder can place it.
    fn climb(&mut self, hash: &mut Hash, unit: u64, active: &[u32]) -> Result<bool, Error> {
        let floor = self.floor(hash);
        let lanes = hash.lanes() as f64;
        let weakest = active.iter().map(|&b| hash.energy[b as usize]).fold(f64::INFINITY, f64::min);
        if weakest.is_infinite() {
            return Ok(true);
        }
        let gamma = (weakest / lanes / floor - 1.0).max(LEAST_GAMMA);
        let Some((offsets, margin)) = locate::ladder(gamma, self.n, unit) else {
            return Ok(false);
        };
        // A frequency is placed reliably while the margin at its own strength is five sigmas.
        let noisy = offsets.len() > 1 || self.noisy;
        self.least = if noisy { gamma * floor * (5.0 / margin).powi(2) } else { 0.0 };
        for &d in &offsets {
            if !hash.offsets.contains(&d) && hash.offsets.len() < MAX_LINES {
                hash.measure(self.run, d)?;
            }
        }
        Ok(true)
    }

    /// A comb of all frequencies, then windows for what it leaves.
    fn comb_attempt(
        &mut self,
        bins: usize,
        previous: Option<Hash>,
        ladder: &[u64],
    ) -> Result<Outcome, Error> {
        let fft = self.run.plan.fft(bins);
        let mut comb = match previous {
            Some(coarse) => coarse.refine(self.run, fft)?,
            None => {
                let mut comb = Hash::new(self.n, fft, Kind::Comb);
                for &d in ladder {
                    comb.measure(self.run, d)?;
                }
                comb
            }
        };
        self.power = comb.energy.iter().sum::<f64>() / comb.lanes() as f64;
        if self.power < TINY_POWER && comb.measured.iter().any(|line| *line != Line::ZERO) {
            self.comb = Some(comb);
            return Ok(Outcome::Short(refuse(self.run, TOO_SMALL, 1)));
        }
        self.measure_noise(&comb);
        let mut active = std::mem::take(&mut self.run.workspace.lists[0]);
        self.active(&comb, &mut active);
        let mut crowded = active.len() as f64 > CROWDED * bins as f64;
        let mut placed = true;
        if !crowded && self.noisy {
            let before = comb.offsets.len();
            placed = self.climb(&mut comb, bins as u64, &active)?;
            if comb.offsets.len() > before {
                self.measure_noise(&comb);
                self.active(&comb, &mut active);
                crowded = active.len() as f64 > CROWDED * bins as f64;
            }
        }
        self.run.clock.lap(Stage::Certify);
        if crowded {
            self.run.workspace.lists[0] = active;
            self.comb = Some(comb);
            return Ok(Outcome::Crowded);
        }
        let open = self.decode_comb(&comb, &active);
        self.run.workspace.lists[0] = active;
        self.run.clock.lap(Stage::Locate);
        self.comb = Some(comb);
        if !placed {
            self.weak += 1;
        }
        if self.weak == 0 && open > 0 {
            self.resolve()?;
            self.polish();
        }
        self.conclude()
    }

    /// A window hash of all frequencies, then more until all are explained.
    fn window_attempt(&mut self, buckets: usize, ladder: &[u64]) -> Result<Outcome, Error> {
        let beta = if self.declared_exact() { BETAS[4] } else { self.first_beta() };
        let mut hash = window_hash(self.run.plan, buckets, beta, u64::from(self.attempt) - 1);
        for &d in ladder {
            hash.measure(self.run, d)?;
        }
        self.power = window_power(&hash);
        if self.power < TINY_POWER && hash.measured.iter().any(|line| *line != Line::ZERO) {
            hash.recycle(self.run);
            return Ok(Outcome::Short(refuse(self.run, TOO_SMALL, 1)));
        }
        self.measure_noise(&hash);
        let mut active = std::mem::take(&mut self.run.workspace.lists[0]);
        self.active(&hash, &mut active);
        // A frequency lights up to four buckets, so a window is crowded later than a comb.
        let crowded = active.len() as f64 > 0.8 * buckets as f64;
        let mut placed = true;
        if !crowded {
            active.retain(|&b| is_peak(&hash, b as usize));
            placed = self.climb(&mut hash, 1, &active)?;
        }
        self.run.workspace.lists[0] = active;
        self.run.clock.lap(Stage::Certify);
        if crowded {
            hash.recycle(self.run);
            return Ok(Outcome::Crowded);
        }
        if !placed {
            self.weak += 1;
        }
        hash.begin_peeling(self.run);
        self.windows.push(hash);
        if self.weak == 0 {
            self.exchange();
            self.resolve()?;
            self.polish();
        }
        self.conclude()
    }

    /// The window shape of a first hash whose noise is unknown: tight enough for none.
    fn first_beta(&self) -> f64 {
        match self.run.plan.problem.noise {
            Noise::Snr(_) => 16.0,
            _ => BETAS[4],
        }
    }

    /// Decodes the active bins of the comb; returns how many stay open.
    fn decode_comb(&mut self, comb: &Hash, active: &[u32]) -> usize {
        let mut open = 0;
        let lanes = comb.lanes();
        let one = self.limit(comb, lanes - 1);
        let mut singles = std::mem::take(&mut self.run.workspace.singles);
        let vector = comb.offsets == [0];
        if vector {
            comb_singles(self.n, &comb.measured, active, &mut singles);
        }
        self.known.reserve(active.len());
        for (i, &b) in active.iter().enumerate() {
            let b = b as usize;
            let energy = comb.energy[b];
            let (found, residual) = if vector {
                let (s, i) = (&singles[i / 4], i % 4);
                let value = Complex::new(s.re[i], s.im[i]);
                (Found { f: s.f[i] as u64, value }, s.residual[i])
            } else {
                self.decode_single(comb, b)
            };
            if residual <= one + OWN_ROUNDING * energy {
                self.take(&[found]);
            } else if let Some(two) = self.decode_double(comb, b) {
                self.take(&two);
            } else {
                open += 1;
            }
        }
        self.run.workspace.singles = singles;
        open
    }

    /// Notes decoded frequencies, or that they are too weak to be placed.
    fn take(&mut self, found: &[Found]) {
        if found.iter().any(|s| s.value.norm_sqr() < self.least) {
            self.weak += 1;
        }
        for s in found {
            self.known.push(Coefficient { f: s.f, a: s.value, z: self.unity.root(s.f) });
        }
    }

    /// The single frequency that explains a comb bin best, and what it leaves.
    fn decode_single(&self, comb: &Hash, b: usize) -> (Found, f64) {
        let mut lines = [Line::ZERO; MAX_LINES];
        let count = comb.lines_of(b, &mut lines);
        let lanes = comb.lanes_of(&lines[..count]);
        let lattice = Lattice { n: self.n, modulus: comb.buckets as u64, residue: b as u64 };
        let (f, _) = lattice.snap(single(lanes));
        let mut rows = [Complex::ZERO; 4 * MAX_LINES];
        phasors(self.unity, f, lanes.offsets, &mut rows);
        let (data, m) = lanes.flat();
        let value =
            rows[..m].iter().zip(&data).map(|(p, u)| p.conj() * u).sum::<Complex<f64>>() / m as f64;
        let residual =
            rows[..m].iter().zip(&data).map(|(p, u)| (u - value * p).norm_sqr()).sum::<f64>();
        (Found { f, value }, residual)
    }

    /// Two frequencies that explain a comb bin, if two do.
    fn decode_double(&self, comb: &Hash, b: usize) -> Option<[Found; 2]> {
        let mut lines = [Line::ZERO; MAX_LINES];
        let count = comb.lines_of(b, &mut lines);
        let lanes = comb.lanes_of(&lines[..count]);
        let lattice = Lattice { n: self.n, modulus: comb.buckets as u64, residue: b as u64 };
        let t = double(lanes)?;
        // Nearly equal phases amplify noise beyond what the ladder was built for.
        if self.noisy && (t[0] - t[1] - (t[0] - t[1]).round()).abs() < 0.08 {
            return None;
        }
        let f = t.map(|t| lattice.snap(t).0);
        let (values, residual) = locate::fit_two(self.unity, lanes, f)?;
        let limit = self.limit(comb, lanes.count() - 2);
        (residual <= limit + OWN_ROUNDING * comb.energy[b])
            .then(|| [0, 1].map(|i| Found { f: f[i], value: values[i] }))
    }

    /// Least-squares values of these frequencies in one bin, and the residual energy.
    fn fit_bin(
        &self,
        lanes: locate::Lanes<'_>,
        f: &[u64],
    ) -> Option<([Complex<f64>; MAX_FIT], f64)> {
        let m = lanes.count();
        if f.len() > MAX_FIT || f.len() >= m {
            return None;
        }
        let mut rows = [Complex::ZERO; 4 * MAX_LINES * MAX_FIT];
        for (f, row) in f.iter().zip(rows.chunks_exact_mut(m)) {
            phasors(self.unity, *f, lanes.offsets, row);
        }
        let (data, _) = lanes.flat();
        let mut values = [Complex::ZERO; MAX_FIT];
        let residual = fit(&rows[..f.len() * m], &data[..m], &mut values[..f.len()])?;
        Some((values, residual))
    }

    /// Starts peeling: every known coefficient leaves every hash.
    fn begin_peeling(&mut self) {
        self.index = self.known.iter().enumerate().map(|(i, c)| (c.f, i)).collect();
        self.members.clear();
        if let Some(comb) = &mut self.comb {
            comb.begin_peeling(self.run);
            peel_all(comb, self.unity, &self.known);
            for c in &self.known {
                let b = (c.f % comb.buckets as u64) as usize;
                self.members.entry(b).or_default().push(c.f);
            }
            comb.sum_energies();
        }
    }

    /// Adds amplitude at f: peels it from every hash.
    fn add(&mut self, f: u64, a: Complex<f64>) {
        let z = self.unity.root(f);
        match self.index.get(&f) {
            Some(&i) => self.known[i].a += a,
            None => {
                self.index.insert(f, self.known.len());
                self.known.push(Coefficient { f, a, z });
                if let Some(comb) = &self.comb {
                    let b = (f % comb.buckets as u64) as usize;
                    self.members.entry(b).or_default().push(f);
                }
            }
        }
        for hash in self.comb.iter_mut().chain(&mut self.windows) {
            peel_one(hash, self.unity, &Coefficient { f, a, z });
        }
    }

    /// Whether some hash denies a at f: the bin that should hold it holds nothing.
    fn contradicted(&self, f: u64, a: Complex<f64>) -> bool {
        self.comb.iter().chain(&self.windows).any(|hash| {
            let (b, gain) = hash.reach(f).best();
            let limit = self.limit(hash, hash.lanes());
            hash.energy[b] <= limit && hash.lanes() as f64 * (a * gain).norm_sqr() > 4.0 * limit
        })
    }

    /// Window hashes with fresh permutations until every bin is explained or the rounds are spent.
    fn resolve(&mut self) -> Result<(), Error> {
        if self.comb.is_some() && self.index.is_empty() {
            self.begin_peeling();
            for i in 0..self.windows.len() {
                self.refresh(i);
            }
        }
        let mut stalled = 0u32;
        for round in 0..MAX_ROUNDS {
            let mut open = self.open_bins();
            if open > 0 && !self.windows.is_empty() {
                // What is left may be the error of values that share their bins.
                self.polish();
                self.exchange();
                open = self.open_bins();
            }
            // Four hashes without a find: something known is wrong, or the noise hides the rest.
            if open == 0 || stalled >= 4 {
                return Ok(());
            }
            let left = match self.run.plan.problem.k() {
                Some(k) => (3 * open as u64).max(k.saturating_sub(self.known.len() as u64)),
                None => 3 * open as u64,
            };
            let wanted = (8u64 << (round / 2)).saturating_mul(left << (2 * stalled));
            let weakest = self.weakest_open().max(f64::MIN_POSITIVE);
            let quiet = (100.0 * self.noise / weakest) as u64;
            let quiet = quiet.min(self.most_buckets());
            let buckets = wanted.max(quiet).clamp(32, 1 << 26).next_power_of_two() as usize;
            let tones = (self.power - self.noise).max(f64::MIN_POSITIVE);
            let beta = if self.noisy {
                window::beta_for(0.1 * (self.noise / (tones * buckets as f64)).sqrt())
            } else {
                BETAS[4]
            };
            let reads = window::length(beta, buckets) as f64;
            if reads * 8.0 > self.n as f64 || reads * 60.0 > plan::dense(self.n).nanoseconds {
                return Ok(());
            }
            let stream = window_stream(self.attempt, round);
            let mut hash = window_hash(self.run.plan, buckets, beta, stream);
            hash.measure(self.run, 0)?;
            if self.sees_more(&hash) {
                hash.recycle(self.run);
                self.blind = true;
                return Ok(());
            }
            hash.begin_peeling(self.run);
            self.peel_all(&mut hash);
            let mut active = Vec::new();
            self.active(&hash, &mut active);
            active.retain(|&b| is_peak(&hash, b as usize));
            let unit = self.residue_gap();
            let lines = hash.offsets.len();
            let least = self.least;
            if self.climb(&mut hash, unit, &active)? && hash.offsets.len() > lines {
                hash.begin_peeling(self.run);
                self.peel_all(&mut hash);
            }
            self.least = least.min(self.least);
            self.windows.push(hash);
            self.run.clock.lap(Stage::Peel);
            let before = self.known.len();
            self.exchange();
            stalled = if self.known.len() == before { stalled + 1 } else { 0 };
        }
        Ok(())
    }

    /// Whether a window hash holds far more power than the comb: an impulse train that the comb
    /// steps over, for example.
    fn sees_more(&self, hash: &Hash) -> bool {
        self.comb.is_some() && window_power(hash) > 100.0 * self.power
    }

    /// Least distance between open residues of the comb: what a ladder has to tell apart.
    fn residue_gap(&self) -> u64 {
        let Some(comb) = &self.comb else { return 1 };
        let mut open = self.open(comb);
        let Some(first) = open.next() else { return 1 };
        let (mut last, mut gap) = (first, comb.buckets);
        for b in open {
            gap = gap.min(b - last);
            last = b;
        }
        gap.min(first + comb.buckets - last) as u64
    }

    /// Peels every known coefficient from one hash.
    fn peel_all(&mut self, hash: &mut Hash) {
        peel_all(hash, self.unity, &self.known);
        hash.sum_energies();
    }

    /// Recomputes the residual of a window hash from its measurements.
    fn refresh(&mut self, i: usize) {
        let mut hash = self.windows.swap_remove(i);
        hash.begin_peeling(self.run);
        self.peel_all(&mut hash);
        self.windows.push(hash);
        let last = self.windows.len() - 1;
        self.windows.swap(i, last);
    }

    /// Number of bins that are not explained: those of the comb, or of the last window.
    fn open_bins(&self) -> usize {
        match self.comb.as_ref().or(self.windows.last()) {
            Some(hash) => self.unexplained(hash),
            None => 0,
        }
    }

    /// Number of bins of a hash that hold more than what is known explains.
    fn unexplained(&self, hash: &Hash) -> usize {
        match hash.kind {
            Kind::Comb => self.open(hash).filter(|&b| hash.energy[b] > self.slack(hash, b)).count(),
            Kind::Window { .. } => self.open(hash).count(),
        }
    }

    /// The bins of a hash that hold more than noise and the rounding of what was taken out.
    fn open<'h>(&self, hash: &'h Hash) -> impl Iterator<Item = usize> + use<'h> {
        let limit = self.limit(hash, hash.lanes());
        (0..hash.buckets).filter(move |&b| {
            hash.energy[b] > limit
                && hash.energy[b] > limit + 4.0 * OWN_ROUNDING * hash.measured_energy(b)
        })
    }

    /// What a comb bin may hold beyond its limit: a bin with as many known frequencies as lanes
    /// cannot be fitted by itself, so its values are those of the windows, with their errors.
    fn slack(&self, comb: &Hash, b: usize) -> f64 {
        let members = self.members.get(&b).map_or(0, Vec::len);
        if members < comb.lanes().min(MAX_FIT + 1) {
            return 0.0;
        }
        let best = self.windows.iter().map(|w| self.floor(w)).fold(f64::INFINITY, f64::min);
        self.limit(comb, comb.lanes()) + 50.0 * (members * comb.lanes()) as f64 * best
    }

    /// Least |a|² among the unexplained bins and the known coefficients.
    fn weakest_open(&self) -> f64 {
        let Some(hash) = self.comb.as_ref().or(self.windows.first()) else { return 0.0 };
        let limit = self.limit(hash, hash.lanes());
        let comb = matches!(hash.kind, Kind::Comb);
        let open = (0..hash.buckets).filter(|&b| comb || is_peak(hash, b));
        let open = open.map(|b| hash.energy[b]).filter(|e| *e > limit);
        let open = open.fold(f64::INFINITY, |m, e| m.min(e / hash.lanes() as f64));
        let least = self.negligible();
        let known = self.known.iter().map(|c| c.a.norm_sqr()).filter(|a| *a > least);
        let known = known.fold(f64::INFINITY, f64::min);
        // The frequencies of an open bin may cancel, so its energy tells little; those already
        // known tell more, once there are some.
        if self.known.len() >= 8 { known } else { known.min(0.25 * open) }
    }

    /// Most buckets that noise may ask of a later hash: more would tell more than the first did.
    fn most_buckets(&self) -> u64 {
        self.comb.as_ref().or(self.windows.first()).map_or(0, |h| 4 * h.buckets as u64)
    }

    /// |a|² of coefficients that corrections have brought down to the floor.
    fn negligible(&self) -> f64 {
        match self.comb.as_ref().or(self.windows.first()) {
            Some(hash) => 0.25 * self.limit(hash, hash.lanes()) / hash.lanes() as f64,
            None => 0.0,
        }
    }

    /// Decodes bins of all hashes against each other until nothing more is found.
    fn exchange(&mut self) {
        for _ in 0..200 {
            let mut progress = false;
            for w in 0..self.windows.len() {
                progress |= self.decode_window(w);
            }
            progress |= self.decode_open_comb();
            if !progress {
                break;
            }
        }
        self.run.clock.lap(Stage::Locate);
    }

    /// Joint least squares of the amplitudes. Without noise only of those that no comb bin
    /// settles, over the windows; with noise of all, over all hashes, since each adds information.
    fn polish(&mut self) {
        // Noise limits the values long before rounding does.
        let loud = self.noise > 1e-8 * self.power;
        let (steps, goal) = if loud { (12, 1e-7) } else { (40, 1e-28) };
        let settled = |c: &Coefficient| {
            !self.noisy
                && self.comb.as_ref().is_some_and(|comb| {
                    let b = (c.f % comb.buckets as u64) as usize;
                    self.members[&b].len() < comb.lanes().min(MAX_FIT + 1)
                })
        };
        let chosen: Vec<usize> =
            (0..self.known.len()).filter(|&i| !settled(&self.known[i])).collect();
        if chosen.is_empty() {
            return;
        }
        let mut part: Vec<Coefficient> = chosen.iter().map(|&i| self.known[i]).collect();
        let mut comb = self.comb.take();
        let mut windows = std::mem::take(&mut self.windows);
        let noisy = self.noisy;
        let mut hashes: Vec<&mut Hash> =
            comb.iter_mut().filter(|_| noisy).chain(&mut windows).collect();
        let floors: Vec<f64> = hashes.iter().map(|h| self.floor(h)).collect();
        polish(&mut part, &mut hashes, &floors, self.unity, steps, goal);
        for (&i, c) in chosen.iter().zip(&part) {
            let change = c.a - self.known[i].a;
            self.known[i].a = c.a;
            if !noisy && let Some(comb) = &mut comb {
                peel_one(comb, self.unity, &Coefficient { a: change, ..*c });
            }
        }
        // Peeling has accumulated rounding; the measurements have not.
        for hash in comb.iter_mut().filter(|_| noisy).chain(&mut windows) {
            hash.begin_peeling(self.run);
            self.peel_all(hash);
        }
        self.comb = comb;
        self.windows = windows;
        self.run.clock.lap(Stage::Estimate);
    }

    /// One pass over the active buckets of a window hash, strongest first.
    fn decode_window(&mut self, w: usize) -> bool {
        let mut active = Vec::new();
        self.active(&self.windows[w], &mut active);
        active.retain(|&b| is_peak(&self.windows[w], b as usize));
        let energy = |hash: &Hash, b: u32| hash.energy[b as usize];
        active.sort_unstable_by(|&a, &b| {
            energy(&self.windows[w], b).total_cmp(&energy(&self.windows[w], a))
        });
        let mut progress = false;
        for b in active {
            let hash = &self.windows[w];
            // Earlier finds of this pass may have emptied the bucket.
            if hash.energy[b as usize] <= self.limit(hash, hash.lanes()) {
                continue;
            }
            let found = self.decode_bucket(w, b as usize);
            for s in found.into_iter().flatten() {
                if !self.contradicted(s.f, s.value) {
                    self.add(s.f, s.value);
                    progress = true;
                    self.settle(s.f);
                }
            }
        }
        progress
    }

    /// One or two frequencies of a window bucket, as amplitudes.
    fn decode_bucket(&self, w: usize, b: usize) -> [Option<Found>; 2] {
        let hash = &self.windows[w];
        let mut lines = [Line::ZERO; MAX_LINES];
        let count = hash.lines_of(b, &mut lines);
        let lanes = hash.lanes_of(&lines[..count]);
        let energy = hash.energy[b];
        let own = 1e-24 * energy;
        if let Some(f) = self.snap(single(lanes))
            && let Some(amplitude) = self.amplitude(hash, f, b)
            && let Some((values, residual)) = self.fit_bin(lanes, &[f])
            && residual <= self.limit(hash, lanes.count() - 1) + own
        {
            return [Some(Found { f, value: values[0] * amplitude }), None];
        }
        let Some(t) = double(lanes) else { return [None; 2] };
        if (t[0] - t[1] - (t[0] - t[1]).round()).abs() < 0.115 {
            return [None; 2];
        }
        let (Some(f), Some(g)) = (self.snap(t[0]), self.snap(t[1])) else { return [None; 2] };
        let (Some(gain_f), Some(gain_g)) = (self.amplitude(hash, f, b), self.amplitude(hash, g, b))
        else {
            return [None; 2];
        };
        match self.fit_bin(lanes, &[f, g]) {
            Some((v, residual)) if residual <= self.limit(hash, lanes.count() - 2) + own => [
                Some(Found { f, value: v[0] * gain_f }),
                Some(Found { f: g, value: v[1] * gain_g }),
            ],
            _ => [None; 2],
        }
    }

    /// Factor from the content of bucket b to the amplitude at f, if f belongs there.
    fn amplitude(&self, hash: &Hash, f: u64, b: usize) -> Option<f64> {
        let Kind::Window { permutation, kaiser } = &hash.kind else { return None };
        let away = distance(permutation.position(f, hash.buckets), b as f64, hash.buckets);
        (away.abs() < 0.8).then(|| 1.0 / kaiser.response::<false>(F4::splat(away)).0[0])
    }

    /// The frequency nearest to t that an open comb bin allows.
    fn snap(&self, t: f64) -> Option<u64> {
        let Some(comb) = &self.comb else { return Some(Lattice::all(self.n).snap(t).0) };
        let limit = self.limit(comb, comb.lanes());
        let size = comb.buckets as u64;
        if !self.noisy {
            let (f, _) = Lattice::all(self.n).snap(t);
            return (comb.energy[(f % size) as usize] > limit).then_some(f);
        }
        // With noise, the ladder was only built to tell the open residues apart.
        let near = self
            .open(comb)
            .map(|b| Lattice { n: self.n, modulus: size, residue: b as u64 }.snap(t));
        near.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(f, _)| f)
    }

    /// Refits the comb bin of f with all its known frequencies; exact values replace those of the
    /// window where the bin is then explained.
    fn settle(&mut self, f: u64) -> bool {
        let Some(comb) = &self.comb else { return false };
        let b = (f % comb.buckets as u64) as usize;
        let members = self.members.get(&b).cloned().unwrap_or_default();
        let mut lines = [Line::ZERO; MAX_LINES];
        let count = comb.measured_lines_of(b, &mut lines);
        let lanes = comb.lanes_of(&lines[..count]);
        let Some((values, residual)) = self.fit_bin(lanes, &members) else { return false };
        let limit = self.limit(comb, lanes.count() - members.len()) + OWN_ROUNDING * lanes.energy();
        if residual > limit {
            return false;
        }
        for (f, v) in members.iter().zip(values) {
            let old = self.known[self.index[f]].a;
            self.add(*f, v - old);
        }
        true
    }

    /// Decodes what is left in open comb bins of which something is known.
    fn decode_open_comb(&mut self) -> bool {
        let Some(comb) = &self.comb else { return false };
        let open: Vec<usize> = self.open(comb).collect();
        let mut progress = false;
        for b in open {
            let Some(comb) = &self.comb else { return false };
            let mut found: Vec<u64> = Vec::new();
            // The residual carries the error of the window's values: decode first, then judge by
            // a joint fit of the measured bin.
            let (one, _) = self.decode_single(comb, b);
            let mut members = self.members.get(&b).cloned().unwrap_or_default();
            if members.is_empty() {
                continue;
            }
            let known = members.len();
            let mut candidates: Vec<Vec<u64>> = vec![vec![one.f]];
            let mut lines = [Line::ZERO; MAX_LINES];
            let count = comb.lines_of(b, &mut lines);
            if let Some(t) = double(comb.lanes_of(&lines[..count])) {
                let lattice =
                    Lattice { n: self.n, modulus: comb.buckets as u64, residue: b as u64 };
                candidates.push(t.map(|t| lattice.snap(t).0).to_vec());
            }
            let count = comb.measured_lines_of(b, &mut lines);
            let lanes = comb.lanes_of(&lines[..count]);
            for extra in candidates {
                members.truncate(known);
                members.extend(extra.iter().filter(|f| !self.index.contains_key(f)));
                if members.len() == known {
                    continue;
                }
                if let Some((values, residual)) = self.fit_bin(lanes, &members) {
                    let limit = self.limit(comb, lanes.count() - members.len())
                        + OWN_ROUNDING * lanes.energy();
                    let fresh = members[known..].iter().zip(&values[known..]);
                    if residual <= limit && fresh.clone().all(|(f, v)| !self.contradicted(*f, *v)) {
                        found = members[known..].to_vec();
                        break;
                    }
                }
            }
            for f in &found {
                self.add(*f, Complex::ZERO);
            }
            if let Some(f) = found.first() {
                self.settle(*f);
                progress = true;
            }
        }
        progress
    }

    /// Corrects a noise level that was taken from occupied bins: once everything is peeled, the
    /// residuals tell. A lower one tightens every limit, so what is left is decoded again.
    fn settle_noise(&mut self) -> Result<(), Error> {
        for _ in 0..4 {
            let Some(hash) = self.windows.first() else { return Ok(()) };
            if !self.noisy || self.known.is_empty() || self.weak > 0 {
                return Ok(());
            }
            let Kind::Window { kaiser, .. } = &hash.kind else { return Ok(()) };
            let mean = hash.energy.iter().sum::<f64>() / (hash.lanes() * hash.buckets) as f64;
            let left = mean / kaiser.energy();
            if left > 0.3 * self.noise {
                return Ok(());
            }
            // What rounding and leakage leave is not noise.
            let clean = ROUNDING * ROUNDING + kaiser.leak().powi(2) / kaiser.energy();
            self.noisy = left > 30.0 * clean * self.power;
            self.noise = if self.noisy { left } else { 0.0 };
            self.exchange();
            self.resolve()?;
            self.polish();
        }
        Ok(())
    }

    /// Verifies and writes the answer.
    fn conclude(&mut self) -> Result<Outcome, Error> {
        self.settle_noise()?;
        self.prune();
        let mut reason = None;
        let mut tested = 0u64;
        let mut unexplained = 0u64;
        let mut verified_limit = 0.0;
        if self.blind {
            reason = Some("other samples hold far more than those of the comb".to_string());
        } else if self.weak > 0 {
            reason = Some(
                "some bins stand above the noise, but too little to place their frequencies"
                    .to_string(),
            );
        }
        let peeled = !self.index.is_empty() || self.comb.is_none();
        for hash in self.comb.iter().chain(&self.windows) {
            tested += hash.buckets as u64;
            if peeled {
                unexplained += self.unexplained(hash) as u64;
            }
        }
        if unexplained > 0 && reason.is_none() {
            reason = Some(format!("{unexplained} bins could not be explained"));
        }
        if !peeled {
            self.refine_noise();
        }
        if reason.is_none() {
            let (bins, left, limit) = self.verify()?;
            tested += bins;
            unexplained += left;
            verified_limit = limit;
            self.blind = left > 0;
            if self.blind {
                reason = Some(format!(
                    "an independent hash holds {left} buckets that the answer does not explain"
                ));
            }
        }
        let problem = &self.run.plan.problem;
        let explained: f64 = self.known.iter().map(|c| c.a.norm_sqr()).sum();
        let rest = if self.noisy || !self.known.is_empty() {
            self.noise / self.power.max(f64::MIN_POSITIVE)
        } else {
            0.0
        };
        let residual = if reason.is_none() {
            rest.min(1.0)
        } else {
            (1.0 - explained / self.power.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        };
        let mut short = false;
        let tolerable = residual <= problem.tolerance * problem.tolerance;
        if reason.is_none() && !tolerable {
            match problem.k() {
                Some(k) if (self.known.len() as u64) < k => {
                    short = !self.known.is_empty();
                    reason = Some(format!(
                        "only {} of the {k} coefficients stand above the noise",
                        self.known.len()
                    ));
                }
                None if self.known.is_empty() => {
                    reason = Some("nothing stands above the noise".to_string());
                }
                _ => {}
            }
        }
        if reason.is_none() && self.power == 0.0 && problem.k().is_none() {
            reason = Some("every sample that was read is zero".to_string());
        }
        let detection_limit = match self.comb.as_ref().or(self.windows.first()) {
            Some(hash) => {
                let m = hash.lanes() as f64;
                let gain = if self.comb.is_some() { 1.0 } else { 0.4 };
                let noise = self.floor(hash).sqrt();
                let own = noise * (threshold(hash.lanes(), self.sigmas).sqrt() + self.sigmas)
                    / (m.sqrt() * gain);
                // Four neighbouring shifts alone cannot tell a weak frequency from a strong one
                // close by in the same bin; the independent hash can.
                if hash.offsets.len() == 1 { own.max(verified_limit) } else { own }
            }
            None => f64::INFINITY,
        };
        let certified = reason.is_none();
        let weakest = self.known.iter().map(|c| c.a.norm_sqr()).fold(f64::INFINITY, f64::min);
        let short = short && detection_limit < 0.1 * weakest.sqrt();
        let certificate = Certificate {
            verdict: if certified { Verdict::Certified } else { Verdict::Uncertified },
            reason,
            bins_tested: tested,
            bins_unexplained: unexplained,
            residual_energy: residual,
            noise_floor: self.noise.sqrt(),
            detection_limit,
            failure_probability: problem.failure,
            attempts: 1,
        };
        let algorithm = match (self.run.plan.problem.algorithm, self.noisy) {
            (Algorithm::Auto, false) => Algorithm::Exact,
            (Algorithm::Auto, true) => Algorithm::Robust,
            (named, _) => named,
        };
        if self.run.signal.is_real() {
            self.symmetrise();
        }
        let scale = self.n as f64;
        let peaks = self.known.iter().map(|c| Peak { index: c.f, value: c.a * scale }).collect();
        self.run.clock.lap(Stage::Certify);
        let answer = Answer { algorithm, peaks, certificate };
        Ok(match (certified, self.blind) {
            (true, _) => Outcome::Certified(answer),
            (_, true) => Outcome::Blind(answer),
            _ if short => Outcome::Short(answer),
            _ => Outcome::Open(answer),
        })
    }

    /// Averages conjugate pairs, which real samples make equal up to noise.
    fn symmetrise(&mut self) {
        let index: HashMap<u64, usize> =
            self.known.iter().enumerate().map(|(i, c)| (c.f, i)).collect();
        for i in 0..self.known.len() {
            let f = self.known[i].f;
            let mirror = (self.n - f) % self.n;
            if mirror == f {
                self.known[i].a.im = 0.0;
            } else if f < mirror
                && let Some(&j) = index.get(&mirror)
            {
                let mean = 0.5 * (self.known[i].a + self.known[j].a.conj());
                self.known[i].a = mean;
                self.known[j].a = mean.conj();
            }
        }
    }

    /// Drops coefficients that corrections have brought down to the floor.
    fn prune(&mut self) {
        let least = self.negligible();
        self.known.retain(|c| c.a.norm_sqr() > least);
    }

    /// The noise power from all bins of a decoded comb: what is neither noise nor rounding has
    /// been explained.
    fn refine_noise(&mut self) {
        if !self.noisy {
            return;
        }
        let Some(comb) = &self.comb else { return };
        let limit = self.limit(comb, comb.lanes());
        let quiet = comb.energy.iter().filter(|e| **e <= limit);
        let (count, sum) = quiet.fold((0usize, 0.0), |(c, s), e| (c + 1, s + e));
        if count > 16 {
            self.noise = sum / (count * comb.lanes()) as f64 * comb.buckets as f64;
        }
    }

    /// Measures a hash with a fresh permutation and counts the buckets that the answer does not
    /// explain. Returns (buckets, unexplained, least amplitude that would have shown).
    fn verify(&mut self) -> Result<(u64, u64, f64), Error> {
        let problem = &self.run.plan.problem;
        let k = problem.k().unwrap_or(0).max(self.known.len() as u64);
        let weakest = self.known.iter().map(|c| c.a.norm_sqr()).fold(f64::INFINITY, f64::min);
        let quiet = ((60.0 * self.noise / weakest) as u64).min(self.most_buckets());
        let buckets = plan::verify_buckets(k).max(quiet.next_power_of_two() as usize);
        let tones = (self.power - self.noise).max(f64::MIN_POSITIVE);
        let beta = if self.noisy {
            window::beta_for(0.1 * (self.noise / (tones * buckets as f64)).sqrt())
        } else {
            plan::VERIFY_BETA
        };
        let stream = VERIFY_STREAM + u64::from(self.attempt) - 1;
        let mut hash = window_hash(self.run.plan, buckets, beta, stream);
        hash.measure(self.run, 0)?;
        hash.begin_peeling(self.run);
        self.peel_all(&mut hash);
        self.run.clock.lap(Stage::Peel);
        let mut limit = self.limit(&hash, hash.lanes());
        if self.noisy {
            // The values carry their own error, noise/(samples that gave them), into the four lanes;
            // an exponential variable exceeds 20 times its mean once in 5e8.
            let read = match self.comb.as_ref().or(self.windows.first()) {
                Some(h) => (h.lanes() * h.buckets) as f64,
                None => 1.0,
            };
            let shared = 1.0 + self.known.len() as f64 / buckets as f64;
            limit += 4.0 * 20.0 * shared * self.noise / read;
        }
        let left = hash.energy.iter().filter(|e| **e > limit).count() as u64;
        // Half way between two buckets, where the gain is least.
        let shows = (limit.sqrt() + self.sigmas * self.floor(&hash).sqrt()) / (2.0 * 0.4);
        if left == 0 && self.noisy && self.comb.is_none() {
            // Its samples have been paid for: let them improve the values.
            self.windows.push(hash);
            self.polish();
        } else {
            hash.recycle(self.run);
        }
        self.run.clock.lap(Stage::Certify);
        Ok((buckets as u64, left, shows))
    }
}

/// Power of a sample as a window hash sees it: E Σ|V|² = buckets · Σ G² · power per lane.
fn window_power(hash: &Hash) -> f64 {
    let Kind::Window { kaiser, .. } = &hash.kind else { return 0.0 };
    let lanes = (hash.lanes() * hash.buckets) as f64;
    hash.energy.iter().sum::<f64>() / (lanes * kaiser.energy())
}

/// Whether a bucket holds more than its two neighbours on each side.
fn is_peak(hash: &Hash, b: usize) -> bool {
    let size = hash.buckets;
    let e = hash.energy[b];
    [1, size - 1].into_iter().all(|step| e >= hash.energy[(b + step) % size])
}
