//! Applies patches: exactly or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::binary;
use super::change_set::{ChangeSet, Entry};
use super::diff::lines;
use super::patch::ObjectFormat;
use crate::path::RelPath;

/// Why a patch cannot be read, or does not fit the files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The text is not a patch.
    #[error("patch line {line}: {reason}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The patch is for other contents than those that are there.
    #[error("{path}: the patch does not apply: {reason}")]
    Mismatch {
        /// The file, relative to the repository.
        path: RelPath,
        /// What differs.
        reason: String,
    },
}

/// A patch as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// In the order of the text.
    pub files: Vec<FilePatch>,
}

/// What a patch does with one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathAccess {
    /// The contents are carried to another path: the source of a copy or a rename.
    Read(RelPath),
    /// The file is made, changed or removed.
    Write(RelPath),
}

/// The part of a patch about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch {
    /// The name before; `None` if the file is new.
    pub old: Option<RelPath>,
    /// The name after; `None` if the file is deleted.
    pub new: Option<RelPath>,
    /// A further name in the header of a plain diff, which is neither read nor written: one that is for another file.
    pub also_named: Option<RelPath>,
    /// Git's mode before, where the patch names it.
    pub old_mode: Option<String>,
    /// Git's mode after, where the patch names it.
    pub new_mode: Option<String>,
    /// The old file stays (a copy).
    pub keeps_old: bool,
    /// The full name of the old content's object, where the patch has it.
    pub old_object: Option<String>,
    /// It comes from a plain diff, without a header of git.
    pub is_plain: bool,
    /// What becomes of the content.
    pub body: Body,
}

/// What becomes of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// It stays.
    Same,
    /// Lines change.
    Text(Vec<Hunk>),
    /// It is replaced.
    Literal(Vec<u8>),
    /// It is replaced by copies of the old one and insertions.
    Delta(Vec<u8>),
}

/// A run of lines that change, with context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// First line of the old content, counted from 0.
    pub start: usize,
    /// First line of the new content, counted from 0.
    pub new_start: usize,
    /// Whether the header says that it is at the beginning of the old content.
    pub from_beginning: bool,
    /// Whether its last line is one that changes: then it is at the end of the content.
    pub to_end: bool,
    /// The old lines, each with its `\n` unless it had none.
    pub old: Vec<Vec<u8>>,
    /// The new lines.
    pub new: Vec<Vec<u8>>,
    /// The lines that change, in order; between and around them are lines of context.
    pub runs: Vec<ChangedLines>,
}

/// Lines of a hunk that change together: no line of context is between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedLines {
    /// Where they are in [`Hunk::old`].
    pub old: Range<usize>,
    /// Where they are in [`Hunk::new`].
    pub new: Range<usize>,
}

impl Patch {
    /// Returns every path that the patch reads from or writes to, in the order of the text. A name that only a header
    /// has counts as read: who writes it means the file.
    pub fn accesses(&self) -> Vec<PathAccess> {
        let mut accesses = Vec::new();
        for file in &self.files {
            accesses.extend(file.old.clone().filter(|_| file.takes_from_elsewhere()).map(PathAccess::Read));
            accesses.extend(file.leaves().cloned().map(PathAccess::Write));
            accesses.extend(file.also_named.clone().map(PathAccess::Read));
            accesses.extend(file.new.clone().map(PathAccess::Write));
        }
        accesses
    }

    /// Applies the patch to what `look` finds, exactly at the lines it names, and returns the changes.
    ///
    /// Nothing is written: either every file fits, or there is no change set.
    pub fn apply(
        &self,
        look: &dyn Fn(&RelPath) -> Result<Entry, PatchError>,
        format: ObjectFormat,
    ) -> Result<ChangeSet, PatchError> {
        let settle = |file: &FilePatch, before: &Entry, _: First| file.exactly(before, format);
        let there = |file: &FilePatch, _: &Entry, _: &Entry| Err(file.mismatch("it already exists"));
        self.apply_by(look, &settle, &there).map_err(|mut refused| refused.swap_remove(0))
    }

    /// Applies the patch file by file as `settle` says, and returns the changes, or what is wrong with each file.
    ///
    /// `there` is asked where a file is to be made and one is there: with what is there and what is to be.
    pub fn apply_by(
        &self,
        look: &dyn Fn(&RelPath) -> Result<Entry, PatchError>,
        settle: &dyn Fn(&FilePatch, &Entry, First) -> Result<Entry, PatchError>,
        there: &dyn Fn(&FilePatch, &Entry, &Entry) -> Result<(), PatchError>,
    ) -> Result<ChangeSet, Vec<PatchError>> {
        let mut seen: BTreeMap<RelPath, Entry> = BTreeMap::new();
        let mut first = |path: &RelPath| -> Result<Entry, PatchError> {
            if let Some(known) = seen.get(path) {
                return Ok(known.clone());
            }
            let found = look(path)?;
            seen.insert(path.clone(), found.clone());
            Ok(found)
        };
        let leaving: BTreeSet<&RelPath> = self.files.iter().filter_map(FilePatch::leaves).collect();
        let mut changes = ChangeSet::default();
        let mut refused = Vec::new();
        let mut one = |file: &FilePatch, changes: &mut ChangeSet| -> Result<(), PatchError> {
            let now =
                |changes: &ChangeSet, path: &RelPath, first: &mut dyn FnMut(&RelPath) -> Result<Entry, PatchError>| {
                    match changes.staged(path) {
                        Some(staged) => Ok(staged.clone()),
                        None => first(path),
                    }
                };
            let (before, position) = match &file.old {
                // A copy or rename takes the file as it was before the patch, wherever it stands in the text.
                Some(path) if file.takes_from_elsewhere() => (first(path)?, First::Yes),
                Some(path) => (
                    now(changes, path, &mut first)?,
                    if changes.staged(path).is_some() { First::No } else { First::Yes },
                ),
                None => (Entry::Absent, First::Yes),
            };
            let after = settle(file, &before, position)?;
            // What an earlier part has put there stays: two files may change places.
            let is_put = |path: &RelPath| changes.staged(path).is_some_and(|entry| *entry != Entry::Absent);
            if let Some(old) = file.leaves().filter(|old| !file.takes_from_elsewhere() || !is_put(old)) {
                let base = first(old)?;
                changes.stage(old.clone(), || base, Entry::Absent);
            }
            if let Some(new) = &file.new {
                let found = now(changes, new, &mut first)?;
                let leaves = leaving.contains(new) && changes.staged(new).is_none();
                if file.old.as_ref() != Some(new) && found != Entry::Absent && !leaves {
                    there(file, &found, &after)?;
                }
                let base = first(new)?;
                changes.stage(new.clone(), || base, after);
            }
            Ok(())
        };
        for file in &self.files {
            if let Err(error) = one(file, &mut changes) {
                refused.push(error);
            }
        }
        if refused.is_empty() { Ok(changes) } else { Err(refused) }
    }
}

/// Whether a file is in the patch for the first time, so that what is there is what the patch was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// It does.
    Yes,
    /// An earlier part of the patch has changed it.
    No,
}

/// Makes the new content of the old one and the hunks.
type ApplyHunks<'a> = dyn Fn(&[u8], &[Hunk]) -> Result<Vec<u8>, PatchError> + 'a;

impl FilePatch {
    /// Returns the path that this part removes: the file is deleted or renamed.
    fn leaves(&self) -> Option<&RelPath> {
        self.old.as_ref().filter(|old| self.new.as_ref() != Some(*old) && !self.keeps_old)
    }

    /// Tells whether this part makes a file from another one: a copy or a rename.
    pub fn takes_from_elsewhere(&self) -> bool {
        self.new.is_some() && self.old.is_some() && self.old != self.new
    }

    /// Tells whether this part changes a file's mode.
    pub fn changes_mode(&self) -> bool {
        self.old_mode.is_some() && self.new_mode.is_some() && self.old_mode != self.new_mode
    }

    /// Tells whether git applies this part to what it stores of a file of the work tree: no old line ends with `\r\n`,
    /// and the content before is not named as that of the work tree.
    pub fn has_line_ends_of_git(&self, tree: &Entry, format: ObjectFormat) -> bool {
        match &self.body {
            Body::Text(hunks) => !hunks.iter().flat_map(|hunk| &hunk.old).any(|line| line.ends_with(b"\r\n")),
            Body::Same => self.takes_from_elsewhere(),
            Body::Literal(_) | Body::Delta(_) => self
                .old_object
                .as_ref()
                .filter(|_| self.old.is_some())
                .is_none_or(|object| tree.content().is_none_or(|content| *object != format.blob(content))),
        }
    }

    /// Tells whether this part of a plain diff makes its file where there is none: its only hunk has no old line.
    fn may_create(&self) -> bool {
        let Body::Text(hunks) = &self.body else { return false };
        self.is_plain
            && self.old == self.new
            && matches!(hunks.as_slice(), [hunk] if hunk.old.is_empty() && hunk.start == 0)
    }

    /// Says why the patch does not fit this file.
    pub fn mismatch(&self, reason: impl Into<String>) -> PatchError {
        let path = self.old.as_ref().or(self.new.as_ref()).cloned().unwrap_or_default();
        PatchError::Mismatch { path, reason: reason.into() }
    }

    /// Applies this part exactly at the lines it names.
    pub fn exactly(&self, before: &Entry, format: ObjectFormat) -> Result<Entry, PatchError> {
        self.after(before, format, &|content, hunks| self.apply_hunks(content, hunks))
    }

    /// Applies this part where `git apply` does: each hunk at the nearest place that has its lines.
    pub fn wherever_it_fits(&self, before: &Entry, format: ObjectFormat) -> Result<Entry, PatchError> {
        self.after(before, format, &|content, hunks| {
            placed(content, hunks).map_err(|(number, hunk)| self.mismatch(hunk.why_not(number, &lines(content))))
        })
    }

    /// Tells whether a file has every change of this part already; only text that says what it adds can tell.
    pub fn is_applied(&self, now: &Entry) -> bool {
        let (Body::Text(hunks), Entry::File { content, executable }) = (&self.body, now) else { return false };
        let shall = self.new_mode.as_deref().is_none_or(|mode| (mode == "100755") == *executable && mode != "120000");
        let reversed: Vec<Hunk> = hunks.iter().map(Hunk::reversed).collect();
        let is_moved = self.old != self.new;
        shall && !is_moved && reversed.iter().all(|hunk| !hunk.old.is_empty()) && placed(content, &reversed).is_ok()
    }

    fn after(&self, before: &Entry, format: ObjectFormat, apply_hunks: &ApplyHunks<'_>) -> Result<Entry, PatchError> {
        let (content, was_link, was_executable): (&[u8], bool, bool) = match before {
            Entry::Absent if self.old.is_some() && !self.may_create() => return Err(self.mismatch("no such file")),
            Entry::Absent => (b"", false, false),
            Entry::File { content, executable } => (content, false, *executable),
            Entry::Link { target } => (target, true, false),
        };
        if self.old.is_some() && *before != Entry::Absent {
            let names_link = self.old_mode.as_deref().map(|mode| mode == "120000");
            if names_link.is_some_and(|names_link| names_link != was_link) {
                return Err(self.mismatch("it is of another type"));
            }
        }
        let is_binary = matches!(self.body, Body::Literal(_) | Body::Delta(_));
        if is_binary && let Some(object) = self.old_object.as_ref().filter(|_| self.old.is_some()) {
            let same_length = object.len() == format.zero().len();
            if !same_length || *object != format.blob(content) {
                return Err(self.mismatch("its contents are not those that the patch was made for"));
            }
        }
        let result = match &self.body {
            Body::Same => content.to_vec(),
            Body::Literal(new) => new.clone(),
            Body::Delta(delta) => binary::apply_delta(content, delta)
                .ok_or_else(|| self.mismatch("its contents are not those that the binary hunk was made for"))?,
            Body::Text(hunks) => apply_hunks(content, hunks)?,
        };
        if self.new.is_none() {
            return if result.is_empty() || matches!(self.body, Body::Same) && content.is_empty() {
                Ok(Entry::Absent)
            } else {
                Err(self.mismatch("it has more content than the patch deletes"))
            };
        }
        Ok(match self.new_mode.as_deref() {
            Some("120000") => Entry::Link { target: result },
            Some("100755") => Entry::File { content: result.into(), executable: true },
            Some("100644") => Entry::File { content: result.into(), executable: false },
            Some(mode) => return Err(self.mismatch(format!("mode {mode} is not supported"))),
            None if was_link => Entry::Link { target: result },
            None => Entry::File { content: result.into(), executable: was_executable },
        })
    }

    fn apply_hunks(&self, content: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, PatchError> {
        let old = lines(content);
        let mut result = Vec::with_capacity(content.len());
        let mut at = 0;
        for (number, hunk) in hunks.iter().enumerate() {
            let name = format!("hunk {}", number + 1);
            let end = hunk.start.checked_add(hunk.old.len()).filter(|end| *end <= old.len() && hunk.start >= at);
            let Some(end) = end else {
                return Err(self.mismatch(format!("{name}: the file has no line {}", hunk.start + 1)));
            };
            if let Some(why) =
                hunk.differs(&old, hunk.start).or_else(|| hunk.misplaced(old.len(), hunk.start).map(str::to_owned))
            {
                return Err(self.mismatch(format!("{name}: {why}")));
            }
            result.extend(old[at..hunk.start].iter().copied().flatten());
            result.extend(hunk.new.iter().flatten());
            at = end;
        }
        result.extend(old[at..].iter().copied().flatten());
        Ok(result)
    }
}

/// Places each hunk where `git apply` does; otherwise returns the first that does not fit, and its number from 1.
fn placed<'h>(content: &[u8], hunks: &'h [Hunk]) -> Result<Vec<u8>, (usize, &'h Hunk)> {
    // No hunk may touch what an earlier one has put there.
    let mut image: Vec<(&[u8], bool)> = lines(content).into_iter().map(|line| (line, false)).collect();
    for (number, hunk) in hunks.iter().enumerate() {
        let place = hunk.place(&image).ok_or((number + 1, hunk))?;
        image.splice(place..place + hunk.old.len(), hunk.new.iter().map(|line| (line.as_slice(), true)));
    }
    Ok(image.into_iter().flat_map(|(line, _)| line).copied().collect())
}

impl Hunk {
    /// Finds the place nearest to the one that the header names, after it before before it.
    fn place(&self, image: &[(&[u8], bool)]) -> Option<usize> {
        let last = image.len().checked_sub(self.old.len())?;
        let fits = |place: &usize| {
            self.misplaced(image.len(), *place).is_none()
                && self.old.iter().zip(&image[*place..]).all(|(old, (line, is_new))| old == line && !is_new)
        };
        let named = self.new_start.min(image.len());
        let distances = 0..=image.len();
        let places = distances.flat_map(|distance| {
            [named.checked_add(distance), named.checked_sub(distance).filter(|_| distance > 0)].into_iter().flatten()
        });
        places.filter(|place| *place <= last).find(fits)
    }

    /// Says why a hunk may not be at a line: without context it belongs to the beginning or the end.
    fn misplaced(&self, length: usize, place: usize) -> Option<&'static str> {
        if self.from_beginning && place > 0 {
            Some("its header places it at the beginning of the file")
        } else if self.to_end && place + self.old.len() != length {
            Some("it has no context after its changes, so that it must be at the end of the file")
        } else {
            None
        }
    }

    /// Says which line of the content is not the hunk's.
    fn differs(&self, content: &[&[u8]], place: usize) -> Option<String> {
        let wrong = self.old.iter().zip(&content[place..]).position(|(old, line)| old != line)?;
        let expected = String::from_utf8_lossy(&self.old[wrong]);
        let only_ends = without_end(content[place + wrong]) == without_end(&self.old[wrong]);
        let hint = if only_ends { ": the line ends differently (CRLF or LF)" } else { "" };
        Some(format!("line {} is not `{}`{hint}", place + wrong + 1, expected.trim_end()))
    }

    /// Says why a hunk has no place in a content.
    fn why_not(&self, number: usize, content: &[&[u8]]) -> String {
        let places = content.len().checked_sub(self.old.len()).map_or(0..0, |last| 0..last + 1);
        let standing = places.clone().find(|place| self.differs(content, *place).is_none());
        let why = match standing.and_then(|place| Some((place, self.misplaced(content.len(), place)?))) {
            Some((place, why)) => format!("its lines are at line {}, but {why}", place + 1),
            None if standing.is_some() => "its lines overlap those of another hunk".to_owned(),
            None if places.contains(&self.start) => {
                let why = self.differs(content, self.start).unwrap_or_default();
                format!("{why}, and its lines are at no other place")
            }
            None => format!("the file has no line {}", self.start + 1),
        };
        format!("hunk {number}: {why}")
    }

    fn reversed(&self) -> Hunk {
        Hunk {
            start: self.new_start,
            new_start: self.start,
            from_beginning: self.new_start == 0,
            to_end: self.to_end,
            old: self.new.clone(),
            new: self.old.clone(),
            runs: self.runs.iter().map(|run| ChangedLines { old: run.new.clone(), new: run.old.clone() }).collect(),
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
