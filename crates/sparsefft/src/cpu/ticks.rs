//! A clock for transforms that take microseconds: the processor's counter, whose rate is measured once.
//!
//! To ask the system what time it is, at the beginning and at the end, takes as long as reading a few dozen
//! samples. It is asked as long as the rate is unknown, and always where the counter does not run evenly.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use std::time::Instant;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
use still::Instant;

/// A clock that stands still, where there is no system to ask: to call the standard one panics there.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod still {
    use std::time::Duration;

    /// Always the same.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Instant;

    impl Instant {
        pub(super) fn now() -> Self {
            Instant
        }

        pub(super) fn elapsed(self) -> Duration {
            Duration::ZERO
        }
    }
}

/// Time over which the rate is measured; the system's clock is good to a hundred nanoseconds.
const LONG_ENOUGH: Duration = Duration::from_millis(20);

/// When somebody first asked, by both clocks.
static FIRST: OnceLock<(Instant, u64)> = OnceLock::new();
/// Nanoseconds per tick, as the bits of an f64; 0 as long as that is unknown.
static RATE: AtomicU64 = AtomicU64::new(0);

/// The counter.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every processor of this architecture has the counter.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        FIRST.get_or_init(|| (Instant::now(), 0)).0.elapsed().as_nanos() as u64
    }
}

/// Whether the counter runs evenly, whatever the processor does.
#[cfg(target_arch = "x86_64")]
fn is_even() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx >> 8 & 1 == 1
}

/// Where there is no such counter, the system's clock is the only one.
#[cfg(not(target_arch = "x86_64"))]
fn is_even() -> bool {
    false
}

/// A clock that was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    began: u64,
    /// By the system's clock, if the rate was unknown.
    at: Option<Instant>,
}

impl Stopwatch {
    #[inline]
    pub(crate) fn start() -> Self {
        let at = (RATE.load(Ordering::Relaxed) == 0).then(Instant::now);
        Stopwatch { began: ticks(), at }
    }

    /// The counter when it was started.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Time since then.
    #[inline]
    pub(crate) fn elapsed(&self) -> Duration {
        match self.at {
            Some(at) => {
                learn();
                at.elapsed()
            }
            None => {
                let rate = f64::from_bits(RATE.load(Ordering::Relaxed));
                // Nobody may have set the counter back meanwhile.
                let since = ticks().saturating_sub(self.began);
                Duration::from_nanos((since as f64 * rate) as u64)
            }
        }
    }
}

/// The nanoseconds that `f` takes, where that can be told.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // only teams ask
pub(crate) fn time<R>(f: impl FnOnce() -> R) -> Option<f64> {
    let rate = f64::from_bits(RATE.load(Ordering::Relaxed));
    let began = in_order();
    f();
    let took = in_order().saturating_sub(began);
    (rate > 0.0).then_some(took as f64 * rate)
}

/// The counter once all before has ended and before anything after begins.
#[cfg_attr(not(feature = "rayon"), allow(dead_code))] // as above
fn in_order() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::_mm_lfence;
        // SAFETY: every processor of this architecture can wait so.
        unsafe { _mm_lfence() };
        let now = ticks();
        // SAFETY: as above.
        unsafe { _mm_lfence() };
        now
    }
    #[cfg(not(target_arch = "x86_64"))]
    ticks()
}

/// Sets the rate once it can be known.
#[cold]
fn learn() {
    let (first, before) = FIRST.get_or_init(|| (Instant::now(), ticks()));
    let elapsed = first.elapsed();
    if elapsed >= LONG_ENOUGH && is_even() {
        let rate = elapsed.as_nanos() as f64 / ticks().saturating_sub(*before).max(1) as f64;
        RATE.store(rate.to_bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree() {
        let watch = Stopwatch::start();
        learn();
        std::thread::sleep(2 * LONG_ENOUGH);
        assert!(watch.elapsed() >= 2 * LONG_ENOUGH);
        // The rate is known from now on, where the counter runs evenly.
        let (at, watch) = (Instant::now(), Stopwatch::start());
        assert_eq!(watch.at.is_none(), is_even());
        std::thread::sleep(LONG_ENOUGH);
        let took = time(|| std::thread::sleep(LONG_ENOUGH));
        assert_eq!(took.is_some(), is_even());
        assert!(took.is_none_or(|took| took >= 0.99 * LONG_ENOUGH.as_nanos() as f64));
        let (short, long) = (watch.elapsed(), at.elapsed());
        assert!(short <= long + long / 100 && short >= LONG_ENOUGH - LONG_ENOUGH / 100);
        assert!(Stopwatch { began: u64::MAX, at: None }.elapsed() < LONG_ENOUGH);
    }
}
