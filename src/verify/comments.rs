//! Finds comments in the languages that `comments_only` knows.

/// A language whose comments are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    /// Go.
    Go,
}

/// Returns the language of a file by its ending.
pub fn language(path: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.')?.1 {
        "rs" => Some(Language::Rust),
        "py" => Some(Language::Python),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Some(Language::JavaScript),
        "go" => Some(Language::Go),
        _ => None,
    }
}

/// Tells whether two texts are the same code: only whole comment lines and blank lines may differ.
///
/// Both must hold: the code without comments is equal, and each line that differs looks like a comment. So a parsing
/// mistake (say, about a regular expression of JavaScript) cannot hide a changed line of code.
pub fn only_comments_differ(language: Language, before: &str, after: &str) -> bool {
    let code = |text: &str| -> Vec<String> {
        let stripped = without_comments(language, text);
        stripped.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.trim().is_empty()).collect()
    };
    let outside = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !is_comment_line(language, line)).map(str::to_owned).collect()
    };
    let same = |part: &dyn Fn(&str) -> Vec<String>| part(before) == part(after);
    // What would be code if the line is in a template after all.
    let templates = |text: &str| -> Vec<String> {
        let opens = |line: &&str| language == Language::JavaScript && (line.contains('`') || line.contains("${"));
        text.lines().filter(opens).map(str::to_owned).collect()
    };
    same(&code) && same(&outside) && same(&|text| heads(language, text)) && same(&other_line_ends) && same(&templates)
}

/// A comment, and none that means something to the machine: `//go:embed`, `#!`, `# type:`, `// eslint-disable`, `// @ts-ignore`.
fn is_comment_line(language: Language, line: &str) -> bool {
    let line = line.trim();
    let (mark, meaning): (&str, &[&str]) = match language {
        Language::Python => (
            "#",
            &[
                "!", "type:", "noqa", "flake8:", "pylint", "pragma", "mypy", "pyright", "fmt", "isort", "ruff",
                "nosec", "///",
            ],
        ),
        Language::Go => ("//", &["go:", "+build", "nolint", "export", "line", "lint:"]),
        Language::JavaScript => ("//", &["eslint", "@", "#", "prettier", "biome", "istanbul", "c8", "tslint", "/ <"]),
        Language::Rust => ("//", &[]),
    };
    let Some(said) = line.strip_prefix(mark) else { return line.is_empty() };
    let said = said.trim_start().to_ascii_lowercase();
    !meaning.iter().any(|meaning| said.starts_with(meaning))
}

/// Returns the comments by which a file is read in another way as a whole: those that name its interpreter or its encoding, and
/// the C before `import "C"`.
fn heads(language: Language, text: &str) -> Vec<String> {
    let is_head = |(number, line): &(usize, &str)| {
        *number == 0 && line.starts_with("#!") || language == Language::Python && line.contains("coding")
    };
    let first = text.lines().take(2).enumerate().filter(is_head);
    let c = text.find("\"C\"").filter(|_| language == Language::Go).map(|end| text[..end].to_owned());
    first.map(|(_, line)| line.to_owned()).chain(c).collect()
}

/// Returns what stands behind characters that end a line for some readers and not for others.
fn other_line_ends(text: &str) -> Vec<String> {
    let plain = text.replace("\r\n", "\n");
    let ends = plain.match_indices(['\r', '\u{2028}', '\u{2029}', '\u{85}', '\0', '\u{b}', '\u{c}']);
    ends.map(|(at, _)| plain[at..].split('\n').next().unwrap_or_default().to_owned()).collect()
}

fn without_comments(language: Language, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match language {
            Language::Python if c == '#' => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            Language::Python if rest.starts_with("\"\"\"") || rest.starts_with("'''") => {
                let mark = &rest[..3];
                rest[3..].find(mark).map_or(rest.len(), |end| end + 6)
            }
            Language::Python => in_line(rest, &['"', '\'']).unwrap_or(c.len_utf8()),
            Language::Rust | Language::JavaScript | Language::Go if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            Language::Rust | Language::JavaScript | Language::Go if rest.starts_with("/*") => {
                rest = &rest[block(rest, language == Language::Rust)..];
                continue;
            }
            Language::Rust => raw(rest)
                .filter(|_| !out.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
                .or_else(|| quoted(rest, &['"']))
                .or_else(|| character(rest))
                .unwrap_or(c.len_utf8()),
            Language::Go if c == '`' => rest[1..].find('`').map_or(rest.len(), |end| end + 2),
            Language::JavaScript if c == '`' => quoted(rest, &['`']).unwrap_or(c.len_utf8()),
            Language::JavaScript | Language::Go => in_line(rest, &['"', '\'']).unwrap_or(c.len_utf8()),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// Length of a quoted text with backslashes.
fn quoted(text: &str, marks: &[char]) -> Option<usize> {
    let mark = text.chars().next().filter(|c| marks.contains(c))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == mark && !escaped {
            return Some(at + c.len_utf8());
        }
        escaped = c == '\\' && !escaped;
    }
    Some(text.len())
}

/// As [`quoted`], for a text that ends on its line, or goes on behind a backslash.
fn in_line(text: &str, marks: &[char]) -> Option<usize> {
    let length = quoted(text, marks)?;
    let breaks = text[..length].match_indices('\n').any(|(at, _)| !text[..at].trim_end_matches('\r').ends_with('\\'));
    (!breaks).then_some(length)
}

/// Length of `r"…"`, `r#"…"#` and their kin.
fn raw(text: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let inner = start[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let close = inner.find(&end).map_or(inner.len(), |at| at + end.len());
    Some(text.len() - inner.len() + close)
}

/// Length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let mut characters = inner.char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        characters.next();
        return inner.char_indices().skip(2).find(|(_, c)| *c == '\'').map(|(at, _)| at + 2);
    }
    characters.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 2)
}

fn block(text: &str, nested: bool) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") && (nested || depth == 0) {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_may_differ_and_code_may_not() {
        use Language::{Go, JavaScript, Python, Rust};
        let code = "fn a<'a>() { let s = \"// no\"; let c = '\"'; }\n";
        assert!(only_comments_differ(Rust, code, &format!("/// Says it.\n{code}")));
        assert!(!only_comments_differ(Rust, code, &code.replace("no", "yes")));
        assert!(!only_comments_differ(Rust, code, &format!("{code}fn b() {{}}\n")));
        assert!(!only_comments_differ(Rust, "let s = r#\"\n\"#;\n", "let s = r#\"\n// in it\n\"#;\n"));
        assert!(only_comments_differ(Python, "a = 1\n", "# why\na = 1\n"));
        assert!(!only_comments_differ(Python, "a = 1\n", "# type: ignore\na = 1\n"));
        for added in [
            "#type: ignore\n",
            "# -*- coding: utf-7 -*-\n",
            "# /// script\n",
            "# x\rprint(1)\n",
            "# x\u{2028}y\n",
            "# x\0\n",
        ] {
            assert!(!only_comments_differ(Python, "a = 1\n", &format!("{added}a = 1\n")), "{added:?}");
        }
        let template = "x(/^```/);\nlet s = `a\n`;\n";
        assert!(!only_comments_differ(JavaScript, template, &template.replace("a\n", "a\n// ${require('x')}\n")));
        let block = "package a\n\n// int x;\nimport (\n\t\"C\"\n)\n";
        assert!(!only_comments_differ(Go, block, &block.replace("// int", "// #cgo LDFLAGS: -l x\n// int")));
        let raw = "package a\n\nvar s = `\\`\nvar t = `\n`\n";
        assert!(!only_comments_differ(Go, raw, &raw.replace("= `\n`", "= `\n// x\n`")));
        assert!(only_comments_differ(JavaScript, "f(/[\"]/);\ng();\n", "f(/[\"]/);\n// Calls g.\ng();\n"));
        let cgo = "package a\n\n// static int x;\nimport \"C\"\n";
        assert!(!only_comments_differ(Go, cgo, &cgo.replace("// static", "// #cgo LDFLAGS: -l x\n// static")));
        assert!(!only_comments_differ(JavaScript, "a()\n", "/// <reference path=\"x\" />\na()\n"));
        assert!(!only_comments_differ(Python, "a = '''\n'''\n", "a = '''\n# x\n'''\n"));
        assert!(!only_comments_differ(Go, "package a\n", "//go:embed x\npackage a\n"));
        assert!(!only_comments_differ(JavaScript, "a(/[/*]/); b()\n", "a(/[/*]/); c()\n"));
        assert_eq!(language("a/b.c"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics_or_differs_from_itself(text in "[a-z\"'`/*#\\\\r\n é]{0,80}") {
            for language in [Language::Rust, Language::Python, Language::JavaScript, Language::Go] {
                prop_assert!(only_comments_differ(language, &text, &text));
            }
        }
    }
}
