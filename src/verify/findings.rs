//! Validates findings: each must quote a line that exists, or it does not count.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization as _;

use crate::change::git_name;
use crate::event::FindingPlace;
use crate::recipe::file::{Filter, Rule, Severity};

/// A finding, as the model gives it and as the result has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// One of the recipe's rules.
    pub rule_id: String,
    /// How bad it is.
    pub severity: Severity,
    /// The file, relative to the repository.
    pub path: String,
    /// Its first line.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// The exact text of those lines.
    pub quote: String,
    /// What is wrong.
    pub message: String,
    /// How sure the model is.
    pub confidence: Confidence,
    /// What to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Suggestion>,
    /// Who found it.
    #[serde(default)]
    pub source: Source,
}

/// Who found something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The model.
    #[default]
    Model,
    /// A rule that needs no model.
    Local,
}

/// How sure the model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A guess.
    Low,
    /// Likely.
    Medium,
    /// Certain.
    High,
}

/// Lines to write instead of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suggestion {
    /// The first line that it replaces.
    pub start_line: u64,
    /// The last one.
    pub end_line: u64,
    /// What stands there then.
    pub replacement: String,
}

/// The new side of a diff: by path and line number the text, and whether it was added.
pub type NewSide = BTreeMap<String, Shown>;

/// Lines of a file that a diff shows, by their number, and whether each was added.
pub type Shown = BTreeMap<u64, (String, bool)>;

/// What findings are compared with.
pub struct Sources<'a> {
    /// The workspace in the repository; empty where it is the top.
    pub prefix: &'a str,
    /// What the diff shows; without one every place counts, whatever the filter.
    pub diff: Option<&'a NewSide>,
    /// Gives a file's text, by its path in the workspace.
    pub file: &'a dyn Fn(&str) -> Option<String>,
    /// Gives a line as the model saw it.
    pub masked: &'a dyn Fn(&str) -> String,
}

/// What came of the model's findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anchored {
    /// Those that count, the worst first.
    pub findings: Vec<Finding>,
    /// How many did not, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// How each stands to the diff; empty without one.
    pub places: Vec<FindingPlace>,
}

/// Returns the schema of the answer.
pub fn schema(rules: &[Rule], most: usize) -> Value {
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let meanings: Vec<String> =
        rules.iter().map(|rule| format!("{}: {}", rule.id.as_str(), rule.description.as_str())).collect();
    let line = json!({"type": "integer", "minimum": 1});
    json!({
        "type": "object", "additionalProperties": false, "required": ["findings"],
        "properties": {"findings": {"type": "array", "maxItems": most * 4, "items": {
            "type": "object", "additionalProperties": false,
            "required": ["rule_id", "severity", "path", "start_line", "end_line", "quote", "message", "confidence"],
            "properties": {
                "rule_id": {"type": "string", "enum": ids, "description": meanings.join(" ")},
                "severity": {"type": "string", "enum": ["error", "warning", "note"]},
                "path": {"type": "string"},
                "start_line": line, "end_line": line,
                "quote": {"type": "string", "minLength": 1, "description": "the exact source text of those lines"},
                "message": {"type": "string", "minLength": 1, "maxLength": 2000},
                "confidence": {"type": "string", "enum": ["low", "medium", "high"]},
                "suggestion": {
                    "type": "object", "additionalProperties": false,
                    "required": ["start_line", "end_line", "replacement"],
                    "properties": {"start_line": line, "end_line": line, "replacement": {"type": "string"}},
                },
            },
        }}},
    })
}

/// Reads the new side of a unified diff.
pub fn new_side(diff: &str) -> NewSide {
    let mut side = NewSide::new();
    let mut path: Option<String> = None;
    // Lines that the hunk still has on its old and new side, and the number of the next new line.
    let (mut old_left, mut new_left, mut number) = (0_u64, 0_u64, 0_u64);
    for line in diff.split('\n') {
        if old_left > 0 || new_left > 0 {
            let (mark, text) = (line.chars().next(), line.get(1..).unwrap_or_default());
            match mark {
                Some('-') => old_left = old_left.saturating_sub(1),
                Some('\\') => {}
                Some('+') | Some(' ') | None => {
                    if mark != Some('+') {
                        old_left = old_left.saturating_sub(1);
                    }
                    new_left = new_left.saturating_sub(1);
                    if let Some(path) = &path {
                        let lines = side.entry(path.clone()).or_default();
                        lines.insert(number, (text.trim_end_matches('\r').to_owned(), mark == Some('+')));
                    }
                    number += 1;
                }
                Some(_) => (old_left, new_left) = (0, 0),
            }
            continue;
        }
        if let Some(name) = line.strip_prefix("+++ ") {
            path = git_name::of_header(name).strip_prefix("b/").map(str::to_owned);
        } else if let Some((old, new)) = line.strip_prefix("@@ -").and_then(|rest| rest.split_once(" +")) {
            let count = |range: &str| {
                let range = range.split([' ', '@']).next().unwrap_or_default();
                let (start, count) = range.split_once(',').unwrap_or((range, "1"));
                Some((start.parse::<u64>().ok()?, count.parse::<u64>().ok()?))
            };
            if let (Some((_, old)), Some((start, new))) = (count(old), count(new)) {
                (old_left, new_left, number) = (old, new, start);
            }
        }
    }
    side
}

/// Ties each finding to the lines that it quotes, and drops what is not there, was not asked for, or is there twice.
pub fn anchor(findings: Vec<Finding>, rules: &[Rule], filter: Filter, most: usize, sources: &Sources<'_>) -> Anchored {
    let diff = sources.diff;
    let mut result = Anchored::default();
    let (mut seen, mut said) = (BTreeSet::new(), BTreeSet::new());
    for mut finding in findings {
        finding.path = sources.path_of(&finding.path);
        let of_diff = diff.and_then(|diff| diff.get(&finding.path));
        let text = (sources.file)(&finding.path);
        let reason = if !tie(&mut finding, text, of_diff, sources.masked) {
            "unanchored"
        } else if diff.is_some() && !passes(&finding, filter, of_diff) {
            "filtered"
        } else if !seen.insert((finding.rule_id.clone(), finding.path.clone(), finding.start_line))
            || !said.insert((finding.message.clone(), finding.path.clone(), finding.start_line))
        {
            // The same text under another rule is the same finding, too.
            "duplicate"
        } else {
            // The rule says how bad its findings are, not the model.
            let rule = rules.iter().find(|rule| rule.id.as_str() == finding.rule_id);
            finding.severity = rule.and_then(|rule| rule.severity).unwrap_or(finding.severity);
            result.findings.push(finding);
            continue;
        };
        *result.dropped.entry(reason.to_owned()).or_default() += 1;
    }
    let kept = &mut result.findings;
    let order =
        |one: &Finding| (std::cmp::Reverse(one.severity), one.path.clone(), one.start_line, one.rule_id.clone());
    kept.sort_by_cached_key(order);
    for _ in most..kept.len() {
        *result.dropped.entry("over_max".to_owned()).or_default() += 1;
    }
    kept.truncate(most);
    if let Some(diff) = diff {
        result.places = kept.iter().map(|finding| place(finding, diff.get(&finding.path))).collect();
    }
    result
}

/// Moves a finding, with its suggestion, to the lines that it quotes; false if they are not there.
fn tie(finding: &mut Finding, text: Option<String>, of_diff: Option<&Shown>, masked: &dyn Fn(&str) -> String) -> bool {
    let lines: BTreeMap<u64, String> = match (text, of_diff) {
        (Some(text), _) => (1..).zip(text.lines().map(str::to_owned)).collect(),
        (None, Some(lines)) => lines.iter().map(|(number, (text, _))| (*number, text.clone())).collect(),
        (None, None) => BTreeMap::new(),
    };
    // The model saw lines with secrets masked.
    let as_seen = || {
        let lines = lines.iter().map(|(number, line)| (*number, masked(line))).collect();
        locate(&finding.quote, finding.start_line, &lines, of_diff)
    };
    let found = locate(&finding.quote, finding.start_line, &lines, of_diff);
    let Some((start, end)) = found.or_else(|| finding.quote.contains("[redacted:").then(as_seen)?) else {
        return false;
    };
    let moved = i128::from(start) - i128::from(finding.start_line);
    (finding.start_line, finding.end_line) = (start, end);
    // The complete lines, whatever part of them was quoted, so that a finding's fingerprint does not depend on how much
    // of the line the model quoted this time.
    let quoted: Vec<&str> = lines.range(start..=end).map(|(_, line)| line.as_str()).collect();
    finding.quote = quoted.join("\n");
    finding.suggestion = finding.suggestion.take().and_then(|suggestion| {
        let shift = |line: u64| u64::try_from(i128::from(line) + moved).unwrap_or(0);
        let (start_line, end_line) = (shift(suggestion.start_line), shift(suggestion.end_line));
        let range = start_line..=end_line;
        let is_short = !range.is_empty() && range.clone().count() <= 200;
        let fits = is_short && range.into_iter().all(|line| lines.contains_key(&line));
        fits.then_some(Suggestion { start_line, end_line, ..suggestion })
    });
    true
}

/// Tells whether a finding counts, in a run with a diff.
fn passes(finding: &Finding, filter: Filter, of_diff: Option<&Shown>) -> bool {
    let mut shown = of_diff.into_iter().flat_map(|lines| lines.range(finding.start_line..=finding.end_line));
    match filter {
        Filter::Nofilter => true,
        Filter::File => of_diff.is_some(),
        Filter::DiffContext => shown.next().is_some(),
        Filter::Added => shown.any(|(_, (_, added))| *added),
    }
}

impl Sources<'_> {
    /// Says how a finding stands to the diff.
    pub fn place(&self, finding: &Finding) -> FindingPlace {
        place(finding, self.diff.and_then(|diff| diff.get(&finding.path)))
    }

    /// Returns the path that a finding means: the first of these that the change has, else that is there: as given,
    /// without `./`, `a/` and `b/`, without the workspace's own path, with letters composed in another way, the only
    /// changed file that ends so.
    fn path_of(&self, path: &str) -> String {
        let bare = path.trim_start_matches("./");
        let inner = bare.strip_prefix("b/").or_else(|| bare.strip_prefix("a/"));
        let mut meant = vec![path, bare];
        meant.extend(inner);
        let below = |path: &'_ &str| -> Option<usize> {
            let rest = path.strip_prefix(self.prefix)?.strip_prefix('/')?;
            (!self.prefix.is_empty() && !rest.is_empty()).then_some(path.len() - rest.len())
        };
        let without_prefix: Vec<&str> = meant.iter().filter_map(|path| Some(&path[below(path)?..])).collect();
        meant.extend(without_prefix);
        if let Some(diff) = self.diff {
            if let Some(found) = meant.iter().find(|path| diff.contains_key(**path)) {
                return (*found).to_owned();
            }
            let is_same = |one: &str, other: &str| one.nfc().eq(other.nfc());
            let composed = diff.keys().find(|key| meant.iter().any(|path| is_same(key, path)));
            let end = format!("/{bare}");
            let mut ending = diff.keys().filter(|key| key.ends_with(&end));
            let only = ending.next().filter(|_| ending.next().is_none());
            if let Some(found) = composed.or(only) {
                return found.clone();
            }
        }
        meant.into_iter().skip(1).find(|path| (self.file)(path).is_some()).unwrap_or(bare).to_owned()
    }
}

/// Writes a finding as one line.
pub fn line(finding: &Finding) -> String {
    let Finding { path, start_line, rule_id, message, severity, .. } = finding;
    let severity = format!("{severity:?}").to_lowercase();
    format!("{path}:{start_line}: {severity} [{rule_id}] {message}")
}

/// Says how a finding stands to the diff. The numbers of a hunk's lines follow one another, so that a range without a
/// gap is in one hunk.
fn place(finding: &Finding, lines: Option<&Shown>) -> FindingPlace {
    let Some(lines) = lines else { return FindingPlace::default() };
    let suggestion_in_hunk = finding.suggestion.as_ref().is_some_and(|suggestion| {
        (suggestion.start_line..=suggestion.end_line).all(|number| lines.contains_key(&number))
    });
    FindingPlace { in_diff: lines.contains_key(&finding.start_line), suggestion_in_hunk }
}

/// A part of a line counts as a quote from this many characters on.
const PART: usize = 4;

/// Bytes of a quote that are looked for; nobody quotes more, and looking has to end.
const QUOTE: usize = 8_000;

/// Bytes that are compared at most to find all places of a quote.
const COMPARED: usize = 4_000_000;

/// Finds the quoted lines: one in the diff before any other, whole lines before parts of them, then the nearest to
/// where the model says. A quote with the marks of the diff, as models copy it, counts where it is not there as it is,
/// and at last one in which quotation marks were changed, as they are by who writes JSON by hand.
fn locate(quote: &str, said: u64, lines: &BTreeMap<u64, String>, diff: Option<&Shown>) -> Option<(u64, u64)> {
    let same_marks = |text: &str| text.replace(['"', '`'], "'");
    find(quote, said, lines, diff).or_else(|| find(&without_marks(quote)?, said, lines, diff)).or_else(|| {
        let lines = lines.iter().map(|(number, line)| (*number, same_marks(line))).collect();
        find(&same_marks(&without_marks(quote).unwrap_or_else(|| quote.to_owned())), said, &lines, diff)
    })
}

/// Returns the quote without the `+` and ` ` of a diff, if each of its lines has one.
fn without_marks(quote: &str) -> Option<String> {
    let lines = quote.lines().filter(|line| !line.trim().is_empty());
    let plain: Option<Vec<&str>> = lines.map(|line| line.strip_prefix(['+', ' '])).collect();
    plain.filter(|_| quote.lines().any(|line| line.starts_with('+'))).map(|lines| lines.join("\n"))
}

/// Finds a quote, ignoring spaces, line ends and empty lines.
fn find(quote: &str, said: u64, lines: &BTreeMap<u64, String>, diff: Option<&Shown>) -> Option<(u64, u64)> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = words(quote);
    if wanted.is_empty() || wanted.len() > QUOTE {
        return None;
    }
    // All lines as one text, and where each begins in it. Lines that do not follow one another are kept apart by what
    // no quote has.
    let mut text = String::new();
    let mut starts: Vec<(usize, u64)> = Vec::new();
    let (mut before, mut is_gap) = (None, false);
    for (number, line) in lines {
        is_gap |= before.is_some() && before != number.checked_sub(1);
        before = Some(*number);
        let line = words(line);
        if line.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push(if is_gap { '\n' } else { ' ' });
        }
        is_gap = false;
        starts.push((text.len(), *number));
        text.push_str(&line);
    }
    let line_at = |offset: usize| starts[starts.partition_point(|(start, _)| *start <= offset) - 1];
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let in_diff = |start: u64| diff.is_some_and(|diff| diff.contains_key(&start));
    let most = (COMPARED / wanted.len()).min(100_000);
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut places: Vec<(bool, bool, u64, u64, u64)> = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(&wanted)).map(|at| from + at) {
        from = at + step;
        let end = at + wanted.len();
        let ((start, first), (_, last)) = (line_at(at), line_at(end - 1));
        let ends_a_line = end == text.len() || starts.binary_search_by_key(&(end + 1), |(start, _)| *start).is_ok();
        let is_whole = start == at && ends_a_line;
        let cuts_a_word = (is_word(text[..at].chars().next_back()) && is_word(wanted.chars().next()))
            || (is_word(text[end..].chars().next()) && is_word(wanted.chars().next_back()));
        if is_whole || (wanted.chars().count() >= PART && !cuts_a_word) {
            places.push((!in_diff(first), !is_whole, first.abs_diff(said), first, last));
            if places.len() == most {
                break;
            }
        }
    }
    places.into_iter().min().map(|(_, _, _, first, last)| (first, last))
}

/// Tells whether some finding is at least this bad.
pub fn fails(findings: &[Finding], fail_on: Severity) -> bool {
    fail_on != Severity::Never && findings.iter().any(|finding| finding.severity >= fail_on)
}

/// Makes a rule.
#[cfg(test)]
pub(crate) fn rule(id: &str, severity: Severity) -> Rule {
    let text = |value: &str| crate::recipe::file::Text { value: value.to_owned(), ..Default::default() };
    Rule { id: text(id), description: text(id), severity: Some(severity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,4 @@\n fn a() {\n-    old();\n+    new();\n+    more();\n }\n";
    const FILE: &str = "fn a() {\n    new();\n    more();\n}\n\nfn b() {\n    new();\n}\n";

    fn finding(quote: &str, line: u64) -> Finding {
        Finding {
            rule_id: "bug".into(),
            severity: Severity::Error,
            path: "./src/a.rs".into(),
            start_line: line,
            end_line: line,
            quote: quote.into(),
            message: "m".into(),
            confidence: Confidence::High,
            suggestion: None,
            source: Source::Model,
        }
    }

    fn sources<'a>(diff: Option<&'a NewSide>, file: &'a dyn Fn(&str) -> Option<String>) -> Sources<'a> {
        Sources { prefix: "", diff, file, masked: &|line: &str| line.replace("hunter2", "[redacted:PASSWORD]") }
    }

    fn anchored(findings: Vec<Finding>, filter: Filter) -> Anchored {
        let side = new_side(DIFF);
        let file = |path: &str| (path == "src/a.rs").then(|| FILE.to_owned());
        anchor(findings, &[rule("bug", Severity::Error)], filter, 2, &sources(Some(&side), &file))
    }

    #[test]
    fn a_wrong_line_is_corrected_by_its_quote_and_an_invented_quote_is_dropped() {
        let result =
            anchored(vec![finding("new();", 40), finding("never written", 2), finding("new();", 2)], Filter::Added);
        assert_eq!(result.findings.len(), 1);
        let found = &result.findings[0];
        assert_eq!((found.start_line, found.severity, found.path.as_str()), (2, Severity::Error, "src/a.rs"));
        assert_eq!(result.dropped, [("duplicate".to_owned(), 1), ("unanchored".to_owned(), 1)].into());
        assert!(fails(&result.findings, Severity::Warning) && !fails(&result.findings, Severity::Never));
        let again = Finding { rule_id: "other".into(), ..finding("new();", 2) };
        let said_twice = anchored(vec![finding("new();", 2), again], Filter::Added);
        assert_eq!((said_twice.findings.len(), said_twice.findings[0].rule_id.as_str()), (1, "bug"));
    }

    #[test]
    fn the_filter_counts_what_the_diff_shows() {
        for (filter, kept) in [(Filter::Added, 0), (Filter::DiffContext, 1), (Filter::File, 2), (Filter::Nofilter, 2)] {
            let result = anchored(vec![finding("fn a() {", 1), finding("fn b() {", 6)], filter);
            assert_eq!(result.findings.len(), kept, "{filter:?}");
        }
        let many = anchored(vec![finding("new();", 2), finding("more();", 3), finding("fn a() {", 1)], Filter::File);
        assert_eq!((many.findings.len(), many.dropped["over_max"]), (2, 1));
    }

    #[test]
    fn a_suggestion_moves_with_its_finding_or_goes() {
        let mut one = finding("more();", 30);
        one.suggestion = Some(Suggestion { start_line: 30, end_line: 30, replacement: "less();".into() });
        let mut two = finding("new();", 2);
        two.suggestion = Some(Suggestion { start_line: 2, end_line: 90, replacement: String::new() });
        let result = anchored(vec![one, two], Filter::Added);
        assert_eq!(result.findings[1].suggestion.as_ref().unwrap().start_line, 3);
        let place = |suggestion_in_hunk| FindingPlace { in_diff: true, suggestion_in_hunk };
        assert_eq!(result.places, [place(false), place(true)]);
        assert_eq!(result.findings[1].quote, "    more();", "the whole line, however little was quoted");
        assert_eq!(result.findings[0].suggestion, None);
    }

    fn place(quote: &str, said: u64, file: &str) -> Option<(u64, u64)> {
        let given = Finding { path: "b/src/a.rs".into(), ..finding(quote, said) };
        let text = |path: &str| (path == "src/a.rs").then(|| file.to_owned());
        let found =
            anchor(vec![given], &[rule("bug", Severity::Error)], Filter::Nofilter, 9, &sources(None, &text)).findings;
        found.first().map(|found| (found.start_line, found.end_line))
    }

    #[test]
    fn a_quote_with_other_quotation_marks_is_found_last() {
        let file = "say(\"hi\");\nsay('hi');\nsay(`ho`);\n";
        for (quote, lines) in [("say('hi');", 2), ("say(\"hi\");", 1), ("say('ho');", 3), ("+say(\"ho\");", 3)] {
            assert_eq!(place(quote, 1, file), Some((lines, lines)), "{quote}");
        }
    }

    #[test]
    fn a_quote_is_found_whatever_blanks_line_ends_and_empty_lines_are_in_it() {
        let file = "fn a() {\r\n\tif  x ==  1 {\r\n\r\n        go();\r\n    }\r\n}\r\n";
        for (quote, lines) in [
            ("if x == 1 {", Some((2, 2))),
            ("    if x == 1 {\n        go();", Some((2, 4))),
            ("\tif  x ==  1 {\r\n\r\n        go();\r\n", Some((2, 4))),
            ("if x == 1 { go(); }", Some((2, 5))),
            ("x == 1 {\ngo();", Some((2, 4))),
            ("\n\n  fn a() {  \n\n", Some((1, 1))),
            ("+    if x == 1 {\n+\n+        go();", Some((2, 4))),
            ("+        go();\n     }", Some((4, 5))),
            ("-        go();", None),
            ("if x == 2 {", None),
            ("if x==1 {", None),
            ("  \n ", None),
        ] {
            assert_eq!(place(quote, 1, file), lines, "{quote:?}");
        }
    }

    #[test]
    fn a_part_of_a_line_counts_if_it_is_long_enough_and_cuts_no_word() {
        let file = "let renew = 1;\nreturn renew(a);\n}\n";
        for (quote, lines) in
            [("renew(a)", Some((2, 2))), ("new(a)", None), ("(a)", None), ("}", Some((3, 3))), ("let ren", None)]
        {
            assert_eq!(place(quote, 9, file), lines, "{quote:?}");
        }
    }

    #[test]
    fn of_repeated_lines_the_nearest_counts_the_diff_before_it_and_whole_lines_before_parts() {
        let file = "go();\n}\ngo();\n}\ngo();\n}\nlet x = go();\n";
        for (quote, said, lines) in [
            ("go();", 1, (1, 1)),
            ("go();", 4, (3, 3)),
            ("go();", 7, (5, 5)),
            ("go();\n}", 4, (3, 4)),
            ("}\ngo();\n}", 1, (2, 4)),
            ("= go();", 1, (7, 7)),
        ] {
            assert_eq!(place(quote, said, file), Some(lines), "{quote:?} at {said}");
        }
        let side = new_side(DIFF);
        let twice = "fn b() {\n    new();\n}\n".repeat(9) + FILE;
        let read = |path: &str| (path == "src/a.rs").then(|| twice.clone());
        let found = anchor(vec![finding("new();", 20)], &[], Filter::Added, 9, &sources(Some(&side), &read)).findings;
        assert_eq!(found[0].start_line, 2, "the change is looked at first");
    }

    #[test]
    fn lines_that_the_diff_does_not_show_are_not_jumped_over() {
        let diff = "+++ b/src/a.rs\n@@ -1,0 +1,2 @@\n+one\n+\n@@ -9,0 +11,2 @@\n+\n+two\n";
        let side = new_side(diff);
        let found = |quote: &str| {
            anchor(vec![finding(quote, 1)], &[], Filter::Added, 9, &sources(Some(&side), &|_| None)).findings.len()
        };
        assert_eq!((found("one"), found("two"), found("one\ntwo")), (1, 1, 0));
    }

    #[test]
    fn a_path_is_found_however_the_model_writes_it() {
        let diff =
            "+++ \"b/caf\\303\\251 \\\"x\\\".rs\"\n@@ -0,0 +1 @@\n+one\n+++ b/deep/down/b.rs\n@@ -0,0 +1 @@\n+one\n";
        let side = new_side(diff);
        let sources = Sources { prefix: "web/app", ..sources(Some(&side), &|_| None) };
        for (given, meant) in [
            ("caf\u{e9} \"x\".rs", "caf\u{e9} \"x\".rs"),
            ("b/cafe\u{301} \"x\".rs", "caf\u{e9} \"x\".rs"),
            ("web/app/deep/down/b.rs", "deep/down/b.rs"),
            ("./a/web/app/deep/down/b.rs", "deep/down/b.rs"),
            ("b.rs", "deep/down/b.rs"),
            ("other.rs", "other.rs"),
        ] {
            let found =
                anchor(vec![Finding { path: given.into(), ..finding("one", 1) }], &[], Filter::Added, 9, &sources);
            let paths: Vec<&str> = found.findings.iter().map(|found| found.path.as_str()).collect();
            assert_eq!(paths.first().copied().unwrap_or("other.rs"), meant, "{given}");
        }
    }

    #[test]
    fn a_quote_with_a_masked_secret_is_found() {
        assert_eq!(place("login([redacted:PASSWORD])", 1, "x\nlogin(hunter2)\n"), Some((2, 2)));
    }

    #[test]
    fn looking_for_a_quote_ends() {
        let file = "x\n".repeat(300_000);
        assert_eq!(place(&"x\n".repeat(3_000), 1, &file), Some((1, 3_000)));
        assert_eq!(place(&"x\n".repeat(30_000), 1, &file), None);
    }
}
