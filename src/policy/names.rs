//! Compares names of programs and variables.

/// Variables that may be set before a command (`NAME=value command`): they make no known program run another.
const HARMLESS: &str =
    "CI RUST_BACKTRACE RUST_LOG NO_COLOR FORCE_COLOR CLICOLOR TERM LANG LC_ALL TZ NODE_ENV DEBUG COLUMNS";

/// Returns the last part of a program's path.
pub(crate) fn base_name(program: &str) -> &str {
    program.trim_end_matches('/').rsplit('/').next().unwrap_or(program)
}

/// Tells whether a word is among names that are separated by spaces.
pub(crate) fn named(names: &str, word: &str) -> bool {
    names.split_whitespace().any(|name| name == word)
}

/// Tells whether a variable may be set before any command: it changes what is printed and loads nothing.
pub(crate) fn is_harmless_variable(name: &str) -> bool {
    named(HARMLESS, name)
}
