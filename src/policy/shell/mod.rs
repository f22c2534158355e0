//! The subset of bash that is understood: text to tree and back, and words to what bash would make of them.

pub mod ast;
mod judge;

pub use judge::{Approved, Step, judge, judge_in_steps};
