//! `sparsefft completions` and `sparsefft man`: what packagers install beside the binary.

use crate::Exit;
use crate::output::atomic;
use anyhow::Result;
use clap::CommandFactory;
use std::path::Path;

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sparsefft completions bash > ~/.local/share/bash-completion/completions/sparsefft")]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sparsefft man > sparsefft.1 && man ./sparsefft.1")]
pub struct ManArgs {
    /// The subcommand whose page is wanted [default: the overview]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Runs `completions`.
pub fn completions(args: &CompletionArgs) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "sparsefft", &mut text);
    atomic::write(Path::new("-"), &text)?;
    Ok(Exit::Found)
}

/// Runs `man`.
pub fn man(args: &ManArgs) -> Result<Exit> {
    let mut cli = super::Cli::command();
    cli.build();
    let command = match &args.command {
        None => cli,
        Some(name) => match cli.find_subcommand(name) {
            Some(c) => c.clone(),
            None => anyhow::bail!("there is no command '{name}'; `sparsefft --help` lists them"),
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    atomic::write(Path::new("-"), &text)?;
    Ok(Exit::Found)
}
