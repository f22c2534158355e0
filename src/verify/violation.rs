//! Defines what a guard says of a change.

/// A rule that the change breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule's key.
    pub guard: &'static str,
    /// What breaks it, with path and line.
    pub message: String,
}
