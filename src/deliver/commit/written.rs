//! Makes sure that the tree of a commit is the checked change, whatever settings a repository has.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::deliver::DeliverError;
use crate::deliver::references::failed;
use crate::git::Git;

/// Returns git that keeps a private index in one file: a part of a split one would be kept in the repository, under a
/// name that other settings make the same for all.
pub(super) fn with_whole_index(git: Git) -> Git {
    git.config("core.splitIndex", "false").config("index.skipHash", "false").config("index.sparse", "false")
}

/// Fails where a tree is not the one of the base with this change alone: with some settings of a repository git writes
/// another one without an error.
pub(super) fn require_change(git: &Git, base: Option<&str>, tree: &str, index_info: &[u8]) -> Result<(), DeliverError> {
    let empty = || git.line(&["hash-object", "-t", "tree", "--stdin"], b"");
    let base = base.map_or_else(empty, |base| Ok(base.to_owned())).map_err(failed)?;
    let compared = ["diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", &base, tree];
    let compared = git.run(&compared, b"").map_err(failed)?;
    // `:MODE MODE OBJECT OBJECT STATUS`, then the path.
    let mut fields = compared.split(|byte| *byte == 0);
    let mut written: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
    while let (Some(states), Some(path)) = (fields.next(), fields.next()) {
        let words: Vec<&[u8]> = states.split(|byte| *byte == b' ').collect();
        if let [_, mode, _, object, _] = words[..] {
            written.insert(path, [mode, b" ", object].concat());
        }
    }
    for line in index_info.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(2, |byte| *byte == b'\t');
        let (Some(entry), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_absent = entry.starts_with(b"0 ");
        let is_as_wanted = match written.remove(path) {
            Some(found) => found == entry || is_absent && found.starts_with(b"000000 "),
            // It was so before.
            None => {
                let asked =
                    [b"ls-tree", &b"-z"[..], b"--full-tree", tree.as_bytes(), b"--", path].map(OsStr::from_bytes);
                let listed = git.run(&asked, b"").map_err(failed)?;
                let is_there =
                    |listed: &[u8]| listed.split(|byte| *byte == b'\t').nth(1) == Some(&[path, b"\0"].concat());
                let object = entry.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                let has_object = listed.windows(object.len()).any(|part| part == object);
                if is_absent { !is_there(&listed) } else { is_there(&listed) && has_object }
            }
        };
        if !is_as_wanted {
            return Err(other_tree(path));
        }
    }
    written.first_key_value().map_or(Ok(()), |(path, _)| Err(other_tree(path)))
}

fn other_tree(path: &[u8]) -> DeliverError {
    DeliverError::conflict(
        format!("git wrote a tree that differs from the checked change in {}", String::from_utf8_lossy(path)),
        "deliver with --apply and commit yourself; `git config --list` shows the repository's settings",
    )
}
