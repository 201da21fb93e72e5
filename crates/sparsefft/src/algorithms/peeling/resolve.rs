//! The second stage: window hashes for the frequencies that share a comb bin with too many.
//!
//! 1. A window hash with a fresh permutation spreads the open frequencies, or a comb whose bins share
//!    no factor with those before, where n has such a divisor; what is known is peeled.
//! 2. Buckets with one or two frequencies are decoded; a frequency must lie in an open comb bin.
//! 3. Its comb bin is fitted again with all its members, which gives leak-free values.
//! 4. What one hash reveals is peeled from the others, until nothing more is found.

use super::engine::{
    Engine, OWN_ROUNDING, OWN_SHARE, WINDOW_ROUNDING, coefficient, is_peak, most_members,
    window_power,
};
use super::{decode, window_hash, window_stream};
use crate::plan;
use crate::samples::{Line, MOST_LINES};
use crate::stages::Stage;
use crate::stages::estimate::{Equations, MAX_FIT, View, corrections, fit};
use crate::stages::hash::{Hash, Kind};
use crate::stages::known::residue;
use crate::stages::locate::{
    Found, Lanes, Lattice, MAX_LINES, decode_one, decode_two, line_energy, locate_one, locate_two,
    phasors, value_of_one, values_of_two,
};
use crate::stages::number::{coprime_part, smooth_divisors};
use crate::stages::peel::{Coefficient, peel_all, peel_bin, peel_one};
use crate::stages::prony::{Crowd, SHIFTS, Search, Shared, crowds};
use crate::stages::triples::{THREE, Triple, triples};
use crate::stages::unity::Unity;
use crate::stages::window::{self, BETAS};
use crate::{Complex, Error};

/// Window hashes per attempt.
const MAX_ROUNDS: usize = 10;
/// Buckets of a further window for each frequency that windows without a comb have left.
const BUCKETS_EACH: u64 = 8;
/// Least distance, in turns per sample, of two frequencies that are decoded from one bucket.
pub(super) const GAP: f64 = 0.115;

/// Buffers of this stage.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) decode: decode::Scratch,
    active: Vec<u32>,
    open: Vec<u32>,
    owner: Vec<u32>,
    shared: Vec<Shared>,
    /// Bins of the comb that hold two frequencies whose values noise spoils, ascending.
    pub(super) alike: Vec<u32>,
    /// Bins of a coarser comb at the offset [`NEXT`], if there is one in which open bins were looked for.
    rough: usize,
    /// For every suspect the coarser bin that holds it, less what was known then.
    coarse: Vec<Line>,
    crowds: Vec<Crowd>,
    triples: Vec<Triple>,
    chosen: Vec<u32>,
    part: Vec<Coefficient>,
    lines: Vec<Line>,
    members: Vec<u64>,
    rows: Vec<Complex<f64>>,
    data: Vec<Complex<f64>>,
    equations: Equations,
}

/// Values of the frequencies of one bin.
struct Fit {
    values: [Complex<f64>; MAX_FIT],
    residual: f64,
    apart: f64,
}

/// What is known of values before they are improved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Anywhere,
    /// All are known, up to noise: hashes that tell little about them only cost time.
    Found,
    /// Every bucket is explained by them; a part in a million of their error does not matter, and what
    /// they leave need not be known better.
    Near,
}

/// Offset of the coarser comb.
pub(super) const NEXT: u64 = 4;

/// The offsets of the lines of a bin that a coarser comb has seen too.
const BOTH: [u64; 2] = [0, NEXT];

impl Scratch {
    /// Forgets what belongs to one attempt.
    pub(super) fn clear(&mut self) {
        self.rough = 0;
        self.alike.clear();
    }
}

/// In the owners of coarse bins: nobody, and several.
pub(super) const NONE: u32 = u32::MAX;
pub(super) const SEVERAL: u32 = u32::MAX - 1;

/// Whether the open bins of a comb are so few that a coarser one can tell about them, and its lines so far apart
/// that the next shifts are not theirs too.
pub(super) fn few_enough(n: u64, fine: u64, open: u64) -> bool {
    8 * open <= fine && n >= 8 * fine
}

/// Bins of a coarser comb for open ones of a comb.
pub(super) fn coarse_bins(fine: u64, open: u64, noisy: bool) -> u64 {
    /// Coarse bins per open one: fewer leave more to other hashes, more cost more to read.
    const ROOM: u64 = 11;
    /// The same in noise, of which they hold the more the fewer they are.
    const ROOM_IN_NOISE: u64 = 20;
    /// Coarse bins at least.
    const LEAST: u64 = 16;
    let room = if noisy { ROOM_IN_NOISE } else { ROOM };
    let mut bins = fine;
    while bins.is_multiple_of(2) && bins / 2 >= (room * open).max(LEAST) {
        bins /= 2;
    }
    bins
}

/// For each bin of a coarser comb the open bin of the finer one that it holds: [`NONE`], or [`SEVERAL`].
pub(super) fn list_owners(open: &[u32], bins: u64, owner: &mut Vec<u32>) {
    owner.clear();
    owner.resize(bins as usize, NONE);
    for &b in open {
        let owner = &mut owner[residue(b.into(), bins)];
        *owner = if *owner == NONE { b } else { SEVERAL };
    }
}

/// What bins with several frequencies may leave.
pub(super) struct Bounds {
    /// What noise and rounding leave beside three frequencies, and beside four.
    pub(super) left: [f64; 2],
    /// As for [`Engine::misplaced`].
    pub(super) misplaced: f64,
}

/// Looks for three or four frequencies in bins of a comb; calls `take` with the bin, its members, and what they leave
/// there. Bins that are not explained so stay.
pub(super) fn search_crowds(
    unity: Unity,
    fine: usize,
    bounds: Bounds,
    bins: &mut Vec<Shared>,
    found: &mut Vec<Crowd>,
    mut take: impl FnMut(u32, &[Coefficient], f64),
) {
    // Three are looked for again where there may be no more.
    let mut three = true;
    for search in [Search::Closed, Search::Three, Search::Four] {
        if bins.is_empty() {
            return;
        }
        if search == Search::Three && !std::mem::take(&mut three) {
            continue;
        }
        three = false;
        crowds(unity, fine, search, bins, found);
        let m = search.count();
        let limit = bounds.left[m - 3];
        let mut found = found.iter();
        bins.retain(|bin| {
            let Some(crowd) = found.next() else { return true };
            if !explains(crowd, m, limit, bounds.misplaced) {
                three |= !crowd.more;
                return true;
            }
            take(bin.bin, &crowd.members[..m], crowd.left);
            false
        });
    }
}

/// Whether m frequencies explain a bin, of which noise and rounding leave so much; `misplaced` is as for
/// [`Engine::misplaced`].
fn explains(crowd: &Crowd, m: usize, limit: f64, misplaced: f64) -> bool {
    /// Least share of a phasor of its own.
    const APART: f64 = 1e-12;
    let most = limit + OWN_ROUNDING * crowd.energy;
    let sizes = crowd.members[..m].iter().map(|c| c.a.norm_sqr());
    let weakest = sizes.fold(f64::INFINITY, f64::min);
    let placed = misplaced * crowd.apart * weakest > most;
    crowd.apart > APART && crowd.residual <= most && placed
}

impl Engine<'_, '_> {
    /// Of an open bin of a comb with one line only, if a coarser comb has seen it too: the other open bins
    /// which that one cannot tell apart from it. `None` where one of them needs its lines itself.
    fn beside(&self, b: usize) -> Option<impl Iterator<Item = usize>> {
        let comb = self.comb.as_ref().filter(|comb| comb.offsets.len() == 1)?;
        let (rough, most) = (self.scratch.rough, most_members(comb.lanes()));
        let is_open = |b: usize| self.suspects.binary_search(&(b as u32)).is_ok();
        if rough == 0 || !is_open(b) {
            return None;
        }
        let all = (b % rough..comb.buckets).step_by(rough);
        let others = all.filter(move |&other| other != b && is_open(other));
        let settled = others.clone().all(|other| self.known.members(other).count() <= most);
        settled.then_some(others)
    }

    /// The line of such a bin, and the next one: what the coarser comb holds less what is known in the
    /// other bins. What was known when it was measured is out. `None` also where its own lines are enough for
    /// this many members: the others are right only when their bins are known.
    fn both_lines(&self, b: usize, members: usize) -> Option<[Line; 2]> {
        let comb = self.comb.as_ref().filter(|comb| members > most_members(comb.lanes()))?;
        let others = self.beside(b)?;
        let place = self.suspects.binary_search(&(b as u32)).ok()?;
        let mut next = [self.scratch.coarse[place]];
        others.for_each(|other| self.peel_members(other, &mut next, &BOTH[1..]));
        Some([comb.measured[b], next[0]])
    }

    /// Takes what is known in a comb bin out of lines at these offsets.
    fn peel_members(&self, b: usize, lines: &mut [Line], offsets: &[u64]) {
        for i in self.known.members(b) {
            peel_bin(lines, offsets, self.unity, &self.known[i]);
        }
    }

    /// The lines of a comb bin less what is known in it.
    fn rest_of<'b>(&self, comb: &'b Hash, b: usize, out: &'b mut [Line; MAX_LINES]) -> Lanes<'b> {
        for (to, from) in out.iter_mut().zip(comb.measured_lanes_of(b).lines()) {
            *to = *from;
        }
        let lines = &mut out[..comb.offsets.len()];
        self.peel_members(b, lines, &comb.offsets);
        Lanes::new(lines, &comb.offsets)
    }

    /// Recomputes what is left in a comb bin.
    fn refresh_bin(&mut self, b: usize) {
        let Some(comb) = &self.comb else { return };
        let mut energy = 0.0;
        for (line, d) in comb.measured_lanes_of(b).lines().zip(&comb.offsets) {
            let mut rest = [*line];
            self.peel_members(b, &mut rest, &[*d]);
            energy += line_energy(&rest[0]);
        }
        if let Some(comb) = &mut self.comb {
            comb.energy[b] = energy;
        }
    }

    /// Adds amplitude at f: peels it from every hash.
    fn add(&mut self, f: u64, a: Complex<f64>) {
        let c = coefficient(self.unity, Found { f, value: a });
        match self.known.find(f) {
            Some(i) => self.known[i].a += a,
            None => _ = self.known.push(c),
        }
        for hash in &mut self.windows {
            peel_one(hash, self.unity, &c);
        }
        if let Some(b) = self.comb_bin(f) {
            self.refresh_bin(b);
        }
    }

    /// The bin of a comb that f lies in.
    fn comb_bin(&self, f: u64) -> Option<usize> {
        self.comb.as_ref().map(|comb| residue(f, comb.buckets as u64))
    }

    /// Whether there is something left where f lies in the comb, or no comb.
    pub(super) fn is_open_at(&self, f: u64) -> bool {
        let Some(comb) = &self.comb else { return true };
        comb.energy[residue(f, comb.buckets as u64)] > self.limit(comb, comb.lanes())
    }

    /// Whether some hash denies a at f: the bin that should hold it holds nothing.
    pub(super) fn contradicted(&self, f: u64, a: Complex<f64>) -> bool {
        self.comb.iter().chain(&self.windows).any(|hash| {
            let (b, gain) = hash.reach(f).best();
            let limit = self.limit(hash, hash.lanes());
            hash.energy[b] <= limit && hash.lanes() as f64 * (a * gain).norm_sqr() > 4.0 * limit
        })
    }

    /// Three or four frequencies in the open bins of a comb, from four more shifts next to the first. A
    /// coarser comb gives them: once what is known is taken out of its bins, most of those that hold an
    /// open bin hold nothing else. Its samples lie beside those that were read.
    /// `first` are those known that were set aside.
    pub(super) fn decode_crowds(&mut self, first: &[Coefficient]) -> Result<(), Error> {
        let open = self.suspects.len() as u64;
        let Some(comb) = &self.comb else { return Ok(()) };
        let fine = comb.buckets as u64;
        // In noise eight neighbouring shifts do not place a frequency; other lines do.
        let suits = comb.offsets[0] == 0 && (comb.offsets.len() > 1) == self.noisy;
        // A menu holds no such samples.
        let planned = self.run.plan.menu().is_some();
        if !suits || planned || !few_enough(self.n, fine, open) {
            return Ok(());
        }
        let bins = coarse_bins(fine, open, self.noisy);
        let mut coarse = Hash::comb(self.run, bins as usize);
        coarse.measure(self.run, NEXT)?;
        let mut owner = std::mem::take(&mut self.scratch.owner);
        list_owners(&self.suspects, bins, &mut owner);
        for c in first.iter().chain(self.known.iter()) {
            let b = residue(c.f, bins);
            if owner[b] != NONE {
                peel_bin(&mut coarse.measured[b..=b], &[NEXT], self.unity, c);
            }
        }
        if let Some(mut comb) = self.comb.take() {
            let mut shared = std::mem::take(&mut self.scratch.shared);
            shared.clear();
            for &bin in &self.suspects {
                let rough = (u64::from(bin) % bins) as usize;
                let alike = || self.scratch.alike.binary_search(&bin).is_ok();
                if owner[rough] == bin && !alike() {
                    let lines = [comb.measured[bin as usize], coarse.measured[rough]];
                    shared.push(Shared { bin, lines });
                }
            }
            self.scratch.rough = 0;
            if self.noisy {
                self.place_crowd(&mut comb, &shared, bins as f64 / fine as f64);
            } else {
                let mut found = std::mem::take(&mut self.scratch.crowds);
                let bounds = Bounds {
                    left: [3, 4].map(|m| self.limit(&coarse, SHIFTS - m)),
                    misplaced: self.misplaced(&comb, 42.0),
                };
                let (known, energy) = (&mut self.known, &mut comb.energy);
                search_crowds(
                    self.unity,
                    fine as usize,
                    bounds,
                    &mut shared,
                    &mut found,
                    |bin, members, left| {
                        members.iter().for_each(|c| _ = known.push(*c));
                        energy[bin as usize] = left;
                    },
                );
                self.scratch.crowds = found;
                if !shared.is_empty() || owner.contains(&SEVERAL) {
                    self.scratch.rough = bins as usize;
                    let of = |&b: &u32| coarse.measured[(u64::from(b) % bins) as usize];
                    self.scratch.coarse.clear();
                    self.scratch.coarse.extend(self.suspects.iter().map(of));
                }
            }
            self.scratch.shared = shared;
            self.comb = Some(comb);
        }
        self.scratch.owner = owner;
        coarse.recycle(self.run);
        Ok(())
    }

    /// Decodes three frequencies in each of these bins of a comb with noise, where they explain it. The
    /// second line of each bin counts by this weight.
    fn place_crowd(&mut self, comb: &mut Hash, shared: &[Shared], weight: f64) {
        /// Phases that are farther from a frequency are not those of one.
        const NEAR: f64 = 0.2;
        let mut found = std::mem::take(&mut self.scratch.triples);
        triples(comb.bins(self.unity), weight, shared, &mut found);
        let (limit, least) = (self.limit(comb, comb.lanes() - THREE), self.least);
        for (bin, triple) in shared.iter().zip(&found) {
            let b = bin.bin as usize;
            let lanes = comb.measured_lanes_of(b);
            let most = limit + OWN_ROUNDING * lanes.energy();
            // A bin with fewer would be explained too, by some that are hardly there.
            let explained = |fit: &Fit| {
                let weak = fit.values[..THREE].iter().any(|a| a.norm_sqr() < least);
                fit.residual <= most && fit.apart >= OWN_SHARE && !weak
            };
            if triple.away < NEAR
                && let Some(fit) = self.fit_bin(lanes, &triple.f).filter(explained)
            {
                for (f, value) in triple.f.into_iter().zip(fit.values) {
                    self.take(coefficient(self.unity, Found { f, value }));
                }
                comb.energy[b] = fit.residual;
                self.note_loose(b, fit.apart);
            }
        }
        self.scratch.triples = found;
    }

    /// Window hashes with fresh permutations until every bin is explained or the rounds are spent.
    pub(super) fn resolve(&mut self) -> Result<(), Error> {
        let mut stalled = 0u32;
        let menu = self.run.plan.menu();
        for round in 0..menu.map_or(MAX_ROUNDS, |menu| menu.rounds) {
            let mut open = self.open_bins();
            if open > 0 && !self.known.linked() {
                self.known.link(self.comb.as_ref().map(|c| c.buckets));
            }
            // What is left may be the error of values that share their bins: always with noise or a
            // comb, which takes values at once; between windows alone only where nothing else helps.
            let doubtful = self.noisy || self.comb.is_some() || stalled > 0;
            if open > 0 && !self.windows.is_empty() && doubtful {
                self.polish();
                self.exchange();
                open = self.open_bins();
            }
            // Four hashes without a find: something known is wrong, or the noise hides the rest.
            let done = open == 0 && !self.only_roughly() && !self.lacks_values();
            let spent = !self.run.plan.problem.affords(self.run.samples_read as f64);
            if done || stalled >= 4 || spent || self.overrun() {
                return Ok(());
            }
            // Each open bin holds two or more: what was asked for is not what is there.
            let k = self.run.plan.problem.k();
            if k.is_some_and(|k| (self.known.len() + 3 * open) as u64 > k.saturating_mul(4) + 16) {
                return Ok(());
            }
            // A bin of a comb stays open with three or more; in a window a frequency opens up to four.
            let (open, room) = match &self.comb {
                Some(_) => (3 * open as u64, 8),
                None => (open.div_ceil(4) as u64, BUCKETS_EACH),
            };
            let missing = k.map_or(0, |k| k.saturating_sub(self.known.len() as u64));
            let left = open.max(missing);
            let wanted = (room << (round / 2)).saturating_mul(left << (2 * stalled));
            let quiet = match self.noise > 0.0 {
                true => (100.0 * self.noise / self.weakest_open().max(f64::MIN_POSITIVE)) as u64,
                false => 0,
            };
            let quiet = quiet.min(self.most_buckets()).max(self.telling());
            // Not so few that peeling what is known would fill every bucket many times over.
            let roomy = self.known.len() as u64 / 16;
            let buckets =
                wanted.max(quiet).max(roomy).clamp(32, MOST_LINES.min(1 << 26)).next_power_of_two()
                    as usize;
            let buckets = menu.map_or(buckets, |menu| buckets.min(menu.buckets));
            let tones = (self.power - self.noise).max(f64::MIN_POSITIVE);
            let beta = if self.noisy {
                window::beta_for(0.1 * (self.noise / (tones * buckets as f64)).sqrt())
            } else {
                BETAS[4]
            };
            let reads = window::length(beta, buckets) as f64;
            if reads * 8.0 > self.n as f64 || reads * 60.0 > plan::dense_at_best(self.n) {
                return Ok(());
            }
            if !self.run.plan.problem.affords(self.run.samples_read as f64 + 4.0 * reads) {
                return Ok(());
            }
            // A hash far larger than the first: more bins there would tell more.
            let first = self.comb.as_ref().or(self.windows.first()).map_or(0, |h| h.buckets);
            if reads > 24.0 * first.max(64) as f64 {
                return Ok(());
            }
            let comb = self.coprime_comb(wanted);
            let mut hash = if comb.is_none() && self.witness_helps(buckets) {
                self.witness = Some(self.windows.len());
                self.measured_verifying_hash()?
            } else {
                let stream = window_stream(self.attempt, round);
                let window = || window_hash(self.run, buckets, beta, stream);
                let mut hash = comb.unwrap_or_else(window);
                hash.measure(self.run, 0)?;
                hash
            };
            if self.sees_more(&hash) {
                hash.recycle(self.run);
                self.blind = true;
                return Ok(());
            }
            self.peel_all(&mut hash, Hash::begin_peeling);
            let mut active = std::mem::take(&mut self.scratch.active);
            self.active_peaks(&hash, &mut active);
            let unit = self.residue_gap();
            let lines = hash.offsets.len();
            let least = self.least;
            if self.climb(&mut hash, unit, &active)? && hash.offsets.len() > lines {
                let first = hash.go_on_peeling();
                self.peel_from(&mut hash, first);
            }
            self.least = least.min(self.least);
            if self.windows.len() == 1 {
                self.early = self.known.len();
            }
            self.run.clock.lap(Stage::Peel);
            let before = self.known.len();
            if !self.noisy {
                self.decode_alone(&mut hash, &mut active);
                for window in &mut self.windows {
                    peel_all(window, self.unity, &self.known[before..], 0);
                    window.sum_energies();
                }
            }
            self.scratch.active = active;
            self.windows.push(hash);
            self.settle_from(before);
            self.exchange();
            stalled = if self.known.len() == before { stalled + 1 } else { 0 };
        }
        Ok(())
    }

    /// Whether the hash that will verify can show what is left in a few bins of a comb without noise.
    /// It is measured and peeled in any case, and stays a witness: a frequency that it shows counts
    /// only in an open bin of the comb, which then has to be explained to the last digit, as have all
    /// buckets of the witness.
    fn witness_helps(&self, wanted: usize) -> bool {
        let planned = self.run.plan.menu().is_some();
        let few = 16 * self.open_bins() < self.known.len();
        self.comb.is_some()
            && !self.noisy
            && !planned
            && few
            && self.witness.is_none()
            && self.verifying().0 >= wanted
    }

    /// Whether there are values that the comb cannot give and of which only the witness tells, whose
    /// window leaks more than those of other rounds.
    fn only_roughly(&self) -> bool {
        self.witness.is_some() && self.windows.len() == 1 && self.unsettled().next().is_some()
    }

    /// The comb bins with more members than it can give values to, but for those that are explained
    /// to the last digit.
    fn unsettled(&self) -> impl Iterator<Item = u32> + '_ {
        let limit = self.comb.as_ref().map_or(0.0, |comb| self.limit(comb, comb.lanes()));
        let open = move |b: usize| {
            let Some(comb) = &self.comb else { return false };
            self.noisy || comb.energy[b] > limit + 4.0 * OWN_ROUNDING * comb.measured_energy(b)
        };
        let suspects = self.suspects.iter().copied();
        suspects.filter(move |&b| self.overfull(b as usize) && open(b as usize))
    }

    /// A comb whose bins share no factor with those of the combs so far: frequencies that meet in
    /// one of them are spread by it at random, without a window, which reads four lines per bucket.
    /// In noise, windows also improve the values; and where the comb left nearly everything open,
    /// the frequencies have a structure that other combs may share.
    fn coprime_comb(&mut self, wanted: u64) -> Option<Hash> {
        let comb = self.comb.as_ref()?;
        // A menu holds windows, which serve every n and every noise.
        let planned = self.run.plan.menu().is_some();
        if planned || self.noisy || 2 * self.open_bins() > self.known.len() {
            return None;
        }
        let mut rest = coprime_part(self.n, comb.buckets as u64);
        for hash in &self.windows {
            if let Kind::Comb = hash.kind {
                rest = coprime_part(rest, hash.buckets as u64);
            }
        }
        let least = wanted.max(32);
        if rest < least {
            return None;
        }
        let most = least.saturating_mul(4).min(self.n / 8);
        let bins = smooth_divisors(rest, least, most).into_iter().next()?;
        Some(Hash::comb(self.run, bins as usize))
    }

    /// Whether far more has been found than was asked for: the signal is something else.
    fn overrun(&self) -> bool {
        let k = self.run.plan.problem.k();
        k.is_some_and(|k| self.known.len() as u64 > k.saturating_mul(16).saturating_add(1024))
    }

    /// Whether a window hash holds far more power than the comb: an impulse train that the comb
    /// steps over, for example.
    fn sees_more(&self, hash: &Hash) -> bool {
        self.comb.is_some() && window_power(hash) > 100.0 * self.power
    }

    /// Least distance between open residues of the comb: what a ladder has to tell apart.
    fn residue_gap(&self) -> u64 {
        let Some(comb) = &self.comb else { return 1 };
        let mut open = self.open(comb);
        let Some(first) = open.next() else { return 1 };
        let (mut last, mut gap) = (first, comb.buckets);
        for b in open {
            gap = gap.min(b - last);
            last = b;
        }
        gap.min(first + comb.buckets - last) as u64
    }

    /// Peels every known coefficient from one hash, which begins so unless some were peeled ahead.
    pub(super) fn peel_all(&mut self, hash: &mut Hash, begin: impl Fn(&mut Hash)) {
        let mut peeled = 0;
        if hash.is_peeled() {
            peeled = self.known.firm();
        }
        if peeled == 0 {
            begin(hash);
        }
        peel_all(hash, self.unity, &self.known[peeled..], 0);
        hash.sum_energies();
    }

    /// Peels every known coefficient from the lines of one hash from this one on.
    fn peel_from(&mut self, hash: &mut Hash, line: usize) {
        peel_all(hash, self.unity, &self.known, line);
        hash.sum_energies();
    }

    /// Number of bins that are not explained: those of the comb, or of the last window.
    fn open_bins(&self) -> usize {
        match self.comb.as_ref().or(self.windows.last()) {
            Some(hash) => self.unexplained(hash),
            None => 0,
        }
    }

    /// Number of bins of a hash that hold more than what is known explains.
    pub(super) fn unexplained(&self, hash: &Hash) -> usize {
        let open = self.open(hash);
        if hash.is_peeled() {
            // As a rule there is none, which is seen at a glance.
            let limit = self.limit(hash, hash.lanes());
            let above = hash.energy.iter().filter(|e| **e > limit).count();
            return if above == 0 { 0 } else { open.count() };
        }
        open.filter(|&b| hash.energy[b] > self.slack(hash, b)).count()
    }

    /// The bins of a hash that hold more than noise and the rounding of what was taken out: of the
    /// first comb, which is not peeled, among the suspects.
    fn open<'h>(&'h self, hash: &'h Hash) -> impl Iterator<Item = usize> + use<'h> {
        let limit = self.limit(hash, hash.lanes());
        let (some, all) = match hash.is_peeled() {
            false => (&self.suspects[..], 0..0),
            true => (&[][..], 0..hash.buckets),
        };
        some.iter().map(|&b| b as usize).chain(all).filter(move |&b| {
            hash.energy[b] > limit
                && hash.energy[b] > limit + 4.0 * OWN_ROUNDING * hash.measured_energy(b)
        })
    }

    /// What a comb bin may hold beyond its limit: a bin with as many known frequencies as lanes
    /// cannot be fitted by itself, so its values are those of the windows, with their errors.
    fn slack(&self, comb: &Hash, b: usize) -> f64 {
        let members = self.known.members(b).count();
        if !self.overfull(b) {
            return 0.0;
        }
        let best = self.windows.iter().map(|w| self.floor(w)).fold(f64::INFINITY, f64::min);
        self.limit(comb, comb.lanes()) + 50.0 * (members * comb.lanes()) as f64 * best
    }

    /// Least |a|² among the unexplained bins and the known coefficients.
    fn weakest_open(&self) -> f64 {
        let least = self.negligible();
        let known = self.known.iter().map(|c| c.a.norm_sqr()).filter(|a| *a > least);
        let known = known.fold(f64::INFINITY, f64::min);
        // The frequencies of an open bin may cancel, so its energy tells little; those already
        // known tell more, once there are some.
        if self.known.len() >= 8 {
            return known;
        }
        let Some(hash) = self.comb.as_ref().or(self.windows.first()) else { return 0.0 };
        let limit = self.limit(hash, hash.lanes());
        let comb = matches!(hash.kind, Kind::Comb);
        let open = (0..hash.buckets).filter(|&b| comb || is_peak(hash, b));
        let open = open.map(|b| hash.energy[b]).filter(|e| *e > limit);
        let open = open.fold(f64::INFINITY, |m, e| m.min(e / hash.lanes() as f64));
        known.min(0.25 * open)
    }

    /// Most buckets that noise may ask of a later hash: more would tell more than the first did.
    pub(super) fn most_buckets(&self) -> u64 {
        self.comb.as_ref().or(self.windows.first()).map_or(0, |h| 4 * h.buckets as u64)
    }

    /// |a|² of coefficients that corrections have brought down to the floor.
    pub(super) fn negligible(&self) -> f64 {
        match self.comb.as_ref().or(self.windows.first()) {
            Some(hash) => 0.25 * self.limit(hash, hash.lanes()) / hash.lanes() as f64,
            None => 0.0,
        }
    }

    /// Decodes bins of all hashes against each other until nothing more is found.
    pub(super) fn exchange(&mut self) {
        for _ in 0..200 {
            if self.overrun() {
                break;
            }
            let mut progress = false;
            for w in 0..self.windows.len() {
                progress |= self.decode_window(w);
            }
            progress |= self.decode_open_comb();
            if !progress {
                break;
            }
        }
        self.run.clock.lap(Stage::Locate);
    }

    /// Joint least squares, over all hashes, of the amplitudes that no comb bin settles: those of
    /// bins with more members than lanes, and in noise those of bins with nearly parallel phasors.
    /// Without a comb, of all.
    pub(super) fn polish(&mut self) {
        let explained = |window: &Hash| self.unexplained(window) == 0;
        let start = match self.comb {
            None if !self.noisy && self.windows.iter().all(explained) => Start::Near,
            _ => Start::Anywhere,
        };
        let mut chosen = std::mem::take(&mut self.scratch.chosen);
        chosen.clear();
        match &self.comb {
            None => chosen.extend(0..self.known.len() as u32),
            Some(_) => {
                for b in self.loose.iter().copied().chain(self.unsettled()) {
                    chosen.extend(self.known.members(b as usize).map(|i| i as u32));
                }
                chosen.sort_unstable();
                chosen.dedup();
            }
        }
        if !chosen.is_empty() && !self.windows.is_empty() {
            self.improve(&chosen, start);
        }
        self.scratch.chosen = chosen;
        self.run.clock.lap(Stage::Estimate);
    }

    /// Whether the windows hold so much of what was read that the values should use them.
    pub(super) fn worth_averaging(&self) -> bool {
        let enough = |comb| self.windows_tell() > 0.7 * self.information(comb);
        self.noisy && self.comb.as_ref().is_some_and(enough)
    }

    /// Whether a noisy comb hardly gives values to some frequencies, since they are alike or too many in a bin,
    /// and no window does so far.
    fn lacks_values(&self) -> bool {
        /// Share of the comb's information that is enough.
        const ENOUGH: f64 = 0.1;
        let Some(comb) = self.comb.as_ref().filter(|_| self.noisy) else { return false };
        let needed = self.closest < OWN_SHARE
            || !self.scratch.alike.is_empty()
            || self.unsettled().next().is_some();
        needed && self.windows_tell() < ENOUGH * self.information(comb)
    }

    /// Buckets of a window that gives them values as a rule.
    fn telling(&self) -> u64 {
        let lines = self.comb.as_ref().map_or(0, |comb| comb.offsets.len() * comb.buckets);
        if self.lacks_values() { lines as u64 / 16 } else { 0 }
    }

    /// How much all windows tell about values.
    fn windows_tell(&self) -> f64 {
        self.windows.iter().map(|h| self.information(h)).sum()
    }

    /// How much a hash tells about values: the inverse of the variance that it leaves them.
    fn information(&self, hash: &Hash) -> f64 {
        hash.lanes() as f64 / self.floor(hash).max(f64::MIN_POSITIVE)
    }

    /// Joint least squares of all amplitudes over all hashes.
    pub(super) fn average(&mut self) {
        let mut chosen = std::mem::take(&mut self.scratch.chosen);
        chosen.clear();
        chosen.extend(0..self.known.len() as u32);
        self.improve(&chosen, Start::Found);
        self.scratch.chosen = chosen;
        self.run.clock.lap(Stage::Estimate);
    }

    /// Joint least squares of the chosen amplitudes.
    fn improve(&mut self, chosen: &[u32], start: Start) {
        /// Share of the most telling window's information that is missed where there is nothing else to gain.
        const LEAST: f64 = 0.2;
        // Noise limits the values long before rounding does; without it, what the first solution
        // leaves is solved for again where it changed a value by more than a thousandth: its own
        // error is some 1e-13 of what it changed.
        const LITTLE: f64 = 1e-6;
        let loud = self.noise > 1e-8 * self.power;
        let (passes, goal) = match start {
            _ if loud => (1, 1e-7),
            Start::Anywhere | Start::Found => (2, 1e-26),
            Start::Near => (2, 1e-12),
        };
        let all = chosen.len() == self.known.len();
        let most = self.windows.iter().map(|h| self.information(h)).fold(0.0, f64::max);
        let least = if start == Start::Found { LEAST * most } else { 0.0 };
        for _ in 0..passes {
            let mut part = std::mem::take(&mut self.scratch.part);
            part.clear();
            part.extend(chosen.iter().map(|&i| self.known[i as usize]));
            let mut lines = std::mem::take(&mut self.scratch.lines);
            lines.clear();
            // Without noise the comb adds nothing: bins with more members than lanes fit anything.
            let comb = self.comb.as_ref().filter(|_| self.noisy);
            if let Some(comb) = comb {
                for c in &part {
                    let mut rest = [Line::ZERO; MAX_LINES];
                    let b = (c.f % comb.buckets as u64) as usize;
                    lines.extend(self.rest_of(comb, b, &mut rest).lines());
                }
            }
            let best = comb.into_iter().chain(&self.windows).map(|h| self.floor(h));
            let best = best.fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
            // Without noise and comb, what the first window has settled gains nothing from smaller
            // ones, in which everything meets everything.
            let late = if self.noisy || self.comb.is_some() { 0 } else { self.early };
            let view = |(i, hash)| View {
                hash,
                weight: best / self.floor(hash).max(f64::MIN_POSITIVE),
                lines: &[],
                from: if i == 0 { 0 } else { late },
            };
            let own = |hash| View { lines: &lines, ..view((0, hash)) };
            let tells = |(_, hash): &(usize, &Hash)| self.information(hash) >= least;
            let windows = self.windows.iter().enumerate().filter(tells).map(view);
            let views: Vec<View<'_>> = comb.into_iter().map(own).chain(windows).collect();
            let mut equations = std::mem::take(&mut self.scratch.equations);
            corrections(&part, &views, self.unity, goal, &mut equations);
            drop(views);
            let mut little = true;
            for ((&i, part), change) in chosen.iter().zip(&mut part).zip(&equations.change) {
                let c = &mut self.known[i as usize];
                little &= change.norm_sqr() < LITTLE * c.a.norm_sqr();
                c.a += change;
                part.a = *change;
            }
            for hash in &mut self.windows {
                if little && start == Start::Near {
                    continue;
                }
                if all {
                    peel_all(hash, self.unity, &part, 0);
                    hash.sum_energies();
                } else {
                    part.iter().for_each(|change| peel_one(hash, self.unity, change));
                }
            }
            self.scratch.equations = equations;
            self.scratch.part = part;
            self.scratch.lines = lines;
            if little {
                break;
            }
        }
        if let Some(comb) = &self.comb {
            let size = comb.buckets as u64;
            for &i in chosen {
                self.refresh_bin((self.known[i as usize].f % size) as usize);
            }
        }
    }

    /// One pass over the active buckets of a window hash, strongest first.
    fn decode_window(&mut self, w: usize) -> bool {
        let mut active = std::mem::take(&mut self.scratch.active);
        let hash = &self.windows[w];
        self.active_peaks(hash, &mut active);
        let energy = |b: u32| hash.energy[b as usize];
        active.sort_unstable_by(|&a, &b| energy(b).total_cmp(&energy(a)));
        let mut progress = false;
        for &b in &active {
            let hash = &self.windows[w];
            // Earlier finds of this pass may have emptied the bucket.
            if hash.energy[b as usize] <= self.limit(hash, hash.lanes()) {
                continue;
            }
            let found = self.decode_bucket(w, b as usize);
            for s in found.into_iter().flatten() {
                if !self.contradicted(s.f, s.value) {
                    self.add(s.f, s.value);
                    progress = true;
                    if let Some(b) = self.comb_bin(s.f) {
                        self.settle_if_whole(b);
                    }
                }
            }
        }
        self.scratch.active = active;
        progress
    }

    /// One or two frequencies of a window bucket, as amplitudes.
    fn decode_bucket(&self, w: usize, b: usize) -> [Option<Found>; 2] {
        let hash = &self.windows[w];
        let lanes = hash.lanes_of(b);
        let energy = hash.energy[b];
        let own = WINDOW_ROUNDING * energy;
        if let Some(f) = self.snap(hash, b, locate_one(lanes))
            && let Some(amplitude) = hash.amplitude(f, b)
        {
            let (value, residual) = value_of_one(self.unity, lanes, f);
            if residual <= self.limit(hash, lanes.count() - 1) + own {
                return [Some(Found { f, value: value * amplitude }), None];
            }
        }
        let Some(t) = locate_two(lanes) else { return [None; 2] };
        if (t[0] - t[1] - (t[0] - t[1]).round()).abs() < GAP {
            return [None; 2];
        }
        let (Some(f), Some(g)) = (self.snap(hash, b, t[0]), self.snap(hash, b, t[1])) else {
            return [None; 2];
        };
        let (Some(gain_f), Some(gain_g)) = (hash.amplitude(f, b), hash.amplitude(g, b)) else {
            return [None; 2];
        };
        match values_of_two(self.unity, lanes, [f, g]) {
            Some(p) if p.residual <= self.limit(hash, lanes.count() - 2) + own => [
                Some(Found { f, value: p.values[0] * gain_f }),
                Some(Found { f: g, value: p.values[1] * gain_g }),
            ],
            _ => [None; 2],
        }
    }

    /// The frequency nearest to t that bucket b of a hash and an open comb bin allow.
    fn snap(&self, hash: &Hash, b: usize, t: f64) -> Option<u64> {
        let Some(comb) = &self.comb else { return Some(Lattice::all(self.n).snap(t).0) };
        let limit = self.limit(comb, comb.lanes());
        let size = comb.buckets as u64;
        if !self.noisy {
            let lattice = match hash.kind {
                Kind::Comb => {
                    Lattice { n: self.n, modulus: hash.buckets as u64, residue: b as u64 }
                }
                Kind::Window { .. } => Lattice::all(self.n),
            };
            let (f, _) = lattice.snap(t);
            return self.is_open_at(f).then_some(f);
        }
        // With noise, the ladder was only built to tell the open residues apart: the nearest one
        // on either side of t·n mod B.
        let residue = (t * self.n as f64).rem_euclid(size as f64);
        let at = self.suspects.partition_point(|&b| f64::from(b) < residue);
        let is_open = |&&b: &&u32| {
            let energy = comb.energy[b as usize];
            energy > limit + 4.0 * OWN_ROUNDING * comb.measured_energy(b as usize)
        };
        let (before, after) = self.suspects.split_at(at);
        let above = after.iter().chain(before).find(is_open);
        let below = before.iter().rev().chain(after.iter().rev()).find(is_open);
        let near = [above, below].into_iter().flatten();
        let near = near.map(|&b| Lattice { n: self.n, modulus: size, residue: b.into() }.snap(t));
        near.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(f, _)| f)
    }

    /// Least-squares values of these frequencies in one bin.
    fn fit_bin(&mut self, lanes: Lanes<'_>, f: &[u64]) -> Option<Fit> {
        let m = lanes.count();
        let mut values = [Complex::ZERO; MAX_FIT];
        let (residual, apart) = match *f {
            [f] => {
                let (value, residual) = value_of_one(self.unity, lanes, f);
                values[0] = value;
                (residual, 1.0)
            }
            [f, g] => {
                let pair = values_of_two(self.unity, lanes, [f, g])?;
                values[..2].copy_from_slice(&pair.values);
                (pair.residual, pair.apart)
            }
            _ if f.is_empty() || f.len() > most_members(m) => return None,
            _ => {
                let Scratch { rows, data, .. } = &mut *self.scratch;
                rows.clear();
                for &f in f {
                    phasors(self.unity, f, lanes.offsets, rows);
                }
                lanes.flat(data);
                fit(rows, data, &mut values[..f.len()])?
            }
        };
        Some(Fit { values, residual, apart })
    }

    /// Fits the members of a comb bin, or all but one, to what was measured; `None` where that does
    /// not explain the bin. The members fitted are left in the scratch.
    fn refit(&mut self, b: usize, except: Option<u64>) -> Option<Fit> {
        self.comb.as_ref()?;
        let mut members = std::mem::take(&mut self.scratch.members);
        members.clear();
        members
            .extend(self.known.members(b).map(|i| self.known[i].f).filter(|&f| Some(f) != except));
        let both = self.both_lines(b, members.len());
        let comb = self.comb.take()?;
        let fitted = self.fit_to_all(&comb, b, both.as_ref(), &members);
        self.scratch.members = members;
        self.comb = Some(comb);
        fitted
    }

    /// Fits frequencies to all lanes of a comb bin, those of a coarser comb included; `None` where that
    /// does not explain it.
    fn fit_to_all(
        &mut self,
        comb: &Hash,
        b: usize,
        both: Option<&[Line; 2]>,
        f: &[u64],
    ) -> Option<Fit> {
        // The bin's own where they are enough: the others are right only when their bins are known.
        let both = both.filter(|_| f.len() > most_members(comb.lanes()));
        let lanes = match both {
            Some(both) => Lanes::new(both, &BOTH),
            None => comb.measured_lanes_of(b),
        };
        let mut fit = self.fit_bin(lanes, f)?;
        let dof = lanes.count().saturating_sub(f.len()).max(1);
        // Coarser bins hold more rounding.
        let more = both.map_or(1.0, |_| comb.buckets as f64 / self.scratch.rough as f64);
        let most = more * self.limit(comb, dof) + OWN_ROUNDING * lanes.energy();
        if fit.residual > most {
            return None;
        }
        if let Some(both) = both {
            // What is left of the comb's own.
            let mut line = [both[0]];
            for (&f, &value) in f.iter().zip(&fit.values) {
                peel_bin(
                    &mut line,
                    &BOTH[..1],
                    self.unity,
                    &coefficient(self.unity, Found { f, value }),
                );
            }
            fit.residual = line_energy(&line[0]);
        }
        Some(fit)
    }

    /// Gives the members in the scratch the values of their fit, in every hash.
    fn adopt(&mut self, b: usize, fit: &Fit) {
        for (&f, v) in self.scratch.members.iter().zip(fit.values) {
            if let Some(i) = self.known.find(f) {
                let change = Coefficient { a: v - self.known[i].a, ..self.known[i] };
                self.known[i].a = v;
                for hash in &mut self.windows {
                    peel_one(hash, self.unity, &change);
                }
            }
        }
        if let Some(comb) = &mut self.comb {
            comb.energy[b] = fit.residual;
        }
    }

    /// Refits a comb bin with all its known frequencies; exact values replace those of the window where
    /// the bin is then explained.
    fn settle(&mut self, b: usize) {
        if let Some(fit) = self.refit(b, None) {
            self.adopt(b, &fit);
            self.note_loose(b, fit.apart);
        }
    }

    /// Refits the comb bins of those known from this place on, which windows gave their values.
    fn settle_from(&mut self, place: usize) {
        let Some(comb) = &self.comb else { return };
        let size = comb.buckets as u64;
        let mut bins = std::mem::take(&mut self.scratch.open);
        bins.clear();
        bins.extend(self.known[place..].iter().map(|c| residue(c.f, size) as u32));
        bins.sort_unstable();
        bins.dedup();
        for b in bins.iter().map(|&b| b as usize) {
            self.refresh_bin(b);
            self.settle_if_whole(b);
        }
        self.scratch.open = bins;
    }

    /// [`settle`](Engine::settle), unless the known frequencies of the bin leave so much there that no values
    /// of theirs would explain it: those that windows gave them are off by little without noise.
    fn settle_if_whole(&mut self, b: usize) {
        /// Share of energy that the error of a value does not reach.
        const OFF: f64 = 1e-5;
        let Some(comb) = &self.comb else { return };
        let sizes = self.known.members(b).map(|i| self.known[i].a.norm_sqr());
        let most = OFF * comb.lanes() as f64 * sizes.sum::<f64>();
        if self.noisy || comb.energy[b] <= most {
            self.settle(b);
        }
    }

    /// Takes f out of its comb bin if the other members explain the bin without it.
    pub(super) fn drop_member(&mut self, b: usize, f: u64) -> bool {
        let Some(fit) = self.refit(b, Some(f)) else { return false };
        self.adopt(b, &fit);
        if let Some(i) = self.known.find(f) {
            let rest = Coefficient { a: -self.known[i].a, ..self.known[i] };
            for hash in &mut self.windows {
                peel_one(hash, self.unity, &rest);
            }
        }
        self.known.drop(f);
        true
    }

    /// Whether a comb bin has so many members that it cannot be fitted by itself.
    pub(super) fn overfull(&self, b: usize) -> bool {
        let own = self.comb.as_ref().map_or(4, |comb| comb.lanes());
        let members = self.known.members(b).count();
        members > most_members(own)
            && (self.beside(b).is_none() || members > most_members(4 * BOTH.len()))
    }

    /// Measures one more line of the comb, next to the first, so that overfull bins can be fitted.
    pub(super) fn widen(&mut self) -> Result<(), Error> {
        let Some(mut comb) = self.comb.take() else { return Ok(()) };
        let next = comb.offsets.iter().max().map_or(0, |d| d + 4);
        let planned = self.run.plan.menu().is_none_or(|menu| menu.spare == Some(next));
        let measured = match comb.offsets.len() < MAX_LINES && planned {
            true => comb.measure(self.run, next),
            false => Ok(()),
        };
        let size = comb.buckets as u64;
        self.comb = Some(comb);
        measured?;
        for i in 0..self.known.len() {
            self.refresh_bin((self.known[i].f % size) as usize);
        }
        for i in 0..self.suspects.len() {
            let b = self.suspects[i] as usize;
            if let Some(fit) = self.refit(b, None) {
                self.adopt(b, &fit);
            }
        }
        Ok(())
    }

    /// Decodes what is left in open comb bins of which something is known.
    fn decode_open_comb(&mut self) -> bool {
        let Some(comb) = &self.comb else { return false };
        let mut open = std::mem::take(&mut self.scratch.open);
        open.clear();
        open.extend(self.open(comb).map(|b| b as u32));
        let mut progress = false;
        for &b in &open {
            if let Some(found) = self.decode_open_bin(b as usize) {
                for &f in found.iter().flatten() {
                    self.add(f, Complex::ZERO);
                }
                if found[0].is_some() {
                    self.settle(b as usize);
                    progress = true;
                }
            }
        }
        self.scratch.open = open;
        progress
    }

    /// One or two more frequencies that explain an open comb bin together with its members.
    fn decode_open_bin(&mut self, b: usize) -> Option<[Option<u64>; 2]> {
        let known = self.known.members(b).count();
        if known == 0 {
            return None;
        }
        let both = self.both_lines(b, known + 2);
        let comb = self.comb.take()?;
        // The residual carries the error of the window's values: decode first, then judge by a
        // joint fit of the measured bin.
        let mut lines = [Line::ZERO; MAX_LINES];
        let rest = self.rest_of(&comb, b, &mut lines);
        let lattice = Lattice { n: self.n, modulus: comb.buckets as u64, residue: b as u64 };
        let (one, _) = decode_one(self.unity, rest, lattice);
        let two = decode_two(self.unity, rest, lattice).map(|(f, _)| f.map(Some));
        let mut members = std::mem::take(&mut self.scratch.members);
        members.clear();
        members.extend(self.known.members(b).map(|i| self.known[i].f));
        let mut found = None;
        for extra in [Some([Some(one.f), None]), two].into_iter().flatten() {
            members.truncate(known);
            members.extend(extra.iter().flatten().filter(|f| self.known.find(**f).is_none()));
            let fresh = members.len() - known;
            if fresh == 0 {
                continue;
            }
            let Some(fit) = self.fit_to_all(&comb, b, both.as_ref(), &members) else { continue };
            // The comb is out of its place here, so only the windows may object.
            let objected =
                (known..members.len()).any(|i| self.contradicted(members[i], fit.values[i]));
            if !objected {
                found = Some([members.get(known).copied(), members.get(known + 1).copied()]);
                break;
            }
        }
        self.scratch.members = members;
        self.comb = Some(comb);
        found
    }
}
