//! Finds where a text can be cut so that no word of it is: the rest of a secret would not be known for one.

/// The longest word that is left out as a whole, in bytes.
const LONGEST_WORD: usize = 4 << 10;

/// Returns where to end a text that may have at most `most` bytes: before the word that would be cut.
///
/// ```
/// use qwen_run::base::cut;
///
/// assert_eq!(cut::end("token=ghp_1234", 10), 6);
/// assert_eq!(cut::end("a b", 10), 3);
/// ```
pub fn end(text: &str, most: usize) -> usize {
    let end = text.floor_char_boundary(most);
    if !text[end..].starts_with(is_part) {
        return end;
    }
    let word = text[..end].trim_end_matches(is_part).len();
    if end - word > LONGEST_WORD { end } else { word }
}

/// Returns where to begin the end of a text that may have at most `most` bytes: behind the word that would be cut.
///
/// ```
/// use qwen_run::base::cut;
///
/// assert_eq!(cut::start("token=ghp_1234 done", 9), 14);
/// ```
pub fn start(text: &str, most: usize) -> usize {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    if !text[..start].ends_with(is_part) {
        return start;
    }
    let word = text.len() - text[start..].trim_start_matches(is_part).len();
    if word - start > LONGEST_WORD { start } else { word }
}

/// Tells whether a character can be one of a token.
fn is_part(c: char) -> bool {
    !(c.is_whitespace() || "\"'`,;<>(){}[]|=&".contains(c))
}
