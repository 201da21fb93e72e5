//! Cutoff, reverse hash with votes, medians: how hashes become locations and values.
//!
//! 1. Cutoff: a hash keeps its largest buckets, found by selection in linear time.
//! 2. Reverse hash: a kept bucket stands for the n/B frequencies whose permuted place
//!    P = σf mod n is nearest to it. In another hash they stand at P' = (σ'/σ) P mod n, an
//!    arithmetic progression; one addition, one shift and one look-up tell whether that hash votes
//!    for a frequency as well. Phases are fractions of 2⁶⁴, where mod 1 is the wrap-around.
//! 3. A frequency with v of l votes is proposed by at least one of the first l - v + 1 hashes, so
//!    at most these are enumerated: there is no array of scores, neither of n nor of candidates.
//! 4. A comb of W | n teeth that keeps residues R restricts the enumeration to P mod W ∈ σR.

use super::flat_hash::{Permutation, hash, nearest};
use super::number::mul_mod;
use crate::cpu::threads;
use num_complex::Complex;

/// The buckets that one hash keeps.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// 1 for a kept bucket.
    pub(crate) map: Vec<u8>,
    /// The kept buckets in rising order.
    pub(crate) list: Vec<u32>,
    energy: Vec<f64>,
    order: Vec<f64>,
}

/// A kept bucket stands this far above the mean noise, of which 1 in 20 buckets does.
const ABOVE_NOISE: f64 = 3.0;

/// Mean over lower quartile of the energy of white noise summed over 1, 2, 3, 4 looks (Gamma
/// distributions). The lower quartile is what occupied buckets disturb least.
const MEAN_OVER_QUARTILE: [f64; 4] = [3.476, 2.081, 1.737, 1.577];

impl Kept {
    /// Keeps at most about `keep` buckets, none of them below `floor`.
    pub(crate) fn cutoff(&mut self, z: &[Complex<f64>], keep: usize, floor: f64) {
        self.energy.clear();
        self.energy.extend(z.iter().map(|v| v.norm_sqr()));
        self.keep_largest(keep, floor, 1);
    }

    /// The same for energies summed over several looks.
    pub(crate) fn cutoff_energies(&mut self, energies: &[f64], keep: usize, looks: usize) {
        self.energy.clear();
        self.energy.extend_from_slice(energies);
        self.keep_largest(keep, 0.0, looks);
    }

    fn keep_largest(&mut self, keep: usize, floor: f64, looks: usize) {
        let (energy, order) = (&self.energy, &mut self.order);
        order.clone_from(energy);
        let (quarter, rank) = (order.len() / 4, order.len().saturating_sub(keep.max(1)));
        let smallest = *order.select_nth_unstable_by(rank, f64::total_cmp).1;
        let lower = if quarter < rank { &mut order[..rank] } else { &mut order[..] };
        let quartile = *lower.select_nth_unstable_by(quarter, f64::total_cmp).1;
        let noise = quartile * MEAN_OVER_QUARTILE[looks.clamp(1, 4) - 1];
        let threshold = smallest.max(ABOVE_NOISE * noise).max(floor);
        self.list.clear();
        let above = (0u32..).zip(energy).filter(|(_, e)| **e >= threshold);
        self.list.extend(above.map(|(b, _)| b));
        // Equal energies (an impulse, silence) would keep everything.
        if self.list.len() > keep + keep / 2 || threshold == 0.0 {
            self.list.retain(|&b| energy[b as usize] > threshold);
        }
        self.map.clear();
        self.map.resize(energy.len(), 0);
        for &b in &self.list {
            self.map[b as usize] = 1;
        }
    }
}

/// One hash in the vote.
#[derive(Clone, Copy)]
pub(crate) struct Voter<'a> {
    pub(crate) permutation: &'a Permutation,
    pub(crate) kept: &'a Kept,
}

/// The election: who votes and what is needed.
pub(crate) struct Election<'a> {
    pub(crate) n: u64,
    pub(crate) voters: Vec<Voter<'a>>,
    /// Voters that propose. With l - v + 1 none is missed; with one, those that it misses are.
    pub(crate) proposers: usize,
    /// The first so many voters decide.
    pub(crate) locate_loops: usize,
    /// Votes needed among these.
    pub(crate) votes: usize,
    /// Votes needed among all.
    pub(crate) confirmations: usize,
    /// Teeth W and kept residues mod W.
    pub(crate) comb: Option<(u64, &'a [u32])>,
}

/// a/n as a fraction of 2⁶⁴, rounded down.
fn fraction(a: u64, n: u64) -> u64 {
    (((a as u128) << 64) / n as u128) as u64
}

/// Frequencies per job of the parallel enumeration.
const JOB: u64 = 1 << 16;

impl Election<'_> {
    /// The elected frequencies in rising order.
    pub(crate) fn elect(&self) -> Vec<u64> {
        let buckets = self.voters[0].kept.map.len() as u64;
        let per_job = (JOB * buckets / self.n).max(1) as usize;
        let jobs: Vec<(usize, &[u32])> = (0..self.proposers)
            .flat_map(|e| self.voters[e].kept.list.chunks(per_job).map(move |list| (e, list)))
            .collect();
        let work = jobs.iter().map(|(_, list)| list.len() as u64).sum::<u64>() * (self.n / buckets);
        let parts = threads::map(&jobs, work / 4, |&(proposer, list)| {
            let mut elected = Vec::new();
            match self.locate_loops {
                2 => self.enumerate::<1>(proposer, list, &mut elected),
                3 => self.enumerate::<2>(proposer, list, &mut elected),
                _ => self.enumerate::<3>(proposer, list, &mut elected),
            }
            elected
        });
        let mut elected = parts.concat();
        elected.sort_unstable();
        elected.dedup();
        elected
    }

    /// Goes through the frequencies of a proposer's buckets; M other hashes vote.
    fn enumerate<const M: usize>(&self, proposer: usize, list: &[u32], elected: &mut Vec<u64>) {
        let n = self.n;
        let own = self.voters[proposer].permutation;
        let b = self.voters[0].kept.map.len() as u64;
        let shift = 64 - b.trailing_zeros();
        let half_bucket = 1u64 << (shift - 1);
        let mut others = (0..=M).filter(|&m| m != proposer).map(|m| self.voters[m]);
        let others: [Voter<'_>; M] = std::array::from_fn(|_| others.next().expect("M others"));
        let maps: [&[u8]; M] = others.map(|o| &o.kept.map[..b as usize]);
        // P' = ratio · P mod n.
        let ratios = others.map(|o| mul_mod(o.permutation.sigma, own.inverse, n));
        let steps = ratios.map(|r| fraction(r, n));
        let needed = (self.votes - 1) as u8;
        let residues = self.comb.map(|(teeth, residues)| {
            let sigma = own.sigma % teeth;
            let mut permuted: Vec<u64> =
                residues.iter().map(|&r| hash(sigma, r as u64, teeth)).collect();
            permuted.sort_unstable();
            (teeth, permuted)
        });

        for &bucket in list {
            // Places within half a bucket: (2b-1)n ≤ 2BP < (2b+1)n, from below 0 for bucket 0.
            let edge = |m: i128| (m * n as i128).div_euclid(2 * b as i128) + 1;
            let lo = edge(2 * bucket as i128 - 1);
            let count = (edge(2 * bucket as i128 + 1) - lo) as u64;
            let lo = lo.rem_euclid(n as i128) as u64;
            let mut phases =
                ratios.map(|r| fraction(mul_mod(r, lo, n), n).wrapping_add(half_bucket));
            if let Some((teeth, permuted)) = &residues {
                let mut next = permuted.partition_point(|&r| r < lo % teeth);
                let mut base = 0u64;
                let first = lo % teeth;
                loop {
                    if next == permuted.len() {
                        next = 0;
                        base += teeth;
                    }
                    let Some(&r) = permuted.get(next) else { break };
                    // P = lo + j with j = base + r - first.
                    let j = base + r - first;
                    if j >= count {
                        break;
                    }
                    // W | n, so that residues stay what they are where lo + j passes n.
                    let mut votes = 0;
                    for m in 0..M {
                        let phase = phases[m].wrapping_add(steps[m].wrapping_mul(j));
                        votes += maps[m][(phase >> shift) as usize];
                    }
                    if votes >= needed {
                        self.confirm((lo + j) % n, own, votes as usize + 1, elected);
                    }
                    next += 1;
                }
                continue;
            }
            for j in 0..count {
                let mut votes = 0;
                for m in 0..M {
                    votes += maps[m][(phases[m] >> shift) as usize];
                    phases[m] = phases[m].wrapping_add(steps[m]);
                }
                if votes >= needed {
                    self.confirm((lo + j) % n, own, votes as usize + 1, elected);
                }
            }
        }
    }

    /// Elects the frequency at place p if, with the votes it has, the hashes that do not locate
    /// bring it to the number needed.
    fn confirm(&self, p: u64, own: &Permutation, votes: usize, elected: &mut Vec<u64>) {
        let n = self.n;
        let f = hash(own.inverse, p, n);
        let b = self.voters[0].kept.map.len();
        let scale = b as f64 / n as f64;
        let mut missing = self.confirmations.saturating_sub(votes);
        let mut left = self.voters.len() - self.locate_loops;
        for voter in &self.voters[self.locate_loops..] {
            if left < missing {
                return;
            }
            let (bucket, _) = nearest(hash(voter.permutation.sigma, f, n), scale, b);
            missing = missing.saturating_sub(voter.kept.map[bucket] as usize);
            left -= 1;
        }
        if missing == 0 {
            elected.push(f);
        }
    }
}

/// Median; the mean of the two middle values for an even count. Reorders its argument.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    // A handful of values: insertion beats selection.
    for i in 1..values.len() {
        let v = values[i];
        let mut j = i;
        while j > 0 && values[j - 1] > v {
            values[j] = values[j - 1];
            j -= 1;
        }
        values[j] = v;
    }
    if values.len() % 2 == 1 { values[middle] } else { 0.5 * (values[middle - 1] + values[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [7.0]), 7.0);
        assert_eq!(median(&mut [3.0, -1.0]), 1.0);
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&mut [1e9, 1.0, 2.0, 4.0, -1e9, 3.0, 8.0, 2.5]), 2.75);
    }

    #[test]
    fn cutoff_keeps_the_largest() {
        let z: Vec<_> = (0..256u64)
            .map(|i| Complex::new(if i % 32 == 5 { 100.0 } else { (i % 7) as f64 * 0.1 }, 0.0))
            .collect();
        let mut kept = Kept::default();
        kept.cutoff(&z, 8, 0.0);
        assert_eq!(kept.list, (0..8).map(|i| 32 * i + 5).collect::<Vec<_>>());
        assert_eq!(kept.map.iter().map(|&m| m as u32).sum::<u32>(), 8);
        // Equal energies keep nothing rather than everything.
        kept.cutoff(&[Complex::new(1.0, 0.0); 64], 4, 0.0);
        assert!(kept.list.len() <= 6);
        kept.cutoff(&[Complex::ZERO; 64], 4, 0.0);
        assert!(kept.list.is_empty());
    }

    /// The definition: every frequency, every hash, count.
    fn by_counting(election: &Election<'_>) -> Vec<u64> {
        let n = election.n;
        let b = election.voters[0].kept.map.len();
        (0..n)
            .filter(|&f| {
                let votes: Vec<usize> = election
                    .voters
                    .iter()
                    .map(|v| {
                        let p = hash(v.permutation.sigma, f, n);
                        v.kept.map[nearest(p, b as f64 / n as f64, b).0] as usize
                    })
                    .collect();
                let residue_kept = election
                    .comb
                    .is_none_or(|(teeth, residues)| residues.contains(&((f % teeth) as u32)));
                residue_kept
                    && votes[..election.locate_loops].iter().sum::<usize>() >= election.votes
                    && votes.iter().sum::<usize>() >= election.confirmations
            })
            .collect()
    }

    #[test]
    fn enumeration_agrees_with_counting() {
        // Odd multiples of half a bucket are places that either neighbour may claim; lengths
        // without them have one answer.
        for (n, teeth) in
            [(5003u64, None), (4095, Some(45)), (6075, Some(243)), (30_375, Some(405))]
        {
            let b = 64usize;
            let draws: Vec<_> = (0..6).map(|l| Permutation::draw(n, 5, l)).collect();
            let kept: Vec<_> = (0..6u64)
                .map(|l| {
                    let mut rng = crate::stages::number::Rng::new(l, 77);
                    let mut kept = Kept { map: vec![0; b], ..Kept::default() };
                    for i in 0..b {
                        if rng.below(3) == 0 {
                            kept.map[i] = 1;
                            kept.list.push(i as u32);
                        }
                    }
                    kept
                })
                .collect();
            let residues: Vec<u32> = teeth.map_or(vec![], |w: u32| (0..w).step_by(3).collect());
            for (locate_loops, votes) in [(4, 3), (4, 2), (3, 2), (2, 2)] {
                let election = Election {
                    n,
                    voters: draws
                        .iter()
                        .zip(&kept)
                        .map(|(permutation, kept)| Voter { permutation, kept })
                        .collect(),
                    proposers: locate_loops - votes + 1,
                    locate_loops,
                    votes,
                    confirmations: votes + 1,
                    comb: teeth.map(|w| (w as u64, &residues[..])),
                };
                let expected = by_counting(&election);
                assert!(!expected.is_empty());
                assert_eq!(election.elect(), expected, "n = {n}, {votes} of {locate_loops}");
            }
        }
    }
}
