//! A weighted sum over every set of samples that was read, compared with the same sum of the answer.
//!
//! For T lines that begin at s, s + σ, …, a random rate φ and c = ⌊T/2⌋,
//!
//! ```text
//! C[τ] = Σ_{m<T} e^{-2πiφ(m-c)} x[s + σm + τ]
//!      = Σ_f a_f e^{2πif(s+σc+τ)/n} D(fσ/n - φ),   D(θ) = Σ_{m<T} e^{2πiθ(m-c)}
//! ```
//!
//! Every sample has weight one: a sample that differs from the answer changes the sum by that
//! difference, and several differences cancel only by chance. (The bins of a window cannot show
//! this: the window's ends weigh 1e-6 and less.) The left side costs one multiplication per line,
//! the right side two sines per frequency.
//!
//! The two sides may differ by three things, and by nothing else:
//! - noise of power σ² per sample: a complex normal variable of variance Tσ²;
//! - errors of the amplitudes, each times its D(θ);
//! - rounding, of values and of phases.

use super::Doubt;
use super::evidence::{ReadSet, read_again};
use crate::algorithms::Run;
use crate::cpu::dispatch;
use crate::cpu::math::{cis_each, cis_turns};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::{F4, Vector};
use crate::samples::Line;
use crate::stages::fold::{around_the_end, values_of};
use crate::stages::number::Rng;
use crate::stages::peel::Coefficient;
use crate::stages::unity::Unity;
use crate::{Complex, Error};

/// Difference that rounding explains, relative to the sum of all amplitudes: fifty times what
/// 400 honest signals left (2e-13), a thousandth of the error that answers are allowed (8.5e-9).
const ROUNDING: f64 = 1e-11;
/// Squared deviations of a complex normal variable, in units of its variance, that are refused:
/// noise exceeds them with probability e^-25 = 1.4e-11 per sum.
const REFUSED: f64 = 25.0;
/// Variance of an amplitude in units of σ²/(samples it rests on): 1 for a frequency alone in its
/// bin, up to 10 for pairs that are nearly parallel.
const AMPLITUDE_VARIANCE: f64 = 16.0;
/// Relative error of T·θ for T lines, in units of θ, twice over: from the product and the sine.
const PHASE_ROUNDING: f64 = 4e-16;
/// Stream of random numbers that the rates φ come from.
const STREAM: u64 = 0x0063_6865_636b;
/// Lines that are read again at a time; they fit the first cache.
const BLOCK: usize = 256;

/// Coefficients by eights: frequencies, real and imaginary parts of amplitudes and of e^{2πif/n}.
pub(crate) type Eight = [[f64; 8]; 5];

/// Writes coefficients by eights; places that are left over have no amplitude.
pub(crate) fn eights_of(coefficients: impl Iterator<Item = Coefficient>, out: &mut Vec<Eight>) {
    out.clear();
    for (i, c) in coefficients.enumerate() {
        if i % 8 == 0 {
            out.push([[0.0; 8]; 5]);
        }
        let parts = [c.f as f64, c.a.re, c.a.im, c.z.re, c.z.im];
        let eight = &mut out[i / 8];
        for (list, part) in eight.iter_mut().zip(parts) {
            list[i % 8] = part;
        }
    }
}

/// Whether an answer, given by eights, agrees with the samples of a set.
pub(crate) fn agrees(
    run: &Run<'_>,
    set: &ReadSet,
    eights: &[Eight],
    doubt: &Doubt,
) -> Result<bool, Error> {
    let n = run.plan.problem.n;
    let sum_over = SumOver::new(n, set, run.plan.recipe.seed);
    let seen = match set.sum {
        Some(sum) => [sum, Complex::ZERO, Complex::ZERO, Complex::ZERO],
        None => sum_over.seen(run, set)?,
    };
    let mut predicted = Predicted::default();
    for eight in eights {
        add_eight(&sum_over, eight, &mut predicted);
    }
    let rounding = ROUNDING * doubt.sum
        + doubt.relative * predicted.weights
        + PHASE_ROUNDING * set.count as f64 * predicted.phases;
    let amplitudes = AMPLITUDE_VARIANCE * predicted.squares / doubt.informing;
    let noise = REFUSED * doubt.noise * (set.count as f64 + amplitudes);
    let most = rounding + noise.sqrt();
    Ok((0..set.width).all(|tau| (seen[tau] - predicted.lane(tau)).norm() <= most))
}

/// One weighted sum.
struct SumOver {
    unity: Unity,
    step: u64,
    count: f64,
    /// Whether the lines lie around the middle one in pairs.
    odd: bool,
    /// First sample of the middle line.
    middle: u64,
    /// Turns from one line to the next.
    rate: f64,
}

/// The weighted sum of single samples, taken while they are read.
pub(crate) struct RunningSum {
    rate: f64,
    half: f64,
    done: usize,
    /// Real and imaginary parts of the weights of consecutive samples, each twice.
    weights: Vec<[[f64; 2]; 2]>,
    sum: Complex<f64>,
}

impl RunningSum {
    /// The sum over a set of single samples of a signal of n samples, nothing added yet.
    pub(crate) fn new(n: u64, set: &ReadSet, seed: u64) -> Self {
        let rate = SumOver::new(n, set, seed).rate;
        let mut weights = vec![[0.0; 2]; BLOCK.min(set.count.next_multiple_of(8))];
        write_weights(rate, 0.0, &mut weights);
        let weights = weights.into_iter().map(|[re, im]| [[re; 2], [im; 2]]).collect();
        RunningSum { rate, half: (set.count / 2) as f64, done: 0, weights, sum: Complex::ZERO }
    }

    /// Adds the next samples.
    pub(crate) fn add(&mut self, samples: &[Complex<f64>]) {
        for chunk in samples.chunks(self.weights.len()) {
            let part = weighted_sum(chunk, &self.weights);
            let turns = -self.rate * (self.done as f64 - self.half);
            let (c, s) = cis_turns(turns - turns.round());
            self.sum += part * Complex::new(c, s);
            self.done += chunk.len();
        }
    }

    /// The sum of all samples of the set.
    pub(crate) fn finish(self) -> Complex<f64> {
        self.sum
    }
}

dispatch! {
    /// Σ samples·weights.
    fn weighted_sum(samples: &[Complex<f64>], weights: &[[[f64; 2]; 2]]) -> Complex<f64>
        = weighted_sum_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn weighted_sum_body<const FMA: bool>(
    samples: &[Complex<f64>],
    weights: &[[[f64; 2]; 2]],
) -> Complex<f64> {
    // Real and imaginary parts of two samples times the real and the imaginary part of their weight,
    // in sums that do not wait for each other.
    let mut sums = [[F4::<FMA>::ZERO; 2]; 4];
    let (many, rest) = samples.as_chunks::<8>();
    for (eight, w) in many.iter().zip(weights.as_chunks::<8>().0) {
        for i in 0..4 {
            let [a, b] = [eight[2 * i], eight[2 * i + 1]];
            let [[u, v], [x, y]] = [w[2 * i], w[2 * i + 1]];
            let pair = F4([a.re, a.im, b.re, b.im]);
            sums[i][0] = pair.mul_add(F4([u[0], u[1], x[0], x[1]]), sums[i][0]);
            sums[i][1] = pair.mul_add(F4([v[0], v[1], y[0], y[1]]), sums[i][1]);
        }
    }
    let [direct, crossed] =
        [0, 1].map(|k| ((sums[0][k] + sums[1][k]) + (sums[2][k] + sums[3][k])).0);
    let mut sum = Complex::new(
        direct[0] + direct[2] - crossed[1] - crossed[3],
        direct[1] + direct[3] + crossed[0] + crossed[2],
    );
    for (v, [re, im]) in rest.iter().zip(&weights[8 * many.len()..]) {
        sum += v * Complex::new(re[0], im[0]);
    }
    sum
}

/// What the answer adds up to.
#[derive(Default)]
struct Predicted {
    re: [f64; 4],
    im: [f64; 4],
    /// Σ |a|/|sin πθ|: what an error of θ is multiplied by.
    phases: f64,
    /// Σ |a D(θ)| and Σ |D(θ)|²: what errors of the amplitudes are multiplied by.
    weights: f64,
    squares: f64,
}

impl Predicted {
    fn lane(&self, tau: usize) -> Complex<f64> {
        Complex::new(self.re[tau], self.im[tau])
    }
}

impl SumOver {
    fn new(n: u64, set: &ReadSet, seed: u64) -> Self {
        let half = set.count / 2;
        // Of its own for every set, and no multiple of 1/n: no frequency stands still.
        let place = Rng::new(set.start ^ set.step.rotate_left(32), STREAM).next();
        let draw = Rng::new(seed ^ place, STREAM).next();
        SumOver {
            unity: Unity::new(n),
            step: set.step % n,
            count: set.count as f64,
            odd: set.count % 2 == 1,
            middle: set.place(half, n),
            rate: ((draw >> 11) as f64 + 0.5) * 2f64.powi(-53),
        }
    }

    /// The sum over the samples.
    fn seen(&self, run: &Run<'_>, set: &ReadSet) -> Result<[Complex<f64>; 4], Error> {
        let mut sums = Sums::default();
        let mut lines = [Line::ZERO; BLOCK];
        let mut weights = [[0.0; 2]; BLOCK];
        for first in (0..set.count).step_by(BLOCK) {
            let size = BLOCK.min(set.count - first);
            let weights = &mut weights[..size.next_multiple_of(8)];
            write_weights(self.rate, first as f64 - (set.count / 2) as f64, weights);
            let weights = &weights[..size];
            match run.samples().filter(|_| set.width == 4) {
                Some(samples) => {
                    let start = set.place(first, self.unity.order()) as usize;
                    add_samples(samples, start, self.step as usize, weights, &mut sums);
                }
                None => {
                    read_again(run, set, [first, 1], &mut lines[..size])?;
                    add_lines(&lines[..size], weights, &mut sums);
                }
            }
        }
        Ok(sums.lanes())
    }
}

/// Sums of four samples, real and imaginary parts in turn, times the real and the imaginary part
/// of their weights.
#[derive(Default)]
struct Sums {
    by_re: [f64; 8],
    by_im: [f64; 8],
}

impl Sums {
    fn lanes(&self) -> [Complex<f64>; 4] {
        std::array::from_fn(|tau| {
            let (re, im) = (2 * tau, 2 * tau + 1);
            let Sums { by_re, by_im } = self;
            Complex::new(by_re[re] - by_im[im], by_re[im] + by_im[re])
        })
    }
}

/// [`Sums`] in registers: one pair for each vector that a line takes.
#[derive(Clone, Copy)]
struct Wide<V> {
    sums: [[V; 2]; 2],
}

impl<V: Vector> Wide<V> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn load(from: &Sums) -> Self {
        let part = |i: usize| match i < 8 / V::COUNT {
            true => [V::part(&from.by_re, i), V::part(&from.by_im, i)],
            false => [V::splat(0.0); 2],
        };
        Wide { sums: [part(0), part(1)] }
    }

    #[inline(always)] // must inherit the instruction set of its caller
    fn add(&mut self, samples: &[f64; 8], weight: [f64; 2]) {
        let (re, im) = (V::splat(weight[0]), V::splat(weight[1]));
        for (i, sums) in self.sums.iter_mut().enumerate().take(8 / V::COUNT) {
            let part = V::samples(samples, i);
            *sums = [part.mul_add(re, sums[0]), part.mul_add(im, sums[1])];
        }
    }

    #[inline(always)] // must inherit the instruction set of its caller
    fn store(self, to: &mut Sums) {
        for (i, sums) in self.sums.iter().enumerate().take(8 / V::COUNT) {
            let at = V::COUNT * i..V::COUNT * (i + 1);
            to.by_re[at.clone()].copy_from_slice(&sums[0].each()[..V::COUNT]);
            to.by_im[at].copy_from_slice(&sums[1].each()[..V::COUNT]);
        }
    }
}

dispatch_rows! {
    /// Writes e^{-2πi·rate·(first + m)}; a multiple of eight of them.
    fn write_weights(rate: f64, first: f64, out: &mut [[f64; 2]]) = write_weights_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn write_weights_body<const FMA: bool, R: Row>(rate: f64, first: f64, out: &mut [[f64; 2]]) {
    let count = R::Wide::COUNT;
    for (i, some) in out.chunks_exact_mut(count).enumerate() {
        let m = R::Wide::of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
            + R::Wide::splat(first + (i * count) as f64);
        let turns = m * R::Wide::splat(-rate);
        let (re, im) = cis_each(turns - turns.round());
        let (re, im) = (re.each(), im.each());
        for (j, weight) in some.iter_mut().enumerate() {
            *weight = [re[j], im[j]];
        }
    }
}

dispatch_rows! {
    /// Adds weighted lines that begin at `start` and lie `step` apart, around the end of the samples.
    fn add_samples(
        samples: &[Complex<f64>],
        start: usize,
        step: usize,
        weights: &[[f64; 2]],
        sums: &mut Sums,
    ) = add_samples_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn add_samples_body<const FMA: bool, R: Row>(
    samples: &[Complex<f64>],
    start: usize,
    step: usize,
    weights: &[[f64; 2]],
    sums: &mut Sums,
) {
    let (n, mut place) = (samples.len(), start);
    let mut wide = Wide::<R::Wide>::load(sums);
    for &weight in weights {
        match samples.get(place..).and_then(<[_]>::first_chunk) {
            Some(four) => wide.add(values_of(four), weight),
            None => wide.add(values_of(&around_the_end(samples, place)), weight),
        }
        place += step;
        place = if place < n { place } else { place - n };
    }
    wide.store(sums);
}

dispatch_rows! {
    /// Adds weighted lines.
    fn add_lines(lines: &[Line], weights: &[[f64; 2]], sums: &mut Sums) = add_lines_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn add_lines_body<const FMA: bool, R: Row>(lines: &[Line], weights: &[[f64; 2]], sums: &mut Sums) {
    let mut wide = Wide::<R::Wide>::load(sums);
    for (line, &weight) in lines.iter().zip(weights) {
        let mut values = [0.0; 8];
        for tau in 0..4 {
            (values[2 * tau], values[2 * tau + 1]) = (line.re[tau], line.im[tau]);
        }
        wide.add(&values, weight);
    }
    wide.store(sums);
}

dispatch_rows! {
    /// Adds what eight coefficients add to the sum.
    fn add_eight(over: &SumOver, eight: &Eight, predicted: &mut Predicted) = add_eight_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn add_eight_body<const FMA: bool, R: Row>(
    over: &SumOver,
    eight: &Eight,
    predicted: &mut Predicted,
) {
    let SumOver { unity, step, count, odd, middle, rate } = *over;
    let inverse = 1.0 / unity.order() as f64;
    let mut moved = [[0.0; 8]; 2];
    for (i, &f) in eight[0].iter().enumerate() {
        moved[0][i] = unity.product(f as u64, step) as f64 * inverse;
        if middle != 0 {
            moved[1][i] = unity.product(f as u64, middle) as f64 * inverse;
        }
    }
    let (mut re, mut im) = ([R::Wide::splat(0.0); 4], [R::Wide::splat(0.0); 4]);
    let [mut phases, mut weights, mut squares] = [R::Wide::splat(0.0); 3];
    for half in 0..8 / R::Wide::COUNT {
        let part = |list: usize| R::Wide::part(&eight[list], half);
        let turn = R::Wide::part(&moved[0], half) - R::Wide::splat(rate);
        let (cos, sin) = cis_each(turn * R::Wide::splat(0.5));
        let around = turn * R::Wide::splat(0.5 * count);
        let (_, all) = cis_each(around - around.round());
        let ratio = all.div(sin);
        // Without a middle line the sum is that around half a line before it.
        let (mut d_re, mut d_im) = (ratio, R::Wide::splat(0.0));
        if !odd {
            (d_re, d_im) = (ratio * cos, R::Wide::splat(0.0) - all);
        }
        let (a_re, a_im) = (part(1), part(2));
        let mut x = d_im.negate_mul_add(a_im, d_re * a_re);
        let mut y = d_im.mul_add(a_re, d_re * a_im);
        if middle != 0 {
            let (c, s) = cis_each(R::Wide::part(&moved[1], half));
            (x, y) = (y.negate_mul_add(s, x * c), x.mul_add(s, y * c));
        }
        let size = a_re.mul_add(a_re, a_im * a_im).sqrt();
        phases = phases + size.div(sin.abs());
        weights = ratio.abs().mul_add(size, weights);
        // Places that are filled up have no amplitude and hence no error.
        let is_there = R::Wide::splat(0.0).below(size);
        squares = squares + (ratio * ratio).where_or(is_there, R::Wide::splat(0.0));
        let (z_re, z_im) = (part(3), part(4));
        for tau in 0..4 {
            (re[tau], im[tau]) = (re[tau] + x, im[tau] + y);
            (x, y) = (y.negate_mul_add(z_im, x * z_re), x.mul_add(z_im, y * z_re));
        }
    }
    let total = |v: R::Wide| v.each().iter().sum::<f64>();
    for tau in 0..4 {
        predicted.re[tau] += total(re[tau]);
        predicted.im[tau] += total(im[tau]);
    }
    predicted.phases += total(phases);
    predicted.weights += total(weights);
    predicted.squares += total(squares);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::ticks::Stopwatch;
    use crate::plan::{Plan, Workspace};
    use crate::problem::Problem;
    use crate::samples::progression;

    /// What a set of this shape says of a signal that is the answer but for some samples.
    fn judged(n: u64, set: &ReadSet, tones: &[Coefficient], wrong: &[(u64, f64)]) -> bool {
        let wrong: Vec<_> =
            wrong.iter().map(|&(t, factor)| (t, value(n, tones, t) * (factor - 1.0))).collect();
        let sum = tones.iter().map(|c| c.a.norm()).sum();
        let doubt = Doubt { sum, relative: 0.0, noise: 0.0, informing: 1.0 };
        agree(n, set, tones, &wrong, &doubt)
    }

    fn value(n: u64, tones: &[Coefficient], t: u64) -> Complex<f64> {
        let unity = Unity::new(n);
        tones.iter().map(|c| c.a * unity.power(c.f, t)).sum()
    }

    /// Whether the answer agrees with a signal to which something is added at some samples.
    fn agree(
        n: u64,
        set: &ReadSet,
        tones: &[Coefficient],
        added: &[(u64, Complex<f64>)],
        doubt: &Doubt,
    ) -> bool {
        // Only what is read: most of the time went into the other samples.
        let mut x = vec![Complex::ZERO; n as usize];
        for place in (0..set.count).map(|i| set.place(i, n)) {
            for t in (place..place + set.width as u64).map(|t| t % n) {
                x[t as usize] = value(n, tones, t);
            }
        }
        added.iter().for_each(|&(t, more)| x[t as usize] += more);
        let plan = Plan::new(Problem::new(n).sparsity(tones.len() as u64)).unwrap();
        let mut workspace = Workspace::default();
        let run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
        let mut eights = Vec::new();
        eights_of(tones.iter().copied(), &mut eights);
        agrees(&run, set, &eights, doubt).unwrap()
    }

    /// The allowance for each cause, with the response D summed up term by term: a sample that differs by
    /// a thousandth less passes, and by a thousandth more does not.
    #[test]
    fn samples_may_differ_by_the_allowance_and_not_by_more() {
        let (n, mut rng) = (10_007u64, Rng::new(12, 3));
        let unity = Unity::new(n);
        for (k, count) in [(3usize, 64), (11, 301)] {
            let tones: Vec<_> = (0..k)
                .map(|i| {
                    let f = rng.below(n);
                    let a = unity.root(rng.below(n)) * (0.5 + i as f64);
                    Coefficient { f, a, z: unity.root(f) }
                })
                .collect();
            let set = ReadSet::lines(rng.below(n), 1 + rng.below(n - 1), count);
            let seed =
                Plan::new(Problem::new(n).sparsity(k as u64)).unwrap().prepared().recipe.seed;
            let rate = SumOver::new(n, &set, seed).rate;
            let (mut phases, mut weights, mut squares) = (0.0, 0.0, 0.0);
            for c in &tones {
                let theta = (c.f as f64 * set.step as f64 / n as f64 - rate).fract();
                let d: Complex<f64> = (0..count)
                    .map(|m| {
                        let turns = theta * (m as f64 - (count / 2) as f64);
                        Complex::from_polar(1.0, std::f64::consts::TAU * turns)
                    })
                    .sum();
                // An even number of lines lies around half a line before the middle; the modulus is the same.
                phases += c.a.norm() / (std::f64::consts::PI * theta).sin().abs();
                weights += c.a.norm() * d.norm();
                squares += d.norm_sqr();
            }
            let none = Doubt { sum: 0.0, relative: 0.0, noise: 0.0, informing: 1e30 };
            let count = count as f64;
            let rounding = 4e-16 * count * phases;
            let cases = [
                (Doubt { sum: 2e4, ..none }, 2e-7 + rounding),
                (Doubt { relative: 3e-5, ..none }, 3e-5 * weights + rounding),
                (Doubt { noise: 1e-4, ..none }, (25e-4 * count).sqrt() + rounding),
                (
                    Doubt { noise: 1e-4, informing: 7.0, ..none },
                    (25e-4 * (count + 16.0 * squares / 7.0)).sqrt() + rounding,
                ),
                (
                    Doubt { sum: 2e7, relative: 3e-5, noise: 1e-9, informing: 1.0 },
                    2e-4 + 3e-5 * weights + (25e-9 * (count + 16.0 * squares)).sqrt(),
                ),
            ];
            for (i, (doubt, most)) in cases.iter().enumerate() {
                let t = (set.place(5, n) + 2) % n;
                let added = |factor: f64| [(t, Complex::from_polar(most * factor, 0.7))];
                assert!(agree(n, &set, &tones, &added(0.999), doubt), "{k} tones, case {i}");
                assert!(!agree(n, &set, &tones, &added(1.001), doubt), "{k} tones, case {i}");
            }
        }
    }

    /// A frequency that hardly turns between the rate and the lines is known the worse, the more lines.
    #[test]
    fn rounding_of_phases_is_allowed_for() {
        let (n, count) = (10_007u64, 3000);
        let (unity, set) = (Unity::new(n), ReadSet::lines(17, 1, 3000));
        let seed = Plan::new(Problem::new(n).sparsity(1)).unwrap().prepared().recipe.seed;
        let rate = SumOver::new(n, &set, seed).rate;
        let f = (rate * n as f64).round() as u64 % n;
        let theta = f as f64 / n as f64 - rate;
        let tone = [Coefficient { f, a: Complex::new(1.0, 0.0), z: unity.root(f) }];
        let doubt = Doubt { sum: 0.0, relative: 0.0, noise: 0.0, informing: 1.0 };
        let most = 4e-16 * count as f64 / (std::f64::consts::PI * theta).sin().abs();
        let added = |factor: f64| [(set.place(9, n), Complex::new(most * factor, 0.0))];
        assert!(agree(n, &set, &tone, &added(0.9), &doubt), "{most}");
        assert!(!agree(n, &set, &tone, &added(1.1), &doubt), "{most}");
    }

    /// The sum that is taken while reading is that of the definition, in pieces of any length.
    #[test]
    fn running_sums_are_those_of_the_definition() {
        let n = 100_003;
        let mut rng = Rng::new(13, 3);
        for count in [1usize, 7, 8, 255, 256, 1000] {
            let set = ReadSet::singles(5, 77, count);
            let rate = SumOver::new(n, &set, 9).rate;
            let x: Vec<Complex<f64>> = (0..count)
                .map(|_| Complex::new(rng.below(1000) as f64, rng.below(1000) as f64))
                .collect();
            let mut running = RunningSum::new(n, &set, 9);
            for piece in x.chunks(300) {
                running.add(piece);
            }
            let expected: Complex<f64> = (0..count)
                .map(|m| {
                    let turns = -rate * (m as f64 - (count / 2) as f64);
                    x[m] * Complex::from_polar(1.0, std::f64::consts::TAU * turns.fract())
                })
                .sum();
            let found = running.finish();
            assert!((found - expected).norm() < 1e-7, "{count}: {found} {expected}");
            // And the judge believes it.
            let set = set.with_sum(found);
            assert_eq!(set.sum, Some(found));
        }
    }

    #[test]
    fn one_sample_that_differs_by_a_part_in_a_million_is_noticed() {
        let mut rng = Rng::new(11, 3);
        for n in [1u64 << 16, 10_007, 65_536 + 16] {
            for (k, count, middle) in
                [(1, 64, false), (13, 257, true), (50, 300, false), (3, 3000, true)]
            {
                let unity = Unity::new(n);
                let tones: Vec<_> = (0..k)
                    .map(|_| {
                        let f = rng.below(n);
                        let a = unity.root(rng.below(n)) * (1.0 + k as f64 * 0.01);
                        Coefficient { f, a, z: unity.root(f) }
                    })
                    .collect();
                let step = 1 + rng.below(n - 1);
                let back = progression(0, step, count as u64 / 2, n);
                let start = if middle { (n - back) % n } else { rng.below(n) };
                let set = ReadSet::lines(start, step, count);
                assert!(judged(n, &set, &tones, &[]), "n = {n}, k = {k}, {set:?}");
                for at in [0, count / 3, count - 1] {
                    let t = (set.place(at, n) + rng.below(4)) % n;
                    let wrong = [(t, 1.0 + 1e-6)];
                    assert!(!judged(n, &set, &tones, &wrong), "n = {n}, k = {k}, {set:?}, {at}");
                }
            }
        }
    }

    #[test]
    fn single_samples_are_compared_too() {
        let n = 1 << 14;
        let unity = Unity::new(n);
        let tones =
            [3u64, 700, 9000].map(|f| Coefficient { f, a: unity.root(f), z: unity.root(f) });
        let set = ReadSet::singles(17, 4097, 1000);
        assert!(judged(n, &set, &tones, &[]));
        assert!(!judged(n, &set, &tones, &[(set.place(999, n), 0.5)]));
    }
}
