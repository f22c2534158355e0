//! Defines `qwen tools`: the registry of tools as the model sees it.

use clap::Subcommand;

use super::WorkspaceArgs;
use super::values::not_blank;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen tools list
  qwen tools call read_file --input '{\"file_path\": \"README.md\"}'";

/// What to do with tools.
#[derive(Debug, Clone, Subcommand)]
pub enum ToolsVerb {
    /// List the tools that a run here would offer
    List {
        /// Print name, description, schema and size as JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Call one tool under the policy
    Call {
        /// The tool
        #[arg(value_name = "NAME")]
        name: String,
        /// Its arguments, `-` for standard input
        #[arg(long, value_name = "JSON")]
        input: String,
        /// Decide by this policy [env: QWEN_POLICY] [default: as a run here would]
        #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
        policy: Option<String>,
        /// Apply what the call changes
        #[arg(long)]
        apply: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}
