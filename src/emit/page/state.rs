//! Says in a word and in a sentence how a run ended.

use super::findings::counted;
use crate::emit::findings::{Findings, Level};
use crate::emit::report::Report;
use crate::emit::words::{self, count};

/// Tells whether a report is only about a patch that somebody gave.
pub(super) fn is_patch_alone(report: &Report) -> bool {
    report.ran.run_id.is_none() && report.error.is_none()
}

/// Returns a word for how the run ended, and its class.
pub(super) fn state(report: &Report, findings: &Findings) -> (&'static str, String) {
    let (changes, code) = (&report.changes, report.ending.exit_code);
    let has_files = !changes.files.is_empty() || is_patch_alone(report);
    let good = |word: &str| ("ok", format!("✓ {word}"));
    match report.ending.conclusion.as_str() {
        _ if is_patch_alone(report) => ("note", "Patch".to_owned()),
        "success" | "findings" if !findings.all.is_empty() => {
            let worst = findings.all.iter().map(|found| found.severity).max();
            match worst {
                Some(Level::Error) => ("no", format!("✗ {}", counted(findings))),
                Some(Level::Warning) => ("warn", format!("! {}", counted(findings))),
                Some(Level::Note) | None => ("note", counted(findings)),
            }
        }
        "success" if report.git.commit.is_some() => good("Committed"),
        "success" if has_files && changes.applied => good("Changed"),
        "success" if has_files => good("Proposed"),
        "success" => good("Done"),
        "nothing_to_do" => good("Nothing to do"),
        "denied" if has_files && report.git.commit.is_some() => ("warn", "! Committed, calls denied".to_owned()),
        "denied" if has_files && changes.applied => ("warn", "! Changed, calls denied".to_owned()),
        "denied" if has_files => ("warn", "! Proposed, calls denied".to_owned()),
        "denied" => ("warn", "! Calls denied".to_owned()),
        "refused_trigger" => ("no", "✗ Not started".to_owned()),
        "verify_failed" => ("no", "✗ A check fails".to_owned()),
        "limit" => ("no", "✗ A limit is reached".to_owned()),
        _ => ("no", format!("✗ Failed, exit {code}")),
    }
}

/// Says what a run leaves.
pub(super) fn sentence(report: &Report) -> String {
    let changes = &report.changes;
    if is_patch_alone(report) {
        return "A patch".to_owned();
    }
    if changes.files.is_empty() {
        return match report.findings.len() {
            0 if report.ending.is_error => "Nothing has changed".to_owned(),
            0 => "No file changes".to_owned(),
            number => count(number as u64, "finding"),
        };
    }
    let (branch, commit) = (report.git.branch.as_deref(), report.git.commit.as_deref());
    words::delivered(changes.files.len(), branch, commit, changes.applied)
}
