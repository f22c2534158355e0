//! Assembles a turn from the events of a stream, or from a whole completion.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::alike::{Alike, Patterns};
use super::chunk;
use super::coerce::ToolSet;
use super::cumulative::Joined;
use super::leaked_calls::{self, TextTools};
use super::repetition::{Place, Repetition};
use super::slots::{self, Slots, Unnumbered, flag};
use super::surrogates::Surrogates;
use super::thinking::{self, Splitter};
use super::visible::Visible;
use super::{Arguments, AssistantMessage, Delta, Reasoning, Stop, StreamFault, ToolCall, Turn, Usage};

/// Bytes of text, and of reasoning, of one turn.
const MAX_TEXT: usize = 16 << 20;

/// Opaque pieces of reasoning of one turn.
const MAX_DETAILS: usize = 10_000;

/// What the assembler must know besides the bytes.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The turn's number: part of generated call ids.
    pub turn: u32,
    /// Whether calls are looked for in the text.
    pub text_tools: TextTools,
    /// Ids of calls of earlier turns; none is given again.
    pub used_ids: HashSet<String>,
    /// The model's name: those whose template opens `<think>` themselves hold their text back until it is certain.
    pub model: String,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With `[DONE]`.
    Done,
    /// As one whole completion, which needs no word about its end.
    Whole,
    /// With the end of the bytes.
    Eof,
    /// With a reset, a timeout or a limit.
    Broken,
}

/// What a server says about the end, in classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// `stop`, `eos`, `end_turn`.
    Stop,
    /// `tool_calls`, `tool`, `function_call`.
    Calls,
    /// `length`, `max_tokens`.
    Length,
    /// `content_filter`.
    ContentFilter,
    /// `insufficient_system_resource`.
    Overloaded,
    /// `error`, `error_finish`.
    Error,
    /// Something else; the state decides.
    Other(String),
}

/// An error that came inside a stream, for the classifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFrame {
    /// The status, where the frame itself names one.
    pub status: Option<u16>,
    /// The frame's text: JSON, or the words that came with `error_finish`.
    pub body: String,
}

/// Why what arrived is not a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The stream broke the protocol.
    Stream(StreamFault),
    /// The server ran out of resources: try again.
    Overloaded,
    /// A filter cut the answer.
    ContentFilter,
    /// It ended as an error without saying which.
    Error(ErrorFrame),
    /// The bytes broke off; the client knows why.
    Broken,
}

/// What arrived before a failure. It decides whether the answer can be continued or must be requested again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partial {
    /// The visible text.
    pub text: String,
    /// The reasoning.
    pub reasoning: String,
    /// Calls whose arguments are complete.
    pub complete_calls: usize,
    /// Calls that were cut.
    pub incomplete_calls: usize,
    /// What the server said about the end, if it did.
    pub finish: Option<Finish>,
    /// Tokens as reported so far.
    pub usage: Usage,
    /// The server's id of the answer.
    pub response_id: Option<String>,
}

/// A failure, and what arrived before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// Why.
    pub fault: Fault,
    /// What arrived.
    pub partial: Box<Partial>,
}

/// What arrived, complete.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assembled {
    /// The visible text.
    pub text: String,
    /// The reasoning.
    pub reasoning: Option<Reasoning>,
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
    /// What the server said about the end.
    pub finish: Option<Finish>,
    /// Tokens as reported.
    pub usage: Usage,
    /// The model that answered.
    pub model: Option<String>,
    /// The server's id of the answer.
    pub response_id: Option<String>,
    /// What was repaired, for the event log.
    pub flags: Vec<&'static str>,
    /// Bytes of arguments that were examined: linear in the input.
    pub scanned: u64,
    /// The answer only repeated itself: text and reasoning end before the repetition, and calls are not taken.
    pub is_repetition: bool,
}

impl Assembled {
    /// Says why the turn ended, from what arrived.
    pub fn stop(&self) -> Stop {
        if self.is_repetition {
            Stop::Repetition
        } else if !self.calls.is_empty() {
            Stop::Calls
        } else if self.finish == Some(Finish::Length) {
            Stop::Length
        } else {
            Stop::End
        }
    }

    /// Tells whether only reasoning came, which is not an answer.
    pub fn is_reasoning_only(&self) -> bool {
        self.calls.is_empty() && self.text.trim().is_empty() && self.reasoning.is_some()
    }

    /// Makes the turn of it.
    pub fn into_turn(self, requests: u32, api_time: Duration) -> Turn {
        Turn {
            stop: self.stop(),
            message: AssistantMessage { text: self.text, reasoning: self.reasoning, calls: self.calls },
            usage: self.usage,
            model: self.model,
            requests,
            api_time,
            response_id: self.response_id,
        }
    }
}

/// Assembles a turn.
#[derive(Debug)]
pub struct Assembler {
    tools: Arc<ToolSet>,
    options: Options,
    /// Content as it comes, before thinking tags are taken out of it.
    content: Joined,
    splitter: Splitter,
    /// What the splitter gave for the last content: empty between events, kept for its memory.
    pieces: Vec<thinking::Piece>,
    /// Visible text, the part of it that was sent on, and how far it was searched for the beginnings of calls.
    text: Visible,
    emitted: usize,
    looked: usize,
    /// A call may begin here: nothing from here on goes out before the end.
    may_be_call: Option<usize>,
    /// The text may still turn out to be reasoning.
    is_withheld: bool,
    /// The end of the reasoning, where it came as text.
    spilled: String,
    field_reasoning: Joined,
    tag_reasoning: String,
    details: Vec<Value>,
    slots: Slots,
    alike: Patterns,
    surrogates: Surrogates,
    /// Calls in the older field, which counts only if the newer one stays empty.
    older: Slots,
    finish: Option<Finish>,
    usage: Usage,
    model: Option<String>,
    response_id: Option<String>,
    is_done: bool,
    chunks: u64,
    is_too_large: bool,
    /// Whether an answer that only repeats itself is cut.
    cuts_repetition: bool,
    /// Looks for text, reasoning and arguments that only repeat themselves.
    watch: Watch,
    flags: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Watch {
    text: Option<Repetition>,
    looked: usize,
    reasoning: Option<Repetition>,
    arguments: Option<Repetition>,
    /// How much of the text and of the reasoning to keep, once something repeats itself.
    found: Option<(Option<usize>, Option<usize>)>,
}

impl Assembler {
    pub fn new(tools: Arc<ToolSet>, options: Options) -> Assembler {
        Assembler {
            content: Joined::default(),
            splitter: Splitter::new(),
            pieces: Vec::new(),
            text: Visible::default(),
            emitted: 0,
            looked: 0,
            may_be_call: None,
            is_withheld: thinking::opens_thinking_itself(&options.model),
            spilled: String::new(),
            field_reasoning: Joined::default(),
            tag_reasoning: String::new(),
            details: Vec::new(),
            slots: Slots::default(),
            alike: Patterns::default(),
            surrogates: Surrogates::default(),
            older: Slots::default(),
            finish: None,
            usage: Usage::default(),
            model: None,
            response_id: None,
            is_done: false,
            chunks: 0,
            is_too_large: false,
            cuts_repetition: false,
            watch: Watch::default(),
            flags: Vec::new(),
            tools,
            options,
        }
    }

    /// Cuts the answer where it only repeats itself from there on.
    #[must_use]
    pub fn cutting_repetition(self) -> Assembler {
        Assembler { cuts_repetition: true, ..self }
    }

    /// Takes one event of the stream; text that is now certain goes to `out`. An error in the stream is returned for
    /// the classifier; the turn has failed then.
    pub fn push_event(&mut self, event: Option<&str>, data: &str, out: &mut Vec<Delta>) -> Result<(), ErrorFrame> {
        if self.done() {
            return Ok(());
        }
        let data = data.trim();
        if event.is_some_and(|name| name.eq_ignore_ascii_case("error")) {
            return Err(chunk::error_event(data));
        }
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        if !self.surrogates.waits() && self.push_alike(data, out) {
            return Ok(());
        }
        let read = serde_json::from_str::<Value>(data);
        let waited = read.is_ok() && self.surrogates.lost();
        let read =
            read.or_else(|error| self.surrogates.mend(data).map_or(Err(error), |data| serde_json::from_str(&data)));
        match read {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => {
                if waited {
                    flag(&mut self.flags, "half_a_character");
                }
                self.push_value(value, data, out)
            }
            Ok(_) | Err(_) => {
                flag(&mut self.flags, "skipped_data");
                Ok(())
            }
        }
    }

    /// Tells whether nothing more counts: `[DONE]` came, a cap was broken, or the answer only repeats itself.
    pub fn done(&self) -> bool {
        self.is_done || self.is_too_large || self.slots.too_large || self.watch.found.is_some()
    }

    /// Tells whether the server said why it ended.
    pub fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns what arrived so far, where no more of it is wanted.
    pub fn into_partial(self) -> Partial {
        let counts = self.slots.counts();
        self.partial(counts)
    }

    fn partial(mut self, (complete_calls, mut incomplete_calls): (usize, usize)) -> Partial {
        let may_be_call = self.may_be_call.filter(|&at| {
            let rest = &self.text.of(&self.content)[at..];
            rest.starts_with("<t") || rest.starts_with("<f")
        });
        let reasoning = self.take_reasoning();
        let mut text = self.text.take(&mut self.content);
        if let Some(at) = may_be_call {
            // Half a call in the text is not a text to continue from.
            text.truncate(at);
            incomplete_calls += 1;
        }
        Partial {
            text,
            reasoning,
            complete_calls,
            incomplete_calls,
            finish: self.finish,
            usage: self.usage,
            response_id: self.response_id,
        }
    }

    /// Takes an event that differs from an earlier one in its text alone; `false` leaves it to the parser.
    fn push_alike(&mut self, data: &str, out: &mut Vec<Delta>) -> bool {
        match self.alike.read(data) {
            None => return false,
            Some(Alike::Call(piece)) => {
                self.is_withheld = false;
                if self.cuts_repetition {
                    self.watch.arguments(&piece.arguments);
                }
                self.slots.push(piece, &self.tools);
                self.is_too_large |= self.slots.too_large;
            }
            Some(Alike::Content(text)) => self.push_content(&text, false, out),
            Some(Alike::Reasoning(text)) => self.push_reasoning(&text, false, out),
        }
        self.chunks += 1;
        self.advance(out);
        true
    }

    fn push_value(&mut self, value: Value, raw: &str, out: &mut Vec<Delta>) -> Result<(), ErrorFrame> {
        let chunk = chunk::read(value);
        self.chunks += 1;
        self.alike.learn(raw, &chunk);
        if let Some(error) = chunk.error {
            return Err(error);
        }
        if chunk.finish == Some(Finish::Error) {
            // The text of such a chunk is the error's, not the answer's.
            let body = chunk.content.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| raw.to_owned());
            return Err(ErrorFrame { status: None, body });
        }
        self.response_id = self.response_id.take().or_else(|| chunk.id.clone());
        self.model = self.model.take().or_else(|| chunk.model.clone());
        if let Some(usage) = chunk.usage {
            self.usage = chunk::later_usage(self.usage, usage);
        }
        self.take_finish(chunk.finish.clone());
        for detail in &chunk.reasoning_details {
            self.push_detail(detail);
        }
        if let Some(reasoning) = &chunk.reasoning {
            self.push_reasoning(reasoning, chunk.is_message, out);
        }
        if let Some(content) = &chunk.content {
            self.push_content(content, chunk.is_message, out);
        }
        let repeats = chunk.is_message && !self.slots.is_empty();
        for mut piece in chunk.calls {
            self.is_withheld = false;
            if repeats {
                // A closing `message` repeats the calls; one with a known id or index adds nothing.
                if self.slots.knows(&piece, &self.tools) {
                    flag(&mut self.flags, "replayed_call");
                    continue;
                }
                piece.index = None;
            }
            if self.cuts_repetition {
                self.watch.arguments(&piece.arguments);
            }
            self.slots.push(&piece, &self.tools);
        }
        if let Some(piece) = &chunk.function_call {
            self.older.push(piece, &self.tools);
        }
        self.is_too_large |= self.slots.too_large || self.older.too_large;
        self.advance(out);
        Ok(())
    }

    fn take_finish(&mut self, finish: Option<Finish>) {
        let rank = |finish: &Finish| match finish {
            Finish::Error => 6,
            Finish::ContentFilter => 5,
            Finish::Overloaded => 4,
            Finish::Length => 3,
            Finish::Calls => 2,
            Finish::Stop => 1,
            Finish::Other(_) => 0,
        };
        if let Some(new) = finish
            && self.finish.as_ref().is_none_or(|old| rank(&new) > rank(old))
        {
            self.finish = Some(new);
        }
    }

    fn push_reasoning(&mut self, reasoning: &str, is_message: bool, out: &mut Vec<Delta>) {
        self.is_withheld = false;
        if is_message && !self.field_reasoning.text().is_empty() {
            return;
        }
        let added = self.field_reasoning.push(reasoning).to_owned();
        self.is_too_large |= self.field_reasoning.text().len() > MAX_TEXT;
        if !added.is_empty() {
            self.watch_reasoning(&added);
            out.push(Delta::Reasoning(added));
        }
    }

    /// Joins the pieces that belong to one detail, as they must go back in one piece.
    fn push_detail(&mut self, detail: &Value) {
        let same = |key: &str, old: &Value| old.get(key) == detail.get(key);
        if let Some(old) = self.details.last_mut()
            && same("type", old)
            && same("index", old)
            && let (Some(old), Some(new)) = (old.as_object_mut(), detail.as_object())
        {
            for key in ["text", "summary", "data"] {
                let (Some(Value::String(text)), Some(Value::String(more))) = (old.get_mut(key), new.get(key)) else {
                    continue;
                };
                text.push_str(more);
            }
            for (key, value) in new {
                if !value.is_null() && old.get(key).is_none_or(Value::is_null) {
                    old.insert(key.clone(), value.clone());
                }
            }
        } else if self.details.len() < MAX_DETAILS {
            self.details.push(detail.clone());
        }
    }

    fn push_content(&mut self, content: &str, is_message: bool, out: &mut Vec<Delta>) {
        let so_far = self.content.text();
        let mut added = content;
        if is_message && !so_far.is_empty() {
            // A closing `message` has the whole text once more.
            match content.strip_prefix(so_far) {
                Some(more) => added = more,
                None if so_far.trim() == content.trim() || so_far.ends_with(content) => return,
                None => {}
            }
        }
        let before = so_far.len();
        self.content.push(added);
        self.is_too_large |= self.content.text().len() > MAX_TEXT;
        self.split(before, out);
    }

    /// Tells text and reasoning apart in the content from `start` on.
    fn split(&mut self, start: usize, out: &mut Vec<Delta>) {
        let mut pieces = std::mem::take(&mut self.pieces);
        self.splitter.push(&self.content.text()[start..], &mut pieces);
        self.take_pieces(&mut pieces, out);
        self.pieces = pieces;
    }

    fn take_pieces(&mut self, pieces: &mut Vec<thinking::Piece>, out: &mut Vec<Delta>) {
        for piece in pieces.drain(..) {
            match piece {
                thinking::Piece::Text(text) => self.text.push(&text, &self.content),
                thinking::Piece::Reasoning(text) => {
                    self.is_withheld = false;
                    if self.field_reasoning.text().is_empty() {
                        self.watch_reasoning(&text);
                        out.push(Delta::Reasoning(text.clone()));
                    }
                    self.tag_reasoning.push_str(&text);
                }
                thinking::Piece::Orphan => self.end_reasoning(out),
            }
        }
    }

    /// Takes the text so far for reasoning, whose end has come without its beginning.
    fn end_reasoning(&mut self, out: &mut Vec<Delta>) {
        flag(&mut self.flags, "orphan_think_tag");
        self.is_withheld = false;
        let is_first = self.field_reasoning.text().is_empty() && self.tag_reasoning.is_empty();
        // In the middle of a sentence somebody speaks of the tag.
        if !is_first && self.text.of(&self.content).ends_with([' ', '"', '\'', '(', '\u{201c}']) {
            return;
        }
        let text = self.text.restart(&self.content);
        (self.emitted, self.looked, self.may_be_call) = (0, 0, None);
        (self.watch.text, self.watch.looked) = (None, 0);
        if is_first {
            self.tag_reasoning = text;
            if !self.tag_reasoning.is_empty() {
                out.push(Delta::Reasoning(self.tag_reasoning.clone()));
            }
        } else {
            // A parser on the server took an earlier tag for the end, and let the rest go out as text.
            self.spilled.push_str(&text);
        }
    }

    fn watch_reasoning(&mut self, added: &str) {
        if self.cuts_repetition {
            self.watch.reasoning(added);
        }
    }

    /// Tells whether calls in the text would be taken as calls.
    fn reads_text(&self) -> bool {
        self.options.text_tools != TextTools::Off && !self.tools.specs().is_empty() && self.slots.is_empty()
    }

    /// Lets out the text that can no longer become a call or reasoning.
    fn advance(&mut self, out: &mut Vec<Delta>) {
        let text = self.text.of(&self.content);
        let until = if self.reads_text() {
            if self.may_be_call.is_none() {
                let (looked, found) = leaked_calls::look(text, self.looked, self.options.text_tools);
                self.looked = looked;
                self.may_be_call = found;
            }
            self.may_be_call.unwrap_or(self.looked)
        } else {
            self.may_be_call.unwrap_or(text.len())
        };
        if self.cuts_repetition {
            self.watch.text(text, until, self.may_be_call);
        }
        if !self.is_withheld {
            self.emit_until(until, out);
        }
    }

    fn emit_until(&mut self, until: usize, out: &mut Vec<Delta>) {
        let text = self.text.of(&self.content);
        if let Some(more) = text.get(self.emitted..until).filter(|more| !more.is_empty()) {
            out.push(Delta::Text(more.to_owned()));
            self.emitted = until;
        }
    }

    fn take_reasoning(&mut self) -> String {
        match owned(reasoning_of(&self.field_reasoning, &self.tag_reasoning)) {
            Some(joined) => joined,
            None if self.field_reasoning.text().is_empty() => self.tag_reasoning.trim().to_owned(),
            None => std::mem::take(&mut self.field_reasoning).into_text(),
        }
    }

    /// Ends the turn; text that was held back goes to `out`.
    pub fn finish(mut self, ending: Ending, out: &mut Vec<Delta>) -> Result<Assembled, Failed> {
        let before = self.content.text().len();
        self.content.flush();
        self.split(before, out);
        let mut pieces = Vec::new();
        self.splitter.finish(&mut pieces);
        self.take_pieces(&mut pieces, out);
        let rest = self.field_reasoning.flush().to_owned();
        if !rest.is_empty() {
            out.push(Delta::Reasoning(rest));
        }
        self.is_withheld = false;
        let counts = self.slots.counts();
        self.end(ending, out).map_err(|fault| Failed { fault, partial: Box::new(self.partial(counts)) })
    }

    fn end(&mut self, ending: Ending, out: &mut Vec<Delta>) -> Result<Assembled, Fault> {
        if self.is_too_large {
            return Err(Fault::Stream(StreamFault::TooLarge));
        }
        if let Some((text, reasoning)) = self.watch.found {
            return Ok(self.repetition(text, reasoning));
        }
        // Some servers count the tokens at the end and say nothing else about it.
        let is_counted = self.is_done && self.usage.output_tokens.is_some();
        let said_end = self.finish.is_some() || ending == Ending::Whole || is_counted;
        if ending == Ending::Broken && !said_end && !self.is_done {
            return Err(Fault::Broken);
        }
        if self.chunks == 0 {
            return Err(Fault::Stream(StreamFault::Empty));
        }
        match self.finish {
            Some(Finish::Overloaded) => return Err(Fault::Overloaded),
            Some(Finish::ContentFilter) => return Err(Fault::ContentFilter),
            Some(Finish::Error | Finish::Stop | Finish::Calls | Finish::Length | Finish::Other(_)) | None => {}
        }
        let was_cut = self.finish == Some(Finish::Length);
        let native = if self.slots.is_empty() { &mut self.older } else { &mut self.slots };
        let is_native = !native.is_empty();
        let finished = native.finish(&self.tools, was_cut);
        let scanned = native.scanned;
        for name in std::mem::take(&mut native.flags) {
            flag(&mut self.flags, name);
        }
        if native.too_large {
            return Err(Fault::Stream(StreamFault::TooLarge));
        }
        let mut calls = finished.calls;
        let mut text = Cow::Borrowed(self.text.of(&self.content));
        if !self.spilled.is_empty() && text.trim().is_empty() && calls.is_empty() {
            // All text is spilled reasoning: it ends with a tag that was left over.
            text = Cow::Owned(format!("{}{text}", self.spilled));
        }
        let mut reasoning = reasoning_of(&self.field_reasoning, &self.tag_reasoning);
        if !is_native && self.options.text_tools != TextTools::Off {
            let found = leaked_calls::read(&text, &self.tools, self.options.text_tools, was_cut);
            if let Some(found) = found {
                text = Cow::Owned(found.text);
                calls = found.calls;
            } else if text.trim().is_empty()
                && let Some(found) = leaked_calls::read_reasoning(&reasoning, &self.tools)
            {
                reasoning = Cow::Owned(found.text);
                calls = found.calls;
            }
        }
        let is_complete =
            |call: &Unnumbered| matches!(call.arguments, Arguments::Object(_)) && (call.has_arguments || said_end);
        if !said_end {
            let enough = if self.is_done || ending == Ending::Done {
                calls.iter().any(|call| matches!(call.arguments, Arguments::Object(_)))
            } else {
                !calls.is_empty() && calls.iter().all(is_complete)
            };
            if !enough {
                return Err(Fault::Stream(StreamFault::NoFinish));
            }
        }
        if finished.has_nameless {
            return Err(Fault::Stream(StreamFault::MalformedCall));
        }
        if calls.is_empty() {
            let is_malformed = match &self.finish {
                Some(Finish::Calls) => true,
                Some(Finish::Other(label)) => label.to_ascii_lowercase().contains("malformed_function_call"),
                Some(Finish::Stop | Finish::Length | Finish::ContentFilter | Finish::Overloaded | Finish::Error)
                | None => false,
            };
            if is_malformed {
                return Err(Fault::Stream(StreamFault::MalformedCall));
            }
            if text.trim().is_empty() && reasoning.trim().is_empty() && !was_cut {
                return Err(Fault::Stream(StreamFault::Empty));
            }
            if !text.trim().is_empty() && leaked_calls::is_only_tags(&text) {
                return Err(Fault::Stream(StreamFault::TagLeak));
            }
        } else if !text.trim().is_empty() && leaked_calls::is_only_tags(&text) {
            // The server parsed the call and left its tags in the text.
            flag(&mut self.flags, "stray_tags");
            text = Cow::Owned(String::new());
        }
        let (text, reasoning) = (owned(text), owned(reasoning));
        let text = text.unwrap_or_else(|| self.text.take(&mut self.content));
        let reasoning = reasoning.unwrap_or_else(|| self.take_reasoning());
        if let Some(more) = text.get(self.emitted..).filter(|more| !more.is_empty()) {
            out.push(Delta::Text(more.to_owned()));
        }
        let details = Some(std::mem::take(&mut self.details)).filter(|details| !details.is_empty()).map(Value::Array);
        let has_reasoning = !reasoning.trim().is_empty() || details.is_some();
        Ok(Assembled {
            reasoning: has_reasoning.then_some(Reasoning { text: reasoning, details }),
            calls: slots::number(calls, self.options.turn, &self.options.used_ids),
            text,
            finish: self.finish.take(),
            usage: self.usage,
            model: self.model.take(),
            response_id: self.response_id.take(),
            flags: std::mem::take(&mut self.flags),
            scanned,
            is_repetition: false,
        })
    }

    /// Returns the answer up to the repetition.
    fn repetition(&mut self, text_length: Option<usize>, reasoning_length: Option<usize>) -> Assembled {
        flag(&mut self.flags, "repetition");
        let (mut text, mut reasoning) = (self.text.take(&mut self.content), self.take_reasoning());
        truncate(&mut reasoning, reasoning_length);
        truncate(&mut text, text_length);
        Assembled {
            text,
            reasoning: (!reasoning.trim().is_empty()).then_some(Reasoning { text: reasoning, details: None }),
            usage: self.usage,
            model: self.model.take(),
            response_id: self.response_id.take(),
            flags: std::mem::take(&mut self.flags),
            is_repetition: true,
            ..Assembled::default()
        }
    }
}

/// Returns the text where it is not a part of another one.
fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

/// Joins the reasoning of the field for it and that of the tags.
fn reasoning_of<'a>(field: &'a Joined, tags: &'a str) -> Cow<'a, str> {
    let (field, tags) = (field.text(), tags.trim());
    if field.is_empty() {
        Cow::Borrowed(tags)
    } else if tags.is_empty() || field.contains(tags) {
        Cow::Borrowed(field)
    } else {
        Cow::Owned(format!("{field}\n{tags}"))
    }
}

/// Cuts a text to a length, at the next character before it.
fn truncate(text: &mut String, length: Option<usize>) {
    let Some(length) = length.filter(|&length| length < text.len()) else { return };
    text.truncate((0..=length).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
}

impl Watch {
    fn text(&mut self, text: &str, certain: usize, may_be_call: Option<usize>) {
        let all = if may_be_call.is_some() { text.len() } else { certain };
        // What may be a call holds files: in tags for certain, in fences perhaps.
        let place = match may_be_call {
            Some(at) if text[at..].starts_with('<') => Place::Data,
            Some(_) => Place::Code,
            None => Place::Text,
        };
        let repetition = self.text.get_or_insert_default();
        for (from, until, place) in [(self.looked, certain, Place::Text), (self.looked.max(certain), all, place)] {
            if let Some(kept) = text.get(from..until).and_then(|added| repetition.push(added, place)) {
                self.found.get_or_insert((Some(kept), None));
            }
        }
        self.looked = self.looked.max(all);
    }

    fn reasoning(&mut self, added: &str) {
        if let Some(kept) = self.reasoning.get_or_insert_default().push(added, Place::Text) {
            self.found.get_or_insert((None, Some(kept)));
        }
    }

    fn arguments(&mut self, added: &str) {
        if self.arguments.get_or_insert_default().push(added, Place::Data).is_some() {
            self.found.get_or_insert((None, None));
        }
    }
}

/// Why a complete body is not a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum BodyError {
    /// It is an error object.
    Frame(ErrorFrame),
    /// It is a completion that is not a turn.
    Failed(Failed),
    /// It is neither JSON nor lines of JSON: its first 512 bytes.
    NotJson(String),
}

/// Reads a whole completion, or lines of JSON chunks, into the same turn as its stream would give.
pub fn from_body(
    body: &str,
    tools: Arc<ToolSet>,
    options: Options,
    out: &mut Vec<Delta>,
) -> Result<Assembled, BodyError> {
    let body = body.trim_start_matches('\u{feff}').trim();
    let mut assembler = Assembler::new(tools, options).cutting_repetition();
    let ending = match serde_json::from_str::<Value>(body) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => {
            assembler.push_value(value, body, out).map_err(BodyError::Frame)?;
            Ending::Whole
        }
        Ok(_) | Err(_) => {
            for line in body.lines().filter(|line| !line.trim().is_empty()) {
                assembler.push_event(None, line, out).map_err(BodyError::Frame)?;
            }
            if assembler.chunks == 0 {
                let end = (0..=512.min(body.len())).rev().find(|&at| body.is_char_boundary(at)).unwrap_or(0);
                return Err(BodyError::NotJson(body[..end].to_owned()));
            }
            if assembler.is_done { Ending::Done } else { Ending::Eof }
        }
    };
    assembler.finish(ending, out).map_err(BodyError::Failed)
}
