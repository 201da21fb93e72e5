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
    /// Read everything, transform everything, keep the largest.
    Dense,
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
