//! Checks that any text is settings or an error with its position, and that a server can be added and removed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::base::document::jsonc;
use serde_json::json;

const SECTION: &str = "mcpServers";
const NAME: &str = "s\"1";

fuzz_target!(|text: &str| {
    let value = |text: &str| jsonc::parse("f", text).map(|node| node.value.value());
    let parsed = value(text);
    match (&parsed, serde_json::from_str::<serde_json::Value>(text)) {
        (Err(error), _) => assert!(error.span.line > 0 && !error.message.is_empty()),
        (Ok(parsed), Ok(plain)) => assert_eq!(*parsed, plain),
        (Ok(_), Err(_)) => {}
    }
    let server = json!({"command": "x", "args": ["--a", "é\n"]});
    let Ok(with) = jsonc::set("f", text, SECTION, NAME, &server) else { return };
    assert_eq!(value(&with).expect("an edited file is read")[SECTION][NAME], server);
    let without = jsonc::remove("f", &with, SECTION, NAME).expect("it can be removed").expect("it is there");
    assert!(value(&without).expect("an edited file is read")[SECTION].get(NAME).is_none());
});
