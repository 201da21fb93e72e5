//! `comb-vote` (sFFT v2): `vote`, with an aliasing comb that restricts the locations first.
//!
//! For W | n the samples x\[τ + j n/W\] alias without leakage: their transform of size W is
//!
//! ```text
//! U[r] = (W/n) Σ_{f ≡ r mod W} X[f] w^{fτ}
//! ```
//!
//! Only frequencies in the 2k residues with the largest energy, summed over combs with different
//! offsets τ, can be elected. The sum is the union of the combs with one cutoff: two frequencies
//! that cancel at one offset do not at another.
//!
//! When: n has a divisor 2^a 3^b 5^c of suitable size; otherwise the planner leaves the comb out.
//! Cost: a few combs of W samples; the hashes get by with fewer buckets, as the comb removes all
//! but 2k/W of the false locations.

use super::vote::{self, Buffers};
use super::{Answer, Run};
use crate::judge::{ReadSet, RunningSum};
use crate::plan::CombRecipe;
use crate::samples::Samples;
use crate::stages::flat_hash::blame;
use crate::stages::number::Rng;
use crate::{Complex, Error};

/// Runs the vote behind its comb.
pub(crate) fn run(run: &mut Run<'_>) -> Result<Answer, Error> {
    vote::solve(run)
}

/// Offset τ of one comb.
pub(super) fn offset(n: u64, comb: &CombRecipe, seed: u64, stream: u64) -> u64 {
    Rng::new(seed, stream).below(n / comb.teeth)
}

/// Reads the combs and leaves the kept residues in `buffers.residues`; returns what was read.
pub(super) fn keep_residues(
    signal: &dyn Samples,
    comb: &CombRecipe,
    offset: impl Fn(u64) -> u64,
    seed: u64,
    buffers: &mut Buffers,
) -> Result<Vec<ReadSet>, Error> {
    let (n, w) = (signal.len(), comb.teeth as usize);
    let fft = buffers.fft(w);
    let mut u = vec![Complex::ZERO; w];
    let mut scratch = vec![Complex::ZERO; fft.get_inplace_scratch_len()];
    let mut energy = vec![0.0; w];
    let mut sets = Vec::new();
    for c in 0..comb.combs as u64 {
        let tau = offset(c);
        signal.read_progression(tau, n / comb.teeth, &mut u)?;
        let set = ReadSet::singles(tau, n / comb.teeth, w);
        let mut sum = RunningSum::new(n, &set, seed);
        sum.add(&u);
        sets.push(set.with_sum(sum.finish()));
        fft.process_with_scratch(&mut u, &mut scratch);
        for (e, v) in energy.iter_mut().zip(&u) {
            *e += v.norm_sqr();
        }
        if !energy.iter().sum::<f64>().is_finite() {
            return Err(blame(signal, tau, n / comb.teeth, comb.teeth));
        }
    }
    buffers.residues.cutoff_energies(&energy, comb.keep as usize, comb.combs as usize);
    Ok(sets)
}
