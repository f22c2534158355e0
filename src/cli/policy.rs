//! Defines `qwen policy`: check, explain and write policies, without a model.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::not_blank;
use super::workspace::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen policy check -- 'git push'
  qwen policy explain --tool edit --input '{\"file_path\": \"src/lib.rs\"}'
  qwen policy check --calls calls.jsonl --policy builtin:edit";

/// What to do with policies.
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyVerb {
    /// Show whether calls are allowed, one JSON line each; exit code 60 if one is denied
    Check(JudgeArgs),
    /// Explain why a call is allowed or denied
    Explain(JudgeArgs),
    /// Run the tests of a policy file
    Test {
        /// The policy file; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the smallest policy that allows a recorded dry run
    Init {
        /// Events from --events-file, or the id of a kept run; `-` reads standard input
        #[arg(long, value_name = "EVENTS|RUN_ID")]
        from: PathBuf,
    },
    /// Approve this checkout's .qwen/**, .mcp.json and .env; a changed file revokes the approval
    Trust {
        /// Revoke the approval
        #[arg(long)]
        revoke: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Print a built-in policy, or the names of all
    Builtin {
        /// Name of the policy
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

/// Which calls to judge by what.
#[derive(Debug, Clone, Args)]
pub struct JudgeArgs {
    /// Policy to apply [env: QWEN_POLICY] [default: the policy of a run in this directory]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// Check a call of this tool
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ["calls", "command"])]
    pub tool: Option<String>,
    /// Arguments of the tool call
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub input: Option<String>,
    /// Check each call of a JSON Lines file; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub calls: Option<PathBuf>,
    /// Check this shell command
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["tool", "calls"])]
    pub command: Vec<String>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
