//! Shortens a conversation that would no longer fit the model's context window. The task itself always stays.

use std::sync::Arc;
use std::time::Instant;

use super::estimate::{estimate_text, estimate_tokens};
use super::events::Emit;
use super::limits::Account;
use super::side_request;
use super::transcript::Transcript;
use crate::event::Event;
use crate::model::{Message, Model, Part, Request, Stop, ToolSpec, Usage};

/// The share of the window (less the output limit) at which a conversation is compacted.
const FULL: f64 = 0.8;

/// Failures in a row after which no further summary is tried.
const BREAKER: u32 = 3;

/// Maximum attempts to make room after a server said that the conversation is too long.
const OVERFLOW_ROUNDS: u32 = 8;

/// Characters of a tool's answer that a summary is written from once the conversation is too long.
const SUMMARISED: usize = 500;

/// Tool results that are kept when old ones are cleared.
const KEPT_RESULTS: usize = 5;

const ASK: &str = "The conversation is about to be shortened. Write a summary from which the work can go on without it: \
     what was asked, what was found (files, names, line numbers), what was changed so far, what failed, and what is \
     still to be done. Only the summary, no call.";

/// State that is kept between compactions.
#[derive(Debug, Default)]
pub struct Compaction {
    failures: u32,
    overflows: u32,
    /// The server's token count for the last request, and the estimate for the same messages.
    counted: Option<(u64, u64)>,
}

impl Compaction {
    /// Records the server's token count for the request that was just answered: it fits.
    pub fn learn(&mut self, transcript: &Transcript, usage: &Usage) {
        self.overflows = 0;
        if let Some(counted) = usage.input_tokens {
            self.counted = Some((counted, transcript.estimate()));
        }
    }

    /// Estimates the tokens of the next request: the server's last count plus the estimate of newer messages.
    pub fn next_request(&self, transcript: &Transcript) -> u64 {
        let estimate = transcript.estimate();
        match self.counted {
            Some((counted, then)) => counted + estimate.saturating_sub(then),
            None => estimate,
        }
    }

    /// Compacts if the next request would fill the window; `true` if the conversation changed.
    pub async fn before_request(
        &mut self,
        model: &dyn Model,
        transcript: &mut Transcript,
        account: &mut Account,
        offered: &Arc<[ToolSpec]>,
        emit: Emit<'_>,
    ) -> bool {
        let facts = model.facts();
        // An output limit that takes most of a small window leaves half of it for the conversation.
        let room = facts.context_window.saturating_sub(facts.max_output).max(facts.context_window / 2);
        if facts.context_window == 0 || (self.next_request(transcript) as f64) < room as f64 * FULL {
            return false;
        }
        let messages = transcript.up_to_compactable().to_vec();
        self.summarise(messages, model, transcript, account, offered, emit).await
    }

    /// Makes room after the server refused the conversation as too long; `false` if nothing more can be done.
    pub async fn after_overflow(
        &mut self,
        model: &dyn Model,
        transcript: &mut Transcript,
        account: &mut Account,
        offered: &Arc<[ToolSpec]>,
        emit: Emit<'_>,
    ) -> bool {
        self.overflows += 1;
        if self.overflows > OVERFLOW_ROUNDS {
            return false;
        }
        let before = transcript.estimate();
        let mut shrunk = transcript.clear_old_results(KEPT_RESULTS) > 0;
        if !shrunk {
            // The whole of it does not fit: the summary is written from half of it.
            let messages = transcript.shortened(SUMMARISED, before / 2);
            shrunk = self.summarise(messages, model, transcript, account, offered, emit).await
                || transcript.cut_largest_result(2_000)
                || transcript.drop_compactable();
        }
        if shrunk {
            self.counted = None;
            emit(Event::Compaction { before, after: transcript.estimate() });
        }
        shrunk
    }

    async fn summarise(
        &mut self,
        mut messages: Vec<Message>,
        model: &dyn Model,
        transcript: &mut Transcript,
        account: &mut Account,
        offered: &Arc<[ToolSpec]>,
        emit: Emit<'_>,
    ) -> bool {
        let old = estimate_tokens(transcript.compactable());
        if self.failures >= BREAKER || old == 0 {
            return false;
        }
        let before = transcript.estimate();
        messages.push(Message::User(vec![Part::Text(ASK.into())]));
        let request = Request {
            messages: Arc::new(messages),
            // The same tools as ever: the server's cache of the prefix still holds.
            tools: Arc::clone(offered),
            time_left: account.time_left(Instant::now()),
            ..Request::default()
        };
        let summary = match side_request::ask(model, &request, "compaction", account, emit).await {
            Ok(turn) if turn.stop == Stop::Repetition => String::new(),
            Ok(turn) => turn.message.text,
            Err(error) => {
                self.failures += 1;
                emit(Event::Warning { message: format!("the conversation could not be compacted: {}", error.message) });
                return false;
            }
        };
        if summary.trim().is_empty() || estimate_text(&summary) >= old {
            self.failures += 1;
            return false;
        }
        self.failures = 0;
        transcript
            .compact(format!("Summary of the work so far (the conversation was shortened):\n\n{}", summary.trim()));
        self.counted = None;
        emit(Event::Compaction { before, after: transcript.estimate() });
        true
    }
}
