//! Parses patches as `git diff` and this program write them.

use std::ops::Range;

use super::binary;
use super::diff::lines;
use super::git_name;
use super::patch_reader::{Body, ChangedLines, FilePatch, Hunk, Patch, PatchError};
use crate::bounded;
use crate::path::RelPath;

impl Patch {
    /// Reads a patch. Text before the first file's header is passed over, as `git apply` does.
    pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
        Patch::parse_with_places(text).map(|(patch, _)| patch)
    }

    /// As [`Patch::parse`], and returns where each file and its hunks are in the text.
    pub fn parse_with_places(text: &[u8]) -> Result<(Patch, Vec<Places>), PatchError> {
        let mut reader = Reader { lines: lines(text), at: 0, hunk_lines: Vec::new() };
        let (mut files, mut file_lines) = (Vec::new(), Vec::new());
        while let Some(line) = reader.peek() {
            let start = reader.at;
            let before = files.len();
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
            if files.len() > before {
                file_lines.push((start..reader.at, std::mem::take(&mut reader.hunk_lines)));
            }
        }
        if files.is_empty() && !text.is_empty() {
            return Err(PatchError::Syntax { line: 1, reason: "it contains no changes".to_owned() });
        }
        Ok((Patch { files }, places(&reader.lines, file_lines)))
    }
}

/// Where the part of a patch about one file is in its text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// All of it.
    pub whole: Range<usize>,
    /// Each hunk of text, with its header.
    pub hunks: Vec<Range<usize>>,
}

/// Turns ranges of lines into ranges of bytes.
fn places(lines: &[&[u8]], files: Vec<(Range<usize>, Vec<Range<usize>>)>) -> Vec<Places> {
    let mut starts = vec![0];
    for line in lines {
        starts.push(starts.last().unwrap_or(&0) + line.len());
    }
    let bytes = |of: &Range<usize>| starts[of.start]..starts[of.end];
    let place = |(whole, hunks): &(_, Vec<_>)| Places { whole: bytes(whole), hunks: hunks.iter().map(bytes).collect() };
    files.iter().map(place).collect()
}

/// The old and the new name.
type Sides = (Option<RelPath>, Option<RelPath>);

/// What git says about a file before its change.
#[derive(Default)]
struct Header {
    old_mode: Option<String>,
    new_mode: Option<String>,
    old_object: Option<String>,
    is_new: bool,
    is_deleted: bool,
    keeps_old: bool,
    from: Option<RelPath>,
    to: Option<RelPath>,
}

struct Reader<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
    /// The hunks of the file that is being read.
    hunk_lines: Vec<Range<usize>>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).copied()
    }

    /// Returns the rest of the line after `mark`, without its line end, and steps over it. Git quotes a name with `\r`.
    fn take(&mut self, mark: &[u8]) -> Option<&'a [u8]> {
        let rest = self.peek()?.strip_prefix(mark)?;
        self.at += 1;
        let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        Some(rest.strip_suffix(b"\r").unwrap_or(rest))
    }

    fn wrong(&self, reason: impl Into<String>) -> PatchError {
        PatchError::Syntax { line: self.at + 1, reason: reason.into() }
    }

    fn file(&mut self) -> Result<FilePatch, PatchError> {
        let header_line = self.at;
        let at_header = |reason: &str| PatchError::Syntax { line: header_line + 1, reason: reason.to_owned() };
        let name = self.take(b"diff --git ").unwrap_or_default();
        let header = self.header()?;
        let (sides, body) = self.body(header.old_object.is_some())?;
        let (old, new) = match (sides, header.from, header.to) {
            (Some((None, None)), ..) => return Err(at_header("both names are /dev/null")),
            (Some((old, new)), Some(from), Some(to)) if (&old, &new) != (&Some(from.clone()), &Some(to.clone())) => {
                return Err(at_header("the names of the file contradict each other"));
            }
            (_, Some(from), Some(to)) => (Some(from), Some(to)),
            (Some(names), ..) => names,
            (None, ..) => {
                let name = same_name(name).ok_or_else(|| at_header("the name of the file is ambiguous"))?;
                (Some(name.clone()), Some(name))
            }
        };
        let old = old.filter(|_| !header.is_new);
        let new = new.filter(|_| !header.is_deleted);
        if old.is_none() && new.is_none() {
            return Err(at_header("the names and the kind of change contradict each other"));
        }
        let Header { old_mode, new_mode, old_object, keeps_old, .. } = header;
        let changes_mode = old_mode.is_some() && new_mode.is_some() && old_mode != new_mode;
        if body == Body::Same && old == new && !changes_mode {
            return Err(at_header("it names a file without a change"));
        }
        if header.is_new && new_mode.as_deref() == Some("160000") || old_mode.as_deref() == Some("160000") {
            return Err(at_header("a submodule's change cannot be applied"));
        }
        Ok(FilePatch { old, new, also_named: None, old_mode, new_mode, keeps_old, old_object, is_plain: false, body })
    }

    /// Reads the lines between `diff --git` and the change itself.
    fn header(&mut self) -> Result<Header, PatchError> {
        let mut header = Header::default();
        loop {
            if let Some(mode) = self.take(b"old mode ") {
                header.old_mode = Some(text(mode));
            } else if let Some(mode) = self.take(b"new mode ") {
                header.new_mode = Some(text(mode));
            } else if let Some(mode) = self.take(b"new file mode ") {
                (header.is_new, header.new_mode) = (true, Some(text(mode)));
            } else if let Some(mode) = self.take(b"deleted file mode ") {
                (header.is_deleted, header.old_mode) = (true, Some(text(mode)));
            } else if let Some(name) = self.take(b"rename from ") {
                header.from = Some(self.plain_name(name)?);
            } else if let Some(name) = self.take(b"copy from ") {
                (header.keeps_old, header.from) = (true, Some(self.plain_name(name)?));
            } else if let Some(name) = self.take(b"rename to ").or_else(|| self.take(b"copy to ")) {
                header.to = Some(self.plain_name(name)?);
            } else if let Some(names) = self.take(b"index ") {
                let names = text(names);
                let (objects, mode) = names.split_once(' ').map_or((names.as_str(), None), |(o, m)| (o, Some(m)));
                header.old_object = objects.split_once("..").map(|(old, _)| old.to_owned());
                if let Some(mode) = mode {
                    // It is the mode of both sides where the patch was made, and changes none.
                    header.old_mode.get_or_insert(mode.to_owned());
                }
            } else if self.take(b"similarity index ").is_none() && self.take(b"dissimilarity index ").is_none() {
                return Ok(header);
            }
        }
    }

    /// Reads what becomes of the content, with the names that are given there.
    fn body(&mut self, has_object: bool) -> Result<(Option<Sides>, Body), PatchError> {
        if self.peek().is_some_and(|line| line.starts_with(b"--- ")) {
            let sides = self.sides()?;
            return Ok((Some(sides), Body::Text(self.hunks()?)));
        }
        if self.take(b"GIT binary patch").is_some() {
            if !has_object {
                return Err(self.wrong("a binary change needs the `index` line with the whole names of its contents"));
            }
            return Ok((None, self.binary()?));
        }
        if self.peek().is_some_and(|line| line.starts_with(b"Binary files ")) {
            return Err(self.wrong("the bytes of a binary file are missing; make the patch with `git diff --binary`"));
        }
        Ok((None, Body::Same))
    }

    fn traditional_file(&mut self) -> Result<FilePatch, PatchError> {
        let line = self.at;
        let [was_absent, is_absent] = [line, line + 1].map(|at| self.lines.get(at).is_some_and(|line| has_epoch(line)));
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
        let has_both = old.is_some() && new.is_some();
        old = old.filter(|_| !has_both || !was_absent);
        new = new.filter(|_| !has_both || was_absent || !is_absent);
        let body = Body::Text(self.hunks()?);
        let new_mode = old.is_none().then(|| "100644".to_owned());
        let (old_mode, keeps_old, old_object) = (None, false, None);
        Ok(FilePatch { old, new, also_named, old_mode, new_mode, keeps_old, old_object, is_plain: true, body })
    }

    fn sides(&mut self) -> Result<Sides, PatchError> {
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
        path.map(Some)
            .ok_or_else(|| self.wrong(format!("`{}` is outside the project", String::from_utf8_lossy(&bytes))))
    }

    fn plain_name(&self, name: &[u8]) -> Result<RelPath, PatchError> {
        let bytes = git_name::unquote(name).map_or_else(|| name.to_vec(), |(bytes, _)| bytes);
        plain_path(&bytes)
            .ok_or_else(|| self.wrong(format!("`{}` is outside the project", String::from_utf8_lossy(&bytes))))
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchError> {
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with(b"@@ -")) {
            let start = self.at;
            hunks.push(self.hunk()?);
            self.hunk_lines.push(start..self.at);
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
            runs: Vec::new(),
        };
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
            let is_change = in_old != in_new;
            if is_change && (!hunk.to_end || hunk.runs.is_empty()) {
                let (old, new) = (hunk.old.len(), hunk.new.len());
                hunk.runs.push(ChangedLines { old: old..old, new: new..new });
            }
            hunk.to_end = is_change;
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
            if let Some(run) = hunk.runs.last_mut().filter(|_| is_change) {
                (run.old.end, run.new.end) = (hunk.old.len(), hunk.new.len());
            }
        }
        if hunk.runs.is_empty() {
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
        if size as u64 > bounded::PRODUCT {
            let most = bounded::PRODUCT >> 20;
            return Err(self.wrong(format!("a binary file of {size} bytes; at most {most} MiB are read")));
        }
        let deflated = self.base85()?;
        let content =
            binary::inflate(&deflated, size).ok_or_else(|| self.wrong("the previous binary hunk is damaged"))?;
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

/// Tells whether the time stamp of a name is the epoch, in any zone: `diff -N` says so that the file is not there.
fn has_epoch(line: &[u8]) -> bool {
    let stamp = line.rsplit(|byte| *byte == b'\t').next().map(text).unwrap_or_default();
    let read = |zone: &str| jiff::Timestamp::strptime(format!("%Y-%m-%d %H:%M:%S%.f {zone}"), &stamp);
    [read("%z"), read("%:z")].into_iter().flatten().any(|time| time == jiff::Timestamp::UNIX_EPOCH)
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
    use super::*;

    #[test]
    fn a_patch_whose_lines_end_with_cr_lf_names_the_same_file() {
        let text = b"diff --git a/n b/n\r\nnew file mode 100644\r\nindex 0000000..ce01362\r\n--- /dev/null\r\n+++ b/n\r\n@@ -0,0 +1 @@\r\n+hello\r\n";
        let patch = Patch::parse(text).unwrap();
        assert_eq!(patch.files[0].new, RelPath::new("n"));
    }

    #[test]
    fn a_time_stamp_of_the_epoch_in_any_zone_says_that_a_file_is_not_there() {
        let sides = |old: &str, new: &str| {
            let text = format!("--- a/n\t{old}\n+++ b/n\t{new}\n@@ -1 +1 @@\n-1\n+2\n");
            let patch = Patch::parse(text.as_bytes()).unwrap();
            (patch.files[0].old.is_some(), patch.files[0].new.is_some())
        };
        let now = "2026-11-29 14:19:59.881623974 +0000";
        for epoch in
            ["1970-01-01 00:00:00 +0000", "1970-01-01 01:00:00.000000000 +0100", "1969-12-31 16:30:00.0 -07:30"]
        {
            assert_eq!(sides(epoch, now), (false, true), "{epoch}");
            assert_eq!(sides(now, epoch), (true, false), "{epoch}");
        }
        for other in ["1970-01-01 00:00:00.000000001 +0000", "1970-01-01 00:00:00 +0100", "1970-01-01", "", now] {
            assert_eq!(sides(other, other), (true, true), "{other}");
        }
    }
}
