//! Divides the text of a change into parts that a model reads one after the other.

use std::borrow::Cow;

use super::new_side::Hunk;
use crate::change::git_name;

/// The most bytes of a line that a model is shown.
pub const LINE_BYTES: usize = 2_000;

/// Stands for a header that git would not write.
const NO_HUNK: Hunk = Hunk { old_start: 1, old_lines: 1, start: 1, lines: 1 };

/// How much of a change is shown, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Most of one line; a longer one loses its middle.
    pub line: usize,
    /// Most of one file; a larger one is cut behind a hunk, the first hunk behind a line.
    pub file: usize,
    /// Most of one part. A file that is larger is a part of its own.
    pub part: usize,
    /// Most parts.
    pub parts: usize,
}

/// A change in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The parts.
    pub parts: Vec<Part>,
    /// Files that are not shown whole: the path, and the lines that are changed as well, for example `3,40-91`.
    pub cut: Vec<(String, String)>,
    /// Files that have no room in any part.
    pub not_reached: Vec<String>,
}

/// A part of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// A unified diff.
    pub text: String,
    /// Its files; of a renamed one the old path as well.
    pub files: Vec<String>,
}

/// Divides a unified diff with the prefixes `a/` and `b/`; the files stay in their order.
pub fn divide(diff: &str, sizes: Sizes) -> Parts {
    let mut divided = Parts::default();
    for section in sections(diff) {
        let files = files_of(section);
        let (text, cut) = shortened(section, sizes);
        let fits = divided.parts.last().is_some_and(|part| part.text.len() + text.len() <= sizes.part);
        if !fits && divided.parts.len() == sizes.parts {
            // A smaller file behind it may still have room.
            divided.not_reached.extend(files);
            continue;
        }
        if !fits {
            divided.parts.push(Part::default());
        }
        if let (Some(lines), Some(path)) = (cut, files.first()) {
            divided.cut.push((path.clone(), lines));
        }
        if let Some(part) = divided.parts.last_mut() {
            part.text.push_str(&text);
            part.files.extend(files);
        }
    }
    divided
}

/// Returns a line that is no longer than this many bytes; its middle goes.
pub fn shortened_line(line: &str, most: usize) -> Cow<'_, str> {
    if line.len() <= most {
        return line.into();
    }
    let start = line.floor_char_boundary(most / 2);
    let end = line.ceil_char_boundary(line.len() - most / 2);
    format!("{}[... {} bytes not shown ...]{}", &line[..start], end - start, &line[end..]).into()
}

/// Returns lines of a file as a model is shown them in a diff, without the mark.
pub fn as_shown(lines: &str) -> String {
    let shown = |line: &str| shortened_line(&format!("+{line}"), LINE_BYTES)[1..].to_owned();
    lines.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// Returns the files of a diff, each from its header to its last hunk.
fn sections(diff: &str) -> impl Iterator<Item = &str> {
    // Lines of hunks begin with a mark, so that none of them looks like a header.
    let starts = std::iter::once(0).chain(diff.match_indices("\ndiff --git ").map(|(at, _)| at + 1));
    let starts: Vec<usize> = starts.chain([diff.len()]).collect();
    let sections: Vec<&str> = starts.windows(2).map(|range| &diff[range[0]..range[1]]).collect();
    sections.into_iter().filter(|section| !section.is_empty())
}

/// Returns the path of a file, and the old one of a renamed file.
fn files_of(section: &str) -> Vec<String> {
    let (mut old, mut new, mut renamed_from) = (None, None, None);
    for line in section.lines().take_while(|line| !line.starts_with("@@ ")) {
        let path = |name: &str, prefix: &str| git_name::of_header(name).strip_prefix(prefix).map(str::to_owned);
        if let Some(name) = line.strip_prefix("--- ") {
            old = path(name, "a/");
        } else if let Some(name) = line.strip_prefix("+++ ") {
            new = path(name, "b/");
        } else if let Some(name) = line.strip_prefix("rename from ") {
            renamed_from = path(name, "");
        } else if let Some(name) = line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to ")) {
            new = path(name, "");
        }
    }
    let path = new.or(old).or_else(|| path_of_both(section));
    path.into_iter().chain(renamed_from).collect()
}

/// Returns the path of a file without lines, for example an empty one: the first line has it twice.
fn path_of_both(section: &str) -> Option<String> {
    let names = section.lines().next()?.strip_prefix("diff --git ")?;
    let name = match names.starts_with('"') {
        true => git_name::of_header(names),
        false => names.get(..names.len() / 2)?.to_owned(),
    };
    name.strip_prefix("a/").map(str::to_owned)
}

/// Returns a file within its sizes, and the lines that are changed as well if it was cut.
fn shortened(section: &str, sizes: Sizes) -> (String, Option<String>) {
    let (text, long) = with_shorter_lines(section, sizes.line);
    let most = sizes.file.min(sizes.part);
    let hunks: Vec<usize> = text.match_indices("\n@@ ").map(|(at, _)| at + 1).collect();
    let (Some(first), Some(last), true) = (hunks.first(), hunks.last(), text.len() > most) else {
        return (text, named(long, None));
    };
    let whole = hunks.iter().skip(1).copied().rfind(|hunk| *hunk <= most);
    let hunk = |at: usize| Hunk::at(&text[at..]).unwrap_or(NO_HUNK);
    let end = hunk(*last).end();
    let (kept, from) = match whole {
        Some(end) => (text[..end].to_owned(), hunk(end).start),
        None => cut(hunk(*first), &text, *first, most),
    };
    let lines = format!("{from}-{}", end.max(from));
    let note = format!("[The change of this file continues in lines {lines}; they are not shown.]\n");
    let long = long.into_iter().filter(|line| *line < from).collect();
    (kept + &note, named(long, Some(lines)))
}

/// Returns a file without the middle of long lines, and the numbers of those that are added.
fn with_shorter_lines(section: &str, most: usize) -> (String, Vec<u64>) {
    let (mut text, mut long, mut number) = (String::new(), Vec::new(), 0);
    for line in section.split_inclusive('\n') {
        let bare = line.strip_suffix('\n');
        let shown = shortened_line(bare.unwrap_or(line), most);
        if let Some(hunk) = Hunk::at(line) {
            number = hunk.start;
        } else if line.starts_with(['+', ' ']) {
            long.extend((line.starts_with('+') && matches!(shown, Cow::Owned(_))).then_some(number));
            number += 1;
        }
        text.push_str(&shown);
        text.push_str(if bare.is_some() { "\n" } else { "" });
    }
    (text, long)
}

/// Names single lines and a range of lines.
fn named(lines: Vec<u64>, more: Option<String>) -> Option<String> {
    let all: Vec<String> = lines.iter().map(u64::to_string).chain(more).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// Cuts the first hunk of a file, which begins `at` this place, behind a line, and counts in its header what is left.
/// Returns the text, and the number of the first line that is missing.
fn cut(hunk: Hunk, text: &str, at: usize, most: usize) -> (String, u64) {
    let body = text[at..].find('\n').map_or(text.len(), |line| at + line + 1);
    let (mut end, mut old, mut new) = (body, 0, 0);
    for line in text[body..].split_inclusive('\n') {
        if line.starts_with("@@ ") || end + line.len() > most {
            break;
        }
        end += line.len();
        old += u64::from(!line.starts_with(['+', '\\']));
        new += u64::from(!line.starts_with(['-', '\\']));
    }
    let header = format!("@@ -{},{old} +{},{new} @@\n", hunk.old_start, hunk.start);
    (format!("{}{header}{}", &text[..at], &text[body..end]), hunk.start + new)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: Sizes = Sizes { line: 2_000, file: 60_000, part: 120_000, parts: 8 };

    fn file(path: &str, hunks: &[(u64, usize)]) -> String {
        let mut text = format!("diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n");
        for (start, lines) in hunks {
            text.push_str(&format!("@@ -{start},0 +{start},{lines} @@ fn x()\n"));
            (0..*lines).for_each(|line| text.push_str(&format!("+line {line}\n")));
        }
        text
    }

    #[test]
    fn a_small_change_stays_as_it_is() {
        let diff = file("a", &[(1, 3)]) + &file("b", &[(4, 1)]);
        let parts = divide(&diff, SIZES);
        assert_eq!(parts.parts, [Part { text: diff, files: vec!["a".into(), "b".into()] }]);
        assert!(parts.cut.is_empty() && parts.not_reached.is_empty());
        assert_eq!(divide("", SIZES), Parts::default());
    }

    #[test]
    fn a_file_is_cut_behind_a_hunk_and_the_first_hunk_behind_a_line() {
        let sizes = Sizes { file: 140, ..SIZES };
        let parts = divide(&file("a", &[(1, 3), (40, 9), (90, 2)]), sizes);
        assert_eq!(parts.cut, [("a".to_owned(), "40-91".to_owned())]);
        assert!(parts.parts[0].text.ends_with(
            "@@ -1,0 +1,3 @@ fn x()\n+line 0\n+line 1\n+line 2\n[The change of this file continues in lines 40-91; they are not shown.]\n"
        ));
        let parts = divide(&file("a", &[(5, 30)]), sizes);
        let shown = &parts.parts[0].text;
        assert_eq!(parts.cut, [("a".to_owned(), "12-34".to_owned())], "{shown}");
        assert!(shown.contains("@@ -5,0 +5,7 @@\n+line 0\n") && shown.contains("+line 6\n["), "{shown}");
    }

    #[test]
    fn a_long_line_loses_its_middle() {
        let long = format!("+{}é{}", "x".repeat(900), "y".repeat(900));
        let shown = shortened_line(&long, 100).into_owned();
        assert_eq!(shown, format!("+{}[... 1703 bytes not shown ...]{}", "x".repeat(49), "y".repeat(50)));
        assert_eq!(shortened_line("short", 100), "short");
        let diff = file("a", &[(7, 2)]).replace("+line 1", &long);
        let parts = divide(&diff, Sizes { line: 100, ..SIZES });
        assert_eq!(parts.cut, [("a".to_owned(), "8".to_owned())], "what it hides is said");
    }

    #[test]
    fn names_are_read_as_git_writes_them() {
        let of = |header: &str| files_of(&format!("{header}\n@@ -1 +1 @@\n--- a/no\n"));
        assert_eq!(of("diff --git a/x b/x\n--- a/x\n+++ /dev/null"), ["x"]);
        assert_eq!(of("diff --git a/x b/y\nrename from x\nrename to y"), ["y", "x"]);
        assert_eq!(of("diff --git a/a b b/a b\nnew file mode 100644\nindex 0..e69de29"), ["a b"]);
        assert_eq!(of(r#"diff --git "a/\303\244" "b/\303\244""#), ["ä"]);
        assert_eq!(of("diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t"), ["a b"]);
    }

    proptest! {
        /// Every file is shown in one part, or said not to be reached; a file that is shown in part is said to be cut.
        #[test]
        fn nothing_is_lost(
            files in prop::collection::vec(prop::collection::vec((1_u64..500, 1_usize..40), 1..4), 1..12),
            (file_bytes, part, most) in (100_usize..600, 100_usize..900, 1_usize..5),
        ) {
            let texts: Vec<String> = files.iter().enumerate().map(|(n, hunks)| file(&format!("f{n}"), hunks)).collect();
            let sizes = Sizes { line: 2_000, file: file_bytes, part, parts: most };
            let divided = divide(&texts.concat(), sizes);
            prop_assert!(divided.parts.len() <= most);
            let shown = divided.parts.iter().flat_map(|part| part.files.clone());
            let mut all: Vec<String> = shown.chain(divided.not_reached.clone()).collect();
            all.sort_by_key(|name| name[1..].parse::<usize>().unwrap());
            prop_assert_eq!(all, (0..files.len()).map(|n| format!("f{n}")).collect::<Vec<_>>());
            for (n, text) in texts.iter().enumerate() {
                let name = format!("f{n}");
                let is_whole = divided.parts.iter().any(|part| part.text.contains(text.as_str()));
                let is_cut = divided.cut.iter().any(|(path, _)| *path == name);
                let is_left = divided.not_reached.contains(&name);
                prop_assert_eq!([is_whole, is_cut, is_left].iter().filter(|is| **is).count(), 1, "{}", name);
            }
        }
    }
}
