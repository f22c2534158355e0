//! Defines what `qwen batch` does with the directory of a batch.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::run::ModelArgs;
use super::values::not_blank;
use super::workspace::WorkspaceArgs;
use crate::batch::tally::Share;
use crate::emit::Format;

/// What stands below the flags of `status`.
pub const STATUS: &str = "\
Example:
  qwen batch status out
  qwen batch status -o result out | jq .items
A directory of shards (shard-1-of-8, …) is shown as one batch.";

/// What stands below the flags of `merge`.
pub const MERGE: &str = "\
Example:
  qwen batch merge out --out merged                     all shards below out/
  qwen batch merge shard-* --out merged --partial       what is done, although some is missing
Exit code 42 names the shards and keys that are missing. How the items ended is in merged/summary.json.";

/// What stands below the flags of `report`.
pub const REPORT: &str = "\
Example:
  qwen batch report out --html report.html --junit junit.xml
  qwen batch report out --csv - | head
Reports are written from the journal: also while the batch runs. FILE - is standard output.";

/// What stands below the flags of `deliver`.
pub const DELIVER: &str = "\
Example:
  qwen batch deliver out                                      what would change, and whether it fits
  qwen batch deliver out --apply --verify-combined 'cargo test'
  qwen batch deliver out --branch qwen/docs --partial         although some items failed
  qwen batch deliver out --branch-each 'qwen/docs/{key}'      one branch for each item
Changes are merged in the order of the list. If two touch, nothing is written, and exit code 63 names both keys.";

/// What stands below the flags of `cancel`.
pub const CANCEL: &str = "\
Example:
  qwen batch cancel out
The command of the batch collects what was answered before.";

/// The verbs of `batch`.
#[derive(Debug, Clone, Subcommand)]
pub enum BatchVerb {
    /// Show what is done, running, left and spent (no model call)
    #[command(after_help = STATUS)]
    Status(StatusArgs),
    /// Merge the shards of one batch into one directory
    #[command(after_help = MERGE)]
    Merge(MergeArgs),
    /// Write what became of the items as HTML, JUnit, CSV or SARIF
    #[command(after_help = REPORT)]
    Report(ReportArgs),
    /// Deliver the changes of the items as one change, or as a branch each (no model, no key)
    #[command(after_help = DELIVER)]
    Deliver(DeliverArgs),
    /// Cancel at the provider what --api batch handed to it (no model call)
    #[command(after_help = CANCEL)]
    Cancel(CancelArgs),
}

/// The flags of `batch cancel`.
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    /// Directory of the batch, or of its shards
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Server of the batch [env: QWEN_BASE_URL, OPENAI_BASE_URL] [default: DashScope, international]
    #[arg(long, alias = "base-url", value_name = "URL", value_parser = not_blank)]
    pub openai_base_url: Option<String>,
    /// API key; visible to other users of this machine, prefer --api-key-file [env: QWEN_API_KEY, OPENAI_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub openai_api_key: Option<String>,
    /// Read the API key from a file
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Additional trusted CA or server certificates (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Allow unencrypted http to a server on another machine
    #[arg(long)]
    pub allow_http: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

impl CancelArgs {
    /// Returns how the server is reached, for a model of this name.
    pub fn model(&self, name: &str) -> ModelArgs {
        ModelArgs {
            model: Some(name.to_owned()).filter(|name| !name.is_empty()),
            openai_base_url: self.openai_base_url.clone(),
            openai_api_key: self.openai_api_key.clone(),
            api_key_file: self.api_key_file.clone(),
            ca_file: self.ca_file.clone(),
            allow_http: self.allow_http,
            ..ModelArgs::default()
        }
    }
}

/// The flags of `batch status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Directory of the batch, or of its shards
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Format of standard output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output_format: BatchFormat,
}

/// The flags of `batch merge`.
#[derive(Debug, Clone, Args)]
pub struct MergeArgs {
    /// Directories of shards, or of all of them
    #[arg(value_name = "DIR", required = true)]
    pub directories: Vec<PathBuf>,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Also merge if shards are missing or items are not done
    #[arg(long)]
    pub partial: bool,
    /// How many failed items still count as success: a number, or a percentage such as 5% [default: 0]
    #[arg(long, value_name = "N|P%")]
    pub allow_failures: Option<Share>,
    /// Also write the outputs sha256 and exit-code of a GitHub job to GITHUB_OUTPUT
    #[arg(long)]
    pub github: bool,
    /// Format of standard output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output_format: BatchFormat,
}

/// The flags of `batch report`.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("reports").required(true).multiple(true).args(["html", "junit", "csv", "sarif", "failed"])))]
pub struct ReportArgs {
    /// Directory of the batch, or of its shards
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write a page that needs no other file and no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a JUnit report: a suite, and a case for each item
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a table: a line for each item, and a column for each field of the answers
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the findings of all items for code scanning
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Print the keys of items that failed, one a line
    #[arg(long)]
    pub failed: bool,
}

/// The flags of `batch deliver`.
#[derive(Debug, Clone, Args)]
pub struct DeliverArgs {
    /// Directory of the batch
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Deliver only this item
    #[arg(long, value_name = "KEY")]
    pub only: Vec<String>,
    /// Digest of summary.json, as `qwen batch merge` printed it; anything else is refused
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Policy to apply to the changes [default: builtin:edit]
    #[arg(long, value_name = "FILE|builtin:NAME", value_parser = not_blank)]
    pub policy: Option<String>,
    /// Format of standard output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output_format: Format,
    /// Push each item's branch to its repository (needs --sha256) [env: QWEN_GIT_TOKEN]
    #[arg(long, conflicts_with_all = ["apply", "commit", "branch"])]
    pub push: bool,
    /// Open a pull request for each pushed branch, or bring it up to date
    #[arg(long, requires = "push")]
    pub pull_request: bool,
    /// Open pull requests as drafts
    #[arg(long, requires = "pull_request")]
    pub draft: bool,
    /// How the changes are delivered.
    #[command(flatten)]
    pub combine: CombineArgs,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// How the changes of a batch are delivered; without the first four flags nothing is written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Changes")]
pub struct CombineArgs {
    /// Write the files
    #[arg(long, conflicts_with_all = ["commit", "branch", "branch_each"])]
    pub apply: bool,
    /// Also commit the changes
    #[arg(long, conflicts_with_all = ["branch", "branch_each"])]
    pub commit: bool,
    /// Commit to a new branch; working tree and index stay unchanged
    #[arg(long, value_name = "NAME", value_parser = not_blank, conflicts_with = "branch_each")]
    pub branch: Option<String>,
    /// Commit each item to a branch of its own, for example 'qwen/docs/{key}'
    #[arg(long, value_name = "TEMPLATE", value_parser = not_blank)]
    pub branch_each: Option<String>,
    /// Commit message
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    pub message: Option<String>,
    /// Do not keep an undo record
    #[arg(long)]
    pub no_undo: bool,
    /// Also deliver if other items failed or are not done
    #[arg(long)]
    pub partial: bool,
    /// What to do if the changes of two items touch: deliver nothing, or leave the later item out [default: fail]
    #[arg(long, value_name = "WHAT", conflicts_with = "branch_each")]
    pub on_conflict: Option<OnConflict>,
    /// Command that must pass on the combined change
    #[arg(long, value_name = "CMD", value_parser = not_blank, conflicts_with = "branch_each")]
    pub verify_combined: Vec<String>,
}

impl CombineArgs {
    /// Returns the name of the delivery that a flag asks for: `apply`, `commit`, `branch` or `branch-each`.
    pub fn mode(&self) -> Option<&'static str> {
        let flags = [
            (self.apply, "apply"),
            (self.commit, "commit"),
            (self.branch.is_some(), "branch"),
            (self.branch_each.is_some(), "branch-each"),
        ];
        flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, mode)| mode)
    }

    /// Tells whether the later of two items that touch is left out.
    pub fn skips(&self) -> bool {
        self.on_conflict == Some(OnConflict::Skip)
    }

    /// Returns a flag that has no effect because none asks for a delivery.
    pub fn idle(&self) -> Option<&'static str> {
        let flags = [
            (self.message.is_some(), "--message"),
            (self.no_undo, "--no-undo"),
            (self.partial, "--partial"),
            (self.on_conflict.is_some(), "--on-conflict"),
            (!self.verify_combined.is_empty(), "--verify-combined"),
        ];
        let found = flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, flag)| flag);
        found.filter(|_| self.mode().is_none())
    }
}

/// What happens if the changes of two items touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnConflict {
    /// Nothing is delivered
    Fail,
    /// The later item is left out
    Skip,
}

/// How a batch is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BatchFormat {
    /// For people
    Text,
    /// The object batch_result, as JSON on one line
    Result,
}
