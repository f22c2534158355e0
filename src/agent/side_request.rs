//! Sends requests next to the conversation: the run pays for them.

use super::estimate::estimate_tokens;
use super::events::{Emit, millis, token_usage};
use super::limits::Account;
use crate::event::{Event, SideRequest, TokenUsage};
use crate::model::{Delta, Model, ModelError, Request, Turn};

/// Sends one, and reports what it cost.
pub(super) async fn ask(
    model: &dyn Model,
    request: &Request,
    purpose: &str,
    account: &mut Account,
    emit: Emit<'_>,
) -> Result<Turn, ModelError> {
    let mut ignored = |_: Delta| {};
    let answer = model.respond(request, &mut ignored).await;
    let price = model.facts().price;
    let (usage, cost_usd, requests, api_ms) = match &answer {
        Ok(turn) => {
            let estimate = estimate_tokens(&request.messages);
            let cost = account.spend(&turn.usage, estimate, price.as_ref());
            (token_usage(&turn.usage, estimate), cost, turn.requests, millis(turn.api_time))
        }
        // An answer that broke off costs the tokens that the server counted so far.
        Err(error) if error.usage.input_tokens.is_some() || error.usage.output_tokens.is_some() => {
            let cost = account.spend(&error.usage, 0, price.as_ref());
            (token_usage(&error.usage, 0), cost, error.requests, 0)
        }
        // A refusal costs nothing.
        Err(error) => {
            let none = TokenUsage { input_tokens: Some(0), output_tokens: Some(0), ..TokenUsage::default() };
            (none, Some(0.0), error.requests, 0)
        }
    };
    let purpose = purpose.to_owned();
    emit(Event::SideRequest(Box::new(SideRequest { purpose, usage, cost_usd, requests, api_ms })));
    answer
}
