//! One attempt: measure, set the noise level, decode what stands alone.

use super::decode::{Findings, Limits, decode};
use super::resolve::{self, GAP};
use super::sprint::{self, Sprint};
use super::{Outcome, first_beta, refuse, window_hash};
use crate::Error;
use crate::algorithms::{Answer, Run};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::threads;
use crate::plan::{self, Stored};
use crate::problem::{Algorithm, Noise};
use crate::samples::Line;
use crate::stages::Stage;
use crate::stages::certify::{floor, quantile, threshold};
use crate::stages::hash::{Ahead, Hash, Kind};
use crate::stages::known::{Chains, Known};
use crate::stages::locate::{Found, MAX_LINES, comb_doubles, comb_singles};
use crate::stages::order::Order;
use crate::stages::peel::{Coefficient, peel_all};
use crate::stages::unity::Unity;
use crate::stages::window::Kaiser;
use std::sync::{Arc, Mutex, PoisonError};

/// Rounding, relative to the rms sample: three orders above what f64 transforms leave, so that it
/// also covers signals that were themselves made by one.
pub(crate) const ROUNDING: f64 = 1e-13;
/// Rounding relative to the energy of the same bin.
pub(super) const OWN_ROUNDING: f64 = 1e-26;
/// The same in a bucket of a window, whose response is known to fewer digits.
pub(super) const WINDOW_ROUNDING: f64 = 1e-24;
/// Share of active bins above which a comb is too small.
const CROWDED: f64 = 0.35;
/// The same of a window where the number of coefficients is unknown.
const CROWDED_WINDOW: f64 = 0.5;
/// The same where its bins can still be doubled.
pub(super) const CROWDED_AT_FIRST: f64 = 0.47;
/// Power below which squares of samples lose their digits.
pub(super) const TINY_POWER: f64 = 1e-250;
/// Least signal-to-noise ratio of a lane for which a ladder is built.
const LEAST_GAMMA: f64 = 16.0;
/// Least share of a phasor, over all lines, that the other one of a noisy bin must not cover: their
/// values carry the noise divided by its root, and further samples serve them better below.
pub(super) const OWN_SHARE: f64 = 0.1;

/// Share below which values are worth improving by other hashes.
const LOOSE: f64 = 0.3;

/// Why tiny samples are refused.
const TOO_SMALL: &str = "the samples are so small that their squares vanish; scale the signal";

/// Why noise ends an attempt.
const TOO_NOISY: &str = "there is so much noise that a dense FFT is as quick";

/// One attempt: the hashes measured, the coefficients found, the noise as known so far.
///
/// The energies of the comb are always those of what is left: of a decoded bin, what its
/// frequencies leave. Its lines stay as measured.
pub(super) struct Engine<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) n: u64,
    pub(super) unity: Unity,
    /// Standard deviations of every threshold.
    pub(super) sigmas: f64,
    pub(super) attempt: u32,
    /// Sets of samples that attempts before this one have read.
    pub(super) earlier: usize,
    /// Bins of the comb once they have been doubled.
    room: usize,
    /// Whether the bins may hold noise.
    pub(super) noisy: bool,
    /// Noise power of one sample.
    pub(super) noise: f64,
    /// Power of one sample, everything included.
    pub(super) power: f64,
    /// Least |a|² that the ladder places reliably.
    pub(super) least: f64,
    pub(super) comb: Option<Hash>,
    pub(super) windows: Vec<Hash>,
    /// The window that will verify, if a helper has measured it already and peeled what was firm then, and
    /// the largest |x|² that it met.
    pub(super) ahead: Option<(Hash, f64)>,
    /// Which of the windows is the one that verifies, if it had to help.
    pub(super) witness: Option<usize>,
    pub(super) known: Known,
    /// How many of the known were found in the first window alone.
    pub(super) early: usize,
    /// Comb bins that the first pass could not decode, ascending.
    pub(super) suspects: Vec<u32>,
    /// Comb bins whose values are worth improving by other hashes.
    pub(super) loose: Vec<u32>,
    /// Least share of their own that phasors in these bins have, which other hashes have told apart.
    pub(super) closest: f64,
    /// Active bins too weak to be placed.
    pub(super) weak: usize,
    /// Whether a window has seen what the comb does not.
    pub(super) blind: bool,
    /// Whether the lines that a window needs cost more than a dense FFT.
    dear: bool,
    /// Whether what is below the tolerance passes for noise.
    tolerant: bool,
    pub(super) scratch: Box<resolve::Scratch>,
    /// The order of the known, as far as a helper has found it.
    pub(super) order: Order,
}

/// What is prepared for later, by whoever has time first: the order of those known that are set aside, and
/// which of them share a bin.
struct Later {
    order: Order,
    chains: Chains,
    done: bool,
}

impl Later {
    fn prepare(&mut self, first: &[Coefficient], bins: usize) {
        if !first.is_empty() && !std::mem::replace(&mut self.done, true) {
            self.order.extend(first);
            self.chains.link(first, Some(bins));
        }
    }
}

/// The buffers of an engine, kept between attempts.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    known: Known,
    suspects: Vec<u32>,
    loose: Vec<u32>,
    windows: Vec<Hash>,
    /// In a box, since it changes hands with every attempt.
    scratch: Option<Box<resolve::Scratch>>,
    order: Order,
}

impl<'r, 'a> Engine<'r, 'a> {
    pub(super) fn new(run: &'r mut Run<'a>, sigmas: f64, attempt: u32) -> Self {
        let n = run.plan.problem.n;
        let Buffers { mut known, mut suspects, mut loose, windows, scratch, mut order } =
            std::mem::take(&mut run.workspace.engine);
        order.clear(n);
        known.clear();
        suspects.clear();
        loose.clear();
        let mut scratch = scratch.unwrap_or_default();
        scratch.clear();
        let earlier = run.workspace.evidence.sets().len();
        Engine {
            run,
            n,
            unity: Unity::new(n),
            sigmas,
            attempt,
            earlier,
            room: 0,
            noisy: false,
            noise: 0.0,
            power: 0.0,
            least: 0.0,
            comb: None,
            windows,
            ahead: None,
            witness: None,
            known,
            early: 0,
            suspects,
            loose,
            closest: 1.0,
            weak: 0,
            blind: false,
            dear: false,
            tolerant: false,
            scratch,
            order,
        }
    }

    /// Hands back the buffers; the comb is kept for a finer one.
    pub(super) fn finish(self) -> Option<Hash> {
        let Engine {
            run, comb, mut windows, ahead, known, suspects, loose, scratch, order, ..
        } = self;
        for window in windows.drain(..) {
            window.recycle(run);
        }
        if let Some((unused, _)) = ahead {
            run.samples_unused += 4 * unused.reads() as u64;
            unused.recycle(run);
        }
        let scratch = Some(scratch);
        run.workspace.engine = Buffers { known, suspects, loose, windows, scratch, order };
        comb
    }

    /// Whether the caller or the name of the algorithm rules noise out.
    fn declared_exact(&self) -> bool {
        self.run.plan.problem.noise == Noise::Exact
            || self.run.plan.recipe.algorithm == Algorithm::Exact
    }

    /// Noise power that one lane of one bin of a hash holds: that of the samples, rounding, and
    /// what a window leaks.
    pub(super) fn floor(&self, hash: &Hash) -> f64 {
        match &hash.kind {
            Kind::Comb => comb_floor(self.noise, self.power, hash.buckets),
            Kind::Window { kaiser, .. } => window_floor(self.noise, self.power, kaiser),
        }
    }

    /// Energy that noise over `lanes` lanes of a hash does not exceed.
    pub(super) fn limit(&self, hash: &Hash, lanes: usize) -> f64 {
        self.floor(hash) * threshold(lanes, self.sigmas)
    }

    /// Lists the bins whose energy noise does not explain.
    pub(super) fn active(&self, hash: &Hash, out: &mut Vec<u32>) {
        list_above_all(&hash.energy, self.limit(hash, hash.lanes()), out);
    }

    /// [`active`](Engine::active), of a window those alone that hold more than their neighbours.
    pub(super) fn active_peaks(&self, hash: &Hash, out: &mut Vec<u32>) {
        self.active(hash, out);
        if let Kind::Window { .. } = hash.kind {
            out.retain(|&b| is_peak(hash, b as usize));
        }
    }

    /// Sets the noise power and lists the bins that are active then.
    fn measure_noise(&mut self, hash: &Hash, list: &mut Vec<u32>) {
        self.noise = 0.0;
        self.active(hash, list);
        self.leave_out_noise(hash, list);
    }

    /// Where these bins, which are active without noise, are so many that there is some: sets its power
    /// from the quiet bins of a hash, by the p-quantile of their energies, corrected for the share that is
    /// occupied, and lists the bins that are active then.
    fn leave_out_noise(&mut self, hash: &Hash, list: &mut Vec<u32>) {
        // If quiet bins are silent to rounding, there is no noise to measure.
        if self.declared_exact() || !self.is_crowded(hash, list) {
            return;
        }
        let per_lane = match &hash.kind {
            Kind::Comb => hash.buckets as f64,
            Kind::Window { kaiser, .. } => 1.0 / kaiser.energy(),
        };
        let scratch = &mut self.run.workspace.energies;
        let p = 0.3;
        self.noise = floor(&hash.energy, hash.lanes(), p, scratch) * per_lane;
        self.active(hash, list);
        let occupied = list.len() as f64 / hash.buckets as f64;
        let quiet = (p / (1.0 - occupied.min(0.6))).min(0.75);
        // The same rank among the quiet bins alone.
        let value = self.noise * quantile(hash.lanes(), p);
        self.noise = value / quantile(hash.lanes(), quiet);
        self.noisy = true;
        self.active(hash, list);
    }

    /// Whether there is so much noise that the attempt should end here.
    fn gives_way(&self) -> bool {
        /// Share of the power that is little noise: it needs few lines more, and few windows.
        const LITTLE: f64 = 1e-3;
        /// Share of the power that a probe takes for a crowd of coefficients rather than for noise:
        /// side lobes of frequencies between the bins leave a hundredth in quiet bins, equal
        /// coefficients in all bins nearly everything.
        const CROWD: f64 = 0.1;
        /// Share of the power that is rounding: of 32-bit samples a part in 10^15, of 16-bit ones of
        /// full scale in 10^10.
        const ROUNDING: f64 = 1e-9;
        let leaks = ROUNDING * self.power..CROWD * self.power;
        if self.run.plan.problem.probe && self.noisy && leaks.contains(&self.noise) {
            return true;
        }
        self.run.plan.quiet_only() && self.noise > LITTLE * self.power
    }

    /// Adds the lines that the weakest active bin needs. `false` if no ladder can place it.
    pub(super) fn climb(
        &mut self,
        hash: &mut Hash,
        unit: u64,
        active: &[u32],
    ) -> Result<bool, Error> {
        let floor = self.floor(hash);
        let lanes = hash.lanes() as f64;
        let weakest = active.iter().map(|&b| hash.energy[b as usize]).fold(f64::INFINITY, f64::min);
        if weakest.is_infinite() {
            return Ok(true);
        }
        let mut gamma = (weakest / lanes / floor - 1.0).max(LEAST_GAMMA);
        let Some(mut ladder) = self.rungs(hash, gamma, unit) else {
            return Ok(false);
        };
        if ladder.offsets == [0] && self.lacks_pairs(hash, active.len(), gamma * floor) {
            while ladder.offsets == [0]
                && 0.5 * gamma > LEAST_GAMMA
                && let Some(finer) = self.rungs(hash, 0.5 * gamma, unit)
            {
                (ladder, gamma) = (finer, 0.5 * gamma);
            }
        }
        if self.costs_more_than_dense(hash, ladder.offsets.len()) {
            self.dear = true;
            return Ok(false);
        }
        let Stored { gamma, offsets, margin } = &*ladder;
        // A frequency is placed reliably while the margin at its own strength is five sigmas.
        let noisy = offsets.len() > 1 || self.noisy;
        self.least = if noisy { gamma * floor * (5.0 / margin).powi(2) } else { 0.0 };
        for &d in offsets {
            if !hash.offsets.contains(&d) && hash.offsets.len() < MAX_LINES {
                hash.measure_more(self.run, d)?;
            }
        }
        Ok(true)
    }

    /// Whether so many lines of a first window cost more than the dense FFT that they may save. Where k is known the plan has compared them.
    fn costs_more_than_dense(&self, hash: &Hash, lines: usize) -> bool {
        /// Nanoseconds for a line of a window with all that is done with it, as measured: with samples
        /// in a cache, and in main memory from so many samples on.
        const EACH: [f64; 2] = [40.0, 100.0];
        const FAR: u64 = 1 << 18;
        /// Windows that are needed, this one included, for colliding frequencies and to verify.
        const WINDOWS: f64 = 2.0;
        let problem = &self.run.plan.problem;
        let planned = problem.k().is_some() || self.run.plan.menu().is_some();
        let first = self.comb.is_none() && self.windows.is_empty();
        let comb = matches!(hash.kind, Kind::Comb);
        if comb || !first || planned || !problem.fallback.allows(self.n) {
            return false;
        }
        let each = EACH[usize::from(self.n >= FAR)];
        let read = self.run.samples_read as f64 / 4.0;
        let lines = read + WINDOWS * (lines * hash.reads()) as f64;
        each * lines > plan::dense(self.n).nanoseconds
    }

    /// Whether one line of a comb in noise does not place both frequencies of some bin, so many bins
    /// being active, |a|² as little as `weakest`: hashes that would tell them apart read more than another line.
    fn lacks_pairs(&self, comb: &Hash, active: usize, weakest: f64) -> bool {
        if !self.noisy || !matches!(comb.kind, Kind::Comb) {
            return false;
        }
        let share = self.limit(comb, comb.lanes() - 2) / (self.misplaced(comb, 5.0) * weakest);
        // Phasors that turn against each other by δ per shift have 1.25 δ² of their own, if that is little.
        let close = (share / 1.25).sqrt() / std::f64::consts::PI;
        let pairs = (active * active) as f64 / (2 * comb.buckets) as f64;
        pairs * close.min(1.0) > 0.5
    }

    /// The lines that bins of this ratio need: from the menu, where there is one and the first line
    /// is not enough.
    fn rungs(&self, hash: &Hash, gamma: f64, unit: u64) -> Option<Arc<Stored>> {
        let made = self.run.plan.ladder(gamma, unit);
        let Some(menu) = self.run.plan.menu() else { return made };
        if made.as_ref().is_some_and(|ladder| ladder.offsets == [0]) {
            return made;
        }
        let first =
            matches!(hash.kind, Kind::Comb) || self.comb.is_none() && self.windows.is_empty();
        let rungs = if first { &menu.first } else { &menu.window };
        rungs.serves(gamma, unit).then(|| {
            let (offsets, margin) = (rungs.offsets.clone(), rungs.margin);
            Arc::new(Stored { gamma: rungs.gamma, offsets, margin })
        })
    }

    /// Whether these active bins are too many for a first hash.
    fn is_crowded(&self, hash: &Hash, active: &[u32]) -> bool {
        let most = if self.is_half(hash) { CROWDED_AT_FIRST } else { CROWDED };
        active.len() as f64 > most * hash.buckets as f64
    }

    /// Whether this is a comb whose bins can still be doubled.
    fn is_half(&self, hash: &Hash) -> bool {
        matches!(hash.kind, Kind::Comb) && hash.buckets < self.room
    }

    /// A comb of all frequencies, then windows for what it leaves. It has the first number of bins, and
    /// the second one if there is noise or too much else in them.
    pub(super) fn comb_attempt(
        &mut self,
        [bins, room]: [usize; 2],
        previous: Option<Hash>,
        begun: Option<Sprint>,
        ladder: &[u64],
    ) -> Result<Outcome, Error> {
        self.room = room;
        let mut decoded = None;
        let mut comb = match previous {
            // What looked like noise in a coarse comb may be more coefficients than it has bins, where their
            // number is unknown: then the lines against it are not needed.
            Some(coarse) => {
                let plan = self.run.plan;
                let grows = plan.problem.k().is_none() && plan.menu().is_none();
                let lines = if grows { 1 } else { usize::MAX };
                coarse.refine(self.run, bins, lines)?
            }
            None => match begun {
                Some(Sprint::Measured(comb)) => comb,
                Some(Sprint::Decoded(comb, room)) => {
                    decoded = Some(room);
                    comb
                }
                _ => {
                    let mut comb = Hash::comb(self.run, bins);
                    for &d in ladder {
                        comb.measure_more(self.run, d)?;
                    }
                    comb
                }
            },
        };
        self.power = comb.total / comb.lanes() as f64;
        if self.power < TINY_POWER && comb.measured_lines().iter().any(|line| *line != Line::ZERO) {
            self.comb = Some(comb);
            return Ok(Outcome::Short(refuse(self.run, TOO_SMALL, 1)));
        }
        let mut active = std::mem::take(&mut self.run.workspace.lists[0]);
        self.active(&comb, &mut active);
        if self.is_half(&comb) && self.is_crowded(&comb, &active) {
            comb = comb.double(self.run)?;
            self.power = comb.total / comb.lanes() as f64;
            self.active(&comb, &mut active);
        }
        self.leave_out_noise(&comb, &mut active);
        if self.gives_way() {
            self.run.workspace.lists[0] = active;
            self.comb = Some(comb);
            return Ok(Outcome::Short(refuse(self.run, TOO_NOISY, 1)));
        }
        self.look(comb, active, decoded)
    }

    /// Decodes the active bins of a measured comb, with windows for what it leaves.
    fn look(
        &mut self,
        mut comb: Hash,
        mut active: Vec<u32>,
        decoded: Option<Box<sprint::Room>>,
    ) -> Result<Outcome, Error> {
        let bins = comb.buckets;
        let least_noise = self.noise;
        let mut crowded = self.is_crowded(&comb, &active);
        let mut placed = true;
        if !crowded && self.noisy {
            let before = comb.offsets.len();
            placed = self.climb(&mut comb, bins as u64, &active)?;
            if comb.offsets.len() > before {
                self.measure_noise(&comb, &mut active);
                if self.tolerant {
                    (self.noisy, self.noise) = (true, self.noise.max(least_noise));
                    self.active(&comb, &mut active);
                }
                crowded = self.is_crowded(&comb, &active);
            }
        }
        self.run.clock.lap(Stage::Certify);
        if crowded {
            self.run.workspace.lists[0] = active;
            self.comb = Some(comb);
            return Ok(Outcome::Crowded);
        }
        if let Some(room) = decoded {
            let mut findings = self.findings();
            room.hand_over(&mut comb, &mut findings);
            self.take_findings(findings);
            self.run.workspace.sprint = Some(room);
        } else {
            self.ask_for_verifying(&comb);
            self.decode_comb(&mut comb, &active);
        }
        self.run.workspace.lists[0] = active;
        self.run.clock.lap(Stage::Locate);
        self.comb = Some(comb);
        if !placed {
            self.weak += 1;
        }
        match self.prepare_ahead() {
            Some(ahead) => self.find_rest_beside(ahead, bins)?,
            None => {
                self.find_crowds(&[])?;
                self.find_rest()?;
            }
        }
        self.conclude()
    }

    /// Decodes open bins of the comb by themselves; `first` are those known that were set aside.
    fn find_crowds(&mut self, first: &[Coefficient]) -> Result<(), Error> {
        if self.weak == 0 && !self.suspects.is_empty() {
            self.decode_crowds(first)?;
            self.run.clock.lap(Stage::Locate);
        }
        Ok(())
    }

    /// Finds what bins of the comb still hold by other hashes.
    fn find_rest(&mut self) -> Result<(), Error> {
        if self.weak == 0 && !self.suspects.is_empty() {
            self.resolve()?;
            self.polish();
        }
        Ok(())
    }

    /// Both of these, while a helper measures the window that will verify, takes out of it what is known so
    /// far, and puts that in order.
    fn find_rest_beside(&mut self, mut ahead: Ahead<'a>, bins: usize) -> Result<(), Error> {
        let (first, unity) = (self.known.set_aside(), self.unity);
        let (order, chains) = (std::mem::take(&mut self.order), self.known.lend_chains());
        let later = Mutex::new(Later { order, chains, done: false });
        let prepare = || {
            if let Ok(mut later) = later.try_lock() {
                later.prepare(&first, bins);
            }
        };
        let measure = || {
            ahead.measure(unity, &first);
            prepare();
        };
        threads::beside(measure, || {
            self.find_crowds(&first)?;
            prepare();
            Ok::<_, Error>(())
        })?;
        let later = later.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Later { mut order, chains, .. } = later;
        self.ahead = ahead.finish(self.run);
        self.known.put_back(first);
        self.known.go_on_with(chains);
        order.extend(&self.known[self.known.firm()..]);
        let outcome = threads::beside(|| order.sort(), || self.find_rest());
        self.order = order;
        outcome
    }

    /// Without noise, where there are helpers: the window that will verify, for one of them to measure. One
    /// thread measures it when it is needed.
    fn prepare_ahead(&mut self) -> Option<Ahead<'a>> {
        let planned = self.run.plan.menu().is_some();
        if self.noisy || planned || self.ahead.is_some() || !threads::has_team() {
            return None;
        }
        let samples = self.run.samples()?;
        let hash = self.verifying_hash();
        Some(Ahead::new(self.run, hash, samples))
    }

    /// A second look at what an attempt has measured, with everything below the tolerance taken
    /// for noise: rounded or quantised samples hold thousands of tiny coefficients that nobody
    /// asked for. `None` where that is not certified, or finds fewer than an answer must have.
    pub(super) fn tolerate(&mut self) -> Result<Option<Answer>, Error> {
        let problem = &self.run.plan.problem;
        let step = self.run.signal.resolution();
        let parts = if self.run.signal.is_real() { 1.0 } else { 2.0 };
        // A rounded sample is off by at most half a step.
        let rounding = 0.25 * parts * step * step;
        let tolerable = rounding.max(problem.tolerance * problem.tolerance * self.power);
        let k = problem.k().unwrap_or(0);
        // Of few levels rounding would be a part of the signal, and they are rather a pattern than
        // rounded: a dense FFT, where there may be one, loses nothing.
        let coarse = rounding > 0.01 * self.power && problem.fallback.allows(self.n);
        if k == 0 || tolerable <= self.noise || coarse || self.declared_exact() {
            return Ok(None);
        }
        (self.noisy, self.noise, self.tolerant) = (true, tolerable, true);
        (self.weak, self.blind) = (0, false);
        self.known.clear();
        self.order.clear(self.n);
        self.suspects.clear();
        self.loose.clear();
        self.closest = 1.0;
        self.scratch.clear();
        let first = if self.comb.is_some() { 0 } else { 1 };
        self.witness = None;
        while self.windows.len() > first {
            if let Some(window) = self.windows.pop() {
                window.recycle(self.run);
            }
        }
        let outcome = if let Some(mut comb) = self.comb.take() {
            comb.sum_energies();
            let mut active = std::mem::take(&mut self.run.workspace.lists[0]);
            self.active(&comb, &mut active);
            self.look(comb, active, None)?
        } else if let Some(mut hash) = self.windows.pop() {
            hash.begin_peeling();
            hash.sum_energies();
            self.windows.push(hash);
            self.known.link(None);
            self.exchange();
            self.resolve()?;
            self.polish();
            self.conclude()?
        } else {
            return Ok(None);
        };
        let least = self.run.plan.problem.required().unwrap_or(1);
        Ok(match outcome {
            Outcome::Certified(answer) if answer.peaks.len() as u64 >= least => Some(answer),
            _ => None,
        })
    }

    /// A window hash of all frequencies, then more until all are explained.
    pub(super) fn window_attempt(
        &mut self,
        buckets: usize,
        ladder: &[u64],
    ) -> Result<Outcome, Error> {
        let beta = first_beta(&self.run.plan.problem);
        let mut hash = window_hash(self.run, buckets, beta, u64::from(self.attempt) - 1);
        for &d in ladder {
            hash.measure_more(self.run, d)?;
        }
        self.power = window_power(&hash);
        if self.power < TINY_POWER && hash.measured_lines().iter().any(|line| *line != Line::ZERO) {
            hash.recycle(self.run);
            return Ok(Outcome::Short(refuse(self.run, TOO_SMALL, 1)));
        }
        let mut active = std::mem::take(&mut self.run.workspace.lists[0]);
        self.measure_noise(&hash, &mut active);
        if self.gives_way() {
            self.run.workspace.lists[0] = active;
            hash.recycle(self.run);
            return Ok(Outcome::Short(refuse(self.run, TOO_NOISY, 1)));
        }
        // A frequency lights up to four buckets, so a window is crowded later than a comb. Where k is
        // unknown, more frequencies than expected would each cost more than a larger window.
        let most = if self.run.plan.problem.k().is_some() { 0.8 } else { CROWDED_WINDOW };
        let crowded = active.len() as f64 > most * buckets as f64;
        let mut placed = true;
        if !crowded {
            active.retain(|&b| is_peak(&hash, b as usize));
            placed = self.climb(&mut hash, 1, &active)?;
        }
        if self.dear {
            self.run.workspace.lists[0] = active;
            hash.recycle(self.run);
            return Ok(Outcome::Short(refuse(self.run, TOO_NOISY, 1)));
        }
        self.run.clock.lap(Stage::Certify);
        if crowded {
            self.run.workspace.lists[0] = active;
            hash.recycle(self.run);
            return Ok(Outcome::Crowded);
        }
        if !placed {
            self.weak += 1;
        }
        self.known.link(None);
        hash.begin_peeling();
        if self.weak == 0 {
            self.decode_alone(&mut hash, &mut active);
        }
        self.run.workspace.lists[0] = active;
        self.windows.push(hash);
        if self.weak == 0 {
            self.exchange();
            self.resolve()?;
            self.polish();
        }
        self.conclude()
    }

    /// Decodes the frequencies that stand alone in the listed buckets of a window, all at once, and
    /// peels them. Without noise also pairs, and then what stands alone or in pairs in what is left, as
    /// long as there is enough of it to be looked at side by side.
    pub(super) fn decode_alone(&mut self, hash: &mut Hash, list: &mut Vec<u32>) {
        /// Buckets that are rather looked at one by one.
        const FEW: usize = 4;
        loop {
            let before = self.known.len();
            self.decode_buckets(hash, list);
            peel_all(hash, self.unity, &self.known[before..], 0);
            hash.sum_energies();
            if self.noisy || self.known.len() == before {
                break;
            }
            self.active_peaks(hash, list);
            if list.len() <= FEW {
                break;
            }
        }
        self.run.clock.lap(Stage::Locate);
    }

    /// Decodes the listed buckets of a peeled window.
    fn decode_buckets(&mut self, hash: &Hash, list: &[u32]) {
        let limits = [1, 2].map(|m| self.limit(hash, hash.lanes() - m));
        let mut singles = std::mem::take(&mut self.run.workspace.singles);
        comb_singles(hash.rest(self.unity), list, &mut singles);
        let mut shared = std::mem::take(&mut self.run.workspace.lists[1]);
        shared.clear();
        for (chunk, s) in list.chunks(4).zip(&singles) {
            let mut four = [Coefficient::NONE; 4];
            for (i, c) in four[..chunk.len()].iter_mut().enumerate() {
                *c = s.coefficient(i);
            }
            let amplitudes = hash.amplitudes(four.map(|c| c.f.min(self.n - 1)), chunk);
            for (i, &b) in chunk.iter().enumerate() {
                let alone = s.residual[i] <= limits[0] + WINDOW_ROUNDING * hash.energy[b as usize];
                match amplitudes[i].filter(|_| alone) {
                    Some(amplitude) => self.take_from_window(four[i], amplitude),
                    None => shared.push(b),
                }
            }
        }
        self.run.workspace.singles = singles;
        if !self.noisy {
            self.decode_pairs(hash, &shared, limits[1]);
        }
        self.run.workspace.lists[1] = shared;
    }

    /// Decodes the buckets of a peeled window that hold two frequencies.
    fn decode_pairs(&mut self, hash: &Hash, shared: &[u32], limit: f64) {
        let mut doubles = std::mem::take(&mut self.run.workspace.doubles);
        comb_doubles(hash.rest(self.unity), shared, &mut doubles);
        for (chunk, d) in shared.chunks(4).zip(&doubles) {
            for (i, &b) in chunk.iter().enumerate() {
                let most = limit + WINDOW_ROUNDING * hash.energy[b as usize];
                let Some((both, pair)) = d.pair(i) else { continue };
                let [f, g] = both.map(|c| c.f.min(self.n - 1));
                let turns = f.abs_diff(g) as f64 / self.n as f64;
                if pair.residual <= most
                    && turns.min(1.0 - turns) >= GAP
                    && let [Some(of_f), Some(of_g), ..] = hash.amplitudes([f, g, f, g], &[b, b])
                {
                    self.take_from_window(both[0], of_f);
                    self.take_from_window(both[1], of_g);
                }
            }
        }
        self.run.workspace.doubles = doubles;
    }

    /// Notes a frequency that a window shows this many times weaker than it is, unless others deny it.
    fn take_from_window(&mut self, mut c: Coefficient, amplitude: f64) {
        c.a *= amplitude;
        if self.is_open_at(c.f) && self.known.find(c.f).is_none() && !self.contradicted(c.f, c.a) {
            self.known.push(c);
        }
    }

    /// Where the samples of a comb came slowly: asks for those of the hash that will verify, so that they
    /// are on their way while it is decoded.
    fn ask_for_verifying(&mut self, comb: &Hash) {
        /// Lines that are asked for at most.
        const MANY: usize = 256;
        if self.noisy || threads::has_team() || !self.run.clock.read_slowly(comb.reads()) {
            return;
        }
        let Some(samples) = self.run.samples() else { return };
        let hash = self.verifying_hash();
        if hash.reads() <= MANY {
            hash.ask_for(samples);
        }
        hash.recycle(self.run);
    }

    /// Decodes those of the active bins of the comb that hold one frequency or two; the others become
    /// suspects.
    fn decode_comb(&mut self, comb: &mut Hash, active: &[u32]) {
        let lanes = comb.lanes();
        // Lines far apart place a frequency by their phases.
        let elsewhere = comb.offsets.len() > 1;
        let limits = Limits {
            left: [1, 2].map(|m| self.limit(comb, lanes - m)),
            least: self.least,
            apart: if self.noisy { OWN_SHARE } else { 0.0 },
            loose: if self.noisy { LOOSE } else { 0.0 },
            misplaced: (!elsewhere).then(|| self.misplaced(comb, 5.0)),
        };
        let mut findings = self.findings();
        let (bins, energy) = comb.bins_and_energy(self.unity);
        decode(bins, energy, active, limits, &mut findings, &mut self.scratch.decode);
        self.take_findings(findings);
    }

    /// What is known so far, for decoding to go on with.
    fn findings(&mut self) -> Findings {
        Findings {
            found: self.known.set_aside(),
            weak: self.weak,
            open: std::mem::take(&mut self.suspects),
            alike: std::mem::take(&mut self.scratch.alike),
            loose: std::mem::take(&mut self.loose),
        }
    }

    /// Takes over what decoding has found.
    fn take_findings(&mut self, findings: Findings) {
        let Findings { found, weak, open, alike, loose } = findings;
        self.known.put_back(found);
        (self.weak, self.suspects, self.loose) = (weak, open, loose);
        self.scratch.alike = alike;
    }

    /// What a frequency of |a| = 1 leaves, at least, over shifts with this Σ(t - t̄)² where the next one that
    /// its bin of the comb allows is taken for it. One that is far weaker than what it shares its bin with may
    /// vanish in the rounding of that before it can be placed.
    pub(super) fn misplaced(&self, comb: &Hash, spread: f64) -> f64 {
        misplaced(self.n, comb.buckets, spread)
    }

    /// Notes a decoded frequency, or that it is too weak to be placed.
    pub(super) fn take(&mut self, c: Coefficient) {
        self.weak += usize::from(c.a.norm_sqr() < self.least);
        self.known.push(c);
    }

    /// Notes a comb bin whose phasors are so alike that noise in its values is amplified.
    pub(super) fn note_loose(&mut self, b: usize, apart: f64) {
        if self.noisy && apart < LOOSE {
            self.loose.push(b as u32);
            self.closest = self.closest.min(apart);
        }
    }

    /// Corrects a noise level that was taken from occupied bins: once everything is peeled, the
    /// residuals tell. A lower one tightens every limit, so what is left is decoded again.
    pub(super) fn settle_noise(&mut self) -> Result<(), Error> {
        for _ in 0..4 {
            let Some(hash) = self.windows.first() else { return Ok(()) };
            if !self.noisy || self.tolerant || self.known.is_empty() || self.weak > 0 {
                return Ok(());
            }
            let Kind::Window { kaiser, .. } = &hash.kind else { return Ok(()) };
            let mean = hash.energy.iter().sum::<f64>() / (hash.lanes() * hash.buckets) as f64;
            let left = mean / kaiser.energy();
            if left > 0.3 * self.noise {
                return Ok(());
            }
            // What rounding and leakage leave is not noise.
            let clean = ROUNDING * ROUNDING + kaiser.leak().powi(2) / kaiser.energy();
            self.noisy = left > 30.0 * clean * self.power;
            self.noise = if self.noisy { left } else { 0.0 };
            if let Some(comb) = &self.comb {
                // Bins that passed at the old level may not pass at the new one.
                let mut suspects = std::mem::take(&mut self.suspects);
                self.active(comb, &mut suspects);
                self.suspects = suspects;
            }
            self.exchange();
            self.resolve()?;
            self.polish();
        }
        Ok(())
    }

    /// The noise power from all bins of a decoded comb: what is neither noise nor rounding has
    /// been explained, each coefficient at the price of one lane.
    pub(super) fn refine_noise(&mut self) {
        if !self.noisy || self.tolerant {
            return;
        }
        let Some(comb) = &self.comb else { return };
        let limit = self.limit(comb, comb.lanes());
        let quiet = comb.energy.iter().filter(|e| **e <= limit);
        let (count, sum) = quiet.fold((0usize, 0.0), |(c, s), e| (c + 1, s + e));
        let lanes = (count * comb.lanes()).saturating_sub(self.known.len());
        if count > 16 && lanes > 0 {
            self.noise = sum / lanes as f64 * comb.buckets as f64;
        }
    }
}

/// [`Engine::floor`] of a comb, for this noise and power of a sample.
pub(super) fn comb_floor(noise: f64, power: f64, bins: usize) -> f64 {
    (noise + ROUNDING * ROUNDING * power) / bins as f64
}

/// The same of a window.
pub(super) fn window_floor(noise: f64, power: f64, kaiser: &Kaiser) -> f64 {
    let tones = (power - noise).max(0.0);
    let own = noise + ROUNDING * ROUNDING * power;
    own * kaiser.energy() + kaiser.leak().powi(2) * tones
}

/// [`Engine::misplaced`] for n frequencies in so many bins.
pub(super) fn misplaced(n: u64, bins: usize, spread: f64) -> f64 {
    /// Others of the bin may move along and make up for most of it.
    const ALONE: f64 = 0.03;
    let step = std::f64::consts::TAU * bins as f64 / n as f64;
    ALONE * spread * step * step
}

/// Lists the places of the values above a limit.
pub(super) fn list_above_all(values: &[f64], limit: f64, out: &mut Vec<u32>) {
    out.clear();
    let mut places = [0; SOME + 8];
    for (first, some) in (0..).step_by(SOME).zip(values.chunks(SOME)) {
        let count = list_above(some, limit, first, &mut places);
        out.extend_from_slice(&places[..count]);
    }
}

/// Values that are listed at a time.
const SOME: usize = 256;

dispatch_rows! {
    /// Lists the places, counted from `first` on, of the values above a limit, and returns how many
    /// there are. There is room for eight more than values.
    fn list_above(values: &[f64], limit: f64, first: u32, out: &mut [u32; SOME + 8]) -> usize
        = list_above_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn list_above_body<const FMA: bool, R: Row>(
    values: &[f64],
    limit: f64,
    first: u32,
    out: &mut [u32; SOME + 8],
) -> usize {
    let (mut at, mut count) = (first, 0);
    let (eight, rest) = values.as_chunks::<8>();
    for eight in eight {
        let bits = R::above(eight, limit);
        // Without a branch: which are above cannot be foretold.
        if let Some(out) = out[count..].first_chunk_mut::<8>() {
            R::places(bits, at, out);
        }
        at += 8;
        count += bits.count_ones() as usize;
    }
    for value in rest {
        out[count] = at;
        at += 1;
        count += usize::from(*value > limit);
    }
    count
}

/// Most frequencies that a comb bin with this many lanes can be asked for.
pub(super) fn most_members(lanes: usize) -> usize {
    (lanes - 1).min(crate::stages::estimate::MAX_FIT)
}

/// A frequency as a coefficient.
pub(super) fn coefficient(unity: Unity, s: Found) -> Coefficient {
    Coefficient { f: s.f, a: s.value, z: unity.root(s.f) }
}

/// Power of a sample as a measured window hash sees it: E Σ|V|² = buckets · Σ G² · power per lane.
pub(super) fn window_power(hash: &Hash) -> f64 {
    let Kind::Window { kaiser, .. } = &hash.kind else { return 0.0 };
    let lanes = (hash.lanes() * hash.buckets) as f64;
    hash.total / (lanes * kaiser.energy())
}

/// Whether a bucket holds more than its two neighbours.
pub(super) fn is_peak(hash: &Hash, b: usize) -> bool {
    let last = hash.buckets - 1;
    let e = hash.energy[b];
    let before = hash.energy[if b == 0 { last } else { b - 1 }];
    let after = hash.energy[if b == last { 0 } else { b + 1 }];
    e >= before && e >= after
}
