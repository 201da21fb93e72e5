//! The last test before a certificate: the answer against the samples that were read.

use super::engine::Engine;
use crate::Error;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::judge::{self, Doubt, ReadSet, Rest, Tolerance, add_comb, add_lines, rest_limit};
use crate::samples::Line;
use crate::stages::hash::Kind;
use crate::stages::known::Sizes;
use crate::stages::peel::peel_bin;

/// Residual lines of a comb that are tested: as many offsets as fit, and of a larger comb every
/// second line, every fourth, …. With the witness they make 4,500 samples, in which the tests see a
/// narrow-band rest of 10 % of the noise.
const MAX_COMB_LINES: usize = 1024;
/// Residual lines that are tested at most of each set of an earlier attempt that is in no comb.
const MAX_SET_LINES: usize = 1024;
/// The same of all sets of this attempt together. Without a comb these are the lines that the noise
/// was measured in: a click among few of them raises it so much that sums no longer show the click.
const MAX_FIRST_LINES: usize = 1024;
/// Noise of the bins, in units of the power of the witness: honest noise scatters by a tenth.
const MOST_NOISE: f64 = 2.0;
/// Lines that are read for the test alone, evenly over the record and at another stride than those
/// of combs: as many as make [`ENOUGH`] samples with those of the comb, within these bounds.
const WITNESS_LINES: [usize; 2] = [127, 509];
/// The same where there is no comb.
const WITNESS_LINES_WITHOUT_COMB: usize = 1021;
/// Samples in which the tests see a narrow-band rest of 14 % of the noise.
const ENOUGH: usize = 2048;

dispatch_rows! {
    /// Adds bins to others.
    fn add_bins(more: &[Line], bins: &mut [Line]) = add_bins_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn add_bins_body<const FMA: bool, R: Row>(more: &[Line], bins: &mut [Line]) {
    for (bin, more) in bins.iter_mut().zip(more) {
        R::load(bin).plus(1.0, R::load(more)).store(bin);
    }
}

impl Engine<'_, '_> {
    /// Why samples that were read contradict the answer, if they do, and the largest share of the
    /// power that a steady narrow-band rest could hold unnoticed.
    pub(super) fn examine(&mut self, sizes: &Sizes) -> Result<(Option<String>, f64), Error> {
        let mut buffers = std::mem::take(&mut self.run.workspace.judge);
        judge::eights_of(self.known.iter().copied(), &mut buffers.answer);
        let outcome = self.examine_with(sizes, &mut buffers);
        self.run.workspace.judge = buffers;
        outcome
    }

    fn examine_with(
        &mut self,
        sizes: &Sizes,
        buffers: &mut judge::Buffers,
    ) -> Result<(Option<String>, f64), Error> {
        let judge::Buffers { answer, rest, lines, turning } = buffers;
        let noise = if self.noisy { self.noise } else { 0.0 };
        let first = self.comb.as_ref().or(self.windows.first());
        let informing = first.map_or(1, |hash| hash.lanes() * hash.buckets) as f64;
        let leak = self.windows.iter().map(|hash| match &hash.kind {
            Kind::Window { kaiser, .. } => kaiser.leak(),
            Kind::Comb => 0.0,
        });
        let doubt =
            Doubt { sum: sizes.sum, relative: 4.0 * leak.fold(0.0, f64::max), noise, informing };
        let power = self.power.max(f64::MIN_POSITIVE);
        let real = self.run.signal.is_real();
        let tolerance = Tolerance {
            share: self.run.plan.problem.tolerance,
            power,
            step: self.run.signal.resolution(),
            sum: sizes.sum,
        };
        let quiet = !self.noisy || tolerance.covers(noise, real);
        // A comb has no window, and all of its bins were compared: so was each of its samples.
        let comb = self.comb.as_ref().map(|c| (self.n / c.buckets as u64, c.offsets.to_vec()));
        let in_comb = |set: &ReadSet| {
            comb.as_ref().is_some_and(|(step, offsets)| set.is_part_of_comb(*step, offsets))
        };
        // In the sum over a set noise hides what a few samples differ by; of the comb and of lines
        // over the whole record they are tested one by one below.
        let rounding = tolerance.in_sums(0.0, real);
        let agrees = if quiet {
            judge::agrees_with_reads(self.run, answer, &doubt, in_comb)?
        } else {
            let doubt = Doubt { noise: noise + rounding, ..doubt };
            judge::agrees_in_parts(self.run, answer, &doubt, in_comb)?
        };
        if !agrees {
            return Ok((Some(judge::CONTRADICTED.to_string()), 0.0));
        }
        if !self.noisy {
            return Ok((None, self.rounding_share()));
        }
        rest.clear();
        let witness = self.read_witness()?;
        if let Some(witness) = &witness {
            add_lines(
                self.run,
                rest,
                witness,
                answer,
                witness.count,
                (&mut *lines, &mut *turning),
            )?;
            // A click among the samples that the bins were measured from is in all of them, as noise.
            // Of whole numbers the noise is at least what rounding could be.
            if !quiet && noise > MOST_NOISE * rest.power() + rounding {
                return Ok((Some(judge::CONTRADICTED.to_string()), 0.0));
            }
        }
        self.add_comb_lines(rest, lines);
        let mut room = match &self.comb {
            Some(_) => 0,
            None => MAX_FIRST_LINES,
        };
        let sets = self.run.workspace.evidence.sets().iter().enumerate();
        for (number, set) in sets.filter(|(_, set)| !in_comb(set)) {
            if witness.is_some_and(|w| [w.start, w.step] == [set.start, set.step]) {
                continue; // it is there already
            }
            if number >= self.earlier {
                let Some(left) = room.checked_sub(set.count) else { break };
                room = left;
            }
            let buffers = (&mut *lines, &mut *turning);
            add_lines(self.run, rest, set, answer, MAX_SET_LINES, buffers)?;
        }
        if quiet {
            let within = rest.is_below(tolerance.largest(real));
            let limit = noise / power;
            return Ok(((!within).then(|| judge::CONTRADICTED.to_string()), limit.min(1.0)));
        }
        let fitted = 1.5 * self.known.len() as f64 / informing;
        let limit = (rest_limit(rest.len(), fitted) * noise / power).min(1.0);
        let fault = rest.test(real, fitted).and_then(|()| self.test_parts(rest, real, lines));
        Ok((fault.err().map(judge::Fault::reason), limit))
    }

    /// Reads lines of the whole record for the test alone, unless only those of one pass may be.
    fn read_witness(&mut self) -> Result<Option<ReadSet>, Error> {
        if self.run.plan.menu().is_some() {
            return Ok(None);
        }
        let [least, most] = WITNESS_LINES;
        let count = match &self.comb {
            Some(comb) => {
                let missing = ENOUGH.saturating_sub(comb.lanes() * comb.buckets);
                (missing / 4).clamp(least, most) | 1
            }
            None => WITNESS_LINES_WITHOUT_COMB,
        };
        judge::read_witness(self.run, count, self.attempt)
    }

    /// Adds the residual lines of the comb.
    fn add_comb_lines(&mut self, rest: &mut Rest, buffer: &mut Vec<Line>) {
        let Some(comb) = &self.comb else { return };
        let all = comb.buckets;
        let mut size = all;
        while size > MAX_COMB_LINES && size % 2 == 0 {
            size /= 2;
        }
        let offsets = (MAX_COMB_LINES / size).clamp(1, comb.offsets.len());
        let fft = self.run.plan.fft(size);
        let mut room = self.run.workspace.take_at_least(size);
        let bins = &mut room[..size];
        let measured = comb.measured_lines().chunks_exact(all);
        for (&d, measured) in comb.offsets.iter().zip(measured).take(offsets) {
            // The bins of the comb that has every second of the lines are sums of two.
            let (first, others) = measured.split_at(size);
            bins.copy_from_slice(first);
            others.chunks_exact(size).for_each(|part| add_bins(part, bins));
            for c in self.known.iter() {
                let b = (c.f % size as u64) as usize;
                peel_bin(&mut bins[b..=b], &[d], self.unity, c);
            }
            add_comb(rest, &fft, bins, [d % self.n, self.n], buffer);
        }
        self.run.workspace.give(room);
    }

    /// Whether a tone is there during a part of the record only.
    fn test_parts(
        &mut self,
        rest: &mut Rest,
        real: bool,
        buffer: &mut Vec<Line>,
    ) -> Result<(), judge::Fault> {
        /// Fewest lines of a part in which a tone shows.
        const LEAST: usize = 8;
        // Strands of lines that lie evenly over the record: the witness, and the first of a comb.
        let strands = if self.comb.is_some() { 2 } else { 1 };
        let lengths = (0..strands.min(rest.strand_count())).map(|i| (rest.strand_len(i), i));
        let Some((length, strand)) = lengths.max() else { return Ok(()) };
        for parts in [4, 16] {
            let size = length / parts;
            if size >= LEAST {
                let fft = self.run.plan.fft((2 * size).next_power_of_two());
                rest.test_parts(strand, parts, &fft, real, buffer)?;
            }
        }
        Ok(())
    }

    /// Share of the power that rounding may hide where there is no noise.
    fn rounding_share(&self) -> f64 {
        let Some(hash) = self.comb.as_ref().or(self.windows.first()) else { return 0.0 };
        let limit = self.limit(hash, hash.lanes()) / hash.lanes() as f64 * hash.buckets as f64;
        (limit / self.power.max(f64::MIN_POSITIVE)).min(1.0)
    }
}
