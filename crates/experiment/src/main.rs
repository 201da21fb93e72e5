//! The experiment: the papers' tables and figures on the machine at hand, peers in the same run.
//!
//! `cargo xtask bench` (all parts) or `cargo xtask bench over-n profile` (some); `--quick` takes
//! fewer and shorter signals. Results go to `benches/results/`: one JSON file per part with every
//! time measured, a Markdown table and a drawing. `--draw-gpu=LOG` draws what was measured on a GPU.
//!
//! Every answer is compared with the truth while it is timed; a row says how many were right.
//! *warm*: the same signal again. *fresh*: all its cache lines flushed before each transform, plan
//! and workspace warm. Times are medians; the spread is that of the quartiles. Everything runs on one
//! thread, but for the part about threads. `--recording=FILE` adds a file of raw 64-bit samples (complex
//! if its name ends in `.c128`) to the part `survey`. Signals lie in pages of
//! 2 MiB and begin with a cache line (`sparsefft::buffer`); with `SPARSEFFT_PLAIN_MEMORY=1` they are a
//! `Vec`, as the buffers of the dense peers always are, which is what serves them best.

mod draw;
mod gpu;
mod measure;
mod parts;
mod peers;
mod survey;

use std::path::{Path, PathBuf};

/// A part of the experiment: its name, what it shows, and how it is run.
type Part = (&'static str, &'static str, fn(&Options) -> parts::Outcome);

const PARTS: [Part; 8] = [
    ("over-n", "run time over n, k = 50", parts::over_n),
    ("over-k", "run time over k, n = 2^22", parts::over_k),
    ("gpu-papers", "run time over n, k = 1000", parts::thousand),
    ("targets", "the targets of the design", parts::targets),
    ("threads", "one thread and all of them", parts::threads),
    ("profile", "time per stage", parts::profile),
    ("accuracy", "error and success over noise and k", parts::accuracy),
    ("survey", "the survey of find and a dense FFT", survey::survey),
];

/// What the caller wants.
pub struct Options {
    quick: bool,
    out: PathBuf,
    /// Files of raw 64-bit samples for the part `survey`.
    recordings: Vec<PathBuf>,
}

fn main() {
    let (mut chosen, mut options) = (
        Vec::new(),
        Options {
            quick: false,
            out: Path::new("benches/results").to_path_buf(),
            recordings: Vec::new(),
        },
    );
    for argument in std::env::args().skip(1) {
        match argument.strip_prefix("--") {
            Some("quick") => options.quick = true,
            Some(other) if other.starts_with("out=") => options.out = other[4..].into(),
            Some(other) if other.starts_with("recording=") => {
                options.recordings.push(other["recording=".len()..].into());
            }
            Some(other) if other.starts_with("draw-gpu=") => {
                if let Err(error) = gpu::figures(Path::new(&other[9..]), Path::new("docs/img")) {
                    eprintln!("{error}");
                    std::process::exit(2);
                }
                return;
            }
            Some(_) => return complain(&argument),
            None if PARTS.iter().any(|(name, ..)| *name == argument) => chosen.push(argument),
            None => return complain(&argument),
        }
    }
    if let Err(error) = std::fs::create_dir_all(&options.out) {
        eprintln!("cannot make {}: {error}", options.out.display());
        std::process::exit(2);
    }
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let alone = alone.expect("a thread can be started");
    for (name, title, run) in PARTS {
        if chosen.is_empty() || chosen.iter().any(|c| c == name) {
            eprintln!("{name}: {title}");
            let outcome = match name {
                "threads" => run(&options),
                _ => alone.install(|| run(&options)),
            };
            println!("\n## {title}\n\n{}", outcome.table);
            write(&options.out, &format!("{name}.json"), &outcome.json(title));
            write(&options.out, &format!("{name}.md"), &outcome.table);
            if let Some(drawing) = outcome.drawing {
                write(&options.out, &format!("{name}.svg"), &drawing);
            }
        }
    }
}

fn complain(argument: &str) {
    let names: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
    eprintln!(
        "unknown argument {argument}; known: --quick, --out=DIR, --recording=FILE, {}",
        names.join(", ")
    );
    std::process::exit(2);
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    if let Err(error) = std::fs::write(&path, text) {
        eprintln!("cannot write {}: {error}", path.display());
        std::process::exit(2);
    }
}
