//! The subset of bash that is understood: text to tree and back, and words to what bash would make of them.

mod ansi;
mod arithmetic;
pub mod ast;
mod braces;
mod glob;
mod judge;
mod lexer;
pub mod parser;
pub mod printer;
mod simple;
mod words;

pub use judge::{Approved, Step, judge, judge_in_steps};
