//! Tracks the attempts of one turn: what they cost, and what was kept of answers that were cut off.

use std::time::Duration;

use super::assembled::Assembled;
use super::attempt::Failure;
use super::retry::Retry;
use super::{AssistantMessage, ErrorClass, Reasoning, Stop, StreamFault, Turn, Usage};

/// Maximum continuations of an answer that was cut off.
pub(super) const MAX_CONTINUATIONS: u32 = 3;

/// What was made of a failure.
pub(super) enum Recovered {
    /// A turn.
    Turn(Box<Turn>),
    /// A reason to send the request again at once.
    Again,
    /// Nothing.
    No,
}

/// The attempts of one turn, and what was kept of those that were cut.
pub(super) struct Attempts {
    /// The budgets.
    pub(super) retry: Retry,
    /// Requests sent.
    pub(super) requests: u32,
    /// Time spent waiting for the server.
    pub(super) api_time: Duration,
    pub(super) continuations: u32,
    /// Text of attempts that were cut, to continue after.
    pub(super) kept: String,
    kept_usage: Usage,
    kept_reasoning: Option<Reasoning>,
}

impl Attempts {
    /// Starts a turn.
    pub(super) fn new(retry: Retry) -> Attempts {
        Attempts {
            retry,
            requests: 0,
            api_time: Duration::ZERO,
            continuations: 0,
            kept: String::new(),
            kept_usage: Usage::default(),
            kept_reasoning: None,
        }
    }

    /// Makes the turn of the last attempt, after what was kept of those before.
    pub(super) fn turn(&mut self, assembled: Assembled) -> Turn {
        let mut turn = assembled.into_turn(self.requests, self.api_time);
        if !self.kept.is_empty() {
            turn.message.text = format!("{}{}", self.kept, turn.message.text);
            turn.message.reasoning = self.kept_reasoning.take().or(turn.message.reasoning);
        }
        turn.usage = sum(self.kept_usage, turn.usage);
        turn
    }

    /// Keeps an answer that its output limit cut.
    pub(super) fn keep(&mut self, assembled: Assembled) {
        self.continuations += 1;
        self.kept.push_str(&assembled.text);
        self.kept_usage = sum(self.kept_usage, assembled.usage);
        if self.kept_reasoning.is_none() {
            self.kept_reasoning = assembled.reasoning;
        }
    }

    /// Decides whether what a failure left is continued or requested again.
    pub(super) fn take_partial(&mut self, failure: &Failure) {
        let partial = &failure.partial;
        self.kept_usage = sum(self.kept_usage, partial.usage);
        let text_alone =
            partial.complete_calls == 0 && partial.incomplete_calls == 0 && !partial.text.trim().is_empty();
        let protocol = matches!(
            failure.class,
            ErrorClass::Stream(StreamFault::MalformedCall | StreamFault::TagLeak | StreamFault::Empty)
        );
        if text_alone && !protocol && self.continuations < MAX_CONTINUATIONS {
            self.continuations += 1;
            self.kept.push_str(&partial.text);
        }
    }

    /// Counts what all attempts cost, the one that just failed included.
    pub(super) fn spent(&self, failure: &Failure) -> Usage {
        sum(self.kept_usage, failure.partial.usage)
    }

    pub(super) fn finished_once(&self) -> bool {
        !self.kept.trim().is_empty()
    }

    pub(super) fn kept_turn(&mut self) -> Turn {
        Turn {
            message: AssistantMessage {
                text: std::mem::take(&mut self.kept),
                reasoning: self.kept_reasoning.take(),
                calls: Vec::new(),
            },
            stop: Stop::Length,
            usage: self.kept_usage,
            model: None,
            requests: self.requests,
            api_time: self.api_time,
            response_id: None,
        }
    }
}

/// Adds the tokens of two requests; what neither reported stays unknown.
fn sum(one: Usage, other: Usage) -> Usage {
    let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (some, None) | (None, some) => some,
    };
    Usage {
        input_tokens: add(one.input_tokens, other.input_tokens),
        cache_read_input_tokens: add(one.cache_read_input_tokens, other.cache_read_input_tokens),
        cache_creation_input_tokens: add(one.cache_creation_input_tokens, other.cache_creation_input_tokens),
        output_tokens: add(one.output_tokens, other.output_tokens),
        reasoning_tokens: add(one.reasoning_tokens, other.reasoning_tokens),
    }
}
