//! window: the Kaiser window over the lines of a comb, its response between the bins, and how it
//! colours the noise.
//!
//! Taps g_r = c·I0(β√(1-((r-B/2)/H)²)), H = (B-1)/2, g_0 = 0, c = β/(2H sinh β). A tone P - b bins
//! away is seen with the real gain
//!
//! Ĝ(x) = (β/sinh β)·sinh(√A)/√A,  A = β² - (πx(B-1)/B)²,
//!
//! first null at h = √(β²+π²)/π·B/(B-1) bins, below [`Window::leak`] beyond. White noise of power σ² per
//! sample gives every bin the power σ²Σg², with the correlation
//! R(d) = Σ g²cos(2π(r-B/2)d/B)/Σg² between bins d apart; [`Window::whitener`] is its inverse.
//!
//! The response between the bins comes from a table: polynomials of degree 5 in each 32nd of a bin,
//! one for every bin around a tone, so that all bins of a footprint take ten instructions each.
//! [`Matched`] is the same for the whitened response Q·g, the filter of the fits in noise.

use super::refine::HALF_WHITE;
use crate::cpu::dispatch;
use crate::cpu::math::cis_turns;
use crate::cpu::wide::F4;
use crate::stages::window::BesselI0;
use std::f64::consts::PI;
use std::sync::OnceLock;

/// Shapes in use, from wide-open to tight.
pub(crate) const BETAS: [f64; 5] = [14.0, 16.0, 18.0, 21.0, 24.0];

/// Most bins that one tone's footprint holds.
pub(crate) const MAX_FOOT: usize = 24;
/// Bins on each side of a tone in the table.
const REACH: usize = MAX_FOOT / 2;
/// Cells of the table in one bin.
const CELLS: usize = 32;
/// Coefficients of the polynomial of a cell.
const TERMS: usize = 6;
/// Most bins that one joint fit spans.
pub(crate) const MAX_SPAN: usize = 64;

/// The window of one comb.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) beta: f64,
    pub(crate) bins: usize,
    /// g_r for r = 0 … B-1.
    pub(crate) taps: Vec<f64>,
    /// Power series of the response in A, highest term first, cut at a hundredth of the leak.
    series: Vec<f64>,
    /// (π(B-1)/B)².
    slope: f64,
    /// First null of the response, in bins.
    pub(crate) null: f64,
    /// Largest response beyond the main lobe.
    pub(crate) leak: f64,
    /// Σ g²: noise power in a bin over that in a sample.
    pub(crate) noise: f64,
    /// Bins on each side of a tone that are peeled.
    pub(crate) half: usize,
    correlation: Vec<f64>,
    whiteners: Vec<OnceLock<Vec<f64>>>,
    table: Vec<Cell<MAX_FOOT>>,
    matched: OnceLock<Matched>,
}

/// Polynomials of one cell in u, -1 … 1 over the cell, lowest power first.
type Cell<const COLUMNS: usize> = [[f64; COLUMNS]; TERMS];

/// Most bins of one tone's equations.
pub(crate) const MAX_FIT: usize = 16;

/// Whitened responses of the bins of a fit in noise, [`HALF_WHITE`] on each side.
#[derive(Debug)]
pub(crate) struct Matched {
    /// Cells for positions from half a bin before to half a bin after the middle two bins. The
    /// bins of Q·g; gᵀQg, dᵀQd and the variance of a bend; the bins of the bend's filter.
    cells: Vec<Cell<COLUMNS>>,
}

/// Bins of a fit in noise.
const WHITE: usize = 2 * HALF_WHITE;
/// Columns of [`Matched`].
const COLUMNS: usize = 2 * WHITE + 4;

/// What the equations of one tone are made with, at one position.
pub(crate) struct Filter {
    /// Q·g and Q·d, d the derivative of g.
    pub(crate) g: [f64; MAX_FIT],
    pub(crate) d: [f64; MAX_FIT],
    pub(crate) gg: f64,
    pub(crate) gd: f64,
    pub(crate) dd: f64,
}

/// What finds a bend in noise: the part of -Ĝ''/4π that neither amplitude nor frequency explain.
pub(crate) struct BendFilter {
    /// The bend is the sum of the bins times these.
    pub(crate) bins: [f64; WHITE],
    /// Its variance in units of the noise power.
    pub(crate) variance: f64,
    pub(crate) gg: f64,
    /// dᵀQd less its part along g.
    pub(crate) dd: f64,
}

/// Sum of the products.
fn product(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(u, v)| u * v).sum()
}

dispatch! {
    /// The cells of [`Matched`].
    fn matched_cells(window: &Window, cells: &mut Vec<Cell<COLUMNS>>) = matched_cells_body
}

#[inline(always)] // the body that `dispatch!` compiles twice
fn matched_cells_body<const FMA: bool>(window: &Window, cells: &mut Vec<Cell<COLUMNS>>) {
    let q = window.whitener(WHITE);
    let (nodes, basis) = interpolation();
    for c in 0..2 * CELLS {
        // Values at the nodes of the cell.
        let mut values = [[0.0; COLUMNS]; TERMS];
        for (values, u) in values.iter_mut().zip(nodes) {
            let f = (c as f64 + 0.5 + 0.5 * u) / CELLS as f64 - 0.5;
            let [mut g, mut d, mut w] = [[0.0; WHITE]; 3];
            for at in (0..WHITE).step_by(4) {
                let x = F4::<FMA>::splat(f + (HALF_WHITE - 1) as f64 - at as f64) - F4::COUNT;
                let [value, slope, bend] = window.bent_response(x);
                g[at..at + 4].copy_from_slice(&value.0);
                d[at..at + 4].copy_from_slice(&slope.0);
                w[at..at + 4].copy_from_slice(&(bend * F4::splat(-0.25 / PI)).0);
            }
            let (qg, qd) = (whitened::<FMA>(q, &g), whitened::<FMA>(q, &d));
            let qw = whitened::<FMA>(q, &w);
            let (gg, gd, dd) = (product(&g, &qg), product(&g, &qd), product(&d, &qd));
            let (wg, wd) = (product(&w, &qg), product(&w, &qd));
            let det = gg * dd - gd * gd;
            let (along_g, along_d) = ((wg * dd - wd * gd) / det, (wd * gg - wg * gd) / det);
            let ww = product(&w, &qw) - along_g * wg - along_d * wd;
            values[..WHITE].copy_from_slice(&qg);
            values[WHITE..WHITE + 3].copy_from_slice(&[gg, dd, 1.0 / ww]);
            for i in 0..WHITE {
                values[WHITE + 4 + i] = (qw[i] - along_g * qg[i] - along_d * qd[i]) / ww;
            }
        }
        cells.push(polynomials::<FMA, COLUMNS>(&basis, &values));
    }
}

/// Q·v; Q is symmetric.
#[inline(always)] // must inherit the instruction set of its caller
fn whitened<const FMA: bool>(q: &[f64], v: &[f64; WHITE]) -> [f64; WHITE] {
    let mut sums = [F4::<FMA>::ZERO; WHITE / 4];
    for (row, v) in q.as_chunks::<WHITE>().0.iter().zip(v) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = load::<FMA, WHITE>(row, 4 * i).mul_add(F4::splat(*v), *sum);
        }
    }
    let mut out = [0.0; WHITE];
    for (i, sum) in sums.iter().enumerate() {
        out[4 * i..4 * i + 4].copy_from_slice(&sum.0);
    }
    out
}

impl Matched {
    fn new(window: &Window) -> Self {
        let mut cells = Vec::with_capacity(2 * CELLS);
        matched_cells(window, &mut cells);
        Matched { cells }
    }

    /// The cell of a tone f bins after the last bin of the lower half, and the place in it; `None`
    /// outside the table.
    #[inline(always)] // an address
    fn cell(&self, f: f64) -> Option<(&Cell<COLUMNS>, f64)> {
        let place = (f + 0.5) * CELLS as f64;
        if !(0.0..(2 * CELLS) as f64).contains(&place) {
            return None;
        }
        let whole = place as usize;
        Some((&self.cells[whole], 2.0 * (place - whole as f64) - 1.0))
    }

    /// The filter for a tone f bins after the last bin of the lower half; `None` outside the table.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn at<const FMA: bool>(&self, f: f64) -> Option<Filter> {
        let (cell, u) = self.cell(f)?;
        let u = F4::<FMA>::splat(u);
        let scale = F4::splat(2.0 * CELLS as f64);
        let mut out = Filter { g: [0.0; MAX_FIT], d: [0.0; MAX_FIT], gg: 0.0, gd: 0.0, dd: 0.0 };
        for at in (0..WHITE).step_by(4) {
            let (value, slope) = horner::<FMA, COLUMNS>(cell, at, u);
            out.g[at..at + 4].copy_from_slice(&value.0);
            out.d[at..at + 4].copy_from_slice(&(slope * scale).0);
        }
        let (value, slope) = horner::<FMA, COLUMNS>(cell, WHITE, u);
        // Q is symmetric: the derivative of gᵀQg is twice gᵀQd.
        (out.gg, out.dd, out.gd) = (value.0[0], value.0[1], 0.5 * (slope * scale).0[0]);
        Some(out)
    }

    /// What finds the bend of such a tone.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn bend_at<const FMA: bool>(&self, f: f64) -> Option<BendFilter> {
        let (cell, u) = self.cell(f)?;
        let u = F4::<FMA>::splat(u);
        let (value, slope) = horner::<FMA, COLUMNS>(cell, WHITE, u);
        let (gg, gd) = (value.0[0], CELLS as f64 * slope.0[0]);
        let mut out = BendFilter {
            bins: [0.0; WHITE],
            variance: value.0[2],
            gg,
            dd: value.0[1] - gd * gd / gg,
        };
        for at in (0..WHITE).step_by(4) {
            let (value, _) = horner::<FMA, COLUMNS>(cell, WHITE + 4 + at, u);
            out.bins[at..at + 4].copy_from_slice(&value.0);
        }
        Some(out)
    }
}

/// Value and derivative (by u) of four columns of a cell.
#[inline(always)] // part of vectorised loops
fn horner<const FMA: bool, const COLUMNS: usize>(
    cell: &Cell<COLUMNS>,
    at: usize,
    u: F4<FMA>,
) -> (F4<FMA>, F4<FMA>) {
    let mut p = load::<FMA, COLUMNS>(&cell[TERMS - 1], at);
    let mut d = F4::ZERO;
    for k in (0..TERMS - 1).rev() {
        d = d.mul_add(u, p);
        p = p.mul_add(u, load::<FMA, COLUMNS>(&cell[k], at));
    }
    (p, d)
}

#[inline(always)] // one load
fn load<const FMA: bool, const COLUMNS: usize>(from: &[f64; COLUMNS], at: usize) -> F4<FMA> {
    F4([from[at], from[at + 1], from[at + 2], from[at + 3]])
}

/// Chebyshev nodes and, for each, the coefficients of the polynomial that is 1 there and 0 at the
/// others.
fn interpolation() -> ([f64; TERMS], [[f64; TERMS]; TERMS]) {
    let mut nodes = [0.0; TERMS];
    for (m, u) in nodes.iter_mut().enumerate() {
        *u = (PI * (m as f64 + 0.5) / TERMS as f64).cos();
    }
    let mut basis = [[0.0; TERMS]; TERMS];
    for (m, b) in basis.iter_mut().enumerate() {
        b[0] = 1.0;
        for (_, &u) in nodes.iter().enumerate().filter(|(j, _)| *j != m) {
            // Times (x - u)/(u_m - u).
            let scale = 1.0 / (nodes[m] - u);
            for k in (0..TERMS).rev() {
                let below = if k > 0 { b[k - 1] } else { 0.0 };
                b[k] = (below - u * b[k]) * scale;
            }
        }
    }
    (nodes, basis)
}

/// The polynomials through values at the nodes; the number of columns is a multiple of 4.
#[inline(always)] // must inherit the instruction set of its caller
fn polynomials<const FMA: bool, const COLUMNS: usize>(
    basis: &[[f64; TERMS]; TERMS],
    values: &Cell<COLUMNS>,
) -> Cell<COLUMNS> {
    let mut out = [[0.0; COLUMNS]; TERMS];
    for at in (0..COLUMNS).step_by(4) {
        let mut sums = [F4::<FMA>::ZERO; TERMS];
        for (values, basis) in values.iter().zip(basis) {
            let v = load::<FMA, COLUMNS>(values, at);
            for (sum, b) in sums.iter_mut().zip(basis) {
                *sum = v.mul_add(F4::splat(*b), *sum);
            }
        }
        for (out, sum) in out.iter_mut().zip(&sums) {
            out[at..at + 4].copy_from_slice(&sum.0);
        }
    }
    out
}

dispatch! {
    /// The table of [`Window`].
    fn response_cells(window: &Window, cells: &mut Vec<Cell<MAX_FOOT>>) = response_cells_body
}

#[inline(always)] // the body that `dispatch!` compiles twice
fn response_cells_body<const FMA: bool>(window: &Window, cells: &mut Vec<Cell<MAX_FOOT>>) {
    const FOURS: usize = MAX_FOOT / 4;
    let (nodes, basis) = interpolation();
    let half = window.half;
    for c in 0..CELLS {
        let mut values = [[0.0; MAX_FOOT]; TERMS];
        for (values, u) in values.iter_mut().zip(nodes) {
            let f = (c as f64 + 0.5 + 0.5 * u) / CELLS as f64;
            // Beyond the bins that are peeled a tone is not modelled. Side by side the chains hide
            // each other's latency.
            let (mut a, mut sums) = ([F4::<FMA>::ZERO; FOURS], [F4::<FMA>::ZERO; FOURS]);
            for (i, a) in a.iter_mut().enumerate() {
                let x = F4::splat(f + (REACH - 1) as f64 - (4 * i) as f64) - F4::COUNT;
                *a = window.argument(x);
            }
            for &c in &window.series {
                for (sum, a) in sums.iter_mut().zip(&a) {
                    *sum = sum.mul_add(*a, F4::splat(c));
                }
            }
            for at in (REACH - half..REACH + half).step_by(4) {
                let (i, shift) = (at / 4, at % 4);
                for k in 0..4 {
                    let from = i + (shift + k) / 4;
                    values[at + k] = sums[from].0[(shift + k) % 4];
                }
            }
        }
        cells.push(polynomials::<FMA, MAX_FOOT>(&basis, &values));
    }
}

/// The bins around a tone and how they see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foot {
    /// First bin, 0 … B-1; the footprint wraps at B.
    pub(crate) first: usize,
    /// Number of bins.
    pub(crate) count: usize,
    /// Ĝ(P - b).
    pub(crate) gain: [f64; MAX_FOOT],
}

impl Window {
    /// The window of shape β for B bins; B is even and at least 16.
    pub(crate) fn new(beta: f64, bins: usize) -> Self {
        let half_length = (bins - 1) as f64 / 2.0;
        let centre = (bins / 2) as f64;
        let scale = beta / (2.0 * half_length * beta.sinh());
        let bessel = BesselI0::new(beta);
        // Taps on both sides of the centre are equal; the first one is outside.
        let mut taps: Vec<f64> = (0..=bins / 2)
            .map(|r| (1.0 - ((r as f64 - centre) / half_length).powi(2)).max(0.0))
            .collect();
        bessel.each(&mut taps, scale);
        taps[0] = 0.0;
        taps.extend((bins / 2 + 1..bins).map(|r| bins - r).map(|r| taps[r]).collect::<Vec<_>>());
        let leak = leak(beta);
        let top = beta.sinh() / beta;
        // A = -π².
        let null = (beta * beta + PI * PI).sqrt() / PI * bins as f64 / (bins - 1) as f64;
        // Side lobes that are not peeled bias tones in whose bins they lie: two bins of them are.
        let half = ((null + 2.0).ceil() as usize).next_multiple_of(2).min(MAX_FOOT / 2);
        // |A| is largest in the middle or in the last bin that is peeled.
        let most = (beta * beta).max((PI * half as f64).powi(2) - beta * beta);
        let mut series = vec![1.0 / top];
        let mut term = 1.0;
        for k in 1.. {
            let k = k as f64;
            term *= most / ((2.0 * k) * (2.0 * k + 1.0));
            if term < 1e-3 * leak * top && 2.0 * k > most.sqrt() {
                break;
            }
            series.push(series[series.len() - 1] / ((2.0 * k) * (2.0 * k + 1.0)));
        }
        series.reverse();
        let noise: f64 = taps.iter().map(|g| g * g).sum();
        let correlation = correlation(&bessel, half_length / bins as f64);
        let mut window = Window {
            beta,
            bins,
            taps,
            series,
            slope: (PI * (bins - 1) as f64 / bins as f64).powi(2),
            null,
            leak,
            noise,
            half,
            correlation,
            whiteners: (0..=MAX_SPAN).map(|_| OnceLock::new()).collect(),
            table: Vec::new(),
            matched: OnceLock::new(),
        };
        let mut table = Vec::with_capacity(CELLS);
        response_cells(&window, &mut table);
        window.table = table;
        window
    }

    /// The whitened responses.
    pub(crate) fn matched(&self) -> &Matched {
        self.matched.get_or_init(|| Matched::new(self))
    }

    /// The filter for a tone f bins after the last bin of the lower half of a fit with this many
    /// bins on each side; `None` where the tone is not among the middle bins.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn filter<const FMA: bool>(
        &self,
        f: f64,
        half: usize,
        white: bool,
    ) -> Option<Filter> {
        if white && half == HALF_WHITE {
            return self.matched().at::<FMA>(f);
        }
        if !(-1.5..2.5).contains(&f) {
            return None;
        }
        let count = 2 * half;
        let [mut g, mut d] = [[0.0; MAX_FOOT]; 2];
        let whole = f.floor();
        self.rows::<FMA>(f - whole, half as i64 - 1 + whole as i64, count, &mut g, &mut d);
        let mut out = Filter { g: [0.0; MAX_FIT], d: [0.0; MAX_FIT], gg: 0.0, gd: 0.0, dd: 0.0 };
        if white {
            let q = self.whitener(count);
            for i in 0..count {
                let (u, v) = (F4::<FMA>::splat(g[i]), F4::splat(d[i]));
                for at in (0..count).step_by(4) {
                    let from = i * count + at;
                    let q = F4([q[from], q[from + 1], q[from + 2], q[from + 3]]);
                    let sum = q.mul_add(u, load(&out.g, at));
                    out.g[at..at + 4].copy_from_slice(&sum.0);
                    let sum = q.mul_add(v, load(&out.d, at));
                    out.d[at..at + 4].copy_from_slice(&sum.0);
                }
            }
        } else {
            out.g[..count].copy_from_slice(&g[..count]);
            out.d[..count].copy_from_slice(&d[..count]);
        }
        for i in 0..count {
            out.gg += g[i] * out.g[i];
            out.gd += g[i] * out.d[i];
            out.dd += d[i] * out.d[i];
        }
        Some(out)
    }

    /// Ĝ and its derivative at P - b for `count` bins, a multiple of 4, the first of which is
    /// `before` bins before the one at or below P; `before` may lie a few bins off the middle.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn rows<const FMA: bool>(
        &self,
        fraction: f64,
        before: i64,
        count: usize,
        gain: &mut [f64; MAX_FOOT],
        slope: &mut [f64; MAX_FOOT],
    ) {
        let start = (REACH as i64 - 1 - before) as usize;
        let (cell, u) = self.cell(fraction);
        let u = F4::<FMA>::splat(u);
        let scale = F4::splat(2.0 * CELLS as f64);
        for at in (0..count).step_by(4) {
            let (value, d) = horner::<FMA, MAX_FOOT>(cell, start + at, u);
            gain[at..at + 4].copy_from_slice(&value.0);
            slope[at..at + 4].copy_from_slice(&(d * scale).0);
        }
    }

    /// Ĝ and its derivative at P - b for b = 0, 1, …, P being any place among or near them; 0 beyond
    /// the bins that are peeled. The number of bins is a multiple of 4.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn span<const FMA: bool, const BINS: usize>(
        &self,
        p: f64,
        gain: &mut [f64; BINS],
        slope: &mut [f64; BINS],
    ) {
        let whole = p.floor();
        let (cell, u) = self.cell(p - whole);
        let u = F4::<FMA>::splat(u);
        let scale = F4::splat(2.0 * CELLS as f64);
        // Column of the table for bin 0.
        let start = REACH as i64 - 1 - whole as i64;
        for at in (0..BINS).step_by(4) {
            let column = start + at as i64;
            let (mut value, mut d) = (F4::ZERO, F4::ZERO);
            if (0..=MAX_FOOT as i64 - 4).contains(&column) {
                (value, d) = horner::<FMA, MAX_FOOT>(cell, column as usize, u);
            } else if (-3..MAX_FOOT as i64).contains(&column) {
                // A part of the four lies in the table.
                let inside = column.clamp(0, MAX_FOOT as i64 - 4);
                let (v, w) = horner::<FMA, MAX_FOOT>(cell, inside as usize, u);
                for k in 0..4 {
                    let from = column + k - inside;
                    if (0..4).contains(&from) {
                        value.0[k as usize] = v.0[from as usize];
                        d.0[k as usize] = w.0[from as usize];
                    }
                }
            }
            gain[at..at + 4].copy_from_slice(&value.0);
            slope[at..at + 4].copy_from_slice(&(d * scale).0);
        }
    }

    /// -Ĝ''/4π at P - b for the bins of a fit with this many on each side.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn bends<const FMA: bool>(
        &self,
        fraction: f64,
        half: usize,
        out: &mut [f64; MAX_FOOT],
    ) {
        let (cell, u) = self.cell(fraction);
        let u = F4::<FMA>::splat(u);
        let scale = F4::splat(-(2.0 * CELLS as f64).powi(2) / (4.0 * PI));
        for at in (0..2 * half).step_by(4) {
            let mut p = F4::ZERO;
            for k in (2..TERMS).rev() {
                let c = load::<FMA, MAX_FOOT>(&cell[k], REACH - half + at);
                p = p.mul_add(u, c * F4::splat((k * (k - 1)) as f64));
            }
            out[at..at + 4].copy_from_slice(&(p * scale).0);
        }
    }

    /// The cell of a fraction of a bin and the place in it.
    #[inline(always)] // an address
    fn cell(&self, fraction: f64) -> (&Cell<MAX_FOOT>, f64) {
        let place = fraction * CELLS as f64;
        let c = (place as usize).min(CELLS - 1);
        (&self.table[c], 2.0 * (place - c as f64) - 1.0)
    }

    /// A of the response at four distances.
    #[inline(always)] // two instructions
    fn argument<const FMA: bool>(&self, x: F4<FMA>) -> F4<FMA> {
        (x * x).mul_add(F4::splat(-self.slope), F4::splat(self.beta * self.beta))
    }

    /// Ĝ and its first two derivatives at four distances.
    #[inline(always)] // part of vectorised loops
    fn bent_response<const FMA: bool>(&self, x: F4<FMA>) -> [F4<FMA>; 3] {
        let a = self.argument(x);
        let (mut p, mut d, mut half_b) = (F4::ZERO, F4::ZERO, F4::ZERO);
        for &c in &self.series {
            half_b = half_b.mul_add(a, d);
            d = d.mul_add(a, p);
            p = p.mul_add(a, F4::splat(c));
        }
        // dA/dx = -2·slope·x.
        let slope = x * F4::splat(-2.0 * self.slope);
        let twice = half_b * F4::splat(2.0);
        [p, d * slope, (twice * slope).mul_add(slope, d * F4::splat(-2.0 * self.slope))]
    }

    /// Ĝ and its derivative at four distances.
    #[inline(always)] // part of vectorised loops
    pub(crate) fn response<const FMA: bool>(&self, x: F4<FMA>) -> (F4<FMA>, F4<FMA>) {
        let a = self.argument(x);
        let (mut p, mut d) = (F4::splat(0.0), F4::splat(0.0));
        for &c in &self.series {
            d = d.mul_add(a, p);
            p = p.mul_add(a, F4::splat(c));
        }
        (p, d * x * F4::splat(-2.0 * self.slope))
    }

    /// Second derivative of the response at one distance.
    #[cfg(test)]
    pub(crate) fn curvature(&self, x: f64) -> f64 {
        let [_, _, bend] = self.bent_response::<false>(F4::splat(x));
        bend.0[0]
    }

    /// Ĝ(x) from the table, 0 beyond the bins that are peeled.
    pub(crate) fn gain(&self, x: f64) -> f64 {
        let whole = x.floor();
        let column = REACH as f64 - 1.0 - whole;
        if !(0.0..MAX_FOOT as f64).contains(&column) {
            return 0.0;
        }
        let (cell, u) = self.cell(x - whole);
        cell.iter().rev().fold(0.0, |p, c| p * u + c[column as usize])
    }

    /// The footprint of a tone at position P with this many bins, an even number, on each side.
    #[inline(always)] // must inherit the instruction set of its caller
    pub(crate) fn foot<const FMA: bool>(&self, position: f64, half: usize) -> Foot {
        let whole = position as usize;
        let first = whole + 1 + self.bins - half;
        let mut foot = Foot {
            first: if first >= self.bins { first - self.bins } else { first },
            count: 2 * half,
            gain: [0.0; MAX_FOOT],
        };
        let (cell, u) = self.cell(position - whole as f64);
        let u = F4::<FMA>::splat(u);
        for at in (0..2 * half).step_by(4) {
            let from = REACH - half + at;
            let mut p = load::<FMA, MAX_FOOT>(&cell[TERMS - 1], from);
            for k in (0..TERMS - 1).rev() {
                p = p.mul_add(u, load::<FMA, MAX_FOOT>(&cell[k], from));
            }
            foot.gain[at..at + 4].copy_from_slice(&p.0);
        }
        foot
    }

    /// The inverse of the correlation of this many neighbouring bins, row by row.
    pub(crate) fn whitener(&self, size: usize) -> &[f64] {
        self.whiteners[size].get_or_init(|| {
            let mut r = vec![0.0; size * size];
            for i in 0..size {
                for j in 0..size {
                    r[i * size + j] = self.correlation[i.abs_diff(j)];
                }
                // The correlation is singular to rounding for many bins of a tight window.
                r[i * size + i] += 1e-7;
            }
            super::linear::inverse(&mut r, size)
        })
    }
}

/// Largest response beyond the main lobe of shape β.
pub(crate) fn leak(beta: f64) -> f64 {
    0.22 * beta / beta.sinh()
}

/// R(d) for d = 0 … [`MAX_SPAN`]: a smooth integral, for which 256 points suffice whatever B is.
/// `reach` is H/B.
fn correlation(bessel: &BesselI0, reach: f64) -> Vec<f64> {
    /// Points on one side; the window is symmetric.
    const NODES: usize = 128;
    let x: [f64; NODES] = std::array::from_fn(|i| (2 * i + 1) as f64 / (2 * NODES) as f64);
    let mut weights = x.map(|x| 1.0 - x * x);
    bessel.each(&mut weights, 1.0);
    weights = weights.map(|g| g * g);
    let total: f64 = weights.iter().sum();
    // e^{2πi·reach·x·d}, turned on from d to d; the error of 64 steps is 64 roundings.
    let mut re = weights.map(|g| g / total);
    let mut im = [0.0; NODES];
    let turns = x.map(|x| cis_turns(reach * x));
    let mut out = Vec::with_capacity(MAX_SPAN);
    for _ in 0..MAX_SPAN {
        out.push(re.iter().sum());
        for ((re, im), (c, s)) in re.iter_mut().zip(&mut im).zip(turns) {
            (*re, *im) = (*re * c - *im * s, *re * s + *im * c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_and_derivative_are_those_of_the_taps() {
        for beta in BETAS {
            for bins in [64usize, 250, 1024] {
                let w = Window::new(beta, bins);
                let dtft = |x: f64| -> f64 {
                    let c = (bins / 2) as f64;
                    let angle = 2.0 * PI * x / bins as f64;
                    w.taps.iter().enumerate().map(|(r, g)| g * (angle * (r as f64 - c)).cos()).sum()
                };
                for i in 0..40 {
                    let x = (w.null + 1.0) * i as f64 / 40.0;
                    let (g, d) = w.response::<false>(F4::splat(x));
                    assert!((g.0[0] - dtft(x)).abs() < 0.6 * w.leak + 1e-13, "{beta} {bins} {x}");
                    let slope = (dtft(x + 1e-4) - dtft(x - 1e-4)) / 2e-4;
                    assert!((d.0[0] - slope).abs() < 4.0 * w.leak + 1e-9, "{beta} {bins} {x}");
                }
                let far = (0..60).map(|i| w.null + i as f64 * 0.4);
                let worst = far.map(|x| dtft(x).abs()).fold(0.0, f64::max);
                assert!(worst < 1.4 * w.leak + 1e-14, "{beta} {bins}: {worst} {}", w.leak);
            }
        }
    }

    #[test]
    fn tables_are_the_response() {
        for beta in BETAS {
            let w = Window::new(beta, 256);
            let mut worst = [0.0f64; 4];
            for i in 0..333 {
                let f = i as f64 / 333.0;
                // Beyond the bins that are peeled the series does not hold.
                let foot = w.foot::<false>(7.0 + f, w.half);
                assert_eq!(foot.first, (256 + 8 - w.half) % 256);
                for b in 0..foot.count {
                    let x = f + (w.half - 1) as f64 - b as f64;
                    assert!((w.gain(x) - foot.gain[b]).abs() < 1e-14, "{beta} {x}");
                }
                let (mut g, mut d) = ([0.0; MAX_FOOT], [0.0; MAX_FOOT]);
                w.rows::<false>(f, 3, 8, &mut g, &mut d);
                for b in 12 - w.half..12 + w.half {
                    let (value, slope) = w.response::<false>(F4::splat(f + 11.0 - b as f64));
                    let gain = foot.gain[b + w.half - 12];
                    worst[0] = worst[0].max((gain - value.0[0]).abs());
                    if (8..16).contains(&b) {
                        worst[1] = worst[1].max((g[b - 8] - value.0[0]).abs());
                        worst[2] = worst[2].max((d[b - 8] - slope.0[0]).abs());
                    }
                }
                // The whitened response, from its definition.
                let f = 2.0 * f - 0.5;
                let filter = w.matched().at::<false>(f).unwrap();
                let q = w.whitener(12);
                for i in 0..12 {
                    let x = |j: usize| F4::splat(f + 5.0 - j as f64);
                    let sum: f64 =
                        (0..12).map(|j| q[12 * i + j] * w.response::<false>(x(j)).0.0[0]).sum();
                    worst[3] = worst[3].max((filter.g[i] - sum).abs() / filter.gg);
                }
            }
            assert!(worst[0] < 1e-12 && worst[1] < 1e-12 && worst[2] < 1e-9, "{beta} {worst:?}");
            assert!(worst[3] < 1e-8, "{beta} {worst:?}");
        }
    }

    #[test]
    fn whitener_inverts_the_correlation() {
        let w = Window::new(14.0, 256);
        let size = 12;
        let q = w.whitener(size);
        for i in 0..size {
            for j in 0..size {
                let dot: f64 = (0..size)
                    .map(|m| {
                        q[i * size + m]
                            * (w.correlation[m.abs_diff(j)] + if m == j { 1e-7 } else { 0.0 })
                    })
                    .sum();
                assert!((dot - if i == j { 1.0 } else { 0.0 }).abs() < 1e-6, "{i} {j} {dot}");
            }
        }
    }
}
