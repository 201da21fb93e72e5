//! Bins of the first comb with three or four frequencies are decoded from eight shifts: a few more
//! samples beside the first, and no window.

use sparsefft::{Noise, Plan, Problem};
use testkit::{Rng, Signal, Tone};

const N: u64 = 1 << 20;
/// Bins of the first comb for 50 coefficients.
const BINS: u64 = 256;

/// Fifty tones: `crowd` of them in bin 77, the others in bins of their own.
fn tones(rng: &mut Rng, crowd: u64) -> Vec<Tone> {
    let alone = (crowd..50).map(|i| 80 + 3 * i);
    let bins = alone.chain((0..crowd).map(|_| 77));
    let mut tones: Vec<Tone> = Vec::new();
    for bin in bins {
        let f = bin % BINS + BINS * rng.below(N / BINS);
        if tones.iter().all(|t| t.f != f) {
            tones.push(Tone { f, a: rng.phasor() });
        }
    }
    tones
}

#[test]
fn three_and_four_in_a_bin_need_no_window() {
    let mut rng = Rng::new(61);
    let plan = Plan::new(Problem::new(N).sparsity(50).noise(Noise::Exact)).unwrap();
    assert!(plan.to_string().contains("256"), "{plan}");
    for round in 0..40 {
        let read = |crowd: u64, rng: &mut Rng| {
            let tones = tones(rng, crowd);
            let signal = Signal::new(N, tones.clone());
            let s = plan.transform(&signal.samples()).unwrap();
            assert!(s.certificate().is_certified(), "round {round}: {}", s.certificate());
            assert_eq!(s.certificate().attempts, 1, "round {round}");
            let mut truth: Vec<_> = tones.iter().map(|t| (t.f, t.a)).collect();
            truth.sort_unstable_by_key(|t| t.0);
            assert_eq!(s.peaks().len(), truth.len(), "round {round}");
            for (peak, (f, a)) in s.peaks().iter().zip(truth) {
                assert_eq!(peak.index, f);
                let error = (peak.value / N as f64 - a).norm();
                assert!(error < 1e-9, "round {round}, {crowd} in a bin: {error}");
            }
            s.report().samples_read
        };
        let apart = read(1, &mut rng);
        // A coarser comb of 32 bins.
        assert_eq!(read(3, &mut rng), apart + 4 * 32, "round {round}");
        assert_eq!(read(4, &mut rng), apart + 4 * 32, "round {round}");
        // Five are left to a window.
        assert!(read(5, &mut rng) > apart + 4 * 32, "round {round}");
    }
}
