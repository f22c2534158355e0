//! Checks that the frames are the same however the bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::model::sse::Decoder;

fuzz_target!(|input: (usize, Vec<u8>)| {
    let (at, bytes) = input;
    let mut whole = Decoder::new();
    let mut frames = whole.push(&bytes);
    frames.extend(whole.finish());
    let (first, second) = bytes.split_at(at % (bytes.len() + 1));
    let mut cut = Decoder::new();
    let mut others = cut.push(first);
    others.extend(cut.push(second));
    others.extend(cut.finish());
    assert_eq!(format!("{frames:?}"), format!("{others:?}"));
});
