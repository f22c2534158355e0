//! Reads the disk as it is; never writes.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::bounded;
use crate::change::Entry;
use crate::path::{Node, Tree};

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Disk {
    /// Returns what is at a path, links not followed, contents included; a directory or device is [`Entry::Absent`].
    pub fn entry(&self, path: &Path) -> io::Result<Entry> {
        match self.look(path)? {
            None | Some(Node::Dir | Node::Other) => Ok(Entry::Absent),
            Some(Node::File { executable, size, .. }) => {
                Ok(Entry::File { content: bounded::regular(path, size)?.into(), executable })
            }
            Some(Node::Link(target)) => Ok(Entry::Link { target: OsString::from(target).into_vec() }),
        }
    }

    /// Returns what is at a path, as [`Disk::entry`] does; a file of more than `most` bytes is an error and not read.
    pub fn entry_within(&self, path: &Path, most: u64) -> io::Result<Entry> {
        match self.look(path)? {
            Some(Node::File { size, .. }) if size > most => Err(bounded::too_large(most)),
            _ => self.entry(path),
        }
    }
}

impl Tree for Disk {
    fn look(&self, path: &Path) -> io::Result<Option<Node>> {
        let metadata = match std::fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        Ok(Some(if kind.is_symlink() {
            Node::Link(std::fs::read_link(path)?)
        } else if kind.is_dir() {
            Node::Dir
        } else if kind.is_file() {
            Node::File {
                links: metadata.nlink(),
                id: (metadata.dev(), metadata.ino()),
                executable: metadata.permissions().mode() & 0o100 != 0,
                size: metadata.len(),
            }
        } else {
            Node::Other
        }))
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }
}
