//! Errors: what was wrong, with the value, and what would be right.
//!
//! An `Err` means that no output was written. Doubt about the quality of an answer is not an
//! error; it is in the [`Certificate`](crate::Certificate).

use crate::sketch::{Gap, Part, list};

/// What can go wrong while planning or transforming.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The signal length was zero.
    #[error("the signal length n is 0; it must be at least 1")]
    ZeroLength,
    /// The length is larger than indices and exact phases allow.
    #[error("the signal length n = {n} is too large; at most {max} samples are supported")]
    LengthTooLarge {
        /// The length that was asked for.
        n: u64,
        /// The largest supported length.
        max: u64,
    },
    /// More coefficients were asked for than exist.
    #[error("the sparsity k = {k} exceeds the signal length n = {n}; k must be between 0 and n")]
    SparsityTooLarge {
        /// The sparsity that was asked for.
        k: u64,
        /// The signal length.
        n: u64,
    },
    /// Neither a sparse transform nor, by the caller's choice, a dense one is possible.
    #[error(
        "k = {k} is too many for a sparse transform of n = {n} samples, and the dense FFT is not allowed here; ask for fewer coefficients, or allow a dense FFT of any length"
    )]
    NotSparse {
        /// The number of coefficients that was asked for.
        k: u64,
        /// The signal length.
        n: u64,
    },
    /// An option has a value outside its range.
    #[error("{name} = {value} is out of range; allowed: {allowed}")]
    InvalidOption {
        /// The option's name.
        name: &'static str,
        /// The value that was given.
        value: f64,
        /// The allowed range, in words.
        allowed: &'static str,
    },
    /// The signal's length differs from the length that was planned.
    #[error("the signal has {got} samples but the plan is for n = {expected}")]
    LengthMismatch {
        /// The planned length.
        expected: u64,
        /// The length of the signal.
        got: u64,
    },
    /// A sample that was read is NaN or infinite.
    #[error("sample {index} is {value}; every sample that is read must be finite")]
    NonFinite {
        /// Position of the sample.
        index: u64,
        /// The sample, as text (`NaN+1i`).
        value: String,
    },
    /// The samples are finite but their sums are not.
    #[error(
        "the samples are so large that their sums overflow; scale the signal so that every |x| is below {limit:e}"
    )]
    Overflow {
        /// A magnitude that is always safe.
        limit: f64,
    },
    /// A sample source returned another number of samples than it was asked for.
    #[error("the sample source returned {got} samples where {expected} were asked for")]
    WrongSampleCount {
        /// How many were asked for.
        expected: usize,
        /// How many came back.
        got: usize,
    },
    /// A sample source failed (a file, a device, a remote store).
    #[error("reading the samples failed: {0}")]
    Source(String),
    /// A buffer of this size cannot be had.
    #[error(
        "a transform of n = {n} samples needs {bytes} bytes of memory, more than can be had here; ask for fewer coefficients or a shorter signal"
    )]
    OutOfMemory {
        /// Transform length.
        n: u64,
        /// Bytes asked for.
        bytes: u128,
    },
    /// The named algorithm cannot run for this problem.
    #[error("the algorithm '{algorithm}' cannot run here: {reason}")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Why, and what would work.
        reason: String,
    },
    /// A range of samples lies outside the signal.
    #[error("the range {start}..{end} lies outside the signal of {n} samples")]
    RangeOutside {
        /// First index of the range.
        start: u64,
        /// One past its last index.
        end: u64,
        /// Signal length.
        n: u64,
    },
    /// A spectrum was given two coefficients with the same index.
    #[error("the index {index} occurs twice; every coefficient must have an index of its own")]
    RepeatedIndex {
        /// The index.
        index: u64,
    },
    /// A buffer has another length than the one it goes with.
    #[error("the {what} holds {got} values where {expected} are needed")]
    BufferLength {
        /// Which buffer.
        what: &'static str,
        /// The length it must have.
        expected: u64,
        /// The length it has.
        got: u64,
    },
    /// A batch is no whole number of signals.
    #[error("the batch holds {got} values, which is no multiple of the planned n = {n}")]
    NotAMultiple {
        /// The planned length.
        n: u64,
        /// Values in the batch.
        got: u64,
    },
    /// Parts of a signal that a sketch has seen already. Nothing was added.
    #[error("these samples have been seen already: {}; add every sample once", list(.0))]
    SeenTwice(Vec<Part>),
    /// Parts of a signal that no sketch has seen.
    #[error("{missing} of the {n} samples are missing: {}; add them first", list(gaps))]
    Incomplete {
        /// Where.
        gaps: Vec<Gap>,
        /// How many.
        missing: u64,
        /// Signal length.
        n: u64,
    },
    /// Two sketches, or a sketch and a plan, do not belong together. Nothing was merged.
    #[error("the sketches do not belong together: {what} is {ours} here and {theirs} there")]
    OtherSketch {
        /// What differs.
        what: &'static str,
        /// Its value in the sketch or plan at hand.
        ours: String,
        /// Its value in the other.
        theirs: String,
    },
    /// The bytes are no sketch, or a damaged one. Nothing was merged.
    #[error("this is not a whole sketch: {0}")]
    DamagedSketch(String),
    /// A sample that a sketch does not keep was asked for.
    #[error(
        "the sketch does not keep sample {index}, which the transform asks for; a second pass over the signal is needed"
    )]
    NotKept {
        /// Position of the sample.
        index: u64,
    },
    /// The GPU cannot be used, or failed.
    #[error("CUDA: {0}")]
    Device(String),
    /// The GPU has not enough memory.
    #[error("the GPU cannot hold {bytes} more bytes; {free} bytes of its memory are free")]
    DeviceMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that were free.
        free: u64,
    },
}
