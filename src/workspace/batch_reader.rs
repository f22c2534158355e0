//! Reads the directory of a batch: it may have come from another machine, so no link in it is followed, and nothing
//! larger than its limit is read.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::folder::{Folder, is_missing};
use crate::batch::plan::files::OF_ITEMS;
use crate::bounded;
use crate::checkouts::refuse_links_out;

/// Maximum bytes of a line: an answer of 64 KiB, escaped, and the names of the files that a run changed.
const LINE: u64 = 16 << 20;

/// An open directory of a batch.
#[derive(Debug)]
pub struct BatchReader {
    folder: Folder,
    items: Option<Folder>,
    path: PathBuf,
}

impl BatchReader {
    /// Opens the directory that a person named.
    pub fn open(path: &Path) -> io::Result<BatchReader> {
        refuse_links_out(path)?;
        BatchReader::of(Folder::root(path)?, path.to_path_buf())
    }

    fn of(folder: Folder, path: PathBuf) -> io::Result<BatchReader> {
        let items = match folder.enter_name(OsStr::new(OF_ITEMS)) {
            Ok(items) => Some(items),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{OF_ITEMS}: {error}"))),
        };
        Ok(BatchReader { folder, items, path })
    }

    /// Returns the path as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directories in this one whose name begins so, by name.
    pub fn below(&self, beginning: &str) -> io::Result<Vec<BatchReader>> {
        let mut names = self.folder.names()?;
        names.retain(|(name, _)| name.to_str().is_some_and(|name| name.starts_with(beginning)));
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let open = |name: &OsStr| BatchReader::of(self.folder.enter_name(name)?, self.path.join(name));
        names.iter().map(|(name, _)| open(name).map_err(|error| of_file(&name.to_string_lossy(), &error))).collect()
    }

    /// Reads a file; `None` if there is none.
    pub fn file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        read(&self.folder, name)
    }

    /// Reads a file of an item; `None` if there is none.
    pub fn item_file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.items.as_ref().map_or(Ok(None), |items| read(items, name))
    }

    /// Returns the names of the files of items.
    pub fn item_names(&self) -> io::Result<Vec<OsString>> {
        let names = self.items.as_ref().map_or(Ok(Vec::new()), Folder::names);
        names.map(|names| names.into_iter().map(|(name, _)| name).collect()).map_err(|error| of_file(OF_ITEMS, &error))
    }

    /// Opens a file to read its lines; `None` if there is none.
    pub fn lines(&self, name: &str) -> io::Result<Option<Lines>> {
        let Some(file) = open(&self.folder, name)? else { return Ok(None) };
        Ok(Some(Lines { reader: BufReader::with_capacity(1 << 16, file), name: name.to_owned(), offset: 0 }))
    }

    /// Opens a file to read pieces of it.
    pub fn pieces(&self, name: &str) -> io::Result<Pieces> {
        let missing = || of_file(name, &io::ErrorKind::NotFound.into());
        Ok(Pieces { file: open(&self.folder, name)?.ok_or_else(missing)? })
    }

    /// Tells whether another process holds the lock of a file: it works on the batch.
    pub fn is_locked(&self, name: &str) -> bool {
        let Ok(Some(file)) = open(&self.folder, name) else { return false };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    }
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLine {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes, with the end of line. Only the last line may lack that: a kill has cut it off.
    pub bytes: Vec<u8>,
}

impl TextLine {
    /// Tells whether the line is complete.
    pub fn is_whole(&self) -> bool {
        self.bytes.ends_with(b"\n")
    }
}

/// The lines of a file.
#[derive(Debug)]
pub struct Lines {
    reader: BufReader<File>,
    name: String,
    offset: u64,
}

impl Iterator for Lines {
    type Item = io::Result<TextLine>;

    fn next(&mut self) -> Option<io::Result<TextLine>> {
        let (mut bytes, offset) = (Vec::new(), self.offset);
        match self.reader.by_ref().take(LINE + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(length) if length as u64 > LINE => {
                let cause = io::Error::other(format!("the line at byte {offset} has more than {} MiB", LINE >> 20));
                Some(Err(of_file(&self.name, &cause)))
            }
            Ok(length) => {
                self.offset += length as u64;
                Some(Ok(TextLine { offset, bytes }))
            }
            Err(error) => Some(Err(of_file(&self.name, &error))),
        }
    }
}

/// A file that is read piece by piece.
#[derive(Debug)]
pub struct Pieces {
    file: File,
}

impl Pieces {
    /// Reads so many bytes from a place.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

fn open(folder: &Folder, name: &str) -> io::Result<Option<File>> {
    match folder.open_file(OsStr::new(name)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(of_file(name, &error)),
    }
}

fn read(folder: &Folder, name: &str) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(folder, name)? else { return Ok(None) };
    bounded::to_the_end(file, bounded::PRODUCT).map(Some).map_err(|error| of_file(name, &error))
}

fn of_file(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_in_the_directory_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "private\n").unwrap();
        let batch = folder.path().join("batch");
        std::fs::create_dir_all(batch.join("items")).unwrap();
        for name in ["batch.json", "journal.jsonl", "items/1.patch"] {
            symlink(&secret, batch.join(name)).unwrap();
        }
        symlink(folder.path(), batch.join("shard-1-of-2")).unwrap();
        let reader = BatchReader::open(&batch).unwrap();
        assert!(reader.file("batch.json").is_err() && reader.lines("journal.jsonl").is_err());
        assert!(reader.item_file("1.patch").is_err() && reader.below("shard-").is_err());
        assert_eq!(reader.file("summary.json").unwrap(), None);
        std::fs::remove_dir_all(batch.join("items")).unwrap();
        symlink(folder.path(), batch.join("items")).unwrap();
        assert!(BatchReader::open(&batch).is_err());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("journal.jsonl"), mode).unwrap();
        assert!(BatchReader::open(folder.path()).unwrap().lines("journal.jsonl").is_err());
    }

    #[test]
    fn lines_have_their_place_and_a_torn_one_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("journal.jsonl"), "one\ntwo\nthr").unwrap();
        let reader = BatchReader::open(folder.path()).unwrap();
        let lines: Vec<TextLine> = reader.lines("journal.jsonl").unwrap().unwrap().map(Result::unwrap).collect();
        let seen: Vec<(u64, bool)> = lines.iter().map(|line| (line.offset, line.is_whole())).collect();
        assert_eq!(seen, [(0, true), (4, true), (8, false)]);
        assert_eq!(reader.pieces("journal.jsonl").unwrap().read(4, 4).unwrap(), b"two\n");
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("journal.jsonl")).unwrap();
        file.set_len(LINE + 9).unwrap();
        let mut lines = BatchReader::open(folder.path()).unwrap().lines("journal.jsonl").unwrap().unwrap();
        let error = lines.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "journal.jsonl: the line at byte 0 has more than 16 MiB");
    }
}
