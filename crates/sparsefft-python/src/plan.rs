//! Plans and what they hand back: arrays of indices and values, and a [`Run`] with the rest.

use crate::array::{Signals, place};
#[cfg(feature = "cuda")]
use crate::device::DeviceArray;
use crate::error::exception;
use crate::run::Runner;
use crate::source::Callable;
use numpy::{PyArray1, PyReadonlyArray1, PyUntypedArray};
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};
#[cfg(feature = "cuda")]
use sparsefft::cuda::CudaPlan;
use sparsefft::dense::Direction;
use sparsefft::{
    Algorithm, Certificate, Complex, Fallback, Noise, Norm, Peak, Problem, Report, Samples,
    Spectrum, Stage, Taper, Verdict,
};
use std::time::Duration;

/// An integer of Python or NumPy, with an exception that names the argument.
pub fn integer(value: &Bound<'_, PyAny>, name: &str, allowed: &str) -> PyResult<u64> {
    let refused = || wrong_type(value, name, allowed);
    // A bool has an index, too, but is a mistake.
    if value.is_instance_of::<PyBool>() {
        return Err(refused());
    }
    let index = value.call_method0("__index__").map_err(|_| refused())?;
    index
        .extract()
        .map_err(|_| PyValueError::new_err(format!("{name} = {index}: it must be {allowed}")))
}

/// The `TypeError` for an argument of another type than is allowed.
fn wrong_type(value: &Bound<'_, PyAny>, name: &str, allowed: &str) -> PyErr {
    let kind = value.get_type();
    let kind = kind.name().map_or_else(|_| "an object".into(), |n| n.to_string());
    PyTypeError::new_err(format!("{name} must be {allowed}, not {kind}"))
}

/// A real number of Python or NumPy. One that is too large for a float is infinite, and so refused by
/// its range.
pub fn number(value: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<Option<f64>> {
    let Some(value) = value else { return Ok(None) };
    if value.is_instance_of::<PyBool>() {
        return Err(wrong_type(value, name, "a real number or None"));
    }
    match value.extract::<f64>() {
        Ok(number) => Ok(Some(number)),
        Err(e) if e.is_instance_of::<PyOverflowError>(value.py()) => {
            Ok(Some(if value.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY }))
        }
        Err(_) => Err(wrong_type(value, name, "a real number or None")),
    }
}

/// A word.
pub fn word(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    value.extract().map_err(|_| wrong_type(value, name, "a string"))
}

/// True or False of Python or NumPy.
fn flag(value: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    value.extract().map_err(|_| wrong_type(value, name, "True or False"))
}

/// The scale that a name stands for.
pub fn parse_norm(norm: Option<&str>) -> PyResult<Norm> {
    match norm {
        None | Some("backward") => Ok(Norm::Backward),
        Some("ortho") => Ok(Norm::Ortho),
        Some("forward") => Ok(Norm::Forward),
        Some(other) => Err(PyValueError::new_err(format!(
            "norm = '{other}': it must be None, 'backward', 'ortho' or 'forward'"
        ))),
    }
}

fn parse_taper(taper: Option<&Bound<'_, PyAny>>) -> PyResult<Taper> {
    const ALLOWED: &str = "None, 'hann', 'blackman' or ('kaiser', beta)";
    let Some(taper) = taper else { return Ok(Taper::None) };
    let wrong = |e: PyErr| -> PyResult<PyErr> {
        // What cannot be shown keeps the exception that says so.
        let shown = taper.repr().map_err(|_| e)?;
        Ok(PyValueError::new_err(format!("taper = {shown}: it must be {ALLOWED}")))
    };
    if let Ok(name) = taper.extract::<String>() {
        return match name.as_str() {
            "hann" => Ok(Taper::Hann),
            "blackman" => Ok(Taper::Blackman),
            _ => Err(wrong(PyValueError::new_err("taper"))?),
        };
    }
    let pair = taper.cast::<PyTuple>().map_err(|_| wrong_type(taper, "taper", ALLOWED))?;
    match pair.extract::<(String, Bound<'_, PyAny>)>() {
        Ok((name, beta)) if name == "kaiser" => {
            let beta = number(Some(&beta), "taper: kaiser beta")?;
            Ok(Taper::Kaiser(beta.unwrap_or(f64::NAN)))
        }
        Ok(_) => Err(wrong(PyValueError::new_err("taper"))?),
        Err(e) => Err(wrong(e)?),
    }
}

/// A transform made ready.
#[pyclass(frozen, module = "sparsefft._native")]
pub struct Plan {
    pub(crate) plan: sparsefft::Plan,
    /// Whether signals are real and only the coefficients 0 … n/2 are wanted.
    real: bool,
    /// How many of those, if it was said.
    half: Option<u64>,
    /// The same plan made ready on GPUs, by their number.
    #[cfg(feature = "cuda")]
    on_gpu: std::sync::Mutex<Vec<(u32, std::sync::Arc<CudaPlan>)>>,
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (n, k, *, real, tol, snr, failure_probability, algorithm, taper, fallback,
                        seed, one_pass=false))]
    #[allow(clippy::too_many_arguments)] // Python's keyword arguments
    fn new(
        n: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        real: &Bound<'_, PyAny>,
        tol: Option<&Bound<'_, PyAny>>,
        snr: Option<&Bound<'_, PyAny>>,
        failure_probability: Option<&Bound<'_, PyAny>>,
        algorithm: &Bound<'_, PyAny>,
        taper: Option<&Bound<'_, PyAny>>,
        fallback: &Bound<'_, PyAny>,
        seed: &Bound<'_, PyAny>,
        one_pass: bool,
    ) -> PyResult<Self> {
        let n = integer(n, "n", "a positive integer")?;
        let seed = integer(seed, "seed", "an integer from 0 to 2**64 - 1, or 'random'")?;
        let real = flag(real, "real")?;
        let mut problem = Problem::new(n).seed(seed).taper(parse_taper(taper)?);
        let mut half = None;
        if let Some(k) = k {
            let k = integer(k, "k", "a non-negative integer or None")?;
            let places = if real { n / 2 + 1 } else { n };
            if n > 0 && k > places {
                return Err(PyValueError::new_err(format!(
                    "k = {k} exceeds the number of coefficients, {places}; k must be between 0 \
                     and that"
                )));
            }
            // Every coefficient of a real signal has at most one conjugate beside it.
            problem = problem.sparsity(if real { (2 * k).min(n) } else { k });
            half = real.then_some(k);
        }
        if let Some(tol) = number(tol, "tol")? {
            problem = problem.tolerance(tol);
        }
        if let Some(db) = number(snr, "snr")? {
            problem =
                problem.noise(if db == f64::INFINITY { Noise::Exact } else { Noise::Snr(db) });
        }
        if let Some(p) = number(failure_probability, "failure_probability")? {
            problem = problem.failure_probability(p);
        }
        let algorithm: Algorithm = word(algorithm, "algorithm")?
            .parse()
            .map_err(|e: String| PyValueError::new_err(format!("algorithm: {e}")))?;
        let fallback = match word(fallback, "fallback")?.as_str() {
            "auto" => Fallback::Auto,
            "dense" => Fallback::Dense,
            "never" => Fallback::Never,
            other => {
                return Err(PyValueError::new_err(format!(
                    "fallback = '{other}': it must be 'auto', 'dense' or 'never'"
                )));
            }
        };
        let mut problem = problem.algorithm(algorithm).fallback(fallback);
        if one_pass {
            problem = problem.one_pass();
        }
        let plan = sparsefft::Plan::new(problem).map_err(|e| exception(e, "n"))?;
        Ok(Plan {
            plan,
            real,
            half,
            #[cfg(feature = "cuda")]
            on_gpu: Default::default(),
        })
    }

    /// (indices, values, run) of one signal, or for an array of more dimensions a list of these.
    /// `gpu` is the number of the GPU that is to transform an array in ordinary memory.
    #[pyo3(signature = (x, axis, norm, workers, gpu=None))]
    fn transform<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        axis: isize,
        norm: Option<&str>,
        workers: usize,
        gpu: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        let norm = parse_norm(norm)?;
        let runner = Runner::new(workers)?;
        #[cfg(feature = "cuda")]
        if let Ok(x) = x.cast::<DeviceArray>() {
            return self.transform_on_gpu(x, axis, norm, &runner);
        }
        let x = x.cast::<PyUntypedArray>()?;
        let signals = Signals::new(x, axis, "x")?;
        self.check_kind(signals.element.is_real())?;
        let single = signals.element.is_single();
        let transform = self.transform_with(gpu)?;
        if signals.is_single() {
            let signal = signals.get(0);
            let spectrum = runner.run(py, "x", || transform.one(&signal))?;
            return Ok(self.finish(py, spectrum, norm, single)?.into_any());
        }
        let all: Vec<_> = (0..signals.count()).map(|i| signals.get(i)).collect();
        let spectra = runner.run(py, "x", || Ok(transform.batch(&all)))?;
        let lengths: Vec<usize> = signals.lengths().collect();
        self.finish_all(py, spectra, &lengths, norm, single)
    }

    /// (indices, values, run) of the signal that a callable gives.
    fn transform_from<'py>(
        &self,
        py: Python<'py>,
        f: Py<PyAny>,
        norm: Option<&str>,
        workers: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let norm = parse_norm(norm)?;
        if !f.bind(py).is_callable() {
            return Err(PyTypeError::new_err("f must be callable: f(indices) gives the samples"));
        }
        let source = Callable::new(f, self.plan.problem().n(), self.real);
        let done = Runner::new(workers)?.run(py, "f", || self.plan.transform(&source));
        if let Some(error) = source.raised() {
            return Err(error);
        }
        self.finish(py, done?, norm, false)
    }

    /// The samples that the first pass reads.
    fn sample_indices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let listed = Runner::new(0)?.run(py, "n", || {
            let mut indices = self.plan.sample_indices();
            let mut all = Vec::new();
            // A dense transform reads every sample, up to 2^52 of them.
            while let Some(index) = indices.next() {
                if all.len() == all.capacity() {
                    let more = indices.size_hint().0.saturating_add(1).max(all.len());
                    if all.try_reserve(more).is_err() {
                        return Ok(None);
                    }
                }
                all.push(index as i64);
            }
            Ok(Some(all))
        })?;
        let Some(all) = listed else {
            return Err(PyMemoryError::new_err(format!(
                "the indices of all samples that this plan reads, of n = {}, do not fit in memory",
                self.plan.problem().n()
            )));
        };
        Ok(PyArray1::from_vec(py, all))
    }

    /// What will be done, in words.
    fn explain(&self) -> String {
        self.plan.to_string()
    }

    /// The algorithm that runs first.
    #[getter]
    fn algorithm(&self) -> &'static str {
        self.plan.recipe().algorithm.name()
    }
}

/// Where signals in ordinary memory are transformed.
enum Transform<'a> {
    Cpu(&'a sparsefft::Plan),
    #[cfg(feature = "cuda")]
    Gpu(std::sync::Arc<CudaPlan>),
}

impl Transform<'_> {
    fn one(&self, signal: &impl Samples) -> Result<Spectrum, sparsefft::Error> {
        match self {
            Transform::Cpu(plan) => plan.transform(signal),
            #[cfg(feature = "cuda")]
            Transform::Gpu(plan) => plan.transform_samples(signal),
        }
    }

    fn batch(&self, signals: &[Box<dyn Samples>]) -> Vec<Result<Spectrum, sparsefft::Error>> {
        match self {
            Transform::Cpu(plan) => plan.transform_batch(signals),
            #[cfg(feature = "cuda")]
            Transform::Gpu(plan) => signals.iter().map(|s| plan.transform_samples(s)).collect(),
        }
    }
}

#[cfg(feature = "cuda")]
impl Plan {
    /// The plan on a GPU, made at its first use.
    fn ready(
        &self,
        device: &sparsefft::cuda::Device,
    ) -> Result<std::sync::Arc<CudaPlan>, sparsefft::Error> {
        let mut plans = self.on_gpu.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(ordinal, _)| *ordinal == device.ordinal()) {
            return Ok(plan.clone());
        }
        let plan = std::sync::Arc::new(CudaPlan::new(device, self.plan.problem().clone())?);
        plans.push((device.ordinal(), plan.clone()));
        Ok(plan)
    }

    /// As [`Plan::transform`], of an array in the memory of a GPU.
    fn transform_on_gpu<'py>(
        &self,
        x: &Bound<'py, DeviceArray>,
        axis: isize,
        norm: Norm,
        runner: &Runner,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, array) = (x.py(), x.get());
        self.check_kind(array.is_real())?;
        let (signals, lengths) = array.signals(axis)?;
        let mut spectra = runner.run(py, "x", || {
            let plan = self.ready(array.device())?;
            Ok(plan.transform_batch(&signals))
        })?;
        if lengths.is_empty() {
            let spectrum = spectra.pop().unwrap_or(Err(sparsefft::Error::ZeroLength));
            let spectrum = spectrum.map_err(|e| exception(e, "x"))?;
            return Ok(self.finish(py, spectrum, norm, array.is_single())?.into_any());
        }
        self.finish_all(py, spectra, &lengths, norm, array.is_single())
    }
}

impl Plan {
    /// Who transforms signals in ordinary memory: the CPU, or the GPU with this number.
    fn transform_with(&self, gpu: Option<u32>) -> PyResult<Transform<'_>> {
        match gpu {
            None => Ok(Transform::Cpu(&self.plan)),
            #[cfg(feature = "cuda")]
            Some(ordinal) => {
                let ready = self.ready(&crate::device::open(ordinal)?);
                Ok(Transform::Gpu(ready.map_err(|e| exception(e, "device"))?))
            }
            #[cfg(not(feature = "cuda"))]
            Some(_) => Err(PyValueError::new_err("this build of sparsefft has no CUDA backend")),
        }
    }

    fn check_kind(&self, real: bool) -> PyResult<()> {
        if real || !self.real {
            return Ok(());
        }
        Err(PyTypeError::new_err(
            "x is complex, but the plan is for a real signal; use fft, or Plan with real=False",
        ))
    }

    /// The spectra of a batch, or the first error, which names its signal among the other axes.
    fn finish_all<'py>(
        &self,
        py: Python<'py>,
        spectra: Vec<Result<Spectrum, sparsefft::Error>>,
        lengths: &[usize],
        norm: Norm,
        single: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        for (i, spectrum) in spectra.into_iter().enumerate() {
            let spectrum = spectrum.map_err(|e| {
                exception(e, &format!("x, signal {:?} of the other axes", place(i, lengths)))
            })?;
            list.append(self.finish(py, spectrum, norm, single)?)?;
        }
        Ok(list.into_any())
    }

    /// The library's plan.
    pub fn native(&self) -> &sparsefft::Plan {
        &self.plan
    }

    /// The answer as arrays.
    pub fn finish<'py>(
        &self,
        py: Python<'py>,
        spectrum: Spectrum,
        norm: Norm,
        single: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let factor = norm.factor(spectrum.n(), Direction::Forward);
        let halved;
        let peaks = if self.real {
            halved = half(&spectrum, self.half);
            &halved[..]
        } else {
            spectrum.peaks()
        };
        let indices: Vec<i64> = peaks.iter().map(|p| p.index as i64).collect();
        let indices = PyArray1::from_slice(py, &indices);
        let values: Vec<Complex<f64>> = peaks.iter().map(|p| p.value * factor).collect();
        let values = if single {
            let narrow: Vec<_> =
                values.iter().map(|v| Complex::new(v.re as f32, v.im as f32)).collect();
            let lost = narrow.iter().position(|v| !(v.re.is_finite() && v.im.is_finite()));
            if let Some(i) = lost {
                return Err(PyOverflowError::new_err(format!(
                    "x: the coefficient at index {} has magnitude {:e}, more than complex64 holds \
                     ({:e}); ask for norm='forward', or convert x to 64-bit floats",
                    peaks[i].index,
                    values[i].norm(),
                    f32::MAX
                )));
            }
            PyArray1::from_slice(py, &narrow).into_any()
        } else {
            PyArray1::from_slice(py, &values).into_any()
        };
        (indices, values, Run { spectrum }).into_pyobject(py)
    }
}

/// The coefficients 0 … n/2, or the k largest of them.
fn half(spectrum: &Spectrum, k: Option<u64>) -> Vec<Peak> {
    let lower = |p: &Peak| p.index <= spectrum.n() / 2;
    match k {
        Some(k) => {
            let mut peaks = spectrum.top(spectrum.peaks().len());
            peaks.retain(lower);
            peaks.truncate(k as usize);
            peaks.sort_unstable_by_key(|p| p.index);
            peaks
        }
        None => spectrum.peaks().iter().copied().filter(lower).collect(),
    }
}

/// The fields of a certificate, and it in words.
pub fn certificate<'py>(py: Python<'py>, c: &Certificate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("verdict", c.verdict.name())?;
    dict.set_item("reason", &c.reason)?;
    dict.set_item("bins_tested", c.bins_tested)?;
    dict.set_item("bins_unexplained", c.bins_unexplained)?;
    dict.set_item("residual_energy", c.residual_energy)?;
    dict.set_item("noise_floor", c.noise_floor)?;
    dict.set_item("detection_limit", c.detection_limit)?;
    dict.set_item("rest_limit", c.rest_limit)?;
    dict.set_item("failure_probability", c.failure_probability)?;
    dict.set_item("attempts", c.attempts)?;
    dict.set_item("text", c.to_string())?;
    Ok(dict)
}

/// Seconds by stage.
pub fn stages<'py>(py: Python<'py>, stages: &[(Stage, Duration)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (stage, time) in stages {
        dict.set_item(stage.name(), time.as_secs_f64())?;
    }
    Ok(dict)
}

/// The certificate and the report of one transform.
#[pyclass(frozen, module = "sparsefft._native")]
pub struct Run {
    spectrum: Spectrum,
}

#[pymethods]
impl Run {
    /// The fields of the certificate, and it in words.
    fn certificate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        certificate(py, self.spectrum.certificate())
    }

    /// The fields of the report; times in seconds.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let r = self.spectrum.report();
        let dict = PyDict::new(py);
        dict.set_item("algorithm", r.algorithm.name())?;
        dict.set_item("samples_read", r.samples_read)?;
        dict.set_item("seed", r.seed)?;
        dict.set_item("left_out", r.left_out)?;
        dict.set_item("stages", stages(py, &r.stages)?)?;
        dict.set_item("elapsed", r.elapsed.as_secs_f64())?;
        dict.set_item("device", r.place.to_string())?;
        Ok(dict)
    }
}

/// The samples start … stop-1 that unnormalised coefficients make.
#[pyfunction]
pub fn synthesize<'py>(
    py: Python<'py>,
    n: u64,
    indices: PyReadonlyArray1<'py, i64>,
    values: PyReadonlyArray1<'py, Complex<f64>>,
    start: u64,
    stop: u64,
) -> PyResult<Bound<'py, PyArray1<Complex<f64>>>> {
    let (indices, values) = (indices.as_array(), values.as_array());
    let peaks = indices.iter().zip(values);
    // A negative index becomes one beyond n, which is refused.
    let peaks = peaks.map(|(&i, &value)| Peak { index: i as u64, value }).collect();
    // Neither is looked at.
    let certificate = Certificate::new(Verdict::Uncertified);
    let report = Report::new(Algorithm::Auto, 0);
    let samples = Runner::new(0)?
        .run(py, "n", || Spectrum::new(n, peaks, certificate, report)?.synthesize(start..stop))?;
    Ok(PyArray1::from_vec(py, samples))
}
