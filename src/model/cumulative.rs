//! Removes the repetition of servers that send the whole text so far in every chunk.

/// From here on a chunk that begins with everything so far is not a coincidence.
const SURE: usize = 16;

/// Different bytes from which on a text tells something: a line of dashes continues with a longer piece of itself.
const TELLING: usize = 4;

/// Joins chunks that are pieces, or the whole text so far.
#[derive(Debug, Default)]
pub(super) struct Joined {
    text: String,
    /// Chunks that each begin with the one before while the text is still too short to be sure.
    pending: Vec<String>,
    is_cumulative: bool,
    /// Whether a chunk came that was neither the first nor an extension of it.
    grew: bool,
}

impl Joined {
    /// Takes a chunk and returns what it adds.
    pub(super) fn push(&mut self, chunk: &str) -> &str {
        let before = self.text.len();
        self.take(chunk);
        &self.text[before..]
    }

    fn take(&mut self, chunk: &str) {
        if chunk.is_empty() {
            return;
        }
        if self.is_cumulative {
            if let Some(more) = chunk.strip_prefix(self.text.as_str()) {
                return self.text.push_str(more);
            }
            if self.text.starts_with(chunk) {
                return;
            }
            self.is_cumulative = false;
        } else if self.text.len() >= SURE
            && chunk.len() > self.text.len()
            && let Some(more) = chunk.strip_prefix(self.text.as_str())
            && is_telling(&self.text)
        {
            self.is_cumulative = true;
            return self.text.push_str(more);
        } else if !self.grew && self.text.len() < SURE && !self.text.is_empty() {
            let last = self.pending.last().unwrap_or(&self.text);
            if chunk.len() > last.len() && chunk.starts_with(last.as_str()) {
                self.pending.push(chunk.to_owned());
                if chunk.len() < SURE || self.pending.len() < 2 || !is_telling(chunk) {
                    return;
                }
                self.pending.clear();
                self.is_cumulative = true;
                let known = self.text.len();
                return self.text.push_str(&chunk[known..]);
            }
        }
        self.flush();
        self.grew = self.grew || !self.text.is_empty();
        self.text.push_str(chunk);
    }

    /// Returns what was held back, as pieces after all.
    pub(super) fn flush(&mut self) -> &str {
        let before = self.text.len();
        for piece in self.pending.drain(..) {
            self.text.push_str(&piece);
        }
        self.grew |= self.text.len() > before;
        &self.text[before..]
    }

    /// Returns the last chunk if every chunk so far began with the one before.
    pub(super) fn pending_whole(&self) -> Option<&str> {
        self.pending.last().map(String::as_str)
    }

    /// Returns what is certain.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns what is certain, alone.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Joined::default();
    }
}

fn is_telling(text: &str) -> bool {
    let mut seen = [0; TELLING];
    let mut count = 0;
    text.bytes().any(|byte| {
        if !seen[..count].contains(&byte) {
            seen[count] = byte;
            count += 1;
        }
        count == TELLING
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(chunks: &[&str]) -> String {
        let mut joined = Joined::default();
        let mut added = String::new();
        for chunk in chunks {
            added.push_str(joined.push(chunk));
        }
        added.push_str(joined.flush());
        assert_eq!(added, joined.text());
        added
    }

    #[test]
    fn r12_cumulative_text_is_not_doubled() {
        assert_eq!(
            joined(&["The answer is 42,", "The answer is 42, and", "The answer is 42, and so on"]),
            "The answer is 42, and so on"
        );
        assert_eq!(joined(&["The", "The answer", "The answer is 42"]), "The answer is 42");
        let long = "The answer is 42. ".repeat(4);
        assert_eq!(
            joined(&[&long, &format!("{long}Or"), &format!("{long}Or"), &format!("{long}Or not")]),
            format!("{long}Or not")
        );
        assert_eq!(joined(&["The answer is 42", "The answer is 42, ok", "The answer"]), "The answer is 42, ok");
    }

    #[test]
    fn r12_legitimate_repeats_are_kept() {
        assert_eq!(joined(&["ha", "ha", "ha"]), "hahaha");
        assert_eq!(joined(&["1", "10", "100"]), "110100");
        assert_eq!(joined(&["ha", "haha"]), "hahaha");
        assert_eq!(joined(&["0123456789abcdef", "0123456789abcdef"]), "0123456789abcdef0123456789abcdef");
        assert_eq!(joined(&["a", "b", "bc"]), "abbc");
        let long = "The answer is 42. ".repeat(4);
        assert_eq!(joined(&[&long, &long]), long.repeat(2));
        assert_eq!(joined(&[&long, &long, &long]), long.repeat(3));
        let (rule, longer) = ("=".repeat(16), "=".repeat(32));
        assert_eq!(joined(&[&rule, &longer, "\n"]), format!("{rule}{longer}\n"));
        assert_eq!(joined(&["=", "==", &rule, &longer]), "=".repeat(51));
    }

    #[test]
    fn r12_the_mode_is_left_when_the_text_diverges() {
        assert_eq!(joined(&["0123456789abcdef", "0123456789abcdef g", " h", " i"]), "0123456789abcdef g h i");
    }
}
