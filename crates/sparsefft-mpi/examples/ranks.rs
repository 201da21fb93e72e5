//! What every rank does in the tests: `ranks CASE` under `mpirun`. Rank 0 prints one line.
//!
//! Ends with an error if the ranks do not agree, or if the answer is not that of one process.

use mpi::collective::SystemOperation;
use mpi::traits::{Communicator, CommunicatorCollectives};
use sparsefft::{Error, Plan, Problem, Spectrum};
use sparsefft_mpi::{Failure, transform};
use testkit::{Format, Rng, Signal, Source, generate};

/// Everything of an answer, as one number.
fn digest(outcome: &Result<Spectrum, Failure>) -> u64 {
    let text = match outcome {
        Ok(s) => format!("{:?} {:?}", s.peaks(), s.certificate()),
        Err(Failure::Here(_) | Failure::Elsewhere { .. }) => "a rank failed".to_string(),
        Err(other) => other.to_string(),
    };
    text.bytes().fold(1, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let case = std::env::args().nth(1).unwrap_or_default();
    let universe = mpi::initialize().ok_or("MPI cannot be started")?;
    let world = universe.world();
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let n = if case == "prime" { 65_537 } else { 1u64 << 16 };
    let tones = generate::random(&mut Rng::new(3), n, 7);
    let mut signal = Signal::new(n, tones).format(Format::F32);
    if case != "exact" {
        signal = signal.noise(0.02, 9);
    }
    let Source::C32(x) = signal.stored(Vec::new()) else { return Err("complex f32".into()) };
    let seed = if case == "seeds" { rank } else { 5 };
    let plan = Plan::new(Problem::new(n).sparsity(9).seed(seed).one_pass())?;
    // Where each rank's shard begins.
    let equal = |r: u64| n * r / size;
    let bound = |r: u64| match case.as_str() {
        // The last rank holds everything.
        "empty" if r < size => 0,
        "unequal" if r > 0 && r < size => 7 * r,
        _ => equal(r),
    };
    let (start, end) = (bound(rank) as usize, bound(rank + 1) as usize);
    let outcome = transform(&world, &plan, |sketch| match case.as_str() {
        "fails" if rank == 1 => Err(Error::Source("the disk is gone".to_string())),
        "panics" if rank == 1 => panic!("asked for"),
        "lost" if rank == 1 => Ok(()),
        "twice" if rank == 1 => sketch.add(start as u64 - 10, &x[start - 10..end]),
        "strided" => {
            let mine: Vec<_> =
                x.iter().skip(rank as usize).step_by(size as usize).copied().collect();
            sketch.add_strided(rank, size, &mine)
        }
        "several" => {
            let middle = (start + end) / 2;
            sketch.add(middle as u64, &x[middle..end])?;
            sketch.add(start as u64, &x[start..middle])
        }
        _ => sketch.add(start as u64, &x[start..end]),
    });
    let ours = digest(&outcome);
    let (mut least, mut most) = (0u64, 0u64);
    world.all_reduce_into(&ours, &mut least, SystemOperation::min());
    world.all_reduce_into(&ours, &mut most, SystemOperation::max());
    if least != most {
        return Err(format!("the ranks do not agree: {outcome:?}").into());
    }
    if outcome.is_ok() && digest(&plan.transform(&x).map_err(Failure::from)) != ours {
        return Err("the answer is not that of one process".into());
    }
    if rank == 0 {
        match outcome {
            Ok(spectrum) => {
                println!("{} peaks, {}", spectrum.peaks().len(), spectrum.certificate())
            }
            Err(failure) => println!("{failure}"),
        }
    }
    Ok(())
}
