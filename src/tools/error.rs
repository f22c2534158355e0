//! Defines why calls fail.

use crate::policy::Denial;

/// Why a call failed: an answer for the model, not a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// What the model should know to do it differently.
    pub message: String,
    /// Which kind of failure, for the guard against loops and for statistics.
    pub kind: ToolErrorKind,
    /// What the policy denied while the call ran; a denial before that is recorded where it is decided.
    pub denial: Option<Box<Denial>>,
}

/// Kinds of failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// The arguments are wrong.
    Arguments,
    /// The policy denied it.
    Denied,
    /// It was tried and did not work.
    Failed,
}

impl ToolError {
    /// The arguments are wrong.
    pub fn arguments(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), kind: ToolErrorKind::Arguments, denial: None }
    }

    /// It was tried and did not work.
    pub fn failed(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), kind: ToolErrorKind::Failed, denial: None }
    }

    /// The policy denied it, once it ran.
    pub fn denied(denial: Denial) -> ToolError {
        let mut message = format!("Denied by policy: {}.", denial.reason);
        if let Some(rule) = &denial.rule {
            message.push_str(&format!(" Rule: {} ({}).", rule.rule, rule.source));
        }
        if let Some(hint) = &denial.hint {
            message.push_str(&format!(" Hint: {hint}."));
        }
        ToolError { message, kind: ToolErrorKind::Denied, denial: Some(Box::new(denial)) }
    }
}
