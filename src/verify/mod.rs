//! Checks the model's work: failures go back into the same conversation, a limited number of times.
//!
//! Performs no I/O: `run` runs the checks, `policy` judges their commands.

pub mod anchor;
pub mod comments;
pub mod findings;
pub mod guards;
pub mod local;
pub mod new_side;
pub mod parts;
pub mod presets;
pub mod review;
pub mod shape;
pub mod suggestion;
pub mod violation;

use std::sync::LazyLock;

use regex::Regex;
use sha2::{Digest, Sha256};

use crate::base::cut;
use crate::change::ChangeSet;
use violation::Violation;

/// Bytes of a failed check's output that the model reads.
pub const FEEDBACK_BYTES: usize = 8_000;

/// Bytes of a check's output that are in the result.
pub const TAIL_BYTES: usize = 4_000;

/// Attempts of the model, the first one included, if no flag says otherwise.
pub const ATTEMPTS: u32 = 3;

/// What an attempt failed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// The change breaks rules.
    Guards(Vec<Violation>),
    /// A check did not do what was expected of it.
    Check(CheckResult),
}

impl Failed {
    /// Returns what failed, in a few words.
    pub fn name(&self) -> String {
        match self {
            Failed::Guards(violations) => {
                let mut guards: Vec<&str> = violations.iter().map(|violation| violation.guard).collect();
                guards.dedup();
                format!("the guard {}", guards.join(", "))
            }
            Failed::Check(check) => format!("the check `{}`", check.name),
        }
    }
}

/// How one check ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// The name; the command where it has none.
    pub name: String,
    /// Whether it was to fail.
    pub expect_failure: bool,
    /// Bytes of its output that the model reads.
    pub feedback_bytes: usize,
    /// The command as typed.
    pub command: String,
    /// Its exit code; `None` when a signal or the time ended it.
    pub exit_code: Option<i32>,
    /// Standard output and error, as captured.
    pub output: String,
    /// Whether the time ran out.
    pub timed_out: bool,
}

impl CheckResult {
    /// Tells whether it counts as passed.
    pub fn passed(&self) -> bool {
        match (self.timed_out, self.exit_code) {
            // What was ended from outside has said neither yes nor no.
            (true, _) | (false, None) => false,
            (false, Some(code)) => (code == 0) != self.expect_failure,
        }
    }
}

/// Writes the message that sends a failure back to the model.
///
/// `root` is the absolute path of the tree in which the check ran: it means nothing to the model and is removed.
pub fn feedback(failed: &Failed, root: &str, attempts_left: u32) -> String {
    let left = match attempts_left {
        1 => "This is the last attempt.".to_owned(),
        n => format!("{n} attempts are left."),
    };
    let check = match failed {
        Failed::Guards(violations) => {
            let lines: Vec<String> = violations
                .iter()
                .take(20)
                .map(|violation| format!("- {} ({})", violation.message, violation.guard))
                .collect();
            let more = violations.len().saturating_sub(20);
            let more = if more == 0 { String::new() } else { format!("\n- and {more} more") };
            return format!(
                "The change breaks rules that it must keep:\n\n{}{more}\n\nTake that back and solve the task another way. {left}",
                lines.join("\n")
            );
        }
        Failed::Check(check) => check,
    };
    let how = match (check.timed_out, check.exit_code) {
        (true, _) => "ran out of time".to_owned(),
        (false, Some(0)) => "passed, and it must fail".to_owned(),
        (false, Some(code)) => format!("failed with exit code {code}"),
        (false, None) => "was ended by a signal".to_owned(),
    };
    let output = middle_cut(&readable(&check.output, root), check.feedback_bytes);
    format!(
        "The check `{}` {how}. Its output:\n\n{}\n\nFix the cause; do not weaken the check. {left}",
        check.command,
        output.trim_end()
    )
}

/// Returns the end of a check's output for the result.
pub fn tail(output: &str, root: &str) -> String {
    let text = readable(output, root);
    text[cut::start(&text, TAIL_BYTES)..].to_owned()
}

/// Makes a value that is equal for the same failure on the same tree: numbers, times and addresses do not count.
pub fn fingerprint(failed: &Failed, changes: &ChangeSet) -> [u8; 32] {
    static VARYING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"0x[0-9A-Fa-f]+|\d+([.:]\d+)*").expect("the pattern is fixed"));
    let mut hasher = Sha256::new();
    match failed {
        Failed::Guards(violations) => {
            for violation in violations {
                hasher.update(violation.message.as_bytes());
            }
        }
        Failed::Check(check) => {
            hasher.update(check.command.as_bytes());
            hasher.update(VARYING.replace_all(&check.output, "#").as_bytes());
        }
    }
    for (path, change) in changes.iter() {
        hasher.update(path.as_bytes());
        hasher.update([0]);
        hasher.update(format!("{:?}", change.kind()).as_bytes());
        hasher.update(change.after.content().unwrap_or_default());
        hasher.update([0]);
    }
    hasher.finalize().into()
}

/// Removes escape sequences and the absolute path of the tree.
fn readable(text: &str, root: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                // A control sequence ends with a byte from `@` to `~`, an operating-system command with BEL.
                Some('[') => drop(characters.find(|c| ('@'..='~').contains(c))),
                Some(']') => drop(characters.find(|c| *c == '\u{7}')),
                Some(_) | None => {}
            },
            '\r' => {}
            other => plain.push(other),
        }
    }
    if root.is_empty() { plain } else { plain.replace(&format!("{root}/"), "").replace(root, ".") }
}

pub(crate) fn middle_cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let (head, tail) = (cut::end(text, limit / 4), cut::start(text, limit - limit / 4));
    format!("{}\n... [{} bytes left out] ...\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(output: &str) -> Failed {
        Failed::Check(CheckResult {
            command: "make test".into(),
            exit_code: Some(2),
            output: output.into(),
            feedback_bytes: FEEDBACK_BYTES,
            ..CheckResult::default()
        })
    }

    #[test]
    fn the_model_reads_what_failed_without_colours_and_private_paths() {
        let check = failure("\u{1b}[31merror\u{1b}[0m in /tmp/x/tree/src/a.rs:3\r\n");
        insta::assert_snapshot!(feedback(&check, "/tmp/x/tree", 2), @r"
        The check `make test` failed with exit code 2. Its output:

        error in src/a.rs:3

        Fix the cause; do not weaken the check. 2 attempts are left.
        ");
    }

    #[test]
    fn a_long_output_keeps_its_head_and_its_end() {
        let text = feedback(&failure(&format!("first\n{}\nlast", "é".repeat(20_000))), "", 1);
        assert!(text.contains("first\n") && text.contains("bytes left out") && text.contains("\nlast"));
        assert!(text.len() < FEEDBACK_BYTES + 500);
    }

    #[test]
    fn the_same_failure_is_recognised_whatever_its_numbers() {
        let empty = ChangeSet::default();
        let first = fingerprint(&failure("test took 1.25s at 0x7ffe12"), &empty);
        assert_eq!(first, fingerprint(&failure("test took 9.50s at 0x1100aa"), &empty));
        assert_ne!(first, fingerprint(&failure("another thing"), &empty));
        let mut changed = ChangeSet::default();
        changed.stage(
            crate::path::RelPath::new("a").unwrap(),
            || crate::change::Entry::Absent,
            crate::change::Entry::file("x"),
        );
        assert_ne!(first, fingerprint(&failure("test took 1.25s at 0x7ffe12"), &changed));
    }
}
