//! Shows how the items of a batch ended as one HTML file that needs nothing else.

use maud::{DOCTYPE, Markup, html};

use super::head;
use super::parts::short;
use crate::batch::journal::Ended;
use crate::batch::result::BatchResult;
use crate::batch::sums::has_failed;
use crate::emit::junit::{answer, said};
use crate::emit::safe::{one_line, one_line_of};
use crate::emit::words::{self, count};
use crate::exit::Exit;

/// Items of each kind that a page shows.
const MOST: usize = 1_000;

/// Characters of a key, of an answer and of a message.
const TEXT: usize = 300;

/// The items that a page shows: all that it has room for, those that failed first.
#[derive(Debug, Clone, Default)]
pub struct ShownItems {
    failed: Kind,
    findings: Kind,
    ok: Kind,
    left: u64,
}

/// Items that ended alike.
#[derive(Debug, Clone, Default)]
struct Kind {
    shown: Vec<Row>,
    number: usize,
}

#[derive(Debug, Clone)]
struct Row {
    key: String,
    code: u8,
    reason: String,
    text: String,
    files: usize,
    cost_usd: Option<f64>,
    duration_ms: u64,
}

impl ShownItems {
    /// Adds an item.
    pub fn add(&mut self, key: &str, ended: Option<&Ended>) {
        let Some(ended) = ended else {
            self.left += 1;
            return;
        };
        let kind = match ended.exit_code {
            code if code == Exit::Gate.code() => &mut self.findings,
            code if has_failed(code) => &mut self.failed,
            _ => &mut self.ok,
        };
        kind.number += 1;
        if kind.shown.len() < MOST {
            kind.shown.push(Row::of(key, ended));
        }
    }
}

impl Row {
    fn of(key: &str, ended: &Ended) -> Row {
        let text = match &ended.error {
            Some(error) => error.message.clone(),
            None if ended.exit_code == Exit::Ok.code() => answer(ended),
            None => said(ended),
        };
        Row {
            key: one_line_of(key, TEXT),
            code: ended.exit_code,
            reason: ended.exit_reason.clone(),
            text: one_line_of(&text, TEXT),
            files: ended.product.files.len(),
            cost_usd: ended.cost_usd,
            duration_ms: ended.duration_ms,
        }
    }

    fn shown(&self) -> Markup {
        let class = match self.code {
            0 | 65 => "pill ok",
            3 | 60 => "pill warn",
            _ => "pill no",
        };
        html! {
            div {
                div.row {
                    span class=(class) { (one_line(&self.reason)) }
                    code { (self.key) }
                    span.by {
                        @if self.files > 0 { (count(self.files as u64, "file")) " · " }
                        (short(self.duration_ms))
                        @if let Some(cost) = self.cost_usd.filter(|cost| *cost > 0.0) { " · " (words::cost(cost)) }
                        @if self.code != 0 { " · exit " (self.code) }
                    }
                }
                @if !self.text.is_empty() { p { (self.text) } }
            }
        }
    }
}

impl Kind {
    fn shown(&self, id: &str, title: &str) -> Markup {
        let rest = self.number - self.shown.len();
        html! {
            @if self.number > 0 {
                section id=(id) {
                    h2 { (title) " (" (self.number) ")" }
                    div class="card rows" { @for row in &self.shown { (row.shown()) } }
                    @if rest > 0 { p.by { (count(rest as u64, "more item")) ": " code { "qwen batch report --csv" } " lists all of them." } }
                }
            }
        }
    }
}

/// Returns the page. `name` is that of the recipe, or what stands for it.
pub fn batch_page(result: &BatchResult, items: &ShownItems, name: &str) -> String {
    let (class, state) = match () {
        () if result.items.not_final > 0 => ("warn", "Not finished".to_owned()),
        () if result.items.failed + result.items.denied > 0 => {
            ("no", format!("✗ {} failed", result.items.failed + result.items.denied))
        }
        () if result.items.findings > 0 => ("warn", "! Findings".to_owned()),
        () => ("ok", "✓ Done".to_owned()),
    };
    let title = format!("{} with {}", count(result.items.total, "item"), one_line_of(name, TEXT));
    let kinds =
        [(&items.failed, "failed", "Failed"), (&items.findings, "findings", "Findings"), (&items.ok, "done", "Done")];
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, false, &html! {}))
            body {
                header.top {
                    a class="vh skip" href="#summary" { "Skip to the summary" }
                    span class=(format!("pill {class}")) { (state) }
                    span.title { (title) }
                    nav aria-label="Parts" {
                        a href="#summary" { "Summary" }
                        @for (kind, id, shown) in kinds { @if kind.number > 0 { a href=(format!("#{id}")) { (shown) } } }
                    }
                }
                div.page {
                    aside aria-label="Contents" {
                        h2 { "Parts" }
                        ol {
                            li { a href="#summary" { span.p { bdi { "Summary" } } } }
                            @for (kind, id, shown) in kinds { @if kind.number > 0 {
                                li { a href=(format!("#{id}")) { span.p { bdi { (shown) } } span.cnt { (kind.number) } } }
                            } }
                        }
                    }
                    main {
                        (summary(result, &title))
                        @for (kind, id, shown) in kinds { (kind.shown(id, shown)) }
                        footer {
                            p { "batch " (one_line(&result.batch_id)) " · list sha256 " (one_line(&result.items_sha256)) " · made by qwen " (env!("CARGO_PKG_VERSION")) }
                            p { "This page loads nothing from elsewhere. It holds what the model answered: think before you share it." }
                        }
                    }
                }
            }
        }
    }
    .into_string()
}

fn summary(result: &BatchResult, title: &str) -> Markup {
    let (items, usage) = (&result.items, &result.usage);
    let number = |name: &str, number: u64| {
        html! { @if number > 0 { div { dt { (name) } dd { (number) } } } }
    };
    html! {
        section id="summary" {
            h1 { (title) }
            @if items.not_final > 0 { p.lead { (count(items.not_final, "item")) " not done yet." } }
            dl class="card facts" {
                (number("Done", items.ok)) (number("With findings", items.findings)) (number("Denied", items.denied))
                (number("Failed", items.failed)) (number("Left", items.not_final))
                @if let (Some(input), Some(output)) = (usage.input_tokens, usage.output_tokens) {
                    div { dt { "Tokens" } dd { (words::tokens(input)) " in" small { (words::tokens(output)) " out" } } }
                }
                @if let Some(cost) = result.cost_usd.filter(|cost| *cost > 0.0) {
                    div { dt { "Cost" } dd { (words::cost(cost)) small { "estimated" } } }
                }
                @if !result.combined.patches.is_empty() {
                    div { dt { "Changes" } dd { (result.combined.patches.len()) small { "items with a patch" } } }
                }
            }
            @if !result.combined.conflicts.is_empty() {
                h2 { "Conflicts" }
                div class="card rows" { @for conflict in result.combined.conflicts.iter().take(MOST) {
                    p { code { (one_line(&conflict.path)) } " " (one_line_of(&conflict.keys.join(" and "), TEXT)) @if !conflict.lines.is_empty() { ", lines " (one_line(&conflict.lines.join(", "))) } }
                } }
            }
        }
    }
}
