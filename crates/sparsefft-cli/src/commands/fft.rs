//! `sparsefft fft`: the dense FFT of a recording, as a .npy array.

use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::atomic::Atomic;
use crate::output::progress::spin;
use crate::output::recorder::npy;
use crate::units::bytes;
use anyhow::{Context, Result, ensure};
use num_complex::Complex;
use rustfft::FftPlanner;
use sparsefft::Samples;
use std::io::Write;
use std::path::PathBuf;

/// Compute the dense FFT of a recording
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sparsefft fft signal.wav -o spectrum.npy    all n coefficients, complex128, as numpy.fft.fft

It holds all samples in memory, in 64 bits: 32 bytes per sample with its working space.")]
pub struct Args {
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Where to write the coefficients
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,

    /// Scale as numpy names it: backward (none), ortho (1/√n), forward (1/n)
    #[arg(long, value_name = "NAME", default_value = "backward",
          value_parser = ["backward", "ortho", "forward"])]
    norm: String,

    #[command(flatten)]
    input: Options,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let recording = Recording::open(&args.file, &args.input)?;
    // The place is tried before the work is done.
    let mut file = Atomic::create(&args.output)?;
    let n = recording.len();
    let len = usize::try_from(n).context("the recording does not fit this machine's memory")?;
    let mut x: Vec<Complex<f64>> = Vec::new();
    ensure!(
        x.try_reserve_exact(len).is_ok(),
        "{} of memory are not to be had; take a part with --count",
        bytes(16 * n)
    );
    x.resize(len, Complex::ZERO);
    spin("dense FFT", || -> Result<()> {
        recording.read_range(0, &mut x)?;
        if let Some(i) = x.iter().position(|v| !v.re.is_finite() || !v.im.is_finite()) {
            anyhow::bail!("sample {i} is {}; every sample must be finite", x[i]);
        }
        FftPlanner::new().plan_fft_forward(len).process(&mut x);
        Ok(())
    })?;
    let scale = match args.norm.as_str() {
        "ortho" => 1.0 / (n as f64).sqrt(),
        "forward" => 1.0 / n as f64,
        _ => 1.0,
    };
    file.write_all(&npy("<c16", &format!("({n},)")))?;
    for v in &x {
        let v = v * scale;
        file.write_all(&v.re.to_le_bytes())?;
        file.write_all(&v.im.to_le_bytes())?;
    }
    file.commit()?;
    Ok(Exit::Found)
}
