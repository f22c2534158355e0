//! Builds the first message of a conversation: the task, and the parts of the project that it names.

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
            && word.trim_matches('.').contains(['.', '/']);
        if looks_like_a_file && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// Words by which a task asks for a number of things.
const COUNTS: &[&str] = &["how many", "how often", "count the", "number of times"];

/// Bytes of a task above which it is more than a question for a number.
const QUESTION_BYTES: usize = 400;

/// Returns what stands below a short task that asks for a number: by looking, small models count badly.
pub fn counting_note(task: &str) -> &'static str {
    let asked = task.to_lowercase();
    match task.len() <= QUESTION_BYTES && COUNTS.iter().any(|words| asked.contains(words)) {
        true => "\n\nFirst call search_file_content with the pattern that is to be counted.",
        false => "",
    }
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
    let mut sentences = asked.split_inclusive(['.', '?', '!', '\n']);
    task.len() <= QUESTION_BYTES && (sentences.any(is_question) || TELLS.iter().any(|words| asked.contains(words)))
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
    fn only_words_that_look_like_files_are_named() {
        let prompt = "Fix `src/a.rs` and ./b.py, see https://x.io/a.b (not etc. nor e.g.) in Cargo.toml. Use -x.y and /etc/passwd";
        assert_eq!(named_paths(prompt), ["src/a.rs", "b.py", "e.g", "Cargo.toml"]);
    }

    #[test]
    fn a_short_question_for_a_number_gets_a_note() {
        assert!(counting_note("How many tests are there?").contains("search_file_content"));
        assert_eq!(counting_note("Fix the number of retries."), "");
        assert_eq!(counting_note(&format!("How many?{}", " x".repeat(QUESTION_BYTES))), "");
    }

    #[test]
    fn a_short_task_may_ask_for_an_answer() {
        for task in [
            "Which files call f?",
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
        assert!(!asks(&format!("Why?{}", " x".repeat(QUESTION_BYTES))));
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
