//! Keeps full outputs in a directory of the run: written for the model to read, never delivered.

#![expect(clippy::disallowed_methods, reason = "the run's own folder of outputs is made here")]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::bounded;

/// Keeps an output in `folder` under the next free name and returns its path.
pub fn keep(folder: &Path, output: &[u8]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    for number in 1..=u32::MAX {
        let path = folder.join(format!("output-{number}.txt"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(output)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("cannot find a free name for the file of an output"))
}

/// Stores a secret of this program, readable by its owner alone; the first writer wins.
pub fn keep_secret(path: &Path, secret: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(secret)
}

/// Creates a file, with the directories above it; an existing one is an error. Nothing is left of one that cannot be
/// written.
pub fn create_new(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// Appends to a file that a CI system made for this (outputs, summary), or creates it.
pub fn append(path: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(content)
}

/// Creates a directory below another, for the owner alone; it remains after this process.
pub fn stay(folder: &Path, prefix: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    Ok(tempfile::Builder::new().prefix(prefix).tempdir_in(folder)?.keep())
}

/// Reads a kept output; `None` if `path` is not a plain name in `folder`, or no regular file is there.
pub fn read(folder: &Path, path: &Path) -> Option<io::Result<Vec<u8>>> {
    if path.parent() != Some(folder) || path.file_name().is_none() {
        return None;
    }
    let metadata = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(bounded::regular(path, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_never_overwrite_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let first = keep(folder.path(), b"1").unwrap();
        let second = keep(folder.path(), b"2").unwrap();
        assert_eq!((std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap()), (b"1".to_vec(), b"2".to_vec()));
        assert_eq!(read(folder.path(), &second).unwrap().unwrap(), b"2");
    }

    #[test]
    fn only_plain_names_of_the_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path(), Path::new("/etc/passwd")).is_none());
        assert!(read(folder.path(), &folder.path().join("..")).is_none());
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("output-1.txt")).unwrap();
        assert!(read(folder.path(), &folder.path().join("output-1.txt")).is_none());
    }
}
