//! locate: tones from the peaks of a comb.
//!
//! 1. Peaks of the bins' energy (largest within two bins) above the threshold, strongest first.
//! 2. One exponential over the lanes of a bin: the ladder gives the frequency to an alias, the
//!    profile over the neighbouring bins the position P in it; ν = (P/B + m)/s.
//! 3. If the lanes hold two exponentials, the order-2 recurrence over three bins gives both.
//! 4. If the lanes hold one but the profile is not that of one tone, two tones of the same alias
//!    are tried, three bins or more apart.
//!
//! What is found is peeled at once, so that the next peak is seen without it.

use super::comb::{Comb, Tone, nearest, turn};
use super::joint::fit_group;
use super::refine::{Fit, Floor, HALF_PLAIN, Manner, fit_four, fit_one};
use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::math::{atan2_each, cis_each};
use crate::cpu::wide::F4;
use crate::samples::Line;
use crate::stages::certify::threshold;
use crate::stages::locate::{Lanes, MAX_LINES};

/// Share of a bin's energy that other tones may have while one is located.
const IMPURITY: f64 = 0.05;
/// Tones of one alias nearer than this are never added: they are not resolved.
pub(crate) const NEAREST: f64 = 2.0;
/// Standard deviations up to which what is left in an accepted bin may be noise.
const ACCEPT: f64 = 4.5;

/// Power of leakage that several tones leave together, over that of the strongest.
pub(crate) const LEAK: f64 = 12.0;

/// Thresholds of one comb.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) floor: Floor,
    /// Energy above which a bin holds more than noise and leakage.
    pub(crate) detect: f64,
    /// Energy below which what is left in a bin after one tone is noise or leakage.
    pub(crate) accept: f64,
}

impl Limits {
    /// Limits for this many lanes, with detection at z standard deviations.
    pub(crate) fn new(floor: Floor, lanes: usize, z: f64) -> Self {
        let leak = LEAK * lanes as f64 * floor.leak2;
        Limits {
            floor,
            detect: (floor.s2 * threshold(lanes, z)).max(leak),
            accept: (floor.s2 * threshold(lanes - 1, ACCEPT)).max(leak),
        }
    }
}

dispatch! {
    /// Appends the bins above a limit.
    fn active(energy: &[f64], limit: f64, out: &mut Vec<u32>) = active_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn active_body<const FMA: bool>(energy: &[f64], limit: f64, out: &mut Vec<u32>) {
    let limits = F4::<FMA>::splat(limit);
    let (four, rest) = energy.as_chunks::<4>();
    for (at, e) in four.iter().enumerate() {
        let mut bits = F4::<FMA>(*e).above_bits(limits);
        while bits != 0 {
            out.push(4 * at as u32 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    for (k, &e) in rest.iter().enumerate() {
        if e > limit {
            out.push((4 * four.len() + k) as u32);
        }
    }
}

/// Bins whose energy is the largest within two bins and above the threshold, strongest first.
pub(crate) fn peaks(comb: &Comb, limit: f64, skip: &[bool], out: &mut Vec<u32>) {
    out.clear();
    let e = &comb.energy;
    let size = e.len();
    let near = |b: u32, k: usize| e[(b as usize + k) % size];
    active(e, limit, out);
    out.retain(|&b| {
        let here = e[b as usize];
        (skip.is_empty() || !skip[b as usize])
            && here >= near(b, 1)
            && here >= near(b, 2)
            && here > near(b, size - 1)
            && here > near(b, size - 2)
    });
    out.sort_unstable_by(|&a, &b| e[b as usize].total_cmp(&e[a as usize]));
}

/// Whether a frequency is one of those known, or too near to one to be told apart.
fn too_near(comb: &Comb, tones: &[Tone], nu: f64) -> bool {
    let near = NEAREST / comb.geometry.scale();
    // Frequencies lie in -1/2 … 1/2, so that neighbours around the edge are nearly 1 apart.
    tones.iter().any(|t| {
        let d = (t.nu - nu).abs();
        d < near || d > 1.0 - near
    })
}

/// Locates what the peaks of a comb hold, and peels it. New tones come after the old ones, some of
/// which may turn out to be mixtures and leave; returns how many of the old ones stay.
pub(crate) fn decode(
    comb: &mut Comb,
    limits: &Limits,
    skip: &[bool],
    tones: &mut Vec<Tone>,
    list: &mut Vec<u32>,
) -> usize {
    let mut old = tones.len();
    peaks(comb, limits.detect, skip, list);
    let mut ahead = Ahead::NONE;
    for (at, &b) in list.iter().enumerate() {
        let b = b as usize;
        if comb.energy[b] <= limits.detect {
            continue;
        }
        // A peak may have moved to a neighbour when a stronger tone was peeled.
        let b = summit(comb, b);
        let found = one(comb, ahead.look(comb, b, &list[at + 1..], limits), limits, tones);
        match found {
            One::Tone(tone) => {
                comb.remove(&tone);
                tones.push(tone);
            }
            One::Pair(pair) => {
                pair.iter().for_each(|t| comb.remove(t));
                tones.extend(pair);
            }
            One::Near => {}
            One::Mixed => {
                // A tone beside it may be a compromise between two.
                let mut parted = false;
                if let Some(i) = companion(comb, tones, b) {
                    let tone = tones.remove(i);
                    comb.restore(&tone);
                    let top = summit(comb, b);
                    parted = part(comb, top, limits, tones);
                    if parted {
                        old -= usize::from(i < old);
                    } else {
                        comb.remove(&tone);
                        tones.insert(i, tone);
                    }
                }
                if !parted {
                    part(comb, b, limits, tones);
                }
            }
        }
    }
    old
}

/// The tone nearest to a bin, if it is near enough to be a mixture of two tones of which one still
/// shows there.
fn companion(comb: &Comb, tones: &[Tone], b: usize) -> Option<usize> {
    const REACH: f64 = 2.5;
    let mut best = (REACH, None);
    for (i, tone) in tones.iter().enumerate() {
        let away = comb.geometry.distance(comb.geometry.position(tone.nu), b as f64);
        if away < best.0 {
            best = (away, Some(i));
        }
    }
    best.1
}

/// Parts a bin into two tones of different aliases, fits them together and peels them. Whether
/// they explain the bin and its neighbours.
fn part(comb: &mut Comb, b: usize, limits: &Limits, tones: &mut Vec<Tone>) -> bool {
    let Some(mut pair) = two(comb, b, limits, tones) else { return false };
    let size = comb.bins();
    let near = [(b + size - 1) % size, b, (b + 1) % size];
    let before = near.map(|b| comb.energy[b]);
    pair.iter().for_each(|t| comb.remove(t));
    let fits = fit_group(comb, &mut pair, &limits.floor, 8)
        && !pair.iter().any(|t| too_near(comb, tones, t.nu))
        && near
            .iter()
            .zip(before)
            .all(|(&b, before)| comb.energy[b] <= limits.accept.max(2.0 * IMPURITY * before));
    if fits {
        tones.extend(pair);
    } else {
        pair.iter().for_each(|t| comb.restore(t));
    }
    fits
}

/// The bin of largest energy within one of b.
fn summit(comb: &Comb, b: usize) -> usize {
    let size = comb.bins();
    let (left, right) = ((b + size - 1) % size, (b + 1) % size);
    let mut best = b;
    for near in [left, right] {
        if comb.energy[near] > comb.energy[best] {
            best = near;
        }
    }
    best
}

/// What one exponential in a bin would be.
#[derive(Clone, Copy)]
struct Single {
    bin: usize,
    /// Energy of the bins that were looked at: it tells whether anything was peeled there since.
    energy: f64,
    /// The bin itself, averaged over the lanes against the exponential.
    value: Complex<f64>,
    /// The tone by the three bins in the middle, and by all.
    rough: Option<Tone>,
    fit: Fit,
}

/// What the next peaks hold. Each is a long chain of steps that wait for each other, so four are taken
/// side by side.
struct Ahead([Single; 4]);

impl Ahead {
    const NONE: Ahead = Ahead(
        [Single {
            bin: usize::MAX,
            energy: 0.0,
            value: Complex::ZERO,
            rough: None,
            fit: Fit { tone: Tone::NONE, misfit: 0.0 },
        }; 4],
    );

    /// What bin b holds; `next` are the peaks after it.
    fn look(&mut self, comb: &Comb, b: usize, next: &[u32], limits: &Limits) -> &Single {
        let energy = energy_around(comb, b);
        if let Some(k) = (0..4).find(|&k| self.0[k].bin == b && self.0[k].energy == energy) {
            return &self.0[k];
        }
        let size = comb.bins();
        let mut bins = [b; 4];
        for (bin, &next) in bins[1..].iter_mut().zip(next) {
            *bin = next as usize;
        }
        let turns = turns_per_sample(bins.map(|b| comb.lanes_of(b)));
        let mut rough = [Tone::NONE; 4];
        // The last peak has no others beside it.
        let count = if next.is_empty() { 1 } else { 4 };
        for (k, single) in self.0[..count].iter_mut().enumerate() {
            let mut y = [Complex::<f64>::ZERO; 3];
            comb.project(turns[k], (bins[k] + size - 1) % size, &mut y);
            single.bin = bins[k];
            single.energy = energy_around(comb, bins[k]);
            single.value = y[1];
            single.rough = from_profile(comb, bins[k], turns[k], &y);
            rough[k] = single.rough.unwrap_or(Tone::NONE);
        }
        let manner = Manner::plain(&limits.floor);
        if count == 1 {
            self.0[0].fit = fit_one(comb, &rough[0], manner);
            return &self.0[0];
        }
        for (single, fit) in self.0.iter_mut().zip(fit_four(comb, &rough, manner)) {
            single.fit = fit;
        }
        &self.0[0]
    }
}

/// Energy of the bins that locating a tone in bin b looks at.
fn energy_around(comb: &Comb, b: usize) -> f64 {
    const REACH: usize = HALF_PLAIN + 2;
    let size = comb.bins();
    if b >= REACH && b + REACH < size {
        return comb.energy[b - REACH..=b + REACH].iter().sum();
    }
    (0..=2 * REACH).map(|k| comb.energy[(b + size + k - REACH) % size]).sum()
}

dispatch! {
    /// The frequencies of one exponential each over the lanes of four bins, by the steps of
    /// [`single`](crate::stages::locate::single).
    fn turns_per_sample(bins: [Lanes<'_>; 4]) -> [f64; 4] = turns_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn turns_body<const FMA: bool>(bins: [Lanes<'_>; 4]) -> [f64; 4] {
    let offsets = bins[0].offsets;
    let count = offsets.len();
    // Every vector holds the same of all four bins.
    let (mut re, mut im) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
    for j in 0..count {
        let (x, y) = shifts::<FMA>(&bins, j);
        for tau in 0..3 {
            let ((a, b), (c, d)) = ((x[tau], y[tau]), (x[tau + 1], y[tau + 1]));
            re = c.mul_add(a, d.mul_add(b, re));
            im = d.mul_add(a, c.negate_mul_add(b, im));
        }
    }
    let mut t = atan2_each(im, re);
    for j in 1..count {
        // Horner's rule in z = e^{-2πit} within a line, then e^{-2πitD} of the line.
        let (c, s) = cis_each(F4::ZERO - (t - t.round()));
        let (mut known_re, mut known_im) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
        let (mut here_re, mut here_im) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
        for (i, &d) in offsets[..=j].iter().enumerate() {
            let (x, y) = shifts::<FMA>(&bins, i);
            let (mut sum_re, mut sum_im) = (x[3], y[3]);
            for tau in [2, 1, 0] {
                let turned = s.negate_mul_add(sum_im, c.mul_add(sum_re, x[tau]));
                sum_im = s.mul_add(sum_re, c.mul_add(sum_im, y[tau]));
                sum_re = turned;
            }
            let turns = F4::splat(-(d as f64)) * t;
            let (p, q) = cis_each(turns - turns.round());
            (known_re, known_im) = (known_re + here_re, known_im + here_im);
            here_re = q.negate_mul_add(sum_im, p * sum_re);
            here_im = q.mul_add(sum_re, p * sum_im);
        }
        let step_re = here_re.mul_add(known_re, here_im * known_im);
        let step_im = here_im.mul_add(known_re, F4::ZERO - here_re * known_im);
        let turned = atan2_each(step_im, step_re);
        t = turned.mul_add(F4::splat(1.0 / offsets[j] as f64), t);
    }
    t.0
}

/// Line j of four bins, shift by shift: real and imaginary parts.
#[inline(always)] // must inherit the instruction set of its caller
fn shifts<const FMA: bool>(bins: &[Lanes<'_>; 4], j: usize) -> ([F4<FMA>; 4], [F4<FMA>; 4]) {
    let [a, b, c, d] = [bins[0].line(j), bins[1].line(j), bins[2].line(j), bins[3].line(j)];
    (
        F4::transpose([F4(a.re), F4(b.re), F4(c.re), F4(d.re)]),
        F4::transpose([F4(a.im), F4(b.im), F4(c.im), F4(d.im)]),
    )
}

/// What one bin holds.
enum One {
    Tone(Tone),
    Pair([Tone; 2]),
    /// More than one alias.
    Mixed,
    /// A trace of a tone that is known already.
    Near,
}

/// Tries a single exponential over the lanes.
fn one(comb: &Comb, single: &Single, limits: &Limits, tones: &[Tone]) -> One {
    let energy = comb.energy[single.bin];
    let left = energy - comb.lanes() as f64 * single.value.norm_sqr();
    if left > limits.accept.max(IMPURITY * energy) {
        return One::Mixed;
    }
    let Some(tone) = single.rough else { return One::Mixed };
    let fit = &single.fit;
    if too_near(comb, tones, tone.nu) || too_near(comb, tones, fit.tone.nu) {
        return One::Near;
    }
    if fit.misfit > 0.01
        && let Some(pair) = split(comb, &fit.tone, fit.misfit, limits)
        && !pair.iter().any(|t| too_near(comb, tones, t.nu))
    {
        return One::Pair(pair);
    }
    One::Tone(fit.tone)
}

/// The tone whose lanes turn at t and whose bins b-1, b, b+1 are y: the logarithm of the response
/// is nearly a parabola.
fn from_profile(comb: &Comb, b: usize, t: f64, y: &[Complex<f64>; 3]) -> Option<Tone> {
    let log = |v: Complex<f64>| v.norm_sqr().max(1e-300).ln();
    let [l, c, r] = [log(y[0]), log(y[1]), log(y[2])];
    let bend = l - 2.0 * c + r;
    let offset = if bend < 0.0 { (0.5 * (l - r) / bend).clamp(-1.0, 1.0) } else { 0.0 };
    let position = (b as f64 + offset).rem_euclid(comb.bins() as f64);
    let (nu, away) = comb.geometry.unalias(position, t);
    let gain = comb.window.gain(offset);
    (away < 0.3).then(|| Tone { nu, amplitude: y[1] / gain, drift: 0.0 })
}

/// Two tones of one alias in place of one whose profile does not fit. `None` unless they explain
/// nearly everything that one does not.
fn split(comb: &Comb, tone: &Tone, misfit: f64, limits: &Limits) -> Option<[Tone; 2]> {
    const HALF: usize = PROFILE / 2;
    if comb.bins() < 2 * PROFILE {
        return None;
    }
    let p = comb.geometry.position(tone.nu);
    let first = p.floor() as i64 + 1 - HALF as i64;
    let mut y = [Complex::ZERO; PROFILE];
    comb.project(tone.nu, first.rem_euclid(comb.bins() as i64) as usize, &mut y);
    let energy: f64 = y.iter().map(|v| v.norm_sqr()).sum();
    let noise = PROFILE as f64 * limits.floor.s2.max(limits.floor.leak2) / comb.lanes() as f64;
    let p = p - first as f64;
    let enough = (0.02 * misfit * energy).max(4.0 * noise);
    let mut best: Option<Profiles> = None;
    for (low, high) in [(-1.5, 1.5), (0.0, 3.0), (-3.0, 0.0), (-2.0, 2.0)] {
        if let Some(found) = two_profiles(comb, &y, [p + low, p + high])
            && best.is_none_or(|b| found.left < b.left)
        {
            best = Some(found);
        }
        if best.is_some_and(|b| b.left < enough) {
            break;
        }
    }
    let Profiles { places, values, left } = best?;
    let apart = (places[0] - places[1]).abs();
    let explained = left < enough;
    let worth = values.iter().all(|a| a.norm_sqr() * comb.lanes() as f64 > limits.detect);
    if !explained || !worth || apart < 2.5 {
        return None;
    }
    // The lanes at both places must turn as one: a neighbour of another alias, of which the
    // projection sees a part, would leave the rest.
    let lanes = comb.lanes() as f64;
    for place in places {
        let at = place.round();
        let bin = (first + at as i64).rem_euclid(comb.bins() as i64) as usize;
        let gain = |i: usize| comb.window.response::<false>(F4::splat(places[i] - at)).0.0[0];
        let model = values[0] * gain(0) + values[1] * gain(1);
        let rest = comb.energy[bin] - lanes * model.norm_sqr();
        if rest > limits.accept.max(2.0 * IMPURITY * comb.energy[bin]) {
            return None;
        }
    }
    let mut out = [*tone; 2];
    for i in 0..2 {
        let position = (places[i] + first as f64).rem_euclid(comb.bins() as f64);
        let (nu, _) = comb.geometry.unalias(position, tone.nu);
        let shift = nu - tone.nu;
        out[i] = Tone { nu, amplitude: values[i] * turn(-shift * comb.mean_time()), drift: 0.0 };
    }
    Some(out)
}

/// Bins that a fit of two profiles takes.
const PROFILE: usize = 16;

/// Two responses fitted to projected bins.
#[derive(Debug, Clone, Copy)]
struct Profiles {
    places: [f64; 2],
    values: [Complex<f64>; 2],
    /// Energy that is left.
    left: f64,
}

dispatch! {
    /// Gauss-Newton fit of two responses to projected bins, from these places; amplitudes are
    /// linear.
    fn two_profiles(
        comb: &Comb,
        y: &[Complex<f64>; PROFILE],
        start: [f64; 2],
    ) -> Option<Profiles> = two_profiles_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn two_profiles_body<const FMA: bool>(
    comb: &Comb,
    y: &[Complex<f64>; PROFILE],
    start: [f64; 2],
) -> Option<Profiles> {
    let mut p = start;
    let mut a = [Complex::<f64>::ZERO; 2];
    let mut left = f64::INFINITY;
    for _ in 0..10 {
        let [mut g, mut d] = [[[0.0; PROFILE]; 2]; 2];
        for i in 0..2 {
            comb.window.span::<FMA, PROFILE>(p[i], &mut g[i], &mut d[i]);
        }
        let (g00, g01, g11) = (dot(&g[0], &g[0]), dot(&g[0], &g[1]), dot(&g[1], &g[1]));
        let det = g00 * g11 - g01 * g01;
        if det < 1e-6 * g00 * g11 {
            return None;
        }
        let (r0, r1) = (along(&g[0], y), along(&g[1], y));
        a = [(r0 * g11 - r1 * g01) / det, (r1 * g00 - r0 * g01) / det];
        let mut r = *y;
        let mut now = 0.0;
        for (r, (g0, g1)) in r.iter_mut().zip(g[0].iter().zip(&g[1])) {
            *r -= a[0] * g0 + a[1] * g1;
            now += r.norm_sqr();
        }
        let done = (left - now).abs() < 1e-3 * now;
        left = now;
        if done {
            break;
        }
        // Variable projection: the places move, the amplitudes follow. With r orthogonal to both
        // responses the equations of the places are those of the slopes less their parts along
        // the responses.
        let mut gram = [0.0; 4];
        let mut right = [0.0; 2];
        let d01 = [[dot(&d[0], &g[0]), dot(&d[0], &g[1])], [dot(&d[1], &g[0]), dot(&d[1], &g[1])]];
        for i in 0..2 {
            right[i] = (a[i].conj() * along(&d[i], &r)).re;
            for j in 0..2 {
                let (u, v) = (d01[i], d01[j]);
                // uᵀ·Gram⁻¹·v.
                let inside =
                    (u[0] * (g11 * v[0] - g01 * v[1]) + u[1] * (g00 * v[1] - g01 * v[0])) / det;
                gram[2 * i + j] = (a[i].conj() * a[j]).re * (dot(&d[i], &d[j]) - inside);
            }
        }
        let size = (gram[0] * (1.0 + 1e-9)) * (gram[3] * (1.0 + 1e-9)) - gram[1] * gram[2];
        if size <= 0.0 {
            return None;
        }
        p[0] += ((right[0] * gram[3] - right[1] * gram[1]) / size).clamp(-0.5, 0.5);
        p[1] += ((right[1] * gram[0] - right[0] * gram[2]) / size).clamp(-0.5, 0.5);
        if p.iter().any(|p| !(0.0..PROFILE as f64).contains(p)) {
            return None;
        }
    }
    Some(Profiles { places: p, values: a, left })
}

#[inline(always)] // must inherit the instruction set of its caller
fn dot(u: &[f64; PROFILE], v: &[f64; PROFILE]) -> f64 {
    let mut sum = [0.0; 4];
    for (u, v) in u.chunks_exact(4).zip(v.chunks_exact(4)) {
        for (s, (u, v)) in sum.iter_mut().zip(u.iter().zip(v)) {
            *s += u * v;
        }
    }
    (sum[0] + sum[1]) + (sum[2] + sum[3])
}

#[inline(always)] // must inherit the instruction set of its caller
fn along(u: &[f64; PROFILE], y: &[Complex<f64>; PROFILE]) -> Complex<f64> {
    let mut sum = Complex::ZERO;
    for (u, y) in u.iter().zip(y) {
        sum += y * u;
    }
    sum
}

/// Two exponentials over lines, and what a least-squares fit of them needs.
struct Exponentials {
    lines: usize,
    /// Conjugate phasors of both, line after line.
    conjugate: [[Line; MAX_LINES]; 2],
    /// Lanes, and the sum of conj(first)·second over them.
    lanes: f64,
    gram: Complex<f64>,
    /// Determinant of the normal equations.
    det: f64,
}

dispatch! {
    /// Exponentials of t cycles per sample over lines at these offsets.
    fn exponentials(t: [f64; 2], offsets: &[u64]) -> Exponentials = exponentials_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn exponentials_body<const FMA: bool>(t: [f64; 2], offsets: &[u64]) -> Exponentials {
    let mut conjugate = [[Line::ZERO; MAX_LINES]; 2];
    for i in 0..2 {
        for (line, &d) in conjugate[i].iter_mut().zip(offsets) {
            let x = (F4::<FMA>::splat(d as f64) + F4::COUNT) * F4::splat(-t[i]);
            let (c, s) = cis_each(x - x.round());
            (line.re, line.im) = (c.0, s.0);
        }
    }
    let (mut re, mut im) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
    for (p, q) in conjugate[0].iter().zip(&conjugate[1]).take(offsets.len()) {
        re = F4(p.re).mul_add(F4(q.re), F4(p.im).mul_add(F4(q.im), re));
        im = F4(p.im).mul_add(F4(q.re), F4(p.re).negate_mul_add(F4(q.im), im));
    }
    let gram = Complex::new(re.sum(), im.sum());
    let lanes = 4.0 * offsets.len() as f64;
    let det = lanes * lanes - gram.norm_sqr();
    Exponentials { lines: offsets.len(), conjugate, lanes, gram, det }
}

dispatch! {
    /// Least-squares values of both over lines; `None` where the lanes cannot tell them apart.
    fn values_of(both: &Exponentials, lines: &[Line]) -> Option<[Complex<f64>; 2]> = values_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn values_body<const FMA: bool>(both: &Exponentials, lines: &[Line]) -> Option<[Complex<f64>; 2]> {
    if both.det < 1e-3 * both.lanes * both.lanes {
        return None;
    }
    let mut right = [Complex::<f64>::ZERO; 2];
    for (right, conjugate) in right.iter_mut().zip(&both.conjugate) {
        let (mut re, mut im) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
        for (p, u) in conjugate.iter().zip(lines).take(both.lines) {
            re = F4(p.re).mul_add(F4(u.re), F4(p.im).negate_mul_add(F4(u.im), re));
            im = F4(p.re).mul_add(F4(u.im), F4(p.im).mul_add(F4(u.re), im));
        }
        *right = Complex::new(re.sum(), im.sum());
    }
    let (m, gram) = (both.lanes, both.gram);
    Some([
        (right[0] * m - gram * right[1]) / both.det,
        (right[1] * m - gram.conj() * right[0]) / both.det,
    ])
}

/// Two exponentials of different aliases over the lanes of a bin and its neighbours.
fn two(comb: &Comb, b: usize, limits: &Limits, tones: &[Tone]) -> Option<[Tone; 2]> {
    let size = comb.bins();
    let near = [(b + size - 1) % size, b, (b + 1) % size];
    let cells = [comb.lines_of(near[0]).0, comb.lines_of(near[1]).0, comb.lines_of(near[2]).0];
    let count = comb.offsets.len();
    // The recurrence U[τ+2] + c1 U[τ+1] + c0 U[τ] = 0, forwards and backwards, over all lines.
    let (mut a00, mut a11) = (0.0, 0.0);
    let [mut a01, mut b0, mut b1] = [Complex::<f64>::ZERO; 3];
    for lines in &cells {
        for line in &lines[..count] {
            for t in 0..2 {
                let (u0, u1, u2) = (line.lane(t), line.lane(t + 1), line.lane(t + 2));
                // Backwards the samples are conjugate and change places.
                a00 += u0.norm_sqr() + u2.norm_sqr();
                a11 += 2.0 * u1.norm_sqr();
                a01 += u0.conj() * u1 + u2 * u1.conj();
                b0 -= 2.0 * (u0.conj() * u2);
                b1 -= u1.conj() * u2 + u1 * u0.conj();
            }
        }
    }
    let det = a00 * a11 - a01.norm_sqr();
    if det <= 1e-9 * a00 * a11 {
        return None;
    }
    let (c0, c1) = ((b0 * a11 - a01 * b1) / det, (b1 * a00 - a01.conj() * b0) / det);
    let half = -0.5 * c1;
    let root = (half * half - c0).sqrt();
    let angle = |v: Complex<f64>| v.im.atan2(v.re) / std::f64::consts::TAU;
    let mut t = [angle(half + root), angle(half - root)];
    for j in 1..count {
        let d = comb.offsets[j] as f64;
        let mut turns = [Complex::<f64>::ZERO; 2];
        let both = exponentials(t, &[0]);
        for lines in &cells {
            let (v0, vj) = (values_of(&both, &lines[..1])?, values_of(&both, &lines[j..=j])?);
            for i in 0..2 {
                turns[i] += vj[i] * v0[i].conj();
            }
        }
        for i in 0..2 {
            t[i] += angle(turns[i] * turn(-t[i] * d)) / d;
        }
    }
    // Each component's profile over seven bins.
    let mut profile = [[Complex::<f64>::ZERO; 7]; 2];
    let both = exponentials(t, &comb.offsets);
    for k in 0..7 {
        let v = match k {
            2..=4 => values_of(&both, &cells[k - 2])?,
            _ => values_of(&both, &comb.lines_of((b + size + k - 3) % size).0)?,
        };
        (profile[0][k], profile[1][k]) = (v[0], v[1]);
    }
    let mut out = [Tone::NONE; 2];
    for i in 0..2 {
        let best = (1..6)
            .max_by(|&a, &b| profile[i][a].norm_sqr().total_cmp(&profile[i][b].norm_sqr()))?;
        let y = [profile[i][best - 1], profile[i][best], profile[i][best + 1]];
        let mut tone = from_profile(comb, (b + size + best - 3) % size, t[i], &y)?;
        tone.amplitude *= turn(-tone.nu * comb.geometry.shift());
        if tone.amplitude.norm_sqr() * comb.lanes() as f64 <= 0.25 * limits.detect
            || too_near(comb, tones, tone.nu)
        {
            return None;
        }
        out[i] = tone;
    }
    if too_near(comb, &out[..1], out[1].nu) {
        return None;
    }
    // Both must explain most of the bin and its neighbours; a joint fit sharpens them.
    let phasors = [comb.phasors(out[0].nu), comb.phasors(out[1].nu)];
    for (lines, &bin) in cells.iter().zip(&near) {
        let mut parts = [Complex::<f64>::ZERO; 2];
        for (part, tone) in parts.iter_mut().zip(&out) {
            let d = comb.geometry.position(tone.nu) - bin as f64;
            let x = d - nearest(d / size as f64) * size as f64;
            *part = tone.amplitude * comb.window.response::<false>(F4::splat(x)).0.0[0];
        }
        let left = energy_without(&lines[..count], &phasors, parts);
        if left > limits.accept.max(0.5 * comb.energy[bin]) {
            return None;
        }
    }
    Some(out)
}

dispatch! {
    /// Energy of lines less two exponentials with these values.
    fn energy_without(
        lines: &[Line],
        phasors: &[[Line; MAX_LINES]; 2],
        values: [Complex<f64>; 2],
    ) -> f64 = energy_without_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn energy_without_body<const FMA: bool>(
    lines: &[Line],
    phasors: &[[Line; MAX_LINES]; 2],
    values: [Complex<f64>; 2],
) -> f64 {
    let mut sum = F4::<FMA>::ZERO;
    for (j, line) in lines.iter().enumerate() {
        let (mut re, mut im) = (F4::<FMA>(line.re), F4::<FMA>(line.im));
        for i in 0..2 {
            let (p, q) = (F4(phasors[i][j].re), F4(phasors[i][j].im));
            let (c, s) = (F4::splat(values[i].re), F4::splat(values[i].im));
            re = q.mul_add(s, p.negate_mul_add(c, re));
            im = q.negate_mul_add(c, p.negate_mul_add(s, im));
        }
        sum = re.mul_add(re, im.mul_add(im, sum));
    }
    sum.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::locate::single;

    #[test]
    fn the_ladder_finds_the_frequency() {
        let offsets = [0u64, 16, 256, 4000, 60_000];
        for i in 0..50 {
            let nu = (i as f64 * 0.618_034).fract() - 0.5;
            let lines: Vec<Line> = offsets
                .iter()
                .map(|&d| {
                    let mut line = Line::ZERO;
                    for tau in 0..4 {
                        line.set_lane(tau, turn(nu * (d + tau as u64) as f64) * 0.7);
                    }
                    line
                })
                .collect();
            // Another frequency beside it, in other lanes of the vectors.
            let mirrored: Vec<Line> =
                lines.iter().map(|l| Line { re: l.re, im: l.im.map(|y| -y) }).collect();
            let (lanes, other) = (Lanes::new(&lines, &offsets), Lanes::new(&mirrored, &offsets));
            let four = [other, lanes, other, lanes];
            let (found, plain) = (turns_per_sample(four), turns_body::<false>(four));
            for (t, nu) in found.into_iter().zip([-nu, nu, -nu, nu]) {
                assert!((t - nu - (t - nu).round()).abs() < 1e-12, "{nu} {t}");
            }
            assert!((found[1] - single(lanes)).abs() < 1e-12);
            assert!(found.iter().zip(plain).all(|(t, p)| (t - p).abs() < 1e-12));
        }
    }
}
