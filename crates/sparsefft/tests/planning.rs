//! Planning has no term in n, and plans explain themselves.

use sparsefft::{Algorithm, Error, Fallback, Noise, Plan, Problem};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that this thread asks for.
struct Counting;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator unchanged; the counter is a plain
// thread-local cell without destructor, so that touching it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.with(|b| b.set(b.get() + layout.size() as u64));
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated<T>(f: impl FnOnce() -> T) -> (T, u64) {
    let before = BYTES.with(Cell::get);
    let out = f();
    (out, BYTES.with(Cell::get) - before)
}

/// What will be read can be asked of any plan, also of one that no machine can run: nothing is made
/// for it, and how much it is need not be counted one by one.
#[test]
fn what_will_be_read_needs_no_memory() {
    for (n, k) in [(1u64 << 20, 50), (1 << 45, 1 << 36), ((1 << 40) - 87, 1 << 33)] {
        for algorithm in [Algorithm::Exact, Algorithm::Robust, Algorithm::Vote, Algorithm::CombVote]
        {
            let problem = Problem::new(n).sparsity(k).algorithm(algorithm);
            let Ok(plan) = Plan::new(problem) else { continue };
            let (indices, bytes) = allocated(|| plan.sample_indices());
            assert!(bytes < 1 << 20, "{algorithm}, n = {n}: {bytes} bytes");
            let (least, most) = indices.size_hint();
            assert_eq!(Some(least), most, "{algorithm}, n = {n}");
            assert!(least as u64 > k, "{algorithm}, n = {n}: {least} samples");
            assert!(indices.take(1000).all(|t| t < n), "{algorithm}, n = {n}");
            if n == 1 << 20 {
                assert_eq!(plan.sample_indices().count(), least, "{algorithm}");
            }
        }
    }
}

#[test]
fn planning_has_no_term_in_n() {
    for noise in [Noise::Exact, Noise::Unknown, Noise::Snr(20.0)] {
        for k in [Some(1), Some(50), Some(1000), None] {
            let bytes: Vec<u64> = [20u32, 30, 40, 50]
                .into_iter()
                .map(|bits| {
                    let problem = Problem::new(1 << bits).noise(noise);
                    let problem = if let Some(k) = k { problem.sparsity(k) } else { problem };
                    let (plan, bytes) = allocated(|| Plan::new(problem));
                    plan.unwrap();
                    bytes
                })
                .collect();
            let what = format!("{noise:?}, k = {k:?}: {bytes:?} bytes");
            assert!(bytes.iter().all(|&b| b < 4 << 20), "{what}");
            assert!(bytes[3] <= 2 * bytes[0] + (64 << 10), "{what}");
        }
    }
}

#[test]
fn awkward_lengths_can_be_planned() {
    for n in [1, 2, 3, 97, (1 << 31) - 1, (1 << 50) - 27, 3u64.pow(32), 4 * 1_000_003, 1 << 52] {
        for algorithm in Algorithm::ALL {
            let problem = Problem::new(n).sparsity(1).algorithm(algorithm);
            match Plan::new(problem) {
                Ok(plan) => assert_eq!(plan.problem().n(), n),
                Err(Error::Unsupported { reason, .. }) => assert!(!reason.is_empty()),
                Err(other) => panic!("{algorithm}, n = {n}: {other}"),
            }
        }
    }
}

#[test]
fn plans_say_the_essentials() {
    for n in [1u64 << 20, 1_000_003, 720_720] {
        for algorithm in Algorithm::ALL {
            for k in [None, Some(37)] {
                let problem = Problem::new(n).algorithm(algorithm);
                let problem = if let Some(k) = k { problem.sparsity(k) } else { problem };
                let Ok(plan) = Plan::new(problem) else { continue };
                let text = plan.to_string();
                assert!(text.contains(&n.to_string()), "n is missing: {text}");
                if k.is_some() {
                    assert!(text.contains("37"), "k is missing: {text}");
                }
                let name = plan.recipe().algorithm.name();
                assert!(text.contains(name), "the algorithm {name} is missing: {text}");
                assert!(text.contains("samples"), "what is read is missing: {text}");
                assert!(!format!("{plan:?}").is_empty());
            }
        }
    }
}

#[test]
fn recipes_are_data() {
    let problem = || Problem::new(1 << 20).sparsity(50).seed(3);
    let (a, b) = (Plan::new(problem()).unwrap(), Plan::new(problem()).unwrap());
    assert_eq!(a.recipe(), b.recipe());
    assert_eq!(a.recipe().seed, 3);
    assert_ne!(a.recipe(), Plan::new(problem().seed(4)).unwrap().recipe());
    assert_ne!(a.recipe(), Plan::new(problem().sparsity(60)).unwrap().recipe());
    assert!(!a.recipe().estimates.is_empty());
    let costs: Vec<f64> = a.recipe().estimates.iter().map(|e| e.nanoseconds).collect();
    assert!(costs.iter().all(|c| c.is_finite() && *c > 0.0), "{costs:?}");
    assert_eq!(a.recipe().fallback, Fallback::Auto);
}

#[test]
fn an_algorithm_asked_for_is_the_one_that_is_planned() {
    for algorithm in Algorithm::ALL.into_iter().skip(1) {
        if let Ok(plan) = Plan::new(Problem::new(1 << 20).sparsity(50).algorithm(algorithm)) {
            assert_eq!(plan.recipe().algorithm, algorithm);
        }
    }
}

#[test]
fn the_default_is_sparse_where_that_is_cheaper_and_dense_where_not() {
    let auto = |n: u64, k: u64| Plan::new(Problem::new(n).sparsity(k)).unwrap().recipe().algorithm;
    assert_eq!(auto(64, 32), Algorithm::Dense);
    assert_eq!(auto(1 << 16, 1 << 15), Algorithm::Dense);
    assert_ne!(auto(1 << 20, 10), Algorithm::Dense);
    assert_ne!(auto(1 << 40, 1000), Algorithm::Dense);
}

#[test]
fn without_a_dense_fft_too_many_coefficients_are_an_error() {
    let n = 1 << 16;
    let asked = |k| Plan::new(Problem::new(n).sparsity(k).fallback(Fallback::Never));
    assert_eq!(asked(n / 2).unwrap_err(), Error::NotSparse { k: n / 2, n });
    assert_eq!(asked(10).unwrap().recipe().algorithm, Algorithm::Robust);
    // Too long for the automatic fallback: the same.
    let long = Problem::new(1 << 30).sparsity(1 << 29);
    assert_eq!(Plan::new(long).unwrap_err(), Error::NotSparse { k: 1 << 29, n: 1 << 30 });
    // Asked for by name, or too short to save anything, it is dense.
    let named = Problem::new(n).algorithm(Algorithm::Dense).fallback(Fallback::Never);
    assert_eq!(Plan::new(named).unwrap().recipe().algorithm, Algorithm::Dense);
    let short = Problem::new(100).sparsity(50).fallback(Fallback::Never);
    assert_eq!(Plan::new(short).unwrap().recipe().algorithm, Algorithm::Dense);
}

#[test]
fn a_warm_transform_allocates_its_answer_only() {
    // 2^13·3^4 has combs of coprime sizes.
    let (power, mixed) = (1u64 << 18, 663_552);
    for (n, k, sigma) in
        [(power, 50, 0.0), (power, 50, 0.1), (power, 600, 0.0), (mixed, 50, 0.0), (mixed, 600, 0.0)]
    {
        let mut rng = testkit::Rng::new(k + 1);
        let signal = testkit::Signal::new(n, testkit::generate::random(&mut rng, n, k));
        let x = signal.noise(sigma, 3).samples();
        let plan = Plan::new(Problem::new(n).sparsity(k)).unwrap();
        let mut workspace = sparsefft::Workspace::default();
        for _ in 0..3 {
            plan.transform_with(&x, &mut workspace).unwrap();
        }
        let (s, bytes) = allocated(|| plan.transform_with(&x, &mut workspace).unwrap());
        assert!(s.certificate().is_certified());
        // The peaks, the times per stage, and a list of the hashes of a joint fit.
        let answer = k * size_of::<sparsefft::Peak>() as u64 + 1024;
        assert!(
            bytes <= answer,
            "n = {n}, k = {k}, noise {sigma}: {bytes} bytes, {answer} for the answer"
        );
    }
}

/// Of those that are found sparsely a dense transform takes several times as long.
#[test]
fn what_is_quicker_is_chosen() {
    let chosen = |n: u64, k: u64| {
        let plan = Plan::new(Problem::new(n).sparsity(k)).unwrap();
        plan.recipe().algorithm
    };
    let sparse = [(1 << 13, 50), (1 << 16, 500), (1 << 20, 10_000), (1_000_003, 500)];
    // These without noise, or with little.
    let quiet = [(1 << 12, 60), (1 << 13, 160), (1 << 18, 4500)];
    for (n, k) in sparse.into_iter().chain(quiet) {
        assert_eq!(chosen(n, k), Algorithm::Robust, "n = {n}, k = {k}");
    }
    for (n, k) in [(1 << 9, 20), (1 << 13, 1000), (1 << 16, 10_000)] {
        assert_eq!(chosen(n, k), Algorithm::Dense, "n = {n}, k = {k}");
    }
}
