//! `qwen doctor`.

use clap::Args;

use super::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen doctor --json";

/// The flags of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
