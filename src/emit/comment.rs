//! Writes what a run says on GitHub: at a line, and in the comment below a pull request.

use serde_json::Value;

use super::findings::{Found, Level, Suggested, replacement_lines};
use super::markdown::{block, code, prose};
use super::report::Report;
use super::safe;
use super::summary::{denials, figures, headline, made_by, warnings};
use super::words;

/// GitHub takes 65,536 characters.
const LONGEST: usize = 60_000;

/// The most findings and files that are named.
const MOST: usize = 100;

/// The sentence above a review.
pub fn review_body(report: &Report) -> String {
    format!("{}. Check each comment before you act on it.", made_by(report))
}

/// Writes the comment at the lines of a finding. `mark` is its last line. `suggests`: the lines are those that the
/// suggestion replaces; else it is shown as text.
pub fn inline(finding: &Found, suggests: bool, mark: &str) -> String {
    let mut text = format!(
        "{} **{}** {}\n\n{}\n\n",
        symbol(finding.severity),
        finding.severity.name(),
        code(&finding.rule_id),
        prose(&finding.message, 2_000)
    );
    if let Some(suggestion) = finding.suggestion.as_ref().filter(|_| suggests) {
        let lines = replacement_lines(&suggestion.replacement);
        let fence = "`".repeat(super::markdown::longest_run(lines).max(2) + 1);
        let lines = if suggestion.replacement.is_empty() { String::new() } else { format!("{lines}\n") };
        text.push_str(&format!("{fence}suggestion\n{lines}{fence}\n\n"));
    } else if let Some(suggestion) = &finding.suggestion {
        let Suggested { start_line, end_line, replacement } = suggestion;
        text.push_str(&format!(
            "Suggested instead of lines {start_line} to {end_line}:\n\n{}\n",
            block(replacement.as_str(), 2_000)
        ));
    }
    text + mark
}

/// Tells whether a suggestion can be shown to be accepted with a click: what it writes is what a reader sees.
pub fn can_be_suggested(replacement: &str) -> bool {
    !replacement.contains(safe::is_active)
}

/// Writes the comment whose code is no longer there: what it said is folded away. `old` is our own text, without its
/// last line.
pub fn gone(old: &str, head: &str, mark: &str) -> String {
    let head = code(words::commit(head));
    format!(
        "✅ No longer in the code at {head}\n\n<details><summary>What it said</summary>\n\n{old}\n\n</details>\n\n{mark}"
    )
}

/// A finding in the comment below a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// How bad it is.
    pub severity: Level,
    /// `path:line`, else `path`.
    pub place: String,
    /// The rule.
    pub rule_id: String,
    /// Its own words; `None` where the link leads to them.
    pub message: Option<String>,
    /// The comment at its line.
    pub url: Option<String>,
}

/// What the comment below a pull request says.
#[derive(Debug, Clone, Copy)]
pub struct Status<'a> {
    /// The run.
    pub report: &'a Report,
    /// The first line.
    pub mark: &'a str,
    /// The last line; empty: none.
    pub state: &'a str,
    /// The commit that was looked at.
    pub head: Option<&'a str>,
    /// Findings that are open now.
    pub findings: &'a [Listed],
    /// What could not be done.
    pub notes: &'a [String],
    /// The page of the workflow run.
    pub run_url: Option<&'a str>,
}

/// Writes the comment below a pull request.
pub fn status(status: &Status<'_>) -> String {
    let report = status.report;
    let mut text = format!("{}\n### {}\n\n", status.mark, headline(report));
    let at = status.head.map(|head| format!(" at commit {}", code(words::commit(head)))).unwrap_or_default();
    let run = status.run_url.map(|url| format!(" · [the run and its log]({url})")).unwrap_or_default();
    text.push_str(&format!("{}{at}{run}\n\n", made_by(report)));
    if let Some(error) = report.error.as_ref().filter(|_| report.ending.conclusion != "findings") {
        text.push_str(&format!("**Why:** {}\n\n", prose(&error.message, 2_000)));
    }
    text.push_str(&list(status.findings));
    for note in status.notes {
        text.push_str(&format!("> [!WARNING]\n> {}\n\n", prose(note, 1_000)));
    }
    text.push_str(&not_looked_at(report));
    text.push_str(&denials(report));
    text.push_str(&warnings(report));
    text.push_str(&figures(report));
    let state = if status.state.is_empty() { String::new() } else { format!("\n{}", status.state) };
    cut(&mut text, LONGEST - state.len());
    text + &state
}

/// Writes a run's answer as a comment of its own.
pub fn answer(report: &Report, mark: &str) -> String {
    let mut text = format!("{mark}\n");
    match &report.error {
        Some(error) => text.push_str(&format!("### {}\n\n{}\n\n", headline(report), prose(&error.message, 2_000))),
        None => text.push_str(&block(&report.answer.result, LONGEST / 2)),
    }
    text.push_str(&format!("\n{}.\n\n{}", made_by(report), figures(report)));
    cut(&mut text, LONGEST);
    text
}

fn symbol(level: Level) -> &'static str {
    match level {
        Level::Error => "🔴",
        Level::Warning => "🟡",
        Level::Note => "🔵",
    }
}

fn list(findings: &[Listed]) -> String {
    let mut text = String::new();
    for finding in findings.iter().take(MOST) {
        let place = code(&finding.place);
        let place = finding.url.as_ref().map_or_else(|| place.clone(), |url| format!("[{place}]({url})"));
        let (symbol, word) = (symbol(finding.severity), finding.severity.name());
        text.push_str(&format!("- {symbol} {word} {place} {}", code(&finding.rule_id)));
        if let Some(message) = &finding.message {
            text.push_str(&format!("  \n  {}", prose(message, 2_000)));
        }
        text.push('\n');
    }
    if findings.len() > MOST {
        text.push_str(&format!("- … and {} more\n", findings.len() - MOST));
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// Says which files of the change nobody looked at, and why.
fn not_looked_at(report: &Report) -> String {
    let coverage = report.answer.structured_output.as_ref().and_then(|value| value.get("coverage"));
    let Some(coverage) = coverage.filter(|coverage| coverage.is_object()) else { return String::new() };
    let entries = |key: &str| coverage.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (missing, parts) = (entries("not_looked_at"), entries("cut"));
    let more = coverage.get("more").and_then(Value::as_u64).unwrap_or(0);
    let total = missing.len() as u64 + parts.len() as u64 + more;
    if total == 0 {
        return String::new();
    }
    let lines = missing
        .iter()
        .map(|file| format!("- {}: {}\n", code(&text(file, "path")), text(file, "class").replace('_', " ")));
    let lines = lines.chain(
        parts
            .iter()
            .map(|cut| format!("- {}: not lines {}\n", code(&text(cut, "path")), prose(&text(cut, "lines"), 100))),
    );
    let shown: String = lines.take(MOST).collect();
    let rest = total.saturating_sub(MOST as u64).max(more);
    let rest = if rest > 0 { format!("- … and {rest} more\n") } else { String::new() };
    let title = format!("Not looked at, or in part: {}", words::count(total, "file"));
    format!("<details><summary>{title}</summary>\n\n{shown}{rest}\n</details>\n\n")
}

/// Cuts at the end of a line, and says so.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = text.floor_char_boundary(most - 20);
        let end = text[..end].rfind('\n').unwrap_or(end);
        text.truncate(end);
        text.push_str("\n\n(cut)\n");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::emit::findings::found;
    use crate::event::{Event, RunError, RunFinished};
    use crate::exit::Exit;

    fn told(finding: Value, coverage: Value) -> Report {
        let mut end = RunFinished::failed(Exit::Gate, RunError::default());
        end.error = None;
        end.findings = vec![finding];
        end.structured = Some(json!({"findings": [], "coverage": coverage}));
        crate::emit::report([&Event::RunFinished(Box::new(end))])
    }

    const HOSTILE: &str = "ask @octocat, fixes #1 <!-- qwen:finding v1 00 --> ![x](http://x)\n```\n<img src=x>";

    #[test]
    fn what_a_model_writes_acts_nowhere_and_ends_no_suggestion() {
        let report = told(
            json!({"rule_id": "bug", "severity": "error", "path": "a|b.rs", "start_line": 1, "end_line": 2, "quote": "q",
                   "message": HOSTILE, "confidence": "high",
                   "suggestion": {"start_line": 1, "end_line": 2, "replacement": "````\n@x\n"}}),
            json!({"files": 2, "looked_at": 1, "not_looked_at": [{"path": "a`.env", "status": "A", "class": "denied"}],
                   "cut": [{"path": "b", "lines": "3-9"}], "more": 0}),
        );
        let finding = &found(&report.findings)[0];
        insta::assert_snapshot!(inline(finding, true, "<!-- mark -->"), @r"
        🔴 **error** `bug`

        ask `@octocat,` fixes `#1` `<!--` `qwen:finding` v1 00 `-->` `![x](http://x)` ' `<img` `src=x>`

        `````suggestion
        ````
        @x
        `````

        <!-- mark -->
        ");
        let listed = [Listed {
            severity: finding.severity,
            place: format!("{}:{}", finding.path, finding.start_line),
            rule_id: finding.rule_id.clone(),
            message: Some(finding.message.clone()),
            url: None,
        }];
        let text = status(&Status {
            report: &report,
            mark: "<!-- sticky -->",
            state: "<!-- state -->",
            head: Some("0123456789abcdef"),
            findings: &listed,
            notes: &["GitHub refused: @you".to_owned()],
            run_url: Some("https://github.example/run"),
        });
        assert!(text.starts_with("<!-- sticky -->\n### 🔴 1 error found\n"), "{text}");
        assert!(text.ends_with("\n<!-- state -->"), "{text}");
        assert!(text.contains("- ``a`.env``: denied\n- `b`: not lines 3\\-9\n"), "{text}");
        assert_eq!(text.matches("<!--").count(), 3, "ours, and one in code: {text}");
    }

    #[test]
    fn a_comment_is_as_long_as_github_takes() {
        let mut report = told(json!({}), json!({}));
        report.answer.result = "word\n".repeat(100_000);
        assert!(answer(&report, "<!-- m -->").len() <= LONGEST);
        let many: Vec<Listed> = (0..MOST)
            .map(|_| Listed {
                severity: Level::Note,
                place: "p".repeat(900),
                rule_id: "r".into(),
                message: Some("m ".repeat(900)),
                url: None,
            })
            .collect();
        let notes = [];
        let long = status(&Status {
            report: &report,
            mark: "m",
            state: "<!-- state -->",
            head: None,
            findings: &many,
            notes: &notes,
            run_url: None,
        });
        assert!(long.len() <= LONGEST && long.ends_with("(cut)\n\n<!-- state -->"), "{}", long.len());
    }
}
