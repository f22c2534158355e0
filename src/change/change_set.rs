//! Holds everything that a run changed and has not delivered: for each path, the state before and the state after.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::path::RelPath;

/// What a path holds, contents included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Nothing (or only a directory).
    Absent,
    /// A regular file.
    File {
        /// Its bytes.
        content: Arc<[u8]>,
        /// Whether its owner may execute it (git's mode 100755).
        executable: bool,
    },
    /// A symbolic link and the bytes of its target.
    Link {
        /// The target's text.
        target: Vec<u8>,
    },
}

impl Entry {
    /// A file that is not executable.
    pub fn file(content: impl Into<Vec<u8>>) -> Entry {
        Entry::File { content: content.into().into(), executable: false }
    }

    /// Returns a file's bytes.
    pub fn content(&self) -> Option<&[u8]> {
        match self {
            Entry::File { content, .. } => Some(content),
            Entry::Absent | Entry::Link { .. } => None,
        }
    }

    /// Tells whether a file is executable; `None` if it is none.
    pub fn is_executable(&self) -> Option<bool> {
        match self {
            Entry::File { executable, .. } => Some(*executable),
            Entry::Absent | Entry::Link { .. } => None,
        }
    }
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It was not there before.
    Added,
    /// Its contents, mode or type are others.
    Modified,
    /// It is gone.
    Deleted,
}

impl Kind {
    /// Returns the name that stands in events and results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Added => "added",
            Kind::Modified => "modified",
            Kind::Deleted => "deleted",
        }
    }
}

/// One path's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The state when the run first touched it.
    pub before: Entry,
    /// The state now.
    pub after: Entry,
}

impl Change {
    /// Returns what became of the path; `None` if it is again as it was.
    pub fn kind(&self) -> Option<Kind> {
        match (&self.before, &self.after) {
            (before, after) if before == after => None,
            (Entry::Absent, _) => Some(Kind::Added),
            (_, Entry::Absent) => Some(Kind::Deleted),
            _ => Some(Kind::Modified),
        }
    }
}

/// The staged changes of a run, ordered by path. A path that is back in its first state drops out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    changes: BTreeMap<RelPath, Change>,
    /// The rights to read and write of what files come from: as new files they get no more.
    rights: BTreeMap<RelPath, u32>,
}

impl ChangeSet {
    /// Stages `after` at `path`; `before` is asked only when the path is touched for the first time.
    pub fn stage(&mut self, path: RelPath, before: impl FnOnce() -> Entry, after: Entry) {
        let change =
            self.changes.entry(path.clone()).or_insert_with(|| Change { before: before(), after: Entry::Absent });
        change.after = after;
        if change.kind().is_none() {
            self.changes.remove(&path);
            self.rights.remove(&path);
        }
    }

    /// Keeps a changed file, where it is new, from getting more rights than this mode has: what it comes from has no more.
    pub fn limit(&mut self, path: &RelPath, mode: u32) {
        if self.changes.contains_key(path) {
            self.rights.insert(path.clone(), mode);
        }
    }

    /// Returns the mode of [`ChangeSet::limit`].
    pub fn limit_of(&self, path: &RelPath) -> Option<u32> {
        self.rights.get(path).copied()
    }

    /// Returns the rights that each new file has at most: those of [`ChangeSet::limit`], else those of a file that goes and
    /// had the same contents; `mode` finds the mode of one. Others have those of any new file.
    pub fn rights(&self, mode: impl Fn(&RelPath) -> Option<u32>) -> BTreeMap<RelPath, u32> {
        let mut sources: HashMap<&[u8], u32> = HashMap::new();
        for (path, change) in self.iter().filter(|(_, change)| change.after == Entry::Absent) {
            if let Some(content) = change.before.content().filter(|content| !content.is_empty())
                && let Some(mode) = mode(path)
            {
                sources.entry(content).and_modify(|least| *least &= mode).or_insert(mode);
            }
        }
        let of_source = |change: &Change| sources.get(change.after.content()?).copied();
        let limits = self.iter().map(|(path, change)| (path, self.limit_of(path).or_else(|| of_source(change))));
        limits.filter_map(|(path, rights)| Some((path.clone(), rights?))).collect()
    }

    /// Tells whether a file that goes had these contents and was executable: it only gets another name.
    pub fn moves_executable(&self, after: &Entry) -> bool {
        let is_executable = matches!(after, Entry::File { executable: true, .. });
        is_executable && self.iter().any(|(_, gone)| gone.after == Entry::Absent && gone.before == *after)
    }

    /// Returns the staged state of a path; `None` if the run has not changed it.
    pub fn staged(&self, path: &RelPath) -> Option<&Entry> {
        self.changes.get(path).map(|change| &change.after)
    }

    /// Returns one path's change.
    pub fn get(&self, path: &RelPath) -> Option<&Change> {
        self.changes.get(path)
    }

    /// Returns every change, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&RelPath, &Change)> {
        self.changes.iter()
    }

    /// Tells whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the number of changed paths.
    pub fn len(&self) -> usize {
        self.changes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_back_in_its_first_state_is_no_change() {
        let mut set = ChangeSet::default();
        let path = RelPath::new("a").unwrap();
        set.stage(path.clone(), || Entry::file("1"), Entry::file("2"));
        assert_eq!(set.get(&path).unwrap().kind(), Some(Kind::Modified));
        set.stage(path.clone(), || unreachable!("the first state is known"), Entry::file("1"));
        assert!(set.is_empty());
    }

    #[test]
    fn a_limit_counts_before_the_mode_of_a_file_with_the_same_contents_that_goes() {
        let mut set = ChangeSet::default();
        let path = |name: &str| RelPath::new(name).unwrap();
        set.stage(path("gone"), || Entry::file("1"), Entry::Absent);
        set.stage(path("new"), || Entry::Absent, Entry::file("1"));
        set.stage(path("limited"), || Entry::Absent, Entry::file("1"));
        set.limit(&path("limited"), 0o644);
        let rights = set.rights(|_| Some(0o600));
        assert_eq!(rights, [(path("limited"), 0o644), (path("new"), 0o600)].into());
    }
}
