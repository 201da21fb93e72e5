//! Sketches: sharded equals single to the last bit; what is lost, doubled or damaged is named.

mod common;

use sparsefft::{
    Algorithm, Complex, Error, Fallback, Noise, Part, Plan, Problem, Samples, Sketch, Sliding,
    Spectrum, Stream, Taper, Verdict, from_fn,
};
use testkit::{Format, Rng, Signal, Source, Tone, generate};

/// A signal with k coefficients and, if asked for, noise at this ratio to the weakest.
fn signal(n: u64, k: u64, db: Option<f64>, real: bool, format: Format, seed: u64) -> Source {
    let mut rng = Rng::new(seed);
    let tones = match real {
        true => generate::conjugate_pairs(&mut rng, n, k / 2),
        false => generate::random(&mut rng, n, k),
    };
    let mut signal = Signal::new(n, tones);
    if real {
        signal = signal.into_real();
    }
    if let Some(db) = db {
        let weakest = signal.tones.iter().map(|t| t.a.norm()).fold(f64::INFINITY, f64::min);
        signal = signal.noise(weakest * 10f64.powf(-db / 20.0), seed);
    }
    signal.format(format).stored(Vec::new())
}

/// A part of a source.
struct Slice<'a> {
    all: &'a dyn Samples,
    part: Part,
}

impl Samples for Slice<'_> {
    fn len(&self) -> u64 {
        self.part.count
    }
    fn is_real(&self) -> bool {
        self.all.is_real()
    }
    fn resolution(&self) -> f64 {
        self.all.resolution()
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        let Part { start, step, .. } = self.part;
        let there: Vec<u64> = indices.iter().map(|i| start + step * i).collect();
        self.all.read(&there, out)
    }
}

fn add(sketch: &mut Sketch, all: &dyn Samples, part: Part) -> Result<(), Error> {
    sketch.add_strided(part.start, part.step, &Slice { all, part })
}

/// Cuts 0..n into this many ranges at random, some of them empty.
fn cut(rng: &mut Rng, n: u64, shards: u64) -> Vec<Part> {
    let mut ends: Vec<u64> = (1..shards).map(|_| rng.below(n + 1)).collect();
    ends.extend([0, n]);
    ends.sort_unstable();
    ends.windows(2).map(|w| Part::range(w[0]..w[1])).collect()
}

fn shuffle<T>(rng: &mut Rng, list: &mut [T]) {
    for i in (1..list.len()).rev() {
        list.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// Everything of an answer but the times.
fn bits(s: &Spectrum) -> (Vec<(u64, u64, u64)>, String, u64) {
    let peaks = s.peaks().iter().map(|p| (p.index, p.value.re.to_bits(), p.value.im.to_bits()));
    (peaks.collect(), format!("{:?}", s.certificate()), s.report().samples_read)
}

fn plan(n: u64, k: u64) -> Plan {
    Plan::new(Problem::new(n).sparsity(k).one_pass()).unwrap()
}

/// Sharded equals single for every length, type, noise, number of shards and order; the stored
/// form carries every other shard. All random signals are certified: over 3000 seeds none was not.
#[test]
fn sharded_equals_single() {
    let mut rng = Rng::new(11);
    let kinds = [
        (1 << 16, Format::F64, false),
        (1 << 16, Format::F32, true),
        (65_537, Format::F32, false),
        (59_049, Format::F64, true),
        (100_001, Format::I16, false),
    ];
    for (i, (n, format, real)) in kinds.into_iter().enumerate() {
        for db in [None, Some(20.0)] {
            let integers = format == Format::I16;
            let scale = if integers { 2000.0 } else { 1.0 };
            let mut tones = generate::random(&mut rng, n, 6);
            if real {
                tones = generate::conjugate_pairs(&mut rng, n, 3);
            }
            let mut s = Signal::new(n, generate::scaled(tones, scale)).format(format);
            if real {
                s = s.into_real();
            }
            if let Some(db) = db {
                let rms = s.rms_tone();
                s = s.noise(rms * 10f64.powf(-db / 20.0), i as u64);
            }
            let source = s.stored(Vec::new());
            let plan = plan(n, 6);
            common::with_samples(&source, |x| {
                let whole = plan.transform(&x).unwrap();
                assert!(whole.certificate().is_certified(), "{n}: {}", whole.certificate());
                assert_eq!(whole.peaks().len(), 6);
                let single = bits(&whole);
                for shards in [1, 2, 3, 10, 100, 1000] {
                    let mut parts = cut(&mut rng, n, shards);
                    shuffle(&mut rng, &mut parts);
                    let mut sketches: Vec<Sketch> = parts
                        .iter()
                        .map(|&part| {
                            let mut sketch = plan.sketch().unwrap();
                            add(&mut sketch, x, part).unwrap();
                            sketch
                        })
                        .collect();
                    while sketches.len() > 1 {
                        let i = rng.below(sketches.len() as u64) as usize;
                        let other = sketches.swap_remove(i);
                        let j = rng.below(sketches.len() as u64) as usize;
                        if rng.below(8) == 0 {
                            sketches[j].merge_bytes(&other.to_bytes()).unwrap();
                        } else {
                            sketches[j].merge(&other).unwrap();
                        }
                    }
                    assert_eq!(bits(&sketches[0].finish().unwrap()), single, "{n} {shards}");
                }
            });
        }
    }
}

#[test]
fn strided_parts_are_parts() {
    let n = 1 << 15;
    let source = signal(n, 5, Some(20.0), false, Format::F64, 3);
    common::with_samples(&source, |x| {
        let plan = plan(n, 5);
        let mut sketch = plan.sketch().unwrap();
        for r in [4, 0, 3, 1, 2] {
            let count = (20_000u64 - r).div_ceil(5);
            add(&mut sketch, x, Part { start: r, step: 5, count }).unwrap();
        }
        let step0 = sketch.add_strided(0, 0, &[1.0f64]);
        assert!(matches!(step0, Err(Error::InvalidOption { name: "step", .. })));
        let twice = add(&mut sketch, x, Part { start: 19_990, step: 20, count: 3 });
        let Err(Error::SeenTwice(twice)) = twice else { panic!("{twice:?}") };
        assert_eq!(twice, [Part { start: 19_990, step: 1, count: 1 }]);
        add(&mut sketch, x, Part::range(20_000..n)).unwrap();
        assert_eq!(bits(&sketch.finish().unwrap()), bits(&plan.transform(&x).unwrap()));
    });
}

/// No read leaves the menu, whatever the signal is: dense, empty, a single click, too many tones.
#[test]
fn nothing_outside_the_menu_is_read() {
    let mut rng = Rng::new(5);
    for n in [1u64 << 14, 1 << 18, 10_007, 3 * 5 * 7 * 11 * 13, 600, 100] {
        for k in [1, 7, 40] {
            for noise in [Noise::Exact, Noise::Unknown, Noise::Snr(-10.0), Noise::Snr(25.0)] {
                let problem = Problem::new(n).sparsity(k).noise(noise).seed(n).one_pass();
                let Ok(plan) = Plan::new(problem) else {
                    let hard = k >= 7 || noise == Noise::Snr(-10.0);
                    assert!(n < 20_000 && hard, "n = {n} and k = {k} must be planned");
                    continue;
                };
                let sparse = |k: u64| Signal::new(n, generate::random(&mut Rng::new(k), n, k));
                let pairs = generate::colliding_pairs(&mut rng, n, 3);
                let signals = [
                    sparse(1),
                    sparse(k),
                    sparse(2 * k),
                    sparse((20 * k).min(n / 2)),
                    sparse(k).noise(0.1, 1),
                    sparse(k).noise(3.0, 1),
                    Signal::new(n, pairs).noise(0.001, 2),
                    Signal::new(n, vec![]).noise(1.0, 2),
                    Signal::impulses(n, vec![(n / 3, Complex::new(1.0, 0.0))]),
                ];
                for s in signals {
                    let mut sketch = plan.sketch().unwrap();
                    sketch.add(0, &s.samples()).unwrap();
                    // A read outside of the menu would be the error NotKept.
                    let spectrum = sketch.finish().unwrap();
                    assert!(spectrum.peaks().len() as u64 <= k);
                    let truth: Vec<u64> = s.truth().iter().map(|t| t.f).collect();
                    let certificate = spectrum.certificate();
                    let sure = certificate.verdict == Verdict::Certified;
                    if sure && s.sparse && truth.len() as u64 <= k {
                        let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
                        let what = format!("n = {n}, k = {k}, {noise:?}: {found:?} of {truth:?}");
                        assert!(found.iter().all(|f| truth.contains(f)), "{what}: {certificate}");
                    } else if !certificate.is_reliable() {
                        assert!(certificate.reason.is_some());
                    }
                }
            }
        }
    }
}

/// k is an upper bound: fewer coefficients in noise are certified, and none too.
#[test]
fn k_is_an_upper_bound() {
    let n = 1 << 18;
    let tones: Vec<Tone> = generate::equal(&mut Rng::new(8), n, 4);
    let plan = plan(n, 30);
    let s = Signal::new(n, tones).noise(0.1, 4);
    let mut sketch = plan.sketch().unwrap();
    sketch.add(0, &s.samples()).unwrap();
    let spectrum = sketch.finish().unwrap();
    assert!(spectrum.certificate().is_certified(), "{}", spectrum.certificate());
    let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
    assert_eq!(found, s.truth().iter().map(|t| t.f).collect::<Vec<_>>());
    // More than k: the k largest or a call for a second pass, never a wrong answer.
    let many = Signal::new(n, generate::equal(&mut Rng::new(8), n, 3000));
    let mut sketch = plan.sketch().unwrap();
    sketch.add(0, &many.samples()).unwrap();
    let spectrum = sketch.finish().unwrap();
    let certificate = spectrum.certificate();
    assert!(!certificate.is_reliable());
    assert!(certificate.reason.as_ref().unwrap().contains("second pass"), "{certificate}");
}

#[test]
fn lengths_beyond_memory_and_tapers() {
    let n = 1u64 << 40;
    let s = Signal::new(n, generate::random(&mut Rng::new(2), n, 5)).noise(0.05, 1).lazy();
    let computed = common::Computed::new(&s);
    let plan = plan(n, 5);
    let mut sketch = plan.sketch().unwrap();
    sketch.add(0, &computed).unwrap();
    assert!(sketch.kept() < 40_000 && sketch.kept() as u64 <= menu_samples(&plan));
    assert!(sketch.to_bytes().len() < 1 << 20);
    let spectrum = sketch.finish().unwrap();
    assert!(spectrum.certificate().is_certified(), "{}", spectrum.certificate());
    let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
    assert_eq!(found, s.signal().truth().iter().map(|t| t.f).collect::<Vec<_>>());
    let problem = Problem::new(4096).sparsity(9).taper(Taper::Hann).one_pass();
    let plan = Plan::new(problem).unwrap();
    let x = Signal::new(4096, generate::random(&mut Rng::new(1), 4096, 3)).samples();
    let mut sketch = plan.sketch().unwrap();
    sketch.add(0, &x).unwrap();
    let back = Sketch::from_bytes(&sketch.to_bytes()).unwrap();
    assert_eq!(bits(&back.finish().unwrap()), bits(&plan.transform(&x).unwrap()));
}

fn menu_samples(plan: &Plan) -> u64 {
    match &plan.recipe().method {
        sparsefft::Method::Peel(peeling) => peeling.menu.as_ref().unwrap().samples,
        other => panic!("{other:?}"),
    }
}

/// The stored form is the narrowest that is exact, and gives back the same sketch.
#[test]
fn the_stored_form_is_narrow_and_exact() {
    let n = 1u64 << 16;
    let plan = plan(n, 4);
    let size = |samples: &dyn Samples| {
        let mut sketch = plan.sketch().unwrap();
        sketch.add(0, &samples).unwrap();
        let bytes = sketch.to_bytes();
        let back = Sketch::from_bytes(&bytes).unwrap();
        assert_eq!(back.to_bytes(), bytes);
        assert_eq!((back.seen(), back.kept(), back.is_complete()), (n, sketch.kept(), true));
        (bytes.len() as f64 / sketch.kept() as f64).floor()
    };
    let t = |f: fn(u64) -> f64| (0..n).map(f).collect::<Vec<f64>>();
    assert_eq!(size(&t(|t| (t % 200) as f64 - 100.0)), 1.0);
    assert_eq!(size(&t(|t| (t % 255) as f64)), 1.0);
    assert_eq!(size(&t(|t| (t % 500) as f64 - 100.0)), 2.0);
    assert_eq!(size(&t(|t| (t % 500) as f64 * 0.25)), 4.0);
    assert_eq!(size(&t(|t| t as f64 * 40_000.0 - 1e9 - 1.0)), 4.0);
    assert_eq!(size(&t(|t| (t as f64).sin())), 8.0);
    let z: Vec<Complex<f32>> = (0..n).map(|t| Complex::cis(t as f32)).collect();
    assert_eq!(size(&z), 8.0);
    // So does one that holds nothing yet, and one with few values of many.
    for seen in [0, 1, 300] {
        let mut sketch = plan.sketch().unwrap();
        sketch.add(5, &vec![1.0; seen]).unwrap();
        let back = Sketch::from_bytes(&sketch.to_bytes()).unwrap();
        assert_eq!((back.seen(), back.kept()), (seen as u64, sketch.kept()));
    }
    // And one that holds more values than 2^22 / 256.
    let many = self::plan(1 << 20, 4000);
    let mut sketch = many.sketch().unwrap();
    sketch.add(0, &vec![1.0; 1 << 20]).unwrap();
    assert!(sketch.kept() > 1 << 14, "{}", sketch.kept());
    assert_eq!(Sketch::from_bytes(&sketch.to_bytes()).unwrap().kept(), sketch.kept());
    // -0.0, infinities and NaN come back as they were.
    let odd = [-0.0, f64::NAN, f64::INFINITY, 1e-320];
    let x: Vec<f64> = (0..n).map(|t| odd[t as usize % 4]).collect();
    assert_eq!(size(&x), 8.0);
}

#[test]
fn damage_and_other_plans_are_refused_by_name() {
    let n = 1u64 << 12;
    let x: Vec<f32> = (0..n).map(|t| (t as f32 * 0.1).sin()).collect();
    let make = |problem: Problem, from: u64, to: u64| {
        let mut sketch = Plan::new(problem).unwrap().sketch().unwrap();
        sketch.add(from, &x[from as usize..to as usize]).unwrap();
        sketch
    };
    let base = || Problem::new(n).sparsity(5).one_pass();
    let mut ours = make(base(), 0, 2000);
    let before = ours.to_bytes();
    let others = [
        (Problem::new(2 * n).sparsity(5).one_pass(), "n"),
        (Problem::new(n).sparsity(6).one_pass(), "k"),
        (base().seed(1), "the seed"),
        (base().noise(Noise::Snr(20.0)), "the noise"),
        (base().tolerance(1e-3), "the tolerance"),
        (base().failure_probability(1e-3), "the failure probability"),
        (base().algorithm(Algorithm::Robust), "the algorithm"),
        (base().taper(Taper::Kaiser(3.0)), "the taper"),
    ];
    for (problem, name) in others {
        let other = make(problem, 2000, n);
        for outcome in [ours.merge(&other), ours.merge_bytes(&other.to_bytes())] {
            let Err(Error::OtherSketch { what, .. }) = &outcome else { panic!("{outcome:?}") };
            assert_eq!(*what, name);
        }
    }
    let mut real = Plan::new(base()).unwrap().sketch().unwrap();
    real.add(3000, &[Complex::new(1.0f32, 2.0)]).unwrap();
    let error = ours.merge(&real).unwrap_err().to_string();
    assert!(error.contains("real") && error.contains("complex"), "{error}");
    let mut integers = Plan::new(base()).unwrap().sketch().unwrap();
    integers.add(3000, &[1i16, 2]).unwrap();
    assert!(matches!(ours.merge(&integers), Err(Error::OtherSketch { .. })));

    let mut good = make(base(), 2000, n);
    let mut named = ours.clone();
    named.set_label("a");
    good.set_label("b");
    assert!(matches!(named.merge(&good), Err(Error::OtherSketch { what: "the label", .. })));
    let good = good.to_bytes();
    let refused = |ours: &mut Sketch, bytes: &[u8]| match ours.merge_bytes(bytes) {
        Err(Error::DamagedSketch(_) | Error::OtherSketch { .. }) => {}
        other => panic!("{other:?}"),
    };
    for end in 0..good.len() {
        refused(&mut ours, &good[..end]);
    }
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        refused(&mut ours, &bad);
    }
    let mut longer = good.clone();
    longer.push(0);
    refused(&mut ours, &longer);
    // A well-summed sketch that lies about its parts.
    let mut liar = good.clone();
    let sum = liar.len() - 4;
    let at = liar.windows(8).position(|w| w == (2000u64).to_le_bytes()).unwrap();
    liar[at..at + 8].copy_from_slice(&3000u64.to_le_bytes());
    let crc = crc32(&liar[..sum]);
    liar[sum..].copy_from_slice(&crc.to_le_bytes());
    refused(&mut ours, &liar);
    let mut newer = good.clone();
    newer[8] = 9;
    let error = ours.merge_bytes(&newer).unwrap_err().to_string();
    assert!(error.contains("version") && error.contains('9'), "{error}");
    assert_eq!(ours.to_bytes(), before, "something was merged");
    ours.merge_bytes(&good).unwrap();
    assert!(ours.is_complete() && ours.is_real() && ours.label() == "b");
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| (c >> 1) ^ (0xEDB8_8320 & (c & 1).wrapping_neg()))
    })
}

#[test]
fn gaps_and_overlaps_are_listed() {
    let n = 10_000;
    let plan = plan(n, 3);
    let x = vec![1.0f64; n as usize];
    let mut sketch = plan.sketch().unwrap();
    sketch.add(100, &x[..900]).unwrap();
    sketch.add(5000, &x[..1000]).unwrap();
    let error = sketch.finish().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("0..100, 1000..5000, 6000..10000"), "{text}");
    assert!(matches!(error, Error::Incomplete { missing: 8100, n: 10_000, .. }));
    let before = sketch.to_bytes();
    let text = sketch.add(900, &x[..4200]).unwrap_err().to_string();
    assert!(text.contains("900..1000, 5000..5100"), "{text}");
    assert!(matches!(sketch.add(9000, &x[..1001]), Err(Error::RangeOutside { end: 10_001, .. })));
    // A source that fails leaves nothing behind.
    let broken = from_fn(50, |_| Err(Error::Source("gone".into())));
    assert_eq!(sketch.add(0, &broken.real()), Err(Error::Source("gone".into())));
    assert_eq!(sketch.to_bytes(), before);
}

#[test]
fn what_one_pass_cannot_do_is_refused() {
    let words = |problem: Problem| Plan::new(problem).map(|p| p.sketch().map(|_| ())).unwrap_err();
    assert!(words(Problem::new(1 << 20).one_pass()).to_string().contains("give k"));
    let vote = Problem::new(1 << 20).sparsity(5).algorithm(Algorithm::Vote).one_pass();
    assert!(words(vote).to_string().contains("auto, exact or robust"));
    let dense = Problem::new(1 << 20).sparsity(5).one_pass().fallback(Fallback::Dense);
    assert!(words(dense).to_string().contains("Fallback::Never"));
    assert!(matches!(
        Plan::new(Problem::new(1000).sparsity(900).one_pass()),
        Err(Error::NotSparse { .. })
    ));
    let ordinary = Plan::new(Problem::new(1 << 20).sparsity(5)).unwrap();
    assert!(matches!(ordinary.sketch(), Err(Error::Unsupported { algorithm: "sketch", .. })));
    let huge = Plan::new(Problem::new(1 << 45).sparsity(1 << 24).one_pass()).unwrap();
    assert!(huge.sketch().unwrap_err().to_string().contains("smaller k"));
    // Short signals are kept whole.
    let plan = plan(100, 3);
    assert_eq!(plan.sketch().unwrap().capacity(), 100);
}

#[test]
fn the_plan_says_what_one_pass_costs() {
    let text = plan(1 << 22, 50).to_string();
    assert!(text.contains("one pass: 2 attempts, a comb of 1024 bins"), "{text}");
    assert!(text.contains("second pass"), "{text}");
    let indices: Vec<u64> = plan(1 << 22, 50).sample_indices().collect();
    assert!(indices.is_sorted() && indices.len() < 40_000);
    // No term in n beyond the logarithm.
    let size = |bits: u32| plan(1 << bits, 50).sketch().unwrap().capacity();
    assert!(size(44) < 3 * size(22), "{} {}", size(44), size(22));
}

#[test]
fn streams_take_blocks_of_any_size() {
    let n = 1 << 16;
    let source = signal(n, 6, Some(20.0), true, Format::F32, 9);
    let Source::R32(x) = &source else { panic!() };
    let plan = plan(n, 6);
    let single = bits(&plan.transform(x).unwrap());
    let mut rng = Rng::new(1);
    for most in [1000u64, 70_000] {
        let mut stream = Stream::new(&plan).unwrap();
        let mut rest = &x[..];
        while !rest.is_empty() {
            let (block, later) = rest.split_at(rng.below(most).min(rest.len() as u64) as usize);
            assert!(matches!(stream.finish(), Err(Error::Incomplete { .. })));
            stream.push(block).unwrap();
            rest = later;
            assert_eq!(stream.received() + stream.remaining(), n);
        }
        assert!(matches!(stream.push(&[0f32]), Err(Error::RangeOutside { .. })));
        assert_eq!(bits(&stream.finish().unwrap()), single);
    }
}

#[test]
fn every_hop_has_its_peaks() {
    let n = 4096u64;
    let plan = plan(n, 3);
    // The tone moves by one bin every n samples.
    let tone =
        |t: u64| Complex::cis(std::f64::consts::TAU * (t % n * (40 + t / n) % n) as f64 / n as f64);
    let x: Vec<_> = (0..6 * n).map(tone).collect();
    for (hop, most) in [(n, 5000), (1024, 999), (1000, 20_000), (7000, 333)] {
        let mut sliding = Sliding::new(&plan, hop).unwrap();
        let mut rng = Rng::new(hop);
        let mut found = Vec::new();
        let mut rest = &x[..];
        while !rest.is_empty() {
            let (block, later) = rest.split_at(rng.below(most).min(rest.len() as u64) as usize);
            found.extend(sliding.push(block).unwrap());
            rest = later;
        }
        let starts: Vec<u64> = (0..=5 * n).step_by(hop as usize).collect();
        assert_eq!(found.iter().map(|(s, _)| *s).collect::<Vec<_>>(), starts);
        for (start, spectrum) in &found {
            let window = &x[*start as usize..(*start + n) as usize];
            assert_eq!(bits(spectrum), bits(&plan.transform(window).unwrap()));
            if start % n == 0 {
                assert_eq!(spectrum.peaks()[0].index, 40 + start / n);
            }
        }
    }
    assert!(matches!(Sliding::new(&plan, 0), Err(Error::InvalidOption { name: "hop", .. })));
}

/// Thousands of shards through a tree of stored sketches: equal to one pass, and any lost shard is
/// named exactly.
#[test]
fn a_tree_over_thousands_of_shards() {
    let n = 1u64 << 30;
    let s = Signal::new(n, generate::random(&mut Rng::new(4), n, 8)).noise(0.01, 7).lazy();
    let computed = common::Computed::new(&s);
    let plan = plan(n, 8);
    let mut rng = Rng::new(77);
    let parts = cut(&mut rng, n, 4000);
    let leaves: Vec<Vec<u8>> = parts
        .iter()
        .map(|&part| {
            let mut sketch = plan.sketch().unwrap();
            add(&mut sketch, &computed, part).unwrap();
            sketch.to_bytes()
        })
        .collect();
    let tree = |lost: &[usize]| {
        let keep = leaves.iter().enumerate().filter(|(i, _)| !lost.contains(i));
        let mut level: Vec<Vec<u8>> = keep.map(|(_, bytes)| bytes.clone()).collect();
        while level.len() > 1 {
            let merge = |group: &[Vec<u8>]| {
                let mut sketch = plan.sketch().unwrap();
                group.iter().for_each(|bytes| sketch.merge_bytes(bytes).unwrap());
                sketch.to_bytes()
            };
            level = level.chunks(16).map(merge).collect();
        }
        Sketch::from_bytes(&level[0]).unwrap()
    };
    let whole = tree(&[]);
    let mut single = plan.sketch().unwrap();
    single.add(0, &computed).unwrap();
    assert_eq!(whole.to_bytes(), single.to_bytes());
    let spectrum = whole.finish().unwrap();
    assert!(spectrum.certificate().is_certified(), "{}", spectrum.certificate());
    let found: Vec<u64> = spectrum.peaks().iter().map(|p| p.index).collect();
    assert_eq!(found, s.signal().truth().iter().map(|t| t.f).collect::<Vec<_>>());
    let lost: Vec<usize> = (0..5).map(|i| 100 + 700 * i).collect();
    let ranges: Vec<_> = lost
        .iter()
        .map(|&i| parts[i].start..parts[i].start + parts[i].count)
        .filter(|r| !r.is_empty())
        .collect();
    let gaps: Vec<_> = tree(&lost).missing().into_iter().map(|g| g.range).collect();
    assert_eq!(gaps, ranges);
}

/// A few bytes, well summed, that speak of a signal and a number of coefficients that they cannot hold.
#[test]
fn few_bytes_do_not_ask_for_gigabytes() {
    let plan = Plan::new(Problem::new(1 << 16).sparsity(20).one_pass()).unwrap();
    let mut sketch = plan.sketch().unwrap();
    sketch.add(0, &vec![3.0f64; 1 << 16]).unwrap();
    let good = sketch.to_bytes();
    let (own, kept) = (sketch.capacity() as u64, sketch.kept());
    let with = |k: u64, n: u64, wanted: u64| {
        let mut bytes = good.clone();
        bytes[12..20].copy_from_slice(&n.to_le_bytes());
        bytes[20..28].copy_from_slice(&k.to_le_bytes());
        let at = 8 + 4 + 3 * 8 + 9 + 2 * 8 + 1 + 9;
        assert_eq!(bytes[at..at + 8], own.to_le_bytes());
        bytes[at..at + 8].copy_from_slice(&wanted.to_le_bytes());
        let sum = bytes.len() - 4;
        let crc = crc32(&bytes[..sum]);
        bytes[sum..].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    assert!(Sketch::from_bytes(&with(20, 1 << 16, own)).is_ok());
    // So many samples that the list of them would be seen in the memory of this process.
    for (k, wanted) in [(1 << 20, 0), (1 << 20, 1 << 24), (1 << 22, 1 << 26)] {
        let error = Sketch::from_bytes(&with(k, 1 << 52, wanted)).unwrap_err();
        assert!(matches!(error, Error::DamagedSketch(_)), "{error}");
        assert!(error.to_string().contains("its plan may keep"), "{error}");
        // With a plan at hand the difference is named without making the other.
        let error = sketch.merge_bytes(&with(k, 1 << 52, wanted)).unwrap_err();
        assert!(matches!(error, Error::OtherSketch { what: "n", .. }), "{error}");
    }
    let error = Sketch::from_bytes(&with(20, 1 << 16, 1 << 40)).unwrap_err();
    assert!(matches!(error, Error::OtherSketch { what: "the menu", .. }), "{error}");
    // Nor do values that are not there.
    let mut bytes = with(20, 1 << 16, own);
    let at = bytes.len() - 4 - kept - 8;
    assert_eq!(bytes[at..at + 8], (kept as u64).to_le_bytes());
    bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let sum = bytes.len() - 4;
    let crc = crc32(&bytes[..sum]);
    bytes[sum..].copy_from_slice(&crc.to_le_bytes());
    let error = Sketch::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("as many as it says"), "{error}");
}
