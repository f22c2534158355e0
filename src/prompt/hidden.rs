//! Characters that a person does not see and a model reads: they are taken out of what becomes an instruction.

/// Tells whether a character leaves no mark on a screen: controls, bidi and zero-width marks, tags, variation selectors
/// of the supplement. Tab and line feed are text; a joiner between two letters or signs is, too, but cannot be told
/// from a hidden one and goes.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{3164}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Returns a text without hidden characters, and how many there were. Line ends become `\n`.
///
/// A byte order mark at the beginning and the carriage returns of line ends are no secret: they go uncounted.
pub fn without_hidden(text: &str) -> (String, usize) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut removed = 0;
    let kept = text
        .chars()
        .filter(|c| {
            let hidden = is_hidden(*c);
            removed += usize::from(hidden);
            !hidden
        })
        .collect();
    (kept, removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_taken_out_and_counted() {
        let (text, removed) = without_hidden("\u{feff}be\u{200b} nice\u{e0041}\u{e0042}\r\n\tto \u{202e}all\u{1b}");
        assert_eq!((text.as_str(), removed), ("be nice\n\tto all", 5));
    }

    #[test]
    fn letters_of_every_script_stay() {
        let text = "日本語 עברית ä 👍 e\u{301}\n";
        assert_eq!(without_hidden(text), (text.to_owned(), 0));
    }
}
