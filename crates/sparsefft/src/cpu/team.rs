//! A team: threads that wait for pieces of work while one transform runs.
//!
//! A transform of a millisecond has a dozen steps that can be shared out, each of some ten
//! microseconds. Waking a sleeping thread for each would take longer than the step, so the helpers of
//! a team stay awake until the transform ends, and look for work at one place in memory.
//!
//! [`gather`] calls its function with a team; inside, [`share`] hands out numbered pieces. Each member
//! begins with a range of its own, the same every time, so that what it wrote in one step is still in
//! its cache in the next; then it takes what others have left. Who does a piece never changes what it
//! computes. [`beside`] gives a helper one long piece while this thread does something else.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the pieces do.
type Job<'a> = &'a (dyn Fn(usize) + Sync);

/// The place that helpers look at.
#[derive(Default)]
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // there is no team then
struct Team {
    /// One bit for every piece of the present job that nobody has taken.
    free: AtomicU64,
    /// Pieces of the present job, for members to find their range.
    pieces: AtomicUsize,
    /// Pieces that have ended.
    done: AtomicUsize,
    /// The present job: a pointer to it, valid as long as pieces are out.
    job: AtomicPtr<Job<'static>>,
    /// A job beside the present one, and how far it is.
    beside: AtomicPtr<Job<'static>>,
    state: AtomicU8,
    failed: AtomicBool,
    over: AtomicBool,
    members: usize,
}

/// States of a job beside: there is none, it waits for somebody, somebody does it, it is done.
const NONE: u8 = 0;
const WAITING: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

thread_local! {
    /// The team of the transform that this thread runs.
    static TEAM: Cell<*const Team> = const { Cell::new(std::ptr::null()) };
}

/// Looks without work after which a helper lets other programs run.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
const PATIENCE: u32 = 2000;

/// Runs `f` with a team of all threads of the pool, if `wanted` and there are several.
pub(crate) fn gather<R>(wanted: bool, f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "rayon")]
    if wanted && members() == 1 && rayon::current_num_threads() > 1 {
        let team = Team { members: rayon::current_num_threads(), ..Team::default() };
        /// Sends the helpers home, also when `f` panics.
        struct Over<'a>(&'a Team);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                TEAM.set(std::ptr::null());
                self.0.over.store(true, Ordering::Release);
            }
        }
        let mut result = None;
        rayon::in_place_scope(|scope| {
            for member in 1..team.members {
                let team = &team;
                scope.spawn(move |_| team.help(member));
            }
            let _over = Over(&team);
            TEAM.set(&raw const team);
            result = Some(f());
        });
        return result.expect("the scope has run");
    }
    let _ = wanted;
    f()
}

/// Threads that [`share`] hands pieces to.
pub(crate) fn members() -> usize {
    let team = TEAM.get();
    // SAFETY: the pointer is set only while the team lives, by the thread that owns it.
    if team.is_null() { 1 } else { unsafe { (*team).members } }
}

/// Calls `job` for every piece 0 … `pieces`-1, by all members of this thread's team.
pub(crate) fn share(pieces: usize, job: impl Fn(usize) + Sync) {
    let team = TEAM.get();
    if team.is_null() || pieces < 2 {
        return (0..pieces).for_each(job);
    }
    // One bit each: more pieces than bits go in groups.
    let groups = pieces.min(u64::BITS as usize);
    let group = |g: usize| (g * pieces / groups..(g + 1) * pieces / groups).for_each(&job);
    // SAFETY: as in `members`.
    unsafe { &*team }.share(groups, &group);
}

/// Calls `f`, and meanwhile `job` by a helper of this thread's team, or after it.
pub(crate) fn beside<R>(job: impl FnOnce() + Send, f: impl FnOnce() -> R) -> R {
    let team = TEAM.get();
    if team.is_null() {
        let result = f();
        job();
        return result;
    }
    let job = Mutex::new(Some(job));
    let once = |_| {
        let taken = job.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(job) = taken {
            job();
        }
    };
    // SAFETY: as in `members`.
    unsafe { &*team }.beside(&once, f)
}

#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // there are no helpers then
impl Team {
    /// A helper's life.
    fn help(&self, member: usize) {
        let mut idle = 0u32;
        while !self.over.load(Ordering::Acquire) {
            if self.work_beside() || self.work(member) {
                idle = 0;
            } else {
                idle += 1;
                if idle < PATIENCE { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
    }

    /// Does one piece, if there is one.
    fn work(&self, member: usize) -> bool {
        let free = self.free.load(Ordering::Acquire);
        if free == 0 {
            return false;
        }
        // Where a member begins is a matter of speed alone, so an old number of pieces does no harm.
        let pieces = self.pieces.load(Ordering::Relaxed);
        let own = free >> (member * pieces / self.members);
        let piece = match own {
            0 => free.ilog2(),
            own => own.trailing_zeros() + (member * pieces / self.members) as u32,
        };
        if self.free.fetch_and(!(1 << piece), Ordering::AcqRel) >> piece & 1 == 0 {
            return true; // someone was faster; there may be others
        }
        // SAFETY: the job lives until every piece has ended, and this one has not.
        let job = unsafe { *self.job.load(Ordering::Acquire) };
        if catch_unwind(AssertUnwindSafe(|| job(piece as usize))).is_err() {
            self.failed.store(true, Ordering::Release);
        }
        self.done.fetch_add(1, Ordering::Release);
        true
    }

    /// Does the job beside, if there is one that nobody does.
    fn work_beside(&self) -> bool {
        if self.state.load(Ordering::Relaxed) != WAITING
            || self
                .state
                .compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        // SAFETY: the job lives until it is done, and this is who does it.
        let job = unsafe { *self.beside.load(Ordering::Acquire) };
        if catch_unwind(AssertUnwindSafe(|| job(0))).is_err() {
            self.failed.store(true, Ordering::Release);
        }
        self.state.store(DONE, Ordering::Release);
        true
    }

    /// Calls `f` while some member does the job, and returns when both are done.
    fn beside<R>(&self, job: Job<'_>, f: impl FnOnce() -> R) -> R {
        /// Waits for the job, also when `f` panics.
        struct Wait<'a>(&'a Team);
        impl Drop for Wait<'_> {
            fn drop(&mut self) {
                self.0.work_beside();
                while self.0.state.load(Ordering::Acquire) != DONE {
                    std::hint::spin_loop();
                }
                self.0.state.store(NONE, Ordering::Relaxed);
            }
        }
        // SAFETY: only the lifetime changes; this function returns when nobody uses the job any more.
        let mut job: Job<'static> = unsafe { std::mem::transmute(job) };
        self.beside.store(&raw mut job, Ordering::Release);
        self.state.store(WAITING, Ordering::Release);
        let wait = Wait(self);
        let result = f();
        drop(wait);
        self.complain();
        result
    }

    /// Passes on that a piece has panicked.
    fn complain(&self) {
        if self.failed.swap(false, Ordering::AcqRel) {
            resume_unwind(Box::new("a piece of the work panicked"));
        }
    }

    /// Has all members do the pieces, of which there are at most 64.
    fn share(&self, pieces: usize, job: Job<'_>) {
        // SAFETY: only the lifetime changes; this function returns when nobody uses the job any more.
        let mut job: Job<'static> = unsafe { std::mem::transmute(job) };
        self.done.store(0, Ordering::Relaxed);
        self.pieces.store(pieces, Ordering::Relaxed);
        self.job.store(&raw mut job, Ordering::Release);
        self.free.store(u64::MAX >> (u64::BITS as usize - pieces), Ordering::Release);
        while self.work(0) {}
        while self.done.load(Ordering::Acquire) < pieces {
            std::hint::spin_loop();
        }
        self.complain();
    }
}

#[cfg(all(test, feature = "rayon"))]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        assert_eq!(members(), 1);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                gather(true, || {
                    assert_eq!(members(), threads);
                    for pieces in [0, 1, 2, 7, 1000] {
                        for _ in 0..50 {
                            let counts: Vec<AtomicUsize> = (0..pieces).map(|_| 0.into()).collect();
                            share(pieces, |i| _ = counts[i].fetch_add(1, Ordering::Relaxed));
                            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
                        }
                    }
                });
                assert_eq!(members(), 1);
            });
        }
    }

    #[test]
    fn a_job_beside_is_done_once_by_somebody() {
        let mut count = 0;
        assert_eq!(beside(|| count += 1, || 7), 7);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                gather(true, || {
                    for pieces in [0, 1, 40] {
                        let others = AtomicUsize::new(0);
                        let add = |_| _ = others.fetch_add(1, Ordering::Relaxed);
                        // A piece within the job is its own; pieces meanwhile go to everybody.
                        let both = beside(
                            || {
                                assert!(members() == 1 || members() == threads);
                                count += 1;
                            },
                            || {
                                share(pieces, add);
                                others.load(Ordering::Relaxed)
                            },
                        );
                        assert_eq!(both, pieces);
                    }
                });
            });
        }
        assert_eq!(count, 10);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        for (job, f) in [(true, false), (false, true)] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.install(|| gather(true, || beside(|| assert!(!job), || assert!(!f))));
            }));
            assert!(outcome.is_err());
        }
    }

    #[test]
    fn a_panic_ends_the_team_and_comes_out() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| gather(true, || share(100, |i| assert!(i != 57))));
        }));
        assert!(outcome.is_err());
        pool.install(|| gather(true, || share(100, |_| ())));
        assert_eq!(pool.install(members), 1);
    }
}
