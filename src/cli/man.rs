//! Defines `qwen man`: manual pages.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;

/// The text below the flags in help.
pub const EXAMPLE: &str = "\
Example:
  qwen man | man -l -
  qwen man --to ~/.local/share/man/man1";

/// The flags of `man`.
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Write one page per command to this directory
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// Returns the page of a command.
pub fn page(command: Command) -> Vec<u8> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).expect("memory can be written to");
    page
}

/// Writes a page for a command and each below it, `qwen-policy-check.1` for `qwen policy check`; an existing one is replaced.
#[expect(
    clippy::disallowed_methods,
    reason = "the directory is the user's own, for files that are no part of a project"
)]
pub fn write_to(directory: &Path, command: Command) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}
