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

/// As [`saw`], with the hash at hand. What was wrong with other contents is forgotten.
pub fn saw_hash(memory: &RunMemory, path: &RelPath, hash: [u8; 32]) {
    let before = memory.seen.lock().expect("nothing panics while it holds the map").insert(path.clone(), hash);
    if before.is_some_and(|before| before != hash) {
        note_fault(memory, path, None);
    }
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

/// Bytes of a file that is written anew by an answer in one word.
const ANSWERED_BYTES: usize = 8_000;

/// Bytes of a file up to which a question is asked about its lines.
pub(crate) const ASKED_BYTES: usize = 256 * 1024;

/// Hides secrets in a text.
type Mask<'m> = &'m dyn Fn(String) -> String;

/// Returns the question about what the files that were written as a whole lost, beyond what the task names. Secrets are
/// hidden before lines are picked: a line of a private key does not look like one.
pub(crate) fn question_of_loss(cx: &ToolContext<'_>, task: &str, mask: Mask<'_>) -> Option<String> {
    let files = rewritten(cx, &cx.workspace.changes()).into_iter().filter(is_asked);
    let files: Vec<_> = files.map(|(path, before, after)| (path, mask(before.text), mask(after.text))).collect();
    let named = |path: &RelPath| mask(names::relative(path));
    loss::question(files.iter().map(|(path, before, after)| (named(path), &**before, &**after)), task)
}

/// Returns what the files that were written as a whole become with the lost lines back in their places.
pub(crate) fn restored(cx: &ToolContext<'_>, task: &str) -> Vec<(RelPath, String)> {
    let files = rewritten(cx, &cx.workspace.changes()).into_iter();
    let back = files.filter(is_asked).filter(|(_, before, after)| before.encoding == after.encoding);
    let back = back.filter_map(|(path, before, after)| {
        let text = loss::restored(&names::relative(&path), &before.text, &after.text, task)?;
        Some((path, text)).filter(|(_, text)| text.len() <= ANSWERED_BYTES)
    });
    back.collect()
}

fn is_asked((_, before, after): &(RelPath, Decoded, Decoded)) -> bool {
    before.text.len().max(after.text.len()) <= ASKED_BYTES
}

/// Returns the changed texts, each with its text before and after.
fn changed(changes: &ChangeSet) -> impl Iterator<Item = (RelPath, Decoded, Decoded)> {
    let text = |entry: &Entry| Decoded::from_bytes(entry.content()?);
    changes.iter().filter_map(move |(path, change)| Some((path.clone(), text(&change.before)?, text(&change.after)?)))
}

/// Returns the files with lines that are like removed ones, where a task asks to remove all of them. Files with a secret
/// are left to the model.
fn with_rest(cx: &ToolContext<'_>, task: &str, mask: Mask<'_>) -> Vec<(RelPath, Decoded, Decoded)> {
    if !alike::removes_all(task) {
        return Vec::new();
    }
    let changes = cx.workspace.changes();
    let small =
        changed(&changes).filter(|(_, before, after)| before.text.len().max(after.text.len()) <= ANSWERED_BYTES);
    small.filter(|(_, before, after)| [before, after].iter().all(|file| mask(file.text.clone()) == file.text)).collect()
}

/// Returns the question about lines that are like removed ones, where a task asks to remove all of them.
pub(crate) fn question_of_rest(cx: &ToolContext<'_>, task: &str, mask: Mask<'_>) -> Option<String> {
    let files = with_rest(cx, task, mask);
    alike::question(
        files.iter().map(|(path, before, after)| (mask(names::relative(path)), &*before.text, &*after.text)),
        task,
    )
}

/// Returns what the changed files become without the lines of [`question_of_rest`].
pub(crate) fn without_rest(cx: &ToolContext<'_>, task: &str, mask: Mask<'_>) -> Vec<(RelPath, String)> {
    let files = with_rest(cx, task, mask).into_iter().filter_map(|(path, before, after)| {
        let text = alike::without_left(&before.text, &after.text, task);
        (text != after.text).then_some((path, text))
    });
    files.collect()
}

/// Tells, once for a file, that a text for it keeps no line of the file: the model confirms that by a second call.
pub(crate) fn must_confirm(memory: &RunMemory, path: &RelPath, before: &str, after: &str) -> bool {
    let mut kept = after.lines().map(str::trim).filter(|line| !line.is_empty());
    let written: Vec<&str> = before.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    written.len() > 1 && !kept.any(|line| written.contains(&line)) && is_first_question(memory, path)
}

/// Tells, once for a file, that the model may be asked about a call that writes it.
pub(crate) fn is_first_question(memory: &RunMemory, path: &RelPath) -> bool {
    memory.questioned.lock().expect("nothing panics while it holds the set").insert(path.clone())
}

/// Returns what a tool adds to its answer where a new text cannot be read and the text before it could; else nothing. It is
/// remembered until a call mends the file.
pub(crate) fn fault(memory: &RunMemory, path: &RelPath, before: Option<&str>, after: &str) -> String {
    let found = syntax::broken(&names::relative(path), before, after);
    let said = found.map(|fault| match before {
        None => format!("It does not parse: {fault}."),
        Some(_) => format!("This change broke the file, which parsed before: {fault}."),
    });
    note_fault(memory, path, said.clone());
    said.map_or_else(String::new, |said| format!("\n{said} Correct it."))
}

/// Remembers what is wrong with a file, or that nothing is.
pub(crate) fn note_fault(memory: &RunMemory, path: &RelPath, fault: Option<String>) {
    let mut broken = memory.broken.lock().expect("nothing panics while it holds the map");
    match fault {
        Some(fault) => broken.insert(path.clone(), fault),
        None => broken.remove(path),
    };
}

/// Tells whether a file is remembered as broken.
pub(crate) fn is_broken(memory: &RunMemory, path: &RelPath) -> bool {
    memory.broken.lock().expect("nothing panics while it holds the map").contains_key(path)
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
