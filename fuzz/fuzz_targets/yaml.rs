//! Checks that any text is parsed as a value or refused with a position inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::base::document::yaml;

fuzz_target!(|text: &str| {
    if let Err(error) = yaml::parse::<serde_json::Value>("a.yaml", text) {
        assert!(!error.to_string().is_empty());
        assert!(error.span.line as usize <= text.lines().count() + 1);
    }
});
