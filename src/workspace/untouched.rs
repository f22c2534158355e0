//! Tells whether a directory is unchanged, by the system's metadata of every file in it, before and after.
//!
//! For runs without isolation, where nothing else keeps a command from writing to the project, and for those whose
//! isolation protects contents only.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::snapshot::Stat;

/// The state of everything below a directory at one moment, `.git` included.
#[derive(Debug)]
pub struct Untouched {
    root: PathBuf,
    except: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Seen>,
}

/// A file's metadata; of a directory only its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    File(Stat),
    Directory { mode: u32 },
}

impl Untouched {
    /// Records everything below `root`, except files that this program writes itself.
    pub fn remember(root: &Path, except: Vec<PathBuf>) -> Untouched {
        let files = look(root, &except);
        Untouched { root: root.to_path_buf(), except, files }
    }

    /// Returns the first path that changed; `None` if nothing did.
    pub fn first_difference(&self) -> Option<PathBuf> {
        let now = look(&self.root, &self.except);
        let gone = self.files.iter().find(|(path, stat)| now.get(*path) != Some(*stat));
        let new = now.keys().find(|path| !self.files.contains_key(*path));
        gone.map(|(path, _)| path.clone()).or_else(|| new.cloned())
    }

    /// Returns the first path whose mode, owner or time changed, although it is the same file with the same size.
    pub fn first_attribute(&self) -> Option<PathBuf> {
        let now = look(&self.root, &self.except);
        let is_changed = |path: &PathBuf, seen: &Seen| match (seen, now.get(path)) {
            (Seen::File(before), Some(Seen::File(now))) => before != now && before.is_same_file(now),
            (Seen::Directory { mode }, Some(Seen::Directory { mode: now })) => mode != now,
            (Seen::File(_) | Seen::Directory { .. }, _) => false,
        };
        self.files.iter().find(|(path, seen)| is_changed(path, seen)).map(|(path, _)| path.clone())
    }
}

/// Times of directories are not compared: a file that came and went again left nothing behind.
fn look(root: &Path, except: &[PathBuf]) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if except.contains(&path) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            let seen = if metadata.is_dir() {
                folders.push(path.clone());
                Seen::Directory { mode: metadata.mode() }
            } else {
                Seen::File(Stat::of(&metadata))
            };
            found.insert(path, seen);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_is_found_and_our_own_files_are_not_meant() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/a"), "1").unwrap();
        let untouched = Untouched::remember(root, vec![root.join("result.json")]);
        std::fs::write(root.join("result.json"), "{}").unwrap();
        assert_eq!(untouched.first_difference(), None);
        std::fs::write(root.join("d/b"), "").unwrap();
        assert_eq!(untouched.first_difference(), Some(root.join("d/b")));
        std::fs::remove_file(root.join("d/b")).unwrap();
        assert_eq!(untouched.first_difference(), None);
        std::fs::write(root.join("d/a"), "2").unwrap();
        assert_eq!(untouched.first_difference(), Some(root.join("d/a")));
        std::fs::remove_dir_all(root.join("d")).unwrap();
        assert_eq!(untouched.first_difference(), Some(root.join("d")));
    }

    #[test]
    fn modes_and_times_are_told_from_contents() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/a"), "1").unwrap();
        std::fs::write(root.join("b"), "1").unwrap();
        let untouched = Untouched::remember(root, Vec::new());
        std::fs::write(root.join("b"), "23").unwrap();
        std::fs::write(root.join("new"), "").unwrap();
        assert_eq!(untouched.first_attribute(), None);
        std::fs::set_permissions(root.join("d"), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(untouched.first_attribute(), Some(root.join("d")));
        let untouched = Untouched::remember(root, Vec::new());
        let old = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::open(root.join("d/a")).unwrap().set_modified(old).unwrap();
        assert_eq!(untouched.first_attribute(), Some(root.join("d/a")));
    }
}
