//! What is not a tone: bands and clusters.
//!
//! A comb still knows the alias of every bin that holds one narrow-band signal. A long run of bins
//! of one alias that tones do not explain is a *band*: its edges and its power are reported, and
//! its bins are masked in every comb. A short one is a *cluster*: two or more tones nearer than the
//! resolution, or one whose amplitude changes.

use super::comb::{Comb, Geometry, Tone};
use crate::samples::Line;
use crate::stages::locate::{line_energy, single};

/// A stretch of frequencies in the solver's terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch {
    /// Lower edge in cycles per sample.
    pub(crate) low: f64,
    /// Upper edge; not wrapped, so that high ≥ low.
    pub(crate) high: f64,
    /// Mean power of the signal between the edges.
    pub(crate) power: f64,
    /// Whether it is wide enough to be called a band.
    pub(crate) band: bool,
}

impl Stretch {
    /// Middle, -1/2 … 1/2.
    pub(crate) fn centre(&self) -> f64 {
        let c = 0.5 * (self.low + self.high);
        c - c.round()
    }

    /// Whether a frequency lies between the edges, widened by `margin`.
    pub(crate) fn holds(&self, nu: f64, margin: f64) -> bool {
        let d = nu - self.centre();
        (d - d.round()).abs() <= 0.5 * (self.high - self.low) + margin
    }
}

/// Marks the bins of a comb that stretches reach.
pub(crate) fn mask(geometry: &Geometry, half: usize, stretches: &[Stretch], out: &mut Vec<bool>) {
    out.clear();
    if stretches.is_empty() {
        return;
    }
    let size = geometry.bins;
    out.resize(size, false);
    for s in stretches {
        let reach = 0.5 * (s.high - s.low) * geometry.scale() + half as f64 + 1.0;
        let centre = geometry.position(s.centre());
        if 2.0 * reach + 2.0 >= size as f64 {
            out.fill(true);
            return;
        }
        let first = (centre - reach).floor() as i64;
        for b in first..=(centre + reach).ceil() as i64 {
            out[b.rem_euclid(size as i64) as usize] = true;
        }
    }
}

/// Where the unexplained bins of a comb lie: runs of one alias, with the tones among them put back
/// first (they were fits to something that is no tone). `None` where some unexplained bin has no
/// alias of its own, so that nothing can be said.
///
/// On return the tones inside the stretches are gone from the list and back in the bins.
pub(crate) fn stretches(
    comb: &mut Comb,
    tones: &mut Vec<Tone>,
    detect: f64,
    floor: f64,
    skip: &[bool],
) -> Option<Vec<Stretch>> {
    let size = comb.bins();
    let scale = comb.geometry.scale();
    let masked = |b: usize| !skip.is_empty() && skip[b];
    let open: Vec<usize> = (0..size).filter(|&b| comb.energy[b] > detect && !masked(b)).collect();
    if open.is_empty() || 2 * open.len() > size {
        return None;
    }
    // Tones near an unexplained bin are part of whatever is there.
    let lobe = comb.window.null + 1.5;
    let near_open = |comb: &Comb, t: &Tone| {
        let p = comb.geometry.position(t.nu);
        open.iter().any(|&b| comb.geometry.distance(p, b as f64) < lobe)
    };
    let mut kept = Vec::with_capacity(tones.len());
    for t in tones.iter() {
        if near_open(comb, t) {
            comb.restore(t);
        } else {
            kept.push(*t);
        }
    }
    // Runs of active bins; fades shorter than three lobes do not end a band.
    let active: Vec<bool> = (0..size).map(|b| comb.energy[b] > detect && !masked(b)).collect();
    let gap = (3.0 * comb.window.null) as usize;
    let alias = |comb: &Comb, b: usize| -> Option<f64> {
        let (lines, count) = comb.lines_of(b);
        let t = single(comb.lanes_of(b));
        let (nu, away) = comb.geometry.unalias(b as f64, t);
        let left = comb.energy[b] - explained(comb, &lines[..count], t);
        (away < 0.35 && left < 0.3 * comb.energy[b]).then_some(nu)
    };
    let mut out: Vec<Stretch> = Vec::new();
    let start = (0..size).find(|&b| !active[b])?;
    let mut at = 0;
    while at < size {
        let b = (start + at) % size;
        if !active[b] {
            at += 1;
            continue;
        }
        // One run of one alias.
        let Some(first) = alias(comb, b) else {
            at += 1;
            continue;
        };
        let (mut last, mut last_at, mut energy) = (first, at, 0.0);
        let mut next = at;
        while next < size && next - last_at <= gap {
            let b = (start + next) % size;
            if active[b]
                && let Some(nu) = alias(comb, b)
            {
                let d = nu - last;
                let step = (d - d.round()) * scale;
                if step > -0.5 && step < (next - last_at) as f64 + 1.5 {
                    energy += comb.energy[b] - floor * comb.lanes() as f64;
                    last += d - d.round();
                    last_at = next;
                }
            }
            next += 1;
        }
        let width = (last_at - at + 1) as f64;
        let enbw = comb.window.noise * size as f64;
        let lobe = comb.window.null.min(0.5 * width);
        // The response widens what is there by about half a lobe on each side.
        let trim = 0.5 * lobe / scale;
        let band = width > 2.0 * (comb.window.null + 1.0) + 3.0;
        out.push(Stretch {
            low: first + if band { trim } else { 0.0 },
            high: last - if band { trim } else { 0.0 },
            power: energy / comb.lanes() as f64 / enbw,
            band,
        });
        at = last_at + 1;
    }
    // A tone that was put back and lies in no stretch was innocent; so is one that, alone in a
    // short stretch, explains it where no band lies over it.
    let mut masked_by_bands = Vec::new();
    let bands: Vec<Stretch> = out.iter().copied().filter(|s| s.band).collect();
    mask(&comb.geometry, comb.window.half, &bands, &mut masked_by_bands);
    for t in tones.iter() {
        if !near_open(comb, t) {
            continue;
        }
        let margin = 1.0 / scale;
        let Some(at) = out.iter().position(|s| s.holds(t.nu, margin)) else {
            comb.remove(t);
            kept.push(*t);
            continue;
        };
        let alone = tones.iter().filter(|o| out[at].holds(o.nu, margin)).count() == 1;
        if out[at].band || bands.is_empty() || !alone {
            continue;
        }
        comb.remove(t);
        let p = comb.geometry.position(t.nu);
        let explained = (0..size).all(|b| {
            comb.geometry.distance(p, b as f64) > lobe
                || masked_by_bands[b]
                || comb.energy[b] <= detect
        });
        if explained {
            kept.push(*t);
            out.swap_remove(at);
        } else {
            comb.restore(t);
        }
    }
    *tones = kept;
    (!out.is_empty()).then_some(out)
}

/// Energy that one exponential at t explains in the lanes of a bin.
fn explained(comb: &Comb, lines: &[Line], t: f64) -> f64 {
    let phasors = comb.phasors(t);
    let mut sum = crate::Complex::<f64>::ZERO;
    for (line, p) in lines.iter().zip(&phasors) {
        for tau in 0..4 {
            sum += line.lane(tau) * p.lane(tau).conj();
        }
    }
    let total: f64 = lines.iter().map(line_energy).sum();
    (sum.norm_sqr() / (4 * lines.len()) as f64).min(total)
}
