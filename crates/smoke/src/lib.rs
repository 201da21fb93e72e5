//! A few cases of everything the library does, for processors and systems that the test machine is not.
//!
//! `cargo xtask test` builds them for 64-bit Arm, which it emulates, and for WebAssembly, where addresses
//! have 32 bits and there are neither threads nor a clock, and runs them there (`main.rs`, `run.mjs`).
//! They assert what holds everywhere: indices to the last bit, values within rounding or noise, verdicts.

mod cases;
#[cfg(target_family = "wasm")]
mod wasm;

pub use cases::CASES;

/// What one case found wrong.
pub type Outcome = Result<(), String>;

/// A case: what it is called and what it does.
pub struct Case {
    /// Its name, as in a list of tests.
    pub name: &'static str,
    /// Runs it; `Err` or a panic is a failure.
    pub run: fn() -> Outcome,
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_holds_here() {
        for case in super::CASES {
            (case.run)().unwrap_or_else(|why| panic!("{}: {why}", case.name));
        }
    }
}
