//! Defines `qwen undo`: revert what a run changed.

use clap::Args;

use super::WorkspaceArgs;
use crate::emit::Format;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen undo            the last run in this workspace
A file that has changed since is left alone and named.";

/// The flags of `undo`.
#[derive(Debug, Clone, Args)]
pub struct UndoArgs {
    /// The run [default: the last one in this workspace that changed something]
    #[arg(value_name = "RUN_ID")]
    pub run_id: Option<String>,
    /// Choose what standard output carries [default: text]
    #[arg(short, long, value_name = "FORMAT")]
    pub output_format: Option<Format>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
