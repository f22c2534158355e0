//! Which paths git ignores, folder by folder on the way down: what is build output and what is the project.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::repository::Repository;
use crate::change::patch::name_in_repository;
use crate::path::RelPath;

/// The rules in force in one folder. Cheap to clone.
#[derive(Clone)]
pub struct Ignored {
    prefix: RelPath,
    /// From the weakest to the strongest.
    rules: Vec<Arc<Gitignore>>,
}

impl Ignored {
    /// Returns the rules that hold above the workspace's root: the user's, the repository's own, those of the folders
    /// between the repository's top and the workspace.
    pub fn above(repository: Option<&Repository>) -> Ignored {
        let mut ignored = Ignored { prefix: RelPath::root(), rules: Vec::new() };
        let (user, _) = Gitignore::global();
        ignored.add(user);
        let Some(repository) = repository else { return ignored };
        ignored.prefix = repository.prefix.clone();
        ignored.add(read(&repository.common_dir.join("info/exclude"), Path::new("")));
        let mut folder = RelPath::root();
        for name in repository.prefix.components() {
            ignored.add(read(&folder.under(&repository.top).join(".gitignore"), folder.as_path()));
            let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
            folder = folder.child(name).expect("a component of a path is one component");
        }
        ignored
    }

    /// Adds the rules of a folder of the workspace, read from the tree at `root`.
    #[must_use]
    pub fn enter(&self, root: &Path, folder: &RelPath) -> Ignored {
        let mut inner = self.clone();
        let name = name_in_repository(&self.prefix, folder);
        let name = RelPath::from_bytes(&name).unwrap_or_default();
        inner.add(read(&folder.under(root).join(".gitignore"), name.as_path()));
        inner
    }

    /// Tells whether git ignores a path of this folder (tracked or not: git asks only for untracked ones).
    pub fn matches(&self, path: &RelPath, is_folder: bool) -> bool {
        let name = name_in_repository(&self.prefix, path);
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&name[..]);
        for rules in self.rules.iter().rev() {
            match rules.matched(Path::new(name), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    fn add(&mut self, rules: Gitignore) {
        if !rules.is_empty() {
            self.rules.push(Arc::new(rules));
        }
    }
}

fn read(file: &Path, folder: &Path) -> Gitignore {
    // A link is not followed, as git does not, and what cannot be read holds no rule.
    if !file.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Gitignore::empty();
    }
    let Ok(text) = std::fs::read(file) else { return Gitignore::empty() };
    let mut rules = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').lines() {
        // A damaged line is passed over, as git does.
        let _ = rules.add_line(None, line);
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}
