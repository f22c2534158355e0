//! Reads standard input, with limits on its size and on the wait for its first byte.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::sync::mpsc;

/// The most that is read.
pub const CAP: usize = 8 << 20;

/// How long the first byte is waited for.
pub const FIRST_BYTE: Duration = Duration::from_secs(3);

/// What standard input held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandardInput {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// What its owner should know: cut, not UTF-8, or nothing came.
    pub warnings: Vec<String>,
}

/// Reads standard input up to `cap` bytes. Who sends nothing within `first_byte` is not waited for, with a warning.
///
/// A reader that is itself blocking (a thread behind it) must not keep the process from ending: that is the caller's.
pub async fn read_standard_input<R: AsyncRead + Unpin>(
    mut reader: R,
    cap: usize,
    first_byte: Duration,
) -> io::Result<StandardInput> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    let mut warnings = Vec::new();
    let first = match tokio::time::timeout(first_byte, reader.read(&mut chunk)).await {
        Ok(first) => first?,
        Err(_) => {
            warnings.push(format!(
                "standard input is open but sent nothing for {} s; continuing without it (give --no-stdin or \
                 </dev/null to skip the wait)",
                first_byte.as_secs()
            ));
            return Ok(StandardInput { text: String::new(), warnings });
        }
    };
    let mut read = first;
    while read > 0 {
        bytes.extend_from_slice(&chunk[..read]);
        // One byte more than the cap tells "exactly full" from "cut".
        if bytes.len() > cap {
            break;
        }
        read = reader.read(&mut chunk).await?;
    }
    if bytes.len() > cap {
        let mut end = cap;
        // Not in the middle of a character.
        while end > 0 && bytes[end] & 0b1100_0000 == 0b1000_0000 {
            end -= 1;
        }
        bytes.truncate(end);
        warnings.push(format!("standard input is longer than {cap} bytes; the rest was cut"));
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            warnings.push(format!(
                "standard input is not UTF-8 (first at byte {}); such bytes were replaced",
                error.utf8_error().valid_up_to()
            ));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
    };
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok(StandardInput { text, warnings })
}

/// The process's standard input. A thread reads it; where the system grants none, whoever waits for it reads it and
/// serves nothing else meanwhile.
pub struct ProcessInput {
    /// What the thread has read; `None` without a thread.
    pieces: Option<mpsc::Receiver<io::Result<Vec<u8>>>>,
    /// What is left of the last piece.
    rest: Vec<u8>,
}

impl ProcessInput {
    /// Begins to read.
    pub fn open() -> ProcessInput {
        let (sender, pieces) = mpsc::channel(1);
        let read = move || {
            loop {
                let piece = next_piece();
                let ends = piece.as_ref().map_or(true, Vec::is_empty);
                if sender.blocking_send(piece).is_err() || ends {
                    break;
                }
            }
        };
        let started = std::thread::Builder::new().name("input".to_owned()).spawn(read);
        ProcessInput { pieces: started.is_ok().then_some(pieces), rest: Vec::new() }
    }
}

/// Reads what there is; nothing at the end.
fn next_piece() -> io::Result<Vec<u8>> {
    let mut piece = vec![0; 64 * 1024];
    let read = io::stdin().lock().read(&mut piece)?;
    piece.truncate(read);
    Ok(piece)
}

impl AsyncRead for ProcessInput {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            self.rest = match &mut self.pieces {
                Some(pieces) => ready!(pieces.poll_recv(context)).transpose()?.unwrap_or_default(),
                None => next_piece()?,
            };
        }
        let taken = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest[..taken]);
        self.rest.drain(..taken);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn text_is_read_whole_and_cut_at_the_cap_between_characters() {
        run(async {
            let whole = read_standard_input("äbc".as_bytes(), 4, FIRST_BYTE).await.unwrap();
            assert_eq!((whole.text.as_str(), whole.warnings.len()), ("äbc", 0));
            let cut = read_standard_input("abcä".as_bytes(), 4, FIRST_BYTE).await.unwrap();
            assert_eq!(cut.text, "abc");
            assert!(cut.warnings[0].contains("4 bytes"));
        });
    }

    #[test]
    fn who_sends_nothing_is_not_waited_for() {
        run(async {
            let (_writer, reader) = tokio::io::duplex(8);
            let input = read_standard_input(reader, CAP, Duration::ZERO).await.unwrap();
            assert_eq!(input.text, "");
            assert!(input.warnings[0].contains("--no-stdin"));
        });
    }

    #[test]
    fn who_sent_a_byte_is_read_to_the_end() {
        run(async {
            let (mut writer, reader) = tokio::io::duplex(8);
            writer.write_all(b"ab").await.unwrap();
            drop(writer);
            assert_eq!(read_standard_input(reader, CAP, FIRST_BYTE).await.unwrap().text, "ab");
        });
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_said() {
        run(async {
            let input = read_standard_input(b"a\xffb".as_slice(), CAP, FIRST_BYTE).await.unwrap();
            assert_eq!(input.text, "a\u{fffd}b");
            assert!(input.warnings[0].contains("byte 1"));
        });
    }
}
