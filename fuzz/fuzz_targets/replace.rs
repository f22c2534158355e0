//! Checks that an edit changes only the places it found, at whatever stage, and that the nearest match is inside the
//! text.
//!
//! The input is `text`, `old` and `new`, separated by zero bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwen_run::change::replace::{Failure, Stage, Wanted, nearest, replace};

fuzz_target!(|input: &str| {
    let mut parts = input.splitn(3, '\0');
    let (text, old, new) =
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    for wanted in [Wanted::Exactly(1), Wanted::All] {
        match replace(text, old, new, wanted) {
            Ok(replaced) => {
                assert!(!replaced.places.is_empty());
                assert_eq!(replaced.places.len(), replaced.now.len());
                if replaced.stage == Stage::Exact && wanted == Wanted::All {
                    // One that would leave half of a `\r\n` behind does not count.
                    assert!(replaced.places.len() <= text.matches(old).count());
                }
                let (mut before, mut after) = (0, 0);
                for (place, now) in replaced.places.iter().zip(&replaced.now) {
                    assert_eq!(text[before..place.start], replaced.text[after..now.start]);
                    (before, after) = (place.end, now.end);
                }
                assert_eq!(text[before..], replaced.text[after..]);
            }
            Err(Failure::WrongCount { lines, .. }) => assert!(lines.len() > 1 && wanted != Wanted::All),
            Err(Failure::NotFound | Failure::Unclear { .. }) => {}
        }
    }
    if let Some(region) = nearest(text, old) {
        assert!(region.first >= 1 && region.first <= region.last && region.last <= text.lines().count());
    }
});
