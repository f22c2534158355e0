//! Holds what decisions rest on besides the rules.

use std::path::PathBuf;
use std::sync::Arc;

use super::history::GitFacts;
use crate::change::Kind;
use crate::path::Tree;

/// What decisions rest on besides the rules.
#[derive(Clone)]
pub struct Facts {
    /// The workspace: absolute, canonical.
    pub root: PathBuf,
    /// Included directories: absolute, canonical.
    pub included: Vec<PathBuf>,
    /// The run's directory of full outputs, for reading.
    pub outputs: Option<PathBuf>,
    /// The value of `$HOME`.
    pub home: String,
    /// The files.
    pub tree: Arc<dyn Tree>,
    /// The repository around the workspace.
    pub git: GitFacts,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("root", &self.root).field("included", &self.included).finish_non_exhaustive()
    }
}

/// A change as the gate before delivery sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeFacts {
    /// What became of the path.
    pub kind: Kind,
    /// The file is executable now and was not before.
    pub becomes_executable: bool,
    /// A link is made, changed or removed.
    pub is_link: bool,
}
