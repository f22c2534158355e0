//! Finds what a rewritten file lost that a rewrite seldom means to lose: headings, a licence, exports, sections of a
//! configuration.

/// What a line of a file is, if its loss is worth a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    let count = |marks: &[(Mark, &str)], kind: Mark| marks.iter().filter(|(mark, _)| *mark == kind).count();
    let mut kept: Vec<&str> = after.iter().map(|(_, line)| *line).collect();
    let is_gone = |line: &str| match kept.iter().position(|kept| *kept == line) {
        Some(at) => {
            kept.swap_remove(at);
            false
        }
        None => true,
    };
    let gone: Vec<_> = before.iter().filter(|(kind, _)| count(&after, *kind) < count(&before, *kind)).collect();
    let mut is_gone = is_gone;
    gone.into_iter().map(|(_, line)| *line).filter(|line| is_gone(line)).collect()
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

/// Lines of a question that are written out.
const MOST_LINES: usize = 12;

/// Returns the question about what rewritten files lost and the task does not name: for each file its name, and its
/// text before and after. `None` if there is nothing to ask.
pub fn question<'t>(files: impl Iterator<Item = (String, &'t str, &'t str)>, task: &str) -> Option<String> {
    let mut lost: Vec<String> = Vec::new();
    for (name, before, after) in files {
        let lines = lost_marks(&name, before, after).into_iter().filter(|line| !is_named(line, task));
        lost.extend(lines.map(|line| format!("{name}: {}", line.chars().take(200).collect::<String>())));
    }
    if lost.is_empty() {
        return None;
    }
    let more = lost.len().saturating_sub(MOST_LINES);
    lost.truncate(MOST_LINES);
    let more = if more > 0 { format!("\n... and {more} more") } else { String::new() };
    Some(format!(
        "These lines were in the files before you wrote them anew, and are gone:\n{}{more}\nIf the task does not ask for \
         that, put them back now. If it does, answer that they are to go.",
        lost.join("\n")
    ))
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
}
