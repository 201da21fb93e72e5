//! Sparse FFT of a signal whose shards lie on the ranks of an MPI program.
//!
//! Every rank keeps of its shard what a one-pass plan needs; the sketches, some hundred KB all
//! together, go to every rank, and every rank has the answer: that of one process with the whole
//! signal, to the last bit.
//!
//! 1. Each rank fills its sketch. Nothing is exchanged.
//! 2. One number from each rank: how long its sketch is, or that it failed. If any failed, all
//!    return an error, so none waits for another.
//! 3. One all-gather of the stored sketches. Samples are kept, not summed, so gathering them moves
//!    no more than a reduction would, and the stored form is checked like one from a file: another
//!    plan, a doubled or a missing shard is an error on every rank.
//!
//! ```no_run
//! use sparsefft::{Plan, Problem};
//!
//! let universe = mpi::initialize().expect("MPI starts once");
//! let world = universe.world();
//! let plan = Plan::new(Problem::new(1 << 30).sparsity(50).one_pass())?;
//! let (start, shard): (u64, Vec<f32>) = (0, vec![]); // what this rank holds
//! let spectrum = sparsefft_mpi::transform(&world, &plan, |sketch| sketch.add(start, &shard))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! The library has no term in the number of ranks beyond 200 bytes for each.

use mpi::datatype::PartitionMut;
use mpi::traits::CommunicatorCollectives;
use sparsefft::{Error, Plan, Sketch, Spectrum};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why no rank has an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// This rank could not fill its sketch; the others have been told.
    #[error("this rank failed: {0}")]
    Here(Error),
    /// Other ranks could not fill theirs.
    #[error("rank {rank} failed ({count} of all ranks): {message}")]
    Elsewhere {
        /// The first of them.
        rank: usize,
        /// How many they are.
        count: usize,
        /// What the first said.
        message: String,
    },
    /// The sketch of this rank does not fit the others: another plan, a shard seen twice.
    #[error("the sketch of rank {rank}: {error}")]
    Merge {
        /// The rank whose sketch was refused.
        rank: usize,
        /// Why.
        error: Error,
    },
    /// The shards do not make a signal, or the transform failed; the same on every rank.
    #[error(transparent)]
    Transform(#[from] Error),
    /// All sketches together do not fit into one message.
    #[error("the sketches have {bytes} bytes together; a message holds {most}")]
    TooLong {
        /// Bytes.
        bytes: u64,
        /// Most that MPI can count.
        most: u64,
    },
}

/// The spectrum of the whole signal, on every rank; all ranks of the communicator must call.
///
/// `fill` adds the shards of this rank to an empty sketch: one, several, or none.
///
/// # Errors
/// See [`Failure`]. If one rank returns an error, all do.
pub fn transform<C, F>(world: &C, plan: &Plan, fill: F) -> Result<Spectrum, Failure>
where
    C: CommunicatorCollectives,
    F: FnOnce(&mut Sketch) -> Result<(), Error>,
{
    Ok(merge(world, plan, fill)?.finish()?)
}

/// The union of all ranks' sketches, on every rank; all ranks of the communicator must call.
///
/// # Errors
/// As [`transform`], but missing shards are none.
pub fn merge<C, F>(world: &C, plan: &Plan, fill: F) -> Result<Sketch, Failure>
where
    C: CommunicatorCollectives,
    F: FnOnce(&mut Sketch) -> Result<(), Error>,
{
    // A panic that left this function would let the other ranks wait for ever.
    let filled = catch_unwind(AssertUnwindSafe(|| {
        let mut sketch = plan.sketch()?;
        fill(&mut sketch)?;
        Ok(sketch)
    }))
    .unwrap_or_else(|_| Err(Error::Source("filling the sketch panicked".to_string())));
    let ours = match &filled {
        Ok(sketch) => sketch.to_bytes(),
        Err(error) => error.to_string().into_bytes(),
    };
    let size = world.size() as usize;
    let mut sizes = vec![0i64; size];
    let length = ours.len() as i64;
    world.all_gather_into(&if filled.is_ok() { length } else { -1 - length }, &mut sizes[..]);
    let (all, bounds) = gather(world, &ours, &sizes)?;
    let part = |rank: usize| &all[bounds[rank]..bounds[rank + 1]];
    let failed: Vec<usize> = (0..size).filter(|&rank| sizes[rank] < 0).collect();
    if let Err(error) = filled {
        return Err(Failure::Here(error));
    }
    if let Some(&rank) = failed.first() {
        let message = String::from_utf8_lossy(part(rank)).into_owned();
        return Err(Failure::Elsewhere { rank, count: failed.len(), message });
    }
    // The same order everywhere, so that all ranks refuse the same.
    let mut merged =
        Sketch::from_bytes(part(0)).map_err(|error| Failure::Merge { rank: 0, error })?;
    for rank in 1..size {
        merged.merge_bytes(part(rank)).map_err(|error| Failure::Merge { rank, error })?;
    }
    Ok(merged)
}

/// The bytes of all ranks, one after the other, and where each begins.
fn gather<C: CommunicatorCollectives>(
    world: &C,
    ours: &[u8],
    sizes: &[i64],
) -> Result<(Vec<u8>, Vec<usize>), Failure> {
    let lengths = sizes.iter().map(|&size| if size < 0 { -1 - size } else { size } as u64);
    let mut bounds = vec![0usize];
    let mut bytes = 0u64;
    for length in lengths {
        bytes += length;
        bounds.push(bytes as usize);
    }
    let most = i32::MAX as u64;
    if bytes > most {
        return Err(Failure::TooLong { bytes, most });
    }
    let counts: Vec<i32> = bounds.windows(2).map(|w| (w[1] - w[0]) as i32).collect();
    let starts: Vec<i32> = bounds[..sizes.len()].iter().map(|&b| b as i32).collect();
    let mut all = vec![0u8; bytes as usize];
    world.all_gather_varcount_into(ours, &mut PartitionMut::new(&mut all[..], counts, starts));
    Ok((all, bounds))
}
