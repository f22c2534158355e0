//! Finds comments in the languages that `comments_only` knows.

mod javascript;

use std::ops::Range;

/// Expressions in f-strings in expressions at most.
const MOST_NESTED: usize = 20;

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

/// Tells whether two texts are the same code: only whole comment lines and blank lines may differ, and none of them in a
/// string, a template or a block comment. Where a text can be read in several ways, a line must be outside of these in all of
/// them; where it cannot be read, no line may differ.
pub fn only_comments_differ(language: Language, before: &str, after: &str) -> bool {
    let code = |text: &str| -> Vec<String> {
        let (outside, mut continues, mut means) = (outside(language, text), false, false);
        let mark = if language == Language::Python { "#" } else { "//" };
        let counts = |(line, is_outside): &(&str, bool)| {
            let is_comment = is_comment_line(language, line);
            // What follows a comment with a meaning may be a part of it.
            let is_free = is_comment && *is_outside && !continues && !means;
            continues = line.trim_end().ends_with('\\');
            means = (means || !is_comment) && line.trim().starts_with(mark);
            !is_free
        };
        let lines = text.split('\n').zip(outside).filter(counts);
        lines.map(|(line, _)| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect()
    };
    let same = |part: &dyn Fn(&str) -> Vec<String>| part(before) == part(after);
    same(&code) && same(&|text| heads(language, text)) && same(&other_line_ends)
}

/// A comment, and none that means something to the machine: `//go:embed`, `#!`, `# type:`, `// eslint-disable`, `// @ts-ignore`.
fn is_comment_line(language: Language, line: &str) -> bool {
    let line = line.trim();
    let (mark, meaning): (&str, &[&str]) = match language {
        Language::Python => (
            "#",
            &[
                "!",
                "type:",
                "noqa",
                "flake8:",
                "pylint",
                "pragma",
                "mypy",
                "pyright",
                "fmt",
                "isort",
                "ruff",
                "nosec",
                "///",
                "distutils:",
                "cython:",
            ],
        ),
        Language::Go => ("//", &["go:", "+build", "nolint", "export", "line", "lint:", "output:", "unordered output:"]),
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
    let imports = |line: &&str| -> bool {
        let line = line.trim();
        line.starts_with("\"C\"") || line.starts_with("import") && line.contains("\"C\"")
    };
    let lines: Vec<&str> = text.lines().collect();
    let c = lines.iter().rposition(imports).filter(|_| language == Language::Go);
    let c = c.map(|end| lines[..end].join("\n"));
    first.map(|(_, line)| line.to_owned()).chain(c).collect()
}

/// Returns what stands behind characters that end a line for some readers and not for others.
fn other_line_ends(text: &str) -> Vec<String> {
    let plain = text.replace("\r\n", "\n");
    let ends = plain.match_indices(['\r', '\u{2028}', '\u{2029}', '\u{85}', '\0', '\u{b}', '\u{c}']);
    ends.map(|(at, _)| plain[at..].split('\n').next().unwrap_or_default().to_owned()).collect()
}

/// Tells of each line of a text whether it begins outside of strings, templates and block comments, however the text is read.
fn outside(language: Language, text: &str) -> Vec<bool> {
    let readings: Vec<Vec<bool>> = match language {
        Language::JavaScript => return javascript::outside(text),
        // Before Python 3.12 a quote ends an f-string wherever it is.
        Language::Python => [false, true].into_iter().filter_map(|nests| begins(text, &python(text, nests)?)).collect(),
        Language::Rust => begins(text, &tokens(text, &rust)).into_iter().collect(),
        Language::Go => begins(text, &tokens(text, &go)).into_iter().collect(),
    };
    let is_outside = |line: usize| !readings.is_empty() && readings.iter().all(|reading| reading[line]);
    (0..text.split('\n').count()).map(is_outside).collect()
}

/// Tells of each line whether it begins outside of these parts of the text, which are in their order.
fn begins(text: &str, parts: &[Range<usize>]) -> Option<Vec<bool>> {
    let (mut parts, mut at) = (parts.iter().peekable(), 0);
    let lines = text.split('\n').map(|line| {
        while parts.next_if(|part| part.end <= at).is_some() {}
        let is_outside = parts.peek().is_none_or(|part| part.start >= at);
        at += line.len() + 1;
        is_outside
    });
    Some(lines.collect())
}

/// Returns the parts of a text that are no code. `token` returns the length of one that a text begins with, which follows this
/// character.
fn tokens(text: &str, token: &dyn Fn(&str, Option<char>) -> Option<usize>) -> Vec<Range<usize>> {
    let (mut found, mut at, mut before) = (Vec::new(), 0, None);
    while let Some(c) = text[at..].chars().next() {
        let length = match token(&text[at..], before) {
            Some(length) => {
                found.push(at..at + length);
                length
            }
            None => c.len_utf8(),
        };
        at += length;
        before = text[..at].chars().next_back();
    }
    found
}

fn line_comment(text: &str) -> Option<usize> {
    text.starts_with("//").then(|| text.find('\n').unwrap_or(text.len()))
}

fn rust(text: &str, before: Option<char>) -> Option<usize> {
    let follows_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let comment = || text.starts_with("/*").then(|| block(text, true));
    let raw = || raw(text).filter(|_| !follows_name);
    line_comment(text).or_else(comment).or_else(raw).or_else(|| quoted(text, &['"'])).or_else(|| character(text))
}

fn go(text: &str, _: Option<char>) -> Option<usize> {
    let comment = || text.starts_with("/*").then(|| block(text, false));
    let raw = || text.strip_prefix('`').map(|rest| rest.find('`').map_or(text.len(), |end| end + 2));
    line_comment(text).or_else(comment).or_else(raw).or_else(|| quoted(text, &['"', '\'']))
}

/// Returns the strings and comments of Python. `nests`: an f-string may have strings with its own quotes between braces. `None`
/// if a string does not end.
fn python(text: &str, nests: bool) -> Option<Vec<Range<usize>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(c) = text[at..].chars().next() {
        let end = match c {
            '#' => text[at..].find(['\n', '\r']).map_or(text.len(), |end| at + end),
            '"' | '\'' => string(text, at, nests, 0)?,
            _ => {
                at += c.len_utf8();
                continue;
            }
        };
        found.push(at..end);
        at = end;
    }
    Some(found)
}

/// Returns where the string of Python ends that begins with the quote at a place.
fn string(text: &str, start: usize, nests: bool, depth: usize) -> Option<usize> {
    let quote = &text[start..=start];
    let is_long = text[start..].starts_with(&quote.repeat(3));
    let mark = &text[start..start + if is_long { 3 } else { 1 }];
    let prefix = text[..start].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    let is_format = nests && prefix.len() <= 2 && prefix.contains(['f', 'F', 't', 'T']);
    let mut at = start + mark.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(mark) {
            return Some(at + mark.len());
        }
        let mut characters = rest.chars();
        at += match (characters.next()?, characters.next()) {
            // The backslash of `\{` stays, and the brace begins an expression; `\N{…}` is a character.
            ('\\', Some('N')) if is_format && rest[2..].starts_with('{') => rest.find('}')? + 1,
            ('\\', Some('{')) if is_format => 1,
            ('\\', next) => 1 + next?.len_utf8(),
            ('\n', _) if !is_long => return None,
            ('{', Some('{')) if is_format => 2,
            ('{', _) if is_format => expression(text, at + 1, depth + 1)? - at,
            (c, _) => c.len_utf8(),
        };
    }
}

/// Returns where the expression in an f-string ends, behind its brace. Strings in it are read like those around it.
fn expression(text: &str, start: usize, depth: usize) -> Option<usize> {
    let (mut at, mut open) = (start, 0_usize);
    let mut is_spec = false;
    if depth >= MOST_NESTED {
        return None;
    }
    loop {
        let c = text[at..].chars().next()?;
        at = match c {
            '{' if is_spec => expression(text, at + 1, depth + 1)?,
            '}' if open == 0 => return Some(at + 1),
            _ if is_spec => at + c.len_utf8(),
            '"' | '\'' => string(text, at, true, depth)?,
            '#' => at + text[at..].find('\n')?,
            '(' | '[' | '{' => {
                open += 1;
                at + 1
            }
            ')' | ']' | '}' => {
                open = open.checked_sub(1)?;
                at + 1
            }
            ':' if open == 0 => {
                is_spec = true;
                at + 1
            }
            c => at + c.len_utf8(),
        };
    }
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
        let named = format!("// Package a wraps the \"C\" library.\n{cgo}");
        assert!(!only_comments_differ(Go, &named, &named.replace("// static", "// #cgo LDFLAGS: -l x\n// static")));
        assert!(only_comments_differ(Go, "f(\"C\")\n", "// F.\nf(\"C\")\n"));
        assert!(!only_comments_differ(Go, "f()\n", "// Output: 1\nf()\n"));
        let example = "f()\n// Output:\n// 1\n}\n";
        assert!(!only_comments_differ(Go, example, &example.replace("// 1", "// 2")));
        assert!(!only_comments_differ(Go, example, &example.replace("// 1\n", "// 1\n\n")));
        let script = "# /// script\n# dependencies = []\n# ///\na = 1\n";
        assert!(!only_comments_differ(Python, script, &script.replace("[]", "['evil']")));
        assert!(!only_comments_differ(JavaScript, "a()\n", "/// <reference path=\"x\" />\na()\n"));
        assert!(!only_comments_differ(Python, "a = '''\n'''\n", "a = '''\n# x\n'''\n"));
        assert!(!only_comments_differ(Go, "package a\n", "//go:embed x\npackage a\n"));
        assert!(!only_comments_differ(JavaScript, "a(/[/*]/); b()\n", "a(/[/*]/); c()\n"));
        assert_eq!(language("a/b.c"), None);
    }

    /// Tells whether lines may be put behind line `at` of a text.
    fn may_add(language: Language, text: &str, at: usize, added: &str) -> bool {
        let mut lines: Vec<&str> = text.split('\n').collect();
        lines.insert(at, added);
        let after = lines.join("\n");
        let may = only_comments_differ(language, text, &after);
        assert_eq!(may, only_comments_differ(language, &after, text));
        may
    }

    #[test]
    fn a_line_in_a_string_is_no_comment() {
        use Language::{Go, JavaScript, Python, Rust};
        let escaped = "\"\"\"Write \\\"\"\" for quotes.\"\"\"\nclass F:\n    \"\"\"Example:\n\n    print(1)\n    \"\"\"\n    a = 1\n";
        for (at, may) in [(1, true), (2, true), (3, false), (4, false), (5, false), (6, true), (7, true)] {
            assert_eq!(may_add(Python, escaped, at, "# x"), may, "{at}");
            assert_eq!(may_add(Python, escaped, at, ""), may, "{at}");
        }
        let nested = "x = f\"\"\"{\n\"\"\"\n1\n\"\"\"\n}\"\"\"\ny = f'{a[\"b\"]:>{w}} {{ \\N{DASH}'\nz = 1\n";
        for (at, may) in [(1, false), (2, false), (3, false), (4, false), (5, true), (6, true)] {
            assert_eq!(may_add(Python, nested, at, "# x"), may, "{at}");
        }
        let continued = "limit = 100 \\\n- 90\ns = 'a\\\nb'\n";
        for (at, may) in [(0, true), (1, false), (2, true), (3, false), (4, true)] {
            assert_eq!(may_add(Python, continued, at, "# x"), may, "{at}");
        }
        assert!(!may_add(Python, "s = 'it\nb = 1\n", 1, "# x"));
        let request = "package p\n\nconst r = `a\n\nb`\nvar q = '`'\n";
        for (at, may) in [(2, true), (3, false), (4, false), (5, true), (6, true)] {
            assert_eq!(may_add(Go, request, at, ""), may, "{at}");
        }
        let strings = "let a = \"x\n\ny\"; /* /* */\n*/ let b = '\"'; let c = r#\"\"\n\"#;\n";
        for (at, may) in [(0, true), (1, false), (2, false), (3, false), (4, false), (5, true)] {
            assert_eq!(may_add(Rust, strings, at, "// x"), may, "{at}");
        }
        let slashes =
            "const strip = (s) => s.replace(/\\/*$/, \"\");\nconst build = () => run(`\necho\n`);\n/** Says. */\na;\n";
        for (at, may) in [(0, true), (1, true), (2, false), (3, false), (4, true), (5, true)] {
            assert_eq!(may_add(JavaScript, slashes, at, "//bin/sh -c id"), may, "{at}");
        }
        for code in [
            "if (a) /`/.test(b);\nc();\n",
            "x = (a) / 2; // it's `half` / of it\nc();\n",
            "x = a++ / 2 + b! / 3 + 1. / 4;\nc();\n",
            "return /[/'`]/g;\nc();\n",
            "f(`${a ? `b${c}` : {d: '}'}}`);\nc();\n",
            "const a = <p>a</p>;\nc();\n",
            "#!/usr/bin/env node it's\nc();\n",
            "page.replace('<!--app-->', `<!-- ${a} -->`); // <!--\nc();\n",
        ] {
            assert!(may_add(JavaScript, code, 1, "// Calls c."), "{code}");
        }
        for code in [
            "x = (a) /`/ b;\nc();\n`;\n",
            "const a = <p>it's</p>;\nc();\n",
            "/*\n*/\nc();\n",
            "// x\u{2028}`\nc();\n`\n",
            "f();<!-- `\nc();\n`\n",
            "--> `\nc();\n`\n",
            "/* a */ --> `\nc();\n`\n",
            "f(`${a <!-- }`\n}`);\nc();\n",
        ] {
            assert!(!may_add(JavaScript, code, 1, "// Calls c."), "{code}");
        }
        for code in [
            "for (;;) {\n  break\n  /`/.test(s)\n  c();\n}\nx(/`/);\n",
            "{\na\n/`/.test(s)\nc();\n}\nx(/`/);\n",
            "{\na // b\n/`/.test(s)\nc();\n}\nx(/`/);\n",
            "{\na /* b\n*/ /`/.test(s)\nc();\n}\nx(/`/);\n",
        ] {
            assert!(!may_add(JavaScript, code, 3, "// Calls c."), "{code}");
        }
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
