//! How a run delivers its changes.

use crate::policy::Policy;
use crate::policy::file::Delivery;

/// The delivery, before there is a message for a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Shown.
    DryRun,
    /// Written to the project.
    Apply,
    /// A commit on the current branch.
    Commit,
    /// A commit on a new branch of this name.
    Branch(String),
}

impl Mode {
    /// Returns the name that is in results.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::DryRun => "dry-run",
            Mode::Apply => "apply",
            Mode::Commit => "commit",
            Mode::Branch(_) => "branch",
        }
    }
}

/// Names the files that do not allow a delivery.
pub fn refusal(policy: &Policy, wanted: Delivery) -> String {
    match policy.refusing(wanted).as_slice() {
        [one] => format!("the policy {one} does not allow it"),
        several => format!("the policies {} do not allow it", several.join(" and ")),
    }
}
