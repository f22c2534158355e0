//! Estimates the tokens of a conversation that no server has counted yet.

use crate::model::{Arguments, AssistantMessage, Message, Part, ToolCall};

/// Estimates the tokens of messages; a server's own count is better wherever there is one.
pub(super) fn estimate_tokens(messages: &[Message]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

fn estimate_message(message: &Message) -> u64 {
    let tokens = match message {
        Message::System(text) => estimate_text(text),
        Message::User(parts) => estimate_parts(parts),
        Message::Tool(answer) => estimate_parts(&answer.content) + 8,
        Message::Assistant(AssistantMessage { text, calls, .. }) => {
            let calls: u64 = calls.iter().map(|call| estimate_text(&call.name) + estimate_arguments(call)).sum();
            estimate_text(text) + calls
        }
    };
    tokens + 4
}

fn estimate_arguments(call: &ToolCall) -> u64 {
    match &call.arguments {
        Arguments::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let text = value.as_str().map_or_else(|| estimate_text(&value.to_string()), estimate_text);
                estimate_text(key) + text + 2
            })
            .sum(),
        Arguments::Incomplete { raw } | Arguments::Invalid { raw, .. } => estimate_text(raw),
    }
}

fn estimate_parts(parts: &[Part]) -> u64 {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => estimate_text(text),
            // An image costs about this much whatever its size in bytes.
            Part::Media { .. } => 1_300,
        })
        .sum()
}

/// Estimates the tokens of a text: a quarter token per ASCII character, 1.1 per other one.
pub(super) fn estimate_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    // Continuation bytes are 0b10xx_xxxx; every other non-ASCII byte begins a character.
    let other = text.bytes().filter(|byte| !byte.is_ascii() && byte & 0xC0 != 0x80).count();
    (ascii as f64 / 4.0 + other as f64 * 1.1).ceil() as u64
}
