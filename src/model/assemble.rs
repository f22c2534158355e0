//! Assembles a turn from the events of a stream, or from a whole completion.

mod end;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::assembled::{Assembled, BodyError, Ending, Failed, Partial};
use super::chunk::{self, ErrorFrame, Finish};
use super::cumulative::Joined;
use super::event_cache::{Cached, EventCache};
use super::leaked_calls::{self, TextTools};
use super::repetition::Watch;
use super::slots::{Slots, flag};
use super::surrogates::Surrogates;
use super::thinking::{self, Splitter};
use super::tool_set::ToolSet;
use super::visible::Visible;
use super::{Delta, Usage};

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

/// Assembles a turn.
#[derive(Debug)]
pub struct Assembler {
    tools: Arc<ToolSet>,
    options: Options,
    content: Content,
    reasoning: Reasoned,
    slots: Slots,
    /// Calls in the older field, which counts only if the newer one stays empty.
    older: Slots,
    seen: Seen,
    events: EventCache,
    surrogates: Surrogates,
    /// Looks for text, reasoning and arguments that only repeat themselves.
    watch: Watch,
    flags: Vec<&'static str>,
}

/// The content, and what of it is visible text.
#[derive(Debug)]
struct Content {
    /// As it comes, before thinking tags are taken out of it.
    joined: Joined,
    splitter: Splitter,
    /// What the splitter gave for the last content: empty between events, kept for its memory.
    pieces: Vec<thinking::Fragment>,
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
}

impl Content {
    fn visible(&self) -> &str {
        self.text.of(&self.joined)
    }

    fn take(&mut self) -> String {
        self.text.take(&mut self.joined)
    }
}

/// The reasoning, by where it came.
#[derive(Debug, Default)]
struct Reasoned {
    field: Joined,
    tags: String,
    details: Vec<Value>,
}

impl Reasoned {
    /// Joins the reasoning of the field for it and that of the tags.
    fn joined(&self) -> Cow<'_, str> {
        let (field, tags) = (self.field.text(), self.tags.trim());
        if field.is_empty() {
            Cow::Borrowed(tags)
        } else if tags.is_empty() || field.contains(tags) {
            Cow::Borrowed(field)
        } else {
            Cow::Owned(format!("{field}\n{tags}"))
        }
    }

    fn take(&mut self) -> String {
        match self.joined() {
            Cow::Owned(joined) => joined,
            Cow::Borrowed(_) if self.field.text().is_empty() => self.tags.trim().to_owned(),
            Cow::Borrowed(_) => std::mem::take(&mut self.field).into_text(),
        }
    }
}

/// What the server said about the answer.
#[derive(Debug, Default)]
struct Seen {
    finish: Option<Finish>,
    usage: Usage,
    model: Option<String>,
    response_id: Option<String>,
    is_done: bool,
    chunks: u64,
    is_too_large: bool,
}

impl Assembler {
    /// Prepares a turn.
    pub fn new(tools: Arc<ToolSet>, options: Options) -> Assembler {
        Assembler {
            content: Content {
                is_withheld: thinking::opens_thinking_itself(&options.model),
                splitter: Splitter::new(),
                joined: Joined::default(),
                pieces: Vec::new(),
                text: Visible::default(),
                emitted: 0,
                looked: 0,
                may_be_call: None,
                spilled: String::new(),
            },
            reasoning: Reasoned::default(),
            slots: Slots::default(),
            older: Slots::default(),
            seen: Seen::default(),
            events: EventCache::default(),
            surrogates: Surrogates::default(),
            watch: Watch::default(),
            flags: Vec::new(),
            tools,
            options,
        }
    }

    /// Cuts the answer where it only repeats itself from there on.
    #[must_use]
    pub fn cutting_repetition(mut self) -> Assembler {
        self.watch.is_on = true;
        self
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
            self.seen.is_done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        if !self.surrogates.waits() && self.push_cached(data, out) {
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
        self.seen.is_done
            || self.seen.is_too_large
            || self.slots.too_large
            || self.watch.found.is_some()
            || self.watch.circle.is_some()
    }

    /// Returns what arrived so far, where no more of it is wanted.
    pub fn into_partial(self) -> Partial {
        let counts = self.slots.counts();
        self.partial(counts)
    }

    fn partial(mut self, (complete_calls, mut incomplete_calls): (usize, usize)) -> Partial {
        let may_be_call = self.content.may_be_call.filter(|&at| {
            let rest = &self.content.visible()[at..];
            rest.starts_with("<t") || rest.starts_with("<f")
        });
        let reasoning = self.reasoning.take();
        let mut text = self.content.take();
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
            finish: self.seen.finish,
            usage: self.seen.usage,
            response_id: self.seen.response_id,
        }
    }

    /// Takes an event that differs from an earlier one in its text alone; `false` leaves it to the parser.
    fn push_cached(&mut self, data: &str, out: &mut Vec<Delta>) -> bool {
        match self.events.read(data) {
            None => return false,
            Some(Cached::Call(piece)) => {
                self.content.is_withheld = false;
                self.watch.arguments(&piece.arguments);
                self.slots.push(piece, &self.tools);
                self.seen.is_too_large |= self.slots.too_large;
            }
            Some(Cached::Content(text)) => self.push_content(&text, false, out),
            Some(Cached::Reasoning(text)) => self.push_reasoning(&text, false, out),
        }
        self.seen.chunks += 1;
        self.advance(out);
        true
    }

    fn push_value(&mut self, value: Value, raw: &str, out: &mut Vec<Delta>) -> Result<(), ErrorFrame> {
        let chunk = chunk::read(value);
        self.seen.chunks += 1;
        self.events.learn(raw, &chunk);
        if let Some(error) = chunk.error {
            return Err(error);
        }
        if chunk.finish == Some(Finish::Error) {
            // The text of such a chunk is the error's, not the answer's.
            let body = chunk.content.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| raw.to_owned());
            return Err(ErrorFrame { status: None, body });
        }
        self.seen.response_id = self.seen.response_id.take().or_else(|| chunk.id.clone());
        self.seen.model = self.seen.model.take().or_else(|| chunk.model.clone());
        if let Some(usage) = chunk.usage {
            self.seen.usage = chunk::later_usage(self.seen.usage, usage);
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
            self.content.is_withheld = false;
            if repeats {
                // A closing `message` repeats the calls; one with a known id or index adds nothing.
                if self.slots.knows(&piece, &self.tools) {
                    flag(&mut self.flags, "replayed_call");
                    continue;
                }
                piece.index = None;
            }
            self.watch.arguments(&piece.arguments);
            self.slots.push(&piece, &self.tools);
        }
        if let Some(piece) = &chunk.function_call {
            self.older.push(piece, &self.tools);
        }
        self.seen.is_too_large |= self.slots.too_large || self.older.too_large;
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
            && self.seen.finish.as_ref().is_none_or(|old| rank(&new) > rank(old))
        {
            self.seen.finish = Some(new);
        }
    }

    fn push_reasoning(&mut self, reasoning: &str, is_message: bool, out: &mut Vec<Delta>) {
        self.content.is_withheld = false;
        if is_message && !self.reasoning.field.text().is_empty() {
            return;
        }
        let added = self.reasoning.field.push(reasoning).to_owned();
        self.seen.is_too_large |= self.reasoning.field.text().len() > MAX_TEXT;
        if !added.is_empty() {
            self.watch.reasoning(&added);
            out.push(Delta::Reasoning(added));
        }
    }

    /// Joins the pieces that belong to one detail, as they must go back in one piece.
    fn push_detail(&mut self, detail: &Value) {
        let same = |key: &str, old: &Value| old.get(key) == detail.get(key);
        if let Some(old) = self.reasoning.details.last_mut()
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
        } else if self.reasoning.details.len() < MAX_DETAILS {
            self.reasoning.details.push(detail.clone());
        }
    }

    fn push_content(&mut self, content: &str, is_message: bool, out: &mut Vec<Delta>) {
        let so_far = self.content.joined.text();
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
        self.content.joined.push(added);
        self.seen.is_too_large |= self.content.joined.text().len() > MAX_TEXT;
        self.split(before, out);
    }

    /// Tells text and reasoning apart in the content from `start` on.
    fn split(&mut self, start: usize, out: &mut Vec<Delta>) {
        let mut pieces = std::mem::take(&mut self.content.pieces);
        self.content.splitter.push(&self.content.joined.text()[start..], &mut pieces);
        self.take_pieces(&mut pieces, out);
        self.content.pieces = pieces;
    }

    fn take_pieces(&mut self, pieces: &mut Vec<thinking::Fragment>, out: &mut Vec<Delta>) {
        for piece in pieces.drain(..) {
            match piece {
                thinking::Fragment::Text(text) => self.content.text.push(&text, &self.content.joined),
                thinking::Fragment::Reasoning(text) => {
                    self.content.is_withheld = false;
                    if self.reasoning.field.text().is_empty() {
                        self.watch.reasoning(&text);
                        out.push(Delta::Reasoning(text.clone()));
                    }
                    self.reasoning.tags.push_str(&text);
                }
                thinking::Fragment::Orphan => self.end_reasoning(out),
            }
        }
    }

    /// Takes the text so far for reasoning, whose end has come without its beginning.
    fn end_reasoning(&mut self, out: &mut Vec<Delta>) {
        flag(&mut self.flags, "orphan_think_tag");
        self.content.is_withheld = false;
        let is_first = self.reasoning.field.text().is_empty() && self.reasoning.tags.is_empty();
        // In the middle of a sentence somebody speaks of the tag.
        if !is_first && self.content.visible().ends_with([' ', '"', '\'', '(', '\u{201c}']) {
            return;
        }
        let text = self.content.text.restart(&self.content.joined);
        (self.content.emitted, self.content.looked, self.content.may_be_call) = (0, 0, None);
        self.watch.restart_text();
        if is_first {
            self.reasoning.tags = text;
            if !self.reasoning.tags.is_empty() {
                out.push(Delta::Reasoning(self.reasoning.tags.clone()));
            }
        } else {
            // A parser on the server took an earlier tag for the end, and let the rest go out as text.
            self.content.spilled.push_str(&text);
        }
    }

    /// Tells whether calls in the text would be taken as calls.
    fn reads_text(&self) -> bool {
        self.options.text_tools != TextTools::Off && !self.tools.specs().is_empty() && self.slots.is_empty()
    }

    /// Lets out the text that can no longer become a call or reasoning.
    fn advance(&mut self, out: &mut Vec<Delta>) {
        let text = self.content.text.of(&self.content.joined);
        let until = if self.reads_text() {
            if self.content.may_be_call.is_none() {
                let (looked, found) = leaked_calls::look(text, self.content.looked, self.options.text_tools);
                self.content.looked = looked;
                self.content.may_be_call = found;
            }
            self.content.may_be_call.unwrap_or(self.content.looked)
        } else {
            self.content.may_be_call.unwrap_or(text.len())
        };
        self.watch.text(text, until, self.content.may_be_call);
        if !self.content.is_withheld {
            self.emit_until(until, out);
        }
    }

    fn emit_until(&mut self, until: usize, out: &mut Vec<Delta>) {
        let text = self.content.text.of(&self.content.joined);
        if let Some(more) = text.get(self.content.emitted..until).filter(|more| !more.is_empty()) {
            out.push(Delta::Text(more.to_owned()));
            self.content.emitted = until;
        }
    }

    /// Ends the turn; text that was held back goes to `out`.
    pub fn finish(mut self, ending: Ending, out: &mut Vec<Delta>) -> Result<Assembled, Failed> {
        let before = self.content.joined.text().len();
        self.content.joined.flush();
        self.split(before, out);
        let mut pieces = Vec::new();
        self.content.splitter.finish(&mut pieces);
        self.take_pieces(&mut pieces, out);
        let rest = self.reasoning.field.flush().to_owned();
        if !rest.is_empty() {
            out.push(Delta::Reasoning(rest));
        }
        self.content.is_withheld = false;
        let counts = self.slots.counts();
        self.end(ending, out).map_err(|fault| Failed { fault, partial: Box::new(self.partial(counts)) })
    }
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
            if assembler.seen.chunks == 0 {
                let end = (0..=512.min(body.len())).rev().find(|&at| body.is_char_boundary(at)).unwrap_or(0);
                return Err(BodyError::NotJson(body[..end].to_owned()));
            }
            if assembler.seen.is_done { Ending::Done } else { Ending::Eof }
        }
    };
    assembler.finish(ending, out).map_err(BodyError::Failed)
}
