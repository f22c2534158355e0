//! Marks temporary directories with their owner, so that a later run finds those of killed runs.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::FlockOperation;

/// What the names of our directories begin with where the system keeps temporary files.
pub const PREFIX: &str = "qwen-";

/// The file in each of them that says so. It is locked as long as the directory is in use.
pub const MARKER: &str = ".qwen-temporary";

/// What is in that file.
pub const MARKER_TEXT: &[u8] =
    b"A temporary directory of qwen. A later run removes it when nobody holds the lock of this file.\n";

/// A temporary directory for its owner alone, with the marker. It is removed when this is dropped.
#[derive(Debug)]
pub struct Marked {
    directory: tempfile::TempDir,
    /// Held, so that nobody takes the directory for one of a killed run.
    _lock: File,
}

impl Marked {
    /// Makes a directory whose name begins with `qwen-` and `name`, where the system keeps temporary files.
    pub fn new(name: &str) -> io::Result<Marked> {
        Marked::inside(&std::env::temp_dir(), name)
    }

    /// Makes a directory whose name begins with `qwen-` and `name` in another one.
    pub fn inside(parent: &Path, name: &str) -> io::Result<Marked> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{PREFIX}{name}");
        builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
        let directory = builder.tempdir_in(parent)?;
        let lock = mark(directory.path())?;
        Ok(Marked { directory, _lock: lock })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Puts the marker into a directory, and returns its lock.
///
/// The marker gets its name when it is locked: nobody finds one of a living process without a lock.
pub fn mark(directory: &Path) -> io::Result<File> {
    let begun = directory.join(format!("{MARKER}.new"));
    let mut marker = File::options().write(true).create_new(true).open(&begun)?;
    marker.write_all(MARKER_TEXT)?;
    // Where the file system has no locks, nobody removes the directory but this process.
    let _unlocked = rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive);
    std::fs::rename(begun, directory.join(MARKER))?;
    Ok(marker)
}
