//! Describes a delivery: what happens to the changes, where, and what came of it.

use std::path::{Path, PathBuf};

use super::outputs::Outputs;
use crate::event::FileReport;
use crate::git::repository::Repository;

/// What happens to the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A patch; nothing is written.
    DryRun,
    /// The files of the work tree.
    Apply,
    /// A commit on the current branch; work tree and index get it too.
    Commit(DeliveryRequest),
    /// A commit on a new branch; work tree and index do not change.
    Branch {
        /// Without `refs/heads/`.
        name: String,
        /// What the commit says.
        order: DeliveryRequest,
    },
}

/// Where changes are delivered to.
pub struct Site<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// The repository that holds it.
    pub repository: Option<&'a Repository>,
    /// The directory of undo records; `None` if the run cannot be undone (`--no-undo`).
    pub undo: Option<&'a Path>,
    /// The run's name: the record's, and part of the names of temporary files. Letters, digits, `-` and `_`.
    pub run_id: &'a str,
    /// When, for the record.
    pub time: &'a str,
    /// What is delivered to the work tree besides the change.
    pub outputs: Option<&'a Outputs<'a>>,
}

/// What was delivered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivered {
    /// What `git apply` takes.
    pub patch: Vec<u8>,
    /// Each changed file for the result object (the policy sets `executes_later`).
    pub files: Vec<FileReport>,
    /// Whether the changes are in the tree or in a commit now.
    pub applied: bool,
    /// The new commit.
    pub commit: Option<String>,
    /// The branch that the commit is on.
    pub branch: Option<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// Why a dry run of a delivery would not be delivered: the first reason.
    pub obstacle: Option<String>,
    /// The undo record's directory.
    pub record: Option<PathBuf>,
}

/// The contents of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryRequest {
    /// The whole message, trailers included; see [`message`](super::message::message).
    pub message: String,
    /// The author; `None`: the user's identity.
    pub author: Option<Person>,
    /// The committer; `None`: the user's identity.
    pub committer: Option<Person>,
    /// Whether to sign although the user's `commit.gpgSign` is not set.
    pub sign: bool,
    /// The name of a trailer that is added with the id of the commit's tree.
    pub tree_trailer: Option<&'static str>,
    /// A line of the message that only commits of this very delivery have: a branch whose commit has it and the same tree
    /// is what would be made, and is kept.
    pub own_line: Option<String>,
}

/// A name and an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}
