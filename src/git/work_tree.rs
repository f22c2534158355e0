//! Names the state of the files of a work tree by a digest.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use git2::{Diff, DiffOptions, Tree};

use super::repository::Repository;
use crate::base::digest::sha256;
use crate::bounded;

/// Files that may differ from the commit.
const MOST: usize = 2_000;

/// The largest of them, in bytes.
const LARGEST: u64 = 16 << 20;

impl Repository {
    /// Returns a digest of what the work tree holds: the tree of HEAD, and each file that differs from it, untracked ones
    /// included. Ignored files and submodules are left out. `None` where too much differs, or cannot be read.
    ///
    /// No program is started, and nothing is written.
    pub fn work_tree_digest(&self) -> Option<String> {
        let library = self.library().ok()?;
        let (tree, differences) = self.differences(&library, true)?;
        if differences.deltas().len() > MOST {
            return None;
        }
        let mut state = tree.map(|tree| tree.id().to_string()).unwrap_or_default();
        for delta in differences.deltas() {
            for path in [delta.old_file().path(), delta.new_file().path()].into_iter().flatten() {
                let held = held(&self.top.join(path))?;
                state.push_str(&format!("\n{} {held}", sha256(path.as_os_str().as_bytes())));
            }
        }
        Some(sha256(state.as_bytes()))
    }

    /// Returns the tree of HEAD, if there is one, and how the work tree and the index differ from it; submodules are left
    /// out. `None` where git's files cannot be read.
    pub(super) fn differences<'l>(
        &self,
        library: &'l git2::Repository,
        untracked: bool,
    ) -> Option<(Option<Tree<'l>>, Diff<'l>)> {
        let tree = match &self.head {
            Some(head) => Some(library.find_commit(git2::Oid::from_str(head).ok()?).ok()?.tree().ok()?),
            None => None,
        };
        let mut options = DiffOptions::new();
        options.ignore_submodules(true).include_untracked(untracked).recurse_untracked_dirs(untracked);
        options.include_ignored(false);
        let differences = library.diff_tree_to_workdir_with_index(tree.as_ref(), Some(&mut options)).ok()?;
        Some((tree, differences))
    }
}

/// Returns what a path holds; `None` if it cannot be read.
fn held(path: &Path) -> Option<String> {
    match path.symlink_metadata() {
        Ok(data) if data.is_symlink() => {
            Some(format!("link {}", sha256(path.read_link().ok()?.as_os_str().as_bytes())))
        }
        Ok(data) if data.is_file() => bounded::regular(path, LARGEST).ok().map(|bytes| sha256(&bytes)),
        Ok(_) => Some("other".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("absent".to_owned()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn each_change_of_a_file_is_another_state_and_the_way_back_is_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=A", "-c", "user.email=a@b"]);
            assert!(git.args(arguments).current_dir(&root).status().unwrap().success(), "{arguments:?}");
        };
        let digest = || Repository::discover(&root).unwrap().unwrap().work_tree_digest().unwrap();
        let write = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
        git(&["init", "-q"]);
        let mut seen = vec![digest()];
        let mut is_new = || {
            let new = digest();
            let is_new = !seen.contains(&new);
            seen.push(new);
            is_new
        };
        write("a", "1\n");
        assert!(is_new(), "untracked, before the first commit");
        git(&["add", "-A"]);
        git(&["commit", "-qm", "x"]);
        assert!(is_new(), "committed");
        write("a", "2\n");
        assert!(is_new(), "changed");
        git(&["add", "-A"]);
        assert!(!is_new(), "staged: the files are the same");
        write("a", "3\n");
        assert!(is_new(), "changed again");
        std::fs::create_dir(root.join("d")).unwrap();
        write("d/b", "1\n");
        assert!(is_new(), "untracked");
        write("d/b", "2\n");
        assert!(is_new(), "untracked and changed");
        std::fs::remove_file(root.join("a")).unwrap();
        assert!(is_new(), "removed");
        write("a", "3\n");
        assert!(!is_new(), "back again");
    }
}
