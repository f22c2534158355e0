//! Builds the first message of a conversation: the task, and the parts of the project that it names.

use crate::tool_name::ToolId;

/// Characters of the listing of the project.
pub const LISTING_CHARS: usize = 1_200;

/// Bytes up to which a file that the task names is shown with it.
pub const SHOWN_FILE_BYTES: usize = 6_000;

/// Files that are shown with the task.
pub const SHOWN_FILES: usize = 4;

/// Bytes of a project that is shown whole to a model that writes its calls as text.
pub const PROJECT_BYTES: usize = 3_000;

/// The files of such a project.
pub const PROJECT_FILES: usize = 12;

/// Finds the words of a prompt that may name files, in order of appearance, each once.
///
/// A word counts if it looks like a file: a dot or a slash inside, no space, no scheme.
pub fn named_paths(prompt: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let separators = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;".contains(c);
    for word in prompt.split(separators) {
        let word = word.trim_start_matches('@').trim_end_matches(['.', ':', '?', '!']).trim_start_matches("./");
        let looks_like_a_file = word.len() > 2
            && !word.contains("://")
            && !word.starts_with(['-', '/', '~'])
            && (word.trim_matches('.').contains(['.', '/']) || is_hidden(word));
        if looks_like_a_file && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// Tells whether a word is like `.gitignore`, and not like the ending `.md`.
fn is_hidden(word: &str) -> bool {
    const LONGEST_ENDING: usize = 5;
    word.strip_prefix('.')
        .is_some_and(|name| name.len() > LONGEST_ENDING && name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Bytes of a task above which it is more than one thing to do.
pub const SHORT_TASK_BYTES: usize = 400;

/// What is said below a short task to a model that writes its calls as text: which call does such work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The tool that is spoken of.
    pub tool: ToolId,
    /// The words, without a line end.
    pub text: &'static str,
}

impl Note {
    /// Tells whether the task asks for a number of things.
    pub fn counts(&self) -> bool {
        self.tool == ToolId::SearchFileContent
    }

    /// Returns the words, with the name of the file that the task makes, or the line at the top of one where a comment
    /// belongs, if that is known.
    pub fn said(&self, new_file: Option<&str>, top: Option<&str>) -> String {
        match (self.tool, new_file, top) {
            (ToolId::WriteFile, Some(name), _) => format!("To make the new file {name} call write_file."),
            (ToolId::Edit, _, Some(line)) => format!(
                "To add the comment call edit: old_string is the first line alone, `{line}`, new_string the comment and \
                 then that line again."
            ),
            _ => self.text.to_owned(),
        }
    }
}

/// Returns the first path that a task names of which nothing is there yet, as far as it looks like the name of a file.
pub fn new_file<'t>(task: &'t str, is_there: &dyn Fn(&str) -> bool) -> Option<&'t str> {
    let is_name = |word: &&str| {
        let name = word.rsplit('/').next().unwrap_or(word);
        let ending = |stem: &str, ending: &str| {
            stem.len() > 1 && (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        is_hidden(name) || name.rsplit_once('.').is_some_and(|(stem, end)| ending(stem, end))
    };
    named_paths(task).into_iter().filter(is_name).find(|name| !is_there(name))
}

/// Words for the top of a file.
const TOP: &[&str] = &["at the top", "top of", "at the beginning", "at the start", "first line", "header comment"];

/// What a file has to begin with, so that no comment can stand before it.
const STAYS_FIRST: &[&str] = &["#!", "<?", "<!doctype", "# -*-", "# coding", "---"];

/// Characters of a line that is said again.
const SHORT_LINE: usize = 80;

/// Returns the line of a file before which a comment belongs that a task asks for at the top of it, if the line is there
/// once.
pub fn top_line<'f>(task: &str, text: &'f str) -> Option<&'f str> {
    let asked = task.to_lowercase();
    if !asked.contains("comment") || !TOP.iter().any(|words| asked.contains(words)) {
        return None;
    }
    let stays = |line: &str| STAYS_FIRST.iter().any(|start| line.to_lowercase().starts_with(start));
    // The frame of a comment is there more than once.
    let is_frame = |line: &str| line.trim_end().chars().all(|c| c == '#');
    let line = text.lines().find(|line| !line.trim().is_empty() && !stays(line) && !is_frame(line))?;
    // The words of a file are not to be taken for the task's.
    let is_plain = line.chars().count() <= SHORT_LINE && !line.contains('`');
    (is_plain && text.lines().filter(|other| other == &line).count() == 1).then_some(line)
}

/// The notes, by the words of a task; the first one that fits counts.
const NOTES: &[(&[&str], Note)] = &[
    // By looking, small models count badly.
    (
        &["how many", "how often", "count the", "number of times"],
        Note {
            tool: ToolId::SearchFileContent,
            text: "First call search_file_content with the pattern that is to be counted.",
        },
    ),
    // They write files anew for a name, and lose parts of them.
    (
        &["rename the", "rename all", "rename every", "renamed to"],
        Note {
            tool: ToolId::Edit,
            text: "For a new name call edit once for each file: old_string is the old name alone, new_string the new name \
                   alone, replace_all true.",
        },
    ),
    // They correct a few of them.
    (
        &["spelling", "typos", "misspelt", "misspelled"],
        Note { tool: ToolId::Edit, text: "Correct each wrong word with a call of its own." },
    ),
    // They write the comment and leave out what it is about.
    (
        &[
            "doc comment",
            "add a comment",
            "add comments",
            "write a comment",
            "comment above",
            "comment for",
            "comment at the",
            "line comment",
            "header comment",
        ],
        Note {
            tool: ToolId::Edit,
            text: "To add a comment call edit: old_string is the line that the comment stands before, new_string the \
                   comment and then that line again.",
        },
    ),
    // They run what is not there yet.
    (
        &[
            "create a",
            "create an",
            "create .",
            "write a script",
            "write a shell script",
            "write a test",
            "write a module",
            "new file",
        ],
        Note { tool: ToolId::WriteFile, text: "To make a new file call write_file." },
    ),
    // They write the whole file, and other parts of it are gone or changed.
    (
        &["change the", "replace the", "set the"],
        Note {
            tool: ToolId::Edit,
            text: "To change a part call edit: old_string is the part as it stands, new_string what it is to be.",
        },
    ),
];

/// Returns what stands below a short task whose kind small models do better with a word about it.
pub fn note(task: &str) -> Option<Note> {
    let asked = task.to_lowercase();
    let mut notes = NOTES.iter().filter(|_| task.len() <= SHORT_TASK_BYTES);
    notes.find(|(words, _)| words.iter().any(|words| asked.contains(words))).map(|(_, note)| *note)
}

/// Words that begin a question whose answer is words.
const QUESTIONS: &[&str] = &["which", "what", "where", "who", "how", "why", "when", "is", "are", "does"];

/// Words by which a task asks for an answer.
const TELLS: &[&str] = &["tell me", "answer with", "say which", "say what", "say how"];

/// Tells whether a task is short and asks for an answer in words.
pub fn asks(task: &str) -> bool {
    let asked = task.to_lowercase();
    let is_question = |sentence: &str| {
        let mut words = sentence.trim_start().split(|c: char| !c.is_alphanumeric());
        sentence.ends_with('?') && words.by_ref().take(2).any(|word| QUESTIONS.contains(&word))
    };
    // A dot inside of a name ends no sentence.
    let words: Vec<&str> = asked.split_whitespace().collect();
    let mut sentences = words.split_inclusive(|word| word.ends_with(['.', '?', '!'])).map(|words| words.join(" "));
    task.len() <= SHORT_TASK_BYTES
        && (sentences.any(|sentence| is_question(&sentence)) || TELLS.iter().any(|words| asked.contains(words)))
}

/// Assembles the first message: standard input, the listing, the named files, then the task itself, last.
pub fn first_message(listing: &str, files: &[(String, String)], included: &str, task: &str) -> String {
    let mut message = String::new();
    if !listing.is_empty() {
        message.push_str(&format!("Files of the project:\n{}\n\n", listing.trim_end()));
    }
    for (path, text) in files {
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        message.push_str(&format!("--- {path} ---\n{text}{end}--- End of {path} ---\n\n"));
    }
    if !included.is_empty() {
        message.push_str(included.trim_end());
        message.push_str("\n\n");
    }
    message.push_str(task);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_file_of_a_task_is_the_first_name_of_nothing() {
        let new = |task: &'static str| new_file(task, &|name| name == "slug.py");
        assert_eq!(new("Write a test test_slug.py for slug.py."), Some("test_slug.py"));
        assert_eq!(new("Create a test for slug.py in tests/slug.test.js"), Some("tests/slug.test.js"));
        assert_eq!(new("Create a .gitignore for files ending in .log"), Some(".gitignore"));
        assert_eq!(new("Create a module, e.g. a small one, for slug.py"), None);
    }

    #[test]
    fn a_comment_at_the_top_stands_before_the_first_line_that_may_have_one() {
        let task = "Add a one-line comment at the top of a.py.";
        assert_eq!(top_line(task, "#!/usr/bin/env python3\n\nimport os\nimport re\n"), Some("import os"));
        assert_eq!(top_line(task, "\"\"\"Reads\nfiles.\n\"\"\"\n"), Some("\"\"\"Reads"));
        assert_eq!(top_line(task, "#\n# a.py: reads files.\n#\n"), Some("# a.py: reads files."));
        assert_eq!(top_line(task, "x\nx\n"), None);
        assert_eq!(top_line("Add a comment to f in a.py.", "import os\n"), None);
        assert!(note(task).unwrap().said(None, Some("import os")).contains("alone, `import os`,"));
    }

    #[test]
    fn only_words_that_look_like_files_are_named() {
        let prompt = "Fix `src/a.rs` and ./b.py, see https://x.io/a.b (not etc. nor e.g.) in Cargo.toml. Use -x.y and /etc/passwd";
        assert_eq!(named_paths(prompt), ["src/a.rs", "b.py", "e.g", "Cargo.toml"]);
    }

    #[test]
    fn a_short_task_gets_the_note_of_its_kind() {
        let counted = note("How many tests are there?").unwrap();
        assert!(counted.counts() && counted.text.contains("search_file_content"));
        for (task, call) in [
            ("Rename the function a to b in x.py.", "old name alone"),
            ("Write a doc comment for `mean`.", "stands before"),
            ("Create an .editorconfig for two spaces.", "write_file"),
            ("Correct the typos in a.md.", "Correct each wrong word"),
            ("Change the heading A to B.", "the part as it stands"),
        ] {
            let note = note(task).unwrap();
            assert!(note.text.contains(call) && !note.counts(), "{task}");
        }
        assert_eq!(note("Fix the number of retries."), None);
        assert_eq!(note(&format!("How many?{}", " x".repeat(SHORT_TASK_BYTES))), None);
    }

    #[test]
    fn a_short_task_may_ask_for_an_answer() {
        for task in [
            "Which files call f?",
            "How many rows of orders.csv are open?",
            "Look at a.py.\nWhat does it print?",
            "The build is slow. Why is that?",
            "Run `x.py` and tell me which test failed.",
            "In which file is f defined? Answer with the path.",
        ] {
            assert!(asks(task), "{task}");
        }
        for task in ["Fix the bug in a.py.", "Can you fix the test?", "Rename what to which.", "Add a FAQ: what is it"]
        {
            assert!(!asks(task), "{task}");
        }
        assert!(!asks(&format!("Why?{}", " x".repeat(SHORT_TASK_BYTES))));
    }

    #[test]
    fn the_task_comes_last() {
        let files = [("a.txt".to_owned(), "one".to_owned())];
        insta::assert_snapshot!(first_message("a.txt\n", &files, "", "do it"), @r"
        Files of the project:
        a.txt

        --- a.txt ---
        one
        --- End of a.txt ---

        do it
        ");
    }
}
