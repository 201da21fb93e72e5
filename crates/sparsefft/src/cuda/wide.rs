//! `exact` for many coefficients by the kernels of `wide.cu`: a chain of short launches that use the
//! whole GPU, and one copy. Lengths 2^m; what the kernels leave goes to those of `sparse.cuh`.
//!
//! Eight shifts tell up to four frequencies of a bin apart. Of k frequencies in B bins,
//! k⁵/(120·B⁴) bins hold five: B is chosen so that few do, and twice as many bins are tried where one
//! does, which part the five in fifteen cases of sixteen.

use super::level::{Entry, Header, Level, Room, Status, put};
use super::signal::Signal;
use super::sparse::Landing;
use super::{Device, failed};
use crate::algorithms::Answer;
use crate::dense::root;
use crate::plan::Prepared;
use crate::problem::Noise;
use crate::stages::certify::upper_quantile;
use crate::{Complex, Error, Samples};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, result, sys};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

/// Threads per block of the kernels, as in `wide.cu`.
const COMB_THREADS: u32 = 512;
const THREADS: u32 = 256;
const OPEN_THREADS: u32 = 256;
/// Blocks that solve bins with three frequencies or more.
const OPEN_BLOCKS: u32 = 264;
/// Most bins of that kind.
const OPENS: usize = 8192;
/// Finds that a cell has room for, as in `wide.cu`.
const SLOTS: usize = 16;
/// Logarithms of the radices R1 and R2 that the kernels are made for.
const FIRST: std::ops::RangeInclusive<u32> = 7..=10;
const SECOND: std::ops::RangeInclusive<u32> = 6..=10;
/// Fewest coefficients, and most bins, as a logarithm.
const LEAST: u64 = 1025;
const MOST_LOG_BINS: u32 = 20;
/// log2 of the least distance of a comb's teeth.
const LEAST_LOG_STEP: u32 = 5;
/// Combs that are tried, each with twice the bins of the one before.
const COMBS: usize = 3;
/// Signals whose results are fetched together.
const TOGETHER: usize = 8;

/// As `struct Wide` in `wide.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Args {
    x: u64,
    n: u64,
    mask: u64,
    inverse: f64,
    tables: u64,
    work: u64,
    out: u64,
    format: u32,
    capacity: u32,
    actives: u32,
    opens: u32,
    sigmas: f64,
    threshold: [f64; 5],
    log_bins: u32,
    log_first: u32,
    step: u64,
    bin: f64,
    roots: u64,
    first_roots: u64,
    second_roots: u64,
    verify_roots: u64,
    verify_first_roots: u64,
    verify_second_roots: u64,
    verify_step: u64,
    verify_back: u64,
    verify_taps: u64,
    verify_series: u64,
    log_n: u32,
    log_verify: u32,
    log_verify_first: u32,
    log_cells: u32,
    verify_reads: u32,
    verify_terms: u32,
    verify_energy: f64,
    verify_leak: f64,
    verify_beta2: f64,
    verify_slope: f64,
    points: u64,
    more: u64,
    folded: u64,
    columns: u64,
    verify: u64,
    energies: u64,
    wides: u64,
    state: u64,
    active: u64,
    active_bins: u64,
    open: u64,
    known: u64,
    cells: u64,
    ordered: u64,
    reached: u64,
    combs: u32,
    folds: u32,
}

/// The kernels, loaded.
pub(super) struct WideKernels {
    /// By the logarithm of their radix, those that the device has the shared memory for.
    comb: Vec<(u32, CudaFunction)>,
    bins: Vec<(u32, CudaFunction)>,
    decode: CudaFunction,
    open: CudaFunction,
    judge: CudaFunction,
    /// Whether they wait for each other themselves.
    early: bool,
}

/// Bytes of shared memory of the kernels with transforms.
fn shared(log: u32, first: bool) -> u32 {
    match (first, log) {
        (true, 10) => 128 << 10,
        (true, _) => 64 << 10,
        (false, 10) => 72 << 10,
        (false, _) => 36 << 10,
    }
}

impl WideKernels {
    fn load(device: &Device) -> Result<Self, Error> {
        use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as SHARED;
        let context = &device.shared.context;
        let hopper = context.compute_capability().map_err(failed)? == (9, 0);
        let image = if hopper {
            Ptx::from_binary(include_bytes!("kernels/wide_90.cubin").to_vec())
        } else {
            Ptx::from_src(include_str!("kernels/wide_70.ptx"))
        };
        let module = context.load_module(image).map_err(failed)?;
        let find = |name: &str| module.load_function(&format!("wide_{name}")).map_err(failed);
        let able = |name: &str, log: u32, bytes: u32| {
            let function = find(&format!("{name}_{log}"))?;
            let able = function.set_attribute(SHARED, bytes as i32).is_ok();
            Ok(able.then_some((log, function)))
        };
        let comb: Result<Vec<_>, Error> =
            FIRST.map(|log| able("comb", log, shared(log, true))).collect();
        let bins: Result<Vec<_>, Error> =
            SECOND.map(|log| able("bins", log, shared(log, false))).collect();
        Ok(WideKernels {
            comb: comb?.into_iter().flatten().collect(),
            bins: bins?.into_iter().flatten().collect(),
            decode: find("decode")?,
            open: find("open")?,
            judge: find("judge")?,
            early: hopper,
        })
    }
}

fn by_log(functions: &[(u32, CudaFunction)], log: u32) -> Option<&CudaFunction> {
    functions.iter().find(|(l, _)| *l == log).map(|(_, f)| f)
}

/// log2 of the bins for k of n coefficients: a bin of five in one transform of three or fewer. Small
/// combs take no less time than one of 2^15 bins.
fn log_bins(k: u64, n: u64) -> u32 {
    let few = |log: &u32| (k as f64).powi(5) / (120.0 * 2f64.powi(4 * *log as i32)) < 0.35;
    let least = (13..=MOST_LOG_BINS).find(few).unwrap_or(MOST_LOG_BINS + 1);
    least.max(15.min(n.ilog2().saturating_sub(LEAST_LOG_STEP)))
}

/// A comb of one size with its tables and buffers on the device.
struct Comb {
    level: Level,
    args: Args,
    /// Blocks with a thread for every coefficient.
    finds: u32,
    _tables: CudaSlice<u8>,
    _work: CudaSlice<u8>,
}

impl Comb {
    /// `None` where the kernels cannot do it.
    fn new(
        device: &Device,
        kernels: &WideKernels,
        plan: &Prepared,
        log: u32,
        attempt: u32,
    ) -> Result<Option<Self>, Error> {
        let n = plan.problem.n;
        let k = plan.problem.k().unwrap_or(0);
        let (log_first, log_second) = (log.div_ceil(2), log / 2);
        let able = log <= MOST_LOG_BINS
            && n.ilog2() >= log + LEAST_LOG_STEP
            && by_log(&kernels.comb, log_first).is_some()
            && by_log(&kernels.bins, log_second).is_some();
        let sigmas = upper_quantile(plan.problem.failure / (4u64 << log) as f64);
        let Some(mut level) = able.then(|| Level::wide(plan, 1 << log, attempt, sigmas)).flatten()
        else {
            return Ok(None);
        };
        let (bins, a) = (1usize << log, level.args);
        let (v, c) = (a.verify, a.comb);
        let log_verify = v.buckets.trailing_zeros();
        if !(10..=18).contains(&log_verify) || !v.buckets.is_power_of_two() {
            return Ok(None);
        }
        let log_verify_first = log_verify.div_ceil(2);
        let log_cells = (u64::BITS - k.leading_zeros()).clamp(12, 17).min(n.trailing_zeros());
        let mut roots = |log: u32| {
            let roots: Vec<Complex<f64>> = (0..1 << log).map(|j| root(j, 1 << log)).collect();
            put(&mut level.tables, &roots)
        };
        let first_roots = roots(log_first);
        let second_roots = roots(log_second);
        let verify_first_roots = roots(log_verify_first);
        let verify_second_roots = roots(log_verify - log_verify_first);
        // A block of the first kernel transforms this many columns.
        let columns = if log_first > 9 { 1 } else { 512 >> log_first };
        let buckets = v.buckets as usize;
        let (capacity, actives) = (a.capacity as usize, bins / 2);
        let cells = (1 << log_cells) + buckets;
        let mut room = Room(0);
        let mut threshold = [0.0; 5];
        threshold.copy_from_slice(&a.threshold[..5]);
        let folds = (4 * v.buckets).div_ceil(COMB_THREADS);
        let combs = (1 << log_second) / columns;
        let mut args = Args {
            x: 0,
            n,
            mask: a.mask,
            inverse: a.inverse,
            tables: 0,
            work: 0,
            out: 0,
            format: 0,
            capacity: a.capacity,
            actives: actives as u32,
            opens: OPENS as u32,
            sigmas: a.sigmas,
            threshold,
            log_bins: log,
            log_first,
            step: c.step,
            bin: c.inverse,
            roots: c.roots,
            first_roots,
            second_roots,
            verify_roots: v.roots,
            verify_first_roots,
            verify_second_roots,
            verify_step: v.step,
            verify_back: v.back,
            verify_taps: v.taps,
            verify_series: v.series,
            log_n: n.trailing_zeros(),
            log_verify,
            log_verify_first,
            log_cells,
            verify_reads: v.reads,
            verify_terms: v.terms,
            verify_energy: v.energy,
            verify_leak: v.leak,
            verify_beta2: v.beta2,
            verify_slope: v.slope,
            points: room.take(64 * bins),
            more: room.take(64 * bins),
            folded: room.take(64 * buckets),
            columns: room.take(64 * buckets),
            verify: room.take(64 * buckets),
            energies: room.take(8 * combs as usize),
            wides: room.take(8 * folds as usize),
            state: room.take(64),
            active: room.take(64 * actives),
            active_bins: room.take(4 * actives),
            open: room.take(4 * OPENS),
            known: room.take(size_of::<Entry>() * capacity),
            cells: room.take(4 * cells),
            ordered: room.take((size_of::<Entry>() * SLOTS) << log_cells),
            reached: room.take(size_of::<Entry>() * SLOTS * buckets),
            combs,
            folds,
        };
        let stream = device.stream();
        let mut tables = device.alloc_parts::<u8>(level.tables.len())?;
        stream.memcpy_htod(&level.tables, &mut tables).map_err(failed)?;
        device.synchronize()?;
        level.tables = Vec::new();
        let work = device.alloc_parts::<u8>(room.0 as usize)?;
        args.tables = tables.device_ptr(stream).0;
        args.work = work.device_ptr(stream).0;
        let finds = (k as u32).div_ceil(THREADS);
        Ok(Some(Comb { level, args, finds, _tables: tables, _work: work }))
    }

    /// Enqueues the transform of a signal.
    fn launch(
        &self,
        device: &Device,
        kernels: &WideKernels,
        signal: &Signal<'_>,
        out: u64,
    ) -> Result<(), Error> {
        let mut args = self.args;
        (args.x, args.format, args.out) = (signal.pointer(), signal.format().code(), out);
        let a = &args;
        let (log_first, log_second) = (a.log_first, a.log_bins - a.log_first);
        let (log_rows, log_columns) = (a.log_verify - a.log_verify_first, a.log_verify_first);
        let (Some(comb), Some(bins)) =
            (by_log(&kernels.comb, log_first), by_log(&kernels.bins, log_second))
        else {
            return Err(Error::Device("a kernel is missing".into()));
        };
        let rows = (1u32 << log_first) / if log_second > 9 { 1 } else { 512 >> log_second };
        let finds = self.finds;
        // Transforms of the verifying buckets, over columns and over rows.
        let verify_columns = (4u32 << log_rows).div_ceil(2048 >> log_columns);
        let verify_rows = (4u32 << log_columns).div_ceil(2048 >> log_rows);
        let stream = device.stream().cu_stream();
        device.shared.context.bind_to_thread().map_err(failed)?;
        let run = |function: &CudaFunction, blocks: u32, threads: u32, bytes: u32, more: u32| {
            let early = kernels.early && !std::ptr::eq(function, comb);
            enqueue(function, stream, [blocks, threads, bytes], early, &args, more)
        };
        run(comb, a.combs + a.folds, COMB_THREADS, shared(log_first, true), 0)?;
        run(bins, rows + verify_columns, THREADS, shared(log_second, false), 0)?;
        run(&kernels.decode, finds + verify_rows, THREADS, 0, finds)?;
        run(&kernels.open, OPEN_BLOCKS, OPEN_THREADS, 0, 0)?;
        let judged = (4u32 << a.log_verify).div_ceil(THREADS);
        let ordering = (1u32 << a.log_cells) / (4 * THREADS);
        run(&kernels.judge, ordering + judged, THREADS, 0, ordering)
    }
}

/// Launches a kernel of so many blocks, threads and bytes of shared memory; `early`: it waits for the
/// one ahead itself, and may come before that has ended.
fn enqueue(
    function: &CudaFunction,
    stream: sys::CUstream,
    [blocks, threads, bytes]: [u32; 3],
    early: bool,
    args: &Args,
    more: u32,
) -> Result<(), Error> {
    use sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION as EARLY;
    let value = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
    let mut attribute = sys::CUlaunchAttribute_st { id: EARLY, pad: Default::default(), value };
    let config = sys::CUlaunchConfig_st {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: bytes,
        hStream: stream,
        attrs: &mut attribute,
        numAttrs: early.into(),
    };
    let mut list = [(&raw const *args).cast_mut().cast(), (&raw const more).cast_mut().cast()];
    // SAFETY: the arguments are laid out as the kernels expect, which take one or both; the buffers
    // are as large as they name, and the signal holds what it promises. The call copies all of it.
    unsafe {
        sys::cuLaunchKernelEx(
            &config,
            function.cu_function(),
            list.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    }
    .result()
    .map_err(failed)
}

/// The combs of a plan: the first, and larger ones where bins stayed open.
pub(super) struct Wide {
    kernels: Arc<WideKernels>,
    combs: Vec<Comb>,
    /// Whether there is no larger one.
    last: bool,
    out: CudaSlice<u8>,
    landing: Landing,
}

/// What came of one signal: an answer and the lines that were read for it, or how it ended.
pub(super) type Outcome = Result<(Answer, u64), Status>;

impl Device {
    fn wide_kernels(&self) -> Result<Arc<WideKernels>, Error> {
        let load = || WideKernels::load(self).map(Arc::new);
        self.shared.wide.get_or_init(load).clone()
    }
}

impl Wide {
    /// For 2^m samples, more coefficients than the quick kernel takes, and no noise that is known
    /// of. `bins` are those to take instead of the usual ones.
    pub(super) fn new(
        device: &Device,
        plan: &Prepared,
        bins: Option<usize>,
    ) -> Result<Option<Self>, Error> {
        let problem = &plan.problem;
        let Some(k) = problem.k().filter(|&k| k >= LEAST) else { return Ok(None) };
        let bins = bins.map_or(log_bins(k, problem.n), |b| b.next_power_of_two().trailing_zeros());
        if !problem.n.is_power_of_two() || matches!(problem.noise, Noise::Snr(_)) {
            return Ok(None);
        }
        let kernels = device.wide_kernels()?;
        let Some(comb) = Comb::new(device, &kernels, plan, bins, 1)? else { return Ok(None) };
        let out = device.alloc_parts::<u8>(TOGETHER * stride(&comb.level))?;
        let landing = Landing::empty();
        Ok(Some(Wide { kernels, combs: vec![comb], last: false, out, landing }))
    }

    /// Enqueues one transform, for timing.
    pub(super) fn enqueue(&self, device: &Device, signals: &[Signal<'_>]) -> Result<(), Error> {
        let (out, _guard) = self.out.device_ptr(device.stream());
        signals.iter().try_for_each(|s| self.combs[0].launch(device, &self.kernels, s, out))
    }

    /// The header of the last transform.
    pub(super) fn last(&self) -> Option<Header> {
        // SAFETY: the landing place starts with a header once anything has arrived.
        (!self.landing.at.is_null()).then(|| unsafe { *self.landing.at.cast::<Header>() })
    }

    /// Transforms signals, one after the other.
    pub(super) fn run(
        &mut self,
        device: &Device,
        plan: &Prepared,
        signals: &[Signal<'_>],
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::with_capacity(signals.len());
        for part in signals.chunks(TOGETHER) {
            self.run_with(device, plan, 0, part, &mut outcomes)?;
        }
        for (signal, outcome) in signals.iter().zip(&mut outcomes) {
            for which in 1..COMBS {
                if !matches!(outcome, Err(Status::Left(_) | Status::Blind(_)))
                    || !self.grow(device, plan, which)?
                {
                    break;
                }
                let mut again = Vec::new();
                self.run_with(device, plan, which, std::slice::from_ref(signal), &mut again)?;
                if let Some(next) = again.pop() {
                    *outcome = next;
                }
            }
        }
        Ok(outcomes)
    }

    /// Makes comb number `which`, if there can be one.
    fn grow(&mut self, device: &Device, plan: &Prepared, which: usize) -> Result<bool, Error> {
        if self.combs.len() == which && !self.last {
            let log = self.combs[0].args.log_bins + which as u32;
            let comb = Comb::new(device, &self.kernels, plan, log, which as u32 + 1)?;
            self.last = comb.is_none();
            self.combs.extend(comb);
        }
        Ok(self.combs.len() > which)
    }

    fn run_with(
        &mut self,
        device: &Device,
        plan: &Prepared,
        which: usize,
        signals: &[Signal<'_>],
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), Error> {
        let comb = &self.combs[which];
        let (stride, stream) = (stride(&comb.level), device.stream());
        let (out, _guard) = self.out.device_ptr(stream);
        let expected = comb.level.expected(plan.problem.k());
        let bytes = size_of::<Header>() + expected * size_of::<Entry>();
        device.shared.context.bind_to_thread().map_err(failed)?;
        self.landing.reserve(TOGETHER * stride)?;
        for (i, signal) in signals.iter().enumerate() {
            comb.launch(device, &self.kernels, signal, out + (i * stride) as u64)?;
            // SAFETY: both places have room for so many results.
            unsafe {
                let to = self.landing.at.cast::<u8>().add(i * stride);
                let to = std::slice::from_raw_parts_mut(to, bytes);
                let from = out + (i * stride) as u64;
                result::memcpy_dtoh_async(to, from, stream.cu_stream()).map_err(failed)?;
            }
        }
        device.synchronize()?;
        for (i, signal) in signals.iter().enumerate() {
            // SAFETY: the copies have arrived; any bits are a header.
            let at = unsafe { self.landing.at.cast::<u8>().add(i * stride) };
            // SAFETY: as above.
            let head = unsafe { *at.cast::<Header>() };
            if head.status() != Status::Explained {
                outcomes.push(Err(head.status()));
                continue;
            }
            let known = (head.known as usize).min(expected);
            if known < head.known as usize {
                outcomes.push(Err(Status::Left("there were more coefficients than expected")));
                continue;
            }
            // SAFETY: the entries follow the header and have been copied.
            let entries = unsafe {
                std::slice::from_raw_parts(at.add(size_of::<Header>()).cast::<Entry>(), known)
            };
            let attempts = which as u32 + 1;
            let answer =
                comb.level.answer(plan, &head, entries.iter().copied(), signal.is_real(), attempts);
            outcomes.push(answer.map(|a| (a, head.lines_read)).map_err(Status::Left));
        }
        Ok(())
    }
}

/// Bytes of one result on the device, the same for all combs of a plan.
fn stride(level: &Level) -> usize {
    (size_of::<Header>() + level.args.capacity as usize * size_of::<Entry>()).next_multiple_of(256)
}
