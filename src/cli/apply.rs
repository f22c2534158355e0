//! Defines `qwen apply`: apply what a dry run proposed.

use std::path::PathBuf;

use clap::Args;

use super::WorkspaceArgs;
use super::values::not_blank;
use crate::emit::Format;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen -o result 'fix the typo in README' > result.json
  qwen apply --check result.json && qwen apply result.json
  git diff --binary main topic | qwen apply -
What has changed since is merged where both changes stand apart; else nothing is written and 63 names each place.";

/// The flags of `apply`.
#[derive(Debug, Clone, Args)]
pub struct ApplyArgs {
    /// A result object or a patch, `-` for standard input
    #[arg(value_name = "RESULT|PATCH")]
    pub from: PathBuf,
    /// Judge the change by this policy [default: builtin:edit]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// Only say whether it could be applied
    #[arg(long)]
    pub check: bool,
    /// Commit, too
    #[arg(long, conflicts_with = "branch")]
    pub commit: bool,
    /// Commit on a new branch; work tree and index stay untouched
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    pub branch: Option<String>,
    /// Commit with this message
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub message: Option<String>,
    /// Apply although it cannot be undone
    #[arg(long)]
    pub no_undo: bool,
    /// Choose what standard output carries [default: text]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<Format>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
