//! `sparsefft peaks`: the main job.

use super::search::{Search, exit};
use crate::Exit;
use crate::input::{Options, Recording};
use crate::output::progress::{detail, note, peak_memory, spin};
use crate::output::{self, Style, View, print};
use anyhow::Result;
use sparsefft::Samples;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Find the large Fourier coefficients of a recording
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sparsefft peaks signal.npy               a table of the tones it finds
  sparsefft peaks signal.npy --rate 20M    the same, with frequencies in Hz
  sparsefft peaks signal.npy -k 50 --json  the 50 largest, as JSON
  sparsefft peaks radio.sigmf-meta --sigmf radio.sigmf-meta   annotate a SigMF recording
  rtl_sdr -s 2.4M -n 64M - | sparsefft peaks - --format cu8 --rate 2.4M

The table shows |X|/n in dB, the phase in radians, and the SNR against the noise in one sample.
Exit codes: 0 found, 1 nothing above the noise, 2 usage or input error, 3 not certified.")]
pub struct Args {
    /// The recording: .npy, .wav, .sigmf-meta, .sigmf, raw samples; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    input: Options,

    /// Print one JSON object
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    json: bool,

    /// Print comma-separated values
    #[arg(long, help_heading = "Output")]
    csv: bool,

    /// Also write the peaks as NumPy arrays
    #[arg(long, value_name = "OUT.npz", help_heading = "Output")]
    npz: Option<PathBuf>,

    /// Also write SigMF metadata with the peaks as annotations (needs a rate)
    #[arg(long, value_name = "OUT.sigmf-meta", help_heading = "Output")]
    sigmf: Option<PathBuf>,
}

/// Most rows of the table.
const ROWS: usize = 40;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let recording = Recording::open(&args.file, &args.input)?;
    let plan = args.search.plan(recording.len())?;
    detail(&format!("{}\n{plan}", recording.description));
    let spectrum = spin("transforming", || args.search.device.transform(&plan, &recording))?;
    let view = View::new(&spectrum, &recording);
    detail(&output::stages(&view));
    if let Some(memory) = peak_memory() {
        detail(&format!("peak memory {memory} bytes"));
    }
    write_files(args, &recording, &view)?;
    let certificate = spectrum.certificate();
    if args.json {
        let answer = output::Peaks::new(&view, plan.recipe());
        print(&(serde_json::to_string(&answer)? + "\n"))?;
    } else if args.csv {
        print(&output::csv(&view))?;
        note(&certificate.to_string());
    } else {
        let style = Style::stdout();
        let mut text = format!("{}: {}\n", args.file.display(), recording.description);
        text += &format!("{}\n", output::header(&view));
        text +=
            &format!("{}\n", style.verdict(certificate.is_certified(), &certificate.to_string()));
        if spectrum.peaks().is_empty() {
            text += "nothing stands above the noise\n";
        } else {
            text += &format!("\n{}", output::table(&view, ROWS, style));
            if view.strongest().len() > ROWS {
                text += "(--csv and --json give all of them)\n";
            }
            if std::io::stdout().is_terminal() {
                text += &format!("\n{}", output::picture(&view, style));
            }
        }
        print(&text)?;
    }
    Ok(exit(&spectrum))
}

/// Writes the files that were asked for beside the printed answer.
fn write_files(args: &Args, recording: &Recording, view: &View<'_>) -> Result<()> {
    if let Some(path) = &args.npz {
        output::atomic::write(path, &output::npz(view))?;
    }
    if let Some(path) = &args.sigmf {
        let source = output::annotate::Source {
            path: &args.file,
            meta: recording.sigmf.as_ref(),
            kind: recording.raw,
            first: recording.skipped,
        };
        let text = output::annotate::annotate(view, &source, path)?;
        output::atomic::write(path, text.as_bytes())?;
    }
    Ok(())
}
