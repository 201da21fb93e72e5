//! What is asked: length, sparsity, noise, accuracy. No buffers, no choices of method.

use crate::Error;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest signal that indices, phases and cost estimates are exact for.
pub const MAX_LEN: u64 = 1 << 52;

/// How many large coefficients the signal is expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sparsity {
    /// At most k coefficients: those that stand above the noise, the k largest if they are more.
    AtMost(u64),
    /// The k largest coefficients, even if noise is among them.
    Exactly(u64),
    /// Find out how many there are.
    Unknown,
}

/// What is known about the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// None: the spectrum is zero outside its k coefficients, up to rounding.
    Exact,
    /// White noise; the weakest wanted coefficient has this signal-to-noise ratio in decibels,
    /// |a|²/σ² with a = X\[f\]/n the amplitude and σ² the power of the noise in one sample.
    Snr(f64),
    /// Nothing is known: the bins tell.
    Unknown,
}

/// An algorithm, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// The cheapest one that can be certified.
    Auto,
    /// Exactly sparse signals (the sFFT v3 class).
    Exact,
    /// Noisy signals (the sFFT v4 class).
    Robust,
    /// Voting over flat-window hashes (sFFT v1).
    Vote,
    /// Voting restricted by an aliasing comb (sFFT v2).
    CombVote,
    /// The dense FFT and its k largest outputs.
    Dense,
}

impl Algorithm {
    /// Every algorithm that can be asked for by name, `auto` first.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Auto,
        Algorithm::Exact,
        Algorithm::Robust,
        Algorithm::Vote,
        Algorithm::CombVote,
        Algorithm::Dense,
    ];

    /// The name used on every surface.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Auto => "auto",
            Algorithm::Exact => "exact",
            Algorithm::Robust => "robust",
            Algorithm::Vote => "vote",
            Algorithm::CombVote => "comb-vote",
            Algorithm::Dense => "dense",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Algorithm::ALL.into_iter().find(|a| a.name() == s).ok_or_else(|| {
            format!("unknown algorithm '{s}'; one of auto, exact, robust, vote, comb-vote, dense")
        })
    }
}

/// A taper that multiplies the signal before it is transformed.
///
/// The transform is then that of w\[t\]·x\[t\], exactly as with a dense FFT of the tapered signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Taper {
    /// The plain DFT.
    None,
    /// Periodic Hann: w\[t\] = (1 - cos 2πt/n)/2.
    Hann,
    /// Periodic Blackman.
    Blackman,
    /// Kaiser with shape β.
    Kaiser(f64),
}

/// What to do when the sparse path cannot be certified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Run a dense FFT if the signal has at most [`Fallback::DENSE_LIMIT`] samples, else answer
    /// `uncertified`.
    Auto,
    /// Always run a dense FFT, whatever its size.
    Dense,
    /// Never read the whole signal; answer `uncertified`. Planning fails where no sparse transform
    /// is possible. Signals of fewer than 512 samples are always transformed densely: there is
    /// nothing to save.
    Never,
}

impl Fallback {
    /// Longest signal that [`Fallback::Auto`] reads whole: 2^27 samples, 4 GiB of buffers.
    pub const DENSE_LIMIT: u64 = 1 << 27;

    /// Whether a dense transform of n samples is allowed.
    pub fn allows(self, n: u64) -> bool {
        match self {
            Fallback::Auto => n <= Self::DENSE_LIMIT,
            Fallback::Dense => true,
            Fallback::Never => false,
        }
    }
}

/// A seed that nobody could foretell, drawn from the operating system's randomness. It is below
/// 2^53, so that every text format keeps it; [`Report::seed`](crate::Report::seed) tells it.
///
/// ```
/// use sparsefft::{Plan, Problem, random_seed};
/// let plan = Plan::new(Problem::new(1 << 20).sparsity(50).seed(random_seed()))?;
/// println!("seed {}", plan.recipe().seed);
/// # Ok::<(), sparsefft::Error>(())
/// ```
pub fn random_seed() -> u64 {
    // The standard library's hashers are keyed by the system; the counter tells two draws apart.
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(DRAWN.fetch_add(1, Ordering::Relaxed)) >> 11
}

/// What is asked of a transform. Built with defaults that need no tuning.
///
/// ```
/// use sparsefft::{Noise, Plan, Problem};
/// let problem = Problem::new(1 << 20).sparsity(50).noise(Noise::Snr(20.0)).seed(7);
/// println!("{}", Plan::new(problem)?);
/// # Ok::<(), sparsefft::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub(crate) n: u64,
    pub(crate) sparsity: Sparsity,
    pub(crate) noise: Noise,
    pub(crate) tolerance: f64,
    pub(crate) failure: f64,
    pub(crate) algorithm: Algorithm,
    pub(crate) taper: Taper,
    pub(crate) fallback: Fallback,
    pub(crate) seed: u64,
    pub(crate) accuracy: Option<f64>,
    pub(crate) one_pass: bool,
    /// Predicted nanoseconds after which a search makes no further attempt.
    pub(crate) budget: Option<f64>,
    /// Whether noise, and whatever looks like it, ends the search at once.
    pub(crate) probe: bool,
}

impl Problem {
    /// A transform of n samples; sparsity and noise unknown.
    pub fn new(n: u64) -> Self {
        Problem {
            n,
            sparsity: Sparsity::Unknown,
            noise: Noise::Unknown,
            tolerance: 1e-6,
            failure: 1e-6,
            algorithm: Algorithm::Auto,
            taper: Taper::None,
            fallback: Fallback::Auto,
            seed: 0,
            accuracy: None,
            one_pass: false,
            budget: None,
            probe: false,
        }
    }

    /// At most k coefficients are wanted: those that stand above the noise, the k largest of them
    /// if they are more. The answer is never filled up with noise, and a k that is too large costs
    /// no more than the samples that the larger hashes for it read.
    ///
    /// ```
    /// use sparsefft::{Complex, Plan, Problem};
    /// let n = 1u64 << 16;
    /// let wave = |f: u64, t: u64| Complex::cis(std::f64::consts::TAU * (f * t % n) as f64 / n as f64);
    /// let signal: Vec<_> = (0..n).map(|t| wave(77, t) + wave(9000, t) * 0.5).collect();
    /// let spectrum = Plan::new(Problem::new(n).at_most(5))?.transform(&signal)?;
    /// assert!(spectrum.certificate().is_certified());
    /// assert_eq!(spectrum.peaks().len(), 2);
    /// # Ok::<(), sparsefft::Error>(())
    /// ```
    pub fn at_most(mut self, k: u64) -> Self {
        self.sparsity = Sparsity::AtMost(k);
        self
    }

    /// The same as [`at_most`](Problem::at_most).
    pub fn sparsity(self, k: u64) -> Self {
        self.at_most(k)
    }

    /// The k largest coefficients are wanted, whatever they are. Where fewer than k stand above
    /// the noise the sparse search is not certified, and a dense FFT fills the answer up with the
    /// largest values of the noise. For comparisons with a dense FFT; [`at_most`](Problem::at_most)
    /// answers what is in a signal. With [`one_pass`](Problem::one_pass) it means `at_most`.
    pub fn exactly(mut self, k: u64) -> Self {
        self.sparsity = Sparsity::Exactly(k);
        self
    }

    /// The number of coefficients is to be found out (the default).
    pub fn unknown_sparsity(mut self) -> Self {
        self.sparsity = Sparsity::Unknown;
        self
    }

    /// What is known about the noise (default: nothing).
    pub fn noise(mut self, noise: Noise) -> Self {
        self.noise = noise;
        self
    }

    /// Relative L2 residual below which the signal counts as explained, whatever that residual is
    /// (default 1e-6).
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Accepted probability that one transform reports noise as a coefficient (default 1e-6).
    pub fn failure_probability(mut self, p: f64) -> Self {
        self.failure = p;
        self
    }

    /// Run this algorithm (default: choose).
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Taper the signal before the transform (default: none).
    pub fn taper(mut self, taper: Taper) -> Self {
        self.taper = taper;
        self
    }

    /// What to do when the sparse path cannot be certified (default: [`Fallback::Auto`]).
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Seed of all random choices (default 0). Same seed and input, same answer. Whoever makes the
    /// signal and knows the seed can hide a tone from the samples that will be read; against such
    /// a source draw it with [`random_seed`].
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Standard deviation, in bins, to which [`Plan::tones`](crate::Plan::tones) shall know every
    /// frequency (default: what the first pass gives). A finer one is bought by reading more
    /// samples, up to all of them. The transform on the grid does not use it.
    pub fn accuracy(mut self, bins: f64) -> Self {
        self.accuracy = Some(bins);
        self
    }

    /// Plan everything that may be read beforehand, so that one pass over the samples suffices:
    /// what a [`Sketch`](crate::Sketch) needs. An upper bound of the sparsity must be given, and a
    /// dense FFT is never run: what the planned samples cannot settle is answered
    /// `uncertified`. Where [`Noise`] is unknown, the weakest coefficient may have 6 dB.
    pub fn one_pass(mut self) -> Self {
        self.one_pass = true;
        self.fallback = Fallback::Never;
        self
    }

    /// Predicted nanoseconds after which a search makes no further attempt, for callers that have
    /// something else to try.
    pub(crate) fn budget(mut self, nanoseconds: f64) -> Self {
        self.budget = Some(nanoseconds);
        self
    }

    /// Ends the search at the first sign of noise or of frequencies between the bins, and begins with
    /// few bins: a look that costs little, whether the signal is exactly sparse on the grid.
    pub(crate) fn probe(mut self) -> Self {
        self.probe = true;
        self
    }

    /// Whether a further attempt is within the budget, after so many samples were read and with so
    /// many more to read.
    pub(crate) fn affords(&self, samples: f64) -> bool {
        /// Nanoseconds for a sample that is read, with all that is done with it.
        const SAMPLE: f64 = 8.0;
        self.budget.is_none_or(|budget| SAMPLE * samples <= budget)
    }

    /// Signal length.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Largest number of coefficients that is wanted, if one was given.
    pub fn k(&self) -> Option<u64> {
        match self.sparsity {
            Sparsity::AtMost(k) | Sparsity::Exactly(k) => Some(k),
            Sparsity::Unknown => None,
        }
    }

    /// Number of coefficients that an answer must have, if it must: the samples of one pass cannot
    /// fill it up.
    pub(crate) fn required(&self) -> Option<u64> {
        match self.sparsity {
            Sparsity::Exactly(k) if !self.one_pass => Some(k),
            _ => None,
        }
    }

    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.n == 0 {
            return Err(Error::ZeroLength);
        }
        if self.n > MAX_LEN {
            return Err(Error::LengthTooLarge { n: self.n, max: MAX_LEN });
        }
        if let Some(k) = self.k()
            && k > self.n
        {
            return Err(Error::SparsityTooLarge { k, n: self.n });
        }
        let range = |name, value: f64, lo: f64, hi: f64, allowed| {
            if value >= lo && value <= hi {
                Ok(())
            } else {
                Err(Error::InvalidOption { name, value, allowed })
            }
        };
        if self.one_pass {
            self.validate_one_pass()?;
        }
        if let Noise::Snr(db) = self.noise {
            range("snr", db, -100.0, 400.0, "-100 to 400 dB")?;
        }
        range("tolerance", self.tolerance, 0.0, 1.0, "0 to 1")?;
        range("failure probability", self.failure, 1e-15, 0.5, "1e-15 to 0.5")?;
        if let Some(bins) = self.accuracy {
            range("accuracy", bins, 0.0, 1.0, "0 to 1 bins")?;
        }
        if let Taper::Kaiser(beta) = self.taper {
            range("kaiser beta", beta, 0.0, 500.0, "0 to 500")?;
        }
        Ok(())
    }

    /// One pass asks for a known sparsity and for an algorithm whose reads are known beforehand.
    fn validate_one_pass(&self) -> Result<(), Error> {
        let reason = match (self.sparsity, self.algorithm, self.fallback) {
            (Sparsity::Unknown | Sparsity::AtMost(0) | Sparsity::Exactly(0), _, _) => {
                "it must know beforehand how much to keep; give k, the number of coefficients or \
                 an upper bound of it"
            }
            (_, Algorithm::Vote | Algorithm::CombVote | Algorithm::Dense, _) => {
                "this algorithm reads what one pass does not keep; use auto, exact or robust"
            }
            (_, _, Fallback::Auto | Fallback::Dense) => {
                "a dense FFT needs every sample; use Fallback::Never"
            }
            _ => return Ok(()),
        };
        Err(Error::Unsupported { algorithm: "one pass", reason: reason.to_string() })
    }
}
