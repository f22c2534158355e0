//! Finds what is left of lines of which a task asks to remove all: small models stop after the first.

use std::collections::HashSet;

use super::diff::LineDiff;
use super::loss::{begins_with_word, has_beginning};

/// Most lines that are asked about.
const MOST: usize = 12;

/// Words by which a task means every line of a kind, and beginnings of words by which it asks to remove something.
const EVERY: &[&str] = &["all", "every", "everywhere", "each", "any"];
const REMOVALS: &[&str] = &["remov", "delete", "deleting", "drop", "strip"];

/// Tells whether a task asks to remove everything of a kind.
pub(crate) fn removes_all(task: &str) -> bool {
    let lower = task.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    words.any(|word| EVERY.contains(&word)) && has_beginning(task, REMOVALS)
}

/// Returns the lines of a new text, from 1, that begin as the lines that it lost: with the same call, or the same two
/// words, of which the task names one. Empty where there are more than can be asked about.
pub(crate) fn left(before: &str, after: &str, task: &str) -> Vec<(usize, String)> {
    let task = task.to_lowercase();
    let named = |begin: &String| {
        let begin = begin.to_lowercase();
        let mut words = begin.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        words.any(|word| task.split(|c: char| !c.is_alphanumeric()).any(|other| other == word))
    };
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let diff = LineDiff::new(before.as_bytes(), after.as_bytes());
    let beginnings: HashSet<String> = diff
        .edits()
        .filter(|(_, came)| came.iter().all(|line| line.trim_ascii().is_empty()))
        .flat_map(|(range, _)| old[range].iter().filter_map(|line| beginning(line)))
        .filter(named)
        .collect();
    let begins = |line: &str| beginning(line).is_some_and(|begin| beginnings.contains(&begin));
    let left: Vec<(usize, String)> = (1..)
        .zip(after.lines())
        .filter(|(_, line)| begins(line))
        .map(|(number, line)| (number, line.trim().to_owned()))
        .collect();
    if left.len() > MOST { Vec::new() } else { left }
}

/// Returns a text without the lines of [`left`].
pub(crate) fn without_left(before: &str, after: &str, task: &str) -> String {
    let left = left(before, after, task);
    let stays = |(number, _): &(usize, &str)| left.iter().all(|(gone, _)| gone != number);
    (1..).zip(after.split_inclusive('\n')).filter(stays).map(|(_, line)| line).collect()
}

/// Returns what tells the kind of a line: its call up to the bracket, or else its first two words.
fn beginning(line: &str) -> Option<String> {
    let line = line.trim();
    let name = line.find(|c: char| !c.is_alphanumeric() && !"._:".contains(c)).unwrap_or(line.len());
    if name > 1 && line[name..].starts_with('(') {
        return Some(line[..=name].to_owned());
    }
    let mut words = line.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    Some(format!("{first} {second}"))
}

/// Returns the question whether what is left is to go, too: for each file its name, and its text before and after. `None`
/// if nothing is left.
pub(crate) fn question<'t>(files: impl Iterator<Item = (String, &'t str, &'t str)>, task: &str) -> Option<String> {
    let mut listed = String::new();
    for (name, before, after) in files {
        let lines = left(before, after, task);
        listed.extend(lines.iter().map(|(number, line)| {
            let line: String = line.chars().take(200).collect();
            format!("\n{name}, line {number}: {line}")
        }));
    }
    (!listed.is_empty()).then(|| {
        format!(
            "These lines are like the ones that you removed, and are still there:{listed}\nDoes the task ask to remove \
             them, too? Answer with one word: \"remove\" takes them out, \"keep\" leaves them."
        )
    })
}

/// Tells whether an answer to the question is that the lines are to go.
pub(crate) fn wants_removed(answer: &str) -> bool {
    begins_with_word(answer, "remove", "keep")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_begins_as_what_went() {
        let before = "console.log(1);\nf();\n  console.log(2);\nconsole.error(3);\n";
        let after = "f();\n  console.log(2);\nconsole.error(3);\n";
        assert_eq!(left(before, after, "Remove all console.log"), [(2, "console.log(2);".to_owned())]);
        assert_eq!(without_left(before, after, "Remove all console.log"), "f();\nconsole.error(3);\n");
        assert_eq!(left("echo DEBUG a\necho built\n", "echo built\n", "all DEBUG"), []);
        assert_eq!(left("import re\nimport os\n", "import os\n", "all imports of re"), []);
        assert_eq!(left("# TODO: a\n# TODO: b\n", "# TODO: b\n", "every TODO"), [(1, "# TODO: b".to_owned())]);
        // What the task does not name, and what was replaced.
        assert_eq!(left("return None\nreturn None\n", "return None\n", "all debug lines"), []);
        assert_eq!(left("f(1)\nf(2)\n", "f(3)\nf(2)\n", "all calls of f"), []);
        assert_eq!(left(&"f(1)\n".repeat(20), &"f(1)\n".repeat(19), "all fun"), []);
    }

    #[test]
    fn only_a_task_for_all_lines_of_a_kind_is_asked_about_them() {
        assert!(removes_all("Remove all console.log lines from server.js."));
        assert!(removes_all("Delete every TODO."));
        assert!(!removes_all("Remove the first console.log line."));
        assert!(!removes_all("Say all that is known."));
    }

    #[test]
    fn an_answer_wants_lines_gone_or_not() {
        assert!(wants_removed("remove") && wants_removed("\"Remove\"."));
        assert!(!wants_removed("keep") && !wants_removed("remove or keep?") && !wants_removed("Do not remove them."));
    }
}
