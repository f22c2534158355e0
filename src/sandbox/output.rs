//! Captures what a command printed: its beginning and end in memory, and all of it in a file once it is long.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// How much of a stream is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputBounds {
    /// Bytes kept from the beginning.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
    /// The file that gets everything once head and tail overflow; `None` keeps no full copy.
    pub spill: Option<PathBuf>,
    /// Maximum bytes of that file.
    pub spill_most: u64,
}

impl Default for OutputBounds {
    fn default() -> OutputBounds {
        OutputBounds { head: 256 << 10, tail: 1 << 20, spill: None, spill_most: 256 << 20 }
    }
}

/// What was kept of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The beginning; all of it if it was short.
    pub head: Vec<u8>,
    /// The end, if there is more than the beginning.
    pub tail: Vec<u8>,
    /// Bytes between the two that are not in memory.
    pub missing: u64,
    /// Total bytes.
    pub bytes: u64,
    /// Total line ends.
    pub lines: u64,
    /// The full copy, if there is one.
    pub full: Option<PathBuf>,
    /// Whether the full copy is incomplete, because of its limit or a disk failure.
    pub full_is_cut: bool,
}

impl Captured {
    /// Tells whether all of it is in memory.
    #[cfg(test)]
    pub fn is_whole(&self) -> bool {
        self.missing == 0
    }

    /// Returns what is in memory, with a line between the parts that says how much is missing.
    pub fn text(&self) -> Vec<u8> {
        let gap = match self.missing {
            0 => String::new(),
            missing => format!("\n... [{missing} bytes left out] ...\n"),
        };
        [&self.head[..], gap.as_bytes(), &self.tail].concat()
    }
}

/// Reads a stream in chunks and keeps within the limits.
pub(super) struct Capture {
    bounds: OutputBounds,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    lines: u64,
    spill: Option<File>,
    spilled: u64,
    cut: bool,
}

impl Capture {
    pub(super) fn new(bounds: OutputBounds) -> Capture {
        Capture {
            bounds,
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            lines: 0,
            spill: None,
            spilled: 0,
            cut: false,
        }
    }

    pub(super) fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        if self.spill.is_none() && !self.cut && self.bytes > (self.bounds.head + self.bounds.tail) as u64 {
            self.begin_spilling();
        }
        self.write(piece);
        let room = self.bounds.head.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..room]);
        let rest = &piece[room..];
        self.tail.extend(&rest[rest.len().saturating_sub(self.bounds.tail)..]);
        let surplus = self.tail.len().saturating_sub(self.bounds.tail);
        self.tail.drain(..surplus);
    }

    pub(super) fn finish(self) -> Captured {
        let kept = (self.head.len() + self.tail.len()) as u64;
        Captured {
            head: self.head,
            tail: self.tail.into(),
            missing: self.bytes - kept,
            bytes: self.bytes,
            lines: self.lines,
            full: self.spill.and(self.bounds.spill),
            full_is_cut: self.cut,
        }
    }

    fn begin_spilling(&mut self) {
        let Some(path) = &self.bounds.spill else { return };
        let so_far = [&self.head[..], self.tail.make_contiguous()].concat();
        match create_private(path) {
            Ok(file) => self.spill = Some(file),
            Err(_) => self.cut = true,
        }
        self.write(&so_far);
    }

    fn write(&mut self, piece: &[u8]) {
        let Some(file) = self.spill.as_mut().filter(|_| !self.cut) else { return };
        let room = usize::try_from(self.bounds.spill_most.saturating_sub(self.spilled)).unwrap_or(usize::MAX);
        let piece = if room < piece.len() { &piece[..room] } else { piece };
        self.cut = file.write_all(piece).is_err() || room == piece.len();
        self.spilled += piece.len() as u64;
    }
}

/// Creates a private file; one that already exists is an error.
fn create_private(path: &std::path::Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(bounds: &OutputBounds, text: &[u8], step: usize) -> Captured {
        let mut capture = Capture::new(bounds.clone());
        text.chunks(step).for_each(|piece| capture.take(piece));
        capture.finish()
    }

    #[test]
    fn any_split_of_a_stream_is_kept_alike_and_the_file_has_all_of_it() {
        let text: Vec<u8> = (0..100u8).map(|n| if n % 10 == 9 { b'\n' } else { b'a' + n % 10 }).collect();
        let folder = tempfile::tempdir().unwrap();
        for step in [1, 3, 7, 30, 100] {
            let spill = folder.path().join(step.to_string());
            let bounds = OutputBounds { head: 10, tail: 20, spill: Some(spill.clone()), spill_most: 1000 };
            let got = capture(&bounds, &text, step);
            assert_eq!((&got.head[..], &got.tail[..]), (&text[..10], &text[80..]));
            assert_eq!((got.missing, got.bytes, got.lines, got.full_is_cut), (70, 100, 10, false));
            assert_eq!(std::fs::read(got.full.unwrap()).unwrap(), text, "in pieces of {step}");
        }
    }

    #[test]
    fn a_short_stream_is_whole_and_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let spill = folder.path().join("full");
        let got =
            capture(&OutputBounds { head: 4, tail: 4, spill: Some(spill.clone()), spill_most: 9 }, b"12345678", 3);
        assert!(got.is_whole() && got.full.is_none() && !spill.exists());
        assert_eq!(got.text(), b"12345678");
    }

    #[test]
    fn the_file_is_bounded_and_says_that_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Some(folder.path().join("full"));
        let got = capture(&OutputBounds { head: 1, tail: 1, spill, spill_most: 5 }, b"1234567890", 4);
        assert!(got.full_is_cut);
        assert_eq!(std::fs::read(got.full.unwrap()).unwrap(), b"12345");
        assert_eq!(got.bytes, 10);
    }
}
