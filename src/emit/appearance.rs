//! Fits text into a terminal: its width, its characters and its colours.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Turn numbers and line numbers.
pub(super) const DIM: Style = Style::new().dimmed();
/// A success, or an added line.
pub(super) const GREEN: Style = AnsiColor::Green.on_default();
/// A failure, or a removed line.
pub(super) const RED: Style = AnsiColor::Red.on_default();
/// What deserves a second look.
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();
/// What is read first.
pub(super) const BOLD: Style = Style::new().bold();

/// The narrowest and the widest terminal that is written for, in columns.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=120;

/// How a terminal shows text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appearance {
    /// Columns.
    pub width: usize,
    /// Whether it shows only ASCII.
    pub ascii: bool,
    /// Whether it shows colours.
    pub colour: bool,
}

impl Appearance {
    /// Reads the environment through `get`: `COLUMNS` before the terminal's own width, and the first of `LC_ALL`,
    /// `LC_CTYPE` and `LANG` that is set for the character set.
    pub fn from_environment(columns: Option<u16>, colour: bool, get: impl Fn(&str) -> Option<String>) -> Appearance {
        let set = |name| get(name).filter(|value| !value.is_empty());
        let asked = set("COLUMNS").and_then(|columns| columns.parse::<usize>().ok());
        let width = asked.or(columns.map(usize::from)).unwrap_or(80);
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
        Appearance {
            width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
            ascii: !locale.contains("utf-8") && !locale.contains("utf8"),
            colour,
        }
    }

    /// Returns a text in a style, where there are colours.
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() && style != Style::new() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Colours `+A` and `-D` among the words of a line.
    pub(super) fn counted(&self, text: &str) -> String {
        let painted = text.split(' ').map(|word| match word.as_bytes().first() {
            Some(b'+') => self.paint(GREEN, word),
            Some(b'-') => self.paint(RED, word),
            _ => word.to_owned(),
        });
        painted.collect::<Vec<_>>().join(" ")
    }

    /// What stands between two parts of a line.
    pub(super) fn separator(&self) -> &'static str {
        if self.ascii { " - " } else { " · " }
    }

    /// What stands before quoted output.
    pub(super) fn bar(&self) -> &'static str {
        if self.ascii { "|" } else { "│" }
    }

    /// What stands for text that is left out.
    pub(super) fn ellipsis(&self) -> &'static str {
        if self.ascii { "..." } else { "…" }
    }

    /// Cuts the end of a line that is wider than `columns`.
    pub(super) fn cut<'a>(&self, text: &'a str, columns: usize) -> Cow<'a, str> {
        if text.width() <= columns {
            return Cow::Borrowed(text);
        }
        let left = columns.saturating_sub(self.ellipsis().width());
        Cow::Owned(format!("{}{}", &text[..fitting(text.char_indices(), left, text.len())], self.ellipsis()))
    }

    /// Cuts the beginning of a line that is wider than `columns`, as paths are: their end says more.
    pub(super) fn cut_beginning<'a>(&self, text: &'a str, columns: usize) -> Cow<'a, str> {
        if text.width() <= columns {
            return Cow::Borrowed(text);
        }
        let left = columns.saturating_sub(self.ellipsis().width());
        let from_end = text.char_indices().rev().map(|(at, c)| (text.len() - at - c.len_utf8(), c));
        let kept = fitting(from_end, left, text.len());
        Cow::Owned(format!("{}{}", self.ellipsis(), &text[text.len() - kept..]))
    }

    /// Breaks a text into lines of at most `columns`, at blanks where there are any.
    pub fn wrap(&self, text: &str, columns: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = String::new();
        for word in text.split_whitespace() {
            let mut word = word;
            if !line.is_empty() && line.width() + 1 + word.width() > columns {
                lines.push(std::mem::take(&mut line));
            }
            // A word that is wider than a line is broken, so that no line is.
            while line.is_empty() && word.width() > columns {
                let end = fitting(word.char_indices(), columns.max(2), word.len());
                lines.push(word[..end].to_owned());
                word = &word[end..];
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() || lines.is_empty() {
            lines.push(line);
        }
        lines
    }
}

/// Returns where the characters that fit into `columns` end, as a number of bytes.
fn fitting(characters: impl Iterator<Item = (usize, char)>, columns: usize, all: usize) -> usize {
    let mut used = 0;
    for (at, c) in characters {
        used += c.width().unwrap_or(0);
        if used > columns {
            return at;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Appearance = Appearance { width: 80, ascii: false, colour: false };
    const ASCII: Appearance = Appearance { width: 80, ascii: true, colour: false };

    #[test]
    fn text_is_cut_by_columns_and_not_by_characters() {
        assert_eq!(WIDE.cut("abcdef", 4), "abc…");
        assert_eq!(ASCII.cut("abcdef", 4), "a...");
        assert_eq!(WIDE.cut("漢字漢字", 5), "漢字…");
        assert_eq!(WIDE.cut("漢字", 4), "漢字");
        assert_eq!(WIDE.cut_beginning("src/a/b.rs", 6), "…/b.rs");
        assert_eq!(WIDE.cut_beginning("a漢字", 4), "…字");
    }

    #[test]
    fn a_text_is_broken_at_blanks_and_a_long_word_where_it_must_be() {
        assert_eq!(WIDE.wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(WIDE.wrap("a 12345678901 b", 5), ["a", "12345", "67890", "1 b"]);
        assert_eq!(WIDE.wrap("", 5), [""]);
    }

    #[test]
    fn the_environment_decides_about_width_and_characters() {
        let of = |variables: &[(&str, &str)], columns| {
            let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
            let found = Appearance::from_environment(columns, false, get);
            (found.width, found.ascii)
        };
        assert_eq!(of(&[("LANG", "de_DE.UTF-8")], Some(100)), (100, false));
        assert_eq!(of(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")], None), (80, true));
        assert_eq!(of(&[("COLUMNS", "60"), ("LC_ALL", ""), ("LC_CTYPE", "C.utf8")], Some(100)), (60, false));
        assert_eq!(of(&[("COLUMNS", "7")], Some(300)), (40, true));
        assert_eq!(of(&[], Some(300)), (120, true));
    }
}
