//! Describes what is wrong with a document: its position, the line itself, and what to do.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hidden::is_foreign;

/// A position in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// From 1; 0 where no position is known.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl Span {
    /// Where a text begins.
    pub const START: Span = Span { line: 1, column: 1 };

    /// Returns the position of a byte of a text.
    pub fn of(text: &str, offset: usize) -> Span {
        Span::START.after(&text[..offset])
    }

    /// Returns the position behind a text that begins here.
    #[must_use]
    pub fn after(self, text: &str) -> Span {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        match text.rsplit_once('\n') {
            None => Span { column: self.column.saturating_add(count(text.chars().count())), ..self },
            Some((before, last)) => Span {
                line: self.line.saturating_add(count(before.matches('\n').count() + 1)),
                column: count(last.chars().count() + 1),
            },
        }
    }
}

/// A value with its position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it begins.
    pub span: Span,
}

/// The newtype that [`Spanned`] asks for. Who knows positions gives a mapping of one entry: the position (the line in the
/// upper half of the number, the column in the lower one) and the value.
pub(crate) const SPANNED: &str = "\0spanned";

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    /// Takes the position if the document's reader gives one.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<T>, D::Error> {
        struct Both<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Both<T> {
            type Value = Spanned<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Spanned<T>, D::Error> {
                Ok(Spanned { value: T::deserialize(deserializer)?, span: Span::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Spanned<T>, A::Error> {
                let place: u64 = map.next_key()?.unwrap_or_default();
                let half = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
                Ok(Spanned { value: map.next_value()?, span: Span { line: half(place >> 32), column: half(place) } })
            }
        }
        deserializer.deserialize_newtype_struct(SPANNED, Both(PhantomData))
    }
}

impl<T: Serialize> Serialize for Spanned<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl From<serde_yaml::Location> for Span {
    fn from(at: serde_yaml::Location) -> Span {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Span { line: count(at.line()), column: count(at.column()) }
    }
}

/// A position in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The file, as messages name it.
    pub file: Arc<str>,
    /// The position in it.
    pub span: Span,
}

/// Which rule is broken. The letters are those of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The bytes: not UTF-8, too many, a hidden character.
    R001,
    /// YAML syntax.
    R002,
    /// Unknown key.
    R003,
    /// Unknown format number.
    R004,
    /// Wrong type or value.
    R005,
    /// Template syntax, filter or name.
    R006,
    /// A template names what is not declared.
    R007,
    /// `extends`.
    R008,
    /// An untrusted or secret value where it is not allowed.
    R009,
    /// A template in permissions.
    R010,
    /// The output's schema.
    R011,
    /// The name differs from that of the file.
    R012,
    /// Missing parameters.
    P001,
    /// Unknown parameter.
    P002,
    /// A parameter's value.
    P003,
    /// A parameter's path.
    P004,
    /// A need that the policy does not grant.
    N001,
    /// A requirement is missing.
    N002,
    /// Unused parameter.
    W101,
    /// A cached prompt contains a value that changes with every run.
    W102,
    /// Unused context.
    W103,
    /// Changes without `verify`.
    W104,
    /// No `limits.cost_usd`.
    W105,
    /// `needs.run` asks for everything.
    W106,
    /// Untrusted input together with permission to write, run or use the network.
    W107,
    /// `truncate` of a change.
    W108,
    /// What differs between the items of a batch is not at the end of the prompt.
    W109,
    /// A cached recipe whose answer depends on what tools return.
    W110,
    /// Most of the prompt is the same for all items, and the provider's Batch API has no cache.
    W111,
    /// A recipe of a checkout that is not trusted names the model.
    W112,
}

impl Code {
    /// Returns what to do about it, where nothing better is known.
    fn help(self) -> Option<&'static str> {
        Some(match self {
            Code::R001 => "save it as UTF-8 without hidden characters, at most 256 KiB",
            Code::R002 => "quote a value that contains `: `, ` #`, `[`, `{`, `*` or `&`, and check the indentation",
            Code::R003 => "run `qwen schema recipe` for the known keys; start your own with `x-`",
            Code::R004 => "begin with `recipe: 1`",
            Code::R005 => "run `qwen schema recipe` for the values of each key",
            Code::R006 => "see `qwen help recipes` for the names, filters and statements of templates",
            Code::R007 => "declare it below `params` or `context`, or correct the name",
            Code::R008 => "run `qwen recipe list` for the recipes",
            Code::R009 => "remove it here",
            Code::R010 => "write the value itself",
            Code::R011 => "give a JSON Schema of an object without references outside it",
            Code::R012 => "use the same name in both",
            Code::W101 => "remove it, or use it",
            Code::W102 => "remove `run.*` from the prompt, or write `cache: {key: none}`",
            Code::W103 => "remove it, use it in `prompt`, or set `on_empty`",
            Code::W104 => "add `verify: {checks: [..]}`",
            Code::W105 => "add for example `limits: {cost_usd: 0.50}`",
            Code::W106 => "name the commands, for example `cargo test **`",
            Code::W107 => {
                "request read access only, or only propose a change: `git: {changes: dry-run}` without `needs.net`"
            }
            Code::W108 => "write `on_large: split`, `cut` or `fail`",
            Code::W109 => "put what differs last: the text before it is cached for all items",
            Code::W110 => "read the files below `context` and write `needs: {tools: []}`, or remove `cache`",
            Code::W111 => "leave out --api batch if the server caches prompts: that costs less",
            Code::W112 => "name it with --model or in your own settings, or trust the checkout: `qwen policy trust`",
            Code::P001 | Code::P002 | Code::P003 | Code::P004 | Code::N001 | Code::N002 => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the user named it; empty where it concerns the command line.
    pub file: Arc<str>,
    /// The position in it.
    pub span: Span,
    /// What is wrong there.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The rule that is broken.
    pub code: Option<Code>,
    /// The line of the file.
    snippet: Option<Snippet>,
}

/// A line of the file, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Snippet {
    /// The line, or as much of it as is around the place.
    text: String,
    /// Columns of a terminal before the place.
    before: usize,
}

impl Snippet {
    /// Maximum columns of a line: with its number it stays below a hundred.
    const WIDTH: usize = 90;

    /// Cuts a line to what is around a column, counted from 1.
    fn of(line: &str, column: u32) -> Snippet {
        // What may hide in a line must not reach the terminal through its error.
        let shown: Vec<char> = line.chars().map(|c| if is_foreign(c) || c == '\t' { '\u{fffd}' } else { c }).collect();
        let place = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX).min(shown.len());
        let width = |chars: &[char]| chars.iter().map(|c| 1 + usize::from(is_wide(*c))).sum::<usize>();
        let (mut start, mut end) = (0, shown.len());
        if width(&shown) > Self::WIDTH {
            // A third of the room for what is before the place.
            start = place;
            while start > 0 && width(&shown[start - 1..place]) <= Self::WIDTH / 3 {
                start -= 1;
            }
            end = start;
            while end < shown.len() && width(&shown[start..=end]) <= Self::WIDTH - 4 {
                end += 1;
            }
        }
        let head = if start > 0 { "… " } else { "" };
        let tail = if end < shown.len() { " …" } else { "" };
        let text: String = shown[start..end].iter().collect();
        let before = head.chars().count() + width(&shown[start..place]);
        Snippet { text: format!("{head}{}{tail}", text.trim_end()), before }
    }
}

/// Tells whether a terminal gives a character two columns.
fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}' | '\u{1f900}'..='\u{1f9ff}' | '\u{20000}'..='\u{3fffd}')
}

impl Diagnostic {
    /// Returns an error at a position of a file.
    pub fn at(file: &str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { file: file.into(), span, message: message.into(), help: None, code: None, snippet: None }
    }

    /// Returns an error of a file as a whole.
    pub fn of_file(file: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(file, Span::default(), message)
    }

    /// Returns what breaks a rule.
    pub fn new(code: Code, Location { file, span }: Location, message: impl Into<String>) -> Diagnostic {
        Diagnostic { file, span, message: message.into(), help: None, code: Some(code), snippet: None }
    }

    /// Returns code and message alone.
    pub fn brief(&self) -> String {
        match self.code {
            Some(code) => format!("{code}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds the line of the file.
    #[must_use]
    pub fn with_line_of(mut self, text: &str) -> Diagnostic {
        let index = usize::try_from(self.span.line).ok().and_then(|line| line.checked_sub(1));
        let line = index.and_then(|index| text.lines().nth(index));
        self.snippet = line.map(|line| Snippet::of(line, self.span.column));
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { line, column } = self.span;
        match (&*self.file, line) {
            ("", 0) => {}
            ("", line) => write!(f, "{line}:{column}: ")?,
            (file, 0) => write!(f, "{file}: ")?,
            (file, line) => write!(f, "{file}:{line}:{column}: ")?,
        }
        f.write_str(&self.brief())?;
        if let Some(Snippet { text, before }) = &self.snippet {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            write!(f, "\n{margin} |\n{number} | {text}\n{margin} | {}^", " ".repeat(*before))?;
        }
        match self.help.as_deref().or(self.code.and_then(Code::help)) {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, column: u32) -> String {
        let location = Location { file: "r.yaml".into(), span: Span { line: 1, column } };
        Diagnostic::new(Code::R005, location, "wrong").with_line_of(line).to_string()
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let long = format!("{}HERE{}", "abcde ".repeat(30), " fghij".repeat(30));
        insta::assert_snapshot!(shown(&long, 181), @r"
        r.yaml:1:181: R005: wrong
          |
        1 | … abcde abcde abcde abcde abcde HERE fghij fghij fghij fghij fghij fghij fghij fghij fgh …
          |                                 ^
          help: run `qwen schema recipe` for the values of each key
        ");
        for column in 0..400 {
            let text = shown(&long, column);
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }

    #[test]
    fn the_mark_stands_below_its_letter_whatever_stands_before() {
        insta::assert_snapshot!(shown("prompt: 修复 {{ x }}", 12), @r"
        r.yaml:1:12: R005: wrong
          |
        1 | prompt: 修复 {{ x }}
          |              ^
          help: run `qwen schema recipe` for the values of each key
        ");
        insta::assert_snapshot!(shown("\tprompt: x", 2), @r"
        r.yaml:1:2: R005: wrong
          |
        1 | �prompt: x
          |  ^
          help: run `qwen schema recipe` for the values of each key
        ");
        // An empty line has nothing to show.
        assert!(!shown("", 7).contains('|'));
    }
}
