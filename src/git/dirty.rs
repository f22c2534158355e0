//! Finds out, while other work goes on, whether tracked files differ from HEAD.

use std::time::Duration;

use tokio::sync::oneshot;

use super::drivers::mentions_drivers;
use super::repository::Repository;

/// Bytes of the index up to which it is looked at, about 10,000 files: the file system is asked about each of them, and
/// only people read the answer.
const MOST_INDEX: u64 = 1 << 20;

/// How long it may take: the first request waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// A check of the tracked files that runs in the background.
#[derive(Debug)]
pub struct DirtyCheck {
    answer: Option<oneshot::Receiver<Option<bool>>>,
}

impl DirtyCheck {
    /// Begins it; without a thread for it there is no answer.
    pub fn begin(repository: Option<&Repository>) -> DirtyCheck {
        let Some(repository) = repository.cloned() else { return DirtyCheck { answer: None } };
        let (done, answer) = oneshot::channel();
        let look = move || {
            // The receiver may be gone.
            let _gone = done.send(repository.is_dirty());
        };
        let started = std::thread::Builder::new().name("dirty".to_owned()).spawn(look);
        DirtyCheck { answer: started.is_ok().then_some(answer) }
    }

    /// Waits for the result; `None` if it is unknown.
    pub async fn end(mut self) -> Option<bool> {
        tokio::time::timeout(PATIENCE, self.answer.take()?).await.ok()?.ok()?
    }
}

impl Repository {
    /// Tells whether tracked files differ from HEAD; `None` where that is not looked at, or not found out. Submodules are
    /// left out. No program is started, which would take longer than all else before the first request, and nothing is
    /// written: libgit2 knows no filters but those of line ends, and leaves the index as it is.
    pub fn is_dirty(&self) -> Option<bool> {
        if !self.can_be_looked_at() {
            return None;
        }
        let library = self.library().ok()?;
        let (_, differences) = self.differences(&library, false)?;
        Some(differences.deltas().len() > 0)
    }

    /// Tells whether there is a commit to compare with, not too many files, and no program that git could start for one.
    fn can_be_looked_at(&self) -> bool {
        let index = || self.git_dir.join("index").metadata();
        self.head.is_some()
            && index().is_ok_and(|data| data.is_file() && data.len() <= MOST_INDEX)
            && !mentions_drivers(self)
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
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
