//! Reads whole files with a limit on size, so that no input can block a run or fill its memory.
//!
//! Files that a repository or an installation names must be regular files ([`regular`]). Files that a person names on
//! the command line may also be pipes, as of a process substitution ([`named`]).

use std::fs::{File, FileType};
use std::io::{self, Error, ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::OFlags;

use crate::checkouts::refuse_links_out;

/// Maximum bytes of configuration: settings, policies, schemas, keys, files of git's.
pub const CONFIG: u64 = 1 << 20;

/// Maximum bytes of a prompt, or of parameters.
pub const PROMPT: u64 = 8 << 20;

/// Maximum bytes of what a run made: a patch, a result, a recording, a log of events.
pub const PRODUCT: u64 = 256 << 20;

/// How long a pipe may be without anybody who writes to it.
const NO_WRITER: Duration = Duration::from_secs(2);

/// How long whoever writes to a pipe may take: as long as a program that a run starts.
const SLOW_WRITER: Duration = Duration::from_secs(600);

/// Reads a regular file, or a link to one.
///
/// Anything else is an error without being opened: opening a pipe would wait for its writer. A file of more than `most`
/// bytes is [`ErrorKind::FileTooLarge`], one that is not there [`ErrorKind::NotFound`].
pub fn regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    within(beginning(path, most.saturating_add(1))?, most)
}

/// Reads a text below an untrusted directory: a link that leads out of it is an error, because a message about the text
/// could reveal a line of a private file.
pub fn text_below(directory: &Path, path: &Path, most: u64) -> io::Result<String> {
    regular_text(&real_below(directory, path)?.0, most)
}

/// Follows the links to a regular file of a checkout; returns where it is, and where below the checkout. A link that leads
/// out is an error.
pub fn real_below(checkout: &Path, path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    require_regular(path)?;
    let real = path.canonicalize().map_err(in_words)?;
    match real.strip_prefix(checkout.canonicalize()?).map(Path::to_path_buf) {
        Ok(below) => Ok((real, below)),
        Err(_) => Err(Error::other("it is a link in the checkout that points outside the checkout, or is not in it")),
    }
}

/// Reads the first bytes of a regular file, at most this many; the errors are those of [`regular`].
pub fn beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    require_regular(path)?;
    let file = open(path)?;
    // It may be another one by now.
    regular_kind(file.metadata()?.file_type())?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fails as [`regular`] does before it reads, for what another program is going to read.
pub fn require_regular(path: &Path) -> io::Result<()> {
    regular_kind(std::fs::metadata(path).map_err(in_words)?.file_type())
}

/// Reads a regular file as [`regular`] does; what is not UTF-8 is [`ErrorKind::InvalidData`].
pub fn regular_text(path: &Path, most: u64) -> io::Result<String> {
    regular(path, most).and_then(text)
}

/// Reads a file that a person named: a regular file, a pipe or a device.
///
/// A link on the way that is in a checkout and leads out of it is an error: a change under review must not choose which
/// of the user's files is read.
///
/// A pipe that nobody writes to, or whose writer takes longer than ten minutes, is [`ErrorKind::TimedOut`]; the other
/// errors are those of [`regular`].
pub fn named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    refuse_links_out(path)?;
    let kind = std::fs::metadata(path).map_err(in_words)?.file_type();
    if kind.is_fifo() || kind.is_char_device() { stream(&open(path)?, most) } else { regular(path, most) }
}

/// Reads a file that a person named as [`named`] does; what is not UTF-8 is [`ErrorKind::InvalidData`].
pub fn named_text(path: &Path, most: u64) -> io::Result<String> {
    named(path, most).and_then(text)
}

/// Turns a file that is not there into `None`.
pub fn optional<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        read => read.map(Some),
    }
}

/// Reads to the end, without a limit on time (standard input: the previous program of a pipeline may work for an hour).
/// More than `most` bytes are [`ErrorKind::FileTooLarge`].
pub fn to_the_end(source: impl io::Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    within(bytes, most)
}

/// Reads from a pipe or device that was opened in non-blocking mode.
fn stream(mut file: &File, most: u64) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    let mut has_writer = false;
    while u64::try_from(bytes.len()).is_ok_and(|length| length <= most) {
        let until = if has_writer { SLOW_WRITER } else { NO_WRITER };
        let left = until.saturating_sub(begun.elapsed());
        let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut polled, PollTimeout::try_from(left.min(NO_WRITER)).unwrap_or(PollTimeout::ZERO))?;
        match file.read(&mut buffer) {
            Ok(0) if ready > 0 => return Ok(bytes),
            // Nobody has opened the pipe for writing yet.
            Ok(0) if left.is_zero() => return Err(Error::new(ErrorKind::TimedOut, "no program writes to the pipe")),
            Ok(0) => {}
            Ok(count) => {
                has_writer = true;
                bytes.extend_from_slice(&buffer[..count]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && (!has_writer || !left.is_zero()) => {
                has_writer = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let message = format!("its writer did not end within {} minutes", SLOW_WRITER.as_secs() / 60);
                return Err(Error::new(ErrorKind::TimedOut, message));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    within(bytes, most)
}

fn regular_kind(kind: FileType) -> io::Result<()> {
    match kind {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(Error::new(ErrorKind::IsADirectory, "it is a directory, not a file")),
        kind => Err(Error::other(format!("it is a {}, not a regular file", name(kind)))),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path).map_err(in_words)
}

fn within(bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= most) {
        true => Ok(bytes),
        false => Err(too_large(most)),
    }
}

/// Returns the error for more than `most` bytes.
pub fn too_large(most: u64) -> Error {
    Error::new(ErrorKind::FileTooLarge, format!("it is larger than {}", size(most)))
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("it is not UTF-8 text (first at byte {at})"))
    })
}

fn in_words(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "it does not exist"),
        _ => error,
    }
}

fn name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "pipe",
        kind if kind.is_socket() => "socket",
        _ => "device",
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pipe(folder: &tempfile::TempDir) -> std::path::PathBuf {
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        path
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_and_said() {
        let folder = tempfile::tempdir().unwrap();
        let endless = folder.path().join("endless");
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for (path, why) in [
            (endless, "it is a device, not a regular file"),
            (pipe(&folder), "it is a pipe, not a regular file"),
            (folder.path().join("socket"), "it is a socket, not a regular file"),
            (folder.path().to_path_buf(), "it is a directory, not a file"),
            (folder.path().join("none"), "it does not exist"),
        ] {
            assert_eq!(regular(&path, CONFIG).unwrap_err().to_string(), why);
        }
        assert_eq!(optional(regular(&folder.path().join("none"), CONFIG)).unwrap(), None);
    }

    #[test]
    fn no_more_than_the_bound_is_read_from_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(regular(&path, 4).unwrap(), b"four");
        assert_eq!(regular(&path, 3).unwrap_err().to_string(), "it is larger than 3 bytes");
        assert_eq!(named(Path::new("/dev/zero"), CONFIG).unwrap_err().to_string(), "it is larger than 1 MiB");
        assert_eq!(to_the_end(io::repeat(0), 2048).unwrap_err().to_string(), "it is larger than 2 KiB");
        assert_eq!(named(Path::new("/dev/null"), CONFIG).unwrap(), b"");
    }

    #[test]
    fn a_pipe_that_a_person_names_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(&folder);
        let writer = std::thread::spawn({
            let path = path.clone();
            move || File::options().write(true).open(path).unwrap().write_all(&[b'x'; 200_000]).unwrap()
        });
        assert_eq!(named(&path, CONFIG).unwrap().len(), 200_000);
        writer.join().unwrap();

        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"substituted").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(named_text(Path::new(&path), CONFIG).unwrap(), "substituted");
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(named(&pipe(&folder), CONFIG).unwrap_err().to_string(), "no program writes to the pipe");
    }
}
