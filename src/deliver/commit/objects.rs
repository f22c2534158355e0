//! Writes the contents of a commit as objects, all by one process.

#![expect(clippy::disallowed_methods, reason = "contents wait in a temporary directory here")]

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::change::git_name;
use crate::git::{Git, GitError};

/// The object of a content.
pub(super) enum Object {
    /// With this name.
    Known(String),
    /// The one with this number of those that [`Objects::write`] returns.
    Written(usize),
}

/// Contents that wait in temporary files for git to write them.
pub(super) struct Objects<'g> {
    git: &'g Git,
    folder: PathBuf,
    number: usize,
}

impl<'g> Objects<'g> {
    /// Keeps the contents below a temporary directory.
    pub(super) fn new(git: &'g Git, scratch: &Path) -> io::Result<Objects<'g>> {
        let folder = scratch.join("contents");
        std::fs::create_dir(&folder)?;
        Ok(Objects { git, folder, number: 0 })
    }

    /// Adds a content as git stores it.
    pub(super) fn add(&mut self, content: &[u8]) -> io::Result<Object> {
        std::fs::write(self.folder.join(self.number.to_string()), content)?;
        self.number += 1;
        Ok(Object::Written(self.number - 1))
    }

    /// Writes the objects, and returns their names.
    pub(super) fn write(self) -> Result<Vec<String>, GitError> {
        let mut paths = Vec::new();
        for number in 0..self.number {
            git_name::quote(self.folder.join(number.to_string()).as_os_str().as_bytes(), &mut paths);
            paths.push(b'\n');
        }
        let written = match self.number {
            0 => String::new(),
            _ => self.git.line(&["hash-object", "-w", "--no-filters", "--stdin-paths"], &paths)?,
        };
        Ok(written.lines().map(str::to_owned).collect())
    }
}
