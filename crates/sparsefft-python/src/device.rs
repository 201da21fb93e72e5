//! Arrays in CUDA memory, read where they lie.
//!
//! An array comes by DLPack (`__dlpack__`) or by `__cuda_array_interface__`. DLPack is asked first,
//! since its producer lets our stream wait for the work that still writes the array; of the other
//! we wait for the stream that it names, or for the default stream. A transform ends before its
//! call returns, so the array may be changed afterwards.

use crate::error::exception;
use crate::run::forks;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use sparsefft::Error;
use sparsefft::cuda::{Device, Format, Signal, owner_of};
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// The GPUs in use, each with the fork of the process that opened it.
static DEVICES: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());

/// DLPack's number of CUDA memory, and of CUDA managed memory.
const CUDA: [i32; 2] = [2, 13];

/// Why no GPU can be used, or nothing if one can.
pub fn unusable() -> Option<String> {
    let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if devices.iter().any(|(fork, _)| *fork != forks()) {
        return Some(
            "a forked child cannot use the GPU that its parent opened; start processes with the \
             method 'spawn', or open the GPU in the child alone"
                .into(),
        );
    }
    sparsefft::cuda::available().err().map(|e| e.to_string())
}

/// The GPU with this number, opened once.
pub fn open(ordinal: u32) -> PyResult<Device> {
    if let Some(why) = unusable() {
        return Err(PyRuntimeError::new_err(why));
    }
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, device)) = devices.iter().find(|(_, d)| d.ordinal() == ordinal) {
        return Ok(device.clone());
    }
    let device = Device::new(ordinal).map_err(|e| exception(e, "device"))?;
    devices.push((forks(), device.clone()));
    Ok(device)
}

/// An array in CUDA memory.
#[pyclass(frozen, module = "sparsefft._native")]
pub struct DeviceArray {
    device: Device,
    pointer: u64,
    #[pyo3(get)]
    shape: Vec<usize>,
    /// Distances in bytes.
    strides: Vec<i64>,
    pub format: Format,
    /// Keeps the memory: the array, or DLPack's capsule, which frees its tensor when it goes.
    _owner: Py<PyAny>,
}

#[pymethods]
impl DeviceArray {
    /// Of an object that gives its memory away; `ordinal` is the GPU that was asked for.
    #[new]
    fn new(x: &Bound<'_, PyAny>, ordinal: Option<u32>) -> PyResult<Self> {
        let array = match dlpack_device(x)? {
            Some(at) => Self::from_dlpack(x, at)?,
            None => Self::from_interface(x)?,
        };
        if let Some(asked) = ordinal.filter(|o| *o != array.device.ordinal()) {
            return Err(PyValueError::new_err(format!(
                "device = 'cuda:{asked}', but x lies on cuda:{}; copy it there first, or use \
                 device='auto'",
                array.device.ordinal()
            )));
        }
        Ok(array)
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }
}

/// The number of the GPU that an object names by DLPack, if it does.
fn dlpack_device(x: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    if !x.hasattr("__dlpack_device__")? || !x.hasattr("__dlpack__")? {
        return Ok(None);
    }
    let (kind, ordinal): (i32, u32) = x.call_method0("__dlpack_device__")?.extract()?;
    Ok(CUDA.contains(&kind).then_some(ordinal))
}

/// As in dlpack.h, up to the fields that are read.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

impl DeviceArray {
    fn from_dlpack(x: &Bound<'_, PyAny>, ordinal: u32) -> PyResult<Self> {
        let device = open(ordinal)?;
        let options = PyDict::new(x.py());
        options.set_item("stream", device.stream_handle())?;
        let capsule = x.call_method("__dlpack__", (), Some(&options))?;
        let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
            PyTypeError::new_err("x: __dlpack__ gave no capsule, as DLPack asks for")
        })?;
        const NAME: &std::ffi::CStr = c"dltensor";
        let refused =
            || PyTypeError::new_err("x: __dlpack__ gave no tensor that is still to be taken");
        let name: *const c_char = NAME.as_ptr();
        // SAFETY: a live capsule and a name that ends with a zero.
        if unsafe { pyo3::ffi::PyCapsule_IsValid(capsule.as_ptr(), name) } == 0 {
            return Err(refused());
        }
        // SAFETY: as above; the name was checked.
        let tensor = unsafe { pyo3::ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) };
        if tensor.is_null() {
            return Err(refused());
        }
        // SAFETY: a capsule of this name holds a DLManagedTensor, which begins with the tensor.
        let t = unsafe { &*tensor.cast::<Tensor>() };
        let format = match (t.code, t.bits, t.lanes) {
            (2, 64, 1) => Some(Format::RealF64),
            (2, 32, 1) => Some(Format::RealF32),
            (5, 128, 1) => Some(Format::ComplexF64),
            (5, 64, 1) => Some(Format::ComplexF32),
            _ => None,
        };
        let format = format.ok_or_else(|| {
            wrong_type(&x.getattr("dtype").map_or_else(
                |_| format!("DLPack's {} of {} bits", t.code, t.bits),
                |d| d.to_string(),
            ))
        })?;
        let ndim = t.ndim.max(0) as usize;
        let list = |at: *const i64| {
            // SAFETY: a list of a DLPack tensor has one number per dimension.
            if ndim == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(at, ndim) } }
        };
        let shape: Vec<usize> = list(t.shape).iter().map(|&s| s.max(0) as usize).collect();
        let bytes = format.bytes() as i64;
        let strides = if t.strides.is_null() {
            packed(&shape, bytes)
        } else {
            list(t.strides).iter().map(|s| s.wrapping_mul(bytes)).collect()
        };
        let pointer = (t.data as u64).wrapping_add(t.byte_offset);
        let owner = capsule.into_any().unbind();
        DeviceArray { device, pointer, shape, strides, format, _owner: owner }.checked()
    }

    fn from_interface(x: &Bound<'_, PyAny>) -> PyResult<Self> {
        let malformed = |what: &str| {
            PyTypeError::new_err(format!("x: its __cuda_array_interface__ has no usable '{what}'"))
        };
        let interface = x.getattr("__cuda_array_interface__")?;
        let interface = interface.cast::<PyDict>().map_err(|_| malformed("dictionary"))?;
        let field = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(interface.get_item(name)?.filter(|v| !v.is_none()))
        };
        let needed = |name: &str| field(name)?.ok_or_else(|| malformed(name));
        let shape: Vec<usize> = needed("shape")?.extract().map_err(|_| malformed("shape"))?;
        let (pointer, _): (u64, bool) = needed("data")?.extract().map_err(|_| malformed("data"))?;
        let kind: String = needed("typestr")?.extract().map_err(|_| malformed("typestr"))?;
        let format = match kind.as_str() {
            "<f8" => Format::RealF64,
            "<f4" => Format::RealF32,
            "<c16" => Format::ComplexF64,
            "<c8" => Format::ComplexF32,
            other => return Err(wrong_type(other)),
        };
        if field("mask")?.is_some() {
            return Err(PyTypeError::new_err("x has a mask, which is not supported on a GPU"));
        }
        let strides = match field("strides")? {
            Some(s) => s.extract().map_err(|_| malformed("strides"))?,
            None => packed(&shape, format.bytes() as i64),
        };
        if strides.len() != shape.len() {
            return Err(malformed("strides"));
        }
        // Version 3 says None where nothing is to be waited for.
        let version: u32 = needed("version")?.extract().map_err(|_| malformed("version"))?;
        let stream = match field("stream")? {
            Some(s) => Some(s.extract::<u64>().map_err(|_| malformed("stream"))?),
            None if version < 3 => Some(1),
            None => None,
        };
        if stream == Some(0) {
            return Err(malformed("stream"));
        }
        let ordinal = owner(pointer)?;
        let device = open(ordinal)?;
        if let Some(stream) = stream {
            // SAFETY: the interface promises a stream of the array's device.
            unsafe { device.wait_for(stream) }.map_err(|e| exception(e, "x"))?;
        }
        let owner = x.clone().unbind();
        DeviceArray { device, pointer, shape, strides, format, _owner: owner }.checked()
    }

    /// Whether the array is what it says, as far as the driver can tell: a wrong address would end
    /// all GPU work of the process.
    fn checked(self) -> PyResult<Self> {
        if self.shape.contains(&0) {
            return Ok(self);
        }
        let bytes = self.format.bytes() as i64;
        let aligned = self.pointer.is_multiple_of(bytes as u64);
        if !aligned || self.strides.iter().zip(&self.shape).any(|(s, n)| *n > 1 && s % bytes != 0) {
            return Err(PyValueError::new_err(format!(
                "x is not aligned to its elements of {bytes} bytes; make a copy, with x.copy() or \
                 x.clone()"
            )));
        }
        let reach = |s: &i64, n: &usize| s.wrapping_mul(*n as i64 - 1);
        let ends = self.strides.iter().zip(&self.shape).map(|(s, n)| reach(s, n));
        let (low, high) = ends
            .fold((0i64, 0i64), |(l, h), r| (l.wrapping_add(r.min(0)), h.wrapping_add(r.max(0))));
        for end in [low, high.wrapping_add(bytes - 1)] {
            let at = self.pointer.wrapping_add_signed(end);
            let on = owner(at)?;
            if on != self.device.ordinal() {
                return Err(PyValueError::new_err("x: its memory lies on several GPUs"));
            }
        }
        Ok(self)
    }

    /// The GPU that holds the array.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether all imaginary parts are zero by type.
    pub fn is_real(&self) -> bool {
        matches!(self.format, Format::RealF32 | Format::RealF64)
    }

    /// Whether results come in single precision.
    pub fn is_single(&self) -> bool {
        matches!(self.format, Format::RealF32 | Format::ComplexF32)
    }

    /// The signals along an axis, in C order of the other axes, and the lengths of these.
    pub fn signals(&self, axis: isize) -> PyResult<(Vec<Signal<'_>>, Vec<usize>)> {
        let place = if axis < 0 { axis + self.shape.len() as isize } else { axis };
        let Some((&n, &stride)) = usize::try_from(place)
            .ok()
            .and_then(|p| Some((self.shape.get(p)?, self.strides.get(p)?)))
        else {
            return Err(PyValueError::new_err(format!("x has no axis {axis}")));
        };
        let bytes = self.format.bytes() as i64;
        if n > 1 && stride != bytes && !self.shape.contains(&0) {
            return Err(PyValueError::new_err(format!(
                "x: samples along axis {axis} lie {stride} bytes apart; on a GPU they must lie side \
                 by side ({bytes} bytes): make a copy, with cupy.ascontiguousarray(x) or \
                 x.contiguous()"
            )));
        }
        let (mut others, mut strides) = (self.shape.clone(), self.strides.clone());
        others.remove(place as usize);
        strides.remove(place as usize);
        let mut offsets = vec![0i64];
        for (&len, &by) in others.iter().zip(&strides) {
            offsets = offsets
                .iter()
                .flat_map(|&o| (0..len as i64).map(move |i| o.wrapping_add(by.wrapping_mul(i))))
                .collect();
        }
        let signal = |&offset: &i64| {
            let at = self.pointer.wrapping_add_signed(offset);
            // SAFETY: inside the array by its shape and strides, aligned as checked; the owner keeps
            // the memory, and our stream waits for whatever still writes it.
            unsafe { Signal::from_raw(&self.device, at, n as u64, self.format) }
        };
        Ok((offsets.iter().map(signal).collect(), others))
    }
}

/// The number of the GPU that an address of x belongs to.
fn owner(pointer: u64) -> PyResult<u32> {
    owner_of(pointer).map_err(|e| match e {
        Error::Source(message) => PyValueError::new_err(format!("x: {message}")),
        other => exception(other, "x"),
    })
}

/// Strides in bytes of an array in C order.
fn packed(shape: &[usize], bytes: i64) -> Vec<i64> {
    let mut strides = vec![bytes; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].wrapping_mul(shape[i] as i64);
    }
    strides
}

fn wrong_type(kind: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "x has the type {kind}; on a GPU it must be float32, float64, complex64 or complex128: \
         convert it with x.astype() or x.to()"
    ))
}
