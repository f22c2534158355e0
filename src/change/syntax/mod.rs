//! Finds what a change broke: a file that could be read before it, and not after it.

mod brackets;

use std::fmt;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
use serde::de::IgnoredAny;

use crate::base::document::{jsonc, toml};
use crate::base::{Diagnostic, Span};

/// Bytes of a file above which nothing is looked at.
const MOST_BYTES: usize = 1 << 20;

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The place; line 0 if none is known.
    pub span: Span,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl Fault {
    fn at(text: &str, offset: usize, message: impl Into<String>) -> Fault {
        Fault { span: Span::of(text, offset), message: message.into() }
    }

    fn of(diagnostic: Diagnostic) -> Fault {
        Fault { span: diagnostic.span, message: diagnostic.message }
    }
}

/// Returns what is wrong with the new text of a file if nothing was wrong before. `name` tells the format by its
/// ending; `before` is `None` for a new file.
///
/// ```
/// use qwen_run::change::syntax::broken;
///
/// assert_eq!(broken("a.json", Some("{}"), "{\"a\": 1,}").unwrap().span.line, 1);
/// assert_eq!(broken("a.json", Some("{"), "{{"), None);
/// ```
pub fn broken(name: &str, before: Option<&str>, after: &str) -> Option<Fault> {
    let before = before.filter(|text| !text.trim().is_empty());
    let is_looked_at = |text: &str| text.len() <= MOST_BYTES;
    if after.trim().is_empty() || !is_looked_at(after) || !before.is_none_or(is_looked_at) {
        return None;
    }
    let (stem, ending) = name.rsplit_once('.')?;
    let reader: fn(&str) -> Option<Fault> = match ending.to_ascii_lowercase().as_str() {
        // A file that already has comments may keep them, and a new file may have them.
        "json" if before.is_some_and(|text| json(text).is_none()) && !takes_comments(stem) => json,
        "json" | "jsonc" => commented_json,
        "toml" => toml_file,
        "yaml" | "yml" => yaml,
        "md" | "markdown" => open_fence,
        code => {
            let found = brackets::broken(code, before.unwrap_or_default(), after);
            return found.map(|(at, message)| Fault::at(after, at, message));
        }
    };
    match before.and_then(reader) {
        Some(_) => None,
        None => reader(after),
    }
}

/// Tells whether a JSON file of this name may have comments by its program's rules.
fn takes_comments(stem: &str) -> bool {
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let folder = |folder: &str| stem.starts_with(&format!("{folder}/")) || stem.contains(&format!("/{folder}/"));
    name.starts_with("tsconfig") || name.starts_with("jsconfig") || folder(".vscode") || folder(".devcontainer")
}

fn json(text: &str) -> Option<Fault> {
    let error = serde_json::from_str::<IgnoredAny>(text).err()?;
    let (line, column) = (u32::try_from(error.line()).ok()?, u32::try_from(error.column()).ok()?);
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    Some(Fault { span: Span { line, column }, message: message.to_owned() })
}

fn commented_json(text: &str) -> Option<Fault> {
    jsonc::parse("", text).err().map(Fault::of)
}

fn toml_file(text: &str) -> Option<Fault> {
    toml::parse("", text).err().map(Fault::of)
}

/// Reads any number of documents with all features of YAML. A template is not YAML.
fn yaml(text: &str) -> Option<Fault> {
    if text.contains("{{") || text.contains("{%") {
        return None;
    }
    let options = serde_yaml::options! { with_snippet: false };
    let error = serde_yaml::from_multiple_with_options::<IgnoredAny>(text, options).err()?;
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let message = message.split(" at line ").next().unwrap_or_default();
    let message = message.split_once(": ").filter(|(place, _)| place.starts_with("line ")).map_or(message, |(_, m)| m);
    Some(Fault { span: error.location().map(Span::from).unwrap_or_default(), message: message.to_owned() })
}

/// Finds a fence that nothing closes, so that the rest of the file is code.
fn open_fence(text: &str) -> Option<Fault> {
    let mut fences = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter().filter_map(|(event, range)| {
        matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))).then_some(range)
    });
    let range = fences.find(|range| text[range.end..].trim().is_empty() && !is_closed(&text[range.clone()]))?;
    Some(Fault::at(text, range.start, "the code fence that begins here is never closed"))
}

/// Tells whether a fenced block has its last line.
fn is_closed(block: &str) -> bool {
    let mark = block.chars().next().unwrap_or('`');
    let length = block.chars().take_while(|c| *c == mark).count();
    let last = block.trim_end().lines().skip(1).last().unwrap_or_default();
    // Within a quotation or a list each line has something in front.
    let last = last.trim_start_matches([' ', '\t', '>']);
    last.chars().count() >= length && last.chars().all(|c| c == mark)
}

#[cfg(test)]
mod tests;
