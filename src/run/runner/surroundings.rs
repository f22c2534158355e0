//! Lists what a command of the model finds besides its tree.

use std::path::PathBuf;

use crate::sandbox::BindMount;

/// Where commands in namespaces see the repository's objects: their own objects are at the usual path.
pub(super) const OBJECTS_AT: &str = "/.qwen/objects";

/// Where a git command in namespaces sees git's directory that other programs must not find.
pub(super) const GIT_AT: &str = "/.qwen/git";

/// What commands find beside and inside of their tree.
#[derive(Default)]
pub(super) struct TreeMounts {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) mounts: Vec<BindMount>,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
}
