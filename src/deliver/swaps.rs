//! Swaps a name with a temporary one, and takes that back only where nobody has written meanwhile.

use std::io;

use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::Folder;
use crate::workspace::steps::Steps;

/// Somebody wrote while a delivery, or an undoing, was at work.
#[derive(Debug, thiserror::Error)]
#[error("{path} was changed meanwhile")]
struct Changed {
    path: RelPath,
}

/// Makes the error of a path that somebody wrote meanwhile.
pub(super) fn changed(path: &RelPath) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, Changed { path: path.clone() })
}

/// Tells whether an error is that of a path that somebody wrote meanwhile.
pub(super) fn is_changed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<Changed>())
}

/// Where a file belongs, and the temporary name near it.
#[derive(Clone, Copy)]
pub(super) struct Swap<'a> {
    pub(super) tree: &'a Folder,
    pub(super) path: &'a RelPath,
    pub(super) aside: &'a RelPath,
    pub(super) steps: &'a Steps,
}

impl Swap<'_> {
    /// Swaps the two names.
    pub(super) fn exchange(&self) -> io::Result<()> {
        let (from, to) = (self.tree.parent_of(self.aside)?, self.tree.parent_of(self.path)?);
        from.0.exchange(from.1, &to.0, to.1, self.steps)
    }

    /// Moves what is at the temporary name to the free path.
    pub(super) fn put(&self) -> io::Result<()> {
        let (from, to) = (self.tree.parent_of(self.aside)?, self.tree.parent_of(self.path)?);
        from.0.place(from.1, &to.0, to.1, self.steps)
    }

    /// Moves what is at the path to the free temporary name.
    pub(super) fn take(&self) -> io::Result<()> {
        let (from, to) = (self.tree.parent_of(self.path)?, self.tree.parent_of(self.aside)?);
        from.0.place(from.1, &to.0, to.1, self.steps)
    }

    /// Checks what was swapped out: it is what was really there, whoever wrote it and when.
    pub(super) fn check(&self, is_expected: &dyn Fn(&Entry) -> bool) -> io::Result<()> {
        match self.tree.entry_at(self.aside)? {
            // A directory, or nothing.
            Entry::Absent => Err(changed(self.path)),
            entry if is_expected(&entry) => Ok(()),
            Entry::File { .. } | Entry::Link { .. } => Err(changed(self.path)),
        }
    }

    /// Takes [`Swap::exchange`] back. What somebody wrote at the path meanwhile stays there, and is an error.
    pub(super) fn exchange_back(&self, is_ours: &dyn Fn(&Entry) -> bool) -> io::Result<()> {
        self.exchange()?;
        self.check(is_ours).or_else(|error| self.exchange().and(Err(error)))
    }

    /// Takes [`Swap::put`] back. What somebody wrote at the path meanwhile stays there, and is an error.
    pub(super) fn put_back(&self, is_ours: &dyn Fn(&Entry) -> bool) -> io::Result<()> {
        self.take()?;
        self.check(is_ours).or_else(|error| self.put().and(Err(error)))
    }
}
