//! Dense transforms on the GPU: 2^8 … 2^30 points in one to three passes over memory, other
//! lengths by Bluestein's algorithm.
//!
//! The passes are described in `kernels/dense_fft.cu`. Data go data → scratch → data, and the last
//! of three passes works in place, so one extra buffer is enough.

use super::{Buffer, Device, failed};
use crate::Error;
use crate::dense::{Direction, Real, Roots, narrow, root};
use crate::spectrum::{Norm, Peak};
use cudarc::driver::{
    CudaFunction, CudaModule, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
    ValidAsZeroBits, sys,
};
use cudarc::nvrtc::Ptx;
use num_complex::Complex;
use std::sync::{Arc, Mutex, OnceLock};

/// f32 or f64 on the GPU.
pub trait CudaReal: Real + DeviceRepr + ValidAsZeroBits {
    #[doc(hidden)]
    const PTX: &'static str;
    #[doc(hidden)]
    const LAYOUT: Layout;
    #[doc(hidden)]
    fn kernels(device: &Device) -> &OnceLock<Result<Arc<Kernels>, Error>>;
}

/// Points per thread and columns per block of the radices 2^6 … 2^10, as logarithms; the same
/// table as in `dense_fft.cu`.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub points: [u32; 5],
    pub columns: [u32; 5],
}

impl CudaReal for f32 {
    const PTX: &'static str = include_str!("kernels/dense_f32.ptx");
    const LAYOUT: Layout = Layout { points: [3, 3, 3, 4, 4], columns: [4, 4, 4, 4, 3] };
    fn kernels(device: &Device) -> &OnceLock<Result<Arc<Kernels>, Error>> {
        &device.shared.f32
    }
}

impl CudaReal for f64 {
    const PTX: &'static str = include_str!("kernels/dense_f64.ptx");
    const LAYOUT: Layout = Layout { points: [3, 3, 3, 3, 4], columns: [3, 3, 3, 3, 2] };
    fn kernels(device: &Device) -> &OnceLock<Result<Arc<Kernels>, Error>> {
        &device.shared.f64
    }
}

/// The kernels of one precision, loaded.
#[doc(hidden)]
pub struct Kernels {
    module: Arc<CudaModule>,
    layout: Layout,
}

impl Kernels {
    fn load(device: &Device, ptx: &str, layout: Layout) -> Result<Arc<Self>, Error> {
        let module = device.shared.context.load_module(Ptx::from_src(ptx)).map_err(failed)?;
        Ok(Arc::new(Kernels { module, layout }))
    }

    fn function(&self, name: &str) -> Result<CudaFunction, Error> {
        self.module.load_function(name).map_err(failed)
    }
}

/// The argument of the kernels; laid out as `struct Pass` in `dense_fft.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pass<T> {
    input: u64,
    output: u64,
    roots: u64,
    high: u64,
    low: u64,
    shift: u32,
    log_n: u32,
    log_s: u32,
    batch: u32,
    in_im: T,
    out_re: T,
    out_im: T,
}

// SAFETY: plain data with the layout that the kernels expect.
unsafe impl<T: CudaReal> DeviceRepr for Pass<T> {}

/// One pass of a plan.
struct Step<T: CudaReal> {
    function: CudaFunction,
    roots: CudaSlice<T>,
    log_s: u32,
    /// Threads per block, and signals or columns per block as a logarithm.
    threads: u32,
    log_columns: u32,
    shared: u32,
    whole: bool,
    log_radix: u32,
}

/// A power of two.
struct PowerOfTwo<T: CudaReal> {
    log_n: u32,
    steps: Vec<Step<T>>,
    shift: u32,
    high: CudaSlice<T>,
    low: CudaSlice<T>,
}

/// Another length: chirp, the transform of its conjugate over m points, and that transform.
struct Chirp<T: CudaReal> {
    inner: PowerOfTwo<T>,
    chirp: CudaSlice<T>,
    response: CudaSlice<T>,
    chirp_in: CudaFunction,
    multiply: CudaFunction,
    chirp_out: CudaFunction,
}

enum Way<T: CudaReal> {
    PowerOfTwo(PowerOfTwo<T>),
    Chirp(Box<Chirp<T>>),
}

/// A dense transform of n values on the GPU, planned.
pub struct CudaFft<T: CudaReal> {
    device: Device,
    n: u64,
    norm: Norm,
    way: Way<T>,
    kernels: Arc<Kernels>,
    scratch: Mutex<Option<CudaSlice<T>>>,
}

/// The longest transform.
const LONGEST: u64 = 1 << 30;

/// Batches are cut so that the scratch buffer has at most this many values, or one signal.
const SCRATCH: u64 = 1 << 24;

/// Rows that a grid may have.
const MOST_ROWS: u64 = 65_535;

/// The radices of the passes, as logarithms: one pass in shared memory up to 2^12, two up to 2^20,
/// three up to 2^30, as equal as possible.
fn radices(log_n: u32) -> Vec<u32> {
    let passes = match log_n {
        0..=12 => 1,
        13..=20 => 2,
        _ => 3,
    };
    (0..passes).map(|i| (log_n + passes - 1 - i) / passes).collect()
}

impl<T: CudaReal> std::fmt::Debug for CudaFft<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaFft").field("n", &self.n).field("precision", &T::NAME).finish()
    }
}

impl<T: CudaReal> CudaFft<T> {
    /// Plans transforms of n values.
    ///
    /// # Errors
    /// [`Error::ZeroLength`]; [`Error::LengthTooLarge`] beyond 2^30, or 2^29 if n is no power of
    /// two; [`Error::DeviceMemory`] or [`Error::Device`] if the tables or kernels cannot be had.
    pub fn new(device: &Device, n: u64) -> Result<Self, Error> {
        let load = || Kernels::load(device, T::PTX, T::LAYOUT);
        let kernels = T::kernels(device).get_or_init(load).clone()?;
        Self::with_kernels(device, n, kernels, None)
    }

    /// A plan with kernels compiled otherwise and radices chosen by hand, for measurements.
    #[doc(hidden)]
    pub fn tuned(
        device: &Device,
        n: u64,
        ptx: &str,
        layout: Layout,
        radices: Option<&[u32]>,
    ) -> Result<Self, Error> {
        Self::with_kernels(device, n, Kernels::load(device, ptx, layout)?, radices)
    }

    /// The same kernels with other radices, for measurements.
    #[doc(hidden)]
    pub fn with_radices(&self, n: u64, radices: Option<&[u32]>) -> Result<Self, Error> {
        Self::with_kernels(&self.device, n, self.kernels.clone(), radices)
    }

    fn with_kernels(
        device: &Device,
        n: u64,
        kernels: Arc<Kernels>,
        chosen: Option<&[u32]>,
    ) -> Result<Self, Error> {
        if n == 0 {
            return Err(Error::ZeroLength);
        }
        let power = n.is_power_of_two();
        let max = if power { LONGEST } else { LONGEST / 2 };
        if n > max {
            return Err(Error::LengthTooLarge { n, max });
        }
        let way = if power && n >= 256 {
            let radices = chosen.map_or_else(|| radices(n.ilog2()), <[u32]>::to_vec);
            Way::PowerOfTwo(PowerOfTwo::new(device, &kernels, n.ilog2(), &radices)?)
        } else {
            Way::Chirp(Box::new(Chirp::new(device, &kernels, n)?))
        };
        let (device, scratch) = (device.clone(), Mutex::new(None));
        Ok(CudaFft { device, n, norm: Norm::Backward, way, kernels, scratch })
    }

    /// The same plan with another place for the factor 1/n.
    pub fn norm(mut self, norm: Norm) -> Self {
        self.norm = norm;
        self
    }

    /// n.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Enqueues the transform of one or more signals of n values each, in place.
    ///
    /// # Errors
    /// [`Error::NotAMultiple`] if the buffer is no whole number of signals,
    /// [`Error::DeviceMemory`] if the extra buffer cannot be had, [`Error::Device`].
    pub fn run(&self, direction: Direction, data: &mut Buffer<T>) -> Result<(), Error> {
        let got = data.len() as u64;
        if !got.is_multiple_of(self.n) {
            return Err(Error::NotAMultiple { n: self.n, got });
        }
        let batch = got / self.n;
        let (start, _guard) = data.parts.device_ptr(self.device.stream());
        let scale = self.norm.factor(self.n, direction);
        let signal = self.n * size_of::<Complex<T>>() as u64;
        match &self.way {
            Way::PowerOfTwo(plan) => {
                let group = if plan.steps.len() == 1 {
                    u64::from(u32::MAX >> 1)
                } else {
                    (SCRATCH / self.n).max(1)
                };
                let most = group.min(batch);
                let scratch = if plan.steps.len() > 1 { most * self.n } else { 0 };
                self.with_scratch(scratch, |scratch| {
                    let mut first = 0;
                    while first < batch {
                        let count = group.min(batch - first);
                        let at = start + first * signal;
                        plan.run(&self.device, at, scratch, count as u32, direction, scale)?;
                        first += count;
                    }
                    Ok(())
                })
            }
            Way::Chirp(plan) => {
                let m = 1u64 << plan.inner.log_n;
                let group = (SCRATCH / m).clamp(1, MOST_ROWS);
                self.with_scratch(2 * m * group.min(batch), |scratch| {
                    let mut first = 0;
                    while first < batch {
                        let count = group.min(batch - first);
                        let at = start + first * signal;
                        let rows = count as u32;
                        plan.run(&self.device, at, scratch, self.n, rows, direction, scale)?;
                        first += count;
                    }
                    Ok(())
                })
            }
        }
    }

    /// Transforms values in host memory, in place.
    ///
    /// # Errors
    /// As [`run`](CudaFft::run).
    pub fn run_host(&self, direction: Direction, data: &mut [Complex<T>]) -> Result<(), Error> {
        if !(data.len() as u64).is_multiple_of(self.n) {
            return Err(Error::NotAMultiple { n: self.n, got: data.len() as u64 });
        }
        let mut buffer = self.device.upload(data)?;
        self.run(direction, &mut buffer)?;
        buffer.read(data)
    }

    /// Runs `work` with the address of a scratch buffer of that many values, which stays with the
    /// plan. The stream orders its users.
    fn with_scratch(
        &self,
        values: u64,
        work: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut slot = self.scratch.lock().unwrap_or_else(|e| e.into_inner());
        let need = 2 * values as usize;
        if slot.as_ref().is_none_or(|s| s.len() < need) {
            *slot = None;
            *slot = Some(self.device.alloc_parts::<T>(need)?);
        }
        let Some(scratch) = slot.as_ref() else { return Ok(()) };
        let (start, _guard) = scratch.device_ptr(self.device.stream());
        work(start)
    }

    /// The k values of largest magnitude in a buffer, largest first, ties by index; nothing is
    /// sorted on the GPU and only about k values come back.
    ///
    /// # Errors
    /// As [`top_k`](crate::dense::top_k), and [`Error::Device`].
    pub fn top_k(&self, values: &Buffer<T>, k: usize) -> Result<Vec<Peak>, Error> {
        let n = values.len();
        if k > n {
            return Err(Error::SparsityTooLarge { k: k as u64, n: n as u64 });
        }
        if k == 0 {
            return Ok(Vec::new());
        }
        const BINS: usize = 4096;
        // |X|² as f32: the bins from here on are infinite or no number.
        const INFINITE: usize = 0x7f80_0000 >> 19;
        let stream = self.device.stream();
        let histogram = self.kernels.function("histogram")?;
        let collect = self.kernels.function("collect")?;
        let grid = (n.div_ceil(256 * 8)).clamp(1, 1024) as u32;
        let config =
            LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        let len = n as u64;
        let mut choice = None;
        // Squares must be neither infinite nor zero in f32; another scale is tried if they are.
        for exponent in [0, -60, 60, -120, 120, -240, 240, -480, 480] {
            let scale = T::of(2f64.powi(exponent));
            if !(scale.wide() > 0.0 && scale.wide().is_finite()) {
                continue;
            }
            let mut counts = stream.alloc_zeros::<u32>(BINS).map_err(failed)?;
            let mut launch = stream.launch_builder(&histogram);
            launch.arg(&values.parts).arg(&len).arg(&scale).arg(&mut counts);
            // SAFETY: the buffer has n values and the histogram 4096 bins.
            unsafe { launch.launch(config) }.map_err(failed)?;
            let counts = stream.clone_dtoh(&counts).map_err(failed)?;
            self.device.synchronize()?;
            let infinite = counts[INFINITE..].iter().any(|&c| c > 0);
            let (mut total, mut lowest) = (0u64, BINS);
            while total < k as u64 && lowest > 0 {
                lowest -= 1;
                total += u64::from(counts[lowest]);
            }
            if choice.is_none() || (!infinite && lowest > 0) {
                choice = Some((scale, lowest as u32, total as u32));
            }
            if !infinite && lowest > 0 {
                break;
            }
        }
        let Some((scale, lowest, room)) = choice else { return Ok(Vec::new()) };
        let mut count = stream.alloc_zeros::<u32>(1).map_err(failed)?;
        let mut indices = self.device.alloc_parts::<u64>(room as usize)?;
        let mut found = self.device.alloc::<T>(room as usize)?;
        let mut launch = stream.launch_builder(&collect);
        launch.arg(&values.parts).arg(&len).arg(&scale).arg(&lowest).arg(&room);
        launch.arg(&mut count).arg(&mut indices).arg(&mut found.parts);
        // SAFETY: the buffer has n values, and what is found has room for `room` of them.
        unsafe { launch.launch(config) }.map_err(failed)?;
        let indices = stream.clone_dtoh(&indices).map_err(failed)?;
        let found = found.download()?;
        // The order of arrival is the GPU's; the order of the answer is not.
        let mut order: Vec<usize> = (0..room as usize).collect();
        order.sort_unstable_by_key(|&i| indices[i]);
        let sorted: Vec<_> = order.iter().map(|&i| found[i]).collect();
        let mut peaks = crate::dense::top_k(&sorted, k)?;
        for peak in &mut peaks {
            peak.index = indices[order[peak.index as usize]];
        }
        Ok(peaks)
    }
}

/// A table of complex values on the GPU.
fn table<T: CudaReal>(
    device: &Device,
    len: u64,
    value: impl Fn(u64) -> Complex<f64>,
) -> Result<CudaSlice<T>, Error> {
    let values: Vec<Complex<T>> = (0..len).map(|i| narrow(value(i))).collect();
    Ok(device.upload(&values)?.parts)
}

impl<T: CudaReal> PowerOfTwo<T> {
    fn new(device: &Device, kernels: &Kernels, log_n: u32, radices: &[u32]) -> Result<Self, Error> {
        assert_eq!(radices.iter().sum::<u32>(), log_n);
        let value = size_of::<Complex<T>>() as u32;
        let mut steps = Vec::new();
        let mut log_s = 0;
        for &log_radix in radices {
            let radix = 1u32 << log_radix;
            let (name, threads, log_columns, shared) = if radices.len() == 1 {
                // Signals per block, as in the kernels; a padding value per 128 bytes.
                let log_signals = 11u32.saturating_sub(log_radix).min(3);
                let shared = (radix + radix * value / 128) << log_signals;
                (format!("whole_{log_radix}"), radix >> 3 << log_signals, log_signals, shared)
            } else {
                let points = kernels.layout.points[log_radix as usize - 6];
                let columns = kernels.layout.columns[log_radix as usize - 6];
                let threads = 1 << (log_radix - points + columns);
                let (kind, shared) = if log_s == 0 {
                    ("first", (radix + 1) << columns)
                } else {
                    ("rest", radix << columns)
                };
                (format!("{kind}_{log_radix}"), threads, columns, shared)
            };
            let function = kernels.function(&name)?;
            let shared = shared * value;
            if shared > 48 << 10 {
                use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as MOST;
                function.set_attribute(MOST, shared as i32).map_err(failed)?;
            }
            let roots = table(device, u64::from(radix), |j| root(j, u64::from(radix)))?;
            let whole = radices.len() == 1;
            steps.push(Step {
                function,
                roots,
                log_s,
                threads,
                log_columns,
                shared,
                whole,
                log_radix,
            });
            log_s += log_radix;
        }
        let n = 1u64 << log_n;
        let shift = log_n.div_ceil(2);
        let low = table(device, 1 << shift, |j| root(j, n))?;
        let high = table(device, n >> shift, |j| root(j << shift, n))?;
        Ok(PowerOfTwo { log_n, steps, shift, high, low })
    }

    /// Enqueues the passes for `batch` signals at this address.
    fn run(
        &self,
        device: &Device,
        data: u64,
        scratch: u64,
        batch: u32,
        direction: Direction,
        scale: f64,
    ) -> Result<(), Error> {
        let stream = device.stream();
        let back = direction == Direction::Inverse;
        let (high, _high) = self.high.device_ptr(stream);
        let (low, _low) = self.low.device_ptr(stream);
        for (i, step) in self.steps.iter().enumerate() {
            let (roots, _roots) = step.roots.device_ptr(stream);
            let (first, last) = (i == 0, i + 1 == self.steps.len());
            let sign = |flip: bool| if flip && back { -1.0 } else { 1.0 };
            let factor = if last { scale } else { 1.0 };
            let pass = Pass::<T> {
                input: if i == 1 { scratch } else { data },
                output: if first && !last { scratch } else { data },
                roots,
                high,
                low,
                shift: self.shift,
                log_n: self.log_n,
                log_s: step.log_s,
                batch,
                in_im: T::of(sign(first)),
                out_re: T::of(factor),
                out_im: T::of(factor * sign(last)),
            };
            let blocks = if step.whole {
                batch.div_ceil(1 << step.log_columns)
            } else {
                batch << (self.log_n - step.log_radix - step.log_columns)
            };
            let config = LaunchConfig {
                grid_dim: (blocks, 1, 1),
                block_dim: (step.threads, 1, 1),
                shared_mem_bytes: step.shared,
            };
            // SAFETY: the argument has the layout of `struct Pass`; data and scratch hold `batch`
            // signals; the grid covers them exactly.
            unsafe { stream.launch_builder(&step.function).arg(&pass).launch(config) }
                .map_err(failed)?;
        }
        Ok(())
    }
}

impl<T: CudaReal> Chirp<T> {
    fn new(device: &Device, kernels: &Kernels, n: u64) -> Result<Self, Error> {
        let m = (2 * n - 1).next_power_of_two().max(256);
        let log_m = m.ilog2();
        let inner = PowerOfTwo::new(device, kernels, log_m, &radices(log_m))?;
        let roots = Roots::new(2 * n);
        let c = |t: u64| roots.get((t as u128 * t as u128 % (2 * n as u128)) as u64);
        let chirp = table(device, n, c)?;
        let far = |t: u64| if t < n { Some(t) } else { Some(m - t).filter(|&s| s < n) };
        let response =
            table::<T>(device, m, |t| far(t).map_or(Complex::ZERO, |s| c(s).conj() / m as f64))?;
        let plan = Chirp {
            inner,
            chirp,
            response,
            chirp_in: kernels.function("chirp_in")?,
            multiply: kernels.function("multiply")?,
            chirp_out: kernels.function("chirp_out")?,
        };
        let scratch = device.alloc::<T>(m as usize)?;
        let stream = device.stream();
        let (to, _to) = scratch.parts.device_ptr(stream);
        let (at, _at) = plan.response.device_ptr(stream);
        plan.inner.run(device, at, to, 1, Direction::Forward, 1.0)?;
        device.synchronize()?;
        drop((_to, _at));
        Ok(plan)
    }

    /// Enqueues the transforms of `batch` signals at this address; `scratch` has room for 2·m values
    /// of each.
    #[allow(clippy::too_many_arguments)] // one place, two callers
    fn run(
        &self,
        device: &Device,
        data: u64,
        scratch: u64,
        n: u64,
        batch: u32,
        direction: Direction,
        scale: f64,
    ) -> Result<(), Error> {
        let stream = device.stream();
        let m = 1u64 << self.inner.log_n;
        let other = scratch + u64::from(batch) * m * size_of::<Complex<T>>() as u64;
        let sign = if direction == Direction::Inverse { -1.0 } else { 1.0 };
        let config = |count: u64| LaunchConfig {
            grid_dim: (count.div_ceil(256) as u32, batch, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        let (in_im, out_re, out_im) = (T::of(sign), T::of(scale), T::of(scale * sign));
        let mut launch = stream.launch_builder(&self.chirp_in);
        launch.arg(&data).arg(&self.chirp).arg(&scratch).arg(&n).arg(&m).arg(&in_im);
        // SAFETY: each signal and the chirp have n values, the scratch buffer m for each signal.
        unsafe { launch.launch(config(m)) }.map_err(failed)?;
        self.inner.run(device, scratch, other, batch, Direction::Forward, 1.0)?;
        let mut launch = stream.launch_builder(&self.multiply);
        launch.arg(&scratch).arg(&self.response).arg(&m);
        // SAFETY: the response has m values, and so has the scratch buffer for each signal.
        unsafe { launch.launch(config(m)) }.map_err(failed)?;
        self.inner.run(device, scratch, other, batch, Direction::Inverse, 1.0)?;
        let mut launch = stream.launch_builder(&self.chirp_out);
        launch.arg(&scratch).arg(&self.chirp).arg(&data).arg(&n).arg(&m);
        launch.arg(&out_re).arg(&out_im);
        // SAFETY: as for the first.
        unsafe { launch.launch(config(n)) }.map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radices_multiply_to_n_and_have_kernels() {
        for log_n in 8..=30 {
            let r = radices(log_n);
            assert_eq!(r.iter().sum::<u32>(), log_n);
            match r.len() {
                1 => assert!((8..=12).contains(&r[0])),
                _ => assert!(r.iter().all(|b| (6..=10).contains(b)), "{r:?}"),
            }
        }
    }
}
