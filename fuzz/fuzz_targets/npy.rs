//! Damaged .npy files are refused in words or read inside their bounds.
#![no_main]

#[path = "../../crates/sparsefft-cli/tests/common/readers.rs"]
#[allow(dead_code)] // what other targets ask for
mod readers;

libfuzzer_sys::fuzz_target!(|file: &[u8]| readers::try_file("npy", file));
