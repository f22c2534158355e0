//! Remembers the files that the run read and wrote, to notice when somebody else changes one or a text loses something.

use sha2::{Digest, Sha256};

use super::names;
use crate::change::text::Decoded;
use crate::change::{ChangeSet, Entry, alike, loss, syntax};
use crate::path::RelPath;
use crate::tools::{RunMemory, ToolContext};
use crate::workspace::disk::Disk;

/// Returns the hash by which a file's contents are remembered.
pub fn hash(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

/// Remembers a file as the model saw it.
pub fn saw(memory: &RunMemory, path: &RelPath, content: &[u8]) {
    saw_hash(memory, path, hash(content));
}

/// As [`saw`], with the hash at hand.
pub fn saw_hash(memory: &RunMemory, path: &RelPath, hash: [u8; 32]) {
    memory.seen.lock().expect("nothing panics while it holds the map").insert(path.clone(), hash);
}

/// Tells whether the model read or wrote this file in this run.
pub fn has_seen(memory: &RunMemory, path: &RelPath) -> bool {
    memory.seen.lock().expect("nothing panics while it holds the map").contains_key(path)
}

/// Remembers that a file with a text was written as a whole.
pub(crate) fn rewrote(memory: &RunMemory, path: &RelPath) {
    memory.rewritten.lock().expect("nothing panics while it holds the set").insert(path.clone());
}

/// Returns the files among `changes` that were written as a whole, each with its text before and after.
fn rewritten(cx: &ToolContext<'_>, changes: &ChangeSet) -> Vec<(RelPath, Decoded, Decoded)> {
    let rewritten = cx.memory.rewritten.lock().expect("nothing panics while it holds the set");
    changed(changes).filter(|(path, _, _)| rewritten.contains(path)).collect()
}

/// Returns the question about what the files that were written as a whole lost, beyond what the task names.
pub fn question_of_loss(cx: &ToolContext<'_>, task: &str) -> Option<String> {
    let files = rewritten(cx, &cx.workspace.changes());
    let texts = files.iter().map(|(path, before, after)| (names::relative(path), &*before.text, &*after.text));
    loss::question(texts, task)
}

/// Returns what the files that were written as a whole become with the lost lines back in their places.
pub(crate) fn restored(cx: &ToolContext<'_>, task: &str) -> Vec<(RelPath, Entry)> {
    let changes = cx.workspace.changes();
    let back = rewritten(cx, &changes).into_iter().filter_map(|(path, before, after)| {
        let text = loss::restored(&names::relative(&path), &before.text, &after.text, task)?;
        with_text(&changes, path, &after, &text)
    });
    back.collect()
}

/// Returns the changed texts, each with its text before and after.
fn changed(changes: &ChangeSet) -> impl Iterator<Item = (RelPath, Decoded, Decoded)> {
    let text = |entry: &Entry| Decoded::from_bytes(entry.content()?);
    changes.iter().filter_map(move |(path, change)| Some((path.clone(), text(&change.before)?, text(&change.after)?)))
}

/// Returns the question about lines that are like removed ones, where a task asks to remove all of them.
pub(crate) fn question_of_rest(cx: &ToolContext<'_>, task: &str) -> Option<String> {
    let files: Vec<_> = changed(&cx.workspace.changes()).filter(|_| alike::removes_all(task)).collect();
    alike::question(files.iter().map(|(path, before, after)| (names::relative(path), &*before.text, &*after.text)))
}

/// Returns what the changed files become without the lines of [`question_of_rest`].
pub(crate) fn without_rest(cx: &ToolContext<'_>) -> Vec<(RelPath, Entry)> {
    let changes = cx.workspace.changes();
    let files = changed(&changes).filter_map(|(path, before, after)| {
        let text = alike::without_left(&before.text, &after.text);
        if text == after.text { None } else { with_text(&changes, path, &after, &text) }
    });
    files.collect()
}

/// Returns a changed file with another text.
fn with_text(changes: &ChangeSet, path: RelPath, file: &Decoded, text: &str) -> Option<(RelPath, Entry)> {
    let Entry::File { executable, .. } = changes.get(&path)?.after else { return None };
    Some((path, Entry::File { content: file.encode(text).ok()?.into(), executable }))
}

/// Tells, once for a file, that a text for it keeps no line of the file: the model confirms that by a second call.
pub(crate) fn must_confirm(memory: &RunMemory, path: &RelPath, before: &str, after: &str) -> bool {
    let mut kept = after.lines().map(str::trim).filter(|line| !line.is_empty());
    let written: Vec<&str> = before.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    written.len() > 1
        && !kept.any(|line| written.contains(&line))
        && memory.questioned.lock().expect("nothing panics while it holds the set").insert(path.clone())
}

/// Returns what a tool adds to its answer where a new text cannot be read and the text before it could; else nothing.
pub(crate) fn fault(path: &RelPath, before: Option<&str>, after: &str) -> String {
    match (syntax::broken(&names::relative(path), before, after), before) {
        (None, _) => String::new(),
        (Some(fault), None) => format!("\nIt does not parse: {fault}. Correct it."),
        (Some(fault), Some(_)) => format!("\nThis change broke the file, which parsed before: {fault}. Correct it."),
    }
}

/// Tells whether somebody else changed the file on the disk since this run read it.
///
/// A file that the run has changed itself is compared with what it was at first, and with what it is to become.
pub(crate) fn changed_on_disk(cx: &ToolContext<'_>, path: &RelPath) -> bool {
    let Ok(disk) = Disk.entry(&path.under(cx.workspace.root())) else { return true };
    match cx.workspace.changes().get(path) {
        Some(change) => {
            // The delivery decides about the mode.
            let same = |entry: &Entry| entry.content() == disk.content();
            !same(&change.before) && !same(&change.after)
        }
        None => {
            let seen = cx.memory.seen.lock().expect("nothing panics while it holds the map");
            seen.get(path).is_some_and(|seen| disk.content().is_none_or(|content| hash(content) != *seen))
        }
    }
}
