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
    /// JavaScript, which may have JSX in it.
    JavaScript,
    /// TypeScript without JSX.
    TypeScript,
    /// Go.
    Go,
}

/// Returns the language of a file by its ending.
pub fn language(path: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.')?.1 {
        "rs" => Some(Language::Rust),
        "py" => Some(Language::Python),
        "js" | "mjs" | "cjs" => Some(Language::JavaScript),
        "ts" | "mts" | "cts" => Some(Language::TypeScript),
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
        Language::JavaScript | Language::TypeScript => {
            ("//", &["eslint", "@", "#", "prettier", "biome", "istanbul", "c8", "tslint", "<"])
        }
        Language::Rust => ("//", &[]),
    };
    let Some(said) = line.strip_prefix(mark) else { return line.is_empty() };
    let said = if language == Language::TypeScript || language == Language::JavaScript {
        // `/// <reference …>`
        said.trim_start_matches('/')
    } else {
        said
    };
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
    let c = c_end(text).filter(|_| language == Language::Go).map(|end| text[..end].replace("\r\n", "\n"));
    first.map(|(_, line)| line.to_owned()).chain(c).collect()
}

/// Returns where the last import of Go that may name C ends.
fn c_end(text: &str) -> Option<usize> {
    let (mut at, mut is_import, mut found) = (0, false, None);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = go(rest).or_else(|| name(rest)).unwrap_or(c.len_utf8());
        let token = &rest[..length];
        at += length;
        match token {
            "import" => is_import = true,
            "func" | "var" | "const" | "type" => is_import = false,
            _ if is_import && token.starts_with(['"', '`']) => {
                let path: String = token.chars().filter(|c| !"\"`\r".contains(*c)).collect();
                // No name of a package needs a backslash; with one it may be C too.
                found = if path == "C" || path.contains('\\') { Some(at) } else { found };
            }
            _ => {}
        }
    }
    found
}

/// Returns what stands behind characters that end a line for some readers and not for others.
fn other_line_ends(text: &str) -> Vec<String> {
    let plain = text.replace("\r\n", "\n");
    let ends = plain.match_indices(['\r', '\u{2028}', '\u{2029}', '\u{85}', '\0', '\u{b}', '\u{c}']);
    ends.map(|(at, _)| plain[at..].split('\n').next().unwrap_or_default().to_owned()).collect()
}

/// Tells of each line of a text whether it begins outside of strings, templates and block comments, however the text is read.
fn outside(language: Language, text: &str) -> Vec<bool> {
    let text = &text.replace("\r\n", "\n");
    let readings: Option<Vec<Vec<bool>>> = match language {
        Language::JavaScript | Language::TypeScript => {
            return javascript::outside(text, language == Language::JavaScript);
        }
        // Before Python 3.12 a quote ends an f-string wherever it is. What one of them cannot read is for the other alone, and
        // hardly worth the risk.
        Language::Python if !is_plain(text) => None,
        Language::Python => {
            [false, true].into_iter().map(|nests| python(text, nests).map(|parts| begins(text, &parts))).collect()
        }
        Language::Rust => rust_readings(text),
        Language::Go => Some(vec![begins(text, &tokens(text, 0, &go))]),
    };
    let readings = readings.unwrap_or_default();
    let is_outside = |line: usize| !readings.is_empty() && readings.iter().all(|reading| reading[line]);
    (0..text.split('\n').count()).map(is_outside).collect()
}

/// Reads Rust of old and new editions, with a first line that is a comment to some and code to others.
fn rust_readings(text: &str) -> Option<Vec<Vec<bool>>> {
    let is_program = text.trim_start_matches('\u{feff}').starts_with("#!");
    let behind = text.find('\n').filter(|_| is_program);
    let mut readings = Vec::new();
    for start in [0].into_iter().chain(behind) {
        // The data of a script.
        if text[start..].trim_start_matches('\u{feff}').trim_start().starts_with("---") {
            return None;
        }
        for is_new in [false, true] {
            readings.push(begins(text, &tokens(text, start, &|rest| rust(rest, is_new))));
        }
    }
    Some(readings)
}

/// Tells of each line whether it begins outside of these parts of the text, which are in their order.
fn begins(text: &str, parts: &[Range<usize>]) -> Vec<bool> {
    let (mut parts, mut at) = (parts.iter().peekable(), 0);
    let lines = text.split('\n').map(|line| {
        while parts.next_if(|part| part.end <= at).is_some() {}
        let is_outside = parts.peek().is_none_or(|part| part.start >= at);
        at += line.len() + 1;
        is_outside
    });
    lines.collect()
}

/// Returns the tokens of a text from a place on that have several characters; other characters are on their own. `token` returns
/// the length of one that a text begins with.
fn tokens(text: &str, start: usize, token: &dyn Fn(&str) -> Option<usize>) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), start);
    while let Some(c) = text[at..].chars().next() {
        let length = token(&text[at..]);
        found.extend(length.map(|length| at..at + length));
        at += length.unwrap_or(c.len_utf8());
    }
    found
}

fn line_comment(text: &str) -> Option<usize> {
    text.starts_with("//").then(|| text.find('\n').unwrap_or(text.len()))
}

/// Tells whether a character may be a part of a name. No other one above ASCII is in code, but white space: Rust takes two marks
/// of direction for it.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || c == '_'
        || !c.is_ascii() && !c.is_whitespace() && !matches!(c, '\u{200e}' | '\u{200f}')
}

/// Length of a name, or of a number.
fn name(text: &str) -> Option<usize> {
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    (end > 0).then_some(end)
}

/// `is_new`: editions from 2021 on have `cr"…"` and `'r#name`, which are several tokens in older ones.
fn rust(text: &str, is_new: bool) -> Option<usize> {
    let comment = || text.starts_with("/*").then(|| block(text, true));
    let prefixes: &[&str] = if is_new { &["r", "br", "cr"] } else { &["r", "br"] };
    let string = || raw(text, prefixes).or_else(|| quoted(text, &['"'])).or_else(|| character(text));
    // What is directly behind a literal is a part of it, and begins no other one.
    let literal = || string().map(|end| end + name(&text[end..]).unwrap_or_default());
    let behind = |mark: &str| text.strip_prefix(mark).and_then(name).map(|length| mark.len() + length);
    let raw_lifetime = || behind("'r#").filter(|_| is_new);
    let single = || raw_lifetime().or_else(|| behind("'")).or_else(|| behind("r#")).or_else(|| name(text));
    line_comment(text).or_else(comment).or_else(literal).or_else(single)
}

fn go(text: &str) -> Option<usize> {
    let comment = || text.starts_with("/*").then(|| block(text, false));
    let raw = || text.strip_prefix('`').map(|rest| rest.find('`').map_or(text.len(), |end| end + 2));
    line_comment(text).or_else(comment).or_else(raw).or_else(|| quoted(text, &['"', '\'']))
}

/// Tells whether the text is what Python reads: with some encodings a comment may have a line end in it.
fn is_plain(text: &str) -> bool {
    let is_known = |said: &str| {
        let encoding = said.trim_start_matches([':', '=']).trim_start().to_ascii_lowercase().replace('_', "-");
        let end = encoding.find(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c)).unwrap_or(encoding.len());
        ["utf-8", "utf8", "ascii", "us-ascii", "latin-1", "iso-8859-1"].contains(&&encoding[..end])
    };
    text.split(['\n', '\r']).take(2).flat_map(|line| line.split("coding").skip(1)).all(|said| {
        // Only then it is more than a word.
        !said.starts_with([':', '=']) || is_known(said)
    })
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

/// What a text in a string of Python is.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    /// What ends the string.
    mark: &'a str,
    /// It has expressions.
    is_format: bool,
    is_raw: bool,
    /// It tells how to show the expression before it.
    is_spec: bool,
}

/// Returns where the string of Python ends that begins with the quote at a place.
fn string(text: &str, start: usize, nests: bool, depth: usize) -> Option<usize> {
    let quote = &text[start..=start];
    let is_long = text[start..].starts_with(&quote.repeat(3));
    let mark = &text[start..start + if is_long { 3 } else { 1 }];
    let prefix = text[..start].rsplit(|c: char| !is_name(c)).next().unwrap_or_default().to_ascii_lowercase();
    let is_format = nests && ["f", "fr", "rf", "t", "tr", "rt"].contains(&&*prefix);
    let part = Part { mark, is_format, is_raw: prefix.contains('r'), is_spec: false };
    literal(text, start + mark.len(), part, depth)
}

/// Returns where a part of a string ends that begins at a place.
fn literal(text: &str, start: usize, part: Part, depth: usize) -> Option<usize> {
    let Part { mark, is_format, is_raw, is_spec } = part;
    let mut at = start;
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(mark) {
            return Some(at + mark.len()).filter(|_| !is_spec);
        }
        let mut characters = rest.chars();
        at += match (characters.next()?, characters.next()) {
            // Versions of Python differ here.
            ('\n' | '\r', _) | ('\\', Some('\n' | '\r')) | ('{', Some('{')) if is_spec => return None,
            // The backslash of `\{` stays, and the brace begins an expression; `\N{…}` is a character.
            ('\\', Some('N')) if is_format && !is_raw && rest[2..].starts_with('{') => {
                let inner = rest[3..].find(|c: char| !c.is_ascii_alphanumeric() && !" -_".contains(c))?;
                rest[3 + inner..].starts_with('}').then_some(inner + 4)?
            }
            ('\\', Some('{' | '}')) if is_format => 1,
            ('\\', next) => 1 + next?.len_utf8(),
            ('\n' | '\r', _) if mark.len() == 1 => return None,
            ('{', Some('{')) if is_format => 2,
            ('{', _) if is_format => expression(text, at + 1, part, depth + 1)? - at,
            ('}', _) if is_spec => return Some(at + 1),
            ('}', Some('}')) if is_format => 2,
            ('}', _) if is_format => return None,
            (c, _) => c.len_utf8(),
        };
    }
}

/// Returns where the expression in a part of an f-string ends, behind its brace. Strings in it are read like those around it.
fn expression(text: &str, start: usize, part: Part, depth: usize) -> Option<usize> {
    let (mut at, mut open) = (start, 0_usize);
    if depth >= MOST_NESTED {
        return None;
    }
    loop {
        let c = text[at..].chars().next()?;
        at = match c {
            '}' if open == 0 => return Some(at + 1),
            ':' if open == 0 => return literal(text, at + 1, Part { is_spec: true, ..part }, depth),
            '"' | '\'' => string(text, at, true, depth)?,
            '#' => at + text[at..].find(['\n', '\r'])?,
            '(' | '[' | '{' => {
                open += 1;
                at + 1
            }
            ')' | ']' | '}' => {
                open = open.checked_sub(1)?;
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
fn raw(text: &str, prefixes: &[&str]) -> Option<usize> {
    let start = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))?;
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
    fn a_text_that_versions_read_in_different_ways_has_no_comments() {
        use Language::{Go, Python, Rust};
        let raw = "t = f\"{\"it's\"}\"\ns = rf\"\\N{ \"}\" }\" ; x = f'''\"\none\n\"'''\"a\" #\"\n";
        assert!(!may_add(Python, raw, 3, "# {f()}"));
        for (code, may) in [
            ("a = rf'\\N{b}' + FR'\\{c}'\n", true),
            ("a = rf'\\N{ \"}\" }' ; x = f'''{'\none\n'}'''\n", false),
            ("a = f'{b!r:>{c}} {d:=5} {lambda e: 1} {{}} \\N{EN DASH} {g=}'\nb = 1\n", true),
            ("a = t'{b:{c!r}}' + Rt'{(d := 1)}' + f'{e[\"f:g\"]}'\nb = 1\n", true),
            ("a = 1 if'{' else 2\nb = 1\n", true),
            ("a = f'''{b:\n# {c}\n}'''\n", false),
            ("a = f'{b:{{c}}}'\nb = 1\n", false),
            ("a = 'b\\\r\nc'\r\nd = 1\r\n", true),
            ("#!/usr/bin/python\n# -*- coding: UTF-8 -*-\nb = 1\n", true),
            ("#!/usr/bin/python\n# coding=unicode_escape\nb = 1\n", false),
        ] {
            let line = code.matches('\n').count();
            assert_eq!(may_add(Python, code, line, "# x"), may, "{code}");
        }
        for (code, may) in [
            ("m!(r#r\"\\\"\n\");\n", false),
            ("m!('r\"\\\"\n\");\n", false),
            ("m!('r#\"\\\"\n\");\n", false),
            ("m!('r#r\"\\\"\n\");\n", false),
            ("m!('a'r\"\\\"\n\");\n", false),
            ("m!(e\u{301}r\"\\\"\n\");\n", false),
            ("m!(cr\"\\\"\n\");\n", false),
            ("#!\"\nlet a = \"\n\";\n", false),
            ("---\na = 1\n---\n", false),
            ("let (a, b) = (r#type, b'\"');\nc::<'_>();\n", true),
            ("let a = [c\"\\\"\", br#\"\\\"#, '\\'', '\"'];\nb();\n", true),
            ("#![doc = \"it's \\\" //\"]\nfn a<'r>(b: &'r str) {}\n", true),
        ] {
            let line = code.matches('\n').count() - 1;
            assert_eq!(may_add(Rust, code, line, "// x"), may, "{code}");
        }
        for import in [
            "import (\n\t// int x;\n\t/* C */ \"C\"\n)\n",
            "import (\n\t// int x;\n\t\"fmt\"; \"C\"\n)\n",
            "\n\n// int x;\n;import \"C\"\n",
            "\n\n// int x;\nimport/**/`C`\n",
            "import (\n\t\"fmt\"\n\t// int x;\n\t_ \"\\x43\" // x\n)\n",
        ] {
            let code = format!("package a\n\n{import}\nvar c = \"C\"\n");
            let lines = code.matches('\n').count();
            assert!(!may_add(Go, &code, 3, "// #cgo LDFLAGS: -l x"), "{code}");
            assert!(may_add(Go, &code, lines - 1, "// x"), "{code}");
        }
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
            use Language::{Go, JavaScript, Python, Rust, TypeScript};
            for language in [Rust, Python, JavaScript, TypeScript, Go] {
                prop_assert!(only_comments_differ(language, &text, &text));
            }
        }
    }
}
