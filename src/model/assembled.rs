//! Defines a response whose stream has ended: complete, or broken off.

use std::time::Duration;

use super::chunk::{ErrorFrame, Finish};
use super::{AssistantMessage, Reasoning, Stop, StreamFault, ToolCall, Turn, Usage};

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
