//! Prepares a run's findings for the writers of other formats: with their rules and a stable fingerprint.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::base::digest::hex;
use crate::event::{FindingPlace, RuleFacts, RunFinished, RunStarted};

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Found {
    pub(super) rule_id: String,
    pub(super) severity: Level,
    pub(super) path: String,
    pub(super) start_line: u64,
    pub(super) end_line: u64,
    #[serde(default)]
    pub(super) quote: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) confidence: Option<String>,
    #[serde(default)]
    pub(super) suggestion: Option<Suggested>,
    /// The same for the same finding of a later run, wherever its lines are by then.
    #[serde(skip)]
    pub(super) fingerprint: String,
    #[serde(skip)]
    pub(super) place: FindingPlace,
}

/// Lines to write instead of others.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Suggested {
    pub(super) start_line: u64,
    pub(super) end_line: u64,
    pub(super) replacement: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Note,
    Warning,
    Error,
}

impl Level {
    /// The word of the findings schema, which is SARIF's, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }

    fn of(name: &str) -> Option<Level> {
        [Level::Note, Level::Warning, Level::Error].into_iter().find(|level| level.name() == name)
    }
}

/// All findings of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// The recipe's name, else `prompt`.
    pub(super) source: String,
    /// Id, description and level of each rule, those that a finding names and nobody declared included.
    pub(super) rules: Vec<(String, String, Option<Level>)>,
    /// In the order of the result.
    pub(super) all: Vec<Found>,
    /// Whether a diff was under review, so that places say something.
    pub(super) has_diff: bool,
}

impl Findings {
    /// Reads what the run found. A value that is not a finding is left out: nothing could be said of it.
    pub(super) fn read(started: Option<&RunStarted>, end: &RunFinished) -> Findings {
        let mut seen = BTreeMap::new();
        let mut all = Vec::new();
        for (number, value) in end.findings.iter().enumerate() {
            let Ok(mut found) = Found::deserialize(value) else { continue };
            found.end_line = found.end_line.max(found.start_line);
            found.place = end.places.get(number).copied().unwrap_or_default();
            all.push(found);
        }
        // Equal lines are numbered by their order in the file, whatever the order of the result.
        let mut by_place: Vec<usize> = (0..all.len()).collect();
        by_place.sort_by_key(|at| (all[*at].path.clone(), all[*at].start_line));
        for at in by_place {
            let content = fingerprint(&all[at], 0);
            let occurrence = seen.entry(content).and_modify(|count| *count += 1).or_insert(0_u64);
            let name = fingerprint(&all[at], *occurrence);
            all[at].fingerprint = name;
        }
        let declared: &[RuleFacts] = started.map_or(&[], |started| &started.rules);
        let mut rules: Vec<_> = declared
            .iter()
            .map(|rule| (rule.id.clone(), rule.description.clone(), rule.severity.as_deref().and_then(Level::of)))
            .collect();
        for found in &all {
            if !rules.iter().any(|(id, _, _)| *id == found.rule_id) {
                rules.push((found.rule_id.clone(), found.rule_id.clone(), None));
            }
        }
        let recipe = started.and_then(|started| started.recipe.as_ref());
        Findings {
            source: recipe.map_or_else(|| "prompt".to_owned(), |recipe| recipe.name.clone()),
            rules,
            all,
            has_diff: !end.places.is_empty(),
        }
    }
}

/// Hashes what does not change when lines move: the rule, the path, the quoted text without whitespace, and its number
/// among equal ones. The line number and the model's text are not part of it.
fn fingerprint(found: &Found, occurrence: u64) -> String {
    let normal: Vec<String> =
        found.quote.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let mut hash = Sha256::new();
    for part in [found.rule_id.as_str(), &found.path, normal.join("\n").trim(), &occurrence.to_string()] {
        // The length keeps apart what would run together.
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize()[..16])
}

/// Returns a replacement as the lines that it is, without the newline that ends the last one.
pub(super) fn replacement_lines(replacement: &str) -> &str {
    let text = replacement.strip_suffix('\n').unwrap_or(replacement);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Returns an ending with these findings, and the start of a run of `review`, for tests of the writers.
#[cfg(test)]
pub(super) fn example(findings: serde_json::Value) -> Findings {
    use crate::event::{RecipeFacts, RunError};
    let started = RunStarted {
        recipe: Some(RecipeFacts { name: "review".into(), ..RecipeFacts::default() }),
        rules: vec![RuleFacts {
            id: "bug".into(),
            description: "Wrong result.".into(),
            severity: Some("error".into()),
        }],
        ..RunStarted::default()
    };
    let mut end = RunFinished::failed(crate::exit::Exit::Gate, RunError::default());
    end.findings = serde_json::from_value(findings).expect("a list");
    Findings::read(Some(&started), &end)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn finding(line: u64, quote: &str, message: &str) -> Value {
        json!({"rule_id": "bug", "severity": "error", "path": "src/a.rs", "start_line": line, "end_line": line,
               "quote": quote, "message": message, "confidence": "high"})
    }

    fn names(findings: Value) -> Vec<String> {
        example(findings).all.into_iter().map(|found| found.fingerprint).collect()
    }

    #[test]
    fn a_fingerprint_stays_when_lines_move_are_indented_or_are_described_anew() {
        let before = names(json!([finding(3, "  a / b;", "divides by zero")]));
        assert_eq!(before, names(json!([finding(90, "\ta  /  b;", "may divide by zero")])));
        assert_ne!(before, names(json!([finding(3, "a / c;", "divides by zero")])));
    }

    #[test]
    fn equal_lines_have_names_of_their_own_by_their_order_in_the_file() {
        let two = names(json!([finding(9, "x();", "m"), finding(3, "x();", "m")]));
        assert_ne!(two[0], two[1]);
        let moved = names(json!([finding(5, "x();", "m"), finding(11, "x();", "m")]));
        assert_eq!(moved, [two[1].clone(), two[0].clone()]);
    }

    #[test]
    fn a_value_that_is_no_finding_is_left_out() {
        let findings = example(json!([7, {"rule_id": "x"}, finding(1, "a", "m")]));
        assert_eq!(findings.all.len(), 1);
        assert_eq!(findings.rules.len(), 1);
    }
}
