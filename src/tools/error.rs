//! Defines why calls fail.

/// Why a call failed: an answer for the model, not a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// What the model should know to do it differently.
    pub message: String,
    /// Which kind of failure, for the guard against loops and for statistics.
    pub kind: ToolErrorKind,
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
        ToolError { message: message.into(), kind: ToolErrorKind::Arguments }
    }

    /// It was tried and did not work.
    pub fn failed(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), kind: ToolErrorKind::Failed }
    }
}
