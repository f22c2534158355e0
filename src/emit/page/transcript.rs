//! Shows a run turn by turn: what the model said, what it called, what the policy decided and what the model saw.

use std::collections::HashMap;

use maud::{Markup, html};

use super::parts::short;
use super::prose::{inline, prose};
use crate::emit::safe::{escape, one_line, one_line_of};
use crate::emit::words::{self, count};
use crate::event::{
    AssistantTurn, CallFacts, DecisionRecord, Event, PermissionDenial, TokenUsage, ToolResult, VerifyOutcome,
};

/// Lines and bytes that are shown of what the model saw of one call.
const MOST_LINES: usize = 200;
const MOST_BYTES: usize = 16 << 10;

/// Characters of a call's subject.
const SUBJECT: usize = 300;

/// An answer of the model and what came of it.
pub(super) struct Turn<'a> {
    /// From 1.
    pub(super) number: u32,
    /// Whether it is part of a call of another turn.
    is_inner: bool,
    text: &'a str,
    /// What came of it, in order.
    pub(super) items: Vec<Item<'a>>,
    /// Tokens.
    pub(super) usage: TokenUsage,
    /// Time spent waiting for the server.
    pub(super) api_ms: u64,
}

/// Something that came of a turn.
pub(super) enum Item<'a> {
    /// A call, with what is known of it.
    Call(Box<Called<'a>>),
    /// A check that ran.
    Check(&'a VerifyOutcome),
    /// Something else: what kind, and one sentence.
    Note(&'static str, String),
}

impl<'a> Item<'a> {
    /// Returns the check that it is.
    pub(super) fn check(&self) -> Option<&'a VerifyOutcome> {
        match self {
            Item::Check(check) => Some(check),
            Item::Call(_) | Item::Note(..) => None,
        }
    }

    /// Returns the answer to the call that it is.
    pub(super) fn result(&self) -> Option<&'a ToolResult> {
        match self {
            Item::Call(called) => called.result,
            Item::Check(_) | Item::Note(..) => None,
        }
    }
}

/// A call of the model.
pub(super) struct Called<'a> {
    call: &'a CallFacts,
    decision: Option<&'a DecisionRecord>,
    denial: Option<&'a PermissionDenial>,
    result: Option<&'a ToolResult>,
}

/// Puts the events of a run in order by turn.
pub(super) fn turns(events: &[Event]) -> Vec<Turn<'_>> {
    let mut all = Turns::default();
    for event in events {
        all.add(event);
    }
    all.turns
}

#[derive(Default)]
struct Turns<'a> {
    turns: Vec<Turn<'a>>,
    /// Where the call of each id is: its turn, and its place there.
    calls: HashMap<&'a str, (usize, usize)>,
}

impl<'a> Turns<'a> {
    fn add(&mut self, event: &'a Event) {
        match event {
            Event::Assistant(turn) => self.turn(turn),
            Event::ToolResult(result) => {
                if let Some(called) = self.called(&result.call_id) {
                    called.result = Some(result);
                }
            }
            Event::Denied(denial) => {
                if let Some(called) = self.called(&denial.tool_use_id) {
                    called.denial = Some(denial);
                }
            }
            Event::Decided(record) => {
                if let Some(called) = self.called(&record.call_id) {
                    called.decision = Some(record);
                }
            }
            Event::Verify(outcome) => self.item(Item::Check(outcome)),
            Event::Retry(retry) => {
                self.item(Item::Note("retry", format!("attempt {}: {}", retry.attempt, retry.message)))
            }
            Event::ModelFallback { from, to } => self.item(Item::Note("model", format!("{from} is replaced by {to}"))),
            Event::Compaction { before, after } => {
                let sizes = format!("{} to {} tokens", words::tokens(*before), words::tokens(*after));
                self.item(Item::Note("shortened", format!("the conversation, from {sizes}")));
            }
            Event::RunStarted(_)
            | Event::TurnStarted { .. }
            | Event::Delta { .. }
            | Event::FileChange { .. }
            | Event::Command { .. }
            | Event::Budget(_)
            | Event::SideRequest(_)
            | Event::Redaction { .. }
            | Event::Warning { .. }
            | Event::DeliveryStarted { .. }
            | Event::Status { .. }
            | Event::Todos { .. }
            | Event::RunFinished(_) => {}
        }
    }

    fn turn(&mut self, turn: &'a AssistantTurn) {
        let call = |call| Item::Call(Box::new(Called { call, decision: None, denial: None, result: None }));
        for (at, facts) in turn.calls.iter().enumerate() {
            self.calls.insert(&facts.id, (self.turns.len(), at));
        }
        self.turns.push(Turn {
            number: turn.turn,
            is_inner: turn.parent.is_some(),
            text: &turn.text,
            items: turn.calls.iter().map(call).collect(),
            usage: turn.usage,
            api_ms: turn.api_ms,
        });
    }

    fn called(&mut self, id: &str) -> Option<&mut Called<'a>> {
        let (turn, at) = self.calls.get(id).copied()?;
        match self.turns.get_mut(turn)?.items.get_mut(at)? {
            Item::Call(called) => Some(called),
            Item::Check(_) | Item::Note(..) => None,
        }
    }

    fn item(&mut self, item: Item<'a>) {
        if let Some(turn) = self.turns.last_mut() {
            turn.items.push(item);
        }
    }
}

/// Shows the turns.
pub(super) fn transcript(turns: &[Turn<'_>], answer: &str) -> Markup {
    let last = turns.iter().rposition(|turn| !turn.is_inner);
    html! {
        h2 { "Transcript" }
        div.card {
            @for (at, turn) in turns.iter().enumerate() {
                (shown(turn, last == Some(at) && turn.text.trim() == answer.trim()))
            }
        }
    }
}

fn shown(turn: &Turn<'_>, is_answer: bool) -> Markup {
    html! {
        div class=(if turn.is_inner { "turn inner" } else { "turn" }) {
            div.t { (turn.number) }
            div {
                @if is_answer && !turn.text.trim().is_empty() { p.by { "The answer above." } }
                @else if !turn.text.trim().is_empty() { (prose(turn.text)) }
                @for item in &turn.items { (item_shown(item)) }
            }
            div.u {
                @if let (Some(input), Some(output)) = (turn.usage.input_tokens, turn.usage.output_tokens) {
                    (words::tokens(input)) " → " (words::tokens(output)) br;
                }
                (short(turn.api_ms))
            }
        }
    }
}

fn item_shown(item: &Item<'_>) -> Markup {
    match item {
        Item::Call(called) => call(called),
        Item::Note(kind, text) => html! { p.by { span class="pill note" { (kind) } " " (one_line_of(text, SUBJECT)) } },
        Item::Check(check) => {
            let (class, word) = if check.passed { ("pill ok", "✓ check") } else { ("pill no", "✗ check") };
            let head = html! {
                span class=(class) { (word) }
                code.what { (one_line_of(&check.command, SUBJECT)) }
                span.ms { (short(check.duration_ms)) }
            };
            fold(&head, &seen(&check.output_tail))
        }
    }
}

fn call(called: &Called<'_>) -> Markup {
    let is_denied = called.denial.is_some() || called.decision.is_some_and(|decision| !decision.allowed);
    let failed = !is_denied && called.result.is_some_and(|result| result.is_error);
    let name = called.result.map_or(called.call.name.as_str(), |result| result.tool.as_str());
    let head = html! {
        @if is_denied { span class="pill warn" { "denied" } }
        @if failed { span class="pill no" { "failed" } }
        span.tool { (one_line_of(name, 80)) }
        span.what { (one_line_of(&subject(called), SUBJECT)) }
        @if let Some(result) = called.result { span.ms { (short(result.duration_ms)) } }
    };
    let body = html! {
        (decided(called, is_denied))
        @if let Some(result) = called.result {
            (seen(if result.diff && !result.display.is_empty() { &result.display } else { &result.content }))
        } @else { p.by { "There is no answer to this call." } }
    };
    fold(&head, &body)
}

/// What a call is about, from its result or from its arguments.
fn subject(called: &Called<'_>) -> String {
    match called.result.map(|result| result.description.as_str()).filter(|text| !text.is_empty()) {
        Some(text) => text.to_owned(),
        None => {
            let values = called.call.input.as_object().into_iter().flat_map(|object| object.values());
            values.filter_map(|value| value.as_str()).next().unwrap_or_default().to_owned()
        }
    }
}

fn decided(called: &Called<'_>, is_denied: bool) -> Markup {
    let of_decision = called.decision.map(|decision| (&decision.rule, &decision.source, &decision.reason));
    let of_denial = called.denial.map(|denial| (&denial.rule, &denial.source, &denial.reason));
    let Some((rule, source, reason)) = of_denial.or(of_decision) else { return html! {} };
    html! {
        div.by {
            "policy: " (if is_denied { "denied" } else { "allowed" })
            @if let Some(rule) = rule { " by " code { (one_line(rule)) } }
            @if let Some(source) = source { " of " (one_line(source)) }
            @if is_denied && !reason.is_empty() { ": " (inline(reason)) }
        }
    }
}

fn fold(head: &Markup, body: &Markup) -> Markup {
    html! { details class="fold call" { summary { (head) } (body) } }
}

/// Shows the beginning of what the model saw, and how many lines more there are.
pub(super) fn seen(text: &str) -> Markup {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return html! { p.by { "Nothing was printed." } };
    }
    let mut end = text.floor_char_boundary(MOST_BYTES);
    if let Some((at, _)) = text.match_indices('\n').nth(MOST_LINES - 1) {
        end = end.min(at);
    }
    let more = text[end..].lines().filter(|line| !line.is_empty()).count() as u64;
    html! {
        pre.out {
            (escape(&text[..end]))
            @if end < text.len() { "\n… " (count(more.max(1), "more line")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_and_the_rest_is_counted() {
        let lines: String = (1..=300).map(|n| format!("{n}\n")).collect();
        let shown = seen(&lines).into_string();
        assert!(shown.contains("\n200\n… 100 more lines</pre>"), "{shown}");
        assert!(seen(&"é".repeat(MOST_BYTES)).into_string().ends_with("\n… 1 more line</pre>"));
        assert_eq!(seen("a\n").into_string(), "<pre class=\"out\">a</pre>");
    }

    #[test]
    fn an_answer_to_no_call_is_left_out() {
        let result = ToolResult { call_id: "x".into(), ..ToolResult::default() };
        let events = [Event::ToolResult(Box::new(result)), Event::Assistant(Box::default())];
        assert_eq!(turns(&events).len(), 1);
    }
}
