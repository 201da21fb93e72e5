//! Signals for the GPU: in its memory, in pinned host memory, or anywhere by address.
//!
//! A [`Signal`] is also a [`Samples`]: lines that the CPU asks for are gathered by a kernel into a
//! small buffer and copied once, so every algorithm runs on signals that never leave the device.
//! Signals in pinned memory are read in place by both sides.

use super::{Buffer, CudaReal, Device, failed};
use crate::samples::{Line, fill_lines, lines_from, progression_from};
use crate::{Complex, Error, Samples};
use cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg, result, sys};
use std::marker::PhantomData;
use std::sync::Arc;

/// How the samples of a signal are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Pairs of f64.
    ComplexF64,
    /// Pairs of f32.
    ComplexF32,
    /// f64.
    RealF64,
    /// f32.
    RealF32,
}

impl Format {
    /// The number that the kernels know it by.
    pub(super) fn code(self) -> u32 {
        self as u32
    }

    /// Bytes of one sample.
    pub fn bytes(self) -> usize {
        match self {
            Format::ComplexF64 => 16,
            Format::ComplexF32 | Format::RealF64 => 8,
            Format::RealF32 => 4,
        }
    }

    fn real(self) -> bool {
        matches!(self, Format::RealF64 | Format::RealF32)
    }

    /// The format of complex samples of this precision.
    pub(super) fn complex<T: CudaReal>() -> Self {
        if size_of::<T>() == 8 { Format::ComplexF64 } else { Format::ComplexF32 }
    }
}

/// A signal that the GPU can read.
#[derive(Debug, Clone)]
pub struct Signal<'a> {
    device: Device,
    pointer: u64,
    n: u64,
    format: Format,
    /// Where the CPU can read the same samples itself.
    host: Option<*const u8>,
    owner: PhantomData<&'a [u8]>,
}

// SAFETY: the signal is only read, and its owner outlives it.
unsafe impl Send for Signal<'_> {}
// SAFETY: as above.
unsafe impl Sync for Signal<'_> {}

impl<'a> Signal<'a> {
    /// The n samples at a device address: of a kernel of one's own, or of an array of another
    /// library (`__cuda_array_interface__`, DLPack).
    ///
    /// # Safety
    /// The address must be aligned to the size of a sample and hold n samples of this format that
    /// the device can read, for as long as the signal lives. Work of other streams that writes
    /// them must have ended.
    pub unsafe fn from_raw(device: &Device, pointer: u64, n: u64, format: Format) -> Self {
        Signal { device: device.clone(), pointer, n, format, host: None, owner: PhantomData }
    }

    /// The device that reads the signal.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its address on the device.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// How its samples are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Runs the kernel that fetches `count` samples, and copies them into `out`.
    fn gather(
        &self,
        start: u64,
        step: u64,
        lanes: u32,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        const BATCH: usize = 1 << 20;
        let kernels = self.device.sparse_kernels()?;
        let stream = self.device.stream();
        let mut first = start;
        for part in out.chunks_mut(BATCH) {
            let buffer = self.device.alloc::<f64>(part.len())?;
            let (to, _guard) = buffer.parts.device_ptr(stream);
            let (code, count) = (self.format.code(), part.len() as u64);
            let mut launch = stream.launch_builder(&kernels.gather);
            launch.arg(&self.pointer).arg(&code).arg(&self.n).arg(&first).arg(&step);
            launch.arg(&lanes).arg(&count).arg(&to);
            // SAFETY: the buffer holds `count` values; the kernel reads below n, as promised by
            // whoever made the signal.
            unsafe { launch.launch(grid(part.len())) }.map_err(failed)?;
            drop(_guard);
            buffer.read(part)?;
            let lines = part.len() as u64 / u64::from(lanes);
            first = crate::samples::progression(first, step % self.n, lines, self.n);
        }
        Ok(())
    }

    /// The samples as the CPU sees them, by index.
    fn on_host(&self, at: *const u8, i: u64) -> Complex<f64> {
        let i = i as usize;
        // SAFETY: the pinned buffer that the signal was made from holds n samples of this format.
        unsafe {
            match self.format {
                Format::ComplexF64 => *at.cast::<Complex<f64>>().add(i),
                Format::ComplexF32 => {
                    let v = *at.cast::<Complex<f32>>().add(i);
                    Complex::new(v.re.into(), v.im.into())
                }
                Format::RealF64 => Complex::new(*at.cast::<f64>().add(i), 0.0),
                Format::RealF32 => Complex::new((*at.cast::<f32>().add(i)).into(), 0.0),
            }
        }
    }
}

/// Threads for so many values.
fn grid(count: usize) -> LaunchConfig {
    let blocks = (count.div_ceil(256) as u32).clamp(1, 2048);
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}

impl Samples for Signal<'_> {
    fn len(&self) -> u64 {
        self.n
    }

    fn is_real(&self) -> bool {
        self.format.real()
    }

    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        if let Some(at) = self.host {
            for (o, &i) in out.iter_mut().zip(indices) {
                *o = self.on_host(at, i);
            }
            return Ok(());
        }
        const BATCH: usize = 1 << 20;
        let kernels = self.device.sparse_kernels()?;
        let stream = self.device.stream();
        for (indices, out) in indices.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut places = self.device.alloc_parts::<u64>(indices.len())?;
            stream.memcpy_htod(indices, &mut places).map_err(failed)?;
            let buffer = self.device.alloc::<f64>(out.len())?;
            let (to, _to) = buffer.parts.device_ptr(stream);
            let (code, count) = (self.format.code(), out.len() as u64);
            let mut launch = stream.launch_builder(&kernels.pick);
            launch.arg(&self.pointer).arg(&code).arg(&places).arg(&count).arg(&to);
            // SAFETY: both buffers hold `count` values, and all indices are below n.
            unsafe { launch.launch(grid(out.len())) }.map_err(failed)?;
            drop(_to);
            buffer.read(out)?;
        }
        Ok(())
    }

    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        if let Some(at) = self.host {
            lines_from(self.n, start, step, out, |i| self.on_host(at, i), |_| {});
            return Ok(());
        }
        let mut values = vec![Complex::ZERO; 4 * out.len()];
        self.gather(start, step, 4, &mut values)?;
        fill_lines(&values, out);
        Ok(())
    }

    fn read_progression(
        &self,
        start: u64,
        step: u64,
        out: &mut [Complex<f64>],
    ) -> Result<(), Error> {
        if let Some(at) = self.host {
            progression_from(self.n, start, step, out, |i| self.on_host(at, i));
            return Ok(());
        }
        self.gather(start, step, 1, out)
    }

    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.read_progression(start, 1, out)
    }
}

impl<T: CudaReal> Buffer<T> {
    /// All values as one signal.
    pub fn signal(&self) -> Signal<'_> {
        self.signal_at(0, self.len() as u64)
    }

    /// The values as a batch of signals of n samples each; what does not fill a signal is left out.
    pub fn signals(&self, n: u64) -> Vec<Signal<'_>> {
        let count = (self.len() as u64).checked_div(n).unwrap_or(0);
        (0..count).map(|i| self.signal_at(i * n, n)).collect()
    }

    fn signal_at(&self, first: u64, n: u64) -> Signal<'_> {
        let format = Format::complex::<T>();
        let (at, _guard) = self.parts.device_ptr(self.device.stream());
        let pointer = at + first * format.bytes() as u64;
        Signal { device: self.device.clone(), pointer, n, format, host: None, owner: PhantomData }
    }
}

/// Host memory that the GPU reads in place over the bus: only the lines that a transform needs
/// travel.
pub struct Pinned<T: CudaReal> {
    device: Device,
    raw: Arc<Raw>,
    len: usize,
    kind: PhantomData<T>,
}

/// A page-locked allocation.
struct Raw {
    device: Device,
    at: *mut std::ffi::c_void,
}

// SAFETY: an allocation, freed once.
unsafe impl Send for Raw {}
// SAFETY: shared only through the borrows of `Pinned`.
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // A transform that still reads must end first; errors have nowhere to go.
        let _ = self.device.synchronize();
        // SAFETY: allocated by `malloc_host`, freed here alone.
        let _ = unsafe { result::free_host(self.at) };
    }
}

impl Device {
    /// Page-locked host memory for `len` values, all zero.
    ///
    /// # Errors
    /// [`Error::Device`] if the system does not give that much.
    pub fn pinned<T: CudaReal>(&self, len: usize) -> Result<Pinned<T>, Error> {
        self.shared.context.bind_to_thread().map_err(failed)?;
        let bytes = (len * size_of::<Complex<T>>()).max(1);
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: the memory is zeroed before it is used and freed by `Raw`.
        let at = unsafe {
            let at = result::malloc_host(bytes, flags).map_err(failed)?;
            std::ptr::write_bytes(at.cast::<u8>(), 0, bytes);
            at
        };
        let raw = Arc::new(Raw { device: self.clone(), at });
        Ok(Pinned { device: self.clone(), raw, len, kind: PhantomData })
    }
}

impl<T: CudaReal> Pinned<T> {
    /// The values.
    pub fn as_slice(&self) -> &[Complex<T>] {
        // SAFETY: `len` values, zeroed at first, live as long as `raw`.
        unsafe { std::slice::from_raw_parts(self.raw.at.cast(), self.len) }
    }

    /// The values, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [Complex<T>] {
        // SAFETY: as above; no signal borrows the buffer while it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.raw.at.cast(), self.len) }
    }

    /// All values as one signal.
    pub fn signal(&self) -> Signal<'_> {
        Signal {
            device: self.device.clone(),
            // Page-locked memory has one address for both sides.
            pointer: self.raw.at as u64,
            n: self.len as u64,
            format: Format::complex::<T>(),
            host: Some(self.raw.at.cast()),
            owner: PhantomData,
        }
    }
}
