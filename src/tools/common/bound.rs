//! Bounds what a call returns: the beginning and the end are kept, the middle is dropped, and a file keeps the full
//! text.

use std::path::Path;

use crate::tools::{ToolContext, ToolLimits};
use crate::workspace::{Workspace, outputs};

/// Returns `text` if it is within the limits, else its first fifth and last four fifths at line borders, a marker
/// that says what is missing between them, and the full copy under `limits.outputs`.
pub fn bound(text: &str, cx: &ToolContext<'_>) -> String {
    cx.workspace.notice(text.as_bytes(), false);
    within(text, cx.limits, &|at| cx.workspace.cut_at(text, at))
}

/// Characters shown of a line.
const LINE_CHARS: usize = 2_000;

/// Returns what is shown of a line that is too long, without a part of a secret at its end; `None` of one that is shown whole.
pub fn line<'t>(line: &'t str, workspace: &Workspace) -> Option<&'t str> {
    let (end, _) = line.char_indices().nth(LINE_CHARS)?;
    Some(&line[..workspace.cut_at(line, end).0])
}

/// Where a text can be cut: the end of what is before a place, and the beginning of what is behind it.
type CutAt<'c> = &'c dyn Fn(usize) -> (usize, usize);

fn within(text: &str, limits: &ToolLimits, cut_at: CutAt<'_>) -> String {
    let Some(cut) = cut(text, (limits.output_chars, limits.output_lines), cut_at) else { return text.to_owned() };
    let kept = match outputs::keep(&limits.outputs, text.as_bytes()) {
        Ok(path) => kept_at(&path),
        Err(error) => format!("The full output could not be kept: {error}."),
    };
    cut.with_note(&kept)
}

fn kept_at(path: &Path) -> String {
    format!("The full output is in {}; read_file shows it.", super::names::one_line(path))
}

/// A text with its middle left out.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The beginning; whole lines where there are any.
    pub head: &'a str,
    /// The end; whole lines where there are any.
    pub tail: &'a str,
    /// Characters left out.
    pub missing_chars: usize,
    /// Lines left out, a line cut in two included.
    pub missing_lines: usize,
}

impl Cut<'_> {
    fn with_note(&self, note: &str) -> String {
        let Cut { head, tail, missing_chars, missing_lines } = self;
        let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{gap}... [{missing_lines} lines, {missing_chars} characters left out. {note}] ...\n{tail}")
    }
}

/// Cuts the middle out of a text of more than `chars` characters or `lines` lines; `None` if it is within both.
pub fn cut<'t>(text: &'t str, (chars, lines): (usize, usize), cut_at: CutAt<'_>) -> Option<Cut<'t>> {
    let too_long = text.len() > chars && text.chars().count() > chars;
    if !too_long && text.lines().count() <= lines {
        return None;
    }
    let head = head_of(text, chars / 5, lines / 5);
    let tail = tail_of(&text[head.len()..], chars - chars / 5, lines - lines / 5);
    let (end, start) = (cut_at(head.len()).0, cut_at(text.len() - tail.len()).1);
    let (head, tail) = (&text[..end], &text[start..]);
    let missing = &text[end..start];
    Some(Cut { head, tail, missing_chars: missing.chars().count(), missing_lines: missing.lines().count() })
}

fn head_of(text: &str, chars: usize, lines: usize) -> &str {
    let text = &text[..text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)];
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).take(lines).collect();
    // A single line longer than the limit is cut inside: something of it is better than nothing.
    match ends.last() {
        Some(end) => &text[..*end],
        None if lines == 0 => "",
        None => text,
    }
}

fn tail_of(text: &str, chars: usize, lines: usize) -> &str {
    if chars == 0 || lines == 0 {
        return "";
    }
    let start = text.char_indices().rev().nth(chars - 1).map_or(0, |(at, _)| at);
    let tail = &text[start..];
    let body = tail.strip_suffix('\n').unwrap_or(tail);
    let by_lines = body.rmatch_indices('\n').nth(lines - 1).map(|(at, _)| at + 1);
    let at_border = start == 0 || text[..start].ends_with('\n');
    let by_chars = if at_border { 0 } else { body.find('\n').map_or(0, |at| at + 1) };
    &tail[by_lines.unwrap_or(0).max(by_chars)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn r48_the_marker_counts_what_is_missing_and_names_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let limits = ToolLimits { output_chars: 1000, output_lines: 5, ..crate::tools::tests::limits(folder.path()) };
        let text: String = (1..=10).map(|n| format!("line {n}\n")).collect();
        let bounded = within(&text, &limits, &|at| (at, at)).replace(&folder.path().display().to_string(), "OUT");
        insta::assert_snapshot!(bounded, @r"
        line 1
        ... [5 lines, 35 characters left out. The full output is in OUT/output-1.txt; read_file shows it.] ...
        line 7
        line 8
        line 9
        line 10
        ");
        assert_eq!(std::fs::read_to_string(folder.path().join("output-1.txt")).unwrap(), text);
        assert_eq!(within("short", &limits, &|at| (at, at)), "short");
    }

    #[test]
    fn one_huge_line_is_cut_inside() {
        let text = "ä".repeat(100);
        let cut = cut(&text, (10, 10), &|at| (at, at)).unwrap();
        assert_eq!((cut.head.chars().count(), cut.tail.chars().count(), cut.missing_chars), (2, 8, 90));
    }

    proptest! {
        #[test]
        fn r48_a_cut_loses_only_its_middle(text in "[aä\\n]{0,80}", chars in 0..40usize, lines in 0..10usize) {
            if let Some(cut) = cut(&text, (chars, lines), &|at| (at, at)) {
                prop_assert!(text.starts_with(cut.head) && text.ends_with(cut.tail));
                prop_assert!(cut.head.chars().count() + cut.tail.chars().count() <= chars);
                prop_assert!(cut.head.lines().count() + cut.tail.lines().count() <= lines + 1);
                prop_assert_eq!(cut.head.chars().count() + cut.missing_chars + cut.tail.chars().count(), text.chars().count());
            }
        }
    }
}
