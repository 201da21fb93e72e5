//! The answer in the user's terms: what is kept, how well it is known, and why it is certified or not.

use super::certify::{self, RESOLVED};
use super::comb::{Comb, Tone, turn};
use super::engine::Engine;
use super::extras::Stretch;
use super::joint::{Groups, MAX_GROUP, joint_variances};
use super::locate::Limits;
use super::refine::{Bend, Floor, bend};
use super::{Found, accuracy};
use crate::certificate::{Certificate, Verdict};
use crate::stages::Stage;
use crate::tones::{Accuracy, Band, Cluster, Drift, Tone as PublicTone};
use crate::{Complex, Error};

/// Comb bins within which side lobes of a tone matter to another.
const NEIGHBOURS: f64 = 30.0;
/// Deviation that a neighbour's side lobes add to an amplitude, in units of the side lobes. Over 3,600
/// signals of two to four tones with a pair 2.76 to 6 bins apart, at 40 to 70 dB, rms errors are 0.88
/// to 1.07 of the claimed deviations with it, 1.06 to 1.25 without, and 0.73 to 1.0 with 10.
const LEAKED: f64 = 6.0;

impl Engine<'_, '_> {
    /// Variances of amplitude and position of every tone, in units of the noise power (and of
    /// 1/|A|² for the position); `alone` are those of tones fitted alone.
    pub(super) fn variances(&self, comb: &Comb, floor: &Floor, alone: &[Bend]) -> Vec<(f64, f64)> {
        let mut out: Vec<(f64, f64)> = alone.iter().map(|b| (b.amplitude, b.position)).collect();
        for (_, group) in Groups::for_fits(comb, &self.tones, floor).iter() {
            if group.len() == 1 {
                continue;
            }
            let mut members = [Tone::NONE; MAX_GROUP];
            let members = &mut members[..group.len()];
            for (member, &(_, i)) in members.iter_mut().zip(group) {
                *member = self.tones[i];
            }
            if let Some(joint) = joint_variances(comb, members, floor) {
                group.iter().zip(joint).for_each(|(&(_, i), v)| out[i] = v);
            }
        }
        let noise = floor.s2.max(floor.leak2);
        for (v, leak) in out.iter_mut().zip(self.leakage(comb)) {
            *v = (v.0 + leak / noise, v.1 + leak / noise);
        }
        out
    }

    /// Variance that side lobes of its neighbours add to the amplitude of each tone: what they have
    /// beyond the bins that are peeled is no noise, and whitening amplifies it.
    fn leakage(&self, comb: &Comb) -> Vec<f64> {
        let share = (LEAKED * comb.window.leak).powi(2);
        let size = comb.bins() as f64;
        let position = |i: usize| comb.geometry.position(self.tones[i].nu);
        let mut order: Vec<(f64, usize)> =
            (0..self.tones.len()).map(|i| (position(i), i)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut out = vec![0.0; order.len()];
        for (at, &(p, i)) in order.iter().enumerate() {
            for &(q, j) in order[at + 1..].iter().chain(&order[..at]) {
                let away = if q >= p { q - p } else { q - p + size };
                if away > NEIGHBOURS {
                    break;
                }
                let [a, b] = [i, j].map(|i| self.tones[i].amplitude.norm_sqr());
                out[i] += share * b;
                out[j] += share * a;
            }
        }
        out
    }

    /// Gathers the answer.
    pub(super) fn conclude(
        &mut self,
        first: &mut Comb,
        limits: &Limits,
        seen: &certify::Verification,
        verified: bool,
    ) -> Result<Found, Error> {
        let problem = &self.run.plan.problem;
        let n = problem.n;
        let floor = limits.floor;
        let scale = first.geometry.scale();
        let bins_per_n = n as f64 / scale;
        let failure = problem.failure;
        // Close pairs and bent tones are no single tones.
        let mut reasons: Vec<String> = Vec::new();
        let mut keep = vec![true; self.tones.len()];
        let mut order: Vec<usize> = (0..self.tones.len()).collect();
        order.sort_unstable_by(|&a, &b| self.tones[a].nu.total_cmp(&self.tones[b].nu));
        if order.len() > 1 {
            for (&j, &i) in order.iter().zip(order.iter().cycle().skip(1)) {
                let d = self.tones[i].nu - self.tones[j].nu;
                let d = d - d.round();
                if (d * n as f64).abs() < RESOLVED {
                    let (a, b) = (self.tones[i].amplitude, self.tones[j].amplitude);
                    let low = self.tones[j].nu.min(self.tones[j].nu + d);
                    self.clusters.push(Stretch {
                        low,
                        high: low + d.abs(),
                        power: a.norm_sqr() + b.norm_sqr(),
                        band: false,
                    });
                    (keep[i], keep[j]) = (false, false);
                }
            }
        }
        let significance = ((self.tones.len().max(1) as f64) / failure).ln().sqrt() * 1.2;
        let mut drifts: Vec<Option<Drift>> = Vec::with_capacity(self.tones.len());
        let bends: Vec<Bend> = (0..)
            .zip(&self.tones)
            .map(|(i, t)| {
                let elsewhere = self.bends.get(i).copied().flatten();
                elsewhere.unwrap_or_else(|| bend(first, t, &floor))
            })
            .collect();
        for (i, (tone, bent)) in self.tones.iter().zip(&bends).enumerate() {
            let mut drift = None;
            if tone.drift != 0.0 {
                let c = n as f64 * n as f64;
                drift = Some(Drift { rate: tone.drift, std: bent.std * bins_per_n.powi(2) / c });
            } else if keep[i] && bent.value.norm() > significance * bent.std {
                // To second order a drift bends along the imaginary axis, a pair anywhere.
                if bent.value.re.abs() < 0.25 * bent.value.im.abs() {
                    let rate = 1.0 / (scale * scale);
                    drift = Some(Drift { rate: bent.value.im * rate, std: bent.std * rate });
                } else {
                    keep[i] = false;
                    let half = 0.5 / n as f64;
                    self.clusters.push(Stretch {
                        low: tone.nu - half,
                        high: tone.nu + half,
                        power: tone.amplitude.norm_sqr(),
                        band: false,
                    });
                }
            }
            drifts.push(drift);
        }
        let drifting = drifts.iter().zip(&keep).filter(|(d, k)| d.is_some() && **k).count();
        let open = self.open(first, limits);
        if open > 0 {
            reasons.push(format!("{open} of {} bins hold more than the tones found", self.bins));
        } else if seen.unexplained > 0 {
            reasons.push(format!(
                "{} bins of another comb hold more than the tones found",
                seen.unexplained
            ));
        } else if let Some(fault) = &self.fault {
            reasons.push(fault.clone());
        } else if !verified && !seen.quiet {
            reasons.push(if !(0.7..1.3).contains(&seen.spread) {
                "what is left is not white noise: its power differs from bin to bin".into()
            } else {
                "another comb holds more power than the tones and the noise explain".into()
            });
        } else if !verified {
            reasons.push("a tone is too weak to be confirmed by itself".into());
        }
        if !self.clusters.is_empty() {
            reasons.push(format!(
                "{} {} of tones nearer than 3 bins, or of changing amplitude",
                self.clusters.len(),
                if self.clusters.len() == 1 { "cluster" } else { "clusters" }
            ));
        }
        if drifting > 0 {
            reasons.push(format!(
                "{drifting} {} over the record, which a close pair could imitate",
                if drifting == 1 { "tone drifts" } else { "tones drift" }
            ));
        }
        if !self.bands.is_empty() {
            reasons.push(format!(
                "{} {}: what tones cannot describe is not subtracted, so that the rest is not tested",
                self.bands.len(),
                if self.bands.len() == 1 { "band" } else { "bands" }
            ));
        }
        let certified = reasons.is_empty() && verified;
        let sigma2 = if floor.white { floor.s2 / first.window.noise } else { 0.0 };
        let spread = self.variances(first, &floor, &bends);
        let mut tones = Vec::with_capacity(self.tones.len());
        let mut plain: Vec<Tone> = Vec::with_capacity(self.tones.len());
        for (i, tone) in self.tones.iter().enumerate() {
            if !keep[i] {
                continue;
            }
            let (va, vp) = spread[i];
            let power = tone.amplitude.norm_sqr();
            let noise = floor.s2.max(floor.leak2);
            let (mut va, mut vf) = (noise * va, noise * vp / (power * scale * scale));
            let mut tone = *tone;
            if let Some(Some(second)) = self.seconds.get(i)
                && drifts[i].is_none()
            {
                // Both see independent noise: the mean by their variances.
                let weight = vf / (vf + second.shift_variance);
                tone.nu += weight * second.shift;
                vf *= 1.0 - weight;
                let weight = va / (va + second.amplitude_variance);
                tone.amplitude += weight * second.amplitude;
                va *= 1.0 - weight;
            }
            tones.push(public(n, &tone, drifts[i], va.sqrt(), vf.sqrt(), sigma2));
            plain.push(tone);
        }
        let clusters = merge(std::mem::take(&mut self.clusters), 3.0 / n as f64);
        let bands = std::mem::take(&mut self.bands);
        let share = self.share(first);
        let limit = seen.limit;
        let lines = first.offsets.len();
        let used = 4 * (lines * self.bins) as u64 + self.second_samples;
        let mut accuracy = Accuracy::of(n, &tones, used);
        if let Some(wanted) = problem.accuracy
            && verified
            && floor.white
            && drifting == 0
            && accuracy.bins > wanted
        {
            let present = (accuracy.bins / n as f64, used);
            let wanted = wanted / n as f64;
            let bought = accuracy::buy(self.run, first, &plain, &floor, present, wanted)?;
            if let Some((bought, used)) = bought {
                let public =
                    |(tone, va, vf): &(Tone, f64, f64)| public(n, tone, None, *va, *vf, sigma2);
                let better: Vec<_> = bought.iter().map(public).collect();
                let reached = Accuracy::of(n, &better, used);
                // A tighter window can cost more than a few further lines gain.
                if reached.bins < accuracy.bins {
                    (tones, accuracy) = (better, reached);
                }
            }
        }
        let mut certified = certified;
        if self.run.signal.is_real() {
            let single = symmetrise(&mut tones, 0.5 / n as f64);
            if single > 0 {
                certified = false;
                reasons.push(format!("{single} tones of a real signal lack their mirror image"));
            }
        }
        tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
        self.run.clock.lap(Stage::Certify);
        Ok(Found {
            tones,
            bands: bands
                .iter()
                .map(|s| Band { low: s.low, high: s.high, power: s.power })
                .collect(),
            clusters: clusters
                .iter()
                .map(|s| Cluster { centre: s.centre(), width: s.high - s.low, power: s.power })
                .collect(),
            certificate: Certificate {
                verdict: if certified { Verdict::Certified } else { Verdict::Uncertified },
                reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
                bins_tested: self.bins as u64 + seen.tested,
                bins_unexplained: open + seen.unexplained,
                residual_energy: share,
                noise_floor: sigma2.sqrt(),
                detection_limit: limit,
                rest_limit: self.rest_limit,
                failure_probability: failure,
                attempts: 1,
            },
            accuracy,
            bins: self.bins,
            lines,
            beta: first.window.beta,
        })
    }
}

/// Stretches that touch become one.
fn merge(mut all: Vec<Stretch>, gap: f64) -> Vec<Stretch> {
    all.sort_by(|a, b| a.low.total_cmp(&b.low));
    let mut out: Vec<Stretch> = Vec::new();
    for s in all {
        match out.last_mut() {
            Some(last) if s.low <= last.high + gap => {
                last.high = last.high.max(s.high);
                last.power = last.power.max(s.power);
            }
            _ => out.push(s),
        }
    }
    out
}

/// Makes pairs of tones of a real signal conjugate to the last bit; returns how many have no
/// partner within the tolerance.
fn symmetrise(tones: &mut [PublicTone], tolerance: f64) -> usize {
    tones.sort_by(|a, b| a.frequency.total_cmp(&b.frequency));
    let mut single = 0;
    for i in 0..tones.len() {
        let nu = tones[i].frequency;
        let away = |t: &PublicTone| {
            let d = t.frequency + nu;
            (d - d.round()).abs()
        };
        let at = tones.partition_point(|t| t.frequency < -nu - tolerance);
        let near = (at..tones.len().min(at + 2)).chain([0, tones.len() - 1]);
        let Some(j) = near.min_by(|&a, &b| away(&tones[a]).total_cmp(&away(&tones[b]))) else {
            continue;
        };
        if away(&tones[j]) > tolerance {
            single += 1;
        } else if i == j {
            tones[i].frequency = if nu.abs() < 0.25 { 0.0 } else { -0.5 };
            tones[i].amplitude.im = 0.0;
        } else if j > i {
            // Both lie at ±ν; the mean distance from 0, or from ±1/2, is the better estimate.
            let nu = 0.5 * (nu - tones[j].frequency);
            let mean = 0.5 * (tones[i].amplitude + tones[j].amplitude.conj());
            (tones[i].frequency, tones[i].amplitude) = (nu, mean);
            (tones[j].frequency, tones[j].amplitude) = (-nu, mean.conj());
        }
    }
    single
}

/// A tone in the user's terms: the amplitude counts from the first sample.
fn public(
    n: u64,
    tone: &Tone,
    drift: Option<Drift>,
    amplitude_std: f64,
    frequency_std: f64,
    sigma2: f64,
) -> PublicTone {
    let middle = 0.5 * n as f64;
    let rate = drift.map_or(0.0, |_| tone.drift);
    let amplitude = tone.amplitude * turn(-tone.nu * middle) * turn(0.5 * rate * middle * middle);
    let power = tone.amplitude.norm_sqr();
    let frequency = tone.nu - rate * middle;
    let phase_middle = amplitude_std / power.sqrt();
    let phase_slope = std::f64::consts::TAU * middle * frequency_std;
    PublicTone {
        frequency: frequency - frequency.round(),
        amplitude: Complex::new(amplitude.re, amplitude.im),
        frequency_std,
        amplitude_std,
        phase_std: phase_middle.hypot(phase_slope),
        snr: if sigma2 > 0.0 { n as f64 * power / sigma2 } else { f64::INFINITY },
        drift,
    }
}
