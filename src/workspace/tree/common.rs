//! Holds what both kinds of command workspace, copy and overlay, have in common.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use super::git::Scratch;
use super::options::{LeftOut, moved};
use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, is_missing};
use crate::workspace::ignore::Source;
use crate::workspace::snapshot::Snapshot;
use crate::workspace::temporary::Temporary;
use crate::workspace::tree::changed_since::Since;
use crate::workspace::view::WorkspaceError;

/// Maximum bytes of a path that a command may make: with the root before it, systems allow 4,096.
pub(super) const LONGEST: usize = 3_500;

/// Maximum nesting of directories that are searched.
pub(super) const DEEPEST: usize = 256;

/// What is known of a command workspace, however it was made.
pub(super) struct Common {
    /// The directory that replaces the project's in commands.
    pub(super) root: PathBuf,
    pub(super) project: PathBuf,
    /// Directories elsewhere that commands must be able to read.
    pub(super) reads: Vec<PathBuf>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) snapshot: Snapshot,
    /// When the tree was made.
    pub(super) since: SystemTime,
    /// What the workspace had staged when this tree was last synchronised.
    pub(super) synced: BTreeMap<RelPath, Entry>,
    pub(super) rules: Source,
    pub(super) git: Option<Scratch>,
    /// That of the other commands, while a check has one of its own.
    pub(super) git_aside: Option<Scratch>,
    /// The private directory, which is removed with this.
    pub(super) directory: Temporary,
}

impl Common {
    pub(super) fn failed(&self, cause: io::Error) -> WorkspaceError {
        WorkspaceError::Io { path: self.root.clone(), cause }
    }

    pub(super) fn failed_at(&self, path: &RelPath, cause: io::Error) -> WorkspaceError {
        WorkspaceError::Io { path: path.under(&self.root), cause }
    }

    /// Returns what keeps the tree from having what the project has at a path: then a refusal does not restore it.
    pub(super) fn lack(&self, path: &RelPath) -> Option<&LeftOut> {
        self.left_out.iter().find(|left| *path == left.path || path.is_under(&left.path))
    }

    /// Returns an entry of the tree as the project has it.
    pub(super) fn to_project(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Link { target } => Entry::Link { target: moved(&target, &self.root, &self.project) },
            Entry::Absent | Entry::File { .. } => entry,
        }
    }
}

/// What a scan of the tree found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files and links to compare with their earlier contents.
    pub(super) changed: Vec<RelPath>,
    /// What commands no longer see.
    pub(super) gone: Vec<RelPath>,
    /// Directories that are too deep to scan.
    pub(super) too_deep: Vec<RelPath>,
}

/// Where commands see something: the directory that holds it, and its name there.
pub(super) type Place<'p> = Option<(Folder, &'p OsStr)>;

/// Returns what the system says of a place, links not followed; `None` if nothing is there.
pub(super) fn stat(place: io::Result<Place<'_>>) -> io::Result<Option<rustix::fs::Stat>> {
    match place {
        Ok(Some((folder, name))) => folder.stat(name),
        Ok(None) => Ok(None),
        // A link replaced a directory: nothing behind it is looked at.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns something below a directory that counts as changed; a missing directory has nothing.
pub(super) fn first_changed(tree: &Folder, directory: &RelPath, since: &Since<'_>) -> io::Result<Option<RelPath>> {
    match tree.enter(directory) {
        Ok(folder) => since.first_below(&folder, directory),
        // A layer has only what was written, and a copy without it has nothing to run.
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
