//! Defines `qwen policy`: check, explain and write policies, without a model.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::WorkspaceArgs;
use super::values::not_blank;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen policy check -- 'git push'
  qwen policy explain --tool edit --input '{\"file_path\": \"src/lib.rs\"}'
  qwen policy check --calls calls.jsonl --policy builtin:edit";

/// What to do with policies.
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyVerb {
    /// Say for each call whether it would be allowed: one line of JSON a call, 0 if all are, 60 if not
    Check(JudgeArgs),
    /// Say why a call would be allowed or denied, as a tree for people
    Explain(JudgeArgs),
    /// Run the tests of a policy file
    Test {
        /// The policy file, `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write the smallest policy that would have allowed a recorded dry run
    Init {
        /// What --events-file wrote, `-` for standard input
        #[arg(long, value_name = "EVENTS")]
        from: PathBuf,
    },
    /// Approve this checkout's .qwen/**, .mcp.json and .env by their hashes; a changed file voids it
    Trust {
        /// Forget the approval
        #[arg(long)]
        revoke: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Print a builtin policy, or the names of all
    Builtin {
        /// Which one
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

/// Which calls to judge by what.
#[derive(Debug, Clone, Args)]
pub struct JudgeArgs {
    /// Judge by this policy [env: QWEN_POLICY] [default: as a run here would]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// Judge a call of this tool
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ["calls", "command"])]
    pub tool: Option<String>,
    /// Its arguments
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub input: Option<String>,
    /// Judge each call of a file with one JSON object a line, `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub calls: Option<PathBuf>,
    /// Judge this shell command
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["tool", "calls"])]
    pub command: Vec<String>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
