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

use super::comb::{Comb, Tone, phasors_body, project_body, project_with, turn};
use super::linear;
use super::window::{MAX_FOOT, MAX_SPAN};
use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::wide::F4;
use crate::samples::Line;
use crate::stages::locate::MAX_LINES;

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

/// Projected bins around a tone, with the tone itself where it is `peeled`, and the fraction of its
/// position.
#[inline(always)] // must inherit the instruction set of its caller
fn gather<const FMA: bool>(
    comb: &Comb,
    tone: &Tone,
    peeled: bool,
    half: usize,
) -> ([f64; MAX_FOOT], [f64; MAX_FOOT], f64) {
    let position = comb.geometry.position(tone.nu);
    let foot = comb.window.foot::<FMA>(position, half);
    let mut y = [Complex::ZERO; MAX_FOOT];
    project_body::<FMA>(comb, tone.nu, foot.first, &mut y[..foot.count]);
    let (mut re, mut im) = ([0.0; MAX_FOOT], [0.0; MAX_FOOT]);
    let own = if peeled { tone.amplitude } else { Complex::ZERO };
    for i in 0..foot.count {
        re[i] = y[i].re + own.re * foot.gain[i];
        im[i] = y[i].im + own.im * foot.gain[i];
    }
    (re, im, position - (position as usize) as f64)
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
    let matched = (white && half == HALF_WHITE).then(|| window.matched());
    // In noise a step below this is far below its error; the next would be its square.
    let enough = if matched.is_some() || !peeled { 1e-4 } else { 1e-9 };
    let mut f = start;
    let mut a = tone.amplitude;
    let (mut g, mut d) = ([0.0; MAX_FOOT], [0.0; MAX_FOOT]);
    for _ in 0..8 {
        let (gg, gd, dd, gy, dy);
        if let Some(matched) = matched {
            let Some(filter) = matched.at::<FMA>(f) else { break };
            (gg, gd, dd) = (filter.gg, filter.gd, filter.dd);
            gy = Complex::new(dot::<FMA>(&filter.g, &re, count), dot::<FMA>(&filter.g, &im, count));
            dy = Complex::new(dot::<FMA>(&filter.d, &re, count), dot::<FMA>(&filter.d, &im, count));
        } else {
            let whole = f.floor();
            window.rows::<FMA>(f - whole, half as i64 - 1 + whole as i64, count, &mut g, &mut d);
            gg = dot::<FMA>(&g, &g, count);
            gd = dot::<FMA>(&d, &g, count);
            dd = dot::<FMA>(&d, &d, count);
            gy = Complex::new(dot::<FMA>(&g, &re, count), dot::<FMA>(&g, &im, count));
            dy = Complex::new(dot::<FMA>(&d, &re, count), dot::<FMA>(&d, &im, count));
        }
        a = gy / gg;
        let along = (a.conj() * (dy - a * gd)).re;
        let curvature = a.norm_sqr() * (dd - gd * gd / gg);
        let delta = if curvature > 0.0 { (along / curvature).clamp(-0.5, 0.5) } else { 0.0 };
        if (f + delta - start).abs() >= 1.5 {
            break;
        }
        f += delta;
        if delta.abs() < enough {
            // The amplitude follows the last step.
            a -= a * (gd / gg * delta);
            break;
        }
    }
    let mut misfit = 0.0;
    if !peeled {
        let whole = f.floor();
        window.rows::<FMA>(f - whole, half as i64 - 1 + whole as i64, count, &mut g, &mut d);
        let energy = dot::<FMA>(&re, &re, count) + dot::<FMA>(&im, &im, count);
        let mut left = 0.0;
        for i in 0..count {
            left += (re[i] - a.re * g[i]).powi(2) + (im[i] - a.im * g[i]).powi(2);
        }
        misfit = if energy > 0.0 { left / energy } else { 0.0 };
    }
    let shift = (f - start) / comb.geometry.scale();
    Fit { tone: moved(tone, shift, a, comb.mean_time()), misfit }
}

/// A tone after a step of its frequency and with an amplitude found at the old phases of samples
/// whose mean time is given.
pub(crate) fn moved(tone: &Tone, shift: f64, a: Complex<f64>, mean_time: f64) -> Tone {
    let nu = tone.nu + shift;
    Tone { nu: nu - nu.round(), amplitude: a * turn(-shift * mean_time), ..*tone }
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
    /// Variance of |A| (and of |A| times the phase in the middle) in units of the noise power, if
    /// the tone is fitted alone.
    pub(crate) amplitude: f64,
    /// The same of P times |A|².
    pub(crate) position: f64,
}

dispatch! {
    /// The bend of a peeled tone, and how well it is known.
    pub(crate) fn bend(comb: &Comb, tone: &Tone, floor: &Floor) -> Bend = bend_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn bend_body<const FMA: bool>(comb: &Comb, tone: &Tone, floor: &Floor) -> Bend {
    let half = floor.half();
    let count = 2 * half;
    let window = &*comb.window;
    let (re, im, f) = gather::<FMA>(comb, tone, false, half);
    let [mut g, mut d, mut w] = [[0.0; MAX_FOOT]; 3];
    window.rows::<FMA>(f, half as i64 - 1, count, &mut g, &mut d);
    window.bends::<FMA>(f, half, &mut w);
    let [mut qg, mut qd, mut qw] = [g, d, w];
    if floor.white {
        let q = window.whitener(count);
        let (mut g4, mut d4, mut w4) = ([F4::<FMA>::ZERO; 3], [F4::ZERO; 3], [F4::ZERO; 3]);
        for j in 0..count {
            let (g, d, w) = (F4::splat(g[j]), F4::splat(d[j]), F4::splat(w[j]));
            for at in 0..count / 4 {
                let q = load::<FMA>(q, j * count + 4 * at);
                g4[at] = q.mul_add(g, g4[at]);
                d4[at] = q.mul_add(d, d4[at]);
                w4[at] = q.mul_add(w, w4[at]);
            }
        }
        for at in 0..count / 4 {
            qg[4 * at..4 * at + 4].copy_from_slice(&g4[at].0);
            qd[4 * at..4 * at + 4].copy_from_slice(&d4[at].0);
            qw[4 * at..4 * at + 4].copy_from_slice(&w4[at].0);
        }
    }
    let (gg, gd, dd) =
        (dot::<FMA>(&g, &qg, count), dot::<FMA>(&d, &qg, count), dot::<FMA>(&d, &qd, count));
    let (wg, wd, ww) =
        (dot::<FMA>(&w, &qg, count), dot::<FMA>(&w, &qd, count), dot::<FMA>(&w, &qw, count));
    // Less what amplitude and frequency explain.
    let det = gg * dd - gd * gd;
    let (along_g, along_d) = ((wg * dd - wd * gd) / det, (wd * gg - wg * gd) / det);
    let ww = ww - along_g * wg - along_d * wd;
    let on = |y: &[f64; MAX_FOOT]| {
        let mut sum = 0.0;
        for i in 0..count {
            sum += (qw[i] - along_g * qg[i] - along_d * qd[i]) * y[i];
        }
        sum / ww
    };
    let a = tone.amplitude;
    let value = Complex::new(on(&re), on(&im)) / a;
    let lanes = comb.lanes() as f64;
    let power = floor.s2.max(floor.leak2) / lanes;
    Bend {
        value,
        std: (power / ww).sqrt() / a.norm(),
        amplitude: 0.5 / (gg * lanes),
        position: 0.5 / ((dd - gd * gd / gg) * lanes),
    }
}

/// What another comb says about a tone: a step from where it is, and how much it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Second {
    /// Step of the frequency in cycles per sample, and its variance.
    pub(crate) shift: f64,
    pub(crate) shift_variance: f64,
    /// Step of the amplitude, and the variance of |A|.
    pub(crate) amplitude: Complex<f64>,
    pub(crate) amplitude_variance: f64,
}

dispatch! {
    /// One step from a tone that is peeled from a comb with noise of power s2 per lane.
    pub(crate) fn second(comb: &Comb, tone: &Tone, s2: f64) -> Option<Second> = second_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn second_body<const FMA: bool>(comb: &Comb, tone: &Tone, s2: f64) -> Option<Second> {
    const COUNT: usize = 2 * HALF_WHITE;
    if comb.bins() < COUNT {
        return None;
    }
    let (re, im, f) = gather::<FMA>(comb, tone, false, HALF_WHITE);
    let filter = comb.window.matched().at::<FMA>(f)?;
    let along = |v: &[f64; COUNT]| {
        let (mut sum_re, mut sum_im) = (0.0, 0.0);
        for i in 0..COUNT {
            sum_re += v[i] * re[i];
            sum_im += v[i] * im[i];
        }
        Complex::new(sum_re, sum_im)
    };
    let amplitude = along(&filter.g) / filter.gg;
    let a = tone.amplitude;
    let curvature = filter.dd - filter.gd * filter.gd / filter.gg;
    let delta =
        (a.conj() * (along(&filter.d) - amplitude * filter.gd)).re / (a.norm_sqr() * curvature);
    let noise = 0.5 * s2 / comb.lanes() as f64;
    let scale = comb.geometry.scale();
    Some(Second {
        shift: delta / scale,
        shift_variance: noise / (a.norm_sqr() * curvature * scale * scale),
        amplitude,
        amplitude_variance: noise / filter.gg,
    })
}

/// Most unknowns of one joint fit.
const UNKNOWNS: usize = 3 * MAX_GROUP;

/// Normal equations of tones that share bins; unknowns are (Re A, Im A, P) of each tone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normal {
    /// 3 times the number of tones.
    pub(crate) unknowns: usize,
    matrix: [f64; UNKNOWNS * UNKNOWNS],
    vector: [f64; UNKNOWNS],
}

impl Normal {
    pub(crate) const EMPTY: Normal =
        Normal { unknowns: 0, matrix: [0.0; UNKNOWNS * UNKNOWNS], vector: [0.0; UNKNOWNS] };

    /// The matrix, row by row.
    pub(crate) fn gram(&mut self) -> &mut [f64] {
        &mut self.matrix[..self.unknowns * self.unknowns]
    }

    /// The right side.
    pub(crate) fn right(&mut self) -> &mut [f64] {
        &mut self.vector[..self.unknowns]
    }

    /// Factors the matrix and puts the solution in place of the right side. `false` where the
    /// matrix is singular.
    pub(crate) fn solve(&mut self) -> bool {
        let unknowns = self.unknowns;
        if !linear::factor(self.gram(), unknowns) {
            return false;
        }
        let (matrix, vector) = (&self.matrix, &mut self.vector);
        linear::solve(&matrix[..unknowns * unknowns], unknowns, &mut vector[..unknowns]);
        true
    }

    /// The inverse matrix between one direction, given by its components, and itself; after
    /// [`solve`](Normal::solve).
    pub(crate) fn variance(&self, direction: &[(usize, f64)]) -> f64 {
        let mut v = [0.0; UNKNOWNS];
        direction.iter().for_each(|&(u, c)| v[u] = c);
        let size = self.unknowns;
        linear::solve(&self.matrix[..size * size], size, &mut v[..size]);
        direction.iter().map(|&(u, c)| c * v[u]).sum()
    }
}

/// Normal equations of peeled tones that share bins. `false` where they span too many bins.
pub(crate) fn normal_equations(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
    out: &mut Normal,
) -> bool {
    // Pairs are frequent; they need little room.
    match tones.len() {
        0..=2 => normal_of_few(comb, tones, white, half, out),
        _ => normal_of_many(comb, tones, white, half, out),
    }
}

dispatch! {
    fn normal_of_few(comb: &Comb, tones: &[Tone], white: bool, half: usize, out: &mut Normal) -> bool
        = few_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn few_body<const FMA: bool>(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
    out: &mut Normal,
) -> bool {
    normal_body::<FMA, 2>(comb, tones, white, half, out)
}

dispatch! {
    fn normal_of_many(comb: &Comb, tones: &[Tone], white: bool, half: usize, out: &mut Normal) -> bool
        = many_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn many_body<const FMA: bool>(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
    out: &mut Normal,
) -> bool {
    normal_body::<FMA, MAX_GROUP>(comb, tones, white, half, out)
}

#[inline(always)] // must inherit the instruction set of its caller
fn normal_body<const FMA: bool, const MOST: usize>(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
    out: &mut Normal,
) -> bool {
    let size = tones.len();
    let bins = comb.bins() as f64;
    let origin = comb.geometry.position(tones[0].nu);
    // Positions relative to the first tone, unwrapped.
    let mut places = [0.0; MOST];
    let (mut low, mut high) = (0.0f64, 0.0f64);
    for (place, t) in places.iter_mut().zip(tones) {
        let d = comb.geometry.position(t.nu) - origin;
        *place = if d > 0.5 * bins {
            d - bins
        } else if d < -0.5 * bins {
            d + bins
        } else {
            d
        };
        low = low.min(*place);
        high = high.max(*place);
    }
    let first = (origin + low).floor() + 1.0 - half as f64;
    let last = (origin + high).floor() + half as f64;
    let count = ((last - first) as usize + 1).next_multiple_of(4);
    if count > MAX_SPAN || count > comb.bins() {
        return false;
    }
    let q = white.then(|| comb.window.whitener(count));
    let index = (first as i64).rem_euclid(comb.bins() as i64) as usize;
    let [mut g, mut d, mut qg, mut qd] = [[[0.0; MAX_SPAN]; MOST]; 4];
    let mut phasors = [[Line::ZERO; MAX_LINES]; MOST];
    let unknowns = 3 * size;
    out.unknowns = unknowns;
    for (i, tone) in tones.iter().enumerate() {
        let p = origin + places[i] - first;
        comb.window.span::<FMA>(p, &mut g[i][..count], &mut d[i][..count]);
        match q {
            Some(q) => {
                for (row, (&g, &d)) in q.chunks_exact(count).zip(g[i].iter().zip(&d[i])) {
                    if g == 0.0 {
                        continue;
                    }
                    let (g, d) = (F4::<FMA>::splat(g), F4::splat(d));
                    for at in (0..count).step_by(4) {
                        let q = load::<FMA>(row, at);
                        let sum = q.mul_add(g, load(&qg[i], at));
                        qg[i][at..at + 4].copy_from_slice(&sum.0);
                        let sum = q.mul_add(d, load(&qd[i], at));
                        qd[i][at..at + 4].copy_from_slice(&sum.0);
                    }
                }
            }
            None => (qg[i], qd[i]) = (g[i], d[i]),
        }
        phasors[i] = phasors_body::<FMA>(comb, tone.nu);
        let mut y = [Complex::<f64>::ZERO; MAX_SPAN];
        project_with::<FMA>(comb, &phasors[i], index, &mut y[..count]);
        let (mut gr, mut dr) = (Complex::ZERO, Complex::ZERO);
        for (y, (g, d)) in y[..count].iter().zip(qg[i].iter().zip(&qd[i])) {
            gr += y * g;
            dr += y * d;
        }
        out.vector[3 * i] = gr.re;
        out.vector[3 * i + 1] = gr.im;
        out.vector[3 * i + 2] = (tone.amplitude.conj() * dr).re;
    }
    let lines = comb.offsets.len();
    for i in 0..size {
        for j in 0..=i {
            let (mut re, mut im) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
            for (p, q) in phasors[i].iter().zip(&phasors[j]).take(lines) {
                re = F4(p.re).mul_add(F4(q.re), F4(p.im).mul_add(F4(q.im), re));
                im = F4(p.re).mul_add(F4(q.im), F4(p.im).negate_mul_add(F4(q.re), im));
            }
            let c = Complex::new(re.sum(), im.sum()) / comb.lanes() as f64;
            let gg = dot::<FMA>(&qg[i], &g[j], count);
            let gd = dot::<FMA>(&qg[i], &d[j], count);
            let dg = dot::<FMA>(&qd[i], &g[j], count);
            let dd = dot::<FMA>(&qd[i], &d[j], count);
            let (ai, aj) = (tones[i].amplitude, tones[j].amplitude);
            let cross = [
                [c.re * gg, -c.im * gg, (c * aj).re * gd],
                [c.im * gg, c.re * gg, (c * aj).im * gd],
                [(ai.conj() * c).re * dg, -(ai.conj() * c).im * dg, (ai.conj() * c * aj).re * dd],
            ];
            for (a, row) in cross.iter().enumerate() {
                for (b, &v) in row.iter().enumerate() {
                    out.matrix[(3 * i + a) * unknowns + 3 * j + b] = v;
                    out.matrix[(3 * j + b) * unknowns + 3 * i + a] = v;
                }
            }
        }
    }
    for u in 0..unknowns {
        out.matrix[u * unknowns + u] *= 1.0 + 1e-12;
    }
    true
}

/// Variances of jointly fitted tones in units of the noise power: as in [`Bend`], but with what
/// the neighbours cost. `None` where the equations are singular.
pub(crate) fn joint_variances(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
) -> Option<[(f64, f64); MAX_GROUP]> {
    let mut normal = Normal::EMPTY;
    if !normal_equations(comb, tones, white, half, &mut normal) || !normal.solve() {
        return None;
    }
    let scale = 0.5 / comb.lanes() as f64;
    let mut out = [(0.0, 0.0); MAX_GROUP];
    for (i, (out, t)) in out.iter_mut().zip(tones).enumerate() {
        let unit = t.amplitude / t.amplitude.norm();
        let va = normal.variance(&[(3 * i, unit.re), (3 * i + 1, unit.im)]);
        // Of P times |A|², as for a single tone.
        *out = (scale * va, scale * normal.variance(&[(3 * i + 2, 1.0)]) * t.amplitude.norm_sqr());
    }
    Some(out)
}

/// One joint Gauss-Newton step for tones that share bins; all are peeled. Writes the new tones and
/// returns the largest step in bins, or `None` where the normal equations are singular.
fn joint_step(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
    next: &mut [Tone],
) -> Option<f64> {
    let mut normal = Normal::EMPTY;
    if !normal_equations(comb, tones, white, half, &mut normal) || !normal.solve() {
        return None;
    }
    let right = normal.right();
    let mut largest = 0.0f64;
    for (i, (tone, next)) in tones.iter().zip(next).enumerate() {
        let delta = right[3 * i + 2];
        largest = largest.max(delta.abs());
        let a = tone.amplitude + Complex::new(right[3 * i], right[3 * i + 1]);
        let shift = delta.clamp(-0.5, 0.5) / comb.geometry.scale();
        *next = moved(tone, shift, a, comb.mean_time());
        if !next.nu.is_finite() || !next.amplitude.norm().is_finite() {
            return None;
        }
    }
    Some(largest)
}

/// Solves a group of at most [`MAX_GROUP`] peeled tones jointly, in place; the comb's residual
/// follows. `false` where the steps do not settle; the tones are then as they were.
pub(crate) fn fit_group(comb: &mut Comb, tones: &mut [Tone], floor: &Floor, steps: usize) -> bool {
    let size = tones.len();
    let mut start = [Tone::NONE; MAX_GROUP];
    start[..size].copy_from_slice(tones);
    let mut next = start;
    // In noise smaller steps are far below the error.
    let enough = if floor.white { 1e-4 } else { 1e-5 };
    let mut settled = false;
    for _ in 0..steps {
        let half = floor.half();
        let Some(largest) = joint_step(comb, tones, floor.white, half, &mut next[..size]) else {
            break;
        };
        for (old, new) in tones.iter_mut().zip(&next) {
            comb.replace(old, new);
            *old = *new;
        }
        if largest > 5.0 {
            break;
        }
        if largest < enough {
            settled = true;
            break;
        }
    }
    if !settled {
        // A last look: slow convergence near the noise is still convergence.
        settled = joint_step(comb, tones, floor.white, floor.half(), &mut next[..size])
            .is_some_and(|d| d < 1e-2);
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
