//! Lengths without a comb: windows of all frequencies, the first with half the buckets that noise would ask for.
//!
//! 1. One to three frequencies are looked for around every bucket that holds more than its neighbours. What is found is
//!    taken out of all windows, and what that uncovers is looked at again.
//! 2. Where nothing more is found, what is left may be errors of values: those near it are fitted together.
//! 3. Frequencies too close to each other are left to a smaller window with another permutation.

use super::{Room, Witness};
use crate::Error;
use crate::algorithms::peeling::conclude::{LEAST_GAIN, shows};
use crate::algorithms::peeling::engine::{TINY_POWER, WINDOW_ROUNDING, window_floor, window_power};
use crate::algorithms::peeling::{window_hash, window_stream};
use crate::algorithms::{Answer, Run};
use crate::plan::Peeling;
use crate::samples::Line;
use crate::stages::Stage;
use crate::stages::clusters::{
    Around, energies_around, list_peaks, take_one_each, take_three_each, take_two_each,
};
use crate::stages::estimate::{View, corrections};
use crate::stages::few::{Few, Spread, list_near};
use crate::stages::hash::{Hash, Kind};
use crate::stages::peel::Coefficient;
use crate::stages::unity::Unity;
use crate::stages::window::{BETAS, REACH};

/// Most buckets of a first window.
pub(crate) const MOST_BUCKETS: u64 = 1 << 17;
/// The shape of windows without a comb where nothing is known of noise: what leaks is below what rounding leaves, so
/// that values are as good as the samples allow.
pub(crate) const TIGHT: f64 = BETAS[BETAS.len() - 1];
/// Windows that are looked into at most.
const MOST_LAYERS: usize = 3;
/// How often all of them are looked into at most.
const MOST_ROUNDS: usize = 20;
/// Buckets of a further window for each frequency that is missing, and in all.
const BUCKETS_EACH: u64 = 8;
const LEAST_BUCKETS: u64 = 32;

/// A window less all that is known.
#[derive(Debug)]
pub(super) struct Layer {
    hash: Hash,
    /// Its energies, as [`energies_around`] writes them.
    energy: Vec<f64>,
    /// Noise of one lane.
    floor: f64,
    /// Energy that noise does not exceed in a bucket, and beside one frequency, two, or three.
    limit: f64,
    left: [f64; 3],
    /// How many were known when it was measured: larger windows tell more about these.
    since: usize,
}

impl Layer {
    /// A window that is measured, at this power of a sample, and noise of a lane by values that are taken out of it.
    fn new(
        mut hash: Hash,
        mut energy: Vec<f64>,
        witness: &Witness,
        [power, values]: [f64; 2],
    ) -> Self {
        let size = hash.buckets;
        hash.begin_peeling();
        hash.residual.resize(size + REACH - 1, Line::ZERO);
        energy.resize(size + 2, 0.0);
        energies_around(&hash.residual[..size], &mut energy);
        let own = spread(&hash).map_or(0.0, |spread| window_floor(0.0, power, spread.kaiser));
        let floor = own + values;
        let [limit, left @ ..] = [4, 3, 2, 1].map(|lanes| floor * witness.over[lanes]);
        Layer { hash, energy, floor, limit, left, since: 0 }
    }

    /// Takes coefficients from one on out of it.
    fn peel(&mut self, few: &mut Few, from: usize) {
        let size = self.hash.buckets;
        let mut residual = std::mem::take(&mut self.hash.residual);
        if let Some(spread) = spread(&self.hash) {
            few.peel(from, spread, &mut residual);
        }
        energies_around(&residual[..size], &mut self.energy);
        self.hash.residual = residual;
    }

    /// Lists the buckets that hold something, and more than their neighbours.
    fn peaks(&self, places: &mut [u32], out: &mut Vec<u32>) {
        let count = list_peaks(&self.energy, self.limit, places);
        out.clear();
        out.extend_from_slice(&places[..count]);
    }
}

/// How a window spreads frequencies.
fn spread(hash: &Hash) -> Option<Spread<'_>> {
    match &hash.kind {
        Kind::Window { permutation, kaiser } => {
            Some(Spread { permutation, kaiser, buckets: hash.buckets })
        }
        Kind::Comb => None,
    }
}

/// The answer, where at most k coefficients without noise explain everything.
pub(super) fn sprint(run: &mut Run<'_>, recipe: &Peeling, k: u64) -> Result<Option<Answer>, Error> {
    let witness = run.plan.witness(recipe, k);
    let mut hash = window_hash(run, recipe.begin, TIGHT, 0);
    hash.measure_more(run, 0)?;
    let power = window_power(&hash);
    if power < TINY_POWER {
        hash.recycle(run);
        return Ok(None);
    }
    let mut room = run.workspace.sprint.take().unwrap_or_default();
    let found = room.find_in_windows(run, hash, witness, power)?;
    let answer = match found && room.few.len() as u64 <= k {
        true => room.conclude(run, witness, power)?,
        false => None,
    };
    while let Some(layer) = room.layers.pop() {
        room.energies.push(layer.energy);
        layer.hash.recycle(run);
    }
    run.workspace.sprint = Some(room);
    run.clock.lap(Stage::Certify);
    Ok(answer)
}

impl Room {
    /// The answer, if the window that verifies confirms it.
    fn conclude(
        &mut self,
        run: &mut Run<'_>,
        witness: &Witness,
        power: f64,
    ) -> Result<Option<Answer>, Error> {
        let floor = self.layers.first().map_or(0.0, |first| first.floor);
        self.open.clear();
        let Some(limit) = self.verify(run, witness, [power, floor], None)? else { return Ok(None) };
        let tested = self.layers.iter().map(|layer| layer.hash.buckets).sum();
        let own = shows(floor, floor * witness.over[4], 4, witness.sigmas) / LEAST_GAIN;
        Ok(Some(self.answer(run, witness, tested, own.max(limit))))
    }

    /// Finds all coefficients by windows, the first of which was measured, at this power of a sample. Whether every
    /// bucket is explained then.
    fn find_in_windows(
        &mut self,
        run: &mut Run<'_>,
        first: Hash,
        witness: &Witness,
        power: f64,
    ) -> Result<bool, Error> {
        let size = first.buckets;
        // Everything once more, where it is found again.
        self.few.clear(size);
        self.places.resize((size + 8).max(self.places.len()), 0);
        let energy = self.energies.pop().unwrap_or_default();
        self.layers.push(Layer::new(first, energy, witness, [power, 0.0]));
        // Noise leaves no bucket empty.
        let Layer { energy, limit, .. } = &self.layers[0];
        if 8 * energy[1..=size].iter().filter(|e| *e > limit).count() > 7 * size {
            return Ok(false);
        }
        // Whether to look where errors of values may be all that is left, too.
        let mut all = false;
        for round in 0..MOST_ROUNDS {
            let before = self.few.len();
            let mut open = 0;
            for at in 0..self.layers.len() {
                open += self.look_into(at, round > 0, all);
            }
            if open == 0 {
                run.clock.lap(Stage::Locate);
                return Ok(true);
            }
            if self.few.len() > before {
                all = false;
            } else if !all {
                run.clock.lap(Stage::Locate);
                self.fit(run.plan.problem.n);
                run.clock.lap(Stage::Estimate);
                all = true;
            } else if self.layers.len() < MOST_LAYERS {
                run.clock.lap(Stage::Locate);
                self.add_layer(run, witness, power)?;
                all = false;
            } else {
                break;
            }
        }
        run.clock.lap(Stage::Locate);
        Ok(false)
    }

    /// Measures one more window, large enough for what is missing.
    fn add_layer(&mut self, run: &mut Run<'_>, witness: &Witness, power: f64) -> Result<(), Error> {
        let [first, ..] = &self.layers[..] else { return Ok(()) };
        let missing = run.plan.problem.k().unwrap_or(0).saturating_sub(self.few.len() as u64);
        let wanted = (BUCKETS_EACH * missing).max(LEAST_BUCKETS).next_power_of_two();
        let (buckets, floor) = (wanted.min(first.hash.buckets as u64) as usize, first.floor);
        let stream = window_stream(1, self.layers.len());
        let mut hash = window_hash(run, buckets, TIGHT, stream);
        hash.measure_more(run, 0)?;
        // Each lane holds the errors of all that reach it.
        let values = 2.0 * self.few.len() as f64 / buckets as f64 * floor;
        let energy = self.energies.pop().unwrap_or_default();
        let mut layer = Layer::new(hash, energy, witness, [power, values]);
        layer.since = self.few.len();
        layer.peel(&mut self.few, 0);
        self.layers.push(layer);
        run.clock.lap(Stage::Peel);
        Ok(())
    }

    /// Looks for frequencies around the open buckets of a window and takes them out of all windows: for three of them
    /// where asked for, and in `all` buckets, or else not where errors of values may be all that is left. Returns how
    /// many buckets were open.
    fn look_into(&mut self, at: usize, three: bool, all: bool) -> usize {
        /// Share of the energy of a bucket that errors of values leave.
        const ERRORS: f64 = 1e-11;
        let Room { few, active, shared, open, places, layers, .. } = self;
        let layer = &layers[at];
        layer.peaks(places, active);
        let unexplained = active.len();
        let Some(spread) = spread(&layer.hash).filter(|_| unexplained > 0) else { return 0 };
        if !all {
            let hash = &layer.hash;
            active.retain(|&b| {
                let b = b as usize;
                layer.energy[b + 1] > ERRORS * hash.energy[b]
            });
        }
        // A share that does not displace a frequency by a tenth of the next one's distance.
        let share = (0.1 / spread.permutation.n as f64).min(1e-7);
        let around = Around {
            unity: Unity::new(spread.permutation.n),
            spread,
            lines: &layer.hash.residual,
            left: layer.left,
            share: WINDOW_ROUNDING + share * share,
        };
        let before = few.len();
        let count = take_one_each(around, active, few, places);
        shared.clear();
        shared.extend(places[..count].iter().map(|&i| active[i as usize]));
        let count = take_two_each(around, shared, few, places);
        if three && count > 0 {
            open.clear();
            open.extend(places[..count].iter().map(|&i| shared[i as usize]));
            take_three_each(around, open, few, places);
        }
        if few.len() > before {
            layers.iter_mut().for_each(|layer| layer.peel(few, before));
            few.merge(before);
        }
        unexplained
    }

    /// Fits the values of coefficients near open buckets.
    fn fit(&mut self, n: u64) {
        /// Share of the squared gradient that is left; values are improved again where it matters.
        const GOAL: f64 = 1e-12;
        let Room { few, active, places, layers, part, equations, .. } = self;
        for at in 0..layers.len() {
            let layer = &layers[at];
            layer.peaks(places, active);
            let Some(spread) = spread(&layer.hash).filter(|_| !active.is_empty()) else { continue };
            places.resize((few.len() + 8).max(places.len()), 0);
            let count = list_near(few, spread, active, places);
            part.clear();
            let chosen = places[..count].iter().map(|&i| i as usize).filter(|&i| i >= layer.since);
            part.extend(chosen.map(|i| few.get(i)));
            let view = View { hash: &layer.hash, weight: 1.0, lines: &[], from: 0 };
            corrections(part, &[view], Unity::new(n), GOAL, equations);
            let before = few.len();
            for (c, change) in part.iter().zip(&equations.change) {
                few.push(&Coefficient { a: *change, ..*c });
            }
            layers.iter_mut().for_each(|layer| layer.peel(few, before));
            few.merge(before);
        }
    }
}
