//! Damaged .wav files are refused in words or read inside their bounds.
#![no_main]

#[path = "../../crates/sparsefft-cli/tests/common/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|file: &[u8]| readers::try_file("wav", file));
