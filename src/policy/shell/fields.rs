//! Represents words after expansion.

use super::ast::Word;
use crate::path::RelPath;
use crate::policy::programs::{Stdin, Word as RuleWord};

/// A word after expansion.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// What the rules see.
    pub(super) word: RuleWord,
    /// How it is printed: literally, or with the variables whose values are known.
    pub(super) shown: Word,
}

impl Field {
    pub(super) fn literal(text: &str) -> Field {
        Field { word: RuleWord::literal(text), shown: Word::from_text(text) }
    }

    /// Returns the text if it is known.
    pub(super) fn text(&self) -> Option<&str> {
        self.word.literal.then_some(self.word.text.as_str())
    }
}

/// The place of a word, which decides about the substitutions that it accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) folders: &'a [RelPath],
    pub(super) stdin: Stdin,
    /// `"$( )"` is accepted: an argument of `echo`.
    pub(super) output: bool,
    /// `<( )` is accepted: an operand of a program.
    pub(super) process: bool,
}
