//! Finds what small models do wrong when they write a new file.

use std::path::Path;

use crate::tools::Assignment;

/// Bytes of a content from which it is no accident that the task has the same words.
const SENTENCE: usize = 24;

/// Returns what the model is asked about a new file before it is written: the answer is another call, or the same one again.
pub(super) fn doubt(task: &Assignment, path: &Path, content: &str, is_there: &dyn Fn(&Path) -> bool) -> Option<String> {
    let shown = path.display();
    if let Some(named) = task.path.as_deref().map(Path::new)
        && named != path
        && named.file_name() == path.file_name()
        && named.components().count() == 1
        && !is_there(named)
    {
        return Some(format!(
            "The task names {}, not {shown}. Make the call with {} as file_path. If {shown} is meant, make the same call \
             again.",
            named.display(),
            named.display()
        ));
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let written = words(content);
    let is_quoted = |mark: char| task.text.matches(mark).count() >= 2;
    if written.len() >= SENTENCE && words(&task.text).contains(&written) && !['"', '`', '\''].into_iter().any(is_quoted)
    {
        return Some(format!(
            "The content repeats words of the task. Write what the file {shown} is to hold. If it holds exactly these words, \
             make the same call again."
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(task: &str, named: Option<&str>, path: &str, content: &str) -> Option<String> {
        let task = Assignment { text: task.to_owned(), path: named.map(str::to_owned) };
        doubt(&task, Path::new(path), content, &|named| named == Path::new("there.py"))
    }

    #[test]
    fn a_file_elsewhere_and_the_words_of_the_task_are_asked_about() {
        let elsewhere = asked("Create .gitignore", Some(".gitignore"), "dist/.gitignore", "dist/\n");
        assert!(elsewhere.unwrap().contains("names .gitignore, not dist/.gitignore"));
        let task = "Create .editorconfig: all files use utf-8 and spaces of size 2.";
        assert!(asked(task, None, ".editorconfig", "all files use UTF-8\nand spaces of size 2\n").is_some());
    }

    #[test]
    fn what_may_be_meant_is_not_asked_about() {
        assert_eq!(asked("Create a.py", Some("a.py"), "a.py", "x = 1\n"), None);
        assert_eq!(asked("Write tests for there.py", Some("there.py"), "tests/there.py", "x = 1\n"), None);
        assert_eq!(asked("Create lib/a.py", Some("lib/a.py"), "src/a.py", "x = 1\n"), None);
        assert_eq!(
            asked("Write a.txt with \"all files use utf-8 here\".", None, "a.txt", "all files use utf-8 here"),
            None
        );
    }
}
