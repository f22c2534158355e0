//! Writes what a command prints so that a CI system that reads along obeys none of its lines.

use std::io::{self, Write};

use super::safe::{break_hash_commands, ci_line};

/// A writer that passes lines on as [`ci_line`] has them. A line of JSON keeps its meaning.
pub struct CiLines<W> {
    inner: W,
    /// The line that is not complete.
    line: Vec<u8>,
}

impl<W: Write> CiLines<W> {
    /// Wraps a writer.
    pub fn new(inner: W) -> CiLines<W> {
        CiLines { inner, line: Vec::new() }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let is_plain = !line.windows(2).any(|pair| pair == b"::" || pair == b"##");
        let Some(text) = std::str::from_utf8(&line).ok().filter(|_| !is_plain) else {
            return self.inner.write_all(&line);
        };
        let is_json = text.trim_start().starts_with(['{', '[', '"']);
        let safe = if is_json { break_hash_commands(text, "#\\u0023") } else { ci_line(text) };
        self.inner.write_all(safe.as_bytes())
    }
}

impl<W: Write> Write for CiLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.pass_on()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_a_command_however_it_is_written() {
        let mut out = Vec::new();
        let mut lines = CiLines::new(&mut out);
        for part in
            ["error: a\n:", ":set-output name=a::b\n", "  ::stop\n", "x ##[group]y\n", "{\"a\": \"##[x]\"}\n", "::end"]
        {
            lines.write_all(part.as_bytes()).unwrap();
        }
        lines.flush().unwrap();
        drop(lines);
        let text = String::from_utf8(out).unwrap();
        let expected = [
            "error: a",
            "| ::set-output name=a::b",
            "|   ::stop",
            "x ## [group]y",
            r##"{"a": "#\u0023[x]"}"##,
            "| ::end",
        ];
        assert_eq!(text, expected.join("\n"));
    }
}
