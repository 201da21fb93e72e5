//! `sparsefft demo`: a long noisy signal, the sparse transform, the dense FFT beside it.
//!
//! The tones are put into a spectrum and brought to the time domain by one inverse FFT, noise is
//! added to every sample, and the signal is kept in memory as 32-bit floats. Both transforms
//! read that same memory; the dense one is RustFFT in 32 bits, its planning not counted.

use super::plot::Picture;
use super::search::exit;
use crate::Exit;
use crate::output::atomic::Atomic;
use crate::output::plot::{Plot, Theme, plot};
use crate::output::progress::is_quiet;
use crate::output::{self, Cost, Style, View, background, print};
use crate::parallel;
use crate::synth::{gaussian, random_tones};
use crate::units::{self, bytes, grouped, seconds};
use anyhow::{Context, Result, ensure};
use num_complex::Complex;
use rustfft::FftPlanner;
use sparsefft::{Plan, Problem};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Synthesise a long noisy signal, find its tones, and compare with the dense FFT
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Signal length
    #[arg(short, value_name = "N", default_value = "64Mi", value_parser = units::positive)]
    n: u64,

    /// Number of tones
    #[arg(short, value_name = "K", default_value = "50", value_parser = units::positive)]
    k: u64,

    /// SNR in dB of the weakest tone against the noise in one sample
    #[arg(long, value_name = "DB", default_value = "0", allow_hyphen_values = true,
          value_parser = units::number)]
    snr: f64,

    /// Seed of the signal and of the transform, or 'random'
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::seed)]
    seed: u64,

    /// Where to draw the spectrum, .svg or .png [default: sparsefft-demo.svg in the temporary
    /// directory]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

/// Rows of the table.
const ROWS: usize = 12;
/// The weakest tone lies this far below the strongest.
const RANGE_DB: f64 = 40.0;
/// The sample rate that gives the axes their units.
const RATE: f64 = 20e6;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let (n, k) = (args.n, args.k);
    let picture =
        args.output.clone().unwrap_or_else(|| std::env::temp_dir().join("sparsefft-demo.svg"));
    let kind = Picture::of(&picture)?;
    let file = Atomic::create(&picture)?;
    ensure!(k <= n / 4, "{k} tones do not fit {n} samples; choose -k at most n/4");
    let style = Style::stdout();
    step(&format!("synthesising {} samples …", grouped(n)));
    let tones = random_tones(n, k, RANGE_DB, false, args.seed);
    let sigma = 10f64.powf(-(RANGE_DB + args.snr) / 20.0);
    let mut planner = FftPlanner::<f32>::new();
    let size = usize::try_from(n).context("the signal does not fit this machine")?;
    let mut signal = zeroed(size)?;
    for &(f, a) in &tones {
        signal[f as usize] = Complex::new(a.re as f32, a.im as f32);
    }
    planner.plan_fft_inverse(size).process(&mut signal);
    add_noise(&mut signal, sigma, args.seed);

    step("sparse transform …");
    let plan = Plan::new(Problem::new(n).sparsity(k).seed(args.seed))?;
    let spectrum = plan.transform(&signal)?;

    let hold = background::max_hold(&signal)?;
    step("dense FFT …");
    let dense = planner.plan_fft_forward(size);
    let mut scratch = zeroed(dense.get_inplace_scratch_len())?;
    let started = Instant::now();
    dense.process_with_scratch(&mut signal, &mut scratch);
    let dense_seconds = started.elapsed().as_secs_f64();
    step("");

    let view = View {
        spectrum: &spectrum,
        rate: Some(RATE),
        center: None,
        real: false,
        full_scale: 1.0,
        tones: None,
        findings: None,
        doubts: Vec::new(),
        cost: Cost::of(&spectrum),
    };
    let right = tones.iter().filter(|(f, _)| spectrum.value(*f) != Complex::ZERO).count();
    let worst = tones
        .iter()
        .map(|&(f, a)| (spectrum.value(f) / n as f64 - a).norm() / a.norm())
        .fold(0.0, f64::max);
    let certificate = spectrum.certificate();
    let ours = spectrum.report().elapsed.as_secs_f64();

    let mut text = format!(
        "signal   {} complex samples ({}, {} at {}), {k} tones over {RANGE_DB} dB,\n         \
         the weakest {} dB against the noise in one sample\n",
        grouped(n),
        bytes(8 * n),
        seconds(n as f64 / RATE),
        units::si(RATE, "S/s", 0),
        args.snr,
    );
    let seed = if args.seed == 1 { String::new() } else { output::seed(&view) };
    text += &format!("sparse   {}{seed}\n", output::header(&view));
    text += &format!("         {}\n", output::stages(&view));
    text += &format!("dense    {} (RustFFT, 32 bits, one thread)", seconds(dense_seconds));
    text += &format!(": {} times the sparse transform\n", ratio(dense_seconds / ours));
    text += &format!(
        "right    {right} of {k} tones, largest relative error {worst:.1e}\nverdict  {}\n\n",
        style.verdict(certificate.is_reliable(), &certificate.to_string())
    );
    text += &output::table(&view, ROWS, style);
    text += &format!("\n{}", output::picture(&view, style));
    let scene = plot(&Plot {
        view: &view,
        hold: &hold,
        title: "sparsefft demo",
        size: (1200.0, 600.0),
        theme: Theme::Light,
        labels: 10,
    });
    kind.write(&scene, "sparsefft demo", file)?;
    text += &format!("\npicture  {}\n", picture.display());
    print(&text)?;
    Ok(exit(&spectrum, None))
}

/// Adds complex Gaussian noise of standard deviation σ (|noise|² is σ² on average), drawn from
/// the sample's index, so that the number of threads does not matter.
fn add_noise(signal: &mut [Complex<f32>], sigma: f64, seed: u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = signal.len().div_ceil(threads).max(1);
    parallel::each(signal.chunks_mut(share).enumerate().collect(), |(part, block)| {
        let first = (part * share) as u64;
        for (i, x) in block.iter_mut().enumerate() {
            *x += gaussian(seed, first + i as u64) * sigma as f32;
        }
    });
}

fn zeroed(len: usize) -> Result<Vec<Complex<f32>>> {
    let mut v = Vec::new();
    v.try_reserve_exact(len).map_err(|_| {
        anyhow::anyhow!(
            "{} of memory are not to be had; choose a smaller -n",
            bytes(8 * len as u64)
        )
    })?;
    v.resize(len, Complex::ZERO);
    Ok(v)
}

/// Shows on a terminal what is going on; an empty message clears the line.
fn step(message: &str) {
    if std::io::stderr().is_terminal() && !is_quiet() {
        let mut terminal = std::io::stderr().lock();
        let _ = write!(terminal, "\r\u{1b}[2K{message}");
        let _ = terminal.flush();
    }
}

fn ratio(r: f64) -> String {
    if r >= 10.0 { grouped(r.round() as u64) } else { format!("{r:.1}") }
}
