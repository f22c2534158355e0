//! Parses JSON with comments, and records the position of each value.
//!
//! Errors and origins need the line and column of every key and value, and existing files contain comments and trailing
//! commas; nothing else of a parser is needed.

use serde_json::{Map, Number, Value};

/// How deep lists and objects may be in each other.
const DEPTH: u32 = 64;

/// A place in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub kind: Kind,
    /// Where it begins.
    pub at: Position,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object, in the order of the file; a name may be twice.
    Object(Vec<Entry>),
}

/// An entry of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Where the name begins.
    pub at: Position,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Returns the plain value; of two equal names the later counts, as in JavaScript.
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(value) => Value::Number(value.clone()),
            Kind::Text(value) => Value::String(value.clone()),
            Kind::List(nodes) => Value::Array(nodes.iter().map(Node::value).collect()),
            Kind::Object(entries) => Value::Object(
                entries.iter().map(|entry| (entry.name.clone(), entry.node.value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns what it is, for a message.
    pub fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Object(_) => "an object",
        }
    }
}

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {message}", at.line, at.column)]
pub struct JsonError {
    /// Where.
    pub at: Position,
    /// What.
    pub message: String,
}

/// Parses a text; comments (`//`, `/* */`) and a comma after the last entry are allowed.
pub fn parse(text: &str) -> Result<Node, JsonError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser { rest: text, at: Position { line: 1, column: 1 } };
    parser.skip_blank()?;
    let node = parser.value(0)?;
    parser.skip_blank()?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.error(format!("expected the end, found {}", parser.found()))),
    }
}

struct Parser<'a> {
    rest: &'a str,
    at: Position,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest.starts_with(text);
        if found {
            for _ in text.chars() {
                self.next();
            }
        }
        found
    }

    fn error(&self, message: impl Into<String>) -> JsonError {
        JsonError { at: self.at, message: message.into() }
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end".into(),
            Some(c) if c.is_control() => format!("`{}`", c.escape_default()),
            Some(c) => format!("`{c}`"),
        }
    }

    fn skip_blank(&mut self) -> Result<(), JsonError> {
        loop {
            if matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
                self.next();
            } else if self.rest.starts_with("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if self.rest.starts_with("/*") {
                let start = self.error("this comment has no end; `*/` is missing");
                self.take("/*");
                while !self.take("*/") {
                    if self.next().is_none() {
                        return Err(start);
                    }
                }
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: u32) -> Result<Node, JsonError> {
        let at = self.at;
        if depth > DEPTH {
            return Err(self.error(format!("more than {DEPTH} lists and objects in each other")));
        }
        let kind = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => Kind::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            _ if self.take("true") => Kind::Bool(true),
            _ if self.take("false") => Kind::Bool(false),
            _ if self.take("null") => Kind::Null,
            Some('\'') => return Err(self.error("text stands in \"double\" quotes")),
            _ => return Err(self.error(format!("expected a value, found {}", self.found()))),
        };
        Ok(Node { kind, at })
    }

    fn object(&mut self, depth: u32) -> Result<Kind, JsonError> {
        let open = self.error("this `{` has no `}`");
        self.next();
        let mut entries = Vec::new();
        loop {
            self.skip_blank()?;
            if self.take("}") {
                return Ok(Kind::Object(entries));
            }
            let at = self.at;
            match self.peek() {
                Some('"') => {}
                None => return Err(open),
                Some(_) => return Err(self.error(format!("expected a key in \"quotes\", found {}", self.found()))),
            }
            let name = self.text()?;
            self.skip_blank()?;
            if !self.take(":") {
                return Err(self.error(format!("expected `:` behind the key `{name}`, found {}", self.found())));
            }
            self.skip_blank()?;
            let node = self.value(depth + 1)?;
            entries.push(Entry { name, at, node });
            self.skip_blank()?;
            if !self.take(",") && self.peek() != Some('}') {
                return Err(match self.peek() {
                    None => open,
                    Some(_) => self.error(format!("expected `,` or `}}`, found {}", self.found())),
                });
            }
        }
    }

    fn list(&mut self, depth: u32) -> Result<Kind, JsonError> {
        let open = self.error("this `[` has no `]`");
        self.next();
        let mut nodes = Vec::new();
        loop {
            self.skip_blank()?;
            if self.take("]") {
                return Ok(Kind::List(nodes));
            }
            if self.peek().is_none() {
                return Err(open);
            }
            nodes.push(self.value(depth + 1)?);
            self.skip_blank()?;
            if !self.take(",") && self.peek() != Some(']') {
                return Err(match self.peek() {
                    None => open,
                    Some(_) => self.error(format!("expected `,` or `]`, found {}", self.found())),
                });
            }
        }
    }

    /// Finds the end of the text; what it means is left to the JSON library.
    fn text(&mut self) -> Result<String, JsonError> {
        let start = self.rest;
        let open = self.error("this text has no closing quote");
        self.next();
        loop {
            match self.next() {
                Some('"') => break,
                Some('\\') => {
                    self.next();
                }
                Some('\n') | None => return Err(open),
                Some(_) => {}
            }
        }
        let literal = &start[..start.len() - self.rest.len()];
        // A tab within text is an error of strict JSON that today's files get away with.
        serde_json::from_str(&literal.replace('\t', "\\t"))
            .map_err(|_| JsonError { message: "this text holds a wrong escape or a control character".into(), ..open })
    }

    fn number(&mut self) -> Result<Kind, JsonError> {
        let start = self.rest;
        let wrong = self.error("this is no number");
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
            self.next();
        }
        let literal = &start[..start.len() - self.rest.len()];
        serde_json::from_str(literal).map(Kind::Number).map_err(|_| wrong)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_a_last_comma_are_read_over() {
        let node =
            parse("// a\n{ /* b */ \"a\": [1, -2.5e3, true, null,], // c\n \"b\": {\"c\": \"//x\\n\"}, }").unwrap();
        assert_eq!(node.value(), json!({"a": [1, -2500.0, true, null], "b": {"c": "//x\n"}}));
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = parse("{\n  \"ä\": 1, \"b\": [2]\n}").unwrap();
        let Kind::Object(entries) = node.kind else { panic!("an object") };
        assert_eq!(entries[0].node.at, Position { line: 2, column: 8 });
        assert_eq!(entries[1].at, Position { line: 2, column: 11 });
    }

    #[test]
    fn an_error_names_the_place() {
        for (text, error) in [
            ("", "1:1: expected a value, found the end"),
            ("{\"a\" 1}", "1:6: expected `:` behind the key `a`, found `1`"),
            ("{\n  a: 1}", "2:3: expected a key in \"quotes\", found `a`"),
            ("{\"a\": 1 \"b\": 2}", "1:9: expected `,` or `}`, found `\"`"),
            ("[1, 2", "1:1: this `[` has no `]`"),
            ("{\"a\": \"b\n\"}", "1:7: this text has no closing quote"),
            ("{} x", "1:4: expected the end, found `x`"),
            ("/* x", "1:1: this comment has no end; `*/` is missing"),
            ("01", "1:1: this is no number"),
            ("'a'", "1:1: text stands in \"double\" quotes"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), error, "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse(&"[".repeat(100_000)).unwrap_err().message.contains("64"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\",:0-9a\\\\/* \n\u{e4}tru-]*") {
            let _ = parse(&text);
        }

        #[test]
        fn what_strict_json_says_is_read_the_same(text in "[a-z\"\\\\\n\u{e4}]*", number in any::<f64>(), yes: bool) {
            let value = json!({ text.clone(): [number, yes, text, null, {"x": []}] });
            prop_assert_eq!(parse(&value.to_string()).unwrap().value(), value);
        }
    }
}
