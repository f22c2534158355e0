//! Lists the hunks of a proposed change.

use serde::Serialize;

use crate::change::patch_reader::{Body, Patch};
use crate::change::selection::{Numbered, numbered};
use crate::emit::safe::one_line;
use crate::emit::words;
use crate::path::RelPath;

/// A hunk as `qwen apply --list` shows it.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    /// The number that `--hunks` takes.
    number: usize,
    /// The file, relative to the workspace.
    path: String,
    /// First and last line, counted from 1, after the change or of a deleted file before it; `None` without lines.
    lines: Option<(usize, usize)>,
    added: u64,
    removed: u64,
    /// How many runs of changed lines can be chosen alone, as `NUMBER.1` and so on; 1 if it cannot be divided.
    runs: usize,
}

/// Returns the hunks of a patch whose names begin with the workspace's directory in its repository.
pub(super) fn hunks(patch: &Patch, prefix: &RelPath) -> Vec<Listed> {
    numbered(patch).iter().map(|hunk| listed(patch, hunk, prefix)).collect()
}

fn listed(patch: &Patch, numbered: &Numbered, prefix: &RelPath) -> Listed {
    let name = numbered.path(patch).cloned().unwrap_or_default();
    let path = name.as_path().strip_prefix(prefix.as_path()).unwrap_or(name.as_path());
    let hunks = numbered.hunks(patch);
    let (mut added, mut removed) = (0, 0);
    for run in hunks.iter().flat_map(|hunk| &hunk.runs) {
        (added, removed) = (added + run.new.len() as u64, removed + run.old.len() as u64);
    }
    let spans: Vec<(usize, usize)> = hunks
        .iter()
        .map(|hunk| match hunk.new.len() {
            0 => (hunk.start + 1, hunk.start + hunk.old.len()),
            length => (hunk.new_start + 1, hunk.new_start + length),
        })
        .collect();
    Listed {
        number: numbered.number,
        path: path.to_string_lossy().into_owned(),
        lines: spans.first().zip(spans.last()).map(|(first, last)| (first.0, last.1)),
        added,
        removed,
        runs: match (&patch.files[numbered.file].body, numbered.hunk, hunks) {
            (Body::Text(_), Some(_), [hunk]) => hunk.runs.len(),
            _ => 1,
        },
    }
}

/// Writes one hunk a line: number, file, lines, and what it adds and removes.
pub(super) fn text(hunks: &[Listed]) -> String {
    let number = hunks.len().to_string().len();
    let path = hunks.iter().map(|hunk| one_line(&hunk.path).chars().count()).max().unwrap_or(0);
    let line = |hunk: &Listed| {
        let lines = match hunk.lines {
            Some((first, last)) if first == last => format!("line {first}"),
            Some((first, last)) => format!("lines {first}-{last}"),
            None => "no lines".to_owned(),
        };
        let mut text = format!("{:>number$}  {:<path$}  {lines}", hunk.number, one_line(&hunk.path));
        for part in [words::lines(hunk.added, hunk.removed)].into_iter().filter(|part| !part.is_empty()) {
            text.push_str(&format!("  {part}"));
        }
        if hunk.runs > 1 {
            text.push_str(&format!("  parts {n}.1-{n}.{}", hunk.runs, n = hunk.number));
        }
        text + "\n"
    };
    hunks.iter().map(line).collect()
}
