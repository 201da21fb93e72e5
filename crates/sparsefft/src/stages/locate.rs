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
use crate::cpu::dispatch;
use crate::cpu::math::{atan2_turns, atan2_turns4, cis_turns, cis_turns4};
use crate::cpu::wide::F4;
use crate::samples::Line;
use crate::stages::unity::Unity;

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
    #[inline]
    pub(crate) fn snap(&self, t: f64) -> (u64, f64) {
        let x = t * self.n as f64;
        let m = ((x - self.residue as f64) / self.modulus as f64).round();
        let f = self.residue as f64 + m * self.modulus as f64;
        let away = (f - x).abs();
        let f = f as i64 % self.n as i64;
        (if f < 0 { (f + self.n as i64) as u64 } else { f as u64 }, away)
    }
}

/// The lanes of one bin: lines at their offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) offsets: &'a [u64],
}

impl Lanes<'_> {
    /// Number of lanes.
    pub(crate) fn count(&self) -> usize {
        4 * self.lines.len()
    }

    /// Σ |U|².
    pub(crate) fn energy(&self) -> f64 {
        self.lines.iter().map(line_energy).sum()
    }

    /// All lanes in order.
    pub(crate) fn flat(&self) -> ([Complex<f64>; 4 * MAX_LINES], usize) {
        let mut out = [Complex::ZERO; 4 * MAX_LINES];
        for (j, line) in self.lines.iter().enumerate() {
            for tau in 0..4 {
                out[4 * j + tau] = line.lane(tau);
            }
        }
        (out, self.count())
    }
}

/// Σ |lane|² of one line.
#[inline]
pub(crate) fn line_energy(line: &Line) -> f64 {
    let mut e = [0.0; 4];
    for (tau, e) in e.iter_mut().enumerate() {
        *e = line.re[tau] * line.re[tau] + line.im[tau] * line.im[tau];
    }
    (e[0] + e[1]) + (e[2] + e[3])
}

/// Writes the phasors e^{2πi f (D_j + τ)/n} of all lanes.
pub(crate) fn phasors(unity: Unity, f: u64, offsets: &[u64], out: &mut [Complex<f64>]) {
    let z = unity.power(f, 1);
    let z2 = z * z;
    let powers = [Complex::ONE, z, z2, z2 * z];
    for (&d, four) in offsets.iter().zip(out.chunks_exact_mut(4)) {
        let base = if d == 0 { Complex::ONE } else { unity.power(f, d) };
        for (o, p) in four.iter_mut().zip(powers) {
            *o = base * p;
        }
    }
}

/// One frequency of a bin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    pub(crate) f: u64,
    pub(crate) value: Complex<f64>,
}

/// Phase of a complex number in turns.
#[inline]
fn turns(v: Complex<f64>) -> f64 {
    atan2_turns(v.im, v.re)
}

#[inline]
fn cis(t: f64) -> Complex<f64> {
    let (c, s) = cis_turns(t - t.round());
    Complex::new(c, s)
}

/// Σ_τ line\[τ\]·conj(z)^τ.
#[inline]
fn project(line: &Line, z: Complex<f64>) -> Complex<f64> {
    let z = z.conj();
    line.lane(0) + z * (line.lane(1) + z * (line.lane(2) + z * line.lane(3)))
}

/// The best single frequency: where it is (turns per sample), before snapping.
pub(crate) fn single(lanes: Lanes<'_>) -> f64 {
    let mut p = Complex::ZERO;
    for line in lanes.lines {
        for tau in 0..3 {
            p += line.lane(tau + 1) * line.lane(tau).conj();
        }
    }
    let mut t = turns(p);
    for j in 1..lanes.lines.len() {
        // The value that the lines so far give at the present t, against line j.
        let z = cis(t);
        let known: Complex<f64> =
            (0..j).map(|i| project(&lanes.lines[i], z) * cis(-t * lanes.offsets[i] as f64)).sum();
        let here = project(&lanes.lines[j], z) * cis(-t * lanes.offsets[j] as f64);
        t += turns(here * known.conj()) / lanes.offsets[j] as f64;
    }
    t
}

/// The best two frequencies (turns per sample), or `None` where the recurrence is degenerate.
pub(crate) fn double(lanes: Lanes<'_>) -> Option<[f64; 2]> {
    // Minimise Σ |U2 + c1 U1 + c0 U0|² + |U3 + c1 U2 + c0 U1|² over all lines. One line gives two
    // equations for two unknowns, solved directly; more give normal equations.
    let (c0, c1) = if lanes.lines.len() == 1 {
        let u = |tau| lanes.lines[0].lane(tau);
        let det = u(0) * u(2) - u(1) * u(1);
        if det.norm_sqr() <= 1e-24 * lanes.energy().powi(2) {
            return None;
        }
        ((u(1) * u(3) - u(2) * u(2)) / det, (u(1) * u(2) - u(0) * u(3)) / det)
    } else {
        let (mut a00, mut a11) = (0.0, 0.0);
        let [mut a01, mut b0, mut b1] = [Complex::<f64>::ZERO; 3];
        for line in lanes.lines {
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
    for j in 1..lanes.lines.len() {
        let d = lanes.offsets[j] as f64;
        let (v0, vj) = (pair(&lanes.lines[0], t)?, pair(&lanes.lines[j], t)?);
        for i in 0..2 {
            let here = vj[i] * cis(-t[i] * d);
            t[i] += turns(here * v0[i].conj()) / d;
        }
    }
    Some(t)
}

/// A square root without trigonometry.
#[inline]
fn square_root(v: Complex<f64>) -> Complex<f64> {
    let r = v.norm_sqr().sqrt();
    let a = (0.5 * (r + v.re.abs())).sqrt();
    if a == 0.0 {
        return Complex::ZERO;
    }
    let b = 0.5 * v.im / a;
    if v.re >= 0.0 { Complex::new(a, b) } else { Complex::new(b.abs(), a.copysign(v.im)) }
}

/// Least-squares values of two frequencies over all lanes, and the residual energy; `None` where
/// their phasors are nearly parallel.
pub(crate) fn fit_two(
    unity: Unity,
    lanes: Lanes<'_>,
    f: [u64; 2],
) -> Option<([Complex<f64>; 2], f64)> {
    let z = f.map(|f| unity.root(f));
    let base = |i: usize, j: usize| -> Complex<f64> {
        match lanes.offsets[j] {
            0 => Complex::ONE,
            d => unity.power(f[i], d),
        }
    };
    let w = z[0].conj() * z[1];
    let line_gram = (w * (w * (w + 1.0) + 1.0)) + 1.0;
    let mut gram = Complex::<f64>::ZERO;
    let mut right = [Complex::<f64>::ZERO; 2];
    for (j, line) in lanes.lines.iter().enumerate() {
        let b = [base(0, j), base(1, j)];
        gram += b[0].conj() * b[1] * line_gram;
        for i in 0..2 {
            right[i] += b[i].conj() * project(line, z[i]);
        }
    }
    let m = lanes.count() as f64;
    let det = m * m - gram.norm_sqr();
    if det < 1e-12 * m * m {
        return None;
    }
    let v = [(m * right[0] - gram * right[1]) / det, (m * right[1] - gram.conj() * right[0]) / det];
    let mut residual = 0.0;
    for (j, line) in lanes.lines.iter().enumerate() {
        let mut p: [Complex<f64>; 2] = [v[0] * base(0, j), v[1] * base(1, j)];
        for tau in 0..4 {
            residual += (line.lane(tau) - p[0] - p[1]).norm_sqr();
            p = [p[0] * z[0], p[1] * z[1]];
        }
    }
    Some((v, residual))
}

/// The two values that explain one line best at these frequencies.
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

/// Offsets D_1 < D_2 < … that lead from the phase of neighbouring shifts to single integers (or
/// to steps of `unit` integers), at bin signal-to-noise ratio `gamma` per lane.
///
/// Each rung must not wrap: its distance times the error so far, at c standard deviations, stays
/// below half a turn less its own phase error. The fewest rungs that leave c ≥ 12 are taken (two
/// frequencies in a bin amplify the noise), or c ≥ 6 where 12 would need more than one rung extra;
/// then the rungs are spread to make c as large as possible. Returns the offsets, 0 first, and c;
/// `None` where no ladder of [`MAX_LINES`] lines can climb.
pub(crate) fn ladder(gamma: f64, n: u64, unit: u64) -> Option<(Vec<u64>, f64)> {
    let best = |c_min: f64| {
        (1..=MAX_LINES).find_map(|lines| rungs(gamma, n, unit, lines, c_min).map(|_| lines))
    };
    let lines = match (best(12.0), best(6.0)) {
        (Some(wide), Some(tight)) => wide.min(tight + 1),
        (None, Some(tight)) => tight,
        _ => return None,
    };
    // Largest c that this many lines allow.
    let (mut lo, mut hi) = (6.0f64, 1e6f64);
    for _ in 0..40 {
        let c = (lo * hi).sqrt();
        if rungs(gamma, n, unit, lines, c).is_some() {
            lo = c;
        } else {
            hi = c;
        }
    }
    rungs(gamma, n, unit, lines, lo).map(|offsets| (offsets, lo))
}

/// The offsets for exactly this many lines at c standard deviations, if they reach.
fn rungs(gamma: f64, n: u64, unit: u64, lines: usize, c: f64) -> Option<Vec<u64>> {
    let tau = std::f64::consts::TAU;
    let goal = unit as f64 / (2.0 * n as f64);
    // Three neighbour products average; each later phase compares 4 lanes with 4j known ones.
    let mut error = c / (tau * 3.0 * gamma.sqrt());
    let mut offsets = vec![0u64];
    for j in 1..lines {
        let phase = c / tau * ((1.0 + 1.0 / j as f64) / (8.0 * gamma)).sqrt();
        let d = (((0.5 - phase) / error).min(n as f64 / 2.0)) as u64 & !3;
        if phase >= 0.5 || d < 4 || d <= *offsets.last()? {
            return None;
        }
        offsets.push(d);
        error = phase / d as f64;
    }
    (error < goal).then_some(offsets)
}

/// Decoded single frequencies of four bins of a one-line comb.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Singles {
    pub(crate) f: [f64; 4],
    pub(crate) re: [f64; 4],
    pub(crate) im: [f64; 4],
    pub(crate) residual: [f64; 4],
}

dispatch! {
    /// Decodes the single frequency of each listed bin of a comb of `bins.len()` bins with one
    /// line: the vector form of [`single`], [`Lattice::snap`] and the fit of one value. `out` gets
    /// one entry per four bins; the last may be padded.
    pub(crate) fn comb_singles(n: u64, bins: &[Line], list: &[u32], out: &mut Vec<Singles>)
        = comb_singles_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn comb_singles_body<const FMA: bool>(n: u64, bins: &[Line], list: &[u32], out: &mut Vec<Singles>) {
    out.clear();
    let (length, modulus) = (F4::splat(n as f64), F4::splat(bins.len() as f64));
    let inverse_length = F4::splat(1.0 / n as f64);
    let inverse_modulus = F4::splat(1.0 / bins.len() as f64);
    let zero = F4::splat(0.0);
    for chunk in list.chunks(4) {
        // Element i of every F4 belongs to bin i of the chunk.
        let pick = |i: usize| chunk[i.min(chunk.len() - 1)] as usize;
        let four: [&Line; 4] = [0, 1, 2, 3].map(|i| &bins[pick(i)]);
        let residue = F4([0, 1, 2, 3].map(|i| pick(i) as f64));
        let re = [0, 1, 2, 3].map(|tau| F4(four.map(|line| line.re[tau])));
        let im = [0, 1, 2, 3].map(|tau| F4(four.map(|line| line.im[tau])));
        let (mut pr, mut pi) = (zero, zero);
        for tau in 0..3 {
            let (ar, ai, br, bi) = (re[tau + 1], im[tau + 1], re[tau], im[tau]);
            pr = ar.mul_add::<FMA>(br, ai.mul_add::<FMA>(bi, pr));
            pi = ai.mul_add::<FMA>(br, (-ar).mul_add::<FMA>(bi, pi));
        }
        let x = atan2_turns4::<FMA>(pi, pr) * length;
        let m = ((x - residue) * inverse_modulus).round();
        let f = m.mul_add::<FMA>(modulus, residue);
        let f = (f + length).where_or(f.below(zero), f);
        let f = f.where_or(f.below(length), f - length);
        let (c, s) = cis_turns4::<FMA>(f * inverse_length);
        // Horner in conj z, then the residual at each shift.
        let (mut vr, mut vi) = (re[3], im[3]);
        for tau in (0..3).rev() {
            let r = vr.mul_add::<FMA>(c, vi.mul_add::<FMA>(s, re[tau]));
            vi = vi.mul_add::<FMA>(c, (-vr).mul_add::<FMA>(s, im[tau]));
            vr = r;
        }
        let quarter = F4::splat(0.25);
        (vr, vi) = (quarter * vr, quarter * vi);
        let value = (vr, vi);
        let mut energy = zero;
        for tau in 0..4 {
            let (dr, di) = (re[tau] - vr, im[tau] - vi);
            energy = dr.mul_add::<FMA>(dr, di.mul_add::<FMA>(di, energy));
            let r = vr.mul_add::<FMA>(c, -(vi * s));
            vi = vr.mul_add::<FMA>(s, vi * c);
            vr = r;
        }
        out.push(Singles { f: f.0, re: value.0.0, im: value.1.0, residual: energy.0 });
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
            let lanes = Lanes { lines: &one, offsets: &offsets[..l] };
            assert_eq!(Lattice::all(n).snap(single(lanes)).0, f);
            let two = lines(n, &offsets[..l], &[(f, Complex::ONE), (g, Complex::new(0.0, 0.4))]);
            let lanes = Lanes { lines: &two, offsets: &offsets[..l] };
            let mut found = double(lanes).unwrap().map(|t| Lattice::all(n).snap(t).0);
            found.sort_unstable();
            assert_eq!(found, [f, g]);
            let (values, residual) = fit_two(Unity::new(n), lanes, found).unwrap();
            assert!((values[0] - 1.0).norm() < 1e-12, "{values:?}");
            assert!((values[1] - Complex::new(0.0, 0.4)).norm() < 1e-12, "{values:?}");
            assert!(residual < 1e-26, "{residual}");
        }
    }

    #[test]
    fn the_vector_form_equals_the_plain_one() {
        let (n, size) = (1u64 << 24, 64usize);
        let mut rng = Rng::new(4, 4);
        let mut bins = vec![Line::ZERO; size];
        let mut truth = Vec::new();
        for b in (0..size as u64).step_by(3) {
            let f = b + size as u64 * rng.below(n / size as u64);
            let a = Complex::new(rng.below(100) as f64 - 50.0, 1.0 + rng.below(9) as f64);
            bins[b as usize] = lines(n, &[0], &[(f, a)])[0];
            truth.push((b as u32, f, a));
        }
        let list: Vec<u32> = truth.iter().map(|t| t.0).collect();
        let mut out = Vec::new();
        comb_singles(n, &bins, &list, &mut out);
        for (i, &(b, f, a)) in truth.iter().enumerate() {
            let s = &out[i / 4];
            assert_eq!(s.f[i % 4], f as f64);
            let v = Complex::new(s.re[i % 4], s.im[i % 4]);
            assert!((v - a).norm() < 1e-12 * a.norm());
            assert!(s.residual[i % 4] < 1e-27 * a.norm_sqr());
            let lanes = Lanes { lines: &bins[b as usize..][..1], offsets: &[0] };
            let lattice = Lattice { n, modulus: size as u64, residue: b as u64 };
            assert_eq!(lattice.snap(single(lanes)).0, f);
        }
    }

    #[test]
    fn ladders_climb_only_as_far_as_the_noise_allows() {
        let n = 1u64 << 22;
        assert_eq!(ladder(1e20, n, 256).unwrap().0, [0]);
        let (noisy, c) = ladder(25_600.0, n, 256).unwrap();
        assert!(c >= 6.0);
        assert!(noisy.len() >= 2 && noisy.len() <= 3, "{noisy:?}");
        let (weak, _) = ladder(25.0, n, 256).unwrap();
        assert!(weak.len() > noisy.len() && weak.windows(2).all(|w| w[0] < w[1]), "{weak:?}");
        assert_eq!(ladder(0.5, n, 256), None);
    }
}
