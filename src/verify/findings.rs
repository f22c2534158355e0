//! Defines findings: what the model is asked for, and what the result has of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::base::digest::hex;
use crate::recipe::file::{Confidence, Rule, Severity};
use crate::tool_name::NOT_SHOWN_IN_TEXT;

/// A finding as the model reports it. Other keys are ignored: what they say is read from the code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Reported {
    /// One of the recipe's rules.
    pub rule_id: String,
    /// How bad it is.
    pub severity: Severity,
    /// The file, in any of the spellings that models use.
    pub path: String,
    /// Where about its first line is.
    pub start_line: u64,
    /// The text of its lines, or a part of it.
    pub quote: String,
    /// What is wrong.
    pub message: String,
    /// How sure the model is.
    pub confidence: Confidence,
    /// What to write instead.
    #[serde(default)]
    pub suggestion: Option<Proposed>,
}

/// What the model wants to be written instead.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Proposed {
    /// The lines that it replaces; without it those of the finding.
    #[serde(default)]
    pub quote: Option<String>,
    /// The lines to write.
    pub replacement: String,
}

/// A finding, as the result has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// One of the recipe's rules, or `qwen/…` for what was found without a model.
    pub rule_id: String,
    /// How bad it is: what the model says, at most what the rule says.
    pub severity: Severity,
    /// The file, relative to the repository.
    pub path: String,
    /// Its first line.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// The complete text of those lines, with secrets masked and very long lines cut; empty for what was found without a
    /// model.
    pub quote: String,
    /// What is wrong.
    pub message: String,
    /// How sure the model is.
    pub confidence: Confidence,
    /// What to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Suggestion>,
    /// The same for the same finding of a later run, wherever its lines are by then.
    pub fingerprint: String,
    /// Who found it.
    pub source: Source,
    /// A person has said that it is none: it does not fail the run.
    pub dismissed: bool,
}

/// Who found something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The model.
    Model,
    /// A rule that needs no model.
    Local,
}

/// Lines to write instead of others, all of them in one hunk of the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suggestion {
    /// The first line that it replaces.
    pub start_line: u64,
    /// The last one.
    pub end_line: u64,
    /// The lines that stand there then, each with a newline at its end; empty to delete them.
    pub replacement: String,
}

/// A finding of an earlier run that has a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// The finding's.
    pub fingerprint: String,
    /// The rule.
    pub rule_id: String,
    /// How bad it was.
    pub severity: Severity,
    /// How sure the model was.
    pub confidence: Confidence,
    /// A person resolved the thread; else it is open, and its lines are still there.
    pub is_dismissed: bool,
    /// The last of its lines, where it stands now; `None` if nobody knows.
    pub end_line: Option<u64>,
}

/// Which findings fail a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// The least severe one.
    pub fail_on: Severity,
    /// How sure the model must be of it.
    pub fail_confidence: Confidence,
}

impl Gate {
    /// Tells whether one of these findings fails the run. What was found without a model cannot be dismissed.
    pub fn fails(&self, findings: &[Finding]) -> bool {
        let counts = |finding: &&Finding| finding.source == Source::Local || !finding.dismissed;
        findings.iter().filter(counts).any(|finding| self.counts(finding.severity, finding.confidence))
    }

    /// Tells whether one that is so bad, of which the model is so sure, fails the run.
    pub fn counts(&self, severity: Severity, confidence: Confidence) -> bool {
        self.fail_on != Severity::Never && severity >= self.fail_on && confidence >= self.fail_confidence
    }
}

/// Marks the findings that a person has dismissed in an earlier thread, if the thread stands where they do: equal lines
/// elsewhere are another finding, and where the thread's line is gone nothing is dismissed. Returns the threads that are
/// open: their own words count, also where the model does not repeat them, and no finding counts twice.
pub fn settle<'a>(findings: &mut [Finding], earlier: &'a [Earlier]) -> Vec<&'a Earlier> {
    let open: Vec<&Earlier> = earlier.iter().filter(|one| !one.is_dismissed).collect();
    for finding in findings.iter_mut().filter(|finding| finding.source == Source::Model) {
        let is_same = |one: &Earlier| is_named(&finding.rule_id, &finding.path, &finding.quote, &one.fingerprint);
        // Who dismisses a note has not seen the error that stands there later.
        let is_dismissed = |one: &Earlier| {
            let is_there = one.end_line == Some(finding.end_line) && one.severity >= finding.severity;
            one.is_dismissed && is_there && is_same(one)
        };
        let is_open = |one: &Earlier| one.end_line.is_none_or(|line| line == finding.end_line) && is_same(one);
        finding.dismissed = earlier.iter().any(is_dismissed) && !open.iter().any(|one| is_open(one));
    }
    open
}

/// Tells whether a fingerprint is that of a finding, or of an equal one elsewhere in the file.
pub fn is_named(rule_id: &str, path: &str, quote: &str, wanted: &str) -> bool {
    (0..OCCURRENCES).any(|number| fingerprint(rule_id, path, quote, number) == wanted)
}

/// Returns the schema of the answer. Unknown keys are allowed, because many models add `end_line`.
pub fn schema(rules: &[Rule], most: usize) -> Value {
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let meanings: Vec<String> =
        rules.iter().map(|rule| format!("{}: {}", rule.id.as_str(), rule.description.as_str())).collect();
    let text = |description: &str| json!({"type": "string", "minLength": 1, "description": description});
    json!({
        "type": "object", "additionalProperties": false, "required": ["findings"],
        "properties": {"findings": {"type": "array", "maxItems": most * 4, "items": {
            "type": "object",
            "required": ["path", "start_line", "quote", "message", "rule_id", "severity", "confidence"],
            // Models write in this order: what is wrong comes before how bad it is.
            "properties": {
                "path": {"type": "string"},
                "start_line": {"type": "integer", "minimum": 1},
                "quote": text("the exact source text, without + and -; one line is best"),
                "message": {"type": "string", "minLength": 1, "maxLength": 2000},
                "rule_id": {"type": "string", "enum": ids, "description": meanings.join(" ")},
                "severity": {"type": "string", "enum": ["error", "warning", "note"]},
                "confidence": {"type": "string", "enum": ["low", "medium", "high"]},
                "suggestion": {
                    "type": "object", "required": ["replacement"], "$comment": NOT_SHOWN_IN_TEXT,
                    "properties": {
                        "quote": text("the complete lines to replace; without it those of the finding"),
                        "replacement": {"type": "string", "description": "the complete lines to write instead"},
                    },
                },
            },
        }}},
    })
}

/// Gives each finding its fingerprint; equal ones are numbered by their order in the file, whatever the order here.
pub fn number(findings: &mut [Finding]) {
    let mut by_place: Vec<&mut Finding> = findings.iter_mut().collect();
    by_place.sort_by_key(|finding| (finding.path.clone(), finding.start_line));
    let mut seen = BTreeMap::new();
    for finding in by_place {
        let name = |occurrence| fingerprint(&finding.rule_id, &finding.path, &finding.quote, occurrence);
        let occurrence = seen.entry(name(0)).and_modify(|count| *count += 1).or_insert(0_u64);
        let fingerprint = name((*occurrence).min(OCCURRENCES - 1));
        finding.fingerprint = fingerprint;
    }
}

/// Hashes what does not change when lines move: the rule, the path, the quoted text without whitespace, and its number
/// among equal ones. The line number and the model's text are not part of it.
pub fn fingerprint(rule_id: &str, path: &str, quote: &str, occurrence: u64) -> String {
    let normal: Vec<String> = quote.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let mut hash = Sha256::new();
    for part in [rule_id, path, normal.join("\n").trim(), &occurrence.to_string()] {
        // The length keeps apart what would run together.
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize()[..16])
}

/// The most equal places of a file that are told apart.
const OCCURRENCES: u64 = 16;

/// Returns where a file still has lines that a fingerprint names: the last one of each place. Their bytes decide.
pub fn ends_of(text: &str, path: &str, rule_id: &str, lines: u64, wanted: &str) -> Vec<u64> {
    let all: Vec<&str> = text.lines().collect();
    let count = usize::try_from(lines.max(1)).unwrap_or(usize::MAX);
    if count > all.len() {
        return Vec::new();
    }
    let places = (lines.max(1)..).zip(all.windows(count));
    places.filter(|(_, window)| is_named(rule_id, path, &window.join("\n"), wanted)).map(|(end, _)| end).collect()
}

/// Writes a finding as one line.
pub fn line(finding: &Finding) -> String {
    let Finding { path, start_line, rule_id, message, severity, .. } = finding;
    let severity = format!("{severity:?}").to_lowercase();
    format!("{path}:{start_line}: {severity} [{rule_id}] {message}")
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

    fn finding(line: u64, quote: &str) -> Finding {
        Finding {
            rule_id: "bug".into(),
            severity: Severity::Error,
            path: "src/a.rs".into(),
            start_line: line,
            end_line: line,
            quote: quote.into(),
            message: "m".into(),
            confidence: Confidence::Medium,
            suggestion: None,
            fingerprint: String::new(),
            source: Source::Model,
            dismissed: false,
        }
    }

    fn names<const N: usize>(mut findings: [Finding; N]) -> [String; N] {
        number(&mut findings);
        findings.map(|finding| finding.fingerprint)
    }

    #[test]
    fn a_fingerprint_stays_when_lines_move_are_indented_or_are_described_anew() {
        let before = names([finding(3, "  a / b;")]);
        let after = Finding { message: "may divide by zero".into(), ..finding(90, "\ta  /  b;") };
        assert_eq!(before, names([after]));
        assert_ne!(before, names([finding(3, "a / c;")]));
        assert_eq!(before[0].len(), 32);
    }

    #[test]
    fn equal_lines_have_names_of_their_own_by_their_order_in_the_file() {
        let two = names([finding(9, "x();"), finding(3, "x();")]);
        assert_ne!(two[0], two[1]);
        let moved = names([finding(5, "x();"), finding(11, "x();")]);
        assert_eq!(moved, [two[1].clone(), two[0].clone()]);
    }

    #[test]
    fn a_dismissal_is_that_of_the_lines_where_its_thread_stands() {
        let earlier = |quote: &str, end_line, is_dismissed| Earlier {
            fingerprint: names([finding(1, quote)])[0].clone(),
            rule_id: "bug".into(),
            severity: Severity::Error,
            confidence: Confidence::High,
            is_dismissed,
            end_line,
        };
        let dismissed = |all: &[Earlier]| {
            let mut findings = [finding(3, "x();"), finding(9, "x();")];
            number(&mut findings);
            settle(&mut findings, all);
            findings.map(|finding| finding.dismissed)
        };
        assert_eq!(dismissed(&[earlier("x();", Some(9), true)]), [false, true], "whatever its number among equal ones");
        assert_eq!(dismissed(&[earlier("x();", Some(5), true)]), [false, false]);
        assert_eq!(dismissed(&[earlier("x();", None, true)]), [false, false], "its line is gone");
        assert_eq!(dismissed(&[earlier("y();", Some(9), true)]), [false, false], "other words stood there");
        let note = Earlier { severity: Severity::Note, ..earlier("x();", Some(9), true) };
        assert_eq!(dismissed(&[note]), [false, false], "a note was dismissed, and this is an error");
        let open = |line| [earlier("x();", Some(9), true), earlier("x();", line, false)];
        assert_eq!(dismissed(&open(Some(9))), [false, false]);
        assert_eq!(dismissed(&open(Some(3))), [false, true]);
        assert_eq!(dismissed(&open(None)), [false, false], "it may be the same");
    }

    #[test]
    fn a_finding_fails_the_run_if_it_is_bad_and_sure_enough_and_nobody_has_dismissed_it() {
        let gate = |fail_on, fail_confidence| Gate { fail_on, fail_confidence };
        let usual = gate(Severity::Error, Confidence::Medium);
        assert!(usual.fails(&[finding(1, "a")]) && !usual.fails(&[]));
        assert!(!gate(Severity::Error, Confidence::High).fails(&[finding(1, "a")]));
        assert!(!gate(Severity::Never, Confidence::Low).fails(&[finding(1, "a")]));
        let warning = Finding { severity: Severity::Warning, confidence: Confidence::Low, ..finding(1, "a") };
        assert!(!usual.fails(std::slice::from_ref(&warning)));
        assert!(gate(Severity::Note, Confidence::Low).fails(&[warning]));
        let dismissed = Finding { dismissed: true, ..finding(1, "a") };
        assert!(!usual.fails(std::slice::from_ref(&dismissed)));
        assert!(usual.fails(&[Finding { source: Source::Local, ..dismissed }]));
    }
}
