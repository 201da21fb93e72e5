//! The readers on damaged files: they refuse or read, but never panic and never reach outside.
//!
//! Valid files of each kind are changed at random (fixed seeds): bytes overwritten, cut, repeated.

mod common;
#[path = "common/readers.rs"]
mod readers;

use sparsefft_cli::input::sigmf;

struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// A damaged copy.
fn damage(valid: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = rng.below(256) as u8,
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)],
            2 => bytes.truncate(at.max(1)),
            3 => {
                let end = (at + 1 + rng.below(16)).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
            4 => {
                let piece = bytes[at..(at + rng.below(12)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at] = b"0123456789,(){}[]':\"<>|fciu-L "[rng.below(30)],
        }
    }
    bytes
}

fn sweep(valid: &[u8], seed: u64, check: impl Fn(&[u8])) {
    let mut rng = Rng(seed);
    for _ in 0..20_000 {
        check(&damage(valid, &mut rng));
    }
}

#[test]
fn npy() {
    let dir = tempfile::tempdir().unwrap();
    let path = common::npy(dir.path(), "x.npy", "'<f4'", "(6, 2)", &[0; 48]);
    let valid = std::fs::read(path).unwrap();
    sweep(&valid, 1, |file| readers::try_file("npy", file));
}

#[test]
fn wav() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.wav");
    common::run(["gen", "-n", "16", "--type", "cs24", "-o", path.to_str().unwrap()]);
    let valid = std::fs::read(path).unwrap();
    sweep(&valid, 2, |file| readers::try_file("wav", file));
}

#[test]
fn sigmf() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sigmf");
    common::run(["gen", "-n", "16", "--rate", "1M", "-o", path.to_str().unwrap()]);
    let valid = std::fs::read(path).unwrap();
    sweep(&valid, 3, |file| readers::try_file("sigmf-archive", file));
    let meta = sigmf::archive(&valid).unwrap().meta.to_vec();
    sweep(&meta, 4, readers::try_metadata);
}

#[test]
fn control_characters_in_metadata_do_not_break_a_sentence() {
    for text in ["cf32\\nle", "\\u0007", "ww\\r\\n0.0"] {
        let meta = format!(r#"{{"global": {{"core:datatype": "{text}"}}}}"#);
        readers::try_metadata(meta.as_bytes());
        let meta = format!(
            r#"{{"global": {{"core:datatype": "cf32_le", "core:dataset": "{text}"}}, "captures": []}}"#
        );
        readers::try_metadata(meta.as_bytes());
    }
}
