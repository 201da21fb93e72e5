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
///
/// Not covered: whoever makes the signal and knows the seed can hide a tone from the samples that will
/// be read. Against such a source draw the seed: [`random_seed`](crate::random_seed).
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
    /// Standard deviation σ of the noise in one sample, estimated from the bins; of a dense answer
    /// from the median of all outputs. [`Spectrum::snr_db`](crate::Spectrum::snr_db) uses it.
    pub noise_floor: f64,
    /// Smallest amplitude |a| = |X|/n that could not have been overlooked.
    pub detection_limit: f64,
    /// Largest share of the signal's power that a steady or slowly moving narrow-band rest (a weak
    /// sweep, a modulated carrier, slightly coloured noise) could hold without being noticed: the
    /// tests of the residual miss more than this with a probability below 10⁻⁹. 0 for a dense
    /// transform, 1 where nothing was tested.
    pub rest_limit: f64,
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
            rest_limit: if verdict == Verdict::Uncertified { 1.0 } else { 0.0 },
            failure_probability: 0.0,
            attempts: 1,
        }
    }

    /// Whether a sparse answer passed every test. False for a dense answer, which needs none:
    /// see [`is_complete`](Certificate::is_complete).
    pub fn is_certified(&self) -> bool {
        self.verdict == Verdict::Certified
    }

    /// Signal-to-noise ratio of this amplitude in one bin of a record of n samples, in dB; see
    /// [`Spectrum::snr_db`](crate::Spectrum::snr_db).
    pub(crate) fn snr_db(&self, amplitude: f64, n: u64) -> Option<f64> {
        // A floor at rounding level is no noise.
        let measured = self.is_reliable() && self.noise_floor > 1e-9 * amplitude;
        let ratio = || 20.0 * (amplitude.log10() - self.noise_floor.log10());
        measured.then(|| ratio() + 10.0 * (n as f64).log10())
    }

    /// Whether every coefficient was computed, by a dense FFT.
    pub fn is_complete(&self) -> bool {
        self.verdict == Verdict::Dense
    }

    /// Whether the answer may be relied on: certified or complete.
    pub fn is_reliable(&self) -> bool {
        self.is_certified() || self.is_complete()
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
                if verdict == Verdict::Certified {
                    write!(f, ", no narrow-band rest above {:.1e} of the power", self.rest_limit)?;
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certified_and_dense_answers_are_reliable() {
        for (verdict, name, certified, complete, rest) in [
            (Verdict::Certified, "certified", true, false, 0.0),
            (Verdict::Uncertified, "uncertified", false, false, 1.0),
            (Verdict::Dense, "dense", false, true, 0.0),
        ] {
            let c = Certificate::new(verdict);
            assert_eq!((c.verdict.name(), c.rest_limit, c.attempts), (name, rest, 1));
            assert_eq!((c.is_certified(), c.is_complete()), (certified, complete));
            assert_eq!(c.is_reliable(), certified || complete);
            assert!(c.snr_db(1.0, 1000).is_none(), "no noise was measured");
        }
    }

    /// A floor of 0.01 below an amplitude of 1, over 1000 samples: 40 dB and 30 dB.
    #[test]
    fn ratios_are_those_of_one_bin_of_the_record() {
        let measured =
            |verdict, noise_floor| Certificate { noise_floor, ..Certificate::new(verdict) };
        for verdict in [Verdict::Certified, Verdict::Dense] {
            let db = measured(verdict, 0.01).snr_db(1.0, 1000).unwrap();
            assert!((db - 70.0).abs() < 1e-9, "{db}");
            let db = measured(verdict, 0.01).snr_db(10.0, 1000).unwrap();
            assert!((db - 90.0).abs() < 1e-9, "{db}");
            // A billionth of the amplitude is rounding.
            assert_eq!(measured(verdict, 4e-9).snr_db(4.0, 1000), None);
            assert!(measured(verdict, 4.1e-9).snr_db(4.0, 1000).is_some());
        }
        assert_eq!(measured(Verdict::Uncertified, 0.01).snr_db(1.0, 1000), None);
    }
}
