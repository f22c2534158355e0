//! Holds the visible text of an answer, without a second copy if it is part of the received content.

use std::ops::Range;

use super::cumulative::Joined;

/// A text that grows with the content that it is taken from.
#[derive(Debug)]
pub(super) enum Visible {
    /// It is this part of the content.
    Part(Range<usize>),
    /// It is another text: something was taken out of the content.
    Own(String),
}

impl Default for Visible {
    fn default() -> Visible {
        Visible::Part(0..0)
    }
}

impl Visible {
    /// Returns the text; `content` is what it was grown from.
    pub(super) fn of<'a>(&'a self, content: &'a Joined) -> &'a str {
        match self {
            Visible::Part(range) => &content.text()[range.clone()],
            Visible::Own(text) => text,
        }
    }

    /// Adds a piece that was just taken out of the content.
    pub(super) fn push(&mut self, piece: &str, content: &Joined) {
        let range = match self {
            Visible::Own(text) => return text.push_str(piece),
            Visible::Part(range) => range,
        };
        if range.start == range.end {
            // Only empty lines before the text are left out without a word.
            let start = content.text().len() - content.text().trim_start_matches(['\n', '\r']).len();
            *range = start..start;
        }
        let end = range.end + piece.len();
        if content.text().get(range.end..end) == Some(piece) {
            range.end = end;
        } else {
            let mut text = content.text()[range.clone()].to_owned();
            text.push_str(piece);
            *self = Visible::Own(text);
        }
    }

    /// Takes the text so far for something else: what is visible begins anew.
    pub(super) fn restart(&mut self, content: &Joined) -> String {
        match std::mem::replace(self, Visible::Own(String::new())) {
            Visible::Part(range) => content.text()[range].to_owned(),
            Visible::Own(text) => text,
        }
    }

    /// Returns the text alone; nothing is left of the content.
    pub(super) fn take(&mut self, content: &mut Joined) -> String {
        match std::mem::replace(self, Visible::Own(String::new())) {
            Visible::Part(range) => {
                let mut text = std::mem::take(content).into_text();
                text.truncate(range.end);
                text.drain(..range.start);
                text
            }
            Visible::Own(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grows a text of pieces of the content; tells whether it was kept twice, too.
    fn grown(content: &[&str], pieces: &[&str]) -> (String, bool) {
        let (mut joined, mut visible) = (Joined::default(), Visible::default());
        for piece in content {
            joined.push(piece);
        }
        for piece in pieces {
            visible.push(piece, &joined);
        }
        let is_own = matches!(visible, Visible::Own(_));
        let shown = visible.of(&joined).to_owned();
        assert_eq!(visible.take(&mut joined), shown);
        (shown, is_own)
    }

    #[test]
    fn text_that_is_the_content_is_not_kept_twice() {
        assert_eq!(grown(&["\n\nab", "cd"], &["ab", "cd"]), ("abcd".into(), false));
        assert_eq!(grown(&["ab", "cd"], &["a", "b"]), ("ab".into(), false));
        assert_eq!(grown(&["ab"], &[]), (String::new(), false));
    }

    #[test]
    fn text_without_what_was_taken_out_is_kept_as_it_is() {
        assert_eq!(grown(&["<think>ab</think>", "cd"], &["cd"]), ("cd".into(), true));
        assert_eq!(grown(&["ab<|im_end|>", "cd"], &["ab", "cd", "e"]), ("abcde".into(), true));
    }
}
