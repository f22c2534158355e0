//! Defines what the job with the model hands to the job that delivers: all that is shown or done there comes from this
//! file, whose digest travels as an output of the job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::report::Report;
use super::stats::Stats;

/// The version of the format.
pub const PROPOSAL: u32 = 1;

/// The most characters of the answer and of a comment.
const TEXT: usize = 20_000;

/// The most characters of a message, a quote or a check's output.
const MESSAGE: usize = 2_000;

/// The most denials, warnings and checks.
const OTHERS: usize = 50;

/// A proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposalFile {
    /// The version of this format: 1.
    pub proposal: u32,
    /// The repository, `OWNER/NAME`.
    pub repository: String,
    /// What the run is about.
    pub on: Subject,
    /// The number of the pull request or issue.
    pub number: Option<u64>,
    /// The event's name.
    pub event: String,
    /// Who caused the event.
    pub actor: String,
    /// The last commit of the pull request, which was looked at.
    pub head: Option<String>,
    /// The last commit of the branch that it is to be merged into.
    pub base: Option<String>,
    /// A digest of the directory and the parameters of the run.
    pub scope: Option<String>,
    /// The commit that recipe and policy were read from.
    pub trusted: Option<String>,
    /// Comments of ours whose code is no longer there.
    pub gone: Vec<Gone>,
    /// Labels that the answer names.
    pub labels: Vec<String>,
    /// The comment that started the run, to be answered.
    pub reply_to: Option<ReplyTo>,
    /// The result object, without the patch, which is in a file of its own.
    pub result: Report,
}

/// What a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A pull request.
    PullRequest,
    /// An issue.
    Issue,
    /// Neither.
    None,
}

/// A comment of ours whose code is no longer there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    /// Its number.
    pub comment: u64,
    /// The finding's.
    pub fingerprint: String,
}

/// A comment to be answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyTo {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub kind: ReplyKind,
}

/// Where a comment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// Below an issue or a pull request.
    Comment,
    /// In a thread of a review.
    Review,
}

/// Returns what of a result is handed over: long texts are cut, and what nobody is shown is left out.
pub fn for_proposal(mut report: Report) -> Report {
    let coverage = report.answer.structured_output.as_ref().and_then(|value| value.get("coverage")).cloned();
    let has_findings = report.answer.structured_output.as_ref().is_some_and(|value| value.get("findings").is_some());
    report.answer.structured_output = has_findings.then(|| json!({"findings": [], "coverage": coverage}));
    report.answer.structured_result = None;
    cut(&mut report.answer.result, TEXT);
    (report.changes.patch, report.changes.patch_base64, report.changes.patch_file) = (None, None, None);
    for finding in &mut report.findings {
        for key in ["message", "quote"] {
            if let Some(Value::String(text)) = finding.get_mut(key) {
                cut(text, MESSAGE);
            }
        }
    }
    report.verify.truncate(OTHERS);
    for check in &mut report.verify {
        cut(&mut check.output_tail, MESSAGE);
    }
    report.permission_denials.truncate(OTHERS);
    for denial in &mut report.permission_denials {
        // What the table of denied calls shows.
        let shown = ["command", "file_path", "path", "url"].iter().find_map(|key| {
            let mut text = denial.tool_input.get(key)?.as_str()?.to_owned();
            cut(&mut text, 200);
            Some(json!({ *key: text }))
        });
        denial.tool_input = shown.unwrap_or_else(|| json!({}));
        cut(&mut denial.reason, MESSAGE);
        (denial.hint, denial.allow_with) = (None, None);
    }
    report.warnings.truncate(OTHERS);
    report.warnings.iter_mut().for_each(|warning| cut(warning, MESSAGE));
    report.todos.clear();
    report.retries.clear();
    report.stats = Stats::default();
    report
}

fn cut(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, RunError, RunFinished};
    use crate::exit::Exit;

    #[test]
    fn what_is_handed_over_is_short_and_has_no_patch() {
        let mut end = RunFinished::failed(Exit::Gate, RunError::default());
        end.result = "ä".repeat(TEXT + 1);
        end.changes.patch = Some("diff".into());
        end.findings = vec![json!({"message": "m".repeat(MESSAGE + 1), "quote": "q"})];
        end.structured = Some(json!({"findings": end.findings, "coverage": {"files": 2}}));
        let report = for_proposal(crate::emit::report([&Event::RunFinished(Box::new(end))]));
        assert_eq!(report.answer.result.chars().count(), TEXT);
        assert_eq!(report.changes.patch, None);
        assert_eq!(report.findings[0]["message"].as_str().unwrap().len(), MESSAGE);
        assert_eq!(report.answer.structured_output, Some(json!({"findings": [], "coverage": {"files": 2}})));
    }
}
