//! Prints the answer and the patch as text.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use base64::Engine as _;

use super::safe::{ci_text, escape, not_a_patch};
use crate::event::{ChangesReport, RunFinished};

/// Where the text goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reader {
    /// A person's terminal.
    pub(super) terminal: bool,
    /// The log of a CI system, which obeys some lines.
    pub(super) ci: bool,
    /// Whether to use colours.
    pub(super) colour: bool,
}

/// Returns what `text` prints: the answer, and what a dry run would change.
///
/// A structured answer is alone, so that whoever asked for JSON can read all of it as JSON.
pub(super) fn answer(end: &RunFinished, mode: &str, reader: Reader) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(value) = &end.structured {
        text.extend_from_slice(super::to_pretty(value).trim_end().as_bytes());
        text.push(b'\n');
        return text;
    }
    if !end.result.is_empty() {
        let safe = escape(&end.result);
        let safe = not_a_patch(&safe);
        let safe = if reader.ci { ci_text(&safe) } else { safe.as_ref().into() };
        text.extend_from_slice(safe.as_bytes());
        if !safe.ends_with('\n') {
            text.push(b'\n');
        }
    }
    let patch = patch_bytes(&end.changes);
    if mode == "dry-run" && !patch.is_empty() {
        text.push(b'\n');
        text.extend_from_slice(&shown_patch(&patch, reader));
    }
    text
}

/// Returns what `patch` prints: the bytes for `git apply`, and for a terminal a text that cannot act on it.
pub(super) fn patch(changes: &ChangesReport, reader: Reader) -> Vec<u8> {
    let patch = patch_bytes(changes).into_owned();
    if reader.terminal { shown_patch(&patch, Reader { ci: false, ..reader }) } else { patch }
}

/// Returns the bytes of the patch; empty without changes.
pub(super) fn patch_bytes(changes: &ChangesReport) -> Cow<'_, [u8]> {
    match (&changes.patch, &changes.patch_base64) {
        (Some(patch), _) => Cow::Borrowed(patch.as_bytes()),
        (None, Some(encoded)) => {
            Cow::Owned(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default())
        }
        (None, None) => Cow::Borrowed(&[]),
    }
}

fn shown_patch(patch: &[u8], reader: Reader) -> Vec<u8> {
    if !reader.terminal && !reader.ci {
        return patch.to_vec();
    }
    let text = String::from_utf8_lossy(patch);
    let text = escape(&text);
    let text = if reader.ci { ci_text(&text) } else { text.as_ref().into() };
    if !reader.colour {
        return text.as_bytes().to_vec();
    }
    let mut coloured = String::with_capacity(text.len() * 2);
    for line in text.split_inclusive('\n') {
        let style = style_of(line);
        let bare = line.trim_end_matches('\n');
        coloured.push_str(&format!("{style}{bare}{style:#}{}", &line[bare.len()..]));
    }
    coloured.into_bytes()
}

fn style_of(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') if !line.starts_with("+++ ") => AnsiColor::Green.on_default(),
        Some(b'-') if !line.starts_with("--- ") => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        Some(b'd' | b'+' | b'-') => Style::new().bold(),
        Some(_) | None => Style::new(),
    }
}
