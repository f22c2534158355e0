//! Makes text from a model, a tool or a file harmless for a terminal and a CI log.
//!
//! Nothing is dropped: characters that could act are shown in escaped form.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Tells whether a terminal could act on this character, or a reader be deceived by it.
///
/// The newline and the tab are harmless; ESC, CR and all other C0 and C1 controls, DEL, the marks that turn the writing
/// direction, and the invisible tag characters are not.
pub fn is_active(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

/// Shows active characters as `\u{1b}`; a CR before a newline goes, since it says nothing on a screen.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => safe.push_str("\\r"),
            c if is_active(c) => {
                let _ = write!(safe, "\\u{{{:x}}}", c as u32);
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// As [`escape`], on one line: newlines and tabs become `\n` and `\t`, and nothing in it is a command of a CI system.
pub fn one_line(text: &str) -> String {
    let text = escape(text);
    let text =
        if text.contains(['\n', '\t']) { text.replace('\n', "\\n").replace('\t', "\\t") } else { text.into_owned() };
    ci_line(&text).into_owned()
}

/// As [`one_line`], cut to a number of characters with `…` at the end.
pub fn one_line_of(text: &str, most: usize) -> String {
    // Escaping only makes text longer, so a huge text can be cut first.
    let head: String = text.chars().take(most.saturating_add(1)).collect();
    let safe = one_line(&head);
    if safe.chars().count() <= most {
        return safe;
    }
    let mut cut: String = safe.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Maximum characters of one word in a message: a path, a URL, a pattern, a key.
const WORD: usize = 300;

/// Maximum characters of one line in a message, including its end.
const LINE: usize = 2000;

/// How many of them are the last ones, which say why.
const LAST: usize = 400;

/// Cuts the values in an error message that nobody can read at that length: of a long word, and of a long line, the
/// beginning stays, with how long the whole is: `xxx… (100000 bytes)`. What a line ends with stays, too.
pub fn brief(message: &str) -> Cow<'_, str> {
    if message.len() <= WORD {
        return Cow::Borrowed(message);
    }
    let line = |line: &str| {
        let words: String = line.split_inclusive(char::is_whitespace).map(brief_word).collect();
        let count = words.chars().count();
        if count <= LINE {
            return words;
        }
        let first: String = words.chars().take(LINE - LAST).collect();
        let last: String = words.chars().skip(count - LAST).collect();
        format!("{first}… ({} bytes) …{last}", line.len())
    };
    Cow::Owned(message.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

fn brief_word(word: &str) -> Cow<'_, str> {
    if word.chars().nth(WORD).is_none() {
        return Cow::Borrowed(word);
    }
    let value = word.trim().trim_matches(['\'', '"', '`', '(', ')', ',', ';', ':', '.']);
    // A word of nothing but such signs is a value itself.
    let value = if value.chars().nth(WORD).is_none() { word.trim() } else { value };
    let (before, rest) = word.split_at(word.find(value).unwrap_or(0));
    let first: String = value.chars().take(WORD).collect();
    Cow::Owned(format!("{before}{first}… ({} bytes){}", value.len(), &rest[value.len()..]))
}

/// Escapes a line that a CI system would obey as a command.
///
/// GitHub acts on lines that begin with `::` after any spaces, and on `##[` anywhere; Azure and TeamCity on `##vso[`
/// and `##teamcity[`.
pub fn ci_line(line: &str) -> Cow<'_, str> {
    let broken = break_hash_commands(line, "## ");
    if broken.trim_start().starts_with("::") { Cow::Owned(format!("| {broken}")) } else { broken }
}

/// As [`ci_line`], for each line of a text.
pub fn ci_text(text: &str) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(ci_line).collect::<Vec<_>>().join("\n"))
}

/// Replaces `##` by `with` where `[` or a word and `[` follow.
pub(super) fn break_hash_commands<'a>(text: &'a str, with: &str) -> Cow<'a, str> {
    if !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut broken = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find("##") {
        let (before, from) = rest.split_at(at);
        let after = &from[2..];
        let word = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
        broken.push_str(before);
        if after[word..].starts_with('[') {
            broken.push_str(with);
            rest = after;
        } else {
            // One character only: the second `#` may begin the next pair.
            broken.push('#');
            rest = &from[1..];
        }
    }
    broken.push_str(rest);
    Cow::Owned(broken)
}

/// Puts a space before each line that a patch could begin with, so that an answer cannot pass for one.
pub fn not_a_patch(text: &str) -> Cow<'_, str> {
    const BEGINNINGS: [&str; 4] = ["diff --git ", "--- ", "+++ ", "@@ "];
    let is_one = |line: &str| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning));
    if !text.split('\n').any(is_one) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text
        .split('\n')
        .map(|line| if is_one(line) { Cow::Owned(format!(" {line}")) } else { Cow::Borrowed(line) })
        .collect();
    Cow::Owned(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_act_is_shown_as_what_it_is() {
        for (text, safe) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\r\nb\rc", "a\nb\\rc"),
            ("x\u{9b}2J", "x\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("bell\u{7}\u{7f}", "bell\\u{7}\\u{7f}"),
            ("äöü 漢字 🦀", "äöü 漢字 🦀"),
        ] {
            assert_eq!(escape(text), safe, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_ci_would_obey_is_only_printed() {
        for (line, safe) in [
            ("::set-output name=x::y", "| ::set-output name=x::y"),
            ("  ::add-mask::x", "|   ::add-mask::x"),
            ("a ::b", "a ::b"),
            ("text ##[error]x", "text ## [error]x"),
            ("##vso[task.setvariable]", "## vso[task.setvariable]"),
            ("###[x]", "### [x]"),
            ("## Heading", "## Heading"),
        ] {
            assert_eq!(ci_line(line), safe, "{line:?}");
        }
    }

    #[test]
    fn an_answer_cannot_pass_for_a_patch() {
        assert_eq!(
            not_a_patch("ok\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a"),
            "ok\n diff --git a/x b/x\n --- a/x\n +++ b/x\n @@ -1 +1 @@\n-a"
        );
    }

    #[test]
    fn cutting_keeps_within_the_length() {
        assert_eq!(one_line_of("abcdef", 4), "abc…");
        assert_eq!(one_line_of("abcd", 4), "abcd");
        assert_eq!(one_line_of("a\nb", 10), "a\\nb");
    }

    #[test]
    fn a_long_value_is_cut_and_the_sentence_around_it_stays() {
        let long = "x".repeat(100_000);
        let cut = format!("{}… (100000 bytes)", "x".repeat(WORD));
        for (message, brief_one) in [
            ("invalid value 'LONG' for '--flag'; see help", "invalid value 'CUT' for '--flag'; see help"),
            ("policy LONG: File name too long", "policy CUT: File name too long"),
            ("first\n  key `LONG`, line 2\n\nlast", "first\n  key `CUT`, line 2\n\nlast"),
            ("short", "short"),
        ] {
            assert_eq!(brief(&message.replace("LONG", &long)), brief_one.replace("CUT", &cut), "{message}");
        }
        let words = format!("`{}` is not a pattern", "a b ".repeat(25_000));
        let said = brief(&words);
        assert!(said.contains("… (100019 bytes) …") && said.ends_with("` is not a pattern"), "{said}");
        assert!(said.chars().count() < LINE + 40);
        let punctuation = ".".repeat(100_000);
        assert!(brief(&punctuation).len() < 400 && brief(&punctuation).ends_with("(100000 bytes)"));
        assert_eq!(brief(&"漢".repeat(WORD)), "漢".repeat(WORD), "a language without blanks is not a long value");
    }

    proptest! {
        #[test]
        fn no_active_character_survives(text in "(.|[\\x00-\\x1f]|\u{9b}|\u{202e}|##\\[|::|\n)*") {
            let safe = one_line(&text);
            prop_assert!(!safe.contains(is_active), "{safe:?}");
            prop_assert!(!safe.contains('\n'));
            prop_assert!(!safe.contains("##["));
            prop_assert!(!safe.trim_start().starts_with("::"));
        }
    }
}
