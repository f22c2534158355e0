//! Writes to a stream without ever waiting for its reader.
//!
//! A pipe that nobody reads would block the run in the middle of a write, where neither its time limit nor a signal has
//! an effect. What a pipe has no room for is queued and written by a thread; the end of the run waits for that thread.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What fits into a pipe that says that it has room.
const PIECE: usize = 4096;

/// How often the end of the run looks whether all is written.
const PAUSE: Duration = Duration::from_millis(5);

/// What is still to be written, for whoever waits for it.
#[derive(Debug, Clone)]
pub struct Backlog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes that are kept or being written.
    left: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backlog {
    /// Waits until everything is written, or can no more be written.
    pub async fn written(&self) {
        while self.left() > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns how many bytes are still to be written.
    pub fn left(&self) -> usize {
        self.0.lock().left
    }
}

/// A stream whose `write` takes everything at once.
pub struct Eager {
    to: File,
    /// Whether it is a pipe or a socket; everything else takes what it is given.
    fills_up: bool,
    shared: Arc<Shared>,
    has_thread: bool,
}

impl Eager {
    /// Takes a stream, and returns also what of it is still to be written.
    pub fn new(to: OwnedFd) -> (Eager, Backlog) {
        let kind = rustix::fs::fstat(&to).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
        let fills_up = matches!(kind, Ok(rustix::fs::FileType::Fifo | rustix::fs::FileType::Socket));
        let shared = Arc::new(Shared::default());
        let backlog = Backlog(Arc::clone(&shared));
        (Eager { to: to.into(), fills_up, shared, has_thread: false }, backlog)
    }

    fn has_room(&self) -> bool {
        let mut polled = [PollFd::new(self.to.as_fd(), PollFlags::POLLOUT)];
        // A stream that cannot be asked is written to, and says by itself what is wrong.
        !matches!(poll(&mut polled, PollTimeout::ZERO), Ok(0))
    }

    fn keep(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.has_thread {
            let (to, shared) = (self.to.try_clone()?, Arc::clone(&self.shared));
            std::thread::Builder::new().name("output".to_owned()).spawn(move || write_kept(to, &shared))?;
            self.has_thread = true;
        }
        let mut kept = self.shared.lock();
        kept.pieces.push_back(bytes.to_vec());
        kept.left += bytes.len();
        self.shared.more.notify_one();
        Ok(bytes.len())
    }
}

/// Writes what is kept, for as long as the process lives.
fn write_kept(mut to: File, shared: &Shared) {
    let mut kept = shared.lock();
    loop {
        let Some(piece) = kept.pieces.pop_front() else {
            kept = shared.more.wait(kept).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(kept);
        let written = write_whole(&mut to, &piece);
        kept = shared.lock();
        kept.left -= piece.len();
        if written.is_err() {
            *kept = Kept { closed: true, ..Kept::default() };
            return;
        }
    }
}

fn write_whole(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut polled = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
                let _told_by_the_next_write = poll(&mut polled, PollTimeout::NONE);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Write for Eager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (closed, left) = {
            let kept = self.shared.lock();
            (kept.closed, kept.left)
        };
        if closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if !self.fills_up {
            return self.to.write(bytes);
        }
        if left > 0 || !self.has_room() {
            return self.keep(bytes);
        }
        match self.to.write(&bytes[..bytes.len().min(PIECE)]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.keep(bytes),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[tokio::test]
    async fn a_pipe_that_nobody_reads_keeps_nobody_waiting_and_loses_nothing() {
        let (mut read, write) = io::pipe().unwrap();
        let (mut eager, backlog) = Eager::new(write.into());
        let text: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        for piece in text.chunks(10_007) {
            eager.write_all(piece).unwrap();
        }
        assert!(backlog.left() > 0);
        let reader = std::thread::spawn(move || {
            let mut found = vec![0; 1_000_000];
            read.read_exact(&mut found).unwrap();
            (read, found)
        });
        backlog.written().await;
        let (read, found) = reader.join().unwrap();
        assert_eq!(found, text);
        drop(read);
        assert!(eager.write(b"x").is_err());
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_ends_the_waiting() {
        let (read, write) = io::pipe().unwrap();
        let (mut eager, backlog) = Eager::new(write.into());
        eager.write_all(&vec![b'x'; 500_000]).unwrap();
        drop(read);
        backlog.written().await;
        assert_eq!(eager.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_file_takes_everything_at_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut eager, backlog) = Eager::new(file.reopen().unwrap().into());
        eager.write_all(&vec![b'x'; 100_000]).unwrap();
        assert_eq!((backlog.left(), std::fs::read(file.path()).unwrap().len()), (0, 100_000));
    }
}
