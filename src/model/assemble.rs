//! A turn put together from the events of a stream, or from a whole completion.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::coerce::ToolSet;
use super::leaked_calls::TextTools;
use super::{AssistantMessage, Delta, Reasoning, Stop, StreamFault, ToolCall, Turn, Usage};

/// What the assembler has to know beside the bytes.
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
    /// With `[DONE]`, or with the end of a body.
    Done,
    /// With the end of the bytes.
    Eof,
    /// With a reset, a timer or a cap.
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

/// Why what arrived is no turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It broke the protocol.
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

/// What arrived before a failure: what the partial-stream table (wire.md 4.4) asks for.
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
    pub partial: Partial,
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
    /// What had to be put right on the way, for the event log.
    pub flags: Vec<&'static str>,
}

impl Assembled {
    /// Says why the turn ended, from what arrived.
    pub fn stop(&self) -> Stop {
        if !self.calls.is_empty() {
            Stop::Calls
        } else if self.finish == Some(Finish::Length) {
            Stop::Length
        } else {
            Stop::End
        }
    }

    /// Tells whether only reasoning came, which is no answer.
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

/// Puts a turn together.
#[derive(Debug)]
pub struct Assembler {
    tools: Arc<ToolSet>,
    options: Options,
}

impl Assembler {
    /// Starts a turn.
    pub fn new(tools: Arc<ToolSet>, options: Options) -> Assembler {
        Assembler { tools, options }
    }

    /// Takes one event of the stream; whatever becomes certain by it goes to `out`.
    ///
    /// An error object in the stream is handed back for the classifier; the turn has failed then.
    pub fn push_event(&mut self, event: Option<&str>, data: &str, out: &mut Vec<Delta>) -> Result<(), ErrorFrame> {
        let _ = (event, data, out, &self.tools);
        Ok(())
    }

    /// Tells whether `[DONE]` came: nothing after it counts.
    pub fn done(&self) -> bool {
        false
    }

    /// Tells whether the server said why it ended.
    pub fn has_finish(&self) -> bool {
        false
    }

    /// Returns what arrived so far.
    pub fn partial(&self) -> Partial {
        Partial::default()
    }

    /// Ends the turn; text that was held back goes to `out`.
    pub fn finish(self, ending: Ending, out: &mut Vec<Delta>) -> Result<Assembled, Failed> {
        let _ = (ending, out, self.options);
        Err(Failed { fault: Fault::Stream(StreamFault::Empty), partial: Partial::default() })
    }
}

/// What a body is that came whole.
#[derive(Debug, Clone, PartialEq)]
pub enum BodyError {
    /// An error object.
    Frame(ErrorFrame),
    /// A completion that is no turn.
    Failed(Failed),
    /// Neither JSON nor lines of JSON: its first 512 bytes.
    NotJson(String),
}

/// Reads a whole completion, or lines of JSON chunks, into the same turn as its stream would give.
pub fn from_body(
    body: &str,
    tools: Arc<ToolSet>,
    options: Options,
    out: &mut Vec<Delta>,
) -> Result<Assembled, BodyError> {
    let _ = (body, tools, options, out);
    Err(BodyError::NotJson(String::new()))
}
