//! Reads an edit of a model that writes its calls as text where the task asks for a comment: such models leave out the line that
//! the comment belongs to, put it below that line, or forget its sign.

use std::collections::HashSet;
use std::path::Path;

use crate::change::loss;

pub(super) fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the text to write where a comment alone was to replace the code that it is about: the comment before the code, a
/// docstring behind the line that begins a function or class. `None` where code is written, or made a comment.
fn with_its_code(path: &Path, old: &str, new: &str) -> Option<String> {
    let is_comment = comment_of(path)?;
    let written = |text: &'_ str| -> Vec<String> {
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    let (had, after) = (written(old), written(new));
    let code = had.iter().find(|line| !is_comment(line))?;
    if after.iter().any(|line| line.contains(code.trim())) {
        return None;
    }
    if !after.is_empty() && after.iter().all(|line| is_comment(line)) {
        return Some(before(old, new));
    }
    if path.extension().is_some_and(|ending| ending == "py") && is_docstring(new) {
        let declares = ["def ", "async def ", "class "].iter().any(|begin| code.trim_start().starts_with(begin));
        let (first, rest) = old.split_at(old.find('\n').map_or(old.len(), |end| end + 1));
        if declares && first.trim_end().ends_with(':') {
            let indent = &first[..first.len() - first.trim_start().len()];
            let is_inside = new.starts_with(&format!("{indent} ")) || new.starts_with(&format!("{indent}\t"));
            let text = if is_inside { ended(new) } else { format!("{indent}    {}", ended(new.trim_start())) };
            let text = if rest.is_empty() && !old.ends_with('\n') { text.trim_end().to_owned() } else { text };
            return Some(ended(first) + &text + rest);
        }
    }
    None
}

/// Words with which a task asks for something that is new, and what that may be.
const WRITES: [&str; 6] = ["add", "write", "put", "insert", "give", "leave"];
const NOTES: [&str; 5] = ["comment", "comments", "docstring", "docstrings", "documentation"];

/// Tells whether a task asks to add a comment, and not that something is put out of use.
fn asks_for_comment(task: &str) -> bool {
    let task = task.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| task.contains(word));
    let mut words = words_of(&task);
    let writes = words.by_ref().any(|word| WRITES.contains(&word)) && words.any(|word| NOTES.contains(&word));
    (writes || task.trim_start().starts_with("document "))
        && !has(&["into a", "to a comment", "to a docstring"])
        && !loss::asks_for_less(&task)
        && !has(&[
            "comment out",
            "commented",
            "disable",
            "disabling",
            "turn off",
            "switch off",
            "take out",
            "instead",
            "replace",
        ])
}

/// Returns what an edit that writes a comment replaces, and by what, so that the code stays and the comment is where the task
/// asks for it; `None` for any other edit.
pub(super) fn commented<'t>(
    path: &Path,
    text: &'t str,
    (old, new): (&'t str, &str),
    task: &str,
) -> Option<(&'t str, String)> {
    let whole = from_line_start(text, old).filter(|_| asks_for_comment(task))?;
    let before = whole.strip_suffix(old).unwrap_or_default();
    let kept = with_its_code(path, whole, new);
    let kept = kept.or_else(|| with_comments(path, text, (whole, new), task));
    let kept = kept.or_else(|| with_its_sign(path, text, (whole, new)));
    let kept = kept.or_else(|| comment_above(path, text, (whole, &format!("{before}{new}")), task))?;
    Some((whole, kept))
}

/// Returns the text to write where a comment was to replace those at the top of a file, and the task says that one is added
/// there: the comment before them, behind the line that names the interpreter. `None` where it is another form of what it
/// replaces.
fn with_comments(path: &Path, text: &str, (old, new): (&str, &str), task: &str) -> Option<String> {
    let is_comment = comment_of(path)?;
    let all = |text: &str| text.lines().all(|line| line.trim().is_empty() || is_comment(line));
    let is_first = text.split(old).next().is_some_and(all);
    let is_top = ["at the top", "at the beginning", "at the start"].iter().any(|words| task.contains(words));
    let adds = words_of(task).any(|word| ADDS.contains(&word));
    if !(is_first && is_top && adds && all(old) && all(new)) || new.trim().is_empty() {
        return None;
    }
    // A comment that is written anew has most of its words again, and one that is continued has all of them.
    let had: Vec<&str> = words_of(old).collect();
    let again = words_of(new).filter(|word| had.contains(word)).count();
    (!had.is_empty() && 2 * again < had.len()).then(|| before(old, new))
}

/// Words with which a task says that something new is written.
const ADDS: [&str; 4] = ["add", "Add", "insert", "Insert"];

/// Returns a text with a line end at its end.
fn ended(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Returns a text and, before it, a comment; what names the interpreter stays the first line.
fn before(old: &str, comment: &str) -> String {
    let first = if old.starts_with("#!") || old.starts_with("<?") {
        old.find('\n').map_or(old.len(), |end| end + 1)
    } else {
        0
    };
    let (first, rest) = old.split_at(first);
    let first = if first.is_empty() { String::new() } else { ended(first) };
    let text = first + &ended(comment) + rest;
    let is_open = rest.is_empty() && !old.ends_with('\n');
    if is_open { text.trim_end().to_owned() } else { text }
}

/// Returns the text to write where a sentence without the sign of a comment was to stand before the first line of a file, or
/// replace it: the comment before the line. `None` where it may be anything but a sentence.
fn with_its_sign(path: &Path, text: &str, (old, new): (&str, &str)) -> Option<String> {
    let sentence = new.trim().strip_suffix(old.trim()).unwrap_or(new).trim();
    let sign = signs(path).first()?;
    let is_word = |word: &str| word.chars().all(|c| c.is_alphanumeric() || "'-_,.".contains(c));
    let is_sentence = sentence.starts_with(char::is_uppercase)
        && sentence.ends_with('.')
        && sentence.split(' ').count() > 2
        && sentence.split(' ').all(is_word);
    let first = text.trim_start().lines().next()?;
    let is_first = old.trim() == first.trim() && !first.starts_with("#!");
    (is_sentence && is_first).then(|| before(old, &format!("{sign} {sentence}\n")))
}

/// Tells whether a task asks for a comment and a new text has no line whose words are not in the file already.
pub(super) fn says_nothing_new(before: &str, after: &str, task: &str) -> bool {
    let bare = |line: &'_ str| line.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let had: HashSet<String> = before.lines().map(bare).collect();
    asks_for_comment(task)
        && before != after
        && after.lines().map(bare).all(|line| line.is_empty() || had.contains(&line))
}

/// Returns the text to replace from the beginning of its first line, if it is in one place and only words stand before it
/// on that line, as in `async function f() {`; `None` where it is the end of a line of code, a comment or a string.
fn from_line_start<'t>(text: &'t str, old: &'t str) -> Option<&'t str> {
    let mut found = text.match_indices(old).map(|(at, _)| at).filter(|_| !old.is_empty());
    let (at, None) = (found.next()?, found.next()) else { return None };
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    let is_words = before.chars().all(|c| is_part(c) || c == ' ' || c == '\t');
    let is_whole = before.trim().is_empty() || before.ends_with([' ', '\t']) && old.starts_with(is_part);
    (is_words && is_whole).then(|| &text[start..at + old.len()])
}

/// Returns the text to write where a comment was put below the line above which the task asks for it.
fn comment_above(path: &Path, text: &str, (old, new): (&str, &str), task: &str) -> Option<String> {
    // The line that the task names, and not the one before it.
    let named = |line: &str| words_of(line).any(|word| word.len() > 2 && words_of(task).any(|other| other == word));
    let behind = text.split_once(old).map(|(_, behind)| behind.trim_start_matches('\n'))?;
    if old.starts_with("#!") || old.starts_with("<?") || !named(old) || named(behind.lines().next().unwrap_or_default())
    {
        return None;
    }
    let task = task.to_lowercase();
    let asks = task.contains("comment") && [" above ", " before "].iter().any(|word| task.contains(word));
    let is_comment = comment_of(path).filter(|_| asks)?;
    let first = old.trim_end();
    let comment = new.strip_prefix(first)?.strip_prefix('\n')?;
    if first.trim().is_empty() || first.contains('\n') || comment.trim().is_empty() || !comment.lines().all(is_comment)
    {
        return None;
    }
    let indent = &first[..first.len() - first.trim_start().len()];
    let moved: String = comment.lines().map(|line| format!("{indent}{}\n", line.trim_start())).collect();
    Some(moved + old)
}

pub(super) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty())
}

fn is_docstring(text: &str) -> bool {
    let text = text.trim();
    ["\"\"\"", "'''"].iter().any(|quote| {
        text.len() >= 2 * quote.len()
            && text.starts_with(quote)
            && text.ends_with(quote)
            && text.matches(quote).count() == 2
    })
}

/// Returns what begins a comment in a file of this ending, the usual sign first; empty where it is not known.
fn signs(path: &Path) -> &'static [&'static str] {
    match path.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "rs" | "js" | "mjs" | "cjs" | "jsx" | "ts" | "tsx" | "go" | "c" | "h" | "cc" | "cpp" | "hpp" | "java"
        | "kt" | "swift" | "scala" | "php" | "cs" => &["//", "/*", "* ", "*/"],
        "py" | "sh" | "bash" | "rb" | "yaml" | "yml" | "toml" | "pl" | "r" => &["#"],
        _ => &[],
    }
}

/// Returns what tells whether a line of a file of this ending is a comment; `None` where it is not known.
pub(super) fn comment_of(path: &Path) -> Option<impl Fn(&str) -> bool> {
    let begins = signs(path);
    let is_comment = |line: &str| begins.iter().any(|begin| line.trim_start().starts_with(begin));
    (!begins.is_empty()).then_some(is_comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_keeps_the_code_that_it_is_about() {
        let kept = |name: &str, old: &str, new: &str| with_its_code(Path::new(name), old, new);
        assert_eq!(kept("a.rs", "pub fn a() {\n", "/// A.\n").as_deref(), Some("/// A.\npub fn a() {\n"));
        assert_eq!(kept("a.js", "f();", "// Calls f.").as_deref(), Some("// Calls f.\nf();"));
        assert_eq!(
            kept("a.py", "    def f(self):\n        return 1\n", "\"\"\"Returns one.\"\"\"").as_deref(),
            Some("    def f(self):\n        \"\"\"Returns one.\"\"\"\n        return 1\n")
        );
        assert_eq!(kept("a.py", "class A:", "    '''A.'''").as_deref(), Some("class A:\n    '''A.'''"));
        assert_eq!(kept("a.sh", "#!/bin/sh\nls\n", "# Lists.\n").as_deref(), Some("#!/bin/sh\n# Lists.\nls\n"));
        // Code that becomes a comment, code, comments for comments, and languages without a known comment.
        assert_eq!(kept("a.rs", "a();\n", "// a();\n"), None);
        assert_eq!(kept("a.rs", "a();\n", "// A.\nb();\n"), None);
        assert_eq!(kept("a.rs", "// A.\n", "// B.\n"), None);
        assert_eq!(kept("a.md", "a\n", "# B\n"), None);
        assert_eq!(kept("a.rs", "a();\n", ""), None);
    }

    #[test]
    fn a_comment_that_is_added_keeps_the_comments_that_are_there() {
        let written = |old: &str, new: &str, task: &str| {
            let text = format!("{old}\nimport a\n");
            commented(Path::new("a.py"), &text, (old, new), task).map(|(_, new)| new)
        };
        let task = "Add a comment at the top of a.py that says what it does.";
        assert_eq!(
            written("#\n# Written by A. Person.", "# Reads names.", task).as_deref(),
            Some("# Reads names.\n#\n# Written by A. Person.")
        );
        assert_eq!(
            written("#!/bin/python3", "# Reads names.", task).as_deref(),
            Some("#!/bin/python3\n# Reads names.")
        );
        // The same comment in other words, a longer one, one that is changed, and none.
        assert_eq!(written("# Reads al the names.", "# Reads the names.", task), None);
        assert_eq!(written("# Reads.", "# Reads.\n# Also writes.", task), None);
        assert_eq!(written("# Written by A.", "# Reads names.", "Correct the comment in a.py."), None);
        assert_eq!(written("# Written by A.", "", task), None);
        assert_eq!(written("# Written by A.", "# Reads names.", "Add a comment to a.py."), None);
    }

    #[test]
    fn a_comment_that_is_there_already_is_no_new_one() {
        let text = "#\n# a.py: reads names\n#\nimport a\n";
        let task = "Add a comment at the top of a.py.";
        for after in
            ["#\na.py: reads names\n#\nimport a\n", "# a.py: reads names\n#\n# a.py: reads names\n#\nimport a\n"]
        {
            assert!(says_nothing_new(text, after, task), "{after}");
            assert!(!says_nothing_new(text, after, "Correct the comment in a.py."), "{after}");
        }
        assert!(!says_nothing_new(text, &format!("# Reads all names.\n{text}"), task));
    }

    #[test]
    fn a_sentence_at_the_top_becomes_a_comment_where_the_task_asks_for_one() {
        let written = |text: &str, old: &str, new: &str, task: &str| {
            commented(Path::new("a.py"), text, (old, new), task).map(|(_, new)| new)
        };
        let text = "\"\"\" Names\n\nMore of it.\n\"\"\"\nimport a\n";
        let task = "Add a comment at the top of a.py.";
        assert_eq!(
            written(text, "\"\"\" Names", "Reads the names.", task).as_deref(),
            Some("# Reads the names.\n\"\"\" Names")
        );
        assert_eq!(
            written(text, "\"\"\" Names", "Reads the names.\n\"\"\" Names", task).as_deref(),
            Some("# Reads the names.\n\"\"\" Names")
        );
        for (old, new) in
            [("\"\"\" Names", "names = read()"), ("\"\"\" Names", "True."), ("More of it.", "Reads the names.")]
        {
            assert_eq!(written(text, old, new, task), None, "{old} {new}");
        }
        assert_eq!(written(text, "\"\"\" Names", "Reads the names.", "Improve a.py."), None);
        assert_eq!(written("#!/bin/python3\nx\n", "#!/bin/python3", "Reads the names.", task), None);
    }

    #[test]
    fn a_comment_stands_above_its_line_where_the_task_asks_for_that() {
        let text = "a;\nasync function f() {\n  x;\n}\n";
        assert_eq!(from_line_start(text, "function f() {\n"), Some("async function f() {\n"));
        for (text, old) in [("a;\nb;\n", ";"), ("x = 1  # an\n", "# an"), ("p * 2", "* 2"), ("c: \"#fff\"", "#fff")] {
            assert_eq!(from_line_start(text, old), None, "{old}");
        }
        let text = "import os\n\n  function fun() {\n    x();\n";
        let above = |old: &str, new: &str, task: &str| comment_above(Path::new("a.js"), text, (old, new), task);
        let (old, new) = ("  function fun() {\n", "  function fun() {\n    // Does f.\n    // More.\n");
        let moved = "  // Does f.\n  // More.\n  function fun() {\n";
        assert_eq!(above(old, new, "Add a comment above fun.").as_deref(), Some(moved));
        assert_eq!(above(old, new, "Add a comment to fun."), None);
        assert_eq!(above(old, "  function fun() {\n    x();\n", "Add a comment above fun."), None);
        // A comment below the line before it stands where it should.
        assert_eq!(above("import os\n", "import os\n// Does f.\n", "Add a comment above the function fun."), None);
    }

    #[test]
    fn only_a_task_for_a_comment_keeps_what_a_comment_replaces() {
        let written = |path: &str, old: &str, new: &str, task: &str| {
            let text = format!("a\n{old}\nb\n");
            commented(Path::new(path), &text, (old, new), task).map(|(_, new)| new)
        };
        let (old, new) = ("os.system('rm x')", "# disabled: unsafe call");
        assert!(written("a.py", old, new, "Add a comment about the call of system to a.py.").is_some());
        for task in [
            "Disable the call of os.system in a.py and leave a comment.",
            "Take out the unsafe call in a.py, with a comment why.",
            "Comment out the call in a.py.",
            "Turn the call in a.py into a note.",
            "Turn the call in a.py into a comment.",
            "Make the call in a.py a TODO comment.",
        ] {
            assert_eq!(written("a.py", old, new, task), None, "{task}");
        }
        assert_eq!(written("m.js", "  / 2;", "  * 2;", "Multiply instead of dividing in m.js."), None);
    }
}
