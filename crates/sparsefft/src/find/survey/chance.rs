//! Probabilities of noise: what a bin, a mean of bins or a count exceeds by chance.
//!
//! All of them take the logarithm of the probability, since they are asked for values far below
//! the smallest f64 step beside 1.

/// ln Γ(a) for a > 0 (Lanczos, g = 7; relative error below 1e-14).
fn ln_gamma(a: f64) -> f64 {
    const G: f64 = 7.0;
    const SERIES: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = a - 1.0;
    let sum = (1..9).fold(SERIES[0], |sum, i| sum + SERIES[i] / (x + i as f64));
    let t = x + G + 0.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// ln of the probability that a Gamma(shape) variable exceeds x.
fn ln_gamma_tail(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let ln_density = shape * x.ln() - x - ln_gamma(shape);
    if x < shape + 1.0 {
        // The series of the lower tail.
        let (mut term, mut sum, mut k) = (1.0 / shape, 1.0 / shape, shape);
        while term > 1e-16 * sum {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return (-(ln_density + sum.ln()).exp()).ln_1p();
    }
    // The continued fraction of the upper tail (modified Lentz).
    let mut b = x + 1.0 - shape;
    let mut c = f64::MAX;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for i in 1..500 {
        let a = -(i as f64) * (i as f64 - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    ln_density + fraction.ln()
}

/// What a Gamma(shape) variable exceeds with probability e^`ln_p`: the sum of `shape` independent
/// bins of noise, each of mean 1.
pub(super) fn gamma_quantile(shape: f64, ln_p: f64) -> f64 {
    let mut high = shape + 10.0 - 2.0 * ln_p;
    while ln_gamma_tail(shape, high) > ln_p {
        high *= 2.0;
    }
    bisect(0.0, high, |x| ln_gamma_tail(shape, x) > ln_p)
}

/// Threshold in units of the floor for one bin of noise, where the floor itself is the unbiased
/// q-quantile of so many independent bins: Rohling's order-statistic detector.
///
/// With K = qN draws below the quantile and b = Σ_{i<K} 1/(N-i), the mean of that order statistic,
/// P(bin > T·floor) = Π_{i<K} (N-i)/(N-i+T/b).
pub(super) fn quantile_threshold(ln_p: f64, draws: f64, q: f64) -> f64 {
    let n = draws.max(8.0).floor();
    let k = (q * n).round().max(1.0) as usize;
    let mean: f64 = (0..k).map(|i| 1.0 / (n - i as f64)).sum();
    let ln_exceeded = |t: f64| -> f64 {
        (0..k)
            .map(|i| {
                let left = n - i as f64;
                -(t / (mean * left)).ln_1p()
            })
            .sum()
    };
    bisect(0.0, 16.0, |ln_t| ln_exceeded(f64::exp(ln_t)) > ln_p).exp()
}

/// Probability that more than `k` of `n` independent trials of probability p succeed.
pub(super) fn binomial_tail(k: usize, n: usize, p: f64) -> f64 {
    if k >= n || p <= 0.0 {
        return 0.0;
    }
    let n_f = n as f64;
    (k + 1..=n)
        .map(|j| {
            let j = j as f64;
            let ways = ln_gamma(n_f + 1.0) - ln_gamma(j + 1.0) - ln_gamma(n_f - j + 1.0);
            (ways + j * p.ln() + (n_f - j) * (-p).ln_1p()).exp()
        })
        .sum()
}

/// Where a condition that holds at `low` ceases to hold.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if holds(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_quantiles_are_those_of_tables() {
        // One bin of noise is exponential.
        assert!((gamma_quantile(1.0, (1e-11f64).ln()) - 25.328_436).abs() < 1e-5);
        // Half of chi-square quantiles: 10 degrees of freedom at 5 %, 4 at 0.1 %.
        assert!((gamma_quantile(5.0, (0.05f64).ln()) - 18.307_038 / 2.0).abs() < 1e-5);
        assert!((gamma_quantile(2.0, (0.001f64).ln()) - 18.466_827 / 2.0).abs() < 1e-5);
        assert!((gamma_quantile(50.0, (0.5f64).ln()) - 99.334_129 / 2.0).abs() < 1e-4);
    }

    #[test]
    fn thresholds_grow_where_the_floor_rests_on_few_bins() {
        let db = |draws| 10.0 * quantile_threshold((1e-11f64).ln(), draws, 0.4).log10();
        for (draws, expected) in [(12.0, 29.0), (25.0, 20.7), (100.0, 15.5), (1000.0, 14.2)] {
            assert!((db(draws) - expected).abs() < 0.15, "{draws}: {}", db(draws));
        }
    }

    #[test]
    fn binomial_tails_are_sums() {
        assert!((binomial_tail(0, 10, 0.1) - (1.0 - 0.9f64.powi(10))).abs() < 1e-12);
        assert!((binomial_tail(1, 2, 0.5) - 0.25).abs() < 1e-12);
        assert_eq!(binomial_tail(5, 5, 0.5), 0.0);
    }
}
