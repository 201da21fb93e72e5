//! `sparsefft peaks`: the main job.

use super::deadline::find_within;
use super::search::{Mode, Search, exit};
use crate::Exit;
use crate::input::{Options, Parts, Recording};
use crate::output::atomic::Atomic;
use crate::output::progress::{detail, note, peak_memory, spin};
use crate::output::{self, Style, View, print};
use anyhow::{Context, Result, ensure};
use sparsefft::find::Effort;
use sparsefft::{Algorithm, Error, Fallback, Plan, Recipe, Samples, Spectrum};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Find what is in a recording: lines, bands, bursts, sweeps
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft peaks signal.npy               a table of the tones it finds
  sparsefft peaks signal.npy --rate 20M    the same, with frequencies in Hz
  sparsefft peaks signal.npy -k 50 --json  the 50 largest, as JSON
  sparsefft peaks radio.cf32 --accuracy 1e-4   tones to a ten-thousandth of a bin
  sparsefft peaks long.cs16 --time 10s     what can be told within ten seconds
  sparsefft peaks part1.npy part2.npy      the parts of one recording, in order
  sparsefft peaks radio.sigmf-meta --sigmf radio.sigmf-meta   annotate a SigMF recording
  rtl_sdr -s 2.4M -n 64M - | sparsefft peaks - --format cu8 --rate 2.4M

First a part of the samples is searched. If that settles it, the table shows the level of each tone
(the peak value of the sinusoid in dB: |X|/n, of real samples 2|X|/n), its phase in radians, and the
SNR in one bin of the whole record. If not, all samples are surveyed: lines with their SNR against the
local floor, bands, bursts, sweeps, and what belongs together.
Exit codes: 0 found, 1 nothing above the noise, 2 usage or input error, 3 not certified.")]
pub struct Args {
    /// The recording: .npy, .wav, .flac, .mp3, .sigmf-meta, .sigmf, raw samples …; - is standard
    /// input; http://… is read by ranges. Several files are the parts of one recording, in order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    input: Options,

    /// grid (Fourier coefficients), tones (between the bins), or auto: whatever is there
    #[arg(long, value_name = "MODE", default_value = "auto", help_heading = "Search")]
    mode: Mode,

    /// Survey all samples, without a sparse search before it
    #[arg(long, conflicts_with_all = ["no_dense", "mode", "algorithm"], help_heading = "Search")]
    thorough: bool,

    /// Stop after this time (10s, 500ms, 2min): what was found until then is given as partial
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::units::time,
        conflicts_with_all = ["no_dense", "thorough", "mode", "algorithm", "device"],
        help_heading = "Search"
    )]
    time: Option<std::time::Duration>,

    /// Standard deviation in bins to which tones shall be known; finer ones read more samples
    #[arg(long, value_name = "BINS", help_heading = "Search")]
    accuracy: Option<f64>,

    #[command(flatten)]
    form: Form,

    /// Also write SigMF metadata with the peaks as annotations (needs a rate)
    #[arg(long, value_name = "OUT.sigmf-meta", help_heading = "Output")]
    sigmf: Option<PathBuf>,
}

/// In which forms the peaks are given.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Form {
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print comma-separated values
    #[arg(long)]
    csv: bool,

    /// Also write the peaks as NumPy arrays
    #[arg(long, value_name = "OUT.npz")]
    npz: Option<PathBuf>,
}

/// [`Form`] with its file started.
pub struct Open {
    json: bool,
    csv: bool,
    npz: Option<Atomic>,
}

impl Form {
    /// Starts the file, before the work is done in vain.
    pub fn open(&self, inputs: &[PathBuf]) -> Result<Open> {
        let npz = self.npz.as_ref().map(|path| Atomic::create_beside(path, inputs)).transpose()?;
        Ok(Open { json: self.json, csv: self.csv, npz })
    }
}

/// Most rows of the table.
const ROWS: usize = 40;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    if let [file] = &args.files[..] {
        let recording = Recording::open(file, &args.input)?;
        let source = output::annotate::Source {
            path: file,
            meta: recording.sigmf.as_ref(),
            kind: recording.raw,
            first: recording.skipped,
        };
        let title = format!("{}: {}", file.display(), recording.description);
        let doubts = recording.doubts();
        doubts.iter().for_each(|d| note(&d.text));
        let exit = search(args, &recording, &title, Some(&source), |s| View {
            doubts: doubts.clone(),
            ..View::new(s, &recording)
        });
        if let Some((fetched, size)) = recording.fetched() {
            note(&format!("fetched {fetched} of {size} bytes"));
        }
        return exit;
    }
    let parts = Parts::open(&args.files, &args.input)?;
    let doubts = parts.first().doubts();
    doubts.iter().for_each(|d| note(&d.text));
    search(args, &parts, &parts.description(), None, |s| {
        let mut view = View { doubts: doubts.clone(), ..View::new(s, parts.first()) };
        view.cost.bytes_read = parts.fetched();
        view
    })
}

/// Searches a signal and gives the peaks.
fn search<S: Samples>(
    args: &Args,
    signal: &S,
    title: &str,
    source: Option<&output::annotate::Source<'_>>,
    view: impl for<'s> Fn(&'s Spectrum) -> View<'s>,
) -> Result<Exit> {
    let named = args.search.algorithm;
    ensure!(
        args.mode != Mode::Tones || named == Algorithm::Auto,
        "--algorithm {named} looks on the grid, --mode tones between the bins; leave out one of the two"
    );
    let mut problem = args.search.problem(signal.len())?;
    if let Some(bins) = args.accuracy {
        ensure!(args.mode != Mode::Grid, "--accuracy concerns tones; leave out --mode grid");
        problem = problem.accuracy(bins);
    }
    // Where everything is looked for, no sparse transform needs to be possible.
    let plan = match Plan::new(problem.clone()) {
        Err(Error::NotSparse { .. }) if args.mode == Mode::Auto && args.search.k.is_none() => {
            Plan::new(problem.fallback(Fallback::Auto))?
        }
        plan => plan?,
    };
    detail(&format!("{title}\n{plan}"));
    let form = args.form.open(&args.files)?;
    // Annotations usually go into the metadata that are read, but never over samples.
    let annotated = args.sigmf.as_ref().map(|path| match path.extension() {
        Some(e) if e == "sigmf-meta" => Atomic::create(path),
        _ => Atomic::create_beside(path, &args.files),
    });
    let annotated = annotated.transpose()?;
    let effort = args.thorough.then_some(Effort::Thorough);
    let answer = spin("transforming", || match args.time {
        Some(time) => find_within(&args.search.find(&plan, signal), signal, time),
        None => args.search.answer(&plan, signal, args.mode, effort),
    })?;
    let view = view(&answer.spectrum);
    let cost = answer.cost.fetched(view.cost.bytes_read);
    let (tones, findings) = (answer.tones.as_ref(), answer.findings.as_ref());
    let view = View { tones, findings, cost, ..view };
    if let (Some(path), Some(file)) = (&args.sigmf, annotated) {
        let source = source.context("--sigmf annotates one recording, not a list of parts")?;
        let text = output::annotate::annotate(&view, source, path)?;
        file.finish(text.as_bytes())?;
    }
    show(&view, plan.recipe(), title, form)
}

/// Gives the peaks in the forms that were asked for.
pub fn show(view: &View<'_>, recipe: &Recipe, title: &str, form: Open) -> Result<Exit> {
    detail(&output::stages(view));
    if let Some(memory) = peak_memory() {
        detail(&format!("peak memory {memory} bytes"));
    }
    if let Some(file) = form.npz {
        file.finish(&output::npz(view))?;
    }
    let spectrum = view.spectrum;
    let certificate = spectrum.certificate();
    if form.json {
        let answer = output::Peaks::new(view, recipe);
        print(&(serde_json::to_string(&answer)? + "\n"))?;
    } else if form.csv {
        print(&output::csv(view))?;
        note(&format!("{certificate}{}", output::seed(view)));
    } else {
        let style = Style::stdout();
        let mut text = format!("{title}\n");
        text += &format!("mode {}: {}{}\n", view.mode(), output::header(view), output::seed(view));
        if let Some(attempts) = view.cost.describe() {
            text += &format!("tried {attempts}\n");
        }
        if let Some(findings) = view.survey() {
            text += &output::findings::text(view, findings, ROWS, style);
            print(&text)?;
            return Ok(exit(spectrum, view.findings));
        }
        text +=
            &format!("{}\n", style.verdict(certificate.is_reliable(), &certificate.to_string()));
        // The first reason is the certificate's own.
        let reasons = view.findings.map_or(&[][..], |f| &f.reasons);
        for reason in reasons.iter().filter(|r| r.code != "not_sparse") {
            text += &format!("note: {}\n", reason.text);
        }
        if spectrum.peaks().is_empty() {
            text += match certificate.is_reliable() {
                true => "nothing stands above the noise\n",
                false => "no line could be confirmed\n",
            };
        } else {
            text += &format!("\n{}", output::table(view, ROWS, style));
            if view.strongest().len() > ROWS {
                text += "(--csv and --json give all of them)\n";
            }
            if std::io::stdout().is_terminal() {
                text += &format!("\n{}", output::picture(view, style));
            }
        }
        text += &output::others(view);
        print(&text)?;
    }
    Ok(exit(spectrum, view.findings))
}
