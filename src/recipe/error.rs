//! What is wrong with a recipe: a code, a place, the line itself, and what to do.

use std::fmt;

use super::file::Place;

/// Which rule is broken. The letters are those of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the documentation's; `meaning` says what they stand for")]
pub enum Code {
    R001,
    R002,
    R003,
    R004,
    R005,
    R006,
    R007,
    R008,
    R009,
    R010,
    R011,
    R012,
    P001,
    P002,
    P003,
    P004,
    N001,
    N002,
    W101,
    W102,
    W103,
    W104,
    W105,
    W106,
    W107,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 25] = [
        Code::R001,
        Code::R002,
        Code::R003,
        Code::R004,
        Code::R005,
        Code::R006,
        Code::R007,
        Code::R008,
        Code::R009,
        Code::R010,
        Code::R011,
        Code::R012,
        Code::P001,
        Code::P002,
        Code::P003,
        Code::P004,
        Code::N001,
        Code::N002,
        Code::W101,
        Code::W102,
        Code::W103,
        Code::W104,
        Code::W105,
        Code::W106,
        Code::W107,
    ];

    /// Returns what it stands for.
    pub fn meaning(self) -> &'static str {
        match self {
            Code::R001 => "the bytes: not UTF-8, too many, a hidden character",
            Code::R002 => "YAML syntax",
            Code::R003 => "unknown key",
            Code::R004 => "unknown format number",
            Code::R005 => "wrong type or value",
            Code::R006 => "template syntax, filter or name",
            Code::R007 => "a template names what is not declared",
            Code::R008 => "`extends`",
            Code::R009 => "an untrusted or secret value where it may not be",
            Code::R010 => "a template where permissions are asked for",
            Code::R011 => "the output's schema",
            Code::R012 => "the name is not that of the file",
            Code::P001 => "missing parameters",
            Code::P002 => "unknown parameter",
            Code::P003 => "a parameter's value",
            Code::P004 => "a parameter's path",
            Code::N001 => "a need that the policy does not grant",
            Code::N002 => "something that must be there and is not",
            Code::W101 => "unused parameter",
            Code::W102 => "a value that changes with every run in a cached prompt",
            Code::W103 => "unused context",
            Code::W104 => "changes without `verify`",
            Code::W105 => "no `limits.cost_usd`",
            Code::W106 => "`needs.run` asks for everything",
            Code::W107 => "untrusted input beside the right to write or reach out",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeError {
    /// The rule.
    pub code: Code,
    /// The place; without a file where it concerns the command line.
    pub place: Place,
    /// What is wrong there.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The line of the file.
    pub snippet: Option<String>,
}

/// Something that the owner should know; `--strict` makes an error of it.
pub type Warning = RecipeError;

impl RecipeError {
    /// An error at a place.
    pub fn new(code: Code, place: Place, message: impl Into<String>) -> RecipeError {
        RecipeError { code, place, message: message.into(), help: None, snippet: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> RecipeError {
        self.help = Some(help.into());
        self
    }

    /// Adds the line of the file, if its text is at hand.
    #[must_use]
    pub fn with_snippet(mut self, text: &str) -> RecipeError {
        const WIDTH: usize = 120;
        let index = usize::try_from(self.place.line).ok().and_then(|line| line.checked_sub(1));
        let line = index.and_then(|index| text.lines().nth(index));
        // What may hide in a line must not reach the terminal through its error.
        self.snippet = line.map(|line| {
            let shown: String = line.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect();
            if shown.chars().count() <= WIDTH { shown } else { shown.chars().take(WIDTH).chain(['…']).collect() }
        });
        self
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, line, column } = &self.place;
        match (file.is_empty(), *line) {
            (true, _) => write!(f, "{}: {}", self.code, self.message)?,
            (false, 0) => write!(f, "{file}: {}: {}", self.code, self.message)?,
            (false, line) => write!(f, "{file}:{line}:{column}: {}: {}", self.code, self.message)?,
        }
        if let Some(snippet) = &self.snippet {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            let before = usize::try_from(column.saturating_sub(1)).unwrap_or(0).min(snippet.chars().count());
            write!(f, "\n{margin} |\n{number} | {snippet}\n{margin} | {}^", " ".repeat(before))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RecipeError {}

/// Tells whether a character cannot be seen or changes how others are seen: it has no place in a recipe or in text from
/// strangers.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' | '\r' => false,
        c if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}' => true,
        '\u{2028}' | '\u{2029}' => true,
        _ => false,
    }
}
