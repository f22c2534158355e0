//! Parses JSON with comments and a comma after the last entry, records positions, and edits such a file.
//!
//! The parser's other leniencies are off, and what it would read over is refused: a key that is there twice, and a line
//! break within a text.

use std::collections::BTreeSet;

use jsonc_parser::ast::{Object, Value as Ast};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind};
use serde_json::{Map, Value};

use crate::base::{Diagnostic, Span, Spanned};

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// An entry of an object.
pub type Entry = (Spanned<String>, Spanned<Node>);

/// A value, with the position of every key and value in it that is in no list.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// An object, in the order of the file.
    Object(Vec<Entry>),
    /// Anything else.
    Other(Value),
}

impl Node {
    /// Returns the plain value.
    pub fn value(&self) -> Value {
        self.clone().into_value()
    }

    fn into_value(self) -> Value {
        match self {
            Node::Object(entries) => entries
                .into_iter()
                .map(|(key, node)| (key.value, node.value.into_value()))
                .collect::<Map<_, _>>()
                .into(),
            Node::Other(value) => value,
        }
    }
}

/// Returns what a value is, for a message.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Parses a text. `file` is the name that errors carry.
pub fn parse(file: &str, text: &str) -> Result<Spanned<Node>, Diagnostic> {
    let mut reader = Reader::new(file, text);
    let parsed = jsonc_parser::parse_to_ast(reader.text, &CollectOptions::default(), &OPTIONS);
    let parsed = parsed.map_err(|error| reader.translate(&error))?;
    match &parsed.value {
        Some(value) => reader.node(value),
        None => Err(reader.wrong(reader.text.len(), "expected a value, found the end")),
    }
}

/// Sets `section.name` to a value; comments, order and indentation stay. A missing file is an empty text.
///
/// The error says why the text cannot be edited; it is then to be left alone.
pub fn set(file: &str, text: &str, section: &str, name: &str, value: &Value) -> Result<String, Diagnostic> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    edit(
        file,
        text,
        section,
        |root| {
            let section = root.object_value_or_create()?.object_value_or_create(section)?;
            match section.get(name) {
                Some(entry) => entry.set_value(input(value)),
                None => drop(section.append(name, input(value))),
            }
            Some(())
        },
        |now| now.and_then(|section| section.get(name)) == Some(value),
    )
}

/// Removes `section.name`; `None` if there is no such entry.
pub fn remove(file: &str, text: &str, section: &str, name: &str) -> Result<Option<String>, Diagnostic> {
    if text.trim().is_empty() || parse(file, text)?.value.value().get(section).is_none_or(|all| all.get(name).is_none())
    {
        return Ok(None);
    }
    let remove = |root: &CstRootNode| {
        root.object_value()?.object_value(section)?.get(name)?.remove();
        Some(())
    };
    edit(file, text, section, remove, |now| now.is_some_and(|section| section.get(name).is_none())).map(Some)
}

/// Edits a text and looks whether it then says what it should.
fn edit(
    file: &str,
    text: &str,
    section: &str,
    change: impl Fn(&CstRootNode) -> Option<()>,
    is_done: impl Fn(Option<&Value>) -> bool,
) -> Result<String, Diagnostic> {
    let refused = |message: String| Diagnostic::of_file(file, message);
    let before = parse(file, text)?.value.value();
    for (what, value) in [("settings are", Some(&before)), (&*format!("{section} is"), before.get(section))] {
        if let Some(value) = value.filter(|value| !value.is_object()) {
            return Err(refused(format!("{what} {}, not an object", kind(value))));
        }
    }
    let (mark, body) = text.split_at(text.len() - text.trim_start_matches('\u{feff}').len());
    let root = CstRootNode::parse(body, &OPTIONS).map_err(|error| Reader::new(file, body).translate(&error))?;
    let changed = change(&root).map(|()| format!("{mark}{root}"));
    let is_right = |changed: &String| parse(file, changed).is_ok_and(|now| is_done(now.value.value().get(section)));
    changed.filter(is_right).ok_or_else(|| refused(format!("{section} cannot be edited; edit it by hand")))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// Goes through a text in its order: a position is counted from the one before.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    last: (usize, Span),
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, text: &'a str) -> Reader<'a> {
        Reader { file, text: text.strip_prefix('\u{feff}').unwrap_or(text), last: (0, Span::START) }
    }

    fn span(&mut self, offset: usize) -> Span {
        let (from, span) = if self.last.0 <= offset { self.last } else { (0, Span::START) };
        self.last = (offset, span.after(&self.text[from..offset]));
        self.last.1
    }

    fn wrong(&mut self, offset: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.file, self.span(offset), message)
    }

    fn node(&mut self, ast: &Ast<'_>) -> Result<Spanned<Node>, Diagnostic> {
        let span = self.span(ast.start());
        let value = match ast {
            Ast::Object(object) => Node::Object(self.entries(object)?),
            Ast::Array(list) => {
                let values = list.elements.iter().map(|value| Ok(self.node(value)?.value.into_value()));
                Node::Other(values.collect::<Result<Vec<Value>, Diagnostic>>()?.into())
            }
            Ast::StringLit(text) => Node::Other(self.text(text.range, &text.value)?.into()),
            Ast::NumberLit(number) => {
                let read = serde_json::from_str(number.value);
                Node::Other(Value::Number(read.map_err(|_| self.wrong(ast.start(), "this is not a number"))?))
            }
            Ast::BooleanLit(value) => Node::Other(value.value.into()),
            Ast::NullKeyword(_) => Node::Other(Value::Null),
        };
        Ok(Spanned { value, span })
    }

    fn entries(&mut self, object: &Object<'_>) -> Result<Vec<Entry>, Diagnostic> {
        let mut names = BTreeSet::new();
        let mut entries = Vec::with_capacity(object.properties.len());
        for entry in &object.properties {
            let (range, name) = (entry.name.range(), entry.name.as_str());
            let value = self.text(range, name)?;
            if !names.insert(name) {
                return Err(self.wrong(range.start, format!("duplicate key `{name}`")));
            }
            entries.push((Spanned { value, span: self.span(range.start) }, self.node(&entry.value)?));
        }
        Ok(entries)
    }

    fn text(&mut self, range: Range, text: &str) -> Result<String, Diagnostic> {
        // A tab is an error of strict JSON that today's files get away with.
        match self.text[range.start..range.end].chars().find(|c| c.is_ascii_control() && *c != '\t') {
            None => Ok(text.to_owned()),
            Some('\n') => Err(self.wrong(range.start, "this text has no closing quote")),
            Some(_) => Err(self.wrong(range.start, "this text holds a control character")),
        }
    }

    fn translate(&mut self, error: &ParseError) -> Diagnostic {
        use ParseErrorKind as Kind;
        let mut start = error.range().start;
        if matches!(error.kind(), Kind::ExpectedComma) {
            start += self.text[start..].len() - self.text[start..].trim_start().len();
        }
        let found = match self.text[start..].chars().next() {
            None => "the end".to_owned(),
            Some(c) if c.is_control() => format!("`{}`", c.escape_default()),
            Some(c) => format!("`{c}`"),
        };
        let message = match error.kind() {
            Kind::ExpectedStringObjectProperty | Kind::UnexpectedTokenInObject => {
                format!("expected a key in \"quotes\", found {found}")
            }
            Kind::ExpectedColonAfterObjectKey => format!("expected `:` after the key, found {found}"),
            Kind::ExpectedComma => format!("expected `,`, found {found}"),
            Kind::ExpectedObjectValue
            | Kind::UnexpectedCloseBrace
            | Kind::UnexpectedCloseBracket
            | Kind::UnexpectedColon
            | Kind::UnexpectedComma
            | Kind::UnexpectedToken
            | Kind::UnexpectedWord => format!("expected a value, found {found}"),
            Kind::MultipleRootJsonValues => format!("expected the end, found {found}"),
            Kind::UnterminatedObject => "this `{` has no `}`".to_owned(),
            Kind::UnterminatedArray => "this `[` has no `]`".to_owned(),
            Kind::UnterminatedCommentBlock => "this comment has no end; `*/` is missing".to_owned(),
            Kind::SingleQuotedStringsNotAllowed => "text is written in \"double\" quotes".to_owned(),
            Kind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
                "this text has no closing quote".to_owned()
            }
            Kind::String(_) => "this escape is unknown; write `\\\\` for a backslash".to_owned(),
            Kind::NestingDepthExceeded => "lists and objects are nested more than 512 deep".to_owned(),
            Kind::BareDecimalPointNumbersNotAllowed
            | Kind::ExpectedDigit
            | Kind::ExpectedDigitFollowingNegativeSign
            | Kind::ExpectedPlusMinusOrDigitInNumberLiteral
            | Kind::HexadecimalNumbersNotAllowed
            | Kind::NonFiniteNumbersNotAllowed
            | Kind::UnaryPlusNumbersNotAllowed => "this is not a number".to_owned(),
            Kind::CommentsNotAllowed | Kind::TrailingCommasNotAllowed => error.kind().to_string(),
        };
        self.wrong(start, message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        parse("f", text).unwrap().value.value()
    }

    #[test]
    fn comments_and_a_last_comma_are_read_over() {
        let text = "// a\n{ /* b */ \"a\": [1, -2.5e3, true, null,], // c\n \"b\": {\"c\": \"//x\\n\"}, }";
        assert_eq!(value(text), json!({"a": [1, -2500.0, true, null], "b": {"c": "//x\n"}}));
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = parse("f", "{\n  \"ä\": 1, \"b\": [2]\n}").unwrap();
        let Node::Object(entries) = node.value else { panic!("an object") };
        assert_eq!(entries[0].1.span, Span { line: 2, column: 8 });
        assert_eq!(entries[1].0.span, Span { line: 2, column: 11 });
    }

    #[test]
    fn an_error_names_the_place() {
        for (text, error) in [
            ("", "f:1:1: expected a value, found the end"),
            ("{\"a\" 1}", "f:1:6: expected `:` after the key, found `1`"),
            ("{\n  a: 1}", "f:2:3: expected a key in \"quotes\", found `a`"),
            ("{\"a\": 1 \"b\": 2}", "f:1:9: expected `,`, found `\"`"),
            ("[1, 2", "f:1:1: this `[` has no `]`"),
            ("{\"a\": \"b\n\"}", "f:1:7: this text has no closing quote"),
            ("{\"a\": \"b", "f:1:7: this text has no closing quote"),
            ("{\"a\": \"\\d\"}", "f:1:8: this escape is unknown; write `\\\\` for a backslash"),
            ("{} x", "f:1:4: expected the end, found `x`"),
            ("/* x", "f:1:1: this comment has no end; `*/` is missing"),
            ("[0x1]", "f:1:2: this is not a number"),
            ("[1e999]", "f:1:2: this is not a number"),
            ("'a'", "f:1:1: text is written in \"double\" quotes"),
            ("{\"a\": 1,\n \"\\u0061\": 2}", "f:2:2: duplicate key `a`"),
            ("[{\"a\": 1, \"a\": 1}]", "f:1:11: duplicate key `a`"),
        ] {
            assert_eq!(parse("f", text).unwrap_err().to_string(), error, "{text:?}");
        }
    }

    #[test]
    fn no_leniency_but_comments_and_a_last_comma_is_left() {
        for text in [
            "{a: 1}",
            "{\"a\": 'b'}",
            "[1 2]",
            "[[] []]",
            "+1",
            ".5",
            "5.",
            "NaN",
            "-Infinity",
            "01",
            "[,]",
            "\"\\x41\"",
            "[1,,]",
            "{,}",
        ] {
            assert!(parse("f", text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse("f", &"[".repeat(100_000)).unwrap_err().message.contains("512"));
    }

    #[test]
    fn a_long_line_of_many_values_is_read_at_once() {
        let text = format!("{{{}\"z\": 0}}", (0..20_000).map(|n| format!("\"k{n}\": {n}, ")).collect::<String>());
        let Node::Object(entries) = parse("f", &text).unwrap().value else { panic!("an object") };
        assert_eq!(entries.last().unwrap().0.span.column as usize, text.len() - 6);
    }

    fn edited(text: &str, name: &str, value: &Value) -> String {
        set("f", text, "mcpServers", name, value).unwrap()
    }

    const FILE: &str = r#"{
  // who answers
  "model": "m", /* small */
  "mcpServers": {
    // ours
    "a": {"command": "a"}, // the first
    "b": {
      "httpUrl": "https://b" // no comma
    }
    // the end
  },
}
"#;

    #[test]
    fn a_comment_that_begins_like_one_that_ends_is_no_end() {
        let text = "{\"mcpServers\": {\"a\": 1 /*/ é \" { */}}";
        let edited = edited(text, "b", &json!(2));
        assert_eq!(value(&edited), json!({"mcpServers": {"a": 1, "b": 2}}), "{edited}");
    }

    #[test]
    fn a_new_entry_goes_behind_the_others_and_nothing_else_moves() {
        insta::assert_snapshot!(set("f", FILE, "mcpServers", "c", &json!({"command": "c"})).unwrap(), @r#"
        {
          // who answers
          "model": "m", /* small */
          "mcpServers": {
            // ours
            "a": {"command": "a"}, // the first
            "b": {
              "httpUrl": "https://b" // no comma
            },
            "c": {
              "command": "c"
            }
            // the end
          },
        }
        "#);
    }

    #[test]
    fn a_known_entry_is_replaced_at_its_place() {
        let edited = set("f", FILE, "mcpServers", "a", &json!({"url": "x"})).unwrap();
        assert!(edited.contains("    \"a\": {\n      \"url\": \"x\"\n    }, // the first\n    \"b\""), "{edited}");
    }

    #[test]
    fn what_is_removed_takes_its_comma_and_its_comment_along() {
        insta::assert_snapshot!(remove("f", FILE, "mcpServers", "b").unwrap().unwrap(), @r#"
        {
          // who answers
          "model": "m", /* small */
          "mcpServers": {
            // ours
            "a": {"command": "a"} // the first
            // the end
          },
        }
        "#);
        let edited = remove("f", FILE, "mcpServers", "a").unwrap().unwrap();
        assert!(edited.contains("    // ours\n    \"b\": {"), "{edited}");
        assert_eq!(remove("f", FILE, "mcpServers", "c").unwrap(), None);
        assert_eq!(
            remove("f", r#"{"mcpServers": {"a": 1, "b": 2}}"#, "mcpServers", "b").unwrap().unwrap(),
            r#"{"mcpServers": {"a": 1}}"#
        );
    }

    #[test]
    fn an_empty_file_and_one_without_the_section_get_it() {
        let server = json!({"command": "c"});
        let made = "{\n  \"mcpServers\": {\n    \"c\": {\n      \"command\": \"c\"\n    }\n  }\n}\n";
        assert_eq!(set("f", "", "mcpServers", "c", &server).unwrap(), made);
        let edited = set("f", "{\"a\": 1} // x", "mcpServers", "c", &server).unwrap();
        assert!(edited.starts_with("{\n  \"a\": 1,\n  \"mcpServers\": {") && edited.ends_with("\n} // x"), "{edited}");
        assert!(
            set("f", "[]", "mcpServers", "c", &server).is_err() && set("f", "{", "mcpServers", "c", &server).is_err()
        );
        assert!(
            set("f", r#"{"mcpServers": 1}"#, "mcpServers", "c", &server).unwrap_err().message.contains("not an object")
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\",:0-9a\\\\/* \n\u{e4}tru-]*") {
            let _ = parse("f", &text);
        }

        #[test]
        fn what_strict_json_says_is_read_the_same(text in "[a-z\"\\\\\n\u{e4}]*", number in any::<f64>(), yes: bool) {
            let json = json!({ text.clone(): [number, yes, text, null, {"x": []}] });
            prop_assert_eq!(value(&json.to_string()), json);
        }

        #[test]
        fn what_was_set_is_there_and_what_is_removed_is_gone(
            names in prop::collection::vec("[a-c\u{e4}\"]{1,2}", 0..4), name in "[a-c\u{e4}\"]{1,2}", pretty: bool, comments: bool
        ) {
            let servers: serde_json::Map<String, Value> =
                names.iter().map(|name| (name.clone(), json!({"x": [1, "}, //"]}))).collect();
            let whole = json!({"z": "\u{e4}", "mcpServers": servers, "y": 1});
            let mut text = if pretty { serde_json::to_string_pretty(&whole).unwrap() } else { whole.to_string() };
            if comments && pretty {
                text = text.replace("\n", " // a } \"\n");
            }
            let set_text = set("f", &text, "mcpServers", &name, &json!({"new": true})).unwrap();
            let mut expected = whole.clone();
            expected["mcpServers"][&name] = json!({"new": true});
            prop_assert_eq!(value(&set_text), expected.clone());
            let removed = remove("f", &set_text, "mcpServers", &name).unwrap().unwrap();
            expected["mcpServers"].as_object_mut().unwrap().shift_remove(&name);
            prop_assert_eq!(value(&removed), expected);
        }
    }
}
