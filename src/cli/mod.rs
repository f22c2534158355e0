//! Defines the command line as types; their doc comments are the help.
//!
//! Each command has one file. Nothing here reads a file or the environment.

pub mod apply;
pub mod check;
pub mod ci;
pub mod completions;
pub mod doctor;
pub mod help;
pub mod hook;
pub mod input;
pub mod mcp;
pub mod policy;
pub mod prompt;
pub mod recipe;
pub mod run;
pub mod sandbox;
pub mod schema;
pub mod tools;
pub mod undo;
pub mod usage;
pub mod values;
mod yargs;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

pub use self::run::RunArgs;
pub use self::usage::{UsageError, parse};

/// Qwen Code for machines: one prompt in, one judged patch, commit or answer out
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
    /// Print help
    // One form for -h and --help: the long one spreads a page of flags over seven.
    #[arg(short, long, action = ArgAction::HelpShort, global = true)]
    pub help: Option<bool>,
    /// The flags of `run`, for a call without a command.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a prompt: model, tools, policy, then text, JSON, a patch, applied changes or a commit
    #[command(after_help = help::AFTER)]
    Run(Box<RunArgs>),
    /// Apply what a dry run proposed: all of it or nothing
    #[command(after_help = apply::EXAMPLE)]
    Apply(apply::ApplyArgs),
    /// Put back what a run changed
    #[command(after_help = undo::EXAMPLE)]
    Undo(undo::UndoArgs),
    /// Check, explain and write policies; no model call
    #[command(after_help = policy::EXAMPLE)]
    Policy {
        /// Which verb.
        #[command(subcommand)]
        verb: policy::PolicyVerb,
    },
    /// List, show, check, begin and test recipes
    #[command(after_help = recipe::EXAMPLE)]
    Recipe {
        /// Which verb.
        #[command(subcommand)]
        verb: recipe::RecipeVerb,
    },
    /// Run a small check of a recipe by hand; no model
    #[command(after_help = check::EXAMPLE)]
    Check {
        /// Which verb.
        #[command(subcommand)]
        verb: check::CheckVerb,
    },
    /// Do the work of the GitHub Action's two jobs
    #[command(after_help = ci::EXAMPLE)]
    Ci {
        /// Which verb.
        #[command(subcommand)]
        verb: ci::CiVerb,
    },
    /// Show the tools as the model sees them, or call one by hand under the policy
    #[command(after_help = tools::EXAMPLE)]
    Tools {
        /// Which verb.
        #[command(subcommand)]
        verb: tools::ToolsVerb,
    },
    /// Add, list and remove MCP servers, and sign in to them
    #[command(after_help = mcp::EXAMPLE)]
    Mcp {
        /// Which verb.
        #[command(subcommand)]
        verb: mcp::McpVerb,
    },
    /// Be a hook of git's, or write the hooks: a look at the staged change, a draft of the message
    #[command(after_help = hook::EXAMPLE)]
    Hook {
        /// Which verb.
        #[command(subcommand)]
        verb: hook::HookVerb,
    },
    /// Show which isolation this machine gives
    #[command(after_help = sandbox::EXAMPLE)]
    Sandbox {
        /// Which verb.
        #[command(subcommand)]
        verb: sandbox::SandboxVerb,
    },
    /// Print a JSON Schema, generated from the types
    #[command(after_help = schema::EXAMPLE)]
    Schema(schema::SchemaArgs),
    /// Show settings with their origin, keys (masked), policy layers, git state and sandbox; no model call
    #[command(after_help = doctor::EXAMPLE)]
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    #[command(after_help = completions::EXAMPLE)]
    Completions(completions::CompletionsArgs),
}

/// Where to work.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkspaceArgs {
    /// Work in this folder [default: the current one]
    #[arg(short = 'C', long = "cd", value_name = "DIR", help_heading = "Input")]
    pub cd: Option<PathBuf>,
}
