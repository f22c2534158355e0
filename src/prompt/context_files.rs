//! Assembles the context files: `QWEN.md`, `AGENTS.md` and the files that they import with `@path`.
//!
//! Performs no I/O: a [`Library`] supplies the texts and decides what may be read.

use crate::base::cut;
use crate::hidden::without_hidden;
use crate::path::RelPath;

/// The names of context files where the settings name none.
pub const NAMES: &[&str] = &["QWEN.md", "AGENTS.md"];

/// How deep imports go: a file that a file imports … five times.
pub const DEPTH: usize = 5;

/// Bytes of one file; the rest is cut.
pub const FILE_BYTES: usize = 64 << 10;

/// Bytes of all context together; the rest is cut.
pub const TOTAL_BYTES: usize = 160 << 10;

/// Maximum number of imported files, so that a tree of imports is bounded.
const IMPORTS: usize = 100;

/// How an imported file is in the text (`context.importFormat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportFormat {
    /// In the place of the import.
    #[default]
    Tree,
    /// Each file once, after the file that imports it.
    Flat,
}

/// Where texts come from: the disk below one root, or a test's memory.
pub trait Library {
    /// Returns the text of a file below the root; the error says why it cannot be read, for a comment.
    fn read(&self, path: &RelPath) -> Result<String, String>;
}

/// A context file, imports and all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// Its name, for the model.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Reads one context file with everything that it imports; `None` if it says nothing.
///
/// `name` is what the model sees. Warnings are for the owner: hidden characters, cut files, imports that are missing.
pub fn read(
    path: &RelPath,
    name: &str,
    library: &dyn Library,
    format: ImportFormat,
    warnings: &mut Vec<String>,
) -> Option<ContextFile> {
    let text = match library.read(path) {
        Ok(text) => text,
        Err(why) => {
            warnings.push(format!("{name} left out: {why}"));
            return None;
        }
    };
    let mut importer = Importer { library, format, root: name, warnings, behind: Vec::new(), imports: 0 };
    let mut open = vec![path.clone()];
    let text = clean(text, name, importer.warnings);
    let mut whole = importer.expand(&text, &mut open);
    for (file, text) in std::mem::take(&mut importer.behind) {
        whole.push_str(&format!("\n\n--- File: {file} ---\n{}\n--- End of File: {file} ---", text.trim()));
    }
    let text = whole.trim().to_owned();
    (!text.is_empty()).then(|| ContextFile { name: name.to_owned(), text })
}

/// Cuts the files to [`TOTAL_BYTES`] together, the last ones first: those nearest to the user's own matter most.
pub fn bounded(files: Vec<ContextFile>, warnings: &mut Vec<String>) -> Vec<ContextFile> {
    let mut left = TOTAL_BYTES;
    let mut kept = Vec::new();
    for mut file in files {
        if left == 0 {
            warnings.push(format!("{} left out: context files are {TOTAL_BYTES} bytes at most together", file.name));
            continue;
        }
        if file.text.len() > left {
            warnings.push(format!("{} cut: context files are {TOTAL_BYTES} bytes at most together", file.name));
            file.text = cut(file.text, left);
        }
        left -= file.text.len().min(left);
        kept.push(file);
    }
    kept
}

fn cut(mut text: String, bytes: usize) -> String {
    let end = cut::end(&text, bytes);
    let end = text[..end].rfind('\n').unwrap_or(end);
    text.truncate(end);
    text.push_str("\n<!-- cut: the file is longer -->");
    text
}

fn clean(text: String, name: &str, warnings: &mut Vec<String>) -> String {
    let (text, hidden) = without_hidden(&text);
    if hidden > 0 {
        warnings.push(format!("{name}: {hidden} invisible characters were removed"));
    }
    if text.len() <= FILE_BYTES {
        return text;
    }
    warnings.push(format!("{name}: only the first {FILE_BYTES} bytes are used"));
    cut(text, FILE_BYTES)
}

struct Importer<'a> {
    library: &'a dyn Library,
    format: ImportFormat,
    root: &'a str,
    warnings: &'a mut Vec<String>,
    behind: Vec<(String, String)>,
    imports: usize,
}

impl Importer<'_> {
    /// Returns the text with its imports; `open` are the files on the way to it.
    fn expand(&mut self, text: &str, open: &mut Vec<RelPath>) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut at = 0;
        for import in imports(text) {
            expanded.push_str(&text[at..import.start]);
            at = import.end;
            expanded.push_str(&self.import(&text[import.start..import.end], &import.path, open));
        }
        expanded.push_str(&text[at..]);
        expanded
    }

    fn import(&mut self, spelled: &str, named: &str, open: &mut Vec<RelPath>) -> String {
        let failed = |importer: &mut Importer<'_>, why: &str| {
            importer.warnings.push(format!("{}: import {spelled} left out: {why}", importer.root));
            comment(&format!("Import of {named} left out: {why}"))
        };
        let folder = open.last().and_then(RelPath::parent).unwrap_or_else(RelPath::root);
        let Some(path) = folder.join(named) else {
            return failed(self, "it is outside of the root");
        };
        if open.contains(&path) {
            return failed(self, "it imports itself");
        }
        if open.len() > DEPTH {
            return failed(self, &format!("imports go {DEPTH} files deep"));
        }
        if self.imports == IMPORTS {
            return failed(self, &format!("at most {IMPORTS} files are imported"));
        }
        let shown = path.to_string();
        if self.format == ImportFormat::Flat && self.behind.iter().any(|(file, _)| *file == shown) {
            return spelled.to_owned();
        }
        match self.library.read(&path) {
            Err(why) => failed(self, &why),
            Ok(text) => {
                self.imports += 1;
                let text = clean(text, &shown, self.warnings);
                open.push(path);
                let place = self.behind.len();
                let expanded = self.expand(&text, open);
                open.pop();
                match self.format {
                    ImportFormat::Tree => format!(
                        "{}\n{}\n{}",
                        comment(&format!("Imported from: {named}")),
                        expanded.trim(),
                        comment(&format!("End of import from: {named}"))
                    ),
                    ImportFormat::Flat => {
                        self.behind.insert(place.min(self.behind.len()), (shown, expanded));
                        spelled.to_owned()
                    }
                }
            }
        }
    }
}

/// Makes an HTML comment that nothing in its text can end.
fn comment(text: &str) -> String {
    format!("<!-- {} -->", text.replace("--", "- -").replace('>', "]"))
}

/// An import in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    start: usize,
    end: usize,
    path: String,
}

/// Finds `@path` where a word begins, outside of code spans, fences, indented code and comments.
///
/// A path begins with `./`, `../`, `/` or a letter and names a file: it holds a dot or a slash. So an address
/// (`a@b.c`), a decorator (`@property`) and a name (`@alice`) stay text.
fn imports(text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let mut fence: Option<(u8, usize)> = None;
    let mut line_start = 0;
    let mut in_comment = false;
    for line in text.split_inclusive('\n') {
        let begin = line_start;
        line_start += line.len();
        let trimmed = line.trim_start_matches(' ');
        if let Some((mark, length)) = fence {
            let run = run_of(trimmed.as_bytes(), mark);
            if run >= length && trimmed[run..].trim().is_empty() {
                fence = None;
            }
            continue;
        }
        let opening = [b'`', b'~'].into_iter().find(|mark| run_of(trimmed.as_bytes(), *mark) >= 3);
        if let Some(mark) = opening.filter(|_| line.len() - trimmed.len() < 4) {
            let run = run_of(trimmed.as_bytes(), mark);
            // Three backquotes with another one in the same line are a span, not a fence.
            if mark == b'~' || !trimmed[run..].contains('`') {
                fence = Some((mark, run));
                continue;
            }
        }
        in_line(line, begin, &mut in_comment, &mut found);
    }
    found
}

fn in_line(line: &str, begin: usize, in_comment: &mut bool, found: &mut Vec<Import>) {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if *in_comment {
            let Some(end) = line[at..].find("-->") else { return };
            *in_comment = false;
            at += end + 3;
            continue;
        }
        if bytes[at] == b'`' {
            let run = run_of(&bytes[at..], b'`');
            let rest = at + run;
            // A span that is not closed on its line is not a span.
            at = closing(&bytes[rest..], run).map_or(rest, |end| rest + end);
            continue;
        }
        if line[at..].starts_with("<!--") {
            *in_comment = true;
            at += 4;
            continue;
        }
        let begins_word = at == 0 || bytes[at - 1].is_ascii_whitespace() || b"([{".contains(&bytes[at - 1]);
        if bytes[at] == b'@'
            && begins_word
            && let Some(path) = path_at(&line[at + 1..])
        {
            found.push(Import { start: begin + at, end: begin + at + 1 + path.len(), path: path.to_owned() });
            at += 1 + path.len();
            continue;
        }
        at += line[at..].chars().next().map_or(1, char::len_utf8);
    }
}

fn run_of(bytes: &[u8], mark: u8) -> usize {
    bytes.iter().take_while(|byte| **byte == mark).count()
}

/// Returns where a code span of `run` backquotes ends, after its closing ones.
fn closing(bytes: &[u8], run: usize) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'`' {
            let length = run_of(&bytes[at..], b'`');
            at += length;
            if length == run {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    None
}

fn path_at(text: &str) -> Option<&str> {
    let end = text.find(|c: char| c.is_whitespace() || "`\"'<>|*".contains(c)).unwrap_or(text.len());
    let mut path = &text[..end];
    loop {
        let last = path.chars().next_back()?;
        let unopened =
            |open: char, close: char| last == close && path.matches(open).count() < path.matches(close).count();
        if ",;:!?.".contains(last) || unopened('(', ')') || unopened('[', ']') || unopened('{', '}') {
            path = &path[..path.len() - last.len_utf8()];
        } else {
            break;
        }
    }
    let first = path.chars().next()?;
    let begins = first.is_alphanumeric() || first == '.' || first == '/' || first == '_';
    let names_a_file = path.starts_with(['.', '/']) || path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    (begins && names_a_file && !path.contains("://")).then_some(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    struct Memory(BTreeMap<RelPath, String>);

    impl Memory {
        fn new(files: &[(&str, &str)]) -> Memory {
            Memory(files.iter().map(|(path, text)| (RelPath::new(path).unwrap(), (*text).to_owned())).collect())
        }
    }

    impl Library for Memory {
        fn read(&self, path: &RelPath) -> Result<String, String> {
            self.0.get(path).cloned().ok_or_else(|| "it does not exist".to_owned())
        }
    }

    fn expand(files: &[(&str, &str)], format: ImportFormat) -> (String, Vec<String>) {
        let mut warnings = Vec::new();
        let file = RelPath::new(files[0].0).unwrap();
        let context = read(&file, files[0].0, &Memory::new(files), format, &mut warnings);
        (context.map(|context| context.text).unwrap_or_default(), warnings)
    }

    fn paths(text: &str) -> Vec<String> {
        imports(text).into_iter().map(|import| import.path).collect()
    }

    #[test]
    fn an_import_is_a_path_at_the_beginning_of_a_word_outside_of_code() {
        for (text, expected) in [
            ("see @./style.md and @docs/a.md.", vec!["./style.md", "docs/a.md"]),
            ("(@a.md), @../b.md", vec!["a.md", "../b.md"]),
            ("mail a@b.md, @alice, @property, @org/team", vec![]),
            ("`@a.md` and ``x ` @b.md`` then @c.md", vec!["c.md"]),
            ("```\n@a.md\n```\n@b.md", vec!["b.md"]),
            ("~~~~ text\n@a.md\n~~~\n@b.md\n~~~~\n@c.md", vec!["c.md"]),
            ("an open ` quote @a.md", vec!["a.md"]),
            ("<!-- @a.md\n@b.md --> @c.md", vec!["c.md"]),
            ("@https://example.com/a.md", vec![]),
            ("@/etc/passwd", vec!["/etc/passwd"]),
        ] {
            assert_eq!(paths(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_import_stands_in_its_place_and_is_relative_to_its_file() {
        let files = [("QWEN.md", "top\n@docs/a.md\nend"), ("docs/a.md", "a\n@b.md"), ("docs/b.md", "b\n")];
        let (text, warnings) = expand(&files, ImportFormat::Tree);
        insta::assert_snapshot!(text, @r"
        top
        <!-- Imported from: docs/a.md -->
        a
        <!-- Imported from: b.md -->
        b
        <!-- End of import from: b.md -->
        <!-- End of import from: docs/a.md -->
        end
        ");
        assert!(warnings.is_empty());
    }

    #[test]
    fn flat_imports_stand_once_behind_the_text() {
        let files = [("QWEN.md", "@a.md @b.md"), ("a.md", "a @b.md"), ("b.md", "b")];
        let (text, _) = expand(&files, ImportFormat::Flat);
        insta::assert_snapshot!(text, @r"
        @a.md @b.md

        --- File: a.md ---
        a @b.md
        --- End of File: a.md ---

        --- File: b.md ---
        b
        --- End of File: b.md ---
        ");
    }

    #[test]
    fn cycles_misses_and_ways_out_leave_a_comment() {
        let files = [("QWEN.md", "@a.md @gone.md @../../etc/passwd @/etc/passwd"), ("a.md", "@QWEN.md")];
        let (text, warnings) = expand(&files, ImportFormat::Tree);
        insta::assert_snapshot!(text, @r"
        <!-- Imported from: a.md -->
        <!-- Import of QWEN.md left out: it imports itself -->
        <!-- End of import from: a.md --> <!-- Import of gone.md left out: it does not exist --> <!-- Import of ../../etc/passwd left out: it is outside of the root --> <!-- Import of /etc/passwd left out: it is outside of the root -->
        ");
        assert_eq!(warnings.len(), 4);
    }

    #[test]
    fn imports_go_five_files_deep() {
        let files = [
            ("0.md", "0 @1.md"),
            ("1.md", "1 @2.md"),
            ("2.md", "2 @3.md"),
            ("3.md", "3 @4.md"),
            ("4.md", "4 @5.md"),
            ("5.md", "five @6.md"),
            ("6.md", "six"),
        ];
        let (text, warnings) = expand(&files, ImportFormat::Tree);
        assert!(text.contains("five") && !text.contains("six"), "{text}");
        assert!(warnings[0].contains("5 files deep"), "{warnings:?}");
    }

    #[test]
    fn a_tree_of_imports_does_not_grow_without_bound() {
        let many: String = (0..50).map(|_| "@a.md @b.md @c.md ").collect();
        let files = [("QWEN.md", many.as_str()), ("a.md", &many), ("b.md", &many), ("c.md", &many)];
        let (text, _) = expand(&files, ImportFormat::Tree);
        assert!(text.len() < 4 << 20, "{}", text.len());
    }

    #[test]
    fn long_files_are_cut_at_a_line_and_said() {
        let long = "äöü\n".repeat(FILE_BYTES);
        let (text, warnings) = expand(&[("QWEN.md", &long)], ImportFormat::Tree);
        assert!(text.len() < FILE_BYTES + 100 && text.ends_with("ä\u{f6}\u{fc}\n<!-- cut: the file is longer -->"));
        assert_eq!(warnings.len(), 1);
        let files = ["a", "b", "c", "d"].map(|name| ContextFile { name: name.into(), text: "x\n".repeat(30_000) });
        let kept = bounded(files.into(), &mut Vec::new());
        assert_eq!(kept.len(), 3);
    }

    #[test]
    fn a_comment_cannot_be_ended_from_inside() {
        assert_eq!(comment("a --> b"), "<!-- a - -] b -->");
    }

    proptest! {
        #[test]
        fn imports_are_slices_in_order(text in "[a@./`~<>!\\- \n\u{e4}(),-]{0,80}") {
            let mut end = 0;
            for import in imports(&text) {
                prop_assert!(import.start >= end);
                prop_assert_eq!(&text[import.start + 1..import.end], import.path.as_str());
                end = import.end;
            }
        }
    }
}
