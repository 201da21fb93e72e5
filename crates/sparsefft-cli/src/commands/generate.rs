//! `sparsefft gen`: test signals in every format that we read, also larger than memory.

use crate::Exit;
use crate::input::{Number, raw};
use crate::output::print;
use crate::output::progress::{Bar, note};
use crate::output::recorder::{Container, Recorder, Spec, encode};
use crate::parallel;
use crate::synth::{Signal, Tone, random_tones};
use crate::units::{self, decibels};
use anyhow::{Context, Result, bail, ensure};
use num_complex::Complex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Write a test signal: tones, drifting tones, noise; any format that peaks reads
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft gen -n 64Mi --tones 50 --noise -20 -o x.cf32       50 random tones in noise
  sparsefft gen -n 1M --rate 48k --tone 440:-6 --real -o a.wav  a tone at 440 Hz, -6 dB
  sparsefft gen -n 8Gi --bin 123456789 --noise -30 --type cs8 --rate 20M -o big.sigmf-meta

Levels are in dB of full scale. The tones are listed on stdout as CSV. Integer formats are scaled
down, if need be, so that nothing clips.")]
pub struct Args {
    /// Where to write; the extension tells the format: npy, wav, sigmf-meta, sigmf, cf32, cs16, …
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Number of samples (64Mi = 2^26)
    #[arg(short, value_name = "N", value_parser = units::positive, allow_hyphen_values = true)]
    n: u64,

    /// Sample type: cf32, cs16_be, u8, s24 … [default: by extension, else cf32 or f32]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,

    /// Format around the samples: npy, wav, sigmf, sigmf-archive or raw [default: by extension]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,

    /// A tone at F (Hz with --rate, else cycles per sample), level in dB, phase in radians
    #[arg(long, value_name = "F[:DB[:PHASE]]", value_parser = triple, allow_hyphen_values = true)]
    tone: Vec<Triple>,

    /// A tone exactly on this bin
    #[arg(long, value_name = "INDEX[:DB[:PHASE]]", value_parser = triple)]
    bin: Vec<Triple>,

    /// This many random tones on bins, from 0 down to -40 dB
    #[arg(long, value_name = "K", value_parser = units::count, default_value = "0")]
    tones: u64,

    /// A tone that drifts from F0 to F1 over the signal, level in dB
    #[arg(long, value_name = "F0:F1[:DB]", value_parser = triple, allow_hyphen_values = true)]
    chirp: Vec<Triple>,

    /// White Gaussian noise of this power per sample, in dB
    #[arg(long, value_name = "DB", value_parser = units::number, allow_hyphen_values = true)]
    noise: Option<f64>,

    /// Real samples instead of complex ones
    #[arg(long)]
    real: bool,

    /// Sample rate in Hz, written where the format can hold it
    #[arg(long, value_name = "HZ", value_parser = units::rate)]
    rate: Option<f64>,

    /// Centre frequency in Hz, written to SigMF; --tone is then absolute
    #[arg(long, value_name = "HZ", value_parser = units::number, requires = "rate")]
    center: Option<f64>,

    /// Seed of the noise and of the random tones; 'random' draws one and notes it
    #[arg(long, value_name = "N", default_value = "0", value_parser = units::seed)]
    seed: u64,
}

/// Up to three numbers separated by colons.
#[derive(Debug, Clone, Copy)]
struct Triple {
    first: f64,
    second: Option<f64>,
    third: Option<f64>,
}

fn triple(text: &str) -> Result<Triple, String> {
    let mut parts = text.split(':').map(units::number);
    let first = parts.next().unwrap_or_else(|| Err("a number is missing".into()))?;
    let second = parts.next().transpose()?;
    let third = parts.next().transpose()?;
    if parts.next().is_some() {
        return Err(format!("'{text}' has too many parts; at most three numbers, as 1M:-20:0.5"));
    }
    Ok(Triple { first, second, third })
}

fn polar(level: Option<f64>, phase: Option<f64>) -> Complex<f64> {
    Complex::from_polar(10f64.powf(level.unwrap_or(0.0) / 20.0), phase.unwrap_or(0.0))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let (container, kind) = target(args)?;
    let mut signal = signal(args, !kind.complex)?;
    let bound = signal.bound();
    let most = match kind.number {
        Number::F16 | Number::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    ensure!(
        bound <= most,
        "the signal reaches {bound:.1e}, but samples of type {} hold at most {most:.1e}; lower the \
         levels",
        kind.number.name()
    );
    if !kind.number.is_float() && bound > 1.0 {
        note(&format!("scaled by {:.1} dB so that nothing clips", -decibels(bound)));
        signal.tones.iter_mut().for_each(|t| t.amplitude /= bound);
        signal.sigma /= bound;
    }
    let spec = Spec { container, kind, n: args.n, rate: args.rate, center: args.center };
    if args.seed != 0 {
        note(&format!("seed {}", args.seed));
    }
    let mut recorder = Recorder::create(&args.output, spec.clone())?;
    write_all(&signal, &spec, &mut recorder)?;
    if recorder.clipped > 0 {
        note(&format!("{} samples were clipped; lower the levels", recorder.clipped));
    }
    recorder.finish()?;
    if args.output != Path::new("-") {
        print(&listing(args, &signal))?;
    }
    Ok(Exit::Found)
}

/// Makes blocks on all cores and writes them in order.
fn write_all(signal: &Signal, spec: &Spec, recorder: &mut Recorder) -> Result<()> {
    const BLOCK: u64 = 1 << 18;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    let bar = Bar::steps("writing", signal.n);
    let mut samples = vec![vec![Complex::ZERO; BLOCK as usize]; threads];
    let mut bytes = vec![Vec::new(); threads];
    let mut start = 0;
    while start < signal.n {
        let lengths: Vec<u64> = (0..threads as u64)
            .map(|i| signal.n.saturating_sub(start + i * BLOCK).min(BLOCK))
            .collect();
        let clipped = AtomicU64::new(0);
        let parts = samples.iter_mut().zip(&mut bytes).zip(&lengths).enumerate();
        parallel::each(parts.collect(), |(i, ((block, out), &len))| {
            let block = &mut block[..len as usize];
            signal.fill(start + i as u64 * BLOCK, block);
            out.clear();
            clipped.fetch_add(encode(spec, block, out), Ordering::Relaxed);
        });
        recorder.clipped += clipped.into_inner();
        for (out, &len) in bytes.iter().zip(&lengths) {
            recorder.write_encoded(out, len)?;
            bar.add(len);
        }
        start += lengths.iter().sum::<u64>();
    }
    Ok(())
}

fn signal(args: &Args, real: bool) -> Result<Signal> {
    let n = args.n;
    let cycles = |f: f64| -> Result<f64> {
        let c = (f - args.center.unwrap_or(0.0)) / args.rate.unwrap_or(1.0);
        ensure!(
            c.abs() <= 0.5,
            "the frequency {f} lies outside ±1/2 of the sample rate; choose a lower one, or give \
             --rate if it is in Hz"
        );
        Ok(c)
    };
    let mut tones = Vec::new();
    for t in &args.tone {
        tones.push(Tone::free(cycles(t.first)?, 0.0, polar(t.second, t.third)));
    }
    for t in &args.bin {
        let index = t.first;
        ensure!(
            index >= 0.0 && index < n as f64 && index.fract() == 0.0,
            "--bin {index} must be a whole number from 0 to {}",
            n - 1
        );
        tones.push(Tone::on_grid(index as u64, polar(t.second, t.third)));
    }
    for t in &args.chirp {
        let end = t.second.context("--chirp needs two frequencies, as 0.1:0.2")?;
        let start = cycles(t.first)?;
        tones.push(Tone::free(start, cycles(end)? - start, polar(t.third, None)));
    }
    ensure!(
        args.tones <= n / 4,
        "--tones {} are too many for {n} samples; at most n/4",
        args.tones
    );
    let random = random_tones(n, args.tones, 40.0, real, args.seed);
    tones.extend(random.into_iter().map(|(f, a)| Tone::on_grid(f, a)));
    let sigma = args.noise.map_or(0.0, |db| 10f64.powf(db / 20.0));
    Ok(Signal { n, tones, sigma, seed: args.seed, real })
}

/// The container and sample type that the arguments ask for.
fn target(args: &Args) -> Result<(Container, raw::Type)> {
    let extension = args.output.extension().and_then(|e| e.to_str()).unwrap_or("");
    let by_name = raw::Type::parse(extension);
    let container = match args.format.as_deref().unwrap_or(extension) {
        "npy" => Container::Npy,
        "wav" | "wave" | "rf64" => Container::Wav,
        "sigmf-meta" | "sigmf-data" => Container::Sigmf,
        "sigmf" if args.format.is_some() => Container::Sigmf,
        "sigmf" | "sigmf-archive" => Container::SigmfArchive,
        "raw" => Container::Raw,
        _ if by_name.is_some() => Container::Raw,
        "" if args.kind.is_some() => Container::Raw,
        other if args.kind.is_some() && args.format.is_none() && !other.is_empty() => {
            Container::Raw
        }
        other => bail!(
            "the format '{other}' is not known; use an extension such as npy, wav, sigmf-meta or \
             cf32, or --format"
        ),
    };
    let mut kind = match &args.kind {
        Some(name) => match name.as_str() {
            "s24" | "cs24" if container == Container::Wav => {
                raw::Type { number: Number::I24, complex: name.starts_with('c'), big_endian: false }
            }
            _ => raw::Type::parse(name)
                .with_context(|| format!("--type '{name}' is not known; one of {}", raw::NAMES))?,
        },
        None => match by_name {
            Some(kind) => kind,
            None => raw::Type { number: Number::F32, complex: true, big_endian: false },
        },
    };
    if args.real {
        kind.complex = false;
    }
    Ok((container, kind))
}

/// The tones as CSV.
fn listing(args: &Args, signal: &Signal) -> String {
    let mut out = String::from("frequency,hertz,level_db,phase\n");
    for t in &signal.tones {
        let cycles = t.cycles(signal.n);
        let hertz = args
            .rate
            .map_or(String::new(), |r| (cycles * r + args.center.unwrap_or(0.0)).to_string());
        out += &format!(
            "{cycles},{hertz},{:.3},{}\n",
            decibels(t.amplitude.norm()),
            t.amplitude.arg()
        );
    }
    out
}
