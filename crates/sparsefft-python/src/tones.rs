//! Tones between the bins as dictionaries of arrays; `python/src/sparsefft/_tones.py` makes an
//! object of them.

use crate::array::Signals;
use crate::find::Columns;
use crate::plan::{Plan, certificate, stages};
use crate::run::Runner;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sparsefft::{Cluster, Complex, Tone, Tones};

/// The tones of an array of one dimension.
#[pyfunction]
pub fn tones<'py>(
    plan: &Bound<'py, Plan>,
    x: &Bound<'py, PyUntypedArray>,
    workers: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (py, plan) = (x.py(), &plan.get().plan);
    let signal = Signals::new(x, -1, "x")?.get(0);
    let found = Runner::new(workers)?.run(py, "x", || plan.tones(&signal))?;
    convert(py, &found)
}

fn convert<'py>(py: Python<'py>, found: &Tones) -> PyResult<Bound<'py, PyDict>> {
    let rows = found.tones();
    let table = Columns::new(py)
        .add("frequency", rows, |t: &Tone| t.frequency)?
        .add("frequency_std", rows, |t| t.frequency_std)?
        .add::<_, Complex<f64>>("coefficient", rows, |t| t.amplitude)?
        .add("amplitude_std", rows, |t| t.amplitude_std)?
        .add("phase_std", rows, |t| t.phase_std)?
        .add("snr_db", rows, |t| 10.0 * t.snr.log10())?
        .add_known("drift", rows, |t| t.drift.map(|d| d.rate))?
        .add_known("drift_std", rows, |t| t.drift.map(|d| d.std))?;
    let rows = found.bands();
    let bands = Columns::new(py).add("low", rows, |b| b.low)?.add("high", rows, |b| b.high)?.add(
        "power",
        rows,
        |b| b.power,
    )?;
    let dict = PyDict::new(py);
    dict.set_item("n", found.n())?;
    dict.set_item("tones", table.finish())?;
    dict.set_item("bands", bands.finish())?;
    dict.set_item("clusters", clusters(py, found.clusters())?)?;
    dict.set_item("certificate", certificate(py, found.certificate())?)?;
    let report = found.report();
    dict.set_item("samples_read", report.samples_read)?;
    dict.set_item("seed", report.seed)?;
    dict.set_item("left_out", report.left_out)?;
    dict.set_item("stages", stages(py, &report.stages)?)?;
    dict.set_item("seconds", report.elapsed.as_secs_f64())?;
    Ok(dict)
}

/// Groups of tones too near to be told apart.
pub fn clusters<'py>(py: Python<'py>, rows: &[Cluster]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py)
        .add("centre", rows, |c| c.centre)?
        .add("width", rows, |c| c.width)?
        .add("power", rows, |c| c.power)?;
    Ok(table.finish())
}
