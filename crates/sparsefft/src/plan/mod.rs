//! Problem → [`Recipe`] → [`Plan`]: what is asked, how it will be done, and that made ready.

mod choose;
mod explain;
mod memory;
mod menu;
mod recipe;
mod tables;

pub use recipe::{
    CombRecipe, Estimate, First, FlatKind, Menu, Method, Peeling, Recipe, Rungs, VoteRecipe,
};

pub use choose::recommended_length;
#[cfg(feature = "cuda")]
pub(crate) use choose::verify_buckets;
pub(crate) use choose::{VERIFY_BETA, dense, dense_at_best, smooth_near, verifying};

use crate::algorithms::peeling::sprint::{self, Witness};
use crate::algorithms::tones::window::Window as ToneWindow;
use crate::algorithms::{self, Answer, Run, Tapered};
use crate::cpu::ticks::Stopwatch;
use crate::dense::Fft;
use crate::judge::{self, Evidence};
use crate::problem::{Problem, Taper};
use crate::samples::{Line, Samples};
use crate::sketch::Sketch;
use crate::spectrum::{Peak, Place, Report, Spectrum, largest_first};
use crate::stages::Stage;
use crate::stages::bucket_fft::BucketFft;
use crate::stages::certify::upper_quantile;
use crate::stages::hash::Shell;
use crate::stages::ladder::ladder;
use crate::stages::locate::{Doubles, Singles};
use crate::stages::order::{bits, sort_by_number};
use crate::stages::permute::Permutation;
use crate::stages::window::Kaiser;
use crate::tones::{Tones, TonesReport};
use crate::{Complex, Error, Verdict};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A transform made ready. Cheap to clone, usable from many threads at once.
#[derive(Clone)]
pub struct Plan {
    inner: Arc<Prepared>,
}

/// The shared part of a plan.
pub(crate) struct Prepared {
    pub(crate) problem: Problem,
    pub(crate) recipe: Recipe,
    /// Bytes that a transform needs, as predicted.
    memory: u128,
    /// Whether they were there once. The plan keeps its buffers: what it took is no longer free.
    fits: AtomicBool,
    ffts: Shelf<usize, BucketFft>,
    /// The dense transform, if it is short.
    dense: OnceLock<Fft<f64>>,
    windows: Shelf<(f64, usize), Kaiser>,
    tone_windows: Shelf<(f64, usize), ToneWindow>,
    /// Permutations by their numbers.
    permutations: [OnceLock<(u64, Permutation)>; 4],
    /// What verifies k coefficients.
    witness: OnceLock<Witness>,
    ladders: Mutex<Vec<Ladder>>,
    /// All that a one-pass plan may read, ascending; listed when first needed.
    wanted: OnceLock<Arc<[u64]>>,
    /// Their checksum.
    wanted_sum: OnceLock<u32>,
    /// Workspaces waiting for the next transform.
    #[allow(clippy::vec_box)]
    // they are large, and each transform takes one out and puts it back
    pool: Mutex<Vec<Box<Workspace>>>,
}

/// Twiddles or windows, made when first needed.
struct Shelf<K, T> {
    /// The first ones, which most transforms need, are found without a lock.
    first: [OnceLock<(K, Arc<T>)>; 4],
    more: Mutex<Vec<(K, Arc<T>)>>,
}

impl<K, T> Default for Shelf<K, T> {
    fn default() -> Self {
        Shelf { first: Default::default(), more: Mutex::default() }
    }
}

impl<K: PartialEq + Copy, T> Shelf<K, T> {
    /// What stands under this key; what `make` makes, the first time.
    fn get(&self, key: K, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let in_front = || self.first.iter().filter_map(OnceLock::get).find(|(k, _)| *k == key);
        if let Some((_, made)) = in_front() {
            return made.clone();
        }
        let mut more = lock(&self.more);
        // Somebody may have made it while this one waited.
        if let Some((_, made)) = in_front().or_else(|| more.iter().find(|(k, _)| *k == key)) {
            return made.clone();
        }
        let made = make();
        let mut new = Some((key, made.clone()));
        for place in &self.first {
            if let Some(entry) = new.take() {
                new = place.set(entry).err();
            }
        }
        more.extend(new);
        made
    }
}

/// A ladder, if there is one, by the grid step of the signal-to-noise ratio and the unit.
type Ladder = (i32, u64, Option<Arc<Stored>>);

/// A ladder made for a signal-to-noise ratio.
pub(crate) struct Stored {
    /// The ratio, at most the one asked for.
    pub(crate) gamma: f64,
    pub(crate) offsets: Vec<u64>,
    /// Standard deviations that every rung leaves.
    pub(crate) margin: f64,
}

impl Prepared {
    /// A plan of this problem by this recipe.
    fn new(problem: Problem, recipe: Recipe) -> Self {
        Prepared {
            memory: memory::predicted(&problem, &recipe),
            fits: AtomicBool::new(false),
            problem,
            recipe,
            ffts: Shelf::default(),
            dense: OnceLock::new(),
            windows: Shelf::default(),
            tone_windows: Shelf::default(),
            permutations: Default::default(),
            witness: OnceLock::new(),
            ladders: Mutex::default(),
            wanted: OnceLock::new(),
            wanted_sum: OnceLock::new(),
            pool: Mutex::default(),
        }
    }

    /// An error if a transform needs more memory than can be had.
    pub(crate) fn check_memory(&self) -> Result<(), Error> {
        if !self.fits.load(Ordering::Relaxed) {
            memory::check(self.memory, self.problem.n)?;
            self.fits.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The bucket FFT of this size.
    pub(crate) fn fft(&self, size: usize) -> Arc<BucketFft> {
        self.ffts.get(size, || tables::FFTS.get(size, size, || BucketFft::new(size)))
    }

    /// The dense transform of all samples.
    pub(crate) fn dense(&self) -> Result<Fft<f64>, Error> {
        /// Longest transform whose tables are kept.
        const KEPT: u64 = 1 << 20;
        let n = self.problem.n;
        match self.dense.get() {
            Some(made) => Ok(made.clone()),
            None if n > KEPT => Fft::new(n),
            None => Fft::new(n).map(|made| self.dense.get_or_init(|| made).clone()),
        }
    }

    /// All that may be read, if one pass must suffice.
    pub(crate) fn menu(&self) -> Option<&Menu> {
        match &self.recipe.method {
            Method::Peel(peeling) => peeling.menu.as_ref(),
            _ => None,
        }
    }

    /// Whether a dense FFT takes over where there is more than a little noise.
    pub(crate) fn quiet_only(&self) -> bool {
        matches!(&self.recipe.method, Method::Peel(peeling) if peeling.quiet_only)
    }

    /// The window of this shape for this many buckets.
    pub(crate) fn kaiser(&self, beta: f64, buckets: usize) -> Arc<Kaiser> {
        let key = (beta, buckets);
        self.windows.get(key, || tables::WINDOWS.get(key, buckets, || Kaiser::new(beta, buckets)))
    }

    /// The permutation number `stream` of the plan, which `make` makes. The first ones are kept: whether
    /// a number has a factor in common with n takes as long to find out as reading dozens of samples.
    pub(crate) fn permutation(
        &self,
        stream: u64,
        make: impl FnOnce() -> Permutation,
    ) -> Permutation {
        let found = self.permutations.iter().filter_map(OnceLock::get).find(|(s, _)| *s == stream);
        if let Some((_, permutation)) = found {
            return *permutation;
        }
        let made = make();
        // Where two threads make the same one it is kept twice, or once where there is no more room.
        _ = self.permutations.iter().find(|place| place.set((stream, made)).is_ok());
        made
    }

    /// The window that verifies k coefficients.
    pub(crate) fn witness(&self, recipe: &Peeling, k: u64) -> &Witness {
        self.witness.get_or_init(|| Witness::new(self, recipe, k))
    }

    /// The window over the lines of a tone comb.
    pub(crate) fn tone_window(&self, beta: f64, bins: usize) -> Arc<ToneWindow> {
        let key = (beta, bins);
        let make = || ToneWindow::new(beta, bins);
        self.tone_windows.get(key, || tables::TONE_WINDOWS.get(key, bins, make))
    }

    /// The ladder for bins of this signal-to-noise ratio, down to steps of `unit` integers; see
    /// [`ladder`]. Ratios are rounded down to a grid of a tenth of an octave, so that few
    /// ladders serve all signals.
    pub(crate) fn ladder(&self, gamma: f64, unit: u64) -> Option<Arc<Stored>> {
        const PER_OCTAVE: f64 = 10.0;
        let step = (PER_OCTAVE * gamma.log2()).floor() as i32;
        let mut ladders = lock(&self.ladders);
        let found = ladders.iter().find(|(s, u, _)| *s == step && *u == unit);
        if let Some((_, _, ladder)) = found {
            return ladder.clone();
        }
        let gamma = 2f64.powf(f64::from(step) / PER_OCTAVE);
        let made = ladder(gamma, self.problem.n, unit)
            .map(|(offsets, margin)| Arc::new(Stored { gamma, offsets, margin }));
        // Units differ with the open bins of each signal; a plan that lives long forgets.
        if ladders.len() >= 256 {
            ladders.clear();
        }
        ladders.push((step, unit, made.clone()));
        made
    }
}

/// Locks a mutex whose content stays valid whatever a panicking holder did: caches and buffers.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Buffers of one running transform, reused by the next.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(crate) vote: algorithms::vote::Buffers,
    pub(crate) engine: algorithms::peeling::Buffers,
    pub(crate) dense: algorithms::dense::Buffers,
    /// What the present transform has read.
    pub(crate) evidence: Evidence,
    /// For its comparison with the answer.
    pub(crate) judge: judge::Buffers,
    pub(crate) sprint: Option<Box<sprint::Room>>,
    /// Buffers of hashes.
    pub(crate) shells: Vec<Shell>,
    spare: Vec<Vec<Line>>,
    /// Samples that came slowly.
    pub(crate) copy: Vec<Complex<f64>>,
    /// Places of samples that will be read after these.
    pub(crate) later: Vec<usize>,
    /// For quantiles.
    pub(crate) energies: Vec<f64>,
    /// Energies of tone combs.
    pub(crate) comb_energies: Vec<Vec<f64>>,
    /// For decoding.
    pub(crate) singles: Vec<Singles>,
    pub(crate) doubles: Vec<Doubles>,
    /// Lists of bins.
    pub(crate) lists: [Vec<u32>; 2],
    /// For sorting.
    peaks: Vec<Peak>,
    /// Probabilities, and the standard deviations that noise exceeds with them.
    deviations: Vec<(f64, f64)>,
}

impl Workspace {
    /// Standard deviations that noise exceeds with this probability; it takes a microsecond to find
    /// out.
    pub(crate) fn deviations(&mut self, probability: f64) -> f64 {
        if let Some((_, z)) = self.deviations.iter().find(|(p, _)| *p == probability) {
            return *z;
        }
        let z = upper_quantile(probability);
        if self.deviations.len() >= 64 {
            self.deviations.clear();
        }
        self.deviations.push((probability, z));
        z
    }

    /// A buffer of this length with any content.
    pub(crate) fn take(&mut self, len: usize) -> Vec<Line> {
        // The smallest that fits, so that large ones are there when they are needed.
        let fits = (0..self.spare.len()).filter(|&i| self.spare[i].capacity() >= len);
        let mut buffer = match fits.min_by_key(|&i| self.spare[i].capacity()) {
            Some(i) => self.spare.swap_remove(i),
            None => self.spare.pop().unwrap_or_default(),
        };
        buffer.resize(len, Line::ZERO);
        buffer
    }

    /// A buffer of at least this length with any content: nothing is cleared in one that was used
    /// before.
    pub(crate) fn take_at_least(&mut self, len: usize) -> Vec<Line> {
        let fits = (0..self.spare.len()).filter(|&i| self.spare[i].len() >= len);
        match fits.min_by_key(|&i| self.spare[i].len()) {
            Some(i) => self.spare.swap_remove(i),
            None => self.take(len),
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: Vec<Line>) {
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }
}

/// A workspace on loan from a plan, which gets it back unless something panics.
struct Room<'a> {
    plan: &'a Prepared,
    workspace: Option<Box<Workspace>>,
}

impl<'a> Room<'a> {
    fn new(plan: &'a Prepared) -> Self {
        Room { plan, workspace: lock(&plan.pool).pop() }
    }

    fn workspace(&mut self) -> &mut Workspace {
        self.workspace.get_or_insert_default()
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            lock(&self.plan.pool).extend(self.workspace.take());
        }
    }
}

impl Plan {
    /// Plans a transform. Takes microseconds, whatever the length.
    ///
    /// # Errors
    /// n = 0 or too large, k > n, or an option out of range.
    pub fn new(problem: Problem) -> Result<Self, Error> {
        problem.validate()?;
        let recipe = choose::choose(&problem)?;
        Ok(Plan { inner: Arc::new(Prepared::new(problem, recipe)) })
    }

    /// A plan with a recipe of one's own, for tests of what the planner would not choose.
    #[cfg(test)]
    pub(crate) fn from_recipe(problem: Problem, recipe: Recipe) -> Self {
        Plan { inner: Arc::new(Prepared::new(problem, recipe)) }
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
    /// [`Error::LengthMismatch`], [`Error::NonFinite`], [`Error::Overflow`],
    /// [`Error::OutOfMemory`], and what the source meets. No output is written then.
    pub fn transform<S: Samples + ?Sized>(&self, signal: &S) -> Result<Spectrum, Error> {
        self.transform_with(signal, Room::new(&self.inner).workspace())
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
        self.transform_at(signal, workspace, Place::Cpu)
    }

    /// [`transform_with`](Plan::transform_with), and where the samples lie.
    pub(crate) fn transform_at<S: Samples + ?Sized>(
        &self,
        signal: &S,
        workspace: &mut Workspace,
        place: Place,
    ) -> Result<Spectrum, Error> {
        self.transform_by(signal, workspace, place, None)
    }

    /// The same, with hashes kept by someone else.
    pub(crate) fn transform_by<S: Samples + ?Sized>(
        &self,
        signal: &S,
        workspace: &mut Workspace,
        place: Place,
        keeper: Option<&dyn algorithms::vote::Keeper>,
    ) -> Result<Spectrum, Error> {
        let watch = Stopwatch::start();
        let problem = &self.inner.problem;
        if signal.len() != problem.n {
            return Err(Error::LengthMismatch { expected: problem.n, got: signal.len() });
        }
        self.inner.check_memory()?;
        let tapered = Tapered { signal: &signal, taper: problem.taper };
        let seen: &dyn Samples = if problem.taper == Taper::None { &signal } else { &tapered };
        let mut run = Run::new(&self.inner, seen, workspace, watch);
        run.keeper = keeper.filter(|_| problem.taper == Taper::None);
        let mut answer = algorithms::run(&mut run)?;
        if !answer.in_order {
            let spare = &mut run.workspace.peaks;
            sort_by_number(&mut answer.peaks, spare, bits(problem.n), |p| p.index);
            answer.in_order = true;
        }
        let elapsed = watch.elapsed();
        let read = [run.samples_read + run.samples_unused, run.samples_compared];
        let stages = run.clock.stages(elapsed);
        let place = run.place.unwrap_or(place);
        Ok(self.spectrum(answer, read, stages, place, elapsed))
    }

    /// [`spectrum`](Plan::spectrum) of a transform that started then.
    #[cfg(feature = "cuda")]
    pub(crate) fn finish(
        &self,
        answer: Answer,
        samples_read: u64,
        stages: Vec<(Stage, Duration)>,
        place: Place,
        started: std::time::Instant,
    ) -> Spectrum {
        self.spectrum(answer, [samples_read, 0], stages, place, started.elapsed())
    }

    /// Keeps what was asked for, and writes the report; `read` are the samples read and those of
    /// them that were only compared with the answer.
    fn spectrum(
        &self,
        answer: Answer,
        read: [u64; 2],
        stages: Vec<(Stage, Duration)>,
        place: Place,
        elapsed: Duration,
    ) -> Spectrum {
        let Prepared { problem, recipe, .. } = &*self.inner;
        let Answer { algorithm, mut peaks, in_order, certificate } = answer;
        let found = peaks.len();
        if let Some(k) = problem.k() {
            keep_largest(&mut peaks, k);
        }
        let left_out = (found - peaks.len()) as u64;
        if !(in_order && left_out == 0 || peaks.is_sorted_by_key(|p| p.index)) {
            peaks.sort_unstable_by_key(|p| p.index);
        }
        let ([samples_read, samples_compared], seed) = (read, recipe.seed);
        let report = Report {
            algorithm,
            samples_read,
            samples_compared,
            seed,
            left_out,
            stages,
            place,
            elapsed,
        };
        debug_assert!(certificate.reason.is_some() || certificate.verdict != Verdict::Uncertified);
        Spectrum { n: problem.n, peaks, certificate, report }
    }

    /// The shared part.
    #[cfg(any(test, feature = "cuda"))]
    pub(crate) fn prepared(&self) -> &Prepared {
        &self.inner
    }

    /// Finds the tones of a signal: sinusoids whose frequencies lie anywhere between the bins.
    ///
    /// Of the [`Problem`], the sparsity is a hint and a limit (the k strongest are returned), the
    /// noise is a hint ([`Noise::Snr`](crate::Noise::Snr): how weak a tone may be; unknown: tones
    /// down to -10 dB are looked for), and the failure probability is that of a false tone.
    /// Algorithm, taper and fallback concern the transform on the grid alone.
    ///
    /// # Errors
    /// As [`transform`](Plan::transform).
    pub fn tones<S: Samples + ?Sized>(&self, signal: &S) -> Result<Tones, Error> {
        self.tones_with(signal, Room::new(&self.inner).workspace())
    }

    /// Finds the tones of a signal with the caller's buffers.
    ///
    /// # Errors
    /// As [`transform`](Plan::transform).
    pub fn tones_with<S: Samples + ?Sized>(
        &self,
        signal: &S,
        workspace: &mut Workspace,
    ) -> Result<Tones, Error> {
        let watch = Stopwatch::start();
        let problem = &self.inner.problem;
        if signal.len() != problem.n {
            return Err(Error::LengthMismatch { expected: problem.n, got: signal.len() });
        }
        let mut run = Run::new(&self.inner, &signal, workspace, watch);
        let found = algorithms::tones::run(&mut run)?;
        let mut tones = found.tones;
        let count = tones.len();
        if let Some(k) = problem.k()
            && k < count as u64
        {
            tones.sort_by(|a, b| b.amplitude.norm_sqr().total_cmp(&a.amplitude.norm_sqr()));
            tones.truncate(k as usize);
            tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
        }
        let elapsed = watch.elapsed();
        let report = TonesReport {
            samples_read: run.samples_read,
            seed: problem.seed,
            left_out: (count - tones.len()) as u64,
            bins: found.bins,
            lines: found.lines,
            beta: found.beta,
            accuracy: found.accuracy,
            stages: run.clock.stages(elapsed),
            elapsed,
        };
        let (bands, clusters, certificate) = (found.bands, found.clusters, found.certificate);
        Ok(Tones { n: problem.n, tones, bands, clusters, certificate, report })
    }

    /// Transforms many signals with this plan, in parallel where the feature `rayon` is on.
    /// The results are those of single transforms, in order.
    pub fn transform_batch<S: Samples>(&self, signals: &[S]) -> Vec<Result<Spectrum, Error>> {
        #[cfg(feature = "rayon")]
        {
            use rayon::prelude::*;
            // Every thread keeps its buffers, which lie in its cache.
            let transform = |room: &mut Room<'_>, s: &S| self.transform_with(s, room.workspace());
            signals.par_iter().map_init(|| Room::new(&self.inner), transform).collect()
        }
        #[cfg(not(feature = "rayon"))]
        signals.iter().map(|s| self.transform(s)).collect()
    }

    /// An empty sketch for this plan, which must be one of [`Problem::one_pass`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the plan may need more than one pass, [`Error::OutOfMemory`] if there
    /// is no room for what it keeps.
    pub fn sketch(&self) -> Result<Sketch, Error> {
        Sketch::new(self)
    }

    /// An error if a transform needs more memory than can be had.
    pub(crate) fn check_memory(&self) -> Result<(), Error> {
        self.inner.check_memory()
    }

    /// All that may be read, if one pass must suffice.
    pub(crate) fn menu(&self) -> Option<&Menu> {
        self.inner.menu()
    }

    /// All that a one-pass plan may read, ascending.
    pub(crate) fn wanted(&self) -> &Arc<[u64]> {
        self.inner.wanted.get_or_init(|| self.sample_indices().collect())
    }

    /// CRC-32 of [`wanted`](Plan::wanted).
    pub(crate) fn wanted_sum(&self) -> u32 {
        *self.inner.wanted_sum.get_or_init(|| {
            let mut sum = crc32fast::Hasher::new();
            self.wanted().iter().for_each(|t| sum.update(&t.to_le_bytes()));
            sum.finalize()
        })
    }

    /// The samples that the first pass reads, in reading order, so that an instrument can record
    /// only these. Later passes (retries, the noise ladder where the noise is unknown) may read
    /// more. With [`Problem::one_pass`] these are all that may be read, ascending.
    pub fn sample_indices(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        algorithms::sample_indices(&self.inner)
    }
}

/// Keeps the k largest by magnitude; ties go to the smaller index.
pub(crate) fn keep_largest(peaks: &mut Vec<Peak>, k: u64) {
    if (peaks.len() as u64) > k {
        let k = k as usize;
        if k > 0 {
            peaks.select_nth_unstable_by(k - 1, largest_first);
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
