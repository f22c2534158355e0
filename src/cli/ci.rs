//! Defines `qwen ci`: the commands that the GitHub Action calls.

use clap::Subcommand;

/// What stands below the verbs.
pub const EXAMPLE: &str = "\
Example (the Action sets these variables):
  QWEN_CI_RECIPE=review-diff GITHUB_EVENT_NAME=push GITHUB_EVENT_PATH=event.json qwen ci github";

/// The verbs of `ci`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum CiVerb {
    /// Run a recipe or prompt in a GitHub job, with outputs, annotations and a summary
    ///
    /// Everything comes from the variables QWEN_CI_* that action.yml sets, and from GITHUB_*; `qwen help action`
    /// lists them. Nothing is pushed or posted: the proposal goes to a second job.
    #[command(after_help = EXAMPLE)]
    Github,
    /// Check an earlier job's proposal again, then write its findings and its change to GitHub
    ///
    /// Needs no model and no key. The digest of the proposal comes in QWEN_CI_PROPOSAL_SHA256, as an output of the
    /// earlier job: what travelled as an artefact is only believed if it fits.
    Deliver,
    /// Show that the comment of the event is seen, with 👀
    ///
    /// Only for a comment that starts a run. Needs no model, no key and no checkout.
    Acknowledge,
}
