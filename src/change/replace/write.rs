//! Builds the text that replaces a match: the file's own lines, and lines of `new` adapted to the file.

use std::borrow::Cow;
use std::ops::Range;

use similar::DiffOp;

use super::glyphs::{Glyphs, MIXED};
use super::indent::Indents;
use super::key::{indented, is_blank, is_blank_char, trim_end};
use super::spot::Spot;
use super::stage::Stage;
use crate::change::diff;

/// The lines of `old` and of `new`, and which of them are the same.
pub(super) struct Lines<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    runs: Vec<DiffOp>,
}

/// Where a line of `new` comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// It is this line of `old`, or repeats it.
    Kept(usize),
    /// It is written; near this place in `old`, in half lines, and instead of this line.
    Written(usize, Option<usize>),
}

impl<'a> Lines<'a> {
    /// Compares line by line; lines end with `\n`.
    pub(super) fn new(old: &'a str, new: &'a str, is_exact: bool) -> Lines<'a> {
        let (old, mut new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
        if let ([.., _, end], [.., _, new_end]) = (&old[..], &mut new[..])
            && !is_exact
            && is_blank(end)
            && is_blank(new_end)
        {
            // The indentation of the next line is not part of the change.
            *new_end = end;
        }
        let bytes = |lines: &[&'a str]| lines.iter().map(|line| line.as_bytes()).collect::<Vec<_>>();
        let runs = diff::operations(&bytes(&old), &bytes(&new));
        Lines { old, new, runs }
    }

    /// Returns what is written at a place, or why that is not clear.
    pub(super) fn write(&self, text: &str, spot: &Spot) -> Result<String, &'static str> {
        let new = match spot.stage {
            Stage::Exact | Stage::LineEnds => self.new.iter().map(|line| Cow::Borrowed(*line)).collect(),
            _ => self.like_the_file(text, spot)?,
        };
        let mut written = String::new();
        let sources = self.sources(text, spot);
        for (number, (line, source)) in new.iter().zip(&sources).enumerate() {
            let there = match source {
                Source::Kept(old) => *old,
                Source::Written(near, _) => near / 2,
            };
            match source {
                Source::Kept(old) => written.push_str(&text[spot.lines[*old].clone()]),
                Source::Written(..) => written.push_str(line),
            }
            if number + 1 < new.len() {
                written.push_str(line_end(text, spot, there));
            }
        }
        if spot.is_unended()
            && let Some(end) = written.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest).len())
        {
            written.truncate(end);
        }
        Ok(written)
    }

    fn sources(&self, text: &str, spot: &Spot) -> Vec<Source> {
        let mut sources = Vec::with_capacity(self.new.len());
        for run in &self.runs {
            let (old, new) = (run.old_range(), run.new_range());
            match run {
                DiffOp::Equal { .. } => sources.extend(old.map(Source::Kept)),
                DiffOp::Replace { .. } => sources.extend(new.clone().map(|line| {
                    let replaced = self.replaced(line, &old, &new);
                    Source::Written(2 * replaced, Some(replaced))
                })),
                DiffOp::Insert { .. } => {
                    sources.extend(new.map(|_| Source::Written((2 * old.start).saturating_sub(1), None)))
                }
                DiffOp::Delete { .. } => {}
            }
        }
        let whole = usize::from(!spot.from_line_start)..self.old.len() - usize::from(!to_line_end(text, spot));
        for (line, source) in self.new.iter().zip(&mut sources) {
            let Source::Written(near, _) = *source else { continue };
            let same = whole.clone().filter(|other| !is_blank(line) && self.old[*other] == *line);
            if let Some(repeated) = same.min_by_key(|other| (2 * other).abs_diff(near)) {
                *source = Source::Kept(repeated);
            }
        }
        sources
    }

    /// Returns the line of `old` that a written one replaces: the one at the same index, or if the numbers differ, the
    /// one that begins and ends most like it.
    fn replaced(&self, line: usize, old: &Range<usize>, new: &Range<usize>) -> usize {
        if old.len() == new.len() {
            return old.start + (line - new.start);
        }
        let alike = |other: usize| {
            let (a, b) = (self.new[line].trim(), self.old[other].trim());
            let head = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            let most = a.len().min(b.len()) - head;
            head + a.bytes().rev().zip(b.bytes().rev()).take(most).take_while(|(a, b)| a == b).count()
        };
        let beside = old.start + (line - new.start).min(old.len() - 1);
        // Long runs are rewritten text: there is nothing to look for.
        if old.len() * new.len() > 10_000 {
            return beside;
        }
        let best = old.clone().map(|other| (alike(other), std::cmp::Reverse(other.abs_diff(beside)), other)).max();
        best.map_or(beside, |(.., other)| other)
    }

    fn like_the_file(&self, text: &str, spot: &Spot) -> Result<Vec<Cow<'_, str>>, &'static str> {
        if self.old.len() > 1 && !spot.from_line_start && is_blank(self.old[0]) && !is_blank(self.new[0]) {
            return Err("new_string does not begin with the empty line that old_string begins with");
        }
        let (old, new) = (self.old[self.old.len() - 1], self.new[self.new.len() - 1]);
        let within = !is_blank(old) && !to_line_end(text, spot);
        if within && old.ends_with(is_blank_char) && !new.ends_with(is_blank_char) {
            return Err("new_string does not end with the blank that old_string ends with");
        }
        let glyphs = Glyphs::new(text, spot, &self.old);
        let clean = |lines: &[&str]| lines.iter().map(|line| glyphs.without_strays(line)).collect::<Vec<String>>();
        let (old, new) = (clean(&self.old), clean(&self.new));
        let indents = Indents::new(text, spot, &old, &new)?;
        let mut made = Vec::with_capacity(new.len());
        for (number, (line, source)) in new.iter().zip(self.sources(text, spot)).enumerate() {
            let Source::Written(near, replaced) = source else {
                made.push(Cow::Borrowed(""));
                continue;
            };
            if glyphs.is_mixed(self.new[number]) {
                return Err(MIXED);
            }
            if let Some(old) =
                replaced.filter(|old| glyphs.trailing && trim_end(self.old[*old]) == trim_end(self.new[number]))
            {
                made.push(Cow::Owned(text[spot.lines[old].clone()].to_owned()));
                continue;
            }
            let is_first = number == 0 && !indents.from_line_start;
            let (indent, rest) = indented(line);
            let indent = match is_blank(line) {
                _ if is_first && spot.from_line_start => {
                    (indented(&text[spot.lines[0].clone()]).0.to_owned() + indent).into()
                }
                _ if is_first => Cow::Borrowed(indent),
                true if line.is_empty() => Cow::Borrowed(""),
                true => indents.of(indent, near).unwrap_or_default().into(),
                false => indents.written(indent, near, number == 0)?.into(),
            };
            made.push(Cow::Owned(
                indent.into_owned() + &glyphs.restored(rest, replaced.map(|number| (number, self.old[number])))?,
            ));
        }
        Ok(made)
    }
}

fn to_line_end(text: &str, spot: &Spot) -> bool {
    let rest = &text[spot.range.end..];
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
}

/// Returns the line end after a line of a place, or where it has none, the one nearest before it, or the file's.
fn line_end<'t>(text: &'t str, spot: &Spot, line: usize) -> &'t str {
    let pairs = &spot.lines[..(line + 2).min(spot.lines.len())];
    let within = pairs.windows(2).rev().map(|pair| &text[pair[0].end..pair[1].start]).find(|end| !end.is_empty());
    within.unwrap_or_else(|| {
        let start = spot.range.start;
        let after = text[start..].find('\n').map(|at| start + at);
        // The place may be a last line without an end: then the line before it decides.
        match after.or_else(|| text[..start].rfind('\n')) {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    })
}
