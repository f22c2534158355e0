//! Keeps track of the text that was shown of a turn, so that a retry does not show it again.

use super::Delta;

/// Passes deltas on, each piece of text once, however many attempts it takes.
pub struct Streamed<'a> {
    sink: &'a mut (dyn FnMut(Delta) + Send),
    /// The visible text shown so far.
    text: String,
    reasoned: bool,
    /// Where in `text` this attempt began.
    start: usize,
    /// What this attempt said, as long as it only says what was shown before.
    repeated: String,
    mode: Mode,
    hide_reasoning: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// What comes is compared with what was shown.
    Comparing,
    /// What comes is new.
    Passing,
}

impl<'a> Streamed<'a> {
    /// Starts a turn.
    pub fn new(sink: &'a mut (dyn FnMut(Delta) + Send)) -> Streamed<'a> {
        Streamed {
            sink,
            text: String::new(),
            reasoned: false,
            start: 0,
            repeated: String::new(),
            mode: Mode::Passing,
            hide_reasoning: false,
        }
    }

    /// Begins an attempt whose text follows `kept`, which is shown first if it had been held back; an empty `kept`
    /// begins the turn again.
    pub fn begin(&mut self, kept: &str) {
        if let Some(rest) = kept.strip_prefix(self.text.as_str()) {
            self.show(rest.to_owned());
        }
        self.start = kept.len().min(self.text.len());
        self.repeated.clear();
        self.mode = if self.start < self.text.len() { Mode::Comparing } else { Mode::Passing };
        self.hide_reasoning = self.reasoned;
    }

    /// Takes a delta of the current attempt.
    pub fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.push_text(text),
            Delta::Reasoning(text) => {
                if !self.hide_reasoning {
                    self.reasoned = true;
                    (self.sink)(Delta::Reasoning(text));
                }
            }
            notice @ Delta::Notice(_) => (self.sink)(notice),
        }
    }

    fn push_text(&mut self, text: String) {
        match self.mode {
            Mode::Passing => self.show(text),
            Mode::Comparing => {
                self.repeated.push_str(&text);
                let shown = &self.text[self.start..];
                if shown.starts_with(&self.repeated) {
                    return;
                }
                let repeated = std::mem::take(&mut self.repeated);
                self.mode = Mode::Passing;
                match repeated.strip_prefix(shown) {
                    Some(new) => self.show(new.to_owned()),
                    // The model says it differently this time: that is a new text, and it begins a new line.
                    None => {
                        let separator = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
                        self.show(format!("{separator}{repeated}"));
                    }
                }
            }
        }
    }

    fn show(&mut self, text: String) {
        if !text.is_empty() {
            self.text.push_str(&text);
            (self.sink)(Delta::Text(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(attempts: &[&[&str]]) -> String {
        let mut all = String::new();
        let mut sink = |delta| {
            if let Delta::Text(text) = delta {
                all.push_str(&text);
            }
        };
        let mut streamed = Streamed::new(&mut sink);
        for attempt in attempts {
            streamed.begin("");
            for piece in *attempt {
                streamed.push(Delta::Text((*piece).to_owned()));
            }
        }
        all
    }

    #[test]
    fn r42_text_is_shown_once_over_attempts() {
        assert_eq!(shown(&[&["Hel"], &["H", "ello"], &["Hello", " world"]]), "Hello world");
        assert_eq!(shown(&[&["Hello"], &["Hel"]]), "Hello");
        assert_eq!(shown(&[&["né"], &["n", "é!"]]), "né!");
    }

    #[test]
    fn another_text_begins_a_new_line() {
        assert_eq!(shown(&[&["I will write"], &["Let me", " write"]]), "I will write\nLet me write");
    }

    #[test]
    fn reasoning_is_not_shown_again() {
        let mut pieces = Vec::new();
        let mut sink = |delta| pieces.push(delta);
        let mut streamed = Streamed::new(&mut sink);
        streamed.push(Delta::Reasoning("a".into()));
        streamed.begin("");
        streamed.push(Delta::Reasoning("a".into()));
        assert_eq!(pieces, [Delta::Reasoning("a".into())]);
    }
}
