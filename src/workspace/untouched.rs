//! Whether a folder is as it was: what the system says of every file in it, before and after.
//!
//! For runs without isolation, where nothing else keeps a command from writing to the project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::snapshot::Stat;

/// Everything below a folder, `.git` included, as it was at one moment.
#[derive(Debug)]
pub struct Untouched {
    root: PathBuf,
    except: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Option<Stat>>,
}

impl Untouched {
    /// Looks at everything below `root`, but for the files that we write ourselves.
    pub fn remember(root: &Path, except: Vec<PathBuf>) -> Untouched {
        let files = look(root, &except);
        Untouched { root: root.to_path_buf(), except, files }
    }

    /// Names the first path that is not as it was; `None` if everything is.
    pub fn first_difference(&self) -> Option<PathBuf> {
        let now = look(&self.root, &self.except);
        let gone = self.files.iter().find(|(path, stat)| now.get(*path) != Some(*stat));
        let new = now.keys().find(|path| !self.files.contains_key(*path));
        gone.map(|(path, _)| path.clone()).or_else(|| new.cloned())
    }
}

/// Folders bear no time: a file that came and went again left nothing behind.
fn look(root: &Path, except: &[PathBuf]) -> BTreeMap<PathBuf, Option<Stat>> {
    let mut found = BTreeMap::new();
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
            found.insert(path, (!metadata.is_dir()).then(|| Stat::of(&metadata)));
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
}
