//! NVIDIA GPUs (feature `cuda`).
//!
//! ```no_run
//! use sparsefft::Complex;
//! use sparsefft::cuda::{CudaFft, Device};
//! use sparsefft::dense::Direction;
//!
//! let device = Device::new(0)?;
//! let signal = vec![Complex::new(1.0f64, 0.0); 1 << 20];
//! let mut x = device.upload(&signal)?; // x stays on the GPU between calls
//! CudaFft::new(&device, 1 << 20)?.run(Direction::Forward, &mut x)?;
//! let coefficients = x.download()?;
//! # Ok::<(), sparsefft::Error>(())
//! ```
//!
//! Only the driver is needed (version 550 or newer): the kernels are `.cu` files compiled to PTX
//! ahead of time by `cargo xtask kernels` and embedded; the driver compiles them for its GPU
//! (compute capability 7.0 and up) at their first use and keeps the result on disk. Work is
//! enqueued on one stream per [`Device`]; [`Buffer::download`] waits for it. Without a GPU,
//! [`Device::new`] says why. [`CudaPlan`] is the sparse transform: what its kernels cannot explain
//! goes on in the engine of the CPU, and the report says so.

mod cost;
mod dense;
mod graph;
mod level;
mod signal;
mod sparse;
mod vote;
mod wide;

pub use cost::{GpuCost, predict, worth_opening};
pub use dense::{CudaFft, CudaReal, Layout};
pub use signal::{Format, Pinned, Signal};
pub use sparse::CudaPlan;

use crate::Error;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, sys};
use dense::Kernels;
use num_complex::Complex;
use std::sync::{Arc, OnceLock};

/// A GPU, with a stream for the work and the kernels that have been loaded.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    f32: OnceLock<Result<Arc<Kernels>, Error>>,
    f64: OnceLock<Result<Arc<Kernels>, Error>>,
    sparse: OnceLock<Result<Arc<sparse::SparseKernels>, Error>>,
    vote: OnceLock<Result<Arc<vote::VoteKernels>, Error>>,
    wide: OnceLock<Result<Arc<wide::WideKernels>, Error>>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("ordinal", &self.shared.context.ordinal()).finish()
    }
}

/// Whether a driver is installed and sees a GPU; otherwise why not.
pub fn available() -> Result<u32, Error> {
    // cudarc panics where the driver's library is absent, so ask first.
    // SAFETY: opens the driver's library, whose constructors are safe to run.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Device(
            "the NVIDIA driver (libcuda) is not installed on this machine".into(),
        ));
    }
    let count = cudarc::driver::result::init()
        .and_then(|()| CudaContext::device_count())
        .map_err(|e| Error::Device(format!("the driver sees no GPU: {}", describe(e))))?;
    if count == 0 {
        return Err(Error::Device("the driver sees no GPU".into()));
    }
    Ok(count as u32)
}

/// The number of the GPU that memory belongs to.
///
/// # Errors
/// [`Error::Device`] without a GPU, [`Error::Source`] if the driver does not know the address.
pub fn owner_of(pointer: u64) -> Result<u32, Error> {
    available()?;
    let mut ordinal = -1i32;
    let attribute = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is an int; the driver looks the address up and does not follow it.
    let found =
        unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer) };
    match u32::try_from(ordinal) {
        Ok(ordinal) if found == sys::CUresult::CUDA_SUCCESS => Ok(ordinal),
        _ => Err(Error::Source(format!("{pointer:#x} is no address in the memory of a GPU"))),
    }
}

impl Device {
    /// The GPU with this number, from 0.
    ///
    /// # Errors
    /// [`Error::Device`] if there is no driver, no such GPU, or it cannot be used.
    pub fn new(ordinal: u32) -> Result<Self, Error> {
        let count = available()?;
        if ordinal >= count {
            return Err(Error::Device(format!(
                "there is no GPU number {ordinal}; the driver sees {count}, numbered from 0"
            )));
        }
        let context = CudaContext::new(ordinal as usize).map_err(failed)?;
        let (major, minor) = context.compute_capability().map_err(failed)?;
        if major < 7 {
            return Err(Error::Device(format!(
                "the GPU has compute capability {major}.{minor}; 7.0 or newer is needed"
            )));
        }
        // One stream orders everything, so buffers need no events of their own.
        // SAFETY: no buffer of this context is used on another stream by this module.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(failed)?;
        let (f32, f64, sparse, vote, wide) = Default::default();
        let shared = Shared { context, stream, f32, f64, sparse, vote, wide };
        Ok(Device { shared: Arc::new(shared) })
    }

    /// The GPU's name.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver fails.
    pub fn name(&self) -> Result<String, Error> {
        self.shared.context.name().map_err(failed)
    }

    /// The stream on which everything runs.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.shared.stream
    }

    /// The GPU's number, from 0.
    pub fn ordinal(&self) -> u32 {
        self.shared.context.ordinal() as u32
    }

    /// The stream as the driver knows it, for other libraries.
    pub fn stream_handle(&self) -> u64 {
        self.shared.stream.cu_stream() as u64
    }

    /// Lets all later work wait for what has been enqueued on another stream: a handle of the
    /// driver, 1 for the default stream, or 2 for the default stream of the calling thread.
    ///
    /// # Safety
    /// The handle must be one of these, of this GPU.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver fails.
    pub unsafe fn wait_for(&self, stream: u64) -> Result<(), Error> {
        use cudarc::driver::result::{event, stream::wait_event};
        self.shared.context.bind_to_thread().map_err(failed)?;
        let done = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed)?;
        let none = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: a live event; the caller vouches for the stream. Destroying an event that is
        // still waited for is allowed.
        unsafe {
            let waited = event::record(done, stream as sys::CUstream)
                .and_then(|()| wait_event(self.shared.stream.cu_stream(), done, none));
            let freed = event::destroy(done);
            waited.and(freed).map_err(failed)
        }
    }

    /// Waits for all work that has been enqueued.
    ///
    /// # Errors
    /// [`Error::Device`] if some of that work failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.shared.stream.synchronize().map_err(failed)
    }

    /// Copies values to the GPU.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Device`].
    pub fn upload<T: CudaReal>(&self, values: &[Complex<T>]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.alloc(values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Room for `len` values, which are not set.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Device`].
    pub fn alloc<T: CudaReal>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let parts = self.alloc_parts(2 * len)?;
        Ok(Buffer { device: self.clone(), parts })
    }

    fn alloc_parts<T: cudarc::driver::DeviceRepr>(
        &self,
        len: usize,
    ) -> Result<CudaSlice<T>, Error> {
        // SAFETY: callers write the memory before they read it.
        unsafe { self.shared.stream.alloc::<T>(len.max(1)) }.map_err(|e| {
            if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                let free = self.shared.context.mem_get_info().map_or(0, |(free, _)| free);
                Error::DeviceMemory { bytes: (len * size_of::<T>()) as u64, free: free as u64 }
            } else {
                failed(e)
            }
        })
    }
}

/// Complex values in the memory of a GPU.
pub struct Buffer<T: CudaReal> {
    device: Device,
    /// Real and imaginary parts in turn.
    parts: CudaSlice<T>,
}

impl<T: CudaReal> Buffer<T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.parts.len() / 2
    }

    /// Whether there is room for no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that holds the values.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The real and imaginary parts in turn, for kernels of one's own.
    pub fn parts(&self) -> &CudaSlice<T> {
        &self.parts
    }

    /// Overwrites the values.
    ///
    /// # Errors
    /// [`Error::BufferLength`] if there are more or fewer, [`Error::Device`].
    pub fn write(&mut self, values: &[Complex<T>]) -> Result<(), Error> {
        same_length("values", self.len(), values.len())?;
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: complex values are pairs of their parts, without padding.
        let parts =
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<T>(), 2 * values.len()) };
        self.device.shared.stream.memcpy_htod(parts, &mut self.parts).map_err(failed)
    }

    /// Copies the values back, after all work enqueued so far.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Device`] if the copy or that work failed.
    pub fn download(&self) -> Result<Vec<Complex<T>>, Error> {
        let n = self.len() as u64;
        let mut values = crate::dense::zeroed::<T>(n, n)?;
        self.read(&mut values)?;
        Ok(values)
    }

    /// [`download`](Buffer::download) into a buffer of one's own.
    ///
    /// # Errors
    /// [`Error::BufferLength`] if it has another length, [`Error::Device`].
    pub fn read(&self, values: &mut [Complex<T>]) -> Result<(), Error> {
        same_length("values", self.len(), values.len())?;
        if !values.is_empty() {
            let len = 2 * values.len();
            // SAFETY: complex values are pairs of their parts, without padding.
            let parts =
                unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<T>(), len) };
            self.device.shared.stream.memcpy_dtoh(&self.parts, parts).map_err(failed)?;
        }
        self.device.synchronize()
    }
}

fn same_length(what: &'static str, expected: usize, got: usize) -> Result<(), Error> {
    if expected == got {
        return Ok(());
    }
    Err(Error::BufferLength { what, expected: expected as u64, got: got as u64 })
}

/// The driver's words for an error.
fn describe(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("{error:?}"),
    }
}

fn failed(error: DriverError) -> Error {
    let hint = match error.0 {
        sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "; the driver is too old, version 550 or newer is needed"
        }
        _ => "",
    };
    Error::Device(format!("{}{hint}", describe(error)))
}
