//! refine: frequencies and amplitudes by least squares on the bins around each tone.
//!
//! The lanes of a bin, averaged against the tone's phasors, give y_b = A·Ĝ(P-b) + noise/√lanes. The
//! bins are correlated by the window; with Q = R⁻¹ the weighted problem
//!
//! min (y - A·g)ᴴ Q (y - A·g),  g_b = Ĝ(P-b)
//!
//! is nearly as good as all samples without a window (1.3 to 1.5 times the Cramér-Rao bound), where
//! plain least squares loses a factor of three. A is linear; P takes Gauss-Newton steps. Where
//! leakage and not noise is the limit, Q = 1 and fewer bins, since whitening amplifies leakage.
//! Tones nearer than a main lobe are solved jointly: unknowns (Re A, Im A, P) of each, normal
//! equations (lane correlation) × (bin products).

use super::comb::{Comb, Tone, turn};
use super::linear;
use super::window::{MAX_FOOT, MAX_SPAN, Window};
use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;

/// Bins on each side of a fit in noise.
pub(crate) const HALF_WHITE: usize = 6;
/// The same where leakage is the limit.
pub(crate) const HALF_PLAIN: usize = 4;
/// Most tones of one joint fit.
pub(crate) const MAX_GROUP: usize = 8;

/// What limits a comb: noise, or the window's side lobes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Floor {
    /// Noise power per lane and bin.
    pub(crate) s2: f64,
    /// Power per lane that side lobes of the strongest tone may leave in any bin.
    pub(crate) leak2: f64,
    /// Whether noise is the limit: fits are whitened.
    pub(crate) white: bool,
}

impl Floor {
    /// Bins on each side of a fit.
    pub(crate) fn half(&self) -> usize {
        if self.white { HALF_WHITE } else { HALF_PLAIN }
    }
}

/// One fitted tone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    pub(crate) tone: Tone,
    /// What the least squares left over the bins of the fit, as a share of their energy.
    pub(crate) misfit: f64,
}

dispatch! {
    /// Fits one tone to its bins; `peeled` says whether it has been subtracted from them.
    pub(crate) fn fit_one(comb: &Comb, tone: &Tone, peeled: bool, half: usize, white: bool) -> Fit
        = fit_one_body
}

/// Projected bins around a tone, with the tone itself.
#[inline(always)] // must inherit the instruction set of its caller
fn gather<const FMA: bool>(
    comb: &Comb,
    tone: &Tone,
    peeled: bool,
    half: usize,
) -> ([f64; MAX_FOOT], [f64; MAX_FOOT], f64) {
    let foot = comb.window.foot::<FMA>(comb.geometry.position(tone.nu), half);
    let mut y = [Complex::ZERO; MAX_FOOT];
    comb.project(tone.nu, foot.first, foot.count, &mut y);
    let (mut re, mut im) = ([0.0; MAX_FOOT], [0.0; MAX_FOOT]);
    let own = if peeled { tone.amplitude } else { Complex::ZERO };
    for i in 0..foot.count {
        re[i] = y[i].re + own.re * foot.gain[i];
        im[i] = y[i].im + own.im * foot.gain[i];
    }
    (re, im, comb.geometry.position(tone.nu).fract() + half as f64 - 1.0)
}

#[inline(always)] // part of vectorised loops
fn load<const FMA: bool>(from: &[f64], at: usize) -> F4<FMA> {
    F4([from[at], from[at + 1], from[at + 2], from[at + 3]])
}

#[inline(always)] // part of vectorised loops
fn dot<const FMA: bool>(a: &[f64], b: &[f64], count: usize) -> f64 {
    let mut sum = F4::<FMA>::ZERO;
    for at in (0..count).step_by(4) {
        sum = load(a, at).mul_add(load(b, at), sum);
    }
    (sum.0[0] + sum.0[1]) + (sum.0[2] + sum.0[3])
}

/// Q·v, or v itself.
#[inline(always)] // part of vectorised loops
fn whiten<const FMA: bool>(
    q: Option<&[f64]>,
    v: &[f64; MAX_FOOT],
    count: usize,
) -> [f64; MAX_FOOT] {
    let Some(q) = q else { return *v };
    let mut out = [0.0; MAX_FOOT];
    for (j, &v) in v[..count].iter().enumerate() {
        let row = &q[j * count..(j + 1) * count];
        for at in (0..count).step_by(4) {
            let sum = load::<FMA>(row, at).mul_add(F4::splat(v), load(&out, at));
            out[at..at + 4].copy_from_slice(&sum.0);
        }
    }
    out
}

/// Ĝ and its derivative at P - i for i = 0 … count-1.
#[inline(always)] // part of vectorised loops
fn responses<const FMA: bool>(
    window: &Window,
    p: f64,
    count: usize,
) -> ([f64; MAX_FOOT], [f64; MAX_FOOT]) {
    let (mut g, mut d) = ([0.0; MAX_FOOT], [0.0; MAX_FOOT]);
    let mut x = F4::<FMA>::splat(p) - F4::COUNT;
    for at in (0..count).step_by(4) {
        let (value, slope) = window.response::<FMA>(x);
        g[at..at + 4].copy_from_slice(&value.0);
        d[at..at + 4].copy_from_slice(&slope.0);
        x = x - F4::splat(4.0);
    }
    (g, d)
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn fit_one_body<const FMA: bool>(
    comb: &Comb,
    tone: &Tone,
    peeled: bool,
    half: usize,
    white: bool,
) -> Fit {
    let count = 2 * half;
    let window = &*comb.window;
    let (re, im, start) = gather::<FMA>(comb, tone, peeled, half);
    let q = white.then(|| window.whitener(count));
    let mut p = start;
    let mut a = tone.amplitude;
    let mut misfit = 0.0;
    for step in 0..8 {
        let (g, d) = responses::<FMA>(window, p, count);
        let (qg, qd) = (whiten::<FMA>(q, &g, count), whiten::<FMA>(q, &d, count));
        let gg = dot::<FMA>(&g, &qg, count);
        let gd = dot::<FMA>(&d, &qg, count);
        let dd = dot::<FMA>(&d, &qd, count);
        let gy = Complex::new(dot::<FMA>(&qg, &re, count), dot::<FMA>(&qg, &im, count));
        let dy = Complex::new(dot::<FMA>(&qd, &re, count), dot::<FMA>(&qd, &im, count));
        a = gy / gg;
        let along = (a.conj() * (dy - a * gd)).re;
        let curvature = a.norm_sqr() * (dd - gd * gd / gg);
        let delta = if curvature > 0.0 { (along / curvature).clamp(-0.5, 0.5) } else { 0.0 };
        let moved = (p + delta - start).abs() < 1.5;
        if delta.abs() < 1e-9 || step == 7 || !moved {
            let energy = dot::<FMA>(&re, &re, count) + dot::<FMA>(&im, &im, count);
            let mut left = 0.0;
            for i in 0..count {
                left += (re[i] - a.re * g[i]).powi(2) + (im[i] - a.im * g[i]).powi(2);
            }
            misfit = if energy > 0.0 { left / energy } else { 0.0 };
            break;
        }
        p += delta;
    }
    let shift = (p - start) / comb.geometry.scale();
    Fit { tone: moved(tone, shift, a, comb.mean_time()), misfit }
}

/// A tone after a step of its frequency and with an amplitude found at the old phases of samples
/// whose mean time is given.
pub(crate) fn moved(tone: &Tone, shift: f64, a: Complex<f64>, mean_time: f64) -> Tone {
    let nu = tone.nu + shift;
    Tone { nu: nu - nu.round(), amplitude: a * turn(-shift * mean_time), ..*tone }
}

/// Variances of a fit in units of the noise power: of |A| (and of |A| times the phase in the
/// middle), and of P times |A|².
pub(crate) fn variances(comb: &Comb, nu: f64, half: usize, white: bool) -> (f64, f64) {
    let count = 2 * half;
    let q = white.then(|| comb.window.whitener(count));
    let p = comb.geometry.position(nu).fract() + half as f64 - 1.0;
    let (g, d) = responses::<false>(&comb.window, p, count);
    let (qg, qd) = (whiten::<false>(q, &g, count), whiten::<false>(q, &d, count));
    let gg = dot::<false>(&g, &qg, count);
    let gd = dot::<false>(&d, &qg, count);
    let dd = dot::<false>(&d, &qd, count);
    let lanes = comb.lanes() as f64;
    (0.5 / (gg * lanes), 0.5 / ((dd - gd * gd / gg) * lanes))
}

/// What is left of a tone's bins along the second derivative of the response, which neither a
/// better amplitude nor a better frequency can explain: the trace of a drift (imaginary part) or of
/// a second tone nearer than the resolution (any phase).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bend {
    /// Coefficient of Ĝ''/(4π)·(-1), relative to the amplitude; i·c for a drift of c bins.
    pub(crate) value: Complex<f64>,
    /// Its standard deviation (of the complex number).
    pub(crate) std: f64,
}

/// The bend of a peeled tone.
pub(crate) fn bend(comb: &Comb, tone: &Tone, floor: &Floor) -> Bend {
    let half = floor.half();
    let count = 2 * half;
    let (mut re, mut im, p) = gather::<false>(comb, tone, false, half);
    let q = floor.white.then(|| comb.window.whitener(count));
    let (g, d) = responses::<false>(&comb.window, p, count);
    let mut w = [0.0; MAX_FOOT];
    for (i, w) in w[..count].iter_mut().enumerate() {
        *w = -comb.window.curvature(p - i as f64) / (4.0 * std::f64::consts::PI);
    }
    // Remove from the template what amplitude and frequency explain.
    let qg = whiten::<false>(q, &g, count);
    let along_g = dot::<false>(&w, &qg, count) / dot::<false>(&g, &qg, count);
    let d_on_g = dot::<false>(&d, &qg, count) / dot::<false>(&g, &qg, count);
    let mut e = d;
    for i in 0..count {
        w[i] -= along_g * g[i];
        e[i] -= d_on_g * g[i];
    }
    let qe = whiten::<false>(q, &e, count);
    let along_e = dot::<false>(&w, &qe, count) / dot::<false>(&e, &qe, count);
    for i in 0..count {
        w[i] -= along_e * e[i];
    }
    let qw = whiten::<false>(q, &w, count);
    let ww = dot::<false>(&w, &qw, count);
    let a = tone.amplitude;
    // The residual relative to the amplitude.
    for i in 0..count {
        let v = Complex::new(re[i], im[i]) / a;
        (re[i], im[i]) = (v.re, v.im);
    }
    let value =
        Complex::new(dot::<false>(&qw, &re, count) / ww, dot::<false>(&qw, &im, count) / ww);
    let power = floor.s2.max(floor.leak2) / comb.lanes() as f64;
    Bend { value, std: (power / ww).sqrt() / a.norm() }
}

/// Normal equations of tones that share bins; all are peeled. Unknowns are (Re A, Im A, P) of each
/// tone. `None` where they span too many bins.
pub(crate) fn normal_equations(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let size = tones.len();
    let bins = comb.bins() as f64;
    let origin = comb.geometry.position(tones[0].nu);
    // Positions relative to the first tone, unwrapped.
    let place = |t: &Tone| {
        let d = comb.geometry.position(t.nu) - origin;
        d - (d / bins).round() * bins
    };
    let places: Vec<f64> = tones.iter().map(place).collect();
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let first = (origin + low).floor() + 1.0 - half as f64;
    let last = (origin + high).floor() + half as f64;
    let count = (last - first) as usize + 1;
    if count > MAX_SPAN || count > comb.bins() {
        return None;
    }
    let q = white.then(|| comb.window.whitener(count));
    let index = (first as i64).rem_euclid(comb.bins() as i64) as usize;
    let (mut g, mut d) = (vec![0.0; size * count], vec![0.0; size * count]);
    let (mut qg, mut qd) = (vec![0.0; size * count], vec![0.0; size * count]);
    let mut r = vec![Complex::<f64>::ZERO; size * count];
    for (i, tone) in tones.iter().enumerate() {
        let p = origin + places[i] - first;
        let reach = comb.window.half as f64 + 0.5;
        for b in 0..count {
            let x = p - b as f64;
            if x.abs() < reach {
                let (value, slope) = comb.window.response::<false>(F4::splat(x));
                (g[i * count + b], d[i * count + b]) = (value.0[0], slope.0[0]);
            }
        }
        for row in 0..count {
            let (mut sg, mut sd) = (0.0, 0.0);
            match q {
                Some(q) => {
                    for b in 0..count {
                        sg += q[row * count + b] * g[i * count + b];
                        sd += q[row * count + b] * d[i * count + b];
                    }
                }
                None => (sg, sd) = (g[i * count + row], d[i * count + row]),
            }
            (qg[i * count + row], qd[i * count + row]) = (sg, sd);
        }
        comb.project(tone.nu, index, count, &mut r[i * count..(i + 1) * count]);
    }
    let phasors: Vec<_> = tones.iter().map(|t| comb.phasors(t.nu)).collect();
    let lines = comb.offsets.len();
    let unknowns = 3 * size;
    let mut gram = vec![0.0; unknowns * unknowns];
    let mut right = vec![0.0; unknowns];
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    for i in 0..size {
        let span = i * count..(i + 1) * count;
        let ai = tones[i].amplitude;
        let (mut gr, mut dr) = (Complex::ZERO, Complex::ZERO);
        for (m, v) in r[span.clone()].iter().enumerate() {
            gr += v * qg[i * count + m];
            dr += v * qd[i * count + m];
        }
        right[3 * i] = gr.re;
        right[3 * i + 1] = gr.im;
        right[3 * i + 2] = (ai.conj() * dr).re;
        for j in 0..size {
            let other = j * count..(j + 1) * count;
            let mut c = Complex::<f64>::ZERO;
            for (p, q) in phasors[i].iter().zip(&phasors[j]).take(lines) {
                c += (0..4).map(|tau| p.lane(tau).conj() * q.lane(tau)).sum::<Complex<f64>>();
            }
            c /= comb.lanes() as f64;
            let gg = product(&qg[span.clone()], &g[other.clone()]);
            let gd = product(&qg[span.clone()], &d[other.clone()]);
            let dg = product(&qd[span.clone()], &g[other.clone()]);
            let dd = product(&qd[span.clone()], &d[other]);
            let aj = tones[j].amplitude;
            let at = |a: usize, b: usize| (3 * i + a) * unknowns + 3 * j + b;
            gram[at(0, 0)] = c.re * gg;
            gram[at(0, 1)] = -c.im * gg;
            gram[at(1, 0)] = c.im * gg;
            gram[at(1, 1)] = c.re * gg;
            gram[at(0, 2)] = (c * aj).re * gd;
            gram[at(1, 2)] = (c * aj).im * gd;
            gram[at(2, 0)] = (ai.conj() * c).re * dg;
            gram[at(2, 1)] = -(ai.conj() * c).im * dg;
            gram[at(2, 2)] = (ai.conj() * c * aj).re * dd;
        }
    }
    for u in 0..unknowns {
        gram[u * unknowns + u] *= 1.0 + 1e-12;
    }
    Some((gram, right))
}

/// Variances of jointly fitted tones in units of the noise power: as [`variances`], but with what
/// the neighbours cost. `None` where the equations are singular.
pub(crate) fn joint_variances(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
) -> Option<Vec<(f64, f64)>> {
    let (mut gram, _) = normal_equations(comb, tones, white, half)?;
    let unknowns = 3 * tones.len();
    if !linear::factor(&mut gram, unknowns) {
        return None;
    }
    let scale = 0.5 / comb.lanes() as f64;
    let variance = |direction: &[(usize, f64)]| {
        let mut v = vec![0.0; unknowns];
        direction.iter().for_each(|&(u, c)| v[u] = c);
        linear::solve(&gram, unknowns, &mut v);
        scale * direction.iter().map(|&(u, c)| c * v[u]).sum::<f64>()
    };
    let each = tones.iter().enumerate().map(|(i, t)| {
        let unit = t.amplitude / t.amplitude.norm();
        let va = variance(&[(3 * i, unit.re), (3 * i + 1, unit.im)]);
        // Of P times |A|², as for a single tone.
        (va, variance(&[(3 * i + 2, 1.0)]) * t.amplitude.norm_sqr())
    });
    Some(each.collect())
}

/// One joint Gauss-Newton step for tones that share bins; all are peeled. Returns the new tones
/// and the largest step in bins, or `None` where the normal equations are singular.
fn joint_step(comb: &Comb, tones: &[Tone], white: bool, half: usize) -> Option<(Vec<Tone>, f64)> {
    let size = tones.len();
    let unknowns = 3 * size;
    let (mut gram, mut right) = normal_equations(comb, tones, white, half)?;
    if !linear::factor(&mut gram, unknowns) {
        return None;
    }
    linear::solve(&gram, unknowns, &mut right);
    let mut largest = 0.0f64;
    let mut out = Vec::with_capacity(size);
    for (i, tone) in tones.iter().enumerate() {
        let delta = right[3 * i + 2];
        largest = largest.max(delta.abs());
        let a = tone.amplitude + Complex::new(right[3 * i], right[3 * i + 1]);
        let shift = delta.clamp(-0.5, 0.5) / comb.geometry.scale();
        out.push(moved(tone, shift, a, comb.mean_time()));
    }
    out.iter().all(|t| t.nu.is_finite() && t.amplitude.norm().is_finite()).then_some((out, largest))
}

/// Solves a group of peeled tones jointly, in place; the comb's residual follows. `false` where the
/// steps do not settle; the tones are then as they were.
pub(crate) fn fit_group(comb: &mut Comb, tones: &mut [Tone], floor: &Floor, steps: usize) -> bool {
    let start = tones.to_vec();
    let mut settled = false;
    for _ in 0..steps {
        let Some((next, largest)) = joint_step(comb, tones, floor.white, floor.half()) else {
            break;
        };
        for (old, new) in tones.iter_mut().zip(next) {
            comb.replace(old, &new);
            *old = new;
        }
        if largest > 5.0 {
            break;
        }
        if largest < 1e-5 {
            settled = true;
            break;
        }
    }
    if !settled {
        // A last look: slow convergence near the noise is still convergence.
        settled = joint_step(comb, tones, floor.white, floor.half()).is_some_and(|(_, d)| d < 1e-2);
    }
    if !settled {
        for (tone, old) in tones.iter_mut().zip(start) {
            comb.replace(tone, &old);
            *tone = old;
        }
    }
    settled
}

/// Indices of the tones in groups that share bins of a comb: positions that follow each other
/// within `gap` bins.
pub(crate) fn groups(comb: &Comb, tones: &[Tone], gap: f64) -> Vec<Vec<usize>> {
    let mut order: Vec<(f64, usize)> =
        tones.iter().enumerate().map(|(i, t)| (comb.geometry.position(t.nu), i)).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<Vec<usize>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for &(p, i) in &order {
        match out.last_mut() {
            Some(group) if p - last <= gap && group.len() < MAX_GROUP => group.push(i),
            _ => out.push(vec![i]),
        }
        last = p;
    }
    // The circle closes.
    if out.len() > 1
        && let (Some(&(low, _)), Some(&(high, _))) = (order.first(), order.last())
        && low + comb.bins() as f64 - high <= gap
        && out[0].len() + out[out.len() - 1].len() <= MAX_GROUP
    {
        let tail = out.pop().unwrap_or_default();
        out[0].extend(tail);
    }
    out
}
