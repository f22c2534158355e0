//! Finds out, while other work goes on, whether tracked files differ from HEAD.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use super::GitError;
use super::drivers::mentions_drivers;
use super::repository::Repository;

/// Bytes of the index up to which it is looked at, about 10,000 files: git asks the file system about each of them, and
/// only people read the answer.
const MOST_INDEX: u64 = 1 << 20;

/// How long git may take: the first request waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// A look at the tracked files that goes on by itself.
#[derive(Debug)]
pub struct DirtyCheck {
    answer: Option<oneshot::Receiver<Option<bool>>>,
    thread: Option<JoinHandle<()>>,
}

impl DirtyCheck {
    /// Begins it; without a thread for it there is no answer.
    pub fn begin(repository: Option<&Repository>) -> DirtyCheck {
        let Some(repository) = repository.filter(|repository| repository.can_be_looked_at()).cloned() else {
            return DirtyCheck { answer: None, thread: None };
        };
        let (done, answer) = oneshot::channel();
        let look = move || {
            // Whoever waited for it may have gone.
            let _gone = done.send(repository.is_dirty());
        };
        let thread = std::thread::Builder::new().name("dirty".to_owned()).spawn(look).ok();
        DirtyCheck { answer: Some(answer), thread }
    }

    /// Waits for the answer; `None` if there is none.
    pub async fn end(mut self) -> Option<bool> {
        self.answer.take()?.await.ok()?
    }
}

impl Drop for DirtyCheck {
    /// Waits for git: nothing outlives the run.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Repository {
    /// Tells whether tracked files differ from HEAD; `None` where that is not looked at, or git fails. Submodules are left
    /// out: git would work in each.
    pub fn is_dirty(&self) -> Option<bool> {
        if !self.can_be_looked_at() {
            return None;
        }
        // Where times do not tell, git compares contents, and would start filters of the user's.
        let git = self.without_filters().ok()?.within(PATIENCE);
        let quick = ["diff-index", "--quiet", "--ignore-submodules=all", "HEAD", "--"];
        if !differs(git.run(&quick, b""))? {
            return Some(false);
        }
        // That may be the time of a file alone. `git diff` would write the index with the times that it found.
        let exact = ["status", "--porcelain", "--untracked-files=no", "--no-renames", "--ignore-submodules=all"];
        Some(!git.run(&exact, b"").ok()?.is_empty())
    }

    /// Tells whether there is a commit to compare with, not too many files, and no program that git could start for one.
    fn can_be_looked_at(&self) -> bool {
        let index = || self.git_dir.join("index").metadata();
        self.head.is_some()
            && index().is_ok_and(|data| data.is_file() && data.len() <= MOST_INDEX)
            && !mentions_drivers(self)
    }
}

fn differs(ended: Result<Vec<u8>, GitError>) -> Option<bool> {
    match ended {
        Ok(_) => Some(false),
        // Without a message: there are differences.
        Err(GitError::Failed { message, .. }) if message == "exit status: 1" => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_tree_is_dirty_if_the_contents_of_a_tracked_file_differ_from_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=A", "-c", "user.email=a@b"]);
            assert!(git.args(arguments).current_dir(&root).status().unwrap().success(), "{arguments:?}");
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let is_dirty = || runtime.block_on(DirtyCheck::begin(Repository::discover(&root).unwrap().as_ref()).end());
        git(&["init", "-q"]);
        assert_eq!(is_dirty(), None, "nothing is committed");
        std::fs::write(root.join("a"), "a\n").unwrap();
        git(&["add", "-A"]);
        git(&["commit", "-qm", "x"]);
        assert_eq!(is_dirty(), Some(false));
        std::fs::write(root.join("untracked"), "").unwrap();
        assert_eq!(is_dirty(), Some(false));
        let old = std::fs::File::options().write(true).open(root.join("a")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        let index = std::fs::read(root.join(".git/index")).unwrap();
        assert_eq!(is_dirty(), Some(false), "another time alone");
        assert!(std::fs::read(root.join(".git/index")).unwrap() == index, "the index is as it was");
        std::fs::write(root.join("a"), "b\n").unwrap();
        assert_eq!(is_dirty(), Some(true));
        git(&["add", "a"]);
        assert_eq!(is_dirty(), Some(true), "it differs from the commit");
        git(&["config", "filter.x.clean", "false"]);
        assert_eq!(is_dirty(), None, "git could start a program");
        git(&["config", "--remove-section", "filter.x"]);
        assert_eq!(is_dirty(), Some(true));
        let index = std::fs::File::options().write(true).open(root.join(".git/index")).unwrap();
        index.set_len(MOST_INDEX + 1).unwrap();
        assert_eq!(is_dirty(), None, "nobody looks at so many files");
    }
}
