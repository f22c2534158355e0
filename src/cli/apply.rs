//! Defines `qwen apply`: apply what a dry run proposed.

use std::path::PathBuf;

use clap::Args;

use super::values::not_blank;
use super::workspace::WorkspaceArgs;
use crate::emit::Format;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen 'fix the typo in README' && qwen apply
  qwen apply --list && qwen apply --hunks 1,3-4
  qwen apply --check result.json && qwen apply result.json
  git diff --binary main topic | qwen apply -
Changes made since are merged if they do not overlap; otherwise nothing is written, and exit code 63 names each place.";

/// The flags of `apply`.
#[derive(Debug, Clone, Args)]
pub struct ApplyArgs {
    /// Result, review page, patch or run; `-` reads standard input [default: the newest proposal here]
    #[arg(value_name = "FROM")]
    pub from: Option<PathBuf>,
    /// Policy to apply to the changes [default: builtin:edit]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// Apply only these hunks, as --list numbers them: `1,3-5,7.2`
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub hunks: Option<String>,
    /// Apply only the hunks of these files; with --hunks both
    #[arg(long, value_name = "GLOB", value_parser = not_blank)]
    pub files: Vec<String>,
    /// List the hunks with their numbers, and write nothing
    #[arg(long, conflicts_with_all = ["hunks", "files", "check", "commit", "branch", "message"])]
    pub list: bool,
    /// Only check whether the changes apply
    #[arg(long)]
    pub check: bool,
    /// Also commit the changes
    #[arg(long, conflicts_with = "branch")]
    pub commit: bool,
    /// Commit to a new branch; working tree and index stay unchanged
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    pub branch: Option<String>,
    /// Commit message
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub message: Option<String>,
    /// Do not keep an undo record
    #[arg(long)]
    pub no_undo: bool,
    /// Format of standard output [default: text]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<Format>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
