//! Defines the messages of `json` and `stream-json`, which scripts for Qwen Code read.
//!
//! Messages that Qwen Code does not have are `system` subtypes, so that older parsers skip them.

use serde_json::{Map, Value, json};

use super::report::{Report, SCHEMA_VERSION};
use crate::event::{AssistantTurn, DeltaKind, Event, RunStarted, ToolResult};

/// Where the ids of messages come from; a test counts.
pub struct Ids {
    session_id: String,
    next: Box<dyn FnMut() -> String + Send>,
    seq: u64,
}

impl Ids {
    /// Returns ids for a session; `next` gives a fresh one each time.
    pub fn new(session_id: impl Into<String>, next: impl FnMut() -> String + Send + 'static) -> Ids {
        Ids { session_id: session_id.into(), next: Box::new(next), seq: 0 }
    }

    fn stamp(&mut self, message: &mut Map<String, Value>) {
        message.insert("uuid".into(), (self.next)().into());
        message.insert("session_id".into(), self.session_id.clone().into());
        message.insert("parent_tool_use_id".into(), Value::Null);
        message.insert("seq".into(), self.seq.into());
        self.seq += 1;
    }
}

/// Says of a message which call of `task` it belongs to.
fn part_of(mut message: Value, parent: Option<&String>) -> Value {
    if let Some(parent) = parent {
        message["parent_tool_use_id"] = parent.clone().into();
    }
    message
}

impl std::fmt::Debug for Ids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ids").field("session_id", &self.session_id).field("seq", &self.seq).finish_non_exhaustive()
    }
}

/// The release of Qwen Code whose messages these are.
const QWEN_CODE: &str = "0.24.4";

/// Turns events into messages.
#[derive(Debug)]
pub(super) struct Messages {
    ids: Ids,
    partial: Option<Partial>,
    /// The model that answers.
    model: String,
    /// What happened before the session existed: `system/init` goes first.
    before: Option<Vec<Event>>,
}

/// The answer as it arrives: which block is open.
#[derive(Debug, Default)]
struct Partial {
    /// The id of the message that is open.
    message: Option<String>,
    blocks: u64,
    open: Option<DeltaKind>,
}

impl Messages {
    pub(super) fn new(ids: Ids, include_partial: bool) -> Messages {
        let partial = include_partial.then(Partial::default);
        Messages { ids, partial, model: String::new(), before: Some(Vec::new()) }
    }

    /// Returns the messages of an event; none for [`Event::RunFinished`], whose messages are [`Messages::result`].
    pub(super) fn of(&mut self, event: &Event) -> Vec<Value> {
        if let Event::RunStarted(started) = event {
            self.ids.session_id.clone_from(&started.session_id);
            self.model.clone_from(&started.model);
            let mut messages = vec![self.system("init", init(started))];
            let before = self.before.take().unwrap_or_default();
            messages.extend(before.iter().flat_map(|event| self.of(event)));
            return messages;
        }
        if let Some(before) = &mut self.before {
            before.push(event.clone());
            return Vec::new();
        }
        match event {
            Event::TurnStarted { .. } => self.partial_start(),
            Event::Delta { kind, text, .. } => self.partial_delta(*kind, text),
            Event::Assistant(turn) => self.assistant(turn),
            Event::ToolResult(result) => {
                let message = self.message("user", json!({ "message": tool_result(result) }));
                vec![part_of(message, result.parent.as_ref())]
            }
            Event::Denied(denial) => vec![self.system("permission_denied", json!(denial))],
            Event::Retry(retry) => vec![self.system("api_retry", json!(retry))],
            Event::ModelFallback { from, to } => {
                self.model.clone_from(to);
                vec![self.system("model_fallback", json!({"from": from, "to": to}))]
            }
            Event::FileChange { path, kind, added, removed } => vec![
                self.system("file_change", json!({"path": path, "kind": kind, "added": added, "removed": removed})),
            ],
            Event::Command { argv, exit_code, duration_ms, sandboxed } => vec![self.system(
                "command",
                json!({"argv": argv, "exit_code": exit_code, "duration_ms": duration_ms, "sandboxed": sandboxed}),
            )],
            Event::Verify(outcome) => vec![self.system("verify", json!(outcome))],
            Event::Budget(exceeded) => vec![self.system("budget", json!(exceeded))],
            Event::SideRequest(request) => vec![self.system("side_request", json!(request))],
            Event::Compaction { before, after } => {
                vec![self.system("compaction", json!({"before": before, "after": after}))]
            }
            Event::Redaction { count } => vec![self.system("redaction", json!({ "count": count }))],
            Event::Warning { message } => vec![self.system("warning", json!({ "message": message }))],
            Event::Status { message, waited } => {
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                vec![self.system("status", json!({"message": message, "waited_ms": waited_ms}))]
            }
            // The call and the result carry the list; the events file carries the decisions.
            Event::RunStarted(_)
            | Event::Todos { .. }
            | Event::Decided(_)
            | Event::DeliveryStarted { .. }
            | Event::RunFinished(_) => Vec::new(),
        }
    }

    /// Returns the last messages: what happened where no session came to be, and the result object with what every
    /// message carries.
    pub(super) fn result(&mut self, report: &Report) -> Vec<Value> {
        let before = self.before.take().unwrap_or_default();
        let mut messages: Vec<Value> = before.iter().flat_map(|event| self.of(event)).collect();
        let mut message = object(json!(report));
        let session_id = message.get("session_id").cloned();
        let mut stamp = Map::new();
        self.ids.stamp(&mut stamp);
        for (key, value) in stamp {
            if key != "session_id" || session_id.as_ref().is_none_or(Value::is_null) {
                message.insert(key, value);
            }
        }
        messages.push(Value::Object(message));
        messages
    }

    fn system(&mut self, subtype: &str, fields: Value) -> Value {
        let mut message = Map::new();
        message.insert("type".into(), "system".into());
        message.insert("subtype".into(), subtype.into());
        self.ids.stamp(&mut message);
        message.extend(object(fields));
        Value::Object(message)
    }

    fn message(&mut self, kind: &str, fields: Value) -> Value {
        let mut message = Map::new();
        message.insert("type".into(), kind.into());
        self.ids.stamp(&mut message);
        message.extend(object(fields));
        Value::Object(message)
    }

    fn stream_event(&mut self, event: Value) -> Value {
        self.message("stream_event", json!({ "event": event }))
    }

    fn partial_start(&mut self) -> Vec<Value> {
        let Some(partial) = &mut self.partial else { return Vec::new() };
        let id = (self.ids.next)();
        *partial = Partial { message: Some(id.clone()), ..Partial::default() };
        let message = json!({"id": id, "role": "assistant", "model": self.model, "content": []});
        vec![self.stream_event(json!({"type": "message_start", "message": message}))]
    }

    fn partial_delta(&mut self, kind: DeltaKind, text: &str) -> Vec<Value> {
        let Some(partial) = &mut self.partial else { return Vec::new() };
        let mut events = Vec::new();
        if partial.open != Some(kind) {
            if partial.open.is_some() {
                events.push(json!({"type": "content_block_stop", "index": partial.blocks.saturating_sub(1)}));
            }
            let block = match kind {
                DeltaKind::Text => json!({"type": "text", "text": ""}),
                DeltaKind::Reasoning => json!({"type": "thinking", "thinking": ""}),
            };
            events.push(json!({"type": "content_block_start", "index": partial.blocks, "content_block": block}));
            partial.open = Some(kind);
            partial.blocks += 1;
        }
        let delta = match kind {
            DeltaKind::Text => json!({"type": "text_delta", "text": text}),
            DeltaKind::Reasoning => json!({"type": "thinking_delta", "thinking": text}),
        };
        events.push(json!({"type": "content_block_delta", "index": partial.blocks - 1, "delta": delta}));
        events.into_iter().map(|event| self.stream_event(event)).collect()
    }

    /// Returns a complete turn: the calls as blocks of their own, the message, and its end.
    fn assistant(&mut self, turn: &AssistantTurn) -> Vec<Value> {
        let mut messages = self.partial_blocks(turn);
        let open = self.partial.as_mut().and_then(|partial| partial.message.take());
        let mut body = assistant(turn);
        if let Some(id) = &open {
            body["id"] = id.as_str().into();
        }
        let message = self.message("assistant", json!({ "message": body }));
        messages.push(part_of(message, turn.parent.as_ref()));
        if open.is_some() {
            messages.push(self.stream_event(json!({"type": "message_stop"})));
        }
        messages
    }

    fn partial_blocks(&mut self, turn: &AssistantTurn) -> Vec<Value> {
        let Some(partial) = self.partial.as_mut().filter(|partial| partial.message.is_some()) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        if partial.open.take().is_some() {
            events.push(json!({"type": "content_block_stop", "index": partial.blocks.saturating_sub(1)}));
        }
        for call in &turn.calls {
            let index = partial.blocks;
            let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            let delta = json!({"type": "input_json_delta", "partial_json": call.input.to_string()});
            events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            events.push(json!({"type": "content_block_stop", "index": index}));
            partial.blocks += 1;
        }
        events.into_iter().map(|event| self.stream_event(event)).collect()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

fn init(started: &RunStarted) -> Value {
    json!({
        "cwd": started.cwd,
        "model": started.model,
        "tools": started.tools,
        "mcp_servers": started.mcp_servers,
        "permission_mode": started.permission_mode,
        "policy": started.policy,
        "changes_mode": started.changes_mode,
        "sandbox": started.sandbox,
        "limits": started.limits,
        "git": {"head": started.git_head, "dirty": started.git_dirty},
        "slash_commands": started.named.slash_commands,
        "agents": started.named.agents,
        "trace_id": started.report.as_ref().map(|report| &report.trace_id),
        "version": env!("CARGO_PKG_VERSION"),
        "qwen_code_version": QWEN_CODE,
        "schema_version": SCHEMA_VERSION,
    })
}

fn assistant(turn: &AssistantTurn) -> Value {
    let mut content = Vec::new();
    if !turn.reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": turn.reasoning, "signature": ""}));
    }
    if !turn.text.is_empty() {
        content.push(json!({"type": "text", "text": turn.text}));
    }
    for call in &turn.calls {
        content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}));
    }
    let mut usage = json!(turn.usage);
    let total =
        turn.usage.input_tokens.zip(turn.usage.output_tokens).map(|(input, output)| input.saturating_add(output));
    usage["total_tokens"] = json!(total);
    json!({
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": content,
        "stop_reason": turn.stop_reason,
        "usage": usage,
    })
}

fn tool_result(result: &ToolResult) -> Value {
    json!({
        "role": "user",
        "content": [{
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "is_error": result.is_error,
            "content": result.content,
        }],
    })
}
