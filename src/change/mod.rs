//! Changes as values: what is staged, how an edit finds its place, how a change is shown.

pub mod change_set;
pub mod replace;
pub mod text;

pub use change_set::{Change, ChangeSet, Entry, Kind};
