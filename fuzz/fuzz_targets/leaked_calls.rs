//! Checks that searching any text for calls never panics and always gives the same result.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use qwen_run::model::tool_set::ToolSet;
use qwen_run::model::{ToolSpec, unread_call};

fuzz_target!(|text: String| {
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object", "properties": {
            "file_path": {"type": "string"}, "content": {"type": "string"}}, "required": ["file_path"]}),
    };
    let tools = ToolSet::new(Arc::from([spec("read_file"), spec("write_file")]));
    for calls_natively in [false, true] {
        let read = || unread_call::broken_call(&text, &tools, calls_natively);
        assert_eq!(read(), read());
    }
});
