//! Finds what a rewritten file lost that a rewrite seldom means to lose: headings, a licence, exports, sections of a
//! configuration.

use std::collections::{HashMap, HashSet};

use super::diff::LineDiff;

/// What a line of a file is, if its loss is worth a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mark {
    Heading,
    Licence,
    Export,
    Interpreter,
    Section,
}

/// Lines of a file's beginning in which a licence is looked for.
const LICENCE_LINES: usize = 20;

/// Returns the headings, licence lines, exports, sections and the `#!` of a text that its new text lacks and has nothing of the
/// same kind for. `name` tells the language by its ending.
///
/// ```
/// use qwen_run::change::loss::lost_marks;
///
/// assert_eq!(lost_marks("a.md", "# A\n\nb\n", "b\n"), ["# A"]);
/// assert_eq!(lost_marks("a.md", "# A\n\nb\n", "# C\n\nb\n"), Vec::<&str>::new());
/// ```
pub fn lost_marks<'t>(name: &str, before: &'t str, after: &str) -> Vec<&'t str> {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    let (before, after) = (marks(ending, before), marks(ending, after));
    let counted = |marks: &[(Mark, &str)]| {
        let mut counts: HashMap<Mark, usize> = HashMap::new();
        marks.iter().for_each(|(kind, _)| *counts.entry(*kind).or_default() += 1);
        counts
    };
    let (were, are) = (counted(&before), counted(&after));
    let mut kept: HashMap<&str, usize> = HashMap::new();
    after.iter().for_each(|(_, line)| *kept.entry(*line).or_default() += 1);
    let mut is_gone = |line: &str| match kept.get_mut(line).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    };
    let fewer = before.iter().filter(|(kind, _)| are.get(kind) < were.get(kind));
    fewer.map(|(_, line)| *line).filter(|line| is_gone(line)).collect()
}

fn marks<'t>(ending: &str, text: &'t str) -> Vec<(Mark, &'t str)> {
    let is_markdown = matches!(ending, "md" | "markdown");
    let mut in_fence = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        in_fence ^= is_markdown && line.trim_start().starts_with("```");
        let mark = if number == 0 && line.starts_with("#!") {
            Some(Mark::Interpreter)
        } else if number < LICENCE_LINES && !is_markdown && is_licence(line) {
            Some(Mark::Licence)
        } else if is_markdown && !in_fence && is_heading(line) {
            Some(Mark::Heading)
        } else if is_section(ending, line) {
            Some(Mark::Section)
        } else {
            is_export(ending, line).then_some(Mark::Export)
        };
        found.extend(mark.map(|mark| (mark, line.trim_end())));
    }
    found
}

fn is_heading(line: &str) -> bool {
    let depth = line.bytes().take_while(|byte| *byte == b'#').count();
    (1..=6).contains(&depth) && line[depth..].starts_with(' ')
}

fn is_licence(line: &str) -> bool {
    let line = line.to_lowercase();
    ["copyright", "spdx-license-identifier", "licensed under"].iter().any(|words| line.contains(words))
}

/// Tells whether a line begins a section of a configuration: a key at the left edge, or `[name]`.
fn is_section(ending: &str, line: &str) -> bool {
    match ending {
        "yaml" | "yml" => {
            let key = line.split_once(':').filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
            key.is_some_and(|(key, _)| key.starts_with(|c: char| c.is_alphanumeric() || "_\"'".contains(c)))
        }
        "toml" | "ini" | "cfg" => line.starts_with('['),
        _ => false,
    }
}

/// Tells whether a line declares something that other files may use.
fn is_export(ending: &str, line: &str) -> bool {
    let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    match ending {
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => {
            begins(&["export ", "module.exports", "exports."])
        }
        "rs" => begins(&["pub "]) && !begins(&["pub use ", "pub mod "]),
        "py" => begins(&["def ", "async def ", "class "]) && !line.contains(" _"),
        "go" => line.strip_prefix("func ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase())),
        _ => false,
    }
}

/// Words that say what a line declares, and not its name.
const KEYWORDS: &[&str] = &[
    "pub",
    "crate",
    "async",
    "unsafe",
    "const",
    "static",
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "impl",
    "export",
    "default",
    "function",
    "class",
    "def",
    "func",
    "let",
    "var",
    "interface",
    "abstract",
    "module",
    "exports",
];

/// Tells whether a task names a line, so that its loss is meant.
fn is_named(line: &str, task: &str) -> bool {
    let task = task.to_lowercase();
    let line = line.to_lowercase();
    if is_licence(&line) {
        return task.contains("licen") || task.contains("copyright") || task.contains("header");
    }
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let named = |word: &str| task.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word);
    if line.starts_with('#') {
        words.all(named)
    } else {
        words.find(|word| !KEYWORDS.contains(word)).is_some_and(named)
    }
}

/// Tells whether a task has half of the longer words of a line, so that its loss may be meant.
fn is_described(line: &str, task: &str) -> bool {
    let longer = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| word.len() > 3).map(str::to_lowercase).collect()
    };
    let (words, task) = (longer(line), longer(task));
    !words.is_empty() && words.iter().filter(|word| task.contains(word)).count() * 2 >= words.len()
}

/// Tells whether the first half of a line is that of another.
fn is_like(old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (old.trim_ascii(), new.trim_ascii());
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    same > 0 && same * 2 >= old.len()
}

/// What a rewritten file lost and a task does not ask to lose.
struct Lost<'t> {
    /// The lines to ask about.
    lines: Vec<&'t str>,
    /// The text with what can be put back; `None` if nothing can.
    restored: Option<String>,
}

/// Endings of files of prose, of which every lost paragraph counts.
const PROSE: &[&str] = &["md", "markdown", "txt", "rst", "adoc"];

/// Beginnings of words by which a task asks for less or for something else in the same place.
const REMOVALS: &[&str] = &[
    "clean",
    "cut",
    "dedup",
    "delete",
    "deleting",
    "drop",
    "duplicate",
    "extract",
    "inline",
    "instead",
    "merg",
    "mov",
    "only",
    "remov",
    "replac",
    "rewrit",
    "short",
    "simplif",
    "sort",
    "split",
    "strip",
    "unused",
    "without",
];

/// Tells whether a task asks for less, or for something else in the same place.
pub(crate) fn asks_for_less(task: &str) -> bool {
    has_beginning(task, REMOVALS)
}

/// Tells whether a word of a task begins with one of these.
pub(super) fn has_beginning(task: &str, beginnings: &[&str]) -> bool {
    let mut words = task.split(|c: char| !c.is_alphanumeric());
    words.any(|word| beginnings.iter().any(|begin| word.to_lowercase().starts_with(begin)))
}

/// Finds what a rewritten file lost. Lost are its headings, exports and the like that the task does not name; and where the
/// task does not ask for less, too, the lines at its end, as of a rewrite that was cut, and paragraphs of prose.
fn lost<'t>(name: &str, before: &'t str, after: &str, task: &str) -> Lost<'t> {
    let marks: Vec<&str> = lost_marks(name, before, after).into_iter().filter(|line| !is_named(line, task)).collect();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    let asks_less = asks_for_less(task);
    let marked: HashSet<&str> = marks.iter().copied().collect();
    let kept: HashSet<&str> = after.lines().map(str::trim_end).collect();
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let written = old.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    let (mut lines, mut text, mut copied) = (marks.clone(), String::new(), 0);
    let mut is_restored = false;
    for (range, came) in LineDiff::new(before.as_bytes(), after.as_bytes()).edits() {
        // New lines may be like the first old ones: then only the rest is gone. Paragraphs behind as many as came are
        // gone whatever the ones before became.
        let replaced = &old[range.clone()];
        let behind = if asks_less { None } else { behind_paragraphs(replaced, paragraphs(came)) };
        let (changed, gone) = match behind {
            Some(at) => (&replaced[..0], &replaced[at..]),
            None => replaced.split_at(came.len().min(range.len())),
        };
        let words: Vec<&str> = gone.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
        let is_cut = !asks_less && (range.end >= written || PROSE.contains(&ending));
        // What stands elsewhere was moved.
        let longest = words.iter().max_by_key(|line| line.len());
        let is_lost = longest.is_some_and(|line| !kept.contains(line))
            && changed.iter().zip(came).all(|(old, new)| is_like(old.as_bytes(), new))
            && !words.iter().any(|line| is_described(line, task))
            && (is_cut || words.iter().any(|line| marked.contains(line)));
        text.push_str(&old[copied..range.start].concat());
        text.push_str(&String::from_utf8_lossy(&came.concat()));
        if is_lost {
            lines.extend(words.into_iter().filter(|line| !marked.contains(line)));
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&gone.concat());
            is_restored = true;
        }
        copied = range.end;
    }
    text.push_str(&old[copied..].concat());
    Lost { lines, restored: is_restored.then_some(text) }
}

/// Counts the paragraphs of some lines: what empty lines are between.
fn paragraphs(lines: &[&[u8]]) -> usize {
    let is_empty = |line: &[u8]| line.trim_ascii().is_empty();
    let begins = |at: usize| !is_empty(lines[at]) && (at == 0 || is_empty(lines[at - 1]));
    (0..lines.len()).filter(|at| begins(*at)).count()
}

/// Returns where the paragraphs of some lines begin that are behind the first `count`, with the empty line before them;
/// `None` without any, or where the first ones are none.
fn behind_paragraphs(lines: &[&str], count: usize) -> Option<usize> {
    let is_empty = |at: usize| lines[at].trim().is_empty();
    let mut begins = (0..lines.len()).filter(|at| !is_empty(*at) && (*at == 0 || is_empty(*at - 1)));
    let at = begins.nth(count).filter(|at| count > 0 && *at > 0)?;
    Some(at - 1)
}

/// Lines of a question that are written out.
const MOST_LINES: usize = 12;

/// Returns the question about what rewritten files lost and the task does not name: for each file its name, and its
/// text before and after. `None` if there is nothing to ask.
pub fn question<'t>(files: impl Iterator<Item = (String, &'t str, &'t str)>, task: &str) -> Option<String> {
    let mut asked: Vec<String> = Vec::new();
    for (name, before, after) in files {
        let lines = lost(&name, before, after, task).lines;
        asked.extend(lines.iter().map(|line| format!("{name}: {}", line.chars().take(200).collect::<String>())));
    }
    if asked.is_empty() {
        return None;
    }
    let more = asked.len().saturating_sub(MOST_LINES);
    asked.truncate(MOST_LINES);
    let more = if more > 0 { format!("\n... and {more} more") } else { String::new() };
    Some(format!(
        "These lines were in the files before you wrote them anew, and are gone:\n{}{more}\nDoes the task ask to remove \
         them? Answer with one word: \"restore\" puts them back, \"remove\" leaves them out.",
        asked.join("\n")
    ))
}

/// Tells whether an answer to the question is that the lines are to be put back.
pub fn wants_back(answer: &str) -> bool {
    begins_with_word(answer, "restore", "remove")
}

/// Tells whether an answer begins with one word and does not have another: a sentence may say the opposite.
pub(super) fn begins_with_word(answer: &str, word: &str, other: &str) -> bool {
    let answer = answer.to_lowercase();
    let mut words = answer.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.next() == Some(word) && !answer.contains(other)
}

/// Returns the text of a rewritten file with the lost lines back in their places; `None` if none of them has a place of
/// its own, because other lines are there now.
pub fn restored(name: &str, before: &str, after: &str, task: &str) -> Option<String> {
    lost(name, before, after, task).restored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_successor_of_its_kind_is_not_lost() {
        let before = "// Copyright A\npub fn a() {}\npub struct B;\nfn c() {}\n";
        assert_eq!(lost_marks("a.rs", before, "pub fn a() {}\n"), ["// Copyright A", "pub struct B;"]);
        assert_eq!(lost_marks("a.rs", before, "// Copyright B\npub fn d() {}\npub struct B;\n"), Vec::<&str>::new());
        assert_eq!(lost_marks("a.md", "# A\n```\n# b\n```\n# A\n", "# A\n"), ["# A"]);
        assert_eq!(lost_marks("a.txt", "# A\nb\n", "b\n"), Vec::<&str>::new());
        assert_eq!(lost_marks("run", "#!/bin/sh\na\n", "a\n"), ["#!/bin/sh"]);
        let compose = "services:\n  db:\n    image: a\nvolumes:\n  data:\n";
        assert_eq!(lost_marks("a.yaml", compose, "services:\n  db:\n    image: b\n"), ["volumes:"]);
        assert_eq!(lost_marks("a.yaml", compose, "services:\nnetworks:\n"), Vec::<&str>::new());
        assert_eq!(lost_marks("a.toml", "[a]\nx = 1\n[b]\n", "[a]\nx = 2\n"), ["[b]"]);
    }

    #[test]
    fn what_the_task_names_is_not_asked_about() {
        let ask = |name: &str, before: &str, task: &str| question([(name.to_owned(), before, "x\n")].into_iter(), task);
        assert!(ask("a.js", "export function slugify(a) {}\n", "Fix the bug in a.js").is_some());
        assert!(ask("a.js", "export function slugify(a) {}\n", "Remove slugify from a.js").is_none());
        assert!(ask("a.md", "# Old tool\n", "Say hello in a.md").is_some());
        assert!(ask("a.md", "# Old tool\n", "Rename the old tool in a.md").is_none());
        assert!(ask("a.py", "# Copyright A\n", "Drop the licence").is_none());
        assert_eq!(ask("a.py", "x\n", "Fix it"), None);
    }

    #[test]
    fn lost_lines_are_put_back_where_they_were() {
        let compose = "services:\n  db:\n    image: a:1\n\nvolumes:\n  data:\n";
        let cut = "services:\n  db:\n    image: a:2\n";
        let whole = compose.replace("a:1", "a:2");
        assert_eq!(restored("c.yaml", compose, cut, "Set the image to a:2").as_deref(), Some(whole.as_str()));
        // Without a mark, the end of a file and a paragraph count unless less is asked for.
        let code = "a = 1\nb = 2\nprint(a)\nprint(b)\n";
        assert_eq!(
            restored("a.py", code, "a = 3\nb = 2\n", "Set a to 3").as_deref(),
            Some("a = 3\nb = 2\nprint(a)\nprint(b)\n")
        );
        assert_eq!(restored("a.py", code, "a = 3\nb = 2\n", "Set a to 3 and remove the output"), None);
        assert_eq!(restored("a.py", code, "a = 1\nprint(a)\nprint(b)\n", "Fix it"), None);
        let steps = "1. Get it.\n2. Open it.\n3. Sign in.\n\nThat is all.\n";
        assert_eq!(
            restored("a.md", steps, "1. Get it.\n2. Restart.\n3. Open it.\n4. Sign in.\n", "Insert a step").as_deref(),
            Some("1. Get it.\n2. Restart.\n3. Open it.\n4. Sign in.\n\nThat is all.\n")
        );
        assert!(restored("a.md", "One.\n\nTwo.\n\nThree.\n", "One.\n\nThree.\n", "Be glad").is_some());
        assert_eq!(restored("a.py", "a = 1\nb = 2", "a = 3", "Set a to 3").as_deref(), Some("a = 3\nb = 2"));
        // Where other lines are now, nobody can tell the order.
        assert_eq!(restored("a.rs", "pub fn a() {}\n", "/// A.\n", "Describe it"), None);
    }

    #[test]
    fn an_answer_wants_lines_back_or_not() {
        assert!(wants_back("Restore") && wants_back("`restore`: the task needs them"));
        assert!(
            !wants_back("remove")
                && !wants_back("remove, do not restore")
                && !wants_back("They are gone.")
                && !wants_back("No, never restore that.")
        );
    }
}
