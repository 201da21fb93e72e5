//! Work on several threads, or on as many as there are.

use std::sync::Mutex;
use std::thread::Builder;

/// Lets the library work on this thread alone where the system hands out no other: its thread pool
/// cannot be made then, and would panic.
pub fn prepare() {
    if Builder::new().spawn(|| ()).map(|thread| thread.join()).is_err() {
        // It fails where there is a pool already, which is as good.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
    }
}

/// Runs `work` on every item: a thread for each, as far as the system hands them out; what no
/// thread is there for is done by this one.
pub fn each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let count = items.len();
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().unwrap_or_else(|e| e.into_inner()).next();
    let run = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    std::thread::scope(|s| {
        for _ in 1..count {
            if Builder::new().spawn_scoped(s, run).is_err() {
                break;
            }
        }
        run();
    });
}
