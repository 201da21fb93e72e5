//! Sparse transforms on the GPU.
//!
//! `exact` and `robust` over a comb run entirely on the device (`kernels/sparse.cuh`): one launch,
//! one small copy; so do both without a comb (`kernels/windows.cuh`), for other lengths, for
//! frequencies that a comb does not spread and for bins that it leaves open in noise. Plain problems
//! are tried by shorter kernels first (`kernels/quick.cu` without noise, `kernels/wide.cu` with many
//! coefficients, `kernels/noisy.cu` where noise is known). What these cannot explain, and other
//! algorithms, run in the engine of the CPU with samples that the device gathers;
//! [`Report::place`](crate::Report) says which and why. The promise is the same either way.

use super::graph::Replays;
use super::level::{
    Args, Entry, Found, Header, Level, MOST_BLOCKS, NoisyArgs, ROUNDS_WORD, Status, spread_buckets,
};
use super::vote::{Pool, Voting};
use super::wide::Wide;
use super::{Device, Signal, failed};
use crate::algorithms::Answer;
use crate::plan::{First, Method, Plan, smooth_near};
use crate::problem::{Noise, Problem, Taper};
use crate::samples::Line;
use crate::spectrum::{Place, Spectrum};
use crate::stages::certify::upper_quantile;
use crate::{Error, Samples, Workspace};
use cudarc::driver::{
    CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Threads per block, as `THREADS` in `sparse.cu`, and blocks of a cluster.
const SHAPE: (u32, u32) = (256, 16);
/// Most comb bins for which one cluster is enough.
const CLUSTER_BINS: usize = 1 << 15;
/// The same for the buckets of a window of all frequencies.
const WINDOW_CLUSTER: usize = 1 << 12;
/// Most comb bins on the device, and most buckets of a window of all frequencies.
const MOST_BINS: usize = 1 << 21;
const MOST_BUCKETS: usize = 1 << 17;
/// Sets of windows that are tried, each with four times the buckets.
const MOST_WINDOWED: u32 = 3;

/// A kernel of `quick.cu` or `noisy.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quick {
    /// log2 of the comb's bins, and of the verifying buckets.
    bins: u32,
    verify: u32,
    /// Blocks of a cluster, threads, bytes of shared memory.
    cluster: u32,
    threads: u32,
    shared: u32,
    /// Most coefficients.
    most: u64,
}

/// The kernels of `quick.cu`, in the order in which they are thought of. A block has 256 bins; with four
/// bins for a coefficient, a few hold three.
const QUICK: [Quick; 3] = [
    Quick { bins: 8, verify: 5, cluster: 1, threads: 256, shared: 112 << 10, most: 64 },
    Quick { bins: 10, verify: 7, cluster: 4, threads: 384, shared: 144 << 10, most: 256 },
    Quick { bins: 12, verify: 9, cluster: 16, threads: 384, shared: 176 << 10, most: 1024 },
];
/// The kernels of `noisy.cu`, likewise.
const NOISY: [Quick; 3] = [
    Quick { bins: 10, verify: 5, cluster: 16, threads: 192, shared: 112 << 10, most: 64 },
    Quick { bins: 12, verify: 7, cluster: 16, threads: 384, shared: 227 << 10, most: 256 },
    Quick { bins: 12, verify: 9, cluster: 16, threads: 384, shared: 227 << 10, most: 1024 },
];
/// Transforms without the quick kernel after one that met noise.
const QUICK_PAUSE: u32 = 15;

/// Why a problem has no level on the device.
const NO_COMB: &str = "this problem is not one for the kernels";

// SAFETY: plain numbers with the layout of `struct Args`.
unsafe impl DeviceRepr for Args {}

/// The kernels, loaded.
pub(super) struct SparseKernels {
    pub(super) gather: CudaFunction,
    pub(super) pick: CudaFunction,
    grid: CudaFunction,
    cluster: Option<CudaFunction>,
    /// Blocks of `grid` that can run at once.
    blocks: u32,
    /// Clusters that can run at once.
    clusters: u32,
    threads: u32,
    /// Blocks of a cluster.
    size: u32,
    /// Those of [`QUICK`] that the device can run.
    quick: Vec<(Quick, CudaFunction)>,
    /// Those of [`NOISY`].
    noisy: Vec<(Quick, CudaFunction)>,
}

impl SparseKernels {
    fn load(device: &Device) -> Result<Self, Error> {
        let (major, minor) = device.shared.context.compute_capability().map_err(failed)?;
        if (major, minor) == (9, 0) {
            // Compiled to the end, which saves the driver 15 seconds at its first use.
            let image = include_bytes!("kernels/sparse_90.cubin").to_vec();
            let mut kernels = Self::from_image(device, Ptx::from_binary(image), SHAPE)?;
            let image = include_bytes!("kernels/quick_90.cubin").to_vec();
            kernels.quick = load_quick(device, Ptx::from_binary(image), "quick", &QUICK)?;
            let image = include_bytes!("kernels/noisy_90.cubin").to_vec();
            kernels.noisy = load_quick(device, Ptx::from_binary(image), "noisy", &NOISY)?;
            return Ok(kernels);
        }
        let ptx = if major >= 9 {
            include_str!("kernels/sparse_90.ptx")
        } else {
            include_str!("kernels/sparse_70.ptx")
        };
        let mut kernels = Self::from_image(device, Ptx::from_src(ptx), SHAPE)?;
        if major >= 9 {
            let ptx = Ptx::from_src(include_str!("kernels/quick_90.ptx"));
            kernels.quick = load_quick(device, ptx, "quick", &QUICK)?;
            let ptx = Ptx::from_src(include_str!("kernels/noisy_90.ptx"));
            kernels.noisy = load_quick(device, ptx, "noisy", &NOISY)?;
        }
        Ok(kernels)
    }

    fn from_image(device: &Device, image: Ptx, (threads, size): (u32, u32)) -> Result<Self, Error> {
        let context = &device.shared.context;
        let (major, _) = context.compute_capability().map_err(failed)?;
        let module = context.load_module(image).map_err(failed)?;
        let find = |name: &str| module.load_function(name).map_err(failed);
        let grid = find("sparse_grid")?;
        let per_unit = grid
            .occupancy_max_active_blocks_per_multiprocessor(threads, 0, None)
            .map_err(failed)?;
        use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as UNITS;
        let units = context.attribute(UNITS).map_err(failed)? as u32;
        let mut cluster = None;
        if major >= 9 {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED as WIDE;
            let function = find("sparse_cluster")?;
            cluster = (size <= 8 || function.set_attribute(WIDE, 1).is_ok()).then_some(function);
        }
        Ok(SparseKernels {
            gather: find("gather")?,
            pick: find("pick")?,
            grid,
            cluster,
            blocks: (units * per_unit).clamp(1, MOST_BLOCKS as u32),
            clusters: (units / size).max(1),
            threads,
            size,
            quick: Vec::new(),
            noisy: Vec::new(),
        })
    }
}

/// Those of the quick kernels that the device has the shared memory and the clusters for.
fn load_quick(
    device: &Device,
    image: Ptx,
    kind: &str,
    shapes: &[Quick],
) -> Result<Vec<(Quick, CudaFunction)>, Error> {
    use sys::CUfunction_attribute_enum::{
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as SHARED,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED as WIDE,
    };
    let module = device.shared.context.load_module(image).map_err(failed)?;
    let mut found = Vec::new();
    for &shape in shapes {
        let name = format!("{kind}_{}_{}_{}", shape.bins, shape.verify, shape.cluster);
        let function = module.load_function(&name).map_err(failed)?;
        let able = function.set_attribute(SHARED, shape.shared as i32).is_ok()
            && (shape.cluster <= 8 || function.set_attribute(WIDE, 1).is_ok());
        if able {
            found.push((shape, function));
        }
    }
    Ok(found)
}

impl Device {
    pub(super) fn sparse_kernels(&self) -> Result<Arc<SparseKernels>, Error> {
        let load = || SparseKernels::load(self).map(Arc::new);
        self.shared.sparse.get_or_init(load).clone()
    }
}

/// What one transform on the device found, or how else it ended.
type Outcome = Result<(Header, Vec<Entry>), Status>;

/// A level with its tables and buffers on the device.
struct Ready {
    level: Level,
    tables: CudaSlice<u8>,
    work: Option<CudaSlice<u8>>,
    groups: u32,
    out: Option<CudaSlice<u8>>,
    batch: usize,
    /// Page-locked memory for what comes back, as 8-byte words.
    landing: Landing,
    kernel: Kernel,
    /// Blocks of a quick kernel, each of which has the last word on its buckets.
    blocks: usize,
    /// Whether all words of the landing place are [`NOTHING`].
    blank: bool,
    /// The landing place of the transform before, and what that one left there. It is made blank while the next
    /// one is under way.
    before: Landing,
    left: Option<Header>,
    /// Launches of a quick kernel whose results go into one or the other.
    replays: Replays,
    /// What the last transform said.
    last: Option<Header>,
}

/// A word of a landing place that the kernel has not written yet. Frequencies are below 2^63, and values that
/// explain a signal are numbers.
const NOTHING: u64 = u64::MAX;

/// Which kernels a level is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// Those of `sparse.cu`.
    General,
    /// Those of `quick.cu`.
    Quick,
    /// Those of `noisy.cu`.
    Noisy,
}

impl Kernel {
    /// The shape of a quick kernel for a level.
    fn shape(self, level: &Level) -> Option<Quick> {
        let shapes = match self {
            Kernel::General => return None,
            Kernel::Quick => &QUICK,
            Kernel::Noisy => &NOISY,
        };
        let (bins, verify) = level.sizes();
        shapes.iter().find(|q| 1 << q.bins == bins && 1 << q.verify == verify).copied()
    }
}

/// Page-locked memory that results are copied to.
pub(super) struct Landing {
    pub(super) at: *mut u64,
    words: usize,
}

// SAFETY: an allocation, used under the lock of its plan.
unsafe impl Send for Landing {}

impl Landing {
    pub(super) fn empty() -> Self {
        Landing { at: std::ptr::null_mut(), words: 0 }
    }

    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        if self.words * 8 < bytes {
            self.free();
            // SAFETY: freed by `free`.
            self.at = unsafe { result::malloc_host(bytes, 0) }.map_err(failed)?.cast();
            self.words = bytes / 8;
        }
        Ok(())
    }

    fn free(&mut self) {
        if self.words > 0 {
            // SAFETY: allocated by `malloc_host`; copies into it have ended, since every transform
            // waits for its own.
            let _ = unsafe { result::free_host(self.at.cast()) };
            self.words = 0;
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.free();
    }
}

/// A sparse transform made ready on a GPU.
///
/// ```no_run
/// use sparsefft::cuda::{CudaPlan, Device};
/// use sparsefft::{Complex, Problem};
///
/// let device = Device::new(0)?;
/// let x = device.upload(&vec![Complex::new(1.0f64, 0.0); 1 << 22])?;
/// let plan = CudaPlan::new(&device, Problem::new(1 << 22).sparsity(50))?;
/// let spectrum = plan.transform(&x.signal())?;
/// println!("{} on the {}", spectrum.certificate(), spectrum.report().place);
/// # Ok::<(), sparsefft::Error>(())
/// ```
pub struct CudaPlan {
    device: Device,
    plan: Plan,
    /// Bins of the first try, if they are not the planned ones.
    bins: Option<usize>,
    /// The planned bins, then four times as many, and so on.
    levels: Mutex<Vec<Option<Ready>>>,
    /// Windows instead of a comb that does not spread the frequencies, made when they are needed.
    spread: Mutex<Option<Ready>>,
    /// What the quick kernel needs, where it can do the problem, and how often it is passed over.
    quick: Option<Mutex<Ready>>,
    /// The same for many coefficients.
    wide: Option<Mutex<Wide>>,
    pause: AtomicU32,
    /// Signals that the quick kernel left to others.
    missed: AtomicU32,
    workspace: Mutex<Workspace>,
    /// Buffers of the voting algorithms.
    votes: Pool,
    /// Dropped last: what was launched may have written its last word and not have ended.
    kernels: Arc<SparseKernels>,
}

impl std::fmt::Debug for CudaPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaPlan").field("device", &self.device).field("plan", &self.plan).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks guard is whole between statements, whatever panicked.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl CudaPlan {
    /// Plans a transform on this GPU.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`Error::Device`] if the kernels cannot be loaded, and
    /// [`Error::DeviceMemory`].
    pub fn new(device: &Device, problem: Problem) -> Result<Self, Error> {
        Self::with_kernels(device, Plan::new(problem)?, device.sparse_kernels()?, None)
    }

    /// A plan with kernels compiled otherwise (threads and blocks of a cluster), and bins chosen
    /// by hand, for measurements.
    #[doc(hidden)]
    pub fn tuned(
        device: &Device,
        problem: Problem,
        image: Option<(Vec<u8>, (u32, u32))>,
        bins: Option<usize>,
    ) -> Result<Self, Error> {
        let other = image.is_some();
        let kernels = match image {
            Some((bytes, shape)) => {
                Arc::new(SparseKernels::from_image(device, Ptx::from_binary(bytes), shape)?)
            }
            None => device.sparse_kernels()?,
        };
        let mut plan = Self::with_kernels(device, Plan::new(problem)?, kernels, bins)?;
        plan.wide = plan.wide.filter(|_| !other);
        Ok(plan)
    }

    fn with_kernels(
        device: &Device,
        plan: Plan,
        kernels: Arc<SparseKernels>,
        bins: Option<usize>,
    ) -> Result<Self, Error> {
        let mut plan = CudaPlan {
            device: device.clone(),
            plan,
            kernels,
            bins,
            levels: Mutex::default(),
            spread: Mutex::default(),
            quick: None,
            wide: None,
            pause: AtomicU32::new(0),
            missed: AtomicU32::new(0),
            workspace: Mutex::default(),
            votes: Pool::default(),
        };
        plan.ready(&mut lock(&plan.levels), 0)?;
        if let Some((level, kernel)) = plan.quick_level().filter(|_| plan.on_device()) {
            plan.quick = Some(Mutex::new(Ready::new(device, level, kernel)?));
        } else if plan.on_device() {
            plan.wide = Wide::new(device, plan.plan.prepared(), bins)?.map(Mutex::new);
        }
        Ok(plan)
    }

    /// The level of a quick kernel, for 2^m samples: without noise that is known of, or with noise
    /// that two lines can climb.
    fn quick_level(&self) -> Option<(Level, Kernel)> {
        let problem = self.plan.problem();
        let k = problem.k().filter(|&k| k > 0)?;
        let noisy = matches!(problem.noise, Noise::Snr(_));
        let shapes = if noisy { &self.kernels.noisy } else { &self.kernels.quick };
        let level = |shape: &Quick| {
            let plain = k <= shape.most
                && problem.n.is_power_of_two()
                && problem.n >> shape.bins >= 64
                && self.bins.is_none();
            let (bins, verify) = (1usize << shape.bins, 1usize << shape.verify);
            let sigmas = upper_quantile(problem.failure / (4 * bins) as f64);
            let prepared = self.plan.prepared();
            match (plain, noisy) {
                (false, _) => None,
                (_, true) => Level::noisy(prepared, bins, verify, sigmas),
                _ => Level::quick(prepared, bins, verify, sigmas),
            }
        };
        let kernel = if noisy { Kernel::Noisy } else { Kernel::Quick };
        Some((shapes.iter().find_map(|(shape, _)| level(shape))?, kernel))
    }

    /// A plan with other quick kernels, for measurements.
    #[doc(hidden)]
    pub fn tuned_quick(device: &Device, problem: Problem, image: Vec<u8>) -> Result<Self, Error> {
        let base = SparseKernels::load(device)?;
        // An image has kernels of one kind.
        let image = Ptx::from_binary(image);
        let kernels = match load_quick(device, image.clone(), "noisy", &NOISY) {
            Ok(noisy) => SparseKernels { noisy, ..base },
            Err(_) => SparseKernels { quick: load_quick(device, image, "quick", &QUICK)?, ..base },
        };
        let kernels = Arc::new(kernels);
        Self::with_kernels(device, Plan::new(problem)?, kernels, None)
    }

    /// Tries the quick kernel. `None` for signals that it leaves to others.
    fn try_quick(
        &self,
        part: &[Signal<'_>],
        started: Instant,
    ) -> Result<Vec<Option<Spectrum>>, Error> {
        if self.quick.is_none() && self.wide.is_none() {
            return Ok(vec![None; part.len()]);
        }
        if self.pause.load(Ordering::Relaxed) > 0 {
            self.pause.fetch_sub(1, Ordering::Relaxed);
            return Ok(vec![None; part.len()]);
        }
        let Some(quick) = &self.quick else { return self.try_wide(part, started) };
        let mut quick = lock(quick);
        let (device, plan) = (&self.device, self.plan.prepared());
        quick.start(device, &self.kernels, &self.plan, part)?;
        let mut crowded = true;
        let mut done = Vec::with_capacity(part.len());
        if quick.direct(part.len()) {
            let (head, found) = quick.arriving(device, plan.problem.n)?;
            crowded = head.status() == Status::Crowded;
            let explained = head.status() == Status::Explained;
            let real = part.first().is_some_and(Signal::is_real);
            let answer = explained.then(|| quick.level.answer_of(plan, &head, found, real, 1));
            let read = 4 * head.lines_read;
            let finish = |answer| self.plan.finish(answer, read, Vec::new(), Place::Gpu, started);
            done.push(answer.and_then(Result::ok).map(finish));
        } else {
            for (i, signal) in part.iter().enumerate() {
                let outcome = quick.result(device, &self.plan, part.len(), i)?;
                crowded &= matches!(outcome, Err(Status::Crowded));
                let Ok((head, entries)) = outcome else {
                    done.push(None);
                    continue;
                };
                // SAFETY: nothing is started on this level before the loop ends.
                let entries = unsafe { entries.get() };
                let mut found = Found::new(plan.problem.n, entries.len());
                for run in [&entries[..head.first()], &entries[head.first()..]] {
                    found.take(run.iter().copied());
                }
                let answer = quick.level.answer_of(plan, &head, found, signal.is_real(), 1);
                let read = 4 * head.lines_read;
                let finish =
                    |answer| self.plan.finish(answer, read, Vec::new(), Place::Gpu, started);
                done.push(answer.ok().map(finish));
            }
        }
        if crowded {
            self.pause.store(QUICK_PAUSE, Ordering::Relaxed);
        }
        let missed = done.iter().filter(|d| d.is_none()).count();
        self.missed.fetch_add(missed as u32, Ordering::Relaxed);
        Ok(done)
    }

    /// Tries the kernels for many coefficients, likewise.
    fn try_wide(
        &self,
        part: &[Signal<'_>],
        started: Instant,
    ) -> Result<Vec<Option<Spectrum>>, Error> {
        let Some(wide) = &self.wide else { return Ok(vec![None; part.len()]) };
        let outcomes = lock(wide).run(&self.device, self.plan.prepared(), part)?;
        if outcomes.iter().all(|o| matches!(o, Err(Status::Crowded))) {
            self.pause.store(QUICK_PAUSE, Ordering::Relaxed);
        }
        let missed = outcomes.iter().filter(|o| o.is_err()).count();
        self.missed.fetch_add(missed as u32, Ordering::Relaxed);
        let conclude = |outcome: super::wide::Outcome| {
            let (answer, lines) = outcome.ok()?;
            Some(self.plan.finish(answer, 4 * lines, Vec::new(), Place::Gpu, started))
        };
        Ok(outcomes.into_iter().map(conclude).collect())
    }

    /// How many signals the quick kernel has left to others, for measurements.
    #[doc(hidden)]
    pub fn missed(&self) -> u32 {
        self.missed.load(Ordering::Relaxed)
    }

    /// The plan, as the CPU would carry it out.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether the first try runs on the device.
    pub fn on_device(&self) -> bool {
        lock(&self.levels).first().is_some_and(Option::is_some)
    }

    /// Makes level number i, if the kernels can do it.
    fn ready(&self, levels: &mut Vec<Option<Ready>>, i: usize) -> Result<(), Error> {
        while levels.len() <= i {
            let level = self.level(levels);
            let ready = match level {
                Some(level) => Some(Ready::new(&self.device, level, Kernel::General)?),
                None => None,
            };
            levels.push(ready);
        }
        Ok(())
    }

    fn level(&self, levels: &[Option<Ready>]) -> Option<Level> {
        let prepared = self.plan.prepared();
        let problem = &prepared.problem;
        let Method::Peel(peeling) = &prepared.recipe.method else { return None };
        if problem.k() == Some(0) || problem.taper != Taper::None || problem.one_pass {
            return None;
        }
        let attempt = levels.len() as u32 + 1;
        let bins = match peeling.first {
            First::Comb { bins } => bins,
            First::Window { buckets } => {
                let buckets = match levels.last() {
                    None => buckets,
                    Some(last) => 4 * last.as_ref()?.level.bins,
                };
                return self.windowed(buckets, attempt);
            }
        };
        let (bins, sigmas) = match levels.last() {
            None => (self.bins.unwrap_or(bins), peeling.sigmas),
            Some(last) => {
                let before = last.as_ref()?.level.bins;
                let bins = smooth_near(problem.n, before, 4 * before as u64)?;
                (bins, upper_quantile(problem.failure / (4 * bins) as f64))
            }
        };
        if bins > MOST_BINS {
            return None;
        }
        Level::new(prepared, bins, attempt, sigmas, &peeling.ladder)
    }

    /// A level without a comb.
    fn windowed(&self, buckets: usize, attempt: u32) -> Option<Level> {
        let prepared = self.plan.prepared();
        let sigmas = upper_quantile(prepared.problem.failure / (4 * buckets) as f64);
        let few = buckets <= MOST_BUCKETS && attempt <= MOST_WINDOWED;
        few.then(|| Level::windowed(prepared, buckets, attempt, sigmas)).flatten()
    }

    /// Transforms a signal by windows whose frequencies the planned comb does not spread.
    fn run_spread(&self, signal: &Signal<'_>) -> Result<Option<(Answer, u64)>, Error> {
        let Some(buckets) = spread_buckets(self.plan.problem()) else { return Ok(None) };
        let mut spread = lock(&self.spread);
        if spread.is_none() {
            let Some(level) = self.windowed(buckets, 2) else { return Ok(None) };
            *spread = Some(Ready::new(&self.device, level, Kernel::General)?);
        }
        let Some(ready) = spread.as_mut() else { return Ok(None) };
        let part = std::slice::from_ref(signal);
        let outcome = ready.run(&self.device, &self.kernels, &self.plan, part)?.pop();
        let Some(Ok((head, entries))) = outcome else { return Ok(None) };
        let (plan, real) = (self.plan.prepared(), signal.is_real());
        let answer = ready.level.answer(plan, &head, entries.into_iter(), real, 2);
        Ok(answer.ok().map(|answer| (answer, 4 * head.lines_read)))
    }

    /// Transforms a signal.
    ///
    /// # Errors
    /// As [`Plan::transform`], and [`Error::Device`], [`Error::DeviceMemory`].
    pub fn transform(&self, signal: &Signal<'_>) -> Result<Spectrum, Error> {
        let mut results = self.transform_batch(std::slice::from_ref(signal));
        results.pop().unwrap_or(Err(Error::ZeroLength))
    }

    /// Transforms many signals, as many at once as the GPU has room for. The results are those of
    /// single transforms, in order.
    pub fn transform_batch(&self, signals: &[Signal<'_>]) -> Vec<Result<Spectrum, Error>> {
        let mut results = Vec::with_capacity(signals.len());
        let mut rest = signals;
        while let Some(first) = rest.first() {
            let run = evenly_spaced(rest);
            let (part, later) = rest.split_at(run);
            rest = later;
            if let Err(error) = self.run_part(first, part, &mut results) {
                results.resize_with(signals.len() - rest.len(), || Err(error.clone()));
            }
        }
        results
    }

    /// Transforms a signal in ordinary memory, in a file, or anywhere: the CPU gathers the samples
    /// of the first stage and sends only these, so the signal may be larger than the GPU's memory.
    /// What needs more samples than that is done by the CPU.
    ///
    /// # Errors
    /// As [`transform`](CudaPlan::transform), and what the source meets.
    pub fn transform_samples<S: Samples + ?Sized>(&self, signal: &S) -> Result<Spectrum, Error> {
        let started = Instant::now();
        let n = self.plan.problem().n;
        if signal.len() != n {
            return Err(Error::LengthMismatch { expected: n, got: signal.len() });
        }
        let mut levels = lock(&self.levels);
        let why = match levels.first_mut() {
            // Windows alone ask for more samples as they go.
            Some(Some(ready)) if !ready.level.without_comb() => {
                let (device, kernels) = (&self.device, &self.kernels);
                match ready.run_staged(device, kernels, &self.plan, signal)? {
                    Ok((head, entries)) => {
                        let (plan, real) = (self.plan.prepared(), signal.is_real());
                        match ready.level.answer(plan, &head, entries.into_iter(), real, 1) {
                            Ok(answer) => {
                                let read = 4 * head.lines_read;
                                let (stages, place) = (Vec::new(), Place::Gpu);
                                return Ok(self.plan.finish(answer, read, stages, place, started));
                            }
                            Err(why) => why,
                        }
                    }
                    Err(Status::Left(why) | Status::Blind(why)) => why,
                    Err(_) => "more samples are needed than were sent",
                }
            }
            _ => NO_COMB,
        };
        drop(levels);
        self.plan.transform_at(signal, &mut lock(&self.workspace), Place::CpuInstead(why))
    }

    /// Transforms signals that lie at equal distances.
    fn run_part(
        &self,
        first: &Signal<'_>,
        part: &[Signal<'_>],
        results: &mut Vec<Result<Spectrum, Error>>,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let n = self.plan.problem().n;
        if first.len() != n {
            return Err(Error::LengthMismatch { expected: n, got: first.len() });
        }
        let quick = self.try_quick(part, started)?;
        let none = quick.iter().all(Option::is_none);
        for (signal, done) in part.iter().zip(quick).filter(|_| !none) {
            results.push(match done {
                Some(spectrum) => Ok(spectrum),
                None => {
                    let outcome = self.run_planned(std::slice::from_ref(signal))?.pop();
                    let outcome = outcome.unwrap_or(Err(Status::Left(NO_COMB)));
                    self.conclude(signal, outcome, started.elapsed())
                }
            });
        }
        if none {
            let outcomes = self.run_planned(part)?;
            let each = started.elapsed();
            for (signal, outcome) in part.iter().zip(outcomes) {
                results.push(self.conclude(signal, outcome, each));
            }
        }
        Ok(())
    }

    /// Runs signals with the planned bins.
    fn run_planned(&self, part: &[Signal<'_>]) -> Result<Vec<Outcome>, Error> {
        match lock(&self.levels).first_mut() {
            Some(Some(ready)) => ready.run(&self.device, &self.kernels, &self.plan, part),
            _ => Ok(vec![Err(Status::Left(NO_COMB)); part.len()]),
        }
    }

    /// Turns what the device found into an answer, with more bins or the CPU's engine where it
    /// could not.
    fn conclude(
        &self,
        signal: &Signal<'_>,
        mut outcome: Outcome,
        spent: Duration,
    ) -> Result<Spectrum, Error> {
        let started = Instant::now().checked_sub(spent).unwrap_or_else(Instant::now);
        let known_k = self.plan.problem().k().is_some();
        let (mut attempts, mut read) = (1, 0);
        let mut i = 0;
        loop {
            let why = match &outcome {
                Ok((head, entries)) => {
                    read += 4 * head.lines_read;
                    let levels = lock(&self.levels);
                    let Some(Some(ready)) = levels.get(i) else { break };
                    let real = signal.is_real();
                    let level = &ready.level;
                    let entries = entries.iter().copied();
                    match level.answer(self.plan.prepared(), head, entries, real, attempts) {
                        Ok(answer) => {
                            let answer =
                                self.plan.finish(answer, read, Vec::new(), Place::Gpu, started);
                            return Ok(answer);
                        }
                        Err(why) => Status::Left(why),
                    }
                }
                Err(status) => *status,
            };
            // The comb of a plan without one is not to blame.
            let combed = matches!(&self.plan.recipe().method,
                Method::Peel(p) if matches!(p.first, First::Comb { .. }));
            if let Status::Blind(_) = why
                && combed
                && let Some((answer, more)) = self.run_spread(signal)?
            {
                let read = read + more;
                return Ok(self.plan.finish(answer, read, Vec::new(), Place::Gpu, started));
            }
            let crowded = why == Status::Crowded;
            i += 1;
            let mut levels = lock(&self.levels);
            if crowded {
                self.ready(&mut levels, i)?;
            }
            match levels.get_mut(i) {
                Some(Some(ready)) if crowded => {
                    attempts += u32::from(known_k);
                    let part = std::slice::from_ref(signal);
                    outcome = ready
                        .run(&self.device, &self.kernels, &self.plan, part)?
                        .pop()
                        .unwrap_or(Err(Status::Left("nothing came back")));
                }
                _ => {
                    drop(levels);
                    let why = match why {
                        Status::Left(why) | Status::Blind(why) => why,
                        _ => "more bins are needed than the device is given",
                    };
                    return self.otherwise(signal, why);
                }
            }
        }
        self.otherwise(signal, "nothing came back")
    }

    /// Everything that the kernels of `sparse.cuh` do not do: votes on the device, and the rest on
    /// the CPU with samples from there.
    fn otherwise(&self, signal: &Signal<'_>, why: &'static str) -> Result<Spectrum, Error> {
        let mut workspace = lock(&self.workspace);
        let voting = Voting::new(signal, self.plan.recipe().seed, &self.votes);
        self.plan.transform_by(signal, &mut workspace, Place::GpuSamples(why), Some(&voting))
    }

    /// Enqueues one transform of the planned bins without waiting for it, for timing: what
    /// [`transform`](CudaPlan::transform) launches.
    #[doc(hidden)]
    pub fn enqueue(&self, signals: &[Signal<'_>], copy: bool) -> Result<bool, Error> {
        if let Some(wide) = &self.wide {
            return lock(wide).enqueue(&self.device, signals).map(|()| true);
        }
        let (mut levels, mut quick) = (lock(&self.levels), self.quick.as_ref().map(lock));
        let ready = match (&mut quick, levels.first_mut()) {
            (Some(quick), _) => &mut **quick,
            (None, Some(Some(ready))) => ready,
            _ => return Ok(false),
        };
        if ready.direct(signals.len()) && ready.landing.words == 0 {
            ready.clear(&self.device)?;
        }
        ready.launch(&self.device, &self.kernels, signals)?;
        ready.blank = false;
        if copy {
            ready.fetch(&self.device, &self.plan, signals.len())?;
        }
        Ok(true)
    }

    /// The numbers that the last transform left, for measurements: status, barriers, rounds,
    /// lines, climbs, known, open.
    #[doc(hidden)]
    pub fn last(&self) -> Option<[u32; 7]> {
        if let Some(wide) = &self.wide {
            let h = lock(wide).last()?;
            return Some([h.status, h.steps, h.rounds, h.active, h.left, h.known, h.open]);
        }
        let (levels, quick) = (lock(&self.levels), self.quick.as_ref().map(lock));
        let ready = match &quick {
            Some(quick) => &**quick,
            None => levels.first()?.as_ref()?,
        };
        let h = ready.last?;
        Some([h.status, h.steps, h.rounds, h.lines, h.climbs, h.known, h.open])
    }
}

impl CudaPlan {
    /// Clock readings at the barriers of the last transform, of kernels compiled with `PROFILE`.
    #[doc(hidden)]
    pub fn stamps(&self) -> Result<Vec<u64>, Error> {
        let (levels, quick) = (lock(&self.levels), self.quick.as_ref().map(lock));
        let ready = match (&quick, levels.first()) {
            (Some(quick), _) => &**quick,
            (None, Some(Some(ready))) => ready,
            _ => return Ok(Vec::new()),
        };
        let end = ready.level.args.out_stride as usize;
        let mut bytes = vec![0u8; end];
        self.device.synchronize()?;
        if ready.direct(1) {
            let landing = if ready.left.is_some() { &ready.before } else { &ready.landing };
            if landing.words * 8 < end {
                return Ok(Vec::new());
            }
            // SAFETY: the landing place has this many bytes.
            bytes.copy_from_slice(unsafe {
                std::slice::from_raw_parts(landing.at.cast::<u8>(), end)
            });
        } else {
            let Some(out) = &ready.out else { return Ok(Vec::new()) };
            self.device.stream().memcpy_dtoh(&out.slice(..end), &mut bytes).map_err(failed)?;
            self.device.synchronize()?;
        }
        let words = bytes[end - 512..end].chunks_exact(8);
        Ok(words.map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default())).collect())
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // Results that come word by word are there before the kernel has ended.
        let _ = self.tables.stream().synchronize();
    }
}

/// How many of these signals, from the first on, lie at equal distances and are of one kind.
fn evenly_spaced(signals: &[Signal<'_>]) -> usize {
    let Some(first) = signals.first() else { return 0 };
    let Some(second) = signals.get(1) else { return 1 };
    let stride = second.pointer().wrapping_sub(first.pointer());
    let same = |(i, s): &(usize, &Signal<'_>)| {
        s.len() == first.len()
            && s.format() == first.format()
            && s.pointer() == first.pointer().wrapping_add(stride.wrapping_mul(*i as u64))
    };
    signals.iter().enumerate().take_while(same).count()
}

impl Ready {
    fn new(device: &Device, level: Level, kernel: Kernel) -> Result<Self, Error> {
        let stream = device.stream();
        let mut tables = device.alloc_parts::<u8>(level.tables.len())?;
        stream.memcpy_htod(&level.tables, &mut tables).map_err(failed)?;
        device.synchronize()?;
        let mut level = level;
        level.tables = Vec::new();
        level.args.tables = tables.device_ptr(stream).0;
        let blocks = kernel.shape(&level).map_or(0, |shape| shape.cluster as usize);
        Ok(Ready {
            level,
            tables,
            work: None,
            groups: 0,
            out: None,
            batch: 0,
            landing: Landing::empty(),
            kernel,
            blocks,
            blank: false,
            before: Landing::empty(),
            left: None,
            replays: Replays::default(),
            last: None,
        })
    }

    /// Whether one cluster does a transform, how many blocks a group has, and how many groups.
    fn shape(&self, kernels: &SparseKernels, batch: usize) -> (bool, u32, u32) {
        let batch = (batch as u32).max(1);
        // A pass has this many threads' worth of work.
        let useful = (self.level.bins as u32).div_ceil(kernels.threads).clamp(1, kernels.blocks);
        let few = batch <= kernels.clusters / 2;
        let most = if self.level.without_comb() { WINDOW_CLUSTER } else { CLUSTER_BINS };
        if kernels.cluster.is_some() && few && self.level.bins <= most {
            return (true, kernels.size, batch);
        }
        // One signal gets all the blocks it can use, many signals share them.
        let wanted = if batch == 1 {
            useful.max(kernels.size.min(kernels.blocks))
        } else {
            (kernels.blocks / batch).clamp(1, useful.max(kernels.size))
        };
        (false, wanted, batch.min(kernels.blocks / wanted).max(1))
    }

    /// Enqueues the transform of these signals.
    fn launch(
        &mut self,
        device: &Device,
        kernels: &SparseKernels,
        signals: &[Signal<'_>],
    ) -> Result<(), Error> {
        let Some(first) = signals.first() else { return Ok(()) };
        let stride = signals.get(1).map_or(0, |s| s.pointer().wrapping_sub(first.pointer()));
        let mut args = self.level.args;
        (args.x, args.stride) = (first.pointer(), stride);
        (args.format, args.batch) = (first.format().code(), signals.len() as u32);
        match self.kernel {
            Kernel::General => self.launch_args(device, kernels, args),
            _ => self.launch_quick(device, kernels, args),
        }
    }

    /// Enqueues the quick kernel, one cluster per signal.
    fn launch_quick(
        &mut self,
        device: &Device,
        kernels: &SparseKernels,
        mut args: Args,
    ) -> Result<(), Error> {
        let batch = args.batch as usize;
        let shape = self.kernel.shape(&self.level);
        let noisy = self.kernel == Kernel::Noisy;
        let loaded = if noisy { &kernels.noisy } else { &kernels.quick };
        let Some((shape, function)) = loaded.iter().find(|(q, _)| Some(*q) == shape) else {
            return Err(Error::Device("the quick kernel is missing".into()));
        };
        let shape = *shape;
        if self.direct(batch) {
            // The kernel writes into the landing place itself.
            args.out = self.landing.at as u64;
        } else {
            self.reserve_out(device, args.out_stride as usize, batch)?;
            args.out = self.level.args.out;
        }
        let grid = [shape.cluster * args.batch, shape.threads, shape.shared];
        self.replays.launch(device, function, grid, &NoisyArgs::from(&args))
    }

    /// Room for the results of so many signals.
    fn reserve_out(&mut self, device: &Device, stride: usize, batch: usize) -> Result<(), Error> {
        if batch > self.batch {
            self.out = None;
            let out = device.alloc_parts::<u8>(stride * batch)?;
            self.level.args.out = out.device_ptr(device.stream()).0;
            (self.out, self.batch) = (Some(out), batch);
        }
        Ok(())
    }

    /// Enqueues a launch with these arguments, whose buffers are filled in here.
    fn launch_args(
        &mut self,
        device: &Device,
        kernels: &SparseKernels,
        mut args: Args,
    ) -> Result<(), Error> {
        let stream = device.stream();
        let batch = args.batch as usize;
        let (clustered, blocks, groups) = self.shape(kernels, batch);
        if groups > self.groups {
            self.work = None;
            let bytes = args.work_stride as usize * groups as usize;
            let mut work = device.alloc_parts::<u8>(bytes)?;
            // Barriers count from zero.
            stream.memset_zeros(&mut work).map_err(failed)?;
            self.level.args.work = work.device_ptr(stream).0;
            (self.work, self.groups) = (Some(work), groups);
        }
        self.reserve_out(device, args.out_stride as usize, batch)?;
        (args.work, args.out) = (self.level.args.work, self.level.args.out);
        let config = LaunchConfig {
            grid_dim: (blocks * groups, 1, 1),
            block_dim: (kernels.threads, 1, 1),
            shared_mem_bytes: 0,
        };
        match &kernels.cluster {
            Some(cluster) if clustered => {
                // SAFETY: the arguments are laid out as the kernel expects, its buffers are as
                // large as the level says, and the signals hold what they promise.
                unsafe { stream.launch_builder(cluster).arg(&args).launch(config) }
            }
            _ => {
                let mut launch = stream.launch_builder(&kernels.grid);
                launch.arg(&args).arg(&blocks);
                // SAFETY: as above; no more blocks are launched than run at once.
                unsafe { launch.launch_cooperative(config) }
            }
        }
        .map_err(failed)?;
        Ok(())
    }

    /// Gathers the samples of the first stage on the CPU, sends them, and transforms.
    fn run_staged<S: Samples + ?Sized>(
        &mut self,
        device: &Device,
        kernels: &SparseKernels,
        plan: &Plan,
        signal: &S,
    ) -> Result<Outcome, Error> {
        let mut lines = Vec::new();
        let mut values = Vec::new();
        for (start, step, count) in self.level.walks() {
            lines.resize(count, Line::ZERO);
            signal.read_lines(start, step, &mut lines)?;
            values.extend(lines.iter().flat_map(|l| (0..4).map(|tau| l.lane(tau))));
        }
        let sent = device.upload(&values)?;
        let mut args = self.level.staged();
        args.x = sent.parts().device_ptr(device.stream()).0;
        self.launch_args(device, kernels, args)?;
        self.fetch(device, plan, 1)?;
        // The samples may be freed afterwards.
        self.wait(device, 1)?;
        self.outcome(device, plan, 1, 0)
    }

    /// Bytes of a result that are fetched at once.
    fn prefix(&self, plan: &Plan) -> usize {
        size_of::<Header>() + self.level.expected(plan.problem().k()) * size_of::<Entry>()
    }

    /// Whether the kernel writes the results of so many signals into the landing place.
    fn direct(&self, batch: usize) -> bool {
        self.kernel != Kernel::General && batch == 1
    }

    /// Makes the landing place ready for a kernel that writes into it.
    fn clear(&mut self, device: &Device) -> Result<(), Error> {
        let words = self.level.args.out_stride as usize / 8;
        if self.landing.words < words {
            device.shared.context.bind_to_thread().map_err(failed)?;
            self.landing.reserve(8 * words)?;
            self.blank = false;
        }
        if !self.blank {
            // What an earlier kernel writes comes first.
            device.synchronize()?;
            // SAFETY: the landing place has this many words, and no kernel is running.
            unsafe { std::slice::from_raw_parts_mut(self.landing.at, words) }.fill(NOTHING);
        }
        // Until the answer has been read.
        self.blank = false;
        Ok(())
    }

    /// Makes the landing place of the transform before blank, which is read: lines that are written by both
    /// sides travel back and forth, so this comes while the next one is waited for.
    fn tidy(&mut self) {
        let Some(head) = self.left.take() else { return };
        let known = head.known.min(self.level.args.capacity) as usize;
        let words = (size_of::<Header>() + known * size_of::<Entry>()) / 8;
        let verdicts = self.level.verdicts() / 8;
        for (from, count) in [(0, words), (verdicts, self.blocks)] {
            // SAFETY: the landing place has these words, which the kernel wrote once each.
            let words = unsafe { std::slice::from_raw_parts_mut(self.before.at.add(from), count) };
            words.fill(NOTHING);
        }
    }

    /// What the kernel writes into the landing place, as it comes: the coefficients, those of a second run, the
    /// header, and the words of the blocks. Where these confirm what was found, everything that the kernel writes
    /// has been read, and the next one finds another landing place, a blank one.
    fn arriving(&mut self, device: &Device, n: u64) -> Result<(Header, Found), Error> {
        let capacity = self.level.args.capacity as usize;
        // SAFETY: a word of the header.
        let early = unsafe { self.arrived(device, self.landing.at.add(ROUNDS_WORD)) }?;
        let first = (early as u32 as usize).min(capacity);
        let mut found = Found::new(n, first + first / 16 + 8);
        found.take(self.arrived_entries(device, 0, first)?.iter().copied());
        let mut head = self.arrived_header(device)?;
        let known = (head.known as usize).min(capacity);
        if head.status() == Status::Explained {
            let late = known.saturating_sub(first);
            if late > 0 {
                found.take(self.arrived_entries(device, first, late)?.iter().copied());
            }
            for i in 0..self.blocks {
                let at = self.level.verdicts() / 8 + i;
                // SAFETY: these words lie behind the entries.
                head.hear(unsafe { self.arrived(device, self.landing.at.add(at)) }?);
            }
        }
        self.last = Some(head);
        if head.status() == Status::Explained {
            // After the first time both are blank.
            self.blank = self.before.words > 0;
            std::mem::swap(&mut self.landing, &mut self.before);
            self.left = Some(head);
        }
        Ok((head, found))
    }

    /// Waits for so many entries.
    fn arrived_entries(
        &self,
        device: &Device,
        from: usize,
        count: usize,
    ) -> Result<&[Entry], Error> {
        const WORDS: usize = size_of::<Entry>() / 8;
        // SAFETY: as many entries lie in the landing place.
        let first = unsafe { self.landing.at.add(size_of::<Header>() / 8 + WORDS * from) };
        for i in 0..WORDS * count {
            // SAFETY: likewise. Most are there when the first one is.
            unsafe {
                if first.add(i).read_volatile() == NOTHING {
                    self.arrived(device, first.add(i))?;
                }
            }
        }
        // What is read next was written before what has been seen.
        std::sync::atomic::fence(Ordering::Acquire);
        // SAFETY: they are there, and are not written to again before the next transform.
        Ok(unsafe { std::slice::from_raw_parts(first.cast(), count) })
    }

    /// A word that the kernel writes, which is there sooner than the driver knows that the kernel has ended, and
    /// in no order with the others.
    ///
    /// # Safety
    /// The word must lie in the landing place.
    unsafe fn arrived(&self, device: &Device, at: *const u64) -> Result<u64, Error> {
        let mut tries = 0u32;
        loop {
            // SAFETY: as the caller says.
            let word = unsafe { at.read_volatile() };
            if word != NOTHING {
                return Ok(word);
            }
            std::hint::spin_loop();
            tries += 1;
            if tries.is_multiple_of(4096) {
                // SAFETY: the stream of the device.
                match unsafe { sys::cuStreamQuery(device.stream().cu_stream()) } {
                    sys::CUresult::CUDA_ERROR_NOT_READY => {}
                    // Ended: everything is there, or there is an error.
                    _ => {
                        device.synchronize()?;
                        // SAFETY: as above.
                        if unsafe { at.read_volatile() } == NOTHING {
                            return Err(Error::Device("a result is missing".into()));
                        }
                    }
                }
            }
        }
    }

    /// The header that the kernel writes into the landing place.
    fn arrived_header(&self, device: &Device) -> Result<Header, Error> {
        const WORDS: usize = size_of::<Header>() / 8;
        let mut words = [0u64; WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: the first words of the landing place.
            *word = unsafe { self.arrived(device, self.landing.at.add(i)) }?;
        }
        // SAFETY: plain numbers, of which any bits are some.
        Ok(unsafe { std::mem::transmute::<[u64; WORDS], Header>(words) })
    }

    /// Enqueues the copy of the results.
    fn fetch(&mut self, device: &Device, plan: &Plan, batch: usize) -> Result<(), Error> {
        if self.direct(batch) {
            return Ok(());
        }
        let bytes = self.prefix(plan);
        let stride = self.level.args.out_stride as usize;
        // One signal brings what is expected; of several, the whole is copied where it is small.
        let total = if batch == 1 { bytes } else { stride * batch };
        device.shared.context.bind_to_thread().map_err(failed)?;
        self.landing.reserve(total)?;
        self.blank = false;
        // SAFETY: the landing place has this many words, the buffer on the device as many.
        unsafe {
            let to = std::slice::from_raw_parts_mut(self.landing.at, total / 8);
            result::memcpy_dtoh_async(to, self.level.args.out, device.stream().cu_stream())
        }
        .map_err(failed)
    }

    /// The header of signal i, once its copy has arrived.
    fn header(&self, i: usize) -> Option<Header> {
        let stride = self.level.args.out_stride as usize;
        if self.landing.words * 8 < i * stride + size_of::<Header>() {
            return None;
        }
        // SAFETY: inside the landing place, which is aligned; any bits are a header.
        let mut head = unsafe { *self.landing.at.cast::<u8>().add(i * stride).cast::<Header>() };
        let verdicts = (i * stride + self.level.verdicts()) / 8;
        for word in 0..self.blocks {
            // SAFETY: several signals bring all their words.
            head.hear(unsafe { *self.landing.at.add(verdicts + word) });
        }
        Some(head)
    }

    /// Transforms these signals and waits for the results to be there.
    fn start(
        &mut self,
        device: &Device,
        kernels: &SparseKernels,
        plan: &Plan,
        signals: &[Signal<'_>],
    ) -> Result<(), Error> {
        if self.direct(signals.len()) {
            self.clear(device)?;
        }
        self.launch(device, kernels, signals)?;
        self.tidy();
        self.fetch(device, plan, signals.len())?;
        self.wait(device, signals.len())
    }

    /// Waits for the results of so many signals.
    fn wait(&self, device: &Device, batch: usize) -> Result<(), Error> {
        // Those of kernels that write them to the host are waited for word by word.
        if self.direct(batch) { Ok(()) } else { device.synchronize() }
    }

    /// Transforms these signals and brings the results.
    fn run(
        &mut self,
        device: &Device,
        kernels: &SparseKernels,
        plan: &Plan,
        signals: &[Signal<'_>],
    ) -> Result<Vec<Outcome>, Error> {
        self.start(device, kernels, plan, signals)?;
        (0..signals.len()).map(|i| self.outcome(device, plan, signals.len(), i)).collect()
    }

    /// A copy of the result of signal i of so many.
    fn outcome(
        &mut self,
        device: &Device,
        plan: &Plan,
        batch: usize,
        i: usize,
    ) -> Result<Outcome, Error> {
        let result = self.result(device, plan, batch, i)?;
        // SAFETY: read at once.
        Ok(result.map(|(head, entries)| (head, unsafe { entries.get() }.to_vec())))
    }

    /// The result of signal i of so many, once it is there.
    fn result(
        &mut self,
        device: &Device,
        plan: &Plan,
        batch: usize,
        i: usize,
    ) -> Result<Result<(Header, Entries), Status>, Error> {
        let (stride, prefix) = (self.level.args.out_stride as usize, self.prefix(plan));
        let Some(head) = self.header(i) else {
            return Err(Error::Device("a result is missing".into()));
        };
        self.last = Some(head);
        if head.status() != Status::Explained {
            return Ok(Err(head.status()));
        }
        let known = (head.known as usize).min(self.level.args.capacity as usize);
        let bytes = size_of::<Header>() + known * size_of::<Entry>();
        if batch == 1 && bytes > prefix {
            // More than expected: fetch the whole.
            self.landing.reserve(stride)?;
            // SAFETY: as in `fetch`.
            unsafe {
                let to = std::slice::from_raw_parts_mut(self.landing.at, bytes / 8);
                let stream = device.stream().cu_stream();
                result::memcpy_dtoh_async(to, self.level.args.out, stream)
            }
            .map_err(failed)?;
            device.synchronize()?;
        }
        // SAFETY: inside the landing place, where the entries follow the header.
        let at = unsafe { self.landing.at.cast::<u8>().add(i * stride + size_of::<Header>()) };
        Ok(Ok((head, Entries { at: at.cast(), count: known })))
    }
}

/// Entries in a landing place.
struct Entries {
    at: *const Entry,
    count: usize,
}

impl Entries {
    /// # Safety
    /// The landing place must not be written to or freed while the slice is used.
    unsafe fn get<'a>(&self) -> &'a [Entry] {
        // SAFETY: so many entries lie there.
        unsafe { std::slice::from_raw_parts(self.at, self.count) }
    }
}
