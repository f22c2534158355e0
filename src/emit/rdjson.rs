//! Prints findings as rdjson for reviewdog, which turns them into suggestions that can be accepted with a click.

use serde_json::{Value, json};

use super::findings::{Findings, Level, replacement_lines};

/// Returns the result object.
pub(super) fn rdjson(findings: &Findings) -> Value {
    let diagnostics: Vec<Value> = findings
        .all
        .iter()
        .map(|found| {
            let lines = |from: u64, to: u64| json!({"start": {"line": from}, "end": {"line": to}});
            let mut diagnostic = json!({
                "message": found.message,
                "location": {"path": found.path, "range": lines(found.start_line, found.end_line)},
                "severity": match found.severity {
                    Level::Note => "INFO",
                    Level::Warning => "WARNING",
                    Level::Error => "ERROR",
                },
                "code": {"value": found.rule_id},
            });
            // GitHub takes a suggestion only inside one hunk; elsewhere the finding is a comment.
            if let Some(suggestion) = found.suggestion.as_ref()
                && (!findings.has_diff || found.place.suggestion_in_hunk)
            {
                diagnostic["suggestions"] = json!([{
                    "range": lines(suggestion.start_line, suggestion.end_line),
                    "text": replacement_lines(&suggestion.replacement),
                }]);
            }
            diagnostic
        })
        .collect();
    json!({"source": {"name": format!("qwen/{}", findings.source)}, "diagnostics": diagnostics})
}

#[cfg(test)]
mod tests {
    use super::super::findings::example;
    use super::*;
    use crate::event::FindingPlace;

    #[test]
    fn a_suggestion_is_given_only_where_it_can_be_taken() {
        let mut findings = example(json!([{
            "rule_id": "bug", "severity": "note", "path": "a", "start_line": 2, "end_line": 2, "quote": "x",
            "message": "m", "confidence": "low", "suggestion": {"start_line": 2, "end_line": 2, "replacement": "y\n"},
        }]));
        let written = rdjson(&findings);
        assert_eq!(
            written["diagnostics"][0],
            json!({"message": "m", "location": {"path": "a", "range": {"start": {"line": 2}, "end": {"line": 2}}},
                   "severity": "INFO", "code": {"value": "bug"},
                   "suggestions": [{"range": {"start": {"line": 2}, "end": {"line": 2}}, "text": "y"}]})
        );
        findings.has_diff = true;
        assert!(rdjson(&findings)["diagnostics"][0].get("suggestions").is_none());
        findings.all[0].place = FindingPlace { in_diff: true, suggestion_in_hunk: true };
        assert_eq!(rdjson(&findings), written);
    }
}
