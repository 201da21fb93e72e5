//! Runs every case and sums up in the words of `cargo test`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut failed = 0;
    for case in smoke::CASES {
        // A panic has already been printed by the standard hook.
        let outcome = std::panic::catch_unwind(case.run).unwrap_or_else(|_| Err("panic".into()));
        match outcome {
            Ok(()) => println!("test {} ... ok", case.name),
            Err(why) => {
                failed += 1;
                println!("test {} ... FAILED: {why}", case.name);
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {} passed; {failed} failed", smoke::CASES.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
