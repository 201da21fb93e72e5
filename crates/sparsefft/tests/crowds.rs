//! Bins of the first comb with three or four frequencies are decoded from eight shifts: a few more
//! samples beside the first, and no window.

use sparsefft::{Fallback, Noise, Plan, Problem};
use testkit::{Rng, Signal, Tone};

const N: u64 = 1 << 20;
/// Bins of the first comb for 50 coefficients, in noise; without, it begins with half of them.
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

/// Transforms these tones, demands a certified answer to nine digits, and says how much was read.
fn read(plan: &Plan, n: u64, tones: &[Tone], round: u32) -> u64 {
    let signal = Signal::new(n, tones.to_vec());
    let s = plan.transform(&signal.samples()).unwrap();
    assert!(s.certificate().is_certified(), "round {round}: {}", s.certificate());
    assert_eq!(s.certificate().attempts, 1, "round {round}");
    let mut truth: Vec<_> = tones.iter().map(|t| (t.f, t.a)).collect();
    truth.sort_unstable_by_key(|t| t.0);
    assert_eq!(s.peaks().len(), truth.len(), "round {round}");
    for (peak, (f, a)) in s.peaks().iter().zip(truth) {
        assert_eq!(peak.index, f);
        let error = (peak.value / n as f64 - a).norm();
        assert!(error < 1e-9, "round {round}: {error}");
    }
    s.report().samples_read
}

#[test]
fn three_and_four_in_a_bin_need_no_window() {
    let mut rng = Rng::new(61);
    let plan = Plan::new(Problem::new(N).sparsity(50).noise(Noise::Exact)).unwrap();
    assert!(plan.to_string().contains("256"), "{plan}");
    for round in 0..40 {
        let mut read_with = |crowd: u64| read(&plan, N, &tones(&mut rng, crowd), round);
        let apart = read_with(1);
        // A coarser comb of 16 bins.
        assert_eq!(read_with(3), apart + 4 * 16, "round {round}");
        assert_eq!(read_with(4), apart + 4 * 16, "round {round}");
        // Five are left to a window.
        assert!(read_with(5) > apart + 4 * 16, "round {round}");
    }
}

/// In noise of 20 dB eight shifts and the lines of the ladder place most triples: four of five in a
/// simulation, so that of 60 fewer than 38 come with a probability of 1 in 1000; the seeds are fixed.
#[test]
fn most_triples_in_noise_need_no_window() {
    let mut rng = Rng::new(62);
    let plan = Plan::new(Problem::new(N).sparsity(50)).unwrap();
    let mut read_with = |crowd: u64, seed: u64| {
        let tones = tones(&mut rng, crowd);
        let mut truth: Vec<_> = tones.iter().map(|t| t.f).collect();
        truth.sort_unstable();
        let s = plan.transform(&Signal::new(N, tones).noise(0.1, seed).samples()).unwrap();
        assert!(s.certificate().is_certified(), "seed {seed}: {}", s.certificate());
        assert_eq!(s.certificate().attempts, 1, "seed {seed}");
        assert!(s.peaks().iter().map(|p| p.index).eq(truth), "seed {seed}");
        s.report().samples_read
    };
    let apart = (0..60).map(|seed| read_with(1, seed)).max().unwrap();
    // A coarser comb of 32 bins.
    let without = (60..120).filter(|&seed| read_with(3, seed) <= apart + 4 * 32).count();
    assert!(without >= 38, "{without} of 60 triples needed no window");
}

/// In little noise one line of a comb places most frequencies, but not both of two that are close: of these it
/// must not take wrong ones, which no other hash would then explain. Seeds are fixed.
#[test]
fn many_pairs_in_little_noise_are_found_at_once() {
    let (n, k) = (1 << 18, 2500);
    let plan = Plan::new(Problem::new(n).sparsity(k).fallback(Fallback::Never)).unwrap();
    for seed in 0..6 {
        let mut rng = Rng::new(630 + seed);
        let mut truth = rng.distinct(n, k);
        let tones = truth.iter().map(|&f| Tone { f, a: rng.phasor() }).collect();
        truth.sort_unstable();
        let s = plan.transform(&Signal::new(n, tones).noise(0.5, seed).samples()).unwrap();
        assert!(s.certificate().is_certified(), "seed {seed}: {}", s.certificate());
        assert_eq!(s.certificate().attempts, 1, "seed {seed}");
        assert!(s.peaks().iter().map(|p| p.index).eq(truth), "seed {seed}");
        // Two lines of 8192 bins, and few windows; with one line more of them, and 121,852 samples.
        let read = s.report().samples_read;
        assert!(read < 110_000, "seed {seed}: {read}");
    }
}

/// Two crowded bins that also meet in the coarser comb are told apart by the verifying hash, which is
/// read in any case.
#[test]
fn crowds_that_meet_again_need_no_window() {
    const LONG: u64 = 1 << 22;
    const FINE: u64 = 4096;
    let plan = Plan::new(Problem::new(LONG).sparsity(1000).noise(Noise::Exact)).unwrap();
    assert!(plan.to_string().contains("4096"), "{plan}");
    let mut rng = Rng::new(62);
    for round in 0..12 {
        let mut read_with = |crowded: &[u64]| {
            let alone = (0..1000 - crowded.len() as u64).map(|i| 200 + 3 * i);
            let mut tones: Vec<Tone> = Vec::new();
            for bin in alone.chain(crowded.iter().copied()) {
                // No two of a bin beside each other, where digits are lost.
                let before = tones.iter().filter(|t| t.f % FINE == bin).count() as u64;
                let f = bin + FINE * (rng.below(LONG / FINE / 20) + before * (LONG / FINE / 10));
                tones.push(Tone { f, a: rng.phasor() });
            }
            read(&plan, LONG, &tones, round)
        };
        let apart = read_with(&[]);
        // A coarser comb of 32 bins, in which 77 and 141 meet, or of 16 where one of them is crowded.
        assert_eq!(read_with(&[77, 77, 77, 141, 141, 141]), apart + 4 * 32, "round {round}");
        // The verifying hash tells which five they are, and eight shifts give them their values, also
        // where they meet a crowd that its own four settle.
        assert_eq!(read_with(&[77; 5]), apart + 4 * 16, "round {round}");
        assert_eq!(read_with(&[77, 77, 77, 77, 141, 141, 141]), apart + 4 * 32, "round {round}");
        // Eight shifts do not give nine values, and the verifying window leaks: a tighter one follows. So
        // it does for two crowds that both need more than their own shifts.
        assert!(read_with(&[77; 9]) > apart + 4 * 16, "round {round}");
        let both = [[77; 4], [141; 4]].concat();
        assert!(read_with(&both) > apart + 4 * 32, "round {round}");
    }
}

/// Twenty pairs and ten tones, in noise of 20 dB: the members of a pair lie in the same bin, at least
/// `least` and less than twice as many steps of a bin apart. All must be found; returns the root mean
/// square error of the values, the largest, and how many of 24 signals needed a window.
fn noisy_pairs(seed: u64, least: u64) -> (f64, f64, u32) {
    let mut rng = Rng::new(seed);
    let plan = Plan::new(Problem::new(N).sparsity(50)).unwrap();
    let (mut windows, mut errors, mut worst) = (0, 0.0, 0.0f64);
    for round in 0..24 {
        let mut tones: Vec<Tone> = Vec::new();
        for i in 0..30 {
            let f = 8 * i + 1 + BINS * rng.below(N / BINS);
            tones.push(Tone { f, a: rng.phasor() });
            if i < 20 {
                let f = (f + BINS * (least + rng.below(least))) % N;
                tones.push(Tone { f, a: rng.phasor() });
            }
        }
        let signal = Signal::new(N, tones.clone()).noise(0.1, round);
        let s = plan.transform(&signal.samples()).unwrap();
        assert!(s.certificate().is_certified(), "round {round}: {}", s.certificate());
        tones.sort_unstable_by_key(|t| t.f);
        assert!(s.peaks().iter().map(|p| p.index).eq(tones.iter().map(|t| t.f)), "round {round}");
        for (peak, tone) in s.peaks().iter().zip(&tones) {
            let error = (peak.value / N as f64 - tone.a).norm();
            errors += error * error / (24.0 * 50.0);
            worst = worst.max(error);
        }
        // Beside three lines of the comb: the verifying hash, and the lines that the answer is held
        // against.
        windows += u32::from(s.report().samples_read > 3 * 4 * BINS + 500 + 4 * 509);
    }
    (errors.sqrt(), worst, windows)
}

/// Pairs whose phases differ by 0.04 to 0.08 turns per sample, which four neighbouring shifts hardly
/// tell apart in noise of 20 dB; together with those of farther lines they do. A certified answer would
/// be wrong with probability 1e-6 per signal.
#[test]
fn close_pairs_in_noise_come_apart() {
    // 0.04 turns are 164 steps of a bin.
    let (error, _, windows) = noisy_pairs(63, 164);
    // Two or three lines of 256 bins leave at most 0.1/√2048 by themselves, and a pair that has a
    // tenth for itself 3.2 times that.
    assert!(error < 1.5 * 0.1 / 2048f64.sqrt(), "{error}");
    assert!(windows < 12, "{windows}");
}

/// Neighbours of the same bin are nearly parallel on all lines: other samples part them.
#[test]
fn nearly_parallel_pairs_in_noise_get_further_samples() {
    let (error, worst, windows) = noisy_pairs(64, 1);
    let noise = 0.1 / 2048f64.sqrt();
    assert!(error < 1.5 * noise && worst < 4.5 * noise, "{error} {worst}");
    assert!(windows > 12, "{windows}");
}

/// One such pair among a thousand tones: what finds its frequencies reads too little to give it values as good as
/// the others, unless it is told to. With nothing but the two lines of the comb the error was 4.5 times that
/// of a mean over all samples that are read; now it is 2.6 times. Over 40 values it would reach 3.5 by
/// chance with a probability of 1e-5.
#[test]
fn one_nearly_parallel_pair_among_many_gets_good_values() {
    let (n, k, sigma) = (1 << 22, 1000, 0.1);
    let plan = Plan::new(Problem::new(n).sparsity(k)).unwrap();
    let mut error = 0.0;
    for seed in 0..20 {
        let mut rng = Rng::new(640 + seed);
        let mut tones: Vec<Tone> = Vec::new();
        let pair = [0, 25].map(|i| 77 + 4096 * (200 + i));
        let others: Vec<u64> = (0..998).map(|i| 4 * i + 4096 * rng.below(n / 4096)).collect();
        for f in pair.into_iter().chain(others) {
            tones.push(Tone { f, a: rng.phasor() });
        }
        let s =
            plan.transform(&Signal::new(n, tones.clone()).noise(sigma, seed).samples()).unwrap();
        assert!(s.certificate().is_certified(), "seed {seed}: {}", s.certificate());
        let mean = sigma * sigma / s.report().samples_read as f64;
        for tone in &tones[..2] {
            error += (s.value(tone.f) / n as f64 - tone.a).norm_sqr() / mean / 40.0;
        }
    }
    assert!(error.sqrt() < 3.5, "{}", error.sqrt());
}
