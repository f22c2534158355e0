//! Writes into temporary projects of our own, in which nobody else works.
#![expect(clippy::disallowed_methods, reason = "the projects are temporary")]

use std::io;
use std::path::Path;

/// Writes a file.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::write(path, content)
}

/// Copies a directory over a project. Links are copied as links: neither their targets nor what they point at in
/// the project is read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let (entry, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        let kind = entry.symlink_metadata()?.file_type();
        let there = target.symlink_metadata().ok();
        if there.as_ref().is_some_and(|there| !(there.is_dir() && kind.is_dir())) {
            let is_directory = there.is_some_and(|there| there.is_dir());
            if is_directory { std::fs::remove_dir_all(&target)? } else { std::fs::remove_file(&target)? }
        }
        if kind.is_dir() {
            std::fs::DirBuilder::new().recursive(true).create(&target)?;
            copy(&entry, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&entry)?, &target)?;
        } else if kind.is_file() {
            std::fs::copy(&entry, &target)?;
        } else {
            return Err(io::Error::other(format!("{} is neither a file nor a directory", entry.display())));
        }
    }
    Ok(())
}
