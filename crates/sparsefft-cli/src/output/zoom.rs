//! The exact DFT of a few neighbouring bins, as evidence for a peak.
//!
//! X\[f+d\] = Σ_t x\[t\] e^{-2πi ft/n} e^{-2πi dt/n} for |d| ≤ 32. The signal is cut into segments
//! so short that the second factor hardly turns inside one: with t = c + u around the centre c of
//! a segment, e^{-2πi du/n} is a power series in u whose first TERMS terms are exact to rounding.
//! One pass over the samples thus gives all bins, at the cost of TERMS multiplications each.

use crate::parallel;
use num_complex::Complex;
use sparsefft::{Error, Samples};
use std::f64::consts::TAU;

/// Bins on either side of the peak.
pub const HALF: i64 = 32;
const SEGMENTS: u64 = 4096;
/// (2π·32/4096/2)^7/7! is below 1e-15.
const TERMS: usize = 7;

/// X\[centre - 32\] … X\[centre + 32\], indices mod n.
///
/// # Errors
/// What the source meets.
pub fn neighbourhood(signal: &dyn Samples, centre: u64) -> Result<Vec<Complex<f64>>, Error> {
    let n = signal.len();
    let length = n.div_ceil(SEGMENTS).max(1);
    let segments = n.div_ceil(length);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = segments.div_ceil(threads.min(segments));
    let firsts = (0..segments).step_by(share as usize);
    let mut parts: Vec<Result<Vec<Complex<f64>>, Error>> =
        vec![Ok(Vec::new()); firsts.clone().count()];
    parallel::each(parts.iter_mut().zip(firsts).collect(), |(out, first)| {
        *out = part(signal, centre, first..(first + share).min(segments), length);
    });
    let mut out = vec![Complex::ZERO; 2 * HALF as usize + 1];
    for part in parts {
        out.iter_mut().zip(part?).for_each(|(o, v)| *o += v);
    }
    Ok(out)
}

fn part(
    signal: &dyn Samples,
    centre: u64,
    segments: std::ops::Range<u64>,
    length: u64,
) -> Result<Vec<Complex<f64>>, Error> {
    /// Samples read at once; also the samples between two exact phases.
    const CHUNK: u64 = 1024;
    let n = signal.len();
    let turn = |f: u64, t: u64| (f as u128 * t as u128 % n as u128) as f64 / n as f64;
    let step = Complex::cis(-TAU * turn(centre, 1));
    let mut out = vec![Complex::ZERO; 2 * HALF as usize + 1];
    let mut x = vec![Complex::ZERO; CHUNK as usize];
    for segment in segments {
        let (start, end) = (segment * length, ((segment + 1) * length).min(n));
        let middle = (start + end) / 2;
        // Moments Σ x e^{-2πi ft/n} v^p with v = (t - middle)/length.
        let mut moments = [Complex::<f64>::ZERO; TERMS];
        let mut at = start;
        while at < end {
            let count = (end - at).min(CHUNK) as usize;
            signal.read_range(at, &mut x[..count])?;
            let mut phase = Complex::cis(-TAU * turn(centre, at));
            for (i, &value) in x[..count].iter().enumerate() {
                let v = (at as f64 + i as f64 - middle as f64) / length as f64;
                let mut term = value * phase;
                for m in &mut moments {
                    *m += term;
                    term *= v;
                }
                phase *= step;
            }
            at += count as u64;
        }
        for (d, o) in (-HALF..=HALF).zip(&mut out) {
            let offset = turn(d.rem_euclid(n as i64) as u64, middle);
            let z = Complex::new(0.0, -TAU * d as f64 * length as f64 / n as f64);
            let (mut power, mut sum) = (Complex::new(1.0, 0.0), Complex::<f64>::ZERO);
            for (p, m) in moments.iter().enumerate() {
                sum += m * power;
                power *= z / (p as f64 + 1.0);
            }
            *o += sum * Complex::cis(-TAU * offset);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustfft::FftPlanner;

    #[test]
    fn it_is_the_dense_transform_there() {
        for n in [5usize, 100, 4099, 40_000] {
            let x: Vec<Complex<f64>> = (0..n)
                .map(|t| {
                    let v = crate::synth::gaussian(2, t as u64);
                    Complex::new(f64::from(v.re), f64::from(v.im))
                })
                .collect();
            let mut dense = x.clone();
            FftPlanner::new().plan_fft_forward(n).process(&mut dense);
            for centre in [0, n as u64 / 3, n as u64 - 1] {
                let near = neighbourhood(&x, centre).unwrap();
                for (d, v) in (-HALF..=HALF).zip(near) {
                    let f = (centre as i64 + d).rem_euclid(n as i64) as usize;
                    let error = (v - dense[f]).norm() / (n as f64).sqrt();
                    assert!(error < 1e-11, "n {n}, bin {f}: {error:e}");
                }
            }
        }
    }
}
