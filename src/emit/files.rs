//! Writes the files that output flags name: each completely or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::sink::Sink;
use crate::checkouts::refuse_links;

/// How long a named pipe may wait for its reader.
const NO_READER: Duration = Duration::from_secs(10);

/// How often it is tried again until then.
const PAUSE: Duration = Duration::from_millis(10);

/// A file that an output flag names, checked before any work.
///
/// A regular file is written next to its name and renamed, so that a reader sees the old contents or the new, never a
/// part. It is not held open until then: the file next to it would show in the tree that the run works on. A pipe or a
/// device (`/dev/stderr`, `/dev/fd/3`) is opened at once and written in place. A link is replaced, not followed, and a
/// link to a directory on the way is refused: a checkout must not choose where our output goes. Missing directories are
/// not made.
#[derive(Debug)]
pub(super) enum OutputFile {
    /// A regular file, there or not.
    Regular(Named),
    /// A pipe or a device. A reader that goes away is not an error.
    Stream(Sink),
}

/// The name of an output file, with the directories whose links are not followed.
#[derive(Debug)]
pub struct Named {
    path: PathBuf,
    checkouts: Vec<PathBuf>,
}

impl Named {
    fn new(path: &Path, checkouts: &[PathBuf]) -> Named {
        Named { path: path.to_path_buf(), checkouts: checkouts.to_vec() }
    }

    /// Makes a file beside the name, to be renamed. Each time the way is looked at: it may have changed since.
    fn beside(&self, mode: u32) -> io::Result<tempfile::NamedTempFile> {
        refuse_links(&self.path, &self.checkouts)?;
        let permissions = std::fs::Permissions::from_mode(mode);
        tempfile::Builder::new().prefix(".qwen-").permissions(permissions).tempfile_in(folder_of(&self.path))
    }

    fn replace(&self, mode: u32, contents: &mut dyn io::Read) -> io::Result<()> {
        let mut file = self.beside(mode)?;
        io::copy(contents, &mut file)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

impl OutputFile {
    /// Opens it. Fails where it cannot be written, as far as that can be known before; leaves nothing behind.
    /// `checkouts` are the directories whose links are not followed: the workspace and the checkouts around it.
    pub(super) fn open(path: &Path, checkouts: &[PathBuf]) -> io::Result<OutputFile> {
        if let Some(stream) = open_special(path, checkouts)? {
            return Ok(OutputFile::Stream(stream));
        }
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let named = Named::new(path, checkouts);
        named.beside(mode(path))?;
        Ok(OutputFile::Regular(named))
    }

    /// Writes the contents.
    pub(super) fn write(&mut self, contents: &[u8]) -> io::Result<()> {
        match self {
            OutputFile::Regular(named) => named.replace(mode(&named.path), &mut &*contents),
            OutputFile::Stream(sink) => {
                sink.write(contents);
                sink.take_failure().map_or(Ok(()), Err)
            }
        }
    }
}

/// Writes a file as the output flags do: whole or not at all.
pub fn write_whole(path: &Path, checkouts: &[PathBuf], contents: &[u8]) -> io::Result<()> {
    OutputFile::open(path, checkouts)?.write(contents)
}

/// Opens a file that grows while the run works: its readers follow it, so it is written in place.
///
/// A regular file is emptied. A link is replaced, as [`OutputFile`] does.
pub(super) fn open_growing(path: &Path, checkouts: &[PathBuf]) -> io::Result<Sink> {
    if let Some(stream) = open_special(path, checkouts)? {
        return Ok(stream);
    }
    let file = match path.symlink_metadata() {
        Ok(data) if !data.is_symlink() => File::options()
            .write(true)
            .truncate(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?,
        _ => Named::new(path, checkouts).beside(mode(path))?.persist(path)?,
    };
    Ok(Sink::new(Box::new(file)))
}

/// What is kept out of sight until it is whole (`--record`): a run that is killed leaves the file as it was.
#[derive(Debug)]
pub enum Spooled {
    /// A file without a name, and the name that its contents get.
    Regular(File, Named),
    /// A pipe or a device.
    Stream(Sink),
    /// It is whole.
    Kept,
}

impl Spooled {
    /// Opens it; the errors are those of a file that is opened to be written.
    pub fn open(path: &Path, checkouts: &[PathBuf]) -> io::Result<Spooled> {
        match OutputFile::open(path, checkouts)? {
            OutputFile::Regular(named) => Ok(Spooled::Regular(tempfile::tempfile()?, named)),
            OutputFile::Stream(sink) => Ok(Spooled::Stream(sink)),
        }
    }

    /// Gives what was written its name. The file is for its owner alone.
    pub fn keep(&mut self) -> io::Result<()> {
        match self {
            Spooled::Regular(file, named) => {
                io::Seek::rewind(file)?;
                named.replace(0o600, file)?;
                *self = Spooled::Kept;
            }
            Spooled::Stream(_) | Spooled::Kept => {}
        }
        Ok(())
    }
}

impl Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Spooled::Regular(file, _) => file.write(bytes),
            Spooled::Stream(sink) => {
                sink.write(bytes);
                sink.take_failure().map_or(Ok(bytes.len()), Err)
            }
            Spooled::Kept => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a pipe or a device; `None` for what is neither. A named pipe without a reader is waited for, but not for ever.
fn open_special(path: &Path, checkouts: &[PathBuf]) -> io::Result<Option<Sink>> {
    if !names_a_descriptor(path) {
        refuse_links(path, checkouts)?;
    }
    if let Some(own) = own_descriptor(path)? {
        return Ok(Some(Sink::new(Box::new(File::from(own)))));
    }
    let kind = path.symlink_metadata().map(|data| data.file_type());
    let other = |kind: &std::fs::FileType| !kind.is_file() && !kind.is_dir() && !kind.is_symlink();
    if !names_a_descriptor(path) && !kind.as_ref().is_ok_and(other) {
        return Ok(None);
    }
    let mut options = File::options();
    options.append(true).custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed());
    let begun = Instant::now();
    loop {
        match options.open(path) {
            Ok(file) => return Ok(Some(Sink::new(Box::new(file)))),
            Err(error) if !kind.as_ref().is_ok_and(FileTypeExt::is_fifo) => return Err(error),
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::NXIO.raw_os_error()) => return Err(error),
            Err(_) if begun.elapsed() < NO_READER => std::thread::sleep(PAUSE),
            Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no program reads the pipe")),
        }
    }
}

/// Returns this process's own standard output or error, where a path names it. Opened anew a regular file would have another
/// place to write at: what others write to it and this would overwrite each other.
fn own_descriptor(path: &Path) -> io::Result<Option<OwnedFd>> {
    match path.to_str() {
        Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => Ok(Some(rustix::io::dup(io::stdout())?)),
        Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => Ok(Some(rustix::io::dup(io::stderr())?)),
        _ => Ok(None),
    }
}

/// `/dev/stdout` and its like may lead to a regular file, and must not be replaced by one.
fn names_a_descriptor(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The mode of the file that is there, else that of any new file (less the umask).
fn mode(path: &Path) -> u32 {
    path.symlink_metadata().ok().filter(std::fs::Metadata::is_file).map_or(0o666, |data| data.permissions().mode())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
        OutputFile::open(path, &[])?.write(contents)
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_as_it_was_until_its_new_contents_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.jsonl");
        write(&path, b"old").unwrap();
        let mut spooled = Spooled::open(&path, &[]).unwrap();
        spooled.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        spooled.keep().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_is_replaced_and_its_target_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        write(&target, b"mine").unwrap();
        for growing in [false, true] {
            let link = folder.path().join(format!("link-{growing}"));
            std::os::unix::fs::symlink(&target, &link).unwrap();
            match growing {
                true => open_growing(&link, &[]).unwrap().write(b"new"),
                false => write(&link, b"new").unwrap(),
            }
            assert_eq!(std::fs::read(&target).unwrap(), b"mine");
            assert_eq!(std::fs::read(&link).unwrap(), b"new");
        }
    }

    #[test]
    fn what_grows_is_the_same_file_for_whoever_follows_it() {
        use std::io::Read as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        write(&path, b"old and long").unwrap();
        let mut reader = File::open(&path).unwrap();
        let mut sink = open_growing(&path, &[]).unwrap();
        sink.line("new");
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "new\n");
    }

    #[test]
    fn a_wrong_path_is_an_error_that_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in [folder.path().join("no/result.json"), folder.path().to_path_buf(), "/dev/none".into()] {
            assert!(OutputFile::open(&wrong, &[]).is_err(), "{wrong:?}");
            assert!(open_growing(&wrong, &[]).is_err(), "{wrong:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_device_is_an_error_and_a_reader_that_went_away_is_none() {
        assert!(OutputFile::open(Path::new("/dev/full"), &[]).unwrap().write(b"x").is_err());
        let (reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let mut file = OutputFile::open(Path::new(&path), &[]).unwrap();
        drop(reader);
        file.write(b"x").unwrap();
    }
}
