//! Defines `qwen tools`: the registry of tools as the model sees it.

use clap::Subcommand;

use super::values::not_blank;
use super::workspace::WorkspaceArgs;

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
        /// Name of the tool
        #[arg(value_name = "NAME")]
        name: String,
        /// Arguments of the call; `-` reads standard input
        #[arg(long, value_name = "JSON")]
        input: String,
        /// Policy to apply [env: QWEN_POLICY] [default: the policy of a run in this directory]
        #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
        policy: Option<String>,
        /// Apply the changes of the call
        #[arg(long)]
        apply: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}
