//! Masks secrets in the events that people, logs and machine formats see. Patches and files are never altered.

use serde_json::Value;

use crate::event::{DeltaKind, Event, Retry, ToolResult};
use crate::model::masked_spec::masked_value;
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

/// Returns the event with every secret in its texts and its names of files masked; the patch of its changes is not
/// altered.
fn without_secrets(mut event: Event, secrets: &Secrets) -> Event {
    let (mut texts, mut values): (Vec<&mut String>, Vec<&mut Value>) = (Vec::new(), Vec::new());
    match &mut event {
        Event::RunStarted(started) => {
            texts.push(&mut started.sandbox);
            texts.extend(started.tools.iter_mut().chain(&mut started.title).chain(&mut started.git_branch));
            values.extend(&mut started.mcp_servers);
        }
        Event::Assistant(turn) => {
            texts.extend([&mut turn.text, &mut turn.reasoning]);
            for call in &mut turn.calls {
                texts.extend([&mut call.id, &mut call.name]);
                texts.extend(&mut call.recovered);
                values.push(&mut call.input);
            }
        }
        Event::ToolResult(result) => {
            let ToolResult { call_id, tool, description, content, display, .. } = &mut **result;
            texts.extend([call_id, tool, description, content, display]);
        }
        Event::Denied(denial) => {
            texts.extend([&mut denial.tool_name, &mut denial.tool_use_id, &mut denial.reason]);
            texts.extend(denial.rule.iter_mut().chain(&mut denial.hint).chain(&mut denial.allow_with));
            values.push(&mut denial.tool_input);
        }
        Event::Decided(record) => {
            texts.extend([&mut record.call_id, &mut record.tool, &mut record.reason]);
            texts.extend(record.rule.iter_mut().chain(&mut record.effects));
        }
        Event::Command { argv, .. } => texts.extend(argv),
        Event::Verify(outcome) => texts.extend([&mut outcome.command, &mut outcome.output_tail]),
        Event::Delta { text, .. } => texts.push(text),
        Event::Retry(Retry { message, .. }) | Event::Warning { message } | Event::Status { message, .. } => {
            texts.push(message);
        }
        Event::FileChange { path, .. } => texts.push(path),
        Event::Todos { todos } => values.extend(todos),
        Event::RunFinished(finished) => {
            if let Some(error) = &mut finished.error {
                texts.push(&mut error.message);
                texts.extend(&mut error.hint);
            }
            texts.push(&mut finished.result);
            texts.extend(finished.changes.files.iter_mut().map(|file| &mut file.path));
            texts.extend(finished.branch.iter_mut());
            values.extend(finished.structured.iter_mut().chain(&mut finished.findings));
        }
        // Names of ours and numbers only.
        Event::TurnStarted { .. }
        | Event::ModelFallback { .. }
        | Event::Budget(_)
        | Event::SideRequest(_)
        | Event::Compaction { .. }
        | Event::DeliveryStarted { .. }
        | Event::Redaction { .. } => {}
    }
    texts.into_iter().for_each(|text| *text = secrets.hide(text).into_owned());
    values.into_iter().for_each(|value| *value = hidden(value, secrets));
    event
}

/// Returns a value with every secret in its texts and names masked.
pub fn hidden(value: &Value, secrets: &Secrets) -> Value {
    masked_value(value, &|text| secrets.hide(text).into_owned())
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
        let ending = Event::TurnStarted { turn: 2, parent: None };
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
