//! The spectrum of the whole record under a window whose side lobes fall fast.
//!
//! w(t) = Σ_j (-1)^j a_j cos 2πjt/n, j = 0 … 3 (Nuttall, continuous first derivative): side lobes
//! below -93 dB that fall by 18 dB per octave, a main lobe of ±4 bins. In frequency the window has
//! seven coefficients, so a line can be subtracted from its neighbourhood in closed form.

use super::vector::vectorized;
use crate::cpu::threads;
use crate::dense::{Fft, RealFft};
use crate::{Complex, Error};
use std::f64::consts::{PI, TAU};

/// Coefficients a_j.
const TERMS: [f64; 4] = [0.355_768, 0.487_396, 0.144_232, 0.012_604];
/// Mean of w: value of a bin in which a line of amplitude 1 lies.
pub(super) const GAIN: f64 = TERMS[0];
/// Half width of the main lobe in bins.
pub(super) const LOBE: usize = 4;
/// Bins to each side of a line from which it is subtracted: beyond, its side lobes are 178 dB below
/// it.
const REACH: i64 = 256;

/// w at this share of the record, 0 … 1.
pub(super) fn window(share: f64) -> f64 {
    let c = (TAU * share).cos();
    of_cosine(c)
}

/// w from cos 2πt/n.
#[inline]
fn of_cosine(c: f64) -> f64 {
    // cos 2x = 2c²-1, cos 3x = 4c³-3c.
    let [a, b, d, e] = TERMS;
    (a - d) + c * ((3.0 * e - b) + c * (2.0 * d - 4.0 * e * c))
}

/// Mean of w^power over the record, exact: a trigonometric polynomial is its mean over enough
/// points.
fn mean_of_power(power: i32) -> f64 {
    const POINTS: usize = 64;
    (0..POINTS).map(|i| window(i as f64 / POINTS as f64).powi(power)).sum::<f64>() / POINTS as f64
}

/// Bins that hold as much noise as one of them would alone: how many neighbours are not independent.
pub(super) fn correlated_bins() -> f64 {
    mean_of_power(4) / mean_of_power(2).powi(2)
}

/// Bandwidth of the window for noise, in bins: a line of amplitude 1 raises its bin by the square
/// of [`GAIN`], noise by the mean of w².
pub(super) fn noise_bandwidth() -> f64 {
    mean_of_power(2) / (GAIN * GAIN)
}

/// Correlation of the noise of two bins at this distance, phases counted from the middle of the
/// record: the transform of w² over its mean.
pub(super) fn noise_correlation(distance: f64) -> f64 {
    const POINTS: usize = 64;
    let at = |i: usize| i as f64 / POINTS as f64;
    let sum: f64 =
        (0..POINTS).map(|i| window(at(i)).powi(2) * (TAU * distance * (at(i) - 0.5)).cos()).sum();
    sum / POINTS as f64 / mean_of_power(2)
}

/// Samples to spectrum.
pub(super) struct Spectrum {
    /// Whether the samples are real: bins 0 … n/2 are there then, else all n.
    pub(super) real: bool,
    /// Samples of the record.
    pub(super) n: usize,
    /// Σ w x e^{-2πikt/n} / √Σw²: white noise of power σ² per sample has the mean power σ² here.
    pub(super) bins: Vec<Complex<f64>>,
    /// |bins|², but never less than what rounding of the transform leaves.
    pub(super) power: Vec<f64>,
    least: f64,
}

impl Spectrum {
    /// The spectrum of real samples times `scale`.
    pub(super) fn of_real(samples: &[f64], scale: f64) -> Result<Self, Error> {
        let n = samples.len();
        let mut weighted = crate::dense::zeroed_reals(n as u64, n as u64)?;
        let window = Weights::new(n);
        in_chunks(&mut weighted, |at, out| {
            let samples = &samples[at..at + out.len()];
            window.each(at, out.len(), |range, w| {
                weigh_real(&samples[range.clone()], w, &mut out[range])
            });
        });
        let mut bins = crate::dense::zeroed(n as u64 / 2 + 1, n as u64)?;
        RealFft::new(n as u64)?.forward(&weighted, &mut bins)?;
        drop(weighted);
        Self::scaled(true, n, bins, scale)
    }

    /// The spectrum of complex samples times `scale`.
    pub(super) fn of_complex(samples: &[Complex<f64>], scale: f64) -> Result<Self, Error> {
        let n = samples.len();
        let mut bins = crate::dense::zeroed(n as u64, n as u64)?;
        let window = Weights::new(n);
        in_chunks(&mut bins, |at, out| {
            let samples = &samples[at..at + out.len()];
            window.each(at, out.len(), |range, w| {
                weigh_complex(&samples[range.clone()], w, &mut out[range])
            });
        });
        Fft::new(n as u64)?.forward(&mut bins)?;
        Self::scaled(false, n, bins, scale)
    }

    /// A spectrum of which only the power is known, the mean over frames of n samples.
    pub(super) fn of_power(real: bool, n: usize, power: Vec<f64>) -> Self {
        Spectrum { real, n, bins: Vec::new(), power, least: 1e-300 }
    }

    fn scaled(
        real: bool,
        n: usize,
        mut bins: Vec<Complex<f64>>,
        scale: f64,
    ) -> Result<Self, Error> {
        let scale = scale / (n as f64 * mean_of_power(2)).sqrt();
        let mut power = crate::dense::zeroed_reals::<f64>(bins.len() as u64, n as u64)?;
        let mut parts: Vec<_> = bins.chunks_mut(CHUNK).zip(power.chunks_mut(CHUNK)).collect();
        let ranges = threads::map_mut(&mut parts, n as u64, |(bins, power)| {
            scale_and_square(bins, scale, power)
        });
        let (least, largest) =
            ranges.iter().fold((f64::INFINITY, 0.0f64), |(a, b), r| (a.min(r[0]), b.max(r[1])));
        // Rounding of the transform is no signal; and logarithms need something to work on.
        let floor = 1e-28 * largest + 1e-300;
        if least < floor {
            power.iter_mut().for_each(|p| *p = p.max(floor));
        }
        Ok(Spectrum { real, n, bins, power, least: floor })
    }

    /// Amplitude of a line with the value 1 in these units, as a coefficient of e^{2πiνt}.
    pub(super) fn unit(&self) -> f64 {
        (mean_of_power(2) / self.n as f64).sqrt()
    }

    /// The bin at a signed distance from bin 0: around the end, or the conjugate mirror image.
    pub(super) fn bin(&self, k: i64) -> Complex<f64> {
        let n = self.n as i64;
        let k = k.rem_euclid(n);
        if (k as usize) < self.bins.len() {
            self.bins[k as usize]
        } else {
            self.bins[(n - k) as usize].conj()
        }
    }

    /// Corrects the offset and the amplitude of a line by the closed form of its main lobe: a fit to
    /// few bins knows nothing of the side lobes beyond them.
    pub(super) fn polish(
        &self,
        k: usize,
        mut offset: f64,
        mut a: Complex<f64>,
    ) -> (f64, Complex<f64>) {
        const STEP: f64 = 1e-4;
        for _ in 0..3 {
            let [mut ww, mut wg, mut gg, mut we, mut ge, mut turned] = [0.0; 6];
            for distance in -(LOBE as i64)..=LOBE as i64 {
                let at = offset - distance as f64;
                let sign = if distance % 2 == 0 { 1.0 } else { -1.0 };
                let w = response(at);
                let g = (response(at + STEP) - response(at - STEP)) / (2.0 * STEP);
                let left = self.bin(k as i64 + distance) * sign / a - w;
                ww += w * w;
                wg += w * g;
                gg += g * g;
                we += w * left.re;
                ge += g * left.re;
                turned += w * left.im;
            }
            let determinant = ww * gg - wg * wg;
            let (scale, moved) =
                ((we * gg - ge * wg) / determinant, (ge * ww - we * wg) / determinant);
            if !(scale.abs() < 0.1 && moved.abs() < 0.1) {
                break;
            }
            offset += moved;
            a *= Complex::new(1.0 + scale, turned / ww);
        }
        (offset, a)
    }

    /// Takes a line out of the bins around it: amplitude `a` in these units at the real-valued
    /// bin k + offset, its phase that of the middle of the record.
    pub(super) fn subtract(&mut self, k: usize, offset: f64, a: Complex<f64>) {
        let (n, len) = (self.n as i64, self.bins.len() as i64);
        for distance in -REACH.min(n / 2 - 1)..=REACH.min(n / 2 - 1) {
            let at = k as i64 + distance;
            let value = a * response(offset - distance as f64);
            // The middle of the record turns bin k + 1 by half a turn against bin k.
            let sign = if distance % 2 == 0 { 1.0 } else { -1.0 };
            let around = at.rem_euclid(n);
            if around < len {
                self.take(around as usize, value * sign);
            }
            if self.real {
                // The mirror image, where it is near.
                let mirrored = (-at).rem_euclid(n);
                if mirrored < len {
                    self.take(mirrored as usize, (value * sign).conj());
                }
            }
        }
    }

    fn take(&mut self, bin: usize, value: Complex<f64>) {
        self.bins[bin] -= value;
        self.power[bin] = self.bins[bin].norm_sqr().max(self.least);
    }
}

/// Transform of the window at a distance of this many bins, over n, phase of the record's middle.
pub(super) fn response(distance: f64) -> f64 {
    // Around the middle of the record all cosines have the sign +. sin π(x ± j) is ± sin πx.
    let sine = (PI * distance).sin() / PI;
    let sinc = |shift: f64| {
        let x = distance + shift;
        let sign = if shift % 2.0 == 0.0 { 1.0 } else { -1.0 };
        if x.abs() < 1e-9 { 1.0 } else { sign * sine / x }
    };
    let mut sum = TERMS[0] * sinc(0.0);
    for (j, a) in TERMS.iter().enumerate().skip(1) {
        sum += 0.5 * a * (sinc(-(j as f64)) + sinc(j as f64));
    }
    sum
}

/// [`response`] and its derivative by the distance.
pub(super) fn response_with_slope(distance: f64) -> (f64, f64) {
    /// Nearer to a pole the quotients lose digits; there a difference is as good.
    const NEAR: f64 = 1e-3;
    const STEP: f64 = 1e-4;
    if (distance - distance.round()).abs() < NEAR {
        let slope = (response(distance + STEP) - response(distance - STEP)) / (2.0 * STEP);
        return (response(distance), slope);
    }
    let (sin, cos) = (PI * distance).sin_cos();
    let (mut sum, mut square) = (TERMS[0] / distance, TERMS[0] / (distance * distance));
    for (j, a) in TERMS.iter().enumerate().skip(1) {
        let (before, after) = (1.0 / (distance - j as f64), 1.0 / (distance + j as f64));
        let sign = if j % 2 == 0 { 0.5 } else { -0.5 };
        sum += sign * a * (before + after);
        square += sign * a * (before * before + after * after);
    }
    (sin / PI * sum, cos * sum - sin / PI * square)
}

/// Values that one thread works on at a time, a multiple of [`Weights::BLOCK`].
const CHUNK: usize = 1 << 14;

/// Calls `work` with parts of a list and where they begin.
fn in_chunks<T: Send>(values: &mut [T], work: impl Fn(usize, &mut [T]) + Sync + Send) {
    let len = values.len() as u64;
    let mut parts: Vec<(usize, &mut [T])> = values.chunks_mut(CHUNK).enumerate().collect();
    threads::map_mut(&mut parts, len, |(i, part)| work(*i * CHUNK, part));
}

/// The window over a record, made in blocks.
struct Weights {
    step: f64,
    /// cos and sin within a block.
    turned: [Vec<f64>; 2],
}

impl Weights {
    const BLOCK: usize = 256;

    fn new(n: usize) -> Self {
        let step = TAU / n as f64;
        let angles = || (0..Self::BLOCK).map(|j| step * j as f64);
        Weights {
            step,
            turned: [angles().map(f64::cos).collect(), angles().map(f64::sin).collect()],
        }
    }

    /// Calls `work` with the blocks of a chunk of `len` samples that begins with sample `at`: where
    /// they lie in the chunk, and their weights.
    fn each(&self, at: usize, len: usize, mut work: impl FnMut(std::ops::Range<usize>, &[f64])) {
        let mut weights = [0.0; Self::BLOCK];
        for start in (0..len).step_by(Self::BLOCK) {
            let range = start..(start + Self::BLOCK).min(len);
            let (s, c) = (self.step * (at + start) as f64).sin_cos();
            weights_of(c, s, &self.turned[0], &self.turned[1], &mut weights);
            work(range.clone(), &weights[..range.len()]);
        }
    }
}

vectorized! {
    /// Weights at angles a + b from cos a, sin a and those of b.
    fn weights_of(c: f64, s: f64, cos: &[f64], sin: &[f64], out: &mut [f64]) {
        for ((w, cos), sin) in out.iter_mut().zip(cos).zip(sin) {
            *w = of_cosine(c * cos - s * sin);
        }
    }
}

vectorized! {
    fn weigh_real(samples: &[f64], weights: &[f64], out: &mut [f64]) {
        for ((o, x), w) in out.iter_mut().zip(samples).zip(weights) {
            *o = x * w;
        }
    }
}

vectorized! {
    fn weigh_complex(samples: &[Complex<f64>], weights: &[f64], out: &mut [Complex<f64>]) {
        for ((o, x), w) in out.iter_mut().zip(samples).zip(weights) {
            *o = Complex::new(x.re * w, x.im * w);
        }
    }
}

vectorized! {
    /// Scales bins, and writes their squares: the least and the largest of these.
    fn scale_and_square(bins: &mut [Complex<f64>], scale: f64, power: &mut [f64]) -> [f64; 2] {
        let (mut least, mut largest) = ([f64::INFINITY; 8], [0.0f64; 8]);
        for (bins, power) in bins.chunks_mut(8).zip(power.chunks_mut(8)) {
            for (j, (z, p)) in bins.iter_mut().zip(power).enumerate() {
                *z = Complex::new(z.re * scale, z.im * scale);
                *p = z.re * z.re + z.im * z.im;
                least[j] = if *p < least[j] { *p } else { least[j] };
                largest[j] = if *p > largest[j] { *p } else { largest[j] };
            }
        }
        let least = least.iter().fold(f64::INFINITY, |a, v| a.min(*v));
        [least, largest.iter().fold(0.0, |a, v| a.max(*v))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: usize, bin: f64) -> Vec<Complex<f64>> {
        (0..n).map(|t| Complex::cis(TAU * bin * t as f64 / n as f64)).collect()
    }

    #[test]
    fn the_slope_of_the_response_is_its_derivative() {
        for i in -4000..4000 {
            let at = f64::from(i) * 0.003_7;
            let (value, slope) = response_with_slope(at);
            assert!((value - response(at)).abs() < 1e-11, "{at}");
            let step = 1e-5;
            let difference = (response(at + step) - response(at - step)) / (2.0 * step);
            assert!((slope - difference).abs() < 1e-6, "{at}: {slope} {difference}");
        }
    }

    #[test]
    fn noise_of_power_one_has_density_one() {
        // Expectation over white noise: mean of w² over itself. An impulse shows it exactly.
        let n = 256;
        let mut total = 0.0;
        for at in 0..n {
            let mut x = vec![0.0; n];
            x[at] = 1.0;
            total += Spectrum::of_real(&x, 1.0).unwrap().power[40];
        }
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn side_lobes_fall() {
        let spectrum = Spectrum::of_complex(&record(4096, 1000.37), 1.0).unwrap();
        let top = spectrum.power.iter().fold(0.0f64, |m, p| m.max(*p));
        for (k, p) in spectrum.power.iter().enumerate() {
            let away = (k as f64 - 1000.37).abs();
            if away > 4.5 {
                assert!(p / top < 1e-9, "{k}: {:.1e}", p / top);
            }
            if away > 64.0 && away < 2000.0 {
                assert!(p / top < 1e-14, "{k}: {:.1e}", p / top);
            }
        }
    }

    #[test]
    fn a_line_is_subtracted_to_rounding() {
        let n = 4096;
        let mut spectrum = Spectrum::of_complex(&record(n, 1000.37), 1.0).unwrap();
        // Phase in the middle of the record, less what bin 1000 turns until there.
        let a = Complex::cis(TAU * 0.37 * 0.5) / spectrum.unit();
        spectrum.subtract(1000, 0.37, a);
        let left = spectrum.power[900..1100].iter().fold(0.0f64, |m, p| m.max(*p));
        assert!(left < 1e-9 * n as f64, "{left:.1e}");
        let real: Vec<f64> = record(n, 3.6).iter().map(|z| z.re).collect();
        let mut spectrum = Spectrum::of_real(&real, 1.0).unwrap();
        let a = 0.5 * Complex::cis(TAU * -0.4 * 0.5) / spectrum.unit();
        spectrum.subtract(4, -0.4, a);
        let left = spectrum.power[..200].iter().fold(0.0f64, |m, p| m.max(*p));
        assert!(left < 1e-9 * n as f64, "{left:.1e}");
    }
}
