//! Defines why a change is not delivered.

use std::borrow::Cow;

use crate::base::CliError;
use crate::deliver::DeliverError;
use crate::deliver::message::MessageError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;
use crate::workspace::WorkspaceError;

/// Why a change is not delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The commit has no proper message.
    #[error("the commit's message: {0}")]
    Message(#[from] MessageError),
    /// A command's output in ignored directories cannot be read.
    #[error("cannot read the output of commands in ignored directories: {0}")]
    Ignored(String),
    /// An earlier delivery or undo was interrupted; what became of it.
    #[error("{0}")]
    CutOff(String),
    /// An earlier delivery or undo was interrupted, and cannot be finished.
    #[error("an earlier delivery or undo was interrupted and cannot be finished: {0}")]
    NotRolledBack(std::io::Error),
    /// The repository cannot be read again.
    #[error("{0}")]
    Repository(RepositoryError),
    /// The files cannot be read.
    #[error("{0}")]
    Files(WorkspaceError),
}

impl CliError for DeliveryError {
    fn exit(&self) -> Exit {
        match self {
            DeliveryError::Message(_) => Exit::Input,
            DeliveryError::Ignored(_)
            | DeliveryError::CutOff(_)
            | DeliveryError::NotRolledBack(_)
            | DeliveryError::Repository(_)
            | DeliveryError::Files(_) => Exit::Conflict,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match self {
            DeliveryError::Message(_) => "give one with --message",
            DeliveryError::Ignored(_) => "nothing was delivered; run again",
            DeliveryError::CutOff(_) => "run again",
            DeliveryError::NotRolledBack(_) => "run `qwen undo` in that directory: it tries again and names the file",
            DeliveryError::Repository(_) => "run `git status` there",
            DeliveryError::Files(_) => "make the directory readable",
        }))
    }
}

impl CliError for DeliverError {
    fn exit(&self) -> Exit {
        DeliverError::exit(self)
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(DeliverError::hint(self)))
    }
}
