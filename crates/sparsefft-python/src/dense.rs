//! The dense FFT over the last axis of contiguous arrays.

use crate::plan::parse_norm;
use crate::run::Runner;
use numpy::{
    Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArray,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rayon::prelude::*;
use sparsefft::dense::{Direction, Fft, Real, RealFft, Threads, Workspace};
use sparsefft::{Complex, Error, Norm};
use std::sync::{Mutex, PoisonError};

/// Plans that were used lately, the last one first.
struct Recent<P>(Mutex<Vec<(u64, P)>>);

/// How many lengths are remembered for each type.
const REMEMBERED: usize = 16;

impl<P: Clone> Recent<P> {
    const fn new() -> Self {
        Recent(Mutex::new(Vec::new()))
    }

    fn get(&self, n: u64, make: impl FnOnce() -> Result<P, Error>) -> Result<P, Error> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match plans.iter().position(|(len, _)| *len == n) {
            Some(i) => plans.remove(i),
            None => (n, make()?),
        };
        let plan = entry.1.clone();
        plans.insert(0, entry);
        plans.truncate(REMEMBERED);
        Ok(plan)
    }
}

/// A precision with its plans.
trait Precision: Real + Element {
    fn complex_plans() -> &'static Recent<Fft<Self>>;
    fn real_plans() -> &'static Recent<RealFft<Self>>;
}

macro_rules! precisions {
    ($($t:ty),*) => {$(
        impl Precision for $t {
            fn complex_plans() -> &'static Recent<Fft<Self>> {
                static PLANS: Recent<Fft<$t>> = Recent::new();
                &PLANS
            }
            fn real_plans() -> &'static Recent<RealFft<Self>> {
                static PLANS: Recent<RealFft<$t>> = Recent::new();
                &PLANS
            }
        }
    )*};
}
precisions!(f32, f64);

/// How a call is to be run.
struct Job {
    n: usize,
    direction: Direction,
    norm: Norm,
    threads: Threads,
}

/// Transforms the last axis of `x` into `out`, both in C order. The types decide: complex to
/// complex, real to half complex (forward), half complex to real (inverse).
#[pyfunction]
pub fn dense(
    py: Python<'_>,
    x: &Bound<'_, PyUntypedArray>,
    out: &Bound<'_, PyUntypedArray>,
    n: usize,
    inverse: bool,
    norm: Option<&str>,
    workers: usize,
) -> PyResult<()> {
    let norm = parse_norm(norm)?;
    let direction = if inverse { Direction::Inverse } else { Direction::Forward };
    // One worker is the calling thread; a pool of one would only add a way there and back.
    let threads = if workers == 1 { Threads::One } else { Threads::All };
    let runner = Runner::new(if workers == 1 { 0 } else { workers })?;
    let job = Job { n, direction, norm, threads };
    let done = match inverse {
        _ if job.complex::<f64>(py, &runner, x, out)? => true,
        _ if job.complex::<f32>(py, &runner, x, out)? => true,
        false => {
            job.to_half::<f64>(py, &runner, x, out)? || job.to_half::<f32>(py, &runner, x, out)?
        }
        true => {
            job.to_real::<f64>(py, &runner, x, out)? || job.to_real::<f32>(py, &runner, x, out)?
        }
    };
    if done { Ok(()) } else { Err(PyTypeError::new_err("x and out do not go together")) }
}

/// Both arrays, if they hold these types.
type Pair<'py, A, B> = Option<(PyReadonlyArrayDyn<'py, A>, PyReadwriteArrayDyn<'py, B>)>;

fn pair<'py, A: Element, B: Element>(
    x: &Bound<'py, PyUntypedArray>,
    out: &Bound<'py, PyUntypedArray>,
) -> PyResult<Pair<'py, A, B>> {
    let (Ok(x), Ok(out)) = (x.cast::<PyArrayDyn<A>>(), out.cast::<PyArrayDyn<B>>()) else {
        return Ok(None);
    };
    let busy = |e: &dyn std::fmt::Display| PyValueError::new_err(format!("x: {e}"));
    Ok(Some((x.try_readonly().map_err(|e| busy(&e))?, out.try_readwrite().map_err(|e| busy(&e))?)))
}

impl Job {
    fn complex<T: Precision>(
        &self,
        py: Python<'_>,
        runner: &Runner,
        x: &Bound<'_, PyUntypedArray>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<bool>
    where
        Complex<T>: Element,
    {
        let Some((x, mut out)) = pair::<Complex<T>, Complex<T>>(x, out)? else { return Ok(false) };
        let (x, out) = (x.as_slice()?, out.as_slice_mut()?);
        runner.run(py, "x", || {
            let n = self.n as u64;
            let plan = T::complex_plans().get(n, || Fft::new(n))?;
            let plan = plan.norm(self.norm).threads(self.threads);
            plan.batch_into(self.direction, x, out, &mut Workspace::new())
        })?;
        Ok(true)
    }

    fn to_half<T: Precision>(
        &self,
        py: Python<'_>,
        runner: &Runner,
        x: &Bound<'_, PyUntypedArray>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<bool>
    where
        Complex<T>: Element,
    {
        let Some((x, mut out)) = pair::<T, Complex<T>>(x, out)? else { return Ok(false) };
        let (x, out) = (x.as_slice()?, out.as_slice_mut()?);
        runner.run(py, "x", || {
            let plan = self.real::<T>()?;
            self.rows(x, self.n, out, self.n / 2 + 1, |x, out, workspace| {
                plan.forward_with(x, out, workspace)
            })
        })?;
        Ok(true)
    }

    fn to_real<T: Precision>(
        &self,
        py: Python<'_>,
        runner: &Runner,
        x: &Bound<'_, PyUntypedArray>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<bool>
    where
        Complex<T>: Element,
    {
        let Some((x, mut out)) = pair::<Complex<T>, T>(x, out)? else { return Ok(false) };
        let (x, out) = (x.as_slice()?, out.as_slice_mut()?);
        runner.run(py, "x", || {
            let plan = self.real::<T>()?;
            self.rows(x, self.n / 2 + 1, out, self.n, |x, out, workspace| {
                plan.inverse_with(x, out, workspace)
            })
        })?;
        Ok(true)
    }

    fn real<T: Precision>(&self) -> Result<RealFft<T>, Error> {
        let n = self.n as u64;
        let plan = T::real_plans().get(n, || RealFft::new(n))?;
        Ok(plan.norm(self.norm).threads(self.threads))
    }

    /// Transforms row after row, or many short ones at once.
    fn rows<A: Sync, B: Send, T: Real>(
        &self,
        x: &[A],
        input: usize,
        out: &mut [B],
        output: usize,
        one: impl Fn(&[A], &mut [B], &mut Workspace<T>) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        // Longer rows are spread over the threads by their own transform.
        const SHORT: usize = 1 << 16;
        if self.threads == Threads::All && self.n < SHORT && x.len() > 4 * SHORT {
            return x
                .par_chunks(input)
                .zip(out.par_chunks_mut(output))
                .try_for_each_init(Workspace::new, |workspace, (x, out)| one(x, out, workspace));
        }
        let mut workspace = Workspace::new();
        x.chunks(input)
            .zip(out.chunks_mut(output))
            .try_for_each(|(x, out)| one(x, out, &mut workspace))
    }
}
