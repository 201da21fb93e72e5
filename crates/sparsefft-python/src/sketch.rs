//! Sketches: made from a plan, fed with arrays, merged, stored as bytes.

use crate::array::Signals;
use crate::plan::{Plan, parse_norm};
use crate::run::Runner;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a one-pass transform keeps of a signal, or of parts of it.
#[pyclass(frozen, module = "sparsefft._native")]
pub struct Sketch {
    plan: Py<Plan>,
    /// Locked without the interpreter lock, or for moments.
    inner: Mutex<sparsefft::Sketch>,
}

impl Sketch {
    fn lock(&self) -> MutexGuard<'_, sparsefft::Sketch> {
        // A sketch is changed by its last steps, which cannot fail.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Sketch {
    /// An empty sketch, or the one of these bytes, for a plan of one pass.
    #[new]
    fn new(py: Python<'_>, plan: Py<Plan>, bytes: Option<&[u8]>) -> PyResult<Self> {
        let native = plan.get().native().clone();
        let made = Runner::new(0)?.run(py, "sketch", || {
            let mut sketch = native.sketch()?;
            bytes.map_or(Ok(()), |bytes| sketch.merge_bytes(bytes))?;
            Ok(sketch)
        })?;
        Ok(Sketch { plan, inner: Mutex::new(made) })
    }

    /// Adds x[start], x[start + step], …
    fn add(&self, x: &Bound<'_, PyUntypedArray>, start: u64, step: u64) -> PyResult<()> {
        let signals = Signals::new(x, 0, "x")?;
        if !signals.is_single() {
            return Err(PyValueError::new_err("x must have one dimension"));
        }
        let samples = signals.get(0);
        Runner::new(0)?.run(x.py(), "x", || self.lock().add_strided(start, step, &samples))
    }

    /// Unites with another sketch.
    fn merge(&self, py: Python<'_>, other: &Sketch) -> PyResult<()> {
        Runner::new(0)?.run(py, "other", || {
            // One lock at a time.
            let other = other.lock().clone();
            self.lock().merge(&other)
        })
    }

    /// (indices, values, run) of the whole signal.
    fn finish<'py>(&self, py: Python<'py>, norm: Option<&str>) -> PyResult<Bound<'py, PyTuple>> {
        let norm = parse_norm(norm)?;
        let spectrum = Runner::new(0)?.run(py, "x", || self.lock().clone().finish())?;
        self.plan.get().finish(py, spectrum, norm, false)
    }

    /// The stored form.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().to_bytes())
    }

    /// (start, stop, how many) of every range that is missing.
    fn missing(&self) -> Vec<(u64, u64, u64)> {
        let gaps = self.lock().missing();
        gaps.into_iter().map(|g| (g.range.start, g.range.end, g.missing)).collect()
    }

    /// Samples seen, kept, and kept in the end.
    fn counts(&self) -> (u64, usize, usize) {
        let sketch = self.lock();
        (sketch.seen(), sketch.kept(), sketch.capacity())
    }
}
