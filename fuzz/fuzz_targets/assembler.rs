//! Checks that any events end in a turn or an error, in each mode.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use qwen_run::model::assemble::{Assembler, Options};
use qwen_run::model::assembled::Ending;
use qwen_run::model::tool_set::ToolSet;
use qwen_run::model::leaked_calls::TextTools;
use qwen_run::model::sse::{Decoder, Frame};
use qwen_run::model::{Arguments, ToolSpec};

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (mode, bytes) = input;
    let spec = ToolSpec {
        name: "write_file".into(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object", "properties": {
            "file_path": {"type": "string"}, "content": {"type": "string"}}, "required": ["file_path", "content"]}),
    };
    let text_tools = match mode % 3 {
        0 => TextTools::Off,
        1 => TextTools::Auto,
        _ => TextTools::Prompted,
    };
    let options = Options { turn: 0, text_tools, used_ids: Default::default(), model: "qwen3".into() };
    let tools = Arc::new(ToolSet::new(Arc::from([spec])));
    let mut assembler = Assembler::new(tools, options);
    let mut decoder = Decoder::new();
    let mut frames = decoder.push(&bytes);
    frames.extend(decoder.finish());
    let mut deltas = Vec::new();
    for frame in frames {
        if let Frame::Event { event, data } = frame
            && assembler.push_event(event.as_deref(), &data, &mut deltas).is_err()
        {
            return;
        }
    }
    if let Ok(assembled) = assembler.finish(Ending::Eof, &mut deltas) {
        for call in assembled.calls {
            assert!(!call.id.is_empty() && call.id.len() <= 40);
            if let Arguments::Object(arguments) = call.arguments {
                assert!(serde_json::to_string(&arguments).is_ok());
            }
        }
    }
});
