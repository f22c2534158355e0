//! Remembers the files that the run read, to notice when somebody else changes one.

use sha2::{Digest, Sha256};

use crate::change::Entry;
use crate::path::RelPath;
use crate::tools::{RunMemory, ToolContext};
use crate::workspace::disk::Disk;

/// Returns the hash by which a file's contents are remembered.
pub fn hash(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

/// Remembers a file as the model saw it.
pub fn saw(memory: &RunMemory, path: &RelPath, content: &[u8]) {
    saw_hash(memory, path, hash(content));
}

/// As [`saw`], with the hash at hand.
pub fn saw_hash(memory: &RunMemory, path: &RelPath, hash: [u8; 32]) {
    memory.seen.lock().expect("nothing panics while it holds the map").insert(path.clone(), hash);
}

/// Tells whether the model read or wrote this file in this run.
pub fn has_seen(memory: &RunMemory, path: &RelPath) -> bool {
    memory.seen.lock().expect("nothing panics while it holds the map").contains_key(path)
}

/// Tells whether somebody else changed the file on the disk since this run read it.
///
/// A file that the run has changed itself is compared with what it was at first, and with what it is to become.
pub(crate) fn changed_on_disk(cx: &ToolContext<'_>, path: &RelPath) -> bool {
    let Ok(disk) = Disk.entry(&path.under(cx.workspace.root())) else { return true };
    match cx.workspace.changes().get(path) {
        Some(change) => {
            // The mode is the business of whoever delivers.
            let same = |entry: &Entry| entry.content() == disk.content();
            !same(&change.before) && !same(&change.after)
        }
        None => {
            let seen = cx.memory.seen.lock().expect("nothing panics while it holds the map");
            seen.get(path).is_some_and(|seen| disk.content().is_none_or(|content| hash(content) != *seen))
        }
    }
}
