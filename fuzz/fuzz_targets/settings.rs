//! Checks that any text is settings or an error with its position, and that a server can be added and removed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::settings::{edit, json};
use serde_json::json;

fuzz_target!(|text: &str| {
    let parsed = json::parse(text);
    if let Err(error) = &parsed {
        assert!(!error.to_string().is_empty());
    }
    if let Ok(plain) = serde_json::from_str::<serde_json::Value>(text) {
        assert_eq!(parsed.as_ref().map(json::Node::value), Ok(plain));
    }
    let server = json!({"command": "x", "args": ["--a", "é\n"]});
    let Ok(with) = edit::set(text, "mcpServers", "s\"1", &server) else { return };
    let now = json::parse(&with).expect("an edited file is read").value();
    assert_eq!(now["mcpServers"]["s\"1"], server);
    let Ok(Some(without)) = edit::remove(&with, "mcpServers", "s\"1") else { return };
    let now = json::parse(&without).expect("an edited file is read").value();
    assert!(now["mcpServers"].get("s\"1").is_none_or(|left| *left != server || text.contains("s\\\"1")));
});
