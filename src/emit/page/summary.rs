//! Shows what came of a run and what it rests on: facts, the model's words, checks, denied calls.

use maud::{Markup, html};

use super::prose::{inline, prose};
use super::shown::Shown;
use super::state::{is_patch_alone, sentence};
use super::transcript::seen;
use super::{findings, parts};
use crate::emit::report::Report;
use crate::emit::safe::{one_line, one_line_of};
use crate::emit::words::{self, count};
use crate::event::{FileReport, PermissionDenial};

/// Denied calls and warnings that are shown.
const MOST: usize = 100;

/// Characters of a command.
const COMMAND: usize = 1000;

/// Shows the title, one sentence, the facts and the command that takes the change.
pub(super) fn summary(shown: &Shown<'_>, title: &str) -> Markup {
    let report = &shown.material.report;
    let lines = FileReport::lines(&report.changes.files);
    let is_proposal = shown.changes.is_some() && !report.changes.applied && report.git.commit.is_none();
    html! {
        section id="summary" {
            h1 { (title) }
            p.lead {
                @if report.findings.is_empty() || !report.changes.files.is_empty() { (one_line(&sentence(report))) } @else { (findings::counted(&shown.findings)) }
                @if lines != (0, 0) { ", " (parts::counts(lines.0, lines.1)) }
                "."
                @if is_proposal { " Nothing is written yet." }
                @if report.changes.policy_changed { " The change touches the policy itself, which had no effect on this run." }
            }
            @if let Some(error) = &report.error {
                div class="card rows" {
                    p { span class=(if report.ending.is_error { "pill no" } else { "pill warn" }) { (one_line(&error.code)) } " " (inline(&error.message)) }
                    @if let Some(hint) = &error.hint { p.by { (inline(hint)) } }
                }
            }
            @if !is_patch_alone(report) { (facts(shown)) }
            @if is_proposal {
                div.cmd {
                    code { "qwen apply " (quoted(shown.name)) }
                    span class="by no-js" { "add " code { "--hunks 1,3-5" } " to take only some" }
                }
            }
        }
    }
}

/// Writes a file's name as a shell reads it.
fn quoted(name: &str) -> String {
    let name = if name.starts_with('-') { format!("./{name}") } else { name.to_owned() };
    words::for_shell(&name).unwrap_or_else(|| "PAGE.html".to_owned())
}

fn facts(shown: &Shown<'_>) -> Markup {
    let report = &shown.material.report;
    let started = shown.material.started();
    let policy = started.map(|started| started.policy.name.as_str()).filter(|name| !name.is_empty());
    let denied = report.permission_denials.len() as u64;
    let usage = &report.usage;
    html! {
        dl class="card facts" {
            @if let Some((passed, detail)) = checks(report) {
                div { dt { "Checks" } dd { span class=(if passed { "plus" } else { "minus" }) { (if passed { "✓ pass" } else { "✗ fail" }) } small { (detail) } } }
            }
            div { dt { "Denied" } dd {
                (if denied == 0 { "nothing".to_owned() } else { count(denied, "call") })
                @if let Some(policy) = policy { small { "policy " (one_line(policy)) } }
            } }
            @if let Some(model) = &report.ran.model {
                div { dt { "Model" } dd { (one_line(model)) small { (count(report.totals.num_turns.into(), "turn")) ", " (count(report.totals.num_tool_calls.into(), "call")) } } }
            }
            @if let Some(input) = usage.input_tokens.filter(|input| *input > 0) {
                div { dt { "Tokens" } dd { (words::tokens(input)) " in" small {
                    @if let Some(output) = usage.output_tokens { (words::tokens(output)) " out" }
                    @if let Some(cached) = usage.cache_read_input_tokens.filter(|cached| *cached > 0) {
                        ", " (cached.min(input).saturating_mul(100) / input) "% from the cache"
                    }
                } } }
            }
            @if let Some(cost) = report.total_cost_usd.filter(|cost| *cost > 0.0) {
                div { dt { "Cost" } dd { (words::cost(cost)) small { "estimated" } } }
            }
            div { dt { "Time" } dd { (words::time(report.totals.duration_ms)) small { (words::time(report.totals.duration_api_ms)) " of it the model" } } }
            @if let Some(base) = &report.changes.base {
                div { dt { "Base" } dd { span.mono { (one_line(words::commit(base))) }
                    @if let Some(is_dirty) = started.and_then(|started| started.git_dirty) { small { (if is_dirty { "with uncommitted changes" } else { "clean work tree" }) } }
                } }
            }
        }
    }
}

/// Says whether the last checks passed, and which attempt that was.
fn checks(report: &Report) -> Option<(bool, String)> {
    let last = report.verify.iter().map(|check| check.attempt).max()?;
    let ended: Vec<_> = report.verify.iter().filter(|check| check.attempt == last).collect();
    let most = ended.iter().map(|check| check.attempts).max().unwrap_or(0);
    let of = if most > 0 { format!(" of {most}") } else { String::new() };
    Some((ended.iter().all(|check| check.passed), format!("attempt {last}{of}")))
}

/// Shows what the model says, the checks, the denied calls and the warnings.
pub(super) fn evidence(report: &Report) -> Markup {
    html! {
        @if !report.answer.result.trim().is_empty() {
            section { h2 { "What the model says" } blockquote.said { (prose(&report.answer.result)) } }
        }
        @if !report.verify.is_empty() {
            section {
                h2 { "Checks" }
                div class="card rows" { @for check in report.verify.iter().take(MOST) {
                    div {
                        div.row {
                            span class=(if check.passed { "pill ok" } else { "pill no" }) { (if check.passed { "✓ pass" } else { "✗ fail" }) }
                            code { (one_line_of(&check.command, COMMAND)) }
                            span.by {
                                "attempt " (check.attempt)
                                @if let Some(code) = check.exit_code.filter(|_| !check.passed) { ", exit " (code) }
                                " · " (parts::short(check.duration_ms))
                            }
                        }
                        @if !check.passed && !check.output_tail.trim().is_empty() { (seen(&check.output_tail)) }
                    }
                } }
            }
        }
        @if !report.permission_denials.is_empty() {
            section {
                h2 { "Denied by the policy" }
                div class="card rows" { @for denial in report.permission_denials.iter().take(MOST) { (denied(denial)) } }
                @if report.permission_denials.len() > MOST { p.by { (count((report.permission_denials.len() - MOST) as u64, "more call")) } }
            }
        }
        @if !report.warnings.is_empty() {
            section {
                h2 { "Warnings" }
                div class="card rows" { @for warning in report.warnings.iter().take(MOST) { p { (inline(warning)) } } }
            }
        }
    }
}

fn denied(denial: &PermissionDenial) -> Markup {
    let what = ["command", "file_path", "path", "url"].iter().find_map(|key| denial.tool_input.get(key)?.as_str());
    html! {
        div {
            div.row {
                span class="pill warn" { "denied" }
                span.by { (one_line(&denial.tool_name)) }
                @if let Some(what) = what { code { (one_line_of(what, COMMAND)) } }
                span.by { "turn " (denial.turn) }
            }
            p.by {
                (inline(&denial.reason))
                @if let Some(rule) = &denial.rule { " · rule " code { (one_line(rule)) } }
                @if let Some(source) = &denial.source { " of " (one_line(source)) }
            }
            @if let Some(hint) = &denial.hint { p.by { (inline(hint)) } }
            @if let Some(lines) = &denial.allow_with {
                p.by { "To allow it, add to the policy:" }
                (seen(lines))
            }
        }
    }
}
