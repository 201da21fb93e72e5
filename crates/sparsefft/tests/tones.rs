//! Tones between the bins: the promise over lengths, numbers and noise; close pairs, drift, bands,
//! real signals, receivers. Seeds are fixed, so that every run sees the same signals.

mod common;

use common::Recording;
use sparsefft::{Band, Complex, Noise, Plan, Problem, Tone, Tones, Verdict};
use std::f64::consts::TAU;
use testkit::free::{Free, FreeBand, FreeTone};
use testkit::rng::Rng;

fn tones_of(free: &Free, problem: Problem) -> Tones {
    Plan::new(problem).unwrap().tones(&Recording(free)).unwrap()
}

fn find(free: &Free) -> Tones {
    tones_of(free, Problem::new(free.n))
}

/// Distance of two frequencies in bins.
fn apart(n: u64, a: f64, b: f64) -> f64 {
    let d = a - b;
    (d - d.round()).abs() * n as f64
}

/// The found tone nearest to a frequency, if it is within half a bin.
fn nearest(found: &Tones, nu: f64) -> Option<&Tone> {
    let away = |t: &&Tone| apart(found.n(), t.frequency, nu);
    found.tones().iter().min_by(|a, b| away(a).total_cmp(&away(b))).filter(|t| away(t) < 0.5)
}

/// Whether the tones are those of the signal, each once.
fn right(free: &Free, found: &Tones) -> bool {
    found.tones().len() == free.tones.len()
        && free.tones.iter().all(|t| nearest(found, t.nu).is_some())
}

#[test]
fn the_promise_over_lengths_numbers_and_noise() {
    let (mut trials, mut certified, mut errors, mut count) = (0, 0, 0.0, 0.0);
    for n in [1u64 << 16, 1 << 20, 1_000_003, 1 << 24] {
        for k in [1usize, 10, 40] {
            for snr in [None, Some(40.0), Some(20.0), Some(0.0), Some(-10.0)] {
                if n == 1 << 16 && k == 40 && snr == Some(-10.0) {
                    // 40 tones would need as many bins as this length has.
                    continue;
                }
                for seed in 0..2 {
                    let free = Free::random(n, k, snr, 12.0, 100 * k as u64 + seed);
                    let found = find(&free);
                    let sure = found.certificate().is_certified();
                    trials += 1;
                    certified += u64::from(sure);
                    let what = format!("n {n} k {k} snr {snr:?} seed {seed}");
                    assert!(!sure || right(&free, &found), "wrong and certified: {what}");
                    for t in free.tones.iter().filter(|_| sure) {
                        let got = nearest(&found, t.nu).unwrap();
                        let error = apart(n, got.frequency, t.nu);
                        if snr.is_none() {
                            assert!(error < 1e-8 + 4e-16 * n as f64, "{what}: {error} bins");
                            let amplitude = (got.amplitude - t.a).norm() / t.a.norm();
                            assert!(amplitude < 1e-7, "{what}: {amplitude}");
                        } else {
                            let sigmas = error / got.bin_std(n);
                            errors += sigmas * sigmas;
                            count += 1.0;
                            // 1500 tones: P(any beyond 6.5) is 1e-7 for exact deviations.
                            assert!(sigmas < 6.5, "{what}: {sigmas} standard deviations");
                            let sigmas = (got.magnitude() - t.a.norm()).abs() / got.amplitude_std;
                            assert!(sigmas < 6.5, "{what}: |a| by {sigmas} standard deviations");
                        }
                    }
                }
            }
        }
    }
    assert!(certified as f64 >= 0.99 * trials as f64, "{certified} of {trials} certified");
    // The claimed deviations are those that occur.
    let ratio = (errors / count).sqrt();
    assert!((0.85..1.15).contains(&ratio), "errors are {ratio} of what is claimed");
}

#[test]
fn errors_come_near_the_bound() {
    let n = 1u64 << 22;
    let (mut sum, mut count) = (0.0, 0.0);
    for seed in 0..6 {
        let free = Free::random(n, 20, Some(20.0), 12.0, 7000 + seed);
        let found = find(&free);
        let used = found.report().accuracy.samples as f64;
        for t in &free.tones {
            let snr = t.a.norm_sqr() / (free.sigma * free.sigma);
            let bound = (6.0 / (snr * used)).sqrt() / TAU;
            let error = apart(n, nearest(&found, t.nu).unwrap().frequency, t.nu);
            sum += (error / bound).powi(2);
            count += 1.0;
        }
    }
    // Expected 1.35; 120 errors scatter by 6 %.
    let ratio = (sum / count).sqrt();
    assert!((1.0..1.6).contains(&ratio), "{ratio} times the Cramér-Rao bound");
}

#[test]
fn claimed_deviations_are_those_that_occur() {
    // Crowded signals, where tones share bins, at two lengths and noise levels.
    for (n, k, snr) in [(1u64 << 20, 50, 40.0), (1 << 22, 50, 20.0), (1 << 22, 120, 20.0)] {
        let (mut sum, mut first, mut count) = (0.0, 0.0, 0.0);
        for seed in 0..6 {
            let free = Free::random(n, k, Some(snr), 12.0, 8100 + seed);
            let found = find(&free);
            assert!(found.certificate().is_certified(), "n {n} k {k}: {}", found.certificate());
            let samples = 4 * found.report().bins * found.report().lines;
            for t in &free.tones {
                let got = nearest(&found, t.nu).unwrap();
                let error = apart(n, got.frequency, t.nu);
                let sigmas = error / got.bin_std(n);
                // 1320 tones in all: P(any beyond 6) is 3e-6 for exact deviations.
                assert!(sigmas < 6.0, "n {n} k {k} seed {seed}: {sigmas} standard deviations");
                sum += sigmas * sigmas;
                let ratio = t.a.norm_sqr() / (free.sigma * free.sigma);
                first += error * error * ratio * samples as f64 / 6.0 * TAU * TAU;
                count += 1.0;
            }
        }
        // Each mean is of at least 300 squares and scatters by 4 %.
        let claimed = f64::sqrt(sum / count);
        assert!((0.8..1.3).contains(&claimed), "n {n} k {k}: {claimed} of what is claimed");
        let bound = f64::sqrt(first / count);
        assert!(bound < 1.5, "n {n} k {k}: {bound} times the bound of the first comb");
    }
    // Each had a tone six to seven claimed deviations off when groups were fitted over all their bins.
    for (n, k, snr, seed) in
        [(1u64 << 26, 50, 20.0, 777_008_331_058), (1 << 24, 10, 40.0, 777_007_331_033)]
    {
        let free = Free::random(n, k, Some(snr), 12.0, seed);
        let found = find(&free);
        for t in &free.tones {
            let got = nearest(&found, t.nu).unwrap();
            let sigmas = apart(n, got.frequency, t.nu) / got.bin_std(n);
            assert!(sigmas < 5.0, "seed {seed}: {sigmas} standard deviations");
        }
    }
}

#[test]
fn claimed_deviations_of_resolved_pairs_are_those_that_occur() {
    let n = 1u64 << 20;
    for (snr, k) in [40.0, 50.0, 60.0, 70.0].into_iter().flat_map(|snr| [(snr, 2), (snr, 4)]) {
        let (mut sum, mut count) = (0.0, 0.0);
        for seed in 0..60 {
            let mut rng = Rng::new(8200 + seed);
            let nu = rng.uniform() - 0.5;
            let distance = 2.76 + 3.24 * rng.uniform();
            let mut tones = vec![nu, nu + distance / n as f64];
            tones.extend((2..k).map(|_| rng.uniform() - 0.5));
            let level = |rng: &mut Rng| rng.phasor() * 10f64.powf(rng.uniform());
            let tones: Vec<_> = tones.into_iter().map(|nu| (nu, level(&mut rng))).collect();
            let free = Free::new(n, &tones, 10f64.powf(-snr / 20.0), seed);
            let found = find(&free);
            if !found.certificate().is_certified() {
                continue;
            }
            for t in &free.tones {
                let near = |g: &Tone| apart(n, g.frequency, t.nu) / g.bin_std(n);
                let sigmas = found.tones().iter().map(near).fold(f64::INFINITY, f64::min);
                // 1,440 tones: P(any beyond 5.5) is 5e-5 for exact deviations.
                assert!(sigmas < 5.5, "{snr} dB, {k} tones, seed {seed}: {sigmas} deviations");
                sum += sigmas * sigmas;
                count += 1.0;
            }
        }
        // At least 100 squares scatter by 14 %, their root by 7 %: three deviations around 0.88 to 1.07.
        assert!(count >= 100.0, "{snr} dB, {k} tones: {count} certified");
        let ratio = f64::sqrt(sum / count);
        assert!((0.7..1.3).contains(&ratio), "{snr} dB, {k} tones: {ratio} of what is claimed");
    }
}

#[test]
fn close_pairs_are_never_certified_as_one() {
    let n = 1u64 << 20;
    for snr in [20.0, 40.0] {
        for d in [0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 2.5, 2.75, 3.0, 3.5, 5.0] {
            let mut separated = 0;
            for seed in 0..6 {
                let mut rng = Rng::new(seed + 77);
                let mut tones = Vec::new();
                for i in 0..3 {
                    let nu = -0.4 + 0.3 * i as f64 + 0.1 * rng.uniform();
                    tones.push((nu, rng.phasor()));
                    tones.push((nu + d / n as f64, rng.phasor()));
                }
                let free = Free::new(n, &tones, 10f64.powf(-snr / 20.0), seed);
                let found = find(&free);
                let all = right(&free, &found);
                separated += u32::from(all);
                assert!(all || !found.certificate().is_certified(), "{d} bins, {snr} dB, {seed}");
                if d < 2.5 {
                    assert!(!found.clusters().is_empty(), "{d} bins, {snr} dB, {seed}: no cluster");
                }
            }
            if d >= 3.0 {
                assert_eq!(separated, 6, "{d} bins, {snr} dB");
            }
        }
    }
}

#[test]
fn strong_tones_do_not_hide_weak_ones() {
    let n = 1u64 << 20;
    for (strong, sigma) in [(1e3, 0.1), (1e5, 0.1), (1e5, 0.0)] {
        for away in [4.0, 6.0, 10.0, 1000.0] {
            let mut rng = Rng::new(9);
            let mut tones = vec![
                (0.2345, Complex::new(strong, 0.0)),
                (0.2345 + away / n as f64, Complex::new(0.0, 1.0)),
            ];
            for i in 0..8 {
                tones.push((-0.45 + 0.08 * i as f64 + 0.01 * rng.uniform(), rng.phasor()));
            }
            let free = Free::new(n, &tones, sigma, 3);
            let found = find(&free);
            let what = format!("{strong} over 1, {away} bins, noise {sigma}");
            assert!(right(&free, &found), "{what}: {}", found.certificate());
            assert!(found.certificate().is_certified(), "{what}: {}", found.certificate());
        }
    }
}

#[test]
fn harmonics_and_grid_tones_are_tones_too() {
    let n = 1u64 << 20;
    for step in [128u64, 64, 32] {
        let tones: Vec<_> = (0..step.min(50))
            .map(|i| {
                let nu = 0.000_123_45 + i as f64 / step as f64;
                (nu - nu.round(), Complex::cis(i as f64))
            })
            .collect();
        let free = Free::new(n, &tones, 0.1, 3);
        let found = find(&free);
        assert!(right(&free, &found), "harmonics of 1/{step}: {}", found.certificate());
        assert!(found.certificate().is_certified(), "1/{step}: {}", found.certificate());
    }
    let mut free = Free::random(n, 20, Some(20.0), 40.0, 31);
    for t in free.tones.iter_mut().step_by(2) {
        t.nu = (t.nu * n as f64).round() / n as f64;
    }
    let found = find(&free);
    assert!(right(&free, &found) && found.certificate().is_certified());
}

#[test]
fn drift_is_measured_and_not_certified() {
    let n = 1u64 << 20;
    for c in [0.1, 0.3, -1.0, 3.0] {
        let mut free = Free::random(n, 6, Some(20.0), 40.0, 500);
        let rate = c / (n as f64 * n as f64);
        free.tones[1] = FreeTone { drift: rate, ..free.tones[1] };
        let found = find(&free);
        assert_eq!(found.certificate().verdict, Verdict::Uncertified, "drift {c}");
        assert_eq!(found.tones().len(), 6, "drift {c}: {}", found.certificate());
        let drifting: Vec<_> = found.tones().iter().filter_map(|t| t.drift).collect();
        assert_eq!(drifting.len(), 1, "drift {c}: {}", found.certificate());
        let error = (drifting[0].rate - rate) / drifting[0].std;
        assert!(error.abs() < 5.0, "drift {c}: off by {error} standard deviations");
        let reason = found.certificate().reason.clone().unwrap_or_default();
        assert!(reason.contains("drift"), "{reason}");
    }
}

#[test]
fn a_band_is_no_crowd_of_tones() {
    let n = 1u64 << 20;
    for seed in 0..3 {
        let mut free = Free::random(n, 8, Some(20.0), 40.0, 600 + seed);
        let mut rng = Rng::new(seed);
        let low = 0.123;
        let high = low + 40.0 / n as f64;
        free.bands.push(FreeBand::new(n, low, high, 1.0, &mut rng));
        let found = find(&free);
        assert_eq!(found.bands().len(), 1, "seed {seed}: {}", found.certificate());
        assert!(right(&free, &found), "seed {seed}: {}", found.certificate());
        let band = found.bands()[0];
        assert!(apart(n, band.low, low) < 12.0 && apart(n, band.high, high) < 12.0, "{band:?}");
        assert!((0.2..5.0).contains(&band.power), "{band:?}");
    }
}

#[test]
fn wide_bands_and_coloured_noise_make_no_certified_tones() {
    let n = 1u64 << 16;
    let judge = |free: &Free, what: String| {
        // Made once, since such signals are read several times.
        let found = Plan::new(Problem::new(n)).unwrap().tones(&free.samples()).unwrap();
        let sure = found.certificate().is_certified();
        assert!(!sure || right(free, &found), "{what}: wrong and certified {:?}", found.tones());
        if !sure {
            assert!(found.certificate().reason.is_some(), "{what}");
        }
    };
    // A little colour, a low pass of a quarter of the rate, a high pass, and 1/f.
    let mild = vec![1.0, 0.2];
    let low = vec![1.0; 4];
    let high: Vec<f64> = (0..16).map(|i| (-0.7f64).powi(i)).collect();
    let mut flicker = vec![1.0];
    for m in 1..64 {
        flicker.push(flicker[m - 1] * (m as f64 - 0.5) / m as f64);
    }
    for (name, taps) in [("mild", mild), ("low", low), ("high", high), ("1/f", flicker)] {
        for k in [0usize, 3] {
            for seed in 0..2 {
                let free = match k {
                    0 => Free::new(n, &[], 1.0, seed),
                    _ => Free::random(n, k, Some(20.0), 12.0, 900 + seed),
                };
                judge(&free.coloured(taps.iter().copied()), format!("{name}, k {k}, seed {seed}"));
            }
        }
    }
    for width in [300.0, 3000.0] {
        for power in [1.0, 0.01] {
            for k in [0usize, 4] {
                let mut free = match k {
                    0 => Free::new(n, &[], 0.1, 5),
                    _ => Free::random(n, k, Some(20.0), 12.0, 905),
                };
                let high = 0.123 + width / n as f64;
                free.bands.push(FreeBand::new(n, 0.123, high, power, &mut Rng::new(3)));
                judge(&free, format!("{width} bins of power {power}, k {k}"));
            }
        }
    }
}

#[test]
fn real_signals_come_in_pairs() {
    let n = 1u64 << 20;
    for from_zero in [1000.0, 10.0, 2.2] {
        for half in [false, true] {
            let mut free = Free::random(n, 4, Some(20.0), 40.0, 800);
            free.tones.iter_mut().for_each(|t| t.nu = t.nu.abs());
            let edge = if half { 0.5 - from_zero / n as f64 } else { from_zero / n as f64 };
            free.tones[0].nu = edge;
            free.real = true;
            let found = find(&free);
            let what = format!("{from_zero} bins from {}", if half { "1/2" } else { "0" });
            assert!(found.certificate().is_certified(), "{what}: {}", found.certificate());
            assert_eq!(found.tones().len(), 8, "{what}");
            for t in &free.tones {
                let (up, down) = (nearest(&found, t.nu).unwrap(), nearest(&found, -t.nu).unwrap());
                assert_eq!(up.frequency, -down.frequency);
                assert_eq!(up.amplitude, down.amplitude.conj());
                assert!((up.magnitude() - 0.5 * t.a.norm()).abs() < 6.0 * up.amplitude_std);
            }
        }
    }
    // Too near to zero: said, not guessed.
    let mut free = Free::new(n, &[(0.8 / n as f64, Complex::new(1.0, 0.0))], 0.1, 5);
    free.real = true;
    let found = find(&free);
    assert!(!found.certificate().is_certified());
    assert_eq!(found.clusters().len(), 1);
}

#[test]
fn accuracy_is_bought_with_samples() {
    let n = 1u64 << 18;
    let free = Free::random(n, 5, Some(20.0), 12.0, 41);
    let cheap = find(&free);
    let have = cheap.report().accuracy;
    let wanted = have.bins / 4.0;
    let fine = tones_of(&free, Problem::new(n).accuracy(wanted));
    let accuracy = fine.report().accuracy;
    assert!(accuracy.bins <= wanted, "{accuracy:?}, wanted {wanted}");
    assert!(fine.report().samples_read > cheap.report().samples_read);
    assert!(have.samples_for(wanted).unwrap() > have.samples);
    assert_eq!(have.samples_for(0.0), None);
    // All samples: 1.2 to 1.6 times the bound of all of them.
    let all = tones_of(&free, Problem::new(n).accuracy(0.0));
    for t in &free.tones {
        let snr = t.a.norm_sqr() / (free.sigma * free.sigma);
        let bound = (6.0 / (snr * n as f64)).sqrt() / TAU;
        let got = nearest(&all, t.nu).unwrap();
        assert!(apart(n, got.frequency, t.nu) < 6.0 * got.bin_std(n), "{got:?}");
        assert!((1.0..2.0).contains(&(got.bin_std(n) / bound)), "{}", got.bin_std(n) / bound);
    }
}

/// A receiver with every defect: offset, image, eight bits, a modulated carrier between the tones.
fn receiver(n: u64) -> Free {
    let mut rng = Rng::new(2);
    let mut free = Free::random(n, 5, Some(20.0), 4000.0, 92);
    free.tones.iter_mut().for_each(|t| t.a *= 4.0);
    free.sigma *= 4.0;
    // Carrier with noise-like modulation.
    free.bands.push(FreeBand::new(n, 0.0601, 0.0601 + 60.0 / n as f64, 30.0, &mut rng));
    free.offset = Complex::new(3.0, -1.0);
    free.image = Complex::from_polar(0.02, 0.7);
    free.step = 1.0;
    free
}

#[test]
fn a_receiver_with_all_its_defects() {
    let n = 1u64 << 20;
    let free = receiver(n);
    // As 8-bit samples, the way they come from the device.
    let x: Vec<Complex<i8>> = (0..n)
        .map(|t| {
            let v = free.at(t);
            assert!(v.re.abs() < 128.0 && v.im.abs() < 128.0);
            Complex::new(v.re as i8, v.im as i8)
        })
        .collect();
    let found = Plan::new(Problem::new(n)).unwrap().tones(&x).unwrap();
    for t in &free.tones {
        let got = nearest(&found, t.nu).unwrap_or_else(|| panic!("{t:?}: {}", found.certificate()));
        assert!((got.magnitude() / t.a.norm() - 1.0).abs() < 0.05);
        // The image of every strong tone.
        if t.a.norm() > 20.0 {
            let image = nearest(&found, -t.nu).unwrap();
            assert!((image.magnitude() / t.a.norm() - 0.02).abs() < 0.005);
        }
    }
    let offset = nearest(&found, 0.0).expect("the offset is a tone at 0");
    assert!((offset.amplitude - free.offset).norm() < 0.1, "{offset:?}");
    // The carrier's band, and perhaps its image.
    let strongest = found.bands().iter().max_by(|a, b| a.power.total_cmp(&b.power)).unwrap();
    assert!(strongest.low > 0.06 && strongest.high < 0.0603, "{strongest:?}");
    assert!((10.0..90.0).contains(&strongest.power), "{strongest:?}");
    for band in found.bands() {
        assert!((0.06..0.0603).contains(&band.low.abs()), "{band:?}");
    }
    // Nothing else but images is called a tone.
    for t in found.tones() {
        let known = free
            .tones
            .iter()
            .any(|f| apart(n, f.nu, t.frequency) < 0.5 || apart(n, -f.nu, t.frequency) < 0.5);
        let offset = apart(n, t.frequency, 0.0) < 0.5;
        assert!(known || offset, "{t:?} {}", found.certificate());
    }
}

#[test]
fn phase_noise_is_not_certified_as_tones() {
    let n = 1u64 << 20;
    let mut free = Free::random(n, 3, Some(30.0), 4000.0, 8);
    free.wander = 0.3;
    let found = find(&free);
    // Carriers whose phase wanders are no tones, certified or not: each is a band, and the
    // certificate says that it speaks of what lies outside.
    assert!(found.tones().is_empty(), "{:?}", found.tones());
    assert!(found.clusters().is_empty(), "{:?}", found.clusters());
    assert_eq!(found.bands().len(), 3, "{:?}", found.bands());
    for t in &free.tones {
        let here = |b: &&Band| (b.low..b.high).contains(&t.nu);
        let band = found.bands().iter().find(here).expect("every carrier lies in a band");
        assert!(band.width() * (n as f64) < 100.0, "{band:?}");
        assert!((0.2..5.0).contains(&(band.power / t.a.norm_sqr())), "{t:?} {band:?}");
    }
    let reason = found.certificate().reason.clone().unwrap_or_default();
    assert!(reason.contains("band"), "{reason}");
}

/// A sweep from one frequency to another over the record.
fn sweep(n: u64, from: f64, to: f64, sigma: f64) -> Free {
    Free {
        tones: vec![FreeTone { nu: from, a: Complex::ONE, drift: (to - from) / n as f64 }],
        ..Free::new(n, &[], sigma, 0)
    }
}

#[test]
fn a_sweep_is_uncertified_and_says_why() {
    for n in [1u64 << 16, 1 << 20, 1 << 22] {
        let mut signals = [
            sweep(n, -0.5, 0.5, 0.0),
            sweep(n, -0.2, 0.3, 0.0),
            sweep(n, -0.5, 0.5, 0.7),
            sweep(n, 0.0, 0.5, 0.0),
        ];
        signals[3].real = true;
        for (i, free) in signals.iter().enumerate() {
            let found = find(free);
            let what = format!("n {n}, sweep {i}: {}", found.certificate());
            assert!(found.tones().is_empty(), "{what}");
            assert_eq!(found.certificate().verdict, Verdict::Uncertified, "{what}");
            let reason = found.certificate().reason.clone().unwrap_or_default();
            assert!(reason.contains("sweep") || reason.contains("broadband"), "{what}");
        }
    }
}

#[test]
fn a_crowd_is_not_taken_for_noise() {
    let n = 1u64 << 22;
    // 200 tones fill all of the 64 bins that 20 dB ask for.
    let free = Free::random(n, 200, Some(20.0), 12.0, 77_000_240);
    let found = tones_of(&free, Problem::new(n).noise(Noise::Snr(20.0)));
    assert!(right(&free, &found) && found.certificate().is_certified(), "{}", found.certificate());
    let free = Free::random(n, 2000, Some(20.0), 12.0, 1);
    let found = find(&free);
    assert!(right(&free, &found) || !found.certificate().is_certified(), "{}", found.certificate());
}

#[test]
fn noise_and_silence_have_no_tones() {
    let n = 1u64 << 18;
    for seed in 0..40 {
        let found = find(&Free::new(n, &[], 1.0, seed));
        assert!(found.tones().is_empty(), "seed {seed}: {:?}", found.tones());
        assert!(found.certificate().is_certified(), "{}", found.certificate());
        assert!((found.certificate().noise_floor - 1.0).abs() < 0.15);
    }
    let found = find(&Free::new(n, &[], 0.0, 0));
    assert!(found.tones().is_empty() && found.certificate().is_certified());
}

#[test]
fn every_length_gives_an_answer() {
    for n in [1u64, 2, 7, 63, 64, 100, 255, 256, 300, 511, 600, 1009, 4095, 5000] {
        let free = Free::new(n, &[(0.1, Complex::new(1.0, 0.5))], 0.01, 3);
        let found = find(&free);
        if found.certificate().is_certified() {
            assert!(right(&free, &found), "n = {n}");
        } else {
            assert!(n < 300, "n = {n}: {}", found.certificate());
        }
    }
}

#[test]
fn the_answer_speaks_in_every_unit_and_goes_back() {
    let n = 1u64 << 18;
    let free = Free::random(n, 4, None, 40.0, 17);
    let plan = Plan::new(Problem::new(n).noise(Noise::Exact).sparsity(4)).unwrap();
    let found = plan.tones(&Recording(&free)).unwrap();
    assert_eq!(found, {
        let mut again = plan.tones(&Recording(&free)).unwrap();
        again = Tones::clone(&again);
        assert_eq!(again.tones(), found.tones());
        found.clone()
    });
    for t in found.tones() {
        assert_eq!(t.index(n), t.bin(n).round() as u64 % n);
        assert!((t.hertz(48_000.0) - t.frequency * 48_000.0).abs() < 1e-9);
        assert!(t.snr_db().is_none());
    }
    assert!(found.tones().windows(2).all(|w| w[0].frequency < w[1].frequency));
    assert!(found.top(4).windows(2).all(|w| w[0].magnitude() >= w[1].magnitude()));
    let range = n - 1000..n;
    let back = found.synthesize(range.clone()).unwrap();
    for (t, v) in range.clone().zip(&back) {
        assert!((v - free.at(t)).norm() < 1e-6, "{t}");
    }
    let residual = found.residual(&Recording(&free), range).unwrap();
    assert!(residual.iter().all(|v| v.norm() < 1e-6));
    assert!(found.synthesize(0..n + 1).is_err());
    let two = Plan::new(Problem::new(n).sparsity(2)).unwrap().tones(&Recording(&free)).unwrap();
    assert_eq!((two.tones().len(), two.report().left_out), (2, 2));
    let peaks = found.to_spectrum();
    assert_eq!(peaks.peaks().len(), 4);
}

#[test]
fn bad_samples_are_errors() {
    let n = 1u64 << 14;
    let plan = Plan::new(Problem::new(n)).unwrap();
    let mut x = vec![Complex::new(1.0, 0.0); n as usize];
    x.iter_mut().step_by(3).for_each(|v| v.re = f64::NAN);
    let error = plan.tones(&x).unwrap_err().to_string();
    assert!(error.contains("NaN"), "{error}");
    assert!(plan.tones(&x[..100]).is_err());
    assert!(Plan::new(Problem::new(n).accuracy(-1.0)).is_err());
}
