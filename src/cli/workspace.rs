//! Defines the flag that names the workspace.

use std::path::PathBuf;

use clap::Args;

/// Where to work.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkspaceArgs {
    /// Work in this directory [default: the current one]
    #[arg(short = 'C', long = "cd", value_name = "DIR", help_heading = "Input")]
    pub cd: Option<PathBuf>,
}
