//! Prepares a run's findings for the writers of other formats: with their rules and places.

use serde::Deserialize;

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
    #[serde(default)]
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
        let mut all = Vec::new();
        for (number, value) in end.findings.iter().enumerate() {
            let Ok(mut found) = Found::deserialize(value) else { continue };
            found.end_line = found.end_line.max(found.start_line);
            found.place = end.places.get(number).copied().unwrap_or_default();
            all.push(found);
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

    #[test]
    fn a_value_that_is_no_finding_is_left_out() {
        let findings = example(json!([7, {"rule_id": "x"}, finding(1, "a", "m")]));
        assert_eq!(findings.all.len(), 1);
        assert_eq!(findings.rules.len(), 1);
    }
}
