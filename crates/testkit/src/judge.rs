//! The judge: is the answer right, and what did its certificate say?
//!
//! **Exactly sparse signals.** Right means: the support is that of the truth and every value is
//! within [`tolerance::EXACT`]. **In noise**: every true tone is there, no other is, and every value
//! is within [`tolerance::noisy`].
//!
//! - k asked is larger than the truth: further coefficients may be returned, but none above what
//!   noise (or rounding) makes, since the true ones are that small.
//! - k asked is smaller: the k largest must be returned; where several are equal up to the
//!   tolerance, any of them.
//! - Neither k nor the level of the noise was told: a tone below the certificate's detection
//!   limit may be missing, for nobody can say where the tones end and the noise begins.
//!
//! **Signals that are not sparse** (off-grid tones, white spectra, single impulses): the truth is
//! the dense FFT of the samples. Right means that every claim of the certificate holds: no
//! coefficient above the detection limit is missing, the values are right to that limit, and a
//! dense answer has the k largest of the dense FFT, to rounding.
//!
//! Answers that are malformed (unsorted, repeated or out of range, not finite, more than k) are
//! wrong whatever else they are.

use crate::signal::{Signal, Tone};
use crate::{C64, oracle, tolerance};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// What the transform was told about the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoiseHint {
    /// There is none.
    Exact,
    /// The weakest tone has this signal-to-noise ratio, in dB.
    Snr(f64),
    /// Nothing.
    Unknown,
}

/// What the transform was asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// How many coefficients; `None`: find out.
    pub k: Option<u64>,
    /// What is known about the noise.
    pub noise: NoiseHint,
}

/// What a transform returned, in the kit's own terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// (f, X\[f\]), as returned.
    pub peaks: Vec<(u64, C64)>,
    /// Whether the answer claims to be reliable.
    pub certified: bool,
    /// Whether it is a dense transform.
    pub dense: bool,
    /// Coefficients that were found and are not among the k that were asked for.
    pub left_out: u64,
    /// The certificate's detection limit, an amplitude.
    pub detection_limit: f64,
    /// Samples read.
    pub samples_read: u64,
    /// Samples that the values rest on, weighed as the algorithm weighs them: what a mean of that
    /// many would tell as well. Those read, where all weigh the same.
    pub informing: u64,
    /// Attempts made.
    pub attempts: u32,
    /// Time of the transform.
    pub elapsed: Duration,
    /// The indices read, where they were recorded.
    pub read: Vec<u64>,
}

/// The four cases. Only the last breaks the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Judgement {
    /// Right, and says so.
    RightCertified,
    /// Right, but not sure of it.
    RightUncertified,
    /// Wrong, and says that it may be.
    WrongUncertified,
    /// Wrong, and claims to be right.
    WrongCertified,
}

impl Judgement {
    fn new(right: bool, certified: bool) -> Self {
        match (right, certified) {
            (true, true) => Judgement::RightCertified,
            (true, false) => Judgement::RightUncertified,
            (false, false) => Judgement::WrongUncertified,
            (false, true) => Judgement::WrongCertified,
        }
    }

    /// Whether the answer is right.
    pub fn is_right(self) -> bool {
        matches!(self, Judgement::RightCertified | Judgement::RightUncertified)
    }
}

/// A judgement with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// Which of the four.
    pub judgement: Judgement,
    /// True coefficients that had to be returned and were not.
    pub missing: usize,
    /// Returned coefficients that had no right to be.
    pub extra: usize,
    /// Returned coefficients whose value is off.
    pub off: usize,
    /// Largest error of a value, in units of the rms amplitude.
    pub max_error: f64,
    /// Rms error of the amplitudes in units of σ/√(samples read); `None` without noise.
    pub noise_ratio: Option<f64>,
    /// Wrong and certified, but every sample that was read agrees with the answer: what is wrong
    /// lies in samples that nobody looked at. No method that reads less than the whole signal can
    /// know; the certificate's words cover signals that are the same everywhere, tones and noise.
    pub unseen: bool,
    /// The first things that were wrong, in words; empty if right.
    pub why: Vec<String>,
}

impl Opinion {
    fn blank() -> Self {
        Opinion {
            judgement: Judgement::RightCertified,
            missing: 0,
            extra: 0,
            off: 0,
            max_error: 0.0,
            noise_ratio: None,
            unseen: false,
            why: Vec::new(),
        }
    }

    fn complain(&mut self, what: String) {
        const SHOWN: usize = 4;
        if self.why.len() < SHOWN {
            self.why.push(what);
        }
    }

    fn finish(mut self, malformed: bool, certified: bool) -> Self {
        let right = !malformed && self.missing == 0 && self.extra == 0 && self.off == 0;
        self.judgement = Judgement::new(right, certified);
        self
    }
}

impl fmt::Display for Opinion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {} missing, {} extra, {} off, max error {:.1e}",
            self.judgement, self.missing, self.extra, self.off, self.max_error
        )?;
        for w in &self.why {
            write!(f, "; {w}")?;
        }
        Ok(())
    }
}

/// Judges an answer.
pub fn judge(signal: &Signal, asked: &Asked, answer: &Answer) -> Opinion {
    // Noise without tones: "nothing" is right, and if k is given, so are the largest coefficients of
    // the noise above the limit that is stated.
    let nothing = signal.tones.is_empty() && signal.sigma > 0.0 && asked.k.is_some_and(|k| k > 0);
    let mut opinion = if signal.sparse && !nothing {
        judge_sparse(signal, asked, answer)
    } else {
        judge_dense(signal, &oracle::dense(&signal.samples()), asked, answer)
    };
    if opinion.judgement == Judgement::WrongCertified && !answer.read.is_empty() {
        opinion.unseen = agrees(signal, answer);
    }
    opinion
}

/// Whether the answer explains every sample that was read, to rounding.
fn agrees(signal: &Signal, answer: &Answer) -> bool {
    let n = signal.n;
    let tones = answer.peaks.iter().map(|&(f, v)| Tone { f, a: v / n as f64 }).collect();
    let model = Signal::new(n, tones).lazy();
    let truth = signal.clone().lazy();
    let scale = tolerance::EXACT * answer.peaks.iter().map(|p| p.1.norm() / n as f64).sum::<f64>();
    answer.read.iter().all(|&t| !beyond((truth.at(t) - model.at(t)).norm(), scale))
}

/// Whether an error exceeds its bound; NaN does.
fn beyond(error: f64, bound: f64) -> bool {
    error.is_nan() || error > bound
}

/// Checks the form; returns whether it is bad.
fn malformed(n: u64, asked: &Asked, answer: &Answer, opinion: &mut Opinion) -> bool {
    let mut bad = false;
    let mut complain = |what: String| {
        opinion.complain(what);
        bad = true;
    };
    if let Some(w) = answer.peaks.windows(2).find(|w| w[0].0 >= w[1].0) {
        complain(format!("indices {} and {} out of order", w[0].0, w[1].0));
    }
    for (f, v) in &answer.peaks {
        if *f >= n || !v.re.is_finite() || !v.im.is_finite() {
            complain(format!("X[{f}] = {v} with n = {n}"));
        }
    }
    if asked.k.is_some_and(|k| answer.peaks.len() as u64 > k) {
        complain(format!("{} peaks where {:?} were asked for", answer.peaks.len(), asked.k));
    }
    if answer.certified && !(answer.detection_limit >= 0.0 && answer.detection_limit.is_finite()) {
        complain(format!("detection limit {}", answer.detection_limit));
    }
    bad
}

fn judge_sparse(signal: &Signal, asked: &Asked, answer: &Answer) -> Opinion {
    let mut opinion = Opinion::blank();
    let bad = malformed(signal.n, asked, answer, &mut opinion);
    let n = signal.n as f64;
    let truth: Vec<Tone> = signal.truth();
    let rms =
        (truth.iter().map(|t| t.a.norm_sqr()).sum::<f64>() / truth.len().max(1) as f64).sqrt();
    let sigma = signal.sigma_total();
    let m = answer.informing.clamp(1, signal.n) as f64;
    let bound = |a: f64| {
        let exact = tolerance::EXACT * a.max(rms);
        exact.max(tolerance::noisy(sigma, m, truth.len() as f64))
    };
    // Among coefficients that were picked because they are large, the largest of all n decides.
    let negligible = (tolerance::EXACT * rms).max(tolerance::noisy(sigma, m, n));

    let found: HashMap<u64, C64> = answer.peaks.iter().map(|&(f, v)| (f, v / n)).collect();
    let wanted = asked.k.map_or(truth.len(), |k| k as usize);
    // All of the truth, or the largest: nothing below `cut` (less the tolerance) may be there,
    // nothing above it (plus the tolerance) may be missing.
    let cut = if wanted >= truth.len() {
        None
    } else {
        let mut sizes: Vec<f64> = truth.iter().map(|t| t.a.norm()).collect();
        sizes.sort_unstable_by(|a, b| b.total_cmp(a));
        Some(if wanted == 0 { f64::INFINITY } else { sizes[wanted - 1] })
    };
    // k is an upper bound: what noise hides need not be there, unless its level was declared.
    let blind = asked.noise == NoiseHint::Unknown && sigma > 0.0;

    let mut squares = 0.0;
    let mut matched = 0usize;
    for t in &truth {
        let a = t.a.norm();
        let slack = 2.0 * bound(a);
        match found.get(&t.f) {
            Some(v) => {
                let error = (v - t.a).norm();
                squares += error * error;
                matched += 1;
                opinion.max_error = opinion.max_error.max(error / rms);
                if beyond(error, bound(a)) {
                    opinion.off += 1;
                    let (got, bound) = (*v, bound(a));
                    opinion.complain(format!(
                        "f = {}: amplitude {got} instead of {}, error {error:.2e} > {bound:.2e}",
                        t.f, t.a
                    ));
                }
                if cut.is_some_and(|cut| a < cut - slack) {
                    opinion.extra += 1;
                    opinion.complain(format!("f = {}: not among the {wanted} largest", t.f));
                }
            }
            None => {
                let hidden = blind && a <= answer.detection_limit;
                let required = !hidden && cut.is_none_or(|cut| a > cut + slack);
                if required {
                    opinion.missing += 1;
                    opinion.complain(format!("f = {}: missing, amplitude {a:.3e}", t.f));
                }
            }
        }
    }
    if cut.is_some_and(|cut| !(blind && cut <= answer.detection_limit))
        && answer.peaks.len() < wanted
    {
        opinion.missing = opinion.missing.max(wanted - answer.peaks.len());
        opinion.complain(format!("{} peaks instead of {wanted}", answer.peaks.len()));
    }
    let true_ones: HashSet<u64> = truth.iter().map(|t| t.f).collect();
    for (f, v) in answer.peaks.iter().filter(|p| !true_ones.contains(&p.0)) {
        let a = v.norm() / n;
        if wanted <= truth.len() || beyond(a, negligible) {
            opinion.extra += 1;
            opinion.complain(format!("f = {f}: extra, amplitude {a:.3e}"));
        }
    }
    if sigma > 0.0 && matched > 0 {
        opinion.noise_ratio = Some((squares / matched as f64).sqrt() / (sigma / m.sqrt()));
    }
    opinion.finish(bad, answer.certified)
}

/// Judges an answer by the claims of its certificate, against the dense spectrum.
pub fn judge_dense(signal: &Signal, spectrum: &[C64], asked: &Asked, answer: &Answer) -> Opinion {
    let mut opinion = Opinion::blank();
    let bad = malformed(signal.n, asked, answer, &mut opinion);
    let n = signal.n as f64;
    let total = tolerance::norm(spectrum) / n;
    let rounding = 4.0 * tolerance::dense(spectrum.len()) * total;
    let limit = if answer.detection_limit.is_finite() { answer.detection_limit } else { 0.0 };
    let allowed = if answer.dense { rounding } else { rounding.max(limit) };

    let energy: f64 = answer.peaks.iter().map(|p| p.1.norm_sqr()).sum();
    let rms = (energy / answer.peaks.len().max(1) as f64).sqrt() / n;
    let mut found = HashSet::new();
    for &(f, v) in &answer.peaks {
        if f >= signal.n {
            continue;
        }
        found.insert(f);
        let error = (v - spectrum[f as usize]).norm() / n;
        opinion.max_error = opinion.max_error.max(error / rms);
        if beyond(error, allowed) {
            opinion.off += 1;
            opinion.complain(format!("f = {f}: error {error:.2e} > {allowed:.2e}"));
        }
    }
    // The k-th largest is the cut where k were returned; else the detection limit is.
    let full = asked.k.is_some_and(|k| answer.peaks.len() as u64 >= k);
    let cut = if full {
        let mut sizes: Vec<f64> = spectrum.iter().map(|v| v.norm() / n).collect();
        sizes.sort_unstable_by(|a, b| b.total_cmp(a));
        let k = asked.k.unwrap_or(0) as usize;
        if k == 0 { f64::INFINITY } else { sizes[k - 1] }
    } else {
        limit
    };
    for (f, v) in (0..).zip(spectrum) {
        let a = v.norm() / n;
        if a > cut + 2.0 * allowed && !found.contains(&f) {
            opinion.missing += 1;
            opinion.complain(format!("f = {f}: missing, amplitude {a:.3e} above {cut:.3e}"));
        }
        if full && a < cut - 2.0 * allowed && found.contains(&f) {
            opinion.extra += 1;
            opinion.complain(format!("f = {f}: amplitude {a:.3e} below the cut {cut:.3e}"));
        }
    }
    opinion.finish(bad, answer.certified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, generate};

    fn perfect(signal: &Signal, k: Option<u64>) -> Answer {
        let mut tones = signal.truth();
        tones.sort_by(|a, b| b.a.norm().total_cmp(&a.a.norm()));
        tones.truncate(k.unwrap_or(u64::MAX).min(tones.len() as u64) as usize);
        tones.sort_by_key(|t| t.f);
        Answer {
            peaks: tones.iter().map(|t| (t.f, t.a * signal.n as f64)).collect(),
            certified: true,
            dense: false,
            left_out: 0,
            detection_limit: 1e-12,
            samples_read: 1000,
            informing: 1000,
            attempts: 1,
            elapsed: Duration::ZERO,
            read: Vec::new(),
        }
    }

    fn exact(k: Option<u64>) -> Asked {
        Asked { k, noise: NoiseHint::Unknown }
    }

    #[test]
    fn perfect_answers_are_right_and_spoilt_ones_wrong() {
        let signal = Signal::new(1 << 20, generate::random(&mut Rng::new(31), 1 << 20, 20));
        let asked = exact(Some(20));
        let good = perfect(&signal, Some(20));
        let verdict = |a: &Answer| judge(&signal, &asked, a).judgement;
        assert_eq!(verdict(&good), Judgement::RightCertified);

        let spoil: [fn(&mut Answer); 7] = [
            |a| _ = a.peaks.pop(),
            |a| a.peaks[3].0 += 1,
            |a| a.peaks[3].1 *= 1.0 + 1e-6,
            |a| a.peaks[3].1.re = f64::NAN,
            |a| a.peaks.swap(0, 1),
            |a| a.peaks.push((u64::MAX, C64::ONE)),
            |a| a.detection_limit = f64::NAN,
        ];
        for (i, spoil) in spoil.into_iter().enumerate() {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert_eq!(verdict(&bad), Judgement::WrongCertified, "spoilt in way {i}");
            bad.certified = false;
            if i != 6 {
                assert_eq!(verdict(&bad), Judgement::WrongUncertified, "spoilt in way {i}");
            }
        }
    }

    #[test]
    fn fewer_asked_means_the_largest() {
        let tones =
            (0..10).map(|i| Tone { f: i * 7, a: C64::new(1.0 + (i / 2) as f64, 0.0) }).collect();
        let signal = Signal::new(1000, tones);
        let asked = exact(Some(3));
        let mut answer = perfect(&signal, Some(3));
        assert!(judge(&signal, &asked, &answer).judgement.is_right());
        // Tones 6 and 7 tie for the third place.
        let tied = if answer.peaks[0].0 == 42 {
            (49, C64::new(4000.0, 0.0))
        } else {
            (42, C64::new(4000.0, 0.0))
        };
        answer.peaks[0] = tied;
        assert!(judge(&signal, &asked, &answer).judgement.is_right());
        answer.peaks[0] = (0, C64::new(1000.0, 0.0));
        assert!(!judge(&signal, &asked, &answer).judgement.is_right());
        answer.peaks.remove(0);
        assert!(!judge(&signal, &asked, &answer).judgement.is_right());
    }

    #[test]
    fn more_asked_allows_noise_but_no_tone() {
        let n = 1 << 16;
        let signal = Signal::new(n, generate::equal(&mut Rng::new(32), n, 5)).noise(0.1, 1);
        let asked = exact(Some(8));
        let mut answer = perfect(&signal, None);
        assert!(judge(&signal, &asked, &answer).judgement.is_right());
        let free = (0..n).find(|f| answer.peaks.iter().all(|p| p.0 != *f)).unwrap();
        answer.peaks.push((free, C64::new(0.005 * n as f64, 0.0)));
        answer.peaks.sort_by_key(|p| p.0);
        assert!(judge(&signal, &asked, &answer).judgement.is_right());
        assert!(!judge(&signal, &exact(None), &answer).judgement.is_right());
        let at = answer.peaks.iter().position(|p| p.0 == free).unwrap();
        answer.peaks[at].1 *= 20.0;
        assert!(!judge(&signal, &asked, &answer).judgement.is_right());
    }

    #[test]
    fn noise_excuses_errors_of_its_own_size_only() {
        let n = 1 << 16;
        let signal = Signal::new(n, generate::equal(&mut Rng::new(33), n, 5)).noise(0.1, 1);
        let asked = exact(Some(5));
        let mut answer = perfect(&signal, None);
        let unit = 0.1 / 1000f64.sqrt() * n as f64;
        answer.peaks[2].1 += 3.0 * unit;
        let opinion = judge(&signal, &asked, &answer);
        assert!(opinion.judgement.is_right(), "{opinion}");
        assert!((opinion.noise_ratio.unwrap() - 3.0 / 5f64.sqrt()).abs() < 1e-9);
        answer.peaks[2].1 += 9.0 * unit;
        assert!(!judge(&signal, &asked, &answer).judgement.is_right());
    }

    #[test]
    fn only_what_was_not_read_is_excused() {
        let n = 4096;
        let tones = generate::random(&mut Rng::new(34), n, 3);
        let signal = Signal { tones, ..Signal::impulses(n, vec![(77, C64::new(9.0, 0.0))]) };
        let mut answer = perfect(&signal, None);
        answer.read = (0..50).collect();
        let opinion = judge(&signal, &exact(Some(3)), &answer);
        assert_eq!((opinion.judgement, opinion.unseen), (Judgement::WrongCertified, true));
        answer.read.push(77);
        assert!(!judge(&signal, &exact(Some(3)), &answer).unseen);
    }

    #[test]
    fn what_is_not_sparse_is_judged_by_the_claims() {
        let n = 4096;
        let signal = Signal::off_grid(n, vec![(100.4, C64::ONE)]);
        let spectrum = oracle::dense(&signal.samples());
        let mut order: Vec<u64> = (0..n).collect();
        order.sort_by(|a, b| spectrum[*b as usize].norm().total_cmp(&spectrum[*a as usize].norm()));
        let mut top: Vec<u64> = order[..6].to_vec();
        top.sort_unstable();
        let answer = Answer {
            peaks: top.iter().map(|&f| (f, spectrum[f as usize])).collect(),
            certified: true,
            dense: true,
            left_out: 0,
            detection_limit: 0.0,
            samples_read: n,
            informing: n,
            attempts: 1,
            elapsed: Duration::ZERO,
            read: Vec::new(),
        };
        assert!(judge(&signal, &exact(Some(6)), &answer).judgement.is_right());
        // Without k, a detection limit of zero claims that all are there.
        assert!(!judge(&signal, &exact(None), &answer).judgement.is_right());
        let limit = spectrum[order[6] as usize].norm() / n as f64;
        let honest = Answer { detection_limit: limit, ..answer.clone() };
        assert!(judge(&signal, &exact(None), &honest).judgement.is_right());
        let mut wrong = answer;
        wrong.peaks[0].0 = order[2000].min(top[0] - 1);
        assert!(!judge(&signal, &exact(Some(6)), &wrong).judgement.is_right());
    }
}
