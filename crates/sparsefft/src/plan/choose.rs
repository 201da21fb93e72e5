//! The cost model and the choice.

use super::recipe::{Estimate, Method, Recipe};
use crate::Error;
use crate::algorithms::vote::plan_vote;
use crate::problem::{Algorithm, Problem};

/// Chooses the recipe for a valid problem.
pub(super) fn choose(problem: &Problem) -> Result<Recipe, Error> {
    if let Algorithm::Vote | Algorithm::CombVote = problem.algorithm {
        let (vote, estimate) = plan_vote(problem, problem.algorithm);
        let mut estimates = vec![estimate, dense(problem.n)];
        estimates.sort_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
        return Ok(Recipe {
            n: problem.n,
            k: problem.k(),
            noise: problem.noise,
            algorithm: problem.algorithm,
            method: Method::Vote(vote),
            fallback: problem.fallback,
            seed: problem.seed,
            estimates,
        });
    }
    Ok(Recipe {
        n: problem.n,
        k: problem.k(),
        noise: problem.noise,
        algorithm: Algorithm::Dense,
        method: Method::Dense,
        fallback: problem.fallback,
        seed: problem.seed,
        estimates: vec![dense(problem.n)],
    })
}

/// Cost of the dense FFT.
pub(crate) fn dense(n: u64) -> Estimate {
    let log = (n.max(2) as f64).log2();
    // ns per point and level: 0.34 while the data fit the cache, 0.55 to 2^24, 0.86 beyond
    // (RustFFT 6.4, one core of an EPYC; see docs/mathematics.md).
    let c = if log <= 18.0 {
        0.34
    } else if log <= 24.0 {
        0.55
    } else {
        0.86
    };
    Estimate { algorithm: Algorithm::Dense, nanoseconds: c * n as f64 * log, samples: n }
}
