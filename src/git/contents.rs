//! Tells texts from binary files by what they contain.

use git2::Oid;

use super::repository::Repository;
use crate::bounded;
use crate::path::RelPath;

/// Bytes in which a NUL makes a file binary, as for git.
const LOOKED_AT: usize = 8_000;

/// Bytes up to which an object is read; a larger one counts as binary.
const MOST: usize = 16 << 20;

/// The contents of a repository's files.
pub struct Contents<'r> {
    repository: &'r Repository,
    /// `None` where the library cannot read the repository: then everything counts as text.
    library: Option<git2::Repository>,
}

impl Repository {
    /// Prepares to look at contents.
    pub fn contents(&self) -> Contents<'_> {
        Contents { repository: self, library: self.library().ok() }
    }
}

impl Contents<'_> {
    /// Tells whether a file is binary: the object of this id, or the file of the work tree for the id of none.
    ///
    /// git's attributes do not count: a change that calls its code binary would not be looked at.
    pub fn is_binary(&self, id: &str, path: &RelPath) -> bool {
        let has_nul = |bytes: &[u8]| bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0);
        if id.bytes().all(|digit| digit == b'0') {
            let file = path.under(&self.repository.top);
            return bounded::beginning(&file, LOOKED_AT as u64).is_ok_and(|bytes| has_nul(&bytes));
        }
        match self.size(id) {
            Some(size) if size > MOST => true,
            Some(_) => self.beginning(id).is_some_and(|bytes| has_nul(&bytes)),
            None => false,
        }
    }

    /// Returns the first bytes of an object; `None` if it is not there or too large to be read.
    pub fn beginning(&self, id: &str) -> Option<Vec<u8>> {
        self.size(id).filter(|size| *size <= MOST)?;
        let objects = self.library.as_ref()?.odb().ok()?;
        let object = objects.read(Oid::from_str(id).ok()?).ok()?;
        Some(object.data().iter().take(LOOKED_AT).copied().collect())
    }

    fn size(&self, id: &str) -> Option<usize> {
        let (size, _) = self.library.as_ref()?.odb().ok()?.read_header(Oid::from_str(id).ok()?).ok()?;
        Some(size)
    }
}
