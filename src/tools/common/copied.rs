//! Finds what a model that writes its calls as text copies into a file from the words around its task.

/// Words and marks of calls, which are no part of a file.
const OF_CALLS: [&str; 8] = [
    "</parameter>",
    "<parameter=",
    "</function>",
    "<function=",
    "<tool_call>",
    "</tool_call>",
    "old_string",
    "new_string",
];

/// Returns why a new text of a file is no answer to the task: it holds a part of the call, or says the task again.
pub(crate) fn copied(task: &str, before: &str, after: &str) -> Option<String> {
    let is_new = |mark: &&&str| after.contains(**mark) && !before.contains(**mark) && !task.contains(**mark);
    if let Some(mark) = OF_CALLS.iter().find(is_new) {
        return Some(format!(
            "No edits made: `{mark}` is a part of the call, not of the file. Make the call again with the text for the file alone."
        ));
    }
    let bare = |line: &'_ str| line.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let first = task.trim().split(['\n', '!', '?']).next().unwrap_or_default();
    let first = bare(first.split(". ").next().unwrap_or_default());
    let says_it = |text: &str| text.lines().any(|line| bare(line) == first);
    (first.split(' ').count() > 3 && says_it(after) && !says_it(before)).then(|| {
        "No edits made: the text says the task again. Make the call again with what the task asks for, in your own words."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_calls_and_the_task_are_no_text_of_a_file() {
        let task = "Add a comment at the top of a.js that says what it does. Be short.";
        let is_copied = |after: &str| copied(task, "f();\n", after).is_some();
        for after in [
            "// Add a comment at the top of a.js that says what it does.\nf();\n",
            "x</parameter>\n</function>\nf();\n",
            "This is the whole file, copy old_string from it:\nf();\n",
        ] {
            assert!(is_copied(after), "{after}");
        }
        for after in ["// Calls f.\nf();\n", "// Be short.\nf();\n", "f();\n"] {
            assert!(!is_copied(after), "{after}");
        }
        // What the task or the file has itself.
        assert_eq!(copied("Rename old_string to text in a.py.", "x\n", "old_string\n"), None);
        assert_eq!(copied(task, "old_string = 1\n", "old_string = 2\n"), None);
        assert_eq!(copied("Add x.", "", "// Add x.\n"), None);
    }
}
