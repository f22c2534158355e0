//! Shows findings: where, how bad, what, and the quoted lines or the suggested ones.

use maud::{Markup, html};

use super::code::{Lines, Side, mark_words};
use super::colour::Colours;
use super::parts::path;
use super::prose::inline;
use crate::emit::findings::{Findings, Found, Level, replacement_lines};
use crate::emit::safe::one_line;
use crate::emit::words::count;

/// A finding that may stand below a line of the changes.
pub(super) struct Placed {
    /// The file.
    pub(super) path: String,
    /// Its last line, counted from 1.
    pub(super) line: usize,
    /// Counted from 1.
    number: usize,
    level: Level,
    message: String,
}

/// Returns the findings with their places.
pub(super) fn placed(findings: &Findings) -> Vec<Placed> {
    let place = |(at, found): (usize, &Found)| Placed {
        path: found.path.clone(),
        line: usize::try_from(found.end_line).unwrap_or(usize::MAX),
        number: at + 1,
        level: found.severity,
        message: found.message.clone(),
    };
    findings.all.iter().enumerate().map(place).collect()
}

/// Shows a finding below the line that it is about.
pub(super) fn here(found: &Placed) -> Markup {
    html! {
        div class=(format!("here {}", found.level.name())) {
            (pill(found.level)) (inline(&found.message)) " "
            a href=(format!("#n{}", found.number)) { "finding " (found.number) }
        }
    }
}

/// Shows the list at the side.
pub(super) fn list(findings: &Findings) -> Markup {
    html! {
        ol { @for (at, found) in findings.all.iter().enumerate() {
            li { a href=(format!("#n{}", at + 1)) {
                span.p { bdi { (one_line(&found.path)) ":" (found.start_line) } }
                span.cnt { (found.severity.name()) }
            } }
        } }
    }
}

/// Counts findings by how bad they are: `2 errors, 1 warning`.
pub(super) fn counted(findings: &Findings) -> String {
    let of = |level: Level| findings.all.iter().filter(|found| found.severity == level).count() as u64;
    let levels = [Level::Error, Level::Warning, Level::Note].map(|level| (of(level), level.name()));
    let parts: Vec<String> =
        levels.into_iter().filter(|(number, _)| *number > 0).map(|(number, name)| count(number, name)).collect();
    parts.join(", ")
}

/// Shows every finding; `dropped` says how many are not among them.
pub(super) fn shown(findings: &Findings, dropped: u64, colours: &mut Colours) -> Markup {
    let all: Vec<Markup> = findings.all.iter().enumerate().map(|(at, found)| one(at + 1, found, colours)).collect();
    html! {
        section id="findings" {
            h2 { "Findings" }
            @for one in &all { (one) }
            @if dropped > 0 { p.by { (count(dropped, "finding")) " left out: they could not be confirmed." } }
        }
    }
}

fn one(number: usize, found: &Found, colours: &mut Colours) -> Markup {
    let lines = if found.end_line > found.start_line {
        format!(":{}–{}", found.start_line, found.end_line)
    } else {
        format!(":{}", found.start_line)
    };
    html! {
        article class=(format!("card find {}", found.severity.name())) id=(format!("n{number}")) {
            div.row {
                (pill(found.severity))
                (path(&found.path)) span.by { (lines) }
                code { (one_line(&found.rule_id)) }
                @if let Some(confidence) = &found.confidence { span.by { (one_line(confidence)) " confidence" } }
            }
            p { (inline(&found.message)) }
            (quoted(found, colours))
        }
    }
}

/// Shows the quoted lines, and what is suggested in their place.
fn quoted(found: &Found, colours: &mut Colours) -> Markup {
    let start = usize::try_from(found.start_line).unwrap_or(usize::MAX);
    let with_end =
        |text: &str| if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end_matches('\n')) };
    let mut old = Lines::of_text(&found.path, &with_end(&found.quote), colours);
    let Some(suggestion) = &found.suggestion else {
        return html! {
            @if old.len() > 0 {
                div.diff { div.b { div.l {
                    @for at in 0..old.len() { (old.line(at, Side::Both, Some(start.saturating_add(at)), None)) }
                } } }
            }
        };
    };
    let from = usize::try_from(suggestion.start_line).unwrap_or(usize::MAX);
    let mut new = Lines::of_text(&found.path, &with_end(replacement_lines(&suggestion.replacement)), colours);
    // Of other lines than the quoted ones nothing is known here.
    let replaces_quote = suggestion.start_line == found.start_line && suggestion.end_line == found.end_line;
    let shown = if replaces_quote { old.len() } else { 0 };
    let (was, is) = (0..shown, 0..new.len());
    mark_words(&mut old, was.clone(), &mut new, is.clone());
    html! {
        p.by { "suggested change" @if !replaces_quote { ", in the place of lines " (suggestion.start_line) "–" (suggestion.end_line) } }
        div.diff { div.b {
            @if shown > 0 { div.d { @for at in was { (old.line(at, Side::Old, Some(start.saturating_add(at)), None)) } } }
            @if !is.is_empty() { div.a { @for at in is { (new.line(at, Side::New, None, Some(from.saturating_add(at)))) } } }
        } }
    }
}

fn pill(level: Level) -> Markup {
    let class = match level {
        Level::Error => "pill no",
        Level::Warning => "pill warn",
        Level::Note => "pill note",
    };
    html! { span class=(class) { (level.name()) } }
}
