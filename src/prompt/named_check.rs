//! Finds the failing command or test that a task names and wants to pass.

use super::first_message::named_paths;

/// Words by which a task says that something fails.
const FAILS: &[&str] = &["fail", "pass", "broken", "error", "crash", "does not work", "doesn't work", "compile"];

/// Words by which it says that this is to change: a question for the reason is answered without a change.
const WANTS: &[&str] = &["fix", "repair", "correct", "make ", "so that", "solve", "must pass", "should pass"];

/// Returns the words of the command; `None` unless the task says that it fails and is to pass.
///
/// A command stands between backticks; a test file is run by the program of its language. Only programs that test,
/// check or build count, and only plain words: what the task mentions for another reason must not run.
///
/// ```
/// use qwen_run::prompt::named_check::named_check;
///
/// assert_eq!(named_check("`npm test` fails. Fix it.").unwrap(), ["npm", "test"]);
/// assert_eq!(named_check("The test in test_a.py fails. Fix a.py.").unwrap(), ["python3", "test_a.py"]);
/// assert_eq!(named_check("Why does `npm test` fail?"), None);
/// assert_eq!(named_check("`npm publish` fails. Fix it."), None);
/// ```
pub fn named_check(task: &str) -> Option<Vec<String>> {
    let said = task.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if !says(FAILS) || !says(WANTS) {
        return None;
    }
    let quoted = task.split('`').skip(1).step_by(2).map(|text| text.split_whitespace().collect::<Vec<_>>());
    let commands = quoted.filter(|words| is_check(words));
    let tests = named_paths(task).into_iter().filter_map(|path| Some(vec![runner(path)?, path]));
    let words = commands.chain(tests).next()?;
    Some(words.into_iter().map(str::to_owned).collect())
}

/// Tells whether words are a command that tests, checks or builds.
fn is_check(words: &[&str]) -> bool {
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_./:=@+,-".contains(c));
    let ends = |word: &str, endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    words.iter().all(is_plain)
        && match words {
            ["pytest" | "tox" | "ctest" | "rspec" | "phpunit" | "shellcheck", ..] => true,
            ["python" | "python3", "-m", module, ..] => {
                matches!(*module, "pytest" | "unittest" | "doctest" | "py_compile" | "mypy")
            }
            ["python" | "python3", file, ..] => ends(file, &[".py"]),
            ["node", "--test" | "--check", ..] => true,
            ["node", file, ..] => ends(file, &[".js", ".mjs", ".cjs"]),
            ["npm" | "pnpm" | "yarn" | "bun" | "deno" | "mvn" | "gradle" | "dotnet", "test", ..] => true,
            ["npm" | "pnpm" | "yarn", "run", script, ..] => {
                ["test", "lint", "check", "build"].iter().any(|word| script.contains(word))
            }
            ["cargo", "test" | "check" | "build" | "clippy", ..] | ["go", "test" | "vet" | "build", ..] => true,
            ["make", target, ..] => matches!(*target, "test" | "tests" | "check" | "lint" | "build"),
            ["bash" | "sh", "-n", ..] => true,
            ["bash" | "sh", file, ..] => runner(file).is_some() && ends(file, &[".sh"]),
            _ => false,
        }
}

/// Returns the program that runs a test file; `None` for another file.
fn runner(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let is_test = stem == "test"
        || stem.starts_with("test_")
        || stem.starts_with("test-")
        || ["_test", "-test", ".test"].iter().any(|end| stem.ends_with(end));
    match ending {
        "py" if is_test => Some("python3"),
        "js" | "mjs" | "cjs" if is_test => Some("node"),
        "sh" if is_test => Some("bash"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tests_checks_or_builds_is_run_and_only_in_plain_words() {
        for command in [
            "pytest -q tests/a.py",
            "python3 -m unittest",
            "python3 run.py",
            "node --test",
            "npm run lint",
            "cargo test --lib",
            "go vet ./...",
            "make check",
            "bash -n a.sh",
            "sh test.sh",
        ] {
            let words = named_check(&format!("Fix it: `{command}` fails.")).unwrap();
            assert_eq!(words.join(" "), command);
        }
        for command in [
            "rm -rf .",
            "npm publish",
            "cargo install x",
            "make deploy",
            "sh deploy.sh",
            "pytest; rm a",
            "pytest $(id)",
            "pytest > a",
        ] {
            assert_eq!(named_check(&format!("Fix it: `{command}` fails.")), None, "{command}");
        }
    }

    #[test]
    fn a_test_file_is_run_and_another_file_is_not() {
        for (path, program) in [("test_a.py", "python3"), ("t/a.test.js", "node"), ("test.sh", "bash")] {
            assert_eq!(named_check(&format!("{path} fails, fix it.")).unwrap(), [program, path]);
        }
        for path in ["a.py", "latest.js", "contest_a.txt", "test_a.rs"] {
            assert_eq!(named_check(&format!("{path} fails, fix it.")), None, "{path}");
        }
    }

    #[test]
    fn a_task_that_says_nothing_of_a_failure_runs_nothing() {
        for task in ["Add a case to test_a.py", "Document that `npm test` runs the tests", "Why does test_a.py fail?"] {
            assert_eq!(named_check(task), None, "{task}");
        }
    }
}
