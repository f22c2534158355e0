//! Parses and applies patches as `git diff` and this program write them: exactly or not at all.

use std::collections::BTreeMap;

use super::binary;
use super::change_set::{ChangeSet, Entry};
use super::diff::lines;
use super::git_name;
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
}

impl Patch {
    /// Reads a patch. Text before the first file's header is passed over, as `git apply` does.
    pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
        let mut reader = Reader { lines: lines(text), at: 0 };
        let mut files = Vec::new();
        while let Some(line) = reader.peek() {
            if line.starts_with(b"diff --git ") {
                files.push(reader.file()?);
            } else if line.starts_with(b"--- ")
                && reader.lines.get(reader.at + 1).is_some_and(|l| l.starts_with(b"+++ "))
            {
                files.push(reader.traditional_file()?);
            } else if line.starts_with(b"@@ -") {
                return Err(reader.wrong("a hunk without the name of a file before it"));
            } else {
                reader.at += 1;
            }
        }
        if files.is_empty() && !text.is_empty() {
            return Err(PatchError::Syntax { line: 1, reason: "it contains no changes".to_owned() });
        }
        Ok(Patch { files })
    }

    /// Returns every path that the patch reads from or writes to, in the order of the text. A name that only a header
    /// has counts as read: who writes it means the file.
    pub fn accesses(&self) -> Vec<PathAccess> {
        let mut accesses = Vec::new();
        for file in &self.files {
            if let Some(old) = file.old.as_ref().filter(|old| file.new.as_ref() != Some(*old)) {
                if file.new.is_some() {
                    accesses.push(PathAccess::Read(old.clone()));
                }
                if !file.keeps_old {
                    accesses.push(PathAccess::Write(old.clone()));
                }
            }
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
                Some(path) => (
                    now(changes, path, &mut first)?,
                    if changes.staged(path).is_some() { First::No } else { First::Yes },
                ),
                None => (Entry::Absent, First::Yes),
            };
            let after = settle(file, &before, position)?;
            if let Some(old) = file.old.as_ref().filter(|old| file.new.as_ref() != Some(*old) && !file.keeps_old) {
                let base = first(old)?;
                changes.stage(old.clone(), || base, Entry::Absent);
            }
            if let Some(new) = &file.new {
                let found = now(changes, new, &mut first)?;
                if file.old.as_ref() != Some(new) && found != Entry::Absent {
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
            Entry::Absent if self.old.is_some() => return Err(self.mismatch("no such file")),
            Entry::Absent => (b"", false, false),
            Entry::File { content, executable } => (content, false, *executable),
            Entry::Link { target } => (target, true, false),
        };
        if self.old.is_some() {
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
            None if standing.is_some() => "its lines are where another hunk has changed them".to_owned(),
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
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

struct Reader<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).copied()
    }

    /// Returns the rest of the line after `mark`, without its `\n`, and steps over it.
    fn take(&mut self, mark: &[u8]) -> Option<&'a [u8]> {
        let rest = self.peek()?.strip_prefix(mark)?;
        self.at += 1;
        Some(rest.strip_suffix(b"\n").unwrap_or(rest))
    }

    fn wrong(&self, reason: impl Into<String>) -> PatchError {
        PatchError::Syntax { line: self.at + 1, reason: reason.into() }
    }

    fn file(&mut self) -> Result<FilePatch, PatchError> {
        let header_line = self.at;
        let header = self.take(b"diff --git ").unwrap_or_default();
        let (mut old_mode, mut new_mode, mut old_object) = (None, None, None);
        let (mut is_new, mut is_deleted, mut keeps_old) = (false, false, false);
        let (mut from, mut to) = (None, None);
        loop {
            if let Some(mode) = self.take(b"old mode ") {
                old_mode = Some(text(mode));
            } else if let Some(mode) = self.take(b"new mode ") {
                new_mode = Some(text(mode));
            } else if let Some(mode) = self.take(b"new file mode ") {
                (is_new, new_mode) = (true, Some(text(mode)));
            } else if let Some(mode) = self.take(b"deleted file mode ") {
                (is_deleted, old_mode) = (true, Some(text(mode)));
            } else if let Some(name) = self.take(b"rename from ") {
                from = Some(self.plain_name(name)?);
            } else if let Some(name) = self.take(b"rename to ") {
                to = Some(self.plain_name(name)?);
            } else if let Some(name) = self.take(b"copy from ") {
                (keeps_old, from) = (true, Some(self.plain_name(name)?));
            } else if let Some(name) = self.take(b"copy to ") {
                to = Some(self.plain_name(name)?);
            } else if let Some(names) = self.take(b"index ") {
                let names = text(names);
                let (objects, mode) = names.split_once(' ').map_or((names.as_str(), None), |(o, m)| (o, Some(m)));
                old_object = objects.split_once("..").map(|(old, _)| old.to_owned());
                if let Some(mode) = mode {
                    old_mode.get_or_insert(mode.to_owned());
                    new_mode.get_or_insert(mode.to_owned());
                }
            } else if self.take(b"similarity index ").is_none() && self.take(b"dissimilarity index ").is_none() {
                break;
            }
        }
        let mut body = Body::Same;
        let mut sides = None;
        if self.peek().is_some_and(|line| line.starts_with(b"--- ")) {
            sides = Some(self.sides()?);
            body = Body::Text(self.hunks()?);
        } else if self.take(b"GIT binary patch").is_some() {
            if old_object.is_none() {
                return Err(self.wrong("a binary change needs the `index` line with the whole names of its contents"));
            }
            body = self.binary()?;
        } else if self.peek().is_some_and(|line| line.starts_with(b"Binary files ")) {
            return Err(self.wrong("the bytes of a binary file are missing; make the patch with `git diff --binary`"));
        }
        let at_header = |reason: &str| PatchError::Syntax { line: header_line + 1, reason: reason.to_owned() };
        let (old, new) = match (sides, from, to) {
            (Some((None, None)), ..) => return Err(at_header("both names are /dev/null")),
            (Some((old, new)), Some(from), Some(to)) if (&old, &new) != (&Some(from.clone()), &Some(to.clone())) => {
                return Err(at_header("the names of the file contradict each other"));
            }
            (_, Some(from), Some(to)) => (Some(from), Some(to)),
            (Some(names), ..) => names,
            (None, ..) => {
                let name = same_name(header).ok_or_else(|| at_header("the name of the file is unclear"))?;
                (Some(name.clone()), Some(name))
            }
        };
        let old = if is_new { None } else { old };
        let new = if is_deleted { None } else { new };
        if old.is_none() && new.is_none() {
            return Err(at_header("the names and the kind of change contradict each other"));
        }
        let changes_mode = old_mode.is_some() && new_mode.is_some() && old_mode != new_mode;
        if body == Body::Same && old == new && !changes_mode {
            return Err(at_header("it names a file without a change"));
        }
        if is_new && new_mode.as_deref() == Some("160000") || old_mode.as_deref() == Some("160000") {
            return Err(at_header("a submodule's change cannot be applied"));
        }
        Ok(FilePatch { old, new, also_named: None, old_mode, new_mode, keeps_old, old_object, body })
    }

    fn traditional_file(&mut self) -> Result<FilePatch, PatchError> {
        let line = self.at;
        let (mut old, mut new) = self.sides()?;
        let mut also_named = None;
        match (&old, &new) {
            (None, None) => {
                return Err(PatchError::Syntax { line: line + 1, reason: "both names are /dev/null".to_owned() });
            }
            // A copy of the file that was kept under a longer name: `x.orig` and `x`.
            (Some(before), Some(after)) if after.as_bytes().starts_with(before.as_bytes()) => {
                also_named = std::mem::replace(&mut new, old.clone()).filter(|named| Some(named) != old.as_ref());
            }
            (Some(_), Some(_)) => also_named = std::mem::replace(&mut old, new.clone()),
            (None, Some(_)) | (Some(_), None) => {}
        }
        let body = Body::Text(self.hunks()?);
        let new_mode = old.is_none().then(|| "100644".to_owned());
        Ok(FilePatch { old, new, also_named, old_mode: None, new_mode, keeps_old: false, old_object: None, body })
    }

    fn sides(&mut self) -> Result<(Option<RelPath>, Option<RelPath>), PatchError> {
        let old = self.take(b"--- ").ok_or_else(|| self.wrong("expected `--- NAME`"))?;
        let old = self.side(old)?;
        let new = self.take(b"+++ ").ok_or_else(|| self.wrong("expected `+++ NAME`"))?;
        Ok((old, self.side(new)?))
    }

    fn side(&self, name: &[u8]) -> Result<Option<RelPath>, PatchError> {
        let bytes = match git_name::unquote(name) {
            Some((bytes, _)) => bytes,
            None => name.split(|byte| *byte == b'\t').next().unwrap_or(name).to_vec(),
        };
        if bytes == b"/dev/null" {
            return Ok(None);
        }
        let path = strip_first(&bytes).and_then(plain_path);
        path.map(Some).ok_or_else(|| self.wrong(format!("`{}` is not below the root", String::from_utf8_lossy(&bytes))))
    }

    fn plain_name(&self, name: &[u8]) -> Result<RelPath, PatchError> {
        let bytes = git_name::unquote(name).map_or_else(|| name.to_vec(), |(bytes, _)| bytes);
        plain_path(&bytes)
            .ok_or_else(|| self.wrong(format!("`{}` is not below the root", String::from_utf8_lossy(&bytes))))
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchError> {
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with(b"@@ -")) {
            hunks.push(self.hunk()?);
        }
        if hunks.is_empty() {
            return Err(self.wrong("expected `@@ -LINE,COUNT +LINE,COUNT @@` after the names of the file"));
        }
        Ok(hunks)
    }

    fn hunk(&mut self) -> Result<Hunk, PatchError> {
        let header = self.take(b"@@ -").map(text).unwrap_or_default();
        let spans = header.split_once(" @@").and_then(|(spans, _)| spans.split_once(" +"));
        let ((start, mut old_left), (new_start, mut new_left)) = spans
            .and_then(|(old, new)| Some((span(old)?, span(new)?)))
            .ok_or_else(|| PatchError::Syntax { line: self.at, reason: "a damaged hunk header".to_owned() })?;
        let header_line = self.at;
        let mut hunk = Hunk {
            start: if old_left == 0 { start } else { start.saturating_sub(1) },
            new_start: new_start.saturating_sub(1),
            from_beginning: start <= 1,
            to_end: true,
            old: Vec::new(),
            new: Vec::new(),
        };
        let mut is_change = false;
        while old_left > 0 || new_left > 0 {
            let line = self.peek().ok_or_else(|| self.wrong("the patch ends within a hunk"))?;
            let (mark, rest) = line.split_first().map_or((b' ', b"".as_slice()), |(mark, rest)| (*mark, rest));
            // Some mailers drop the space of an empty context line.
            let rest = if mark == b'\n' { b"\n".as_slice() } else { rest };
            let (in_old, in_new) = match mark {
                b' ' | b'\n' => (true, true),
                b'-' => (true, false),
                b'+' => (false, true),
                _ => return Err(self.wrong("a line of a hunk does not begin with ` `, `-` or `+`")),
            };
            if in_old && old_left == 0 || in_new && new_left == 0 {
                return Err(self.wrong("the hunk has more lines than its header says"));
            }
            self.at += 1;
            hunk.to_end = !(in_old && in_new);
            is_change |= hunk.to_end;
            let mut content = rest.to_vec();
            if self.peek().is_some_and(|next| next.starts_with(b"\\ ")) {
                self.at += 1;
                content.truncate(content.strip_suffix(b"\n").map_or(content.len(), <[u8]>::len));
            } else if content.last() != Some(&b'\n') {
                return Err(self.wrong("the patch ends within a line"));
            }
            if in_old {
                old_left -= 1;
                hunk.old.push(content.clone());
            }
            if in_new {
                new_left -= 1;
                hunk.new.push(content);
            }
        }
        if !is_change {
            return Err(PatchError::Syntax { line: header_line, reason: "a hunk without a change".to_owned() });
        }
        Ok(hunk)
    }

    /// Reads the forward hunk and passes over the reverse one, if there is one.
    fn binary(&mut self) -> Result<Body, PatchError> {
        let (is_delta, size) = if let Some(size) = self.take(b"literal ") {
            (false, size)
        } else if let Some(size) = self.take(b"delta ") {
            (true, size)
        } else {
            return Err(self.wrong("expected `literal SIZE` or `delta SIZE`"));
        };
        let size: usize = text(size).parse().map_err(|_| self.wrong("a damaged size"))?;
        let deflated = self.base85()?;
        let content =
            binary::inflate(&deflated, size).ok_or_else(|| self.wrong("the binary hunk before is damaged"))?;
        if self.take(b"literal ").is_some() || self.take(b"delta ").is_some() {
            self.base85()?;
        }
        Ok(if is_delta { Body::Delta(content) } else { Body::Literal(content) })
    }

    fn base85(&mut self) -> Result<Vec<u8>, PatchError> {
        let mut deflated = Vec::new();
        while let Some(line) = self.take(b"") {
            if line.is_empty() {
                return Ok(deflated);
            }
            if binary::read_line(line, &mut deflated).is_none() {
                self.at -= 1;
                return Err(self.wrong("a damaged line of a binary hunk"));
            }
        }
        Err(self.wrong("the patch ends within a binary hunk"))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn span(text: &str) -> Option<(usize, usize)> {
    let (start, length) = text.split_once(',').unwrap_or((text, "1"));
    Some((start.parse().ok()?, length.parse().ok()?))
}

/// Drops `a/` or `b/`.
fn strip_first(name: &[u8]) -> Option<&[u8]> {
    let slash = name.iter().position(|byte| *byte == b'/')?;
    Some(&name[slash + 1..])
}

/// Accepts a name only as it is: nothing to normalise, nothing that climbs.
fn plain_path(name: &[u8]) -> Option<RelPath> {
    RelPath::from_bytes(name).filter(|path| !path.is_root() && path.as_bytes() == name)
}

/// Reads the name from `a/NAME b/NAME`, where both sides are the same.
fn same_name(header: &[u8]) -> Option<RelPath> {
    if header.first() == Some(&b'"') {
        let (old, rest) = git_name::unquote(header)?;
        let rest = rest.strip_prefix(b" ")?;
        let new = git_name::unquote(rest).map_or_else(|| rest.to_vec(), |(new, _)| new);
        return (strip_first(&old)? == strip_first(&new)?).then(|| plain_path(strip_first(&old)?))?;
    }
    let middle = header.len() / 2;
    let (old, new) = (header.get(..middle)?, header.get(middle..)?.strip_prefix(b" ")?);
    (strip_first(old)? == strip_first(new)?).then(|| plain_path(strip_first(old)?))?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(patch: &str, content: &str) -> Result<ChangeSet, PatchError> {
        let look = |path: &RelPath| Ok(if path.to_string() == "a" { Entry::file(content) } else { Entry::Absent });
        Patch::parse(patch.as_bytes())?.apply(&look, ObjectFormat::Sha1)
    }

    #[test]
    fn a_rename_moves_the_file_and_its_mode() {
        let patch =
            "diff --git a/a b/n\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from a\nrename to n\n";
        let changes = apply(patch, "1\n").unwrap();
        assert_eq!(changes.staged(&RelPath::new("a").unwrap()), Some(&Entry::Absent));
        let moved = Entry::File { content: b"1\n".as_slice().into(), executable: true };
        assert_eq!(changes.staged(&RelPath::new("n").unwrap()), Some(&moved));
    }

    #[test]
    fn a_plain_diff_with_a_cover_letter_is_read() {
        let changes =
            apply("Hello\n\n--- a/a\t2020-01-01\n+++ b/a\n@@ -1,2 +1,2 @@ fn x()\n 1\n-2\n+two\n", "1\n2\n").unwrap();
        assert_eq!(changes.staged(&RelPath::new("a").unwrap()), Some(&Entry::file("1\ntwo\n")));
    }

    #[test]
    fn a_refusal_names_the_place() {
        let error = |patch, content| apply(patch, content).unwrap_err().to_string();
        let patch = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n";
        assert_eq!(error(patch, "1\n3\n"), "a: the patch does not apply: hunk 1: line 2 is not `2`");
        assert_eq!(error(patch, "1\n"), "a: the patch does not apply: hunk 1: the file has no line 1");
        let ends = error(patch, "1\r\n2\r\n");
        assert!(ends.ends_with("hunk 1: line 1 is not `1`: the line ends differently (CRLF or LF)"), "{ends}");
        assert_eq!(error("hello\n", ""), "patch line 1: it contains no changes");
        assert_eq!(error("--- a/a\n+++ b/../a\n@@ -1 +1 @@\n", ""), "patch line 3: `b/../a` is not below the root");
        assert_eq!(error("--- a/a\n+++ b/a\n@@ -1,2 +1 @@\n 1\n", ""), "patch line 5: the patch ends within a hunk");
        assert_eq!(
            error("diff --git a/x b/x\nnew file mode 160000\n", ""),
            "patch line 1: a submodule's change cannot be applied"
        );
    }

    #[test]
    fn every_file_that_does_not_fit_is_named() {
        let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n";
        let patch = Patch::parse(patch.as_bytes()).unwrap();
        let settle = |file: &FilePatch, before: &Entry, _: First| file.exactly(before, ObjectFormat::Sha1);
        let refused = patch.apply_by(&|_| Ok(Entry::file("1\n")), &settle, &|_, _, _| Ok(())).unwrap_err();
        assert_eq!(refused.len(), 2);
    }

    #[test]
    fn a_moved_hunk_is_put_at_the_nearest_place_and_the_borders_hold() {
        let moved = |patch: &str, content: &str| {
            let file = Patch::parse(format!("--- a/a\n+++ b/a\n{patch}").as_bytes()).unwrap().files.remove(0);
            let entry = file.wherever_it_fits(&Entry::file(content), ObjectFormat::Sha1);
            entry.map(|entry| String::from_utf8_lossy(entry.content().unwrap()).into_owned()).map_err(|e| e.to_string())
        };
        let hunk = "@@ -3,3 +3,3 @@\n 1\n-2\n+two\n 3\n";
        assert_eq!(moved(hunk, "0\n1\n2\n3\n4\n").as_deref(), Ok("0\n1\ntwo\n3\n4\n"));
        assert_eq!(moved(hunk, "1\n2\n3\n1\n2\n3\n").as_deref(), Ok("1\n2\n3\n1\ntwo\n3\n"), "after before before");
        // A line inserted without context goes to the end, where git puts it.
        assert_eq!(moved("@@ -2,0 +3 @@\n+x\n", "1\n2\n3\n").as_deref(), Ok("1\n2\n3\nx\n"));
        let refused = |patch: &str, content: &str| moved(patch, content).unwrap_err();
        assert!(refused(hunk, "1\n3\n3\n3\n3\n").ends_with("line 3 is not `1`, and its lines are at no other place"));
        assert!(refused(hunk, "1\n3\n").ends_with("the file has no line 3"));
        let first = "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n";
        assert!(
            refused(first, "0\n1\n2\n3\n4\n")
                .ends_with("its lines are at line 2, but its header places it at the beginning of the file")
        );
        assert!(refused("@@ -2 +2 @@\n-2\n+two\n", "1\n2\n3\n").contains("it must be at the end of the file"));
        let twice = format!("{hunk}@@ -4,2 +4,2 @@\n-two\n+2\n 3\n");
        assert!(refused(&twice, "1\n2\n3\n").contains("hunk 2: "), "what a hunk has written is no place");
    }

    #[test]
    fn a_part_is_applied_already_only_if_each_of_its_hunks_is() {
        let patch = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n@@ -8,2 +8,2 @@\n 8\n-9\n+nine\n";
        let file = Patch::parse(patch.as_bytes()).unwrap().files.remove(0);
        let lines = |first: &str, last: &str| Entry::file(format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n"));
        assert!(file.is_applied(&lines("one", "nine")));
        assert!(!file.is_applied(&lines("one", "9")) && !file.is_applied(&lines("1", "9")));
    }

    #[test]
    fn what_git_does_not_take_for_a_patch_is_no_patch() {
        let header = "diff --git a/a b/a\n";
        for (patch, line) in [
            (format!("{header}index 1234567..89abcde 100644\n"), 1),
            (format!("{header}--- a/a\n+++ b/a\n"), 4),
            (format!("{header}--- a/a\n+++ b/a\n@@ @@\n-1\n+2\n"), 4),
            ("--- a/a\n+++ b/a\n@@\n-1\n+2\n".to_owned(), 3),
            ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n 1\n".to_owned(), 3),
            ("--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n".to_owned(), 6),
            ("Here is the patch:\n".to_owned(), 1),
            ("\n".to_owned(), 1),
        ] {
            match Patch::parse(patch.as_bytes()) {
                Err(PatchError::Syntax { line: found, .. }) => assert_eq!(found, line, "{patch}"),
                other => panic!("{patch}: {other:?}"),
            }
        }
        assert_eq!(Patch::parse(b"").unwrap(), Patch::default());
    }

    #[test]
    fn a_new_file_does_not_overwrite() {
        let patch = "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+1\n";
        assert_eq!(apply(patch, "").unwrap_err().to_string(), "a: the patch does not apply: it already exists");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(diff --git a/a b/a\n|--- a/a\n|\\+\\+\\+ b/a\n|@@ -[0-9]{1,20},[0-9] \\+1 @@\n|[ +-]1\n|GIT binary patch\n|literal 9\n|cmc\n|\\PC{0,5}\n|new file mode 100644\n|rename from a\n|rename to b\n){0,12}") {
            if let Ok(patch) = Patch::parse(text.as_bytes()) {
                let _ = patch.apply(&|_| Ok(Entry::file("1\n1\n")), ObjectFormat::Sha1);
            }
        }
    }
}
