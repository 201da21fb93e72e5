//! ladder: at which offsets a noisy bin must be measured for its frequency to be placed.
//!
//! The phase between neighbouring shifts is known to about 1/(2π·3√γ) turns at a bin
//! signal-to-noise ratio γ. A line at the offset D measures the same phase D times as finely, if
//! what is known already tells which of its turns is meant.

use super::locate::MAX_LINES;

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

/// Standard deviations c that these offsets leave, as [`ladder`] counts them.
#[cfg(feature = "cuda")]
pub(crate) fn margin(offsets: &[u64], gamma: f64, n: u64, unit: u64) -> f64 {
    let tau = std::f64::consts::TAU;
    let mut error = 1.0 / (tau * 3.0 * gamma.sqrt());
    let mut c = f64::INFINITY;
    for (j, &d) in offsets.iter().enumerate().skip(1) {
        let phase = ((1.0 + 1.0 / j as f64) / (8.0 * gamma)).sqrt() / tau;
        c = c.min(0.5 / (d as f64 * error + phase));
        error = phase / d as f64;
    }
    c.min(unit as f64 / (2.0 * n as f64) / error)
}

#[cfg(test)]
mod tests {
    use super::*;

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
