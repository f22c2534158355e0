//! Represents changes as values: what is staged, where an edit applies, and how a change is shown.

pub(crate) mod alike;
#[cfg(test)]
pub(crate) mod arbitrary;
pub mod binary;
pub mod change_set;
pub mod diff;
pub mod git_name;
pub mod layout;
pub mod loss;
pub mod merge;
pub mod patch;
pub mod patch_parser;
pub mod patch_reader;
pub mod replace;
pub mod selection;
pub mod syntax;
pub mod text;

pub use change_set::{Change, ChangeSet, Entry, Kind};
