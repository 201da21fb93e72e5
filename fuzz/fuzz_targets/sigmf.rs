//! Damaged SigMF archives and metadata are refused in words or read inside their bounds.
#![no_main]

#[path = "../../crates/sparsefft-cli/tests/common/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    // Text is metadata; everything else is an archive.
    if file.starts_with(b"{") {
        readers::try_metadata(file);
    } else {
        readers::try_file("sigmf-archive", file);
    }
});
