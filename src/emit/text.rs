//! Prints the answer and the patch as text.

use std::borrow::Cow;

use base64::Engine as _;
use serde_json::Value;

use super::appearance::Appearance;
use super::diagnostics::diagnostics;
use super::findings::Findings;
use super::prose::prose;
use super::safe::{ci_text, escape, not_a_patch, one_line};
use super::shown_diff::shown_diff;
use crate::event::{ChangesReport, RunFinished};

/// Where the text goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reader {
    /// A person's terminal.
    pub(super) terminal: Option<Appearance>,
    /// The log of a CI system, which obeys some lines.
    pub(super) ci: bool,
}

/// The command that shows all of a long change, if the run is kept.
pub(super) type Whole<'a> = Option<&'a str>;

/// Returns what `text` prints: the answer, and what a dry run would change.
///
/// A structured answer is alone, so that whoever asked for JSON can read all of it as JSON; a person gets findings as
/// compilers show theirs.
pub(super) fn answer(end: &RunFinished, mode: &str, findings: &Findings, reader: Reader, whole: Whole<'_>) -> Vec<u8> {
    if let Some(value) = &end.structured {
        let is_whole = |coverage: &&Value| coverage["looked_at"] == coverage["files"] && coverage["complete"] == true;
        let all = value.get("coverage").filter(|coverage| findings.all.is_empty() || !is_whole(coverage));
        let coverage = all.and_then(|_| end.result.lines().last());
        return match reader.terminal.filter(|_| !findings.all.is_empty() || coverage.is_some()) {
            Some(look) => {
                let covered = coverage.map(|line| look.wrap(&one_line(line), look.width).join("\n") + "\n");
                (diagnostics(findings, end.dropped.values().sum(), &look) + &covered.unwrap_or_default()).into_bytes()
            }
            None => format!("{}\n", super::to_pretty(value).trim_end()).into_bytes(),
        };
    }
    let mut text = Vec::new();
    if !end.result.is_empty() {
        let safe = match reader.terminal {
            Some(look) => Cow::Owned(prose(&end.result, &look)),
            None => Cow::Owned(not_a_patch(&escape(&end.result)).into_owned()),
        };
        let safe = if reader.ci { ci_text(&safe) } else { safe };
        text.extend_from_slice(safe.as_bytes());
        if !safe.ends_with('\n') {
            text.push(b'\n');
        }
    }
    let patch = patch_bytes(&end.changes);
    if mode == "dry-run" && !patch.is_empty() {
        if !text.is_empty() || reader.terminal.is_none() {
            text.push(b'\n');
        }
        text.extend_from_slice(&shown_patch(&patch, end, reader, whole));
    }
    text
}

/// Returns what `patch` prints: the bytes for `git apply`, and for a terminal a text that cannot act on it.
pub(super) fn patch(end: &RunFinished, reader: Reader, whole: Whole<'_>) -> Vec<u8> {
    let patch = patch_bytes(&end.changes);
    if reader.terminal.is_some() {
        shown_patch(&patch, end, Reader { ci: false, ..reader }, whole)
    } else {
        patch.into_owned()
    }
}

/// Returns the bytes of the patch; empty without changes.
pub fn patch_bytes(changes: &ChangesReport) -> Cow<'_, [u8]> {
    match (&changes.patch, &changes.patch_base64) {
        (Some(patch), _) => Cow::Borrowed(patch.as_bytes()),
        (None, Some(encoded)) => {
            Cow::Owned(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default())
        }
        (None, None) => Cow::Borrowed(&[]),
    }
}

fn shown_patch(patch: &[u8], end: &RunFinished, reader: Reader, whole: Whole<'_>) -> Vec<u8> {
    let text = match reader.terminal {
        Some(look) => shown_diff(patch, &end.changes.files, whole, &look),
        None if reader.ci => escape(&String::from_utf8_lossy(patch)).into_owned(),
        None => return patch.to_vec(),
    };
    if reader.ci { ci_text(&text).into_owned().into_bytes() } else { text.into_bytes() }
}
