//! Several files as one signal: the parts of a recording, in order.

use super::{Options, Recording};
use anyhow::{Result, ensure};
use num_complex::Complex;
use sparsefft::{Error, Samples};
use std::path::PathBuf;

/// The parts, and where each begins.
pub struct Parts {
    parts: Vec<Recording>,
    /// First sample of each part, and the length of all.
    starts: Vec<u64>,
}

impl Parts {
    /// Opens the files; `--skip` and `--count` would cut each of them, so they are refused.
    ///
    /// # Errors
    /// As [`Recording::open`]; parts of different kinds, rates or centres.
    pub fn open(files: &[PathBuf], options: &Options) -> Result<Self> {
        ensure!(
            options.skip == 0 && options.count.is_none(),
            "--skip and --count cut one recording; leave them out where its parts are listed"
        );
        let parts =
            files.iter().map(|f| Recording::open(f, options)).collect::<Result<Vec<_>>>()?;
        let kind = |r: &Recording| (r.is_real(), r.full_scale(), r.rate, r.center);
        for (file, part) in files.iter().zip(&parts) {
            ensure!(
                kind(part) == kind(&parts[0]),
                "{} is of another kind than {} ({} and {}); parts of one recording are alike",
                file.display(),
                files[0].display(),
                part.description,
                parts[0].description
            );
        }
        let mut starts = vec![0u64];
        for part in &parts {
            starts.push(starts[starts.len() - 1] + part.len());
        }
        Ok(Parts { parts, starts })
    }

    /// The first part, which tells what all are like.
    pub fn first(&self) -> &Recording {
        &self.parts[0]
    }

    /// What they are, in words.
    pub fn description(&self) -> String {
        let first = &self.first().description;
        format!("{} parts, {} samples, the first: {first}", self.parts.len(), self.len())
    }
}

impl Samples for Parts {
    fn len(&self) -> u64 {
        self.starts[self.parts.len()]
    }
    fn is_real(&self) -> bool {
        self.first().is_real()
    }
    fn resolution(&self) -> f64 {
        self.first().resolution()
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        // By part, so that each reads all of its samples at once.
        let mut by_part = vec![(Vec::new(), Vec::new()); self.parts.len()];
        for (i, &t) in indices.iter().enumerate() {
            let part = self.starts.partition_point(|&s| s <= t) - 1;
            by_part[part].0.push(t - self.starts[part]);
            by_part[part].1.push(i);
        }
        let mut values = Vec::new();
        for (part, (there, here)) in self.parts.iter().zip(&by_part) {
            values.clear();
            values.resize(there.len(), Complex::ZERO);
            part.read(there, &mut values)?;
            for (&i, &v) in here.iter().zip(&values) {
                out[i] = v;
            }
        }
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        let mut at = start;
        let mut rest = out;
        while !rest.is_empty() {
            let part = self.starts.partition_point(|&s| s <= at) - 1;
            let count = (self.starts[part + 1] - at).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(count as usize);
            self.parts[part].read_range(at - self.starts[part], now)?;
            (at, rest) = (at + count, later);
        }
        Ok(())
    }
}
