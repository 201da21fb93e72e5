//! The native half of the Python package `sparsefft`: `python/sparsefft/` wraps it, documents it
//! and is what users import.
//!
//! Order of a call: an array becomes [`array::Signals`], views without copies; [`run::Runner`]
//! releases the interpreter lock, runs the plan on the threads that were asked for and turns
//! errors and panics into exceptions; [`plan`] hands back arrays of indices and values, [`find`] and
//! [`tones`] dictionaries of arrays, one for each kind of finding. With the feature `cuda`, arrays in the memory of a GPU stay there (`device`).

mod array;
mod dense;
#[cfg(feature = "cuda")]
mod device;
mod error;
mod find;
mod plan;
mod run;
mod sketch;
mod source;
mod tones;

use pyo3::prelude::*;

/// Why no GPU can be used, or nothing if one can.
#[pyfunction]
fn no_cuda() -> Option<String> {
    #[cfg(feature = "cuda")]
    return device::unusable();
    #[cfg(not(feature = "cuda"))]
    Some("this build of sparsefft has no sparse CUDA backend".into())
}

/// A seed that nobody could foretell.
#[pyfunction]
fn random_seed() -> u64 {
    sparsefft::random_seed()
}

/// Most threads that are started for a call.
#[pyfunction]
fn most_threads() -> usize {
    sparsefft::most_threads()
}

/// The native half of `sparsefft`.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<plan::Plan>()?;
    m.add_class::<plan::Run>()?;
    m.add_class::<sketch::Sketch>()?;
    #[cfg(feature = "cuda")]
    m.add_class::<device::DeviceArray>()?;
    m.add_function(wrap_pyfunction!(no_cuda, m)?)?;
    m.add_function(wrap_pyfunction!(random_seed, m)?)?;
    m.add_function(wrap_pyfunction!(most_threads, m)?)?;
    m.add_function(wrap_pyfunction!(plan::synthesize, m)?)?;
    m.add_function(wrap_pyfunction!(find::find, m)?)?;
    m.add_function(wrap_pyfunction!(tones::tones, m)?)?;
    m.add_function(wrap_pyfunction!(dense::dense, m)?)?;
    m.add_function(wrap_pyfunction!(run::after_fork, m)?)?;
    m.add_function(wrap_pyfunction!(run::panic_for_tests, m)?)?;
    Ok(())
}
