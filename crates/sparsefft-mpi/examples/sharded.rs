//! A noisy signal of 2^30 samples over all ranks; every rank computes its shard as it reads it.
//!
//! ```text
//! cargo build --release -p sparsefft-mpi --example sharded
//! mpirun -np 4 target/release/examples/sharded
//! ```

use mpi::traits::Communicator;
use sparsefft::{Complex, Plan, Problem, indexed};
use std::f64::consts::TAU;

const N: u64 = 1 << 30;

/// Three tones, and noise that is a hash of the time.
fn sample(t: u64) -> Complex<f64> {
    let tone = |f: u64, a: f64| a * Complex::cis(TAU * (f * t % N) as f64 / N as f64);
    let mut z = t.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let part = |bits: u64| f64::from(bits as u32) / 2f64.powi(31) - 1.0;
    let noise = 0.05 * Complex::new(part(z), part(z >> 32));
    tone(12_345_678, 1.0) + tone(987_654_321, 0.5) + tone(555_555_555, 0.25) + noise
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let universe = mpi::initialize().ok_or("MPI cannot be started")?;
    let world = universe.world();
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let (start, end) = (N / size * rank, if rank + 1 == size { N } else { N / size * (rank + 1) });
    let plan = Plan::new(Problem::new(N).sparsity(10).one_pass())?;
    let shard = indexed(end - start, |t| sample(start + t));
    let spectrum = sparsefft_mpi::transform(&world, &plan, |sketch| sketch.add(start, &shard))?;
    if rank == 0 {
        println!("{size} ranks: {}", spectrum.certificate());
        for peak in spectrum.peaks() {
            println!("{:>12}  |X|/n = {:.4}", peak.index, peak.magnitude() / N as f64);
        }
    }
    Ok(())
}
