//! Walks a tree of files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::path::{Node, RelPath, Tree};
use crate::policy::decision::Denial;

/// Maximum files that one decision looks at.
pub(super) const MAX_WALK: usize = 200_000;

/// A tree in which a directory that is closed to us is empty: it is closed to every command, too.
pub(super) struct Open<'t>(pub(super) &'t dyn Tree);

impl Tree for Open<'_> {
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
        match self.0.look(path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            node => node,
        }
    }

    fn names(&self, path: &Path) -> std::io::Result<Vec<OsString>> {
        match self.0.names(path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(Vec::new()),
            names => names,
        }
    }
}

/// Visits everything from a path down, links not followed; the visitor says whether to go below a directory.
pub(crate) fn walk(
    tree: &dyn Tree,
    root: &Path,
    start: &RelPath,
    left: &mut usize,
    visit: &mut dyn FnMut(&RelPath, &Node) -> Result<bool, Denial>,
) -> Result<(), Denial> {
    let mut pending = vec![start.clone()];
    while let Some(path) = pending.pop() {
        *left = left.checked_sub(1).ok_or_else(|| Denial::new("it contains too many files to check each"))?;
        let absolute = path.under(root);
        let failed = |error: std::io::Error| Denial::new(format!("{} cannot be checked: {error}", absolute.display()));
        let Some(node) = tree.look(&absolute).map_err(failed)? else { continue };
        if visit(&path, &node)? && node == Node::Dir {
            let names = tree.names(&absolute).map_err(failed)?;
            pending.extend(names.iter().rev().filter_map(|name| path.child(name)));
        }
    }
    Ok(())
}

/// Takes a path off the end of another.
pub(super) fn strip_tail(absolute: &Path, tail: &RelPath) -> PathBuf {
    let mut base = absolute.to_path_buf();
    for _ in tail.components() {
        base.pop();
    }
    base
}
