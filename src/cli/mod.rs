//! Defines the command line as types; their doc comments are the help.
//!
//! Each command has one file. Nothing here reads a file or the environment.

pub mod apply;
pub mod batch;
pub mod batch_directory;
pub mod check;
pub mod ci;
pub mod completions;
pub mod doctor;
pub mod eval;
pub mod help;
pub mod help_topic;
pub mod hook;
pub mod input;
pub mod man;
pub mod mcp;
pub mod policy;
pub mod prompt;
pub mod recipe;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod schema;
pub mod tools;
pub mod undo;
pub mod usage;
pub mod values;
pub mod workspace;
mod yargs;

use clap::{ArgAction, Parser, Subcommand};

pub use self::run::RunArgs;
pub use self::workspace::WorkspaceArgs;

/// Non-interactive Qwen Code: turns one prompt into an answer, a patch, a commit or applied changes
///
/// `qwen [FLAGS] [PROMPT]` is the same as `qwen run [FLAGS] [PROMPT]`.
#[derive(Debug, Parser)]
#[command(
    name = "qwen",
    version,
    after_help = help::AFTER,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    disable_help_flag = true,
    max_term_width = 110
)]
pub struct Cli {
    /// The command; `run` if there is none.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print help; -h shows only the common options
    // The parser's own long form would spread a page of flags over seven; what -h leaves out is hidden before parsing.
    #[arg(short, long, action = ArgAction::HelpShort, global = true)]
    pub help: Option<bool>,
    /// The flags of `run`, for a call without a command.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a prompt or a recipe; this is the default command
    #[command(after_help = help::AFTER)]
    Run(Box<RunArgs>),
    /// Run one recipe over many items, several at a time
    #[command(after_help = batch::EXAMPLE)]
    Batch(Box<batch::BatchArgs>),
    /// Apply the changes that a dry run proposed, all or nothing
    #[command(after_help = apply::EXAMPLE)]
    Apply(apply::ApplyArgs),
    /// Show a run and its proposed changes as one HTML page (no model call)
    #[command(after_help = report::EXAMPLE)]
    Report(report::ReportArgs),
    /// Undo the changes of a run
    #[command(after_help = undo::EXAMPLE)]
    Undo(undo::UndoArgs),
    /// Check, explain, test and create policies (no model call)
    #[command(after_help = policy::EXAMPLE)]
    Policy {
        /// Which verb.
        #[command(subcommand)]
        verb: policy::PolicyVerb,
    },
    /// List, show, validate, create, test and evaluate recipes
    #[command(after_help = recipe::EXAMPLE)]
    Recipe {
        /// Which verb.
        #[command(subcommand)]
        verb: recipe::RecipeVerb,
    },
    /// Run one of the checks that recipes use (no model call)
    #[command(after_help = check::EXAMPLE)]
    Check {
        /// Which verb.
        #[command(subcommand)]
        verb: check::CheckVerb,
    },
    /// Run the GitHub Action's jobs
    #[command(after_help = ci::EXAMPLE)]
    Ci {
        /// Which verb.
        #[command(subcommand)]
        verb: ci::CiVerb,
    },
    /// Show the tools that the model sees, or call one under the policy
    #[command(after_help = tools::EXAMPLE)]
    Tools {
        /// Which verb.
        #[command(subcommand)]
        verb: tools::ToolsVerb,
    },
    /// Add, list, remove and sign in to MCP servers
    #[command(after_help = mcp::EXAMPLE)]
    Mcp {
        /// Which verb.
        #[command(subcommand)]
        verb: mcp::McpVerb,
    },
    /// Run as a git hook, or install the hooks
    #[command(after_help = hook::EXAMPLE)]
    Hook {
        /// Which verb.
        #[command(subcommand)]
        verb: hook::HookVerb,
    },
    /// Show which isolation this machine provides
    #[command(after_help = sandbox::EXAMPLE)]
    Sandbox {
        /// Which verb.
        #[command(subcommand)]
        verb: sandbox::SandboxVerb,
    },
    /// Print the JSON Schema of a file or output format
    #[command(after_help = schema::EXAMPLE)]
    Schema(schema::SchemaArgs),
    /// Show settings and their origin, policy, git state and sandbox (no model call)
    #[command(after_help = doctor::EXAMPLE)]
    Doctor(doctor::DoctorArgs),
    /// Show a page of the manual
    #[command(after_help = help_topic::EXAMPLE)]
    Help(help_topic::HelpArgs),
    /// Print shell completions
    #[command(after_help = completions::EXAMPLE)]
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    #[command(after_help = man::EXAMPLE)]
    Man(man::ManArgs),
}
