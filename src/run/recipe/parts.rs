//! Shows a change under review in parts, each with a list of what is not in it.

use std::collections::HashMap;

use crate::recipe::file::{Context, OnLarge, Truncate};
use crate::verify::parts::{LINE_BYTES, Sizes, divide};
use crate::verify::review::{Cut, NotLookedAt, Review};

/// The most bytes of a file.
const FILE_BYTES: usize = 60_000;

/// The most bytes of a part of an input that sets none.
const PART_BYTES: usize = 120_000;

/// Parts of an input that sets none.
const PARTS: usize = 8;

/// Files of which the result says that they were cut.
const MOST_CUT: usize = 500;

/// What happens with a change that is too large. `may_split`: its parts' answers can become one.
pub fn on_large(context: &Context, may_split: bool) -> OnLarge {
    match (context.on_large, context.truncate) {
        (Some(OnLarge::Split), _) if !may_split => OnLarge::Cut,
        (Some(on_large), _) => on_large,
        (None, Some(Truncate::Fail)) => OnLarge::Fail,
        (None, Some(_)) => OnLarge::Cut,
        (None, None) if may_split => OnLarge::Split,
        (None, None) => OnLarge::Cut,
    }
}

/// Divides the text of a change; each part lists all its files. There is always a part for a change that has files.
///
/// Errors with the reason alone if the change is too large and must not be cut.
pub fn in_parts(
    text: &str,
    review: &mut Review,
    (context, on_large): (&Context, OnLarge),
) -> Result<Vec<String>, String> {
    let part = context.max_bytes.unwrap_or(PART_BYTES);
    let whole = on_large == OnLarge::Fail;
    let sizes = Sizes {
        line: if whole { usize::MAX } else { LINE_BYTES },
        file: if whole { usize::MAX } else { FILE_BYTES },
        part,
        parts: if on_large == OnLarge::Split { context.max_parts.unwrap_or(PARTS) } else { 1 },
    };
    let divided = divide(text, sizes);
    if whole && !(divided.cut.is_empty() && divided.not_reached.is_empty()) {
        return Err(format!("{} bytes; at most {part}", text.len()));
    }
    let shown = std::mem::take(&mut review.waiting).into_iter().flatten();
    let shown: HashMap<String, NotLookedAt> = shown.map(|file| (file.path.clone(), file)).collect();
    let of =
        |paths: &[String]| -> Vec<NotLookedAt> { paths.iter().filter_map(|path| shown.get(path)).cloned().collect() };
    review.coverage.not_reached(of(&divided.not_reached));
    review.waiting = divided.parts.iter().map(|part| of(&part.files)).collect();
    review.coverage.parts = divided.parts.len() as u64;
    let cut = divided.cut.into_iter().take(MOST_CUT);
    review.coverage.cut = cut.map(|(path, lines)| Cut { path, lines }).collect();
    let count = divided.parts.len();
    let mut texts: Vec<String> = divided.parts.into_iter().map(|part| part.text).collect();
    if texts.is_empty() && !review.files.is_empty() {
        texts.push(String::new());
    }
    for (n, text) in texts.iter_mut().enumerate() {
        text.push_str(&review.listing(n));
        if count > 1 {
            text.push_str(&format!("\nThis is part {} of {count} of the change; each is reviewed by itself.\n", n + 1));
        }
    }
    Ok(texts)
}
