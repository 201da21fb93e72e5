//! Transforms of files that are larger than memory.
//!
//! The same two passes as in `four_step`, with panels of as many columns or rows as fit:
//! 1. columns: read a panel of W columns (n1 pieces of W neighbours), transform, write it as one
//!    block (k1, t2) to the scratch file, in one piece;
//! 2. rows: read R rows of every block (n2/W pieces of R·W neighbours), transform, write n2 pieces
//!    of R neighbours to the output.
//!
//! Every value is read twice and written twice. Two panels are in memory at a time.

use super::bluestein::padded;
use super::four_step::{Cut, FourStep, balanced};
use super::memory::zeroed;
use super::scalar::Real;
use super::threads::{Shared, Threads, for_each};
use super::transpose::{Far, Strided};
use super::{Direction, Fft, LARGE, Workspace};
use crate::Error;
use crate::spectrum::Norm;
use num_complex::Complex;
use rustfft::FftDirection;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

/// A place in a file: interleaved real and imaginary parts, little-endian, from this byte on.
#[derive(Debug, Clone, Copy)]
pub struct FilePart<'a> {
    /// The file, open for what is done with it.
    pub file: &'a File,
    /// Bytes before the first value (a header, say).
    pub offset: u64,
}

/// A transform of n values from file to file in bounded memory, planned.
#[derive(Debug, Clone)]
pub struct FileFft<T: Real> {
    n: u64,
    memory: u64,
    norm: Norm,
    threads: Threads,
    precision: std::marker::PhantomData<T>,
}

impl<T: Real> FileFft<T> {
    /// Plans a transform of n values that uses about `memory` bytes.
    ///
    /// # Errors
    /// As [`Fft::new`]; [`Error::Unsupported`] if n neither fits in memory nor has a divisor near
    /// its square root; [`Error::InvalidOption`] if the memory is too small for two passes.
    pub fn new(n: u64, memory: u64) -> Result<Self, Error> {
        Fft::<T>::new(n)?;
        let plan = FileFft {
            n,
            memory,
            norm: Norm::Backward,
            threads: Threads::All,
            precision: std::marker::PhantomData,
        };
        if !plan.fits() {
            plan.panels()?;
        }
        Ok(plan)
    }

    /// The same plan with another place for the factor 1/n.
    pub fn norm(mut self, norm: Norm) -> Self {
        self.norm = norm;
        self
    }

    /// The same plan on these threads.
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Whether a scratch file of n values is needed: the transform does not fit in memory.
    pub fn needs_scratch(&self) -> bool {
        !self.fits()
    }

    /// The data and what [`Fft`] needs beside them fit.
    fn fits(&self) -> bool {
        let n = self.n as u128;
        let values = if self.n >= LARGE && balanced(self.n).is_none() {
            // Bluestein: the data, the chirp, its response, and a work buffer of two lengths.
            2 * n + 3 * padded(self.n) as u128
        } else {
            2 * n
        };
        values * size_of::<Complex<T>>() as u128 <= self.memory as u128
    }

    /// (n1, n2, columns per panel, rows per panel).
    fn panels(&self) -> Result<(usize, usize, usize, usize), Error> {
        let (n1, n2) = balanced(self.n).ok_or_else(|| Error::Unsupported {
            algorithm: "out-of-core",
            reason: format!(
                "n = {} needs more than {} bytes of memory and has no divisor near its square \
                 root; pad the signal to a power of two or allow more memory",
                self.n, self.memory
            ),
        })?;
        // Two panels, and a tile per thread that is small beside them.
        let half = usize::try_from(self.memory / 2).unwrap_or(isize::MAX as usize / 2);
        let values = half / size_of::<Complex<T>>();
        let (columns, rows) = (values / n1, values / n2);
        // Narrower panels would read and write single cache lines of the disk.
        const NARROWEST: usize = 8;
        if columns.min(rows) < NARROWEST {
            return Err(Error::InvalidOption {
                name: "memory",
                value: self.memory as f64,
                allowed: "at least 16 columns of about √n values: 16·√n·(bytes per value)",
            });
        }
        Ok((n1, n2, columns.min(n2), rows.min(n1)))
    }

    /// Transforms n values of `input` to `output`. Both may be the same part of one file. The
    /// scratch file, from its start on, is overwritten; it is not touched if
    /// [`needs_scratch`](FileFft::needs_scratch) is false.
    ///
    /// # Errors
    /// [`Error::Source`] if a file cannot be read or written (a file that is too short, a full
    /// disk), [`Error::OutOfMemory`].
    pub fn run(
        &self,
        direction: Direction,
        input: FilePart<'_>,
        output: FilePart<'_>,
        scratch: Option<&File>,
    ) -> Result<(), Error> {
        if self.fits() {
            let mut data = zeroed::<T>(self.n, self.n)?;
            read(input, 0, &mut data)?;
            let plan = Fft::new(self.n)?.norm(self.norm).threads(self.threads);
            plan.batch(direction, &mut data, &mut Workspace::new())?;
            return write(output, 0, &data);
        }
        let Some(scratch) = scratch else {
            return Err(Error::Source(format!(
                "{} values do not fit in {} bytes of memory and no scratch file was given",
                self.n, self.memory
            )));
        };
        let scratch = FilePart { file: scratch, offset: 0 };
        let (n1, n2, width, height) = self.panels()?;
        let way = match direction {
            Direction::Forward => FftDirection::Forward,
            Direction::Inverse => FftDirection::Inverse,
        };
        let four = FourStep::<T>::new(n1, n2, way);
        let scale = T::of(self.norm.factor(self.n, direction));
        let panel = (width * n1).max(height * n2) as u64;
        let mut a = zeroed::<T>(panel, self.n)?;
        let mut b = zeroed::<T>(panel, self.n)?;
        let threads = four.threads(self.threads);
        let mut tiles = zeroed::<T>((threads * four.tile_len()) as u64, self.n)?;

        for first in (0..n2).step_by(width) {
            let count = width.min(n2 - first);
            for (t1, row) in a.chunks_exact_mut(count).take(n1).enumerate() {
                read(input, t1 as u64 * n2 as u64 + first as u64, row)?;
            }
            let cut = Cut::new(count, FourStep::<T>::width(n1), std::ptr::null::<Complex<T>>());
            let (from, to) = (Shared(a.as_mut_ptr()), Shared(b.as_mut_ptr()));
            for_each(tiles.chunks_exact_mut(four.tile_len()), cut.pieces(), |tile, c| {
                let piece = cut.piece(c);
                let columns = first + piece.start..first + piece.end;
                // SAFETY: panel a has n1 rows of `count` columns; piece c writes its own block of
                // panel b.
                unsafe {
                    let from = Strided { start: from.at(piece.start).cast_const(), stride: count };
                    let to = to.at(piece.start * n1);
                    four.column_tile(columns, from, to, tile, scale, Far::Target);
                }
            });
            write(scratch, first as u64 * n1 as u64, &b[..count * n1])?;
        }

        // The blocks of the scratch file: every panel was cut into tiles of its own.
        let blocks: Vec<_> = (0..n2)
            .step_by(width)
            .flat_map(|first| {
                let count = width.min(n2 - first);
                let cut = Cut::new(count, FourStep::<T>::width(n1), std::ptr::null::<Complex<T>>());
                (0..cut.pieces()).map(move |c| {
                    let piece = cut.piece(c);
                    first + piece.start..first + piece.end
                })
            })
            .collect();
        let whole = Cut::new(n2, n2, std::ptr::null::<Complex<T>>());
        for first in (0..n1).step_by(height) {
            let count = height.min(n1 - first);
            // Panel b collects the rows of all blocks, panel a puts them side by side.
            let mut done = 0;
            for block in &blocks {
                let part = &mut b[done..done + count * block.len()];
                read(scratch, block.start as u64 * n1 as u64 + (first * block.len()) as u64, part)?;
                for (w, run) in part.chunks_exact(block.len()).enumerate() {
                    a[w * n2 + block.start..w * n2 + block.end].copy_from_slice(run);
                }
                done += part.len();
            }
            let cut = Cut::new(count, FourStep::<T>::width(n2), std::ptr::null::<Complex<T>>());
            let (from, to) = (Shared(a.as_mut_ptr()), Shared(b.as_mut_ptr()));
            for_each(tiles.chunks_exact_mut(four.tile_len()), cut.pieces(), |tile, r| {
                let piece = cut.piece(r);
                // SAFETY: panel a is one block of `count` rows and n2 columns; piece r writes its
                // own columns of panel b.
                unsafe {
                    let middle = Strided { start: from.at(0).cast_const(), stride: count };
                    let to = Strided { start: to.at(piece.start), stride: count };
                    four.row_tile(piece, whole, middle, to, tile, Far::Target);
                }
            });
            for (k2, run) in b.chunks_exact(count).take(n2).enumerate() {
                write(output, first as u64 + n1 as u64 * k2 as u64, run)?;
            }
        }
        Ok(())
    }
}

/// Reads values from position `start` of a part on.
fn read<T: Real>(part: FilePart<'_>, start: u64, values: &mut [Complex<T>]) -> Result<(), Error> {
    let mut file = part.file;
    seek::<T>(part, start)?;
    // SAFETY: complex values are pairs of floats, for which all bytes are valid.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), size_of_val(values))
    };
    file.read_exact(bytes).map_err(|e| {
        let count = bytes.len();
        Error::Source(format!("reading {count} bytes from value {start} on: {e}"))
    })?;
    swap::<T>(bytes);
    Ok(())
}

/// Writes values from position `start` of a part on.
fn write<T: Real>(part: FilePart<'_>, start: u64, values: &[Complex<T>]) -> Result<(), Error> {
    let mut file = part.file;
    seek::<T>(part, start)?;
    // SAFETY: complex values are pairs of floats, without padding.
    let bytes =
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    let result = if cfg!(target_endian = "big") {
        let mut copy = bytes.to_vec();
        swap::<T>(&mut copy);
        file.write_all(&copy)
    } else {
        file.write_all(bytes)
    };
    let count = bytes.len();
    result.map_err(|e| Error::Source(format!("writing {count} bytes from value {start} on: {e}")))
}

fn seek<T: Real>(part: FilePart<'_>, start: u64) -> Result<(), Error> {
    let mut file = part.file;
    let at = part.offset + start * size_of::<Complex<T>>() as u64;
    let found = file.seek(SeekFrom::Start(at));
    found.map(|_| ()).map_err(|e| Error::Source(format!("seeking to byte {at}: {e}")))
}

/// Between little-endian and the machine's order.
fn swap<T: Real>(bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    }
}
