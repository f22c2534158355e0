//! Defines `qwen undo`: revert what a run changed.

use clap::Args;

use super::workspace::WorkspaceArgs;
use crate::emit::Format;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen undo            the last run in this workspace
  qwen undo --list     the runs that can be undone, with their ids
A file that was changed after the run is kept and reported.";

/// The flags of `undo`.
#[derive(Debug, Clone, Args)]
pub struct UndoArgs {
    /// Id of the run [default: the last run that changed this workspace]
    #[arg(value_name = "RUN_ID")]
    pub run_id: Option<String>,
    /// List the runs with an undo record, and change nothing
    #[arg(long, conflicts_with = "run_id")]
    pub list: bool,
    /// Format of standard output [default: text]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<Format>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
