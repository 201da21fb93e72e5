//! Scattered samples of long files, read by position.
//!
//! A page fault in a memory map also maps the cached neighbours of the page, sixteen pages at a
//! time: ten thousand scattered reads would count as 600 MB of resident memory. Reads by position
//! touch one page and map none. Several threads at once let a disk serve reads in parallel.

use super::layout::Layout;
use crate::parallel;
use num_complex::Complex;
use sparsefft::{Error, Line};
use std::fs::File;
use std::sync::Mutex;

/// Shorter files are read through their map, which is faster once its pages are there.
const LONG: u64 = 128 << 20;
/// Reads in flight.
const THREADS: usize = 8;
/// Fewer reads than this are not worth a thread.
const SHARE: usize = 256;
/// Longest span of four neighbours that is read in one piece.
const SPAN: u64 = 4096;

/// A long file and the layout of its samples.
pub(super) struct Scattered {
    file: File,
    layout: Layout,
}

impl Scattered {
    /// `None` for files that are better read through their map, and where reads by position do
    /// not exist.
    pub(super) fn new(file: File, size: u64, layout: Layout) -> Option<Self> {
        (cfg!(unix) && size >= LONG).then_some(Scattered { file, layout })
    }

    /// Reads the samples at these indices.
    pub(super) fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        // Batches of neighbours are read in one piece by the caller through read_range.
        parallel(out, |first, part| {
            for (o, &i) in part.iter_mut().zip(&indices[first..]) {
                *o = self.sample(i)?;
            }
            Ok(())
        })
    }

    /// Reads lines of four neighbours: lane τ of `out[j]` is sample (start + j·step + τ) mod n.
    pub(super) fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        let n = self.layout.n;
        let at = |j: usize| ((start as u128 + step as u128 * j as u128) % n as u128) as u64;
        parallel(out, |first, part| {
            for (j, line) in part.iter_mut().enumerate() {
                self.line(at(first + j), line)?;
            }
            Ok(())
        })
    }

    fn line(&self, first: u64, line: &mut Line) -> Result<(), Error> {
        let Layout { n, stride, .. } = self.layout;
        let span = 3 * stride + self.layout.sample_size();
        if first + 4 <= n && span <= SPAN {
            let mut bytes = [0u8; SPAN as usize];
            let bytes = &mut bytes[..span as usize];
            self.bytes(self.layout.offset + first * stride, bytes)?;
            let four = Layout { offset: 0, n: 4, ..self.layout };
            four.read_lines(bytes, 0, 0, std::slice::from_mut(line));
            return Ok(());
        }
        for tau in 0..4 {
            line.set_lane(tau, self.sample((first + tau as u64) % n)?);
        }
        Ok(())
    }

    fn sample(&self, i: u64) -> Result<Complex<f64>, Error> {
        let mut bytes = [0u8; 16];
        let bytes = &mut bytes[..self.layout.sample_size() as usize];
        self.bytes(self.layout.offset + i * self.layout.stride, bytes)?;
        let mut out = [Complex::ZERO];
        Layout { offset: 0, n: 1, ..self.layout }.read(bytes, &[0], &mut out);
        Ok(out[0])
    }

    #[cfg(unix)]
    fn bytes(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(out, at).map_err(|e| Error::Source(e.to_string()))
    }

    #[cfg(not(unix))]
    fn bytes(&self, _: u64, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::Source("reads by position do not exist here".into()))
    }
}

/// Runs `work(first, part)` over parts of `out`, on several threads if there is enough to do.
fn parallel<T: Send>(
    out: &mut [T],
    work: impl Fn(usize, &mut [T]) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let share = out.len().div_ceil(THREADS).max(SHARE);
    if out.len() <= share {
        return work(0, out);
    }
    let failed = Mutex::new(Ok(()));
    parallel::each(out.chunks_mut(share).enumerate().collect(), |(i, part)| {
        if let Err(error) = work(i * share, part) {
            *failed.lock().unwrap_or_else(|e| e.into_inner()) = Err(error);
        }
    });
    failed.into_inner().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::super::Number;
    use super::*;
    use std::io::Write;

    #[test]
    fn it_reads_what_the_map_reads() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..40_000u32).flat_map(|v| (v as u16).to_le_bytes()).collect();
        file.write_all(&bytes).unwrap();
        for (stride, complex) in [(4, true), (2, false), (6000, true)] {
            let mut layout = Layout {
                number: Number::I16,
                big_endian: false,
                complex,
                offset: 10,
                stride,
                n: 0,
                bias: 0.5,
            };
            layout.n = (bytes.len() as u64 - 10 - layout.sample_size()) / stride + 1;
            let scattered = Scattered { file: file.try_clone().unwrap(), layout };
            let (mut a, mut b) = (vec![Line::ZERO; 3000], vec![Line::ZERO; 3000]);
            scattered.read_lines(layout.n - 2, 7919, &mut a).unwrap();
            layout.read_lines(&bytes, layout.n - 2, 7919, &mut b);
            assert_eq!(a, b);
            let indices: Vec<u64> = (0..1000).map(|i| i * 37 % layout.n).collect();
            let (mut a, mut b) = (vec![Complex::ZERO; 1000], vec![Complex::ZERO; 1000]);
            scattered.read(&indices, &mut a).unwrap();
            layout.read(&bytes, &indices, &mut b);
            assert_eq!(a, b);
        }
        let layout = Layout {
            number: Number::I16,
            big_endian: false,
            complex: false,
            offset: 0,
            stride: 2,
            n: 50_000,
            bias: 0.0,
        };
        let short = Scattered { file, layout };
        assert!(matches!(short.read(&[45_000], &mut [Complex::ZERO]), Err(Error::Source(_))));
    }
}
