//! Holds spans and calls that have not ended, and the values of their attributes.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Event as SpanEvent, SpanKind};
use opentelemetry::{KeyValue, Value};
use serde_json::json;

use crate::event::{AssistantTurn, DecisionRecord, TokenUsage};

/// The longest value of an attribute with contents, in bytes.
const CONTENT: usize = 16 << 10;

/// The most events of one span, as the specification's default limit has it.
const EVENTS: usize = 128;

/// A span that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) start: SystemTime,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) events: Vec<SpanEvent>,
    pub(super) dropped: u32,
    pub(super) error: Option<String>,
}

impl Open {
    pub(super) fn new(id: u64, parent: Option<u64>, name: String, kind: SpanKind, start: SystemTime) -> Open {
        let (attributes, events) = (Vec::new(), Vec::new());
        Open { id, parent, name, kind, start, attributes, events, dropped: 0, error: None }
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(name, value));
    }

    pub(super) fn set_some(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    pub(super) fn fail(&mut self, class: &str) {
        self.set("error.type", class.to_owned());
        self.error = Some(class.to_owned());
    }

    pub(super) fn note(&mut self, name: &'static str, at: SystemTime, attributes: Vec<KeyValue>) {
        match self.events.len() < EVENTS {
            true => self.events.push(SpanEvent::new(name, at, attributes, 0)),
            false => self.dropped += 1,
        }
    }
}

/// A call that has no result yet.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    /// The span of the agent that made it.
    pub(super) agent: u64,
    pub(super) begun: SystemTime,
    pub(super) arguments: String,
    pub(super) subagent: Option<String>,
    pub(super) decision: Option<Box<DecisionRecord>>,
    pub(super) is_denied: bool,
}

/// An agent that works on a task.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) call: String,
    pub(super) span: Open,
}

pub(super) fn set_usage(span: &mut Open, usage: &TokenUsage) {
    span.set_some("gen_ai.usage.input_tokens", usage.input_tokens.map(number));
    span.set_some("gen_ai.usage.cache_read.input_tokens", usage.cache_read_input_tokens.map(number));
    span.set_some("gen_ai.usage.output_tokens", usage.output_tokens.map(number));
}

/// Writes an answer as the conventions have messages.
pub(super) fn message(turn: &AssistantTurn, reason: &str) -> String {
    let text = Some(&turn.text).filter(|text| !text.is_empty()).map(|text| json!({"type": "text", "content": text}));
    let calls = turn
        .calls
        .iter()
        .map(|call| json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.input}));
    let parts: Vec<_> = text.into_iter().chain(calls).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": reason}]).to_string()
}

/// Returns a text no longer than an attribute may be.
pub(super) fn cut(text: &str) -> String {
    match text.len() > CONTENT {
        true => format!("{}…", &text[..text.floor_char_boundary(CONTENT - '…'.len_utf8())]),
        false => text.to_owned(),
    }
}

/// Times that are longer than a day are not times of ours.
pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis.min(86_400_000))
}

pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
