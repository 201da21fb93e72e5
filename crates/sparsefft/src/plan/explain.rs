//! A recipe in words.

use super::recipe::{Method, Recipe};
use std::fmt;

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.k {
            Some(k) => writeln!(f, "the {k} largest of {} Fourier coefficients", self.n)?,
            None => writeln!(f, "the large ones among {} Fourier coefficients", self.n)?,
        }
        match &self.method {
            Method::Dense => write!(f, "dense FFT: read all {} samples", self.n)?,
            Method::Vote(vote) => vote.explain(f, self.n)?,
        }
        Ok(())
    }
}
