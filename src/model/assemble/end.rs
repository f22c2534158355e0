//! Ends a turn: decides what the response is, or why it is not a valid one.

use std::borrow::Cow;

use serde_json::Value;

use super::Assembler;
use crate::model::assembled::{Assembled, Ending, Fault};
use crate::model::chunk::Finish;
use crate::model::leaked_calls::{self, TextTools};
use crate::model::slots::{self, Finished, Unnumbered, flag};
use crate::model::{Arguments, Delta, Reasoning, StreamFault};

/// What the pieces came to, calls in the text included.
struct Read<'a> {
    text: Cow<'a, str>,
    reasoning: Cow<'a, str>,
    calls: Vec<Unnumbered>,
}

impl Read<'_> {
    fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }
}

impl Assembler {
    /// Makes the turn of what arrived.
    pub(super) fn end(&mut self, ending: Ending, out: &mut Vec<Delta>) -> Result<Assembled, Fault> {
        if self.seen.is_too_large {
            return Err(Fault::Stream(StreamFault::TooLarge));
        }
        if let Some((text, reasoning)) = self.watch.found {
            return Ok(self.repetition(text, reasoning));
        }
        let said_end = self.said_end(ending)?;
        let is_native = !self.slots.is_empty() || !self.older.is_empty();
        let (finished, scanned) = self.finish_native()?;
        let read = self.read(finished.calls, is_native);
        if !said_end && !self.is_enough(&read.calls, ending) {
            return Err(Fault::Stream(StreamFault::NoFinish));
        }
        if finished.has_nameless {
            return Err(Fault::Stream(StreamFault::MalformedCall));
        }
        // The server parsed the call and left its tags in the text.
        let has_stray_tags = read.has_text() && leaked_calls::is_only_tags(&read.text);
        if read.calls.is_empty() {
            self.check_without_calls(&read, has_stray_tags)?;
        }
        let (text, reasoning, calls) = (owned(read.text), owned(read.reasoning), read.calls);
        let text = if has_stray_tags {
            flag(&mut self.flags, "stray_tags");
            String::new()
        } else {
            text.unwrap_or_else(|| self.content.take())
        };
        let reasoning = reasoning.unwrap_or_else(|| self.reasoning.take());
        if let Some(more) = text.get(self.content.emitted..).filter(|more| !more.is_empty()) {
            out.push(Delta::Text(more.to_owned()));
        }
        let details = std::mem::take(&mut self.reasoning.details);
        let details = Some(details).filter(|details| !details.is_empty()).map(Value::Array);
        let has_reasoning = !reasoning.trim().is_empty() || details.is_some();
        Ok(Assembled {
            reasoning: has_reasoning.then_some(Reasoning { text: reasoning, details }),
            calls: slots::number(calls, self.options.turn, &self.options.used_ids),
            text,
            finish: self.seen.finish.take(),
            usage: self.seen.usage,
            model: self.seen.model.take(),
            response_id: self.seen.response_id.take(),
            flags: std::mem::take(&mut self.flags),
            scanned,
            is_repetition: false,
        })
    }

    /// Tells whether the server ended the response; an error if it reported why there is no response.
    fn said_end(&mut self, ending: Ending) -> Result<bool, Fault> {
        if self.watch.circle.is_some() {
            flag(&mut self.flags, "repeated_calls");
            return Ok(true);
        }
        // Some servers count the tokens at the end and say nothing else about it.
        let is_counted = self.seen.is_done && self.seen.usage.output_tokens.is_some();
        let said_end = self.seen.finish.is_some() || ending == Ending::Whole || is_counted;
        if ending == Ending::Broken && !said_end && !self.seen.is_done {
            return Err(Fault::Broken);
        }
        if self.seen.chunks == 0 {
            return Err(Fault::Stream(StreamFault::Empty));
        }
        match self.seen.finish {
            Some(Finish::Overloaded) => Err(Fault::Overloaded),
            Some(Finish::ContentFilter) => Err(Fault::ContentFilter),
            Some(Finish::Error | Finish::Stop | Finish::Calls | Finish::Length | Finish::Other(_)) | None => {
                Ok(said_end)
            }
        }
    }

    fn was_cut(&self) -> bool {
        self.seen.finish == Some(Finish::Length)
    }

    /// Ends the calls that came as calls; returns how many bytes of them were examined, too.
    fn finish_native(&mut self) -> Result<(Finished, u64), Fault> {
        let was_cut = self.was_cut();
        let native = if self.slots.is_empty() { &mut self.older } else { &mut self.slots };
        let finished = native.finish(&self.tools, was_cut);
        for name in std::mem::take(&mut native.flags) {
            flag(&mut self.flags, name);
        }
        if native.too_large {
            return Err(Fault::Stream(StreamFault::TooLarge));
        }
        Ok((finished, native.scanned))
    }

    /// Reads calls in the text, or in the reasoning, of a turn without native ones.
    fn read(&self, calls: Vec<Unnumbered>, is_native: bool) -> Read<'_> {
        let text = self.content.visible();
        let text = &text[..self.watch.circle.unwrap_or(text.len())];
        let mut read = Read { text: text.into(), reasoning: self.reasoning.joined(), calls };
        if !self.content.spilled.is_empty() && !read.has_text() && read.calls.is_empty() {
            // All text is spilled reasoning: it ends with a tag that was left over.
            read.text = Cow::Owned(format!("{}{}", self.content.spilled, read.text));
        }
        if is_native || self.options.text_tools == TextTools::Off {
            return read;
        }
        if let Some(found) = leaked_calls::read(&read.text, &self.tools, self.options.text_tools, self.was_cut()) {
            (read.text, read.calls) = (Cow::Owned(found.text), found.calls);
        } else if !read.has_text()
            && let Some(found) = leaked_calls::read_reasoning(&read.reasoning, &self.tools)
        {
            (read.reasoning, read.calls) = (Cow::Owned(found.text), found.calls);
        }
        read
    }

    /// Tells whether the calls are a turn although the server did not say that it is over.
    fn is_enough(&self, calls: &[Unnumbered], ending: Ending) -> bool {
        let is_object = |call: &Unnumbered| matches!(call.arguments, Arguments::Object(_));
        if self.seen.is_done || ending == Ending::Done {
            calls.iter().any(is_object)
        } else {
            !calls.is_empty() && calls.iter().all(|call| is_object(call) && call.has_arguments)
        }
    }

    /// Finds why a turn without calls is not valid.
    fn check_without_calls(&self, read: &Read<'_>, is_only_tags: bool) -> Result<(), Fault> {
        let is_malformed = match &self.seen.finish {
            Some(Finish::Calls) => true,
            Some(Finish::Other(label)) => label.to_ascii_lowercase().contains("malformed_function_call"),
            Some(Finish::Stop | Finish::Length | Finish::ContentFilter | Finish::Overloaded | Finish::Error) | None => {
                false
            }
        };
        let is_empty = !read.has_text() && read.reasoning.trim().is_empty() && !self.was_cut();
        match (is_malformed, is_empty, is_only_tags) {
            (true, _, _) => Err(Fault::Stream(StreamFault::MalformedCall)),
            (_, true, _) => Err(Fault::Stream(StreamFault::Empty)),
            (_, _, true) => Err(Fault::Stream(StreamFault::TagLeak)),
            (false, false, false) => Ok(()),
        }
    }

    /// Returns the answer up to the repetition.
    fn repetition(&mut self, text_length: Option<usize>, reasoning_length: Option<usize>) -> Assembled {
        flag(&mut self.flags, "repetition");
        let (mut text, mut reasoning) = (self.content.take(), self.reasoning.take());
        truncate(&mut reasoning, reasoning_length);
        truncate(&mut text, text_length);
        Assembled {
            text,
            reasoning: (!reasoning.trim().is_empty()).then_some(Reasoning { text: reasoning, details: None }),
            usage: self.seen.usage,
            model: self.seen.model.take(),
            response_id: self.seen.response_id.take(),
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

/// Cuts a text to a length, at the next character before it.
fn truncate(text: &mut String, length: Option<usize>) {
    let Some(length) = length.filter(|&length| length < text.len()) else { return };
    text.truncate((0..=length).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
}
