//! A comb: B lines of the signal, s samples apart, windowed and transformed.
//!
//! U\[b\]\[D + τ\] = Σ_r g_r x\[base + s·r + D + τ\] e^{-2πi(r-B/2)b/B}
//!             = Σ_i A_i e^{2πiν_i(t_c + D + τ - T)} Ĝ(P_i - b),  P = B·frac(νs)
//!
//! with T = n/2 the middle of the record, A = a·e^{2πiνT} the amplitude there, and t_c the middle
//! of the comb. B need not divide n: any stride s serves, so that combs of several strides are
//! independent hashes. The span sB is nearly n, so that tones d bins apart are d bins apart in
//! every comb. Phases are counted from T: amplitudes and frequencies are then nearly uncorrelated.

use super::window::Window;
use crate::algorithms::Run;
use crate::cpu::dispatch;
use crate::cpu::math::{cis_each, cis_turns};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::F4;
use crate::judge::ReadSet;
use crate::plan::Prepared;
use crate::samples::{Line, non_finite_in};
use crate::stages::Stage;
use crate::stages::bucket_fft::BucketFft;
use crate::stages::hash::add_energies;
use crate::stages::locate::{Lanes, MAX_LINES};
use crate::stages::number::Rng;
use crate::{Complex, Error};
use std::ops::Range;
use std::sync::Arc;

/// A tone as the solver keeps it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tone {
    /// Cycles per sample, -1/2 … 1/2.
    pub(crate) nu: f64,
    /// Amplitude in the middle of the record.
    pub(crate) amplitude: Complex<f64>,
    /// Change of the frequency per sample, in cycles per sample.
    pub(crate) drift: f64,
}

impl Tone {
    /// Nothing.
    pub(crate) const NONE: Tone = Tone { nu: 0.0, amplitude: Complex::ZERO, drift: 0.0 };
}

/// Where a comb reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) n: u64,
    pub(crate) bins: usize,
    pub(crate) stride: u64,
    pub(crate) base: u64,
    /// Offsets of the ladder, 0 first.
    pub(crate) ladder: Offsets,
}

/// Offsets of the lines of a comb.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Offsets {
    count: usize,
    all: [u64; MAX_LINES],
}

impl Offsets {
    /// Appends one, if there is room.
    pub(crate) fn push(&mut self, offset: u64) {
        if let Some(next) = self.all.get_mut(self.count) {
            *next = offset;
            self.count += 1;
        }
    }
}

impl std::ops::Deref for Offsets {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.all[..self.count]
    }
}

impl FromIterator<u64> for Offsets {
    fn from_iter<I: IntoIterator<Item = u64>>(from: I) -> Self {
        let mut out = Self::default();
        from.into_iter().for_each(|d| out.push(d));
        out
    }
}

impl Geometry {
    /// The comb number `which` with B bins: 0 has the widest stride, the others random narrower
    /// ones. Even numbers have strides 4·odd, whose lines are aligned; odd numbers have odd
    /// strides, which tell apart tones whose distance is a multiple of a quarter of the rate.
    /// `None` where n is too short.
    pub(crate) fn new(n: u64, bins: usize, which: u64, seed: u64) -> Option<Self> {
        // s(B-1) + s/8 + 4 ≤ n.
        let widest = (n.checked_sub(4)? * 8) / (8 * (bins as u64 - 1) + 1);
        if widest < 8 {
            return None;
        }
        let mut stride = widest;
        if which > 0 {
            let mut rng = Rng::new(seed, 1000 + which);
            // Each comb has a slice of its own between 0.80 and 0.99 of the widest.
            let slice = (which * 7 % 10) as f64 / 10.0;
            let share =
                0.80 + 0.19 * (slice + 0.1 * rng.below(1 << 20) as f64 / (1u64 << 20) as f64);
            stride = ((widest as f64 * share) as u64).max(8);
        }
        if widest >= 16 {
            stride = if which % 2 == 1 {
                (stride - 1) | 1
            } else {
                let quarter = stride / 4;
                4 * if quarter.is_multiple_of(2) { quarter - 1 } else { quarter }
            };
        } else if which > 0 {
            // Few strides exist; any other one is better than none.
            stride = 8 + (stride + which) % (widest - 7).max(1);
        }
        if stride < 8 {
            return None;
        }
        let ladder = ladder(stride);
        let span = stride * (bins as u64 - 1) + ladder[ladder.len() - 1] + 4;
        let mut base = n.checked_sub(span)? / 2;
        if which.is_multiple_of(2) {
            base &= !3;
        }
        Some(Geometry { n, bins, stride, base, ladder })
    }

    /// t_c - T.
    pub(crate) fn shift(&self) -> f64 {
        (self.base + self.stride * self.bins as u64 / 2) as f64 - 0.5 * self.n as f64
    }

    /// Bins of the comb per cycle per sample: P = νsB.
    pub(crate) fn scale(&self) -> f64 {
        self.stride as f64 * self.bins as f64
    }

    /// P of a frequency.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn position(&self, nu: f64) -> f64 {
        let turns = nu * self.stride as f64;
        let rest = turns - turns as i64 as f64;
        let p = (if rest < 0.0 { rest + 1.0 } else { rest }) * self.bins as f64;
        if p < self.bins as f64 { p } else { 0.0 }
    }

    /// The frequency at position P whose alias is nearest to t cycles per sample, and how far
    /// from t it is, in aliases.
    #[inline]
    pub(crate) fn unalias(&self, position: f64, t: f64) -> (f64, f64) {
        let fraction = position / self.bins as f64;
        let s = self.stride as f64;
        let m = nearest(t * s - fraction);
        let away = (t * s - fraction - m).abs();
        let nu = (fraction + m) / s;
        (nu - nearest(nu), away)
    }

    /// Distance of two positions around the circle of bins.
    #[inline]
    pub(crate) fn distance(&self, a: f64, b: f64) -> f64 {
        let size = self.bins as f64;
        let d = (a - b).abs();
        d.min(size - d)
    }
}

/// Offsets 0 < D_1 < … up to an eighth of the stride, each at most 16 times the last: the phase
/// between neighbouring samples leads to the alias in steps that noise and neighbours in the bin
/// cannot break.
fn ladder(stride: u64) -> Offsets {
    let last = (stride / 8).max(4) as f64;
    let (mut rungs, mut ratio) = (1.0, last);
    if last > 16.0 {
        rungs = (last.ln() / 16f64.ln() - 1e-9).ceil();
        ratio = (last.ln() / rungs).exp();
    }
    let mut out = Offsets::from_iter([0]);
    let mut offset = 1.0;
    for _ in 0..rungs as u64 {
        offset *= ratio;
        let d = (offset / 4.0).round().max(1.0) as u64 * 4;
        if d > out[out.len() - 1] {
            out.push(d);
        }
    }
    out
}

/// The bins of one comb.
#[derive(Debug)]
pub(crate) struct Comb {
    pub(crate) geometry: Geometry,
    pub(crate) window: Arc<Window>,
    fft: Arc<BucketFft>,
    /// Offsets measured so far, a prefix of the ladder.
    pub(crate) offsets: Offsets,
    /// 1, then t_c + D - T of each offset.
    times: [f64; MAX_LINES + 4],
    /// The lines as read, offset after offset, so that another window need not fetch them again. Empty
    /// where the signal lies in memory: reading it again is rare, and what is not kept leaves the cache
    /// to the bins. Like the residual, this may be longer than what was measured.
    raw: Vec<Line>,
    /// The bins, offset after offset, less what has been peeled.
    pub(crate) residual: Vec<Line>,
    /// Energy of each bin's residual over all lanes.
    pub(crate) energy: Vec<f64>,
}

impl Comb {
    /// A comb without measurements.
    pub(crate) fn new(plan: &Prepared, geometry: Geometry, beta: f64) -> Self {
        let bins = geometry.bins;
        Comb {
            window: plan.tone_window(beta, bins),
            fft: plan.fft(bins),
            geometry,
            offsets: Offsets::default(),
            times: [1.0; MAX_LINES + 4],
            raw: Vec::new(),
            residual: Vec::new(),
            energy: Vec::new(),
        }
    }

    /// Number of bins B.
    pub(crate) fn bins(&self) -> usize {
        self.geometry.bins
    }

    /// Lanes per bin.
    pub(crate) fn lanes(&self) -> usize {
        4 * self.offsets.len()
    }

    /// Reads the lines of the next `count` rungs and appends them to every bin, less the known
    /// tones.
    pub(crate) fn measure(
        &mut self,
        run: &mut Run<'_>,
        count: usize,
        known: &[Tone],
    ) -> Result<(), Error> {
        let bins = self.bins();
        let from = self.offsets.len();
        let to = (from + count).min(self.geometry.ladder.len());
        if self.residual.is_empty() {
            let all = self.geometry.ladder.len() * bins;
            self.residual = run.workspace.take_at_least(all);
            self.energy = run.workspace.comb_energies.pop().unwrap_or_default();
            if !run.signal.in_memory() {
                self.raw = run.workspace.take_at_least(all);
            }
        }
        for j in from..to {
            let d = self.geometry.ladder[j];
            let set = ReadSet::lines(self.geometry.base + d, self.geometry.stride, bins);
            if !self.raw.is_empty() {
                let lines = &mut self.raw[j * bins..(j + 1) * bins];
                run.signal.read_lines(self.geometry.base + d, self.geometry.stride, lines)?;
                run.workspace.evidence.note_lines(set, lines, false);
            } else {
                run.workspace.evidence.note(set);
            }
            run.samples_read += 4 * bins as u64;
            self.offsets.push(d);
            self.times[j + 1] = self.geometry.shift() + d as f64;
        }
        self.transform(run, from)?;
        known.iter().for_each(|t| peel(self, t, from, -1.0));
        let sum = if from == 0 { self.sum_energies() } else { self.add_energies(from..to) };
        // Energies are not negative: their sum is finite unless one of them is not, or nearly so.
        if !sum.is_finite() {
            let g = &self.geometry;
            let mut lines = Vec::new();
            for (j, d) in self.offsets.iter().enumerate() {
                lines.clear();
                self.read_every(run, j, 1, &mut lines)?;
                let found = non_finite_in(&lines, g.base + d, g.stride, run.plan.problem.n);
                if let Some(error) = found {
                    return Err(error);
                }
            }
            return Err(Error::Overflow { limit: 1e150 });
        }
        Ok(())
    }

    /// Windows and transforms the lines from offset number `from` on.
    fn transform(&mut self, run: &mut Run<'_>, from: usize) -> Result<(), Error> {
        let bins = self.bins();
        // Several short ones at a time; they still fit the first cache.
        const TOGETHER: usize = 512;
        let most = (TOGETHER / bins).min(self.offsets.len() - from).max(1);
        let mut weighted = run.workspace.take_at_least(most * bins);
        let mut scratch = run.workspace.take_at_least(self.fft.scratch_len());
        let mut outcome = Ok(());
        for first in (from..self.offsets.len()).step_by(most) {
            let which = first..(first + most).min(self.offsets.len());
            for (j, to) in which.clone().zip(weighted.chunks_exact_mut(bins)) {
                if self.raw.is_empty() {
                    outcome = outcome.and_then(|()| self.read_weighed(run, j, to));
                } else {
                    weigh(&self.window.taps, &self.raw[j * bins..(j + 1) * bins], to);
                }
            }
            if outcome.is_err() {
                break;
            }
            run.clock.lap(Stage::Permute);
            for (j, lines) in which.zip(weighted.chunks_exact(bins)) {
                let to = &mut self.residual[j * bins..(j + 1) * bins];
                self.fft.process(lines, to, &mut scratch, 1.0);
            }
            run.clock.lap(Stage::BucketFft);
        }
        run.workspace.give(weighted);
        run.workspace.give(scratch);
        outcome
    }

    /// Reads the lines of offset number j under the window, whose centre moves to position 0.
    fn read_weighed(&self, run: &Run<'_>, j: usize, out: &mut [Line]) -> Result<(), Error> {
        // Windowed while they lie in the first cache.
        const BLOCK: usize = 256;
        let g = &self.geometry;
        let half = g.bins / 2;
        let block = BLOCK.min(half);
        let start = g.base + self.offsets[j];
        for first in (0..g.bins).step_by(block) {
            let at = if first < half { first + half } else { first - half };
            let lines = &mut out[at..at + block];
            run.signal.read_lines(start + first as u64 * g.stride, g.stride, lines)?;
            scale(&self.window.taps[first..first + block], lines);
        }
        Ok(())
    }

    /// Appends every `step`-th line of offset number j as it is in the signal.
    pub(crate) fn read_every(
        &self,
        run: &Run<'_>,
        j: usize,
        step: usize,
        out: &mut Vec<Line>,
    ) -> Result<(), Error> {
        let (g, bins) = (&self.geometry, self.bins());
        if !self.raw.is_empty() {
            out.extend(self.raw[j * bins..(j + 1) * bins].iter().step_by(step));
            return Ok(());
        }
        let from = out.len();
        out.resize(from + bins.div_ceil(step), Line::ZERO);
        run.signal.read_lines(g.base + self.offsets[j], step as u64 * g.stride, &mut out[from..])
    }

    /// The same lines under another window; nothing is peeled any more.
    pub(crate) fn rewindow(&mut self, run: &mut Run<'_>, beta: f64) -> Result<(), Error> {
        self.window = run.plan.tone_window(beta, self.bins());
        self.transform(run, 0)?;
        self.sum_energies();
        Ok(())
    }

    /// Recomputes every bin's energy; returns the sum.
    pub(crate) fn sum_energies(&mut self) -> f64 {
        let bins = self.bins();
        self.energy.clear();
        self.energy.resize(bins, 0.0);
        self.add_energies(0..self.offsets.len())
    }

    /// Adds the energies of the lines of these offsets; returns the sum of what was added.
    fn add_energies(&mut self, offsets: Range<usize>) -> f64 {
        let bins = self.bins();
        let lines = &self.residual[offsets.start * bins..offsets.end * bins];
        lines.chunks_exact(bins).map(|part| add_energies(part, &mut self.energy)).sum()
    }

    /// The residual lanes of one bin.
    pub(crate) fn lanes_of(&self, b: usize) -> Lanes<'_> {
        Lanes { data: &self.residual[b..], stride: self.bins(), offsets: &self.offsets }
    }

    /// Copies the residual lines of one bin.
    pub(crate) fn lines_of(&self, b: usize) -> ([Line; MAX_LINES], usize) {
        let mut out = [Line::ZERO; MAX_LINES];
        let count = self.offsets.len();
        for (j, out) in out[..count].iter_mut().enumerate() {
            *out = self.residual[j * self.bins() + b];
        }
        (out, count)
    }

    /// Subtracts a tone from the bins and keeps their energies current.
    pub(crate) fn remove(&mut self, tone: &Tone) {
        self.add(tone, -1.0);
    }

    /// Puts a tone back.
    pub(crate) fn restore(&mut self, tone: &Tone) {
        self.add(tone, 1.0);
    }

    fn add(&mut self, tone: &Tone, sign: f64) {
        if tone.drift != 0.0 {
            super::drift::peel(self, tone, 0, sign);
            self.sum_energies();
        } else {
            add_tone(self, tone, sign);
        }
    }

    /// Replaces a tone by a better one.
    pub(crate) fn replace(&mut self, old: &Tone, new: &Tone) {
        let whole = |t: &Tone| self.geometry.position(t.nu) as usize;
        if old.drift == 0.0 && new.drift == 0.0 && whole(old) == whole(new) {
            swap_tones(self, old, new);
        } else {
            self.restore(old);
            self.remove(new);
        }
    }

    /// The residual of the bins from `first` on, averaged over all lanes against the phasors of a
    /// frequency: what a tone of that frequency has there, with noise divided by the lanes.
    pub(crate) fn project(&self, nu: f64, first: usize, out: &mut [Complex<f64>]) {
        project_bins(self, nu, first, out);
    }

    /// e^{2πiν(t_c + D + τ - T)} of all lanes.
    pub(crate) fn phasors(&self, nu: f64) -> [Line; MAX_LINES] {
        let mut out = [Line::ZERO; MAX_LINES];
        phasors_of(self, nu, &mut out);
        out
    }

    /// Mean of t - T over the lanes.
    pub(crate) fn mean_time(&self) -> f64 {
        let sum: u64 = self.offsets.iter().sum();
        self.geometry.shift() + sum as f64 / self.offsets.len() as f64 + 1.5
    }

    /// Hands the buffers back.
    pub(crate) fn recycle(self, run: &mut Run<'_>) {
        run.workspace.give(self.raw);
        run.workspace.give(self.residual);
        run.workspace.comb_energies.push(self.energy);
    }
}

/// The nearest integer, for numbers up to 2^51: an addition pushes the fraction out.
#[inline(always)] // two instructions
pub(crate) fn nearest(x: f64) -> f64 {
    const BIG: f64 = 1.5 * (1u64 << 52) as f64;
    (x + BIG) - BIG
}

/// e^{2πi·turns}.
#[inline]
pub(crate) fn turn(turns: f64) -> Complex<f64> {
    let (c, s) = cis_turns(turns - nearest(turns));
    Complex::new(c, s)
}

dispatch_rows! {
    /// Multiplies the lines by the window and moves its centre to position 0.
    fn weigh(taps: &[f64], lines: &[Line], out: &mut [Line]) = weigh_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn weigh_body<const FMA: bool, R: Row>(taps: &[f64], lines: &[Line], out: &mut [Line]) {
    let half = out.len() / 2;
    let (front, back) = out.split_at_mut(half);
    for (to, (&g, line)) in back.iter_mut().zip(taps.iter().zip(lines)) {
        R::load(line).scaled(g).store(to);
    }
    for (to, (&g, line)) in front.iter_mut().zip(taps[half..].iter().zip(&lines[half..])) {
        R::load(line).scaled(g).store(to);
    }
}

dispatch_rows! {
    /// Multiplies lines by the window.
    fn scale(taps: &[f64], lines: &mut [Line]) = scale_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn scale_body<const FMA: bool, R: Row>(taps: &[f64], lines: &mut [Line]) {
    for (line, &g) in lines.iter_mut().zip(taps) {
        R::load(line).scaled(g).store(line);
    }
}

dispatch! {
    /// The sum of all.
    pub(crate) fn total(energy: &[f64]) -> f64 = total_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn total_body<const FMA: bool>(energy: &[f64]) -> f64 {
    let (four, rest) = energy.as_chunks::<4>();
    let mut sum = F4::<FMA>::ZERO;
    for e in four {
        sum = sum + F4(*e);
    }
    sum.sum() + rest.iter().sum::<f64>()
}

dispatch! {
    /// The largest of these, none of which is negative; 0 for none.
    pub(crate) fn largest(energy: &[f64]) -> f64 = largest_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn largest_body<const FMA: bool>(energy: &[f64]) -> f64 {
    let (four, rest) = energy.as_chunks::<4>();
    let mut most = F4::<FMA>::ZERO;
    for e in four {
        most = most.max(F4(*e));
    }
    most.0.iter().chain(rest).copied().fold(0.0, f64::max)
}

dispatch! {
    /// How many of these are above a limit.
    pub(crate) fn above(energy: &[f64], limit: f64) -> usize = above_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn above_body<const FMA: bool>(energy: &[f64], limit: f64) -> usize {
    let (sixteen, rest) = energy.as_chunks::<16>();
    let (limits, one) = (F4::<FMA>::splat(limit), F4::<FMA>::splat(1.0));
    // Four sums, so that none waits for the last.
    let mut counts = [F4::<FMA>::ZERO; 4];
    for e in sixteen {
        for (count, e) in counts.iter_mut().zip(e.as_chunks::<4>().0) {
            *count = *count + one.where_or(limits.below(F4(*e)), F4::ZERO);
        }
    }
    let mut count = F4::sums(counts).sum() as usize;
    for &e in rest {
        count += usize::from(e > limit);
    }
    count
}

/// e^{2πiν(t_c + D + τ - T)} of all lanes, perhaps times an amplitude: a factor for every line, and
/// the powers of e^{2πiν} within it.
#[derive(Clone, Copy)]
pub(crate) struct Phasors<const FMA: bool> {
    powers: (F4<FMA>, F4<FMA>),
    /// The factor of line j is number j + 1.
    re: [f64; MAX_LINES + 4],
    im: [f64; MAX_LINES + 4],
}

impl<const FMA: bool> Phasors<FMA> {
    pub(crate) const NONE: Self = Phasors {
        powers: (F4::ZERO, F4::ZERO),
        re: [0.0; MAX_LINES + 4],
        im: [0.0; MAX_LINES + 4],
    };

    /// Those of a frequency in a comb.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn new(comb: &Comb, nu: f64) -> Self {
        let mut out = Self::NONE;
        let nu = F4::<FMA>::splat(nu);
        // The step from lane to lane and the first lane of each line, four phases at a time.
        let used = comb.offsets.len() / 4 + 1;
        for (at, times) in comb.times.as_chunks::<4>().0.iter().enumerate().take(used) {
            let x = nu * F4(*times);
            let (c, s) = cis_each(x - x.round());
            out.re[4 * at..4 * at + 4].copy_from_slice(&c.0);
            out.im[4 * at..4 * at + 4].copy_from_slice(&s.0);
        }
        // 1, z, z², z³.
        let (c, s) = (out.re[0], out.im[0]);
        let (c2, s2) = (c * c - s * s, 2.0 * c * s);
        out.powers = (F4([1.0, c, c2, c2 * c - s2 * s]), F4([0.0, s, s2, c2 * s + s2 * c]));
        out
    }

    /// All of them times a number.
    #[inline(always)] // must inherit the instruction set of its caller
    fn times(self, a: Complex<f64>) -> Self {
        Phasors { powers: turned(self.powers, a), ..self }
    }

    /// Real and imaginary parts of the lanes of line j.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn line(&self, j: usize) -> (F4<FMA>, F4<FMA>) {
        turned(self.powers, Complex::new(self.re[j + 1], self.im[j + 1]))
    }

    /// Sum over the first lines of conj(these)·those.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn along(&self, those: &Self, lines: usize) -> Complex<f64> {
        let ((a, b), (c, d)) = (self.powers, those.powers);
        let within = Complex::new(a.mul_add(c, b * d).sum(), b.negate_mul_add(c, a * d).sum());
        let mut sum = Complex::<f64>::ZERO;
        for j in 1..=lines {
            let (p, q) =
                (Complex::new(self.re[j], self.im[j]), Complex::new(those.re[j], those.im[j]));
            sum += p.conj() * q;
        }
        sum * within
    }
}

/// Four complex numbers times one.
#[inline(always)] // must inherit the instruction set of its caller
fn turned<const FMA: bool>((re, im): (F4<FMA>, F4<FMA>), by: Complex<f64>) -> (F4<FMA>, F4<FMA>) {
    let (c, s) = (F4::splat(by.re), F4::splat(by.im));
    (im.negate_mul_add(s, re * c), re.mul_add(s, im * c))
}

dispatch! {
    /// The phasors of all lanes.
    fn phasors_of(comb: &Comb, nu: f64, out: &mut [Line; MAX_LINES]) = phasors_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn phasors_body<const FMA: bool>(comb: &Comb, nu: f64, out: &mut [Line; MAX_LINES]) {
    let phasors = Phasors::<FMA>::new(comb, nu);
    for (j, line) in out[..comb.offsets.len()].iter_mut().enumerate() {
        let (re, im) = phasors.line(j);
        (line.re, line.im) = (re.0, im.0);
    }
}

/// Adds sign times a tone to the lines from offset number `from` on. Energies are not updated.
fn peel(comb: &mut Comb, tone: &Tone, from: usize, sign: f64) {
    if tone.drift != 0.0 {
        super::drift::peel(comb, tone, from, sign);
    } else {
        peel_lines(comb, tone, from, sign);
    }
}

dispatch_rows! {
    /// [`peel`] for tones that do not drift.
    fn peel_lines(comb: &mut Comb, tone: &Tone, from: usize, sign: f64) = peel_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn peel_body<const FMA: bool, R: Row>(comb: &mut Comb, tone: &Tone, from: usize, sign: f64) {
    let foot = comb.window.foot::<FMA>(comb.geometry.position(tone.nu), comb.window.half);
    let phasors = Phasors::<FMA>::new(comb, tone.nu).times(tone.amplitude * sign);
    let (bins, lines) = (comb.bins(), comb.offsets.len());
    let residual = comb.residual[..lines * bins].chunks_exact_mut(bins);
    for (j, part) in residual.enumerate().skip(from) {
        let (re, im) = phasors.line(j);
        let value = R::of(re, im);
        for (bin, at, count) in parts(foot.first, foot.count, bins) {
            let gains = &foot.gain[at..at + count];
            for (to, &gain) in part[bin..bin + count].iter_mut().zip(gains) {
                R::load(to).plus(gain, value).store(to);
            }
        }
    }
}

/// The two parts of a footprint that may wrap at the last bin.
#[inline(always)] // arithmetic of addresses
fn parts(first: usize, count: usize, bins: usize) -> [(usize, usize, usize); 2] {
    let head = count.min(bins - first);
    [(first, 0, head), (0, head, count - head)]
}

dispatch_rows! {
    /// Adds sign times a tone to all lines and renews the energies of its bins.
    fn add_tone(comb: &mut Comb, tone: &Tone, sign: f64) = add_tone_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn add_tone_body<const FMA: bool, R: Row>(comb: &mut Comb, tone: &Tone, sign: f64) {
    let foot = comb.window.foot::<FMA>(comb.geometry.position(tone.nu), comb.window.half);
    let phasors = Phasors::<FMA>::new(comb, tone.nu).times(tone.amplitude * sign);
    for at in (0..foot.count).step_by(4) {
        let bin = wrapped(foot.first + at, comb.bins());
        if bin + 4 <= comb.bins() {
            add_to::<FMA, R, 4>(comb, &phasors, bin, &foot.gain[at..]);
        } else {
            for k in 0..4 {
                let bin = wrapped(bin + k, comb.bins());
                add_to::<FMA, R, 1>(comb, &phasors, bin, &foot.gain[at + k..]);
            }
        }
    }
}

/// Adds phasors times these gains to the bins from `bin` on, and renews their energies.
#[inline(always)] // must inherit the instruction set of its caller
fn add_to<const FMA: bool, R: Row, const BINS: usize>(
    comb: &mut Comb,
    phasors: &Phasors<FMA>,
    bin: usize,
    gains: &[f64],
) {
    let (bins, lines) = (comb.bins(), comb.offsets.len());
    let mut gain = [0.0; BINS];
    gain.copy_from_slice(&gains[..BINS]);
    let mut energy = [R::zero(); BINS];
    for (j, part) in comb.residual[..lines * bins].chunks_exact_mut(bins).enumerate() {
        let (re, im) = phasors.line(j);
        let value = R::of(re, im);
        for (k, to) in part[bin..bin + BINS].iter_mut().enumerate() {
            let v = R::load(to).plus(gain[k], value);
            energy[k] = v.mul_add(v, energy[k]);
            v.store(to);
        }
    }
    renew::<FMA, R, BINS>(&mut comb.energy[bin..bin + BINS], &energy);
}

/// Writes the sums of these.
#[inline(always)] // must inherit the instruction set of its caller
fn renew<const FMA: bool, R: Row, const BINS: usize>(out: &mut [f64], energy: &[R; BINS]) {
    if BINS == 4 {
        let mut folded = [F4::<FMA>::ZERO; 4];
        for (to, from) in folded.iter_mut().zip(energy) {
            let (re, im) = from.parts();
            *to = re + im;
        }
        out.copy_from_slice(&F4::sums(folded).0);
    } else {
        for (to, from) in out.iter_mut().zip(energy) {
            let (re, im) = from.parts::<FMA>();
            *to = (re + im).sum();
        }
    }
}

dispatch_rows! {
    /// Puts a tone back and subtracts another one with the same bins.
    fn swap_tones(comb: &mut Comb, old: &Tone, new: &Tone) = swap_tones_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn swap_tones_body<const FMA: bool, R: Row>(comb: &mut Comb, old: &Tone, new: &Tone) {
    let foot = comb.window.foot::<FMA>(comb.geometry.position(old.nu), comb.window.half);
    let next = comb.window.foot::<FMA>(comb.geometry.position(new.nu), comb.window.half);
    let both = [
        Phasors::<FMA>::new(comb, old.nu).times(old.amplitude),
        Phasors::<FMA>::new(comb, new.nu).times(new.amplitude),
    ];
    for at in (0..foot.count).step_by(4) {
        let bin = wrapped(foot.first + at, comb.bins());
        if bin + 4 <= comb.bins() {
            let gains = [&foot.gain[at..], &next.gain[at..]];
            swap_in::<FMA, R, 4>(comb, &both, bin, gains);
        } else {
            for k in 0..4 {
                let bin = wrapped(bin + k, comb.bins());
                let gains = [&foot.gain[at + k..], &next.gain[at + k..]];
                swap_in::<FMA, R, 1>(comb, &both, bin, gains);
            }
        }
    }
}

/// Adds the first phasors times their gains to the bins from `bin` on and subtracts the second.
#[inline(always)] // must inherit the instruction set of its caller
fn swap_in<const FMA: bool, R: Row, const BINS: usize>(
    comb: &mut Comb,
    phasors: &[Phasors<FMA>; 2],
    bin: usize,
    gains: [&[f64]; 2],
) {
    let (bins, lines) = (comb.bins(), comb.offsets.len());
    let [mut gain, mut loss] = [[0.0; BINS]; 2];
    gain.copy_from_slice(&gains[0][..BINS]);
    loss.copy_from_slice(&gains[1][..BINS]);
    let mut energy = [R::zero(); BINS];
    for (j, part) in comb.residual[..lines * bins].chunks_exact_mut(bins).enumerate() {
        let (re, im) = phasors[0].line(j);
        let old = R::of(re, im);
        let (re, im) = phasors[1].line(j);
        let new = R::of(re, im);
        for (k, to) in part[bin..bin + BINS].iter_mut().enumerate() {
            let v = R::load(to).plus(gain[k], old).minus(loss[k], new);
            energy[k] = v.mul_add(v, energy[k]);
            v.store(to);
        }
    }
    renew::<FMA, R, BINS>(&mut comb.energy[bin..bin + BINS], &energy);
}

dispatch_rows! {
    /// out\[i\] = mean over the lanes of conj(phasor)·residual in bin first + i.
    fn project_bins(comb: &Comb, nu: f64, first: usize, out: &mut [Complex<f64>]) = project_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn project_body<const FMA: bool, R: Row>(
    comb: &Comb,
    nu: f64,
    first: usize,
    out: &mut [Complex<f64>],
) {
    let phasors = Phasors::<FMA>::new(comb, nu);
    let mut first = first;
    for out in out.chunks_mut(4) {
        let (re, im) = project_four::<FMA, R>(comb, &phasors, first);
        for (k, out) in out.iter_mut().enumerate() {
            *out = Complex::new(re.0[k], im.0[k]);
        }
        first = wrapped(first + 4, comb.bins());
    }
}

/// The same with phasors that are known already, for the first `count` bins, a multiple of 4, and
/// in two parts.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn project_with<const FMA: bool, R: Row, const MOST: usize>(
    comb: &Comb,
    phasors: &Phasors<FMA>,
    first: usize,
    count: usize,
    out: (&mut [f64; MOST], &mut [f64; MOST]),
) {
    let mut first = first;
    for at in (0..count).step_by(4) {
        let (re, im) = project_four::<FMA, R>(comb, phasors, first);
        out.0[at..at + 4].copy_from_slice(&re.0);
        out.1[at..at + 4].copy_from_slice(&im.0);
        first = wrapped(first + 4, comb.bins());
    }
}

/// A bin that may lie behind the last.
#[inline(always)] // arithmetic of addresses
fn wrapped(b: usize, bins: usize) -> usize {
    if b >= bins { b - bins } else { b }
}

/// Four bins.
#[inline(always)] // must inherit the instruction set of its caller
fn project_four<const FMA: bool, R: Row>(
    comb: &Comb,
    phasors: &Phasors<FMA>,
    first: usize,
) -> (F4<FMA>, F4<FMA>) {
    let bins = comb.bins();
    let [mut re, mut im] = [[F4::<FMA>::ZERO; 4]; 2];
    if first + 4 <= bins {
        (re, im) = project_bins_of::<FMA, R, 4>(comb, phasors, first);
    } else {
        for k in 0..4 {
            let (one, other) =
                project_bins_of::<FMA, R, 1>(comb, phasors, wrapped(first + k, bins));
            (re[k], im[k]) = (one[0], other[0]);
        }
    }
    let scale = F4::splat(1.0 / comb.lanes() as f64);
    (F4::sums(re) * scale, F4::sums(im) * scale)
}

/// conj(phasor)·residual of neighbouring bins, not yet summed within the lines.
#[inline(always)] // must inherit the instruction set of its caller
fn project_bins_of<const FMA: bool, R: Row, const BINS: usize>(
    comb: &Comb,
    phasors: &Phasors<FMA>,
    first: usize,
) -> ([F4<FMA>; BINS], [F4<FMA>; BINS]) {
    let bins = comb.bins();
    let [mut re, mut im] = [[F4::<FMA>::ZERO; BINS]; 2];
    let lines = comb.residual.chunks_exact(bins).take(comb.offsets.len()).enumerate();
    if R::ONE {
        // Both parts times the cosine, and both times the sine.
        let [mut even, mut odd] = [[R::zero(); BINS]; 2];
        for (j, part) in lines {
            let (c, s) = phasors.line(j);
            let (c, s) = (R::of(c, c), R::of(s, s));
            for (k, u) in part[first..first + BINS].iter().enumerate() {
                let u = R::load(u);
                (even[k], odd[k]) = (c.mul_add(u, even[k]), s.mul_add(u, odd[k]));
            }
        }
        for k in 0..BINS {
            let ((cx, cy), (sx, sy)) = (even[k].parts(), odd[k].parts());
            (re[k], im[k]) = (cx + sy, cy - sx);
        }
        return (re, im);
    }
    for (j, part) in lines {
        let (c, s) = phasors.line(j);
        for (k, u) in part[first..first + BINS].iter().enumerate() {
            let (x, y) = (F4(u.re), F4(u.im));
            re[k] = s.mul_add(y, c.mul_add(x, re[k]));
            im[k] = s.negate_mul_add(x, c.mul_add(y, im[k]));
        }
    }
    (re, im)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::rows::Halves;

    /// A comb of noise, not read from anywhere.
    fn comb(bins: usize) -> Comb {
        let geometry = Geometry::new(1 << 20, bins, 0, 0).expect("the record is long enough");
        let mut rng = Rng::new(7, bins as u64);
        let mut uniform = || rng.next() as f64 / u64::MAX as f64 - 0.5;
        let lines = geometry.ladder.len();
        let mut line = || Line { re: [(); 4].map(|_| uniform()), im: [(); 4].map(|_| uniform()) };
        let mut out = Comb {
            window: Arc::new(Window::new(14.0, bins)),
            fft: Arc::new(BucketFft::new(bins)),
            geometry,
            offsets: Offsets::default(),
            times: [1.0; MAX_LINES + 4],
            raw: Vec::new(),
            residual: (0..lines * bins).map(|_| line()).collect(),
            energy: Vec::new(),
        };
        for j in 0..lines {
            let d = out.geometry.ladder[j];
            out.offsets.push(d);
            out.times[j + 1] = out.geometry.shift() + d as f64;
        }
        out.sum_energies();
        out
    }

    /// Largest difference between the bins of two combs, and between their energies.
    fn difference(a: &Comb, b: &Comb) -> f64 {
        let lanes =
            a.residual.iter().zip(&b.residual).map(|(x, y)| {
                (0..4).map(|tau| (x.lane(tau) - y.lane(tau)).norm()).fold(0.0, f64::max)
            });
        let energies = a.energy.iter().zip(&b.energy).map(|(x, y)| (x - y).abs());
        lanes.chain(energies).fold(0.0, f64::max)
    }

    #[test]
    fn every_instruction_set_peels_and_projects_alike() {
        for bins in [64usize, 256] {
            let start = comb(bins);
            // In the middle of the bins, and across both of their ends.
            for place in [0.3 * bins as f64, 0.4, 2.7, bins as f64 - 0.6, bins as f64 - 5.2] {
                let tone = |shift: f64| Tone {
                    nu: start.geometry.unalias(place + shift, 0.123).0,
                    amplitude: Complex::new(0.7 - shift, 0.2),
                    drift: 0.0,
                };
                let (old, new) = (tone(0.0), tone(0.05));
                let (mut wide, mut plain, mut naive) = (comb(bins), comb(bins), comb(bins));
                add_tone(&mut wide, &old, -1.0);
                add_tone_body::<false, Halves<false>>(&mut plain, &old, -1.0);
                assert!(difference(&wide, &plain) < 1e-12, "{bins} {place}");
                // By the definition.
                for b in 0..bins {
                    let x = start.geometry.position(old.nu) - b as f64;
                    let gain = start.window.gain(x - bins as f64 * (x / bins as f64).round());
                    for (j, &d) in start.offsets.iter().enumerate() {
                        let line = &mut naive.residual[j * bins + b];
                        for tau in 0..4 {
                            let t = start.geometry.shift() + (d + tau as u64) as f64;
                            let v = old.amplitude * turn(old.nu * t) * gain;
                            line.set_lane(tau, line.lane(tau) - v);
                        }
                    }
                }
                naive.sum_energies();
                assert!(difference(&wide, &naive) < 1e-10, "{bins} {place}");
                swap_tones(&mut wide, &old, &new);
                swap_tones_body::<false, Halves<false>>(&mut plain, &old, &new);
                assert!(difference(&wide, &plain) < 1e-12, "{bins} {place}");
                let (mut y, mut z) = ([Complex::ZERO; 12], [Complex::ZERO; 12]);
                let first = (place as usize + bins - 5) % bins;
                project_bins(&wide, new.nu, first, &mut y);
                project_body::<false, Halves<false>>(&plain, new.nu, first, &mut z);
                assert!(y.iter().zip(&z).all(|(a, b)| (a - b).norm() < 1e-12), "{bins} {place}");
                peel_lines(&mut wide, &new, 0, 1.0);
                peel_body::<false, Halves<false>>(&mut plain, &new, 0, 1.0);
                // Nothing of the tones is left.
                wide.sum_energies();
                plain.sum_energies();
                assert!(difference(&wide, &plain) < 1e-12, "{bins} {place}");
                assert!(difference(&wide, &start) < 1e-10, "{bins} {place}");
            }
        }
    }
}
