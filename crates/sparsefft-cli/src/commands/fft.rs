//! `sparsefft fft`: the dense FFT of a recording, as a .npy array.
//!
//! What fits is transformed in memory. Anything longer is converted into the output file, which
//! is then transformed in place in two passes with a scratch file beside it.

use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::atomic::Atomic;
use crate::output::progress::{detail, spin};
use crate::output::recorder::npy;
use crate::units::{self, bytes};
use anyhow::{Context, Result, bail, ensure};
use num_complex::Complex;
use sparsefft::dense::{Direction, Fft, FileFft, FilePart};
use sparsefft::{Error, Norm, Samples};
use std::path::PathBuf;

/// Bytes of one coefficient in the file.
const SIZE: u64 = 16;
/// The memory that is taken unasked.
const MEMORY: u64 = 1 << 30;
/// Most samples that are converted at a time.
const BLOCK: u64 = 1 << 16;

/// Compute the dense FFT of a recording
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft fft signal.wav -o spectrum.npy           all coefficients, as numpy.fft.fft has them
  sparsefft fft long.cs16 -o long.npy --memory 4Gi   in memory up to 2^27 samples

In memory it takes 32 bytes per sample. What is longer than --memory allows is transformed on the
disk in two passes, with a scratch file of 16 bytes per sample beside the output. That needs a
length with a divisor near its square root. Others, such as primes, take up to 160 bytes per sample
in memory; without --memory they get it.")]
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

    /// Bytes of memory to use, about (512M, 4Gi); longer recordings go over the disk
    /// [default: 1Gi]
    #[arg(long, value_name = "SIZE", value_parser = units::positive)]
    memory: Option<u64>,

    #[command(flatten)]
    input: Options,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let recording = Recording::open(&args.file, &args.input)?;
    let n = recording.len();
    let norm = match args.norm.as_str() {
        "ortho" => Norm::Ortho,
        "forward" => Norm::Forward,
        _ => Norm::Backward,
    };
    let memory = args.memory.unwrap_or(MEMORY);
    let plan = match FileFft::<f64>::new(n, memory) {
        Ok(plan) => plan.needs_scratch().then(|| plan.norm(norm)),
        // The two passes cannot do this length; nobody has forbidden more memory.
        Err(Error::Unsupported { .. }) if args.memory.is_none() => None,
        Err(Error::Unsupported { .. }) => bail!(
            "{n} samples do not fit in {} and have no divisor near their square root; allow more \
             with --memory, or take a power of two of them with --count",
            bytes(memory)
        ),
        Err(Error::InvalidOption { .. }) => {
            // The least depends on how the length divides; doubling finds it within twice.
            let mut enough = SIZE * 16 * n.isqrt();
            while FileFft::<f64>::new(n, enough).is_err() {
                enough *= 2;
            }
            bail!("--memory {memory} is too little for two passes over {n} samples; allow {enough}")
        }
        Err(e) => return Err(e.into()),
    };
    // The place is tried before the work is done.
    let inputs = std::slice::from_ref(&args.file);
    let mut file = match &plan {
        Some(_) => Atomic::create_seekable(&args.output, inputs)?,
        None => Atomic::create_beside(&args.output, inputs)?,
    };
    let header = npy("<c16", &format!("({n},)"));
    // The scratch file of two passes is as long as the output.
    let files = if plan.is_some() { 2 } else { 1 };
    file.expect(files * SIZE * n)?;
    file.put(&header)?;
    spin("dense FFT", || match plan {
        Some(plan) => {
            let scratch = file.scratch()?;
            detail(&format!(
                "out of core: two passes with {} of memory and a scratch file of {}",
                bytes(memory),
                bytes(SIZE * n)
            ));
            let block = (memory / SIZE / 4).clamp(1, BLOCK).min(n);
            let mut samples = vec![Complex::ZERO; block as usize];
            for start in (0..n).step_by(block as usize) {
                let part = &mut samples[..block.min(n - start) as usize];
                load(&recording, start, part)?;
                store(&mut file, part)?;
            }
            drop(samples);
            let part = FilePart { file: file.file()?, offset: header.len() as u64 };
            plan.run(Direction::Forward, part, part, Some(&scratch))?;
            Ok(())
        }
        None => {
            detail("in memory");
            let len = usize::try_from(n).context("this machine cannot address the recording")?;
            let mut x = Vec::new();
            ensure!(
                x.try_reserve_exact(len).is_ok(),
                "{} of memory are not to be had; bound it with --memory, or take a part with \
                 --count",
                bytes(SIZE * n)
            );
            x.resize(len, Complex::ZERO);
            load(&recording, 0, &mut x)?;
            Fft::new(n)?.norm(norm).forward(&mut x)?;
            store(&mut file, &x)
        }
    })?;
    file.commit()?;
    Ok(Exit::Found)
}

/// Reads samples from `start` on, all of which must be finite.
fn load(recording: &Recording, start: u64, out: &mut [Complex<f64>]) -> Result<()> {
    recording.read_range(start, out)?;
    match out.iter().position(|v| !v.re.is_finite() || !v.im.is_finite()) {
        Some(i) => {
            bail!("sample {} is {}; every sample must be finite", start + i as u64, out[i])
        }
        None => Ok(()),
    }
}

/// Appends values to the file, little-endian.
fn store(file: &mut Atomic, values: &[Complex<f64>]) -> Result<()> {
    let mut bytes = Vec::with_capacity(SIZE as usize * values.len().min(BLOCK as usize));
    for block in values.chunks(BLOCK as usize) {
        bytes.clear();
        for v in block {
            bytes.extend(v.re.to_le_bytes());
            bytes.extend(v.im.to_le_bytes());
        }
        file.put(&bytes)?;
    }
    Ok(())
}
