//! What is in a signal: the library's findings as dictionaries of arrays. This is the one place
//! that knows their Rust types, and `python/src/sparsefft/_find.py` the one that knows the
//! dictionaries.

use crate::array::Signals;
use crate::plan::{certificate, integer, number, stages, word};
use crate::run::Runner;
use numpy::{Element, PyArray1, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sparsefft::Complex;
use sparsefft::find::{Attempt, Burst, Effort, Find, Findings, FoundBand, Line, Sweep};

/// A table as it is built: one array for each column.
pub struct Columns<'py> {
    py: Python<'py>,
    dict: Bound<'py, PyDict>,
}

impl<'py> Columns<'py> {
    /// No columns.
    pub fn new(py: Python<'py>) -> Self {
        Columns { py, dict: PyDict::new(py) }
    }

    /// Adds a column of what `value` takes from each row.
    pub fn add<R, T: Element>(
        self,
        name: &str,
        rows: &[R],
        value: impl FnMut(&R) -> T,
    ) -> PyResult<Self> {
        let values: Vec<T> = rows.iter().map(value).collect();
        self.dict.set_item(name, PyArray1::from_vec(self.py, values))?;
        Ok(self)
    }

    /// Adds a column of numbers that some rows lack; NaN stands for them.
    pub fn add_known<R>(
        self,
        name: &str,
        rows: &[R],
        mut value: impl FnMut(&R) -> Option<f64>,
    ) -> PyResult<Self> {
        self.add(name, rows, |row| value(row).unwrap_or(f64::NAN))
    }

    /// Adds a column of words.
    pub fn add_words<R>(
        self,
        name: &str,
        rows: &[R],
        word: impl FnMut(&R) -> &'static str,
    ) -> PyResult<Self> {
        let words: Vec<&str> = rows.iter().map(word).collect();
        self.dict.set_item(name, words)?;
        Ok(self)
    }

    /// The table.
    pub fn finish(self) -> Bound<'py, PyDict> {
        self.dict
    }
}

fn parse_effort(effort: &Bound<'_, PyAny>) -> PyResult<Effort> {
    match word(effort, "effort")?.as_str() {
        "usual" => Ok(Effort::Usual),
        "quick" => Ok(Effort::Quick),
        "thorough" => Ok(Effort::Thorough),
        other => Err(PyValueError::new_err(format!(
            "effort = '{other}': it must be 'usual', 'quick' (never read all samples) or \
             'thorough' (always)"
        ))),
    }
}

/// The findings of an array of one dimension.
#[pyfunction]
#[pyo3(signature = (x, *, at_most, effort, memory, seed, failure_probability, workers))]
#[allow(clippy::too_many_arguments)] // Python's keyword arguments
pub fn find<'py>(
    x: &Bound<'py, PyUntypedArray>,
    at_most: Option<&Bound<'py, PyAny>>,
    effort: &Bound<'py, PyAny>,
    memory: Option<&Bound<'py, PyAny>>,
    seed: &Bound<'py, PyAny>,
    failure_probability: Option<&Bound<'py, PyAny>>,
    workers: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let py = x.py();
    let seed = integer(seed, "seed", "an integer from 0 to 2**64 - 1, or 'random'")?;
    let mut options = Find::new().effort(parse_effort(effort)?).seed(seed);
    if let Some(most) = at_most {
        options = options.at_most(integer(most, "at_most", "a non-negative integer or None")?);
    }
    if let Some(bytes) = memory {
        options = options.memory(integer(bytes, "memory", "a number of bytes or None")?);
    }
    if let Some(p) = number(failure_probability, "failure_probability")? {
        options = options.failure_probability(p);
    }
    let signal = Signals::new(x, -1, "x")?.get(0);
    let findings = Runner::new(workers)?.run(py, "x", || options.run(&signal))?;
    convert(py, &findings)
}

fn convert<'py>(py: Python<'py>, found: &Findings) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("n", found.n)?;
    dict.set_item("real", found.real)?;
    dict.set_item("lines", lines(py, &found.lines)?)?;
    dict.set_item("bands", bands(py, &found.bands)?)?;
    dict.set_item("bursts", bursts(py, &found.bursts)?)?;
    dict.set_item("sweeps", sweeps(py, &found.sweeps)?)?;
    dict.set_item("families", families(py, found)?)?;
    dict.set_item("floor", floor(py, found)?)?;
    dict.set_item("verdict", found.outcome.name())?;
    let reasons = found.reasons.iter().map(|r| (r.code, r.text.as_str()));
    dict.set_item("reasons", PyList::new(py, reasons)?)?;
    dict.set_item("threshold_db", found.threshold_db)?;
    dict.set_item("failure_probability", found.failure_probability)?;
    dict.set_item("left_out", found.left_out)?;
    dict.set_item("seed", found.seed)?;
    dict.set_item("memory", found.cost.memory)?;
    dict.set_item("attempts", attempts(py, &found.cost.attempts)?)?;
    let (mode, clusters) = match (found.grid(), found.tones()) {
        (Some(_), _) => ("grid", &[][..]),
        (None, Some(tones)) => ("tones", tones.clusters()),
        (None, None) => ("survey", &[][..]),
    };
    dict.set_item("mode", mode)?;
    dict.set_item("clusters", crate::tones::clusters(py, clusters)?)?;
    dict.set_item("certificate", certificate(py, found.to_spectrum().certificate())?)?;
    Ok(dict)
}

fn lines<'py>(py: Python<'py>, rows: &[Line]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py)
        .add_words("kind", rows, |l| l.kind.name())?
        .add("frequency", rows, |l| l.frequency)?
        .add("frequency_std", rows, |l| l.frequency_std)?
        .add::<_, Complex<f64>>("coefficient", rows, |l| l.amplitude)?
        .add("mirrored", rows, |l| l.mirrored)?
        .add("amplitude_std", rows, |l| l.amplitude_std)?
        .add_known("snr_db", rows, |l| l.snr_db)?
        .add_known("drift", rows, |l| l.drift.map(|d| d.rate))?
        .add_known("drift_std", rows, |l| l.drift.map(|d| d.std))?
        .add_known("width", rows, |l| l.width)?
        .add_known("damping", rows, |l| l.damping)?;
    Ok(table.finish())
}

fn bands<'py>(py: Python<'py>, rows: &[FoundBand]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py)
        .add("low", rows, |b| b.low)?
        .add("high", rows, |b| b.high)?
        .add("peak", rows, |b| b.peak)?
        .add("power", rows, |b| b.power)?
        .add("above_db", rows, |b| b.above_db)?
        .add_known("busy", rows, |b| b.busy)?;
    Ok(table.finish())
}

fn bursts<'py>(py: Python<'py>, rows: &[Burst]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py)
        // Samples are counted below 2^52.
        .add("start", rows, |b| b.start as i64)?
        .add("length", rows, |b| b.length as i64)?
        .add("low", rows, |b| b.low)?
        .add("high", rows, |b| b.high)?
        .add("power", rows, |b| b.power)?
        .add("above_db", rows, |b| b.above_db)?;
    Ok(table.finish())
}

fn sweeps<'py>(py: Python<'py>, rows: &[Sweep]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py)
        .add("start", rows, |s| s.start as i64)?
        .add("length", rows, |s| s.length as i64)?
        .add("first", rows, |s| s.from)?
        .add("last", rows, |s| s.to)?
        .add("rate", rows, |s| s.rate)?
        .add("power", rows, |s| s.power)?
        .add("above_db", rows, |s| s.above_db)?;
    Ok(table.finish())
}

fn families<'py>(py: Python<'py>, found: &Findings) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for family in &found.families {
        let dict = PyDict::new(py);
        dict.set_item("spacing", family.spacing)?;
        dict.set_item("carrier", family.carrier)?;
        dict.set_item("orders", &family.orders)?;
        dict.set_item("members", &family.members)?;
        list.append(dict)?;
    }
    Ok(list)
}

fn floor<'py>(py: Python<'py>, found: &Findings) -> PyResult<Bound<'py, PyDict>> {
    let floor = &found.floor;
    let table = Columns::new(py)
        .add("frequency", &floor.frequency, |v| *v)?
        .add("density", &floor.density, |v| *v)?
        .add("std_db", &floor.std_db, |v| *v)?
        .add("threshold_db", &floor.threshold_db, |v| *v)?;
    Ok(table.finish())
}

fn attempts<'py>(py: Python<'py>, attempts: &[Attempt]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for attempt in attempts {
        let dict = PyDict::new(py);
        dict.set_item("kind", attempt.kind)?;
        dict.set_item("verdict", attempt.outcome)?;
        dict.set_item("samples_read", attempt.samples_read)?;
        dict.set_item("seconds", attempt.elapsed.as_secs_f64())?;
        dict.set_item("stages", stages(py, &attempt.stages)?)?;
        list.append(dict)?;
    }
    Ok(list)
}
