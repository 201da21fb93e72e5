//! A cheap overview of the whole band: max-hold over short blocks spread over the recording.
//!
//! At `BLOCKS` places, W consecutive samples are weighted by a Hann window w and transformed; per
//! bin the largest |Σ w x e^{-2πi ft/W}| / Σ w is kept, which is |a| for a tone of amplitude a.
//! Its noise is higher than that of the full transform, by √(n/W): the shorter the transform,
//! the wider its bins.

use num_complex::Complex;
use rustfft::FftPlanner;
use sparsefft::Samples;

const BLOCKS: u64 = 64;
const LONGEST: u64 = 4096;

/// Amplitudes at frequencies -1/2 … 1/2 (of a real signal 0 … 1/2), evenly spaced.
pub fn max_hold(signal: &dyn Samples) -> Result<Vec<f64>, sparsefft::Error> {
    let n = signal.len();
    let width = LONGEST.min(n).max(1) as usize;
    let window = hann(width);
    let sum: f64 = window.iter().sum();
    let fft = FftPlanner::new().plan_fft_forward(width);
    let mut hold = vec![0.0f64; width];
    let mut block = vec![Complex::ZERO; width];
    let count = BLOCKS.min(n / width as u64).max(1);
    for b in 0..count {
        let room = (n - width as u64) as u128;
        let start = (room * b as u128 / (count.max(2) - 1) as u128) as u64;
        signal.read_range(start, &mut block)?;
        block.iter_mut().zip(&window).for_each(|(x, w)| *x *= w);
        fft.process(&mut block);
        for (h, x) in hold.iter_mut().zip(&block) {
            *h = h.max(x.norm() / sum);
        }
    }
    if signal.is_real() {
        hold.truncate(width / 2 + 1);
    } else {
        hold.rotate_right(width / 2);
    }
    Ok(hold)
}

/// Periodic Hann window; a single sample keeps its value.
pub fn hann(width: usize) -> Vec<f64> {
    if width < 3 {
        return vec![1.0; width];
    }
    let turn = std::f64::consts::TAU / width as f64;
    (0..width).map(|t| 0.5 - 0.5 * (turn * t as f64).cos()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_shows_with_its_amplitude_in_its_place() {
        let n = 1 << 15;
        let x: Vec<Complex<f64>> =
            (0..n).map(|t| 0.5 * Complex::cis(std::f64::consts::TAU * 0.25 * t as f64)).collect();
        let hold = max_hold(&x).unwrap();
        let top = (0..hold.len()).max_by(|&a, &b| hold[a].total_cmp(&hold[b])).unwrap();
        assert_eq!(top, hold.len() / 2 + hold.len() / 4);
        assert!((hold[top] - 0.5).abs() < 1e-9);
        let real: Vec<f64> = x.iter().map(|v| v.re).collect();
        assert_eq!(max_hold(&real).unwrap().len(), 2049);
        assert_eq!(max_hold(&vec![1.0f64]).unwrap(), [1.0]);
    }
}
