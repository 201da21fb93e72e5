//! The stages of every sparse transform, one file each:
//!
//! `permute → window → fold → bucket FFT → locate → estimate → peel → certify`
//!
//! Each file states the contract of its stage and holds the plain implementation that judges any
//! faster one.

use std::fmt;

pub(crate) mod bucket_fft;
pub(crate) mod certify;
pub(crate) mod clusters;
pub(crate) mod estimate;
pub(crate) mod factors;
pub(crate) mod few;
pub(crate) mod flat_hash;
pub(crate) mod flat_window;
pub(crate) mod fold;
pub(crate) mod hash;
pub(crate) mod known;
pub(crate) mod ladder;
pub(crate) mod locate;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod peel;
pub(crate) mod permute;
pub(crate) mod prony;
pub(crate) mod tally;
pub(crate) mod triples;
pub(crate) mod unity;
pub(crate) mod window;

/// A stage of the pipeline; the same names appear in plans, reports, tests and benches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Choosing and reading the samples; of complex f64 in memory also what is done as they are read:
    /// the first butterflies behind a comb, and [`Fold`](Stage::Fold).
    Permute,
    /// Making the window.
    Window,
    /// Weighting and summing samples into buckets.
    Fold,
    /// The short FFT over the buckets.
    BucketFft,
    /// Finding frequencies in the bins.
    Locate,
    /// Finding their values.
    Estimate,
    /// Subtracting what is known.
    Peel,
    /// Testing that nothing is left.
    Certify,
    /// The dense FFT.
    Dense,
}

impl Stage {
    /// Every stage, in the order of the pipeline.
    pub const ALL: [Stage; 9] = [
        Stage::Permute,
        Stage::Window,
        Stage::Fold,
        Stage::BucketFft,
        Stage::Locate,
        Stage::Estimate,
        Stage::Peel,
        Stage::Certify,
        Stage::Dense,
    ];

    /// The name used on every surface.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Permute => "permute",
            Stage::Window => "window",
            Stage::Fold => "fold",
            Stage::BucketFft => "bucket-fft",
            Stage::Locate => "locate",
            Stage::Estimate => "estimate",
            Stage::Peel => "peel",
            Stage::Certify => "certify",
            Stage::Dense => "dense",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
