//! Defines how a conversation ends, and words why.

use std::time::Instant;

use super::limits::{Account, Exceeded};
use crate::event::RunError;
use crate::exit::Exit;
use crate::model::{ErrorClass, ModelError, TimeoutKind};

/// What to do when a call is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeny {
    /// Continue, and end with exit 60.
    Fail,
    /// Continue, and end as if nothing had been denied.
    Continue,
    /// End at the first denial.
    Stop,
}

/// How a conversation ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The model gave its answer.
    Answer(String),
    /// The model gave its answer by the tool for it, and it does not fit the schema. The model knows why: another
    /// [`Agent::converse`](super::Agent::converse) lets it correct the answer.
    Misfit(String),
    /// Something ended the run.
    Stopped(Stopped),
}

/// Why the run ended without an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// The exit code.
    pub exit: Exit,
    /// What happened.
    pub error: Box<RunError>,
}

/// Makes an ending without a budget.
pub(super) fn stopped(exit: Exit, code: &str, message: impl Into<String>, hint: Option<&str>) -> Stopped {
    Stopped {
        exit,
        error: Box::new(RunError {
            code: code.into(),
            message: message.into(),
            retryable: exit == Exit::Unavailable,
            hint: hint.map(str::to_owned),
            budget: None,
        }),
    }
}

impl From<Exceeded> for Stopped {
    fn from(limit: Exceeded) -> Stopped {
        exceeded(limit)
    }
}

/// Converts an exceeded limit to the ending of the run.
pub(super) fn exceeded(exceeded: Exceeded) -> Stopped {
    match exceeded {
        Exceeded::Turns { limit } => stopped(
            Exit::Turns,
            "turns",
            format!("the turn limit of {limit} was reached before the model was done"),
            Some("raise --max-session-turns, or give a smaller task"),
        ),
        Exceeded::Denials { limit, same } => stopped(
            Exit::Denied,
            if same { "same_denial" } else { "denials" },
            if same {
                format!("the model repeated the same denied call {limit} times in a row")
            } else {
                format!("the policy denied {limit} calls")
            },
            Some("look at permission_denials in the result: allow what is needed, or say in the prompt what not to do"),
        ),
        Exceeded::Budget(budget) => {
            let flag = match budget.kind.as_str() {
                "wall_time" => "--max-wall-time",
                "tool_calls" => "--max-tool-calls",
                "total_tokens" => "--max-total-tokens",
                "cost_usd" => "--max-cost-usd",
                "total_cost_usd" => "--total-cost-usd",
                "batch_total_tokens" => "--total-tokens",
                "total_wall_time" => "--total-wall-time",
                _ => "the policy's limits",
            };
            let (limit, spent) = (budget.limit, budget.spent);
            let advice = match crate::batch::budget::is_of_batch(&budget) {
                true => format!("raise {flag} and call it again: it continues"),
                false => format!("raise {flag}, or give a smaller task"),
            };
            let what = match budget.kind.as_str() {
                "wall_time" => format!("the time of {} s is used up", limit / 1000.0),
                "cost_usd" => format!("the budget of ${limit} is used up (${spent:.4} spent)"),
                "total_tokens" => format!("the budget of {limit} tokens is used up ({spent} spent)"),
                "total_wall_time" => format!("the batch's time of {} s is used up", limit / 1000.0),
                "total_cost_usd" => format!("the batch's budget of ${limit} is used up (${spent:.4} spent)"),
                "batch_total_tokens" => format!("the batch's budget of {limit} tokens is used up ({spent} spent)"),
                // Calls that did not run are not counted.
                calls if limit == 1.0 => {
                    format!("the only {} allowed is used up", calls.replace('_', " ").trim_end_matches('s'))
                }
                calls => format!("all {limit} {} are used up", calls.replace('_', " ")),
            };
            let mut ending = stopped(Exit::Budget, "budget", what, Some(&advice));
            ending.error.budget = Some(budget);
            ending
        }
    }
}

pub(super) fn model_error(error: ModelError, account: &Account) -> Stopped {
    let (exit, code) = match &error.class {
        ErrorClass::Auth | ErrorClass::Permission | ErrorClass::Billing => (Exit::Auth, "auth"),
        ErrorClass::ModelNotFound => (Exit::Config, "config"),
        ErrorClass::BadRequest { .. } | ErrorClass::OutputTooLong { .. } | ErrorClass::Unsupported(_) => {
            (Exit::Failed, "bad_request")
        }
        ErrorClass::ContextOverflow { .. } | ErrorClass::PayloadTooLarge => (Exit::Failed, "context_overflow"),
        ErrorClass::ContentFilter => (Exit::Failed, "content_filter"),
        ErrorClass::Timeout(TimeoutKind::Deadline) => match account.check_budgets(Instant::now()) {
            Err(reached) => return exceeded(reached),
            Ok(()) => (Exit::Unavailable, "unavailable"),
        },
        ErrorClass::RateLimit { .. }
        | ErrorClass::Overloaded { .. }
        | ErrorClass::Server
        | ErrorClass::Timeout(_)
        | ErrorClass::Network
        | ErrorClass::Stream(_)
        | ErrorClass::RawGeneration(_) => (Exit::Unavailable, "unavailable"),
        ErrorClass::Cancelled => (Exit::Interrupted, "interrupted"),
        ErrorClass::ReplayMismatch(_) => (Exit::Replay, "replay"),
    };
    let message = match &error.request_id {
        Some(id) => format!("{} (request {id})", error.message),
        None => error.message.clone(),
    };
    stopped(exit, code, message, error.hint.as_deref())
}
