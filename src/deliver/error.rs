//! Defines why nothing was delivered.

use crate::change::selection::SelectionError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;

/// Why nothing was delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// The project does not match the change (63).
    #[error("{message}")]
    Conflict {
        /// What, with its name.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The proposal cannot be read (42).
    #[error("{message}")]
    Input {
        /// What, with its line.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The gate refused (60).
    #[error("{message}")]
    Denied {
        /// What, with its name.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The disk failed (63).
    #[error("{message}")]
    Io {
        /// What, with its name.
        message: String,
        /// What to do.
        hint: String,
        /// Whether something had been written, and was rolled back completely.
        rolled_back: bool,
    },
    /// The chosen hunks are not in the patch, or not without others (2).
    #[error(transparent)]
    Selection(#[from] SelectionError),
}

impl DeliverError {
    pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> DeliverError {
        DeliverError::Conflict { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn denied(message: impl Into<String>, hint: impl Into<String>) -> DeliverError {
        DeliverError::Denied { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn io(what: impl std::fmt::Display, cause: &std::io::Error) -> DeliverError {
        let hint = match cause.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "free disk space, then apply the patch with `qwen apply`"
            }
            _ => "remove the cause, then deliver the patch of the result with `qwen apply`",
        };
        DeliverError::Io { message: format!("{what}: {cause}"), hint: hint.to_owned(), rolled_back: false }
    }

    /// Says more of what happened.
    pub(crate) fn with(mut self, more: &str) -> DeliverError {
        match &mut self {
            DeliverError::Conflict { message, .. }
            | DeliverError::Input { message, .. }
            | DeliverError::Denied { message, .. }
            | DeliverError::Io { message, .. } => message.push_str(&format!("; {more}")),
            DeliverError::Selection(_) => {}
        }
        self
    }

    /// Returns the exit code of the run.
    pub fn exit(&self) -> Exit {
        match self {
            DeliverError::Conflict { .. } | DeliverError::Io { .. } => Exit::Conflict,
            DeliverError::Input { .. } => Exit::Input,
            DeliverError::Denied { .. } => Exit::Denied,
            DeliverError::Selection(_) => Exit::Usage,
        }
    }

    /// Returns a hint.
    pub fn hint(&self) -> &str {
        match self {
            DeliverError::Conflict { hint, .. }
            | DeliverError::Input { hint, .. }
            | DeliverError::Denied { hint, .. }
            | DeliverError::Io { hint, .. } => hint,
            DeliverError::Selection(_) => "`qwen apply --list` shows the hunks and their numbers",
        }
    }

    /// Tells whether a delivery was begun and rolled back.
    pub fn rolled_back(&self) -> bool {
        matches!(self, DeliverError::Io { rolled_back: true, .. })
    }
}

pub(crate) fn from_repository(error: &RepositoryError) -> DeliverError {
    DeliverError::conflict(format!("the repository cannot be read: {error}"), error.hint())
}
