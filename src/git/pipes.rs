//! Refuses git directories with pipes and devices: git waits for whoever writes to a pipe, and reads some devices
//! without an end.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::FileType;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::bounded;

/// The directories in which git looks for files by their names, and whether it looks in those below, too.
const OF_WORK_TREE: [(&str, bool); 4] = [("", false), ("info", false), ("logs", false), ("refs", true)];

/// How many stores of objects are searched.
const MOST_STORES: usize = 100;

/// Returns a file of a git directory, or of a store of objects that it borrows from, that git must not open, with what
/// it is.
pub(super) fn first(git_dir: &Path, common_dir: &Path) -> Option<(PathBuf, io::Error)> {
    let mut pending: Vec<(PathBuf, bool)> = Vec::new();
    for directory in if git_dir == common_dir { vec![git_dir] } else { vec![git_dir, common_dir] } {
        pending.extend(OF_WORK_TREE.map(|(name, is_deep)| (directory.join(name), is_deep)));
    }
    if let Some(found) = below(pending) {
        return Some(found);
    }
    let (mut stores, mut seen) = (vec![common_dir.join("objects")], BTreeSet::new());
    while let Some(store) = stores.pop() {
        if seen.len() >= MOST_STORES || !seen.insert(store.clone()) {
            continue;
        }
        if let Some(found) = below(of_store(&store)) {
            return Some(found);
        }
        let named = bounded::regular(&store.join("info/alternates"), bounded::CONFIG).unwrap_or_default();
        let lines = named.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        stores.extend(lines.filter_map(|line| store.join(OsStr::from_bytes(line)).canonicalize().ok()));
    }
    None
}

/// Returns the directories of a store of objects by their names: a file names the store, which could be any directory.
fn of_store(store: &Path) -> Vec<(PathBuf, bool)> {
    let named = [("", false), ("info", true), ("pack", false)].map(|(name, is_deep)| (store.join(name), is_deep));
    named.into_iter().chain((0..=0xff_u8).map(|first| (store.join(format!("{first:02x}")), false))).collect()
}

/// Searches directories, and those below them where it is asked for.
fn below(mut pending: Vec<(PathBuf, bool)>) -> Option<(PathBuf, io::Error)> {
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

/// Returns a file that a configuration includes, directly or by another one, and that git must not open, with what it is.
/// Whatever could name a file counts: it does not matter in which section it is.
pub(super) fn included(config: &Path) -> Option<(PathBuf, io::Error)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let (mut pending, mut seen) = (vec![config.to_path_buf()], BTreeSet::new());
    while let Some(file) = pending.pop() {
        if file == Path::new("/dev/null") || !seen.insert(file.clone()) {
            continue;
        }
        if let Ok(data) = file.metadata()
            && blocks(data.file_type())
        {
            return bounded::require_regular(&file).err().map(|cause| (file, cause));
        }
        let text = bounded::regular(&file, bounded::PRODUCT).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace("\\\r\n", "").replace("\\\n", "");
        if !text.to_ascii_lowercase().contains("[include") {
            continue;
        }
        let settings = text.lines().flat_map(|line| line.match_indices('=').map(|(at, _)| line.split_at(at)));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let word = |key: &str| key.trim_end().rsplit(|c| !is_name(c)).next().unwrap_or_default().to_ascii_lowercase();
        for (_, value) in settings.filter(|(key, _)| word(key) == "path") {
            let value = value[1..].replace('"', "").replace("\\\\", "\\");
            let before_comment = value.split([';', '#']).next().unwrap_or_default();
            for name in [value.trim(), before_comment.trim()] {
                pending.push(match name.strip_prefix("~/") {
                    Some(below) => home.join(below),
                    None => file.parent().unwrap_or(&file).join(name),
                });
            }
        }
    }
    None
}

/// Tells whether opening or reading it may take forever. Git's own monitor of files leaves a socket, which nobody opens.
fn blocks(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}
