//! Implements the supported subset of bash: text to tree and back, and words to what bash would expand them to.

mod ansi;
mod arithmetic;
pub mod ast;
mod braces;
mod builtins;
mod compound;
mod conditions;
mod fields;
pub mod form;
mod glob;
mod judge;
mod lexer;
pub mod parser;
mod placed;
pub mod printer;
mod redirections;
mod simple;
mod state;
mod words;
mod wrappers;

pub(in crate::policy) use builtins::no_rule_allows;
pub use judge::{Approved, judge, judge_in_steps};
pub use state::Step;
pub(in crate::policy) use wrappers::WRAPPERS;

/// Quotes a text so that the command parser reads it as one word.
pub(in crate::policy) fn quoted(text: &str) -> String {
    printer::print_word(&ast::Word::from_text(text))
}

#[cfg(test)]
mod against_bash;
#[cfg(test)]
pub(super) mod stand_in;
#[cfg(test)]
mod tests;
