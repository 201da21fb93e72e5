//! Samples that arrive once, in order, in blocks of any size.
//!
//! Of each block only the samples that the plan needs are touched. A window that slides by `hop`
//! samples is n/hop sketches side by side, each with its own beginning.

use super::{Part, Sketch};
use crate::Error;
use crate::plan::Plan;
use crate::samples::Samples;
use crate::spectrum::Spectrum;
use std::collections::VecDeque;

/// One signal of n samples that arrives in order.
///
/// ```
/// use sparsefft::{Plan, Problem, Stream};
/// let plan = Plan::new(Problem::new(4096).sparsity(2).one_pass())?;
/// let mut stream = Stream::new(&plan)?;
/// for block in 0..64 {
///     let samples: Vec<f32> = (0..64).map(|t| ((block * 64 + t) % 2) as f32).collect();
///     stream.push(&samples)?;
/// }
/// assert_eq!(stream.finish()?.peaks()[1].index, 2048);
/// # Ok::<(), sparsefft::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    sketch: Sketch,
    received: u64,
}

impl Stream {
    /// An empty stream for a plan of [`Problem::one_pass`](crate::Problem::one_pass).
    ///
    /// # Errors
    /// As [`Sketch::new`].
    pub fn new(plan: &Plan) -> Result<Self, Error> {
        Ok(Stream { sketch: Sketch::new(plan)?, received: 0 })
    }

    /// Takes the next samples.
    ///
    /// # Errors
    /// [`Error::RangeOutside`] if they are more than are missing, and as [`Sketch::add`]. Nothing
    /// was taken then.
    pub fn push<S: Samples + ?Sized>(&mut self, block: &S) -> Result<(), Error> {
        self.push_part(block, 0, block.len())
    }

    /// Takes `count` samples of a block, from number `from` on.
    fn push_part<S: Samples + ?Sized>(
        &mut self,
        block: &S,
        from: u64,
        count: u64,
    ) -> Result<(), Error> {
        let part = Part { start: self.received, step: 1, count };
        self.sketch.add_part(part, block, from)?;
        self.received += count;
        Ok(())
    }

    /// How many samples have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many are still to come.
    pub fn remaining(&self) -> u64 {
        self.sketch.plan().problem().n - self.received
    }

    /// What has been kept so far.
    pub fn sketch(&self) -> &Sketch {
        &self.sketch
    }

    /// The spectrum, once all samples have arrived.
    ///
    /// # Errors
    /// As [`Sketch::finish`].
    pub fn finish(&self) -> Result<Spectrum, Error> {
        self.sketch.finish()
    }
}

/// An endless signal seen through a window of n samples that moves on by `hop` samples.
#[derive(Debug, Clone)]
pub struct Sliding {
    plan: Plan,
    hop: u64,
    received: u64,
    /// Windows that have begun, oldest first.
    open: VecDeque<Stream>,
}

impl Sliding {
    /// Windows of the plan's n samples at 0, hop, 2·hop, …; hops beyond n leave samples out.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for the hop 0; as [`Sketch::new`].
    pub fn new(plan: &Plan, hop: u64) -> Result<Self, Error> {
        if hop == 0 {
            return Err(Error::InvalidOption { name: "hop", value: 0.0, allowed: "1 or more" });
        }
        Sketch::new(plan)?;
        Ok(Sliding { plan: plan.clone(), hop, received: 0, open: VecDeque::new() })
    }

    /// How many samples have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Takes the next samples; returns the first sample and the spectrum of every window that they
    /// complete, oldest first.
    ///
    /// # Errors
    /// As [`Sketch::add`] and [`Plan::transform`]. The windows that the block touches are lost
    /// then; later ones are not.
    pub fn push<S: Samples + ?Sized>(&mut self, block: &S) -> Result<Vec<(u64, Spectrum)>, Error> {
        let n = self.plan.problem().n;
        let (begin, end) = (self.received, self.received + block.len());
        self.received = end;
        let mut done = Vec::new();
        let mut outcome = Ok(());
        let mut open = std::mem::take(&mut self.open);
        // The first window that begins in this block.
        let mut next = begin.div_ceil(self.hop) * self.hop;
        while next < end {
            open.push_back(Stream::new(&self.plan)?);
            next += self.hop;
        }
        let mut start = next - self.hop * open.len() as u64;
        for mut stream in open {
            let at = start + stream.received;
            let count = stream.remaining().min(end - at);
            let mut step = || {
                stream.push_part(block, at - begin, count)?;
                if start + n <= end {
                    return stream.finish().map(Some);
                }
                Ok(None)
            };
            match step() {
                Ok(Some(spectrum)) => done.push((start, spectrum)),
                Ok(None) => self.open.push_back(stream),
                Err(error) => outcome = Err(error),
            }
            start += self.hop;
        }
        outcome.map(|()| done)
    }
}
