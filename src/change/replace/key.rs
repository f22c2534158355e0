//! Computes the part of a text that is compared when whitespace and look-alike characters are ignored.

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A text without whitespace and invisible characters, with plain characters for look-alikes, its lines ended by `\n`.
pub(super) struct Key {
    text: String,
    /// What the key is made of, in order.
    runs: Vec<Run>,
}

/// A part of a key.
struct Run {
    /// Where it begins in the key.
    key: usize,
    /// Where it begins in the source.
    source: usize,
    /// Whether it stands for one group of characters; otherwise each of its bytes is itself.
    is_group: bool,
}

impl Key {
    /// Makes the key of a source. `ended` gives an end to a last line that has none.
    pub(super) fn new(source: &str, ended: bool) -> Key {
        let mut key = Key { text: String::with_capacity(source.len()), runs: Vec::with_capacity(source.len() / 4) };
        let bytes = source.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let plain = rest.iter().take_while(|byte| byte.is_ascii() && !matches!(byte, b' ' | b'\t' | b'\r')).count();
            // What follows may belong to the last of them.
            let plain =
                if rest.get(plain).is_some_and(|next| !next.is_ascii()) { plain.saturating_sub(1) } else { plain };
            if plain > 0 {
                key.push(at, &source[at..at + plain], false);
                at += plain;
            } else if matches!(rest, [b' ' | b'\t', next, ..] if next.is_ascii()) {
                at += 1;
            } else {
                let (length, shown) = group(&source[at..]);
                key.push(at, &shown, true);
                at += length;
            }
        }
        if ended && !source.is_empty() && !source.ends_with('\n') {
            key.push(source.len(), "\n", true);
        }
        key
    }

    fn push(&mut self, source: usize, shown: &str, is_group: bool) {
        if !shown.is_empty() {
            self.runs.push(Run { key: self.text.len(), source, is_group });
            self.text.push_str(shown);
        }
    }

    /// Returns every place of another key in this one, overlapping ones too, that splits no group.
    pub(super) fn find(&self, other: &str) -> Option<Vec<Range<usize>>> {
        let whole = |at: usize| at == self.text.len() || !self.run(at).is_group || self.run(at).key == at;
        let found = few_occurrences(&self.text, other)?.into_iter().map(|at| at..at + other.len());
        Some(found.filter(|range| whole(range.start) && whole(range.end)).collect())
    }

    /// Returns where the group of a place begins in the source.
    pub(super) fn start(&self, at: usize) -> usize {
        let run = self.run(at);
        if run.is_group { run.source } else { run.source + (at - run.key) }
    }

    fn run(&self, at: usize) -> &Run {
        &self.runs[self.runs.partition_point(|run| run.key <= at) - 1]
    }
}

/// Bytes of places that are compared. Places that do not overlap never have so many; those that do, such as a long part
/// of a repetition, would take hours.
pub(super) const MOST_COMPARED: usize = 1 << 27;

/// Returns every place of `needle`, overlapping ones too; none if it is empty. `None`: there are too many to compare.
pub(super) fn few_occurrences(text: &str, needle: &str) -> Option<Vec<usize>> {
    let most = MOST_COMPARED / needle.len().max(1);
    let found: Vec<usize> = occurrences(text, needle).take(most + 1).collect();
    (found.len() <= most).then_some(found)
}

/// Returns every place of `needle`, overlapping ones too; none if it is empty.
pub(super) fn occurrences<'t>(text: &'t str, needle: &'t str) -> impl Iterator<Item = usize> + 't {
    /// Bytes that are looked for before the rest is compared.
    const PROBE: usize = 32;
    /// Comparisons in vain from which on the search must be one that hostile text does not slow down.
    const PATIENCE: usize = 100;
    let longest = needle.split('\n').max_by_key(|line| line.len()).filter(|line| !line.is_empty());
    let probe = longest.map_or("\n", |line| &line[..line.floor_char_boundary(PROBE)]);
    let before = needle.find(probe);
    // The engine looks at many bytes at once for the rarest of a literal, the standard library at one after the other.
    let engine = Regex::new(&regex::escape(probe)).expect("an escaped literal is an expression");
    let step = needle.chars().next().map_or(1, char::len_utf8);
    let (mut from, mut in_vain) = (0, 0);
    std::iter::from_fn(move || {
        let before = before?;
        while in_vain < PATIENCE && from + before <= text.len() {
            let at = engine.find_at(text, from + before)?.start() - before;
            if text.get(at..).is_some_and(|rest| rest.starts_with(needle)) {
                from = at + step;
                return Some(at);
            }
            (from, in_vain) = (at + 1, in_vain + 1);
        }
        let rest = text.ceil_char_boundary(from.min(text.len()));
        let at = rest + text[rest..].find(needle)?;
        from = at + step;
        Some(at)
    })
}

/// Returns the key of a text alone.
pub(super) fn key_of(text: &str) -> String {
    Key::new(text, false).text
}

/// Splits off the first group of characters that belong together: its length, and what stands for it in a key.
pub(super) fn group(rest: &str) -> (usize, Cow<'_, str>) {
    let mut chars = rest.char_indices();
    let Some((_, first)) = chars.next() else { return (0, Cow::Borrowed("")) };
    if rest.starts_with("\r\n") {
        return (2, Cow::Borrowed("\n"));
    }
    if is_blank_char(first) || is_invisible(first) {
        return (first.len_utf8(), Cow::Borrowed(""));
    }
    let joins = |c: char| is_combining_mark(c) || ('\u{1160}'..='\u{11ff}').contains(&c);
    let length = chars.find(|(_, c)| !joins(*c)).map_or(rest.len(), |(at, _)| at);
    if first.is_ascii() && length == 1 {
        return (1, Cow::Borrowed(&rest[..1]));
    }
    let mut shown = String::new();
    for c in rest[..length].nfc() {
        match look_alike(c) {
            Some('\u{2026}') => shown.push_str("..."),
            plain => shown.push(plain.unwrap_or(c)),
        }
    }
    (length, Cow::Owned(shown))
}

/// Returns the text with plain characters for look-alikes, spaces for typographic spaces, and no invisible characters.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (length, key) = group(&text[at..]);
        match text[at..].chars().next() {
            Some(c @ (' ' | '\t')) => shown.push(c),
            Some(c) if is_blank_char(c) => shown.push(' '),
            _ => shown.push_str(&key),
        }
        at += length;
    }
    shown
}

/// Returns the plain character that a typographic one looks like; an ellipsis stands for itself, as it is three.
pub(super) fn look_alike(c: char) -> Option<char> {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' => Some('\''),
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' => Some('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => Some('-'),
        '\u{2026}' => Some(c),
        _ => None,
    }
}

/// Tells whether a character is white space within a line.
pub(super) fn is_blank_char(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_typographic_blank(c)
}

/// Tells whether a character looks like a space but is not one.
pub(super) fn is_typographic_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// Tells whether a character takes no room.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Tells whether a line shows nothing.
pub(super) fn is_blank(line: &str) -> bool {
    line.chars().all(|c| is_blank_char(c) || is_invisible(c))
}

/// Splits a line into its indentation and the rest.
pub(super) fn indented(line: &str) -> (&str, &str) {
    line.split_at(line.len() - line.trim_start_matches(|c| is_blank_char(c) || is_invisible(c)).len())
}

/// Returns a line without the spaces at its end.
pub(super) fn trim_end(line: &str) -> &str {
    line.trim_end_matches(|c| is_blank_char(c) || is_invisible(c))
}
