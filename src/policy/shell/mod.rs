//! Implements the supported subset of bash: text to tree and back, and words to what bash would expand them to.

mod ansi;
mod arithmetic;
pub mod ast;
mod braces;
mod conditions;
mod glob;
mod judge;
mod lexer;
pub mod parser;
pub mod placed;
pub mod printer;
mod redirections;
mod simple;
mod words;
mod wrappers;

pub use judge::{Approved, Step, judge, judge_in_steps};
pub(in crate::policy) use simple::no_rule_allows;
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
