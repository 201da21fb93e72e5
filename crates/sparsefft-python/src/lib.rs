//! The native half of the Python package `sparsefft`: `python/sparsefft/` wraps it, documents it
//! and is what users import.
//!
//! Order of a call: an array becomes [`array::Signals`], views without copies; [`run::Runner`]
//! releases the interpreter lock, runs the plan on the threads that were asked for and turns
//! errors and panics into exceptions; [`plan`] hands back arrays of indices and values.

mod array;
mod dense;
mod error;
mod plan;
mod run;
mod sketch;
mod source;

use pyo3::prelude::*;

/// The native half of `sparsefft`.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<plan::Plan>()?;
    m.add_class::<plan::Run>()?;
    m.add_class::<sketch::Sketch>()?;
    m.add_function(wrap_pyfunction!(plan::synthesize, m)?)?;
    m.add_function(wrap_pyfunction!(dense::dense, m)?)?;
    m.add_function(wrap_pyfunction!(run::after_fork, m)?)?;
    m.add_function(wrap_pyfunction!(run::panic_for_tests, m)?)?;
    Ok(())
}
