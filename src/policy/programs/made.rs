//! Notes what the parts of one command make and remove.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the parts of one command make: a destination that does not exist yet may be a directory when it is written.
#[derive(Debug, Default)]
pub(crate) struct Made {
    inner: Mutex<MadeBy>,
}

#[derive(Debug, Default)]
struct MadeBy {
    /// The number of the part that is judged now.
    part: usize,
    /// Part, path, and whether anything below it may be a directory, too.
    paths: Vec<(usize, PathBuf, bool)>,
    /// Part, and a path that it removes or moves away.
    removed: Vec<(usize, PathBuf)>,
    /// Files that the command writes, and directories below which it may write any.
    written: Vec<PathBuf>,
    met: bool,
}

impl Made {
    fn inner(&self) -> MutexGuard<'_, MadeBy> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the command anew; tells whether a part asked for what another one makes.
    pub(crate) fn again(&self) -> bool {
        let mut inner = self.inner();
        inner.part = 0;
        std::mem::take(&mut inner.met)
            && !(inner.paths.is_empty() && inner.removed.is_empty() && inner.written.is_empty())
    }

    /// Begins the next part.
    pub(crate) fn next(&self) {
        self.inner().part += 1;
    }

    /// Notes a directory that the part makes.
    pub(crate) fn make(&self, path: PathBuf, below: bool) {
        let mut inner = self.inner();
        let entry = (inner.part, path, below);
        if !inner.paths.contains(&entry) {
            inner.paths.push(entry);
        }
    }

    /// Notes what the part removes: what is there now may be another thing when a later part looks.
    pub(crate) fn remove(&self, path: PathBuf) {
        let mut inner = self.inner();
        let entry = (inner.part, path);
        if !inner.removed.contains(&entry) {
            inner.removed.push(entry);
        }
    }

    /// Notes a file that the command writes, or a directory below which it does.
    pub(crate) fn write(&self, path: PathBuf) {
        let mut inner = self.inner();
        if !inner.written.contains(&path) {
            inner.written.push(path);
        }
    }

    /// Tells whether the command writes this path, or one below it.
    pub(crate) fn is_written(&self, path: &Path) -> bool {
        let mut inner = self.inner();
        inner.met = true;
        inner.written.iter().any(|written| written.starts_with(path))
    }

    /// Tells whether another part may remove what is at this path.
    pub(crate) fn may_be_removed(&self, path: &Path) -> bool {
        let mut inner = self.inner();
        inner.met = true;
        inner.removed.iter().any(|(part, removed)| *part != inner.part && path.starts_with(removed))
    }

    /// Tells whether another part may make a directory of this path.
    pub(crate) fn may_be_directory(&self, path: &Path) -> bool {
        let mut inner = self.inner();
        inner.met = true;
        inner.paths.iter().any(|(part, made, below)| {
            *part != inner.part && (made == path || made.starts_with(path) || (*below && path.starts_with(made)))
        })
    }
}
