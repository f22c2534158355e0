//! Any text is read without a panic, and the same way twice.
#![no_main]

use std::collections::HashSet;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use qwen_run::model::coerce::ToolSet;
use qwen_run::model::{AssistantMessage, ToolSpec, leaked_calls};

fuzz_target!(|text: String| {
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object", "properties": {
            "file_path": {"type": "string"}, "content": {"type": "string"}}, "required": ["file_path"]}),
    };
    let tools = ToolSet::new(Arc::from([spec("read_file"), spec("write_file")]));
    let read = || {
        let mut message = AssistantMessage { text: text.clone(), ..AssistantMessage::default() };
        let found = leaked_calls::read_again(&mut message, &tools, 0, &HashSet::new());
        (found, message)
    };
    let first = read();
    assert_eq!(first, read());
    if !first.0 {
        assert_eq!(first.1.text, text);
    }
    let _words = leaked_calls::broken_call(&text, &tools);
    let _ends = leaked_calls::ends_in_call(&text, &tools);
});
