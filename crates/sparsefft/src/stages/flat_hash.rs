//! Permute, window, fold, bucket FFT with the flat window: one hash of the spectrum.
//!
//! With σ a unit mod n, an offset τ, the window g and B buckets (B need not divide n):
//!
//! ```text
//! y[t] = x[(σt + τ) mod n],             |t| ≤ half                        permute
//! z[j] = Σ_{t ≡ j mod B} g(t) y[t]                                       window, fold
//! Z[b] = Σ_j z[j] e^{-2πi jb/B} = Σ_f a_f w^{fτ} Ĝ(b - B·P(f)/n)          bucket FFT
//! P(f) = σf mod n,  a_f = X[f]/n,  w = e^{2πi/n}
//! ```
//!
//! Frequency f shows in the buckets within 1.2 of its place B·P(f)/n, with known real gains, so
//! one bucket gives its amplitude and known amplitudes can be subtracted from all of them.

use super::flat_window::Flat;
use super::number::{Rng, inverse_mod, mul_mod};
use super::unity::Unity;
use crate::Error;
use crate::algorithms::non_finite;
use crate::judge::{ReadSet, RunningSum};
use crate::samples::{Samples, progression};
use num_complex::Complex;

/// The random choices of one hash.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Permutation {
    pub(crate) sigma: u64,
    pub(crate) tau: u64,
    /// σ⁻¹ mod n.
    pub(crate) inverse: u64,
}

impl Permutation {
    /// The permutation of this stream of a seed.
    pub(crate) fn draw(n: u64, seed: u64, stream: u64) -> Self {
        let mut rng = Rng::new(seed, stream);
        let sigma = rng.unit(n);
        Permutation { sigma, tau: rng.below(n), inverse: inverse_mod(sigma, n) }
    }

    /// First index that a window with this half length reads.
    pub(crate) fn start(&self, half: u64, n: u64) -> u64 {
        let back = mul_mod(self.sigma, half % n, n);
        (self.tau + n - back) % n
    }
}

/// Where and how a frequency shows in one hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The nearest bucket.
    pub(crate) bucket: usize,
    /// Its distance, bucket - place, within ±1/2.
    pub(crate) offset: f64,
    /// w^{fτ}.
    pub(crate) phase: Complex<f64>,
}

/// σf mod n.
#[inline]
pub(crate) fn hash(sigma: u64, f: u64, n: u64) -> u64 {
    match sigma.checked_mul(f) {
        Some(product) if n.is_power_of_two() => product & (n - 1),
        Some(product) => product % n,
        None => mul_mod(sigma, f, n),
    }
}

/// The bucket nearest to P, and its distance.
#[inline]
pub(crate) fn nearest(p: u64, scale: f64, buckets: usize) -> (usize, f64) {
    let place = p as f64 * scale;
    let nearest = place.round_ties_even();
    (nearest as usize & (buckets - 1), nearest - place)
}

impl Place {
    /// The place of frequency f.
    #[inline]
    pub(crate) fn of(f: u64, permutation: &Permutation, unity: &Unity, n: u64, b: usize) -> Self {
        let p = hash(permutation.sigma, f, n);
        let (bucket, offset) = nearest(p, b as f64 / n as f64, b);
        Place { bucket, offset, phase: unity.power(f, permutation.tau) }
    }

    /// The amplitude that this hash shows.
    #[inline]
    pub(crate) fn amplitude(&self, z: &[Complex<f64>], window: &Flat) -> Complex<f64> {
        z[self.bucket] * self.phase.conj() / window.response(self.offset)
    }

    /// Subtracts an amplitude from every bucket that shows it.
    #[inline]
    pub(crate) fn subtract(&self, z: &mut [Complex<f64>], window: &Flat, amplitude: Complex<f64>) {
        let mask = z.len() - 1;
        let v = amplitude * self.phase;
        z[self.bucket] -= v * window.response(self.offset);
        // The neighbour on the far side is out of reach unless the place is nearly central.
        let up = window.response(self.offset + 1.0);
        if up != 0.0 {
            z[(self.bucket + 1) & mask] -= v * up;
        }
        let down = window.response(self.offset - 1.0);
        if down != 0.0 {
            z[self.bucket.wrapping_sub(1) & mask] -= v * down;
        }
    }
}

/// The samples that a hash reads.
pub(crate) fn read_set(permutation: &Permutation, window: &Flat, n: u64) -> ReadSet {
    let start = permutation.start(window.half as u64, n);
    ReadSet::singles(start, permutation.sigma, window.taps.len())
}

/// Reads the samples of one hash, adds them to `sum` and folds them into z.
///
/// # Errors
/// [`Error::NonFinite`], [`Error::Overflow`], and what the source meets.
pub(crate) fn fold(
    signal: &dyn Samples,
    permutation: &Permutation,
    window: &Flat,
    z: &mut [Complex<f64>],
    sum: &mut RunningSum,
) -> Result<(), Error> {
    // Read and weighted while they lie in the first-level cache.
    const CHUNK: usize = 512;
    let mut samples = [Complex::ZERO; CHUNK];
    let (n, b, w) = (signal.len(), z.len(), window.taps.len());
    z.fill(Complex::ZERO);
    let sigma = permutation.sigma;
    let mut at = permutation.start(window.half as u64, n);
    let mut j = (b - window.half % b) % b;
    let mut i = 0;
    while i < w {
        let len = CHUNK.min(w - i).min(b - j);
        let chunk = &mut samples[..len];
        signal.read_progression(at, sigma, chunk)?;
        sum.add(chunk);
        for ((z, v), g) in z[j..j + len].iter_mut().zip(chunk).zip(&window.taps[i..i + len]) {
            z.re += g * v.re;
            z.im += g * v.im;
        }
        at = progression(at, sigma, len as u64, n);
        i += len;
        j = (j + len) % b;
    }
    // Whatever is not finite in the samples is not finite in its bucket.
    if z.iter().all(|v| v.re.is_finite() && v.im.is_finite()) {
        return Ok(());
    }
    Err(blame(signal, permutation.start(window.half as u64, n), sigma, w as u64))
}

/// The error for sums that are not finite: the first bad sample of a progression, or overflow.
pub(crate) fn blame(signal: &dyn Samples, start: u64, step: u64, count: u64) -> Error {
    // Many at a time: a read may be a trip to another device.
    const CHUNK: usize = 4096;
    let n = signal.len();
    let mut values = [Complex::ZERO; CHUNK];
    let mut first = 0;
    while first < count {
        let chunk = &mut values[..CHUNK.min((count - first) as usize)];
        if let Err(e) = signal.read_progression(progression(start, step, first, n), step, chunk) {
            return e;
        }
        if let Some(j) = chunk.iter().position(|v| !(v.re.is_finite() && v.im.is_finite())) {
            return non_finite(progression(start, step, first + j as u64, n), chunk[j]);
        }
        first += chunk.len() as u64;
    }
    // Sums of squares of sums of samples must stay finite, a few of them together.
    let n = n as f64;
    Error::Overflow { limit: (f64::MAX / n).sqrt() / (4.0 * n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FlatKind;

    #[test]
    fn buckets_show_what_the_formula_says() {
        for n in [4096u64, 5003] {
            let b = 64;
            let window = Flat::new(FlatKind::Kaiser, 1e-8, b);
            let unity = Unity::new(n);
            let tones = [(3u64, Complex::new(1.0, 0.5)), (1777, Complex::new(-0.3, 0.2))];
            let x: Vec<_> = (0..n)
                .map(|t| tones.iter().map(|&(f, a)| a * unity.power(f, t)).sum::<Complex<f64>>())
                .collect();
            for stream in 0..20 {
                let permutation = Permutation::draw(n, 1, stream);
                let mut z = vec![Complex::ZERO; b];
                let set = read_set(&permutation, &window, n);
                fold(&x, &permutation, &window, &mut z, &mut RunningSum::new(n, &set, 1)).unwrap();
                sparsefft_kernels::double(b, rustfft::FftDirection::Forward).process(&mut z);
                for (f, a) in tones {
                    Place::of(f, &permutation, &unity, n, b).subtract(&mut z, &window, a);
                }
                let left = z.iter().map(|v| v.norm()).fold(0.0, f64::max);
                assert!(left < 2e-8, "n = {n}: {left:e}");
            }
        }
    }

    #[test]
    fn bad_samples_are_named() {
        let mut x = vec![Complex::new(1.0, 0.0); 5003];
        let window = Flat::new(FlatKind::Kaiser, 1e-6, 64);
        let permutation = Permutation::draw(5003, 3, 0);
        let index =
            progression(permutation.start(window.half as u64, 5003), permutation.sigma, 77, 5003);
        x[index as usize].im = f64::NAN;
        let sum = &mut RunningSum::new(5003, &read_set(&permutation, &window, 5003), 3);
        let err = fold(&x, &permutation, &window, &mut [Complex::ZERO; 64], sum).unwrap_err();
        assert!(matches!(err, Error::NonFinite { index: i, .. } if i == index));
    }
}
