//! Words denials: for the model, for the record, and where they end the run.

use serde_json::Value;

use super::ending::{OnDeny, Stopped, exceeded, stopped};
use super::limits::Account;
use crate::event::PermissionDenial;
use crate::exit::Exit;
use crate::model::ToolCall;
use crate::path::RelPath;
use crate::policy::{Decision, Denial};
use crate::tools::{ToolError, ToolErrorKind};

/// Says to the model what was denied.
pub(super) fn denied(decision: &Decision) -> ToolError {
    let mut message = format!("Denied by policy: {}.", decision.reason);
    if let Some(rule) = &decision.rule {
        message.push_str(&format!(" Rule: {} ({}).", rule.rule, rule.source));
    }
    if let Some(hint) = &decision.hint {
        message.push_str(&format!(" Hint: {hint}."));
    }
    ToolError { message, kind: ToolErrorKind::Denied }
}

/// A forbidden change of a command is a denial like any other, although the command itself was allowed.
pub(super) fn taken_back(refused: &[(RelPath, String)]) -> Option<Decision> {
    let (path, reason) = refused.first()?;
    let more = match refused.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let denial = Denial::new(format!("the change to {path} was undone{more}: {reason}")).by("gate");
    Some(denial.hint("allow it under `paths.write`, or leave it to files that may be written").into())
}

/// Records a denial; the caller adds what would allow the call.
pub(super) fn denial(
    turn: u32,
    call: &ToolCall,
    tool: &str,
    tool_input: Value,
    decision: &Decision,
) -> PermissionDenial {
    PermissionDenial {
        tool_name: tool.to_owned(),
        tool_use_id: call.id.clone(),
        tool_input,
        rule: decision.rule.as_ref().map(|rule| rule.rule.clone()),
        source: decision.rule.as_ref().map(|rule| rule.source.clone()),
        reason: decision.reason.clone(),
        hint: decision.hint.clone(),
        allow_with: None,
        turn,
    }
}

pub(super) fn deny(account: &mut Account, on_deny: OnDeny, tool: &str, decision: &Decision) -> Option<Stopped> {
    let rule = decision.rule.as_ref().map(|rule| rule.rule.as_str()).unwrap_or_default();
    let limit = account.deny(&format!("{tool} {rule} {}", decision.reason));
    match (limit, on_deny) {
        (Err(limit), _) => Some(exceeded(limit)),
        (Ok(()), OnDeny::Stop) => Some(stopped(
            Exit::Denied,
            "denied",
            format!("the policy denied a call of {tool}: {}", decision.reason),
            decision.hint.as_deref(),
        )),
        (Ok(()), OnDeny::Fail | OnDeny::Continue) => None,
    }
}
