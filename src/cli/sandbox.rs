//! Defines `qwen sandbox`: which isolation this machine supports.

use clap::Subcommand;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen sandbox doctor";

/// What to do with the sandbox.
#[derive(Debug, Clone, Subcommand)]
pub enum SandboxVerb {
    /// Show the isolation tier, and what would improve it
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
