//! Defines how a command workspace is made, and what both kinds of it leave out.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use crate::git::repository::Repository;
use crate::path::RelPath;
use crate::workspace::temporary::Temporary;

/// How to make a command workspace.
pub struct TreeOptions<'a> {
    /// The repository that holds the workspace.
    pub repository: Option<&'a Repository>,
    /// Tells whether a file may be read; what may not is never copied.
    pub may_read: &'a dyn Fn(&RelPath) -> bool,
    /// Maximum bytes of ignored files and directories (`sandbox.copy_max`).
    pub copy_max: u64,
    /// The private directory's parent; `None`: the system's directory for temporary files.
    pub parent: Option<&'a Path>,
    /// Where commands see the repository's objects, if not at their own path.
    pub objects_at: Option<&'a Path>,
    /// The deadline for making a copy; `None`: no limit.
    pub until: Option<Instant>,
    /// Whether a layer over the project may take the place of a large copy: the kernel mounts overlays, and no program
    /// will be at work in the tree while another begins.
    pub layers: bool,
    /// Whether `CommandTree::ignored_outputs` will be asked for.
    pub ignored_outputs: bool,
}

impl TreeOptions<'_> {
    pub(super) fn in_time(&self) -> io::Result<()> {
        in_time(self.until)
    }

    /// Makes the private directory of a command workspace.
    pub(super) fn directory(&self) -> io::Result<Temporary> {
        match self.parent {
            Some(parent) => Temporary::inside(parent, "tree-"),
            None => Temporary::new("tree-"),
        }
    }
}

/// Fails once the deadline has passed.
pub(super) fn in_time(until: Option<Instant>) -> io::Result<()> {
    match until {
        Some(until) if Instant::now() >= until => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "copying it took too long and was given up"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Something that is not in the command workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The path.
    pub path: RelPath,
    /// Why.
    pub why: WhyLeftOut,
}

/// Why something is not in the command workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// It may not be read.
    Denied,
    /// It is ignored by git and larger than what is left of `copy_max`.
    TooLarge,
    /// It is a socket, pipe or device.
    Special,
    /// The system does not let us read it.
    Unreadable,
}

/// Returns the tracked files, which count in an ignored directory, too. Without git there is no list.
pub(super) fn tracked(repository: Option<&Repository>) -> io::Result<BTreeSet<RelPath>> {
    match repository.map(Repository::tracked) {
        None => Ok(BTreeSet::new()),
        Some(Ok(list)) => Ok(list.into_iter().collect()),
        Some(Err(error)) if error.has_no_git() => Ok(BTreeSet::new()),
        Some(Err(error)) => Err(io::Error::other(error)),
    }
}

/// Tells whether an error means that a path is to be skipped: not readable for this user, or removed meanwhile.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

/// Returns the target of a link where `to` takes the place of `from`: a link to an absolute place in the project leads to
/// the same place in the command workspace, or commands would write to the project through it.
pub(super) fn moved(target: &[u8], from: &Path, to: &Path) -> Vec<u8> {
    match target.strip_prefix(from.as_os_str().as_bytes()) {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => [to.as_os_str().as_bytes(), rest].concat(),
        Some(_) | None => target.to_vec(),
    }
}
