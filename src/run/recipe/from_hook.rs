//! Prepares a run for a git hook: it sees the index or a commit, never the files of the work tree.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;

use crate::cli::RunArgs;
use crate::cli::run::FromHook;
use crate::git::Git;
use crate::git::repository::Repository;
use crate::git::trusted::TrustedTree;
use crate::path::RelPath;

use crate::run::error::RecipeError;

/// Names of files that programs write and nobody reviews line by line.
const GENERATED: [&str; 14] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "flake.lock",
    "go.sum",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "uv.lock",
    "yarn.lock",
];

/// Ends of names of files that programs write.
const GENERATED_ENDS: [&str; 7] = [".min.js", ".min.css", ".map", ".snap", "_pb2.py", ".pb.go", ".g.dart"];

/// Tells whether a path names a lock file or another one that programs write.
pub fn is_generated(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    GENERATED.iter().any(|lock| lock.as_bytes() == name)
        || GENERATED_ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end.as_bytes()))
}

/// Tells git which index the commit is made from; other variables of a hook are not passed on.
pub fn git_of(git: Git, hook: Option<&FromHook>) -> Git {
    match hook.and_then(|hook| hook.index.as_ref()) {
        Some(index) => git.env("GIT_INDEX_FILE", index),
        None => git,
    }
}

/// Reads a text from the index, or from the commit that the hook looks at.
pub fn text_of(hook: &FromHook, repository: &Repository, path: &RelPath) -> Option<String> {
    text_at(&git_of(repository.git(), Some(hook)), hook.revision.as_deref().unwrap_or_default(), repository, path)
}

/// Reads a text from a commit, or from the index if the revision is empty.
pub fn text_at(git: &Git, revision: &str, repository: &Repository, path: &RelPath) -> Option<String> {
    let name = crate::change::patch::name_in_repository(&repository.prefix, path);
    let object = OsString::from_vec([revision.as_bytes(), b":", name.as_slice()].concat());
    let content = git.run(&[OsStr::new("cat-file"), OsStr::new("blob"), &object], b"").ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Returns the commit from which the repository's recipes are read: a hook uses HEAD, so that a commit cannot bring its
/// own rules.
pub fn recipes_of(arguments: &RunArgs, repository: Option<&Repository>) -> Result<Option<TrustedTree>, RecipeError> {
    let (Some(_), Some(repository)) = (&arguments.from_hook, repository) else { return Ok(None) };
    let Some(head) = &repository.head else { return Ok(None) };
    TrustedTree::find(&repository.top, head, "HEAD").map(Some).map_err(RecipeError::Head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_are_known_by_their_name_in_every_folder() {
        for path in ["Cargo.lock", "web/package-lock.json", "go.sum", "a/b.min.js", "x_pb2.py"] {
            assert!(is_generated(path.as_bytes()), "{path}");
        }
        for path in ["lock", "src/Cargo.lock.rs", "Cargo.lock/x", "", ".map"] {
            assert!(!is_generated(path.as_bytes()), "{path}");
        }
    }
}
