//! Any bytes are a PDF with text or none, with words why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::tools::common::pdf;

fuzz_target!(|bytes: &[u8]| {
    match pdf::text(bytes, None, 10_000) {
        Ok(text) => assert!(text.pages.len() <= text.total),
        Err(why) => assert!(!why.is_empty()),
    }
});
