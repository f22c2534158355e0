//! Normalises a request body for comparison with a cassette: what differs between runs without meaning is removed.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::base::digest::sha256;
use crate::secret::mask_credentials;
use crate::tool_name::ToolId;

/// What is replaced in every text of a body.
#[derive(Debug, Clone, Default)]
pub struct Masks {
    /// Texts with their placeholders, such as the current directory and `<cwd>`.
    pub placeholders: Vec<(String, String)>,
    /// Texts that no cassette may hold: secrets in each of their spellings, the longest first.
    pub secrets: Vec<String>,
}

impl Masks {
    /// Replaces the directories of this machine and masks the secrets of this run.
    pub fn new(cwd: &str, home: Option<&str>, tmp: Option<&str>, mut secrets: Vec<String>) -> Masks {
        let mut placeholders: Vec<(String, String)> = [(Some(cwd), "<cwd>"), (home, "<home>"), (tmp, "<tmp>")]
            .into_iter()
            .filter_map(|(path, placeholder)| Some((path?.trim_end_matches('/').to_owned(), placeholder.to_owned())))
            .filter(|(path, _)| !path.is_empty())
            .collect();
        // The longest first: the project mostly is in the home directory.
        placeholders.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Masks { placeholders, secrets }
    }

    /// Replaces secrets, and what has a secret's shape.
    pub fn hide_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| text.contains(secret.as_str())).collect::<Vec<_>>() {
            // As [`Masks::overwrite`] does it: a played answer that comes back in a request is what was recorded.
            text = text.replace(secret.as_str(), &"*".repeat(secret.len()));
        }
        mask_credentials(&text)
    }

    /// Overwrites secrets without moving the other bytes.
    pub fn overwrite(&self, bytes: &mut [u8]) {
        if self.secrets.is_empty() {
            return;
        }
        let any: Vec<String> = self.secrets.iter().map(|secret| regex::escape(secret)).collect();
        let any = regex::bytes::RegexBuilder::new(&any.join("|")).size_limit(64 << 20).build();
        let any = any.expect("escaped texts are a pattern");
        let found: Vec<_> = any.find_iter(bytes).map(|found| found.range()).collect();
        for place in found {
            bytes[place].fill(b'*');
        }
    }

    fn text(&self, text: &str) -> String {
        static VARYING: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
            let regex = |text: &str| Regex::new(text).expect("the pattern is a constant and a test compiles it");
            [
                (regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
                (regex(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
                (regex(r"\b20\d\d-\d\d-\d\d\b"), "<date>"),
            ]
        });
        if let Some(data) = text.strip_prefix("data:").filter(|data| data.len() > 200 && data.contains(";base64,")) {
            return format!("data:sha256={}", sha256(data.as_bytes()));
        }
        let mut text = self.hide_secrets(text);
        for (from, to) in &self.placeholders {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        for (shape, placeholder) in VARYING.iter() {
            if shape.is_match(&text) {
                text = shape.replace_all(&text, *placeholder).into_owned();
            }
        }
        text
    }
}

/// Fields of the body that mean nothing to the answer.
const DROPPED: &[&str] = &["metadata", "user", "prompt_cache_key", "seed", "stream_options"];

/// Returns the canonical form of a body; a body that is no JSON is as text.
pub fn canonical(body: &[u8], masks: &Masks) -> Value {
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
        return Value::String(masks.text(&String::from_utf8_lossy(body)));
    };
    if let Some(map) = value.as_object_mut() {
        for name in DROPPED {
            map.remove(*name);
        }
        if let Some(messages) = map.get_mut("messages").and_then(Value::as_array_mut) {
            canonical_messages(messages);
        }
    }
    sorted(&value, masks)
}

/// Numbers the ids of calls, and evens out what commands and directories answer differently each time.
fn canonical_messages(messages: &mut [Value]) {
    let mut calls: HashMap<String, (String, String)> = HashMap::new();
    for message in messages {
        if let Some(made) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
            for call in made {
                let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let Some(Value::String(id)) = call.get_mut("id") else { continue };
                let number = format!("<call {}>", calls.len() + 1);
                calls.insert(id.clone(), (number.clone(), name));
                *id = number;
            }
        }
        let mut tool = String::new();
        if let Some(Value::String(id)) = message.get_mut("tool_call_id")
            && let Some((number, name)) = calls.get(id)
        {
            id.clone_from(number);
            tool.clone_from(name);
        }
        let even_out = match ToolId::named(&tool) {
            Some(ToolId::RunShellCommand) => mask_numbers,
            Some(ToolId::Glob) => sort_lines,
            _ => continue,
        };
        match message.get_mut("content") {
            Some(Value::String(text)) => *text = even_out(text),
            Some(Value::Array(parts)) => {
                for part in parts {
                    if let Some(Value::String(text)) = part.get_mut("text") {
                        *text = even_out(text);
                    }
                }
            }
            Some(_) | None => {}
        }
    }
}

fn mask_numbers(text: &str) -> String {
    static NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"0x[0-9a-fA-F]+|\d+(?:[.:]\d+)*").expect("the pattern is a constant and a test compiles it")
    });
    NUMBERS.replace_all(text, "<n>").into_owned()
}

fn sort_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn sorted(value: &Value, masks: &Masks) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            Value::Object(
                keys.into_iter().map(|key| (masks.text(key), sorted(&map[key], masks))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| sorted(item, masks)).collect()),
        Value::String(text) => Value::String(masks.text(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns the first place where two canonical bodies differ, with what is there; `None` if they are the same.
pub fn first_difference(recorded: &Value, now: &Value) -> Option<String> {
    difference("", recorded, now)
}

fn difference(path: &str, recorded: &Value, now: &Value) -> Option<String> {
    match (recorded, now) {
        (Value::Object(one), Value::Object(other)) => {
            let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            for (key, value) in one {
                match other.get(key) {
                    None => return Some(format!("{} was recorded and is missing now", below(key))),
                    Some(new) => {
                        if let Some(found) = difference(&below(key), value, new) {
                            return Some(found);
                        }
                    }
                }
            }
            let new = other.keys().find(|key| !one.contains_key(*key))?;
            Some(format!("{} is new", below(new)))
        }
        (Value::Array(one), Value::Array(other)) => {
            for (index, (old, new)) in one.iter().zip(other).enumerate() {
                if let Some(found) = difference(&format!("{path}[{index}]"), old, new) {
                    return Some(found);
                }
            }
            (one.len() != other.len()).then(|| format!("{path} had {} entries and has {} now", one.len(), other.len()))
        }
        (Value::String(one), Value::String(other)) if one != other => {
            let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
            let near = |text: &str| text.chars().skip(same.saturating_sub(20)).take(60).collect::<String>();
            Some(format!("{path} was {:?} and is {:?} now (from character {same})", near(one), near(other)))
        }
        (one, other) if one != other => Some(format!("{path} was {} and is {} now", brief(one), brief(other))),
        _ => None,
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masks() -> Masks {
        Masks::new("/home/ann/project", Some("/home/ann"), Some("/tmp"), vec!["top-secret-key".to_owned()])
    }

    fn canonical_of(value: &Value) -> Value {
        canonical(value.to_string().as_bytes(), &masks())
    }

    #[test]
    fn what_differs_from_run_to_run_is_gone() {
        let body = json!({
            "stream": true, "seed": 5, "metadata": {"a": 1}, "stream_options": {"include_usage": true},
            "model": "m",
            "messages": [
                {"role": "user", "content": "in /home/ann/project/src and /home/ann/x and /tmp/y on 2026-11-21 at 2026-11-21T22:00:01Z, 0199aaaa-1111-7222-8333-444455556666"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "call_a", "function": {"name": "run_shell_command", "arguments": "{}"}},
                    {"id": "call_b", "function": {"name": "glob", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "call_a", "content": "took 1.25 s, pid 77 at 0x7ffe"},
                {"role": "tool", "tool_call_id": "call_b", "content": "b\na"},
            ]
        });
        insta::assert_snapshot!(
            canonical_of(&body),
            @r#"{"messages":[{"content":"in <cwd>/src and <home>/x and <tmp>/y on <date> at <time>, <uuid>","role":"user"},{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"run_shell_command"},"id":"<call 1>"},{"function":{"arguments":"{}","name":"glob"},"id":"<call 2>"}]},{"content":"took <n> s, pid <n> at <n>","role":"tool","tool_call_id":"<call 1>"},{"content":"a\nb","role":"tool","tool_call_id":"<call 2>"}],"model":"m","stream":true}"#
        );
    }

    #[test]
    fn r52_a_canonical_body_holds_no_secret() {
        let body =
            json!({"messages": [{"role": "user", "content": "top-secret-key, Bearer abcdef0123, sk-abcdef012345"}]});
        let text = canonical_of(&body).to_string();
        for secret in ["top-secret-key", "abcdef0123"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let table = [
            (json!({"a": [1, 2]}), json!({"a": [1, 3]}), "a[1] was 2 and is 3 now"),
            (json!({"a": [1]}), json!({"a": [1, 3]}), "a had 1 entries and has 2 now"),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), "b was recorded and is missing now"),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), "b is new"),
            (
                json!({"a": {"c": "xy"}}),
                json!({"a": {"c": "xz"}}),
                "a.c was \"xy\" and is \"xz\" now (from character 1)",
            ),
        ];
        for (one, other, expected) in table {
            assert_eq!(first_difference(&one, &other).unwrap(), expected);
            assert_eq!(first_difference(&one, &one), None);
        }
    }
}
