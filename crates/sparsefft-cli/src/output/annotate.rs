//! The peaks as SigMF annotations, which inspectrum and IQEngine draw as labelled boxes.
//!
//! A box spans the samples that were transformed. A bin of a long recording is far too narrow to
//! be seen, so a box is at least a thousandth of the band wide; label and comment hold the exact
//! frequency.

use super::View;
use crate::input::raw::Type;
use crate::units::si;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;

/// Marks our annotations, so that a second run replaces them.
const GENERATOR: &str = concat!("sparsefft ", env!("CARGO_PKG_VERSION"));

/// What the annotations belong to.
pub struct Source<'a> {
    /// The recording's file.
    pub path: &'a Path,
    /// Its metadata, if it is SigMF already.
    pub meta: Option<&'a Value>,
    /// Its sample type, if SigMF can name it and the file holds nothing but samples.
    pub kind: Option<Type>,
    /// First sample that was transformed.
    pub first: u64,
}

/// The metadata with the peaks as annotations, for a file of this name.
///
/// # Errors
/// No sample rate is known, or the recording is of a kind that SigMF cannot describe.
pub fn annotate(view: &View<'_>, source: &Source<'_>, output: &Path) -> Result<String> {
    let rate = view.rate.context("--sigmf needs the sample rate; give it with --rate")?;
    let mut meta = match (source.meta, source.kind) {
        (Some(meta), _) => meta.clone(),
        (None, Some(kind)) => {
            let mut capture = json!({ "core:sample_start": 0 });
            if let Some(center) = view.center {
                capture["core:frequency"] = center.into();
            }
            json!({
                "global": {
                    "core:datatype": kind.sigmf_name(),
                    "core:sample_rate": rate,
                    "core:version": "1.0.0",
                },
                "captures": [capture],
                "annotations": [],
            })
        }
        (None, None) => anyhow::bail!(
            "--sigmf describes SigMF and raw recordings; this one is neither, use --json or --csv"
        ),
    };
    // Metadata find their samples by name; another name needs a pointer.
    let expected = crate::input::sigmf::pair(output).1;
    let (expected, actual) = (expected.file_name(), source.path.file_name());
    let data = match source.meta {
        Some(_) => Path::new(actual.unwrap_or_default()).with_extension("sigmf-data"),
        None => actual.unwrap_or_default().into(),
    };
    if expected != Some(data.as_os_str()) && meta["global"].get("core:dataset").is_none() {
        meta["global"]["core:dataset"] = data.to_string_lossy().into_owned().into();
    }
    let n = view.spectrum.n();
    let half = (rate / n as f64).max(rate / 1000.0) / 2.0;
    let old = meta.get("annotations").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut all: Vec<Value> = old.into_iter().filter(|a| !ours(a)).collect();
    for p in view.spectrum.peaks() {
        let f = view.frequency(p);
        all.push(json!({
            "core:sample_start": source.first,
            "core:sample_count": n,
            "core:freq_lower_edge": f - half,
            "core:freq_upper_edge": f + half,
            "core:label": si(f, "Hz", 6),
            "core:comment": format!("bin {} of {n}: {:.2} dB, phase {:+.4} rad", view.bin(p).0,
                                    view.level(p), p.phase()),
            "core:generator": GENERATOR,
        }));
    }
    // The specification wants them sorted by their first sample.
    all.sort_by_key(|a| a["core:sample_start"].as_u64().unwrap_or(0));
    ensure!(meta.is_object(), "the SigMF metadata are not an object; write them again");
    meta["annotations"] = all.into();
    Ok(format!("{meta:#}\n"))
}

fn ours(annotation: &Value) -> bool {
    let generator = annotation.get("core:generator").and_then(Value::as_str);
    generator.is_some_and(|g| g.starts_with("sparsefft"))
}
