//! Removes references of a copied git directory that name a file or a directory instead of a commit.
//!
//! Git would show such a file without its path, and the path decides whether it may be read.

#![expect(clippy::disallowed_methods, reason = "what the copy names is removed here")]

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::Git;
use crate::bounded;

/// The names outside of `refs` that are copied.
const OUTSIDE: [&str; 3] = ["HEAD", "ORIG_HEAD", "MERGE_HEAD"];

/// A `HEAD` that names no commit.
const NO_COMMIT: &str = "ref: refs/heads/none\n";

/// Removes the references that lead to something else than a commit, and the lines of logs that name such. What a tag says
/// about its target does not count. `git` works in the copy `at`.
pub(super) fn keep(git: &Git, at: &Path) -> io::Result<()> {
    let listed = git.run(&["for-each-ref", "--format=%(refname)"], b"").map_err(io::Error::other)?;
    let names: Vec<&[u8]> = OUTSIDE.iter().map(|name| name.as_bytes()).chain(lines(&listed)).collect();
    let has_tables = at.join("reftable").exists();
    let logs = if has_tables { Vec::new() } else { files_below(at.join("logs"))? };
    let ids: BTreeSet<&[u8]> = logs.iter().flat_map(|(_, text)| lines(text)).flat_map(ids).collect();

    let asked = names.iter().map(|name| [*name, b"^{commit}\n"].concat());
    let asked: Vec<u8> = asked.chain(ids.iter().map(|id| [*id, b"\n"].concat())).flatten().collect();
    let answers = git.run(&["cat-file", "--batch-check"], &asked).map_err(io::Error::other)?;
    let kinds: Vec<&[u8]> = lines(&answers).map(|line| words(line).nth(1).unwrap_or_default()).collect();

    let wrong = names.iter().zip(&kinds).filter(|(_, kind)| **kind != b"commit").map(|(name, _)| *name);
    remove(git, at, wrong)?;
    if has_tables {
        // The lines of their logs are not in files.
        return git.run(&["reflog", "expire", "--expire=all", "--all"], b"").map(drop).map_err(io::Error::other);
    }
    // What is no longer there shows nothing.
    let wrong =
        ids.iter().zip(kinds.iter().skip(names.len())).filter(|(_, kind)| !matches!(**kind, b"commit" | b"missing"));
    let wrong: BTreeSet<&[u8]> = wrong.map(|(id, _)| *id).collect();
    for (path, text) in &logs {
        let is_kept = |line: &&[u8]| !self::ids(line).any(|id| wrong.contains(id));
        let kept: Vec<u8> = text.split_inclusive(|byte| *byte == b'\n').filter(is_kept).flatten().copied().collect();
        if kept.len() != text.len() {
            std::fs::write(path, kept)?;
        }
    }
    Ok(())
}

fn remove<'n>(git: &Git, at: &Path, names: impl Iterator<Item = &'n [u8]>) -> io::Result<()> {
    let mut deleted = Vec::new();
    for name in names {
        let file = OUTSIDE.iter().find(|known| known.as_bytes() == name).map(|name| at.join(name));
        match file {
            None => deleted.extend([b"delete ", name, b"\n"].concat()),
            // Without it git would see no repository. It may name a branch without a commit.
            Some(file) if name == b"HEAD" => {
                if !bounded::regular(&file, bounded::CONFIG).is_ok_and(|text| text.starts_with(b"ref: refs/")) {
                    std::fs::write(file, NO_COMMIT)?;
                }
            }
            Some(file) => drop(bounded::optional(std::fs::remove_file(file))?),
        }
    }
    match deleted.is_empty() {
        true => Ok(()),
        false => git.run(&["update-ref", "--no-deref", "--stdin"], &deleted).map(drop).map_err(io::Error::other),
    }
}

/// Returns the files below a directory of the copy, which has no links.
fn files_below(directory: PathBuf) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let (mut found, mut pending) = (Vec::new(), vec![directory]);
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            match path.is_dir() {
                true => pending.push(path),
                false => {
                    let text = bounded::regular(&path, bounded::PRODUCT)?;
                    found.push((path, text));
                }
            }
        }
    }
    Ok(found)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ')
}

/// Returns the ids that a line of a log begins with: what a name was, and what it became.
fn ids(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    words(line).take(2)
}
