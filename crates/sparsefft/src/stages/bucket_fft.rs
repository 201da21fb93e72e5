//! bucket FFT: four transforms at once over lines, one per lane.
//!
//! U\[b\] = Σ_j u\[j\] e^{-2πi jb/B} for each lane τ independently, so no lane is ever shuffled and
//! every twiddle is a broadcast. Powers of two go through [`columns`](crate::cpu::columns) where the
//! processor has its vectors; Stockham's self-sorting passes of radix 4, 2, 3 and 5 serve every other
//! B = 2^a 3^b 5^c. Both end in natural order.

use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;
use crate::samples::{Line, fill_lines};
use crate::stages::number::smooth_divisors;
use crate::stages::unity::Unity;

/// From this size on a transform runs in two steps of short ones, which stay in the first cache.
const LARGE: usize = 2048;

/// A prepared bucket FFT.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BucketFft {
    size: usize,
    steps: Steps,
}

#[derive(Debug, Clone, PartialEq)]
enum Steps {
    /// Butterflies of whole lines, for powers of two.
    #[cfg(target_arch = "x86_64")]
    Columns(columns::Plan),
    /// Stockham passes over the whole.
    Short(Vec<Pass>),
    /// With j = j1·n2 + j2 and b = b1 + n1·b2: transforms over j1, factors e^{-2πi j2·b1/B},
    /// transforms over j2. A line is a whole cache line, so strides cost nothing.
    Long { columns: Box<BucketFft>, rows: Box<BucketFft>, twiddles: Vec<Complex<f64>> },
}

/// What a transform begins with.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Lines elsewhere.
    Lines(&'a [Line]),
    /// What stands where the result will be.
    Within,
    /// Four samples at every multiple of a step, all of which lie in the slice.
    Samples(&'a [Complex<f64>], usize),
}

/// Which energies a transform has added to those of its lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Added {
    /// None.
    Nothing,
    /// Those of all lines.
    Each,
    /// Those of all lines, which make up this.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // others have no such steps
    All(f64),
}

/// One pass: `groups` butterflies of this radix, each over `stride` neighbours.
#[derive(Debug, Clone, PartialEq)]
struct Pass {
    radix: usize,
    groups: usize,
    stride: usize,
    /// radix - 1 factors per group.
    twiddles: Vec<Complex<f64>>,
}

impl BucketFft {
    /// Prepares a transform of this size.
    ///
    /// # Panics
    /// If the size is 0 or has a prime factor above 5; planners offer only such sizes.
    pub(crate) fn new(size: usize) -> Self {
        assert!(size > 0, "a bucket FFT needs at least one bucket");
        #[cfg(target_arch = "x86_64")]
        if let Some(plan) = columns::Plan::new(size) {
            return BucketFft { size, steps: Steps::Columns(plan) };
        }
        Self::stockham(size)
    }

    fn stockham(size: usize) -> Self {
        if size >= LARGE {
            return Self::long(size);
        }
        let mut passes = Vec::new();
        let (mut left, mut stride) = (size, 1);
        while left > 1 {
            let radix = [4, 2, 3, 5].into_iter().find(|r| left.is_multiple_of(*r));
            let radix = radix.expect("bucket counts have no prime factor above 5");
            let groups = left / radix;
            let unity = Unity::new(left as u64);
            let twiddles = (0..groups as u64)
                .flat_map(|p| (1..radix as u64).map(move |k| unity.power(p, k).conj()))
                .collect();
            passes.push(Pass { radix, groups, stride, twiddles });
            left = groups;
            stride *= radix;
        }
        BucketFft { size, steps: Steps::Short(passes) }
    }

    fn long(size: usize) -> Self {
        let wanted = (size as f64).sqrt();
        let divisors = smooth_divisors(size as u64, 1, size as u64);
        let ratio = |d: u64| (d as f64 / wanted).ln().abs();
        let n1 = divisors.into_iter().min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
        let n1 = n1.map_or(1, |d| d as usize);
        let n2 = size / n1;
        let unity = Unity::new(size as u64);
        let twiddles = (0..n2 as u64)
            .flat_map(|j2| (0..n1 as u64).map(move |b1| unity.power(j2, b1).conj()))
            .collect();
        let (columns, rows) = (Box::new(BucketFft::new(n1)), Box::new(BucketFft::new(n2)));
        BucketFft { size, steps: Steps::Long { columns, rows, twiddles } }
    }

    /// Number of buckets.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Lines of scratch that [`process`](BucketFft::process) needs.
    pub(crate) fn scratch_len(&self) -> usize {
        match &self.steps {
            #[cfg(target_arch = "x86_64")]
            Steps::Columns(_) => self.size,
            Steps::Short(_) => self.size,
            Steps::Long { columns, rows, .. } => {
                let inner = columns.scratch_len().max(rows.scratch_len());
                self.size + 2 * columns.size.max(rows.size) + inner
            }
        }
    }

    /// Transforms `input` into `out`, both of the prepared size, times a factor; `scratch` is
    /// overwritten.
    pub(crate) fn process(
        &self,
        input: &[Line],
        out: &mut [Line],
        scratch: &mut [Line],
        factor: f64,
    ) {
        self.process_and_add(Source::Lines(input), out, scratch, factor, None, || ());
    }

    /// [`process`](BucketFft::process) of other sources, which adds the energy of every line to those
    /// given, as the last butterflies make them, where that is possible. Returns whether it was, and what
    /// they add up to. Calls `read` as soon as the source is not needed any more.
    pub(crate) fn process_and_add(
        &self,
        source: Source<'_>,
        out: &mut [Line],
        scratch: &mut [Line],
        factor: f64,
        energy: Option<&mut [f64]>,
        read: impl FnOnce(),
    ) -> Added {
        #[cfg(target_arch = "x86_64")]
        if let Steps::Columns(plan) = &self.steps
            && (plan.reads_samples() || !matches!(source, Source::Samples(..)))
        {
            return plan.run(source, out, scratch, factor, energy, read);
        }
        let _ = energy; // these steps have no last butterflies of whole lines
        match source {
            Source::Lines(input) => self.passes(input, out, scratch),
            Source::Within => {
                let input = out.to_vec();
                self.passes(&input, out, scratch);
            }
            // These steps begin with lines.
            Source::Samples(samples, step) => {
                for (line, part) in out.iter_mut().zip(samples.chunks(step)) {
                    fill_lines(part, std::slice::from_mut(line));
                }
                return self.process_and_add(Source::Within, out, scratch, factor, None, read);
            }
        }
        read();
        if factor != 1.0 {
            scale_all(out, factor);
        }
        Added::Nothing
    }

    /// Makes the transform of all from that of the even lines, which stands in the first half, and that
    /// of the odd ones, each scaled by the inverse of its size; the result is scaled likewise.
    pub(crate) fn join(&self, lines: &mut [Line]) {
        assert!(lines.len() == self.size && self.size.is_multiple_of(2));
        #[cfg(target_arch = "x86_64")]
        if let Steps::Columns(plan) = &self.steps {
            return join_halves(lines, plan.factors());
        }
        let unity = Unity::new(self.size as u64);
        let factors: Vec<_> = (0..self.size as u64 / 2).map(|j| unity.power(j, 1).conj()).collect();
        join_halves(lines, &factors);
    }

    /// Whether lines can be transformed in their place without a copy.
    pub(crate) fn works_within(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Steps::Columns(_) = &self.steps {
            return true;
        }
        false
    }

    /// Whether the first butterflies read samples where they lie.
    pub(crate) fn reads_samples(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Steps::Columns(plan) = &self.steps {
            return plan.reads_samples();
        }
        false
    }

    /// The steps one after the other, without a factor.
    fn passes(&self, input: &[Line], out: &mut [Line], scratch: &mut [Line]) {
        assert!(input.len() == self.size && out.len() == self.size);
        assert!(scratch.len() >= self.scratch_len());
        let passes = match &self.steps {
            #[cfg(target_arch = "x86_64")]
            Steps::Columns(plan) => {
                plan.run(Source::Lines(input), out, scratch, 1.0, None, || ());
                return;
            }
            Steps::Short(passes) => passes,
            Steps::Long { columns, rows, twiddles } => {
                let work = columns.size.max(rows.size);
                let (scratch, buffers) = scratch.split_at_mut(self.size);
                let (a, rest) = buffers.split_at_mut(work);
                let (b, c) = rest.split_at_mut(work);
                let (n1, n2) = (columns.size, rows.size);
                for (j2, to) in scratch.chunks_exact_mut(n1).enumerate() {
                    for (a, line) in a.iter_mut().zip(input[j2..].iter().step_by(n2)) {
                        *a = *line;
                    }
                    columns.passes(&a[..n1], to, c);
                    twist(to, &twiddles[j2 * n1..][..n1]);
                }
                for b1 in 0..n1 {
                    for (a, line) in a.iter_mut().zip(scratch[b1..].iter().step_by(n1)) {
                        *a = *line;
                    }
                    rows.passes(&a[..n2], &mut b[..n2], c);
                    for (to, line) in out[b1..].iter_mut().step_by(n1).zip(b.iter()) {
                        *to = *line;
                    }
                }
                return;
            }
        };
        if passes.is_empty() {
            out.copy_from_slice(input);
            return;
        }
        let scratch = &mut scratch[..self.size];
        // The buffers alternate so that the last pass writes `out`.
        let mut to_out = passes.len() % 2 == 1;
        for (i, pass) in passes.iter().enumerate() {
            match (i == 0, to_out) {
                (true, true) => run_pass(pass, input, out),
                (true, false) => run_pass(pass, input, scratch),
                (false, true) => run_pass(pass, scratch, out),
                (false, false) => run_pass(pass, out, scratch),
            }
            to_out = !to_out;
        }
    }
}

dispatch! {
    /// Multiplies every line by the same number.
    fn scale_all(lines: &mut [Line], factor: f64) = scale_all_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn scale_all_body<const FMA: bool>(lines: &mut [Line], factor: f64) {
    let factor = F4::<FMA>::splat(factor);
    for line in lines {
        (line.re, line.im) = ((F4(line.re) * factor).0, (F4(line.im) * factor).0);
    }
}

dispatch! {
    /// Butterflies of the first half of these lines and the second one, which is turned by these factors.
    fn join_halves(lines: &mut [Line], factors: &[Complex<f64>]) = join_halves_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn join_halves_body<const FMA: bool>(lines: &mut [Line], factors: &[Complex<f64>]) {
    let (even, odd) = lines.split_at_mut(factors.len());
    for ((even, odd), w) in even.iter_mut().zip(odd).zip(factors) {
        let (a, b) = (load::<FMA>(even), times(load(odd), *w));
        let half = F4::splat(0.5);
        let (sum, difference) = (add(a, b), sub(a, b));
        store(even, V { re: sum.re * half, im: sum.im * half });
        store(odd, V { re: difference.re * half, im: difference.im * half });
    }
}

dispatch! {
    /// Multiplies every line by its factor.
    fn twist(lines: &mut [Line], factors: &[Complex<f64>]) = twist_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn twist_body<const FMA: bool>(lines: &mut [Line], factors: &[Complex<f64>]) {
    for (line, w) in lines.iter_mut().zip(factors) {
        let turned = times::<FMA>(load(line), *w);
        store(line, turned);
    }
}

dispatch! {
    /// One Stockham pass.
    fn run_pass(pass: &Pass, x: &[Line], y: &mut [Line]) = pass_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn pass_body<const FMA: bool>(pass: &Pass, x: &[Line], y: &mut [Line]) {
    match pass.radix {
        4 => radix4_pass::<FMA>(pass, x, y),
        2 => radix_pass::<FMA, 2>(pass, x, y),
        3 => radix_pass::<FMA, 3>(pass, x, y),
        _ => radix_pass::<FMA, 5>(pass, x, y),
    }
}

/// The pass that nearly all are: every slice walks with a pointer of its own, without checks.
#[inline(always)] // must inherit the instruction set of its caller
fn radix4_pass<const FMA: bool>(pass: &Pass, x: &[Line], y: &mut [Line]) {
    let s = pass.stride;
    let quarter = pass.groups * s;
    let (x0, rest) = x.split_at(quarter);
    let (x1, rest) = rest.split_at(quarter);
    let (x2, rest) = rest.split_at(quarter);
    let (x3, _) = rest.split_at(quarter);
    let factors = pass.twiddles.chunks_exact(3);
    if s == 1 {
        let inputs = x0.iter().zip(x1).zip(x2.iter().zip(x3));
        for ((out, ((a, b), (c, d))), w) in y.chunks_exact_mut(4).zip(inputs).zip(factors) {
            let v = butterfly4::<FMA>([load(a), load(b), load(c), load(d)]);
            store(&mut out[0], v[0]);
            store(&mut out[1], times(v[1], w[0]));
            store(&mut out[2], times(v[2], w[1]));
            store(&mut out[3], times(v[3], w[2]));
        }
        return;
    }
    let inputs = x0.chunks_exact(s).zip(x1.chunks_exact(s));
    let inputs = inputs.zip(x2.chunks_exact(s).zip(x3.chunks_exact(s)));
    for ((out, ((x0, x1), (x2, x3))), w) in y.chunks_exact_mut(4 * s).zip(inputs).zip(factors) {
        let (y0, rest) = out.split_at_mut(s);
        let (y1, rest) = rest.split_at_mut(s);
        let (y2, y3) = rest.split_at_mut(s);
        let outputs = y0.iter_mut().zip(y1).zip(y2.iter_mut().zip(y3));
        let inputs = x0.iter().zip(x1).zip(x2.iter().zip(x3));
        for (((y0, y1), (y2, y3)), ((a, b), (c, d))) in outputs.zip(inputs) {
            let v = butterfly4::<FMA>([load(a), load(b), load(c), load(d)]);
            store(y0, v[0]);
            store(y1, times(v[1], w[0]));
            store(y2, times(v[2], w[1]));
            store(y3, times(v[3], w[2]));
        }
    }
}

#[inline(always)] // must inherit the instruction set of its caller
fn radix_pass<const FMA: bool, const R: usize>(pass: &Pass, x: &[Line], y: &mut [Line]) {
    let s = pass.stride;
    let (whole, _) = x.split_at(R * pass.groups * s);
    let mut parts = [whole; R];
    for (part, from) in parts.iter_mut().zip(whole.chunks_exact(pass.groups * s)) {
        *part = from;
    }
    let (out, _) = y.split_at_mut(R * pass.groups * s);
    let factors = pass.twiddles.chunks_exact(R - 1);
    if s == 1 {
        for ((p, out), w) in out.chunks_exact_mut(R).enumerate().zip(factors) {
            let mut v = [load(&parts[0][p]); R];
            for (v, part) in v.iter_mut().zip(&parts) {
                *v = load(&part[p]);
            }
            let v = butterfly::<FMA, R>(v);
            store(&mut out[0], v[0]);
            for k in 1..R {
                store(&mut out[k], times(v[k], w[k - 1]));
            }
        }
        return;
    }
    for ((p, out), w) in out.chunks_exact_mut(R * s).enumerate().zip(factors) {
        let mut from = parts;
        for from in &mut from {
            *from = &from[p * s..(p + 1) * s];
        }
        for q in 0..s {
            let mut v = [load(&from[0][q]); R];
            for (v, from) in v.iter_mut().zip(&from) {
                *v = load(&from[q]);
            }
            let v = butterfly::<FMA, R>(v);
            store(&mut out[q], v[0]);
            for k in 1..R {
                store(&mut out[q + k * s], times(v[k], w[k - 1]));
            }
        }
    }
}

/// A line in registers.
#[derive(Clone, Copy)]
struct V<const FMA: bool> {
    re: F4<FMA>,
    im: F4<FMA>,
}

#[inline(always)] // two loads
fn load<const FMA: bool>(line: &Line) -> V<FMA> {
    V { re: F4(line.re), im: F4(line.im) }
}

#[inline(always)] // two stores
fn store<const FMA: bool>(line: &mut Line, v: V<FMA>) {
    (line.re, line.im) = (v.re.0, v.im.0);
}

#[inline(always)] // four instructions
fn times<const FMA: bool>(a: V<FMA>, w: Complex<f64>) -> V<FMA> {
    let (c, s) = (F4::splat(w.re), F4::splat(w.im));
    V { re: a.im.negate_mul_add(s, a.re * c), im: a.re.mul_add(s, a.im * c) }
}

#[inline(always)] // one instruction per part
fn add<const FMA: bool>(a: V<FMA>, b: V<FMA>) -> V<FMA> {
    V { re: a.re + b.re, im: a.im + b.im }
}

#[inline(always)] // one instruction per part
fn sub<const FMA: bool>(a: V<FMA>, b: V<FMA>) -> V<FMA> {
    V { re: a.re - b.re, im: a.im - b.im }
}

/// a - i·b.
#[inline(always)] // one instruction per part
fn add_rotated<const FMA: bool>(a: V<FMA>, b: V<FMA>) -> V<FMA> {
    V { re: a.re + b.im, im: a.im - b.re }
}

/// a + i·b.
#[inline(always)] // one instruction per part
fn sub_rotated<const FMA: bool>(a: V<FMA>, b: V<FMA>) -> V<FMA> {
    V { re: a.re - b.im, im: a.im + b.re }
}

/// a + c·b with real c.
#[inline(always)] // one instruction per part
fn axpy<const FMA: bool>(a: V<FMA>, c: f64, b: V<FMA>) -> V<FMA> {
    let c = F4::splat(c);
    V { re: c.mul_add(b.re, a.re), im: c.mul_add(b.im, a.im) }
}

/// The butterfly of a radix; a function handed over would not inherit the instruction set.
#[inline(always)] // inlined into its pass
fn butterfly<const FMA: bool, const R: usize>(v: [V<FMA>; R]) -> [V<FMA>; R] {
    let mut y = v;
    match R {
        2 => y.copy_from_slice(&butterfly2([v[0], v[1]])),
        3 => y.copy_from_slice(&butterfly3([v[0], v[1], v[2]])),
        _ => y.copy_from_slice(&butterfly5([v[0], v[1], v[2], v[3], v[4]])),
    }
    y
}

#[inline(always)] // inlined into its pass
fn butterfly2<const FMA: bool>(v: [V<FMA>; 2]) -> [V<FMA>; 2] {
    [add(v[0], v[1]), sub(v[0], v[1])]
}

#[inline(always)] // inlined into its pass
fn butterfly4<const FMA: bool>(v: [V<FMA>; 4]) -> [V<FMA>; 4] {
    let (a, b) = (add(v[0], v[2]), sub(v[0], v[2]));
    let (c, d) = (add(v[1], v[3]), sub(v[1], v[3]));
    [add(a, c), add_rotated(b, d), sub(a, c), sub_rotated(b, d)]
}

#[inline(always)] // inlined into its pass
fn butterfly3<const FMA: bool>(v: [V<FMA>; 3]) -> [V<FMA>; 3] {
    const SIN: f64 = 0.866_025_403_784_438_6; // sin(2π/3)
    let (s, d) = (add(v[1], v[2]), sub(v[1], v[2]));
    let m = axpy(v[0], -0.5, s);
    let d = V { re: d.re * F4::splat(SIN), im: d.im * F4::splat(SIN) };
    [add(v[0], s), add_rotated(m, d), sub_rotated(m, d)]
}

#[inline(always)] // inlined into its pass
fn butterfly5<const FMA: bool>(v: [V<FMA>; 5]) -> [V<FMA>; 5] {
    const C1: f64 = 0.309_016_994_374_947_45; // cos(2π/5)
    const C2: f64 = -0.809_016_994_374_947_4; // cos(4π/5)
    const S1: f64 = 0.951_056_516_295_153_5; // sin(2π/5)
    const S2: f64 = 0.587_785_252_292_473_1; // sin(4π/5)
    let (a, b) = (add(v[1], v[4]), sub(v[1], v[4]));
    let (c, d) = (add(v[2], v[3]), sub(v[2], v[3]));
    let m1 = axpy(axpy(v[0], C1, a), C2, c);
    let m2 = axpy(axpy(v[0], C2, a), C1, c);
    let zero = V { re: F4::ZERO, im: F4::ZERO };
    let n1 = axpy(axpy(zero, S1, b), S2, d);
    let n2 = axpy(axpy(zero, S2, b), -S1, d);
    [
        add(v[0], add(a, c)),
        add_rotated(m1, n1),
        add_rotated(m2, n2),
        sub_rotated(m2, n2),
        sub_rotated(m1, n1),
    ]
}

/// Powers of two in whole lines.
#[cfg(target_arch = "x86_64")]
mod columns {
    use super::{Added, Source};
    use crate::Complex;
    use crate::cpu::ahead::ask;
    use crate::cpu::columns::{self, Passes, between, block, butterfly, by_radix, get, put, zeros};
    use crate::cpu::lanes::{F64x4, F64x8, Lanes};
    use crate::cpu::{has_eight, has_fma, threads, unrolled};
    use crate::dense::{Shared, root};
    use crate::samples::Line;
    use std::arch::x86_64::{_mm_add_pd, _mm_loadu_pd, _mm_storeu_pd};
    use std::ops::Range;

    /// Lines that fit the first cache.
    const NEAR: usize = 512;
    /// Beyond this many lines a second buffer costs more than exchanging lines in place.
    const FAR: usize = 1024;

    /// A prepared transform.
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct Plan {
        size: usize,
        passes: Passes<f64>,
        /// The factors w_j = e^{-2πij/B} for j below B/2.
        apart: Vec<Complex<f64>>,
        /// Whether there are vectors of eight: the even and the odd coefficients then go through the
        /// passes side by side, as transforms of x\[j\] + x\[j + B/2\] and of w_j(x\[j\] - x\[j + B/2\]).
        eight: bool,
    }

    impl Plan {
        /// `None` if this is no power of two, or the processor has no such vectors.
        pub(super) fn new(size: usize) -> Option<Self> {
            let fits = size.is_power_of_two() && size >= 16;
            (fits && has_fma()).then(|| Self::with_vectors(size, has_eight()))
        }

        pub(super) fn with_vectors(size: usize, eight: bool) -> Self {
            // Half of 16 would be a single level, which is first and last at once.
            let eight = eight && size >= 32;
            let passes = match size {
                _ if !eight => Passes::new(size, 4, NEAR),
                ..=FAR => Passes::new(size / 2, 8, NEAR / 2),
                _ => Passes::symmetric(size / 2, NEAR / 2),
            };
            let apart = (0..size as u64 / 2).map(|j| root(j, size as u64)).collect();
            Plan { size, passes, apart, eight }
        }

        /// e^{-2πij/B} for j below B/2.
        pub(super) fn factors(&self) -> &[Complex<f64>] {
            &self.apart
        }

        /// See [`reads_samples`](super::BucketFft::reads_samples).
        pub(super) fn reads_samples(&self) -> bool {
            self.eight
        }

        /// See [`process_and_add`](super::BucketFft::process_and_add). Of samples only if it reads them.
        pub(super) fn run(
            &self,
            source: Source<'_>,
            out: &mut [Line],
            scratch: &mut [Line],
            factor: f64,
            energy: Option<&mut [f64]>,
            read: impl FnOnce(),
        ) -> Added {
            let size = self.size;
            assert!(out.len() == size && scratch.len() >= size);
            assert!(energy.as_ref().is_none_or(|energy| energy.len() == size));
            let work = 4 * size as u64;
            let parts = if threads::is_shared(work) { self.passes.parts() } else { 1 };
            // All is read before anything is written, so both may be the same.
            let (from, order) = match source {
                Source::Lines(input) => {
                    assert!(input.len() == size);
                    (input.as_ptr().cast::<f64>(), Order::Lines)
                }
                Source::Samples(samples, step) => {
                    assert!(self.reads_samples() && samples.len() >= (size - 1) * step + 4);
                    (samples.as_ptr().cast(), Order::Samples(step))
                }
                Source::Within => (out.as_ptr().cast(), Order::Lines),
            };
            let from = Shared(from.cast_mut());
            // What is transformed must lie elsewhere.
            let elsewhere = !matches!(source, Source::Within);
            let in_place = size > FAR && self.reads_samples() && elsewhere;
            // Beyond the first cache, energies in the order of other butterflies cost more than they save.
            let energy = energy.filter(|_| self.reads_samples() && (in_place || size <= FAR));
            let added = energy.is_some();
            let energy = Shared(energy.map_or(std::ptr::null_mut(), |energy| energy.as_mut_ptr()));
            let scratch = if in_place { out.as_mut_ptr() } else { scratch.as_mut_ptr() };
            let (scratch, out) = (Shared(scratch), Shared(out.as_mut_ptr()));
            let cut = |len: usize, i: usize| len * i / parts..len * (i + 1) / parts;
            // SAFETY: the buffers have a line for every bucket, the plan was made for this
            // processor, and each part has lines of its own.
            let begin = |which: Range<usize>| unsafe {
                let (from, tile) = (from.at(0).cast_const(), scratch.at(0).cast());
                if !self.eight {
                    begin_by_four(&self.passes, which, from, tile);
                } else {
                    begin_by_eight(&self.passes, &self.apart, which, from, order, tile);
                }
            };
            // SAFETY: as above.
            let end = |part: Range<usize>| unsafe {
                let (tile, out) = (scratch.at(0).cast(), out.at(0).cast());
                if !self.eight {
                    end_by_four(&self.passes, &part, tile, out, factor);
                } else if in_place {
                    go_on_in_place(&self.passes, &part, tile);
                } else {
                    return end_by_eight(&self.passes, &part, tile, out, factor, energy.at(0));
                }
                0.0
            };
            let (butterflies, lines) = (self.passes.levels[0].apart, self.passes.len);
            // Divisions take as long as some butterflies.
            if parts == 1 {
                begin(0..butterflies);
                read();
                let sum = end(0..lines);
                // Of larger ones parts may be shared, and the sum must not depend on it.
                if added && size < FAR {
                    return Added::All(sum);
                }
            } else {
                threads::for_each(parts, |i| begin(cut(butterflies, i)));
                read();
                threads::for_each(parts, |i| _ = end(cut(lines, i)));
            }
            if in_place {
                let middles = lines / self.passes.last().pow(2);
                // Later ones have been done with earlier ones more and more often.
                let pieces = if parts > 1 { middles.min(8 * parts) } else { 1 };
                // SAFETY: as above.
                threads::for_each(pieces, |i| unsafe {
                    let which = middles * i / pieces..middles * (i + 1) / pieces;
                    end_in_place(&self.passes, which, out.at(0).cast(), factor, energy.at(0));
                });
            }
            if added { Added::Each } else { Added::Nothing }
        }
    }

    /// How the first butterflies find their lines.
    #[derive(Clone, Copy)]
    enum Order {
        /// One after the other, real parts before imaginary ones.
        Lines,
        /// This many complex samples apart.
        Samples(usize),
    }

    /// The first level, from `from` to the tile.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn begin_by_four(
        passes: &Passes<f64>,
        which: Range<usize>,
        from: *const f64,
        tile: *mut f64,
    ) {
        let first = &passes.levels[0];
        // SAFETY: the caller's promise; a line is four real parts, then four imaginary ones.
        unsafe { by_radix!(first.radix, block::<F64x4>(first, which, from, tile)) }
    }

    /// The other levels of one part, from the tile to `out`.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn end_by_four(
        passes: &Passes<f64>,
        part: &Range<usize>,
        tile: *mut f64,
        out: *mut f64,
        factor: f64,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            between::<F64x4>(passes, part, tile);
            by_radix!(passes.last(), last(passes, part, tile, out, factor));
        }
    }

    /// The last butterflies: to their places, scaled.
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn last<const R: usize>(
        passes: &Passes<f64>,
        part: &Range<usize>,
        tile: *const f64,
        out: *mut f64,
        factor: f64,
    ) {
        let apart = passes.order.len();
        for b in part.start / R..part.end / R {
            let k = passes.order[b] as usize;
            // SAFETY: the caller's promise; k + (R-1)·apart lies inside.
            unsafe {
                let x = get::<F64x4, R>(tile.add(columns::Line::<F64x4>::REALS * R * b), 1);
                for (r, y) in butterfly(x).into_iter().enumerate() {
                    let k = k + r * apart;
                    y.scale(factor).store(out.add(columns::Line::<F64x4>::REALS * k));
                }
            }
        }
    }

    /// [`begin_by_four`] of lines in pairs.
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn begin_by_eight(
        passes: &Passes<f64>,
        apart: &[Complex<f64>],
        which: Range<usize>,
        from: *const f64,
        order: Order,
        tile: *mut f64,
    ) {
        let radix = passes.levels[0].radix;
        // SAFETY: the caller's promise; two lines here are one of eight columns.
        unsafe {
            match order {
                Order::Lines => {
                    let pairs = Lines { from, half: passes.len };
                    by_radix!(radix, first_of_eight::<Lines>(passes, apart, which, pairs, tile));
                }
                Order::Samples(step) => {
                    let (step, half) = (2 * step, passes.len);
                    if from.addr().is_multiple_of(64) && step.is_multiple_of(8) {
                        let pairs = Samples::<true> { from, step, half };
                        by_radix!(
                            radix,
                            first_of_eight::<Samples<true>>(passes, apart, which, pairs, tile)
                        );
                    } else {
                        let pairs = Samples::<false> { from, step, half };
                        by_radix!(
                            radix,
                            first_of_eight::<Samples<false>>(passes, apart, which, pairs, tile)
                        );
                    }
                }
            }
        }
    }

    /// [`end_by_eight`] of one part but for its last butterflies.
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn go_on_in_place(passes: &Passes<f64>, part: &Range<usize>, tile: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { between::<F64x8>(passes, part, tile) }
    }

    /// The last butterflies of all parts, some of the sets that stay among themselves or change places
    /// with another; the passes are symmetric.
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn end_in_place(
        passes: &Passes<f64>,
        which: Range<usize>,
        tile: *mut f64,
        factor: f64,
        energy: *mut f64,
    ) {
        // SAFETY: the caller's promise.
        unsafe { by_radix!(passes.last(), last_in_place(passes, which, tile, factor, energy)) }
    }

    /// The last butterflies in place. A set of those whose number differs in its first digit alone makes
    /// the coefficients that belong where the butterflies with the reversed other digits stand.
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn last_in_place<const R: usize>(
        passes: &Passes<f64>,
        which: Range<usize>,
        tile: *mut f64,
        factor: f64,
        energy: *mut f64,
    ) {
        let middles = passes.len / R / R;
        let wide = columns::Line::<F64x8>::REALS;
        for middle in which {
            let other = passes.order[middle] as usize / R;
            if other < middle {
                continue;
            }
            // SAFETY: the caller's promise; both sets of places lie inside, and are read before they
            // are written.
            unsafe {
                let mut both = [[zeros::<F64x8, R>(); R]; 2];
                for (set, middle) in both.iter_mut().zip([middle, other]) {
                    for s in 0..R {
                        let at = tile.add(wide * R * (s * middles + middle));
                        let y = butterfly(get::<F64x8, R>(at, 1));
                        for (set, y) in set.iter_mut().zip(y) {
                            set[s] = y.scale(factor);
                        }
                    }
                }
                // A set that is its own other one is done once.
                let sets = if other == middle { 1 } else { 2 };
                for (set, middle) in both[..sets].iter().zip([other, middle]) {
                    for (r, y) in set.iter().enumerate() {
                        let first = R * (r * middles + middle);
                        for (s, y) in y.iter().enumerate() {
                            let (even, odd) = F64x8::halves(y.re, y.im);
                            let line = columns::Line { re: even, im: odd };
                            line.store(tile.add(wide * (first + s)));
                        }
                        _ = add_energies(y, energy, first, 1);
                    }
                }
            }
        }
    }

    /// Adds the energies of lines in pairs to those of the coefficients 2·first and 2·first + 1, and of
    /// every further pair that is `apart` from the one before, if there is a place for them. Returns
    /// numbers that add up to what was added.
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn add_energies<const R: usize>(
        y: &[columns::Line<F64x8>; R],
        energy: *mut f64,
        first: usize,
        apart: usize,
    ) -> F64x8 {
        // SAFETY: the caller's promise.
        let mut total = unsafe { F64x8::splat(0.0) };
        if energy.is_null() {
            return total;
        }
        // SAFETY: the caller's promise.
        unsafe {
            for some in (0..R).step_by(4) {
                let mut squares = [F64x8::splat(0.0); 4];
                for (square, y) in squares.iter_mut().zip(&y[some..]) {
                    *square = y.re.mul_add(y.re, y.im.mul(y.im));
                    total = total.add(*square);
                }
                let sums = F64x8::sums_of_halves(squares);
                for (r, sum) in (some..R).zip(sums) {
                    let to = energy.add(2 * (first + r * apart));
                    _mm_storeu_pd(to, _mm_add_pd(_mm_loadu_pd(to), sum));
                }
            }
        }
        total
    }

    /// Where the first butterflies of eight columns find lines in pairs: j and j + B/2.
    trait Pairs: Copy {
        /// Asks for a pair that is read later.
        fn soon(self, j: usize);
        /// Sum and difference, side by side.
        ///
        /// # Safety
        /// AVX-512, and there is such a pair.
        unsafe fn get(self, j: usize) -> columns::Line<F64x8>;
    }

    /// Lines one after the other.
    #[derive(Clone, Copy)]
    struct Lines {
        from: *const f64,
        half: usize,
    }

    impl Pairs for Lines {
        #[inline(always)] // nothing: they were just written, or come one after the other
        fn soon(self, _: usize) {}

        #[inline(always)] // two instructions and four loads
        unsafe fn get(self, j: usize) -> columns::Line<F64x8> {
            let line = columns::Line::<F64x4>::REALS;
            // SAFETY: the caller's promise.
            unsafe {
                let (a, b) = (self.from.add(line * j), self.from.add(line * (j + self.half)));
                let re = F64x8::sum_and_difference(a, b);
                let im = F64x8::sum_and_difference(a.add(line / 2), b.add(line / 2));
                columns::Line { re, im }
            }
        }
    }

    /// Four complex samples at every multiple of a step, in f64; `WHOLE` if none lie in two cache lines.
    #[derive(Clone, Copy)]
    struct Samples<const WHOLE: bool> {
        from: *const f64,
        step: usize,
        half: usize,
    }

    impl<const WHOLE: bool> Pairs for Samples<WHOLE> {
        #[inline(always)] // some instructions
        fn soon(self, j: usize) {
            for j in [j, j + self.half] {
                // Beyond the last line these are places that nobody reads: harmless, and no branch.
                let first = self.from.wrapping_add(self.step * j).cast::<Complex<f64>>();
                if WHOLE { ask::<_, false>(first) } else { ask::<_, true>(first) }
            }
        }

        #[inline(always)] // four instructions and two loads
        unsafe fn get(self, j: usize) -> columns::Line<F64x8> {
            // SAFETY: the caller's promise.
            unsafe {
                let (a, b) =
                    (self.from.add(self.step * j), self.from.add(self.step * (j + self.half)));
                let (a, b) = if WHOLE {
                    (F64x8::whole_samples(a), F64x8::whole_samples(b))
                } else {
                    (F64x8::samples(a), F64x8::samples(b))
                };
                let (re, im) = F64x8::split(a.add(b), a.sub(b));
                columns::Line { re, im }
            }
        }
    }

    /// [`end_by_four`] of lines in pairs; energies are added where they have a place. Returns their sum.
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn end_by_eight(
        passes: &Passes<f64>,
        part: &Range<usize>,
        tile: *mut f64,
        out: *mut f64,
        factor: f64,
        energy: *mut f64,
    ) -> f64 {
        // SAFETY: the caller's promise.
        unsafe {
            between::<F64x8>(passes, part, tile);
            by_radix!(passes.last(), last_of_eight(passes, part, tile, out, factor, energy))
        }
    }

    /// The first butterflies, of sums and turned differences of lines put side by side.
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn first_of_eight<P: Pairs, const R: usize>(
        passes: &Passes<f64>,
        apart: &[Complex<f64>],
        which: Range<usize>,
        pairs: P,
        tile: *mut f64,
    ) {
        /// Pairs that are asked for before they are read.
        const AHEAD: usize = 6;
        let wide = columns::Line::<F64x8>::REALS;
        let level = &passes.levels[0];
        let factors =
            level.twiddles[(R - 1) * which.start..(R - 1) * which.end].chunks_exact(R - 1);
        // SAFETY: the caller's promise; there are R·apart pairs, and a factor for each.
        unsafe {
            for (j, w) in which.zip(factors) {
                let mut x = zeros::<F64x8, R>();
                unrolled!(m in R, {
                    // Of the next butterfly where this one has none.
                    let later = m + AHEAD;
                    pairs.soon(j + later / R + later % R * level.apart);
                    let j = j + m * level.apart;
                    // The sums stay, the differences turn.
                    let turn = *apart.get_unchecked(j);
                    let (re, im) = (F64x8::halves_of(1.0, turn.re), F64x8::halves_of(0.0, turn.im));
                    x[m] = pairs.get(j).mul(columns::Line { re, im });
                });
                put(x, w.as_ptr(), tile.add(wide * j), level.apart);
            }
        }
    }

    /// The last butterflies: coefficients 2k and 2k + 1 to their places, scaled. Returns the sum of the
    /// energies that have a place.
    #[inline(always)] // compiled for the vectors' instructions
    unsafe fn last_of_eight<const R: usize>(
        passes: &Passes<f64>,
        part: &Range<usize>,
        tile: *const f64,
        out: *mut f64,
        factor: f64,
        energy: *mut f64,
    ) -> f64 {
        let apart = passes.order.len();
        let wide = columns::Line::<F64x8>::REALS;
        // SAFETY: the caller's promise.
        let mut total = unsafe { F64x8::splat(0.0) };
        for b in part.start / R..part.end / R {
            let k = passes.order[b] as usize;
            // SAFETY: the caller's promise; k + (R-1)·apart lies in the first half.
            unsafe {
                let x = get::<F64x8, R>(tile.add(wide * R * b), 1);
                let mut y = butterfly(x);
                for (r, y) in y.iter_mut().enumerate() {
                    // Not before: the smallest samples would vanish.
                    *y = y.scale(factor);
                    let (even, odd) = F64x8::halves(y.re, y.im);
                    columns::Line { re: even, im: odd }.store(out.add(wide * (k + r * apart)));
                }
                total = total.add(add_energies(&y, energy, k, apart));
            }
        }
        let mut sums = [0.0; 8];
        // SAFETY: there is room for eight numbers.
        unsafe { total.store(sums.as_mut_ptr()) };
        sums.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;

    #[test]
    fn halves_make_the_whole() {
        let mut rng = Rng::new(12, 0);
        let mut uniform = || rng.next() as f64 / u64::MAX as f64 - 0.5;
        for size in [2, 6, 16, 32, 128, 250, 4096] {
            let mut line =
                || Line { re: [(); 4].map(|_| uniform()), im: [(); 4].map(|_| uniform()) };
            let lines: Vec<Line> = (0..size).map(|_| line()).collect();
            let transform = |lines: &[Line]| {
                let fft = BucketFft::new(lines.len());
                let mut scratch = vec![Line::ZERO; fft.scratch_len()];
                let mut out = lines.to_vec();
                fft.process(lines, &mut out, &mut scratch, 1.0 / lines.len() as f64);
                out
            };
            let half = |first: usize| -> Vec<Line> {
                transform(&lines.iter().skip(first).step_by(2).copied().collect::<Vec<_>>())
            };
            let mut joined = [half(0), half(1)].concat();
            BucketFft::new(size).join(&mut joined);
            for (a, b) in joined.iter().zip(transform(&lines)) {
                for tau in 0..4 {
                    assert!((a.lane(tau) - b.lane(tau)).norm() < 1e-14, "size {size}");
                }
            }
        }
    }

    #[test]
    fn every_smooth_size_equals_the_naive_dft() {
        let mut rng = Rng::new(11, 0);
        let mut uniform = || rng.next() as f64 / u64::MAX as f64 - 0.5;
        for size in [
            1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 20, 25, 27, 30, 32, 60, 64, 90, 125, 128, 2048,
            2250,
        ] {
            let mut line =
                || Line { re: [(); 4].map(|_| uniform()), im: [(); 4].map(|_| uniform()) };
            let x: Vec<Line> = (0..size).map(|_| line()).collect();
            let fft = BucketFft::new(size);
            let (mut out, mut scratch) =
                (vec![Line::ZERO; size], vec![Line::ZERO; fft.scratch_len()]);
            fft.process(&x, &mut out, &mut scratch, 1.0);
            let unity = Unity::new(size as u64);
            for (b, line) in out.iter().enumerate() {
                for tau in 0..4 {
                    let naive: Complex<f64> = (0..size)
                        .map(|j| x[j].lane(tau) * unity.power(j as u64, b as u64).conj())
                        .sum();
                    let error = (naive - line.lane(tau)).norm();
                    assert!(error < 1e-14 * size as f64, "size {size} bin {b}: {error}");
                }
            }
        }
    }

    /// The kinds that this processor has, and sizes whose blocks are finished one by one.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn columns_of_every_kind_equal_the_stockham_passes() {
        let fma = crate::cpu::has_fma();
        let kinds = [(false, fma), (true, crate::cpu::has_eight())];
        for size in [16usize, 32, 64, 128, 256, 1024, 8192, 1 << 14, 1 << 15, 1 << 18] {
            let x: Vec<Line> = (0..size)
                .map(|j| Line { re: [(j as f64).sin(), 1.0, 0.5, -3.0], im: [0.25; 4] })
                .collect();
            let passes = BucketFft::stockham(size);
            let mut expected = vec![Line::ZERO; size];
            passes.process(&x, &mut expected, &mut vec![Line::ZERO; passes.scratch_len()], 0.5);
            for (eight, _) in kinds.into_iter().filter(|(_, has)| *has) {
                let plan = columns::Plan::with_vectors(size, eight);
                let (mut out, mut scratch) = (vec![Line::ZERO; size], vec![Line::ZERO; size]);
                let mut energy = vec![1.0; size];
                let added = plan.run(
                    Source::Lines(&x),
                    &mut out,
                    &mut scratch,
                    0.5,
                    Some(&mut energy),
                    || (),
                );
                let lanes = |line: &Line| (0..4).map(|tau| line.lane(tau).norm_sqr()).sum::<f64>();
                let all: f64 = out.iter().map(lanes).sum();
                match added {
                    Added::Nothing => assert!(!eight || size < 32),
                    Added::Each => assert!(eight && size >= 1024),
                    Added::All(sum) => {
                        assert!(eight && (32..1024).contains(&size));
                        assert!((sum / all - 1.0).abs() < 1e-13, "size {size}: {sum} for {all}");
                    }
                }
                let added = added != Added::Nothing;
                for b in 0..size {
                    for tau in 0..4 {
                        let error = (out[b].lane(tau) - expected[b].lane(tau)).norm();
                        assert!(error < 1e-14 * size as f64, "size {size} bin {b}: {error}");
                    }
                    let energy_of_bin = 1.0 + if added { lanes(&out[b]) } else { 0.0 };
                    let error = (energy[b] / energy_of_bin - 1.0).abs();
                    assert!(error < 1e-14, "size {size} bin {b}: {error}");
                }
                let mut within = x.clone();
                plan.run(Source::Within, &mut within, &mut scratch, 0.5, None, || ());
                assert_eq!(within, out);
            }
        }
    }

    #[test]
    fn samples_read_by_butterflies_are_those_of_lines() {
        // 16 and 240 have no such butterflies, 1024 asks ahead.
        for (size, step) in [(16usize, 5usize), (32, 4), (240, 7), (256, 16), (1024, 5)] {
            let sample = |i: usize| Complex::new((i as f64).sin(), (7 * i % 11) as f64);
            let samples: Vec<_> = (0..(size - 1) * step + 4).map(sample).collect();
            let mut lines = vec![Line::ZERO; size];
            for (j, line) in lines.iter_mut().enumerate() {
                fill_lines(&samples[j * step..j * step + 4], std::slice::from_mut(line));
            }
            let fft = BucketFft::new(size);
            let mut scratch = vec![Line::ZERO; fft.scratch_len()];
            let (mut wanted, mut out) = (lines.clone(), lines.clone());
            fft.process(&lines, &mut wanted, &mut scratch, 0.25);
            let (mut read, source) = (0, Source::Samples(&samples, step));
            fft.process_and_add(source, &mut out, &mut scratch, 0.25, None, || read += 1);
            assert_eq!((read, &out), (1, &wanted), "size {size}");
        }
    }

    #[test]
    fn steps_within_steps_have_room() {
        // 3·2^21: both steps are long transforms themselves. One line at j gives phases everywhere.
        let size = 3 << 21;
        let fft = BucketFft::stockham(size);
        let mut x = vec![Line::ZERO; size];
        x[12_345].set_lane(1, Complex::new(1.0, 0.0));
        let (mut out, mut scratch) = (vec![Line::ZERO; size], vec![Line::ZERO; fft.scratch_len()]);
        fft.process(&x, &mut out, &mut scratch, 1.0);
        let unity = Unity::new(size as u64);
        for b in (0..size).step_by(9_999) {
            let wanted = unity.power(12_345, b as u64).conj();
            assert!((out[b].lane(1) - wanted).norm() < 1e-12, "bin {b}");
            assert_eq!(out[b].lane(0), Complex::ZERO);
        }
    }

    #[test]
    fn both_instruction_sets_agree() {
        let fft = BucketFft::new(240);
        let x: Vec<Line> = (0..240)
            .map(|j| Line { re: [j as f64, 1.0, 0.5, -3.0], im: [0.25 * j as f64; 4] })
            .collect();
        let (mut wide, mut scratch) = (vec![Line::ZERO; 240], vec![Line::ZERO; 240]);
        fft.process(&x, &mut wide, &mut scratch, 1.0);
        let mut plain = x.clone();
        let Steps::Short(passes) = &fft.steps else { panic!("240 is short") };
        for pass in passes {
            let mut next = vec![Line::ZERO; 240];
            pass_body::<false>(pass, &plain, &mut next);
            plain = next;
        }
        for (a, b) in wide.iter().zip(&plain) {
            for t in 0..4 {
                assert!((a.lane(t) - b.lane(t)).norm() < 1e-10);
            }
        }
    }
}
