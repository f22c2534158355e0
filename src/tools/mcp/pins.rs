//! Reads and checks pins: the hashes of tool definitions that somebody has reviewed.
//!
//! A file of pins is a JSON object by server and tool: `{"github": {"get_issue": "9f2c…"}}`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::base::digest::sha256;
use crate::policy::access::Pin;

/// The pins of one server; `None` where it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    tools: Option<BTreeMap<String, String>>,
}

impl Pins {
    /// Reads the pins of a server from a file of pins.
    pub fn parse(text: &str, server: &str) -> Result<Pins, String> {
        let all: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(text)
            .map_err(|error| format!("it is not an object of pins by server and tool: {error}"))?;
        Ok(Pins { tools: all.get(server).cloned() })
    }

    /// Compares a definition with its pin.
    pub fn compare(&self, tool: &str, hash: &str) -> Pin {
        match self.tools.as_ref().map(|tools| tools.get(tool)) {
            None => Pin::Unpinned,
            Some(None) => Pin::New,
            Some(Some(pinned)) if pinned.trim_start_matches("sha256:").eq_ignore_ascii_case(hash) => Pin::Match,
            Some(Some(_)) => Pin::Changed,
        }
    }
}

/// Returns the hash of a definition: name, description and schema as the server sends them, keys in any order.
pub fn hash(name: &str, description: &str, schema: &Value) -> String {
    let mut text = String::new();
    canonical(&serde_json::json!([name, description, schema]), &mut text);
    sha256(text.as_bytes())
}

/// Writes JSON with sorted keys.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for key in keys {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                canonical(&map[key], text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_and_everything_else_does() {
        let one = hash("a", "b", &json!({"x": 1, "y": [1]}));
        assert_eq!(one, hash("a", "b", &json!({"y": [1], "x": 1})));
        for other in [hash("a", "c", &json!({"x": 1, "y": [1]})), hash("a", "b", &json!({"x": 1, "y": [2]}))] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_definition_is_pinned_changed_new_or_without_pins() {
        let text = r#"{"s": {"t": "sha256:AB", "u": "cd"}}"#;
        let pins = Pins::parse(text, "s").unwrap();
        assert_eq!(
            [pins.compare("t", "ab"), pins.compare("u", "ab"), pins.compare("v", "ab")],
            [Pin::Match, Pin::Changed, Pin::New]
        );
        assert_eq!(Pins::parse(text, "other").unwrap().compare("t", "ab"), Pin::Unpinned);
        assert!(Pins::parse("[]", "s").is_err());
    }
}
