//! joint: tones that share bins, solved together.
//!
//! Each tone keeps the filters of its own bins, wᵢ = Q·(g, d)ᵢ, and asks that they see nothing
//! more once all tones of the group are subtracted:
//!
//! wᵢᵀ(yᵢ - Σⱼ cᵢⱼ Aⱼ gⱼ) = 0,  cᵢⱼ = mean over the lanes of conj(pᵢ)·pⱼ
//!
//! with yᵢ the bins around tone i averaged against its phasors pᵢ. Unknowns are (Re A, Im A, P) of
//! each. A weighted fit over all bins of the group would have an error a few per cent smaller, but
//! it sees the side lobes of strong tones far from them, and whitening many bins amplifies those
//! a hundredfold; in a tone's own bins its response is known. The inverse of the matrix is also
//! the covariance, to a few per cent.
//!
//! In noise, tones three bins or more apart need no common equations: taken in turns, each pass
//! leaves at most a sixth of the error.

use super::comb::{Comb, Phasors, Tone, project_with};
use super::linear;
use super::refine::{Floor, HALF_WHITE, dot, moved_wide};
use super::window::MAX_FIT;
use crate::Complex;
use crate::cpu::rows::{Row, dispatch_rows};

/// Most tones of one joint fit.
pub(crate) const MAX_GROUP: usize = 8;
/// Most unknowns of one joint fit.
const UNKNOWNS: usize = 3 * MAX_GROUP;
/// Entries of the matrix of most unknowns, and of that of two tones.
pub(crate) const MOST_ENTRIES: usize = UNKNOWNS * UNKNOWNS;
const TWO_ENTRIES: usize = 36;
/// Tones this near are solved together in noise.
const TOGETHER: f64 = 3.0;

/// Bins on each side of a tone's equations. Without whitening many bins tell crowded tones apart.
fn half_of(floor: &Floor) -> usize {
    if floor.white { HALF_WHITE } else { MAX_FIT / 2 }
}

/// Equations of tones that share bins; unknowns are (Re A, Im A, P) of each tone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normal<const ENTRIES: usize> {
    /// 3 times the number of tones.
    unknowns: usize,
    matrix: [f64; ENTRIES],
    vector: [f64; UNKNOWNS],
}

impl<const ENTRIES: usize> Normal<ENTRIES> {
    pub(crate) const EMPTY: Self =
        Normal { unknowns: 0, matrix: [0.0; ENTRIES], vector: [0.0; UNKNOWNS] };

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
    #[inline(always)] // must inherit the size and the instruction set of its caller
    fn solve(&mut self) -> bool {
        let size = self.unknowns;
        if !linear::factor(self.gram(), size) {
            return false;
        }
        linear::solve(&self.matrix[..size * size], size, &mut self.vector[..size]);
        true
    }

    /// The inverse matrix between one direction, given by its components, and itself; after
    /// [`solve`](Normal::solve).
    fn variance(&self, direction: &[(usize, f64)]) -> f64 {
        let mut v = [0.0; UNKNOWNS];
        direction.iter().for_each(|&(u, c)| v[u] = c);
        let size = self.unknowns;
        linear::solve(&self.matrix[..size * size], size, &mut v[..size]);
        direction.iter().map(|&(u, c)| c * v[u]).sum()
    }
}

/// Tones as the bins around each of them see them, while their phasors stay fixed.
struct Shared<const MOST: usize> {
    half: usize,
    /// Amplitudes, and positions in bins from the first tone's bin.
    amplitudes: [Complex<f64>; MOST],
    places: [f64; MOST],
    /// First bin of each tone, counted like the positions.
    first: [f64; MOST],
    /// The bins of each tone: what is measured less all tones that are peeled.
    re: [[f64; MAX_FIT]; MOST],
    im: [[f64; MAX_FIT]; MOST],
    /// c of every pair.
    lanes: [[Complex<f64>; MOST]; MOST],
}

impl<const MOST: usize> Shared<MOST> {
    /// Projects the bins of peeled tones.
    #[inline(always)] // must inherit the instruction set of its caller
    fn new<const FMA: bool, R: Row>(comb: &Comb, tones: &[Tone], half: usize) -> Self {
        let (bins, count) = (comb.bins() as f64, 2 * half);
        let mut out = Shared {
            half,
            amplitudes: [Complex::ZERO; MOST],
            places: [0.0; MOST],
            first: [0.0; MOST],
            re: [[0.0; MAX_FIT]; MOST],
            im: [[0.0; MAX_FIT]; MOST],
            lanes: [[Complex::ONE; MOST]; MOST],
        };
        let mut phasors = [Phasors::<FMA>::NONE; MOST];
        let origin = comb.geometry.position(tones[0].nu) as usize as f64;
        for (i, tone) in tones.iter().enumerate() {
            let position = comb.geometry.position(tone.nu);
            let mut place = position - origin;
            if place > 0.5 * bins {
                place -= bins;
            } else if place < -0.5 * bins {
                place += bins;
            }
            out.amplitudes[i] = tone.amplitude;
            out.places[i] = place;
            let whole = position as usize as f64;
            out.first[i] = place - (position - whole) + 1.0 - half as f64;
            phasors[i] = Phasors::new(comb, tone.nu);
            let first = (whole as usize + 1 + comb.bins() - half) % comb.bins();
            let to = (&mut out.re[i], &mut out.im[i]);
            project_with::<FMA, R, MAX_FIT>(comb, &phasors[i], first, count, to);
            for j in 0..i {
                let c = phasors[i].along(&phasors[j], comb.offsets.len()) / comb.lanes() as f64;
                (out.lanes[i][j], out.lanes[j][i]) = (c, c.conj());
            }
        }
        out
    }

    /// Response of tone j and its derivative in the bins of tone i.
    #[inline(always)] // must inherit the instruction set of its caller
    fn response<const FMA: bool>(&self, comb: &Comb, i: usize, j: usize) -> [[f64; MAX_FIT]; 2] {
        let [mut g, mut d] = [[0.0; MAX_FIT]; 2];
        comb.window.span::<FMA, MAX_FIT>(self.places[j] - self.first[i], &mut g, &mut d);
        [g, d]
    }

    /// Puts the tones back into the bins.
    #[inline(always)] // must inherit the instruction set of its caller
    fn restore<const FMA: bool>(&mut self, comb: &Comb, size: usize) {
        for i in 0..size {
            for j in 0..size {
                let [g, _] = self.response::<FMA>(comb, i, j);
                let a = self.lanes[i][j] * self.amplitudes[j];
                for (b, g) in g.iter().enumerate() {
                    self.re[i][b] += a.re * g;
                    self.im[i][b] += a.im * g;
                }
            }
        }
    }

    /// The equations of the tones where they are now. With `whole` the bins hold the tones, else
    /// they are peeled. `false` where a tone has left the middle of its bins.
    #[inline(always)] // must inherit the instruction set of its caller
    fn equations<const FMA: bool, const ENTRIES: usize>(
        &self,
        comb: &Comb,
        size: usize,
        white: bool,
        whole: bool,
        out: &mut Normal<ENTRIES>,
    ) -> bool {
        let (half, count, unknowns) = (self.half, 2 * self.half, 3 * size);
        out.unknowns = unknowns;
        for i in 0..size {
            let f = self.places[i] - self.first[i] + 1.0 - half as f64;
            let Some(own) = comb.window.filter::<FMA>(f, half, white) else { return false };
            let ai = self.amplitudes[i];
            let (mut re, mut im) = (self.re[i], self.im[i]);
            for j in 0..size {
                let (aj, c) = (self.amplitudes[j], self.lanes[i][j]);
                let [g, d] = self.response::<FMA>(comb, i, j);
                if whole {
                    let a = c * aj;
                    for b in 0..MAX_FIT {
                        re[b] -= a.re * g[b];
                        im[b] -= a.im * g[b];
                    }
                }
                let [gg, gd, dg, dd] = if i == j {
                    [own.gg, own.gd, own.gd, own.dd]
                } else {
                    [
                        dot::<FMA>(&own.g, &g, count),
                        dot::<FMA>(&own.g, &d, count),
                        dot::<FMA>(&own.d, &g, count),
                        dot::<FMA>(&own.d, &d, count),
                    ]
                };
                let (along, both) = (ai.conj() * c, ai.conj() * c * aj);
                let block = [
                    [c.re * gg, -c.im * gg, (c * aj).re * gd],
                    [c.im * gg, c.re * gg, (c * aj).im * gd],
                    [along.re * dg, -along.im * dg, both.re * dd],
                ];
                for (a, row) in block.iter().enumerate() {
                    let at = (3 * i + a) * unknowns + 3 * j;
                    out.matrix[at..at + 3].copy_from_slice(row);
                }
            }
            let gy = Complex::new(dot::<FMA>(&own.g, &re, count), dot::<FMA>(&own.g, &im, count));
            let dy = Complex::new(dot::<FMA>(&own.d, &re, count), dot::<FMA>(&own.d, &im, count));
            let right = [gy.re, gy.im, (ai.conj() * dy).re];
            out.vector[3 * i..3 * i + 3].copy_from_slice(&right);
        }
        for u in 0..unknowns {
            out.matrix[u * unknowns + u] *= 1.0 + 1e-12;
        }
        true
    }
}

dispatch_rows! {
    /// Equations of peeled tones that share bins. `false` where they cannot be made.
    pub(crate) fn normal_equations(
        comb: &Comb,
        tones: &[Tone],
        white: bool,
        half: usize,
        out: &mut Normal<MOST_ENTRIES>,
    ) -> bool = normal_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn normal_body<const FMA: bool, R: Row>(
    comb: &Comb,
    tones: &[Tone],
    white: bool,
    half: usize,
    out: &mut Normal<MOST_ENTRIES>,
) -> bool {
    let shared = Shared::<MAX_GROUP>::new::<FMA, R>(comb, tones, half);
    shared.equations::<FMA, _>(comb, tones.len(), white, false, out)
}

dispatch_rows! {
    /// The same for two tones, the most frequent group.
    fn equations_of_two(comb: &Comb, tones: &[Tone], floor: &Floor, out: &mut Normal<TWO_ENTRIES>)
        -> bool = equations_of_two_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn equations_of_two_body<const FMA: bool, R: Row>(
    comb: &Comb,
    tones: &[Tone],
    floor: &Floor,
    out: &mut Normal<TWO_ENTRIES>,
) -> bool {
    let shared = Shared::<2>::new::<FMA, R>(comb, tones, half_of(floor));
    shared.equations::<FMA, _>(comb, tones.len(), floor.white, false, out)
}

/// Variances of jointly fitted tones in units of the noise power: as in
/// [`Bend`](super::refine::Bend), but with what the neighbours cost. `None` where the equations
/// are singular.
pub(crate) fn joint_variances(
    comb: &Comb,
    tones: &[Tone],
    floor: &Floor,
) -> Option<[(f64, f64); MAX_GROUP]> {
    if tones.len() == 2 {
        let mut normal = Normal::EMPTY;
        let made = equations_of_two(comb, tones, floor, &mut normal);
        return if made { variances(comb, tones, normal) } else { None };
    }
    let mut normal = Normal::EMPTY;
    let made = normal_equations(comb, tones, floor.white, half_of(floor), &mut normal);
    if made { variances(comb, tones, normal) } else { None }
}

fn variances<const ENTRIES: usize>(
    comb: &Comb,
    tones: &[Tone],
    mut normal: Normal<ENTRIES>,
) -> Option<[(f64, f64); MAX_GROUP]> {
    if !normal.solve() {
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

/// Steps of one joint fit while the phasors stay fixed.
const STEPS: usize = 8;

dispatch_rows! {
    /// Two tones, the most frequent group.
    fn step_two(comb: &Comb, tones: &mut [Tone], floor: &Floor) -> Option<f64> = two_body
}

dispatch_rows! {
    fn step_many(comb: &Comb, tones: &mut [Tone], floor: &Floor) -> Option<f64> = many_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn two_body<const FMA: bool, R: Row>(
    comb: &Comb,
    tones: &mut [Tone],
    floor: &Floor,
) -> Option<f64> {
    step_body::<FMA, R, 2, TWO_ENTRIES>(comb, tones, floor)
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn many_body<const FMA: bool, R: Row>(
    comb: &Comb,
    tones: &mut [Tone],
    floor: &Floor,
) -> Option<f64> {
    step_body::<FMA, R, MAX_GROUP, MOST_ENTRIES>(comb, tones, floor)
}

/// Gauss-Newton steps of peeled tones that share bins, with the phasors that they have now.
/// Returns the largest way in bins, or `None` where the equations are singular; the tones are then
/// anything.
#[inline(always)] // must inherit the instruction set of its caller
fn step_body<const FMA: bool, R: Row, const MOST: usize, const ENTRIES: usize>(
    comb: &Comb,
    tones: &mut [Tone],
    floor: &Floor,
) -> Option<f64> {
    // Known to the compiler for pairs.
    let size = if MOST == 2 { 2 } else { tones.len() };
    let tones = &mut tones[..size];
    let mut shared = Shared::<MOST>::new::<FMA, R>(comb, tones, half_of(floor));
    let start = shared.places;
    shared.restore::<FMA>(comb, size);
    // The next step would be the square of the last.
    let enough = if floor.white { 1e-4 } else { 1e-8 };
    let mut normal = Normal::<ENTRIES>::EMPTY;
    for step in 0..STEPS {
        if !shared.equations::<FMA, _>(comb, size, floor.white, true, &mut normal) {
            // Where a tone has left its bins the phasors are stale, too.
            if step == 0 {
                return None;
            }
            break;
        }
        if !normal.solve() {
            return None;
        }
        let right = normal.right();
        let mut largest = 0.0f64;
        for i in 0..size {
            let delta = right[3 * i + 2].clamp(-0.5, 0.5);
            largest = largest.max(right[3 * i + 2].abs());
            shared.places[i] += delta;
            shared.amplitudes[i] += Complex::new(right[3 * i], right[3 * i + 1]);
        }
        if largest >= 5.0 {
            return None;
        }
        if largest < enough {
            break;
        }
    }
    let mut way = 0.0f64;
    for (i, tone) in tones.iter_mut().enumerate() {
        let shift = shared.places[i] - start[i];
        way = way.max(shift.abs());
        *tone = moved_wide::<FMA>(
            tone,
            shift / comb.geometry.scale(),
            shared.amplitudes[i],
            comb.mean_time(),
        );
        if !tone.nu.is_finite() || !tone.amplitude.norm_sqr().is_finite() {
            return None;
        }
    }
    Some(way)
}

/// Solves a group of at most [`MAX_GROUP`] peeled tones jointly, in place; the comb's residual
/// follows. `false` where the steps do not settle; the tones are then as they were.
pub(crate) fn fit_group(comb: &mut Comb, tones: &mut [Tone], floor: &Floor, rounds: usize) -> bool {
    let size = tones.len();
    let mut start = [Tone::NONE; MAX_GROUP];
    start[..size].copy_from_slice(tones);
    let mut next = start;
    // Phasors change by a part in B of the way: the next round would go that part of it.
    let enough = if floor.white { (1.5e-5 * comb.bins() as f64).min(0.05) } else { 1e-5 };
    let mut last = f64::INFINITY;
    for _ in 0..rounds {
        let next = &mut next[..size];
        let way = match size {
            2 => step_two(comb, next, floor),
            _ => step_many(comb, next, floor),
        };
        let Some(way) = way else {
            last = f64::INFINITY;
            break;
        };
        for (old, new) in tones.iter_mut().zip(&*next) {
            comb.replace(old, new);
            *old = *new;
        }
        last = way;
        if way < enough {
            break;
        }
    }
    // Slow convergence near the noise is still convergence.
    if last < enough.max(1e-2) {
        return true;
    }
    for (tone, old) in tones.iter_mut().zip(start) {
        comb.replace(tone, &old);
        *tone = old;
    }
    false
}

/// Tones in groups that share bins of a comb.
pub(crate) struct Groups {
    /// Where the tones are, around the circle of bins, and which they are.
    order: Vec<(f64, usize)>,
    /// Where each group ends in the order.
    ends: Vec<usize>,
}

impl Groups {
    /// Tones whose positions follow each other within `gap` bins.
    pub(crate) fn new(comb: &Comb, tones: &[Tone], gap: f64) -> Self {
        let mut order: Vec<(f64, usize)> =
            (0..).zip(tones).map(|(i, t)| (comb.geometry.position(t.nu), i)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let count = order.len();
        // Whether a gap lies before a tone; before the first one lies the last.
        let apart = |order: &[(f64, usize)], at: usize| match at {
            0 => order[0].0 + comb.bins() as f64 - order[count - 1].0 > gap,
            _ => {
                let way = order[at].0 - order[at - 1].0;
                (if way < 0.0 { way + comb.bins() as f64 } else { way }) > gap
            }
        };
        // The circle is cut at a gap, so that no group lies at both ends.
        let cut = (0..count).find(|&at| apart(&order, at)).unwrap_or(0);
        order.rotate_left(cut);
        let mut ends: Vec<usize> = Vec::with_capacity(count);
        let mut from = 0;
        for at in 1..count {
            if apart(&order, at) || at - from == MAX_GROUP {
                ends.push(at);
                from = at;
            }
        }
        if count > 0 {
            ends.push(count);
        }
        Groups { order, ends }
    }

    /// Tones that must be solved together where this is the floor.
    pub(crate) fn for_fits(comb: &Comb, tones: &[Tone], floor: &Floor) -> Self {
        Self::new(comb, tones, if floor.white { TOGETHER } else { 1.1 * comb.window.null })
    }

    /// The tones of each group: where they begin in the order, their positions and their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[(f64, usize)])> + '_ {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, &to)| (from, &self.order[from..to]))
    }

    /// Position and index of the tone at this place of the order.
    pub(crate) fn at(&self, at: usize) -> (f64, usize) {
        self.order[at]
    }

    /// Marks the tones within `reach` bins of the one at this place of the order, but not itself.
    pub(crate) fn mark_around(&self, at: usize, reach: f64, comb: &Comb, marks: &mut [bool]) {
        let count = self.order.len();
        let near = |i: usize| comb.geometry.distance(self.order[at].0, self.order[i].0) < reach;
        let after = (1..count).map(|i| (at + i) % count).take_while(|&i| near(i));
        let before = (1..count).map(|i| (at + count - i) % count).take_while(|&i| near(i));
        after.chain(before).for_each(|i| marks[self.order[i].1] = true);
    }
}
