//! Separates thinking tags from the visible text.

/// A part of the answer's content, classified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fragment {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A `</think>` that nothing opened: all text before it was reasoning, unless reasoning came another way.
    Orphan,
}

const OPEN: [&str; 2] = ["<think>", "<thinking>"];
const CLOSE: [&str; 2] = ["</think>", "</thinking>"];

/// Ends of messages in the models' own protocol, which no reader should see.
const ENDS: [&str; 3] = ["<|im_end|>", "<|endoftext|>", "<|im_start|>"];

/// Tells whether a model's chat template opens `<think>` itself, so that only `</think>` appears.
pub fn opens_thinking_itself(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let qwen3 = model.split("qwen3.").nth(1).and_then(|rest| rest.bytes().next());
    qwen3.is_some_and(|minor| (b'5'..=b'9').contains(&minor))
        || ["deepseek-r1", "qwq", "-thinking"].iter().any(|name| model.contains(name))
}

/// Where the splitter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    Thinking,
    /// After a `<think>` in the middle of a line: reasoning if it is closed, text if not.
    Maybe,
}

/// Splits content into text and reasoning as it arrives; no part of a tag comes out as text.
#[derive(Debug)]
pub struct Splitter {
    state: State,
    /// Which of the tags was opened.
    opened: usize,
    /// The beginning of what may become a tag.
    held: String,
    maybe: String,
    in_fence: bool,
    /// Backticks of the line so far are odd.
    in_code: bool,
    /// Nothing but whitespace on the line so far.
    line_is_blank: bool,
    /// The beginning of a line that may be a fence.
    backticks: usize,
    /// Nothing visible came yet.
    is_blank: bool,
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter::new()
    }
}

impl Splitter {
    /// Starts with the first content.
    pub fn new() -> Splitter {
        Splitter {
            state: State::Text,
            opened: 0,
            held: String::new(),
            maybe: String::new(),
            in_fence: false,
            in_code: false,
            line_is_blank: true,
            backticks: 0,
            is_blank: true,
        }
    }

    /// Takes the next content.
    pub fn push(&mut self, content: &str, out: &mut Vec<Fragment>) {
        let owned;
        let mut rest = if self.held.is_empty() {
            content
        } else {
            self.held.push_str(content);
            owned = std::mem::take(&mut self.held);
            &owned
        };
        while !rest.is_empty() {
            let at = rest.find('<').unwrap_or(rest.len());
            if at > 0 {
                self.plain(&rest[..at], out);
                rest = &rest[at..];
                continue;
            }
            if let Some(length) = self.tag(rest, out) {
                rest = &rest[length..];
            } else if self.could_be_tag(rest) {
                self.held.push_str(rest);
                return;
            } else {
                self.plain("<", out);
                rest = &rest[1..];
            }
        }
    }

    /// Ends the content.
    pub fn finish(&mut self, out: &mut Vec<Fragment>) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.plain(&held, out);
        }
        if self.state == State::Maybe {
            self.state = State::Text;
            let text = format!("{}{}", OPEN[self.opened], std::mem::take(&mut self.maybe));
            self.emit(text, out);
        }
    }

    fn emit(&mut self, text: String, out: &mut Vec<Fragment>) {
        if text.is_empty() {
            return;
        }
        self.is_blank = self.is_blank && text.trim().is_empty();
        match out.last_mut() {
            Some(Fragment::Text(last)) => last.push_str(&text),
            Some(Fragment::Reasoning(_) | Fragment::Orphan) | None => out.push(Fragment::Text(text)),
        }
    }

    /// Handles the tag that `rest` begins with, if it is one here, and returns its length.
    fn tag(&mut self, rest: &str, out: &mut Vec<Fragment>) -> Option<usize> {
        let starts = |tags: &[&str]| tags.iter().position(|tag| rest.starts_with(tag));
        match self.state {
            State::Thinking | State::Maybe => {
                let close = CLOSE[self.opened];
                if !rest.starts_with(close) {
                    return None;
                }
                if self.state == State::Maybe {
                    reason(&std::mem::take(&mut self.maybe), out);
                }
                self.state = State::Text;
                Some(close.len())
            }
            State::Text if self.in_fence || self.in_code => None,
            State::Text => {
                if let Some(opened) = starts(&OPEN) {
                    self.opened = opened;
                    self.state = if self.line_is_blank { State::Thinking } else { State::Maybe };
                    return Some(OPEN[opened].len());
                }
                if let Some(closed) = starts(&CLOSE) {
                    out.push(Fragment::Orphan);
                    self.is_blank = true;
                    self.line_is_blank = true;
                    return Some(CLOSE[closed].len());
                }
                starts(&ENDS).map(|end| ENDS[end].len())
            }
        }
    }

    fn could_be_tag(&self, rest: &str) -> bool {
        let begins = |tags: &[&str]| tags.iter().any(|tag| tag.starts_with(rest));
        match self.state {
            State::Thinking | State::Maybe => CLOSE[self.opened].starts_with(rest),
            State::Text => !self.in_fence && !self.in_code && (begins(&OPEN) || begins(&CLOSE) || begins(&ENDS)),
        }
    }

    fn plain(&mut self, text: &str, out: &mut Vec<Fragment>) {
        match self.state {
            State::Thinking => reason(text, out),
            State::Maybe => self.maybe.push_str(text),
            State::Text => {
                let text = if self.is_blank { text.trim_start_matches(['\n', '\r']) } else { text };
                self.follow(text);
                self.emit(text.to_owned(), out);
            }
        }
    }

    /// Keeps track of code, in which a tag is only an example.
    fn follow(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\n' => {
                    self.line_is_blank = true;
                    self.in_code = false;
                    self.backticks = 0;
                }
                '`' => {
                    if self.line_is_blank || self.backticks > 0 {
                        self.backticks += 1;
                        if self.backticks == 3 {
                            self.in_fence = !self.in_fence;
                        }
                    }
                    self.line_is_blank = false;
                    self.in_code = !self.in_code && self.backticks < 2;
                }
                ' ' | '\t' | '\r' => self.backticks = 0,
                _ => {
                    self.line_is_blank = false;
                    self.backticks = 0;
                }
            }
        }
    }
}

fn reason(text: &str, out: &mut Vec<Fragment>) {
    if text.is_empty() {
        return;
    }
    match out.last_mut() {
        Some(Fragment::Reasoning(last)) => last.push_str(text),
        Some(Fragment::Text(_) | Fragment::Orphan) | None => out.push(Fragment::Reasoning(text.to_owned())),
    }
}
