//! What is left when no more tones come: drifting tones, bands and clusters.

use super::comb::{Comb, Tone};
use super::drift;
use super::engine::Engine;
use super::extras::{self, Stretch};
use super::locate::Limits;
use super::refine::{Floor, Manner, bend, fit_one};
use crate::stages::Stage;

/// Power of an image, over that of its band, below which a receiver may have made it.
const FAINT: f64 = 0.01;
/// Power of a tone, over that of a band beside it, below which it is a part of the band.
const EDGE: f64 = 0.1;

impl Engine<'_, '_> {
    /// Tests for drift the tones beside which something is left.
    pub(super) fn drifts(&mut self, first: &mut Comb, limits: &Limits) {
        let lobe = first.window.null;
        let mut order: Vec<usize> = (0..self.tones.len()).collect();
        order.sort_by(|&a, &b| {
            self.tones[b].amplitude.norm_sqr().total_cmp(&self.tones[a].amplitude.norm_sqr())
        });
        let strongest: Vec<Tone> = order.into_iter().map(|i| self.tones[i]).collect();
        for main in strongest.into_iter().take(64) {
            if !self.tones.contains(&main) || main.drift != 0.0 {
                continue;
            }
            let scale = first.geometry.scale();
            let apart = |t: &Tone| {
                let d = t.nu - main.nu;
                ((d - d.round()) * scale).abs()
            };
            let p = first.geometry.position(main.nu);
            let reach = lobe + 6.0;
            let open_near = |comb: &Comb| {
                comb.energy
                    .iter()
                    .enumerate()
                    .filter(|&(b, &e)| {
                        e > limits.detect && comb.geometry.distance(p, b as f64) < reach
                    })
                    .count()
            };
            let bent = bend(first, &main, &limits.floor);
            let friends: Vec<Tone> = self
                .tones
                .iter()
                .copied()
                .filter(|t| {
                    *t != main
                        && apart(t) < reach
                        && t.amplitude.norm() < 0.9 * main.amplitude.norm()
                })
                .collect();
            if open_near(first) == 0 && bent.value.norm() < 5.0 * bent.std {
                continue;
            }
            friends.iter().for_each(|t| first.restore(t));
            let before = open_near(first);
            let mut best: Option<drift::Drifting> = None;
            for guess in [bent.value.im, 0.3, -0.3, 1.0, -1.0, 3.0, -3.0, 7.0, -7.0] {
                if let Some(found) = drift::fit(first, &main, guess.clamp(-8.0, 8.0), &limits.floor)
                    && best.as_ref().is_none_or(|b| found.misfit < b.misfit)
                {
                    best = Some(found);
                }
            }
            let mut accepted = false;
            if let Some(found) = best {
                first.replace(&main, &found.tone);
                let significant = found.tone.drift.abs() > 5.0 * found.drift_std;
                accepted = significant && open_near(first) == 0 && before > 0;
                if accepted {
                    self.tones.retain(|t| *t != main && !friends.contains(t));
                    self.tones.push(found.tone);
                    self.dirty.clear();
                    self.dirty.resize(self.tones.len(), false);
                } else {
                    first.replace(&found.tone, &main);
                }
            }
            if !accepted {
                friends.iter().for_each(|t| first.remove(t));
            }
        }
        self.run.clock.lap(Stage::Estimate);
    }

    /// Names what is left as bands and clusters; whether that was possible.
    pub(super) fn name_rest(&mut self, first: &mut Comb, limits: &Limits) -> bool {
        if self.open(first, limits) == 0 {
            return true;
        }
        let found =
            extras::stretches(first, &mut self.tones, limits.detect, limits.floor.s2, &self.skip);
        self.dirty.clear();
        self.dirty.resize(self.tones.len(), false);
        let Some(found) = found else { return false };
        for s in found {
            if s.band { self.bands.push(s) } else { self.clusters.push(s) }
        }
        self.absorb(first);
        self.name_images(first);
        let all = [self.bands.as_slice(), &self.clusters].concat();
        extras::mask(&first.geometry, first.window.half, &all, &mut self.skip);
        self.run.clock.lap(Stage::Estimate);
        true
    }

    /// Weak tones and clusters within a lobe of a band are its edges.
    fn absorb(&mut self, first: &mut Comb) {
        let margin = (first.window.null + 1.0) / first.geometry.scale();
        let bands = self.bands.clone();
        let edge = |centre: f64, power: f64| {
            bands.iter().any(|b| b.holds(centre, margin) && power < EDGE * b.power)
        };
        self.clusters.retain(|c| !edge(c.centre(), c.power));
        self.tones.retain(|t| {
            let inside = t.drift == 0.0 && edge(t.nu, t.amplitude.norm_sqr());
            if inside {
                first.restore(t);
            }
            !inside
        });
    }

    /// Fits the tones that a band covers in the first comb where another comb shows them alone.
    pub(super) fn uncover(
        &mut self,
        first: &mut Comb,
        other: &mut Comb,
        floor: &Floor,
        skip: &[bool],
    ) {
        self.bends.clear();
        self.bends.resize(self.tones.len(), None);
        let half = floor.half();
        let covered = |comb: &Comb, skip: &[bool], tone: &Tone| {
            let foot = comb.window.foot::<false>(comb.geometry.position(tone.nu), half);
            !skip.is_empty() && (0..foot.count).any(|i| skip[(foot.first + i) % comb.bins()])
        };
        for (tone, bent) in self.tones.iter_mut().zip(&mut self.bends) {
            if tone.drift != 0.0 || !covered(first, &self.skip, tone) || covered(other, skip, tone)
            {
                continue;
            }
            let better = fit_one(other, tone, Manner::fine(floor)).tone;
            other.replace(tone, &better);
            first.replace(tone, &better);
            *tone = better;
            *bent = Some(bend(other, &better, floor));
        }
    }

    /// A receiver whose I and Q differ repeats a band faintly at the mirrored frequencies. What is
    /// seen there, and is faint enough for that, is one band and neither tones nor clusters.
    fn name_images(&mut self, first: &mut Comb) {
        let margin = (first.window.null + 1.0) / first.geometry.scale();
        let mut order = self.bands.clone();
        order.sort_by(|a, b| b.power.total_cmp(&a.power));
        for band in order {
            let mut image = Stretch { low: -band.high, high: -band.low, power: 0.0, band: true };
            let overlap = image.holds(band.centre(), band.high - band.low);
            if overlap || !self.bands.contains(&band) {
                continue;
            }
            let inside = |s: &Stretch| {
                image.holds(s.centre(), margin) && s.power < FAINT * band.power && *s != band
            };
            let pieces: Vec<Stretch> =
                self.bands.iter().chain(&self.clusters).copied().filter(inside).collect();
            let (mut tones, kept): (Vec<Tone>, Vec<Tone>) = self.tones.iter().partition(|t| {
                image.holds(t.nu, margin) && t.amplitude.norm_sqr() < FAINT * band.power
            });
            if pieces.is_empty() && tones.is_empty() {
                continue;
            }
            self.bands.retain(|s| !pieces.contains(s));
            self.clusters.retain(|s| !pieces.contains(s));
            self.tones = kept;
            for tone in tones.drain(..) {
                first.restore(&tone);
                image.power += tone.amplitude.norm_sqr();
            }
            image.power += pieces.iter().map(|s| s.power).sum::<f64>();
            self.bands.push(image);
        }
        self.dirty.clear();
        self.dirty.resize(self.tones.len(), false);
    }
}
