//! accuracy: finer frequencies from more samples.
//!
//! Once every tone is known to a small part of a bin, each further offset D adds a line of four
//! lanes to every bin, and the normal equations of all lanes are the sum of those of each. Batches
//! of lines are read, peeled and projected, and only their equations are kept. All offsets 0, 4, …
//! s-4 together read every sample of the record; the error is then 1.2 to 1.4 times the
//! Cramér-Rao bound of all n samples.
//!
//! The equations are linear around the known tones, so the lines come in rounds of sixteen times
//! as many, each starting from the last.

use super::comb::{Comb, Geometry, Tone};
use super::joint::{Groups, MOST_ENTRIES, Normal, normal_equations};
use super::linear;
use super::refine::{Floor, moved};
use super::window::{BETAS, leak};
use crate::algorithms::Run;
use crate::stages::number::Rng;
use crate::{Complex, Error};

/// Lines per batch.
const BATCH: usize = 8;
/// Growth of the rounds.
const GROWTH: usize = 16;
/// Bins on each side of a fit: more than the first pass takes, since time is no concern here.
const HALF: usize = 8;

/// Error of a position, in bins, per unit of leakage.
const AMPLIFIED: f64 = 150.0;

/// Tones with the standard deviations of amplitude and frequency.
pub(crate) type Bought = Vec<(Tone, f64, f64)>;

/// Reads more lines until every frequency is known to `wanted` cycles per sample, or nothing is
/// left to read. `present` is the largest standard deviation so far, which so many samples gave.
/// Returns the tones and the number of samples that the fit uses, or `None` where no more can be had.
pub(crate) fn buy(
    run: &mut Run<'_>,
    first: &Comb,
    tones: &[Tone],
    floor: &Floor,
    (present, samples): (f64, u64),
    wanted: f64,
) -> Result<Option<(Bought, u64)>, Error> {
    let n = run.plan.problem.n;
    let bins = first.bins();
    let stride = n / bins as u64 / 4 * 4;
    // The first comb's lines, and others that improved its values.
    let have = samples.div_ceil(4 * bins as u64) as usize;
    let most = usize::try_from(stride / 4).unwrap_or(usize::MAX);
    // A tighter window costs up to half as much again.
    let needed = (1.5 * have as f64 * (present / wanted).powi(2)).min(most as f64) as usize + 1;
    let lines = needed.min(most);
    if lines <= have || tones.is_empty() {
        return Ok(None);
    }
    // The response is known to a part of the leak, which whitening amplifies; the strongest tone
    // asks most.
    let power = |pick: fn(f64, f64) -> f64| {
        tones.iter().map(|t| t.amplitude.norm_sqr()).reduce(pick).unwrap_or(1.0)
    };
    let spread = (power(f64::min) / power(f64::max)).sqrt();
    let finest = present * (have as f64 / lines as f64).sqrt() * spread * n as f64;
    let fits = |b: &f64| *b >= first.window.beta && AMPLIFIED * leak(*b) <= finest;
    let beta = BETAS.into_iter().find(fits).unwrap_or(BETAS[BETAS.len() - 1]);
    let base = (n - stride * bins as u64) / 2;
    let noise = run.plan.tone_window(beta, bins).noise / first.window.noise;
    let mut tones = tones.to_vec();
    let mut round = lines;
    let mut rounds = vec![lines];
    while round > GROWTH * have {
        round /= GROWTH;
        rounds.push(round);
    }
    let mut out = None;
    for (number, &lines) in rounds.iter().rev().enumerate() {
        // One offset from each of equal cells: no two tones have the same phases at all of them.
        let mut rng = Rng::new(run.plan.problem.seed, 2000 + number as u64);
        let offsets: Vec<u64> = (0..lines)
            .map(|j| {
                let (low, high) = (j * most / lines, (j + 1) * most / lines);
                4 * (low as u64 + rng.below((high - low).max(1) as u64))
            })
            .collect();
        let mut equations: Option<Equations> = None;
        for batch in offsets.chunks(BATCH) {
            let geometry =
                Geometry { n, bins, stride, base, ladder: batch.iter().copied().collect() };
            let mut comb = Comb::new(run.plan, geometry, beta);
            comb.measure(run, batch.len(), &tones)?;
            let sums = equations.get_or_insert_with(|| Equations::new(&comb, &tones));
            sums.add(&comb, &tones, batch.len() as f64);
            comb.recycle(run);
        }
        if let Some(sums) = equations {
            let Some(solved) = sums.solve(&tones, floor.s2 * noise) else { return Ok(None) };
            tones = solved.iter().map(|s| s.0).collect();
            out = Some((solved, 4 * (lines * bins) as u64));
        }
    }
    Ok(out)
}

/// Normal equations summed over batches, one set for each group of tones that share bins.
struct Equations {
    groups: Vec<Vec<usize>>,
    gram: Vec<Vec<f64>>,
    right: Vec<Vec<f64>>,
    geometry: Geometry,
    /// Σ lanes and Σ lanes·(t - T).
    lanes: f64,
    time: f64,
    complete: bool,
}

impl Equations {
    fn new(comb: &Comb, tones: &[Tone]) -> Self {
        let groups: Vec<Vec<usize>> = Groups::new(comb, tones, 1.1 * comb.window.null)
            .iter()
            .map(|(_, group)| group.iter().map(|&(_, i)| i).collect())
            .collect();
        let size = |g: &Vec<usize>| 3 * g.len();
        Equations {
            gram: groups.iter().map(|g| vec![0.0; size(g) * size(g)]).collect(),
            right: groups.iter().map(|g| vec![0.0; size(g)]).collect(),
            groups,
            geometry: comb.geometry.clone(),
            lanes: 0.0,
            time: 0.0,
            complete: true,
        }
    }

    /// Adds the equations of one batch.
    fn add(&mut self, comb: &Comb, tones: &[Tone], lines: f64) {
        self.lanes += 4.0 * lines;
        self.time += 4.0 * lines * comb.mean_time();
        for (i, group) in self.groups.iter().enumerate() {
            let members: Vec<Tone> = group.iter().map(|&i| tones[i]).collect();
            let mut normal = Normal::<MOST_ENTRIES>::EMPTY;
            if !normal_equations(comb, &members, true, HALF, &mut normal) {
                self.complete = false;
                return;
            }
            let weight = 4.0 * lines;
            self.gram[i].iter_mut().zip(normal.gram()).for_each(|(s, v)| *s += weight * *v);
            self.right[i].iter_mut().zip(normal.right()).for_each(|(s, v)| *s += weight * *v);
        }
    }

    /// One step from the tones, with the standard deviations; `None` where it cannot be made.
    fn solve(mut self, tones: &[Tone], s2: f64) -> Option<Bought> {
        if !self.complete {
            return None;
        }
        let mean = self.time / self.lanes;
        let mut out: Bought = tones.iter().map(|t| (*t, 0.0, 0.0)).collect();
        for (i, group) in self.groups.iter().enumerate() {
            let unknowns = 3 * group.len();
            let gram = &mut self.gram[i];
            if !linear::factor(gram, unknowns) {
                return None;
            }
            let right = &mut self.right[i];
            linear::solve(gram, unknowns, right);
            let variance = |direction: &[(usize, f64)]| {
                let mut v = vec![0.0; unknowns];
                direction.iter().for_each(|&(u, c)| v[u] = c);
                linear::solve(gram, unknowns, &mut v);
                0.5 * s2 * direction.iter().map(|&(u, c)| c * v[u]).sum::<f64>()
            };
            for (at, &j) in group.iter().enumerate() {
                let tone = tones[j];
                let a = tone.amplitude + Complex::new(right[3 * at], right[3 * at + 1]);
                let unit = tone.amplitude / tone.amplitude.norm();
                let va = variance(&[(3 * at, unit.re), (3 * at + 1, unit.im)]);
                let vp = variance(&[(3 * at + 2, 1.0)]);
                let scale = self.geometry.scale();
                let new = moved(&tone, right[3 * at + 2] / scale, a, mean);
                out[j] = (new, va.sqrt(), vp.sqrt() / scale);
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::{Complex, Problem, Tones};
    use std::f64::consts::TAU;
    use testkit::free::Free;

    fn apart(n: u64, a: f64, b: f64) -> f64 {
        let d = a - b;
        (d - d.round()).abs() * n as f64
    }

    /// What is wanted is reached wherever all samples suffice, and claims are kept.
    #[test]
    fn accuracy_is_reached_or_all_is_read() {
        let n = 1u64 << 15;
        for seed in [41, 42] {
            let free = Free::random(n, 3, Some(20.0), 12.0, seed);
            let x: Vec<Complex<f64>> = (0..n).map(|t| free.at(t)).collect();
            let find =
                |problem: Problem| -> Tones { Plan::new(problem).unwrap().tones(&x).unwrap() };
            let have = find(Problem::new(n)).report().accuracy;
            let finest = find(Problem::new(n).accuracy(0.0)).report().accuracy;
            assert_eq!(finest.samples, n);
            let mut last = have.samples;
            for part in [1.0, 0.8, 0.5, 0.1] {
                let wanted = have.bins * part;
                let fine = find(Problem::new(n).accuracy(wanted));
                let got = fine.report().accuracy;
                assert!(got.bins <= wanted || got.samples == n, "{got:?}, wanted {wanted}");
                assert!(got.samples >= last, "{got:?} after {last}");
                // At most what was lacking, half as much again for a tighter window, and a line of 64 bins.
                let most = 1.5 * (have.samples + 256) as f64 / (part * part) + 256.0;
                assert!(got.samples == have.samples || (got.samples as f64) <= most, "{got:?}");
                last = got.samples;
                let bought = got.samples > have.samples;
                for tone in &free.tones {
                    let snr = tone.a.norm_sqr() / (free.sigma * free.sigma);
                    let near = fine.tones().iter().find(|t| apart(n, t.frequency, tone.nu) < 0.5);
                    let near = near.expect("one of the tones");
                    let bound = (6.0 / (snr * got.samples as f64)).sqrt() / TAU;
                    let ratio = near.bin_std(n) / bound;
                    assert!(
                        !bought || (1.15..1.5).contains(&ratio),
                        "{ratio} times the bound, {got:?}"
                    );
                    // Of 24 values one beyond four deviations has a probability of 0.2 %; the seeds are fixed.
                    let off = apart(n, near.frequency, tone.nu) / near.bin_std(n);
                    assert!(off < 4.0, "{off} standard deviations");
                    let bound = (free.sigma * free.sigma / (2 * got.samples) as f64).sqrt();
                    let ratio = near.amplitude_std / bound;
                    assert!(!bought || (1.0..1.6).contains(&ratio), "{ratio}, amplitude, {got:?}");
                }
            }
        }
    }
}
