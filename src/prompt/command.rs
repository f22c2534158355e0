//! Parses custom commands: prompts kept in `.qwen/commands`, called by `/name args`.
//!
//! Performs no I/O: files come in as text, and what a template wants to read or run comes out as [`Segment`]s for the
//! caller to judge. A template is parsed before the arguments enter it, so no argument can become a command or a file.

use serde_json::{Map, Value};

use crate::base::Diagnostic;
use crate::base::document::{toml, yaml};
use crate::path::RelPath;

/// Where the arguments go.
const ARGUMENTS: &str = "{{args}}";

/// A command, as its file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// What it is for.
    pub description: Option<String>,
    /// The template of the prompt.
    pub prompt: String,
    /// What the owner should know.
    pub warnings: Vec<String>,
}

/// What is wrong with a command's file.
#[derive(Debug, thiserror::Error)]
pub enum CommandFileError {
    /// It cannot be read, or is not for a person to call.
    #[error("{file}: {why}")]
    Unusable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// It cannot be parsed, or a key has a value of another type.
    #[error(transparent)]
    Invalid(#[from] Diagnostic),
    /// A markdown file without text.
    #[error("{0}: no prompt")]
    NoPrompt(String),
    /// A TOML file without `prompt`.
    #[error("{0}: no prompt; write `prompt = \"…\"` at its top")]
    NoPromptKey(String),
    /// `!{` or `@{` without its end.
    #[error("the command /{name} has a `{open}` that is not closed")]
    NotClosed {
        /// The command.
        name: String,
        /// What is not closed.
        open: String,
    },
}

/// A part of a command's prompt, arguments in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Text as it is.
    Text(String),
    /// `!{cmd}`: the output of a command, arguments quoted for the shell.
    Shell(String),
    /// `@{path}`: a file.
    File(String),
}

impl Command {
    /// Reads a file by its ending, `.toml` or `.md`.
    pub fn parse(file: &str, text: &str) -> Result<Command, CommandFileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let command =
            if file.ends_with(".toml") { Command::from_toml(file, text) } else { Command::from_markdown(file, text) }?;
        if command.prompt.trim().is_empty() {
            return Err(match file.ends_with(".toml") {
                true => CommandFileError::NoPromptKey(file.to_owned()),
                false => CommandFileError::NoPrompt(file.to_owned()),
            });
        }
        Ok(command)
    }

    fn from_toml(file: &str, text: &str) -> Result<Command, CommandFileError> {
        let mut command = Command::default();
        for (key, value) in toml::parse(file, text)? {
            let wrong = |message: String| Diagnostic::at(file, key.span, message);
            let text = value.as_str().map(str::to_owned);
            match &*key.value {
                name @ ("prompt" | "description") if text.is_none() => {
                    return Err(wrong(format!("{name} must be text")).into());
                }
                "prompt" => command.prompt = text.unwrap_or_default(),
                "description" => command.description = text,
                name => command.warnings.push(wrong(format!("unknown key `{name}`")).to_string()),
            }
        }
        Ok(command)
    }

    fn from_markdown(file: &str, text: &str) -> Result<Command, CommandFileError> {
        let Some((front, body)) = front_matter(text) else {
            return Ok(Command { prompt: text.to_owned(), ..Command::default() });
        };
        let keys: Map<String, Value> = match front.trim().is_empty() {
            true => Map::new(),
            false => yaml::parse(file, front)?,
        };
        let description = keys.get("description").and_then(Value::as_str).map(str::to_owned);
        Ok(Command { description, prompt: body.to_owned(), ..Command::default() })
    }

    /// Inserts the arguments and parses the template.
    ///
    /// A template without a place for them gets them at its end, with the call as it was typed.
    pub fn segments(&self, name: &str, arguments: &str) -> Result<Vec<Segment>, CommandFileError> {
        let mut segments = Vec::new();
        let mut text = String::new();
        let mut rest = self.prompt.as_str();
        while let Some(at) = [rest.find("!{"), rest.find("@{")].into_iter().flatten().min() {
            text.push_str(&rest[..at].replace(ARGUMENTS, arguments));
            let inside = &rest[at + 2..];
            let open = || CommandFileError::NotClosed { name: name.to_owned(), open: rest[at..at + 2].to_owned() };
            let length = closing(inside).ok_or_else(open)?;
            let wanted = inside[..length].trim();
            if !text.is_empty() {
                segments.push(Segment::Text(std::mem::take(&mut text)));
            }
            segments.push(if rest[at..].starts_with('!') {
                Segment::Shell(wanted.replace(ARGUMENTS, &quoted(arguments)))
            } else {
                Segment::File(wanted.replace(ARGUMENTS, arguments))
            });
            rest = &inside[length + 1..];
        }
        text.push_str(&rest.replace(ARGUMENTS, arguments));
        if !arguments.is_empty() && !self.prompt.contains(ARGUMENTS) {
            text.push_str(&format!("\n\n/{name} {arguments}"));
        }
        if !text.is_empty() {
            segments.push(Segment::Text(text));
        }
        Ok(segments)
    }
}

/// Splits a prompt that calls a command into its name and arguments; `None` for any other prompt.
///
/// A path (`/etc/hosts is wrong`) is not a call: a name holds no further slash.
pub fn called(prompt: &str) -> Option<(&str, &str)> {
    let rest = prompt.trim().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let is_name = name.chars().next().is_some_and(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || "_-.:".contains(c));
    is_name.then_some((name, arguments.trim()))
}

/// Returns the name of a command by its file below the directory of commands: `git/fix.toml` is `git:fix`.
pub fn name_of(file: &RelPath) -> Option<String> {
    let text = std::str::from_utf8(file.as_bytes()).ok()?;
    let stem = text.strip_suffix(".toml").or_else(|| text.strip_suffix(".md"))?;
    let name = stem.replace('/', ":");
    called(&format!("/{name}")).is_some_and(|(found, _)| found == name).then_some(name)
}

/// Returns the name of a variable if a command does nothing but print it: `echo $NAME`, quoted or not.
///
/// Commands of GitHub workflows take what the event says that way. It needs no shell: the value is text, and no part
/// of it is ever parsed.
pub fn printed_variable(command: &str) -> Option<&str> {
    let printed = command.trim().strip_prefix("echo ").map(str::trim)?;
    let bare = printed.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(printed);
    let name = bare.strip_prefix('$')?;
    let name = name.strip_prefix('{').map_or(Some(name), |inner| inner.strip_suffix('}'))?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && name.chars().next().is_some_and(|c| !c.is_ascii_digit())).then_some(name)
}

/// Splits off the block between two lines `---` at the beginning.
fn front_matter(text: &str) -> Option<(&str, &str)> {
    let line_end = |text: &str| text.find('\n').map_or(text.len(), |at| at + 1);
    let first = line_end(text);
    if text[..first].trim_end() != "---" {
        return None;
    }
    let mut at = first;
    while at < text.len() {
        let end = at + line_end(&text[at..]);
        if text[at..end].trim_end() == "---" {
            return Some((&text[first..at], &text[end..]));
        }
        at = end;
    }
    None
}

/// Returns where the brace that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Makes one literal word of a text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(prompt: &str) -> Command {
        Command { prompt: prompt.into(), ..Command::default() }
    }

    #[test]
    fn a_call_is_a_slash_and_a_name() {
        for (prompt, expected) in [
            ("/fix the bug", Some(("fix", "the bug"))),
            ("  /git:commit\n", Some(("git:commit", ""))),
            ("/qwen-invoke", Some(("qwen-invoke", ""))),
            ("/etc/hosts is wrong", None),
            ("/ nothing", None),
            ("fix /a", None),
            ("/-x", None),
            ("//x", None),
        ] {
            assert_eq!(called(prompt), expected, "{prompt:?}");
        }
    }

    #[test]
    fn folders_stand_in_the_name_of_a_command() {
        let name = |path: &str| name_of(&RelPath::new(path).unwrap());
        assert_eq!(name("fix.toml").as_deref(), Some("fix"));
        assert_eq!(name("git/deep/fix.md").as_deref(), Some("git:deep:fix"));
        assert_eq!(name("a b.toml"), None);
        assert_eq!(name("README.txt"), None);
    }

    #[test]
    fn a_template_is_taken_apart_before_the_arguments_enter_it() {
        let segments =
            command("Do {{args}}: !{git log {{args}}} and @{docs/{{args}}.md}!").segments("x", "a 'b' !{rm}");
        let expected = [
            Segment::Text("Do a 'b' !{rm}: ".into()),
            Segment::Shell(r"git log 'a '\''b'\'' !{rm}'".into()),
            Segment::Text(" and ".into()),
            Segment::File("docs/a 'b' !{rm}.md".into()),
            Segment::Text("!".into()),
        ];
        assert_eq!(segments.unwrap(), expected);
    }

    #[test]
    fn braces_inside_of_a_command_are_counted_and_an_open_one_is_an_error() {
        let segments = command("!{awk '{print $1}' a}").segments("x", "").unwrap();
        assert_eq!(segments, [Segment::Shell("awk '{print $1}' a".into())]);
        assert!(command("a !{b").segments("x", "").unwrap_err().to_string().contains("not closed"));
    }

    #[test]
    fn arguments_without_a_place_come_last() {
        let segments = command("Review.").segments("review", "src/a.rs").unwrap();
        assert_eq!(segments, [Segment::Text("Review.\n\n/review src/a.rs".into())]);
    }

    #[test]
    fn files_are_toml_or_markdown() {
        let toml = Command::parse("a.toml", "description = \"d\"\nprompt = \"\"\"\nDo it.\n\"\"\"\nx = 1\n").unwrap();
        assert_eq!((toml.description.as_deref(), toml.prompt.as_str()), (Some("d"), "Do it.\n"));
        assert_eq!(toml.warnings, ["a.toml:5:1: unknown key `x`"]);
        let markdown = Command::parse("a.md", "---\ndescription: d\nargument-hint: x\n---\nDo it.\n").unwrap();
        assert_eq!((markdown.description.as_deref(), markdown.prompt.as_str()), (Some("d"), "Do it.\n"));
        assert_eq!(Command::parse("a.md", "Just this.").unwrap().prompt, "Just this.");
        let missing = "a.toml: no prompt; write `prompt = \"…\"` at its top";
        assert_eq!(Command::parse("a.toml", "description = 'd'\n[x]\nprompt = 'p'").unwrap_err().to_string(), missing);
        assert_eq!(Command::parse("a.md", "").unwrap_err().to_string(), "a.md: no prompt");
        assert_eq!(Command::parse("a.toml", "prompt = 3").unwrap_err().to_string(), "a.toml:1:1: prompt must be text");
    }

    #[test]
    fn printing_one_variable_needs_no_shell() {
        for command in ["echo $ISSUE_TITLE", "echo \"$ISSUE_TITLE\"", " echo ${ISSUE_TITLE} "] {
            assert_eq!(printed_variable(command), Some("ISSUE_TITLE"));
        }
        for command in
            ["echo $A $B", "echo $A; rm x", "echo ${A:-x}", "echo $(x)", "echo $1", "echo '$A'", "cat $A", "echo $"]
        {
            assert_eq!(printed_variable(command), None, "{command}");
        }
    }

    proptest! {
        #[test]
        fn no_argument_changes_the_number_of_segments(arguments in "[!@{}a$'\" ]{0,20}") {
            let template = command("a {{args}} !{b {{args}}} @{c} d");
            let plain = template.segments("x", "y").unwrap().len();
            prop_assert_eq!(template.segments("x", &arguments).unwrap().len(), plain);
        }
    }
}
