//! Prepares a run's findings for the writers of other formats: with their rules and places.

use serde::Deserialize;
use serde_json::Value;

use crate::event::{FindingPlace, RuleFacts, RunFinished, RunStarted};

/// A finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Found {
    /// The rule.
    pub rule_id: String,
    /// How bad it is.
    pub severity: Level,
    /// The file, relative to the repository.
    pub path: String,
    /// Its first line.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// The text of those lines.
    #[serde(default)]
    pub quote: String,
    /// What is wrong.
    pub message: String,
    /// How sure the model is.
    #[serde(default)]
    pub confidence: Option<String>,
    /// What to write instead.
    #[serde(default)]
    pub suggestion: Option<Suggested>,
    /// `model`, or `local` where no model was asked.
    #[serde(default)]
    pub source: String,
    /// The same for the same finding of a later run, wherever its lines are by then.
    #[serde(default)]
    pub fingerprint: String,
    /// How it relates to the diff under review.
    #[serde(skip)]
    pub place: FindingPlace,
}

/// Lines to write instead of others.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Suggested {
    /// The first line that it replaces.
    pub start_line: u64,
    /// The last one.
    pub end_line: u64,
    /// What stands there then.
    pub replacement: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Said in passing.
    #[default]
    Note,
    /// Should be looked at.
    Warning,
    /// Is wrong.
    Error,
}

impl Level {
    /// The word of the findings schema, which is SARIF's, too.
    pub fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }

    /// Returns the level of a word.
    pub fn of(name: &str) -> Option<Level> {
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
        let recipe = started.and_then(|started| started.recipe.as_ref());
        let source = recipe.map_or("prompt", |recipe| recipe.name.as_str());
        let declared: &[RuleFacts] = started.map_or(&[], |started| &started.rules);
        Findings::of(source, declared, &end.findings, &end.places)
    }

    /// Reads findings of this source.
    pub(super) fn of(source: &str, declared: &[RuleFacts], values: &[Value], places: &[FindingPlace]) -> Findings {
        let mut all = Vec::new();
        for (number, value) in values.iter().enumerate() {
            let Some(mut found) = Found::read(value) else { continue };
            found.place = places.get(number).copied().unwrap_or_default();
            all.push(found);
        }
        let mut rules: Vec<_> = declared
            .iter()
            .map(|rule| (rule.id.clone(), rule.description.clone(), rule.severity.as_deref().and_then(Level::of)))
            .collect();
        for found in &all {
            if !rules.iter().any(|(id, _, _)| *id == found.rule_id) {
                rules.push((found.rule_id.clone(), found.rule_id.clone(), None));
            }
        }
        Findings { source: source.to_owned(), rules, all, has_diff: !places.is_empty() }
    }
}

impl Found {
    fn read(value: &Value) -> Option<Found> {
        let mut found = Found::deserialize(value).ok()?;
        found.end_line = found.end_line.max(found.start_line);
        Some(found)
    }
}

/// Returns the findings of a result, in its order.
pub fn found(findings: &[Value]) -> Vec<Found> {
    findings.iter().filter_map(Found::read).collect()
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
    use serde_json::json;

    use super::*;

    fn finding(line: u64, quote: &str, message: &str) -> Value {
        json!({"rule_id": "bug", "severity": "error", "path": "src/a.rs", "start_line": line, "end_line": line,
               "quote": quote, "message": message, "confidence": "high"})
    }

    #[test]
    fn a_value_that_is_no_finding_is_left_out() {
        let findings = example(json!([7, {"rule_id": "x"}, finding(1, "a", "m")]));
        assert_eq!(findings.all.len(), 1);
        assert_eq!(findings.rules.len(), 1);
    }
}
