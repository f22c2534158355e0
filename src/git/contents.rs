//! Tells texts from binary files by what they contain, and reads the texts in binary files.

use std::collections::BTreeSet;
use std::path::Path;

use git2::Oid;

use super::repository::Repository;
use crate::bounded;
use crate::change::text::Decoded;
use crate::hidden;
use crate::path::RelPath;

/// Bytes in which a NUL makes a file binary, as for git.
const LOOKED_AT: usize = 8_000;

/// The mode of a link in a tree.
const LINK: i32 = 0o120000;

/// Bytes up to which an object is read; a larger one counts as binary.
const MOST: usize = 16 << 20;

/// The contents of a repository's files.
pub struct Contents<'r> {
    repository: &'r Repository,
    /// `None` where the library cannot read the repository: then git is asked, which takes longer.
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
        if is_no_object(id) {
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
        let mut bytes = self.object(id)?;
        bytes.truncate(LOOKED_AT);
        Some(bytes)
    }

    /// Returns the numbered lines of a binary file that its version `base` does not have: of UTF-16 the text, of anything
    /// else what is left without invisible characters. None of a file of more than 16 MiB.
    pub fn added_lines(&self, id: &str, base: &str, path: &RelPath) -> Vec<(u64, String)> {
        let before = self.object(base).map(readable).unwrap_or_default();
        let before: BTreeSet<&str> = before.lines().collect();
        let after = self.text(id, path).unwrap_or_default();
        let added = (1..).zip(after.lines()).filter(|(_, line)| !before.contains(line));
        added.map(|(number, line)| (number, line.to_owned())).collect()
    }

    /// Returns the text of a file: of UTF-16 too, of anything else what could be text. `None` if it has more than 16 MiB.
    pub fn text(&self, id: &str, path: &RelPath) -> Option<String> {
        let bytes = match is_no_object(id) {
            true => bounded::regular(&path.under(&self.repository.top), MOST as u64).ok(),
            false => self.object(id),
        };
        bytes.map(readable)
    }

    /// Returns the target of the link at a path of a commit, relative to the top directory.
    pub fn link_at(&self, commit: &str, path: &str) -> Option<String> {
        let Some(library) = &self.library else {
            let entry = self.by_git(&["ls-tree", "-z", commit, "--", path])?;
            let entry = String::from_utf8_lossy(&entry).into_owned();
            let id = entry.strip_prefix("120000 blob ")?.split('\t').next()?;
            return Some(String::from_utf8_lossy(&self.object(id)?).into_owned());
        };
        let tree = library.revparse_single(commit).ok()?.peel_to_tree().ok()?;
        let entry = tree.get_path(Path::new(path)).ok().filter(|entry| entry.filemode() == LINK)?;
        Some(String::from_utf8_lossy(library.find_blob(entry.id()).ok()?.content()).into_owned())
    }

    fn object(&self, id: &str) -> Option<Vec<u8>> {
        self.size(id).filter(|size| *size <= MOST)?;
        let Some(library) = &self.library else { return self.by_git(&["cat-file", "blob", id]) };
        Some(library.odb().ok()?.read(Oid::from_str(id).ok()?).ok()?.data().to_vec())
    }

    fn size(&self, id: &str) -> Option<usize> {
        let Some(library) = &self.library else {
            return std::str::from_utf8(&self.by_git(&["cat-file", "-s", id])?).ok()?.trim().parse().ok();
        };
        let (size, _) = library.odb().ok()?.read_header(Oid::from_str(id).ok()?).ok()?;
        Some(size)
    }

    /// Asks git itself, for repositories with other ids or references than the library knows.
    fn by_git(&self, words: &[&str]) -> Option<Vec<u8>> {
        self.repository.git().run(words, b"").ok()
    }
}

/// Tells whether git has no object of this id: it is zeros.
fn is_no_object(id: &str) -> bool {
    id.bytes().all(|digit| digit == b'0')
}

/// Returns the text of UTF-16, or what of other bytes could be text.
fn readable(bytes: Vec<u8>) -> String {
    if let Some(decoded) = Decoded::from_bytes(&bytes) {
        return decoded.text;
    }
    let bytes: Vec<u8> = bytes.into_iter().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
    String::from_utf8_lossy(&bytes).chars().filter(|c| *c == '\n' || !hidden::is_foreign(*c)).collect()
}
