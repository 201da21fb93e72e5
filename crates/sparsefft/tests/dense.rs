//! The dense FFT against its references: the naive DFT, an iterative radix-2 transform, sums in
//! double-double arithmetic, RustFFT, FFTW, and closed forms. Bound everywhere: relative L2 error
//! ≤ 3 ε √log2 n.

use sparsefft::dense::{Direction, Fft, Real, RealFft, Threads, Workspace, top_k};
use sparsefft::{Complex, Error, Norm};
use std::f64::consts::TAU;
use testkit::fftw::{Effort, Fftw};
use testkit::oracle;

/// Sums in double-double arithmetic.
mod reference {
    use super::*;

    /// An unevaluated sum of two f64: about 32 digits.
    #[derive(Clone, Copy)]
    pub struct Double(f64, f64);

    impl Double {
        pub const ZERO: Double = Double(0.0, 0.0);

        pub fn new(a: f64) -> Self {
            Double(a, 0.0)
        }
        pub fn value(self) -> f64 {
            self.0 + self.1
        }
        pub fn plus(self, o: Double) -> Double {
            let s = self.0 + o.0;
            let b = s - self.0;
            let e = (self.0 - (s - b)) + (o.0 - b) + self.1 + o.1;
            Double(s + e, e - ((s + e) - s))
        }
        pub fn minus(self, o: Double) -> Double {
            self.plus(Double(-o.0, -o.1))
        }
        pub fn times(self, o: Double) -> Double {
            let p = self.0 * o.0;
            let e = self.0.mul_add(o.0, -p) + self.0 * o.1 + self.1 * o.0;
            Double(p + e, e - ((p + e) - p))
        }
        /// One Newton step from the f64 root doubles its digits.
        pub fn sqrt(self) -> Double {
            let r = Double::new(self.0.sqrt());
            let rest = self.minus(r.times(r));
            r.plus(Double::new(rest.value() / (2.0 * r.0)))
        }
        pub fn over(self, o: Double) -> Double {
            let q = Double::new(self.0 / o.0);
            let rest = self.minus(q.times(o));
            q.plus(Double::new(rest.value() / o.0))
        }
    }

    pub type Wide = (Double, Double);

    pub fn times(a: Wide, b: Wide) -> Wide {
        let re = a.0.times(b.0).minus(a.1.times(b.1));
        (re, a.0.times(b.1).plus(a.1.times(b.0)))
    }

    /// e^{-2πi/2^bits} for bits ≥ 2, by halving the angle.
    pub fn root(bits: u32) -> Wide {
        let half = Double::new(0.5);
        let (mut c, mut s) = (Double::ZERO, Double::new(-1.0));
        for _ in 2..bits {
            let next = c.plus(Double::new(1.0)).times(half).sqrt();
            s = s.times(half).over(next);
            c = next;
        }
        (c, s)
    }

    /// X\[f\] for n = 2^bits, summed in double-double.
    pub fn coefficient(x: &[Complex<f64>], f: usize) -> Complex<f64> {
        let n = x.len();
        let bits = n.trailing_zeros();
        // w^f, then its powers through two tables.
        let mut step = (Double::new(1.0), Double::ZERO);
        let mut square = root(bits);
        for b in 0..bits {
            if f >> b & 1 == 1 {
                step = times(step, square);
            }
            square = times(square, square);
        }
        let low_bits = bits / 2;
        let powers = |base: Wide, count: usize| {
            let mut p = vec![(Double::new(1.0), Double::ZERO)];
            for i in 1..count {
                p.push(times(p[i - 1], base));
            }
            p
        };
        let low = powers(step, 1 << low_bits);
        let high = powers(times(low[(1 << low_bits) - 1], step), n >> low_bits);
        let mut total = (Double::ZERO, Double::ZERO);
        for (h, block) in high.iter().zip(x.chunks(1 << low_bits)) {
            let mut sum = (Double::ZERO, Double::ZERO);
            for (v, w) in block.iter().zip(&low) {
                let term = times((Double::new(v.re), Double::new(v.im)), *w);
                sum = (sum.0.plus(term.0), sum.1.plus(term.1));
            }
            let turned = times(sum, *h);
            total = (total.0.plus(turned.0), total.1.plus(turned.1));
        }
        Complex::new(total.0.value(), total.1.value())
    }
}

/// Noise with a fixed seed.
fn noise(n: usize, seed: u64) -> Vec<Complex<f64>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // 24 bits: the same value in f32 and f64.
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    (0..n).map(|_| Complex::new(next(), next())).collect()
}

fn to<T: Real>(x: &[Complex<f64>]) -> Vec<Complex<T>> {
    let real = |v: f64| T::from_f64(v).unwrap();
    x.iter().map(|v| Complex::new(real(v.re), real(v.im))).collect()
}

fn error<T: Real>(got: &[Complex<T>], expected: &[Complex<f64>]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let wide = |v: T| v.to_f64().unwrap();
    let (mut off, mut size) = (0.0, 0.0);
    for (g, e) in got.iter().zip(expected) {
        off += (Complex::new(wide(g.re), wide(g.im)) - e).norm_sqr();
        size += e.norm_sqr();
    }
    (off / size).sqrt()
}

fn bound<T: Real>(n: usize) -> f64 {
    3.0 * T::epsilon().to_f64().unwrap() * (n as f64).log2().max(1.0).sqrt()
}

fn check<T: Real>(got: &[Complex<T>], expected: &[Complex<f64>], what: &str) {
    let (n, e) = (got.len(), error(got, expected));
    assert!(e <= bound::<T>(n), "{what}, {}, n = {n}: error {e:e} > {:e}", T::NAME, bound::<T>(n));
}

/// Both directions, in place and not.
fn conform<T: Real>(x: &[Complex<f64>], forward: &[Complex<f64>]) {
    let n = x.len();
    let plan = Fft::<T>::new(n as u64).unwrap();
    let input = to::<T>(x);
    let mut y = input.clone();
    plan.forward(&mut y).unwrap();
    check(&y, forward, "forward");
    let mut z = vec![Complex::new(T::nan(), T::nan()); n];
    plan.forward_into(&input, &mut z).unwrap();
    assert!(y == z, "in place and out of place differ at n = {n}");
    // Back from the exact coefficients, rounded once.
    let mut back = to::<T>(forward);
    plan.inverse(&mut back).unwrap();
    check(&back, x, "inverse");
    plan.inverse_into(&to::<T>(forward), &mut z).unwrap();
    assert!(back == z, "in place and out of place differ at n = {n}");
}

#[test]
fn short_lengths_agree_with_the_naive_dft() {
    for n in (1..=70).chain([97, 100, 127, 128, 210, 255, 256, 257, 1000, 1021, 2048]) {
        let x = noise(n, n as u64);
        let mut expected = oracle::naive(&x);
        if n > 256 {
            // The naive sum itself is off by about ε√n: it vouches for the finer reference.
            let finer = oracle::dense(&x);
            assert!(error(&finer, &expected) < 2e-15 * (n as f64).sqrt());
            expected = finer;
        }
        conform::<f64>(&x, &expected);
        conform::<f32>(&x, &expected);
    }
}

#[test]
fn powers_of_two_agree_with_the_iterative_transform() {
    for bits in [0, 1, 4, 9, 12, 16, 20, 21] {
        let x = noise(1 << bits, 7);
        let expected = oracle::radix2(&x);
        conform::<f64>(&x, &expected);
        conform::<f32>(&x, &expected);
    }
}

#[test]
fn long_lengths_of_every_kind_agree_with_rustfft() {
    // Smooth, a product of two primes, a prime, twice a prime.
    for n in [1_100_000, 3 << 19, 1049 * 1051, 1_048_583, 2 * 524_309] {
        let x = noise(n, 3);
        let expected = oracle::dense(&x);
        conform::<f64>(&x, &expected);
        conform::<f32>(&x, &expected);
    }
}

#[test]
fn lengths_of_every_kind_agree_with_fftw() {
    for n in [2usize, 60, 1009, 1 << 12, 100_000, 1 << 17, 1 << 18, 1 << 20, 1_048_583] {
        let x = noise(n, n as u64);
        let mut expected = x.clone();
        let Some(fftw) = Fftw::new(&mut expected, Effort::Estimate) else {
            println!("skipped: FFTW is not installed (Debian: libfftw3-double3)");
            assert!(std::env::var_os("SPARSEFFT_REQUIRE_FFTW").is_none(), "FFTW is required");
            return;
        };
        expected.copy_from_slice(&x);
        fftw.run(&mut expected);
        conform::<f64>(&x, &expected);
        conform::<f32>(&x, &expected);
    }
}

/// With a chirp all coefficients have one size, and their real and imaginary parts every size
/// below it: none of them, however small, is far off. `examples/dense_bench.rs` does the same at
/// 2^26 (`26 26 accuracy`).
#[test]
fn no_small_part_of_a_long_transform_is_far_off() {
    let n = 1u64 << 22;
    // A constant turn keeps the parts away from exact zeros, which have no relative error.
    let turn = Complex::cis(0.3);
    let mut x: Vec<_> = (0..n).map(|t| turn * oracle::chirp(t, n)).collect();
    Fft::new(n).unwrap().forward(&mut x).unwrap();
    let exact: Vec<_> = (0..n).map(|f| turn * oracle::chirp_transform(f, n)).collect();
    check(&x, &exact, "chirp");
    for (f, (got, exact)) in x.iter().zip(&exact).enumerate() {
        for (got, exact) in [(got.re, exact.re), (got.im, exact.im)] {
            let relative = (got - exact).abs() / exact.abs();
            // The smallest of 2^23 parts is about 2^-23 of the largest: ε·2^23·√log2 n is 1e-8.
            assert!(relative < 1e-8, "a part of X[{f}] is {got} instead of {exact}");
        }
    }
}

#[test]
fn a_long_transform_agrees_with_double_double_sums() {
    let n = 1 << 22;
    let x = noise(n, 11);
    let mut y = x.clone();
    Fft::new(n as u64).unwrap().forward(&mut y).unwrap();
    let mut y32 = to::<f32>(&x);
    Fft::new(n as u64).unwrap().forward(&mut y32).unwrap();
    let places = [0, 1, 2, 1023, 2048, 4097, n / 4, n / 2 - 1, n / 2, 3_000_017, n - 1];
    let exact: Vec<_> = places.iter().map(|&f| reference::coefficient(&x, f)).collect();
    let got: Vec<_> = places.iter().map(|&f| y[f]).collect();
    let got32: Vec<_> = places.iter().map(|&f| y32[f]).collect();
    let (e, e32) = (error(&got, &exact), error(&got32, &exact));
    assert!(e <= bound::<f64>(n), "{e:e}");
    assert!(e32 <= bound::<f32>(n), "{e32:e}");
    // No single output is far off.
    for (g, e) in got.iter().zip(&exact) {
        assert!((g - e).norm() <= 1e-12 * e.norm(), "{g} instead of {e}");
    }
}

#[test]
fn small_outputs_beside_large_ones_stay_right() {
    // One tone and another a million times smaller: the error of every output is a fraction of
    // the largest, and that fraction is ε√log n.
    let n = 1 << 21;
    let tone = |f: usize, t: usize| Complex::cis(TAU * ((f * t) % n) as f64 / n as f64);
    let mut x: Vec<_> = (0..n).map(|t| tone(5, t) + 1e-6 * tone(777_777, t)).collect();
    Fft::new(n as u64).unwrap().forward(&mut x).unwrap();
    let size = n as f64;
    assert!((x[5] / size - 1.0).norm() < 1e-14);
    assert!((x[777_777] / size - 1e-6).norm() < 1e-6 * 1e-8);
    let rest = x.iter().enumerate().filter(|(f, _)| *f != 5 && *f != 777_777);
    let worst = rest.map(|(_, v)| v.norm()).fold(0.0, f64::max) / size;
    assert!(worst < 1e-14, "{worst:e}");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for n in [1usize << 20, 1_100_000, 1_048_583] {
        let x = noise(n, 5);
        let plan = Fft::new(n as u64).unwrap();
        let mut one = x.clone();
        plan.clone().threads(Threads::One).forward(&mut one).unwrap();
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut y = x.clone();
            pool.install(|| plan.forward(&mut y)).unwrap();
            assert!(y == one, "n = {n}: {threads} threads differ from one");
        }
        // A buffer that does not start on a cache line.
        let mut shifted = vec![Complex::default(); n + 1];
        shifted[1..].copy_from_slice(&x);
        plan.forward(&mut shifted[1..]).unwrap();
        assert!(shifted[1..] == one, "n = {n}: alignment changes the result");
    }
}

#[test]
fn batches_are_single_transforms() {
    let mut space = Workspace::new();
    for (n, count) in [(1, 5), (60, 7), (1 << 12, 33), (1 << 20, 2), (1_048_583, 2)] {
        let x = noise(n * count, 9);
        let plan = Fft::new(n as u64).unwrap();
        let mut batch = x.clone();
        plan.batch(Direction::Forward, &mut batch, &mut space).unwrap();
        let mut into = vec![Complex::default(); n * count];
        plan.batch_into(Direction::Forward, &x, &mut into, &mut space).unwrap();
        assert!(batch == into);
        for (signal, got) in x.chunks(n).zip(batch.chunks(n)) {
            let mut y = signal.to_vec();
            plan.forward(&mut y).unwrap();
            assert!(y == got, "n = {n}");
        }
        plan.batch(Direction::Inverse, &mut batch, &mut space).unwrap();
        let e = error(&batch, &x);
        assert!(e <= 2.0 * bound::<f64>(n), "there and back, n = {n}: {e:e}");
    }
    let plan = Fft::<f64>::new(8).unwrap();
    plan.batch(Direction::Forward, &mut [], &mut space).unwrap();
}

#[test]
fn norms_put_the_factor_where_they_say() {
    for n in [1usize, 12, 1 << 20] {
        let x = noise(n, 2);
        let plain = oracle::dense(&x);
        let plan = Fft::<f64>::new(n as u64).unwrap();
        for (norm, factor) in [
            (Norm::Backward, 1.0),
            (Norm::Ortho, 1.0 / (n as f64).sqrt()),
            (Norm::Forward, 1.0 / n as f64),
        ] {
            let mut y = x.clone();
            plan.clone().norm(norm).forward(&mut y).unwrap();
            let expected: Vec<_> = plain.iter().map(|v| v * factor).collect();
            check(&y, &expected, "norm");
            let mut back = expected.clone();
            plan.clone().norm(norm).inverse(&mut back).unwrap();
            check(&back, &x, "norm, back");
        }
    }
}

fn real_conform<T: Real>(n: usize) {
    let x: Vec<f64> = noise(n, n as u64).iter().map(|v| v.re).collect();
    let full: Vec<_> = x.iter().map(|&v| Complex::new(v, 0.0)).collect();
    let expected = oracle::dense(&full);
    let half = &expected[..n / 2 + 1];
    let input: Vec<T> = x.iter().map(|&v| T::from_f64(v).unwrap()).collect();
    let plan = RealFft::<T>::new(n as u64).unwrap();
    assert_eq!(plan.coefficients() as usize, half.len());
    let mut y = vec![Complex::new(T::nan(), T::nan()); half.len()];
    plan.forward(&input, &mut y).unwrap();
    let e = error(&y, half);
    assert!(e <= bound::<T>(n), "{} n = {n}: {e:e}", T::NAME);
    assert_eq!(y[0].im, T::zero());
    let mut back = vec![T::nan(); n];
    plan.inverse(&to::<T>(half), &mut back).unwrap();
    let back: Vec<_> = back.iter().map(|&v| Complex::new(v, T::zero())).collect();
    check(&back, &full, "real inverse");
    // One thread gives the same bits.
    let mut one = y.clone();
    plan.threads(Threads::One).forward(&input, &mut one).unwrap();
    assert!(one == y);
}

#[test]
fn real_transforms_agree_with_complex_ones() {
    for n in (1..=40).chain([255, 256, 1000, 4096, 65_537, 1 << 17, 1 << 21, 1_100_001, 2_097_166])
    {
        real_conform::<f64>(n);
        real_conform::<f32>(n);
    }
}

#[test]
fn real_norms_and_ignored_parts() {
    let plan = RealFft::<f64>::new(6).unwrap().norm(Norm::Ortho);
    let x = [1.0, -2.0, 0.5, 3.0, 0.0, 1.5];
    let mut y = [Complex::default(); 4];
    plan.forward(&x, &mut y).unwrap();
    assert!((y[0].re - 4.0 / 6f64.sqrt()).abs() < 1e-15);
    y[0].im = 17.0;
    y[3].im = 17.0;
    let mut back = [0.0; 6];
    plan.inverse(&y, &mut back).unwrap();
    assert!(x.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-14));
}

#[test]
fn top_k_is_a_sort_without_sorting() {
    for n in [1usize, 63, 64, 1000, 300_000] {
        let mut x = noise(n, 4);
        // Ties, far apart and close together.
        for i in (0..n).step_by(97) {
            x[i] = Complex::new(0.0, 1.25);
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| x[b].norm_sqr().total_cmp(&x[a].norm_sqr()).then(a.cmp(&b)));
        for k in [0, 1, 2, 31, 50, 1000, n] {
            if k > n {
                let too_large = Error::SparsityTooLarge { k: k as u64, n: n as u64 };
                assert_eq!(top_k(&x, k).unwrap_err(), too_large);
                continue;
            }
            let top = top_k(&x, k).unwrap();
            let got: Vec<_> = top.iter().map(|p| p.index as usize).collect();
            assert_eq!(got, order[..k], "n = {n}, k = {k}");
            assert!(top.iter().all(|p| p.value == x[p.index as usize]));
        }
    }
    let zeros = vec![Complex::<f32>::default(); 500];
    assert_eq!(top_k(&zeros, 3).unwrap().iter().map(|p| p.index).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn bad_input_gets_typed_errors_with_both_sizes() {
    assert_eq!(Fft::<f64>::new(0).unwrap_err(), Error::ZeroLength);
    assert_eq!(RealFft::<f32>::new(0).unwrap_err(), Error::ZeroLength);
    assert!(matches!(Fft::<f64>::new(u64::MAX), Err(Error::LengthTooLarge { .. })));
    let plan = Fft::<f64>::new(8).unwrap();
    let mut seven = vec![Complex::default(); 7];
    let mut eight = vec![Complex::default(); 8];
    let mismatch = Error::LengthMismatch { expected: 8, got: 7 };
    assert_eq!(plan.forward(&mut seven).unwrap_err(), mismatch);
    assert_eq!(plan.inverse_into(&seven, &mut eight).unwrap_err(), mismatch);
    let output = Error::BufferLength { what: "output", expected: 8, got: 7 };
    assert_eq!(plan.forward_into(&eight, &mut seven).unwrap_err(), output);
    assert_eq!(
        plan.batch(Direction::Forward, &mut seven, &mut Workspace::new()).unwrap_err(),
        Error::NotAMultiple { n: 8, got: 7 }
    );
    let real = RealFft::<f64>::new(8).unwrap();
    assert_eq!(
        real.forward(&[0.0; 7], &mut eight).unwrap_err(),
        Error::LengthMismatch { expected: 8, got: 7 }
    );
    assert_eq!(
        real.forward(&[0.0; 8], &mut eight).unwrap_err(),
        Error::BufferLength { what: "output", expected: 5, got: 8 }
    );
    assert_eq!(
        real.inverse(&eight, &mut [0.0; 8]).unwrap_err(),
        Error::BufferLength { what: "input", expected: 5, got: 8 }
    );
    let nan = [Complex::new(1.0, 0.0), Complex::new(f64::NAN, 0.0)];
    assert!(matches!(top_k(&nan, 1), Err(Error::NonFinite { index: 1, .. })));
    let large = [Complex::new(1e200, 0.0)];
    assert!(matches!(top_k(&large, 1), Err(Error::Overflow { .. })));
}
