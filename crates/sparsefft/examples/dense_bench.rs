//! The dense FFT beside RustFFT and FFTW:
//! `cargo run --release -p sparsefft --example dense_bench -- 16 26`.
//!
//! Arguments: smallest and largest exponent, then words:
//! - `f32`: single precision;
//! - `nofftw`, `estimate`: no FFTW, or no measured plans (they take minutes from 2^24 on);
//! - `scaling`: Markdown tables of strong scaling (every length over 1, 2, 4, … threads) and weak
//!   scaling (the length grows with the threads), no competitors; `svg=FILE` draws them;
//! - `accuracy`: the error of every coefficient of a chirp, whose transform is known.
//!
//! FFTW is opened at run time if the machine has it (Debian: libfftw3-double3, libfftw3-single3).
//! All work in place on the same buffer with scratch made beforehand; the rounds of the
//! competitors alternate, and the medians are printed.

use rustfft::FftPlanner;
use sparsefft::Complex;
use sparsefft::dense::{Direction, Fft, Real, Threads, Workspace};
use std::time::Instant;
use testkit::fftw::{Effort, Fftw, Precision};
use testkit::oracle::{chirp, chirp_transform};

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

fn compare<T: Real + Precision>(exponent: u32, words: &[String]) {
    let has = |w: &str| words.iter().any(|x| x == w);
    let n = 1usize << exponent;
    let mut data = vec![Complex::<T>::default(); n];
    let effort = if has("estimate") { Effort::Estimate } else { Effort::Measure };
    let fftw = if has("nofftw") { None } else { Fftw::new(&mut data, effort) };
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
                    1 => fftw.iter().for_each(|f| f.run(&mut data)),
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

/// 1, 2, 4, … threads.
fn thread_counts() -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, |c| c.get());
    (0..).map(|i| 1 << i).take_while(|&t| t <= cores).collect()
}

/// A curve of the drawing: its name and its points.
type Curve = (String, Vec<(f64, f64)>);

/// Prints both tables; returns speed-ups over log2 n and efficiencies over log2 threads.
fn scaling<T: Real>(low: u32, high: u32) -> [Vec<Curve>; 2] {
    let counts = thread_counts();
    let header = |first: &str| {
        print!("\n| {first} |");
        counts.iter().for_each(|t| print!(" {t} thread{} | |", if *t == 1 { "" } else { "s" }));
        println!("\n|---|{}", "---|---|".repeat(counts.len()));
    };
    println!("\nStrong scaling, {}: milliseconds and speed-up over one thread", T::NAME);
    header("n");
    let mut strong: Vec<Curve> =
        counts[1..].iter().map(|t| (format!("{t} threads"), Vec::new())).collect();
    for exponent in low..=high {
        print!("| 2^{exponent} |");
        let mut one = f64::NAN;
        for (i, &threads) in counts.iter().enumerate() {
            let s = seconds::<T>(exponent, threads);
            if i == 0 {
                one = s;
            } else {
                strong[i - 1].1.push((f64::from(exponent), one / s));
            }
            print!(" {:.2} | {:.2}× |", s * 1e3, one / s);
        }
        println!();
    }
    println!("\nWeak scaling, {}: milliseconds and efficiency", T::NAME);
    header("values per thread");
    let mut weak = Vec::new();
    for base in (low..=high + 1 - counts.len() as u32).step_by(2) {
        print!("| 2^{base} |");
        let mut one = f64::NAN;
        let mut curve = (format!("2^{base} per thread"), Vec::new());
        for (i, &threads) in counts.iter().enumerate() {
            let exponent = base + i as u32;
            let s = seconds::<T>(exponent, threads);
            one = if i == 0 { s } else { one };
            // The work per value grows with log n.
            let efficiency = one * f64::from(exponent) / f64::from(base) / s;
            curve.1.push((i as f64, efficiency));
            print!(" {:.2} | {efficiency:.2} |", s * 1e3);
        }
        println!();
        weak.push(curve);
    }
    [strong, weak]
}

/// Two panels side by side: title, label of the x axis, top of the y axis, curves.
fn svg(panels: [(&str, &str, f64, &[Curve]); 2]) -> String {
    const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
    let mut out = String::from(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 300' font-family='sans-serif' \
         font-size='12'>\n<rect width='760' height='300' fill='#ffffff'/>\n",
    );
    for (p, (title, label, top, curves)) in panels.into_iter().enumerate() {
        let left = 50.0 + 380.0 * p as f64;
        let (width, bottom, height) = (300.0, 250.0, 200.0);
        let xs = || curves.iter().flat_map(|c| c.1.iter().map(|q| q.0));
        let (min, max) = (xs().fold(f64::MAX, f64::min), xs().fold(f64::MIN, f64::max));
        let x = |v: f64| left + 10.0 + (width - 20.0) * (v - min) / (max - min).max(1.0);
        let y = |v: f64| bottom - height * v / top;
        out += &format!("<text x='{left}' y='24' font-weight='bold'>{title}</text>\n");
        for i in 0..=4 {
            let v = top * f64::from(i) / 4.0;
            out += &format!(
                "<path d='M{left} {0:.1}h{width}' stroke='#dddddd'/><text x='{1}' y='{2:.1}' \
                 text-anchor='end'>{v:.2}</text>\n",
                y(v),
                left - 6.0,
                y(v) + 4.0
            );
        }
        let mut v = min;
        while v <= max {
            let tick = if p == 0 { format!("2^{v}") } else { format!("{}", 1u64 << v as u32) };
            out += &format!("<text x='{:.1}' y='268' text-anchor='middle'>{tick}</text>\n", x(v));
            v += 1.0;
        }
        let middle = left + width / 2.0;
        out += &format!("<text x='{middle}' y='288' text-anchor='middle'>{label}</text>\n");
        for (i, (name, points)) in curves.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let path: Vec<String> =
                points.iter().map(|q| format!("{:.1},{:.1}", x(q.0), y(q.1))).collect();
            out += &format!(
                "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'/>\n",
                path.join(" ")
            );
            for q in &path {
                let (cx, cy) = q.split_once(',').unwrap_or_default();
                out += &format!("<circle cx='{cx}' cy='{cy}' r='3' fill='{colour}'/>\n");
            }
            out += &format!(
                "<text x='{}' y='{}' fill='{colour}'>{name}</text>\n",
                left + 12.0,
                bottom - 12.0 - 16.0 * i as f64
            );
        }
    }
    out + "</svg>\n"
}

/// All coefficients of e^{0.3i}·chirp beside their exact values. The constant turn keeps real and
/// imaginary parts away from exact zeros, which have no relative error.
fn accuracy<T: Real>(exponent: u32) {
    let n = 1u64 << exponent;
    let turn = Complex::cis(0.3);
    let real = |v: f64| T::from_f64(v).unwrap();
    let wide = |v: T| v.to_f64().unwrap();
    let mut data: Vec<Complex<T>> =
        (0..n).map(|t| turn * chirp(t, n)).map(|z| Complex::new(real(z.re), real(z.im))).collect();
    Fft::<T>::new(n).unwrap().forward(&mut data).unwrap();
    let (mut energy, mut largest, mut worst, mut off) = (0.0, 0f64, 0f64, 0u64);
    for (f, got) in data.iter().enumerate() {
        let exact = turn * chirp_transform(f as u64, n);
        for (got, exact) in [(wide(got.re), exact.re), (wide(got.im), exact.im)] {
            let error = (got - exact).abs();
            energy += error * error;
            largest = largest.max(error);
            worst = worst.max(error / exact.abs());
            off += u64::from(error > 1e-3 * exact.abs());
        }
    }
    let (size, bound) = (n as f64, 3.0 * wide(T::epsilon()) * f64::from(exponent).sqrt());
    println!(
        "{} 2^{exponent}: relative L2 error {:.2e}, bound {bound:.2e}; largest error of a part {:.2e} of |X|; largest relative error of a part {worst:.2e}; {off} of {} parts off by more than 1e-3",
        T::NAME,
        energy.sqrt() / size,
        largest / size.sqrt(),
        2 * n
    );
}

fn all<T: Real + Precision>(low: u32, high: u32, words: &[String]) {
    let has = |w: &str| words.iter().any(|x| x == w);
    if has("scaling") {
        let [strong, weak] = scaling::<T>(low, high);
        if let Some(path) = words.iter().find_map(|w| w.strip_prefix("svg=")) {
            let top = *thread_counts().last().unwrap_or(&1) as f64;
            let panels = [
                ("Strong scaling: speed-up over one thread", "n", top, &strong[..]),
                ("Weak scaling: efficiency", "threads", 1.2, &weak[..]),
            ];
            std::fs::write(path, svg(panels)).expect("the drawing can be written");
        }
        return;
    }
    for exponent in low..=high {
        if has("accuracy") { accuracy::<T>(exponent) } else { compare::<T>(exponent, words) }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = words.iter().filter_map(|w| w.parse().ok());
    let (low, high): (u32, u32) = (numbers.next().unwrap_or(16), numbers.next().unwrap_or(22));
    if words.iter().any(|w| w == "f32") {
        all::<f32>(low, high, &words);
    } else {
        all::<f64>(low, high, &words);
    }
}
