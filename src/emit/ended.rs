//! Lays out how a command ended: one line with a mark, details below it, and the commands that may come next.

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

use super::appearance::{Appearance, BOLD, GREEN, RED, YELLOW};
use super::safe::one_line;

/// Columns of what a command is for, up to which the commands stand below each other.
const SHORT_LABEL: usize = 20;

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It failed.
    Bad,
    /// It needs a second look.
    Partly,
    /// It is so, neither good nor bad.
    Note,
    /// It is as it should be.
    Good,
}

impl Mark {
    /// Returns the mark as it is shown, with its colour.
    pub fn shown(self, look: &Appearance) -> (Style, &'static str) {
        match (self, look.ascii) {
            (Mark::Good, false) => (GREEN, "✓"),
            (Mark::Partly, false) => (YELLOW, "!"),
            (Mark::Bad, false) => (RED, "✗"),
            (Mark::Note, _) => (Style::new(), "-"),
            (Mark::Good, true) => (GREEN, "ok:"),
            (Mark::Partly, true) => (YELLOW, "warning:"),
            (Mark::Bad, true) => (RED, "error:"),
        }
    }
}

/// How a command ended, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it went.
    pub mark: Mark,
    /// The first line.
    pub headline: String,
    /// Files, each with what happened to it.
    pub files: Vec<(String, String)>,
    /// Sentences below them.
    pub notes: Vec<String>,
    /// Commands to go on with, each with what it is for.
    pub next: Vec<(&'static str, String)>,
}

impl Ended {
    /// Returns the text for people. A line that is not a command is broken where a terminal ends.
    pub fn text(&self, look: &Appearance) -> String {
        let mut lines = headline(self.mark, &self.headline, look);
        let path = |path: &str| one_line(path);
        let widest = self.files.iter().map(|(file, _)| path(file).width()).max().unwrap_or(0);
        for (file, about) in &self.files {
            let about = one_line(about);
            let most = look.width.saturating_sub(about.width() + 4);
            let shown = path(file);
            let shown = look.cut_beginning(&shown, most);
            let gap = widest.min(most) - shown.width();
            lines.push(format!("  {shown}{:gap$}  {}", "", look.counted(&about)).trim_end().to_owned());
        }
        lines.extend(self.notes.iter().flat_map(|note| indented(note, look)));
        lines.extend(commands(&self.next, look));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// Returns the first line with its mark, and what does not fit into it.
pub(super) fn headline(mark: Mark, text: &str, look: &Appearance) -> Vec<String> {
    let (style, mark) = mark.shown(look);
    let columns = look.width.saturating_sub(mark.width() + 1);
    let mut lines = look.wrap(&one_line(text), columns).into_iter();
    let first = format!("{} {}", look.paint(style, mark), look.paint(BOLD, &lines.next().unwrap_or_default()));
    let rest: Vec<String> = lines.collect();
    std::iter::once(first).chain(rest.iter().flat_map(|line| indented(line, look))).collect()
}

/// Returns a text below the first line.
pub(super) fn indented(text: &str, look: &Appearance) -> Vec<String> {
    look.wrap(&one_line(text), look.width.saturating_sub(2)).into_iter().map(|line| format!("  {line}")).collect()
}

/// Returns the commands to go on with, each with what it is for. They are never broken: one that does not fit beside
/// what it is for stands below it.
pub(super) fn commands(next: &[(&'static str, String)], look: &Appearance) -> Vec<String> {
    let widths = next.iter().map(|(label, _)| label.width());
    let widest = widths.filter(|width| *width <= SHORT_LABEL).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (label, command) in next {
        let (command, gap) = (one_line(command), widest.saturating_sub(label.width()));
        let painted = look.paint(BOLD, &command);
        if label.width() + gap + command.width() + 5 <= look.width {
            lines.push(format!("  {label}:{:gap$}  {painted}", ""));
        } else {
            lines.extend(indented(&format!("{label}:"), look));
            lines.push(format!("    {painted}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stand_in_a_column_and_a_long_path_keeps_its_end() {
        let look = Appearance { width: 40, ascii: false, colour: false };
        let long = format!("{}/end.rs", "deep".repeat(20));
        let ended = Ended {
            mark: Mark::Good,
            headline: "3 files changed, +12 -4, with a headline that is too long".into(),
            files: vec![
                ("README.md".into(), "+1 -1".into()),
                (long, "new  +3".into()),
                ("a\u{1b}b".into(), String::new()),
            ],
            notes: vec!["a note that is longer than the terminal is wide".into()],
            next: vec![("undo it", "qwen undo".into()), ("look", "qwen x".into())],
        };
        insta::assert_snapshot!(ended.text(&look));
        let ascii = ended.text(&Appearance { ascii: true, ..look });
        assert!(ascii.is_ascii() && ascii.starts_with("ok: 3 files"), "{ascii}");
    }
}
