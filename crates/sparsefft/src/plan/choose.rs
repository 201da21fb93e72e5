//! The cost model and the choice.
//!
//! Costs are in nanoseconds on one core with the samples in memory but not in cache. The constants
//! were measured on server cores (see docs/mathematics.md), with which what it predicts is right to a factor
//! of 1.5 as a rule.
//!
//! T(comb of B bins, L lines) = L·B·(line + ½ log2 B + 2) + 20k + crowded bins + verification + 1000,
//! T(dense) = c·n log2 n, five times that where n has a large prime factor.

use super::recipe::{Estimate, First, Menu, Method, Peeling, Recipe};
use crate::Error;
use crate::algorithms::peeling::first_beta;
use crate::algorithms::peeling::sprint::{MOST_BUCKETS, TIGHT};
use crate::algorithms::vote::plan_vote;
use crate::problem::{Algorithm, Noise, Problem};
use crate::samples::MOST_LINES;
use crate::stages::certify::upper_quantile;
use crate::stages::ladder::ladder;
use crate::stages::number::{coprime_part, gcd, smooth_divisors};
use crate::stages::window;

/// Reading one line of four samples that is not in cache.
const LINE: f64 = 14.0;
/// Decoding one coefficient.
const DECODE: f64 = 20.0;
/// Peeling one coefficient from one hash.
const PEEL: f64 = 10.0;
/// What noise adds to the cost of one coefficient: in a comb, and in windows alone, of which it needs more.
const IN_NOISE: [f64; 2] = [140.0, 1700.0];
/// Whatever is asked for.
const FIXED: f64 = 1000.0;
/// Decoding a bin that holds more than two without noise: lines of a coarser comb, and its frequencies.
const CROWD: f64 = 11.0 * (LINE + 4.0) + 120.0;
/// So many times as fast as a dense FFT a sparse one must be, as predicted.
const QUICKER: f64 = 1.25;
/// Factor by which noise may raise the cost where nothing is known about it: a ladder of lines instead of
/// one, and decoding bin by bin.
const SURPRISE: f64 = 3.0;
/// Where the number of coefficients is unknown, the first comb has room for about this many.
const FIRST_GUESS: u64 = 48;
/// The same of a probe. Its comb of 64 bins reads a tenth of what a search between the bins does, which
/// comes next where this one is in vain.
const PROBE_GUESS: u64 = 16;
/// Below this length everything is dense: no hash is shorter than the signal.
const SHORT: u64 = 512;

/// Chooses the recipe for a valid problem.
pub(super) fn choose(problem: &Problem) -> Result<Recipe, Error> {
    if let Algorithm::Vote | Algorithm::CombVote = problem.algorithm {
        let (vote, estimate) = plan_vote(problem, problem.algorithm);
        let mut estimates = vec![estimate, dense(problem.n)];
        estimates.sort_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
        return Ok(Recipe {
            n: problem.n,
            k: problem.k(),
            noise: problem.noise,
            algorithm: problem.algorithm,
            method: Method::Vote(vote),
            fallback: problem.fallback,
            seed: problem.seed,
            estimates,
        });
    }
    let n = problem.n;
    let dense_cost = dense(n);
    let sparse = sparse(problem);
    let asked = problem.algorithm;
    let mut estimates = vec![dense_cost];
    estimates.extend(sparse.as_ref().map(|(_, e)| *e));
    estimates.sort_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
    let (algorithm, method) = match (asked, sparse) {
        (Algorithm::Exact | Algorithm::Robust, Some((peeling, _))) => {
            (asked, Method::Peel(peeling))
        }
        (Algorithm::Auto, Some((mut peeling, cost)))
            if QUICKER * cost.nanoseconds < dense_cost.nanoseconds
                || !problem.fallback.allows(problem.n) =>
        {
            let in_noise = SURPRISE * cost.nanoseconds;
            peeling.quiet_only = problem.noise == Noise::Unknown
                && problem.fallback.allows(problem.n)
                && in_noise > dense_cost.nanoseconds;
            (cost.algorithm, Method::Peel(peeling))
        }
        (Algorithm::Dense, _) => (Algorithm::Dense, Method::Dense),
        _ if n >= SHORT && !problem.fallback.allows(n) => {
            return Err(Error::NotSparse { k: problem.k().unwrap_or(n), n });
        }
        _ => (Algorithm::Dense, Method::Dense),
    };
    Ok(Recipe {
        n: problem.n,
        k: problem.k(),
        noise: problem.noise,
        algorithm,
        method,
        fallback: problem.fallback,
        seed: problem.seed,
        estimates,
    })
}

/// The cheapest peeling recipe, or `None` where the signal is too short for one.
fn sparse(problem: &Problem) -> Option<(Peeling, Estimate)> {
    let n = problem.n;
    if n < SHORT {
        return None;
    }
    let guess = if problem.probe { PROBE_GUESS } else { FIRST_GUESS };
    let k = problem.k().map_or(guess, |k| k.max(1));
    // Bins for a given signal-to-noise ratio: 64/snr leaves each rung of the ladder a factor four.
    let (algorithm, snr) = match (problem.noise, problem.algorithm) {
        (_, Algorithm::Exact) | (Noise::Exact, _) => (Algorithm::Exact, f64::INFINITY),
        (Noise::Snr(db), _) => (Algorithm::Robust, 10f64.powf(0.1 * db)),
        (Noise::Unknown, _) => (Algorithm::Robust, f64::INFINITY),
    };
    let quiet = ((64.0 / snr) as u64).min(n);
    let least = (3 * k).max(quiet).max(32);
    let most = (least.saturating_mul(4)).min(n / 8).min(MOST_LINES);
    let divisors = smooth_divisors(n, 32, most);
    let combs = divisors.iter().copied().filter(|&bins| bins >= least).map(|bins| {
        let rungs = rungs(snr, bins as f64, n, bins);
        let lines = rungs.len() as f64;
        let b = bins as f64;
        let open = b * (k as f64 / b).powi(3) / 6.0;
        // Rather bins that leave room for a comb of coprime size, which tells apart what they do not, than
        // those that need a window of four lines per bucket for it.
        let coprime = |d: &u64| *d as f64 >= 24.0 * open && gcd(*d, bins) == 1;
        let reads = if snr.is_infinite() && divisors.iter().any(coprime) { 1.0 } else { 4.0 };
        let second = (1.0 - (-open).exp())
            * (reads * 48.0 * (open + 1.0) * (LINE + 3.0) + 40.0 * k as f64 * lines);
        let cost = lines * b * (LINE + 0.5 * b.log2() + 2.0) + second;
        (First::Comb { bins: bins as usize }, rungs, cost)
    });
    let comb = combs.min_by(|a, b| a.2.total_cmp(&b.2));
    let buckets = (10 * k).max(quiet).next_power_of_two().max(64);
    let beta = first_beta(problem);
    let length = window::length(beta, usize::try_from(buckets).ok()?) as f64;
    let windowed = (length < n as f64 / 2.0 && buckets <= MOST_LINES).then(|| {
        let rungs = rungs(snr, buckets as f64, n, 1);
        (First::Window { buckets: buckets as usize }, rungs, 0.0)
    });
    let (first, ladder, _) = comb.or(windowed)?;
    let (verify, verify_beta) = verifying(n, k);
    let check = window::length(verify_beta, verify);
    if check as u64 * 4 > n {
        return None;
    }
    let begin = begin(problem, first, snr);
    let beta = if begin < first.bins() { TIGHT } else { beta };
    let taps = window::length(beta, begin) as f64;
    let (rungs, b, k) = (ladder.len() as f64, begin as f64, k as f64);
    let transforms = rungs * b * (0.5 * b.log2() + 2.0);
    let noisy = snr.is_finite();
    let (lines, decoding) = match first {
        First::Comb { .. } if noisy => (b, (DECODE + PEEL * rungs + IN_NOISE[0]) * k),
        First::Comb { .. } => (b, DECODE * k + CROWD * b * (k / b).powi(3) / 6.0),
        First::Window { .. } => {
            let each = DECODE + 4.0 * PEEL * rungs + if noisy { IN_NOISE[1] } else { 0.0 };
            (taps, each * k + 2.0 * taps * rungs)
        }
    };
    let lines = lines * rungs;
    let verifying = check as f64 * (LINE + 2.0) + PEEL * k;
    let nanoseconds = FIXED + lines * LINE + transforms + decoding + verifying;
    let samples = 4 * (lines as u64 + check as u64);
    // Noise may cross the threshold in any bin of any hash of a transform; four times the bins of
    // the first leave room for the rest.
    let sigmas = upper_quantile(problem.failure / (4 * first.bins()) as f64);
    let menu = problem.one_pass.then(|| Menu::new(problem, first));
    let quiet_only = false;
    let peeling = Peeling { first, begin, ladder, verify, verify_beta, sigmas, quiet_only, menu };
    Some((peeling, Estimate { algorithm, nanoseconds, samples }))
}

/// The bins that are tried at first: two for each coefficient leave one in 70 with three or more, and a window with five
/// buckets for each shows nearly all of them. Against noise, and where k is unknown or one pass has to do, they are all
/// needed.
fn begin(problem: &Problem, first: First, snr: f64) -> usize {
    match (first, problem.k()) {
        (First::Comb { bins }, Some(k))
            if bins.is_multiple_of(2)
                && bins as u64 / 2 >= k.saturating_mul(2).max(32)
                && snr.is_infinite()
                && !problem.one_pass =>
        {
            bins / 2
        }
        (First::Window { buckets }, Some(_))
            if snr.is_infinite() && !problem.one_pass && buckets as u64 / 2 <= MOST_BUCKETS =>
        {
            buckets / 2
        }
        _ => first.bins(),
    }
}

/// Shape of the verifying window where there is no noise.
pub(crate) const VERIFY_BETA: f64 = 24.0;

/// Buckets of the hash that certifies k coefficients. Its window is about four times as long in
/// steps, so that it meets every impulse train whose spectrum has at most 2k lines: such a train is
/// not zero on one sample in 2k.
pub(crate) fn verify_buckets(k: u64) -> usize {
    (k / 2).clamp(32, 1 << 24).next_power_of_two() as usize
}

/// Buckets and shape of the window that verifies on a CPU. For powers of two a step of its permutation
/// ([`Permutation::verifying`]) meets four samples in a row that no other meets, so that k/2 steps meet the
/// same trains: half of the buckets, or a quarter where they are many and some more steps to each.
///
/// [`Permutation::verifying`]: crate::stages::permute::Permutation::verifying
pub(crate) fn verifying(n: u64, k: u64) -> (usize, f64) {
    /// A window of this shape has four and a half steps per bucket.
    const LONG: f64 = window::BETAS[4];
    /// From here on: of fewer a quarter tells too little apart.
    const MANY: usize = 256;
    match verify_buckets(k) {
        all if !n.is_power_of_two() => (all, VERIFY_BETA),
        all @ MANY.. => (all / 4, LONG),
        all => ((all / 2).max(16), VERIFY_BETA),
    }
}

/// The ladder that a known signal-to-noise ratio asks for.
fn rungs(snr: f64, gain: f64, n: u64, unit: u64) -> Vec<u64> {
    match snr.is_finite().then(|| ladder(gain * snr, n, unit)).flatten() {
        Some((offsets, _)) => offsets,
        None => vec![0],
    }
}

/// The longest length up to `at_most` that suits k coefficients best: 2^a·3^b·5^c with a power of two
/// for the first comb and an odd divisor for the second, so that no window is needed to tell
/// frequencies apart. Cut a recording to it where its end does not matter. A power of two, or
/// `at_most` itself if that is short, where there is no such length above half of `at_most`.
///
/// ```
/// let n = sparsefft::recommended_length(1_000_000, 50);
/// assert_eq!(n, 995_328); // 2^12 · 3^5
/// ```
pub fn recommended_length(at_most: u64, k: u64) -> u64 {
    let k = k.clamp(8, 1 << 40);
    let mut best = 0;
    let mut three = 1u64;
    while three <= at_most {
        let mut odd = three;
        while odd <= at_most {
            let even = 1u64 << (at_most / odd).max(1).ilog2();
            // Divisors of the odd part come within a factor of five of any size below it.
            if odd >= k && even >= 4 * k {
                best = best.max(odd * even);
            }
            let Some(next) = odd.checked_mul(5) else { break };
            odd = next;
        }
        let Some(next) = three.checked_mul(3) else { break };
        three = next;
    }
    if 2 * best > at_most {
        best
    } else if at_most < SHORT {
        at_most
    } else {
        1 << at_most.ilog2()
    }
}

/// The smooth divisor of n nearest to `target` that is a proper multiple of `bins`, at most n/8.
pub(crate) fn smooth_near(n: u64, bins: usize, target: u64) -> Option<usize> {
    let bins = bins as u64;
    smooth_divisors(n, 2 * bins, (2 * target).min(n / 8))
        .into_iter()
        .filter(|d| d.is_multiple_of(bins))
        .min_by_key(|d| (*d as f64 / target as f64).ln().abs().to_bits())
        .map(|d| d as usize)
}

/// Predicted cost of the dense FFT.
pub(crate) fn dense(n: u64) -> Estimate {
    // A convolution of twice the length takes the place of butterflies of a large prime.
    let smooth = coprime_part(n, 2 * 3 * 5 * 7 * 11 * 13) <= 1;
    let nanoseconds = dense_at_best(n) * if smooth { 1.0 } else { 5.0 };
    Estimate { algorithm: Algorithm::Dense, nanoseconds, samples: n }
}

/// Nanoseconds of a dense FFT of about n samples, if their number suits it. Sparse attempts may not cost more:
/// those that would read nearly everything.
pub(crate) fn dense_at_best(n: u64) -> f64 {
    let log = (n.max(2) as f64).log2();
    // Per point and level: while the data fit the cache, to 2^24, and beyond.
    let c = if log <= 18.0 {
        0.34
    } else if log <= 24.0 {
        0.55
    } else {
        0.86
    };
    c * n as f64 * log
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train of impulses with at most 2k lines in its spectrum has a period of at most 2k samples, all
    /// residues of which the steps of the window meet: four each for powers of two; else nearly all of them
    /// the first of four samples, and so by far all of them one of the four.
    #[test]
    fn the_verifying_window_is_long_enough() {
        for k in (0..2000).chain([4095, 4096, 4097, 16384, 100_000, 1 << 20]) {
            let (buckets, beta) = verifying(1 << 40, k);
            let steps = window::length(beta, buckets) as u64;
            assert!(steps >= k / 2, "k {k}: {steps} steps of four samples");
            let (buckets, beta) = verifying(1_000_003, k);
            let steps = window::length(beta, buckets) as u64;
            assert!(steps as f64 >= 1.8 * k as f64, "k {k}: {steps} steps");
        }
    }

    #[test]
    fn recommended_lengths_have_coprime_divisors() {
        for (at_most, k) in [(1 << 20, 50), (1_000_000, 50), (1 << 26, 1000), (u64::MAX >> 8, 9)] {
            let n = recommended_length(at_most, k);
            assert!(n <= at_most && 2 * n > at_most, "{n} of {at_most}");
            let even = 1u64 << n.trailing_zeros();
            assert!(even >= 4 * k && n / even >= k, "{n} = {even}·{}", n / even);
            assert!(smooth_divisors(n, n, n) == [n]);
        }
        assert_eq!(recommended_length(100, 50), 100);
        assert_eq!(recommended_length(2000, 50), 1024);
        assert_eq!(recommended_length(0, 0), 0);
    }
}
