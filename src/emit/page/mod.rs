//! Shows a run and what it proposes as one HTML file that needs nothing else: the review page.
//!
//! Whoever wrote what is shown, it is text: [`safe::escape`] and `maud` escape it, links stay text, and only
//! [`raw`] adds anything that is not escaped. What a browser may run is named in the page's head, by its hash.

mod batch;
mod changes;
mod chart;
mod code;
mod colour;
mod findings;
mod parts;
mod prose;
mod raw;
mod shown;
mod state;
mod summary;
mod transcript;

use std::time::Duration;

use maud::{DOCTYPE, Markup, html};

pub use self::batch::{ShownItems, batch_page};
use self::changes::Changes;
use self::colour::Colours;
use self::raw::{Raw, raw};
use self::shown::Shown;
use super::material::Material;
use super::safe::one_line;
use super::words::count;
use crate::base::embedded;

/// How long a page's code is coloured.
const COLOURING: Duration = Duration::from_millis(200);

/// Returns the review page. `name` is the name that its file gets, for the command that applies it.
pub fn page(material: &Material, name: &str) -> String {
    written(material, name, Some(COLOURING))
}

/// Tells whether a file is a review page.
pub fn is_review_page(text: &[u8]) -> bool {
    embedded::is_page(text) && embedded::json_of(text).is_some()
}

/// Returns the head of a page: what it may load and run, its title and style.
fn head(title: &str, has_script: bool, data: &Markup) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(raw::security_policy(has_script));
            meta name="generator" content=(concat!("qwen ", env!("CARGO_PKG_VERSION")));
            meta name="viewport" content="width=device-width,initial-scale=1";
            meta name="referrer" content="no-referrer";
            (data)
            title { (title) " · qwen" }
            style { (raw(&Raw::Style)) }
        }
    }
}

fn written(material: &Material, name: &str, colouring: Option<Duration>) -> String {
    let shown = Shown::new(material, name);
    let has_script = shown.changes.is_some();
    let title = shown.title();
    let body = shown.body(&title, colouring);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, has_script, &raw(&Raw::Result(&material.report))))
            body {
                (body)
                @if has_script { script { (raw(&Raw::Script)) } }
            }
        }
    }
    .into_string()
}

impl Shown<'_> {
    fn body(&self, title: &str, colouring: Option<Duration>) -> Markup {
        let report = &self.material.report;
        let (class, state) = state::state(report, &self.findings);
        let heads = self.changes.as_ref().map(|changes| changes.heads(&report.changes.files)).unwrap_or_default();
        let mut colours = Colours::new(colouring);
        let (has_findings, has_run) =
            (!self.findings.all.is_empty() || !report.dropped.is_empty(), !self.turns.is_empty());
        html! {
            header.top {
                a class="vh skip" href="#summary" { "Skip to the summary" }
                span class=(format!("pill {class}")) { (state) }
                span.title { (title) }
                nav aria-label="Parts" {
                    a href="#summary" { "Summary" }
                    @if has_findings { a href="#findings" { "Findings" } }
                    @if self.changes.is_some() { a href="#changes" { "Changes" } }
                    @if has_run { a href="#run" { "Run" } }
                }
            }
            div.page {
                aside aria-label="Contents" { (self.contents(&heads)) }
                main {
                    (summary::summary(self, title))
                    @if has_findings { (findings::shown(&self.findings, report.dropped.values().sum(), &mut colours)) }
                    (summary::evidence(report))
                    @if let Some(changes) = &self.changes { (self.changes(changes, &heads, &mut colours)) }
                    @if has_run {
                        section id="run" {
                            h2 { "Run" }
                            div.card { (chart::chart(&self.turns, report.totals.duration_ms)) }
                            (transcript::transcript(&self.turns, &report.answer.result))
                        }
                    }
                    (self.footer())
                }
            }
            @if self.changes.is_some() {
                div class="pick js-only" role="region" aria-label="Chosen hunks" {
                    span id="picked" aria-live="polite" {}
                    code id="command" data-from=(one_line(self.name)) {}
                    button id="save" type="button" { "Download patch" }
                    button id="copy" class="main" type="button" { "Copy command" }
                }
            }
        }
    }

    /// The list at the side: findings, files, or where there are none, the parts of the page.
    fn contents(&self, heads: &[changes::Head<'_>]) -> Markup {
        html! {
            @if !self.findings.all.is_empty() { h2 { "Findings" } (findings::list(&self.findings)) }
            @if !heads.is_empty() {
                h2 { "Files" }
                ol { @for (at, head) in heads.iter().enumerate() {
                    li { a href=(format!("#f{}", at + 1)) {
                        span.p { bdi { (one_line(&head.path)) } }
                        (parts::counts(head.added, head.removed))
                    } }
                } }
            }
            @if heads.is_empty() && self.findings.all.is_empty() {
                h2 { "Parts" }
                ol {
                    li { a href="#summary" { span.p { bdi { "Summary" } } } }
                    @if !self.turns.is_empty() { li { a href="#run" { span.p { bdi { "Run" } } } } }
                }
            }
        }
    }

    fn changes(&self, changes: &Changes, heads: &[changes::Head<'_>], colours: &mut Colours) -> Markup {
        html! {
            section id="changes" {
                div.bar {
                    h2 { "Changes" }
                    span class="by js-only keys" {
                        kbd { "j" } " " kbd { "k" } " next, previous hunk " kbd { "space" } " take or leave it"
                    }
                    span.by { (changes::hunk_count(changes)) " in " (count(heads.len() as u64, "file")) }
                    fieldset class="seg view" {
                        legend.vh { "Layout of the changes" }
                        label { input type="radio" name="view" id="unified" checked; "Unified" }
                        label { input type="radio" name="view" id="split"; "Side by side" }
                    }
                }
                (changes.shown(heads, &findings::placed(&self.findings), colours))
            }
        }
    }

    fn footer(&self) -> Markup {
        let report = &self.material.report;
        html! {
            footer {
                p {
                    @if let Some(id) = &report.ran.run_id { "run " (one_line(id)) " · " }
                    @if let Some(digest) = &report.changes.patch_sha256 { "patch sha256 " (one_line(digest)) " · " }
                    "made by qwen " (env!("CARGO_PKG_VERSION"))
                }
                p { "This page loads nothing from elsewhere. It holds what the model saw and what it answered: think before you share it." }
            }
        }
    }
}
