//! Defines `qwen check`: small checks for recipes, without a model.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;

use super::workspace::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen check change --staged
  qwen check changelog --file=CHANGELOG.md --heading=1.4.0 --since=v1.3.0
  qwen check markdown-shape docs/en.md docs/de.md
  qwen check repeat --times=30 -- cargo test flaky";

/// What to check.
#[derive(Debug, Clone, Subcommand)]
pub enum CheckVerb {
    /// Check a new changelog section: nothing old is removed, each entry names a commit
    Changelog {
        /// The changelog file
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// The heading of the new section
        #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
        heading: String,
        /// Commit after which the named commits must be
        #[arg(long, value_name = "REV", value_parser = NonEmptyStringValueParser::new())]
        since: String,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Search a change for secrets, links out of the repository and invisible characters (no model call)
    ///
    /// Finds also files for secrets and new submodules. Sends nothing. Exit code 1 if one of them is an error.
    Change {
        /// Check the staged changes [default: tracked files that differ from HEAD]
        #[arg(long, conflicts_with = "range")]
        staged: bool,
        /// Check these commits, as A..B or A...B
        #[arg(long, value_name = "RANGE", value_parser = super::values::range)]
        range: Option<String>,
        /// Policy file or built-in policy with `secrets.patterns` and `secrets.ignore`
        #[arg(long, value_name = "FILE|NAME", value_parser = NonEmptyStringValueParser::new())]
        policy: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Check that a translation has the headings, links and code blocks of its source
    MarkdownShape {
        /// The source file
        #[arg(value_name = "SOURCE")]
        source: PathBuf,
        /// The translated file
        #[arg(value_name = "TARGET")]
        target: PathBuf,
    },
    /// Run a command several times on a copy of the tree; exit code 1 if it ever fails
    Repeat {
        /// Number of runs
        #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
        times: u32,
        /// Accepted, no effect: the counts are always printed first
        #[arg(long)]
        summary: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// The command
        #[arg(value_name = "COMMAND", last = true, required = true)]
        command: Vec<String>,
    },
}
