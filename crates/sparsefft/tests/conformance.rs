//! One body for every algorithm × kind of samples × kind of n × k known or not.
//!
//! The default algorithms must be right and certified. The voting ones may be unsure, or say
//! beforehand that they cannot run, but must never be wrong and certified.

mod common;

use sparsefft::{Algorithm, Error, Plan, Samples, Spectrum, Strided, from_fn, iq};
use testkit::judge::judge_dense;
use testkit::{Asked, C64, Format, Judgement, NoiseHint, Rng, Signal, generate, judge, oracle};

/// Power of two, smooth, odd, prime, four times a prime.
const LENGTHS: [u64; 5] = [1 << 15, 30_000, 19_683, 16_381, 4 * 8_191];

/// Every kind of samples, by name.
const KINDS: [&str; 16] = [
    "complex f64",
    "complex f32",
    "complex i8",
    "complex u8",
    "complex i16",
    "complex i32",
    "real f64",
    "real f32",
    "real i8",
    "real u8",
    "real i16",
    "real i32",
    "iq f64",
    "iq i16",
    "strided",
    "closure",
];

fn format(kind: &str) -> Format {
    match kind.rsplit(' ').next() {
        Some("f32") => Format::F32,
        Some("i8") => Format::I8,
        Some("u8") => Format::U8,
        Some("i16") => Format::I16,
        Some("i32") => Format::I32,
        _ => Format::F64,
    }
}

/// Four tones (two pairs where the samples are real) as large as the format allows.
fn signal(rng: &mut Rng, n: u64, kind: &str) -> Signal {
    let scale = match format(kind) {
        // Four tones of magnitude up to 2 must stay within the range of the type.
        Format::I8 | Format::U8 => 15.0,
        Format::I16 => 4_000.0,
        Format::I32 => 2e8,
        Format::F32 | Format::F64 => 1.0,
    };
    let real = kind.starts_with("real");
    let tones = if real {
        // At least 1, so that no tone sits on the offset of u8 by chance.
        generate::conjugate_pairs(rng, n, 2).into_iter().filter(|t| t.f != 0).collect()
    } else {
        generate::random(rng, n, 4)
    };
    let signal = Signal::new(n, generate::scaled(tones, scale)).format(format(kind));
    if real { signal.into_real() } else { signal }
}

fn transform(plan: &Plan, signal: &Signal, kind: &str) -> Result<Spectrum, Error> {
    let interleaved = |x: &[C64]| x.iter().flat_map(|v| [v.re, v.im]).collect::<Vec<f64>>();
    match kind {
        "iq f64" => plan.transform(&iq(&interleaved(&signal.samples()))?),
        "iq i16" => {
            let flat: Vec<i16> =
                interleaved(&signal.samples()).into_iter().map(|v| v as i16).collect();
            plan.transform(&iq(&flat)?)
        }
        "strided" => {
            let poison = C64::new(f64::NAN, f64::NAN);
            let wide: Vec<C64> =
                signal.samples().into_iter().flat_map(|v| [poison, v, poison]).collect();
            plan.transform(&Strided::new(&wide, 1, 3)?)
        }
        "closure" => {
            let lazy = signal.clone().lazy();
            plan.transform(&from_fn(signal.n, |indices| {
                Ok(indices.iter().map(|&t| lazy.at(t)).collect())
            }))
        }
        _ => common::with_samples(&signal.stored(Vec::new()), |x: &dyn Samples| plan.transform(&x)),
    }
}

fn conforms(algorithm: Algorithm) {
    let mut rng = Rng::new(301);
    let mut failures = Vec::new();
    for n in LENGTHS {
        for kind in KINDS {
            let signal = signal(&mut rng, n, kind);
            for known in [true, false] {
                let k = known.then_some(signal.truth().len() as u64);
                let asked = Asked { k, noise: NoiseHint::Unknown };
                let problem = common::problem(n, &asked).algorithm(algorithm).seed(7);
                let what = format!("{algorithm}, {kind}, n = {n}, k = {k:?}");
                let voting = matches!(algorithm, Algorithm::Vote | Algorithm::CombVote);
                let spectrum = match Plan::new(problem) {
                    Ok(plan) => transform(&plan, &signal, kind),
                    Err(error) => Err(error),
                };
                let spectrum = match spectrum {
                    Ok(spectrum) => spectrum,
                    Err(Error::Unsupported { reason, .. }) if voting && !reason.is_empty() => {
                        continue;
                    }
                    Err(error) => {
                        failures.push(format!("{what}: {error}"));
                        continue;
                    }
                };
                let answer = common::answer(&spectrum);
                // Rounding of few tones is periodic and makes spurious tones of its own: where k is
                // left open the truth is the dense FFT of what was stored.
                let opinion = if format(kind) != Format::F64 && !known {
                    let truth = oracle::dense(&signal.samples());
                    judge_dense(&signal, &truth, &asked, &answer)
                } else {
                    judge(&signal, &asked, &answer)
                };
                let fine = match opinion.judgement {
                    Judgement::RightCertified => true,
                    Judgement::RightUncertified | Judgement::WrongUncertified => voting,
                    Judgement::WrongCertified => false,
                };
                if !fine {
                    failures.push(format!("{what}: {opinion}; {}", spectrum.certificate()));
                }
                let real = kind.starts_with("real");
                let symmetric = |s: &Spectrum| {
                    s.peaks().iter().all(|p| s.value((n - p.index) % n) == p.value.conj())
                };
                if real && known && opinion.judgement.is_right() && !symmetric(&spectrum) {
                    let by = spectrum.report().algorithm;
                    failures.push(format!("{what}: by {by}, not symmetric to the last bit"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn auto() {
    conforms(Algorithm::Auto);
}

#[test]
fn exact() {
    conforms(Algorithm::Exact);
}

#[test]
fn robust() {
    conforms(Algorithm::Robust);
}

#[test]
fn vote() {
    conforms(Algorithm::Vote);
}

#[test]
fn comb_vote() {
    conforms(Algorithm::CombVote);
}

#[test]
fn dense() {
    conforms(Algorithm::Dense);
}
