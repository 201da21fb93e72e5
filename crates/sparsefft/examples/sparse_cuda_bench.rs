//! The sparse FFT on a GPU: checks against the truth, then times beside cuFFT.
//!
//! `sparse_cuda_bench [VARIANTS] [check] [time] [tables] [hops] [voting] [spread] [hiss] [accuracy] [noise]
//! [case:27:1000:0.1[:4096[:7]]] [many:27:1000:0.1:40] [once:1000003:50:0[:vote]]…`: VARIANTS is a folder of kernels
//! compiled otherwise, named `tTHREADS_cBLOCKS….cubin`, with `quick` or `noisy` in the name of those that take these
//! kernels' place. A case is log2 n, k, the noise, the bins and the seed (with `:only` at its end, of the variants
//! alone, with `:once` one transform each); `many` is so many signals with the library and with variants of its quick
//! kernels: the median over the signals, and between which times most lie; `once` is one transform by the library:
//! n, k, the noise, and `vote` or `comb-vote`. `noise` is the part of `accuracy` with noise, `hiss` that of `spread`;
//! without words, `check` and `time` run. Signals are made on the device by the dense inverse FFT, from k random frequencies of unit magnitude
//! and white noise. `vote:27:1000` after `voting` names the rows to run, and `explain` prints their plans; `k:4000`
//! beside `tables` and `accuracy` leaves out the rows with fewer coefficients. `events` is the time between two events
//! around one launch, `queue` that of one of fifty launches in a row, `wall` the whole call with the answer on the
//! host; medians of 101.

mod cufft;

use cudarc::driver::{CudaFunction, DevicePtr, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use cufft::Cufft;
use sparsefft::cuda::{Buffer, CudaFft, CudaPlan, Device, Signal};
use sparsefft::dense::Direction;
use sparsefft::{Algorithm, Complex, Noise, Norm, Place, Problem, Spectrum};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;
type Truth = BTreeMap<u64, Complex<f64>>;

/// Xorshift: fast enough for noise at every sample.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Makes signals on the device: a spectrum of white noise or of nothing, coefficients, and an inverse FFT.
struct Signals {
    device: Device,
    hiss: CudaFunction,
    place: CudaFunction,
}

/// What a signal is: frequencies at multiples of `step`, of magnitude 1 … `range`, in white noise of this standard
/// deviation per sample.
#[derive(Clone, Copy)]
struct Kind {
    k: usize,
    step: u64,
    range: f64,
    sigma: f64,
}

impl Kind {
    fn new(k: usize, sigma: f64) -> Self {
        Kind { k, step: 1, range: 1.0, sigma }
    }
}

impl Signals {
    fn new(device: &Device) -> Result<Self, Failure> {
        let ptx = Ptx::from_src(include_str!("../src/cuda/kernels/signals.ptx"));
        let module = device.stream().context().load_module(ptx)?;
        let (hiss, place) = (module.load_function("hiss")?, module.load_function("place")?);
        Ok(Signals { device: device.clone(), hiss, place })
    }

    /// Signals of the plan's length, one after the other; all that the buffer holds.
    fn fill(
        &self,
        data: &mut Buffer<f64>,
        fft: &CudaFft<f64>,
        n: u64,
        kind: Kind,
        random: &mut Random,
    ) -> Result<Vec<Truth>, Failure> {
        let stream = self.device.stream();
        let mut truths = Vec::new();
        let mut values = Vec::new();
        for signal in 0..data.len() as u64 / n {
            let mut truth = Truth::new();
            while truth.len() < kind.k {
                let size = kind.range.powf(random.uniform());
                let f = random.next() % (n / kind.step) * kind.step;
                truth.insert(f, Complex::from_polar(size, 6.2 * random.uniform()));
            }
            for (&f, &a) in &truth {
                let value = a * n as f64;
                values.extend([signal * n + f, value.re.to_bits(), value.im.to_bits()]);
            }
            truths.push(truth);
        }
        // White noise has a white spectrum: uniform parts whose sum over all frequencies has this deviation.
        let each = (1.5 * n as f64).sqrt() * kind.sigma;
        let (all, seed) = (data.len() as u64, random.next());
        let config = |blocks: u32| LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        let (at, guard) = data.parts().device_ptr(stream);
        let mut launch = stream.launch_builder(&self.hiss);
        launch.arg(&at).arg(&all).arg(&each).arg(&seed);
        // SAFETY: the buffer has so many values, which nobody else uses.
        unsafe { launch.launch(config(2048)) }?;
        if !values.is_empty() {
            let there = stream.clone_htod(&values)?;
            let count = (values.len() / 3) as u32;
            let mut launch = stream.launch_builder(&self.place);
            launch.arg(&at).arg(&there).arg(&count);
            // SAFETY: every place lies in the buffer.
            unsafe { launch.launch(config(count.div_ceil(256))) }?;
        }
        drop(guard);
        fft.run(Direction::Inverse, data)?;
        Ok(truths)
    }

    /// `batch` signals in a buffer of their own.
    fn make(
        &self,
        n: u64,
        kind: Kind,
        batch: usize,
        seed: u64,
    ) -> Result<(Vec<Truth>, Buffer<f64>), Failure> {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..10 {
            random.next();
        }
        let mut data = self.device.alloc::<f64>(n as usize * batch)?;
        let fft = self.inverse(n)?;
        let truths = self.fill(&mut data, &fft, n, kind, &mut random)?;
        self.device.synchronize()?;
        Ok((truths, data))
    }

    fn inverse(&self, n: u64) -> Result<CudaFft<f64>, Failure> {
        Ok(CudaFft::<f64>::new(&self.device, n)?.norm(Norm::Backward))
    }

    /// How far signals are from the sum that they stand for, and their noise from what it should be.
    fn check(&self, failures: &mut u32) -> Result<(), Failure> {
        for (n, k) in [(1u64 << 12, 8usize), (1009, 5)] {
            let (truths, data) = self.make(n, Kind::new(k, 0.0), 3, 7)?;
            let mut worst: f64 = 0.0;
            for (truth, x) in truths.iter().zip(data.download()?.chunks(n as usize)) {
                for (t, x) in x.iter().enumerate() {
                    let turn = |f: u64| (f * t as u64 % n) as f64 / n as f64;
                    let sum: Complex<f64> = truth
                        .iter()
                        .map(|(&f, a)| a * Complex::cis(std::f64::consts::TAU * turn(f)))
                        .sum();
                    worst = worst.max((x - sum).norm());
                }
            }
            let good = worst < 1e-12;
            *failures += u32::from(!good);
            let sign = if good { "ok  " } else { "FAIL" };
            println!("{sign} signals of {n}, k {k}: {worst:.1e} from their sums");
        }
        let (_, data) = self.make(1 << 20, Kind::new(0, 0.1), 1, 7)?;
        let x = data.download()?;
        let power = x.iter().map(Complex::norm_sqr).sum::<f64>() / x.len() as f64;
        // Its relative deviation is 1/1024.
        let good = (power / 0.01 - 1.0).abs() < 0.006;
        *failures += u32::from(!good);
        println!(
            "{} noise of power {power:.6}, 0.01 was asked for",
            if good { "ok  " } else { "FAIL" }
        );
        Ok(())
    }
}

/// The largest error of an amplitude, missing and additional ones included. Both are in order.
fn worst(truth: &Truth, spectrum: &Spectrum) -> f64 {
    let n = spectrum.n() as f64;
    let mut worst: f64 = 0.0;
    let mut truth = truth.iter().peekable();
    for p in spectrum.peaks() {
        while let Some((_, missing)) = truth.next_if(|&(&f, _)| f < p.index) {
            worst = worst.max(missing.norm());
        }
        let right = truth.next_if(|&(&f, _)| f == p.index).map_or(Complex::ZERO, |(_, &a)| a);
        worst = worst.max((p.value / n - right).norm());
    }
    truth.fold(worst, |worst, (_, missing)| worst.max(missing.norm()))
}

fn problem(n: u64, k: usize, noise: Noise) -> Problem {
    let algorithm = if noise == Noise::Exact { Algorithm::Exact } else { Algorithm::Robust };
    Problem::new(n).sparsity(k as u64).noise(noise).algorithm(algorithm)
}

/// Right, certified and on the device, over a grid of problems.
fn check(signals: &Signals, failures: &mut u32) -> Result<(), Failure> {
    signals.check(failures)?;
    let device = &signals.device;
    for (log_n, k, sigma, range) in [
        (12, 8, 0.0, 1.0),
        (16, 16, 0.0, 1.0),
        (18, 50, 0.0, 1e3),
        (20, 50, 0.0, 1.0),
        (22, 50, 0.0, 1.0),
        (22, 1000, 0.0, 1.0),
        (22, 4096, 0.0, 1.0),
        (24, 20_000, 0.0, 1.0),
        (20, 50, 0.1, 1.0),
        (22, 300, 0.1, 1.0),
        (22, 1000, 0.1, 1.0),
    ] {
        let n = 1u64 << log_n;
        let batch = if log_n < 22 { 32 } else { 8 };
        let (truths, data) =
            signals.make(n, Kind { range, ..Kind::new(k, sigma) }, batch, log_n + k as u64)?;
        for noise in [Noise::Exact, Noise::Unknown, Noise::Snr(20.0)] {
            if (sigma > 0.0) != matches!(noise, Noise::Snr(_)) && noise != Noise::Unknown {
                continue;
            }
            let begin = Instant::now();
            let plan = CudaPlan::new(device, problem(n, k, noise))?;
            let planning = begin.elapsed();
            let (mut wrong, mut open, mut cpu, mut most) = (0, 0, 0, 0.0f64);
            let mut why = String::new();
            let answers = plan.transform_batch(&data.signals(n));
            for (truth, answer) in truths.iter().zip(answers) {
                let answer = answer?;
                let error = worst(truth, &answer);
                let bound = if sigma > 0.0 { 0.2 } else { 1e-9 * range };
                let certified = answer.certificate().is_reliable();
                wrong += u32::from(certified && error > bound);
                open += u32::from(!certified);
                if answer.report().place != Place::Gpu {
                    cpu += 1;
                    why = format!("{}", answer.report().place);
                }
                most = most.max(error);
            }
            *failures += wrong;
            println!(
                "{} 2^{log_n} k {k} {noise:?}: {batch} signals, wrong and certified {wrong}, uncertified {open}, \
                 not on the device {cpu} {why}, not quick {}, worst error {most:.1e}, planned in {:.1} ms",
                if wrong == 0 { "ok  " } else { "FAIL" },
                plan.missed(),
                planning.as_secs_f64() * 1e3
            );
        }
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Median time between two events around one launch, in microseconds.
fn launch_time(
    device: &Device,
    plan: &CudaPlan,
    signals: &[Signal<'_>],
    rounds: usize,
) -> Result<f64, Failure> {
    let stream = device.stream();
    let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let (begin, end) = (stream.context().new_event(flags)?, stream.context().new_event(flags)?);
    let mut events = Vec::new();
    for round in 0..rounds + 10 {
        begin.record(stream)?;
        plan.enqueue(signals, false)?;
        end.record(stream)?;
        end.synchronize()?;
        if round >= 10 {
            events.push(f64::from(begin.elapsed_ms(&end)?) * 1e3);
        }
    }
    Ok(median(events))
}

/// Events, queue and wall of one plan, in microseconds per call.
fn time(device: &Device, plan: &CudaPlan, signals: &[Signal<'_>]) -> Result<[f64; 3], Failure> {
    let events = launch_time(device, plan, signals, 101)?;
    let stream = device.stream();
    let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let (begin, end) = (stream.context().new_event(flags)?, stream.context().new_event(flags)?);
    begin.record(stream)?;
    for _ in 0..50 {
        plan.enqueue(signals, false)?;
    }
    end.record(stream)?;
    end.synchronize()?;
    let queue = f64::from(begin.elapsed_ms(&end)?) * 1e3 / 50.0;
    let mut walls = Vec::new();
    for round in 0..111 {
        let begin = Instant::now();
        let answers = plan.transform_batch(signals);
        let us = begin.elapsed().as_secs_f64() * 1e6;
        drop(answers);
        if round >= 10 {
            walls.push(us);
        }
    }
    Ok([events, queue, median(walls)])
}

/// Median time of cuFFT, in place, and of copying the data back is not counted.
fn cufft_time(device: &Device, cufft: Cufft, data: &mut Buffer<f64>) -> Result<f64, Failure> {
    let stream = device.stream();
    let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let (begin, end) = (stream.context().new_event(flags)?, stream.context().new_event(flags)?);
    let mut handle = 0;
    let mut times = Vec::new();
    // SAFETY: cuFFT's documented calls, on the context that the device has made current; the
    // buffer holds one signal.
    unsafe {
        let rc = (cufft.plan)(&mut handle, data.len() as i32, 0x69, 1);
        if rc != 0 {
            return Err(format!("cufftPlan1d: {rc}").into());
        }
        (cufft.stream)(handle, stream.cu_stream().cast());
        for round in 0..13 {
            begin.record(stream)?;
            let (at, _guard) = data.parts().device_ptr(stream);
            let rc = (cufft.exec[1])(handle, at, at, -1);
            drop(_guard);
            end.record(stream)?;
            end.synchronize()?;
            if rc != 0 {
                return Err(format!("cufftExec: {rc}").into());
            }
            if round >= 2 {
                times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3);
            }
        }
        (cufft.destroy)(handle);
    }
    Ok(median(times))
}

/// Kernels of a folder: name, image, threads and blocks per cluster.
type Variant = (String, Vec<u8>, (u32, u32));

fn variants(folder: &Path) -> Result<Vec<Variant>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = |mark: char| {
            let part = name.split(['_', '.']).find(|p| p.starts_with(mark))?;
            part[1..].parse::<u32>().ok()
        };
        if let (Some(t), Some(c)) = (number('t'), number('c')) {
            found.push((name.clone(), std::fs::read(entry.path())?, (t, c)));
        }
    }
    found.sort();
    Ok(found)
}

/// One row per plan.
fn row(
    device: &Device,
    name: &str,
    plan: &CudaPlan,
    signals: &[Signal<'_>],
    truths: &[Truth],
    peer: f64,
) -> Result<(), Failure> {
    let answers = plan.transform_batch(signals);
    let (mut error, mut place) = (0.0f64, Place::Gpu);
    for (truth, answer) in truths.iter().zip(answers) {
        let answer = answer?;
        error = error.max(worst(truth, &answer));
        if answer.report().place != Place::Gpu {
            place = answer.report().place;
        }
    }
    let last = plan.last();
    let missed = plan.missed();
    let [events, queue, wall] = time(device, plan, signals)?;
    let missed = plan.missed() - missed;
    let each = signals.len() as f64;
    println!(
        "  {name:<26} events {:>8.2} us  queue {:>8.2}  wall {:>8.2}  {:>7.1}x cuFFT  error {error:.1e}  {place} {last:?} {missed}",
        events / each,
        queue / each,
        wall / each,
        peer / (events / each)
    );
    Ok(())
}

fn benchmark(signals: &Signals, variants: &[Variant]) -> Result<(), Failure> {
    let device = &signals.device;
    let cufft = Cufft::open();
    println!(
        "numbers in brackets: status, barriers, rounds (quick kernels: coefficients of the first list), lines, climbs, found, open"
    );
    for (log_n, k, sigma, combs) in [
        (22u32, 50usize, 0.0, &[256usize, 512, 1024][..]),
        (22, 1000, 0.0, &[4096, 8192]),
        (27, 50, 0.0, &[256]),
        (27, 1000, 0.0, &[4096, 8192, 16384, 32768]),
        (27, 43_000, 0.0, &[1 << 17, 1 << 18, 1 << 19]),
        (22, 50, 0.1, &[256, 512, 1024]),
        (27, 1000, 0.1, &[4096, 8192, 16384]),
    ] {
        let n = 1u64 << log_n;
        let (truths, mut data) = signals.make(n, Kind::new(k, sigma), 1, 3)?;
        println!("2^{log_n}, k = {k}, noise {sigma}");
        let noises: &[Noise] =
            if sigma > 0.0 { &[Noise::Snr(20.0), Noise::Unknown] } else { &[Noise::Exact] };
        for &noise in noises {
            let problem = problem(n, k, noise);
            for &bins in combs {
                let plan = CudaPlan::tuned(device, problem.clone(), None, Some(bins))?;
                let name = format!("{noise:?} B = {bins}");
                row(device, &name, &plan, &[data.signal()], &truths, f64::NAN)?;
                for (name, image, shape) in variants {
                    let image = Some((image.clone(), *shape));
                    let plan = CudaPlan::tuned(device, problem.clone(), image, Some(bins))?;
                    row(device, name, &plan, &[data.signal()], &truths, f64::NAN)?;
                    if name.contains("profile") {
                        stages(&plan, data.signal())?;
                    }
                }
            }
        }
        if log_n == 27 && k == 1000 && sigma == 0.0 {
            let mut pinned = device.pinned::<f64>(n as usize)?;
            data.read(pinned.as_mut_slice())?;
            let plan = CudaPlan::new(device, problem(n, k, Noise::Exact))?;
            row(device, "pinned host memory", &plan, &[pinned.signal()], &truths, f64::NAN)?;
        }
        if let Some(cufft) = cufft {
            println!("  cuFFT {:.1} us", cufft_time(device, cufft, &mut data)?);
        }
    }
    for (log_n, k, batch) in [(22u32, 50usize, 16usize), (22, 1000, 16), (20, 50, 128)] {
        let n = 1u64 << log_n;
        let (truths, data) = signals.make(n, Kind::new(k, 0.0), batch, 3)?;
        let plan = CudaPlan::new(device, problem(n, k, Noise::Exact))?;
        println!("batch of {batch} signals of 2^{log_n}, k = {k}: times per signal");
        row(device, "batch", &plan, &data.signals(n), &truths, f64::NAN)?;
    }
    Ok(())
}

/// cuFFT followed by the k largest on the device, wall clock with the answer on the host.
fn dense_and_top(device: &Device, data: &mut Buffer<f64>, k: usize) -> Result<f64, Failure> {
    let plan = CudaFft::<f64>::new(device, data.len() as u64)?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        plan.top_k(data, k)?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// The tables of the documentation: time over n and over k, beside cuFFT.
fn tables(signals: &Signals, least_k: Option<usize>) -> Result<(), Failure> {
    let device = &signals.device;
    let cufft = Cufft::open();
    let rows = (18..=28).flat_map(|l| [(l, 50usize, 0.0), (l, 1000, 0.0)]);
    let over_k = [16usize, 200, 4000, 10_000, 43_000].map(|k| (27u32, k, 0.0));
    let noisy = [(20u32, 50usize, 0.1), (22, 50, 0.1), (24, 50, 0.1), (27, 50, 0.1)];
    println!("n | k | noise | events us | wall us | error | cuFFT us | top k us | cuFFT/events");
    for (log_n, k, sigma) in
        rows.chain(over_k).chain(noisy).chain([(24, 1000, 0.1), (27, 1000, 0.1)])
    {
        let n = 1u64 << log_n;
        if 32 * k as u64 > n || least_k.is_some_and(|least| k < least) {
            continue;
        }
        let (truths, mut data) = signals.make(n, Kind::new(k, sigma), 1, 5)?;
        let noise = if sigma > 0.0 { Noise::Snr(20.0) } else { Noise::Exact };
        let plan = CudaPlan::new(device, problem(n, k, noise))?;
        let answer = plan.transform(&data.signal())?;
        let (error, place) = (worst(&truths[0], &answer), answer.report().place);
        let [events, _, wall] = time(device, &plan, &[data.signal()])?;
        let peer = match cufft {
            Some(cufft) => cufft_time(device, cufft, &mut data)?,
            None => f64::NAN,
        };
        let top = dense_and_top(device, &mut data, k)?;
        println!(
            "2^{log_n} | {k} | {sigma} | {events:.1} | {wall:.1} | {error:.1e} | {peer:.1} | {top:.0} | {:.1} | {place}",
            peer / events
        );
    }
    Ok(())
}

/// The voting algorithms, wall clock with the answer on the host.
fn voting(signals: &Signals, words: &[String]) -> Result<(), Failure> {
    let device = &signals.device;
    let rows: Vec<String> = words.iter().filter(|w| w.starts_with("vote:")).cloned().collect();
    let explain = words.iter().any(|w| w == "explain");
    println!("n | k | algorithm | wall us | error | place");
    for (log_n, k) in [
        (18u32, 50usize),
        (20, 50),
        (22, 50),
        (24, 50),
        (27, 50),
        (18, 1000),
        (19, 1000),
        (20, 1000),
        (22, 1000),
        (24, 1000),
        (26, 1000),
        (27, 1000),
    ] {
        if !rows.is_empty() && !rows.contains(&format!("vote:{log_n}:{k}")) {
            continue;
        }
        let n = 1u64 << log_n;
        let (truths, data) = signals.make(n, Kind::new(k, 0.0), 1, 5)?;
        for algorithm in [Algorithm::Vote, Algorithm::CombVote] {
            let problem =
                Problem::new(n).sparsity(k as u64).noise(Noise::Snr(20.0)).algorithm(algorithm);
            let plan = CudaPlan::new(device, problem)?;
            let answer = plan.transform(&data.signal())?;
            let mut times = Vec::new();
            let mut stages = Vec::new();
            for _ in 0..101 {
                let begin = Instant::now();
                let answer = plan.transform(&data.signal())?;
                times.push(begin.elapsed().as_secs_f64() * 1e6);
                stages = answer.report().stages.clone();
            }
            println!(
                "2^{log_n} | {k} | {algorithm} | {:.0} (least {:.0}) | {:.1e} | {} {:?} {stages:?}",
                median(times.clone()),
                times.iter().copied().fold(f64::INFINITY, f64::min),
                worst(&truths[0], &answer),
                answer.report().place,
                answer.certificate().verdict,
            );
            if explain {
                println!("{}", plan.plan());
            }
        }
    }
    Ok(())
}

/// Lengths without a comb, and frequencies that share a few bins of any comb: times, and what is missed,
/// wrong or not on the device of some signals.
fn spread(signals: &Signals, quiet: bool) -> Result<u32, Failure> {
    let device = &signals.device;
    println!(
        "n | k | step | noise | wall us (a tenth take longer than) | signals | wrong | certified | on the device | worst error | place of others"
    );
    let mut failures = 0;
    let silent = [
        (65_537u64, 10usize, 1u64, 300),
        (1_000_003, 50, 1, 1000),
        (1_000_003, 1000, 1, 300),
        (16_777_213, 50, 1, 300),
        (134_217_689, 50, 1, 100),
        (134_217_689, 1000, 1, 100),
        (134_217_689, 10_000, 1, 10),
        (1 << 20, 50, 4096, 300),
        (1 << 27, 50, 1 << 20, 100),
        (1 << 27, 1000, 1 << 14, 100),
    ];
    let noisy = [
        (65_537, 50, 1000),
        (1_000_003, 50, 1000),
        (1_000_003, 1000, 300),
        (16_777_213, 50, 200),
        (16_777_213, 1000, 100),
        (134_217_689, 50, 100),
        (134_217_689, 1000, 100),
        (134_217_689, 10_000, 10),
    ];
    let silent = silent.map(|(n, k, step, count)| (n, k, step, count, 0.0));
    let noisy = noisy.map(|(n, k, count)| (n, k, 1, count, 0.1));
    for (n, k, step, count, sigma) in silent.into_iter().filter(|_| quiet).chain(noisy) {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ n);
        let mut data = device.alloc::<f64>(n as usize)?;
        let fft = signals.inverse(n)?;
        let noise = if sigma > 0.0 { Noise::Snr(20.0) } else { Noise::Exact };
        let plan = CudaPlan::new(device, problem(n, k, noise))?;
        let (mut wrong, mut certified, mut there, mut most) = (0, 0, 0, 0.0f64);
        let (mut times, mut places) = (Vec::new(), Vec::new());
        let kind = Kind { step, ..Kind::new(k, sigma) };
        for _ in 0..count {
            let truth = &signals.fill(&mut data, &fft, n, kind, &mut random)?[0];
            device.synchronize()?;
            let begin = Instant::now();
            let answer = plan.transform(&data.signal())?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
            let error = worst(truth, &answer);
            wrong += u32::from(error > if sigma > 0.0 { sigma } else { 1e-9 });
            certified += u32::from(answer.certificate().is_reliable());
            there += u32::from(answer.report().place == Place::Gpu);
            most = most.max(error);
            if answer.report().place != Place::Gpu {
                places.push(answer.report().place.to_string());
            }
        }
        failures += wrong;
        places.sort();
        places.dedup();
        times.sort_by(f64::total_cmp);
        println!(
            "{n} | {k} | {step} | {sigma} | {:.0} ({:.0}) | {count} | {wrong} | {certified} | {there} | {most:.1e} | {places:?} {:?}",
            times[times.len() / 2],
            times[times.len() * 9 / 10],
            plan.last(),
        );
    }
    Ok(failures)
}

/// A thousand signals per point: what is missed, what is wrong, what is not on the device.
fn accuracy(
    signals: &Signals,
    quiet: bool,
    least_k: Option<usize>,
    failures: &mut u32,
) -> Result<(), Failure> {
    let device = &signals.device;
    println!(
        "n | k | noise | signals | wrong | certified | on the device | worst error | not quick"
    );
    let few = (10..=28).step_by(2).map(|l| (l, if l < 14 { 4usize } else { 50 }, 0.0));
    let many = (18..=28).step_by(2).map(|l| (l, 1000, 0.0));
    let most = [(22, 4000, 0.0), (27, 4000, 0.0), (27, 10_000, 0.0), (27, 43_000, 0.0)];
    let noisy = [
        (18, 50, 0.1),
        (18, 300, 0.1),
        (18, 1000, 0.1),
        (20, 50, 0.1),
        (20, 1000, 0.1),
        (24, 1000, 0.1),
        (27, 50, 0.1),
        (27, 1000, 0.1),
    ];
    let rows = few.chain(many).chain(most).filter(|_| quiet).chain(noisy);
    for (log_n, k, sigma) in rows.filter(|row| least_k.is_none_or(|least| row.1 >= least)) {
        let n = 1u64 << log_n;
        let noise = if sigma > 0.0 { Noise::Snr(20.0) } else { Noise::Exact };
        let plan = CudaPlan::new(device, problem(n, k, noise))?;
        let (mut wrong, mut certified, mut there, mut most, mut all) = (0, 0, 0, 0.0f64, 0);
        let mut judge = |truth: &Truth, answer: Spectrum| {
            let error = worst(truth, &answer);
            all += 1;
            wrong += u32::from(error > if sigma > 0.0 { 0.1 } else { 1e-9 });
            certified += u32::from(answer.certificate().is_reliable());
            there += u32::from(answer.report().place == Place::Gpu);
            most = most.max(error);
        };
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ n);
        // Short ones go together.
        let batch = if log_n <= 18 || (sigma > 0.0 && log_n <= 20) { 25 } else { 1 };
        let mut data = device.alloc::<f64>(n as usize * batch)?;
        let fft = signals.inverse(n)?;
        for _ in 0..1000 / batch {
            let truths = signals.fill(&mut data, &fft, n, Kind::new(k, sigma), &mut random)?;
            for (truth, answer) in truths.iter().zip(plan.transform_batch(&data.signals(n))) {
                judge(truth, answer?);
            }
        }
        *failures += wrong;
        println!(
            "2^{log_n} | {k} | {sigma} | {all} | {wrong} | {certified} | {there} | {most:.1e} | {}",
            plan.missed()
        );
    }
    Ok(())
}

/// Where the time of one transform goes: clock cycles of work and of waiting, barrier by barrier.
fn stages(plan: &CudaPlan, signal: Signal<'_>) -> Result<(), Failure> {
    plan.transform(&signal)?;
    let stamps = plan.stamps()?;
    let barriers = plan.last().map_or(0, |l| l[1] as usize).min(31);
    print!("    cycles (work+wait):");
    for i in 0..barriers {
        let before = if i == 0 { stamps[63] } else { stamps[2 * i - 1] };
        print!(" {}+{}", stamps[2 * i] - before, stamps[2 * i + 1] - stamps[2 * i]);
    }
    println!();
    Ok(())
}

/// What the names of variants contain that take the place of a quick kernel.
fn quick_kind(sigma: f64) -> &'static str {
    if sigma > 0.0 { "noisy" } else { "quick" }
}

/// One problem, with the kernels of the library and with all variants.
fn case(signals: &Signals, words: &str, variants: &[Variant]) -> Result<(), Failure> {
    let device = &signals.device;
    let part = |i: usize| words.split(':').nth(i).unwrap_or_default();
    let (log_n, k): (u32, usize) = (part(1).parse()?, part(2).parse()?);
    let sigma: f64 = part(3).parse()?;
    let bins = part(4).parse().ok();
    let seed = part(5).parse().unwrap_or(3);
    let noise = if sigma > 0.0 { Noise::Snr(20.0) } else { Noise::Exact };
    let (truths, data) = signals.make(1 << log_n, Kind::new(k, sigma), 1, seed)?;
    println!("{words}");
    let problem = problem(1 << log_n, k, noise);
    if !words.ends_with("only") && !words.ends_with("once") {
        let plan = CudaPlan::tuned(device, problem.clone(), None, bins)?;
        row(device, "library", &plan, &[data.signal()], &truths, f64::NAN)?;
    }
    for (name, image, shape) in variants {
        if words.ends_with("once") {
            if !name.contains(quick_kind(sigma)) {
                continue;
            }
            let plan = CudaPlan::tuned_quick(device, problem.clone(), image.clone())?;
            let error = worst(&truths[0], &plan.transform(&data.signal())?);
            println!("  {name} error {error:.1e} {:?}", plan.last());
            continue;
        }
        let plan = if name.contains(quick_kind(sigma)) {
            CudaPlan::tuned_quick(device, problem.clone(), image.clone())?
        } else {
            CudaPlan::tuned(device, problem.clone(), Some((image.clone(), *shape)), bins)?
        };
        row(device, name, &plan, &[data.signal()], &truths, f64::NAN)?;
        if name.contains("profile") && name.contains(quick_kind(sigma)) {
            let stamps = plan.stamps()?;
            let since: Vec<i64> =
                stamps.iter().map(|&s| (s.wrapping_sub(stamps[0]) as i64).max(-1)).collect();
            println!("    cycles since the start: {since:?}");
        } else if name.contains("profile") {
            stages(&plan, data.signal())?;
        }
    }
    Ok(())
}

/// One transform by the kernels of the library, for tools that make it slow: length, k, noise, algorithm.
fn once(signals: &Signals, words: &str) -> Result<u32, Failure> {
    let part = |i: usize| words.split(':').nth(i).unwrap_or_default();
    let (n, k): (u64, usize) = (part(1).parse()?, part(2).parse()?);
    let sigma: f64 = part(3).parse()?;
    let voting = match part(4) {
        "vote" => Some(Algorithm::Vote),
        "comb-vote" => Some(Algorithm::CombVote),
        _ => None,
    };
    let exact = sigma == 0.0 && voting.is_none();
    let mut problem = problem(n, k, if exact { Noise::Exact } else { Noise::Snr(20.0) });
    if let Some(algorithm) = voting {
        problem = problem.algorithm(algorithm);
    }
    let (truths, data) = signals.make(n, Kind::new(k, sigma), 1, 5)?;
    let plan = CudaPlan::new(&signals.device, problem)?;
    let answer = plan.transform(&data.signal())?;
    let error = worst(&truths[0], &answer);
    let (place, verdict) = (answer.report().place, answer.certificate().verdict);
    println!(
        "{words}: error {error:.1e}, {place}, {verdict:?}, not quick {}, {:?}",
        plan.missed(),
        plan.last()
    );
    Ok(u32::from(error > if exact { 1e-9 } else { 0.1 }))
}

/// Times of one plan over many signals.
#[derive(Default)]
struct Times {
    events: Vec<f64>,
    walls: Vec<f64>,
    stamps: Vec<Vec<u64>>,
    most: f64,
    wrong: u32,
    uncertified: u32,
}

/// Many signals: times of the library and of variants of its quick kernels.
fn many(signals: &Signals, words: &str, variants: &[Variant]) -> Result<u32, Failure> {
    let device = &signals.device;
    let part = |i: usize| words.split(':').nth(i).unwrap_or_default();
    let (log_n, k): (u32, usize) = (part(1).parse()?, part(2).parse()?);
    let (sigma, count): (f64, u64) = (part(3).parse()?, part(4).parse()?);
    let n = 1u64 << log_n;
    let noise = if sigma > 0.0 { Noise::Snr(20.0) } else { Noise::Exact };
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ n);
    let mut plans = vec![("library", CudaPlan::new(device, problem(n, k, noise))?)];
    for (name, image, _) in variants {
        if name.contains(quick_kind(sigma)) {
            let plan = CudaPlan::tuned_quick(device, problem(n, k, noise), image.clone())?;
            plans.push((name, plan));
        }
    }
    let mut data = device.alloc::<f64>(n as usize)?;
    let fft = signals.inverse(n)?;
    let mut times: Vec<Times> = plans.iter().map(|_| Times::default()).collect();
    for _ in 0..count {
        let truth = &signals.fill(&mut data, &fft, n, Kind::new(k, sigma), &mut random)?[0];
        device.synchronize()?;
        for ((name, plan), times) in plans.iter().zip(&mut times) {
            let signal = [data.signal()];
            let answer = plan.transform(&signal[0])?;
            let error = worst(truth, &answer);
            times.most = times.most.max(error);
            times.wrong += u32::from(error > if sigma > 0.0 { 0.1 } else { 1e-9 });
            times.uncertified += u32::from(!answer.certificate().is_reliable());
            times.events.push(launch_time(device, plan, &signal, 31)?);
            let mut walls = Vec::new();
            for _ in 0..21 {
                let begin = Instant::now();
                let answer = plan.transform(&signal[0]);
                walls.push(begin.elapsed().as_secs_f64() * 1e6);
                drop(answer);
            }
            times.walls.push(median(walls));
            if name.contains("profile") {
                times.stamps.push(plan.stamps()?);
            }
        }
    }
    println!("{words}: events us (median, a tenth below, a tenth above) | wall us, likewise");
    let mut failures = 0;
    for ((name, plan), times) in plans.iter().zip(times) {
        failures += times.wrong;
        let show = |mut v: Vec<f64>| {
            v.sort_by(f64::total_cmp);
            let at = |share: f64| v[((v.len() - 1) as f64 * share).round() as usize];
            format!("{:.2} ({:.2} to {:.2})", at(0.5), at(0.1), at(0.9))
        };
        println!(
            "{name} | {} | {} | wrong {} uncertified {} not quick {} of {} error {:.1e}",
            show(times.events),
            show(times.walls),
            times.wrong,
            times.uncertified,
            plan.missed(),
            22 * count,
            times.most
        );
        if let Some(first) = times.stamps.first() {
            let since = |i: usize| {
                let cycles = |s: &Vec<u64>| s[i].wrapping_sub(s[0]) as i64;
                let there = times.stamps.iter().filter(|s| s[i] != u64::MAX && s[i] != 0);
                median(there.map(|s| cycles(s) as f64).chain([f64::INFINITY]).collect())
            };
            println!("    cycles {:?}", (0..first.len()).map(since).collect::<Vec<_>>());
        }
    }
    Ok(failures)
}

/// Wall time of transforms of one signal again and again, and of three in turn, whose addresses differ.
fn hops(signals: &Signals) -> Result<(), Failure> {
    let device = &signals.device;
    for (k, sigma) in [(50usize, 0.0), (1000, 0.0), (50, 0.1)] {
        let n = 1u64 << 20;
        let (_, data) = signals.make(n, Kind::new(k, sigma), 3, 5)?;
        let noise = if sigma > 0.0 { Noise::Snr(20.0) } else { Noise::Exact };
        let plan = CudaPlan::new(device, problem(n, k, noise))?;
        let signals = data.signals(n);
        let mut results = Vec::new();
        for step in [0, 1, 0, 1] {
            let mut walls = Vec::new();
            for round in 0..333 {
                let begin = Instant::now();
                let answer = plan.transform(&signals[round * step % 3])?;
                walls.push(begin.elapsed().as_secs_f64() * 1e6);
                drop(answer);
            }
            results.push(median(walls));
        }
        println!(
            "2^20, k = {k}, noise {sigma}: wall of one signal, three in turn, again: {results:.1?}"
        );
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |w: &str| words.iter().any(|x| x == w);
    let cases =
        || words.iter().filter(|w| ["case:", "many:", "once:"].iter().any(|&m| w.starts_with(m)));
    let both =
        !["check", "time", "tables", "hops", "accuracy", "noise", "voting", "spread", "hiss"]
            .into_iter()
            .any(has)
            && cases().count() == 0;
    let mut found = Vec::new();
    for folder in words.iter().filter(|w| Path::new(w).is_dir()) {
        found.extend(variants(Path::new(folder))?);
    }
    let begin = Instant::now();
    let device = Device::new(0)?;
    let opened = begin.elapsed().as_secs_f64();
    CudaPlan::new(&device, problem(1 << 20, 50, Noise::Exact))?;
    let loaded = begin.elapsed().as_secs_f64() - opened;
    println!("{}, opened in {opened:.2} s, kernels loaded in {loaded:.2} s", device.name()?);
    let begin = Instant::now();
    let signals = Signals::new(&device)?;
    let mut failures = 0;
    let least_k = words.iter().find_map(|w| w.strip_prefix("k:")?.parse().ok());
    if both || has("check") {
        check(&signals, &mut failures)?;
        println!("{failures} failures; checks took {:.1} s", begin.elapsed().as_secs_f64());
    }
    if both || has("time") {
        benchmark(&signals, &found)?;
    }
    if has("tables") {
        tables(&signals, least_k)?;
    }
    if has("hops") {
        hops(&signals)?;
    }
    if has("voting") {
        voting(&signals, &words)?;
    }
    if has("spread") || has("hiss") {
        failures += spread(&signals, has("spread"))?;
    }
    if has("accuracy") || has("noise") {
        accuracy(&signals, has("accuracy"), least_k, &mut failures)?;
    }
    for words in cases() {
        if words.starts_with("many:") {
            failures += many(&signals, words, &found)?;
            continue;
        }
        if words.starts_with("once:") {
            failures += once(&signals, words)?;
            continue;
        }
        case(&signals, words, &found)?;
    }
    println!("all took {:.1} s", begin.elapsed().as_secs_f64());
    if failures > 0 {
        return Err(format!("{failures} checks failed").into());
    }
    Ok(())
}
