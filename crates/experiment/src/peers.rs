//! Who else transforms: RustFFT and FFTW densely, oxifft sparsely.

use crate::measure::{Signal, Times};
use oxifft::{Flags, SparsePlan};
use rustfft::{Fft, FftPlanner};
use sparsefft::Complex;
use std::sync::Arc;
use testkit::fftw::{Effort, Fftw};

/// Longest signal for which FFTW's plans are measured; longer ones would take minutes each.
const MEASURED: u64 = 1 << 22;

/// Dense transforms of one length.
pub struct Dense {
    rustfft: Arc<dyn Fft<f64>>,
    fftw: Option<Fftw<f64>>,
    buffer: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
    pub rustfft_times: Times,
    pub fftw_times: Times,
}

impl Dense {
    pub fn new(n: u64) -> Self {
        // In plain memory: in pages of 2 MiB powers of two take them several times as long, since all lines
        // of a column then fall into few sets of the caches.
        let mut buffer = vec![Complex::ZERO; n as usize];
        let effort = if n <= MEASURED { Effort::Measure } else { Effort::Estimate };
        let fftw = Fftw::new(&mut buffer, effort);
        let rustfft = FftPlanner::new().plan_fft_forward(n as usize);
        let scratch = vec![Complex::ZERO; rustfft.get_inplace_scratch_len()];
        let (rustfft_times, fftw_times) = Default::default();
        Dense { rustfft, fftw, buffer, scratch, rustfft_times, fftw_times }
    }

    /// The length.
    pub fn len(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Forgets the times, not the plans.
    pub fn forget(&mut self) {
        (self.rustfft_times, self.fftw_times) = Default::default();
    }

    /// Transforms the signal once with each and checks that the tones stand out.
    pub fn run(&mut self, signal: &Signal) {
        let Dense { rustfft, fftw, buffer, scratch, .. } = self;
        buffer.copy_from_slice(&signal.samples);
        self.rustfft_times.add(|| rustfft.process_with_scratch(buffer, scratch));
        check(buffer, signal, "RustFFT");
        if let Some(fftw) = fftw {
            buffer.copy_from_slice(&signal.samples);
            self.fftw_times.add(|| fftw.run(buffer));
            check(buffer, signal, "FFTW");
        }
    }

    /// The faster of the two.
    pub fn best(&self) -> f64 {
        self.rustfft_times.median().min(self.fftw_times.median())
    }
}

fn check(spectrum: &[Complex<f64>], signal: &Signal, who: &str) {
    let n = spectrum.len() as f64;
    for (&f, a) in signal.places.iter().zip(&signal.values) {
        let error = (spectrum[f as usize] / n - a).norm();
        assert!(error < 0.5, "{who}: X[{f}] is off by {error}");
    }
}

/// oxifft's sparse transform: times, and how many answers were right.
pub fn oxifft(signal: &Signal, repetitions: usize, times: &mut Times) -> Option<bool> {
    let (n, k) = (signal.samples.len(), signal.places.len());
    let plan = SparsePlan::<f64>::new(n, k, Flags::ESTIMATE)?;
    let input: Vec<oxifft::Complex<f64>> =
        signal.samples.iter().map(|v| oxifft::Complex::new(v.re, v.im)).collect();
    let mut right = true;
    for _ in 0..repetitions {
        let found = times.add(|| plan.execute(&input));
        let mut indices: Vec<u64> = found.iter().map(|(f, _)| f as u64).collect();
        indices.sort_unstable();
        right &= signal.agrees(indices.into_iter());
    }
    Some(right)
}
