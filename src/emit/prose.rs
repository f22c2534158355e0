//! Shows Markdown at a terminal, lightly: headings, emphasis, code, lists. Everything else is text.

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use super::appearance::{Appearance, BOLD};
use super::safe::escape;

/// The widest paragraph.
const WIDEST: usize = 100;

const CODE: Style = AnsiColor::Cyan.on_default();

/// Shows a text.
pub(super) fn prose(text: &str, look: &Appearance) -> String {
    shown(text, look, false)
}

/// Shows a page of the manual, whose paragraphs are joined before they are wrapped.
pub fn manual_page(text: &str, look: &Appearance) -> String {
    shown(text, look, true)
}

fn shown(text: &str, look: &Appearance, joins: bool) -> String {
    let text = escape(text);
    let (out, line, lists) = (String::new(), Vec::new(), Vec::new());
    let mut shown = Shown { look, joins, out, line, bold: 0, lists, marker: None, code: false };
    for event in Parser::new(&text) {
        shown.event(event);
    }
    shown.flush();
    shown.out
}

struct Shown<'a> {
    look: &'a Appearance,
    /// Whether a line break in a paragraph is a space; the rows of a table stay lines.
    joins: bool,
    out: String,
    /// The words of the line that is being put together.
    line: Vec<(Style, String)>,
    bold: usize,
    /// The lists that are open: the number of the next item, or none where they have bullets.
    lists: Vec<Option<u64>>,
    /// What the next line begins with.
    marker: Option<String>,
    code: bool,
}

impl Shown<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => {
                for line in text.lines() {
                    self.out.push_str(format!("{}  {line}", self.indent()).trim_end());
                    self.out.push('\n');
                }
            }
            Event::Text(text) | Event::InlineHtml(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let style = if self.bold > 0 { BOLD } else { Style::new() };
                self.line.push((style, text.into_string()));
            }
            Event::Html(text) => {
                for line in text.lines() {
                    self.line.push((Style::new(), line.to_owned()));
                    self.flush();
                }
            }
            Event::Code(text) if self.look.colour => self.line.push((CODE, text.into_string())),
            Event::Code(text) => self.line.push((Style::new(), format!("`{text}`"))),
            // Lines that a model broke stay broken: it means tables and lists of its own by that.
            Event::SoftBreak if self.joins && !self.line.first().is_some_and(|(_, text)| text.starts_with('|')) => {
                self.line.push((Style::new(), " ".to_owned()));
            }
            Event::SoftBreak | Event::HardBreak => self.flush(),
            Event::Rule => {
                self.gap();
                self.out.push_str("---\n");
            }
            Event::FootnoteReference(name) => self.line.push((Style::new(), format!("[^{name}]"))),
            Event::TaskListMarker(done) => {
                self.line.push((Style::new(), if done { "[x] " } else { "[ ] " }.to_owned()));
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::BlockQuote(_) | Tag::HtmlBlock => self.gap(),
            Tag::Heading { .. } => {
                self.gap();
                self.bold += 1;
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.gap();
                self.code = true;
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                });
            }
            Tag::Strong => self.bold += 1,
            Tag::Image { dest_url, title: _, .. } => self.line.push((Style::new(), format!("[image {dest_url}] "))),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.bold -= 1;
            }
            TagEnd::CodeBlock => self.code = false,
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Strong => self.bold -= 1,
            _ => {}
        }
    }

    /// Separates a block from the one before it; not the first one of an item from its marker.
    fn gap(&mut self) {
        self.flush();
        if self.marker.is_none() && !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn indent(&self) -> String {
        "  ".repeat(self.lists.len())
    }

    /// Writes the line that was put together, in as many lines as it needs.
    fn flush(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let pieces = std::mem::take(&mut self.line);
        let depth = self.lists.len().saturating_sub(1);
        let (first, rest) = match self.marker.take() {
            Some(marker) => {
                let before = format!("{}{marker}", "  ".repeat(depth));
                let after = " ".repeat(before.width());
                (before, after)
            }
            None => (self.indent(), self.indent()),
        };
        let columns = self.look.width.min(WIDEST);
        let mut line = first.clone();
        let mut used = first.width();
        let mut is_first = true;
        for (style, word, glued) in words(&pieces) {
            let gap = usize::from(!glued && !is_first);
            if !glued && !is_first && used + gap + word.width() > columns {
                self.out.push_str(line.trim_end());
                self.out.push('\n');
                line.clone_from(&rest);
                used = rest.width();
            } else if gap == 1 {
                line.push(' ');
                used += 1;
            }
            line.push_str(&self.look.paint(style, &word));
            used += word.width();
            is_first = false;
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }
}

/// Splits styled text into words; `true`: it is glued to the one before it.
fn words(pieces: &[(Style, String)]) -> Vec<(Style, String, bool)> {
    let mut words: Vec<(Style, String, bool)> = Vec::new();
    let mut blank = true;
    for (style, text) in pieces {
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if !word.is_empty() {
                words.push((*style, word.to_owned(), !blank));
            }
            blank = piece.len() > word.len() || (word.is_empty() && blank);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> String {
        prose(text, &Appearance { width, ascii: false, colour: false })
    }

    #[test]
    fn markdown_reads_as_text() {
        let text = "# Done\n\nI changed `Helo` to `Hello` in **src/lib.rs**.\n\n- one line changed\n- the test `greets` covers it\n\n```rust\nfn a() {}\n```\n\n1. first\n2. second";
        insta::assert_snapshot!(shown(text, 80), @r"
        Done

        I changed `Helo` to `Hello` in src/lib.rs.

        - one line changed
        - the test `greets` covers it

          fn a() {}

        1. first
        2. second
        ");
    }

    #[test]
    fn a_page_joins_the_lines_of_a_paragraph_and_keeps_the_rows_of_a_table() {
        let look = Appearance { width: 40, ascii: false, colour: false };
        assert_eq!(
            manual_page("one\n`two`\nthree\n\n| a |\n|---|\n| 1 |", &look),
            "one `two` three\n\n| a |\n|---|\n| 1 |\n"
        );
        assert_eq!(prose("one\ntwo", &look), "one\ntwo\n");
    }

    #[test]
    fn a_paragraph_is_wrapped_and_an_item_hangs() {
        assert_eq!(shown("one two three four", 10), "one two\nthree four\n");
        assert_eq!(shown("- one two three four", 12), "- one two\n  three four\n");
        assert_eq!(shown("a **b**c, d", 40), "a bc, d\n");
    }

    #[test]
    fn nothing_acts_and_no_text_is_lost() {
        let shown =
            shown("<b>x</b> \u{1b}[31m ![alt](u) [name](https://e.example)\n\n| a | b |\n|---|---|\n| 1 | 2 |", 80);
        assert_eq!(shown, "<b>x</b> \\u{1b}[31m [image u] alt name\n\n| a | b |\n|---|---|\n| 1 | 2 |\n");
    }

    #[test]
    fn colours_mark_code_and_what_is_bold() {
        let shown = prose("**b** `c`", &Appearance { width: 80, ascii: false, colour: true });
        assert_eq!(shown, "\u{1b}[1mb\u{1b}[0m \u{1b}[36mc\u{1b}[0m\n");
    }
}
