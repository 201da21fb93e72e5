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
//!
//! Cores that share no cache take several times as long to hand each other a line, and then many a
//! transform is done sooner by one of them. A helper therefore sees how long the first lines take to come,
//! and stays away from middling work if that is long; who finds nobody near goes on alone for a while.

use super::ticks;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::cell::Cell;
#[cfg(not(loom))]
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Somebody else must get on before there is anything to see.
#[cfg(loom)]
fn spin_loop() {
    loom::thread::yield_now();
}

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
    /// Helpers that have come to see, that stay, and that have left after that.
    came: AtomicUsize,
    stayed: AtomicUsize,
    left: AtomicUsize,
    /// Lines that the thread which gathers has just written.
    written: [Written; 16],
}

/// A line, and the next one, which may come with it.
#[derive(Default)]
#[repr(align(128))]
struct Written(AtomicU64);

/// How a transform wants its helpers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// Not at all.
    None,
    /// Those who share a cache with this thread.
    Near,
    /// All.
    All,
}

/// States of a job beside: there is none, it waits for somebody, somebody does it, it is done.
const NONE: u8 = 0;
const WAITING: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

thread_local! {
    /// The team of the transform that this thread runs.
    static TEAM: Cell<*const Team> = const { Cell::new(std::ptr::null()) };
    /// Teams of near ones that this thread will not gather, since nobody was near.
    #[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
    static ALONE: Cell<u32> = const { Cell::new(0) };
}

/// Nanoseconds that a line takes at most to come from a core that shares a cache; around 50 were measured
/// for these and around 145 for others.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
const NEAR: f64 = 120.0;
/// Transforms after which a thread that found nobody near looks again: threads move.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
const SELDOM: u32 = 16;
/// Looks at helpers that leave, and some more for the pool to notice, before this thread waits like any
/// other, which takes microseconds.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
const FAREWELL: [u32; 2] = [500, 16];

/// Looks without work after which a helper lets other programs run.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
const PATIENCE: u32 = 2000;

/// Runs `f` with a team of threads of the pool, if they are wanted and there are several.
pub(crate) fn gather<R>(wanted: Wanted, f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "rayon")]
    if wanted != Wanted::None && members() == 1 && rayon::current_num_threads() > 1 {
        let alone = ALONE.get();
        if wanted == Wanted::Near && alone > 0 {
            ALONE.set(alone - 1);
            return f();
        }
        let team = Team { members: rayon::current_num_threads(), ..Team::default() };
        team.written.iter().for_each(|line| line.0.store(1, Ordering::Relaxed));
        /// Sends the helpers home, also when `f` panics.
        struct Over<'a>(&'a Team);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                TEAM.set(std::ptr::null());
                self.0.over.store(true, Ordering::Release);
                self.0.take_leave();
            }
        }
        let mut result = None;
        rayon::in_place_scope(|scope| {
            for member in 1..team.members {
                let team = &team;
                scope.spawn(move |_| team.help(member, wanted));
            }
            let _over = Over(&team);
            TEAM.set(&raw const team);
            result = Some(f());
        });
        let far = team.came.into_inner() > 0 && team.stayed.into_inner() == 0;
        ALONE.set(if far { SELDOM } else { 0 });
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
    fn help(&self, member: usize, wanted: Wanted) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        self.came.fetch_add(1, Ordering::Relaxed);
        if wanted == Wanted::Near && self.is_far() {
            return;
        }
        self.stayed.fetch_add(1, Ordering::Relaxed);
        let mut idle = 0u32;
        while !self.over.load(Ordering::Acquire) {
            if self.work_beside() || self.work(member) {
                idle = 0;
            } else {
                idle += 1;
                if idle < PATIENCE || cfg!(loom) { spin_loop() } else { std::thread::yield_now() }
            }
        }
        self.left.fetch_add(1, Ordering::Release);
    }

    /// Whether lines take long to come here from the core that has gathered this team.
    fn is_far(&self) -> bool {
        // In an order that processors do not foresee; an interrupt may prolong one or two.
        let mut times = [11, 3, 14, 6, 1].map(|i| {
            let line = &self.written[i].0;
            ticks::time(|| line.load(Ordering::Relaxed)).unwrap_or(0.0)
        });
        times.sort_unstable_by(f64::total_cmp);
        times[2] > NEAR
    }

    /// Waits for helpers that leave, but not for long.
    fn take_leave(&self) {
        let [longest, more] = FAREWELL;
        let stayed = self.stayed.load(Ordering::Relaxed);
        let still = |_: &u32| self.left.load(Ordering::Acquire) < stayed;
        (0..longest).take_while(still).for_each(|_| spin_loop());
        (0..more).for_each(|_| spin_loop());
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
                    spin_loop();
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
            spin_loop();
        }
        self.complain();
    }
}

/// All orders in which two or three members may take their steps, within the memory model of the language;
/// cells that are no atomics find out whether one sees what another wrote. `models` builds them.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A number for each piece, written by whoever does it and by nobody at the same time.
    struct Cells(Vec<UnsafeCell<usize>>);

    // SAFETY: loom watches every access and fails the model where two may meet.
    unsafe impl Sync for Cells {}
    // SAFETY: as above.
    unsafe impl Send for Cells {}

    impl Cells {
        fn new(count: usize) -> Self {
            Cells((0..count).map(|_| UnsafeCell::new(0)).collect())
        }
        fn add(&self, i: usize) {
            // SAFETY: loom watches.
            self.0[i].with_mut(|v| unsafe { *v += 1 });
        }
        fn get(&self, i: usize) -> usize {
            // SAFETY: loom watches.
            self.0[i].with(|v| unsafe { *v })
        }
        fn all(&self, times: usize) -> bool {
            (0..self.0.len()).all(|i| self.get(i) == times)
        }
    }

    /// Runs `f` with helpers that look for work so many times, in every order with at most so many
    /// preemptions. (Helpers that look until they are sent home have no longest order; and loom remembers
    /// seven values of an atomic, so that models are small.)
    fn check(members: usize, looks: usize, preemptions: usize, f: fn(&Team)) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.max_branches = 20_000;
        model.check(move || {
            let team = Arc::new(Team { members, ..Team::default() });
            let helpers: Vec<_> = (1..members)
                .map(|member| {
                    let team = team.clone();
                    thread::spawn(move || {
                        for _ in 0..looks {
                            let _ = team.work_beside() || team.work(member);
                        }
                    })
                })
                .collect();
            f(&team);
            helpers.into_iter().for_each(|h| h.join().unwrap());
        });
    }

    #[test]
    fn pieces_are_done_once_and_seen() {
        check(2, 2, 4, |team| {
            let cells = Cells::new(2);
            team.share(2, &|i| cells.add(i));
            assert!(cells.all(1));
        });
    }

    #[test]
    fn three_members() {
        check(3, 1, 3, |team| {
            let cells = Cells::new(3);
            team.share(3, &|i| cells.add(i));
            assert!(cells.all(1));
        });
    }

    #[test]
    fn a_job_beside() {
        check(2, 2, 2, |team| {
            let (side, own) = (Cells::new(1), Cells::new(2));
            team.beside(&|_| side.add(0), || team.share(2, &|i| own.add(i)));
            assert!(side.all(1) && own.all(1));
        });
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
                gather(Wanted::All, || {
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
                gather(Wanted::All, || {
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
                pool.install(|| gather(Wanted::All, || beside(|| assert!(!job), || assert!(!f))));
            }));
            assert!(outcome.is_err());
        }
    }

    #[test]
    fn who_finds_nobody_near_goes_on_alone_for_a_while() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| {
            ALONE.set(2);
            let sizes = [Wanted::Near, Wanted::All, Wanted::None, Wanted::Near].map(|wanted| {
                let all = gather(wanted, members);
                (wanted, all, ALONE.get())
            });
            assert_eq!(sizes[0], (Wanted::Near, 1, 1));
            // Those who want all have them, and none of these came in vain.
            assert_eq!(sizes[1], (Wanted::All, 3, 0));
            assert_eq!(sizes[2], (Wanted::None, 1, 0));
            assert_eq!((sizes[3].0, sizes[3].1), (Wanted::Near, 3));
            // Near or far, all work is done.
            for _ in 0..100 {
                let sum = AtomicUsize::new(0);
                gather(Wanted::Near, || share(50, |i| _ = sum.fetch_add(i, Ordering::Relaxed)));
                assert_eq!(sum.into_inner(), 49 * 50 / 2);
                assert!(ALONE.get() <= SELDOM);
            }
        });
    }

    #[test]
    fn a_panic_ends_the_team_and_comes_out() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| gather(Wanted::All, || share(100, |i| assert!(i != 57))));
        }));
        assert!(outcome.is_err());
        pool.install(|| gather(Wanted::All, || share(100, |_| ())));
        assert_eq!(pool.install(members), 1);
    }
}
