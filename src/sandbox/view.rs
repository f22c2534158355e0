//! Defines the file system that namespaces show.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file system as seen from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct View {
    /// An empty directory in which it is built.
    pub(super) root: OsString,
    /// The user and group outside, which keep their ids inside.
    pub(super) ids: (u32, u32),
    /// The mounts, parents first.
    pub(super) mounts: Vec<Mount>,
    /// Paths inside mounts that are made read-only.
    pub(super) read_only: Vec<OsString>,
    /// Paths inside mounts that are covered with something empty.
    pub(super) hidden: Vec<OsString>,
}

impl View {
    /// Returns a view without mounts, built in a run's private directory.
    pub(super) fn empty(private: &Path) -> View {
        View {
            root: private.join("root").into(),
            ids: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
            mounts: Vec::new(),
            read_only: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

/// Something that is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mount {
    /// Where.
    pub(super) at: OsString,
    /// What.
    pub(super) what: Source,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Source {
    /// A file, directory or link outside; left out if it does not exist.
    Read(OsString),
    /// A directory that was made for the command, which may only read it.
    Made(OsString),
    /// A writable directory outside.
    Write(OsString),
    /// An empty directory that is discarded after the command.
    Scratch,
    /// A directory outside, below a layer that is discarded after the command; left out if it does not exist.
    Layered(OsString),
    /// A directory outside, below a layer that takes the writes of this command or of several.
    Overlay { lower: OsString, upper: OsString, work: OsString, read_only: bool },
}
