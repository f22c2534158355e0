//! Reads events that differ from an earlier one in one string only, without parsing their JSON again.
//!
//! A stream of small chunks repeats the same hundred bytes around a few new ones. It is enough to compare the bytes
//! before and after the string with an event that was parsed, and to read the string itself.

use std::borrow::Cow;

use serde_json::Value;

use super::chunk::{self, CallPiece, Chunk};

/// Longer events are worth their own parse: there are few of them.
const MAX_EVENT: usize = 4096;

/// Where an event has its string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Arguments,
    Content,
    Reasoning,
}

/// The keys that a string may be after.
const KEYS: [(&str, Place); 4] = [
    ("\"arguments\"", Place::Arguments),
    ("\"content\"", Place::Content),
    ("\"reasoning_content\"", Place::Reasoning),
    ("\"reasoning\"", Place::Reasoning),
];

/// What is in the place of the string while it is made sure that nothing else depends on it. An event that holds
/// it already is not learned.
const PROBE: &str = "d0e6a1c94f";

/// An event without its string.
#[derive(Debug)]
struct Pattern {
    place: Place,
    /// Everything before the string, its quote included.
    head: String,
    /// Everything after it, from its quote.
    tail: String,
    /// The call that the event belongs to.
    call: CallPiece,
}

/// What an event adds that is like an earlier one.
#[derive(Debug, PartialEq)]
pub(super) enum Cached<'p, 'r> {
    /// A piece of a call.
    Call(&'p CallPiece),
    /// Text.
    Content(Cow<'r, str>),
    /// Reasoning.
    Reasoning(Cow<'r, str>),
}

/// The events seen so far that others may be like.
#[derive(Debug, Default)]
pub(super) struct EventCache {
    /// The last one that helped comes first.
    patterns: Vec<Pattern>,
    hits: u64,
    tried: u64,
}

impl EventCache {
    /// Reads an event that is like an earlier one.
    pub(super) fn read<'p, 'r>(&'p mut self, raw: &'r str) -> Option<Cached<'p, 'r>> {
        let at = self.patterns.iter().position(|pattern| pattern.fits(raw))?;
        self.patterns.swap(0, at);
        self.hits += 1;
        let pattern = &mut self.patterns[0];
        let inside = &raw[pattern.head.len()..raw.len() - pattern.tail.len()];
        let is_plain = inside.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
        let text = if is_plain {
            Cow::Borrowed(inside)
        } else {
            let quoted = &raw[pattern.head.len() - 1..=raw.len() - pattern.tail.len()];
            Cow::Owned(serde_json::from_str::<String>(quoted).ok()?)
        };
        if text.is_empty() {
            // An empty piece lets other fields speak.
            return None;
        }
        Some(match pattern.place {
            Place::Arguments => {
                pattern.call.arguments.clear();
                pattern.call.arguments.push_str(&text);
                Cached::Call(&pattern.call)
            }
            Place::Content => Cached::Content(text),
            Place::Reasoning => Cached::Reasoning(text),
        })
    }

    /// Remembers an event that says nothing but one piece of text.
    pub(super) fn learn(&mut self, raw: &str, chunk: &Chunk) {
        // If every event differs, comparing each of them twice is not worth it.
        if raw.len() > MAX_EVENT || self.tried > 16 + self.hits / 16 || raw.contains(PROBE) || !is_bare(chunk) {
            return;
        }
        self.tried += 1;
        let Some(pattern) = KEYS.iter().find_map(|(key, place)| Pattern::of(raw, chunk, key, *place)) else { return };
        self.patterns.retain(|old| old.place != pattern.place);
        self.patterns.insert(0, pattern);
    }
}

/// Tells whether a chunk has nothing that would have to be examined again.
fn is_bare(chunk: &Chunk) -> bool {
    let texts = [chunk.content.is_some(), chunk.reasoning.is_some(), !chunk.calls.is_empty()];
    texts.iter().filter(|is_there| **is_there).count() == 1
        && chunk.calls.len() <= 1
        && !chunk.is_message
        && chunk.reasoning_details.is_empty()
        && chunk.function_call.is_none()
        && chunk.finish.is_none()
        && chunk.usage.is_none()
        && chunk.error.is_none()
}

/// Returns the text of a place, to be exchanged.
fn text_at(chunk: &mut Chunk, place: Place) -> Option<&mut String> {
    match place {
        Place::Arguments => chunk.calls.first_mut().map(|call| &mut call.arguments),
        Place::Content => chunk.content.as_mut(),
        Place::Reasoning => chunk.reasoning.as_mut(),
    }
}

impl Pattern {
    fn fits(&self, raw: &str) -> bool {
        raw.len() >= self.head.len() + self.tail.len() && raw.starts_with(&self.head) && raw.ends_with(&self.tail)
    }

    /// Cuts the string after `key` out of an event; `None` unless the event means the same with any other string.
    fn of(raw: &str, chunk: &Chunk, key: &str, place: Place) -> Option<Pattern> {
        let at = raw.find(key)? + key.len();
        let rest = raw[at..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        let start = raw.len() - rest.len();
        let mut escaped = false;
        let length = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let (head, tail) = (&raw[..start], &raw[start + length..]);
        let mut other = chunk::read(serde_json::from_str::<Value>(&format!("{head}{PROBE}{tail}")).ok()?);
        let mut wanted = chunk.clone();
        PROBE.clone_into(text_at(&mut wanted, place)?);
        if other != wanted {
            return None;
        }
        let call = other.calls.pop().map(|call| CallPiece { arguments: String::new(), ..call }).unwrap_or_default();
        Some(Pattern { place, head: head.to_owned(), tail: tail.to_owned(), call })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn learned(raw: &str) -> EventCache {
        let mut cache = EventCache::default();
        cache.learn(raw, &chunk::read(serde_json::from_str(raw).unwrap()));
        cache
    }

    fn events() -> Vec<Value> {
        vec![
            json!({"choices": [{"delta": {"content": "x"}}]}),
            json!({"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "x"}, "finish_reason": null}], "usage": null}),
            json!({"choices": [{"delta": {"content": null, "reasoning_content": "x"}}]}),
            json!({"choices": [{"delta": {"reasoning": "x", "reasoning_details": []}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 3, "id": "a", "function": {"name": "list", "arguments": "x"}}]}}]}),
            json!({"content": "x", "choices": [{"delta": {"content": "x"}}]}),
            json!({"choices": [{"delta": {"content": [{"type": "text", "text": "x"}]}}]}),
            json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}),
            json!({"choices": [{"message": {"content": "x"}}]}),
            json!({"choices": [{"index": 1, "delta": {"content": "x"}}]}),
            json!({"error": {"content": "x"}}),
            json!({"message": {"content": "x"}}),
        ]
    }

    #[test]
    fn pieces_of_a_stream_are_recognised() {
        let mut cache = learned(r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}}]}}]}"#);
        let next = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"b\n"}}]}}]}"#;
        let piece = CallPiece { index: Some(0), arguments: "b\n".into(), ..CallPiece::default() };
        assert_eq!(cache.read(next), Some(Cached::Call(&piece)));
        assert!(cache.read(&next.replace(":0", ":1")).is_none());
        assert!(cache.read(&next.replace("b", r#"b","x":"#)).is_none());
        assert!(cache.read(&next.replace("b\\n", "")).is_none());
    }

    proptest! {
        #[test]
        fn what_is_cached_is_read_as_the_parser_reads_it(
            pick in any::<prop::sample::Index>(),
            text in prop_oneof![".{0,6}", "[\"\\\\{}:,nux0]{0,8}"],
            is_raw in any::<bool>(),
        ) {
            let event = pick.get(&events()).to_string();
            let mut cache = learned(&event);
            let text = if is_raw { text } else { let quoted = json!(text).to_string(); quoted[1..quoted.len() - 1].to_owned() };
            let other = event.replace("\"x\"", &format!("\"{text}\""));
            if let Some(read) = cache.read(&other) {
                let chunk = chunk::read(serde_json::from_str(&other).unwrap());
                prop_assert!(is_bare(&chunk));
                match read {
                    Cached::Call(piece) => prop_assert_eq!(Some(piece), chunk.calls.first()),
                    Cached::Content(text) => prop_assert_eq!(Some(&*text), chunk.content.as_deref()),
                    Cached::Reasoning(text) => prop_assert_eq!(Some(&*text), chunk.reasoning.as_deref()),
                }
            }
        }
    }
}
