//! What a transform will allocate, held against what the machine has before anything is allocated.
//!
//! The buffers of hashes are ordinary vectors, and a vector that cannot be had ends the process.
//! Planning allocates nothing, so plans of any size can be looked at; the check stands before a run.

use super::recipe::{Method, Peeling, Recipe, VoteRecipe};
use crate::Error;
use crate::problem::Problem;
use crate::samples::Line;

/// Bytes below which nothing is checked: what any machine has, and asking takes microseconds.
const LEAST: u128 = 1 << 30;

/// Buffers of a hash, in multiples of its lines: as read, transformed, less what was found, and room for
/// the transform. 2^20 coefficients of 2^40 samples were measured to take 3.8 of them, samples included.
const COPIES: u128 = 4;

/// Bytes that the first attempt needs beside the samples; dense transforms check for themselves.
pub(super) fn predicted(problem: &Problem, recipe: &Recipe) -> u128 {
    match &recipe.method {
        Method::Dense => 0,
        Method::Peel(peeling) => of_peeling(peeling),
        Method::Vote(vote) if vote.width > problem.n => 0,
        Method::Vote(vote) => of_voting(vote),
    }
}

/// The lines of the first hash and of the one that verifies; in a plan of one pass also the index and
/// the value of every sample.
fn of_peeling(peeling: &Peeling) -> u128 {
    let line = size_of::<Line>() as u128;
    let bins = peeling.begin as u128 * peeling.ladder.len().max(1) as u128;
    let menu = peeling.menu.as_ref().map_or(0, |menu| {
        let widest = menu.finest.bins() as u128 * menu.first.offsets.len().max(1) as u128;
        COPIES * line * widest + 32 * u128::from(menu.samples)
    });
    COPIES * line * (bins + peeling.verify as u128) + menu
}

/// The window's taps, and the buckets of every hash with their spectrum and order.
fn of_voting(vote: &VoteRecipe) -> u128 {
    let hashes = u128::from(vote.loops) + 1;
    8 * u128::from(vote.width) + 32 * hashes * u128::from(vote.buckets)
}

/// An error if so many bytes for a signal of n samples are more than the machine has to give.
pub(super) fn check(bytes: u128, n: u64) -> Result<(), Error> {
    if bytes < LEAST || available().is_none_or(|free| bytes <= free) && reserved(bytes) {
        return Ok(());
    }
    Err(Error::OutOfMemory { n, bytes })
}

/// Whether the allocator would hand out so much in one piece. Nothing is touched.
fn reserved(bytes: u128) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Bytes that can be had without being taken from other programs, where the system tells.
fn available() -> Option<u128> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |path: &str| read(path)?.trim().parse::<u128>().ok();
    let of_group = || {
        let most = number("/sys/fs/cgroup/memory.max")?;
        Some(most.saturating_sub(number("/sys/fs/cgroup/memory.current")?))
    };
    let of_machine = || parse_available(&read("/proc/meminfo")?);
    match (of_machine(), of_group()) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

/// Memory and swap that Linux says to be free, from the text of /proc/meminfo.
fn parse_available(text: &str) -> Option<u128> {
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u128>().ok()
    };
    Some(1024 * (kilobytes("MemAvailable")? + kilobytes("SwapFree").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused() {
        assert_eq!(check(LEAST - 1, 7), Ok(()));
        for bytes in [1 << 50, 1 << 62, u128::from(u64::MAX), u128::MAX] {
            assert_eq!(check(bytes, 7), Err(Error::OutOfMemory { n: 7, bytes }));
        }
    }

    #[test]
    fn the_text_of_linux_is_understood() {
        let text = "MemTotal:  99 kB\nMemAvailable:    5 kB\nSwapFree:  2 kB\n";
        assert_eq!(parse_available(text), Some(7 * 1024));
        assert_eq!(parse_available("MemAvailable: 5 kB"), Some(5 * 1024));
        assert_eq!(parse_available("MemFree: 5 kB"), None);
        assert_eq!(parse_available("MemAvailable: many kB"), None);
    }
}
