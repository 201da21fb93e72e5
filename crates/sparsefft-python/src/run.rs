//! How native work is run: interpreter lock released, on the threads asked for, panics caught.
//!
//! Without `workers` a transform runs on the calling thread and takes help from rayon's global
//! pool. A forked child has none of its parent's threads, so there everything runs in pools that
//! the child makes itself.

use crate::error::exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sparsefft::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of forks between this process and the one that loaded the module.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Pools by number of threads, each with the fork it belongs to. Used with the interpreter lock
/// held, which `os.fork` holds as well: no fork happens while the mutex is locked.
static POOLS: Mutex<Vec<(usize, usize, Arc<ThreadPool>)>> = Mutex::new(Vec::new());

/// How many pools are kept. The threads of an older one end when its last work is done.
const KEPT: usize = 4;

/// Where work is run.
pub struct Runner {
    pool: Option<Arc<ThreadPool>>,
}

impl Runner {
    /// For this number of workers, but at most [`sparsefft::most_threads`]; 0 leaves the number to
    /// the machine.
    pub fn new(workers: usize) -> PyResult<Self> {
        let forks = FORKS.load(Ordering::Relaxed);
        if workers == 0 && forks == 0 {
            return Ok(Runner { pool: None });
        }
        let workers = workers.min(sparsefft::most_threads());
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = pools.iter().position(|(f, w, _)| (*f, *w) == (forks, workers)) {
            let used = pools.remove(i);
            let pool = used.2.clone();
            pools.push(used);
            return Ok(Runner { pool: Some(pool) });
        }
        let pool = ThreadPoolBuilder::new().num_threads(workers).build().map_err(|e| {
            PyRuntimeError::new_err(format!("workers: {workers} threads cannot be started: {e}"))
        })?;
        let pool = Arc::new(pool);
        if pools.len() >= KEPT {
            let (fork, _, oldest) = pools.remove(0);
            if fork != forks {
                // A parent's threads do not exist here, and their locks may be held for ever.
                std::mem::forget(oldest);
            }
        }
        pools.push((forks, workers, pool.clone()));
        Ok(Runner { pool: Some(pool) })
    }

    /// Runs `work` without the interpreter lock. A panic becomes a `RuntimeError`; errors name
    /// `argument`.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        argument: &str,
        work: impl FnOnce() -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let guarded = || {
            // The plan's caches and buffers stay valid whatever a panic interrupts.
            catch_unwind(AssertUnwindSafe(|| match &self.pool {
                None => work(),
                Some(pool) => pool.install(work),
            }))
        };
        match py.detach(guarded) {
            Ok(done) => done.map_err(|e| exception(e, argument)),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Err(PyRuntimeError::new_err(format!(
                    "sparsefft has a bug; please report it: {}",
                    text.as_deref().unwrap_or("a panic without a message")
                )))
            }
        }
    }
}

/// How often this process was forked off since the module was loaded.
#[cfg(feature = "cuda")]
pub fn forks() -> usize {
    FORKS.load(Ordering::Relaxed)
}

/// Called in a child process after a fork.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Panics inside the guard, so that a test can see what arrives.
#[pyfunction]
#[pyo3(name = "_panic_for_tests")]
pub fn panic_for_tests(py: Python<'_>, workers: usize) -> PyResult<()> {
    Runner::new(workers)?.run(py, "x", || panic!("asked for"))
}
