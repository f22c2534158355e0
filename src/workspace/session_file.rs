//! Appends to session files: they are never rewritten, and each has one writer.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::base::digest::sha256;

/// The largest session that is read.
const LARGEST: u64 = 256 << 20;

/// A session's file, locked for as long as this lives.
#[derive(Debug)]
pub struct SessionFile {
    file: File,
}

impl SessionFile {
    /// Makes a new file; an existing one of this name is an error.
    pub fn create(path: &Path) -> io::Result<SessionFile> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(SessionFile { file })
    }

    /// Opens an existing file and returns its text. [`io::ErrorKind::WouldBlock`] means that another run writes it.
    pub fn open(path: &Path) -> io::Result<(SessionFile, String)> {
        let file = OpenOptions::new().append(true).read(true).open(path)?;
        file.try_lock().map_err(io::Error::from)?;
        let text = text(&file)?;
        Ok((SessionFile { file }, text))
    }

    /// Removes what follows the complete lines: a killed run was writing it.
    pub fn keep(&self, whole: usize) -> io::Result<()> {
        let whole = whole as u64;
        if self.file.metadata()?.len() > whole {
            self.file.set_len(whole)?;
        }
        Ok(())
    }

    /// Appends lines in one write: after a kill all of them are there, or all but an incomplete end.
    pub fn append(&self, lines: &str) -> io::Result<()> {
        (&self.file).write_all(lines.as_bytes())
    }
}

/// Reads a session's file without locking it.
pub fn read(path: &Path) -> io::Result<String> {
    text(&File::open(path)?)
}

fn text(file: &File) -> io::Result<String> {
    let data = file.metadata()?;
    if !data.is_file() || data.len() > LARGEST {
        return Err(io::Error::other("it is not a regular file, or is too large"));
    }
    let mut bytes = Vec::new();
    let mut file = file;
    file.read_to_end(&mut bytes)?;
    // A character may be incomplete at the end; the line that contains it is dropped.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Names the directory of what is kept of a workspace.
pub fn folder_name(workspace: &Path) -> String {
    sha256(workspace.as_os_str().as_encoded_bytes())[..16].to_owned()
}

/// Makes the directory of sessions, for its owner alone.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)
}

/// Returns the sessions of a directory, the one that was written last first.
pub fn sessions(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Returns the directories below a directory.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_writer_and_only_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let session = SessionFile::create(&path).unwrap();
        session.append("one\n").unwrap();
        assert_eq!(SessionFile::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(session);
        assert_eq!(SessionFile::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let (session, text) = SessionFile::open(&path).unwrap();
        session.append("two\n").unwrap();
        assert_eq!((text.as_str(), read(&path).unwrap().as_str()), ("one\n", "one\ntwo\n"));
        session.append("torn").unwrap();
        session.keep(8).unwrap();
        session.append("three\n").unwrap();
        assert_eq!(read(&path).unwrap(), "one\ntwo\nthree\n");
    }
}
