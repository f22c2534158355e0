//! Makes the directories of a delivery's files, and writes single entries in them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;

use super::swaps::Swap;
use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, Like, is_missing};
use crate::workspace::steps::Steps;

/// Makes the folders below `from` on the way to a path, as far as they are missing, with these modes, and names those that
/// it made.
pub(super) fn make_folders(
    root: &Folder,
    (from, path): (&RelPath, &RelPath),
    mode: &dyn Fn(&RelPath) -> Option<u32>,
    steps: &Steps,
    made: &mut Vec<RelPath>,
) -> io::Result<()> {
    for folder in folders_between(from, path) {
        let (parent, name) = root.parent_of(&folder)?;
        if parent.stat(name)?.is_none() {
            parent.make(name, mode(&folder), steps)?;
            made.push(folder);
        }
    }
    Ok(())
}

/// Puts an entry at a path atomically, in the place of nothing or of what `is_ours`; makes the directories on the way.
/// `mode` is that of a file which is no longer there.
pub(super) fn restore(
    root: &Folder,
    path: &RelPath,
    (entry, mode): (&Entry, Option<u32>),
    is_ours: &dyn Fn(&Entry) -> bool,
    (run_id, steps): (&str, &Steps),
) -> io::Result<()> {
    make_folders(root, (&RelPath::root(), path), &|_| None, steps, &mut Vec::new())?;
    let (parent, name) = root.parent_of(path)?;
    let back = back_name(run_id);
    if parent.stat(&back)?.is_some() {
        parent.unlink(&back, steps)?;
    }
    let like = parent.like(name)?.or(mode.map(Like::with_mode));
    parent.create(&back, entry, like.as_ref(), steps)?;
    let aside = path.parent().unwrap_or_default().child(&back).ok_or(io::ErrorKind::InvalidInput)?;
    let swap = Swap { tree: root, path, aside: &aside, steps };
    if parent.stat(name)?.is_none() {
        return swap.put();
    }
    swap.exchange_back(is_ours)?;
    parent.unlink(&back, steps)
}

/// The name next to a file under which its old contents are written before they are swapped in.
pub(super) fn back_name(run_id: &str) -> OsString {
    format!(".qwen-{run_id}-back").into()
}

/// Removes the directories of a path that are empty, innermost first, and names those that it removed, with their modes.
pub(super) fn remove_empty(
    root: &Folder,
    path: &RelPath,
    steps: &Steps,
    removed: &mut Vec<(RelPath, u32)>,
) -> io::Result<()> {
    let mut folder = path.parent();
    while let Some(empty) = folder.filter(|folder| !folder.is_root()) {
        folder = empty.parent();
        let (parent, name) = match root.parent_of(&empty) {
            Err(error) if is_missing(&error) => continue,
            found => found?,
        };
        let mode = parent.mode_of(name)?.unwrap_or(0o777);
        match parent.remove(name, steps) {
            Ok(()) => removed.push((empty, mode)),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tells whether one of these paths is this one, or is below it.
pub(super) fn has_below(paths: &BTreeSet<RelPath>, path: &RelPath) -> bool {
    // No name sorts before this one.
    let first = path.child("\u{1}");
    let below = first.and_then(|first| paths.range(first..).next());
    paths.contains(path) || below.is_some_and(|below| below.is_under(path))
}

/// Tells whether one of these paths is this one, or a directory on the way to it.
pub(super) fn has_above(paths: &BTreeSet<RelPath>, path: &RelPath) -> bool {
    std::iter::successors(Some(path.clone()), RelPath::parent).any(|path| paths.contains(&path))
}

/// Returns the directories below `from` on the way to `path`, outermost first.
pub(super) fn folders_between(from: &RelPath, path: &RelPath) -> Vec<RelPath> {
    let mut folders = Vec::new();
    let mut folder = path.parent();
    while let Some(inner) = folder.filter(|inner| inner != from && !inner.is_root()) {
        folder = inner.parent();
        folders.push(inner);
    }
    folders.reverse();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::arbitrary::files;

    proptest::proptest! {
        #[test]
        fn paths_below_and_above_are_found_as_by_comparing_each(some in files(), others in files()) {
            let paths: BTreeSet<RelPath> = some.keys().cloned().collect();
            for path in some.keys().chain(others.keys()) {
                let below = paths.iter().any(|other| other.is_under(path));
                let above = paths.iter().any(|other| path.is_under(other));
                proptest::prop_assert_eq!((has_below(&paths, path), has_above(&paths, path)), (below, above));
                let parent = path.parent().unwrap_or_default();
                let below = paths.iter().any(|other| other.is_under(&parent));
                proptest::prop_assert!(parent.is_root() || has_below(&paths, &parent) == below);
            }
        }
    }
}
