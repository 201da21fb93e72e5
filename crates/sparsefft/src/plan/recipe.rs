//! How a problem will be solved: pure data, compared by equality, printed by `explain`.

use crate::problem::{Algorithm, Fallback, Noise};

/// How a problem will be solved.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Recipe {
    /// Signal length.
    pub n: u64,
    /// Coefficients asked for; `None` if unknown.
    pub k: Option<u64>,
    /// What is known about the noise.
    pub noise: Noise,
    /// The algorithm that runs first.
    pub algorithm: Algorithm,
    /// Its parameters.
    pub method: Method,
    /// What may follow if it cannot be certified.
    pub fallback: Fallback,
    /// Seed of all random choices.
    pub seed: u64,
    /// Predicted cost of this recipe and of those it was chosen from, cheapest first.
    pub estimates: Vec<Estimate>,
}

/// Parameters of one algorithm.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// Hash, decode, peel, certify (`exact` and `robust`).
    Peel(Peeling),
    /// Read everything, transform everything, keep the largest.
    Dense,
    /// Flat-window hashes and votes, with or without a comb.
    Vote(VoteRecipe),
}

/// Lobe of the flat window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlatKind {
    /// Kaiser: side lobes that decay.
    #[default]
    Kaiser,
    /// Dolph-Chebyshev: side lobes of equal height, the window of the papers.
    DolphChebyshev,
}

/// Parameters of `vote` and `comb-vote`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VoteRecipe {
    /// Sparsity that the sizes are chosen for; the first guess where it is unknown.
    pub k: u64,
    /// Buckets B per hash, a power of two.
    pub buckets: u64,
    /// Kind of the flat window.
    pub window: FlatKind,
    /// Height of its side lobes.
    pub leakage: f64,
    /// Its number of taps, the samples that one hash reads.
    pub width: u64,
    /// Hashes that propose locations and vote on them.
    pub locate_loops: u32,
    /// Votes that a location needs among these.
    pub votes: u32,
    /// All hashes; every one of them contributes to the medians.
    pub loops: u32,
    /// Votes that a location needs among all hashes.
    pub confirmations: u32,
    /// Buckets that a hash keeps for location.
    pub keep: u64,
    /// The aliasing comb that restricts the locations (`comb-vote`).
    pub comb: Option<CombRecipe>,
    /// What is unusual about this recipe, in words.
    pub note: Option<String>,
}

/// The aliasing comb of `comb-vote`: x\[τ + j n/W\], j = 0 … W-1.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CombRecipe {
    /// Teeth W, a divisor of n.
    pub teeth: u64,
    /// Combs with different offsets τ.
    pub combs: u32,
    /// Residues mod W that are kept.
    pub keep: u64,
}

/// Parameters of `exact` and `robust`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Peeling {
    /// The first hash.
    pub first: First,
    /// How many of its bins are tried at first: half of them where that is enough without noise. Noise, or
    /// more coefficients than were asked for, then doubles them, and nothing is read twice.
    pub begin: usize,
    /// Offsets of the lines that are certain to be needed; the bins may ask for more.
    pub ladder: Vec<u64>,
    /// Buckets of the hash that certifies the answer.
    pub verify: usize,
    /// The shape β of its Kaiser window where there is no noise.
    pub verify_beta: f64,
    /// Standard deviations that noise must exceed to count as a coefficient.
    pub sigmas: f64,
    /// Whether a dense FFT takes over where there is more than a little noise, in which it would be as quick.
    pub quiet_only: bool,
    /// All that may be read, where one pass over the samples must suffice.
    pub menu: Option<Menu>,
}

/// All that a one-pass transform may read, whatever the samples are.
///
/// The comb of an attempt holds that of the attempt before, and a window holds every shorter one
/// with the same permutation, so the largest of each kind are listed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Menu {
    /// Attempts: the first hash, and where n has a finer comb, that one.
    pub attempts: u32,
    /// The largest hash of all frequencies.
    pub finest: First,
    /// Its lines.
    pub first: Rungs,
    /// One more line of a comb, for bins with more members than lanes.
    pub spare: Option<u64>,
    /// Window hashes for frequencies that share a bin.
    pub rounds: usize,
    /// Buckets of each, at most.
    pub buckets: usize,
    /// Their lines.
    pub window: Rungs,
    /// Buckets of the hash that certifies, at most.
    pub verify: usize,
    /// Samples, at most: some are listed twice.
    pub samples: u64,
}

/// A ladder that serves every bin of at least some signal-to-noise ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct Rungs {
    /// The offsets of its lines; 0 comes first.
    pub offsets: Vec<u64>,
    /// Least ratio of a lane that it is made for.
    pub gamma: f64,
    /// Standard deviations that every rung leaves at that ratio.
    pub margin: f64,
    /// Distance of the frequencies that it tells apart.
    pub unit: u64,
}

/// The hash that all coefficients go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// Sub-sampling by n/bins: no leakage; needs a divisor of n.
    Comb {
        /// Number of bins.
        bins: usize,
    },
    /// A permuted window hash: any n.
    Window {
        /// Number of buckets.
        buckets: usize,
    },
}

impl First {
    /// Its bins or buckets.
    pub fn bins(self) -> usize {
        match self {
            First::Comb { bins } => bins,
            First::Window { buckets } => buckets,
        }
    }
}

/// Predicted cost of one way to do it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Time in nanoseconds on one core, samples in memory but not in cache.
    pub nanoseconds: f64,
    /// Samples read.
    pub samples: u64,
}
