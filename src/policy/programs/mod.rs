//! What the programs we know do with their words: one table a program.

use super::decision::{Denial, RuleRef};
use super::effect::Effect;

/// A word of a simple command after quote removal and expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The decoded text; empty where nothing of it is known.
    pub text: String,
    /// Whether `text` is exactly what the program gets. `false`: it holds the output of a substitution, or words that
    /// `xargs` adds.
    pub literal: bool,
}

impl Word {
    /// A word whose text is known.
    pub fn literal(text: impl Into<String>) -> Word {
        Word { text: text.into(), literal: true }
    }
}

/// What stands on a command's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the run gives none.
    Empty,
    /// The output of another command.
    Pipe,
    /// A file or a here-document.
    Data,
}

/// What one simple command would do, if it may run at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The allow rule that matched.
    pub rule: RuleRef,
    /// What it does to files; each is still to be judged by the path rules.
    pub effects: Vec<Effect>,
    /// Commands that it starts itself (`xargs`, `find -exec`, `env`, `timeout`): each is still to be judged.
    pub starts: Vec<Vec<Word>>,
    /// The table says that it writes nothing, on disk or elsewhere.
    pub writes_nothing: bool,
    /// It is a git subcommand that writes `.git`.
    pub writes_git: bool,
    /// Words that our printing adds before the operands (`--sandbox` for sed, exclusions for git).
    pub added_options: Vec<String>,
}

/// The outcome of asking about one simple command.
pub type Judgement = Result<Judged, Denial>;
