//! Parses YAML as this program's files use it: strictly, with limits, and with errors that name the line and the
//! nearest known key.

mod node;
mod read;

use serde::de::DeserializeOwned;
use serde_yaml::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_yaml::{Budget, Error, NonFiniteFloatPolicy};

pub use node::{Kind, Node, Plain, Scalar};
pub use read::Fault;

use crate::base::{Diagnostic, Span};

/// Maximum bytes that a file of ours may have.
pub const MAX_BYTES: usize = 256 * 1024;

/// Reads one document. Refuses unknown keys, keys that are the same however they are quoted, anchors, aliases, merge keys,
/// tabs, several documents, tags and more than [`MAX_BYTES`]; only `true` and `false` are booleans, and a scalar read as text keeps its spelling.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Diagnostic> {
    read(file, text, &tree(file, text)?)
}

/// Reads a type from the tree of a document, which is `text`.
pub fn read<T: DeserializeOwned>(file: &str, text: &str, tree: &Node) -> Result<T, Diagnostic> {
    T::deserialize(tree).map_err(|fault| fault.told(file, text))
}

/// Reads one document as [`parse`] does, as a tree.
pub fn tree(file: &str, text: &str) -> Result<Node, Diagnostic> {
    if text.len() > MAX_BYTES {
        return Err(Diagnostic::of_file(file, format!("{} bytes; at most {MAX_BYTES} are read", text.len())));
    }
    if let Some(span) = text.find('\t').map(|at| Span::of(text, at)) {
        return Err(Diagnostic::at(file, span, "a tab; indent with spaces, and write `\\t` inside double quotes"));
    }
    if let Some(span) = text.find('\0').map(|at| Span::of(text, at)) {
        return Err(Diagnostic::at(file, span, "a NUL byte"));
    }
    if let Some(span) = lone_return(text).map(|at| Span::of(text, at)) {
        // YAML ends a line here, most editors do not, and a terminal overwrites the line.
        return Err(Diagnostic::at(file, span, "a carriage return without a line feed; end lines with `\\n`"));
    }
    if text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---") {
        return Err(Diagnostic::of_file(file, "it is empty; write one `key: value` a line"));
    }
    let budget = serde_yaml::budget! {
        max_nodes: 20_000, max_depth: 64, max_events: 60_000, max_anchors: 0, max_aliases: 0, max_documents: 1,
    };
    let read = serde_yaml::from_str_with_options::<Node>(text, options(budget));
    let mut tree = read.map_err(|error| translate(file, text, &error))?;
    tree.spell(text);
    tree.check(file)?;
    Ok(tree)
}

fn options(budget: Option<Budget>) -> serde_yaml::Options {
    serde_yaml::options! {
        budget: budget,
        merge_keys: MergeKeyPolicy::Error,
        // The tree knows the place of the first one, too.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn lone_return(text: &str) -> Option<usize> {
    let mut returns = text.match_indices('\r').map(|(at, _)| at);
    returns.find(|at| !matches!(text.as_bytes().get(at + 1), None | Some(b'\n')))
}

fn translate(file: &str, text: &str, error: &Error) -> Diagnostic {
    let error = error.without_snippet();
    let span = error.location().map(Span::from).unwrap_or_default();
    let message = match error {
        Error::InvalidScalar { ty, .. } => unfit(text, span, kind_of_number(ty)),
        Error::Eof { .. } => "it ends in the middle of a value".to_owned(),
        Error::MergeKeyNotAllowed { .. } => "merge keys (`<<`) are not supported".to_owned(),
        Error::MultipleDocuments { .. } => "more than one document".to_owned(),
        // Anchors and aliases are refused through a budget of none.
        Error::Budget { breach, .. } => {
            let breach = format!("{breach:?}");
            if breach.contains("nchor") || breach.contains("lias") {
                "anchors and aliases are not supported; write the value out".to_owned()
            } else if breach.contains("ocument") {
                "more than one document".to_owned()
            } else {
                format!("too large or too deep ({breach})")
            }
        }
        other => first_line(&other.to_string(), span),
    };
    Diagnostic::at(file, span, message)
}

/// Returns the first line of the reader's own message, without the place, which is in front already.
fn first_line(text: &str, Span { line, column }: Span) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let text = match text.rfind(" at line ") {
        Some(end) if line != 0 => &text[..end],
        _ => text,
    };
    let first = text.lines().next().unwrap_or("not understood").trim().to_owned();
    let mut rest = first.strip_prefix(&format!("line {line} column {column}: ")).map(str::to_owned).unwrap_or(first);
    if rest.ends_with('.') {
        rest.pop();
    }
    rest
}

fn kind_of_number(of_rust: &str) -> &str {
    match of_rust.as_bytes() {
        [b'u', b'0'..=b'9', ..] | b"usize" => "a whole number, 0 or more",
        [b'i', b'0'..=b'9', ..] | b"isize" => "a whole number",
        b"floating point" => "a number",
        b"boolean" => "`true` or `false`",
        _ => of_rust,
    }
}

/// Rewrites the parser's message in the words of this format.
fn plainly(what: &str) -> String {
    let known = match what {
        "mapping start" | "map" | "mapping" => "a mapping (`key: value`)",
        "sequence start" | "sequence" | "a sequence" | "seq" => "a list (`[a, b]`)",
        "string scalar" | "scalar" => "one value",
        "string" => "a text",
        "unit value" | "unit" | "null" => "nothing",
        what if what.starts_with("struct ") => "a mapping (`key: value`)",
        what => return kind_of_number(what).to_owned(),
    };
    known.to_owned()
}

/// Names what is at a place, the key that it is the value of, and what should be there.
fn unfit(text: &str, span: Span, wanted: &str) -> String {
    let line =
        usize::try_from(span.line).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?)).unwrap_or_default();
    let column = usize::try_from(span.column).unwrap_or(usize::MAX).saturating_sub(1);
    let (before, found) = line.split_at(line.char_indices().nth(column).map_or(line.len(), |(at, _)| at));
    let key = before.trim_end().strip_suffix(':').and_then(|key| key.rsplit([' ', '{', ',', '-']).next());
    let key = key.filter(|key| !key.is_empty()).map(|key| format!("`{key}` takes ")).unwrap_or_default();
    let end = found.find([',', '}', ']', '#']).unwrap_or(found.len());
    let found: String = match found.chars().next() {
        Some('[') => "a list".to_owned(),
        Some('{') => "a mapping".to_owned(),
        Some(_) | None => {
            let found: String = found[..end].trim().chars().take(60).collect();
            if found.is_empty() { found } else { format!("`{found}`") }
        }
    };
    match (key.is_empty(), found.is_empty()) {
        (true, true) => format!("expected {wanted}"),
        (true, false) => format!("expected {wanted}, found {found}"),
        (false, true) => format!("{key}{wanted}"),
        (false, false) => format!("{key}{wanted}, not {found}"),
    }
}

fn unknown(what: &str, found: &str, known: &[&'static str]) -> String {
    match nearest(found, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{found}`; did you mean `{near}`?"),
        None => format!("unknown {what} `{found}`; known are {}", known.join(", ")),
    }
}

/// Returns the nearest of some known words, if one is near enough to be meant.
pub fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = found.chars().take(64).collect::<String>().to_lowercase().replace('-', "_");
    known
        .map(|word| (strsim::osa_distance(&folded, &word.to_lowercase().replace('-', "_")), word))
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Small {
        allow: Vec<String>,
        #[serde(default)]
        on: bool,
    }

    fn message(text: &str) -> String {
        parse::<Small>("p.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_names_its_place_and_the_nearest_key() {
        assert_eq!(message("on: true\nalow: []\n"), "p.yaml:2:1: unknown key `alow`; did you mean `allow`?");
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Kinds {
        most: Option<u64>,
        cost: Option<f64>,
        on: Option<bool>,
        names: Option<Vec<String>>,
        inner: Option<Small>,
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named_with_its_key_and_what_it_takes() {
        let message = |text: &str| parse::<Kinds>("p.yaml", text).unwrap_err().to_string();
        let texts = [
            "most: many\n",
            "inner: {}\nmost: -1 # all\n",
            "{cost: dear, on: true}\n",
            "on: yes\n",
            "names: one\n",
            "most: [1]\n",
            "inner: all\n",
            "inner: {on: true}\n",
            "- a\n",
            "most\n",
            "",
            "# nothing yet\n---\n",
        ];
        let messages: Vec<String> = texts.iter().map(|text| message(text)).collect();
        insta::assert_snapshot!(messages.join("\n"), @r"
        p.yaml:1:7: `most` takes a whole number, 0 or more, not `many`
        p.yaml:1:8: the key `allow` is missing
        p.yaml:1:8: `cost` takes a number, not `dear`
        p.yaml:1:5: `on` takes `true` or `false`, not `yes`
        p.yaml:1:8: `names` takes a list (`[a, b]`), not `one`
        p.yaml:1:7: `most` takes one value, not a list
        p.yaml:1:8: `inner` takes a mapping (`key: value`), not `all`
        p.yaml:1:9: the key `allow` is missing
        p.yaml:1:1: expected a mapping (`key: value`), found `- a`
        p.yaml:1:1: expected a mapping (`key: value`), found `most`
        p.yaml: it is empty; write one `key: value` a line
        p.yaml: it is empty; write one `key: value` a line
        ");
    }

    #[test]
    fn words_stay_text_where_text_is_meant() {
        let small: Small = parse("p", "allow: [no, on, 1.10, 012, 1_000, yes]").unwrap();
        assert_eq!(small.allow, ["no", "on", "1.10", "012", "1_000", "yes"]);
        assert!(parse::<Small>("p", "allow: []\non: yes").is_err());
        let json: serde_json::Value = parse("p", "default: no").unwrap();
        assert_eq!(json["default"], "no");
    }

    #[test]
    fn what_can_hide_meaning_is_refused_with_its_place() {
        for (text, part) in [
            ("allow: [a]\nallow: [b]", "p.yaml:2:1: duplicate key `allow`; the first one is at p.yaml:1:1"),
            ("allow: [a]\n\"allow\": [b]", "p.yaml:2:1: duplicate key `allow`"),
            ("1: a\n\"1\": b", "p.yaml:2:1: duplicate key `1`; the first one is at p.yaml:1:1"),
            ("x: {null: a, \"null\": b}", "p.yaml:1:14: duplicate key `null`; the first one is at p.yaml:1:5"),
            ("- 'true': a\n  true: b", "p.yaml:2:3: duplicate key `true`; the first one is at p.yaml:1:3"),
            ("allow: [a]\n!!str allow: [b]", "duplicate key `allow`"),
            ("allow: [a]\n!!binary YWxsb3c=: [b]", "`!!binary` is not supported; write the text itself"),
            ("allow: [!!binary aGk=]", "p.yaml:1:"),
            ("allow: &x [a]", "anchors and aliases"),
            ("allow: [a]\n---\nallow: [b]", "more than one document"),
            ("allow:\n\t- a", "p.yaml:2:1: a tab"),
            ("allow: []\r\non: true\rallow: [x]\n", "p.yaml:2:9: a carriage return without a line feed"),
            ("allow: [a]\n<<: {on: true}", "merge keys"),
            ("allow: [a", "p.yaml:"),
        ] {
            let message = message(text);
            assert!(message.contains(part), "{text:?} gave {message}");
        }
        assert!(message(&format!("allow: [{}]", "a, ".repeat(30_000))).contains("too large"));
        assert!(message(&" ".repeat(MAX_BYTES + 1)).contains("bytes"));
        assert!(parse::<serde_json::Value>("p", &format!("{}{}", "[".repeat(500), "]".repeat(500))).is_err());
    }
}
