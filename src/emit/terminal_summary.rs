//! Summarizes a finished run at a terminal: what it did, what it cost, and what to do next.

use unicode_width::UnicodeWidthStr as _;

use super::appearance::{Appearance, RED};
use super::ended::{self, Mark, indented};
use super::kept::Next;
use super::report::Report;
use super::safe::one_line;
use super::text::patch_bytes;
use super::words::{self, count};
use crate::change::patch_reader::Patch;
use crate::change::selection::numbered;
use crate::event::{PermissionDenial, RunFinished};
use crate::exit::Exit;

/// Returns the lines below the answer of a run: how it ended, what it took, and what to do next.
pub(super) fn lines(end: &RunFinished, report: &Report, next: Next<'_>, look: &Appearance) -> Vec<String> {
    if report.ran.run_id.is_none() {
        return error(end, look);
    }
    let (mark, text) = headline(end, report);
    let mut lines = ended::headline(mark, &text, look);
    if let Some(text) = checks(end, report) {
        lines.extend(indented(&text, look));
    }
    lines.extend(indented(&totals(end, report), look));
    if let Some(text) = left_out(end, report) {
        lines.extend(indented(&text, look));
    }
    let next = next_steps(end, report, next, look);
    if next.is_empty()
        && let Some(hint) = end.error.as_ref().and_then(|error| error.hint.as_deref())
    {
        lines.extend(indented(hint, look));
    }
    lines.extend(ended::commands(&next, look));
    lines
}

/// Writes an error of any command: what is wrong, then what to do.
pub(super) fn error(end: &RunFinished, look: &Appearance) -> Vec<String> {
    let Some(error) = &end.error else { return Vec::new() };
    let mut lines = Vec::new();
    for (at, line) in error.message.lines().enumerate() {
        // Further lines are indented: no text in an error can look like a line of this program.
        let before = if at == 0 { format!("{} ", look.paint(RED.bold(), "error:")) } else { "  ".to_owned() };
        lines.push(format!("{before}{}", one_line(line)));
    }
    for hint in error.hint.iter().flat_map(|hint| hint.lines()) {
        lines.extend(indented(hint, look));
    }
    lines
}

fn headline(end: &RunFinished, report: &Report) -> (Mark, String) {
    let code = end.exit.code();
    let message = end.error.as_ref().map_or("it failed", |error| error.message.as_str());
    let denied = report.permission_denials.len() as u64;
    match end.exit {
        Exit::Ok => (Mark::Good, done(end, report)),
        Exit::Denied if end.error.as_ref().is_some_and(|error| error.code == "denied") && denied > 0 => {
            (Mark::Partly, format!("{}; {} (exit {code})", done(end, report), denials(denied)))
        }
        Exit::Gate => (Mark::Bad, format!("{} (exit {code})", findings(end))),
        Exit::Verify => (Mark::Bad, format!("Nothing changed: {message} (exit {code})")),
        _ => (Mark::Bad, format!("Stopped: {message} (exit {code})")),
    }
}

fn denials(number: u64) -> String {
    format!("the policy denied {}", count(number, "call"))
}

/// Tells a run that did everything but what was denied from one that failed.
fn left_out(end: &RunFinished, report: &Report) -> Option<String> {
    let what = if report.permission_denials.len() == 1 { "that call" } else { "those calls" };
    let is_whole = matches!(headline(end, report), (Mark::Partly, _));
    is_whole.then(|| format!("only {what} did not run; with --on-deny continue such a run ends with 0"))
}

/// Says what a run that came to its end did.
fn done(end: &RunFinished, report: &Report) -> String {
    let changes = &report.changes;
    if changes.files.is_empty() {
        return match (end.findings.is_empty(), end.changes_expected) {
            (false, _) => findings(end),
            (true, true) => "Nothing to do".to_owned(),
            (true, false) => "Done".to_owned(),
        };
    }
    let lines = words::lines(report.stats.files.total_lines_added, report.stats.files.total_lines_removed);
    let lines = if lines.is_empty() { lines } else { format!(", {lines}") };
    let (branch, commit) = (end.branch.as_deref(), end.commit.as_deref());
    let files = words::delivered(changes.files.len(), branch, commit, changes.applied);
    let is_written = commit.is_some() || changes.applied;
    let more = if is_written { "" } else { "; nothing is written yet" };
    format!("{files}{lines}{more}")
}

/// Counts findings: `2 errors, 1 warning in 2 files`.
fn findings(end: &RunFinished) -> String {
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let of = |level: &str| end.findings.iter().filter(|finding| text(finding, "severity") == level).count() as u64;
    let levels = ["error", "warning", "note"].map(|level| (of(level), level));
    let counted: Vec<String> =
        levels.iter().filter(|(number, _)| *number > 0).map(|(number, level)| count(*number, level)).collect();
    let files: std::collections::BTreeSet<String> = end.findings.iter().map(|finding| text(finding, "path")).collect();
    match counted.is_empty() {
        true => count(end.findings.len() as u64, "finding"),
        false => format!("{} in {}", counted.join(", "), count(files.len() as u64, "file")),
    }
}

/// Says how the checks ended, and how many calls were denied, where the first line does not.
fn checks(end: &RunFinished, report: &Report) -> Option<String> {
    let mut parts = Vec::new();
    let last = report.verify.last().map_or(0, |check| check.attempt);
    let ended: Vec<_> = report.verify.iter().filter(|check| check.attempt == last).collect();
    if end.exit != Exit::Verify && !ended.is_empty() && ended.iter().all(|check| check.passed) {
        let which =
            if ended.len() == 1 { "the check passes".to_owned() } else { format!("all {} checks pass", ended.len()) };
        let most = ended.iter().map(|check| check.attempts).max().unwrap_or(0);
        parts.push(if last > 1 && most > 0 { format!("{which}, attempt {last} of {most}") } else { which });
    }
    let denied = report.permission_denials.len() as u64;
    if denied > 0 && end.exit != Exit::Denied {
        parts.push(denials(denied));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Says what a run took; what is unknown, and a cost of nothing, is left out.
fn totals(end: &RunFinished, report: &Report) -> String {
    let mut parts = vec![count(report.totals.num_turns.into(), "turn")];
    let usage = &report.usage;
    if let Some(input) = usage.input_tokens.filter(|input| *input > 0) {
        let cached = usage.cache_read_input_tokens.filter(|cached| *cached > 0);
        let share = cached.map(|cached| format!(" ({}% cached)", cached.min(input).saturating_mul(100) / input));
        parts.push(format!("{} tokens in{}", words::tokens(input), share.unwrap_or_default()));
    }
    parts.extend(usage.output_tokens.filter(|out| *out > 0).map(|out| format!("{} out", words::tokens(out))));
    parts.extend(report.total_cost_usd.filter(|cost| *cost > 0.0).map(words::cost));
    parts.push(words::time(end.duration_ms));
    parts.join(", ")
}

/// Returns what helps now, each with what it is for: commands, and the rule that would allow a denied call. What does not
/// fit into a line is left out: the end of a command that is cut would be missing.
fn next_steps(end: &RunFinished, report: &Report, known: Next<'_>, look: &Appearance) -> Vec<(&'static str, String)> {
    let changes = &report.changes;
    let (was_denied, is_changed) = (end.exit == Exit::Denied, !changes.files.is_empty());
    let is_open = is_changed && !changes.applied && end.commit.is_none();
    let is_whole = matches!(end.exit, Exit::Ok | Exit::Gate | Exit::Denied);
    let proposes = is_open && is_whole;
    let shows_findings = !end.findings.is_empty() && (!is_changed || end.commit.is_some());
    let mut next = Vec::new();
    next.extend(rule_to_add(&report.permission_denials).filter(|_| is_whole));
    if was_denied && report.ran.recipe.is_none() {
        next.extend(
            report.permission_denials.iter().find_map(|denial| known.explain(denial)).map(|why| ("see why", why)),
        );
    }
    let label = match end.exit {
        Exit::Verify if is_open => Some("the change is kept"),
        _ if proposes || was_denied || shows_findings => Some("look at it"),
        _ => None,
    };
    next.extend(label.and_then(|label| Some((label, known.report()?))));
    if is_changed && changes.applied && end.commit.is_none() {
        next.extend(known.command("undo").map(|command| ("undo it", command)));
    }
    if let Some(command) = known.apply().filter(|_| proposes) {
        let hunks = Patch::parse(&patch_bytes(&end.changes)).map_or(0, |patch| numbered(&patch).len());
        let part = match hunks {
            0 | 1 => None,
            2 => Some(("apply a part", format!("{command} --hunks 1"))),
            _ => Some(("apply a part", format!("{command} --hunks 1,3"))),
        };
        next.extend(part);
        next.push(("apply it", command));
    }
    next.retain(|(_, text)| text.width() + 4 <= look.width);
    next
}

/// Returns the line of a policy that would allow the first denied call, if one line does.
fn rule_to_add(denials: &[PermissionDenial]) -> Option<(&'static str, String)> {
    let label = match denials.len() {
        1 => "to allow it, add to the policy",
        _ => "to allow the first one, add to the policy",
    };
    let line = denials.first()?.allow_with.as_ref().filter(|lines| !lines.contains('\n'))?;
    Some((label, line.clone()))
}
