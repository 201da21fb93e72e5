//! The dense FFT beside RustFFT and FFTW: `cargo run --release --example dense_bench -- 16 26`.
//!
//! Arguments: smallest and largest exponent, then words: `f32`, `nofftw`, `estimate` (no
//! measured plans, which take minutes from 2^24 on), `scaling` (strong scaling at every exponent,
//! weak scaling from the smallest on, over 1, 2, 4, … threads; no competitors).
//! FFTW is opened at run time if the machine has it (Debian: libfftw3-double3, libfftw3-single3);
//! it is planned with FFTW_MEASURE, in place. All work in place on the same buffer with scratch
//! made beforehand; the rounds of the competitors alternate, and the medians are printed.

use rustfft::FftPlanner;
use sparsefft::Complex;
use sparsefft::dense::{Direction, Fft, Real, Threads, Workspace};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::time::Instant;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// An FFTW plan, as far as this program needs it.
struct Fftw {
    plan: *mut c_void,
    execute: unsafe extern "C" fn(*mut c_void),
}

type PlanDft = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void, c_int, c_uint) -> *mut c_void;

impl Fftw {
    fn new<T: Real>(data: &mut [Complex<T>], flags: c_uint) -> Option<Self> {
        let names: [&CStr; 3] = if T::NAME == "f64" {
            [c"libfftw3.so.3", c"fftw_plan_dft_1d", c"fftw_execute"]
        } else {
            [c"libfftw3f.so.3", c"fftwf_plan_dft_1d", c"fftwf_execute"]
        };
        // SAFETY: the names and signatures are those of FFTW 3's documented interface, and the
        // data outlive the plan.
        unsafe {
            let library = dlopen(names[0].as_ptr(), 2);
            if library.is_null() {
                return None;
            }
            let (plan, execute) =
                (dlsym(library, names[1].as_ptr()), dlsym(library, names[2].as_ptr()));
            if plan.is_null() || execute.is_null() {
                return None;
            }
            let plan: PlanDft = std::mem::transmute(plan);
            let execute: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(execute);
            let x = data.as_mut_ptr().cast();
            let plan = plan(data.len() as c_int, x, x, -1, flags);
            (!plan.is_null()).then_some(Fftw { plan, execute })
        }
    }

    fn run(&self) {
        // SAFETY: the plan was made for a buffer that is still there.
        unsafe { (self.execute)(self.plan) }
    }
}

fn fill<T: Real>(data: &mut [Complex<T>]) {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        T::from_f64((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5).unwrap()
    };
    for z in data {
        *z = Complex::new(next(), next());
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn compare<T: Real>(exponent: u32, words: &[String]) {
    let has = |w: &str| words.iter().any(|x| x == w);
    let n = 1usize << exponent;
    let mut data = vec![Complex::<T>::default(); n];
    let flags = if has("estimate") { 1 << 6 } else { 0 };
    let fftw = if has("nofftw") { None } else { Fftw::new(&mut data, flags) };
    fill(&mut data);
    let peer = FftPlanner::<T>::new().plan_fft_forward(n);
    let mut scratch = vec![Complex::<T>::default(); peer.get_inplace_scratch_len()];
    let ours = Fft::<T>::new(n as u64).unwrap();
    let one = ours.clone().threads(Threads::One);
    let mut space = Workspace::new();
    let mut times: [Vec<f64>; 4] = Default::default();
    let repeats = (1 << 23 >> exponent).clamp(1, 64);
    let rounds = if exponent >= 24 { 5 } else { 11 };
    for round in 0..=rounds {
        for (which, times) in times.iter_mut().enumerate() {
            fill(&mut data);
            let begin = Instant::now();
            for _ in 0..repeats {
                match which {
                    0 => peer.process_with_scratch(&mut data, &mut scratch),
                    1 => fftw.iter().for_each(Fftw::run),
                    2 => one.batch(Direction::Forward, &mut data, &mut space).unwrap(),
                    _ => ours.batch(Direction::Forward, &mut data, &mut space).unwrap(),
                }
            }
            let seconds = begin.elapsed().as_secs_f64() / repeats as f64;
            // The first round warms up.
            if round > 0 {
                times.push(seconds);
            }
            if repeats > 1 {
                // Repeated transforms grow; start again before they overflow.
                fill(&mut data);
            }
        }
    }
    let [rust, fftw_time, one, all] = times.each_mut().map(|t| median(t) * 1e3);
    let fftw_time = if fftw.is_some() { fftw_time } else { f64::NAN };
    let best = rust.min(fftw_time);
    println!(
        "{} 2^{exponent:<2} | RustFFT {rust:>9.3} | FFTW {fftw_time:>9.3} | 1 thread {one:>9.3} ms, {:>5.2}x the better | all threads {all:>9.3} ms, {:>5.2}x ours",
        T::NAME,
        best / one,
        one / all
    );
}

/// Median seconds of one transform on a pool of this many threads.
fn seconds<T: Real>(exponent: u32, threads: usize) -> f64 {
    let n = 1usize << exponent;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let plan = Fft::<T>::new(n as u64).unwrap();
    let mut space = Workspace::new();
    let mut data = vec![Complex::<T>::default(); n];
    fill(&mut data);
    let mut times = Vec::new();
    for round in 0..8 {
        let begin = Instant::now();
        pool.install(|| plan.batch(Direction::Forward, &mut data, &mut space)).unwrap();
        if round > 0 {
            times.push(begin.elapsed().as_secs_f64());
        }
        fill(&mut data);
    }
    median(&mut times)
}

fn scaling<T: Real>(low: u32, high: u32) {
    let cores = std::thread::available_parallelism().map_or(1, |c| c.get());
    let counts: Vec<usize> = (0..).map(|i| 1 << i).take_while(|&t| t <= cores).collect();
    println!("strong scaling, {}: ms and speedup over one thread", T::NAME);
    for exponent in low..=high {
        print!("2^{exponent:<2}");
        let mut one = f64::NAN;
        for &threads in &counts {
            let s = seconds::<T>(exponent, threads);
            one = if threads == 1 { s } else { one };
            print!(" | {threads} threads {:>9.3} ms {:>5.2}x", s * 1e3, one / s);
        }
        println!();
    }
    println!("weak scaling, {}: 2^{low} values per thread, ms and efficiency", T::NAME);
    let mut one = f64::NAN;
    for (i, &threads) in counts.iter().enumerate() {
        let s = seconds::<T>(low + i as u32, threads);
        // The work per value grows with log n.
        let work = f64::from(low + i as u32) / f64::from(low);
        one = if threads == 1 { s } else { one };
        println!("{threads} threads {:>9.3} ms {:>5.2}", s * 1e3, one * work / s);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = words.iter().filter_map(|w| w.parse().ok());
    let (low, high): (u32, u32) = (numbers.next().unwrap_or(16), numbers.next().unwrap_or(22));
    if words.iter().any(|w| w == "scaling") {
        let single = words.iter().any(|w| w == "f32");
        return if single { scaling::<f32>(low, high) } else { scaling::<f64>(low, high) };
    }
    for exponent in low..=high {
        if words.iter().any(|w| w == "f32") {
            compare::<f32>(exponent, &words);
        } else {
            compare::<f64>(exponent, &words);
        }
    }
}
