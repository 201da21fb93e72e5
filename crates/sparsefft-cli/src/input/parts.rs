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

    /// Bytes that were fetched from afar, if any part lies there.
    pub fn fetched(&self) -> Option<u64> {
        self.parts
            .iter()
            .filter_map(|p| p.fetched().map(|(fetched, _)| fetched))
            .reduce(|a, b| a + b)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of pairs of signed bytes, the numbers counting up through all of them.
    fn files(dir: &std::path::Path, samples: &[u64]) -> Vec<PathBuf> {
        let mut next = 0;
        let mut file = |(i, n): (usize, &u64)| {
            let path = dir.join(format!("{i}.cs8"));
            let bytes: Vec<u8> = (next..next + 2 * *n as u8).collect();
            next += bytes.len() as u8;
            std::fs::write(&path, bytes).unwrap();
            path
        };
        samples.iter().enumerate().map(&mut file).collect()
    }

    #[test]
    fn samples_follow_each_other_across_parts() {
        let dir = tempfile::tempdir().unwrap();
        let parts = Parts::open(&files(dir.path(), &[3, 1, 5]), &Options::default()).unwrap();
        let sample = |t: u64| Complex::new(2.0 * t as f64, 2.0 * t as f64 + 1.0);
        assert_eq!((parts.len(), parts.is_real(), parts.resolution()), (9, false, 1.0));
        assert_eq!((parts.first().len(), parts.fetched()), (3, None));
        let words = parts.description();
        assert_eq!(words, "3 parts, 9 samples, the first: 3 complex i8 samples");
        let indices = [8, 0, 3, 2, 4, 2, 7];
        let mut some = [Complex::ZERO; 7];
        parts.read(&indices, &mut some).unwrap();
        assert_eq!(some, indices.map(sample));
        for start in 0..9u64 {
            for end in start..=9 {
                let mut range = vec![Complex::ZERO; (end - start) as usize];
                parts.read_range(start, &mut range).unwrap();
                assert!(range.into_iter().eq((start..end).map(sample)), "{start} {end}");
            }
        }
    }

    #[test]
    fn parts_of_real_floats_have_no_step() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a.f32", "b.f32"].map(|name| dir.path().join(name));
        files.iter().for_each(|f| std::fs::write(f, 1f32.to_le_bytes()).unwrap());
        let parts = Parts::open(&files, &Options::default()).unwrap();
        assert_eq!((parts.len(), parts.is_real(), parts.resolution()), (2, true, 0.0));
    }

    #[test]
    fn parts_that_do_not_belong_together() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = files(dir.path(), &[3, 2]);
        let refused = |files: &[PathBuf], options: &Options| {
            Parts::open(files, options).err().map(|e| format!("{e:#}")).unwrap_or_default()
        };
        let cut = [(1, None), (0, Some(2)), (1, Some(2))];
        for (skip, count) in cut {
            let options = Options { skip, count, ..Options::default() };
            assert!(refused(&files, &options).contains("--skip and --count"), "{skip} {count:?}");
        }
        for other in ["x.s8", "x.cs16", "x.cf32"] {
            files.truncate(2);
            files.push(dir.path().join(other));
            std::fs::write(&files[2], [0; 16]).unwrap();
            let error = refused(&files, &Options::default());
            assert!(error.contains(other) && error.contains("another kind than"), "{error}");
        }
    }
}
