//! Refuses git directories with pipes and devices: git waits for whoever writes to a pipe, and reads some devices
//! without an end.

use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::bounded;

/// The directories in which git looks for files by their names, and whether it looks in those below, too.
const OF_WORK_TREE: [(&str, bool); 4] = [("", false), ("info", false), ("logs", false), ("refs", true)];
const SHARED: [(&str, bool); 3] = [("objects", false), ("objects/info", true), ("objects/pack", false)];

/// Returns a file of a git directory that git must not open, with what it is. Directories of single objects are not
/// searched: they are many.
pub(super) fn first(git_dir: &Path, common_dir: &Path) -> Option<(PathBuf, io::Error)> {
    let mut pending: Vec<(PathBuf, bool)> = Vec::new();
    for directory in if git_dir == common_dir { vec![git_dir] } else { vec![git_dir, common_dir] } {
        pending.extend(OF_WORK_TREE.map(|(name, is_deep)| (directory.join(name), is_deep)));
    }
    pending.extend(SHARED.map(|(name, is_deep)| (common_dir.join(name), is_deep)));
    while let Some((directory, is_deep)) = pending.pop() {
        // Whatever else is wrong with it, git says so.
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && is_deep {
                pending.push((path, true));
            } else if blocks(kind) || kind.is_symlink() && path.metadata().is_ok_and(|data| blocks(data.file_type())) {
                return bounded::require_regular(&path).err().map(|cause| (path, cause));
            }
        }
    }
    None
}

/// Tells whether opening or reading it may take forever. Git's own monitor of files leaves a socket, which nobody opens.
fn blocks(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}
