//! Checks that a body of any type becomes text, or a message that says what it is instead.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qwen_run::tools::web::fetch::Fetched;
use qwen_run::tools::web::page::{Format, page};
use qwen_run::tools::web::tags;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

fuzz_target!(|input: &[u8]| {
    let cut = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let fetched = |body: &[u8]| Fetched {
        url: "http://h/".parse().expect("an address"),
        content_type: String::from_utf8_lossy(&input[..cut]).into_owned(),
        body: body.to_vec(),
        cut: false,
    };
    let body = input.get(cut + 1..).unwrap_or_default();
    for format in [Format::Auto, Format::Text] {
        match RUNTIME.block_on(page(fetched(body), format)) {
            Ok(page) => assert!(!page.about.is_empty()),
            Err(why) => assert!(!why.is_empty()),
        }
    }
    let text = String::from_utf8_lossy(body);
    let _stripped = tags::strip(&text);
    let _count = tags::count(&text);
});
