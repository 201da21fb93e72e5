//! What tests and benches share: seeds, signals whose spectrum is known, oracles, norms, one
//! tolerance policy, and the judge of the library's promise.
//!
//! Nothing here depends on the library under test. A transform is handed in as a closure that
//! turns a [`Source`] into an [`Answer`]; the glue stands in the library's own test directory.
//!
//! - [`rng`]: a small portable generator, so that a seed means the same everywhere.
//! - [`signal`]: signals given by their spectrum, stored or computed sample by sample.
//! - [`fftw`]: FFTW as a judge, where it is installed.
//! - [`generate`]: spectra: random, structured, adversarial.
//! - [`free`]: recordings of tones between the bins, with the defects of receivers.
//! - [`oracle`]: closed forms → naive DFT → radix-2 → RustFFT; each judges the next.
//! - [`tolerance`]: norms and the one place where "close enough" is defined.
//! - [`mod@judge`]: right or wrong, certified or not.
//! - [`promise`]: the classes of signals over which the promise is swept, and the table.

pub mod fftw;
pub mod free;
pub mod generate;
pub mod judge;
pub mod oracle;
pub mod promise;
pub mod rng;
pub mod signal;
pub mod tolerance;

pub use judge::{Answer, Asked, Judgement, NoiseHint, Opinion, judge};
pub use num_complex::Complex;
pub use rng::Rng;
pub use signal::{Disturbance, Format, Lazy, Pulses, Signal, Source, Tone};

/// Complex numbers of the kit.
pub type C64 = Complex<f64>;
