//! The dense FFT on a GPU: checks against the CPU, then times beside cuFFT.
//!
//! `dense_cuda_bench [VARIANTS] [check] [time]`: VARIANTS is a folder of kernels made by
//! `cargo xtask kernels --variants`; without words, both parts run. cuFFT is opened at run time
//! if the machine has it (`CUFFT_LIBRARY`, the library path, and the usual places are tried).
//! Times are medians of rounds between two events; all work in place on the same data.

mod cufft;

use cudarc::driver::{DevicePtr, sys};
use cufft::Cufft;
use sparsefft::cuda::{Buffer, CudaFft, CudaReal, Device, Layout};
use sparsefft::dense::{Direction, Fft, Real, top_k};
use sparsefft::{Complex, Norm};
use std::ffi::c_int;
use std::path::Path;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

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

fn wide<T: Real>(z: Complex<T>) -> Complex<f64> {
    Complex::new(z.re.to_f64().unwrap(), z.im.to_f64().unwrap())
}

/// Error over the bound 3 ε √log2 n, against the CPU in f64.
fn error<T: CudaReal>(
    device: &Device,
    plan: &CudaFft<T>,
    batch: usize,
    direction: Direction,
) -> Result<f64, Failure> {
    let n = plan.len() as usize;
    let x = noise::<T>(n * batch, n as u64);
    let mut data = device.upload(&x)?;
    plan.run(direction, &mut data)?;
    let got = data.download()?;
    let mut expected: Vec<Complex<f64>> = x.into_iter().map(wide).collect();
    Fft::new(n as u64)?.batch(direction, &mut expected, &mut Default::default())?;
    let (mut off, mut size) = (0.0, 0.0);
    for (g, e) in got.iter().zip(&expected) {
        off += (wide(*g) - e).norm_sqr();
        size += e.norm_sqr();
    }
    let bound = 3.0 * T::epsilon().to_f64().unwrap() * (n as f64).log2().max(1.0).sqrt();
    let ratio = (off / size).sqrt() / bound;
    Ok(if ratio.is_finite() { ratio } else { f64::INFINITY })
}

fn check<T: CudaReal>(device: &Device, failures: &mut u32) -> Result<(), Failure> {
    let mut report = |what: String, ratio: f64| {
        let good = ratio <= 1.0;
        *failures += u32::from(!good);
        println!("{} {what}: {ratio:.3} of the bound", if good { "ok  " } else { "FAIL" });
    };
    let mut worst: f64 = 0.0;
    for log_n in (8..=22).chain([24, 27]) {
        let n = 1u64 << log_n;
        let plan = CudaFft::<T>::new(device, n)?;
        let batch = if log_n <= 16 { 5 } else { 1 };
        let mut here: f64 = 0.0;
        for direction in [Direction::Forward, Direction::Inverse] {
            if log_n > 22 && direction == Direction::Inverse {
                continue;
            }
            here = here.max(error(device, &plan, batch, direction)?);
        }
        if here > 1.0 {
            report(format!("{} 2^{log_n} batch {batch}", T::NAME), here);
        }
        worst = worst.max(here);
    }
    report(format!("{} powers of two 2^8 … 2^22, 2^24, 2^27, both ways, batches", T::NAME), worst);
    let mut worst: f64 = 0.0;
    for n in [1, 2, 3, 5, 100, 128, 255, 1000, 1009, 4097, 65_537, 100_000, 1_000_003] {
        let plan = CudaFft::<T>::new(device, n)?;
        for direction in [Direction::Forward, Direction::Inverse] {
            let here = error(device, &plan, 2, direction)?;
            if here > 1.0 {
                report(format!("{} n = {n} {direction:?}", T::NAME), here);
            }
            worst = worst.max(here);
        }
    }
    report(format!("{} other lengths 1 … 1000003, both ways", T::NAME), worst);

    // Large batches, cut into groups.
    let plan = CudaFft::<T>::new(device, 1 << 13)?;
    let ratio = error(device, &plan, 5000, Direction::Forward)?;
    report(format!("{} 5000 signals of 2^13", T::NAME), ratio);
    let plan = CudaFft::<T>::new(device, 1 << 9)?.norm(Norm::Backward);
    let ratio = error(device, &plan, 10_001, Direction::Inverse)?;
    report(format!("{} 10001 signals of 2^9", T::NAME), ratio);

    // The longest: the transform of an impulse is known in closed form.
    let log_n = if size_of::<T>() == 4 { 30 } else { 29 };
    let n = 1usize << log_n;
    let t0 = 123_456_789usize % n;
    let mut impulse = vec![Complex::<T>::default(); n];
    impulse[t0].re = T::one();
    let mut data = device.upload(&impulse)?;
    CudaFft::<T>::new(device, n as u64)?.run(Direction::Forward, &mut data)?;
    data.read(&mut impulse)?;
    let mut most: f64 = 0.0;
    for i in 0..1_000_000usize {
        let f = i.wrapping_mul(2_654_435_761) % n;
        let turns = (f as u128 * t0 as u128 % n as u128) as f64 / n as f64;
        most = most.max((wide(impulse[f]) - Complex::cis(-std::f64::consts::TAU * turns)).norm());
    }
    let bound = 3.0 * T::epsilon().to_f64().unwrap() * (log_n as f64).sqrt();
    report(format!("{} impulse at 2^{log_n}", T::NAME), most / bound);

    // The largest values.
    let x = noise::<T>(1 << 20, 3);
    let buffer = device.upload(&x)?;
    let plan = CudaFft::<T>::new(device, 1 << 20)?;
    for k in [0, 1, 50, 1000] {
        let same = plan.top_k(&buffer, k)? == top_k(&x, k)?;
        report(format!("{} top {k} of 2^20", T::NAME), if same { 0.0 } else { f64::INFINITY });
    }
    Ok(())
}

/// Median time in microseconds of one run.
fn time<T: CudaReal>(
    device: &Device,
    fresh: &Buffer<T>,
    data: &mut Buffer<T>,
    mut run: impl FnMut(&mut Buffer<T>) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let stream = device.stream();
    let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let (begin, end) = (stream.context().new_event(flags)?, stream.context().new_event(flags)?);
    let bytes = data.len() * size_of::<Complex<T>>();
    let repeats = (200_000_000 / bytes).clamp(2, 20);
    let mut times = Vec::new();
    for round in 0..10 {
        let (to, _a) = data.parts().device_ptr(stream);
        let (from, _b) = fresh.parts().device_ptr(stream);
        // SAFETY: both buffers have this many bytes.
        unsafe { cudarc::driver::result::memcpy_dtod_async(to, from, bytes, stream.cu_stream())? };
        drop((_a, _b));
        begin.record(stream)?;
        for _ in 0..repeats {
            run(data)?;
        }
        end.record(stream)?;
        end.synchronize()?;
        if round >= 2 {
            times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3 / repeats as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn cufft_time<T: CudaReal>(
    device: &Device,
    cufft: Cufft,
    n: usize,
    fresh: &Buffer<T>,
    data: &mut Buffer<T>,
) -> Result<f64, Failure> {
    let double = size_of::<T>() == 8;
    let batch = (data.len() / n) as c_int;
    let mut handle = 0;
    // SAFETY: cuFFT's documented calls, on the context that the device has made current.
    unsafe {
        let kind = if double { 0x69 } else { 0x29 };
        let rc = (cufft.plan)(&mut handle, n as c_int, kind, batch);
        if rc != 0 {
            return Err(format!("cufftPlan1d: {rc}").into());
        }
        (cufft.stream)(handle, device.stream().cu_stream().cast());
    }
    let result = time(device, fresh, data, |data| {
        let (at, _guard) = data.parts().device_ptr(device.stream());
        // SAFETY: as above; the buffer holds the batch.
        let rc = unsafe { (cufft.exec[usize::from(double)])(handle, at, at, -1) };
        if rc == 0 { Ok(()) } else { Err(format!("cufftExec: {rc}").into()) }
    });
    // SAFETY: the plan is no longer used.
    unsafe { (cufft.destroy)(handle) };
    result
}

/// The layout in a name such as `f64_p33334_c33332s.ptx`.
fn layout(name: &str) -> Option<Layout> {
    let digits = |mark: char| -> Option<[u32; 5]> {
        let text = name.split('_').find(|part| part.starts_with(mark))?;
        let v: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).take(5).collect();
        v.try_into().ok()
    };
    Some(Layout { points: digits('p')?, columns: digits('c')? })
}

fn benchmark<T: CudaReal>(
    device: &Device,
    cufft: Option<Cufft>,
    variants: &[(String, String)],
) -> Result<(), Failure> {
    let begin = Instant::now();
    let first = CudaFft::<T>::new(device, 1 << 20)?;
    println!("{} kernels loaded in {:.2} s", T::NAME, begin.elapsed().as_secs_f64());
    let mut plans: Vec<(String, CudaFft<T>)> = vec![("default".into(), first)];
    for (name, text) in variants.iter().filter(|(name, _)| name.starts_with(T::NAME)) {
        let Some(layout) = layout(name) else { continue };
        let short = name.trim_end_matches(".ptx").to_string();
        plans.push((short, CudaFft::<T>::tuned(device, 1 << 20, text, layout, None)?));
    }
    for log_n in 17..=28u32 {
        let n = 1usize << log_n;
        let x = noise::<T>(n.min(1 << 24), 1);
        let mut host = x.clone();
        while host.len() < n {
            host.extend_from_slice(&x);
        }
        let fresh = device.upload(&host)?;
        drop(host);
        let mut data = device.alloc::<T>(n)?;
        let peer = match cufft {
            Some(cufft) => cufft_time(device, cufft, n, &fresh, &mut data)?,
            None => f64::NAN,
        };
        let mut others: Vec<Vec<u32>> = Vec::new();
        match log_n {
            17 => others.push(vec![8, 9]),
            18..=20 => {
                let third = log_n / 3;
                others.push(vec![log_n - 2 * third, third, third]);
            }
            22 => others.push(vec![7, 8, 7]),
            25 | 26 => others.push(vec![8, 8, log_n - 16]),
            28 => others.push(vec![9, 9, 10]),
            _ => {}
        }
        let gigabytes = 2e-9 * (n * size_of::<Complex<T>>()) as f64;
        println!("{} 2^{log_n}: cuFFT {peer:.1} us", T::NAME);
        for (name, base) in &plans {
            for radices in std::iter::once(None).chain(others.iter().map(Some)) {
                if radices.is_some_and(|r| r.iter().any(|b| !(6..=10).contains(b))) {
                    continue;
                }
                let plan = base.with_radices(n as u64, radices.map(Vec::as_slice))?;
                let plan = plan.norm(Norm::Ortho);
                let us =
                    time(
                        device,
                        &fresh,
                        &mut data,
                        |data| Ok(plan.run(Direction::Forward, data)?),
                    )?;
                let label = radices.map_or(String::new(), |r| format!("{r:?}"));
                println!(
                    "    {name:<22}{label:<12} {us:>9.1} us  {:>5.2}x cuFFT  {:>6.0} GB/s effective",
                    peer / us,
                    gigabytes / (us * 1e-6)
                );
            }
        }
    }
    for (n, count) in [(256usize, 1usize << 16), (4096, 1 << 12), (65_536, 256), (1000, 1000)] {
        let fresh = device.upload(&noise::<T>(n * count, 1))?;
        let mut data = device.alloc::<T>(n * count)?;
        let peer = match cufft {
            Some(cufft) => cufft_time(device, cufft, n, &fresh, &mut data)?,
            None => f64::NAN,
        };
        let plan = CudaFft::<T>::new(device, n as u64)?.norm(Norm::Ortho);
        let us = time(device, &fresh, &mut data, |data| Ok(plan.run(Direction::Forward, data)?))?;
        println!(
            "{} {count} x {n}: cuFFT {peer:.1} us, ours {us:.1} us, {:.2}x",
            T::NAME,
            peer / us
        );
    }
    let n = 1 << 24;
    let mut data = device.upload(&noise::<T>(n, 5))?;
    let plan = CudaFft::<T>::new(device, n as u64)?;
    plan.run(Direction::Forward, &mut data)?;
    plan.top_k(&data, 1000)?;
    let begin = Instant::now();
    for _ in 0..5 {
        plan.top_k(&data, 1000)?;
    }
    println!("{} top 1000 of 2^24: {:.2} ms", T::NAME, begin.elapsed().as_secs_f64() * 200.0);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |w: &str| words.iter().any(|x| x == w);
    let both = !has("check") && !has("time");
    let mut variants = Vec::new();
    for folder in words.iter().filter(|w| Path::new(w).is_dir()) {
        for entry in std::fs::read_dir(folder)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            variants.push((name, std::fs::read_to_string(entry.path())?));
        }
    }
    variants.sort();
    let device = Device::new(0)?;
    println!("{}", device.name()?);
    let begin = Instant::now();
    let mut failures = 0;
    if both || has("check") {
        check::<f64>(&device, &mut failures)?;
        check::<f32>(&device, &mut failures)?;
        println!("{failures} failures; checks took {:.1} s", begin.elapsed().as_secs_f64());
    }
    if both || has("time") {
        let cufft = Cufft::open();
        if cufft.is_none() {
            println!("cuFFT was not found; set CUFFT_LIBRARY");
        }
        let size = 1usize << 27;
        let (a, b) = (device.alloc::<f64>(size)?, device.alloc::<f64>(size)?);
        let mut b = b;
        let us = time(&device, &a, &mut b, |data| {
            let stream = device.stream();
            let (from, _a) = a.parts().device_ptr(stream);
            let (to, _b) = data.parts().device_ptr(stream);
            // SAFETY: both buffers have this many bytes.
            unsafe {
                let stream = stream.cu_stream();
                cudarc::driver::result::memcpy_dtod_async(to, from, 16 * size, stream)?;
            }
            Ok(())
        })?;
        println!("device copy: {:.0} GB/s read and written", 32e-9 * size as f64 / (us * 1e-6));
        drop((a, b));
        benchmark::<f64>(&device, cufft, &variants)?;
        benchmark::<f32>(&device, cufft, &variants)?;
        println!("all took {:.1} s", begin.elapsed().as_secs_f64());
    }
    if failures > 0 {
        return Err(format!("{failures} checks failed").into());
    }
    Ok(())
}
