//! Phases in turns: e^{2πix} and atan2/2π as short polynomials without branches, so that loops
//! over arrays of them become vector code.
//!
//! Coefficients are Chebyshev fits computed to 40 digits; the fit errors are 2e-17 (sine),
//! 3e-20 (cosine) and 6e-18 (arc tangent), below the rounding of the evaluation.

use super::wide::{F4, Vector};

/// Coefficients in u = x², highest power first, of sin(2πx)/x on |x| ≤ 1/8.
const SIN: [f64; 7] = [
    3.780_868_959_302_295_5,
    -15.093_804_209_987_114,
    42.058_685_020_160_894,
    -76.705_859_704_274_55,
    81.605_249_275_948_04,
    -41.341_702_240_399_636,
    std::f64::consts::TAU,
];
/// The same for cos(2πx).
const COS: [f64; 8] = [
    -1.696_849_470_291_882_7,
    7.903_091_687_751_698,
    -26.426_250_908_622_136,
    60.244_641_328_867_293,
    -85.456_817_206_522_71,
    64.939_394_022_667_96,
    -19.739_208_802_178_717,
    1.0,
];
/// Coefficients in u = x² of atan(x)/(2πx) on |x| ≤ tan(π/8).
const ATAN: [f64; 11] = [
    0.003_363_799_112_138_640_7,
    -0.006_920_140_029_529_43,
    0.009_053_288_974_796_15,
    -0.010_568_260_533_143_65,
    0.012_238_941_110_840_395,
    -0.014_468_414_713_824_675,
    0.017_683_874_718_384_725,
    -0.022_736_420_275_003_92,
    0.031_830_988_616_556_92,
    -0.053_051_647_697_290_66,
    0.159_154_943_091_895_33,
];

#[inline(always)] // part of vectorised loops
fn horner<V: Vector, const N: usize>(c: &[f64; N], u: V) -> V {
    let mut p = V::splat(c[0]);
    for &a in &c[1..] {
        p = p.mul_add(u, V::splat(a));
    }
    p
}

/// (cos 2πx, sin 2πx), of each number. Exact to about 2e-16 for |x| up to 2^20; callers reduce
/// larger phases exactly, in integers.
#[inline(always)] // part of vectorised loops
pub(crate) fn cis_each<V: Vector>(x: V) -> (V, V) {
    let quarter = (V::splat(4.0) * x).round();
    let r = quarter.mul_add(V::splat(-0.25), x);
    let u = r * r;
    let s = r * horner(&SIN, u);
    let c = horner(&COS, u);
    // quarter mod 4 decides which of ±c, ±s is which.
    let (odd, upper) = quarter.low_bits();
    let (c1, s1) = ((-s).where_or(odd, c), c.where_or(odd, s));
    ((-c1).where_or(upper, c1), (-s1).where_or(upper, s1))
}

/// atan2(y, x)/2π in [-1/2, 1/2], of each number. Zero for x = y = 0.
#[inline(always)] // part of vectorised loops
pub(crate) fn atan2_each<V: Vector>(y: V, x: V) -> V {
    const TAN_EIGHTH: f64 = 0.414_213_562_373_095_05;
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ax.below(ay);
    let (lo, hi) = (ax.where_or(steep, ay), ay.where_or(steep, ax));
    // atan(lo/hi), reduced around 1/8 turn: (t-1)/(t+1) with t = lo/hi.
    let upper = (V::splat(TAN_EIGHTH) * hi).below(lo);
    let num = (lo - hi).where_or(upper, lo);
    let den = (lo + hi).where_or(upper, hi);
    let zero = V::splat(0.0);
    let t = num.div(den.where_or(zero.below(den), V::splat(1.0)));
    let a = t * horner(&ATAN, t * t) + V::splat(0.125).where_or(upper, zero);
    let a = (V::splat(0.25) - a).where_or(steep, a);
    let a = (V::splat(0.5) - a).where_or(x.below(zero), a);
    (-a).where_or(y.below(zero), a)
}

/// (cos 2πx, sin 2πx); see [`cis_each`].
#[inline(always)] // inherits the instruction set of vectorised callers
pub(crate) fn cis_turns(x: f64) -> (f64, f64) {
    let (c, s) = cis_each(F4::<false>::splat(x));
    (c.0[0], s.0[0])
}

/// atan2(y, x)/2π; see [`atan2_each`].
#[inline(always)] // inherits the instruction set of vectorised callers
pub(crate) fn atan2_turns(y: f64, x: f64) -> f64 {
    atan2_each(F4::<false>::splat(y), F4::splat(x)).0[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    #[test]
    fn cis_agrees_with_libm() {
        for i in -4000..4000 {
            let x = i as f64 / 1777.0;
            let (c, s) = cis_turns(x);
            let (s0, c0) = (TAU * (x - x.round())).sin_cos();
            assert!((c - c0).abs() < 4e-16 && (s - s0).abs() < 4e-16, "x = {x}");
        }
        // Quarter turns are exact.
        assert_eq!(cis_turns(0.25), (0.0, 1.0));
        assert_eq!(cis_turns(0.5).0, -1.0);
        assert_eq!(cis_turns(-0.25).1, -1.0);
    }

    #[test]
    fn atan2_agrees_with_libm() {
        for i in 0..10_000 {
            let phi = TAU * (i as f64 / 10_000.0 - 0.5);
            let r = 10f64.powi(i % 13 - 6);
            let (y, x) = (r * phi.sin(), r * phi.cos());
            assert!((atan2_turns(y, x) - y.atan2(x) / TAU).abs() < 2e-16, "phi = {phi}");
        }
        assert_eq!(atan2_turns(0.0, 0.0), 0.0);
        assert_eq!(atan2_turns(0.0, -1.0), 0.5);
        assert_eq!(atan2_turns(-1.0, 0.0), -0.25);
    }
}
