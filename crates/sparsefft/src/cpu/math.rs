//! Phases in turns: e^{2πix} and atan2/2π as short polynomials without branches, so that loops
//! over arrays of them become vector code.
//!
//! Coefficients are Chebyshev fits computed to 40 digits; the fit errors are 2e-17 (sine),
//! 3e-20 (cosine) and 6e-18 (arc tangent), below the rounding of the evaluation.

/// Coefficients in u = x², highest power first, of sin(2πx)/x on |x| ≤ 1/8.
const SIN: [f64; 7] = [
    3.780_868_959_302_295_5,
    -15.093_804_209_987_114,
    42.058_685_020_160_894,
    -76.705_859_704_274_55,
    81.605_249_275_948_04,
    -41.341_702_240_399_636,
    6.283_185_307_179_586,
];
/// The same for cos(2πx).
const COS: [f64; 8] = [
    -1.696_849_470_291_882_7,
    7.903_091_687_751_697_6,
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
    0.009_053_288_974_796_149,
    -0.010_568_260_533_143_65,
    0.012_238_941_110_840_395,
    -0.014_468_414_713_824_675,
    0.017_683_874_718_384_725,
    -0.022_736_420_275_003_918,
    0.031_830_988_616_556_918,
    -0.053_051_647_697_290_66,
    0.159_154_943_091_895_33,
];

#[inline(always)] // part of vectorised loops
fn horner<const N: usize>(c: &[f64; N], u: f64) -> f64 {
    let mut p = c[0];
    for &a in &c[1..] {
        p = p * u + a;
    }
    p
}

/// (cos 2πx, sin 2πx). Exact to about 2e-16 for |x| up to 2^20; callers reduce larger phases
/// exactly, in integers.
#[inline(always)] // part of vectorised loops
pub(crate) fn cis_turns(x: f64) -> (f64, f64) {
    let quarter = (4.0 * x).round_ties_even();
    let r = x - 0.25 * quarter;
    let u = r * r;
    let s = r * horner(&SIN, u);
    let c = horner(&COS, u);
    // quarter mod 4 decides which of ±c, ±s is which; in floats, because conversions to integers
    // do not vectorise everywhere.
    let q = quarter - 4.0 * (0.25 * quarter).floor();
    let odd = q == 1.0 || q == 3.0;
    let (c1, s1) = if odd { (-s, c) } else { (c, s) };
    let sign = if q >= 2.0 { -1.0 } else { 1.0 };
    (sign * c1, sign * s1)
}

/// atan2(y, x)/2π in [-1/2, 1/2]. Zero for x = y = 0.
#[inline(always)] // part of vectorised loops
pub(crate) fn atan2_turns(y: f64, x: f64) -> f64 {
    const TAN_EIGHTH: f64 = 0.414_213_562_373_095_05;
    let (ax, ay) = (x.abs(), y.abs());
    let (lo, hi) = if ay > ax { (ax, ay) } else { (ay, ax) };
    // atan(lo/hi), reduced around 1/8 turn: (t-1)/(t+1) with t = lo/hi.
    let upper = lo > TAN_EIGHTH * hi;
    let (num, den) = if upper { (lo - hi, lo + hi) } else { (lo, hi) };
    let t = num / if den > 0.0 { den } else { 1.0 };
    let a = t * horner(&ATAN, t * t) + if upper { 0.125 } else { 0.0 };
    let a = if ay > ax { 0.25 - a } else { a };
    let a = if x < 0.0 { 0.5 - a } else { a };
    if y < 0.0 { -a } else { a }
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
