//! The survey in parts: the findings of a survey in memory within its errors, whatever the order and
//! the division, in bounded memory.
//!
//! Every random test has a fixed seed; where a limit could be passed by chance, the probability
//! stands beside it.

use sparsefft::find::{Burst, Effort, Find, Findings, Line, LineKind, Stream, Survey};
use sparsefft::{Complex, Error, Samples, indexed};
use std::f64::consts::TAU;
use testkit::Rng;

/// Sample t of white complex noise of power 1: a hash of t and the seed.
fn white(seed: u64, t: u64) -> Complex<f64> {
    let mut z = t
        .wrapping_add(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .wrapping_mul(0xD129_0B26_88CC_0E5D);
    let mut next = || {
        z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut v = z;
        v = (v ^ (v >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        v = (v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((v ^ (v >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (u, v) = (next(), next());
    Complex::cis(TAU * v) * (-(1.0 - u).ln()).sqrt()
}

/// e^{2πiνt} with the phase reduced before it is rounded.
fn tone(frequency: f64, t: u64) -> Complex<f64> {
    let whole = (frequency * 2f64.powi(40)).round() as i128;
    let turns = (whole * i128::from(t)).rem_euclid(1 << 40) as f64 / 2f64.powi(40);
    Complex::cis(TAU * turns)
}

fn line_at(findings: &Findings, frequency: f64, within: f64) -> Option<&Line> {
    let off = |l: &&Line| (l.frequency - frequency).abs();
    let nearest = findings.lines.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    (off(&nearest) <= within).then_some(nearest)
}

/// Lines, a band, a short burst across the border of two units, and a long one.
fn scene(t: u64) -> Complex<f64> {
    let mut x = white(1, t);
    for (frequency, amplitude) in SCENE_LINES {
        x += tone(frequency, t) * amplitude;
    }
    // A band: every 32nd sample of noise, with raised cosines between, times a carrier.
    let share = 0.5 - 0.5 * (TAU * (t % 32) as f64 / 64.0).cos();
    let smooth = white(2, t / 32) * (1.0 - share) + white(2, t / 32 + 1) * share;
    x += smooth * tone(-0.2, t);
    if (SHORT.0..SHORT.0 + SHORT.1).contains(&t) {
        x += tone(0.37, t) * 2.0;
    }
    if (LONG.0..LONG.0 + LONG.1).contains(&t) {
        x += tone(-0.42, t) * 0.5;
    }
    x
}
const SCENE_LINES: [(f64, f64); 3] = [(0.123_456_789, 0.1), (0.300_000_7, 0.03), (-0.087_65, 1.0)];
const SHORT: (u64, u64) = ((1 << 20) - 3000, 6000);
const LONG: (u64, u64) = (3_333_333, 1_000_000);

fn in_parts(signal: &impl Samples, memory: u64) -> Findings {
    Find::new().effort(Effort::Thorough).memory(memory).run(signal).unwrap()
}

/// Findings without what they have cost.
fn content(f: &Findings) -> impl PartialEq + std::fmt::Debug + use<> {
    let f = f.clone();
    (f.lines, f.bands, f.bursts, f.sweeps, f.families, f.floor, f.reasons)
}

#[test]
fn a_long_record_has_the_findings_of_one_in_memory() {
    let n = 1u64 << 23;
    let signal = indexed(n, scene);
    let whole = Find::new().effort(Effort::Thorough).run(&signal).unwrap();
    let parts = in_parts(&signal, 64 << 20);
    assert!(whole.is_complete() && parts.is_complete());
    assert!(parts.reasons.iter().any(|r| r.code == "in_parts"), "{:?}", parts.reasons);
    assert!(parts.cost.memory <= 64 << 20, "{}", parts.cost.memory);
    assert!(parts.threshold_db > whole.threshold_db && parts.threshold_db < 26.0);
    // Lines: both at the truth within five of their deviations, which are those of the whole
    // record, and nothing else beside them.
    for (frequency, amplitude) in SCENE_LINES {
        let [a, b] = [&whole, &parts].map(|f| line_at(f, frequency, 2e-7).expect("it is listed"));
        for line in [a, b] {
            let off = (line.frequency - frequency).abs();
            assert!(off < 5.0 * line.frequency_std, "{frequency}: {off} ± {}", line.frequency_std);
            let wrong = line.amplitude - amplitude;
            assert!(wrong.norm() < 8.0 * line.amplitude_std, "{frequency}: {wrong}");
        }
        assert!((b.frequency_std / a.frequency_std - 1.0).abs() < 0.25);
        assert!((b.snr_db.unwrap() - a.snr_db.unwrap()).abs() < 2.0);
    }
    assert_eq!(parts.lines.len(), SCENE_LINES.len(), "{:?}", parts.lines);
    // The band: the same place and power.
    let (a, b) = (&whole.bands[0], &parts.bands[0]);
    assert!((a.low - b.low).abs() < 2e-3 && (a.high - b.high).abs() < 2e-3, "{a:?} {b:?}");
    assert!((a.power / b.power - 1.0).abs() < 0.03, "{a:?} {b:?}");
    // The bursts: one across the border of two units, one over several of them.
    let bursts = &parts.bursts;
    assert_eq!(bursts.len(), 2, "{bursts:?}");
    let near = |burst: &Burst, (start, length): (u64, u64), within: u64| {
        let end = (burst.start + burst.length).abs_diff(start + length);
        burst.start.abs_diff(start) < within && end < within
    };
    assert!(near(&bursts[0], SHORT, 200), "{:?}", bursts[0]);
    assert!((bursts[0].power / 4.0 - 1.0).abs() < 0.1, "{:?}", bursts[0]);
    assert!(whole.bursts.iter().any(|b| near(b, SHORT, 200)), "{:?}", whole.bursts);
    assert!(near(&bursts[1], LONG, 2500), "{:?}", bursts[1]);
    assert!(bursts[1].low < -0.42 && -0.42 < bursts[1].high);
    assert!((bursts[1].power / 0.25 - 1.0).abs() < 0.3, "{:?}", bursts[1]);
}

/// A record of 2^17 samples with something of each kind.
fn small() -> Vec<Complex<f64>> {
    let mut x: Vec<Complex<f64>> = (0..1 << 17).map(|t| white(5, t)).collect();
    for (t, v) in (0u64..).zip(&mut x) {
        *v += tone(0.2345, t) * 0.2;
        if (40_000..41_000).contains(&t) {
            *v += tone(-0.3, t) * 3.0;
        }
    }
    x
}

#[test]
fn order_and_division_do_not_matter() {
    let x = small();
    let n = x.len() as u64;
    let empty = Survey::with(n, false, 1e-6, 64 << 20).unwrap();
    let unit = empty.unit() as usize;
    let mut whole = empty.clone();
    whole.add(0, &x).unwrap();
    let bytes = whole.to_bytes();
    let reference = content(&whole.clone().finish(Some(&x)).unwrap());
    let blind = content(&whole.finish(None::<&Vec<Complex<f64>>>).unwrap());
    let mut rng = Rng::new(11);
    for trial in 0..6 {
        // Parts of whole units, or cut anywhere; in any order, on three machines.
        let mut cuts: Vec<usize> = if trial % 2 == 0 {
            (0..=x.len() / unit).map(|i| i * unit).collect()
        } else {
            (0..20).map(|_| (rng.uniform() * n as f64) as usize).chain([0, x.len()]).collect()
        };
        cuts.sort_unstable();
        let mut parts: Vec<(usize, usize)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
        for i in (1..parts.len()).rev() {
            parts.swap(i, (rng.uniform() * (i + 1) as f64) as usize);
        }
        let mut machines = [empty.clone(), empty.clone(), empty.clone()];
        for (i, (from, to)) in parts.iter().enumerate() {
            machines[i % 3].add(*from as u64, &x[*from..*to]).unwrap();
        }
        let [a, mut b, c] = machines;
        let stored = Survey::from_bytes(&c.to_bytes()).unwrap();
        assert!(stored == c || trial % 2 == 1, "trial {trial}");
        b.merge(&stored).unwrap();
        b.merge(&a).unwrap();
        assert!(b.is_complete());
        assert_eq!(b.to_bytes(), bytes, "trial {trial}");
        assert!(content(&b.clone().finish(Some(&x)).unwrap()) == reference, "trial {trial}");
        assert!(content(&b.finish(None::<&Vec<Complex<f64>>>).unwrap()) == blind, "trial {trial}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let x = small();
    let n = x.len() as u64;
    let empty = Survey::new(n, false).unwrap();
    assert!(matches!(Survey::new(1000, false), Err(Error::Unsupported { .. })));
    let tiny = Survey::with(1 << 40, false, 1e-6, 1 << 20).unwrap_err();
    assert!(tiny.to_string().contains("raise the limit"), "{tiny}");
    let p = Survey::with(n, false, 2.0, 1 << 30).unwrap_err();
    assert!(p.to_string().contains("failure_probability = 2"), "{p}");
    let mut survey = empty.clone();
    assert!(matches!(survey.add(n - 5, &x[..10]), Err(Error::RangeOutside { .. })));
    survey.add(100, &x[100..50_000]).unwrap();
    let twice = survey.add(49_999, &x[49_999..50_001]);
    assert!(matches!(twice, Err(Error::SeenTwice(_))), "{twice:?}");
    let other = survey.clone();
    assert!(matches!(survey.merge(&other), Err(Error::SeenTwice(_))));
    assert_eq!(survey, other);
    let missing = survey.clone().finish(Some(&x)).unwrap_err();
    let Error::Incomplete { gaps, missing, .. } = missing else { panic!("{missing}") };
    assert_eq!((gaps[0].range.clone(), gaps[1].range.clone()), (0..100, 50_000..n));
    assert_eq!(missing, n - 49_900);
    let mut bad = x.clone();
    bad[60_000].im = f64::NAN;
    let found = survey.add(50_000, &bad[50_000..]).unwrap_err();
    assert!(matches!(found, Error::NonFinite { index: 60_000, .. }), "{found}");
    let real = Survey::new(n, true).unwrap();
    assert!(matches!(survey.merge(&real), Err(Error::OtherSketch { .. })));
    let mut whole = empty;
    whole.add(0, &x).unwrap();
    let short = whole.finish(Some(&x[1..])).unwrap_err();
    assert!(matches!(short, Error::LengthMismatch { .. }), "{short}");
}

#[test]
fn damaged_bytes_are_refused() {
    let x = small();
    let mut survey = Survey::new(x.len() as u64, false).unwrap();
    survey.add(1000, &x[1000..]).unwrap();
    let bytes = survey.to_bytes();
    assert_eq!(Survey::from_bytes(&bytes).unwrap(), survey);
    for length in [0, 7, 8, 12, 40, bytes.len() - 1] {
        assert!(Survey::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    let mut rng = Rng::new(3);
    for trial in 0..300 {
        // Wrong bytes under a right checksum, among them all numbers of things.
        let mut bytes = bytes.clone();
        let body = bytes.len() - 4;
        let at = if trial < 100 { 12 + trial % 60 } else { (rng.uniform() * body as f64) as usize };
        bytes[at] ^= 1 << (trial % 8);
        let sum = crc32(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
        if let Ok(mut survey) = Survey::from_bytes(&bytes) {
            // What still is a survey can be finished, or says why not.
            if survey.n() == x.len() as u64 {
                let _ = survey.add(0, &x[..1000]);
                let _ = survey.finish(None::<&Vec<Complex<f64>>>);
            }
        }
    }
}

/// CRC-32 as in zip files.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, b| {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1));
        }
        crc
    })
}

/// White noise, or noise whose density falls as the given power of the frequency.
fn coloured(rng: &mut Rng, n: usize, exponent: f64) -> Vec<f64> {
    let m = (2 * n).next_power_of_two();
    let mut x: Vec<Complex<f64>> = (0..m)
        .map(|k| match k.min(m - k) {
            0 => Complex::ZERO,
            d => rng.gaussian() * (d as f64 / m as f64).powf(-0.5 * exponent),
        })
        .collect();
    testkit::oracle::inverse(&mut x);
    let scale = std::f64::consts::SQRT_2 / (m as f64).sqrt();
    x.iter().take(n).map(|z| z.re * scale).collect()
}

#[test]
fn noise_of_any_colour_makes_nothing() {
    // Each kind of finding has the stated probability of 10⁻⁶; 50 records, each with a second pass
    // and without.
    let n = 1 << 17;
    let empty = |real| Survey::with(n as u64, real, 1e-6, 64 << 20).unwrap();
    let check = |found: Findings, what: &str| {
        let lines = found.lines.iter().filter(|l| l.kind != LineKind::Offset).count();
        let others = (found.bands.len(), found.bursts.len(), found.sweeps.len());
        assert_eq!((lines, others), (0, (0, 0, 0)), "{what}: {found:?}");
    };
    for exponent in [0.0, 1.0, 2.0, 6.0] {
        for trial in 0..10 {
            let x = coloured(&mut Rng::new(trial * 31 + 7), n, exponent);
            let mut survey = empty(true);
            survey.add(0, &x).unwrap();
            let what = format!("1/f^{exponent}, trial {trial}");
            check(survey.clone().finish(None::<&Vec<f64>>).unwrap(), &what);
            check(survey.finish(Some(&x)).unwrap(), &what);
        }
    }
    for trial in 0..10 {
        let x: Vec<Complex<f64>> = (0..n as u64).map(|t| white(100 + trial, t)).collect();
        let mut survey = empty(false);
        survey.add(0, &x).unwrap();
        check(survey.clone().finish(None::<&Vec<f64>>).unwrap(), "complex, one pass");
        check(survey.finish(Some(&x)).unwrap(), "complex");
    }
}

#[test]
fn deviations_are_honest() {
    // The rms of 60 errors over their deviations lies within 0.72 … 1.28 but for 1 in 500 sets.
    let n = 1u64 << 17;
    let (mut refined, mut coarse) = (0.0, 0.0);
    for trial in 0..60 {
        let mut rng = Rng::new(trial * 17 + 3);
        let frequency = rng.uniform() - 0.5;
        let amplitude = (2e3 / n as f64).sqrt();
        let x: Vec<Complex<f64>> =
            (0..n).map(|t| white(200 + trial, t) + tone(frequency, t) * amplitude).collect();
        let mut survey = Survey::with(n, false, 1e-6, 64 << 20).unwrap();
        survey.add(0, &x).unwrap();
        let found = survey.clone().finish(None::<&Vec<f64>>).unwrap();
        let line = line_at(&found, frequency, 1e-3).expect("33 dB is seen");
        coarse += ((line.frequency - frequency) / line.frequency_std).powi(2);
        assert!((line.level() / amplitude - 1.0).abs() < 0.2, "{line:?}");
        let found = survey.finish(Some(&x)).unwrap();
        let line = line_at(&found, frequency, 2.0 / n as f64).expect("33 dB is refined");
        refined += ((line.frequency - frequency) / line.frequency_std).powi(2);
        assert!((line.amplitude - amplitude).norm() < 0.2 * amplitude, "{line:?}");
    }
    for (squares, what) in [(refined, "refined"), (coarse, "one pass")] {
        let rms = (squares / 60.0f64).sqrt();
        assert!((0.72..1.28).contains(&rms), "{what}: {rms}");
    }
}

#[test]
fn strong_and_moving_lines_are_as_exact_as_in_memory() {
    // A real record: a mean, a line 120 dB above the noise, and a drifting one beside weak lines.
    let n = 1u64 << 20;
    let rate = 4e-12;
    let x: Vec<f64> = (0..n)
        .map(|t| {
            let turns = 0.45 * t as f64 + 0.5 * rate * (t as f64).powi(2);
            let strong = 1e6 * 2f64.sqrt() * tone(0.123_456_789, t).re;
            let drifting = 0.5 * (TAU * turns.fract()).cos();
            white(77, t).re
                + 1e3
                + strong
                + drifting
                + 0.2 * tone(0.3, t).re
                + 0.1 * tone(0.3005, t).re
        })
        .collect();
    let found = in_parts(&x, 16 << 20);
    assert_eq!((found.lines.len(), found.bands.len(), found.bursts.len()), (5, 0, 0), "{found:?}");
    assert_eq!(found.lines[1].kind, LineKind::Offset);
    // The drifting line at its middle.
    let middle = 0.45 + 0.5 * rate * n as f64;
    let truth = [(0.123_456_789, 1e6 * 2f64.sqrt()), (middle, 0.5), (0.3, 0.2), (0.3005, 0.1)];
    for (frequency, level) in truth {
        let line = line_at(&found, frequency, 1e-6).expect("it is listed");
        let off = (line.frequency - frequency).abs();
        // The phase of the signal itself is rounded to 2^-40 of a turn.
        assert!(off < 5.0 * line.frequency_std + 1e-12, "{frequency}: {off} {line:?}");
        assert!((line.level() / level - 1.0).abs() < 0.05, "{line:?}");
    }
    let drift = line_at(&found, middle, 1e-6).unwrap().drift.expect("it moves");
    assert!((drift.rate - rate).abs() < 5.0 * drift.std, "{drift:?}");
}

#[test]
fn streams_track_lines_and_close_bursts() {
    let (hop, rate) = (1u64 << 15, 2e-11);
    let mut stream = Stream::new(false, hop).unwrap();
    // A line that drifts, one that is there in hops 4 ... 9, and a burst over a border.
    let turns = |t: f64| 0.1234 * t + 0.5 * rate * t * t;
    let burst = 3 * hop - 500..3 * hop + 700;
    let sample = |t: u64| {
        let mut x = white(9, t) + Complex::cis(TAU * turns(t as f64).fract()) * 0.3;
        if (4 * hop..10 * hop).contains(&t) {
            x += tone(-0.3, t) * 0.2;
        }
        if burst.contains(&t) {
            x += tone(0.4, t) * 4.0;
        }
        Complex::new(x.re as f32, x.im as f32)
    };
    let mut hops = Vec::new();
    // Blocks that do not fit the hops.
    let mut at = 0;
    while at < 14 * hop {
        let block: Vec<Complex<f32>> = (at..at + 10_000).map(sample).collect();
        hops.extend(stream.push(&block).unwrap());
        at += 10_000;
    }
    assert_eq!(hops.len(), 14);
    assert_eq!(stream.pending(), at - 14 * hop);
    for (i, h) in hops.iter().enumerate() {
        assert_eq!((h.start, h.length, h.lost), (i as u64 * hop, hop, 0));
        let track = h.tracks.iter().find(|t| t.id == 0).expect("the first line is always there");
        let middle = h.start as f64 + 0.5 * hop as f64;
        let off = track.line.frequency - (0.1234 + rate * middle);
        assert!(off.abs() < 6.0 * track.line.frequency_std, "hop {i}: {off}");
        assert_eq!(h.tracks.len(), if (4..10).contains(&i) { 2 } else { 1 }, "hop {i}");
        assert_eq!(h.ended.len(), usize::from(i == 11), "hop {i}");
    }
    let drift = hops[13].tracks[0].drift.unwrap();
    assert!((drift.rate - rate).abs() < 5.0 * drift.std, "{drift:?}");
    assert!(drift.std < 0.2 * rate, "{drift:?}");
    let ended = &hops[11].ended[0];
    assert_eq!((ended.first, ended.last, ended.hops), (4 * hop, 9 * hop, 6));
    let bursts: Vec<Burst> = hops.iter().flat_map(|h| h.bursts.iter().copied()).collect();
    let long: Vec<&Burst> = bursts.iter().filter(|b| b.length > 300).collect();
    assert_eq!(long.len(), 1, "{bursts:?}");
    assert!(long[0].start.abs_diff(burst.start) < 100, "{bursts:?}");
    assert!((long[0].start + long[0].length).abs_diff(burst.end) < 100, "{bursts:?}");
}

#[test]
fn streams_say_what_is_lost_and_refuse_what_is_no_number() {
    assert!(Stream::new(true, 10).unwrap_err().to_string().contains("hop = 10"));
    let mut stream = Stream::new(true, 4096).unwrap();
    let block: Vec<i16> = (0..3000).map(|t| ((t * 7919) % 201 - 100) as i16).collect();
    assert!(stream.push(&block).unwrap().is_empty());
    stream.lost(500);
    let mut hops = stream.push(&block).unwrap();
    hops.extend(stream.push(&block).unwrap());
    assert_eq!(hops.len(), 1);
    assert_eq!((hops[0].start, hops[0].lost), (3500, 3500));
    let bad = [1.0, f64::NAN];
    let refused = stream.push(&bad).unwrap_err();
    assert!(matches!(refused, Error::NonFinite { index: 9501, .. }), "{refused}");
    assert!(matches!(stream.push(&[1e200]), Err(Error::Overflow { .. })));
}
