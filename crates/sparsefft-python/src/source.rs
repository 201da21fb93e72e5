//! A Python callable as a signal: it is called with batches of indices and returns the samples.

use crate::array::Signals;
use numpy::{PyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use sparsefft::{Complex, Error, Samples};
use std::sync::{Mutex, PoisonError};

/// A callable f(indices) → samples.
pub struct Callable {
    f: Py<PyAny>,
    n: u64,
    real: bool,
    /// The first exception that was raised; the library's error only marks that there is one.
    raised: Mutex<Option<PyErr>>,
}

impl Callable {
    /// A signal of n samples; `real` if the callable must return real numbers.
    pub fn new(f: Py<PyAny>, n: u64, real: bool) -> Self {
        Callable { f, n, real, raised: Mutex::new(None) }
    }

    /// The exception that ended the transform, if the callable raised one.
    pub fn raised(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, py: Python<'_>, indices: &[u64], out: &mut [Complex<f64>]) -> PyResult<()> {
        // Indices are below 2^52.
        let asked: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        let got = self.f.bind(py).call1((PyArray1::from_vec(py, asked),))?;
        let got = match got.cast_into::<PyUntypedArray>() {
            Ok(array) => array,
            Err(other) => py
                .import("numpy")?
                .call_method1("asarray", (other.into_inner(),))?
                .cast_into::<PyUntypedArray>()?,
        };
        if got.shape() != [indices.len()] {
            let shape = got.getattr("shape")?;
            return Err(PyValueError::new_err(format!(
                "f returned an array of shape {shape} where ({},) was asked for: one sample for \
                 each index",
                indices.len()
            )));
        }
        let signals = Signals::new(&got, -1, "f's result")?;
        if self.real && !signals.element.is_real() {
            return Err(PyTypeError::new_err(
                "f returned complex samples, but the plan is for a real signal (real=True)",
            ));
        }
        signals.get(0).read_range(0, out).map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

impl Samples for Callable {
    fn len(&self) -> u64 {
        self.n
    }

    fn is_real(&self) -> bool {
        self.real
    }

    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        if indices.is_empty() {
            return Ok(());
        }
        Python::attach(|py| self.call(py, indices, out)).map_err(|error| {
            let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            raised.get_or_insert(error);
            Error::Source("the callable raised an exception".into())
        })
    }
}
