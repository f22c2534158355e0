//! Masks secrets that the events of a recorded stream hold in pieces.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::canonical::Masks;

/// Overwrites secrets that show only once the pieces of a text are joined: in the content, the reasoning and the
/// arguments of each call. Other events keep their bytes. `lengths` are those of the chunks of `body`.
pub(super) fn mask(masks: &Masks, body: &mut Vec<u8>, lengths: &mut [usize]) {
    let mut events = events(body);
    // Some servers name the index of a call only once, and others write several calls at the same time.
    for by_index in [true, false] {
        mask_joined(masks, &mut events, by_index);
    }
    apply(events.into_iter().filter(|event| event.changed).flat_map(Event::edits).collect(), body, lengths);
}

fn mask_joined(masks: &Masks, events: &mut [Event], by_index: bool) {
    let mut joined: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for event in &mut *events {
        each_text(&mut event.value, &mut String::new(), by_index, &mut |path, text| {
            joined.entry(path.to_owned()).or_default().extend_from_slice(text.as_bytes());
        });
    }
    joined.retain(|_, text| {
        let before = text.clone();
        masks.overwrite(text);
        *text != before
    });
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for Event { value, changed, .. } in events {
        each_text(value, &mut String::new(), by_index, &mut |path, text| {
            let Some(masked) = joined.get(path) else { return };
            let start = used.get(path).copied().unwrap_or_default();
            used.insert(path.to_owned(), start + text.len());
            let piece = String::from_utf8_lossy(&masked[start..start + text.len()]);
            if *text != piece {
                *text = piece.into_owned();
                *changed = true;
            }
        });
    }
}

/// An event with JSON, and where its lines are.
struct Event {
    /// The values of its `data` lines, without the ends of the lines.
    lines: Vec<Range<usize>>,
    value: Value,
    changed: bool,
}

impl Event {
    /// Puts the whole value on the first line: the other lines of the event become empty ones of the same field.
    fn edits(self) -> impl Iterator<Item = (Range<usize>, Vec<u8>)> {
        let mut text = Some(self.value.to_string().into_bytes());
        self.lines.into_iter().map(move |line| (line, text.take().unwrap_or_default()))
    }
}

/// Finds the events that hold JSON; a body that is one JSON document counts as one event.
fn events(body: &[u8]) -> Vec<Event> {
    if let Ok(value) = serde_json::from_slice(body) {
        return vec![Event { lines: std::iter::once(0..body.len()).collect(), value, changed: false }];
    }
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    let mut start = if body.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    while start <= body.len() {
        let end = memchr::memchr2(b'\n', b'\r', &body[start..]).map_or(body.len(), |length| start + length);
        match body[start..end].strip_prefix(b"data:") {
            Some(value) => lines.push(end - value.strip_prefix(b" ").unwrap_or(value).len()..end),
            // Not an end of a line of its own: `\r\n`.
            None if start == end && start > 0 && body[start - 1..].starts_with(b"\r\n") => {}
            None if start == end => found.extend(event(body, std::mem::take(&mut lines))),
            None => {}
        }
        start = end + 1;
    }
    found.extend(event(body, lines));
    found
}

fn event(body: &[u8], lines: Vec<Range<usize>>) -> Option<Event> {
    let data: Vec<&[u8]> = lines.iter().map(|line| &body[line.clone()]).collect();
    let value = serde_json::from_slice(&data.join(&b'\n')).ok()?;
    Some(Event { lines, value, changed: false })
}

/// Visits the texts of a value. Those with the same path continue each other in later events; entries of a list may be
/// told apart by their `index`.
fn each_text(value: &mut Value, path: &mut String, by_index: bool, visit: &mut dyn FnMut(&str, &mut String)) {
    let length = path.len();
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            for item in items {
                path.push('/');
                if let Some(index) = item.get("index").filter(|_| by_index) {
                    path.push_str(&index.to_string());
                }
                each_text(item, path, by_index, visit);
                path.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                path.push('/');
                path.push_str(key);
                each_text(item, path, by_index, visit);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces ranges, which are in order, and moves the ends of the chunks along.
fn apply(edits: Vec<(Range<usize>, Vec<u8>)>, body: &mut Vec<u8>, lengths: &mut [usize]) {
    if edits.is_empty() {
        return;
    }
    let (mut old_end, mut new_end) = (0, 0);
    for length in lengths {
        old_end += *length;
        let moved = moved(&edits, old_end);
        *length = moved - new_end;
        new_end = moved;
    }
    for (range, bytes) in edits.into_iter().rev() {
        body.splice(range, bytes);
    }
}

/// Returns where a position is after the edits; inside of one, as far from its start as before, if it is long enough.
fn moved(edits: &[(Range<usize>, Vec<u8>)], position: usize) -> usize {
    let (mut removed, mut added) = (0, 0);
    for (range, bytes) in edits.iter().take_while(|(range, _)| range.start < position) {
        let inside = position.min(range.end) - range.start;
        removed += inside;
        added += if position >= range.end { bytes.len() } else { inside.min(bytes.len()) };
    }
    position - removed + added
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-testkey-123456789";

    /// Masks this body in chunks of so many bytes, and returns it with the lengths.
    fn masked(body: &str, size: usize) -> (String, Vec<usize>) {
        let masks = Masks::new("/x", None, None, vec![KEY.to_owned(), "c2stdGVzdA==".to_owned()]);
        let mut body = body.as_bytes().to_vec();
        let mut lengths: Vec<usize> = body.chunks(size).map(<[u8]>::len).collect();
        mask(&masks, &mut body, &mut lengths);
        assert_eq!(lengths.iter().sum::<usize>(), body.len());
        (String::from_utf8(body).unwrap(), lengths)
    }

    fn delta(delta: Value) -> String {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
    }

    #[test]
    fn a_secret_in_pieces_is_masked_in_contents_and_calls() {
        let call =
            |index: u32, text: &str| delta(json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}));
        let mut body = delta(json!({"role": "assistant", "content": "the key: "}));
        for piece in ["sk-t", "estk", "ey-1", "2345", "6789", ", c2st", "dGVzdA== é"] {
            body += &delta(json!({"content": piece}));
        }
        // Two calls at the same time.
        body +=
            &(call(0, "{\"a\":\"sk-testk") + &call(1, "{\"b\":\"x") + &call(0, "ey-123456789\"}") + &call(1, "y\"}"));
        body += "data: [DONE]\n\n";
        for size in [1, 7, 40, 10_000] {
            let (text, lengths) = masked(&body, size);
            assert_eq!(lengths.len(), body.len().div_ceil(size));
            let mut joined: BTreeMap<String, String> = BTreeMap::new();
            for mut event in events(text.as_bytes()) {
                each_text(&mut event.value, &mut String::new(), true, &mut |path, piece| {
                    joined.entry(path.to_owned()).or_default().push_str(piece);
                });
            }
            let stars = "*".repeat(KEY.len());
            assert_eq!(joined["/choices/0/delta/content"], format!("the key: {stars}, ************ é"));
            assert_eq!(joined["/choices/0/delta/tool_calls/0/function/arguments"], format!("{{\"a\":\"{stars}\"}}"));
            assert_eq!(joined["/choices/0/delta/tool_calls/1/function/arguments"], "{\"b\":\"xy\"}");
            assert!(text.ends_with("data: [DONE]\n\n"));
        }
    }

    #[test]
    fn a_stream_without_a_secret_keeps_every_byte() {
        let body = "data:  {\"a\" : \"sk-t\"}\r\n\r\n: hi\n\ndata: {\"a\":\"est\"}\n\ndata: {\"a\":";
        assert_eq!(masked(body, 5), (body.to_owned(), body.as_bytes().chunks(5).map(<[u8]>::len).collect()));
    }

    #[test]
    fn escapes_lines_and_whole_documents_hide_nothing() {
        let unnamed = delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "sk-testk"}}]}))
            + &delta(json!({"tool_calls": [{"function": {"arguments": "ey-123456789"}}]}));
        assert!(!masked(&unnamed, 9).0.contains("testk"));
        let escaped = "{\"a\":\"\\u0073k-testkey-123456789\"}";
        assert!(masked(escaped, 3).0.contains("*****"));
        let lines = "data: {\"a\":\ndata: \"sk-testkey\"}\r\n\r\ndata: {\"a\":\r\ndata: \"-123456789\"}\n\n";
        let (text, _) = masked(lines, 3);
        assert!(!text.contains("testkey") && !text.contains("123456789"), "{text}");
        assert_eq!(events(text.as_bytes()).len(), 2);
    }
}
