//! Makes the directories of a delivery's files, and writes single entries in them.

use std::ffi::OsString;
use std::io;

use crate::change::Entry;
use crate::path::RelPath;
use crate::workspace::folder::{Folder, Like};
use crate::workspace::steps::Steps;

/// Makes the folders below `from` on the way to a path, as far as they are missing, and names those that it made.
pub(super) fn make_folders(
    root: &Folder,
    from: &RelPath,
    path: &RelPath,
    steps: &Steps,
    made: &mut Vec<RelPath>,
) -> io::Result<()> {
    for folder in folders_between(from, path) {
        let (parent, name) = root.parent_of(&folder)?;
        if parent.stat(name)?.is_none() {
            parent.make(name, steps)?;
            made.push(folder);
        }
    }
    Ok(())
}

/// Puts an entry at a path atomically, replacing any file or link; creates the directories on the way. `mode` is that of
/// a file which is no longer there.
pub(super) fn restore(
    root: &Folder,
    path: &RelPath,
    (entry, mode): (&Entry, Option<u32>),
    run_id: &str,
    steps: &Steps,
) -> io::Result<()> {
    make_folders(root, &RelPath::root(), path, steps, &mut Vec::new())?;
    let (parent, name) = root.parent_of(path)?;
    let stands = parent.stat(name)?.is_some();
    if *entry == Entry::Absent {
        return if stands { parent.unlink(name, steps) } else { Ok(()) };
    }
    let temporary = back_name(run_id);
    if parent.stat(&temporary)?.is_some() {
        parent.unlink(&temporary, steps)?;
    }
    let like = parent.like(name)?.or(mode.map(Like::with_mode));
    parent.create(&temporary, entry, like.as_ref(), steps)?;
    if stands {
        parent.exchange(&temporary, &parent, name, steps)?;
        parent.unlink(&temporary, steps)
    } else {
        parent.place(&temporary, &parent, name, steps)
    }
}

/// The name next to a file under which its old contents are written before they are swapped in.
pub(super) fn back_name(run_id: &str) -> OsString {
    format!(".qwen-{run_id}-back").into()
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
