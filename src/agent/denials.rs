//! Words denials: for the model, for the record, and where they end the run.

use serde_json::Value;

use super::ending::{OnDeny, Stopped, exceeded, stopped};
use super::limits::Account;
use crate::event::PermissionDenial;
use crate::exit::Exit;
use crate::model::ToolCall;
use crate::path::RelPath;
use crate::policy::{Decision, Denial};
use crate::tools::{ToolError, ToolOutput};

/// Says to the model what was denied before the call ran.
pub(super) fn denied(decision: &Decision) -> ToolError {
    let Decision { rule, reason, hint, .. } = decision.clone();
    ToolError { denial: None, ..ToolError::denied(Denial { rule, reason, hint, unanalysable: false }) }
}

/// A forbidden change of a command is a denial like any other, although the command itself was allowed.
pub(super) fn taken_back(refused: &[(RelPath, String)]) -> Option<Decision> {
    // pdm notes at its first start which Python it found; that the note is undone is nobody's doing.
    let counts = |(path, _): &&(RelPath, String)| path.file_name().is_none_or(|name| name != ".pdm-python");
    let (path, reason) = refused.iter().find(counts)?;
    let more = match refused.iter().filter(counts).count() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let denial = Denial::new(format!("the change to {path} was undone{more}: {reason}")).by("gate");
    Some(denial.hint("allow it under `paths.write`, or leave it to files that may be written").into())
}

/// What the policy denied while a call ran: an address that a redirect leads to, a program that the run changed.
pub(super) fn while_running(outcome: &Result<ToolOutput, ToolError>) -> Option<Decision> {
    let denial = outcome.as_ref().err()?.denial.as_deref()?;
    Some(denial.clone().into())
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
    account.describe_denial(&|| format!("{tool}: {}", decision.reason));
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
