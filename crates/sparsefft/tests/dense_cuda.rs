//! The dense FFT on a GPU against the CPU. Without a GPU the tests say that they are skipped;
//! with `SPARSEFFT_REQUIRE_CUDA=1` they fail instead.
#![cfg(feature = "cuda")]

mod cuda_device;

use cuda_device::device;
use sparsefft::cuda::{CudaFft, CudaReal, Device};
use sparsefft::dense::{Direction, Fft, Real, top_k};
use sparsefft::{Complex, Error, Norm};

fn noise<T: Real>(n: usize, seed: u64) -> Vec<Complex<T>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::from_f64((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0).unwrap()
    };
    (0..n).map(|_| Complex::new(next(), next())).collect()
}

fn conform<T: CudaReal>(device: &Device, n: usize, batch: usize) {
    let wide = |z: Complex<T>| Complex::new(z.re.to_f64().unwrap(), z.im.to_f64().unwrap());
    for direction in [Direction::Forward, Direction::Inverse] {
        for norm in [Norm::Backward, Norm::Ortho] {
            let x = noise::<T>(n * batch, n as u64);
            let mut got = x.clone();
            let plan = CudaFft::<T>::new(device, n as u64).unwrap().norm(norm);
            plan.run_host(direction, &mut got).unwrap();
            let mut expected: Vec<_> = x.into_iter().map(wide).collect();
            let cpu = Fft::<f64>::new(n as u64).unwrap().norm(norm);
            cpu.batch(direction, &mut expected, &mut Default::default()).unwrap();
            let (mut off, mut size) = (0.0, 0.0);
            for (g, e) in got.iter().zip(&expected) {
                off += (wide(*g) - e).norm_sqr();
                size += e.norm_sqr();
            }
            let error: f64 = (off / size).sqrt();
            let epsilon = T::epsilon().to_f64().unwrap();
            let bound = 3.0 * epsilon * (n as f64).log2().max(1.0).sqrt();
            assert!(error <= bound, "{} n = {n}: {error:e} > {bound:e}", T::NAME);
        }
    }
}

#[test]
fn every_kind_of_length_agrees_with_the_cpu() {
    let Some(device) = device() else { return };
    for (n, batch) in [(256, 9), (512, 5), (1024, 3), (2048, 3), (4096, 2), (1 << 13, 3)]
        .into_iter()
        .chain([(1 << 16, 2), (1 << 19, 1), (1 << 20, 1), (1 << 21, 1), (1 << 22, 1)])
        .chain([(1, 3), (7, 2), (1000, 4), (3, 70_000), (65_537, 1), (300_007, 20)])
    {
        conform::<f64>(&device, n, batch);
        conform::<f32>(&device, n, batch);
    }
}

#[test]
fn the_largest_values_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let plan = CudaFft::<f64>::new(&device, 256).unwrap();
    for scale in [1.0, 1e-100, 1e100] {
        let x: Vec<_> = noise::<f64>(100_000, 1).iter().map(|v| v * scale).collect();
        let buffer = device.upload(&x).unwrap();
        for k in [0, 1, 10, 1000] {
            assert_eq!(plan.top_k(&buffer, k).unwrap(), top_k(&x, k).unwrap());
        }
    }
}

#[test]
fn bad_input_gets_typed_errors() {
    let Some(device) = device() else { return };
    assert_eq!(CudaFft::<f64>::new(&device, 0).unwrap_err(), Error::ZeroLength);
    let long = CudaFft::<f32>::new(&device, 1 << 31).unwrap_err();
    assert_eq!(long, Error::LengthTooLarge { n: 1 << 31, max: 1 << 30 });
    let plan = CudaFft::<f64>::new(&device, 256).unwrap();
    let mut short = vec![Complex::default(); 255];
    let error = plan.run_host(Direction::Forward, &mut short).unwrap_err();
    assert_eq!(error, Error::NotAMultiple { n: 256, got: 255 });
    assert!(matches!(device.alloc::<f64>(1 << 40), Err(Error::DeviceMemory { .. })));
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_that_says_so() {
    // Number 1000 exists nowhere; without a driver the reason is another one.
    let error = Device::new(1000).unwrap_err();
    assert!(matches!(error, Error::Device(_)), "{error}");
    assert!(!error.to_string().is_empty());
}
