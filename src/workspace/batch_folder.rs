//! Keeps a batch in a directory: locked by one process, its journal only appended to, nothing in it followed.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::base::CliError;
use crate::batch::journal::{Brief, JournalError, Reader};
use crate::batch::plan::{Batch, files};
use crate::batch::provider::{self, AllSent};
use crate::bounded;
use crate::exit::Exit;

/// Maximum bytes of a line of the journal: an answer of 64 KiB with its escapes, and what else a result says.
const LINE: u64 = 4 << 20;

/// The file in which the process that holds the lock names itself.
const HOLDER: &str = "holder";

/// A batch's directory, locked for as long as this lives.
#[derive(Debug)]
pub struct BatchFolder {
    path: PathBuf,
    lock: File,
    journal: File,
}

/// Why a batch's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process works in it.
    #[error("{path} is in use by {holder}")]
    Busy {
        /// The directory.
        path: String,
        /// Who holds it.
        holder: String,
    },
    /// It cannot be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// It holds somebody's files.
    #[error("{path} is not empty, and has no batch.json of an earlier batch")]
    Foreign {
        /// The directory.
        path: String,
    },
    /// `batch.json` is not one.
    #[error("{path} is not valid: {why}")]
    Batch {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The journal is damaged.
    #[error("{path}: {cause}")]
    Journal {
        /// The file.
        path: String,
        /// Why.
        cause: JournalError,
    },
}

impl CliError for FolderError {
    fn exit(&self) -> Exit {
        match self {
            FolderError::Busy { .. } | FolderError::Foreign { .. } => Exit::Conflict,
            FolderError::Io { .. } => Exit::Failed,
            FolderError::Batch { .. } | FolderError::Journal { .. } => Exit::Input,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            FolderError::Busy { .. } => "wait for its end, or name another directory",
            FolderError::Io { .. } => "name a directory that you can write to, on a disk that is not full",
            FolderError::Foreign { .. } => "name a new directory, or an empty one",
            FolderError::Batch { .. } => "name the directory of a batch, or a new one",
            FolderError::Journal { .. } => "correct or remove the line; what it says is run again",
        }))
    }
}

/// Tells whether a directory is missing, empty, that of a batch, or has nothing but such directories (of shards).
fn is_ours(path: &Path) -> io::Result<bool> {
    let has_batch = |path: &Path| path.join(files::BATCH).symlink_metadata().is_ok();
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    Ok(has_batch(path) || entries.iter().all(|entry| has_batch(&entry.path())))
}

/// Reads `batch.json`; `None` if it is empty.
fn read_batch(mut file: &File, path: &Path) -> Result<Option<Batch>, FolderError> {
    let mut bytes = Vec::new();
    let path = || path.display().to_string();
    let read = file.rewind().and_then(|()| file.take(bounded::CONFIG).read_to_end(&mut bytes));
    read.map_err(|cause| FolderError::Io { path: path(), cause })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| FolderError::Batch { path: path(), why: error.to_string() })
}

impl BatchFolder {
    /// Opens a directory, which is made if it is missing, and locks it. `holder` names this process to others. One with files
    /// of somebody else is left as it is.
    pub fn open(path: &Path, holder: &str) -> Result<BatchFolder, FolderError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |cause| FolderError::Io { path, cause }
        };
        let of_items = path.join(files::OF_ITEMS);
        if !is_ours(path).map_err(failed(path))? {
            return Err(FolderError::Foreign { path: path.display().to_string() });
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))?;
        let lock_path = path.join(files::BATCH);
        let lock = open(&lock_path).map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let holder = bounded::regular_text(&path.join(HOLDER), bounded::CONFIG).unwrap_or_default();
                let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
                return Err(FolderError::Busy { path: path.display().to_string(), holder });
            }
            Err(std::fs::TryLockError::Error(cause)) => return Err(failed(&lock_path)(cause)),
        }
        // A file of this name that is somebody else's stays, with everything beside it.
        read_batch(&lock, &lock_path)?;
        match std::fs::DirBuilder::new().mode(0o700).create(&of_items) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&of_items)(error)),
            Ok(()) | Err(_) => {}
        }
        if !of_items.symlink_metadata().is_ok_and(|data| data.is_dir()) {
            return Err(failed(&of_items)(io::ErrorKind::NotADirectory.into()));
        }
        let journal_path = path.join(files::JOURNAL);
        let journal = open(&journal_path).map_err(failed(&journal_path))?;
        let folder = BatchFolder { path: path.to_owned(), lock, journal };
        // What is in it is nobody's change.
        folder.replace(HOLDER, holder.as_bytes())?;
        let ignored = path.join(".gitignore");
        match OpenOptions::new().write(true).create_new(true).open(&ignored).and_then(|mut file| file.write_all(b"*\n"))
        {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(&ignored)(error)),
            Ok(()) | Err(_) => Ok(folder),
        }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the batch that the directory belongs to; `None` if it is new.
    pub fn batch(&self) -> Result<Option<Batch>, FolderError> {
        read_batch(&self.lock, &self.path.join(files::BATCH))
    }

    /// Writes `batch.json`, in the place of what it held.
    pub fn begin(&self, batch: &Batch) -> Result<(), FolderError> {
        let text = serde_json::to_string_pretty(batch).expect("a batch holds texts and numbers") + "\n";
        let mut file = &self.lock;
        let written = file.rewind().and_then(|()| {
            // After a kill in between it is empty, as if it had never begun.
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|cause| self.failed(files::BATCH, cause))
    }

    /// Reads the journal line by line, and cuts off an incomplete last line; tells whether there was one.
    pub fn read_journal(&self, take: &mut dyn FnMut(&Brief<'_>)) -> Result<bool, FolderError> {
        let failed = |cause| self.failed(files::JOURNAL, cause);
        let mut file = &self.journal;
        file.rewind().map_err(failed)?;
        let mut buffered = BufReader::with_capacity(1 << 16, file);
        let (mut reader, mut text) = (Reader::default(), Vec::new());
        while buffered.by_ref().take(LINE).read_until(b'\n', &mut text).map_err(failed)? > 0 {
            reader.line(&text).map_err(|cause| self.damaged(cause))?.iter().for_each(&mut *take);
            text.clear();
        }
        if reader.is_torn() {
            file.set_len(reader.whole).map_err(failed)?;
        }
        Ok(reader.is_torn())
    }

    /// Appends lines to the journal in one write: all of it or nothing, also on a full disk.
    pub fn append(&self, lines: &str) -> Result<(), FolderError> {
        let mut file = &self.journal;
        let appended = file.metadata().and_then(|before| {
            file.write_all(lines.as_bytes()).inspect_err(|_| {
                // A line that another one follows must be whole.
                let _still_torn = file.set_len(before.len());
            })
        });
        appended.map_err(|cause| self.failed(files::JOURNAL, cause))
    }

    /// Brings the journal to the disk.
    pub fn sync(&self) -> Result<(), FolderError> {
        self.journal.sync_data().map_err(|cause| self.failed(files::JOURNAL, cause))
    }

    /// Reads what was handed to the provider's Batch API.
    pub fn provider(&self) -> Result<AllSent, FolderError> {
        let path = self.path.join(files::PROVIDER);
        let text = bounded::optional(bounded::regular(&path, bounded::PRODUCT));
        let text = text.map_err(|cause| self.failed(files::PROVIDER, cause))?.unwrap_or_default();
        AllSent::read(&text).map_err(|line| {
            let cause = JournalError::Line { line, why: "it does not say what happened at the provider".to_owned() };
            FolderError::Journal { path: path.display().to_string(), cause }
        })
    }

    /// Removes a file of the directory, if it is there.
    pub fn remove(&self, name: &str) {
        let _missing = crate::base::private_file::remove(&self.path.join(name));
    }

    /// Puts the journal aside under the first free name `journal.N.jsonl`, and begins a new one.
    pub fn set_journal_aside(&mut self) -> Result<String, FolderError> {
        let from = self.path.join(files::JOURNAL);
        let name = (1..u32::MAX)
            .map(|number| format!("journal.{number}.jsonl"))
            .find(|name| self.path.join(name).symlink_metadata().is_err())
            .unwrap_or_default();
        let moved = std::fs::rename(&from, self.path.join(&name)).and_then(|()| open(&from));
        self.journal = moved.map_err(|cause| self.failed(files::JOURNAL, cause))?;
        let provider = name.replace("journal", "provider");
        let moved = std::fs::rename(self.path.join(files::PROVIDER), self.path.join(provider));
        bounded::optional(moved).map_err(|cause| self.failed(files::PROVIDER, cause))?;
        Ok(name)
    }

    /// Writes a file of an item; its name is relative to `items/`.
    pub fn keep(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        self.replace(&format!("{}/{name}", files::OF_ITEMS), content)
    }

    /// Removes a file of an item, if it is there.
    pub fn drop_kept(&self, name: &str) {
        let _missing = crate::base::private_file::remove(&self.path.join(files::OF_ITEMS).join(name));
    }

    /// Writes a file of the directory, all of it or nothing; what has its name is replaced, never followed.
    pub fn replace(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let write = || {
            let mut file = temporary(path.parent().unwrap_or(&self.path))?;
            file.write_all(content)?;
            file.persist(&path).map_err(|error| error.error)
        };
        write().map(drop).map_err(|cause| self.failed(name, cause))
    }

    /// Puts a file that was written in this directory under a name.
    pub fn place(&self, file: tempfile::NamedTempFile, name: &str) -> Result<File, FolderError> {
        file.persist(self.path.join(name)).map_err(|error| self.failed(name, error.error))
    }

    /// Begins a file that [`BatchFolder::place`] gives its name.
    pub fn temporary(&self) -> Result<tempfile::NamedTempFile, FolderError> {
        temporary(&self.path).map_err(|cause| self.failed("", cause))
    }

    fn failed(&self, name: &str, cause: io::Error) -> FolderError {
        FolderError::Io { path: self.path.join(name).display().to_string(), cause }
    }

    fn damaged(&self, cause: JournalError) -> FolderError {
        FolderError::Journal { path: self.path.join(files::JOURNAL).display().to_string(), cause }
    }
}

impl Drop for BatchFolder {
    fn drop(&mut self) {
        let _missing = crate::base::private_file::remove(&self.path.join(HOLDER));
    }
}

/// Appends a line to the `provider.jsonl` of a batch's directory and brings it to the disk, in the place of what a kill has
/// left of the last one.
pub fn append_provider(directory: &Path, line: &provider::Line) -> Result<(), FolderError> {
    let path = directory.join(files::PROVIDER);
    let append = || {
        let mut file = open(&path)?;
        let text = bounded::to_the_end(&file, bounded::PRODUCT)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64)?;
        }
        file.write_all((serde_json::to_string(line)? + "\n").as_bytes())?;
        file.sync_data()
    };
    append().map_err(|cause| FolderError::Io { path: path.display().to_string(), cause })
}

/// Makes a file for its owner alone.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(".qwen-").tempfile_in(folder)
}

/// Opens a file to read it and to append to it, or makes it; a link is an error.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::journal::{self, Line, Started};

    fn line(key: &str) -> String {
        journal::line(&Line::Start(Started { n: 1, key: key.into(), r#try: 1, time: String::new(), alone: false }))
    }

    fn read(folder: &BatchFolder) -> Result<(Vec<String>, bool), FolderError> {
        let mut lines = Vec::new();
        let was_cut = folder.read_journal(&mut |line| lines.push(line.key.to_string()))?;
        Ok((lines, was_cut))
    }

    #[test]
    fn one_process_works_in_a_directory_and_a_second_one_learns_which() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let folder = BatchFolder::open(&path, "host a, process 7").unwrap();
        let error = BatchFolder::open(&path, "host b, process 8").unwrap_err();
        assert!(error.to_string().ends_with("out is in use by host a, process 7"), "{error}");
        drop(folder);
        assert!(BatchFolder::open(&path, "host b, process 8").is_ok());
    }

    #[test]
    fn a_directory_with_files_of_somebody_else_stays_as_it_is() {
        for (name, content) in [(".gitignore", "big/"), ("notes", ""), ("batch.json", "{}"), ("batch.json", "mine")] {
            let place = tempfile::tempdir().unwrap();
            std::fs::write(place.path().join(name), content).unwrap();
            BatchFolder::open(place.path(), "").unwrap_err();
            let left: Vec<_> =
                std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, [name]);
            assert_eq!(std::fs::read_to_string(place.path().join(name)).unwrap(), content);
        }
        let place = tempfile::tempdir().unwrap();
        drop(BatchFolder::open(place.path(), "").unwrap());
        std::fs::write(place.path().join(".gitignore"), "own").unwrap();
        drop(BatchFolder::open(place.path(), "").unwrap());
        assert_eq!(std::fs::read_to_string(place.path().join(".gitignore")).unwrap(), "own");
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_a_torn_line_elsewhere_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let folder = BatchFolder::open(place.path(), "").unwrap();
        let whole = line("a") + &line("b");
        for cut in 0..=whole.len() {
            folder.journal.set_len(0).unwrap();
            folder.append(&whole[..cut]).unwrap();
            let (lines, was_cut) = read(&folder).unwrap();
            assert_eq!(lines.len(), whole[..cut].matches('\n').count());
            assert_eq!(was_cut, !(whole[..cut].is_empty() || whole[..cut].ends_with('\n')), "{cut}");
            folder.append(&line("c")).unwrap();
            assert_eq!(read(&folder).unwrap().0.len(), lines.len() + 1);
        }
        folder.append(&format!("{{\"t\":\n{}", line("d"))).unwrap();
        let error = read(&folder).unwrap_err();
        assert!(error.to_string().contains("line 4 of the journal is not valid"), "{error}");
    }

    #[test]
    fn no_link_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let victim = place.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        for name in [files::BATCH, files::JOURNAL, files::OF_ITEMS] {
            let path = place.path().join(format!("of-{name}"));
            std::fs::create_dir(&path).unwrap();
            std::os::unix::fs::symlink(&victim, path.join(name)).unwrap();
            assert!(BatchFolder::open(&path, "").is_err(), "{name}");
        }
        let folder = BatchFolder::open(&place.path().join("out"), "").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join(files::SUMMARY)).unwrap();
        folder.replace(files::SUMMARY, b"{}").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
    }

    #[test]
    fn a_journal_is_put_aside_and_kept() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = BatchFolder::open(place.path(), "").unwrap();
        folder.append(&line("a")).unwrap();
        assert_eq!(folder.set_journal_aside().unwrap(), "journal.1.jsonl");
        assert!(read(&folder).unwrap().0.is_empty());
        assert_eq!(folder.set_journal_aside().unwrap(), "journal.2.jsonl");
        assert_eq!(std::fs::read_to_string(place.path().join("journal.1.jsonl")).unwrap(), line("a"));
    }
}
