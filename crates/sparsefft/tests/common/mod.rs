//! Glue between the kit, which does not know the library, and the library.
#![allow(dead_code)] // every test binary uses its own part

use sparsefft::{
    Complex, Error, Fallback, Line, Method, Noise, Plan, Problem, Samples, Spectrum, Verdict,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::free::Free;
use testkit::promise::Case;
use testkit::{Answer, Asked, C64, Lazy, NoiseHint, Source};

/// The question in the library's terms.
pub fn problem(n: u64, asked: &Asked) -> Problem {
    let problem = Problem::new(n).noise(match asked.noise {
        NoiseHint::Exact => Noise::Exact,
        NoiseHint::Snr(db) => Noise::Snr(db),
        NoiseHint::Unknown => Noise::Unknown,
    });
    match asked.k {
        Some(k) => problem.sparsity(k),
        None => problem.unknown_sparsity(),
    }
}

/// The answer in the kit's terms.
pub fn answer(spectrum: &Spectrum) -> Answer {
    let certificate = spectrum.certificate();
    Answer {
        peaks: spectrum.peaks().iter().map(|p| (p.index, p.value)).collect(),
        certified: certificate.is_reliable(),
        dense: certificate.verdict == Verdict::Dense,
        left_out: spectrum.report().left_out,
        detection_limit: certificate.detection_limit,
        samples_read: spectrum.report().samples_read,
        informing: spectrum.report().samples_read - spectrum.report().samples_compared,
        attempts: certificate.attempts,
        elapsed: spectrum.report().elapsed,
        read: Vec::new(),
    }
}

/// A computed signal as samples. Ends with an error when so much is read of a signal too long
/// for a dense transform that a test would never end.
pub struct Computed<'a> {
    lazy: &'a Lazy,
    read: AtomicU64,
}

impl<'a> Computed<'a> {
    const BUDGET: u64 = 1 << 24;

    /// Computes on demand.
    pub fn new(lazy: &'a Lazy) -> Self {
        Computed { lazy, read: AtomicU64::new(0) }
    }
}

impl Samples for Computed<'_> {
    fn len(&self) -> u64 {
        self.lazy.signal().n
    }
    fn is_real(&self) -> bool {
        self.lazy.signal().real
    }
    fn read(&self, indices: &[u64], out: &mut [C64]) -> Result<(), Error> {
        let read = self.read.fetch_add(indices.len() as u64, Ordering::Relaxed);
        if read > Self::BUDGET && self.len() > Fallback::DENSE_LIMIT {
            return Err(Error::Source(format!("{read} samples were read and more are wanted")));
        }
        for (o, &t) in out.iter_mut().zip(indices) {
            *o = self.lazy.at(t);
        }
        Ok(())
    }
    fn read_range(&self, start: u64, out: &mut [C64]) -> Result<(), Error> {
        self.lazy.range(start, out);
        Ok(())
    }
}

/// A recording of free tones as samples, made where it is read.
pub struct Recording<'a>(pub &'a Free);

impl Samples for Recording<'_> {
    fn len(&self) -> u64 {
        self.0.n
    }
    fn is_real(&self) -> bool {
        self.0.real
    }
    fn read(&self, indices: &[u64], out: &mut [C64]) -> Result<(), Error> {
        for (o, &t) in out.iter_mut().zip(indices) {
            *o = self.0.at(t);
        }
        Ok(())
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        let mut fours = vec![Complex::ZERO; 4 * out.len()];
        self.0.fours(start, step, &mut fours);
        for (line, four) in out.iter_mut().zip(fours.chunks_exact(4)) {
            for (tau, v) in four.iter().enumerate() {
                line.set_lane(tau, *v);
            }
        }
        Ok(())
    }
}

/// A recording that notes which lines are read, so that they can be stored: (start, step, count).
pub struct Lines<'a> {
    free: &'a Free,
    walks: Mutex<Vec<(u64, u64, usize)>>,
}

impl<'a> Lines<'a> {
    /// Notes the lines read of this recording.
    pub fn new(free: &'a Free) -> Self {
        Lines { free, walks: Mutex::default() }
    }

    /// Every line read, by its first sample, with repetition.
    pub fn starts(&self) -> Vec<u64> {
        let walks = self.walks.lock().unwrap();
        let walk = |&(start, step, count): &(u64, u64, usize)| {
            (0..count as u64).map(move |j| start + j * step)
        };
        walks.iter().flat_map(walk).collect()
    }

    /// Writes all samples read to their places.
    pub fn store(&self, out: &mut [C64]) {
        for &(start, step, count) in self.walks.lock().unwrap().iter() {
            let mut fours = vec![Complex::ZERO; 4 * count];
            self.free.fours(start, step, &mut fours);
            for (j, four) in (0u64..).zip(fours.chunks_exact(4)) {
                out[(start + j * step) as usize..][..4].copy_from_slice(four);
            }
        }
    }
}

impl Samples for Lines<'_> {
    fn len(&self) -> u64 {
        self.free.n
    }
    fn is_real(&self) -> bool {
        self.free.real
    }
    fn read(&self, indices: &[u64], out: &mut [C64]) -> Result<(), Error> {
        Recording(self.free).read(indices, out)
    }
    fn read_lines(&self, start: u64, step: u64, out: &mut [Line]) -> Result<(), Error> {
        self.walks.lock().unwrap().push((start, step, out.len()));
        Recording(self.free).read_lines(start, step, out)
    }
}

/// Hands a source to a function as samples.
pub fn with_samples<R>(source: &Source, f: impl FnOnce(&dyn Samples) -> R) -> R {
    match source {
        Source::Lazy(x) => f(&Computed::new(x)),
        Source::C64(x) => f(x),
        Source::R64(x) => f(x),
        Source::C32(x) => f(x),
        Source::R32(x) => f(x),
        Source::CI8(x) => f(x),
        Source::RI8(x) => f(x),
        Source::CU8(x) => f(x),
        Source::RU8(x) => f(x),
        Source::CI16(x) => f(x),
        Source::RI16(x) => f(x),
        Source::CI32(x) => f(x),
        Source::RI32(x) => f(x),
    }
}

/// Transforms a case of the promise.
pub fn transform(case: &Case, source: &Source) -> Result<Answer, String> {
    transform_with(case, source, |problem| problem)
}

/// The same with further options.
pub fn transform_with(
    case: &Case,
    source: &Source,
    options: impl FnOnce(Problem) -> Problem,
) -> Result<Answer, String> {
    let problem = options(problem(case.signal.n, &case.asked).seed(case.seed));
    let plan = Plan::new(problem).map_err(|e| e.to_string())?;
    let informing = informing(&plan);
    let weigh = |a: Answer| Answer { informing: informing.unwrap_or(a.informing), ..a };
    // Where a part of the signal differs from the rest, the judge asks what was seen of it.
    let spectrum = with_samples(source, |x| plan.transform(&x)).map_err(|e| e.to_string())?;
    let mut answer = weigh(answer(&spectrum));
    let signal = &case.signal;
    let uneven = !(signal.impulses.is_empty() && signal.disturbances.is_empty());
    if (uneven || signal.pulses.is_some()) && answer.certified {
        // The same transform once more, since what lies in memory is read without being asked for.
        answer.read = with_samples(source, |x| {
            let recorder = Recorder::new(x);
            plan.transform(&recorder).map(|_| recorder.indices()).map_err(|e| e.to_string())
        })?;
    }
    Ok(answer)
}

/// What the values of the voting algorithms rest on. A flat window of B buckets leaves the noise of
/// 1.13/B of a sample in each, however long it is, and the median of L loops is worth L·2/π.
fn informing(plan: &Plan) -> Option<u64> {
    match &plan.recipe().method {
        Method::Vote(v) => {
            let loops = f64::from(v.loops) * std::f64::consts::FRAC_2_PI;
            Some((loops * v.buckets as f64 / 1.13) as u64)
        }
        _ => None,
    }
}

/// Samples that note what is read.
pub struct Recorder<S> {
    inner: S,
    read: Mutex<Vec<u64>>,
}

impl<S: Samples> Recorder<S> {
    /// Records reads of this source.
    pub fn new(inner: S) -> Self {
        Recorder { inner, read: Mutex::default() }
    }

    /// The indices read, in order, with repetition.
    pub fn indices(&self) -> Vec<u64> {
        self.read.lock().unwrap().clone()
    }
}

impl<S: Samples> Samples for Recorder<S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn is_real(&self) -> bool {
        self.inner.is_real()
    }
    // Lines and ranges come through here too: their default implementations call `read`.
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        self.read.lock().unwrap().extend_from_slice(indices);
        self.inner.read(indices, out)
    }
}
