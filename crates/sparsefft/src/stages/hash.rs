//! A hash: one way to spread the n frequencies over B bins, and the bins measured so far.
//!
//! - **Comb** (B divides n): the samples x\[s·j + D + τ\], s = n/B, through a B-point FFT give
//!   U\[b\] = Σ_{f ≡ b mod B} a_f e^{2πi f(D+τ)/n}. No leakage; f lies in bin f mod B.
//! - **Window** (any n): the walk x\[σt + D + τ\], weighted by a Kaiser window and folded, gives
//!   V\[b\] = Σ_f a_f e^{2πi f(D+τ)/n} Ĝ(b - P(f)); f shows in the four bins around P(f).
//!
//! Every offset D adds one line of four shifts to each bin. Values are amplitudes a = X/n.

use crate::algorithms::Run;
use crate::cpu::ahead::{ask, copy_from_far};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::F4;
use crate::cpu::{dispatch, threads};
use crate::judge::ReadSet;
use crate::samples::{Line, non_finite_in, progression, read_in_parts};
use crate::stages::Stage;
use crate::stages::bucket_fft::{Added, BucketFft, Source};
use crate::stages::fold::{Walk, fold, fold_walk};
use crate::stages::locate::{Bins, Lanes, line_energy};
use crate::stages::peel::{Coefficient, peel_all};
use crate::stages::permute::Permutation;
use crate::stages::unity::Unity;
use crate::stages::window::{Kaiser, REACH};
use crate::{Complex, Error};
use std::sync::Arc;

/// How frequencies are spread.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// By their residue.
    Comb,
    /// By a random permutation and a window.
    Window {
        /// The walk through time.
        permutation: Permutation,
        /// The weights.
        kaiser: Arc<Kaiser>,
    },
}

/// Where a hash reads: known without its tables, which of a large one need gigabytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    n: u64,
    /// From the line in the middle, at the offset, back to the first one.
    back: u64,
    step: u64,
    lines: u64,
}

impl Course {
    /// That of a comb.
    pub(crate) fn of_comb(n: u64, buckets: usize) -> Self {
        Course { n, back: 0, step: n / buckets as u64, lines: buckets as u64 }
    }

    /// That of a window with so many taps on each side of its centre.
    pub(crate) fn of_window(n: u64, permutation: &Permutation, reach: usize) -> Self {
        let step = permutation.sigma;
        let back = progression(0, step, reach as u64, n);
        Course { n, back, step, lines: 2 * reach as u64 + 1 }
    }

    /// First sample at offset d.
    #[inline]
    fn start(&self, d: u64) -> u64 {
        // d - back modulo n, with d nearly always below n.
        let d = if d < self.n { d } else { d % self.n };
        if d >= self.back { d - self.back } else { self.n - (self.back - d) }
    }

    /// How many samples the line at one offset reads.
    pub(crate) fn reads(&self) -> u64 {
        4 * self.lines
    }

    /// Sample number i that the line at offset d reads.
    pub(crate) fn index(&self, d: u64, i: u64) -> u64 {
        (progression(self.start(d), self.step, i / 4, self.n) + i % 4) % self.n
    }
}

/// The bins of one hash.
#[derive(Debug)]
pub(crate) struct Hash {
    pub(crate) n: u64,
    pub(crate) buckets: usize,
    pub(crate) kind: Kind,
    fft: Arc<BucketFft>,
    /// The number of bins that it began with.
    began: usize,
    /// In a box, since hashes change hands often.
    buffers: Box<Buffers>,
}

/// What a hash measures, in buffers that outlive it.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Offsets of the lines measured so far.
    pub(crate) offsets: Vec<u64>,
    /// Samples of a comb, line after line, kept where a finer comb is likely, which then need not read
    /// them again. Else old content.
    raw: Vec<Line>,
    /// Whether they were kept.
    kept: bool,
    /// The bins, line after line; after the last one old content.
    pub(crate) measured: Vec<Line>,
    /// The bins less what is known; empty until peeling begins.
    pub(crate) residual: Vec<Line>,
    /// Energy of each bin over all lines: of the residual once peeling has begun.
    pub(crate) energy: Vec<f64>,
    /// The sum of all energies when they were last summed.
    pub(crate) total: f64,
}

impl Buffers {
    /// Forgets what was measured. The lines keep their old content, which measuring overwrites.
    fn clear(&mut self) {
        if self.measured.is_empty() {
            std::mem::swap(&mut self.measured, &mut self.residual);
        }
        self.offsets.clear();
        self.residual.clear();
        self.energy.clear();
    }
}

/// Room for `size` lines from `at` on; old content stays, also after them.
fn room(lines: &mut Vec<Line>, at: usize, size: usize) -> &mut [Line] {
    if lines.len() < at + size {
        lines.resize(at + size, Line::ZERO);
    }
    &mut lines[at..at + size]
}

impl std::ops::Deref for Hash {
    type Target = Buffers;
    fn deref(&self) -> &Buffers {
        &self.buffers
    }
}

impl std::ops::DerefMut for Hash {
    fn deref_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
}

/// What a hash that is no more leaves to the next of its kind: its buffers, and its tables, since to count
/// anew who holds these, at one place in memory for all threads, would take them longer than to use them.
#[derive(Debug)]
pub(crate) struct Shell {
    buckets: usize,
    fft: Arc<BucketFft>,
    /// The weights, of a window.
    kaiser: Option<Arc<Kaiser>>,
    buffers: Box<Buffers>,
}

/// Shells that a workspace keeps; retries need others than the next transform will.
const MOST_SHELLS: usize = 16;

/// The bins that a frequency reaches, and how strongly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reach {
    pub(crate) bins: [u32; REACH],
    pub(crate) gains: [f64; REACH],
    pub(crate) count: usize,
}

impl Reach {
    /// Bin and gain, for each bin reached.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..self.count).map(|i| (self.bins[i] as usize, self.gains[i]))
    }

    /// The bin that sees the frequency best.
    pub(crate) fn best(&self) -> (usize, f64) {
        self.iter().fold((0, 0.0), |best, next| if next.1 > best.1 { next } else { best })
    }
}

impl Hash {
    /// A comb without measurements.
    pub(crate) fn comb(run: &mut Run<'_>, bins: usize) -> Self {
        let (fft, buffers, _) = Self::reuse(run, bins, None);
        Hash { n: run.plan.problem.n, buckets: bins, kind: Kind::Comb, fft, began: bins, buffers }
    }

    /// A window hash without measurements.
    pub(crate) fn window(
        run: &mut Run<'_>,
        buckets: usize,
        beta: f64,
        permutation: Permutation,
    ) -> Self {
        let (fft, buffers, kaiser) = Self::reuse(run, buckets, Some(beta));
        let kaiser = kaiser.unwrap_or_else(|| run.plan.kaiser(beta, buckets));
        let kind = Kind::Window { permutation, kaiser };
        Hash { n: run.plan.problem.n, buckets, kind, fft, began: buckets, buffers }
    }

    /// Tables and buffers, those of an earlier hash if there was one: a window if its shape is given.
    fn reuse(
        run: &mut Run<'_>,
        buckets: usize,
        beta: Option<f64>,
    ) -> (Arc<BucketFft>, Box<Buffers>, Option<Arc<Kaiser>>) {
        let shells = &mut run.workspace.shells;
        let suits = |s: &Shell| s.buckets == buckets && s.kaiser.as_ref().map(|k| k.beta) == beta;
        let Some(i) = shells.iter().position(suits) else {
            return (run.plan.fft(buckets), Box::default(), None);
        };
        let Shell { fft, kaiser, mut buffers, .. } = shells.swap_remove(i);
        buffers.clear();
        // A comb whose bins were doubled has other tables now.
        let fft = if fft.size() == buckets { fft } else { run.plan.fft(buckets) };
        (fft, buffers, kaiser)
    }

    /// Number of lanes per bin.
    pub(crate) fn lanes(&self) -> usize {
        4 * self.offsets.len()
    }

    /// Lines that one more offset would read.
    pub(crate) fn reads(&self) -> usize {
        match &self.kind {
            Kind::Comb => self.buckets,
            Kind::Window { kaiser, .. } => 2 * kaiser.reach() + 1,
        }
    }

    /// First sample and step of the walk at offset d.
    pub(crate) fn walk(&self, d: u64) -> (u64, u64) {
        let course = match &self.kind {
            Kind::Comb => Course::of_comb(self.n, self.buckets),
            Kind::Window { permutation, kaiser } => {
                Course::of_window(self.n, permutation, kaiser.reach())
            }
        };
        (course.start(d), course.step)
    }

    /// Asks for the samples of the line at offset 0.
    pub(crate) fn ask_for(&self, samples: &[Complex<f64>]) {
        let (mut at, step) = self.walk(0);
        for _ in 0..self.reads() {
            ask::<_, true>(samples.as_ptr().wrapping_add(at as usize));
            at += step;
            at = at.min(at.wrapping_sub(self.n));
        }
    }

    /// Reads the samples at offset d and appends a line to every bin. Energies are those of the
    /// measured bins; peeling, if it had begun, must go on with [`go_on_peeling`](Hash::go_on_peeling).
    pub(crate) fn measure(&mut self, run: &mut Run<'_>, d: u64) -> Result<(), Error> {
        self.energy.clear();
        self.measure_more(run, d)
    }

    /// [`measure`](Hash::measure) where the energies, if nothing was peeled, are those of the bins as
    /// measured.
    pub(crate) fn measure_more(&mut self, run: &mut Run<'_>, d: u64) -> Result<(), Error> {
        let (start, step) = self.walk(d);
        let reads = self.reads();
        run.samples_read += 4 * reads as u64;
        match &self.kind {
            Kind::Comb => {
                let set = ReadSet::lines(start, step, reads);
                let at = self.offsets.len() * reads;
                // An unknown number of coefficients is found by finer and finer combs; so are those of
                // one pass, where k is a bound. And what cannot be read again as it was must be there
                // when something is wrong with it.
                self.buffers.kept = run.plan.problem.k().is_none()
                    || run.plan.menu().is_some()
                    || !self.fft.works_within()
                    || !run.signal.in_memory();
                if !self.kept && self.fft.reads_samples() {
                    let all = (reads as u64 - 1) * step + 4;
                    if let Some(part) = run.samples().filter(|_| start + all <= self.n) {
                        run.workspace.evidence.note(set);
                        let part = &part[start as usize..(start + all) as usize];
                        if run.slow {
                            let mut copy = std::mem::take(&mut run.workspace.copy);
                            copy_from_far(
                                part,
                                step as usize,
                                reads,
                                &run.workspace.later,
                                &mut copy,
                            );
                            run.workspace.later.clear();
                            let outcome = self.append(run, d, Source::Samples(&copy, 4));
                            run.workspace.copy = copy;
                            return outcome;
                        }
                        return self.append(run, d, Source::Samples(part, step as usize));
                    }
                }
                let Buffers { raw, measured, kept, .. } = &mut *self.buffers;
                let lines = room(if *kept { raw } else { measured }, at, reads);
                read_in_parts(run.signal, start, step, lines)?;
                run.workspace.evidence.note_lines(set, lines, run.signal.in_memory());
                run.clock.lap(Stage::Permute);
                self.append(run, d, Source::Within)
            }
            Kind::Window { .. } => {
                let mut folded = run.workspace.take_at_least(self.buckets);
                let outcome = self.measure_window(run, d, &mut folded[..self.buckets]);
                run.workspace.give(folded);
                outcome
            }
        }
    }

    /// The weights of a window, from its middle on.
    fn taps(&self) -> &[f64] {
        match &self.kind {
            Kind::Comb => &[],
            Kind::Window { kaiser, .. } => kaiser.taps(),
        }
    }

    /// [`measure_more`](Hash::measure_more) of a window, folded into these buckets.
    fn measure_window(
        &mut self,
        run: &mut Run<'_>,
        d: u64,
        buckets: &mut [Line],
    ) -> Result<(), Error> {
        let (start, step) = self.walk(d);
        let set = ReadSet::lines(start, step, self.reads());
        if let Some(samples) = run.samples() {
            run.workspace.evidence.note(set);
            let peak = fold_walk(self.taps(), Walk { samples, start, step }, buckets);
            run.peak = run.peak.max(peak);
            run.clock.lap(Stage::Permute);
            if self.transform(run, d, Source::Lines(buckets), 1.0) {
                return Ok(());
            }
            // Something is wrong with the samples: what they are now decides.
            self.offsets.pop();
            self.energy.clear();
        }
        let reads = self.reads();
        let mut room = run.workspace.take_at_least(reads);
        let lines = &mut room[..reads];
        let outcome = read_in_parts(run.signal, start, step, lines).and_then(|()| {
            run.workspace.evidence.note_lines(set, lines, run.signal.in_memory());
            run.clock.lap(Stage::Permute);
            let peak = fold(self.taps(), lines, buckets);
            run.peak = run.peak.max(peak);
            run.clock.lap(Stage::Fold);
            let finite = self.transform(run, d, Source::Lines(buckets), 1.0);
            if finite { Ok(()) } else { Err(self.blame(d, lines)) }
        });
        run.workspace.give(room);
        outcome
    }

    /// Transforms the last line of samples of a comb, which lie there unless they were kept.
    fn append(&mut self, run: &mut Run<'_>, d: u64, source: Source<'_>) -> Result<(), Error> {
        let size = self.buckets;
        let factor = 1.0 / size as f64;
        if self.kept {
            let raw = std::mem::take(&mut self.buffers.raw);
            let lines = &raw[self.offsets.len() * size..][..size];
            let finite = self.transform(run, d, Source::Lines(lines), factor);
            let outcome = if finite { Ok(()) } else { Err(self.blame(d, lines)) };
            self.buffers.raw = raw;
            return outcome;
        }
        if self.transform(run, d, source, factor) {
            return Ok(());
        }
        // Something is wrong with the samples, which are gone: what they are now decides. Memory that
        // somebody else writes to may have changed meanwhile.
        let (start, step) = self.walk(d);
        let mut lines = vec![Line::ZERO; size];
        read_in_parts(run.signal, start, step, &mut lines)?;
        self.offsets.pop();
        self.energy.clear();
        let finite = self.transform(run, d, Source::Lines(&lines), factor);
        if finite { Ok(()) } else { Err(self.blame(d, &lines)) }
    }

    /// Transforms one line and appends the bins; whether they are finite.
    fn transform(&mut self, run: &mut Run<'_>, d: u64, source: Source<'_>, factor: f64) -> bool {
        let mut scratch = run.workspace.take_at_least(self.fft.scratch_len());
        // Samples are read by the first butterflies.
        let clock = &mut run.clock;
        let read = || {
            if let Source::Samples(..) = source {
                clock.lap(Stage::Permute);
            }
        };
        let finite = self.transform_by(d, source, factor, &mut scratch, read);
        run.workspace.give(scratch);
        run.clock.lap(Stage::BucketFft);
        finite
    }

    /// [`transform`](Hash::transform) with this scratch; calls `read` when the source is not needed any
    /// more.
    fn transform_by(
        &mut self,
        d: u64,
        source: Source<'_>,
        factor: f64,
        scratch: &mut [Line],
        read: impl FnOnce(),
    ) -> bool {
        let size = self.buckets;
        let Buffers { offsets, measured, residual, energy, total, .. } = &mut *self.buffers;
        let at = offsets.len() * size;
        offsets.push(d);
        let peeled = !residual.is_empty();
        if at == 0 {
            energy.clear();
            energy.resize(size, 0.0);
            *total = 0.0;
        }
        // Whether these are the energies of all lines before.
        let whole = !peeled && energy.len() == size;
        let line = room(measured, at, size);
        let sums = whole.then_some(&mut energy[..]);
        let added = self.fft.process_and_add(source, line, scratch, factor, sums, read);
        if peeled {
            // Bins of which some lines are peeled have no energy; the sum tells whether all is finite.
            *total += line.iter().map(line_energy).sum::<f64>();
        } else if let Added::All(more) = added {
            *total += more;
        } else if added == Added::Each {
            *total = sum(energy);
        } else if whole {
            *total += add_line(line, energy);
        } else {
            self.sum_energies();
        }
        self.total.is_finite()
    }

    /// Which of the samples read at offset d made the bins infinite or NaN.
    fn blame(&self, d: u64, lines: &[Line]) -> Error {
        let (start, step) = self.walk(d);
        let limit = 1e150 / self.buckets as f64;
        non_finite_in(lines, start, step, self.n).unwrap_or(Error::Overflow { limit })
    }

    /// The comb with a multiple of the bins, and so many of its lines at most, reading only what this one has
    /// not kept.
    pub(crate) fn refine(
        self,
        run: &mut Run<'_>,
        bins: usize,
        lines: usize,
    ) -> Result<Hash, Error> {
        let factor = bins / self.buckets;
        let mut finer = Hash::comb(run, bins);
        let offsets = &self.offsets[..lines.min(self.offsets.len())];
        if !self.kept {
            for &d in offsets {
                finer.measure_more(run, d)?;
            }
            self.recycle(run);
            return Ok(finer);
        }
        finer.buffers.kept = true;
        let mut room_for_part = run.workspace.take_at_least(self.buckets);
        let part = &mut room_for_part[..self.buckets];
        for (j, &d) in offsets.iter().enumerate() {
            let size = finer.buckets;
            let lines = room(&mut finer.buffers.raw, j * size, size);
            let old = &self.raw[j * self.buckets..(j + 1) * self.buckets];
            for (i, line) in old.iter().enumerate() {
                lines[i * factor] = *line;
            }
            let start = d % self.n;
            let coarse = self.n / self.buckets as u64;
            let fine = coarse / factor as u64;
            for r in 1..factor {
                let first = progression(start, fine, r as u64, self.n);
                read_in_parts(run.signal, first, coarse, part)?;
                run.samples_read += 4 * self.buckets as u64;
                let set = ReadSet::lines(first, coarse, self.buckets);
                run.workspace.evidence.note_lines(set, part, run.signal.in_memory());
                for (i, line) in part.iter().enumerate() {
                    lines[i * factor + r] = *line;
                }
            }
            run.clock.lap(Stage::Permute);
            finer.append(run, d, Source::Within)?;
        }
        run.workspace.give(room_for_part);
        self.recycle(run);
        Ok(finer)
    }

    /// A comb with twice the bins, reading what lies between its samples: with U and V the bins at the
    /// offsets D and D + n/2B, they are ½(U\[b\] ± e^{-πi b/B} V\[b\]).
    pub(crate) fn double(mut self, run: &mut Run<'_>) -> Result<Hash, Error> {
        let size = 2 * self.buckets;
        if self.kept || self.offsets.len() != 1 {
            return self.refine(run, size, usize::MAX);
        }
        let fft = run.plan.fft(size);
        let d = self.offsets[0];
        self.measure_more(run, d + self.n / size as u64)?;
        let Buffers { offsets, measured, .. } = &mut *self.buffers;
        offsets.truncate(1);
        fft.join(&mut measured[..size]);
        (self.buckets, self.fft) = (size, fft);
        self.sum_energies();
        run.clock.lap(Stage::BucketFft);
        Ok(self)
    }

    /// Hands the buffers back.
    pub(crate) fn recycle(self, run: &mut Run<'_>) {
        if run.workspace.shells.len() >= MOST_SHELLS {
            run.workspace.shells.remove(0);
        }
        let Hash { fft, began: buckets, buffers, .. } = self;
        let kaiser = match self.kind {
            Kind::Comb => None,
            Kind::Window { kaiser, .. } => Some(kaiser),
        };
        run.workspace.shells.push(Shell { buckets, fft, kaiser, buffers });
    }

    /// The bins that f reaches.
    pub(crate) fn reach(&self, f: u64) -> Reach {
        reach_of(self, f)
    }

    /// As [`reach`](Hash::reach), inside a vectorised loop.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn reach_wide<const FMA: bool>(&self, f: u64) -> Reach {
        match &self.kind {
            Kind::Comb => {
                let b = (f % self.buckets as u64) as u32;
                Reach { bins: [b, 0, 0, 0], gains: [1.0, 0.0, 0.0, 0.0], count: 1 }
            }
            Kind::Window { permutation, kaiser } => {
                let p = permutation.position(f, self.buckets);
                let before = p.floor();
                let gains = kaiser.gains_of_one::<FMA>(p - before - 0.5);
                reach_at(before as i64 - 1, gains, self.buckets)
            }
        }
    }

    /// Factor from the content of bucket b to the amplitude at f, if f belongs there.
    pub(crate) fn amplitude(&self, f: u64, b: usize) -> Option<f64> {
        self.amplitudes([f; 4], &[b as u32])[0]
    }

    /// [`amplitude`](Hash::amplitude) of up to four frequencies, each in its bucket.
    pub(crate) fn amplitudes(&self, f: [u64; 4], bins: &[u32]) -> [Option<f64>; 4] {
        amplitudes_of(self, f, bins)
    }

    /// The number of bins, and what was measured, to be changed.
    #[inline(always)] // two addresses
    pub(crate) fn bins_mut(&mut self) -> (usize, &mut Buffers) {
        (self.buckets, &mut self.buffers)
    }

    /// The lanes of one bin: of the residual if peeling has begun.
    #[inline]
    pub(crate) fn lanes_of(&self, b: usize) -> Lanes<'_> {
        let from = if self.residual.is_empty() { &self.measured } else { &self.residual };
        Lanes { data: &from[b..], stride: self.buckets, offsets: &self.offsets }
    }

    /// The measured lanes of one bin.
    #[inline]
    pub(crate) fn measured_lanes_of(&self, b: usize) -> Lanes<'_> {
        Lanes { data: &self.measured[b..], stride: self.buckets, offsets: &self.offsets }
    }

    /// What frequencies of a bin have in common: they are congruent to it modulo this.
    fn modulus(&self) -> usize {
        if matches!(self.kind, Kind::Comb) { self.buckets } else { 1 }
    }

    /// All bins as measured.
    pub(crate) fn bins(&self, unity: Unity) -> Bins<'_> {
        let Buffers { measured, offsets, .. } = &*self.buffers;
        let modulus = self.modulus();
        Bins { unity, lines: measured, size: self.buckets, modulus, offsets }
    }

    /// [`bins`](Hash::bins), and their energies to be changed.
    pub(crate) fn bins_and_energy(&mut self, unity: Unity) -> (Bins<'_>, &mut [f64]) {
        let modulus = self.modulus();
        let size = self.buckets;
        let Buffers { measured, offsets, energy, .. } = &mut *self.buffers;
        (Bins { unity, lines: measured, size, modulus, offsets }, energy)
    }

    /// All bins less what is known.
    pub(crate) fn rest(&self, unity: Unity) -> Bins<'_> {
        Bins { lines: &self.residual, ..self.bins(unity) }
    }

    /// Energy of one measured bin.
    pub(crate) fn measured_energy(&self, b: usize) -> f64 {
        self.measured_lanes_of(b).energy()
    }

    /// Every line of every bin as measured.
    pub(crate) fn measured_lines(&self) -> &[Line] {
        &self.measured[..self.offsets.len() * self.buckets]
    }

    /// Whether what is known has been taken out of all bins.
    pub(crate) fn is_peeled(&self) -> bool {
        !self.residual.is_empty()
    }

    /// Starts peeling: the residual becomes the measured bins. The energies are those of what was
    /// measured or left last; [`sum_energies`](Hash::sum_energies) makes them current.
    pub(crate) fn begin_peeling(&mut self) {
        let all = self.offsets.len() * self.buckets;
        let Buffers { measured, residual, .. } = &mut *self.buffers;
        residual.clear();
        residual.extend_from_slice(&measured[..all]);
    }

    /// Peeling goes on with the lines that were measured since it began. Returns the first of them.
    pub(crate) fn go_on_peeling(&mut self) -> usize {
        let all = self.offsets.len() * self.buckets;
        let Buffers { measured, residual, .. } = &mut *self.buffers;
        let done = residual.len();
        residual.extend_from_slice(&measured[done..all]);
        done / self.buckets
    }

    /// [`begin_peeling`](Hash::begin_peeling) for the last time: what was measured is given up.
    pub(crate) fn begin_last_peeling(&mut self) {
        let all = self.offsets.len() * self.buckets;
        let Buffers { measured, residual, .. } = &mut *self.buffers;
        std::mem::swap(measured, residual);
        residual.truncate(all);
    }

    /// Recomputes every bin's energy.
    pub(crate) fn sum_energies(&mut self) {
        let size = self.buckets;
        let Buffers { offsets, measured, residual, energy, total, .. } = &mut *self.buffers;
        let from = if residual.is_empty() { measured } else { residual };
        energy.clear();
        energy.resize(size, 0.0);
        *total = 0.0;
        for line in from.chunks_exact(size).take(offsets.len()) {
            *total += add_line(line, energy);
        }
    }
}

/// A window hash that can be measured, and peeled, while its run goes on with something else.
pub(crate) struct Ahead<'a> {
    hash: Hash,
    samples: &'a [Complex<f64>],
    folded: Vec<Line>,
    scratch: Vec<Line>,
    peak: f64,
    finite: bool,
}

impl<'a> Ahead<'a> {
    /// This hash, of these samples of the run.
    pub(crate) fn new(run: &mut Run<'_>, hash: Hash, samples: &'a [Complex<f64>]) -> Self {
        let folded = run.workspace.take_at_least(hash.buckets);
        let scratch = run.workspace.take_at_least(hash.fft.scratch_len());
        Ahead { hash, samples, folded, scratch, peak: 0.0, finite: false }
    }

    /// Measures the line at offset 0 and takes what is known out of it.
    pub(crate) fn measure(&mut self, unity: Unity, known: &[Coefficient]) {
        let Ahead { hash, samples, folded, scratch, .. } = self;
        let (start, step) = hash.walk(0);
        let buckets = &mut folded[..hash.buckets];
        self.peak = fold_walk(hash.taps(), Walk { samples, start, step }, buckets);
        self.finite = hash.transform_by(0, Source::Lines(buckets), 1.0, scratch, || ());
        if self.finite && !known.is_empty() {
            hash.begin_peeling();
            peel_all(hash, unity, known, 0);
        }
    }

    /// Hands back the buffers. Something must have gone wrong with the samples if there is no hash.
    pub(crate) fn finish(self, run: &mut Run<'_>) -> Option<(Hash, f64)> {
        run.workspace.give(self.folded);
        run.workspace.give(self.scratch);
        let (start, step) = self.hash.walk(0);
        run.workspace.evidence.note(ReadSet::lines(start, step, self.hash.reads()));
        if self.finite {
            return Some((self.hash, self.peak));
        }
        self.hash.recycle(run);
        None
    }
}

dispatch! {
    /// The sum of all.
    fn sum(values: &[f64]) -> f64 = sum_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn sum_body<const FMA: bool>(values: &[f64]) -> f64 {
    // Sums that do not wait for each other.
    let mut sums = [[F4::<FMA>::ZERO; 2]; 4];
    let (many, rest) = values.as_chunks::<32>();
    for many in many {
        for (sums, eight) in sums.iter_mut().zip(many.as_chunks::<8>().0) {
            for (sum, four) in sums.iter_mut().zip(eight.as_chunks::<4>().0) {
                *sum = *sum + F4(*four);
            }
        }
    }
    let [[a, b], [c, d], [e, f], [g, h]] = sums;
    let four = ((a + b) + (c + d)) + ((e + f) + (g + h));
    four.sum() + rest.iter().sum::<f64>()
}

/// Adds the energy of each line to its bin; returns the sum of what was added.
fn add_line(lines: &[Line], energy: &mut [f64]) -> f64 {
    // Fixed chunks, so that the sum is the same for every number of threads.
    let add =
        |first: usize, part: &mut [f64]| add_energies(&lines[first..first + part.len()], part);
    threads::reduce_chunks(energy, 4096, lines.len() as u64, add, |a, b| a + b).unwrap_or(0.0)
}

dispatch_rows! {
    /// [`add_line`], one chunk.
    pub(crate) fn add_energies(lines: &[Line], energy: &mut [f64]) -> f64 = add_energies_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn add_energies_body<const FMA: bool, R: Row>(lines: &[Line], energy: &mut [f64]) -> f64 {
    let mut total = [0.0; 8];
    let (lines, rest) = lines.as_chunks::<8>();
    let (energy, last) = energy.as_chunks_mut::<8>();
    for (eight, energy) in lines.iter().zip(energy) {
        let more = R::energies(eight);
        for i in 0..8 {
            energy[i] += more[i];
            total[i] += more[i];
        }
    }
    let mut total = total.iter().sum();
    for (line, e) in rest.iter().zip(last) {
        let more = F4::<FMA>(R::load(line).squares()).sum();
        *e += more;
        total += more;
    }
    total
}

dispatch! {
    fn amplitudes_of(hash: &Hash, f: [u64; 4], bins: &[u32]) -> [Option<f64>; 4] = amplitudes_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn amplitudes_body<const FMA: bool>(hash: &Hash, f: [u64; 4], bins: &[u32]) -> [Option<f64>; 4] {
    /// Farthest from the middle of a bucket, in buckets, that a frequency is taken from it.
    const BELONGS: f64 = 0.8;
    let mut amplitudes = [None; 4];
    let Kind::Window { permutation, kaiser } = &hash.kind else {
        let size = hash.buckets as u64;
        for ((amplitude, f), &b) in amplitudes.iter_mut().zip(f).zip(bins) {
            *amplitude = (f % size == u64::from(b)).then_some(1.0);
        }
        return amplitudes;
    };
    let (mut positions, mut middles) = ([0.0; 4], [0.0; 4]);
    for (i, &b) in bins.iter().enumerate() {
        (positions[i], middles[i]) = (permutation.position(f[i], hash.buckets), f64::from(b));
    }
    let away = F4::<FMA>(positions) - F4(middles);
    // Around the circle.
    let size = F4::splat(hash.buckets as f64);
    let inverse_size = F4::splat(1.0 / hash.buckets as f64);
    let away = (away * inverse_size).round().negate_mul_add(size, away);
    let inverse = F4::splat(1.0).div(kaiser.response(away)).0;
    for i in 0..bins.len() {
        if away.0[i].abs() < BELONGS {
            amplitudes[i] = Some(inverse[i]);
        }
    }
    amplitudes
}

dispatch! {
    fn reach_of(hash: &Hash, f: u64) -> Reach = reach_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn reach_body<const FMA: bool>(hash: &Hash, f: u64) -> Reach {
    hash.reach_wide::<FMA>(f)
}

/// The bins from `first` on, with these gains.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn reach_at<const FMA: bool>(first: i64, gains: F4<FMA>, buckets: usize) -> Reach {
    let size = buckets as i64;
    let wrap = |b: i64| {
        let b = if b < 0 { b + size } else { b };
        if b >= size { (b % size) as u32 } else { b as u32 }
    };
    let bins = [wrap(first), wrap(first + 1), wrap(first + 2), wrap(first + 3)];
    Reach { bins, gains: gains.0, count: REACH }
}

/// The four lanes a·e^{2πi f(d+τ)/n} of one tone.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn tone<const FMA: bool>(
    unity: Unity,
    f: u64,
    z: Complex<f64>,
    a: Complex<f64>,
    d: u64,
) -> Line {
    let square = z * z;
    let a = match d {
        0 => a,
        // The next four shifts: cheaper so.
        4 => a * (square * square),
        _ => a * unity.power(f, d),
    };
    let cube = square * z;
    let re = F4::<FMA>([1.0, z.re, square.re, cube.re]);
    let im = F4::<FMA>([0.0, z.im, square.im, cube.im]);
    let (x, y) = (F4::splat(a.re), F4::splat(a.im));
    Line { re: im.negate_mul_add(y, re * x).0, im: im.mul_add(x, re * y).0 }
}
