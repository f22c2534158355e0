//! Escapes untrusted text for markdown that GitHub renders: readable, but inert.
//!
//! A mention would notify somebody, `fixes #1` close an issue, an image tell its server who looks, HTML change the
//! page. Inside code none of these work, so whatever could act is printed as code.

use super::safe::{escape, one_line, one_line_of};

/// Columns after which quoted lines are wrapped: code blocks do not wrap by themselves.
const WIDTH: usize = 110;

/// Returns a text of one line as code.
pub(super) fn code(text: &str) -> String {
    let text = one_line(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.trim().is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// As [`code`], for a cell of a table: there a bar ends the cell, in code, too.
pub(super) fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Returns a text as one line of prose: each word that could act is in code, and markdown characters are escaped. What
/// is between backticks already is code.
pub(super) fn prose(text: &str, most: usize) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = one_line_of(&joined, most);
    let pieces: Vec<&str> = text.split('`').collect();
    let last = pieces.len() - 1;
    let mut out = String::with_capacity(text.len() + 16);
    // Two adjacent code marks would be one longer mark.
    let mut add = |next: &str| {
        if out.ends_with('`') && next.starts_with('`') {
            out.push(' ');
        }
        out.push_str(next);
    };
    for (number, piece) in pieces.into_iter().enumerate() {
        if number % 2 == 1 && number < last && !piece.is_empty() {
            add(&code(piece));
            continue;
        }
        // A backtick without its partner is an apostrophe.
        if number % 2 == 1 && number == last {
            add("'");
        }
        let words: Vec<String> =
            piece.split(' ').map(|word| if could_act(word) { code(word) } else { letters(word) }).collect();
        add(&words.join(" "));
    }
    out
}

/// Returns a text of several lines as a block of code, long lines wrapped; cut after `most` characters.
pub(super) fn block(text: &str, most: usize) -> String {
    let text = escape(text.trim_end());
    let cut: String = text.chars().take(most).collect();
    let fence = "`".repeat(longest_run(&cut).max(2) + 1);
    let wrapped: Vec<String> = cut.split('\n').flat_map(wrap).collect();
    let more = if cut.len() < text.len() { "\n(cut)\n" } else { "" };
    format!("{fence}text\n{}\n{fence}\n{more}", wrapped.join("\n"))
}

/// Tells whether GitHub might make more of a word than letters: a mention, a reference, a link, HTML, code.
fn could_act(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let is_commit = bare.len() >= 7 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lower = word.to_ascii_lowercase();
    word.contains(['@', '#', '<', '>', '`', '&', '$']) || lower.contains("www.") || lower.contains("gh-") || is_commit
        // `scheme:` links, and `:emoji:`.
        || word.trim_end_matches(':').contains(':')
}

/// Makes every mark of markdown a letter.
fn letters(word: &str) -> String {
    let mut text = String::with_capacity(word.len() + 8);
    for c in word.chars() {
        if matches!(c, '\\' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '-' | '!' | '|' | '~' | '=') {
            text.push('\\');
        }
        text.push(c);
    }
    // `1.` and `1)` at the beginning of a line begin a list.
    match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) if at > 0 && text[at..].starts_with('.') => format!("{}\\{}", &text[..at], &text[at..]),
        _ => text,
    }
}

pub(super) fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Breaks a line at its spaces; a word that is longer than a line stays whole.
fn wrap(line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut width = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            lines.push(std::mem::take(&mut current));
            width = 0;
        } else if !current.is_empty() || width > 0 {
            current.push(' ');
            width += 1;
        }
        current.push_str(word);
        width += length.max(1);
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_act_stands_in_code() {
        for (text, shown) in [
            ("An empty list divides by zero.", "An empty list divides by zero."),
            ("ask @octocat, fixes #12", "ask `@octocat,` fixes `#12`"),
            ("see https://evil.example/?x=1", "see `https://evil.example/?x=1`"),
            ("![x](y) *b* [l](m)", "\\!\\[x\\]\\(y\\) \\*b\\* \\[l\\]\\(m\\)"),
            ("<img src=x>", "`<img` `src=x>`"),
        ] {
            let got = prose(text, 500);
            assert!(got.starts_with(shown), "{got}");
        }
        assert_eq!(prose("see deadbeef1 and a::b\nnext", 500), "see `deadbeef1` and `a::b` next");
        assert_eq!(prose("run `qwen recipe list`; it's `odd", 500), "run `qwen recipe list`; it's 'odd");
        assert_eq!(prose("`@a` @b` <c> ``", 500), "`@a` `@b` ` <c> `'");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`a`"), "`` `a` ``");
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(prose("1. first", 500), "1\\. first");
    }

    #[test]
    fn a_block_is_longer_fenced_than_what_it_holds_and_wrapped() {
        let text = block(&format!("```\n{}\u{1b}", "word ".repeat(40)), 1000);
        assert!(text.starts_with("````text\n```\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 10), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert!(block("abcdef", 3).ends_with("(cut)\n"));
        assert_eq!(block("  indented\n\nx", 100), "```text\n  indented\n\nx\n```\n");
    }

    proptest! {
        #[test]
        fn prose_is_one_line_without_anything_that_acts(text in "(@a|#1|<b>|!\\[|\\]\\(|https://x|`|\n|\\||[a-z ]|.)*") {
            let shown = prose(&text, 200);
            let is_one_line = !shown.contains(['\n', '\r', '\u{1b}']);
            prop_assert!(is_one_line);
            // Outside code there is nothing that GitHub acts on.
            let mut outside = String::new();
            let mut rest = shown.as_str();
            while let Some(at) = rest.find('`') {
                outside.push_str(&rest[..at]);
                let run = rest[at..].bytes().take_while(|byte| *byte == b'`').count();
                let fence = "`".repeat(run);
                let after = &rest[at + run..];
                let mut from = 0;
                let end = loop {
                    let Some(found) = after[from..].find(&fence) else { break None };
                    let end = from + found;
                    let length = after[end..].bytes().take_while(|byte| *byte == b'`').count();
                    if length == run { break Some(end) }
                    from = end + length;
                };
                let Some(end) = end else { prop_assert!(false, "an open code mark in {shown:?}"); break };
                rest = &after[end + run..];
            }
            outside.push_str(rest);
            prop_assert!(!outside.contains(['@', '#', '<']), "{shown:?}");
            prop_assert!(!outside.contains("://") && !outside.contains("]("), "{shown:?}");
        }
    }
}
