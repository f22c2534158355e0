//! Finds directories that a change would turn into git directories: git runs the programs that such a directory names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::change::layout::{PARTS, is_git_directory};
use crate::change::{ChangeSet, Entry};
use crate::path::RelPath;
use crate::policy::protected::fold;

/// The future tree, as far as git directories are concerned.
pub(super) struct Repositories<'a> {
    changes: &'a ChangeSet,
    root: &'a Path,
    known: RefCell<BTreeMap<RelPath, bool>>,
}

impl<'a> Repositories<'a> {
    pub(super) fn new(changes: &'a ChangeSet, root: &'a Path) -> Repositories<'a> {
        Repositories { changes, root, known: RefCell::default() }
    }

    /// Returns the directory around a changed path that git will treat as a repository, if there is one. An error means
    /// that a directory cannot be read.
    ///
    /// Names count in every spelling that some file system treats as equal.
    pub(super) fn around(&self, path: &RelPath) -> io::Result<Option<RelPath>> {
        let mut inner = path.clone();
        while let Some(directory) = inner.parent() {
            let name = inner.file_name().map(|name| fold(&name.to_string_lossy())).unwrap_or_default();
            // The workspace itself counts only if the change adds to it.
            let counts = !directory.is_root() || PARTS.iter().any(|part| part.eq_ignore_ascii_case(&name));
            if counts && self.is_git_directory(&directory)? {
                return Ok(Some(directory));
            }
            inner = directory;
        }
        Ok(None)
    }

    /// Returns every directory to which something is added that belongs to a repository, and which git will take for one.
    pub(super) fn all(&self) -> io::Result<BTreeSet<RelPath>> {
        let mut candidates = BTreeSet::new();
        for (path, _) in self.changes.iter().filter(|(_, change)| change.after != Entry::Absent) {
            let mut inner = path.clone();
            while let Some(directory) = inner.parent() {
                let name = inner.file_name().map(|name| fold(&name.to_string_lossy())).unwrap_or_default();
                if PARTS.iter().any(|part| part.eq_ignore_ascii_case(&name)) {
                    candidates.insert(directory.clone());
                }
                inner = directory;
            }
        }
        let mut found = BTreeSet::new();
        for directory in candidates {
            if self.is_git_directory(&directory)? {
                found.insert(directory);
            }
        }
        Ok(found)
    }

    fn is_git_directory(&self, directory: &RelPath) -> io::Result<bool> {
        if let Some(known) = self.known.borrow().get(directory) {
            return Ok(*known);
        }
        let names = self.names(directory)?;
        let is = is_git_directory(|part| Ok::<_, io::Error>(names.contains(&part.to_ascii_lowercase())))?;
        self.known.borrow_mut().insert(directory.clone(), is);
        Ok(is)
    }

    /// Returns the future names in a directory, folded.
    fn names(&self, directory: &RelPath) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        let entries = match std::fs::read_dir(directory.under(self.root)) {
            Ok(entries) => Some(entries),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(error),
        };
        for entry in entries.into_iter().flatten() {
            let name = entry?.file_name();
            let is_removed = directory
                .child(&name)
                .and_then(|path| self.changes.get(&path).map(|change| change.after == Entry::Absent))
                .unwrap_or(false);
            if !is_removed {
                names.insert(fold(&name.to_string_lossy()));
            }
        }
        let added = self.changes.iter().filter(|(_, change)| change.after != Entry::Absent);
        let below = added.filter(|(path, _)| path.is_under(directory) && *path != directory);
        let depth = directory.components().count();
        names.extend(below.filter_map(|(path, _)| Some(fold(&String::from_utf8_lossy(path.components().nth(depth)?)))));
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(there: &[&str], changed: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for path in there {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let mut changes = ChangeSet::default();
        for path in changed {
            let (path, after) = match path.strip_prefix('-') {
                Some(path) => (path, Entry::Absent),
                None => (*path, Entry::file("x")),
            };
            let before = if there.contains(&path) { Entry::file("x") } else { Entry::Absent };
            changes.stage(RelPath::new(path).unwrap(), || before, after);
        }
        let repositories = Repositories::new(&changes, folder.path());
        let found = changes.iter().filter_map(|(path, _)| repositories.around(path).unwrap());
        let mut found: Vec<String> = found.map(|directory| directory.to_string()).collect();
        found.dedup();
        found
    }

    #[test]
    fn a_directory_becomes_git_s_however_its_parts_are_spelled_and_whoever_adds_them() {
        for (there, changed) in [
            (&[][..], &["d/HEAD", "d/objects/info/alternates", "d/refs/heads/main"][..]),
            (&["d/objects/x", "d/refs/x"], &["d/HEAD"]),
            (&["d/HEAD", "d/refs/x"], &["d/objects/x"]),
            (&["d/HEAD", "d/objects/x", "d/refs/x"], &["d/config"]),
            (&["d/HEAD", "d/objects/x", "d/refs/x"], &["d/hooks/deep/x"]),
            (&["d/Head"], &["d/OBJECTS/x", "d/refs. /x"]),
            (&[], &["d/HEAD", "d/commondir"]),
            (&["d/HEAD"], &["d/\u{ff43}ommondir"]),
        ] {
            assert_eq!(around(there, changed), ["d"], "{there:?} {changed:?}");
        }
        assert_eq!(around(&["HEAD", "objects/x"], &["refs/x"]), ["."]);
    }

    #[test]
    fn other_directories_are_left_alone() {
        for (there, changed) in [
            (&[][..], &["HEAD", "a/objects/x", "b/refs/x"][..]),
            (&["d/HEAD", "d/objects/x"], &["d/more"]),
            (&["d/HEAD", "d/objects/x"], &["d/refs/x", "-d/HEAD"]),
            (&["HEAD", "objects/x", "refs/x"], &["src/main.rs"]),
        ] {
            assert_eq!(around(there, changed), Vec::<String>::new(), "{there:?} {changed:?}");
        }
    }
}
