//! Keeps the end of a server's standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How many lines are kept.
const LINES: usize = 20;

/// How much of a line is kept.
const LENGTH: usize = 300;

/// The last lines that say something; lines of information are not among them.
#[derive(Clone, Default)]
pub(super) struct Tail {
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Tail {
    /// Reads to the end, and keeps the last lines.
    pub(super) async fn follow(self, mut from: Box<dyn AsyncRead + Send + Unpin>) {
        let mut buffer = vec![0; 8 << 10];
        let mut line: Vec<u8> = Vec::new();
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            for byte in &buffer[..length] {
                match byte {
                    b'\n' => self.keep(&std::mem::take(&mut line)),
                    byte if line.len() < LENGTH * 4 => line.push(*byte),
                    _ => {}
                }
            }
        }
        self.keep(&line);
    }

    fn keep(&self, line: &[u8]) {
        let line = super::shown(&String::from_utf8_lossy(line), LENGTH);
        if line.is_empty() || is_information(&line) {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Returns the last lines.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns the last lines as part of a message; empty if there are none.
    pub(super) fn said(&self, most: usize) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<&str> = lines.iter().rev().take(most).map(String::as_str).collect();
        if last.is_empty() {
            return String::new();
        }
        format!("; it said: {}", last.into_iter().rev().collect::<Vec<_>>().join(" / "))
    }
}

/// Tells whether a line is of the level INFO or below, in the shapes that loggers write.
fn is_information(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    // The level is near the beginning: after a time, in brackets, or as a key.
    let head: String = line.chars().take(120).collect();
    let word = head
        .split(|c: char| !c.is_ascii_alphabetic())
        .find(|word| matches!(*word, "info" | "debug" | "trace" | "warn" | "warning" | "error" | "fatal" | "critical"));
    match word {
        Some("info" | "debug" | "trace") => {
            head.starts_with("info")
                || head.starts_with("debug")
                || head.starts_with("trace")
                || [
                    "[info",
                    "[debug",
                    "[trace",
                    " info ",
                    " info:",
                    " debug ",
                    " debug:",
                    "level=info",
                    "level=debug",
                    "\"info\"",
                    "\"debug\"",
                ]
                .iter()
                .any(|mark| head.contains(mark))
        }
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_information_are_left_out() {
        for line in [
            "INFO starting",
            "2026-01-01 12:00:00 INFO ready",
            "[INFO] x",
            r#"{"level":"info","msg":"x"}"#,
            "time=x level=info msg=y",
            "INFO:     Uvicorn running",
        ] {
            assert!(is_information(line), "{line}");
        }
        for line in ["ERROR no info", "Error: information is missing", "panic", "cannot read infofile", "WARN info: x"]
        {
            assert!(!is_information(line), "{line}");
        }
    }

    #[tokio::test]
    async fn only_the_last_lines_are_kept_and_none_is_long() {
        let tail = Tail::default();
        let mut text = "x".repeat(5_000_000).into_bytes();
        text.extend((0..100).flat_map(|n| format!("\nline {n}").into_bytes()));
        text.extend(b"\nlast \x1b[31m\xff");
        tail.clone().follow(Box::new(std::io::Cursor::new(text))).await;
        assert_eq!(tail.said(2), "; it said: line 99 / last \\u{1b}[31m\u{fffd}");
        assert_eq!(Tail::default().said(3), "");
    }
}
