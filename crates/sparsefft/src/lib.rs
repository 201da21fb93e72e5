//! Sparse FFT: the few large Fourier coefficients of a huge signal, in far less time than reading
//! the signal once, with a certificate on every answer.
//!
//! ```
//! use num_complex::Complex;
//! use sparsefft::{Plan, Problem, transform};
//!
//! // A signal of 2^18 samples with two tones.
//! let n = 1u64 << 18;
//! let tone = |f: u64, t: u64| Complex::cis(std::f64::consts::TAU * ((f * t) % n) as f64 / n as f64);
//! let signal: Vec<_> = (0..n).map(|t| tone(1234, t) + 0.5 * tone(98765, t)).collect();
//!
//! let spectrum = transform(&signal, 2)?; // the one-liner
//!
//! let plan = Plan::new(Problem::new(n).sparsity(2))?; // planned once, used often
//! let spectrum = plan.transform(&signal)?;
//! for peak in spectrum.peaks() {
//!     println!("{} {}", peak.index, peak.value);
//! }
//! println!("{plan}\n{}", spectrum.certificate());
//! assert_eq!(spectrum.peaks()[0].index, 1234);
//! assert!(spectrum.certificate().is_certified());
//! # Ok::<(), sparsefft::Error>(())
//! ```
//!
//! # Conventions
//! - X\[f\] = Σ x\[t\] e^{-2πi ft/n}, unnormalised, as numpy.fft and RustFFT have it; see [`Norm`].
//!   Indices run from 0 to n-1 in 64 bits; [`Peak`] converts to signed bins and Hz.
//! - k counts coefficients of the DFT: a real tone away from 0 and n/2 has two.
//! - Samples may be real or complex, f32, f64 or integers ([`Samples`]); the arithmetic is f64.
//! - One seed decides all random choices and stands in the report. The same seed and input give
//!   the same answer, whatever the number of threads.
//! - Results are sorted by index; [`Spectrum::top`] sorts by magnitude.
//!
//! # The promise
//! An answer is right, or its certificate says that it may not be. With [`Noise`] unknown the
//! first bins decide how much noise there is; a certified answer then holds every coefficient
//! above [`Certificate::detection_limit`]. If the signal is not sparse, or a dense FFT is cheaper,
//! a dense FFT is run and the verdict says so.
//!
//! The certificate speaks of signals that are alike everywhere: tones and noise. A click or a burst
//! between the samples that were read cannot be seen by any method that does not read them. Nor does
//! it speak of an adversary: whoever makes the signal and knows the seed can hide a tone from the samples
//! that will be read. Against one, draw the seed with [`random_seed`].
//!
//! The library never prints and never panics on input. Between calls it keeps tables and a few buffers,
//! nothing that changes an answer.
#![warn(missing_docs)]

mod algorithms;
mod certificate;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod dense;
mod error;
pub mod find;
mod judge;
mod plan;
mod problem;
mod samples;
mod sketch;
mod spectrum;
mod stages;
mod tones;

pub use certificate::{Certificate, Verdict};
pub use cpu::threads::most_threads;
pub use dense::{SignalBuffer, buffer};
pub use error::Error;
pub use find::find;
pub use num_complex::Complex;
pub use plan::{
    CombRecipe, Estimate, First, FlatKind, Menu, Method, Peeling, Plan, Recipe, Rungs, VoteRecipe,
    Workspace, recommended_length,
};
pub use problem::{Algorithm, Fallback, MAX_LEN, Noise, Problem, Sparsity, Taper, random_seed};
pub use samples::{FromFn, Indexed, Iq, Line, Samples, Scalar, Strided, from_fn, indexed, iq};
pub use sketch::{Gap, Part, Sketch, Sliding, Stream};
pub use spectrum::{Norm, Peak, Place, Report, Spectrum};
pub use stages::Stage;
pub use tones::{Accuracy, Band, Cluster, Drift, Tone, Tones, TonesReport};

/// The Fourier coefficients of a signal that stand above its noise; the k largest if they are more.
/// [`Problem::exactly`] gives k in any case.
///
/// # Errors
/// [`Error::ZeroLength`] for an empty signal, [`Error::SparsityTooLarge`] for k > n,
/// [`Error::NonFinite`] for NaN or infinite samples among those read, and what the source meets.
pub fn transform<S: Samples + ?Sized>(signal: &S, k: u64) -> Result<Spectrum, Error> {
    Plan::new(Problem::new(signal.len()).sparsity(k))?.transform(signal)
}
