//! Gives git a copy of the index: `git diff` rewrites the index if it records other times than the files have.

use std::io;

use super::Git;
use super::repository::Repository;
use crate::marked::Marked;

impl Repository {
    /// Returns git with a copy of the index, which lasts as long as the directory.
    pub fn with_private_index(&self, git: Git) -> io::Result<(Git, Marked)> {
        let folder = Marked::new("index-")?;
        let copy = folder.path().join("index");
        match std::fs::copy(self.git_dir.join("index"), &copy) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => Ok((git.env("GIT_INDEX_FILE", copy), folder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_leaves_the_index_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        crate::workspace::test_support::sh(
            &root,
            "git init -q; echo a > a; echo b > b; git add .; git commit -qm x; touch -d 2001-01-01 a; echo c > b",
        );
        let repository = Repository::discover(&root).unwrap().unwrap();
        let before = std::fs::read(root.join(".git/index")).unwrap();
        let (git, _index) = repository.with_private_index(repository.git().with_filters_off()).unwrap();
        assert_eq!(git.line(&["diff", "--name-only", "HEAD"], b"").unwrap(), "b");
        assert!(std::fs::read(root.join(".git/index")).unwrap() == before);
    }
}
