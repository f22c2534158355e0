//! Parses as much TOML as a command's file needs: keys at the top, and text in its four notations.
//!
//! Numbers, dates, lists and the like are skipped, so that unknown keys do no harm; tables are an error.

use std::fmt;

/// A place in a file, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    line: usize,
    column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlEntry {
    /// The key.
    pub key: String,
    /// What it holds.
    pub value: TomlValue,
    /// Where the key is.
    pub at: Position,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TomlValue {
    /// Text.
    Text(String),
    /// Anything else, on one line.
    Other,
}

/// Reads the keys of a file, in order. The error begins with `line:column: `.
pub fn parse(text: &str) -> Result<Vec<TomlEntry>, String> {
    let text = text.replace("\r\n", "\n");
    let mut reader = Reader { text: &text, at: 0 };
    let mut entries: Vec<TomlEntry> = Vec::new();
    loop {
        reader.skip(|c| c.is_whitespace());
        let at = reader.position(reader.at);
        match reader.peek() {
            None => return Ok(entries),
            Some('#') => reader.skip(|c| c != '\n'),
            Some('[') => return Err(reader.wrong("tables are not used here; write `prompt = \"…\"`")),
            Some(_) => {
                let key = reader.key()?;
                if entries.iter().any(|entry| entry.key == key) {
                    return Err(format!("{at}: `{key}` stands twice"));
                }
                reader.skip(|c| matches!(c, ' ' | '\t'));
                if !reader.take("=") {
                    return Err(reader.wrong(&format!("expected `=` behind `{key}`")));
                }
                reader.skip(|c| matches!(c, ' ' | '\t'));
                let value = reader.value()?;
                entries.push(TomlEntry { key, value, at });
                reader.end_of_line()?;
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, expected: &str) -> bool {
        let found = self.text[self.at..].starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn position(&self, at: usize) -> Position {
        let before = &self.text[..at];
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Position { line: before.matches('\n').count() + 1, column }
    }

    fn wrong(&self, problem: &str) -> String {
        format!("{}: {problem}", self.position(self.at))
    }

    fn key(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Some('"' | '\'')) {
            return self.text_value();
        }
        let start = self.at;
        self.skip(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if start == self.at {
            return Err(self.wrong("expected a key"));
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn value(&mut self) -> Result<TomlValue, String> {
        match self.peek() {
            Some('"' | '\'') => self.text_value().map(TomlValue::Text),
            None | Some('\n' | '#') => Err(self.wrong("expected a value")),
            Some(_) => {
                self.skip(|c| c != '\n' && c != '#');
                Ok(TomlValue::Other)
            }
        }
    }

    fn end_of_line(&mut self) -> Result<(), String> {
        self.skip(|c| matches!(c, ' ' | '\t'));
        match self.peek() {
            None | Some('\n' | '#') => Ok(()),
            Some(c) => Err(self.wrong(&format!("expected the end of the line, found `{c}`"))),
        }
    }

    fn text_value(&mut self) -> Result<String, String> {
        let start = self.at;
        let unclosed = |reader: &Self| format!("{}: the text is not closed", reader.position(start));
        for (mark, escapes) in [("\"\"\"", true), ("'''", false)] {
            if self.take(mark) {
                self.take("\n");
                return self.long_text(mark, escapes).ok_or_else(|| unclosed(self))?;
            }
        }
        let quote = self.next().unwrap_or('"');
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(unclosed(self)),
                Some(c) if c == quote => return Ok(text),
                Some('\\') if quote == '"' => text.push(self.escape()?),
                Some(c) => text.push(c),
            }
        }
    }

    /// Reads up to three quotes; `None` if they do not come.
    fn long_text(&mut self, mark: &str, escapes: bool) -> Option<Result<String, String>> {
        let mut text = String::new();
        loop {
            if self.take(mark) {
                // One or two more quotes belong to the text.
                for _ in 0..2 {
                    if self.take(&mark[..1]) {
                        text.push_str(&mark[..1]);
                    }
                }
                return Some(Ok(text));
            }
            match self.next()? {
                '\\' if escapes => {
                    let rest = &self.text[self.at..];
                    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
                    if rest[blanks..].starts_with('\n') {
                        // A backslash at the end of a line joins it with the next text.
                        self.skip(char::is_whitespace);
                        continue;
                    }
                    match self.escape() {
                        Ok(c) => text.push(c),
                        Err(error) => return Some(Err(error)),
                    }
                }
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let wrong = |reader: &Self, what: &str| {
            reader.wrong(&format!("`\\{what}` means nothing; write `\\\\` for a backslash, or the text in '''…'''"))
        };
        let digits = match self.next() {
            Some('b') => return Ok('\u{8}'),
            Some('t') => return Ok('\t'),
            Some('n') => return Ok('\n'),
            Some('f') => return Ok('\u{c}'),
            Some('r') => return Ok('\r'),
            Some('e') => return Ok('\u{1b}'),
            Some('"') => return Ok('"'),
            Some('\\') => return Ok('\\'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) => return Err(wrong(self, &c.to_string())),
            None => return Err(wrong(self, "")),
        };
        let number = self.text.get(self.at..self.at + digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let c = number.and_then(char::from_u32).ok_or_else(|| wrong(self, "u"))?;
        self.at += digits;
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> String {
        match parse(&format!("a = {text}")).map(|mut entries| entries.remove(0).value) {
            Ok(TomlValue::Text(text)) => text,
            Ok(TomlValue::Other) => "other".into(),
            Err(error) => error,
        }
    }

    #[test]
    fn text_has_four_notations() {
        for (written, read) in [
            (r#""a\n\"b\" \u00e4""#, "a\n\"b\" ä"),
            (r"'a\n'", "a\\n"),
            ("\"\"\"\na\n\"b\" \\\n   c\"\"\"", "a\n\"b\" c"),
            ("\"\"\"a\"\"\"\"", "a\""),
            ("'''\na\\d+\n'''", "a\\d+\n"),
            ("'''it''s'''", "it''s"),
            ("12 # c", "other"),
            ("[1, 2]", "other"),
        ] {
            assert_eq!(value(written), read, "{written}");
        }
    }

    #[test]
    fn faults_name_their_place() {
        for (text, error) in [
            ("a = \"x", "1:5: the text is not closed"),
            ("\na = \"\"\"\nx", "2:5: the text is not closed"),
            ("a", "1:2: expected `=` behind `a`"),
            ("a = ", "1:5: expected a value"),
            ("a = \"x\" y", "1:9: expected the end of the line, found `y`"),
            ("a = 1\na = 2", "2:1: `a` stands twice"),
            ("[a]", "1:1: tables are not used here; write `prompt = \"…\"`"),
            ("a = \"\\d\"", "1:8: `\\d` means nothing; write `\\\\` for a backslash, or the text in '''…'''"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn comments_quoted_keys_and_windows_line_ends_are_read() {
        let entries = parse("# c\r\n\"a b\" = 'x' # y\r\nb.c = '''\r\nz\r\n'''\r\n").unwrap();
        let read: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), &entry.value)).collect();
        assert_eq!(read, [("a b", &TomlValue::Text("x".into())), ("b.c", &TomlValue::Text("z\n".into()))]);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[ab='\"\\\\#\n\u{e4}uxU0\\[]{0,40}") {
            let _either = parse(&text);
        }
    }
}
