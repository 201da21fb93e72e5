//! NumPy arrays as signals, without copies: any number type, byte order, stride and alignment.

use numpy::npyffi::_PyArray_GET_ITEM_DATA;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use sparsefft::{Complex, Samples, Scalar, Strided, indexed};

/// A number type of NumPy.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    C64,
    C128,
}

/// The type of an array's elements.
#[derive(Clone, Copy)]
pub struct Element {
    number: Number,
    swapped: bool,
}

impl Element {
    /// The element type of an array, or a `TypeError` that names the argument.
    pub fn of(array: &Bound<'_, PyUntypedArray>, argument: &str) -> PyResult<Self> {
        let dtype = array.dtype();
        let number = match (dtype.kind(), dtype.itemsize()) {
            (b'b', 1) | (b'u', 1) => Number::U8,
            (b'i', 1) => Number::I8,
            (b'u', 2) => Number::U16,
            (b'i', 2) => Number::I16,
            (b'u', 4) => Number::U32,
            (b'i', 4) => Number::I32,
            (b'u', 8) => Number::U64,
            (b'i', 8) => Number::I64,
            (b'f', 2) => Number::F16,
            (b'f', 4) => Number::F32,
            (b'f', 8) => Number::F64,
            (b'c', 8) => Number::C64,
            (b'c', 16) => Number::C128,
            _ => {
                let why = match dtype.kind() {
                    b'f' | b'c' => "; extended precision is not supported, use astype()",
                    b'O' => "; convert it with astype(float) or astype(complex)",
                    _ => "",
                };
                return Err(PyTypeError::new_err(format!(
                    "{argument} has dtype {dtype}, which is no real or complex number type{why}"
                )));
            }
        };
        Ok(Element { number, swapped: dtype.is_native_byteorder() == Some(false) })
    }

    /// Whether results come in single precision: for 16- and 32-bit floats, as NumPy has it.
    pub fn is_single(self) -> bool {
        matches!(self.number, Number::F16 | Number::F32 | Number::C64)
    }

    /// Whether all imaginary parts are zero by type.
    pub fn is_real(self) -> bool {
        !matches!(self.number, Number::C64 | Number::C128)
    }

    /// n elements that lie `stride` bytes apart, the first at `base`.
    ///
    /// # Safety
    /// All of them must stay readable while the result lives.
    unsafe fn signal(self, base: *const u8, n: usize, stride: isize) -> Box<dyn Samples> {
        let view = View { base, stride };
        let swapped = self.swapped;
        // SAFETY: handed on to the caller.
        unsafe {
            match self.number {
                Number::U8 => signal::<u8>(view, n, swapped),
                Number::I8 => signal::<i8>(view, n, swapped),
                Number::U16 => signal::<u16>(view, n, swapped),
                Number::I16 => signal::<i16>(view, n, swapped),
                Number::U32 => signal::<u32>(view, n, swapped),
                Number::I32 => signal::<i32>(view, n, swapped),
                Number::U64 => signal::<u64>(view, n, swapped),
                Number::I64 => signal::<i64>(view, n, swapped),
                Number::F16 => signal::<Half>(view, n, swapped),
                Number::F32 => signal::<f32>(view, n, swapped),
                Number::F64 => signal::<f64>(view, n, swapped),
                Number::C64 => signal::<Complex<f32>>(view, n, swapped),
                Number::C128 => signal::<Complex<f64>>(view, n, swapped),
            }
        }
    }
}

/// Memory that belongs to an array.
#[derive(Clone, Copy)]
struct View {
    base: *const u8,
    stride: isize,
}

// SAFETY: the memory is only read. Python code may write to an array while a transform reads it,
// as with any array function that releases the interpreter lock: a sample is loaded once and used
// as a number, so the answer may mix old and new samples, and nothing else can happen.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Element i.
    ///
    /// # Safety
    /// i must lie inside the array.
    #[inline(always)] // one load
    unsafe fn at<T: Copy>(&self, i: u64) -> T {
        // SAFETY: the caller keeps i inside the array; NumPy arrays may be unaligned.
        unsafe { self.base.offset(self.stride * i as isize).cast::<T>().read_unaligned() }
    }
}

/// As [`Element::signal`], for one type.
unsafe fn signal<T: Swap>(view: View, n: usize, swapped: bool) -> Box<dyn Samples> {
    let size = size_of::<T>() as isize;
    let first = view.base.cast::<T>();
    if !swapped && view.stride > 0 && view.stride % size == 0 && first.is_aligned() {
        // The library's own sources, which fetch ahead.
        let step = (view.stride / size) as usize;
        // SAFETY: the elements between are memory of the same array, and any bits are a number.
        let data: &'static [T] = unsafe { std::slice::from_raw_parts(first, (n - 1) * step + 1) };
        match Strided::new(data, 0, step) {
            Ok(strided) if step > 1 => return Box::new(strided),
            _ => return Box::new(data),
        }
    }
    // SAFETY: `indexed` calls with indices below n only, which the caller promised to be readable.
    let plain = move |i| unsafe { view.at::<T>(i) }.complex();
    // SAFETY: as above.
    let turned = move |i| unsafe { view.at::<T>(i) }.swap().complex();
    let n = n as u64;
    match (swapped, T::REAL) {
        (false, false) => Box::new(indexed(n, plain)),
        (false, true) => Box::new(indexed(n, plain).real()),
        (true, false) => Box::new(indexed(n, turned)),
        (true, true) => Box::new(indexed(n, turned).real()),
    }
}

/// A number that may come in the other byte order.
trait Swap: Scalar + 'static {
    fn swap(self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Swap for $t {
            fn swap(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Swap for $t {
            fn swap(self) -> Self {
                <$t>::from_bits(self.to_bits().swap_bytes())
            }
        }
        impl Swap for Complex<$t> {
            fn swap(self) -> Self {
                Complex::new(self.re.swap(), self.im.swap())
            }
        }
    )*};
}
floats!(f32, f64);

/// A 16-bit float.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Half(u16);

impl Scalar for Half {
    const REAL: bool = true;
    fn complex(self) -> Complex<f64> {
        // The bits of a half, moved into place, are a float 2^112 times too small; this covers
        // subnormal numbers as well. Only infinities and NaN need more.
        let magnitude = f32::from_bits(u32::from(self.0 & 0x7FFF) << 13) * 2f32.powi(112);
        let magnitude = match self.0 & 0x7FFF {
            0..0x7C00 => magnitude,
            0x7C00 => f32::INFINITY,
            _ => f32::NAN,
        };
        let sign = if self.0 & 0x8000 == 0 { 1.0 } else { -1.0 };
        Complex::new(f64::from(sign * magnitude), 0.0)
    }
}

impl Swap for Half {
    fn swap(self) -> Self {
        Half(self.0.swap_bytes())
    }
}

/// Where signal i stands among axes of these lengths, in C order.
pub fn place(mut i: usize, lengths: &[usize]) -> Vec<usize> {
    let mut place: Vec<usize> = Vec::with_capacity(lengths.len());
    for &len in lengths.iter().rev() {
        place.push(i % len);
        i /= len;
    }
    place.reverse();
    place
}

/// The signals along one axis of an array, in C order of the other axes.
pub struct Signals<'a, 'py> {
    array: &'a Bound<'py, PyUntypedArray>,
    /// Type of the elements.
    pub element: Element,
    /// Length of each signal.
    pub n: usize,
    stride: isize,
    /// Length and stride of the other axes.
    others: Vec<(usize, isize)>,
}

impl<'a, 'py> Signals<'a, 'py> {
    /// The signals along an axis, which may count from the end.
    pub fn new(
        array: &'a Bound<'py, PyUntypedArray>,
        axis: isize,
        argument: &str,
    ) -> PyResult<Self> {
        let element = Element::of(array, argument)?;
        let ndim = array.ndim();
        if ndim == 0 {
            return Err(PyValueError::new_err(format!(
                "{argument} is a single number; it must have at least one dimension"
            )));
        }
        let place = if axis < 0 { axis + ndim as isize } else { axis };
        if place < 0 || place >= ndim as isize {
            let error = array.py().import("numpy.exceptions")?.getattr("AxisError")?;
            return Err(PyErr::from_value(error.call1((axis, ndim, "axis"))?));
        }
        let mut others: Vec<_> =
            array.shape().iter().copied().zip(array.strides().iter().copied()).collect();
        let (n, stride) = others.remove(place as usize);
        if n == 0 {
            return Err(PyValueError::new_err(format!(
                "{argument} has no samples along axis {axis}; at least 1 is needed"
            )));
        }
        Ok(Signals { array, element, n, stride, others })
    }

    /// Whether the array has one dimension.
    pub fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    /// How many signals there are.
    pub fn count(&self) -> usize {
        self.others.iter().map(|(len, _)| len).product()
    }

    /// The lengths of the other axes.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.others.iter().map(|(len, _)| *len)
    }

    /// Signal i. The array must outlive it; callers hold a reference while they use it.
    pub fn get(&self, i: usize) -> Box<dyn Samples> {
        let lengths: Vec<usize> = self.lengths().collect();
        let places = place(i, &lengths);
        let offset: isize =
            places.iter().zip(&self.others).map(|(&p, (_, s))| p as isize * s).sum();
        // SAFETY: the offset and the n elements behind it lie inside the array by its shape and
        // strides, and NumPy keeps the memory while a reference to the array exists.
        unsafe {
            let base =
                (*_PyArray_GET_ITEM_DATA(self.array.as_array_ptr())).data.cast::<u8>().cast_const();
            self.element.signal(base.offset(offset), self.n, self.stride)
        }
    }
}
