//! Events without secrets: what people, logs and machine formats see of a run. Patches and files are never altered.

use serde_json::Value;

use crate::event::{
    AssistantTurn, CallFacts, DecisionRecord, Event, PermissionDenial, Retry, RunError, RunFinished, RunStarted,
    ToolResult, VerifyOutcome,
};
use crate::policy::redact::Secrets;

/// Returns the event with every secret in its texts masked; the patch of its changes and all paths stay as they are.
pub fn without_secrets(event: Event, secrets: &Secrets) -> Event {
    let text = |text: String| secrets.hide(&text).into_owned();
    let optional = |value: Option<String>| value.map(text);
    let value = |found: Value| hidden(found, secrets);
    let list = |values: Vec<Value>| values.into_iter().map(value).collect();
    match event {
        Event::RunStarted(started) => Event::RunStarted(Box::new(RunStarted {
            mcp_servers: list(started.mcp_servers),
            sandbox: text(started.sandbox),
            ..*started
        })),
        Event::Delta { turn, kind, text: piece } => Event::Delta { turn, kind, text: text(piece) },
        Event::Assistant(turn) => {
            let call = |call: CallFacts| CallFacts { input: value(call.input), ..call };
            Event::Assistant(Box::new(AssistantTurn {
                text: text(turn.text),
                reasoning: text(turn.reasoning),
                calls: turn.calls.into_iter().map(call).collect(),
                ..*turn
            }))
        }
        Event::ToolResult(result) => Event::ToolResult(Box::new(ToolResult {
            description: text(result.description),
            content: text(result.content),
            display: text(result.display),
            ..*result
        })),
        Event::Denied(denial) => Event::Denied(Box::new(PermissionDenial {
            tool_input: value(denial.tool_input),
            reason: text(denial.reason),
            hint: optional(denial.hint),
            ..*denial
        })),
        Event::Decided(record) => Event::Decided(Box::new(DecisionRecord {
            reason: text(record.reason),
            effects: record.effects.into_iter().map(text).collect(),
            ..*record
        })),
        Event::SideRequest(request) => Event::SideRequest(request),
        Event::Retry(retry) => Event::Retry(Retry { message: text(retry.message), ..retry }),
        Event::Command { argv, exit_code, duration_ms, sandboxed } => {
            Event::Command { argv: argv.into_iter().map(text).collect(), exit_code, duration_ms, sandboxed }
        }
        Event::Verify(outcome) => Event::Verify(VerifyOutcome {
            command: text(outcome.command),
            output_tail: text(outcome.output_tail),
            ..outcome
        }),
        Event::Warning { message } => Event::Warning { message: text(message) },
        Event::Status { message, waited } => Event::Status { message: text(message), waited },
        Event::Todos { todos } => Event::Todos { todos: list(todos) },
        Event::RunFinished(finished) => Event::RunFinished(Box::new(RunFinished {
            error: finished.error.map(|error| RunError {
                message: text(error.message),
                hint: optional(error.hint),
                ..error
            }),
            result: text(finished.result),
            structured: finished.structured.map(value),
            findings: list(finished.findings),
            ..*finished
        })),
        // Names, numbers and paths alone.
        Event::TurnStarted { .. }
        | Event::ModelFallback { .. }
        | Event::FileChange { .. }
        | Event::Budget(_)
        | Event::Compaction { .. }
        | Event::Redaction { .. } => event,
    }
}

fn hidden(value: Value, secrets: &Secrets) -> Value {
    match value {
        Value::String(text) => Value::String(secrets.hide(&text).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| hidden(item, secrets)).collect()),
        Value::Object(entries) => {
            Value::Object(entries.into_iter().map(|(name, entry)| (name, hidden(entry, secrets))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
