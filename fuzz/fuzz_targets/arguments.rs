//! Checks that parsing a call's arguments never panics, leaves valid JSON unchanged, and that what fits a tool's schema
//! still fits it, unchanged, when parsed again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qwen_run::model::ToolSpec;
use qwen_run::model::coerce::Parameters;
use qwen_run::model::repair::{Fragment, Reading, read};
use serde_json::{Map, Value, json};

static TOOLS: LazyLock<Vec<Parameters>> = LazyLock::new(|| {
    let tool = |name: &str, parameters: Value| {
        Parameters::of(&ToolSpec { name: name.to_owned(), description: String::new(), parameters })
    };
    vec![
        tool(
            "edit",
            json!({"type": "object", "required": ["file_path", "old_string", "new_string"], "properties": {
                "file_path": {"type": "string"}, "old_string": {"type": "string"}, "new_string": {"type": "string"},
                "expected_replacements": {"type": "integer", "minimum": 1},
            }}),
        ),
        tool(
            "mcp__any__thing",
            json!({"type": "object", "properties": {
                "flag": {"type": "boolean"}, "list": {"type": "array", "items": {"type": "string"}},
                "deep": {"type": "object", "properties": {"n": {"type": "number"}}},
                "which": {"enum": ["a", "b", null]}, "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            }}),
        ),
    ]
});

fuzz_target!(|raw: &str| {
    if let Ok(value) = serde_json::from_str::<Value>(raw) {
        let _chunk = qwen_run::model::chunk::read(value);
    }
    let reading = read(raw);
    if let Ok(whole) = serde_json::from_str::<Map<String, Value>>(raw) {
        let Reading::Fragments { pieces, steps } = &reading else { panic!("an object was not read") };
        assert_eq!((pieces.as_slice(), steps.len()), (&[Fragment::Object(whole)][..], 0));
    }
    let Reading::Fragments { pieces, .. } = reading else { return };
    for piece in pieces {
        let Fragment::Object(arguments) = piece else { continue };
        for tool in TOOLS.iter() {
            if let Ok(fitted) = tool.fit(arguments.clone()) {
                let again = tool.fit(fitted.arguments.clone()).expect("what was made to fit fits");
                assert_eq!(again.arguments, fitted.arguments);
            }
        }
    }
});
