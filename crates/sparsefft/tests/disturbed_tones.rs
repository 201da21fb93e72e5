//! Tones between the bins in signals that change over the record, or of which a part is neither a
//! tone nor white noise: what `Plan::tones` certifies must describe the signal at every sample.

use sparsefft::{Complex, Plan, Problem, Tones};
use std::f64::consts::TAU;
use testkit::promise::{self, Demand};
use testkit::{Disturbance, Rng, Signal, Source};

/// Trials of each class.
const TRIALS: u64 = 20;
/// Mean square of what a certified answer may leave of the signal without its noise, in units of the
/// noise power: the tests tolerate correlations of 3 %.
const LEFT: f64 = 0.05;
/// The same relative to the signal, where there is no noise: the default tolerance, squared.
const TOLERATED: f64 = 1e-12;

/// The tones of a signal moved between the bins.
fn between_bins(mut signal: Signal, rng: &mut Rng) -> Signal {
    for tone in std::mem::take(&mut signal.tones) {
        signal.off_grid.push((tone.f as f64 + rng.uniform() - 0.5, tone.a));
    }
    signal
}

/// All samples.
fn samples(signal: &Signal) -> Vec<Complex<f64>> {
    match signal.stored(Vec::new()) {
        Source::C64(x) => x,
        _ => panic!("complex samples"),
    }
}

/// Mean squares of a clean signal, and of what tones leave of it, over every 13th sample.
fn powers(clean: &[Complex<f64>], found: &Tones) -> (f64, f64) {
    let clean: Vec<_> = clean.iter().copied().step_by(13).collect();
    let mut left = clean.clone();
    for tone in found.tones() {
        for (i, x) in left.iter_mut().enumerate() {
            let turns = tone.frequency * (13 * i) as f64;
            *x -= tone.amplitude * Complex::from_polar(1.0, TAU * (turns - turns.round()));
        }
    }
    let mean = |x: &[Complex<f64>]| x.iter().map(|v| v.norm_sqr()).sum::<f64>() / x.len() as f64;
    (mean(&clean), mean(&left))
}

/// What is wrong with the answer, if it is certified and does not describe the signal.
fn complaint(signal: &Signal) -> Option<String> {
    let plan = Plan::new(Problem::new(signal.n)).expect("n is a length");
    let found = plan.tones(&samples(signal)).expect("finite samples");
    let c = found.certificate();
    if !c.is_certified() {
        return None;
    }
    let clean = samples(&Signal { sigma: 0.0, ..signal.clone() });
    let (power, left) = powers(&clean, &found);
    let sigma2 = signal.sigma * signal.sigma;
    (left > LEFT * sigma2 + TOLERATED * power).then(|| {
        format!("{} tones leave {left:.1e}: {c} {:?}", found.tones().len(), signal.disturbances)
    })
}

#[test]
fn a_rest_that_is_no_noise_is_refused() {
    let mut wrong = Vec::new();
    for class in promise::classes().iter().filter(|c| c.demand == Demand::Refuse) {
        for trial in 0..TRIALS {
            let mut rng = Rng::new(trial);
            let signal = between_bins(class.case(7, trial).signal, &mut rng);
            if signal.n > 1 << 17 {
                continue;
            }
            if let Some(words) = complaint(&signal) {
                wrong.push(format!("{} {trial} n {}: {words}", class.name, signal.n));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong and certified:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn tones_that_change_are_refused_without_noise_too() {
    let mut wrong = Vec::new();
    let mut rng = Rng::new(3);
    for sigma in [0.0, 1e-4, 1e-2] {
        for trial in 0..TRIALS {
            let n = [1u64 << 16, 1 << 18, 100_003][(trial % 3) as usize];
            let length = n / [20, 8, 50][(trial / 3 % 3) as usize];
            let from = [0, n - length, rng.below(n - length)][(trial / 9 % 3) as usize];
            let factor = [0.0, 0.5, -1.0, 0.9][(trial % 4) as usize];
            let tones = (0..1 + trial % 5).map(|_| (rng.uniform() * n as f64, rng.phasor()));
            let signal = Signal { off_grid: tones.collect(), ..Signal::new(n, Vec::new()) }
                .noise(sigma, trial)
                .disturbed(Disturbance::Level { from, length, factor });
            if let Some(words) = complaint(&signal) {
                wrong.push(format!("sigma {sigma} trial {trial}: {words}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong and certified:\n{}", wrong.len(), wrong.join("\n"));
}

/// Honest signals are certified: a test that refuses everything would pass the ones above.
#[test]
fn tones_that_do_not_change_are_certified() {
    let (mut certified, mut trials) = (0, 0);
    for sigma in [0.0, 1e-7, 1e-4, 1e-2, 1.0] {
        for trial in 0..TRIALS / 3 {
            let mut rng = Rng::new(100 + trial);
            let n = [1u64 << 16, 1 << 18, 100_003][(trial % 3) as usize];
            let tones = (0..1 + trial % 8).map(|_| (rng.uniform() * n as f64, rng.phasor()));
            let signal = Signal { off_grid: tones.collect(), ..Signal::new(n, Vec::new()) };
            let signal = signal.noise(sigma, trial);
            let plan = Plan::new(Problem::new(n)).expect("n is a length");
            let found = plan.tones(&samples(&signal)).expect("finite samples");
            trials += 1;
            certified += u32::from(found.certificate().is_certified());
        }
    }
    assert!(certified * 20 >= trials * 19, "{certified} of {trials} certified");
}
