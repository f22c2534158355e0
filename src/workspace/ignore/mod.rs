//! Decides which files are ignored, by `.gitignore`, `.qwenignore` and the files next to the latter ([`BESIDE`]) only.
//!
//! Follows git's rules, byte for byte: the ignore files of every directory from the repository's root down, the last
//! matching line of the nearest file wins, nothing below an ignored directory is included again, `.git/info/exclude`
//! comes last. `.ignore`, `.rgignore` and the user's global ignores are not read: a run is the same on every machine.
//!
//! The matcher of the `ignore` crate is not used: in its globs `{a,b}` is a choice and `[[:alpha:]]` is not a class;
//! git reads both the other way. A property test compares this file with `git check-ignore`.

mod kinds;
mod level;
mod pattern;
mod source;

pub use kinds::{BESIDE, Ignored, Kind, TrustedIgnores};
pub use level::{Level, Rules};
pub use pattern::wildmatch;
pub use source::Source;

#[cfg(test)]
mod tests;
