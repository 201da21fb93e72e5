//! A taper as a view of the signal: w\[t\]·x\[t\], sample by sample as it is read.

use crate::problem::Taper;
use crate::samples::{Line, Samples, progression};
use crate::stages::unity::Unity;
use crate::stages::window::bessel_i0;
use crate::{Complex, Error};

/// A signal seen through a taper.
pub(crate) struct Tapered<'a> {
    pub(crate) signal: &'a dyn Samples,
    pub(crate) taper: Taper,
}

impl Tapered<'_> {
    fn weight(&self, t: u64) -> f64 {
        weight(self.taper, t, self.signal.len())
    }
}

/// w\[t\] of a periodic taper of n samples.
fn weight(taper: Taper, t: u64, n: u64) -> f64 {
    match taper {
        Taper::None => 1.0,
        Taper::Hann => 0.5 - 0.5 * Unity::new(n).root(t).re,
        Taper::Blackman => {
            let z = Unity::new(n).root(t);
            0.42 - 0.5 * z.re + 0.08 * (z * z).re
        }
        Taper::Kaiser(beta) => {
            let x = 2.0 * t as f64 / n as f64 - 1.0;
            bessel_i0(beta * (1.0 - x * x).max(0.0).sqrt()) / bessel_i0(beta)
        }
    }
}

impl Samples for Tapered<'_> {
    fn len(&self) -> u64 {
        self.signal.len()
    }
    fn resolution(&self) -> f64 {
        self.signal.resolution()
    }
    fn is_real(&self) -> bool {
        self.signal.is_real()
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.signal.read(indices, out)?;
        for (o, &t) in out.iter_mut().zip(indices) {
            *o *= self.weight(t);
        }
        Ok(())
    }
    fn in_memory(&self) -> bool {
        self.signal.in_memory()
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        self.signal.read_lines(start, step, out)?;
        let n = self.len();
        for (j, line) in out.iter_mut().enumerate() {
            let first = progression(start, step, j as u64, n);
            for tau in 0..4 {
                let w = self.weight((first + tau as u64) % n);
                line.re[tau] *= w;
                line.im[tau] *= w;
            }
        }
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.signal.read_range(start, out)?;
        for (t, o) in (start..).zip(out) {
            *o *= self.weight(t);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_reading_is_tapered_alike() {
        let x: Vec<f64> = (0..40).map(|t| 1.0 + t as f64).collect();
        for taper in [Taper::None, Taper::Hann, Taper::Blackman, Taper::Kaiser(8.0)] {
            let view = Tapered { signal: &x, taper };
            let indices: Vec<u64> = (0..40).collect();
            let (mut a, mut b) = (vec![Complex::ZERO; 40], vec![Complex::ZERO; 40]);
            view.read(&indices, &mut a).unwrap();
            view.read_range(0, &mut b).unwrap();
            assert_eq!(a, b);
            let mut lines = [Line::ZERO; 10];
            view.read_lines(0, 4, &mut lines).unwrap();
            for (t, v) in a.iter().enumerate() {
                assert_eq!(lines[t / 4].lane(t % 4), *v);
            }
        }
        assert_eq!(weight(Taper::Hann, 0, 8), 0.0);
        assert_eq!(weight(Taper::Hann, 4, 8), 1.0);
        assert!((weight(Taper::Blackman, 4, 8) - 1.0).abs() < 1e-15);
        assert!((weight(Taper::Kaiser(5.0), 4, 8) - 1.0).abs() < 1e-15);
    }
}
