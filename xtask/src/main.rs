//! The repository's own commands, one file each: `cargo xtask <command>`.

mod bench;
mod fuzz;
mod install_c;
mod kernels;
mod mutants;
mod portable;
mod promise;
mod python;
mod sanitize;
mod shell;
mod soak;
mod test;

use std::process::ExitCode;

/// A subcommand: its name, one line of help, and what it runs with the arguments after its name.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<bool, String>,
}

/// Every subcommand. A new one is a file with a `run` function and a line here.
const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        help: "install what is missing, check format, lints and docs, run every test",
        run: test::run,
    },
    Command {
        name: "promise",
        help: "[--trials N]  many random and structured signals: right, or not certified",
        run: promise::run,
    },
    Command {
        name: "bench",
        help: "[--quick] [PART ...]  the experiment beside RustFFT, FFTW and oxifft; see crates/experiment",
        run: bench::run,
    },
    Command {
        name: "fuzz",
        help: "[SECONDS] [--keep]  readers, sketches, the C interface and HTTP on damaged input, with libFuzzer",
        run: fuzz::run,
    },
    Command {
        name: "soak",
        help: "[MINUTES]  mixed calls from eight threads through C and Python: equal answers, flat memory",
        run: soak::run,
    },
    Command {
        name: "portable",
        help: "the smoke suite for 64-bit Arm (emulated) and WebAssembly (in Node)",
        run: portable::run,
    },
    Command {
        name: "install-c",
        help: "--prefix DIR [--debug]  build and install the C library, its header and pkg-config file",
        run: install_c::run,
    },
    Command {
        name: "sanitize",
        help: "[loom | address | thread | miri ...]  races and bytes out of bounds, where the toolchain allows",
        run: sanitize::run,
    },
    Command {
        name: "mutants",
        help: "[--list] [--all] [--sample K/N] [judge | limits | sketch | readers ...]  faults put into code: do tests notice?",
        run: mutants::run,
    },
    Command {
        name: "kernels",
        help: "[--check | --variants DIR | --instrument DIR]  compile the CUDA kernels to PTX, or check that it is current",
        run: kernels::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("help", String::as_str);
    if matches!(name, "help" | "--help" | "-h") {
        println!("usage: cargo xtask <command>\n");
        for c in COMMANDS {
            println!("  {:<10} {}", c.name, c.help);
        }
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|c| c.name == name) else {
        eprintln!("xtask: unknown command '{name}'; run `cargo xtask` for the list");
        return ExitCode::from(2);
    };
    match (command.run)(&args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::from(2)
        }
    }
}
