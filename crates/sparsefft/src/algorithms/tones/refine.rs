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
//! Tones that share many bins are solved together ([`joint`](super::joint)).

use super::comb::{Comb, Phasors, Tone, nearest, project_with};
use super::window::{MAX_FIT, MAX_FOOT};
use crate::Complex;
use crate::cpu::math::cis_each;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::F4;

/// Bins on each side of a fit in noise.
pub(crate) const HALF_WHITE: usize = 6;
/// The same where leakage is the limit.
pub(crate) const HALF_PLAIN: usize = 4;

/// Part of a deviation that a fit may leave.
const NEGLIGIBLE: f64 = 0.03;

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

    /// Power of noise per lane where it is the limit, else 0.
    pub(crate) fn noise(&self) -> f64 {
        if self.white { self.s2 } else { 0.0 }
    }
}

/// One fitted tone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    pub(crate) tone: Tone,
    /// What the least squares left over the bins of the fit, as a share of their energy.
    pub(crate) misfit: f64,
}

/// How tones are fitted to their bins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Whether the tones have been subtracted from the bins.
    pub(crate) peeled: bool,
    /// Bins on each side.
    pub(crate) half: usize,
    /// Whether the fit is weighted for noise.
    pub(crate) white: bool,
    /// Power of noise per lane where it is the limit, else 0: nothing finer than a small part of
    /// what it allows is sought.
    pub(crate) noise: f64,
}

impl Manner {
    /// That of new tones, which are still in their bins.
    pub(crate) fn plain(floor: &Floor) -> Self {
        Manner { peeled: false, half: HALF_PLAIN, white: false, noise: floor.noise() }
    }

    /// That of tones which are peeled.
    pub(crate) fn fine(floor: &Floor) -> Self {
        Manner { peeled: true, half: floor.half(), white: floor.white, noise: floor.noise() }
    }
}

dispatch_rows! {
    /// Fits one tone to its bins.
    pub(crate) fn fit_one(comb: &Comb, tone: &Tone, manner: Manner) -> Fit = fit_one_body
}

dispatch_rows! {
    /// Fits four tones, each by itself: their steps do not wait for each other.
    pub(crate) fn fit_four(comb: &Comb, tones: &[Tone; 4], manner: Manner) -> [Fit; 4]
        = fit_four_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn fit_one_body<const FMA: bool, R: Row>(comb: &Comb, tone: &Tone, manner: Manner) -> Fit {
    fit_body::<FMA, R, 1>(comb, &[*tone], manner)[0]
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn fit_four_body<const FMA: bool, R: Row>(
    comb: &Comb,
    tones: &[Tone; 4],
    manner: Manner,
) -> [Fit; 4] {
    fit_body::<FMA, R, 4>(comb, tones, manner)
}

/// Projected bins around a tone, with the tone itself where it is `peeled`, and the fraction of its
/// position.
#[inline(always)] // must inherit the instruction set of its caller
fn gather<const FMA: bool, R: Row>(
    comb: &Comb,
    tone: &Tone,
    peeled: bool,
    half: usize,
) -> ([f64; MAX_FIT], [f64; MAX_FIT], f64) {
    let position = comb.geometry.position(tone.nu);
    let foot = comb.window.foot::<FMA>(position, half);
    let phasors = Phasors::<FMA>::new(comb, tone.nu);
    let (mut re, mut im) = ([0.0; MAX_FIT], [0.0; MAX_FIT]);
    project_with::<FMA, R, MAX_FIT>(comb, &phasors, foot.first, foot.count, (&mut re, &mut im));
    if peeled {
        for i in 0..MAX_FIT {
            re[i] += tone.amplitude.re * foot.gain[i];
            im[i] += tone.amplitude.im * foot.gain[i];
        }
    }
    (re, im, position - (position as usize) as f64)
}

#[inline(always)] // part of vectorised loops
fn load<const FMA: bool>(from: &[f64], at: usize) -> F4<FMA> {
    F4([from[at], from[at + 1], from[at + 2], from[at + 3]])
}

#[inline(always)] // part of vectorised loops
pub(crate) fn dot<const FMA: bool>(a: &[f64], b: &[f64], count: usize) -> f64 {
    let mut sum = F4::<FMA>::ZERO;
    for at in (0..count).step_by(4) {
        sum = load(a, at).mul_add(load(b, at), sum);
    }
    (sum.0[0] + sum.0[1]) + (sum.0[2] + sum.0[3])
}

#[inline(always)] // must inherit the instruction set of its caller
fn fit_body<const FMA: bool, R: Row, const TONES: usize>(
    comb: &Comb,
    tones: &[Tone; TONES],
    manner: Manner,
) -> [Fit; TONES] {
    let Manner { peeled, half, white, noise } = manner;
    let count = 2 * half;
    let noise = noise / comb.lanes() as f64;
    let window = &*comb.window;
    let [mut re, mut im] = [[[0.0; MAX_FIT]; TONES]; 2];
    let mut start = [0.0; TONES];
    let mut a = [Complex::ZERO; TONES];
    for i in 0..TONES {
        (re[i], im[i], start[i]) = gather::<FMA, R>(comb, &tones[i], peeled, half);
        a[i] = tones[i].amplitude;
    }
    // The next step would be the square of the last at most.
    let enough = if white || !peeled { 1e-4 } else { 1e-9 };
    let mut f = start;
    let mut done = [false; TONES];
    for _ in 0..8 {
        let mut all = true;
        for i in 0..TONES {
            if done[i] {
                continue;
            }
            let Some(filter) = window.filter::<FMA>(f[i], half, white) else {
                done[i] = true;
                continue;
            };
            let (gg, gd, dd) = (filter.gg, filter.gd, filter.dd);
            let (re, im) = (&re[i], &im[i]);
            let gy =
                Complex::new(dot::<FMA>(&filter.g, re, count), dot::<FMA>(&filter.g, im, count));
            let dy =
                Complex::new(dot::<FMA>(&filter.d, re, count), dot::<FMA>(&filter.d, im, count));
            a[i] = gy / gg;
            let along = (a[i].conj() * (dy - a[i] * gd)).re;
            let curvature = a[i].norm_sqr() * (dd - gd * gd / gg);
            let delta = if curvature > 0.0 { (along / curvature).clamp(-0.5, 0.5) } else { 0.0 };
            if (f[i] + delta - start[i]).abs() >= 1.5 {
                done[i] = true;
                continue;
            }
            f[i] += delta;
            // A step whose square is a small part of the deviation will do.
            let deviation = (0.5 * noise / curvature).sqrt();
            if delta.abs() < enough || delta * delta < NEGLIGIBLE * deviation {
                // The amplitude follows the last step.
                a[i] -= a[i] * (gd / gg * delta);
                done[i] = true;
            }
            all &= done[i];
        }
        if all {
            break;
        }
    }
    let mut out = [Fit { tone: Tone::NONE, misfit: 0.0 }; TONES];
    for i in 0..TONES {
        if !peeled {
            let whole = f[i].floor();
            let [mut g, mut d] = [[0.0; MAX_FOOT]; 2];
            window.rows::<FMA>(f[i] - whole, half as i64 - 1 + whole as i64, count, &mut g, &mut d);
            out[i].misfit = misfit::<FMA>(&re[i], &im[i], &g, a[i], count);
        }
        let shift = (f[i] - start[i]) / comb.geometry.scale();
        out[i].tone = moved_wide::<FMA>(&tones[i], shift, a[i], comb.mean_time());
    }
    out
}

/// What a response times an amplitude leaves of bins, as a share of their energy.
#[inline(always)] // must inherit the instruction set of its caller
fn misfit<const FMA: bool>(
    re: &[f64; MAX_FIT],
    im: &[f64; MAX_FIT],
    g: &[f64; MAX_FOOT],
    a: Complex<f64>,
    count: usize,
) -> f64 {
    let (c, s) = (F4::<FMA>::splat(a.re), F4::splat(a.im));
    let (mut energy, mut left) = (F4::<FMA>::ZERO, F4::<FMA>::ZERO);
    for at in (0..count).step_by(4) {
        let (x, y, g) = (load(re, at), load(im, at), load(g, at));
        energy = x.mul_add(x, y.mul_add(y, energy));
        let (x, y) = (c.negate_mul_add(g, x), s.negate_mul_add(g, y));
        left = x.mul_add(x, y.mul_add(y, left));
    }
    let energy = energy.sum();
    if energy > 0.0 { left.sum() / energy } else { 0.0 }
}

/// A tone after a step of its frequency and with an amplitude found at the old phases of samples
/// whose mean time is given.
pub(crate) fn moved(tone: &Tone, shift: f64, a: Complex<f64>, mean_time: f64) -> Tone {
    moved_wide::<false>(tone, shift, a, mean_time)
}

/// The same inside a vectorised function.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn moved_wide<const FMA: bool>(
    tone: &Tone,
    shift: f64,
    a: Complex<f64>,
    mean_time: f64,
) -> Tone {
    let nu = tone.nu + shift;
    let turns = -shift * mean_time;
    let (c, s) = cis_each(F4::<FMA>::splat(turns - nearest(turns)));
    Tone { nu: nu - nearest(nu), amplitude: a * Complex::new(c.0[0], s.0[0]), ..*tone }
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

dispatch_rows! {
    /// The bend of a peeled tone, and how well it is known.
    pub(crate) fn bend(comb: &Comb, tone: &Tone, floor: &Floor) -> Bend = bend_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn bend_body<const FMA: bool, R: Row>(comb: &Comb, tone: &Tone, floor: &Floor) -> Bend {
    let half = floor.half();
    let count = 2 * half;
    let window = &*comb.window;
    let (re, im, f) = gather::<FMA, R>(comb, tone, false, half);
    let a = tone.amplitude;
    let lanes = comb.lanes() as f64;
    let power = floor.s2.max(floor.leak2) / lanes;
    if floor.white
        && let Some(filter) = window.matched().bend_at::<FMA>(f)
    {
        let value = Complex::new(
            dot::<FMA>(&filter.bins, &re, count),
            dot::<FMA>(&filter.bins, &im, count),
        );
        return Bend {
            value: value / a,
            std: (power * filter.variance).sqrt() / a.norm(),
            amplitude: 0.5 / (filter.gg * lanes),
            position: 0.5 / (filter.dd * lanes),
        };
    }
    let [mut g, mut d, mut w] = [[0.0; MAX_FOOT]; 3];
    window.rows::<FMA>(f, half as i64 - 1, count, &mut g, &mut d);
    window.bends::<FMA>(f, half, &mut w);
    let (gg, gd, dd) =
        (dot::<FMA>(&g, &g, count), dot::<FMA>(&d, &g, count), dot::<FMA>(&d, &d, count));
    let (wg, wd, ww) =
        (dot::<FMA>(&w, &g, count), dot::<FMA>(&w, &d, count), dot::<FMA>(&w, &w, count));
    // Less what amplitude and frequency explain.
    let det = gg * dd - gd * gd;
    let (along_g, along_d) = ((wg * dd - wd * gd) / det, (wd * gg - wg * gd) / det);
    let ww = ww - along_g * wg - along_d * wd;
    for i in 0..count {
        w[i] = (w[i] - along_g * g[i] - along_d * d[i]) / ww;
    }
    Bend {
        value: Complex::new(dot::<FMA>(&w, &re, count), dot::<FMA>(&w, &im, count)) / a,
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

dispatch_rows! {
    /// What a comb says about a tone that is peeled from it: what is left of its amplitude by the four
    /// bins in the middle and, in noise, one step from where it is.
    pub(crate) fn second(comb: &Comb, tone: &Tone, floor: &Floor) -> (Complex<f64>, Option<Second>)
        = second_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn second_body<const FMA: bool, R: Row>(
    comb: &Comb,
    tone: &Tone,
    floor: &Floor,
) -> (Complex<f64>, Option<Second>) {
    const COUNT: usize = 2 * HALF_WHITE;
    // The four in the middle.
    const AT: usize = HALF_WHITE - 2;
    let (re, im, f) = gather::<FMA, R>(comb, tone, false, HALF_WHITE);
    let foot = comb.window.foot::<FMA>(comb.geometry.position(tone.nu), 2);
    let gain = dot::<FMA>(&foot.gain, &foot.gain, 4);
    let left = Complex::new(
        dot::<FMA>(&foot.gain, &re[AT..], 4) / gain,
        dot::<FMA>(&foot.gain, &im[AT..], 4) / gain,
    );
    if !floor.white {
        return (left, None);
    }
    let Some(filter) = comb.window.matched().at::<FMA>(f) else { return (left, None) };
    let (on_g, on_d) = (
        Complex::new(dot::<FMA>(&filter.g, &re, COUNT), dot::<FMA>(&filter.g, &im, COUNT)),
        Complex::new(dot::<FMA>(&filter.d, &re, COUNT), dot::<FMA>(&filter.d, &im, COUNT)),
    );
    let amplitude = on_g / filter.gg;
    let a = tone.amplitude;
    let curvature = filter.dd - filter.gd * filter.gd / filter.gg;
    let delta = (a.conj() * (on_d - amplitude * filter.gd)).re / (a.norm_sqr() * curvature);
    let noise = 0.5 * floor.s2 / comb.lanes() as f64;
    let scale = comb.geometry.scale();
    let step = Second {
        shift: delta / scale,
        shift_variance: noise / (a.norm_sqr() * curvature * scale * scale),
        amplitude,
        amplitude_variance: noise / filter.gg,
    };
    (left, Some(step))
}
