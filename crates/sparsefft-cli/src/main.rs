//! The `sparsefft` command.

fn main() -> std::process::ExitCode {
    sparsefft_cli::run()
}
