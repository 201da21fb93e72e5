//! locate: frequencies from the phases of one bin.
//!
//! A bin with one frequency holds U\[D_j + τ\] = v·z^(D_j+τ), z = e^{2πif/n}: lines of four shifts
//! τ = 0 … 3 at the offsets D_0 = 0 < D_1 < … of a ladder. The phase between neighbouring shifts
//! tells f/n roughly, each rung multiplies the precision by its distance:
//!
//! t ← arg Σ U\[τ+1\] conj U\[τ\];  then  t ← t + arg(⟨line j, model⟩)/(2π D_j)
//!
//! A bin with two frequencies obeys an order-2 recurrence; its roots take the place of z. The
//! nearest admissible integer then replaces t·n, so phasors are exact, and the residual of the
//! least-squares value is the test: it contains integrality, unit modulus and "nothing else in
//! this bin" at once.

use crate::Complex;
use crate::cpu::math::{atan2_each, atan2_turns, cis_each, cis_turns};
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::cpu::{dispatch, threads};
use crate::problem::MAX_LEN;
use crate::samples::Line;
use crate::stages::peel::Coefficient;
use crate::stages::unity::Unity;
use std::mem::MaybeUninit;

/// Most lines that one bin can have.
pub(crate) const MAX_LINES: usize = 12;

/// Which integers a frequency may be: f ≡ residue mod modulus, 0 ≤ f < n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lattice {
    pub(crate) n: u64,
    pub(crate) modulus: u64,
    pub(crate) residue: u64,
}

impl Lattice {
    /// Every integer below n.
    pub(crate) fn all(n: u64) -> Self {
        Lattice { n, modulus: 1, residue: 0 }
    }

    /// The admissible frequency nearest to t turns per sample, and how far it is, in integers.
    #[inline(always)] // inherits the instruction set of its callers
    pub(crate) fn snap(&self, t: f64) -> (u64, f64) {
        let x = t * self.n as f64;
        let m = ((x - self.residue as f64) / self.modulus as f64).round();
        let f = self.residue as f64 + m * self.modulus as f64;
        let away = (f - x).abs();
        let f = f as i64 % self.n as i64;
        (if f < 0 { (f + self.n as i64) as u64 } else { f as u64 }, away)
    }
}

/// The lanes of one bin: a line at every offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes<'a> {
    /// The line of the first offset, and those after it every `stride`.
    pub(crate) data: &'a [Line],
    pub(crate) stride: usize,
    pub(crate) offsets: &'a [u64],
}

impl<'a> Lanes<'a> {
    /// Lines one after the other.
    pub(crate) fn new(data: &'a [Line], offsets: &'a [u64]) -> Self {
        Lanes { data, stride: 1, offsets }
    }

    /// The line at offset number j.
    #[inline(always)] // an address
    pub(crate) fn line(&self, j: usize) -> &'a Line {
        &self.data[j * self.stride]
    }

    /// All lines.
    #[inline(always)] // an address per line
    pub(crate) fn lines(self) -> impl Iterator<Item = &'a Line> {
        (0..self.offsets.len()).map(move |j| self.line(j))
    }

    /// Number of lanes.
    pub(crate) fn count(&self) -> usize {
        4 * self.offsets.len()
    }

    /// Σ |U|².
    #[inline(always)] // inherits the instruction set of its callers
    pub(crate) fn energy(&self) -> f64 {
        self.lines().map(line_energy).sum()
    }

    /// All lanes in order.
    pub(crate) fn flat(&self, out: &mut Vec<Complex<f64>>) {
        out.clear();
        out.extend(self.lines().flat_map(|line| (0..4).map(|tau| line.lane(tau))));
    }
}

/// Σ |lane|² of one line.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn line_energy(line: &Line) -> f64 {
    let mut e = [0.0; 4];
    for (tau, e) in e.iter_mut().enumerate() {
        *e = line.re[tau] * line.re[tau] + line.im[tau] * line.im[tau];
    }
    (e[0] + e[1]) + (e[2] + e[3])
}

/// Appends the phasors e^{2πi f (D_j + τ)/n} of all lanes.
pub(crate) fn phasors(unity: Unity, f: u64, offsets: &[u64], out: &mut Vec<Complex<f64>>) {
    let z = unity.root(f);
    let z2 = z * z;
    let powers = [Complex::ONE, z, z2, z2 * z];
    for &d in offsets {
        let base = base(unity, f, d);
        out.extend(powers.map(|p| base * p));
    }
}

/// e^{2πi f d/n}.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn base(unity: Unity, f: u64, d: u64) -> Complex<f64> {
    if d == 0 { Complex::ONE } else { unity.power(f, d) }
}

/// One frequency of a bin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    pub(crate) f: u64,
    pub(crate) value: Complex<f64>,
}

/// Phase of a complex number in turns.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn turns(v: Complex<f64>) -> f64 {
    atan2_turns(v.im, v.re)
}

#[inline(always)] // inherits the instruction set of its callers
fn cis(t: f64) -> Complex<f64> {
    let (c, s) = cis_turns(t - t.round());
    Complex::new(c, s)
}

/// Σ_τ line\[τ\]·conj(z)^τ.
#[inline(always)] // inherits the instruction set of its callers
fn project(line: &Line, z: Complex<f64>) -> Complex<f64> {
    let z = z.conj();
    line.lane(0) + z * (line.lane(1) + z * (line.lane(2) + z * line.lane(3)))
}

/// The best single frequency: where it is (turns per sample), before snapping.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn single(lanes: Lanes<'_>) -> f64 {
    let mut p = Complex::ZERO;
    for line in lanes.lines() {
        for tau in 0..3 {
            p += line.lane(tau + 1) * line.lane(tau).conj();
        }
    }
    let mut t = turns(p);
    for j in 1..lanes.offsets.len() {
        // The value that the lines so far give at the present t, against line j.
        let z = cis(t);
        let known: Complex<f64> =
            (0..j).map(|i| project(lanes.line(i), z) * cis(-t * lanes.offsets[i] as f64)).sum();
        let here = project(lanes.line(j), z) * cis(-t * lanes.offsets[j] as f64);
        t += turns(here * known.conj()) / lanes.offsets[j] as f64;
    }
    t
}

/// The best two frequencies (turns per sample), or `None` where the recurrence is degenerate.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn double(lanes: Lanes<'_>) -> Option<[f64; 2]> {
    // Minimise Σ |U2 + c1 U1 + c0 U0|² + |U3 + c1 U2 + c0 U1|² over all lines. One line gives two
    // equations for two unknowns, solved directly; more give normal equations.
    let (c0, c1) = if lanes.offsets.len() == 1 {
        let u = |tau| lanes.line(0).lane(tau);
        let det = u(0) * u(2) - u(1) * u(1);
        if det.norm_sqr() <= 1e-24 * lanes.energy().powi(2) {
            return None;
        }
        ((u(1) * u(3) - u(2) * u(2)) / det, (u(1) * u(2) - u(0) * u(3)) / det)
    } else {
        let (mut a00, mut a11) = (0.0, 0.0);
        let [mut a01, mut b0, mut b1] = [Complex::<f64>::ZERO; 3];
        for line in lanes.lines() {
            for t in 0..2 {
                let (u0, u1, u2) = (line.lane(t), line.lane(t + 1), line.lane(t + 2));
                a00 += u0.norm_sqr();
                a11 += u1.norm_sqr();
                a01 += u0.conj() * u1;
                b0 -= u0.conj() * u2;
                b1 -= u1.conj() * u2;
            }
        }
        let det = a00 * a11 - a01.norm_sqr();
        if det <= 1e-12 * a00 * a11 {
            return None;
        }
        ((b0 * a11 - a01 * b1) / det, (b1 * a00 - a01.conj() * b0) / det)
    };
    let half = -0.5 * c1;
    let root = square_root(half * half - c0);
    let mut t = [turns(half + root), turns(half - root)];
    for j in 1..lanes.offsets.len() {
        let d = lanes.offsets[j] as f64;
        let (v0, vj) = (pair(lanes.line(0), t)?, pair(lanes.line(j), t)?);
        for i in 0..2 {
            let here = vj[i] * cis(-t[i] * d);
            t[i] += turns(here * v0[i].conj()) / d;
        }
    }
    Some(t)
}

/// A square root without trigonometry.
#[inline(always)] // inherits the instruction set of its callers
fn square_root(v: Complex<f64>) -> Complex<f64> {
    let r = v.norm_sqr().sqrt();
    let a = (0.5 * (r + v.re.abs())).sqrt();
    if a == 0.0 {
        return Complex::ZERO;
    }
    let b = 0.5 * v.im / a;
    if v.re >= 0.0 { Complex::new(a, b) } else { Complex::new(b.abs(), a.copysign(v.im)) }
}

/// The least-squares value of one frequency over all lanes, and the residual energy.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn fit_one(unity: Unity, lanes: Lanes<'_>, f: u64) -> (Complex<f64>, f64) {
    let z = unity.root(f);
    let mut v = Complex::ZERO;
    for (line, &d) in lanes.lines().zip(lanes.offsets) {
        v += base(unity, f, d).conj() * project(line, z);
    }
    v /= lanes.count() as f64;
    let mut residual = 0.0;
    for (line, &d) in lanes.lines().zip(lanes.offsets) {
        let mut p = v * base(unity, f, d);
        for tau in 0..4 {
            residual += (line.lane(tau) - p).norm_sqr();
            p *= z;
        }
    }
    (v, residual)
}

/// Two phasors that are less [`apart`](Pair::apart) are nearly parallel.
pub(crate) const CLOSE: f64 = 0.01;

/// Least-squares values of two frequencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    pub(crate) values: [Complex<f64>; 2],
    /// Energy that they leave.
    pub(crate) residual: f64,
    /// Share of each phasor that the other does not cover: 1 if they are orthogonal, 0 if
    /// parallel. The variance of the values grows by its inverse.
    pub(crate) apart: f64,
}

/// Fits two frequencies over all lanes; `None` where their phasors are nearly parallel.
#[inline(always)] // inherits the instruction set of its callers
pub(crate) fn fit_two(unity: Unity, lanes: Lanes<'_>, f: [u64; 2]) -> Option<Pair> {
    let z = [unity.root(f[0]), unity.root(f[1])];
    let w = z[0].conj() * z[1];
    let line_gram = (w * (w * (w + 1.0) + 1.0)) + 1.0;
    let mut gram = Complex::<f64>::ZERO;
    for &d in lanes.offsets {
        gram += base(unity, f[0], d).conj() * base(unity, f[1], d) * line_gram;
    }
    let m = lanes.count() as f64;
    let det = m * m - gram.norm_sqr();
    let apart = det / (m * m);
    if apart < 1e-12 {
        return None;
    }
    // Nearly parallel phasors lose digits, which solving for what is left brings back.
    let passes = if apart < CLOSE { 3 } else { 1 };
    let mut v = [Complex::<f64>::ZERO; 2];
    let mut residual = 0.0;
    for pass in 0..=passes {
        residual = 0.0;
        let mut right = [Complex::<f64>::ZERO; 2];
        for (line, &d) in lanes.lines().zip(lanes.offsets) {
            let b = [base(unity, f[0], d), base(unity, f[1], d)];
            let mut rest = *line;
            if pass > 0 {
                let mut p: [Complex<f64>; 2] = [v[0] * b[0], v[1] * b[1]];
                for tau in 0..4 {
                    let left = line.lane(tau) - p[0] - p[1];
                    residual += left.norm_sqr();
                    rest.set_lane(tau, left);
                    p = [p[0] * z[0], p[1] * z[1]];
                }
            }
            for i in 0..2 {
                right[i] += b[i].conj() * project(&rest, z[i]);
            }
        }
        if pass < passes {
            v[0] += (m * right[0] - gram * right[1]) / det;
            v[1] += (m * right[1] - gram.conj() * right[0]) / det;
        }
    }
    Some(Pair { values: v, residual, apart })
}

dispatch! {
    /// [`single`], for the processor at hand.
    pub(crate) fn locate_one(lanes: Lanes<'_>) -> f64 = locate_one_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn locate_one_body<const FMA: bool>(lanes: Lanes<'_>) -> f64 {
    single(lanes)
}

dispatch! {
    /// [`double`], for the processor at hand.
    pub(crate) fn locate_two(lanes: Lanes<'_>) -> Option<[f64; 2]> = locate_two_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn locate_two_body<const FMA: bool>(lanes: Lanes<'_>) -> Option<[f64; 2]> {
    double(lanes)
}

dispatch! {
    /// [`fit_one`], for the processor at hand.
    pub(crate) fn value_of_one(unity: Unity, lanes: Lanes<'_>, f: u64) -> (Complex<f64>, f64)
        = value_of_one_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn value_of_one_body<const FMA: bool>(
    unity: Unity,
    lanes: Lanes<'_>,
    f: u64,
) -> (Complex<f64>, f64) {
    fit_one(unity, lanes, f)
}

dispatch! {
    /// [`fit_two`], for the processor at hand.
    pub(crate) fn values_of_two(unity: Unity, lanes: Lanes<'_>, f: [u64; 2]) -> Option<Pair>
        = values_of_two_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn values_of_two_body<const FMA: bool>(
    unity: Unity,
    lanes: Lanes<'_>,
    f: [u64; 2],
) -> Option<Pair> {
    fit_two(unity, lanes, f)
}

dispatch! {
    /// The single frequency of a lattice that explains the lanes best, and what it leaves.
    pub(crate) fn decode_one(unity: Unity, lanes: Lanes<'_>, lattice: Lattice) -> (Found, f64)
        = decode_one_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn decode_one_body<const FMA: bool>(
    unity: Unity,
    lanes: Lanes<'_>,
    lattice: Lattice,
) -> (Found, f64) {
    let (f, _) = lattice.snap(single(lanes));
    let (value, residual) = fit_one(unity, lanes, f);
    (Found { f, value }, residual)
}

dispatch! {
    /// The two frequencies of a lattice that explain the lanes best.
    pub(crate) fn decode_two(
        unity: Unity,
        lanes: Lanes<'_>,
        lattice: Lattice,
    ) -> Option<([u64; 2], Pair)> = decode_two_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn decode_two_body<const FMA: bool>(
    unity: Unity,
    lanes: Lanes<'_>,
    lattice: Lattice,
) -> Option<([u64; 2], Pair)> {
    let t = double(lanes)?;
    let f = [lattice.snap(t[0]).0, lattice.snap(t[1]).0];
    Some((f, fit_two(unity, lanes, f)?))
}

/// The two values that explain one line best at these frequencies.
#[inline(always)] // inherits the instruction set of its callers
fn pair(line: &Line, t: [f64; 2]) -> Option<[Complex<f64>; 2]> {
    let z = [cis(t[0]), cis(t[1])];
    let w = z[0].conj() * z[1];
    // Gram [4, g; conj g, 4], g = Σ (conj z0 z1)^τ.
    let g = (w * (w * (w + 1.0) + 1.0)) + 1.0;
    let det = 16.0 - g.norm_sqr();
    if det < 1e-9 {
        return None;
    }
    let (r0, r1) = (project(line, z[0]), project(line, z[1]));
    Some([(4.0 * r0 - g * r1) / det, (4.0 * r1 - g.conj() * r0) / det])
}

/// Decoded single frequencies of four bins of a comb.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Singles {
    pub(crate) f: [u64; 4],
    pub(crate) re: [f64; 4],
    pub(crate) im: [f64; 4],
    /// e^{2πi f/n}.
    pub(crate) root_re: [f64; 4],
    pub(crate) root_im: [f64; 4],
    pub(crate) residual: [f64; 4],
}

impl Singles {
    /// Frequencies, values, roots and what is left, of bins 4i to 4i + 3.
    #[inline(always)] // must inherit the instruction set of its caller
    fn of<V: Vector>(f: V, v: C<V>, z: C<V>, residual: V, i: usize) -> Self {
        Singles {
            f: whole_four(f, i),
            re: v.0.four(i),
            im: v.1.four(i),
            root_re: z.0.four(i),
            root_im: z.1.four(i),
            residual: residual.four(i),
        }
    }

    /// What was found in bin number i.
    #[inline]
    pub(crate) fn coefficient(&self, i: usize) -> Coefficient {
        Coefficient {
            f: self.f[i],
            a: Complex::new(self.re[i], self.im[i]),
            z: Complex::new(self.root_re[i], self.root_im[i]),
        }
    }
}

/// Its unit in the last place is 1: what is added stands in its lowest bits.
const UNIT: f64 = MAX_LEN as f64;

/// A whole number below 2^52, as such. (Others give anything.)
#[inline(always)] // three instructions
pub(crate) fn whole(f: f64) -> u64 {
    (f + UNIT).to_bits() & (MAX_LEN - 1)
}

/// [`whole`] of numbers 4i to 4i + 3 of a vector.
#[inline(always)] // must inherit the instruction set of its caller
fn whole_four<V: Vector>(f: V, i: usize) -> [u64; 4] {
    let mut bits = [0; 4];
    for (bits, f) in bits.iter_mut().zip((f + V::splat(UNIT)).four(i)) {
        *bits = f.to_bits() & (MAX_LEN - 1);
    }
    bits
}

/// Two frequencies in each of four bins of a comb; those of `values` fit best and leave `residual`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubles {
    /// `residual` of these is that of both.
    values: [Singles; 2],
    /// See [`Pair::apart`]; negative where there are no two frequencies.
    pub(crate) apart: [f64; 4],
}

impl Doubles {
    /// Both frequencies of bin number i, if there are two.
    #[inline]
    pub(crate) fn both(&self, i: usize) -> [Coefficient; 2] {
        [self.values[0].coefficient(i), self.values[1].coefficient(i)]
    }

    /// What they leave.
    #[inline]
    pub(crate) fn residual(&self, i: usize) -> f64 {
        self.values[0].residual[i]
    }

    /// What was found in bin number i.
    #[inline]
    pub(crate) fn pair(&self, i: usize) -> Option<([Coefficient; 2], Pair)> {
        let (residual, apart) = (self.values[0].residual[i], self.apart[i]);
        if apart < 0.0 {
            return None;
        }
        let both = self.both(i);
        Some((both, Pair { values: [both[0].a, both[1].a], residual, apart }))
    }
}

/// The measured bins of a hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bins<'a> {
    pub(crate) unity: Unity,
    /// The lines of all bins at the first offset, then at the next.
    pub(crate) lines: &'a [Line],
    /// Number of bins.
    pub(crate) size: usize,
    /// Frequencies of bin b are b modulo this: the size for a comb, 1 where any may be in any bin.
    pub(crate) modulus: usize,
    pub(crate) offsets: &'a [u64],
}

impl Bins<'_> {
    /// The lanes of one bin.
    pub(crate) fn lanes_of(&self, b: usize) -> Lanes<'_> {
        Lanes { data: &self.lines[b..], stride: self.size, offsets: self.offsets }
    }

    /// What the frequencies of these bins are, modulo the modulus.
    #[inline(always)] // must inherit the instruction set of its caller
    fn residues<V: Vector>(&self, pick: [u32; 8]) -> V {
        if self.modulus == 1 {
            return V::splat(0.0);
        }
        V::of_whole(pick)
    }
}

/// Decodes the single frequency of each listed bin: the vector form of [`decode_one`]. `out` gets
/// one entry per four bins; the last may be padded.
pub(crate) fn comb_singles(comb: Bins<'_>, list: &[u32], out: &mut Vec<Singles>) {
    by_fours(list, comb.offsets.len(), out, |list, out| singles_part(comb, list, out));
}

/// Has `decode` write one entry for every four bins of a list, in as many threads as it is worth.
fn by_fours<T: Default + Copy + Send>(
    list: &[u32],
    lines: usize,
    out: &mut Vec<T>,
    decode: impl Fn(&[u32], &mut [T]) + Sync + Send,
) {
    out.resize(list.len().div_ceil(4), T::default());
    let work = (16 * list.len() * lines) as u64;
    let piece = threads::piece(out.len(), work);
    let part = |first: usize, out: &mut [T]| {
        decode(&list[4 * first..list.len().min(4 * (first + out.len()))], out);
    };
    threads::reduce_chunks(out, piece, work, part, |(), ()| ());
}

dispatch_rows! {
    /// [`comb_singles`] of one part of the list.
    pub(crate) fn singles_part(comb: Bins<'_>, list: &[u32], out: &mut [Singles]) = singles_body
}

/// Complex numbers, one per bin.
pub(crate) type C<V> = (V, V);

/// a·b + c.
#[inline(always)] // four instructions
pub(crate) fn multiply_add<V: Vector>(a: C<V>, b: C<V>, c: C<V>) -> C<V> {
    (a.0.mul_add(b.0, a.1.negate_mul_add(b.1, c.0)), a.0.mul_add(b.1, a.1.mul_add(b.0, c.1)))
}

#[inline(always)] // one instruction
pub(crate) fn conj<V: Vector>(a: C<V>) -> C<V> {
    (a.0, -a.1)
}

/// Σ_τ line\[τ\]·conj(z)^τ.
#[inline(always)] // twelve instructions
pub(crate) fn project_each<V: Vector>(line: &[C<V>; 4], z: C<V>) -> C<V> {
    let z = conj(z);
    let mut v = line[3];
    for tau in (0..3).rev() {
        v = multiply_add(v, z, line[tau]);
    }
    v
}

/// [`project_each`], turned back from offset d to 0.
#[inline(always)] // a closure would not inherit the instruction set
fn demodulate<V: Vector>(line: &[C<V>; 4], z: C<V>, t: V, d: u64) -> C<V> {
    let v = project_each(line, z);
    if d == 0 {
        return v;
    }
    let turn = t * V::splat(d as f64);
    let back = cis_each(turn.round() - turn);
    multiply_add(v, back, (V::splat(0.0), V::splat(0.0)))
}

/// e^{2πi f d/n} for whole numbers f, reduced exactly.
#[inline(always)] // must inherit the instruction set of its caller
fn roots_each<V: Vector>(unity: Unity, f: V, d: u64) -> C<V> {
    /// Up to here every whole number is a value.
    const EXACT: f64 = (1u64 << 53) as f64;
    let (n, inverse) = (unity.order() as f64, 1.0 / unity.order() as f64);
    if n * (d as f64) < EXACT {
        let product = f * V::splat(d as f64);
        // Rounding may take the next whole number of turns, which is as good.
        let turns = (product * V::splat(inverse)).floor();
        let rest = turns.negate_mul_add(V::splat(n), product);
        return cis_each(rest * V::splat(inverse));
    }
    let mut whole = [0; 8];
    for (i, whole) in whole[..V::COUNT].iter_mut().enumerate() {
        *whole = whole_four(f, i / 4)[i % 4];
    }
    roots_of(unity, whole, d)
}

/// e^{2πi f d/n} of the first of eight.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn roots_of<V: Vector>(unity: Unity, f: [u64; 8], d: u64) -> C<V> {
    let mut rest = [0.0; 8];
    for (rest, f) in rest[..V::COUNT].iter_mut().zip(f) {
        *rest = unity.product(f, d) as f64;
    }
    cis_each(V::collect(rest) * V::splat(1.0 / unity.order() as f64))
}

/// The bins of a chunk of at most COUNT; the last fills up.
#[inline(always)] // a few loads
pub(crate) fn filled<V: Vector>(chunk: &[u32]) -> [u32; 8] {
    if let Some(all) = chunk.first_chunk() {
        return *all;
    }
    if V::COUNT == 4
        && let Some(&[a, b, c, d]) = chunk.first_chunk()
    {
        return [a, b, c, d, d, d, d, d];
    }
    let mut pick = [chunk[chunk.len() - 1]; 8];
    for (pick, &bin) in pick.iter_mut().zip(chunk) {
        *pick = bin;
    }
    pick
}

/// The lanes of some bins side by side.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn side_by_side<V: Vector>(bins: &[Line], pick: [u32; 8]) -> [C<V>; 4] {
    let mut lines = [&bins[pick[0] as usize]; 8];
    for (line, bin) in lines[..V::COUNT].iter_mut().zip(pick) {
        *line = &bins[bin as usize];
    }
    V::lanes_of(lines)
}

/// The frequency f ≡ residue mod size that is nearest to t turns per sample, 0 ≤ f < n.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn snap_each<V: Vector>(t: V, residue: V, unity: Unity, size: usize) -> V {
    let (length, modulus) = (V::splat(unity.order() as f64), V::splat(size as f64));
    let inverse_modulus = V::splat(1.0 / size as f64);
    let m = ((t * length - residue) * inverse_modulus).round();
    let f = m.mul_add(modulus, residue);
    let f = (f + length).where_or(f.below(V::splat(0.0)), f);
    f.where_or(f.below(length), f - length)
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn singles_body<const FMA: bool, R: Row>(comb: Bins<'_>, list: &[u32], out: &mut [Singles]) {
    // Without noise there is one line, and then everything stays in registers.
    match comb.offsets.len() {
        1 => alone_of::<R::Wide, _>(comb, list, &mut Write(out)),
        2..=4 => singles_of::<R::Wide, 4>(comb, list, out),
        _ => singles_of::<R::Wide, MAX_LINES>(comb, list, out),
    }
}

/// Vectors that go through the steps of decoding one after the other: a step of one does not wait for that of
/// another, while those of one vector wait for each other.
const ABREAST: usize = 8;

/// One frequency in each of some bins, side by side: [`Singles`] in registers.
#[derive(Clone, Copy)]
pub(crate) struct Alone<V> {
    pub(crate) f: V,
    pub(crate) value: C<V>,
    pub(crate) root: C<V>,
    pub(crate) residual: V,
}

/// What takes that which is found in bins.
pub(crate) trait Sink<T> {
    /// In the next bins of a list; after its end, in the last one again.
    fn put(&mut self, found: T);
}

/// Writes it.
struct Write<'a, T>(&'a mut [T]);

impl<'a, T> Write<'a, T> {
    /// The next places.
    #[inline(always)] // an address
    fn next(&mut self, count: usize) -> &'a mut [T] {
        let all = std::mem::take(&mut self.0);
        let (next, rest) = all.split_at_mut(all.len().min(count));
        self.0 = rest;
        next
    }
}

impl<V: Vector> Sink<Alone<V>> for Write<'_, Singles> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, alone: Alone<V>) {
        let Alone { f, value, root, residual } = alone;
        for (i, out) in self.next(V::COUNT / 4).iter_mut().enumerate() {
            *out = Singles::of(f, value, root, residual, i);
        }
    }
}

/// [`singles_of`] where there is one line.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn alone_of<V: Vector, S: Sink<Alone<V>>>(comb: Bins<'_>, list: &[u32], out: &mut S) {
    let Bins { unity, lines: bins, size, modulus, .. } = comb;
    let inverse_length = V::splat(1.0 / unity.order() as f64);
    let (zero, quarter) = (V::splat(0.0), V::splat(0.25));
    let bins = &bins[..size];
    for list in list.chunks(ABREAST * V::COUNT) {
        let mut lanes = [const { MaybeUninit::<[C<V>; 4]>::uninit() }; ABREAST];
        let mut places = [const { MaybeUninit::<V>::uninit() }; ABREAST];
        let mut roots = [const { MaybeUninit::<C<V>>::uninit() }; ABREAST];
        let count = list.len().div_ceil(V::COUNT);
        let (lanes, places, roots) =
            (&mut lanes[..count], &mut places[..count], &mut roots[..count]);
        for ((chunk, lanes), root) in list.chunks(V::COUNT).zip(&mut *lanes).zip(&mut *roots) {
            let u = lanes.write(side_by_side(bins, filled::<V>(chunk)));
            let mut p = (zero, zero);
            for tau in 0..3 {
                p = multiply_add(u[tau + 1], conj(u[tau]), p);
            }
            root.write(p);
        }
        for ((chunk, root), f) in list.chunks(V::COUNT).zip(&*roots).zip(&mut *places) {
            // SAFETY: written above, for every chunk.
            let p = unsafe { root.assume_init() };
            let residue = comb.residues(filled::<V>(chunk));
            f.write(snap_each(atan2_each(p.1, p.0), residue, unity, modulus));
        }
        for (root, f) in roots.iter_mut().zip(&*places) {
            // SAFETY: as above.
            root.write(cis_each(unsafe { f.assume_init() } * inverse_length));
        }
        for ((u, f), z) in lanes.iter().zip(places).zip(roots) {
            // SAFETY: as above.
            let (u, f, z) = unsafe { (u.assume_init_ref(), f.assume_init(), z.assume_init()) };
            let v = project_each(u, z);
            let v = (v.0 * quarter, v.1 * quarter);
            let square = multiply_add(z, z, (zero, zero));
            let next = multiply_add(v, z, (zero, zero));
            let p = [
                v,
                next,
                multiply_add(v, square, (zero, zero)),
                multiply_add(next, square, (zero, zero)),
            ];
            let mut energy = [zero; 2];
            for tau in 0..4 {
                let (re, im) = (u[tau].0 - p[tau].0, u[tau].1 - p[tau].1);
                energy[0] = re.mul_add(re, energy[0]);
                energy[1] = im.mul_add(im, energy[1]);
            }
            out.put(Alone { f, value: v, root: z, residual: energy[0] + energy[1] });
        }
    }
}

#[inline(always)] // must inherit the instruction set of its caller
fn singles_of<V: Vector, const MOST: usize>(comb: Bins<'_>, list: &[u32], out: &mut [Singles]) {
    let Bins { unity, lines: bins, size, modulus, offsets } = comb;
    let inverse_length = V::splat(1.0 / unity.order() as f64);
    let zero = V::splat(0.0);
    let lines = offsets.len().min(MOST);
    let scale = V::splat(0.25 / lines as f64);
    let mut four = [[(zero, zero); 4]; MOST];
    let mut roots = [(zero, zero); MOST];
    for (chunk, out) in list.chunks(V::COUNT).zip(out.chunks_mut(V::COUNT / 4)) {
        let pick = filled::<V>(chunk);
        let residue = comb.residues(pick);
        for (line, bins) in four[..lines].iter_mut().zip(bins.chunks_exact(size)) {
            *line = side_by_side(bins, pick);
        }
        let four = &four[..lines];
        let mut p = (zero, zero);
        for line in four {
            for tau in 0..3 {
                p = multiply_add(line[tau + 1], conj(line[tau]), p);
            }
        }
        let mut t = atan2_each(p.1, p.0);
        for j in 1..lines {
            let z = cis_each(t);
            let mut known = demodulate(&four[0], z, t, offsets[0]);
            for i in 1..j {
                let v = demodulate(&four[i], z, t, offsets[i]);
                known = (known.0 + v.0, known.1 + v.1);
            }
            let here = demodulate(&four[j], z, t, offsets[j]);
            let q = multiply_add(here, conj(known), (zero, zero));
            let step = V::splat(1.0 / offsets[j] as f64);
            t = atan2_each(q.1, q.0).mul_add(step, t);
        }
        let f = snap_each(t, residue, unity, modulus);
        let z = cis_each(f * inverse_length);
        for j in 1..lines {
            roots[j] = roots_each(unity, f, offsets[j]);
        }
        let mut v = project_each(&four[0], z);
        for j in 1..lines {
            let line = project_each(&four[j], z);
            v = multiply_add(line, conj(roots[j]), v);
        }
        v = (v.0 * scale, v.1 * scale);
        let mut energy = zero;
        for (j, line) in four.iter().enumerate() {
            let mut p = if j == 0 { v } else { multiply_add(v, roots[j], (zero, zero)) };
            for (tau, u) in line.iter().enumerate() {
                let (dr, di) = (u.0 - p.0, u.1 - p.1);
                energy = dr.mul_add(dr, di.mul_add(di, energy));
                if tau < 3 {
                    p = multiply_add(p, z, (zero, zero));
                }
            }
        }
        for (i, out) in out.iter_mut().enumerate() {
            *out = Singles::of(f, v, z, energy, i);
        }
    }
}

/// Decodes two frequencies in each listed bin of a comb: the vector form of [`decode_two`], where there are several
/// lines but for values that are nearly parallel ([`CLOSE`]). `out` is as for [`comb_singles`].
pub(crate) fn comb_doubles(comb: Bins<'_>, list: &[u32], out: &mut Vec<Doubles>) {
    by_fours(list, 2 * comb.offsets.len(), out, |list, out| doubles_part(comb, list, out));
}

dispatch_rows! {
    /// [`comb_doubles`] of one part of the list.
    pub(crate) fn doubles_part(comb: Bins<'_>, list: &[u32], out: &mut [Doubles]) = doubles_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn doubles_body<const FMA: bool, R: Row>(comb: Bins<'_>, list: &[u32], out: &mut [Doubles]) {
    match comb.offsets.len() {
        1 => pairs_of::<R::Wide, _>(comb, list, &mut Write(out)),
        2..=4 => doubles_of::<R::Wide, 4>(comb, list, out),
        _ => doubles_of::<R::Wide, MAX_LINES>(comb, list, out),
    }
}

/// Two frequencies in each of some bins, side by side: [`Doubles`] in registers.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<V> {
    pub(crate) f: [V; 2],
    pub(crate) values: [C<V>; 2],
    pub(crate) roots: [C<V>; 2],
    pub(crate) residual: V,
    /// See [`Pair::apart`]; negative where there are no two frequencies.
    pub(crate) apart: V,
    /// Energy of the bins.
    pub(crate) energy: V,
}

impl<V: Vector> Sink<Pairs<V>> for Write<'_, Doubles> {
    #[inline(always)] // must inherit the instruction set of its caller
    fn put(&mut self, pairs: Pairs<V>) {
        let Pairs { f, values, roots, residual, apart, .. } = pairs;
        for (i, out) in self.next(V::COUNT / 4).iter_mut().enumerate() {
            let first = Singles::of(f[0], values[0], roots[0], residual, i);
            let second = Singles::of(f[1], values[1], roots[1], residual, i);
            *out = Doubles { values: [first, second], apart: apart.four(i) };
        }
    }
}

/// [`doubles_of`] where there is one line.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn pairs_of<V: Vector, S: Sink<Pairs<V>>>(comb: Bins<'_>, list: &[u32], out: &mut S) {
    let Bins { unity, lines: bins, size, modulus, .. } = comb;
    let inverse_length = V::splat(1.0 / unity.order() as f64);
    let (zero, one) = (V::splat(0.0), V::splat(1.0));
    let bins = &bins[..size];
    for list in list.chunks(ABREAST * V::COUNT) {
        let mut lanes = [const { MaybeUninit::<([C<V>; 4], V::Mask)>::uninit() }; ABREAST];
        let mut places = [const { MaybeUninit::<[V; 2]>::uninit() }; ABREAST];
        let mut roots = [const { MaybeUninit::<[C<V>; 2]>::uninit() }; ABREAST];
        let count = list.len().div_ceil(V::COUNT);
        let (lanes, places, roots) =
            (&mut lanes[..count], &mut places[..count], &mut roots[..count]);
        for ((chunk, lanes), root) in list.chunks(V::COUNT).zip(&mut *lanes).zip(&mut *roots) {
            let u = side_by_side(bins, filled::<V>(chunk));
            let (c0, c1, bad) = recurrence(&u);
            lanes.write((u, bad));
            root.write(two_roots(c0, c1));
        }
        for ((chunk, root), f) in list.chunks(V::COUNT).zip(&*roots).zip(&mut *places) {
            // SAFETY: written above, for every chunk, here and below.
            let [z, w] = unsafe { root.assume_init() };
            let residue = comb.residues(filled::<V>(chunk));
            f.write([
                snap_each(atan2_each(z.1, z.0), residue, unity, modulus),
                snap_each(atan2_each(w.1, w.0), residue, unity, modulus),
            ]);
        }
        for (root, f) in roots.iter_mut().zip(&*places) {
            // SAFETY: see above.
            let [f, g] = unsafe { f.assume_init() };
            root.write([cis_each(f * inverse_length), cis_each(g * inverse_length)]);
        }
        for ((lanes, f), z) in lanes.iter().zip(places).zip(roots) {
            // SAFETY: see above.
            let ((u, bad), f, z) =
                unsafe { (lanes.assume_init_ref(), f.assume_init(), z.assume_init()) };
            let gram = common(z);
            let det = V::splat(16.0) - norm_sqr_each(gram);
            let apart = det * V::splat(0.0625);
            let parallel = apart.below(V::splat(1e-12));
            let inverse = one.div(one.where_or(parallel, det));
            let (mut values, mut rest) = ([(zero, zero); 2], *u);
            // Nearly parallel phasors lose digits, which solving for what is left brings back.
            let passes = if apart.any_below(V::splat(CLOSE)) { 3 } else { 1 };
            for _ in 0..passes {
                let right = [project_each(&rest, z[0]), project_each(&rest, z[1])];
                let mut p = solve_each(V::splat(4.0), gram, right);
                for (p, value) in p.iter_mut().zip(&mut values) {
                    *p = scale_each(*p, inverse);
                    *value = (value.0 + p.0, value.1 + p.1);
                }
                for (tau, rest) in rest.iter_mut().enumerate() {
                    *rest = (rest.0 - p[0].0 - p[1].0, rest.1 - p[0].1 - p[1].1);
                    for i in 0..2 {
                        if tau < 3 {
                            p[i] = multiply_add(p[i], z[i], (zero, zero));
                        }
                    }
                }
            }
            let mut energy = [zero; 2];
            for rest in &rest {
                energy[0] = rest.0.mul_add(rest.0, energy[0]);
                energy[1] = rest.1.mul_add(rest.1, energy[1]);
            }
            let none = V::splat(-1.0);
            let apart = none.where_or(*bad, none.where_or(parallel, apart));
            let residual = energy[0] + energy[1];
            let energy = energy_each(u);
            out.put(Pairs { f, values, roots: z, residual, apart, energy });
        }
    }
}

/// Σ |lane|² of each bin.
#[inline(always)] // eleven instructions
pub(crate) fn energy_each<V: Vector>(u: &[C<V>; 4]) -> V {
    (norm_sqr_each(u[0]) + norm_sqr_each(u[1])) + (norm_sqr_each(u[2]) + norm_sqr_each(u[3]))
}

/// The coefficients of the recurrence U\[t + 2\] + c1 U\[t + 1\] + c0 U\[t\] = 0 that four shifts obey, and where there
/// is none.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn recurrence<V: Vector>(u: &[C<V>; 4]) -> (C<V>, C<V>, V::Mask) {
    let det = cross(u[0], u[2], u[1], u[1]);
    let size = norm_sqr_each(det);
    let energy = energy_each(u);
    let bad = size.below(energy * energy * V::splat(1e-24));
    let inverse = V::splat(1.0).div(size.where_or(V::splat(0.0).below(size), V::splat(1.0)));
    let c0 = against(cross(u[1], u[3], u[2], u[2]), det);
    let c1 = against(cross(u[1], u[2], u[0], u[3]), det);
    (scale_each(c0, inverse), scale_each(c1, inverse), bad)
}

/// The roots of z² + c1 z + c0.
#[inline(always)] // must inherit the instruction set of its caller
pub(crate) fn two_roots<V: Vector>(c0: C<V>, c1: C<V>) -> [C<V>; 2] {
    let half = scale_each(c1, V::splat(-0.5));
    let minus = (-c0.0, -c0.1);
    let root = square_root_each(multiply_add(half, half, minus));
    [(half.0 + root.0, half.1 + root.1), (half.0 - root.0, half.1 - root.1)]
}

/// a·b - c·d.
#[inline(always)] // eight instructions
pub(crate) fn cross<V: Vector>(a: C<V>, b: C<V>, c: C<V>, d: C<V>) -> C<V> {
    let (re, im) = multiply_add(c, d, (V::splat(0.0), V::splat(0.0)));
    multiply_add(a, b, (-re, -im))
}

#[inline(always)] // two instructions
pub(crate) fn norm_sqr_each<V: Vector>(a: C<V>) -> V {
    a.0.mul_add(a.0, a.1 * a.1)
}

#[inline(always)] // two instructions
pub(crate) fn scale_each<V: Vector>(a: C<V>, c: V) -> C<V> {
    (a.0 * c, a.1 * c)
}

/// a·conj(b).
#[inline(always)] // four instructions
pub(crate) fn against<V: Vector>(a: C<V>, b: C<V>) -> C<V> {
    multiply_add(a, conj(b), (V::splat(0.0), V::splat(0.0)))
}

/// [`square_root`] of each number.
#[inline(always)] // must inherit the instruction set of its caller
fn square_root_each<V: Vector>(v: C<V>) -> C<V> {
    let (zero, half) = (V::splat(0.0), V::splat(0.5));
    let r = norm_sqr_each(v).sqrt();
    let a = (half * (r + v.0.abs())).sqrt();
    let b = (half * v.1).div(a.where_or(zero.below(a), V::splat(1.0)));
    let left = v.0.below(zero);
    let signed = (-a).where_or(v.1.below(zero), a);
    (b.abs().where_or(left, a), signed.where_or(left, b))
}

/// 1 + w + w² + w³ for w = conj(z0)·z1: what four shifts of two phasors have in common.
#[inline(always)] // a few instructions
fn common<V: Vector>(z: [C<V>; 2]) -> C<V> {
    let one = (V::splat(1.0), V::splat(0.0));
    let w = against(z[1], z[0]);
    let mut g = one;
    for _ in 0..3 {
        g = multiply_add(g, w, one);
    }
    g
}

/// [`pair`] of each bin; the values lack a factor 1/(16 - |g|²), which is positive.
#[inline(always)] // must inherit the instruction set of its caller
fn pair_each<V: Vector>(line: &[C<V>; 4], z: [C<V>; 2], g: C<V>) -> [C<V>; 2] {
    let r = [project_each(line, z[0]), project_each(line, z[1])];
    solve_each(V::splat(4.0), g, r)
}

/// The solution of \[m, g; conj g, m\]·v = r, times the determinant m² - |g|².
#[inline(always)] // ten instructions
fn solve_each<V: Vector>(m: V, g: C<V>, r: [C<V>; 2]) -> [C<V>; 2] {
    let minus = (-g.0, -g.1);
    [
        multiply_add(minus, r[1], scale_each(r[0], m)),
        multiply_add(conj(minus), r[0], scale_each(r[1], m)),
    ]
}

/// The two phases of each bin before the ladder, in turns per sample, and where there are none.
#[inline(always)] // must inherit the instruction set of its caller
fn two_phases<V: Vector>(four: &[[C<V>; 4]]) -> ([V; 2], V::Mask) {
    let zero = (V::splat(0.0), V::splat(0.0));
    let (c0, c1, bad) = if let [u] = four {
        recurrence(u)
    } else {
        let (mut a00, mut a11) = (V::splat(0.0), V::splat(0.0));
        let [mut a01, mut b0, mut b1] = [zero; 3];
        for line in four {
            for t in 0..2 {
                let (u0, u1) = (line[t], line[t + 1]);
                let minus = (-line[t + 2].0, -line[t + 2].1);
                a00 = a00 + norm_sqr_each(u0);
                a11 = a11 + norm_sqr_each(u1);
                a01 = multiply_add(conj(u0), u1, a01);
                b0 = multiply_add(conj(u0), minus, b0);
                b1 = multiply_add(conj(u1), minus, b1);
            }
        }
        let det = a00 * a11 - norm_sqr_each(a01);
        let bad = det.below(a00 * a11 * V::splat(1e-12));
        let inverse = V::splat(1.0).div(det.where_or(V::splat(0.0).below(det), V::splat(1.0)));
        let minus = (-a01.0, -a01.1);
        let c0 = multiply_add(minus, b1, scale_each(b0, a11));
        let c1 = multiply_add(conj(minus), b0, scale_each(b1, a00));
        (scale_each(c0, inverse), scale_each(c1, inverse), bad)
    };
    let [z, w] = two_roots(c0, c1);
    let (first, second) = (atan2_each(z.1, z.0), atan2_each(w.1, w.0));
    ([first, second], bad)
}

#[inline(always)] // must inherit the instruction set of its caller
fn doubles_of<V: Vector, const MOST: usize>(comb: Bins<'_>, list: &[u32], out: &mut [Doubles]) {
    let Bins { unity, lines: bins, size, modulus, offsets } = comb;
    let inverse_length = V::splat(1.0 / unity.order() as f64);
    let zero = V::splat(0.0);
    let lines = offsets.len().min(MOST);
    let mut four = [[(zero, zero); 4]; MOST];
    let mut roots = [[(zero, zero); 2]; MOST];
    for (chunk, out) in list.chunks(V::COUNT).zip(out.chunks_mut(V::COUNT / 4)) {
        let pick = filled::<V>(chunk);
        let residue = comb.residues(pick);
        for (line, bins) in four[..lines].iter_mut().zip(bins.chunks_exact(size)) {
            *line = side_by_side(bins, pick);
        }
        let four = &four[..lines];
        let (mut t, bad) = two_phases(four);
        for j in 1..lines {
            let z = [cis_each(t[0]), cis_each(t[1])];
            let g = common(z);
            let (v0, vj) = (pair_each(&four[0], z, g), pair_each(&four[j], z, g));
            let d = V::splat(offsets[j] as f64);
            let step = V::splat(1.0 / offsets[j] as f64);
            for i in 0..2 {
                let turn = t[i] * d;
                let back = cis_each(turn.round() - turn);
                let here = multiply_add(vj[i], back, (zero, zero));
                let q = against(here, v0[i]);
                t[i] = atan2_each(q.1, q.0).mul_add(step, t[i]);
            }
        }
        let mut f = t;
        let mut z = [(zero, zero); 2];
        for i in 0..2 {
            f[i] = snap_each(t[i], residue, unity, modulus);
            z[i] = cis_each(f[i] * inverse_length);
            for j in 1..lines {
                roots[j][i] = roots_each(unity, f[i], offsets[j]);
            }
        }
        // The Gram matrix [m, gram; conj gram, m].
        let m = V::splat(4.0 * lines as f64);
        let line_gram = common(z);
        let mut gram = line_gram;
        let mut right = [project_each(&four[0], z[0]), project_each(&four[0], z[1])];
        for j in 1..lines {
            let turned = against(roots[j][1], roots[j][0]);
            gram = multiply_add(turned, line_gram, gram);
            for i in 0..2 {
                let line = project_each(&four[j], z[i]);
                right[i] = multiply_add(line, conj(roots[j][i]), right[i]);
            }
        }
        let det = m * m - norm_sqr_each(gram);
        let apart = det.div(m * m);
        let bad_det = apart.below(V::splat(1e-12));
        let inverse = V::splat(1.0).div(V::splat(1.0).where_or(bad_det, det));
        let mut v = solve_each(m, gram, right);
        for v in &mut v {
            *v = scale_each(*v, inverse);
        }
        let mut energy = zero;
        for (j, line) in four.iter().enumerate() {
            let mut p = v;
            for i in 0..2 {
                if j > 0 {
                    p[i] = multiply_add(v[i], roots[j][i], (zero, zero));
                }
            }
            for (tau, u) in line.iter().enumerate() {
                let left = (u.0 - p[0].0 - p[1].0, u.1 - p[0].1 - p[1].1);
                energy = left.0.mul_add(left.0, left.1.mul_add(left.1, energy));
                for i in 0..2 {
                    if tau < 3 {
                        p[i] = multiply_add(p[i], z[i], (zero, zero));
                    }
                }
            }
        }
        let none = V::splat(-1.0);
        let apart = none.where_or(bad, none.where_or(bad_det, apart));
        for (i, out) in out.iter_mut().enumerate() {
            let first = Singles::of(f[0], v[0], z[0], energy, i);
            let second = Singles::of(f[1], v[1], z[1], energy, i);
            *out = Doubles { values: [first, second], apart: apart.four(i) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::number::Rng;

    fn lines(n: u64, offsets: &[u64], tones: &[(u64, Complex<f64>)]) -> Vec<Line> {
        let unity = Unity::new(n);
        offsets
            .iter()
            .map(|&d| {
                let mut line = Line::ZERO;
                for tau in 0..4 {
                    let v = tones.iter().map(|(f, a)| a * unity.power(*f, d + tau as u64)).sum();
                    line.set_lane(tau, v);
                }
                line
            })
            .collect()
    }

    #[test]
    fn snapping_respects_the_residue() {
        let lattice = Lattice { n: 1 << 20, modulus: 256, residue: 17 };
        assert_eq!(lattice.snap((17.0 + 256.0 * 9.0 + 100.0) / (1 << 20) as f64).0, 17 + 256 * 9);
        assert_eq!(lattice.snap(-200.0 / (1 << 20) as f64).0, (1 << 20) - 256 + 17);
        assert_eq!(Lattice::all(7).snap(-1.0 / 7.0).0, 6);
    }

    #[test]
    fn one_and_two_frequencies_are_located() {
        let n = (1u64 << 30) + 3;
        let offsets = [0u64, 400, 90_000];
        let (f, g) = (123_456_789, 987_654_321);
        for l in 1..=3 {
            let one = lines(n, &offsets[..l], &[(f, Complex::new(0.3, -2.0))]);
            let lanes = Lanes::new(&one, &offsets[..l]);
            assert_eq!(Lattice::all(n).snap(single(lanes)).0, f);
            let two = lines(n, &offsets[..l], &[(f, Complex::ONE), (g, Complex::new(0.0, 0.4))]);
            let lanes = Lanes::new(&two, &offsets[..l]);
            let mut found = double(lanes).unwrap().map(|t| Lattice::all(n).snap(t).0);
            found.sort_unstable();
            assert_eq!(found, [f, g]);
            let Pair { values, residual, .. } = fit_two(Unity::new(n), lanes, found).unwrap();
            assert!((values[0] - 1.0).norm() < 1e-12, "{values:?}");
            assert!((values[1] - Complex::new(0.0, 0.4)).norm() < 1e-12, "{values:?}");
            assert!(residual < 1e-26, "{residual}");
        }
    }

    #[test]
    fn the_vector_form_equals_the_plain_one() {
        let (n, size) = (1u64 << 24, 64usize);
        let unity = Unity::new(n);
        for offsets in [&[0u64][..], &[0, 64, 2048], &[0, 20, 400, 8000, 160_000]] {
            let mut rng = Rng::new(4, 4);
            let mut bins = vec![Line::ZERO; offsets.len() * size];
            let mut truth = Vec::new();
            for b in (0..size as u64).step_by(3) {
                let f = b + size as u64 * rng.below(n / size as u64);
                let a = Complex::new(rng.below(100) as f64 - 50.0, 1.0 + rng.below(9) as f64);
                for (j, line) in lines(n, offsets, &[(f, a)]).into_iter().enumerate() {
                    bins[j * size + b as usize] = line;
                }
                truth.push((b as u32, f, a));
            }
            let list: Vec<u32> = truth.iter().map(|t| t.0).collect();
            let mut out = Vec::new();
            comb_singles(
                Bins { unity, lines: &bins, size, modulus: size, offsets },
                &list,
                &mut out,
            );
            for (i, &(b, f, a)) in truth.iter().enumerate() {
                let s = &out[i / 4];
                assert_eq!(s.f[i % 4], f);
                let v = Complex::new(s.re[i % 4], s.im[i % 4]);
                assert!((v - a).norm() < 1e-12 * a.norm());
                assert!(s.residual[i % 4] < 1e-26 * a.norm_sqr());
                let lanes = Lanes { data: &bins[b as usize..], stride: size, offsets };
                let lattice = Lattice { n, modulus: size as u64, residue: b as u64 };
                let (plain, left) = decode_one(unity, lanes, lattice);
                assert_eq!(plain.f, f);
                assert!((plain.value - a).norm() < 1e-12 * a.norm() && left < 1e-26 * a.norm_sqr());
            }
        }
    }

    #[test]
    fn the_vector_form_of_two_equals_the_plain_one() {
        let (n, size) = (1u64 << 24, 64usize);
        let unity = Unity::new(n);
        for offsets in [&[0u64][..], &[0, 64, 2048], &[0, 20, 400, 8000, 160_000]] {
            let mut rng = Rng::new(4, 5);
            let mut bins = vec![Line::ZERO; offsets.len() * size];
            let list: Vec<u32> = (0..size as u32).step_by(3).collect();
            for &b in &list {
                // One bin in four holds three frequencies, which neither form may take for two.
                let count = if b % 4 == 1 { 3 } else { 2 };
                let mut tone = || {
                    let f = u64::from(b) + size as u64 * rng.below(n / size as u64);
                    let a = Complex::new(rng.below(100) as f64 - 50.0, 1.0 + rng.below(9) as f64);
                    (f, a)
                };
                let tones: Vec<_> = (0..count).map(|_| tone()).collect();
                for (j, line) in lines(n, offsets, &tones).into_iter().enumerate() {
                    bins[j * size + b as usize] = line;
                }
            }
            let mut out = Vec::new();
            let comb = Bins { unity, lines: &bins, size, modulus: size, offsets };
            comb_doubles(comb, &list, &mut out);
            let mut taken = 0;
            for (i, &b) in list.iter().enumerate() {
                let lanes = Lanes { data: &bins[b as usize..], stride: size, offsets };
                let lattice = Lattice { n, modulus: size as u64, residue: b.into() };
                let (f, plain) = decode_two(unity, lanes, lattice).unwrap();
                let (both, pair) = out[i / 4].pair(i % 4).unwrap();
                let energy = lanes.energy();
                assert!((pair.apart - plain.apart).abs() < 1e-12);
                assert_eq!(pair.residual < 1e-20 * energy, plain.residual < 1e-20 * energy);
                if b % 4 == 1 {
                    assert!(pair.residual > 1e-20 * energy, "bin {b}");
                } else if pair.apart > CLOSE {
                    taken += 1;
                    assert!(pair.residual < 1e-20 * energy, "bin {b}: {}", pair.residual / energy);
                    assert_eq!([both[0].f, both[1].f], f);
                    for (c, a) in both.iter().zip(plain.values) {
                        assert!((c.a - a).norm() < 1e-9 * a.norm());
                        assert!((c.z - unity.root(c.f)).norm() < 1e-15);
                    }
                }
            }
            assert!(taken > 10);
        }
    }
}
