//! Finds the search that a short question asks for: small models answer such questions from memory.

use super::first_message::{asks, named_paths};

/// A search that is made before the first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstSearch {
    /// The regular expression of a line.
    pub pattern: String,
    /// The file or directory that the question names.
    pub place: Option<String>,
    /// A glob of the files, if only those of a language are meant.
    pub include: Option<String>,
}

/// Words for what can be counted; the endings of files, and the pattern of the line that begins one.
const COUNTED: &[(&str, &[(&str, &str)])] = &[
    (
        "functions",
        &[
            ("py rb", r"^\s*(async )?def \w"),
            ("rs", r"^\s*(pub(\([^)]*\))? )?((const|async|unsafe) )*fn \w"),
            ("go", r"^func "),
            ("php", r"\bfunction \w"),
            ("sh bash", r"^\s*(function \w|[\w-]+ *\(\))"),
        ],
    ),
    ("classes", &[("py rb php js mjs jsx ts tsx java kt", r"^\s*((export|default|abstract|public|final) )*class \w")]),
    ("structs", &[("rs", r"^\s*(pub(\([^)]*\))? )?struct \w"), ("go", r"^type \w+ struct\b")]),
    ("enums", &[("rs ts java", r"^\s*((export|public|pub(\([^)]*\))?) )?enum \w")]),
    ("traits", &[("rs", r"^\s*(pub(\([^)]*\))? )?trait \w")]),
    (
        "tests",
        &[
            ("py", r"^\s*(async )?def test"),
            ("rs", r"^\s*#\[(\w+::)?test\b"),
            ("go", r"^func Test"),
            ("js mjs jsx ts tsx", r"^\s*(it|test)\("),
        ],
    ),
];

/// Names of languages, and the endings of their files.
const LANGUAGES: &[(&str, &str)] = &[
    ("python", "py"),
    ("rust", "rs"),
    ("go", "go"),
    ("php", "php"),
    ("ruby", "rb"),
    ("shell", "sh"),
    ("javascript", "js"),
    ("typescript", "ts"),
    ("java", "java"),
    ("kotlin", "kt"),
];

/// Words that leave the meaning of `how many functions …` as it is. With any other word less, or something else, is meant.
const PLAIN: &str = "are is there defined declared in inside of the this that these those my our project repository repo \
    codebase code base file files folder directory here do does has have contain contains define defines all a module \
    altogether total answer with number only just as one tell me say";

/// Words before the name of what a question is about.
const BEFORE_NAME: &str =
    "function class method variable constant struct type option setting key trait enum module macro";

/// Returns the search that a task asks for, if it is a short question about something that a search finds.
///
/// `files` are the names in the listing of the project, relative to its root, directories with a slash at the end.
pub fn first_search(task: &str, files: &[&str]) -> Option<FirstSearch> {
    if !asks(task) && !task.to_lowercase().starts_with("count the ") {
        return None;
    }
    counted(task, files).or_else(|| lines_with(task, files)).or_else(|| about_a_name(task))
}

/// `How many lines contain TODO in the folder src?`
fn lines_with(task: &str, files: &[&str]) -> Option<FirstSearch> {
    let place = place(task, files);
    let is_known = |part: &str| {
        let place = place.as_deref().unwrap_or_default();
        let mut words = part.split(|c: char| c.is_whitespace() || ",:;!?.".contains(c)).filter(|word| !word.is_empty());
        // A dot inside of a name separates nothing.
        part.replace(place, " ").trim().is_empty()
            || words
                .all(|word| PLAIN.split_whitespace().any(|plain| plain == word.to_lowercase()) || place.contains(word))
    };
    let rest = BEGIN_LINES.iter().find_map(|begin| task.strip_prefix(begin))?;
    let (before, rest) = [" contain ", " contains ", " containing ", " have ", " with "]
        .iter()
        .find_map(|verb| rest.split_once(verb))?;
    let said = ["the word ", "the text ", "the string "].iter().find_map(|words| rest.strip_prefix(words));
    let rest = said.unwrap_or(rest);
    let (text, behind) = match rest.chars().next().filter(|first| "\"'`".contains(*first)) {
        Some(quote) => rest[1..].split_once(quote)?,
        None => {
            let (text, behind) =
                rest.split_at(rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()));
            let is_mark = text.len() > 1 && !text.contains(|c: char| c.is_ascii_lowercase());
            (said.is_some() || is_mark).then_some((text, behind))?
        }
    };
    let is_plain = !text.trim().is_empty() && is_known(before) && is_known(behind);
    is_plain.then(|| FirstSearch { pattern: regex::escape(text), place, include: None })
}

/// How a task begins that asks for a number of lines.
const BEGIN_LINES: [&str; 3] = ["How many lines", "Count the lines", "Count how many lines"];

/// `How many functions are defined in the Python files?`
fn counted(task: &str, files: &[&str]) -> Option<FirstSearch> {
    let place = place(task, files);
    let lower = task.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| c.is_whitespace() || ",:;!?\"'`()".contains(c))
        .map(|word| word.trim_matches(['.', '/']))
        .filter(|word| !word.is_empty())
        .collect();
    let at = words.windows(2).position(|pair| pair == ["how", "many"] || pair == ["count", "the"])?;
    let (noun, rest) = words[at + 2..].split_first()?;
    let (_, patterns) = COUNTED.iter().find(|(name, _)| name == noun)?;
    let is_place = |word: &str| place.as_deref().is_some_and(|place| place.to_lowercase().trim_matches('/') == word);
    let language = LANGUAGES.iter().find(|(name, _)| rest.contains(name));
    let is_known = |word: &&str| {
        PLAIN.split_whitespace().any(|plain| plain == *word)
            || language.is_some_and(|(name, _)| name == word)
            || is_place(word)
    };
    if at > 0 || !rest.iter().all(is_known) {
        return None;
    }
    let ends = |name: &str, endings: &str| {
        name.rsplit_once('.').is_some_and(|(_, end)| endings.split(' ').any(|ending| ending == end))
    };
    let within = |name: &&&str| place.as_deref().is_none_or(|place| name.starts_with(place));
    let is_meant = |endings: &str| match language {
        Some((_, ending)) => endings.split(' ').any(|known| known == *ending),
        None => files.iter().filter(within).any(|name| ends(name, endings)),
    };
    let mut meant = patterns.iter().filter(|(endings, _)| is_meant(endings));
    let (endings, pattern) = meant.next()?;
    let include = match language {
        Some((_, ending)) => format!("*.{ending}"),
        None => format!("*.{{{}}}", endings.replace(' ', ",")),
    };
    // In two languages there are two searches.
    meant.next().is_none().then(|| FirstSearch { pattern: (*pattern).to_owned(), place, include: Some(include) })
}

/// The file or directory of the project that a task names: by a word that is written as a path, or behind one that says so.
fn place(task: &str, files: &[&str]) -> Option<String> {
    let is_there = |name: &str| files.iter().any(|file| *file == name || file.starts_with(&format!("{name}/")));
    let (mut leads, mut is_said) = (false, false);
    for word in task.split(|c: char| c.is_whitespace() || ",:;!?\"'`()".contains(c)).filter(|word| !word.is_empty()) {
        let name = word.trim_start_matches("./").trim_end_matches(['.', '/']);
        let lower = name.to_lowercase();
        let is_path = name.contains(['.', '/']) || word.ends_with('/');
        let is_plain = PLAIN.split_whitespace().any(|plain| plain == lower);
        if name.len() > 1 && (is_path || leads && (is_said || !is_plain)) && is_there(name) {
            return Some(name.to_owned());
        }
        is_said = ["directory", "folder"].contains(&lower.as_str());
        leads = LEAD.contains(&lower.as_str()) || leads && lower == "the";
    }
    None
}

/// Words behind which a place is named.
const LEAD: [&str; 7] = ["in", "of", "below", "under", "within", "directory", "folder"];

/// `Which files call the function parseDate?`
fn about_a_name(task: &str) -> Option<FirstSearch> {
    if !named_paths(task).is_empty() {
        return None;
    }
    let is_identifier = |word: &str| {
        word.len() > 2
            && word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_code = |word: &str| {
        let mut letters = word.bytes();
        let first_small = letters.next().is_some_and(|byte| byte.is_ascii_lowercase());
        word.trim_matches('_').contains('_') || first_small && letters.any(|byte| byte.is_ascii_uppercase())
    };
    let mut found: Option<&str> = None;
    let mut before = "";
    for word in task.split_whitespace() {
        let bare = word.trim_matches(|c: char| ",.:;!?\"'".contains(c));
        let name = bare.trim_matches('`').trim_end_matches("()");
        let is_marked = name.len() < bare.len();
        let is_named =
            BEFORE_NAME.split(' ').any(|noun| noun == before) && !name.bytes().all(|b| b.is_ascii_lowercase());
        before = name;
        if !is_identifier(name) || !(is_marked || is_named || is_code(name)) {
            continue;
        }
        if found.is_some_and(|earlier| earlier != name) {
            return None;
        }
        found = Some(name);
    }
    Some(FirstSearch { pattern: format!(r"\b{}\b", found?), place: None, include: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 4] = ["a.py", "pkg/b.py", "web/x.js", "README.md"];

    #[track_caller]
    fn pattern(task: &str) -> Option<String> {
        first_search(task, &FILES).map(|search| search.pattern)
    }

    #[test]
    fn what_can_be_counted_is_searched_for_by_its_language() {
        let search =
            first_search("How many functions are defined in the Python files of this project?", &FILES).unwrap();
        assert_eq!((search.pattern.as_str(), search.place), (r"^\s*(async )?def \w", None));
        assert_eq!(search.include.as_deref(), Some("*.py"));
        let search = first_search("How many classes does pkg/b.py have? Answer with the number.", &FILES).unwrap();
        assert_eq!(search.place.as_deref(), Some("pkg/b.py"));
        let search = first_search("Count the tests in the folder pkg. Answer with the number.", &FILES).unwrap();
        assert_eq!((search.pattern.as_str(), search.place.as_deref()), (r"^\s*(async )?def test", Some("pkg")));
    }

    #[test]
    fn lines_with_a_text_are_searched_for_it() {
        for (task, text, place) in [
            ("How many lines contain TODO in the folder pkg? Answer with the number only.", "TODO", Some("pkg")),
            ("How many lines of web/x.js contain `a.b`?", r"a\.b", Some("web/x.js")),
            ("How many lines in this project contain the word old?", "old", None),
            ("Count the lines with \"x = 1\" in README.md.", "x = 1", Some("README.md")),
        ] {
            let search = first_search(task, &FILES).unwrap_or_else(|| panic!("{task}"));
            assert_eq!((search.pattern.as_str(), search.place.as_deref()), (text, place), "{task}");
        }
        for task in [
            "How many lines contain a comment?",
            "How many lines contain TODO and FIXME?",
            "How many lines contain TODO but no name?",
            "How many empty lines contain TODO?",
        ] {
            assert_eq!(pattern(task), None, "{task}");
        }
    }

    #[test]
    fn a_place_is_named_as_one() {
        let files = ["src/a.rs", "tests/b.rs", "project/c.rs"];
        let place = |task: &str| place(task, &files);
        for (task, named) in [
            ("How many tests are there?", None),
            ("How many classes are defined in this project?", None),
            ("How many classes are in the project?", None),
            ("How many functions are in tests?", Some("tests")),
            ("How many functions are in the directory project?", Some("project")),
            ("How many functions does project/ have?", Some("project")),
            ("How many functions does src/a.rs have?", Some("src/a.rs")),
        ] {
            assert_eq!(place(task).as_deref(), named, "{task}");
        }
    }

    #[test]
    fn what_a_word_restricts_is_left_to_the_model() {
        for task in [
            "How many functions of a.py have no docstring?",
            "How many tests fail?",
            "How many functions call open?",
            "How many rows are there in a.csv?",
            // Two languages.
            "How many tests are there?",
            "Add tests. How many functions are there?",
        ] {
            assert_eq!(pattern(task), None, "{task}");
        }
    }

    #[test]
    fn a_question_about_a_name_is_searched_for() {
        for (task, name) in [
            ("Which files call the function parseDate? Do not count its definition.", "parseDate"),
            ("Where is `Order` defined?", "Order"),
            ("Which file reads the variable MAX_RETRIES?", "MAX_RETRIES"),
            ("What does fetch_all() return?", "fetch_all"),
            ("Where is the class Parser?", "Parser"),
        ] {
            assert_eq!(pattern(task), Some(format!(r"\b{name}\b")), "{task}");
        }
        for task in [
            "What does this project do?",
            "Which of parseDate and parseTime is used?",
            "What does f_one in a.py return?",
            "Rename parseDate to readDate.",
            "Which function is the longest?",
        ] {
            assert_eq!(pattern(task), None, "{task}");
        }
    }
}
