//! Compares one match of `old` with the text, line by line.

use std::ops::Range;

use super::forms::Borders;
use super::key::{Key, group, indented, is_blank, is_blank_char, plain, trim_end};
use super::stage::Stage;

/// A place that can be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// What is replaced.
    pub(super) range: Range<usize>,
    /// What is there for each line of `old`, without line ends.
    pub(super) lines: Vec<Range<usize>>,
    /// Whether it begins with a line's own beginning, so that the first line's indentation is known.
    pub(super) from_line_start: bool,
    /// What had to be overlooked to find it.
    pub(super) stage: Stage,
}

/// What a place in the key is in the text.
pub(super) enum Window {
    /// Nothing: `old` shows a space at its border that the text does not have.
    None,
    /// Equal text that cannot be edited, and where: a part of a line that differs in whitespace.
    Odd(usize),
    /// A place.
    Place(Spot),
}

impl Spot {
    /// Returns a place as it is given; `unended` if it reaches over the end that the last line does not have.
    pub(super) fn given(text: &str, range: Range<usize>, unended: bool, stage: Stage) -> Spot {
        let mut lines = split(text, &range);
        if unended {
            lines.push(range.end..range.end);
        }
        let from_line_start = range.start == 0 || text[..range.start].ends_with('\n');
        Spot { range, lines, from_line_start, stage }
    }

    /// Tells whether `old` ends a last line that has no end.
    pub(super) fn is_unended(&self) -> bool {
        let last = self.lines.len() - 1;
        last > 0 && self.lines[last] == (self.range.end..self.range.end) && self.lines[last - 1].end == self.range.end
    }

    /// Tells whether it begins and ends where it may.
    pub(super) fn fits(&self, text: &str, borders: Borders) -> bool {
        let (before, after) = (&text[..self.range.start], &text[self.range.end..]);
        let place = &text[self.range.clone()];
        let are_lines = || {
            let rest = after.split('\n').next().unwrap_or_default();
            let ends = place.ends_with('\n') || is_blank(rest.strip_suffix('\r').unwrap_or(rest));
            ends && (before.is_empty() || before.ends_with('\n'))
        };
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let splits_word = |a: &str, b: &str| is_word(a.chars().next_back()) && is_word(b.chars().next());
        match borders {
            Borders::Any => true,
            Borders::Words => !splits_word(before, place) && !splits_word(place, after),
            Borders::Lines => are_lines(),
            Borders::ExactLine => are_lines() && self.stage <= Stage::LineEnds,
        }
    }
}

/// Returns the part of the text that matches a key.
pub(super) fn window(text: &str, key: &Key, found: &Range<usize>, old: &[&str]) -> Window {
    let (first, last) = (old[0], old[old.len() - 1]);
    let several = old.len() > 1;
    let begins = key.start(found.start);
    let line_start = text[..begins].rfind('\n').map_or(0, |at| at + 1);
    let from_line_start = is_blank(&text[line_start..begins]);
    let starts_at_end = several && is_blank(first);
    let start = if from_line_start {
        Some(line_start)
    } else if starts_at_end {
        Some(begins)
    } else {
        let blanks = indented(first).0.chars().filter(|c| is_blank_char(*c)).count();
        let there = text[line_start..begins].chars().rev().take_while(|c| is_blank_char(*c)).take(blanks);
        let (count, length) = there.fold((0, 0), |(count, length), c| (count + 1, length + c.len_utf8()));
        if blanks > 0 && count == 0 {
            return Window::None;
        }
        (count == blanks).then_some(begins - length)
    };
    let ends = match key.start(found.end - 1) {
        at if at == text.len() => at,
        at => at + group(&text[at..]).0,
    };
    let rest = text[ends..].split('\n').next().unwrap_or_default();
    let rest = rest.strip_suffix('\r').unwrap_or(rest);
    let blanks = last.chars().rev().take_while(|c| is_blank_char(*c)).count();
    let there = rest.chars().take_while(|c| is_blank_char(*c)).take(blanks).map(char::len_utf8).sum::<usize>();
    let ends_at_start = several && is_blank(last);
    let to_line_end = is_blank(rest) || ends_at_start;
    let end = match (ends_at_start, blanks > 0) {
        (false, true) if is_blank(rest) => ends + rest.len(),
        (false, true) if there == 0 => return Window::None,
        _ => ends + there,
    };
    let Some(start) = start else { return Window::Odd(begins) };
    let mut lines = split(text, &(start..end));
    if lines.len() < old.len() {
        lines.push(end..end);
    }
    let mut stage = Stage::LineEnds;
    for (number, (old, line)) in old.iter().zip(&lines).enumerate() {
        let is_part = number == 0 && !from_line_start && !starts_at_end || number + 1 == lines.len() && !to_line_end;
        let seen = overlooked(old, &text[line.clone()]);
        let in_part = match (number == 0 && !from_line_start, number + 1 == lines.len() && !to_line_end) {
            (true, true) => Stage::LookAlikes,
            (true, false) => Stage::TrailingBlanks,
            (false, _) => Stage::Indentation,
        };
        if is_part && seen > in_part {
            return Window::Odd(begins);
        }
        stage = stage.max(seen);
    }
    Window::Place(Spot { range: start..end, lines, from_line_start, stage })
}

/// Returns what differs in a line whose key is the same.
fn overlooked(old: &str, line: &str) -> Stage {
    if old == line {
        return Stage::LineEnds;
    }
    if trim_end(old) == trim_end(line) {
        return Stage::TrailingBlanks;
    }
    let (old, line) = (plain(old), plain(line));
    match () {
        () if old == line => Stage::LookAlikes,
        () if trim_end(&old) == trim_end(&line) => Stage::TrailingBlanks,
        () if indented(trim_end(&old)).1 == indented(trim_end(&line)).1 => Stage::Indentation,
        () => Stage::Blanks,
    }
}

fn split(text: &str, range: &Range<usize>) -> Vec<Range<usize>> {
    let mut start = range.start;
    let mut lines = Vec::new();
    for line in text[range.clone()].split('\n') {
        let end = start + line.len();
        let is_ended = end < range.end;
        lines.push(start..if is_ended && line.ends_with('\r') { end - 1 } else { end });
        start = end + 1;
    }
    lines
}
