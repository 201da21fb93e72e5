//! Exploration.
#[path = "../tests/common/mod.rs"]
mod common;
use common::Recording;
use sparsefft::{Complex, Plan, Problem};
use testkit::free::{Free, FreeBand, FreeTone};
use testkit::rng::Rng;

fn show(name: &str, free: &Free) {
    let found = Plan::new(Problem::new(free.n)).unwrap().tones(&Recording(free)).unwrap();
    let c = found.certificate();
    let mut ok = 0;
    for t in &free.tones {
        let n = free.n as f64;
        if found.tones().iter().any(|x| {
            let d = x.frequency - t.nu;
            ((d - d.round()) * n).abs() < 0.5
        }) {
            ok += 1;
        }
    }
    println!(
        "{name}: {} of {} right, {} found, {} bands, {} clusters, drifts {:?}, B {} {} {} {:?}",
        ok,
        free.tones.len(),
        found.tones().len(),
        found.bands().len(),
        found.clusters().len(),
        found
            .tones()
            .iter()
            .filter_map(|t| t
                .drift
                .map(|d| (d.rate * (free.n as f64).powi(2), d.std * (free.n as f64).powi(2))))
            .take(3)
            .collect::<Vec<_>>(),
        found.report().bins,
        found.report().samples_read,
        c.verdict,
        c.reason
    );
    for b in found.bands().iter().take(3) {
        println!(
            "    band {:.1} .. {:.1} bins, power {:.3}",
            b.low * free.n as f64,
            b.high * free.n as f64,
            b.power
        );
    }
    for b in found.clusters().iter().take(3) {
        println!(
            "    cluster {:.2} width {:.2} bins, power {:.3}",
            b.centre * free.n as f64,
            b.width * free.n as f64,
            b.power
        );
    }
}

fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let n = 1u64 << 20;
    if which.contains('p') {
        for snr in [20.0, 40.0] {
            for d in [0.05, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 2.75, 3.0, 3.5, 4.0] {
                let (mut right, mut cert, mut wrong, mut clusters) = (0, 0, 0, 0);
                let trials = 20;
                for seed in 0..trials {
                    let mut rng = Rng::new(seed + 77);
                    let mut tones = Vec::new();
                    for i in 0..3 {
                        let nu = -0.4 + 0.3 * i as f64 + 0.1 * rng.uniform();
                        tones.push((nu, rng.phasor()));
                        tones.push((nu + d / n as f64, rng.phasor()));
                    }
                    let free = Free::new(n, &tones, 10f64.powf(-snr / 20.0), seed);
                    let found =
                        Plan::new(Problem::new(n)).unwrap().tones(&Recording(&free)).unwrap();
                    let all = found.tones().len() == 6
                        && free.tones.iter().all(|t| {
                            found
                                .tones()
                                .iter()
                                .any(|x| ((x.frequency - t.nu) * n as f64).abs() < 0.5)
                        });
                    right += u64::from(all);
                    cert += u64::from(found.certificate().is_certified());
                    wrong += u64::from(found.certificate().is_certified() && !all);
                    clusters += found.clusters().len();
                    if std::env::var_os("V").is_some() && found.certificate().is_certified() && !all
                    {
                        println!(
                            "seed {seed} {:?}",
                            found
                                .tones()
                                .iter()
                                .map(|t| (t.frequency * n as f64, t.magnitude()))
                                .collect::<Vec<_>>()
                        );
                    }
                }
                println!(
                    "snr {snr} d {d}: right {right} certified {cert} WRONG {wrong} clusters {clusters} of {trials}"
                );
            }
        }
    }
    if which.contains('d') {
        for c in [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0] {
            for seed in 0..2 {
                let mut free = Free::random(n, 6, Some(20.0), 40.0, 500 + seed);
                free.tones[1] = FreeTone { drift: c / (n as f64).powi(2), ..free.tones[1] };
                show(&format!("drift {c}"), &free);
            }
        }
    }
    if which.contains('b') {
        for width in [42.0, 419.0, 1258.0] {
            for seed in 0..2 {
                let n = 1u64 << 22;
                let mut free = Free::random(n, 10, Some(20.0), 40.0, 600 + seed);
                let mut rng = Rng::new(seed);
                let low = 0.123;
                free.bands.push(FreeBand::new(n, low, low + width / n as f64, 1.0, &mut rng));
                println!("band at {:.1} .. {:.1}", low * n as f64, low * n as f64 + width);
                show(&format!("band {width}"), &free);
            }
        }
    }
    if which.contains('s') {
        for beta in [4.0, 6.0, 8.0, 10.0, 100.0] {
            let mut rng = Rng::new(9);
            let nu = 0.2345;
            let mut tones = vec![
                (nu, Complex::new(1000.0, 0.0)),
                (nu + beta / n as f64, Complex::new(0.0, 1.0)),
            ];
            for i in 0..8 {
                tones.push((-0.45 + 0.08 * i as f64 + 0.01 * rng.uniform(), rng.phasor()));
            }
            show(&format!("60 dB, {beta} bins"), &Free::new(n, &tones, 0.1, 3));
            tones[0].1 = Complex::new(1e5, 0.0);
            show(&format!("100 dB, {beta} bins"), &Free::new(n, &tones, 0.1, 3));
            show(&format!("100 dB, {beta} bins, no noise"), &Free::new(n, &tones, 0.0, 3));
        }
    }
    if which.contains('h') {
        for step in [128.0, 64.0, 32.0] {
            let tones: Vec<_> = (0..50)
                .map(|i| (0.00012345 + i as f64 / step - 0.5, Complex::cis(i as f64)))
                .map(|(nu, a): (f64, _)| (nu - nu.round(), a))
                .take(step as usize)
                .collect();
            show(&format!("harmonics of 1/{step}"), &Free::new(n, &tones, 0.1, 3));
        }
    }
    if which.contains('r') {
        for near in [100.0, 10.0, 4.3, 2.2, 1.3, 0.4, 0.0] {
            let mut free = Free::random(n, 5, Some(20.0), 40.0, 800);
            free.tones.truncate(4);
            free.tones[0].nu = near / n as f64;
            for t in &mut free.tones {
                t.nu = t.nu.abs();
            }
            free.real = true;
            show(&format!("real, {near} from 0"), &free);
        }
    }
    if which.contains('a') {
        for snr in [40.0, 20.0, 0.0, -10.0] {
            let k = 10;
            for wanted in [1e-3, 1e-4, 1e-5, 0.0] {
                let (mut sum, mut claimed, mut samples, mut best, mut micros) =
                    (0.0, 0.0, 0, 0.0, 0);
                for seed in 0..4 {
                    let free = Free::random(n, k, Some(snr), 12.0, 40 + seed);
                    let x = free.samples();
                    let found =
                        Plan::new(Problem::new(n).accuracy(wanted)).unwrap().tones(&x).unwrap();
                    micros = found.report().elapsed.as_micros();
                    best = found.report().accuracy.bins;
                    samples = found.report().samples_read;
                    for t in &free.tones {
                        let e = found
                            .tones()
                            .iter()
                            .map(|x| (x.frequency - t.nu, x.frequency_std))
                            .map(|(d, s)| ((d - d.round()), s))
                            .min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
                            .unwrap();
                        sum += (e.0 / e.1).powi(2) / 40.0;
                        let snr = t.a.norm_sqr() / free.sigma.powi(2);
                        claimed += (e.0 * n as f64).powi(2) * snr * n as f64 / 6.0
                            * std::f64::consts::TAU.powi(2)
                            / 40.0;
                    }
                }
                println!(
                    "snr {snr} wanted {wanted}: got {best:.2e} bins, {samples} samples, {micros} us, error / claimed {:.2}, / CRB(all) {:.2}",
                    sum.sqrt(),
                    claimed.sqrt()
                );
            }
        }
    }
    if which.contains('n') {
        show("noise only", &Free::new(n, &[], 1.0, 3));
        show("silence", &Free::new(n, &[], 0.0, 3));
        let mut f = Free::new(n, &[(0.1, Complex::new(1.0, 0.0))], 1.0, 3);
        f.step = 1.0;
        show("coarse", &f);
        for n in [1u64, 10, 100, 256, 300, 500, 512, 600, 1000, 1009, 5000] {
            let f = Free::new(n, &[(0.1, Complex::new(1.0, 0.0))], 0.01, 3);
            show(&format!("n {n}"), &f);
        }
    }
}
