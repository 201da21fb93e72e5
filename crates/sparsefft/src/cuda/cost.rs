//! What a transform would cost on a GPU, so that one can choose between it and the CPU.
//!
//! A table of wall-clock times by the number of coefficients, one row per way through this backend,
//! read off the benchmark's log (`benches/results/sparse-cuda-h200.txt`: one NVIDIA H200, n = 2^27,
//! f64, answer on the host) and drawn straight between its points in log k and log time. Times depend
//! on n by a tenth or two, which this leaves out; other GPUs differ by more.

use crate::plan::{First, Method, Plan};
use crate::problem::{Noise, Taper};

/// Predicted nanoseconds of a transform on a GPU; see [`predict`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuCost {
    /// Opening the device, once per process.
    pub opening: f64,
    /// A transform of samples in the device's memory.
    pub resident: f64,
    /// The same of samples in ordinary memory: the CPU gathers what is sent. Nothing where only the
    /// CPU could do it.
    pub from_host: Option<f64>,
}

/// Opening a device and loading the kernels: 0.30 s and 0.01 s in the benchmark's log.
const OPENING: f64 = 0.31e9;

/// Points (k, microseconds), k rising.
type Curve = &'static [(f64, f64)];

/// Without noise, n = 2^m: the quick kernel, and the kernels for many coefficients.
const PLAIN: Curve = &[(50.0, 11.0), (1000.0, 24.0), (4000.0, 82.0), (10e3, 125.0), (43e3, 417.0)];
/// Without noise, other n: the general kernel.
const GENERAL: Curve =
    &[(50.0, 40.0), (1000.0, 85.0), (4000.0, 396.0), (10e3, 696.0), (43e3, 1462.0)];
/// Known noise, n = 2^m, k ≤ 1024; and what is left to the general kernel.
const NOISY: Curve = &[(50.0, 20.0), (1000.0, 43.0)];
const CLIMBED: Curve = &[(50.0, 165.0), (1000.0, 311.0)];
/// The voting algorithms: the slower of the two.
const VOTES: Curve = &[(50.0, 323.0), (1000.0, 634.0)];
/// Without noise and without a comb: windows alone.
const WINDOWS: Curve = &[(10.0, 164.0), (50.0, 333.0), (1000.0, 705.0), (10e3, 1598.0)];
/// The same with noise of 20 dB.
const NOISY_WINDOWS: Curve = &[(50.0, 680.0), (1000.0, 1182.0), (10e3, 2362.0)];

/// A line of four samples that the CPU gathers and sends: a miss of its caches, and 64 bytes over the
/// bus.
const LINE: f64 = 30.0;

/// Nanoseconds at k: straight in the logarithms, also beyond the ends; no less than the first point.
fn at(curve: Curve, k: u64) -> f64 {
    let k = (k as f64).max(curve[0].0);
    let last = curve.len() - 2;
    let i = curve[1..].iter().position(|p| k <= p.0).unwrap_or(last).min(last);
    let ((k0, t0), (k1, t1)) = (curve[i], curve[i + 1]);
    1e3 * t0 * (t1 / t0).powf((k / k0).ln() / (k1 / k0).ln())
}

/// Predicts what a plan costs on a GPU like the one that was measured. Nothing where the CPU would do
/// the work with samples from the device: dense transforms, tapers, one pass.
pub fn predict(plan: &Plan) -> Option<GpuCost> {
    let (problem, recipe) = (plan.problem(), plan.recipe());
    let n = problem.n;
    let able = problem.taper == Taper::None
        && !problem.one_pass
        && (n.is_power_of_two() || n <= 1 << 32)
        && problem.k() != Some(0);
    let k = |guess: u64| problem.k().unwrap_or(guess);
    match &recipe.method {
        Method::Peel(peeling) if able => {
            let bins = match (peeling.first, problem.noise) {
                (First::Comb { bins }, _) => bins,
                (First::Window { buckets }, noise) => {
                    let curve =
                        if matches!(noise, Noise::Snr(_)) { NOISY_WINDOWS } else { WINDOWS };
                    // The CPU does not gather for these: they ask for more samples as they go.
                    let resident = at(curve, k(buckets as u64 / 10));
                    return Some(GpuCost { opening: OPENING, resident, from_host: None });
                }
            };
            let k = k(bins as u64 / 4);
            let resident = match problem.noise {
                Noise::Snr(_) if n.is_power_of_two() && k <= 1024 => at(NOISY, k),
                Noise::Snr(_) => at(CLIMBED, k),
                _ if n.is_power_of_two() && problem.k().is_some() => at(PLAIN, k),
                _ => at(GENERAL, k),
            };
            // The GPU begins with all bins.
            let more = (bins - peeling.begin) * peeling.ladder.len();
            let read = recipe.estimates.first().map_or(0, |e| e.samples) / 4 + more as u64;
            let kernel = if matches!(problem.noise, Noise::Snr(_)) { CLIMBED } else { GENERAL };
            let from_host = Some(at(kernel, k) + LINE * read as f64);
            Some(GpuCost { opening: OPENING, resident, from_host })
        }
        Method::Vote(vote) if able && vote.width <= n => {
            Some(GpuCost { opening: OPENING, resident: at(VOTES, vote.k), from_host: None })
        }
        _ => None,
    }
}

/// Whether a GPU would be done sooner than the CPU with samples in ordinary memory, its opening
/// included. Predictions are rough: it must save half of the time.
pub fn worth_opening(plan: &Plan) -> bool {
    let here = plan.recipe().estimates.first().map_or(0.0, |e| e.nanoseconds);
    predict(plan).is_some_and(|cost| cost.saves_half_of(here))
}

impl GpuCost {
    /// Whether opening and a transform of samples here take less than half of so many nanoseconds.
    fn saves_half_of(&self, here: f64) -> bool {
        self.from_host.is_some_and(|there| 2.0 * (self.opening + there) < here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Algorithm, Problem};

    fn cost(problem: Problem) -> Option<GpuCost> {
        predict(&Plan::new(problem).unwrap())
    }

    #[test]
    fn curves_go_through_their_points_and_rise() {
        for curve in [PLAIN, GENERAL, NOISY, CLIMBED, VOTES, WINDOWS, NOISY_WINDOWS] {
            for &(k, us) in curve {
                assert!((at(curve, k as u64) / (1e3 * us) - 1.0).abs() < 1e-9, "{k}");
            }
            let times: Vec<f64> = (1..200).map(|i| at(curve, i * i * i)).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
    }

    #[test]
    fn what_only_the_cpu_can_do_has_no_price() {
        let n = 1u64 << 22;
        let plain = cost(Problem::new(n).sparsity(50)).unwrap();
        assert!(plain.resident < 1e5 && plain.from_host.unwrap() > plain.resident);
        let vote = Problem::new(n).sparsity(50).algorithm(Algorithm::Vote);
        assert_eq!(cost(vote).unwrap().from_host, None);
        let prime = Problem::new(1_000_003).sparsity(50);
        assert_eq!(cost(prime.clone()).unwrap().from_host, None);
        let noisy = cost(prime.clone().noise(Noise::Snr(20.0))).unwrap();
        assert!(noisy.from_host.is_none() && noisy.resident > cost(prime).unwrap().resident);
        assert_eq!(cost(Problem::new(n).sparsity(50).algorithm(Algorithm::Dense)), None);
        assert_eq!(cost(Problem::new(n).sparsity(50).one_pass()), None);
    }

    #[test]
    fn short_work_stays_on_the_cpu() {
        let plan =
            |n: u64, k: u64| Plan::new(Problem::new(n).sparsity(k).noise(Noise::Exact)).unwrap();
        // The last takes the CPU 15 s; gathering its samples for the GPU would take 10.
        let works =
            [(1 << 22, 50), (1 << 27, 43_000), (2_147_483_647, 1_000_000), (1 << 36, 50_000_000)];
        for (n, k) in works {
            assert!(!worth_opening(&plan(n, k)), "{n} {k}");
        }
        let cost = GpuCost { opening: 3e8, resident: 1e6, from_host: Some(2e8) };
        assert!(cost.saves_half_of(1.1e9) && !cost.saves_half_of(0.9e9));
        assert!(!GpuCost { from_host: None, ..cost }.saves_half_of(1e12));
    }
}
