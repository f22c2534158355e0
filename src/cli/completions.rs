//! Defines `qwen completions`: completion scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen completions bash > ~/.local/share/bash-completion/completions/qwen";

/// The flags of `completions`.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Returns the completion script of a shell for a command line.
pub fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "qwen", &mut script);
    script
}
