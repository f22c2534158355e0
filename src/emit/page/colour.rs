//! Colours code by the kind of each word, as far as time and size allow.

use std::ops::Range;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Bytes of a page that are coloured at most.
const MOST: usize = 2 << 20;

/// Bytes of a line that is coloured at most: a longer one is data, or was made by a program.
const LONGEST: usize = 2000;

/// The classes of the page's style, and the scopes that they stand for. The first that fits counts.
const CLASSES: [(&str, &[&str]); 8] = [
    ("c", &["comment"]),
    ("s", &["string", "constant.character", "markup.raw"]),
    ("n", &["constant", "support.constant"]),
    ("f", &["entity.name.function", "support.function", "variable.function"]),
    ("t", &["entity.name.type", "entity.name.class", "entity.name.struct", "support.type", "support.class"]),
    (
        "a",
        &[
            "entity.name.tag",
            "entity.other.attribute-name",
            "variable.annotation",
            "entity.name.section",
            "meta.mapping.key",
        ],
    ),
    ("v", &["variable.language", "variable.parameter"]),
    (
        "k",
        &[
            "keyword.control",
            "keyword.other",
            "keyword.declaration",
            "keyword.operator.logical",
            "keyword.operator.word",
            "storage",
        ],
    ),
];

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

static SCOPES: LazyLock<Vec<(Scope, &str)>> = LazyLock::new(|| {
    let scopes = CLASSES.iter().flat_map(|(class, names)| names.iter().map(move |name| (*name, *class)));
    scopes.filter_map(|(name, class)| Some((Scope::new(name).ok()?, class))).collect()
});

/// What of a line has which class.
pub(super) type Coloured = Vec<(Range<usize>, &'static str)>;

/// Colours lines until the page has had its share.
pub(super) struct Colours {
    until: Option<Instant>,
    left: usize,
}

impl Colours {
    /// Colours for this long; `None`: as long as it takes.
    pub(super) fn new(time: Option<Duration>) -> Colours {
        Colours { until: time.map(|time| Instant::now() + time), left: MOST }
    }

    /// Returns the classes of each line, in order; none for a file of an unknown kind and for what is too much.
    pub(super) fn of(&mut self, path: &str, lines: &[&str]) -> Vec<Coloured> {
        let mut coloured = vec![Coloured::new(); lines.len()];
        let size: usize = lines.iter().map(|line| line.len()).sum();
        if size > self.left || self.is_over() {
            return coloured;
        }
        let Some(syntax) = syntax_of(path) else { return coloured };
        self.left -= size;
        let (mut state, mut scopes) = (ParseState::new(syntax), ScopeStack::new());
        for (line, coloured) in lines.iter().zip(&mut coloured) {
            if line.len() > LONGEST || self.is_over() {
                break;
            }
            let Some(found) = classes(line, &mut state, &mut scopes) else { break };
            *coloured = found;
        }
        coloured
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Finds the syntax of a file by its name.
fn syntax_of(path: &str) -> Option<&'static SyntaxReference> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit('.').next().unwrap_or(name);
    // Close relatives of what the set has.
    let extension = match extension {
        "ts" | "mts" | "cts" | "mjs" | "cjs" => "js",
        "jsonl" | "json5" | "jsonc" => "json",
        extension => extension,
    };
    let found = SYNTAXES.find_syntax_by_extension(name).or_else(|| SYNTAXES.find_syntax_by_extension(extension));
    // A part of a text may begin within a block of code, and all of it would look like code.
    found.filter(|syntax| !["Plain Text", "Markdown"].contains(&syntax.name.as_str()))
}

/// Returns the classes of a line; `None` where it cannot be read.
fn classes(line: &str, state: &mut ParseState, scopes: &mut ScopeStack) -> Option<Coloured> {
    let mut found = Coloured::new();
    let mut from = 0;
    let mut add = |range: Range<usize>, scopes: &ScopeStack| {
        let Some(class) = class(scopes).filter(|_| !range.is_empty()) else { return };
        match found.last_mut() {
            Some((last, of)) if last.end == range.start && *of == class => last.end = range.end,
            _ => found.push((range, class)),
        }
    };
    for (at, operation) in state.parse_line(line, &SYNTAXES).ok()? {
        add(from..at, scopes);
        scopes.apply(&operation).ok()?;
        from = at;
    }
    add(from..line.trim_end_matches('\n').len().max(from), scopes);
    Some(found)
}

fn class(scopes: &ScopeStack) -> Option<&'static str> {
    let of = |scope: &Scope| SCOPES.iter().find(|(known, _)| known.is_prefix_of(*scope)).map(|(_, class)| *class);
    scopes.as_slice().iter().rev().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coloured(path: &str, line: &str) -> String {
        let found = Colours::new(None).of(path, &[line]);
        found[0].iter().map(|(range, class)| format!("{class}:{} ", &line[range.clone()])).collect()
    }

    #[test]
    fn code_is_coloured_by_the_kind_of_its_words() {
        insta::assert_snapshot!(coloured("a.py", "def delay(attempt=5): # wait\n"), @"k:def f:delay v:attempt n:5 c:# wait ");
        insta::assert_snapshot!(coloured("src/a.rs", "let x: u8 = \"text\";\n"), @r#"k:let k:u8 s:"text" "#);
        insta::assert_snapshot!(coloured("Makefile", "all: x\n"), @"f:all s:x ");
    }

    #[test]
    fn what_is_unknown_or_too_much_stays_plain() {
        assert_eq!(coloured("a.txt", "if x\n"), "");
        assert_eq!(coloured("README.md", "`x`\n"), "");
        assert_eq!(coloured("a.unknown", "if x\n"), "");
        assert_eq!(coloured("a.py", &format!("x = \"{}\"\n", "y".repeat(LONGEST))), "");
        let line = "return 1\n";
        assert!(Colours::new(Some(Duration::ZERO)).of("a.py", &[line])[0].is_empty());
        let mut little = Colours { until: None, left: 10 };
        assert!(!little.of("a.py", &[line])[0].is_empty());
        assert!(little.of("a.py", &[line])[0].is_empty());
    }
}
