//! Defines what is asked of the sandbox, and why it refuses.

use std::path::PathBuf;
use std::time::Duration;

use super::output::OutputBounds;
use super::tier::Tier;

/// The isolation that the operator requires (`--sandbox`, `sandbox.require`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// The strongest available tier.
    Auto,
    /// T2 or better, else an error.
    Require,
    /// None, on the operator's request.
    Off,
    /// At most this tier: for tests, and for an operator whose machine breaks a stronger one.
    AtMost(Tier),
}

/// Why the sandbox refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Isolation was required and is unavailable: exit 44.
    #[error("required isolation is unavailable; this machine provides only {tier}: {reason}")]
    Unmet {
        /// The tier that is available.
        tier: &'static str,
        /// The one thing that would improve it.
        reason: String,
    },
    /// The request cannot be done safely here.
    #[error("{0}")]
    Refused(String),
    /// The sandbox could not be built, so nothing ran.
    #[error("the command was not started: {0}")]
    NotStarted(String),
    /// A file or process is unavailable.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
}

impl SandboxError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> SandboxError {
        let what = what.into();
        move |cause| SandboxError::Io { what, cause }
    }
}

/// The tree that a command works in. The workspace makes it; it is the project's own directory only with `in-place`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandRoot {
    /// A plain directory: a copy of the project.
    Folder(PathBuf),
    /// An overlay that is mounted for the command and seen at `project`: requires T3.
    ///
    /// Staged files and removals are written to `upper` before, and changes are found there afterwards.
    Overlay {
        /// The project's root, never written.
        project: PathBuf,
        /// The changes.
        upper: PathBuf,
        /// The kernel's scratch directory, empty, on the same file system as `upper`.
        work: PathBuf,
    },
}

/// A directory that commands see at another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindMount {
    /// The path that commands see.
    pub at: PathBuf,
    /// The real path.
    pub from: PathBuf,
    /// Whether it may be written.
    pub write: bool,
}

/// What one run of a command needs in addition to its plan.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The tree that the command works in.
    pub tree: CommandRoot,
    /// The path in T3 of a directory of the command workspace; `None` keeps its real path.
    pub seen_at: Option<PathBuf>,
    /// What else may be read, at its real path: the real `.git`, included directories.
    pub read: Vec<PathBuf>,
    /// What else may be written, at its real path: the scratch git directory.
    pub write: Vec<PathBuf>,
    /// What is seen at another path: requires T3.
    pub mounts: Vec<BindMount>,
    /// Paths inside the tree that must stay read-only: requires T3.
    pub read_only: Vec<PathBuf>,
    /// Paths inside the tree that look empty and cannot be written, such as files that must not be read: requires T3.
    ///
    /// A copy does not contain them in the first place.
    pub hidden: Vec<PathBuf>,
    /// Variables that keep git from running configured programs, and others that this one command needs.
    pub variables: Vec<(String, String)>,
    /// The time limit.
    pub timeout: Duration,
    /// Whether it stays in the background until the run ends.
    pub background: bool,
    /// How much of its standard output is kept.
    pub stdout: OutputBounds,
    /// How much of its standard error is kept.
    pub stderr: OutputBounds,
}

impl RunRequest {
    /// Returns a request without options, for a command in a directory.
    pub fn in_folder(folder: impl Into<PathBuf>, timeout: Duration) -> RunRequest {
        RunRequest {
            tree: CommandRoot::Folder(folder.into()),
            seen_at: None,
            read: Vec::new(),
            write: Vec::new(),
            mounts: Vec::new(),
            read_only: Vec::new(),
            hidden: Vec::new(),
            variables: Vec::new(),
            timeout,
            background: false,
            stdout: OutputBounds::default(),
            stderr: OutputBounds::default(),
        }
    }
}
