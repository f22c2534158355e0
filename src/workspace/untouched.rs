//! Takes a fingerprint of a directory, the metadata of every file in it, and tells later whether anything changed.
//!
//! For runs without isolation, where nothing else keeps a command from writing to the project, and for those whose
//! isolation protects contents only.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::snapshot::Stat;

/// The state of everything below a directory at one moment, `.git` included.
#[derive(Debug)]
pub struct Untouched {
    root: PathBuf,
    except: Vec<PathBuf>,
    /// Git's objects: git sets a new time on one that it needs again, so that nothing removes it as unused.
    objects: Option<PathBuf>,
    files: BTreeMap<PathBuf, Seen>,
}

/// What the system says of a file or directory.
#[derive(Debug, Clone, Copy)]
enum Seen {
    File(Stat),
    Directory {
        mode: u32,
        owner: (u32, u32),
        /// Its time, where a program set it: that of a directory whose entries changed is also the one at which its own
        /// data did.
        set: Option<(i64, i64)>,
    },
}

impl Seen {
    fn of(metadata: &Metadata) -> Seen {
        if !metadata.is_dir() {
            return Seen::File(Stat::of(metadata));
        }
        let time = (metadata.mtime(), metadata.mtime_nsec());
        let set = Some(time).filter(|time| *time != (metadata.ctime(), metadata.ctime_nsec()));
        Seen::Directory { mode: metadata.mode(), owner: (metadata.uid(), metadata.gid()), set }
    }

    /// Directories bear no time: a file that came and went again left nothing behind.
    fn is_as_before(&self, before: &Seen) -> bool {
        match (self, before) {
            (Seen::File(now), Seen::File(before)) => now == before,
            (Seen::Directory { mode: now, .. }, Seen::Directory { mode: before, .. }) => now == before,
            (Seen::File(_) | Seen::Directory { .. }, _) => false,
        }
    }

    /// Tells whether it is the same file or directory with another mode, owner or time.
    fn has_other_attributes(&self, before: &Seen) -> bool {
        match (self, before) {
            (Seen::File(now), Seen::File(before)) => now != before && before.is_same_file(now),
            (Seen::Directory { mode, owner, set }, Seen::Directory { mode: old_mode, owner: old_owner, set: old }) => {
                (mode, owner) != (old_mode, old_owner) || set.is_some() && set != old
            }
            (Seen::File(_) | Seen::Directory { .. }, _) => false,
        }
    }
}

impl Untouched {
    /// Looks at the directory `root` and everything below it, but for the files that we write ourselves. A later time of
    /// one of git's `objects` is no change.
    pub fn remember(root: &Path, except: Vec<PathBuf>, objects: Option<PathBuf>) -> Untouched {
        let files = look(root, &except);
        Untouched { root: root.to_path_buf(), except, objects, files }
    }

    /// Tells whether git has set a new time on one of its objects, or on the shared part of an index, and nothing else is
    /// new of it.
    fn is_needed_again(&self, path: &Path, now: &Seen, before: &Seen) -> bool {
        let is_object = self.objects.as_ref().is_some_and(|objects| path.starts_with(objects));
        let is_index = || {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.starts_with(b"sharedindex.") && path.components().any(|part| part.as_os_str() == ".git")
        };
        matches!((now, before), (Seen::File(now), Seen::File(before)) if now.is_only_later(before) && (is_object || is_index()))
    }

    /// Returns the first path that changed; `None` if nothing did.
    pub fn first_difference(&self) -> Option<PathBuf> {
        let now = look(&self.root, &self.except);
        let is_kept = |path: &PathBuf, before: &Seen| {
            now.get(path).is_some_and(|now| now.is_as_before(before) || self.is_needed_again(path, now, before))
        };
        let gone = self.files.iter().find(|(path, before)| !is_kept(path, before));
        let new = now.keys().find(|path| !self.files.contains_key(*path));
        gone.map(|(path, _)| path.clone()).or_else(|| new.cloned())
    }

    /// Names the first path whose mode, owner or time is not as it was, although it is the same directory, or the same
    /// file with as many bytes.
    pub fn first_attribute(&self) -> Option<PathBuf> {
        let now = look(&self.root, &self.except);
        let is_changed = |path: &PathBuf, before: &Seen| {
            now.get(path)
                .is_some_and(|now| now.has_other_attributes(before) && !self.is_needed_again(path, now, before))
        };
        self.files.iter().find(|(path, before)| is_changed(path, before)).map(|(path, _)| path.clone())
    }
}

fn look(root: &Path, except: &[PathBuf]) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    found.extend(root.symlink_metadata().ok().map(|metadata| (root.to_path_buf(), Seen::of(&metadata))));
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if except.contains(&path) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, Seen::of(&metadata));
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
        let untouched = Untouched::remember(root, vec![root.join("result.json")], None);
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
    fn of_git_s_objects_a_later_time_is_no_change_and_everything_else_is() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let (root, object) = (folder.path(), folder.path().join("objects/aa/1"));
        std::fs::create_dir_all(object.parent().unwrap()).unwrap();
        std::fs::write(&object, "1").unwrap();
        let set = |time: std::time::SystemTime| std::fs::File::open(&object).unwrap().set_modified(time).unwrap();
        let (old, now) = (std::time::SystemTime::UNIX_EPOCH, std::time::SystemTime::now());
        set(old);
        let remember = |objects: &str| Untouched::remember(root, Vec::new(), Some(root.join(objects)));
        let found = |untouched: &Untouched| (untouched.first_attribute(), untouched.first_difference());
        let is_changed = (Some(object.clone()), Some(object.clone()));
        let (of_git, of_another) = (remember("objects"), remember("other"));
        set(now);
        assert_eq!((found(&of_git), found(&of_another)), ((None, None), is_changed.clone()));
        let index = root.join(".git/sharedindex.1");
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(&index, "1").unwrap();
        let with_index = Untouched::remember(root, Vec::new(), None);
        std::fs::File::open(&index).unwrap().set_modified(now + std::time::Duration::from_mins(1)).unwrap();
        assert_eq!(found(&with_index), (None, None));
        std::fs::remove_dir_all(root.join(".git")).unwrap();
        let of_git = remember("objects");
        set(old);
        assert_eq!(found(&of_git), is_changed);
        let of_git = remember("objects");
        std::fs::set_permissions(&object, std::fs::Permissions::from_mode(0o600)).unwrap();
        set(now);
        assert_eq!(found(&of_git), is_changed);
    }

    #[test]
    fn modes_and_times_are_told_from_contents() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/a"), "1").unwrap();
        std::fs::write(root.join("b"), "1").unwrap();
        let untouched = Untouched::remember(root, Vec::new(), None);
        std::fs::write(root.join("b"), "23").unwrap();
        std::fs::write(root.join("new"), "").unwrap();
        assert_eq!(untouched.first_attribute(), None);
        std::fs::set_permissions(root.join("d"), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(untouched.first_attribute(), Some(root.join("d")));
        let untouched = Untouched::remember(root, Vec::new(), None);
        let old = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::open(root.join("d/a")).unwrap().set_modified(old).unwrap();
        assert_eq!(untouched.first_attribute(), Some(root.join("d/a")));
        for directory in [root.join("d"), root.to_path_buf()] {
            let untouched = Untouched::remember(root, Vec::new(), None);
            std::fs::write(directory.join("came"), "").unwrap();
            std::fs::remove_file(directory.join("came")).unwrap();
            assert_eq!((untouched.first_attribute(), untouched.first_difference()), (None, None));
            std::fs::File::open(&directory).unwrap().set_modified(old).unwrap();
            assert_eq!(untouched.first_attribute(), Some(directory.clone()));
            std::fs::write(directory.join("more"), "").unwrap();
            let untouched = Untouched::remember(root, Vec::new(), None);
            std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o711)).unwrap();
            assert_eq!(untouched.first_attribute(), Some(directory));
        }
    }
}
