//! `sparsefft sketch` and `sparsefft merge`: one signal in many places.

use super::device::Target;
use super::peaks::{Form, show};
use super::search::Search;
use crate::Exit;
use crate::input::{Options, Recording, read_whole};
use crate::output::atomic::Atomic;
use crate::output::progress::{detail, note, peak_memory, spin};
use crate::output::{Cost, View};
use crate::units;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sparsefft::{Fallback, Plan, Samples, Sketch};
use std::path::PathBuf;

/// Keep of a part of a signal what its spectrum needs: a file of some hundred KB
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft sketch part0.cf32 --of 2Gi --start 0 -k 50 -o part0.sk
  sparsefft sketch part1.cf32 --of 2Gi --start 1Gi -k 50 -o part1.sk    on another machine
  sparsefft merge part0.sk part1.sk                                     the peaks of the whole

All parts need the same --of, -k, --snr, --seed, --algorithm and --tolerance. -k may be an upper
bound. One pass over each part suffices: what may be read is planned beforehand, and nothing else
is read (`sparsefft plan -n N -k K --one-pass` says how much).")]
pub struct SketchArgs {
    /// The part: .npy, .wav, .sigmf-meta, .sigmf, raw samples; - is standard input
    #[arg(value_name = "PART")]
    file: PathBuf,

    /// Samples of the whole signal (4M = 4 000 000, 4Mi = 2^22)
    #[arg(long, value_name = "N", value_parser = units::positive)]
    of: u64,

    /// Index of the part's first sample in the whole signal
    #[arg(long, value_name = "S", value_parser = units::count)]
    start: u64,

    /// Distance of the part's samples in the whole signal: 4 for every fourth
    #[arg(long, value_name = "STEP", default_value = "1", value_parser = units::positive)]
    step: u64,

    /// The sketch to write
    #[arg(short, long, value_name = "OUT.sk")]
    output: PathBuf,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    input: Options,
}

/// Unite the sketches of a signal's parts; print the peaks once all parts are there
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft merge *.sk                    the peaks of the whole signal
  sparsefft merge node1/*.sk -o node1.sk  one sketch of some parts, for a tree of merges

Without -o the parts must be complete, and the peaks are printed as `sparsefft peaks` prints them.
With -o the merged sketch is written and nothing is printed. Parts that are missing, seen twice,
damaged or made with other options are refused by name. The order of the files does not matter.
Exit codes: 0 found, 1 nothing above the noise, 2 usage or input error, 3 not certified.")]
pub struct MergeArgs {
    /// The sketches
    #[arg(value_name = "FILE.sk", required = true)]
    files: Vec<PathBuf>,

    /// Write the merged sketch instead of printing peaks
    #[arg(short, long, value_name = "OUT.sk", conflicts_with_all = ["json", "csv", "npz"])]
    output: Option<PathBuf>,

    #[command(flatten)]
    form: Form,
}

/// What a sketch tells about the recording, as the label of its file.
#[derive(Debug, Serialize, Deserialize)]
struct Label {
    rate: Option<f64>,
    center: Option<f64>,
    full_scale: f64,
}

/// Runs `sketch`.
pub fn sketch(args: &SketchArgs) -> Result<Exit> {
    ensure!(args.search.k.is_some(), "a sketch must know how much to keep; give -k, or a bound");
    ensure!(
        args.search.device == Target::Auto || args.search.device == Target::Cpu,
        "a sketch is made on the CPU; leave out --device"
    );
    let recording = Recording::open(&args.file, &args.input)?;
    if args.search.seed != 0 {
        note(&format!("seed {0}; all parts need the same: --seed {0}", args.search.seed));
    }
    let problem = args.search.problem(args.of)?.fallback(Fallback::Never).one_pass();
    let plan = Plan::new(problem)?;
    detail(&format!("{}\n{plan}", recording.description));
    let file = Atomic::create_beside(&args.output, std::slice::from_ref(&args.file))?;
    let mut sketch = plan.sketch()?;
    let label = Label {
        rate: recording.rate,
        center: recording.center,
        full_scale: recording.full_scale(),
    };
    sketch.set_label(&serde_json::to_string(&label)?);
    spin("reading", || sketch.add_strided(args.start, args.step, &recording))
        .with_context(|| args.file.display().to_string())?;
    let bytes = sketch.to_bytes();
    file.finish(&bytes)?;
    note(&format!(
        "kept {} of {} samples in {} bytes",
        sketch.kept(),
        recording.len(),
        bytes.len()
    ));
    if let Some((fetched, size)) = recording.fetched() {
        note(&format!("fetched {fetched} of {size} bytes"));
    }
    if let Some(memory) = peak_memory() {
        detail(&format!("peak memory {memory} bytes"));
    }
    Ok(Exit::Found)
}

/// Runs `merge`.
pub fn merge(args: &MergeArgs) -> Result<Exit> {
    // In a tree of merges the output may be one of the inputs, which is replaced at the end.
    let output = args.output.as_ref().map(|path| Atomic::create(path)).transpose()?;
    let mut merged: Option<Sketch> = None;
    for file in &args.files {
        let name = || file.display().to_string();
        let bytes = read_whole(file).with_context(name)?;
        match &mut merged {
            None => merged = Some(Sketch::from_bytes(&bytes).with_context(name)?),
            Some(merged) => merged.merge_bytes(&bytes).with_context(name)?,
        }
    }
    let merged = merged.context("give the sketches to merge")?;
    if let Some(output) = output {
        output.finish(&merged.to_bytes())?;
        let n = merged.plan().problem().n();
        note(&format!("{} of {n} samples have been seen", merged.seen()));
        return Ok(Exit::Found);
    }
    let form = args.form.open(&args.files)?;
    let spectrum = spin("transforming", || merged.finish())?;
    let label: Label = match merged.label() {
        "" => Label { rate: None, center: None, full_scale: 1.0 },
        text => serde_json::from_str(text).context("the label of the sketch is damaged")?,
    };
    let view = View {
        spectrum: &spectrum,
        rate: label.rate,
        center: label.center,
        real: merged.is_real(),
        full_scale: label.full_scale,
        tones: None,
        findings: None,
        doubts: Vec::new(),
        cost: Cost::of(&spectrum),
    };
    let kind = if merged.is_real() { "real" } else { "complex" };
    let (count, n) = (args.files.len(), merged.plan().problem().n());
    let title = format!("{count} sketches: {n} {kind} samples, {} of them kept", merged.kept());
    detail(&format!("{title}\n{}", merged.plan()));
    show(&view, merged.plan().recipe(), &title, form)
}
