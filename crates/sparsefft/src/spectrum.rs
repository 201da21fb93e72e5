//! The answer: a few coefficients, the certificate, and a report of the run.

use crate::certificate::Certificate;
use crate::problem::Algorithm;
use crate::samples::{Samples, check_range};
use crate::stages::unity::Unity;
use crate::{Error, Stage};
use num_complex::Complex;
use std::cmp::Ordering;
use std::ops::Range;
use std::time::Duration;

/// One Fourier coefficient: X\[index\] = value, unnormalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Frequency index, 0 … n-1.
    pub index: u64,
    /// X\[index\] = Σ x\[t\] e^{-2πi·index·t/n}.
    pub value: Complex<f64>,
}

impl Peak {
    /// The index as a signed bin: -n/2 … (n-1)/2.
    pub fn signed_bin(&self, n: u64) -> i64 {
        if self.index < n.div_ceil(2) { self.index as i64 } else { self.index as i64 - n as i64 }
    }

    /// Frequency in cycles per sample, -1/2 … 1/2.
    pub fn frequency(&self, n: u64) -> f64 {
        self.signed_bin(n) as f64 / n as f64
    }

    /// Frequency in Hz at this sample rate.
    pub fn hertz(&self, n: u64, rate: f64) -> f64 {
        self.frequency(n) * rate
    }

    /// |X|.
    pub fn magnitude(&self) -> f64 {
        self.value.norm()
    }

    /// Phase in radians.
    pub fn phase(&self) -> f64 {
        self.value.arg()
    }
}

/// Larger magnitudes first, then smaller indices.
pub(crate) fn largest_first(a: &Peak, b: &Peak) -> Ordering {
    // Squares decide, except where they overflow or lose digits.
    let size = |v: Complex<f64>| match v.norm_sqr() {
        square @ 1e-290..=f64::MAX => (1, square),
        square => (2 * u8::from(square > 1.0), v.norm()),
    };
    let ((scale, size), (other_scale, other)) = (size(a.value), size(b.value));
    other_scale.cmp(&scale).then(other.total_cmp(&size)).then(a.index.cmp(&b.index))
}

/// Scale of the coefficients, as numpy.fft names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Norm {
    /// Unnormalised (the library's own convention).
    #[default]
    Backward,
    /// Divided by √n.
    Ortho,
    /// Divided by n: the time-domain amplitudes.
    Forward,
}

/// Where a transform was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Place {
    /// On the CPU.
    #[default]
    Cpu,
    /// On the GPU, all of it.
    Gpu,
    /// The GPU fetched the samples and the CPU did the rest, for this reason.
    GpuSamples(&'static str),
    /// On the CPU although the GPU was asked for, for this reason.
    CpuInstead(&'static str),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Cpu => f.write_str("cpu"),
            Place::Gpu => f.write_str("gpu"),
            Place::GpuSamples(why) => write!(f, "cpu with samples from the gpu ({why})"),
            Place::CpuInstead(why) => write!(f, "cpu instead of gpu ({why})"),
        }
    }
}

/// How a run went.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The algorithm that produced the answer.
    pub algorithm: Algorithm,
    /// Samples read, counted with repetition.
    pub samples_read: u64,
    /// How many of these were read for the certificate alone; no value rests on them.
    pub samples_compared: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// Coefficients that were found but are not among the k largest.
    pub left_out: u64,
    /// Time per stage, in the order of the pipeline; stages that did not run are missing.
    pub stages: Vec<(Stage, Duration)>,
    /// Where it was computed.
    pub place: Place,
    /// Wall-clock time of the whole transform; zero where there is no clock (WebAssembly without a system).
    pub elapsed: Duration,
}

impl Report {
    /// A report that says only which algorithm answered and with which seed.
    pub fn new(algorithm: Algorithm, seed: u64) -> Self {
        Report {
            algorithm,
            samples_read: 0,
            samples_compared: 0,
            seed,
            left_out: 0,
            stages: Vec::new(),
            place: Place::Cpu,
            elapsed: Duration::ZERO,
        }
    }
}

/// The sparse spectrum of a signal.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    pub(crate) n: u64,
    pub(crate) peaks: Vec<Peak>,
    pub(crate) certificate: Certificate,
    pub(crate) report: Report,
}

impl Spectrum {
    /// A spectrum from its parts, such as stored ones; the peaks may come in any order.
    ///
    /// # Errors
    /// [`Error::ZeroLength`] for n = 0, [`Error::RangeOutside`] for a peak that is not below n,
    /// [`Error::RepeatedIndex`] for two peaks with one index.
    pub fn new(
        n: u64,
        mut peaks: Vec<Peak>,
        certificate: Certificate,
        report: Report,
    ) -> Result<Self, Error> {
        if n == 0 {
            return Err(Error::ZeroLength);
        }
        peaks.sort_unstable_by_key(|p| p.index);
        if let Some(w) = peaks.windows(2).find(|w| w[0].index == w[1].index) {
            return Err(Error::RepeatedIndex { index: w[0].index });
        }
        if let Some(&Peak { index, .. }) = peaks.last().filter(|p| p.index >= n) {
            return Err(Error::RangeOutside { start: index, end: index.saturating_add(1), n });
        }
        Ok(Spectrum { n, peaks, certificate, report })
    }

    /// Signal length.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The coefficients, sorted by index.
    pub fn peaks(&self) -> &[Peak] {
        &self.peaks
    }

    /// The k largest coefficients, largest first; ties by index.
    pub fn top(&self, k: usize) -> Vec<Peak> {
        let mut peaks = self.peaks.clone();
        if k < peaks.len() {
            peaks.select_nth_unstable_by(k, largest_first);
            peaks.truncate(k);
        }
        peaks.sort_by(largest_first);
        peaks
    }

    /// Signal-to-noise ratio of a coefficient in one bin of the whole record, in dB:
    /// 10 log10(|X|²/(n σ²)) = 10 log10(n |a|²/σ²), with a = X/n the amplitude and σ the
    /// certificate's noise floor. The ratio in one sample, |a|²/σ², which
    /// [`Noise::Snr`](crate::Noise::Snr) takes, is 10 log10 n dB lower.
    ///
    /// `None` where the floor is no measurement of noise: at rounding level, or in an uncertified
    /// answer, where it holds what was left unexplained.
    pub fn snr_db(&self, peak: &Peak) -> Option<f64> {
        let amplitude = peak.magnitude() / self.n as f64;
        self.certificate.snr_db(amplitude, self.n)
    }

    /// The evidence.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// How the run went.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// X\[index\], zero where no coefficient was found.
    pub fn value(&self, index: u64) -> Complex<f64> {
        match self.peaks.binary_search_by_key(&index, |p| p.index) {
            Ok(i) => self.peaks[i].value,
            Err(_) => Complex::ZERO,
        }
    }

    /// The coefficients in another normalisation, sorted by index.
    pub fn scaled(&self, norm: Norm) -> Vec<Peak> {
        let scale = match norm {
            Norm::Backward => 1.0,
            Norm::Ortho => 1.0 / (self.n as f64).sqrt(),
            Norm::Forward => 1.0 / self.n as f64,
        };
        self.peaks.iter().map(|p| Peak { index: p.index, value: p.value * scale }).collect()
    }

    /// All n coefficients, mostly zero.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if n values do not fit.
    pub fn to_dense(&self) -> Result<Vec<Complex<f64>>, Error> {
        let mut dense = crate::dense::zeroed(self.n, self.n)?;
        for p in &self.peaks {
            dense[p.index as usize] = p.value;
        }
        Ok(dense)
    }

    /// Back to the time domain: the samples of this range that the coefficients make.
    ///
    /// # Errors
    /// [`Error::RangeOutside`] if the range is not inside the signal, [`Error::OutOfMemory`] if
    /// it does not fit.
    pub fn synthesize(&self, range: Range<u64>) -> Result<Vec<Complex<f64>>, Error> {
        check_range(&range, self.n)?;
        let len = range.end - range.start;
        let mut out = crate::dense::zeroed(len, len)?;
        let unity = Unity::new(self.n);
        // Rotating by one phasor per sample drifts by one rounding each; a fresh exact phase
        // every 256 samples keeps the error below 1e-13.
        const BLOCK: usize = 256;
        for p in &self.peaks {
            let amplitude = p.value / self.n as f64;
            let step = unity.power(p.index, 1);
            for (i, block) in out.chunks_mut(BLOCK).enumerate() {
                let t = range.start + (i * BLOCK) as u64;
                let mut v = amplitude * unity.power(p.index, t);
                for o in block {
                    *o += v;
                    v *= step;
                }
            }
        }
        Ok(out)
    }

    /// x - synthesize over a range: what the coefficients do not explain.
    ///
    /// # Errors
    /// As [`synthesize`](Spectrum::synthesize), [`Error::LengthMismatch`], and what the source
    /// meets.
    pub fn residual<S: Samples + ?Sized>(
        &self,
        signal: &S,
        range: Range<u64>,
    ) -> Result<Vec<Complex<f64>>, Error> {
        if signal.len() != self.n {
            return Err(Error::LengthMismatch { expected: self.n, got: signal.len() });
        }
        let model = self.synthesize(range.clone())?;
        let mut out = vec![Complex::ZERO; model.len()];
        signal.read_range(range.start, &mut out)?;
        for (o, m) in out.iter_mut().zip(model) {
            *o -= m;
        }
        Ok(out)
    }
}
