//! Makes events of what the model and the tools give.

use std::time::Duration;

use crate::event::{AssistantTurn, CallFacts, DeltaKind, Event, Retry, TokenUsage};
use crate::model::{Arguments, Delta, Notice, Part, Stop, Turn, Usage};

/// Where events go.
pub type Emit<'a> = &'a (dyn Fn(Event) + Send + Sync);

pub(super) fn delta_event(turn: u32, delta: Delta) -> Event {
    match delta {
        Delta::Text(text) => Event::Delta { turn, kind: DeltaKind::Text, text },
        Delta::Reasoning(text) => Event::Delta { turn, kind: DeltaKind::Reasoning, text },
        Delta::Notice(Notice::Retry { attempt, wait, class, message }) => {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Event::Retry(Retry { turn, attempt, wait_ms, class, message })
        }
        Delta::Notice(Notice::Downgrade { feature, message }) => {
            Event::Warning { message: format!("the server refuses {feature}; continuing without it ({message})") }
        }
        Delta::Notice(Notice::Fallback { from, to }) => Event::ModelFallback { from, to },
        Delta::Notice(Notice::Warning(message)) => Event::Warning { message },
    }
}

/// Returns the tokens for events; the estimate replaces what the server did not report.
pub(super) fn token_usage(usage: &Usage, estimate: u64) -> TokenUsage {
    let reported = usage.input_tokens.is_some() || usage.output_tokens.is_some();
    TokenUsage {
        input_tokens: usage.input_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        output_tokens: usage.output_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        estimated: (!reported).then_some(estimate),
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn assistant_event(
    number: u32,
    turn: &Turn,
    model: &str,
    estimate: u64,
    cost_usd: Option<f64>,
) -> AssistantTurn {
    AssistantTurn {
        parent: None,
        turn: number,
        id: turn.response_id.clone().unwrap_or_else(|| format!("turn_{number}")),
        model: turn.model.clone().unwrap_or_else(|| model.to_owned()),
        text: turn.message.text.clone(),
        reasoning: turn.message.reasoning.as_ref().map(|reasoning| reasoning.text.clone()).unwrap_or_default(),
        calls: turn
            .message
            .calls
            .iter()
            .map(|call| CallFacts {
                id: call.id.clone(),
                name: call.name.clone(),
                input: match &call.arguments {
                    Arguments::Object(map) => serde_json::Value::Object(map.clone()),
                    Arguments::Incomplete { raw } | Arguments::Invalid { raw, .. } => serde_json::json!({ "raw": raw }),
                },
                recovered: call.recovered.map(str::to_owned),
            })
            .collect(),
        stop_reason: match turn.stop {
            Stop::End => "end_turn",
            Stop::Calls => "tool_use",
            Stop::Length | Stop::Repetition => "max_tokens",
        }
        .into(),
        usage: token_usage(&turn.usage, estimate),
        cost_usd,
        requests: turn.requests,
        api_ms: millis(turn.api_time),
    }
}

/// Returns the parts of a message as the text for events.
pub(super) fn shown(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Media { mime_type, name, data } => format!("[{mime_type} {name}, {} bytes of base64]", data.len()),
        })
        .collect()
}
