//! Masks secrets in the events that people, logs and machine formats see. Patches and files are never altered.

use serde_json::Value;

use crate::event::{
    AssistantTurn, CallFacts, DecisionRecord, DeltaKind, Event, PermissionDenial, Retry, RunError, RunFinished,
    RunStarted, ToolResult, VerifyOutcome,
};
use crate::policy::redact::Secrets;

/// Maximum bytes of a streamed word that are held back until it ends.
const MOST_KEPT: usize = 8 << 10;

/// Masks events in order, so that a secret that spans chunks of a streamed text is found, too.
#[derive(Debug, Default)]
pub struct Streamed {
    /// The end of an unfinished text: it may be the beginning of a secret.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    turn: u32,
    kind: DeltaKind,
    text: String,
}

impl Streamed {
    /// Returns the events that can be shown after this one, every secret masked.
    pub fn without_secrets(&mut self, event: Event, secrets: &Secrets) -> Vec<Event> {
        match event {
            Event::Delta { turn, kind, text } => {
                let same = self.kept.take_if(|kept| (kept.turn, kept.kind) == (turn, kind));
                let mut shown = self.rest(secrets);
                let mut text = same.map_or_else(|| text.clone(), |kept| kept.text + &text);
                let kept = text.split_off(secrets.settled(&text, MOST_KEPT));
                self.kept = Some(Kept { turn, kind, text: kept });
                if !text.is_empty() {
                    shown.push(without_secrets(Event::Delta { turn, kind, text }, secrets));
                }
                shown
            }
            // These occur in the middle of an unfinished text.
            Event::Status { .. } | Event::Retry(_) | Event::Warning { .. } => vec![without_secrets(event, secrets)],
            other => {
                let mut shown = self.rest(secrets);
                shown.push(without_secrets(other, secrets));
                shown
            }
        }
    }

    /// Returns what was held back: nothing more of that text follows.
    fn rest(&mut self, secrets: &Secrets) -> Vec<Event> {
        let kept = self.kept.take().filter(|kept| !kept.text.is_empty());
        let delta = |Kept { turn, kind, text }| without_secrets(Event::Delta { turn, kind, text }, secrets);
        kept.map(delta).into_iter().collect()
    }
}

/// Returns the event with every secret in its texts masked; the patch of its changes and all paths are not altered.
fn without_secrets(event: Event, secrets: &Secrets) -> Event {
    let text = |text: String| secrets.hide(&text).into_owned();
    let optional = |value: Option<String>| value.map(text);
    let value = |found: Value| hidden(found, secrets);
    let list = |values: Vec<Value>| values.into_iter().map(value).collect();
    match event {
        Event::RunStarted(started) => Event::RunStarted(Box::new(RunStarted {
            mcp_servers: list(started.mcp_servers),
            tools: started.tools.into_iter().map(text).collect(),
            sandbox: text(started.sandbox),
            ..*started
        })),
        Event::Delta { turn, kind, text: piece } => Event::Delta { turn, kind, text: text(piece) },
        Event::Assistant(turn) => {
            let call = |call: CallFacts| CallFacts {
                id: text(call.id),
                name: text(call.name),
                input: value(call.input),
                recovered: optional(call.recovered),
            };
            Event::Assistant(Box::new(AssistantTurn {
                text: text(turn.text),
                reasoning: text(turn.reasoning),
                calls: turn.calls.into_iter().map(call).collect(),
                ..*turn
            }))
        }
        Event::ToolResult(result) => Event::ToolResult(Box::new(ToolResult {
            call_id: text(result.call_id),
            tool: text(result.tool),
            description: text(result.description),
            content: text(result.content),
            display: text(result.display),
            ..*result
        })),
        Event::Denied(denial) => Event::Denied(Box::new(PermissionDenial {
            tool_name: text(denial.tool_name),
            tool_use_id: text(denial.tool_use_id),
            tool_input: value(denial.tool_input),
            rule: optional(denial.rule),
            reason: text(denial.reason),
            hint: optional(denial.hint),
            ..*denial
        })),
        Event::Decided(record) => Event::Decided(Box::new(DecisionRecord {
            call_id: text(record.call_id),
            tool: text(record.tool),
            rule: optional(record.rule),
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
        // Names, numbers and paths only.
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
            let masked = |(name, entry): (String, Value)| (secrets.hide(&name).into_owned(), hidden(entry, secrets));
            Value::Object(entries.into_iter().map(masked).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const VALUES: [(&str, &str); 3] =
        [("DB_PASSWORD", "hunter2-hunter2"), ("A_SECRET", "two words and more"), ("B_TOKEN", "two words and none")];

    fn secrets() -> Secrets {
        let variables: BTreeMap<String, String> =
            VALUES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Secrets::new(&variables, &["ACME-[A-Z0-9]{20}".to_owned()]).unwrap()
    }

    fn shown(pieces: &[&str], secrets: &Secrets) -> String {
        let mut streamed = Streamed::default();
        let delta = |text: &&str| Event::Delta { turn: 1, kind: DeltaKind::Text, text: (*text).to_owned() };
        let ending = Event::TurnStarted { turn: 2 };
        let events = pieces.iter().map(delta).chain([ending]);
        let all = events.flat_map(|event| streamed.without_secrets(event, secrets));
        all.filter_map(|event| match event {
            Event::Delta { text, .. } => Some(text),
            _ => None,
        })
        .collect()
    }

    const WORDS: [&str; 18] = [
        "hunter2-hunter2",
        "two words and more",
        "two words and none",
        "ACME-ABCDEFGHIJ0123456789",
        "AKIA0123456789ABCDEF",
        "ghp_0123456789012345678901234567890123456789",
        "aHVudGVyMi1odW50ZXIy",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nxyz=\n-----END RSA PRIVATE KEY-----",
        "hunter2",
        "two words",
        "ACME-ABC",
        "-----BEGIN ",
        "-----END ",
        " ",
        "\n",
        "x",
        "ä",
        "-",
    ];

    proptest! {
        #[test]
        fn what_is_masked_in_the_whole_is_not_shown_in_pieces(
            words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..12),
            cuts in prop::collection::vec(0usize..300, 0..20),
        ) {
            let secrets = secrets();
            let text = words.concat();
            let mut ends: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
            ends.extend([0, text.len()]);
            ends.sort_unstable();
            let pieces: Vec<&str> = ends.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let (shown, whole) = (shown(&pieces, &secrets), secrets.hide(&text));
            for secret in &WORDS[..8] {
                prop_assert!(whole.contains(secret) || !shown.contains(secret), "{secret} of {pieces:?} in {shown}");
            }
        }
    }

    #[test]
    fn words_are_shown_as_they_come() {
        let secrets = secrets();
        let mut streamed = Streamed::default();
        let mut piece = |text: &str| {
            let event = Event::Delta { turn: 1, kind: DeltaKind::Text, text: text.to_owned() };
            let shown = streamed.without_secrets(event, &secrets);
            shown
                .into_iter()
                .map(|event| match event {
                    Event::Delta { text, .. } => text,
                    _ => String::new(),
                })
                .collect::<String>()
        };
        assert_eq!(piece("I looked "), "I looked ");
        assert_eq!(piece("at hun"), "at ");
        assert_eq!(piece("ter2-hunter2. It"), "[redacted:DB_PASSWORD]. ");
        assert_eq!(piece(" is"), "It ");
        let long = "y".repeat(3 * MOST_KEPT);
        assert_eq!(piece(&long).len(), 2 + 2 * MOST_KEPT, "a word without an end is not kept for ever");
    }
}
