//! Reads from a unified diff the lines of the files as they are after the change.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::change::git_name;

/// The new side of a diff: by path and line number the text, and whether it was added.
pub type NewSide = BTreeMap<String, Shown>;

/// Lines of a file that a diff shows, by their number, and whether each was added.
pub type Shown = BTreeMap<u64, (String, bool)>;

/// Returns the lines of the hunk that this line is in. The numbers of a hunk's lines follow one another.
pub fn hunk(lines: &Shown, line: u64) -> Option<RangeInclusive<u64>> {
    lines.get(&line)?;
    let first = (0..=line).rev().take_while(|number| lines.contains_key(number)).last()?;
    let last = (line..).take_while(|number| lines.contains_key(number)).last()?;
    Some(first..=last)
}

/// The header of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hunk {
    /// The first line on the old side.
    pub old_start: u64,
    /// Lines on the old side.
    pub old_lines: u64,
    /// The first line on the new side.
    pub start: u64,
    /// Lines on the new side.
    pub lines: u64,
}

impl Hunk {
    /// Reads the header at the beginning of a text.
    pub fn at(text: &str) -> Option<Hunk> {
        let (old, rest) = text.strip_prefix("@@ -")?.split_once(" +")?;
        let range = |range: &str| {
            let range = range.split([' ', '\n']).next().unwrap_or_default();
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            Some((start.parse().ok()?, count.parse().ok()?))
        };
        let ((old_start, old_lines), (start, lines)) = (range(old)?, range(rest)?);
        Some(Hunk { old_start, old_lines, start, lines })
    }

    /// Returns its last line on the new side.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.lines).saturating_sub(1)
    }
}

/// Reads the new side of a unified diff.
pub fn new_side(diff: &str) -> NewSide {
    let mut side = NewSide::new();
    let mut path: Option<String> = None;
    // Lines that the hunk still has on its old and new side, and the number of the next new line.
    let (mut old_left, mut new_left, mut number) = (0_u64, 0_u64, 0_u64);
    for line in diff.split('\n') {
        if old_left > 0 || new_left > 0 {
            let (mark, text) = (line.chars().next(), line.get(1..).unwrap_or_default());
            match mark {
                Some('-') => old_left = old_left.saturating_sub(1),
                Some('\\') => {}
                Some('+') | Some(' ') | None => {
                    if mark != Some('+') {
                        old_left = old_left.saturating_sub(1);
                    }
                    new_left = new_left.saturating_sub(1);
                    if let Some(path) = &path {
                        let lines = side.entry(path.clone()).or_default();
                        lines.insert(number, (text.trim_end_matches('\r').to_owned(), mark == Some('+')));
                    }
                    number += 1;
                }
                Some(_) => (old_left, new_left) = (0, 0),
            }
            continue;
        }
        if let Some(name) = line.strip_prefix("+++ ") {
            path = git_name::of_header(name).strip_prefix("b/").map(str::to_owned);
        } else if let Some(hunk) = Hunk::at(line) {
            (old_left, new_left, number) = (hunk.old_lines, hunk.lines, hunk.start);
        }
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_ends_where_the_numbers_do() {
        let diff = "+++ b/a\n@@ -3 +3,2 @@ fn x()\n+one\n two\n@@ -8,0 +9,1 @@\n+three\n";
        let side = new_side(diff);
        let of = |line| hunk(&side["a"], line);
        assert_eq!((of(3), of(4), of(9), of(5)), (Some(3..=4), Some(3..=4), Some(9..=9), None));
        assert_eq!(Hunk::at("@@ -3 +3,2 @@ fn x()").map(|hunk| hunk.end()), Some(4));
        assert_eq!((Hunk::at("@@ x"), Hunk::at("@@ -1,2 +a @@")), (None, None));
    }
}
