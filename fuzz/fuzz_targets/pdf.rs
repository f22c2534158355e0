//! Checks that any bytes give the text of a PDF, or a message that says why there is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::tools::common::pdf;

fuzz_target!(|bytes: &[u8]| {
    match pdf::text(bytes, None, 10_000) {
        Ok(text) => assert!(text.pages.len() <= text.total),
        Err(why) => assert!(!why.is_empty()),
    }
});
