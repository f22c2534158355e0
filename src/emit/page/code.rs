//! Shows lines of code: old and new beside each other or below each other, with changed words and colours.

use std::ops::Range;

use maud::{Markup, html};
use similar::{Algorithm, ChangeTag, DiffTag, TextDiff};

use super::colour::{Coloured, Colours};
use crate::emit::safe::escape;
use crate::emit::shown_diff::{are_small, only_indented};

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// In both contents.
    Both,
    /// Removed.
    Old,
    /// Added.
    New,
}

/// Lines of one content, ready to be shown.
pub(super) struct Lines {
    texts: Vec<String>,
    colours: Vec<Coloured>,
    marks: Vec<Vec<Range<usize>>>,
}

impl Lines {
    /// Prepares the lines of a file.
    pub(super) fn new(path: &str, lines: &[Vec<u8>], colours: &mut Colours) -> Lines {
        Lines::of(path, lines.iter().map(|line| escape(&String::from_utf8_lossy(line)).into_owned()).collect(), colours)
    }

    /// Prepares a text that stands for lines of a file.
    pub(super) fn of_text(path: &str, text: &str, colours: &mut Colours) -> Lines {
        Lines::of(path, escape(text).split_inclusive('\n').map(str::to_owned).collect(), colours)
    }

    fn of(path: &str, texts: Vec<String>, colours: &mut Colours) -> Lines {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let colours = colours.of(path, &borrowed);
        let marks = vec![Vec::new(); texts.len()];
        Lines { texts, colours, marks }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Shows one line with its numbers.
    pub(super) fn line(&self, at: usize, side: Side, old: Option<usize>, new: Option<usize>) -> Markup {
        let number = |number: Option<usize>| format!("{:>4}", number.map_or(String::new(), |n| n.to_string()));
        let (has_old, has_new) = (side != Side::New, side != Side::Old);
        html! {
            p data-o=[has_old.then(|| number(old))] data-n=[has_new.then(|| number(new))] {
                (self.pieces(at, side))
                @if !self.texts[at].ends_with('\n') { span.nonl { " (no newline at the end of the file)" } }
            }
        }
    }

    /// Cuts a line where its colour changes, or where changed words begin and end.
    fn pieces(&self, at: usize, side: Side) -> Markup {
        let text = self.texts[at].trim_end_matches('\n');
        let (colours, marks) = (&self.colours[at], &self.marks[at]);
        let mut cuts = vec![0, text.len()];
        cuts.extend(colours.iter().flat_map(|(range, _)| [range.start, range.end]));
        cuts.extend(marks.iter().flat_map(|range| [range.start, range.end]));
        cuts.retain(|cut| *cut <= text.len());
        cuts.sort_unstable();
        cuts.dedup();
        let pieces = cuts.windows(2).map(|cut| {
            let piece = &text[cut[0]..cut[1]];
            let class = colours.iter().find(|(range, _)| range.contains(&cut[0])).map(|(_, class)| *class);
            let is_marked = marks.iter().any(|range| range.contains(&cut[0]));
            (piece, class, is_marked)
        });
        html! {
            @for (piece, class, is_marked) in pieces {
                @match (class, is_marked, side) {
                    (Some(class), true, Side::New) => i class=(class) { ins { (piece) } },
                    (Some(class), true, _) => i class=(class) { del { (piece) } },
                    (Some(class), false, _) => i class=(class) { (piece) },
                    (None, true, Side::New) => ins { (piece) },
                    (None, true, _) => del { (piece) },
                    (None, false, _) => (piece),
                }
            }
        }
    }
}

/// Marks the words that differ in lines that replace others.
pub(super) fn mark_words(old: &mut Lines, was: Range<usize>, new: &mut Lines, is: Range<usize>) {
    fn borrowed(lines: &[String]) -> Vec<&str> {
        lines.iter().map(String::as_str).collect()
    }
    let (old_texts, new_texts) = (borrowed(&old.texts[was.clone()]), borrowed(&new.texts[is.clone()]));
    if old_texts.is_empty() || new_texts.is_empty() || !are_small(&old_texts) || !are_small(&new_texts) {
        return;
    }
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_slices(&old_texts, &new_texts);
    let mut found = Vec::new();
    for operation in diff.ops().iter().filter(|operation| operation.tag() == DiffTag::Replace) {
        if only_indented(&old_texts[operation.old_range()], &new_texts[operation.new_range()]) {
            continue;
        }
        for change in diff.iter_inline_changes_deadline(operation, None) {
            let mut at = 0;
            let mut marks = Vec::new();
            for (is_marked, piece) in change.iter_strings_lossy() {
                let length = piece.trim_end_matches('\n').len();
                if is_marked && length > 0 {
                    marks.push(at..at + length);
                }
                at += piece.len();
            }
            let place = match change.tag() {
                ChangeTag::Delete => change.old_index().map(|index| (true, was.start + index)),
                ChangeTag::Insert => change.new_index().map(|index| (false, is.start + index)),
                ChangeTag::Equal => None,
            };
            found.extend(place.map(|place| (place, marks)));
        }
    }
    drop(diff);
    for ((is_old, at), marks) in found {
        if is_old { old.marks[at] = marks } else { new.marks[at] = marks }
    }
}
