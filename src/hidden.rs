//! Lists the characters that people cannot see but programs and models read.
//!
//! The shell's reader denies them, recipes refuse them, instructions lose them, and file names are compared without
//! them. Characters that a terminal acts on are [`crate::emit::safe`]'s concern.

/// Tells whether a reader may leave this character out: Unicode's `Default_Ignorable_Code_Point`, without the code
/// points that stand for nothing yet outside of plane 14.
pub fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Tells whether a character leaves no mark on a screen or moves others: controls, what is [ignorable](is_ignorable),
/// the separators of lines and paragraphs, the marks of annotations.
///
/// Tab and line feed are text, and so are the variation selectors that choose between a sign and its emoji. A joiner
/// between two letters or signs is text, too, but cannot be told from a hidden one.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\t' | '\n' | '\u{fe00}'..='\u{fe0f}' => false,
        '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' => true,
        c => c.is_control() || is_ignorable(c),
    }
}

/// Tells whether a character has no place in a recipe or in text from strangers: it cannot be seen, changes how others
/// are seen, or means only what two have agreed on (private use). Line ends of every system are text.
pub fn is_foreign(c: char) -> bool {
    let private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    private || (c != '\r' && is_hidden(c))
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
        let text = "日本語 עברית ä 👍 ❤\u{fe0f} e\u{301}\n";
        assert_eq!(without_hidden(text), (text.to_owned(), 0));
    }

    #[test]
    fn what_is_ignorable_is_hidden_but_for_the_selectors_of_emoji() {
        for c in '\0'..=char::MAX {
            assert!(!is_ignorable(c) || is_hidden(c) || ('\u{fe00}'..='\u{fe0f}').contains(&c), "{c:?}");
        }
        assert!(is_hidden('\r') && is_hidden('\u{85}') && !is_hidden(' ') && !is_hidden('\u{a0}'));
    }
}
