//! Defines `qwen report`: show a run as a page.

use std::path::PathBuf;

use clap::Args;

use super::workspace::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen report --open                       the newest run in this workspace, in the browser
  qwen report result.json events.jsonl     what one run wrote; several files are merged
  git diff --binary | qwen report -
The page needs no other file and no network; `qwen apply PAGE.html` applies the change in it.";

/// The flags of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Kept run, result, messages, events, patch or review page; `-` reads standard input
    #[arg(value_name = "FILE|RUN_ID")]
    pub from: Vec<PathBuf>,
    /// Where the page goes; `-` prints it [default: qwen-report-ID.html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}
