//! Resolves what an object's id names: an id is not a path, so rules on paths cannot see what it leads to.

use std::path::{Path, PathBuf};

use crate::bounded;
use crate::path::{Node, Tree};

/// What a word leads to that is an object's id, or begins with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// No id: a reference, or a word that only a commit can answer.
    NoId,
    /// A commit: its paths are those of the workspace.
    Commit,
    /// A file or directory of some commit, or more than one object.
    Other,
    /// An object that is not there, or cannot be looked up.
    Unknown,
}

/// Looks up the ids in a revision or range of revisions, in the repository of a directory.
pub(super) fn named(tree: &dyn Tree, root: &Path, revision: &str) -> Named {
    let mut found = Named::NoId;
    for one in revision.split("..").map(|part| part.trim_start_matches(['.', '^', '+'])) {
        let base = one.split(['^', '~', ':', '@']).next().unwrap_or_default();
        let suffix = &one[base.len()..];
        let parent = suffix.starts_with('~')
            || suffix.strip_prefix('^').is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(['^', '~', ':']) || rest.starts_with(|c: char| c.is_ascii_digit())
            });
        // The error tells the whole id of what has no parents.
        if references(tree, root, base).iter().any(|id| is_no_commit(tree, root, id)) {
            return Named::Other;
        }
        if parent || suffix.starts_with("^{commit}") {
            if id_of(base).is_some_and(|id| is_no_commit(tree, root, id)) {
                return Named::Other;
            }
            continue;
        }
        let Some(id) = id_of(base) else { continue };
        match kind(tree, root, id) {
            Some(git2::ObjectType::Commit) if found == Named::Unknown => {}
            Some(git2::ObjectType::Commit) => found = Named::Commit,
            Some(_) => return Named::Other,
            None => found = Named::Unknown,
        }
    }
    found
}

fn is_no_commit(tree: &dyn Tree, root: &Path, id: &str) -> bool {
    kind(tree, root, id).is_some_and(|kind| kind != git2::ObjectType::Commit)
}

// The ids that references of a name have, wherever git looks for one: a tag may name a file, or a directory.
fn references(tree: &dyn Tree, root: &Path, name: &str) -> Vec<String> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    let Some((own, common)) = directories(tree, root).filter(|_| name.split('/').all(plain)) else { return Vec::new() };
    let names = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"].map(|start| format!("{start}{name}"));
    let is_id = |id: &str| id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let loose = names.iter().flat_map(|name| [own.join(name), common.join(name)]);
    let mut ids: Vec<String> = loose
        .filter_map(|path| bounded::regular_text(&path, bounded::CONFIG).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| is_id(text))
        .collect();
    let packed = bounded::regular_text(&common.join("packed-refs"), bounded::PRODUCT).unwrap_or_default();
    let lines = packed.lines().filter_map(|line| line.split_once(' '));
    ids.extend(
        lines.filter(|(id, known)| is_id(id) && names.iter().any(|name| name == known)).map(|(id, _)| id.to_owned()),
    );
    ids
}

/// Tells whether a reference of the repository around a directory names something else than a commit.
pub(super) fn names_files(tree: &dyn Tree, root: &Path) -> bool {
    let Some((own, common)) = directories(tree, root) else { return false };
    let mut folders = vec![own.join("refs"), common.join("refs")];
    let mut ids: Vec<String> = Vec::new();
    while let Some(folder) = folders.pop() {
        for name in tree.names(&folder).unwrap_or_default() {
            let path = folder.join(name);
            match tree.look(&path) {
                Ok(Some(Node::Dir)) => folders.push(path),
                _ => ids.extend(bounded::regular_text(&path, bounded::CONFIG)),
            }
        }
    }
    let packed = bounded::regular_text(&common.join("packed-refs"), bounded::PRODUCT).unwrap_or_default();
    ids.extend(packed.lines().filter_map(|line| line.split_once(' ')).map(|(id, _)| id.to_owned()));
    ids.iter().map(|id| id.trim()).filter(|id| id_of(id).is_some()).any(|id| is_no_commit(tree, root, id))
}

// `1a2b3c4`, and what `git describe` prints: `v1-2-g1a2b3c4`.
fn id_of(base: &str) -> Option<&str> {
    let id = base.rsplit_once("-g").map_or(base, |(_, id)| id);
    ((4..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

fn kind(tree: &dyn Tree, root: &Path, id: &str) -> Option<git2::ObjectType> {
    let objects = objects(tree, root)?;
    let database = git2::Odb::new().ok()?;
    database.add_disk_alternate(objects.to_str()?).ok()?;
    let short = git2::Oid::from_str(&format!("{id:0<40}")).ok()?;
    let whole = match database.exists_prefix(short, id.len()) {
        Ok(whole) => whole,
        // Git names all of them.
        Err(error) if error.code() == git2::ErrorCode::Ambiguous => return Some(git2::ObjectType::Any),
        Err(_) => return None,
    };
    let (_, kind) = database.read_header(whole).ok()?;
    if kind != git2::ObjectType::Tag {
        return Some(kind);
    }
    // What the tag says about its target may be a lie; a tag of a tag is no commit here.
    let tag = database.read(whole).ok()?;
    let target = String::from_utf8_lossy(tag.data()).lines().next().and_then(|line| {
        let target = git2::Oid::from_str(line.strip_prefix("object ")?).ok()?;
        Some(database.read_header(target).ok()?.1)
    });
    Some(if target == Some(git2::ObjectType::Commit) { git2::ObjectType::Commit } else { git2::ObjectType::Tag })
}

// The objects of the repository around a directory.
fn objects(tree: &dyn Tree, root: &Path) -> Option<PathBuf> {
    Some(directories(tree, root)?.1.join("objects"))
}

/// Returns the directory of git's own files around a directory, and the one with its objects and references: a linked
/// work tree shares those of the first one.
pub(super) fn directories(tree: &dyn Tree, root: &Path) -> Option<(PathBuf, PathBuf)> {
    let top = top(tree, root)?;
    let git = top.join(".git");
    if tree.look(&git).ok()? == Some(Node::Dir) {
        return Some((git.clone(), git));
    }
    let text = bounded::regular_text(&git, bounded::CONFIG).ok()?;
    let own = top.join(text.strip_prefix("gitdir:")?.trim());
    let shared = bounded::regular_text(&own.join("commondir"), bounded::CONFIG)
        .map_or(own.clone(), |path| own.join(path.trim()));
    Some((own, shared))
}

/// Returns the top directory of the repository that a directory is in.
pub(super) fn top<'a>(tree: &dyn Tree, root: &'a Path) -> Option<&'a Path> {
    root.ancestors().find(|path| matches!(tree.look(&path.join(".git")), Ok(Some(Node::Dir | Node::File { .. }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_with_an_id_are_looked_up() {
        let tree = crate::workspace::disk::Disk;
        let nowhere = Path::new("/nowhere");
        for word in
            ["HEAD", "main", "v1.0", "HEAD~2", "stash@{0}", "main..HEAD", "1a2b3c4~1", "1a2b3c4^", "1a2b3c4^{commit}"]
        {
            assert_eq!(named(&tree, nowhere, word), Named::NoId, "{word}");
        }
        for word in [
            "1a2b3c4",
            "v1-2-g1a2b3c4",
            "main..1a2b3c4",
            "^1a2b3c4",
            "1a2b^{}",
            "1a2b^{tree}",
            "1a2b:x",
            "+1a2b:refs/x",
            "1a2b^!",
        ] {
            assert_eq!(named(&tree, nowhere, word), Named::Unknown, "{word}");
        }
    }
}
