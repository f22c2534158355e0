//! Judges a change by the tables of `guards.presets`: what silences a linter, switches a test off or removes it.
//!
//! A line that moves stays what it was: one that is removed elsewhere in the same words does not count as added.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;

use super::violation::Violation;
use crate::change::ChangeSet;
use crate::change::diff::{LineDiff, text_of};
use crate::recipe::file::Preset;

/// What a row of a table asks.
#[derive(Debug)]
enum Rule {
    /// No such line is added.
    NoneAdded(Regex),
    /// There are no fewer such lines than before.
    NoFewer(Regex),
    /// The file does not change.
    Unchanged,
}

#[derive(Debug)]
struct Row {
    files: GlobMatcher,
    rule: Rule,
}

type Table = (Preset, &'static str, &'static str, Vec<Row>);

/// The tables, each with its name and what a line of it does.
static TABLES: LazyLock<[Table; 4]> = LazyLock::new(|| {
    [
        (Preset::NoSuppressions, "no-suppressions", "it silences a check", include_str!("no-suppressions.txt")),
        (Preset::NoSkippedTests, "no-skipped-tests", "it switches a test off", include_str!("no-skipped-tests.txt")),
        (Preset::NoTestRemoval, "no-test-removal", "a test is removed", include_str!("no-test-removal.txt")),
        (
            Preset::NoLintConfig,
            "no-lint-config",
            "it changes the settings of a linter",
            include_str!("no-lint-config.txt"),
        ),
    ]
    .map(|(preset, name, why, text)| (preset, name, why, text.lines().filter_map(row).collect()))
});

fn row(line: &str) -> Option<Row> {
    if line.starts_with("# ") {
        return None;
    }
    let mut columns = line.split('\t');
    let files =
        GlobBuilder::new(columns.next()?).literal_separator(true).build().expect("a valid glob").compile_matcher();
    let mark = columns.next()?;
    let mut pattern = || Regex::new(columns.next().unwrap_or_default()).expect("a valid pattern");
    let rule = match mark {
        "+" => Rule::NoneAdded(pattern()),
        "=" => Rule::NoFewer(pattern()),
        _ => Rule::Unchanged,
    };
    Some(Row { files, rule })
}

/// The lines that a change adds and removes, by file, without those that only move.
struct Lines {
    files: Vec<(String, Vec<String>, Vec<String>)>,
}

impl Lines {
    fn of(changes: &ChangeSet) -> Lines {
        let mut files = Vec::new();
        for (path, change) in changes.iter() {
            let (before, after) = (text_of(&change.before), text_of(&change.after));
            if change.kind().is_none() {
                continue;
            }
            // Also of what looks binary: a byte in a comment makes no picture of a program.
            let diff = LineDiff::new(before, after);
            let (added, removed) = diff.changed();
            let texts = |lines: &[&[u8]]| lines.iter().map(|line| trimmed(line)).collect::<Vec<_>>();
            files.push((path.to_string(), texts(&added), texts(&removed)));
        }
        let mut lines = Lines { files };
        lines.drop_moved();
        lines
    }

    fn drop_moved(&mut self) {
        let mut gone: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.files.iter().flat_map(|(_, _, removed)| removed) {
            *gone.entry(line.clone()).or_default() += 1;
        }
        let mut moved: BTreeMap<String, usize> = BTreeMap::new();
        for (_, added, _) in &mut self.files {
            added.retain(|line| match gone.get_mut(line).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    *moved.entry(line.clone()).or_default() += 1;
                    false
                }
                None => true,
            });
        }
        for (_, _, removed) in &mut self.files {
            removed.retain(|line| match moved.get_mut(line).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    false
                }
                None => true,
            });
        }
    }
}

fn trimmed(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim().to_owned()
}

/// Returns everything in a change that the tables forbid.
pub fn judge(presets: &[Preset], changes: &ChangeSet) -> Vec<Violation> {
    let mut found = Vec::new();
    if presets.is_empty() {
        return found;
    }
    let lines = Lines::of(changes);
    for (_, name, why, rows) in TABLES.iter().filter(|(preset, ..)| presets.contains(preset)) {
        for row in rows {
            row.judge(&lines, &mut |message| {
                found.push(Violation { guard: name, message: format!("{message}: {why}") })
            });
        }
    }
    found
}

impl Row {
    fn judge(&self, lines: &Lines, broken: &mut dyn FnMut(String)) {
        let files = || lines.files.iter().filter(|(path, ..)| self.files.is_match(path));
        match &self.rule {
            Rule::Unchanged => files().for_each(|(path, ..)| broken(format!("{path} is changed"))),
            Rule::NoneAdded(pattern) => {
                for (path, added, _) in files() {
                    let found = added.iter().filter(|line| pattern.is_match(line));
                    found.for_each(|line| broken(format!("{path} adds `{}`", short(line))));
                }
            }
            Rule::NoFewer(pattern) => {
                let matching = |lines: &[String]| lines.iter().filter(|line| pattern.is_match(line)).count();
                let added: usize = files().map(|(_, added, _)| matching(added)).sum();
                let removed = files().flat_map(|(path, _, removed)| removed.iter().map(move |line| (path, line)));
                let removed: Vec<_> = removed.filter(|(_, line)| pattern.is_match(line)).collect();
                for (path, line) in removed.iter().take(removed.len().saturating_sub(added)) {
                    broken(format!("{path} removes `{}`", short(line)));
                }
            }
        }
    }
}

fn short(line: &str) -> String {
    line.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Entry;
    use crate::path::RelPath;

    fn guards(files: &[(&str, &str, &str)]) -> Vec<&'static str> {
        let entry = |text: &str| if text.is_empty() { Entry::Absent } else { Entry::file(text) };
        let mut set = ChangeSet::default();
        for (path, before, after) in files {
            set.stage(RelPath::new(path).unwrap(), || entry(before), entry(after));
        }
        let all = [Preset::NoSuppressions, Preset::NoSkippedTests, Preset::NoTestRemoval, Preset::NoLintConfig];
        judge(&all, &set).into_iter().map(|violation| violation.guard).collect()
    }

    #[test]
    fn every_language_has_a_line_that_each_table_refuses() {
        for (path, suppression, skip, test) in [
            ("a.rs", "    #[allow(dead_code)]", "#[ignore = \"x\"]", "#[tokio::test]"),
            ("a.py", "x = 1  # noqa: E501", "@pytest.mark.skip", "def test_a():"),
            ("a.ts", "// eslint-disable-next-line no-x", "it.skip('a', () => {})", "it('a', () => {"),
            ("a_test.go", "x() //nolint:errcheck", "\tt.Skip(\"x\")", "func TestA(t *testing.T) {"),
            ("A.java", "@SuppressWarnings(\"all\")", "@Disabled", "@Test"),
            ("A.kt", "@Suppress(\"X\")", "@Ignore", "@ParameterizedTest"),
            ("a.cpp", "int a; // NOLINT", "GTEST_SKIP() << 1;", "TEST(A, B) {"),
            ("A.cs", "#pragma warning disable 1", "[Ignore(\"x\")]", "[Fact]"),
            ("a_spec.rb", "# rubocop:disable all", "xit 'a' do", "it 'a' do"),
        ] {
            let one = |before: &str, after: &str| guards(&[(path, before, after)]);
            assert_eq!(one("x\n", &format!("x\n{suppression}\n")), ["no-suppressions"], "{path}");
            assert!(one("x\n", &format!("x\n{skip}\n")).contains(&"no-skipped-tests"), "{path}");
            assert_eq!(one(&format!("x\n{test}\n"), "x\n"), ["no-test-removal"], "{path}");
            assert_eq!(one(&format!("{test}\n"), ""), ["no-test-removal"], "a deleted {path}");
            // What was there before may stay and move, and a test may be added.
            assert!(
                one(&format!("{suppression}\n{skip}\n"), &format!("y\n{skip}\n  {suppression}\n")).is_empty(),
                "{path}"
            );
            assert!(one("x\n", &format!("x\n{test}\n")).is_empty(), "{path}");
        }
    }

    #[test]
    fn settings_of_linters_stay_and_ordinary_settings_may_change() {
        for (path, before, after) in [
            ("clippy.toml", "", "x = 1\n"),
            ("Cargo.toml", "[package]\n", "[package]\n[lints.clippy]\nall = \"allow\"\n"),
            ("Cargo.toml", "[lints.rust]\nunsafe_code = \"deny\"\n", "\n"),
            ("pyproject.toml", "[tool.ruff]\nselect = [\"E\"]\n", "[tool.ruff]\nselect = []\n"),
            ("web/.eslintrc.json", "{}\n", "{\"rules\": {}}\n"),
            ("package.json", "{\n\"lint\": \"eslint .\"\n}\n", "{\n\"lint\": \"true\"\n}\n"),
            (".golangci.yml", "a: 1\n", "a: 2\n"),
            ("pom.xml", "<a/>\n", "<a/>\n<skipTests>true</skipTests>\n"),
            ("CMakeLists.txt", "x(-Wall)\n", "x()\n"),
            ("A.csproj", "<P/>\n", "<NoWarn>1</NoWarn>\n"),
            (".rubocop.yml", "a: 1\n", "a: 2\n"),
        ] {
            let found = guards(&[(path, before, after)]);
            assert!(found.contains(&"no-lint-config"), "{path}: {found:?}");
        }
        for (path, before, after) in [
            ("Cargo.toml", "serde = \"1\"\n", "serde = { version = \"2\" }\n"),
            ("pyproject.toml", "version = \"1\"\n", "version = \"2\"\n"),
            ("package.json", "\"version\": \"1\"\n", "\"version\": \"2\"\n"),
            ("src/a.rs", "fn a() {}\n", "/// allow(x)\nfn a() {}\n"),
        ] {
            assert_eq!(guards(&[(path, before, after)]), [] as [&str; 0], "{path}");
        }
    }

    #[test]
    fn a_test_that_moves_to_another_file_is_not_removed() {
        let moved = [("tests/a.py", "def test_a():\n    pass\n", ""), ("tests/b.py", "", "def test_b():\n    pass\n")];
        assert_eq!(guards(&moved), [] as [&str; 0]);
        let replaced = [("a.rs", "#[allow(x)]\nfn a() {}\n", "#[allow(y)]\nfn a() {}\n")];
        assert_eq!(guards(&replaced), ["no-suppressions"]);
    }
}
