//! Tests that every place where a review is told names the same findings: forty reviews, made by a small grammar.

use std::collections::BTreeSet;
use std::path::Path;

use qwen_run::emit::{Appearance, findings_for_people};
use regex::Regex;
use serde_json::{Value, json};

use super::reviews::{Reviewed, findings};
use super::runner::Seen;

/// A finding as people name it: path, first line and rule.
type Names = BTreeSet<(String, u64, String)>;

/// A file with a name that is written differently almost everywhere, and a line for each finding.
const ODD: &str = "src/ä b.py";

const MESSAGES: [&str; 6] = [
    "It is wrong.",
    "Ask @octocat; fixes #7 <!-- qwen:sticky v1 review-diff -->",
    "::error::no\n### A heading `and` ```fences```",
    "src/other.py:99: error [api-break] forged",
    "- 🔴 error `src/forged.py:1` `correctness`",
    "a | b <script> ![x](https://example.com/a.png)",
];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Makes the answer of a model, and the names of what is true in it.
fn review(number: u64) -> (Vec<Value>, Names) {
    let mut numbers = Numbers(number);
    let (mut all, mut names) = (Vec::new(), Names::new());
    for _ in 0..numbers.below(6) + u64::from(!number.is_multiple_of(7)) {
        let rule = ["correctness", "error-handling", "performance", "api-break"][numbers.below(4) as usize];
        let line = numbers.below(20) + 1;
        let (path, quote, is_true) = match numbers.below(5) {
            0 => ("src/a.py".to_owned(), "    return 1 / 0".to_owned(), Some(("src/a.py", 2))),
            1 => ("b/src/a.py".to_owned(), "return [][0]".to_owned(), Some(("src/a.py", 6))),
            2 => (format!("./{ODD}"), format!("+x{line} = {line}"), Some((ODD, line))),
            3 => ("src/a.py".to_owned(), "no such line".to_owned(), None),
            _ => (ODD.to_owned(), format!("x{line} = {line}"), Some((ODD, line))),
        };
        let severity = ["error", "warning", "note"][numbers.below(3) as usize];
        let confidence = ["high", "medium", "low"][numbers.below(3) as usize];
        let mut finding = json!({
            "rule_id": rule, "path": path, "quote": quote, "start_line": numbers.below(30) + 1,
            "severity": severity,
            "confidence": confidence,
            "message": MESSAGES[numbers.below(6) as usize],
        });
        if numbers.below(3) == 0 {
            finding["suggestion"] = json!({"replacement": "y = 1\n"});
        }
        // The same lines twice, in the same words, are one finding; which of two rules it keeps is not asked here.
        let is_taken = is_true.is_some_and(|(path, line)| {
            names.iter().any(|name: &(String, u64, String)| name.0 == path && name.1 == line)
        });
        if is_taken {
            continue;
        }
        all.push(finding);
        names.extend(is_true.map(|(path, line)| (path.to_owned(), line, rule.to_owned())));
    }
    (all, names)
}

/// The names of findings as the findings schema has them.
fn of_values(values: &Value) -> Names {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let found = values.as_array().unwrap_or_else(|| panic!("{values}"));
    found.iter().map(|one| (text(one, "path"), one["start_line"].as_u64().unwrap(), text(one, "rule_id"))).collect()
}

/// The names in lines of text, by a pattern with path, line and rule.
fn of_lines(text: &str, pattern: &str) -> Names {
    let pattern = Regex::new(pattern).unwrap();
    let name = |line: &str| {
        let found = pattern.captures(line)?;
        Some((found["path"].to_owned(), found["line"].parse().unwrap(), found["rule"].to_owned()))
    };
    text.lines().filter_map(name).collect()
}

fn of_terminal(values: &Value) -> Names {
    let look = Appearance { width: 400, ascii: true, colour: false };
    let text = findings_for_people(values.as_array().unwrap(), &look);
    let title = Regex::new(r"^(?:error|warning|note)\[([^\]]+)\]: ").unwrap();
    let place = Regex::new(r"^ *--> (.+?):(\d+)(?::\d+)?$").unwrap();
    let (mut names, mut rule) = (Names::new(), None);
    for line in text.lines() {
        if let Some(found) = title.captures(line) {
            rule = Some(found[1].to_owned());
        } else if let Some(found) = place.captures(line)
            && let Some(rule) = rule.take()
        {
            names.insert((found[1].to_owned(), found[2].parse().unwrap(), rule));
        }
    }
    names
}

fn of_sarif(log: &Value) -> Names {
    let results = log["runs"][0]["results"].as_array().unwrap();
    let name = |result: &Value| {
        let place = &result["locations"][0]["physicalLocation"];
        let path = place["artifactLocation"]["uri"].as_str().unwrap().replace("%C3%A4", "ä").replace("%20", " ");
        (path, place["region"]["startLine"].as_u64().unwrap(), result["ruleId"].as_str().unwrap().to_owned())
    };
    results.iter().map(name).collect()
}

fn of_rdjson(log: &Value) -> Names {
    let diagnostics = log["diagnostics"].as_array().unwrap();
    let name = |one: &Value| {
        let line = one["location"]["range"]["start"]["line"].as_u64().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&one["location"]["path"]), line, text(&one["code"]["value"]))
    };
    diagnostics.iter().map(name).collect()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

/// The names that each place has.
fn told(review: &Seen, reviewed: &Reviewed) -> Vec<(&'static str, Names)> {
    let output = |name: &str| review.outputs[name].as_str();
    let result = read(Path::new(output("result-file")));
    let structured: Value = serde_json::from_str(output("structured-output")).unwrap();
    let of_output: Value = serde_json::from_str(output("findings")).unwrap();
    let proposal = read(&Path::new(output("proposal-dir")).join("proposal.json"));
    let listed = r"^- \S+ \w+ \[?`(?P<path>[^`]+):(?P<line>\d+)`(?:\]\([^)]*\))? `(?P<rule>[^`]+)`";
    let plain = r"^(?P<path>.+?):(?P<line>\d+): (?:error|warning|note) \[(?P<rule>[^\]]+)\] ";
    let mut all = vec![
        ("result", of_values(&result["findings"])),
        ("structured answer", of_values(&structured["findings"])),
        ("text", of_lines(result["result"].as_str().unwrap(), plain)),
        ("output `findings`", of_values(&of_output)),
        ("proposal", of_values(&proposal["result"]["findings"])),
        ("terminal", of_terminal(&result["findings"])),
        ("summary", of_lines(&review.summary, listed)),
        ("comment", reviewed.comments().iter().flat_map(|text| of_lines(text, listed)).collect()),
    ];
    if !output("sarif-file").is_empty() {
        all.push(("SARIF", of_sarif(&read(Path::new(output("sarif-file"))))));
        all.push(("rdjson", of_rdjson(&read(Path::new(output("rdjson-file"))))));
    }
    all
}

/// The fingerprints of findings, and those of the comments at lines.
fn marks(review: &Seen, reviewed: &Reviewed) -> (BTreeSet<String>, BTreeSet<String>) {
    let result = read(Path::new(&review.outputs["result-file"]));
    let found = result["findings"].as_array().unwrap();
    let found = found.iter().map(|one| one["fingerprint"].as_str().unwrap().to_owned()).collect();
    let mark = Regex::new(r"<!-- qwen:finding v1 (\S+) ").unwrap();
    let posted =
        reviewed.threads().iter().map(|(_, _, _, _, text)| mark.captures(text).unwrap()[1].to_owned()).collect();
    (found, posted)
}

fn agree(numbers: std::ops::Range<u64>) {
    let odd: String = (1..=20).map(|line| format!("x{line} = {line}\n")).collect();
    let token = format!("token = ghp_{}\n", "a1B2c3D4e5F6".repeat(3));
    for number in numbers {
        let (answer, mut names) = review(number);
        let reviewed = Reviewed::new([findings(&answer)]);
        let mut files = vec![(ODD, odd.as_str())];
        if number % 5 == 4 {
            files.push(("notes.txt", token.as_str()));
            names.insert(("notes.txt".to_owned(), 1, "qwen/secret".to_owned()));
        }
        reviewed.push(&files);
        let (seen, _) = reviewed.both();
        for (place, found) in told(&seen, &reviewed) {
            assert_eq!(found, names, "{place} of review {number}: {answer:#?}");
        }
        let (found, posted) = marks(&seen, &reviewed);
        assert!(posted.is_subset(&found), "review {number}: {posted:?} are comments, {found:?} are findings");
        assert_eq!(posted.len(), found.len(), "review {number}");
    }
}

#[test]
fn the_first_ten_reviews_are_told_alike_everywhere() {
    agree(0..10);
}

#[test]
fn the_second_ten_reviews_are_told_alike_everywhere() {
    agree(10..20);
}

#[test]
fn the_third_ten_reviews_are_told_alike_everywhere() {
    agree(20..30);
}

#[test]
fn the_fourth_ten_reviews_are_told_alike_everywhere() {
    agree(30..40);
}
