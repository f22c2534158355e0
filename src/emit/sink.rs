//! Writes to a stream that may close at any time, without failing the run.

use std::io::{ErrorKind, Write};
use std::time::Duration;

/// How often a full stream is tried again before it counts as closed; 30 s in all.
const TRIES: u32 = 3_000;
const PAUSE: Duration = Duration::from_millis(10);

/// A writer whose reader may go away: from the first failure on everything is dropped in silence.
///
/// A closed standard output (`qwen … | head -1`) must not change the run or its exit code; a full disk does, see
/// [`Sink::failure`].
pub struct Sink {
    to: Option<Box<dyn Write + Send>>,
    failed: Option<std::io::Error>,
}

impl Sink {
    /// Returns a sink onto a stream.
    pub fn new(to: Box<dyn Write + Send>) -> Sink {
        Sink { to: Some(to), failed: None }
    }

    /// Writes and flushes; a stream that does not block is waited for.
    pub fn write(&mut self, bytes: &[u8]) {
        let Some(to) = &mut self.to else { return };
        if let Err(error) = write_patiently(to, bytes).and_then(|()| flush_patiently(to)) {
            self.to = None;
            self.failed = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
        }
    }

    /// Writes one line.
    pub fn line(&mut self, line: &str) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.write(&bytes);
    }

    /// Returns why something was not written, where no reader went away.
    pub fn failure(&self) -> Option<&std::io::Error> {
        self.failed.as_ref()
    }

    /// Returns it once, for what is not written again.
    pub fn take_failure(&mut self) -> Option<std::io::Error> {
        self.failed.take()
    }

    /// Tells whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        self.to.is_none()
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("closed", &self.is_closed()).finish()
    }
}

fn write_patiently(to: &mut dyn Write, mut bytes: &[u8]) -> std::io::Result<()> {
    let mut tries = 0;
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                tries = 0;
            }
            Err(error) => wait_or_fail(error, &mut tries)?,
        }
    }
    Ok(())
}

fn flush_patiently(to: &mut dyn Write) -> std::io::Result<()> {
    let mut tries = 0;
    loop {
        match to.flush() {
            Ok(()) => return Ok(()),
            Err(error) => wait_or_fail(error, &mut tries)?,
        }
    }
}

fn wait_or_fail(error: std::io::Error, tries: &mut u32) -> std::io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock if *tries < TRIES => {
            *tries += 1;
            std::thread::sleep(PAUSE);
            Ok(())
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Takes one byte at a time and says "full" before each.
    struct Narrow {
        taken: Arc<Mutex<Vec<u8>>>,
        full: bool,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.full = !self.full;
            if self.full {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.taken.lock().unwrap().push(bytes[0]);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_full_stream_loses_no_byte() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut sink = Sink::new(Box::new(Narrow { taken: taken.clone(), full: false }));
        sink.line("abc");
        assert_eq!(*taken.lock().unwrap(), b"abc\n");
        assert!(!sink.is_closed());
    }

    #[test]
    fn a_closed_stream_is_dropped_in_silence() {
        let mut sink = Sink::new(Box::new(Closed));
        sink.line("abc");
        assert!(sink.is_closed());
        sink.line("def");
    }
}
