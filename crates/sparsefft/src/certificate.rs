//! The certificate: what was tested, what was left over, and the verdict.

use std::fmt;

/// Whether the answer accounts for the whole signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every bin of every hash is explained by the answer, down to the noise floor.
    Certified,
    /// Something was left unexplained; [`Certificate::reason`] says what.
    Uncertified,
    /// A dense FFT was run: exact by construction.
    Dense,
}

impl Verdict {
    /// The name used on every surface.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Certified => "certified",
            Verdict::Uncertified => "uncertified",
            Verdict::Dense => "dense",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Evidence for an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Certificate {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict is not `certified`, or what a user should know about it.
    pub reason: Option<String>,
    /// Number of bins whose content was compared with the answer.
    pub bins_tested: u64,
    /// Bins that hold more than the answer and the noise floor explain.
    pub bins_unexplained: u64,
    /// Share of the signal's energy that the answer does not account for, estimated from the
    /// bins (0 for a dense transform of which every non-zero output is reported).
    pub residual_energy: f64,
    /// Standard deviation σ of the noise in one sample, estimated from the bins.
    pub noise_floor: f64,
    /// Smallest amplitude |a| = |X|/n that could not have been overlooked.
    pub detection_limit: f64,
    /// Probability bound that a certified answer is wrong for a reason the tests cannot see.
    pub failure_probability: f64,
    /// How many attempts were made (1: the planned one sufficed).
    pub attempts: u32,
}

impl Certificate {
    /// A certificate with this verdict and no evidence yet; fill in the fields that are known.
    pub fn new(verdict: Verdict) -> Self {
        Certificate {
            verdict,
            reason: None,
            bins_tested: 0,
            bins_unexplained: 0,
            residual_energy: 0.0,
            noise_floor: 0.0,
            detection_limit: 0.0,
            failure_probability: 0.0,
            attempts: 1,
        }
    }

    /// Whether the answer may be relied on: certified, or dense.
    pub fn is_certified(&self) -> bool {
        self.verdict != Verdict::Uncertified
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Verdict::Dense => write!(f, "dense: every coefficient was computed")?,
            verdict => {
                write!(
                    f,
                    "{verdict}: {} of {} bins explained, residual energy {:.1e}, \
                     noise {:.1e} per sample, nothing above |X|/n = {:.1e} overlooked",
                    self.bins_tested - self.bins_unexplained,
                    self.bins_tested,
                    self.residual_energy,
                    self.noise_floor,
                    self.detection_limit
                )?;
            }
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        if self.attempts > 1 {
            write!(f, " [attempt {}]", self.attempts)?;
        }
        Ok(())
    }
}
