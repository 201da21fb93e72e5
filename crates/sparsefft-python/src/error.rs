//! The one map from the library's errors to Python's exceptions.

use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyRuntimeError, PyValueError};
use sparsefft::Error;

/// The exception for an error; `argument` names where the samples came from.
pub fn exception(error: Error, argument: &str) -> PyErr {
    let message = error.to_string();
    match error {
        Error::ZeroLength
        | Error::LengthTooLarge { .. }
        | Error::LengthMismatch { .. }
        | Error::NonFinite { .. }
        | Error::WrongSampleCount { .. } => PyValueError::new_err(format!("{argument}: {message}")),
        Error::Overflow { .. } => PyOverflowError::new_err(format!("{argument}: {message}")),
        // Python's names of the options.
        Error::InvalidOption { name, value, allowed } => {
            let name = match name {
                "tolerance" => "tol",
                "failure probability" => "failure_probability",
                "kaiser beta" => "taper: kaiser beta",
                other => other,
            };
            PyValueError::new_err(format!("{name} = {value} is out of range; allowed: {allowed}"))
        }
        Error::OutOfMemory { .. } | Error::DeviceMemory { .. } => PyMemoryError::new_err(message),
        Error::Source(_) | Error::Device(_) => PyRuntimeError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}
