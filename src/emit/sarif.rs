//! Prints findings as SARIF 2.1.0 for code scanning.

use serde_json::{Value, json};

use super::findings::{Findings, Found, replacement_lines};

/// Maximum results that GitHub keeps of one file.
const MOST: usize = 5_000;

/// Returns the log of findings of several runs with this recipe.
pub fn findings_as_sarif(source: &str, findings: &[Value]) -> Value {
    sarif(&Findings::of(source, &[], findings, &[]))
}

/// Returns the log.
pub(super) fn sarif(findings: &Findings) -> Value {
    let rules: Vec<Value> = findings
        .rules
        .iter()
        .map(|(id, description, level)| {
            let mut rule = json!({"id": id, "shortDescription": {"text": description}});
            if let Some(level) = level {
                rule["defaultConfiguration"] = json!({"level": level.name()});
            }
            rule
        })
        .collect();
    let results: Vec<Value> = findings.all.iter().take(MOST).map(|found| result(found, findings)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "qwen-run", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": rules,
            }},
            "automationDetails": {"id": format!("qwen/{}/", findings.source)},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(found: &Found, findings: &Findings) -> Value {
    let location = json!({"uri": uri(&found.path), "uriBaseId": "%SRCROOT%"});
    let mut result = json!({
        "ruleId": found.rule_id,
        "level": found.severity.name(),
        "message": {"text": found.message},
        "locations": [{"physicalLocation": {
            "artifactLocation": location,
            "region": {"startLine": found.start_line, "endLine": found.end_line},
        }}],
    });
    if !found.fingerprint.is_empty() {
        result["partialFingerprints"] = json!({"qwenFinding/v1": found.fingerprint});
    }
    if let Some(index) = findings.rules.iter().position(|(id, _, _)| *id == found.rule_id) {
        result["ruleIndex"] = json!(index);
    }
    if let Some(confidence) = &found.confidence {
        result["properties"] = json!({"confidence": confidence});
    }
    if let Some(suggestion) = &found.suggestion {
        // Whole lines: from the beginning of the first to the beginning of the line after the last one.
        let region = json!({
            "startLine": suggestion.start_line, "startColumn": 1,
            "endLine": suggestion.end_line.saturating_add(1), "endColumn": 1,
        });
        let text = match suggestion.replacement.as_str() {
            "" => String::new(),
            text => format!("{}\n", replacement_lines(text)),
        };
        result["fixes"] = json!([{
            "description": {"text": "Suggested by the model."},
            "artifactChanges": [{
                "artifactLocation": location,
                "replacements": [{"deletedRegion": region, "insertedContent": {"text": text}}],
            }],
        }]);
    }
    result
}

/// Returns a path as a relative URI: what is not plain is percent-encoded, and a first segment with a colon cannot pass
/// for a scheme.
fn uri(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::findings::example;
    use super::*;

    fn log(suggestion: Value) -> Value {
        sarif(&example(json!([{
            "rule_id": "bug", "severity": "error", "path": "src/a b:ü.rs", "start_line": 2, "end_line": 3,
            "quote": "a\nb", "message": "m", "confidence": "high", "suggestion": suggestion, "fingerprint": "24d17183eed467aebe4a20ac99eb18d4",
        }])))
    }

    #[test]
    fn a_finding_is_a_result_with_its_rule_place_and_fingerprint() {
        let log = log(Value::Null);
        let run = &log["runs"][0];
        assert_eq!(run["automationDetails"]["id"], "qwen/review/");
        assert_eq!(run["tool"]["driver"]["rules"][0]["defaultConfiguration"]["level"], "error");
        let result = &run["results"][0];
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/a%20b%3A%C3%BC.rs");
        assert_eq!(place["region"], json!({"startLine": 2, "endLine": 3}));
        assert_eq!(result["partialFingerprints"]["qwenFinding/v1"].as_str().map(str::len), Some(32));
        assert_eq!(result["ruleIndex"], 0);
        assert!(result.get("fixes").is_none());
    }

    /// Applies a fix as SARIF means it: columns count characters from 1, a region ends before its last column.
    fn applied(text: &str, log: &Value) -> String {
        let change = &log["runs"][0]["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0];
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let number = |key: &str| usize::try_from(change["deletedRegion"][key].as_u64().unwrap()).unwrap() - 1;
        assert_eq!((number("startColumn"), number("endColumn")), (0, 0));
        let (from, to) = (number("startLine"), number("endLine").min(lines.len()));
        let inserted = change["insertedContent"]["text"].as_str().unwrap();
        format!("{}{inserted}{}", lines[..from].concat(), lines[to..].concat())
    }

    #[test]
    fn a_fix_replaces_whole_lines() {
        for (replacement, after) in
            [("x", "1\nx\n4\n"), ("x\ny\n", "1\nx\ny\n4\n"), ("", "1\n4\n"), ("\n", "1\n\n4\n"), ("x\r\n", "1\nx\n4\n")]
        {
            let log = log(json!({"start_line": 2, "end_line": 3, "replacement": replacement}));
            assert_eq!(applied("1\n2\n3\n4\n", &log), after, "{replacement:?}");
        }
    }

    proptest! {
        /// GitHub replaces the lines of a suggestion by those of its block; so does who applies our SARIF.
        #[test]
        fn a_suggestion_means_the_same_to_github_and_in_sarif(
            lines in prop::collection::vec("[ab \t]{0,3}", 1..8), places in (0_usize..8, 0_usize..8),
            replacement in prop::collection::vec("[ab \t]{0,3}", 0..4),
        ) {
            let first = places.0 % lines.len();
            let last = first + places.1 % (lines.len() - first);
            let whole = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let github = [&lines[..first], &replacement, &lines[last + 1..]].concat();
            let suggestion =
                json!({"start_line": first + 1, "end_line": last + 1, "replacement": whole(&replacement)});
            prop_assert_eq!(applied(&whole(&lines), &log(suggestion)), whole(&github));
        }
    }

    /// The committed example is what the writer writes; `.ci/actions` validates it against SARIF's own schema.
    #[test]
    fn the_committed_example_is_what_is_written() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sarif/example.sarif");
        let mut log = log(json!({"start_line": 2, "end_line": 3, "replacement": "x\n"}));
        log["runs"][0]["tool"]["driver"]["semanticVersion"] = "0.1.0".into();
        let written = crate::emit::to_pretty(&log) + "\n";
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let committed: Value = serde_json::from_str(&committed).unwrap_or_default();
        assert_eq!(committed, log, "fixtures/sarif/example.sarif should be:\n{written}");
    }
}
