//! peel: subtract what is known from the bins of a hash.
//!
//! residual\[b\]\[D + τ\] -= a·e^{2πi f(D+τ)/n}·gain(b, f) in the bins that f reaches.

use crate::Complex;
use crate::cpu::dispatch;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::{F4, Vector};
use crate::samples::Line;
use crate::stages::hash::{Buffers, Hash, Kind, Reach, reach_at, tone};
use crate::stages::locate::{MAX_LINES, line_energy, multiply_add, roots_of};
use crate::stages::permute::Permutation;
use crate::stages::unity::Unity;
use crate::stages::window::{Kaiser, REACH};

/// A frequency with its amplitude a = X/n and z = e^{2πif/n}.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Coefficient {
    pub(crate) f: u64,
    pub(crate) a: Complex<f64>,
    pub(crate) z: Complex<f64>,
}

impl Coefficient {
    /// Nothing, at no frequency in particular.
    pub(crate) const NONE: Coefficient =
        Coefficient { f: 0, a: Complex::new(0.0, 0.0), z: Complex::new(1.0, 0.0) };
}

/// Subtracts coefficients from the residual of a hash, lines from `from` on; its energies are not
/// touched.
pub(crate) fn peel_all(hash: &mut Hash, unity: Unity, known: &[Coefficient], from: usize) {
    let kind = hash.kind.clone();
    let (size, Buffers { offsets, residual, .. }) = hash.bins_mut();
    let (offsets, residual) = (&offsets[from..], &mut residual[from * size..]);
    let Kind::Window { permutation, kaiser } = &kind else {
        for c in known {
            let b = (c.f % size as u64) as usize;
            for (&d, lines) in offsets.iter().zip(residual.chunks_exact_mut(size)) {
                peel_bin(&mut lines[b..=b], &[d], unity, c);
            }
        }
        return;
    };
    let peel = Peel { permutation, kaiser, unity, offsets, size };
    // By one thread: the coefficients would have to be carried to every core, which takes longer.
    let mut lines: [&mut [Line]; MAX_LINES] = Default::default();
    for (to, line) in lines.iter_mut().zip(residual.chunks_exact_mut(size)) {
        *to = line;
    }
    peel_lines(&peel, known, &mut lines[..offsets.len()]);
}

/// What peeling from a window hash needs to know.
struct Peel<'a> {
    permutation: &'a Permutation,
    kaiser: &'a Kaiser,
    unity: Unity,
    offsets: &'a [u64],
    size: usize,
}

dispatch_rows! {
    /// Subtracts coefficients from all buckets: lines for every offset.
    fn peel_lines(peel: &Peel<'_>, known: &[Coefficient], lines: &mut [&mut [Line]]) = peel_lines_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn peel_lines_body<const FMA: bool, R: Row>(
    peel: &Peel<'_>,
    known: &[Coefficient],
    lines: &mut [&mut [Line]],
) {
    let size = peel.size;
    for chunk in known.chunks(R::Wide::COUNT) {
        let filled;
        let some = if chunk.len() == R::Wide::COUNT {
            chunk
        } else {
            filled = filled_up(chunk);
            &filled[..R::Wide::COUNT]
        };
        let mut positions = [0.0; 8];
        for i in 0..R::Wide::COUNT {
            positions[i] = peel.permutation.position(some[i].f, size);
        }
        let p = R::Wide::collect(positions);
        let before = p.floor();
        let gains = peel.kaiser.gains(p - before - R::Wide::splat(0.5));
        let reached = (before - R::Wide::splat(1.0)).each();
        let mut of = [[0.0; 8]; REACH];
        for (of, gains) in of.iter_mut().zip(gains) {
            *of = gains.each();
        }
        for (&d, lines) in peel.offsets.iter().zip(&mut *lines) {
            let tones = tones::<R::Wide>(peel.unity, some, d);
            for (i, tone) in tones[..chunk.len()].iter().enumerate() {
                let tone = R::load(tone);
                // Mostly neighbours; some go around the end.
                let at = reached[i] as i64 as usize;
                if let Some(lines) = lines.get_mut(at..at.wrapping_add(REACH)) {
                    for (from, of) in lines.iter_mut().zip(&of) {
                        R::load(from).minus(of[i], tone).store(from);
                    }
                } else {
                    let gains = F4::<FMA>([of[0][i], of[1][i], of[2][i], of[3][i]]);
                    let reach = reach_at(reached[i] as i64, gains, size);
                    for (&b, gain) in reach.bins.iter().zip(reach.gains) {
                        let from = &mut lines[b as usize];
                        R::load(from).minus(gain, tone).store(from);
                    }
                }
            }
        }
    }
}

/// A chunk of less than eight; nothing fills up, and is never subtracted.
fn filled_up(chunk: &[Coefficient]) -> [Coefficient; 8] {
    let mut filled = [Coefficient::NONE; 8];
    filled[..chunk.len()].copy_from_slice(chunk);
    filled
}

/// The lanes a·e^{2πi f(d+τ)/n} of as many coefficients as a vector has numbers: [`tone`], side by side.
#[inline(always)] // must inherit the instruction set of its caller
fn tones<V: Vector>(unity: Unity, some: &[Coefficient], d: u64) -> [Line; 8] {
    let zero = (V::splat(0.0), V::splat(0.0));
    let mut parts = [[0.0; 4]; 8];
    for i in 0..V::COUNT {
        let c = &some[i];
        parts[i] = [c.a.re, c.a.im, c.z.re, c.z.im];
    }
    let [re, im, z_re, z_im] = V::fields_of(&parts);
    let (mut a, z) = ((re, im), (z_re, z_im));
    if d > 0 {
        let mut f = [0; 8];
        for i in 0..V::COUNT {
            f[i] = some[i].f;
        }
        a = multiply_add(a, roots_of(unity, f, d), zero);
    }
    let square = multiply_add(z, z, zero);
    let (b, c) = (multiply_add(a, z, zero), multiply_add(a, square, zero));
    V::lines_of([a, b, c, multiply_add(b, square, zero)])
}

#[inline(always)] // must inherit the instruction set of its caller
fn subtract<const FMA: bool>(hash: &mut Hash, unity: Unity, c: &Coefficient, reach: &Reach) {
    let (size, buffers) = hash.bins_mut();
    let mut rest = &mut buffers.residual[..];
    for &d in &buffers.offsets {
        let line = tone::<FMA>(unity, c.f, c.z, c.a, d);
        let (lines, after) = rest.split_at_mut(size);
        for i in 0..reach.count {
            subtract_line::<FMA>(&mut lines[reach.bins[i] as usize], &line, reach.gains[i]);
        }
        rest = after;
    }
}

/// from -= gain·line.
#[inline(always)] // two instructions
fn subtract_line<const FMA: bool>(from: &mut Line, line: &Line, gain: f64) {
    let gain = F4::<FMA>::splat(gain);
    from.re = F4(line.re).negate_mul_add(gain, F4(from.re)).0;
    from.im = F4(line.im).negate_mul_add(gain, F4(from.im)).0;
}

dispatch! {
    /// Subtracts one coefficient and updates the energies of its bins.
    pub(crate) fn peel_one(hash: &mut Hash, unity: Unity, c: &Coefficient) = peel_one_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn peel_one_body<const FMA: bool>(hash: &mut Hash, unity: Unity, c: &Coefficient) {
    let reach = hash.reach_wide::<FMA>(c.f);
    subtract::<FMA>(hash, unity, c, &reach);
    for (b, _) in reach.iter() {
        let lines = (0..hash.offsets.len()).map(|j| &hash.residual[j * hash.buckets + b]);
        hash.energy[b] = lines.map(line_energy).sum();
    }
}

dispatch! {
    /// Subtracts the coefficients of one comb bin from its lines, given at these offsets.
    pub(crate) fn peel_bin(lines: &mut [Line], offsets: &[u64], unity: Unity, c: &Coefficient)
        = peel_bin_body
}

#[inline(always)] // the body that `dispatch!` compiles once per instruction set
fn peel_bin_body<const FMA: bool>(
    lines: &mut [Line],
    offsets: &[u64],
    unity: Unity,
    c: &Coefficient,
) {
    for (from, &d) in lines.iter_mut().zip(offsets) {
        subtract_line::<FMA>(from, &tone::<FMA>(unity, c.f, c.z, c.a, d), 1.0);
    }
}
